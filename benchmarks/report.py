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

from benchmarks.interleave import Block, Timing, interleaved, ratio
from benchmarks.machine import NOT_INSTALLED, describe_machine, package_version
from benchmarks.tables import aligned, figures

OURS = "cpreplay"
OURS_FIXED = "cpreplay out="

# case -> entry -> microseconds per call, of each round
Samples = Mapping[str, Mapping[str, NDArray[np.float64]]]


def new_report(benchmark: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A report without results yet, as it goes into the JSON file."""
    return {
        "benchmark": benchmark,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "numpy": package_version("numpy"),
        "settings": dict(settings),
        "results": [],
    }


def positive(text: str) -> int:
    """A positive number, with or without commas."""
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} has to be 1 or more")
    return number


def measure(cases: Mapping[str, Mapping[str, Block]], rounds: int, seed: int) -> Samples:
    """Time all cases in interleaved rounds."""
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for case, entry, taken in interleaved(cases, rounds, random.Random(seed)):
        samples[case][entry].append(taken)
    return {
        case: {name: np.array(samples[case][name]) for name in blocks}
        for case, blocks in cases.items()
    }


def case_result(
    case: str,
    samples: Mapping[str, NDArray[np.float64]],
    *,
    peers: Sequence[str],
    bounds: Sequence[str],
) -> dict[str, Any]:
    """One case as it goes into the JSON file: timings, and how they compare.

    ``times_as_fast`` has for each of our entries how many times its time the best peer takes;
    ``times_the_bound`` how many times the nearest limit's time our last entry takes.
    """
    timings = {name: Timing.of(taken) for name, taken in samples.items()}
    result: dict[str, Any] = {
        "case": case,
        "microseconds": {name: asdict(timing) for name, timing in timings.items()},
    }
    ours = [name for name in (OURS, OURS_FIXED) if name in samples]
    timed = [name for name in peers if name in samples]
    if ours and timed:
        best = min(timed, key=lambda name: timings[name].median)
        result["best_peer"] = best
        result["times_as_fast"] = {name: ratio(samples[name], samples[best]) for name in ours}
    limits = [name for name in bounds if name in samples]
    if ours and limits:
        nearest = max(limits, key=lambda name: timings[name].median)
        result["bound"] = nearest
        result["times_the_bound"] = ratio(samples[nearest], samples[ours[-1]])
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


def cells(
    results: Sequence[Mapping[str, Any]],
    entries: Sequence[str],
    missing: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    quartiles: bool = True,
) -> list[list[str]]:
    """Medians in microseconds, a line a case; the first line is the head."""
    ratios = ["best / ours"] + ["best / out="] * (OURS_FIXED in entries) + ["ours / limit"]
    head = "us a call: median" + " (quartiles)" * quartiles
    lines = [[head, *entries, *ratios]]
    for label, result in zip(labels or [one["case"] for one in results], results, strict=True):
        line = [label]
        for name in entries:
            timing = result["microseconds"].get(name)
            line.append(
                (NOT_INSTALLED if name in missing else "-")
                if timing is None
                else _spread(timing)
                if quartiles
                else figures(timing["median"])
            )
        for name in (OURS, OURS_FIXED) if OURS_FIXED in entries else (OURS,):
            times = result.get("times_as_fast", {}).get(name)
            line.append("-" if times is None else f"{figures(times)} {result['best_peer']}")
        bound = result.get("times_the_bound")
        line.append("-" if bound is None else f"{figures(bound)} {result['bound']}")
        lines.append(line)
    return lines


def _spread(timing: Mapping[str, float]) -> str:
    median, lower, upper = (figures(timing[name]) for name in Timing.__annotations__)
    return f"{median} ({lower}-{upper})"


def table(title: str, lines: Sequence[Sequence[str]]) -> str:
    """Cells as text."""
    return aligned(title, lines)


def markdown(title: str, lines: Sequence[Sequence[str]]) -> str:
    """Cells as a table of a page."""
    head, *rest = lines
    rule = ["---", *["---:"] * (len(head) - 1)]
    rows = [head, rule, *([f"`{line[0]}`", *line[1:]] for line in rest)]
    return "\n".join([f"\n### {title}\n", *(f"| {' | '.join(row)} |" for row in rows)])


def legend(report: Mapping[str, Any], notes: Sequence[str]) -> str:
    """How the timings were taken, and how each library is used."""
    lines = [
        f"{report['settings']['rounds']} rounds; in each the contenders run a block of calls in a "
        "random order, the garbage collector off.",
        "A ratio is the median of the rounds' own ratios; best / ours above 1: cpreplay is the "
        "faster.",
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


def write_json(report: Mapping[str, Any], path: Path) -> None:
    """Everything, for other programs."""
    path.write_text(json.dumps(report, indent=2) + "\n")


def plot(report: Mapping[str, Any], path: Path) -> None:
    """Time against the minibatch's size, and against the capacity, on logarithmic scales."""
    from matplotlib.figure import Figure

    results = report["results"]
    capacity = max(report["settings"]["rows"])
    figure = Figure(figsize=(13, 4.5), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, workload, call in (
        (panels[0], "uniform", "sample"),
        (panels[1], "prioritized", "step"),
    ):
        _lines(
            axes,
            [
                (_size(one["case"]), one["microseconds"])
                for one in results
                if (one["workload"], one["rows"]) == (workload, capacity)
                and one["case"].startswith(f"{call}(")
            ],
        )
        axes.set_title(f"{workload} {call}, {capacity:,} rows")
        axes.set_xlabel("rows of the minibatch")
    _lines(
        panels[2],
        sorted(
            (
                (one["rows"], one["microseconds"])
                for one in results
                if one["workload"] == "prioritized" and one["case"] == "step(256)"
            ),
            key=lambda point: point[0],
        ),
    )
    panels[2].set_title("prioritized step(256)")
    panels[2].set_xlabel("rows of the ring")
    panels[0].set_ylabel("microseconds a call, median and quartiles")
    handles = {line.get_label(): line for axes in panels for line in axes.containers}
    figure.legend(list(handles.values()), list(handles), loc="outside right center")
    figure.savefig(path, dpi=110)


# An entry has the same colour in every panel.
_COLOURS = (OURS, OURS_FIXED, "touch", "cpprb", "rlox", "stable-baselines3", "torchrl", "flashbax",
            "tianshou")  # fmt: skip


def _lines(axes: Any, points: Sequence[tuple[int, Mapping[str, Mapping[str, float]]]]) -> None:
    names = dict.fromkeys(name for _, timed in points for name in timed)
    for name in names:
        timings = [(at, timed[name]) for at, timed in points if name in timed]
        medians = [one["median"] for _, one in timings]
        spread = [
            [one["median"] - one["lower_quartile"] for _, one in timings],
            [one["upper_quartile"] - one["median"] for _, one in timings],
        ]
        axes.errorbar(
            [at for at, _ in timings],
            medians,
            yerr=spread,
            label=name,
            color=f"C{_COLOURS.index(name)}" if name in _COLOURS else None,
            marker="o",
            markersize=3,
            linestyle="--" if name in ("touch", "memcpy") else "-",
            linewidth=2 if name.startswith(OURS) else 1,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(alpha=0.3)


def _size(case: str) -> int:
    return int(case.partition("(")[2].removesuffix(")"))
