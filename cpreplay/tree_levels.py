"""The shape of the sum tree: how many nodes each level has.

A node is the sum of sixteen children. Level 0 are the leaves, one for each row; the last level is
one node, the root. Every level is padded with zeros to whole nodes of the level above.
"""

FAN_OUT_BITS = 4
FAN_OUT = 1 << FAN_OUT_BITS


def nodes_per_level(capacity: int) -> tuple[int, ...]:
    """Nodes of each level, padding left out: ``capacity`` first, 1 last; at least two levels."""
    levels = [capacity]
    while len(levels) < 2 or levels[-1] > 1:
        levels.append(-(-levels[-1] // FAN_OUT))
    return tuple(levels)


def padded(nodes: int) -> int:
    """Nodes that a level has memory for: whole nodes of the level above."""
    return -(-nodes // FAN_OUT) * FAN_OUT


def tree_nbytes(capacity: int) -> int:
    """Bytes of all levels: leaves of four, sums of eight."""
    leaves, *sums = map(padded, nodes_per_level(capacity))
    return 4 * leaves + 8 * sum(sums)
