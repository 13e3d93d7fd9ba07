"""Replay memory for off-policy reinforcement learning, on NumPy and CUDA."""

from cpreplay.batch import Batch
from cpreplay.demos import (
    DemoFilter,
    DemoLoadReport,
    DemoSet,
    DemoSummary,
    load_demos_into_replay,
    read_demo_file,
    write_demo_file,
)
from cpreplay.errors import (
    CaptureError,
    ColumnNameError,
    ColumnValueError,
    ConfigurationError,
    CopyError,
    DemoFileError,
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
from cpreplay.nstep import GPUNStepBuffer, NStepBuffer
from cpreplay.nstep_steps import NStepSampleStep
from cpreplay.nstep_transitions import NStepTransitions
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
    "DemoFileError",
    "DemoFilter",
    "DemoLoadReport",
    "DemoSet",
    "DemoSummary",
    "DeviceUnavailableError",
    "EmptyBufferError",
    "GPUNStepBuffer",
    "InvariantError",
    "MemoryLimitError",
    "NStepBuffer",
    "NStepSampleStep",
    "NStepTransitions",
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
    "load_demos_into_replay",
    "read_demo_file",
    "write_demo_file",
]
