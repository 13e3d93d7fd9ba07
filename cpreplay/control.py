"""The control block: whatever may change between two draws, in one small record.

It lies in the back end's own memory. Kernels read it there, never from an argument: a launch that a
CUDA graph has captured keeps its arguments for ever, so a size passed as one would make the graph
sample from the rows of that moment only. `CONTROL` is the record of both back ends; the struct in
``cuda_src/control.cuh`` has the same fields at the same offsets, and a test compares the two.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Of the proportional variant in Schaul et al. 2016, before beta is annealed; there epsilon is only
# "small".
ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-6

#: Rows of a ring: the products of a draw then fit 64-bit words on every back end.
MAX_CAPACITY = 2**31

CONTROL = np.dtype(
    [
        ("total", "<i8"),  # rows ever written
        ("demo_count", "<i8"),  # rows [0, demo_count) are never overwritten
        ("capacity", "<i8"),
        ("draws", "<u8"),  # the number of the next draw
        ("key", "<u8"),  # splitmix64(seed)
        ("ere_enabled", "<i8"),
        ("c_min", "<i8"),  # the ERE window's floor, in rows
        ("k_max", "<i8"),  # draws after which the window is whole again
        ("k", "<i8"),  # draws since it was
        ("eta", "<f8"),
        ("eta_power", "<f8"),  # eta ** k, by repeated multiplication
        ("invalid_rows", "<i8"),  # rows stored with values that had to be clamped
        ("alpha", "<f8"),  # exponent of a priority: 0 draws uniformly
        ("beta", "<f8"),  # exponent of a weight: 1 corrects for the priorities in full
        ("epsilon", "<f8"),  # added to every |TD error|
        ("max_priority", "<f8"),  # the largest |TD error| + epsilon so far, at least 1
        ("invalid_priorities", "<i8"),  # lanes of updates that had no finite priority
        ("stale_updates", "<i8"),  # lanes of updates whose row was no longer the one drawn
        ("run", "<u8"),  # where draw tokens begin; see priorities.draw_token
    ]
)


def new_control(capacity: int, key: int, run: int = 0) -> NDArray[Any]:
    """A one-element array with the control block of an empty buffer."""
    control = np.zeros(1, CONTROL)
    control["capacity"] = capacity
    control["key"] = key
    control["eta"] = control["eta_power"] = 1.0
    control["alpha"], control["beta"], control["epsilon"] = ALPHA, BETA, EPSILON
    control["max_priority"] = 1.0
    control["run"] = run
    return control


def ring_head(total: int, demo_count: int, capacity: int) -> int:
    """The row that the next write goes to: ``ring_row(c, 0)`` in ``control.cuh``."""
    return demo_count + (total - demo_count) % (capacity - demo_count)


def ring_size(total: int, capacity: int) -> int:
    """Rows held, as in ``control.cuh``."""
    return min(total, capacity)


def ere_window(size: int, c_min: int, eta_power: float) -> int:
    """The newest rows that the next ERE draw is from (Wang & Ross 2019, section 3.2).

    ``control.cuh`` has the same function.
    """
    return min(size, max(c_min, int(size * eta_power)))
