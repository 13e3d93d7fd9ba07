"""n-step aggregation against whole recorded episodes, on the host and on the device."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpreplay
from cpreplay import ColumnValueError, GPUNStepBuffer, NStepBuffer, errors, host_nstep
from cpreplay.cuda_device import Kernels
from tests.conftest import Backend
from tests.cuda_emulator import emu
from tests.cuda_emulator.fakecupy._simulation import sim
from tests.nstep_model import Recording, Step, Window

OWN = ("obs", "action", "reward", "next_obs", "terminated", "truncated", "discount")


@dataclass(frozen=True)
class Spec:
    """The columns of a buffer, and values for them that tell every step from every other."""

    obs_shape: tuple[int, ...] = ()
    action_shape: tuple[int, ...] = ()
    obs_dtype: str = "float32"
    action_dtype: str = "float32"
    extra: Mapping[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)

    def make(self, backend: Backend, n: int, gamma: float = 0.9, **options: Any) -> Any:
        kind = cpreplay.GPUNStepBuffer if backend.is_device else cpreplay.NStepBuffer
        return kind(
            n,
            self.obs_shape,
            self.action_shape,
            gamma,
            obs_dtype=self.obs_dtype,
            action_dtype=self.action_dtype,
            extra_columns=dict(self.extra),
            **options,
        )

    def forms(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of everything that an n-step buffer gives."""
        return {
            "obs": (self.obs_shape, self.obs_dtype),
            "action": (self.action_shape, self.action_dtype),
            "reward": ((), "float32"),
            "next_obs": (self.obs_shape, self.obs_dtype),
            "terminated": ((), "bool"),
            "truncated": ((), "bool"),
            "discount": ((), "float32"),
            **self.extra,
        }

    def step(
        self, number: int, *, reward: float = 1.0, terminated: bool = False, truncated: bool = False
    ) -> Step:
        def value(role: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
            generator = np.random.default_rng((number, role))
            if dtype == "bool":
                return generator.integers(0, 2, shape).astype(bool)
            if np.dtype(dtype).kind in "iu":
                info = np.iinfo(dtype)
                return np.asarray(generator.integers(info.min, info.max, shape, dtype, True))
            # The first element is the number itself, so that no two steps are alike.
            array = np.asarray(generator.normal(size=shape) * 100).astype(dtype)
            array.flat[0] = number * 4 + role
            return array

        return Step(
            obs=value(0, self.obs_shape, self.obs_dtype),
            action=value(1, self.action_shape, self.action_dtype),
            reward=float(np.float32(reward)),
            next_obs=value(2, self.obs_shape, self.obs_dtype),
            terminated=terminated,
            truncated=truncated,
            extra={name: value(3 + k, *form) for k, (name, form) in enumerate(self.extra.items())},
        )

    def stacked(self, steps: Sequence[Step]) -> dict[str, np.ndarray]:
        """What `append` is given for a step of each environment."""
        given = {
            name: np.array([getattr(step, name) for step in steps], self.forms()[name][1])
            for name in OWN[:-1]
        }
        for name, (_, dtype) in self.extra.items():
            given[name] = np.array([step.extra[name] for step in steps], dtype)
        return given

    def expected(self, windows: Sequence[Window], gamma: float) -> dict[str, np.ndarray]:
        """What an append has to give for these windows."""

        def of(window: Window, name: str) -> Any:
            if name == "reward":
                return window.returned(gamma)
            if name == "discount":
                return window.discount(gamma)
            if name in ("next_obs", "terminated", "truncated"):
                return getattr(window.last, name)
            return window.first.extra[name] if name in self.extra else getattr(window.first, name)

        return {
            name: np.array([of(w, name) for w in windows], dtype).reshape(len(windows), *shape)
            for name, (shape, dtype) in self.forms().items()
        }


NUMBERS = Spec()
SPECS = {
    "numbers": NUMBERS,
    "vectors": Spec((17,), (6,)),
    "pixels": Spec((5, 3), (), "uint8", "int64", {"log_prob": ((), "float32")}),
    "odd widths": Spec((3,), (7,), "uint8", "bool", {"demo": ((), "bool"), "a": ((5,), "int16")}),
    "wide": Spec((4,), (3,), "float64", "uint64", {"h": ((3,), "float16"), "m": ((2, 3), "bool")}),
}


def emitted(backend: Backend, out: Any) -> dict[str, np.ndarray]:
    """The complete rows of what an append gave, as host arrays."""
    valid = backend.numpy(out.valid)
    columns = {name: getattr(out, name) for name in OWN} | out.extra
    return {name: backend.numpy(column)[valid] for name, column in columns.items()}


def assert_same(got: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    """Equal byte for byte, save for the payload of a return or discount that is not a number."""
    assert got.keys() == expected.keys()
    for name, right in expected.items():
        column = got[name]
        assert (column.dtype, column.shape) == (right.dtype, right.shape), name
        if name == "reward":
            nan = np.isnan(right)
            np.testing.assert_array_equal(np.isnan(column), nan)
            column, right = column[~nan], right[~nan]
        if column.tobytes() != right.tobytes():
            np.testing.assert_array_equal(column, right, err_msg=name)
            pytest.fail(f"{name}: equal values of other bytes, {column} and {right}")


def named(*values: Any) -> dict[str, Any]:
    """obs, action, reward, next_obs, terminated, truncated by name."""
    return dict(zip(OWN[:-1], values, strict=True))


def append(backend: Backend, buffer: Any, values: Mapping[str, Any], mask: Any = None) -> Any:
    return emitted(backend, buffer.append(**values, mask=mask))


def play(
    backend: Backend, buffer: Any, spec: Spec, episodes: Sequence[Step]
) -> dict[str, np.ndarray]:
    """Everything that the steps of one environment give."""
    parts = [append(backend, buffer, spec.stacked([step])) for step in episodes]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def episode(rewards: Sequence[float], *, end: str, first: int = 0) -> list[Step]:
    """Observations first, first + 1, ..., of which the last is the final one."""
    last = len(rewards) - 1
    return [
        Step(
            obs=first + k,
            action=first + k,
            reward=reward,
            next_obs=first + k + 1,
            terminated=k == last and end == "terminated",
            truncated=k == last and end == "truncated",
        )
        for k, reward in enumerate(rewards)
    ]


# By hand


def test_a_short_window_is_discounted_by_the_steps_it_has(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 3, 0.9)
    got = play(backend, buffer, NUMBERS, episode([1.0], end="truncated"))
    assert got["discount"].tolist() == [np.float32(0.9)]


def test_the_tail_of_an_episode_is_not_lost(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 3, 0.9)
    got = play(backend, buffer, NUMBERS, episode([1.0, 2.0], end="terminated"))
    assert got["reward"].tolist() == [np.float32(2.8), 2.0]
    assert got["discount"].tolist() == [0.0, 0.0]
    assert got["terminated"].tolist() == [True, True]
    assert got["truncated"].tolist() == [False, False]


def test_a_window_goes_from_its_own_first_to_its_own_last_observation(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 2, 0.9)
    obs, next_obs = np.zeros(1, np.float32), np.zeros(1, np.float32)  # memory that is used again
    firsts = []
    for number in range(4):
        obs[0], next_obs[0] = number, number + 1
        firsts.append(buffer.append(obs, obs, next_obs, next_obs, [False], [False]))
        obs[0] = next_obs[0] = 9
        if number == 1:
            got = emitted(backend, firsts[-1])
            assert (got["obs"].tolist(), got["next_obs"].tolist()) == ([0.0], [2.0])


def test_a_window_of_one_step_has_the_reward_of_that_step(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 1, 0.5)
    steps = episode([3.0, 5.0, 7.0], end="terminated")
    got = play(backend, buffer, NUMBERS, steps)
    assert got["reward"].tolist() == [3.0, 5.0, 7.0]
    assert got["discount"].tolist() == [0.5, 0.5, 0.0]


def test_a_truncated_tail_bootstraps_from_the_final_observation(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 3, 0.5)
    got = play(backend, buffer, NUMBERS, episode([1.0, 1.0, 1.0, 1.0], end="truncated"))
    assert got["obs"].tolist() == [0, 1, 2, 3]
    assert got["next_obs"].tolist() == [3, 4, 4, 4]
    assert got["reward"].tolist() == [1.75, 1.75, 1.5, 1.0]
    assert got["discount"].tolist() == [0.125, 0.125, 0.25, 0.5]
    assert got["truncated"].tolist() == [False, True, True, True]
    assert not got["terminated"].any()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_nothing_of_the_next_episode_is_in_a_window(n: int, backend: Backend) -> None:
    buffer = NUMBERS.make(backend, n, 1.0)
    play(backend, buffer, NUMBERS, episode([0.0, 0.0], end="truncated"))
    got = play(
        backend,
        buffer,
        NUMBERS,
        [
            *episode([1.0, 1.0, 1.0], end="truncated"),
            *episode([100.0] * 6, end="terminated", first=10),
        ],
    )
    early = got["obs"] < 3
    assert early.sum() == 3
    assert (got["next_obs"][early] <= 3).all()
    assert (got["next_obs"][~early] > 10).all()
    assert (got["reward"][early] <= 3).all()
    assert got["next_obs"][early][-1] == 3  # the final observation, not 10
    assert got["discount"][early].tolist() == [1.0] * 3


def test_a_step_that_terminates_and_is_truncated_has_no_next_value(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 3, 0.5)
    both = Step(0, 0, 1.0, 1, terminated=True, truncated=True)
    got = play(backend, buffer, NUMBERS, [both])
    assert got["discount"].tolist() == [0.0]
    assert (got["terminated"].tolist(), got["truncated"].tolist()) == ([True], [True])


@pytest.mark.parametrize(("gamma", "reward", "discount"), [(0.0, 1.0, 0.0), (1.0, 7.0, 1.0)])
def test_the_discount_may_be_zero_or_one(
    gamma: float, reward: float, discount: float, backend: Backend
) -> None:
    buffer = NUMBERS.make(backend, 3, gamma)
    got = play(backend, buffer, NUMBERS, episode([1.0, 2.0, 4.0, 8.0], end="none"))
    assert (got["reward"][0], got["discount"][0]) == (reward, discount)


def test_the_default_discount_is_0_99(backend: Backend) -> None:
    kind = cpreplay.GPUNStepBuffer if backend.is_device else cpreplay.NStepBuffer
    buffer = kind(2, 1, ())
    assert (buffer.n, buffer.n_envs, buffer.gamma) == (2, 1, 0.99)


def test_windows_come_by_environment_and_then_from_the_oldest(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 3, 1.0, n_envs=3)
    for number in range(2):
        numbers = [10 * env + number for env in range(3)]
        buffer.append(numbers, [0] * 3, [0] * 3, numbers, [False] * 3, [False] * 3)
    got = append(
        backend,
        buffer,
        {
            "obs": [2, 12, 22], "action": [0] * 3, "reward": [0] * 3, "next_obs": [3, 13, 23],
            "terminated": [False, False, True], "truncated": [True, False, False],
        },
    )  # fmt: skip
    assert got["obs"].tolist() == [0, 1, 2, 10, 20, 21, 22]
    assert got["next_obs"].tolist() == [3, 3, 3, 13, 23, 23, 23]


# Against whole episodes

IDLE, STEP, TERMINATED, TRUNCATED, BOTH, RESET = range(6)
GAMMAS = [0.0, 0.25, 0.9, 0.97, 0.99, 1.0]

runs = st.integers(1, 5).flatmap(
    lambda n_envs: st.lists(
        st.tuples(
            *[
                st.sampled_from([STEP] * 8 + [IDLE, TERMINATED, TRUNCATED, BOTH, RESET])
                for _ in range(n_envs)
            ]
        ),
        max_size=30,
    ).map(lambda rows: (n_envs, rows))
)
rewards = st.one_of(
    st.floats(-100, 100, width=32, allow_subnormal=False),
    st.sampled_from([0.0, 1e30, -1e30, 3e38, float("inf"), float("-inf"), float("nan")]),
)


def steps_of(
    spec: Spec, codes: Sequence[int], number: int, rewards: Sequence[float]
) -> tuple[list[Step], list[bool]]:
    steps = [
        spec.step(
            number * len(codes) + env,
            # What idle environments are given is nobody's business.
            reward=rewards[(number * len(codes) + env) % len(rewards)] if code else np.nan,
            terminated=code in (IDLE, TERMINATED, BOTH),
            truncated=code in (TRUNCATED, BOTH),
        )
        for env, code in enumerate(codes)
    ]
    return steps, [code != IDLE for code in codes]


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    run=runs,
    n=st.integers(1, 10),
    gamma=st.sampled_from(GAMMAS),
    rewards=st.lists(rewards, min_size=1, max_size=12),
    on_device=st.booleans(),
)
def test_every_step_is_the_first_of_one_window_as_whole_episodes_say(
    spec: str,
    run: tuple[int, list[tuple[int, ...]]],
    n: int,
    gamma: float,
    rewards: list[float],
    on_device: bool,
    backend: Backend,
) -> None:
    n_envs, rows = run
    columns = SPECS[spec]
    buffer = columns.make(backend, n, gamma, n_envs=n_envs)
    recording = Recording(n, gamma, n_envs)
    got = []
    for number, codes in enumerate(rows):
        breaking = [code == RESET for code in codes]
        if any(breaking):
            buffer.reset(None if all(breaking) else breaking)
            recording.reset([env for env, broken in enumerate(breaking) if broken])
        steps, mask = steps_of(columns, codes, number, rewards)
        recording.append({env: step for env, step in enumerate(steps) if mask[env]})
        values: Mapping[str, Any] = columns.stacked(steps)
        if on_device:
            values = {name: backend.array(value) for name, value in values.items()}
        got.append(append(backend, buffer, values, None if all(mask) else mask))
        pending = backend.numpy(buffer.pending)
        assert (pending.dtype, pending.tolist()) == (np.dtype(np.int64), recording.pending())
    windows = recording.windows()
    for number in range(len(rows)):
        now = [window for window in windows if window.appended == number]
        assert_same(got[number], columns.expected(now, gamma))
    if spec in ("numbers", "vectors"):  # whose observations begin with the number of the step
        firsts = [int(obs.flat[0]) // 4 for out in got for obs in out["obs"]]
        assert sorted(firsts) == sorted(
            int(np.asarray(window.first.obs).flat[0]) // 4 for window in windows
        )
        assert len(set(firsts)) == len(firsts)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 10, 23])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_an_episode_of_any_length_gives_a_window_for_each_of_its_steps(
    n: int, length: int, end: str
) -> None:
    backend = Backend("host")
    buffer = NUMBERS.make(backend, n, 0.99)
    for first in (0, 100):
        got = play(backend, buffer, NUMBERS, episode([1.0] * length, end=end, first=first))
        assert got["obs"].tolist() == [first + k for k in range(length)]
        assert got["next_obs"].tolist() == [first + min(k + n, length) for k in range(length)]
        assert buffer.pending.tolist() == [0]


