"""What prioritized replay costs: rows and their ancestors, counted in accesses of global memory.

The emulator counts each load, store and atomic operation of a kernel (mode "check"). On a card such
counts are what a kernel of this kind takes its time for; seconds on an emulator would say nothing.
"""

import functools
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import SCHEDULES, Backend, emulated
from tests.cuda_emulator import emu
from tests.cuda_emulator.fakecupy._simulation import sim
from tests.strategies import numbered_rows
from tests.test_capture import on_device
from tests.test_large import move_head

B = 256
LEVELS = {10**4: 4, 10**6: 5, 10**8: 7}  # the smallest L with 16**L >= capacity

# To recompute a sum: its sixteen children, and itself.
NODE = 17
# Of a lane that comes to a node: its row, and the ticket that says who recomputes the sum.
VISIT = 2
# Whatever a lane does once: its row, its token, its error, the control block, the leaf, the winner.
ONCE = 20

pytestmark = pytest.mark.skipif(emu.config.mode != "check", reason="mode fast counts no accesses")


def accesses(call: Any, device: Backend) -> dict[str, int]:
    """Accesses of each kernel that a call runs, added up."""
    device.cupy.cuda.Device().synchronize()
    with sim.recording() as record:
        call()
        device.cupy.cuda.Device().synchronize()
    counts = dict.fromkeys(record.launch_names, 0)
    for kernel, count in record.ran:
        counts[kernel] += count
    return counts


def distinct_nodes(rows: np.ndarray, levels: int) -> list[int]:
    """How many rows there are, and how many ancestors on each level of sums."""
    return [len(np.unique(rows >> 4 * level)) for level in range(levels + 1)]


def full_buffer(device: Backend, capacity: int, head: int) -> Any:
    """A ring that takes itself for full; only leaves that a test sets have mass."""
    buffer = device.buffer((), (), capacity, True, seed=0)
    move_head(buffer, device, capacity + head)
    return buffer


def counts_at(device: Backend, capacity: int) -> dict[str, Any]:
    """Of an update, an add that wraps, and a draw; with what the rows and ancestors explain."""
    head, levels = capacity - 100, LEVELS[capacity]
    buffer = full_buffer(device, capacity, head)
    rows = np.random.default_rng(3).choice(capacity, B, replace=False)
    given = device.array(rows), device.array(np.linspace(0.5, 2.0, B))
    update = accesses(lambda: buffer.update_priorities(*given), device)
    transitions = on_device(device, numbered_rows(0, B, (), ()))
    add = accesses(lambda: buffer.add_batch(**transitions), device)
    out = buffer.make_batch(B)
    draw = accesses(lambda: buffer.sample(B, out=out), device)
    leaves, *sums = distinct_nodes(rows, levels)
    assert leaves == B
    _, *entered = distinct_nodes((head + np.arange(B)) % capacity, levels)
    return {
        "counted": {**update, **add, **draw},
        # A lane goes up from a node where it was the first, so each node has as many visitors
        # as it has children with changes.
        "update": NODE * sum(sums) + VISIT * (B + sum(sums[:-1])),
        "add": NODE * sum(entered),
        "draw": 16 * levels * B,
    }


def test_an_update_an_add_and_a_draw_cost_their_rows_and_ancestors(
    emulated_device: Backend,
) -> None:
    at = {capacity: counts_at(emulated_device, capacity) for capacity in LEVELS}
    explained = {"update_few": "update", "enter_rows": "add", "draw_by_priority": "draw"}
    for capacity, levels in LEVELS.items():
        counted = at[capacity]["counted"]
        for kernel, part in explained.items():
            assert 0 < counted[kernel] <= at[capacity][part] + ONCE * B
        assert counted["update_few"] <= ONCE * B + (NODE + VISIT) * B * levels
        assert counted["draw_by_priority"] <= ONCE * B + 16 * B * levels
        # Rows that lie side by side share ancestors: a fifteenth of them for all levels, and on
        # each level one more at either end, twice since the add wraps.
        assert counted["enter_rows"] <= ONCE * B + NODE * (B / 15 + 4 * levels)
        for kernel in ("store_rows", "gather_rows"):
            assert counted[kernel] == at[10**4]["counted"][kernel]
    # What is more at 10^8 rows than at 10^4 is what the longer ways up and down explain.
    for kernel, part in explained.items():
        for few, many in ((10**4, 10**6), (10**6, 10**8)):
            added = at[many]["counted"][kernel] - at[few]["counted"][kernel]
            assert 0 < added <= at[many][part] - at[few][part]


