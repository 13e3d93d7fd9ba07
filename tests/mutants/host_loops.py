"""Mistakes in the compiled loops of host buffers. ``--only host`` plants them."""

from tests.mutants.mutant import Mutant

_COMPILED = "-k native or (not emulated and not host)"  # of a test that runs on every back end
_ROWS = (_COMPILED, "native", "large", "recent_and_demos", "inputs", "replay")
_TREE = (_COMPILED, "wide", "native", "priorities", "prioritized")
_STEPS_TESTS = (_COMPILED, "nstep_steps", "native", "nstep")

#: The test files that a mutant of a source meets, those that fail soonest first.
HOST_LOOPS_TESTS = {
    "host_src/values.h": (*_ROWS, "prioritized"),
    "host_src/ring_type.h": (*_ROWS, "prioritized"),
    "host_src/rows.h": _ROWS,
    "host_src/draws.h": (*_TREE, "recent_and_demos", "golden"),
    "host_src/updates.h": _TREE,
    "host_src/tree.h": _TREE,
    "host_src/wide.h": _TREE,
    "host_src/steps.h": _STEPS_TESTS,
    "host_src/steps_type.h": _STEPS_TESTS,
    "host_src/block_type.h": (_COMPILED, "native", "large", "batch"),
    "host_src/arrays.h": (_COMPILED, "native"),
}

_LONG_WAY = "NumPy's code does the call then, with the same result"
_ONLY_COST = "the results are the same, and cost more"
_IN_PADDING = "a few lanes beyond are worked on too, in memory that is there; sanitizers may tell"

_VALUES = [
    # What arrays and numbers are taken as they lie
    Mutant("PyArray_TYPE(array) != input.type || !PyArray_IS", "!PyArray_IS"),
    Mutant("input.type || !PyArray_ISCARRAY_RO(array) ||", "input.type ||"),
    Mutant("input.type || !PyArray_ISCARRAY_RO", "input.type || !PyArray_IS_C_CONTIGUOUS"),
    Mutant(
        "input.type || !PyArray_ISCARRAY_RO",
        "input.type || !PyArray_ISCARRAY",
        equivalent=_LONG_WAY,
    ),
    Mutant("PyArray_NDIM(array) != input.ndim + first)", "PyArray_NDIM(array) < input.ndim)"),
    Mutant("        if (PyArray_DIM(array, i + first) != input.shape[i]) return false;\n", ";\n"),
    Mutant("PyArray_DIM(array, i + first)", "PyArray_DIM(array, i)"),
    Mutant("!(size <= largest) || (size < smallest", "(size < smallest"),
    Mutant(
        " || (size < smallest && size != 0.0)",
        "",
        equivalent="C rounds them as NumPy does, and raises nothing; NumPy's code looks after that",
    ),
    Mutant("size < smallest && size != 0.0", "size < smallest"),
    Mutant("    if (input.kind != 'f') return false;\n", ""),
    Mutant(
        "input.kind == 'b' || value < input.low",
        "value < input.low",
        equivalent="0 and 1 are stored as NumPy's code stores them",
    ),
    Mutant("value < input.low || value > input.high", "value > input.high"),
    Mutant("value < input.low || value > input.high", "value < input.low"),
    Mutant("    if (input.kind == 'f') return put_number(input, (double)value, out);\n", ""),
    Mutant("put_integer<short>", "put_integer<signed char>"),
    Mutant("put_integer<i32>", "put_integer<short>"),
    Mutant("put_integer<i64>", "put_integer<i32>"),
    Mutant("column.codec != QUANTIZED && input.kind != 'b'", "input.kind != 'b'"),
    Mutant("column.codec != QUANTIZED && input.kind != 'b'", "column.codec != QUANTIZED"),
    Mutant("        if (!is_row_of(input, array, 0)) return false;\n", ""),
    Mutant("if (input.ndim || column.codec == QUANTIZED) return", "if (input.ndim) return"),
    Mutant(
        "if (input.ndim || column.codec == QUANTIZED) return",
        "if (column.codec == QUANTIZED) return",
    ),
    Mutant(
        "        if (input.kind != 'b') return false;\n        *out = value == Py_True;",
        "        *out = value == Py_True;",
    ),
    Mutant("*out = value == Py_True;", "*out = 1;"),
    Mutant("!overflow && put_whole", "put_whole"),
    Mutant(
        "        if (input.kind != 'b') return false;\n        PyArray_ScalarAsCtype",
        "        PyArray_ScalarAsCtype",
    ),
    Mutant(
        "PyArray_TYPE(array) == type && PyArray_ISCARRAY_RO(array) &&",
        "PyArray_ISCARRAY_RO(array) &&",
    ),
    Mutant("== type && PyArray_ISCARRAY_RO(array) &&", "== type &&"),
    Mutant("PyArray_NDIM(array) == 1 && (length", "(length"),
    Mutant("(length < 0 || PyArray_DIM(array, 0) == length)", "true"),
]

