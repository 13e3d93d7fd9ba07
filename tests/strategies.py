"""Hypothesis strategies for transitions, and how tests make and read them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

COLUMNS = ("obs", "action", "reward", "next_obs", "terminated")


def numbered_rows(
    first: int,
    count: int,
    obs_shape: tuple[int, ...] = (3,),
    action_shape: tuple[int, ...] = (2,),
    *,
    obs_dtype: Any = np.float32,
    action_dtype: Any = np.float32,
) -> dict[str, np.ndarray]:
    """Transitions whose number is written into every column, each in a way of its own."""
    numbers = np.arange(first, first + count)

    def spread(offset: int, shape: Sequence[int], dtype: Any) -> np.ndarray:
        column = (numbers + offset).reshape(count, *(1 for _ in shape))
        return np.broadcast_to(column, (count, *shape)).astype(dtype)

    return {
        "obs": spread(0, obs_shape, obs_dtype),
        "action": spread(10, action_shape, action_dtype),
        "reward": spread(20, (), np.float32),
        "next_obs": spread(1, obs_shape, obs_dtype),
        "terminated": numbers % 3 == 0,
    }


def row(rows: dict[str, np.ndarray], number: int) -> dict[str, Any]:
    """One transition of a batch of them."""
    return {name: column[number] for name, column in rows.items()}


def stored_numbers(buffer: Any, numpy: Any) -> list[int | None]:
    """Which numbered row each slot holds, None for none; every column has to agree."""
    size = len(buffer)
    columns = {name: numpy(buffer.column(name))[:size] for name in COLUMNS}
    flat = {name: column.reshape(size, column[:1].size) for name, column in columns.items()}
    numbers = flat["obs"][:, :1].astype(int).ravel()
    for name, offset in (("obs", 0), ("action", 10), ("reward", 20), ("next_obs", 1)):
        assert (flat[name] == numbers[:, None] + offset).all(), name
    assert (columns["terminated"] == (numbers % 3 == 0)).all()
    return [*numbers.tolist(), *[None] * (buffer.capacity - size)]
