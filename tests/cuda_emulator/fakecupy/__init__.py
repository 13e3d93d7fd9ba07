"""A narrow stand-in for CuPy: what the library's device path uses, and nothing else.

Anything it lacks raises AttributeError, so the surface cannot grow unseen; a test holds its names
against the real CuPy.  `modules()` says what to put into `sys.modules`.
"""

from numpy import (
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

from . import cuda
from ._arrays import (
    arange,
    array,
    asarray,
    ascontiguousarray,
    asnumpy,
    empty,
    from_dlpack,
    full,
    get_array_module,
    ndarray,
    ones,
    zeros,
)
from ._kernels import RawKernel, RawModule
from ._memory import get_default_memory_pool

__all__ = [
    "RawKernel",
    "RawModule",
    "arange",
    "array",
    "asarray",
    "ascontiguousarray",
    "asnumpy",
    "bool_",
    "cuda",
    "empty",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "full",
    "get_array_module",
    "get_default_memory_pool",
    "int8",
    "int16",
    "int32",
    "int64",
    "ndarray",
    "ones",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "zeros",
]

__version__ = "14.2.0"
