"""`cupy.ndarray` and the functions that make one.  No arithmetic: the library has none."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from .. import emu
from . import _dlpack
from ._memory import (
    Block,
    MemoryPointer,
    check_live,
    host_view,
    is_pinned,
    mark_written,
    raw_memory,
)
from ._simulation import sim
from ._streams import get_current_stream

_ZERO_BY_PAGES = 1 << 20  # larger areas are zeroed by dropping their pages
_CAPTURING = "the current stream is capturing, so {} transfers are disallowed"


class Flags:
    """What CuPy tells about an array's layout; it has no `writeable`."""

    def __init__(self, flags: Any, owndata: bool) -> None:
        self.c_contiguous = flags.c_contiguous
        self.f_contiguous = flags.f_contiguous
        self.owndata = owndata

    def __getitem__(self, name: str) -> bool:
        return {
            "C_CONTIGUOUS": self.c_contiguous,
            "F_CONTIGUOUS": self.f_contiguous,
            "OWNDATA": self.owndata,
        }[name]


def _refuse_order(order: str | None, *meant: str | None) -> None:
    if order not in meant:
        raise NotImplementedError(f"fake: no order {order!r} here")


def _check_dtype(dtype: Any) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype.kind not in "?biufc":
        raise TypeError(f"Unsupported dtype {dtype}")
    return dtype


