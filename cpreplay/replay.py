"""`StoreReplay` and `StoreReplayGpu`: a ring of transitions, in host or device memory.

Both are one private base over different ops. The base keeps what the host knows of the total, does
the checks, and hands on.
"""

import os
import secrets
import threading
from collections.abc import Mapping
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import DTypeLike

from cpreplay.batch import Batch
from cpreplay.control import ALPHA, BETA, EPSILON, MAX_CAPACITY, ring_head, ring_size
from cpreplay.cuda_device import device_memory, device_number, import_cupy
from cpreplay.device_ops import DeviceOps, device_row_nbytes
from cpreplay.device_priorities import device_tree_nbytes
from cpreplay.errors import ColumnNameError, ConfigurationError, CopyError, ShapeError
from cpreplay.host_ops import HostOps
from cpreplay.inputs import extra_values
from cpreplay.integers import is_count
from cpreplay.invariants import check_priorities, check_ring
from cpreplay.known_total import KnownTotal
from cpreplay.memory import host_memory, refuse_too_large
from cpreplay.native import uses_compiled
from cpreplay.native_ops import NativeOps
from cpreplay.ops import Ops, PriorityOps
from cpreplay.philox import checked_seed
from cpreplay.policies import Policy, check_batch_size, check_range
from cpreplay.replay_checkpoints import Checkpoints, loaded
from cpreplay.replay_salvage import SalvageReport, salvaged
from cpreplay.replay_state import columns_said
from cpreplay.schema import TRANSITION, Column, lay_out, transition_columns
from cpreplay.statistics import statistics
from cpreplay.tree_levels import tree_nbytes
from cpreplay.words import generator_named, word_source


