"""``python -m tests.mutants``: how many planted mistakes the test suite catches."""

import argparse
import collections
import sys
import time

from tests.mutants.host_loops import HOST_LOOPS, HOST_LOOPS_TESTS
from tests.mutants.kernels import KERNEL_TESTS, KERNELS
from tests.mutants.mutant import Mutant
from tests.mutants.python import PYTHON, PYTHON_TESTS
from tests.mutants.runner import Outcome, Workshop, workshop

TABLES = {"kernels": KERNELS, "host": HOST_LOOPS, "python": PYTHON}
TESTS = KERNEL_TESTS | HOST_LOOPS_TESTS | PYTHON_TESTS


def chosen(only: str | None, file: str | None, word: str | None) -> list[tuple[str, Mutant]]:
    """The mutants that were asked for, each with its file."""
    return [
        (path, mutant)
        for name, table in TABLES.items()
        if only in (None, name)
        for path, mutants in table.items()
        if file is None or file in path
        for mutant in mutants
        if word is None or word in mutant.label
    ]


def report(file: str, mutant: Mutant, outcome: Outcome, detail: str, seconds: float) -> None:
    print(f"{outcome.name.lower():9} {seconds:5.1f} s  {file}: {mutant.label}")
    if detail:
        print(f"{'':19}{detail.splitlines()[0][:200]}")
    if outcome is Outcome.SURVIVED:
        print(f"{'':19}{mutant.equivalent or mutant.open or 'NO REASON IS KNOWN'}")
    sys.stdout.flush()


def tests_pass(shop: Workshop, mutants: list[tuple[str, Mutant]]) -> bool:
    """Whether the tests pass where there is no mutant."""
    for tests in sorted({TESTS[file] for file, _ in mutants}):
        outcome, detail = shop.run(tests)
        if outcome is not Outcome.SURVIVED:
            print(f"the tests fail without any mutant: {detail}")
            return False
    return True


def run(shop: Workshop, mutants: list[tuple[str, Mutant]]) -> int:
    """Try every mutant, print what became of it, and return how many need attention."""
    counts: dict[str, collections.Counter[Outcome]] = {}
    equivalent = attention = 0
    for file, mutant in mutants:
        begun = time.monotonic()
        outcome, detail = shop.try_mutant(file, mutant, TESTS[file])
        report(file, mutant, outcome, detail, time.monotonic() - begun)
        if mutant.equivalent and outcome is Outcome.SURVIVED:
            equivalent += 1
            continue
        counts.setdefault(file, collections.Counter())[outcome] += 1
        explained = outcome.caught and not mutant.equivalent
        attention += not (explained or (outcome is Outcome.SURVIVED and mutant.open))
    summarise(counts)
    print(f"{equivalent} equivalent, and not counted")
    return attention


def summarise(counts: dict[str, collections.Counter[Outcome]]) -> None:
    """Print how the mutants of each file fared, and of all of them."""
    print("mutants  assertion  emulator  survived  timed out   caught  broken  file")
    total = sum(counts.values(), collections.Counter[Outcome]())
    for file, fates in {**counts, "all": total}.items():
        caught = fates[Outcome.ASSERTION] + fates[Outcome.FINDING]
        broken = fates[Outcome.BROKEN] + fates[Outcome.STALE]
        mutated = fates.total() - broken
        print(
            f"{mutated:7}  {fates[Outcome.ASSERTION]:9}  {fates[Outcome.FINDING]:8}"
            f"  {fates[Outcome.SURVIVED]:8}  {fates[Outcome.TIMEOUT]:9}"
            f"  {100 * caught / max(1, mutated):5.1f} %  {broken:6}  {file}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", choices=TABLES)
    parser.add_argument("--file", help="only mutants of files with this in their path")
    parser.add_argument("--word", help="only mutants with this in their text")
    parser.add_argument("--skip", type=int, default=0, help="leave the first so many out")
    parser.add_argument("--trust", action="store_true", help="do not try the tests without one")
    parser.add_argument("--seed", type=int, default=1, help="the emulator's schedule")
    parser.add_argument("--equivalent", action="store_true", help="the equivalent ones as well")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    arguments = parser.parse_args()
    mutants = chosen(arguments.only, arguments.file, arguments.word)
    if not arguments.equivalent:
        mutants = [(file, mutant) for file, mutant in mutants if not mutant.equivalent]
    mutants = mutants[arguments.skip :]
    if arguments.list:
        for file, mutant in mutants:
            print(f"{file}: {mutant.label}")
        print(f"{len(mutants)} mutants")
        return 0
    with workshop(arguments.seed) as shop:
        if not (arguments.trust or tests_pass(shop, mutants)):
            return 2
        return min(1, run(shop, mutants))


if __name__ == "__main__":
    sys.exit(main())
