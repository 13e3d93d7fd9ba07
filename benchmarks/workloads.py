"""What the rings hold, which calls are timed, and checks that a ring holds what went in."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

OBS, ACTION = 17, 6
PIXEL_SHAPE = (84, 84, 4)
ACTIONS = 18  # of the pixels' environment
ADD_BATCHES = (64, 4096)
SAMPLE_BATCHES = (32, 256, 1024, 4096, 32768)
PIXEL_BATCHES = (32, 256)
ONLINE_BATCH = 256

ROW_BYTES = 4 * (2 * OBS + ACTION + 1) + 1
PIXEL_ROW_BYTES = 2 * math.prod(PIXEL_SHAPE) + 13

CHUNK = 10_000  # transitions made at a time while filling
_PIXEL_CHUNK = 500

Transitions = tuple[
    NDArray[Any], NDArray[Any], NDArray[np.float32], NDArray[Any], NDArray[np.bool_]
]


@dataclass(frozen=True)
class Workload:
    """What a ring holds, and how it is drawn from."""

    name: str
    description: str
    prioritized: bool
    pixels: bool
    row_bytes: int
    make: Callable[[int, int], Transitions]
    chunk: int

    def chunks(self, rows: int) -> Iterator[Transitions]:
        """What fills a ring of so many rows, a part at a time; every time the same."""
        for number, start in enumerate(range(0, rows, self.chunk)):
            yield self.make(min(self.chunk, rows - start), number)


def transitions(count: int, seed: int) -> Transitions:
    """obs, action, reward, next_obs, terminated of so many random transitions."""
    rng = np.random.default_rng(seed)
    obs, next_obs = rng.random((2, count, OBS), np.float32)
    action = rng.random((count, ACTION), np.float32)
    return obs, action, rng.random(count, np.float32), next_obs, rng.random(count) < 0.01


def pixel_transitions(count: int, seed: int) -> Transitions:
    """The same with images and discrete actions."""
    rng = np.random.default_rng(seed)
    obs, next_obs = rng.integers(0, 256, (2, count, *PIXEL_SHAPE), np.uint8)
    action = rng.integers(0, ACTIONS, count)
    return obs, action, rng.random(count, np.float32), next_obs, rng.random(count) < 0.01


_FLOATS = f"{OBS} obs + {ACTION} action + 1 reward + {OBS} next_obs float32 + terminated"
UNIFORM = Workload("uniform", _FLOATS, False, False, ROW_BYTES, transitions, CHUNK)
PRIORITIZED = Workload(
    "prioritized", f"{_FLOATS}, by priority", True, False, ROW_BYTES, transitions, CHUNK
)
PIXELS = Workload(
    "pixels",
    "84x84x4 uint8 obs and next_obs, action int64, reward, terminated",
    False,
    True,
    PIXEL_ROW_BYTES,
    pixel_transitions,
    _PIXEL_CHUNK,
)


def calls_per_block(bytes_per_call: int) -> int:
    """So many that a block is long for a timer and short for a scheduler.

    Blocks take some 20 to 500 microseconds, a few milliseconds for the largest batches. On a busy
    machine a long block is nearly always interrupted; of short ones most are not.
    """
    return max(2, min(64, 700_000 // bytes_per_call))


def split(values: Transitions) -> list[tuple[Any, ...]]:
    """What an environment's steps give: arrays of their own, an action, a float and a bool."""
    return [
        (obs.copy(), np.copy(action), float(reward), next_obs.copy(), bool(terminated))
        for obs, action, reward, next_obs, terminated in zip(*values, strict=True)
    ]


def check_rows(
    name: str,
    workload: Workload,
    rows: int,
    columns: Sequence[NDArray[Any]],
    indices: NDArray[np.int64] | None,
) -> None:
    """Raise unless every drawn row is one that went in: as that row, where ``indices`` says which.

    Rows have to lie in the order in which they went in.
    """
    lanes = len(columns[2])
    flat = [np.reshape(column, (lanes, -1)) for column in columns]
    found = np.zeros(lanes, bool)
    for number, chunk in enumerate(workload.chunks(rows)):
        first = number * workload.chunk
        for lane in np.flatnonzero(~found):
            if indices is None:
                places = np.flatnonzero(chunk[2] == flat[2][lane, 0])  # a few have the same reward
            else:
                place = int(indices[lane]) - first
                places = np.array([place] if 0 <= place < len(chunk[2]) else [], np.int64)
            found[lane] = any(_is_row(chunk, place, flat, lane) for place in places)
    if not found.all():
        raise RuntimeError(f"{name} gave a row that was never added: bad adapter")


def _is_row(chunk: Transitions, place: int, flat: Sequence[NDArray[Any]], lane: int) -> bool:
    return all(
        np.array_equal(np.ravel(made[place]), column[lane])
        for made, column in zip(chunk, flat, strict=True)
    )
