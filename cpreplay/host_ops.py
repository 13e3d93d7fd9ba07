"""Ops on NumPy: rows in packed records, draws from a generator of the buffer's own.

The contract is in `ops`. Nothing here takes a lock: the buffer does.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.batch import Batch
from cpreplay.control import ere_window, new_control, ring_head, ring_size
from cpreplay.errors import ConfigurationError, SampleRangeError
from cpreplay.inputs import ANY_ROWS, MASK, host_array, integer_limits
from cpreplay.philox import philox_words, splitmix64
from cpreplay.schema import Column, Layout, Place

ALIGNMENT = 64

# Rows are gathered through a scratch of at most this size, which has to stay in the second-level
# cache while its columns are copied out. Smaller ones were slower: 2 % at 3,000 rows of 176 bytes,
# 13 % at 256 rows.
_SCRATCH_BYTES = 512 * 1024

# The generators whose raw words are 64 random bits. A raw word of MT19937, say, has only 32.
_RAW_64_BIT = (np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64, np.random.Philox)

# NumPy's limit on a field of a record, which a column of a batch is.
_LARGEST_COLUMN = 2**31 - 1

# Batch sizes whose memory layout is remembered.
_KEPT_FORMS = 64

Words = Callable[[int, int], NDArray[np.uint64]]  # (draw number, lanes) -> words


def word_source(seed: int, rng: Any) -> Words:
    """Where the random words of a host buffer come from; see ``rng`` of `StoreReplay`."""
    if isinstance(rng, str):
        if rng != "philox":
            raise ConfigurationError(f"rng={rng!r}: the only generator with a name is 'philox'")
        key = splitmix64(seed)
        return lambda draw, lanes: philox_words(key, draw, lanes)
    if rng is None:
        rng = np.random.Generator(np.random.PCG64(seed))
    if not isinstance(rng, np.random.Generator):
        raise ConfigurationError(
            f"rng={rng!r}: a numpy.random.Generator is wanted, or 'philox'; make one with "
            "numpy.random.default_rng(seed)"
        )
    if type(rng.bit_generator) in _RAW_64_BIT:
        raw = rng.bit_generator.random_raw
        return lambda draw, lanes: raw(lanes)
    return lambda draw, lanes: rng.integers(0, 2**64, lanes, np.uint64)


class HostOps:
    """Rows and draws of one buffer in host memory."""

    capturing = False

    def __init__(self, layout: Layout, capacity: int, words: Words, key: int) -> None:
        self._layout = layout
        self._words = words
        self._control = new_control(capacity, key)
        # Views of single fields: a number is read with item(), written with [0] =.
        self._total = self._control["total"]
        self._draws = self._control["draws"]
        self._demo_count = self._control["demo_count"]
        self._capacity = capacity
        self._arrays = [_aligned_zeros(capacity, stride) for stride in layout.strides]
        self._columns = [
            _HostColumn(column, place, self._arrays[place.array])
            for column, place in zip(layout.columns, layout.places, strict=True)
        ]
        self._gathers = [
            _Gather(array, [column for column in self._columns if column.place.array == number])
            for number, array in enumerate(self._arrays)
        ]
        self._forms: dict[int, _BatchForm] = {}

    # Rows

    @property
    def nbytes(self) -> int:
        scratch = sum(gather.scratch.nbytes for gather in self._gathers)
        return sum(array.nbytes for array in self._arrays) + self._control.nbytes + scratch

    def add(self, values: Sequence[Any]) -> None:
        # Two loops, so that nothing is written before all is checked.
        columns = self._columns
        ready = [column.row_value(value) for column, value in zip(columns, values, strict=True)]
        total, demo_count, capacity = self._cursor()
        row = ring_head(total, demo_count, capacity)
        for column, value in zip(columns, ready, strict=True):
            column.view[row] = value
        self._total[0] = total + 1

    def ingest(self, values: Sequence[Any]) -> tuple[list[NDArray[Any]], int]:
        first = host_array(values[0], self._columns[0].form, ANY_ROWS)
        rest = zip(self._columns[1:], values[1:], strict=True)
        columns = [first, *(host_array(value, column.form, len(first)) for column, value in rest)]
        return columns, len(first)

    def ingest_mask(self, mask: Any, rows: int) -> tuple[NDArray[np.bool_], int]:
        array = host_array(mask, MASK, rows)
        return array, int(np.count_nonzero(array))

    def store(
        self, columns: Sequence[NDArray[Any]], rows: int, mask: NDArray[np.bool_] | None = None
    ) -> None:
        if mask is not None:
            columns = [values[mask] for values in columns]
            rows = int(np.count_nonzero(mask))
        total, demo_count, capacity = self._cursor()
        end = total + rows
        done = max(0, rows - (capacity - demo_count))  # what this very batch overwrites
        while done < rows:  # twice where the batch wraps
            head = ring_head(total + done, demo_count, capacity)
            count = min(rows - done, capacity - head)
            for column, values in zip(self._columns, columns, strict=True):
                column.write(head, values[done : done + count])
            done += count
        self._total[0] = end

    def make_batch(self, batch_size: int) -> Batch:
        return self._form(batch_size).new_batch()

    def accepts(self, batch: Batch) -> bool:
        plan = batch._plan
        if not isinstance(plan, _Plan):
            return False
        return plan.layout is self._layout or plan.layout == self._layout

    def column(self, number: int) -> NDArray[Any]:
        view = self._columns[number].view.view()
        view.flags.writeable = False
        return view

    def to_host(self, array: NDArray[Any]) -> NDArray[Any]:
        return array

    # Draws

    def sample(self, batch: Batch) -> None:
        form = self._form(len(batch))
        total, demo_count, capacity = self._cursor()
        size = ring_size(total, capacity)
        control = self._control[0]
        ere = bool(control["ere_enabled"])
        words = self._words(self._draws.item(), form.batch_size)
        rows = batch._plan.rows
        if demo_count:
            online = size - demo_count
            from_demos = form.batch_size // 2 if online else form.batch_size
            form.rows_of_span(words, demo_count, rows)
            demos = rows[:from_demos].copy()
            form.rows_of_span(words, online, rows)
            rows += np.uint64(demo_count)
            rows[:from_demos] = demos
        elif ere:
            window = ere_window(size, int(control["c_min"]), float(control["eta_power"]))
            form.rows_of_span(words, window, rows)
            ages = batch.indices
            np.subtract(ring_head(total, demo_count, capacity) - 1, ages, out=ages)
            ages %= capacity
        else:
            form.rows_of_span(words, size, rows)
        self._gather(batch)
        if ere:
            self._shrink_ere_window()

    def sample_range(self, batch: Batch, low: int, high: int) -> None:
        form = self._form(len(batch))
        rows = batch._plan.rows
        form.rows_of_span(self._words(self._draws.item(), form.batch_size), high - low, rows)
        rows += np.uint64(low)
        self._gather(batch)

    def configure_ere(self, enable: bool, eta: float, c_min: int, k_max: int) -> None:
        control = self._control[0]
        control["ere_enabled"], control["eta"] = enable, eta
        control["c_min"], control["k_max"] = c_min, k_max
        control["k"], control["eta_power"] = 0, 1.0

    def pin_demos(self, count: int) -> None:
        self._control["demo_count"] = count

    def control(self) -> dict[str, int | float]:
        return {name: self._control[name][0].item() for name in self._control.dtype.names or ()}

    def synchronize(self) -> None:
        """Nothing is ever queued on the host."""

    # Parts of the above

    def _cursor(self) -> tuple[int, int, int]:
        return self._total.item(), self._demo_count.item(), self._capacity

    def _shrink_ere_window(self) -> None:
        control = self._control[0]
        control["k"] += 1
        control["eta_power"] *= control["eta"]
        if control["k"] >= control["k_max"]:
            control["k"], control["eta_power"] = 0, 1.0

    def _form(self, batch_size: int) -> "_BatchForm":
        form = self._forms.get(batch_size)
        if form is None:
            if len(self._forms) >= _KEPT_FORMS:
                self._forms.clear()
            form = self._forms[batch_size] = _BatchForm(self._layout, batch_size)
        return form

    def _gather(self, batch: Batch) -> None:
        """Fill the columns of a batch whose indices are drawn, and count the draw."""
        for gather in self._gathers:
            gather(batch.indices, batch._plan.raw)
        self._draws[0] = self._draws.item() + 1


class _HostColumn:
    """A stored column: its view of the rows, and the check of one value."""

    def __init__(self, form: Column, place: Place, array: NDArray[Any]) -> None:
        self.form = form
        self.place = place
        self.view: NDArray[Any] = np.ndarray(
            (len(array), *form.shape),
            form.stored,
            array,
            place.offset,
            (place.stride, *np.empty(form.shape, form.stored).strides),
        )
        # The same rows as bytes, which are copied at a third less cost than rows of numbers.
        self._bytes: NDArray[Any] = np.ndarray(
            len(array), f"V{form.stored_nbytes}", array, place.offset, (place.stride,)
        )
        # What goes in without a look at more than its type: arrays of the right dtype and shape,
        # and plain numbers between two bounds. Everything else takes `host_array`.
        self._dtype = None if form.quantized else form.dtype
        self._shape = form.shape
        self._bounds = {} if form.quantized or form.shape else _number_bounds(form.dtype)

    def row_value(self, value: Any) -> Any:
        """One row of this column, checked, in a form that assignment stores unchanged."""
        kind = type(value)
        if kind is np.ndarray:
            if value.dtype is self._dtype and value.shape == self._shape:
                return value
        else:
            bounds = self._bounds.get(kind)
            if bounds is not None and bounds[0] <= value <= bounds[1]:
                return value
        return host_array(value, self.form, None)

    def write(self, first: int, values: NDArray[Any]) -> None:
        """Rows [first, first + n), from an array of the stored dtype."""
        rows = len(values)
        contiguous = np.ascontiguousarray(values)
        self._bytes[first : first + rows] = np.ndarray(rows, self._bytes.dtype, contiguous)


class _Gather:
    """Copies rows of one storage array into the columns of a batch."""

    def __init__(self, array: NDArray[Any], columns: list[_HostColumn]) -> None:
        stride = array.dtype.itemsize
        self._array = array
        self._columns = columns
        # A column that fills its array needs no scratch.
        self._direct = len(columns) == 1 and (
            columns[0].form.stored_nbytes == stride and not columns[0].form.quantized
        )
        rows = 0 if self._direct else max(1, min(_SCRATCH_BYTES // stride, len(array)))
        self.scratch = np.empty(rows, array.dtype)
        self._views_of(rows)

    def __call__(self, indices: NDArray[np.int64], raw: NDArray[Any]) -> None:
        """Fill the columns' fields of ``raw``, a batch's block of memory."""
        count = len(indices)
        if self._direct:
            # mode="clip", since "raise" would copy through a buffer; indices are in range
            self._array.take(indices, 0, raw[self._columns[0].form.name], "clip")
        elif count <= len(self.scratch):
            self._take(indices, raw)
        else:
            step = len(self.scratch)
            for start in range(0, count, step):
                self._take(indices[start : start + step], raw, slice(start, start + step))

    def _take(
        self, indices: NDArray[np.int64], raw: NDArray[Any], lanes: slice | None = None
    ) -> None:
        if len(indices) != len(self._taken):
            self._views_of(len(indices))
        self._array.take(indices, 0, self._taken, "clip")
        for name, quantized, part in self._parts:
            if quantized:
                target = raw[name] if lanes is None else raw[name][lanes]
                np.divide(part, np.float32(255), out=target)
            elif lanes is None:
                raw[name] = part
            else:
                raw[name][lanes] = part

    def _views_of(self, count: int) -> None:
        """Set the first ``count`` rows of the scratch, and each column's part of them."""
        self._taken = self.scratch[:count]
        self._parts = []
        for column in self._columns:
            form, offset = column.form, column.place.offset
            part: NDArray[Any]
            if form.quantized:
                shape = (count, *form.shape)
                part = np.ndarray(shape, form.stored, self.scratch, offset, column.view.strides)
            else:
                bytes_of_row = f"V{form.stored_nbytes}"
                part = np.ndarray(count, bytes_of_row, self.scratch, offset, (column.place.stride,))
            self._parts.append((form.name, form.quantized, part))


