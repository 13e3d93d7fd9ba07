"""The reference in lists and loops: what a buffer must do, written to be read and not to be fast.

Property and state-machine tests run a buffer beside one of these and compare. Nothing here is
imported from the library, and nothing is computed the way the library computes it: the head is
walked round the ring rather than derived from a total, a row is `floor(word / 2^64 * span)` in
rational numbers rather than the high half of a product, and quantisation is exact arithmetic on
fractions with every rounding to float32 spelled out. A row is stale when its slot holds another
transition than it did, which each slot remembers by a serial number. The one thing taken over is
the order of additions in the sum tree, without which no draw could be foretold bit for bit: that
comes from `golden/reference.py`.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.golden import reference
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


# Prioritized replay


@dataclass(frozen=True)
class Occupant:
    """The transition that a slot held when it was drawn: of which buffer, and its number there."""

    buffer: int
    serial: int


Token = list[Occupant]
"""What a batch carries beside its rows: one occupant for each lane."""

_buffers = itertools.count()


class PrioritizedModel:
    """A ring with a leaf for each slot, and what prioritized draws and updates do with them.

    A host buffer refuses what is wrong, and nothing changes. A device buffer (`device=True`)
    cannot, so it skips that lane and counts it. Every refusal here is a ValueError, whatever
    class the library has for it.

    Leaves, draws, weights, `priority_total`, `max_priority` and the counters are exact: compare
    them bit for bit. `effective_sample_size` and `probabilities` are rounded once from rational
    numbers: compare them with a tolerance.
    """

    def __init__(self, capacity: int, words: Words, *, device: bool = False) -> None:
        self.ring = RingModel(capacity)
        self.words = words
        self.device = device
        self.buffer = next(_buffers)
        self.leaves = [0.0] * capacity
        self.serials: list[int | None] = [None] * capacity
        self.next_serial = 0
        self.max_priority = 1.0
        self.alpha, self.beta, self.epsilon = 0.6, 0.4, 1e-6
        self.invalid_priorities = 0
        self.stale_updates = 0

    @property
    def draws(self) -> int:
        """The number of the next draw."""
        return self.words.draws

    # Settings

    def set_beta(self, beta: float) -> None:
        """Change the correction exponent of the draws to come."""
        if not 0 <= beta <= 1:
            raise ValueError(f"beta is {beta}, not in [0, 1]")
        self.beta = beta

    def configure_per(self, alpha: float = 0.6, beta: float = 0.4, epsilon: float = 1e-6) -> None:
        """Change the settings; alpha only before the first row."""
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha is {alpha}, not in [0, 1]")
        if not 0 <= beta <= 1:
            raise ValueError(f"beta is {beta}, not in [0, 1]")
        if not (math.isfinite(epsilon) and epsilon >= 0):
            raise ValueError(f"epsilon is {epsilon}, not a finite number from 0 on")
        if alpha != self.alpha and self.ring.size > 0:
            raise ValueError(f"alpha is {self.alpha} for the {self.ring.size} rows stored")
        self.alpha, self.beta, self.epsilon = alpha, beta, epsilon

    # Adding

    def add(self, row: Any) -> None:
        """Write one row, with the largest priority so far."""
        slot = self.ring.head
        self.ring.add(row)
        self.leaves[slot] = reference.entering_leaf(self.max_priority, self.alpha)
        self.serials[slot] = self.next_serial
        self.next_serial += 1

    def add_batch(self, rows: Sequence[Any], mask: Sequence[bool] | None = None) -> None:
        """Add the rows in order, or with `mask` those of them where it is true."""
        if mask is None:
            mask = [True] * len(rows)
        for row, wanted in zip(rows, mask, strict=True):
            if wanted:
                self.add(row)

    # Drawing

    def sample(self, batch_size: int) -> tuple[list[int], list[float]]:
        """Rows drawn by priority, and their weights. A refused draw takes no words."""
        if batch_size < 1:
            raise ValueError(f"cannot draw a batch of {batch_size}")
        if self.ring.size == 0:
            raise ValueError("cannot sample: the buffer is empty")
        tree = reference.SumTree(self.leaves)
        rows = tree.draw(self.words.next_reals(batch_size))
        leaves = [self.leaves[row] for row in rows]
        return rows, reference.weights(leaves, self.ring.size, tree.total, self.beta)

    def sample_range(self, batch_size: int, lo: int, hi: int) -> tuple[list[int], list[float]]:
        """Rows drawn from `[lo, hi)` whatever their priorities, with weights of one."""
        if batch_size < 1:
            raise ValueError(f"cannot draw a batch of {batch_size}")
        if not 0 <= lo < hi <= self.ring.size:
            raise ValueError(f"cannot sample rows [{lo}, {hi}): {self.ring.size} are stored")
        return rows_in_window(self.words.next(batch_size), lo, hi), [1.0] * batch_size

    def token(self, rows: Sequence[int]) -> Token:
        """What a batch of those rows carries when it is drawn now."""
        token = []
        for row in rows:
            serial = self.serials[row]
            assert serial is not None, f"nothing was ever written to row {row}"
            token.append(Occupant(self.buffer, serial))
        return token

    def minibatch(self, rows: Sequence[int]) -> list[Any]:
        """What is stored in the drawn rows."""
        return [self.ring.slots[row] for row in rows]

    # Updating

    def update(self, token: Token | None, rows: Sequence[int], td_errors: Sequence[float]) -> None:
        """Set the leaves of rows: of a batch with its token, of bare rows without one (None).

        A lane that is both stale and invalid counts as stale.
        """
        if len(td_errors) != len(rows) or (token is not None and len(token) != len(rows)):
            raise ValueError(f"there are {len(rows)} rows and {len(td_errors)} TD errors")
        td_errors = [float(td_error) for td_error in td_errors]
        outside = [not 0 <= row < self.ring.size for row in rows]
        invalid = [not self._is_valid(td_error) for td_error in td_errors]
        if not self.device:
            if any(outside):
                raise ValueError(f"cannot update rows {rows}: {self.ring.size} are stored")
            if any(invalid):
                raise ValueError(f"cannot update: not every TD error of {td_errors} makes a leaf")
            if token is not None and any(lane.buffer != self.buffer for lane in token):
                raise ValueError("cannot update: the batch was drawn from another buffer")
        written = {}
        for lane, row in enumerate(rows):
            stale = outside[lane] or (token is not None and [token[lane]] != self.token([row]))
            if stale:
                self.stale_updates += 1
            elif invalid[lane]:
                self.invalid_priorities += 1
            else:
                written[row] = td_errors[lane]
        for row, td_error in written.items():
            self.leaves[row] = reference.leaf_from_td_error(td_error, self.alpha, self.epsilon)
            priority = reference.priority(td_error, self.epsilon)
            self.max_priority = max(self.max_priority, priority)

    def _is_valid(self, td_error: float) -> bool:
        """Whether the priority is a finite number, and its leaf one in float32."""
        if not math.isfinite(td_error) or math.isinf(reference.priority(td_error, self.epsilon)):
            return False
        try:
            reference.leaf_from_td_error(td_error, self.alpha, self.epsilon)
        except (ValueError, OverflowError):
            return False
        return True

    # Looking

    def probabilities(self) -> list[float]:
        """How likely a lane whose target is uniform over the total is to draw each slot."""
        masses = [Fraction(leaf) for leaf in self.leaves]
        total = sum(masses)
        return [float(mass / total) for mass in masses]

    def effective_sample_size(self) -> float:
        """How many rows of equal priority would be as many; 0 of an empty buffer."""
        masses = [Fraction(leaf) for leaf in self.leaves]
        if not any(masses):
            return 0.0
        return float(sum(masses) ** 2 / sum(mass**2 for mass in masses))

    def stats(self) -> dict[str, float | int]:
        """What `stats()` says of priorities."""
        return {
            "alpha": self.alpha,
            "beta": self.beta,
            "epsilon": self.epsilon,
            "priority_total": reference.SumTree(self.leaves).total,
            "max_priority": self.max_priority,
            "invalid_priorities": self.invalid_priorities,
            "stale_updates": self.stale_updates,
            "effective_sample_size": self.effective_sample_size(),
        }


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