def forward(rewards: Sequence[float], gamma: float) -> np.float32:
    window = Window(0, 0, tuple(Step(0, 0, reward, 0, False, False) for reward in rewards))
    return window.returned(gamma)


def backward(rewards: Sequence[float], gamma: float) -> np.float32:
    total = 0.0
    for reward in reversed(rewards):
        total = reward + gamma * total
    return np.float32(total)


def fused(rewards: Sequence[float], gamma: float) -> np.float32:
    total, discount = 0.0, 1.0
    for reward in rewards:
        total = float(Fraction(total) + Fraction(discount) * Fraction(reward))
        discount *= gamma
    return np.float32(total)


def single(rewards: Sequence[float], gamma: float) -> np.float32:
    total, discount = np.float32(0), np.float32(1)
    for reward in rewards:
        total = total + discount * np.float32(reward)
        discount = discount * np.float32(gamma)
    return total


def powers(rewards: Sequence[float], gamma: float) -> np.float32:
    total = 0.0
    for k, reward in enumerate(rewards):
        total += gamma**k * reward
    return np.float32(total)


def test_a_return_is_summed_forward_in_float64_without_a_fused_operation(backend: Backend) -> None:
    # Rewards that nearly cancel: what is left of them is what was rounded on the way.
    envs, n, gamma = 32, 6, 0.9
    generator = np.random.default_rng(5)
    rewards = generator.normal(size=(n, envs)).astype(np.float32)
    before = sum(gamma**k * rewards[k].astype(np.float64) for k in range(n - 1))
    rewards[n - 1] = -before / gamma ** (n - 1)
    rewards[n - 2] += (-before - gamma ** (n - 1) * rewards[n - 1]) / gamma ** (n - 2)
    buffer = NUMBERS.make(backend, n, gamma, n_envs=envs)
    zeros, no = np.zeros(envs, np.float32), np.zeros(envs, bool)
    for k in range(n):
        out = append(backend, buffer, named(zeros, zeros, rewards[k], zeros, no, no))
    columns = rewards.T.astype(np.float64).tolist()
    expected = [forward(column, gamma) for column in columns]
    for other in (backward, fused, single, powers):
        assert [other(column, gamma) for column in columns] != expected, other
    assert out["reward"].tolist() == expected


