"""What counts as a number in an argument."""

from typing import Any

import numpy as np


def is_count(value: Any) -> bool:
    """Whether a value is an int of at least one (True is none)."""
    return is_int(value) and value >= 1


def is_int(value: Any) -> bool:
    """Whether a value is an int (True is none, and no difference of times)."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_number(value: Any) -> bool:
    """Whether a value is an int or a float (True is none)."""
    return is_int(value) or isinstance(value, float | np.floating)
