"""The draws of this library, a second time, in plain Python integers and floats.

This is the witness that every back end is held against: it is written from the definitions (the
published Philox4x32-10, splitmix64 and PCG64 XSL-RR 128/64, and the rules of the design page), it
is slow, and it imports nothing of the library. NumPy is asked for one thing alone: the state in
which `numpy.random.PCG64(seed)` starts.

A Python float is a float64, and Python rounds after every operation: it never fuses a product
and a sum. Sums here are running sums, since Python's own `sum` compensates from 3.12 on.

References
----------
Philox: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
PCG64: O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms for
random number generation", HMC-CS-2014-0905.
Priorities: Schaul, Quan, Antonoglou, Silver, "Prioritized experience replay", ICLR 2016.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Protocol

MASK32 = 2**32 - 1
MASK64 = 2**64 - 1
MASK128 = 2**128 - 1

ROW_DRAW_TAG = 0
"""Purpose tag (counter word 3) of every draw of rows from a window, whatever the policy."""

REAL_DRAW_TAG = 1
"""Purpose tag of the draws of reals, with which prioritized lanes choose their targets."""


# splitmix64


def splitmix64(seed: int) -> int:
    """The first output of splitmix64 started at `seed`: a bijection of the 64-bit integers."""
    z = (seed + 0x9E3779B97F4A7C15) & MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)


def seed_with_key(key: int) -> int:
    """The one seed with `splitmix64(seed) == key`: how a test chooses where a key carries."""
    z = _undo_xorshift(key, 31)
    z = _undo_xorshift(z * pow(0x94D049BB133111EB, -1, 2**64) & MASK64, 27)
    z = _undo_xorshift(z * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK64, 30)
    return (z - 0x9E3779B97F4A7C15) & MASK64


def _undo_xorshift(value: int, shift: int) -> int:
    """The z with `z ^ (z >> shift) == value`, found `shift` more high bits at a time."""
    z = value
    for _ in range(64 // shift):
        z = value ^ (z >> shift)
    return z


# Philox4x32-10


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """The four 32-bit words of Philox4x32-10 for a counter of four words and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        left = 0xD2511F53 * c0
        right = 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (
            (right >> 32) ^ c1 ^ k0,
            right & MASK32,
            (left >> 32) ^ c3 ^ k1,
            left & MASK32,
        )
        k0 = (k0 + 0x9E3779B9) & MASK32
        k1 = (k1 + 0xBB67AE85) & MASK32
    return [c0, c1, c2, c3]


def lane_key(seed: int, lane: int) -> tuple[int, int]:
    """The key words of one lane: the mixed seed plus the lane, low word first."""
    key = (splitmix64(seed) + lane) & MASK64
    return key & MASK32, key >> 32


def lane_word(seed: int, draw_number: int, lane: int, tag: int = ROW_DRAW_TAG) -> int:
    """The 64-bit word with which one lane of one numbered draw chooses its row, or its real."""
    counter = (draw_number & MASK32, draw_number >> 32, 0, tag)
    out = philox(counter, lane_key(seed, lane))
    return out[1] << 32 | out[0]


def umulhi64(word: int, span: int) -> int:
    """The high 64 bits of the 128-bit product: a word in [0, 2^64) scaled down to [0, span)."""
    return word * span >> 64


def draw_rows(seed: int, draw_number: int, batch: int, lo: int, hi: int) -> list[int]:
    """The rows that a Philox draw of `batch` lanes takes from the window `[lo, hi)`."""
    return [lo + umulhi64(lane_word(seed, draw_number, lane), hi - lo) for lane in range(batch)]


def real(word: int) -> float:
    """The upper 53 bits of a word as a number in [0, 1): no rounding happens."""
    return (word >> 11) * 2.0**-53


def draw_reals(seed: int, draw_number: int, batch: int) -> list[float]:
    """The reals of a Philox draw of `batch` lanes."""
    return [real(lane_word(seed, draw_number, lane, REAL_DRAW_TAG)) for lane in range(batch)]


