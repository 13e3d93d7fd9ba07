"""The restart pool, rule by rule. Expected values are worked out by hand, or from lists."""

import copy
import ctypes
import itertools
import math
import pickle
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import cpreplay.restart.point
import cpreplay.restart.pool
from cpreplay.errors import (
    CheckpointError,
    ConfigurationError,
    CopyError,
    DTypeError,
    InvariantError,
    MarkerLabelError,
    MarkerOverflowError,
    MarkerTypeError,
    OrderError,
    ReplayError,
    ShapeError,
)
from cpreplay.restart import Restart, RestartPool, RestartPoolConfiguration
from cpreplay.restart.buckets import pick, pick_weighted
from cpreplay.schedule import Schedule
from tests.restart_model import restart_numbers
from tests.test_distribution import chance_of_more

FALSE_ALARMS = 1e-6
HUGE = pytest.param(10**5000, id="10**5000")  # which Python does not print
LARGEST = 1.0 - 2.0**-53  # the largest number that a draw may have


def make_pool(
    key: tuple[str, ...] = ("level", "x"),
    *,
    max_in_flight_per_point: int | None = None,
    **values: Any,
) -> RestartPool:
    """A pool that always draws, with a seed."""
    values = {"probability": 1.0, "random_seed": 7, **values}
    return RestartPool(
        RestartPoolConfiguration(key=list(key), **values),
        max_in_flight_per_point=max_in_flight_per_point,
    )


def stack_of(number: int) -> np.ndarray:
    return np.full((2, 3), number, np.uint8)


def offer(pool: RestartPool, number: int, *key: int, **others: int) -> bool:
    """Offer a point that has a number written into all its parts."""
    labels = pool.configuration.key
    return pool.offer(
        b"state %d" % number, stack_of(number), dict(zip(labels, key, strict=True)) | others
    )


def number_of(restart: Restart | None) -> int:
    """Which point a restart is, by its parts, which have to agree."""
    assert restart is not None
    number = int(restart.snapshot.removeprefix(b"state "))
    assert restart.frame_stack.tolist() == stack_of(number).tolist()
    return number


def drawn(pool: RestartPool, step: int = 0) -> Restart:
    restart = pool.draw(step)
    assert restart is not None
    return restart


def numbers_held(pool: RestartPool, *key: int) -> list[int]:
    """The points of one bucket, oldest first."""
    points = pool._contents.buckets[key].points
    return [
        int(bytes(cpreplay.restart.point.decode_point(point.record).snapshot)[len(b"state ") :])
        for point in points
    ]


def play(
    pool: RestartPool, *reached: tuple[int, ...], timed_out: bool = False, **options: Any
) -> None:
    """An episode from a restart that reaches some keys, and ends."""
    restart = drawn(pool)
    for key in reached:
        pool.reached(restart, dict(zip(pool.configuration.key, key, strict=True)))
    pool.finish(restart, timed_out=timed_out, **options)


# Deeper


@pytest.mark.parametrize(
    ("start", "marker"),
    [((1, 99), (2, 0)), ((1, 4), (1, 5)), ((-2, 9), (-1, 0)), ((1, 15), (2, 0)), ((0, 0), (0, 1))],
)
def test_a_key_is_deeper_by_the_first_value_that_differs(
    start: tuple[int, int], marker: tuple[int, int]
) -> None:
    pool, back = make_pool(), make_pool()
    offer(pool, 1, *start)
    play(pool, marker)
    assert pool.stats()["buckets"][start]["advance_rate"] == 1.0
    offer(back, 1, *marker)
    play(back, start)
    assert back.stats()["buckets"][marker]["advance_rate"] == 0.0


def test_an_equal_key_is_not_deeper() -> None:
    pool = make_pool()
    offer(pool, 1, 1, 4)
    play(pool, (1, 4))
    assert pool.stats()["buckets"][1, 4]["advance_rate"] == 0.0


def test_a_deeper_key_counts_whether_or_not_the_pool_has_such_a_bucket() -> None:
    pool = make_pool()
    offer(pool, 1, 1, 4)
    play(pool, (9, 9))
    assert pool.stats()["buckets"][1, 4]["advance_rate"] == 1.0
    assert pool.buckets() == {(1, 4): 1}


def test_an_episode_is_compared_with_the_bucket_it_started_from() -> None:
    pool = make_pool()
    offer(pool, 1, 3, 0)
    restart = drawn(pool)
    assert pool.reached(restart, {"level": 1, "x": 0}) is False
    assert pool.reached(restart, {"level": 2, "x": 0}) is False  # deeper than the last marker alone
    assert pool.reached(restart, {"level": 3, "x": 1}) is True
    assert pool.reached(restart, {"level": 0, "x": 0}) is True  # it has advanced for good
    pool.finish(restart)
    assert pool.stats()["buckets"][3, 0]["advance_rate"] == 1.0


@pytest.mark.parametrize("values", [{"level": 255, "x": 0, "lives": 1}, {"level": 2, "lives": 0}])
def test_a_marker_out_of_bounds_is_no_advance(values: dict[str, int]) -> None:
    pool = make_pool(maximum_values={"level": 8}, minimum_values={"lives": 1})
    offer(pool, 1, 1, 0, lives=3)
    restart = drawn(pool)
    assert pool.reached(restart, {"x": 0, **values}) is False
    pool.finish(restart)
    assert pool.stats()["buckets"][1, 0]["advance_rate"] == 0.0


def test_an_episode_is_one_entry_however_often_it_advances() -> None:
    pool = make_pool()
    offer(pool, 1, 1, 0)
    play(pool, (2, 0), (3, 0), (4, 0))
    play(pool)
    bucket = pool.stats()["buckets"][1, 0]
    assert (bucket["finished"], bucket["advance_rate"]) == (2, 0.5)


def test_nothing_is_entered_before_the_end() -> None:
    pool = make_pool()
    offer(pool, 1, 1, 0)
    pool.reached(drawn(pool), {"level": 2, "x": 0})
    assert pool.stats()["buckets"][1, 0]["advance_rate"] is None


def test_an_abandoned_episode_is_no_entry_anywhere() -> None:
    pool = make_pool(max_timeouts_per_point=1)
    offer(pool, 1, 1, 0)
    restart = drawn(pool)
    pool.reached(restart, {"level": 2, "x": 0})
    pool.abandon(restart)
    bucket = pool.stats()["buckets"][1, 0]
    assert (bucket["finished"], bucket["timeouts"], bucket["late_reports"]) == (0, 0, 0)
    assert bucket["advance_rate"] is None
    assert (bucket["abandoned"], pool.stats()["abandoned"], len(pool)) == (1, 1, 1)


