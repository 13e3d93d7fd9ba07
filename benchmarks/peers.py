"""Replay buffers beside each other: one process, interleaved rounds.

``python -m benchmarks.peers`` in a checkout, or ``python benchmarks/peers.py`` anywhere.

Two workloads in full rings, filled with other values in every row, and how they grow:

- uniform and prioritized: transitions of 17 + 6 + 1 + 17 float32 and a flag, 100,000 and 1,000,000
  rows; by priority of |N(0, 1)| TD errors, alpha 0.6, beta 0.4. "update" is of the rows that were
  drawn right before, "step" a draw and its update, and "add + step" has one new row a step, so that
  nothing that a library puts off until the next draw is left out;
- pixels: images of 84 x 84 x 4 bytes with their successors, 20,000 rows;
- how a draw and a step of 256 grow with the ring, from 10,000 to 10,000,000 rows.

Every draw is of other rows, so of large rings nearly all come from memory and not from a cache.
Each library is checked before it is timed: its ring is full, a draw gives rows that went in, and
by priority as often as their priorities say, weighted so. A library that is not installed is left
out. Beside them runs a limit: a loop in C that only reads the same cache lines, or copies the same
rows (`benchmarks.bounds`).
"""

import argparse
import gc
import operator
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: import from the checkout that holds it
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bounds import BOUNDS, COPY, EMPTY, TOUCH, bounds_of
from benchmarks.contenders import INTO_FIXED, Contender, Ring, blocks_of, cases_of
from benchmarks.interleave import Block
from benchmarks.libraries import CONTENDERS
from benchmarks.libraries.ours import CpreplayRing
from benchmarks.machine import NOT_INSTALLED, package_version
from benchmarks.report import (
    case_result,
    cells,
    heading,
    legend,
    markdown,
    measure,
    new_report,
    plot,
    positive,
    table,
    write_json,
)
from benchmarks.workloads import PIXELS, PRIORITIZED, UNIFORM, Workload

NOTES = [
    "update: of the rows that were drawn right before. step: a draw and its update. add + step: "
    "one new row, a draw and its update.",
    f"{TOUCH}: a loop in C that reads one word of each cache line that the draw has to read, of "
    f"rows known beforehand. {COPY}: a loop of memcpy of the obs and next_obs of as many rows, "
    "or of an added batch's bytes. "
    f"{EMPTY}: a method in Python that takes the same values and does nothing.",
]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the tables, write the files."""
    options = _parse(arguments)
    contenders = [one for one in CONTENDERS if not (one.is_peer and one.name not in options.peers)]
    names = ("rounds", "rows", "pixel_rows", "growth", "quick")
    report = new_report("peers", {name: getattr(options, name) for name in names})
    report["torch"], report["jax"] = package_version("torch"), package_version("jax")
    report["host"] = _host()
    report["contenders"] = {
        one.name: {"version": one.version, "how": one.how} for one in contenders
    }
    print(heading("Replay buffers", report))
    print(f"torch {report['torch']}, jax {report['jax']}, cpreplay's host loops: {report['host']}")
    for name in _missing(contenders):
        print(f"{name} is not installed and is left out")
    for workload, rows, growth in _plan(options):
        cases = [
            case
            for case in cases_of(workload, rows, growth=growth)
            if not options.only
            or any(text in f"{workload.name} {rows} {case}" for text in options.only)
        ]
        if not cases:
            continue
        results = _run(workload, rows, cases, contenders, options, growth=growth)
        report["results"] += results
        lines = cells(results, _columns(results, contenders, workload), _missing(contenders))
        print(table(_title(workload, rows), lines), flush=True)
        if options.json is not None:  # after each part: a run that is broken off leaves the others
            write_json(report, options.json)
    if not report["results"]:
        sys.exit(f"--only: no case is like {' or '.join(options.only)}")
    print(legend(report, NOTES))
    if options.markdown is not None:
        options.markdown.write_text(_page(report, contenders))
    if options.plot is not None:
        plot(report, options.plot)


def _run(
    workload: Workload,
    rows: int,
    cases: Sequence[str],
    contenders: Sequence[Contender],
    options: argparse.Namespace,
    *,
    growth: bool,
) -> list[dict[str, Any]]:
    """Fill every contender's ring and time the cases on all of them; memory is free again then."""
    blocks: dict[str, dict[str, Block]] = {case: {} for case in cases}
    start = time.monotonic()
    for contender in contenders:
        if contender.version == NOT_INSTALLED or workload.name not in contender.workloads:
            continue
        begun = time.monotonic()
        ring = contender.full_ring(workload, rows, checked=not growth)
        for case in cases:
            entries = {_entry(contender.name, way): b for way, b in blocks_of(ring, case).items()}
            blocks[case] |= entries
            blocks[case] |= _bounds(ring, workload, case)
        _tell(f"{contender.name}: {rows:,} rows of {workload.name}", begun)
        del ring
    _tell("all", start)
    start = time.monotonic()
    samples = measure(blocks, options.rounds, options.seed)
    _tell(f"{options.rounds} rounds", start)
    peers = [one.name for one in contenders if one.is_peer]
    results = [
        {"workload": workload.name, "rows": rows}
        | case_result(case, samples[case], peers=peers, bounds=BOUNDS)
        for case in cases
    ]
    del blocks
    gc.collect()
    return results


