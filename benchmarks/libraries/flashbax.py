"""flashbax: pure functions on JAX arrays."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders import ALPHA, BETA, EPSILON, Contender, Drawn, Ring
from benchmarks.interleave import Call
from benchmarks.workloads import Transitions, Workload, split

_NAMES = ("obs", "action", "reward", "next_obs", "terminated")
_KEYS = 1024  # random keys that go around


class FlashbaxRing(Ring):
    strays = 0.01  # sums in float32 are changed by differences, and drift from their leaves

    def __init__(self, workload: Workload, rows: int) -> None:
        import jax

        super().__init__(workload, rows)
        self._jax = jax
        self._keys = list(jax.random.split(jax.random.key(0), _KEYS))
        first = tuple(column[0] for column in workload.make(1, 0))
        self._state = self._functions(1).init(self._item(first))
        self._draws: dict[int, Call] = {}  # compiling one takes a second
        self._add_one = self._compiled_add(sequences=False)
        self._add_many = self._compiled_add(sequences=True)
        if workload.prioritized:
            set_priorities = self._functions(1).set_priorities
            self._set_priorities = jax.jit(set_priorities, donate_argnums=0)

    def _functions(self, batch_size: int, *, sequences: bool = False) -> Any:
        import flashbax

        sizes = {
            "max_length": self.rows,
            "min_length": 1,
            "sample_batch_size": batch_size,
            "add_sequences": sequences,
        }
        if self.workload.prioritized:
            return flashbax.make_prioritised_item_buffer(
                **sizes, priority_exponent=ALPHA, device="cpu"
            )
        return flashbax.make_item_buffer(**sizes)

    def _compiled_add(self, *, sequences: bool) -> Callable[[Any], None]:
        compiled = self._jax.jit(self._functions(1, sequences=sequences).add, donate_argnums=0)

        def add(item: Any) -> None:
            self._state = self._jax.block_until_ready(compiled(self._state, item))

        return add

    def _item(self, values: tuple[Any, ...]) -> Any:
        return {
            name: self._jax.numpy.asarray(value, np.float32 if name == "reward" else None)
            for name, value in zip(_NAMES, values, strict=True)
        }

    def __len__(self) -> int:
        state = self._state
        return self.rows if bool(state.is_full) else int(state.current_index)

    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        if batch_size not in self._draws:
            self._draws[batch_size] = self._compiled_draw(batch_size)
        return self._draws[batch_size]

    def _compiled_draw(self, batch_size: int) -> Call:
        jax, jnp = self._jax, self._jax.numpy
        sample = self._functions(batch_size).sample

        def by_priority(state: Any, key: Any) -> Any:
            drawn = sample(state, key)
            chances = drawn.probabilities
            weights = jnp.where(chances > 0, (self.rows * chances) ** -BETA, 0)
            return drawn.experience, drawn.indices, weights / jnp.max(weights)

        compiled = jax.jit(by_priority if self.workload.prioritized else sample)
        next_key = itertools.cycle(self._keys).__next__

        def draw() -> Any:
            return jax.block_until_ready(compiled(self._state, next_key()))

        return draw

    def drawn(self, batch: Any) -> Drawn:
        values = batch[0] if self.workload.prioritized else batch.experience
        columns = [np.asarray(values[name]) for name in _NAMES]
        if not self.workload.prioritized:
            return Drawn(columns)
        return Drawn(columns, np.asarray(batch[1], np.int64), np.asarray(batch[2]))

    def adds(self, values: Transitions) -> list[Call]:
        return [partial(self._add_one, self._item(one)) for one in split(values)]

    def batch_add(self, values: Transitions) -> Call:
        return partial(self._add_many, self._item(values))

    def _update(self, rows: Any, priorities: Any) -> None:
        self._state = self._jax.block_until_ready(
            self._set_priorities(self._state, rows, priorities)
        )

    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        def update(batch: Any) -> None:
            self._update(batch[1], td_errors())

        return update

    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        self._update(self._jax.numpy.asarray(rows, np.int32), self.taken(td_errors))

    def taken(self, td_errors: NDArray[np.float64]) -> Any:
        return self._jax.numpy.asarray(np.abs(td_errors) + EPSILON, np.float32)


class Flashbax(Contender):
    name = "flashbax"
    how = (
        "item buffer and prioritised item buffer on the CPU, as they store whole transitions; add, "
        "sample and set_priorities compiled by jax.jit, the state donated where it is changed, "
        "each call waited for with block_until_ready; JAX's own threads. What is added are jax "
        "arrays, made before the timing. Priorities are |TD error| + epsilon in float32, computed "
        "before the timing; it gives probabilities, and weights are computed from them in the "
        "compiled sample. Its float32 sums drift from their leaves, so that now and then a lane is "
        "of no row: such lanes get a weight of 0. Integers are of 32 bits. No out="
    )
    ring = FlashbaxRing
