"""The mutants in tests/mutants still fit the sources; whether tests catch them is asked there."""

import collections

import pytest

from tests.mutants.host_loops import HOST_LOOPS, HOST_LOOPS_TESTS
from tests.mutants.kernels import KERNEL_TESTS, KERNELS
from tests.mutants.python import PYTHON, PYTHON_TESTS
from tests.mutants.runner import ROOT

MUTANTS = KERNELS | HOST_LOOPS | PYTHON


@pytest.mark.parametrize("file", MUTANTS)
def test_every_mutant_still_has_its_text_in_the_file(file: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    for mutant in MUTANTS[file]:
        assert mutant.applied(source) != source


@pytest.mark.parametrize("file", MUTANTS)
def test_every_mutant_is_listed_once(file: str) -> None:
    counts = collections.Counter(mutant[:2] for mutant in MUTANTS[file])
    assert [change for change, count in counts.items() if count > 1] == []


def test_the_files_with_mutants_have_tests_and_those_exist() -> None:
    tests = KERNEL_TESTS | HOST_LOOPS_TESTS | PYTHON_TESTS
    assert set(tests) == set(MUTANTS)
    names = {name for names in tests.values() for name in names if not name.startswith("-")}
    assert all((ROOT / "tests" / f"test_{name}.py").is_file() for name in names)
