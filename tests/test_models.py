"""The reference models, against examples worked out by hand and against their own definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import golden
from tests.golden import reference
from tests.models import (
    RingModel,
    UniformModel,
    can_be_quantized,
    dequantize,
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