def test_an_update_of_neighbours_costs_hardly_more_than_its_rows(
    emulated_device: Backend,
) -> None:
    def count(rows: np.ndarray) -> int:
        errors = emulated_device.array(np.ones(B))
        given = emulated_device.array(rows)
        update = accesses(lambda: buffer.update_priorities(given, errors), emulated_device)
        return update["update_few"]

    buffer = full_buffer(emulated_device, 10**8, 0)
    levels = LEVELS[10**8]
    together, same = count(np.arange(B)), count(np.full(B, 7))
    assert together <= ONCE * B + VISIT * (B + B / 15 + levels) + NODE * (B / 15 + levels)
    assert same <= ONCE * B + (VISIT + NODE) * levels  # one lane goes up


# One schedule: a count does not depend on the order, and 65,536 lanes take their time.
@pytest.fixture
def one_device(monkeypatch: pytest.MonkeyPatch) -> Backend:
    return emulated(monkeypatch, int(SCHEDULES[0]))


@pytest.mark.parametrize("which", ["distinct rows", "one row", "drawn rows"])
def test_a_large_update_is_linear_in_its_lanes(
    which: str, one_device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emu.config, "preempt_gap", 0)
    capacity = 10**6
    levels = LEVELS[capacity]
    buffer = full_buffer(one_device, capacity, 0)
    massive = np.random.default_rng(2).choice(capacity, 500, replace=False)
    buffer.update_priorities(one_device.array(massive), one_device.array(np.ones(500)))
    per_lane = []
    for lanes in (2048, 65_536):
        errors = one_device.array(np.ones(lanes), np.float32)
        if which == "drawn rows":
            given = buffer.sample(lanes)
            rows = one_device.numpy(given.indices)
        else:
            rows = np.full(lanes, 5)
            if which == "distinct rows":
                rows = np.random.default_rng(1).choice(capacity, lanes, replace=False)
            given = one_device.array(rows)
        sums = sum(distinct_nodes(rows, levels)[1:])
        update = functools.partial(buffer.update_priorities, given, errors)
        counted = accesses(update, one_device)
        assert len(counted) == 4
        per_lane.append(sum(counted.values()) / lanes)
        # Each lane is judged anew in each of the levels + 1 launches that take lanes.
        assert per_lane[-1] <= ONCE * (levels + 1) + NODE * sums / lanes
    assert per_lane[1] <= 1.02 * per_lane[0]


# The host: a tree over 2**31 rows, of which almost nothing is ever touched.

FEW_ROWS_OF_MANY = """
    import os
    import numpy as np
    from cpreplay.host_tree import HostSumTree

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def work(tree, capacity):
        generator = np.random.default_rng(0)
        rows = generator.integers(0, capacity, 256)
        rows[-1] = capacity - 1
        tree.update(rows, np.ones(256, np.float32))
        tree.fill(capacity - 256, 256, np.float32(2.0))
        drawn = tree.draw(generator.random(256))
        assert np.isin(drawn, [*rows, *range(capacity - 256, capacity)]).all()

    work(HostSumTree(10**4), 10**4)  # what NumPy allocates for itself
    tree = HostSumTree(2**31)
    assert tree.nbytes > 9 * 2**30
    before = resident()
    work(tree, 2**31)
    print(resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_a_host_tree_touches_the_pages_of_its_rows_and_their_ancestors() -> None:
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if huge.exists() and "[always]" in huge.read_text():
        pytest.skip("this machine gives every array huge pages")
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FEW_ROWS_OF_MANY)],
        env={**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    # A page for each of 256 leaves and their ancestors on eight levels, of 9.7 GB; and 3 MB.
    assert int(run.stdout) <= 256 * 9 * 4096 + 3 * 2**20
