"""Mistakes in what hands host buffers to compiled loops. They need those built."""

from tests.mutants.mutant import Mutant

NATIVE_PYTHON_TESTS = {
    "cpreplay/native.py": ("native", "main"),
    "cpreplay/native_ops.py": ("native", "replay", "prioritized", "inputs", "resume", "broken_off"),
    "cpreplay/native_nstep.py": ("nstep", "nstep_steps", "native"),
}

_NATIVE = [
    Mutant('if choice not in ("", *_CHOICES):', "if False:"),
    Mutant('if choice not in ("", *_CHOICES):', "if choice not in _CHOICES:"),
    Mutant('if choice == "native" and MISSING is not None:', "if False:"),
    Mutant('choice == "native" and MISSING is not None:', "MISSING is not None:"),
    Mutant('return choice != "numpy" and MISSING is None', 'return choice != "numpy"'),
    Mutant('return choice != "numpy" and MISSING is None', "return MISSING is None"),
    Mutant('choice != "numpy" and MISSING is None', 'choice == "native" and MISSING is None'),
    Mutant("    if MISSING is None:\n", "    if MISSING is not None:\n"),
]

_GENERATORS = "only a generator's words come from Python, and it heeds neither number nor purpose"

_OPS = [
    # What compiled code is given
    Mutant(
        "capsule = words.capsule if isinstance(words, GeneratorWords) else None",
        "capsule = None",
        equivalent="the same words are drawn by Python then, which takes longer",
    ),
    Mutant("isinstance(words, GeneratorWords) and capsule is None", "False"),
    Mutant(
        "None if self.priorities is None else self.priorities.settled,",
        "self.priorities and np.zeros(1, np.int64),",
    ),
    Mutant(
        "            lock,\n            snapshots,\n            capsule",
        '            __import__("threading").Lock(),\n            snapshots,\n            capsule',
    ),
    Mutant("            snapshots,\n            capsule", "            [],\n            capsule"),
    Mutant("low, high = integer_limits(dtype)", "low, high = -(2**63), 2**63"),
    # What it does itself
    Mutant("        self.add_plain = self._ring.add  # type: ignore[method-assign]\n", ""),
    Mutant(
        "        self.add_batch_plain = self._ring.add_batch  # type: ignore[method-assign]\n", ""
    ),
    Mutant(
        """        if self.priorities is not None:
            self.priorities.update_plain = self._ring.update  # type: ignore[method-assign]
""",
        "",
    ),
    Mutant("[values[mask] for values", "[values[~mask] for values"),
    # Draws
    Mutant("            self.priorities.mend()\n", ""),
    Mutant("            purpose = TARGETS\n", "", equivalent=_GENERATORS),
    Mutant("words, low, high)", "words, low, high - 1)"),
    Mutant("words, low, high)", "words, 0, high)"),
    Mutant("draw(self._draws.item(), len", "draw(0, len", equivalent=_GENERATORS),
    Mutant("np.broadcast_to(words, len(batch))", "np.broadcast_to(words, len(batch))[::-1]"),
    Mutant("np.broadcast_to(words, len(batch))", "words"),
]

_NSTEP = [
    Mutant("n, n_envs, gamma, self._start", "n, n_envs, 0.99, self._start"),
    Mutant("gamma, self._start, self._count, kept", "gamma, self._count, self._start, kept"),
    Mutant(
        '(self._pending[column.name], _row_nbytes(column), column.dtype.kind == "b")',
        "(self._pending[column.name], _row_nbytes(column), False)",
        equivalent="whoever hands steps in has made booleans 0 and 1 already",
    ),
    Mutant('(step["terminated"], step["truncated"]', '(step["truncated"], step["terminated"]'),
    Mutant('step["truncated"], stepped)', 'step["truncated"], None)'),
    Mutant("np.ascontiguousarray(values) for name", "values for name"),
    Mutant('step["next_obs"])', 'step["obs"])'),
    Mutant("discount, terminated, truncated, valid)", "discount, truncated, terminated, valid)"),
    Mutant("return column.elements * column.dtype.itemsize", "return column.dtype.itemsize"),
]

NATIVE_PYTHON = {
    "cpreplay/native.py": _NATIVE,
    "cpreplay/native_ops.py": _OPS,
    "cpreplay/native_nstep.py": _NSTEP,
}
