"""Ops on CuPy and our kernels. The contract is in `ops`."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.batch import Batch, Plan
from cpreplay.control import CONTROL, new_control
from cpreplay.cuda_device import Card, compiled_kernels
from cpreplay.device_inputs import DeviceInputs
from cpreplay.schema import MAX_COLUMNS, Column, Layout

_THREADS = 256
_MAX_BLOCKS = 4096  # grids are strided: more blocks than a card runs at once gain nothing
_MAX_TILE = 32  # rows of a batch that one block stores; as in rows.cu

# The structs of rows.cu.
_COLUMN = np.dtype(
    [
        ("base", "<u8"),
        ("stride", "<i8"),
        ("elements", "<i8"),
        ("bytes", "<i8"),
        ("codec", "<i8"),
    ]
)
_COLUMNS = np.dtype([("count", "<i8"), ("at", _COLUMN, MAX_COLUMNS)])
_BATCH = np.dtype([("at", "<u8", MAX_COLUMNS)])
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
        self._table = np.zeros(1, _COLUMNS)
        self._table["count"] = len(layout.columns)
        for number, (column, place) in enumerate(zip(layout.columns, layout.places, strict=True)):
            self._table["at"][0, number] = (
                self._arrays[place.array].data.ptr + place.offset,
                place.stride,
                column.elements,
                column.elements * column.dtype.itemsize,
                _codec(column),
            )
        # Wide rows are spread over more blocks, and a tile of few rows leaves no block idle.
        row_bytes = int(self._table["at"]["bytes"].sum())
        self._tile = max(1, min(_MAX_TILE, 64 * 1024 // row_bytes))
        self._slices = max(1, min(32, row_bytes * self._tile // (16 * _THREADS)))
        self._gathered_words = int(self._table["at"]["bytes"].max()) // 4 + 1  # of one row

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
        if rows == 0:
            return
        tile = self._tile
        grid = (min(-(-rows // tile), _MAX_BLOCKS), self._slices)
        self._launch(
            "store_rows", grid, self._control, self._table, _pointers(columns), np.int64(rows),
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
        plan = _DevicePlan(self._layout, arrays, indices, self._card.number)
        return Batch(self._layout.names, arrays, indices, plan=plan)

    def accepts(self, batch: Batch) -> bool:
        return batch._has_plan(_DevicePlan, self._layout) and (
            batch._plan.card == self._card.number
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
        lanes = len(batch)
        self._launch("draw_rows", _blocks(lanes), self._control, np.int64(lanes), batch.indices)
        self._gather(batch, by_policy=True)

    def sample_range(self, batch: Batch, low: int, high: int) -> None:
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
        return int(self.control()["total"])

    def control(self) -> dict[str, int | float]:
        self._card.check_current()
        self._card.refuse_capture("reading the buffer's state")
        record = self._control.get().view(CONTROL)[0]
        return {name: record[name].item() for name in CONTROL.names or ()}

    def synchronize(self) -> None:
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
            batch._plan.pointers, np.int64(lanes), batch.indices, np.int64(by_policy),
        )  # fmt: skip


class _DevicePlan(Plan):
    """Where the arrays of one batch lie."""

    __slots__ = ("card", "pointers")

    def __init__(self, layout: Layout, arrays: Sequence[Any], indices: Any, card: int) -> None:
        super().__init__(layout, arrays, indices)
        self.card = card
        self.pointers = _pointers(arrays)


def _pointers(arrays: Iterable[Any]) -> NDArray[Any]:
    """The addresses of a batch's columns, as a struct that a kernel takes by value."""
    batch = np.zeros(1, _BATCH)
    addresses = [array.data.ptr for array in arrays]
    batch["at"][0, : len(addresses)] = addresses
    return batch


def _codec(column: Column) -> int:
    """AS_IT_IS, QUANTIZED or BOOLEAN of rows.cu."""
    return 1 if column.quantized else 2 if column.dtype.kind == "b" else 0


def _blocks(items: int) -> tuple[int]:
    return (max(1, min(-(-items // _THREADS), _MAX_BLOCKS)),)
