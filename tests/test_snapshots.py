"""A save is of one moment, whatever is added while it is written.

Rows have numbers, so which number lies in which slot at that moment is known from a model of the
ring, and files are read by tar and numpy. Chunks are made small, so that small buffers have many.
Nothing here sleeps: where order matters, a save stands at a gate after each chunk that it has read,
and where it does not, every add lets the save go on by one chunk.
"""

import errno
import gc
import io
import json
import sys
import tarfile
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from cpreplay import (
    CheckpointError,
    ConfigurationError,
    MemoryLimitError,
    OrderError,
    StoreReplay,
    atomic_file,
)
from cpreplay import host_snapshot as host_snapshot_module
from cpreplay import snapshots as snapshots_module
from cpreplay.checkpoint.container import RecordReader
from cpreplay.device_snapshot import DeviceSnapshot
from cpreplay.host_columns import StoredColumn
from cpreplay.host_snapshot import HostSnapshot
from tests.conftest import Backend
from tests.models import RingModel
from tests.test_capture import capture, replay

PATIENCE = 20.0  # seconds after which what should come has not come

FORMS: dict[str, dict[str, Any]] = {
    "packed": {"obs_shape": 3, "action_shape": 2},
    "own arrays": {"obs_shape": (70,), "action_shape": (), "action_dtype": "int64"},
    "quantised": {"obs_shape": (6,), "action_shape": 1, "obs_store_dtype": "uint8"},
    "extra": {
        "obs_shape": (2, 2),
        "action_shape": (),
        "obs_dtype": "uint8",
        "prioritized": True,
        "extra_columns": {"log_prob": (), "flags": (3, "bool"), "wide": (100, "int16")},
    },
}


# Numbered rows


def stored_rows(buffer: Any, numbers: Any) -> dict[str, np.ndarray]:
    """What each column holds of the rows of these numbers, in the dtype in which it is stored."""
    numbers = np.asarray(numbers, np.int64)
    columns = {}
    for place, column in enumerate(buffer.columns):
        elements = np.arange(column.elements)
        values = 16 * numbers[:, None] + 7 * place + elements
        if column.stored.kind == "b":
            values = values // 16 % 3 == elements % 3
        columns[column.name] = values.astype(column.stored).reshape(len(numbers), *column.shape)
    return columns


def given_rows(buffer: Any, numbers: Any) -> dict[str, np.ndarray]:
    """The same as the caller of an add gives them."""
    rows = stored_rows(buffer, numbers)
    for column in buffer.columns:
        if column.quantized:
            rows[column.name] = rows[column.name] / np.float32(255)
    return rows


class Actor:
    """Adds rows of successive numbers, and knows which slot holds which."""

    def __init__(self, buffer: Any, total: int = 0, pinned: int = 0) -> None:
        self.buffer = buffer
        self.ring = RingModel(buffer.capacity)
        if pinned:
            self.add(pinned)
            self.buffer.pin_demo_prefix(pinned, batch_size=1)
            self.ring.pin_demo_prefix(pinned)
        while self.ring.total < total:
            self.add(min(total - self.ring.total, buffer.capacity))

    def add(self, count: int) -> None:
        first = self.ring.total
        self.buffer.add_batch(**given_rows(self.buffer, range(first, first + count)))
        self.ring.add_batch(range(first, first + count))

    def add_single(self) -> None:
        rows = given_rows(self.buffer, [self.ring.total])
        self.buffer.add(**{name: values[0] for name, values in rows.items()})
        self.ring.add(self.ring.total)

    def add_masked(self, kept: int) -> None:
        """So many rows, each behind one that the mask leaves out."""
        first = self.ring.total
        numbers = np.repeat(np.arange(first, first + kept), 2)
        mask = np.arange(2 * kept) % 2 == 1
        numbers[~mask] = 1_000_000
        self.buffer.add_batch(**given_rows(self.buffer, numbers), mask=mask)
        self.ring.add_batch(range(first, first + kept))

    def held(self) -> list[int]:
        """The number in each slot that holds a row."""
        return [number for number in self.ring.rows() if number is not None]


def held_at(capacity: int, pinned: int, total: int) -> list[int]:
    """The number in each slot after so many adds."""
    ring = RingModel(capacity)
    for number in range(total):
        if number == pinned and pinned:
            ring.pin_demo_prefix(pinned)
        ring.add(number)
    return [number for number in ring.rows() if number is not None]


# Files, read by other tools


