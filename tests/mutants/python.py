"""Mistakes in the rings, draws and checks in Python. ``--only python`` plants them."""

from tests.mutants.mutant import Mutant
from tests.mutants.python_of_checkpoints import CHECKPOINT_PYTHON, CHECKPOINT_PYTHON_TESTS
from tests.mutants.python_of_inspection import INSPECTION_PYTHON, INSPECTION_PYTHON_TESTS
from tests.mutants.python_of_native import NATIVE_PYTHON, NATIVE_PYTHON_TESTS
from tests.mutants.python_of_nstep import NSTEP_PYTHON, NSTEP_PYTHON_TESTS
from tests.mutants.python_of_priorities import PRIORITY_PYTHON, PRIORITY_PYTHON_TESTS
from tests.mutants.python_of_restarts import RESTART_PYTHON, RESTART_PYTHON_TESTS

_RING = ("recent_and_demos", "policies", "golden", "replay", "inputs")
_PER = ("prioritized", "priorities", "broken_off", "state_machine_prioritized")
_CARD = ("capture", "device_arrays", "availability", "memory", "steps")

#: The test files that a mutant of a module meets, those that fail soonest first.
PYTHON_TESTS = {
    "cpreplay/control.py": ("control", *_RING, *_PER),
    "cpreplay/philox.py": ("philox", "golden", "replay", "restart_pool", *_PER),
    "cpreplay/policies.py": ("policies", "recent_and_demos", "replay", "steps", "batch", *_PER),
    "cpreplay/host_ops.py": (*_RING, "batch", "memory", "large", *_PER),
    "cpreplay/host_inputs.py": ("inputs", "replay", "batch", *_PER),
    "cpreplay/host_columns.py": ("batch", "replay", "inputs", "memory", "large", *_PER),
    "cpreplay/aligned.py": ("batch", "replay", "memory", "sumtree"),
    "cpreplay/kernel_structs.py": (
        "device_arrays",
        "replay",
        "inputs",
        "large",
        "kernels",
        "cost",
        *_PER,
    ),
    "cpreplay/device_ops.py": (
        "replay",
        "batch",
        *_CARD,
        "inputs",
        "golden",
        "recent_and_demos",
        "large",
        *_PER,
        "capture_prioritized",
        "cost",
    ),
    "cpreplay/inputs.py": ("inputs", "replay", "batch"),
    "cpreplay/replay.py": (
        "policies",
        "recent_and_demos",
        "replay",
        *_CARD,
        "batch",
        "public_api",
        "threads",
        "inputs",
        *_PER,
        "capture_prioritized",
        "cost",
    ),
    "cpreplay/statistics.py": ("priorities", "prioritized", "recent_and_demos", "replay"),
    "cpreplay/schema.py": ("schema", "batch", "replay"),
    "cpreplay/batch.py": ("batch", "device_arrays", "replay", *_PER),
    "cpreplay/steps.py": ("steps", "prioritized"),
    "cpreplay/known_total.py": (
        "replay",
        "capture",
        "recent_and_demos",
        "steps",
        "policies",
        "broken_off",
        "threads",
    ),
    "cpreplay/invariants.py": ("replay", "recent_and_demos", "capture", *_PER, "sumtree"),
    "cpreplay/cuda_device.py": ("availability", *_CARD),
    "cpreplay/device_inputs.py": (
        "device_arrays",
        "replay",
        "inputs",
        *_CARD,
        *_PER,
        "capture_prioritized",
    ),
    "cpreplay/memory.py": ("memory", "prioritized"),
    "cpreplay/integers.py": ("policies", "schema", "replay", "recent_and_demos", "inputs", "nstep"),
    "cpreplay/kernels.py": ("kernels", "replay", "packaging"),
    **PRIORITY_PYTHON_TESTS,
    **NSTEP_PYTHON_TESTS,
    **CHECKPOINT_PYTHON_TESTS,
    **RESTART_PYTHON_TESTS,
    **INSPECTION_PYTHON_TESTS,
    **NATIVE_PYTHON_TESTS,
}

_READ = "who reads rows has read the control block before, which refuses likewise"

_CONTROL = [
    Mutant("MAX_CAPACITY = 2**31", "MAX_CAPACITY = 2**32"),
    Mutant('("total", "<i8"),', '("total", "<i4"),'),
    Mutant('("draws", "<u8"),', '("draws", "<i8"),'),
    Mutant('("eta_power", "<f8")', '("eta_power", "<f4")'),
    Mutant('("eta", "<f8"),', '("eta", "<f4"),'),
    Mutant(
        '        ("k_max", "<i8"),  # draws after which the window is whole again\n'
        '        ("k", "<i8"),  # draws since it was\n',
        '        ("k", "<i8"),\n        ("k_max", "<i8"),\n',
    ),
    Mutant('control["eta"] = control["eta_power"] = 1.0', 'control["eta"] = 1.0'),
    Mutant('    control["key"] = key\n', ""),
    Mutant(
        "demo_count + (total - demo_count) % (capacity - demo_count)",
        "(total - demo_count) % (capacity - demo_count)",
    ),
    Mutant(
        "demo_count + (total - demo_count) % (capacity - demo_count)",
        "demo_count + total % (capacity - demo_count)",
    ),
    Mutant(
        "demo_count + (total - demo_count) % (capacity - demo_count)",
        "demo_count + (total - demo_count) % capacity",
    ),
    Mutant("return min(total, capacity)", "return total"),
    Mutant("min(size, max(c_min, int(size * eta_power)))", "max(c_min, int(size * eta_power))"),
    Mutant("min(size, max(c_min, int(size * eta_power)))", "min(size, int(size * eta_power))"),
    Mutant("int(size * eta_power)", "round(size * eta_power)"),
    Mutant("int(size * eta_power)", "int(size * eta_power) + 1"),
    # Of priorities
    Mutant("ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-6", "ALPHA, BETA, EPSILON = 0.4, 0.6, 1e-6"),
    Mutant("ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-6", "ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-5"),
    Mutant('("alpha", "<f8")', '("alpha", "<f4")'),
    Mutant('("max_priority", "<f8")', '("max_priority", "<f4")'),
    Mutant('("run", "<u8")', '("run", "<u4")'),
    Mutant(
        'control["epsilon"] = ALPHA, BETA, EPSILON', 'control["epsilon"] = BETA, ALPHA, EPSILON'
    ),
    Mutant('control["max_priority"] = 1.0', 'control["max_priority"] = EPSILON'),
    Mutant('    control["max_priority"] = 1.0\n', ""),
    Mutant('    control["run"] = run\n', ""),
]

_PHILOX = [
    Mutant("0x9E3779B9, 0xBB67AE85", "0xBB67AE85, 0x9E3779B9"),
    Mutant("_ROUNDS = 10", "_ROUNDS = 9"),
    Mutant("ROWS = 0", "ROWS = 1"),
    Mutant("return mixed ^ (mixed >> 31)", "return mixed"),
    Mutant("first & _LOW", "first"),
    Mutant("k0 + np.uint64(_WEYL[0])) & _LOW", "k0 + np.uint64(_WEYL[0]))"),
    Mutant("+ np.uint64(key)", "^ np.uint64(key)"),
    Mutant("(draw & 0xFFFFFFFF, draw >> 32, 0, purpose)", "(draw & 0xFFFFFFFF, 0, 0, purpose)"),
    Mutant(
        "(draw & 0xFFFFFFFF, draw >> 32, 0, purpose)", "(draw >> 32, draw & 0xFFFFFFFF, 0, purpose)"
    ),
    Mutant(
        "(draw & 0xFFFFFFFF, draw >> 32, 0, purpose)", "(draw & 0xFFFFFFFF, draw >> 32, purpose, 0)"
    ),
    Mutant("high << _HALF | low", "low << _HALF | high"),
    Mutant("return secrets.randbits(64)", "return 0"),
    Mutant("0 <= value < 2**64", "0 <= value < 2**63"),
    Mutant("0 <= value < 2**64", "value < 2**64"),
    Mutant("is_int(value) and 0 <= value", "0 <= value"),
    # Reals
    Mutant("TARGETS = 1", "TARGETS = 0"),
    Mutant("RESTARTS = 2", "RESTARTS = 1"),
    Mutant("TARGETS = 1", "TARGETS = 2"),
    Mutant("_LOST_BITS = np.array(11, np.uint64)", "_LOST_BITS = np.array(10, np.uint64)"),
    Mutant("_LOST_BITS = np.array(11, np.uint64)", "_LOST_BITS = np.array(12, np.uint64)"),
    Mutant("_TO_UNIT = np.array(2.0**-53)", "_TO_UNIT = np.array(2.0**-52)"),
    Mutant("_TO_UNIT = np.array(2.0**-53)", "_TO_UNIT = np.array(2.0**-54)"),
    Mutant("(words >> _LOST_BITS) * _TO_UNIT", "words * 2.0**-64"),
    Mutant(
        "(words >> _LOST_BITS) * _TO_UNIT",
        "(words >> _LOST_BITS) * np.float32(_TO_UNIT)",
        equivalent="2**-53 is a float32 as well, and the product a float64",
    ),
    Mutant("(words >> _LOST_BITS) * _TO_UNIT", "((words >> _LOST_BITS) + 0.5) * _TO_UNIT"),
    Mutant("(draw & 0xFFFFFFFF, draw >> 32, 0, purpose)", "(draw & 0xFFFFFFFF, draw >> 32, 0, 0)"),
]

