"""Mistakes in the sum tree and the priorities in Python. `python` has them in its table."""

from tests.mutants.mutant import Mutant

_TREE_TESTS = (
    "sumtree", "broken_off", "golden", "priorities", "prioritized", "state_machine_prioritized",
)  # fmt: skip
_HOST_TESTS = (
    "priorities", "prioritized", "broken_off", "golden", "state_machine_prioritized",
    "distribution",
)  # fmt: skip

PRIORITY_PYTHON_TESTS = {
    "cpreplay/tree_levels.py": (*_TREE_TESTS, "memory"),
    "cpreplay/host_tree.py": _TREE_TESTS,
    "cpreplay/host_priorities.py": _HOST_TESTS,
    "cpreplay/priorities.py": _HOST_TESTS,
    "cpreplay/device_priorities.py": (
        "sumtree", "priorities", "prioritized", "broken_off", "cost", "golden",
        "capture_prioritized", "state_machine_prioritized", "memory",
    ),
}  # fmt: skip

_ONLY_COST = "the sums are the same, and cost more"

_TREE_LEVELS = [
    Mutant("FAN_OUT_BITS = 4", "FAN_OUT_BITS = 3"),
    Mutant("len(levels) < 2 or levels[-1] > 1", "levels[-1] > 1"),
    Mutant("len(levels) < 2 or levels[-1] > 1", "len(levels) < 2 or levels[-1] > FAN_OUT"),
    Mutant("len(levels) < 2 or levels[-1] > 1", "len(levels) < 3 or levels[-1] > 1"),
    Mutant(
        "levels.append(-(-levels[-1] // FAN_OUT))", "levels.append(max(1, levels[-1] // FAN_OUT))"
    ),
    Mutant("levels.append(-(-levels[-1] // FAN_OUT))", "levels.append(levels[-1] // FAN_OUT + 1)"),
    Mutant("return -(-nodes // FAN_OUT) * FAN_OUT", "return nodes"),
    Mutant("return -(-nodes // FAN_OUT) * FAN_OUT", "return nodes // FAN_OUT * FAN_OUT"),
    Mutant("return -(-nodes // FAN_OUT) * FAN_OUT", "return (nodes // FAN_OUT + 1) * FAN_OUT"),
    Mutant("4 * leaves + 8 * sum(sums)", "8 * leaves + 8 * sum(sums)"),
    Mutant("4 * leaves + 8 * sum(sums)", "4 * leaves + 4 * sum(sums)"),
    Mutant("4 * leaves + 8 * sum(sums)", "4 * leaves"),
    Mutant("map(padded, nodes_per_level(capacity))", "nodes_per_level(capacity)"),
]

