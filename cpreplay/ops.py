"""What a back end has to offer. `host_ops`, `native_ops` and `device_ops` meet these Protocols.

They are documented here and only here. A buffer holds one `Ops`, with its `PriorityOps` where it
has priorities, and does everything that is not a hot array operation itself. "Queued" below
means: on a device, put on the current stream, without waiting; on the host, done when the call
returns.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Condition
from typing import Any, Protocol, TypeVar

from cpreplay.batch import Batch
from cpreplay.nstep_transitions import NStepTransitions
from cpreplay.snapshots import Snapshot

T = TypeVar("T")


class RowOps(Protocol):
    """Storage of the rows: columns in, minibatches out."""

    @property
    def nbytes(self) -> int:
        """Bytes held for the whole life of the buffer: rows, control block, scratch."""

    def add_plain(self, values: Sequence[Any]) -> bool:
        """Store one transition at once, one value a column, where that needs no look by Python.

        False: nothing was stored; go on with `ingest_row`. Called without the buffer's lock: it
        sees to it itself that nobody holds it.
        """

    def add_batch_plain(self, values: Sequence[Any]) -> bool:
        """Likewise for a batch, and `ingest`."""

    def ingest_row(self, values: Sequence[Any]) -> list[Any]:
        """Check one transition, one value per column, and return it ready for `store_row`.

        Raises without changing anything. Runs the caller's code where values are objects of theirs.
        """

    def store_row(self, row: Sequence[Any]) -> None:
        """Write what `ingest_row` returned at the head, and move the cursor by one."""

    def ingest(self, values: Sequence[Any]) -> tuple[list[Any], int]:
        """Check a batch, one array per column; the columns ready for `store`, and their rows.

        Raises without changing anything.
        """

    def ingest_mask(self, mask: Any, rows: int) -> tuple[Any, int | None]:
        """The mask ready for `store`, and how many rows it keeps: None if only the device knows."""

    def store(self, columns: Sequence[Any], rows: int, mask: Any = None) -> None:
        """Write what `ingest` returned at the head, in order, and move the cursor.

        What is left equals ``rows`` single adds, also when rows exceed the ring: then the oldest of
        them are not written at all. With a mask, only its rows count.
        """

    def make_batch(self, batch_size: int) -> Batch:
        """Empty arrays for a minibatch, C-contiguous and 64-byte aligned."""

    def accepts(self, batch: Batch) -> bool:
        """Whether a batch has the arrays of this storage, so that a draw can fill them."""

    def column(self, number: int) -> Any:
        """A view of a stored column, shape (capacity, *shape), in its storage dtype."""

    def to_host(self, array: Any) -> Any:
        """An array of this back end as NumPy's; a copy from the device, which waits."""

    def pieces(self, rows: int) -> Sequence[tuple[int, int]]:
        """(first row, count) of what so many adds would write, in order. Empty on a device."""

    def snapshot(self, size: int, changed: Condition, *, apart: bool) -> Snapshot:
        """Rows [0, size) as they are now; ``apart`` for another thread to read while adds go on.

        ``changed`` is over the buffer's lock, which is held. Waits for the device.
        """

    def here(self, call: Callable[[], T]) -> Callable[[], T]:
        """The same call, to be made by any thread, on the stream and card that are current now."""

    def put_rows(self, first: int, columns: Mapping[str, Any]) -> None:
        """Write host columns of the stored dtypes at a row, whatever the ring is. Waits."""

    def clear_rows(self, first: int, end: int) -> None:
        """Make rows [first, end) as if they were never written, and forget clamped rows. Queued."""


