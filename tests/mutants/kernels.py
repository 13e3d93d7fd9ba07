"""Mistakes in the kernels, file by file. ``python -m tests.mutants --only kernels`` plants them."""

from tests.mutants.kernels_of_nstep import NSTEP_KERNEL_TESTS, NSTEP_KERNELS
from tests.mutants.kernels_of_priorities import PRIORITY_KERNEL_TESTS, PRIORITY_KERNELS
from tests.mutants.mutant import Mutant

_OF_PRIORITIES = ("priorities", "prioritized", "capture_prioritized", "state_machine_prioritized")
_FIRST = (
    "--kernels-only", "golden", "replay", "large", "policies", "recent_and_demos", "batch",
    "capture", "steps", "state_machine",
)  # fmt: skip

#: The test files that a mutant of a source meets, those that fail soonest first.
KERNEL_TESTS = {
    "cuda_src/common.cuh": _FIRST,
    "cuda_src/control.cuh": ("control", *_FIRST),
    "cuda_src/draws.cu": (*_FIRST, *_OF_PRIORITIES),
    "cuda_src/copy.cuh": ("replay", "large", "batch", "device_arrays", "nstep", *_FIRST),
    "cuda_src/mask.cuh": ("replay", "prioritized", *_FIRST),
    "cuda_src/philox.cuh": (*_FIRST, *_OF_PRIORITIES),
    "cuda_src/quantize.cuh": ("replay", "inputs", *_FIRST),
    "cuda_src/rows.cu": (
        "replay", "large", "batch", "inputs", "device_arrays", *_FIRST, *_OF_PRIORITIES,
    ),
    **PRIORITY_KERNEL_TESTS,
    **NSTEP_KERNEL_TESTS,
}  # fmt: skip

_ONE_THREAD = "the host launches this kernel with one thread of one block"
_LARGE_BATCH = "a batch of more than 2**31 bytes, which the emulator would copy for minutes"

_COMMON = [
    # Which thread does what
    Mutant("return (i64)blockIdx.x * blockDim.x + threadIdx.x;", "return threadIdx.x;"),
    Mutant(
        "return (i64)blockIdx.x * blockDim.x + threadIdx.x;", "return (i64)blockIdx.x * blockDim.x;"
    ),
    Mutant(
        "return (i64)blockIdx.x * blockDim.x + threadIdx.x;",
        "return (i64)blockIdx.x * blockDim.x + threadIdx.x + 1;",
    ),
    Mutant(
        "return (i64)blockIdx.x * blockDim.x",
        "return blockIdx.x * blockDim.x",
        equivalent="grids have at most 4096 blocks of 256 threads: 2**20 in 32 bits",
    ),
    Mutant("return (i64)gridDim.x * blockDim.x;", "return blockDim.x;"),
    Mutant("return (i64)gridDim.x * blockDim.x;", "return 1ll << 40;"),
    Mutant("return blockIdx.x == 0 && threadIdx.x == 0;", "return threadIdx.x == 0;"),
    Mutant("return blockIdx.x == 0 && threadIdx.x == 0;", "return blockIdx.x == 0;"),
    Mutant("return blockIdx.x == 0 && threadIdx.x == 0;", "return true;"),
    Mutant("return blockIdx.x == 0 && threadIdx.x == 0;", "return false;"),
]

_CONTROL = [
    # The record
    Mutant(
        """    i64 total;       // rows ever written
    i64 demo_count;  // rows [0, demo_count) are never overwritten
""",
        """    i64 demo_count;
    i64 total;
""",
    ),
    Mutant(
        """    i64 c_min;  // the ERE window's floor, in rows
    i64 k_max;  // draws after which the window is whole again
""",
        """    i64 k_max;
    i64 c_min;
""",
    ),
    Mutant("    double eta;\n    double eta_power;", "    double eta_power;\n    double eta;"),
    Mutant(
        """    u64 draws;  // the number of the next draw
    u64 key;    // splitmix64(seed)
""",
        """    u64 key;
    u64 draws;
""",
    ),
    Mutant(
        "i64 k;  ",
        "i32 k;  ",
        equivalent="the next field is aligned to 8 bytes, so the offsets stay; k < k_max, and a "
        "window of 2**31 draws would take years",
    ),
    Mutant("double eta_power;", "float eta_power;"),
    Mutant(
        "i64 ere_enabled;",
        "i32 ere_enabled;",
        equivalent="the next field is aligned to 8 bytes, so the offsets stay; its value is 0 or 1",
    ),
    Mutant(
        "    double alpha;      // exponent of a priority: 0 draws uniformly\n"
        "    double beta;       // exponent of a weight: 1 corrects for the priorities in full\n",
        "    double beta;\n    double alpha;\n",
    ),
    Mutant("    double epsilon; ", "    float epsilon; "),
    Mutant("    double max_priority; ", "    float max_priority; "),
    Mutant(
        "    i64 invalid_priorities;   // lanes of updates that had no finite priority\n"
        "    i64 stale_updates;        // lanes of updates whose row was no longer the one drawn\n",
        "    i64 stale_updates;\n    i64 invalid_priorities;\n",
    ),
    Mutant("    u64 run; ", "    u32 run; "),
    # The ring
    Mutant("return c->capacity - c->demo_count;", "return c->capacity;"),
    Mutant("return c->capacity - c->demo_count;", "return c->capacity - c->demo_count + 1;"),
    Mutant("return c->demo_count + (c->total", "return (c->total"),
    Mutant("(c->total - c->demo_count + ahead)", "(c->total + ahead)"),
    Mutant("(c->total - c->demo_count + ahead)", "(c->total - c->demo_count)"),
    Mutant("(c->total - c->demo_count + ahead)", "(c->total - c->demo_count + ahead + 1)"),
    Mutant("(c->total - c->demo_count + ahead)", "((i32)c->total - c->demo_count + ahead)"),
    Mutant("% ring_rows(c)", "% c->capacity"),
    Mutant("c->total < c->capacity ? c->total : c->capacity", "c->capacity"),
    Mutant("c->total < c->capacity ? c->total : c->capacity", "c->total"),
    Mutant(
        "c->total < c->capacity ? c->total : c->capacity",
        "c->total < c->capacity - 1 ? c->total : c->capacity",
    ),
    # The ERE window
    Mutant("(double)size * c->eta_power", "(float)size * c->eta_power"),
    Mutant("(double)size * c->eta_power", "(float)((double)size * c->eta_power)"),
    Mutant("(double)size * c->eta_power", "(double)size * c->eta"),
    Mutant("(double)size * c->eta_power", "(double)c->capacity * c->eta_power"),
    Mutant("(i64)((double)size * c->eta_power)", "(i64)((double)size * c->eta_power + 0.5)"),
    Mutant("(i64)((double)size * c->eta_power)", "(i32)((double)size * c->eta_power)"),
    Mutant("shrunk > c->c_min ? shrunk : c->c_min", "shrunk"),
    Mutant("shrunk > c->c_min ? shrunk : c->c_min", "shrunk > 1 ? shrunk : 1"),
    Mutant("return window < size ? window : size;", "return window;"),
    # The end of a draw
    Mutant("c->draws += 1;", ""),
    Mutant("c->draws += 1;", "c->draws = (u32)(c->draws + 1);"),
    Mutant("if (!by_policy || !c->ere_enabled) return;", "if (!by_policy) return;"),
    Mutant("if (!by_policy || !c->ere_enabled) return;", "if (!c->ere_enabled) return;"),
    Mutant("if (!by_policy || !c->ere_enabled) return;", ""),
    Mutant(
        "    c->draws += 1;\n    if (!by_policy || !c->ere_enabled) return;",
        "    if (!by_policy || !c->ere_enabled) return;\n    c->draws += 1;",
    ),
    Mutant("c->k += 1;", ""),
    Mutant("c->eta_power *= c->eta;", ""),
    Mutant("c->eta_power *= c->eta;", "c->eta_power = (float)(c->eta_power * c->eta);"),
    Mutant("c->k >= c->k_max", "c->k > c->k_max"),
    Mutant("c->k >= c->k_max", "c->k >= c->k_max - 1"),
    Mutant(
        "c->k >= c->k_max",
        "c->k == c->k_max",
        equivalent="k counts by one from 0 and starts anew when k_max changes, so it never "
        "passes k_max",
    ),
    Mutant("        c->k = 0;\n", ""),
    Mutant("        c->eta_power = 1.0;\n", ""),
    Mutant("        c->eta_power = 1.0;\n", "        c->eta_power = c->eta;\n"),
]

