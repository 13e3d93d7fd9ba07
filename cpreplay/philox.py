"""Philox4x32-10 on NumPy: the device's random words, on the host.

A word is a pure function of (key, draw number, lane), so a draw can be repeated anywhere. The
device twin is ``cuda_src/philox.cuh``.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
"""

import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.errors import ConfigurationError
from cpreplay.integers import is_int

_MASK = 2**64 - 1
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_LOST_BITS = np.array(11, np.uint64)
_TO_UNIT = np.array(2.0**-53)

#: What a draw is for, in word 3 of the counter, so that two uses never share words.
ROWS = 0  # a row, by the word itself
TARGETS = 1  # a target in the sum tree, by the word as a real
RESTARTS = 2  # whether and where an episode of a restart pool starts


def checked_seed(seed: Any) -> int:
    """A seed as an int in [0, 2**64), from the system where None is given."""
    if seed is None:
        return secrets.randbits(64)
    if is_seed(seed):
        return int(seed)
    raise ConfigurationError(f"seed={seed!r} has to be an int in [0, 2**64)")


def is_seed(value: Any) -> bool:
    """Whether a value is an int in [0, 2**64)."""
    return is_int(value) and 0 <= value < 2**64


def splitmix64(seed: int) -> int:
    """The seed, mixed, so that neighbouring seeds do not share lanes (Steele et al. 2014)."""
    mixed = (seed + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)


def philox4x32(
    counter: tuple[NDArray[np.uint64], ...], key: tuple[NDArray[np.uint64], ...]
) -> tuple[NDArray[np.uint64], ...]:
    """Ten rounds over arrays of 32-bit words kept in uint64: four counter words, two key words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        first, second = np.uint64(_MULTIPLIERS[0]) * c0, np.uint64(_MULTIPLIERS[1]) * c2
        c0, c1 = (second >> _HALF) ^ c1 ^ k0, second & _LOW
        c2, c3 = (first >> _HALF) ^ c3 ^ k1, first & _LOW
        k0, k1 = (k0 + np.uint64(_WEYL[0])) & _LOW, (k1 + np.uint64(_WEYL[1])) & _LOW
    return c0, c1, c2, c3


def philox_words(key: int, draw: int, lanes: int, purpose: int = ROWS) -> NDArray[np.uint64]:
    """The first 64-bit word of lanes 0 … ``lanes - 1`` in one numbered draw.

    Costs about 100 array operations whatever ``lanes`` is.
    """
    lane_keys = np.arange(lanes, dtype=np.uint64) + np.uint64(key)
    counter = (draw & 0xFFFFFFFF, draw >> 32, 0, purpose)
    low, high, _, _ = philox4x32(
        tuple(np.full(lanes, word, np.uint64) for word in counter),
        (lane_keys & _LOW, lane_keys >> _HALF),
    )
    words: NDArray[np.uint64] = high << _HALF | low
    return words


def reals_of(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Words as reals in [0, 1): their first 53 bits, so that none is rounded up to 1."""
    reals: NDArray[np.float64] = (words >> _LOST_BITS) * _TO_UNIT
    return reals
