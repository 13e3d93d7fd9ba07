"""Replay on a card, beside the card's own copies and PyTorch's operations.

``python -m benchmarks.device`` in a checkout, or ``python benchmarks/device.py`` anywhere. It needs
CuPy and a CUDA device; PyTorch is timed where it is installed with CUDA.

The workloads are those of ``benchmarks.peers``. Each call is timed twice: launched one by one by
Python, and replayed as a captured CUDA graph, which leaves the card's own time. Beside them stands
the time in which the card copies as many bytes as the call has to read and write, at the bandwidth
of a large copy.

PyTorch draws rows with randint and takes them with index_select; by priority it makes the running
sums of all priorities in each draw (cumsum) and looks the targets up in them (searchsorted), since
it has no tree; an update is an assignment to drawn rows. The step of both is captured in a graph
of its own, by torch.cuda.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

if not __package__:  # run as a file: import from the checkout that holds it
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.contenders import ALPHA, BETA, EPSILON
from benchmarks.interleave import Call, Timing
from benchmarks.report import heading, new_report, positive, write_json
from benchmarks.tables import aligned, figures
from benchmarks.workloads import (
    ACTION,
    ADD_BATCHES,
    OBS,
    PIXEL_BATCHES,
    PIXEL_SHAPE,
    PIXELS,
    PRIORITIZED,
    SAMPLE_BATCHES,
    UNIFORM,
    Workload,
)


@dataclass(frozen=True)
class Case:
    """One call, and the bytes that it has to read and write at least."""

    workload: str
    name: str
    nbytes: int
    call: Call


def own_cases(cupy: Any, workload: Workload, rows: int, batches: Sequence[int]) -> list[Case]:
    """Calls of a full `cpreplay.StoreReplayGpu`, which can all be captured."""
    buffer = _full_buffer(workload, rows)
    row_bytes = workload.row_bytes
    cases = []
    for lanes in (size for size in batches if size <= rows):
        out = buffer.make_batch(lanes)

        def sample(lanes: int = lanes, out: Any = out) -> Any:
            return buffer.sample(lanes, out=out)

        cases.append(Case(workload.name, f"sample({lanes}, out=)", 2 * lanes * row_bytes, sample))
        if not workload.prioritized:
            continue
        errors = cupy.asarray(np.random.default_rng(lanes).standard_normal(lanes))

        def update(out: Any = out, errors: Any = errors) -> None:
            buffer.update_priorities(out, errors)

        def step(sample: Call = sample, update: Call = update) -> None:
            sample()
            update()

        written = lanes * (4 + errors.dtype.itemsize)
        sample()  # an update needs a drawn batch
        cases.append(Case(workload.name, f"update({lanes})", written, update))
        cases.append(
            Case(workload.name, f"step({lanes}, out=)", 2 * lanes * row_bytes + written, step)
        )
    for count in () if workload.pixels else (size for size in ADD_BATCHES if size <= rows):
        columns = [cupy.asarray(column) for column in workload.make(count, 0)]

        def add_batch(columns: list[Any] = columns) -> None:
            buffer.add_batch(*columns)

        cases.append(Case(workload.name, f"add_batch({count})", 2 * count * row_bytes, add_batch))
    return cases


def _full_buffer(workload: Workload, rows: int) -> Any:
    from cpreplay import StoreReplayGpu

    if workload.pixels:
        buffer = StoreReplayGpu(
            PIXEL_SHAPE, (), rows, obs_dtype="uint8", action_dtype="int64", seed=0
        )
    else:
        buffer = StoreReplayGpu(OBS, ACTION, rows, prioritized=workload.prioritized, seed=0)
    if workload.prioritized:
        buffer.configure_per(ALPHA, BETA, EPSILON)
    for chunk in workload.chunks(rows):
        buffer.add_batch(*chunk)
    if len(buffer) != rows:
        raise RuntimeError(f"cpreplay holds {len(buffer):,} rows, not {rows:,}")
    return buffer


class TorchRing:
    """What the same draws take in PyTorch's own operations."""

    def __init__(self, torch: Any, workload: Workload, rows: int, device: str) -> None:
        self._torch = torch
        self._rows = rows
        self._device = device
        parts = zip(*workload.chunks(rows), strict=True)
        self.columns = [torch.from_numpy(np.concatenate(part)).to(device) for part in parts]
        self.powers = torch.ones(rows, device=device)  # priorities to the power of alpha

    def uniform(self, lanes: int) -> Call:
        torch = self._torch

        def sample() -> list[Any]:
            rows = torch.randint(0, self._rows, (lanes,), device=self._device)
            return [column.index_select(0, rows) for column in self.columns] + [rows]

        return sample

    def by_priority(self, lanes: int) -> Call:
        """Columns, rows and weights: lane i from the i-th of equal slices of the total."""
        torch = self._torch
        slices = torch.arange(lanes, device=self._device)

        def sample() -> list[Any]:
            sums = self.powers.cumsum(0, dtype=torch.float64)
            reals = torch.rand(lanes, device=self._device, dtype=torch.float64)
            targets = (slices + reals) * (sums[-1] / lanes)
            rows = torch.searchsorted(sums, targets, right=True).clamp_(max=self._rows - 1)
            weights = self.powers.index_select(0, rows) ** -BETA
            columns = [column.index_select(0, rows) for column in self.columns]
            return [*columns, rows, weights / weights.max()]

        return sample

    def step(self, lanes: int) -> Call:
        sample = self.by_priority(lanes)
        errors = self._torch.randn(lanes, device=self._device)

        def step() -> None:
            *_, rows, _ = sample()
            self.powers[rows] = (errors.abs() + EPSILON) ** ALPHA

        return step

    def cases(self, workload: Workload, batches: Sequence[int]) -> list[Case]:
        """The calls that `own_cases` has too, without adds."""
        cases = []
        for lanes in (size for size in batches if size <= self._rows):
            nbytes = 2 * lanes * workload.row_bytes
            draw = self.by_priority(lanes) if workload.prioritized else self.uniform(lanes)
            cases.append(Case(workload.name, f"sample({lanes}, out=)", nbytes, draw))
            if workload.prioritized:
                written = 12 * lanes
                name = f"step({lanes}, out=)"
                cases.append(Case(workload.name, name, nbytes + written, self.step(lanes)))
        return cases


