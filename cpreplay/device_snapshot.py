"""The rows of a ring in device memory as they were at one moment, read chunk by chunk."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.cuda_device import Card
from cpreplay.errors import MemoryLimitError
from cpreplay.host_columns import StoredColumn
from cpreplay.memory import format_bytes
from cpreplay.schema import Layout
from cpreplay.snapshots import Chunk, chunk_rows


class DeviceSnapshot:
    """The contract is `snapshots.Snapshot`.

    With ``apart`` the rows are copied on the card first. Rows may be overwritten by the replay of a
    graph, of which Python does not know, so there is no other way to let a loop go on meanwhile.

    Raises
    ------
    MemoryLimitError
        The copy does not fit.
    """

    def __init__(
        self,
        card: Card,
        layout: Layout,
        arrays: Sequence[Any],
        size: int,
        changed: threading.Condition,
        *,
        apart: bool,
    ) -> None:
        self._card = card
        self._changed = changed
        self._layout = layout
        self._size = size
        self._rows = chunk_rows(layout, size)
        self._apart = apart
        held = [array[:size] for array in arrays]
        if apart:
            _refuse_copy(card, sum(int(array.nbytes) for array in held))
            held = [array.copy() for array in held]
            card.cupy.cuda.get_current_stream().synchronize()  # whoever reads has another stream
        self._arrays = held

    def set_aside(self, pieces: Sequence[tuple[int, int]]) -> bool:
        return self._apart or not self._arrays  # without a copy, adds wait for the end

    def chunks(self) -> Iterator[Chunk]:
        cupy = self._card.cupy
        with cupy.cuda.Device(self._card.number):
            stream = cupy.cuda.Stream(non_blocking=True) if self._apart else None
            for first in range(0, self._size, self._rows):
                part = slice(first, min(first + self._rows, self._size))
                arrays = [_as_records(array[part].get(stream=stream)) for array in self._arrays]
                yield first, self._columns(arrays)

    def close(self) -> None:
        with self._changed:
            self._arrays = []
            self._changed.notify_all()

    def _columns(self, arrays: Sequence[NDArray[np.void]]) -> dict[str, NDArray[Any]]:
        columns = {}
        for column, place in zip(self._layout.columns, self._layout.places, strict=True):
            array = arrays[place.array]
            columns[column.name] = np.empty((len(array), *column.shape), column.stored)
            StoredColumn(column, place, array).read(0, columns[column.name])
        return columns


def packed(
    layout: Layout, columns: Mapping[str, NDArray[Any]], rows: int
) -> list[NDArray[np.uint8]]:
    """Columns as rows of the storage arrays, as bytes."""
    arrays = [np.zeros((rows, stride), np.uint8) for stride in layout.strides]
    for column, place in zip(layout.columns, layout.places, strict=True):
        StoredColumn(column, place, _as_records(arrays[place.array])).write(0, columns[column.name])
    return arrays


def _as_records(array: NDArray[np.uint8]) -> NDArray[np.void]:
    """Rows of bytes as records, without a copy."""
    rows, stride = array.shape
    return np.ndarray(rows, f"V{stride}", np.ascontiguousarray(array))


def _refuse_copy(card: Card, nbytes: int) -> None:
    cupy = card.cupy
    free = int(cupy.cuda.Device().mem_info[0]) + int(cupy.get_default_memory_pool().free_bytes())
    if nbytes > free:
        raise MemoryLimitError(
            f"save_in_background copies the rows held on the card first: {format_bytes(nbytes)}, "
            f"and {format_bytes(free)} are free there; use save, which needs no copy and waits"
        )
