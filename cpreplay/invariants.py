"""What always holds of a ring. `check` of a buffer, which tests call after everything they do."""

import numpy as np

from cpreplay.control import ring_size
from cpreplay.errors import InvariantError
from cpreplay.known_total import KnownTotal
from cpreplay.ops import Ops
from cpreplay.policies import Policy
from cpreplay.schema import Layout

_CHECKED_ROWS = 4096  # at a time, so that a check of device rows needs little memory


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
        for first in range(0, capacity, _CHECKED_ROWS):
            rows = ops.to_host(stored[first : first + _CHECKED_ROWS])
            held = max(0, size - first)
            _expect(not rows[held:].any(), f"{column.name}: rows never written are 0")
            if column.dtype.kind == "b":
                codes = rows[:held].view(np.uint8)
                _expect(not (codes > 1).any(), f"{column.name}: booleans are 0 or 1")


def _expect(holds: bool, invariant: str) -> None:
    if not holds:
        raise InvariantError(f"broken invariant: {invariant}")
