"""Mistakes in the kernels of the sum tree. `kernels` has them in its table."""

from tests.mutants.mutant import Mutant

_TESTS = (
    "--kernels-only", "sumtree", "priorities", "prioritized", "golden", "cost",
    "broken_off", "state_machine_prioritized", "capture_prioritized", "distribution",
)  # fmt: skip

PRIORITY_KERNEL_TESTS = {
    "cuda_src/floats.cuh": (
        "--kernels-only",
        "priorities",
        "prioritized",
        "nstep",
        "inputs",
    ),
    "cuda_src/sumtree.cuh": _TESTS,
    "cuda_src/sumtree.cu": _TESTS,
    "cuda_src/priorities.cuh": _TESTS,
}

_ONE_BLOCK = "the host launches this kernel with one block"

_CHOSEN = "a node without mass is never entered, and in another a child is chosen"

_SUM = """    double sum = c.mass[0];
#pragma unroll
    for (int i = 1; i < FAN_OUT; ++i) sum += c.mass[i];
"""

_TREE = [
    # The struct
    Mutant("#define FAN_OUT 16", "#define FAN_OUT 8"),
    Mutant("#define FAN_OUT_BITS 4", "#define FAN_OUT_BITS 3"),
    Mutant("#define FAN_OUT_BITS 4", "#define FAN_OUT_BITS 5"),
    Mutant("#define MAX_SUMS 8", "#define MAX_SUMS 7"),
    Mutant("#define MAX_SUMS 8", "#define MAX_SUMS 9"),
    Mutant(
        "    double* sums[MAX_SUMS];\n    i64 nodes[MAX_SUMS];     // of each level of sums\n",
        "    i64 nodes[MAX_SUMS];\n    double* sums[MAX_SUMS];\n",
    ),
    Mutant(
        "    i64 nodes[MAX_SUMS];     // of each level of sums\n"
        "    u64* tickets[MAX_SUMS];  // for each sum the last update that recomputed it\n",
        "    u64* tickets[MAX_SUMS];\n    i64 nodes[MAX_SUMS];\n",
    ),
    # The children of a node
    Mutant("if (level == 0) {", "if (level <= 1) {"),
    Mutant("if (level == 0) {", "if (false) {"),
    Mutant("(tree.leaves + node * FAN_OUT)", "(tree.leaves + node)"),
    Mutant("(tree.leaves + node * FAN_OUT)", "(tree.leaves)"),
    Mutant("i < FAN_OUT / 4; ++i", "i < FAN_OUT / 4 - 1; ++i"),
    Mutant("const float4 four = quads[i];", "const float4 four = quads[0];"),
    Mutant("c.mass[4 * i] = (double)four.x;", "c.mass[4 * i] = (double)four.y;"),
    Mutant("(double)four.y;", "(double)four.z;"),
    Mutant("(double)four.z;", "(double)four.y;"),
    Mutant("(double)four.w;", "(double)four.z;"),
    Mutant(
        "(double)four.x;\n            c.mass[4 * i + 1] = (double)four.y;",
        "(double)four.y;\n            c.mass[4 * i + 1] = (double)four.x;",
    ),
    Mutant("(tree.sums[level - 1] + node * FAN_OUT)", "(tree.sums[level] + node * FAN_OUT)"),
    Mutant("(tree.sums[level - 1] + node * FAN_OUT)", "(tree.sums[0] + node * FAN_OUT)"),
    Mutant("(tree.sums[level - 1] + node * FAN_OUT)", "(tree.sums[level - 1])"),
    Mutant("i < FAN_OUT / 2; ++i", "i < FAN_OUT / 2 - 1; ++i"),
    Mutant("c.mass[2 * i] = two.x;", "c.mass[2 * i] = two.y;"),
    Mutant("c.mass[2 * i] = two.x;", "c.mass[2 * i] = (float)two.x;"),
    Mutant("c.mass[2 * i + 1] = two.y;", "c.mass[2 * i + 1] = two.x;"),
    Mutant(
        "c.mass[2 * i] = two.x;\n            c.mass[2 * i + 1] = two.y;",
        "c.mass[2 * i] = two.y;\n            c.mass[2 * i + 1] = two.x;",
    ),
    # The sum of a node
    Mutant("double sum = c.mass[0];", "double sum = 0.0;"),
    Mutant("double sum = c.mass[0];", "float sum = c.mass[0];"),
    Mutant("i = 1; i < FAN_OUT; ++i) sum", "i = 2; i < FAN_OUT; ++i) sum"),
    Mutant("i = 1; i < FAN_OUT; ++i) sum", "i = 0; i < FAN_OUT; ++i) sum"),
    Mutant("i = 1; i < FAN_OUT; ++i) sum", "i = 1; i < FAN_OUT - 1; ++i) sum"),
    Mutant(
        "++i) sum += c.mass[i];",
        "++i) sum = c.mass[i] + sum;",
        equivalent="a sum of two is the same in either order",
    ),
    Mutant(
        _SUM,
        """    double sum = c.mass[FAN_OUT - 1];
    for (int i = FAN_OUT - 2; i >= 0; --i) sum += c.mass[i];
""",
    ),
    Mutant(
        _SUM,
        """    double sum = 0.0;
    for (int i = 0; i < FAN_OUT; i += 4)
        sum += (c.mass[i] + c.mass[i + 1]) + (c.mass[i + 2] + c.mass[i + 3]);
""",
    ),
    Mutant(
        _SUM,
        """    double sum = c.mass[0], lost = 0.0;
    for (int i = 1; i < FAN_OUT; ++i) {
        const double y = c.mass[i] - lost, t = sum + y;
        lost = (t - sum) - y;
        sum = t;
    }
""",
    ),
    Mutant("tree.sums[level][node] = sum;", "tree.sums[level][node] += sum;"),
    Mutant("tree.sums[level][node] = sum;", "tree.sums[level][node] = (float)sum;"),
    Mutant("tree.sums[level][node] = sum;", "tree.sums[level][0] = sum;"),
    Mutant("tree.sums[tree.levels - 1][0]", "tree.sums[0][0]"),
    Mutant("tree.sums[tree.levels - 1][0]", "tree.sums[tree.levels - 1][1]"),
    # The child at a target
    Mutant(
        "double running = 0.0, before = 0.0;",
        "double running = 0.0, before = *target;",
        equivalent=_CHOSEN,
    ),
    Mutant(
        "i64 chosen = 0;",
        "i64 chosen = FAN_OUT - 1;",
        equivalent=_CHOSEN,
    ),
    Mutant("const double after = running + c.mass[i];", "const double after = c.mass[i];"),
    Mutant(
        "const double after = running + c.mass[i];",
        "const double after = (float)(running + c.mass[i]);",
    ),
    Mutant("!found && c.mass[i] > 0.0", "c.mass[i] > 0.0"),
    Mutant("!found && c.mass[i] > 0.0", "!found"),
    Mutant("!found && c.mass[i] > 0.0", "!found && c.mass[i] > 0x1p-120"),
    Mutant("            chosen = i;\n", "            chosen += 1;\n"),
    Mutant("            before = running;\n", ""),
    Mutant("            before = running;\n", "            before = after;\n"),
    Mutant("found = after > *target;", "found = after >= *target;"),
    Mutant("found = after > *target;", "found = (float)after > (float)*target;"),
    Mutant("found = after > *target;", "found = true;"),
    Mutant("found = after > *target;", "found = false;"),
    Mutant("found = after > *target;", "found = after > *target || i == FAN_OUT - 2;"),
    Mutant("        running = after;\n", ""),
    Mutant("    *target -= before;\n", ""),
    Mutant("    *target -= before;\n", "    *target = 0.0;\n"),
    Mutant(
        "    *target -= before;\n",
        "    for (i64 i = 0; i < chosen; ++i) *target -= c.mass[i];\n",
    ),
    # The way down
    Mutant("level = tree.levels - 1; level >= 0", "level = tree.levels - 2; level >= 0"),
    Mutant("level = tree.levels - 1; level >= 0", "level = tree.levels - 1; level > 0"),
    Mutant("node = node * FAN_OUT + child_at(", "node = node + child_at("),
    Mutant("node = node * FAN_OUT + child_at(", "node = child_at("),
    Mutant("load_children(tree, level, node), &target", "load_children(tree, level, 0), &target"),
    # An ancestor of a row
    Mutant("FAN_OUT_BITS * (level + 1)", "FAN_OUT_BITS * level"),
    Mutant("FAN_OUT_BITS * (level + 1)", "FAN_OUT_BITS * (level + 2)"),
    Mutant("atomicExch(&tree.tickets[level][node], update) == update", "false"),
    Mutant("update) == update) return false;", "update) != update) return false;"),
    Mutant(
        "update) == update) return false;",
        "update) >= update) return false;",
        equivalent="no ticket is above the number of the update under way",
    ),
    Mutant("update) == update) return false;", "update) != 0) return false;"),
    Mutant("&tree.tickets[level][node], update", "&tree.tickets[level][0], update"),
    Mutant("&tree.tickets[level][node], update", "&tree.tickets[0][node], update"),
    Mutant(
        "    if (atomicExch(&tree.tickets[level][node], update) == update) return false;\n",
        "    const u64 last = tree.tickets[level][node];\n"
        "    tree.tickets[level][node] = update;\n"
        "    if (last == update) return false;\n",
    ),
    Mutant("    sum_node(tree, level, node);\n    return true;", "    return true;"),
    Mutant(
        "    sum_node(tree, level, node);\n    return true;",
        "    sum_node(tree, level, node);\n    return false;",
    ),
]

