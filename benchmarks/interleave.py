"""Timing several contenders so that what the machine does meanwhile hits all of them alike."""

import gc
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# One timed operation; nobody looks at what it returns.
Call = Callable[[], Any]

# A block: calls that are timed together, one after the other.
Block = Sequence[Call]


def interleaved(
    cases: Mapping[str, Mapping[str, Block]], rounds: int, order: random.Random
) -> Iterable[tuple[str, str, float]]:
    """Time every block once a round, contenders in a new random order for each case.

    Parameters
    ----------
    cases
        Case to contender to block.
    rounds
        How often every block is timed.
    order
        Where the order of contenders comes from.

    Yields
    ------
    (case, contender, microseconds per call), once a round for each block
    """
    for _ in range(rounds):
        for case, blocks in cases.items():
            contenders = list(blocks)
            order.shuffle(contenders)
            for contender in contenders:
                yield case, contender, time_block(blocks[contender])


def time_block(block: Block) -> float:
    """Microseconds per call. The first call is made twice: once unseen, to load the code again."""
    block[0]()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter_ns()
        for call in block:
            call()
        taken = time.perf_counter_ns() - start
    finally:
        if was_enabled:
            gc.enable()
    return taken / len(block) / 1000


@dataclass(frozen=True)
class Timing:
    """Microseconds per call, over rounds."""

    median: float
    lower_quartile: float
    upper_quartile: float

    @classmethod
    def of(cls, rounds: NDArray[np.float64]) -> "Timing":
        lower, median, upper = np.percentile(rounds, (25, 50, 75))
        return cls(float(median), float(lower), float(upper))


def ratio(own: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The median of the rounds' own ratios: a slow minute of the machine cancels out."""
    return float(np.median(own / other))
