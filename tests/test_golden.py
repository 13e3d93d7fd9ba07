"""Every policy draws the golden sequences, on every back end.

The golden files were made by ``tests/golden/make_golden.py``, which shares no code with cpreplay.
"""

from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay.control import CONTROL, new_control
from cpreplay.philox import philox_words, splitmix64
from tests import golden
from tests.conftest import Backend
from tests.golden.reference import draw_rows, seed_with_key

PHILOX = [
    pytest.param(scenario, id=f"{policy}-{scenario['name']}")
    for policy in ("uniform", "range", "ere", "demo")
    for scenario in golden.load(f"{policy}_philox")
]
PCG64 = [
    pytest.param(scenario, id=f"{policy}-{scenario['name']}")
    for policy in ("uniform", "range", "ere", "demo")
    for scenario in golden.load(f"{policy}_pcg64")
]
PER_PHILOX, PER_PCG64 = (
    [pytest.param(scenario, id=scenario["name"]) for scenario in golden.load(name)]
    for name in ("per_philox", "per_pcg64")
)


def play(buffer: Any, operations: list[dict[str, Any]], numpy: Any) -> None:
    """Do a scenario's operations and compare every draw, and every size and head."""
    added = 0
    for operation in operations:
        arguments = {key: value for key, value in operation.items() if key != "do"}
        if operation["do"] == "add":
            n = arguments["n"]
            numbers = np.arange(added, added + n, dtype=np.float32)
            buffer.add_batch(numbers, numbers, numbers, numbers, np.zeros(n, bool))
            added += n
            assert (len(buffer), buffer.head) == (arguments["size"], arguments["head"])
        elif operation["do"] == "sample":
            batch = buffer.sample(arguments["batch"])
            assert numpy(batch.indices).tolist() == arguments["rows"]
        elif operation["do"] == "sample_range":
            batch = buffer.sample_range(arguments["batch"], arguments["lo"], arguments["hi"])
            assert numpy(batch.indices).tolist() == arguments["rows"]
        elif operation["do"] == "configure_ere":
            buffer.configure_ere(**arguments)
        else:
            assert operation["do"] == "pin_demo_prefix"
            buffer.pin_demo_prefix(arguments["n"], batch_size=arguments["batch_size"])


class Priorities:
    """Does a prioritized scenario's operations and compares all that is said of them.

    With ``look``, after each operation also what only ``stats`` tells. Without it every call finds
    the tree as the call before left it, which `stats` would bring up to date.
    """

    def __init__(self, buffer: Any, numpy: Any, *, look: bool) -> None:
        self.buffer = buffer
        self.numpy = numpy
        self.look = look
        self.added = 0
        self.batch: Any = None

    def play(self, operations: list[dict[str, Any]]) -> None:
        to_be_seen: dict[str, Any] = {}
        for operation in operations:
            operation = dict(operation)
            getattr(self, operation.pop("do"))(operation)
            # What no later operation changes unless it says so.
            named = ("priority_total", "max_priority", "stale_updates")
            to_be_seen |= {name: operation[name] for name in named if name in operation}
            if self.look:
                self.compare_stats(to_be_seen)
        self.compare_stats(to_be_seen)

    def compare_stats(self, expected: dict[str, Any]) -> None:
        stats = self.buffer.stats()
        assert {name: stats[name] for name in expected} == expected
        assert stats["invalid_priorities"] == 0

    def add(self, given: dict[str, Any]) -> None:
        numbers = np.arange(self.added, self.added + given["n"], dtype=np.float32)
        self.buffer.add_batch(numbers, numbers, numbers, numbers, numbers < 0)
        self.added += given["n"]
        assert (len(self.buffer), self.buffer.head) == (given["size"], given["head"])

    def sample(self, given: dict[str, Any]) -> None:
        self.compare_draw(self.buffer.sample(given["batch"]), given)

    def sample_range(self, given: dict[str, Any]) -> None:
        self.compare_draw(self.buffer.sample_range(given["batch"], given["lo"], given["hi"]), given)

    def compare_draw(self, batch: Any, given: dict[str, Any]) -> None:
        assert self.numpy(batch.indices).tolist() == given["rows"]
        assert self.numpy(batch.weights).tolist() == given["weights"]  # floats: bit for bit
        self.batch = batch

    def update_batch(self, given: dict[str, Any]) -> None:
        self.buffer.update_priorities(self.batch, np.array(given["td_errors"]))

    def update_indices(self, given: dict[str, Any]) -> None:
        self.buffer.update_priorities(given["indices"], given["td_errors"])

    def configure_per(self, given: dict[str, Any]) -> None:
        self.buffer.configure_per(**given)

    def set_beta(self, given: dict[str, Any]) -> None:
        self.buffer.set_beta(**given)


