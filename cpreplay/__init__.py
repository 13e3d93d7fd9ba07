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
    CheckpointError,
    CheckpointVersionError,
    CheckpointWarning,
    ColumnNameError,
    ColumnValueError,
    ConfigurationError,
    CopyError,
    DemoFileError,
    DeviceUnavailableError,
    DTypeError,
    EmptyBufferError,
    InvariantError,
    MarkerLabelError,
    MarkerOverflowError,
    MarkerTypeError,
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
from cpreplay.replay_salvage import SalvageReport
from cpreplay.restart import Restart, RestartPool, RestartPoolConfiguration
from cpreplay.schedule import Schedule, validate_probability
from cpreplay.schema import Column
from cpreplay.steps import (
    ReplaySampleStep,
    StorePerSampleCpuStep,
    StorePerSampleGpuStep,
    StoreUniformSampleCpuStep,
    StoreUniformSampleGpuStep,
)
from cpreplay.version import __version__

__all__ = [
    "Batch",
    "CaptureError",
    "CheckpointError",
    "CheckpointVersionError",
    "CheckpointWarning",
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
    "MarkerLabelError",
    "MarkerOverflowError",
    "MarkerTypeError",
    "MemoryLimitError",
    "NStepBuffer",
    "NStepSampleStep",
    "NStepTransitions",
    "OrderError",
    "ReplayError",
    "ReplaySampleStep",
    "Restart",
    "RestartPool",
    "RestartPoolConfiguration",
    "SalvageReport",
    "SampleRangeError",
    "Schedule",
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
    "validate_probability",
    "write_demo_file",
]
