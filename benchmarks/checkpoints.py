"""Checkpoints of replay buffers: files beside other formats, stalls of a trainer, memory.

``python -m benchmarks.checkpoints`` in a checkout, or ``python benchmarks/checkpoints.py``
anywhere.

Files: three buffers are saved, loaded and resumed, beside a plain copy of the same bytes and beside
npz, pickle and HDF5, in rounds with the formats in a random order. Everything is on disk (fsync)
when a write ends; reads come from the page cache. Frames are 84 x 84 uint8 with their successors,
of a made-up game: a background that changes with the room, and sprites that move over it.
Transitions are 17 + 6 + 1 + 17 Gaussian float32 and a flag, which hardly compress.

Stalls: a trainer adds 16 rows to a full ring and draws a minibatch, over and over, without and with
a save in the background, flat out and with a pause of 2 ms as a learner's step on an accelerator.

Memory: a fresh process saves a buffer of 6 GB and tells what it took beyond it. Its rows are held,
and so are all read and written, but few were ever touched, so the machine need not have 6 GB.
"""

import argparse
import datetime
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if not __package__:  # run as a file: import from the checkout that holds it
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.checkpoint_formats import Columns, other_formats
from benchmarks.machine import NOT_INSTALLED, describe_machine, package_version, resident
from benchmarks.report import heading, positive
from benchmarks.tables import aligned, figures, megabytes
from benchmarks.workloads import ACTION, OBS

FRAMES, TRANSITIONS, PRIORITIZED = "frames", "transitions", "prioritized"
FRAME = (84, 84)

OTHERS = other_formats()
_ADDED = 16
_PAUSES = {"flat out": 0.0, "2 ms between": 0.002}


# Buffers


