"""What a caller hands in, as host arrays that are ready to be stored.

An input may be a NumPy array, anything with DLPack or the buffer protocol in host memory, or a
sequence. It is checked against its column and cast; what a column cannot hold unchanged, save for
the rounding of one float type to another, is refused. The caller's memory is read, never kept or
changed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.errors import ColumnValueError, DTypeError, ShapeError
from cpreplay.schema import Column

# DLPack's numbers for memory that the host can read (CPU, pinned by CUDA, pinned by ROCm).
_DLPACK_HOST = (1, 3, 11)

#: The mask of a batch is checked like a column.
MASK = Column(name="mask", shape=(), dtype=np.dtype(bool), stored=np.dtype(bool))


def host_array(value: Any, column: Column, rows: int | None) -> NDArray[Any]:
    """``value`` as an array of the column's stored dtype.

    Parameters
    ----------
    value
        One row of the column, or with ``rows`` that many rows along a first axis.
    column
        Where it is to go.
    rows
        None for a single transition.

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
    array = _cast(_as_numpy(value, column), column)
    if array.shape != expected_shape(column, rows):
        raise refuse_shape(array.shape, column, rows)
    return _quantize(array, column) if column.quantized else array


def expected_shape(column: Column, rows: int | None) -> tuple[int, ...]:
    """The shape of ``rows`` rows of a column; of a single transition where it is None."""
    return column.shape if rows is None else (rows, *column.shape)


def refuse_shape(shape: tuple[int, ...], column: Column, rows: int | None) -> ShapeError:
    """The error for an array of another shape."""
    count = "" if rows is None else f", which is {rows} rows of shape {column.shape}"
    return ShapeError(
        f"{column.name}: got an array of shape {shape}, and shape {expected_shape(column, rows)} "
        f"is wanted{count}"
    )


def refuse_dtype(dtype: Any, column: Column) -> DTypeError:
    """The error for a dtype that does not go into a column."""
    return DTypeError(
        f"{column.name}: {dtype} does not go into a column of {column.dtype} without changing "
        f"values; cast it yourself, or give the buffer another {column.name} dtype"
    )


def _as_numpy(value: Any, column: Column) -> NDArray[Any]:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "__cuda_array_interface__"):
        raise _in_device_memory(column)
    if hasattr(value, "__dlpack_device__"):
        if value.__dlpack_device__()[0] not in _DLPACK_HOST:
            raise _in_device_memory(column)
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise DTypeError(f"{column.name}: NumPy cannot take this array: {error}") from error
    try:
        return np.asarray(value)
    except ValueError as error:  # a ragged sequence
        raise ShapeError(f"{column.name}: {error}") from error


def _cast(array: NDArray[Any], column: Column) -> NDArray[Any]:
    dtype = column.dtype
    if array.dtype == dtype:
        return array
    if array.dtype.kind in "biu":
        low, high = integer_limits(dtype)
        if array.size and not (low <= int(array.min()) and int(array.max()) <= high):
            raise ColumnValueError(
                f"{column.name}: integers between {array.min()} and {array.max()} were given, and "
                f"a column of {dtype} keeps those from {low} to {high} unchanged"
            )
        return array.astype(dtype)
    if array.dtype.kind == "f" and dtype.kind == "f":
        try:
            with np.errstate(over="raise"):
                return array.astype(dtype)
        except FloatingPointError:
            raise ColumnValueError(
                f"{column.name}: finite {array.dtype} values would become infinite in a column of "
                f"{dtype}"
            ) from None
    raise refuse_dtype(array.dtype, column)


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
    if not bool(np.all((array >= 0) & (array <= 1))):  # NaN fails both
        raise ColumnValueError(
            f"{column.name}: a column stored as uint8 takes values in [0, 1], and there are values "
            f"between {np.min(array)} and {np.max(array)}; divide frames by 255, or keep uint8 "
            "frames as they are with obs_dtype='uint8'"
        )
    codes: NDArray[np.uint8] = np.rint(array * np.float32(255)).astype(np.uint8)
    return codes


def _in_device_memory(column: Column) -> DTypeError:
    return DTypeError(
        f"{column.name}: this array lies in a device's memory, and this buffer in the host's; copy "
        "it first (cupy.asnumpy(x), x.cpu()), or use StoreReplayGpu"
    )