_RING_TYPE = [
    # Nobody else may be at the buffer
    Mutant("    if (PyList_Size(self->snapshots)) return 0;\n", ""),
    Mutant("const int free = locked == Py_False;", "const int free = 1;"),
    Mutant("const int free = locked == Py_False;", "const int free = locked == Py_True;"),
    Mutant("if (!free) Py_RETURN_FALSE;\n    const i64 head", "const i64 head"),
    Mutant("if (!free) Py_RETURN_FALSE;\n    store(", "store("),
    # A row
    Mutant("!PyTuple_Check(values) || PyTuple_Size(values) != count)", "false)"),
    Mutant("ring_row(self->control, 0)", "ring_row(self->control, 1)"),
    Mutant("c.base + head * c.stride, from", "c.base + head * c.bytes, from"),
    Mutant("from[i], (size_t)c.bytes)", "from[i], (size_t)c.stride)"),
    Mutant("    self->control->total += 1;\n", ""),
    # A batch
    Mutant("        if (PyArray_NDIM(array) < 1) return -1;\n", ""),
    Mutant("if (i == 0) rows = PyArray_DIM", "rows = PyArray_DIM"),
    Mutant("PyArray_DIM(array, 0) != rows || !is_row_of", "!is_row_of"),
    Mutant("|| !is_row_of(self->inputs[i], array, 1)", ""),
    Mutant("PyTuple_Size(values) != self->columns.count", "false"),
    Mutant("rows < 1 || rows * self", "rows * self"),
    Mutant(
        "rows < 1 || rows * self->row_bytes > KEEP_GIL_BYTES)",
        "rows < 1)",
        equivalent="other threads wait longer",
    ),
    Mutant("        if (self->columns.at[i].codec == QUANTIZED &&\n", "        if (false &&\n"),
    Mutant("        stored.at[i].bytes = stored.at[i].elements;  // codes already\n", ""),
    Mutant("        stored.at[i].codec = AS_IT_IS;\n", ""),
    Mutant("        if (stored.at[i].codec != QUANTIZED) continue;\n", ""),
    # Draws
    Mutant("!PyTuple_Check(arrays) || PyTuple_Size(arrays) != count + 3", "false"),
    Mutant("PyTuple_GetItem(arrays, count + 2)", "PyTuple_GetItem(arrays, count + 1)"),
    Mutant(
        "        if (!make_room(&self->scratch->drawn, lanes)) return false;\n",
        "        if (!make_room(&self->scratch->drawn, 1)) return false;\n",
    ),
    Mutant("for (i64 i = 0; i < lanes; ++i) drawn[i]", "for (i64 i = 1; i < lanes; ++i) drawn[i]"),
    Mutant("    if (count != 2) return wrong_arguments();\n", ""),
    Mutant("    if (count != 4) return wrong_arguments();\n", ""),
    Mutant("make_room(&self->scratch->raw, target.lanes)", "make_room(&self->scratch->raw, 1)"),
    Mutant(
        "            settle(self->control, self->tree, self->settled);\n            sample",
        "            sample",
    ),
    Mutant("end_draw(self->control, true);", "end_draw(self->control, false);"),
    Mutant("end_draw(self->control, false);", "end_draw(self->control, true);"),
    # Updates
    Mutant("lanes < 1 || lanes > MAX_LANES || (!is", "(!is", equivalent=_LONG_WAY),
    Mutant("is_double ? 8 : 4}", "4}"),
    Mutant(
        " || PyArray_TYPE(array) != NPY_INT32 ||",
        " ||",
        equivalent="what is read then is no token of this buffer, and NumPy's code refuses it",
    ),
    Mutant("            !PyArray_ISCARRAY_RO(array) || PyArray_NDIM", "            PyArray_NDIM"),
    Mutant("PyArray_NDIM(array) != 2 ||\n", "false ||\n"),
    Mutant("PyArray_DIM(array, 0) != lanes || PyArray_DIM", "PyArray_DIM"),
    Mutant(" || PyArray_DIM(array, 1) != 2)", ")"),
    Mutant("make_room(&scratch.rows, lanes) && make", "make"),
    Mutant("make_room(&scratch.nodes, lanes) &&", "make_room(&scratch.nodes, 1) &&"),
    Mutant("make_room(&scratch.slots, (i64)slots)", "make_room(&scratch.slots, lanes)"),
    Mutant(
        "slots < 2 * (u64)lanes",
        "slots < (u64)lanes",
        equivalent="a full set is searched longer, and a lane's row or a free slot is in it",
    ),
    Mutant(
        "        settle(self->control, self->tree, self->settled);\n        const", "        const"
    ),
    Mutant("if (good) write_all", "write_all"),
    # What a draw fills
    Mutant("    fits = fits && target->at[i];\n", ""),
    Mutant("        fits = fits && target->weights && target->tokens;\n", ""),
    Mutant(
        "return not_accepted();\n    if (target.weights", "return nullptr;\n    if (target.weights"
    ),
    Mutant(
        "        if (!is_vector(given, NPY_UINT64, lanes)) {",
        "        if (false) {",
        equivalent="NativeOps gives a word for each lane",
    ),
    # Lives
    Mutant("    Py_XDECREF(self->keep);\n", ""),
    Mutant("    delete self->scratch;\n", ""),
    Mutant("self->keep = Py_NewRef(args);", "self->keep = nullptr;"),
]