_CANCELS = "size and total cancel out where a weight is divided by the largest, but for a rounding"

_CLAIM = "lane < update.lanes; lane += blockDim.x)\n        active[lane] = claim_row"
_WRITE = "lane < update.lanes; lane += blockDim.x)\n        if (active[lane]) active[lane] = write"
_CLIMB = "lane < update.lanes; lane += blockDim.x)\n            if (active[lane])"
_LEVELS_OF_RING = "level < tree.levels; ++level) {\n        __syncthreads();\n        sum_ring"
_LEVELS_OF_FEW = "level < tree.levels; ++level) {\n        __syncthreads();\n        for"

_TARGET = "((double)lane + real_of(word)) * (total / (double)lanes)"

_DRAW = [
    Mutant(
        "    u64* tokens;\n    double* raw;\n    double* largest;",
        "    double* raw;\n    u64* tokens;\n    double* largest;",
    ),
    Mutant("double* largest;  // one a tile\n    i64 tile; ", "i64 tile;\n    double* largest; "),
    # A lane
    Mutant(_TARGET, "((double)lane + real_of(word)) * total / (double)lanes"),
    Mutant(_TARGET, "((double)lane + real_of(word)) / (double)lanes * total"),
    Mutant(
        _TARGET, "(double)lane * (total / (double)lanes) + real_of(word) * (total / (double)lanes)"
    ),
    Mutant(_TARGET, "((double)lane + real_of(word)) * (float)(total / (double)lanes)"),
    Mutant(_TARGET, "(float)((double)lane + real_of(word)) * (total / (double)lanes)"),
    Mutant(_TARGET, "((double)lane + real_of(word)) * (total / (double)(lanes + 1))"),
    Mutant(_TARGET, "((double)lane + 0.5) * (total / (double)lanes)"),
    Mutant(_TARGET, "real_of(word) * total"),
    Mutant(_TARGET, "((double)lane + 1.0) * (total / (double)lanes)"),
    Mutant(_TARGET, "((double)lane + 1.0 - real_of(word)) * (total / (double)lanes)"),
    Mutant(_TARGET, "((double)(lanes - 1 - lane) + real_of(word)) * (total / (double)lanes)"),
    Mutant("control->draws, lane, PURPOSE_TARGETS", "0, lane, PURPOSE_TARGETS"),
    Mutant("control->draws, lane, PURPOSE_TARGETS", "control->draws, 0, PURPOSE_TARGETS"),
    Mutant("control->draws, lane, PURPOSE_TARGETS", "control->draws, lane + 1, PURPOSE_TARGETS"),
    Mutant("control->draws, lane, PURPOSE_TARGETS", "(u32)control->draws, lane, PURPOSE_TARGETS"),
    Mutant("control->draws, lane, PURPOSE_TARGETS", "control->draws, lane, PURPOSE_ROWS"),
    Mutant("philox_word(control->key,", "philox_word((u32)control->key,"),
    Mutant("tree.leaves[row], total", "tree.leaves[0], total"),
    Mutant(
        "weight_of(control, tree.leaves[row], total)",
        "weight_of(control, tree.leaves[row], 1.0)",
        equivalent=_CANCELS,
    ),
    Mutant("    draw.indices[lane] = row;\n", ""),
    Mutant("    draw.tokens[lane] = draw_token(control);\n", ""),
    Mutant("draw.tokens[lane] = draw_token(control);", "draw.tokens[0] = draw_token(control);"),
    Mutant("draw.tokens[lane] = draw_token(control);", "draw.tokens[lane] = (u64)control->total;"),
    Mutant(
        "draw.tokens[lane] = draw_token(control);", "draw.tokens[lane] = draw_token(control) + 1;"
    ),
    Mutant("    draw.raw[lane] = weight;\n", ""),
    Mutant("draw.raw[lane] = weight;", "draw.raw[lane] = (float)weight;"),
    Mutant("    return weight;\n", "    return (float)weight;\n"),
    # The kernel
    Mutant("first = blockIdx.x * draw.tile; first < lanes", "first = 0; first < lanes"),
    Mutant("first = blockIdx.x * draw.tile; first < lanes", "first = blockIdx.x; first < lanes"),
    Mutant(
        "first = blockIdx.x * draw.tile; first < lanes",
        "first = blockIdx.x * draw.tile; first <= lanes",
    ),
    Mutant(
        "first = blockIdx.x * draw.tile; first < lanes",
        "first = blockIdx.x * draw.tile; first < lanes - 1",
    ),
    Mutant("first += gridDim.x * draw.tile", "first += draw.tile"),
    Mutant("first += gridDim.x * draw.tile", "first = lanes"),
    Mutant(
        "end = first + draw.tile < lanes ? first + draw.tile : lanes", "end = first + draw.tile"
    ),
    Mutant("end = first + draw.tile < lanes ? first + draw.tile : lanes", "end = lanes"),
    Mutant(
        "end = first + draw.tile < lanes ? first + draw.tile : lanes",
        "end = first + draw.tile < lanes ? first + draw.tile : lanes - 1",
    ),
    Mutant("if (threadIdx.x == 0) largest = 0;", ""),
    Mutant("if (threadIdx.x == 0) largest = 0;", "largest = 0;"),
    Mutant(
        "if (threadIdx.x == 0) largest = 0;", "if (threadIdx.x == 0 && first == 0) largest = 0;"
    ),
    Mutant("largest = 0;\n        __syncthreads();\n", "largest = 0;\n"),
    Mutant("lane = first + threadIdx.x; lane < end", "lane = first; lane < end"),
    Mutant("lane = first + threadIdx.x; lane < end", "lane = threadIdx.x; lane < end"),
    Mutant("lane = first + threadIdx.x; lane < end", "lane = first + threadIdx.x; lane <= end"),
    Mutant("lane < end; lane += blockDim.x", "lane < end; lane = end"),
    Mutant("lane < end; lane += blockDim.x", "lane < end; lane += gridDim.x * blockDim.x"),
    Mutant("atomicMax(&largest, (u64)", "atomicExch(&largest, (u64)"),
    Mutant("atomicMax(&largest, (u64)", "atomicMin(&largest, (u64)"),
    Mutant(
        "atomicMax(&largest, (u64)__double_as_longlong(weight));",
        "largest = (u64)__double_as_longlong(weight);",
    ),
    Mutant(
        "        }\n        __syncthreads();\n        if (threadIdx.x == 0) draw.largest",
        "        }\n        if (threadIdx.x == 0) draw.largest",
    ),
    Mutant(
        "if (threadIdx.x == 0) draw.largest[first / draw.tile]", "draw.largest[first / draw.tile]"
    ),
    Mutant("draw.largest[first / draw.tile]", "draw.largest[0]"),
    Mutant("draw.largest[first / draw.tile]", "draw.largest[blockIdx.x]"),
]

