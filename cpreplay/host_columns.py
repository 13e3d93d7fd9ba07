"""How rows and minibatches lie in host memory, and the copies between them.

Rows lie in arrays of whole records, a minibatch's columns behind each other in one block. Both
start on 64-byte addresses. Nothing here knows a ring, a policy or a lock.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.aligned import ALIGNMENT, aligned_block
from cpreplay.batch import Batch, BatchMemory, of_draw
from cpreplay.errors import SampleRangeError
from cpreplay.schema import Column, Layout, Place

# Rows are gathered through a scratch of at most this size, which has to stay in the second-level
# cache while its columns are copied out. Smaller ones were slower: 2 % at 3,000 rows of 176 bytes,
# 13 % at 256 rows.
_SCRATCH_BYTES = 512 * 1024

# Lest a slip of the keyboard takes all memory: a minibatch is for one step of training.
_LARGEST_BATCH = 2**31 - 1


class StoredColumn:
    """A stored column: its rows, as numbers to look at and as bytes to write."""

    def __init__(self, column: Column, place: Place, array: NDArray[Any]) -> None:
        self.column = column
        self.place = place
        self.view: NDArray[Any] = np.ndarray(
            (len(array), *column.shape),
            column.stored,
            array,
            place.offset,
            (place.stride, *np.empty(column.shape, column.stored).strides),
        )
        # The same rows as bytes, which are copied at a third less cost than rows of numbers.
        self._bytes: NDArray[Any] = np.ndarray(
            len(array), f"V{column.stored_nbytes}", array, place.offset, (place.stride,)
        )

    def write(self, first: int, values: NDArray[Any]) -> None:
        """Rows [first, first + n), from a contiguous array of the stored dtype."""
        rows = len(values)
        self._bytes[first : first + rows] = np.ndarray(rows, self._bytes.dtype, values)

    def read(self, first: int, out: NDArray[Any]) -> None:
        """Copy rows from ``first`` on into a contiguous array of the stored dtype."""
        rows = len(out)
        np.ndarray(rows, self._bytes.dtype, out)[...] = self._bytes[first : first + rows]


class Gather:
    """Copies rows of one storage array into the columns of a batch."""

    def __init__(self, array: NDArray[Any], stored: list[StoredColumn]) -> None:
        stride = array.dtype.itemsize
        self._array = array
        self._stored = stored
        # A column that fills its array needs no scratch.
        first = stored[0].column
        self._direct = len(stored) == 1 and first.stored_nbytes == stride and not first.quantized
        rows = 0 if self._direct else max(1, _SCRATCH_BYTES // stride)
        self.scratch = np.empty(rows, array.dtype)
        self._views = self._views_of(rows)

    def __call__(self, indices: NDArray[np.int64], raw: Mapping[str, NDArray[Any]]) -> None:
        """Fill the columns of a batch, which ``raw`` has by name."""
        count = len(indices)
        if self._direct:
            # mode="clip", since "raise" would copy through a buffer; indices are in range
            self._array.take(indices, 0, raw[self._stored[0].column.name], "clip")
            return
        step = len(self.scratch)
        for start in range(0, count, step):
            self._take(indices[start : start + step], raw, slice(start, start + step))

    def _take(
        self, indices: NDArray[np.int64], raw: Mapping[str, NDArray[Any]], lanes: slice
    ) -> None:
        taken, parts = self._views
        if len(indices) != len(taken):
            # In one assignment: an interrupt must not leave views of two sizes.
            taken, parts = self._views = self._views_of(len(indices))
        self._array.take(indices, 0, taken, "clip")
        for name, quantized, part in parts:
            if quantized:
                np.divide(part, np.float32(255), out=raw[name][lanes])
            else:
                raw[name][lanes] = part

    def _views_of(self, count: int) -> tuple[NDArray[Any], list[tuple[str, bool, NDArray[Any]]]]:
        """The first ``count`` rows of the scratch, and each column's part of them."""
        parts = []
        for stored in self._stored:
            column, offset = stored.column, stored.place.offset
            part: NDArray[Any]
            if column.quantized:
                shape = (count, *column.shape)
                part = np.ndarray(shape, column.stored, self.scratch, offset, stored.view.strides)
            else:
                rows_of_bytes = f"V{column.stored_nbytes}"
                strides = (stored.place.stride,)
                part = np.ndarray(count, rows_of_bytes, self.scratch, offset, strides)
            parts.append((column.name, column.quantized, part))
        return self.scratch[:count], parts


class BatchBlock:
    """How a minibatch of one size lies in one block of memory, and how its arrays are made."""

    def __init__(self, layout: Layout, batch_size: int, *, weighted: bool) -> None:
        self.layout = layout
        #: Of each array the offset, dtype and shape: columns, indices, weights and tokens, or None.
        self.members: tuple[tuple[int, np.dtype[Any], tuple[int, ...]] | None, ...]
        members: list[Any] = []
        #: Bytes of the block.
        self.nbytes = 0
        for column in (*layout.columns, *of_draw(weighted=weighted)):
            if column is None:
                members.append(None)
                continue
            members.append((self.nbytes, column.dtype, (batch_size, *column.shape)))
            length = batch_size * column.elements * column.dtype.itemsize
            self.nbytes += -(-length // ALIGNMENT) * ALIGNMENT
        self.members = tuple(members)
        if self.nbytes > _LARGEST_BATCH:
            raise SampleRangeError(
                f"a batch of {batch_size} takes {self.nbytes:,} bytes, and at most "
                f"{_LARGEST_BATCH:,} are possible; draw it in parts"
            )

    def new_batch(self) -> Batch:
        """A batch of fresh arrays, uninitialised."""
        arrays = self._new_arrays()
        return Batch(self.layout.names, arrays, HostBatchMemory(self, arrays))

    def _new_arrays(self) -> tuple[Any, ...]:
        block, start = aligned_block(self.nbytes)
        return tuple(
            member and np.ndarray(member[2], member[1], block, start + member[0])
            for member in self.members
        )


class HostBatchMemory(BatchMemory):
    """The arrays of one batch, and the same as NumPy's draws write them."""

    def __init__(self, block: BatchBlock, arrays: tuple[Any, ...]) -> None:
        super().__init__(block.layout, arrays)
        self._block = block

    def is_intact(self) -> bool:
        """Whether the arrays can be filled as when they were made: NumPy lets them be changed."""
        return all(
            member is None
            or (array.flags.carray and array.dtype == member[1] and array.shape == member[2])
            for array, member in zip(self.arrays, self._block.members, strict=True)
        )

    @cached_property
    def raw(self) -> dict[str, NDArray[Any]]:
        """The columns as they are gathered: as rows of bytes, unless codes are made floats."""
        return {
            column.name: array
            if column.quantized
            else np.ndarray(len(array), f"V{column.stored_nbytes}", array)
            for column, array in zip(self.layout.columns, self.arrays, strict=False)
        }

    @cached_property
    def rows(self) -> NDArray[np.uint64]:
        """The indices, unsigned."""
        return np.asarray(self.arrays[-3].view(np.uint64))

    @cached_property
    def tokens(self) -> NDArray[np.uint64]:
        """The draw tokens as one word a lane."""
        return np.asarray(self.arrays[-1].view(np.uint64)[:, 0])
