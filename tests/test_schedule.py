"""Schedules, held against values worked out by hand; and what counts as a probability."""

import copy
import math
import pickle
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpreplay.errors import ConfigurationError
from cpreplay.schedule import Schedule, validate_probability

HUGE = pytest.param(10**5000, id="10**5000")  # which Python does not print


def test_a_schedule_without_pieces_is_its_start_for_ever() -> None:
    schedule = Schedule.starting(0.25)
    assert [schedule(step) for step in (0, 1, 10**12)] == [0.25, 0.25, 0.25]


def test_pieces_follow_each_other_and_the_last_value_stays() -> None:
    schedule = Schedule.starting(0.0).hold(10).linear(0.5, 20).hold(5).linear(0.25, 10)
    by_hand = {0: 0.0, 9: 0.0, 10: 0.0, 15: 0.125, 20: 0.25, 29: 0.475, 30: 0.5, 34: 0.5, 35: 0.5}
    by_hand |= {40: 0.375, 44: 0.275, 45: 0.25, 46: 0.25, 10**9: 0.25}
    for step, value in by_hand.items():
        assert schedule(step) == pytest.approx(value, rel=1e-15), step


def test_an_exponential_piece_multiplies_by_one_factor_a_step() -> None:
    schedule = Schedule.starting(1.0).exponential(1e-4, 4)
    assert [schedule(step) for step in range(6)] == pytest.approx(
        [1.0, 0.1, 0.01, 0.001, 0.0001, 0.0001], rel=1e-12
    )


def test_an_exponential_piece_may_rise_and_may_be_below_zero() -> None:
    assert Schedule.starting(0.25).exponential(4.0, 2)(1) == pytest.approx(1.0)
    assert Schedule.starting(-8.0).exponential(-2.0, 2)(1) == pytest.approx(-4.0)


def test_an_exponential_piece_between_extremes_does_not_overflow() -> None:
    schedule = Schedule.starting(1e-308).exponential(1e308, 2)
    assert schedule(1) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("shape", ["linear", "exponential"])
def test_a_piece_of_no_steps_is_a_jump(shape: str) -> None:
    schedule = getattr(Schedule.starting(0.5).hold(3), shape)(1.0, 0).hold(0).linear(2.0, 2)
    assert [schedule(step) for step in (2, 3, 4, 5)] == [0.5, 1.0, 1.5, 2.0]


def test_values_between_whole_steps_are_given_too() -> None:
    assert Schedule.starting(0.0).linear(1.0, 2)(0.5) == 0.25
    assert Schedule.starting(0.0).linear(1.0, 2)(np.float32(0.5)) == 0.25


def test_each_method_leaves_the_schedule_it_was_called_on_alone() -> None:
    base = Schedule.starting(0.1)
    longer = base.hold(5).linear(1.0, 5)
    assert base(100) == 0.1
    assert longer(100) == 1.0
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        base.start = 0.3  # type: ignore[misc]


def test_equal_pieces_make_equal_schedules() -> None:
    first, second, other = (Schedule.starting(0.1).linear(to, 5) for to in (0.2, 0.2, 0.3))
    assert first == second
    assert hash(first) == hash(second)
    assert first != other
    assert first == pickle.loads(pickle.dumps(first)) == copy.deepcopy(first)


def test_a_schedule_shows_how_it_was_made() -> None:
    schedule = Schedule.starting(0).hold(10).linear(0.5, 20).exponential(0.05, np.int64(7))
    shown = "Schedule.starting(0.0).hold(10).linear(0.5, 20).exponential(0.05, 7)"
    assert repr(schedule) == shown
    assert eval(shown) == schedule


def test_knots_are_where_pieces_begin_and_end() -> None:
    schedule = Schedule.starting(0.0).hold(10).linear(0.5, 20)
    assert schedule.knots == ((0, 0.0), (10, 0.0), (30, 0.5))
    assert schedule.last == 0.5


pieces = st.lists(
    st.tuples(
        st.sampled_from(["hold", "linear", "exponential"]),
        st.floats(1e-300, 1e300),
        st.integers(0, 50) | st.integers(0, 2**62),
    ),
    max_size=5,
)


def schedule_of(start: float, parts: list[tuple[str, float, int]]) -> Schedule:
    schedule = Schedule.starting(start)
    for shape, to, steps in parts:
        schedule = schedule.hold(steps) if shape == "hold" else getattr(schedule, shape)(to, steps)
    return schedule


@given(start=st.floats(1e-300, 1e300), parts=pieces, share=st.floats(0, 1))
def test_a_schedule_meets_its_knots_and_stays_between_them(
    start: float, parts: list[tuple[str, float, int]], share: float
) -> None:
    schedule = schedule_of(start, parts)
    knots = schedule.knots
    for (before, a), (after, b) in pairwise(knots):
        step = before + int(share * (after - before))
        if step < after:
            assert min(a, b) <= schedule(step) <= max(a, b)
    for number, (step, value) in enumerate(knots):
        if step not in [later for later, _ in knots[number + 1 :]]:  # no jump away from it
            assert schedule(step) == value


