"""Every exception of cpreplay.

`ReplayError` is the base of all. Each class also subclasses the builtin that a caller would catch
already, so ``except ValueError`` around a call goes on working.
"""


class ReplayError(Exception):
    """Base of all errors that cpreplay raises on purpose."""


class ConfigurationError(ReplayError, ValueError):
    """A value that a call cannot honour; it is the call that is wrong, not what is stored."""


class ShapeError(ReplayError, ValueError):
    """An array has another shape than its column, or batches of unequal lengths were given."""


class DTypeError(ReplayError, TypeError):
    """An array's dtype, or the kind of memory it lies in, does not go where it was given.

    Such as into a column, or where a restart point's snapshot has to be bytes.
    """


class ColumnValueError(ReplayError, ValueError):
    """A value that its column cannot hold unchanged."""


class ColumnNameError(ReplayError, TypeError):
    """A column was left out of a call, or named where the buffer has none of that name."""


class SampleRangeError(ReplayError, ValueError):
    """Rows were asked for that the buffer does not hold, or a batch of an impossible size."""


class EmptyBufferError(ReplayError, RuntimeError):
    """A draw from a buffer, or from a part of it, that holds no row yet."""


class OrderError(ReplayError, RuntimeError):
    """Calls came in an order that has no meaning, such as ``step`` before ``setup``."""


class CaptureError(ReplayError, RuntimeError):
    """A call that cannot be part of a CUDA graph was made while the stream is capturing."""


class CopyError(ReplayError, TypeError):
    """A buffer or a restart pool was to be copied, pickled or sent to another process."""


class MemoryLimitError(ReplayError, MemoryError):
    """A buffer, a file of demonstrations, or a copy to be saved is larger than its memory."""


class DemoFileError(ReplayError, ValueError):
    """A file of demonstrations that is damaged, foreign, or does not fit; the message says how."""


class CheckpointError(ReplayError, ValueError):
    """A checkpoint that is damaged, foreign, of a later version, or does not fit."""


class CheckpointWarning(UserWarning):
    """A checkpoint of restart points could not be used, or not all of it; the message says why."""


class DeviceUnavailableError(ReplayError, ImportError, RuntimeError):
    """CuPy, what CuPy needs to compile, a driver, or a card is missing; the message says which."""


class InvariantError(ReplayError, RuntimeError):
    """``check`` of a buffer or of a restart pool found a broken invariant.

    That is a fault in cpreplay, or memory that someone else wrote.
    """


class MarkerLabelError(ReplayError, KeyError):
    """Marker values without a label that the restart pool's key or bounds name."""

    __str__ = Exception.__str__  # KeyError's own shows the message in quotes


class MarkerTypeError(ReplayError, TypeError):
    """Marker values that are no mapping from texts to ints."""


class MarkerOverflowError(ReplayError, OverflowError):
    """A marker value that does not fit 64 bits."""


class CheckpointVersionError(CheckpointError):
    """A checkpoint of a version that this library does not read yet; the message has both."""
