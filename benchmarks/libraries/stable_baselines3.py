"""Stable-Baselines3: NumPy arrays, minibatches as torch tensors."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.contenders import Contender, Drawn, Ring
from benchmarks.interleave import Call
from benchmarks.workloads import ACTION, ACTIONS, OBS, PIXEL_SHAPE, Transitions, Workload, split


class StableBaselines3Ring(Ring):
    def __init__(self, workload: Workload, rows: int) -> None:
        import torch

        super().__init__(workload, rows)
        torch.set_num_threads(1)
        np.random.seed(0)  # it draws with this
        self._buffer = self._new(1)
        self._vectorized: dict[int, Any] = {}

    def _new(self, n_envs: int) -> Any:
        from gymnasium import spaces
        from stable_baselines3.common.buffers import ReplayBuffer

        obs: Any = spaces.Box(-1.0, 1.0, (OBS,), np.float32)
        action: Any = spaces.Box(-1.0, 1.0, (ACTION,), np.float32)
        if self.workload.pixels:
            obs = spaces.Box(0, 255, PIXEL_SHAPE, np.uint8)
            action = spaces.Discrete(ACTIONS)
        buffer = ReplayBuffer(
            self.rows, obs, action, "cpu", n_envs=n_envs, handle_timeout_termination=False
        )
        for array in self._arrays(buffer):
            array.fill(0)  # so that no add has to wait for memory
        return buffer

    @staticmethod
    def _arrays(buffer: Any) -> list[Any]:
        return [
            buffer.observations,
            buffer.actions,
            buffer.rewards,
            buffer.next_observations,
            buffer.dones,
        ]

    def fill(self, chunks: Iterator[Transitions]) -> None:
        first = 0
        for chunk in chunks:
            rows = len(chunk[2])
            for array, values in zip(self._arrays(self._buffer), chunk, strict=True):
                part = array[first : first + rows]
                part[...] = values.reshape(part.shape)
            first += rows
        self._buffer.pos = first - 1
        self.adds(tuple(column[-1:] for column in chunk))[0]()  # type: ignore[arg-type]

    def __len__(self) -> int:
        return int(self._buffer.size())

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        return partial(self._buffer.sample, batch_size)

    def drawn(self, batch: Any) -> Drawn:
        columns = (
            batch.observations,
            batch.actions,
            batch.rewards,
            batch.next_observations,
            batch.dones,
        )
        return Drawn([column.numpy() for column in columns])

    def adds(self, values: Transitions) -> list[Call]:
        return [
            partial(
                self._buffer.add,
                obs[None],
                next_obs[None],
                action[None],
                np.array([reward], np.float32),
                np.array([terminated]),
                [{}],
            )
            for obs, action, reward, next_obs, terminated in split(values)
        ]

    def batch_add(self, values: Transitions) -> Call:
        obs, action, reward, next_obs, terminated = values
        n_envs = len(reward)
        if n_envs not in self._vectorized:
            self._vectorized[n_envs] = self._new(n_envs)
        add = self._vectorized[n_envs].add
        return partial(add, obs, next_obs, action, reward, terminated, [{}] * n_envs)


class StableBaselines3(Contender):
    name = "stable-baselines3"
    how = (
        "ReplayBuffer on the CPU without handle_timeout_termination, sample without VecNormalize, "
        "minibatches as torch tensors, one torch thread. It has no priorities and no call for a "
        "batch: add takes a row of each of n_envs environments, so add_batch(N) is one add to a "
        "ring of N environments. The ring is filled through its arrays, its last row by add. No "
        "out=, no indices, flags as float32"
    )
    workloads = frozenset({"uniform", "pixels"})
    ring = StableBaselines3Ring
