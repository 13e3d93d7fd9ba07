"""ERE draws from the newest rows alone; pinned demonstrations stay, and fill half of each batch."""

import numpy as np
import pytest

from tests.conftest import Backend
from tests.models import RingModel
from tests.strategies import numbered_rows, row, stored_numbers

# Emphasizing recent experience


def test_the_ere_window_shrinks_and_is_whole_again_after_k_max(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 50, seed=1)
    buffer.add_batch(**numbered_rows(0, 80))  # rows 30 to 79, wrapped
    buffer.configure_ere(eta=0.5, c_min=4, k_max=5)
    # floor(50 * 0.5**k), at least 4: worked by hand.
    for window in (50, 25, 12, 6, 4, 50, 25):
        numbers = backend.numpy(buffer.sample(600).reward) - 20
        # 600 draws leave out one of 50 rows once in 3,000 windows; the seed is fixed.
        assert set(numbers) == set(range(80 - window, 80))


def test_the_ere_window_of_a_part_full_ring_is_of_the_rows_held(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 50, seed=1)
    buffer.configure_ere(eta=0.5, k_max=2)
    buffer.add_batch(**numbered_rows(0, 8))
    assert set(backend.numpy(buffer.sample(300).indices)) == set(range(8))
    buffer.add_batch(**numbered_rows(8, 2))
    assert set(backend.numpy(buffer.sample(300).indices)) == set(range(5, 10))


def test_configuring_ere_starts_anew_and_disabling_it_is_uniform(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 20, seed=1)
    buffer.add_batch(**numbered_rows(0, 20))
    buffer.configure_ere(eta=0.1, k_max=100)
    for _ in range(4):
        buffer.sample(10)
    assert set(backend.numpy(buffer.sample(10).indices)) == {19}
    buffer.configure_ere(eta=0.1, k_max=100)
    assert len(set(backend.numpy(buffer.sample(400).indices))) == 20
    buffer.sample(10)
    buffer.configure_ere(enable=False)
    for _ in range(3):
        assert len(set(backend.numpy(buffer.sample(400).indices))) == 20
    assert buffer.stats()["ere"] is False


def test_a_range_draw_does_not_move_the_ere_window(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 20, seed=1)
    buffer.add_batch(**numbered_rows(0, 20))
    buffer.configure_ere(eta=0.5, k_max=100)
    buffer.sample(10)
    for _ in range(5):
        assert set(backend.numpy(buffer.sample_range(100, 0, 3).indices)) == {0, 1, 2}
    assert set(backend.numpy(buffer.sample(400).indices)) == set(range(10, 20))


# Demonstrations


@pytest.mark.parametrize("batch_size", [1, 7, 8])
@pytest.mark.parametrize("batched", [False, True])
def test_the_prefix_survives_three_wraps_and_fills_half_of_each_batch(
    batched: bool, batch_size: int, backend: Backend
) -> None:
    buffer = backend.buffer((3,), (2,), 20, seed=2)
    buffer.add_batch(**numbered_rows(0, 6))
    buffer.pin_demo_prefix(6, batch_size=batch_size)
    assert buffer.demo_count == 6
    added = 6
    while added < 6 + 3 * 14 + 5:
        rows = numbered_rows(added, 5)
        if batched:
            buffer.add_batch(**rows)
        else:
            for number in range(5):
                buffer.add(**row(rows, number))
        added += 5
        numbers = backend.numpy(buffer.sample(batch_size).reward) - 20
        demos, online = numbers[: batch_size // 2], numbers[batch_size // 2 :]
        assert (demos < 6).all()
        assert ((online >= 6) & (online >= added - 14) & (online < added)).all()
        held = stored_numbers(buffer, backend.numpy)
        assert held[:6] == [0, 1, 2, 3, 4, 5]
        assert set(held[6:]) - {None} == set(range(max(6, added - 14), added))
    buffer.check()


def test_without_an_online_row_the_whole_batch_is_demonstrations(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 40, seed=2)
    buffer.add_batch(**numbered_rows(0, 3))
    buffer.pin_demo_prefix(3, batch_size=30)  # a prefix smaller than the batch
    batch = buffer.sample(30)
    assert len(batch) == 30
    assert set(backend.numpy(batch.indices)) == {0, 1, 2}
    buffer.add_batch(**numbered_rows(3, 1))
    rows = backend.numpy(buffer.sample(30).indices)
    assert (rows[:15] < 3).all()
    assert (rows[15:] == 3).all()


def test_demonstrations_that_only_the_device_has_counted_can_be_pinned(device: Backend) -> None:
    rows = {name: device.array(column) for name, column in numbered_rows(0, 8).items()}
    buffer = device.buffer((3,), (2,), 20)
    buffer.add_batch(**rows, mask=device.array([True, False] * 4))
    buffer.pin_demo_prefix(4, batch_size=8)
    assert buffer.demo_count == 4
    buffer.check()


def test_stats_give_the_head_behind_the_prefix(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    buffer.add_batch(**numbered_rows(0, 2))
    buffer.pin_demo_prefix(2, batch_size=3)
    for head in (3, 4, 2, 3, 4, 2):
        buffer.add_batch(**numbered_rows(0, 1))
        assert buffer.stats()["head"] == buffer.head == head


def test_a_masked_batch_larger_than_the_online_rows_leaves_what_single_adds_would(
    backend: Backend,
) -> None:
    # 4 online rows behind a prefix of 6, and batches of up to the whole capacity.
    buffer, model = backend.buffer((3,), (2,), 10), RingModel(10)
    buffer.add_batch(**numbered_rows(0, 6))
    model.add_batch(range(6))
    buffer.pin_demo_prefix(6, batch_size=4)
    model.pin_demo_prefix(6, 4)
    first = 6
    for count, left_out in ((9, 3), (10, 4), (5, 2), (8, 0), (7, 7)):
        kept = np.arange(count) % 7 != left_out
        buffer.add_batch(**numbered_rows(first, count), mask=backend.array(kept))
        model.add_batch(range(first, first + count), kept)
        first += count
        assert stored_numbers(buffer, backend.numpy) == model.rows()
        assert buffer.head == model.head
    buffer.check()


def test_configuring_anew_also_starts_the_count_to_k_max(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 50)
    buffer.add_batch(**numbered_rows(0, 50))
    buffer.configure_ere(eta=0.5, k_max=4)
    for _ in range(3):
        buffer.sample(2)
    buffer.configure_ere(eta=0.5, k_max=4)
    for window in (50, 25, 12, 6, 50):  # a full round of four draws, then the whole ring again
        rows = backend.numpy(buffer.sample(400).indices)
        assert rows.min() == 50 - window
