"""Prioritized replay beside cpprb, rlox and TorchRL, in one process and interleaved rounds.

``python -m benchmarks.prioritized`` in a checkout, or ``python benchmarks/prioritized.py``
anywhere.

Transitions of 17 + 6 + 1 + 17 float32 and a flag in a full ring of a million rows, with priorities
of |N(0, 1)| TD errors, alpha 0.6, beta 0.4. "update" is of the rows that were drawn right before
and "step" is a draw and its update; "add + step" has one new row a step, so that nothing that a
library puts off until the next draw is left out.

A library that is not installed is left out. TorchRL is not in the extra ``bench``: it is large and
goes with certain versions of torch only, so give it an environment of its own, with the others
beside it, and run the whole table there.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a file: import from the checkout that holds it
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.interleave import Block
from benchmarks.machine import NOT_INSTALLED, package_version
from benchmarks.prioritized_contenders import (
    BATCHES,
    ONLINE_BATCH,
    PrioritizedContender,
    PrioritizedCpprb,
    PrioritizedCpreplay,
    PrioritizedRlox,
    PrioritizedTorchrl,
)
from benchmarks.report import (
    argument_parser,
    case_result,
    chosen,
    heading,
    legend,
    measure,
    new_report,
    table,
    write_files,
)
from benchmarks.workloads import ADD_BATCH

WORKLOAD = "prioritized"
CASES = [
    *(
        case
        for size in BATCHES
        for case in (
            f"sample({size})",
            f"sample({size}, out=)",
            f"update({size})",
            f"step({size})",
            f"step({size}, out=)",
        )
    ),
    "add",
    f"add_batch({ADD_BATCH})",
    f"add + step({ONLINE_BATCH})",
]
DESCRIPTION = "17 obs + 6 action + 1 reward + 17 next_obs float32 + terminated, by priority"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the table, write the files."""
    options = _parse(arguments)
    contenders: list[PrioritizedContender] = [
        PrioritizedCpreplay(),
        PrioritizedCpprb(),
        PrioritizedRlox(),
        PrioritizedTorchrl(),
    ]
    settings = {name: getattr(options, name) for name in ("rounds", "rows", "quick")}
    report = new_report("prioritized", contenders, settings)
    report["torch"] = package_version("torch")
    wanted = chosen(WORKLOAD, CASES, options.only)
    if not wanted:
        sys.exit(f"--only: no case is like {' or '.join(options.only)}")
    print(heading("Prioritized replay", report) + f", torch {report['torch']}")
    cases: dict[str, dict[str, Block]] = {case: {} for case in wanted}
    present = []
    for contender in contenders:
        if contender.version == NOT_INSTALLED:
            print(f"{contender.name} is not installed and is left out")
            continue
        print(f"filling {contender.name}: {options.rows:,} rows", file=sys.stderr)
        blocks = contender.blocks(options.rows)
        present.append(contender)
        for case in wanted:
            cases[case][contender.name] = blocks[case]
    samples = measure(cases, options.rounds, options.seed)
    report["results"] = [case_result(WORKLOAD, case, samples[case], [], present) for case in wanted]
    print(table(f"{DESCRIPTION}, {options.rows:,} rows", report["results"], contenders, []))
    print(
        legend(
            report,
            [
                "update: of the rows that were drawn right before. step: a draw and its update. "
                f"add + step({ONLINE_BATCH}): one new row, a draw and its update.",
            ],
        )
    )
    write_files(report, options.json, options.plot)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    options = argument_parser("benchmarks.prioritized", __doc__).parse_args(arguments)
    rounds, rows = (3, 20_000) if options.quick else (100, 1_000_000)
    options.rounds = options.rounds or rounds
    options.rows = options.rows or rows
    return options


if __name__ == "__main__":
    main()
