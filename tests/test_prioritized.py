"""Prioritized replay through the public calls, against small examples worked out by hand."""

import copy
import math
import pickle
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cpreplay
import cpreplay.replay
from cpreplay.control import CONTROL
from cpreplay.memory import format_bytes
from tests.conftest import Backend
from tests.cuda_emulator import emu
from tests.cuda_emulator.fakecupy._simulation import sim
from tests.golden import reference
from tests.refusals import refused
from tests.strategies import numbered_rows, stored_numbers
from tests.test_sumtree import assert_same_tree

SEED = 3
FOR_UNIFORM = {
    "size", "capacity", "total", "head", "demo_count", "draws", "nbytes", "ere", "invalid_rows",
}  # fmt: skip
FOR_PRIORITIES = {
    "alpha", "beta", "epsilon", "priority_total", "max_priority", "invalid_priorities",
    "stale_updates", "effective_sample_size",
}  # fmt: skip


def prioritized(
    backend: Backend,
    capacity: int,
    rows: int = 0,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    epsilon: float = 0.0,
    **options: Any,
) -> Any:
    """A prioritized buffer whose leaves are the TD errors unless told otherwise."""
    buffer = backend.buffer((3,), (2,), capacity, prioritized=True, seed=SEED, **options)
    buffer.configure_per(alpha=alpha, beta=beta, epsilon=epsilon)
    add(buffer, rows)
    return buffer


def add(buffer: Any, count: int, mask: Any = None) -> None:
    """Add the next so many rows, of which a mask keeps some."""
    buffer.add_batch(**numbered_rows(buffer.stats()["total"], count), mask=mask)


def leaves_of(backend: Backend, buffer: Any) -> list[float]:
    return backend.numpy(buffer._ops.priorities.levels()[0])[: buffer.capacity].tolist()


def update(backend: Backend, buffer: Any, rows: Any, td_errors: Any) -> None:
    """By bare indices."""
    rows, td_errors = backend.array(rows, np.int64), backend.array(td_errors, np.float64)
    buffer.update_priorities(rows, td_errors)


def draw_row(buffer: Any, row: int, lanes: int = 1) -> Any:
    """A batch of one row, with the token of now."""
    return buffer.sample_range(lanes, row, row + 1)


def joined(backend: Backend, *batches: Any) -> Any:
    """One batch of several, in host memory."""
    others: list[list[Any]] = []
    for batch in batches[1:]:
        arrays: list[Any] = []
        batch.map(arrays.append)
        others.append(arrays)
    parts = zip(*others, strict=True) if others else iter(())
    return batches[0].map(
        lambda array: np.concatenate([backend.numpy(part) for part in (array, *next(parts, ()))])
    )


def check_tree(backend: Backend, buffer: Any, leaves: Iterable[float]) -> None:
    """Every level of the tree is that of these leaves."""
    levels = [backend.numpy(level) for level in buffer._ops.priorities.levels()]
    assert_same_tree(levels, reference.SumTree(list(leaves)))
    buffer.check()


# ---- faults that other libraries have had


def test_a_row_that_is_overwritten_after_an_update_enters_anew(backend: Backend) -> None:
    buffer = prioritized(backend, 4, 4)
    update(backend, buffer, [0, 1, 2, 3], [0.5, 0.25, 2.0, 0.125])
    add(buffer, 1)
    assert len(buffer) == 4
    assert leaves_of(backend, buffer) == [2.0, 0.25, 2.0, 0.125]
    assert buffer.stats()["priority_total"] == 4.375
    buffer.check()


def test_alpha_is_applied_once(backend: Backend) -> None:
    buffer = prioritized(backend, 4, 1, alpha=0.5)
    update(backend, buffer, [0], [16.0])
    assert leaves_of(backend, buffer) == [4.0, 0, 0, 0]
    assert buffer.stats()["max_priority"] == 16.0
    add(buffer, 1)
    assert leaves_of(backend, buffer) == [4.0, 4.0, 0, 0]


@pytest.mark.parametrize("largest", [5.0, 2.5])
def test_a_new_row_enters_at_the_largest_priority_ever(backend: Backend, largest: float) -> None:
    buffer = prioritized(backend, 3, 2)
    update(backend, buffer, [0, 1], [largest, -largest])
    add(buffer, 1)
    assert leaves_of(backend, buffer) == [largest] * 3
    update(backend, buffer, [0, 1, 2], [0.5] * 3)
    add(buffer, 1)  # the largest ever, not of those that are held
    assert leaves_of(backend, buffer) == [largest, 0.5, 0.5]


def test_the_largest_priority_is_never_below_one(backend: Backend) -> None:
    buffer = prioritized(backend, 3, 2)
    update(backend, buffer, [0, 1], [0.5, 0.25])
    add(buffer, 1)
    assert leaves_of(backend, buffer) == [0.5, 0.25, 1.0]
    assert buffer.stats()["max_priority"] == 1.0


def test_the_rarer_row_has_the_larger_weight(backend: Backend) -> None:
    buffer = prioritized(backend, 2, 2)
    update(backend, buffer, [0, 1], [1.0, 3.0])
    batch = buffer.sample(64)
    rows, weights = backend.numpy(batch.indices), backend.numpy(batch.weights)
    assert rows.tolist() == [0] * 16 + [1] * 48  # in four equal slices
    assert weights.dtype == np.float32
    # 1 / (2 * 1/4) = 2 and 1 / (2 * 3/4) = 2/3, divided by 2
    assert (weights == np.float32([1.0, 1 / 3])[rows]).all()


def test_bad_errors_among_good_ones(backend: Backend) -> None:
    buffer = prioritized(backend, 6, 6)
    bad = [2.0, math.nan, 3.0, math.inf, -math.inf, 0.5]
    if backend.is_device:
        update(backend, buffer, range(6), bad)
        check_tree(backend, buffer, [2.0, 1.0, 3.0, 1.0, 1.0, 0.5])
        assert buffer.stats()["invalid_priorities"] == 3
        assert buffer.stats()["max_priority"] == 3.0
        return
    for error in (ValueError, cpreplay.ColumnValueError):
        with pytest.raises(error, match=r"lane 1 is nan, .* has no finite"):
            update(backend, buffer, range(6), bad)
    with refused(backend, buffer, cpreplay.ColumnValueError, "td_errors", "lane 3", "inf"):
        update(backend, buffer, range(6), [1.0, 1.0, 1.0, math.inf, math.nan, 1.0])
    check_tree(backend, buffer, [1.0] * 6)


def test_an_error_never_lands_on_another_transition(backend: Backend) -> None:
    buffer = prioritized(backend, 2, 2)
    batch = draw_row(buffer, 0)
    add(buffer, 1)
    buffer.update_priorities(batch, backend.array([9.0]))
    assert leaves_of(backend, buffer) == [1.0, 1.0]
    stats = buffer.stats()
    assert (stats["stale_updates"], stats["max_priority"]) == (1, 1.0)
    buffer.update_priorities(draw_row(buffer, 0), backend.array([9.0]))
    assert leaves_of(backend, buffer) == [9.0, 1.0]
    assert buffer.stats()["stale_updates"] == 1


