"""n-step aggregation by the kernels of ``nstep.cu``. The contract is `ops.NStepOps`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cpreplay.cuda_device import Card, Kernels, blocks_for
from cpreplay.device_inputs import DeviceInputs
from cpreplay.kernel_structs import NSTEP, struct
from cpreplay.nstep_state import (
    TRUNCATED,
    check_envs,
    check_state,
    first_step_columns,
    pending_state,
)
from cpreplay.nstep_transitions import NStepTransitions
from cpreplay.schema import TRANSITION, Column


class DeviceNStep:
    """Pending steps, and the arrays that windows are written to, in the memory of one card."""

    def __init__(
        self, cupy: Any, columns: Sequence[Column], n: int, n_envs: int, gamma: float
    ) -> None:
        self._cupy = cupy
        self._card = Card(cupy)
        self._card.refuse_capture("making an n-step buffer")
        self._kernels = Kernels(self._card)
        self._columns = columns
        self._n, self._n_envs, self._gamma = n, n_envs, gamma
        self._inputs = DeviceInputs(self._card, (*columns, TRUNCATED))
        self._kept = first_step_columns(columns)
        rows = n * n_envs
        self._pending = {
            column.name: cupy.zeros((rows, *column.shape), column.dtype) for column in self._kept
        }
        self._starts = cupy.zeros(n_envs, np.int64)
        self._counts = cupy.zeros(n_envs, np.int64)
        out = {column.name: cupy.zeros((rows, *column.shape), column.dtype) for column in columns}
        self._out = NStepTransitions(
            obs=out["obs"],
            action=out["action"],
            reward=out["reward"],
            next_obs=out["next_obs"],
            terminated=out["terminated"],
            truncated=cupy.zeros(rows, bool),
            discount=cupy.zeros(rows, np.float32),
            extra={column.name: out[column.name] for column in columns[len(TRANSITION) :]},
            valid=cupy.zeros(rows, bool),
        )

    def ingest(
        self, values: Sequence[Any], truncated: Any, mask: Any, single: bool
    ) -> tuple[dict[str, Any], Any]:
        self._card.check_current()
        given = (*values, truncated)
        columns = (*self._columns, TRUNCATED)
        if single:
            arrays = [array[None] for array in self._inputs.row(given)]
            rows = 1
        else:
            arrays, rows = self._inputs.batch(given)
        check_envs(rows, self._n_envs)
        if mask is not None:
            mask, _ = self._inputs.mask(mask, rows)
        names = [column.name for column in columns]
        return dict(zip(names, arrays, strict=True)), mask

    def append(self, step: dict[str, Any], mask: Any) -> NStepTransitions:
        out = self._out
        kept = [
            # The reward of a window is its return, which is written apart.
            _kept(column, self._pending[column.name], step, self._out_column(column.name))
            for column in self._kept
        ]
        next_obs = next(column for column in self._columns if column.name == "next_obs")
        arguments = struct(
            NSTEP, n=self._n, n_envs=self._n_envs, gamma=self._gamma, starts=self._starts,
            counts=self._counts, kept_columns=len(kept), kept=kept,
            next_obs=_kept(next_obs, None, step, out.next_obs),
            rewards=self._pending["reward"], reward=out.reward, discount=out.discount,
            terminated=step["terminated"], truncated=step["truncated"], mask=mask,
            terminated_out=out.terminated, truncated_out=out.truncated, valid=out.valid,
        )  # fmt: skip
        self._kernels.launch("append_steps", (min(self._n_envs, _MAX_BLOCKS),), arguments)
        return out

    def reset(self, mask: Any) -> None:
        self._card.check_current()
        if mask is not None:
            mask, _ = self._inputs.mask(mask, self._n_envs)
        grid = blocks_for(self._n_envs)
        self._kernels.launch("forget_steps", grid, self._counts, np.int64(self._n_envs), mask)

    def counts(self) -> Any:
        return self._counts

    def state(self) -> dict[str, Any]:
        self._card.check_current()
        self._card.refuse_capture("reading pending steps")
        pending = {name: column.get() for name, column in self._pending.items()}
        return pending_state(pending, self._starts.get(), self._counts.get(), self._n)

    def check_state(self, state: Mapping[str, Any]) -> Callable[[], None]:
        count, columns = check_state(state, self._kept, self._n, self._n_envs)
        self._card.check_current()
        self._card.refuse_capture("restoring pending steps")

        def restore() -> None:
            for name, pending in self._pending.items():
                pending.set(np.ascontiguousarray(columns[name]).reshape(pending.shape))
            self._starts.set(np.zeros(self._n_envs, np.int64))
            self._counts.set(np.ascontiguousarray(count))

        return restore

    def _out_column(self, name: str) -> Any:
        if name == "reward":
            return None
        return self._out.extra[name] if name in self._out.extra else getattr(self._out, name)


def _kept(column: Column, pending: Any, step: dict[str, Any], out: Any) -> tuple[Any, ...]:
    """``kept_t``."""
    nbytes = column.elements * column.dtype.itemsize
    return pending, step[column.name], out, nbytes, column.dtype.kind == "b"


# Blocks of an environment each; grids are strided.
_MAX_BLOCKS = 4096
