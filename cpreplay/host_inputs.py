"""What a caller hands in, as host arrays ready for a buffer in host memory.

The twin of `device_inputs`. The checks are those of `inputs`; what most callers give passes here
with a look at its type alone.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.batch import INDICES, TOKENS
from cpreplay.inputs import (
    ANY_ROWS,
    MASK,
    TD_ERRORS,
    as_numpy,
    check_update,
    host_array,
    integer_limits,
)
from cpreplay.schema import Column


class HostInputs:
    """Checks and casts for one buffer."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = [_ColumnInput(column) for column in columns]

    def row(self, values: Sequence[Any]) -> list[Any]:
        """One transition, checked: for each column something that assignment stores unchanged."""
        return [column.row(value) for column, value in zip(self._columns, values, strict=True)]

    def batch(self, values: Sequence[Any]) -> tuple[list[NDArray[Any]], int]:
        """A batch, checked: contiguous arrays of the stored dtypes; and its number of rows."""
        first = self._columns[0].batch(values[0], ANY_ROWS)
        rows = len(first)
        rest = zip(self._columns[1:], values[1:], strict=True)
        return [first, *(column.batch(value, rows) for column, value in rest)], rows

    def mask(self, mask: Any, rows: int) -> tuple[NDArray[np.bool_], int]:
        """A mask, and how many rows it keeps."""
        array = host_array(mask, MASK, rows)
        return array, int(np.count_nonzero(array))


def update_inputs(
    rows: Any, tokens: Any, td_errors: Any
) -> tuple[NDArray[np.int64], NDArray[np.uint64] | None, NDArray[np.float64]]:
    """What a priority update is given: rows, draw tokens or None, TD errors; one a lane."""
    rows, td_errors = as_numpy(rows, INDICES), as_numpy(td_errors, TD_ERRORS)
    tokens = None if tokens is None else as_numpy(tokens, TOKENS)
    check_update(rows, tokens, td_errors)
    rows = _ROWS.batch(rows, ANY_ROWS)
    lanes = len(rows)
    if tokens is not None:
        tokens = _TOKENS.batch(tokens, lanes).view(np.uint64).reshape(lanes)
    return rows, tokens, _TD_ERRORS.batch(td_errors, lanes)


class _ColumnInput:
    """What goes into one column without a look at more than its type, and what does not."""

    def __init__(self, column: Column) -> None:
        self._column = column
        as_it_is = not (column.quantized or column.dtype.kind == "b")
        self._dtype = column.dtype if as_it_is else None
        self._shape = column.shape
        plain = not (column.quantized or column.shape)
        self._bounds = _number_bounds(column.dtype) if plain else {}
        # Rounding a smaller float is an error to a caller who made NumPy raise such errors.
        is_float = column.dtype.kind == "f"
        self._smallest = float(np.finfo(column.dtype).smallest_normal) if is_float else None

    def row(self, value: Any) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            if value.dtype is self._dtype and value.shape == self._shape:
                return value
        else:
            bounds = self._bounds.get(kind)
            if bounds is not None and bounds[0] <= value <= bounds[1]:
                smallest = self._smallest
                if smallest is None or value >= smallest or value <= -smallest or value == 0:
                    return value
        return host_array(value, self._column, None)

    def batch(self, value: Any, rows: int) -> NDArray[Any]:
        if (
            type(value) is np.ndarray
            and value.dtype is self._dtype
            and value.ndim > 0
            and value.shape[1:] == self._shape
            and rows in (ANY_ROWS, len(value))
            and value.flags.c_contiguous
        ):
            return value
        return np.ascontiguousarray(host_array(value, self._column, rows))


def _number_bounds(dtype: np.dtype[Any]) -> dict[type, tuple[Any, Any]]:
    """Types of numbers that a column takes as they are between two bounds (NaN is between none)."""
    if dtype.kind == "b":
        return {bool: (False, True), np.bool_: (False, True)}
    integers = integer_limits(dtype)
    bounds: dict[type, tuple[Any, Any]] = {int: integers, np.int64: integers}
    if dtype.kind == "f":
        largest = float(np.finfo(dtype).max)
        bounds |= {float: (-largest, largest), np.float64: (-largest, largest)}
        bounds[dtype.type] = (-np.inf, np.inf)
    return bounds


# What `update_inputs` is given.
_ROWS, _TOKENS, _TD_ERRORS = map(_ColumnInput, (INDICES, TOKENS, TD_ERRORS))