@pytest.mark.parametrize("with_priorities", [False, True])
def test_an_empty_buffer_refuses_a_draw(backend: Backend, with_priorities: bool) -> None:
    buffer = backend.buffer((3,), (2,), 4, prioritized=with_priorities)
    with refused(backend, buffer, cpreplay.EmptyBufferError, "2 transitions", "holds none yet"):
        buffer.sample(2)
    with refused(backend, buffer, cpreplay.SampleRangeError, "holds 0 of 4", "add rows first"):
        buffer.sample_range(2, 0, 1)
    assert buffer.stats()["draws"] == 0


def test_a_bad_value_leaves_no_trace_once_a_good_one_comes(backend: Backend) -> None:
    buffers = [prioritized(backend, 20, 12, alpha=0.6, epsilon=1e-6) for _ in range(2)]
    for bad in (math.nan, math.inf, -math.inf):
        if backend.is_device:
            update(backend, buffers[0], [3, 4], [bad, bad])
        else:
            with pytest.raises(cpreplay.ColumnValueError):
                update(backend, buffers[0], [3, 4], [0.5, bad])
    for step in range(4):
        batches = []
        for buffer in buffers:
            update(backend, buffer, [3, 4, 5], [0.5 + step, -0.25, 7.0])
            add(buffer, 3)
            batches.append(buffer.sample(30))
        one, other = batches
        for name in ("indices", "weights", "obs", "reward"):
            assert backend.numpy(one[name]).tobytes() == backend.numpy(other[name]).tobytes()
        assert np.isfinite(backend.numpy(one.weights)).all()
    assert leaves_of(backend, buffers[0]) == leaves_of(backend, buffers[1])


# ---- adding


