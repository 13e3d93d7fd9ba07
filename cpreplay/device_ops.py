"""Ops on CuPy and our kernels.

The contract is in `ops`. CuPy is imported when the first device buffer is made, never before.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay import kernels
from cpreplay.batch import Batch
from cpreplay.control import CONTROL, new_control
from cpreplay.errors import CaptureError, ConfigurationError, DeviceUnavailableError
from cpreplay.inputs import ANY_ROWS, MASK, check_shape, host_array, refuse_dtype
from cpreplay.integers import is_int
from cpreplay.schema import MAX_COLUMNS, Column, Layout

# DLPack's numbers for memory that CUDA kernels can read (CUDA, CUDA managed).
_DLPACK_DEVICE = (2, 13)

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
        ("quantized", "<i8"),
    ]
)
_COLUMNS = np.dtype([("count", "<i8"), ("at", _COLUMN, MAX_COLUMNS)])
_LAST_INVALID = np.dtype("uint64")
_BATCH = np.dtype([("at", "<u8", MAX_COLUMNS)])


def import_cupy() -> Any:
    """CuPy, once it is certain that a kernel can be compiled and run.

    Raises
    ------
    DeviceUnavailableError
        CuPy, the wheels that it compiles with, a driver or a card is missing: the message says
        which, and what to install.
    """
    try:
        cupy = importlib.import_module("cupy")
    except Exception as error:  # a broken installation fails with more than ImportError
        raise DeviceUnavailableError(
            "StoreReplayGpu needs CuPy, and importing it failed "
            f"({type(error).__name__}: {error}); pip install 'cpreplay[cuda12]' or "
            "'cpreplay[cuda13]', as your driver is"
        ) from error
    runtime = cupy.cuda.runtime
    if not cupy.cuda.is_available():
        if runtime.driverGetVersion() == 0:
            raise DeviceUnavailableError(
                "StoreReplayGpu needs an NVIDIA driver, and none is installed (libcuda is "
                "missing); install it, or use StoreReplay"
            )
        raise DeviceUnavailableError(
            "StoreReplayGpu needs a CUDA card, and the driver finds none; look at nvidia-smi and "
            "CUDA_VISIBLE_DEVICES, or use StoreReplay"
        )
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # CuPy reports a missing library as a RuntimeError of its own
        raise DeviceUnavailableError(
            f"StoreReplayGpu compiles its kernels with NVRTC, and CuPy cannot load it ({error}); "
            "pip install 'cpreplay[cuda12]' or 'cpreplay[cuda13]' brings the wheels it needs"
        ) from error
    return cupy


def device_memory(cupy: Any) -> int:
    """Bytes of memory of the current card."""
    return int(cupy.cuda.Device().mem_info[1])


def device_number(cupy: Any, device: Any) -> int:
    """The number of a card: the current one for None."""
    if device is None:
        return int(cupy.cuda.runtime.getDevice())
    count = int(cupy.cuda.runtime.getDeviceCount())
    if not (is_int(device) and 0 <= device < count):
        raise ConfigurationError(f"device={device!r}: this machine has {count}, numbered from 0")
    return int(device)


def device_row_nbytes(layout: Layout) -> int:
    """Bytes that one transition takes on a card."""
    return layout.row_nbytes + (_LAST_INVALID.itemsize if layout.quantizes else 0)


def _compiled_kernels(cupy: Any) -> Mapping[str, Any]:
    """Every kernel, compiled now, so that what is missing shows here and not at the first add."""
    loaded = kernels.load(cupy)
    try:
        for kernel in loaded.values():
            kernel.compile()
    except Exception as error:  # CuPy has no one class for what may be missing
        raise DeviceUnavailableError(
            f"StoreReplayGpu cannot compile its kernels ({type(error).__name__}: {error}); pip "
            "install 'cpreplay[cuda12]' or 'cpreplay[cuda13]' brings the wheels it needs"
        ) from error
    return loaded


class DeviceOps:
    """Rows and draws of one buffer in the memory of one card."""

    def __init__(self, cupy: Any, layout: Layout, capacity: int, key: int) -> None:
        self._cupy = cupy
        self._device = int(cupy.cuda.runtime.getDevice())
        self._kernels = _compiled_kernels(cupy)
        self._layout = layout
        # As they are uploaded: the device itself quantises.
        self._columns = [attrs.evolve(column, stored=column.dtype) for column in layout.columns]
        self._control = cupy.empty(CONTROL.itemsize, np.uint8)
        self._control.set(new_control(capacity, key).view(np.uint8))
        self._capacity = capacity
        self._arrays = [cupy.zeros((capacity, stride), np.uint8) for stride in layout.strides]
        # Which write of each row had to be clamped last; see store_codes in rows.cu.
        self._last_invalid = cupy.zeros(capacity if layout.quantizes else 1, _LAST_INVALID)
        self._table = np.zeros(1, _COLUMNS)
        self._table["count"] = len(layout.columns)
        for number, (column, place) in enumerate(zip(layout.columns, layout.places, strict=True)):
            self._table["at"][0, number] = (
                self._arrays[place.array].data.ptr + place.offset,
                place.stride,
                column.elements,
                column.elements * column.dtype.itemsize,
                column.quantized,
            )

    # Rows

    @property
    def nbytes(self) -> int:
        arrays = (*self._arrays, self._control, self._last_invalid)
        return int(sum(array.nbytes for array in arrays))

    def add(self, values: Sequence[Any]) -> None:
        pairs = zip(values, self._columns, strict=True)
        self.store(
            self._uploaded([self._checked(value, column, None) for value, column in pairs]), 1
        )

    def ingest(self, values: Sequence[Any]) -> tuple[list[Any], int]:
        first = self._checked(values[0], self._columns[0], ANY_ROWS)
        rest = zip(values[1:], self._columns[1:], strict=True)
        rows = len(first)
        columns = [first, *(self._checked(value, column, rows) for value, column in rest)]
        return self._uploaded(columns), rows

    def _checked(self, value: Any, column: Column, rows: int | None) -> Any:
        """An array of the column's dtype, on the device or still on the host."""
        if _on_device(value):
            return self._device_array(value, column, rows)
        return host_array(value, column, rows)

    def _uploaded(self, ready: list[Any]) -> list[Any]:
        """The same arrays, those of the host copied to the device in one transfer."""
        on_host = [number for number, array in enumerate(ready) if isinstance(array, np.ndarray)]
        if on_host:
            self._refuse_capture("an add of host arrays (give CuPy arrays)")
            uploaded = self._upload([ready[number] for number in on_host])
            for number, array in zip(on_host, uploaded, strict=True):
                ready[number] = array
        return ready

    def ingest_mask(self, mask: Any, rows: int) -> tuple[Any, int | None]:
        if _on_device(mask):
            return self._device_array(mask, MASK, rows), None
        array = host_array(mask, MASK, rows)
        self._refuse_capture("an add with a host mask (give a CuPy array)")
        return self._upload([array])[0], int(np.count_nonzero(array))

    def store(self, columns: Sequence[Any], rows: int, mask: Any = None) -> None:
        if rows == 0:
            return
        # Wide rows are spread over more blocks, and a tile of few rows leaves no block idle.
        row_bytes = int(self._table["at"]["bytes"].sum())
        tile = max(1, min(_MAX_TILE, 64 * 1024 // row_bytes))
        slices = max(1, min(32, row_bytes * tile // (16 * _THREADS)))
        grid = (min(-(-rows // tile), _MAX_BLOCKS), slices)
        self._launch(
            "store_rows", grid, self._control, self._table, _pointers(columns), np.int64(rows),
            mask, np.int64(tile), self._last_invalid,
        )  # fmt: skip
        threads = 1 if mask is None else _THREADS
        self._launch("move_cursor", (1,), self._control, np.int64(rows), mask, threads=threads)

    def make_batch(self, batch_size: int) -> Batch:
        self._check_device()
        self._refuse_capture("allocating a batch (make it with make_batch, and give it as out)")
        arrays = [
            self._cupy.empty((batch_size, *column.shape), column.dtype)
            for column in self._layout.columns
        ]
        indices = self._cupy.empty(batch_size, np.int64)
        plan = _Plan(self._layout, _pointers(arrays))
        return Batch(self._layout.names, arrays, indices, plan=plan)

    def accepts(self, batch: Batch) -> bool:
        plan = batch._plan
        if not isinstance(plan, _Plan):
            return False
        return plan.layout is self._layout or plan.layout == self._layout

    def column(self, number: int) -> Any:
        column, place = self._layout.columns[number], self._layout.places[number]
        return self._cupy.ndarray(
            (self._capacity, *column.shape),
            column.stored,
            memptr=self._arrays[place.array].data + place.offset,
            strides=(place.stride, *np.empty(column.shape, column.stored).strides),
        )

    def to_host(self, array: Any) -> NDArray[Any]:
        self._refuse_capture("reading rows")
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
        self._refuse_capture("configure_ere")
        self._launch(
            "configure_ere", (1,), self._control, np.int64(enable), np.float64(eta),
            np.int64(c_min), np.int64(k_max), threads=1,
        )  # fmt: skip

    def pin_demos(self, count: int) -> None:
        self._refuse_capture("pin_demo_prefix")
        self._launch("pin_demos", (1,), self._control, np.int64(count), threads=1)

    def control(self) -> dict[str, int | float]:
        self._refuse_capture("reading the buffer's state")
        record = self._control.get().view(CONTROL)[0]
        return {name: record[name].item() for name in CONTROL.names or ()}

    def synchronize(self) -> None:
        self._refuse_capture("synchronize")
        self._cupy.cuda.get_current_stream().synchronize()

    @property
    def capturing(self) -> bool:
        return bool(self._cupy.cuda.get_current_stream().is_capturing())

    # Parts of the above

    def _launch(
        self, name: str, grid: tuple[int, ...], *args: Any, threads: int = _THREADS
    ) -> None:
        self._check_device()
        self._kernels[name](grid, (threads,), args)

    def _check_device(self) -> None:
        current = int(self._cupy.cuda.runtime.getDevice())
        if current != self._device:
            raise ConfigurationError(
                f"this buffer lies on device {self._device}, and device {current} is current; wrap "
                f"the call in `with cupy.cuda.Device({self._device}):`"
            )

    def _gather(self, batch: Batch, *, by_policy: bool) -> None:
        lanes = len(batch)
        words = int(self._table["at"]["bytes"].max()) // 4 + 1
        self._launch(
            "gather_rows", _blocks(lanes * words), self._control, self._table,
            batch._plan.pointers, np.int64(lanes), batch.indices, np.int64(by_policy),
        )  # fmt: skip

    def _device_array(self, value: Any, column: Column, rows: int | None) -> Any:
        cupy = self._cupy
        if not isinstance(value, cupy.ndarray):
            if hasattr(value, "__cuda_array_interface__"):
                value = cupy.asarray(value)
            else:
                value = cupy.from_dlpack(value)
        check_shape(value.shape, column, rows)
        if value.dtype != column.dtype:
            floats = value.dtype.kind == column.dtype.kind == "f"
            if not floats and not np.can_cast(value.dtype, column.dtype, "safe"):
                raise refuse_dtype(value.dtype, column)
            self._refuse_capture(
                f"{column.name}: casting {value.dtype} to {column.dtype} (give {column.dtype})"
            )
            return value.astype(column.dtype)
        if not value.flags.c_contiguous:
            self._refuse_capture(f"{column.name}: copying a strided array (make it contiguous)")
            return cupy.ascontiguousarray(value)
        return value

    def _upload(self, arrays: list[NDArray[Any]]) -> list[Any]:
        """Copies of host arrays, in one block and by one transfer."""
        offsets, end = [], 0
        for array in arrays:
            offsets.append(end)
            end += -(-array.nbytes // 16) * 16
        staged = np.zeros(end, np.uint8)
        for array, offset in zip(arrays, offsets, strict=True):
            part = staged[offset : offset + array.nbytes]
            part.view(array.dtype).reshape(array.shape)[...] = array
        block = self._cupy.empty(end, np.uint8)
        block.set(staged)
        return [
            block[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
            for array, offset in zip(arrays, offsets, strict=True)
        ]

    def _refuse_capture(self, what: str) -> None:
        if self.capturing:
            raise CaptureError(
                f"{what} cannot be part of a CUDA graph, and the current stream is capturing; do "
                "it before the capture"
            )


class _Plan:
    """Where the arrays of one batch lie."""

    __slots__ = ("layout", "pointers")

    def __init__(self, layout: Layout, pointers: NDArray[Any]) -> None:
        self.layout = layout
        self.pointers = pointers


def _pointers(arrays: Iterable[Any]) -> NDArray[Any]:
    """The addresses of a batch's columns, as a struct that a kernel takes by value."""
    batch = np.zeros(1, _BATCH)
    addresses = [array.data.ptr for array in arrays]
    batch["at"][0, : len(addresses)] = addresses
    return batch


def _on_device(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return False
    if hasattr(value, "__cuda_array_interface__"):
        return True
    return hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in _DLPACK_DEVICE


def _blocks(items: int) -> tuple[int]:
    return (max(1, min(-(-items // _THREADS), _MAX_BLOCKS)),)