# Values


def test_a_label_of_the_key_that_is_missing_is_named_with_what_there_is() -> None:
    pool = make_pool(("level", "lvl x"))
    with pytest.raises(KeyError) as caught:
        pool.offer(b"", stack_of(0), {"level": 1, "x": 2, "score": 3})
    assert isinstance(caught.value, MarkerLabelError)
    assert str(caught.value) == (
        "values have no 'lvl x', which the pool's key or bounds name; there is "
        "'level', 'score', 'x'"
    )
    assert (len(pool), pool.stats()["offers"]) == (0, 0)


@pytest.mark.parametrize("field", ["minimum_values", "maximum_values"])
def test_a_label_of_a_bound_that_is_missing_is_a_key_error(field: str) -> None:
    pool = make_pool(("level",), **{field: {"lives": 1}})
    with pytest.raises(KeyError, match="lives"):
        offer(pool, 1, 1)
    offer(pool, 1, 1, lives=1)
    with pytest.raises(KeyError, match="lives"):
        pool.reached(drawn(pool), {"level": 1})


def test_labels_that_look_alike_are_told_apart() -> None:
    pool = make_pool(("\u00e9", "x / 128"))
    with pytest.raises(KeyError) as caught:
        pool.offer(b"", stack_of(0), {"e\u0301": 1, "x/128": 2})
    assert "'\\xe9'" in str(caught.value)
    assert "'e\\u0301', 'x/128'" in str(caught.value)


@pytest.mark.parametrize(
    "value", [1.0, math.nan, "3", None, True, np.bool_(True), np.float32(1), [1], b"1"]
)
def test_a_value_that_is_no_int_is_a_type_error(value: Any) -> None:
    pool = make_pool(("level",))
    offer(pool, 1, 1)
    restart = drawn(pool)
    for values in ({"level": value}, {"level": 1, "score": value}):
        with pytest.raises(TypeError) as caught:
            pool.offer(b"", stack_of(0), values)
        assert isinstance(caught.value, MarkerTypeError)
        with pytest.raises(MarkerTypeError):
            pool.reached(restart, values)
    assert pool.stats()["offers"] == 1


@pytest.mark.parametrize("values", [None, [("level", 1)], "level", 3, {1: 1}, {"": 1, "level": 1}])
def test_values_that_are_no_mapping_from_labels_are_a_type_error(values: Any) -> None:
    with pytest.raises(MarkerTypeError):
        make_pool(("level",)).offer(b"", stack_of(0), values)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, np.uint64(2**63), 10**30, HUGE])
def test_a_value_beyond_64_bits_is_an_overflow_error(value: Any) -> None:
    with pytest.raises(OverflowError) as caught:
        make_pool(("level",)).offer(b"", stack_of(0), {"level": value})
    assert isinstance(caught.value, MarkerOverflowError)


@pytest.mark.parametrize("value", [np.uint8(200), np.int64(-5), np.uint64(7), 2**63 - 1, -(2**63)])
def test_numpy_integers_become_ints_at_once(value: Any) -> None:
    pool = make_pool(("level",))
    assert pool.offer(b"", stack_of(0), {"level": value, "score": value})
    restart = drawn(pool)
    assert restart.key == (int(value),)
    assert restart.values == {"level": int(value), "score": int(value)}
    assert {type(part) for part in (*restart.key, *restart.values.values())} == {int}


def test_numpy_integers_do_not_wrap_around_when_compared() -> None:
    pool = make_pool(("level",))
    pool.offer(b"", stack_of(0), {"level": np.uint8(200)})
    restart = drawn(pool)
    assert pool.reached(restart, {"level": np.int8(-56)}) is False  # the same bits
    assert pool.reached(restart, {"level": np.int64(456)}) is True  # the same low byte


def test_values_may_be_negative() -> None:
    pool = make_pool(minimum_values={"x": -3})
    assert offer(pool, 1, -1, -3)
    assert not offer(pool, 2, -1, -4)
    assert pool.buckets() == {(-1, -3): 1}


# Bounds


def test_bounds_are_inclusive() -> None:
    pool = make_pool(minimum_values={"level": 1}, maximum_values={"level": 3, "x": 5})
    taken = {(level, x): offer(pool, 1, level, x) for level in range(5) for x in (5, 6)}
    assert {key for key, into in taken.items() if into} == {(1, 5), (2, 5), (3, 5)}


def test_refused_offers_are_counted_by_the_bound_they_break() -> None:
    pool = make_pool(minimum_values={"level": 1}, maximum_values={"level": 3, "x": 5})
    assert pool.stats()["offers_refused"] == {"level < 1": 0, "level > 3": 0, "x > 5": 0}
    for level, x in [(0, 0), (0, 9), (4, 9), (2, 9), (2, 5)]:
        offer(pool, 1, level, x)
    stats = pool.stats()
    assert stats["offers_refused"] == {"level < 1": 2, "level > 3": 1, "x > 5": 1}
    assert (stats["offers"], stats["points"]) == (5, 1)


# What a point is made of


@pytest.mark.parametrize("missing", [None, "frames", [["a"]], {"a": 1}, object(), 1j])
def test_a_missing_frame_stack_is_a_type_error(missing: Any) -> None:
    pool = make_pool(("level",))
    with pytest.raises(TypeError) as caught:
        pool.offer(b"state", missing, {"level": 1})
    assert isinstance(caught.value, DTypeError)
    assert len(pool) == 0


def test_the_error_of_a_missing_stack_says_why_it_matters() -> None:
    with pytest.raises(TypeError, match="a world in which nothing moves"):
        make_pool(("level",)).offer(b"state", None, {"level": 1})


@pytest.mark.parametrize("stack", [[[1], [2, 3]], [np.zeros((2, 3)), np.zeros((3, 2))]])
def test_a_ragged_stack_is_refused(stack: Any) -> None:
    with pytest.raises(ShapeError, match="frame_stack"):
        make_pool(("level",)).offer(b"state", stack, {"level": 1})


@pytest.mark.parametrize("stack", [np.uint8(3), np.zeros((0, 4)), np.zeros((4, 0, 4))])
def test_a_stack_without_frames_is_refused(stack: Any) -> None:
    with pytest.raises(ShapeError, match="holds no frame"):
        make_pool(("level",)).offer(b"state", stack, {"level": 1})


def released() -> memoryview:
    view = memoryview(b"state")
    view.release()
    return view


