"""Mistakes in the kernels of n-step aggregation. `kernels` has them in its table."""

from tests.mutants.mutant import Mutant

NSTEP_KERNEL_TESTS = {
    "cuda_src/nstep.cu": ("--kernels-only", "nstep", "capture_nstep", "nstep_steps", "gym"),
}

_ANYWHERE = "a ring may begin anywhere, and all that reads starts takes it modulo n"

_STORE = "const kept_t& k = s.kept[c];\n        copy_row(k, k.pending"
_GIVE = "const kept_t& k = s.kept[c];\n        if (k.out)"
_COLUMNS = "for (i64 c = 0; c < s.kept_columns; ++c) {\n        "
_WORDS = "for (i64 i = threadIdx.x; i < bytes / (i64)sizeof(word_t); i += blockDim.x)"
_FLAGS = "for (i64 i = threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i] != 0;"

_STRUCTS = [
    Mutant("#define MAX_KEPT 32", "#define MAX_KEPT 31"),
    Mutant("#define MAX_KEPT 32", "#define MAX_KEPT 33"),
    Mutant(
        "    const u8* step;  // one row an environment\n"
        "    u8* out;         // n rows an environment; null for the rewards, which are summed\n",
        "    u8* out;\n    const u8* step;\n",
    ),
    Mutant(
        "    u8* pending;     // rows of steps that wait; null for next_obs, which is the last "
        "step's\n    const u8* step;  // one row an environment\n",
        "    const u8* step;\n    u8* pending;\n",
    ),
    Mutant(
        "    i64 bytes;       // of a row\n    i64 boolean;\n", "    i64 boolean;\n    i64 bytes;\n"
    ),
    Mutant("    i64 n, n_envs;\n", "    i64 n_envs, n;\n"),
    Mutant(
        "    i64* starts;\n    i64* counts;\n    i64 kept_columns;\n",
        "    i64* counts;\n    i64* starts;\n    i64 kept_columns;\n",
    ),
    Mutant(
        "    kept_t kept[MAX_KEPT];  // the columns of a window's first step\n"
        "    kept_t next_obs;\n",
        "    kept_t next_obs;\n    kept_t kept[MAX_KEPT];\n",
    ),
    Mutant("    u32* reward;\n    u32* discount;\n", "    u32* discount;\n    u32* reward;\n"),
    Mutant(
        "    const u8* terminated;\n    const u8* truncated;\n",
        "    const u8* truncated;\n    const u8* terminated;\n",
    ),
    Mutant(
        "    const u8* truncated;\n    const u8* mask;  // null: every environment took a step\n",
        "    const u8* mask;\n    const u8* truncated;\n",
    ),
    Mutant(
        "    u8* terminated_out;\n    u8* truncated_out;\n",
        "    u8* truncated_out;\n    u8* terminated_out;\n",
    ),
    Mutant("    u8* truncated_out;\n    u8* valid;\n", "    u8* valid;\n    u8* truncated_out;\n"),
]