class DrawOps(Protocol):
    """The control block, and draws by what it says."""

    def sample(self, batch: Batch) -> None:
        """Fill a batch by the policy in force, and count the draw. Queued."""

    def sample_range(self, batch: Batch, low: int, high: int) -> None:
        """Fill a batch uniformly from rows [low, high), and count the draw. Queued."""

    def configure_ere(self, enable: bool, eta: float, c_min: int, k_max: int) -> None:
        """Switch the ERE window on or off, whole at first. Queued; refuses during a capture."""

    def pin_demos(self, count: int) -> None:
        """Make rows [0, count) the demo prefix. Queued; refuses during a capture."""

    def total(self) -> int:
        """Rows ever written. Waits for the device."""

    def control(self) -> dict[str, int | float]:
        """The fields of the control block. Waits for the device."""

    def set_control(self, fields: Mapping[str, int | float]) -> None:
        """Set some fields of the control block. Waits; refuses during a capture."""

    def generator(self) -> dict[str, Any]:
        """Where random words come from, as values of JSON."""

    def check_generator(self, state: Mapping[str, Any], seed: int | None) -> Callable[[], None]:
        """Check what `generator` gave, or raise; what is returned takes it up.

        An explicit ``seed`` begins another stream instead.
        """

    def synchronize(self) -> None:
        """Wait until everything that was queued is done."""


class PriorityOps(Protocol):
    """Priorities of the rows, in a sum tree."""

    @property
    def nbytes(self) -> int:
        """Bytes held for the whole life of the buffer: the tree, scratch."""

    def ingest(self, rows: Any, tokens: Any, td_errors: Any) -> tuple[Any, Any, Any]:
        """Check what an update is given, one of each a lane; the arrays ready for `update`.

        ``tokens`` are a batch's, or None for bare rows. Raises without changing anything.
        """

    def update(self, rows: Any, tokens: Any, td_errors: Any) -> None:
        """Give the row of each lane the priority ``abs(td_error) + epsilon``. Queued.

        Of several lanes with one row the last counts. Lanes whose row was overwritten since the
        draw are skipped and counted. Errors without a finite leaf, rows that are not held, and
        tokens of another run raise on the host and change nothing; the device skips and counts
        their lanes.
        """

    def update_plain(self, rows: Any, tokens: Any, td_errors: Any) -> bool:
        """Do a whole update at once, where what is given needs no look by Python.

        False: nothing was changed; go on with `ingest`. Called under the buffer's lock, unlike
        `RowOps.add_plain`.
        """

    def configure(self, alpha: float, beta: float, epsilon: float) -> None:
        """Set both exponents and the offset. Queued; refuses during a capture."""

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the weights. Queued; refuses during a capture."""

    def disown(self, batch: Batch) -> None:
        """Give a batch that was never filled tokens of no draw. Not during a capture."""

    def leaves(self, size: int) -> Any:
        """The leaves of rows [0, size), as a host array. Waits."""

    def set_leaves(self, first: int, leaves: Any) -> None:
        """Set the leaves of rows from ``first`` on, from a host array. Waits."""

    def take_up(self, run: int) -> None:
        """Go on after leaves and the control block were set, with another run number. Queued."""

    def at_rest(self) -> bool:
        """Whether what updates use between their steps is as they leave it. Waits."""

    def levels(self) -> Sequence[Any]:
        """The tree's levels from the leaves up, padded to whole nodes, in the back end's memory."""


class NStepOps(Protocol):
    """Pending steps of some environments, and the windows that a step completes."""

    def ingest(
        self, values: Sequence[Any], truncated: Any, mask: Any, single: bool
    ) -> tuple[dict[str, Any], Any]:
        """Check a step, one array per column; columns by name and mask, ready for `append`.

        ``single`` values have no axis over environments. Raises without changing anything.
        """

    def append(self, step: dict[str, Any], mask: Any) -> NStepTransitions:
        """Keep a step of each environment in the mask, and give what it completes. Queued."""

    def reset(self, mask: Any) -> None:
        """Forget the pending steps of environments in the mask; None for all. Queued."""

    def counts(self) -> Any:
        """Pending steps of each environment."""

    def state(self) -> dict[str, Any]:
        """Pending steps as host arrays, oldest first. Waits for the device."""

    def check_state(self, state: Mapping[str, Any]) -> Callable[[], None]:
        """Check such arrays, or raise; what is returned takes pending steps from them."""


class Ops(RowOps, DrawOps, Protocol):
    """A whole back end."""

    #: Whether looking at the control block waits for a device.
    reading_waits: bool

    @property
    def priorities(self) -> PriorityOps | None:
        """None where every row is as likely as the other."""

    @property
    def capturing(self) -> bool:
        """Whether calls are being recorded into a CUDA graph just now."""
