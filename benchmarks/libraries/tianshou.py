"""Tianshou: NumPy arrays in nested batches, a sum tree compiled by Numba."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders import ALPHA, BETA, Contender, Drawn, Ring
from benchmarks.interleave import Call
from benchmarks.workloads import Transitions, Workload, split

_NAMES = ("obs", "act", "rew", "obs_next", "terminated")


class TianshouRing(Ring):
    def __init__(self, workload: Workload, rows: int) -> None:
        from tianshou.data import PrioritizedReplayBuffer, ReplayBuffer

        super().__init__(workload, rows)
        np.random.seed(0)  # it draws by priority with this
        self._vectorized: dict[int, Any] = {}
        if workload.prioritized:
            self._buffer = PrioritizedReplayBuffer(rows, alpha=ALPHA, beta=BETA)
        else:
            self._buffer = ReplayBuffer(rows)

    def fill(self, chunks: Iterator[Transitions]) -> None:
        from tianshou.data import ReplayBuffer

        columns: list[Any] = []
        first = 0
        for chunk in chunks:
            if not columns:
                columns = [np.empty((self.rows, *one.shape[1:]), one.dtype) for one in chunk]
            for column, values in zip(columns, chunk, strict=True):
                column[first : first + len(values)] = values
            first += len(chunk[2])
        named = dict(zip(_NAMES, columns, strict=True))
        truncated = np.zeros(self.rows, bool)
        filled = ReplayBuffer.from_data(**named, truncated=truncated, done=named["terminated"])
        if not self.workload.prioritized:
            self._buffer = filled
        else:
            self._buffer.update(filled)

    def __len__(self) -> int:
        return len(self._buffer)

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        return partial(self._buffer.sample, batch_size)

    def drawn(self, batch: Any) -> Drawn:
        values, rows = batch
        columns = [values[name] for name in _NAMES]
        return Drawn(columns, rows, values.weight if self.workload.prioritized else None)

    def adds(self, values: Transitions) -> list[Call]:
        return [partial(self._buffer.add, self._batch(one, False)) for one in split(values)]

    def batch_add(self, values: Transitions) -> Call:
        buffers = len(values[2])
        batch = self._batch(values, np.zeros(buffers, bool))
        if buffers not in self._vectorized:
            self._vectorized[buffers] = self._new_vectorized(buffers, batch)
        return partial(self._vectorized[buffers].add, batch)

    def _new_vectorized(self, buffers: int, batch: Any) -> Any:
        from tianshou.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer

        if self.workload.prioritized:
            buffer = PrioritizedVectorReplayBuffer(self.rows, buffers, alpha=ALPHA, beta=BETA)
        else:
            buffer = VectorReplayBuffer(self.rows, buffers)
        buffer.add(batch)
        for name in _NAMES:
            buffer._meta[name].fill(0)  # so that no add has to wait for memory
        return buffer

    @staticmethod
    def _batch(values: Any, truncated: Any) -> Any:
        from tianshou.data import Batch

        return Batch(**dict(zip(_NAMES, values, strict=True)), truncated=truncated)

    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        update_weight = self._buffer.update_weight

        def update(batch: Any) -> None:
            update_weight(batch[1], td_errors())

        return update

    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        self._buffer.update_weight(rows, td_errors)

    def taken(self, td_errors: NDArray[np.float64]) -> NDArray[np.float64]:
        return td_errors


class Tianshou(Contender):
    name = "tianshou"
    how = (
        "ReplayBuffer and PrioritizedReplayBuffer, filled through from_data, with one sub-buffer, "
        "which they sample fastest from; minibatches are its Batch, with truncated, done, info and "
        "policy beside the five columns. It has no call for a batch: add takes a row for each of N "
        "sub-buffers, so add_batch(N) is one add to a (Prioritized)VectorReplayBuffer of N. What "
        "is added is its Batch, made before the timing. update_weight takes signed TD errors, and "
        "adds float32's epsilon. No out="
    )
    ring = TianshouRing