def captured(cupy: Any, call: Call) -> tuple[Call, Call]:
    """A replay of the call as a CUDA graph, and what waits for it."""
    call()  # CUDA may load a kernel only when it is first launched
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        call()
        graph = stream.end_capture()

    def replay() -> None:
        graph.launch(stream)

    return replay, stream.synchronize


def torch_captured(torch: Any, call: Call) -> Call:
    """The same with torch's own graphs."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    replay: Call = graph.replay
    return replay


def timed(call: Call, wait: Callable[[], Any], times: int, rounds: int) -> Timing:
    """Microseconds a call, of so many in a row with one wait at the end."""
    call()
    wait()
    taken = np.empty(rounds)
    for number in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(times):
            call()
        wait()
        taken[number] = (time.perf_counter_ns() - start) / times / 1000
    return Timing.of(taken)


def copy_bandwidth(cupy: Any, nbytes: int, rounds: int) -> float:
    """Bytes read and written a second by a large copy on the card."""
    source = cupy.zeros(nbytes, np.uint8)
    target = cupy.zeros(nbytes, np.uint8)

    def copy() -> None:
        target[...] = source

    taken = timed(copy, cupy.cuda.Device().synchronize, 4, rounds).median
    return 2 * nbytes / (taken / 1e6)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the table, write the file."""
    options = _parse(arguments)
    try:
        import cupy
    except ImportError as error:
        sys.exit(f"benchmarks.device: it needs CuPy ({error})")
    if not cupy.cuda.is_available():
        sys.exit("benchmarks.device: CuPy finds no CUDA device")
    torch = _torch_with_cuda()
    report = new_report("device", {key: _plain(value) for key, value in vars(options).items()})
    report["card"] = _card(cupy)
    report["torch"] = torch.__version__ if torch else None
    report["copy_bytes_per_second"] = bandwidth = copy_bandwidth(
        cupy, options.copy_bytes, options.rounds
    )
    print(heading("Replay buffers on a card", report))
    print(
        f"{report['card']}: a copy of {options.copy_bytes:,} bytes reads and writes "
        f"{bandwidth / 1e9:,.0f} GB/s"
    )
    print(f"PyTorch {torch.__version__}" if torch else "no PyTorch with CUDA: it is left out")
    sizes = options.batches or SAMPLE_BATCHES
    for workload, rows, batches in (
        (UNIFORM, options.rows, sizes),
        (PRIORITIZED, options.rows, sizes),
        (PIXELS, options.pixel_rows, options.batches or PIXEL_BATCHES),
    ):
        own = own_cases(cupy, workload, rows, batches)
        results = [_result(cupy, case, bandwidth, options) for case in own]
        if torch:
            del own
            _add_torch(torch, workload, rows, batches, results, options)
        report["results"] += results
        title = f"{workload.name}, {rows:,} rows: {workload.description}"
        print(aligned(title, _cells(results)), flush=True)
    if options.json is not None:
        write_json(report, options.json)