_POLICIES = [
    Mutant("if size == 0:", "if size < 0:"),
    Mutant("batch_size > self.largest_batch", "batch_size >= self.largest_batch"),
    Mutant("batch_size > self.largest_batch", "batch_size > self.largest_batch + 1"),
    Mutant("self.largest_batch is not None and batch_size > self.largest_batch", "False"),
    Mutant(
        '        if self.demo_count:\n            raise OrderError(\n                f"configure',
        '        if False:\n            raise OrderError(\n                f"configure',
    ),
    Mutant("if not isinstance(enable, bool | np.bool_):", "if False:"),
    Mutant("isinstance(enable, bool | np.bool_)", "isinstance(enable, bool)"),
    Mutant("0.0 < eta <= 1.0", "0.0 <= eta <= 1.0"),
    Mutant("0.0 < eta <= 1.0", "0.0 < eta < 1.0"),
    Mutant(
        "if not (is_number(eta) and 0.0 < eta <= 1.0)",
        "if is_number(eta) and (eta <= 0.0 or eta > 1.0)",
    ),
    Mutant('(("c_min", c_min), ("k_max", k_max))', '(("c_min", c_min),)'),
    Mutant('(("c_min", c_min), ("k_max", k_max))', '(("k_max", k_max),)'),
    Mutant("is_count(value) and value < 2**63", "is_count(value)"),
    Mutant("is_count(value) and value < 2**63", "value < 2**63"),
    Mutant("        if self.ere:\n", "        if False:\n"),
    Mutant(
        '        if self.demo_count:\n            raise OrderError(\n                f"pin',
        '        if False:\n            raise OrderError(\n                f"pin',
    ),
    Mutant("if not is_count(count) or count != total:", "if not is_count(count) or count > total:"),
    Mutant("if not is_count(count) or count != total:", "if not is_count(count) or count < total:"),
    Mutant("if not is_count(count) or count != total:", "if count != total:"),
    Mutant("prefix >= capacity", "prefix > capacity"),
    Mutant(
        "if not is_count(batch_size):\n                raise C",
        "if False:\n                raise C",
    ),
    Mutant("capacity - prefix < batch_size", "capacity - prefix <= batch_size"),
    Mutant("capacity - prefix < batch_size", "capacity < batch_size"),
    Mutant("if not (is_count(batch_size) and batch_size < 2**31):", "if batch_size >= 2**31:"),
    Mutant("if not (is_count(batch_size) and batch_size < 2**31):", "if not is_count(batch_size):"),
    Mutant("is_count(batch_size) and batch_size < 2**31", "is_count(batch_size + 1)"),
    Mutant("    return int(batch_size)\n", "    return batch_size\n"),
    Mutant("if not (is_int(low) and is_int(high)):", "if not is_int(low):"),
    Mutant("if not (is_int(low) and is_int(high)):", "if not is_int(high):"),
    Mutant("0 <= low < high <= size", "low < high <= size"),
    Mutant("0 <= low < high <= size", "0 <= low <= high <= size"),
    Mutant("0 <= low < high <= size", "0 <= low < high <= capacity"),
    Mutant("0 <= low < high <= size", "0 <= low < high < size"),
    # Priorities
    Mutant(
        "        if self.prioritized:\n            raise OrderError(\n"
        '                "configure_ere',
        '        if False:\n            raise OrderError(\n                "configure_ere',
    ),
    Mutant(
        '        if self.prioritized:\n            raise OrderError(\n                "pin_demo',
        '        if False:\n            raise OrderError(\n                "pin_demo',
    ),
    Mutant("        if not self.prioritized:\n", "        if False:\n"),
    Mutant('        self.check_prioritized("configure_per")\n', ""),
    Mutant('        self.check_prioritized("set_beta")\n', ""),
    Mutant('_unit("configure_per", "alpha", alpha)', "float(alpha)"),
    Mutant('_unit("configure_per", "beta", beta)', "float(beta)"),
    Mutant('return _unit("set_beta", "beta", beta)', "return float(beta)"),
    Mutant("if not 0.0 <= offset < math.inf:", "if not 0.0 < offset < math.inf:"),
    Mutant("if not 0.0 <= offset < math.inf:", "if not 0.0 <= offset:"),
    Mutant("if not 0.0 <= offset < math.inf:", "if not offset < math.inf:"),
    Mutant("if not 0.0 <= offset < math.inf:", "if offset < 0.0 or offset == math.inf:"),
    Mutant("return (*unit, offset)", "return (*unit[::-1], offset)"),
    Mutant("if size and alpha != self.alpha:", "if alpha != self.alpha:"),
    Mutant(
        "if size and alpha != self.alpha:",
        "if size:",
        equivalent="it is called where alpha differs",
    ),
    Mutant("if size and alpha != self.alpha:", "if size > 1 and alpha != self.alpha:"),
    Mutant("if size and alpha != self.alpha:", "if size and alpha > self.alpha:"),
    Mutant("if not 0.0 <= number <= 1.0:", "if not 0.0 < number <= 1.0:"),
    Mutant("if not 0.0 <= number <= 1.0:", "if not 0.0 <= number < 1.0:"),
    Mutant("if not 0.0 <= number <= 1.0:", "if not 0.0 <= number:"),
    Mutant("if not 0.0 <= number <= 1.0:", "if not number <= 1.0:"),
    Mutant("if not 0.0 <= number <= 1.0:", "if number < 0.0 or number > 1.0:"),
    Mutant("    return number\n", "    return value\n"),
    Mutant("bool | np.bool_ | str | bytes", "str | bytes"),
    Mutant("bool | np.bool_ | str | bytes", "bool | str | bytes"),
    Mutant("bool | np.bool_ | str | bytes", "bool | np.bool_"),
    Mutant("(TypeError, ValueError, OverflowError, RuntimeError)", "(ValueError, OverflowError)"),
    Mutant("(TypeError, ValueError, OverflowError, RuntimeError)", "(TypeError, OverflowError)"),
    Mutant("(TypeError, ValueError, OverflowError, RuntimeError)", "(TypeError, ValueError)"),
    Mutant('or getattr(value, "ndim", 0) != 0', "or False"),
    Mutant("above if 1.0 < number < 1.000001 else", "above if False else"),
    Mutant("above if 1.0 < number < 1.000001 else", "above if True else"),
    Mutant("alpha: float = ALPHA", "alpha: float = 0.5"),
]

_HOST_OPS = [
    # Storing
    Mutant(
        "        head = ring_head(total, demo_count, capacity)\n        for",
        "        head = total % capacity\n        for",
    ),
    Mutant("column.view[head] = value", "column.view[0] = value"),
    Mutant("self._total[0] = total + 1", "self._total[0] = head + 1"),
    Mutant("columns = [values[mask] for values in columns]", "pass"),
    Mutant("            rows = int(np.count_nonzero(mask))\n", ""),
    Mutant(
        "done = max(0, rows - (capacity - demo_count))",
        "done = max(0, rows - capacity)",
        equivalent="rows that this very batch overwrites are written first, for nothing",
    ),
    Mutant(
        "done = max(0, rows - (capacity - demo_count))",
        "done = 0",
        equivalent="rows that this very batch overwrites are written first, for nothing",
    ),
    Mutant(
        "done = max(0, rows - (capacity - demo_count))",
        "done = max(0, rows - (capacity - demo_count) + 1)",
    ),
    Mutant(
        "ring_head(total + done, demo_count, capacity)", "ring_head(total, demo_count, capacity)"
    ),
    Mutant(
        "count = min(rows - done, capacity - head)",
        "count = min(rows, capacity - head)",
        equivalent="a slice ends where the rows do, and so does the loop",
    ),
    Mutant(
        "count = min(rows - done, capacity - head)",
        "count = min(rows - done, capacity - head - 1) or 1",
        equivalent="the copies are smaller, and end at the same rows",
    ),
    Mutant("values[done : done + count]", "values[:count]"),
    Mutant(
        "self._total[0] = self._total.item() + rows",
        "self._total[0] = min(self._total.item() + rows, self._capacity)",
    ),
    Mutant("self._total[0] = self._total.item() + rows", "self._total[0] = rows"),
    Mutant(
        "len(self._blocks) >= _KEPT_BLOCKS",
        "len(self._blocks) > 10**9",
        open="forms would be kept without a bound",
    ),
    Mutant("        view.flags.writeable = False\n", ""),
    # Drawing
    Mutant(
        "words = self._words.draw(self._draws.item(), lanes, ROWS)",
        "words = self._words.draw(0, lanes, ROWS)",
    ),
    Mutant("online = size - demo_count", "online = size"),
    Mutant("lanes // 2 if online else lanes", "lanes // 2"),
    Mutant("lanes // 2 if online else lanes", "-(-lanes // 2) if online else lanes"),
    Mutant("demos = rows[:from_demos].copy()", "demos = rows[:from_demos]"),
    Mutant("            rows += np.uint64(demo_count)\n", ""),
    Mutant("            rows[:from_demos] = demos\n", ""),
    Mutant("self._rows_of_span(words, window, rows)", "self._rows_of_span(words, size, rows)"),
    Mutant(
        "ring_head(total, demo_count, capacity) - 1, ages",
        "ring_head(total, demo_count, capacity), ages",
    ),
    Mutant(
        "            ages %= capacity\n",
        "            ages %= size\n",
        equivalent="where size is below capacity no age passes the head",
    ),
    Mutant("            ages %= capacity\n", ""),
    Mutant("self._rows_of_span(words, size, rows)", "self._rows_of_span(words, capacity, rows)"),
    Mutant(
        "        if ere:\n            self._shrink", "        if False:\n            self._shrink"
    ),
    Mutant(
        "        if ere:\n            self._shrink",
        "        if True:\n            self._shrink",
        equivalent="without ERE nobody reads k and eta_power, and configuring starts both anew",
    ),
    Mutant("len(batch), ROWS), high - low, rows)", "len(batch), ROWS), high - low + 1, rows)"),
    Mutant(
        "self.priorities.mark_uniform(batch)\n        self._gather(batch)\n",
        "self.priorities.mark_uniform(batch)\n        self._gather(batch)\n"
        "        self._shrink_ere_window()\n",
    ),
    Mutant('control["k"], control["eta_power"] = 0, 1.0\n\n    def pin', "pass\n\n    def pin"),
    Mutant(
        'control["c_min"], control["k_max"] = c_min, k_max',
        'control["c_min"], control["k_max"] = k_max, c_min',
    ),
    Mutant(
        '= float(control["eta_power"]) * float(control["eta"])',
        '= np.float32(float(control["eta_power"]) * float(control["eta"]))',
    ),
    Mutant('control["k"] >= control["k_max"]', 'control["k"] > control["k_max"]'),
    Mutant("        self._draws[0] = self._draws.item() + 1\n", ""),
    # Rows of a span
    Mutant("np.multiply(halves, self._span, halves)", "np.multiply(high, self._span, high)"),
    Mutant("        np.right_shift(low, _HALF, low)\n", ""),
    Mutant("        np.add(high, low, high)\n", ""),
    Mutant("        np.bitwise_and(words, _LOW, low)\n", "        low[...] = words\n"),
    Mutant("if len(words) != len(high):", "if len(words) > len(high):"),
    Mutant("np.right_shift(high, _HALF, rows)", "np.right_shift(words, _HALF, rows)"),
    Mutant("bool(self._ere_enabled.item())", "False"),
    Mutant("batch._is_own(HostBatchMemory, self._layout, weighted=weighted)", "True"),
    # Priorities
    Mutant("splitmix64(seed), run or 0)", "splitmix64(seed))"),
    Mutant("splitmix64(seed), run or 0)", "seed, run or 0)"),
    Mutant("tree = self.priorities.nbytes if self.priorities else 0", "tree = 0"),
    Mutant(
        "self._words.draw(self._draws.item(), lanes, TARGETS)",
        "self._words.draw(self._draws.item(), lanes, ROWS)",
    ),
    Mutant(
        "self._words.draw(self._draws.item(), lanes, TARGETS)",
        "self._words.draw(0, lanes, TARGETS)",
    ),
    Mutant(
        "lanes, TARGETS))\n            self._gather(batch)\n            return\n",
        "lanes, TARGETS))\n            return\n",
    ),
    Mutant("            self.priorities.mark_uniform(batch)\n", "            pass\n"),
    Mutant("batch_size, weighted=self.priorities is not None)", "batch_size, weighted=True)"),
    Mutant("weighted = self.priorities is not None\n        if", "weighted = False\n        if"),
    Mutant("weighted = self.priorities is not None\n        if", "weighted = True\n        if"),
]

