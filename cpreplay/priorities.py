"""What a TD error is worth: leaves of the sum tree, weights of a batch, and which rows are stale.

Elementwise, in float64, on NumPy. The device twins are in ``cuda_src/priorities.cuh``.

Source: Schaul, Quan, Antonoglou, Silver, "Prioritized Experience Replay", ICLR 2016,
arXiv:1511.05952: P(i) = p_i^alpha / sum of p_k^alpha (equation 1), w_i = (1 / (N P(i)))^beta
divided by the largest (section 3.4), and |TD error| + epsilon for p_i (section 3.3).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The smallest leaf of a row that was written, and the smallest weight that is not 0: below it
#: float32 is subnormal, and CuPy compiles kernels that flush such numbers to zero.
SMALLEST = 2.0**-126

#: The smallest number that float32 rounds to infinity.
OVERFLOW = 2.0**128 - 2.0**103

_SMALLEST = np.array(SMALLEST)
_MASK = 2**64 - 1


def leaves_of(priorities: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Leaves before they are rounded to float32; from `OVERFLOW` up they do not fit."""
    with np.errstate(under="ignore"):  # of what is about to be raised to SMALLEST
        leaves: NDArray[np.float64] = priorities**alpha
    np.maximum(leaves, _SMALLEST, out=leaves)
    return leaves


def entering_leaf(max_priority: float, alpha: float) -> np.float32:
    """The leaf of a new row."""
    return np.float32(leaves_of(np.array([max_priority]), alpha)[0])


def weights_of(
    leaves: NDArray[np.float32], size: int, total: float, beta: float
) -> NDArray[np.float64]:
    """Importance-sampling weights, divided by the largest, before they are rounded to float32."""
    weights = leaves * np.float64(size)
    weights /= total
    weights **= -beta
    weights /= weights.max()
    weights[weights < SMALLEST] = 0.0
    return weights


def draw_token(total: int, run: int) -> int:
    """What a draw leaves in each lane: the total, which tells age, from where ``run`` begins.

    Buffers, and the times before and after a restored state, have runs of their own, so that a
    token of another is seen to be none of ours.
    """
    return (total + run) & _MASK


def no_token(run: int) -> int:
    """A token that is of no draw: its age is beyond every total."""
    return (run + 2**63) & _MASK


def ages_of(tokens: NDArray[np.uint64], total: int, run: int) -> NDArray[np.uint64]:
    """Rows written since each lane was drawn. More than ``total`` means a token of another run."""
    return np.uint64(draw_token(total, run)) - tokens


def stale_lanes(
    rows: NDArray[np.int64], ages: NDArray[np.uint64], total: int, capacity: int
) -> NDArray[np.bool_]:
    """Whether the row of each lane was overwritten since its draw, at most ``total`` rows ago."""
    since = ages.astype(np.int64)
    # How far a row lies ahead of the head at the draw, and how far the head has come since.
    stale: NDArray[np.bool_] = (rows - (total - since)) % capacity < since
    return stale


def effective_sample_size(chunks: Any) -> float:
    """Kish's ``(sum of p)^2 / sum of p^2``: how many equally likely rows would vary as much.

    ``chunks`` are arrays of leaves.
    """
    mass = squares = 0.0
    for leaves in chunks:
        p = leaves.astype(np.float64)
        mass += float(p.sum())
        squares += float(np.square(p).sum())
    return mass * mass / squares if squares else 0.0
