"""What a benchmark makes of its timings: tables, entries of its JSON file, a chart."""

import argparse
import datetime
import json
import random
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders import Cpreplay, Library
from benchmarks.interleave import Block, Timing, interleaved, ratio
from benchmarks.machine import NOT_INSTALLED, describe_machine, package_version

OURS = Cpreplay.name

# case -> contender -> microseconds per call, of each round
Samples = Mapping[str, Mapping[str, NDArray[np.float64]]]


def new_report(
    benchmark: str, contenders: Sequence[Library], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """A report without results yet, as it goes into the JSON file."""
    return {
        "benchmark": benchmark,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "numpy": package_version("numpy"),
        "settings": dict(settings),
        "contenders": {one.name: {"version": one.version, "how": one.how} for one in contenders},
        "results": [],
    }


def write_files(report: Mapping[str, Any], json_path: Path | None, plot_path: Path | None) -> None:
    """The JSON file and the chart, whichever is wanted."""
    if json_path is not None:
        json_path.write_text(json.dumps(report, indent=2) + "\n")
    if plot_path is not None:
        _plot(report, plot_path)


def argument_parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser of the options that every benchmark has."""
    summary, _, description = (doc or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog=module,
        description=f"{summary}{description}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small rings, to see that it works")
    parser.add_argument("--rounds", type=positive, help="rounds (default 100, quick 3)")
    parser.add_argument("--rows", type=positive, help="transitions (default 1,000,000)")
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="cases whose 'workload case' contains it, such as 'transitions add'; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of contenders")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything as JSON")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw a chart (matplotlib)")
    return parser


def positive(text: str) -> int:
    """A positive number, with or without commas."""
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} has to be 1 or more")
    return number


def chosen(workload: str, cases: Sequence[str], only: Sequence[str] | None) -> list[str]:
    """Those of the cases that ``--only`` asks for."""
    return [
        case for case in cases if not only or any(text in f"{workload} {case}" for text in only)
    ]


def measure(cases: Mapping[str, Mapping[str, Block]], rounds: int, seed: int) -> Samples:
    """Time all cases in interleaved rounds."""
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for case, contender, taken in interleaved(cases, rounds, random.Random(seed)):
        samples[case][contender].append(taken)
    return {
        case: {name: np.array(samples[case][name]) for name in blocks}
        for case, blocks in cases.items()
    }


def case_result(
    workload: str,
    case: str,
    samples: Mapping[str, NDArray[np.float64]],
    bounds: Sequence[str],
    present: Sequence[Library],
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


def heading(title: str, report: Mapping[str, Any]) -> str:
    """What was measured, where and when."""
    machine = report["machine"]
    load = machine["load_average"]
    return "\n".join(
        [
            f"{title}, {report['date']}",
            f"{machine['cpu']}, {machine['cores']} cores, {', '.join(machine['caches'])}",
            f"{machine['system']}, Python {machine['python']}, numpy {report['numpy']}"
            + (f", load {load[0]:.1f} at the start" if load else ""),
        ]
    )


def table(
    description: str,
    results: Sequence[Mapping[str, Any]],
    contenders: Sequence[Library],
    bounds: Sequence[str],
) -> str:
    """Medians with quartiles, a line a case."""
    names = [*(one.name for one in contenders), *bounds]
    missing = {one.name for one in contenders if one.version == NOT_INSTALLED}
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
    return "\n".join([f"\n{description}", *text])


def _figures(microseconds: float) -> str:
    """Three figures, or all of them before the point."""
    if microseconds >= 100:
        return f"{microseconds:,.0f}"
    return f"{microseconds:.1f}" if microseconds >= 10 else f"{microseconds:.2f}"


def legend(report: Mapping[str, Any], notes: Sequence[str]) -> str:
    """How the timings were taken, and how each library is used."""
    lines = [
        f"{report['settings']['rounds']} rounds; in each the contenders run a block of calls in a "
        "random order, the garbage collector off.",
        "A ratio is the median of the rounds' own ratios; below 1, cpreplay is the faster.",
        *notes,
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
