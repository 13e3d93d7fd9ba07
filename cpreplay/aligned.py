"""Host memory that starts on a cache line. NumPy's own starts on 16 bytes."""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

ALIGNMENT = 64


def aligned_zeros(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """So many zeros, or zeroed records; the memory's pages come as they are touched."""
    dtype = np.dtype(dtype)
    block = np.zeros(count * dtype.itemsize + ALIGNMENT, np.uint8)
    return np.ndarray(count, dtype, block, _padding(block))


def aligned_block(nbytes: int) -> tuple[NDArray[np.uint8], int]:
    """Uninitialised memory, and the offset of its first 64-byte address."""
    block = np.empty(nbytes + ALIGNMENT, np.uint8)
    return block, _padding(block)


def _padding(block: NDArray[np.uint8]) -> int:
    # A quarter of what block.ctypes.data takes.
    return -ctypes.addressof(ctypes.c_char.from_buffer(block.data)) % ALIGNMENT