_ROWS_H = [
    # Copies
    Mutant("copy_fixed<4 * (words + 1), to_t", "copy_fixed<4 * words + (words == 0), to_t"),
    Mutant("copies[count - 1](rows", "copies[count](rows"),
    Mutant("bytes <= 4 * FIXED_WORDS)", "bytes <= 4 * FIXED_WORDS + 4)"),
    Mutant("bytes <= 4 * FIXED_WORDS)", "bytes < 4 * FIXED_WORDS)", equivalent=_ONLY_COST),
    Mutant("bytes % 4 == 0 && bytes <=", "bytes <="),
    Mutant("if (bytes == 1)", "if (bytes <= 2)"),
    # Gathers
    Mutant(
        "const u8* const codes = c.base + rows[i] * c.stride;",
        "const u8* const codes = c.base + rows[i] * c.elements;",
    ),
    Mutant("(float*)(out + i * c.bytes)", "(float*)(out + i * c.elements)"),
    Mutant("e < c.elements; ++e) values[e]", "e + 1 < c.elements; ++e) values[e]"),
    Mutant("return base + rows[i] * stride;", "return base + rows[i] * bytes;"),
    Mutant("return out + i * bytes;", "return out + i * stride;"),
    Mutant("target.at[i] + first * c.bytes", "target.at[i] + first * c.stride"),
    Mutant("target.indices + first, count)", "target.indices, count)"),
    Mutant("min_of(GATHERED_TOGETHER, target.lanes - first)", "GATHERED_TOGETHER"),
    Mutant("first < target.lanes; first", "first + GATHERED_TOGETHER <= target.lanes; first"),
    # Stores
    Mutant("i < count * c.elements; ++i)", "i < count; ++i)"),
    Mutant("i < count * c.elements; ++i)", "i + 1 < count * c.elements; ++i)"),
    Mutant("out[i * c.stride + e] = quantize(", "out[i * c.elements + e] = quantize("),
    Mutant("(in + i * c.bytes))[e]", "(in + i * c.elements))[e]"),
    Mutant("in[i * c.bytes + e] != 0;", "in[i * c.bytes + e];"),
    Mutant("in[i * c.bytes + e] != 0;", "in[i * c.stride + e] != 0;"),
    Mutant("memmove(out, in, (size_t)(count * c.bytes));", "memmove(out, in, (size_t)c.bytes);"),
    Mutant("return out + i * stride;", "return out + i * bytes;"),
    Mutant("return in + i * bytes;", "return in + i * stride;"),
    Mutant("u8* const out = c.base + head * c.stride;", "u8* const out = c.base + head * c.bytes;"),
    Mutant(
        "rows > ring_rows(control) ? rows - ring_rows(control) : 0",
        "0",
        equivalent="what the batch overwrites itself is written as well",
    ),
    Mutant("rows - ring_rows(control) : 0", "rows - ring_rows(control) + 1 : 0"),
    Mutant("ring_row(control, done)", "ring_row(control, 0)"),
    Mutant("min_of(control->capacity - head, rows - done)", "rows - done"),
    Mutant("control->capacity - head, rows", "control->capacity - head + 1, rows"),
    Mutant("batch[i] + done * c.bytes", "batch[i]"),
    Mutant("batch[i] + done * c.bytes", "batch[i] + done * c.stride"),
    Mutant("control->total += rows;", "control->total += min_of(rows, ring_rows(control));"),
]

