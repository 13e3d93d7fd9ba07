"""The reference models, against examples worked out by hand and against their own definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import golden
from tests.golden import make_golden, reference
from tests.golden.reference import SumTree, to_float32
from tests.models import (
    PrioritizedModel,
    RingModel,
    UniformModel,
    can_be_quantized,
    dequantize,
    nearest_float32,
    quantize,
    quantize_clamped,
    rows_in_window,
)

capacities = st.integers(1, 12)
batch_lengths = st.lists(st.integers(0, 30), max_size=6)


def ring_of(capacity: int, rows: list[Any]) -> RingModel:
    ring = RingModel(capacity)
    ring.add_batch(rows)
    return ring


# The ring, worked out by hand


def test_the_last_step_of_an_episode_keeps_its_own_final_observation() -> None:
    ring = RingModel(8)
    for obs, next_obs in [(0, 1), (1, 2), (2, 3), (10, 11)]:
        ring.add({"obs": obs, "next_obs": next_obs, "terminated": False})
    assert ring.rows()[2] == {"obs": 2, "next_obs": 3, "terminated": False}


def test_the_newest_row_has_its_own_next_observation_with_the_oldest_row_behind_it() -> None:
    ring = RingModel(4)
    for step in range(5):
        ring.add({"obs": step, "next_obs": 100 + step})
    assert ring.head == 1
    assert ring.rows()[0] == {"obs": 4, "next_obs": 104}
    assert ring.rows()[1] == {"obs": 1, "next_obs": 101}


def test_a_batch_that_wraps_goes_on_at_slot_zero() -> None:
    ring = RingModel(5)
    ring.add_batch([0, 1, 2])
    assert ring.rows() == [0, 1, 2, None, None]
    ring.add_batch([3, 4, 5])
    assert ring.rows() == [5, 1, 2, 3, 4]
    assert (ring.size, ring.total, ring.head) == (5, 6, 1)


def test_of_a_batch_larger_than_the_ring_the_last_rows_remain_in_their_places() -> None:
    ring = ring_of(5, list(range(12)))
    assert ring.rows() == [10, 11, 7, 8, 9]
    assert (ring.size, ring.total, ring.head) == (5, 12, 2)


def test_every_column_of_a_row_stays_with_its_row() -> None:
    ring = ring_of(5, [{"obs": i, "action": i, "reward": i} for i in range(13)])
    for row in ring.rows():
        assert row["obs"] == row["action"] == row["reward"]


def test_what_the_caller_does_to_a_row_afterwards_does_not_change_the_stored_one() -> None:
    obs = [0, 0]
    ring = ring_of(2, [{"obs": obs}])
    obs[0] = 9
    assert ring.rows() == [{"obs": [0, 0]}, None]


def test_a_part_full_ring_has_the_size_of_what_was_added() -> None:
    ring = ring_of(300, list(range(200)))
    assert (ring.size, ring.total, ring.head) == (200, 200, 200)
    assert ring.rows()[199:201] == [199, None]


def test_a_ring_filled_exactly_writes_next_over_its_first_row() -> None:
    ring = ring_of(3, ["a", "b", "c"])
    assert (ring.size, ring.head) == (3, 0)
    ring.add("d")
    assert ring.rows() == ["d", "b", "c"]


def test_a_mask_leaves_rows_out_and_leaves_no_holes() -> None:
    ring = RingModel(4)
    ring.add_batch([0, 1, 2, 3, 4], mask=[True, False, False, True, True])
    assert ring.rows() == [0, 3, 4, None]


def test_a_mask_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError):
        RingModel(4).add_batch([0, 1], mask=[True])


# The ring, for any adds


@settings(deadline=None)
@given(capacities, batch_lengths)
def test_the_rows_from_newest_to_oldest_are_the_last_adds(
    capacity: int, lengths: list[int]
) -> None:
    ring = RingModel(capacity)
    added: list[int] = []
    for length in lengths:
        batch = list(range(len(added), len(added) + length))
        ring.add_batch(batch)
        added += batch
    assert ring.newest_first() == added[::-1][:capacity]
    assert ring.size == min(len(added), capacity)
    assert ring.total == len(added)
    assert ring.head == len(added) % capacity


@settings(deadline=None)
@given(capacities, st.lists(st.booleans(), max_size=40))
def test_a_masked_batch_is_its_wanted_rows_added_one_by_one(
    capacity: int, mask: list[bool]
) -> None:
    ring = RingModel(capacity)
    ring.add_batch(list(range(len(mask))), mask)
    one_by_one = RingModel(capacity)
    for row, wanted in enumerate(mask):
        if wanted:
            one_by_one.add(row)
    assert ring.rows() == one_by_one.rows()
    assert ring.head == one_by_one.head


# The demo prefix


@pytest.mark.parametrize("name", ["demo_philox", "ere_philox", "range_philox", "uniform_philox"])
def test_the_ring_model_has_the_golden_size_and_head_after_every_add(name: str) -> None:
    for scenario in golden.load(name):
        ring = RingModel(scenario["capacity"])
        for operation in scenario["operations"]:
            match operation:
                case {"do": "add", "n": n, "size": size, "head": head}:
                    ring.add_batch(["row"] * n)
                    assert (ring.size, ring.head) == (size, head), scenario["name"]
                case {"do": "pin_demo_prefix", "n": n, "batch_size": batch}:
                    ring.pin_demo_prefix(n, batch)


def test_a_pinned_prefix_survives_three_wraps_of_the_online_rows() -> None:
    ring = ring_of(5, ["demo 0", "demo 1"])
    ring.pin_demo_prefix(2)
    ring.add_batch(list(range(10)))
    assert ring.rows() == ["demo 0", "demo 1", 9, 7, 8]
    assert (ring.head, ring.size, ring.demo_count) == (3, 5, 2)
    assert ring.newest_first() == [9, 8, 7]


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 40))
def test_the_head_of_a_pinned_ring_goes_round_behind_the_prefix(
    demos: int, online: int, adds: int
) -> None:
    ring = ring_of(demos + online, [("demo", i) for i in range(demos)])
    ring.pin_demo_prefix(demos)
    ring.add_batch([("online", i) for i in range(adds)])
    assert ring.rows()[:demos] == [("demo", i) for i in range(demos)]
    assert ring.head == demos + (ring.total - demos) % online
    newest = [("online", i) for i in reversed(range(adds))]
    assert ring.newest_first() == newest[:online]


@pytest.mark.parametrize(
    ("capacity", "added", "n", "batch_size"),
    [
        pytest.param(8, 0, 0, 1, id="no-rows"),
        pytest.param(8, 3, 2, 1, id="fewer-than-were-added"),
        pytest.param(8, 3, 4, 1, id="more-than-were-added"),
        pytest.param(8, 8, 8, 1, id="no-room-for-an-online-row"),
        pytest.param(8, 10, 10, 1, id="wrapped"),
        pytest.param(8, 5, 5, 4, id="less-room-than-a-minibatch"),
    ],
)
def test_a_prefix_that_cannot_be_pinned_is_refused_and_nothing_changes(
    capacity: int, added: int, n: int, batch_size: int
) -> None:
    ring = ring_of(capacity, list(range(added)))
    before = (ring.rows(), ring.head)
    with pytest.raises(ValueError):
        ring.pin_demo_prefix(n, batch_size)
    assert (ring.rows(), ring.head) == before
    assert ring.demo_count == 0


def test_a_prefix_with_room_for_exactly_one_minibatch_is_pinned() -> None:
    ring = ring_of(8, list(range(5)))
    ring.pin_demo_prefix(5, batch_size=3)
    assert ring.demo_count == 5


def test_a_second_pin_is_refused() -> None:
    ring = ring_of(8, [0, 1])
    ring.pin_demo_prefix(2)
    with pytest.raises(ValueError, match="already"):
        ring.pin_demo_prefix(2)


# Drawing


@pytest.mark.parametrize(
    ("word", "row"),
    [(0, 10), (2**62 - 1, 10), (2**62, 11), (2**63, 12), (3 * 2**62, 13), (2**64 - 1, 13)],
)
def test_a_word_chooses_its_quarter_of_a_window_of_four_rows(word: int, row: int) -> None:
    assert rows_in_window([word], 10, 14) == [row]


@pytest.mark.parametrize("name", ["uniform_philox", "uniform_pcg64", "range_philox", "range_pcg64"])
def test_the_uniform_model_draws_the_golden_rows(name: str) -> None:
    for scenario in golden.load(name):
        words = reference.word_source(scenario["rng"], scenario["seed"], scenario["draws"])
        model = UniformModel(scenario["capacity"], words)
        for operation in scenario["operations"]:
            match operation:
                case {"do": "add", "n": n}:
                    model.ring.add_batch(["row"] * n)
                case {"do": "sample", "batch": batch, "rows": rows}:
                    assert model.sample(batch) == rows, scenario["name"]
                case {"do": "sample_range", "batch": batch, "lo": lo, "hi": hi, "rows": rows}:
                    assert model.sample_range(batch, lo, hi) == rows, scenario["name"]
                case _:
                    pytest.fail(f"the model does not know {operation}")


@settings(deadline=None)
@given(capacities, st.integers(1, 30), st.integers(0, 2**64 - 1), st.integers(1, 40))
def test_a_draw_gives_stored_rows_only(capacity: int, adds: int, seed: int, batch: int) -> None:
    model = UniformModel(capacity, reference.PhiloxWords(seed))
    model.ring.add_batch(list(range(adds)))
    rows = model.sample(batch)
    assert len(rows) == batch
    assert set(model.minibatch(rows)) <= set(range(adds)[-capacity:])


def test_the_draw_number_grows_by_one_with_every_draw_whatever_its_batch() -> None:
    model = UniformModel(8, reference.PhiloxWords(seed=3, draws=10))
    model.ring.add_batch(list(range(6)))
    assert model.sample(1) == reference.draw_rows(3, 10, 1, 0, 6)
    assert model.sample_range(20, 1, 4) == reference.draw_rows(3, 11, 20, 1, 4)
    assert model.sample(5) == reference.draw_rows(3, 12, 5, 0, 6)
    assert model.draws == 13


def test_an_empty_ring_is_not_drawn_from() -> None:
    with pytest.raises(ValueError, match="empty"):
        UniformModel(4, reference.PhiloxWords(0)).sample(2)


@pytest.mark.parametrize(
    ("batch", "lo", "hi"), [(2, -1, 2), (2, 2, 2), (2, 3, 1), (2, 0, 4), (0, 0, 3)]
)
def test_a_refused_draw_takes_no_words(batch: int, lo: int, hi: int) -> None:
    model = UniformModel(8, reference.Pcg64Words(5))
    model.ring.add_batch([0, 1, 2])
    with pytest.raises(ValueError):
        model.sample_range(batch, lo, hi)
    undisturbed = reference.Pcg64Words(5)
    assert model.draws == 0
    assert model.words.next(3) == undisturbed.next(3)


# float32


@pytest.mark.parametrize(
    ("x", "rounded"),
    [
        (1.0, 1.0),
        (0.1, 0.100000001490116119384765625),
        (1.0 + 2.0**-24, 1.0),  # half a step: the even neighbour is below
        (1.0 + 3 * 2.0**-24, 1.0 + 2.0**-22),  # and here it is above
        (1.0 + 2.0**-24 + 2.0**-52, 1.0 + 2.0**-23),
        (2.0**-149, 2.0**-149),
        (2.0**128 - 2.0**104, 2.0**128 - 2.0**104),  # the largest
        (2.0**128 - 2.0**103 - 2.0**75, 2.0**128 - 2.0**104),
    ],
)
def test_a_float64_becomes_the_nearest_float32(x: float, rounded: float) -> None:
    assert to_float32(x) == rounded


@pytest.mark.parametrize("x", [2.0**128 - 2.0**103, 1e300, math.inf, math.nan])
def test_what_no_float32_is_near_to_is_refused(x: float) -> None:
    with pytest.raises(OverflowError):
        to_float32(x)


@settings(deadline=None)
@given(st.floats(0, 3.4e38))
def test_rounding_to_float32_agrees_with_rational_numbers(x: float) -> None:
    assert to_float32(x) == nearest_float32(Fraction(x))


@pytest.mark.parametrize("scale", [1.0, 2.0**-40, 1e30])
def test_the_maker_of_golden_files_refuses_a_rounding_that_hangs_on_last_bits(scale: float) -> None:
    half_a_step = to_float32(scale) + math.ldexp(1, math.frexp(scale)[1] - 25)
    assert make_golden.sure_float32(half_a_step * (1 + 2e-13)) > to_float32(scale)
    assert make_golden.sure_float32(half_a_step * (1 - 2e-13)) == to_float32(scale)
    for near in (half_a_step, half_a_step * (1 + 2e-15), half_a_step * (1 - 2e-15)):
        with pytest.raises(AssertionError):
            make_golden.sure_float32(near)


# Leaves and weights, worked out by hand


@pytest.mark.parametrize(
    ("td_error", "alpha", "epsilon", "leaf"),
    [
        (16.0, 0.5, 0.0, 4.0),
        (-16.0, 0.5, 0.0, 4.0),
        (2.0, 1.0, 0.25, 2.25),
        (-3.75, 0.5, 0.25, 2.0),  # the power is of the sum
        (5.0, 0.0, 1.0, 1.0),
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 1.0, 0.0, 2.0**-126),
        (1e-40, 1.0, 0.0, 2.0**-126),  # a float32 of its own, but a subnormal one
        (1e-45, 0.5, 0.0, 3.1622776601683795e-23),  # small, and its root is not
        (0.0, 1.0, 1e-6, 1e-6),
        (1e300, 0.0, 0.0, 1.0),
        (2.0**128 - 2.0**104, 1.0, 0.0, 2.0**128 - 2.0**104),
        (1e76, 0.5, 0.0, 1e38),
    ],
)
def test_the_leaf_of_a_td_error(td_error: float, alpha: float, epsilon: float, leaf: float) -> None:
    assert reference.leaf_from_td_error(td_error, alpha, epsilon) == to_float32(leaf)


@pytest.mark.parametrize(
    ("td_error", "alpha", "error"),
    [
        (math.nan, 0.5, ValueError),
        (math.inf, 0.0, ValueError),  # although its power would be 1
        (-math.inf, 1.0, ValueError),
        (2.0**128, 1.0, OverflowError),
        (2.0**128 - 2.0**103, 1.0, OverflowError),  # rounds to infinity
        (1e300, 0.5, OverflowError),
    ],
)
def test_a_td_error_without_a_leaf(td_error: float, alpha: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        reference.leaf_from_td_error(td_error, alpha, 0.0)


def test_the_leaf_of_a_new_row_is_the_power_of_the_largest_priority() -> None:
    assert reference.entering_leaf(1.0, 0.6) == 1.0
    assert reference.entering_leaf(16.0, 0.5) == 4.0
    assert reference.entering_leaf(2.5, 1.0) == 2.5
    assert reference.entering_leaf(1e30, 0.0) == 1.0


@pytest.mark.parametrize(
    ("leaves", "size", "total", "beta", "expected"),
    [
        # Two rows of 1 and 3: 2 * 1 / 4 = 1/2 and 2 * 3 / 4 = 3/2, so 2 and 2/3, and 1 and 1/3.
        ([1.0, 3.0], 2, 4.0, 1.0, [1.0, 0.3333333432674408]),
        ([3.0, 3.0], 2, 4.0, 1.0, [1.0, 1.0]),  # the largest of the batch, not of the buffer
        ([1.0, 4.0], 5, 8.0, 0.5, [1.0, 0.5]),
        ([1.0, 3.0, 2.0], 9, 60.0, 0.0, [1.0, 1.0, 1.0]),
        ([2.0**-126, 1.0], 2, 1.0, 1.0, [1.0, 2.0**-126]),
        ([2.0**-126, 1.0 + 2.0**-20], 2, 1.0, 1.0, [1.0, 0.0]),  # a device would flush it
        ([2.0**-126, 4.0], 2, 1.0, 0.5, [1.0, 2.0**-64]),
    ],
)
def test_the_weights_of_drawn_rows(
    leaves: list[float], size: int, total: float, beta: float, expected: list[float]
) -> None:
    assert reference.weights(leaves, size, total, beta) == expected


def test_before_they_are_rounded_weights_are_quotients_of_float64() -> None:
    assert reference.weight_quotients([1.0, 3.0], 2, 4.0, 1.0) == [1.0, (1 / 1.5) / 2.0]


# Reals


def test_a_real_is_the_upper_53_bits_of_a_word() -> None:
    words = [0, 2**11 - 1, 2**11, 2**63, 2**64 - 1]
    assert [reference.real(word) for word in words] == [0.0, 0.0, 2.0**-53, 0.5, 1 - 2.0**-53]


def test_the_reals_of_a_philox_draw_come_from_blocks_with_tag_one() -> None:
    seed, draw_number = 3, 5 * 2**32 + 7
    for lane, u in enumerate(reference.draw_reals(seed, draw_number, 3)):
        out = reference.philox([7, 5, 0, 1], reference.lane_key(seed, lane))
        assert u == ((out[1] << 32 | out[0]) >> 11) / 2**53
        assert u != reference.real(reference.lane_word(seed, draw_number, lane))


def test_reals_and_rows_are_numbered_together() -> None:
    words = reference.PhiloxWords(seed=9, draws=4)
    assert words.next_reals(2) == reference.draw_reals(9, 4, 2)
    assert words.next(2) == [reference.lane_word(9, 5, lane) for lane in range(2)]
    assert words.next_reals(3) == reference.draw_reals(9, 6, 3)
    assert words.draws == 7


def test_the_host_generator_makes_reals_of_its_words_in_order() -> None:
    mixed, words = reference.Pcg64Words(8), reference.Pcg64Words(8).next(6)
    assert mixed.next_reals(2) == [reference.real(word) for word in words[:2]]
    assert mixed.next(1) == words[2:3]
    assert mixed.next_reals(3) == [reference.real(word) for word in words[3:]]
    assert mixed.draws == 3


# The sum tree, worked out by hand


def test_three_rows_share_a_capacity_of_three() -> None:
    tree = SumTree([1.0, 1.0, 1.0])
    assert [tree.descend(target) for target in (0.5, 1.5, 2.5)] == [0, 1, 2]
    assert [len(level) for level in tree.levels] == [16, 1]


@pytest.mark.parametrize(
    ("capacity", "levels"),
    [
        (1, [16, 1]),
        (16, [16, 1]),
        (17, [32, 16, 1]),
        (256, [256, 16, 1]),
        (257, [272, 32, 16, 1]),
        (5000, [5008, 320, 32, 16, 1]),
    ],
)
def test_a_tree_has_levels_filled_up_to_sixteens_and_one_root(
    capacity: int, levels: list[int]
) -> None:
    tree = SumTree([1.0] * capacity)
    assert [len(level) for level in tree.levels] == levels
    assert tree.total == capacity


def test_a_target_at_the_start_of_a_share_belongs_to_it_and_one_at_its_end_does_not() -> None:
    tree = SumTree([1.0] * 16 + [2.0])
    targets = [0.0, 1.0, math.nextafter(16, 0), 16.0, math.nextafter(18, 0)]
    assert [tree.descend(target) for target in targets] == [0, 1, 15, 16, 16]


@pytest.mark.parametrize("target", [0.0, 0.05])
def test_a_leaf_of_mass_zero_is_not_drawn(target: float) -> None:
    tenth = to_float32(0.1)
    assert SumTree([0.0, 0.0, tenth, tenth]).descend(target) == 2


def test_a_target_at_or_above_the_total_is_the_last_leaf_with_mass() -> None:
    tree = SumTree([0.5, 0.25, 0.0, 0.125] + [0.0] * 30)
    for target in (0.875, math.nextafter(0.875, 1), 5.0):
        assert tree.descend(target) == 3


def test_a_target_that_rounding_leaves_above_the_mass_of_a_node_is_its_last_leaf_with_mass() -> (
    None
):
    # The total is 1: beside it the second node's 2^-60 is lost. So a target of 1, or of the next
    # float above it, goes to the second node, with 0 or 2^-52 left, the latter above its mass.
    tree = SumTree([1.0] + [0.0] * 15 + [2.0**-61, 2.0**-61] + [0.0] * 20)
    assert tree.total == 1.0
    assert tree.descend(math.nextafter(1, 0)) == 0
    assert tree.descend(1.0) == 16
    assert tree.descend(math.nextafter(1, 2)) == 17


def test_a_node_is_summed_from_left_to_right() -> None:
    # Each 2^-53 is half a step of 1 and rounded away, while two of them together are a step.
    small = 2.0**-53
    assert SumTree([1.0, small, small]).total == 1.0
    assert SumTree([small, small, 1.0]).total == 1.0 + 2.0**-52


def test_nothing_of_a_large_leaf_remains_once_it_is_zero() -> None:
    tree = SumTree([1e8, 0.5])
    tree.set(0, 0.0)
    assert tree.total == 0.5


def test_an_empty_tree_is_not_drawn_from() -> None:
    with pytest.raises(ValueError, match="no mass"):
        SumTree([0.0, 0.0]).descend(0.0)


@pytest.mark.parametrize("leaf", [0.1, -1.0])
def test_a_leaf_that_is_no_float32_or_negative_is_refused(leaf: float) -> None:
    with pytest.raises(ValueError, match="float32"):
        SumTree([1.0, leaf])
    with pytest.raises(ValueError, match="float32"):
        SumTree([1.0, 1.0]).set(1, leaf)


def test_each_lane_draws_in_its_own_slice() -> None:
    # Leaves 1, 3, 4 in two slices of 4: the first spans leaf 0 and leaf 1, the second is leaf 2.
    tree = SumTree([1.0, 3.0, 4.0])
    assert tree.draw([0.0, 0.0]) == [0, 2]
    assert tree.draw([0.2, 0.99]) == [0, 2]
    assert tree.draw([0.25, 0.5]) == [1, 2]
    assert tree.draw([0.125]) == [1]
    # Six slices of 4/3: the targets are 2/3, 2, 10/3, 14/3, 6 and 22/3.
    assert tree.draw([0.5] * 6) == [0, 1, 1, 2, 2, 2]


def test_a_lane_and_its_real_are_added_in_float64() -> None:
    # 0 + u stays below 1, while 1 + u is half way between two floats and becomes 2, as 2 + u
    # becomes 3 and 3 + u becomes 4, which is the total.
    largest = 1 - 2.0**-53
    assert SumTree([1.0] * 4).draw([largest] * 4) == [0, 2, 3, 3]


def test_the_total_is_divided_before_a_lane_multiplies_it() -> None:
    # In float64, 49 * (2 / 98) is just below 1, while 49 * 2 / 98 is 1.
    assert SumTree([1.0, 1.0]).draw([0.0] * 98)[48:51] == [0, 0, 1]


# The sum tree, for any leaves

float32s = st.floats(2.0**-126, 2.0**100, width=32)
some_leaves = st.lists(st.just(0.0) | float32s, min_size=1, max_size=600).filter(any)
few_leaves = st.lists(st.integers(0, 3), min_size=1, max_size=600).filter(any)


@settings(deadline=None)
@given(some_leaves, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_no_target_draws_a_leaf_without_mass(leaves: list[float], shares: list[float]) -> None:
    tree = SumTree(leaves)
    for share in shares:
        assert leaves[tree.descend(share * tree.total)] > 0
        assert leaves[tree.descend(math.nextafter(share * tree.total, math.inf))] > 0


def leaf_found_one_by_one(leaves: Sequence[float], target: Fraction) -> int:
    running = Fraction(0)
    for index, leaf in enumerate(leaves):
        running += Fraction(leaf)
        if running > target:
            return index
    raise AssertionError("the target is not below the total")


@settings(deadline=None)
@given(few_leaves, st.data())
def test_where_no_sum_is_rounded_the_tree_finds_what_a_walk_along_the_leaves_finds(
    leaves: list[int], data: st.DataObject
) -> None:
    tree = SumTree([float(leaf) for leaf in leaves])
    assert tree.total == sum(leaves)
    eighths = data.draw(st.integers(0, 8 * sum(leaves) - 1))
    assert tree.descend(eighths / 8) == leaf_found_one_by_one(leaves, Fraction(eighths, 8))


@settings(deadline=None)
@given(some_leaves, st.lists(st.tuples(st.integers(0, 599), float32s), max_size=30))
def test_a_tree_of_changed_leaves_is_the_tree_of_those_leaves(
    leaves: list[float], changes: list[tuple[int, float]]
) -> None:
    tree = SumTree(leaves)
    for place, leaf in changes:
        index = place % len(leaves)
        leaves[index] = leaf
        tree.set(index, leaf)
    assert tree.levels == SumTree(leaves).levels


def test_a_tree_filled_exactly_draws_stored_rows_only() -> None:
    tree = SumTree([0.5] * 4096)
    assert tree.total == 2048.0
    reals = [(lane * 37 % 100) / 100 for lane in range(4096)]
    assert tree.draw(reals) == list(range(4096))
    assert tree.draw([0.0]) == [0]
    assert tree.draw([1 - 2.0**-53]) == [4095]


# Prioritized replay, worked out by hand: alpha 1, beta 1, epsilon 0 unless said


def prioritized(
    capacity: int,
    added: int = 0,
    alpha: float = 1.0,
    *,
    beta: float = 1.0,
    epsilon: float = 0.0,
    device: bool = False,
) -> PrioritizedModel:
    model = PrioritizedModel(capacity, reference.PhiloxWords(1), device=device)
    model.configure_per(alpha, beta, epsilon)
    model.add_batch(list(range(added)))
    return model


on_both = pytest.mark.parametrize("device", [False, True], ids=["host", "device"])


def counters(model: PrioritizedModel) -> tuple[int, int]:
    return model.invalid_priorities, model.stale_updates


def test_a_model_starts_as_a_buffer_that_was_never_configured() -> None:
    assert PrioritizedModel(5, reference.PhiloxWords(0)).stats() == {
        "alpha": 0.6,
        "beta": 0.4,
        "epsilon": 1e-6,
        "priority_total": 0.0,
        "max_priority": 1.0,
        "invalid_priorities": 0,
        "stale_updates": 0,
        "effective_sample_size": 0.0,
    }


def test_a_row_overwritten_after_an_update_enters_anew() -> None:
    model = prioritized(4, 4)
    model.update(None, [0, 1, 2, 3], [0.5, 0.25, 2.0, 1.0])
    model.add("fifth")
    assert model.leaves == [2.0, 0.25, 2.0, 1.0]
    assert model.ring.size == 4
    assert model.minibatch([0]) == ["fifth"]


def test_alpha_is_applied_once_to_a_new_row() -> None:
    model = prioritized(8, 3, alpha=0.5)
    model.update(None, [1], [16.0])
    model.add("new")
    assert model.leaves[:4] == [1.0, 4.0, 1.0, 4.0]
    assert model.max_priority == 16.0


@pytest.mark.parametrize("largest", [5.0, 2.5])
def test_a_new_row_has_the_largest_priority_so_far(largest: float) -> None:
    model = prioritized(8, 3)
    model.update(None, [0, 1, 2], [largest] * 3)
    model.add("new")
    assert model.leaves[3] == largest


def test_the_largest_priority_never_falls_and_starts_at_one() -> None:
    model = prioritized(8, 2)
    model.update(None, [0, 1], [0.5, 0.5])
    assert model.max_priority == 1.0
    model.update(None, [0], [-3.0])
    model.update(None, [0], [0.5])
    assert model.max_priority == 3.0


def test_epsilon_is_added_before_the_power_and_counts_in_the_largest_priority() -> None:
    model = prioritized(8, 2, alpha=0.5, epsilon=0.25)
    model.update(None, [1], [-3.75])
    assert model.leaves[:2] == [1.0, 2.0]
    assert model.max_priority == 4.0


def test_the_last_of_two_lanes_of_one_row_wins_and_the_other_was_never_there() -> None:
    model = prioritized(8, 4)
    model.update(None, [1, 3, 1], [50.0, 2.0, 4.0])
    assert model.leaves[:4] == [1.0, 4.0, 1.0, 2.0]
    assert model.max_priority == 4.0


@on_both
def test_a_td_error_does_not_land_on_another_transition(device: bool) -> None:
    model = prioritized(2, 2, device=device)
    token = model.token([0])
    model.add("C")
    model.update(token, [0], [9.0])
    assert model.leaves == [1.0, 1.0]
    assert model.max_priority == 1.0
    assert counters(model) == (0, 1)


@on_both
def test_lanes_overwritten_since_the_draw_are_skipped_and_the_others_written(device: bool) -> None:
    model = prioritized(4, 4, device=device)
    token = model.token([0, 3, 1, 0, 2])
    model.add_batch(["new", "new"])  # over rows 0 and 1
    model.update(token, [0, 3, 1, 0, 2], [9.0, 3.0, 8.0, 7.0, 2.0])
    assert model.leaves == [1.0, 1.0, 2.0, 3.0]
    assert model.max_priority == 3.0
    assert counters(model) == (0, 3)


def test_of_a_row_drawn_before_and_after_it_was_overwritten_the_fresh_lane_counts() -> None:
    model = prioritized(4, 4)
    old = model.token([1])
    model.add_batch(["new", "new"])
    model.update([*model.token([1]), *old], [1, 1], [5.0, 7.0])
    assert model.leaves == [1.0, 5.0, 1.0, 1.0]
    assert counters(model) == (0, 1)


@pytest.mark.parametrize("adds", [4, 5, 8, 400])
def test_after_a_whole_ring_every_lane_is_stale(adds: int) -> None:
    model = prioritized(4, 4)
    token = model.token([0, 1, 2, 3])
    model.add_batch(["new"] * adds)
    model.update(token, [0, 1, 2, 3], [9.0] * 4)
    assert model.leaves == [1.0] * 4
    assert counters(model) == (0, 4)


def test_rows_added_to_free_slots_make_nothing_stale() -> None:
    model = prioritized(6, 2)
    token = model.token([0, 1])
    model.add_batch(["new"] * 9, mask=[True, False, True, False, False, True, True, False, False])
    model.update(token, [0, 1], [2.0, 3.0])
    assert model.leaves == [2.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    model.add("one more")
    model.update(token, [0, 1], [4.0, 5.0])
    assert model.leaves == [3.0, 5.0, 1.0, 1.0, 1.0, 1.0]
    assert counters(model) == (0, 1)


def test_a_part_of_a_batch_updates_its_own_rows() -> None:
    model = prioritized(4, 4)
    token = model.token([2, 0, 1])
    model.update(token[1:], [0, 1], [2.0, 3.0])
    assert model.leaves == [2.0, 3.0, 1.0, 1.0]


def test_bare_rows_are_written_whatever_happened_to_them() -> None:
    model = prioritized(2, 5)
    model.update(None, [0, 1], [2.0, 3.0])
    assert model.leaves == [2.0, 3.0]
    assert counters(model) == (0, 0)


BAD = [math.nan, math.inf, -math.inf, 1e39]


@pytest.mark.parametrize("bad", BAD)
def test_a_host_refuses_a_bad_td_error_and_nothing_changes(bad: float) -> None:
    model = prioritized(4, 3)
    model.update(None, [0], [2.0])
    before = (list(model.leaves), model.stats())
    with pytest.raises(ValueError, match="TD error"):
        model.update(model.token([0, 1, 2]), [0, 1, 2], [3.0, bad, 5.0])
    assert (model.leaves, model.stats()) == before


@pytest.mark.parametrize("bad", BAD)
def test_a_device_skips_a_bad_td_error_and_counts_it(bad: float) -> None:
    model = prioritized(4, 3, device=True)
    model.update(model.token([0, 1, 2]), [0, 1, 2], [3.0, bad, 2.0])
    assert model.leaves == [3.0, 1.0, 2.0, 0.0]
    assert model.max_priority == 3.0
    assert counters(model) == (1, 0)


def test_a_skipped_lane_does_not_win_its_row() -> None:
    model = prioritized(4, 2, device=True)
    model.update(None, [1, 1, 1], [7.0, 3.0, math.nan])
    assert model.leaves == [1.0, 3.0, 0.0, 0.0]
    assert counters(model) == (1, 0)


def test_after_a_good_value_it_is_as_if_the_bad_one_had_never_come() -> None:
    tried, never = (prioritized(4, 3, device=True) for _ in range(2))
    tried.update(None, [1], [math.nan])
    for model in (tried, never):
        model.update(None, [1], [6.0])
    assert tried.leaves == never.leaves
    assert tried.sample(8) == never.sample(8)


def test_a_device_counts_a_lane_that_is_stale_and_bad_once() -> None:
    model = prioritized(2, 2, device=True)
    token = model.token([0, 1])
    model.add("new")
    model.update(token, [0, 1], [math.nan, 2.0])
    assert counters(model) == (0, 1)


def test_a_host_refuses_a_bad_td_error_of_a_stale_lane_as_well() -> None:
    model = prioritized(2, 2)
    token = model.token([0, 1])
    model.add("new")
    with pytest.raises(ValueError, match="TD error"):
        model.update(token, [0, 1], [math.nan, 2.0])
    assert model.leaves == [1.0, 1.0]
    assert counters(model) == (0, 0)


@pytest.mark.parametrize("row", [-1, 3, 4])
def test_a_bare_row_outside_the_stored_ones_is_refused_or_counts_as_stale(row: int) -> None:
    host, device = prioritized(4, 3), prioritized(4, 3, device=True)
    with pytest.raises(ValueError, match="3 are stored"):
        host.update(None, [0, row], [2.0, 2.0])
    assert host.leaves == [1.0, 1.0, 1.0, 0.0]
    device.update(None, [0, row], [2.0, 2.0])
    assert device.leaves == [2.0, 1.0, 1.0, 0.0]
    assert counters(device) == (0, 1)


def test_the_batch_of_another_buffer_is_refused_or_counts_as_stale() -> None:
    foreign = prioritized(4, 3).token([0, 1])
    host, device = prioritized(4, 3), prioritized(4, 3, device=True)
    with pytest.raises(ValueError, match="another buffer"):
        host.update(foreign, [0, 1], [2.0, 2.0])
    device.update(foreign, [0, 1], [2.0, 2.0])
    assert host.leaves == device.leaves == [1.0, 1.0, 1.0, 0.0]
    assert (counters(host), counters(device)) == ((0, 0), (0, 2))


@on_both
def test_as_many_td_errors_as_rows_are_needed(device: bool) -> None:
    model = prioritized(4, 3, device=device)
    for token in (None, model.token([0, 1])):
        with pytest.raises(ValueError, match="2 rows and 1 TD errors"):
            model.update(token, [0, 1], [2.0])
    assert model.leaves == [1.0, 1.0, 1.0, 0.0]


def test_alpha_may_not_change_once_rows_are_stored() -> None:
    model = prioritized(4)
    model.configure_per(alpha=0.5, beta=0.0, epsilon=2.0)
    model.add("row")
    with pytest.raises(ValueError, match="alpha"):
        model.configure_per(alpha=0.6, beta=1.0, epsilon=3.0)
    assert (model.alpha, model.beta, model.epsilon) == (0.5, 0.0, 2.0)
    model.configure_per(alpha=0.5, beta=1.0, epsilon=3.0)
    assert (model.alpha, model.beta, model.epsilon) == (0.5, 1.0, 3.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": -0.1},
        {"alpha": 1.1},
        {"alpha": math.nan},
        {"beta": -0.1},
        {"beta": 1.1},
        {"beta": math.nan},
        {"epsilon": -1e-9},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
    ],
)
def test_settings_out_of_their_range_are_refused(settings: dict[str, float]) -> None:
    model = PrioritizedModel(4, reference.PhiloxWords(0))
    with pytest.raises(ValueError):
        model.configure_per(**settings)
    assert (model.alpha, model.beta, model.epsilon) == (0.6, 0.4, 1e-6)
    if "beta" in settings:
        with pytest.raises(ValueError):
            model.set_beta(settings["beta"])
        assert model.beta == 0.4


def test_an_empty_prioritized_buffer_is_not_drawn_from() -> None:
    model = prioritized(4)
    with pytest.raises(ValueError, match="empty"):
        model.sample(2)
    assert model.draws == 0


@pytest.mark.parametrize(("batch", "lo", "hi"), [(0, 0, 2), (2, -1, 1), (2, 1, 1), (2, 0, 4)])
def test_a_refused_draw_of_a_prioritized_buffer_takes_no_words(
    batch: int, lo: int, hi: int
) -> None:
    model = prioritized(4, 3)
    with pytest.raises(ValueError):
        model.sample_range(batch, lo, hi)
    with pytest.raises(ValueError):
        model.sample(0)
    assert model.draws == 0


def test_a_draw_takes_reals_and_a_range_takes_words_under_the_next_number() -> None:
    model = prioritized(4, 4)
    model.update(None, [0, 1, 2, 3], [1.0, 1.0, 2.0, 4.0])
    rows, weights = model.sample(5)
    tree = SumTree([1.0, 1.0, 2.0, 4.0])
    assert rows == tree.draw(reference.draw_reals(1, 0, 5))
    # 4 * p / 8 is 1/2, 1/2, 1 and 2: raw weights 2, 2, 1 and 1/2.
    raw = [[2.0, 2.0, 1.0, 0.5][row] for row in rows]
    assert weights == [weight / max(raw) for weight in raw]
    assert model.sample_range(3, 1, 4) == (reference.draw_rows(1, 1, 3, 1, 4), [1.0] * 3)
    assert model.sample(2)[0] == tree.draw(reference.draw_reals(1, 2, 2))
    assert model.draws == 3


def test_a_new_beta_counts_from_the_next_draw_on() -> None:
    model = prioritized(2, 2, beta=0.0)
    model.update(None, [0, 1], [1.0, 4.0])
    draws = []
    for beta in (0.0, 0.5, 1.0):
        model.set_beta(beta)
        draws.append(dict(zip(*model.sample(20), strict=True)))
    assert draws == [{0: 1.0, 1: 1.0}, {0: 1.0, 1: 0.5}, {0: 1.0, 1: 0.25}]


def test_the_statistics_of_four_rows() -> None:
    model = prioritized(6, 4)
    assert model.stats()["effective_sample_size"] == 4.0
    model.update(None, [0, 1, 2, 3], [1.0, 2.0, 2.0, 3.0])
    stats = model.stats()
    assert (stats["priority_total"], stats["max_priority"]) == (8.0, 3.0)
    assert stats["effective_sample_size"] == 64 / 18
    assert model.probabilities() == [0.125, 0.25, 0.25, 0.375, 0.0, 0.0]


def test_rows_are_drawn_as_often_as_their_priorities_say() -> None:
    model = prioritized(40, 32)
    model.update(None, list(range(32)), [0.1 + (row * 7 % 32) / 4 for row in range(32)])
    drawn = [row for _ in range(60) for row in model.sample(50)[0]]
    for row, probability in enumerate(model.probabilities()):
        expected = 3000 * probability
        assert abs(drawn.count(row) - expected) <= 4 * math.sqrt(expected) + 1


# Prioritized replay, against the golden files and for any adds


@on_both
@pytest.mark.parametrize("name", ["per_philox", "per_pcg64"])
def test_the_prioritized_model_does_what_the_golden_files_say(name: str, device: bool) -> None:
    for scenario in golden.load(name):
        words = reference.word_source(scenario["rng"], scenario["seed"], scenario["draws"])
        model = PrioritizedModel(scenario["capacity"], words, device=device)
        drawn: list[int] = []
        token = model.token(drawn)
        for operation in scenario["operations"]:
            match operation:
                case {"do": "add", "n": n}:
                    model.add_batch(["row"] * n)
                    state = {"size": model.ring.size, "head": model.ring.head}
                    assert state.items() <= operation.items(), scenario["name"]
                case {"do": "sample", "batch": batch, "rows": rows, "weights": weights}:
                    assert model.sample(batch) == (rows, weights), scenario["name"]
                    drawn, token = rows, model.token(rows)
                case {"do": "sample_range", "batch": batch, "lo": lo, "hi": hi, "rows": rows}:
                    expected = (rows, operation["weights"])
                    assert model.sample_range(batch, lo, hi) == expected, scenario["name"]
                    drawn, token = rows, model.token(rows)
                case {"do": "update_batch", "td_errors": td_errors}:
                    model.update(token, drawn, td_errors)
                case {"do": "update_indices", "indices": indices, "td_errors": td_errors}:
                    model.update(None, indices, td_errors)
                case {"do": "set_beta", "beta": beta}:
                    model.set_beta(beta)
                case {"do": "configure_per", **configuration}:
                    model.configure_per(
                        configuration["alpha"], configuration["beta"], configuration["epsilon"]
                    )
                case _:
                    pytest.fail(f"the model does not know {operation}")
            for key in ("priority_total", "max_priority", "stale_updates"):
                if key in operation:
                    assert model.stats()[key] == operation[key], scenario["name"]
        assert model.invalid_priorities == 0


@pytest.mark.parametrize("name", ["per_philox", "per_pcg64"])
def test_every_golden_weight_is_a_float32_and_the_largest_of_a_batch_is_one(name: str) -> None:
    for scenario in golden.load(name):
        for operation in scenario["operations"]:
            if "weights" in operation:
                assert max(operation["weights"]) == 1.0
                assert all(to_float32(weight) == weight > 0 for weight in operation["weights"])


@settings(deadline=None)
@given(capacities, st.integers(1, 30), st.integers(0, 40), st.data())
def test_a_lane_is_stale_as_the_totals_at_its_draw_and_now_say(
    capacity: int, before: int, after: int, data: st.DataObject
) -> None:
    """The rule by which the library decides, which keeps no serial numbers."""
    model = prioritized(capacity, before)
    rows = data.draw(st.lists(st.integers(0, min(before, capacity) - 1), min_size=1, max_size=9))
    token = model.token(rows)
    model.add_batch(["new"] * after)
    model.update(token, rows, [2.0] * len(rows))
    by_totals = [after >= capacity or (row - before) % capacity < after for row in rows]
    assert model.stale_updates == sum(by_totals)


@settings(deadline=None)
@given(capacities, st.integers(1, 30), st.integers(1, 40), st.integers(0, 2**64 - 1), st.data())
def test_a_prioritized_draw_gives_stored_rows_and_weights_up_to_one(
    capacity: int, adds: int, batch: int, seed: int, data: st.DataObject
) -> None:
    model = PrioritizedModel(capacity, reference.PhiloxWords(seed))
    model.add_batch(list(range(adds)))
    stored = list(range(model.ring.size))
    errors = data.draw(st.lists(st.floats(-1e30, 1e30), min_size=len(stored), max_size=len(stored)))
    model.update(None, stored, errors)
    rows, weights = model.sample(batch)
    assert len(rows) == len(weights) == batch
    assert rows == sorted(rows)
    assert set(rows) <= set(stored)
    assert max(weights) == 1.0
    assert all(0 <= weight <= 1 for weight in weights)


# uint8 storage


@pytest.mark.parametrize(
    ("x", "byte"),
    [
        (0.0, 0),
        (-0.0, 0),
        (1.0, 255),
        (0.5, 128),  # 127.5: the even neighbour is above
        (0.3, 76),  # 76.500003 exactly, 76.5 in float32: the even neighbour is below
        (0.1, 26),  # 25.5 in float32
        (1 / 255, 1),
        (0.001, 0),
        (0.00197, 1),
        (1.0 + 2**-30, 255),  # 1 once cast to float32
        (0.00196078448, 0),  # times 255 it is 0.5 in float32, and above 0.5 without the cast
        (5e-324, 0),
        (-5e-324, 0),  # zero once cast to float32
    ],
)
def test_a_number_is_stored_as_the_byte_worked_out_by_hand(x: float, byte: int) -> None:
    assert quantize(x) == byte
    assert quantize_clamped(x) == byte


def test_every_byte_survives_the_round_trip() -> None:
    assert [quantize(dequantize(k)) for k in range(256)] == list(range(256))
    assert [quantize(k / 255) for k in range(256)] == list(range(256))


@pytest.mark.parametrize(
    ("x", "clamped"),
    [
        (math.nan, 0),
        (math.inf, 255),
        (-math.inf, 0),
        (1.0000001, 255),
        (-1e-30, 0),
        (2.0, 255),
        (1e300, 255),
        (-1e300, 0),
    ],
)
def test_what_is_not_in_zero_to_one_is_refused_or_clamped(x: float, clamped: int) -> None:
    assert not can_be_quantized(x)
    with pytest.raises(ValueError, match="uint8"):
        quantize(x)
    assert quantize_clamped(x) == clamped


@settings(max_examples=500, deadline=None)
@given(st.floats(0, 1))
def test_exact_rounding_agrees_with_float32_arithmetic(x: float) -> None:
    assert quantize(x) == int(np.rint(np.float32(x) * np.float32(255)))


def test_what_comes_back_is_the_float32_quotient() -> None:
    quotients = np.arange(256, dtype=np.float32) / np.float32(255)
    assert [dequantize(k) for k in range(256)] == quotients.tolist()
