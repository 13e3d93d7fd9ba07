"""Philox on NumPy against published answers and the independent reference."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cpreplay.philox import ROWS, TARGETS, philox4x32, philox_words, reals_of, splitmix64
from tests import golden
from tests.golden import reference

words32 = st.integers(0, 2**32 - 1)
words64 = st.integers(0, 2**64 - 1)


def philox(counter: list[int], key: list[int]) -> list[int]:
    """One block, as plain ints."""
    words = philox4x32(
        tuple(np.array([word], np.uint64) for word in counter),
        tuple(np.array([word], np.uint64) for word in key),
    )
    return [int(word[0]) for word in words]


@pytest.mark.parametrize("case", golden.load("philox_kat"), ids=lambda case: case["counter"][0])
def test_the_published_answers_come_out(case: dict[str, list[str]]) -> None:
    counter, key, expected = (
        [int(word, 16) for word in case[part]] for part in ("counter", "key", "expect")
    )
    assert philox(counter, key) == expected


@given(st.lists(words32, min_size=4, max_size=4), st.lists(words32, min_size=2, max_size=2))
@example([2**32 - 1] * 4, [2**32 - 1] * 2)
@settings(max_examples=100, deadline=None)
def test_any_block_is_the_references(counter: list[int], key: list[int]) -> None:
    assert philox(counter, key) == reference.philox(counter, key)


def test_splitmix64_gives_the_published_first_outputs() -> None:
    assert splitmix64(0) == 0xE220A8397B1DCDAF
    assert splitmix64(1234567) == 6457827717110365317


@given(words64)
@example(2**64 - 1)
@settings(max_examples=100, deadline=None)
def test_splitmix64_is_the_references_and_can_be_undone(seed: int) -> None:
    assert splitmix64(seed) == reference.splitmix64(seed)
    assert reference.seed_with_key(splitmix64(seed)) == seed


@given(words64, words64, st.integers(1, 9))
@example(0, 2**32, 3)  # the draw number reaches its high word
@example(0, 2**64 - 1, 3)
@settings(max_examples=60, deadline=None)
def test_a_lanes_word_is_the_references(seed: int, draw: int, lanes: int) -> None:
    words = philox_words(splitmix64(seed), draw, lanes)
    assert words.dtype == np.uint64
    assert words.tolist() == [reference.lane_word(seed, draw, lane) for lane in range(lanes)]


@pytest.mark.parametrize("key", [2**32 - 2, 2**64 - 2, 2**63 - 1, 0])
def test_the_lane_carries_through_both_words_of_the_key(key: int) -> None:
    seed = reference.seed_with_key(key)
    assert splitmix64(seed) == key
    words = philox_words(key, 5, 6).tolist()
    assert words == [reference.lane_word(seed, 5, lane) for lane in range(6)]
    assert len(set(words)) == 6


def test_the_purpose_is_the_last_word_of_the_counter() -> None:
    assert ROWS == reference.ROW_DRAW_TAG == 0
    key = splitmix64(7)
    out = reference.philox([3, 0, 0, 9], [key & 0xFFFFFFFF, key >> 32])
    assert philox_words(key, 3, 1, purpose=9).tolist() == [out[1] << 32 | out[0]]


@given(words64, words64, st.integers(1, 9))
@example(0, 2**32, 3)
@example(0, 2**64 - 1, 3)
@settings(max_examples=60, deadline=None)
def test_the_targets_of_a_draw_have_words_of_their_own(seed: int, draw: int, lanes: int) -> None:
    assert TARGETS == reference.REAL_DRAW_TAG == 1
    words = philox_words(splitmix64(seed), draw, lanes, TARGETS)
    expected = [reference.lane_word(seed, draw, lane, tag=1) for lane in range(lanes)]
    assert words.tolist() == expected
    assert reals_of(words).tolist() == reference.draw_reals(seed, draw, lanes)
    assert set(expected).isdisjoint(philox_words(splitmix64(seed), draw, lanes).tolist())


# The largest real below 1 is 1 - 2**-53, and neighbours are 2**-53 apart.
REALS = {
    0: 0.0,
    2**11 - 1: 0.0,
    2**11: 2.0**-53,
    2**12 - 1: 2.0**-53,
    2**63 - 1: 0.5 - 2.0**-53,
    2**63: 0.5,
    2**63 + 2**11: 0.5 + 2.0**-53,
    2**64 - 2**11 - 1: 1.0 - 2.0**-52,
    2**64 - 2**11: 1.0 - 2.0**-53,
    2**64 - 1: 1.0 - 2.0**-53,
}


def test_a_real_is_the_upper_53_bits_and_never_1() -> None:
    reals = reals_of(np.array([*REALS], np.uint64))
    assert reals.dtype == np.float64
    assert reals.tolist() == [*REALS.values()]


@given(st.lists(words64, min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_any_word_is_the_real_that_the_reference_makes_of_it(words: list[int]) -> None:
    given_words = np.array(words, np.uint64)
    assert reals_of(given_words).tolist() == [reference.real(word) for word in words]
    assert given_words.tolist() == words  # what is given is not changed


@pytest.mark.parametrize(
    "case", golden.load("rows_philox"), ids=lambda case: f"{case['draw_number']}-{case['hi']}"
)
def test_words_scale_to_the_golden_rows(case: dict[str, int]) -> None:
    words = philox_words(splitmix64(case["seed"]), case["draw_number"], case["batch"])
    span = case["hi"] - case["lo"]
    assert [case["lo"] + (word * span >> 64) for word in words.tolist()] == case["rows"]


def test_more_lanes_begin_with_the_same_words() -> None:
    key = splitmix64(1)
    assert philox_words(key, 4, 1000)[:10].tolist() == philox_words(key, 4, 10).tolist()
