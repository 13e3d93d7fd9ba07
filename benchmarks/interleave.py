"""Timing several contenders so that what the machine does meanwhile hits all of them alike."""

import gc
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

# One timed operation; nobody looks at what it returns.
Call = Callable[[], Any]


_LONGEST_BLOCK = 3000.0  # microseconds


@dataclass(frozen=True)
class Following:
    """A block of calls that each take what another has just returned, which is not timed.

    An update of priorities is of the rows that were drawn right before: drawing them beforehand
    for a whole block of updates would time it with other things in the caches.
    """

    before: Call
    call: Callable[[Any], Any]
    times: int


# A block: calls that are timed together, one after the other, or each after one that is not.
Block = Sequence[Call] | Following


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
    if isinstance(block, Following):
        block.call(block.before())
    else:
        block[0]()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _time_following(block) if isinstance(block, Following) else _time_calls(block)
    finally:
        if was_enabled:
            gc.enable()


def shortened(block: Block) -> Block:
    """The block with fewer calls, where all of them would take more than a few milliseconds."""
    calls = max(1, int(_LONGEST_BLOCK / time_block(block)))
    if isinstance(block, Following):
        return replace(block, times=min(block.times, calls))
    return block[:calls]


def _time_calls(block: Sequence[Call]) -> float:
    start = time.perf_counter_ns()
    for call in block:
        call()
    return (time.perf_counter_ns() - start) / len(block) / 1000


def _time_following(block: Following) -> float:
    before, call = block.before, block.call
    taken = 0
    for _ in range(block.times):
        given = before()
        start = time.perf_counter_ns()
        call(given)
        taken += time.perf_counter_ns() - start
    return taken / block.times / 1000


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
    """How many times our time the other takes: the median of the rounds' own ratios.

    A slow minute of the machine cancels out.
    """
    return float(np.median(other / own))