_WORD = "control->key, control->draws, lane, PURPOSE_ROWS"
_DRAWN_ROW = f"philox_word({_WORD});\n        indices[lane] = draw_row"
_RANGE_ROW = f"philox_word({_WORD});\n        indices[lane] = low"
_LANES = "    for (i64 lane = grid_start(); lane < lanes; lane += grid_step())"

_DRAWS = [
    # A row of a span
    Mutant("(i64)__umul64hi(word, (u64)span)", "(i64)(word % (u64)span)"),
    Mutant("(i64)__umul64hi(word, (u64)span)", "(i64)((word >> 32) * (u64)span >> 32)"),
    Mutant(
        "(i64)__umul64hi(word, (u64)span)",
        "(i32)__umul64hi(word, (u64)span)",
        equivalent="a buffer has at most 2**31 rows, so the last is 2**31 - 1",
    ),
    Mutant("(i64)__umul64hi(word, (u64)span)", "(i64)__umul64hi(word, (u64)(span + 1))"),
    Mutant("(i64)__umul64hi(word, (u64)span)", "(i64)__umul64hi(word, (u64)(span - 1))"),
    Mutant(
        "(i64)__umul64hi(word, (u64)span)",
        "(i64)((double)word * 5.421010862427522e-20 * (double)span)",
    ),
    # The policy in force
    Mutant(
        _DRAWN_ROW,
        _DRAWN_ROW.replace(_WORD, "control->key, 0, lane, PURPOSE_ROWS"),
    ),
    Mutant(
        _DRAWN_ROW,
        _DRAWN_ROW.replace(_WORD, "control->key, control->draws, 0, PURPOSE_ROWS"),
    ),
    Mutant(
        _DRAWN_ROW,
        _DRAWN_ROW.replace(_WORD, "control->key, (u32)control->draws, lane, PURPOSE_ROWS"),
    ),
    Mutant(
        _DRAWN_ROW,
        _DRAWN_ROW.replace(_WORD, "(u32)control->key, control->draws, lane, PURPOSE_ROWS"),
    ),
    Mutant("if (c->demo_count > 0) {", "if (c->demo_count > 1) {"),
    Mutant("if (c->demo_count > 0) {", "if (c->demo_count >= 0) {"),
    Mutant("const i64 online = size - c->demo_count;", "const i64 online = size;"),
    Mutant("const i64 online = size - c->demo_count;", "const i64 online = ring_rows(c);"),
    Mutant("lane < lanes / 2", "lane <= lanes / 2"),
    Mutant("lane < lanes / 2", "lane < (lanes + 1) / 2"),
    Mutant("lane < lanes / 2", "lane % 2 == 0"),
    Mutant(" || online == 0)", ")"),
    Mutant(" || online == 0)", " || online <= 1)"),
    Mutant("return row_of_span(word, c->demo_count);", "return row_of_span(word, size);"),
    Mutant(
        "return c->demo_count + row_of_span(word, online);", "return row_of_span(word, online);"
    ),
    Mutant(
        "return c->demo_count + row_of_span(word, online);",
        "return c->demo_count + row_of_span(word, size);",
    ),
    Mutant("if (c->ere_enabled) {", "if (false) {"),
    Mutant("row_of_span(word, ere_window(c))", "row_of_span(word, size)"),
    Mutant("row_of_span(word, ere_window(c))", "row_of_span(word, c->c_min)"),
    Mutant("ring_row(c, -1 - age)", "ring_row(c, -age)"),
    Mutant("ring_row(c, -1 - age)", "ring_row(c, -2 - age)"),
    Mutant("ring_row(c, -1 - age)", "ring_row(c, -1)"),
    Mutant("ring_row(c, -1 - age)", "ring_row(c, age)"),
    Mutant("ring_row(c, -1 - age)", "size - 1 - age"),
    Mutant(
        "ring_row(c, -1 - age)",
        "ring_row(c, c->capacity - 1 - age)",
        equivalent="without a prefix the ring is the capacity, and a whole turn changes nothing",
    ),
    Mutant(
        "    return row_of_span(word, size);\n}", "    return row_of_span(word, c->capacity);\n}"
    ),
    Mutant("    return row_of_span(word, size);\n}", "    return row_of_span(word, size - 1);\n}"),
    # The two kernels
    Mutant("i64* indices) {\n" + _LANES, "i64* indices) {\n" + _LANES.replace("<", "<=")),
    Mutant(
        "i64* indices) {\n" + _LANES,
        "i64* indices) {\n" + _LANES.replace("+= grid_step()", "= lanes"),
    ),
    Mutant(
        "indices[lane] = draw_row(control, word, lane, lanes);",
        "indices[lanes - 1 - lane] = draw_row(control, word, lane, lanes);",
    ),
    Mutant("u64* tokens) {\n" + _LANES, "u64* tokens) {\n" + _LANES.replace("<", "<=")),
    Mutant(
        "u64* tokens) {\n" + _LANES,
        "u64* tokens) {\n" + _LANES.replace("+= grid_step()", "= lanes"),
    ),
    Mutant(
        _RANGE_ROW,
        _RANGE_ROW.replace(_WORD, "control->key, 0, lane, PURPOSE_ROWS"),
    ),
    Mutant(
        _RANGE_ROW,
        _RANGE_ROW.replace(_WORD, "control->key, control->draws, lane + 1, PURPOSE_ROWS"),
    ),
    Mutant("low + row_of_span(word, high - low)", "row_of_span(word, high - low)"),
    Mutant("low + row_of_span(word, high - low)", "low + row_of_span(word, high)"),
    Mutant("low + row_of_span(word, high - low)", "low + row_of_span(word, high - low + 1)"),
    Mutant("low + row_of_span(word, high - low)", "low + row_of_span(word, high - low - 1)"),
    # Configuring
    Mutant(
        "    if (!first_thread()) return;\n    control->ere",
        "    control->ere",
        equivalent=_ONE_THREAD,
    ),
    Mutant(
        "if (first_thread()) control->demo_count", "control->demo_count", equivalent=_ONE_THREAD
    ),
    Mutant("    control->ere_enabled = enabled;\n", ""),
    Mutant("control->ere_enabled = enabled;", "control->ere_enabled = 1;"),
    Mutant("    control->eta = eta;\n", ""),
    Mutant("    control->eta = eta;\n", "    control->eta = (float)eta;\n"),
    Mutant("    control->c_min = c_min;\n", ""),
    Mutant("    control->k_max = k_max;\n", ""),
    Mutant("    control->k = 0;\n", ""),
    Mutant("    control->eta_power = 1.0;\n", ""),
    Mutant("    control->eta_power = 1.0;\n", "    control->eta_power = eta;\n"),
    Mutant("control->demo_count = count;", "control->demo_count = count - 1;"),
    # Of priorities
    Mutant("if (tokens) tokens[lane] = draw_token(control);", ""),
    Mutant(
        "if (tokens) tokens[lane] = draw_token(control);", "tokens[lane] = draw_token(control);"
    ),
    Mutant("if (tokens) tokens[lane] =", "if (tokens) tokens[0] ="),
    Mutant("if (tokens) tokens[lane] =", "if (tokens && lane) tokens[lane] ="),
    Mutant("tokens[lane] = draw_token(control)", "tokens[lane] = draw_token(control) - 1"),
    Mutant("tokens[lane] = draw_token(control)", "tokens[lane] = (u64)control->total"),
    Mutant(
        "    if (!first_thread()) return;\n    control->alpha",
        "    control->alpha",
        equivalent=_ONE_THREAD,
    ),
    Mutant("    control->alpha = alpha;\n", ""),
    Mutant("    control->alpha = alpha;\n", "    control->alpha = (float)alpha;\n"),
    Mutant("    control->beta = beta;\n", ""),
    Mutant("    control->beta = beta;\n", "    control->beta = alpha;\n"),
    Mutant("    control->epsilon = epsilon;\n", ""),
    Mutant("    control->epsilon = epsilon;\n", "    control->epsilon = (float)epsilon;\n"),
    Mutant("if (first_thread()) control->beta = beta;", ""),
    Mutant(
        "if (first_thread()) control->beta = beta;",
        "if (first_thread()) control->beta = (float)beta;",
    ),
    Mutant(
        "if (first_thread()) control->beta = beta;", "control->beta = beta;", equivalent=_ONE_THREAD
    ),
    Mutant(
        "control->demo_count = count;",
        "control->demo_count = control->total;",
        equivalent="a prefix is exactly the rows that were written, which the caller checks",
    ),
]

