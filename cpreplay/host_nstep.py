"""n-step aggregation on NumPy. The contract is `ops.NStepOps`; the device twin ``nstep.cu``.

Pending steps of an environment are a ring of n slots; ages count from its oldest.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.host_inputs import HostInputs
from cpreplay.inputs import refuse_unquantizable
from cpreplay.nstep_state import (
    TRUNCATED,
    check_envs,
    check_state,
    first_step_columns,
    pending_state,
)
from cpreplay.nstep_transitions import NStepTransitions
from cpreplay.schema import TRANSITION, Column

# Infinite rewards, and returns beyond float32, do what they do on a device.
_QUIET: dict[str, Any] = {"over": "ignore", "under": "ignore", "invalid": "ignore"}


class HostNStep:
    """Pending steps in host memory."""

    def __init__(self, columns: Sequence[Column], n: int, n_envs: int, gamma: float) -> None:
        self._columns = columns
        self._n, self._n_envs, self._gamma = n, n_envs, gamma
        # Observations are kept as they are given, also for a buffer that stores codes of them.
        given = [attrs.evolve(column, stored=column.dtype) for column in columns]
        self._given = (*given, TRUNCATED)
        self._quantized = [column for column in columns if column.quantized]
        self._inputs = HostInputs(self._given)
        self._kept = first_step_columns(columns)
        #: Slots of environment 0, then of environment 1, and so on.
        self._pending = {
            column.name: np.zeros((n_envs * n, *column.shape), column.dtype)
            for column in self._kept
        }
        self._base = np.arange(n_envs) * n  # the first slot of each environment
        self._start = np.zeros(n_envs, np.int64)  # the oldest pending step, from there
        self._count = np.zeros(n_envs, np.int64)

    def ingest(
        self, values: Sequence[Any], truncated: Any, mask: Any, single: bool
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_] | None]:
        given = (*values, truncated)
        if single:
            row = zip(self._inputs.row(given), self._given, strict=True)
            arrays = [np.asarray(value, column.dtype)[None] for value, column in row]
            rows = 1
        else:
            arrays, rows = self._inputs.batch(given)
        check_envs(rows, self._n_envs)
        stepped = None if mask is None else self._inputs.mask(mask, rows)[0]
        step = {column.name: array for column, array in zip(self._given, arrays, strict=True)}
        for column in self._quantized:
            values_of_steps = step[column.name] if stepped is None else step[column.name][stepped]
            refuse_unquantizable(values_of_steps, column)
        return step, stepped

    def append(
        self, step: dict[str, NDArray[Any]], stepped: NDArray[np.bool_] | None
    ) -> NStepTransitions:
        slots = self._base + (self._start + self._count) % self._n
        ended = step["terminated"] | step["truncated"]
        if stepped is None:
            for name, pending in self._pending.items():
                pending[slots] = step[name]
            count = self._count + 1
        else:
            ended &= stepped
            for name, pending in self._pending.items():
                pending[slots[stepped]] = step[name][stepped]
            count = self._count + stepped
        full = count == self._n  # which only a step can make it
        complete = np.where(ended, count, full)  # windows of each environment
        env, age = np.nonzero(np.arange(self._n) < complete[:, None])
        transitions = self._windows(step, env, age, count[env] - age)
        moved = full & ~ended
        self._start[...] = np.where(ended, 0, (self._start + moved) % self._n)
        self._count[...] = np.where(ended, 0, count - moved)
        return transitions

    def reset(self, mask: Any) -> None:
        if mask is None:
            self._count[...] = 0
        else:
            self._count[self._inputs.mask(mask, self._n_envs)[0]] = 0

    def counts(self) -> NDArray[np.int64]:
        return self._count.copy()

    def state(self) -> dict[str, Any]:
        return pending_state(self._pending, self._start, self._count, self._n)

    def check_state(self, state: Mapping[str, Any]) -> Callable[[], None]:
        count, columns = check_state(state, self._kept, self._n, self._n_envs)
        for column in self._quantized:
            if column.name in columns:
                refuse_unquantizable(columns[column.name], column)

        def restore() -> None:
            for name, pending in self._pending.items():
                pending[...] = columns[name].reshape(pending.shape)
            self._start[...] = 0
            self._count[...] = count

        return restore

    def _windows(
        self,
        step: dict[str, NDArray[Any]],
        env: NDArray[np.int64],
        age: NDArray[np.int64],
        length: NDArray[np.int64],
    ) -> NStepTransitions:
        """The windows that begin at ``age`` of ``env`` and end with the step just taken."""
        base, first = self._base[env], self._start[env] + age
        rewards = self._pending["reward"]
        terminated = step["terminated"][env]
        reward, discount = window_returns(
            lambda k: rewards[base + (first + k) % self._n], length, terminated, self._gamma
        )
        slots = base + first % self._n
        columns = {name: pending[slots] for name, pending in self._pending.items()}
        return NStepTransitions(
            obs=columns["obs"],
            action=columns["action"],
            reward=reward,
            next_obs=step["next_obs"][env],
            terminated=terminated,
            truncated=step["truncated"][env],
            discount=discount,
            extra={
                column.name: columns[column.name] for column in self._columns[len(TRANSITION) :]
            },
            valid=np.ones(len(env), bool),
        )


def window_returns(
    reward_at: Callable[[int], NDArray[np.float32]],
    length: NDArray[np.int64],
    terminated: NDArray[np.bool_],
    gamma: float,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Discounted return and discount of windows, forward in float64, rounded once.

    ``reward_at(k)`` gives the reward of step k of each window, whatever it is where the window has
    no such step.
    """
    total, factor = np.zeros(len(length)), np.ones(len(length))
    with np.errstate(**_QUIET):
        for k in range(int(length.max(initial=0))):
            inside = length > k
            reward = factor * reward_at(k).astype(np.float64)
            np.add(total, reward, out=total, where=inside)
            np.multiply(factor, gamma, out=factor, where=inside)
        factor[terminated] = 0.0
        return total.astype(np.float32), factor.astype(np.float32)
