"""Addresses are 64-bit: buffers of more than 2**32 bytes, in memory that exists where touched."""

import numpy as np
import pytest

from tests.conftest import Backend, real_gpu

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
        from cpreplay.control import CONTROL

        fields = buffer._ops._control.get().view(CONTROL)
        fields["total"] = row
        buffer._ops._control.set(fields.view(np.uint8))
    else:
        buffer._ops._total[0] = row
    buffer._total.at_least = row


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
