"""DLPack capsules of fake device memory.

NumPy makes and reads the capsule's structure; only its device is changed to CUDA and back.
"""

import ctypes
from typing import Any

import numpy as np

from ._memory import find_block
from ._simulation import sim
from ._streams import get_current_stream, wait_for

CPU, CUDA = 1, 2
_LEGACY_STREAM = 1
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


class _Tensor(ctypes.Structure):
    """DLTensor, the first member of DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _tensor(capsule: Any) -> _Tensor:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    return _Tensor.from_address(pointer(capsule, b"dltensor"))


class Foreign:
    """Memory that another object keeps alive; it must lie inside the fake device's."""

    def __init__(self, owner: Any, ptr: int, view: np.ndarray) -> None:
        self.owner = owner
        self.ptr = ptr
        self.size = view.nbytes
        self.block = find_block(ptr, view.nbytes) if view.size else None
        self.device_id = self.block.device_id if self.block else 0


class _Held:
    """Lets NumPy make an array over device memory which keeps the owner alive."""

    def __init__(self, array: Any) -> None:
        self.owner = array._owner
        self.__array_interface__ = array._np.__array_interface__


def export(array: Any, stream: int | None) -> Any:
    """A capsule of a device array; the consumer's stream waits for the current one.

    None is the legacy stream, and -1 asks for no order. While a stream captures, the rules for
    events across its border hold here too.
    """
    if stream is None:
        stream = _LEGACY_STREAM
    if not isinstance(stream, int) or stream < -1 or stream == 0:
        raise ValueError(f"On CUDA, a stream for DLPack is -1, 1, 2 or larger, not {stream}")
    if stream != -1:
        producer, consumer = get_current_stream(), sim.queue_at(stream)
        if consumer is not producer._queue:
            wait_for(consumer, producer.record())
    capsule = np.asarray(_Held(array)).__dlpack__()
    tensor = _tensor(capsule)
    tensor.device_type, tensor.device_id = CUDA, array._owner.device_id
    return capsule


def read(capsule: Any) -> tuple[int, tuple[int, ...], np.dtype, tuple[int, ...] | None]:
    """Pointer, shape, dtype and strides (in bytes, or None) of a capsule."""
    tensor = _tensor(capsule)
    if tensor.device_type != CUDA:
        raise ValueError(f"fake: the capsule is of device type {tensor.device_type}")
    dtype = np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = None
    if tensor.strides:
        strides = tuple(tensor.strides[i] * dtype.itemsize for i in range(tensor.ndim))
    return (tensor.data or 0) + tensor.byte_offset, shape, dtype, strides