_ENTER = [
    # Sums of the rows that entered
    Mutant("bits = FAN_OUT_BITS * (int)(level + 1)", "bits = FAN_OUT_BITS * (int)level"),
    Mutant("bits = FAN_OUT_BITS * (int)(level + 1)", "bits = FAN_OUT_BITS * (int)(level + 2)"),
    Mutant(
        "past_end = first + count - capacity;",
        "past_end = first + count - capacity + 1;",
        equivalent="one more node is summed, from children that did not change",
    ),
    Mutant("past_end = first + count - capacity;", "past_end = first + count - capacity - 1;"),
    Mutant("past_end = first + count - capacity;", "past_end = 0;"),
    Mutant(
        "low = first >> bits",
        "low = 0",
        equivalent="more nodes are summed, from children that did not change",
    ),
    Mutant("low = first >> bits", "low = (first + 1) >> bits"),
    Mutant(
        "(past_end > 0 ? capacity - 1 : first + count - 1) >> bits", "(first + count - 1) >> bits"
    ),
    Mutant(
        "(past_end > 0 ? capacity - 1 : first + count - 1) >> bits",
        "(past_end > 0 ? capacity : first + count - 1) >> bits",
    ),
    Mutant(
        "(past_end > 0 ? capacity - 1 : first + count - 1) >> bits",
        "(past_end > 0 ? capacity - 1 : first + count) >> bits",
    ),
    Mutant(
        "(past_end > 0 ? capacity - 1 : first + count - 1) >> bits",
        "(past_end > 0 ? capacity - 1 : first + count - 2) >> bits",
    ),
    Mutant(
        "(past_end > 0 ? capacity - 1 : first + count - 1) >> bits",
        "(past_end > 1 ? capacity - 1 : first + count - 1) >> bits",
    ),
    Mutant(
        "(past_end > 0 ? capacity - 1 : first + count - 1) >> bits",
        "(past_end >= 0 ? capacity - 1 : first + count - 1) >> bits",
        equivalent="where past_end is 0, first + count is the capacity",
    ),
    Mutant("wrapped = past_end > 0 ?", "wrapped = past_end > 1 ?"),
    Mutant(
        "wrapped = past_end > 0 ?",
        "wrapped = past_end >= 0 ?",
        equivalent="-1 >> bits is -1, and that + 1 is 0",
    ),
    Mutant("((past_end - 1) >> bits) + 1", "((past_end - 1) >> bits)"),
    Mutant(
        "((past_end - 1) >> bits) + 1",
        "(past_end >> bits) + 1",
        equivalent="one more node is summed, from children that did not change",
    ),
    Mutant("((past_end - 1) >> bits) + 1", "1"),
    Mutant("    if (wrapped > low) wrapped = low;", "   "),
    Mutant("if (wrapped > low) wrapped = low;", "if (wrapped > low) wrapped = 0;"),
    Mutant("if (wrapped > low) wrapped = low;", "if (wrapped > low) wrapped = low - 1;"),
    Mutant(
        "i64 i = threadIdx.x; i <= high - low + wrapped", "i64 i = 0; i <= high - low + wrapped"
    ),
    Mutant(
        "i <= high - low + wrapped; i += blockDim.x", "i < high - low + wrapped; i += blockDim.x"
    ),
    Mutant(
        "i <= high - low + wrapped; i += blockDim.x",
        "i <= high - low + wrapped + 1; i += blockDim.x",
    ),
    Mutant("i <= high - low + wrapped; i += blockDim.x", "i <= high - low; i += blockDim.x"),
    Mutant("i <= high - low + wrapped; i += blockDim.x", "i <= high - low + wrapped; i = capacity"),
    Mutant("i <= high - low ? low + i", "i <= high - low ? i"),
    Mutant("i <= high - low ? low + i", "i < high - low ? low + i"),
    Mutant(": i - (high - low + 1)", ": i - (high - low)"),
    # The kernel
    Mutant(
        "    if (blockIdx.x != 0) return;\n    count_kept", "    count_kept", equivalent=_ONE_BLOCK
    ),
    Mutant("count_kept(mask, n, &kept);", "count_kept(mask, n - 1, &kept);"),
    Mutant("count_kept(mask, n, &kept);", "count_kept(nullptr, n, &kept);"),
    Mutant(
        "    if (kept == 0) return;\n",
        "",
        equivalent="no leaf is written then, and some sums are made that are there already",
    ),
    Mutant("if (kept == 0) return;", "if (kept <= 1) return;"),
    Mutant("count = (i64)kept < capacity ? (i64)kept : capacity", "count = (i64)kept"),
    Mutant(
        "count = (i64)kept < capacity ? (i64)kept : capacity", "count = n < capacity ? n : capacity"
    ),
    Mutant(
        "count = (i64)kept < capacity ? (i64)kept : capacity",
        "count = (i64)kept < capacity ? (i64)kept : capacity - 1",
    ),
    Mutant(
        "count = (i64)kept < capacity ? (i64)kept : capacity",
        "count = (i64)kept <= capacity ? (i64)kept : 0",
    ),
    Mutant("ring_row(control, (i64)kept - count)", "ring_row(control, (i64)kept)"),
    Mutant("ring_row(control, (i64)kept - count)", "ring_row(control, -1)"),
    Mutant("ring_row(control, (i64)kept - count)", "control->total"),
    Mutant(
        "ring_row(control, (i64)kept - count)",
        "ring_row(control, 0)",
        equivalent="where kept is not the count, the count is the whole ring",
    ),
    Mutant("leaf_of(control, control->max_priority);", "leaf_of(control, 1.0);"),
    Mutant("leaf_of(control, control->max_priority);", "(float)control->max_priority;"),
    Mutant(
        "leaf_of(control, control->max_priority);",
        "leaf_of(control, control->max_priority + control->epsilon);",
    ),
    Mutant("i64 i = threadIdx.x; i < count", "i64 i = 0; i < count"),
    Mutant("i < count; i += blockDim.x", "i < count - 1; i += blockDim.x"),
    Mutant("i < count; i += blockDim.x", "i <= count; i += blockDim.x"),
    Mutant("i < count; i += blockDim.x", "i < count; i = count"),
    Mutant("first + i < capacity ? first + i :", "first + i <= capacity ? first + i :"),
    Mutant("first + i < capacity ? first + i :", "first + i < capacity - 1 ? first + i :"),
    Mutant("? first + i : first + i - capacity] = leaf", "? first + i : 0] = leaf"),
    Mutant(
        _LEVELS_OF_RING, _LEVELS_OF_RING.replace("level < tree.levels", "level < tree.levels - 1")
    ),
    Mutant(_LEVELS_OF_RING, _LEVELS_OF_RING.replace("        __syncthreads();\n", "")),
    Mutant(
        "sum_ring(tree, level, first, count, capacity);",
        "sum_ring(tree, 0, first, count, capacity);",
    ),
    Mutant(
        "sum_ring(tree, level, first, count, capacity);",
        "sum_ring(tree, level, first, count - 1, capacity);",
    ),
    Mutant("    if (threadIdx.x == 0) control->total += (i64)kept;\n", ""),
    Mutant("if (threadIdx.x == 0) control->total += (i64)kept;", "control->total += (i64)kept;"),
    Mutant("control->total += (i64)kept;", "control->total += n;"),
    Mutant("control->total += (i64)kept;", "control->total += count;"),
    Mutant("control->total += (i64)kept;", "control->total = (i64)kept;"),
]

