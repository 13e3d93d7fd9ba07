"""A sum tree on NumPy: sixteen children a node, leaves float32, sums float64.

A parent is recomputed from its children, in their order, never adjusted by a difference: equal
leaves give equal trees, and nothing drifts. It knows numbers and rows, no transitions. The device
twin is ``cuda_src/sumtree.cuh``; both are held to the same golden files.

In the arrays below, of shape (sixteen, nodes), a column is a node, and sums go along the first
axis, row by row: of 256 nodes in 3 microseconds, where ``numpy.add.accumulate`` goes column by
column and takes 16.
"""

import functools
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.aligned import aligned_zeros
from cpreplay.tree_levels import FAN_OUT, FAN_OUT_BITS, nodes_per_level, padded

# Below so many lanes one call for all sums costs less than a call for each of sixteen.
_FEW = 128

# Lanes that go down together: their arrays have to stay in the second-level cache, and are kept.
_CHUNK = 2048

# As an array, since an operation on an array and a number costs twice that on two arrays.
_BITS = np.array(FAN_OUT_BITS)


class HostSumTree:
    """Masses of rows, and draws in proportion to them.

    Parameters
    ----------
    capacity : int
        Rows, each a leaf; all 0 at first.
    """

    def __init__(self, capacity: int) -> None:
        nodes = nodes_per_level(capacity)
        dtypes = (np.float32, *[np.float64] * (len(nodes) - 1))
        #: The levels from the leaves up, padded with zeros.
        self.levels: list[NDArray[Any]] = [
            aligned_zeros(padded(count), dtype) for count, dtype in zip(nodes, dtypes, strict=True)
        ]
        self.leaves: NDArray[np.float32] = self.levels[0][:capacity]
        # Level by level, for each node of the level above a row of its children.
        self._children = [level.reshape(-1, FAN_OUT) for level in self.levels[:-1]]
        self._scratch = _Descent(0)
        self._sums_hold = True  # False within a change, and until `mend` where one was broken off

    @property
    def nbytes(self) -> int:
        """Bytes of all levels, and of what the last draw worked in."""
        return sum(level.nbytes for level in self.levels) + self._scratch.nbytes

    @property
    def total(self) -> float:
        """The sum of all leaves: the root."""
        return float(self.levels[-1].item(0))

    def set(self, leaves: NDArray[np.float32]) -> None:
        """Set every leaf, and every sum. Costs a pass over the tree."""
        self._sums_hold = False
        self.leaves[...] = leaves
        self._sum_range(0, len(self.leaves))
        self._sums_hold = True

    def mend(self) -> None:
        """Make the sums hold again where a change was broken off, as by a KeyboardInterrupt."""
        if not self._sums_hold:
            self.set(self.leaves)

    def fill(self, first: int, count: int, leaves: np.float32 | NDArray[np.float32]) -> None:
        """Give rows [first, first + count) one mass, or each its own. Costs them and ancestors."""
        self._sums_hold = False
        self.leaves[first : first + count] = leaves
        self._sum_range(first, count)
        self._sums_hold = True

    def update(self, rows: NDArray[np.int64], leaves: NDArray[np.float32]) -> None:
        """Set the leaves of some rows; of a row that is there twice, the last lane counts.

        Costs the rows and their ancestors.
        """
        self._sums_hold = False
        self.leaves[rows] = leaves  # NumPy writes the lanes in order
        nodes = rows
        for children, level in zip(self._children, self.levels[1:], strict=True):
            nodes = np.right_shift(nodes, _BITS)
            if len(children) <= len(nodes):  # all of them cost less than some of them twice
                level[: len(children)] = node_sums(children)
            else:
                level[nodes] = node_sums(children.take(nodes, 0))
        self._sums_hold = True

    def draw(self, reals: NDArray[np.float64]) -> NDArray[np.int64]:
        """One row for each real in [0, 1): lane i in the i-th of B equal slices of the total.

        Overwrites ``reals``. The tree must have mass.
        """
        lanes = len(reals)
        reals += np.arange(lanes)
        reals *= self.total / lanes
        return self.find(reals)

    def find(self, targets: NDArray[np.float64]) -> NDArray[np.int64]:
        """The row at each target: the first whose running sum exceeds it, descending by levels.

        Overwrites ``targets``. A target at or above a node's sum, which rounding can make, ends at
        the last child that has mass; so no row without mass is ever found.
        """
        if len(targets) > _CHUNK:
            chunks = range(0, len(targets), _CHUNK)
            return np.concatenate([self.find(targets[first : first + _CHUNK]) for first in chunks])
        if len(targets) != self._scratch.lanes:
            self._scratch = _Descent(len(targets))
        nodes = self._below_root(targets)
        for children in self._children[-2::-1]:
            self._scratch(children, nodes, targets)
        return nodes

    def _below_root(self, targets: NDArray[np.float64]) -> NDArray[np.int64]:
        """The first step down, which all lanes take from one node: its running sums are made once.

        The same rule as in `_Descent`.
        """
        children = self._children[-1][0]
        before = np.zeros(FAN_OUT + 1)
        after = before[1:]
        np.add.accumulate(children, 0, np.float64, after)
        chosen = after.searchsorted(targets, "right")
        if np.maximum.reduce(chosen) == FAN_OUT:
            chosen[chosen == FAN_OUT] = np.flatnonzero(children)[-1]
        targets -= before.take(chosen)
        return chosen

    def _sum_range(self, first: int, count: int) -> None:
        """Recompute the ancestors of rows [first, first + count)."""
        if count < 1:
            return
        last = first + count - 1
        for children, level in zip(self._children, self.levels[1:], strict=True):
            first, last = first >> FAN_OUT_BITS, last >> FAN_OUT_BITS
            level[first : last + 1] = node_sums(children[first : last + 1])