_HOST_TREE = [
    # Levels
    Mutant("(np.float32, *[np.float64] * (len(nodes) - 1))", "[np.float64] * len(nodes)"),
    Mutant("(np.float32, *[np.float64] * (len(nodes) - 1))", "[np.float32] * len(nodes)"),
    Mutant("aligned_zeros(padded(count), dtype)", "aligned_zeros(count, dtype)"),
    Mutant("aligned_zeros(padded(count), dtype)", "np.empty(padded(count), dtype)"),
    Mutant("self.levels[0][:capacity]", "self.levels[0]"),
    Mutant("sum(level.nbytes for level in self.levels)", "self.levels[0].nbytes"),
    Mutant("self.levels[-1].item(0)", "self.levels[1].item(0)"),
    Mutant("self.levels[-1].item(0)", "self.levels[-1].item(1)"),
    # Setting
    Mutant("        self.leaves[...] = leaves\n", ""),
    Mutant("self._sum_range(0, len(self.leaves))", "self._sum_range(0, len(self.leaves) - 1)"),
    Mutant("self._sum_range(0, len(self.leaves))", "self._sum_range(0, 1)"),
    Mutant(
        "self.leaves[first : first + count] = leaves",
        "self.leaves[first : first + count - 1] = leaves",
    ),
    Mutant(
        "self.leaves[first : first + count] = leaves",
        "self.leaves[first : first + count + 1] = leaves",
    ),
    Mutant("self.leaves[first : first + count] = leaves", "self.leaves[first:] = leaves"),
    Mutant("        self._sum_range(first, count)\n", ""),
    Mutant(
        "        self._sum_range(first, count)\n", "        self._sum_range(first, count - 1)\n"
    ),
    Mutant("        self._sum_range(first, count)\n", "        self._sum_range(first, 1)\n"),
    Mutant("self.leaves[rows] = leaves", "self.leaves[rows[::-1]] = leaves[::-1]"),
    Mutant("self.leaves[rows] = leaves", "np.maximum.at(self.leaves, rows, leaves)"),
    Mutant("self.leaves[rows] = leaves", "np.add.at(self.leaves, rows, leaves)"),
    Mutant("np.right_shift(nodes, _BITS)", "np.right_shift(rows, _BITS)"),
    Mutant("np.array(FAN_OUT_BITS)", "np.array(3)"),
    Mutant("np.array(FAN_OUT_BITS)", "np.array(5)"),
    Mutant("if len(children) <= len(nodes):", "if True:", equivalent=_ONLY_COST),
    Mutant("if len(children) <= len(nodes):", "if False:", equivalent=_ONLY_COST),
    Mutant("level[: len(children)] = node_sums(children)", "pass"),
    Mutant("level[: len(children)] = node_sums(children)", "level[:1] = node_sums(children[:1])"),
    Mutant("level[nodes] = node_sums(children.take(nodes, 0))", "pass"),
    Mutant(
        "level[nodes] = node_sums(children.take(nodes, 0))",
        "level[nodes[:1]] = node_sums(children.take(nodes[:1], 0))",
    ),
    Mutant(
        "level[nodes] = node_sums(children.take(nodes, 0))",
        "level[nodes] += node_sums(children.take(nodes, 0)) - level[nodes] * (1 + 1e-15)",
    ),
    Mutant(
        "level[nodes] = node_sums(children.take(nodes, 0))",
        "level[nodes] = children.take(nodes, 0).sum(1)",
    ),
    # Drawing
    Mutant("reals += np.arange(lanes)", "pass"),
    Mutant("reals += np.arange(lanes)", "reals += np.arange(1, lanes + 1)"),
    Mutant("reals += np.arange(lanes)", "reals += np.arange(lanes)[::-1]"),
    Mutant("reals += np.arange(lanes)", "reals[:] = np.arange(lanes) + 0.5"),
    Mutant("reals += np.arange(lanes)", "reals += np.arange(lanes, dtype=np.int8)"),
    Mutant("reals *= self.total / lanes", "reals *= self.total\n        reals /= lanes"),
    Mutant("reals *= self.total / lanes", "reals /= lanes\n        reals *= self.total"),
    Mutant("reals *= self.total / lanes", "reals *= self.total / (lanes + 1)"),
    Mutant("reals *= self.total / lanes", "reals *= np.float32(self.total / lanes)"),
    Mutant("len(targets) != self._scratch.lanes", "len(targets) > self._scratch.lanes"),
    Mutant("len(targets) != self._scratch.lanes", "len(targets) < self._scratch.lanes"),
    Mutant("self._children[-2::-1]", "self._children[::-1]"),
    Mutant("self._children[-2::-1]", "self._children[-2:0:-1]"),
    Mutant("self._children[-2::-1]", "self._children[:-1]"),
    # The root
    Mutant("children = self._children[-1][0]", "children = self._children[0][0]"),
    Mutant("before = np.zeros(FAN_OUT + 1)", "before = np.ones(FAN_OUT + 1)"),
    Mutant("before = np.zeros(FAN_OUT + 1)", "before = np.zeros(FAN_OUT + 1, np.float32)"),
    Mutant("(children, 0, np.float64, after)", "(children, 0, np.float32, after)"),
    Mutant('targets, "right")', 'targets, "left")'),
    Mutant("== FAN_OUT:\n            chosen[chosen", "> FAN_OUT:\n            chosen[chosen"),
    Mutant("np.flatnonzero(children)[-1]", "np.flatnonzero(children)[0]"),
    Mutant("np.flatnonzero(children)[-1]", "FAN_OUT - 1"),
    Mutant("np.flatnonzero(children)[-1]", "len(np.flatnonzero(children)) - 1"),
    Mutant("        targets -= before.take(chosen)\n", ""),
    Mutant("targets -= before.take(chosen)", "targets -= after.take(chosen)"),
    Mutant("targets -= before.take(chosen)", "targets[:] = 0.0"),
    # Sums of a range
    Mutant(
        "        if count < 1:\n            return\n",
        "",
        equivalent="the one empty range begins at row 0, and ends before every node",
    ),
    Mutant("if count < 1:", "if count <= 1:"),
    Mutant("last = first + count - 1", "last = first + count"),
    Mutant("last = first + count - 1", "last = first + count - 2"),
    Mutant(
        "first, last = first >> FAN_OUT_BITS, last >> FAN_OUT_BITS",
        "first, last = first >> 3, last >> 3",
    ),
    Mutant(
        "first, last = first >> FAN_OUT_BITS, last >> FAN_OUT_BITS",
        "first, last = first >> 5, last >> FAN_OUT_BITS",
        equivalent=_ONLY_COST,
    ),
    Mutant(
        "first, last = first >> FAN_OUT_BITS, last >> FAN_OUT_BITS",
        "first, last = 0, last >> FAN_OUT_BITS",
        equivalent=_ONLY_COST,
    ),
    Mutant(
        "level[first : last + 1] = node_sums(children[first : last + 1])",
        "level[first:last] = node_sums(children[first:last])",
    ),
    Mutant(
        "level[first : last + 1] = node_sums(children[first : last + 1])",
        "level[first : last + 1] = children[first : last + 1].sum(1)",
    ),
    # The sum of a node
    Mutant("if len(children) == 1:  #", "if False:  #"),
    Mutant("functools.reduce(operator.add, children[0].tolist())", "children[0].sum()"),
    Mutant(
        "functools.reduce(operator.add, children[0].tolist())", "sum(children[0].tolist()[::-1])"
    ),
    Mutant(
        "functools.reduce(operator.add, children[0].tolist())",
        "float(np.float32(functools.reduce(operator.add, children[0].tolist())))",
    ),
    Mutant(
        "functools.reduce(operator.add, children[0].tolist())",
        "functools.reduce(operator.add, children[0][1:].tolist())",
    ),
    Mutant(
        "columns = np.empty((FAN_OUT, len(children)))",
        "columns = np.empty((FAN_OUT, len(children)), np.float32)",
    ),
    Mutant("np.add.reduce(columns, 0)", "np.add.reduce(columns[::-1], 0)"),
    Mutant("np.add.reduce(columns, 0)", "np.add.reduce(columns[:-1], 0)"),
    Mutant("np.add.reduce(columns, 0)", "np.add.reduce(np.ascontiguousarray(columns.T), 1)"),
    Mutant("np.add.reduce(columns, 0)", "np.add.reduce(columns.reshape(2, 8, -1).sum(1), 0)"),
    # One step down
    Mutant("_FEW = 128", "_FEW = 0", equivalent=_ONLY_COST),
    Mutant("_FEW = 128", "_FEW = 10**9", equivalent=_ONLY_COST),
    Mutant(
        "self._before = np.zeros((FAN_OUT + 1, lanes))",
        "self._before = np.ones((FAN_OUT + 1, lanes))",
    ),
    Mutant("self._after = self._before[1:]", "self._after = self._before[:-1]"),
    Mutant(
        "zip(self._before, self._before[1:], strict=False)",
        "zip(self._before[1:], self._before[1:], strict=False)",
    ),
    Mutant(
        "self._children = np.empty((FAN_OUT, lanes))",
        "self._children = np.empty((FAN_OUT, lanes), np.float32)",
    ),
    Mutant("children.take(nodes, 0).T", "children.take(nodes, 0)[:, ::-1].T"),
    Mutant(
        "                np.add(before, child, after)\n", "                after[...] = child\n"
    ),
    Mutant(
        "np.add.accumulate(self._children, 0, None, self._after)",
        "np.copyto(self._after, self._children)",
    ),
    Mutant(
        "np.less_equal(self._after, targets, self._passed)",
        "np.less(self._after, targets, self._passed)",
    ),
    Mutant(
        "np.add.reduce(self._codes, 0, np.int64)",
        "np.add.reduce(self._codes[:-1], 0, np.int64)",
        equivalent="where the last child was passed too, the last with mass is looked for",
    ),
    Mutant(
        "np.add.reduce(self._codes, 0, np.int64)", "np.add.reduce(self._codes[1:], 0, np.int64)"
    ),
    Mutant("if self._passed[-1].any():", "if False:"),
    Mutant("if self._passed[-1].any():", "if self._passed[-1].all():"),
    Mutant("nodes *= FAN_OUT", "pass"),
    Mutant("nodes += chosen", "nodes[...] = chosen"),
    Mutant("chosen += self._lane", "pass"),
    Mutant("        targets -= self._flat.take(chosen)\n", ""),
    Mutant("targets -= self._flat.take(chosen)", "targets -= self._flat.take(chosen + self.lanes)"),
    Mutant("np.flatnonzero(self._passed[-1])", "np.flatnonzero(self._passed[-1])[:1]"),
    Mutant("self._children[::-1, lanes] > 0.0", "self._children[::-1, lanes] >= 0.0"),
    Mutant("self._children[::-1, lanes] > 0.0", "self._children[:, lanes] > 0.0"),
    Mutant("FAN_OUT - 1 - has_mass.argmax(0)", "FAN_OUT - 2 - has_mass.argmax(0)"),
    Mutant("FAN_OUT - 1 - has_mass.argmax(0)", "has_mass.argmax(0)"),
    # Many lanes, and changes that were broken off
    Mutant("_CHUNK = 2048", "_CHUNK = 1", equivalent="the rows are the same, and cost more"),
    Mutant("_CHUNK = 2048", "_CHUNK = 10**9", equivalent="the rows are the same, and cost more"),
    Mutant(
        "self.find(targets[first : first + _CHUNK])",
        "self.find(targets[first : first + _CHUNK - 1])",
    ),
    Mutant("self.find(targets[first : first + _CHUNK])", "self.find(targets[:_CHUNK])"),
    Mutant("range(0, len(targets), _CHUNK)", "range(0, len(targets) - 1, _CHUNK)"),
    Mutant(
        "if len(targets) > _CHUNK:",
        "if len(targets) > 2 * _CHUNK:",
        equivalent="the rows are the same, and cost more",
    ),
    Mutant("for level in self.levels) + self._scratch.nbytes", "for level in self.levels)"),
    Mutant(
        "(self._before, self._children, self._passed, self._lane)",
        "(self._before, self._children, self._passed)",
    ),
    Mutant("        if not self._sums_hold:\n", "        if False:\n"),
    Mutant("        if not self._sums_hold:\n", "        if True:\n", equivalent=_ONLY_COST),
    Mutant(
        "        self._sums_hold = False\n        self.leaves[...] = leaves\n",
        "        self.leaves[...] = leaves\n",
        equivalent="a buffer sets its leaves in mending alone, where the sums do not hold already",
    ),
    Mutant(
        "        self._sums_hold = False\n        self.leaves[first",
        "        self.leaves[first",
        equivalent="what was broken off is filled again: its rows count as settled afterwards",
    ),
    Mutant(
        "        self._sums_hold = False\n        self.leaves[rows]", "        self.leaves[rows]"
    ),
    Mutant(
        "        self._sum_range(first, count)\n        self._sums_hold = True\n",
        "        self._sum_range(first, count)\n",
    ),
    Mutant(
        "node_sums(children.take(nodes, 0))\n        self._sums_hold = True\n",
        "node_sums(children.take(nodes, 0))\n",
    ),
    Mutant("self._sums_hold = True  # False", "self._sums_hold = False  # False"),
]