def test_a_reward_is_rounded_to_float32_before_it_is_discounted(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 2, 0.5)
    reward = 16777217.0  # the first whole number that float32 does not have
    got = play(backend, buffer, NUMBERS, episode([reward, 2.0 * reward], end="terminated"))
    buffer.append(0.0, 0.0, reward, 0.0, False, False)
    out = emitted(backend, buffer.append(0.0, 0.0, -2.0 * 16777216.0, 0.0, False, True))
    assert out["reward"].tolist() == [0.0, -33554432.0]
    assert got["reward"].tolist() == [33554432.0, 33554432.0]


# Host and device


def both(device: Backend, spec: Spec, n: int, gamma: float, n_envs: int) -> Any:
    """A function that appends to a host and a device buffer, and compares what they give."""
    host = Backend("host")
    buffers = [spec.make(backend, n, gamma, n_envs=n_envs) for backend in (host, device)]

    def step(values: Mapping[str, Any], mask: Any = None) -> dict[str, np.ndarray]:
        with np.errstate(all="raise"):
            right = append(host, buffers[0], values, mask)
        assert_same(append(device, buffers[1], values, mask), right)
        return right

    return step


EXTREME = [np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-37, 0.0, -0.0, 1.0]


def test_infinite_and_huge_rewards_give_the_same_on_host_and_device(device: Backend) -> None:
    step = both(device, NUMBERS, 3, 0.9, len(EXTREME))
    envs = len(EXTREME)
    zeros, no = np.zeros(envs, np.float32), np.zeros(envs, bool)
    seen = []
    for shift in (0, 1, 3, 4, 4, 7, 2):
        reward = np.roll(np.array(EXTREME, np.float32), shift)
        ends = np.roll(np.arange(envs) == 0, shift)
        values = (zeros, zeros, reward, zeros, no, ends)
        seen.append(step(named(*values))["reward"])
    every = np.concatenate(seen)
    assert np.isposinf(every).any()
    assert np.isneginf(every).any()
    assert np.isnan(every).any()


def test_a_return_beyond_float32_is_infinite(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 2, 1.0)
    with np.errstate(all="raise"):
        got = play(backend, buffer, NUMBERS, episode([3e38, 3e38, -3e38], end="truncated"))
    # The sum itself is kept in float64, where it does not overflow: 3e38 - 3e38 is 0 after all.
    assert got["reward"].tolist() == [np.inf, 0.0, np.float32(-3e38)]


@pytest.mark.parametrize("gamma", [1e-30, 1e-200])
def test_what_is_too_small_for_a_float_becomes_zero_without_an_error(
    gamma: float, backend: Backend
) -> None:
    buffer = NUMBERS.make(backend, 3, gamma)
    with np.errstate(all="raise"):
        got = play(backend, buffer, NUMBERS, episode([0.0, 1e-30, 0.0, 0.0], end="truncated"))
    assert got["reward"].tolist() == [0.0, np.float32(1e-30), 0.0, 0.0]
    assert got["discount"].tolist() == [0.0, 0.0, 0.0, np.float32(gamma)]


@pytest.mark.parametrize(
    ("gamma", "given"),
    [(0.5, [1e-40, 1e-40]), (0.5, [1.2e-38, -1.2e-38]), (1e-20, [1.0, 1.0]), (1e-20, [0.0, 1e-25])],
    ids=["a reward", "a sum", "a discount", "a product"],
)
def test_what_float32_has_only_as_subnormal_is_the_same_on_host_and_device(
    gamma: float, given: list[float], device: Backend
) -> None:
    step = both(device, NUMBERS, 2, gamma, 1)
    for number, reward in enumerate(given):
        one = episode([reward], end="truncated" if number else "none")
        step(NUMBERS.stacked(one))


def test_thousands_of_environments_step_together(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emu.config, "mode", "fast")
    envs, n, gamma = 4_100, 3, 0.9  # more than there are blocks of a launch
    spec = Spec((), (), "int32", "uint8")
    buffer = spec.make(backend, n, gamma, n_envs=envs)
    env = np.arange(envs)
    got = []
    for number in range(4):
        ends = (env + number) % 4 == 0
        out = buffer.append(
            backend.array(10 * env + number, np.int32),
            backend.array(env % 251, np.uint8),
            backend.array((env + number) % 7, np.float32),
            backend.array(10 * env + number + 1, np.int32),
            backend.array(ends & (env % 8 < 4)),
            backend.array(ends & (env % 8 >= 4)),
            mask=backend.array((env + number) % 5 > 0),
        )
        got.append(emitted(backend, out))
    recordings = {}
    for which in (0, 1, 2, 3, 5, 1000, 4094, 4095, 4096, 4099):
        recording = recordings[which] = Recording(n, gamma, 1)
        for number in range(4):
            ends = (which + number) % 4 == 0
            step = Step(
                10 * which + number, which % 251, float((which + number) % 7),
                10 * which + number + 1, ends and which % 8 < 4, ends and which % 8 >= 4,
            )  # fmt: skip
            recording.append([step] if (which + number) % 5 > 0 else {})
    for number, out in enumerate(got):
        assert (np.diff(out["obs"]) > 0).all()  # by environment, then age
        for which, recording in recordings.items():
            mine = out["obs"] // 10 == which
            right = spec.expected(recording.windows_of(number), gamma)
            assert_same({name: column[mine] for name, column in out.items()}, right)