_UPDATE = [
    Mutant("#define MAX_FEW 1024", "#define MAX_FEW 1023"),
    # claim_row
    Mutant("if (verdict == WRITTEN) {", "if (verdict != INVALID) {"),
    Mutant("if (verdict == WRITTEN) {", "if (verdict != STALE) {"),
    Mutant("if (verdict == WRITTEN) {", "if (true) {"),
    Mutant(
        "atomicMax(&tree.winners[update.rows[lane]], (i32)lane + 1);",
        "atomicExch(&tree.winners[update.rows[lane]], (i32)lane + 1);",
    ),
    Mutant(
        "atomicMax(&tree.winners[update.rows[lane]], (i32)lane + 1);",
        "atomicMin(&tree.winners[update.rows[lane]], (i32)lane + 1);",
    ),
    Mutant(
        "atomicMax(&tree.winners[update.rows[lane]], (i32)lane + 1);",
        "tree.winners[update.rows[lane]] = (i32)lane + 1;",
    ),
    Mutant(
        "atomicMax(&tree.winners[update.rows[lane]], (i32)lane + 1);",
        "atomicMax(&tree.winners[update.rows[lane]], (i32)lane);",
    ),
    Mutant(
        "atomicMax(&tree.winners[update.rows[lane]], (i32)lane + 1);",
        "atomicMax(&tree.winners[lane], (i32)lane + 1);",
    ),
    Mutant("(i32)lane + 1);\n        return true;", "(i32)lane + 1);\n        return false;"),
    Mutant(
        "verdict == STALE ? &control->stale_updates : &control->invalid_priorities",
        "verdict == STALE ? &control->invalid_priorities : &control->stale_updates",
    ),
    Mutant(
        "verdict == STALE ? &control->stale_updates : &control->invalid_priorities",
        "&control->stale_updates",
    ),
    Mutant("atomicAdd((u64*)counter, (u64)1);", "*counter += 1;"),
    Mutant("atomicAdd((u64*)counter, (u64)1);", "atomicAdd((u64*)counter, (u64)2);"),
    Mutant("atomicAdd((u64*)counter, (u64)1);", "atomicExch((u64*)counter, (u64)1);"),
    Mutant("(u64)1);\n    return false;", "(u64)1);\n    return true;"),
    # write_leaf
    Mutant(
        "atomicCAS(&tree.winners[row], (i32)lane + 1, 0) != (i32)lane + 1",
        "atomicCAS(&tree.winners[row], (i32)lane + 1, (i32)lane + 1) != (i32)lane + 1",
    ),
    Mutant(
        "atomicCAS(&tree.winners[row], (i32)lane + 1, 0) != (i32)lane + 1",
        "atomicExch(&tree.winners[row], 0) != (i32)lane + 1",
    ),
    Mutant(
        "atomicCAS(&tree.winners[row], (i32)lane + 1, 0) != (i32)lane + 1",
        "atomicCAS(&tree.winners[row], (i32)lane + 1, 0) == 0",
    ),
    Mutant("atomicCAS(&tree.winners[row], (i32)lane + 1, 0) != (i32)lane + 1", "false"),
    Mutant(
        "    if (atomicCAS(&tree.winners[row], (i32)lane + 1, 0) != (i32)lane + 1) return false;\n",
        "    if (tree.winners[row] != (i32)lane + 1) return false;\n    tree.winners[row] = 0;\n",
    ),
    Mutant("tree.leaves[row] = leaf_of(control, priority);", "tree.leaves[row] = (float)priority;"),
    Mutant(
        "tree.leaves[row] = leaf_of(control, priority);",
        "tree.leaves[row] = leaf_of(control, priority - control->epsilon);",
    ),
    Mutant(
        "    atomicMax((u64*)&control->max_priority, (u64)__double_as_longlong(priority));\n", ""
    ),
    Mutant(
        "atomicMax((u64*)&control->max_priority, (u64)__double_as_longlong(priority));",
        "atomicExch((u64*)&control->max_priority, (u64)__double_as_longlong(priority));",
    ),
    Mutant(
        "atomicMax((u64*)&control->max_priority, (u64)__double_as_longlong(priority));",
        "atomicMin((u64*)&control->max_priority, (u64)__double_as_longlong(priority));",
    ),
    Mutant(
        "atomicMax((u64*)&control->max_priority, (u64)__double_as_longlong(priority));",
        "if (priority > control->max_priority) control->max_priority = priority;",
    ),
    Mutant("(u64)__double_as_longlong(priority));", "(u64)__double_as_longlong((float)priority));"),
    Mutant(
        "(u64)__double_as_longlong(priority));",
        "(u64)__double_as_longlong((double)tree.leaves[row]));",
    ),
    Mutant("(priority));\n    return true;", "(priority));\n    return false;"),
    # update_few
    Mutant(
        "    if (blockIdx.x != 0) return;\n    const u64 number",
        "    const u64 number",
        equivalent=_ONE_BLOCK,
    ),
    Mutant("number = *tree.updates + 1;", "number = *tree.updates;"),
    Mutant("number = *tree.updates + 1;", "number = 1;"),
    Mutant("number = *tree.updates + 1;", "number = (u64)update.lanes;"),
    Mutant(_CLAIM, _CLAIM.replace("< update.lanes", "<= update.lanes")),
    Mutant(_CLAIM, _CLAIM.replace("< update.lanes", "< update.lanes - 1")),
    Mutant(_CLAIM, _CLAIM.replace("+= blockDim.x", "= update.lanes")),
    Mutant("update, lane);\n    __syncthreads();\n", "update, lane);\n"),
    Mutant(_WRITE, _WRITE.replace("< update.lanes", "<= update.lanes")),
    Mutant(_WRITE, _WRITE.replace("< update.lanes", "< update.lanes - 1")),
    Mutant(_WRITE, _WRITE.replace("+= blockDim.x", "= update.lanes")),
    Mutant(_WRITE, _WRITE.replace("if (active[lane]) ", "")),
    Mutant(
        _WRITE,
        _WRITE.replace("active[lane] = write", "write"),
        equivalent="a lane that did not write goes up too: tickets let one sum a node",
    ),
    Mutant(
        _LEVELS_OF_FEW, _LEVELS_OF_FEW.replace("level < tree.levels", "level < tree.levels - 1")
    ),
    Mutant(_LEVELS_OF_FEW, _LEVELS_OF_FEW.replace("        __syncthreads();\n", "")),
    Mutant(_CLIMB, _CLIMB.replace("< update.lanes", "<= update.lanes")),
    Mutant(_CLIMB, _CLIMB.replace("< update.lanes", "< update.lanes - 1")),
    Mutant(_CLIMB, _CLIMB.replace("+= blockDim.x", "= update.lanes")),
    Mutant(_CLIMB, _CLIMB.replace("if (active[lane])", "")),
    Mutant(
        "if (active[lane]) active[lane] = sum_ancestor(",
        "if (active[lane]) sum_ancestor(",
        equivalent="the lane goes on for nothing: tickets let one sum a node",
    ),
    Mutant(
        "sum_ancestor(tree, level, update.rows[lane], number)",
        "sum_ancestor(tree, 0, update.rows[lane], number)",
    ),
    Mutant(
        "sum_ancestor(tree, level, update.rows[lane], number)",
        "sum_ancestor(tree, level, update.rows[lane], 1)",
    ),
    Mutant("    if (threadIdx.x == 0) *tree.updates = number;\n", ""),
    Mutant("if (threadIdx.x == 0) *tree.updates = number;", "*tree.updates = number;"),
    # More lanes than that
    Mutant(
        "lane < update.lanes; lane += grid_step())\n        claim_row",
        "lane <= update.lanes; lane += grid_step())\n        claim_row",
    ),
    Mutant(
        "lane < update.lanes; lane += grid_step())\n        claim_row",
        "lane < update.lanes - 1; lane += grid_step())\n        claim_row",
    ),
    Mutant(
        "lane < update.lanes; lane += grid_step())\n        claim_row",
        "lane < update.lanes; lane = update.lanes)\n        claim_row",
    ),
    Mutant(
        "lane += grid_step())\n        if (judge(control, update, lane) == WRITTEN) write",
        "lane = update.lanes)\n        if (judge(control, update, lane) == WRITTEN) write",
    ),
    Mutant("if (judge(control, update, lane) == WRITTEN) write_leaf", "write_leaf"),
    Mutant(
        "if (judge(control, update, lane) == WRITTEN) write_leaf",
        "if (judge(control, update, lane) != STALE) write_leaf",
        equivalent="a lane that did not put itself in finds another's number, or 0",
    ),
    Mutant(
        "if (judge(control, update, lane) == WRITTEN) write_leaf",
        "if (judge(control, update, lane) != INVALID) write_leaf",
    ),
    Mutant(
        "lane += grid_step())\n        if (judge(control, update, lane) == WRITTEN)\n",
        "lane = update.lanes)\n        if (judge(control, update, lane) == WRITTEN)\n",
    ),
    Mutant("        if (judge(control, update, lane) == WRITTEN)\n", ""),
    Mutant(
        "        if (judge(control, update, lane) == WRITTEN)\n",
        "        if (judge(control, update, lane) != STALE)\n",
        equivalent="more nodes are summed, from children that did not change",
    ),
    Mutant("update.rows[lane], *tree.updates + 1)", "update.rows[lane], *tree.updates)"),
    Mutant("update.rows[lane], *tree.updates + 1)", "update.rows[lane], 1)"),
    Mutant(
        "sum_ancestor(tree, level, update.rows[lane], *tree",
        "sum_ancestor(tree, 0, update.rows[lane], *tree",
    ),
    Mutant(
        "    if (!first_thread()) return;\n",
        "",
        equivalent="the host launches this kernel with one thread of one block",
    ),
    Mutant("    sum_node(tree, tree.levels - 1, 0);\n", ""),
    Mutant("sum_node(tree, tree.levels - 1, 0);", "sum_node(tree, 0, 0);"),
    Mutant("    *tree.updates += 1;\n", ""),
    # sum_level
    Mutant(
        "node < tree.nodes[level]; node += grid_step()",
        "node <= tree.nodes[level]; node += grid_step()",
    ),
    Mutant(
        "node < tree.nodes[level]; node += grid_step()",
        "node < tree.nodes[level] - 1; node += grid_step()",
    ),
    Mutant(
        "node < tree.nodes[level]; node += grid_step()", "node < tree.nodes[0]; node += grid_step()"
    ),
    Mutant(
        "node < tree.nodes[level]; node += grid_step()",
        "node < tree.nodes[level]; node = tree.nodes[level]",
    ),
    Mutant(
        "node += grid_step())\n        sum_node(tree, level, node);",
        "node += grid_step())\n        sum_node(tree, 0, node);",
    ),
]