_DRAWS = [
    Mutant("words ? words[lane]", "words ? words[0]"),
    Mutant(
        "i64 lane = 0; lane < target.lanes; ++lane) target.tokens",
        "i64 lane = 1; lane < target.lanes; ++lane) target.tokens",
    ),
    Mutant("const u64 token = draw_token(c);", "const u64 token = draw_token(c) + 1;"),
    Mutant("draw_row(c, word, lane, target.lanes)", "draw_row(c, word, 0, target.lanes)"),
    Mutant("draw_row(c, word, lane, target.lanes)", "draw_row(c, word, lane, target.lanes + 1)"),
    Mutant("low + row_of_span", "row_of_span"),
    Mutant("high - low);", "high - low + 1);"),
    Mutant("PURPOSE_ROWS), high", "PURPOSE_TARGETS), high"),
    Mutant("word_at(c, words, lane, PURPOSE_ROWS);", "word_at(c, words, lane, PURPOSE_TARGETS);"),
    Mutant("    if (!target.weights) return;\n", ""),
    Mutant("target.weights[lane] = 1.0f;\n    mark(c, target);", "target.weights[lane] = 1.0f;"),
    Mutant(
        "    for (i64 lane = 0; lane < target.lanes; ++lane) target.weights[lane] = 1.0f;\n", ""
    ),
    # Draws by priority, a chunk at a time
    Mutant("tree_total(d.tree) / (double)d.lanes", "tree_total(d.tree) / (double)count"),
    Mutant("words, first + i, PURPOSE", "words, i, PURPOSE"),
    Mutant("((double)(first + i) + real_of(word))", "((double)i + real_of(word))"),
    Mutant(
        "((double)(first + i) + real_of(word)) * slice",
        "((double)(first + i) * slice + real_of(word) * slice)",
    ),
    Mutant("        nodes[i] = 0;\n", ""),
    Mutant("d.tree.levels - 1; level >= 0", "d.tree.levels - 1; level > 0"),
    Mutant("min_of(CHUNK, d.lanes - first)", "CHUNK"),
    Mutant("if (largest_here > largest) largest", "largest"),
    Mutant("if (largest_here > largest) largest", "if (first == 0) largest"),
    Mutant("        gather_lanes(columns, target, first - before, before);\n", ""),
    Mutant(
        "gather_lanes(columns, target, first - before, before)",
        "gather_lanes(columns, target, first, before)",
    ),
    Mutant(
        "gather_lanes(columns, target, d.lanes - before, before)",
        "gather_lanes(columns, target, 0, before)",
    ),
    Mutant("    mark(c, target);\n    gather", "    gather"),
    Mutant("loops->normalize(d, largest);", "loops->normalize(d, 1.0);"),
]