@pytest.mark.parametrize(
    "snapshot", [None, "state", 3, [1, 2], np.zeros(3), np.array([None]), released()]
)
def test_a_snapshot_that_is_no_bytes_is_a_type_error(snapshot: Any) -> None:
    with pytest.raises(TypeError, match="snapshot"):
        make_pool(("level",)).offer(snapshot, stack_of(0), {"level": 1})


@pytest.mark.parametrize(
    "snapshot",
    [b"", b"a", bytes(100_001), bytearray(b"abc"), memoryview(b"abcdef")[::2],
     np.zeros((0, 4), np.uint8), (ctypes.c_uint8 * 3)(1, 2, 3), np.arange(5, dtype=np.uint8),
     np.arange(20, dtype=np.int8).reshape(4, 5)[:, ::2]],
)  # fmt: skip
def test_snapshots_of_any_length_come_back(snapshot: Any) -> None:
    pool = make_pool(("level",))
    pool.offer(snapshot, stack_of(0), {"level": 1})
    assert drawn(pool).snapshot == memoryview(snapshot).tobytes()
    assert type(drawn(pool).snapshot) is bytes


@pytest.mark.parametrize(
    "stack",
    [
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(24.0)[::2],
        np.array([[True, False]]),
        np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
        np.array([[math.nan, -0.0, math.inf]]),
    ],
)
def test_stacks_come_back_as_they_were(stack: np.ndarray) -> None:
    pool = make_pool(("level",))
    pool.offer(b"", stack, {"level": 1})
    given = drawn(pool).frame_stack
    assert (given.shape, given.dtype) == (stack.shape, stack.dtype)
    assert given.tobytes() == stack.tobytes()
    assert given.flags.writeable
    assert given.flags.c_contiguous


def test_a_stack_may_be_anything_that_becomes_an_array() -> None:
    class LazyFrames:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return stack_of(3)

    pool = make_pool(("level",))
    pool.offer(b"", LazyFrames(), {"level": 1})
    assert drawn(pool).frame_stack.tolist() == stack_of(3).tolist()


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (np.zeros((3, 2), np.uint8), ShapeError),
        (np.zeros((2, 3, 1), np.uint8), ShapeError),
        (np.zeros((2, 3), np.int8), DTypeError),
        (np.zeros((2, 3), np.float32), DTypeError),
    ],
)
def test_a_stack_of_another_shape_or_dtype_than_the_others_is_refused(
    other: np.ndarray, error: type[ReplayError]
) -> None:
    pool = make_pool(("level",), maximum_values={"level": 5})
    offer(pool, 1, 1)
    before = pool.stats()
    for level in (1, 6):  # also where the point would be refused for its values
        with pytest.raises(error, match=r"this pool's have"):
            pool.offer(b"", other, {"level": level})
    assert pool.stats() == before
    pool.check()


def test_what_was_offered_may_be_overwritten() -> None:
    pool = make_pool(("level",))
    snapshot, stack, values = bytearray(b"state 5"), stack_of(5), {"level": 1}
    pool.offer(snapshot, stack, values)
    snapshot[:], values["level"] = b"state 6", 2
    stack[:] = 6
    restart = drawn(pool)
    assert number_of(restart) == 5
    assert (restart.values, restart.key) == ({"level": 1}, (1,))


def test_what_was_drawn_is_the_callers_own() -> None:
    pool = make_pool(("level",))
    offer(pool, 5, 1)
    first, second = drawn(pool), drawn(pool)
    first.frame_stack[:] = 0
    first.values["level"] = 9
    for restart in (second, drawn(pool)):
        assert number_of(restart) == 5
        assert restart.values == {"level": 1}
    assert pool.reached(first, {"level": 2})  # its bucket is still (1,)


def test_steps_used_come_back() -> None:
    pool = make_pool(("level",))
    pool.offer(b"", stack_of(0), {"level": 1}, steps_used=np.int32(960))
    assert drawn(pool).steps_used == 960


@pytest.mark.parametrize("steps_used", [-1, 1.0, True, None, "3", 2**63, HUGE])
def test_steps_used_that_are_no_count_are_refused(steps_used: Any) -> None:
    with pytest.raises(ConfigurationError, match="steps_used"):
        make_pool(("level",)).offer(b"", stack_of(0), {"level": 1}, steps_used=steps_used)


def test_a_restart_is_shown_without_its_bytes() -> None:
    pool = make_pool(("level",))
    offer(pool, 5, 1)
    assert repr(drawn(pool)) == (
        "Restart(snapshot=<7 bytes>, frame_stack=<uint8(2, 3)>, values={'level': 1}, key=(1,), "
        "serial=0, steps_used=0)"
    )


def test_a_restart_may_go_to_another_process_and_come_back() -> None:
    pool = make_pool(("level",))
    offer(pool, 5, 1)
    restart = pickle.loads(pickle.dumps(drawn(pool)))
    assert number_of(restart) == 5
    pool.finish(restart)
    with pytest.raises(OrderError):
        pool.finish(restart)


# The ring


def test_the_newest_points_of_a_bucket_are_kept_oldest_first() -> None:
    pool = make_pool(max_per_key=3)
    for number in range(1, 6):
        offer(pool, number, 1, 0)
        offer(pool, 10 * number, 2, 0)
    assert numbers_held(pool, 1, 0) == [3, 4, 5]
    assert numbers_held(pool, 2, 0) == [30, 40, 50]
    assert pool.stats()["buckets"][1, 0]["overwritten_points"] == 2


def test_serials_are_never_used_again() -> None:
    pool = make_pool(("level",), max_per_key=1, max_timeouts_per_point=1)
    serials = []
    for number in range(4):
        offer(pool, number, 1)
        restart = drawn(pool)
        serials.append(restart.serial)
        pool.finish(restart, timed_out=number % 2 == 0)
    assert len(set(serials)) == 4
    assert serials == sorted(serials)


def test_a_point_overwritten_while_its_episode_runs_reports_late() -> None:
    pool = make_pool(("level",), max_per_key=1, max_timeouts_per_point=1)
    offer(pool, 1, 1)
    restart = drawn(pool)
    offer(pool, 2, 1)
    assert number_of(restart) == 1  # the episode keeps its own bytes
    pool.finish(restart, timed_out=True)
    assert numbers_held(pool, 1) == [2]
    bucket = pool.stats()["buckets"][(1,)]
    assert (bucket["late_reports"], bucket["timeouts"], bucket["finished"]) == (1, 1, 1)
    assert bucket["advance_rate"] == 0.0  # the window has its entry


