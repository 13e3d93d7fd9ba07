"""`cupy.cuda.Device` and `is_available`."""

from typing import Any

from .._errors import runtime_error
from .._simulation import sim
from . import runtime


def is_available() -> bool:
    return runtime.getDeviceCount() > 0


class Device:
    """A device by its number, by default the current one."""

    def __init__(self, device: Any = None) -> None:
        self.id = runtime.getDevice() if device is None else int(device)

    def use(self) -> "Device":
        runtime.setDevice(self.id)
        return self

    def __enter__(self) -> "Device":
        if not 0 <= self.id < runtime.getDeviceCount():
            raise runtime_error("InvalidDevice")
        sim.device_stack.append(self.id)
        return self

    def __exit__(self, *exception: object) -> None:
        sim.device_stack.pop()

    def synchronize(self) -> None:
        runtime.deviceSynchronize()

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        return runtime.memGetInfo()

    @property
    def compute_capability(self) -> str:
        return "90"

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    __hash__ = None  # as CuPy's

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"