class _BatchForm:
    """How a minibatch of one size lies in one block of memory, and scratch for its draw."""

    def __init__(self, layout: Layout, batch_size: int) -> None:
        self.layout = layout
        self.batch_size = batch_size
        self._names = layout.names
        names, formats, raw_formats, offsets = [], [], [], []
        end = 0
        indices = Column(
            name="indices", shape=(), dtype=np.dtype("int64"), stored=np.dtype("int64")
        )
        for column in (indices, *layout.columns):
            names.append(column.name)
            formats.append((column.dtype, (batch_size, *column.shape)))
            # Columns that are stored as they are seen are copied as rows of bytes.
            raw_formats.append(
                formats[-1] if column.quantized else (f"V{column.stored_nbytes}", (batch_size,))
            )
            offsets.append(end)
            length = batch_size * column.elements * column.dtype.itemsize
            if length > _LARGEST_COLUMN:
                raise SampleRangeError(
                    f"a batch of {batch_size} takes {length:,} bytes for {column.name}, and at "
                    f"most {_LARGEST_COLUMN:,} are possible; draw it in parts"
                )
            end += -(-length // ALIGNMENT) * ALIGNMENT
        record = {"names": names, "offsets": offsets, "itemsize": end}
        self._fields = np.dtype({**record, "formats": formats})  # type: ignore[call-overload]
        self._raw = np.dtype({**record, "formats": raw_formats})  # type: ignore[call-overload]
        self._halves = np.empty((2, batch_size), np.uint64)
        self._high, self._low = self._halves
        self._span = np.array(0, np.uint64)

    def new_batch(self) -> Batch:
        """Fresh arrays: fields of one record, which NumPy gives as views at little cost."""
        block, offset = _aligned_block(self._fields.itemsize)
        fields = np.ndarray((), self._fields, block, offset)
        raw = np.ndarray((), self._raw, block, offset)
        indices = fields["indices"]
        plan = _Plan(self.layout, indices.view(np.uint64), raw)
        return Batch(self._names, [fields[name] for name in self._names], indices, plan=plan)

    def rows_of_span(self, words: NDArray[np.uint64], span: int, rows: NDArray[np.uint64]) -> None:
        """``rows = words * span >> 64``: the high half of a 128-bit product, for spans to 2**31."""
        self._span[()] = span
        np.right_shift(words, _HALF, self._high)
        np.bitwise_and(words, _LOW, self._low)
        np.multiply(self._halves, self._span, self._halves)
        np.right_shift(self._low, _HALF, self._low)
        np.add(self._high, self._low, self._high)
        np.right_shift(self._high, _HALF, rows)


class _Plan:
    """The arrays of one batch as a draw writes them."""

    __slots__ = ("layout", "raw", "rows")

    def __init__(self, layout: Layout, rows: NDArray[np.uint64], raw: NDArray[Any]) -> None:
        self.layout = layout
        self.rows = rows
        self.raw = raw


# As arrays, since an operation on an array and a scalar costs twice that on two arrays.
_HALF = np.array(32, np.uint64)
_LOW = np.array(0xFFFFFFFF, np.uint64)


def _number_bounds(dtype: np.dtype[Any]) -> dict[type, tuple[Any, Any]]:
    """Types of numbers that a column takes as they are between two bounds (NaN is between none)."""
    if dtype.kind == "b":
        return {bool: (False, True), np.bool_: (False, True)}
    integers = integer_limits(dtype)
    bounds: dict[type, tuple[Any, Any]] = {int: integers, np.int64: integers}
    if dtype.kind == "f":
        largest = float(np.finfo(dtype).max)
        bounds |= {float: (-largest, largest), np.float64: (-largest, largest)}
        bounds[dtype.type] = (-np.inf, np.inf)
    return bounds


def _aligned_zeros(rows: int, stride: int) -> NDArray[Any]:
    """``rows`` records on a 64-byte address; the memory's pages come as they are touched."""
    block = np.zeros(rows * stride + ALIGNMENT, np.uint8)
    return np.ndarray(rows, f"V{stride}", block, _padding(block))


def _aligned_block(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """Uninitialised memory, and the offset of its first 64-byte address."""
    block = np.empty(nbytes + ALIGNMENT, np.uint8)
    return block, _padding(block)


def _padding(block: NDArray[np.uint8]) -> int:
    # A quarter of what block.ctypes.data takes.
    return -ctypes.addressof(ctypes.c_char.from_buffer(block.data)) % ALIGNMENT