_UPDATES = [
    # New rows
    Mutant("min_of(c->total - *settled, c->capacity)", "c->total - *settled"),
    Mutant(
        "    *settled = c->total;\n", "", equivalent="the same leaves are set again, at more cost"
    ),
    Mutant("    if (count <= 0) return;\n", "", equivalent="sums of no leaves change nothing"),
    Mutant("(c->total - count) % c->capacity", "c->total % c->capacity"),
    Mutant("leaf_of(c, c->max_priority)", "leaf_of(c, 1.0)"),
    Mutant("first + i < c->capacity ?", "first + i <= c->capacity ?"),
    Mutant("i < count; ++i)\n        tree.leaves", "i + 1 < count; ++i)\n        tree.leaves"),
    Mutant("level < tree.levels; ++level) sum_ring", "level + 1 < tree.levels; ++level) sum_ring"),
    Mutant("level, first, count, c->capacity)", "level, first, 1, c->capacity)"),
    # Which lane is a row's last
    Mutant("slot = (u32)lane + 1;", "slot = (u32)lane;"),
    Mutant("if (rows[slot - 1] == rows[lane]) return false;", "return false;"),
    Mutant("i64 lane = count - 1; lane >= 0; --lane", "i64 lane = 0; lane < count; ++lane"),
    Mutant("lane = count - 1; lane >= 0; --lane", "lane = count - 1; lane > 0; --lane"),
    Mutant("memset(s.slots, 0, s.slots_size * sizeof(u32));", "memset(s.slots, 0, s.slots_size);"),
    Mutant("if (seen.add(lane) && s.prior", "if (s.prior"),
    # Which lanes count
    Mutant("row < 0 || row >= size", "row >= size"),
    Mutant("row < 0 || row >= size", "row < 0 || row > size"),
    Mutant("row < 0 || row >= size", "row < 0 || row >= c->capacity"),
    Mutant("        if (!has_leaf(c, priority)) return found;\n", ""),
    Mutant("            if (age > (u64)c->total) return found;\n", ""),
    Mutant("if (age > (u64)c->total)", "if (age >= (u64)c->total)", equivalent=_LONG_WAY),
    Mutant("if (age && is_stale", "if (false && is_stale"),
    Mutant("                ++found.stale;\n", ""),
    Mutant("                continue;\n", ""),
    Mutant("s.rows[found.counted] = row;", "s.rows[lane] = row;"),
    Mutant("s.priorities[found.counted] = priority;", "s.priorities[lane] = priority;"),
    Mutant("if (priority > found.largest) found.largest", "found.largest"),
    Mutant("u.rows[lane];\n        if", "u.rows[0];\n        if"),
    # Leaves and sums
    Mutant("i64 kept = 0, last = -1;", "i64 kept = 0, last = 0;"),
    Mutant("if (parent != last) nodes[kept++]", "nodes[kept++]", equivalent=_ONLY_COST),
    Mutant("min_of(CHUNK, count - first), next", "CHUNK, next"),
    Mutant("make_leaves(c, s.priorities + first, rows", "make_leaves(c, s.priorities, rows"),
    Mutant(
        "for (i64 i = 0; i < rows; ++i) tree.leaves[s.rows",
        "for (i64 i = rows - 1; i >= 0; --i) tree.leaves[s.rows",
    ),
    Mutant("memcpy(s.nodes + nodes, s.rows + first", "memcpy(s.nodes + nodes, s.rows"),
    Mutant("sum_nodes(tree, 0, s.nodes + nodes, parents)", "sum_nodes(tree, 0, s.nodes, parents)"),
    Mutant("nodes += parents;", "nodes = parents;"),
    Mutant("for (i64 level = 1; level", "for (i64 level = 2; level"),
    Mutant(
        "if (tree.nodes[level] > nodes)", "if (tree.nodes[level] >= nodes)", equivalent=_ONLY_COST
    ),
    Mutant("if (tree.nodes[level] > nodes)", "if (true)", equivalent=_ONLY_COST),
    Mutant("if (tree.nodes[level] > nodes)", "if (false)"),
    Mutant("node < nodes; ++node) s.nodes[node]", "node + 1 < nodes; ++node) s.nodes[node]"),
    # The record
    Mutant("    c->stale_updates += found.stale;\n", ""),
    Mutant(
        "    if (!found.counted) return;\n", "", equivalent="no lane writes, and no node is summed"
    ),
    Mutant(
        "if (written > c->max_priority) c->max_priority = written",
        "c->max_priority = found.largest",
    ),
    Mutant("if (written > c->max_priority) c->max_priority", "c->max_priority"),
]