def contents(path: Path) -> dict[str, bytes]:
    """Every member of a checkpoint, as ``zstd -dc FILE | tar x`` gives them."""
    with open(path, "rb") as file:
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def total_in(path: Path) -> int:
    return int(json.loads(contents(path)["state.json"])["control"]["total"])


def assert_file_holds(path: Path, buffer: Any, numbers: list[int]) -> None:
    """Every row that was held is in the file once, in its slot, whole."""
    expected = stored_rows(buffer, numbers)
    times = {name: np.zeros(len(numbers), int) for name in expected}
    for name, content in contents(path).items():
        match name.split("/"):
            case ["rows", first, member]:
                column = member.removesuffix(".npy")
                values = np.load(io.BytesIO(content), allow_pickle=False)
                part = slice(int(first), int(first) + len(values))
                times[column][part] += 1
                np.testing.assert_array_equal(
                    values, expected[column][part], err_msg=f"{column} from row {first} on"
                )
    for name, counts in times.items():
        assert (counts == 1).all(), name


# Slow disks and full ones


class Gate:
    """Saves in threads stand here after each chunk that they read, until they are let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._turns = threading.Semaphore(0)
        self._arrived = threading.Semaphore(0)
        self._is_open = False
        for kind in (HostSnapshot, DeviceSnapshot):
            monkeypatch.setattr(kind, "chunks", self._through(kind.chunks))

    def _through(self, chunks: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
        def gated(snapshot: Any) -> Iterator[Any]:
            free = threading.current_thread() is threading.main_thread()
            for chunk in chunks(snapshot):
                if not free:
                    self._stand()
                yield chunk

        return gated

    def _stand(self) -> None:
        self._arrived.release()
        if not self._is_open and not self._turns.acquire(timeout=PATIENCE):
            raise AssertionError("nobody let this save through")

    def wait(self) -> None:
        """Until a save has read one more chunk."""
        assert self._arrived.acquire(timeout=PATIENCE), "no save came to the gate"

    def let_one_through(self) -> None:
        self._turns.release()

    def open(self) -> None:
        """Let everything through, also the saves that stand here."""
        self._is_open = True
        self._turns.release(100)


class Waits:
    """Tells when adds wait for a save."""

    def __init__(
        self, buffer: Any, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None] = lambda: None
    ) -> None:
        self.count = 0
        self._begun = threading.Semaphore(0)
        wait = buffer._changed.wait

        def watched() -> None:
            self.count += 1
            self._begun.release()
            then()
            if not wait(timeout=PATIENCE):
                raise AssertionError("an add waits for ever")

        monkeypatch.setattr(buffer._changed, "wait", watched)

    def until_one_begins(self) -> None:
        """Until an add waits. The lock is free then: a waiting add has given it up, or will."""
        assert self._begun.acquire(timeout=PATIENCE), "no add waits"


class Work:
    """Something done in a thread, whose error is raised where it is joined."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(2 * PATIENCE)
        assert self.is_done, "a thread hangs"
        if self._error is not None:
            raise self._error


class Disk:
    """What saves write to. It can be full."""

    def __init__(self) -> None:
        self.is_full = False

    def open(self, path: Path, mode: str) -> io.FileIO:
        disk = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                if disk.is_full:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return super().write(data)

        return File(path, mode)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(atomic_file, "open", disk.open, raising=False)
    return disk


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.open()  # no thread outlives a test that fails


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, int], None]:
    """Makes chunks of so many rows, of buffers like the one given."""

    def set_rows(buffer: Any, rows: int) -> None:
        nbytes = rows * buffer._layout.row_nbytes
        monkeypatch.setattr(snapshots_module, "_CHUNK_BYTES", nbytes)

    return set_rows