# PCG64


class Pcg64:
    """PCG64 XSL-RR 128/64, started where `numpy.random.PCG64(seed)` starts."""

    MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645

    def __init__(self, seed: int) -> None:
        from numpy.random import PCG64

        start = PCG64(seed).state["state"]
        self.state = int(start["state"])
        self.increment = int(start["inc"])

    def next(self) -> int:
        """Step once, then give the 64-bit output of the new state."""
        self.state = (self.state * self.MULTIPLIER + self.increment) & MASK128
        folded = (self.state >> 64) ^ (self.state & MASK64)
        turn = self.state >> 122
        return (folded >> turn | folded << (64 - turn)) & MASK64


# The two sources of 64-bit words: one word, or one real, for each lane of each draw


class Words(Protocol):
    """Where a draw gets its words. `draws` is the number of the next draw."""

    draws: int

    def next(self, batch: int) -> list[int]:
        """The words of one draw of `batch` lanes; the draw number grows by one."""
        ...

    def next_reals(self, batch: int) -> list[float]:
        """The reals of one draw of `batch` lanes; the draw number grows by one."""
        ...


class PhiloxWords:
    """The device's words, and the host's with `rng="philox"`."""

    def __init__(self, seed: int, draws: int = 0) -> None:
        self.seed = seed
        self.draws = draws

    def next(self, batch: int) -> list[int]:
        """The words of one draw of `batch` lanes; the draw number grows by one."""
        words = [lane_word(self.seed, self.draws, lane) for lane in range(batch)]
        self.draws += 1
        return words

    def next_reals(self, batch: int) -> list[float]:
        """The reals of one draw of `batch` lanes; the draw number grows by one."""
        reals = draw_reals(self.seed, self.draws, batch)
        self.draws += 1
        return reals


class Pcg64Words:
    """The words of the host's default generator. They do not depend on the draw number."""

    def __init__(self, seed: int, draws: int = 0) -> None:
        self.generator = Pcg64(seed)
        self.draws = draws

    def next(self, batch: int) -> list[int]:
        """The words of one draw of `batch` lanes; the draw number grows by one."""
        words = [self.generator.next() for _ in range(batch)]
        self.draws += 1
        return words

    def next_reals(self, batch: int) -> list[float]:
        """The reals of one draw: of the very words that a draw of rows would have got."""
        return [real(word) for word in self.next(batch)]


def word_source(rng: str, seed: int, draws: int = 0) -> Words:
    """The source named `"philox"` or `"pcg64"`, about to make draw number `draws`."""
    if rng == "philox":
        return PhiloxWords(seed, draws)
    if rng == "pcg64":
        return Pcg64Words(seed, draws)
    raise ValueError(f"no word source is called {rng!r}; there are 'philox' and 'pcg64'")


# float32, and what a priority becomes in the tree

SMALLEST_NORMAL = 2.0**-126
"""The smallest float32 that no device takes for zero."""


def to_float32(x: float) -> float:
    """The float32 nearest to `x`, the even one of two; OverflowError when there is none.

    `struct` packs by a C cast, which rounds so, and refuses a finite number that becomes
    infinite. It spares the witness NumPy, whose scalars would only warn.
    """
    if not math.isfinite(x):
        raise OverflowError(f"{x} is not a finite number")
    return float(struct.unpack("<f", struct.pack("<f", x))[0])


def priority(td_error: float, epsilon: float) -> float:
    """|td| + epsilon, of which the running maximum is kept."""
    return abs(td_error) + epsilon


def mass(priority: float, alpha: float) -> float:
    """A leaf before it is rounded to float32: never 0, nor small enough to be flushed to 0."""
    return max(priority**alpha, SMALLEST_NORMAL)


def entering_leaf(max_priority: float, alpha: float) -> float:
    """The leaf of a new row."""
    return to_float32(mass(max_priority, alpha))


