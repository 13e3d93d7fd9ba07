"""The draws of this library, a second time, in plain Python integers.

This is the witness that every back end is held against: it is written from the definitions (the
published Philox4x32-10, splitmix64 and PCG64 XSL-RR 128/64, and the rules of the design page), it
is slow, and it imports nothing of the library. NumPy is asked for one thing alone: the state in
which `numpy.random.PCG64(seed)` starts.

References
----------
Philox: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
PCG64: O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms for
random number generation", HMC-CS-2014-0905.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

MASK32 = 2**32 - 1
MASK64 = 2**64 - 1
MASK128 = 2**128 - 1

ROW_DRAW_TAG = 0
"""Purpose tag (counter word 3) of every draw of rows, whatever the policy."""


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


def lane_word(seed: int, draw_number: int, lane: int) -> int:
    """The 64-bit word with which one lane of one numbered draw chooses its row."""
    counter = (draw_number & MASK32, draw_number >> 32, 0, ROW_DRAW_TAG)
    out = philox(counter, lane_key(seed, lane))
    return out[1] << 32 | out[0]


def umulhi64(word: int, span: int) -> int:
    """The high 64 bits of the 128-bit product: a word in [0, 2^64) scaled down to [0, span)."""
    return word * span >> 64


def draw_rows(seed: int, draw_number: int, batch: int, lo: int, hi: int) -> list[int]:
    """The rows that a Philox draw of `batch` lanes takes from the window `[lo, hi)`."""
    return [lo + umulhi64(lane_word(seed, draw_number, lane), hi - lo) for lane in range(batch)]


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


# The two sources of 64-bit words: one word for each lane of each draw


class Words(Protocol):
    """Where a draw gets its words. `draws` is the number of the next draw."""

    draws: int

    def next(self, batch: int) -> list[int]:
        """The words of one draw of `batch` lanes; the draw number grows by one."""
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


def word_source(rng: str, seed: int, draws: int = 0) -> Words:
    """The source named `"philox"` or `"pcg64"`, about to make draw number `draws`."""
    if rng == "philox":
        return PhiloxWords(seed, draws)
    if rng == "pcg64":
        return Pcg64Words(seed, draws)
    raise ValueError(f"no word source is called {rng!r}; there are 'philox' and 'pcg64'")
