"""CUDA's errors by name, as CuPy raises them."""

_RUNTIME = {
    "InvalidValue": (1, "invalid argument"),
    "InsufficientDriver": (35, "CUDA driver version is insufficient for CUDA runtime version"),
    "NoDevice": (100, "no CUDA-capable device is detected"),
    "InvalidDevice": (101, "invalid device ordinal"),
    "IllegalState": (401, "the operation cannot be performed in the present state"),
    "StreamCaptureUnsupported": (900, "operation not permitted when stream is capturing"),
    "StreamCaptureInvalidated": (901, "operation failed due to a previous error during capture"),
    "StreamCaptureMerge": (902, "operation would result in a merge of separate capture sequences"),
    "StreamCaptureUnmatched": (903, "capture was not initiated in this stream"),
    "StreamCaptureUnjoined": (904, "capturing stream has unjoined work"),
    "StreamCaptureIsolation": (905, "dependency created on uncaptured work in another stream"),
    "StreamCaptureImplicit": (
        906,
        "operation would make the legacy stream depend on a capturing blocking stream",
    ),
    "CapturedEvent": (
        907,
        "operation not permitted on an event last recorded in a capturing stream",
    ),
}
_RUNTIME_BY_STATUS = {status: (name, text) for name, (status, text) in _RUNTIME.items()}


class CUDARuntimeError(RuntimeError):
    """An error of the CUDA runtime, made from its number."""

    def __init__(self, status: int) -> None:
        self.status = status
        name, text = _RUNTIME_BY_STATUS.get(
            status, (f"{status}", "an error that the fake has no text for")
        )
        super().__init__(f"cudaError{name}: {text}")


class CUDADriverError(RuntimeError):
    """An error of the CUDA driver."""


class OutOfMemoryError(MemoryError):
    """The device has no room for an allocation."""

    def __init__(self, size: int, total: int) -> None:
        super().__init__(
            f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes)."
        )


def runtime_error(name: str) -> CUDARuntimeError:
    """The `CUDARuntimeError` of a name without its prefix, such as "StreamCaptureUnsupported"."""
    return CUDARuntimeError(_RUNTIME[name][0])