_PHILOX = [
    Mutant("round < 10", "round < 11"),
    Mutant("__umulhi(0xD2511F53u, c.word[0])", "__umulhi(0xD2511F57u, c.word[0])"),
    Mutant("__umulhi(0xCD9E8D57u, c.word[2])", "__umulhi(0xCD9E8D53u, c.word[2])"),
    Mutant(
        "{{high1 ^ c.word[1] ^ key0, low1, high0 ^ c.word[3] ^ key1, low0}}",
        "{{high0 ^ c.word[1] ^ key0, low0, high1 ^ c.word[3] ^ key1, low1}}",
    ),
    Mutant(
        "{{high1 ^ c.word[1] ^ key0, low1, high0 ^ c.word[3] ^ key1, low0}}",
        "{{high1 ^ c.word[3] ^ key0, low1, high0 ^ c.word[1] ^ key1, low0}}",
    ),
    Mutant(
        "{{high1 ^ c.word[1] ^ key0, low1, high0 ^ c.word[3] ^ key1, low0}}",
        "{{high1 ^ c.word[1] ^ key1, low1, high0 ^ c.word[3] ^ key0, low0}}",
    ),
    Mutant("key0 += 0x9E3779B9u;", "key0 += 0xBB67AE85u;"),
    Mutant("key1 += 0xBB67AE85u;", "key1 += 0xBB67AE84u;"),
    Mutant("key + (u64)lane", "key"),
    Mutant("key + (u64)lane", "key ^ (u64)lane"),
    Mutant("key + (u64)lane", "(key & 0xFFFFFFFF00000000ull) | (u32)((u32)key + (u32)lane)"),
    Mutant(
        "key + (u64)lane",
        "key + (u32)lane",
        equivalent="a batch of 2**32 lanes does not fit: its indices alone take 32 GiB, and a "
        "lane's number is not negative",
    ),
    Mutant("{{(u32)draw, (u32)(draw >> 32), 0u, purpose}}", "{{(u32)draw, 0u, 0u, purpose}}"),
    Mutant(
        "{{(u32)draw, (u32)(draw >> 32), 0u, purpose}}",
        "{{(u32)(draw >> 32), (u32)draw, 0u, purpose}}",
    ),
    Mutant(
        "{{(u32)draw, (u32)(draw >> 32), 0u, purpose}}",
        "{{(u32)draw, (u32)(draw >> 32), purpose, 0u}}",
    ),
    Mutant(
        "{{(u32)draw, (u32)(draw >> 32), 0u, purpose}}", "{{(u32)draw, (u32)(draw >> 32), 0u, 0u}}"
    ),
    Mutant("#define PURPOSE_ROWS 0u", "#define PURPOSE_ROWS 1u"),
    Mutant("#define PURPOSE_TARGETS 1u", "#define PURPOSE_TARGETS 0u"),
    Mutant("#define PURPOSE_TARGETS 1u", "#define PURPOSE_TARGETS 2u"),
    Mutant("(double)(word >> 11) * 0x1p-53", "(double)(word >> 12) * 0x1p-53"),
    Mutant("(double)(word >> 11) * 0x1p-53", "(double)(word >> 12) * 0x1p-52"),
    Mutant("(double)(word >> 11) * 0x1p-53", "(double)(word >> 11) * 0x1p-52"),
    Mutant("(double)(word >> 11) * 0x1p-53", "(double)(word >> 11) * 0x1p-54"),
    Mutant("(double)(word >> 11) * 0x1p-53", "(double)word * 0x1p-64"),
    Mutant("(double)(word >> 11) * 0x1p-53", "(float)(word >> 11) * 0x1p-53"),
    Mutant("(double)(word >> 11) * 0x1p-53", "((double)(word >> 11) + 0.5) * 0x1p-53"),
    Mutant("(double)(word >> 11) * 0x1p-53", "(double)(word >> 11 | 1) * 0x1p-53"),
    Mutant("(u32)lane_key, (u32)(lane_key >> 32)", "(u32)lane_key, (u32)(key >> 32)"),
    Mutant("(u32)lane_key, (u32)(lane_key >> 32)", "(u32)lane_key, 0u"),
    Mutant("(u64)out.word[1] << 32 | out.word[0]", "(u64)out.word[0] << 32 | out.word[1]"),
    Mutant("(u64)out.word[1] << 32 | out.word[0]", "(u64)out.word[2] << 32 | out.word[0]"),
]

