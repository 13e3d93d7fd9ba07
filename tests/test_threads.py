"""One lock per host buffer: actors and a learner share it, and no batch holds half a row."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cpreplay
from tests.conftest import Backend
from tests.strategies import numbered_rows, row

WIDTH = 40


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    """Threads change places after microseconds, so that a missing lock shows in a short test."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_together(*works: Callable[[], None]) -> None:
    """Run each work in a thread of its own; the first error of any is raised here."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def add_singly(buffer: cpreplay.StoreReplay, value: int, count: int) -> None:
    """Rows with one value in all columns: a new one each time, equal to ``value`` modulo 8."""
    for number in range(value, value + 8 * count, 8):
        row = np.full(WIDTH, number, np.float32)
        buffer.add(row, row, number, row, value % 2 == 1)


def add_batches(buffer: cpreplay.StoreReplay, value: int, count: int) -> None:
    for number in range(value, value + 8 * count, 8):
        rows = np.full((7, WIDTH), number, np.float32)
        buffer.add_batch(rows, rows, rows[:, 0], rows, [value % 2 == 1] * 7)


def assert_rows_are_whole(batch: cpreplay.Batch) -> None:
    value = batch.reward
    for name in ("obs", "action", "next_obs"):
        assert (batch[name] == value[:, None]).all(), name
    assert (batch.terminated == (value % 2 == 1)).all()


def test_a_batch_never_holds_half_of_one_row_and_half_of_another() -> None:
    buffer = cpreplay.StoreReplay(WIDTH, WIDTH, 16, seed=0)  # small, so rows are overwritten often
    add_singly(buffer, 1, 16)
    fixed = buffer.make_batch(64)

    def learn() -> None:
        for _ in range(300):
            assert_rows_are_whole(buffer.sample(64))
            assert_rows_are_whole(buffer.sample_range(8, 2, 9))

    def learn_fixed() -> None:
        for _ in range(300):
            assert_rows_are_whole(buffer.sample(64, out=fixed))

    actors = [lambda value=value: add_singly(buffer, value, 400) for value in (2, 3, 4)]
    run_together(*actors, lambda: add_batches(buffer, 5, 200), learn, learn_fixed)
    buffer.check()


def test_no_add_of_several_threads_is_lost() -> None:
    buffer = cpreplay.StoreReplay(WIDTH, WIDTH, 10_000)
    run_together(
        *[lambda value=value: add_singly(buffer, value, 300) for value in range(4)],
        *[lambda value=value: add_batches(buffer, value, 50) for value in range(4, 8)],
    )
    assert len(buffer) == 4 * 300 + 4 * 50 * 7
    counts = np.bincount(buffer.column("reward")[: len(buffer)].astype(int) % 8)
    assert counts.tolist() == [300] * 4 + [350] * 4
    buffer.check()


def test_every_draw_of_several_threads_has_its_own_number() -> None:
    buffer = cpreplay.StoreReplay((), (), 2**20, seed=3, rng="philox")
    numbers = np.arange(2**20, dtype=np.float32)
    buffer.add_batch(numbers, numbers, numbers, numbers, numbers < 0)
    drawn: list[bytes] = []
    run_together(
        *[lambda: drawn.extend(buffer.sample(16).indices.tobytes() for _ in range(40))] * 4
    )
    witness = cpreplay.StoreReplay((), (), 2**20, seed=3, rng="philox")
    witness.add_batch(numbers, numbers, numbers, numbers, numbers < 0)
    expected = {witness.sample(16).indices.tobytes() for _ in range(160)}
    assert set(drawn) == expected


def test_looking_from_another_thread_never_spoils_the_count() -> None:
    buffer = cpreplay.StoreReplay(WIDTH, WIDTH, 10_000)
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            held = len(buffer)
            assert buffer.holds(held)
            assert not buffer.holds(held + 4000)

    def act() -> None:
        add_singly(buffer, 1, 1500)
        add_batches(buffer, 2, 200)
        done.set()

    run_together(act, look, look)
    assert len(buffer) == buffer.head == 2900
    assert not buffer.holds(2901)
    with pytest.raises(cpreplay.SampleRangeError, match="holds 2900 of 10000"):
        buffer.sample_range(1, 2900, 2901)
    buffer.check()


def test_these_tests_would_notice_a_missing_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPREPLAY_HOST", "numpy")  # where every add comes by what is patched here
    buffer = cpreplay.StoreReplay(WIDTH, WIDTH, 16, seed=0)
    monkeypatch.setattr(buffer, "_lock", contextlib.nullcontext())
    add_singly(buffer, 1, 16)
    torn = threading.Event()
    patience = time.monotonic() + 60  # a torn row comes within a second

    def act(value: int) -> None:
        while not torn.is_set() and time.monotonic() < patience:
            add_singly(buffer, value, 100)

    def learn() -> None:
        while not torn.is_set() and time.monotonic() < patience:
            try:
                assert_rows_are_whole(buffer.sample(16))
            except AssertionError:
                torn.set()

    run_together(lambda: act(2), lambda: act(3), learn, learn)
    assert torn.is_set()


def test_rows_and_draws_change_under_the_lock_and_the_callers_code_runs_outside(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = backend.buffer((3,), (2,), 20)
    # The way of plain adds is for compiled code, which looks at the lock itself.
    monkeypatch.setattr(buffer._ops, "add_plain", lambda values: False)
    monkeypatch.setattr(buffer._ops, "add_batch_plain", lambda values: False)
    seen = []

    def watch(name: str, locked: bool) -> None:
        method = getattr(buffer._ops, name)

        def watched(*args: Any, **options: Any) -> Any:
            seen.append(name)
            assert buffer._lock.locked() == locked, name
            return method(*args, **options)

        monkeypatch.setattr(buffer._ops, name, watched)

    outside = ("ingest_row", "ingest", "ingest_mask")
    under = ("store_row", "store", "sample", "sample_range", "configure_ere", "pin_demos")
    for names, locked in ((outside, False), (under, True)):
        for name in names:
            watch(name, locked)
    rows = numbered_rows(0, 4)
    buffer.add(**row(rows, 0))
    buffer.add_batch(**rows, mask=np.array([True] * 4))
    buffer.sample(3)
    buffer.sample_range(3, 0, 2)
    buffer.configure_ere(enable=False)
    buffer.pin_demo_prefix(5, batch_size=3)
    assert set(seen) == {*outside, *under}


# Priorities


class Log:
    """Everything that a prioritized buffer does, in the order in which its lock lets it."""

    def __init__(self, buffer: cpreplay.StoreReplay, monkeypatch: pytest.MonkeyPatch) -> None:
        self.buffer = buffer
        self.entries: list[tuple[str, Any]] = []
        self.here = threading.local()  # what the thread is about to ask for
        for part, name in (
            (buffer._ops, "store_row"),
            (buffer._ops, "store"),
            (buffer._ops, "sample"),
            (buffer._ops, "sample_range"),
            (buffer._ops.priorities, "update"),
        ):
            self._watch(part, name, monkeypatch)

    def _watch(self, part: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        method = getattr(part, name)

        def watched(*args: Any, **options: Any) -> Any:
            self.entries.append((name, self.here.asked))
            return method(*args, **options)

        monkeypatch.setattr(part, name, watched)

    def add(self, number: float) -> None:
        row = np.full(WIDTH, number, np.float32)
        self.here.asked = number
        self.buffer.add(row, row, number, row, False)

    def add_batch(self, number: float) -> None:
        rows = np.full((7, WIDTH), number, np.float32)
        self.here.asked = number
        self.buffer.add_batch(rows, rows, rows[:, 0], rows, [False] * 7)

    def sample(self, lanes: int) -> cpreplay.Batch:
        batch = self.here.asked = self.buffer.make_batch(lanes)
        return self.buffer.sample(lanes, out=batch)

    def sample_range(self, lanes: int, low: int, high: int) -> cpreplay.Batch:
        batch = self.buffer.make_batch(lanes)
        self.here.asked = batch, low, high
        return self.buffer.sample_range(lanes, low, high, out=batch)

    def update(self, batch: cpreplay.Batch, td_errors: np.ndarray) -> None:
        self.here.asked = batch, td_errors
        self.buffer.update_priorities(batch, td_errors)

    def repeat(self, twin: "Log") -> None:
        """Ask another buffer for the same, one call after another, and compare every batch."""
        batches: dict[int, cpreplay.Batch] = {}

        def compare(batch: cpreplay.Batch, again: cpreplay.Batch) -> None:
            for name in ("indices", "weights", "reward", "obs"):
                assert (batch[name] == again[name]).all(), name
            batches[id(batch)] = again

        for name, asked in self.entries:
            if name == "store_row":
                twin.add(asked)
            elif name == "store":
                twin.add_batch(asked)
            elif name == "sample":
                compare(asked, twin.sample(len(asked)))
            elif name == "sample_range":
                batch, low, high = asked
                compare(batch, twin.sample_range(len(batch), low, high))
            else:
                batch, td_errors = asked
                twin.update(batches[id(batch)], td_errors)


def work_together(log: Log, rounds: int) -> None:
    """Three actors and two learners, whose batches are old by the time that they come back."""

    def act(first: int) -> None:
        for number in range(first, first + 3 * rounds):
            log.add(number)

    def act_in_batches() -> None:
        for number in range(rounds):
            log.add_batch(number + 0.5)

    def learn(seed: int) -> None:
        random = np.random.default_rng(seed)
        kept = [log.sample(24), log.sample_range(8, 2, 30)]
        for number in range(rounds):
            kept.append(log.sample_range(8, 2, 30) if number % 5 == 0 else log.sample(24))
            batch = kept[0] if number % 3 == 0 else kept[-1]
            log.update(batch, random.normal(size=len(batch)) * 10)
            del kept[0]

    run_together(
        lambda: act(10_000), lambda: act(20_000), act_in_batches, lambda: learn(1), lambda: learn(2)
    )


def test_actors_and_learners_leave_what_their_calls_in_some_order_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CPREPLAY_HOST", "numpy")  # where every add comes by what is patched here
    log, twin = (
        Log(cpreplay.StoreReplay(WIDTH, WIDTH, 300, True, seed=6, rng="philox"), monkeypatch)
        for _ in range(2)
    )
    for part in (log, twin):
        for number in range(40):
            part.add(number)
    del log.entries[:]
    oldest = log.sample(24)
    work_together(log, 150)
    log.update(oldest, np.ones(24))  # a whole ring later
    log.repeat(twin)
    assert log.buffer.stats() == twin.buffer.stats()
    assert log.buffer.stats()["stale_updates"] >= 24
    for level, expected in zip(
        log.buffer._ops.priorities.levels(), twin.buffer._ops.priorities.levels(), strict=True
    ):
        np.testing.assert_array_equal(level, expected)
    log.buffer.check()


def test_a_lane_is_stale_exactly_where_its_row_holds_another_transition() -> None:
    buffer = cpreplay.StoreReplay((), (), 200, True, seed=2)
    kept: list[cpreplay.Batch] = []

    def add(first: int, count: int) -> None:
        for number in range(first, first + count):
            buffer.add(number, number, number, number, False)

    def draw() -> None:
        kept.extend(buffer.sample(16) for _ in range(60))

    add(0, 200)
    kept.append(buffer.sample(16))  # of which more than half will be overwritten
    run_together(lambda: add(1000, 60), lambda: add(2000, 60), draw, draw)
    kept.append(buffer.sample(16))  # of which nothing will
    held = buffer.column("reward")
    stale = sum(int((held[batch.indices] != batch.reward).sum()) for batch in kept)
    assert 0 < stale < 122 * 16
    for batch in kept:
        buffer.update_priorities(batch, np.ones(16))
    assert buffer.stats()["stale_updates"] == stale
    buffer.check()


def test_priorities_change_under_the_lock_and_the_callers_code_runs_outside(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = backend.buffer((3,), (2,), 20, True)
    priorities = buffer._ops.priorities
    seen = []

    def watch(name: str, locked: bool) -> None:
        method = getattr(priorities, name)

        def watched(*args: Any, **options: Any) -> Any:
            seen.append(name)
            assert buffer._lock.locked() == locked, name
            return method(*args, **options)

        monkeypatch.setattr(priorities, name, watched)

    watch("ingest", False)
    under = ("update", "configure", "set_beta", "levels")
    for name in under:
        watch(name, True)
    buffer.configure_per(0.5)
    buffer.add_batch(**numbered_rows(0, 4))
    buffer.set_beta(1.0)
    buffer.update_priorities(buffer.sample(3), np.ones(3))
    buffer.update_priorities([0, 1], [0.5, 0.5])
    buffer.stats()
    buffer.check()
    assert set(seen) == {"ingest", *under}


def test_a_length_that_a_restore_overtakes_is_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffer = cpreplay.StoreReplay((3,), (2,), 8, seed=0)
    empty = buffer.state()
    buffer.add_batch(**numbered_rows(0, 8))
    read = buffer._known._read

    def overtaken() -> int:
        monkeypatch.undo()
        total = read()
        restorer = threading.Thread(target=buffer.restore, args=(empty,))
        restorer.start()
        restorer.join()
        return total

    monkeypatch.setattr(buffer._known, "_read", overtaken)
    assert len(buffer) == 8  # as it was when it was read
    with pytest.raises(cpreplay.SampleRangeError, match="holds 0 of 8"):
        buffer.sample_range(4, 0, 8)
    buffer.check()
