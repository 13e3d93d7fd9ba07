"""What `stats` of a buffer tells: its control block and its tree, as plain numbers."""

from cpreplay.control import ring_head, ring_size
from cpreplay.invariants import parts
from cpreplay.ops import Ops
from cpreplay.priorities import effective_sample_size

# Leaves that are looked at together.
_LEAVES = 2**20


def statistics(ops: Ops, capacity: int) -> dict[str, int | float | bool]:
    """Counts and counters of a ring, and of its priorities where it has any. Waits."""
    control = ops.control()
    total, demo_count = int(control["total"]), int(control["demo_count"])
    size = ring_size(total, capacity)
    numbers: dict[str, int | float | bool] = {
        "size": size,
        "capacity": capacity,
        "total": total,
        "head": ring_head(total, demo_count, capacity),
        "demo_count": demo_count,
        "draws": int(control["draws"]),
        "nbytes": ops.nbytes,
        "ere": bool(control["ere_enabled"]),
        "invalid_rows": int(control["invalid_rows"]),
    }
    if ops.priorities is not None:
        levels = ops.priorities.levels()
        leaves = map(ops.to_host, parts(levels[0][:size], _LEAVES))
        numbers |= {
            **{name: control[name] for name in _OF_PRIORITIES},
            "priority_total": float(ops.to_host(levels[-1])[0]),
            "effective_sample_size": effective_sample_size(leaves),
        }
    return numbers


_OF_PRIORITIES = (
    "alpha", "beta", "epsilon", "max_priority", "invalid_priorities", "stale_updates",
)  # fmt: skip
