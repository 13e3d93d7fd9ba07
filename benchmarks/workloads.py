"""What the rings are filled with, and checks that they were."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

OBS, ACTION = 17, 6
PIXELS = (84, 84, 4)
ADD_BATCH = 64
PIXEL_BATCH = 32
SAMPLE_BATCHES = (32, 256, 1024, 4096)

ROW_BYTES = 4 * (2 * OBS + ACTION + 1) + 1
PIXEL_ROW_BYTES = 2 * math.prod(PIXELS) + 13

CHUNK = 10_000  # transitions made at a time while filling
_PIXEL_CHUNK = 500

Transitions = tuple[
    NDArray[Any], NDArray[Any], NDArray[np.float32], NDArray[Any], NDArray[np.bool_]
]


def transitions(count: int, seed: int) -> Transitions:
    """obs, action, reward, next_obs, terminated of so many random transitions."""
    rng = np.random.default_rng(seed)
    obs, next_obs = rng.random((2, count, OBS), np.float32)
    action = rng.random((count, ACTION), np.float32)
    return obs, action, rng.random(count, np.float32), next_obs, rng.random(count) < 0.01


def pixel_transitions(count: int, seed: int) -> Transitions:
    """The same with images and discrete actions."""
    rng = np.random.default_rng(seed)
    obs, next_obs = rng.integers(0, 256, (2, count, *PIXELS), np.uint8)
    action = rng.integers(0, 18, count)
    return obs, action, rng.random(count, np.float32), next_obs, rng.random(count) < 0.01


def transition_chunks(rows: int) -> Iterator[Transitions]:
    """What fills a ring of so many transitions, a part at a time; every time the same."""
    for number, start in enumerate(range(0, rows, CHUNK)):
        yield transitions(min(CHUNK, rows - start), number)


def pixel_chunks(rows: int) -> Iterator[Transitions]:
    """The same for images."""
    for number, start in enumerate(range(0, rows, _PIXEL_CHUNK)):
        yield pixel_transitions(min(_PIXEL_CHUNK, rows - start), number)


def calls_per_block(bytes_per_call: int) -> int:
    """So many that a block is long for a timer and short for a scheduler.

    Blocks take some 20 to 500 microseconds, a few milliseconds for the largest batches. On a busy
    machine a long block is nearly always interrupted; of short ones most are not.
    """
    return max(2, min(64, 700_000 // bytes_per_call))


def single_transitions(
    count: int,
) -> list[tuple[NDArray[Any], NDArray[Any], float, NDArray[Any], bool]]:
    """What an environment's step gives: arrays of their own, a float and a bool."""
    return [
        (obs.copy(), action.copy(), float(reward), next_obs.copy(), bool(terminated))
        for obs, action, reward, next_obs, terminated in zip(*transitions(count, 0), strict=True)
    ]


def check_filled(
    name: str,
    held: int,
    rows: int,
    row: Sequence[NDArray[Any]],
    chunks: Callable[[int], Iterator[Transitions]],
) -> None:
    """Raise unless the ring is full, and one row drawn from it is one that went in.

    ``row`` has the drawn row's columns in the order of `Transitions`.
    """
    if held != rows:
        raise RuntimeError(f"{name} holds {held:,} rows, not {rows:,}: bad adapter")
    drawn = [np.ravel(value) for value in row]
    for chunk in chunks(rows):
        for place in np.flatnonzero(chunk[2] == drawn[2]):  # a few have the same reward
            made = (np.ravel(column[place]) for column in chunk)
            if all(map(np.array_equal, made, drawn)):
                return
    raise RuntimeError(f"{name} gave a row that was never added: bad adapter")