_QUANTIZE = [
    Mutant("return x >= 0.0f && x <= 1.0f;", "return x > 0.0f && x <= 1.0f;"),
    Mutant("return x >= 0.0f && x <= 1.0f;", "return x >= 0.0f && x < 1.0f;"),
    Mutant("return x >= 0.0f && x <= 1.0f;", "return x >= 0.0f || x <= 1.0f;"),
    Mutant("return x >= 0.0f && x <= 1.0f;", "return !(x < 0.0f || x > 1.0f);"),
    Mutant("return x >= 0.0f && x <= 1.0f;", "return x >= 0.0f;"),
    Mutant("return x >= 0.0f && x <= 1.0f;", "return x > -0.001f && x < 1.001f;"),
    Mutant("x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f", "x"),
    Mutant("x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f", "x > 0.0f ? x : 0.0f"),
    Mutant("x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f", "x < 1.0f ? x : 1.0f"),
    Mutant("x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f", "x < 0.0f ? 0.0f : (x < 1.0f ? x : 1.0f)"),
    Mutant(
        "x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f",
        "x >= 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f",
        equivalent="both give 0 for 0, and code 0 for -0.0",
    ),
    Mutant("rintf(__fmul_rn(clamped, 255.0f))", "__fmul_rn(clamped, 255.0f)"),
    Mutant("rintf(__fmul_rn(clamped, 255.0f))", "floorf(__fmul_rn(clamped, 255.0f) + 0.5f)"),
    Mutant("rintf(__fmul_rn(clamped, 255.0f))", "ceilf(__fmul_rn(clamped, 255.0f))"),
    Mutant("__fmul_rn(clamped, 255.0f)", "__fmul_rn(clamped, 254.0f)"),
    Mutant("rintf(__fmul_rn(clamped, 255.0f))", "rint((double)clamped * 255.0)"),
    Mutant(
        "__fmul_rn(clamped, 255.0f)",
        "clamped * 255.0f",
        equivalent="kernels are compiled without fused multiply-add, and there is no addition",
    ),
    Mutant("__fdiv_rn((float)code, 255.0f)", "(float)code * (1.0f / 255.0f)"),
    Mutant("__fdiv_rn((float)code, 255.0f)", "__fdiv_rn((float)code, 256.0f)"),
]

_WORDS = [
    Mutant("    bits |= 16;\n", "    bits |= 8;\n"),
    Mutant("    bits |= 16;\n", "    bits |= 32;\n"),
    Mutant("bits & (~bits + 1)", "bits & ~bits"),
    Mutant("bits & (~bits + 1)", "16"),
    Mutant("bits & (~bits + 1)", "bits"),
]