def start_at_draw(buffer: Any, backend: Backend, draw: int) -> None:
    """Make ``draw`` the number of the next draw, which no public call can do yet."""
    control = buffer._ops._control
    if backend.is_device:
        fields = control.get().view(CONTROL)
        fields["draws"] = draw
        control.set(fields.view(np.uint8))
    else:
        control["draws"] = draw


@pytest.mark.parametrize("scenario", PHILOX)
def test_philox_draws_are_the_golden_rows(scenario: dict[str, Any], backend: Backend) -> None:
    buffer = backend.buffer((), (), scenario["capacity"], seed=scenario["seed"])
    start_at_draw(buffer, backend, scenario["draws"])
    play(buffer, scenario["operations"], backend.numpy)
    buffer.check()


@pytest.mark.parametrize("scenario", PCG64)
def test_a_host_buffer_draws_the_golden_rows_by_default(scenario: dict[str, Any]) -> None:
    buffer = cpreplay.StoreReplay((), (), scenario["capacity"], seed=scenario["seed"])
    play(buffer, scenario["operations"], np.asarray)


@pytest.mark.parametrize("look", [True, False], ids=["looking", "not looking"])
@pytest.mark.parametrize("scenario", PER_PHILOX)
def test_philox_draws_by_priority_are_the_golden_rows_and_weights(
    scenario: dict[str, Any], look: bool, backend: Backend
) -> None:
    buffer = backend.buffer((), (), scenario["capacity"], True, seed=scenario["seed"])
    start_at_draw(buffer, backend, scenario["draws"])
    Priorities(buffer, backend.numpy, look=look).play(scenario["operations"])
    buffer.check()


@pytest.mark.parametrize("look", [True, False], ids=["looking", "not looking"])
@pytest.mark.parametrize("scenario", PER_PCG64)
def test_a_host_buffer_draws_the_golden_rows_and_weights_by_default(
    scenario: dict[str, Any], look: bool
) -> None:
    assert scenario["draws"] == 0
    buffer = cpreplay.StoreReplay((), (), scenario["capacity"], True, seed=scenario["seed"])
    Priorities(buffer, np.asarray, look=look).play(scenario["operations"])
    buffer.check()


def test_wide_windows_use_every_bit_of_a_word(backend: Backend) -> None:
    # Windows to 2**31 rows, too large to allocate: the draw alone, without rows behind it.
    buffer = backend.buffer((), (), 1, seed=0)
    for case in golden.load("rows_philox"):
        drawn = draw_without_rows(buffer._ops, backend, **{**case, "rows": len(case["rows"])})
        assert drawn == case["rows"]


def draw_without_rows(
    ops: Any, backend: Backend, seed: int, draw_number: int, batch: int, lo: int, hi: int, rows: int
) -> list[int]:
    """The rows of one range draw, whatever the buffer holds."""
    assert rows == batch
    key = splitmix64(seed)
    out = ops.make_batch(batch)
    if backend.is_device:
        control = new_control(1, key)
        control["draws"] = draw_number
        device_control = backend.array(control.view(np.uint8))
        lanes = (np.int64(lo), np.int64(hi), np.int64(batch))
        ops._launch("draw_range", (2,), device_control, *lanes, out.indices, None, threads=3)
    else:
        words = philox_words(key, draw_number, batch)
        ops._rows_of_span(words, hi - lo, out._memory.rows)
        out.indices[...] += lo
    return backend.numpy(out.indices).tolist()


@pytest.mark.parametrize(
    ("key", "row"), [(7758767, 139311884), (28633587, 1567111876), (29949583, 2023808037)]
)
def test_a_word_just_below_a_row_is_not_rounded_up_to_it(
    key: int, row: int, backend: Backend
) -> None:
    # Words whose product with the span is so near the next row that a float64 rounds to it.
    seed = seed_with_key(key)
    assert draw_rows(seed, 0, 1, 0, 2**31 - 1) == [row]
    buffer = backend.buffer((), (), 1, seed=0)
    assert draw_without_rows(buffer._ops, backend, seed, 0, 1, 0, 2**31 - 1, 1) == [row]
