"""Index policies: which there are, which go together, and what each refuses.

The draws themselves are in the ops. A buffer has one `Policy`: prioritized for good, or else
uniform, which ERE or a demo prefix replaces. A range is not a policy but part of one call.
"""

import math
from typing import Any

import attrs
import numpy as np

from cpreplay.control import ALPHA
from cpreplay.errors import ConfigurationError, EmptyBufferError, OrderError, SampleRangeError
from cpreplay.integers import is_count, is_int, is_number


@attrs.define
class Policy:
    """The policy in force, as far as checks have to know it without asking the device."""

    #: Whether draws are by priority (Schaul et al. 2016), which is decided when a buffer is made.
    prioritized: bool = False
    #: The exponent of a priority, which stored leaves have been raised to.
    alpha: float = ALPHA
    #: Whether draws are from the newest rows alone (Wang & Ross 2019).
    ere: bool = False
    #: Rows that are pinned as demonstrations; half of each batch is from them (Ball et al. 2023).
    demo_count: int = 0
    #: The largest batch that the rows beside the demonstrations were said to be enough for.
    largest_batch: int | None = None

    def check_draw(self, batch_size: int, size: int) -> None:
        """Refuse a draw from nothing, and one larger than a pinned ring can fill."""
        if size == 0:
            raise EmptyBufferError(
                f"cannot sample {batch_size} transitions: the buffer holds none yet; add some first"
            )
        if self.largest_batch is not None and batch_size > self.largest_batch:
            raise SampleRangeError(
                f"cannot sample {batch_size} transitions: beside the demonstrations there is room "
                f"for {self.largest_batch} online rows; use a batch of at most that, or a larger "
                "capacity"
            )

    def check_ere(self, enable: bool, eta: float, c_min: int, k_max: int) -> None:
        """Refuse ERE on a prioritized or pinned buffer, and parameters without a meaning."""
        if self.prioritized:
            raise OrderError(
                "configure_ere: this buffer is prioritized, and a row has one probability, its "
                "priority's; leave the call out, also to switch ERE off, or use a buffer made "
                "without prioritized=True"
            )
        if self.demo_count:
            raise OrderError(
                f"configure_ere: {self.demo_count} demonstrations are pinned, and ERE has no rule "
                "for drawing from them; use a buffer without a prefix"
            )
        if not isinstance(enable, bool | np.bool_):
            raise ConfigurationError(f"configure_ere: enable={enable!r} has to be True or False")
        if not (is_number(eta) and 0.0 < eta <= 1.0):  # False for NaN
            raise ConfigurationError(f"configure_ere: eta={eta!r} has to be a number in (0, 1]")
        for name, value in (("c_min", c_min), ("k_max", k_max)):
            if not (is_count(value) and value < 2**63):
                raise ConfigurationError(
                    f"configure_ere: {name}={value!r} has to be an int from 1 to 2**63 - 1"
                )

    def check_prioritized(self, call: str) -> None:
        """Refuse a call that needs priorities."""
        if not self.prioritized:
            raise OrderError(
                f"{call}: this buffer has no priorities; make it with prioritized=True"
            )

    def check_per(self, alpha: Any, beta: Any, epsilon: Any) -> tuple[float, float, float]:
        """Parameters of prioritized draws as floats; those without a meaning are refused."""
        self.check_prioritized("configure_per")
        offset = _number(epsilon)
        if not 0.0 <= offset < math.inf:  # NaN too
            raise ConfigurationError(
                f"configure_per: epsilon={epsilon!r} has to be a finite number >= 0"
            )
        unit = (_unit("configure_per", "alpha", alpha), _unit("configure_per", "beta", beta))
        return (*unit, offset)

    def check_alpha(self, alpha: float, size: int) -> None:
        """Refuse another alpha than that of the stored leaves."""
        if size and alpha != self.alpha:
            raise OrderError(
                f"configure_per: alpha={alpha} (what is left out is the default), and the rows "
                f"held were stored with {self.alpha}; give that, set alpha before the first add, "
                "or make another buffer"
            )

    def check_beta(self, beta: Any) -> float:
        """An exponent of the weights as a float; one without a meaning is refused."""
        self.check_prioritized("set_beta")
        return _unit("set_beta", "beta", beta)

    def check_pin(self, count: Any, batch_size: Any, total: int, capacity: int) -> int:
        """The prefix as an int; one that is not what was added, or leaves no room, is refused."""
        if self.prioritized:
            raise OrderError(
                "pin_demo_prefix: this buffer is prioritized, and draws by priority do not halve a "
                "batch; use a buffer made without prioritized=True"
            )
        if self.ere:
            raise OrderError(
                "pin_demo_prefix: ERE is on, and has no rule for a pinned prefix; switch it off "
                "with configure_ere(enable=False) first"
            )
        if self.demo_count:
            raise OrderError(
                f"pin_demo_prefix: {self.demo_count} rows are pinned already, and that is for "
                "good; leave the call out, or add all demonstrations before it to another buffer"
            )
        if not is_count(count) or count != total:
            raise ConfigurationError(
                f"pin_demo_prefix: n={count!r}, and {total} rows were added so far; the prefix is "
                "exactly what was added, at least one row"
            )
        prefix = int(count)
        if prefix >= capacity:
            raise ConfigurationError(
                f"pin_demo_prefix: n={prefix} leaves none of the {capacity} rows for online "
                "transitions; use a larger capacity"
            )
        if batch_size is not None:
            if not is_count(batch_size):
                raise ConfigurationError(
                    f"pin_demo_prefix: batch_size={batch_size!r} has to be an int >= 1"
                )
            if capacity - prefix < batch_size:
                raise ConfigurationError(
                    f"pin_demo_prefix: n={prefix} leaves {capacity - prefix} of {capacity} rows "
                    f"for online transitions, fewer than one minibatch of {batch_size}; use a "
                    "larger capacity"
                )
        return prefix


def _number(value: Any) -> float:
    """Anything that is one number, as a float: also a framework's scalar. NaN for what is not."""
    if isinstance(value, bool | np.bool_ | str | bytes) or getattr(value, "ndim", 0) != 0:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last is PyTorch's
        return math.nan


def _unit(call: str, name: str, value: Any) -> float:
    number = _number(value)
    if not 0.0 <= number <= 1.0:  # NaN too
        above = "; a sum of steps may end just above 1: give min(1.0, value)"
        raise ConfigurationError(
            f"{call}: {name}={value!r} has to be a number in [0, 1]"
            + (above if 1.0 < number < 1.000001 else "")
        )
    return number


def check_batch_size(batch_size: Any) -> int:
    """A batch size as an int of at least one."""
    if type(batch_size) is int and 0 < batch_size < 2**31:
        return batch_size  # what nearly every call gives
    if not (is_count(batch_size) and batch_size < 2**31):
        raise SampleRangeError(f"batch_size={batch_size!r} has to be an int >= 1 and below 2**31")
    return int(batch_size)


def check_range(low: Any, high: Any, size: int, capacity: int) -> tuple[int, int]:
    """A range of rows, which has to hold at least one row and none that was never written."""
    if not (is_int(low) and is_int(high)):
        raise SampleRangeError(f"rows [{low!r}, {high!r}): both ends have to be ints")
    if not 0 <= low < high <= size:
        inside = f"ask inside [0, {size})" if size else "add rows first"
        raise SampleRangeError(
            f"cannot sample rows [{low}, {high}): the buffer holds {size} of {capacity}; {inside}"
        )
    return int(low), int(high)
