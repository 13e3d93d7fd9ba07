"""Priorities of a ring in host memory: a sum tree that follows its head.

An add does nothing here. New rows get their leaves before the next call that looks at the tree,
all of them at once, which they may since they enter at one priority.
"""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.batch import Batch
from cpreplay.control import ring_size
from cpreplay.errors import ColumnValueError, ConfigurationError, SampleRangeError
from cpreplay.host_inputs import update_inputs
from cpreplay.host_tree import HostSumTree
from cpreplay.philox import reals_of
from cpreplay.priorities import (
    OVERFLOW,
    ages_of,
    draw_token,
    entering_leaf,
    leaves_of,
    no_token,
    stale_lanes,
    weights_of,
)


class HostPriorities:
    """The sum tree of one buffer, and what changes it. The contract is `ops.PriorityOps`.

    Parameters
    ----------
    control : ndarray
        The buffer's control block, which this reads and writes.
    capacity : int
    """

    def __init__(self, control: NDArray[Any], capacity: int) -> None:
        self._control = control
        self._total = control["total"]
        self._max_priority = control["max_priority"]
        self._alpha = control["alpha"]
        self._epsilon = control["epsilon"]
        self._run = int(control["run"][0])
        self._capacity = capacity
        self._tree = HostSumTree(capacity)
        #: Rows ever written whose leaves are set. In an array, which compiled code shares.
        self.settled = np.zeros(1, np.int64)
        self._entering_leaf = functools.lru_cache(1)(entering_leaf)

    @property
    def nbytes(self) -> int:
        return self._tree.nbytes

    def levels(self) -> list[NDArray[Any]]:
        self._settle()
        return self._tree.levels

    @staticmethod
    def ingest(rows: Any, tokens: Any, td_errors: Any) -> tuple[Any, Any, Any]:
        return update_inputs(rows, tokens, td_errors)

    def disown(self, batch: Batch) -> None:
        batch._memory.tokens[...] = no_token(self._run)

    def at_rest(self) -> bool:
        return True

    def mend(self) -> None:
        """Make the sums hold again where a change was broken off."""
        self._tree.mend()

    def update_plain(self, rows: Any, tokens: Any, td_errors: Any) -> bool:
        return False

    def draw(self, batch: Batch, words: NDArray[np.uint64]) -> None:
        """Fill indices, weights and tokens of a batch, in proportion to the leaves."""
        self._settle()
        tree = self._tree
        mass = tree.total
        rows = tree.draw(reals_of(words))
        batch.indices[...] = rows
        size = ring_size(self._total.item(), self._capacity)
        beta = self._control["beta"].item()
        batch.weights[...] = weights_of(tree.leaves.take(rows, 0, None, "clip"), size, mass, beta)
        self._mark(batch)

    def mark_uniform(self, batch: Batch) -> None:
        """Give a batch that was drawn uniformly its weights and tokens."""
        batch.weights[...] = 1.0
        self._mark(batch)

    def update(
        self,
        rows: NDArray[np.int64],
        tokens: NDArray[np.uint64] | None,
        td_errors: NDArray[np.float64],
    ) -> None:
        if not len(rows):
            return
        self._settle()
        ages = None if tokens is None else self._ages(tokens)
        self._check_rows(rows)
        priorities, leaves, largest = self._leaves_of(td_errors)
        stale = None if ages is None else self._stale(rows, ages)
        if stale is not None:
            kept = ~stale
            rows, priorities, leaves = rows[kept], priorities[kept], leaves[kept]
            if not len(rows):
                return
        self._tree.update(rows, leaves)
        if largest > self._max_priority.item():
            self._raise_maximum(rows, priorities)

    def leaves(self, size: int) -> NDArray[np.float32]:
        self._settle()
        return self._tree.leaves[:size].copy()

    def set_leaves(self, first: int, leaves: NDArray[np.float32]) -> None:
        self._tree.fill(first, len(leaves), leaves)

    def take_up(self, run: int) -> None:
        self._run = run
        self.settled[0] = self._total.item()

    def configure(self, alpha: float, beta: float, epsilon: float) -> None:
        control = self._control[0]
        control["alpha"], control["beta"], control["epsilon"] = alpha, beta, epsilon

    def set_beta(self, beta: float) -> None:
        self._control["beta"] = beta

    def _settle(self) -> None:
        """Set the leaves of the rows that were added since, and mend what was broken off."""
        self._tree.mend()
        total = self._total.item()
        settled = self.settled.item()
        if total == settled:
            return
        count = min(total - settled, self._capacity)
        first = (total - count) % self._capacity
        before_end = min(count, self._capacity - first)
        leaf = self._entering_leaf(self._max_priority.item(), self._alpha.item())
        self._tree.fill(first, before_end, leaf)
        self._tree.fill(0, count - before_end, leaf)
        self.settled[0] = total

    def _raise_maximum(self, rows: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        """Take the largest priority that was written into the maximum."""
        maximum = self._max_priority.item()
        rivals = np.isin(rows, rows[priorities > maximum])  # lanes of the rows that may raise it
        # Of a row that is there twice, a dict keeps the last lane, which is the one written.
        written = dict(zip(rows[rivals].tolist(), priorities[rivals].tolist(), strict=True))
        self._max_priority[0] = max([maximum, *written.values()])

    def _mark(self, batch: Batch) -> None:
        batch._memory.tokens[...] = draw_token(self._total.item(), self._run)

    def _check_rows(self, rows: NDArray[np.int64]) -> None:
        size = ring_size(self._total.item(), self._capacity)
        # As unsigned numbers, where a negative one is larger than all.
        if np.maximum.reduce(rows.view(np.uint64)).item() >= size:
            wrong = rows[(rows < 0) | (rows >= size)]
            raise SampleRangeError(
                f"update_priorities: row {wrong[0]} is not in the buffer, which holds "
                f"{size} of {self._capacity}; give indices that were drawn from it"
            )

    def _leaves_of(
        self, td_errors: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float32], float]:
        """|TD error| + epsilon of each lane, the leaves of that, and the largest of the first."""
        priorities = np.abs(td_errors)
        epsilon = self._epsilon.item()
        largest = float(np.maximum.reduce(priorities)) + epsilon
        if not largest < np.inf:  # NaN is not smaller either
            with np.errstate(over="ignore"):
                raise self._bad_error(td_errors, priorities + epsilon < np.inf)
        priorities += epsilon
        leaves = leaves_of(priorities, self._alpha.item())
        if largest >= OVERFLOW and leaves.max() >= OVERFLOW:
            raise self._bad_error(td_errors, leaves < OVERFLOW)
        return priorities, leaves.astype(np.float32), largest

    def _ages(self, tokens: NDArray[np.uint64]) -> NDArray[np.uint64] | None:
        """Rows written since each lane was drawn; None where there are none."""
        total = self._total.item()
        ages = ages_of(tokens, total, self._run)
        oldest = np.maximum.reduce(ages).item()
        if oldest == 0:
            return None
        if oldest > total:
            raise ConfigurationError(
                "update_priorities: this batch was not drawn from this buffer as it is now; give "
                "a batch of its own sample, or bare indices"
            )
        return ages

    def _stale(self, rows: NDArray[np.int64], ages: NDArray[np.uint64]) -> NDArray[np.bool_] | None:
        """Which lanes' rows have been overwritten since the draw; None where none has."""
        stale = stale_lanes(rows, ages, self._total.item(), self._capacity)
        count = np.count_nonzero(stale)
        if count == 0:
            return None
        self._control["stale_updates"] += count
        return stale

    def _bad_error(
        self, td_errors: NDArray[np.float64], good: NDArray[np.bool_]
    ) -> ColumnValueError:
        lane = int(good.argmin())
        alpha, epsilon = self._alpha.item(), self._epsilon.item()
        return ColumnValueError(
            f"td_errors: lane {lane} is {td_errors[lane]}, which with alpha={alpha} and "
            f"epsilon={epsilon} has no finite float32 leaf; no priority was changed. Look for a "
            "diverged loss, or leave such lanes out"
        )