_COPIES = [
    # The structs
    Mutant(
        "    i64 stride;     // bytes from one stored row to the next\n"
        "    i64 elements;   // of one row\n",
        "    i64 elements;\n    i64 stride;\n",
    ),
    Mutant(
        "    i64 bytes;      // of one row in a batch\n    i64 codec;\n",
        "    i64 codec;\n    i64 bytes;\n",
    ),
    Mutant("#define MAX_COLUMNS 32", "#define MAX_COLUMNS 31"),
    Mutant("#define MAX_TILE 32", "#define MAX_TILE 16"),
    Mutant("#define MAX_TILE 32", "#define MAX_TILE 31"),
    # The widest word of a column
    Mutant("(u64)c.base | (u64)c.stride", "(u64)c.stride"),
    Mutant(
        "(u64)c.base | (u64)c.stride",
        "(u64)c.base",
        equivalent="strides are multiples of 16 bytes (a test of the schema holds that)",
    ),
    Mutant(" | (u64)c.bytes", ""),
    Mutant(" | (u64)batch)", ")"),
    Mutant(
        "case 16: copy_words<uint4, to_ring>",
        "case 16: copy_words<u64, to_ring>",
    ),
    Mutant("case 8: copy_words<u64, to_ring>", "case 8: copy_words<u32, to_ring>"),
    Mutant("case 4: copy_words<u32, to_ring>", "case 4: copy_words<unsigned short, to_ring>"),
    Mutant("case 2: copy_words<unsigned short, to_ring>", "case 2: copy_words<u8, to_ring>"),
    Mutant("case 8: copy_words<u64, to_ring>", "case 8: copy_words<uint4, to_ring>"),
    Mutant("case 4: copy_words<u32, to_ring>", "case 4: copy_words<u64, to_ring>"),
    Mutant("case 2: copy_words<unsigned short, to_ring>", "case 2: copy_words<u32, to_ring>"),
    Mutant("default: copy_words<u8, to_ring>", "default: copy_words<unsigned short, to_ring>"),
    Mutant(
        "case 16: copy_words<uint4, to_ring>(c, batch, slots, share); break;",
        "case 16: copy_words<uint4, to_ring>(c, batch, slots, share);",
    ),
    # Copying
    Mutant("c.bytes / (i64)sizeof(word_t)", "c.bytes / (i64)sizeof(word_t) - 1"),
    Mutant("c.bytes / (i64)sizeof(word_t)", "c.bytes / (i64)sizeof(word_t) + 1"),
    Mutant("c.bytes / (i64)sizeof(word_t)", "c.stride / (i64)sizeof(word_t)"),
    Mutant("c.bytes / (i64)sizeof(word_t)", "c.elements"),
    Mutant(
        "i64 t = share.start; t < share.rows * words",
        "i64 t = share.start; t <= share.rows * words",
    ),
    Mutant("i64 t = share.start; t < share.rows * words", "i64 t = share.start; t < words"),
    Mutant("t < share.rows * words; t += share.step", "t < share.rows * words; t += 1"),
    Mutant(
        "i = t / words, w = t - i * words",
        "i = t % share.rows, w = t / share.rows",
        equivalent="every word is copied by another thread, and still by one",
    ),
    Mutant("i = t / words, w = t - i * words", "i = t / words, w = t"),
    Mutant(
        "if (slots[i] < 0) continue;\n        word_t",
        "if (slots[i] <= 0) continue;\n        word_t",
    ),
    Mutant("if (slots[i] < 0) continue;\n        word_t", "word_t"),
    Mutant("c.base + slots[i] * c.stride", "c.base + (i32)(slots[i] * c.stride)"),
    Mutant("c.base + slots[i] * c.stride", "c.base + (u32)(slots[i] * c.stride)"),
    Mutant("c.base + slots[i] * c.stride", "c.base + slots[i] * c.bytes"),
    Mutant("c.base + slots[i] * c.stride", "c.base + slots[0] * c.stride"),
    Mutant("batch + (share.row0 + i) * c.bytes) + w", "batch + i * c.bytes) + w"),
    Mutant(
        "batch + (share.row0 + i) * c.bytes) + w",
        "batch + (i32)((share.row0 + i) * c.bytes)) + w",
        open=_LARGE_BATCH,
    ),
    Mutant(
        "batch + (share.row0 + i) * c.bytes) + w",
        "batch + (u32)((share.row0 + i) * c.bytes)) + w",
        open=_LARGE_BATCH,
    ),
    Mutant("        if (to_ring)\n", "        if (!to_ring)\n"),
]

_MASKS = [
    Mutant("i < end; i += blockDim.x", "i <= end; i += blockDim.x"),
    Mutant("i < end; i += blockDim.x", "i < end - 1; i += blockDim.x"),
    Mutant("i64 i = threadIdx.x; i < end; i += blockDim.x", "i64 i = 0; i < end; i += 1"),
    Mutant(
        "i64 i = threadIdx.x; i < end; i += blockDim.x", "i64 i = threadIdx.x; i < end; i += end"
    ),
    Mutant(
        "mine += mask[i] != 0",
        "mine += mask[i]",
        equivalent="the mask is an array of booleans, whose bytes are 0 and 1",
    ),
    Mutant("mine += mask[i] != 0", "mine += mask[i] == 0"),
    Mutant("if (mine) atomicAdd(count, mine);", "if (mine) *count += mine;"),
    Mutant(
        "if (mine) atomicAdd(count, mine);",
        "atomicAdd(count, mine);",
        equivalent="adding 0 changes nothing",
    ),
    Mutant("if (mine) atomicAdd(count, mine);", "if (mine) atomicExch(count, mine);"),
    # count_kept
    Mutant("if (threadIdx.x == 0) *kept = mask ? 0 : (u64)n;", "if (threadIdx.x == 0) *kept = n;"),
    Mutant("if (threadIdx.x == 0) *kept = mask ? 0 : (u64)n;", "if (threadIdx.x == 0) *kept = 0;"),
    Mutant("if (threadIdx.x == 0) *kept = mask ? 0 : (u64)n;", "*kept = mask ? 0 : (u64)n;"),
    Mutant("mask ? 0 : (u64)n;\n    __syncthreads();\n", "mask ? 0 : (u64)n;\n"),
    Mutant("if (mask) count_mask(mask, n, kept);", "if (mask) count_mask(mask, n - 1, kept);"),
    Mutant("if (mask) count_mask(mask, n, kept);", "if (mask) count_mask(mask, n + 1, kept);"),
    Mutant(
        "if (mask) count_mask(mask, n, kept);\n    __syncthreads();\n",
        "if (mask) count_mask(mask, n, kept);\n",
    ),
]

