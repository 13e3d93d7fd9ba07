"""n-step aggregation on NumPy. The contract is `ops.NStepOps`; the device twin ``nstep.cu``.

Pending steps of an environment are a ring of n slots; ages count from its oldest.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.host_inputs import HostInputs
from cpreplay.nstep_state import TRUNCATED, check_envs, check_state, first_step_columns
from cpreplay.nstep_transitions import NStepTransitions
from cpreplay.schema import TRANSITION, Column

# Infinite rewards, and returns beyond float32, do what they do on a device.
_QUIET = np.errstate(over="ignore", under="ignore", invalid="ignore")


class HostNStep:
    """Pending steps in host memory."""

    def __init__(self, columns: Sequence[Column], n: int, n_envs: int, gamma: float) -> None:
        self._columns = columns
        self._n, self._n_envs, self._gamma = n, n_envs, gamma
        self._inputs = HostInputs((*columns, TRUNCATED))
        self._kept = first_step_columns(columns)
        self._pending = {
            column.name: np.zeros((n_envs, n, *column.shape), column.dtype) for column in self._kept
        }
        self._start = np.zeros(n_envs, np.int64)  # the slot of the oldest pending step
        self._count = np.zeros(n_envs, np.int64)

    def ingest(
        self, values: Sequence[Any], truncated: Any, mask: Any, single: bool
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        given = (*values, truncated)
        if single:
            row = self._inputs.row(given)
            dtypes = [column.dtype for column in (*self._columns, TRUNCATED)]
            arrays = [np.asarray(x, dtype)[None] for x, dtype in zip(row, dtypes, strict=True)]
            rows = 1
            mask = mask if mask is None else np.reshape(mask, 1)
        else:
            arrays, rows = self._inputs.batch(given)
        check_envs(rows, self._n_envs)
        stepped = np.ones(rows, bool) if mask is None else self._inputs.mask(mask, rows)[0]
        names = [column.name for column in (*self._columns, TRUNCATED)]
        return dict(zip(names, arrays, strict=True)), stepped

    @_QUIET
    def append(self, step: dict[str, NDArray[Any]], stepped: NDArray[np.bool_]) -> NStepTransitions:
        envs = np.flatnonzero(stepped)
        slots = (self._start[envs] + self._count[envs]) % self._n
        for name, pending in self._pending.items():
            pending[envs, slots] = step[name][envs]
        count = self._count + stepped
        ended = (step["terminated"] | step["truncated"]) & stepped
        full = (count == self._n) & stepped
        complete = np.where(ended, count, full)  # windows of each environment
        env, age = np.nonzero(np.arange(self._n) < complete[:, None])
        transitions = self._windows(step, env, age, count[env] - age)
        moved = full & ~ended
        self._start = np.where(ended, 0, (self._start + moved) % self._n)
        self._count = np.where(ended, 0, count - moved)
        return transitions

    def reset(self, mask: Any) -> None:
        if mask is None:
            self._count[...] = 0
        else:
            self._count[self._inputs.mask(mask, self._n_envs)[0]] = 0

    def counts(self) -> NDArray[np.int64]:
        return self._count.copy()

    def state(self) -> dict[str, Any]:
        env = np.arange(self._n_envs)[:, None]
        age = np.arange(self._n)
        slots = (self._start[:, None] + age) % self._n
        state: dict[str, Any] = {"pending": self.counts()}
        for name, pending in self._pending.items():
            state[name] = pending[env, slots]
            state[name][age >= self._count[:, None]] = 0
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        count, columns = check_state(state, self._kept, self._n, self._n_envs)
        for name, pending in self._pending.items():
            pending[...] = columns[name]
        self._start[...] = 0
        self._count[...] = count

    def _windows(
        self,
        step: dict[str, NDArray[Any]],
        env: NDArray[np.int64],
        age: NDArray[np.int64],
        length: NDArray[np.int64],
    ) -> NStepTransitions:
        """The windows that begin at ``age`` of ``env`` and end with the step just taken."""
        first = (self._start[env] + age) % self._n
        reward, discount = self._returns(env, first, length)
        terminated = step["terminated"][env]
        discount[terminated] = 0.0
        columns = {name: pending[env, first] for name, pending in self._pending.items()}
        return NStepTransitions(
            obs=columns["obs"],
            action=columns["action"],
            reward=reward.astype(np.float32),
            next_obs=step["next_obs"][env],
            terminated=terminated,
            truncated=step["truncated"][env],
            discount=discount.astype(np.float32),
            extra={
                column.name: columns[column.name] for column in self._columns[len(TRANSITION) :]
            },
            valid=np.ones(len(env), bool),
        )

    def _returns(
        self, env: NDArray[np.int64], first: NDArray[np.int64], length: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Discounted return and gamma**m of each window, forward in float64."""
        total, discount = np.zeros(len(env)), np.ones(len(env))
        rewards = self._pending["reward"]
        for k in range(int(length.max(initial=0))):
            inside = length > k
            reward = rewards[env, (first + k) % self._n].astype(np.float64)
            np.multiply(discount, reward, out=reward)
            np.add(total, reward, out=total, where=inside)
            np.multiply(discount, self._gamma, out=discount, where=inside)
        return total, discount