_ROWS = [
    # Words
    Mutant(_WORDS, _WORDS.replace("= threadIdx.x", "= 0")),
    Mutant(_WORDS, _WORDS.replace("= threadIdx.x", "= threadIdx.x + 1")),
    Mutant(_WORDS, _WORDS.replace("sizeof(word_t);", "sizeof(word_t) - 1;")),
    Mutant(_WORDS, _WORDS.replace("i < bytes", "i <= bytes")),
    Mutant(_WORDS, _WORDS.replace("i < bytes / (i64)sizeof(word_t)", "i < bytes")),
    Mutant(_WORDS, _WORDS.replace("i < bytes / (i64)sizeof(word_t)", "i < bytes / 16")),
    Mutant(_WORDS, _WORDS.replace("i += blockDim.x", "i = bytes")),
    Mutant(_WORDS, _WORDS.replace("i += blockDim.x", "i += 1")),
    Mutant(_WORDS, _WORDS.replace("i += blockDim.x", "i += 2 * blockDim.x")),
    Mutant("((word_t*)to)[i] =", "((word_t*)to)[0] ="),
    Mutant("((const word_t*)from)[i];", "((const word_t*)from)[0];"),
    # Booleans
    Mutant("if (column.boolean) {", "if (false) {"),
    Mutant("if (column.boolean) {", "if (true) {"),
    Mutant("if (column.boolean) {", "if (!column.boolean) {"),
    Mutant(_FLAGS, _FLAGS.replace("= threadIdx.x", "= 0")),
    Mutant(_FLAGS, _FLAGS.replace("= threadIdx.x", "= threadIdx.x + 1")),
    Mutant(_FLAGS, _FLAGS.replace("i < bytes", "i < bytes - 1")),
    Mutant(_FLAGS, _FLAGS.replace("i < bytes", "i <= bytes")),
    Mutant(_FLAGS, _FLAGS.replace("i < bytes", "i < 1")),
    Mutant(_FLAGS, _FLAGS.replace("i += blockDim.x", "i = bytes")),
    Mutant(_FLAGS, _FLAGS.replace("i += blockDim.x", "i += 1")),
    Mutant(_FLAGS, _FLAGS.replace("from[i] != 0", "from[i]")),
    Mutant(_FLAGS, _FLAGS.replace("from[i] != 0", "from[i] == 0")),
    Mutant(_FLAGS, _FLAGS.replace("from[i] != 0", "from[i] == 1")),
    Mutant(_FLAGS, _FLAGS.replace("from[i] != 0", "from[i] & 1")),
    Mutant(_FLAGS, _FLAGS.replace("from[i] != 0", "from[0] != 0")),
    Mutant(f"{_FLAGS}\n        return;\n", f"{_FLAGS}\n"),
    # The widest word
    Mutant(
        "(u64)to | (u64)from | (u64)bytes",
        "(u64)from | (u64)bytes",
        equivalent="it is an array of the buffer's own, which begins on 256 bytes, so a row of "
        "it lies on whatever the rows' length is a multiple of",
    ),
    Mutant("(u64)to | (u64)from | (u64)bytes", "(u64)to | (u64)bytes"),
    Mutant("(u64)to | (u64)from | (u64)bytes", "(u64)to | (u64)from"),
    Mutant("(u64)to | (u64)from | (u64)bytes", "(u64)to & (u64)from & (u64)bytes"),
    Mutant("const i64 bytes = column.bytes;", "const i64 bytes = column.bytes - 1;"),
    Mutant("case 16: copy_words<uint4>", "case 16: copy_words<u64>"),
    Mutant("case 8: copy_words<u64>", "case 8: copy_words<u32>"),
    Mutant("case 4: copy_words<u32>", "case 4: copy_words<unsigned short>"),
    Mutant("case 2: copy_words<unsigned short>", "case 2: copy_words<u8>"),
    Mutant("case 8: copy_words<u64>", "case 8: copy_words<uint4>"),
    Mutant("case 4: copy_words<u32>", "case 4: copy_words<u64>"),
    Mutant("case 2: copy_words<unsigned short>", "case 2: copy_words<u32>"),
    Mutant("default: copy_words<u8>", "default: copy_words<unsigned short>"),
    Mutant("copy_words<uint4>(to, from, bytes); break;", "copy_words<uint4>(to, from, bytes);"),
    Mutant("copy_words<u64>(to, from, bytes); break;", "copy_words<u64>(to, from, bytes);"),
    Mutant("copy_words<u32>(to, from, bytes); break;", "copy_words<u32>(to, from, bytes);"),
    Mutant(
        "copy_words<unsigned short>(to, from, bytes); break;",
        "copy_words<unsigned short>(to, from, bytes);",
    ),
]