def node_sums(children: NDArray[Any]) -> NDArray[np.float64]:
    """The sum of each row of sixteen, from the first to the last."""
    if len(children) == 1:  # as Python's floats, a fifth of the cost of arrays of one
        return np.array([functools.reduce(operator.add, children[0].tolist())])
    columns = np.empty((FAN_OUT, len(children)))
    columns[...] = children.T
    # NumPy adds row to row here; it sums pairwise along the fast axis alone (notes on numpy.sum),
    # which of one column the first would be.
    sums: NDArray[np.float64] = np.add.reduce(columns, 0)
    return sums


class _Descent:
    """One step down the tree for a number of lanes, with the arrays that it works in."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        # Row k of `_before` is the running sum before child k; the last is the sum of all.
        self._before = np.zeros((FAN_OUT + 1, lanes))
        self._steps = list(zip(self._before, self._before[1:], strict=False))
        self._after = self._before[1:]
        self._children = np.empty((FAN_OUT, lanes))
        self._passed = np.empty((FAN_OUT, lanes), bool)
        self._codes = self._passed.view(np.uint8)
        self._lane = np.arange(lanes)
        self._flat = self._before.reshape(-1)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        arrays = (self._before, self._children, self._passed, self._lane)
        return sum(array.nbytes for array in arrays)

    def __call__(
        self, children: NDArray[Any], nodes: NDArray[np.int64], targets: NDArray[np.float64]
    ) -> None:
        """Make ``nodes`` the children at ``targets``, and ``targets`` what is left of them."""
        self._children[...] = children.take(nodes, 0).T
        if self.lanes <= _FEW:
            np.add.accumulate(self._children, 0, None, self._after)
        else:
            for (before, after), child in zip(self._steps, self._children, strict=True):
                np.add(before, child, after)
        np.less_equal(self._after, targets, self._passed)
        chosen = np.add.reduce(self._codes, 0, np.int64)
        if self._passed[-1].any():
            self._last_with_mass(chosen)
        nodes *= FAN_OUT
        nodes += chosen
        chosen *= self.lanes
        chosen += self._lane
        targets -= self._flat.take(chosen)

    def _last_with_mass(self, chosen: NDArray[np.int64]) -> None:
        """Where all sixteen were passed, the last child with mass."""
        lanes = np.flatnonzero(self._passed[-1])
        has_mass = self._children[::-1, lanes] > 0.0
        chosen[lanes] = FAN_OUT - 1 - has_mass.argmax(0)