_HOST_INPUTS = [
    Mutant(
        "return [column.row(value) for column, value in zip(self._columns, values, strict=True)]",
        "return list(values)",
    ),
    Mutant(
        "return [column.row(value) for column, value in zip(self._columns, values, strict=True)]",
        "return [self._columns[0].row(value) for value in values]",
    ),
    Mutant("self._columns[0].batch(values[0], ANY_ROWS)", "np.asarray(values[0])"),
    Mutant("column.batch(value, rows) for", "column.batch(value, ANY_ROWS) for"),
    Mutant(
        "return array, int(np.count_nonzero(array))",
        "return array, rows",
        equivalent="a host buffer counts when it stores, and asks nobody",
    ),
    Mutant("host_array(mask, MASK, rows)", "host_array(mask, MASK, ANY_ROWS)"),
    Mutant("self._dtype = column.dtype if as_it_is else None", "self._dtype = column.dtype"),
    Mutant(
        'as_it_is = not (column.quantized or column.dtype.kind == "b")',
        "as_it_is = not column.quantized",
    ),
    Mutant(
        'as_it_is = not (column.quantized or column.dtype.kind == "b")',
        'as_it_is = column.dtype.kind != "b"',
    ),
    Mutant(
        "            and value.dtype is self._dtype\n            and value.ndim",
        "            and value.ndim",
    ),
    Mutant(
        "            and value.shape[1:] == self._shape\n",
        "",
    ),
    Mutant("            and value.ndim > 0\n", ""),
    Mutant("            and rows in (ANY_ROWS, len(value))\n", ""),
    Mutant("            and value.flags.c_contiguous\n", ""),
    Mutant(
        "            type(value) is np.ndarray\n", "            isinstance(value, np.ndarray)\n"
    ),
    Mutant("if kind is np.ndarray:", "if isinstance(value, np.ndarray):"),
    Mutant(
        "value.dtype is self._dtype and value.shape == self._shape", "value.dtype is self._dtype"
    ),
    Mutant(
        "value.dtype is self._dtype and value.shape == self._shape", "value.shape == self._shape"
    ),
    Mutant(
        "value.dtype is self._dtype and value.shape == self._shape",
        "False",
        equivalent="host_array takes the same values, more slowly",
    ),
    Mutant("bounds[0] <= value <= bounds[1]", "bounds[0] <= value"),
    Mutant("bounds[0] <= value <= bounds[1]", "value <= bounds[1]"),
    Mutant(
        "return np.ascontiguousarray(host_array(value, self._column, rows))",
        "return host_array(value, self._column, rows)",
    ),
    Mutant("{int: integers, np.int64: integers}", "{int: (-np.inf, np.inf), np.int64: integers}"),
    Mutant("{int: integers, np.int64: integers}", "{int: integers, np.int64: (-np.inf, np.inf)}"),
    Mutant("float: (-largest, largest), np.float64", "float: (-np.inf, np.inf), np.float64"),
    Mutant("np.float64: (-largest, largest)", "np.float64: (-np.inf, np.inf)"),
    Mutant(
        '    if dtype.kind == "b":\n        return {bool',
        "    if False:\n        return {bool",
        equivalent="host_array takes the same values, more slowly",
    ),
    Mutant("plain = not (column.quantized or column.shape)", "plain = not column.quantized"),
    Mutant("plain = not (column.quantized or column.shape)", "plain = not column.shape"),
    Mutant("bounds[0] <= value <= bounds[1]", "True"),
    Mutant(
        "if smallest is None or value >= smallest or value <= -smallest or value == 0:", "if True:"
    ),
    Mutant(
        "smallest is None or value >= smallest or value <= -smallest or value == 0",
        "smallest is None or value >= smallest or value == 0",
        equivalent="host_array takes the same values, more slowly",
    ),
    Mutant(
        "smallest is None or value >= smallest or value <= -smallest or value == 0",
        "smallest is None or value >= smallest or value <= smallest or value == 0",
    ),
    Mutant(
        "smallest is None or value >= smallest or value <= -smallest or value == 0",
        "smallest is None or value >= -smallest or value <= -smallest or value == 0",
    ),
    Mutant(
        "float(np.finfo(column.dtype).smallest_normal) if is_float",
        "float(np.finfo(column.dtype).smallest_subnormal) if is_float",
    ),
    # What an update is given
    Mutant("_ROWS.batch(rows, ANY_ROWS)", "np.asarray(rows)"),
    Mutant("_ROWS.batch(rows, ANY_ROWS)", "np.asarray(rows).astype(np.int64)"),
    Mutant("_TOKENS.batch(tokens, lanes)", "tokens"),
    Mutant("_TD_ERRORS.batch(td_errors, lanes)", "_TD_ERRORS.batch(td_errors, ANY_ROWS)"),
    Mutant("_TD_ERRORS.batch(td_errors, lanes)", "np.asarray(td_errors, np.float64)"),
    Mutant(
        "_TD_ERRORS.batch(td_errors, lanes)",
        "_TD_ERRORS.batch(td_errors, lanes).astype(np.float32).astype(np.float64)",
    ),
    Mutant("    check_update(rows, tokens, td_errors)\n", ""),
    Mutant("None if tokens is None else as_numpy(tokens, TOKENS)", "tokens"),
]

_HOST_COLUMNS = [
    Mutant("_LARGEST_BATCH = 2**31 - 1", "_LARGEST_BATCH = 2**31"),
    Mutant(
        "self._take(indices[start : start + step], raw, slice(start, start + step))",
        "self._take(indices, raw, slice(0, count))",
    ),
    Mutant("range(0, count, step)", "range(0, count - 1, step)"),
    Mutant("slice(start, start + step)", "slice(0, step)"),
    Mutant("if len(indices) != len(taken):", "if len(indices) > len(taken):"),
    Mutant(
        "taken, parts = self._views = self._views_of(len(indices))",
        "taken, parts = self._views_of(len(indices))",
        equivalent="the views are made anew for each draw, more slowly",
    ),
    Mutant("np.divide(part, np.float32(255)", "np.multiply(part, np.float32(1 / 255)"),
    Mutant("out=raw[name][lanes])", "out=raw[name][: len(indices)])"),
    Mutant("raw[name][lanes] = part", "raw[name][: len(part)] = part"),
    Mutant(
        "            if column.quantized\n            else",
        "            if False\n            else",
    ),
    Mutant(
        "length = batch_size * column.elements * column.dtype.itemsize",
        "length = batch_size * column.stored_nbytes",
    ),
    Mutant("+= -(-length // ALIGNMENT) * ALIGNMENT", "+= length"),
    Mutant(
        "+= -(-length // ALIGNMENT) * ALIGNMENT", "+= length // ALIGNMENT * ALIGNMENT + ALIGNMENT"
    ),
    Mutant("if self.nbytes > _LARGEST_BATCH:", "if False:"),
    Mutant(
        " and first.stored_nbytes == stride and not first.quantized",
        " and not first.quantized",
        equivalent="NumPy cuts the padding off, more slowly",
    ),
    Mutant(
        " and first.stored_nbytes == stride and not first.quantized",
        " and first.stored_nbytes == stride",
    ),
    Mutant(
        "len(stored) == 1 and first", "first", equivalent="of several columns none fills the record"
    ),
    Mutant("self.scratch, offset, stored.view.strides", "self.scratch, 0, stored.view.strides"),
    Mutant("self.scratch, offset, strides", "self.scratch, 0, strides"),
    # Of priorities
    Mutant("of_draw(weighted=weighted)", "of_draw(weighted=False)"),
    Mutant("block, start + member[0])", "block, member[0])"),
    Mutant("self.arrays[-3].view(np.uint64)", "self.arrays[-3].copy().view(np.uint64)"),
    Mutant("self.arrays[-1].view(np.uint64)", "self.arrays[-1].copy().view(np.uint64)"),
    Mutant("self.arrays[-1].view(np.uint64)[:, 0]", "self.arrays[-1].view(np.uint64)[:1, 0]"),
]

_ALIGNED = [
    Mutant("ALIGNMENT = 64", "ALIGNMENT = 32"),
    Mutant(
        "block = np.zeros(count * dtype.itemsize + ALIGNMENT, np.uint8)",
        "block = np.empty(count * dtype.itemsize + ALIGNMENT, np.uint8)",
    ),
    Mutant(
        "return np.ndarray(count, dtype, block, _padding(block))",
        "return np.ndarray(count, dtype, block, 0)",
    ),
    Mutant("return block, _padding(block)", "return block, 0"),
]

_KERNEL_STRUCTS = [
    Mutant("MAX_TILE = 32", "MAX_TILE = 33"),
    Mutant("    if column.quantized:\n        return QUANTIZED\n", ""),
    Mutant('return BOOLEAN if column.dtype.kind == "b" else AS_IT_IS', "return AS_IT_IS"),
    Mutant('return BOOLEAN if column.dtype.kind == "b" else AS_IT_IS', "return BOOLEAN"),
    Mutant('column.dtype.kind == "b"', 'column.dtype.kind in "bu"'),
    Mutant("AS_IT_IS, QUANTIZED, BOOLEAN = range(3)", "QUANTIZED, BOOLEAN, AS_IT_IS = range(3)"),
    Mutant("AS_IT_IS, QUANTIZED, BOOLEAN = range(3)", "AS_IT_IS, BOOLEAN, QUANTIZED = range(3)"),
    Mutant("addresses[place.array] + place.offset", "addresses[place.array]"),
    Mutant("addresses[place.array] + place.offset", "addresses[0] + place.offset"),
    Mutant("            place.stride,\n", "            column.stored_nbytes,\n"),
    Mutant(
        "            column.elements * column.dtype.itemsize,\n",
        "            column.stored_nbytes,\n",
    ),
    Mutant('table["count"] = len(layout.columns)', 'table["count"] = len(layout.columns) - 1'),
    Mutant(
        'table["count"] = len(layout.columns)',
        'table["count"] = MAX_COLUMNS',
        equivalent="columns of no bytes and no elements are copied as well, which does nothing",
    ),
    Mutant(
        '("base", "<u8"), ("stride", "<i8"), ("elements", "<i8")',
        '("base", "<u8"), ("elements", "<i8"), ("stride", "<i8")',
    ),
    # Of priorities
    Mutant("MAX_FEW = 1024", "MAX_FEW = 1025"),
    Mutant("MAX_FEW = 1024", "MAX_FEW = 1023"),
    Mutant("MAX_SUMS = 8", "MAX_SUMS = 7"),
    Mutant(
        '[("raw", "<u8"), ("largest", "<u8"), ("tiles"',
        '[("largest", "<u8"), ("raw", "<u8"), ("tiles"',
    ),
    Mutant('("tiles", "<i8"), ("weights", "<u8")', '("weights", "<u8"), ("tiles", "<i8")'),
    Mutant('("indices", "<u8"), ("tokens", "<u8")', '("tokens", "<u8"), ("indices", "<u8")'),
    Mutant('("largest", "<u8"), ("tile", "<i8")', '("tile", "<i8"), ("largest", "<u8")'),
    Mutant(
        '        ("rows", "<u8"),\n        ("tokens", "<u8"),\n',
        '        ("tokens", "<u8"),\n        ("rows", "<u8"),\n',
    ),
    Mutant(
        '        ("errors", "<u8"),\n        ("error_bytes", "<i8"),\n',
        '        ("error_bytes", "<i8"),\n        ("errors", "<u8"),\n',
    ),
    Mutant(
        '        ("nodes", "<i8", MAX_SUMS),\n        ("tickets", "<u8", MAX_SUMS),\n',
        '        ("tickets", "<u8", MAX_SUMS),\n        ("nodes", "<i8", MAX_SUMS),\n',
    ),
    Mutant(
        '        ("updates", "<u8"),\n        ("winners", "<u8"),\n',
        '        ("winners", "<u8"),\n        ("updates", "<u8"),\n',
    ),
    Mutant("[_number(item) for item in value]", "[_number(value[0])] * len(value)"),
    Mutant("    if value is None:\n        return 0\n", ""),
    Mutant("record = np.zeros(1, dtype)", "record = np.ones(1, dtype)"),
]

