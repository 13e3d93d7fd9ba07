"""Ops on NumPy: rows in packed records, draws from a generator of the buffer's own.

The contract is in `ops`. Nothing here takes a lock: the buffer does.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import Condition
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cpreplay.aligned import aligned_zeros
from cpreplay.batch import Batch
from cpreplay.control import ere_window, new_control, ring_head, ring_size
from cpreplay.host_columns import BatchBlock, Gather, HostBatchMemory, StoredColumn
from cpreplay.host_inputs import HostInputs
from cpreplay.host_priorities import HostPriorities
from cpreplay.host_snapshot import HostSnapshot
from cpreplay.philox import ROWS, TARGETS, splitmix64
from cpreplay.schema import Layout
from cpreplay.words import Words

T = TypeVar("T")

# Batch sizes whose memory layout is remembered.
_KEPT_BLOCKS = 64


class HostOps:
    """Rows and draws of one buffer in host memory."""

    capturing = False
    reading_waits = False

    def __init__(
        self,
        layout: Layout,
        capacity: int,
        words: Words,
        seed: int,
        *,
        run: int | None,
    ) -> None:
        self._layout = layout
        self._words = words
        self._inputs = HostInputs(layout.columns)
        self._control = new_control(capacity, splitmix64(seed), run or 0)
        # Views of single fields: a number is read with item(), written with [0] =.
        self._total = self._control["total"]
        self._draws = self._control["draws"]
        self._demo_count = self._control["demo_count"]
        self._ere_enabled = self._control["ere_enabled"]
        self._capacity = capacity
        self._arrays = [aligned_zeros(capacity, f"V{stride}") for stride in layout.strides]
        self._columns = [
            StoredColumn(column, place, self._arrays[place.array])
            for column, place in zip(layout.columns, layout.places, strict=True)
        ]
        self._rows_of_span = _Spans()
        self._blocks: dict[int, BatchBlock] = {}
        self.priorities = None if run is None else HostPriorities(self._control, capacity)

    # Rows

    def add_plain(self, values: Sequence[Any]) -> bool:
        return False

    def add_batch_plain(self, values: Sequence[Any]) -> bool:
        return False

    @property
    def nbytes(self) -> int:
        rows = sum(array.nbytes for array in self._arrays)
        tree = self.priorities.nbytes if self.priorities else 0
        return rows + tree + self._control.nbytes

    @cached_property
    def _gathers(self) -> list[Gather]:
        """The copies of a draw. Made for the first one: compiled loops have no use for them."""
        return [
            Gather(array, [column for column in self._columns if column.place.array == number])
            for number, array in enumerate(self._arrays)
        ]

    def ingest_row(self, values: Sequence[Any]) -> list[Any]:
        return self._inputs.row(values)

    def store_row(self, row: Sequence[Any]) -> None:
        total, demo_count, capacity = self._cursor()
        head = ring_head(total, demo_count, capacity)
        for column, value in zip(self._columns, row, strict=True):
            column.view[head] = value
        self._total[0] = total + 1

    def ingest(self, values: Sequence[Any]) -> tuple[list[NDArray[Any]], int]:
        return self._inputs.batch(values)

    def ingest_mask(self, mask: Any, rows: int) -> tuple[NDArray[np.bool_], int]:
        return self._inputs.mask(mask, rows)

    def store(
        self, columns: Sequence[NDArray[Any]], rows: int, mask: NDArray[np.bool_] | None = None
    ) -> None:
        if mask is not None:
            columns = [values[mask] for values in columns]
            rows = int(np.count_nonzero(mask))
        pieces = self.pieces(rows)
        done = rows - sum(count for _, count in pieces)
        for head, count in pieces:
            for column, values in zip(self._columns, columns, strict=True):
                column.write(head, values[done : done + count])
            done += count
        self._total[0] = self._total.item() + rows

    def pieces(self, rows: int) -> list[tuple[int, int]]:
        total, demo_count, capacity = self._cursor()
        done = max(0, rows - (capacity - demo_count))  # what the very same rows overwrite
        pieces = []
        while done < rows:  # twice where they wrap
            head = ring_head(total + done, demo_count, capacity)
            count = min(rows - done, capacity - head)
            pieces.append((head, count))
            done += count
        return pieces

    def make_batch(self, batch_size: int) -> Batch:
        block = self._blocks.get(batch_size)
        if block is None:
            if len(self._blocks) >= _KEPT_BLOCKS:
                self._blocks.clear()
            block = self._blocks[batch_size] = self._new_block(batch_size)
        return block.new_batch()

    def _is_intact(self, memory: HostBatchMemory) -> bool:
        return memory.is_intact()

    def _new_block(self, batch_size: int) -> BatchBlock:
        return BatchBlock(self._layout, batch_size, weighted=self.priorities is not None)

    def accepts(self, batch: Batch) -> bool:
        weighted = self.priorities is not None
        if not batch._is_own(HostBatchMemory, self._layout, weighted=weighted):
            return False
        return self._is_intact(batch._memory)

    def column(self, number: int) -> NDArray[Any]:
        view = self._columns[number].view.view()
        view.flags.writeable = False
        return view

    def to_host(self, array: NDArray[Any]) -> NDArray[Any]:
        return array

    # Draws

    def sample(self, batch: Batch) -> None:
        lanes = len(batch)
        if self.priorities:
            self.priorities.draw(batch, self._words.draw(self._draws.item(), lanes, TARGETS))
            self._gather(batch)
            return
        total, demo_count, capacity = self._cursor()
        size = ring_size(total, capacity)
        ere = bool(self._ere_enabled.item())
        words = self._words.draw(self._draws.item(), lanes, ROWS)
        rows = batch._memory.rows
        if demo_count:
            online = size - demo_count
            from_demos = lanes // 2 if online else lanes
            self._rows_of_span(words, demo_count, rows)
            demos = rows[:from_demos].copy()
            self._rows_of_span(words, online, rows)
            rows += np.uint64(demo_count)
            rows[:from_demos] = demos
        elif ere:
            control = self._control[0]
            window = ere_window(size, int(control["c_min"]), float(control["eta_power"]))
            self._rows_of_span(words, window, rows)
            ages = batch.indices
            np.subtract(ring_head(total, demo_count, capacity) - 1, ages, out=ages)
            ages %= capacity
        else:
            self._rows_of_span(words, size, rows)
        self._gather(batch)
        if ere:
            self._shrink_ere_window()

    def sample_range(self, batch: Batch, low: int, high: int) -> None:
        rows = batch._memory.rows
        self._rows_of_span(self._words.draw(self._draws.item(), len(batch), ROWS), high - low, rows)
        rows += np.uint64(low)
        if self.priorities:
            self.priorities.mark_uniform(batch)
        self._gather(batch)

    def configure_ere(self, enable: bool, eta: float, c_min: int, k_max: int) -> None:
        control = self._control[0]
        control["ere_enabled"], control["eta"] = enable, eta
        control["c_min"], control["k_max"] = c_min, k_max
        control["k"], control["eta_power"] = 0, 1.0

    def pin_demos(self, count: int) -> None:
        self._control["demo_count"] = count

    # The control block

    def total(self) -> int:
        return int(self._total.item())

    def control(self) -> dict[str, int | float]:
        return {name: self._control[name][0].item() for name in self._control.dtype.names or ()}

    def synchronize(self) -> None:
        """Nothing is ever queued on the host."""

    # State

    def snapshot(self, size: int, changed: Condition, *, apart: bool) -> HostSnapshot:
        total, demo_count, capacity = self._cursor()
        head = ring_head(total, demo_count, capacity) if total >= capacity else 0
        return HostSnapshot(self._layout, self._arrays, size, changed, demo_count, head)

    def here(self, call: Callable[[], T]) -> Callable[[], T]:
        return call

    def put_rows(self, first: int, columns: Mapping[str, NDArray[Any]]) -> None:
        for column in self._columns:
            column.write(first, columns[column.column.name])

    def clear_rows(self, first: int, end: int) -> None:
        for array in self._arrays:
            array[first:end] = b""

    def generator(self) -> dict[str, Any]:
        return self._words.state()

    def check_generator(self, state: Mapping[str, Any], seed: int | None) -> Callable[[], None]:
        return self._words.restore(state, seed)

    def set_control(self, fields: Mapping[str, int | float]) -> None:
        for name, value in fields.items():
            self._control[name] = value

    # Parts of the above

    def _cursor(self) -> tuple[int, int, int]:
        return self._total.item(), self._demo_count.item(), self._capacity

    def _shrink_ere_window(self) -> None:
        control = self._control[0]
        control["k"] += 1
        # As Python floats, for which an underflow to zero is no error whatever np.errstate says.
        control["eta_power"] = float(control["eta_power"]) * float(control["eta"])
        if control["k"] >= control["k_max"]:
            control["k"], control["eta_power"] = 0, 1.0

    def _gather(self, batch: Batch) -> None:
        """Fill the columns of a batch whose indices are drawn, and count the draw."""
        for gather in self._gathers:
            gather(batch.indices, batch._memory.raw)
        self._draws[0] = self._draws.item() + 1


class _Spans:
    """Random words made into rows of a span, with scratch for the last batch size."""

    def __init__(self) -> None:
        self._span = np.array(0, np.uint64)
        self._scratch = self._new_scratch(0)

    def __call__(self, words: NDArray[np.uint64], span: int, rows: NDArray[np.uint64]) -> None:
        """``rows = words * span >> 64``: the high half of a 128-bit product, for spans to 2**31."""
        halves, high, low = self._scratch
        if len(words) != len(high):
            halves, high, low = self._scratch = self._new_scratch(len(words))
        self._span[()] = span
        np.right_shift(words, _HALF, high)
        np.bitwise_and(words, _LOW, low)
        np.multiply(halves, self._span, halves)
        np.right_shift(low, _HALF, low)
        np.add(high, low, high)
        np.right_shift(high, _HALF, rows)

    @staticmethod
    def _new_scratch(lanes: int) -> tuple[NDArray[np.uint64], ...]:
        halves = np.empty((2, lanes), np.uint64)
        return halves, halves[0], halves[1]


# As arrays, since an operation on an array and a scalar costs twice that on two arrays.
_HALF = np.array(32, np.uint64)
_LOW = np.array(0xFFFFFFFF, np.uint64)
