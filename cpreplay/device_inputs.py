"""What a caller hands in, as device arrays that a kernel can read in place.

The device's twin of `inputs`, which checks and casts what comes from host memory here too.
"""

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.batch import INDICES, TOKENS
from cpreplay.cuda_device import Card
from cpreplay.errors import CaptureError, DTypeError
from cpreplay.inputs import (
    ANY_ROWS,
    MASK,
    TD_ERRORS,
    as_numpy,
    check_shape,
    check_update,
    host_array,
    integer_limits,
    refuse_dtype,
)
from cpreplay.schema import Column

# DLPack's numbers for memory that CUDA kernels can read (CUDA, CUDA managed).
_DLPACK_DEVICE = (2, 13)

# Every array of an upload starts on this, so that kernels can read it in their widest words.
_ALIGNMENT = 16


class DeviceInputs:
    """Checks, casts and uploads for one buffer on one card."""

    def __init__(self, card: Card, columns: Sequence[Column]) -> None:
        self._card = card
        self._cupy = card.cupy
        # As they are uploaded: the device itself quantises.
        self._columns = [attrs.evolve(column, stored=column.dtype) for column in columns]

    def row(self, values: Sequence[Any]) -> list[Any]:
        """One transition, checked; the host's part of it uploaded."""
        pairs = zip(values, self._columns, strict=True)
        return self._uploaded([self._checked(value, column, None) for value, column in pairs])

    def batch(self, values: Sequence[Any]) -> tuple[list[Any], int]:
        """A batch, checked; the host's part of it uploaded; and its number of rows."""
        first = self._checked(values[0], self._columns[0], ANY_ROWS)
        rest = zip(values[1:], self._columns[1:], strict=True)
        rows = len(first)
        columns = [first, *(self._checked(value, column, rows) for value, column in rest)]
        return self._uploaded(columns), rows

    def mask(self, mask: Any, rows: int) -> tuple[Any, int | None]:
        """A mask, and how many rows it keeps: None where it lies on the device."""
        checked = self._checked(mask, MASK, rows)
        count = int(np.count_nonzero(checked)) if isinstance(checked, np.ndarray) else None
        return self._uploaded([checked])[0], count

    def update(self, rows: Any, tokens: Any, td_errors: Any) -> tuple[Any, Any, Any]:
        """What a priority update is given: rows, draw tokens or None, TD errors; one a lane."""
        rows = self._as_array(rows, INDICES)
        tokens = None if tokens is None else self._as_array(tokens, TOKENS)
        td_errors = self._as_array(td_errors, TD_ERRORS)
        check_update(rows, tokens, td_errors)
        lanes = len(rows)
        given = [
            self._checked(rows, INDICES, lanes),
            self._checked(td_errors, TD_ERRORS, lanes, also=(np.dtype(np.float32),)),
        ]
        if tokens is not None:
            given.append(self._checked(tokens, TOKENS, lanes))
        rows, td_errors, *rest = self._uploaded(given, "a priority update from")
        return rows, rest[0] if rest else None, td_errors

    def _as_array(self, value: Any, column: Column) -> Any:
        """An array on the device, or else on the host."""
        array = self._device_array(value, column)
        return as_numpy(value, column) if array is None else array

    def _checked(
        self, value: Any, column: Column, rows: int | None, *, also: tuple[np.dtype[Any], ...] = ()
    ) -> Any:
        """An array of the column's dtype, on the device or still on the host.

        One on the device may ``also`` have another dtype, which its kernel reads as well.
        """
        array = self._device_array(value, column)
        if array is None:
            return host_array(value, column, rows)
        if array.device.id != self._card.number:
            raise DTypeError(
                f"{column.name}: this array lies on device {array.device.id}, and this buffer on "
                f"device {self._card.number}; copy it there first"
            )
        check_shape(array.shape, column, rows)
        if array.data.ptr % array.itemsize:
            array = self._aligned(array, column)
        if array.dtype != column.dtype and array.dtype not in also:
            if not _keeps_values(array.dtype, column.dtype):
                raise refuse_dtype(array.dtype, column)
            self._card.refuse_capture(
                f"{column.name}: casting {array.dtype} to {column.dtype} (give {column.dtype})"
            )
            return array.astype(column.dtype, order="C")
        if not array.flags.c_contiguous:
            self._card.refuse_capture(
                f"{column.name}: copying a strided array (make it contiguous)"
            )
            return self._cupy.ascontiguousarray(array)
        return array

    def _aligned(self, array: Any, column: Column) -> Any:
        """A copy of an array that begins between two of its items, made byte by byte.

        CuPy's own kernels would read it in whole items, which is an error on a card.
        """
        if not array.flags.c_contiguous:
            raise DTypeError(
                f"{column.name}: this array begins between two of its items and is strided, which "
                "no kernel can read; make a contiguous one of it where it comes from"
            )
        self._card.refuse_capture(f"{column.name}: copying an array that is not aligned")
        codes = array.reshape(-1).view(np.uint8).copy()
        return codes.view(array.dtype).reshape(array.shape)

    def _device_array(self, value: Any, column: Column) -> Any:
        """A CuPy array over the same memory, or None for a value that is not on a device."""
        cupy = self._cupy
        if isinstance(value, np.ndarray | np.generic | int | float | list | tuple):
            return None
        if isinstance(value, cupy.ndarray):
            return value
        try:
            # DLPack first: with it, the stream that made the array and ours are put in order by an
            # event. With the other protocol CuPy waits for that stream on the host.
            if hasattr(value, "__dlpack_device__"):
                on_device = value.__dlpack_device__()[0] in _DLPACK_DEVICE
                return cupy.from_dlpack(value) if on_device else None
            interface = getattr(value, "__cuda_array_interface__", None)
            if interface is None:
                return None
            if interface.get("stream") is not None:
                self._card.refuse_capture(
                    f"{column.name}: waiting for the stream that made the array"
                )
            return cupy.asarray(value)
        except (BufferError, TypeError, RuntimeError, ValueError) as error:
            if isinstance(error, CaptureError):
                raise
            raise DTypeError(f"{column.name}: CuPy cannot take this array: {error}") from error

    def _uploaded(self, ready: list[Any], what: str = "an add of") -> list[Any]:
        """The same arrays, those of the host copied to the device in one transfer."""
        on_host = [number for number, array in enumerate(ready) if isinstance(array, np.ndarray)]
        if not on_host:
            return ready
        self._card.refuse_capture(f"{what} host arrays (give CuPy arrays)")
        arrays: list[NDArray[Any]] = [ready[number] for number in on_host]
        offsets, end = [], 0
        for array in arrays:
            offsets.append(end)
            end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        staged = np.zeros(end, np.uint8)
        block = self._cupy.empty(end, np.uint8)
        for number, array, offset in zip(on_host, arrays, offsets, strict=True):
            place = slice(offset, offset + array.nbytes)
            staged[place].view(array.dtype).reshape(array.shape)[...] = array
            ready[number] = block[place].view(array.dtype).reshape(array.shape)
        if end:
            block.set(staged)
        return ready


def _keeps_values(given: np.dtype[Any], stored: np.dtype[Any]) -> bool:
    """Whether a cast keeps every value, save for the rounding of one float type to another."""
    if given.kind == "f":
        return stored.kind == "f"
    if given.kind not in "biu":
        return False
    (low, high), (lowest, highest) = integer_limits(given), integer_limits(stored)
    return lowest <= low and high <= highest
