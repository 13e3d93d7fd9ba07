"""Mistakes in the restart pool, schedules and reports. `python` has them in its table."""

from tests.mutants.mutant import Mutant

RESTART_PYTHON_TESTS: dict[str, tuple[str, ...]] = {}

RESTART_PYTHON: dict[str, list[Mutant]] = {}
