"""The libraries that are timed, each used in the fastest way that its documentation offers."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.copy_bound import copy_loops
from benchmarks.interleave import Block, Call
from benchmarks.machine import package_version

OBS, ACTION = 17, 6
PIXELS = (84, 84, 4)
ADD_BATCH = 64
PIXEL_BATCH = 32
SAMPLE_BATCHES = (32, 256, 1024, 4096)

ROW_BYTES = 4 * (2 * OBS + ACTION + 1) + 1
PIXEL_ROW_BYTES = 2 * math.prod(PIXELS) + 13

_CHUNK = 10_000  # transitions made at a time while filling
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
    for number, start in enumerate(range(0, rows, _CHUNK)):
        yield transitions(min(_CHUNK, rows - start), number)


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


class Contender(ABC):
    """One library: a filled ring, and blocks of calls on it."""

    name: str
    how: str  # how it is used, and what differs from the others
    is_peer = True

    @property
    def version(self) -> str:
        """Of the installed package."""
        return package_version(self.name)

    @abstractmethod
    def transition_blocks(self, rows: int) -> dict[str, Block]:
        """Blocks by case, over a full ring of ``rows`` transitions."""

    @abstractmethod
    def pixel_blocks(self, rows: int) -> dict[str, Block]:
        """Blocks by case, over a full ring of images; none where they cannot be compared."""


class Cpreplay(Contender):
    name = "cpreplay"
    how = (
        "StoreReplay, default generator; sample into fresh arrays and with out= into one make_batch"
    )
    is_peer = False

    def transition_blocks(self, rows: int) -> dict[str, Block]:
        from cpreplay import StoreReplay

        buffer = StoreReplay(OBS, ACTION, rows, seed=0)
        for chunk in transition_chunks(rows):
            buffer.add_batch(*chunk)
        check_filled(self.name, len(buffer), rows, self._row(buffer), transition_chunks)
        blocks: dict[str, Block] = {}
        for batch_size in SAMPLE_BATCHES:
            blocks |= _own_sample_blocks(buffer, batch_size, ROW_BYTES)
        blocks["add"] = [
            partial(buffer.add, *one) for one in _single_transitions(calls_per_block(ROW_BYTES))
        ]
        blocks[f"add_batch({ADD_BATCH})"] = [
            partial(buffer.add_batch, *transitions(ADD_BATCH, number))
            for number in range(calls_per_block(ADD_BATCH * ROW_BYTES))
        ]
        return blocks

    def pixel_blocks(self, rows: int) -> dict[str, Block]:
        from cpreplay import StoreReplay

        buffer = StoreReplay(PIXELS, (), rows, obs_dtype="uint8", action_dtype="int64", seed=0)
        for chunk in pixel_chunks(rows):
            buffer.add_batch(*chunk)
        check_filled(self.name, len(buffer), rows, self._row(buffer), pixel_chunks)
        self._pixels = buffer
        return _own_sample_blocks(buffer, PIXEL_BATCH, PIXEL_ROW_BYTES)

    @staticmethod
    def _row(buffer: Any) -> list[NDArray[Any]]:
        drawn = buffer.sample(1)
        return [drawn.obs, drawn.action, drawn.reward, drawn.next_obs, drawn.terminated]

    def copy_bounds(self) -> dict[str, Block]:
        """Plain copies of as many cold rows out of the same memory, by the name of the loop.

        Obs and next_obs alone, to fixed addresses, of rows that were drawn before: no draw, no
        other columns, no calls but the copies.
        """
        sources = [self._pixels.column(name) for name in ("obs", "next_obs")]
        rng = np.random.default_rng(1)
        blocks: dict[str, Block] = {}
        for name, make_copy in copy_loops().items():
            # Rows of its own for each loop: it would find others' in the cache, just copied.
            drawn = rng.integers(0, len(sources[0]), (2000, PIXEL_BATCH))
            targets = [np.full((PIXEL_BATCH, *PIXELS), 1, np.uint8) for _ in sources]
            copy = make_copy(targets, sources, drawn)
            blocks[name] = [copy] * calls_per_block(PIXEL_BATCH * PIXEL_ROW_BYTES)
        return blocks


class Cpprb(Contender):
    name = "cpprb"
    how = (
        "ReplayBuffer with an env_dict of the same five columns (done as bool), next_obs stored; "
        "add with keyword arguments. It has no out=: its sample stands in both rows. reward and "
        "done come back as (B, 1), no indices"
    )

    def transition_blocks(self, rows: int) -> dict[str, Block]:
        buffer = self._buffer(rows, {"shape": OBS}, {"shape": ACTION})
        for chunk in transition_chunks(rows):
            buffer.add(**self._named(chunk))
        held = buffer.get_stored_size()
        check_filled(self.name, held, rows, self._row(buffer), transition_chunks)
        blocks: dict[str, Block] = {}
        for batch_size in SAMPLE_BATCHES:
            sample = partial(buffer.sample, batch_size)
            blocks |= _same_for_both(sample, batch_size, ROW_BYTES)
        blocks["add"] = [
            partial(buffer.add, **self._named(one))
            for one in _single_transitions(calls_per_block(ROW_BYTES))
        ]
        blocks[f"add_batch({ADD_BATCH})"] = [
            partial(buffer.add, **self._named(transitions(ADD_BATCH, number)))
            for number in range(calls_per_block(ADD_BATCH * ROW_BYTES))
        ]
        return blocks

    def pixel_blocks(self, rows: int) -> dict[str, Block]:
        buffer = self._buffer(
            rows, {"shape": PIXELS, "dtype": np.uint8}, {"shape": 1, "dtype": np.int64}
        )
        for chunk in pixel_chunks(rows):
            buffer.add(**self._named(chunk))
        check_filled(self.name, buffer.get_stored_size(), rows, self._row(buffer), pixel_chunks)
        return _same_for_both(partial(buffer.sample, PIXEL_BATCH), PIXEL_BATCH, PIXEL_ROW_BYTES)

    @staticmethod
    def _buffer(rows: int, obs: dict[str, Any], action: dict[str, Any]) -> Any:
        import cpprb

        return cpprb.ReplayBuffer(
            rows,
            {"obs": obs, "act": action, "rew": {}, "next_obs": obs, "done": {"dtype": bool}},
        )

    @staticmethod
    def _row(buffer: Any) -> list[NDArray[Any]]:
        drawn = buffer.sample(1)
        return [drawn[name] for name in ("obs", "act", "rew", "next_obs", "done")]

    @staticmethod
    def _named(values: Any) -> dict[str, Any]:
        return dict(zip(("obs", "act", "rew", "next_obs", "done"), values, strict=True))


class Rlox(Contender):
    name = "rlox"
    how = (
        "ReplayBuffer (Rust); push and push_batch with the arrays that they take without a "
        "conversion: flat float32, flags as uint8, made before the timing. It has no out=: its "
        "sample stands in both rows, and takes a new seed a call. It returns a truncated column "
        "more, flags as uint8, no indices. It stores float32 alone, so images are not compared"
    )

    def transition_blocks(self, rows: int) -> dict[str, Block]:
        import rlox

        buffer = rlox.ReplayBuffer(rows, OBS, ACTION)
        for chunk in transition_chunks(rows):
            buffer.push_batch(*self._flat(chunk))
        drawn = buffer.sample(1, 0)
        row = [drawn[name] for name in ("obs", "actions", "rewards", "next_obs", "terminated")]
        check_filled(self.name, len(buffer), rows, row, transition_chunks)
        blocks: dict[str, Block] = {}
        for batch_size in SAMPLE_BATCHES:
            # no function of ours in between: the seeds are counted in C
            sample = map(partial(buffer.sample, batch_size), itertools.count()).__next__
            blocks |= _same_for_both(sample, batch_size, ROW_BYTES)
        blocks["add"] = [
            partial(buffer.push, obs, action, reward, terminated, False, next_obs)
            for obs, action, reward, next_obs, terminated in _single_transitions(
                calls_per_block(ROW_BYTES)
            )
        ]
        blocks[f"add_batch({ADD_BATCH})"] = [
            partial(buffer.push_batch, *self._flat(transitions(ADD_BATCH, number)))
            for number in range(calls_per_block(ADD_BATCH * ROW_BYTES))
        ]
        return blocks

    def pixel_blocks(self, rows: int) -> dict[str, Block]:
        return {}

    @staticmethod
    def _flat(values: Transitions) -> tuple[NDArray[Any], ...]:
        obs, action, reward, next_obs, terminated = values
        truncated = np.zeros(len(reward), np.uint8)
        return (
            *(array.ravel() for array in (obs, next_obs, action, reward)),
            terminated.view(np.uint8),
            truncated,
        )


def _single_transitions(
    count: int,
) -> list[tuple[NDArray[Any], NDArray[Any], float, NDArray[Any], bool]]:
    """What an environment's step gives: arrays of their own, a float and a bool."""
    return [
        (obs.copy(), action.copy(), float(reward), next_obs.copy(), bool(terminated))
        for obs, action, reward, next_obs, terminated in zip(*transitions(count, 0), strict=True)
    ]


def _own_sample_blocks(buffer: Any, batch_size: int, row_bytes: int) -> dict[str, Block]:
    calls = calls_per_block(batch_size * row_bytes)
    out = buffer.make_batch(batch_size)
    return {
        f"sample({batch_size})": [partial(buffer.sample, batch_size)] * calls,
        f"sample({batch_size}, out=)": [partial(buffer.sample, batch_size, out=out)] * calls,
    }


def _same_for_both(sample: Call, batch_size: int, row_bytes: int) -> dict[str, Block]:
    block = [sample] * calls_per_block(batch_size * row_bytes)
    return {f"sample({batch_size})": block, f"sample({batch_size}, out=)": block}


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