def leaf_from_td_error(td_error: float, alpha: float, epsilon: float) -> float:
    """The leaf of a row with that TD error.

    ValueError when the TD error is not finite, OverflowError when the leaf has no float32.
    """
    if not math.isfinite(td_error):
        raise ValueError(f"a TD error of {td_error} is not a finite number")
    return to_float32(mass(priority(td_error, epsilon), alpha))


# The sum tree

FAN_OUT = 16


class SumTree:
    """A 16-ary tree of sums: `levels[0]` the leaves, in float32, and `levels[-1]` the one root.

    Every level but the root is filled up with zeros to a multiple of sixteen, so node i of a
    level is the sum of `level_below[16 * i : 16 * i + 16]`; and there is always a root above
    the leaves, also when one node of sixteen leaves holds them all.
    """

    def __init__(self, leaves: Sequence[float]) -> None:
        if any(to_float32(leaf) != leaf or leaf < 0 for leaf in leaves):
            raise ValueError("a leaf is a float32 that is not negative")
        level = list(leaves)
        self.levels: list[list[float]] = []
        while not self.levels or len(level) > 1:
            level += [0.0] * (-len(level) % FAN_OUT)
            self.levels.append(level)
            nodes = range(len(level) // FAN_OUT)
            level = [self._sum_of_children(len(self.levels), node) for node in nodes]
        self.levels.append(level)

    def _children(self, level: int, node: int) -> list[float]:
        return self.levels[level - 1][FAN_OUT * node : FAN_OUT * (node + 1)]

    def _sum_of_children(self, level: int, node: int) -> float:
        """c0 + c1 + ... + c15, in that order."""
        running = 0.0
        for child in self._children(level, node):
            running += child
        return running

    @property
    def total(self) -> float:
        """The root."""
        return self.levels[-1][0]

    def set(self, index: int, leaf: float) -> None:
        """Change one leaf, and sum every node above it anew."""
        if to_float32(leaf) != leaf or leaf < 0:
            raise ValueError("a leaf is a float32 that is not negative")
        self.levels[0][index] = leaf
        node = index
        for level in range(1, len(self.levels)):
            node //= FAN_OUT
            self.levels[level][node] = self._sum_of_children(level, node)

    def descend(self, target: float) -> int:
        """The leaf in whose share of the total the target lies."""
        if self.total == 0:
            raise ValueError("there is no mass in the tree")
        node = 0
        for level in reversed(range(1, len(self.levels))):
            child, target = self._step(self._children(level, node), target)
            node = FAN_OUT * node + child
        return node

    @staticmethod
    def _step(children: Sequence[float], target: float) -> tuple[int, float]:
        """The child to enter, and the target inside it.

        It is the first whose running sum exceeds the target. Rounding can leave a target that
        none exceeds; then it is the last that has mass.
        """
        running = 0.0
        last_with_mass = None
        for index, child in enumerate(children):
            before = running
            running += child
            if running > target:
                return index, target - before
            if child > 0:
                last_with_mass = index, target - before
        assert last_with_mass is not None
        return last_with_mass

    def draw(self, reals: Sequence[float]) -> list[int]:
        """A stratified draw: lane i of B draws in the i-th of B equal slices of the total."""
        batch = len(reals)
        return [self.descend((lane + u) * (self.total / batch)) for lane, u in enumerate(reals)]


# The weights of a batch


def weight_quotients(leaves: Sequence[float], size: int, total: float, beta: float) -> list[float]:
    """The weights of drawn rows with those leaves, in float64, before they are rounded."""
    raw = [(size * leaf / total) ** -beta for leaf in leaves]
    largest = max(raw)
    return [weight / largest for weight in raw]


def weights(leaves: Sequence[float], size: int, total: float, beta: float) -> list[float]:
    """The weights of a batch, each a float32: what a device would flush to 0 is 0."""
    quotients = weight_quotients(leaves, size, total, beta)
    return [0.0 if q < SMALLEST_NORMAL else to_float32(q) for q in quotients]
