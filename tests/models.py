"""The reference in lists and loops: what a buffer must do, written to be read and not to be fast.

Property and state-machine tests run a buffer beside one of these and compare. Nothing here is
imported from the library, and nothing is computed the way the library computes it: the head is
walked round the ring rather than derived from a total, a row is `floor(word / 2^64 * span)` in
rational numbers rather than the high half of a product, and quantisation is exact arithmetic on
fractions with every rounding to float32 spelled out.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.golden.reference import Words

# The ring


class RingModel:
    """A ring of `capacity` slots. A row is any object but None; an unwritten slot holds None."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.slots: list[Any] = [None] * capacity
        self.head = 0
        self.total = 0
        self.demo_count = 0

    @property
    def size(self) -> int:
        """How many slots hold a row."""
        return sum(slot is not None for slot in self.slots)

    def rows(self) -> list[Any]:
        """The row in each slot, None where nothing was ever written."""
        return list(self.slots)

    def add(self, row: Any) -> None:
        """Write a copy of one row at the head, over the oldest row when the ring is full."""
        self.slots[self.head] = copy.deepcopy(row)
        self.total += 1
        self.head += 1
        if self.head == self.capacity:
            self.head = self.demo_count

    def add_batch(self, rows: Sequence[Any], mask: Sequence[bool] | None = None) -> None:
        """Add the rows in order, or with `mask` those of them where it is true."""
        if mask is None:
            mask = [True] * len(rows)
        for row, wanted in zip(rows, mask, strict=True):
            if wanted:
                self.add(row)

    def newest_first(self) -> list[Any]:
        """The rows outside the demo prefix, the newest first."""
        rows = []
        slot = self.head
        for _ in range(self.size - self.demo_count):
            if slot == self.demo_count:
                slot = self.capacity
            slot -= 1
            rows.append(self.slots[slot])
        return rows

    def pin_demo_prefix(self, n: int, batch_size: int = 1) -> None:
        """Keep the `n` rows added so far for ever; from here on the ring is the slots behind."""
        if self.demo_count > 0:
            raise ValueError(f"a prefix of {self.demo_count} rows is pinned already")
        if n < 1 or n != self.total:
            raise ValueError(f"cannot pin {n} rows: {self.total} were added")
        if self.capacity - n < max(batch_size, 1):
            raise ValueError(f"cannot pin {n} of {self.capacity} rows: too few online rows remain")
        self.demo_count = n
        self.head = n


# Drawing


def rows_in_window(words: Sequence[int], lo: int, hi: int) -> list[int]:
    """One row of `[lo, hi)` for each 64-bit word, read as the real number `word / 2^64`."""
    rows = []
    for word in words:
        rows.append(lo + math.floor(Fraction(word, 2**64) * (hi - lo)))
    return rows


class UniformModel:
    """A ring and the rows that uniform draws take from it, one word from `words` for each lane."""

    def __init__(self, capacity: int, words: Words) -> None:
        self.ring = RingModel(capacity)
        self.words = words

    @property
    def draws(self) -> int:
        """The number of the next draw."""
        return self.words.draws

    def sample(self, batch_size: int) -> list[int]:
        """Rows drawn from everything stored, with replacement."""
        if self.ring.size == 0:
            raise ValueError("cannot sample: the buffer is empty")
        return self.sample_range(batch_size, 0, self.ring.size)

    def sample_range(self, batch_size: int, lo: int, hi: int) -> list[int]:
        """Rows drawn from `[lo, hi)`, with replacement. A refused draw takes no words."""
        if batch_size < 1:
            raise ValueError(f"cannot draw a batch of {batch_size}")
        if not 0 <= lo < hi <= self.ring.size:
            raise ValueError(f"cannot sample rows [{lo}, {hi}): {self.ring.size} are stored")
        return rows_in_window(self.words.next(batch_size), lo, hi)

    def minibatch(self, rows: Sequence[int]) -> list[Any]:
        """What is stored in the drawn rows."""
        return [self.ring.slots[row] for row in rows]


# uint8 storage of observations in [0, 1]


def nearest_float32(x: Fraction) -> Fraction:
    """The float32 nearest to `x`, the even one of two; the range of the exponent has no top."""
    if x == 0:
        return x
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    spacing = Fraction(2) ** (max(exponent, -126) - 23)
    return round(x / spacing) * spacing


def can_be_quantized(x: float) -> bool:
    """Whether `x`, cast to float32, is a number in [0, 1]."""
    return math.isfinite(x) and 0 <= nearest_float32(Fraction(x)) <= 1


def quantize(x: float) -> int:
    """The byte that stores `x`: cast to float32, times 255 in float32, rounded half to even."""
    if not can_be_quantized(x):
        raise ValueError(f"{x} cannot be stored as uint8: it is not a number in [0, 1]")
    scaled = nearest_float32(nearest_float32(Fraction(x)) * 255)
    return round(scaled)


def quantize_clamped(x: float) -> int:
    """What a device stores: as `quantize`, after moving `x` into [0, 1]; NaN becomes 0."""
    if math.isnan(x):
        return 0
    return quantize(min(max(x, 0.0), 1.0))


def dequantize(k: int) -> float:
    """What comes back from the byte `k`: the float32 nearest to k / 255."""
    return float(nearest_float32(Fraction(k, 255)))
