"""`cupy.cuda.Device` and `is_available`."""

from .._errors import runtime_error
from .._simulation import sim
from . import runtime


def is_available():
    return runtime.getDeviceCount() > 0


class Device:
    """A device by its number, by default the current one."""

    def __init__(self, device=None):
        self.id = runtime.getDevice() if device is None else int(device)

    def use(self):
        runtime.setDevice(self.id)
        return self

    def __enter__(self):
        if not 0 <= self.id < runtime.getDeviceCount():
            raise runtime_error("InvalidDevice")
        sim.device_stack.append(self.id)
        return self

    def __exit__(self, *exception):
        sim.device_stack.pop()

    def synchronize(self):
        runtime.deviceSynchronize()

    @property
    def mem_info(self):
        """Free and total bytes."""
        return runtime.memGetInfo()

    @property
    def compute_capability(self):
        return "90"

    def __int__(self):
        return self.id

    def __eq__(self, other):
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self):
        return hash(self.id)

    def __repr__(self):
        return f"<CUDA Device {self.id}>"
