"""What a caller hands in, as host arrays that are ready to be stored.

An input may be a NumPy array, anything with DLPack or the buffer protocol in host memory, or a
sequence. It is checked against its column and cast; what a column cannot hold unchanged, save for
the rounding of one float type to another, is refused. The caller's memory is read, never kept or
changed.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.errors import ColumnNameError, ColumnValueError, DTypeError, ShapeError
from cpreplay.schema import Column, unstored_column

#: For `host_array`: a first axis of any length.
ANY_ROWS = -1

# DLPack's numbers for memory that the host can read (CPU, pinned by CUDA, pinned by ROCm).
_DLPACK_HOST = (1, 3, 11)

#: What else is given in arrays is checked like a column.
MASK = unstored_column("mask", bool)
TD_ERRORS = unstored_column("td_errors", "float64")


def host_array(value: Any, column: Column, rows: int | None) -> NDArray[Any]:
    """``value`` as an array of the column's stored dtype.

    Parameters
    ----------
    value
        One row of the column, or with ``rows`` that many rows along a first axis.
    column
        Where it is to go.
    rows
        None for a single transition, and `ANY_ROWS` where the value itself decides.

    Returns
    -------
    ndarray
        Shape ``column.shape``, or ``(rows, *column.shape)``. It may be the caller's own memory:
        copy from it, do not keep it.

    Raises
    ------
    DTypeError
        The dtype's kind does not fit, or the memory is a device's.
    ColumnValueError
        An integer that the column's dtype cannot hold, or a value outside [0, 1] for a quantised
        column.
    ShapeError
        Another shape.
    """
    array = _cast(as_numpy(value, column), column)
    check_shape(array.shape, column, rows)
    if column.quantized:
        return _quantize(array, column)
    if column.dtype.kind == "b":
        # Bytes other than 0 and 1, which a view of other memory may hold, are true as well.
        return np.asarray(np.not_equal(array.view(np.uint8), 0))
    return array


def extra_values(names: Sequence[str], given: Mapping[str, Any]) -> list[Any]:
    """The values of extra columns, in the columns' order.

    Raises
    ------
    ColumnNameError
        One is missing, or there is no column of that name.
    """
    for name in names:
        if name not in given:
            raise ColumnNameError(f"extra column {name!r} is missing: give {name}=... in this call")
    for name in given:
        if name not in names:
            raise ColumnNameError(
                f"{name!r} is no column of this buffer, whose extra columns are {list(names)}; "
                "declare it with extra_columns when you make the buffer"
            )
    return [given[name] for name in names]


def check_update(rows: Any, tokens: Any, td_errors: Any) -> None:
    """Refuse arrays that a priority update cannot be meant to have.

    Raises
    ------
    DTypeError, ShapeError
        Rows that are no integers, of which a mask would be rows 0 and 1; tokens that `Batch.map`
        has not kept; and anything that is not one of each a lane.
    """
    if rows.dtype.kind not in "iu" and rows.size and not _holds_integers(rows):
        raise DTypeError(
            f"update_priorities: indices of {rows.dtype} were given, and int64 is wanted; give the "
            "batch as it was sampled (Batch.map has to keep integers), or rows as ints (of a mask, "
            "np.flatnonzero)"
        )
    lanes = rows.shape[0] if rows.ndim else 1
    if rows.shape != (lanes,) or lanes >= 2**31:
        raise ShapeError(
            f"update_priorities: indices: got an array of shape {rows.shape}, and (N,) is wanted, "
            "with N below 2**31; reshape it first"
        )
    if tokens is not None and (tokens.dtype.kind not in "iu" or tokens.shape != (lanes, 2)):
        raise (ShapeError if tokens.dtype.kind in "iu" else DTypeError)(
            f"update_priorities: draw tokens: the batch has {tokens.dtype} of shape "
            f"{tokens.shape}, and int32 of shape ({lanes}, 2) is wanted; Batch.map has to keep "
            "them as they are"
        )
    if td_errors.dtype.kind not in "iuf":
        raise DTypeError(
            f"td_errors: {td_errors.dtype} was given, and float32 or float64 is wanted"
        )
    if td_errors.shape != (lanes,):
        raise ShapeError(
            f"td_errors: got an array of shape {td_errors.shape}, and ({lanes},) is wanted, one "
            "for each index; reshape it first"
        )


def check_shape(shape: tuple[int, ...], column: Column, rows: int | None) -> None:
    """Raise `ShapeError` unless ``shape`` is that of ``rows`` rows, as in `host_array`."""
    if rows is None:
        fits = shape == column.shape
        sizes: tuple[Any, ...] = column.shape
    else:
        fits = len(shape) > 0 and shape[1:] == column.shape and rows in (ANY_ROWS, shape[0])
        sizes = ("N" if rows == ANY_ROWS else rows, *column.shape)
    if not fits:
        wanted = ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "")
        raise ShapeError(
            f"{column.name}: got an array of shape {shape}, and ({wanted}) is wanted"
            + _shape_hint(shape, column, rows)
        )


def _shape_hint(shape: tuple[int, ...], column: Column, rows: int | None) -> str:
    """What to do about a wrong shape, where that can be guessed."""
    if rows is not None and shape == column.shape:
        return "; for one transition call add"
    if rows is None and shape[1:] == column.shape:
        return "; for several transitions call add_batch"
    if math.prod(shape) == column.elements * (rows or 1):
        return "; reshape it first"
    return ""


def refuse_dtype(dtype: np.dtype[Any], column: Column) -> DTypeError:
    """The error for a dtype that does not go into a column."""
    if column.dtype.kind == "b":
        return DTypeError(
            f"{column.name}: {dtype} was given, and bool is wanted; compare first, as in x != 0"
        )
    return DTypeError(
        f"{column.name}: {dtype} does not go into a column of {column.dtype} without changing "
        "values; cast it first"
    )


def as_numpy(value: Any, column: Column) -> NDArray[Any]:
    """What the caller gave as an array, over the same memory where that is possible."""
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ndarray | np.generic):
        if isinstance(value, np.ma.MaskedArray):
            raise DTypeError(f"{column.name}: a masked array would lose its mask; fill it first")
        return np.asarray(value)
    if isinstance(value, bytes):
        return np.frombuffer(value, np.uint8)
    # DLPack first: asking a tensor that needs a gradient for the other protocol raises.
    if hasattr(value, "__dlpack_device__"):
        if value.__dlpack_device__()[0] not in _DLPACK_HOST:
            raise _in_device_memory(column)
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise DTypeError(f"{column.name}: NumPy cannot take this array: {error}") from error
    if hasattr(value, "__cuda_array_interface__"):
        raise _in_device_memory(column)
    try:
        array = np.asarray(value)
        if array.dtype == np.float64 and array.size and array.max() >= 2.0**63:
            # NumPy makes floats of integers that fit neither int64 nor uint64 together.
            exact = np.asarray(value, object)
            return exact if _holds_integers(exact) else array
        return array
    except ValueError as error:  # a ragged sequence
        raise ShapeError(f"{column.name}: {error}") from error
    except TypeError as error:  # a sequence of device arrays, say
        raise DTypeError(f"{column.name}: NumPy cannot make an array of this: {error}") from error


def _cast(array: NDArray[Any], column: Column) -> NDArray[Any]:
    dtype = column.dtype
    if array.dtype == dtype:
        return array
    if array.size == 0 and array.dtype == np.float64:  # an empty list has no dtype of its own
        return array.astype(dtype)
    if array.dtype.kind in "biu" or _holds_integers(array):
        low, high = integer_limits(dtype)
        if array.size and not (low <= int(array.min()) and int(array.max()) <= high):
            raise ColumnValueError(
                f"{column.name}: integers between {array.min()} and {array.max()} were given, and "
                f"a column of {dtype} keeps those from {low} to {high} unchanged"
            )
        return array.astype(dtype)
    if array.dtype.kind == "f" and dtype.kind == "f":
        try:
            with np.errstate(over="raise", under="ignore", invalid="ignore"):
                return array.astype(dtype)
        except FloatingPointError:
            raise ColumnValueError(
                f"{column.name}: finite {array.dtype} values would become infinite in a column of "
                f"{dtype}"
            ) from None
    raise refuse_dtype(array.dtype, column)


def _holds_integers(array: NDArray[Any]) -> bool:
    """Whether an array of objects holds Python's integers alone."""
    return array.dtype.kind == "O" and all(type(item) is int for item in array.flat)


def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The range in which a dtype holds every integer."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "f":
        limit = 2 ** (np.finfo(dtype).nmant + 1)
        return -limit, limit
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _quantize(array: NDArray[np.float32], column: Column) -> NDArray[np.uint8]:
    """Codes ``rint(x * 255)`` in float32, halves to even; the device does the same."""
    refuse_unquantizable(array, column)
    codes: NDArray[np.uint8] = np.rint(array * np.float32(255)).astype(np.uint8)
    return codes


def refuse_unquantizable(array: NDArray[Any], column: Column) -> None:
    """Raise `ColumnValueError` for values that have no code."""
    inside = (array >= 0) & (array <= 1)  # NaN fails both
    if not inside.all():
        raise ColumnValueError(
            f"{column.name}: a column stored as uint8 takes values in [0, 1], and one of them "
            f"is {array[~inside][0]}; divide frames by 255, or keep uint8 frames as they are with "
            "obs_dtype='uint8'"
        )


def _in_device_memory(column: Column) -> DTypeError:
    return DTypeError(
        f"{column.name}: this array lies in a device's memory, and this buffer in the host's; copy "
        "it first (cupy.asnumpy(x), x.cpu()), or use StoreReplayGpu"
    )