_FORMULAS = [
    # Leaves
    Mutant("SMALLEST_MASS 0x1p-126", "SMALLEST_MASS 0x1p-149"),
    Mutant("SMALLEST_MASS 0x1p-126", "SMALLEST_MASS 0x1p-125"),
    Mutant("FLOAT_OVERFLOW 0x1.ffffffp127", "FLOAT_OVERFLOW 0x1.fffffep127"),
    Mutant("FLOAT_OVERFLOW 0x1.ffffffp127", "FLOAT_OVERFLOW 0x1p128"),
    Mutant("LARGEST_DOUBLE 0x1.fffffffffffffp1023", "LARGEST_DOUBLE 0x1p1023"),
    Mutant("leaf = power(priority, c->alpha);", "leaf = priority;"),
    Mutant("leaf = power(priority, c->alpha);", "leaf = power(priority, c->beta);"),
    Mutant("leaf = power(priority, c->alpha);", "leaf = powf(priority, c->alpha);"),
    Mutant("leaf > SMALLEST_MASS ? leaf : SMALLEST_MASS", "leaf"),
    Mutant("leaf > SMALLEST_MASS ? leaf : SMALLEST_MASS", "leaf > 0.0 ? leaf : SMALLEST_MASS"),
    Mutant("leaf > SMALLEST_MASS ? leaf : SMALLEST_MASS", "leaf + SMALLEST_MASS"),
    Mutant(
        "    if (priority < FLOAT_OVERFLOW) return true;\n",
        "",
        equivalent="alpha is in [0, 1], so that a power of it is no larger than it and 1",
    ),
    Mutant(
        "if (priority < FLOAT_OVERFLOW) return true;",
        "if (priority <= FLOAT_OVERFLOW) return true;",
    ),
    Mutant(
        "if (priority < FLOAT_OVERFLOW) return true;",
        "if (!(priority >= FLOAT_OVERFLOW)) return true;",
    ),
    Mutant("    if (!(priority <= LARGEST_DOUBLE)) return false;", ""),
    Mutant("if (!(priority <= LARGEST_DOUBLE))", "if (!(priority < LARGEST_DOUBLE))"),
    Mutant("if (!(priority <= LARGEST_DOUBLE))", "if (priority > LARGEST_DOUBLE)"),
    Mutant(
        "return power(priority, c->alpha) < FLOAT_OVERFLOW",
        "return power(priority, c->alpha) <= FLOAT_OVERFLOW",
    ),
    Mutant("return power(priority, c->alpha) < FLOAT_OVERFLOW", "return true"),
    Mutant("return power(priority, c->alpha) < FLOAT_OVERFLOW", "return false"),
    # Weights
    Mutant(
        "power((double)ring_size(c) * (double)leaf / total, -c->beta)",
        "power((double)ring_size(c) * (double)leaf / total, c->beta)",
    ),
    Mutant(
        "power((double)ring_size(c) * (double)leaf / total, -c->beta)",
        "power((double)ring_size(c) * (double)leaf / total, -c->alpha)",
    ),
    Mutant(
        "power((double)ring_size(c) * (double)leaf / total, -c->beta)",
        "power((double)ring_size(c) * (double)leaf / total, -1.0)",
    ),
    Mutant("(double)ring_size(c) * (double)leaf / total", "(double)leaf / total"),
    Mutant(
        "(double)ring_size(c) * (double)leaf / total",
        "(double)c->total * (double)leaf / total",
        equivalent=_CANCELS,
    ),
    Mutant("(double)ring_size(c) * (double)leaf / total", "(float)((double)leaf / total)"),
    Mutant("weight / largest;", "weight;"),
    Mutant("weight / largest;", "largest / weight;"),
    Mutant("weight / largest;", "(float)weight / (float)largest;"),
    Mutant("quotient < SMALLEST_MASS ? 0.0f :", "false ? 0.0f :"),
    Mutant("quotient < SMALLEST_MASS ? 0.0f :", "quotient <= SMALLEST_MASS ? 0.0f :"),
    Mutant("quotient < SMALLEST_MASS ? 0.0f :", "quotient < SMALLEST_MASS ? 0x1p-126f :"),
    Mutant("quotient < SMALLEST_MASS ? 0.0f :", "quotient < 0x1p-120 ? 0.0f :"),
    # Tokens
    Mutant("return (u64)c->total + c->run;", "return (u64)c->total;"),
    Mutant("return (u64)c->total + c->run;", "return c->run;"),
    Mutant("return (u64)c->total + c->run;", "return (u64)c->total - c->run;"),
    Mutant("return (u64)c->total + c->run;", "return (u64)c->total ^ c->run;"),
    Mutant("return (u64)c->total + c->run;", "return (u32)((u64)c->total + c->run);"),
    Mutant("age = draw_token(c) - token;", "age = token - draw_token(c);"),
    Mutant("    if (age > (u64)c->total) return true;\n", ""),
    Mutant("if (age > (u64)c->total) return true;", "if (age > (u64)c->total) return false;"),
    Mutant(
        "if (age > (u64)c->total) return true;",
        "if (age > (u64)c->capacity) return true;",
        equivalent="between the two, a row that is held lies less than the age ahead",
    ),
    Mutant("if (age > (u64)c->total) return true;", "if (age > 0) return true;"),
    Mutant(
        "if (age > (u64)c->total) return true;",
        "if (age >= (u64)c->total) return true;",
        equivalent="a draw from an empty buffer is refused, so no token of this run is as old",
    ),
    Mutant("row - (c->total - since) % c->capacity", "row - c->total % c->capacity"),
    Mutant("row - (c->total - since) % c->capacity", "row - (c->total + since) % c->capacity"),
    Mutant("row - (c->total - since) % c->capacity", "row - (c->total - since)"),
    Mutant("row - (c->total - since) % c->capacity", "row - (c->total - since) % c->capacity + 1"),
    Mutant("(ahead < 0 ? ahead + c->capacity : ahead) < since", "ahead < since"),
    Mutant("(ahead < 0 ? ahead + c->capacity : ahead) < since", "ahead >= 0 && ahead < since"),
    Mutant(
        "(ahead < 0 ? ahead + c->capacity : ahead) < since",
        "(ahead <= 0 ? ahead + c->capacity : ahead) < since",
    ),
    Mutant(
        "(ahead < 0 ? ahead + c->capacity : ahead) < since",
        "(ahead < 0 ? ahead + c->capacity : ahead) <= since",
    ),
    Mutant(
        "(ahead < 0 ? ahead + c->capacity : ahead) < since",
        "(ahead < 0 ? ahead + c->capacity : ahead) < since - 1",
    ),
    # What is given
    Mutant(
        "    const i64* rows;\n    const u32* tokens;",
        "    const u32* tokens;\n    const i64* rows;",
    ),
    Mutant("u.error_bytes == 8 ?", "u.error_bytes != 8 ?"),
    Mutant("u.error_bytes == 8 ?", "true ?"),
    Mutant("u.error_bytes == 8 ?", "false ?"),
    Mutant("return fabs(error) + c->epsilon;", "return error + c->epsilon;"),
    Mutant("return fabs(error) + c->epsilon;", "return fabs(error);"),
    Mutant("return fabs(error) + c->epsilon;", "return fabs(error) - c->epsilon;"),
    Mutant("return fabs(error) + c->epsilon;", "return (float)(fabs(error) + c->epsilon);"),
    Mutant("return fabs(error) + c->epsilon;", "return fmax(fabs(error), c->epsilon);"),
    # The verdict
    Mutant(
        "if (row < 0 || row >= ring_size(c)) return STALE;",
        "if (row >= ring_size(c)) return STALE;",
    ),
    Mutant("if (row < 0 || row >= ring_size(c)) return STALE;", "if (row < 0) return STALE;"),
    Mutant(
        "if (row < 0 || row >= ring_size(c)) return STALE;",
        "if (row <= 0 || row >= ring_size(c)) return STALE;",
    ),
    Mutant(
        "if (row < 0 || row >= ring_size(c)) return STALE;",
        "if (row < 0 || row > ring_size(c)) return STALE;",
    ),
    Mutant(
        "if (row < 0 || row >= ring_size(c)) return STALE;",
        "if (row < 0 || row >= ring_size(c) - 1) return STALE;",
    ),
    Mutant(
        "if (row < 0 || row >= ring_size(c)) return STALE;",
        "if (row < 0 || row >= c->capacity) return STALE;",
    ),
    Mutant(
        "if (row < 0 || row >= ring_size(c)) return STALE;",
        "if (row < 0 || row >= ring_size(c)) return INVALID;",
    ),
    Mutant("if (u.tokens && is_stale(c, row, token_of(u, lane))) return STALE;", ""),
    Mutant("if (u.tokens && is_stale(", "if (is_stale("),
    Mutant("is_stale(c, row, token_of(u, lane))", "is_stale(c, row, token_of(u, 0))"),
    Mutant("token_of(u, lane))) return STALE;", "token_of(u, lane))) return INVALID;"),
    Mutant("has_leaf(c, priority_of(c, u, lane)) ? WRITTEN : INVALID", "WRITTEN"),
    Mutant(
        "has_leaf(c, priority_of(c, u, lane)) ? WRITTEN : INVALID",
        "has_leaf(c, priority_of(c, u, lane)) ? WRITTEN : STALE",
    ),
    Mutant("has_leaf(c, priority_of(c, u, lane))", "has_leaf(c, priority_of(c, u, 0))"),
    Mutant(
        "    if (u.tokens && is_stale",
        "    if (!has_leaf(c, priority_of(c, u, lane))) return INVALID;\n"
        "    if (u.tokens && is_stale",
    ),
    Mutant(
        "    if (row < 0 || row",
        "    if (!has_leaf(c, priority_of(c, u, lane))) return INVALID;\n    if (row < 0 || row",
    ),
    # Powers without pow
    Mutant(
        "    if (exponent == 1.0) return base;\n",
        "",
        open="the emulator's pow, the C library's, is exact there; a card's need not be",
    ),
    Mutant("    if (exponent == 0.5) return sqrt(base);\n", ""),
    Mutant(
        "    if (exponent == 0.0) return 1.0;\n", "", equivalent="pow gives 1 there by its standard"
    ),
    Mutant("    if (exponent == -1.0) return 1.0 / base;\n", ""),
    Mutant("if (exponent == 1.0) return base;", "if (exponent == 1.0) return 1.0;"),
    Mutant("if (exponent == 0.5) return sqrt(base);", "if (exponent == 0.5) return sqrtf(base);"),
    Mutant("if (exponent == 0.5)", "if (exponent == -0.5)"),
    Mutant("if (exponent == 0.0) return 1.0;", "if (exponent == 0.0) return 0.0;"),
    Mutant("if (exponent == -1.0) return 1.0 / base;", "if (exponent == -1.0) return base;"),
    Mutant("return pow(base, exponent);", "return pow(base, -exponent);"),
    Mutant("return pow(base, exponent);", "return exp2(exponent * log2(base));"),
    # The words of a token
    Mutant(
        "u.tokens[2 * lane + 1] << 32 | u.tokens[2 * lane]",
        "u.tokens[2 * lane] << 32 | u.tokens[2 * lane + 1]",
    ),
    Mutant(
        "u.tokens[2 * lane + 1] << 32 | u.tokens[2 * lane]",
        "u.tokens[lane + 1] << 32 | u.tokens[lane]",
    ),
    Mutant(
        "return (u64)u.tokens[2 * lane + 1] << 32 | u.tokens[2 * lane];",
        "return u.tokens[2 * lane];",
    ),
    Mutant(
        "return (u64)u.tokens[2 * lane + 1] << 32 | u.tokens[2 * lane];",
        "return ((const u64*)u.tokens)[lane];",
    ),
]

