"""Demonstrations into a replay buffer, as its pinned prefix."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.demos.file import read_demo_file
from cpreplay.demos.record import DemoSet
from cpreplay.errors import (
    ColumnValueError,
    ConfigurationError,
    DemoFileError,
    OrderError,
    ShapeError,
)
from cpreplay.host_nstep import window_returns
from cpreplay.inputs import integer_limits, refuse_unquantizable
from cpreplay.nstep_steps import NStepSampleStep
from cpreplay.nstep_transitions import NStepTransitions
from cpreplay.replay import StoreReplay, StoreReplayGpu
from cpreplay.schema import TRANSITION, Column
from cpreplay.steps import ReplaySampleStep

Source = str | os.PathLike[str] | DemoSet
Target = ReplaySampleStep | NStepSampleStep | StoreReplay | StoreReplayGpu


@attrs.frozen(kw_only=True)
class DemoLoadReport:
    """What was loaded."""

    #: Rows that were added and pinned.
    rows: int
    #: Rows in the files.
    file_rows: int
    #: Mean reward of a row that was added, as filed.
    mean_reward: float


def load_demos_into_replay(
    block_or_buffer: Target,
    paths: Source | Iterable[Source],
    filter: Callable[[DemoSet], Any] | None = None,
    *,
    batch_size: int | None = None,
) -> DemoLoadReport:
    """Add the demonstrations of some files to an empty buffer, and pin them.

    Parameters
    ----------
    block_or_buffer : sample block or buffer
        A block has to be set up. Behind an `NStepSampleStep` the demonstrations are stored as
        n-step transitions too; where the filter leaves rows out, a window ends.
    paths : path-like or DemoSet, or several of them
        ``.demo`` files, or sets that were recorded or read, in order.
    filter : callable, optional
        Of a `DemoSet`, gives bool[rows]: which rows are kept. `DemoFilter` has the usual ones.
    batch_size : int, optional
        Of a bare buffer, as in ``pin_demo_prefix``; a block knows its own.

    Returns
    -------
    DemoLoadReport

    Raises
    ------
    DemoFileError
        A file is damaged, or the filter keeps no row.
    ShapeError
        The files' observations or actions have another width than the buffer's.
    ColumnValueError, DTypeError
        Values that the buffer's columns do not hold, also on a card: fractions in a column of
        integers, or observations outside [0, 1] where they are stored as uint8.
    OrderError
        The buffer holds rows already, a block is not set up, or a prefix cannot be pinned here.
    ConfigurationError
        The buffer has extra columns, or no room for the rows and one minibatch beside them.

    Notes
    -----
    Everything is checked before the first row is added: an error leaves the buffer as it was.
    """
    paths = [paths] if isinstance(paths, str | os.PathLike | DemoSet) else list(paths)
    sets = [path if isinstance(path, DemoSet) else read_demo_file(path) for path in paths]
    kept = [_kept_rows(path, demos, filter) for path, demos in zip(paths, sets, strict=True)]
    if not sum(len(part) for part, _ in kept):
        raise DemoFileError(
            f"load_demos_into_replay: of {sum(map(len, sets))} rows in {len(sets)} files none is "
            "left; look at the filter, and at the files, which have no episode that was not ended"
        )
    target = _Target(block_or_buffer, batch_size)
    target.check(sets, sum(len(part) for part, _ in kept))
    rows: NDArray[Any] = np.concatenate([part for part, _ in kept])
    target.add(rows, np.concatenate([part for _, part in kept]))
    return DemoLoadReport(
        rows=len(rows),
        file_rows=sum(map(len, sets)),
        mean_reward=float(rows["reward"].mean(dtype=np.float64)),
    )


def _kept_rows(
    path: Any, demos: DemoSet, keep: Callable[[DemoSet], Any] | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The rows that a filter keeps, and which of them are the last before a gap or an end."""
    rows = demos.rows
    kept = np.ones(len(rows), bool) if keep is None else np.asarray(keep(demos))
    if kept.shape != (len(rows),) or kept.dtype != np.dtype(bool):
        raise ConfigurationError(
            f"filter: it gave {kept.dtype} of shape {kept.shape} for {path}, and bool of shape "
            f"({len(rows)},) is wanted"
        )
    goes_on = np.zeros(len(rows), bool)  # whether the next row is kept and of the same episode
    goes_on[:-1] = kept[1:]
    goes_on &= rows["done"] == 0.0
    episodes = demos.episodes
    goes_on[(episodes["start"] + episodes["length"] - 1).astype(np.int64)] = False
    return rows[kept], ~goes_on[kept]