def film(frames: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    """Frames of a made-up game: tiles as background, a score, and twelve sprites that bounce."""
    rng = np.random.default_rng(seed)
    sprites = rng.integers(1, 6, (12, 8, 8), np.uint8) * 50
    places, speeds = rng.integers(0, 76, (12, 2)), rng.integers(-3, 4, (12, 2))
    room = np.zeros(FRAME, np.uint8)
    for number in range(frames):
        if number % 250 == 0:
            tiles = rng.integers(0, 8, (11, 11), np.uint8) * 16
            room = np.kron(tiles, np.ones((8, 8), np.uint8))[: FRAME[0], : FRAME[1]]
        frame = room.copy()
        for bit in range(16):
            frame[1:4, 2 + 5 * bit : 5 + 5 * bit] = 255 * (number >> bit & 1)
        places += speeds
        speeds[(places < 0) | (places > 75)] *= -1
        np.clip(places, 0, 75, out=places)
        for sprite, (y, x) in zip(sprites, places, strict=True):
            frame[y : y + 8, x : x + 8] = sprite
        yield frame


def frame_rows(rows: int, seed: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """Transitions of the film, 500 at a time."""
    rng = np.random.default_rng(seed)
    frames = film(rows + 1, seed)
    last = next(frames)[None]
    for start in range(0, rows, 500):
        count = min(500, rows - start)
        shown = np.concatenate([last, *(next(frames)[None] for _ in range(count))])
        last = shown[-1:]
        action, ended = rng.integers(0, 18, count), rng.random(count) < 0.004
        yield shown[:-1], action, rng.integers(0, 2, count).astype("f4"), shown[1:], ended


def gaussian_rows(rows: int, seed: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """Gaussian transitions, 10,000 at a time; each begins where the one before ended."""
    rng = np.random.default_rng(seed)
    for start in range(0, rows, 10_000):
        count = min(10_000, rows - start)
        states = rng.standard_normal((count + 1, OBS), np.float32)
        action = rng.standard_normal((count, ACTION), np.float32)
        reward = rng.standard_normal(count, np.float32)
        yield states[:-1], action, reward, states[1:], rng.random(count) < 0.01


def new_buffer(workload: str, rows: int) -> Any:
    """An empty buffer of a workload."""
    from cpreplay import StoreReplay

    if workload == FRAMES:
        return StoreReplay(FRAME, (), rows, obs_dtype="uint8", action_dtype="int64", seed=0)
    return StoreReplay(OBS, ACTION, rows, workload == PRIORITIZED, seed=0)


def filled_buffer(workload: str, rows: int) -> Any:
    """A full ring, whose rows have priorities of their own where they have any."""
    print(f"filling {rows:,} rows of {workload}", file=sys.stderr)
    buffer = new_buffer(workload, rows)
    for columns in (frame_rows if workload == FRAMES else gaussian_rows)(rows, 0):
        buffer.add_batch(*columns)
    if workload == PRIORITIZED:
        rng = np.random.default_rng(1)
        for start in range(0, rows, 10_000):
            indices = np.arange(start, min(start + 10_000, rows))
            buffer.update_priorities(indices, rng.standard_normal(len(indices)))
    return buffer


# Files


def time_files(buffer: Any, folder: Path, rounds: int, order: random.Random) -> dict[str, Any]:
    """Seconds of every format's write and read, and its bytes, by format."""
    state = buffer.state()
    columns: Columns = dict(state["rows"])
    if state["leaves"] is not None:
        columns["leaves"] = state["leaves"]
    raw = sum(array.nbytes for array in columns.values())
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    sizes: dict[str, int] = {}
    formats = {one.name: one for one in OTHERS if one.is_installed}
    for number in range(rounds):
        names = ["cpreplay", *(name for name in formats if not (number and formats[name].is_slow))]
        order.shuffle(names)
        for name in names:
            print(f"  round {number + 1}: {name}", file=sys.stderr)
            if name == "cpreplay":
                path = folder / "checkpoint"
                taken = _time_own(buffer, path, check=number == 0)
            else:
                one = formats[name]
                path = folder / f"{name}{one.suffix}"
                start = time.perf_counter()
                one.write(path, columns)
                written = time.perf_counter()
                back = one.read(path, columns)
                taken = {"write": written - start, "read": time.perf_counter() - written}
                if number == 0:
                    _check_columns(name, back, columns)
                del back
            for what, value in taken.items():
                seconds[name][what].append(value)
            sizes[name] = path.stat().st_size
            path.unlink()
    return {
        "raw_bytes": raw,
        "rows": len(buffer),
        "seconds": {name: dict(one) for name, one in seconds.items()},
        "bytes": sizes,
    }


def _time_own(buffer: Any, path: Path, *, check: bool) -> dict[str, float]:
    from cpreplay import StoreReplay

    moments = [time.perf_counter()]
    buffer.save(path)
    moments.append(time.perf_counter())
    loaded = StoreReplay.load(path)
    moments.append(time.perf_counter())
    loaded.resume(path)
    moments.append(time.perf_counter())
    if check:
        for column in buffer.columns:
            if not np.array_equal(loaded.column(column.name), buffer.column(column.name)):
                raise RuntimeError(f"cpreplay gave other rows back in {column.name}")
    return dict(zip(("write", "load", "resume"), np.diff(moments).tolist(), strict=True))


def _check_columns(name: str, back: Columns, columns: Columns) -> None:
    if back.keys() != columns.keys() or not all(
        np.array_equal(back[column], columns[column]) for column in columns
    ):
        raise RuntimeError(f"{name} gave other rows back")


def files_table(workload: str, result: Mapping[str, Any]) -> str:
    """Medians of the rounds, and how they compare with the plain copy of the same round."""
    raw = result["raw_bytes"]
    lines = [["", "write s", "GB/s", "/ plain copy", "read s", "GB/s", "/ plain copy", "file MB"]]
    plain = result["seconds"]["plain copy"]
    names = ["cpreplay", *(one.name for one in OTHERS)]
    for name in names:
        taken = result["seconds"].get(name)
        if taken is None:
            lines.append([name, *[NOT_INSTALLED] * 7])
            continue
        for read in [one for one in taken if one != "write"]:
            cells = [name if read == "read" else f"{name}, {read}"]
            for what, bound in (("write", "write"), (read, "read")):
                median = float(np.median(taken[what]))
                quotient = np.median(np.divide(taken[what], plain[bound][: len(taken[what])]))
                cells += [figures(median), figures(raw / median / 1e9), f"{quotient:.2f}"]
            lines.append([*cells, megabytes(result["bytes"][name])])
    title = f"files: {result['rows']:,} rows of {workload}, {megabytes(raw)} MB of columns"
    return aligned(title, lines)


# Stalls


def train(
    buffer: Any, rows: Sequence[Any], batch: Any, pause: float, go_on: Callable[[], bool]
) -> tuple[list[float], list[float]]:
    """Microseconds of each add and each draw of a trainer."""
    adds, draws = [], []
    number = 0
    while go_on():
        start = time.perf_counter_ns()
        buffer.add_batch(*rows[number % len(rows)])
        added = time.perf_counter_ns()
        buffer.sample(len(batch), out=batch)
        draws.append((time.perf_counter_ns() - added) / 1000)
        adds.append((added - start) / 1000)
        number += 1
        if pause:
            time.sleep(pause)
    return adds, draws


def time_stalls(workload: str, buffer: Any, folder: Path, rounds: int, seconds: float) -> list[Any]:
    """A trainer's adds and draws, without and with saves, in turns."""
    make = frame_rows if workload == FRAMES else gaussian_rows
    pool = [array[: 16 * _ADDED] for array in next(make(16 * _ADDED, 7))]
    rows = [
        tuple(array[start : start + _ADDED] for array in pool)
        for start in range(0, 16 * _ADDED, _ADDED)
    ]
    batch = buffer.make_batch(32 if workload == FRAMES else 64)
    results = []
    for name, pause in _PAUSES.items():
        taken: dict[tuple[str, str], list[float]] = defaultdict(list)
        calls: list[float] = []
        written: list[float] = []
        for number in range(rounds):
            print(f"  {workload} {name}, round {number + 1}", file=sys.stderr)
            end = time.perf_counter() + seconds
            adds, draws = train(buffer, rows, batch, pause, partial(_before, end))
            taken["add", "without"] += adds
            taken["sample", "without"] += draws
            end = time.perf_counter() + seconds
            saved = False
            while not saved or _before(end):
                start = time.perf_counter()
                future = buffer.save_in_background(folder / "checkpoint")
                calls.append((time.perf_counter() - start) * 1e6)
                adds, draws = train(buffer, rows, batch, pause, partial(unfinished, future))
                written.append(time.perf_counter() - start)
                future.result()
                saved = True
                taken["add", "with"] += adds
                taken["sample", "with"] += draws
        (folder / "checkpoint").unlink()
        entry = {
            "workload": workload,
            "trainer": name,
            "saves": len(calls),
            "save_seconds": float(np.median(written)),
            "rows_added_per_save": _ADDED * len(taken["add", "with"]) / len(calls),
            "call_microseconds": {"median": float(np.median(calls)), "max": max(calls)},
            "microseconds": {
                f"{what} {when} a save": spread(values) for (what, when), values in taken.items()
            },
        }
        results.append(entry)
    return results


def _before(end: float) -> bool:
    return time.perf_counter() < end


def unfinished(future: "Future[Any]") -> bool:
    """Whether a save is still being written."""
    return not future.done()


def spread(microseconds: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile, largest, and how many there were."""
    middle, high = np.percentile(microseconds, (50, 99))
    return {
        "count": len(microseconds),
        "median": float(middle),
        "p99": float(high),
        "max": max(microseconds),
    }


def stalls_table(results: Sequence[Mapping[str, Any]]) -> str:
    """A line for adds and draws of each trainer, without and with a save."""
    lines = [["milliseconds", "p50", "p99", "max", "calls"]]
    for one in results:
        name = f"{one['workload']}, {one['trainer']}"
        for what in ("add", "sample"):
            for when in ("without", "with"):
                taken = one["microseconds"][f"{what} {when} a save"]
                cells = [f"{taken[part] / 1000:.3f}" for part in ("median", "p99", "max")]
                lines.append([f"{name}: {what} {when} a save", *cells, f"{taken['count']:,}"])
        call = one["call_microseconds"]
        cells = [f"{call['median'] / 1000:.3f}", "", f"{call['max'] / 1000:.3f}"]
        lines.append([f"{name}: save_in_background itself", *cells, str(one["saves"])])
        remark = f"{one['save_seconds']:.2f} s a save, {one['rows_added_per_save']:,.0f} rows added"
        lines.append([f"{name}: {remark}", "", "", "", ""])
    return aligned(f"stalls: a trainer adds {_ADDED} rows and draws 32 frames or 64 others", lines)


# Memory


def memory_of_a_save(workload: str, gigabytes: float) -> dict[str, Any]:
    """What a save took beyond the buffer, in a process of its own; Linux only."""
    run = subprocess.run(
        [sys.executable, __file__, "--memory-of", workload, "--gigabytes", str(gigabytes)],
        capture_output=True,
        text=True,
    )
    if run.returncode != 0:
        raise RuntimeError(f"the process that measures memory has failed:\n{run.stderr}")
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def measure_memory(workload: str, gigabytes: float) -> dict[str, Any]:
    """Save a sparse buffer while a thread overwrites it; resident memory before and at most."""
    row = new_buffer(workload, 1).columns
    rows = int(gigabytes * 1e9) // sum(column.stored_nbytes for column in row)
    buffer = new_buffer(workload, rows)
    columns = next((frame_rows if workload == FRAMES else gaussian_rows)(_ADDED, 0))
    buffer.add_batch(*columns)
    # As if all had been added: untouched memory reads as zeros and takes nothing.
    buffer._set_control({"total": rows})
    buffer._known.restore(rows)
    assert len(buffer) == rows
    with tempfile.TemporaryDirectory() as folder:
        buffer.save_in_background(Path(folder) / "warm")  # imports, and the first of every kind
        buffer._saves.submit(lambda: lambda: None).result()
        ended = threading.Event()
        added = 0
        before = resident()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        future = buffer.save_in_background(Path(folder) / "checkpoint")
        future.add_done_callback(lambda _: ended.set())
        while not ended.wait(0.001):
            buffer.add_batch(*columns)
            added += _ADDED
        future.result()
        peak = resident("VmHWM")
        size = (Path(folder) / "checkpoint").stat().st_size
    touched = added * buffer._layout.row_nbytes
    leaves = 4 * rows if buffer.prioritized else 0
    return {
        "workload": workload,
        "rows": rows,
        "buffer_bytes": rows * buffer._layout.row_nbytes,
        "before_bytes": before,
        "peak_bytes": peak,
        "leaves_bytes": leaves,
        "touched_bytes": touched,
        "extra_bytes": peak - before - leaves - touched,
        "file_bytes": size,
    }


def memory_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Megabytes of resident memory."""
    lines = [["MB", "buffer", "before", "peak", "leaves", "rows added", "beyond that"]]
    for one in results:
        parts = ("buffer", "before", "peak", "leaves", "touched", "extra")
        cells = [megabytes(one[f"{part}_bytes"]) for part in parts]
        lines.append([f"{one['rows']:,} rows of {one['workload']}", *cells])
    return aligned("memory: resident, during a save in the background with adds", lines)


# The whole


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the tables, write the file."""
    options = _parse(arguments)
    if options.memory_of is not None:
        print(json.dumps(measure_memory(options.memory_of, options.gigabytes)))
        return
    names = ("rounds", "rows", "frame_rows", "gigabytes", "seconds", "quick")
    report: dict[str, Any] = {
        "benchmark": "checkpoints",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "numpy": package_version("numpy"),
        "zstandard": package_version("zstandard"),
        "settings": {name: getattr(options, name) for name in names},
        "formats": {
            "cpreplay": {"version": _own_version(), "how": "save; load or resume, with checks"},
            **{one.name: {"version": one.version, "how": one.how} for one in OTHERS},
        },
        "files": {},
        "stalls": [],
        "memory": [],
    }
    print(heading("Replay checkpoints", report))
    order = random.Random(options.seed)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        for workload in (FRAMES, TRANSITIONS, PRIORITIZED):
            rows = options.frame_rows if workload == FRAMES else options.rows
            buffer = filled_buffer(workload, rows)
            report["files"][workload] = time_files(buffer, folder, options.rounds, order)
            print(files_table(workload, report["files"][workload]), flush=True)
            if workload != TRANSITIONS:
                report["stalls"] += time_stalls(
                    workload, buffer, folder, options.rounds, options.seconds
                )
            del buffer
    print(stalls_table(report["stalls"]), flush=True)
    if sys.platform == "linux":
        for workload in (FRAMES, PRIORITIZED):
            print(f"memory of a save of {workload}", file=sys.stderr)
            report["memory"].append(memory_of_a_save(workload, options.gigabytes))
        print(memory_table(report["memory"]))
    print(_legend(report))
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    summary, _, description = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="benchmarks.checkpoints",
        description=f"{summary}{description}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--rounds", type=positive, help="rounds (default 3, quick 2)")
    parser.add_argument("--rows", type=positive, help="transitions (default 1,000,000)")
    parser.add_argument("--frame-rows", type=positive, help="rows of frames (default 102,000)")
    parser.add_argument("--gigabytes", type=float, help="of the sparse buffer (default 6)")
    parser.add_argument("--seconds", type=float, help="of a trainer's turn (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the order of formats")
    parser.add_argument("--folder", type=Path, help="where files are written, as a folder in it")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything as JSON")
    parser.add_argument("--memory-of", choices=(FRAMES, PRIORITIZED), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    quick = {"rounds": 2, "rows": 20_000, "frame_rows": 600, "gigabytes": 0.05, "seconds": 0.1}
    usual = {
        "rounds": 3,
        "rows": 1_000_000,
        "frame_rows": 102_000,
        "gigabytes": 6.0,
        "seconds": 3.0,
    }
    for name, value in (quick if options.quick else usual).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def _own_version() -> str:
    import cpreplay  # a plain checkout has no metadata to read it from

    return cpreplay.__version__


def _legend(report: Mapping[str, Any]) -> str:
    lines = [
        f"Medians of {report['settings']['rounds']} rounds; a ratio is the median of the rounds' "
        "own ratios, below 1 faster than the plain copy.",
        "GB/s are of the columns' bytes. resume reads a file twice: it compares every checksum "
        "before it changes anything.",
        *(f"{name} {one['version']}: {one['how']}." for name, one in report["formats"].items()),
    ]
    if report["settings"]["quick"]:
        lines.insert(0, "--quick: these figures show that the benchmark works, and nothing else.")
    return "\n" + "\n".join(lines)


if __name__ == "__main__":
    main()