_TILES = [
    Mutant("if (threadIdx.x == 0) tile->before", "tile->before"),
    Mutant(
        "if (threadIdx.x == 0) tile->before = tile->kept = 0;\n        __syncthreads();\n",
        "if (threadIdx.x == 0) tile->before = tile->kept = 0;\n",
    ),
    Mutant(
        "        if (threadIdx.x == 0) tile->before = tile->kept = 0;\n        __syncthreads();\n",
        "",
    ),
    Mutant("tile->before = tile->kept = 0;", "tile->before = 0;"),
    Mutant("tile->before = tile->kept = 0;", "tile->kept = 0;"),
    Mutant("count_mask(mask, row0, &tile->before);", "count_mask(mask, row0 + 1, &tile->before);"),
    Mutant("count_mask(mask, row0, &tile->before);", "count_mask(mask, n, &tile->before);"),
    Mutant(
        "if (n > ring) count_mask(mask, n, &tile->kept);",
        "count_mask(mask, n, &tile->kept);",
        equivalent="where n <= ring the number is not used: it is counted for nothing",
    ),
    Mutant(
        "if (n > ring) count_mask(mask, n, &tile->kept);",
        "if (n > ring) count_mask(mask, row0, &tile->kept);",
    ),
    Mutant(
        "if (n > ring) count_mask(mask, n, &tile->kept);",
        "if (n > control->capacity) count_mask(mask, n, &tile->kept);",
    ),
    Mutant(
        "count_mask(mask, n, &tile->kept);\n        __syncthreads();\n",
        "count_mask(mask, n, &tile->kept);\n",
    ),
    Mutant("kept = mask && n > ring ? (i64)tile->kept : n", "kept = n"),
    Mutant(
        "kept = mask && n > ring ? (i64)tile->kept : n",
        "kept = mask ? (i64)tile->kept : n",
        equivalent="where n <= ring the number kept is 0, and less than the ring as n is",
    ),
    Mutant(
        "kept = mask && n > ring ? (i64)tile->kept : n", "kept = n > ring ? (i64)tile->kept : n"
    ),
    Mutant("i64 rank = row0 + i;", "i64 rank = i;"),
    Mutant("i64 rank = row0 + i;", "i64 rank = row0 + i + 1;"),
    Mutant("rank = (i64)tile->before;", "rank = 0;"),
    Mutant("rank = (i64)tile->before;", "rank = row0;"),
    Mutant("rank = (i64)tile->before;", "rank = (i64)(u8)tile->before;"),
    Mutant("j < i; ++j) rank", "j <= i; ++j) rank"),
    Mutant("j < i; ++j) rank", "j < i - 1; ++j) rank"),
    Mutant("rank += mask[row0 + j] != 0", "rank += mask[j] != 0"),
    Mutant("(!mask || mask[row0 + i]) && kept - rank <= ring", "kept - rank <= ring"),
    Mutant("(!mask || mask[row0 + i]) && kept - rank <= ring", "(!mask || mask[row0 + i])"),
    Mutant("(!mask || mask[row0 + i])", "(!mask || mask[i])"),
    Mutant("(!mask || mask[row0 + i])", "(mask && mask[row0 + i])"),
    Mutant("kept - rank <= ring", "kept - rank < ring"),
    Mutant("kept - rank <= ring", "kept - rank <= ring + 1"),
    Mutant("kept - rank <= ring", "kept - rank <= control->capacity"),
    Mutant("kept - rank <= ring", "rank < ring"),
    Mutant("kept - rank <= ring", "n - rank <= ring"),
    Mutant("stored ? ring_row(control, rank) : -1", "stored ? ring_row(control, row0 + i) : -1"),
    Mutant("stored ? ring_row(control, rank) : -1", "stored ? ring_row(control, rank + 1) : -1"),
    Mutant("stored ? ring_row(control, rank) : -1", "stored ? ring_row(control, i) : -1"),
    Mutant(
        "stored ? ring_row(control, rank) : -1",
        "stored ? (control->total + rank) % control->capacity : -1",
    ),
    Mutant("stored ? ring_row(control, rank) : -1", "stored ? ring_row(control, rank) : 0"),
]

_LOOP = (
    "for (i64 t = share.start; t < share.rows * c.elements; t += share.step) {\n"
    "        const i64 i = t / c.elements, e = t - i * c.elements;\n"
)
_STORE_CODES = "u64* last_invalid, control_t* control) {\n    " + _LOOP
_STORE_BOOLEANS = "const i64* slots, share_t share) {\n    " + _LOOP + "        if"
_GATHER_CODES = _LOOP + "        ((float*)"


def _looping(text: str) -> list[Mutant]:
    """Too few elements, too many, and those of a thread's first share alone."""
    end = "t < share.rows * c.elements"
    return [
        Mutant(text, text.replace(end, f"{end} - 1")),
        Mutant(text, text.replace(end, "t <= share.rows * c.elements")),
        Mutant(text, text.replace("t += share.step", "t = share.rows * c.elements")),
        Mutant(text, text.replace("e = t - i * c.elements", "e = t")),
    ]


_CODES = [
    *_looping(_STORE_CODES),
    Mutant(
        "if (slots[i] < 0) continue;\n        const float x",
        "const float x",
    ),
    Mutant(
        "if (slots[i] < 0) continue;\n        const float x",
        "if (slots[i] <= 0) continue;\n        const float x",
    ),
    Mutant(
        "(const float*)(batch + (share.row0 + i) * c.bytes))[e]",
        "(const float*)(batch + i * c.bytes))[e]",
    ),
    Mutant(
        "(const float*)(batch + (share.row0 + i) * c.bytes))[e]",
        "(const float*)(batch + (share.row0 + i) * c.elements))[e]",
    ),
    Mutant(
        "(const float*)(batch + (share.row0 + i) * c.bytes))[e]",
        "(const float*)(batch + (i32)((share.row0 + i) * c.bytes)))[e]",
        open=_LARGE_BATCH,
    ),
    Mutant(
        "c.base[slots[i] * c.stride + e] = quantize(x);",
        "c.base[(i32)(slots[i] * c.stride + e)] = quantize(x);",
    ),
    Mutant(
        "c.base[slots[i] * c.stride + e] = quantize(x);",
        "c.base[slots[i] * c.elements + e] = quantize(x);",
    ),
    Mutant(
        "c.base[slots[i] * c.stride + e] = quantize(x);",
        "c.base[slots[i] * c.stride] = quantize(x);",
    ),
    Mutant("        if (is_quantizable(x)) continue;\n", ""),
    Mutant("if (is_quantizable(x)) continue;", "if (!is_quantizable(x)) continue;"),
    Mutant("(u64)control->total + 1", "(u64)control->total"),
    Mutant("(u64)control->total + 1", "1"),
    Mutant("(u64)control->total + 1", "(u64)slots[i] + 1"),
    Mutant("(u64)control->total + 1", "(u64)control->invalid_rows + 1"),
    Mutant(
        "(u64)control->total + 1",
        "(u64)control->total + 2",
        equivalent="another number, and still one of each launch that is not 0",
    ),
    Mutant("atomicExch(&last_invalid[slots[i]], launch) != launch", "true"),
    Mutant(
        "atomicExch(&last_invalid[slots[i]], launch) != launch",
        "atomicExch(&last_invalid[slots[i]], launch) == launch",
    ),
    Mutant(
        "atomicExch(&last_invalid[slots[i]], launch) != launch",
        "atomicExch(&last_invalid[0], launch) != launch",
    ),
    Mutant(
        "atomicExch(&last_invalid[slots[i]], launch) != launch",
        "atomicExch(&last_invalid[i], launch) != launch",
    ),
    Mutant(
        "atomicExch(&last_invalid[slots[i]], launch) != launch",
        "atomicExch(&last_invalid[slots[i]], launch) == 0",
    ),
    Mutant(
        "        if (atomicExch(&last_invalid[slots[i]], launch) != launch)\n",
        "        const u64 last = last_invalid[slots[i]];\n"
        "        last_invalid[slots[i]] = launch;\n"
        "        if (last != launch)\n",
    ),
    Mutant("atomicAdd((u64*)&control->invalid_rows, (u64)1);", "control->invalid_rows += 1;"),
    Mutant(
        "atomicAdd((u64*)&control->invalid_rows, (u64)1);",
        "atomicAdd((u64*)&control->invalid_rows, (u64)2);",
    ),
    Mutant(
        "((float*)(batch + i * c.bytes))[e] = dequantize(c.base[slots[i] * c.stride + e]);",
        "((float*)(batch + i * c.bytes))[e] = dequantize(c.base[(i32)(slots[i] * c.stride + e)]);",
    ),
    Mutant(
        "((float*)(batch + i * c.bytes))[e] = dequantize(c.base[slots[i] * c.stride + e]);",
        "((float*)(batch + i * c.bytes))[e] = dequantize(c.base[slots[i] * c.elements + e]);",
    ),
    Mutant(
        "((float*)(batch + i * c.bytes))[e] = dequantize(c.base[slots[i] * c.stride + e]);",
        "((float*)(batch + i * c.elements))[e] = dequantize(c.base[slots[i] * c.stride + e]);",
    ),
    Mutant(
        "((float*)(batch + i * c.bytes))[e] = dequantize(c.base[slots[i] * c.stride + e]);",
        "((float*)(batch + (i32)(i * c.bytes)))[e] = dequantize(c.base[slots[i] * c.stride + e]);",
        open=_LARGE_BATCH,
    ),
    Mutant(
        "((float*)(batch + i * c.bytes))[e] = dequantize(c.base[slots[i] * c.stride + e]);",
        "((float*)(batch + i * c.bytes))[e] = dequantize(c.base[slots[0] * c.stride + e]);",
    ),
    *_looping(_GATHER_CODES),
]

