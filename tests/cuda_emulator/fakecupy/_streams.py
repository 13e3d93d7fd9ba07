"""`cupy.cuda.Stream`, `Event` and `Graph` on the simulated queues."""

import weakref
from collections.abc import Callable
from typing import Any

from ._errors import runtime_error
from ._simulation import Capture, Node, Queue, sim


def _release(queue: Queue) -> None:
    queue.users -= 1


class Stream:
    """A CUDA stream: an ordered queue of work."""

    def __init__(
        self,
        null: bool = False,
        non_blocking: bool = False,
        ptds: bool = False,
        priority: int | None = None,
    ) -> None:
        if ptds or priority is not None:
            raise NotImplementedError("fake: no per-thread default stream, no priorities")
        if null:
            self._queue = sim.null
            self.device_id = -1  # of every device
        else:
            self._queue = sim.new_queue(non_blocking=bool(non_blocking))
            self.device_id = sim.device_stack[-1]
        self._foreign = None
        self._hold()

    def _hold(self) -> None:
        self._queue.users += 1
        weakref.finalize(self, _release, self._queue).atexit = False

    @classmethod
    def from_external(cls, obj: Any) -> "Stream":
        """A stream object for another library's stream, which it keeps alive."""
        if not hasattr(obj, "__cuda_stream__"):
            raise TypeError(f"{type(obj).__name__} does not implement __cuda_stream__")
        described = obj.__cuda_stream__()
        if not isinstance(described, tuple) or len(described) != 2:
            raise TypeError("__cuda_stream__ must return a tuple (version, handle)")
        self = cls.__new__(cls)
        self._queue = sim.queue_at(int(described[1]))
        self.device_id = -1  # not known
        self._foreign = obj
        self._hold()
        return self

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.ptr)

    ptr = property(lambda self: self._queue.ptr)
    is_non_blocking = property(lambda self: self._queue.non_blocking)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.ptr == self.ptr

    def __hash__(self) -> int:
        return hash(self.ptr)

    def __repr__(self) -> str:
        return f"<Stream {self.ptr}>"

    # -- which stream is current

    def _check_device(self) -> None:
        if self.device_id not in (-1, sim.device_stack[-1]):
            raise RuntimeError(f"The stream was not created on device {sim.device_stack[-1]}")

    def use(self) -> "Stream":
        self._check_device()
        sim.stream_stack[-1] = self
        return self

    def __enter__(self) -> "Stream":
        self._check_device()
        sim.stream_stack.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        sim.stream_stack.pop()

    # -- waiting

    def synchronize(self) -> None:
        self._queue.wait()

    @property
    def done(self) -> bool:
        self._queue.check_not_implicit()
        if self._queue.capture:
            self._queue.capture.valid = False  # CUDA says so only when the capture ends
            return False
        return not self._queue.operations

    def record(self, event: "Event | None" = None) -> "Event":
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: "Event") -> None:
        wait_for(self._queue, event)

    def launch_host_func(self, callback: Callable[[Any], object], arg: Any) -> None:
        self._queue.put(lambda: callback(arg), "host function")

    # -- capture

    def begin_capture(self, mode: int | None = None) -> None:
        if mode is not None:
            raise NotImplementedError("fake: the default mode of captures only")
        if self._queue.is_null:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        if self._queue.capture:
            raise runtime_error("IllegalState")
        self._queue.capture = Capture(self._queue)

    def is_capturing(self) -> bool:
        self._queue.check_not_implicit()
        return self._queue.capture is not None

    def end_capture(self) -> "Graph":
        if not self._queue.capture:
            raise runtime_error("IllegalState")
        return Graph(self._queue.capture.finish(self._queue))


class Graph:
    """Captured work: argument values and raw pointers of capture time.

    As a real graph it keeps no array alive.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes

    def launch(self, stream: Stream | None = None) -> None:
        queue = (stream or get_current_stream())._queue
        sim.note("graph_launches")
        for node in sim.legal_order(self._nodes):
            queue.put(node.run, f"graph: {node.name}")

    def upload(self, stream: Stream | None = None) -> None:
        (stream or get_current_stream())._queue.put(lambda: None, "graph upload")


class Event:
    """A mark in a stream's work, which another stream or the host can wait for."""

    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ) -> None:
        # the other two say how the host waits and whether times are kept: nothing that shows here
        if interprocess:
            raise NotImplementedError("fake: no events between processes")
        self._records = self._reached = 0
        self._queue = None
        self._capture = None  # the capture in which it was last recorded
        self._nodes = frozenset()

    def record(self, stream: Stream | None = None) -> None:
        self._queue = (stream or get_current_stream())._queue
        self._queue.check_not_implicit()
        self._capture = self._queue.capture
        if self._capture:
            self._nodes = self._capture.tails[self._queue]
            return
        self._records += 1
        number = self._records

        def reach() -> None:
            self._reached = max(self._reached, number)

        self._queue.put(reach, "event")

    def _check_not_captured(self) -> None:
        if self._capture:
            self._capture.valid = False
            raise runtime_error("CapturedEvent")

    def synchronize(self) -> None:
        self._check_not_captured()
        sim.note("synchronisations")
        sim.drain(until=lambda: self._reached >= self._records)

    @property
    def done(self) -> bool:
        self._check_not_captured()
        return self._reached >= self._records


def wait_for(queue: Queue, event: Event) -> None:
    """Let a queue's later work wait for an event, or join the capture that recorded it."""
    queue.check_not_implicit()
    theirs, ours = event._capture, queue.capture
    if theirs is None:
        if not event._records:
            return  # CUDA: waiting for an event that nobody recorded does nothing
        if ours:
            ours.valid = False
            raise runtime_error("StreamCaptureIsolation")
        awaited = event._records
        queue.put(lambda: None, "wait_event", lambda: event._reached >= awaited)
        return
    if not theirs.active:
        raise runtime_error("CapturedEvent")
    if ours is None:
        if queue.is_null:
            theirs.valid = False
            raise runtime_error("StreamCaptureImplicit")
    elif ours is not theirs:
        ours.valid = theirs.valid = False
        raise runtime_error("StreamCaptureMerge")
    theirs.join(queue, event._nodes)


Stream.null = Stream(null=True)


def get_current_stream(device_id: int = -1) -> Stream:
    """The stream that work goes to when none is named."""
    if device_id not in (-1, sim.device_stack[-1]):
        raise NotImplementedError("fake: the current device's stream only")
    return sim.stream_stack[-1] or Stream.null
