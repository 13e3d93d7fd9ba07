"""TorchRL: tensordicts over torch tensors, sum trees in C++."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders import ALPHA, BETA, EPSILON, Contender, Drawn, Ring
from benchmarks.interleave import Call
from benchmarks.workloads import Transitions, Workload

_NAMES = ("obs", "action", "reward", "next_obs", "terminated")


class TorchrlRing(Ring):
    def __init__(self, workload: Workload, rows: int) -> None:
        import torch
        from torchrl.data import (
            LazyTensorStorage,
            PrioritizedReplayBuffer,
            RandomSampler,
            ReplayBuffer,
        )

        super().__init__(workload, rows)
        logging.getLogger("torchrl").setLevel(logging.WARNING)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        np.random.seed(0)  # torchrl draws by priority with this
        storage = LazyTensorStorage(rows)
        if workload.prioritized:
            self._buffer = PrioritizedReplayBuffer(
                alpha=ALPHA, beta=BETA, eps=EPSILON, storage=storage
            )
        else:
            self._buffer = ReplayBuffer(storage=storage, sampler=RandomSampler())

    def __len__(self) -> int:
        return len(self._buffer)

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        if self.workload.prioritized:
            return partial(self._buffer.sample, batch_size, return_info=True)
        return partial(self._buffer.sample, batch_size)

    def drawn(self, batch: Any) -> Drawn:
        values, info = batch if self.workload.prioritized else (batch, None)
        columns = [values[name].numpy() for name in _NAMES]
        if info is None:
            return Drawn(columns)
        return Drawn(columns, info["index"].numpy(), info["priority_weight"].numpy())

    def adds(self, values: Transitions) -> list[Call]:
        return [partial(self._buffer.add, one.clone()) for one in self._tensors(values)]

    def batch_add(self, values: Transitions) -> Call:
        return partial(self._buffer.extend, self._tensors(values))

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

    @staticmethod
    def _tensors(values: Transitions) -> Any:
        import torch
        from tensordict import TensorDict

        named = {name: torch.from_numpy(value) for name, value in zip(_NAMES, values, strict=True)}
        return TensorDict(named, [len(values[2])])


class Torchrl(Contender):
    name = "torchrl"
    how = (
        "ReplayBuffer with a RandomSampler, and PrioritizedReplayBuffer, over a LazyTensorStorage "
        "on the CPU; sample with return_info=True and update_priority with its rows, faster than "
        "TensorDictPrioritizedReplayBuffer; one torch thread. What is added is a TensorDict, made "
        "before the timing; priorities are float32 magnitudes, taken before it too. Weights are "
        "divided by the largest of the whole ring. No out="
    )
    ring = TorchrlRing
