"""`cupy.cuda`."""

from .._memory import MemoryPointer, MemoryPool, UnownedMemory
from .._streams import Event, Graph, Stream, get_current_stream
from . import compiler, memory, nvrtc, runtime
from ._device import Device, is_available

__all__ = [
    "Device",
    "Event",
    "Graph",
    "MemoryPointer",
    "MemoryPool",
    "Stream",
    "UnownedMemory",
    "compiler",
    "get_current_stream",
    "is_available",
    "memory",
    "nvrtc",
    "runtime",
]