# Time-outs


def test_of_64_draws_of_one_point_that_all_time_out_the_third_report_drops_it() -> None:
    pool = make_pool(("level",), max_per_key=1)
    offer(pool, 1, 1)
    restarts = [drawn(pool) for _ in range(64)]
    for report, restart in enumerate(restarts, 1):
        pool.finish(restart, timed_out=True)
        assert len(pool) == (1 if report < 3 or report >= 10 else 0)
        if report == 9:
            offer(pool, 2, 1)  # put in meanwhile
        pool.check()
    bucket = pool.stats()["buckets"][(1,)]
    assert (bucket["timeouts"], bucket["late_reports"], bucket["dropped_points"]) == (64, 61, 1)
    assert pool._contents.buckets[(1,)].points[0].timeouts == 0
    assert numbers_held(pool, 1) == [2]


def test_timeouts_are_counted_over_a_points_whole_life() -> None:
    pool = make_pool(("level",))
    offer(pool, 1, 1)
    for held, report in zip([1, 1, 1, 1, 1, 0], "TFTFFT", strict=True):
        play(pool, timed_out=report == "T")
        assert len(pool) == held


def test_timeouts_are_counted_for_each_point_alone() -> None:
    pool = make_pool(("level",), max_timeouts_per_point=2)
    offer(pool, 1, 1)
    offer(pool, 2, 1)
    left = Counter({1: 2, 2: 2})
    while all(left.values()):
        restart = drawn(pool)
        left[number_of(restart)] -= 1
        pool.finish(restart, timed_out=True)
    assert numbers_held(pool, 1) == [number for number in (1, 2) if left[number]]


def test_losses_never_drop_a_point() -> None:
    pool = make_pool(("level",), max_timeouts_per_point=1)
    offer(pool, 1, 1)
    for _ in range(1000):
        play(pool)
    assert len(pool) == 1


def test_an_episode_that_timed_out_and_advanced_counts_as_both() -> None:
    pool = make_pool(("level",), max_timeouts_per_point=1)
    offer(pool, 1, 1)
    play(pool, (2,), timed_out=True)
    bucket = pool.stats()["buckets"][(1,)]
    assert (bucket["timeouts"], bucket["advance_rate"]) == (1, 1.0)
    assert len(pool) == 0


def test_a_bucket_whose_last_point_is_dropped_leaves_the_draw_and_its_window_stays() -> None:
    pool = make_pool(("level",), max_timeouts_per_point=1, selection="failure_rate")
    offer(pool, 1, 1)
    for _ in range(3):
        play(pool, (2,))
    play(pool, timed_out=True)
    assert pool.buckets() == {}
    assert pool.draw(0) is None
    assert pool.stats()["buckets"][(1,)]["advance_rate"] == 0.75
    offer(pool, 2, 1)
    assert pool.buckets() == {(1,): 1}
    bucket = pool.stats()["buckets"][(1,)]
    assert (bucket["advance_rate"], bucket["weight"]) == (0.75, 0.25)
    assert number_of(pool.draw(0)) == 2


# Reports


@pytest.mark.parametrize("end", ["finish", "abandon"])
@pytest.mark.parametrize("again", ["finish", "abandon", "reached"])
def test_each_restart_is_ended_once(end: str, again: str) -> None:
    pool = make_pool(("level",))
    offer(pool, 1, 1)
    restart = drawn(pool)
    getattr(pool, end)(restart)
    before = pool.stats()
    with pytest.raises(OrderError, match="once"):
        getattr(pool, again)(restart, *([{"level": 2}] if again == "reached" else []))
    assert pool.stats() == before
    pool.check()


@pytest.mark.parametrize("call", ["finish", "abandon", "reached", "offer"])
def test_the_restart_of_another_pool_is_refused(call: str) -> None:
    pool, other = make_pool(("level",)), make_pool(("level",))
    for each in (pool, other):
        offer(each, 1, 1)
    drawn(pool)
    foreign: Any
    for foreign in (drawn(other), None if call != "offer" else 3, 0, "restart"):
        before = pool.stats()
        with pytest.raises(ConfigurationError, match=r"Restart|another pool"):
            if call == "offer":
                pool.offer(b"", stack_of(0), {"level": 1}, restart=foreign)
            else:
                getattr(pool, call)(foreign, *([{"level": 2}] if call == "reached" else []))
        assert pool.stats() == before


@pytest.mark.parametrize("timed_out", [1, 0, None, "no"])
def test_a_time_out_that_is_no_bool_is_refused(timed_out: Any) -> None:
    pool = make_pool(("level",))
    offer(pool, 1, 1)
    restart = drawn(pool)
    with pytest.raises(ConfigurationError, match="timed_out"):
        pool.finish(restart, timed_out=timed_out)
    pool.finish(restart, timed_out=np.bool_(True))  # type: ignore[arg-type]
    assert pool.stats()["buckets"][(1,)]["timeouts"] == 1


@pytest.mark.parametrize("steps", [-1, 1.0, True, "3", 2**63, 10**400, HUGE])
def test_a_length_that_is_no_count_is_refused(steps: Any) -> None:
    pool = make_pool(("level",))
    offer(pool, 1, 1)
    with pytest.raises(ConfigurationError, match="steps"):
        pool.finish(drawn(pool), steps=steps)


# Draws


def test_an_empty_pool_starts_normally_and_counts_its_draws() -> None:
    pool = make_pool(("level",))
    assert [pool.draw(0) for _ in range(3)] == [None] * 3
    assert pool.stats()["draws"] == 3
    assert pool.stats()["restarts"] == 0


def test_a_probability_of_zero_never_restarts() -> None:
    pool = make_pool(("level",), probability=0.0)
    offer(pool, 1, 1)
    assert [pool.draw(step) for step in range(200)] == [None] * 200


def test_the_probability_is_that_of_the_step() -> None:
    pool = make_pool(("level",), probability=Schedule.starting(0.0).hold(100).linear(1.0, 0))
    offer(pool, 1, 1)
    assert pool.draw(99) is None
    assert pool.draw(100) is not None


@pytest.mark.parametrize("step", [-1, math.nan, None, "3", True, 10**400])
@pytest.mark.parametrize("probability", [0.5, lambda step: 0.5])
def test_a_step_that_is_none_is_refused_and_draws_nothing(probability: Any, step: Any) -> None:
    pool = make_pool(("level",), probability=probability)
    with pytest.raises(ConfigurationError, match="step="):
        pool.draw(step)
    assert pool.stats()["draws"] == 0


