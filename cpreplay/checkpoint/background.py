"""Saves in the background: one at a time, and of those that wait only the newest."""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundSaves:
    """Writes in a thread of its own, which ends when there is nothing to write.

    A save has two parts: what takes the state, and what then writes it. Where no save is running
    the state is taken at once, in the caller's thread. Otherwise the save waits, and its state is
    taken when its turn comes; where one waits already, that one is cancelled, since what it would
    have written is older. The thread is none of the interpreter's daemons: a program that ends
    waits for the file to be whole.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._running = False
        self._next: tuple[Callable[[], Callable[[], Any]], Future[Any]] | None = None

    def submit(self, begin: Callable[[], Callable[[], T]]) -> Future[T]:
        """Run ``begin``, and what it returns in the background.

        Parameters
        ----------
        begin : callable
            Takes the state, and gives the callable that writes it. What it raises at once is
            raised here; later, it is in the future.

        Returns
        -------
        Future
            Of what the writing returns or raises. Cancelled where a newer save took its place.
        """
        future: Future[T] = Future()
        with self._lock:
            idle = not self._running
            if idle:
                self._running = True
                superseded = None
            else:
                superseded, self._next = self._next, (begin, future)
        if superseded is not None:
            superseded[1].cancel()
            superseded[1].set_running_or_notify_cancel()  # tells those who wait for it
        if idle:
            try:
                write = begin()
            except BaseException:
                _in_a_thread(self._run_waiting)  # one may have come to wait meanwhile
                raise
            future.set_running_or_notify_cancel()
            _in_a_thread(functools.partial(self._run, write, future))
        return future

    def drain(self) -> None:
        """Wait until no save runs or waits. Not from within one."""
        with self._lock:
            while self._running:
                self._idle.wait()

    def _run(self, write: Callable[[], Any], future: "Future[Any]") -> None:
        _settle(future, write)
        self._run_waiting()

    def _run_waiting(self) -> None:
        while True:
            with self._lock:
                if self._next is None:
                    self._running = False
                    self._idle.notify_all()
                    return
                (begin, future), self._next = self._next, None
            if future.set_running_or_notify_cancel():
                _settle(future, lambda begin=begin: begin()())  # type: ignore[misc]


def _in_a_thread(work: Callable[[], None]) -> None:
    """Run work beside the caller; in the caller where no thread can be had, as at its exit."""
    try:
        threading.Thread(target=work, name="cpreplay-save").start()
    except RuntimeError:
        work()


def _settle(future: "Future[Any]", call: Callable[[], Any]) -> None:
    try:
        result = call()
    except BaseException as error:  # whatever it is, it is for whoever asks the future
        future.set_exception(error)
    else:
        future.set_result(result)