_BOOLEANS = [
    *_looping(_STORE_BOOLEANS),
    Mutant("if (slots[i] < 0) continue;\n        c.base[", "c.base["),
    Mutant(
        "if (slots[i] < 0) continue;\n        c.base[",
        "if (slots[i] <= 0) continue;\n        c.base[",
    ),
    Mutant(
        "c.base[slots[i] * c.stride + e] = batch[",
        "c.base[(i32)(slots[i] * c.stride + e)] = batch[",
    ),
    Mutant(
        "c.base[slots[i] * c.stride + e] = batch[",
        "c.base[(u32)(slots[i] * c.stride + e)] = batch[",
    ),
    Mutant(
        "c.base[slots[i] * c.stride + e] = batch[", "c.base[slots[i] * c.elements + e] = batch["
    ),
    Mutant("c.base[slots[i] * c.stride + e] = batch[", "c.base[slots[i] * c.stride] = batch["),
    Mutant("batch[(share.row0 + i) * c.elements + e] != 0", "batch[i * c.elements + e] != 0"),
    Mutant("batch[(share.row0 + i) * c.elements + e] != 0", "batch[(share.row0 + i)] != 0"),
    Mutant(
        "batch[(share.row0 + i) * c.elements + e] != 0", "batch[(share.row0 + i) * c.elements] != 0"
    ),
    Mutant(
        "batch[(share.row0 + i) * c.elements + e] != 0",
        "batch[(i32)((share.row0 + i) * c.elements + e)] != 0",
        open=_LARGE_BATCH,
    ),
    Mutant(
        "batch[(share.row0 + i) * c.elements + e] != 0",
        "batch[(share.row0 + i) * c.stride + e] != 0",
    ),
    Mutant(
        "batch[(share.row0 + i) * c.elements + e] != 0",
        "batch[(share.row0 + i) * c.elements + e]",
    ),
    Mutant(
        "batch[(share.row0 + i) * c.elements + e] != 0",
        "batch[(share.row0 + i) * c.elements + e] == 1",
    ),
    Mutant(
        "batch[(share.row0 + i) * c.elements + e] != 0",
        "batch[(share.row0 + i) * c.elements + e] & 1",
    ),
    Mutant(
        "batch[(share.row0 + i) * c.elements + e] != 0",
        "batch[(share.row0 + i) * c.elements + e] > 127",
    ),
]