def test_a_function_that_leaves_zero_and_one_raises_with_step_and_value() -> None:
    pool = make_pool(("level",), probability=lambda step: step / 10)
    offer(pool, 1, 1)
    with pytest.raises(ConfigurationError, match=r"1\.5 at step 15"):
        pool.draw(15)
    assert pool.stats()["draws"] == 0
    assert pool.draw(10) is not None


def test_draws_are_those_of_the_reference() -> None:
    pool = make_pool(("level",), probability=0.5, random_seed=2**64 - 1)
    for level in range(5):
        for number in range(7):
            offer(pool, 10 * level + number, level)
    for draw in range(300):
        whether, which, where = restart_numbers(2**64 - 1, draw)
        restart = pool.draw(draw)
        if whether < 0.5:
            assert number_of(restart) == 10 * int(which * 5) + int(where * 7)
        else:
            assert restart is None


def test_a_seed_gives_the_same_draws_however_buckets_were_filled() -> None:
    sequences = []
    for order in ((0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)):
        pool = make_pool(("level",), probability=0.7)
        for level in order:
            for number in range(3):
                offer(pool, 10 * level + number, level)
        draws = [pool.draw(0) for _ in range(100)]
        sequences.append([restart and number_of(restart) for restart in draws])
    assert sequences[0] == sequences[1] == sequences[2]
    assert len({*sequences[0]}) == 13  # all twelve, and None


def test_buckets_are_ordered_by_their_keys_first_label_first() -> None:
    keys = [(2, -1), (-1, 3), (1, 2), (-1, -4), (10, 0), (1, 0)]
    pool = make_pool()
    for number, key in enumerate(keys):
        offer(pool, number, *key)
    order = [(-1, -4), (-1, 3), (1, 0), (1, 2), (2, -1), (10, 0)]
    assert list(pool.buckets()) == list(pool.stats()["buckets"]) == order
    for draw in range(50):
        restart = pool.draw(0)
        assert restart is not None
        assert restart.key == order[int(restart_numbers(7, draw)[1] * 6)]


def test_draws_that_gave_nothing_count_too() -> None:
    early, late = make_pool(("level",)), make_pool(("level",))
    for _ in range(5):
        late.draw(0)
    for pool in (early, late):
        for number in range(50):
            offer(pool, number, number)
    skipped = [number_of(early.draw(0)) for _ in range(25)]
    assert [number_of(late.draw(0)) for _ in range(20)] == skipped[5:]


def test_without_a_seed_pools_differ_and_no_global_generator_is_touched() -> None:
    numpy_state, python_state = np.random.get_state()[1].copy(), random.getstate()
    sequences = []
    for _ in range(2):
        pool = make_pool(("level",), random_seed=None)
        for number in range(100):
            offer(pool, number, number)
        sequences.append([number_of(pool.draw(0)) for _ in range(30)])
    assert sequences[0] != sequences[1]  # but for one in 10**60
    assert (np.random.get_state()[1] == numpy_state).all()
    assert random.getstate() == python_state


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10, 8191, 8192, 2**20 + 1])
def test_the_smallest_number_picks_the_first_and_the_largest_the_last(count: int) -> None:
    assert pick(0.0, count) == 0
    assert pick(LARGEST, count) == count - 1
    assert pick(math.nextafter(1.0 / count, 1.0) if count > 1 else 0.5, count) == min(1, count - 1)


@pytest.mark.parametrize(
    "weights",
    [[1.0, 1.0, 1.0], [0.1, 0.75, 1.0], [0.1] * 10, [5e-324] * 3, [1.0, 5e-324, 1e-300], [1.0],
     [0.7] * 49, [1 / 3] * 3],
)  # fmt: skip
def test_weights_are_picked_safely_at_both_ends(weights: list[float]) -> None:
    assert pick_weighted(0.0, weights) == 0
    last = pick_weighted(LARGEST, weights)
    assert 0 <= last < len(weights)
    if min(weights) > 1e-9:
        assert last == len(weights) - 1


def test_weights_are_slices_of_the_unit_interval() -> None:
    weights = [0.25, 0.5, 0.25]  # exact, so the ends of slices are too
    places = {u: pick_weighted(u, weights) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999)}
    assert list(places.values()) == [0, 0, 1, 1, 2, 2]


# Selection


def set_window(pool: RestartPool, key: tuple[int, ...], entries: list[int]) -> None:
    """Play episodes from one bucket, each of which advances or not."""
    waiting = entries[:]
    while waiting:
        restart = pool.draw(0)
        if restart is None:
            continue
        if restart.key != key:
            pool.abandon(restart)
            continue
        if waiting.pop(0):
            pool.reached(restart, {"level": 10**6})
        pool.finish(restart)


def weights_of(pool: RestartPool) -> list[float]:
    return [bucket["weight"] for bucket in pool.stats()["buckets"].values()]


def test_under_failure_rate_a_bucket_weighs_what_it_fails_and_never_less_than_the_floor() -> None:
    pool = make_pool(("level",), selection="failure_rate")
    for level in (1, 2, 3):
        offer(pool, level, level)
    set_window(pool, (1,), [1, 1, 1, 1])
    set_window(pool, (2,), [1, 0, 0, 0])
    assert weights_of(pool) == pytest.approx([0.1, 0.75, 1.0])


def test_under_uniform_selection_all_buckets_weigh_the_same() -> None:
    pool = make_pool(("level",))
    for level in (1, 2):
        offer(pool, level, level)
    set_window(pool, (1,), [1, 1, 1, 1])
    assert weights_of(pool) == [1.0, 1.0]


@pytest.mark.parametrize(("floor", "windows"), [(0.1, [[1, 1], [1, 1]]), (1.0, [[1, 0], [0, 0]])])
def test_all_at_the_floor_is_uniform(floor: float, windows: list[list[int]]) -> None:
    pool = make_pool(("level",), selection="failure_rate", selection_floor=floor)
    for level in (0, 1):
        offer(pool, level, level)
    for level, entries in enumerate(windows):
        set_window(pool, (level,), entries)
    assert weights_of(pool) == [floor, floor]


def test_the_window_forgets_its_oldest_entries() -> None:
    pool = make_pool(("level",), selection="failure_rate", advance_window=4)
    offer(pool, 1, 1)
    weights = []
    for entry in (1, 1, 1, 1, 0, 0, 0, 0):
        set_window(pool, (1,), [entry])
        weights.append(weights_of(pool)[0])
    assert weights == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.25, 0.5, 0.75, 1.0])


