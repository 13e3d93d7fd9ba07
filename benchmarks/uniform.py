"""Uniform replay beside cpprb and rlox, in one process and interleaved rounds.

``python -m benchmarks.uniform`` in a checkout, or ``python benchmarks/uniform.py`` anywhere.

Two workloads: transitions of 17 + 6 + 1 + 17 float32 and a flag in a full ring of a million rows,
and images of 84 x 84 x 4 bytes with their successors in one of 20,000. Every draw is of other
rows, so nearly all of them come from memory and not from a cache. For images the yardstick is a
plain copy of as many random rows out of the same memory, by the fastest of a few loops.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a file: import from the checkout that holds it
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.contenders import Contender, Cpprb, Cpreplay, Rlox
from benchmarks.interleave import Block
from benchmarks.machine import NOT_INSTALLED
from benchmarks.report import (
    argument_parser,
    case_result,
    chosen,
    heading,
    legend,
    measure,
    new_report,
    positive,
    table,
    write_files,
)
from benchmarks.workloads import ADD_BATCH, PIXEL_BATCH, SAMPLE_BATCHES

TRANSITIONS, PIXELS = "transitions", "pixels"

COPIED_CASE = f"sample({PIXEL_BATCH}, out=)"  # compared with plain copies
CASES = {
    TRANSITIONS: [
        *(f"sample({size}{out})" for size in SAMPLE_BATCHES for out in ("", ", out=")),
        "add",
        f"add_batch({ADD_BATCH})",
    ],
    PIXELS: [f"sample({PIXEL_BATCH})", COPIED_CASE],
}
DESCRIPTIONS = {
    TRANSITIONS: "transitions: 17 obs + 6 action + 1 reward + 17 next_obs float32 + terminated",
    PIXELS: "pixels: 84x84x4 uint8 obs and next_obs, action int64, reward, terminated",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the tables, write the files."""
    options = _parse(arguments)
    contenders: list[Contender] = [Cpreplay(), Cpprb(), Rlox()]
    settings = {name: getattr(options, name) for name in ("rounds", "rows", "pixel_rows", "quick")}
    report = new_report("uniform", contenders, settings)
    print(heading("Uniform replay", report))
    present = [one for one in contenders if one.version != NOT_INSTALLED]
    for workload, rows in ((TRANSITIONS, options.rows), (PIXELS, options.pixel_rows)):
        cases, bounds = _prepare(workload, rows, present, options.only)
        if not cases:
            continue
        samples = measure(cases, options.rounds, options.seed)
        results = [case_result(workload, case, samples[case], bounds, present) for case in cases]
        report["results"] += results
        print(table(f"{DESCRIPTIONS[workload]}, {rows:,} rows", results, contenders, bounds))
    if not report["results"]:
        sys.exit(f"--only: no case is like {' or '.join(options.only)}")
    copies = "memmove, memcpy in C and np.copyto are plain copies of the same number of drawn rows."
    print(legend(report, [copies]))
    write_files(report, options.json, options.plot)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argument_parser("benchmarks.uniform", __doc__)
    parser.add_argument("--pixel-rows", type=positive, help="images (default 20,000)")
    options = parser.parse_args(arguments)
    rounds, rows, pixel_rows = (3, 20_000, 200) if options.quick else (100, 1_000_000, 20_000)
    options.rounds = options.rounds or rounds
    options.rows = options.rows or rows
    options.pixel_rows = options.pixel_rows or pixel_rows
    return options


def _prepare(
    workload: str, rows: int, present: Sequence[Contender], only: Sequence[str] | None
) -> tuple[dict[str, dict[str, Block]], list[str]]:
    """Fill every contender's ring; blocks by case and contender, and the names of the bounds."""
    wanted = chosen(workload, CASES[workload], only)
    cases: dict[str, dict[str, Block]] = {case: {} for case in wanted}
    bounds: dict[str, Block] = {}
    for contender in present if wanted else ():
        print(f"filling {contender.name}: {rows:,} rows of {workload}", file=sys.stderr)
        if workload == TRANSITIONS:
            blocks = contender.transition_blocks(rows)
        else:
            blocks = contender.pixel_blocks(rows)
            if isinstance(contender, Cpreplay) and COPIED_CASE in wanted:
                bounds = contender.copy_bounds()
        for case in wanted:
            if case in blocks:
                cases[case][contender.name] = blocks[case]
    if bounds:
        cases[COPIED_CASE] |= bounds
    return cases, list(bounds)


if __name__ == "__main__":
    main()
