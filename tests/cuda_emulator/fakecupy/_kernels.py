"""`cupy.RawModule` and `cupy.RawKernel`, compiled for the emulator, with arguments checked."""

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import emu
from ._arrays import ndarray
from ._errors import CUDADriverError
from ._memory import MemoryPointer, describe_address
from ._simulation import sim
from ._streams import get_current_stream

_DEFINE = re.compile(r"-{1,2}(?:D|define-macro=)\s*(.*)")
_INCLUDE = re.compile(r"-{1,2}(?:I|include-path=)")
_SHARED_LIMIT = 48 * 1024  # bytes, static and dynamic, unless a kernel asks for more
_SHARED_MOST = 227 * 1024  # that it can ask for


def _compile(
    code: str, options: tuple[str, ...], name_expressions: tuple[str, ...] = ()
) -> emu.Module:
    if any(_INCLUDE.match(o) for o in options):
        # CuPy's cache does not see the text of included headers, so the library inlines them
        raise NotImplementedError("fake: no include path")
    defines = [found[1] for found in map(_DEFINE.fullmatch, options) if found]
    return emu.module(code, name_expressions, tuple(defines), emu.config.mode)


class RawModule:
    """Compiled CUDA source; compiled when a function is first asked for, as CuPy does."""

    def __init__(
        self,
        code: str | None = None,
        *,
        path: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Any = None,
        jitify: Any = None,
    ) -> None:
        if code is None or path is not None:
            raise NotImplementedError("fake: code= only")
        if backend != "nvrtc" or translate_cucomplex or enable_cooperative_groups or jitify:
            raise NotImplementedError("fake: the nvrtc back end only, without its extras")
        if not isinstance(options, tuple):
            raise TypeError("Argument 'options' has incorrect type (expected tuple)")
        self.code = code
        self.options = options
        self.backend = backend
        self.name_expressions = name_expressions
        self._module = None

    def compile(self, log_stream: Any = None) -> None:
        if log_stream is not None:
            raise NotImplementedError("fake: no log of a compilation")
        if self._module is None:
            self._module = _compile(self.code, self.options, tuple(self.name_expressions or ()))

    def get_function(self, name: str) -> "RawKernel":
        self.compile()
        kernel = RawKernel(self.code, name, self.options, self.backend)
        kernel._load(self._module)
        return kernel