_WINDOWS = [
    # The return
    Mutant("double total = 0.0, discount = 1.0;", "float total = 0.0f; double discount = 1.0;"),
    Mutant("double total = 0.0, discount = 1.0;", "double total = 0.0; float discount = 1.0f;"),
    Mutant("double total = 0.0, discount = 1.0;", "double total = 1.0, discount = 1.0;"),
    Mutant("double total = 0.0, discount = 1.0;", "double total = 0.0, discount = s.gamma;"),
    Mutant("double total = 0.0, discount = 1.0;", "double total = -0.0, discount = 1.0;"),
    Mutant("k = 0; k < length; ++k", "k = 1; k < length; ++k"),
    Mutant("k = 0; k < length; ++k", "k = 0; k <= length; ++k"),
    Mutant("k = 0; k < length; ++k", "k = 0; k < length - 1; ++k"),
    Mutant("k = 0; k < length; ++k", "k = 0; k < s.n; ++k"),
    Mutant("k = 0; k < length; ++k", "k = length - 1; k >= 0; --k"),
    Mutant("total += discount * exact_double(", "total = discount * exact_double("),
    Mutant("total += discount * exact_double(", "total -= discount * exact_double("),
    Mutant("total += discount * exact_double(", "total += exact_double("),
    Mutant("total += discount * exact_double(", "total += (float)discount * exact_double("),
    Mutant(
        "total += discount * exact_double(s.rewards[env * s.n + (first + k) % s.n]);",
        "total = fma(discount, exact_double(s.rewards[env * s.n + (first + k) % s.n]), total);",
    ),
    Mutant(
        "exact_double(s.rewards[env * s.n + (first + k) % s.n]);",
        "(double)__uint_as_float(s.rewards[env * s.n + (first + k) % s.n]);",
    ),
    Mutant(
        "exact_double(s.rewards[env * s.n + (first + k) % s.n]);",
        "fabs(exact_double(s.rewards[env * s.n + (first + k) % s.n]));",
    ),
    Mutant("s.rewards[env * s.n + (first + k) % s.n]", "s.rewards[(first + k) % s.n]"),
    Mutant("s.rewards[env * s.n + (first + k) % s.n]", "s.rewards[env + (first + k) % s.n]"),
    Mutant("s.rewards[env * s.n + (first + k) % s.n]", "s.rewards[env * s.n + first + k]"),
    Mutant("s.rewards[env * s.n + (first + k) % s.n]", "s.rewards[env * s.n + first % s.n]"),
    Mutant("s.rewards[env * s.n + (first + k) % s.n]", "s.rewards[env * s.n + k]"),
    Mutant(
        "s.rewards[env * s.n + (first + k) % s.n]", "s.rewards[env * s.n + (first + k + 1) % s.n]"
    ),
    Mutant(
        "s.rewards[env * s.n + (first + k) % s.n]",
        "s.rewards[env * s.n + (first + length - 1 - k) % s.n]",
    ),
    Mutant("s.rewards[env * s.n + (first + k) % s.n]", "s.rewards[row]"),
    # The discount
    Mutant("        discount *= s.gamma;\n", ""),
    Mutant("discount *= s.gamma;", "discount += s.gamma;"),
    Mutant("discount *= s.gamma;", "discount = s.gamma;"),
    Mutant("discount *= s.gamma;", "discount /= s.gamma;"),
    Mutant("discount *= s.gamma;", "discount *= (float)s.gamma;"),
    Mutant("discount *= s.gamma;", "discount = (float)(discount * s.gamma);"),
    Mutant("discount *= s.gamma;", "discount = pow(s.gamma, (double)(k + 1));"),
    Mutant(
        "        total += discount * exact_double(s.rewards[env * s.n + (first + k) % s.n]);\n"
        "        discount *= s.gamma;\n",
        "        discount *= s.gamma;\n"
        "        total += discount * exact_double(s.rewards[env * s.n + (first + k) % s.n]);\n",
    ),
    Mutant("terminated ? 0u : float_bits(discount)", "float_bits(discount)"),
    Mutant("terminated ? 0u : float_bits(discount)", "0u"),
    Mutant("terminated ? 0u : float_bits(discount)", "terminated ? float_bits(discount) : 0u"),
    Mutant("terminated ? 0u : float_bits(discount)", "terminated ? 0u : float_bits(s.gamma)"),
    Mutant(
        "terminated ? 0u : float_bits(discount)", "terminated ? 0x80000000u : float_bits(discount)"
    ),
    Mutant(
        "terminated ? 0u : float_bits(discount)",
        "terminated ? 0u : __float_as_uint(__double2float_rn(discount))",
    ),
    Mutant(
        "terminated ? 0u : float_bits(discount)",
        "terminated || s.truncated[env] ? 0u : float_bits(discount)",
    ),
    # Where they go
    Mutant("s.reward[row] = float_bits(total);", ""),
    Mutant("s.reward[row] = float_bits(total);", "s.reward[env * s.n] = float_bits(total);"),
    Mutant(
        "s.reward[row] = float_bits(total);",
        "s.reward[row] = __float_as_uint(__double2float_rn(total));",
    ),
    Mutant("s.reward[row] = float_bits(total);", "s.reward[row] = float_bits(fabs(total));"),
    Mutant("s.discount[row] =", "s.discount[env * s.n] ="),
    Mutant("terminated = s.terminated[env] != 0;", "terminated = s.terminated[env] == 1;"),
    Mutant("terminated = s.terminated[env] != 0;", "terminated = s.terminated[env] == 0;"),
    Mutant("terminated = s.terminated[env] != 0;", "terminated = s.terminated[0] != 0;"),
    Mutant("terminated = s.terminated[env] != 0;", "terminated = s.truncated[env] != 0;"),
    Mutant(
        "terminated = s.terminated[env] != 0;",
        "terminated = s.terminated[env] && !s.truncated[env];",
    ),
    Mutant("s.terminated_out[row] = terminated;", ""),
    Mutant("s.terminated_out[row] = terminated;", "s.terminated_out[row] = s.terminated[env];"),
    Mutant("s.terminated_out[row] = terminated;", "s.terminated_out[env] = terminated;"),
    Mutant("s.truncated_out[row] = s.truncated[env] != 0;", ""),
    Mutant("s.truncated_out[row] = s.truncated[env] != 0;", "s.truncated_out[row] = !terminated;"),
    Mutant("s.truncated[env] != 0;", "s.truncated[env];"),
    Mutant("s.truncated[env] != 0;", "s.truncated[env] == 1;"),
    Mutant("s.truncated[env] != 0;", "s.truncated[0] != 0;"),
    Mutant("s.truncated[env] != 0;", "s.truncated[env] && !terminated;"),
    Mutant("s.truncated_out[row] =", "s.truncated_out[env] ="),
]

