"""Transitions from gymnasium's vector environments, against the same environments stepped by hand.

Each single environment is made, seeded and stepped like the one in the vector; what the recorder
gives has to be its transitions, in each of the autoreset modes.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers.vector import FlattenObservation

import cpreplay
from cpreplay import (
    ConfigurationError,
    DTypeError,
    NStepSampleStep,
    OrderError,
    ReplaySampleStep,
    ShapeError,
)
from cpreplay.gym import RecordedStep, TransitionRecorder
from tests.conftest import Backend

MODES = list(AutoresetMode)
VECTORS = [SyncVectorEnv, AsyncVectorEnv]

# Where processes are forked, Python 3.12 and later warn of threads, which NumPy's libraries have.
FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

Transition = tuple[Any, Any, Any, Any, bool, bool]


class Diary(gymnasium.Env[Any, Any]):
    """Observes (environment, episode, step), and terminates when an episode is old enough.

    Episode e of environment i terminates after ``2 + (i + e) % 4`` steps.
    """

    observation_space = spaces.Box(-1, 1000, (3,), np.float32)
    action_space = spaces.Discrete(100)

    def __init__(self, number: int = 0) -> None:
        self._number, self._episode, self._step = number, -1, 0

    def _observe(self) -> np.ndarray:
        return np.array([self._number, self._episode, self._step], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed)
        self._episode, self._step = self._episode + 1, 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, Any]:
        self._step += 1
        terminated = self._step >= 2 + (self._number + self._episode) % 4
        reward = 100.0 * self._episode + self._step + float(action) / 128
        return self._observe(), reward, terminated, False, {"hint": self._step}


class OtherSpace(Diary):
    """Observes something that is no single array."""

    observation_space = spaces.Dict({"x": spaces.Box(-1, 1, (2,))})


def diary(number: int, limit: int | None = 4) -> gymnasium.Env[Any, Any]:
    """Some episodes end by themselves, some by the clock, and some by both at once."""
    env = Diary(number)
    return env if limit is None else TimeLimit(env, limit)


def cart_pole(number: int) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1", max_episode_steps=15)


@contextmanager
def vector(
    kind: Any, make: Callable[[int], Any], n: int, mode: AutoresetMode, **options: Any
) -> Iterator[Any]:
    envs = kind([partial(make, number) for number in range(n)], autoreset_mode=mode, **options)
    try:
        yield envs
    finally:
        envs.close()


def by_hand(
    make: Callable[[int], Any], mode: AutoresetMode, seed: int, actions: np.ndarray
) -> list[list[Transition | None]]:
    """For each step and environment its transition; None where it was reset instead."""
    steps: list[list[Transition | None]] = [[] for _ in actions]
    for number in range(actions.shape[1]):
        env = make(number)
        obs, _ = env.reset(seed=seed + number)
        over = False
        for step, action in zip(steps, actions[:, number], strict=True):
            if over and mode is AutoresetMode.NEXT_STEP:
                obs, _ = env.reset()
                over = False
                step.append(None)
                continue
            after, reward, terminated, truncated, _ = env.step(action)
            step.append((obs, action, reward, after, terminated, truncated))
            obs, over = after, terminated or truncated
            if over and mode is not AutoresetMode.NEXT_STEP:
                obs, _ = env.reset()
        env.close()
    return steps


def reset_finished(recorder: TransitionRecorder, envs: Any, step: RecordedStep) -> None:
    """What the caller has to do where vectors do not reset by themselves."""
    ended = step.terminated | step.truncated
    if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
        obs, _ = envs.reset(options={"reset_mask": ended})
        recorder.reset(obs, ended)


def record(envs: Any, seed: int, actions: np.ndarray) -> list[RecordedStep]:
    recorder = TransitionRecorder(envs)
    obs, _ = envs.reset(seed=seed)
    recorder.reset(obs)
    steps = []
    for action in actions:
        step = recorder.record(action, *envs.step(action))
        steps.append(step)
        reset_finished(recorder, envs, step)
    return steps


def compare(steps: list[RecordedStep], expected: list[list[Transition | None]]) -> None:
    assert len(steps) == len(expected)
    for time, (step, transitions) in enumerate(zip(steps, expected, strict=True)):
        assert step.mask.dtype == step.terminated.dtype == step.truncated.dtype == np.dtype(bool)
        assert step.mask.tolist() == [t is not None for t in transitions], time
        columns = (*step.transition, step.truncated)
        assert [len(column) for column in columns] == [len(transitions)] * 6
        for number, transition in enumerate(transitions):
            if transition is None:
                continue
            for given, wanted in zip(columns, transition, strict=True):
                assert given[number].tolist() == np.asarray(wanted).tolist(), (time, number)


def actions_of(space: spaces.Discrete, steps: int, n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, space.n, (steps, n))


# Against environments stepped by hand


@FORKS
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize(
    ("kind", "n"),
    [(SyncVectorEnv, 1), (SyncVectorEnv, 2), (SyncVectorEnv, 3), (SyncVectorEnv, 4),
     (AsyncVectorEnv, 1), (AsyncVectorEnv, 3)],
)  # fmt: skip
def test_every_transition_is_that_of_an_environment_stepped_by_hand(
    kind: Any, n: int, mode: AutoresetMode
) -> None:
    actions = actions_of(Diary.action_space, 40, n)
    expected = by_hand(diary, mode, 5, actions)
    # The episodes are such that this test sees every kind of end.
    ends = {t[4:] for step in expected for t in step if t is not None}
    assert n < 3 or ends == {(False, False), (True, False), (False, True), (True, True)}
    with vector(kind, diary, n, mode) as envs:
        compare(record(envs, 5, actions), expected)


@FORKS
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("kind", VECTORS)
def test_cart_poles_transitions_are_those_stepped_by_hand(kind: Any, mode: AutoresetMode) -> None:
    n = 3 if kind is SyncVectorEnv else 2
    actions = actions_of(spaces.Discrete(2), 60, n)
    expected = by_hand(cart_pole, mode, 11, actions)
    ends = {t[4:] for step in expected for t in step if t is not None}
    assert ends >= {(False, False), (True, False), (False, True)}
    with vector(kind, cart_pole, n, mode) as envs:
        compare(record(envs, 11, actions), expected)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_the_same_seeds_and_actions_give_the_same_transitions(mode: AutoresetMode) -> None:
    actions = actions_of(spaces.Discrete(2), 30, 2)
    runs = []
    for seed in (3, 3, 4):
        with vector(SyncVectorEnv, cart_pole, 2, mode) as envs:
            steps = record(envs, seed, actions)
        runs.append([step.obs.tolist() for step in steps])
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_no_transition_goes_across_a_reset(mode: AutoresetMode) -> None:
    with vector(SyncVectorEnv, diary, 4, mode) as envs:
        steps = record(envs, 0, actions_of(Diary.action_space, 50, 4))
    resets = 0
    for step in steps:
        obs, next_obs = step.obs[step.mask], step.next_obs[step.mask]
        assert (obs[:, :2] == next_obs[:, :2]).all()  # of one environment and episode
        assert (obs[:, 2] + 1 == next_obs[:, 2]).all()
        resets += int((~step.mask).sum())
        assert not (step.terminated | step.truncated)[~step.mask].any()
    assert (resets > 0) == (mode is AutoresetMode.NEXT_STEP)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_the_clock_never_ends_the_mdp(mode: AutoresetMode) -> None:
    """Episodes that would end by themselves after 2 to 5 steps are cut after one."""
    with vector(SyncVectorEnv, partial(diary, limit=1), 3, mode) as envs:
        steps = record(envs, 0, actions_of(Diary.action_space, 20, 3))
    for step in steps:
        assert not step.terminated.any()
        assert (step.truncated == step.mask).all()
        assert (step.next_obs[step.mask][:, 2] == 1).all()  # the final observation


def test_a_vector_may_observe_numbers_without_a_shape() -> None:
    class Counter(Diary):
        observation_space = spaces.Discrete(1000)

        def _observe(self) -> Any:
            return np.int64(10 * self._episode + self._step)

    with vector(SyncVectorEnv, lambda number: Counter(number), 2, AutoresetMode.SAME_STEP) as envs:
        steps = record(envs, 0, actions_of(Diary.action_space, 4, 2))
    # Environment 0 ends after 2 steps, then after 3; environment 1 after 3.
    assert [step.obs.tolist() for step in steps] == [[0, 0], [1, 1], [10, 2], [11, 10]]
    assert [step.next_obs.tolist() for step in steps] == [[1, 1], [2, 2], [11, 3], [12, 11]]


# gymnasium's wrappers of whole vectors do without SAME_STEP.
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_a_vector_that_was_flattened_is_recorded(mode: AutoresetMode) -> None:
    """As the error about observations that are no arrays says."""

    class Nested(OtherSpace):
        def _observe(self) -> Any:
            return {"x": np.array([self._episode, self._step], np.float32) / 8}

    with vector(SyncVectorEnv, lambda number: Nested(number), 2, mode) as envs:
        steps = record(FlattenObservation(envs), 0, actions_of(Diary.action_space, 5, 2))
    found = [(step.next_obs[0] * 8).tolist() for step in steps if step.mask[0]]
    assert found[:4] == [[0, 1], [0, 2], [1, 1], [1, 2]]


def test_environments_that_are_one_program_are_recorded() -> None:
    """CartPole as arrays. It ends where the pole or the cart is out of bounds, and only there."""
    envs = gymnasium.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point")
    try:
        steps = record(envs, 2, actions_of(spaces.Discrete(2), 80, 4))
    finally:
        envs.close()
    for step in steps:
        x, angle = step.next_obs[:, 0], step.next_obs[:, 2]
        out = (abs(x) > 2.4) | (abs(angle) > 12 * 2 * np.pi / 360)
        assert (out == step.terminated)[step.mask].all()
        assert (step.obs != step.next_obs).any(axis=1)[step.mask].all()
    for before, after in pairwise(steps):
        assert (after.obs == before.next_obs)[after.mask].all()
        assert (~after.mask == (before.terminated | before.truncated)).all()
    assert sum(step.terminated.sum() for step in steps) > 4


# Into buffers


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_what_is_stored_is_the_transitions_in_order(mode: AutoresetMode, backend: Backend) -> None:
    actions = actions_of(Diary.action_space, 30, 3)
    buffer = backend.buffer(3, (), 200, action_dtype="int64", extra_columns={"truncated": bool})
    block = ReplaySampleStep(buffer, 4)
    block.setup(0)
    with vector(SyncVectorEnv, diary, 3, mode) as envs:
        for step in record(envs, 5, actions):
            block.add_batch(*step.transition, step.truncated, mask=step.mask)
    expected = [t for step in by_hand(diary, mode, 5, actions) for t in step if t is not None]
    assert len(buffer) == len(expected)
    names = ("obs", "action", "reward", "next_obs", "terminated", "truncated")
    for name, values in zip(names, zip(*expected, strict=True), strict=True):
        held = backend.numpy(buffer.column(name))[: len(buffer)]
        wanted = np.asarray(values)
        assert held.tolist() == wanted.astype(held.dtype).tolist(), name


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_n_step_windows_are_those_of_each_episode(mode: AutoresetMode, backend: Backend) -> None:
    n, gamma, envs_count = 3, 0.5, 3
    actions = actions_of(Diary.action_space, 30, envs_count)
    buffer = backend.buffer(3, (), 300, action_dtype="int64", extra_columns={"discount": ()})
    block = NStepSampleStep(ReplaySampleStep(buffer, 4), n, gamma, n_envs=envs_count)
    block.setup(0)
    with vector(SyncVectorEnv, diary, envs_count, mode) as envs:
        for step in record(envs, 5, actions):
            block.add_batch(*step.transition, step.truncated, mask=step.mask)

    expected = set()
    pending = 0
    by_time = by_hand(diary, mode, 5, actions)
    for number in range(envs_count):
        steps = [step[number] for step in by_time if step[number] is not None]
        for first in range(len(steps)):
            window = []
            for step in steps[first : first + n]:
                assert step is not None
                window.append(step)
                if step[4] or step[5]:
                    break
            if len(window) < n and not (window[-1][4] or window[-1][5]):
                pending += 1
                continue
            # All of these are multiples of 1/512, and exact.
            value = sum(gamma**k * step[2] for k, step in enumerate(window))
            discount = 0.0 if window[-1][4] else gamma ** len(window)
            expected.add(
                (*window[0][0].tolist(), int(window[0][1]), value, *window[-1][3].tolist(),
                 bool(window[-1][4]), discount)
            )  # fmt: skip
    size = len(buffer)
    held = [
        backend.numpy(buffer.column(name))[:size]
        for name in ("obs", "action", "reward", "next_obs", "terminated", "discount")
    ]
    rows = [
        (*obs.tolist(), int(action), float(reward), *after.tolist(), bool(done), float(discount))
        for obs, action, reward, after, done, discount in zip(*held, strict=True)
    ]
    assert len(rows) == len(set(rows)) == len(expected)
    assert set(rows) == expected
    assert backend.numpy(block.nstep.pending).sum() == pending > 0


# Copies


@FORKS
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("kind", VECTORS)
def test_what_was_recorded_does_not_change_when_the_vector_reuses_its_arrays(
    kind: Any, mode: AutoresetMode
) -> None:
    actions = actions_of(Diary.action_space, 12, 2)
    expected = by_hand(diary, mode, 5, actions)
    with vector(kind, diary, 2, mode, copy=False) as envs:
        compare(record(envs, 5, actions), expected)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_what_was_recorded_does_not_change_with_the_callers_arrays(mode: AutoresetMode) -> None:
    actions = actions_of(Diary.action_space, 12, 2)
    expected = by_hand(diary, mode, 5, actions)
    with vector(SyncVectorEnv, diary, 2, mode) as envs:
        recorder = TransitionRecorder(envs)
        obs, _ = envs.reset(seed=5)
        recorder.reset(obs)
        obs[...] = -1
        steps = []
        for action in actions.copy():
            obs, reward, terminated, truncated, info = envs.step(action)
            obs, reward = obs.copy(), reward.copy()
            terminated, truncated = terminated.copy(), truncated.copy()
            before = [array.copy() for array in (obs, action, reward, terminated, truncated)]
            step = recorder.record(action, obs, reward, terminated, truncated, info)
            after = (obs, action, reward, terminated, truncated)
            for array, was in zip(after, before, strict=True):
                assert (array == was).all()  # nor are they changed
                array[...] = 1
            steps.append(step)
            ended = step.terminated | step.truncated
            if mode is AutoresetMode.DISABLED and ended.any():
                obs, _ = envs.reset(options={"reset_mask": ended.copy()})
                recorder.reset(obs, ended)
                obs[...] = -1
        compare(steps, expected)


def test_changing_what_was_recorded_does_not_change_what_follows() -> None:
    actions = actions_of(Diary.action_space, 20, 2)
    expected = by_hand(diary, AutoresetMode.NEXT_STEP, 5, actions)
    with vector(SyncVectorEnv, diary, 2, AutoresetMode.NEXT_STEP) as envs:
        recorder = TransitionRecorder(envs)
        recorder.reset(envs.reset(seed=5)[0])
        for action, transitions in zip(actions, expected, strict=True):
            step = recorder.record(action, *envs.step(action))
            compare([step], [transitions])
            for array in (*step.transition, step.truncated, step.mask):
                array[...] = 1


# Resets


def test_a_disabled_vector_is_refused_until_all_that_ended_are_reset() -> None:
    def short(number: int) -> Any:
        return diary(number, limit=1)

    with vector(SyncVectorEnv, short, 3, AutoresetMode.DISABLED) as envs:
        recorder = TransitionRecorder(envs)
        recorder.reset(envs.reset(seed=0)[0])
        result = envs.step(np.zeros(3, int))
        assert recorder.record(np.zeros(3, int), *result).truncated.all()
        with pytest.raises(OrderError, match=r"environments \[0, 1, 2\].*reset_mask"):
            recorder.record(np.zeros(3, int), *result)
        for mask, waiting in (([1, 0, 0], r"\[1, 2\]"), ([0, 0, 1], r"\[1\]")):
            mask = np.array(mask, bool)
            obs, _ = envs.reset(options={"reset_mask": mask.copy()})
            recorder.reset(obs, mask)
            with pytest.raises(OrderError, match=waiting):
                recorder.record(np.zeros(3, int), *result)
        mask = np.array([False, True, False])
        obs, _ = envs.reset(options={"reset_mask": mask.copy()})
        recorder.reset(obs, mask.tolist())  # any kind of bools
        step = recorder.record(np.zeros(3, int), *envs.step(np.zeros(3, int)))
        assert step.obs.tolist() == [[0, 1, 0], [1, 1, 0], [2, 1, 0]]
        assert step.next_obs.tolist() == [[0, 1, 1], [1, 1, 1], [2, 1, 1]]
        assert step.mask.all()


def test_a_reset_of_some_leaves_the_others_where_they_are() -> None:
    with vector(SyncVectorEnv, partial(diary, limit=None), 3, AutoresetMode.DISABLED) as envs:
        recorder = TransitionRecorder(envs)
        recorder.reset(envs.reset(seed=0)[0])
        recorder.record(np.zeros(3, int), *envs.step(np.zeros(3, int)))
        mask = np.array([False, True, False])  # none has ended: it is broken off
        obs, _ = envs.reset(options={"reset_mask": mask.copy()})
        obs[[0, 2]] = -1  # of no meaning
        recorder.reset(obs, mask)
        obs[...] = -1
        step = recorder.record(np.zeros(3, int), *envs.step(np.zeros(3, int)))
        assert step.obs.tolist() == [[0, 0, 1], [1, 1, 0], [2, 0, 1]]


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_a_reset_of_all_begins_anew_in_every_mode(mode: AutoresetMode) -> None:
    with vector(SyncVectorEnv, partial(diary, limit=1), 2, mode) as envs:
        recorder = TransitionRecorder(envs)
        recorder.reset(envs.reset(seed=0)[0])
        recorder.record(np.zeros(2, int), *envs.step(np.zeros(2, int)))  # which ends both
        recorder.reset(envs.reset(seed=0)[0])
        step = recorder.record(np.zeros(2, int), *envs.step(np.zeros(2, int)))
        assert step.mask.all()
        episode = 2 if mode is AutoresetMode.SAME_STEP else 1
        assert step.obs.tolist() == [[0, episode, 0], [1, episode, 0]]
        assert step.next_obs.tolist() == [[0, episode, 1], [1, episode, 1]]


# Refusals


@pytest.fixture
def stub() -> Any:
    """Two environments in mode SAME_STEP, and a recorder of them that has been reset."""

    def make(mode: AutoresetMode = AutoresetMode.SAME_STEP) -> TransitionRecorder:
        with vector(SyncVectorEnv, diary, 2, mode) as envs:
            recorder = TransitionRecorder(envs)
        recorder.reset(np.zeros((2, 3), np.float32))
        return recorder

    return make


def step_of(**changes: Any) -> dict[str, Any]:
    """The arguments of a call of `record`, of two environments."""
    step = {
        "action": np.zeros(2, int),
        "obs": np.ones((2, 3), np.float32),
        "reward": np.zeros(2),
        "terminated": np.zeros(2, bool),
        "truncated": np.zeros(2, bool),
        "info": {},
    }
    return step | changes


def final_of(*finals: Any) -> np.ndarray:
    """Final observations as gymnasium gives them: an array of arrays and None."""
    array = np.empty(len(finals), object)
    array[:] = finals
    return array


def test_record_before_reset_is_refused() -> None:
    with vector(SyncVectorEnv, diary, 2, AutoresetMode.NEXT_STEP) as envs:
        recorder = TransitionRecorder(envs)
        with pytest.raises(OrderError, match="record before reset"):
            recorder.record(**step_of())


def test_a_first_reset_has_to_be_of_all() -> None:
    with vector(SyncVectorEnv, diary, 2, AutoresetMode.DISABLED) as envs:
        recorder = TransitionRecorder(envs)
        with pytest.raises(OrderError, match="all environments"):
            recorder.reset(np.zeros((2, 3)), np.array([True, False]))
        with pytest.raises(OrderError, match="record before reset"):
            recorder.record(**step_of())
        recorder.reset(np.zeros((2, 3)), np.array([True, True]))


def test_observations_that_are_no_single_array_are_refused() -> None:
    with (
        vector(SyncVectorEnv, lambda number: OtherSpace(number), 2, MODES[0]) as envs,
        pytest.raises(ConfigurationError, match=r"Dict.*FlattenObservation"),
    ):
        TransitionRecorder(envs)
    both = spaces.Tuple([Diary.observation_space, Diary.action_space])
    with vector(SyncVectorEnv, diary, 2, MODES[0]) as envs:
        envs.single_observation_space = both
        with pytest.raises(ConfigurationError, match="Tuple"):
            TransitionRecorder(envs)


@pytest.mark.parametrize("metadata", [{}, {"autoreset_mode": None}, {"autoreset_mode": True}])
def test_a_vector_that_does_not_say_how_it_resets_is_refused(metadata: dict[str, Any]) -> None:
    with vector(SyncVectorEnv, diary, 2, MODES[0]) as envs:
        envs.metadata = metadata
        del envs.autoreset_mode
        with pytest.raises(ConfigurationError, match=r"NEXT_STEP, SAME_STEP, DISABLED"):
            TransitionRecorder(envs)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (3, 3), (2, 2), (2, 3, 1), ()])
def test_observations_of_another_shape_are_refused(shape: tuple[int, ...], stub: Any) -> None:
    recorder = stub()
    with pytest.raises(ShapeError, match=r"record.*\(2, 3\)"):
        recorder.record(**step_of(obs=np.ones(shape)))
    with pytest.raises(ShapeError, match=r"reset.*\(2, 3\)"):
        recorder.reset(np.ones(shape))
    assert recorder.record(**step_of()).obs.tolist() == [[0] * 3] * 2  # nothing has moved


@pytest.mark.parametrize("name", ["action", "reward", "terminated", "truncated"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
def test_columns_of_another_number_of_environments_are_refused(
    shape: tuple[int, ...], name: str, stub: Any
) -> None:
    if name == "action" and shape == (2, 2):
        return  # two numbers an action are none of the recorder's business
    recorder = stub()
    with pytest.raises(ShapeError, match=name):
        recorder.record(**step_of(**{name: np.zeros(shape, bool)}))
    assert recorder.record(**step_of()).obs.tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(
    "mask", [[1, 0], [True], [[True, False]], True, [True, False, True], ["a", "b"]]
)
def test_a_reset_mask_that_is_none_is_refused(mask: Any, stub: Any) -> None:
    recorder = stub(AutoresetMode.DISABLED)
    with pytest.raises(ShapeError, match="mask"):
        recorder.reset(np.ones((2, 3)), mask)
    assert recorder.record(**step_of()).obs.tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"final_obs": final_of(None, None)},
        {"final_obs": final_of(np.zeros(3), None)},
        {"final_observation": final_of(None, np.zeros(3))},
    ],
    ids=["no-info", "none", "of-another", "old-name"],
)
def test_an_end_without_its_final_observation_is_refused(info: dict[str, Any], stub: Any) -> None:
    recorder = stub()
    ended = np.array([False, True])
    for name in ("terminated", "truncated"):
        with pytest.raises(ConfigurationError, match=r"environment 1.*final_obs"):
            recorder.record(**step_of(info=info, **{name: ended}))
    # Nothing has moved, and with the final observation the same step is recorded.
    final = {"final_obs": final_of(None, np.full(3, 7, np.float32))}
    step = recorder.record(**step_of(info=final, truncated=ended))
    assert step.obs.tolist() == [[0] * 3] * 2
    assert step.next_obs.tolist() == [[1] * 3, [7] * 3]
    assert recorder.record(**step_of()).obs.tolist() == [[1] * 3] * 2


# Importing


def test_gymnasium_is_imported_only_with_its_module() -> None:
    program = (
        "import sys, cpreplay\n"
        "assert not [name for name in sys.modules if name.startswith('gymnasium')]\n"
        "import cpreplay.gym\n"
        "assert 'gymnasium' in sys.modules\n"
        "print(cpreplay.gym.__all__)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "['RecordedStep', 'RestartWrapper', 'TransitionRecorder']\n"
    assert not set(cpreplay.gym.__all__) & set(cpreplay.__all__)


def test_a_vector_is_asked_itself_where_metadata_is_shared_by_its_class() -> None:
    with vector(SyncVectorEnv, diary, 2, AutoresetMode.SAME_STEP) as envs:
        envs.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # another vector's
        recorder = TransitionRecorder(envs)
        recorder.reset(np.zeros((2, 3), np.float32))
        with pytest.raises(ConfigurationError, match="final_obs"):  # as SAME_STEP wants it
            recorder.record(**step_of(terminated=np.ones(2, bool)))


def test_a_later_reset_has_the_dtype_of_the_first(stub: Any) -> None:
    recorder = stub(AutoresetMode.DISABLED)
    with pytest.raises(DTypeError, match="float64"):
        recorder.reset(np.zeros((2, 3)), np.array([True, False]))


@pytest.mark.parametrize("info", [None, {"final_obs": [None]}, {"final_obs": None}])
def test_an_info_without_final_observations_is_refused(info: Any, stub: Any) -> None:
    with pytest.raises(ConfigurationError, match="final_obs"):
        stub().record(**step_of(terminated=np.ones(2, bool), info=info))


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64"]
)
def test_rewards_may_be_numbers_of_any_kind(dtype: str, stub: Any) -> None:
    step = stub().record(**step_of(reward=np.array([0, 1], dtype)))
    assert (step.reward.dtype, step.reward.tolist()) == (dtype, [0, 1])


@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 3), (2, 2, 2)])
def test_actions_may_have_any_shape_of_their_own(shape: tuple[int, ...], stub: Any) -> None:
    action = np.arange(np.prod(shape)).reshape(shape)
    assert stub().record(**step_of(action=action)).action.tolist() == action.tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("terminated", [0, 1]),
        ("terminated", [0.0, np.nan]),
        ("truncated", [0, 1]),
        ("truncated", ["", "x"]),
        ("truncated", [None, True]),
        ("reward", ["1", "2"]),
        ("reward", [None, 1.0]),
        ("reward", [1j, 2j]),
    ],
)
def test_columns_of_another_kind_are_refused(name: str, value: Any, stub: Any) -> None:
    recorder = stub()
    wanted = "numbers" if name == "reward" else "bool"
    with pytest.raises(DTypeError, match=f"{name} is .*, and {wanted} is wanted"):
        recorder.record(**step_of(**{name: value}))
    assert recorder.record(**step_of()).obs.tolist() == [[0] * 3] * 2


def test_a_final_observation_of_another_shape_is_refused(stub: Any) -> None:
    recorder = stub()
    ended = np.array([False, True])
    for final in (np.zeros(2), np.zeros(1), 5.0, np.zeros((1, 3)), np.zeros((3, 1))):
        info = {"final_obs": final_of(None, final)}
        with pytest.raises(ShapeError, match="final"):
            recorder.record(**step_of(info=info, terminated=ended))
    assert recorder.record(**step_of()).obs.tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("count", [0, 1, 3])
def test_final_observations_of_another_number_of_environments_are_refused(
    count: int, stub: Any
) -> None:
    info = {"final_obs": final_of(*[np.zeros(3)] * count)}
    with pytest.raises(ConfigurationError, match="final_obs"):
        stub().record(**step_of(info=info, terminated=np.array([True, False])))


def test_what_reset_returned_as_a_whole_is_refused(stub: Any) -> None:
    both = (np.zeros((2, 3)), {})
    with pytest.raises(ShapeError, match="reset: obs is a tuple"):
        stub().reset(both)
    with pytest.raises(ShapeError, match="record: obs is a tuple"):
        stub().record(**step_of(obs=both))


def test_the_mode_of_a_wrapped_vector_is_its_own() -> None:
    with vector(SyncVectorEnv, diary, 2, AutoresetMode.DISABLED) as envs:
        envs.metadata = {**envs.metadata, "autoreset_mode": AutoresetMode.NEXT_STEP}
        recorder = TransitionRecorder(gymnasium.vector.VectorWrapper(envs))
        recorder.reset(np.zeros((2, 3), np.float32))
        recorder.record(**step_of(terminated=np.array([True, False])))
        with pytest.raises(OrderError, match="environments \\[0\\] have ended"):
            recorder.record(**step_of())
