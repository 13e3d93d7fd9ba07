"""What always holds of a ring. `check` of a buffer, which tests call after everything they do."""

from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

import numpy as np

from cpreplay.control import ring_size
from cpreplay.errors import InvariantError
from cpreplay.host_tree import node_sums
from cpreplay.known_total import KnownTotal
from cpreplay.ops import Ops
from cpreplay.policies import Policy
from cpreplay.priorities import SMALLEST
from cpreplay.schema import Layout
from cpreplay.tree_levels import FAN_OUT

_PART = 4096  # rows at a time, so that a look at device rows needs little memory


def parts(rows: Any, size: int = _PART) -> Iterator[Any]:
    """An array a part at a time, along its first axis."""
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


def check_ring(ops: Ops, layout: Layout, capacity: int, known: KnownTotal, policy: Policy) -> None:
    """Raise `InvariantError` where one is broken. Reads every row, and waits."""
    control = ops.control()
    size = ring_size(int(control["total"]), capacity)
    if known.is_exact:
        _expect(control["total"] == known.at_least, "total is what the host counted")
    _expect(control["total"] >= known.at_least, "total is at least what the host counted")
    _expect(control["capacity"] == capacity, "capacity is what was asked for")
    _expect(control["demo_count"] == policy.demo_count, "demo_count is as pinned")
    _expect(0 <= control["demo_count"] <= size, "demonstrations are rows that are held")
    _expect(bool(control["ere_enabled"]) == policy.ere, "ERE is as configured")
    _expect(0 <= control["k"] < max(1, control["k_max"]), "k is below k_max")
    for number, column in enumerate(layout.columns):
        stored = ops.column(number)
        for first, part in zip(count(0, _PART), parts(stored), strict=False):
            rows = ops.to_host(part)
            held = max(0, size - first)
            _expect(not rows[held:].any(), f"{column.name}: rows never written are 0")
            if column.dtype.kind == "b":
                codes = rows[:held].view(np.uint8)
                _expect(not (codes > 1).any(), f"{column.name}: booleans are 0 or 1")


def check_priorities(ops: Ops, capacity: int, alpha: float) -> None:
    """Raise `InvariantError` where the sum tree is not that of the rows held. Reads all of it."""
    assert ops.priorities is not None
    control = ops.control()
    size = ring_size(int(control["total"]), capacity)
    _expect(control["alpha"] == alpha, "alpha is as configured")
    _expect(1.0 <= control["max_priority"] < np.inf, "max_priority is a number of at least 1")
    _expect(ops.priorities.at_rest(), "what an update uses is put back as it was")
    levels = ops.priorities.levels()
    for first, part in zip(count(0, _PART), parts(levels[0]), strict=False):
        leaves, held = ops.to_host(part), max(0, size - first)
        _expect((leaves[:held] >= SMALLEST).all(), "every row held has mass")
        _expect(np.isfinite(leaves).all(), "leaves are finite")
        _expect(not leaves[held:].any(), "rows never written have no mass")
    for children, nodes in pairwise(levels):
        held = len(children) // FAN_OUT
        _expect(not ops.to_host(nodes[held:]).any(), "what pads a level has no mass")
        for first, part in zip(count(0, _PART // FAN_OUT), parts(children), strict=False):
            sums = node_sums(ops.to_host(part).reshape(-1, FAN_OUT))
            same = sums == ops.to_host(nodes[first : first + len(sums)])
            _expect(same.all(), "a node is the sum of its children, in order")


def _expect(holds: Any, invariant: str) -> None:
    if not holds:
        raise InvariantError(f"broken invariant: {invariant}")
