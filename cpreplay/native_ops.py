"""Ops on NumPy arrays by compiled loops: the device's own functions, built for the host.

`HostOps` says what each call does, and does whatever is not plain: a value that needs a cast, a
refusal. Results are the same, bit for bit but for the last bit of a power.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cpreplay.batch import Batch
from cpreplay.host_columns import BatchBlock, HostBatchMemory
from cpreplay.host_ops import HostOps
from cpreplay.inputs import integer_limits
from cpreplay.kernel_structs import TREE, columns_table, struct
from cpreplay.native import compiled
from cpreplay.philox import ROWS, TARGETS
from cpreplay.schema import Column, Layout
from cpreplay.tree_levels import nodes_per_level
from cpreplay.words import GeneratorWords, Words


class NativeOps(HostOps):
    """Rows and draws of one buffer in host memory."""

    def __init__(
        self,
        layout: Layout,
        capacity: int,
        words: Words,
        seed: int,
        *,
        run: int | None,
        lock: Any,
        snapshots: list[Any],
    ) -> None:
        super().__init__(layout, capacity, words, seed, run=run)
        tree = None if self.priorities is None else _tree_struct(self.priorities.levels(), capacity)
        capsule = words.capsule if isinstance(words, GeneratorWords) else None
        #: Words come from Python: of a generator that is not the buffer's own.
        self._foreign_words = isinstance(words, GeneratorWords) and capsule is None
        self._ring = compiled().Ring(
            self._control,
            columns_table(layout, [array.ctypes.data for array in self._arrays]),
            self._arrays,
            tuple(_input(column) for column in layout.columns),
            tree,
            None if self.priorities is None else self.priorities.settled,
            lock,
            snapshots,
            capsule,
            (words, self.priorities and self.priorities.levels()),
        )
        # Bound to the ring, which knows nothing of these objects: no cycle keeps the rows alive.
        self.add_plain = self._ring.add  # type: ignore[method-assign]
        self.add_batch_plain = self._ring.add_batch  # type: ignore[method-assign]
        if self.priorities is not None:
            self.priorities.update_plain = self._ring.update  # type: ignore[method-assign]

    def store(self, columns: Sequence[Any], rows: int, mask: Any = None) -> None:
        if mask is not None:
            columns = [values[mask] for values in columns]
            rows = len(columns[0])
        self._ring.store(list(columns), rows)

    def sample(self, batch: Batch) -> None:
        purpose = ROWS
        if self.priorities is not None:
            self.priorities.mend()
            purpose = TARGETS
        words = self._draw_words(batch, purpose) if self._foreign_words else None
        self._ring.sample(batch._memory.arrays, words)

    def sample_range(self, batch: Batch, low: int, high: int) -> None:
        words = self._draw_words(batch, ROWS) if self._foreign_words else None
        self._ring.sample_range(batch._memory.arrays, words, low, high)

    def _is_intact(self, memory: HostBatchMemory) -> bool:
        return bool(self._ring.accepts(memory.arrays))

    def _new_block(self, batch_size: int) -> BatchBlock:
        return NativeBlock(self._layout, batch_size, weighted=self.priorities is not None)

    def _draw_words(self, batch: Batch, purpose: int) -> Any:
        """The words of a draw where they come from Python."""
        words = self._words.draw(self._draws.item(), len(batch), purpose)
        return np.ascontiguousarray(np.broadcast_to(words, len(batch)))


class NativeBlock(BatchBlock):
    """A minibatch's arrays, made by compiled code."""

    def __init__(self, layout: Layout, batch_size: int, *, weighted: bool) -> None:
        super().__init__(layout, batch_size, weighted=weighted)
        self._new_arrays = compiled().Block(self.nbytes, self.members).new  # type: ignore[method-assign]


def _tree_struct(levels: Sequence[Any], capacity: int) -> Any:
    """``tree_t`` over the levels of a host tree."""
    _, *nodes = nodes_per_level(capacity)
    addresses = [level.ctypes.data for level in levels]
    return struct(TREE, levels=len(nodes), leaves=addresses[0], sums=addresses[1:], nodes=nodes)


def _input(column: Column) -> tuple[Any, ...]:
    """What a column takes as it is: kind, type number, bytes, shape, and the bounds of ints."""
    dtype = column.dtype
    low, high = integer_limits(dtype)
    high = min(high, 2**63 - 1)
    return dtype.kind, dtype.num, dtype.itemsize, column.shape, low, high