class _Replay(Checkpoints):
    """What host and device buffers have in common, which is nearly everything."""

    def __init__(
        self,
        obs_shape: Any,
        action_shape: Any,
        capacity: int,
        prioritized: bool,
        obs_store_dtype: DTypeLike | None,
        *,
        obs_dtype: DTypeLike,
        action_dtype: DTypeLike,
        extra_columns: Mapping[str, Any] | None,
        seed: int,
    ) -> None:
        if not isinstance(prioritized, bool | np.bool_):
            raise ConfigurationError(f"prioritized={prioritized!r} has to be True or False")
        if not (is_count(capacity) and capacity <= MAX_CAPACITY):
            raise ConfigurationError(
                f"capacity={capacity!r} has to be an int from 1 to {MAX_CAPACITY:,}"
            )
        self._capacity = int(capacity)
        self._layout = lay_out(
            transition_columns(
                obs_shape,
                action_shape,
                obs_dtype=obs_dtype,
                action_dtype=action_dtype,
                obs_store_dtype=obs_store_dtype,
                extra_columns=extra_columns,
            )
        )
        self._seed = seed
        self._extra_names = self._layout.names[len(TRANSITION) :]
        self._policy = Policy(prioritized=bool(prioritized))
        self._lock = threading.Lock()
        self._begin_checkpoints()

    def _use(self, ops: Ops) -> None:
        """Take the back end that a subclass has made, which ends the construction."""
        self._ops = ops
        self._known = KnownTotal(self._capacity, ops.total, reading_waits=ops.reading_waits)

    # Writing

    def add(
        self, obs: Any, action: Any, reward: Any, next_obs: Any, terminated: Any, **extra: Any
    ) -> None:
        """Store one transition, over the oldest once the ring is full.

        Parameters
        ----------
        obs, next_obs : array_like, shape obs_shape
            Observation before and after the step. ``next_obs`` is the step's own outcome, also when
            the environment was reset right after it: pass the final observation then.
        action : array_like, shape action_shape
        reward : float
        terminated : bool
            Whether the MDP ended with this step. Not ``terminated or truncated``: a step that only
            ran out of time is stored as False, because its value still bootstraps from ``next_obs``
            (Pardo et al. 2018, arXiv:1712.00378).
        **extra
            One value for each extra column.

        Raises
        ------
        ShapeError, DTypeError, ColumnValueError, ColumnNameError
            A value does not go into its column. Nothing was stored then.
        CaptureError
            Device only: host values, or values that need a cast, while the stream is capturing.

        Notes
        -----
        Inputs are copied. On the device, host values are uploaded in one transfer, and cpreplay
        waits for nothing.
        """
        values = self._values(obs, action, reward, next_obs, terminated, extra)
        if self._ops.add_plain(values):
            return
        row = self._ops.ingest_row(values)  # not under the lock: it may run the caller's code
        with self._lock:
            if self._snapshots:
                self._make_room(1)
            known = self._countable(1)
            self._known.expect()
            self._ops.store_row(row)
            self._known.count(known)

    def add_batch(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        *,
        mask: Any = None,
        **extra: Any,
    ) -> None:
        """Store N transitions, in order: what is left equals N single adds.

        Parameters
        ----------
        obs, action, reward, next_obs, terminated, **extra : array_like, shape (N, ...)
            As in `add`, with a first axis over transitions, such as N environments. N may exceed
            the capacity.
        mask : array_like of bool, shape (N,), optional
            Stores only the rows where it is True.

        Raises
        ------
        ShapeError, DTypeError, ColumnValueError, ColumnNameError, CaptureError
            As in `add`; also where the columns are of different lengths. Nothing was stored then.

        Notes
        -----
        On the device this is two kernel launches whatever N and the number of columns, and a device
        array of the column's dtype is read in place, so the call can be captured. With a device
        mask, only the device knows how many rows were stored: from then on ``len(buffer)`` asks it,
        which waits.
        """
        values = self._values(obs, action, reward, next_obs, terminated, extra)
        if mask is None and self._ops.add_batch_plain(values):
            return
        columns, rows = self._ops.ingest(values)
        count: int | None = rows
        if mask is not None:
            mask, count = self._ops.ingest_mask(mask, rows)
        if rows == 0:
            return
        with self._lock:
            if self._snapshots:
                self._make_room(rows if count is None else count)
            known = self._countable(count)
            self._known.expect()
            self._ops.store(columns, rows, mask)
            self._known.count(known)

    # Sampling

    def sample(self, batch_size: int, out: Batch | None = None) -> Batch:
        """Draw a minibatch, with replacement, by the policy in force.

        Parameters
        ----------
        batch_size : int
            Number of transitions, B. It may exceed the rows held.
        out : Batch, optional
            Arrays to fill, from `make_batch` of this buffer or of one with the same columns.

        Returns
        -------
        Batch
            Fresh arrays, or ``out``.

        Raises
        ------
        EmptyBufferError
            Nothing was added yet.
        SampleRangeError
            ``batch_size`` is not an int of at least one, or more than a pinned ring has room for.
        ShapeError
            ``out`` is of another size or has other columns.
        CaptureError
            Device only: the stream is capturing, and there is no ``out``.

        Notes
        -----
        Reproducible: a draw is a pure function of the seed, the draw's number and the state of the
        buffer (of the generator's too where the host has one). With priorities lane i is drawn in
        the i-th of B equal slices of their total, so lanes come in the order of rows (Schaul et
        al. 2016, arXiv:1511.05952, appendix B.2.1). On the device it is two kernel launches, and
        with ``out`` no allocation, so it can be captured; it waits only while the host knows of no
        row. A captured draw sees the rows of the moment it is replayed, and differs from replay to
        replay.
        """
        batch_size = check_batch_size(batch_size)
        with self._lock:
            self._policy.check_draw(batch_size, self._known.size_up_to(1))
            batch = self._target(batch_size, out)
            self._ops.sample(batch)
        return batch

    def sample_range(self, batch_size: int, lo: int, hi: int, out: Batch | None = None) -> Batch:
        """Draw a minibatch uniformly from rows ``[lo, hi)``, with replacement.

        For fixed splits, such as training and holdout rows of a dynamics model. The policy in force
        has no say and does not move on; the draw has its number like any other. A captured call
        keeps its range.

        Parameters
        ----------
        batch_size : int
        lo, hi : int
            ``0 <= lo < hi <= len(buffer)``.
        out : Batch, optional
            As in `sample`.

        Returns
        -------
        Batch
            Fresh arrays, or ``out``.

        Raises
        ------
        SampleRangeError
            The range holds no row, or rows that were never written; or ``batch_size`` is not an int
            of at least one.
        ShapeError, CaptureError
            As in `sample`.

        Notes
        -----
        As in `sample`. It waits only where the host does not know of ``hi`` rows.
        """
        batch_size = check_batch_size(batch_size)
        with self._lock:
            size = self._known.size_up_to(hi if is_count(hi) else 1)
            lo, hi = check_range(lo, hi, size, self._capacity)
            batch = self._target(batch_size, out)
            self._ops.sample_range(batch, lo, hi)
        return batch

    def make_batch(self, batch_size: int) -> Batch:
        """Arrays for a minibatch, to be filled by `sample`.

        Parameters
        ----------
        batch_size : int
            At least 1.

        Returns
        -------
        Batch
            Uninitialised arrays, which stay at their addresses. Give it as ``out``.

        Raises
        ------
        SampleRangeError
            ``batch_size`` is not an int of at least one.
        CaptureError
            Device only: the stream is capturing.
        """
        batch = self._ops.make_batch(check_batch_size(batch_size))
        if self._ops.priorities is not None:
            self._ops.priorities.disown(batch)
        return batch

    # Policies

    def configure_ere(
        self, enable: bool = True, eta: float = 0.996, c_min: int = 1, k_max: int = 1000
    ) -> None:
        """Draw from the newest rows alone, fewer with every draw: emphasise recent experience.

        The k-th draw is uniform over the newest ``min(size, max(c_min, floor(size * eta**k)))``
        rows; after ``k_max`` draws the window is whole again.

        Parameters
        ----------
        enable : bool
            False goes back to uniform draws.
        eta : float
            Factor on the window per draw, in (0, 1].
        c_min : int
            The window's floor, in rows.
        k_max : int
            Draws in one round, after which the window is whole again.

        Raises
        ------
        ConfigurationError
            A value out of its range.
        OrderError
            The buffer is prioritized, or demonstrations are pinned; also with ``enable=False``.
        CaptureError
            The stream is capturing. A graph that was captured before obeys, also one whose draws
            were uniform.

        Notes
        -----
        Source: Wang & Ross 2019, arXiv:1906.04009, section 3.2.
        """
        with self._lock:
            self._policy.check_ere(enable, eta, c_min, k_max)
            self._ops.configure_ere(bool(enable), float(eta), int(c_min), int(k_max))
            self._policy.ere = bool(enable)

    def pin_demo_prefix(self, n: int, *, batch_size: int | None = None) -> None:
        """Declare all rows added so far demonstrations, which the ring never overwrites.

        Afterwards online writes go around in rows ``[n, capacity)``, and half of every minibatch
        (rounded down) is from the demonstrations, the rest from the online rows; all of it is from
        the demonstrations while there is no online row.

        Parameters
        ----------
        n : int
            Exactly the number of rows added so far.
        batch_size : int, optional
            The batches that will be drawn: at least that many online rows have to fit. Required on
            the device. Larger batches are refused later.

        Raises
        ------
        ConfigurationError
            ``n`` is another number, or too few rows are left for online transitions.
        OrderError
            The buffer is prioritized, a prefix is pinned already, or ERE is on.
        CaptureError
            The stream is capturing. A graph that was captured before obeys.

        Notes
        -----
        Source: Ball et al. 2023 (RLPD), arXiv:2302.02948, section 4.1.
        """
        with self._lock:
            n = self._check_pin(n, batch_size, self._known.exact())
            self._ops.pin_demos(n)
            self._policy.demo_count = n
            self._policy.largest_batch = None if batch_size is None else self._capacity - n

    # Priorities

    def configure_per(
        self, alpha: float = ALPHA, beta: float = BETA, epsilon: float = EPSILON
    ) -> None:
        """Set what priorities mean; for buffers made with ``prioritized=True``.

        A row's priority is ``p = abs(td_error) + epsilon``. Its leaf in the sum tree is
        ``p ** alpha``; it is drawn with probability ``P = leaf / total``, and its loss is to be
        multiplied by ``(size * P) ** -beta``, divided by the batch's largest.

        Parameters
        ----------
        alpha : float
            In [0, 1]: 0 draws uniformly, 1 in proportion to the error.
        beta : float
            In [0, 1]: how much of the bias that such draws bring is taken back, 1 for all of it.
            Usually annealed to 1 with `set_beta`.
        epsilon : float
            At least 0. Keeps rows without an error in the draw.

        Raises
        ------
        ConfigurationError
            A value out of its range.
        OrderError
            The buffer is not prioritized; or alpha would change, and rows are stored, whose leaves
            have been raised to the one before.
        CaptureError
            The stream is capturing. A graph that was captured before obeys.

        Notes
        -----
        Source: Schaul et al. 2016, arXiv:1511.05952, equation 1 and sections 3.3 and 3.4. It waits
        only where alpha changes and the host knows of no row.
        """
        alpha, beta, epsilon = self._policy.check_per(alpha, beta, epsilon)
        with self._lock:
            if alpha != self._policy.alpha:
                self._policy.check_alpha(alpha, self._known.size_up_to(1))
            self._priorities.configure(alpha, beta, epsilon)
            self._policy.alpha = alpha

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the weights, from the next draw on.

        Parameters
        ----------
        beta : float
            In [0, 1]; see `configure_per`. Schaul et al. 2016 anneal it linearly to 1.

        Raises
        ------
        ConfigurationError
            ``beta`` is out of its range.
        OrderError
            The buffer is not prioritized.
        CaptureError
            The stream is capturing: every replay would put this value back. Set it outside; a graph
            that was captured before obeys.
        """
        beta = self._policy.check_beta(beta)
        with self._lock:
            self._priorities.set_beta(beta)

    def update_priorities(self, batch: Any, td_errors: Any) -> None:
        """Give drawn rows the priority of their new TD errors.

        Parameters
        ----------
        batch : Batch, or array_like of int, shape (B,)
            What `sample` or `sample_range` gave, as it is, mapped to another framework, or in part.
            Rows that have been overwritten since that draw are skipped, and counted in
            ``stats()["stale_updates"]``. Bare indices are taken too, without that protection.
        td_errors : array_like of float, shape (B,)
            Of any sign. Of one row that is there twice, the last lane counts.

        Raises
        ------
        OrderError
            The buffer is not prioritized.
        ColumnValueError
            Host only: an error that is not finite, or so large that its leaf is not.
        SampleRangeError
            Host only: an index of a row that is not held.
        ConfigurationError
            The batch is another buffer's (which on the device counts as stale).
        ShapeError, DTypeError
            Arrays of other lengths or kinds. Whatever is raised, no priority was changed.
        CaptureError
            Device only: host values, or values that need a cast, while the stream is capturing.

        Notes
        -----
        Costs the rows and their ancestors in the sum tree. The device skips lanes with a bad error
        and counts them in ``stats()["invalid_priorities"]``. It waits for nothing, and can be
        captured: one launch for up to 1,024 lanes, one more for each level of the tree above that.
        Int64 indices and float32 or float64 errors are read in place.
        """
        self._policy.check_prioritized("update_priorities")
        tokens = None
        if isinstance(batch, Batch):
            tokens = batch._tokens
            if tokens is None:
                raise ConfigurationError(
                    "update_priorities: this batch has no draw tokens: it is of a buffer without "
                    "priorities, or has lost them; give one of this buffer's own sample"
                )
            batch = batch.indices
        with self._lock:
            if self._priorities.update_plain(batch, tokens, td_errors):
                return
        update = self._priorities.ingest(batch, tokens, td_errors)  # may run the caller's code
        with self._lock:
            self._priorities.update(*update)

    # Looking

    def column(self, name: str) -> Any:
        """A view of a whole stored column, without a copy.

        Parameters
        ----------
        name : str
            A column of a transition, as in `columns`.

        Returns
        -------
        array, shape (capacity, ...)
            In the storage dtype: uint8 codes where observations are quantised. Rows never written
            are zero. Read-only (CuPy cannot enforce it: do not write). It shows later writes, so
            copy rows before adding them to the same buffer again.

        Raises
        ------
        ColumnNameError
            There is no column of that name.
        """
        names = self._layout.names
        if name not in names:
            raise ColumnNameError(f"column {name!r}: this buffer has {', '.join(names)}")
        return self._ops.column(names.index(name))

    def stats(self) -> dict[str, int | float | bool]:
        """Counts and counters, as plain numbers. Waits for the device.

        ``size``, ``capacity``, ``total`` (rows ever written), ``head``, ``demo_count``, ``draws``,
        ``nbytes``, ``ere`` (whether it is on), and ``invalid_rows``: rows whose observations were
        outside [0, 1] and clamped, which the device does where the host raises.

        A prioritized buffer also has ``alpha``, ``beta``, ``epsilon``, ``priority_total`` (the sum
        of all leaves), ``max_priority`` (before alpha; new rows enter at it),
        ``invalid_priorities`` and ``stale_updates`` (lanes of updates that were skipped), and
        ``effective_sample_size``, ``sum(leaf)**2 / sum(leaf**2)``: the number of equally likely
        rows that would vary as much (Kish 1965); it reads every leaf.
        """
        with self._lock:
            return statistics(self._ops, self._capacity)

    def check(self) -> None:
        """Raise `InvariantError` where an invariant is broken. Waits, and reads every row.

        For tests, and for finding out who wrote over the buffer's memory.
        """
        with self._lock:
            check_ring(self._ops, self._layout, self._capacity, self._known, self._policy)
            if self.prioritized:
                check_priorities(self._ops, self._capacity, self._policy.alpha)

    def synchronize(self) -> None:
        """Wait until everything that was queued on the current stream is done."""
        self._ops.synchronize()

    def holds(self, rows: int) -> bool:
        """Whether at least so many rows are held.

        Unlike ``len``, it waits for the device only where what the host knows does not settle it.

        Parameters
        ----------
        rows : int

        Returns
        -------
        bool
        """
        return self._known.size_up_to(rows) >= rows

    def __reduce__(self) -> NoReturn:
        raise CopyError(
            f"a {type(self).__name__} cannot be copied, pickled or sent to another process: two "
            "buffers would draw one sequence; make another, and add the rows to it"
        )

    def __len__(self) -> int:
        """Rows held. Waits for the device once only the device knows."""
        return self._known.size()

    def __repr__(self) -> str:
        columns = ", ".join(
            f"{column.name} {column.stored}{list(column.shape)}" for column in self._layout.columns
        )
        waits = self._ops.reading_waits and not self._known.is_exact
        rows = ring_size(self._known.at_least, self._capacity) if waits else len(self)
        some = "at least " if waits else ""
        return f"<{type(self).__name__}: {some}{rows:,} of {self._capacity:,} rows of {columns}>"

    @property
    def capacity(self) -> int:
        """Rows the ring can hold."""
        return self._capacity

    @property
    def prioritized(self) -> bool:
        """Whether draws are by priority."""
        return self._policy.prioritized

    @property
    def head(self) -> int:
        """The row that the next transition goes to. Waits where ``len`` does."""
        return ring_head(self._known.exact(), self._policy.demo_count, self._capacity)

    @property
    def demo_count(self) -> int:
        """Rows pinned as demonstrations."""
        return self._policy.demo_count

    @property
    def nbytes(self) -> int:
        """Bytes that the buffer holds for its rows, their priorities, and on a device for scratch.

        On the host calls work in some memory besides, of about the size of their minibatch.
        """
        return self._ops.nbytes

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a transition, in order."""
        return self._layout.columns

    # Parts of the calls

    def _check_pin(self, n: Any, batch_size: int | None, total: int) -> int:
        """A prefix as an int, where it could be pinned after ``total`` adds."""
        return self._policy.check_pin(n, batch_size, total, self._capacity)

    @property
    def _priorities(self) -> PriorityOps:
        assert self._ops.priorities is not None, "asked for before check_prioritized"
        return self._ops.priorities

    def _countable(self, rows: int | None) -> int | None:
        """Rows of an add that the host may count; while capturing they come with each replay."""
        return None if self._ops.capturing else rows

    def _values(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        extra: Mapping[str, Any],
    ) -> tuple[Any, ...]:
        """One value per column, in the columns' order."""
        standard = (obs, action, reward, next_obs, terminated)
        if not extra and not self._extra_names:
            return standard
        return (*standard, *extra_values(self._extra_names, extra))

    def _target(self, batch_size: int, out: Batch | None) -> Batch:
        if out is None:
            return self._ops.make_batch(batch_size)
        if not isinstance(out, Batch):
            raise ShapeError(
                f"out is of type {type(out).__name__}, and a Batch from make_batch is wanted"
            )
        if not self._ops.accepts(out):
            raise ShapeError(
                "out has other columns than this buffer, or other arrays than it was made with; "
                "get it from make_batch, and use it as it is"
            )
        if len(out) != batch_size:
            raise ShapeError(
                f"out holds {len(out)} transitions, and {batch_size} were asked for; get one of "
                "that size from make_batch"
            )
        return out


