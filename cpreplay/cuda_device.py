"""Whether a card can be used here, and which one.

The only importer of CuPy, when the first device buffer is made and never before. Others are handed
it.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from cpreplay import kernels
from cpreplay.errors import CaptureError, ConfigurationError, DeviceUnavailableError
from cpreplay.integers import is_int

#: Threads of a block.
THREADS = 256

#: More blocks than a card runs at once gain nothing.
MAX_BLOCKS = 4096

# cudaErrorStreamCaptureImplicit, for which CuPy has no name.
_CAPTURE_IMPLICIT = 906

_INSTALL = "pip install 'cpreplay[cuda12]' or 'cpreplay[cuda13]', as your driver supports"


def import_cupy() -> Any:
    """CuPy, where it has a driver, a card and a compiler.

    Raises
    ------
    DeviceUnavailableError
        One of them is missing: the message says which, and what to install.
    """
    try:
        cupy = importlib.import_module("cupy")
    except Exception as error:  # a broken installation fails with more than ImportError
        raise DeviceUnavailableError(
            "a device buffer needs CuPy, and importing it failed "
            f"({type(error).__name__}: {error}); {_INSTALL}"
        ) from error
    if not cupy.cuda.is_available():
        if cupy.cuda.runtime.driverGetVersion() == 0:
            raise DeviceUnavailableError(
                "a device buffer needs an NVIDIA driver, and none is installed (libcuda is "
                "missing); install it, or use a host buffer"
            )
        raise DeviceUnavailableError(
            "a device buffer needs a CUDA card, and the driver finds none; look at nvidia-smi and "
            "CUDA_VISIBLE_DEVICES, or use a host buffer"
        )
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:  # CuPy reports a missing library as a RuntimeError of its own
        raise DeviceUnavailableError(
            "a device buffer compiles its kernels with NVRTC, and CuPy cannot load it "
            f"({error}); {_INSTALL}"
        ) from error
    return cupy


def compiled_kernels(cupy: Any) -> Mapping[str, Any]:
    """Every kernel, compiled now, so that what is missing shows here and not at the first add.

    Raises
    ------
    DeviceUnavailableError
        CuPy cannot compile: it needs the CUDA runtime's headers as well.
    """
    loaded = kernels.load(cupy)
    try:
        for kernel in loaded.values():
            kernel.compile()
    except Exception as error:  # CuPy has no one class for what may be missing
        raise DeviceUnavailableError(
            "a device buffer cannot compile its kernels "
            f"({type(error).__name__}: {error}); {_INSTALL}"
        ) from error
    return loaded


class Card:
    """The card of one buffer, and what may be done on it just now."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.number = int(cupy.cuda.runtime.getDevice())

    @property
    def capturing(self) -> bool:
        """Whether the current stream is recording a graph."""
        try:
            return bool(self.cupy.cuda.get_current_stream().is_capturing())
        except self.cupy.cuda.runtime.CUDARuntimeError as error:
            # An error of work that was queued before comes out of whatever call is next.
            if error.status != _CAPTURE_IMPLICIT:
                raise
            raise CaptureError(
                "the default stream cannot be used while another, blocking stream is capturing "
                f"({error}); capture on cupy.cuda.Stream(non_blocking=True)"
            ) from error

    def check_stream(self) -> None:
        """Raise `CaptureError` where a capture elsewhere forbids the use of the current stream."""
        _ = self.capturing

    def refuse_capture(self, what: str) -> None:
        """Raise `CaptureError` while the current stream is recording a graph."""
        if self.capturing:
            raise CaptureError(
                f"{what} cannot be part of a CUDA graph, and the current stream is capturing; do "
                "it before the capture"
            )

    def check_current(self) -> None:
        """Raise `ConfigurationError` unless the buffer's card is the current one."""
        current = int(self.cupy.cuda.runtime.getDevice())
        if current != self.number:
            raise ConfigurationError(
                f"this buffer lies on device {self.number}, and device {current} is current; wrap "
                f"the call in `with cupy.cuda.Device({self.number}):`"
            )


class Kernels:
    """The kernels, and how they are launched on one card."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._kernels = compiled_kernels(card.cupy)

    def launch(self, name: str, grid: tuple[int, ...], *args: Any, threads: int = THREADS) -> None:
        """Queue one launch on the current stream."""
        self._card.check_current()
        self._kernels[name](grid, (threads,), args)


def blocks_for(items: int) -> tuple[int]:
    """The grid that gives each item a thread, up to a limit: grids are strided."""
    return (max(1, min(-(-items // THREADS), MAX_BLOCKS)),)


def device_memory(cupy: Any) -> int:
    """Bytes of memory of the current card."""
    return int(cupy.cuda.Device().mem_info[1])


def device_number(cupy: Any, device: Any) -> int:
    """The number of a card: the current one for None."""
    if device is None:
        return int(cupy.cuda.runtime.getDevice())
    count = int(cupy.cuda.runtime.getDeviceCount())
    if not (is_int(device) and 0 <= device < count):
        raise ConfigurationError(
            f"device={device!r}: this machine has {count} cards; give a number below that, from 0"
        )
    return int(device)
