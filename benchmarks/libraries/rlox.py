"""rlox: Rust."""

import collections
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders import ALPHA, BETA, EPSILON, Contender, Drawn, Ring, one_after_another
from benchmarks.interleave import Call
from benchmarks.workloads import ACTION, OBS, Transitions, Workload, split


class RloxRing(Ring):
    def __init__(self, workload: Workload, rows: int) -> None:
        import rlox

        super().__init__(workload, rows)
        if workload.prioritized:
            self._buffer = rlox.PrioritizedReplayBuffer(rows, OBS, ACTION, ALPHA, BETA)
        else:
            self._buffer = rlox.ReplayBuffer(rows, OBS, ACTION)

    def fill(self, chunks: Iterator[Transitions]) -> None:
        if not self.workload.prioritized:
            super().fill(chunks)
            return
        for obs, action, reward, next_obs, terminated in chunks:
            values = (obs, action, reward.tolist(), terminated.tolist())
            pushed = map(self._buffer.push, *values, itertools.repeat(False), next_obs)
            collections.deque(pushed, maxlen=0)

    def __len__(self) -> int:
        return len(self._buffer)

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        # no function of ours in between: the seeds are counted in C
        return map(partial(self._buffer.sample, batch_size), itertools.count()).__next__

    def drawn(self, batch: Any) -> Drawn:
        names = ("obs", "actions", "rewards", "next_obs", "terminated")
        columns = [batch[name] for name in names]
        if not self.workload.prioritized:
            return Drawn(columns)
        return Drawn(columns, np.asarray(batch["indices"], np.int64), batch["weights"])

    def adds(self, values: Transitions) -> list[Call]:
        return [
            partial(self._buffer.push, obs, action, reward, terminated, False, next_obs)
            for obs, action, reward, next_obs, terminated in split(values)
        ]

    def batch_add(self, values: Transitions) -> Call:
        if self.workload.prioritized:
            return partial(one_after_another, self.adds(values))
        obs, action, reward, next_obs, terminated = values
        return partial(
            self._buffer.push_batch,
            *(array.ravel() for array in (obs, next_obs, action, reward)),
            terminated.view(np.uint8),
            np.zeros(len(reward), np.uint8),
        )

    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        update_priorities = self._buffer.update_priorities

        def update(batch: Any) -> None:
            update_priorities(batch["indices"], td_errors())

        return update

    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        self._buffer.update_priorities(rows.astype(np.uint64), self.taken(td_errors))

    def taken(self, td_errors: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.abs(td_errors) + EPSILON


class Rlox(Contender):
    name = "rlox"
    how = (
        "ReplayBuffer and PrioritizedReplayBuffer; push and push_batch with the arrays that they "
        "take without a conversion: flat float32, flags as uint8, made before the timing; a sample "
        "takes a new seed a call and has a truncated column more. Priorities are |TD error| + "
        "epsilon, computed before the timing in float64, the one dtype that it takes; new rows "
        "enter at 1. A prioritized ring has no push_batch, so a batch is a loop of push in Python. "
        "No out=; uniform draws come without indices. It stores float32 alone, so no images"
    )
    workloads = frozenset({"uniform", "prioritized"})
    ring = RloxRing