@given(start=st.floats(1e-3, 1e3), steps=st.integers(1, 10**6))
def test_a_linear_piece_is_the_straight_line(start: float, steps: int) -> None:
    schedule = Schedule.starting(start).linear(2 * start, steps)
    for step in (0, steps // 3, steps // 2, steps - 1, steps):
        assert schedule(step) == pytest.approx(start + start * step / steps, rel=1e-12)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, "0.5", None, True, np.bool_(1), 10**400, HUGE],
)
def test_a_value_that_is_no_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"starting.*finite number"):
        Schedule.starting(value)
    for shape in ("linear", "exponential"):
        with pytest.raises(ConfigurationError, match=rf"{shape}.*finite number"):
            getattr(Schedule.starting(1.0), shape)(value, 5)


@pytest.mark.parametrize("steps", [-1, 1.0, "5", None, True, 2**63, HUGE])
@pytest.mark.parametrize("shape", ["hold", "linear", "exponential"])
def test_steps_that_are_no_count_are_refused(shape: str, steps: Any) -> None:
    arguments = (steps,) if shape == "hold" else (0.5, steps)
    with pytest.raises(ConfigurationError, match=rf"{shape}: steps="):
        getattr(Schedule.starting(1.0), shape)(*arguments)


@pytest.mark.parametrize(("start", "to"), [(0.0, 1.0), (1.0, 0.0), (1.0, -1.0), (-1.0, 1.0)])
def test_an_exponential_piece_that_no_factor_makes_is_refused(start: float, to: float) -> None:
    with pytest.raises(ConfigurationError, match="no factor leads"):
        Schedule.starting(start).exponential(to, 5)


@pytest.mark.parametrize("step", [-1, math.nan, math.inf, "3", None, True, 10**400, HUGE])
def test_a_step_that_is_none_is_refused(step: Any) -> None:
    for schedule in (Schedule.starting(1.0), validate_probability(lambda step: 0.5)):
        with pytest.raises(ConfigurationError, match="step="):
            schedule(step)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.int8, np.uint64])
def test_a_narrow_step_rounds_nothing(kind: Any) -> None:
    schedule = Schedule.starting(0.0).linear(1.0, 2**40)
    value = schedule(kind(7))
    assert type(value) is float
    assert value == 7 / 2**40


@pytest.mark.parametrize("pieces", [("x",), [], (Schedule.starting(0.0),), None])
def test_pieces_that_are_none_are_refused(pieces: Any) -> None:
    with pytest.raises(ConfigurationError, match="pieces="):
        Schedule(0.0, pieces)


# Probabilities


@pytest.mark.parametrize("value", [0, 0.0, 0.5, 1, 1.0, np.float32(0.5), np.int8(1)])
def test_a_number_within_zero_and_one_is_a_probability(value: Any) -> None:
    schedule = validate_probability(value)
    assert isinstance(schedule, Schedule)
    assert schedule(0) == schedule(10**9) == float(value)


@pytest.mark.parametrize(
    "value", [-0.01, 1.01, -1e-12, math.nextafter(1, 2), math.nan, math.inf, -math.inf, 10**400]
)
def test_a_number_outside_zero_and_one_is_refused(value: float) -> None:
    with pytest.raises(ConfigurationError, match=r"probability=.*\[0, 1\]"):
        validate_probability(value)


@pytest.mark.parametrize("value", [True, False, np.bool_(1), "0.5", None, [0.5], 0.5j, float])
def test_what_is_no_number_and_no_schedule_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="probability="):
        validate_probability(value)


def test_a_schedule_within_zero_and_one_is_returned_as_it_is() -> None:
    schedule = Schedule.starting(0.0).hold(5).linear(1.0, 5).exponential(0.1, 5)
    assert validate_probability(schedule) is schedule


@pytest.mark.parametrize(
    ("schedule", "step"),
    [
        (Schedule.starting(-0.1), 0),
        (Schedule.starting(0.5).linear(1.5, 7), 7),
        (Schedule.starting(1.5).linear(0.5, 7), 0),
        (Schedule.starting(0.5).hold(2).linear(-0.5, 3).linear(0.5, 3), 5),
        (Schedule.starting(0.5).linear(2.0, 0).linear(0.5, 0), 0),
    ],
)
def test_a_schedule_that_leaves_zero_and_one_is_refused_by_its_knots(
    schedule: Schedule, step: int
) -> None:
    with pytest.raises(ConfigurationError, match=f"at step {step};"):
        validate_probability(schedule)


def test_a_function_is_checked_at_each_use_and_never_clamped() -> None:
    schedule = validate_probability(lambda step: step / 10)
    assert [schedule(step) for step in (0, 5, 10)] == [0.0, 0.5, 1.0]
    with pytest.raises(ConfigurationError, match=r"gave 1\.1 at step 11"):
        schedule(11)


@pytest.mark.parametrize("given", [1.0 + 1e-10, -1e-10])
def test_a_function_may_be_outside_by_rounding(given: float) -> None:
    assert validate_probability(lambda step: given)(0) == given


@pytest.mark.parametrize("given", [1.0 + 1e-8, -1e-8, math.nan, True, "0.5", None])
def test_a_function_may_not_be_outside_by_more(given: Any) -> None:
    schedule = validate_probability(lambda step: given)
    with pytest.raises(ConfigurationError, match="at step 3"):
        schedule(3)


def test_nothing_is_appended_to_a_function() -> None:
    with pytest.raises(ConfigurationError, match="no end"):
        validate_probability(lambda step: 0.5).hold(3)