_HOST_PRIORITIES = [
    # Settling
    Mutant(
        "    def levels(self) -> list[NDArray[Any]]:\n        self._settle()\n",
        "    def levels(self) -> list[NDArray[Any]]:\n",
    ),
    Mutant("        self._settle()\n        tree = self._tree\n", "        tree = self._tree\n"),
    Mutant("        self._settle()\n        ages = None", "        ages = None"),
    Mutant("if total == settled:", "if total <= settled + 1:"),
    Mutant(
        "        if total == settled:\n            return\n",
        "",
        equivalent="no rows are filled then",
    ),
    Mutant("min(total - settled, self._capacity)", "total - settled"),
    Mutant("min(total - settled, self._capacity)", "min(total, self._capacity)"),
    Mutant(
        "min(total - settled, self._capacity)",
        "min(total - settled, self._capacity - 1)",
    ),
    Mutant(
        "first = (total - count) % self._capacity",
        "first = settled % self._capacity",
        equivalent="where that is another row, the whole ring is filled",
    ),
    Mutant("first = (total - count) % self._capacity", "first = total % self._capacity"),
    Mutant(
        "first = (total - count) % self._capacity", "first = min(total, self._capacity) - count"
    ),
    Mutant("before_end = min(count, self._capacity - first)", "before_end = count"),
    Mutant(
        "before_end = min(count, self._capacity - first)",
        "before_end = min(count, self._capacity - first - 1)",
    ),
    Mutant("_entering_leaf(self._max_priority.item(),", "_entering_leaf(1.0,"),
    Mutant("        self._tree.fill(first, before_end, leaf)\n", ""),
    Mutant("        self._tree.fill(0, count - before_end, leaf)\n", ""),
    Mutant("self._tree.fill(0, count - before_end, leaf)", "self._tree.fill(0, count, leaf)"),
    Mutant("        self.settled[0] = total\n", ""),
    Mutant("        self.settled[0] = total\n", "        self.settled[0] += count\n"),
    Mutant("self.settled = np.zeros(1, np.int64)", "self.settled = np.ones(1, np.int64)"),
    # Drawing
    Mutant('self._run = int(control["run"][0])', "self._run = 0"),
    Mutant(
        "size = ring_size(self._total.item(), self._capacity)\n        beta",
        "size = self._total.item()\n        beta",
        equivalent="the size cancels out where weights are divided by the largest",
    ),
    Mutant("tree.leaves.take(rows, 0", "tree.leaves.take(rows[::-1], 0"),
    Mutant("        batch.indices[...] = rows\n", ""),
    Mutant("size, mass, beta)\n        self._mark(batch)\n", "size, mass, beta)\n"),
    Mutant('beta = self._control["beta"].item()', 'beta = self._control["alpha"].item()'),
    Mutant("        batch.weights[...] = 1.0\n", ""),
    Mutant(
        "        batch.weights[...] = 1.0\n        self._mark(batch)\n",
        "        batch.weights[...] = 1.0\n",
    ),
    Mutant(
        "draw_token(self._total.item(), self._run)",
        "draw_token(self.settled.item() + 1, self._run)",
    ),
    Mutant("draw_token(self._total.item(), self._run)", "draw_token(self._total.item(), 0)"),
    Mutant("tokens[...] = draw_token", "tokens[:1] = draw_token"),
    # Updating
    Mutant("        self._check_rows(rows)\n", ""),
    Mutant(
        "        priorities, leaves, largest = self._leaves_of(td_errors)\n"
        "        stale = None if ages is None else self._stale(rows, ages)\n",
        "        stale = None if ages is None else self._stale(rows, ages)\n"
        "        priorities, leaves, largest = self._leaves_of(td_errors)\n",
    ),
    Mutant(
        "        self._check_rows(rows)\n"
        "        priorities, leaves, largest = self._leaves_of(td_errors)\n",
        "        priorities, leaves, largest = self._leaves_of(td_errors)\n"
        "        self._check_rows(rows)\n",
        equivalent="of two refusals the other one speaks, and either changes nothing",
    ),
    Mutant("ages = None if tokens is None else self._ages(tokens)", "ages = None"),
    Mutant("        if stale is not None:\n", "        if False:\n"),
    Mutant("            kept = ~stale\n", "            kept = stale\n"),
    Mutant(
        "rows[kept], priorities[kept], leaves[kept]",
        "rows[kept], priorities[kept], leaves[: kept.sum()]",
    ),
    Mutant(
        "rows[kept], priorities[kept], leaves[kept]",
        "rows[kept], priorities[: kept.sum()], leaves[kept]",
    ),
    Mutant(
        "        if not len(rows):\n            return\n        self._settle()",
        "        self._settle()",
    ),
    Mutant("            if not len(rows):\n                return\n", ""),
    Mutant(
        "        self._tree.update(rows, leaves)\n        if largest > self._max_priority.item():\n"
        "            self._raise_maximum(rows, priorities)\n",
        "        self._tree.update(rows, leaves)\n",
    ),
    Mutant("if largest > self._max_priority.item():", "if True:"),
    Mutant(
        "if largest > self._max_priority.item():", "if largest >= 2 * self._max_priority.item():"
    ),
    Mutant("        self._tree.update(rows, leaves)\n", ""),
    Mutant("np.isin(rows, rows[priorities > maximum])", "priorities > maximum"),
    Mutant(
        "np.isin(rows, rows[priorities > maximum])",
        "priorities < np.inf",
        equivalent="the largest of more lanes, none of which is above the others",
    ),
    Mutant("priorities > maximum", "priorities >= maximum", equivalent="equal ones raise nothing"),
    Mutant(
        "zip(rows[rivals].tolist(), priorities[rivals].tolist(), strict=True)",
        "zip(rows[rivals].tolist()[::-1], priorities[rivals].tolist()[::-1], strict=True)",
    ),
    Mutant(
        "zip(rows[rivals].tolist(), priorities[rivals].tolist(), strict=True)",
        "enumerate(priorities[rivals].tolist())",
    ),
    Mutant("max([maximum, *written.values()])", "max(maximum, *written.values())"),
    Mutant("max([maximum, *written.values()])", "max(written.values(), default=maximum)"),
    Mutant("max([maximum, *written.values()])", "priorities.max()"),
    Mutant(
        "max([maximum, *written.values()])", "max([maximum, *map(np.float32, written.values())])"
    ),
    # Configuring
    Mutant(
        'control["alpha"], control["beta"], control["epsilon"] = alpha, beta, epsilon',
        'control["alpha"], control["beta"] = alpha, beta',
    ),
    Mutant(
        'control["alpha"], control["beta"], control["epsilon"] = alpha, beta, epsilon',
        'control["alpha"], control["beta"], control["epsilon"] = beta, alpha, epsilon',
    ),
    Mutant(
        'control["alpha"], control["beta"], control["epsilon"] = alpha, beta, epsilon',
        'control["alpha"], control["epsilon"] = alpha, epsilon',
    ),
    Mutant('        self._control["beta"] = beta\n', "        pass\n"),
    # Checks
    Mutant("rows.view(np.uint64)", "rows"),
    Mutant(".item() >= size:", ".item() > size:"),
    Mutant(".item() >= size:", ".item() >= self._capacity:"),
    Mutant(".item() >= size:", ".item() >= size - 1:"),
    Mutant("wrong = rows[(rows < 0) | (rows >= size)]", "wrong = rows"),
    Mutant("wrong = rows[(rows < 0) | (rows >= size)]", "wrong = rows[rows < 0]"),
    Mutant("wrong = rows[(rows < 0) | (rows >= size)]", "wrong = rows[rows >= size]"),
    Mutant(
        "wrong = rows[(rows < 0) | (rows >= size)]", "wrong = rows[(rows <= 0) | (rows >= size)]"
    ),
    Mutant("wrong = rows[(rows < 0) | (rows >= size)]", "wrong = rows[(rows < 0) | (rows > size)]"),
    Mutant("priorities = np.abs(td_errors)", "priorities = +td_errors"),
    Mutant("priorities = np.abs(td_errors)", "priorities = np.abs(td_errors, td_errors)"),
    Mutant("        priorities += epsilon\n", ""),
    Mutant("reduce(priorities)) + epsilon", "reduce(priorities))"),
    Mutant("        priorities += epsilon\n", "        priorities -= epsilon\n"),
    Mutant(
        "        priorities += epsilon\n",
        "        np.maximum(priorities, epsilon, priorities)\n",
    ),
    Mutant("np.maximum.reduce(priorities)", "np.minimum.reduce(priorities)"),
    Mutant("if not largest < np.inf:", "if largest == np.inf:"),
    Mutant("if not largest < np.inf:", "if largest != largest:"),
    Mutant("if largest >= OVERFLOW and", "if False and"),
    Mutant(
        "if largest >= OVERFLOW and",
        "if",
        equivalent="alpha is at most 1, so that a leaf is no larger than its priority or 1",
    ),
    Mutant("and leaves.max() >= OVERFLOW:", "and leaves.max() > OVERFLOW:"),
    Mutant("and leaves.max() >= OVERFLOW:", "and True:"),
    Mutant("_bad_error(td_errors, leaves < OVERFLOW)", "_bad_error(td_errors, leaves > OVERFLOW)"),
    Mutant("priorities + epsilon < np.inf", "priorities < np.inf"),
    Mutant("priorities + epsilon < np.inf", "priorities + epsilon != np.inf"),
    Mutant('            with np.errstate(over="ignore"):\n    ', "            if True:\n    "),
    Mutant("int(good.argmin())", "0"),
    Mutant("int(good.argmin())", "int(good.argmax())"),
    Mutant(
        "        if oldest == 0:\n            return None\n",
        "",
        equivalent="no lane of that age is stale",
    ),
    Mutant("if oldest == 0:", "if oldest <= 1:"),
    Mutant(
        "        if count == 0:\n            return None\n",
        "",
        equivalent="every lane is kept then, in copies",
    ),
    Mutant("if count == 0:", "if count <= 1:"),
    Mutant('["stale_updates"] += count', '["stale_updates"] = count'),
    Mutant('["stale_updates"] += count', '["stale_updates"] += len(rows) - count'),
    Mutant('["stale_updates"] += count', '["stale_updates"] += 1'),
    Mutant('["stale_updates"] += count', '["stale_updates"] += len(set(rows[stale].tolist()))'),
    Mutant("batch._memory.tokens[...] = no_token(self._run)", "pass"),
    Mutant("        self._tree.mend()\n        total", "        total"),
    Mutant(
        "        self._tree.mend()\n\n    def update_plain", "        pass\n\n    def update_plain"
    ),
    Mutant(
        "functools.lru_cache(1)(entering_leaf)",
        "functools.cache(lambda *_: entering_leaf(*_))",
        equivalent="it remembers more",
    ),
    Mutant("if oldest > total:", "if False:"),
    Mutant("if oldest > total:", "if oldest > self._capacity:"),
    Mutant(
        "if oldest > total:",
        "if oldest >= total:",
        equivalent="a draw from an empty buffer is refused, so no token of this run is as old",
    ),
    Mutant("np.maximum.reduce(ages)", "np.minimum.reduce(ages)"),
]

