"""`cupy.cuda.runtime`: tests patch these to play a machine without driver or card."""

from typing import Any

from .._errors import CUDARuntimeError, runtime_error
from .._memory import check_all_guards
from .._simulation import sim

__all__ = [
    "CUDARuntimeError",
    "deviceSynchronize",
    "driverGetVersion",
    "getDevice",
    "getDeviceCount",
    "getDeviceProperties",
    "memGetInfo",
    "runtimeGetVersion",
    "setDevice",
]


def getDeviceCount() -> int:
    return sim.device_count


def getDevice() -> int:
    return sim.device_stack[-1]


def setDevice(device: Any) -> None:
    if not 0 <= device < getDeviceCount():
        raise runtime_error("InvalidDevice")
    sim.device_stack[-1] = device


def driverGetVersion() -> int:
    return sim.driver_version


def runtimeGetVersion() -> int:
    return 12090


def deviceSynchronize() -> None:
    sim.wait_for_everything()
    check_all_guards()


def memGetInfo() -> tuple[int, int]:
    return (sim.device_bytes - sim.live_bytes - sim.pool_bytes, sim.device_bytes)


def getDeviceProperties(device: Any) -> dict[str, Any]:
    return {
        "name": b"emulated device",
        "major": 9,
        "minor": 0,
        "totalGlobalMem": sim.device_bytes,
        "multiProcessorCount": 4,
    }
