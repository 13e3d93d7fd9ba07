"""What host and device n-step buffers check alike, and the form in which pending steps are kept."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.errors import ConfigurationError, ShapeError
from cpreplay.schema import TRANSITION, Column, unstored_column

#: Given with every step; a buffer stores it only where it has such a column.
TRUNCATED = unstored_column("truncated", "bool")

_FIRST_STEP = ("obs", "action", "reward")


def first_step_columns(columns: Sequence[Column]) -> list[Column]:
    """The columns of a window that are its first step's, and the reward of every step."""
    return [
        column for column in columns if column.name in _FIRST_STEP or column.name not in TRANSITION
    ]


def check_envs(rows: int, n_envs: int) -> None:
    """Raise `ShapeError` unless a step has one row for each environment."""
    if rows != n_envs:
        raise ShapeError(
            f"{rows} rows were given, and there are n_envs={n_envs} environments; give one row for "
            "each (mask those that took no step), or make it with another n_envs"
        )


def pending_state(
    pending: Mapping[str, NDArray[Any]], start: NDArray[Any], count: NDArray[Any], n: int
) -> dict[str, Any]:
    """Pending steps of rings of n slots each, by environment and age; 0 where there is none."""
    env, age = np.arange(len(count))[:, None], np.arange(n)
    slots = env * n + (start[:, None] + age) % n
    state: dict[str, Any] = {"pending": count.copy()}
    for name, column in pending.items():
        state[name] = column[slots]
        state[name][age >= count[:, None]] = 0
    return state


def check_state(
    state: Mapping[str, Any], columns: Sequence[Column], n: int, n_envs: int
) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
    """Pending counts and columns of a state, or `ConfigurationError` where they do not fit."""
    wanted: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {
        "pending": ((n_envs,), np.dtype(np.int64))
    }
    for column in columns:
        wanted[column.name] = ((n_envs, n, *column.shape), column.dtype)
    if not isinstance(state, Mapping):
        raise ConfigurationError(
            f"restore: a {type(state).__name__} is no state; give what state() gave"
        )
    if set(state) != set(wanted):
        raise ConfigurationError(
            f"restore: this state has {', '.join(sorted(map(str, state)))}, and "
            f"{', '.join(sorted(wanted))} "
            "are wanted; give the state of a buffer with the same columns"
        )
    arrays = {name: np.asarray(value) for name, value in state.items()}
    for name, (shape, dtype) in wanted.items():
        if arrays[name].shape != shape or arrays[name].dtype != dtype:
            raise ConfigurationError(
                f"restore: {name} is {arrays[name].dtype} of shape {arrays[name].shape}, and "
                f"{dtype} of shape {shape} is wanted; give the state of a buffer with the same "
                "columns, n and n_envs"
            )
    for column in columns:
        if column.dtype.kind == "b" and (arrays[column.name].view(np.uint8) > 1).any():
            raise ConfigurationError(
                f"restore: {column.name} has booleans that are neither 0 nor 1"
            )
    pending = arrays.pop("pending")
    if not ((pending >= 0) & (pending < n)).all():
        raise ConfigurationError(
            f"restore: pending steps have to be in [0, {n}), as a buffer's are"
        )
    return pending, arrays