_DEVICE_OPS = [
    Mutant("max(1, min(MAX_TILE, _TILE_BYTES // all_bytes))", "max(1, _TILE_BYTES // all_bytes)"),
    Mutant(
        "max(1, min(MAX_TILE, _TILE_BYTES // all_bytes))",
        "min(MAX_TILE, _TILE_BYTES // all_bytes)",
    ),
    Mutant(
        "max(1, min(_MAX_SLICES, ",
        "(min(_MAX_SLICES, ",
        equivalent="CuPy launches at least one block",
    ),
    Mutant("int(row_bytes.max()) // 4 + 1", "1", equivalent="the grid is strided"),
    Mutant("batch._is_own(_DeviceBatchMemory, self._layout, weighted=weighted) and", "True and"),
    Mutant("bool(batch._memory.card == self._card.number)", "True"),
    Mutant(
        "    def sample(self, batch: Batch) -> None:\n        self._card.check_stream()\n",
        "    def sample(self, batch: Batch) -> None:\n",
    ),
    Mutant(
        "batch: Batch, low: int, high: int) -> None:\n        self._card.check_stream()\n",
        "batch: Batch, low: int, high: int) -> None:\n",
    ),
    Mutant(
        '        self._card.refuse_capture("asking the device how many rows there are (add enough '
        'first)")\n',
        "",
    ),
    Mutant(
        '        self._card.check_current()\n        self._card.refuse_capture("synchronize")\n',
        '        self._card.refuse_capture("synchronize")\n',
    ),
    Mutant("self.store(row, 1)", "self.store(row, 0)"),
    Mutant('return int(self.control()["total"])', 'return int(self.control()["draws"])'),
    Mutant("(_LAST_INVALID.itemsize if layout.quantizes else 0)", "0"),
    Mutant("cupy.zeros((capacity, stride), np.uint8)", "cupy.empty((capacity, stride), np.uint8)"),
    Mutant(
        "cupy.zeros(capacity if layout.quantizes else 1, _LAST_INVALID)",
        "cupy.zeros(1, _LAST_INVALID)",
    ),
    Mutant(
        "cupy.zeros(capacity if layout.quantizes else 1, _LAST_INVALID)",
        "cupy.empty(capacity, _LAST_INVALID)",
        open="what lies there is the number of the next write once in 2**64 times",
    ),
    Mutant("arrays = (*self._arrays, self._control, self._last_invalid)", "arrays = self._arrays"),
    Mutant("-(-rows // tile)", "(rows // tile)", equivalent="the grid is strided"),
    Mutant(
        "threads = 1 if mask is None else THREADS",
        "threads = 1",
        equivalent="one thread counts the mask, more slowly",
    ),
    Mutant("np.int64(rows), mask, threads=threads)", "np.int64(rows), None, threads=threads)"),
    Mutant(
        "memptr=self._arrays[place.array].data + place.offset",
        "memptr=self._arrays[place.array].data",
    ),
    Mutant("by_policy: bool = True", "by_policy: bool = False"),
    Mutant("_NO_WEIGHTS, by_policy=False)", "_NO_WEIGHTS, by_policy=True)"),
    Mutant("np.int64(c_min), np.int64(k_max)", "np.int64(k_max), np.int64(c_min)"),
    Mutant("np.float64(eta)", "np.float64(np.float32(eta))"),
    Mutant('        self._card.refuse_capture("making a buffer")\n', ""),
    Mutant(
        "        self._card.check_current()\n        return self._inputs.row",
        "        return self._inputs.row",
    ),
    Mutant(
        "        self._card.check_current()\n        return self._inputs.batch",
        "        return self._inputs.batch",
    ),
    Mutant(
        'refuse_capture("allocating a batch (get it from make_batch, and give it as out)")',
        "capturing",
    ),
    Mutant(
        '        self._card.check_current()\n        self._card.refuse_capture("alloc',
        '        self._card.refuse_capture("alloc',
    ),
    Mutant('        self._card.refuse_capture("reading rows")\n', "", equivalent=_READ),
    Mutant('        self._card.refuse_capture("configure_ere")\n', ""),
    Mutant('        self._card.refuse_capture("pin_demo_prefix")\n', ""),
    Mutant('        self._card.refuse_capture("reading the buffer\'s state")\n', ""),
    Mutant('        self._card.refuse_capture("synchronize")\n', ""),
    # Priorities
    Mutant("splitmix64(seed), run or 0)", "splitmix64(seed))"),
    Mutant("splitmix64(seed), run or 0)", "seed, run or 0)"),
    Mutant("tree = self.priorities.nbytes if self.priorities else 0", "tree = 0"),
    Mutant(
        "            self.priorities.enter(rows, mask)\n            return\n",
        "            self.priorities.enter(rows, mask)\n",
    ),
    Mutant(
        "        if self.priorities:\n            self.priorities.enter",
        "        if False:\n            self.priorities.enter",
    ),
    Mutant("self.priorities.enter(rows, mask)", "self.priorities.enter(rows, None)"),
    Mutant("self._gather(batch, draw.weights)", "self._gather(batch, draw.ones)"),
    Mutant("self._gather(batch, draw.weights)", "self._gather(batch, _NO_WEIGHTS)"),
    Mutant("draw and draw.tokens,", "None,"),
    Mutant("draw.ones if draw else _NO_WEIGHTS, by_policy=False", "_NO_WEIGHTS, by_policy=False"),
    Mutant(
        "draw.ones if draw else _NO_WEIGHTS, by_policy=False",
        "draw.weights if draw else _NO_WEIGHTS, by_policy=False",
    ),
    Mutant("is not None\n        arrays = tuple(", "is None\n        arrays = tuple("),
    Mutant(
        "weighted = self.priorities is not None\n        arrays",
        "weighted = True\n        arrays",
    ),
    Mutant(
        "weighted = self.priorities is not None\n        return batch._is_own",
        "weighted = True\n        return batch._is_own",
    ),
    Mutant(
        "weighted = self.priorities is not None\n        return batch._is_own",
        "weighted = False\n        return batch._is_own",
    ),
    Mutant(
        "(batch_size, *column.shape), column.dtype)", "(batch_size, *column.shape), column.stored)"
    ),
]

_INPUTS = [
    Mutant("_DLPACK_HOST = (1, 3, 11)", "_DLPACK_HOST = (1,)"),
    Mutant("_DLPACK_HOST = (1, 3, 11)", "_DLPACK_HOST = (1, 2, 3, 11)"),
    Mutant("_cast(as_numpy(value, column), column)", "np.asarray(value, column.dtype)"),
    Mutant("    check_shape(array.shape, column, rows)\n", ""),
    Mutant("    if column.quantized:\n        return _quantize(array, column)\n", ""),
    Mutant(
        "return np.asarray(np.not_equal(array.view(np.uint8), 0))",
        "return array",
    ),
    Mutant("np.not_equal(array.view(np.uint8), 0)", "np.equal(array.view(np.uint8), 1)"),
    Mutant("np.not_equal(array.view(np.uint8), 0)", "np.greater(array.view(np.uint8), 127)"),
    Mutant("return np.asarray(np.not_equal(", "return (np.not_equal("),
    Mutant("if array.dtype == np.float64 and array.size and", "if array.dtype == np.float64 and"),
    Mutant("if array.dtype == np.float64 and array.size and", "if False and"),
    Mutant("array.max() >= 2.0**63", "array.max() > 2.0**63"),
    Mutant("array.max() >= 2.0**63", "array.min() >= 2.0**63"),
    Mutant("return exact if _holds_integers(exact) else array", "return exact"),
    Mutant("return exact if _holds_integers(exact) else array", "return array"),
    Mutant(
        "if array.size == 0 and array.dtype == np.float64:",
        "if False and array.dtype == np.float64:",
    ),
    Mutant("if array.size == 0 and array.dtype == np.float64:", "if array.size == 0:"),
    Mutant("        fits = shape == column.shape\n", "        fits = True\n"),
    Mutant("fits = shape == column.shape\n", "fits = len(shape) == len(column.shape)\n"),
    Mutant("len(shape) > 0 and shape[1:] == column.shape", "shape[1:] == column.shape"),
    Mutant("len(shape) > 0 and shape[1:] == column.shape", "len(shape) > 0"),
    Mutant(" and rows in (ANY_ROWS, shape[0])", ""),
    Mutant(" and rows in (ANY_ROWS, shape[0])", " and rows == shape[0]"),
    Mutant("    if not fits:\n", "    if False:\n"),
    Mutant(
        "if rows is not None and shape == column.shape:",
        "if shape == column.shape:",
        equivalent="a shape that is wanted has no hint",
    ),
    Mutant("if rows is not None and shape == column.shape:", "if False:"),
    Mutant("if rows is None and shape[1:] == column.shape:", "if False:"),
    Mutant("math.prod(shape) == column.elements * (rows or 1)", "True"),
    Mutant("math.prod(shape) == column.elements * (rows or 1)", "False"),
    Mutant(
        "math.prod(shape) == column.elements * (rows or 1)", "math.prod(shape) == column.elements"
    ),
    Mutant("isinstance(value, np.ma.MaskedArray)", "False"),
    Mutant("    if isinstance(value, bytes):\n        return np.frombuffer(value, np.uint8)\n", ""),
    Mutant(
        '    if hasattr(value, "__cuda_array_interface__"):\n'
        "        raise _in_device_memory(column)\n",
        "",
    ),
    Mutant("if value.__dlpack_device__()[0] not in _DLPACK_HOST:", "if False:"),
    Mutant("except (BufferError, RuntimeError, TypeError) as error:", "except TypeError as error:"),
    Mutant("except ValueError as error:  # a ragged", "except KeyError as error:  # a ragged"),
    Mutant(
        'if array.dtype.kind in "biu" or _holds_integers(array):',
        'if array.dtype.kind in "biuf" or _holds_integers(array):',
    ),
    Mutant(
        'if array.dtype.kind in "biu" or _holds_integers(array):',
        'if array.dtype.kind in "b" or _holds_integers(array):',
    ),
    Mutant(
        'if array.dtype.kind in "biu" or _holds_integers(array):', 'if array.dtype.kind in "biu":'
    ),
    Mutant("if array.size and not (low", "if not (low"),
    Mutant("low <= int(array.min()) and int(array.max()) <= high", "int(array.max()) <= high"),
    Mutant("low <= int(array.min()) and int(array.max()) <= high", "low <= int(array.min())"),
    Mutant("int(array.max()) <= high", "int(array.max()) < high"),
    Mutant("low <= int(array.min())", "low < int(array.min())"),
    Mutant('if array.dtype.kind == "f" and dtype.kind == "f":', 'if array.dtype.kind == "f":'),
    Mutant('return array.dtype.kind == "O" and all', "return all"),
    Mutant(
        'return array.dtype.kind == "O" and all(type(item) is int for item in array.flat)',
        'return array.dtype.kind == "O"',
    ),
    Mutant(
        "all(type(item) is int for item in array.flat)",
        "all(isinstance(item, int) for item in array.flat)",
    ),
    Mutant(
        "all(type(item) is int for item in array.flat)",
        "any(type(item) is int for item in array.flat)",
    ),
    Mutant("nmant + 1", "nmant"),
    Mutant("nmant + 1", "nmant + 2"),
    Mutant("        return 0, 1\n", "        return 0, 255\n"),
    Mutant("(array >= 0) & (array <= 1)", "(array > 0) & (array <= 1)"),
    Mutant("(array >= 0) & (array <= 1)", "(array >= 0) & (array < 1)"),
    Mutant("(array >= 0) & (array <= 1)", "~((array < 0) | (array > 1))"),
    Mutant("np.rint(array * np.float32(255))", "np.floor(array * np.float32(255))"),
    Mutant(
        "np.rint(array * np.float32(255))", "np.floor(array * np.float32(255) + np.float32(0.5))"
    ),
    Mutant("np.rint(array * np.float32(255))", "np.rint(array.astype(np.float64) * 255)"),
    Mutant('over="raise"', 'over="ignore"'),
    Mutant('under="ignore"', 'under="raise"'),
    Mutant('if rows.dtype.kind not in "iu" and rows.size and', "if False and"),
    Mutant(
        'if rows.dtype.kind not in "iu" and rows.size and', 'if rows.dtype.kind not in "iu" and'
    ),
    Mutant(
        'rows.dtype.kind not in "iu" and rows.size', 'rows.dtype.kind not in "biu" and rows.size'
    ),
    Mutant(
        'rows.dtype.kind not in "iu" and rows.size', 'rows.dtype.kind not in "iuf" and rows.size'
    ),
    Mutant('rows.dtype.kind not in "iu" and rows.size', 'rows.dtype.kind != "i" and rows.size'),
    Mutant("rows.size and not _holds_integers(rows)", "rows.size"),
    Mutant("if rows.shape != (lanes,) or lanes >= 2**31:", "if rows.shape != (lanes,):"),
    Mutant("if rows.shape != (lanes,) or lanes >= 2**31:", "if lanes >= 2**31:"),
    Mutant(
        "if rows.shape != (lanes,) or lanes >= 2**31:",
        "if rows.shape != (lanes,) or lanes > 2**31:",
    ),
    Mutant(
        'tokens.dtype.kind not in "iu" or tokens.shape != (lanes, 2)',
        'tokens.dtype.kind not in "iu"',
    ),
    Mutant(
        'tokens.dtype.kind not in "iu" or tokens.shape != (lanes, 2)', "tokens.shape != (lanes, 2)"
    ),
    Mutant(
        'tokens.dtype.kind not in "iu" or tokens.shape != (lanes, 2)',
        'tokens.dtype.kind not in "iu" or tokens.shape[0] != lanes',
    ),
    Mutant('(ShapeError if tokens.dtype.kind in "iu" else DTypeError)', "(ShapeError)"),
    Mutant('if td_errors.dtype.kind not in "iuf":', "if False:"),
    Mutant('if td_errors.dtype.kind not in "iuf":', 'if td_errors.dtype.kind not in "biuf":'),
    Mutant('if td_errors.dtype.kind not in "iuf":', 'if td_errors.dtype.kind not in "f":'),
    Mutant("    if td_errors.shape != (lanes,):\n", "    if False:\n"),
    Mutant(
        "    if type(value) is np.ndarray:\n        return value\n",
        "",
        equivalent="the same array, after a look at its kind",
    ),
    # Extra columns
    Mutant("        if name not in given:\n", "        if False:\n"),
    Mutant("        if name not in given:\n", "        if name in given:\n"),
    Mutant("        if name not in names:\n", "        if False:\n"),
    Mutant("        if name not in names:\n", "        if name in names:\n"),
    Mutant("return [given[name] for name in names]", "return list(given.values())"),
]

