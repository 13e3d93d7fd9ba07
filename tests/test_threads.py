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
