"""The device that does not exist: queues of work, captures, and a record of what was asked of it.

Work is *deferred*: it waits in its stream's queue until somebody waits for it, and then the streams
advance in a random legal order.  A missing `wait_event` therefore shows as stale or poisoned data.
"""

import collections
import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .. import emu
from ._errors import runtime_error


@dataclasses.dataclass
class Record:
    """What was asked of the device while `Simulation.recording` was open.

    `ran` has a `(kernel, global memory accesses)` pair for each kernel run, also by graphs; the
    accesses are 0 in mode "fast".  A captured launch is in `launch_names`, as it was asked for.
    """

    launch_names: list = dataclasses.field(default_factory=list)
    ran: list = dataclasses.field(default_factory=list)
    graph_launches: int = 0
    d2h_copies: int = 0
    h2d_copies: int = 0
    synchronisations: int = 0
    allocations: int = 0
    allocated_bytes: int = 0


@dataclasses.dataclass
class Operation:
    """Queued work; `may_run` says whether the event it waits for has been reached."""

    run: object
    name: str
    number: int
    may_run: object = None


@dataclasses.dataclass
class Node:
    """One operation of a graph, and the numbers of the operations that it comes after."""

    run: object
    name: str
    after: frozenset


class Capture:
    """A capture in progress: the graph so far, and where each stream that takes part stands."""

    def __init__(self, origin: "Queue") -> None:
        self.origin = origin
        self.nodes = []
        self.tails = {origin: frozenset()}  # queue -> the nodes its next operation comes after
        self.valid = True
        self.active = True

    def add(self, queue: "Queue", run: Callable[[], object], name: str) -> None:
        self.nodes.append(Node(run, name, self.tails[queue]))
        self.tails[queue] = frozenset([len(self.nodes) - 1])

    def join(self, queue: "Queue", nodes: frozenset[int]) -> None:
        self.tails[queue] = self.tails.get(queue, frozenset()) | nodes
        queue.capture = self

    def _ancestors(self, nodes: Iterable[int]) -> set[int]:
        seen, todo = set(), list(nodes)
        while todo:
            n = todo.pop()
            if n not in seen:
                seen.add(n)
                todo.extend(self.nodes[n].after)
        return seen

    def finish(self, queue: "Queue") -> list[Node]:
        """The nodes of the finished graph, or the error that CUDA would give."""
        if queue is not self.origin:
            self.valid = False
            raise runtime_error("StreamCaptureUnmatched")
        self.active = False
        for joined in self.tails:
            joined.capture = None
        if not self.valid:
            raise runtime_error("StreamCaptureInvalidated")
        if len(self._ancestors(self.tails[queue])) < len(self.nodes):
            raise runtime_error("StreamCaptureUnjoined")
        return self.nodes


class Queue:
    """The work of one CUDA stream; several `Stream` objects may stand for it."""

    def __init__(self, ptr: int, *, is_null: bool = False, non_blocking: bool = False) -> None:
        self.ptr = ptr
        self.is_null = is_null
        self.non_blocking = non_blocking
        self.operations = collections.deque()
        self.capture = None
        self.users = 0

    def check_not_implicit(self) -> None:
        """The null stream may not be used at all while a blocking stream captures."""
        if self.is_null and any(q.capture and not q.non_blocking for q in sim.queues):
            for q in sim.queues:
                if q.capture and not q.non_blocking:
                    q.capture.valid = False
            raise runtime_error("StreamCaptureImplicit")

    def put(
        self, run: Callable[[], object], name: str, may_run: Callable[[], bool] | None = None
    ) -> None:
        """Queue some work, or note it in the graph that is being captured."""
        self.check_not_implicit()
        if self.capture:
            if not self.capture.valid:
                raise runtime_error("StreamCaptureInvalidated")
            self.capture.add(self, run, name)
        else:
            self.put_outside_capture(run, name, may_run)

    def put_outside_capture(
        self, run: Callable[[], object], name: str, may_run: Callable[[], bool] | None = None
    ) -> None:
        """Queue work that no graph holds: allocating and freeing are host actions."""
        if self not in sim.queues:  # a stream that is gone, whose memory is freed only now
            sim.queues.append(self)
        self.operations.append(Operation(run, name, next(sim.numbers), may_run))
        if not sim.deferred:
            sim.drain(self)

    def is_ready(self) -> bool:
        if not self.operations:
            return False
        head = self.operations[0]
        if head.may_run is not None and not head.may_run():
            return False
        if self.non_blocking:
            return True
        # the legacy null stream and the blocking streams wait for each other's earlier work
        others = [q for q in sim.queues if not q.non_blocking and q.is_null != self.is_null]
        return all(not q.operations or q.operations[0].number > head.number for q in others)

    def refuse_to_wait(self) -> None:
        """Waiting for a capturing stream is an error, and spoils the capture."""
        self.check_not_implicit()
        if self.capture:
            self.capture.valid = False
            raise runtime_error("StreamCaptureUnsupported")

    def wait(self) -> None:
        self.refuse_to_wait()
        sim.note("synchronisations")
        sim.drain(self)