_APPEND = [
    # Which environment
    Mutant("env = blockIdx.x; env < s.n_envs;", "env = 0; env < s.n_envs;"),
    Mutant("env = blockIdx.x; env < s.n_envs;", "env = blockIdx.x + 1; env < s.n_envs;"),
    Mutant("env < s.n_envs; env += gridDim.x", "env < s.n_envs - 1; env += gridDim.x"),
    Mutant("env < s.n_envs; env += gridDim.x", "env <= s.n_envs; env += gridDim.x"),
    Mutant("env < s.n_envs; env += gridDim.x", "env < s.n_envs; env = s.n_envs"),
    Mutant("env < s.n_envs; env += gridDim.x", "env < s.n_envs; env += 1"),
    Mutant("env < s.n_envs; env += gridDim.x", "env < s.n_envs; env += blockDim.x"),
    Mutant("base = env * s.n;", "base = env;"),
    Mutant("base = env * s.n;", "base = 0;"),
    Mutant("base = env * s.n;", "base = env * (s.n - 1);"),
    # What it did
    Mutant("!s.mask || s.mask[env]", "true"),
    Mutant("!s.mask || s.mask[env]", "s.mask && s.mask[env]"),
    Mutant("!s.mask || s.mask[env]", "!s.mask || !s.mask[env]"),
    Mutant("!s.mask || s.mask[env]", "!s.mask || s.mask[env] == 1"),
    Mutant("!s.mask || s.mask[env]", "!s.mask || s.mask[0]"),
    Mutant("!s.mask || s.mask[env]", "s.mask[env]"),
    Mutant("!s.mask || s.mask[env]", "!s.mask"),
    Mutant("m.start = s.starts[env];", "m.start = 0;"),
    Mutant("m.start = s.starts[env];", "m.start = s.starts[0];"),
    Mutant("m.held = s.counts[env] + 1;", "m.held = s.counts[env];"),
    Mutant("m.held = s.counts[env] + 1;", "m.held = s.counts[0] + 1;"),
    Mutant("m.held = s.counts[env] + 1;", "m.held = s.counts[env] + 2;"),
    Mutant("s.terminated[env] || s.truncated[env];", "s.terminated[env];"),
    Mutant("s.terminated[env] || s.truncated[env];", "s.truncated[env];"),
    Mutant("s.terminated[env] || s.truncated[env];", "s.terminated[env] && s.truncated[env];"),
    Mutant("s.terminated[env] || s.truncated[env];", "s.terminated[env] != s.truncated[env];"),
    Mutant(
        "s.terminated[env] || s.truncated[env];", "(s.terminated[env] | s.truncated[env]) == 1;"
    ),
    Mutant("s.terminated[env] || s.truncated[env];", "s.terminated[0] || s.truncated[0];"),
    Mutant("s.terminated[env] || s.truncated[env];", "false;"),
    # How many windows that completes
    Mutant("!m.stepped ? 0 : m.ended ? m.held", "m.ended ? m.held"),
    Mutant("!m.stepped ? 0 : m.ended ? m.held", "m.stepped ? 0 : m.ended ? m.held"),
    Mutant("!m.stepped ? 0 : m.ended ? m.held", "!m.stepped ? 1 : m.ended ? m.held"),
    Mutant(
        "m.ended ? m.held : m.held == s.n ? 1 : 0", "m.ended ? m.held - 1 : m.held == s.n ? 1 : 0"
    ),
    Mutant("m.ended ? m.held : m.held == s.n ? 1 : 0", "m.ended ? 1 : m.held == s.n ? 1 : 0"),
    Mutant("m.ended ? m.held : m.held == s.n ? 1 : 0", "!m.ended ? m.held : m.held == s.n ? 1 : 0"),
    Mutant("m.ended ? m.held : m.held == s.n ? 1 : 0", "m.held == s.n ? 1 : 0"),
    Mutant("m.ended ? m.held : m.held == s.n ? 1 : 0", "m.ended ? m.held : 0"),
    Mutant("m.ended ? m.held : m.held == s.n ? 1 : 0", "m.ended ? m.held : 1"),
    Mutant(
        "m.ended ? m.held : m.held == s.n ? 1 : 0", "m.ended ? m.held : m.held == s.n ? m.held : 0"
    ),
    Mutant(
        "m.ended ? m.held : m.held == s.n ? 1 : 0", "m.ended ? m.held : m.held == s.n - 1 ? 1 : 0"
    ),
    Mutant(
        "m.ended ? m.held : m.held == s.n ? 1 : 0", "m.ended ? m.held : m.held == s.n + 1 ? 1 : 0"
    ),
    Mutant("m.ended ? m.held : m.held == s.n ? 1 : 0", "m.ended ? m.held : m.held != s.n ? 1 : 0"),
    Mutant(
        "m.ended ? m.held : m.held == s.n ? 1 : 0",
        "m.ended ? m.held : m.held >= s.n ? 1 : 0",
        equivalent="fewer than n steps wait, so one more makes n at most",
    ),
    # The step that comes in
    Mutant(
        "if (m.stepped) keep_step",
        "keep_step",
        equivalent="the slot after the last pending step is free, and filled when one is taken",
    ),
    Mutant("if (m.stepped) keep_step", "if (!m.stepped) keep_step"),
    Mutant(_COLUMNS + _STORE, _COLUMNS.replace("= 0", "= 1") + _STORE),
    Mutant(_COLUMNS + _STORE, _COLUMNS.replace("kept_columns", "kept_columns - 1") + _STORE),
    Mutant(
        _COLUMNS + _STORE,
        _COLUMNS.replace("<", "<=") + _STORE,
        equivalent="behind the columns the struct has an empty one, of rows of 0 bytes",
    ),
    Mutant(_STORE, _STORE.replace("s.kept[c]", "s.kept[0]")),
    Mutant("env * s.n + (m.start + m.held - 1) % s.n;", "env * s.n + (m.start + m.held) % s.n;"),
    Mutant("env * s.n + (m.start + m.held - 1) % s.n;", "env * s.n + m.start + m.held - 1;"),
    Mutant("env * s.n + (m.start + m.held - 1) % s.n;", "env * s.n + m.start % s.n;"),
    Mutant("env * s.n + (m.start + m.held - 1) % s.n;", "env * s.n + m.held - 1;"),
    Mutant("env * s.n + (m.start + m.held - 1) % s.n;", "(m.start + m.held - 1) % s.n;"),
    Mutant("env * s.n + (m.start + m.held - 1) % s.n;", "env * s.n;"),
    Mutant("k.pending + slot * k.bytes, k.step", "k.pending + slot, k.step"),
    Mutant("k.step + env * k.bytes);", "k.step);"),
    Mutant("k.step + env * k.bytes);", "k.step + env * s.n * k.bytes);"),
    Mutant("k.step + env * k.bytes);", "k.step + env);"),
    # Barriers
    Mutant(
        "        __syncthreads();\n        for (i64 j = 0; j < m.complete",
        "        for (i64 j = 0; j < m.complete",
    ),
    # The windows that go out
    Mutant("j = 0; j < m.complete; ++j", "j = 1; j < m.complete; ++j"),
    Mutant("j = 0; j < m.complete; ++j", "j = 0; j < m.complete - 1; ++j"),
    Mutant("j = 0; j < m.complete; ++j", "j = 0; j < m.complete && j < 1; ++j"),
    Mutant("j = 0; j < m.complete; ++j", "j = 0; j < m.complete && j < s.n - 1; ++j"),
    Mutant("j = 0; j < m.complete; ++j", "j = 0; j <= m.complete; ++j"),
    Mutant(_COLUMNS + _GIVE, _COLUMNS.replace("= 0", "= 1") + _GIVE),
    Mutant(_COLUMNS + _GIVE, _COLUMNS.replace("kept_columns", "kept_columns - 1") + _GIVE),
    Mutant(
        _COLUMNS + _GIVE,
        _COLUMNS.replace("<", "<=") + _GIVE,
        equivalent="behind the columns the struct has an empty one, of rows of 0 bytes",
    ),
    Mutant(_GIVE, _GIVE.replace("s.kept[c]", "s.kept[0]")),
    Mutant("if (k.out)", "if (true)"),
    Mutant("if (k.out)", "if (!k.out)"),
    Mutant("k.out + row * k.bytes,", "k.out + env * s.n * k.bytes,"),
    Mutant("k.out + row * k.bytes,", "k.out + j * k.bytes,"),
    Mutant("k.out + row * k.bytes,", "k.out + (env + j) * k.bytes,"),
    Mutant("k.out + row * k.bytes,", "k.out + slot * k.bytes,"),
    Mutant("env * s.n + (m.start + j) % s.n;", "env * s.n + m.start % s.n;"),
    Mutant("env * s.n + (m.start + j) % s.n;", "env * s.n + j;"),
    Mutant("env * s.n + (m.start + j) % s.n;", "env * s.n + m.start + j;"),
    Mutant("env * s.n + (m.start + j) % s.n;", "(m.start + j) % s.n;"),
    Mutant("env * s.n + (m.start + j) % s.n;", "env * s.n + (m.start + j + 1) % s.n;"),
    Mutant("env * s.n + (m.start + j) % s.n;", "env * s.n + (m.start + m.held - 1 - j) % s.n;"),
    Mutant("k.pending + slot * k.bytes);", "k.pending + slot);"),
    Mutant("copy_window(s, env, m, j, base + j);", "copy_window(s, env, m, 0, base + j);"),
    Mutant("last.out + row * last.bytes", "last.out + env * s.n * last.bytes"),
    Mutant("last.out + row * last.bytes", "last.out + j * last.bytes"),
    Mutant("last.out + row * last.bytes", "last.out + (env + j) * last.bytes"),
    Mutant("last.step + env * last.bytes", "last.step"),
    Mutant("last.step + env * last.bytes", "last.step + env * s.n * last.bytes"),
    Mutant("last.step + env * last.bytes", "last.step + (env + j) * last.bytes"),
    # Their numbers, and which are complete
    Mutant("j = threadIdx.x; j < s.n; j += blockDim.x", "j = 0; j < s.n; j += blockDim.x"),
    Mutant(
        "j = threadIdx.x; j < s.n; j += blockDim.x", "j = threadIdx.x + 1; j < s.n; j += blockDim.x"
    ),
    Mutant(
        "j = threadIdx.x; j < s.n; j += blockDim.x", "j = threadIdx.x; j < s.n - 1; j += blockDim.x"
    ),
    Mutant(
        "j = threadIdx.x; j < s.n; j += blockDim.x", "j = threadIdx.x; j <= s.n; j += blockDim.x"
    ),
    Mutant(
        "j = threadIdx.x; j < s.n; j += blockDim.x",
        "j = threadIdx.x; j < m.complete; j += blockDim.x",
    ),
    Mutant(
        "j = threadIdx.x; j < s.n; j += blockDim.x", "j = threadIdx.x; j < m.held; j += blockDim.x"
    ),
    Mutant("j = threadIdx.x; j < s.n; j += blockDim.x", "j = threadIdx.x; j < s.n; j = s.n"),
    Mutant("j = threadIdx.x; j < s.n; j += blockDim.x", "j = threadIdx.x; j < s.n; j += 1"),
    Mutant("s.valid[base + j] = j < m.complete;", "s.valid[base + j] = j <= m.complete;"),
    Mutant("s.valid[base + j] = j < m.complete;", "s.valid[base + j] = true;"),
    Mutant("s.valid[base + j] = j < m.complete;", "s.valid[base + j] = j == 0;"),
    Mutant("s.valid[base + j] = j < m.complete;", "s.valid[base + j] = m.complete;"),
    Mutant("s.valid[base + j] = j < m.complete;", "s.valid[base + j] = j < m.held;"),
    Mutant("s.valid[base + j] = j < m.complete;", "s.valid[j] = j < m.complete;"),
    Mutant("s.valid[base + j] = j < m.complete;", "s.valid[base + s.n - 1 - j] = j < m.complete;"),
    Mutant("s.valid[base + j] = j < m.complete;", "if (j < m.complete) s.valid[base + j] = true;"),
    Mutant("if (j < m.complete)\n                write_window", "write_window"),
    Mutant(
        "if (j < m.complete)\n                write_window",
        "if (j <= m.complete)\n                write_window",
        equivalent="a row that is not valid may hold anything",
    ),
    Mutant(
        "if (j < m.complete)\n                write_window",
        "if (j < m.complete - 1)\n                write_window",
    ),
    Mutant(
        "if (j < m.complete)\n                write_window",
        "if (j == 0)\n                write_window",
    ),
    Mutant(
        "(s, env, base + j, (m.start + j) % s.n, m.held - j)",
        "(s, env, base, (m.start + j) % s.n, m.held - j)",
    ),
    Mutant(
        "(s, env, base + j, (m.start + j) % s.n, m.held - j)",
        "(s, env, j, (m.start + j) % s.n, m.held - j)",
    ),
    Mutant(
        "(s, env, base + j, (m.start + j) % s.n, m.held - j)",
        "(s, env, base + j, m.start, m.held - j)",
    ),
    Mutant(
        "(s, env, base + j, (m.start + j) % s.n, m.held - j)", "(s, env, base + j, j, m.held - j)"
    ),
    Mutant(
        "(s, env, base + j, (m.start + j) % s.n, m.held - j)",
        "(s, env, base + j, m.start + j, m.held - j)",
        equivalent="a window's slots are taken modulo n where its rewards are read",
    ),
    Mutant(
        "(s, env, base + j, (m.start + j) % s.n, m.held - j)",
        "(s, env, base + j, (m.start + j) % s.n, m.held)",
    ),
    Mutant(
        "(s, env, base + j, (m.start + j) % s.n, m.held - j)",
        "(s, env, base + j, (m.start + j) % s.n, s.n)",
    ),
    Mutant(
        "(s, env, base + j, (m.start + j) % s.n, m.held - j)",
        "(s, env, base + j, (m.start + j) % s.n, m.complete - j)",
    ),
    Mutant(
        "(s, env, base + j, (m.start + j) % s.n, m.held - j)",
        "(s, env, base + j, (m.start + j) % s.n, m.held - j - 1)",
    ),
    # The ring that moves
    Mutant("if (threadIdx.x == 0 && m.stepped) move", "if (m.stepped) move"),
    Mutant("if (threadIdx.x == 0 && m.stepped) move", "if (threadIdx.x == 0) move"),
    Mutant("if (threadIdx.x == 0 && m.stepped) move", "if (threadIdx.x == 1 && m.stepped) move"),
    Mutant(
        "if (threadIdx.x == 0 && m.stepped) move",
        "if (threadIdx.x == blockDim.x && m.stepped) move",
    ),
    Mutant("if (threadIdx.x == 0 && m.stepped) move", "if (threadIdx.x == 0 && !m.stepped) move"),
    Mutant(
        "moved = !m.ended && m.held == s.n;",
        "moved = m.held == s.n;",
        equivalent="where the episode ended, it is not looked at",
    ),
    Mutant("moved = !m.ended && m.held == s.n;", "moved = !m.ended;"),
    Mutant("moved = !m.ended && m.held == s.n;", "moved = !m.ended && m.held == s.n - 1;"),
    Mutant("moved = !m.ended && m.held == s.n;", "moved = !m.ended && m.held != s.n;"),
    Mutant("moved = !m.ended && m.held == s.n;", "moved = 0;"),
    Mutant(
        "m.ended ? 0 : (m.start + moved) % s.n;", "(m.start + moved) % s.n;", equivalent=_ANYWHERE
    ),
    Mutant(
        "m.ended ? 0 : (m.start + moved) % s.n;",
        "m.ended ? 0 : m.start + moved;",
        equivalent=_ANYWHERE,
    ),
    Mutant(
        "m.ended ? 0 : (m.start + moved) % s.n;",
        "m.ended ? 1 : (m.start + moved) % s.n;",
        equivalent=_ANYWHERE,
    ),
    Mutant("m.ended ? 0 : (m.start + moved) % s.n;", "m.ended ? 0 : m.start;"),
    Mutant("m.ended ? 0 : (m.start + moved) % s.n;", "m.ended ? 0 : (m.start + 1) % s.n;"),
    Mutant("m.ended ? 0 : (m.start + moved) % s.n;", "m.ended ? 0 : (m.start + 2 * moved) % s.n;"),
    Mutant("s.starts[env] =", "s.starts[0] ="),
    Mutant("m.ended ? 0 : m.held - moved;", "m.held - moved;"),
    Mutant("m.ended ? 0 : m.held - moved;", "m.ended ? 0 : m.held;"),
    Mutant("m.ended ? 0 : m.held - moved;", "m.ended ? 0 : m.held - 1;"),
    Mutant("m.ended ? 0 : m.held - moved;", "m.ended ? 1 : m.held - moved;"),
    Mutant("s.counts[env] = m.ended", "s.counts[0] = m.ended"),
]