_TREE_H = [
    Mutant("passed += before[child] <= target;", "passed += before[child] < target;"),
    Mutant(
        "            before[child] = sum;\n            sum += children.mass[child];",
        "            sum += children.mass[child];\n            before[child] = sum;",
    ),
    Mutant("count(shared.before, target) - 1", "count(shared.before, target)"),
    Mutant("if (nodes[lane] != shared.node) shared.load", "if (shared.node < 0) shared.load"),
    Mutant(
        "        if (target < shared.sum) {\n            const",
        "        if (target <= shared.sum) {\n            const",
    ),
    Mutant(
        "        if (target < shared.sum) {\n            const",
        "        if (true) {\n            const",
    ),
    Mutant(
        "        if (target < shared.sum) {\n            while",
        "        if (target <= shared.sum) {\n            while",
    ),
    Mutant(
        "        if (target < shared.sum) {\n            while",
        "        if (true) {\n            while",
    ),
    Mutant("            child = 0;\n", ""),
    Mutant("shared.before[child + 1] <= target)", "shared.before[child + 1] < target)"),
    Mutant(
        "child_below(tree, level, shared.node, &target);\n        }\n    }\n}\n\n// The same",
        "shared.node * FAN_OUT + FAN_OUT - 1;\n        }\n    }\n}\n\n// The same",
    ),
    Mutant("nodes[lane], &targets[lane])", "nodes[lane], &targets[0])"),
    Mutant("d.tree.leaves[d.rows[lane]]", "d.tree.leaves[lane]"),
    Mutant(
        "        if (d.raw[lane] > largest) largest = d.raw[lane];\n",
        "        largest = d.raw[lane];\n",
    ),
    Mutant("lane < first + count; ++lane", "lane < count; ++lane"),
    Mutant(
        "d.weights[lane] = normalized(d.raw[lane], largest);",
        "d.weights[lane] = (float)(d.raw[lane] / largest);",
    ),
]

