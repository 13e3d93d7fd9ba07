"""Replay memory for off-policy reinforcement learning, on NumPy and CUDA."""

from cpreplay.batch import Batch
from cpreplay.errors import (
    CaptureError,
    ColumnNameError,
    ColumnValueError,
    ConfigurationError,
    CopyError,
    DeviceUnavailableError,
    DTypeError,
    EmptyBufferError,
    InvariantError,
    MemoryLimitError,
    OrderError,
    ReplayError,
    SampleRangeError,
    ShapeError,
)
from cpreplay.replay import StoreReplay, StoreReplayGpu
from cpreplay.schema import Column
from cpreplay.steps import (
    ReplaySampleStep,
    StorePerSampleCpuStep,
    StorePerSampleGpuStep,
    StoreUniformSampleCpuStep,
    StoreUniformSampleGpuStep,
)

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "CaptureError",
    "Column",
    "ColumnNameError",
    "ColumnValueError",
    "ConfigurationError",
    "CopyError",
    "DTypeError",
    "DeviceUnavailableError",
    "EmptyBufferError",
    "InvariantError",
    "MemoryLimitError",
    "OrderError",
    "ReplayError",
    "ReplaySampleStep",
    "SampleRangeError",
    "ShapeError",
    "StorePerSampleCpuStep",
    "StorePerSampleGpuStep",
    "StoreReplay",
    "StoreReplayGpu",
    "StoreUniformSampleCpuStep",
    "StoreUniformSampleGpuStep",
    "__version__",
]