@pytest.mark.parametrize("capacity", [1, 5, 16, 17, 40, 300])
def test_new_rows_enter_wherever_they_go(backend: Backend, capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    buffer = prioritized(backend, capacity)
    leaves, written, largest = [0.0] * capacity, 0, 1.0
    counts = [1, 2, capacity // 2, capacity - 1, capacity, capacity + 1, 2 * capacity + 3, 3, 0]
    for step, count in enumerate(counts):
        mask = rng.random(count) < 0.6 if step % 2 else None
        given = backend.array(mask) if mask is not None and step % 4 == 3 else mask
        add(buffer, count, given)
        for _ in range(count if mask is None else int(mask.sum())):
            leaves[written % capacity] = largest
            written += 1
        if step % 3 == 2:  # sometimes several adds come before anything looks at the tree
            check_tree(backend, buffer, leaves)
        row, error = int(rng.integers(min(written, capacity))), float(step + 2)
        update(backend, buffer, [row], [error])
        leaves[row] = largest = error
    check_tree(backend, buffer, leaves)
    assert buffer.stats()["max_priority"] == largest


@pytest.mark.parametrize("capacity", [33, 40, 300])
def test_wherever_an_add_begins_and_ends_all_its_ancestors_are_summed(
    backend: Backend, capacity: int
) -> None:
    rng = np.random.default_rng(capacity)
    buffer = prioritized(backend, capacity, capacity)
    leaves, written = [1.0] * capacity, capacity
    for step in range(40):
        row, error = int(rng.integers(capacity)), float(step + 2)
        update(backend, buffer, [row], [error])  # so what is added now differs from what is there
        leaves[row] = error
        count = int(rng.integers(1, capacity + 3))
        add(buffer, count)
        for number in range(written, written + count):
            leaves[number % capacity] = error
        written += count
        check_tree(backend, buffer, leaves)


def test_single_adds_enter_like_a_batch_of_them(backend: Backend) -> None:
    one, other = prioritized(backend, 7), prioritized(backend, 7)
    rows = numbered_rows(0, 10)
    other.add_batch(**rows)
    for number in range(10):
        one.add(**{name: column[number] for name, column in rows.items()})
    assert leaves_of(backend, one) == leaves_of(backend, other) == [1.0] * 7
    assert stored_numbers(one, backend.numpy) == stored_numbers(other, backend.numpy)


def test_rows_enter_at_the_largest_priority_of_the_moment_they_are_added(backend: Backend) -> None:
    buffer = prioritized(backend, 8, 2)
    update(backend, buffer, [0], [4.0])  # after the add: the other row entered at 1
    add(buffer, 1)  # enters at 4, though the next call raises the largest
    update(backend, buffer, [0], [9.0])
    add(buffer, 1)
    buffer.set_beta(0.5)
    buffer.configure_per(alpha=1.0, epsilon=0.5)
    update(backend, buffer, [0], [15.5])
    add(buffer, 1)
    assert leaves_of(backend, buffer) == [16.0, 1.0, 4.0, 9.0, 16.0, 0, 0, 0]


def test_rows_overwritten_before_anything_looked_enter_once(backend: Backend) -> None:
    buffer = prioritized(backend, 3, 3)
    update(backend, buffer, [0, 1, 2], [0.25, 0.5, 2.0])
    for _ in range(4):
        add(buffer, 1)
    assert leaves_of(backend, buffer) == [2.0, 2.0, 2.0]
    update(backend, buffer, [2], [3.0])
    add(buffer, 7)
    assert leaves_of(backend, buffer) == [3.0, 3.0, 3.0]


def test_an_update_may_follow_an_add_at_once(backend: Backend) -> None:
    buffer = prioritized(backend, 3, 2)
    add(buffer, 2)  # wraps
    update(backend, buffer, [0, 2], [0.5, 8.0])
    assert leaves_of(backend, buffer) == [0.5, 1.0, 8.0]


def test_a_mask_that_keeps_nothing_changes_nothing(backend: Backend) -> None:
    buffer = prioritized(backend, 4, 4)
    update(backend, buffer, range(4), [0.5, 2.0, 0.5, 0.5])
    batch = draw_row(buffer, 0)
    add(buffer, 5, np.zeros(5, bool))
    add(buffer, 5, backend.array(np.zeros(5, bool)))
    assert leaves_of(backend, buffer) == [0.5, 2.0, 0.5, 0.5]
    buffer.update_priorities(batch, backend.array([1.5]))
    assert leaves_of(backend, buffer) == [1.5, 2.0, 0.5, 0.5]
    assert buffer.stats()["stale_updates"] == 0


def test_rows_never_written_are_never_drawn(backend: Backend) -> None:
    buffer = prioritized(backend, 300, 20)
    rows = backend.numpy(buffer.sample(2000).indices)
    assert set(rows.tolist()) == set(range(20))


# ---- drawing


def test_draws_are_numbered_together_with_all_others(backend: Backend) -> None:
    buffer = prioritized(backend, 40, 30, beta=0.5)
    errors = np.float32(np.random.default_rng(0).uniform(0.1, 3, 30))
    update(backend, buffer, range(30), errors)
    tree = reference.SumTree([*errors.tolist(), *[0.0] * 10])
    for number in range(6):
        if number % 3 == 1:
            batch = buffer.sample_range(50, 5, 25)
            expected = reference.draw_rows(SEED, number, 50, 5, 25)
            weights = [1.0] * 50
        else:
            batch = buffer.sample(50)
            expected = tree.draw(reference.draw_reals(SEED, number, 50))
            leaves = [tree.levels[0][row] for row in expected]
            weights = reference.weights(leaves, 30, tree.total, 0.5)
        rows = backend.numpy(batch.indices)
        assert rows.tolist() == expected
        assert np.allclose(backend.numpy(batch.weights), weights, rtol=2e-7, atol=0)
        assert (backend.numpy(batch.obs) == rows[:, None]).all()
        assert (backend.numpy(batch.reward) == rows + 20).all()
    assert buffer.stats()["draws"] == 6


def test_a_new_beta_counts_from_the_next_draw_on(backend: Backend) -> None:
    buffer = prioritized(backend, 2, 2, beta=0.0)
    update(backend, buffer, [0, 1], [1.0, 4.0])
    for beta, smaller in ((0.0, 1.0), (0.5, 0.5), (1.0, 0.25)):
        buffer.set_beta(beta)
        assert buffer.stats()["beta"] == beta
        batch = buffer.sample(10)
        rows, weights = backend.numpy(batch.indices), backend.numpy(batch.weights)
        assert set(rows.tolist()) == {0, 1}
        assert (weights == np.float32([1.0, smaller])[rows]).all()


def test_weights_are_of_the_batch_and_not_of_the_buffer(backend: Backend) -> None:
    buffer = prioritized(backend, 3, 3)
    update(backend, buffer, [0, 1, 2], [2.0**-100, 1.0, 1.0])
    batch = buffer.sample(20)  # the first row is out of reach
    assert backend.numpy(batch.weights).tolist() == [1.0] * 20


def test_alpha_0_draws_uniformly_whatever_the_errors(backend: Backend) -> None:
    buffer = prioritized(backend, 8, 8, alpha=0.0)
    update(backend, buffer, range(8), [0.0, 1e-30, 1.0, 5.0, 1e30, 1e300, 2.0, 3.0])
    assert leaves_of(backend, buffer) == [1.0] * 8
    batch = buffer.sample(64)
    assert backend.numpy(batch.indices).tolist() == np.repeat(np.arange(8), 8).tolist()
    assert backend.numpy(batch.weights).tolist() == [1.0] * 64


def test_a_range_is_drawn_uniformly_with_weights_of_one(backend: Backend) -> None:
    buffer = prioritized(backend, 10, 10)
    update(backend, buffer, range(10), [1e-30] * 9 + [1e30])
    batch = buffer.sample_range(100, 0, 9)
    assert set(backend.numpy(batch.indices).tolist()) == set(range(9))
    assert backend.numpy(batch.weights).tolist() == [1.0] * 100
    buffer.update_priorities(batch, backend.array(np.full(100, 2.0)))
    assert leaves_of(backend, buffer)[:9] == [2.0] * 9


@pytest.mark.parametrize("where", [0, 1, -1])
@pytest.mark.parametrize("lanes", [100, 1000, 3000])
def test_the_rarest_row_of_a_large_batch_sets_the_scale_wherever_it_is(
    backend: Backend, where: int, lanes: int
) -> None:
    buffer = prioritized(backend, 3, 3)
    leaves = [2.0, 2.0, 2.0]
    leaves[where] = 0.5
    update(backend, buffer, range(3), leaves)
    batch = buffer.sample(lanes)
    rows = backend.numpy(batch.indices)
    expected = np.full(3, 0.25, np.float32)  # of what the rarest row has
    expected[where] = 1.0
    assert set(rows.tolist()) == {0, 1, 2}
    assert backend.numpy(batch.weights).tolist() == expected[rows].tolist()


def test_the_hosts_own_generator_gives_the_reals_of_its_raw_words() -> None:
    buffer = cpreplay.StoreReplay((), (), 50, prioritized=True, seed=SEED)
    buffer.configure_per(alpha=1.0, epsilon=0.0)
    buffer.add_batch(**numbered_rows(0, 50, (), ()))
    errors = np.random.default_rng(1).uniform(0.1, 3, 50).astype(np.float32)
    buffer.update_priorities(np.arange(50), errors)
    tree, words = reference.SumTree(errors.tolist()), reference.Pcg64Words(SEED)
    for lanes in (1, 30, 200):
        assert buffer.sample(lanes).indices.tolist() == tree.draw(words.next_reals(lanes))


@pytest.mark.parametrize("lanes", [1, 5, 1000])
def test_a_batch_may_be_of_any_size(backend: Backend, lanes: int) -> None:
    buffer = prioritized(backend, 5, 3)
    batch = buffer.sample(lanes)
    assert len(batch) == lanes
    assert batch.weights.shape == (lanes,)
    rows = backend.numpy(batch.indices)
    assert set(rows.tolist()) <= {0, 1, 2}
    assert np.abs(np.bincount(rows, minlength=3) - lanes / 3).max() <= 2  # of equal slices
    assert backend.numpy(batch.weights).max() == 1.0


def test_given_arrays_are_filled_again_and_again(backend: Backend) -> None:
    buffer, twin = prioritized(backend, 20, 10), prioritized(backend, 20, 10)
    out = buffer.make_batch(30)
    addresses = [backend.address(out[name]) for name in ("indices", "weights", "obs")]
    for step in range(3):
        for each in (buffer, twin):
            add(each, 2)
            update(backend, each, [step], [0.5 + step])
        assert buffer.sample(30, out=out) is out
        fresh = twin.sample(30)
        for name in ("indices", "weights", "obs"):
            assert backend.numpy(out[name]).tobytes() == backend.numpy(fresh[name]).tobytes()
        buffer.update_priorities(out, backend.array(np.full(30, 2.0)))
        twin.update_priorities(fresh, backend.array(np.full(30, 2.0)))
        assert buffer.stats() == twin.stats()
    assert [backend.address(out[name]) for name in ("indices", "weights", "obs")] == addresses
    assert buffer.stats()["stale_updates"] == 0


def test_a_batch_of_the_other_kind_of_buffer_cannot_be_filled(backend: Backend) -> None:
    buffer = prioritized(backend, 5, 3)
    uniform = backend.buffer((3,), (2,), 5, seed=SEED)
    uniform.add_batch(**numbered_rows(0, 3))
    for filler, other in ((buffer, uniform), (uniform, buffer)):
        out = other.make_batch(2)
        with refused(backend, filler, cpreplay.ShapeError, "out", "make_batch"):
            filler.sample(2, out=out)
        with refused(backend, filler, cpreplay.ShapeError, "out", "make_batch"):
            filler.sample_range(2, 0, 2, out=out)
    assert uniform.make_batch(2).weights is None
    assert "weights" in buffer.make_batch(2)
    mapped = buffer.sample(2).map(lambda array: array)
    with refused(backend, buffer, cpreplay.ShapeError, "make_batch"):
        buffer.sample(2, out=mapped)


def test_a_batch_of_another_buffer_alike_is_its_fillers(backend: Backend) -> None:
    buffer, other = prioritized(backend, 5, 3), prioritized(backend, 5, 3)
    batch = buffer.sample(4, out=other.make_batch(4))
    buffer.update_priorities(batch, backend.array(np.full(4, 7.0)))
    assert buffer.stats()["max_priority"] == 7.0
    assert buffer.stats()["stale_updates"] == 0


@pytest.mark.parametrize(
    "options", [{"obs_store_dtype": "uint8"}, {"obs_dtype": "uint8"}], ids=["quantised", "frames"]
)
def test_observations_of_bytes_have_priorities_too(
    backend: Backend, options: dict[str, str]
) -> None:
    buffer = backend.buffer((2, 3), (), 20, prioritized=True, seed=SEED, **options)
    frames = np.arange(120).reshape(20, 2, 3)
    obs = (
        frames.astype(np.uint8) if "obs_dtype" in options else np.float32(frames) / np.float32(255)
    )
    zeros = np.zeros(20, np.float32)
    buffer.add_batch(obs, zeros, zeros, obs[::-1], np.zeros(20, bool))
    update(backend, buffer, range(20), np.arange(20) + 0.5)
    batch = buffer.sample(100)
    rows = backend.numpy(batch.indices)
    assert (backend.numpy(batch.obs) == obs[rows]).all()
    assert (backend.numpy(batch.next_obs) == obs[::-1][rows]).all()
    assert rows.mean() > 9.5
    buffer.check()


# ---- updating


def test_the_last_of_several_lanes_with_one_row_wins(backend: Backend) -> None:
    buffer = prioritized(backend, 4, 4)
    update(backend, buffer, [1, 0, 1, 3, 1], [9.0, 2.0, 8.0, 0.5, 0.25])
    check_tree(backend, buffer, [2.0, 0.25, 1.0, 0.5])
    assert buffer.stats()["max_priority"] == 2.0  # of lanes that were written


def test_a_large_value_that_a_later_lane_replaces_is_not_the_largest(backend: Backend) -> None:
    for lanes in (2, 1500):
        buffer = prioritized(backend, 4, 4)
        update(backend, buffer, [2] * lanes, [*[50.0] * (lanes - 1), 0.5])
        assert buffer.stats()["max_priority"] == 1.0
        assert leaves_of(backend, buffer) == [1.0, 1.0, 0.5, 1.0]
        update(backend, buffer, [2] * lanes, [*[50.0] * (lanes - 1), 3.0])
        assert buffer.stats()["max_priority"] == 3.0


@pytest.mark.parametrize("lanes", [1, 2, 31, 1023, 1024, 1025, 3000])
@pytest.mark.parametrize("capacity", [1, 7, 500])
def test_the_last_lane_wins_among_any_number(backend: Backend, capacity: int, lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    buffer = prioritized(backend, capacity, capacity)
    rows = rng.integers(0, capacity, lanes)
    errors = rng.uniform(-5, 5, lanes).astype(np.float32)
    leaves = [1.0] * capacity
    for row, error in zip(rows.tolist(), errors.tolist(), strict=True):
        leaves[row] = abs(error)
    update(backend, buffer, rows, errors)
    check_tree(backend, buffer, leaves)
    written = [leaves[row] for row in rows.tolist()]
    assert buffer.stats()["max_priority"] == max(1.0, *written)


def test_a_row_that_every_one_of_65536_lanes_names(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend.name.startswith("emulated"):
        monkeypatch.setattr(emu.config, "mode", "fast")
    buffer = prioritized(backend, 40, 40)
    lanes = 65_536
    errors = np.full(lanes, 1e6)
    errors[-1] = 2.0
    update(backend, buffer, np.full(lanes, 33), errors)
    check_tree(backend, buffer, [*[1.0] * 33, 2.0, *[1.0] * 6])
    assert buffer.stats()["max_priority"] == 2.0
    buffer.update_priorities(draw_row(buffer, 33, lanes), backend.array(errors / 8))
    check_tree(backend, buffer, [*[1.0] * 33, 0.25, *[1.0] * 6])


@pytest.mark.parametrize("filler", [0, 1500])
def test_a_lane_that_is_skipped_does_not_win(device: Backend, filler: int) -> None:
    buffer = prioritized(device, 4, 4)
    rows = [0, 1, *[3] * filler, 0, 2, 1]
    errors = [2.0, 3.0, *[0.5] * filler, math.nan, math.inf, -math.inf]
    update(device, buffer, rows, errors)
    check_tree(device, buffer, [2.0, 3.0, 1.0, 0.5 if filler else 1.0])
    stats = buffer.stats()
    assert (stats["invalid_priorities"], stats["stale_updates"]) == (3, 0)
    assert stats["max_priority"] == 3.0


@pytest.mark.parametrize("filler", [1, 1500])
def test_a_stale_lane_does_not_win_nor_raise_the_largest(backend: Backend, filler: int) -> None:
    buffer = prioritized(backend, 4, 4)
    old = draw_row(buffer, 0)
    add(buffer, 1)
    new, others = draw_row(buffer, 0), draw_row(buffer, 3, filler)
    batch = joined(backend, new, others, old)
    buffer.update_priorities(batch, np.array([2.0, *[0.5] * filler, 99.0]))
    check_tree(backend, buffer, [2.0, 1.0, 1.0, 0.5])
    stats = buffer.stats()
    assert (stats["stale_updates"], stats["max_priority"]) == (1, 2.0)
    # and before the one that wins
    batch = joined(backend, old, others, new)
    buffer.update_priorities(batch, np.array([99.0, *[0.5] * filler, 3.0]))
    check_tree(backend, buffer, [3.0, 1.0, 1.0, 0.5])
    stats = buffer.stats()
    assert (stats["stale_updates"], stats["max_priority"]) == (2, 3.0)


def test_a_lane_both_stale_and_bad_counts_as_stale(device: Backend) -> None:
    buffer = prioritized(device, 2, 2)
    old = draw_row(buffer, 0, 3)
    add(buffer, 1)
    buffer.update_priorities(old, device.array([math.nan, math.inf, 1.0]))
    update(device, buffer, [5, -1], [math.nan, 1.0])
    stats = buffer.stats()
    assert (stats["stale_updates"], stats["invalid_priorities"]) == (5, 0)


def test_only_overwritten_rows_of_a_batch_are_skipped(backend: Backend) -> None:
    buffer = prioritized(backend, 6, 6)
    batch = joined(backend, *(draw_row(buffer, row) for row in range(6)))
    for written, kept in ((2, [2, 3, 4, 5]), (3, [5]), (1, []), (50, [])):
        before = buffer.stats()
        add(buffer, written)
        largest = before["max_priority"]
        expected = leaves_of(backend, buffer)
        buffer.update_priorities(batch, np.full(6, largest + 1))
        for row in kept:
            expected[row] = largest + 1
        check_tree(backend, buffer, expected)
        after = buffer.stats()
        assert after["stale_updates"] - before["stale_updates"] == 6 - len(kept)
        assert after["max_priority"] == largest + bool(kept)


def test_bare_indices_are_taken_whatever_was_overwritten(backend: Backend) -> None:
    buffer = prioritized(backend, 2, 2)
    batch = draw_row(buffer, 0)
    add(buffer, 1)
    buffer.update_priorities(batch.indices, backend.array([9.0]))
    assert leaves_of(backend, buffer) == [9.0, 1.0]
    assert buffer.stats()["stale_updates"] == 0
    buffer.update_priorities([0, 1], [4, -2])  # integers in a list
    assert leaves_of(backend, buffer) == [4.0, 2.0]
    buffer.update_priorities(np.array([1], np.uint8), np.array([0.5], np.float16))
    assert leaves_of(backend, buffer) == [4.0, 0.5]
    buffer.update_priorities(backend.array([1], np.int32), backend.array([1.25], np.float32))
    assert leaves_of(backend, buffer) == [4.0, 1.25]
    with refused(backend, buffer, cpreplay.DTypeError, "td_errors", "bool"):
        buffer.update_priorities((0,), np.array([True]))  # the terminated flags, say


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_errors_may_be_of_any_float_and_strided(backend: Backend, dtype: Any) -> None:
    buffer = prioritized(backend, 6, 6)
    rows = backend.array(np.arange(12))[::2][:3]  # 0, 2, 4
    errors = backend.array(np.arange(6) * 0.5 + 0.25, dtype)[::2]  # 0.25, 1.25, 2.25
    buffer.update_priorities(rows, errors)
    assert leaves_of(backend, buffer) == [0.25, 1.0, 1.25, 1.0, 2.25, 1.0]


def test_errors_are_summed_with_epsilon_in_float64(backend: Backend) -> None:
    buffer = prioritized(backend, 2, 2, epsilon=2.0**-30)
    buffer.update_priorities(backend.array([0, 1]), backend.array([1.0, 2.0**-30], np.float32))
    assert buffer.stats()["max_priority"] == 1.0 + 2.0**-30
    assert leaves_of(backend, buffer) == [1.0, 2.0**-29]


def test_what_an_update_is_given_stays_as_it_is(backend: Backend) -> None:
    buffer = prioritized(backend, 6, 6, alpha=0.6)
    batch = buffer.sample(9)
    errors = backend.array(np.linspace(-3, 3, 9))
    arrays = [batch.indices, batch.weights, batch._tokens, errors]
    before = [backend.numpy(array).tobytes() for array in arrays]
    buffer.update_priorities(batch, errors)
    buffer.update_priorities(batch.indices, errors)
    buffer.sample(9)
    add(buffer, 2)
    buffer.update_priorities(batch, errors)
    assert [backend.numpy(array).tobytes() for array in arrays] == before


def test_an_update_of_no_lanes_is_allowed(backend: Backend) -> None:
    buffer = prioritized(backend, 4, 2)
    update(backend, buffer, [], [])
    buffer.update_priorities([], [])
    buffer.update_priorities(
        buffer.sample(3).map(lambda array: array[:0]), backend.array([], float)
    )
    empty = prioritized(backend, 4)
    empty.update_priorities([], [])
    check_tree(backend, buffer, [1.0, 1.0, 0.0, 0.0])
    check_tree(backend, empty, [0.0] * 4)


# ---- batches that are no longer as they were drawn


CHANGES = {
    "the same": lambda backend, batch: batch.map(lambda array: array),
    "in host memory": lambda backend, batch: batch.map(backend.numpy),
    "copied": lambda backend, batch: batch.map(lambda array: array.copy()),
    "copy.copy": lambda backend, batch: copy.copy(batch),
    "copy.deepcopy": lambda backend, batch: copy.deepcopy(batch.map(backend.numpy)),
    "pickled": lambda backend, batch: pickle.loads(pickle.dumps(batch.map(backend.numpy))),
    "mapped twice": lambda backend, batch: batch.map(backend.numpy).map(np.asarray),
    "a list": lambda backend, batch: batch.map(lambda array: backend.numpy(array).tolist()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_batch_is_protected_however_it_was_mapped(backend: Backend, change: Any) -> None:
    buffer = prioritized(backend, 4, 4)
    old, kept = change(backend, draw_row(buffer, 0)), change(backend, draw_row(buffer, 1))
    add(buffer, 1)
    buffer.update_priorities(old, [9.0])
    buffer.update_priorities(kept, [0.5])
    assert leaves_of(backend, buffer) == [1.0, 0.5, 1.0, 1.0]
    assert buffer.stats()["stale_updates"] == 1


PARTS = {
    "first": slice(5),
    "last": slice(7, None),
    "middle": slice(3, 9),
    "every other": slice(None, None, 2),
    "one": slice(4, 5),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())
def test_a_part_of_a_batch_can_be_updated(backend: Backend, part: slice) -> None:
    buffer = prioritized(backend, 12, 12)
    batch = buffer.sample(12)
    assert backend.numpy(batch.indices).tolist() == list(range(12))  # one row in each slice
    add(buffer, 4)
    errors = np.arange(12) + 2.0
    some = batch.map(lambda array: array[part])
    buffer.update_priorities(some, backend.array(errors[part]))
    expected = np.ones(12)
    lanes = np.arange(12)[part]
    expected[lanes[lanes >= 4]] = errors[lanes[lanes >= 4]]
    assert leaves_of(backend, buffer) == expected.tolist()
    assert buffer.stats()["stale_updates"] == np.count_nonzero(lanes < 4)


def test_lanes_may_be_in_another_order(backend: Backend) -> None:
    buffer = prioritized(backend, 12, 12)
    batch = buffer.sample(12).map(lambda array: backend.numpy(array)[::-1])
    add(buffer, 3)
    buffer.update_priorities(batch, np.arange(12) + 2.0)  # row r in lane 11 - r
    assert leaves_of(backend, buffer) == [1.0] * 3 + [13.0 - row for row in range(3, 12)]


# ---- refusals


def test_an_update_of_other_lengths_is_refused(backend: Backend) -> None:
    buffer = prioritized(backend, 4, 4)
    batch = buffer.sample(3)
    for errors in ([1.0, 2.0], [1.0] * 4, [], [[1.0], [1.0], [1.0]], 1.0):
        for drawn in (batch, batch.indices, [0, 1, 2]):
            with refused(backend, buffer, cpreplay.ShapeError, "td_errors", "(3,)"):
                buffer.update_priorities(drawn, np.array(errors))
            with refused(backend, buffer, cpreplay.ShapeError, "td_errors", "(3,)"):
                buffer.update_priorities(drawn, backend.array(errors, np.float64))
    for rows in (0, [[0, 1, 2]]):
        with refused(backend, buffer, cpreplay.ShapeError, "indices", "(N,)"):
            buffer.update_priorities(rows, [1.0, 1.0, 1.0])
    batch._tokens = batch._tokens[:2]
    with refused(backend, buffer, cpreplay.ShapeError, "draw tokens", "(3, 2)"):
        buffer.update_priorities(batch, [1.0, 1.0, 1.0])


def test_an_update_of_other_kinds_is_refused(backend: Backend) -> None:
    buffer = prioritized(backend, 4, 4)
    for rows in ([0.0, 1.0], np.array([0, 1], np.float32), ["0", "1"], np.array([0j, 1j])):
        with refused(backend, buffer, cpreplay.DTypeError, "indices", "int64"):
            buffer.update_priorities(rows, [1.0, 1.0])
    for errors in (["1", "2"], np.array([1j, 2j]), [None, 1.0], [object(), object()]):
        with refused(backend, buffer, cpreplay.DTypeError, "td_errors", "float64"):
            buffer.update_priorities([0, 1], errors)
    with refused(backend, buffer, cpreplay.DTypeError, "indices"):
        buffer.update_priorities(backend.array([0.0, 1.0]), backend.array([1.0, 1.0]))
    for mask in ([True, False], np.array([True, False]), backend.array([True, False])):
        with refused(backend, buffer, cpreplay.DTypeError, "mask"):
            buffer.update_priorities(mask, [1.0, 1.0])
    with refused(backend, buffer, cpreplay.ColumnValueError, "indices"):
        buffer.update_priorities(np.array([0, 2**63], np.uint64), [1.0, 1.0])
    mapped = buffer.sample(2).map(lambda array: backend.numpy(array).astype(np.float32))
    with refused(backend, buffer, cpreplay.DTypeError, "int64"):
        buffer.update_priorities(mapped, [1.0, 1.0])
    with refused(backend, buffer, cpreplay.DTypeError):
        buffer.update_priorities(None, [1.0])
    with refused(backend, buffer, cpreplay.DTypeError, "td_errors"):
        buffer.update_priorities([0], [None])


@pytest.mark.parametrize("row", [3, 4, 1000, -1, 2**40, -(2**63), 2**63 - 1])
def test_a_bare_index_of_no_row_is_refused_or_skipped(backend: Backend, row: int) -> None:
    buffer = prioritized(backend, 4, 3)
    if backend.is_device:
        update(backend, buffer, [0, row, 1], [2.0, 9.0, 0.5])
        check_tree(backend, buffer, [2.0, 0.5, 1.0, 0.0])
        stats = buffer.stats()
        assert (stats["stale_updates"], stats["max_priority"]) == (1, 2.0)
        return
    with refused(backend, buffer, cpreplay.SampleRangeError, f"row {row}", "holds 3 of 4"):
        update(backend, buffer, [0, row, 1], [2.0, 9.0, 0.5])


def test_an_index_into_an_empty_buffer_is_refused_or_skipped(backend: Backend) -> None:
    buffer = prioritized(backend, 4)
    if backend.is_device:
        update(backend, buffer, [0], [9.0])
        assert buffer.stats()["stale_updates"] == 1
    else:
        with refused(backend, buffer, cpreplay.SampleRangeError, "row 0", "holds 0 of 4"):
            update(backend, buffer, [0], [9.0])
    check_tree(backend, buffer, [0.0] * 4)


@pytest.mark.parametrize("later", [0, 3, 100])
def test_a_batch_of_another_buffer_is_refused_or_skipped(backend: Backend, later: int) -> None:
    buffer, other = prioritized(backend, 4, 4), prioritized(backend, 4, 4)
    foreign = joined(backend, other.sample(3), draw_row(other, 0))
    add(buffer, later)
    if backend.is_device:
        buffer.update_priorities(foreign, np.full(4, 9.0))
        stats = buffer.stats()
        assert (stats["stale_updates"], stats["max_priority"]) == (4, 1.0)
    else:
        with refused(backend, buffer, cpreplay.ConfigurationError, "not drawn from this buffer"):
            buffer.update_priorities(foreign, np.full(4, 9.0))
        mixed = joined(backend, buffer.sample(2), foreign)
        with refused(backend, buffer, cpreplay.ConfigurationError, "not drawn from this buffer"):
            buffer.update_priorities(mixed, np.full(6, 9.0))
    check_tree(backend, buffer, [1.0] * 4)


def test_a_batch_without_priorities_is_refused(backend: Backend) -> None:
    buffer = prioritized(backend, 4, 4)
    uniform = backend.buffer((3,), (2,), 4)
    uniform.add_batch(**numbered_rows(0, 4))
    batch = uniform.sample(2)
    errors = backend.array([1.0, 1.0])
    with refused(backend, buffer, cpreplay.ConfigurationError, "without priorities", "own sample"):
        buffer.update_priorities(batch, errors)
    with refused(backend, buffer, cpreplay.ConfigurationError, "without priorities"):
        buffer.update_priorities(batch.map(backend.numpy), errors)
    buffer.update_priorities(batch.indices, errors)  # as bare indices they are taken


NOT_IN_UNIT = [
    -0.1, -5e-324, 1.0000001, 2, -1, math.nan, math.inf, "1", None, [0.5], np.array([0.5]),
    np.True_, np.False_, bytearray(b"x"),
]  # fmt: skip


@pytest.mark.parametrize("value", NOT_IN_UNIT, ids=repr)
def test_exponents_outside_0_to_1_are_refused(backend: Backend, value: Any) -> None:
    buffer = prioritized(backend, 4)
    for name in ("alpha", "beta"):
        with refused(backend, buffer, cpreplay.ConfigurationError, f"{name}={value!r}", "[0, 1]"):
            buffer.configure_per(**{name: value})
    with refused(backend, buffer, cpreplay.ConfigurationError, f"beta={value!r}", "[0, 1]"):
        buffer.set_beta(value)


@pytest.mark.parametrize("value", [-1e-300, -1, math.nan, math.inf, "0", None], ids=repr)
def test_an_epsilon_that_is_no_finite_number_from_0_on_is_refused(
    backend: Backend, value: Any
) -> None:
    buffer = prioritized(backend, 4)
    with refused(backend, buffer, cpreplay.ConfigurationError, f"epsilon={value!r}"):
        buffer.configure_per(epsilon=value)


def test_settings_may_be_any_number_in_their_range(backend: Backend) -> None:
    buffer = prioritized(backend, 4)
    for alpha, beta, epsilon in (
        (0, 1, 0),
        (1, 0, 7),
        (np.float32(0.5), np.float64(0.25), np.float32(0.125)),
        (np.int64(1), 0.0, 5e-324),
    ):
        buffer.configure_per(alpha=alpha, beta=beta, epsilon=epsilon)
        stats = buffer.stats()
        assert [stats[name] for name in ("alpha", "beta", "epsilon")] == [alpha, beta, epsilon]
    buffer.configure_per()
    stats = buffer.stats()
    assert [stats[name] for name in ("alpha", "beta", "epsilon")] == [0.6, 0.4, 1e-6]


def test_alpha_cannot_change_once_rows_are_stored(backend: Backend) -> None:
    buffer = prioritized(backend, 4, alpha=0.25)
    buffer.configure_per(alpha=0.5)
    add(buffer, 1)
    for _ in range(2):
        with refused(backend, buffer, cpreplay.OrderError, "alpha=1.0", "0.5", "first add"):
            buffer.configure_per(alpha=1.0, beta=1.0, epsilon=1.0)
        with refused(backend, buffer, cpreplay.OrderError, "alpha=0.6"):
            buffer.configure_per()  # whose default is another
        buffer.configure_per(alpha=0.5, beta=0.75, epsilon=0.25)
        stats = buffer.stats()
        assert [stats[name] for name in ("alpha", "beta", "epsilon")] == [0.5, 0.75, 0.25]
        add(buffer, 9)


def test_epsilon_counts_from_the_next_update_on(backend: Backend) -> None:
    buffer = prioritized(backend, 3, 3)
    update(backend, buffer, [0], [0.5])
    buffer.configure_per(alpha=1.0, epsilon=2.0)
    assert leaves_of(backend, buffer) == [0.5, 1.0, 1.0]
    update(backend, buffer, [1], [-0.5])
    assert leaves_of(backend, buffer) == [0.5, 2.5, 1.0]


def test_a_buffer_without_priorities_refuses_what_is_about_them(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 4)
    buffer.add_batch(**numbered_rows(0, 4))
    assert buffer.prioritized is False
    calls = {
        "configure_per": lambda: buffer.configure_per(),
        "set_beta": lambda: buffer.set_beta(0.5),
        "update_priorities": lambda: buffer.update_priorities([0], [1.0]),
    }
    for name, call in calls.items():
        with refused(backend, buffer, cpreplay.OrderError, name, "prioritized=True"):
            call()
    drawn = buffer.sample(2)
    with refused(backend, buffer, cpreplay.OrderError, "update_priorities"):
        buffer.update_priorities(drawn, [1.0, 1.0])
    assert set(buffer.stats()) == FOR_UNIFORM


def test_no_other_policy_goes_with_priorities(backend: Backend) -> None:
    buffer = prioritized(backend, 4, 2)
    assert buffer.prioritized is True
    for enable in (True, False):
        with refused(backend, buffer, cpreplay.OrderError, "configure_ere", "prioritized"):
            buffer.configure_ere(enable=enable)
    with refused(backend, buffer, cpreplay.OrderError, "pin_demo_prefix", "prioritized"):
        buffer.pin_demo_prefix(2, batch_size=1)


@pytest.mark.parametrize("value", [1, 0, None, "yes", 0.6], ids=repr)
def test_prioritized_is_true_or_false(backend: Backend, value: Any) -> None:
    with pytest.raises(cpreplay.ConfigurationError, match=f"prioritized={value!r}"):
        backend.buffer((3,), (2,), 4, prioritized=value)


# ---- looking


def test_stats_of_a_prioritized_buffer(backend: Backend) -> None:
    buffer = prioritized(backend, 4, alpha=0.5, beta=0.75, epsilon=0.25)
    stats = buffer.stats()
    assert set(stats) == FOR_UNIFORM | FOR_PRIORITIES
    assert {name: stats[name] for name in FOR_PRIORITIES} == {
        "alpha": 0.5,
        "beta": 0.75,
        "epsilon": 0.25,
        "priority_total": 0.0,
        "max_priority": 1.0,
        "invalid_priorities": 0,
        "stale_updates": 0,
        "effective_sample_size": 0.0,
    }
    add(buffer, 3)
    update(backend, buffer, [1], [8.75])
    stats = buffer.stats()
    assert stats["priority_total"] == 5.0
    assert stats["max_priority"] == 9.0
    assert stats["effective_sample_size"] == 25 / 11
    for name, value in stats.items():
        counted = name in ("invalid_priorities", "stale_updates")
        if name in FOR_PRIORITIES:
            assert type(value) is (int if counted else float), name


def test_the_defaults_are_in_force_from_the_start(backend: Backend) -> None:
    stats = backend.buffer((3,), (2,), 4, prioritized=True).stats()
    assert (stats["alpha"], stats["beta"], stats["epsilon"]) == (0.6, 0.4, 1e-6)


def test_nbytes_counts_the_tree(backend: Backend) -> None:
    # 40 leaves in memory for 48, three sums and one root in memory for 16 each
    tree = 48 * 4 + 2 * 16 * 8
    if backend.is_device:
        tree += 8 * (3 + 1) + 8 + 40 * 4  # tickets, updates, winners
    uniform = backend.buffer((3,), (2,), 40)
    buffer = prioritized(backend, 40)
    assert buffer.nbytes - uniform.nbytes == tree
    assert buffer.stats()["nbytes"] == buffer.nbytes
    assert buffer.nbytes >= 40 * buffer._layout.row_nbytes + CONTROL.itemsize + tree


def test_the_tree_is_part_of_what_has_to_fit(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = 48 * 4 + 2 * 16 * 8 + (200 if backend.is_device else 0)
    rows = 40 * prioritized(backend, 40)._layout.row_nbytes
    limit = rows + tree
    monkeypatch.setattr(cpreplay.replay, "host_memory", lambda: limit)
    monkeypatch.setattr(cpreplay.replay, "device_memory", lambda cupy: limit)
    prioritized(backend, 40)
    limit -= 1
    backend.buffer((3,), (2,), 40)
    with pytest.raises(cpreplay.MemoryLimitError) as caught:
        prioritized(backend, 40)
    message = str(caught.value)
    assert "capacity=40" in message
    assert format_bytes(rows + tree) in message
    assert f"and a sum tree of {format_bytes(tree)}" in message
    assert format_bytes(limit) in message
    prioritized(backend, 40, check_memory=False)


def test_a_prioritized_buffer_of_the_largest_capacity_is_refused_and_not_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpreplay.replay, "host_memory", lambda: 2**30)
    with pytest.raises(cpreplay.MemoryLimitError, match="a sum tree of"):
        cpreplay.StoreReplay((), (), 2**31, prioritized=True)


@pytest.mark.parametrize("what", ["leaf", "sum", "unwritten", "max_priority", "alpha"])
def test_check_finds_a_broken_tree(what: str) -> None:
    buffer = cpreplay.StoreReplay((), (), 300, prioritized=True)
    buffer.add_batch(**numbered_rows(0, 100, (), ()))
    buffer.check()
    levels: list[NDArray[Any]] = buffer._ops.priorities.levels()
    if what == "leaf":
        levels[0][5] = 0.0
    elif what == "sum":
        levels[1][2] = np.nextafter(levels[1][2], 0)
    elif what == "unwritten":
        levels[0][200] = 1.0
    else:
        buffer._ops._control[what] = 0.5
    with pytest.raises(cpreplay.InvariantError):
        buffer.check()


@pytest.mark.parametrize("offset", [0, 4])
def test_draw_tokens_may_lie_on_any_multiple_of_four_bytes(backend: Backend, offset: int) -> None:
    buffer = prioritized(backend, 6, 6)
    batch = buffer.sample(4)

    def moved(array: Any) -> Any:
        if array.dtype != np.int32:
            return array
        room = backend.array(np.zeros(array.size + 1), np.int32)
        place = room[offset // 4 : offset // 4 + array.size].reshape(array.shape)
        place[...] = array
        return place

    buffer.update_priorities(batch.map(moved), [3.0] * 4)
    assert buffer.stats()["stale_updates"] == 0
    assert 3.0 in leaves_of(backend, buffer)


def test_a_foreign_batch_is_called_that_whatever_else_is_wrong(backend: Backend) -> None:
    buffer, larger = prioritized(backend, 6, 6), prioritized(backend, 60, 60)
    batch, errors = larger.sample(16), [math.nan] + [1.0] * 15
    if backend.is_device:
        buffer.update_priorities(batch, errors)
        assert buffer.stats()["stale_updates"] == 16
    else:
        with refused(backend, buffer, cpreplay.ConfigurationError, "not drawn from this buffer"):
            buffer.update_priorities(batch, errors)


def test_a_batch_that_was_never_filled_is_no_draw(backend: Backend) -> None:
    buffer = prioritized(backend, 6, 6)
    buffer.sample(16)  # whose memory the next may get
    empty = buffer.make_batch(16)
    if backend.is_device:
        empty.indices[...] = 0
        buffer.update_priorities(empty, [9.0] * 16)
        assert buffer.stats()["stale_updates"] == 16
    else:
        with refused(backend, buffer, cpreplay.ConfigurationError, "not drawn from this buffer"):
            buffer.update_priorities(empty, [9.0] * 16)
    assert leaves_of(backend, buffer) == [1.0] * 6


def test_no_lanes_are_no_update_whatever_epsilon_is(backend: Backend) -> None:
    buffer = prioritized(backend, 6, 6)
    buffer.configure_per(alpha=1.0, epsilon=1e100)
    buffer.update_priorities([], [])
    assert leaves_of(backend, buffer) == [1.0] * 6


@pytest.mark.parametrize("epsilon", [10**400, np.longdouble("1e400"), math.inf, "1", True, None])
def test_an_epsilon_that_is_no_finite_float_is_refused(backend: Backend, epsilon: Any) -> None:
    buffer = prioritized(backend, 6, 6)
    with refused(backend, buffer, cpreplay.ConfigurationError, "epsilon", "finite number >= 0"):
        buffer.configure_per(alpha=1.0, epsilon=epsilon)


class Scalar:
    """A number of some framework."""

    def __float__(self) -> float:
        return 0.5


@pytest.mark.parametrize("half", [Scalar(), np.array(0.5), np.float16(0.5), Fraction(1, 2)])
def test_beta_may_be_any_number(backend: Backend, half: Any) -> None:
    buffer = prioritized(backend, 6, 6)
    buffer.set_beta(half)
    assert buffer.stats()["beta"] == 0.5


def test_a_beta_summed_past_one_is_told_how_to_stop_there(backend: Backend) -> None:
    buffer = prioritized(backend, 6, 6)
    beta = 0.4
    for _ in range(10):
        beta += 0.6 / 10
    assert beta > 1.0
    with refused(backend, buffer, cpreplay.ConfigurationError, "min(1.0, value)"):
        buffer.set_beta(beta)


def test_a_float32_error_below_the_smallest_normal_one_counts_in_full(backend: Backend) -> None:
    # They are subnormal in float32, and cards flush them to 0 where they read them as float32.
    buffer = prioritized(backend, 2, 2, alpha=0.5)
    buffer.update_priorities([0, 1], backend.array([2.0**-140, -9 * 2.0**-130], np.float32))
    assert leaves_of(backend, buffer) == [2.0**-70, 3 * 2.0**-65]


def test_a_large_draw_keeps_no_large_memory() -> None:
    buffer = prioritized(Backend("host"), 6, 6)
    before = buffer.nbytes
    buffer.sample(100_000)
    assert buffer.nbytes - before < 2**20


def test_only_a_value_just_above_one_is_told_of_sums_of_steps(backend: Backend) -> None:
    buffer = backend.buffer((), (), 4, prioritized=True)
    with pytest.raises(cpreplay.ConfigurationError, match="sum of steps"):
        buffer.set_beta(1.0 + 2.0**-50)
    for value in (1.1, -(2.0**-50)):
        with pytest.raises(cpreplay.ConfigurationError) as refusal:
            buffer.set_beta(value)
        assert "sum of steps" not in str(refusal.value)


def test_an_extra_column_may_be_called_tokens(backend: Backend) -> None:
    buffer = backend.buffer((), (), 4, prioritized=True, extra_columns={"tokens": ()}, seed=1)
    for row in range(4):
        buffer.add(row, row, row, row, False, tokens=10 + row)
    batch = buffer.sample(6)
    assert backend.numpy(batch["tokens"]).tolist() == [
        10 + row for row in backend.numpy(batch.indices).tolist()
    ]
    buffer.update_priorities(batch, backend.array([0.5] * 6, np.float64))
    assert buffer.stats()["stale_updates"] == 0


def test_an_update_is_of_a_buffer_on_the_current_card_alone(emulated_device: Backend) -> None:
    sim.device_count = 2
    with emulated_device.cupy.cuda.Device(1):
        buffer = cpreplay.StoreReplayGpu((3,), (2,), 4, prioritized=True, device=1)
        buffer.add_batch(**numbered_rows(0, 4))
    with (
        sim.recording() as record,
        pytest.raises(cpreplay.ConfigurationError, match="device 1, and device 0 is current"),
    ):
        buffer.update_priorities([0, 1], [2.0, 3.0])
    assert record.launch_names == []
    assert record.h2d_copies == 0


def test_the_largest_error_may_be_of_a_row_that_was_overwritten(backend: Backend) -> None:
    buffer = backend.buffer(1, (), 8, True, seed=0)
    rows = np.arange(8)
    buffer.add_batch(rows[:, None], rows, rows, rows[:, None], rows > 8)
    batch = buffer.sample(64)
    buffer.add([9], 9, 9, [9], False)  # over row 0
    drawn = backend.numpy(batch.indices)
    assert 0 in drawn
    buffer.update_priorities(batch, np.where(drawn == 0, 100.0, 0.5))
    stats = buffer.stats()
    assert stats["max_priority"] == 1.0
    assert stats["stale_updates"] == (drawn == 0).sum()