class ndarray:
    """An array on the device.

    `_np` is a NumPy array over the same bytes, for queued work to use; `_owner` keeps them alive.
    It is no np.ndarray, so that NumPy's functions refuse it as they refuse CuPy's.
    """

    __array_priority__ = 100
    __hash__ = None

    def __init__(
        self,
        shape: Any,
        dtype: Any = float,
        memptr: MemoryPointer | None = None,
        strides: Sequence[int] | None = None,
        order: str = "C",
    ) -> None:
        _refuse_order(order, "C", None)
        dtype = _check_dtype(dtype)
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        shape = tuple(int(n) for n in shape)
        self.base = None
        if memptr is None:
            nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            self._owner = Block(nbytes, get_current_stream(), f"{dtype}{list(shape)}")
            ptr = self._owner.ptr
        else:
            self._owner = memptr.mem
            ptr = memptr.ptr
        self._np = host_view(ptr, shape, dtype, strides)

    @classmethod
    def _over(cls, view: np.ndarray, owner: Any, base: Any = None) -> "ndarray":
        self = cls.__new__(cls)
        self._np = view
        self._owner = owner
        self.base = base
        return self

    def _view(self, view: np.ndarray) -> "ndarray":
        return ndarray._over(view, self._owner, self if self.base is None else self.base)

    shape = property(lambda self: self._np.shape)
    dtype = property(lambda self: self._np.dtype)
    size = property(lambda self: self._np.size)
    ndim = property(lambda self: self._np.ndim)
    nbytes = property(lambda self: self._np.nbytes)
    itemsize = property(lambda self: self._np.itemsize)
    strides = property(lambda self: self._np.strides)
    flags = property(lambda self: Flags(self._np.flags, self.base is None))
    T = property(lambda self: self._view(self._np.T))

    @property
    def data(self) -> MemoryPointer:
        if not self.size:
            return MemoryPointer(None, 0)
        return MemoryPointer(self._owner, self._np.ctypes.data - self._owner.ptr)

    @property
    def device(self) -> Any:
        from .cuda import Device

        return Device(self._owner.device_id)

    # -- refusals: what CuPy refuses too, and what would silently mean something else here

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __eq__(self, other: object) -> NoReturn:
        raise NotImplementedError("fake: no elementwise operations; compare what .get() returns")

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__

    # -- to the host

    def get(
        self,
        stream: Any = None,
        order: str = "C",
        out: np.ndarray | None = None,
        blocking: bool = True,
    ) -> np.ndarray:
        _refuse_order(order, "C")
        queue = (stream or get_current_stream())._queue
        queue.check_not_implicit()
        if queue.capture:
            raise RuntimeError(_CAPTURING.format("D2H"))
        if out is None:
            out = np.empty(self.shape, self.dtype)
        elif not isinstance(out, np.ndarray):
            raise TypeError("Only numpy.ndarray can be obtained from cupy.ndarray")
        elif out.dtype != self.dtype:
            raise TypeError(f"{out.dtype} array cannot be obtained from {self.dtype} array")
        elif out.shape != self.shape:
            raise ValueError(f"Shape mismatch. Expected shape: {self.shape}, actual: {out.shape}")
        source, raw = self._np, raw_memory(self._owner)

        def copy(raw: Any = raw) -> None:  # the default keeps the memory mapped until this runs
            check_live(source, "D2H copy")
            np.copyto(out, source)

        queue.put(copy, "D2H copy")
        sim.note("d2h_copies")
        if blocking:
            queue.wait()
        return out

    def item(self) -> Any:
        return self.get().item()

    def tolist(self) -> Any:
        return self.get().tolist()

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __index__(self) -> int:
        return self.get().__index__()

    def __len__(self) -> int:
        return len(self._np)

    # -- writing

    def _write(
        self,
        work: Callable[[np.ndarray], object],
        name: str,
        stream: Any = None,
        source: "ndarray | None" = None,
    ) -> None:
        """Queue work that fills this array, perhaps from another device array.

        No array is kept alive for it, on no stream and in no graph, as on a real device: only the
        raw memory is, so that a mistake is reported instead of crashing.
        """
        target, read = self._np, None if source is None else source._np
        raw = (raw_memory(self._owner), None if source is None else raw_memory(source._owner))

        def run(raw: Any = raw) -> None:  # the default is what holds it
            if read is not None:
                check_live(read, name)
            check_live(target, name)
            work(target)
            mark_written(target)

        (stream or get_current_stream())._queue.put(run, name)

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if arr.shape != self.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not (self.flags.c_contiguous or self.flags.f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        queue = (stream or get_current_stream())._queue
        queue.check_not_implicit()
        if queue.capture:
            raise RuntimeError(_CAPTURING.format("H2D"))
        # pageable memory is staged at once, pinned memory is read when the copy runs
        source = arr if is_pinned(arr) else arr.copy()
        self._write(lambda target: np.copyto(target, source), "H2D copy", stream)
        sim.note("h2d_copies")

    def fill(self, value: Any) -> None:
        value = np.asarray(value.get() if isinstance(value, ndarray) else value)
        if value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        value = value.astype(self.dtype)  # the value is baked into a graph, as CuPy's is

        def work(target: np.ndarray) -> None:
            drop_pages = target.nbytes >= _ZERO_BY_PAGES and not value.tobytes().strip(b"\0")
            if drop_pages and target.flags.c_contiguous:
                emu.core().emu_zero(target.ctypes.data, target.nbytes)
            else:
                target.fill(value)

        self._write(work, "fill")

    def _copy_from(self, source: "ndarray", name: str) -> None:
        """Queue a copy from another device array, of any dtype, broadcast to this one's shape."""
        view = np.broadcast_to(source._np, self.shape)

        def work(target: np.ndarray) -> None:
            with np.errstate(all="ignore"):
                np.copyto(target, view, casting="unsafe")

        self._write(work, name, source=source)

    # -- views and indexing

    def _basic(self, key: Any) -> np.ndarray:
        """The view of a basic index; one element is a 0-d view, not a scalar."""
        keys = key if isinstance(key, tuple) else (key,)
        for k in keys:
            if not (k is None or k is Ellipsis or isinstance(k, (slice, int, np.integer))):
                raise NotImplementedError(f"fake: basic indexing only, not {type(k).__name__}")
            if isinstance(k, bool):
                raise NotImplementedError("fake: basic indexing only, not bool")
        if not any(k is Ellipsis for k in keys):
            keys = (*keys, Ellipsis)
        return self._np[keys]

    def __getitem__(self, key: Any) -> "ndarray":
        return self._view(self._basic(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        target = self[key]
        if isinstance(value, ndarray):
            target._copy_from(value, "D2D copy")
        elif isinstance(value, np.ndarray) and value.ndim:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        else:
            target.fill(value)

    def reshape(self, *shape: Any, order: str = "C") -> "ndarray":
        _refuse_order(order, "C")
        view = self._np.reshape(*shape)
        if self.size and not np.may_share_memory(view, self._np):
            return self.copy().reshape(*shape)
        return self._view(view)

    def ravel(self, order: str = "C") -> "ndarray":
        return self.reshape(-1, order=order)

    def view(self, dtype: Any = None) -> "ndarray":
        return self._view(self._np.view(self.dtype if dtype is None else _check_dtype(dtype)))

    def copy(self, order: str = "C") -> "ndarray":
        return self.astype(self.dtype, order)

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: Any = None,
        subok: Any = None,
        copy: bool = True,
    ) -> "ndarray":
        _refuse_order(order, "C", "K")
        if casting is not None or subok is not None:
            raise NotImplementedError("fake: no casting= and no subok=")
        dtype = _check_dtype(dtype)
        if not copy and dtype == self.dtype and (order == "K" or self.flags.c_contiguous):
            return self
        made = ndarray(self.shape, dtype)
        if self.size:  # "K" keeps the order of the axes in memory, so a transposed array stays so
            strides = np.empty_like(self._np, dtype, order=order).strides
            made = ndarray(self.shape, dtype, made.data, strides)
        made._copy_from(self, "copy" if dtype == self.dtype else "astype")
        return made

    # -- exchange with other libraries

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self.data.ptr, False),
            "strides": None if self.flags.c_contiguous else self.strides,
            "version": 3,
            "stream": get_current_stream().ptr or 1,
        }

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        # max_version is the newest that the consumer knows; the oldest is made
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise NotImplementedError("fake: a capsule is of the array itself, where it lies")
        return _dlpack.export(self, stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_dlpack.CUDA, self._owner.device_id)


