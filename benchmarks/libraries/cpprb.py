"""cpprb: Cython and C++."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders import ALPHA, BETA, EPSILON, Contender, Drawn, Ring
from benchmarks.interleave import Call
from benchmarks.workloads import ACTION, OBS, PIXEL_SHAPE, Transitions, Workload, split

_NAMES = ("obs", "act", "rew", "next_obs", "done")


class CpprbRing(Ring):
    def __init__(self, workload: Workload, rows: int) -> None:
        import cpprb

        super().__init__(workload, rows)
        obs: dict[str, Any] = {"shape": OBS}
        action: dict[str, Any] = {"shape": ACTION}
        if workload.pixels:
            obs = {"shape": PIXEL_SHAPE, "dtype": np.uint8}
            action = {"shape": 1, "dtype": np.int64}
        columns = dict(zip(_NAMES, (obs, action, {}, obs, {"dtype": bool}), strict=True))
        if workload.prioritized:
            self._buffer = cpprb.PrioritizedReplayBuffer(rows, columns, alpha=ALPHA, eps=EPSILON)
        else:
            self._buffer = cpprb.ReplayBuffer(rows, columns)

    def __len__(self) -> int:
        return int(self._buffer.get_stored_size())

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        beta = (BETA,) if self.workload.prioritized else ()
        return partial(self._buffer.sample, batch_size, *beta)

    def drawn(self, batch: Any) -> Drawn:
        columns = [batch[name] for name in _NAMES]
        if not self.workload.prioritized:
            return Drawn(columns)
        return Drawn(columns, np.asarray(batch["indexes"], np.int64), batch["weights"])

    def adds(self, values: Transitions) -> list[Call]:
        return [self.batch_add(one) for one in split(values)]

    def batch_add(self, values: Any) -> Call:
        return partial(self._buffer.add, **dict(zip(_NAMES, values, strict=True)))

    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        update_priorities = self._buffer.update_priorities

        def update(batch: Any) -> None:
            update_priorities(batch["indexes"], td_errors())

        return update

    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        self._buffer.update_priorities(rows, self.taken(td_errors))

    def taken(self, td_errors: NDArray[np.float64]) -> NDArray[np.float32]:
        return np.abs(td_errors).astype(np.float32)


class Cpprb(Contender):
    name = "cpprb"
    how = (
        "ReplayBuffer and PrioritizedReplayBuffer with an env_dict of the same five columns (done "
        "as bool), next_obs stored, without check_for_update, so without a look at overwritten "
        "rows; add with keyword arguments; priorities are float32 magnitudes, taken before the "
        "timing. Weights are divided by the largest of the whole ring. No out=; reward and done "
        "come back as (B, 1); uniform draws come without indices"
    )
    ring = CpprbRing
