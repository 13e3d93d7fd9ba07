"""How rows and minibatches lie in host memory, and the copies between them.

Rows lie in arrays of whole records, a minibatch in one block with a field per column. Both start on
64-byte addresses. Nothing here knows a ring, a policy or a lock.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.aligned import ALIGNMENT, aligned_block
from cpreplay.batch import INDICES, TOKENS, WEIGHTS, Batch, BatchMemory
from cpreplay.errors import SampleRangeError
from cpreplay.schema import Column, Layout, Place

# Rows are gathered through a scratch of at most this size, which has to stay in the second-level
# cache while its columns are copied out. Smaller ones were slower: 2 % at 3,000 rows of 176 bytes,
# 13 % at 256 rows.
_SCRATCH_BYTES = 512 * 1024

# NumPy's limit on a record, which a batch is.
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

    def __call__(self, indices: NDArray[np.int64], raw: NDArray[Any]) -> None:
        """Fill the columns' fields of ``raw``, a batch's block of memory."""
        count = len(indices)
        if self._direct:
            # mode="clip", since "raise" would copy through a buffer; indices are in range
            self._array.take(indices, 0, raw[self._stored[0].column.name], "clip")
        elif count <= len(self.scratch):
            self._take(indices, raw)
        else:
            step = len(self.scratch)
            for start in range(0, count, step):
                self._take(indices[start : start + step], raw, slice(start, start + step))

    def _take(
        self, indices: NDArray[np.int64], raw: NDArray[Any], lanes: slice | None = None
    ) -> None:
        taken, parts = self._views
        if len(indices) != len(taken):
            # In one assignment: an interrupt must not leave views of two sizes.
            taken, parts = self._views = self._views_of(len(indices))
        self._array.take(indices, 0, taken, "clip")
        for name, quantized, part in parts:
            if quantized:
                target = raw[name] if lanes is None else raw[name][lanes]
                np.divide(part, np.float32(255), out=target)
            elif lanes is None:
                raw[name] = part
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
    """How a minibatch of one size lies in one block of memory."""

    def __init__(self, layout: Layout, batch_size: int, *, weighted: bool) -> None:
        self.layout = layout
        self.batch_size = batch_size
        self._names = layout.names
        self._weighted = weighted
        names, formats, raw_formats, offsets = [], [], [], []
        end = 0
        of_draw = (INDICES, WEIGHTS, TOKENS) if weighted else (INDICES,)
        for column in (*of_draw, *layout.columns):
            names.append(column.name)
            formats.append((column.dtype, (batch_size, *column.shape)))
            # Columns that are stored as they are seen are copied as rows of bytes.
            raw_formats.append(
                formats[-1] if column.quantized else (f"V{column.stored_nbytes}", (batch_size,))
            )
            offsets.append(end)
            length = batch_size * column.elements * column.dtype.itemsize
            end += -(-length // ALIGNMENT) * ALIGNMENT
        if end > _LARGEST_BATCH:
            raise SampleRangeError(
                f"a batch of {batch_size} takes {end:,} bytes, and at most {_LARGEST_BATCH:,} are "
                "possible; draw it in parts"
            )
        #: Indices, weights, tokens (-1 where there are none), then the columns; for compiled code.
        self.offsets = np.array(offsets if weighted else [offsets[0], -1, -1, *offsets[1:]])
        record = {"names": names, "offsets": offsets, "itemsize": end}
        self._fields = np.dtype({**record, "formats": formats})  # type: ignore[call-overload]
        self._raw = np.dtype({**record, "formats": raw_formats})  # type: ignore[call-overload]

    def new_batch(self) -> Batch:
        """Fresh arrays: fields of one record, which NumPy gives as views at little cost."""
        block, offset = aligned_block(self._fields.itemsize)
        fields = np.ndarray((), self._fields, block, offset)
        raw = np.ndarray((), self._raw, block, offset)
        indices = fields["indices"]
        arrays = [fields[name] for name in self._names]
        weights = tokens = None
        if self._weighted:
            weights, tokens = fields[WEIGHTS.name], fields[TOKENS.name]
        memory = HostBatchMemory(self.layout, arrays, indices, weights, tokens, raw, self.offsets)
        return Batch(self._names, arrays, indices, weights, tokens, memory=memory)


class HostBatchMemory(BatchMemory):
    """The arrays of one batch as a draw writes them."""

    __slots__ = ("offsets", "raw", "rows", "tokens")

    def __init__(
        self,
        layout: Layout,
        arrays: Sequence[Any],
        indices: NDArray[np.int64],
        weights: NDArray[np.float32] | None,
        tokens: NDArray[np.int32] | None,
        raw: NDArray[Any],
        offsets: NDArray[np.int64],
    ) -> None:
        super().__init__(layout, arrays, indices, weights, tokens)
        self.raw = raw
        self.offsets = offsets
        self.rows = indices.view(np.uint64)
        #: The tokens as one word a lane.
        self.tokens = None if tokens is None else tokens.view(np.uint64)[:, 0]
