"""Addresses are 64-bit: buffers of more than 2**32 bytes, in memory that exists where touched."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cpreplay.control import CONTROL, new_control
from cpreplay.device_priorities import DevicePriorities
from cpreplay.host_priorities import HostPriorities
from tests.conftest import Backend, real_gpu
from tests.golden import reference

FRAME = (84, 84, 4)
CAPACITY = 160_000  # of 28,224 bytes, twice: 9 GB
BYTES = 84 * 84 * 4


def frame(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, FRAME, np.uint8)


def test_rows_beyond_32_bits_of_bytes_come_back(backend: Backend) -> None:
    buffer = backend.buffer(
        FRAME, (), CAPACITY, obs_dtype="uint8", action_dtype="int64", check_memory=False
    )
    assert CAPACITY * BYTES > 2**32
    # Rows on both sides of 2**31 and 2**32 bytes, and at the ring's end.
    places = [0, 2**31 // BYTES, 2**31 // BYTES + 1, 2**32 // BYTES, 2**32 // BYTES + 1]
    places += [CAPACITY - 1]
    numbered = {place: number for number, place in enumerate(places)}
    for place, number in numbered.items():
        move_head(buffer, backend, place)
        buffer.add(frame(number), number, number, frame(number + 100), number % 2 == 0)
    assert len(buffer) == CAPACITY
    for place, number in numbered.items():
        batch = buffer.sample_range(3, place, place + 1)
        assert backend.numpy(batch.indices).tolist() == [place] * 3
        for lane in range(3):
            np.testing.assert_array_equal(backend.numpy(batch.obs)[lane], frame(number))
            np.testing.assert_array_equal(backend.numpy(batch.next_obs)[lane], frame(number + 100))
        assert backend.numpy(batch.action).tolist() == [number] * 3
    # The row that a 32-bit address would have hit instead was never written.
    assert not backend.numpy(buffer.column("obs")[5:6]).any()


def test_packed_records_beyond_32_bits_of_bytes_come_back(backend: Backend) -> None:
    capacity = 2**28  # of 32 bytes: 8 GB
    buffer = backend.buffer(
        (), (4,), capacity, obs_dtype="uint8", action_dtype="int32", check_memory=False
    )
    assert buffer.nbytes > 2**32
    for number, place in enumerate([2**26 - 1, 2**27, 2**27 + 3, capacity - 1]):
        move_head(buffer, backend, place)
        buffer.add(number, [number] * 4, number, number + 1, True)
        batch = buffer.sample_range(2, place, place + 1)
        assert backend.numpy(batch.action).tolist() == [[number] * 4] * 2
        assert backend.numpy(batch.next_obs).tolist() == [number + 1] * 2
        assert backend.numpy(batch.terminated).tolist() == [True] * 2
    assert buffer.head == 0


def move_head(buffer: object, backend: Backend, row: int) -> None:
    """Pretend that all rows before ``row`` were written, which would take minutes."""
    if backend.is_device:
        fields = buffer._ops._control.get().view(CONTROL)
        fields["total"] = row
        buffer._ops._control.set(fields.view(np.uint8))
    else:
        buffer._ops._total[0] = row
    buffer._known.at_least = row


def test_codes_beyond_32_bits_of_bytes_come_back(backend: Backend) -> None:
    capacity = 300_000  # of 28,224 codes
    frame = 84 * 84 * 4
    buffer = backend.buffer((84, 84, 4), (), capacity, obs_store_dtype="uint8", check_memory=False)
    for number, place in enumerate([2**31 // frame + 1, 2**32 // frame + 1, capacity - 1]):
        move_head(buffer, backend, place)
        codes = np.random.default_rng(number).integers(0, 256, (84, 84, 4)).astype(np.float32)
        values = codes / np.float32(255)
        buffer.add(values, 0, number, values[::-1], False)
        batch = buffer.sample_range(2, place, place + 1)
        for lane in range(2):
            np.testing.assert_array_equal(backend.numpy(batch.obs)[lane], values)
            np.testing.assert_array_equal(backend.numpy(batch.next_obs)[lane], values[::-1])


@pytest.mark.gpu
@pytest.mark.parametrize("quantized", [False, True])
def test_batches_beyond_32_bits_of_bytes_are_stored_and_drawn(quantized: bool) -> None:
    device = real_gpu()  # the emulated one would copy for minutes
    if device.cupy.cuda.Device().mem_info[0] < 20 * 10**9:
        pytest.skip("needs 20 GB on the card")
    rows, width = 2**8 + 2, 2**22  # of 16 MiB: 4 GiB and 32 MiB
    options = {"obs_store_dtype": "uint8"} if quantized else {}
    buffer = device.buffer(width, (), 3, **options)
    obs = device.cupy.zeros((rows, width), np.float32)
    newest = np.random.default_rng(0).integers(0, 256, (3, width)).astype(np.float32)
    newest /= np.float32(255)
    obs[-3:] = device.array(newest)
    small = device.cupy.zeros(rows, np.float32)
    buffer.add_batch(obs, small, small, obs, small > 0)
    batch = buffer.sample(rows)
    drawn = device.numpy(batch.indices)
    for lane in (0, 1, 126, 127, 128, 129, 254, 255, 256, 257):  # on both sides of 2**31 and 2**32
        expected = newest[(drawn[lane] - rows) % 3]
        np.testing.assert_array_equal(device.numpy(batch.obs[lane]), expected)
        np.testing.assert_array_equal(device.numpy(batch.next_obs[lane]), expected)


class Ends:
    """What holds of a sum tree with mass in the rows at both of its ends alone.

    It is that of a tree of 256 leaves with the middle cut out, since adding zeros changes nothing.
    The capacity has to be a multiple of sixteen, alpha 1 and epsilon 0.
    """

    KEPT = 256

    def __init__(self, capacity: int, seed: int, beta: float) -> None:
        self.capacity = capacity
        self.cut = capacity - self.KEPT
        self.beta = beta
        self.words = reference.PhiloxWords(seed)
        self.tree = reference.SumTree([0.0] * self.KEPT)

    def set(self, rows: Sequence[int], leaves: Sequence[float]) -> None:
        for row, leaf in zip(rows, leaves, strict=True):
            self.tree.set(row if row < self.KEPT // 2 else row - self.cut, leaf)

    def sample(self, lanes: int) -> tuple[list[int], list[float]]:
        kept = self.tree.draw(self.words.next_reals(lanes))
        leaves = [self.tree.levels[0][row] for row in kept]
        weights = reference.weights(leaves, self.capacity, self.tree.total, self.beta)
        return [row if row < self.KEPT // 2 else row + self.cut for row in kept], weights


def float32s(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=count).astype(np.float32)


def test_priorities_at_both_ends_of_a_large_ring_are_set_drawn_and_updated(
    backend: Backend,
) -> None:
    capacity = 2**28  # of 16 bytes and a leaf: 5 GB
    buffer = backend.buffer(
        (), (), capacity, True, seed=4, obs_dtype="uint8", action_dtype="uint8", check_memory=False
    )
    assert buffer.nbytes > 2**32
    buffer.configure_per(alpha=1.0, beta=0.5, epsilon=0.0)
    expected = Ends(capacity, 4, 0.5)

    def pretend(total: int) -> None:
        move_head(buffer, backend, total)
        if not backend.is_device:
            buffer._ops.priorities.settled[0] = total

    def compare() -> Any:
        batch = buffer.sample(40)
        rows, weights = expected.sample(40)
        assert backend.numpy(batch.indices).tolist() == rows
        assert backend.numpy(batch.weights).tolist() == weights
        return batch

    pretend(capacity - 3)
    numbers = np.arange(5, dtype=np.uint8)
    buffer.add_batch(numbers, numbers, numbers, numbers, numbers > 2)
    ends = [capacity - 3, capacity - 2, capacity - 1, 0, 1]
    expected.set(ends, [1.0] * 5)
    batch = compare()
    assert set(backend.numpy(batch.indices).tolist()) == set(ends)
    stored = dict(zip(ends, range(5), strict=True))
    rows = backend.numpy(batch.indices).tolist()
    assert backend.numpy(batch.action).tolist() == [stored[row] for row in rows]
    errors = float32s(1, 40)
    buffer.update_priorities(batch, errors)
    expected.set(rows, np.abs(errors).tolist())  # one after the other, so the last lane wins
    batch = compare()
    # All rows but the last two and the first two are written over.
    pretend(2 * capacity - 2)
    errors = float32s(2, 40)
    buffer.update_priorities(batch, errors)
    rows = backend.numpy(batch.indices)
    kept = rows != capacity - 3
    assert 0 < np.count_nonzero(~kept) < 40
    expected.set(rows[kept].tolist(), np.abs(errors[kept]).tolist())
    assert buffer._ops.control()["stale_updates"] == np.count_nonzero(~kept)
    compare()


def test_a_tree_of_2_31_rows_is_set_drawn_and_updated_at_its_ends(backend: Backend) -> None:
    # Without rows, which would take more memory than there is to pretend.
    if backend.name == "gpu" and backend.cupy.cuda.Device().mem_info[0] < 24 * 10**9:
        pytest.skip("needs 24 GB on the card")
    capacity, seed, lanes = 2**31, 3, 40
    small = backend.buffer((), (), 64, True)._ops
    batch = small.make_batch(lanes)
    control = new_control(capacity, reference.splitmix64(seed), run=2**64 - 5)
    control["alpha"], control["beta"], control["epsilon"] = 1.0, 0.5, 0.0
    control["total"] = capacity - 3
    priorities: Any
    if backend.is_device:
        on_card = backend.array(control.view(np.uint8))
        parts = (small.priorities._card, small.priorities._kernels, small.priorities._inputs)
        priorities = DevicePriorities(*parts, on_card, capacity, 0)
        priorities.enter(5, None)
    else:
        priorities = HostPriorities(control, capacity)
        priorities.settled[0] = capacity - 3
        control["total"] += 5
    assert sum(level.nbytes for level in priorities.levels()) > 2**33
    ends = [capacity - 3, capacity - 2, capacity - 1, 0, 1]
    expected = Ends(capacity, seed, 0.5)
    expected.set(ends, [1.0] * 5)
    for draw in range(4):
        if backend.is_device:
            fields = on_card.get().view(CONTROL)
            assert fields["total"] == capacity + 2
            fields["draws"] = draw
            on_card.set(fields.view(np.uint8))
            priorities.draw(batch._memory.draw, lanes)
        else:
            words = [reference.lane_word(seed, draw, lane, tag=1) for lane in range(lanes)]
            priorities.draw(batch, np.array(words, np.uint64))
        rows = backend.numpy(batch.indices).tolist()
        assert rows == expected.sample(lanes)[0]
        assert set(rows) <= set(ends)
        errors = float32s(draw, lanes) * np.float32(10.0**draw)
        given = priorities.ingest(batch.indices, batch._tokens, errors)
        priorities.update(*given)
        expected.set(rows, np.abs(errors).tolist())
        bare = priorities.ingest([capacity - 1, 0, capacity - 1], None, [9.0, 2.0, 0.5])
        priorities.update(*bare)
        expected.set([capacity - 1, 0], [0.5, 2.0])
        levels = priorities.levels()
        assert float(backend.numpy(levels[-1])[0]) == expected.tree.total
        assert backend.numpy(levels[0][-16:]).tolist() == expected.tree.levels[0][-16:]
    fields = on_card.get().view(CONTROL) if backend.is_device else control
    assert fields["stale_updates"] == fields["invalid_priorities"] == 0