_FORMULAS = [
    Mutant("SMALLEST = 2.0**-126", "SMALLEST = 2.0**-149"),
    Mutant("SMALLEST = 2.0**-126", "SMALLEST = 2.0**-125"),
    Mutant("OVERFLOW = 2.0**128 - 2.0**103", "OVERFLOW = 2.0**128 - 2.0**104"),
    Mutant("OVERFLOW = 2.0**128 - 2.0**103", "OVERFLOW = 2.0**128"),
    Mutant("= priorities**alpha", "= priorities.copy()"),
    Mutant("= priorities**alpha", "= np.float32(priorities) ** np.float64(alpha)"),
    Mutant("= priorities**alpha", "= np.exp(alpha * np.log(priorities))"),
    Mutant("    np.maximum(leaves, _SMALLEST, out=leaves)\n", ""),
    Mutant("np.maximum(leaves, _SMALLEST, out=leaves)", "leaves += _SMALLEST"),
    Mutant("np.maximum(leaves, _SMALLEST, out=leaves)", "leaves[leaves == 0] = _SMALLEST"),
    Mutant("leaves_of(np.array([max_priority]), alpha)[0]", "max_priority"),
    Mutant("weights = leaves * np.float64(size)", "weights = leaves * np.float32(size)"),
    Mutant(
        "weights = leaves * np.float64(size)",
        "weights = leaves.astype(np.float64)",
        equivalent="the size cancels out where weights are divided by the largest",
    ),
    Mutant(
        "    weights /= total\n",
        "",
        equivalent="the total cancels out where weights are divided by the largest",
    ),
    Mutant("weights **= -beta", "weights **= beta"),
    Mutant("weights **= -beta", "weights **= -1.0"),
    Mutant("weights **= -beta", "weights **= -np.float32(beta)"),
    Mutant("    weights /= weights.max()\n", ""),
    Mutant("weights /= weights.max()", "weights /= weights.min()"),
    Mutant("weights /= weights.max()", "weights /= np.float32(weights.max())"),
    Mutant("weights[weights < SMALLEST] = 0.0", "pass"),
    Mutant("weights[weights < SMALLEST] = 0.0", "weights[weights <= SMALLEST] = 0.0"),
    Mutant("weights[weights < SMALLEST] = 0.0", "weights[weights < SMALLEST] = SMALLEST"),
    Mutant("return (total + run) & _MASK", "return total + run"),
    Mutant("return (total + run) & _MASK", "return total & _MASK"),
    Mutant("return (total + run) & _MASK", "return run & _MASK"),
    Mutant("return (total + run) & _MASK", "return (total + run) & 0xFFFFFFFF"),
    Mutant("return (total + run) & _MASK", "return (total ^ run) & _MASK"),
    Mutant(
        "np.uint64(draw_token(total, run)) - tokens", "tokens - np.uint64(draw_token(total, run))"
    ),
    Mutant("np.uint64(draw_token(total, run)) - tokens", "tokens * 0"),
    Mutant("(rows - (total - since)) % capacity < since", "(rows - total) % capacity < since"),
    Mutant("(rows - (total - since)) % capacity < since", "(rows - (total - since)) < since"),
    Mutant(
        "(rows - (total - since)) % capacity < since",
        "(rows - (total - since)) % capacity <= since",
    ),
    Mutant(
        "(rows - (total - since)) % capacity < since",
        "(rows - (total - since)) % capacity < since - 1",
    ),
    Mutant(
        "(rows - (total - since)) % capacity < since", "(rows - (total + since)) % capacity < since"
    ),
    Mutant("p = leaves.astype(np.float64)", "p = leaves"),
    Mutant("mass += float(p.sum())", "mass = float(p.sum())"),
    Mutant("squares += float(np.square(p).sum())", "squares = float(np.square(p).sum())"),
    Mutant("mass * mass / squares if squares else 0.0", "mass * mass / squares"),
    Mutant("mass * mass / squares if squares else 0.0", "mass / squares if squares else 0.0"),
    Mutant(
        "mass * mass / squares if squares else 0.0", "squares / mass / mass if squares else 0.0"
    ),
    Mutant(
        "mass * mass / squares if squares else 0.0", "mass * mass / squares if squares else 1.0"
    ),
    Mutant("return (run + 2**63) & _MASK", "return run & _MASK"),
    Mutant("return (run + 2**63) & _MASK", "return run + 2**63"),
    Mutant(
        "return (run + 2**63) & _MASK",
        "return 0",
        equivalent="runs are random, so that 0 is as far from the tokens of a draw",
    ),
]

