"""The rows of a ring in host memory as they were at one moment, read while adds go on.

Rows are read chunk by chunk, from the oldest on. An add that is about to overwrite a chunk that was
not read yet puts it aside first, into one of a few spare chunks, so memory stays bounded and no
one waits longer than a copy of one chunk takes, unless the spares are used up.
"""

import threading
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cpreplay.errors import CheckpointError
from cpreplay.host_columns import StoredColumn
from cpreplay.schema import Layout
from cpreplay.snapshots import Chunk, chunk_rows

# Memory for chunks put aside, of 4 MiB each. With as many, adds that overwrite rows as fast as they
# are compressed seldom wait.
_SPARES = 8


class HostSnapshot:
    """The contract is `snapshots.Snapshot`.

    Parameters
    ----------
    layout : Layout
    arrays : sequence of ndarray
        The storage, records of whole rows.
    size : int
        Rows held at this moment, from row 0.
    changed : threading.Condition
        Over the buffer's lock, under which this is made and `set_aside` is called.
    demo_count, head : int
        Rows that are never overwritten, and the row that is overwritten next.
    """

    def __init__(
        self,
        layout: Layout,
        arrays: Sequence[NDArray[np.void]],
        size: int,
        changed: threading.Condition,
        demo_count: int,
        head: int,
    ) -> None:
        self._layout = layout
        self._arrays = arrays
        self._size = size
        self._changed = changed
        self._rows = chunk_rows(layout, size)
        chunks = -(-size // self._rows)
        pinned = demo_count // self._rows  # chunks that nothing overwrites
        first = min(head // self._rows, chunks)
        # From the oldest rows on, which adds overwrite first: so chunks are put aside in the order
        # in which they are read, and their memory comes back as soon as it can.
        self._order = [*range(first, chunks), *range(pinned, first), *range(min(pinned, first))]
        self._unread = set(self._order)
        self._aside: dict[int, list[NDArray[np.void]]] = {}
        self._spares: list[list[NDArray[np.void]]] = []
        self._closed = False

    def set_aside(self, pieces: Sequence[tuple[int, int]]) -> bool:
        for first, count in pieces:
            end = min(first + count, self._size)  # rows behind were not held at this moment
            for chunk in range(first // self._rows, -(-end // self._rows)):
                if chunk not in self._unread or chunk in self._aside:
                    continue
                if not self._spares:
                    return False
                spare = self._spares.pop()
                part = self._span(chunk)
                for kept, array in zip(spare, self._arrays, strict=True):
                    kept[: part.stop - part.start] = array[part]
                self._aside[chunk] = spare
        return True

    def chunks(self) -> Iterator[Chunk]:
        self._make_spares()  # now, since adds may wait for one before the first chunk is read
        return self._read_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._unread.clear()
            self._aside.clear()
            self._spares.clear()
            self._changed.notify_all()

    def _read_all(self) -> Iterator[Chunk]:
        out = {
            column.name: np.empty((self._rows, *column.shape), column.stored)
            for column in self._layout.columns
        }
        for chunk in self._order:
            part = self._span(chunk)
            count = part.stop - part.start
            with self._changed:
                if self._closed:
                    raise CheckpointError("the save was given up")
                aside = self._aside.get(chunk)
            if aside is None:
                self._read(self._arrays, part.start, count, out)
            with self._changed:
                # Put aside meanwhile: what was read may be half of the old and half of the new.
                aside = self._aside.get(chunk)
                if aside is None:
                    self._unread.discard(chunk)
                    self._changed.notify_all()
            if aside is not None:
                self._read(aside, 0, count, out)
                with self._changed:
                    self._unread.discard(chunk)
                    self._spares.append(self._aside.pop(chunk))
                    self._changed.notify_all()
            yield part.start, {name: values[:count] for name, values in out.items()}

    def _make_spares(self) -> None:
        """Memory for chunks put aside, touched here, so that no add pays for its pages."""
        for _ in range(min(_SPARES, len(self._order))):
            spare = []
            for array in self._arrays:
                memory = np.empty((self._rows, array.dtype.itemsize), np.uint8)
                memory.fill(0)
                spare.append(memory.view(array.dtype)[:, 0])
            with self._changed:
                self._spares.append(spare)
                self._changed.notify_all()

    def _span(self, chunk: int) -> slice:
        first = chunk * self._rows
        return slice(first, min(first + self._rows, self._size))

    def _read(
        self,
        arrays: Sequence[NDArray[np.void]],
        first: int,
        count: int,
        out: dict[str, NDArray[np.generic]],
    ) -> None:
        for column, place in zip(self._layout.columns, self._layout.places, strict=True):
            stored = StoredColumn(column, place, arrays[place.array])
            stored.read(first, out[column.name][:count])
