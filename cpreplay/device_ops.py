"""Ops on CuPy and our kernels. The contract is in `ops`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Condition
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cpreplay.batch import Batch, BatchMemory, of_draw
from cpreplay.control import CONTROL, new_control
from cpreplay.cuda_device import MAX_BLOCKS, THREADS, Card, Kernels, blocks_for
from cpreplay.device_inputs import DeviceInputs
from cpreplay.device_priorities import DevicePriorities, DrawMemory
from cpreplay.device_snapshot import DeviceSnapshot, packed
from cpreplay.kernel_structs import MAX_TILE, WEIGHTS, batch_addresses, columns_table, struct
from cpreplay.philox import splitmix64
from cpreplay.schema import Layout
from cpreplay.words import numbered_seed, numbered_state

T = TypeVar("T")

# Below this many bytes of rows a block stores several rows; wider rows are shared by several
# blocks, so that each thread has about one word of 16 bytes to copy.
_TILE_BYTES = 64 * 1024
_MAX_SLICES = 32

_LAST_INVALID = np.dtype("uint64")

# For the gather of a buffer without priorities.
_NO_WEIGHTS = struct(WEIGHTS)


def device_row_nbytes(layout: Layout) -> int:
    """Bytes that one transition takes on a card."""
    return layout.row_nbytes + (_LAST_INVALID.itemsize if layout.quantizes else 0)


class DeviceOps:
    """Rows and draws of one buffer in the memory of one card."""

    reading_waits = True

    def __init__(
        self, cupy: Any, layout: Layout, capacity: int, seed: int, *, run: int | None
    ) -> None:
        self._cupy = cupy
        self._card = Card(cupy)
        self._inputs = DeviceInputs(self._card, layout.columns)
        self._card.refuse_capture("making a buffer")
        kernels = Kernels(self._card)
        self._launch = kernels.launch
        self._layout = layout
        self._control = cupy.empty(CONTROL.itemsize, np.uint8)
        self._seed = seed
        self._control.set(new_control(capacity, splitmix64(seed), run or 0).view(np.uint8))
        self._capacity = capacity
        self._arrays = [cupy.zeros((capacity, stride), np.uint8) for stride in layout.strides]
        # Which launch had to clamp a value of each row last; see store_codes in rows.cu.
        self._last_invalid = cupy.zeros(capacity if layout.quantizes else 1, _LAST_INVALID)
        self._table = columns_table(layout, [array.data.ptr for array in self._arrays])
        row_bytes = self._table["at"]["bytes"]
        all_bytes = int(row_bytes.sum())
        self._tile = max(1, min(MAX_TILE, _TILE_BYTES // all_bytes))
        self._slices = max(1, min(_MAX_SLICES, all_bytes * self._tile // (16 * THREADS)))
        self.priorities = (
            None
            if run is None
            else DevicePriorities(self._card, kernels, self._inputs, self._control, capacity, run)
        )
        # Words of 4 bytes in the widest column: a thread each, in a gather.
        self._gathered_words = int(row_bytes.max()) // 4 + 1

    # Rows

    def add_plain(self, values: Sequence[Any]) -> bool:
        return False

    def add_batch_plain(self, values: Sequence[Any]) -> bool:
        return False

    @property
    def nbytes(self) -> int:
        arrays = (*self._arrays, self._control, self._last_invalid)
        tree = self.priorities.nbytes if self.priorities else 0
        return int(sum(array.nbytes for array in arrays)) + tree

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
        grid = (min(-(-rows // tile), MAX_BLOCKS), self._slices)
        self._launch(
            "store_rows", grid, self._control, self._table, _addresses(columns), np.int64(rows),
            mask, np.int64(tile), self._last_invalid,
        )  # fmt: skip
        if self.priorities:
            self.priorities.enter(rows, mask)
            return
        threads = 1 if mask is None else THREADS
        self._launch("move_cursor", (1,), self._control, np.int64(rows), mask, threads=threads)

    def make_batch(self, batch_size: int) -> Batch:
        self._card.check_current()
        self._card.refuse_capture("allocating a batch (get it from make_batch, and give it as out)")
        weighted = self.priorities is not None
        arrays = tuple(
            column and self._cupy.empty((batch_size, *column.shape), column.dtype)
            for column in (*self._layout.columns, *of_draw(weighted=weighted))
        )
        memory = _DeviceBatchMemory(self._layout, arrays, self._card)
        return Batch(self._layout.names, arrays, memory)

    def accepts(self, batch: Batch) -> bool:
        weighted = self.priorities is not None
        return batch._is_own(_DeviceBatchMemory, self._layout, weighted=weighted) and (
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
        lanes, draw = len(batch), batch._memory.draw
        if self.priorities:
            self.priorities.draw(draw, lanes)
            self._gather(batch, draw.weights)
            return
        self._launch("draw_rows", blocks_for(lanes), self._control, np.int64(lanes), batch.indices)
        self._gather(batch, _NO_WEIGHTS)

    def sample_range(self, batch: Batch, low: int, high: int) -> None:
        self._card.check_stream()
        lanes = len(batch)
        draw = batch._memory.draw
        self._launch(
            "draw_range", blocks_for(lanes), self._control, np.int64(low), np.int64(high),
            np.int64(lanes), batch.indices, draw and draw.tokens,
        )  # fmt: skip
        self._gather(batch, draw.ones if draw else _NO_WEIGHTS, by_policy=False)

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

    # State

    def pieces(self, rows: int) -> tuple[tuple[int, int], ...]:
        return ()  # its snapshots have nothing to set aside

    def snapshot(self, size: int, changed: Condition, *, apart: bool) -> DeviceSnapshot:
        self._card.check_current()
        return DeviceSnapshot(self._card, self._layout, self._arrays, size, changed, apart=apart)

    def here(self, call: Callable[[], T]) -> Callable[[], T]:
        stream = self._cupy.cuda.get_current_stream()

        def call_here() -> T:
            with self._cupy.cuda.Device(self._card.number), stream:
                return call()

        return call_here

    def put_rows(self, first: int, columns: Mapping[str, NDArray[Any]]) -> None:
        rows = len(next(iter(columns.values())))
        for array, part in zip(self._arrays, packed(self._layout, columns, rows), strict=True):
            array[first : first + rows].set(part)

    def clear_rows(self, first: int, end: int) -> None:
        self._last_invalid.fill(0)
        if first < end:
            for array in self._arrays:
                array[first:end].fill(0)

    def generator(self) -> dict[str, Any]:
        return numbered_state(self._seed)

    def check_generator(self, state: Mapping[str, Any], seed: int | None) -> Callable[[], None]:
        new = numbered_seed(state, seed)
        return lambda: setattr(self, "_seed", new)

    def set_control(self, fields: Mapping[str, int | float]) -> None:
        self._card.check_current()
        self._card.refuse_capture("restoring a buffer")
        record = self._control.get().view(CONTROL)
        for name, value in fields.items():
            record[name] = value
        self._control.set(record.view(np.uint8))

    # Parts of the above

    def _gather(self, batch: Batch, weights: NDArray[Any], *, by_policy: bool = True) -> None:
        lanes = len(batch)
        self._launch(
            "gather_rows", blocks_for(lanes * self._gathered_words), self._control, self._table,
            batch._memory.addresses, np.int64(lanes), batch.indices, np.int64(by_policy), weights,
        )  # fmt: skip


class _DeviceBatchMemory(BatchMemory):
    """Where the arrays of one batch lie."""

    def __init__(self, layout: Layout, arrays: tuple[Any, ...], card: Card) -> None:
        super().__init__(layout, arrays)
        *columns, indices, weights, tokens = arrays
        self.card = card.number
        self.addresses = _addresses(columns)
        self.draw = None if weights is None else DrawMemory(card.cupy, indices, weights, tokens)


def _addresses(arrays: Iterable[Any]) -> NDArray[Any]:
    return batch_addresses([array.data.ptr for array in arrays])
