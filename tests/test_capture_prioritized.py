"""Prioritized replay in CUDA graphs: what is captured once follows the buffer, and nothing waits.

The step that is captured is a whole one of training: add, draw, TD errors computed on the device
from what was drawn, update. Its twin makes the same calls without a graph.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import cuda_device, device_priorities
from cpreplay.control import CONTROL
from cpreplay.kernel_structs import MAX_FEW
from tests.conftest import Backend
from tests.cuda_emulator.fakecupy._simulation import sim
from tests.golden import reference
from tests.strategies import COLUMNS, numbered_rows, stored_numbers
from tests.test_capture import capture, on_device, replay

CAPACITY = 50

# What a batch has beside the columns of a transition.
OF_DRAW = ("indices", "weights")

# A TD error of either sign, which depends on the row, on what is stored in it, and on the weight;
# the largest grows as training goes on, so that max_priority does.
LEARNER = r"""
extern "C" __global__ void td_errors(const long long* rows, const float* rewards,
                                     const float* weights, long long lanes, float* errors) {
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < lanes;
         i += gridDim.x * blockDim.x) {
        const long long reward = (long long)rewards[i];
        const long long mixed = (rows[i] * 37 + reward * 11) % 101 - 50;
        errors[i] = (float)(mixed * (64 + reward)) * 0.001953125f * weights[i];
    }
}
"""


class Run:
    """A prioritized buffer with three rows, and a step of training between fixed arrays."""

    def __init__(
        self,
        device: Backend,
        *,
        lanes: int = 8,
        rows: int = 4,
        masked: bool = False,
        mapped: bool = False,
        late_add: bool = False,
        inputs: "Run | None" = None,
    ) -> None:
        self.device = device
        self.buffer = device.buffer((3,), (2,), CAPACITY, True, seed=11)
        self.buffer.add_batch(**numbered_rows(0, 3))
        if inputs is None:
            self.rows = on_device(device, numbered_rows(3, rows))
            self.mask = device.array([True] * rows) if masked else None
        else:  # read the same arrays
            self.rows, self.mask = inputs.rows, inputs.mask
        self.batch = self.buffer.make_batch(lanes)
        self.errors = device.cupy.zeros(lanes, np.float32)
        self._given = self.batch.map(lambda array: array) if mapped else self.batch
        self._late_add = late_add
        self._td_errors = device.cupy.RawKernel(LEARNER, "td_errors")
        self._td_errors.compile()

    def bring(self, step: int) -> None:
        """Put the transitions of a step into the arrays that it reads."""
        count = len(self.rows["reward"])
        for name, column in numbered_rows(3 + count * step, count).items():
            self.rows[name][...] = self.device.array(column)
        if self.mask is not None:
            kept = np.random.default_rng(step).random(count) < 0.5
            self.mask[...] = self.device.array(kept & (step % 5 > 0))

    def step(self) -> None:
        if not self._late_add:
            self._add()
        self.buffer.sample(len(self.batch), out=self.batch)
        batch = self._given
        arguments = (batch.indices, batch.reward, batch.weights, np.int64(len(batch)), self.errors)
        self._td_errors((2,), (128,), arguments)
        if self._late_add:  # which overwrites some of the rows that were drawn
            self._add()
        self.buffer.update_priorities(batch, self.errors)

    def _add(self) -> None:
        self.buffer.add_batch(**self.rows, mask=self.mask)

    def drawn(self, names: tuple[str, ...] = (*COLUMNS, *OF_DRAW)) -> dict[str, np.ndarray]:
        return {name: self.device.numpy(self.batch[name]) for name in names}

    def state(self) -> dict[str, Any]:
        """Rows, leaves, sums and the control block, but for the number that no two share."""
        levels = self.buffer._ops.priorities.levels()
        control = self.buffer._ops.control()
        del control["run"]
        rows = {name: self.device.numpy(self.buffer.column(name)) for name in COLUMNS}
        sums = {f"level {k}": self.device.numpy(level) for k, level in enumerate(levels)}
        return {**rows, **sums, **control}


def assert_equal(first: dict[str, Any], second: dict[str, Any]) -> None:
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], name, strict=True)


def assert_captured_steps_equal_direct_ones(
    device: Backend,
    steps: int,
    before_each: Callable[[int, Any], Any] = lambda step, buffer: None,
    **options: Any,
) -> tuple[Run, list[dict[str, np.ndarray]]]:
    """Steps of a graph that was captured with three rows in the ring, against the same calls."""
    captured = Run(device, **options)
    direct = Run(device, inputs=captured, **options)
    graph, stream = capture(device, captured.step)
    seen = []
    for step in range(steps):
        captured.bring(step)
        before_each(step, captured.buffer)
        before_each(step, direct.buffer)
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        direct.step()
        seen.append(captured.drawn(OF_DRAW))
        assert_equal(seen[-1], direct.drawn(OF_DRAW))
        if step % 10 == 0:
            assert_equal(captured.drawn(COLUMNS), direct.drawn(COLUMNS))
            assert_equal(captured.state(), direct.state())
    assert_equal(captured.state(), direct.state())
    captured.buffer.check()
    return captured, seen


def test_a_thousand_replays_of_add_draw_learn_update_equal_the_direct_calls(
    device: Backend,
) -> None:
    captured, seen = assert_captured_steps_equal_direct_ones(device, 1000)
    stats = captured.buffer.stats()
    assert stats["draws"] == 1000
    assert stats["total"] == 4003
    assert stats["stale_updates"] == stats["invalid_priorities"] == 0
    assert stats["max_priority"] > 100  # priorities went on changing,
    assert len({batch["indices"].tobytes() for batch in seen[-100:]}) > 50  # and so did draws


@pytest.mark.parametrize(
    "options",
    [
        {"late_add": True},
        {"masked": True},
        {"mapped": True},
        {"masked": True, "late_add": True, "mapped": True, "rows": 40},
        {"lanes": MAX_FEW + 76},
        {"lanes": MAX_FEW + 76, "late_add": True, "masked": True, "rows": 16},
        {"rows": 120},
    ],
    ids=repr,
)
def test_replays_equal_the_direct_calls(options: dict[str, Any], device: Backend) -> None:
    steps = 12 if "lanes" in options else 40
    captured, _ = assert_captured_steps_equal_direct_ones(device, steps, **options)
    late = options.get("late_add", False)
    assert (captured.buffer.stats()["stale_updates"] > 0) == late


def test_a_graph_captured_early_draws_later_rows_by_their_priorities(device: Backend) -> None:
    buffer = device.buffer((3,), (2,), CAPACITY, True, seed=4)
    buffer.configure_per(alpha=1.0, beta=1.0, epsilon=0.0)
    buffer.add_batch(**numbered_rows(0, 2))
    out = buffer.make_batch(64)
    graph, stream = capture(device, lambda: buffer.sample(64, out=out))
    buffer.add_batch(**numbered_rows(2, 38))
    everywhere = device.array(np.arange(40))
    for favoured in (39, 20):
        errors = np.full(40, 2.0**-20)
        errors[[favoured, 1]] = 3.0, 1.0
        buffer.update_priorities(everywhere, errors)
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        rows = device.numpy(out.indices)
        assert (rows == 1).sum() in (15, 16, 17)  # a quarter of 64 slices, and where it begins
        assert (rows == favoured).sum() in (46, 47, 48)
        np.testing.assert_array_equal(device.numpy(out.reward), rows + 20)
        largest = 1.0 if (errors[rows] >= 1.0).all() else 2.0**-20
        np.testing.assert_array_equal(device.numpy(out.weights), np.float32(largest / errors[rows]))


def test_a_captured_draw_obeys_the_beta_of_the_moment(device: Backend) -> None:
    run = Run(device)
    buffer = run.buffer
    buffer.update_priorities(device.array([0, 1, 2]), device.array([0.5, 2.0, 7.0]))
    graph, stream = capture(device, lambda: buffer.sample(8, out=run.batch))
    seen = []
    for beta in (0.4, 1.0, 0.0, 0.7):
        if beta != 0.4:
            buffer.set_beta(beta)
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        state, drawn = run.state(), run.drawn()
        assert state["beta"] == beta
        leaves = [float(state["level 0"][row]) for row in drawn["indices"]]
        total = reference.SumTree([float(leaf) for leaf in state["level 0"][:CAPACITY]]).total
        expected = reference.weights(leaves, 3, total, beta)
        # A device's pow may differ in its last bit, and the weight then in its own.
        tolerance = 2.0**-23 if device.name == "gpu" else 0.0
        np.testing.assert_allclose(drawn["weights"], expected, rtol=tolerance, atol=0.0)
        seen.append(drawn["weights"].tobytes())
    assert len(set(seen)) == 4


@pytest.mark.parametrize("lanes", [8, MAX_FEW + 1])
def test_settings_between_replays_reach_the_graph(lanes: int, device: Backend) -> None:
    def anneal(step: int, buffer: Any) -> None:
        if step % 3 == 1:
            buffer.set_beta(min(1.0, 0.4 + step / 20))
        if step % 7 == 3:
            buffer.configure_per(beta=0.9 / (1 + step), epsilon=0.01 * step)

    captured, _ = assert_captured_steps_equal_direct_ones(device, 20, anneal, lanes=lanes)
    assert captured.buffer.stats()["beta"] == 1.0
    assert captured.buffer.stats()["epsilon"] == 0.17


# What a kernel reads, when it is baked into the graph as a host scalar: the kernel, and what the
# graph would keep.
BAKED = {
    "total": "draw_by_priority",
    "draws": "draw_by_priority",
    "beta": "draw_by_priority",
    "root": "draw_by_priority",
    "max_priority": "enter_rows",
    "epsilon": "update_few",
}

PUT = r"""
extern "C" __global__ void put(unsigned long long* at, unsigned long long word) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *at = word;
}
"""


@pytest.mark.parametrize("what", BAKED)
def test_a_host_scalar_in_a_captured_step_would_be_noticed(
    what: str, device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = device.cupy.RawKernel(PUT, "put")
    put.compile()
    launch = cuda_device.Kernels.launch
    make = device_priorities.DevicePriorities.__init__
    roots: dict[int, Any] = {}  # by the address of the control block beside them
    words: dict[int, np.uint64] = {}  # what was there before the capture

    def make_and_note(own: Any, *arguments: Any) -> None:
        make(own, *arguments)
        roots[own._control.data.ptr] = own.levels()[-1].view(np.uint8)

    def place(control: Any) -> Any:
        start = 0 if what == "root" else CONTROL.fields[what][1]
        array = roots[control.data.ptr] if what == "root" else control
        return array[start : start + 8]

    def launch_with_a_baked_word(
        own: Any, name: str, grid: Any, *args: Any, **options: Any
    ) -> None:
        control, capturing = args[0], own._card.capturing
        if capturing and name == BAKED[what]:
            put((1,), (1,), (place(control).data, words[control.data.ptr]))
        launch(own, name, grid, *args, **options)
        if name == "enter_rows" and not capturing:
            words[control.data.ptr] = device.numpy(place(control)).view(np.uint64)[0]

    monkeypatch.setattr(device_priorities.DevicePriorities, "__init__", make_and_note)
    monkeypatch.setattr(cuda_device.Kernels, "launch", launch_with_a_baked_word)

    def settings(step: int, buffer: Any) -> None:
        buffer.configure_per(beta=0.5 + step / 100, epsilon=0.001 * step)

    with pytest.raises(AssertionError, match="not equal"):
        assert_captured_steps_equal_direct_ones(device, 30, settings)


# What cannot be captured


REFUSED: dict[str, Callable[[Run, dict[str, Any]], Any]] = {
    "set_beta": lambda run, held: run.buffer.set_beta(0.9),
    "configure_per": lambda run, held: run.buffer.configure_per(beta=0.9, epsilon=0.5),
    "sample without out": lambda run, held: run.buffer.sample(4),
    "host errors": lambda run, held: run.buffer.update_priorities(run.batch, np.ones(8)),
    "a list of errors": lambda run, held: run.buffer.update_priorities(run.batch, [1.0] * 8),
    "errors with a cast": lambda run, held: run.buffer.update_priorities(run.batch, held["half"]),
    "strided errors": lambda run, held: run.buffer.update_priorities(run.batch, held["wide"][::2]),
    "host rows": lambda run, held: run.buffer.update_priorities(np.arange(8), held["errors"]),
    "rows with a cast": lambda run, held: run.buffer.update_priorities(
        held["int32"], held["errors"]
    ),
    "a batch of every other lane": lambda run, held: run.buffer.update_priorities(
        run.batch.map(lambda array: array[::2]), held["errors"][:4]
    ),
    "a batch on the host": lambda run, held: run.buffer.update_priorities(
        held["host"], held["errors"]
    ),
    "stats": lambda run, held: run.buffer.stats(),
    "check": lambda run, held: run.buffer.check(),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_captured_is_refused_and_the_capture_goes_on(
    call: str, emulated_device: Backend
) -> None:
    device = emulated_device
    captured = Run(device)
    direct = Run(device, inputs=captured)
    captured.buffer.sample(8, out=captured.batch)
    direct.buffer.sample(8, out=direct.batch)
    held = {
        "errors": device.array(np.ones(8), np.float32),
        "half": device.array(np.ones(8), np.float16),
        "wide": device.array(np.ones(16), np.float32),
        "int32": device.array(np.arange(8), np.int32),
        "host": captured.batch.map(device.numpy),
    }

    def step() -> None:
        captured.step()
        with sim.recording() as record, pytest.raises(cpreplay.CaptureError, match="captur"):
            REFUSED[call](captured, held)
        assert record.launch_names == []
        assert record.d2h_copies == record.h2d_copies == record.synchronisations == 0
        captured.step()

    graph, stream = capture(device, step)
    for number in range(3):
        captured.bring(number)
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        direct.step()
        direct.step()
        assert_equal(captured.drawn(), direct.drawn())
        assert_equal(captured.state(), direct.state())
    captured.buffer.check()


def test_a_refused_setting_leaves_what_the_host_knows_of_it(emulated_device: Backend) -> None:
    buffer = emulated_device.buffer((3,), (2,), CAPACITY, True)

    def refused() -> None:
        for call in (lambda: buffer.configure_per(alpha=0.9), lambda: buffer.set_beta(0.1)):
            with pytest.raises(cpreplay.CaptureError, match="captur"):
                call()

    capture(emulated_device, refused)
    buffer.add_batch(**numbered_rows(0, 3))
    with pytest.raises(cpreplay.OrderError, match="alpha"):
        buffer.configure_per(alpha=0.9)
    buffer.configure_per(beta=0.4)  # alpha as it was
    assert buffer.stats()["alpha"] == 0.6
    buffer.check()


def test_an_alpha_is_not_asked_for_while_capturing(emulated_device: Backend) -> None:
    # Whether it may change depends on rows that only the device has counted.
    device = emulated_device
    buffer = device.buffer((3,), (2,), CAPACITY, True)
    rows = on_device(device, numbered_rows(0, 2))
    buffer.add_batch(**rows, mask=device.array([False, False]))

    def change_alpha() -> None:
        with pytest.raises(cpreplay.CaptureError, match="captur"):
            buffer.configure_per(alpha=1.0)

    capture(device, change_alpha)
    buffer.configure_per(alpha=1.0)
    assert buffer.stats()["alpha"] == 1.0


# Launches and waits


@pytest.mark.parametrize("rows", [1, 64, 1000])
@pytest.mark.parametrize("masked", [False, True])
def test_an_add_is_two_launches(rows: int, masked: bool, emulated_device: Backend) -> None:
    device = emulated_device
    buffer = device.buffer((3,), (2,), 500, True)
    given = on_device(device, numbered_rows(0, rows))
    mask = device.array(np.arange(rows) % 2 == 0) if masked else None
    with sim.recording() as record:
        buffer.add_batch(**given, mask=mask)
    assert record.launch_names == ["store_rows", "enter_rows"]
    assert record.allocations == record.h2d_copies == record.d2h_copies == 0
    assert record.synchronisations == 0


@pytest.mark.parametrize("lanes", [1, 256, MAX_FEW])
def test_a_draw_and_its_update_are_three_launches(lanes: int, emulated_device: Backend) -> None:
    device = emulated_device
    buffer = device.buffer((3,), (2,), 500, True)
    buffer.add_batch(**numbered_rows(0, 100))
    out = buffer.make_batch(lanes)
    errors = device.array(np.ones(lanes), np.float32)
    with sim.recording() as record:
        buffer.sample(lanes, out=out)
        buffer.update_priorities(out, errors)
    assert record.launch_names == ["draw_by_priority", "gather_rows", "update_few"]
    assert record.allocations == record.h2d_copies == record.d2h_copies == 0
    assert record.synchronisations == 0


@pytest.mark.parametrize(
    ("capacity", "levels", "lanes"),
    [
        (16, 1, MAX_FEW),
        (16, 1, MAX_FEW + 1),
        (17, 2, MAX_FEW + 1),
        (500, 3, 65_536),
        (5000, 4, MAX_FEW),
        (5000, 4, MAX_FEW + 1),
    ],
)
def test_an_update_is_one_launch_or_one_more_for_each_level(
    capacity: int, levels: int, lanes: int, emulated_device: Backend
) -> None:
    device = emulated_device
    buffer = device.buffer((), (), capacity, True)
    buffer.add_batch(**numbered_rows(0, 10, (), ()))
    rows = device.array(np.arange(lanes) % 10)
    errors = device.array(np.ones(lanes))
    with sim.recording() as record:
        buffer.update_priorities(rows, errors)
    if lanes > MAX_FEW:
        by_level = ["sum_ancestors"] * (levels - 1)
        assert record.launch_names == ["claim_rows", "write_leaves", *by_level, "end_update"]
        assert len(record.launch_names) == levels + 2
    else:
        assert record.launch_names == ["update_few"]
    assert record.allocations == record.h2d_copies == record.d2h_copies == 0
    assert record.synchronisations == 0


def test_an_update_of_no_lanes_launches_nothing(emulated_device: Backend) -> None:
    buffer = emulated_device.buffer((3,), (2,), 500, True)
    buffer.add_batch(**numbered_rows(0, 3))
    nothing = emulated_device.array(np.zeros(0, np.int64))
    with sim.recording() as record:
        buffer.update_priorities(nothing, emulated_device.array(np.zeros(0)))
    assert record.launch_names == []


def test_a_step_of_training_waits_for_nothing(emulated_device: Backend) -> None:
    device = emulated_device
    run = Run(device, masked=True)
    buffer = run.buffer
    mapped = run.batch.map(lambda array: array)
    rows, errors = device.array(np.arange(8)), device.array(np.ones(8))
    with sim.recording() as record:
        run.step()
        buffer.set_beta(0.7)
        buffer.configure_per(beta=0.8, epsilon=0.1)
        buffer.sample(8, out=run.batch)
        buffer.update_priorities(run.batch, run.errors)
        buffer.update_priorities(mapped, errors)
        buffer.update_priorities(run.batch.map(lambda array: array[:5]), errors[:5])
        buffer.update_priorities(rows, errors)
        buffer.sample_range(8, 0, 3, out=run.batch)
        buffer.update_priorities(run.batch, run.errors)
    assert record.synchronisations == record.d2h_copies == record.h2d_copies == 0
    assert record.allocations == 0


def test_host_errors_are_uploaded_in_one_transfer(emulated_device: Backend) -> None:
    run = Run(emulated_device)
    with sim.recording() as record:
        run.buffer.sample(8, out=run.batch)
        run.buffer.update_priorities(run.batch, np.ones(8))
        run.buffer.update_priorities([0, 1, 2], [1.0, 2.0, 3.0])
    assert record.h2d_copies == 2
    assert record.synchronisations == record.d2h_copies == 0


def test_only_a_changed_alpha_asks_the_device_and_only_where_the_host_knows_of_no_row(
    emulated_device: Backend,
) -> None:
    device = emulated_device
    rows = on_device(device, numbered_rows(0, 2))
    buffer = device.buffer((3,), (2,), CAPACITY, True)
    with sim.recording() as record:
        buffer.configure_per(alpha=0.5)  # the host knows that there are none
        buffer.add_batch(**rows, mask=device.array([False, False]))
        buffer.configure_per(alpha=0.5, beta=0.1)
    assert record.d2h_copies == record.synchronisations == 0
    with sim.recording() as record:
        buffer.configure_per(alpha=0.7)
    assert record.d2h_copies == 1
    buffer.add_batch(**rows)
    with sim.recording() as record, pytest.raises(cpreplay.OrderError, match="alpha"):
        buffer.configure_per(alpha=0.8)  # the host knows of two
    assert record.d2h_copies == record.synchronisations == 0


# Launch shapes


@pytest.mark.parametrize("blocks", [1, 3, 23])
@pytest.mark.parametrize("threads", [1, 7, 256])
def test_any_launch_shape_gives_the_same_answer(
    blocks: int, threads: int, device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(0)
    held = generator.random(75) < 0.7
    few, many = generator.integers(-2, 50, 60), generator.integers(-2, 50, MAX_FEW + 300)
    some, lots = (generator.normal(0.0, 3.0, len(rows)) for rows in (few, many))
    some[[0, 7]] = np.nan, np.inf

    def run() -> dict[str, Any]:
        buffer = device.buffer((3,), (2,), 45, True, seed=8)
        buffer.configure_per(alpha=0.75, epsilon=0.125)
        rows = on_device(device, numbered_rows(0, 75))
        buffer.add_batch(**{name: column[:20] for name, column in rows.items()})
        batches = [buffer.sample(33)]
        buffer.add_batch(**rows, mask=device.array(held))
        buffer.update_priorities(batches[0], device.array(some[:33]))  # some are stale now
        buffer.update_priorities(device.array(few), device.array(some, np.float32))
        buffer.set_beta(0.9)
        batches.append(buffer.sample(300))
        buffer.update_priorities(device.array(many), device.array(lots))
        buffer.add_batch(**{name: column[:7] for name, column in rows.items()})
        batches += [buffer.sample_range(9, 3, 20), buffer.sample(33)]
        drawn = {
            f"{name} {number}": device.numpy(batch[name])
            for number, batch in enumerate(batches)
            for name in (*COLUMNS, "indices", "weights")
        }
        levels = buffer._ops.priorities.levels()
        sums = {f"level {k}": device.numpy(level) for k, level in enumerate(levels)}
        stored_numbers(buffer, device.numpy)
        buffer.check()
        return {**drawn, **sums, **buffer.stats()}

    usual = run()
    assert usual["stale_updates"] > 0
    assert usual["invalid_priorities"] > 0
    launch = cuda_device.Kernels.launch

    def launch_otherwise(own: Any, name: str, grid: Any, *args: Any, **options: Any) -> None:
        launch(own, name, (blocks,), *args, threads=threads)

    monkeypatch.setattr(cuda_device.Kernels, "launch", launch_otherwise)
    assert_equal(run(), usual)