# ---- functions that make arrays


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return ndarray(shape, dtype, order=order)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> ndarray:
    if dtype is None:
        dtype = fill_value.dtype if isinstance(fill_value, ndarray) else np.array(fill_value).dtype
    made = ndarray(shape, dtype, order=order)
    made[...] = fill_value
    return made


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return full(shape, 0, dtype, order)


def ones(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return full(shape, 1, dtype, order)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    values = np.arange(start, dtype=dtype) if stop is None else np.arange(start, stop, step, dtype)
    made = ndarray(values.shape, values.dtype)
    made._write(lambda target: np.copyto(target, values), "arange")  # a kernel, no copy
    return made


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    blocking: bool = False,
) -> ndarray:
    _refuse_order(order, "C", "K", None)
    if copy is False:
        raise NotImplementedError("fake: no copy=False")
    if isinstance(a, ndarray):
        made = a
    elif hasattr(a, "__cuda_array_interface__"):
        made = _from_interface(a)
    else:
        return _from_host(a, dtype, blocking)
    dtype = made.dtype if dtype is None else dtype
    return made.astype(dtype, order or "K", copy=bool(copy))


def array(
    obj: Any,
    dtype: Any = None,
    copy: bool = True,
    order: str = "K",
    subok: Any = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> ndarray:
    if ndmin or subok:
        raise NotImplementedError("fake: no ndmin= and no subok=")
    return asarray(obj, dtype, order, copy=copy or None, blocking=blocking)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    made = asarray(a, dtype)
    if not made.ndim:
        return made.reshape(1)
    return made if made.flags.c_contiguous else made.copy()


def _from_host(a: Any, dtype: Any, blocking: bool) -> ndarray:
    host = np.asarray(a, dtype)
    _check_dtype(host.dtype)
    host = np.asarray(host, order="C")
    made = ndarray(host.shape, host.dtype)
    if host.ndim:
        # CuPy stages even pinned memory here
        made.set(host.copy() if is_pinned(host) else host)
        if blocking:
            get_current_stream().synchronize()
    else:
        made.fill(host)
    return made


def _from_interface(a: Any) -> ndarray:
    """Another library's device array, not copied.  Its stream is waited for, as CuPy does."""
    described = a.__cuda_array_interface__
    dtype, shape = _check_dtype(described["typestr"]), tuple(described["shape"])
    ptr = described["data"][0]
    stream = described.get("stream")
    if stream is not None:
        sim.queue_at(stream).wait()
    view = host_view(ptr, shape, dtype, described.get("strides"))
    return ndarray._over(view, _dlpack.Foreign(a, ptr, view))


def asnumpy(
    a: Any,
    stream: Any = None,
    order: str = "C",
    out: np.ndarray | None = None,
    *,
    blocking: bool = True,
) -> np.ndarray:
    if isinstance(a, ndarray):
        return a.get(stream, order, out, blocking)
    if hasattr(a, "__cuda_array_interface__"):
        return asarray(a).get(stream, order, out, blocking)
    host = np.asarray(a, order=order)
    if out is None:
        return host
    np.copyto(out, host)
    return out


def from_dlpack(array: Any, *, device: Any = None, copy: bool | None = None) -> ndarray:
    if device is not None or copy:
        raise NotImplementedError("fake: no device= and no copy=True")
    if array.__dlpack_device__()[0] != _dlpack.CUDA:
        raise TypeError(
            "CPU arrays cannot be directly imported to CuPy. "
            "Use `cupy.array(numpy.from_dlpack(input))` instead."
        )
    capsule = array.__dlpack__(stream=get_current_stream().ptr or 1)
    ptr, shape, dtype, strides = _dlpack.read(capsule)
    view = host_view(ptr, shape, dtype, strides)
    return ndarray._over(view, _dlpack.Foreign(capsule, ptr, view))


def get_array_module(*args: Any) -> Any:
    fake = sys.modules[__package__]
    return fake if any(isinstance(a, ndarray) for a in args) else np
