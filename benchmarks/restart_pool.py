"""The restart pool: 8,192 points of 300 KB in one bucket, and what they cost.

``python -m benchmarks.restart_pool`` in a checkout, or ``python benchmarks/restart_pool.py``
anywhere.

A point is a machine's snapshot of 272,000 bytes and four frames of 84 x 84. Of the snapshot, 4 KiB
are new in every point, 64 KiB are tiles in an order of its own, and the rest is as in the point
before, which gives about the ratio of a 16-bit console. Offers and draws are timed one by one in a
full bucket, each draw with its report, without and with a save in the background.
"""

import argparse
import datetime
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if not __package__:  # run as a file: import from the checkout that holds it
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.checkpoints import film, spread, unfinished
from benchmarks.machine import describe_machine, package_version, resident
from benchmarks.report import heading, positive
from benchmarks.tables import aligned, figures, megabytes

_SNAPSHOT_BYTES = 272_000
_STACK = 4
_PREPARED = 64  # points that are made beforehand, and offered in turns


def points(number: int, seed: int) -> list[tuple[bytes, NDArray[np.uint8]]]:
    """Snapshots and frame stacks of a made-up machine."""
    rng = np.random.default_rng(seed)
    tiles = rng.integers(0, 4, (16, 1024), np.uint8) * 64
    memory = np.zeros(_SNAPSHOT_BYTES, np.uint8)
    memory[150_000:160_000] = rng.integers(0, 256, 10_000) // 64
    frames = np.stack(list(film(number + _STACK, seed)))
    made = []
    for first in range(number):
        memory[:4096] = rng.integers(0, 256, 4096)
        memory[8192:73_728] = tiles[rng.integers(0, 16, 64)].ravel()
        made.append((memory.tobytes(), frames[first : first + _STACK].copy()))
    return made


class Player:
    """Offers points to a pool, and draws from it."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._points = points(_PREPARED, 0)
        self._numbers = count()

    def offer(self) -> float:
        """Microseconds of an offer."""
        number = next(self._numbers)
        snapshot, stack = self._points[number % _PREPARED]
        start = time.perf_counter_ns()
        self._pool.offer(snapshot, stack, {"level": 1, "x": number})
        return (time.perf_counter_ns() - start) / 1000

    def draw(self) -> float:
        """Microseconds of a draw and the report of its end."""
        start = time.perf_counter_ns()
        restart = self._pool.draw(0)
        self._pool.finish(restart)
        return (time.perf_counter_ns() - start) / 1000

    def play(self, go_on: Callable[[], bool]) -> tuple[list[float], list[float]]:
        """Offers and draws in turns."""
        offers, draws = [], []
        while go_on():
            offers.append(self.offer())
            draws.append(self.draw())
        return offers, draws


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the tables, write the file."""
    options = _parse(arguments)
    report: dict[str, Any] = {
        "benchmark": "restart_pool",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "numpy": package_version("numpy"),
        "zstandard": package_version("zstandard"),
        "settings": {name: getattr(options, name) for name in ("rounds", "points", "quick")},
    }
    print(heading("Restart pool", report))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        report["results"] = measure(Path(folder), options.points, options.rounds)
    print(_table(report["results"]))
    if options.quick:
        print("\n--quick: these figures show that the benchmark works, and nothing else.")
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def measure(folder: Path, wanted: int, rounds: int) -> dict[str, Any]:
    """Everything, of one pool."""
    configuration = _configuration(wanted)
    from cpreplay import RestartPool

    pool = RestartPool(configuration)
    player = Player(pool)
    player.offer()
    player.draw()
    before = resident()
    for _ in range(wanted):
        player.offer()
    held = resident() - before
    taken: dict[str, list[float]] = defaultdict(list)
    seconds: dict[str, list[float]] = defaultdict(list)
    path = folder / "points"
    for number in range(rounds):
        print(f"  round {number + 1}", file=sys.stderr)
        calls = iter(range(min(1000, wanted)))
        offers, draws = player.play(partial(_more, calls))
        taken["offer without a save"] += offers
        taken["draw without a save"] += draws
        for _ in range(3):
            start = time.perf_counter()
            future = pool.save_in_background(path)
            taken["save_in_background itself"].append((time.perf_counter() - start) * 1e6)
            offers, draws = player.play(partial(unfinished, future))
            future.result()
            taken["offer with a save"] += offers
            taken["draw with a save"] += draws
        start = time.perf_counter()
        pool.save(path)
        saved = time.perf_counter()
        loaded = RestartPool(configuration)
        points_of_file = loaded.load(path)
        seconds["save"].append(saved - start)
        seconds["load"].append(time.perf_counter() - saved)
        if points_of_file != wanted or loaded.stats()["bytes"] != pool.stats()["bytes"]:
            raise RuntimeError(f"{points_of_file} of {wanted} points came back")
    return {
        "points": wanted,
        "raw_bytes": wanted * sum(len(bytes(part)) for part in points(1, 0)[0]),
        "held_bytes": held,
        "compressed_bytes": pool.stats()["bytes"],
        "file_bytes": path.stat().st_size,
        "seconds": dict(seconds),
        "microseconds": {name: spread(values) for name, values in taken.items() if values},
    }


def _table(results: Mapping[str, Any]) -> str:
    lines = [["microseconds", "p50", "p99", "max", "calls"]]
    for name, taken in results["microseconds"].items():
        cells = [figures(taken[part]) for part in ("median", "p99", "max")]
        lines.append([name, *cells, f"{taken['count']:,}"])
    save, load = (float(np.median(results["seconds"][what])) for what in ("save", "load"))
    return "\n".join(
        [
            aligned(f"{results['points']:,} points in one bucket", lines),
            f"\n{megabytes(results['raw_bytes'])} MB raw; {megabytes(results['compressed_bytes'])} "
            f"MB compressed; {megabytes(results['held_bytes'])} MB resident for them; a file of "
            f"{megabytes(results['file_bytes'])} MB, saved in {figures(save)} s and loaded in "
            f"{figures(load)} s (medians).",
        ]
    )


def _configuration(wanted: int) -> Any:
    from cpreplay import RestartPoolConfiguration

    return RestartPoolConfiguration(
        key=("level",), max_per_key=wanted, probability=1.0, random_seed=0
    )


def _more(calls: Iterator[int]) -> bool:
    return next(calls, None) is not None


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    summary, _, description = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="benchmarks.restart_pool",
        description=f"{summary}{description}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few points, to see that it works")
    parser.add_argument("--rounds", type=positive, help="rounds (default 3, quick 1)")
    parser.add_argument("--points", type=positive, help="in the bucket (default 8,192)")
    parser.add_argument("--folder", type=Path, help="where files are written, as a folder in it")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything as JSON")
    options = parser.parse_args(arguments)
    rounds, wanted = (1, 64) if options.quick else (3, 8192)
    options.rounds = options.rounds or rounds
    options.points = options.points or wanted
    return options


if __name__ == "__main__":
    main()