_STRIDED = "the grid is strided"

_DEVICE_PRIORITIES = [
    Mutant("_MAX_TILES = 256", "_MAX_TILES = 1", equivalent=_STRIDED),
    Mutant("8 * (sum(sums) + 1)", "8 * sum(sums)"),
    Mutant("8 * (sum(sums) + 1)", "0"),
    Mutant("+ 4 * leaves", ""),
    Mutant("tree_nbytes(capacity) + 8", "8"),
    # Memory
    Mutant("cupy.zeros(padded(leaves), np.float32)", "cupy.empty(padded(leaves), np.float32)"),
    Mutant("cupy.zeros(padded(leaves), np.float32)", "cupy.zeros(leaves, np.float32)"),
    Mutant("cupy.zeros(padded(count), np.float64)", "cupy.empty(padded(count), np.float64)"),
    Mutant("cupy.zeros(padded(count), np.float64)", "cupy.zeros(count, np.float64)"),
    Mutant("cupy.zeros(count, np.uint64) for", "cupy.empty(count, np.uint64) for"),
    Mutant("cupy.zeros(count, np.uint64) for", "cupy.zeros(1, np.uint64) for"),
    Mutant("cupy.zeros(leaves, np.int32)", "cupy.empty(leaves, np.int32)"),
    Mutant("cupy.zeros(leaves, np.int32)", "cupy.zeros(leaves - 1, np.int32)"),
    Mutant("cupy.zeros(1, np.uint64)", "cupy.empty(1, np.uint64)"),
    Mutant("levels=len(sums)", "levels=len(sums) + 1"),
    Mutant("levels=len(sums)", "levels=1"),
    Mutant("sums=self._levels[1:]", "sums=self._levels"),
    Mutant("nodes=sums,", "nodes=[0] * len(sums),"),
    Mutant(
        "*self._levels, *self._tickets, self._winners, self._updates)",
        "*self._levels, *self._tickets, self._winners)",
    ),
    Mutant(
        "*self._levels, *self._tickets, self._winners, self._updates)",
        "*self._levels, *self._tickets, self._updates)",
    ),
    Mutant(
        "*self._levels, *self._tickets, self._winners, self._updates)",
        "*self._levels, self._winners, self._updates)",
    ),
    Mutant(
        "*self._levels, *self._tickets, self._winners, self._updates)",
        "*self._tickets, self._winners, self._updates)",
    ),
    Mutant(
        "        self._card.check_current()\n        self._card.check_stream()\n"
        "        return self._inputs.update",
        "        self._card.check_stream()\n        return self._inputs.update",
    ),
    # Launches
    Mutant("np.int64(rows), mask, threads=threads", "np.int64(rows), None, threads=threads"),
    Mutant(
        "        if lanes == 0:\n            return\n",
        "",
        equivalent="the kernel does nothing for no lanes",
    ),
    Mutant("error_bytes=td_errors.itemsize", "error_bytes=8"),
    Mutant("error_bytes=td_errors.itemsize", "error_bytes=4"),
    Mutant("rows=rows, tokens=tokens, errors", "rows=rows, tokens=None, errors"),
    Mutant("if lanes <= MAX_FEW:", "if lanes < MAX_FEW:"),
    Mutant("if lanes <= MAX_FEW:", "if lanes <= MAX_FEW + 1:"),
    Mutant("if lanes <= MAX_FEW:", "if False:"),
    Mutant("if lanes <= MAX_FEW:", "if True:"),
    Mutant("threads=_threads(lanes)", "threads=1", equivalent=_STRIDED),
    Mutant("grid = blocks_for(lanes)", "grid = (1,)", equivalent=_STRIDED),
    Mutant('        launch("claim_rows", grid, *arguments)\n', ""),
    Mutant('        launch("write_leaves", grid, *arguments)\n', ""),
    Mutant(
        '        launch("claim_rows", grid, *arguments)\n'
        '        launch("write_leaves", grid, *arguments)\n',
        '        launch("write_leaves", grid, *arguments)\n'
        '        launch("claim_rows", grid, *arguments)\n',
    ),
    Mutant("range(len(self._tickets) - 1)", "range(len(self._tickets))"),
    Mutant("range(len(self._tickets) - 1)", "range(len(self._tickets) - 2)"),
    Mutant("range(len(self._tickets) - 1)", "range(1, len(self._tickets) - 1)"),
    Mutant("range(len(self._tickets) - 1)", "reversed(range(len(self._tickets) - 1))"),
    Mutant('        launch("end_update", (1,), self._tree, threads=1)\n', ""),
    Mutant('        self._card.refuse_capture("configure_per")\n', ""),
    Mutant('        self._card.refuse_capture("set_beta")\n', ""),
    Mutant("np.float64(alpha), np.float64(beta)", "np.float64(beta), np.float64(alpha)"),
    Mutant("np.float64(epsilon))", "np.float64(np.float32(epsilon)))"),
    Mutant(
        "self._control, np.float64(beta), threads",
        "self._control, np.float64(np.float32(beta)), threads",
    ),
    # What a draw writes
    Mutant(
        "tile = max(THREADS, -(-lanes // _MAX_TILES))",
        "tile = THREADS",
        equivalent="more tiles than wanted, and each lane looks at more of them",
    ),
    Mutant("tile = max(THREADS, -(-lanes // _MAX_TILES))", "tile = lanes", equivalent=_STRIDED),
    Mutant("self.tiles = -(-lanes // tile)", "self.tiles = max(1, lanes // tile)"),
    Mutant("self.tiles = -(-lanes // tile)", "self.tiles = lanes // tile + 1"),
    Mutant("self.tiles = -(-lanes // tile)", "self.tiles = 1"),
    Mutant("cupy.empty(lanes, np.float64)", "cupy.empty(1, np.float64)"),
    Mutant("cupy.empty(self.tiles, np.float64)", "cupy.empty(1, np.float64)"),
    Mutant("largest=self._largest, tile=tile", "largest=self._largest, tile=tile + 1"),
    Mutant("largest=self._largest, tile=tile", "largest=self._largest, tile=1"),
    Mutant("tiles=self.tiles, weights=weights", "tiles=1, weights=weights"),
    Mutant("self.ones = struct(WEIGHTS, weights=weights)", "self.ones = self.weights"),
    Mutant("self.ones = struct(WEIGHTS, weights=weights)", "self.ones = struct(WEIGHTS)"),
    Mutant(
        "max(_WARP, min(MAX_FEW, -(-items // _WARP) * _WARP))",
        "max(_WARP, -(-items // _WARP) * _WARP)",
    ),
    Mutant(
        "max(_WARP, min(MAX_FEW, -(-items // _WARP) * _WARP))",
        "min(MAX_FEW, items)",
        equivalent="a block of any size does the same; whole warps cost no more",
    ),
    Mutant(
        "max(_WARP, min(MAX_FEW, -(-items // _WARP) * _WARP))",
        "min(MAX_FEW, -(-items // _WARP) * _WARP)",
        equivalent="there is at least one item, and one is rounded up to a warp",
    ),
    Mutant("        self._card.check_stream()\n", ""),
    Mutant("fill(np.uint64(no_token(self._run)))", "fill(np.uint64(self._run))"),
    Mutant(
        "        batch._memory.draw.tokens.fill(np.uint64(no_token(self._run)))\n", "        pass\n"
    ),
    # Updates that were broken off
    Mutant("        self._broken_off = True  # until the last launch is queued\n", ""),
    Mutant("threads=1)\n        self._broken_off = False\n", "threads=1)\n"),
    Mutant("        if not self._broken_off:\n", "        if True:\n"),
    Mutant("        if not self._broken_off:\n", "        if False:\n"),
    Mutant("for array in (self._winners, *self._tickets):", "for array in self._tickets:"),
    Mutant("for array in (self._winners, *self._tickets):", "for array in (self._winners,):"),
    Mutant('self._kernels.launch("sum_level", grid, self._tree, np.int64(level))', "pass"),
    Mutant(
        '"sum_level", grid, self._tree, np.int64(level)',
        '"sum_level", grid, self._tree, np.int64(0)',
    ),
    Mutant("np.int64(level))\n        self._broken_off = False\n", "np.int64(level))\n"),
    Mutant(
        "    def levels(self) -> Sequence[Any]:\n        self._mend()\n",
        "    def levels(self) -> Sequence[Any]:\n",
    ),
    Mutant("        self._mend()\n        updates", "        updates"),
    Mutant("        self._mend()\n        grid", "        grid"),
    Mutant("        self._mend()\n        threads", "        threads"),
    Mutant("        self._mend()\n        update = struct", "        update = struct"),
    Mutant("return not winners and max(tickets) <= updates", "return True"),
    Mutant("return not winners and max(tickets) <= updates", "return not winners"),
    Mutant("return not winners and max(tickets) <= updates", "return max(tickets) <= updates"),
    Mutant("max(tickets) <= updates", "max(tickets) < updates"),
    Mutant("self._winners.get().any()", "self._winners.get().all()"),
]

PRIORITY_PYTHON = {
    "cpreplay/tree_levels.py": _TREE_LEVELS,
    "cpreplay/host_tree.py": _HOST_TREE,
    "cpreplay/host_priorities.py": _HOST_PRIORITIES,
    "cpreplay/priorities.py": _FORMULAS,
    "cpreplay/device_priorities.py": _DEVICE_PRIORITIES,
}
