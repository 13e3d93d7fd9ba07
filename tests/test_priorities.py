"""Leaves, weights, and which rows are stale: the formulas, against numbers worked out by hand."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import cpreplay
from cpreplay import priorities
from cpreplay.control import new_control
from tests.conftest import Backend
from tests.golden import reference
from tests.refusals import refused
from tests.strategies import numbered_rows
from tests.test_sumtree import kernel_for_tests

SMALLEST = 2.0**-126
LARGEST = 2.0**128 - 2.0**104  # of float32
OVERFLOW = 2.0**128 - 2.0**103  # half way to 2**128, which rounds to even: to infinity
BELOW_OVERFLOW = math.nextafter(OVERFLOW, 0.0)


def filled(backend: Backend, rows: int, alpha: float, epsilon: float = 0.0) -> Any:
    """A full prioritized buffer."""
    buffer = backend.buffer((), (), rows, prioritized=True, seed=1)
    buffer.configure_per(alpha=alpha, epsilon=epsilon)
    buffer.add_batch(**numbered_rows(0, rows, (), ()))
    return buffer


def leaves_of(backend: Backend, buffer: Any) -> NDArray[np.float32]:
    return backend.numpy(buffer._ops.priorities.levels()[0])[: buffer.capacity]


def update(backend: Backend, buffer: Any, rows: Any, td_errors: Any) -> None:
    rows, td_errors = backend.array(rows, np.int64), backend.array(td_errors, np.float64)
    buffer.update_priorities(rows, td_errors)


def control_block(backend: Backend, capacity: int, total: int, run: int, beta: float = 0.4) -> Any:
    control = new_control(capacity, 0, run)
    control["total"], control["beta"] = total, beta
    return backend.array(control.view(np.uint8))


def weights(
    backend: Backend, leaves: Any, size: int, total: float, beta: float
) -> NDArray[np.float32]:
    """Of a batch of these leaves, by the function of the back end."""
    leaves = np.array(leaves, np.float32)
    if not backend.is_device:
        return priorities.weights_of(leaves, size, total, beta).astype(np.float32)
    raw = raw_weights(backend, leaves, size, total, beta)
    made = backend.cupy.empty(len(raw), np.float32)
    arguments = (backend.array(raw), np.int64(len(raw)), np.float64(raw.max()), made)
    kernel_for_tests(backend.cupy, "normalize")((2,), (32,), arguments)
    return backend.numpy(made)


def raw_weights(
    device: Backend, leaves: NDArray[np.float32], size: int, total: float, beta: float
) -> NDArray[np.float64]:
    n = len(leaves)
    raw = device.cupy.empty(n, np.float64)
    control = control_block(device, size, size, 0, beta)
    arguments = (control, device.array(leaves), np.int64(n), np.float64(total), raw)
    kernel_for_tests(device.cupy, "raw_weights")((2,), (32,), arguments)
    return device.numpy(raw)


# ---- leaves

# alpha, epsilon, TD error, leaf: by hand
LEAVES = [
    (1.0, 0.0, 1.0, 1.0),
    (1.0, 0.0, -2.5, 2.5),
    (1.0, 0.0, 0.1, float(np.float32(0.1))),
    (1.0, 0.5, -2.5, 3.0),
    (1.0, 2.0**-53, 1.0, 1.0),  # a tie in float64, rounded to even
    (1.0, 0.0, 1.0 + 2.0**-24, 1.0),  # a tie in float32, rounded to even
    (1.0, 0.0, 1.0 + 3 * 2.0**-24, 1.0 + 2.0**-22),
    (1.0, 0.0, 1.0 + 2.0**-24 + 2.0**-52, 1.0 + 2.0**-23),
    (1.0, 0.0, 0.0, SMALLEST),
    (1.0, 0.0, -0.0, SMALLEST),
    (1.0, 0.0, 5e-324, SMALLEST),
    (1.0, 0.0, 2.0**-127, SMALLEST),
    (1.0, 0.0, math.nextafter(SMALLEST, 0.0), SMALLEST),
    (1.0, 0.0, SMALLEST, SMALLEST),
    (1.0, 0.0, SMALLEST * (1 + 2.0**-23), SMALLEST * (1 + 2.0**-23)),
    (1.0, 1e-6, 0.0, float(np.float32(1e-6))),
    (1.0, 0.0, LARGEST, LARGEST),
    (1.0, 0.0, -BELOW_OVERFLOW, LARGEST),
    (0.5, 0.0, 16.0, 4.0),
    (0.5, 9.0, -16.0, 5.0),
    (0.5, 0.0, 2.25, 1.5),
    (0.5, 0.0, 0.0, SMALLEST),
    (0.5, 0.0, 2.0**-252, SMALLEST),
    (0.5, 0.0, 2.0**-254, SMALLEST),
    (0.5, 0.0, 2.0**-250, 2.0**-125),
    (0.5, 0.0, LARGEST**2, LARGEST),
    (0.25, 0.0, 81.0, 3.0),
    (0.25, 0.0, 2.0**508, 2.0**127),
    (0.0, 0.0, 0.0, 1.0),  # 0**0 is 1
    (0.0, 0.0, 5e-324, 1.0),
    (0.0, 0.0, 7.0, 1.0),
    (0.0, 0.0, np.finfo(float).max, 1.0),
    (0.0, 3.0, 0.0, 1.0),
]


@pytest.mark.parametrize(("alpha", "epsilon", "td_error", "leaf"), LEAVES)
def test_a_leaf_is_the_power_of_the_error_and_never_too_small(
    backend: Backend, alpha: float, epsilon: float, td_error: float, leaf: float
) -> None:
    buffer = filled(backend, 2, alpha, epsilon)
    update(backend, buffer, [1], [td_error])
    assert leaves_of(backend, buffer).tolist() == [1.0, leaf]
    assert buffer.stats()["max_priority"] == max(1.0, abs(td_error) + epsilon)
    assert buffer.stats()["invalid_priorities"] == 0
    buffer.check()


BAD = [
    (1.0, 0.0, math.nan),
    (1.0, 0.0, math.inf),
    (1.0, 0.0, -math.inf),
    (0.0, 0.0, math.nan),  # though NaN**0 is 1
    (0.0, 0.0, math.inf),
    (0.0, 0.0, -math.inf),
    (1.0, 0.0, OVERFLOW),
    (1.0, 0.0, -OVERFLOW),
    (1.0, 0.0, 2.0**128),
    (1.0, 0.0, np.finfo(float).max),
    (1.0, OVERFLOW, 0.0),
    (1.0, 2.0**127, 2.0**127),
    (0.5, 0.0, 2.0**256),
    (0.25, 0.0, 2.0**512),
    (0.5, 0.0, np.finfo(float).max),
]


@pytest.mark.parametrize(("alpha", "epsilon", "td_error"), BAD)
def test_an_error_without_a_finite_leaf_is_refused_or_skipped(
    backend: Backend, alpha: float, epsilon: float, td_error: float
) -> None:
    buffer = filled(backend, 2, alpha, epsilon)
    if backend.is_device:
        update(backend, buffer, [1], [td_error])
        assert buffer.stats()["invalid_priorities"] == 1
    else:
        with refused(backend, buffer, cpreplay.ColumnValueError, "lane 0", str(td_error)):
            update(backend, buffer, [1], [td_error])
    assert leaves_of(backend, buffer).tolist() == [1.0, 1.0]
    assert buffer.stats()["max_priority"] == 1.0
    buffer.check()


def test_a_sum_of_error_and_epsilon_beyond_float64_is_refused_or_skipped(backend: Backend) -> None:
    for alpha in (0.0, 0.1):
        buffer = filled(backend, 3, alpha, 1.5e308)
        if backend.is_device:
            update(backend, buffer, [0, 1, 2], [0.5e307, 1e308, -1e308])
            assert buffer.stats()["invalid_priorities"] == 2
        else:
            with refused(backend, buffer, cpreplay.ColumnValueError, "lane 1 is 1e+308"):
                update(backend, buffer, [0, 1, 2], [0.5e307, 1e308, -1e308])
        assert leaves_of(backend, buffer)[1:].tolist() == [1.0, 1.0]


def test_random_leaves_are_the_witnesses(backend: Backend) -> None:
    rng = np.random.default_rng(5)
    td_errors = rng.standard_normal(2000) * 10.0 ** rng.uniform(-12, 12, 2000)
    for alpha in (0.0, 0.3, 0.6, 1.0):
        buffer = filled(backend, 2000, alpha, 1e-6)
        update(backend, buffer, range(2000), td_errors)
        found = leaves_of(backend, buffer)
        expected = [reference.leaf_from_td_error(error, alpha, 1e-6) for error in td_errors]
        # A power may differ in the last bit of float64, and so one leaf in many in that of float32.
        assert np.count_nonzero(found != np.float32(expected)) <= 1
        assert np.allclose(found, expected, rtol=2e-7, atol=0)


def test_a_new_row_enters_at_the_largest_priority_to_the_power_of_alpha(backend: Backend) -> None:
    for alpha, largest, leaf in ((0.5, 16.0, 4.0), (1.0, 2.5, 2.5), (0.0, 5.0, 1.0)):
        buffer = filled(backend, 2, alpha)
        assert leaves_of(backend, buffer).tolist() == [1.0, 1.0]
        update(backend, buffer, [0], [-largest])
        buffer.add_batch(**numbered_rows(2, 2, (), ()))
        assert leaves_of(backend, buffer).tolist() == [leaf, leaf]


def test_the_bounds_are_those_of_float32() -> None:
    assert float(np.finfo(np.float32).smallest_normal) == priorities.SMALLEST
    with np.errstate(over="ignore"):
        assert np.float32(priorities.OVERFLOW) == np.inf
    assert np.float32(math.nextafter(priorities.OVERFLOW, 0.0)) == np.finfo(np.float32).max


# ---- weights


def test_the_weights_of_two_rows_by_hand(backend: Backend) -> None:
    leaves = [1.0, 3.0]
    # sizes over sums: 2 * 1 / 4 = 0.5 and 2 * 3 / 4 = 1.5
    assert weights(backend, leaves, 2, 4.0, 1.0).tolist() == [1.0, float(np.float32(1 / 3))]
    assert weights(backend, leaves, 2, 4.0, 0.0).tolist() == [1.0, 1.0]
    by_root = weights(backend, leaves, 2, 4.0, 0.5)
    assert by_root[0] == 1.0
    assert by_root[1] == pytest.approx(1 / math.sqrt(3), rel=1e-7)


def test_raw_weights_have_the_sign_and_the_base_of_the_paper(device: Backend) -> None:
    raw = raw_weights(device, np.float32([1, 3]), 2, 4.0, 1.0)
    assert raw.tolist() == [2.0, 1 / 1.5]
    raw = raw_weights(device, np.float32([1, 4]), 5, 20.0, 0.5)
    assert raw.tolist() == [2.0, 1.0]  # (5 / 20) ** -0.5, and (5 * 4 / 20) ** -0.5
    # size * p is divided by the total, and not p: 49 * (1 / 49) is not 1
    assert raw_weights(device, np.float32([1, 2]), 49, 49.0, 1.0).tolist() == [1.0, 0.5]


def test_weights_of_powers_of_two_are_exact(backend: Backend) -> None:
    leaves = [2.0**-126, 2.0**-100, 2.0**-2, 1.0]
    assert weights(backend, leaves, 4, 4.0, 1.0).tolist() == [1.0, 2.0**-26, 2.0**-124, 2.0**-126]
    assert weights(backend, [1.0, 4.0, 16.0], 3, 32.0, 0.5).tolist() == [1.0, 0.5, 0.25]


def test_a_weight_that_float32_would_flush_is_0(backend: Backend) -> None:
    after_one = float(np.nextafter(np.float32(1), np.float32(2)))
    leaves = [2.0**-126, 1.0, after_one, 2.0, 2.0**100, LARGEST]
    found = weights(backend, leaves, 6, 2.0**128, 1.0)
    assert found.tolist() == [1.0, 2.0**-126, 0.0, 0.0, 0.0, 0.0]


def test_the_largest_weight_is_exactly_one_and_none_is_more(backend: Backend) -> None:
    rng = np.random.default_rng(6)
    for beta in (0.0, 0.1, 0.4, 0.999, 1.0):
        leaves = (10.0 ** rng.uniform(-20, 20, 300)).astype(np.float32)
        total = float(leaves.sum(dtype=np.float64)) * 3
        found = weights(backend, leaves, 777, total, beta)
        assert found.max() == found[leaves.argmin()] == 1.0
        assert found.min() >= 0.0
        expected = np.float32(reference.weights(leaves.tolist(), 777, total, beta))
        assert np.count_nonzero(found != expected) <= 2  # the last bit of a power
        assert np.allclose(found, expected, rtol=2e-7, atol=0)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_the_weight_of_one_row_or_of_equal_rows_is_one(backend: Backend, beta: float) -> None:
    for leaf in (2.0**-126, 0.3, 1.0, LARGEST):
        assert weights(backend, [leaf], 1, leaf, beta).tolist() == [1.0]
        assert weights(backend, [leaf] * 5, 2**31, leaf * 2.0**31, beta).tolist() == [1.0] * 5


# ---- which rows are stale


def is_stale(
    backend: Backend, rows: list[int], tokens: list[int], total: int, capacity: int, run: int
) -> list[bool]:
    """By the functions of the back end."""
    drawn, given = np.array(rows, np.int64), np.array(tokens, np.uint64)
    if not backend.is_device:
        ages = priorities.ages_of(given, total, run)
        ours = ages <= total
        stale = ~ours
        stale[ours] = priorities.stale_lanes(drawn[ours], ages[ours], total, capacity)
        return stale.tolist()
    found = backend.cupy.zeros(len(rows), np.uint8)
    arguments = (
        control_block(backend, capacity, total, run),
        backend.array(drawn),
        backend.array(given),
        np.int64(len(rows)),
        found,
    )
    kernel_for_tests(backend.cupy, "stale")((2,), (32,), arguments)
    return backend.numpy(found).astype(bool).tolist()


@pytest.mark.parametrize("run", [0, 12345, 2**63, 2**64 - 9])
def test_a_row_is_stale_if_its_slot_was_written_since_the_draw(backend: Backend, run: int) -> None:
    for capacity in (1, 2, 3, 4, 5, 8):
        slots: list[int | None] = [None] * capacity  # the number of the write that is there
        history = [list(slots)]
        for total in range(3 * capacity + 4):
            rows, tokens, expected = [], [], []
            for then, before in enumerate(history):
                for row, write in enumerate(before):
                    if write is not None:
                        rows.append(row)
                        tokens.append((then + run) % 2**64)
                        expected.append(slots[row] != write)
            if rows:
                assert is_stale(backend, rows, tokens, total, capacity, run) == expected
            slots[total % capacity] = total
            history.append(list(slots))


@pytest.mark.parametrize("capacity", [1, 7, 2**31])
def test_a_token_of_another_run_or_of_later_is_none_of_ours(
    backend: Backend, capacity: int
) -> None:
    run, total = 2**40, 100
    tokens = [
        priorities.draw_token(50, run + 2**50),
        priorities.draw_token(50, 0),
        priorities.draw_token(total + 1, run),  # of a state that was rolled back
        priorities.draw_token(total + 2**40, run),
        (run - 1) % 2**64,  # before anything was written
        0,
        2**64 - 1,
    ]
    found = is_stale(backend, [0] * len(tokens), tokens, total, capacity, run)
    assert found == [True] * len(tokens)
    assert is_stale(backend, [0], [priorities.draw_token(total, run)], total, capacity, run) == [
        False
    ]


def test_ages_do_not_overflow_after_2_to_the_40_rows(backend: Backend) -> None:
    capacity, total, run = 10**6, 2**40 + 3, 2**64 - 1
    newest = (total - 1) % capacity
    oldest = total % capacity
    tokens = [priorities.draw_token(total - ago, run) for ago in (0, 1, 1, 2, 10**6 - 1, 10**6)]
    rows = [newest, newest, oldest, newest, oldest, newest]
    found = is_stale(backend, rows, tokens, total, capacity, run)
    # the write one row ago went to `newest`; 10**6 - 1 rows ago every slot but the oldest's
    assert found == [False, True, False, True, False, True]


@given(st.integers(0, 2**62), st.integers(0, 2**64 - 1))
def test_a_token_tells_the_total_from_where_its_run_begins(total: int, run: int) -> None:
    token = priorities.draw_token(total, run)
    assert 0 <= token < 2**64
    assert (token - run) % 2**64 == total
    assert priorities.ages_of(np.array([token], np.uint64), total, run).tolist() == [0]
    assert priorities.ages_of(np.array([token], np.uint64), total + 5, run).tolist() == [5]


# ---- effective sample size


def test_the_effective_sample_size_by_hand() -> None:
    def of(*chunks: list[float]) -> float:
        return priorities.effective_sample_size(np.array(chunk, np.float32) for chunk in chunks)

    assert of([1, 1, 1, 1]) == 4.0
    assert of([0.5] * 100, [0.5] * 28, [0.0] * 16) == 128.0
    assert of([1, 3]) == 1.6  # 16 / 10
    assert of([1], [3]) == 1.6
    assert of([7, 0, 0]) == 1.0
    assert of([0.0, 0.0]) == 0.0
    assert of() == 0.0
    assert of([SMALLEST] * 8) == 8.0
    assert of([LARGEST] * 8) == 8.0


def test_stats_say_how_many_equal_rows_would_vary_as_much(backend: Backend) -> None:
    buffer = backend.buffer((), (), 5000, prioritized=True)
    buffer.configure_per(alpha=1.0, epsilon=0.0)
    assert buffer.stats()["effective_sample_size"] == 0.0
    buffer.add_batch(**numbered_rows(0, 2, (), ()))
    assert buffer.stats()["effective_sample_size"] == 2.0
    update(backend, buffer, [1], [3.0])
    assert buffer.stats()["effective_sample_size"] == 1.6
    buffer.add_batch(**numbered_rows(2, 4998, (), ()))  # at 3
    exact = Fraction(1 + 3 * 4999) ** 2 / (1 + 9 * 4999)
    assert buffer.stats()["effective_sample_size"] == pytest.approx(float(exact), rel=1e-12)


# ---- where the caller made NumPy raise


def test_no_formula_warns_or_raises_under_strict_floating_point() -> None:
    small = [0.0, 5e-324, 1e-310, 2.0**-1022, 1e-300, 1e-38, 1.0, 1e38, 1e300, 1.7e308]
    with np.errstate(all="raise"):
        for alpha in (0.0, 0.3, 0.6, 0.5, 0.999, 1.0):
            leaves = priorities.leaves_of(np.array(small), alpha)
            assert leaves.min() >= SMALLEST
            assert priorities.entering_leaf(1.0, alpha) == 1.0
        leaves = np.array([SMALLEST, 1e-20, 1.0, LARGEST], np.float32)
        for beta in (0.0, 0.4, 1.0):
            for size in (1, 4, 2**31):
                found = priorities.weights_of(leaves, size, LARGEST * size, beta).astype(np.float32)
                assert found[0] == 1.0
                assert np.isfinite(found).all()
        ages = priorities.ages_of(np.array([3, 2**64 - 1], np.uint64), 5, 2**64 - 1)
        assert ages.tolist() == [1, 5]
        assert priorities.effective_sample_size([leaves]) == pytest.approx(1.0)


def test_a_buffer_works_under_strict_floating_point() -> None:
    with np.errstate(all="raise"):
        for alpha in (0.0, 0.6, 0.999, 1.0):
            buffer = cpreplay.StoreReplay((), (), 40, prioritized=True, seed=0)
            buffer.configure_per(alpha=alpha, epsilon=0.0)
            buffer.add_batch(**numbered_rows(0, 30, (), ()))
            errors = [0.0, -5e-324, 1e-310, 1e-38, 1e-20, 1.0, 1e20, 1e38]
            buffer.update_priorities(np.arange(8), errors)
            buffer.update_priorities(np.arange(8), np.float32(errors[3:] + [1.0] * 3))
            for beta in (0.0, 0.4, 1.0):
                buffer.set_beta(beta)
                batch = buffer.sample(50)
                buffer.update_priorities(batch, batch.reward)
            with pytest.raises(cpreplay.ColumnValueError):
                buffer.update_priorities(batch, np.full(50, np.nan))
            with pytest.raises(cpreplay.ColumnValueError):
                buffer.update_priorities(batch, np.full(50, np.inf))
            buffer.stats()
            buffer.check()


def test_a_weight_just_below_the_smallest_is_not_rounded_up_to_it(backend: Backend) -> None:
    # Their quotient is 2 ** -(126 + 2**-26), which float32 would round to 2**-126.
    beta = (126 + 2.0**-26) / 253
    assert 2.0 ** (-253 * beta) < 2.0**-126
    assert weights(backend, [2.0**-126, 2.0**127], 2, 2.0**128, beta).tolist() == [1.0, 0.0]


def test_the_leaf_for_alpha_one_half_is_a_root(backend: Backend) -> None:
    td_error = float.fromhex("0x1.fffffe0000007p-1")
    buffer = filled(backend, 2, 0.5)
    update(backend, buffer, [1], [td_error])
    assert leaves_of(backend, buffer).tolist() == [1.0, float(np.float32(math.sqrt(td_error)))]


def test_raw_weights_are_exact_for_beta_1_and_nearly_so_elsewhere(device: Backend) -> None:
    # The C library's pow(x, -1.0) is one bit off for the first three.
    for leaf in (11023095431168.0, 9.527300859263262e-19, 5.675377445255587e-25, 3.0):
        raw = raw_weights(device, np.float32([leaf]), 1, 1.0, 1.0)
        assert raw.tolist() == [1 / float(np.float32(leaf))]
    leaves = (10.0 ** np.random.default_rng(9).uniform(-37, 37, 500)).astype(np.float32)
    raw = raw_weights(device, leaves, 500, 1e10, 0.4)
    expected = [(500 * leaf / 1e10) ** -0.4 for leaf in leaves.astype(np.float64).tolist()]
    assert np.allclose(raw, expected, rtol=4 * 2.0**-52, atol=0)


def test_the_lane_whose_leaf_is_too_large_is_named() -> None:
    buffer = filled(Backend("host"), 3, 1.0)
    with pytest.raises(cpreplay.ColumnValueError, match=r"lane 1 is 1e\+39"):
        buffer.update_priorities([0, 1, 2], [1.0, 1e39, 2.0])
