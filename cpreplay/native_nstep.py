"""n-step returns in host memory by compiled loops. The contract is `ops.NStepOps`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.host_nstep import HostNStep
from cpreplay.native import compiled
from cpreplay.nstep_transitions import NStepTransitions
from cpreplay.schema import TRANSITION, Column


class NativeNStep(HostNStep):
    """Pending steps in host memory."""

    def __init__(self, columns: Sequence[Column], n: int, n_envs: int, gamma: float) -> None:
        super().__init__(columns, n, n_envs, gamma)
        self._next_obs = next(column for column in columns if column.name == "next_obs")
        kept: list[tuple[Any, int, bool]] = [
            (self._pending[column.name], _row_nbytes(column), column.dtype.kind == "b")
            for column in self._kept
        ]
        kept.append((None, _row_nbytes(self._next_obs), self._next_obs.dtype.kind == "b"))
        self._steps = compiled().Steps(
            n, n_envs, gamma, self._start, self._count, kept, self._pending["reward"]
        )

    def append(
        self, step: dict[str, NDArray[Any]], stepped: NDArray[np.bool_] | None
    ) -> NStepTransitions:
        step = {name: np.ascontiguousarray(values) for name, values in step.items()}
        flags = (step["terminated"], step["truncated"], stepped)
        kept = [column.name for column in self._kept]
        taken = (*(step[name] for name in kept), step["next_obs"])
        while True:  # again where another thread has come in between
            windows = self._steps.count(flags)
            out = {
                column.name: np.empty((windows, *column.shape), column.dtype)
                for column in (*self._kept, self._next_obs)
            }
            discount = np.empty(windows, np.float32)
            terminated, truncated, valid = np.empty((3, windows), bool)
            firsts = [None if name == "reward" else out[name] for name in kept]
            numbers = (out["reward"], discount, terminated, truncated, valid)
            if self._steps.append(flags, taken, (*firsts, out["next_obs"], *numbers)):
                break
        return NStepTransitions(
            obs=out["obs"],
            action=out["action"],
            reward=out["reward"],
            next_obs=out["next_obs"],
            terminated=terminated,
            truncated=truncated,
            discount=discount,
            extra={column.name: out[column.name] for column in self._columns[len(TRANSITION) :]},
            valid=valid,
        )


def _row_nbytes(column: Column) -> int:
    return column.elements * column.dtype.itemsize
