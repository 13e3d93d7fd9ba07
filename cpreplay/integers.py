"""What counts as a whole number in an argument."""

from typing import Any

import numpy as np


def is_count(value: Any) -> bool:
    """Whether a value is an int of at least one (True is none)."""
    return is_int(value) and value >= 1


def is_int(value: Any) -> bool:
    """Whether a value is an int (True is none)."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
