"""Compiled loops for four lanes at a time: bit for bit the results of those for one."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cpreplay import StoreReplay, native

ROWS = 4096


@pytest.fixture(autouse=True)
def wide_loops(compiled_loops: None) -> None:
    if not native.compiled().has_wide():
        pytest.skip("this processor has no AVX2, or this build no loops for it")


@contextmanager
def loops(*, wide: bool) -> Iterator[None]:
    before = native.compiled().use_wide(wide)
    try:
        yield
    finally:
        native.compiled().use_wide(before)


def both_ways(results: Callable[[], Any]) -> tuple[Any, Any]:
    found = []
    for wide in (True, False):
        with loops(wide=wide):
            found.append(results())
    return found[0], found[1]


def full(alpha: float, beta: float, rows: int = ROWS, seed: int = 0) -> StoreReplay:
    buffer = StoreReplay(1, 1, rows, prioritized=True, seed=seed)
    buffer.configure_per(alpha, beta, 0.0)
    column = np.zeros((rows, 1), np.float32)
    buffer.add_batch(column, column, column[:, 0], column, np.zeros(rows, bool))
    return buffer


def bits_of(array: NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.asarray(array.view(np.uint32))


def leaves_of(priorities: NDArray[np.float64], alpha: float) -> NDArray[np.uint32]:
    buffer = full(alpha, 0.4, len(priorities))
    buffer.update_priorities(np.arange(len(priorities)), priorities)
    return bits_of(buffer._ops.priorities.leaves(len(priorities)))


@given(st.floats(-1, 1), st.integers(0, 2**32 - 1), st.sampled_from([1, 20, 300]))
@settings(max_examples=100, deadline=None)
def test_estimates_are_a_quarter_of_their_bound_from_the_power(
    exponent: float, seed: int, binades: int
) -> None:
    rng = np.random.default_rng(seed)
    bases = np.ldexp(1 + rng.random(ROWS), rng.integers(-binades, binades, ROWS))
    powers = bases.astype(np.longdouble) ** np.longdouble(exponent)
    estimates = bases.copy()
    native.compiled().estimate_powers(estimates, exponent)
    assert np.abs(estimates / powers - 1).max() <= 2.0**-44  # POWER_ERROR is 2**-42


EXPONENTS = st.one_of(
    st.sampled_from([0.6, 0.7, 0.4, 0.5, 1.0, 0.0, 1e-3, 1 - 2**-53, 5e-324]),
    st.floats(0, 1, allow_subnormal=True),
)


@given(EXPONENTS, st.integers(0, 2**32 - 1), st.sampled_from([1, 30, 130, 800]))
@settings(max_examples=60, deadline=None)
def test_leaves_are_the_same_bits(alpha: float, seed: int, binades: int) -> None:
    rng = np.random.default_rng(seed)
    priorities = np.ldexp(
        1 + rng.random(ROWS + 3), rng.integers(-binades, min(binades, 120), ROWS + 3)
    )
    priorities[::97] = 0.0
    wide, plain = both_ways(lambda: leaves_of(priorities, alpha))
    assert np.array_equal(wide, plain)


@pytest.mark.parametrize("alpha", [0.6, 0.37, 0.99])
def test_leaves_next_to_where_float32_turns_are_the_same_bits(alpha: float) -> None:
    # Powers as near to the middle of two float32 numbers as float64 bases get: no estimate decides.
    rng = np.random.default_rng(1)
    below = np.ldexp(1 + rng.random(ROWS), rng.integers(-60, 60, ROWS)).astype(np.float32)
    middle = (below.astype(np.float64) + np.nextafter(below, np.float32(np.inf))) / 2
    bases = middle ** (1 / alpha)
    for nudged in (bases, np.nextafter(bases, 0), np.nextafter(bases, np.inf)):
        wide, plain = both_ways(lambda nudged=nudged: leaves_of(nudged, alpha))  # type: ignore[misc]
        assert np.array_equal(wide, plain)
        assert len(set((plain - bits_of(below)).tolist())) == 2  # they turn both ways


def drawn(buffer: StoreReplay, batch_size: int, draws: int) -> list[bytes]:
    found = []
    for _ in range(draws):
        batch = buffer.sample(batch_size)
        found += [batch.indices.tobytes(), bits_of(batch.weights).tobytes()]
    return found


@given(
    EXPONENTS,
    st.sampled_from([1, 2, 3, 4, 5, 7, 31, 128, 129, 256, 1000, 5000]),
    st.sampled_from([1, 15, 16, 17, 255, 257, 4096, 5000]),
    st.sampled_from([0, 1, 20, 60]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=120, deadline=None)
def test_draws_and_sums_are_the_same_bits(
    beta: float, batch_size: int, rows: int, binades: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    errors = np.ldexp(rng.random(rows), rng.integers(-binades, binades + 1, rows))
    updates = [(rng.integers(0, rows, n), rng.random(n)) for n in (1, 3, 4, 700)]

    def results() -> list[Any]:
        buffer = full(0.6, beta, rows, seed)
        buffer.update_priorities(np.arange(rows), errors)
        found: list[Any] = drawn(buffer, batch_size, 3)
        for indices, td_errors in updates:
            buffer.update_priorities(indices, td_errors)
            found += drawn(buffer, batch_size, 1)
        found += [level.tobytes() for level in buffer._ops.priorities.levels()]
        found.append(buffer.stats()["max_priority"])
        return found

    wide, plain = both_ways(results)
    assert wide == plain


# A leaf, and the smallest leaf. The quotient of their powers is so near to the middle of two
# float32 numbers that an estimate of the first, or of the second, takes the wrong one: found by
# trying hundreds of millions.
NEAR_THE_MIDDLE = [
    ("0x1.144e68p+6", "0x1p-5"),
    ("0x1.3b1e96p+4", "0x1p-5"),
    ("0x1.4a5f1cp+5", "0x1.3008p-4"),
    ("0x1.39c948p+4", "0x1.3068p-4"),
]


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "plain"])
@pytest.mark.parametrize("texts", NEAR_THE_MIDDLE, ids=str)
def test_a_weight_next_to_where_float32_turns_is_that_of_the_power(
    texts: tuple[str, str], wide: bool
) -> None:
    # The leaves come to 256, the number of rows, so that a weight is leaf ** -0.4, over that of the
    # smallest leaf.
    leaf, smallest = map(float.fromhex, texts)
    leaves = np.array([smallest, leaf, 128 - leaf - smallest, *[0.5] * 250, 1.0, 1.0, 1.0])
    assert leaves.sum() == len(leaves) == 256
    buffer = full(1.0, 0.4, 256)
    buffer.update_priorities(np.arange(256), leaves)
    batch = buffer.make_batch(64)
    with loops(wide=wide):
        buffer._ops._ring.sample(batch._memory.arrays, np.zeros(64, np.uint64))
    assert batch.indices[:3].tolist() == [0, 1, 1]
    weight = np.float32(math.pow(leaf, -0.4) / math.pow(smallest, -0.4))
    assert batch.weights[:3].tolist() == [1.0, weight, weight]


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "plain"])
@pytest.mark.parametrize("rows", [16, 64, 256, 4096])
@pytest.mark.parametrize("batch_size", [16, 64, 256, 4096])
def test_a_target_on_the_border_of_two_rows_is_the_second_ones(
    rows: int, batch_size: int, wide: bool
) -> None:
    # Words of 0 draw at the beginning of each slice, and all leaves are 1.
    buffer = full(1.0, 1.0, rows)
    batch = buffer.make_batch(batch_size)
    with loops(wide=wide):
        buffer.sample(1)  # gives the rows their leaves
        buffer._ops._ring.sample(batch._memory.arrays, np.zeros(batch_size, np.uint64))
    assert batch.indices.tolist() == [lane * rows // batch_size for lane in range(batch_size)]


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "plain"])
def test_a_target_on_the_border_is_the_second_ones_also_where_lanes_are_far_apart(
    wide: bool,
) -> None:
    buffer = full(1.0, 1.0, 4096)
    batch = buffer.make_batch(16)  # slices of 256 rows
    ahead = [37 * lane % 256 for lane in range(16)]
    with loops(wide=wide):
        buffer.sample(1)
        words = np.array([rows << 56 for rows in ahead], np.uint64)
        buffer._ops._ring.sample(batch._memory.arrays, words)
    assert batch.indices.tolist() == [256 * lane + rows for lane, rows in enumerate(ahead)]


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "plain"])
def test_a_target_is_rounded_as_lane_and_word_times_slice(wide: bool) -> None:
    # (1 + word) * (5 / 3) is 3, and 5 / 3 + word * (5 / 3) the number below.
    buffer = full(1.0, 1.0, 5)
    batch = buffer.make_batch(3)
    with loops(wide=wide):
        words = np.array([0, 7205759403792791 << 11, 0], np.uint64)
        buffer._ops._ring.sample(batch._memory.arrays, words)
    assert batch.indices.tolist() == [0, 3, 3]


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "plain"])
@pytest.mark.parametrize(
    ("exponent", "weight"), [(40, 2.0**-30), (160, 2.0**-120), (164, 2.0**-123), (176, 0.0)]
)
def test_weights_are_right_down_to_float32s_smallest_and_0_below(
    exponent: int, weight: float, wide: bool
) -> None:
    # Lane 0 draws row 0, whose leaf is 2**-exponent of the others'; beta is 3/4.
    buffer = full(1.0, 0.75, 64)
    buffer.update_priorities(np.arange(64), np.full(64, np.ldexp(1.0, exponent - 126)))
    buffer.update_priorities([0], [2.0**-126])
    batch = buffer.make_batch(8)
    with loops(wide=wide):
        buffer._ops._ring.sample(batch._memory.arrays, np.zeros(8, np.uint64))
    assert batch.indices.tolist() == [0, 8, 16, 24, 32, 40, 48, 56]
    assert batch.weights.tolist() == [1.0, *[weight] * 7]


def test_targets_beyond_a_nodes_sum_go_to_its_last_child_with_mass() -> None:
    # As rounding does it, but often: nodes on every level say that they hold more than they do.
    def results() -> list[bytes]:
        found = []
        for rows, batch_size in ((5, 64), (100, 64), (4096, 64), (4096, 4096)):
            buffer = full(1.0, 1.0, rows)
            buffer.update_priorities(np.arange(rows), np.arange(rows) % 7)  # some without an error
            for level in buffer._ops.priorities.levels()[1:]:
                level *= 1.5
            batch = buffer.sample(batch_size)
            assert batch.indices.min() >= 0
            assert batch.indices.max() < rows
            found += [batch.indices.tobytes(), bits_of(batch.weights).tobytes()]
        return found

    wide, plain = both_ways(results)
    assert wide == plain


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "plain"])
@pytest.mark.parametrize("batch_size", [256, 1024, 32768])  # by each of the ways down
def test_a_target_at_a_nodes_sum_goes_to_its_last_child_with_mass(
    batch_size: int, wide: bool
) -> None:
    # Nodes of 15 leaves of 1 and one without mass, which say that they hold twice as much.
    buffer = full(1.0, 1.0, 4096)
    buffer.sample(1)  # gives the rows their leaves
    leaves, *sums = buffer._ops.priorities.levels()
    leaves[15:4096:16] = 0.0
    for level, nodes, held in zip(sums, (256, 16, 1), (30.0, 480.0, 7680.0), strict=True):
        level[:nodes] = held
    batch = buffer.make_batch(batch_size)
    ahead = 0.5 if batch_size == 256 else 0.0  # of a slice
    with loops(wide=wide):
        words = np.full(batch_size, int(ahead * 2**64), np.uint64)
        buffer._ops._ring.sample(batch._memory.arrays, words)
    targets = (np.arange(batch_size) + ahead) * 7680 / batch_size
    assert np.count_nonzero(targets % 30 == 15) == 256
    assert batch.indices.tolist() == [
        int(target // 30) * 16 + min(14, int(target % 30)) for target in targets
    ]