_WIDE = [
    # Descents
    Mutant("p->running, p->target, _CMP_LE_OQ", "p->running, p->target, _CMP_LT_OQ"),
    Mutant(
        "_mm256_max_pd(p->before, _mm256_and_pd(p->running, is_passed))",
        "_mm256_and_pd(p->running, is_passed)",
    ),
    Mutant(
        "two_and_two(nodes[1] + child, nodes[3] + child)",
        "two_and_two(nodes[3] + child, nodes[1] + child)",
    ),
    Mutant(
        "two_and_two(nodes[1] + child + 2, nodes[3] + child + 2)",
        "two_and_two(nodes[1] + child, nodes[3] + child)",
    ),
    Mutant(
        "{{_mm256_unpacklo_pd(even, odd), _mm256_unpackhi_pd(even, odd),",
        "{{_mm256_unpackhi_pd(even, odd), _mm256_unpacklo_pd(even, odd),",
    ),
    Mutant("_mm256_permute2f128_pd(odd, odd2, 0x20)", "_mm256_permute2f128_pd(odd, odd2, 0x31)"),
    Mutant(
        "_mm256_permute2f128_pd(even, even2, 0x20), _mm256_permute2f128_pd(odd, odd2, 0x20)",
        "_mm256_permute2f128_pd(odd, odd2, 0x20), _mm256_permute2f128_pd(even, even2, 0x20)",
    ),
    Mutant(
        "sum = _mm256_add_pd(sum, masses.of[i]);", "sum = _mm256_add_pd(sum, masses.of[3 - i]);"
    ),
    Mutant("_mm256_set1_epi64x(FAN_OUT));", "_mm256_set1_epi64x(FAN_OUT + 1));"),
    Mutant(
        "_mm256_set1_epi64x(FAN_OUT));",
        "_mm256_set1_epi64x(FAN_OUT - 1));",
        equivalent="plain code has the last child too",
    ),
    Mutant("_mm256_sub_pd(p.target, p.before)", "p.target"),
    Mutant(
        "    for (; lane + LANES <= lanes; lane += LANES) {\n        ahead->fetch(1);",
        "    for (; lane < lanes; lane += LANES) {\n        ahead->fetch(1);",
    ),
    Mutant(
        "nodes + lane, targets + lane, LANES, ahead)",
        "nodes + lane, targets + lane, LANES - 1, ahead)",
    ),
    Mutant("if (!done) plain", "if (false) plain"),
    Mutant(
        "nodes + lane, targets + lane, lanes - lane, ahead)",
        "nodes + lane, targets + lane, 0, ahead)",
    ),
    Mutant(
        "_mm256_load_pd(before + child), at, _CMP_LE_OQ",
        "_mm256_load_pd(before + child), at, _CMP_LT_OQ",
    ),
    # Sums
    Mutant("sums[nodes[i + lane]] = four[lane];", "sums[nodes[i + lane]] = four[0];"),
    Mutant("plain::sum_nodes(tree, level, nodes + i, count - i);", ""),
    Mutant(
        "plain::sum_nodes(tree, level, nodes + i, count - i);",
        "plain::sum_nodes(tree, level, nodes, count - i);",
    ),
    # Powers
    Mutant("POWER_ERROR = 0x1p-42", "POWER_ERROR = 0x1p-60"),
    Mutant("QUOTIENT_ERROR = 0x1p-40", "QUOTIENT_ERROR = 0x1p-60"),
    Mutant(
        "1.0 / 15, 1.0 / 17};",
        "1.0 / 15};",
        equivalent="what is missing is below 2**-45, and the bound on errors covers it",
    ),
    Mutant("1.0 / 13,", "1.0 / 12,"),
    Mutant("0x3FE6666600000000;", "0x3FE0000000000000;"),
    Mutant("2.8853900817779268", "2.88539008177"),
    Mutant("1.0 / 3628800, 1.0 / 39916800};", "1.0 / 3628800};"),
    Mutant("0.6931471805599453", "0.69314718056"),
    Mutant("_mm256_mul_pd(x, all(1.0 - error))", "x"),
    Mutant("_mm256_mul_pd(x, all(1.0 + error))", "x"),
    Mutant(
        "_mm256_cmp_pd(x, all(0x1p-120), _CMP_GE_OQ)", "_mm256_cmp_pd(x, all(0x1p-140), _CMP_GE_OQ)"
    ),
    Mutant(
        "_mm256_cmp_pd(x, all(0x1p120), _CMP_LE_OQ)",
        "_mm256_cmp_pd(x, all(0x1p140), _CMP_LE_OQ)",
        equivalent="beyond float32's largest number an update is refused before",
    ),
    # Leaves
    Mutant("& in_range(base) & in_range(leaf)", "& in_range(leaf)"),
    Mutant(
        "& in_range(base) & in_range(leaf)",
        "& in_range(base)",
        equivalent="exponents are from 0 to 1, so the power of a base in range is in range",
    ),
    Mutant(
        "            if (sure == ALL_LANES) continue;\n            for (int lane",
        "            if (sure) continue;\n            for (int lane",
    ),
    Mutant(
        "leaves[i + lane] = leaf_of(c, priorities[i + lane]);",
        "leaves[i + lane] = leaf_of(c, priorities[i]);",
    ),
    Mutant(
        "plain::make_leaves(c, priorities + i, count - i, leaves + i);",
        "plain::make_leaves(c, priorities + i, count - i, leaves);",
    ),
    # Weights
    Mutant("leaves[rows[2]], leaves[rows[3]])", "leaves[rows[2]], leaves[rows[2]])"),
    Mutant("power_of(base, -d.control->beta)", "power_of(base, d.control->beta)"),
    Mutant(
        "for (int i = 0; i < LANES; ++i)\n                if (d.raw",
        "for (int i = 1; i < LANES; ++i)\n                if (d.raw",
    ),
    Mutant("return of_rest > largest ? of_rest : largest;", "return largest;"),
    Mutant("lane + LANES <= first + count; lane", "lane + LANES <= d.lanes; lane"),
    Mutant(
        "plain::weigh(d, lane, first + count - lane, ahead)",
        "plain::weigh(d, lane, count - lane, ahead)",
    ),
    Mutant("if (d.raw[lane] < at_least) continue;", "if (d.raw[lane] > at_least) continue;"),
    Mutant(
        "largest_weight(d, largest * (1.0 - QUOTIENT_ERROR))",
        "largest_weight(d, largest)",
        open="the largest weight is not that of the largest estimate only where two leaves differ "
        "and beta is below 2**-18, and then by too little to turn a weight but once in 2**20",
    ),
    Mutant("exact = largest_weight(d, largest * (1.0 - QUOTIENT_ERROR));", "exact = largest;"),
    Mutant("first + LANES && lane < d.lanes; ++lane)", "first + LANES; ++lane)"),
    Mutant("if (first + LANES <= d.lanes)", "if (first <= d.lanes)", open=_IN_PADDING),
    Mutant("sure >> (lane - first) & 1", "sure & 1"),
    Mutant("normalized(plain::weight(d, lane), exact)", "normalized(d.raw[lane], exact)"),
]

