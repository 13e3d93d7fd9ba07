"""The libraries that are timed, each used in the fastest way that its documentation offers."""

import itertools
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.copy_bound import copy_loops
from benchmarks.interleave import Block, Call
from benchmarks.machine import package_version
from benchmarks.workloads import (
    ACTION,
    ADD_BATCH,
    OBS,
    PIXEL_BATCH,
    PIXEL_ROW_BYTES,
    PIXELS,
    ROW_BYTES,
    SAMPLE_BATCHES,
    Transitions,
    calls_per_block,
    check_filled,
    pixel_chunks,
    single_transitions,
    transition_chunks,
    transitions,
)


class Library:
    """One of the libraries, as a report names it."""

    name: str
    how: str  # how it is used, and what differs from the others
    is_peer = True

    @property
    def version(self) -> str:
        """Of the installed package."""
        if self.is_peer:
            return package_version(self.name)
        import cpreplay  # a plain checkout has no metadata to read it from

        return cpreplay.__version__


class Contender(Library, ABC):
    """One library: a filled ring, and blocks of calls on it."""

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
            partial(buffer.add, *one) for one in single_transitions(calls_per_block(ROW_BYTES))
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
            for one in single_transitions(calls_per_block(ROW_BYTES))
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
            for obs, action, reward, next_obs, terminated in single_transitions(
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