@pytest.mark.parametrize("shape", [(1, 1), (2, 7), (3, 64), (9, 300)])
def test_any_launch_shape_gives_the_same_windows(
    shape: tuple[int, int], device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = []

    def launch(kernels: Kernels, name: str, grid: Any, *args: Any, threads: int = 0) -> None:
        launched.append(name)
        kernels._kernels[name]((shape[0],), (shape[1],), args)

    monkeypatch.setattr(Kernels, "launch", launch)
    spec, envs, n, gamma = SPECS["pixels"], 4, 3, 0.9
    buffer, recording = spec.make(device, n, gamma, n_envs=envs), Recording(n, gamma, envs)
    generator = np.random.default_rng(1)
    for number in range(12):
        codes = generator.choice([STEP, STEP, STEP, IDLE, TRUNCATED, TERMINATED], envs)
        if number == 6:
            buffer.reset([True, False, False, True])
            recording.reset([0, 3])
        steps, mask = steps_of(spec, codes.tolist(), number, [1.0, 2.5, -3.0])
        recording.append({env: step for env, step in enumerate(steps) if mask[env]})
        got = append(device, buffer, spec.stacked(steps), mask)
        assert_same(got, spec.expected(recording.windows_of(number), gamma))
    assert launched.count("append_steps") == 12
    assert launched.count("forget_steps") == 1


# Windows of one step

DTYPES = [
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "float32", "float64",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_of_one_step_pass_transitions_through(dtype: str, backend: Backend) -> None:
    spec = Spec((3,), (), dtype, dtype, {"one": ((), dtype), "few": ((5,), dtype)})
    buffer = spec.make(backend, 1, 0.75, n_envs=4)
    steps = [
        spec.step(number, reward=number - 1.5, terminated=number == 2, truncated=number == 1)
        for number in range(4)
    ]
    given = spec.stacked(steps)
    if dtype.startswith("float"):
        given["obs"][0] = [np.nan, np.inf, -0.0]
    got = append(backend, buffer, given)
    assert got.pop("discount").tolist() == [0.75, 0.75, 0.0, 0.75]
    assert_same(got, {name: given[name] for name in got})
    assert backend.numpy(buffer.pending).tolist() == [0] * 4


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8, 12, 16, 48, 257, 1000])
def test_rows_of_any_width_are_copied_whole(width: int, backend: Backend) -> None:
    spec = Spec((width,), (width,), "uint8", "uint8", {"w": ((width,), "uint8")})
    buffer, recording = spec.make(backend, 2, n_envs=2), Recording(2, 0.9, 2)
    for number in range(3):
        steps = [spec.step(2 * number + env, truncated=number == 2) for env in range(2)]
        recording.append(steps)
        got = append(backend, buffer, spec.stacked(steps))
        assert_same(got, spec.expected(recording.windows_of(number), 0.9))


@pytest.mark.parametrize("offset", [1, 2, 3, 4, 8, 16])
def test_arrays_may_begin_anywhere_in_memory(offset: int, backend: Backend) -> None:
    spec = Spec((32,), (16,), "uint8", "uint8", {"w": ((48,), "uint8")})
    buffer, recording = spec.make(backend, 2, n_envs=2), Recording(2, 0.9, 2)
    for number in range(3):
        steps = [spec.step(2 * number + env, truncated=number == 2) for env in range(2)]
        recording.append(steps)
        given: dict[str, Any] = spec.stacked(steps)
        for name in ("obs", "action", "next_obs", "w"):
            bytes_ = np.concatenate([np.zeros(offset, np.uint8), given[name].reshape(-1)])
            given[name] = backend.array(bytes_)[offset:].reshape(given[name].shape)
        got = append(backend, buffer, given)
        assert_same(got, spec.expected(recording.windows_of(number), 0.9))


def test_a_buffer_may_have_as_many_columns_as_a_replay_buffer(backend: Backend) -> None:
    spec = Spec(extra={f"extra_{k}": ((), "float32") for k in range(27)})
    buffer, recording = spec.make(backend, 2), Recording(2, 0.9, 1)
    for number in range(3):
        step = spec.step(number)
        recording.append([step])
        got = append(backend, buffer, spec.stacked([step]))
        assert_same(got, spec.expected(recording.windows_of(number), 0.9))


# How steps are given


def test_one_environment_may_leave_its_axis_out(backend: Backend) -> None:
    spec = SPECS["pixels"]
    with_axis, without = (spec.make(backend, 3) for _ in range(2))
    for number in range(9):
        step = spec.step(number, reward=number, truncated=number == 4)
        stacked = spec.stacked([step])
        bare = {name: value[0] for name, value in stacked.items()}
        mask = None if number % 3 else number != 6
        right = append(backend, with_axis, stacked, None if mask is None else [mask])
        assert_same(append(backend, without, bare, mask), right)
    given = {name: backend.array(value[0]) for name, value in stacked.items()}
    right = append(backend, with_axis, stacked, backend.array([True]))
    assert_same(append(backend, without, given, backend.array(True)), right)


def test_plain_numbers_and_lists_are_taken(backend: Backend) -> None:
    buffer = Spec((2,), (), "float32", "int64").make(backend, 2, 0.5)
    buffer.append([1, 2], 3, 1, [4, 5], False, False)
    got = emitted(backend, buffer.append([4, 5], 6, 2.0, [7, 8], 1, truncated=0))
    assert got["obs"].tolist() == [[1, 2], [4, 5]]
    assert got["next_obs"].tolist() == [[7, 8], [7, 8]]
    assert got["action"].tolist() == [3, 6]
    assert got["reward"].tolist() == [2.0, 2.0]