def _result(cupy: Any, case: Case, bandwidth: float, options: Any) -> dict[str, Any]:
    wait = cupy.cuda.Device().synchronize
    launched = timed(case.call, wait, options.times, options.rounds)
    replay, wait_for_replay = captured(cupy, case.call)
    replayed = timed(replay, wait_for_replay, options.times, options.rounds)
    return {
        "workload": case.workload,
        "case": case.name,
        "bytes": case.nbytes,
        "microseconds": {"launched": asdict(launched), "graph": asdict(replayed)},
        "copy_microseconds": case.nbytes / bandwidth * 1e6,
    }


def _add_torch(
    torch: Any,
    workload: Workload,
    rows: int,
    batches: Sequence[int],
    results: list[dict[str, Any]],
    options: Any,
) -> None:
    by_case = {one["case"]: one["microseconds"] for one in results}
    for case in TorchRing(torch, workload, rows, "cuda").cases(workload, batches):
        wait = torch.cuda.synchronize
        taken = by_case[case.name]
        taken["torch"] = asdict(timed(case.call, wait, options.times, options.rounds))
        replay = torch_captured(torch, case.call)
        taken["torch graph"] = asdict(timed(replay, wait, options.times, options.rounds))


def _cells(results: Sequence[dict[str, Any]]) -> list[list[str]]:
    entries = list(dict.fromkeys(name for one in results for name in one["microseconds"]))
    lines = [["us a call: median", *entries, "copy of as many bytes", "graph / copy"]]
    for one in results:
        taken = one["microseconds"]
        copy = one["copy_microseconds"]
        lines.append(
            [
                one["case"],
                *(figures(taken[name]["median"]) if name in taken else "-" for name in entries),
                figures(copy),
                figures(taken["graph"]["median"] / copy),
            ]
        )
    return lines


def _torch_with_cuda() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _card(cupy: Any) -> str:
    name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    summary, _, description = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="benchmarks.device",
        description=f"{summary}{description}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small rings, to see that it works")
    parser.add_argument("--rounds", type=positive, help="rounds (default 30, quick 2)")
    parser.add_argument("--times", type=positive, help="calls a round (default 200, quick 4)")
    parser.add_argument("--rows", type=positive, help="transitions (default 1,000,000)")
    parser.add_argument("--pixel-rows", type=positive, help="images (default 20,000)")
    parser.add_argument("--batches", type=positive, nargs="+", help="rows of a minibatch")
    parser.add_argument("--copy-bytes", type=positive, help="of the copy (default 1,073,741,824)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    options = parser.parse_args(arguments)
    small = {"rounds": 2, "times": 4, "rows": 5000, "pixel_rows": 50, "copy_bytes": 2**20}
    full = {"rounds": 30, "times": 200, "rows": 1_000_000, "pixel_rows": 20_000,
            "copy_bytes": 2**30}  # fmt: skip
    for name, value in (small if options.quick else full).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


if __name__ == "__main__":
    main()
