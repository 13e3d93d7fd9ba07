"""The libraries with prioritized replay, each used in the fastest way that its docs offer."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders import Library
from benchmarks.interleave import Block, Call, Following
from benchmarks.workloads import (
    ACTION,
    ADD_BATCH,
    CHUNK,
    OBS,
    ROW_BYTES,
    Transitions,
    calls_per_block,
    single_transitions,
    transition_chunks,
    transitions,
)

ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-6
BATCHES = (64, 256, 1024, 4096)
ONLINE_BATCH = 256

_WARM_UP_STEPS = 400
_CHECKED_LANES = 200
_POOL = 61  # minibatches of TD errors that go around
# TD errors of the check, by row modulo 8: as far apart as those of training. With much larger ones
# among a million rows the draws of a sum tree in float32, such as cpprb's, are visibly off.
_GRADES: NDArray[np.float64] = 0.03 * np.exp2(np.arange(8))
_DRAWS = 200


class PrioritizedContender(Library, ABC):
    """One library: a filled ring with priorities, and blocks of calls on it.

    ``draw`` and what ``updating`` gives are what is timed, so they do no more than they have to.
    Magnitudes, the powers' exponents and the importance weights are everyone's own work; who does
    not take a TD error's magnitude itself, or add epsilon, gets that done before the timing.
    """

    has_out = False

    @abstractmethod
    def fill(self, rows: int) -> None:
        """Make a ring and fill it with `transition_chunks`."""

    @abstractmethod
    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        """A call that draws a minibatch, with rows and weights."""

    @abstractmethod
    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        """A call that updates what a draw returned with the next TD errors, of `taken`."""

    @abstractmethod
    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        """Set the priorities of rows: outside the timing."""

    @abstractmethod
    def taken(self, td_errors: NDArray[np.float64]) -> Any:
        """TD errors as the library takes them fastest."""

    @abstractmethod
    def adds(self, count: int) -> list[Call]:
        """So many calls that each add one transition."""

    @abstractmethod
    def batch_adds(self, count: int) -> list[Call]:
        """So many calls that each add a batch of them."""

    @abstractmethod
    def drawn(self, batch: Any) -> tuple[list[Any], Any, Any]:
        """Columns in the order of `Transitions`, rows and weights of what was drawn."""

    def blocks(self, rows: int) -> dict[str, Block]:
        """Blocks by case, over a full ring of ``rows`` transitions, its draws checked."""
        self.fill(rows)
        check_draws(self, rows)
        self._warm_up(rows)
        blocks: dict[str, Block] = {}
        for batch_size in BATCHES:
            blocks |= self._batch_blocks(batch_size)
        blocks["add"] = self.adds(calls_per_block(ROW_BYTES))
        blocks[f"add_batch({ADD_BATCH})"] = self.batch_adds(calls_per_block(ADD_BATCH * ROW_BYTES))
        step = self._step(ONLINE_BATCH, into_fixed=False)
        blocks[f"add + step({ONLINE_BATCH})"] = [
            partial(_one_after_the_other, add, step) for add in self.adds(_calls(ONLINE_BATCH))
        ]
        return blocks

    def _batch_blocks(self, batch_size: int) -> dict[str, Block]:
        calls = _calls(batch_size)
        draw = self.draw(batch_size)
        blocks: dict[str, Block] = {
            f"sample({batch_size})": [draw] * calls,
            f"update({batch_size})": Following(draw, self._updating(batch_size), calls),
        }
        for into_fixed, out in ((False, ""), (True, ", out=")):
            # who has no out= stands in both rows
            step = [self._step(batch_size, into_fixed=into_fixed and self.has_out)] * calls
            blocks[f"step({batch_size}{out})"] = step
        draw = self.draw(batch_size, into_fixed=True) if self.has_out else draw
        blocks[f"sample({batch_size}, out=)"] = [draw] * calls
        return blocks

    def _updating(self, batch_size: int) -> Callable[[Any], Any]:
        drawn = np.random.default_rng(batch_size).standard_normal((_POOL, batch_size))
        return self.updating(itertools.cycle([self.taken(one) for one in drawn]).__next__)

    def _step(self, batch_size: int, *, into_fixed: bool) -> Call:
        return partial(
            _passed_on, self.draw(batch_size, into_fixed=into_fixed), self._updating(batch_size)
        )

    def _warm_up(self, rows: int) -> None:
        """Priorities such as training leaves: of |N(0, 1)| for each row, and of many real steps."""
        rng = np.random.default_rng(0)
        for start in range(0, rows, CHUNK):
            part = np.arange(start, min(start + CHUNK, rows))
            self.update_rows(part, rng.standard_normal(len(part)))
        step = self._step(ONLINE_BATCH, into_fixed=False)
        for _ in range(_WARM_UP_STEPS):
            step()


def _passed_on(draw: Call, update: Callable[[Any], Any]) -> None:
    update(draw())


def _one_after_the_other(first: Call, second: Call) -> None:
    first()
    second()


def _calls(batch_size: int) -> int:
    return calls_per_block(4 * batch_size * ROW_BYTES)  # a draw of rows by priority takes longer


class PrioritizedCpreplay(PrioritizedContender):
    name = "cpreplay"
    how = (
        "StoreReplay(prioritized=True), default generator; update_priorities with the drawn batch, "
        "so that overwritten rows are recognised, and signed TD errors in float64. Weights are "
        "divided by the batch's largest. Sample and step into fresh arrays, and with out= into one "
        "make_batch"
    )
    is_peer = False
    has_out = True

    def fill(self, rows: int) -> None:
        from cpreplay import StoreReplay

        self._buffer = StoreReplay(OBS, ACTION, rows, prioritized=True, seed=0)
        self._buffer.configure_per(ALPHA, BETA, EPSILON)
        for chunk in transition_chunks(rows):
            self._buffer.add_batch(*chunk)

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        if not into_fixed:
            return partial(self._buffer.sample, batch_size)
        return partial(self._buffer.sample, batch_size, out=self._buffer.make_batch(batch_size))

    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        update_priorities = self._buffer.update_priorities

        def update(batch: Any) -> None:
            update_priorities(batch, td_errors())

        return update

    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        self._buffer.update_priorities(rows, td_errors)

    def taken(self, td_errors: NDArray[np.float64]) -> NDArray[np.float64]:
        return td_errors

    def adds(self, count: int) -> list[Call]:
        return [partial(self._buffer.add, *one) for one in single_transitions(count)]

    def batch_adds(self, count: int) -> list[Call]:
        return [
            partial(self._buffer.add_batch, *transitions(ADD_BATCH, number))
            for number in range(count)
        ]

    def drawn(self, batch: Any) -> tuple[list[Any], Any, Any]:
        columns = [batch.obs, batch.action, batch.reward, batch.next_obs, batch.terminated]
        return columns, batch.indices, batch.weights


class PrioritizedCpprb(PrioritizedContender):
    name = "cpprb"
    how = (
        "PrioritizedReplayBuffer with an env_dict of the same five columns, next_obs stored, and "
        "without check_for_update, so without a look at overwritten rows; priorities are float32 "
        "magnitudes, taken before the timing. Weights are divided by the largest of the whole "
        "ring. It has no out=: its figures stand in both rows"
    )

    def fill(self, rows: int) -> None:
        import cpprb

        obs = {"shape": OBS}
        columns = {
            "obs": obs,
            "act": {"shape": ACTION},
            "rew": {},
            "next_obs": obs,
            "done": {"dtype": bool},
        }
        self._buffer = cpprb.PrioritizedReplayBuffer(rows, columns, alpha=ALPHA, eps=EPSILON)
        for chunk in transition_chunks(rows):
            self._buffer.add(**self._named(chunk))

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        return partial(self._buffer.sample, batch_size, BETA)

    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        update_priorities = self._buffer.update_priorities

        def update(batch: Any) -> None:
            update_priorities(batch["indexes"], td_errors())

        return update

    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        self._buffer.update_priorities(rows, self.taken(td_errors))

    def taken(self, td_errors: NDArray[np.float64]) -> NDArray[np.float32]:
        return np.abs(td_errors).astype(np.float32)

    def adds(self, count: int) -> list[Call]:
        return [partial(self._buffer.add, **self._named(one)) for one in single_transitions(count)]

    def batch_adds(self, count: int) -> list[Call]:
        return [
            partial(self._buffer.add, **self._named(transitions(ADD_BATCH, number)))
            for number in range(count)
        ]

    def drawn(self, batch: Any) -> tuple[list[Any], Any, Any]:
        columns = [batch[name] for name in ("obs", "act", "rew", "next_obs", "done")]
        return columns, batch["indexes"], batch["weights"]

    @staticmethod
    def _named(values: Any) -> dict[str, Any]:
        return dict(zip(("obs", "act", "rew", "next_obs", "done"), values, strict=True))


class PrioritizedRlox(PrioritizedContender):
    name = "rlox"
    how = (
        "PrioritizedReplayBuffer (Rust); priorities are |TD error| + epsilon, computed before the "
        "timing in float64, the one dtype that it takes. New rows enter at a priority of 1, as "
        "push has it; there is no push_batch, so a batch is a loop of push in Python. A sample "
        "takes a new seed a call and has a truncated column more. It has no out=: its figures "
        "stand in both rows"
    )

    def fill(self, rows: int) -> None:
        import rlox

        self._buffer = rlox.PrioritizedReplayBuffer(rows, OBS, ACTION, ALPHA, BETA)
        for chunk in transition_chunks(rows):
            for add in self._pushes(chunk):
                add()

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        # no function of ours in between: the seeds are counted in C
        return map(partial(self._buffer.sample, batch_size), itertools.count()).__next__

    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        update_priorities = self._buffer.update_priorities

        def update(batch: Any) -> None:
            update_priorities(batch["indices"], td_errors())

        return update

    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        self._buffer.update_priorities(rows.astype(np.uint64), self.taken(td_errors))

    def taken(self, td_errors: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.abs(td_errors) + EPSILON

    def adds(self, count: int) -> list[Call]:
        return self._pushes(transitions(count, 0))

    def batch_adds(self, count: int) -> list[Call]:
        return [
            partial(_all, self._pushes(transitions(ADD_BATCH, number))) for number in range(count)
        ]

    def drawn(self, batch: Any) -> tuple[list[Any], Any, Any]:
        names = ("obs", "actions", "rewards", "next_obs", "terminated")
        return [batch[name] for name in names], batch["indices"], batch["weights"]

    def _pushes(self, values: Transitions) -> list[Call]:
        obs, action, reward, next_obs, terminated = values
        return [
            partial(self._buffer.push, *one)
            for one in zip(
                obs,
                action,
                reward.tolist(),
                terminated.tolist(),
                itertools.repeat(False, len(reward)),
                next_obs,
                strict=True,
            )
        ]


class PrioritizedTorchrl(PrioritizedContender):
    name = "torchrl"
    how = (
        "PrioritizedReplayBuffer over a LazyTensorStorage on the CPU, sample with return_info=True "
        "and update_priority with its rows: faster than TensorDictPrioritizedReplayBuffer; one "
        "torch thread, as everyone has one. What is added is a TensorDict, made before the timing; "
        "priorities are float32 magnitudes, taken before it too. Weights are divided by the "
        "largest of the whole ring. It has no out=: its figures stand in both rows"
    )

    def fill(self, rows: int) -> None:
        import logging

        import torch
        from torchrl.data import LazyTensorStorage, PrioritizedReplayBuffer

        logging.getLogger("torchrl").setLevel(logging.WARNING)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        np.random.seed(0)  # torchrl draws with this
        self._buffer = PrioritizedReplayBuffer(
            alpha=ALPHA, beta=BETA, eps=EPSILON, storage=LazyTensorStorage(rows)
        )
        for chunk in transition_chunks(rows):
            self._buffer.extend(self._tensors(chunk))

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        return partial(self._buffer.sample, batch_size, return_info=True)

    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        update_priority = self._buffer.update_priority

        def update(batch: Any) -> None:
            update_priority(batch[1]["index"], td_errors())

        return update

    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        import torch

        self._buffer.update_priority(torch.from_numpy(rows), self.taken(td_errors))

    def taken(self, td_errors: NDArray[np.float64]) -> Any:
        import torch

        return torch.from_numpy(np.abs(td_errors).astype(np.float32))

    def adds(self, count: int) -> list[Call]:
        made = self._tensors(transitions(count, 0))
        return [partial(self._buffer.add, one.clone()) for one in made]

    def batch_adds(self, count: int) -> list[Call]:
        return [
            partial(self._buffer.extend, self._tensors(transitions(ADD_BATCH, number)))
            for number in range(count)
        ]

    def drawn(self, batch: Any) -> tuple[list[Any], Any, Any]:
        values, info = batch
        columns = [
            values[name].numpy() for name in ("obs", "action", "reward", "next_obs", "terminated")
        ]
        return columns, info["index"].numpy(), info["priority_weight"].numpy()

    @staticmethod
    def _tensors(values: Transitions) -> Any:
        import torch
        from tensordict import TensorDict

        names = ("obs", "action", "reward", "next_obs", "terminated")
        named = {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}
        return TensorDict(named, [len(values[2])])


def _all(calls: list[Call]) -> None:
    for call in calls:
        call()


def check_draws(contender: PrioritizedContender, rows: int) -> None:
    """Raise unless draws are of rows that went in, as often as their priorities say, and weighted.

    The ring has to be full, rows in the order in which they went in; all priorities are set.
    """
    graded = np.arange(rows)
    for start in range(0, rows, CHUNK):
        part = graded[start : start + CHUNK]
        contender.update_rows(part, _GRADES[part % len(_GRADES)])
    draw = contender.draw(_CHECKED_LANES)
    counts = np.zeros(len(_GRADES))
    priorities = (_GRADES + EPSILON) ** ALPHA
    for _ in range(_DRAWS):
        columns, indices, weights = contender.drawn(draw())
        grades = np.asarray(indices, np.int64) % len(_GRADES)
        counts += np.bincount(grades, minlength=len(_GRADES))
        expected = priorities[grades] ** -BETA
        # some divide by the batch's largest, some by the ring's
        if not np.allclose(weights / weights.max(), expected / expected.max(), rtol=1e-3):
            raise RuntimeError(f"{contender.name} gave weights of other priorities: bad adapter")
    _check_rows(contender.name, rows, np.asarray(indices, np.int64), columns)
    held = np.bincount(graded % len(_GRADES), minlength=len(_GRADES)) * priorities
    wanted = held / held.sum() * _DRAWS * _CHECKED_LANES
    chi_square = float(((counts - wanted) ** 2 / wanted).sum())
    if chi_square > 60:  # by chance once in a hundred million runs, with 7 degrees of freedom
        raise RuntimeError(f"{contender.name} does not draw by priority: bad adapter")


def _check_rows(
    name: str, rows: int, indices: NDArray[np.int64], columns: list[NDArray[Any]]
) -> None:
    """Raise unless what was drawn is what went in as those rows."""
    found = 0
    flat = [np.reshape(column, (len(indices), -1)) for column in columns]
    for number, chunk in enumerate(transition_chunks(rows)):
        lanes = np.flatnonzero(indices // CHUNK == number)
        found += len(lanes)
        for lane in lanes:
            row = indices[lane] - number * CHUNK
            made = (np.ravel(column[row]) for column in chunk)
            if not all(map(np.array_equal, made, (column[lane] for column in flat))):
                raise RuntimeError(f"{name} gave a row that was never added: bad adapter")
    if found != len(indices):
        raise RuntimeError(f"{name} gave rows outside the ring: bad adapter")