_REPLAY = [
    Mutant("if not isinstance(prioritized, bool | np.bool_):", "if False:"),
    Mutant("capacity <= MAX_CAPACITY", "capacity < MAX_CAPACITY"),
    Mutant("is_count(capacity) and capacity <= MAX_CAPACITY", "is_count(capacity)"),
    # Adding
    Mutant(
        "            self._ops.store_row(row)\n            self._known.count(known)\n",
        "            self._ops.store_row(row)\n",
    ),
    Mutant(
        "            self._ops.store(columns, rows, mask)\n            self._known.count(known)\n",
        "            self._ops.store(columns, rows, mask)\n",
    ),
    Mutant(
        "            self._ops.store_row(row)\n            self._known.count(known)\n",
        "            self._known.count(known)\n            self._ops.store_row(row)\n",
    ),
    Mutant(
        "        with self._lock:\n"
        "            if self._snapshots:\n"
        "                self._make_room(1)\n"
        "            known = self._countable(1)\n"
        "            self._known.expect()\n"
        "            self._ops.store_row(row)\n",
        "        known = self._countable(1)\n"
        "        self._known.expect()\n"
        "        self._ops.store_row(row)\n"
        "        with self._lock:\n",
    ),
    Mutant(
        "        row = self._ops.ingest_row(values)  # not under the lock: it may run the caller's "
        "code\n        with self._lock:\n",
        "        with self._lock:\n            row = self._ops.ingest_row(values)\n",
    ),
    Mutant(
        "        columns, rows = self._ops.ingest(values)\n",
        "        with self._lock:\n            columns, rows = self._ops.ingest(values)\n",
    ),
    Mutant(
        "            known = self._countable(count)\n"
        "            self._known.expect()\n"
        "            self._ops.store(columns, rows, mask)\n",
        "            known = self._countable(count)\n"
        "            self._known.expect()\n"
        "        self._ops.store(columns, rows, mask)\n"
        "        if True:\n",
    ),
    Mutant(
        "            self._ops.store(columns, rows, mask)\n            self._known.count(known)\n",
        "            self._known.count(known)\n            self._ops.store(columns, rows, mask)\n",
    ),
    Mutant("known = self._countable(1)", "known = self._countable(2)"),
    Mutant("known = self._countable(count)", "known = self._countable(rows)"),
    Mutant(
        "        if rows == 0:\n            return\n",
        "",
    ),
    Mutant("return None if self._ops.capturing else rows", "return rows"),
    Mutant("return None if self._ops.capturing else rows", "return None"),
    Mutant(
        "        count: int | None = rows\n        if mask is not None:",
        "        count: int | None = rows\n        if False:",
    ),
    Mutant(
        "mask, count = self._ops.ingest_mask(mask, rows)",
        "mask, _ = self._ops.ingest_mask(mask, rows)",
    ),
    Mutant(
        "            self._ops.store(columns, rows, mask)\n",
        "            self._ops.store(columns, rows)\n",
    ),
    # Drawing
    Mutant(
        "        batch_size = check_batch_size(batch_size)\n"
        "        with self._lock:\n"
        "            self._policy",
        "        with self._lock:\n            self._policy",
    ),
    Mutant("            lo, hi = check_range(lo, hi, size, self._capacity)\n", ""),
    Mutant("self._ops.sample_range(batch, lo, hi)", "self._ops.sample_range(batch, lo, size)"),
    Mutant(
        "batch = self._ops.make_batch(check_batch_size(batch_size))",
        "batch = self._ops.make_batch(batch_size)",
    ),
    # Policies
    Mutant("            self._policy.ere = bool(enable)\n", ""),
    Mutant(
        "            self._policy.ere = bool(enable)\n",
        "            self._policy.ere = True\n",
    ),
    Mutant("            self._policy.demo_count = n\n", ""),
    Mutant(
        "self._policy.largest_batch = None if batch_size is None else self._capacity - n", "pass"
    ),
    Mutant("None if batch_size is None else self._capacity - n", "batch_size"),
    Mutant("None if batch_size is None else self._capacity - n", "self._capacity - n"),
    Mutant("None if batch_size is None else self._capacity - n", "None"),
    Mutant("            self._policy.check_draw(batch_size, self._known.size_up_to(1))\n", ""),
    Mutant("batch_size, self._known.size_up_to(1))", "batch_size, self._known.at_least)"),
    Mutant("self._known.size_up_to(hi if is_count(hi) else 1)", "self._known.size_up_to(1)"),
    Mutant("self._known.size_up_to(hi if is_count(hi) else 1)", "self._known.size_up_to(hi)"),
    Mutant(
        "return self._known.size_up_to(rows) >= rows", "return self._known.size_up_to(rows) > rows"
    ),
    Mutant("            self._policy.check_ere(enable, eta, c_min, k_max)\n", ""),
    # Looking
    # What the host knows of the cursor
    # Parts of the calls
    Mutant("if not isinstance(out, Batch):", "if False:"),
    Mutant("if len(out) != batch_size:", "if False:"),
    Mutant("if not self._ops.accepts(out):", "if False:"),
    # The two classes
    Mutant("if seed is not None and not own_generator:", "if False:"),
    Mutant("return self._seed if self._own_generator else None", "return self._seed"),
    Mutant("with cupy.cuda.Device(device_number(cupy, device)):", "if True:"),
    Mutant(
        "        if batch_size is None:\n            raise Conf",
        "        if False:\n            raise Conf",
    ),
    Mutant("self._check_pin(n, batch_size, self._known.exact())", "n"),
    Mutant(
        "self._check_pin(n, batch_size, self._known.exact())",
        "self._check_pin(n, batch_size, self._known.at_least)",
    ),
    Mutant("return self._known.size()", "return self._known.at_least"),
    Mutant("waits = self._ops.reading_waits and not self._known.is_exact", "waits = False"),
    Mutant(
        "waits = self._ops.reading_waits and not self._known.is_exact",
        "waits = not self._known.is_exact",
    ),
    Mutant(
        "waits = self._ops.reading_waits and not self._known.is_exact",
        "waits = self._ops.reading_waits",
    ),
    Mutant(
        "rows = ring_size(self._known.at_least, self._capacity) if waits",
        "rows = self._known.at_least if waits",
    ),
    Mutant("reading_waits=ops.reading_waits", "reading_waits=True"),
    Mutant("reading_waits=ops.reading_waits", "reading_waits=False"),
    Mutant(
        "ring_head(self._known.exact(), self._policy",
        "ring_head(self._known.at_least, self._policy",
    ),
    Mutant("refuse_too_large(row, self._capacity, tree, host_memory(), where)", "pass"),
    Mutant("(row, self._capacity, tree, host_memory()", "(row, 1, tree, host_memory()"),
    Mutant('refuse_too_large(row, self._capacity, tree, device_memory(cupy), "the card")', "pass"),
    Mutant("raise CopyError(", "return CopyError, ("),
    # Priorities
    Mutant("Policy(prioritized=bool(prioritized))", "Policy(prioritized=prioritized)"),
    Mutant("Policy(prioritized=bool(prioritized))", "Policy()"),
    Mutant("secrets.randbits(64) if prioritized else None", "0 if prioritized else None"),
    Mutant("secrets.randbits(64) if prioritized else None", "secrets.randbits(64)"),
    Mutant("secrets.randbits(64) if prioritized else None", "None"),
    Mutant("isinstance(prioritized, bool | np.bool_)", "isinstance(prioritized, bool)"),
    Mutant("        alpha, beta, epsilon = self._policy.check_per(alpha, beta, epsilon)\n", ""),
    Mutant(
        "alpha, beta, epsilon = self._policy.check_per",
        "beta, alpha, epsilon = self._policy.check_per",
    ),
    Mutant("alpha, beta, epsilon = self._policy.check_per", "_ = self._policy.check_per"),
    Mutant(
        "            self._known.expect()\n            self._ops.store_row(row)\n",
        "            self._ops.store_row(row)\n",
    ),
    Mutant(
        "            self._known.expect()\n            self._ops.store(columns",
        "            self._ops.store(columns",
    ),
    Mutant("            self._ops.priorities.disown(batch)\n", "            pass\n"),
    Mutant("if self._ops.priorities is not None:", "if True:"),
    Mutant("if alpha != self._policy.alpha:", "if False:"),
    Mutant("if alpha != self._policy.alpha:", "if True:"),
    Mutant(
        "self._policy.check_alpha(alpha, self._known.size_up_to(1))",
        "self._policy.check_alpha(alpha, self._known.at_least)",
    ),
    Mutant(
        "self._policy.check_alpha(alpha, self._known.size_up_to(1))",
        "self._policy.check_alpha(alpha, len(self))",
    ),
    Mutant(
        "self._priorities.configure(alpha, beta, epsilon)",
        "self._priorities.configure(alpha, epsilon, beta)",
    ),
    Mutant("            self._policy.alpha = alpha\n", ""),
    Mutant(
        "            self._priorities.configure(alpha, beta, epsilon)\n"
        "            self._policy.alpha = alpha\n",
        "            self._policy.alpha = alpha\n"
        "            self._priorities.configure(alpha, beta, epsilon)\n",
    ),
    Mutant("beta = self._policy.check_beta(beta)", "pass"),
    Mutant("beta = self._policy.check_beta(beta)", "self._policy.check_beta(beta)"),
    Mutant("            self._priorities.set_beta(beta)\n", "            pass\n"),
    Mutant('        self._policy.check_prioritized("update_priorities")\n', ""),
    Mutant(
        "            tokens = batch._tokens\n            if tokens is None:",
        "            tokens = batch._tokens\n            if False:",
    ),
    Mutant(
        "            tokens = batch._tokens\n            if tokens is None:",
        "            if batch._tokens is None:",
    ),
    Mutant("            batch = batch.indices\n", ""),
    Mutant(
        "        with self._lock:\n            self._priorities.update(*update)",
        "        self._priorities.update(*update)",
    ),
    Mutant(
        "        update = self._priorities.ingest(batch, tokens, td_errors)  # may run the "
        "caller's code\n        with self._lock:\n",
        "        with self._lock:\n"
        "            update = self._priorities.ingest(batch, tokens, td_errors)\n",
    ),
    Mutant(
        "                check_priorities(self._ops, self._capacity, self._policy.alpha)\n",
        "                pass\n",
    ),
    Mutant(
        "            if self.prioritized:\n                check",
        "            if True:\n                check",
    ),
    Mutant("tree = tree_nbytes(self._capacity) if prioritized else 0", "tree = 0"),
    Mutant(
        "tree = tree_nbytes(self._capacity) if prioritized else 0",
        "tree = tree_nbytes(self._capacity)",
    ),
    Mutant("tree = device_tree_nbytes(self._capacity) if prioritized else 0", "tree = 0"),
    Mutant(
        "tree = device_tree_nbytes(self._capacity) if prioritized else 0",
        "tree = device_tree_nbytes(self._capacity)",
    ),
    Mutant(
        "HostOps(*form, run=run)",
        "HostOps(*form, run=0 if prioritized else None)",
    ),
    Mutant(
        "NativeOps(*form, run=run,",
        "NativeOps(*form, run=0 if prioritized else None,",
    ),
    Mutant(
        "DeviceOps(cupy, self._layout, self._capacity, seed, run=run)",
        "DeviceOps(cupy, self._layout, self._capacity, seed, run=0 if prioritized else None)",
    ),
    Mutant(
        "return (*standard, *extra_values(self._extra_names, extra))",
        "return (*standard, *extra.values())",
    ),
    # Updates by compiled code
    Mutant("if self._priorities.update_plain(batch, tokens, td_errors):", "if False:"),
    Mutant("update_plain(batch, tokens, td_errors)", "update_plain(batch, None, td_errors)"),
    Mutant(
        "            if self._priorities.update_plain(batch, tokens, td_errors):\n"
        "                return\n",
        "            self._priorities.update_plain(batch, tokens, td_errors)\n            return\n",
    ),
    Mutant(
        "        with self._lock:\n            if self._priorities.update_plain(",
        "        if True:\n            if self._priorities.update_plain(",
    ),
]

