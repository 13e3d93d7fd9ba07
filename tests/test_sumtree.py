"""The sum tree by itself, on every back end, against the witness and against arithmetic by hand."""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cpreplay import kernels
from cpreplay.control import CONTROL
from cpreplay.host_tree import HostSumTree, node_sums
from cpreplay.kernel_structs import MAX_FEW, MAX_SUMS
from cpreplay.tree_levels import nodes_per_level, padded, tree_nbytes
from tests.conftest import Backend
from tests.golden import reference
from tests.golden.reference import SumTree

KERNELS = Path(__file__).parent / "kernels_for_tests"
SEED = 11

CAPACITIES = [1, 2, 3, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1000, 4095, 4096, 4097, 70_000]


def kernel_for_tests(cupy: Any, name: str) -> Any:
    """A kernel of ``kernels_for_tests/priorities.cu``, with our headers in place."""
    seen: set[str] = set()
    text = ""
    for line in (KERNELS / "priorities.cu").read_text().splitlines(keepends=True):
        include = kernels._INCLUDE.match(line)
        if include is None:
            text += line
        elif include[1] not in seen:
            seen.add(include[1])
            text += kernels._inlined(include[1], seen)
    return cupy.RawKernel(text, name, options=kernels.OPTIONS)


class Tree:
    """The tree of a buffer whose rows count as written, with alpha 1 and epsilon 0.

    So a TD error is its own leaf, and an update is one of the tree alone.
    """

    def __init__(self, backend: Backend, capacity: int) -> None:
        self.backend = backend
        self.capacity = capacity
        self.buffer = backend.buffer((), (), capacity, prioritized=True, seed=SEED)
        self.buffer.configure_per(alpha=1.0, beta=0.0, epsilon=0.0)
        self.draws = 0
        self._priorities = self.buffer._ops.priorities
        control = self.buffer._ops._control
        if backend.is_device:
            fields = control.get().view(CONTROL)
            fields["total"] = capacity
            control.set(fields.view(np.uint8))
        else:
            control["total"] = capacity
            self._priorities.settled[0] = capacity
        self.buffer._known.count(capacity)

    def set(self, leaves: Any) -> None:
        """Set every leaf."""
        leaves = np.asarray(leaves, np.float32)
        assert leaves.shape == (self.capacity,)
        if not self.backend.is_device:
            self._priorities._tree.set(leaves)
            return
        tree = self._priorities
        tree._levels[0][: self.capacity] = self.backend.array(leaves)
        for level, nodes in enumerate(nodes_per_level(self.capacity)[1:]):
            grid = (max(1, nodes // 200),)  # fewer threads than nodes
            tree._kernels.launch("sum_level", grid, tree._tree, np.int64(level), threads=64)

    def update(self, rows: Any, leaves: Any) -> None:
        self.buffer.update_priorities(
            self.backend.array(rows, np.int64), self.backend.array(leaves, np.float64)
        )

    def find(self, targets: Any) -> list[int]:
        targets = np.array(targets, np.float64)
        if not self.backend.is_device:
            return self._priorities._tree.find(targets).tolist()
        cupy = self.backend.cupy
        rows = cupy.empty(len(targets), np.int64)
        kernel = kernel_for_tests(cupy, "find_rows")
        arguments = (self._priorities._tree, cupy.asarray(targets), np.int64(len(targets)), rows)
        kernel((2,), (64,), arguments)
        return self.backend.numpy(rows).tolist()

    def draw(self, lanes: int) -> list[int]:
        """A stratified draw by the buffer's own reals."""
        self.draws += 1
        return self.backend.numpy(self.buffer.sample(lanes).indices).tolist()

    @property
    def levels(self) -> list[NDArray[Any]]:
        return [self.backend.numpy(level) for level in self._priorities.levels()]

    @property
    def total(self) -> float:
        return float(self.levels[-1][0])


def assert_same_tree(levels: Sequence[NDArray[Any]], witness: SumTree) -> None:
    """Every level, bit for bit; what pads it is zero."""
    assert len(levels) == len(witness.levels)
    assert levels[0].dtype == np.float32
    for level, expected in zip(levels, witness.levels, strict=True):
        assert level[: len(expected)].astype(np.float64).tobytes() == np.array(expected).tobytes()
        assert not level[len(expected) :].any()


def masses(rng: np.random.Generator, count: int, low: float = -38, high: float = 38) -> Any:
    """Leaves of a wild range, a good part of them 0."""
    leaves = (10.0 ** rng.uniform(low, high, count)).astype(np.float32)
    leaves[rng.random(count) < 0.3] = 0.0
    if not leaves.any():
        leaves[rng.integers(count)] = np.float32(1e-3)
    return leaves


def ends_of_intervals(witness: SumTree) -> list[float]:
    """For every node, where each child's share ends as the descent to it reckons, and around it."""
    targets = [0.0, witness.total, math.nextafter(witness.total, math.inf)]
    begins = [0.0]
    for level in reversed(range(1, len(witness.levels))):
        next_begins = []
        for node, begin in enumerate(begins):
            running = 0.0
            for child in witness._children(level, node):
                next_begins.append(begin + running)
                running += child
                end = begin + running
                if child:
                    targets += [math.nextafter(end, 0.0), end, math.nextafter(end, math.inf)]
        begins = next_begins
    return targets


# ---- the shape


# By hand: each level a sixteenth of the one below, rounded up.
SHAPES = [
    (1, (1,)),
    (2, (1,)),
    (15, (1,)),
    (16, (1,)),
    (17, (2, 1)),
    (255, (16, 1)),
    (256, (16, 1)),
    (257, (17, 2, 1)),
    (4096, (256, 16, 1)),
    (4097, (257, 17, 2, 1)),
    (70_000, (4375, 274, 18, 2, 1)),
    (10**6, (62_500, 3907, 245, 16, 1)),
    (2**28, (2**24, 2**20, 2**16, 2**12, 2**8, 2**4, 1)),
    (2**28 + 1, (2**24 + 1, 2**20 + 1, 2**16 + 1, 2**12 + 1, 2**8 + 1, 17, 2, 1)),
    (2**31 - 1, (2**27, 2**23, 2**19, 2**15, 2**11, 2**7, 8, 1)),
    (2**31, (2**27, 2**23, 2**19, 2**15, 2**11, 2**7, 8, 1)),
]


@pytest.mark.parametrize(("capacity", "sums"), SHAPES)
def test_the_shape_of_a_tree(capacity: int, sums: tuple[int, ...]) -> None:
    assert nodes_per_level(capacity) == (capacity, *sums)
    assert len(sums) <= MAX_SUMS


def test_the_largest_tree_needs_every_level_there_is() -> None:
    assert len(nodes_per_level(2**31)) == 1 + MAX_SUMS


@pytest.mark.parametrize(("nodes", "memory"), [(1, 16), (15, 16), (16, 16), (17, 32), (32, 32)])
def test_a_level_is_padded_to_whole_nodes(nodes: int, memory: int) -> None:
    assert padded(nodes) == memory


@pytest.mark.parametrize(
    ("capacity", "nbytes"),
    [
        (1, 16 * 4 + 16 * 8),
        (16, 16 * 4 + 16 * 8),
        (17, 32 * 4 + 16 * 8 + 16 * 8),
        (257, 272 * 4 + 32 * 8 + 16 * 8 + 16 * 8),
        (4096, 4096 * 4 + 256 * 8 + 16 * 8 + 16 * 8),
    ],
)
def test_the_bytes_of_a_tree(capacity: int, nbytes: int) -> None:
    assert tree_nbytes(capacity) == nbytes
    tree = HostSumTree(capacity)
    assert tree.nbytes == nbytes
    assert all(level.ctypes.data % 64 == 0 for level in tree.levels)


@pytest.mark.parametrize("capacity", [1, 16, 17, 257])
def test_levels_on_the_device_begin_where_a_line_does(device: Backend, capacity: int) -> None:
    levels = device.buffer((), (), capacity, prioritized=True)._ops.priorities.levels()
    assert all(level.data.ptr % 64 == 0 for level in levels)
    assert sum(level.nbytes for level in levels) == tree_nbytes(capacity)


def test_a_new_tree_has_no_mass(backend: Backend) -> None:
    tree = Tree(backend, 40)
    assert tree.total == 0.0
    assert not any(level.any() for level in tree.levels)


# ---- every level, bit for bit


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_setting_the_leaves_sums_every_level_in_order(backend: Backend, capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    tree = Tree(backend, capacity)
    for low, high in ((-38, 38), (-1, 1)):
        leaves = masses(rng, capacity, low, high)
        tree.set(leaves)
        assert_same_tree(tree.levels, SumTree(leaves.tolist()))
    tree.set(np.zeros(capacity))
    assert tree.total == 0.0


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_updates_leave_the_tree_of_their_leaves(backend: Backend, capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    tree = Tree(backend, capacity)
    leaves = masses(rng, capacity, -5, 5)
    tree.set(leaves)
    witness = SumTree(leaves.tolist())
    for lanes in (1, 2, 16, 40, 300):
        rows = rng.integers(0, capacity, lanes)
        new = (10.0 ** rng.uniform(-30, 30, lanes)).astype(np.float32)
        tree.update(rows, new)
        for row, leaf in zip(rows.tolist(), new.tolist(), strict=True):
            witness.set(row, leaf)
        assert_same_tree(tree.levels, witness)


@pytest.mark.parametrize("lanes", [1, MAX_FEW - 1, MAX_FEW, MAX_FEW + 1, 3000])
@pytest.mark.parametrize("capacity", [1, 16, 300, 5000])
def test_updates_of_any_number_of_lanes_do_the_same(
    backend: Backend, capacity: int, lanes: int
) -> None:
    rng = np.random.default_rng(lanes + capacity)
    tree = Tree(backend, capacity)
    tree.set(np.ones(capacity))
    witness = SumTree([1.0] * capacity)
    rows = rng.integers(0, capacity, lanes)
    new = rng.uniform(0.1, 5, lanes).astype(np.float32)
    tree.update(rows, new)
    for row, leaf in zip(rows.tolist(), new.tolist(), strict=True):
        witness.set(row, leaf)
    assert_same_tree(tree.levels, witness)


def test_an_update_of_no_lanes_changes_nothing(backend: Backend) -> None:
    tree = Tree(backend, 20)
    tree.set(np.arange(20))
    tree.update([], [])
    assert_same_tree(tree.levels, SumTree(list(range(20))))


@given(
    st.integers(1, 300).flatmap(
        lambda n: st.tuples(
            st.lists(
                st.floats(0, 2.0**100, width=32, allow_subnormal=False), min_size=n, max_size=n
            ),
            st.lists(
                st.lists(
                    st.tuples(st.integers(0, n - 1), st.floats(0, 2.0**100, width=32)),
                    max_size=40,
                ),
                max_size=4,
            ),
        )
    )
)
@settings(max_examples=40)
def test_any_updates_on_the_host_leave_the_tree_of_their_leaves(
    case: tuple[list[float], list[list[tuple[int, float]]]],
) -> None:
    leaves, updates = case
    tree, witness = HostSumTree(len(leaves)), SumTree(leaves)
    tree.set(np.array(leaves, np.float32))
    assert_same_tree(tree.levels, witness)
    for update in updates:
        rows = np.array([row for row, _ in update], np.int64)
        tree.update(rows, np.array([leaf for _, leaf in update], np.float32))
        for row, leaf in update:
            witness.set(row, leaf)
        assert_same_tree(tree.levels, witness)


@given(st.data())
@settings(max_examples=60)
def test_filling_any_range_on_the_host_leaves_the_tree_of_its_leaves(data: st.DataObject) -> None:
    capacity = data.draw(st.sampled_from([1, 5, 16, 17, 256, 257, 600]))
    tree, leaves = HostSumTree(capacity), [0.0] * capacity
    for leaf in (0.1, 3.7, 2.0**-126):
        first = data.draw(st.integers(0, capacity))
        count = data.draw(st.integers(0, capacity - first))
        tree.fill(first, count, np.float32(leaf))
        leaves[first : first + count] = [float(np.float32(leaf))] * count
        assert_same_tree(tree.levels, SumTree(leaves))


def test_the_order_of_a_sum_shows_and_is_ours() -> None:
    # 2**53 + 1 rounds to 2**53, so that fifteen ones after it are lost, and before it are not.
    children = np.array([[2.0**53, *[1.0] * 15], [*[1.0] * 15, 2.0**53]])
    assert node_sums(children).tolist() == [2.0**53, 2.0**53 + 16.0]


def test_the_order_of_a_sum_is_that_on_every_back_end(backend: Backend) -> None:
    tree = Tree(backend, 32)
    tree.set([2.0**53, *[1.0] * 15, *[1.0] * 15, 2.0**53])
    assert tree.levels[1][:2].tolist() == [2.0**53, 2.0**53 + 16.0]


# ---- finding


@pytest.mark.parametrize("capacity", [1, 2, 3, 15, 16, 17, 31, 255, 256, 257])
def test_at_every_end_of_an_interval_the_row_is_the_witnesses(
    backend: Backend, capacity: int
) -> None:
    rng = np.random.default_rng(capacity)
    tree = Tree(backend, capacity)
    for low, high in ((-38, 38), (-1, 1), (-8, 8)):
        leaves = masses(rng, capacity, low, high)
        tree.set(leaves)
        witness = SumTree(leaves.tolist())
        targets = ends_of_intervals(witness)
        rows = tree.find(targets)
        assert rows == [witness.descend(target) for target in targets]
        assert (leaves[rows] > 0).all()


@pytest.mark.parametrize("capacity", [4096, 4097, 70_000])
def test_at_ends_of_intervals_of_a_deep_tree_the_row_is_the_witnesses(
    backend: Backend, capacity: int
) -> None:
    rng = np.random.default_rng(capacity)
    tree = Tree(backend, capacity)
    leaves = masses(rng, capacity, -3, 3)
    tree.set(leaves)
    witness = SumTree(leaves.tolist())
    targets = ends_of_intervals(witness)
    targets = [*targets[:50], *rng.choice(targets, 500), *targets[-50:]]
    rows = tree.find(targets)
    assert rows == [witness.descend(target) for target in targets]
    assert (leaves[rows] > 0).all()


@pytest.mark.parametrize("capacity", [3, 16, 17, 257, 4097])
def test_where_sums_are_exact_the_row_is_that_of_the_running_sum(
    backend: Backend, capacity: int
) -> None:
    rng = np.random.default_rng(capacity)
    leaves = rng.integers(0, 4, capacity)
    leaves[0] = 1
    tree = Tree(backend, capacity)
    tree.set(leaves)
    ends = np.cumsum(leaves)
    assert tree.total == ends[-1]
    steps = np.arange(0, ends[-1], max(0.5, ends[-1] / 700))
    targets = np.unique(np.concatenate([steps, ends[:-1][:400], np.nextafter(ends[:400], 0)]))
    targets = targets[targets < ends[-1]]
    expected = np.searchsorted(ends, targets, side="right")
    assert tree.find(targets) == expected.tolist()


@given(st.data())
@settings(max_examples=50)
def test_any_target_on_the_host_finds_the_witnesses_row(data: st.DataObject) -> None:
    capacity = data.draw(st.integers(1, 60) | st.just(260))
    float32 = st.one_of(st.just(0.0), st.floats(2.0**-126, 2.0**127, width=32))
    leaves = data.draw(st.lists(float32, min_size=capacity, max_size=capacity).filter(any))
    witness, tree = SumTree(leaves), HostSumTree(capacity)
    tree.set(np.array(leaves, np.float32))
    some = st.floats(0, witness.total)
    targets = data.draw(st.lists(some, min_size=1, max_size=20)) + ends_of_intervals(witness)
    rows = tree.find(np.array(targets)).tolist()
    assert rows == [witness.descend(target) for target in targets]
    assert all(leaves[row] > 0 for row in rows)


@pytest.mark.parametrize("capacity", [1, 17, 257, 4097])
def test_a_stratified_draw_takes_lane_i_in_the_ith_slice(backend: Backend, capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    tree = Tree(backend, capacity)
    for draw, lanes in enumerate((1, 7, 256, 300)):
        leaves = masses(rng, capacity, -2, 2)
        tree.set(leaves)
        reals = reference.draw_reals(SEED, draw, lanes)
        assert tree.draw(lanes) == SumTree(leaves.tolist()).draw(reals)


def float32_parts(x: float) -> list[float]:
    """Three float32 numbers, the largest first, whose sum in that order is exact."""
    parts = []
    for _ in range(3):
        fraction, exponent = math.frexp(x)
        parts.append(math.ldexp(math.floor(math.ldexp(fraction, 24)), exponent - 24))
        x -= parts[-1]
    assert x == 0.0
    return parts


@pytest.mark.parametrize(
    "otherwise", [lambda real: (2 + real) / 3, lambda real: 2 * (1.0 / 3) + real * (1.0 / 3)]
)
def test_a_target_is_rounded_as_it_is_written_down(
    backend: Backend, otherwise: Callable[[float], float]
) -> None:
    tree = Tree(backend, 6)
    seen = 0
    for draw in range(40):
        reals = reference.draw_reals(SEED, draw, 3)
        ours, other = (2 + reals[2]) * (1.0 / 3), otherwise(reals[2])
        # The total is 1, and the first three leaves end at the larger of two ways to round.
        end = max(ours, other)
        leaves = [*float32_parts(end), *float32_parts(1.0 - end)]
        tree.set(leaves)
        assert tree.total == 1.0
        row = tree.draw(3)[2]
        if ours != other:
            assert (row >= 3) == (ours == end)
            seen += 1
    assert seen > 5


def test_a_target_has_every_bit_of_its_real(backend: Backend) -> None:
    tree = Tree(backend, 6)
    seen = set()
    for draw in range(30):
        (real,) = reference.draw_reals(SEED, draw, 1)
        odd = int(real * 2.0**53) % 2
        # The first three leaves end at the real, or at the next number that one can be.
        first = float32_parts(real if odd else real + 2.0**-53)
        rest = float32_parts(1.0 - math.fsum(first))
        tree.set([*first, *rest])
        witness = SumTree([*first, *rest])
        assert witness.total == 1.0
        (row,) = tree.draw(1)
        assert row == witness.draw([real])[0]
        if 0.0 not in first + rest:
            assert row == (3 if odd else 2)
            seen.add(odd)
    assert seen == {0, 1}


@given(st.lists(st.floats(0, 1 - 2**-53), min_size=1, max_size=50), st.integers(0, 2**32))
@settings(max_examples=50)
def test_a_draw_by_any_reals_on_the_host_is_the_witnesses(reals: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaves = masses(rng, int(rng.integers(1, 400)), -3, 3)
    tree = HostSumTree(len(leaves))
    tree.set(leaves)
    assert tree.draw(np.array(reals)).tolist() == SumTree(leaves.tolist()).draw(reals)


def test_equal_leaves_drawn_with_as_many_lanes_give_every_row_once(backend: Backend) -> None:
    tree = Tree(backend, 256)
    tree.set(np.full(256, 0.5))
    for _ in range(5):
        assert tree.draw(256) == list(range(256))


# ---- faults that other libraries have had


def test_a_capacity_that_is_no_power_of_the_fan_out(backend: Backend) -> None:
    tree = Tree(backend, 3)
    tree.set([1, 1, 1])
    assert tree.find([0.5, 1.5, 2.5]) == [0, 1, 2]


def test_a_leaf_without_mass_is_never_found(backend: Backend) -> None:
    tree = Tree(backend, 4)
    tree.set([0, 0, 0.1, 0.1])
    assert tree.find([0.0]) == [2]
    tree.set([0.1, 0, 0, 0.1])
    first = float(np.float32(0.1))
    assert tree.find([0.0, math.nextafter(first, 0), first, 2 * first]) == [0, 0, 3, 3]
    tree.set([0.1, 0.1, 0, 0])
    assert tree.find([2 * first, 1.0, 1e300]) == [1, 1, 1]


def test_draws_of_a_tree_that_is_partly_filled_stay_where_it_is_filled(backend: Backend) -> None:
    tree = Tree(backend, 500)
    rng = np.random.default_rng(0)
    tree.set([*rng.random(100, np.float32).tolist(), *[0.0] * 400])
    draws, lanes = (5, 2000) if backend.is_device else (5, 200_000)
    rows = [row for _ in range(draws) for row in tree.draw(lanes)]
    assert max(rows) < 100
    assert len(set(rows)) > 90


@pytest.mark.parametrize("capacity", [1, 5, 16, 40, 300])
def test_a_target_at_the_total_or_above_finds_the_last_leaf_with_mass(
    backend: Backend, capacity: int
) -> None:
    tree = Tree(backend, capacity)
    for filled in {1, capacity // 2 + 1, capacity}:
        tree.set([*[0.7] * filled, *[0.0] * (capacity - filled)])
        total = tree.total
        assert tree.find([total, math.nextafter(total, math.inf)]) == [filled - 1] * 2


def test_no_leaf_without_mass_is_found_at_the_ends_of_many_random_trees_on_the_host() -> None:
    rng = np.random.default_rng(3)
    for capacity in itertools.chain(range(1, 40), rng.integers(40, 600, 1500).tolist()):
        tree = HostSumTree(capacity)
        spread = rng.uniform(0, 38)
        leaves = masses(rng, capacity, -spread, spread)
        tree.set(leaves)
        ends = np.cumsum(leaves, dtype=np.float64)
        targets = np.concatenate([ends, np.nextafter(ends, 0), np.nextafter(ends, np.inf)])
        targets = np.append(targets, [0.0, tree.total, np.nextafter(tree.total, np.inf)])
        rows = tree.find(targets)
        assert 0 <= rows.min() <= rows.max() < capacity
        assert leaves[rows].min() > 0


def test_no_leaf_without_mass_is_found_at_the_ends_of_random_trees(device: Backend) -> None:
    rng = np.random.default_rng(4)
    for capacity in (3, 16, 100, 257, 600):
        tree = Tree(device, capacity)
        for _ in range(4):
            spread = rng.uniform(0, 38)
            leaves = masses(rng, capacity, -spread, spread)
            tree.set(leaves)
            ends = np.cumsum(leaves, dtype=np.float64)
            targets = np.concatenate([ends, np.nextafter(ends, 0), np.nextafter(ends, np.inf)])
            rows = np.array(tree.find(targets))
            assert 0 <= rows.min() <= rows.max() < capacity
            assert leaves[rows].min() > 0


def test_a_remainder_at_a_nodes_own_sum_stays_inside_the_node(backend: Backend) -> None:
    # The running sum of nodes 0 and 1, 2**52 + 3.5, rounds up to 2**52 + 4, so a target of
    # 2**52 + 3 enters node 1; what is left of it, 2**52 + 1.5, rounds up to all of node 1.
    tree = Tree(backend, 48)
    leaves = np.zeros(48, np.float32)
    leaves[0], leaves[16], leaves[18], leaves[32] = 1.5, 2.0**52, 2.0, 1.0
    tree.set(leaves)
    assert tree.levels[1][:3].tolist() == [1.5, 2.0**52 + 2, 1.0]
    assert tree.total == 2.0**52 + 5
    targets = [1.0, 1.5, 2.0**52, 2.0**52 + 3, 2.0**52 + 4, 2.0**52 + 5]
    assert tree.find(targets) == [0, 16, 16, 18, 32, 32]


def test_sums_are_recomputed_and_not_adjusted(backend: Backend) -> None:
    for capacity in (2, 16, 300):
        tree = Tree(backend, capacity)
        leaves = np.zeros(capacity)
        leaves[:2] = [1e8, 0.5]
        tree.set(leaves)
        assert tree.total == 1e8 + 0.5
        leaves[0] = 0.0
        tree.set(leaves)
        assert tree.total == 0.5
        tree.update([0, 1], [1e8, 0.5])
        assert tree.total == 1e8 + 0.5
        tree.update([0], [0.25])
        assert tree.total == 0.75
        tree.update([0], [0.0])  # a row that is held keeps the smallest mass there is
        assert tree.total == 0.5  # 2**-126 is lost beside a half
        tree.update([1], [0.0])
        assert tree.total == 2.0**-125


def test_a_leaf_of_the_host_tree_set_to_0_leaves_the_others_exact() -> None:
    tree = HostSumTree(2)
    tree.set(np.array([1e8, 0.5], np.float32))
    tree.update(np.array([0]), np.array([0.0], np.float32))
    assert tree.total == 0.5


def test_nothing_drifts_in_a_thousand_rewrites(backend: Backend) -> None:
    rng = np.random.default_rng(1)
    tree = Tree(backend, 32)
    for _ in range(1000 if not backend.is_device else 60):
        tree.update(rng.permutation(32), rng.uniform(0.1, 5, 32).astype(np.float32))
    leaves = tree.levels[0]
    assert_same_tree(tree.levels, SumTree(leaves.tolist()))
    first, second = 0.0, 0.0
    for leaf in leaves[:16].tolist():
        first += leaf
    for leaf in leaves[16:].tolist():
        second += leaf
    assert tree.total == first + second


def test_a_tree_filled_to_exactly_its_capacity_draws_inside(backend: Backend) -> None:
    tree = Tree(backend, 4096)
    tree.set(np.full(4096, 0.5))
    assert tree.total == 2048.0
    assert tree.find([2048.0, 2049.0, 2047.75, 0.0]) == [4095, 4095, 4095, 0]
    for _ in range(3):
        rows = tree.draw(2048)
        assert 0 <= min(rows) <= max(rows) <= 4095
        assert [row // 2 for row in rows] == list(range(2048))  # two rows a slice


def test_the_mass_of_2_to_the_31_largest_leaves_is_finite() -> None:
    largest = float(np.finfo(np.float32).max)
    assert math.isfinite(largest * 2.0**31)
    tree = HostSumTree(300)
    tree.set(np.full(300, largest, np.float32))
    assert tree.total == 300 * largest  # 24 bits and 9 fit into 53
    assert tree.find(np.array([0.0, 1.5 * largest, tree.total])).tolist() == [0, 1, 299]


def test_a_last_chunk_of_one_lane_is_drawn_too() -> None:
    leaves = masses(np.random.default_rng(3), 300, -2, 2)
    tree, witness = HostSumTree(300), SumTree(leaves.tolist())
    tree.set(leaves)
    targets = np.random.default_rng(4).uniform(0, witness.total, 2 * 2048 + 1)
    expected = [witness.descend(target) for target in targets.tolist()]
    assert tree.find(targets).tolist() == expected


def test_the_bytes_of_a_tree_count_what_a_draw_works_in() -> None:
    tree = HostSumTree(40)
    tree.set(np.ones(40, np.float32))
    before = tree.nbytes
    tree.find(np.zeros(500))
    # 17 running sums and 16 children, each a float64; 16 flags; the lane's own number
    assert tree.nbytes - before == 500 * (17 * 8 + 16 * 8 + 16 + 8)
