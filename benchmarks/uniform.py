"""Uniform replay beside cpprb and rlox, in one process and interleaved rounds.

``python -m benchmarks.uniform`` in a checkout, or ``python benchmarks/uniform.py`` anywhere.

Two workloads: transitions of 17 + 6 + 1 + 17 float32 and a flag in a full ring of a million rows,
and images of 84 x 84 x 4 bytes with their successors in one of 20,000. Every draw is of other
rows, so nearly all of them come from memory and not from a cache. For images the yardstick is a
plain copy of as many random rows out of the same memory, by the fastest of a few loops.
"""

import argparse
import datetime
import json
import random
import sys
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if not __package__:  # run as a file: import from the checkout that holds it
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.contenders import (
    ADD_BATCH,
    PIXEL_BATCH,
    SAMPLE_BATCHES,
    Contender,
    Cpprb,
    Cpreplay,
    Rlox,
)
from benchmarks.interleave import Block, Timing, interleaved, ratio
from benchmarks.machine import NOT_INSTALLED, describe_machine, package_version

TRANSITIONS, PIXELS = "transitions", "pixels"
OURS = Cpreplay.name

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

# case -> contender -> microseconds per call, of each round
Samples = Mapping[str, Mapping[str, NDArray[np.float64]]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the tables, write the files."""
    options = _parse(arguments)
    contenders: list[Contender] = [Cpreplay(), Cpprb(), Rlox()]
    report: dict[str, Any] = {
        "benchmark": "uniform",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "numpy": package_version("numpy"),
        "settings": {
            "rounds": options.rounds,
            "rows": options.rows,
            "pixel_rows": options.pixel_rows,
            "quick": options.quick,
        },
        "contenders": {
            contender.name: {"version": _version(contender), "how": contender.how}
            for contender in contenders
        },
        "results": [],
    }
    print(_heading(report))
    present = [one for one in contenders if _version(one) != NOT_INSTALLED]
    for workload, rows in ((TRANSITIONS, options.rows), (PIXELS, options.pixel_rows)):
        cases, bounds = _prepare(workload, rows, present, options.only)
        if not cases:
            continue
        samples = _measure(cases, options.rounds, options.seed)
        results = [_result(workload, case, samples[case], bounds, present) for case in cases]
        report["results"] += results
        print(_table(workload, rows, results, contenders, bounds))
    if not report["results"]:
        sys.exit(f"--only: no case is like {' or '.join(options.only)}")
    print(_legend(report))
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.plot is not None:
        _plot(report, options.plot)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    summary, _, description = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="benchmarks.uniform",
        description=f"{summary}{description}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small rings, to see that it works")
    parser.add_argument("--rounds", type=_positive, help="rounds (default 100, quick 3)")
    parser.add_argument("--rows", type=_positive, help="transitions (default 1,000,000)")
    parser.add_argument("--pixel-rows", type=_positive, help="images (default 20,000)")
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="cases whose 'workload case' contains it, such as 'transitions add'; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of contenders")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything as JSON")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw a chart (matplotlib)")
    options = parser.parse_args(arguments)
    rounds, rows, pixel_rows = (3, 20_000, 200) if options.quick else (100, 1_000_000, 20_000)
    options.rounds = options.rounds or rounds
    options.rows = options.rows or rows
    options.pixel_rows = options.pixel_rows or pixel_rows
    return options


def _positive(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} has to be 1 or more")
    return number


def _version(contender: Contender) -> str:
    if contender.is_peer:
        return contender.version
    import cpreplay  # a plain checkout has no metadata to read it from

    return cpreplay.__version__


def _prepare(
    workload: str, rows: int, present: Sequence[Contender], only: Sequence[str] | None
) -> tuple[dict[str, dict[str, Block]], list[str]]:
    """Fill every contender's ring; blocks by case and contender, and the names of the bounds."""
    wanted = [
        case
        for case in CASES[workload]
        if not only or any(text in f"{workload} {case}" for text in only)
    ]
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


def _measure(cases: Mapping[str, Mapping[str, Block]], rounds: int, seed: int) -> Samples:
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for case, contender, taken in interleaved(cases, rounds, random.Random(seed)):
        samples[case][contender].append(taken)
    return {
        case: {name: np.array(samples[case][name]) for name in blocks}
        for case, blocks in cases.items()
    }


def _result(
    workload: str,
    case: str,
    samples: Mapping[str, NDArray[np.float64]],
    bounds: Sequence[str],
    present: Sequence[Contender],
) -> dict[str, Any]:
    """One case as it goes into the JSON file: timings, and ours against the best of the others."""
    timings = {name: Timing.of(taken) for name, taken in samples.items()}
    result: dict[str, Any] = {
        "workload": workload,
        "case": case,
        "microseconds": {name: asdict(timing) for name, timing in timings.items()},
    }
    others = {
        "peer": [one.name for one in present if one.is_peer and one.name in timings],
        "bound": [name for name in bounds if name in timings],
    }
    for kind, names in others.items():
        if names:
            best = min(names, key=lambda name: timings[name].median)
            result[f"best_{kind}"] = best
            result[f"ratio_to_best_{kind}"] = ratio(samples[OURS], samples[best])
    return result


def _heading(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    load = machine["load_average"]
    return "\n".join(
        [
            f"Uniform replay, {report['date']}",
            f"{machine['cpu']}, {machine['cores']} cores, {', '.join(machine['caches'])}",
            f"{machine['system']}, Python {machine['python']}, numpy {report['numpy']}"
            + (f", load {load[0]:.1f} at the start" if load else ""),
        ]
    )


def _table(
    workload: str,
    rows: int,
    results: Sequence[Mapping[str, Any]],
    contenders: Sequence[Contender],
    bounds: Sequence[str],
) -> str:
    """Medians with quartiles, a line a case."""
    names = [*(one.name for one in contenders), *bounds]
    missing = {one.name for one in contenders if _version(one) == NOT_INSTALLED}
    header = ["us per call: median (quartiles)", *names, "ours / best peer"]
    lines = [header + ["ours / copy"] * bool(bounds)]
    for result in results:
        cells = [result["case"]]
        for name in names:
            timing = result["microseconds"].get(name)
            if timing is not None:
                median, lower, upper = (_figures(number) for number in timing.values())
                cells.append(f"{median} ({lower}-{upper})")
            else:
                cells.append(NOT_INSTALLED if name in missing else "-")
        for kind in ("peer", "bound") if bounds else ("peer",):
            quotient = result.get(f"ratio_to_best_{kind}")
            cells.append("-" if quotient is None else f"{quotient:.2f} {result[f'best_{kind}']}")
        lines.append(cells)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    text.insert(1, "-" * len(text[0]))
    return "\n".join([f"\n{DESCRIPTIONS[workload]}, {rows:,} rows", *text])


def _figures(microseconds: float) -> str:
    """Three figures, or all of them before the point."""
    if microseconds >= 100:
        return f"{microseconds:,.0f}"
    return f"{microseconds:.1f}" if microseconds >= 10 else f"{microseconds:.2f}"


def _legend(report: Mapping[str, Any]) -> str:
    lines = [
        f"{report['settings']['rounds']} rounds; in each the contenders run a block of calls in a "
        "random order, the garbage collector off.",
        "A ratio is the median of the rounds' own ratios; below 1, cpreplay is the faster.",
        "memmove, memcpy in C and np.copyto are plain copies of the same number of drawn rows.",
    ]
    if report["settings"]["quick"]:
        lines.insert(
            0,
            "--quick: rings this small fit in a processor's caches, so these timings show that the "
            "benchmark works and are not for comparison.",
        )
    for name, contender in report["contenders"].items():
        lines.append(f"{name} {contender['version']}: {contender['how']}.")
    return "\n" + "\n".join(textwrap.fill(line, 110, subsequent_indent="  ") for line in lines)


def _plot(report: Mapping[str, Any], path: Path) -> None:
    """A bar for each contender and case, with quartiles, on a logarithmic scale."""
    from matplotlib.figure import Figure

    results = report["results"]
    names = list(dict.fromkeys(name for result in results for name in result["microseconds"]))
    height = 0.8 / len(names)
    figure = Figure(figsize=(9, 1 + 0.6 * len(results)), layout="constrained")
    axes = figure.subplots()
    for number, name in enumerate(names):
        timed = [(y, one["microseconds"].get(name)) for y, one in enumerate(results)]
        places = [y + (number - len(names) / 2) * height for y, timing in timed if timing]
        timings = [timing for _, timing in timed if timing]
        medians = [timing["median"] for timing in timings]
        spread = [
            [one["median"] - one["lower_quartile"] for one in timings],
            [one["upper_quartile"] - one["median"] for one in timings],
        ]
        axes.barh(places, medians, height, xerr=spread, align="edge", label=name)
    axes.set_yticks(range(len(results)), [f"{one['workload']} {one['case']}" for one in results])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("microseconds per call, median and quartiles")
    axes.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
