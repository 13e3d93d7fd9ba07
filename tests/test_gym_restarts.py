"""Restarts inside ``reset`` and ``step``, on machines small enough to be followed by hand.

The pool is a scripted one where the order of its calls is what a test is about: it gives what the
script says and writes down what it was told. Where points travel, it is a real one.
"""

import gc
import threading
import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import (
    FrameStackObservation,
    OrderEnforcing,
    RecordEpisodeStatistics,
    TimeLimit,
    TransformObservation,
)

from cpreplay import (
    ConfigurationError,
    DTypeError,
    RestartPool,
    RestartPoolConfiguration,
    Schedule,
    ShapeError,
)
from cpreplay.gym import RestartWrapper, TransitionRecorder

MODES = list(AutoresetMode)
GOAL = 30


class Walk(gymnasium.Env[Any, Any]):
    """Observes (place before, place), and terminates at the goal; action n goes n places.

    Each multiple of 5 that a step reaches or passes confirms a marker. The reward is the place. The
    machine is the place alone: the observation's first number is kept outside of it.
    """

    observation_space = spaces.Box(0, 100, (2,), np.int64)
    action_space = spaces.Discrete(8)

    def __init__(self) -> None:
        self.place = self.before = 0
        self.loads: list[bytes] = []

    def observe(self) -> np.ndarray:
        return np.array([self.before, self.place])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.options = options
        self.place = self.before = 0
        return self.observe(), {"place": 0}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        self.before, self.place = self.place, self.place + int(action)
        info: dict[str, Any] = {"place": self.place}
        if self.place // 5 > self.before // 5:
            info["markers"] = {"room": self.place // 5, "place": self.place}
        return self.observe(), float(self.place), self.place >= GOAL, False, info

    def save(self) -> bytes:
        return self.place.to_bytes(2, "little")

    def load(self, snapshot: bytes) -> None:
        self.loads.append(snapshot)
        self.place = int.from_bytes(snapshot, "little")

    def restack(self, stack: np.ndarray) -> None:
        self.before = int(stack[0])


class Place(Walk):
    """Observes the place alone, for FrameStackObservation."""

    observation_space = spaces.Box(0, 100, (), np.int64)

    def observe(self) -> Any:
        return np.array(self.place)


class Point:
    """What a draw gives, as far as a wrapper looks."""

    def __init__(self, place: int, stack: Any = None, serial: int = 0, used: int = 0) -> None:
        self.snapshot = place.to_bytes(2, "little")
        self.frame_stack = np.array([place - 1, place] if stack is None else stack)
        self.values = {"room": place // 5, "place": place}
        self.key = (place // 5,)
        self.serial, self.steps_used = serial, used


class ScriptedPool:
    """Draws what it was told to, and tells what it was told."""

    def __init__(self, *draws: Point | None) -> None:
        self._draws = iter(draws)
        self.told: list[tuple[Any, ...]] = []

    def offer(
        self, snapshot: bytes, stack: Any, values: Any, *, steps_used: int, restart: Point | None
    ) -> bool:
        place, serial = int.from_bytes(snapshot, "little"), restart and restart.serial
        self.told.append(("offer", place, stack.tolist(), dict(values), steps_used, serial))
        return True

    def draw(self, step: int) -> Point | None:
        self.told.append(("draw", step))
        return next(self._draws, None)

    def reached(self, restart: Point, values: Any) -> None:
        self.told.append(("reached", restart.serial, values["place"]))

    def finish(self, restart: Point, *, timed_out: bool, steps: int) -> None:
        self.told.append(("finish", restart.serial, timed_out, steps))

    def abandon(self, restart: Point) -> None:
        self.told.append(("abandon", restart.serial))

    def heard(self) -> list[tuple[Any, ...]]:
        """What was told since it was last asked, draws and details left out."""
        told, self.told = self.told, []
        lengths = {"offer": 2, "finish": 3}
        return [event[: lengths.get(event[0])] for event in told if event[0] != "draw"]


def wrapped(pool: Any, machine: Walk | None = None, **options: Any) -> RestartWrapper:
    machine = machine or Walk()
    options.setdefault("restack", machine.restack)
    limit = options.pop("limit", None)
    env = machine if limit is None else TimeLimit(machine, limit)
    return RestartWrapper(env, pool, machine.save, machine.load, **options)


def real_pool(**options: Any) -> RestartPool:
    values = {"key": ["room"], "probability": 1.0, "random_seed": 0} | options
    return RestartPool(RestartPoolConfiguration(**values))


# The protocol


def test_a_normal_episode_is_the_environments_own_and_offers_a_point_at_each_marker() -> None:
    pool = ScriptedPool()
    env = wrapped(pool)
    obs, info = env.reset(seed=3)
    assert (obs.tolist(), info) == ([0, 0], {"place": 0})
    # By hand: places 4, 8, 11, 15, 22, 29, 36; a step from below a multiple of 5 to it or above.
    taken = [env.step(action) for action in (4, 4, 3, 4, 7, 7, 7)]
    assert [obs.tolist() for obs, *_ in taken] == [
        [0, 4], [4, 8], [8, 11], [11, 15], [15, 22], [22, 29], [29, 36],
    ]  # fmt: skip
    assert [terminated for _, _, terminated, _, _ in taken] == [False] * 6 + [True]
    assert not any("restart" in info for *_, info in taken)
    assert pool.told == [
        ("draw", 0),
        ("offer", 8, [4, 8], {"room": 1, "place": 8}, 2, None),
        ("offer", 11, [8, 11], {"room": 2, "place": 11}, 3, None),
        ("offer", 15, [11, 15], {"room": 3, "place": 15}, 4, None),
        ("offer", 22, [15, 22], {"room": 4, "place": 22}, 5, None),
        ("offer", 29, [22, 29], {"room": 5, "place": 29}, 6, None),
    ]


def test_a_restarted_episode_begins_with_the_stored_stack_and_goes_on_from_the_snapshot() -> None:
    pool = ScriptedPool(Point(12, stack=[77, 12], serial=9, used=40))
    machine = Walk()
    env = wrapped(pool, machine)
    obs, info = env.reset()
    # 77 was never a place before 12: the observation is what was stored, and nothing else.
    assert obs.tolist() == [77, 12]
    assert machine.loads == [b"\x0c\x00"]
    assert info == {
        "restart": {
            "serial": 9, "key": (2,), "values": {"room": 2, "place": 12}, "steps_used": 40,
        }
    }  # fmt: skip
    obs, reward, terminated, truncated, info = env.step(2)
    assert (obs.tolist(), reward, terminated, truncated) == ([12, 14], 14.0, False, False)
    assert info == {"place": 14}
    env.step(1)
    assert pool.told == [
        ("draw", 0),
        ("reached", 9, 15),
        ("offer", 15, [14, 15], {"room": 3, "place": 15}, 42, 9),  # 40 before the restart
    ]
    env.step(0)
    env.step(7)
    env.step(8)
    assert pool.told[-2:] == [("reached", 9, 30), ("finish", 9, False, 5)]  # of 5 steps


def test_a_normal_episode_after_a_restarted_one_counts_its_steps_from_zero() -> None:
    pool = ScriptedPool(Point(29, used=40), None)
    env = wrapped(pool)
    env.reset()
    env.step(1)
    env.reset()
    env.step(0)
    env.step(6)
    assert pool.told[-1] == ("offer", 6, [0, 6], {"room": 1, "place": 6}, 2, None)


def test_an_end_by_itself_is_no_time_out() -> None:
    pool = ScriptedPool(Point(28, serial=1), None)
    env = wrapped(pool)
    _, start = env.reset()
    *_, terminated, truncated, info = env.step(3)
    assert (terminated, truncated) == (True, False)
    assert info["place"] == 31
    # The marker of the last step was reached, and is no place to restart from.
    assert pool.heard() == [("reached", 1, 31), ("finish", 1, False)]
    assert info["restart"] == start["restart"]
    _, info = env.reset()
    assert "restart" not in info
    assert pool.heard() == []


def test_a_truncation_from_inside_is_a_time_out() -> None:
    pool = ScriptedPool(Point(10, serial=1))
    env = wrapped(pool, limit=3)
    env.reset()
    ends = [env.step(1)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    assert pool.heard() == [("finish", 1, True)]


def test_an_end_in_the_very_step_of_the_time_limit_is_no_time_out() -> None:
    pool = ScriptedPool(Point(27, serial=1))
    env = wrapped(pool, limit=3)
    env.reset()
    ends = [env.step(1)[2:4] for _ in range(3)]
    assert ends[-1] == (True, True)
    assert pool.heard() == [("reached", 1, 30), ("finish", 1, False)]


def test_a_truncated_step_at_a_marker_was_reached_and_offers_no_point() -> None:
    pool = ScriptedPool(Point(12, serial=1))
    env = wrapped(pool, limit=3)
    env.reset()
    for _ in range(3):
        env.step(1)
    assert pool.heard() == [("reached", 1, 15), ("finish", 1, True)]


def test_a_limit_on_restarts_truncates_them_and_leaves_normal_episodes_alone() -> None:
    pool = ScriptedPool(Point(1, serial=1), None, Point(28, serial=3))
    env = wrapped(pool, max_restart_steps=2)
    env.reset()
    assert [env.step(1)[2:4] for _ in range(2)] == [(False, False), (False, True)]
    assert pool.heard() == [("finish", 1, True)]
    env.reset()
    assert not any(env.step(0)[3] for _ in range(10))
    env.reset()
    assert [env.step(1)[2:4] for _ in range(2)] == [(False, False), (True, True)]
    assert pool.heard() == [("reached", 3, 30), ("finish", 3, False)]


def test_a_time_limit_inside_counts_from_the_restart() -> None:
    pool = ScriptedPool(None, Point(1), Point(1))
    env = wrapped(pool, limit=4)
    for _ in range(3):
        env.reset()
        assert [env.step(0)[3] for _ in range(4)] == [False, False, False, True]


def test_a_reset_in_the_middle_abandons_the_restart() -> None:
    pool = ScriptedPool(Point(10, serial=1), Point(10, serial=2))
    env = wrapped(pool)
    env.reset()
    env.step(1)
    env.reset()
    assert pool.heard() == [("abandon", 1)]
    env.reset()  # before any step
    assert pool.heard() == [("abandon", 2)]


def test_closing_in_the_middle_abandons_the_restart_once() -> None:
    pool = ScriptedPool(Point(10, serial=1))
    machine = Walk()
    closed = []
    machine.close = lambda: closed.append(True)
    env = wrapped(pool, machine)
    env.reset()
    env.close()
    env.close()
    assert pool.heard() == [("abandon", 1)]
    assert closed == [True, True]


def test_closing_after_the_end_abandons_nothing() -> None:
    pool = ScriptedPool(Point(29, serial=1))
    env = wrapped(pool)
    env.reset()
    env.step(1)
    pool.heard()
    env.close()
    assert pool.heard() == []


def test_a_time_limit_outside_is_seen_as_a_reset_in_the_middle() -> None:
    """As the docstring warns: such episodes are abandoned, and no dead end is ever found."""
    pool = ScriptedPool(Point(10, serial=1))
    env = TimeLimit(wrapped(pool), 2)
    env.reset()
    assert [env.step(0)[3] for _ in range(2)] == [False, True]
    env.reset()
    assert pool.heard() == [("abandon", 1)]


def test_steps_after_an_end_and_before_a_reset_tell_the_pool_nothing() -> None:
    pool = ScriptedPool(Point(29, serial=1))
    env = wrapped(pool)
    env.step(7)  # before any reset, past a marker
    assert pool.heard() == []
    env.reset()
    env.step(1)
    pool.heard()
    assert env.step(7)[2]
    assert pool.heard() == []
    env = wrapped(ScriptedPool(Point(3, serial=1)), max_restart_steps=1)
    env.reset()
    assert env.step(0)[3]
    assert not env.step(4)[3]  # past a marker, where the machine itself plays on
    assert [event[0] for event in env._pool.told] == ["draw", "finish"]


def test_the_environment_is_reset_before_it_is_loaded() -> None:
    order: list[str] = []

    class Ordered(Walk):
        def reset(self, **options: Any) -> Any:
            order.append("reset")
            return super().reset(**options)

        def load(self, snapshot: bytes) -> None:
            order.append("load")
            super().load(snapshot)

        def restack(self, stack: np.ndarray) -> None:
            order.append("restack")
            super().restack(stack)

    machine = Ordered()
    # OrderEnforcing refuses a step that no reset came before.
    env = RestartWrapper(
        OrderEnforcing(machine),
        ScriptedPool(Point(10)),
        machine.save,
        machine.load,
        restack=machine.restack,
        reseed=lambda seed: order.append("reseed"),
    )
    env.reset()
    env.step(1)
    assert order == ["reset", "load", "reseed", "restack"]


def test_a_load_that_fails_abandons_the_restart_and_the_next_reset_goes_on() -> None:
    pool = ScriptedPool(None, Point(10, serial=1), None)
    machine = Walk()

    def fail(snapshot: bytes) -> None:
        raise OSError("the machine is on fire")

    env = RestartWrapper(machine, pool, machine.save, fail)
    env.reset()
    with pytest.raises(OSError, match="on fire"):
        env.reset()
    assert pool.heard() == [("abandon", 1)]
    assert env.step(7)[0].tolist() == [0, 7]  # no episode of ours
    assert pool.heard() == []
    env.reset()
    env.step(7)
    assert pool.heard() == [("offer", 7)]


def test_a_reset_of_the_environment_that_fails_abandons_the_restart_before_it() -> None:
    machine = Walk()
    pool = ScriptedPool(Point(10, serial=1))
    env = wrapped(pool, machine)
    env.reset()
    machine.reset = lambda **options: 1 / 0
    with pytest.raises(ZeroDivisionError):
        env.reset()
    assert pool.heard() == [("abandon", 1)]


@pytest.mark.parametrize(
    ("stack", "error", "pattern"),
    [
        ([9, 10, 11], ShapeError, r"shape \(3,\), and observations have \(2,\): its point 4 is"),
        ([9.0, 10.0], DTypeError, r"float64, and observations are int64"),
    ],
)
def test_a_stack_of_another_environment_is_refused_before_anything_is_loaded(
    stack: Any, error: type[Exception], pattern: str
) -> None:
    machine = Walk()
    pool = ScriptedPool(Point(10, stack=stack, serial=4))
    env = wrapped(pool, machine)
    with pytest.raises(error, match=pattern):
        env.reset()
    assert machine.loads == []
    assert pool.heard() == [("abandon", 4)]


def test_the_first_observation_is_the_callers_own() -> None:
    point = Point(10, stack=[3, 10])
    point.frame_stack.flags.writeable = False
    env = wrapped(ScriptedPool(point, point))
    obs, _ = env.reset()
    obs[:] = 0
    assert env.step(1)[0].tolist() == [10, 11]
    assert env.reset()[0].tolist() == [3, 10]


# Markers


def test_markers_may_come_from_anywhere() -> None:
    machine = Walk()
    pool = ScriptedPool(None)
    seen: list[Any] = []

    def at_seven(info: dict[str, Any]) -> dict[str, int] | None:
        seen.append(info)
        return {"place": machine.place} if machine.place == 7 else None

    env = wrapped(pool, machine, markers=at_seven)
    env.reset()
    for action in (6, 1, 1):
        env.step(action)
    assert pool.told == [("draw", 0), ("offer", 7, [6, 7], {"place": 7}, 2, None)]
    assert [info["place"] for info in seen] == [6, 7, 8]


def test_a_machine_is_saved_at_markers_alone() -> None:
    machine = Walk()
    saved: list[int] = []

    def save() -> bytes:
        saved.append(machine.place)
        return b""

    env = RestartWrapper(machine, ScriptedPool(), save, machine.load)
    env.reset()
    for _ in range(12):
        env.step(1)
    assert saved == [5, 10]


# What keeps frames


def test_frames_that_gymnasium_stacks_are_put_back() -> None:
    machine = Place()
    pool = ScriptedPool(None, Point(11, stack=[2, 3, 11]))
    env = RestartWrapper(
        FrameStackObservation(TimeLimit(machine, 50), 3),
        pool,
        machine.save,
        machine.load,
    )
    assert env.reset()[0].tolist() == [0, 0, 0]
    env.step(4)
    assert env.step(4)[0].tolist() == [0, 4, 8]
    assert pool.told[1] == ("offer", 8, [0, 4, 8], {"room": 1, "place": 8}, 2, None)
    obs, _ = env.reset()
    assert obs.tolist() == [2, 3, 11]
    obs[:] = 0
    # Without the frames put back this would be [0, 0, 12]: those of the reset before the load.
    assert env.step(1)[0].tolist() == [3, 11, 12]
    assert env.step(1)[0].tolist() == [11, 12, 13]


def test_frames_that_the_environment_stacks_are_put_back_by_restack() -> None:
    env = wrapped(ScriptedPool(Point(10, stack=[3, 10])))
    env.reset()
    assert env.step(0)[0].tolist() == [10, 10]
    stacks: list[Any] = []
    env = wrapped(ScriptedPool(Point(10, stack=[3, 10])), restack=stacks.append)
    obs, _ = env.reset()
    obs[:] = 0  # which is the caller's, and no frame of the environment's
    assert [stack.tolist() for stack in stacks] == [[3, 10]]


def test_frames_that_are_changed_after_they_are_stacked_need_a_restack() -> None:
    machine = Place()
    stack = FrameStackObservation(machine, 2)
    halved = TransformObservation(stack, lambda obs: obs // 2, stack.observation_space)
    refused = [
        (halved, {}, "TransformObservation changes"),
        (FrameStackObservation(stack, 2), {}, "another FrameStackObservation changes"),
        (stack, {"to_stack": lambda obs: obs, "from_stack": lambda obs: obs}, "to_stack changes"),
    ]
    for env, options, pattern in refused:
        with pytest.raises(ConfigurationError, match=pattern):
            RestartWrapper(env, real_pool(), machine.save, machine.load, **options)
        RestartWrapper(
            env,
            real_pool(),
            machine.save,
            machine.load,
            restack=lambda stack: None,
            **options,
        )


def test_frames_that_are_changed_before_they_are_stacked_are_put_back() -> None:
    machine = Place()
    doubled = TransformObservation(machine, lambda obs: obs * 2, machine.observation_space)
    env = RestartWrapper(
        FrameStackObservation(doubled, 2),
        ScriptedPool(Point(10, stack=[14, 20])),
        machine.save,
        machine.load,
    )
    assert env.reset()[0].tolist() == [14, 20]
    assert env.step(1)[0].tolist() == [20, 22]


def test_a_stack_inside_an_observation_goes_through_to_stack_and_from_stack() -> None:
    class Nested(Walk):
        observation_space = spaces.Dict({"walk": Walk.observation_space})

        def observe(self) -> Any:
            return {"walk": super().observe()}

    machine = Nested()
    pool = ScriptedPool(None, Point(11, stack=[1, 11]))
    env = wrapped(
        pool,
        machine,
        to_stack=lambda obs: obs["walk"],
        from_stack=lambda stack: {"walk": stack},
    )
    env.reset()
    env.step(6)
    assert pool.told[1][:3] == ("offer", 6, [0, 6])
    obs, _ = env.reset()
    assert {name: value.tolist() for name, value in obs.items()} == {"walk": [1, 11]}
    with pytest.raises(ConfigurationError, match=r"Dict.*to_stack and from_stack"):
        wrapped(pool, machine)


# Random state


def test_each_restart_is_reseeded_with_a_fresh_number_that_follows_from_the_seed() -> None:
    def seeds(seed: int | None) -> list[int]:
        found: list[int] = []
        env = wrapped(ScriptedPool(*[Point(10)] * 5), reseed=found.append)
        env.reset(seed=seed)
        for _ in range(4):
            env.reset()
        return found

    first = seeds(5)
    assert len(set(first)) == 5
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in first)
    assert seeds(5) == first
    assert not set(seeds(6)) & set(first)
    assert seeds(None) != seeds(None)
    # Nor are they the numbers that the environment itself draws from that seed.
    assert not set(np.random.default_rng(5).integers(2**31, size=5).tolist()) & set(first)


def test_a_random_state_inside_the_snapshot_repeats_the_episode_unless_it_is_reseeded() -> None:
    class Dice(Walk):
        """Goes as far as a die says, whose state is in the snapshot."""

        def __init__(self) -> None:
            super().__init__()
            self.die = 1

        def step(self, action: Any) -> Any:
            self.die = self.die * 75 % 65537
            return super().step(self.die % 4)

        def save(self) -> bytes:
            return super().save() + self.die.to_bytes(4, "little")

        def load(self, snapshot: bytes) -> None:
            super().load(snapshot[:2])
            self.die = int.from_bytes(snapshot[2:], "little")

        def reseed(self, seed: int) -> None:
            self.die = 1 + seed % 65536

    def episodes(reseed: bool) -> set[tuple[int, ...]]:
        machine = Dice()
        pool = real_pool(max_per_key=1, maximum_values={"room": 1})  # one point
        env = wrapped(pool, machine, reseed=machine.reseed if reseed else None)
        env.reset(seed=0)
        while machine.place < 8:
            env.step(0)
        assert len(pool) == 1
        found = set()
        for _ in range(8):
            _, info = env.reset()
            assert info["restart"]["key"] == (1,)
            found.add(tuple(int(env.step(0)[0][1]) for _ in range(6)))
        return found

    assert len(episodes(reseed=False)) == 1
    assert len(episodes(reseed=True)) == 8


# Options and steps


def test_a_normal_start_can_be_asked_for_and_no_point_is_drawn() -> None:
    pool = ScriptedPool(None, Point(10, serial=1))
    machine = Walk()
    env = wrapped(pool, machine)
    obs, info = env.reset(options={"restart": False})
    assert (obs.tolist(), info) == ([0, 0], {"place": 0})
    assert pool.told == []
    assert machine.options is None
    env.reset(options={"map": "a"})
    assert machine.options == {"map": "a"}
    given = {"restart": False, "map": "b"}
    env.reset(options=given)
    assert machine.options == {"map": "b"}
    assert given == {"restart": False, "map": "b"}
    obs, _ = env.reset(options={"restart": True, "map": "c"})
    assert (obs.tolist(), machine.options) == ([9, 10], {"map": "c"})


@pytest.mark.parametrize("value", [None, 0, 1, "no", np.False_])
def test_a_restart_option_that_is_no_bool_is_refused_and_nothing_is_reset(value: Any) -> None:
    pool = ScriptedPool(Point(10, serial=1))
    env = wrapped(pool)
    env.reset()
    env.step(1)
    with pytest.raises(ConfigurationError, match="False to start normally"):
        env.reset(options={"restart": value})
    assert pool.heard() == []
    assert env.step(1)[0].tolist() == [11, 12]


def test_the_pool_is_asked_at_the_steps_of_all_its_wrappers() -> None:
    pool, other = ScriptedPool(), ScriptedPool()
    one, two, three = wrapped(pool), wrapped(pool), wrapped(other)
    for env in (one, two, three):
        env.reset()
    for env, steps in ((one, 4), (two, 3), (three, 2)):
        for _ in range(steps):
            env.step(0)
    one.close()
    four = wrapped(pool)  # later, and the count goes on
    for env in (two, three, four):
        env.reset()
    assert [event[1] for event in pool.told] == [0, 0, 7, 7]
    assert [event[1] for event in other.told] == [0, 2]


def test_the_step_may_be_counted_by_the_caller() -> None:
    pool = ScriptedPool()
    steps = iter([1_000, 2_000])
    env = wrapped(pool, step=lambda: next(steps))
    env.reset()
    env.step(0)
    env.reset()
    assert pool.told == [("draw", 1_000), ("draw", 2_000)]


def test_a_probability_follows_its_schedule_over_the_steps_taken() -> None:
    pool = real_pool(probability=Schedule.starting(0.0).hold(100).linear(1.0, 0))
    env = wrapped(pool, limit=10)
    restarted = []
    for _ in range(14):
        restarted.append("restart" in env.reset()[1])
        for _ in range(10):
            env.step(1)
    assert restarted == [False] * 10 + [True] * 4


def test_a_wrapper_keeps_no_pool_alive() -> None:
    pool = ScriptedPool()
    gone = weakref.ref(pool)
    wrapped(pool).reset()
    del pool
    gc.collect()
    assert gone() is None


def test_no_step_is_lost_between_threads() -> None:
    pool = ScriptedPool()

    def play() -> None:
        env = wrapped(pool)
        env.reset()
        for _ in range(2_000):
            env.step(0)

    threads = [threading.Thread(target=play) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    env = wrapped(pool)
    env.reset()
    assert pool.told[-1] == ("draw", 16_000)


# What is refused


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"save": b""}, "save is a bytes; it has to be callable"),
        ({"load": None}, "load is a NoneType"),
        ({"markers": None}, "markers is a NoneType"),
        ({"markers": {"room": 1}}, "markers is a dict"),
        ({"restack": 4}, "restack is a int"),
        ({"reseed": 4}, "reseed is a int"),
        ({"step": 0}, "step is a int"),
        ({"to_stack": np.asarray}, "give both or neither"),
        ({"from_stack": np.asarray}, "give both or neither"),
        ({"to_stack": 1, "from_stack": np.asarray}, "to_stack is a int"),
        ({"max_restart_steps": 0}, "max_restart_steps is 0"),
        ({"max_restart_steps": True}, "max_restart_steps is True"),
        ({"max_restart_steps": 2.0}, "max_restart_steps is 2.0"),
    ],
)
def test_a_parameter_that_is_none_is_refused(options: dict[str, Any], pattern: str) -> None:
    machine = Walk()
    given: dict[str, Any] = {"save": machine.save, "load": machine.load} | options
    with pytest.raises(ConfigurationError, match=pattern):
        RestartWrapper(machine, real_pool(), **given)


def test_a_marker_without_a_label_of_the_key_is_the_pools_error() -> None:
    env = wrapped(real_pool(key=["level"]))
    env.reset()
    with pytest.raises(KeyError, match="level"):
        env.step(7)


def test_the_wrapper_is_one_of_gymnasiums() -> None:
    env = wrapped(real_pool())
    assert env.observation_space == Walk.observation_space
    assert isinstance(env.unwrapped, Walk)
    registered = gymnasium.make("CartPole-v1")
    over = RestartWrapper(registered, real_pool(), bytes, lambda snapshot: None)
    assert over.spec is not None and over.spec.id == "CartPole-v1"
    assert str(over).startswith("<RestartWrapper<TimeLimit")
    over.close()


# With a real pool


def test_points_travel_from_one_environment_to_another() -> None:
    pool = real_pool()
    giver, taker = wrapped(pool), wrapped(pool)
    giver.reset()
    for action in (7, 6, 0):  # places 7 and 13
        giver.step(action)
    keys = set()
    for _ in range(20):
        obs, info = taker.reset()
        keys.add(info["restart"]["key"])
        assert obs.tolist() == {(1,): [0, 7], (2,): [7, 13]}[info["restart"]["key"]]
        assert taker.step(1)[0].tolist() == [obs[1], obs[1] + 1]
    assert keys == {(1,), (2,)}
    assert pool.buckets()[(1,)] >= 1


def test_a_dead_end_leaves_the_pool_at_its_third_time_out_and_a_lossy_point_never() -> None:
    class Pit(Walk):
        """Nothing moves from place 13 on, and everything beyond 20 is lost at once."""

        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(
                0 if self.place == 13 else action
            )
            return obs, reward, terminated or self.place >= 20, truncated, info

    pool = real_pool(max_per_key=1, max_timeouts_per_point=3, maximum_values={"place": 13})
    env = wrapped(pool, Pit(), limit=6)
    env.reset(options={"restart": False})
    for action in (7, 6, 0):
        env.step(action)
    assert pool.buckets() == {(1,): 1, (2,): 1}
    met = []
    for _ in range(60):
        _, info = env.reset()
        key = info["restart"]["key"]
        over = False
        while not over:
            # From place 7 over 14 to where it is lost; what is in the pit does not move.
            *_, terminated, truncated, _ = env.step(7)
            over = terminated or truncated
        met.append((key, terminated, truncated))
    assert [end for end in met if end[0] == (2,)] == [((2,), False, True)] * 3
    assert {end for end in met if end[0] != (2,)} == {((1,), True, False)}
    assert pool.buckets() == {(1,): 1}
    assert pool.stats()["dropped_points"] == 1


# Vector environments


Transition = tuple[list[int], int, float, list[int], bool, bool]


def by_hand(draws: Iterable[Point | None], actions: Iterable[int], limit: int) -> list[Any]:
    """One environment's transitions and first observations, worked out in numbers and lists.

    A list of episodes; each is its first observation and its transitions. The last is open.
    """
    draws = iter(draws)
    episodes: list[Any] = []

    def begin() -> tuple[int, int, list[Transition]]:
        point = next(draws, None)
        before, place = (0, 0) if point is None else map(int, point.frame_stack)
        transitions: list[Transition] = []
        episodes.append(([before, place], transitions))
        return before, place, transitions

    before, place, transitions = begin()
    for action in actions:
        after = place + action
        ended, cut = after >= GOAL, len(transitions) + 1 == limit
        transitions.append(([before, place], action, float(after), [place, after], ended, cut))
        before, place = place, after
        if ended or cut:
            before, place, transitions = begin()
    return episodes


SCRIPTS = [
    [None, Point(20, serial=1), Point(26, [3, 26], serial=2), None, Point(11, serial=3)],
    [Point(28, [1, 28], serial=1), Point(29, serial=2), None, Point(29, serial=3)],
    [Point(5, serial=1), Point(29, serial=2), Point(29, serial=3), Point(28, [0, 28], serial=4)],
]
LIMIT = 6


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_in_a_vector_every_transition_is_the_one_worked_out_by_hand(mode: AutoresetMode) -> None:
    n, rng = len(SCRIPTS), np.random.default_rng(1)
    pools = [ScriptedPool(*script) for script in SCRIPTS]
    envs = SyncVectorEnv(
        [partial(wrapped, pool, limit=LIMIT) for pool in pools], autoreset_mode=mode
    )
    recorder = TransitionRecorder(envs)
    obs, infos = envs.reset(seed=0)
    recorder.reset(obs)
    firsts: list[list[list[int]]] = [[row.tolist()] for row in obs]
    restarts = [[int(infos["restart"]["serial"][i]) if infos["_restart"][i] else None]
                for i in range(n)]  # fmt: skip
    rows: list[list[Transition]] = [[] for _ in range(n)]
    for _ in range(45):
        action = rng.integers(0, 8, n)
        obs, *others, infos = envs.step(action)
        step = recorder.record(action, obs, *others, infos)
        ended = step.terminated | step.truncated
        for i in np.flatnonzero(step.mask):
            row = (*(column[i].tolist() for column in step.transition), bool(step.truncated[i]))
            rows[i].append(row)
        begun = ended if mode is AutoresetMode.SAME_STEP else ~step.mask
        if mode is AutoresetMode.DISABLED and ended.any():
            obs, infos = envs.reset(options={"reset_mask": ended})
            recorder.reset(obs, ended)
            begun = ended
        for i in np.flatnonzero(begun):
            firsts[i].append(obs[i].tolist())
            here = "restart" in infos and infos["_restart"][i]
            restarts[i].append(int(infos["restart"]["serial"][i]) if here else None)
    envs.close()
    for i, script in enumerate(SCRIPTS):
        expected = by_hand(script, [row[1] for row in rows[i]], LIMIT)
        assert rows[i] == [row for _, transitions in expected for row in transitions]
        begun = len(firsts[i])
        assert firsts[i] == [first for first, _ in expected][:begun]
        assert len(expected) - begun in (0, 1)  # one may wait for its reset
        serials = [None if point is None else point.serial for point in script]
        assert begun > len(script)  # the script was played to its end
        assert restarts[i] == serials + [None] * (begun - len(script))
        # Every restart was finished once, in order, timed out where its episode was only cut.
        ends = [event[1:3] for event in pools[i].told if event[0] in ("finish", "abandon")]
        assert ends == [
            (serial, not transitions[-1][4])
            for serial, (_, transitions) in zip(serials, expected, strict=False)
            if serial is not None
        ]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_a_pool_shared_in_a_vector_keeps_its_books(mode: AutoresetMode) -> None:
    """Every restarted episode is finished, the open ones are abandoned, and steps add up."""
    pool = real_pool(probability=0.5, max_per_key=4)
    envs = SyncVectorEnv([partial(wrapped, pool, limit=8)] * 4, autoreset_mode=mode)
    recorder = TransitionRecorder(envs)
    recorder.reset(envs.reset(seed=0)[0])
    rng = np.random.default_rng(0)
    taken = 0
    for _ in range(300):
        action = rng.integers(0, 8, 4)
        step = recorder.record(action, *envs.step(action))
        taken += int(step.mask.sum())
        obs, after = step.obs[step.mask], step.next_obs[step.mask]
        assert (after[:, 0] == obs[:, 1]).all()
        assert (after[:, 1] == obs[:, 1] + action[step.mask]).all()
        assert (step.reward[step.mask] == after[:, 1]).all()
        assert (step.terminated[step.mask] == (after[:, 1] >= GOAL)).all()
        ended = step.terminated | step.truncated
        if mode is AutoresetMode.DISABLED and ended.any():
            recorder.reset(envs.reset(options={"reset_mask": ended})[0], ended)
        pool.check()
    envs.close()
    assert len(pool.buckets()) == 5  # rooms 1 to 5: the goal ends an episode


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_the_info_of_an_end_says_where_its_episode_began(mode: AutoresetMode) -> None:
    pools = [ScriptedPool(Point(29, serial=7), Point(3, serial=8)), ScriptedPool()]
    envs = SyncVectorEnv([partial(wrapped, pool) for pool in pools], autoreset_mode=mode)
    envs.reset()
    *_, infos = envs.step(np.array([1, 1]))
    final = infos["final_info"] if mode is AutoresetMode.SAME_STEP else infos
    assert final["restart"]["serial"][0] == 7
    assert final["restart"]["key"][0] == (5,)
    assert final["_restart"].tolist() == [True, False]
    if mode is AutoresetMode.SAME_STEP:  # which already is the next episode
        assert infos["restart"]["serial"][0] == 8
    envs.close()


def test_a_vector_can_be_told_to_start_normally() -> None:
    envs = SyncVectorEnv(
        [partial(wrapped, ScriptedPool(Point(10), Point(15))) for _ in range(2)],
        autoreset_mode=AutoresetMode.DISABLED,
    )
    assert envs.reset()[0].tolist() == [[9, 10]] * 2
    assert envs.reset(options={"restart": False})[0].tolist() == [[0, 0]] * 2
    mask = np.array([True, False])
    obs, _ = envs.reset(options={"restart": True, "reset_mask": mask})
    assert obs.tolist() == [[14, 15], [0, 0]]
    envs.close()


def test_statistics_outside_count_from_the_restart() -> None:
    env = RecordEpisodeStatistics(wrapped(ScriptedPool(Point(27))))
    env.reset()
    for _ in range(3):
        *_, info = env.step(1)
    assert info["episode"]["l"] == 3
    assert info["restart"]["key"] == (5,)


def _own_pool() -> RestartWrapper:
    return wrapped(real_pool(), limit=10)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_in_processes_each_environment_has_its_own_pool() -> None:
    envs = AsyncVectorEnv([_own_pool] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    try:
        _, infos = envs.reset(seed=0)
        assert "restart" not in infos
        began = np.zeros(2, int)
        for _ in range(40):
            # Environment 1 never gets to a marker, and nothing comes to it from its neighbour.
            _, _, _, _, infos = envs.step(np.array([3, 0]))
            if "restart" in infos:
                began += infos["_restart"]
        assert began[0] > 0
        assert began[1] == 0
    finally:
        envs.close()
