"""Priorities of a ring in device memory: a sum tree that the kernels of ``sumtree.cu`` keep."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.batch import Batch
from cpreplay.cuda_device import THREADS, Card, Kernels, blocks_for
from cpreplay.device_inputs import DeviceInputs
from cpreplay.kernel_structs import DRAW, MAX_FEW, TREE, UPDATE, WEIGHTS, struct
from cpreplay.priorities import no_token
from cpreplay.tree_levels import nodes_per_level, padded, tree_nbytes

# Tiles of a draw, a block each: every lane of the gather looks at the largest weight of every tile.
_MAX_TILES = 256

_WARP = 32


def device_tree_nbytes(capacity: int) -> int:
    """Bytes of the tree and its scratch: a ticket for every sum, a winner for every leaf."""
    leaves, *sums = nodes_per_level(capacity)
    return tree_nbytes(capacity) + 8 * (sum(sums) + 1) + 4 * leaves


class DevicePriorities:
    """The sum tree of one buffer, and what changes it. The contract is `ops.PriorityOps`."""

    def __init__(
        self,
        card: Card,
        kernels: Kernels,
        inputs: DeviceInputs,
        control: Any,
        capacity: int,
        run: int,
    ) -> None:
        self._run = run
        self._card = card
        self._kernels = kernels
        self._inputs = inputs
        self._control = control
        cupy = card.cupy
        leaves, *sums = nodes_per_level(capacity)
        self._levels = [
            cupy.zeros(padded(leaves), np.float32),
            *(cupy.zeros(padded(count), np.float64) for count in sums),
        ]
        self._tickets = [cupy.zeros(count, np.uint64) for count in sums]
        self._winners = cupy.zeros(leaves, np.int32)
        self._updates = cupy.zeros(1, np.uint64)
        self._broken_off = False
        self._tree = struct(
            TREE, levels=len(sums), leaves=self._levels[0], sums=self._levels[1:], nodes=sums,
            tickets=self._tickets, updates=self._updates, winners=self._winners,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        arrays = (*self._levels, *self._tickets, self._winners, self._updates)
        return int(sum(array.nbytes for array in arrays))

    def update_plain(self, rows: Any, tokens: Any, td_errors: Any) -> bool:
        return False

    def levels(self) -> Sequence[Any]:
        self._mend()
        return self._levels

    def at_rest(self) -> bool:
        self._mend()
        updates = int(self._updates.get()[0])
        tickets = (int(array.get().max()) for array in self._tickets)
        winners = bool(self._winners.get().any())
        return not winners and max(tickets) <= updates

    def ingest(self, rows: Any, tokens: Any, td_errors: Any) -> tuple[Any, Any, Any]:
        self._card.check_current()
        self._card.check_stream()
        return self._inputs.update(rows, tokens, td_errors)

    def disown(self, batch: Batch) -> None:
        batch._memory.draw.tokens.fill(np.uint64(no_token(self._run)))

    def draw(self, draw: "DrawMemory", lanes: int) -> None:
        """Fill indices, tokens and raw weights of a batch, in proportion to the leaves."""
        self._mend()
        grid = (draw.tiles,)
        self._kernels.launch(
            "draw_by_priority", grid, self._control, self._tree, np.int64(lanes), draw.draw
        )

    def enter(self, rows: int, mask: Any) -> None:
        """Give the rows that were just stored their leaves, and count them."""
        self._mend()
        threads = _threads(rows)
        self._kernels.launch(
            "enter_rows", (1,), self._control, self._tree, np.int64(rows), mask, threads=threads
        )

    def update(self, rows: Any, tokens: Any, td_errors: Any) -> None:
        lanes = len(rows)
        if lanes == 0:
            return
        self._mend()
        update = struct(
            UPDATE, lanes=lanes, rows=rows, tokens=tokens, errors=td_errors,
            error_bytes=td_errors.itemsize,
        )  # fmt: skip
        launch, arguments = self._kernels.launch, (self._control, self._tree, update)
        if lanes <= MAX_FEW:
            launch("update_few", (1,), *arguments, threads=_threads(lanes))
            return
        grid = blocks_for(lanes)
        self._broken_off = True  # until the last launch is queued
        launch("claim_rows", grid, *arguments)
        launch("write_leaves", grid, *arguments)
        for level in range(len(self._tickets) - 1):
            launch("sum_ancestors", grid, *arguments, np.int64(level))
        launch("end_update", (1,), self._tree, threads=1)
        self._broken_off = False

    def leaves(self, size: int) -> NDArray[np.float32]:
        self._mend()
        leaves: NDArray[np.float32] = self._levels[0][:size].get()
        return leaves

    def set_leaves(self, first: int, leaves: NDArray[np.float32]) -> None:
        self._broken_off = True  # until the sums are made again
        self._levels[0][first : first + len(leaves)].set(np.ascontiguousarray(leaves))

    def take_up(self, run: int) -> None:
        self._run = run
        self._mend()

    def _mend(self) -> None:
        """Put scratch and sums right where an update was broken off, as by a KeyboardInterrupt."""
        if not self._broken_off:
            return
        for array in (self._winners, *self._tickets):
            array.fill(0)
        for level, tickets in enumerate(self._tickets):
            grid = blocks_for(len(tickets))
            self._kernels.launch("sum_level", grid, self._tree, np.int64(level))
        self._broken_off = False

    def configure(self, alpha: float, beta: float, epsilon: float) -> None:
        self._card.refuse_capture("configure_per")
        values = (np.float64(alpha), np.float64(beta), np.float64(epsilon))
        self._kernels.launch("configure_per", (1,), self._control, *values, threads=1)

    def set_beta(self, beta: float) -> None:
        self._card.refuse_capture("set_beta")
        self._kernels.launch("set_beta", (1,), self._control, np.float64(beta), threads=1)


class DrawMemory:
    """What a prioritized draw writes beside the columns of one batch."""

    def __init__(self, cupy: Any, indices: Any, weights: Any, tokens: Any) -> None:
        lanes = len(indices)
        tile = max(THREADS, -(-lanes // _MAX_TILES))
        self.tiles = -(-lanes // tile)
        self._raw = cupy.empty(lanes, np.float64)
        self._largest = cupy.empty(self.tiles, np.float64)
        self.tokens = tokens.view(np.uint64).reshape(lanes)
        self.draw = struct(
            DRAW, indices=indices, tokens=tokens, raw=self._raw, largest=self._largest, tile=tile
        )
        #: For the gather of a draw by priority, and of a uniform one.
        self.weights = struct(
            WEIGHTS, raw=self._raw, largest=self._largest, tiles=self.tiles, weights=weights
        )
        self.ones = struct(WEIGHTS, weights=weights)


def _threads(items: int) -> int:
    return max(_WARP, min(MAX_FEW, -(-items // _WARP) * _WARP))