_FORGET = [
    Mutant("env = grid_start(); env < n_envs;", "env = 0; env < n_envs;"),
    Mutant("env = grid_start(); env < n_envs;", "env = grid_start() + 1; env < n_envs;"),
    Mutant("env < n_envs; env += grid_step()", "env < n_envs - 1; env += grid_step()"),
    Mutant("env < n_envs; env += grid_step()", "env <= n_envs; env += grid_step()"),
    Mutant("env < n_envs; env += grid_step()", "env < n_envs; env = n_envs"),
    Mutant("env < n_envs; env += grid_step()", "env < n_envs; env += 1"),
    Mutant("if (!mask || mask[env]) counts", "counts"),
    Mutant("!mask || mask[env]) counts", "!mask) counts"),
    Mutant("!mask || mask[env]) counts", "mask && mask[env]) counts"),
    Mutant("!mask || mask[env]) counts", "mask[env]) counts"),
    Mutant("!mask || mask[env]) counts", "!mask || !mask[env]) counts"),
    Mutant("!mask || mask[env]) counts", "!mask || mask[0]) counts"),
    Mutant("!mask || mask[env]) counts", "!mask || mask[env] == 1) counts"),
    Mutant("counts[env] = 0;", "counts[0] = 0;"),
    Mutant("counts[env] = 0;", "counts[env] = 1;"),
    Mutant("counts[env] = 0;", "counts[env] -= 1;"),
    Mutant("counts[env] = 0;", "counts[env] += 0;"),
]

NSTEP_KERNELS = {
    "cuda_src/nstep.cu": [*_STRUCTS, *_ROWS, *_WINDOWS, *_APPEND, *_FORGET],
}
