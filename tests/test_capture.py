"""CUDA graphs: what is captured once follows the buffer ever after, and nothing waits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay.device_ops import DeviceOps
from cpreplay.kernel_structs import WEIGHTS, struct
from tests.conftest import Backend
from tests.cuda_emulator.fakecupy._simulation import sim
from tests.refusals import refused
from tests.strategies import COLUMNS, numbered_rows, stored_numbers


def capture(device: Backend, work: Callable[[], Any]) -> tuple[Any, Any]:
    """The graph of some work, and the stream it was captured on."""
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


def on_device(device: Backend, rows: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: device.array(column) for name, column in rows.items()}


def assert_captured_draws_equal_direct_ones(device: Backend) -> None:
    """A draw captured with three rows in the ring, against the same draws made directly."""
    captured, direct = (device.buffer((3,), (2,), 50, seed=9) for _ in range(2))
    for buffer in (captured, direct):
        buffer.add_batch(**numbered_rows(0, 3))
    out = captured.make_batch(16)
    graph, stream = capture(device, lambda: captured.sample(16, out=out))
    seen = []
    for first in range(3, 123, 12):
        for buffer in (captured, direct):
            buffer.add_batch(**numbered_rows(first, 12))
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        expected = direct.sample(16)
        for name in (*COLUMNS, "indices"):
            np.testing.assert_array_equal(device.numpy(out[name]), device.numpy(expected[name]))
        seen.append(device.numpy(out.indices))
    assert max(rows.max() for rows in seen) > 40  # also the rows that came after the capture
    assert len({rows.tobytes() for rows in seen}) == len(seen)


def test_a_captured_draw_sees_the_rows_of_the_moment_it_is_replayed(device: Backend) -> None:
    assert_captured_draws_equal_direct_ones(device)


def bake_the_size(ops: DeviceOps, batch: cpreplay.Batch) -> None:
    """The fault that other libraries have: the size of the moment as an argument of the launch."""
    size = min(int(ops.known_total), ops._capacity)
    ops._launch(
        "draw_range", (1,), ops._control, np.int64(0), np.int64(size), np.int64(len(batch)),
        batch.indices, None,
    )  # fmt: skip
    ops._gather(batch, struct(WEIGHTS))


def test_a_host_scalar_in_a_captured_draw_would_be_noticed(
    device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_store = DeviceOps.store

    def counting_store(ops: DeviceOps, columns: Any, rows: int, mask: Any = None) -> None:
        ops.known_total = getattr(ops, "known_total", 0) + rows
        plain_store(ops, columns, rows, mask)

    monkeypatch.setattr(DeviceOps, "store", counting_store)
    monkeypatch.setattr(DeviceOps, "sample", bake_the_size)
    with pytest.raises(AssertionError, match="not equal"):
        assert_captured_draws_equal_direct_ones(device)


def test_a_captured_add_writes_at_the_head_of_the_moment(device: Backend) -> None:
    buffer = device.buffer((3,), (2,), 7)
    rows = on_device(device, numbered_rows(0, 3))
    graph, stream = capture(device, lambda: buffer.add_batch(**rows))
    assert len(buffer) == 0  # capturing runs nothing
    expected: list[int | None] = [None] * 7
    for step in range(6):
        for name, column in numbered_rows(3 * step, 3).items():
            rows[name][...] = device.array(column)
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        for number in range(3 * step, 3 * step + 3):
            expected[number % 7] = number
        assert stored_numbers(buffer, device.numpy) == expected
        assert buffer.head == (3 * step + 3) % 7
    buffer.check()


def test_a_captured_masked_add_stores_what_the_mask_of_the_moment_says(device: Backend) -> None:
    buffer = device.buffer((3,), (2,), 7)
    rows, mask = on_device(device, numbered_rows(0, 4)), device.array([True] * 4)
    graph, stream = capture(device, lambda: buffer.add_batch(**rows, mask=mask))
    for kept in ([1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]):
        mask[...] = device.array(kept, bool)
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
    assert stored_numbers(buffer, device.numpy) == [0, 3, 1, 2, None, None, None]


def test_a_captured_loop_of_add_and_sample_equals_the_direct_one(device: Backend) -> None:
    captured, direct = (device.buffer((3,), (2,), 64, False, "uint8", seed=3) for _ in range(2))
    generator = np.random.default_rng(0)

    def frames() -> dict[str, np.ndarray]:
        codes = generator.integers(0, 256, (8, 3)).astype(np.float32) / np.float32(255)
        return {**numbered_rows(0, 8), "obs": codes, "next_obs": codes[::-1].copy()}

    rows = on_device(device, frames())
    out = captured.make_batch(24)

    def step() -> None:
        captured.add_batch(**rows)
        captured.sample(24, out=out)

    captured.add_batch(**rows)
    direct.add_batch(**rows)
    graph, stream = capture(device, step)
    for _ in range(30):
        fresh = frames()
        for name, column in fresh.items():
            rows[name][...] = device.array(column)
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        direct.add_batch(**fresh)
        expected = direct.sample(24)
        for name in (*COLUMNS, "indices"):
            np.testing.assert_array_equal(device.numpy(out[name]), device.numpy(expected[name]))
    assert captured.stats() == direct.stats()


@pytest.mark.parametrize("configured", ["ere", "demo prefix"])
def test_a_graph_captured_early_obeys_what_is_configured_later(
    configured: str, device: Backend
) -> None:
    captured, direct = (device.buffer((3,), (2,), 40, seed=5) for _ in range(2))
    for buffer in (captured, direct):
        buffer.add_batch(**numbered_rows(0, 10))
    out = captured.make_batch(20)
    graph, stream = capture(device, lambda: captured.sample(20, out=out))
    for buffer in (captured, direct):
        if configured == "ere":
            buffer.configure_ere(eta=0.7, c_min=2, k_max=6)
        else:
            buffer.pin_demo_prefix(10, batch_size=20)
    for draw in range(9):  # past k_max, so that the window is whole again
        for buffer in (captured, direct):
            buffer.add_batch(**numbered_rows(10 + 9 * draw, 9))
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        expected = direct.sample(20)
        np.testing.assert_array_equal(device.numpy(out.indices), device.numpy(expected.indices))
        drawn = device.numpy(out.indices)
        if configured == "demo prefix":
            assert (drawn[:10] < 10).all()
            assert (drawn[10:] >= 10).all()
        elif draw == 5:  # floor(40 * 0.7**5) = 6 newest rows
            assert len(set(drawn)) <= 6
    captured.check()


def test_an_add_while_capturing_hands_the_cursor_to_the_device(device: Backend) -> None:
    buffer = device.buffer((3,), (2,), 50, seed=0)
    buffer.add_batch(**numbered_rows(0, 2))
    rows = on_device(device, numbered_rows(2, 5))
    graph, stream = capture(device, lambda: buffer.add_batch(**rows))
    assert len(buffer) == 2
    replay(graph, stream)
    replay(graph, stream)
    assert len(buffer) == 12
    assert device.numpy(buffer.sample_range(30, 7, 12).reward).min() == 22
    with pytest.raises(cpreplay.SampleRangeError, match=r"holds 12 of 50"):
        buffer.sample_range(4, 0, 13)
    buffer.check()


REFUSED: dict[str, Callable[[Any, Backend], Any]] = {
    "add": lambda buffer, device: buffer.add([0, 0, 0], [0, 0], 0, [0, 0, 0], False),
    "add_batch of host arrays": lambda buffer, device: buffer.add_batch(**numbered_rows(0, 2)),
    "add_batch with a cast": lambda buffer, device: buffer.add_batch(
        **{**HELD["rows"], "obs": HELD["double"]}
    ),
    "add_batch of strided arrays": lambda buffer, device: buffer.add_batch(
        **{**HELD["rows"], "obs": HELD["wide"][:, ::2]}
    ),
    "add_batch with a host mask": lambda buffer, device: buffer.add_batch(
        **HELD["rows"], mask=[True, False]
    ),
    "sample without out": lambda buffer, device: buffer.sample(4),
    "sample_range without out": lambda buffer, device: buffer.sample_range(4, 0, 3),
    "configure_ere": lambda buffer, device: buffer.configure_ere(),
    "pin_demo_prefix": lambda buffer, device: buffer.pin_demo_prefix(3, batch_size=2),
    "stats": lambda buffer, device: buffer.stats(),
    "check": lambda buffer, device: buffer.check(),
    "synchronize": lambda buffer, device: buffer.synchronize(),
}
HELD: dict[str, Any] = {}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_captured_is_refused_before_anything_is_launched(
    call: str, emulated_device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = emulated_device
    buffer = device.buffer((3,), (2,), 50)
    buffer.add_batch(**numbered_rows(0, 3))
    monkeypatch.setitem(HELD, "rows", on_device(device, numbered_rows(0, 2)))
    monkeypatch.setitem(HELD, "double", device.array(np.zeros((2, 3))))
    monkeypatch.setitem(HELD, "wide", device.array(np.zeros((2, 6)), np.float32))

    def refused() -> None:
        with sim.recording() as record, pytest.raises(cpreplay.CaptureError, match="captur"):
            REFUSED[call](buffer, device)
        assert record.launch_names == []
        assert record.d2h_copies == record.h2d_copies == record.synchronisations == 0

    graph, stream = capture(device, refused)  # and the capture stays valid
    replay(graph, stream)
    assert stored_numbers(buffer, device.numpy)[:4] == [0, 1, 2, None]
    assert buffer.stats()["draws"] == 0
    buffer.check()


# Launches and waits


@pytest.mark.parametrize("rows", [1, 3, 64, 1000])
@pytest.mark.parametrize("extra", [0, 27])
@pytest.mark.parametrize("masked", [False, True])
def test_an_add_is_two_launches_for_any_rows_and_columns(
    rows: int, extra: int, masked: bool, emulated_device: Backend
) -> None:
    device = emulated_device
    names = [f"extra_{number}" for number in range(extra)]
    buffer = device.buffer((3,), (2,), 500, extra_columns=dict.fromkeys(names, ()))
    given = on_device(device, numbered_rows(0, rows))
    given |= {name: device.array(np.zeros(rows), np.float32) for name in names}
    mask = device.array(np.arange(rows) % 2 == 0) if masked else None
    with sim.recording() as record:
        buffer.add_batch(**given, mask=mask)
    assert record.launch_names == ["store_rows", "move_cursor"]
    assert record.allocations == record.h2d_copies == record.d2h_copies == 0
    assert record.synchronisations == 0


@pytest.mark.parametrize("batch_size", [1, 256, 3000])
def test_a_draw_into_fixed_arrays_is_two_launches_and_nothing_else(
    batch_size: int, emulated_device: Backend
) -> None:
    device = emulated_device
    buffer = device.buffer((3,), (2,), 500)
    buffer.add_batch(**numbered_rows(0, 100))
    out = buffer.make_batch(batch_size)
    for draw, kernel in (
        (lambda: buffer.sample(batch_size, out=out), "draw_rows"),
        (lambda: buffer.sample_range(batch_size, 2, 60, out=out), "draw_range"),
    ):
        with sim.recording() as record:
            draw()
        assert record.launch_names == [kernel, "gather_rows"]
        assert record.allocations == record.h2d_copies == record.d2h_copies == 0
        assert record.synchronisations == 0


def test_only_what_says_so_waits(emulated_device: Backend) -> None:
    device = emulated_device
    buffer = device.buffer((3,), (2,), 500)
    rows, mask = on_device(device, numbered_rows(0, 8)), device.array([True] * 8)
    with sim.recording() as record:
        buffer.add_batch(**numbered_rows(0, 8))
        buffer.add(**{name: column[0] for name, column in numbered_rows(0, 1).items()})
        assert len(buffer) == 9
        assert buffer.head == 9
        buffer.pin_demo_prefix(9, batch_size=4)
        buffer.add_batch(**rows, mask=mask)
        buffer.sample(4)
        buffer.sample_range(4, 0, 9)  # the host's lower bound suffices
        buffer.make_batch(3)
        buffer.column("obs")
    assert record.d2h_copies == record.synchronisations == 0
    with sim.recording() as record:
        assert len(buffer) == 17  # only the device knows since the masked add
    assert record.d2h_copies == 1
    with sim.recording() as record:
        buffer.sample_range(4, 0, 17)
        buffer.sample(4)
    assert record.d2h_copies == 0


def test_rows_are_copied_in_the_widest_words_that_fit(emulated_device: Backend) -> None:
    # Observations in arrays of their own, whose rows are multiples of 16, 8, 4, 2 and 1 bytes.
    device = emulated_device
    widths = {544: 34, 536: 67, 540: 135, 542: 271, 543: 543}  # bytes of a row: its words
    accesses = []
    for width in widths:
        buffer = device.buffer(width, (), 8, obs_dtype="uint8")
        frames = device.array(np.zeros((1, width), np.uint8))
        zeros = device.array(np.zeros(1, np.float32))
        out = buffer.make_batch(1)
        device.cupy.cuda.Device().synchronize()
        with sim.recording() as record:
            buffer.add_batch(frames, zeros, zeros, frames, device.array([False]))
            buffer.sample(1, out=out)
            device.cupy.cuda.Device().synchronize()
        counts = dict(record.ran)
        accesses.append((counts["store_rows"], counts["gather_rows"]))
    for counted in np.diff(accesses, axis=0).T:
        words = np.diff(list(widths.values()))
        np.testing.assert_array_equal(counted * words[0], counted[0] * words)
        assert counted[0] > 0


def test_rows_that_only_the_device_has_counted_can_be_drawn(device: Backend) -> None:
    rows = {name: device.array(column) for name, column in numbered_rows(0, 8).items()}
    buffer = device.buffer((3,), (2,), 20)
    buffer.add_batch(**rows, mask=device.array([True] * 8))
    batch = buffer.sample(64)  # the host knows of no row yet
    rewards = device.numpy(batch.reward)
    assert rewards.tolist() == (device.numpy(batch.indices) + 20).tolist()
    assert set(rewards) <= set(range(20, 28)) and len(set(rewards)) > 1
    buffer = device.buffer((3,), (2,), 20)
    buffer.add_batch(**numbered_rows(0, 1))
    buffer.add_batch(**rows, mask=device.array([True] * 8))
    batch = buffer.sample_range(64, 5, 9)  # and here of one
    assert set(device.numpy(batch.indices).tolist()) == {5, 6, 7, 8}
    buffer.add_batch(**rows, mask=device.array([True] * 4 + [False] * 4))
    with refused(device, buffer, cpreplay.SampleRangeError, "rows [5, 14)", "holds 13 of 20"):
        buffer.sample_range(64, 5, 14)


def test_the_head_is_known_after_an_add_that_only_the_device_counts(device: Backend) -> None:
    buffer = device.buffer((3,), (2,), 20)
    rows = {name: device.array(column) for name, column in numbered_rows(0, 8).items()}
    buffer.add_batch(**rows, mask=device.array([True, False] * 4))
    assert buffer.head == 4


def test_an_empty_batch_launches_nothing(emulated_device: Backend) -> None:
    buffer = emulated_device.buffer((3,), (2,), 5)
    with sim.recording() as record:
        buffer.add_batch(**numbered_rows(0, 0))
    assert record.launch_names == []


def test_the_cost_of_a_call_does_not_grow_with_the_capacity(emulated_device: Backend) -> None:
    def accesses(capacity: int) -> list[tuple[str, int]]:
        buffer = emulated_device.buffer((3,), (2,), capacity, seed=0)
        rows = on_device(emulated_device, numbered_rows(0, 1000))
        out = buffer.make_batch(64)
        with sim.recording() as record:
            buffer.add_batch(**rows)
            buffer.sample(64, out=out)
            buffer.sample_range(64, 0, 1000, out=out)
            emulated_device.cupy.cuda.Device().synchronize()
        return record.ran

    few, many = accesses(10**4), accesses(10**6)
    assert [kernel for kernel, _ in few] == [
        "store_rows", "move_cursor", "draw_rows", "gather_rows", "draw_range", "gather_rows",
    ]  # fmt: skip
    assert all(count > 0 for _, count in few)
    assert many == few


def test_a_request_beyond_the_capacity_asks_nobody(emulated_device: Backend) -> None:
    buffer = emulated_device.buffer((3,), (2,), 5)
    rows, mask = on_device(emulated_device, numbered_rows(0, 5)), emulated_device.array([True] * 5)
    buffer.add_batch(**rows)
    buffer.add_batch(**rows, mask=mask)  # only the device knows how many rows this was
    with (
        sim.recording() as record,
        pytest.raises(cpreplay.SampleRangeError, match=r"\[0, 6\): the buffer holds 5 of 5"),
    ):
        buffer.sample_range(4, 0, 6)
    assert record.d2h_copies == record.synchronisations == 0


def test_an_empty_add_leaves_the_count_with_the_host(emulated_device: Backend) -> None:
    buffer = emulated_device.buffer((3,), (2,), 5)
    rows = on_device(emulated_device, numbered_rows(0, 0))
    with sim.recording() as record:
        buffer.add_batch(**rows, mask=emulated_device.array(np.zeros(0, bool)))
        assert len(buffer) == 0
    assert record.d2h_copies == 0
    assert record.launch_names == []


def test_a_captured_draw_from_too_few_known_rows_says_what_to_do(emulated_device: Backend) -> None:
    buffer = emulated_device.buffer((3,), (2,), 5)
    out = buffer.make_batch(2)
    rows = on_device(emulated_device, numbered_rows(0, 2))

    def add_and_sample() -> None:
        buffer.add_batch(**rows)
        with pytest.raises(cpreplay.CaptureError, match="how many rows there are"):
            buffer.sample(2, out=out)

    graph, stream = capture(emulated_device, add_and_sample)
    replay(graph, stream)
    assert len(buffer) == 2