def _bounds(ring: Ring, workload: Workload, case: str) -> dict[str, Block]:
    if not isinstance(ring, CpreplayRing):
        return {}
    return bounds_of(ring.buffer, workload, case)


def _entry(name: str, way: str) -> str:
    return f"{name} {INTO_FIXED}" if way else name


def _columns(
    results: Sequence[Mapping[str, Any]], contenders: Sequence[Contender], workload: Workload
) -> list[str]:
    """What these results' table has a column for, in order."""
    ours, *others = [one.name for one in contenders]
    timed = {name for one in results for name in one["microseconds"]}
    timed |= {one.name for one in contenders if workload.name in one.workloads}
    return [name for name in (ours, _entry(ours, INTO_FIXED), *others, *BOUNDS) if name in timed]


def _missing(contenders: Sequence[Contender]) -> list[str]:
    return [one.name for one in contenders if one.version == NOT_INSTALLED]


def _title(workload: Workload, rows: int) -> str:
    return f"{workload.name}, {rows:,} rows: {workload.description}"


def _page(report: Mapping[str, Any], contenders: Sequence[Contender]) -> str:
    """All results as tables of a page, the growth in one for each of its calls."""
    parts = []
    for workload in (UNIFORM, PRIORITIZED, PIXELS):
        results = [one for one in report["results"] if one["workload"] == workload.name]
        if not results:
            continue
        columns = _columns(results, contenders, workload)
        missing = _missing(contenders)
        for rows in dict.fromkeys(one["rows"] for one in results):
            part = [one for one in results if one["rows"] == rows]
            if rows not in report["settings"]["growth"]:
                lines = cells(part, columns, missing, quartiles=False)
                parts.append(markdown(f"{workload.name.capitalize()}, {rows:,} rows", lines))
        for case in () if workload.pixels else cases_of(workload, 1, growth=True):
            grown = sorted(
                (one for one in results if one["case"] == case), key=operator.itemgetter("rows")
            )
            labels = [f"{one['rows']:,} rows" for one in grown]
            lines = cells(grown, columns, missing, labels=labels, quartiles=False)
            parts.append(markdown(f"{workload.name.capitalize()} {case} and the capacity", lines))
    return "\n".join(parts) + "\n"


def _plan(options: argparse.Namespace) -> list[tuple[Workload, int, bool]]:
    """What is run: the workload, the rows, and whether for the growth alone."""
    kinds = (UNIFORM, PRIORITIZED)
    plan = [(kind, rows, False) for rows in options.rows for kind in kinds]
    plan.append((PIXELS, options.pixel_rows, False))
    return plan + [(kind, rows, True) for rows in options.growth for kind in kinds]


def _tell(what: str, start: float) -> None:
    print(f"{what}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


def _host() -> str:
    from cpreplay.native import described

    return described()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    summary, _, description = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="benchmarks.peers",
        description=f"{summary}{description}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [one.name for one in CONTENDERS if one.is_peer]
    parser.add_argument("--quick", action="store_true", help="small rings, to see that it works")
    parser.add_argument("--rounds", type=positive, help="rounds (default 60, quick 3)")
    parser.add_argument(
        "--rows", type=positive, nargs="+", help="transitions (default 100,000 1,000,000)"
    )
    parser.add_argument("--pixel-rows", type=positive, help="images (default 20,000)")
    parser.add_argument(
        "--growth",
        type=positive,
        nargs="*",
        help="capacities besides --rows for a draw and a step of 256 (default 10,000 10,000,000)",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="cases whose 'workload rows case' contains it, such as 'uniform 100000 add'; may be "
        "repeated",
    )
    parser.add_argument(
        "--peers", nargs="*", default=names, choices=names, help="the libraries beside cpreplay"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of contenders")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a chart (matplotlib)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables for a page")
    options = parser.parse_args(arguments)
    small: dict[str, Any] = {"rounds": 3, "rows": [20_000], "pixel_rows": 300, "growth": [10_000]}
    full = {"rounds": 60, "rows": [100_000, 1_000_000], "pixel_rows": 20_000,
            "growth": [10_000, 10_000_000]}  # fmt: skip
    for name, value in (small if options.quick else full).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


if __name__ == "__main__":
    main()
