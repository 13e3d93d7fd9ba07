"""n-step aggregation inside CUDA graphs: a captured loop gives what the direct one gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import GPUNStepBuffer, NStepSampleStep, ReplaySampleStep
from cpreplay.cuda_device import Kernels
from tests.conftest import Backend
from tests.cuda_emulator import emu
from tests.cuda_emulator.fakecupy._simulation import sim
from tests.nstep_model import Recording, Step

N, ENVS, GAMMA, BATCH, CAPACITY = 3, 4, 0.9, 8, 40
STEP = ("obs", "action", "reward", "next_obs", "terminated", "truncated")
EXTRA = {"frame": ((3,), "uint8"), "demo": ((), "bool")}
DRAWN = (
    "obs",
    "action",
    "reward",
    "next_obs",
    "terminated",
    "discount",
    "frame",
    "demo",
    "indices",
)


class Loop:
    """Device n-step returns, a buffer behind them, and the arrays that steps are written to."""

    def __init__(self, device: Backend, prioritized: bool = False) -> None:
        self.device = device
        self.steps = GPUNStepBuffer(
            N, (2,), (), GAMMA, n_envs=ENVS, action_dtype="int64", extra_columns=EXTRA
        )
        self.buffer = device.buffer(
            (2,), (), CAPACITY, prioritized, action_dtype="int64", seed=3,
            extra_columns={"discount": (), **EXTRA},
        )  # fmt: skip
        self.out = self.buffer.make_batch(BATCH)
        self.given = {name: device.array(value) for name, value in inputs(0).items()}
        self.broken = device.array(np.zeros(ENVS, bool))
        self.td_errors = device.array(np.ones(BATCH), np.float32)

    def feed(self, number: int) -> None:
        """Write a step into the fixed arrays, and wait until it is there."""
        for name, value in inputs(number).items():
            self.given[name][...] = self.device.array(value)
        self.broken[...] = self.device.array(broken(number))
        self.td_errors[...] = self.device.array(td_errors(number))
        self.device.cupy.cuda.Device().synchronize()

    def append(self) -> Any:
        return self.steps.append(**self.given)

    def add(self) -> None:
        w = self.append()
        self.buffer.add_batch(
            w.obs, w.action, w.reward, w.next_obs, w.terminated, mask=w.valid,
            discount=w.discount, **w.extra,
        )  # fmt: skip

    def run(self) -> None:
        """All of one step of training, but for the learning."""
        self.steps.reset(self.broken)
        self.add()
        self.buffer.sample(BATCH, out=self.out)
        if self.buffer.prioritized:
            self.buffer.update_priorities(self.out, self.td_errors)

    def drawn(self) -> dict[str, bytes]:
        names = [*DRAWN, *(["weights"] if self.buffer.prioritized else [])]
        return {name: self.device.numpy(self.out[name]).tobytes() for name in names}

    def held(self) -> dict[str, bytes]:
        rows = {
            column.name: self.device.numpy(self.buffer.column(column.name)).tobytes()
            for column in self.buffer.columns
        }
        pending = {f"pending {k}": v.tobytes() for k, v in self.steps.state().items()}
        return rows | pending


def inputs(number: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(number)
    return {
        "obs": generator.normal(size=(ENVS, 2)).astype(np.float32),
        "action": generator.integers(0, 2**40, ENVS),
        "reward": generator.normal(size=ENVS).astype(np.float32),
        "next_obs": generator.normal(size=(ENVS, 2)).astype(np.float32),
        "terminated": generator.random(ENVS) < 0.15,
        "truncated": generator.random(ENVS) < 0.15,
        "frame": generator.integers(0, 256, (ENVS, 3), np.uint8),
        "demo": generator.random(ENVS) < 0.5,
        "mask": generator.random(ENVS) < 0.9,
    }


def broken(number: int) -> np.ndarray:
    return np.random.default_rng((number, 1)).random(ENVS) < 0.03


def td_errors(number: int) -> np.ndarray:
    return np.random.default_rng((number, 2)).normal(size=BATCH).astype(np.float32)


def capture(device: Backend, work: Callable[[], Any]) -> tuple[Any, Any]:
    device.cupy.cuda.Device().synchronize()
    stream = device.cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        work()
        graph = stream.end_capture()
    return graph, stream


def replay(graph: Any, stream: Any) -> None:
    graph.launch(stream)
    stream.synchronize()


def filled(device: Backend, prioritized: bool = False) -> Loop:
    """A loop with enough rows to draw from, so that a captured draw may be made."""
    loop = Loop(device, prioritized)
    for number in range(4):
        loop.feed(number)
        loop.add()
    rows = int(loop.buffer.stats()["size"])
    assert rows >= BATCH
    loop.buffer.sample(BATCH, out=loop.out)
    return loop


def assert_captured_equals_direct(captured: Loop, direct: Loop, replays: int) -> None:
    graph, stream = capture(captured.device, captured.run)
    assert captured.held() == direct.held()  # capturing runs nothing
    seen = set()
    for number in range(10, 10 + replays):
        captured.feed(number)
        replay(graph, stream)
        direct.feed(number)
        direct.run()
        drawn = captured.drawn()
        assert drawn == direct.drawn()
        seen.add(drawn["reward"])
    assert len(seen) == replays
    assert captured.held() == direct.held()
    assert captured.buffer.stats() == direct.buffer.stats()
    captured.buffer.check()


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_captured_loop_equals_the_direct_one(prioritized: bool, device: Backend) -> None:
    captured, direct = (filled(device, prioritized) for _ in range(2))
    assert_captured_equals_direct(captured, direct, replays=120)


def test_pending_counts_of_the_moment_of_capture_would_be_noticed(device: Backend) -> None:
    captured, direct = (filled(device) for _ in range(2))
    counts = captured.steps._ops._counts
    baked = device.array(device.numpy(counts))
    plain_append = captured.append

    def append() -> Any:
        counts[...] = baked
        return plain_append()

    captured.append = append
    with pytest.raises(AssertionError):
        assert_captured_equals_direct(captured, direct, replays=20)


def test_a_captured_append_gives_the_windows_of_whole_episodes(device: Backend) -> None:
    loop, recording = Loop(device), Recording(N, GAMMA, ENVS)
    held = []

    def work() -> None:
        loop.steps.reset(loop.broken)
        held.append(loop.append())

    graph, stream = capture(device, work)
    (out,) = held
    count = 0
    for number in range(120):
        loop.feed(number)
        replay(graph, stream)
        values = inputs(number)
        recording.reset(np.flatnonzero(broken(number)).tolist())
        recording.append(
            {
                env: Step(
                    **{name: value[env] for name, value in values.items() if name in STEP},
                    extra={name: values[name][env] for name in EXTRA},
                )
                for env in np.flatnonzero(values["mask"]).tolist()
            }
        )
        windows = recording.windows_of(number)
        valid = device.numpy(out.valid)
        got = {
            name: device.numpy(array)[valid]
            for name, array in {
                "obs": out.obs, "next_obs": out.next_obs, "reward": out.reward,
                "discount": out.discount, "frame": out.extra["frame"],
                "truncated": out.truncated,
            }.items()
        }  # fmt: skip
        assert got["reward"].tolist() == [window.returned(GAMMA) for window in windows]
        assert got["discount"].tolist() == [window.discount(GAMMA) for window in windows]
        assert got["truncated"].tolist() == [bool(window.last.truncated) for window in windows]
        assert got["obs"].tolist() == [window.first.obs.tolist() for window in windows]
        assert got["next_obs"].tolist() == [window.last.next_obs.tolist() for window in windows]
        assert got["frame"].tolist() == [window.first.extra["frame"].tolist() for window in windows]
        count += len(windows)
    assert count > 200


def test_a_reset_while_capturing_is_captured(device: Backend) -> None:
    loop = Loop(device)
    loop.feed(0)
    loop.given["mask"][...] = device.array([True] * ENVS)
    for name in ("terminated", "truncated"):
        loop.given[name][...] = device.array([False] * ENVS)
    device.cupy.cuda.Device().synchronize()
    mask = device.array([True, False, True, False])
    device.cupy.cuda.Device().synchronize()
    some, stream = capture(device, lambda: loop.steps.reset(mask))
    every, other = capture(device, loop.steps.reset)
    loop.append()
    assert device.numpy(loop.steps.pending).tolist() == [1, 1, 1, 1]
    device.cupy.cuda.Device().synchronize()
    replay(some, stream)
    assert device.numpy(loop.steps.pending).tolist() == [0, 1, 0, 1]
    mask[...] = device.array([False, True, False, False])
    device.cupy.cuda.Device().synchronize()
    replay(some, stream)  # the mask of the moment
    assert device.numpy(loop.steps.pending).tolist() == [0, 0, 0, 1]
    replay(every, other)
    assert device.numpy(loop.steps.pending).tolist() == [0, 0, 0, 0]


def test_a_graph_captured_early_goes_on_from_a_restored_state(device: Backend) -> None:
    source, target = Loop(device), Loop(device)
    held: list[Any] = []
    graph, stream = capture(device, lambda: held.append(target.append()))
    for number in range(5):
        source.feed(number)
        source.append()
        target.feed(number + 50)
        replay(graph, stream)
    target.steps.restore(source.steps.state())
    for number in range(5, 15):
        for loop in (source, target):
            loop.feed(number)
        right = source.append()
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        valid = device.numpy(right.valid)
        assert device.numpy(held[0].valid).tolist() == valid.tolist()
        for name in ("obs", "reward", "next_obs", "discount"):
            one, other = (device.numpy(getattr(out, name))[valid] for out in (held[0], right))
            assert one.tobytes() == other.tobytes(), name


def test_a_captured_block_equals_the_direct_one(device: Backend) -> None:
    def make() -> NStepSampleStep:
        buffer = device.buffer(
            (2,), (), CAPACITY, True, action_dtype="int64", seed=3,
            extra_columns={"discount": (), **EXTRA},
        )  # fmt: skip
        block = NStepSampleStep(ReplaySampleStep(buffer, BATCH), N, GAMMA, n_envs=ENVS)
        block.setup(0, fixed=True)
        for number in range(6):
            block.add_batch(**inputs(number))
        assert block.count() >= BATCH
        return block

    captured, direct = make(), make()
    given = {name: device.array(value) for name, value in inputs(0).items()}
    errors = device.array(np.ones(BATCH), np.float32)
    batches = []

    def work() -> None:
        captured.add_batch(**given)
        batches.append(captured.step(0))
        captured.update_priorities(errors)

    graph, stream = capture(device, work)
    for number in range(10, 60):
        for name, value in inputs(number).items():
            given[name][...] = device.array(value)
        errors[...] = device.array(td_errors(number))
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        direct.add_batch(**inputs(number))
        right = direct.step(0)
        direct.update_priorities(td_errors(number))
        for name in (*DRAWN, "weights"):
            got = device.numpy(batches[0][name]).tobytes()
            assert got == device.numpy(right[name]).tobytes(), name
    assert captured.buffer.stats() == direct.buffer.stats()


# Launches and waits


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_loop_launches_kernels_and_does_nothing_else(
    prioritized: bool, emulated_device: Backend
) -> None:
    loop = filled(emulated_device, prioritized)
    with sim.recording() as record:
        loop.steps.reset(loop.broken)
    assert record.launch_names == ["forget_steps"]
    assert_only_launches(record)
    with sim.recording() as record:
        loop.append()
    assert record.launch_names == ["append_steps"]
    assert_only_launches(record)
    with sim.recording() as record:
        loop.run()
    add = ["store_rows", "enter_rows" if prioritized else "move_cursor"]
    draw = ["draw_by_priority" if prioritized else "draw_rows", "gather_rows"]
    update = ["update_few"] if prioritized else []
    assert record.launch_names == ["forget_steps", "append_steps", *add, *draw, *update]
    assert_only_launches(record)


def assert_only_launches(record: Any) -> None:
    assert record.allocations == record.h2d_copies == record.d2h_copies == 0
    assert record.synchronisations == 0


def test_a_replayed_loop_runs_the_kernels_that_were_captured(emulated_device: Backend) -> None:
    loop = filled(emulated_device)
    with sim.recording() as record:
        graph, stream = capture(emulated_device, loop.run)
    names = record.launch_names
    assert names[:2] == ["forget_steps", "append_steps"]
    assert len(names) == 6
    with sim.recording() as record:
        replay(graph, stream)
    assert [name for name, _ in record.ran] == names
    assert record.allocations == record.h2d_copies == record.d2h_copies == 0


@pytest.mark.parametrize("columns", [0, 27])
@pytest.mark.parametrize("n", [1, 7])
def test_an_append_is_one_launch_for_any_columns_and_window(
    columns: int, n: int, emulated_device: Backend
) -> None:
    extra = {f"extra_{k}": () for k in range(columns)}
    steps = GPUNStepBuffer(n, 2, (), n_envs=3, extra_columns=extra)
    array = emulated_device.array
    zeros, rows = array(np.zeros(3), np.float32), array(np.zeros((3, 2)), np.float32)
    no = array([False] * 3)
    with sim.recording() as record:
        for _ in range(3):
            steps.append(rows, zeros, zeros, rows, no, no, **dict.fromkeys(extra, zeros))
    assert record.launch_names == ["append_steps"] * 3
    assert_only_launches(record)


def test_an_upload_of_host_arrays_is_one_transfer(emulated_device: Backend) -> None:
    loop = Loop(emulated_device)
    with sim.recording() as record:
        loop.steps.append(**{k: v for k, v in inputs(1).items() if k != "mask"})
    assert record.launch_names == ["append_steps"]
    assert record.h2d_copies == 1
    assert record.d2h_copies == record.synchronisations == 0


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 32), (7, 256)])
def test_any_launch_shape_gives_the_same_loop(
    shape: tuple[int, int], device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, other = filled(device), filled(device)
    plain = Kernels.launch

    def launch(kernels: Kernels, name: str, grid: Any, *args: Any, **options: Any) -> None:
        if name in ("append_steps", "forget_steps"):
            kernels._kernels[name]((shape[0],), (shape[1],), args)
        else:
            plain(kernels, name, grid, *args, **options)

    for number in range(10, 25):
        right.feed(number)
        right.run()
        other.feed(number)
        with monkeypatch.context() as patched:
            patched.setattr(Kernels, "launch", launch)
            other.run()
        assert other.drawn() == right.drawn()
    assert other.held() == right.held()


def test_a_longer_window_costs_a_flag_for_each_of_its_places(emulated_device: Backend) -> None:
    if emu.config.mode != "check":
        pytest.skip("accesses are counted in mode check")

    def accesses(n: int, *, end: bool) -> int:
        steps = GPUNStepBuffer(n, 64, (), n_envs=2)
        rows = np.zeros((2, 64), np.float32)
        with sim.recording() as record:
            steps.append(rows, [0, 0], [0, 0], rows, [end, end], [False, False])
            emulated_device.cupy.cuda.Device().synchronize()
        return sum(count for _, count in record.ran)

    for end in (False, True):
        assert 0 < accesses(50, end=end) - accesses(5, end=end) <= 2 * 2 * 45


# Refusals

REFUSED: dict[str, Callable[[Loop], Any]] = {
    "host arrays": lambda loop: loop.steps.append(**inputs(1)),
    "one host array": lambda loop: loop.steps.append(
        **{**loop.given, "truncated": np.zeros(ENVS, bool)}
    ),
    "a host mask": lambda loop: loop.steps.append(**{**loop.given, "mask": [True] * ENVS}),
    "a cast": lambda loop: loop.steps.append(**{**loop.given, "reward": loop.double}),
    "a strided array": lambda loop: loop.steps.append(**{**loop.given, "obs": loop.wide[:, ::2]}),
    "a host mask of a reset": lambda loop: loop.steps.reset([True] * ENVS),
    "state": lambda loop: loop.steps.state(),
    "restore": lambda loop: loop.steps.restore(loop.kept),
    "a new buffer": lambda loop: GPUNStepBuffer(2, 2, ()),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_captured_is_refused_before_anything_is_launched(
    call: str, emulated_device: Backend
) -> None:
    device = emulated_device
    loop = filled(device)
    loop.kept = loop.steps.state()
    loop.double = device.array(np.zeros(ENVS), np.float64)
    loop.wide = device.array(np.zeros((ENVS, 4)), np.float32)
    before = loop.held()

    def refused() -> None:
        with sim.recording() as record, pytest.raises(cpreplay.CaptureError, match="captur"):
            REFUSED[call](loop)
        assert record.launch_names == []
        assert record.d2h_copies == record.h2d_copies == record.synchronisations == 0
        loop.steps.reset(loop.broken)  # and the capture stays valid

    graph, stream = capture(device, refused)
    assert loop.held() == before
    loop.broken[...] = device.array([True] * ENVS)
    device.cupy.cuda.Device().synchronize()
    replay(graph, stream)
    assert device.numpy(loop.steps.pending).tolist() == [0] * ENVS


def test_one_environment_can_be_captured_without_its_axis(device: Backend) -> None:
    steps, twin = (GPUNStepBuffer(2, 2, (), 0.5) for _ in range(2))
    given = [device.array(value, np.float32) for value in ([0, 0], 0, 0, [0, 0])]
    flags = [device.array(False), device.array(False)]
    held = []
    graph, stream = capture(device, lambda: held.append(steps.append(*given, *flags)))
    for number in range(5):
        for array, value in zip(
            given, ([number] * 2, number, number, [number + 1] * 2), strict=True
        ):
            array[...] = device.array(value, np.float32)
        flags[0][...] = device.array(number == 3)
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        right = twin.append([number] * 2, number, number, [number + 1] * 2, number == 3, False)
        for name in ("obs", "reward", "next_obs", "discount", "valid", "terminated"):
            got = device.numpy(getattr(held[0], name))
            np.testing.assert_array_equal(got, device.numpy(getattr(right, name)))