class StoreReplay(_Replay):
    """A ring of transitions in host memory, as NumPy arrays.

    Parameters
    ----------
    obs_shape : int or tuple of int
        Shape of one observation; ``()`` is one number.
    action_shape : int or tuple of int
        Shape of one action; ``()`` with an integer ``action_dtype`` is a discrete action.
    capacity : int
        Rows, 1 to 2**31. Once they are full, the oldest is overwritten.
    prioritized : bool
        Draw by priority instead of uniformly; see `configure_per`. It stays so.
    obs_store_dtype : dtype, optional
        ``"uint8"`` stores float32 observations in [0, 1] as codes ``rint(255 x)``, a quarter of the
        memory; every k/255 comes back exactly.
    obs_dtype, action_dtype : dtype
        As given to `add` and returned by `sample`: booleans, integers, or floats of at most 8
        bytes. uint8 frames are stored as they are with ``obs_dtype="uint8"``.
    extra_columns : mapping, optional
        Name to shape, dtype, or (shape, dtype), such as ``{"log_prob": ()}``. float32 and one
        number where not said.
    seed : int, optional
        In [0, 2**64). Drawn from the system if not given, and known as ``buffer.seed``.
    rng : numpy.random.Generator or "philox", optional
        Where random words come from: by default a PCG64 of the buffer's own, seeded with ``seed``;
        the caller's generator; or the device's own sequence, with which a host buffer draws what a
        `StoreReplayGpu` of the same seed draws, bit for bit.
    check_memory : bool
        Refuse a buffer larger than the machine's, or its control group's, memory. False overrides.

    Raises
    ------
    ConfigurationError
        A value that cannot be honoured.
    MemoryLimitError
        The buffer is too large; the message has both byte counts.

    Notes
    -----
    Safe from several threads: adds, draws and updates take one lock, so a batch never holds half a
    row. Signal handlers and finalizers must not call the buffer, since the code that they interrupt
    may hold the lock; and a KeyboardInterrupt inside an add can leave rows from the head on half
    written, which are not counted as held.
    Memory is reserved at once and used as rows are written.

    Examples
    --------
    >>> import numpy as np
    >>> buffer = StoreReplay(obs_shape=3, action_shape=2, capacity=1000, seed=0)
    >>> for step in range(10):
    ...     buffer.add(np.full(3, step), np.zeros(2), 1.0, np.full(3, step + 1), False)
    >>> batch = buffer.sample(4)
    >>> batch.obs.shape, batch.reward.dtype.name, len(buffer)
    ((4, 3), 'float32', 10)
    """

    def __init__(
        self,
        obs_shape: Any,
        action_shape: Any,
        capacity: int,
        prioritized: bool = False,
        obs_store_dtype: DTypeLike | None = None,
        *,
        obs_dtype: DTypeLike = "float32",
        action_dtype: DTypeLike = "float32",
        extra_columns: Mapping[str, Any] | None = None,
        seed: int | None = None,
        rng: Any = None,
        check_memory: bool = True,
    ) -> None:
        own_generator = rng is None or isinstance(rng, str)
        if seed is not None and not own_generator:
            raise ConfigurationError("seed and rng: a generator has its seed already; give one")
        seed = checked_seed(seed)
        super().__init__(
            obs_shape,
            action_shape,
            capacity,
            prioritized,
            obs_store_dtype,
            obs_dtype=obs_dtype,
            action_dtype=action_dtype,
            extra_columns=extra_columns,
            seed=seed,
        )
        words = word_source(seed, rng)
        if check_memory:
            row = self._layout.row_nbytes
            tree = tree_nbytes(self._capacity) if prioritized else 0
            where = "this machine or control group"
            refuse_too_large(row, self._capacity, tree, host_memory(), where)
        run = _new_run(prioritized)
        form = (self._layout, self._capacity, words, seed)
        if uses_compiled():
            ops: Ops = NativeOps(*form, run=run, lock=self._lock, snapshots=self._snapshots)
        else:
            ops = HostOps(*form, run=run)
        self._use(ops)
        self._own_generator = own_generator

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        seed: int | None = None,
        rng: Any = None,
        check_memory: bool = True,
        drop_pending: bool = False,
    ) -> Self:
        """A new buffer, which is the one that was saved; see `resume` for what is raised.

        Parameters
        ----------
        path : path-like
            What `save` wrote, here or on a card.
        seed : int, optional
            Begin another stream of draws; see `resume`.
        rng : numpy.random.Generator or "philox", optional
            As of `StoreReplay`; by default, what the saved buffer had. A generator is put into the
            saved one's state, so it has to be of that kind.
        check_memory : bool
            As of `StoreReplay`.
        drop_pending : bool
            As in `resume`.

        Returns
        -------
        StoreReplay
        """

        return loaded(
            path,
            lambda header, generator: cls(
                **_form_of(header),
                rng=generator_named(generator, needed=seed is None) if rng is None else rng,
                check_memory=check_memory,
            ),
            seed=seed,
            drop_pending=drop_pending,
        )

    @classmethod
    def salvage(
        cls,
        path: str | os.PathLike[str],
        *,
        seed: int | None = None,
        rng: Any = None,
        check_memory: bool = True,
    ) -> tuple[Self, SalvageReport]:
        """A new buffer with the rows of a damaged checkpoint that are whole.

        They come as if they had just been added, demonstrations first, then from the oldest on.
        Beside them, only alpha, beta and epsilon are taken from the file: draws begin anew, rows
        enter at the largest priority, nothing is pinned.

        Parameters
        ----------
        path : path-like
            What `save` wrote.
        seed, rng, check_memory
            As of `StoreReplay`.

        Returns
        -------
        buffer : StoreReplay
        report : SalvageReport
            How many rows it holds, and how many are lost.

        Raises
        ------
        CheckpointError
            Not even its header is left, or it is no checkpoint of a buffer.
        """
        return salvaged(
            path,
            lambda header: cls(**_form_of(header), seed=seed, rng=rng, check_memory=check_memory),
        )

    @property
    def seed(self) -> int | None:
        """The seed, also where it came from the system. None with the caller's own generator."""
        return self._seed if self._own_generator else None