def spares(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(host_snapshot_module, "_SPARES", count)


def done(future: "Future[Path]") -> Path:
    return future.result(PATIENCE)


# Any order of adds and reads, step by step


@attrs.frozen(kw_only=True)
class Plan:
    """A save, what was added before, and adds between and in the middle of its reads."""

    form: str
    capacity: int
    pinned: int
    total: int
    chunk_rows: int
    spares: int
    #: Rows added before each chunk is read.
    between: list[int]
    #: Rows added in the middle of each read of a column, and right after it.
    within: list[int]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    capacity = draw(st.integers(1, 40))
    pinned = draw(st.just(0) | st.integers(0, capacity - 1))
    adds = st.just(0) | st.integers(0, 9) | st.integers(0, 2 * capacity)
    return Plan(
        form=draw(st.sampled_from(list(FORMS))) if not pinned else "packed",
        capacity=capacity,
        pinned=pinned,
        total=draw(st.integers(pinned, 3 * capacity)),
        chunk_rows=draw(st.integers(1, 9)),
        spares=draw(st.integers(1, 4)),
        between=draw(st.lists(adds, max_size=12)),
        within=draw(st.lists(adds, max_size=24)),
    )


class WouldWait(Exception):
    """An add has to wait for a save, for which there is no other thread here."""


def refuse_to_wait() -> None:
    raise WouldWait


def add_where_there_is_room(actor: Actor, rows: int) -> bool:
    """Add rows in one way or another, unless that would have to wait; whether it did not."""
    try:
        if rows == 1:
            actor.add_single()
        elif rows % 3 == 2:
            actor.add_masked(rows)
        elif rows:
            actor.add(rows)
    except WouldWait:
        return False
    return True


def interrupted(interrupt: Callable[[], None]) -> type[StoredColumn]:
    """Columns that others write to in the middle of a read."""

    class Interrupted(StoredColumn):
        def read(self, first: int, out: Any) -> None:
            half = len(out) // 2
            super().read(first, out[:half])
            interrupt()
            super().read(first + half, out[half:])
            interrupt()

    return Interrupted


@settings(max_examples=200)
@given(plans())
def test_whatever_is_added_between_and_within_reads_the_rows_are_those_of_the_moment(
    plan: Plan,
) -> None:
    buffer = StoreReplay(**FORMS[plan.form], capacity=plan.capacity, seed=0)
    actor = Actor(buffer, plan.total, plan.pinned)
    expected = stored_rows(buffer, actor.held())
    within = iter(plan.within)
    with pytest.MonkeyPatch.context() as patch:
        nbytes = plan.chunk_rows * buffer._layout.row_nbytes
        patch.setattr(snapshots_module, "_CHUNK_BYTES", nbytes)
        spares(patch, plan.spares)
        _, snapshot = buffer._begin_save(None, apart=True)
        patch.setattr(buffer._changed, "wait", refuse_to_wait)

        def interrupt() -> None:
            add_where_there_is_room(actor, next(within, 0))

        patch.setattr(host_snapshot_module, "StoredColumn", interrupted(interrupt))
        chunks = snapshot.chunks()
        size = len(actor.held())
        times = np.zeros(size, int)
        between = iter(plan.between)
        while True:
            add_where_there_is_room(actor, next(between, 0))
            chunk = next(chunks, None)
            if chunk is None:
                break
            first, read = chunk
            assert read.keys() == expected.keys()
            for name, values in read.items():
                part = slice(first, first + len(values))
                np.testing.assert_array_equal(values, expected[name][part], err_msg=name)
            times[part] += 1
        assert (times == 1).all()
        assert add_where_there_is_room(actor, 2 * plan.capacity)  # nothing is protected
        buffer._end_save(snapshot)
    buffer.check()


def chunks_in_order(
    monkeypatch: pytest.MonkeyPatch, *, capacity: int, total: int, pinned: int = 0, rows: int = 4
) -> list[int]:
    """The first rows of the chunks of a save, in the order in which they are read."""
    buffer = StoreReplay(1, 1, capacity, seed=0)
    Actor(buffer, total, pinned)
    nbytes = rows * buffer._layout.row_nbytes
    monkeypatch.setattr(snapshots_module, "_CHUNK_BYTES", nbytes)
    _, snapshot = buffer._begin_save(None, apart=True)
    order = [first for first, _ in snapshot.chunks()]
    buffer._end_save(snapshot)
    return order


def test_rows_are_read_from_the_oldest_on_and_a_prefix_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 20 slots in chunks from 0, 4, 8, 12, 16
    for total, order in {
        0: [],
        3: [0],
        13: [0, 4, 8, 12],  # of a ring that is not full, row 0 is overwritten first
        20: [0, 4, 8, 12, 16],
        29: [8, 12, 16, 0, 4],  # the head is slot 9
        39: [16, 0, 4, 8, 12],  # the head is slot 19
    }.items():
        assert chunks_in_order(monkeypatch, capacity=20, total=total) == order
    # slots 0 to 8 are pinned: after 12 more adds the ring of 11 is full and the head is slot 10
    assert chunks_in_order(monkeypatch, capacity=20, total=21, pinned=9) == [8, 12, 16, 0, 4]
    # after 19 more the head is slot 17
    assert chunks_in_order(monkeypatch, capacity=20, total=28, pinned=9) == [16, 8, 12, 0, 4]
    # a row that is larger than a chunk is one by itself
    assert chunks_in_order(monkeypatch, capacity=5, total=7, rows=0) == [2, 3, 4, 0, 1]


# Threads


STARTS = {
    "empty": 0,
    "one row": 1,
    "not full": 100,
    "head 0": 240,
    "head at the last row": 479,
    "head mid-chunk": 240 + 87,
}


def adds_of_every_kind(actor: Actor) -> Iterator[None]:
    """Endlessly: single rows, batches that wrap, masks, and now and then more than the ring."""
    capacity = actor.buffer.capacity
    while True:
        for count in (13, 29, 7):
            actor.add(count)
            yield
            actor.add_masked(count)
            yield
        for _ in range(5):
            actor.add_single()
            yield
        actor.add(capacity + 17)
        yield
        actor.add_masked(capacity - 1)
        yield


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("form", FORMS)
def test_a_file_equals_the_buffer_at_the_call_while_a_thread_overwrites_it(
    form: str,
    start: str,
    gate: Gate,
    few_rows: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffer = StoreReplay(**FORMS[form], capacity=240, seed=0)
    actor = Actor(buffer, STARTS[start])
    few_rows(buffer, 9)
    Waits(buffer, monkeypatch, then=gate.let_one_through)
    held, total = actor.held(), actor.ring.total
    future = buffer.save_in_background(tmp_path / "file")

    def act() -> None:
        for _ in adds_of_every_kind(actor):
            gate.let_one_through()
            if future.done():
                break

    Work(act).join()
    assert_file_holds(done(future), buffer, held)
    assert total_in(tmp_path / "file") == total
    assert held == held_at(240, 0, total)
    if total >= 240:  # chunks that waited for an add each, of 17 rows on the average
        assert actor.ring.total > total + 240
    buffer.check()


def test_a_pinned_prefix_is_saved_with_the_rows_that_go_around_behind_it(
    gate: Gate, few_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (pinned, total) in enumerate(
        [(50, 50), (50, 70), (50, 240), (47, 500), (239, 1000)]
    ):
        buffer = StoreReplay(**FORMS["packed"], capacity=240, seed=0)
        actor = Actor(buffer, total, pinned)
        few_rows(buffer, 9)
        Waits(buffer, monkeypatch, then=gate.let_one_through)
        held = actor.held()
        future = buffer.save_in_background(tmp_path / str(number))

        def act(actor: Actor = actor, future: "Future[Path]" = future) -> None:
            for _ in adds_of_every_kind(actor):
                gate.let_one_through()
                if future.done():
                    break

        Work(act).join()
        assert held[:pinned] == list(range(pinned))
        assert_file_holds(done(future), buffer, held)
        buffer.check()


def test_a_row_larger_than_a_chunk_is_saved_while_it_is_overwritten(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = StoreReplay(obs_shape=(500,), action_shape=2, capacity=12, seed=0)
    assert buffer._layout.row_nbytes > 1000
    monkeypatch.setattr(snapshots_module, "_CHUNK_BYTES", 1000)
    spares(monkeypatch, 2)
    actor = Actor(buffer, 17)
    Waits(buffer, monkeypatch, then=gate.let_one_through)
    held = actor.held()
    future = buffer.save_in_background(tmp_path / "file")

    def act() -> None:
        while not future.done():
            actor.add(5)
            gate.let_one_through()

    Work(act).join()
    assert_file_holds(done(future), buffer, held)


@pytest.fixture
def switch_often() -> Iterator[None]:
    """Threads change places after microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("form", FORMS)
def test_a_save_amid_the_adds_of_several_threads_is_of_a_moment_between_two_of_them(
    form: str, switch_often: None, few_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPREPLAY_HOST", "numpy")  # where every add comes by what is patched here
    buffer = StoreReplay(**FORMS[form], capacity=240, seed=0)
    few_rows(buffer, 9)
    spares(monkeypatch, 3)
    order: list[int] = []  # numbers in the order in which the lock let them in
    here = threading.local()
    for name in ("store", "store_row"):
        real = getattr(buffer._ops, name)

        def store(*args: Any, real: Callable[..., None] = real) -> None:
            real(*args)
            order.extend(here.numbers)

        monkeypatch.setattr(buffer._ops, name, store)
    stop = threading.Event()

    def act(first: int) -> None:
        while not stop.is_set():
            here.numbers = range(first, first + 31)
            buffer.add_batch(**given_rows(buffer, here.numbers))
            here.numbers = [first + 31]
            rows = given_rows(buffer, here.numbers)
            buffer.add(**{column: values[0] for column, values in rows.items()})
            first = first + 32 if first % 100_000 < 99_000 else first - first % 100_000

    def learn() -> None:
        while not stop.is_set():
            if len(buffer):
                buffer.sample(8)

    workers = [
        *(Work(lambda first=first: act(first)) for first in (0, 100_000)),  # type: ignore[misc]
        Work(learn),
    ]
    try:
        for _ in range(6):
            before = buffer.stats()["total"]
            future = buffer.save_in_background(tmp_path / "file")
            after = buffer.stats()["total"]
            done(future)
            total = total_in(tmp_path / "file")
            assert before <= total <= after
            newest = {place % 240: order[place] for place in range(max(0, total - 240), total)}
            held = [newest[slot] for slot in range(len(newest))]
            assert_file_holds(tmp_path / "file", buffer, held)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert len(order) == buffer.stats()["total"]


# Spares


def test_adds_wait_where_the_spares_are_used_up_and_go_on_when_one_is_read(
    gate: Gate, few_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = StoreReplay(**FORMS["packed"], capacity=100, seed=0)
    actor = Actor(buffer, 100)
    few_rows(buffer, 10)
    spares(monkeypatch, 3)
    waits = Waits(buffer, monkeypatch)
    held = actor.held()
    future = buffer.save_in_background(tmp_path / "file")
    gate.wait()  # rows 0 to 9 are read
    for _ in range(4):
        actor.add(10)
    assert waits.count == 0  # one chunk was read, three are put aside
    work = Work(lambda: actor.add(10))
    waits.until_one_begins()
    assert not work.is_done
    for _ in range(20):  # the lock is free: draws and looks go on
        assert len(buffer.sample(32)) == 32
    assert buffer.stats()["total"] == 140
    gate.let_one_through()
    gate.wait()  # a chunk that was put aside is read before all others, so its memory is free
    work.join()
    assert buffer.stats()["total"] == 150
    assert waits.count == 1
    gate.open()
    assert_file_holds(done(future), buffer, held)


def test_several_adds_that_wait_go_on_one_after_the_other(
    gate: Gate, few_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = StoreReplay(**FORMS["packed"], capacity=100, seed=0)
    held = Actor(buffer, 100).held()
    few_rows(buffer, 10)
    spares(monkeypatch, 1)
    waits = Waits(buffer, monkeypatch)
    future = buffer.save_in_background(tmp_path / "file")
    gate.wait()
    rows = given_rows(buffer, range(25))
    works = [Work(lambda: buffer.add_batch(**rows)) for _ in range(4)]
    for _ in works:
        waits.until_one_begins()
    gate.let_one_through()
    gate.wait()  # the one spare is free again, for one of the adds
    for _ in works[1:]:
        waits.until_one_begins()
    assert buffer.stats()["total"] == 125
    gate.open()
    for work in works:
        work.join()
    assert buffer.stats()["total"] == 200
    assert_file_holds(done(future), buffer, held)


def test_a_batch_that_needs_more_chunks_than_there_are_spares_gets_them_one_after_the_other(
    gate: Gate, few_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = StoreReplay(**FORMS["packed"], capacity=100, seed=0)
    actor = Actor(buffer, 100)
    held = actor.held()
    few_rows(buffer, 10)
    spares(monkeypatch, 2)
    waits = Waits(buffer, monkeypatch)
    future = buffer.save_in_background(tmp_path / "file")
    gate.wait()
    work = Work(lambda: actor.add(1000))
    waits.until_one_begins()
    for _ in range(6):  # of nine chunks, until two are left, for which there are spares
        gate.let_one_through()
        gate.wait()
        assert buffer.stats()["total"] == 100
    gate.let_one_through()
    gate.wait()
    work.join()
    gate.open()
    assert_file_holds(done(future), buffer, held)
    assert actor.held() == held_at(100, 0, 1100)


def test_a_full_ring_takes_adds_before_the_leaves_are_written(
    few_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = StoreReplay(3, 2, 100, True, seed=0)
    actor = Actor(buffer, 130)
    few_rows(buffer, 10)
    held = actor.held()
    started, go_on = threading.Event(), threading.Event()

    class Stuck(io.FileIO):
        """A file that takes nothing yet."""

        def write(self, data: Any) -> int:
            started.set()
            assert go_on.wait(PATIENCE)
            return super().write(data)

    monkeypatch.setattr(atomic_file, "open", Stuck, raising=False)
    waits = Waits(buffer, monkeypatch)
    future = buffer.save_in_background(tmp_path / "file")
    work = Work(lambda: actor.add(10))
    try:
        assert started.wait(PATIENCE)
        work.join()
    finally:
        go_on.set()
    assert_file_holds(done(future), buffer, held)
    assert waits.count <= 1  # for the spares to be made


# Errors, and saves after one another


def test_an_error_of_the_disk_lets_waiting_adds_go_on_and_leaves_the_old_file(
    gate: Gate, disk: Disk, few_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = StoreReplay(**FORMS["packed"], capacity=400, seed=0)
    actor = Actor(buffer, 400)
    few_rows(buffer, 10)
    spares(monkeypatch, 2)
    path = tmp_path / "file"
    buffer.save(path)
    old = path.read_bytes()
    waits = Waits(buffer, monkeypatch)
    future = buffer.save_in_background(path)
    gate.wait()
    work = Work(lambda: actor.add(399))  # more than the spares hold
    waits.until_one_begins()
    disk.is_full = True
    gate.let_one_through()
    error = future.exception(PATIENCE)
    assert isinstance(error, OSError) and error.errno == errno.ENOSPC
    work.join()
    assert waits.count == 1
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
    disk.is_full = False
    actor.add(77)  # nothing of the save that failed holds adds up
    held = actor.held()
    gate.open()
    assert_file_holds(done(buffer.save_in_background(path)), buffer, held)
    assert buffer._snapshots == []


def test_a_save_that_failed_in_the_foreground_protects_nothing_any_more(
    disk: Disk, few_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = StoreReplay(**FORMS["packed"], capacity=400, seed=0)
    actor = Actor(buffer, 400)
    few_rows(buffer, 10)
    waits = Waits(buffer, monkeypatch)
    disk.is_full = True
    with pytest.raises(OSError, match="No space left"):
        buffer.save(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        buffer.save(tmp_path / "no such folder" / "file")
    actor.add(1000)
    assert waits.count == 0 and buffer._snapshots == []
    assert list(tmp_path.iterdir()) == []


def test_memory_of_a_save_is_given_up_when_it_ends(tmp_path: Path) -> None:
    buffer = StoreReplay(**FORMS["packed"], capacity=40, seed=0)
    Actor(buffer, 40)
    snapshots: list[Any] = []
    begin = buffer._ops.snapshot

    def watched(*args: Any, **options: Any) -> Any:
        snapshot = begin(*args, **options)
        snapshots.append(weakref.ref(snapshot))
        return snapshot

    buffer._ops.snapshot = watched  # type: ignore[method-assign]
    buffer.save(tmp_path / "file")
    buffer.state()
    done(buffer.save_in_background(tmp_path / "file"))
    for thread in threading.enumerate():
        if thread.name == "cpreplay-save":
            thread.join(PATIENCE)
    gc.collect()
    assert [snapshot() for snapshot in snapshots] == [None, None, None]


def test_a_second_save_is_of_the_moment_at_which_its_turn_comes_and_a_third_takes_its_place(
    backend: Backend, gate: Gate, few_rows: Any, tmp_path: Path
) -> None:
    buffer = backend.buffer(**FORMS["packed"], capacity=100, seed=0)
    actor = Actor(buffer, 130)
    few_rows(buffer, 10)
    held = actor.held()
    first = buffer.save_in_background(tmp_path / "first")
    gate.wait()
    actor.add(15)
    second = buffer.save_in_background(tmp_path / "second")
    actor.add(15)
    third = buffer.save_in_background(tmp_path / "third")
    assert second.cancelled() and not third.done()
    actor.add(7)
    gate.open()
    assert_file_holds(done(first), buffer, held)
    assert_file_holds(done(third), buffer, actor.held())
    assert total_in(tmp_path / "third") == 167
    assert not (tmp_path / "second").exists()


def test_several_saves_at_once_are_each_of_their_own_moment(
    gate: Gate, few_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = StoreReplay(**FORMS["packed"], capacity=100, seed=0)
    actor = Actor(buffer, 123)
    few_rows(buffer, 10)
    moments = {"first": actor.held()}
    first = Work(lambda: buffer.save(tmp_path / "first"))
    gate.wait()
    actor.add(18)
    moments["second"] = actor.held()
    second = Work(lambda: buffer.save(tmp_path / "second"))
    gate.wait()
    for _ in range(3):
        actor.add(11)
    gate.open()
    for _ in range(20):
        actor.add(11)
    first.join()
    second.join()
    for name, held in moments.items():
        assert_file_holds(tmp_path / name, buffer, held)
    assert buffer._snapshots == []


def test_a_state_that_is_taken_during_a_save_is_of_its_own_moment(
    backend: Backend, gate: Gate, few_rows: Any, tmp_path: Path
) -> None:
    buffer = backend.buffer(**FORMS["extra"], capacity=100, seed=0)
    actor = Actor(buffer, 123)
    few_rows(buffer, 10)
    held = actor.held()
    future = buffer.save_in_background(tmp_path / "file")
    gate.wait()
    actor.add(5)
    state = buffer.state()
    assert state["state"]["control"]["total"] == 128
    for name, values in stored_rows(buffer, actor.held()).items():
        np.testing.assert_array_equal(state["rows"][name], values)
    gate.open()
    assert_file_holds(done(future), buffer, held)


def test_a_buffer_takes_up_nothing_while_it_is_being_saved(
    backend: Backend, gate: Gate, few_rows: Any, tmp_path: Path
) -> None:
    buffer = backend.buffer(**FORMS["packed"], capacity=30, seed=0)
    actor = Actor(buffer, 44)
    few_rows(buffer, 10)
    buffer.save(tmp_path / "old")
    state = buffer.state()
    actor.add(4)
    held, stats = actor.held(), buffer.stats()
    future = buffer.save_in_background(tmp_path / "file")
    gate.wait()
    for take_up in (lambda: buffer.resume(tmp_path / "old"), lambda: buffer.restore(state)):
        with pytest.raises(OrderError, match="wait for its future"):
            take_up()
    assert buffer.stats() == stats
    gate.open()
    assert_file_holds(done(future), buffer, held)
    buffer.resume(tmp_path / "old")
    assert buffer.stats()["total"] == 44
    with pytest.raises(CheckpointError):
        buffer.restore({})


# Devices


def test_a_device_copies_first_so_neither_adds_nor_graphs_change_the_file(
    device: Backend, gate: Gate, few_rows: Any, tmp_path: Path
) -> None:
    buffer = device.buffer(**FORMS["packed"], capacity=50, seed=0)
    actor = Actor(buffer, 71)
    rows = {
        name: device.array(values) for name, values in given_rows(buffer, range(900, 940)).items()
    }
    graph, stream = capture(device, lambda: buffer.add_batch(**rows))
    few_rows(buffer, 10)
    held = actor.held()
    future = buffer.save_in_background(tmp_path / "file")
    gate.wait()
    actor.add(33)
    for _ in range(3):
        replay(graph, stream)
    device.cupy.cuda.Device().synchronize()
    assert buffer.stats()["total"] == 71 + 33 + 3 * 40
    gate.open()
    assert_file_holds(done(future), buffer, held)
    assert total_in(tmp_path / "file") == 71


def _let_be_free(cupy: Any, monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    """Let the card say that so many bytes are free, and CuPy's pool keep none."""
    monkeypatch.setattr(cupy.cuda.Device, "mem_info", property(lambda card: (nbytes, 10**9)))
    monkeypatch.setattr(type(cupy.get_default_memory_pool()), "free_bytes", lambda pool: 0)


def test_a_copy_that_does_not_fit_on_the_card_is_refused_and_save_needs_none(
    emulated_device: Backend, few_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy = emulated_device.cupy
    buffer = emulated_device.buffer(**FORMS["packed"], capacity=50, seed=0)
    actor = Actor(buffer, 71)
    copied = 50 * 48  # 3 + 2 + 1 + 3 float32 and a flag, up to a multiple of 16
    _let_be_free(cupy, monkeypatch, copied - 1)
    with pytest.raises(
        MemoryLimitError, match=r"copies the rows held on the card first: 2.*use save"
    ):
        buffer.save_in_background(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
    buffer.save(tmp_path / "file")
    assert_file_holds(tmp_path / "file", buffer, actor.held())
    actor.add(3)
    _let_be_free(cupy, monkeypatch, copied)
    assert_file_holds(done(buffer.save_in_background(tmp_path / "file")), buffer, actor.held())


def test_a_copy_that_does_not_fit_when_its_turn_comes_is_told_by_the_future(
    emulated_device: Backend, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy = emulated_device.cupy
    buffer = emulated_device.buffer(**FORMS["packed"], capacity=50, seed=0)
    actor = Actor(buffer, 71)
    held = actor.held()
    first = buffer.save_in_background(tmp_path / "first")
    gate.wait()
    second = buffer.save_in_background(tmp_path / "second")
    _let_be_free(cupy, monkeypatch, 0)
    gate.open()
    assert_file_holds(done(first), buffer, held)
    assert isinstance(second.exception(PATIENCE), MemoryLimitError)
    assert not (tmp_path / "second").exists()


def test_work_that_is_still_queued_on_the_callers_stream_is_in_the_file(
    device: Backend, gate: Gate, few_rows: Any, tmp_path: Path
) -> None:
    buffer = device.buffer(**FORMS["packed"], capacity=50, seed=0)
    few_rows(buffer, 10)
    device.cupy.cuda.Device().synchronize()  # what the construction has queued
    stream = device.cupy.cuda.Stream(non_blocking=True)
    with stream:
        actor = Actor(buffer, 71)
        held = actor.held()
        future = buffer.save_in_background(tmp_path / "file")
        gate.wait()
        actor.add(20)
    gate.open()
    assert_file_holds(done(future), buffer, held)
    stream.synchronize()


def test_work_that_is_queued_on_a_stream_while_a_save_waits_is_in_its_file(
    device: Backend, gate: Gate, few_rows: Any, tmp_path: Path
) -> None:
    buffer = device.buffer(**FORMS["packed"], capacity=50, seed=0)
    few_rows(buffer, 10)
    device.cupy.cuda.Device().synchronize()  # what the construction has queued
    stream = device.cupy.cuda.Stream(non_blocking=True)
    with stream:
        actor = Actor(buffer, 71)
        first = buffer.save_in_background(tmp_path / "first")
        gate.wait()
        second = buffer.save_in_background(tmp_path / "second")
        for _ in range(20):  # which may not be done when the turn of the second save comes
            actor.add(2)
    gate.open()
    done(first)
    assert_file_holds(done(second), buffer, actor.held())
    stream.synchronize()


def test_a_snapshot_that_was_closed_protects_nothing() -> None:
    buffer = StoreReplay(1, 1, 20, seed=0)
    Actor(buffer, 20)
    _, snapshot = buffer._begin_save(None, apart=True)
    assert not snapshot.set_aside([(0, 1)])  # nothing is read, and there is no spare yet
    buffer._end_save(snapshot)
    assert snapshot.set_aside([(0, 20)])


def test_an_add_that_waits_goes_on_as_soon_as_there_are_spares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffer = StoreReplay(1, 1, 20, seed=0)
    actor = Actor(buffer, 20)
    waits = Waits(buffer, monkeypatch)
    _, snapshot = buffer._begin_save(None, apart=True)
    adding = Work(lambda: actor.add(1))
    try:
        waits.until_one_begins()
        snapshot.chunks()  # no chunk is read
        adding.join()
    finally:
        buffer._end_save(snapshot)


def test_rows_are_protected_before_another_thread_can_add(tmp_path: Path) -> None:
    buffer = StoreReplay(1, 1, 20, seed=0)
    Actor(buffer, 20)
    was_locked: list[bool] = []

    class Watched(list[Any]):
        def append(self, snapshot: Any) -> None:
            was_locked.append(buffer._lock.locked())
            super().append(snapshot)

    buffer._snapshots = Watched()
    buffer.save(tmp_path / "file")
    assert was_locked == [True]


def test_whatever_ends_a_save_protects_nothing_any_more(tmp_path: Path) -> None:
    buffer = StoreReplay(1, 1, 20, seed=0)
    Actor(buffer, 20)
    with pytest.raises(ConfigurationError, match="regular file"):
        buffer.save(tmp_path)
    assert buffer._snapshots == []


def test_when_one_save_ends_another_still_protects_its_rows() -> None:
    buffer = StoreReplay(1, 1, 20, seed=0)
    Actor(buffer, 20)
    _, first = buffer._begin_save(None, apart=True)
    _, second = buffer._begin_save(None, apart=True)
    buffer._end_save(first)
    assert buffer._snapshots == [second]
    buffer._end_save(second)


def test_the_header_says_how_many_rows_are_held(tmp_path: Path) -> None:
    buffer = StoreReplay(1, 1, 20, seed=0)
    Actor(buffer, 7)
    buffer.save(tmp_path / "file")
    with RecordReader(tmp_path / "file") as reader:
        assert (reader.header["rows"], reader.header["capacity"]) == (7, 20)
