"""cpreplay itself."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders import ALPHA, BETA, EPSILON, Contender, Drawn, Ring
from benchmarks.interleave import Call
from benchmarks.workloads import ACTION, OBS, PIXEL_SHAPE, Transitions, Workload, split


class CpreplayRing(Ring):
    has_out = True

    def __init__(self, workload: Workload, rows: int) -> None:
        from cpreplay import StoreReplay

        super().__init__(workload, rows)
        if workload.pixels:
            self.buffer = StoreReplay(
                PIXEL_SHAPE, (), rows, obs_dtype="uint8", action_dtype="int64", seed=0
            )
        else:
            self.buffer = StoreReplay(OBS, ACTION, rows, prioritized=workload.prioritized, seed=0)
        if workload.prioritized:
            self.buffer.configure_per(ALPHA, BETA, EPSILON)

    def __len__(self) -> int:
        return len(self.buffer)

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        if not into_fixed:
            return partial(self.buffer.sample, batch_size)
        return partial(self.buffer.sample, batch_size, out=self.buffer.make_batch(batch_size))

    def drawn(self, batch: Any) -> Drawn:
        columns = [batch.obs, batch.action, batch.reward, batch.next_obs, batch.terminated]
        return Drawn(columns, batch.indices, batch.weights)

    def adds(self, values: Transitions) -> list[Call]:
        return [partial(self.buffer.add, *one) for one in split(values)]

    def batch_add(self, values: Transitions) -> Call:
        return partial(self.buffer.add_batch, *values)

    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        update_priorities = self.buffer.update_priorities

        def update(batch: Any) -> None:
            update_priorities(batch, td_errors())

        return update

    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        self.buffer.update_priorities(rows, td_errors)

    def taken(self, td_errors: NDArray[np.float64]) -> NDArray[np.float64]:
        return td_errors


class Cpreplay(Contender):
    name = "cpreplay"
    how = (
        "StoreReplay, default generator; sample into fresh arrays, and with out= into one "
        "make_batch; update_priorities with the drawn batch, so that overwritten rows are "
        "recognised, and signed TD errors in float64. Weights are divided by the batch's largest"
    )
    is_peer = False
    ring = CpreplayRing