_STEPS = [
    Mutant("env < s.n_envs; ++env) windows", "env + 1 < s.n_envs; ++env) windows"),
    Mutant("        if (!m.stepped) continue;\n", ""),
    Mutant("        keep_step(s, env, m);\n", ""),
    Mutant("j < m.complete; ++j, ++row)", "j < m.complete; ++j)"),
    Mutant("(m.start + j) % s.n", "m.start + j + 1"),
    Mutant("(m.start + j) % s.n", "m.start + j", equivalent="write_window goes around by itself"),
    Mutant("m.held - j)", "m.held)"),
    Mutant("            s.valid[row] = 1;\n", ""),
    Mutant("        move_ring(s, env, m);\n", ""),
]

_STEPS_TYPE = [
    Mutant(
        "k.boolean = boolean;",
        "k.boolean = 0;",
        equivalent="whoever hands steps in has made booleans 0 and 1 already",
    ),
    Mutant("s->mask = bytes_of(mask);", "s->mask = nullptr;"),
    Mutant("numbers + 2));", "numbers + 3));"),
    Mutant("s.kept_columns = PyList_Size(kept) - 1;", "s.kept_columns = PyList_Size(kept) - 2;"),
    Mutant("    Py_XDECREF(((Steps*)object)->keep);\n", ""),
]

_BLOCK_TYPE = [
    Mutant("npy_intp nbytes = self->nbytes + LINE;", "npy_intp nbytes = self->nbytes;"),
    Mutant("(address + LINE - 1) / LINE * LINE", "address / LINE * LINE"),
    Mutant("(address + LINE - 1) / LINE * LINE", "address"),
    Mutant("base + member.offset", "base"),
    Mutant("    Py_INCREF((PyObject*)member.dtype);  // which the next call takes\n", ""),
    Mutant("    Py_INCREF(dtype);\n", ""),
    Mutant("Py_XDECREF((PyObject*)member.dtype);", ";"),
    Mutant("(PyArrayObject*)array, Py_NewRef(memory))", "(PyArrayObject*)array, memory)"),
    Mutant("    Py_DECREF(memory);\n    return arrays;", "    return arrays;"),
    Mutant("if (!member.dtype) return Py_NewRef(Py_None);", "if (!member.dtype) return nullptr;"),
    Mutant("NPY_ARRAY_CARRAY, nullptr", "NPY_ARRAY_CARRAY_RO, nullptr"),
]

_ARRAYS = [
    Mutant(
        "scratch->resize((size_t)count);",
        "scratch->reserve((size_t)count);",
        equivalent="memory that is kept free is memory too",
    ),
    Mutant("if ((i64)scratch->size() >= count) return true;", "if (scratch->size()) return true;"),
    Mutant("        PyErr_NoMemory();\n        return false;", "        return true;"),
    Mutant("        PyErr_NoMemory();\n        return false;", "        return false;"),
    Mutant("    Py_DECREF(type);\n", ""),
    Mutant("if (state) PyEval_RestoreThread(state);", ";"),
]

HOST_LOOPS = {
    "host_src/values.h": _VALUES,
    "host_src/ring_type.h": _RING_TYPE,
    "host_src/rows.h": _ROWS_H,
    "host_src/draws.h": _DRAWS,
    "host_src/updates.h": _UPDATES,
    "host_src/tree.h": _TREE_H,
    "host_src/wide.h": _WIDE,
    "host_src/steps.h": _STEPS,
    "host_src/steps_type.h": _STEPS_TYPE,
    "host_src/block_type.h": _BLOCK_TYPE,
    "host_src/arrays.h": _ARRAYS,
}
