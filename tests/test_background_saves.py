"""One save runs at a time, of those that wait the newest counts, and whatever fails is told."""

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from typing import Any

import pytest

from cpreplay.checkpoint.background import BackgroundSaves

PATIENCE = 30.0  # seconds after which what should come has not come


class Held:
    """A save that says in which threads it ran, and writes until it is let go."""

    def __init__(self, result: Any = None) -> None:
        self.result = result
        self.begun_in: threading.Thread | None = None
        self.written_in: threading.Thread | None = None
        self.writing = threading.Event()
        self._go = threading.Event()

    def begin(self) -> Callable[[], Any]:
        assert self.begun_in is None, "begun twice"
        self.begun_in = threading.current_thread()
        return self.write

    def write(self) -> Any:
        assert self.written_in is None, "written twice"
        self.written_in = threading.current_thread()
        self.writing.set()
        assert self._go.wait(PATIENCE), "nobody let this save go"
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def let_go(self) -> None:
        self._go.set()


def at_once(result: Any = None) -> Callable[[], Callable[[], Any]]:
    return lambda: lambda: result


@pytest.fixture
def saves() -> Iterator[BackgroundSaves]:
    """Saves whose thread has ended by the end of the test."""
    saves = BackgroundSaves()
    yield saves
    saves.submit(at_once()).result(PATIENCE)
    join_save_threads()


def save_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "cpreplay-save"]


def join_save_threads() -> None:
    for thread in save_threads():
        thread.join(PATIENCE)
    assert save_threads() == []


def running(saves: BackgroundSaves, result: Any = None) -> tuple[Held, "Future[Any]"]:
    """A save that is being written until the test lets it go."""
    save = Held(result)
    future = saves.submit(save.begin)
    assert save.writing.wait(PATIENCE)
    return save, future


def test_the_state_is_taken_in_the_callers_thread_and_written_in_another(
    saves: BackgroundSaves,
) -> None:
    save, future = running(saves, "written")
    assert save.begun_in is threading.current_thread()
    assert save.written_in is not threading.current_thread()
    assert save.written_in is not None and not save.written_in.daemon
    assert future.running() and not future.cancel()
    save.let_go()
    assert future.result(PATIENCE) == "written"


def test_a_save_that_comes_meanwhile_is_begun_when_its_turn_comes(saves: BackgroundSaves) -> None:
    first, _ = running(saves)
    second = Held("second")
    future = saves.submit(second.begin)
    assert second.begun_in is None and not future.running()
    second.let_go()
    first.let_go()
    assert future.result(PATIENCE) == "second"
    assert second.begun_in is second.written_in is first.written_in


def test_of_the_saves_that_wait_only_the_newest_is_begun(saves: BackgroundSaves) -> None:
    first, _ = running(saves)
    waiting = [Held(number) for number in range(4)]
    futures = [saves.submit(save.begin) for save in waiting]
    assert [future.cancelled() for future in futures] == [True, True, True, False]
    for save in waiting:
        save.let_go()
    first.let_go()
    assert futures[3].result(PATIENCE) == 3
    assert [save.begun_in is None for save in waiting] == [True, True, True, False]
    with pytest.raises(CancelledError):
        futures[0].result(0)


def test_who_waits_for_a_save_that_was_superseded_is_told(saves: BackgroundSaves) -> None:
    first, running_future = running(saves)
    superseded = saves.submit(at_once())
    newest = saves.submit(at_once())
    assert wait([superseded], timeout=PATIENCE).done == {superseded}
    first.let_go()
    futures = [running_future, superseded, newest]
    assert wait(futures, timeout=PATIENCE).done == set(futures)


def test_a_waiting_save_can_be_cancelled_and_the_next_one_takes_its_place(
    saves: BackgroundSaves,
) -> None:
    first, _ = running(saves)
    cancelled = Held()
    future = saves.submit(cancelled.begin)
    assert future.cancel()
    newest = saves.submit(at_once("newest"))
    first.let_go()
    assert newest.result(PATIENCE) == "newest"
    assert cancelled.begun_in is None


def test_a_cancelled_save_is_passed_over_when_its_turn_comes(saves: BackgroundSaves) -> None:
    first, _ = running(saves)
    cancelled = Held()
    future = saves.submit(cancelled.begin)
    assert future.cancel()
    first.let_go()
    assert wait([future], timeout=PATIENCE).done == {future}
    join_save_threads()
    assert cancelled.begun_in is None
    assert saves.submit(at_once("after")).result(PATIENCE) == "after"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), SystemExit(3)])
def test_whatever_the_writing_raises_is_in_the_future_and_the_next_save_runs(
    saves: BackgroundSaves, error: BaseException
) -> None:
    first, future = running(saves, error)
    waiting = saves.submit(at_once("waiting"))
    first.let_go()
    with pytest.raises(type(error)) as caught:
        future.result(PATIENCE)
    assert caught.value is error
    assert waiting.result(PATIENCE) == "waiting"
    assert saves.submit(at_once("later")).result(PATIENCE) == "later"