_STATISTICS = [
    Mutant("ring_head(total, demo_count, capacity)", "ring_head(total, 0, capacity)"),
    Mutant('"ere": bool(control["ere_enabled"])', '"ere": False'),
    Mutant("size = ring_size(total, capacity)", "size = total"),
    Mutant('"draws": int(control["draws"])', '"draws": int(control["total"])'),
    Mutant("if ops.priorities is not None:", "if False:"),
    Mutant("levels[0][:size]", "levels[0][: size - 1]"),
    Mutant("levels[0][:size]", "levels[0][:16]"),
    Mutant("levels[0][:size]", "levels[0]", equivalent="leaves beyond the rows held are 0"),
    Mutant(
        "_LEAVES = 2**20",
        "_LEAVES = 1",
        equivalent="the sums are the same but for a rounding, and cost more",
    ),
    Mutant("ops.to_host(levels[-1])[0]", "ops.to_host(levels[1])[0]"),
    Mutant("ops.to_host(levels[-1])[0]", "ops.to_host(levels[0])[0]"),
    Mutant('"invalid_priorities", "stale_updates",', '"invalid_priorities",'),
]

_SCHEMA = [
    Mutant("PACKED_LIMIT = 256", "PACKED_LIMIT = 255"),
    Mutant("ROW_ALIGNMENT = 16", "ROW_ALIGNMENT = 8"),
    Mutant("MAX_COLUMNS = 32", "MAX_COLUMNS = 33"),
    Mutant("return self.stored != self.dtype", "return False"),
    Mutant(
        "return self.elements * self.stored.itemsize", "return self.elements * self.dtype.itemsize"
    ),
    Mutant(
        "return sum(self.strides)", "return sum(column.stored_nbytes for column in self.columns)"
    ),
    Mutant(
        "any(column.quantized for column in self.columns)",
        "all(column.quantized for column in self.columns)",
    ),
    Mutant("        and name.isidentifier()\n", ""),
    Mutant("        and name not in _RESERVED\n", ""),
    Mutant("        and len(name.encode()) <= _LONGEST_NAME\n", ""),
    Mutant("len(name.encode()) <= _LONGEST_NAME", "len(name) <= _LONGEST_NAME"),
    Mutant("len(name.encode()) <= _LONGEST_NAME", "len(name.encode()) < _LONGEST_NAME"),
    Mutant("if len(columns) > MAX_COLUMNS:", "if len(columns) >= MAX_COLUMNS:"),
    Mutant("column.stored_nbytes <= PACKED_LIMIT", "column.stored_nbytes < PACKED_LIMIT"),
    Mutant(
        "key=lambda column: -column.stored.itemsize", "key=lambda column: column.stored.itemsize"
    ),
    Mutant(
        "            offset += column.stored_nbytes\n", "            offset += column.elements\n"
    ),
    Mutant("if column.stored_nbytes > ROW_LIMIT:", "if column.stored_nbytes >= ROW_LIMIT:"),
    Mutant("len(sizes) <= MAX_AXES", "len(sizes) <= MAX_AXES + 1"),
    Mutant("all(is_count(size) for size in sizes)", "all(size >= 0 for size in sizes)"),
    Mutant("        if dtype is None:\n", "        if False:\n"),
    Mutant(" or not result.isnative:", ":"),
    Mutant("result.itemsize > 8", "result.itemsize > 16"),
    Mutant("len(form) == 2 and not isinstance(form[1], int | np.integer)", "len(form) == 2"),
    Mutant("return -(-count // multiple) * multiple", "return count // multiple * multiple"),
    Mutant(
        "return -(-count // multiple) * multiple", "return count // multiple * multiple + multiple"
    ),
]

_BATCH = [
    Mutant(
        "(INDICES, WEIGHTS, TOKENS) if weighted else (INDICES, None, None)",
        "(INDICES, WEIGHTS, TOKENS)",
    ),
    Mutant(
        "(INDICES, WEIGHTS, TOKENS) if weighted else (INDICES, None, None)", "(INDICES, None, None)"
    ),
    Mutant("len(TRANSITION) :], extra, strict", "len(TRANSITION) :], reversed(extra), strict"),
    Mutant(
        "None if array is None else function(array) for",
        "array if array is None or array is self.indices else function(array) for",
    ),
    Mutant(
        "None if array is None else function(array) for",
        "array if array is None or array is self.weights else function(array) for",
    ),
    Mutant(
        "None if array is None else function(array) for",
        "array if array is None or array is self._tokens else function(array) for",
    ),
    Mutant("None if array is None else function(array) for", "function(array) for"),
    Mutant(
        "return Batch((*TRANSITION, *self.extra), arrays)",
        "return Batch((*TRANSITION, *self.extra), arrays, self._memory)",
    ),
    Mutant(
        "return Batch((*TRANSITION, *self.extra), arrays)",
        "return Batch((*TRANSITION, *self.extra), [*arrays[:-2], None, None])",
    ),
    Mutant(
        "return Batch((*TRANSITION, *self.extra), arrays)",
        "return Batch((*TRANSITION, *self.extra), [*arrays[:-1], None])",
    ),
    Mutant(
        "return Batch((*TRANSITION, *self.extra), arrays)",
        "return Batch((*TRANSITION, *self.extra), [*arrays[:-2], *arrays[:-3:-1]])",
    ),
    Mutant(
        "return Batch((*TRANSITION, *self.extra), arrays)",
        "return Batch(TRANSITION, [*arrays[: len(TRANSITION)], *arrays[-3:]])",
    ),
    Mutant(
        "return Batch, ((*TRANSITION, *self.extra), self._arrays())",
        "return object.__reduce_ex__(self, 2)",
    ),
    Mutant(
        "return Batch, ((*TRANSITION, *self.extra), self._arrays())",
        "return Batch, ((*TRANSITION, *self.extra), (*self._arrays()[:-1], None))",
    ),
    Mutant(
        "return Batch, ((*TRANSITION, *self.extra), self._arrays())",
        "return Batch, ((*TRANSITION, *self.extra), (*self._arrays()[:-2], None, None))",
    ),
    Mutant("(memory.arrays[-1] is not None) != weighted", "False"),
    Mutant("(memory.arrays[-1] is not None) != weighted", "memory.arrays[-1] is None and weighted"),
    Mutant(
        "(memory.arrays[-1] is not None) != weighted",
        "memory.arrays[-1] is not None and not weighted",
    ),
    Mutant(
        "self.indices, self.weights, self._tokens)  # fmt",
        "self.indices, self.weights, None)  # fmt",
    ),
    Mutant(
        "self.indices, self.weights, self._tokens)  # fmt",
        "self.indices, None, self._tokens)  # fmt",
    ),
    Mutant("self.extra = dict(", "self._tokens = None; self.extra = dict("),
    Mutant('() if self.weights is None else ("weights",)', "()"),
    Mutant('() if self.weights is None else ("weights",)', '("weights",)'),
    Mutant(
        'unstored_column("draw tokens", "int32", (2,))', 'unstored_column("tokens", "int32", (2,))'
    ),
    Mutant(
        'unstored_column("draw tokens", "int32", (2,))',
        'unstored_column("draw tokens", "uint32", (2,))',
    ),
    Mutant('unstored_column("weights", "float32")', 'unstored_column("weights", "float64")'),
    Mutant("isinstance(memory, kind) and", "memory is not None and"),
    Mutant("isinstance(memory, kind) and", "isinstance(memory, BatchMemory) and"),
    Mutant("(memory.layout is layout or memory.layout == layout)", "True"),
    Mutant("(memory.layout is layout or memory.layout == layout)", "memory.layout is layout"),
    Mutant(
        "(memory.layout is layout or memory.layout == layout)",
        "memory.layout == layout",
        equivalent="a layout equals itself, more slowly",
    ),
    Mutant("len(mine) == len(memory.arrays) and all", "all"),
    Mutant(" and all(map(operator.is_, mine, memory.arrays))", ""),
    Mutant(
        "map(operator.is_, mine, memory.arrays)", "map(operator.is_, mine[1:], memory.arrays[1:])"
    ),
    Mutant("map(operator.is_, mine, memory.arrays)", "map(operator.is_, mine[:-1], memory.arrays)"),
    Mutant("map(operator.is_, mine, memory.arrays)", "map(operator.is_, mine[:4], memory.arrays)"),
    Mutant("operator.is_", "operator.is_not"),
    Mutant("except AttributeError:  # one was deleted", "except KeyError:"),
    Mutant("*self.extra.values(), self.indices", "self.indices, *self.extra.values()"),
    Mutant('or name in ("indices", "weights")', 'or name == "indices"'),
    Mutant(
        'raise TypeError("a Batch does not unpack; take its columns by name, as in batch.obs")',
        "return iter(self._names())",
    ),
]