class _Target:
    """A buffer, with the block in front of it where there is one."""

    def __init__(self, given: Target, batch_size: int | None) -> None:
        self._nstep = given if isinstance(given, NStepSampleStep) else None
        block = given.block if isinstance(given, NStepSampleStep) else given
        if isinstance(block, ReplaySampleStep):
            if batch_size is not None:
                raise ConfigurationError("batch_size: a block has its own; leave it out")
            self._block: ReplaySampleStep | None = block
            self._buffer = block.buffer
            self._batch_size: int | None = block.batch_size
        elif isinstance(block, StoreReplay | StoreReplayGpu):
            self._block, self._buffer, self._batch_size = None, block, batch_size
        else:
            raise ConfigurationError(
                f"block_or_buffer is a {type(given).__name__}; give a sample block or a buffer"
            )

    def check(self, sets: Sequence[DemoSet], rows: int) -> None:
        """Raise where so many rows could not be added and pinned."""
        obs, action, *_ = self._buffer.columns
        for demos in sets:
            for column, width in ((obs, demos.obs_dim), (action, demos.act_dim)):
                if math.prod(column.shape) != width:
                    raise ShapeError(
                        f"{column.name}: the demonstrations have {width} numbers, and this buffer "
                        f"has shape {column.shape}"
                    )
        names = [column.name for column in self._buffer.columns[len(TRANSITION) :]]
        made = {"discount", "truncated"} if self._nstep else {"truncated"}
        if set(names) - made:
            raise ConfigurationError(
                f"extra columns {sorted(set(names) - made)}: demonstrations have no values for "
                "them; use a buffer without"
            )
        if len(self._buffer):
            raise OrderError(
                f"load_demos_into_replay: the buffer holds {len(self._buffer)} rows; load "
                "demonstrations before anything else is added"
            )
        if self._block is not None:
            self._block._require_setup("load_demos_into_replay")
        if isinstance(self._buffer, StoreReplayGpu) and self._batch_size is None:
            raise ConfigurationError("batch_size is required for a bare buffer on the device")
        self._buffer._check_pin(rows, self._batch_size, rows)

    def add(self, rows: NDArray[Any], last: NDArray[np.bool_]) -> None:
        """Add all rows in one call, which stores all or none, and pin them."""
        columns = self._buffer.columns
        terminated = rows["done"] != 0.0
        values = [
            _as_column(rows[name], column)
            for name, column in zip(TRANSITION[:-1], columns, strict=False)
        ]
        truncated = last & ~terminated
        extra: dict[str, Any] = {}
        if self._nstep is not None:
            steps = self._nstep.nstep
            windows = _windows(steps.n, steps.gamma, [*values, terminated], last)
            values = [windows.obs, windows.action, windows.reward, windows.next_obs]
            terminated, truncated = windows.terminated, windows.truncated
            extra["discount"] = windows.discount
        if any(column.name == "truncated" for column in columns):
            extra["truncated"] = truncated
        obs, action, reward, next_obs = values
        self._buffer.add_batch(obs, action, reward, next_obs, terminated, **extra)
        self._buffer.pin_demo_prefix(len(rows), batch_size=self._batch_size)


def _as_column(values: NDArray[Any], column: Column) -> NDArray[Any]:
    """Filed float32 numbers in a column's shape; whole ones as ints where it holds ints."""
    shaped = values.reshape(len(values), *column.shape)
    if column.quantized:
        refuse_unquantizable(shaped, column)  # a card would clamp them, and keep that for good
    if column.dtype.kind not in "iu":
        return shaped
    low, high = integer_limits(column.dtype)
    whole = (shaped == np.rint(shaped)) & (shaped >= low) & (shaped < high + 1.0)
    if not whole.all():
        raise ColumnValueError(
            f"{column.name}: {shaped[~whole][0]} was filed, and this buffer's column of "
            f"{column.dtype} holds whole numbers from {low} to {high}; use a buffer with a float "
            "column"
        )
    return shaped.astype(column.dtype)


def _windows(
    n: int, gamma: float, values: Sequence[NDArray[Any]], last: NDArray[np.bool_]
) -> NStepTransitions:
    """The n-step transitions of one environment's steps, as an n-step buffer gives them.

    ``values`` are obs, action, reward, next_obs, terminated; ``last`` says where a window ends at
    the latest.
    """
    obs, action, rewards, next_obs, terminated = values
    rows = np.arange(len(rewards))
    ends = np.flatnonzero(last)
    end = np.minimum(rows + n - 1, ends[np.searchsorted(ends, rows)])
    reward, discount = window_returns(
        lambda k: rewards[np.minimum(rows + k, len(rewards) - 1)],
        end - rows + 1,
        terminated[end],
        gamma,
    )
    return NStepTransitions(
        obs=obs,
        action=action,
        reward=reward,
        next_obs=next_obs[end],
        terminated=terminated[end],
        truncated=(last & ~terminated)[end],
        discount=discount,
        extra={},
        valid=np.ones(len(rows), bool),
    )