class StoreReplayGpu(_Replay):
    """A ring of transitions in the memory of a CUDA card, on CuPy and our kernels.

    Parameters and calls are those of `StoreReplay`, save for:

    Parameters
    ----------
    device : int, optional
        The card; the current one by default. It has to be the current device at every call.

    Raises
    ------
    ConfigurationError
        A value that cannot be honoured.
    DeviceUnavailableError
        CuPy, the wheels it compiles with, a driver or a card is missing; the message says which.
    MemoryLimitError
        The buffer is larger than the card's memory.

    Notes
    -----
    Everything is queued on CuPy's current stream; only what says so waits. Sampling with ``out``
    and adding device arrays can be captured in a CUDA graph, which then follows the buffer: see
    `sample` and `add_batch`. Draws are Philox, so a host buffer with ``rng="philox"`` and the same
    seed draws the same rows. Where the host raises for observations outside [0, 1], the device
    clamps them and counts their rows in ``stats()["invalid_rows"]``. A device array of float64 is
    rounded to float32, and a value beyond float32 becomes an infinity, which the host refuses.
    """

    def __init__(
        self,
        obs_shape: Any,
        action_shape: Any,
        capacity: int,
        prioritized: bool = False,
        obs_store_dtype: DTypeLike | None = None,
        *,
        obs_dtype: DTypeLike = "float32",
        action_dtype: DTypeLike = "float32",
        extra_columns: Mapping[str, Any] | None = None,
        seed: int | None = None,
        check_memory: bool = True,
        device: int | None = None,
    ) -> None:
        seed = checked_seed(seed)
        super().__init__(
            obs_shape,
            action_shape,
            capacity,
            prioritized,
            obs_store_dtype,
            obs_dtype=obs_dtype,
            action_dtype=action_dtype,
            extra_columns=extra_columns,
            seed=seed,
        )
        cupy = import_cupy()
        with cupy.cuda.Device(device_number(cupy, device)):
            if check_memory:
                row = device_row_nbytes(self._layout)
                tree = device_tree_nbytes(self._capacity) if prioritized else 0
                refuse_too_large(row, self._capacity, tree, device_memory(cupy), "the card")
            run = _new_run(prioritized)
            self._use(DeviceOps(cupy, self._layout, self._capacity, seed, run=run))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        seed: int | None = None,
        check_memory: bool = True,
        device: int | None = None,
        drop_pending: bool = False,
    ) -> Self:
        """A new buffer, which is the one that was saved, here or on the host.

        Parameters are those of `StoreReplay.load`, and ``device``. What a host buffer saved that
        does not draw Philox words by number needs a ``seed``.

        Returns
        -------
        StoreReplayGpu
        """
        with _current(device):
            return loaded(
                path,
                lambda header, _: cls(**_form_of(header), check_memory=check_memory),
                seed=seed,
                drop_pending=drop_pending,
            )

    @classmethod
    def salvage(
        cls,
        path: str | os.PathLike[str],
        *,
        seed: int | None = None,
        check_memory: bool = True,
        device: int | None = None,
    ) -> tuple[Self, SalvageReport]:
        """A new buffer with the rows of a damaged checkpoint that are whole.

        See `StoreReplay.salvage`.

        Returns
        -------
        buffer : StoreReplayGpu
        report : SalvageReport
        """
        with _current(device):
            return salvaged(
                path, lambda header: cls(**_form_of(header), seed=seed, check_memory=check_memory)
            )

    def pin_demo_prefix(self, n: int, *, batch_size: int | None = None) -> None:
        if batch_size is None:
            raise ConfigurationError(
                "pin_demo_prefix: batch_size is required on the device, since the replay of a "
                "captured draw cannot be refused; give the size of the batches you will draw"
            )
        super().pin_demo_prefix(n, batch_size=batch_size)


def _form_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that make a buffer like the one that was saved."""
    obs, action, _, _, _, *extra = columns_said(header)
    return {
        "obs_shape": obs.shape,
        "action_shape": action.shape,
        "capacity": header["capacity"],
        "prioritized": header["prioritized"],
        "obs_store_dtype": obs.stored if obs.quantized else None,
        "obs_dtype": obs.dtype,
        "action_dtype": action.dtype,
        "extra_columns": {column.name: (column.shape, column.dtype) for column in extra},
    }


def _current(device: int | None) -> Any:
    """A context in which a card is the current one."""
    cupy = import_cupy()
    return cupy.cuda.Device(device_number(cupy, device))


def _new_run(prioritized: bool) -> int | None:
    """Draw tokens tell by it whose they are. It decides nothing that is drawn."""
    return secrets.randbits(64) if prioritized else None