_STEPS = [
    Mutant("self._batch_size > buffer.capacity", "self._batch_size >= buffer.capacity"),
    Mutant("self._batch_size > buffer.capacity", "False"),
    Mutant('any(column.name == "truncated" for column in buffer.columns)', "False"),
    Mutant(
        """        if self._learning_starts is not None:
            raise OrderError("configure_ere""",
        """        if False:
            raise OrderError("configure_ere""",
    ),
    Mutant(
        "self._buffer.configure_ere(enable, eta, c_min, k_max)",
        "self._buffer.configure_ere(enable, eta, k_max, c_min)",
    ),
    Mutant(
        """        if self._learning_starts is not None:
            raise OrderError(f"setup""",
        """        if False:
            raise OrderError(f"setup""",
    ),
    Mutant(
        "not is_int(learning_starts) or learning_starts < 0",
        "not is_int(learning_starts) or learning_starts < 1",
    ),
    Mutant("not is_int(learning_starts) or learning_starts < 0", "learning_starts < 0"),
    Mutant("self._buffer.make_batch(self._batch_size) if fixed else None", "None"),
    Mutant(
        "self._buffer.make_batch(self._batch_size) if fixed else None",
        "self._buffer.make_batch(self._batch_size)",
    ),
    Mutant('        self._require_setup("add")\n', ""),
    Mutant('        self._require_setup("add_batch")\n', ""),
    Mutant("next_obs, terminated, mask=mask, **extra)", "next_obs, terminated, **extra)"),
    Mutant('        self._require_setup("pin_demo_prefix")\n', ""),
    Mutant(
        "self._buffer.pin_demo_prefix(n, batch_size=self._batch_size)",
        "self._buffer.pin_demo_prefix(n, batch_size=1)",
    ),
    Mutant("if step_index < learning_starts:", "if step_index <= learning_starts:"),
    Mutant("if not self._buffer.demo_count and not", "if not"),
    Mutant(
        "self._buffer.sample(self._batch_size, self._fixed)",
        "self._buffer.sample(self._batch_size)",
    ),
    Mutant("        if not self._stores_truncated:\n            return extra\n", ""),
    Mutant("        if truncated is None:\n", "        if False:\n"),
    Mutant('{**extra, "truncated": truncated}', '{**extra, "truncated": False}'),
    Mutant(
        "StoreReplay(obs, act, cap, False, **options), batch",
        "StoreReplay(act, obs, cap, False, **options), batch",
    ),
    Mutant("StoreReplay(obs, act, cap, False, **options)", "StoreReplay(obs, act, cap, **options)"),
    Mutant(
        "StoreReplay(obs, act, cap, False, **options)",
        "StoreReplay(obs, act, cap, True, **options)",
    ),
    Mutant(
        "StoreReplayGpu(obs, act, cap, False, **options)",
        "StoreReplayGpu(obs, act, cap, **options)",
    ),
    Mutant(
        "StoreReplayGpu(obs, act, cap, False, **options)",
        "StoreReplayGpu(obs, act, cap, True, **options)",
    ),
    Mutant("not self._buffer.holds(self._batch_size)", "not self._buffer.holds(1)"),
    Mutant(
        "not self._buffer.holds(self._batch_size)", "not self._buffer.holds(self._batch_size + 1)"
    ),
    # Priorities
    Mutant(
        "        if self._learning_starts is not None:\n"
        '            raise OrderError("configure_per',
        '        if False:\n            raise OrderError("configure_per',
    ),
    Mutant(
        "self._buffer.configure_per(alpha, beta, epsilon)",
        "self._buffer.configure_per(beta, alpha, epsilon)",
    ),
    Mutant(
        "self._buffer.configure_per(alpha, beta, epsilon)",
        "self._buffer.configure_per(alpha, beta)",
    ),
    Mutant("        self._buffer.set_beta(beta)\n", "        pass\n"),
    Mutant(
        "drop_pending=drop_pending)\n        self._last = None\n", "drop_pending=drop_pending)\n"
    ),
    Mutant("resume(path, seed=seed, drop", "resume(path, drop"),
    Mutant(", drop_pending=drop_pending)\n", ")\n"),
    Mutant("        self._last = None\n        if step_index", "        if step_index"),
    Mutant(
        "        return self._last\n",
        "        return self._buffer.sample(self._batch_size, self._fixed)\n",
    ),
    Mutant("        if self._last is None:\n", "        if False:\n"),
    Mutant(
        "self._buffer.update_priorities(self._last, td_errors)",
        "self._buffer.update_priorities(self._last.indices, td_errors)",
    ),
    Mutant("        self._buffer.update_priorities(self._last, td_errors)\n", ""),
    Mutant(
        "StoreReplay(obs, act, cap, True, **options)",
        "StoreReplay(obs, act, cap, False, **options)",
    ),
    Mutant(
        "StoreReplayGpu(obs, act, cap, True, obs_store_dtype, **options)",
        "StoreReplayGpu(obs, act, cap, True, **options)",
    ),
    Mutant(
        "StoreReplayGpu(obs, act, cap, True, obs_store_dtype, **options)",
        "StoreReplayGpu(obs, act, cap, False, obs_store_dtype, **options)",
    ),
]

_KNOWN_TOTAL = [
    Mutant(
        "if self._reading_waits and rows is not None:",
        "if rows is not None:",
        equivalent="what is counted is right as well, where all of it is read",
    ),
    Mutant("if self._reading_waits and rows is not None:", "if False:"),
    Mutant("if known >= min(rows, self._capacity):", "if True:"),
    Mutant("if known >= min(rows, self._capacity):", "if False:"),
    Mutant(
        "if self._reading_waits:\n            known",
        "if True:\n            known",
        equivalent="of a host buffer no row is known, so it is asked all the same",
    ),
    Mutant("min(rows, self._capacity)", "rows"),
    Mutant("min(rows, self._capacity)", "1"),
    Mutant("self.is_exact = reading_waits", "self.is_exact = True"),
    Mutant("self.is_exact = reading_waits", "self.is_exact = False"),
    Mutant("self.is_exact = reading_waits", "self.is_exact = not reading_waits"),
    Mutant("            self.at_least += rows\n", "            pass\n"),
    Mutant("self.at_least = 0", "self.at_least = 1"),
    Mutant("            self.is_exact = self._was_exact\n", ""),
    Mutant("            self.is_exact = self._was_exact\n", "            self.is_exact = True\n"),
    Mutant("        self._was_exact = self.is_exact\n", ""),
    Mutant("        self.is_exact = False\n", ""),
    Mutant("self.at_least += rows", "self.at_least = rows"),
    Mutant("        if self.is_exact:\n", "        if True:\n"),
    Mutant("        if self.is_exact:\n", "        if False:\n"),
    Mutant(
        "if self._reading_waits:\n            self",
        "if True:\n            self",
        equivalent="nothing looks at what is known of a host buffer's total",
    ),
    Mutant("if self._reading_waits:\n            self", "if False:\n            self"),
    Mutant("return ring_size(self.exact(), self._capacity)", "return self.exact()"),
    Mutant(
        "return ring_size(self.exact(), self._capacity)",
        "return ring_size(self.at_least, self._capacity)",
    ),
    Mutant("known = ring_size(self.at_least, self._capacity)", "known = self.at_least"),
]

_INVARIANTS = [
    Mutant("if known.is_exact:", "if True:"),
    Mutant('_expect(0 <= control["demo_count"] <= size', "_expect(True"),
    Mutant('_expect(0 <= control["demo_count"] <= size', '_expect(control["demo_count"] <= size'),
    Mutant('_expect(control["total"] == known.at_least,', "_expect(True,"),
    Mutant('_expect(control["total"] >= known.at_least,', "_expect(True,"),
    Mutant('_expect(control["capacity"] == capacity', "_expect(True"),
    Mutant('_expect(control["demo_count"] == policy.demo_count', "_expect(True"),
    Mutant('_expect(bool(control["ere_enabled"]) == policy.ere', "_expect(True"),
    Mutant('_expect(0 <= control["k"] < max(1, control["k_max"])', "_expect(True"),
    Mutant(
        '_expect(0 <= control["k"] < max(1, control["k_max"])',
        '_expect(control["k"] < max(1, control["k_max"])',
    ),
    Mutant("range(0, len(rows), size)", "range(0, min(len(rows), size), size)"),
    Mutant("_expect(ops.priorities.at_rest(), ", "_expect(True, "),
    Mutant("held = max(0, size - first)", "held = size"),
    Mutant("_expect(not rows[held:].any()", "_expect(True"),
    Mutant("_expect(not (codes > 1).any()", "_expect(True"),
    Mutant("if not holds:", "if False:"),
    # Priorities
    Mutant('_expect(control["alpha"] == alpha', "_expect(True"),
    Mutant('_expect(1.0 <= control["max_priority"] < np.inf', "_expect(True"),
    Mutant(
        '_expect(1.0 <= control["max_priority"] < np.inf',
        '_expect(control["max_priority"] < np.inf',
    ),
    Mutant(
        '_expect(1.0 <= control["max_priority"] < np.inf', '_expect(1.0 <= control["max_priority"]'
    ),
    Mutant(
        '_expect(1.0 <= control["max_priority"] < np.inf',
        '_expect(1.0 < control["max_priority"] < np.inf',
    ),
    Mutant("_expect((leaves[:held] >= SMALLEST).all()", "_expect(True"),
    Mutant("(leaves[:held] >= SMALLEST)", "(leaves[:held] > SMALLEST)"),
    Mutant("(leaves[:held] >= SMALLEST)", "(leaves[:held] > 0)"),
    Mutant("_expect(np.isfinite(leaves).all()", "_expect(True"),
    Mutant("_expect(not leaves[held:].any()", "_expect(True"),
    Mutant(
        "leaves, held = ops.to_host(part), max(0, size - first)",
        "leaves, held = ops.to_host(part), size",
    ),
    Mutant("_expect(not ops.to_host(nodes[held:]).any()", "_expect(True"),
    Mutant("_expect(same.all(), ", "_expect(True, "),
    Mutant("_expect(same.all(), ", "_expect(same.any(), "),
    Mutant("ops.to_host(nodes[first : first + len(sums)])", "ops.to_host(nodes[: len(sums)])"),
    Mutant("pairwise(levels)", "list(pairwise(levels))[:1]"),
    Mutant("count(0, _PART // FAN_OUT)", "count(0, _PART)"),
]

_CUDA_DEVICE = [
    Mutant("            if error.status != _CAPTURE_IMPLICIT:\n", "            if False:\n"),
    Mutant("            if error.status != _CAPTURE_IMPLICIT:\n", "            if True:\n"),
    Mutant("        _ = self.capturing\n", "        pass\n"),
    Mutant(
        "max(1, min(-(-items // THREADS), MAX_BLOCKS))",
        "max(1, items // THREADS)",
    ),
    Mutant(
        "max(1, min(-(-items // THREADS), MAX_BLOCKS))",
        "-(-items // THREADS)",
    ),
    Mutant(
        "        self._card.check_current()\n        self._kernels[name]",
        "        self._kernels[name]",
    ),
    Mutant("return bool(self.cupy.cuda.get_current_stream().is_capturing())", "return False"),
    Mutant("except self.cupy.cuda.runtime.CUDARuntimeError as error:", "except KeyError as error:"),
    Mutant(
        "return int(cupy.cuda.Device().mem_info[1])", "return int(cupy.cuda.Device().mem_info[0])"
    ),
    Mutant(
        "    if device is None:\n        return int(cupy.cuda.runtime.getDevice())\n",
        "    if device is None:\n        return 0\n",
    ),
    Mutant("self.number = int(cupy.cuda.runtime.getDevice())", "self.number = 0"),
    Mutant("            kernel.compile()\n", "            pass\n"),
    Mutant("if not cupy.cuda.is_available():", "if False:"),
    Mutant("cupy.cuda.runtime.driverGetVersion() == 0", "False"),
    Mutant("        cupy.cuda.nvrtc.getVersion()\n", "        pass\n"),
    Mutant("        if self.capturing:\n", "        if False:\n"),
    Mutant("if current != self.number:", "if False:"),
    Mutant("is_int(device) and 0 <= device < count", "is_int(device) and device < count"),
    Mutant("is_int(device) and 0 <= device < count", "is_int(device) and 0 <= device <= count"),
    Mutant("is_int(device) and 0 <= device < count", "0 <= device < count"),
]