def chance(counts: list[int], expected: list[float]) -> float:
    """How likely counts are to be as far off by chance."""
    assert min(expected) >= 20
    statistic = math.fsum((n - e) ** 2 / e for n, e in zip(counts, expected, strict=True))
    return chance_of_more(statistic, len(counts) - 1)


@pytest.mark.parametrize("seed", [0, 1, 2**63])
@pytest.mark.parametrize("selection", ["uniform", "failure_rate"])
def test_buckets_are_drawn_by_their_weights_and_points_alike(selection: str, seed: int) -> None:
    pool = make_pool(("level",), selection=selection, probability=0.8, random_seed=seed)
    sizes = (1, 8, 3, 5)
    for level, size in enumerate(sizes):
        for number in range(size):
            offer(pool, 10 * level + number, level)
    set_window(pool, (0,), [1, 1, 1, 1])
    set_window(pool, (1,), [1, 0, 0, 0])
    weights = [0.1, 0.75, 1.0, 1.0] if selection == "failure_rate" else [1.0] * 4
    draws, counts = 6_000, Counter[int]()
    for _ in range(draws):
        restart = pool.draw(0)
        counts[-1 if restart is None else number_of(restart)] += 1
        if restart is not None:
            pool.abandon(restart)
    cells, expected = [counts[-1]], [0.2 * draws]
    for level, size in enumerate(sizes):
        for number in range(size):
            cells.append(counts[10 * level + number])
            expected.append(0.8 * draws * weights[level] / sum(weights) / size)
    assert chance(cells, expected) >= FALSE_ALARMS
    # The other rule, and the other probability, would be found out.
    assert chance(cells[1:], [sum(cells[1:]) / 17] * 17) < FALSE_ALARMS


# Draws in flight


def test_a_point_at_its_limit_of_unreported_draws_is_not_drawn() -> None:
    pool = make_pool(("level",), max_in_flight_per_point=2)
    for number in range(3):
        offer(pool, number, 1)
    offer(pool, 9, 2)
    restarts = [drawn(pool) for _ in range(8)]
    assert Counter(map(number_of, restarts)) == {0: 2, 1: 2, 2: 2, 9: 2}
    assert pool.draw(0) is None
    pool.check()
    for end, restart in zip(itertools.cycle([pool.finish, pool.abandon]), restarts, strict=False):
        end(restart)
        again = drawn(pool)  # only the point that was reported about can be drawn
        assert number_of(again) == number_of(restart)
        pool.check()


def test_points_below_their_limit_stay_equally_likely() -> None:
    pool = make_pool(("level",), max_in_flight_per_point=1)
    for number in range(6):
        offer(pool, number, 1)
    held: dict[int, Restart] = {}
    while 1 not in held or 4 not in held:
        restart = drawn(pool)
        held[number_of(restart)] = restart
        for number in [number for number in held if number not in (1, 4)]:
            pool.finish(held.pop(number))
    counts = Counter[int]()
    for _ in range(4000):
        restart = drawn(pool)
        counts[number_of(restart)] += 1
        pool.finish(restart)
    assert sorted(counts) == [0, 2, 3, 5]
    assert chance([counts[number] for number in (0, 2, 3, 5)], [1000.0] * 4) >= FALSE_ALARMS


def test_a_point_that_was_overwritten_at_its_limit_holds_nothing_back() -> None:
    pool = make_pool(("level",), max_in_flight_per_point=1, max_per_key=1)
    offer(pool, 1, 1)
    first = drawn(pool)
    assert pool.draw(0) is None
    offer(pool, 2, 1)
    second = drawn(pool)
    assert number_of(second) == 2
    pool.finish(first)
    assert pool.draw(0) is None  # the late report has not freed the other point
    pool.check()


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "2"])
def test_a_limit_that_is_no_count_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_in_flight_per_point"):
        make_pool(max_in_flight_per_point=limit)


@pytest.mark.parametrize("machine", ["", 3, b"nes", "\ud800", True])
def test_a_machine_that_is_no_text_is_refused(machine: Any) -> None:
    with pytest.raises(ConfigurationError, match="machine"):
        RestartPool(RestartPoolConfiguration(key=["a"]), machine=machine)


@pytest.mark.parametrize("configuration", [None, {"key": ["a"]}, ["a"]])
def test_what_is_no_configuration_is_refused(configuration: Any) -> None:
    with pytest.raises(ConfigurationError, match="RestartPoolConfiguration"):
        RestartPool(configuration)


# The lock


def test_nothing_is_encoded_or_decoded_under_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(("level",))
    calls = []

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append(function.__name__)
            assert not pool._lock.locked()
            return function(*arguments)

        return call

    for name in ("encode_point", "decode_point"):
        monkeypatch.setattr(
            cpreplay.restart.pool, name, watched(getattr(cpreplay.restart.pool, name))
        )
    offer(pool, 1, 1)
    drawn(pool)
    assert calls == ["encode_point", "decode_point"]


def test_threads_may_share_a_pool() -> None:
    pool = make_pool(("level",), max_per_key=4, max_in_flight_per_point=3, random_seed=None)
    failures: list[BaseException] = []

    def worker(first: int) -> None:
        try:
            for number in range(first, first + 60):
                offer(pool, number, number % 5)
                restart = drawn(pool)
                assert number_of(restart) % 5 == restart.key[0]
                pool.reached(restart, {"level": number % 7})
                if number % 11:
                    pool.finish(restart, timed_out=number % 3 == 0)
                else:
                    pool.abandon(restart)
                pool.check()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=worker, args=(30 * each,)) for each in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    stats = pool.stats()
    assert (stats["offers"], stats["draws"], stats["in_flight"]) == (360, 360, 0)