_FLOATS = [
    Mutant("FLOAT_SIGN 0x80000000u", "FLOAT_SIGN 0x00000000u"),
    Mutant("FLOAT_SIGN 0x80000000u", "FLOAT_SIGN 0xC0000000u"),
    Mutant("size = bits & ~FLOAT_SIGN;", "size = bits;"),
    Mutant(
        "size < 0x00800000u ?",
        "size <= 0x00800000u ?",
        equivalent="2**23 * 2**-149 is 2**-126 as well",
    ),
    Mutant("size < 0x00800000u ?", "size < 0x00400000u ?"),
    Mutant("size < 0x00800000u ?", "false ?"),
    Mutant(
        "size < 0x00800000u ?",
        "size < 0x01000000u ?",
        equivalent="numbers of the first exponent are multiples of 2**-149 by their bits too",
    ),
    Mutant("(double)size * 0x1p-149", "(double)size * 0x1p-148"),
    Mutant("(double)size * 0x1p-149", "0.0"),
    Mutant("return bits & FLOAT_SIGN ? -x : x;", "return x;"),
    Mutant("return bits & FLOAT_SIGN ? -x : x;", "return bits & FLOAT_SIGN ? x : -x;"),
    Mutant("size = fabs(x);", "size = x;"),
    Mutant(
        "size < 0x1p-126 ?",
        "size <= 0x1p-126 ?",
        equivalent="2**-126 * 2**149 is 2**23, the bits of 2**-126",
    ),
    Mutant("size < 0x1p-126 ?", "size < 0x1p-127 ?"),
    Mutant("size < 0x1p-126 ?", "false ?"),
    Mutant("(u32)rint(size * 0x1p149)", "(u32)(size * 0x1p149)"),
    Mutant("(u32)rint(size * 0x1p149)", "(u32)rint(size * 0x1p148)"),
    Mutant("__double_as_longlong(x) < 0 ? bits | FLOAT_SIGN : bits", "bits"),
    Mutant(
        "__double_as_longlong(x) < 0 ?",
        "x < 0.0 ?",
        equivalent="sums that begin at 0 are never -0",
    ),
]

PRIORITY_KERNELS = {
    "cuda_src/floats.cuh": _FLOATS,
    "cuda_src/sumtree.cuh": _TREE,
    "cuda_src/sumtree.cu": [*_DRAW, *_ENTER, *_UPDATE],
    "cuda_src/priorities.cuh": _FORMULAS,
}