class Simulation:
    """All state of the fake device.  `reset` makes it new; arrays made before are dead then."""

    def __init__(self) -> None:
        self.records = []
        self.epoch = 0
        self.thread = threading.local()
        self.queues = []
        self.numbers = itertools.count()
        self.stream_numbers = itertools.count(1)
        self.null = Queue(0, is_null=True)
        self.null.users = 1  # for ever
        self.reset()

    def reset(self, seed: int = 1, deferred: bool = True) -> None:
        """Forget all work, memory and captures.

        Parameters
        ----------
        seed : int
            Of the order in which streams advance.  (The order of threads is `emu.config.seed`.)
        deferred : bool
            False runs each operation at once.
        """
        self.epoch += 1
        self.rng = np.random.default_rng(seed)
        self.deferred = deferred
        self.device_count = 1
        self.device_bytes = 1 << 40
        self.driver_version = 12090
        self.live_bytes = 0
        self.pool_bytes = 0
        self.pool = collections.defaultdict(list)  # (stream, bytes) -> free blocks, newest last
        self.blocks = {}  # base address -> weak reference to the block
        for queue in self.queues:
            queue.operations.clear()
            queue.capture = None
        self.queues = [q for q in self.queues if q.users and q is not self.null] + [self.null]
        self.thread = threading.local()
        emu.core().emu_forget_buffers()

    # -- the record

    @contextlib.contextmanager
    def recording(self) -> Iterator[Record]:
        """A `Record` of what is asked of the device inside the `with` block."""
        record = Record()
        self.records.append(record)
        try:
            yield record
        finally:
            self.records = [r for r in self.records if r is not record]

    def note(self, field: str, amount: Any = 1) -> None:
        """Add a number to, or append an item to, a field of every open record."""
        for record in self.records:
            value = getattr(record, field)
            if isinstance(value, list):
                value.append(amount)
            else:
                setattr(record, field, value + amount)

    # -- what is current, in this thread

    @property
    def stream_stack(self) -> list[Any]:
        if not hasattr(self.thread, "streams"):
            self.thread.streams = [None]  # None is the null stream
        return self.thread.streams

    @property
    def device_stack(self) -> list[int]:
        if not hasattr(self.thread, "devices"):
            self.thread.devices = [0]
        return self.thread.devices

    # -- queues

    def new_queue(self, **options: bool) -> Queue:
        self.queues = [q for q in self.queues if q.users or q.operations]
        queue = Queue(0x5000 + 0x100 * next(self.stream_numbers), **options)
        self.queues.append(queue)
        return queue

    def queue_at(self, ptr: int) -> Queue:
        """The queue of a raw stream handle: 0 and 1 are the legacy null stream."""
        if ptr in (0, 1):
            return self.null
        for queue in self.queues:
            if queue.ptr == ptr:
                return queue
        raise ValueError(f"fake: {ptr:#x} is no stream of the fake device")

    def drain(self, queue: Queue | None = None, until: Callable[[], bool] | None = None) -> None:
        """Run queued work until `queue` (or every one) is empty, or until `until()` is true.

        Which of the ready streams advances is random, so the others may advance too, or not.
        """

        def finished() -> bool:
            if until is not None:
                return until()
            return not any(q.operations for q in ([queue] if queue else self.queues))

        while not finished():
            ready = sorted(
                (q for q in self.queues if q.is_ready()), key=lambda q: q.operations[0].number
            )
            if not ready:
                raise emu.EmuError("streams wait for each other")
            chosen = ready[int(self.rng.integers(len(ready)))]
            chosen.operations.popleft().run()

    def wait_for_everything(self) -> None:
        """What cudaDeviceSynchronize does."""
        for queue in self.queues:
            queue.refuse_to_wait()
        self.note("synchronisations")
        self.drain()

    def legal_order(self, nodes: list[Node]) -> Iterator[Node]:
        """The nodes of a graph in a random order in which none comes before what it is after."""
        waiting = {i: set(node.after) for i, node in enumerate(nodes)}
        while waiting:
            ready = [i for i, after in waiting.items() if not after]
            chosen = ready[int(self.rng.integers(len(ready)))]
            del waiting[chosen]
            for after in waiting.values():
                after.discard(chosen)
            yield nodes[chosen]


sim = Simulation()