@pytest.mark.parametrize("error", [MemoryError("no room"), KeyboardInterrupt()])
def test_what_taking_the_state_raises_at_once_is_raised_to_the_caller(
    saves: BackgroundSaves, error: BaseException
) -> None:
    def begin() -> Callable[[], Any]:
        raise error

    with pytest.raises(type(error)) as caught:
        saves.submit(begin)
    assert caught.value is error
    assert saves.submit(at_once("after")).result(PATIENCE) == "after"


def test_what_taking_the_state_raises_later_is_in_the_future(saves: BackgroundSaves) -> None:
    first, _ = running(saves)
    error = MemoryError("no room")

    def begin() -> Callable[[], Any]:
        raise error

    future = saves.submit(begin)
    first.let_go()
    assert future.exception(PATIENCE) is error
    assert saves.submit(at_once("after")).result(PATIENCE) == "after"


def test_a_save_that_came_while_another_failed_to_begin_is_written(saves: BackgroundSaves) -> None:
    waiting: list[Future[Any]] = []

    def begin() -> Callable[[], Any]:
        waiting.append(saves.submit(at_once("waiting")))
        raise MemoryError("no room")

    with pytest.raises(MemoryError):
        saves.submit(begin)
    assert waiting[0].result(PATIENCE) == "waiting"


@contextlib.contextmanager
def no_threads() -> Iterator[None]:
    """The system gives no thread, as at its limit or while the interpreter ends."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        yield


def test_where_no_thread_can_be_started_the_caller_writes(saves: BackgroundSaves) -> None:
    save = Held("written")
    save.let_go()
    with no_threads():
        future = saves.submit(save.begin)
    assert future.result(0) == "written"
    assert save.written_in is threading.current_thread()


def test_where_no_thread_can_be_started_what_the_writing_raises_is_in_the_future(
    saves: BackgroundSaves,
) -> None:
    error = OSError("disk full")
    save = Held(error)
    save.let_go()
    with no_threads():
        future = saves.submit(save.begin)
    assert future.exception(0) is error


def test_where_no_thread_can_be_started_a_save_that_came_meanwhile_is_written_too(
    saves: BackgroundSaves,
) -> None:
    waiting: list[Future[Any]] = []

    def write() -> str:
        waiting.append(saves.submit(at_once("waiting")))
        return "written"

    with no_threads():
        future = saves.submit(lambda: write)
        assert future.result(0) == "written"
        assert waiting[0].result(0) == "waiting"


def test_where_no_thread_can_be_started_for_what_waits_the_caller_writes_it(
    saves: BackgroundSaves,
) -> None:
    waiting: list[Future[Any]] = []

    def begin() -> Callable[[], Any]:
        waiting.append(saves.submit(at_once("waiting")))
        raise MemoryError("no room")

    with no_threads(), pytest.raises(MemoryError):
        saves.submit(begin)
    assert waiting[0].result(0) == "waiting"


def test_nothing_of_a_save_is_kept_once_its_future_is_dropped(saves: BackgroundSaves) -> None:
    class State:
        """What a save has copied."""

    state = State()
    gone = weakref.ref(state)

    def begin(state: State = state) -> Callable[[], None]:
        return lambda state=state: None  # type: ignore[misc]

    saves.submit(begin).result(PATIENCE)
    del state, begin
    join_save_threads()
    gc.collect()
    assert gone() is None


def test_saves_that_many_threads_ask_for_are_written_one_at_a_time(saves: BackgroundSaves) -> None:
    busy = threading.Lock()
    overlapped: list[bool] = []
    futures: list[Future[Any]] = []

    def write() -> None:
        alone = busy.acquire(blocking=False)
        overlapped.append(not alone)
        threading.Event().wait(0.001)  # so that another would come meanwhile
        if alone:
            busy.release()

    def ask() -> None:
        futures.extend(saves.submit(lambda: write) for _ in range(100))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wait(futures, timeout=PATIENCE).not_done == set()
    written = [future for future in futures if not future.cancelled()]
    assert len(written) == len(overlapped) >= 1
    assert not any(overlapped)
    assert all(future.result(0) is None for future in written)


def test_draining_ends_when_no_save_runs_or_waits(saves: BackgroundSaves) -> None:
    saves.drain()  # there is none
    first, _ = running(saves)
    second = Held()
    saves.submit(second.begin)
    drained = threading.Event()

    def drain() -> None:
        saves.drain()
        drained.set()

    draining = threading.Thread(target=drain, daemon=True)
    draining.start()
    first.let_go()
    assert second.writing.wait(PATIENCE)
    assert not drained.is_set()
    second.let_go()
    assert drained.wait(PATIENCE)