class OnlyDLPack:
    """An array of a library that NumPy and CuPy know nothing else of."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("n_envs", [1, 2])
def test_arrays_that_offer_dlpack_alone_are_taken(n_envs: int, backend: Backend) -> None:
    spec = Spec((2,), (), "float32", "int64")
    buffer = spec.make(backend, 1, n_envs=n_envs)
    given = spec.stacked([spec.step(number) for number in range(n_envs)])
    wrapped = {name: OnlyDLPack(backend.array(value)) for name, value in given.items()}
    got = append(backend, buffer, wrapped)
    assert_same({name: got[name] for name in given}, given)


def test_any_byte_but_zero_is_true(backend: Backend) -> None:
    spec = Spec((), (), extra={"demo": ((), "bool")})
    buffer = spec.make(backend, 2, n_envs=3)
    codes = backend.array([0, 2, 255], np.uint8).view(bool)
    zeros = backend.array(np.zeros(3, np.float32))
    got = append(
        backend,
        buffer,
        {
            "obs": zeros, "action": zeros, "reward": zeros, "next_obs": zeros,
            "terminated": codes, "truncated": codes, "demo": codes,
        },
    )  # fmt: skip
    for name in ("terminated", "truncated", "demo"):
        assert got[name].view(np.uint8).tolist() == [1, 1], name
    assert backend.numpy(buffer.pending).tolist() == [1, 0, 0]


def test_what_idle_environments_are_given_is_ignored(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 3, 1.0, n_envs=2)
    no = [False, False]
    buffer.append([0, 10], [0, 0], [1, 1], [1, 11], no, no)
    for flags in ((True, False), (False, True), (True, True)):
        out = buffer.append(
            [np.nan, 11], [np.nan, 0], [np.nan, 1], [np.nan, 12],
            [flags[0], False], [flags[1], False], mask=[False, False],
        )  # fmt: skip
        assert not backend.numpy(out.valid).any()
    assert backend.numpy(buffer.pending).tolist() == [1, 1]
    got = append(
        backend,
        buffer,
        named([1, 11], [0, 0], [2, 2], [2, 12], [True, True], no),
        mask=[True, False],
    )
    assert got["obs"].tolist() == [0, 1]
    assert got["reward"].tolist() == [3.0, 2.0]
    assert backend.numpy(buffer.pending).tolist() == [0, 1]


# Memory


def test_what_is_given_is_copied(backend: Backend) -> None:
    spec = SPECS["pixels"]
    buffer, recording = spec.make(backend, 3, n_envs=2), Recording(3, 0.9, 2)
    given = {
        name: backend.array(value)
        for name, value in spec.stacked([spec.step(0), spec.step(0)]).items()
    }
    for number in range(7):
        steps = [spec.step(2 * number + env, terminated=number == 5) for env in range(2)]
        recording.append(steps)
        for name, value in spec.stacked(steps).items():
            given[name][...] = backend.array(value)
        out = buffer.append(**given)
        for array in given.values():
            array[...] = backend.array(np.ones(array.shape), array.dtype)
        got = emitted(backend, out)
        assert_same(got, spec.expected(recording.windows_of(number), 0.9))


def test_what_is_given_is_not_changed(backend: Backend) -> None:
    spec = SPECS["pixels"]
    buffer = spec.make(backend, 2)
    for number in range(3):
        given = spec.stacked([spec.step(number, truncated=number == 2)])
        before = {name: value.tobytes() for name, value in given.items()}
        arrays = {name: backend.array(value) for name, value in given.items()}
        append(backend, buffer, arrays, backend.array([True]))
        for name, array in arrays.items():
            assert backend.numpy(array).tobytes() == before[name]


def arrays_of(out: Any) -> dict[str, Any]:
    return {name: getattr(out, name) for name in (*OWN, "valid")} | out.extra


@pytest.mark.parametrize("n", [1, 2])
def test_the_host_gives_fresh_arrays(n: int) -> None:
    spec, host = SPECS["pixels"], Backend("host")
    buffer = spec.make(host, n, n_envs=2)
    seen: list[Any] = []
    for number in range(4):
        given = spec.stacked([spec.step(2 * number + env) for env in range(2)])
        out = arrays_of(buffer.append(**given))
        inside = [*given.values(), *buffer._ops._pending.values(), *seen]
        for one, other in itertools.product(out.values(), inside):
            assert not np.shares_memory(one, other)
        for one, other in itertools.combinations(out.values(), 2):
            assert not np.shares_memory(one, other)
        assert all(array.flags.writeable and array.flags.c_contiguous for array in out.values())
        seen += list(out.values())


def test_the_host_gives_complete_windows_alone() -> None:
    buffer = NUMBERS.make(Backend("host"), 3, n_envs=2)
    lengths = []
    for number in range(6):
        out = buffer.append([0, 0], [0, 0], [0, 0], [0, 0], [number == 4, False], [False, False])
        assert out.valid.dtype == bool
        assert out.valid.all()
        assert len(out) == len(out.valid) == len(out.obs)
        lengths.append(len(out))
    assert lengths == [0, 0, 2, 2, 4, 1]


def test_the_device_gives_the_same_arrays_every_time(device: Backend) -> None:
    spec = SPECS["pixels"]
    buffer = spec.make(device, 3, n_envs=2)
    seen = set()
    for number in range(5):
        out = buffer.append(**spec.stacked([spec.step(number), spec.step(number)]))
        assert len(out) == 6
        for name, array in arrays_of(out).items():
            shape = spec.forms()[name][0] if name != "valid" else ()
            assert array.shape == (6, *shape)
        seen.add(tuple(device.address(array) for array in arrays_of(out).values()))
    assert len(seen) == 1
    assert len(set(*seen)) == len(arrays_of(out))


def test_the_host_counts_pending_steps_in_a_copy() -> None:
    buffer = NUMBERS.make(Backend("host"), 3)
    before = buffer.pending
    before[...] = 9
    buffer.append(0, 0, 0, 0, False, False)
    assert buffer.pending.tolist() == [1]
    assert before.tolist() == [9]


# Resets


def test_a_reset_forgets_the_environments_it_names(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 3, 1.0, n_envs=3)
    no = [False] * 3
    for number in range(4):  # so that the pending steps have wrapped
        numbers = [number, 10 + number, 20 + number]
        buffer.append(numbers, numbers, [1] * 3, numbers, no, no)
    buffer.reset([True, False, True])
    assert backend.numpy(buffer.pending).tolist() == [0, 2, 0]
    got = append(
        backend,
        buffer,
        named([4, 14, 24], [0] * 3, [1] * 3, [5, 15, 25], no, [True, True, False]),
    )
    assert got["obs"].tolist() == [4, 12, 13, 14]
    assert got["reward"].tolist() == [1, 3, 2, 1]
    buffer.reset(backend.array([False, True, False]))
    assert backend.numpy(buffer.pending).tolist() == [0, 0, 1]
    buffer.reset()
    assert backend.numpy(buffer.pending).tolist() == [0, 0, 0]
    got = append(
        backend,
        buffer,
        named([5] * 3, [0] * 3, [1] * 3, [6] * 3, no, [True] * 3),
    )
    assert got["reward"].tolist() == [1.0] * 3


def test_a_reset_names_each_environment(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 3, n_envs=3)
    buffer.append([0] * 3, [0] * 3, [0] * 3, [0] * 3, [False] * 3, [False] * 3)
    for mask in ([True, False], [True] * 4, True, [[True] * 3]):
        with pytest.raises(errors.ShapeError, match="mask"):
            buffer.reset(mask)
    with pytest.raises(errors.DTypeError, match="bool"):
        buffer.reset([0.5, 1.0, 0.0])
    assert backend.numpy(buffer.pending).tolist() == [1, 1, 1]


# State

STATE_SPEC = Spec((2,), (), "uint8", "int64", {"log_prob": ((), "float32"), "demo": ((), "bool")})
STATE_ENVS, STATE_N = 3, 4


def started(backend: Backend) -> tuple[Any, list[list[Step]]]:
    """A buffer in the middle of episodes, whose pending steps are also returned, oldest first."""
    buffer = STATE_SPEC.make(backend, STATE_N, 0.9, n_envs=STATE_ENVS)
    taken: list[list[Step]] = [[] for _ in range(STATE_ENVS)]
    for number in range(6):
        steps = [
            STATE_SPEC.step(
                3 * number + env, reward=number + env, truncated=(number, env) == (4, 1)
            )
            for env in range(STATE_ENVS)
        ]
        mask = [True, True, number < 2]
        buffer.append(**STATE_SPEC.stacked(steps), mask=mask)
        for env, step in enumerate(steps):
            if mask[env]:
                taken[env].append(step)
    # Environment 0 has had six steps and keeps three, 1 has had one since its end, 2 has two.
    return buffer, [taken[0][-3:], taken[1][-1:], taken[2][-2:]]


def rest(backend: Backend, buffer: Any) -> list[dict[str, np.ndarray]]:
    """What a buffer gives from here on."""
    out = []
    for number in range(10, 16):
        steps = [
            STATE_SPEC.step(3 * number + env, reward=number - env, terminated=number == 12 + env)
            for env in range(STATE_ENVS)
        ]
        out.append(append(backend, buffer, STATE_SPEC.stacked(steps)))
    return out


def test_a_state_has_the_pending_steps_from_the_oldest(backend: Backend) -> None:
    buffer, pending = started(backend)
    state = buffer.state()
    assert set(state) == {"pending", "obs", "action", "reward", "log_prob", "demo"}
    assert all(type(value) is np.ndarray for value in state.values())
    assert (state["pending"].dtype, state["pending"].tolist()) == (np.dtype(np.int64), [3, 1, 2])
    for env, steps in enumerate(pending):
        stacked = STATE_SPEC.stacked(steps)
        for name in set(state) - {"pending"}:
            assert state[name].shape[:2] == (STATE_ENVS, STATE_N)
            right = stacked[name]
            assert state[name].dtype == right.dtype
            np.testing.assert_array_equal(state[name][env, : len(steps)], right)
            assert not state[name][env, len(steps) :].any()


@pytest.mark.parametrize("source", ["host", "device"])
@pytest.mark.parametrize("target", ["host", "device"])
def test_a_state_moves_between_host_and_device(source: str, target: str, device: Backend) -> None:
    kinds = {"host": Backend("host"), "device": device}
    original, _ = started(kinds[source])
    state = original.state()
    before = {name: value.copy() for name, value in state.items()}
    copies = [STATE_SPEC.make(kinds[target], STATE_N, 0.9, n_envs=STATE_ENVS) for _ in range(2)]
    copies[1].append(**STATE_SPEC.stacked([STATE_SPEC.step(number) for number in range(3)]))
    for copy in copies:
        copy.restore(state)
        assert_same(copy.state(), before)
    right = rest(kinds[source], original)
    for copy in copies:
        for got, expected in zip(rest(kinds[target], copy), right, strict=True):
            assert_same(got, expected)
    assert_same(state, before)  # and the state itself was only read


def test_a_state_is_a_copy(backend: Backend) -> None:
    buffer, _ = started(backend)
    twin, _ = started(backend)
    for value in buffer.state().values():
        value[...] = 0
    state = buffer.state()
    buffer.restore(state)
    for value in state.values():
        value[...] = 0
    for got, expected in zip(rest(backend, buffer), rest(backend, twin), strict=True):
        assert_same(got, expected)


@pytest.mark.parametrize("item", ["pending", "obs", "action", "reward", "log_prob", "demo"])
def test_every_item_of_a_state_matters(item: str, backend: Backend) -> None:
    buffer, _ = started(backend)
    state = buffer.state()
    right = rest(backend, buffer)
    changed = dict(state)
    value = state[item]
    changed[item] = ~value if value.dtype == bool else np.zeros_like(value)
    buffer.reset()
    buffer.restore(changed)
    got = rest(backend, buffer)
    assert any(
        a[name].tobytes() != b[name].tobytes()
        for a, b in zip(got, right, strict=True)
        for name in a
    )


FOREIGN: dict[str, Callable[[dict[str, np.ndarray]], Any]] = {
    "an item missing": lambda state: {k: v for k, v in state.items() if k != "reward"},
    "an item more": lambda state: {**state, "next_obs": state["obs"]},
    "nothing": lambda state: {},
    "another dtype": lambda state: {**state, "obs": state["obs"].astype(np.int16)},
    "another n": lambda state: {
        k: v if k == "pending" else np.concatenate([v, v[:, :1]], 1) for k, v in state.items()
    },
    "another n_envs": lambda state: {k: v[:2] for k, v in state.items()},
    "another shape": lambda state: {**state, "obs": state["obs"][:, :, :1]},
    "counts as int32": lambda state: {**state, "pending": state["pending"].astype(np.int32)},
    "a count of n": lambda state: {**state, "pending": np.array([STATE_N, 0, 0])},
    "a negative count": lambda state: {**state, "pending": np.array([0, -1, 0])},
}


@pytest.mark.parametrize("change", FOREIGN)
def test_a_foreign_state_is_refused_and_changes_nothing(change: str, backend: Backend) -> None:
    buffer, _ = started(backend)
    twin, _ = started(backend)
    with pytest.raises(errors.ConfigurationError, match="restore"):
        buffer.restore(FOREIGN[change](buffer.state()))
    for got, expected in zip(rest(backend, buffer), rest(backend, twin), strict=True):
        assert_same(got, expected)


def test_a_state_of_windows_of_one_step_is_empty(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 1)
    buffer.append(3, 3, 3, 3, False, False)
    state = buffer.state()
    assert state["pending"].tolist() == [0]
    assert not state["obs"].any()
    buffer.restore(state)


# Refusals

GOOD = {
    "obs": [[1, 2]] * 3, "action": [0] * 3, "reward": [0.0] * 3, "next_obs": [[1, 2]] * 3,
    "terminated": [False] * 3, "truncated": [False] * 3, "log_prob": [0.0] * 3,
    "demo": [False] * 3,
}  # fmt: skip

REFUSED: dict[str, tuple[dict[str, Any], type[errors.ReplayError], str]] = {
    "too few rows": (
        {name: value[:2] for name, value in GOOD.items()}, errors.ShapeError, "3 environments",
    ),
    "too many rows": (
        {name: value + value[:1] for name, value in GOOD.items()}, errors.ShapeError, "4 rows",
    ),
    "no rows": (
        {name: np.zeros((0, 2) if "obs" in name else 0, bool if name in (
            "terminated", "truncated", "demo") else np.uint8) for name in GOOD},
        errors.ShapeError, "0 rows",
    ),
    "one step for all": (
        {name: value[0] for name, value in GOOD.items()}, errors.ShapeError, "obs",
    ),
    "unequal rows": ({"reward": [0.0] * 2}, errors.ShapeError, "reward"),
    "unequal truncated": ({"truncated": [False] * 2}, errors.ShapeError, "truncated"),
    "another width": ({"next_obs": [[1, 2, 3]] * 3}, errors.ShapeError, "next_obs"),
    "another extra width": ({"demo": [[True]] * 3}, errors.ShapeError, "demo"),
    "a float action": ({"action": [0.5] * 3}, errors.DTypeError, "action"),
    "a float truncated": ({"truncated": [0.5] * 3}, errors.DTypeError, "truncated"),
    "a code too large": ({"obs": [[1, 256]] * 3}, errors.ColumnValueError, "obs"),
    "a huge reward": ({"reward": [1e39] * 3}, errors.ColumnValueError, "reward"),
    "a mask too short": ({"mask": [True] * 2}, errors.ShapeError, "mask"),
    "a mask of floats": ({"mask": [0.5] * 3}, errors.DTypeError, "mask"),
    "an extra missing": ({"demo": ...}, errors.ColumnNameError, "demo"),
    "an extra more": ({"other": [0.0] * 3}, errors.ColumnNameError, "other"),
    "a discount": ({"discount": [0.0] * 3}, errors.ColumnNameError, "discount"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_step_changes_nothing(case: str, backend: Backend) -> None:
    changed, error, part = REFUSED[case]
    buffer, _ = started(backend)
    twin, _ = started(backend)
    given = {name: value for name, value in (GOOD | changed).items() if value is not ...}
    with pytest.raises(error) as caught:
        buffer.append(**given)
    assert part in str(caught.value)
    for got, expected in zip(rest(backend, buffer), rest(backend, twin), strict=True):
        assert_same(got, expected)


def test_the_good_step_of_the_refusals_is_taken(backend: Backend) -> None:
    buffer, _ = started(backend)
    buffer.append(**GOOD)
    assert backend.numpy(buffer.pending).tolist() == [3, 2, 3]


def test_a_truncated_step_has_to_say_so(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 2)
    with pytest.raises(TypeError, match="truncated"):
        buffer.append(0, 0, 0, 0, False)
    assert backend.numpy(buffer.pending).tolist() == [0]


def test_rewards_that_are_not_numbers_are_taken(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 2, 0.5)
    with np.errstate(all="raise"):
        steps = episode([np.nan, 1.0, 2.0, 3.0], end="terminated")
        got = play(backend, buffer, NUMBERS, steps)
    assert np.isnan(got["reward"]).tolist() == [True, False, False, False]
    assert got["reward"][1:].tolist() == [2.0, 3.5, 3.0]


@pytest.mark.parametrize("name", ["n", "n_envs"])
@pytest.mark.parametrize("value", [0, -1, True, 2.0, None, "3", 2**31])
def test_counts_have_bounds(name: str, value: Any, backend: Backend) -> None:
    options = {"n": 2, "n_envs": 1} | {name: value}
    with pytest.raises(errors.ConfigurationError, match=f"^{name}="):
        NUMBERS.make(backend, options["n"], n_envs=options["n_envs"])


@pytest.mark.parametrize(
    "gamma", [-0.1, 1.0000001, np.nan, np.inf, True, None, "0.9", np.array([0.9])]
)
def test_the_discount_has_bounds(gamma: Any, backend: Backend) -> None:
    with pytest.raises(errors.ConfigurationError, match="gamma="):
        NUMBERS.make(backend, 2, gamma)


def test_numbers_of_numpy_are_numbers(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, np.int64(2), np.float32(0.5), n_envs=np.uint8(3))
    assert (buffer.n, buffer.gamma, buffer.n_envs) == (2, 0.5, 3)
    assert [type(value) for value in (buffer.n, buffer.gamma, buffer.n_envs)] == [int, float, int]


@pytest.mark.parametrize("name", [*OWN, "valid", "pending", "mask", "out", "self", "extra"])
def test_names_that_a_call_uses_name_no_extra_column(name: str, backend: Backend) -> None:
    with pytest.raises(errors.ConfigurationError, match=name):
        Spec(extra={name: ((), "float32")}).make(backend, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"obs_dtype": "complex64"}, {"action_dtype": object}, {"extra_columns": {"a b": ()}},
        {"extra_columns": ["a"]}, {"extra_columns": {f"e{k}": () for k in range(28)}},
    ],
)  # fmt: skip
def test_columns_that_cannot_be_are_refused(options: dict[str, Any], backend: Backend) -> None:
    kind = cpreplay.GPUNStepBuffer if backend.is_device else cpreplay.NStepBuffer
    with pytest.raises(errors.ConfigurationError):
        kind(2, 3, 1, **options)


def test_a_host_buffer_takes_no_device_and_a_device_buffer_takes_one(device: Backend) -> None:
    with pytest.raises(TypeError, match="device"):
        cpreplay.NStepBuffer(2, 1, 1, device=0)
    assert cpreplay.GPUNStepBuffer(2, 1, 1, device=0).n == 2
    for number in (7, -1, True, "0"):
        with pytest.raises(errors.ConfigurationError, match="device="):
            cpreplay.GPUNStepBuffer(2, 1, 1, device=number)


def test_nothing_but_state_waits_for_the_device(emulated_device: Backend) -> None:
    spec = SPECS["pixels"]
    buffer = spec.make(emulated_device, 3, n_envs=2)
    with sim.recording() as record:
        for number in range(3):
            buffer.append(**spec.stacked([spec.step(number), spec.step(number)]), mask=[1, 0])
        buffer.reset([True, False])
        buffer.reset()
        _ = buffer.pending
    assert record.d2h_copies == record.synchronisations == 0
    assert record.launch_names == ["append_steps"] * 3 + ["forget_steps"] * 2
    with sim.recording() as record:
        buffer.state()
    assert record.d2h_copies > 0


def test_a_thousand_steps_wrap_the_pending_ring_many_times() -> None:
    host = Backend("host")
    generator = np.random.default_rng(3)
    buffer, recording = NUMBERS.make(host, 7, 0.95), Recording(7, 0.95, 1)
    got = []
    for number in range(1000):
        step = NUMBERS.step(
            number, reward=generator.normal(), truncated=bool(generator.random() < 0.01)
        )
        recording.append([step])
        got.append(append(host, buffer, NUMBERS.stacked([step])))
    every = {name: np.concatenate([out[name] for out in got]) for name in got[0]}
    assert_same(every, NUMBERS.expected(recording.windows(), 0.95))


def test_pending_steps_that_can_never_fit_are_refused(backend: Backend) -> None:
    kind = cpreplay.GPUNStepBuffer if backend.is_device else cpreplay.NStepBuffer
    with pytest.raises(errors.MemoryLimitError, match=r"n=1048576 and n_envs=1048576 need .*TiB"):
        kind(2**20, 100, 1, n_envs=2**20)


def test_what_is_held_for_good_is_what_has_to_fit(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Eight pending steps of obs (12 bytes), action (4) and reward (4); on a card also eight windows
    # of those, next_obs (12), discount (4), terminated, truncated and valid (1 each).
    needed = 8 * (20 + 39) if backend.is_device else 8 * 20
    kind = cpreplay.GPUNStepBuffer if backend.is_device else cpreplay.NStepBuffer
    for there in (needed, needed - 1):
        monkeypatch.setattr("cpreplay.nstep.host_memory", lambda there=there: there)
        monkeypatch.setattr("cpreplay.nstep.device_memory", lambda _, there=there: there)
        if there == needed:
            kind(4, 3, 1, n_envs=2)
            continue
        with pytest.raises(errors.MemoryLimitError, match=f"need at least {needed} bytes"):
            kind(4, 3, 1, n_envs=2)


def test_a_mask_of_one_environment_may_be_a_single_bool(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 3)
    for mask in (True, np.True_, [True], backend.array([True])):
        before = backend.numpy(buffer.pending).tolist()
        buffer.append(1, 1, 1.0, 2, False, False, mask=mask)
        buffer.append(1, 1, 1.0, 2, False, False, mask=False)
        assert backend.numpy(buffer.pending).tolist() == [min(before[0] + 1, 2)]
    with pytest.raises(errors.ShapeError, match="mask"):
        buffer.append(1, 1, 1.0, 2, False, False, mask=[True, False])
    buffer.reset(True)
    assert backend.numpy(buffer.pending).tolist() == [0]


@pytest.mark.parametrize("state", [None, [1], "state", {1: 2, None: 3}])
def test_what_is_no_state_is_not_restored(state: Any, backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 3)
    buffer.append(1, 1, 1.0, 2, False, False)
    with pytest.raises(errors.ConfigurationError, match="restore"):
        buffer.restore(state)
    assert backend.numpy(buffer.pending).tolist() == [1]


def test_a_host_buffer_restores_no_observation_that_the_ring_behind_refuses() -> None:
    plain = cpreplay.NStepBuffer(3, 2, 1)
    plain.append([5.0, 0.0], [0.0], 1.0, [0.0, 0.0], False, False)
    quantized = cpreplay.NStepBuffer(3, 2, 1, obs_store_dtype="uint8")
    with pytest.raises(errors.ColumnValueError, match="obs"):
        quantized.restore(plain.state())
    assert quantized.pending.tolist() == [0]


def test_what_a_masked_environment_gives_is_not_held_against_a_quantized_ring() -> None:
    buffer = cpreplay.NStepBuffer(1, 1, (), n_envs=2, obs_store_dtype="uint8")
    obs = np.array([[0.5], [7.0]], np.float32)
    zeros, flags = np.zeros(2, np.float32), np.zeros(2, bool)
    out = buffer.append(obs, zeros, zeros, obs, flags, flags, mask=[True, False])
    assert out.obs.tolist() == [[0.5]]
    with pytest.raises(errors.ColumnValueError, match="obs"):
        buffer.append(obs, zeros, zeros, obs, flags, flags)


@pytest.mark.parametrize("width", [1, 255, 256, 257, 1000])
def test_rows_of_booleans_of_any_width_are_copied_whole(width: int, backend: Backend) -> None:
    spec = Spec((width,), (), "bool", "float32", {"w": ((width,), "bool")})
    buffer, recording = spec.make(backend, 2, n_envs=2), Recording(2, 0.9, 2)
    for number in range(3):
        steps = [spec.step(2 * number + env, truncated=number == 2) for env in range(2)]
        recording.append(steps)
        got = append(backend, buffer, spec.stacked(steps))
        assert_same(got, spec.expected(recording.windows_of(number), 0.9))


def test_a_return_of_minus_zeros_is_zero(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 2)
    got = play(backend, buffer, NUMBERS, episode([-0.0, -0.0], end="truncated"))
    assert got["reward"].view(np.uint32).tolist() == [0, 0]


def test_rows_are_copied_in_the_widest_words_that_fit(emulated_device: Backend) -> None:
    if emu.config.mode != "check":
        pytest.skip("accesses are counted in mode check")

    def accesses(nbytes: int) -> int:
        steps = GPUNStepBuffer(1, nbytes, (), obs_dtype="uint8")
        row = np.zeros((1, nbytes), np.uint8)
        with sim.recording() as record:
            steps.append(row, [0], [0], row, [False], [False])
            emulated_device.cupy.cuda.Device().synchronize()
        return sum(count for _, count in record.ran)

    assert len({accesses(11 * word) for word in (1, 2, 4, 8, 16)}) == 1  # each 11 words


def test_any_byte_but_zero_of_a_mask_is_true(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 4, n_envs=3)
    zeros, no = np.zeros(3, np.float32), np.zeros(3, bool)
    mask = backend.array([0, 2, 255], np.uint8).view(bool)
    append(backend, buffer, named(zeros, zeros, zeros, zeros, no, no), mask)
    assert backend.numpy(buffer.pending).tolist() == [0, 1, 1]
    append(backend, buffer, named(zeros, zeros, zeros, zeros, no, no))
    buffer.reset(mask)
    assert backend.numpy(buffer.pending).tolist() == [1, 0, 0]


def test_plain_numbers_take_the_columns_dtypes(backend: Backend) -> None:
    buffer = NUMBERS.make(backend, 1)
    got = emitted(backend, buffer.append(1, 2, 3, 4, 0, truncated=1))
    for name, (shape, dtype) in NUMBERS.forms().items():
        assert (got[name].dtype, got[name].shape) == (dtype, (1, *shape)), name
    assert [got[name].tolist() for name in ("obs", "action", "reward", "next_obs")] == [
        [1],
        [2],
        [3],
        [4],
    ]


def test_a_step_that_was_broken_off_was_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPREPLAY_HOST", "numpy")  # compiled loops are never broken off
    buffer = NStepBuffer(2, (), ())

    def refuse(*_: Any) -> None:
        raise MemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(host_nstep, "window_returns", refuse)
        with pytest.raises(MemoryError):
            buffer.append(0.0, 0.0, 1.0, 1.0, False, False)
    assert buffer.pending.tolist() == [0]
    buffer.append(5.0, 0.0, 1.0, 6.0, False, False)
    assert buffer.append(6.0, 0.0, 1.0, 7.0, False, False).obs.tolist() == [5.0]


def test_a_state_of_pixels_is_restored_unless_codes_do_not_have_it() -> None:
    def make() -> NStepBuffer:
        return NStepBuffer(3, (2,), (), obs_store_dtype="uint8")

    buffer, other = make(), make()
    buffer.append([0.0, 1.0], 0.0, 1.0, [1.0, 0.5], False, False)
    state = buffer.state()
    state["obs"][0, 0, 1] = 1.5
    with pytest.raises(ColumnValueError, match="obs"):
        other.restore(state)
    assert other.pending.tolist() == [0]
    other.restore(buffer.state())
    assert other.state()["obs"].tolist() == buffer.state()["obs"].tolist()


def test_a_state_may_hold_lists_of_the_right_numbers(backend: Backend) -> None:
    buffer, other = NUMBERS.make(backend, 3), NUMBERS.make(backend, 3)
    play(backend, buffer, NUMBERS, episode([1.0, 2.0], end="none"))
    state = buffer.state()
    with pytest.raises(errors.ConfigurationError, match="obs is float64"):
        other.restore({**state, "obs": state["obs"].tolist()})
    other.restore({**state, "pending": state["pending"].tolist()})
    assert backend.numpy(other.pending).tolist() == [2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {**state, "reward": state["reward"].reshape(3, 2)}, r"reward .* \(3, 2\)"),
        (lambda state: {**state, "obs": state["obs"].reshape(6)}, r"obs .* \(6,\)"),
        (
            lambda state: {**state, "pending": state["pending"].reshape(2, 1)},
            r"pending .* \(2, 1\)",
        ),
        (lambda state: {**state, "pending": state["pending"] + 3}, r"pending .* \[0, 3\)"),
    ],
)
def test_a_state_of_other_shapes_or_counts_is_refused(
    change: Any, message: str, backend: Backend
) -> None:
    buffer = NUMBERS.make(backend, 3, n_envs=2)
    with pytest.raises(errors.ConfigurationError, match=message):
        buffer.restore(change(buffer.state()))
    assert backend.numpy(buffer.pending).tolist() == [0, 0]


def test_an_n_step_buffer_works_on_its_own_card_alone(emulated_device: Backend) -> None:
    sim.device_count = 2
    second = GPUNStepBuffer(2, (), (), device=1)
    elsewhere = [emulated_device.array(value, np.float32) for value in (0, 0, 0, 0)]
    state = NStepBuffer(2, (), ()).state()
    calls = [
        lambda: second.append(0.0, 0.0, 0.0, 0.0, False, False),
        lambda: second.append(*elsewhere, False, False),
        lambda: second.reset(),
        lambda: second.reset([True]),
        lambda: second.state(),
        lambda: second.restore(state),
    ]
    with sim.recording() as record:
        for call in calls:
            with pytest.raises(cpreplay.ConfigurationError, match="device 1, and device 0 is curr"):
                call()
    assert record.launch_names == []
    assert record.h2d_copies == record.d2h_copies == 0
    with emulated_device.cupy.cuda.Device(1):
        second.append(0.0, 0.0, 0.0, 0.0, False, False)
        assert second.state()["pending"].tolist() == [1]


@pytest.mark.parametrize("name", ["discount", "truncated", "valid", "pending"])
def test_an_extra_column_that_an_n_step_buffer_has_itself_is_named(
    name: str, backend: Backend
) -> None:
    with pytest.raises(errors.ConfigurationError, match=f"extra_columns: '{name}' is one of"):
        Spec(extra={name: ((), "float32")}).make(backend, 2)


def test_transitions_are_compared_by_identity_and_cannot_be_changed() -> None:
    buffer = NStepBuffer(1, (), ())
    one, other = (buffer.append(0.0, 0.0, 1.0, 1.0, False, False) for _ in range(2))
    assert one != other
    assert len({one, other, one}) == 2
    with pytest.raises(AttributeError):
        one.obs = other.obs


def test_a_dtype_that_no_buffer_stores_is_refused(backend: Backend) -> None:
    kind = GPUNStepBuffer if backend.is_device else NStepBuffer
    with pytest.raises(errors.ConfigurationError, match="obs_store_dtype"):
        kind(2, (), (), obs_store_dtype="int8")