_ROW_KERNELS = [
    # store_rows
    Mutant("row0 = blockIdx.x * tile_rows; row0 < n", "row0 = 0; row0 < n"),
    Mutant("row0 = blockIdx.x * tile_rows; row0 < n", "row0 = blockIdx.x; row0 < n"),
    Mutant(
        "row0 < n; row0 += gridDim.x * tile_rows", "row0 < n - 1; row0 += gridDim.x * tile_rows"
    ),
    Mutant(
        "row0 < n; row0 += gridDim.x * tile_rows",
        "row0 <= n; row0 += gridDim.x * tile_rows",
        equivalent="a tile of no rows stores nothing",
    ),
    Mutant("row0 < n; row0 += gridDim.x * tile_rows", "row0 < n; row0 = n"),
    Mutant("row0 < n; row0 += gridDim.x * tile_rows", "row0 < n; row0 += gridDim.x"),
    Mutant("row0 < n; row0 += gridDim.x * tile_rows", "row0 < n; row0 += tile_rows"),
    Mutant("rows = n - row0 < tile_rows ? n - row0 : tile_rows", "rows = tile_rows"),
    Mutant(
        "rows = n - row0 < tile_rows ? n - row0 : tile_rows", "rows = n < tile_rows ? n : tile_rows"
    ),
    Mutant(
        "place_tile(&tile, control, mask, n, row0, rows);\n        __syncthreads();\n",
        "place_tile(&tile, control, mask, n, row0, rows);\n",
    ),
    Mutant("(i64)blockIdx.y * blockDim.x + threadIdx.x", "(i64)threadIdx.x"),
    Mutant("(i64)blockIdx.y * blockDim.x + threadIdx.x", "(i64)blockIdx.y + threadIdx.x"),
    Mutant("(i64)gridDim.y * blockDim.x}", "(i64)blockDim.x}"),
    Mutant("(i64)gridDim.y * blockDim.x}", "(i64)gridDim.x * blockDim.x}"),
    Mutant(
        """            if (column.codec == QUANTIZED)
                store_codes""",
        """            if (column.codec != QUANTIZED)
                store_codes""",
    ),
    Mutant(
        """            if (column.codec == QUANTIZED)
                store_codes""",
        """            if (column.codec)
                store_codes""",
    ),
    Mutant(
        "            else if (column.codec == BOOLEAN)\n"
        "                store_booleans(column, batch.at[c], tile.slot, share);\n",
        "",
    ),
    Mutant("else if (column.codec == BOOLEAN)", "else if (column.codec != BOOLEAN)"),
    Mutant(
        "store_booleans(column, batch.at[c], tile.slot, share);",
        "store_booleans(column, batch.at[0], tile.slot, share);",
    ),
    Mutant(
        "store_codes(column, batch.at[c], tile.slot, share, last_invalid, control);",
        "store_codes(column, batch.at[0], tile.slot, share, last_invalid, control);",
    ),
    Mutant("AS_IT_IS = 0,", "AS_IT_IS = 3,", equivalent="nothing compares with it"),
    Mutant("QUANTIZED = 1,", "QUANTIZED = 3,"),
    Mutant("BOOLEAN = 2, ", "BOOLEAN = 3, "),
    Mutant(
        "copy_column<true>(column, batch.at[c], tile.slot, share);",
        "copy_column<false>(column, batch.at[c], tile.slot, share);",
    ),
    Mutant(
        "copy_column<true>(column, batch.at[c], tile.slot, share);",
        "copy_column<true>(column, batch.at[0], tile.slot, share);",
    ),
    Mutant(
        "copy_column<true>(column, batch.at[c], tile.slot, share);",
        "copy_column<true>(column, batch.at[c], tile.slot + 1, share);",
    ),
    Mutant("        }\n        __syncthreads();\n    }\n}", "        }\n    }\n}"),
    # move_cursor
    Mutant("    if (blockIdx.x != 0) return;\n", "", equivalent="it is launched with one block"),
    Mutant("count_kept(mask, n, &kept);", "count_kept(mask, n - 1, &kept);"),
    Mutant("count_kept(mask, n, &kept);", "count_kept(nullptr, n, &kept);"),
    Mutant("if (threadIdx.x == 0) control->total += (i64)kept;", "control->total += (i64)kept;"),
    Mutant("control->total += (i64)kept;", "control->total = (i64)kept;"),
    Mutant("control->total += (i64)kept;", "control->total += n;"),
    Mutant("control->total += (i64)kept;", "control->total += (i64)kept + 1;"),
    Mutant(
        "control->total += (i64)kept;",
        "atomicAdd((u64*)&control->total, kept);",
        equivalent="one thread adds",
    ),
    Mutant(
        "control->total += (i64)kept;",
        "control->total = (control->total + (i64)kept) % control->capacity;",
    ),
    # gather_rows
    Mutant(
        "share = {0, n, grid_start(), grid_step()}", "share = {0, n - 1, grid_start(), grid_step()}"
    ),
    Mutant("share = {0, n, grid_start(), grid_step()}", "share = {0, n, threadIdx.x, grid_step()}"),
    Mutant("share = {0, n, grid_start(), grid_step()}", "share = {0, n, grid_start(), blockDim.x}"),
    Mutant(
        """        if (column.codec == QUANTIZED)
            gather_codes""",
        """        if (column.codec != QUANTIZED)
            gather_codes""",
    ),
    Mutant(
        """        if (column.codec == QUANTIZED)
            gather_codes""",
        """        if (column.codec)
            gather_codes""",
    ),
    Mutant(
        "gather_codes(column, batch.at[c], indices, share);",
        "gather_codes(column, batch.at[0], indices, share);",
    ),
    Mutant(
        "copy_column<false>(column, batch.at[c], indices, share);",
        "copy_column<true>(column, batch.at[c], indices, share);",
    ),
    Mutant(
        "copy_column<false>(column, batch.at[c], indices, share);",
        "copy_column<false>(column, batch.at[0], indices, share);",
    ),
    Mutant("if (weights.weights) finish_weights(weights, n);", ""),
    Mutant("if (weights.weights) finish_weights(weights, n);", "finish_weights(weights, n);"),
    Mutant(
        "if (weights.weights) finish_weights(weights, n);",
        "if (weights.raw) finish_weights(weights, n);",
    ),
    Mutant("finish_weights(weights, n);", "finish_weights(weights, n - 1);"),
    Mutant("finish_weights(weights, n);", "finish_weights(weights, n + 1);"),
    Mutant(
        "    const double* raw;\n    const double* largest; ",
        "    const double* largest;\n    const double* raw; ",
    ),
    Mutant("    i64 tiles;\n    float* weights;\n", "    float* weights;\n    i64 tiles;\n"),
    Mutant(
        "for (i64 lane = grid_start(); lane < n; lane += grid_step())",
        "for (i64 lane = grid_start(); lane < n; lane = n)",
    ),
    Mutant(
        "for (i64 lane = grid_start(); lane < n; lane += grid_step())",
        "for (i64 lane = threadIdx.x; lane < n; lane += blockDim.x)",
    ),
    Mutant("double largest = 0.0;", "double largest = 1.0;"),
    Mutant(
        "w.raw && i < w.tiles",
        "i < w.tiles",
        equivalent="where there are no raw weights there are 0 tiles",
    ),
    Mutant("w.raw && i < w.tiles", "w.raw && i < w.tiles - 1"),
    Mutant("w.raw && i < w.tiles", "w.raw && i < 1"),
    Mutant("for (i64 i = 0; w.raw", "for (i64 i = 1; w.raw"),
    Mutant("if (w.largest[i] > largest) largest", "largest"),
    Mutant("if (w.largest[i] > largest)", "if (w.largest[i] < largest)"),
    Mutant("largest = w.largest[i];", "largest += w.largest[i];"),
    Mutant("normalized(w.raw[lane], largest) : 1.0f", "normalized(w.raw[lane], largest) : 0.0f"),
    Mutant("normalized(w.raw[lane], largest)", "normalized(w.raw[0], largest)"),
    Mutant("normalized(w.raw[lane], largest)", "normalized(w.raw[lane], 1.0)"),
    Mutant("w.raw ? normalized(w.raw[lane], largest) : 1.0f", "1.0f"),
    Mutant("    if (first_thread()) end_draw(control, by_policy);\n", ""),
    Mutant("if (first_thread()) end_draw(control, by_policy);", "end_draw(control, by_policy);"),
    Mutant(
        "if (first_thread()) end_draw(control, by_policy);",
        "if (first_thread()) end_draw(control, true);",
    ),
    Mutant(
        "if (first_thread()) end_draw(control, by_policy);",
        "if (first_thread()) end_draw(control, false);",
    ),
    Mutant(
        "if (first_thread()) end_draw(control, by_policy);",
        "if (threadIdx.x == 0) end_draw(control, by_policy);",
    ),
]

KERNELS = {
    "cuda_src/common.cuh": _COMMON,
    "cuda_src/control.cuh": _CONTROL,
    "cuda_src/draws.cu": _DRAWS,
    "cuda_src/copy.cuh": _WORDS,
    "cuda_src/mask.cuh": _MASKS,
    "cuda_src/philox.cuh": _PHILOX,
    "cuda_src/quantize.cuh": _QUANTIZE,
    "cuda_src/rows.cu": [*_COPIES, *_TILES, *_CODES, *_BOOLEANS, *_ROW_KERNELS],
    **PRIORITY_KERNELS,
    **NSTEP_KERNELS,
}
