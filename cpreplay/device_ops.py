"""Ops on CuPy and our kernels. The contract is in `ops`."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.batch import Batch, BatchMemory
from cpreplay.control import CONTROL, new_control
from cpreplay.cuda_device import Card, compiled_kernels
from cpreplay.device_inputs import DeviceInputs
from cpreplay.kernel_structs import MAX_TILE, batch_addresses, columns_table
from cpreplay.schema import Layout

_THREADS = 256
_MAX_BLOCKS = 4096  # grids are strided: more blocks than a card runs at once gain nothing

# Below this many bytes of rows a block stores several rows; wider rows are shared by several
# blocks, so that each thread has about one word of 16 bytes to copy.
_TILE_BYTES = 64 * 1024
_MAX_SLICES = 32

_LAST_INVALID = np.dtype("uint64")


def device_row_nbytes(layout: Layout) -> int:
    """Bytes that one transition takes on a card."""
    return layout.row_nbytes + (_LAST_INVALID.itemsize if layout.quantizes else 0)


class DeviceOps:
    """Rows and draws of one buffer in the memory of one card."""

    reading_waits = True

    def __init__(self, cupy: Any, layout: Layout, capacity: int, key: int) -> None:
        self._cupy = cupy
        self._card = Card(cupy)
        self._inputs = DeviceInputs(self._card, layout.columns)
        self._card.refuse_capture("making a buffer")
        self._kernels = compiled_kernels(cupy)
        self._layout = layout
        self._control = cupy.empty(CONTROL.itemsize, np.uint8)
        self._control.set(new_control(capacity, key).view(np.uint8))
        self._capacity = capacity
        self._arrays = [cupy.zeros((capacity, stride), np.uint8) for stride in layout.strides]
        # Which launch had to clamp a value of each row last; see store_codes in rows.cu.
        self._last_invalid = cupy.zeros(capacity if layout.quantizes else 1, _LAST_INVALID)
        self._table = columns_table(layout, [array.data.ptr for array in self._arrays])
        row_bytes = self._table["at"]["bytes"]
        all_bytes = int(row_bytes.sum())
        self._tile = max(1, min(MAX_TILE, _TILE_BYTES // all_bytes))
        self._slices = max(1, min(_MAX_SLICES, all_bytes * self._tile // (16 * _THREADS)))
        # Words of 4 bytes in the widest column: a thread each, in a gather.
        self._gathered_words = int(row_bytes.max()) // 4 + 1

    # Rows

    @property
    def nbytes(self) -> int:
        arrays = (*self._arrays, self._control, self._last_invalid)
        return int(sum(array.nbytes for array in arrays))

    def ingest_row(self, values: Sequence[Any]) -> list[Any]:
        self._card.check_current()
        return self._inputs.row(values)

    def store_row(self, row: Sequence[Any]) -> None:
        self.store(row, 1)

    def ingest(self, values: Sequence[Any]) -> tuple[list[Any], int]:
        self._card.check_current()
        return self._inputs.batch(values)

    def ingest_mask(self, mask: Any, rows: int) -> tuple[Any, int | None]:
        return self._inputs.mask(mask, rows)

    def store(self, columns: Sequence[Any], rows: int, mask: Any = None) -> None:
        tile = self._tile
        grid = (min(-(-rows // tile), _MAX_BLOCKS), self._slices)
        self._launch(
            "store_rows", grid, self._control, self._table, _addresses(columns), np.int64(rows),
            mask, np.int64(tile), self._last_invalid,
        )  # fmt: skip
        threads = 1 if mask is None else _THREADS
        self._launch("move_cursor", (1,), self._control, np.int64(rows), mask, threads=threads)

    def make_batch(self, batch_size: int) -> Batch:
        self._card.check_current()
        self._card.refuse_capture("allocating a batch (get it from make_batch, and give it as out)")
        arrays = [
            self._cupy.empty((batch_size, *column.shape), column.dtype)
            for column in self._layout.columns
        ]
        indices = self._cupy.empty(batch_size, np.int64)
        memory = _DeviceBatchMemory(self._layout, arrays, indices, self._card.number)
        return Batch(self._layout.names, arrays, indices, memory=memory)

    def accepts(self, batch: Batch) -> bool:
        return batch._is_own(_DeviceBatchMemory, self._layout) and (
            bool(batch._memory.card == self._card.number)
        )

    def column(self, number: int) -> Any:
        column, place = self._layout.columns[number], self._layout.places[number]
        return self._cupy.ndarray(
            (self._capacity, *column.shape),
            column.stored,
            memptr=self._arrays[place.array].data + place.offset,
            strides=(place.stride, *np.empty(column.shape, column.stored).strides),
        )

    def to_host(self, array: Any) -> NDArray[Any]:
        self._card.check_current()
        self._card.refuse_capture("reading rows")
        host: NDArray[Any] = array.get()
        return host

    # Draws

    def sample(self, batch: Batch) -> None:
        self._card.check_stream()
        lanes = len(batch)
        self._launch("draw_rows", _blocks(lanes), self._control, np.int64(lanes), batch.indices)
        self._gather(batch, by_policy=True)

    def sample_range(self, batch: Batch, low: int, high: int) -> None:
        self._card.check_stream()
        lanes = len(batch)
        self._launch(
            "draw_range", _blocks(lanes), self._control, np.int64(low), np.int64(high),
            np.int64(lanes), batch.indices,
        )  # fmt: skip
        self._gather(batch, by_policy=False)

    def configure_ere(self, enable: bool, eta: float, c_min: int, k_max: int) -> None:
        self._card.refuse_capture("configure_ere")
        self._launch(
            "configure_ere", (1,), self._control, np.int64(enable), np.float64(eta),
            np.int64(c_min), np.int64(k_max), threads=1,
        )  # fmt: skip

    def pin_demos(self, count: int) -> None:
        self._card.refuse_capture("pin_demo_prefix")
        self._launch("pin_demos", (1,), self._control, np.int64(count), threads=1)

    def total(self) -> int:
        self._card.refuse_capture("asking the device how many rows there are (add enough first)")
        return int(self.control()["total"])

    def control(self) -> dict[str, int | float]:
        self._card.check_current()
        self._card.refuse_capture("reading the buffer's state")
        record = self._control.get().view(CONTROL)[0]
        return {name: record[name].item() for name in CONTROL.names or ()}

    def synchronize(self) -> None:
        self._card.check_current()
        self._card.refuse_capture("synchronize")
        self._cupy.cuda.get_current_stream().synchronize()

    @property
    def capturing(self) -> bool:
        return self._card.capturing

    # Parts of the above

    def _launch(
        self, name: str, grid: tuple[int, ...], *args: Any, threads: int = _THREADS
    ) -> None:
        self._card.check_current()
        self._kernels[name](grid, (threads,), args)

    def _gather(self, batch: Batch, *, by_policy: bool) -> None:
        lanes = len(batch)
        self._launch(
            "gather_rows", _blocks(lanes * self._gathered_words), self._control, self._table,
            batch._memory.addresses, np.int64(lanes), batch.indices, np.int64(by_policy),
        )  # fmt: skip


class _DeviceBatchMemory(BatchMemory):
    """Where the arrays of one batch lie."""

    __slots__ = ("addresses", "card")

    def __init__(self, layout: Layout, arrays: Sequence[Any], indices: Any, card: int) -> None:
        super().__init__(layout, arrays, indices)
        self.card = card
        self.addresses = _addresses(arrays)


def _addresses(arrays: Iterable[Any]) -> NDArray[Any]:
    return batch_addresses([array.data.ptr for array in arrays])


def _blocks(items: int) -> tuple[int]:
    return (max(1, min(-(-items // _THREADS), _MAX_BLOCKS)),)
