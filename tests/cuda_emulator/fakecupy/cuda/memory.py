"""`cupy.cuda.memory`."""

from .._errors import OutOfMemoryError
from .._memory import MemoryPointer, MemoryPool, UnownedMemory

__all__ = [
    "MemoryPointer",
    "MemoryPool",
    "OutOfMemoryError",
    "UnownedMemory",
]