def test_a_draw_that_fails_leaves_no_episode_open(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(("level",), max_in_flight_per_point=1)
    offer(pool, 1, 1)

    def fail(record: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(cpreplay.restart.pool, "decode_point", fail)
        with pytest.raises(MemoryError):
            pool.draw(0)
    stats = pool.stats()
    assert (stats["in_flight"], stats["abandoned"]) == (0, 1)
    assert number_of(pool.draw(0)) == 1
    pool.check()


def test_bytes_that_changed_in_memory_are_not_given_to_a_machine() -> None:
    pool = make_pool(("level",))
    offer(pool, 1, 1)
    (point,) = pool._contents.buckets[(1,)].points
    frame = bytearray(point.record.frame)
    frame[len(frame) // 2] ^= 1
    point.record = attrs.evolve(point.record, frame=bytes(frame))
    with pytest.raises(CheckpointError):
        pool.draw(0)


def test_a_point_beyond_a_records_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpreplay.restart.point, "RECORD_LIMIT", 10_000)
    pool = make_pool(("level",))
    with pytest.raises(ConfigurationError, match="10,000"):
        pool.offer(bytes(10_000), stack_of(0), {"level": 1})
    assert pool.offer(bytes(5_000), stack_of(0), {"level": 1})


def test_a_pool_is_not_copied() -> None:
    pool = make_pool()
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(CopyError):
            call(pool)


def test_a_forked_copy_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(("level",))
    offer(pool, 1, 1)
    restart = drawn(pool)
    before = pool.stats()
    calls: list[Callable[[], Any]] = [
        lambda: offer(pool, 2, 1),
        lambda: pool.draw(0),
        lambda: pool.reached(restart, {"level": 2}),
        lambda: pool.finish(restart),
        lambda: pool.abandon(restart),
        pool.stats,
        pool.buckets,
        pool.check,
        lambda: pool.save(tmp_path / "points"),
        lambda: pool.save_in_background(tmp_path / "points"),
        lambda: pool.load(tmp_path / "points"),
    ]
    with monkeypatch.context() as patched:
        patched.setattr("os.getpid", lambda: -1)
        patched.setattr(pool, "_saving", None)  # held for ever, where another thread had it
        patched.setattr(pool, "_saves", None)  # never done, where one ran
        pool._lock.acquire()  # as another thread may have at the fork
        for call in calls:
            with pytest.raises(CopyError, match="fork"):
                call()
        pool._lock.release()
    assert pool.stats() == before


def test_a_forked_copy_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(("level",))
    offer(pool, 1, 1)
    monkeypatch.setattr(pool, "_lock", None)  # another thread may have had it at the fork
    assert repr(pool) == "<RestartPool: 1 points in 1 buckets by 'level'>"
    assert len(pool) == 1


# What is told


def test_a_dead_end_shows_in_the_statistics() -> None:
    pool = make_pool(("level",))
    for level in (1, 2):
        offer(pool, level, level)
    while (2,) in pool.buckets():
        restart = drawn(pool)
        stuck = restart.key == (2,)
        pool.finish(restart, timed_out=stuck, steps=500 if stuck else 20)
    buckets = pool.stats()["buckets"]
    assert buckets[2,]["finished"] == buckets[2,]["timeouts"] == 3
    assert (buckets[2,]["points"], buckets[2,]["dropped_points"], buckets[2,]["weight"]) == (
        0,
        1,
        0,
    )
    assert (buckets[1,]["timeouts"], buckets[1,]["median_steps"]) == (0, 20)
    assert pool.stats()["dropped_points"] == 1


def test_a_wrapper_that_ends_every_restart_at_its_first_step_shows_in_the_statistics() -> None:
    pool = make_pool(("level",), advance_window=3)
    offer(pool, 1, 1)
    for steps in (40, 50, 1, 1, None, 1):
        play(pool, steps=steps)
    assert pool.stats()["buckets"][(1,)]["median_steps"] == 1
    play(pool, steps=4)
    play(pool, steps=4)
    assert pool.stats()["buckets"][(1,)]["median_steps"] == 4


def test_the_share_of_offers_by_restart_episodes_is_told() -> None:
    pool = make_pool(("level",))
    offer(pool, 1, 1)
    restart = drawn(pool)
    pool.offer(b"", stack_of(1), {"level": 2}, restart=restart)
    pool.finish(restart)
    pool.offer(b"", stack_of(1), {"level": 2}, restart=restart)  # its last marker may come late
    stats = pool.stats()
    assert (stats["offers"], stats["offers_of_restarts"]) == (3, 2)


def test_bytes_are_those_that_are_held() -> None:
    pool = make_pool(("level",), max_per_key=2)
    noise = np.random.default_rng(0).bytes(20_000)
    for level in range(3):
        for _ in range(3):
            pool.offer(noise, stack_of(0), {"level": level})
    stats = pool.stats()
    assert 6 * 20_000 < stats["bytes"] < 6 * 21_000
    assert sum(bucket["bytes"] for bucket in stats["buckets"].values()) == stats["bytes"]
    compressible = make_pool(("level",))
    compressible.offer(bytes(300_000), stack_of(0), {"level": 0})
    assert compressible.stats()["bytes"] < 3_000


def test_statistics_are_plain_numbers() -> None:
    pool = make_pool(("level",))
    offer(pool, 1, np.int64(1))  # type: ignore[arg-type]
    play(pool, (2,), timed_out=np.bool_(True), steps=np.int64(3))  # type: ignore[arg-type]
    stats = pool.stats()
    values = [*stats.values(), *stats.pop("buckets")[(1,)].values()]
    assert {type(value) for value in values} <= {int, float, type(None), dict}


def test_lengths_of_any_size_have_a_median() -> None:
    pool = make_pool(("level",))
    offer(pool, 1, 1)
    play(pool, steps=2**63 - 1)
    play(pool, steps=2**63 - 1)
    assert pool.stats()["buckets"][(1,)]["median_steps"] == 2.0**63


def test_a_pool_shows_what_it_holds() -> None:
    pool = make_pool()
    offer(pool, 1, 1, 2)
    assert repr(pool) == "<RestartPool: 1 points in 1 buckets by 'level', 'x'>"


# check()


def swap_points(pool: RestartPool) -> None:
    pool._contents.buckets[(1,)].points.reverse()


def lose_a_serial(pool: RestartPool) -> None:
    del pool._contents.live[0]


def forget_a_point(pool: RestartPool) -> None:
    pool._contents.buckets[(1,)].points.pop(0)


def overfill(pool: RestartPool) -> None:
    pool._contents.buckets[(1,)].capacity = 9
    for number in range(5):
        offer(pool, number, 1)


def misfile(pool: RestartPool) -> None:
    pool._contents.buckets[(5,)] = pool._contents.buckets.pop((1,))


def move_a_point(pool: RestartPool) -> None:
    pool._contents.buckets[(1,)].points[0].key = (2,)


def break_a_bound(pool: RestartPool) -> None:
    pool._markers = type(pool._markers)(("level",), {"level": 2}, {})


def keep_a_dead_end(pool: RestartPool) -> None:
    pool._contents.buckets[(1,)].points[0].timeouts = 3


def change_a_frame(pool: RestartPool) -> None:
    point = pool._contents.buckets[(1,)].points[0]
    point.record = attrs.evolve(point.record, crc=point.record.crc ^ 1)


def miscount_bytes(pool: RestartPool) -> None:
    pool._contents.buckets[(1,)].nbytes += 1


def miscount_advances(pool: RestartPool) -> None:
    pool._contents.buckets[(1,)].advances += 1


def miscount_timeouts(pool: RestartPool) -> None:
    pool._contents.buckets[(1,)].timeouts += 9


def miscount_flights(pool: RestartPool) -> None:
    pool._contents.buckets[(1,)].points[0].in_flight += 1


def hold_back_wrongly(pool: RestartPool) -> None:
    pool._contents.buckets[(1,)].held_back.append(pool._contents.buckets[(1,)].points[0].serial)


def invent_a_restart(pool: RestartPool) -> None:
    pool._restarts = 10**6


def reuse_serials(pool: RestartPool) -> None:
    pool._next_serial = 0


def forget_the_order(pool: RestartPool) -> None:
    pool._contents.filled().reverse()


FAULTS = [
    swap_points, lose_a_serial, forget_a_point, overfill, misfile, move_a_point, break_a_bound,
    keep_a_dead_end, change_a_frame, miscount_bytes, miscount_advances, miscount_timeouts,
    miscount_flights, hold_back_wrongly, invent_a_restart, reuse_serials, forget_the_order,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_check_finds_what_is_broken(fault: Callable[[RestartPool], None]) -> None:
    pool = make_pool(("level",), max_per_key=3)
    for number in range(3):
        offer(pool, number, 1)
        offer(pool, 10 + number, 2)
    play(pool, timed_out=True)
    drawn(pool)
    pool.check()
    fault(pool)
    with pytest.raises(InvariantError, match="RestartPool: "):
        pool.check()


def reuse_the_last_serial(pool: RestartPool) -> None:
    pool._next_serial -= 1


def know_a_point_twice(pool: RestartPool) -> None:
    pool._contents.live[99] = pool._contents.live[0]


def misfile_an_empty_bucket(pool: RestartPool) -> None:
    for point in list(pool._contents.buckets[(1,)].points):
        pool._contents.take_out(point)
    pool._contents.buckets[(5,)] = pool._contents.buckets.pop((1,))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (reuse_the_last_serial, "yet to be given"),
        (know_a_point_twice, "known by serial"),
        (misfile_an_empty_bucket, "filed under"),
    ],
)
def test_check_finds_what_only_one_of_its_questions_shows(
    fault: Callable[[RestartPool], None], told: str
) -> None:
    pool = make_pool(("level",))
    offer(pool, 0, 1)
    offer(pool, 1, 2)
    fault(pool)
    with pytest.raises(InvariantError, match=told):
        pool.check()


def test_the_median_is_of_the_windows_episodes() -> None:
    pool = make_pool(("level",), advance_window=3)
    offer(pool, 0, 1)
    for steps in (9, 9, 9, 1, 2):
        play(pool, steps=steps)
    assert pool.stats()["buckets"][1,]["median_steps"] == 2


@pytest.mark.parametrize(
    ("probability", "number", "restarts"),
    [(0.0, 0.0, 0), (0.5, 0.5, 0), (0.5, 0.5 - 2.0**-54, 1), (1.0, LARGEST, 1)],
)
def test_a_restart_needs_a_number_below_the_probability(
    probability: float, number: float, restarts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make_pool(("level",), probability=probability)
    offer(pool, 0, 1)
    monkeypatch.setattr(pool._numbers, "take", lambda: (number, 0.0, 0.0))
    assert (pool.draw(0) is not None) == restarts
    assert pool.stats()["restarts"] == restarts


def test_restarts_and_draws_in_flight_are_counted_by_bucket() -> None:
    pool = make_pool(("level",))
    offer(pool, 0, 1)
    offer(pool, 1, 2)
    in_flight = {(1,): 0, (2,): 0}
    for _ in range(20):
        in_flight[drawn(pool).key] += 1
    assert min(in_flight.values()) > 0
    restarts = dict(in_flight)
    ended = drawn(pool)
    restarts[ended.key] += 1
    pool.finish(ended)
    buckets = pool.stats()["buckets"]
    assert {key: bucket["in_flight"] for key, bucket in buckets.items()} == in_flight
    assert {key: bucket["restarts"] for key, bucket in buckets.items()} == restarts


def test_time_outs_are_counted_by_point_and_not_by_bucket() -> None:
    pool = make_pool(("level",), max_timeouts_per_point=2)
    offer(pool, 0, 1)
    offer(pool, 1, 1)
    restarts: dict[int, list[Restart]] = {0: [], 1: []}
    while min(map(len, restarts.values())) < 2:
        restart = drawn(pool)
        restarts[restart.serial].append(restart)
    pool.finish(restarts[0][0], timed_out=True)
    pool.finish(restarts[1][0], timed_out=True)
    assert numbers_held(pool, 1) == [0, 1]
    pool.finish(restarts[1][1], timed_out=True)
    assert numbers_held(pool, 1) == [0]


def test_statistics_are_the_callers_own() -> None:
    pool = make_pool(("level",), minimum_values={"level": 1})
    assert not offer(pool, 0, 0)
    stats = pool.stats()
    stats["offers_refused"].clear()
    assert pool.stats()["offers_refused"] == {"level < 1": 1}
    assert not offer(pool, 1, 0)
    assert stats["offers_refused"] == {}


@pytest.mark.parametrize("bounds", ["minimum_values", "maximum_values"])
def test_a_label_that_only_a_bound_names_has_to_be_there(bounds: str) -> None:
    pool = make_pool(("level",), **{bounds: {"lives": 3}})
    with pytest.raises(MarkerLabelError, match="'lives'"):
        offer(pool, 0, 1)
    assert offer(pool, 0, 1, lives=3)


def test_an_episode_of_no_steps_has_a_length() -> None:
    pool = make_pool(("level",))
    offer(pool, 0, 1)
    play(pool, steps=0)
    assert pool.stats()["buckets"][1,]["median_steps"] == 0


def test_check_finds_a_point_that_another_stands_for() -> None:
    pool = make_pool(("level",))
    offer(pool, 0, 1)
    pool._contents.live[0] = attrs.evolve(pool._contents.live[0])
    with pytest.raises(InvariantError, match="not known by its serial"):
        pool.check()


def test_weights_are_added_in_order_and_the_last_stands_for_what_rounding_leaves() -> None:
    assert pick_weighted(LARGEST, [2.0**53, 1.0, 1.0]) == 0  # their sum in order is 2**53
    assert pick_weighted(LARGEST, [5e-324, 5e-324]) == 1  # the target rounds to their sum