class RawKernel:
    """One kernel of a CUDA source; compiled at its first call, as CuPy does."""

    def __init__(
        self,
        code: str | None,
        name: str,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        *,
        enable_cooperative_groups: bool = False,
        jitify: Any = None,
    ) -> None:
        if backend != "nvrtc" or translate_cucomplex or enable_cooperative_groups or jitify:
            raise NotImplementedError("fake: the nvrtc back end only, without its extras")
        if not isinstance(options, tuple):
            raise TypeError("Argument 'options' has incorrect type (expected tuple)")
        self.code = code
        self.name = name
        self.options = options
        self.backend = backend
        self.max_dynamic_shared_size_bytes = _SHARED_LIMIT
        self._module = None

    def _load(self, module: emu.Module) -> None:
        if self.name not in module.entry_points:
            raise CUDADriverError(f"CUDA_ERROR_NOT_FOUND: named symbol not found ({self.name})")
        self._module = module
        self._signature = module.signature(self.name)
        self._max_threads = _launch_bounds(self.code, self.name)

    def compile(self, log_stream: Any = None) -> None:
        if log_stream is not None:
            raise NotImplementedError("fake: no log of a compilation")
        if self._module is None:
            self._load(_compile(self.code, self.options))

    def __call__(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        self.compile()
        grid, block = _three(grid), _three(block)
        threads = block[0] * block[1] * block[2]
        too_large = grid[0] >= 1 << 31 or max(grid[1:]) > 65535 or block[2] > 64
        if threads > self._max_threads or too_large:
            raise CUDADriverError(
                f"CUDA_ERROR_INVALID_VALUE: {self.name} grid {grid} block {block}"
            )
        asked = self.max_dynamic_shared_size_bytes
        if shared_mem > asked or asked > _SHARED_MOST:
            raise CUDADriverError("CUDA_ERROR_INVALID_VALUE: dynamic shared memory over the limit")
        shared_limit = _SHARED_MOST if asked > _SHARED_LIMIT else _SHARED_LIMIT
        if len(args) != len(self._signature):
            raise TypeError(
                f"{self.name} takes {len(self._signature)} arguments, got {len(args)} "
                "(CuPy does not check this)"
            )
        packed = tuple(
            _pack(f"{self.name} argument {i}", arg, code, size)
            for i, (arg, (code, size)) in enumerate(zip(args, self._signature, strict=True))
        )
        module, name = self._module, self.name

        def run() -> None:
            try:
                accesses = module.launch(name, grid, block, packed, shared_mem, shared_limit)
            except emu.EmuError as error:
                if error.address:
                    error.add_note(describe_address(error.address))
                raise
            sim.note("ran", (name, accesses))

        (stream or get_current_stream())._queue.put(run, name)
        sim.note("launch_names", name)


def _three(dims: Sequence[int]) -> tuple[int, ...]:
    """Three dimensions; CuPy too turns 0 into 1."""
    return tuple(max(1, int(d)) for d in (*dims, 1, 1)[:3])


def _launch_bounds(code: str, name: str) -> int:
    """The kernel's `__launch_bounds__`, or 1024."""
    kernel = re.escape(name.split("<")[0])
    found = re.search(r"__launch_bounds__\s*\(\s*(\d+)[^)]*\)\s*" + kernel + r"\s*\(", code)
    return int(found[1]) if found else 1024


_PYTHON_SCALARS = ((bool, np.bool_), (int, np.int64), (float, np.float64))


def _pack(where: str, arg: Any, code: str, size: int) -> Any:
    """One argument as a ctypes object, baked here as cuLaunchKernel bakes it.

    `code` is the parameter's type: NumPy's code of a scalar, "V" for a struct, and after "*" or
    "c*" what a pointer (to const) points to.
    """
    if "*" in code:
        return _pack_pointer(where, arg, code)
    if isinstance(arg, (ndarray, MemoryPointer)):
        raise TypeError(f"{where}: the kernel takes {code} by value, got device memory")
    if isinstance(arg, np.ndarray) and arg.size != 1:
        raise TypeError(f"{where}: an np.ndarray goes by value, so it has one element")
    if isinstance(arg, np.void):
        raise TypeError(f"Unsupported type {type(arg)} ({where}): pass a one-element np.ndarray")
    dtype = _scalar_dtype(where, arg)
    if code == "V":
        if dtype.kind != "V" or dtype.itemsize != size:
            raise TypeError(
                f"{where}: the kernel takes a struct of {size} bytes, got {dtype} of "
                f"{dtype.itemsize} (CuPy does not check this)"
            )
    elif dtype.kind != np.dtype(code).kind or dtype.itemsize != size:
        raise TypeError(
            f"{where}: the kernel takes {code}, CuPy would pass {dtype} ({dtype.itemsize} bytes); "
            f"wrap it in numpy.{np.dtype(code)}"
        )
    return (ctypes.c_char * size).from_buffer_copy(np.asarray(arg, dtype).tobytes())


def _scalar_dtype(where: str, arg: Any) -> np.dtype:
    """What CuPy would pass an argument as."""
    if isinstance(arg, (np.ndarray, np.number, np.bool_)):
        return arg.dtype
    for python_type, numpy_type in _PYTHON_SCALARS:
        if isinstance(arg, python_type):
            return np.dtype(numpy_type)
    raise TypeError(f"Unsupported type {type(arg)} ({where})")


def _pack_pointer(where: str, arg: Any, code: str) -> ctypes.c_void_p:
    if arg is None:
        return ctypes.c_void_p(0)
    if isinstance(arg, (ndarray, MemoryPointer)):
        memory = arg.data if isinstance(arg, ndarray) else arg
        if memory.mem is not None and memory.device_id != sim.device_stack[-1]:
            raise TypeError(
                f"{where}: memory of device {memory.device_id}, launched on device "
                f"{sim.device_stack[-1]} (CuPy does not check this)"
            )
    if isinstance(arg, ndarray):
        pointee = code.split("*")[1]
        if pointee != "V" and not _same_bytes(arg.dtype, np.dtype(pointee)):
            raise TypeError(f"{where}: the kernel takes {code}, got an array of {arg.dtype}")
        if not arg.flags.c_contiguous:
            raise TypeError(f"{where}: not C-contiguous; a raw kernel sees the bare pointer")
        return ctypes.c_void_p(arg.data.ptr)
    if isinstance(arg, MemoryPointer):
        return ctypes.c_void_p(arg.ptr)
    if isinstance(arg, (int, np.integer)) and not isinstance(arg, bool):
        return ctypes.c_void_p(int(arg))
    raise TypeError(f"{where}: a pointer is wanted, got {type(arg).__name__}")


def _same_bytes(given: np.dtype, wanted: np.dtype) -> bool:
    """Is it the same type, where bool and uint8 count as one?"""
    bytes_like = {np.dtype(np.bool_), np.dtype(np.uint8)}
    return given == wanted or {given, wanted} == bytes_like