_DEVICE_INPUTS = [
    Mutant('array.astype(column.dtype, order="C")', "array.astype(column.dtype)"),
    Mutant("_DLPACK_DEVICE = (2, 13)", "_DLPACK_DEVICE = (1, 2, 13)"),
    Mutant("_DLPACK_DEVICE = (2, 13)", "_DLPACK_DEVICE = (13,)"),
    Mutant(
        "_DLPACK_DEVICE = (2, 13)",
        "_DLPACK_DEVICE = (2,)",
        open="needs managed memory, which the emulated device has not",
    ),
    Mutant("_ALIGNMENT = 16", "_ALIGNMENT = 1"),
    Mutant(
        "attrs.evolve(column, stored=column.dtype) for column in columns",
        "column for column in columns",
    ),
    Mutant(
        "*(self._checked(value, column, rows) for", "*(self._checked(value, column, ANY_ROWS) for"
    ),
    Mutant("self._checked(mask, MASK, rows)", "self._checked(mask, MASK, ANY_ROWS)"),
    Mutant("int(np.count_nonzero(checked)) if", "len(checked) if"),
    Mutant(
        "if isinstance(checked, np.ndarray) else None",
        "if isinstance(checked, np.ndarray) else rows",
    ),
    Mutant("if array.device.id != self._card.number:", "if False:"),
    Mutant("        check_shape(array.shape, column, rows)\n", ""),
    Mutant("if array.dtype != column.dtype and array.dtype not in also:", "if False:"),
    Mutant("if not _keeps_values(array.dtype, column.dtype):", "if False:"),
    Mutant(
        '            self._card.refuse_capture(\n                f"{column.name}: casting',
        '            str(\n                f"{column.name}: casting',
    ),
    Mutant('return array.astype(column.dtype, order="C")', "return array.view(column.dtype)"),
    Mutant(
        '            self._card.refuse_capture(\n                f"{column.name}: copying',
        '            str(\n                f"{column.name}: copying',
    ),
    Mutant("return self._cupy.ascontiguousarray(array)", "return array"),
    Mutant("if array.data.ptr % array.itemsize:", "if False:"),
    Mutant("if array.data.ptr % array.itemsize:", "if True:"),
    Mutant("if array.data.ptr % array.itemsize:", "if array.data.ptr % 2:"),
    Mutant("if array.data.ptr % array.itemsize:", "if array.data.ptr % 16:"),
    Mutant("array.reshape(-1).view(np.uint8).copy()", "array.reshape(-1).view(np.uint8)"),
    Mutant(
        "        if not array.flags.c_contiguous:\n            raise DTypeError(",
        "        if False:\n            raise DTypeError(",
    ),
    Mutant(
        'self._card.refuse_capture(f"{column.name}: copying an array that is not aligned")',
        "pass",
    ),
    Mutant("cupy.from_dlpack(value) if on_device else None", "cupy.from_dlpack(value)"),
    Mutant('if hasattr(value, "__dlpack_device__"):', "if False:"),
    Mutant('if interface.get("stream") is not None:', "if False:"),
    Mutant("            if isinstance(error, CaptureError):\n                raise\n", ""),
    Mutant('        self._card.refuse_capture(f"{what} host arrays (give CuPy arrays)")\n', ""),
    Mutant(', "a priority update from")', ")"),
    Mutant("offsets.append(end)", "offsets.append(0)"),
    Mutant("        block.set(staged)\n", ""),
    Mutant('return stored.kind == "f"', "return True"),
    Mutant('return stored.kind == "f"', "return False"),
    Mutant('    if given.kind not in "biu":\n        return False\n', ""),
    Mutant("lowest <= low and high <= highest", "lowest <= low"),
    Mutant("lowest <= low and high <= highest", "high <= highest"),
    Mutant("lowest <= low and high <= highest", "lowest < low and high < highest"),
    # What an update is given
    Mutant(
        "array.dtype != column.dtype and array.dtype not in also", "array.dtype != column.dtype"
    ),
    Mutant(", also=(np.dtype(np.float32),)", ", also=(np.dtype(np.float16),)"),
    Mutant(", also=(np.dtype(np.float32),)", ", also=(np.dtype(np.float32), np.dtype(np.int64))"),
    Mutant("self._checked(rows, INDICES, lanes)", "self._checked(rows, TD_ERRORS, lanes)"),
    Mutant("        check_update(rows, tokens, td_errors)\n", ""),
    Mutant(
        "            given.append(self._checked(tokens, TOKENS, lanes))\n", "            pass\n"
    ),
    Mutant("return rows, rest[0] if rest else None, td_errors", "return rows, None, td_errors"),
    Mutant(
        "rows, td_errors, *rest = self._uploaded(", "rows, td_errors, *rest = (lambda a, b: a)("
    ),
    Mutant("given.append(self._checked(tokens", "given.insert(1, self._checked(tokens"),
    Mutant("tokens = None if tokens is None else self._as_array(tokens, TOKENS)", "pass"),
    Mutant(
        "return as_numpy(value, column) if array is None else array",
        "return as_numpy(value, column)",
    ),
]

_MEMORY = [
    Mutant("*map(_cgroup_limit, files)", ""),
    Mutant("limits = [_physical_memory(), *map", "limits = [*map"),
    Mutant(
        "return min((limit for limit in limits if limit is not None), default=None)",
        "return max((limit for limit in limits if limit is not None), default=None)",
    ),
    Mutant(
        "_own_cgroup_limits() if cgroup_limits is None else cgroup_limits", "cgroup_limits or []"
    ),
    Mutant('_CGROUPS / "memory.max", _CGROUPS', "_CGROUPS"),
    Mutant(
        "    except OSError:  # no Linux\n        return files\n",
        "    except KeyError:\n        return files\n",
    ),
    Mutant('line.split(":", 2)', 'line.split(":")'),
    Mutant('if controllers == "":', "if True:"),
    Mutant('if controllers == "":', "if False:"),
    Mutant('elif "memory" in controllers.split(","):', 'elif controllers == "memory":'),
    Mutant('elif "memory" in controllers.split(","):', "elif True:"),
    Mutant('elif "memory" in controllers.split(","):', "elif False:"),
    Mutant("            continue\n", "            break\n"),
    Mutant(
        'root, name = _CGROUPS / "memory", "memory.limit_in_bytes"',
        'root, name = _CGROUPS, "memory.limit_in_bytes"',
    ),
    Mutant('inner = Path(group.lstrip("/"))', "inner = Path(group)"),
    Mutant("for folder in (inner, *inner.parents)", "for folder in (inner,)"),
    Mutant("for folder in (inner, *inner.parents)", "for folder in inner.parents"),
    Mutant("for folder in (inner, *inner.parents)", "for folder in (inner, *inner.parents[-1:])"),
    Mutant("files += [root", "files = [root"),
    Mutant("except (ValueError, OSError):  # a system", "except KeyError:  # a system"),
    Mutant("return memory if memory > 0 else None", "return memory"),
    Mutant("text = path.read_text().strip()", "text = path.read_text()"),
    Mutant(
        "    except OSError:\n        return None\n", "    except KeyError:\n        return None\n"
    ),
    Mutant(
        "return int(text) if text.isdigit() else None",
        "return int(text) if text != 'max' else None",
    ),
    Mutant("needed = row_nbytes * capacity", "needed = row_nbytes + capacity"),
    Mutant("memory is not None and needed > memory", "memory is not None and needed >= memory"),
    Mutant("if memory is not None and needed > memory:", "if needed > (memory or 0):"),
    Mutant("if size < 1024:", "if size <= 1024:"),
    Mutant('readable = "" if unit == "bytes" else', 'readable = "" if False else'),
    Mutant("row_nbytes * capacity + tree_nbytes", "row_nbytes * capacity"),
    Mutant(' if tree_nbytes else ""', ""),
    Mutant("of {format_bytes(tree_nbytes)}", "of {format_bytes(needed)}"),
]

_INTEGERS = [
    Mutant("return is_int(value) and value >= 1", "return is_int(value) and value >= 0"),
    Mutant("return is_int(value) and value >= 1", "return value >= 1"),
    Mutant(
        "int | np.integer) and not isinstance(value, bool", "int) and not isinstance(value, bool"
    ),
    Mutant(" and not isinstance(value, bool | np.timedelta64)", ""),
    Mutant("bool | np.timedelta64)", "bool)"),
    Mutant(
        "return is_int(value) or isinstance(value, float | np.floating)",
        "return isinstance(value, float | np.floating)",
    ),
    Mutant(
        "return is_int(value) or isinstance(value, float | np.floating)",
        "return is_int(value) or isinstance(value, float)",
    ),
    Mutant(
        "return is_int(value) or isinstance(value, float | np.floating)",
        "return is_int(value) or isinstance(value, float | np.floating | bool)",
    ),
]

_KERNEL_LOADER = [
    Mutant('(_HERE / "cuda_src", _HERE.parent / "cuda_src")', '(_HERE.parent / "cuda_src",)'),
    Mutant("if include[1] not in seen:", "if True:"),
    Mutant("            seen.add(include[1])\n", ""),
    Mutant('"-std=c++17", "-fmad=false"', '"-std=c++17",'),
    Mutant("#line {number + 1}", "#line {number}"),
    Mutant('"\\n" if line.startswith("#pragma once") else line', "line"),
]

PYTHON = {
    "cpreplay/control.py": _CONTROL,
    "cpreplay/philox.py": _PHILOX,
    "cpreplay/policies.py": _POLICIES,
    "cpreplay/host_ops.py": _HOST_OPS,
    "cpreplay/host_inputs.py": _HOST_INPUTS,
    "cpreplay/host_columns.py": _HOST_COLUMNS,
    "cpreplay/aligned.py": _ALIGNED,
    "cpreplay/kernel_structs.py": _KERNEL_STRUCTS,
    "cpreplay/device_ops.py": _DEVICE_OPS,
    "cpreplay/inputs.py": _INPUTS,
    "cpreplay/replay.py": _REPLAY,
    "cpreplay/statistics.py": _STATISTICS,
    "cpreplay/schema.py": _SCHEMA,
    "cpreplay/batch.py": _BATCH,
    "cpreplay/steps.py": _STEPS,
    "cpreplay/known_total.py": _KNOWN_TOTAL,
    "cpreplay/invariants.py": _INVARIANTS,
    "cpreplay/cuda_device.py": _CUDA_DEVICE,
    "cpreplay/device_inputs.py": _DEVICE_INPUTS,
    "cpreplay/memory.py": _MEMORY,
    "cpreplay/integers.py": _INTEGERS,
    "cpreplay/kernels.py": _KERNEL_LOADER,
    **PRIORITY_PYTHON,
    **NSTEP_PYTHON,
    **CHECKPOINT_PYTHON,
    **RESTART_PYTHON,
    **INSPECTION_PYTHON,
    **NATIVE_PYTHON,
}
