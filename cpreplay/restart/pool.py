"""`RestartPool`: restart points in buckets, drawn by numbered draws, and what episodes report."""

import secrets
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.errors import (
    CheckpointWarning,
    ConfigurationError,
    CopyError,
    DTypeError,
    InvariantError,
    OrderError,
    ShapeError,
)
from cpreplay.integers import is_count, is_int
from cpreplay.philox import checked_seed
from cpreplay.restart.buckets import Bucket
from cpreplay.restart.configuration import RestartPoolConfiguration
from cpreplay.restart.contents import Contents
from cpreplay.restart.draws import DrawNumbers
from cpreplay.restart.marker import Key, Markers, is_label
from cpreplay.restart.point import (
    Point,
    Restart,
    StackFormat,
    Ticket,
    checked_snapshot,
    checked_stack,
    decode_point,
    encode_point,
)
from cpreplay.restart.pool_files import PoolFiles
from cpreplay.schedule import shown


@attrs.define
class _Episode:
    """A restart that nothing final has been reported about."""

    key: Key
    serial: int
    advanced: bool = False


class RestartPool(PoolFiles):
    """Restart points harvested from play, so that an episode can start part-way through.

    Whoever plays offers a point at each marker, asks `draw` before each episode, tells `reached` of
    each marker that the episode confirms, and `finish` of its end. Points lie in buckets by the
    marker values that the configuration's ``key`` names, the newest in each.

    Parameters
    ----------
    configuration : RestartPoolConfiguration
    max_in_flight_per_point : int, optional
        How many episodes from one point may be unreported at a time; a point with so many is not
        drawn. A point that no episode can end from holds that many environments at most, where it
        could hold every one until the first reports come.
    machine : str, optional
        What the snapshots are of, such as an emulator's version and a ROM's hash. It is written
        into files, and a pool that has one takes no file that has another, or none.

    Raises
    ------
    ConfigurationError
        An argument is of another kind, or out of range.

    Notes
    -----
    Thread-safe: every method takes one lock and holds it briefly, never while it encodes, decodes
    or writes. The same calls in the same order give the same draws, with one ``random_seed``.
    Finalizers and signal handlers must not call the pool: they may run while their own thread
    holds the lock, and would wait for ever.

    A pool belongs to one process. It refuses to be pickled, and a forked copy refuses to be used.

    A point is kept compressed (zstd level 1), and costs its compressed bytes and less than 1 KB; a
    bucket costs 2 KB.

    Examples
    --------
    >>> import numpy as np
    >>> pool = RestartPool(RestartPoolConfiguration(key=["level"], probability=1.0))
    >>> stack = np.zeros((4, 84, 84), np.uint8)
    >>> pool.offer(b"the machine's state", stack, {"level": 2, "score": 300})
    True
    >>> restart = pool.draw(step=0)
    >>> restart.snapshot, restart.key
    (b"the machine's state", (2,))
    >>> pool.reached(restart, {"level": 3, "score": 400})
    True
    >>> pool.finish(restart, steps=120)
    >>> pool.stats()["buckets"][2,]["advance_rate"]
    1.0
    """

    def __init__(
        self,
        configuration: RestartPoolConfiguration,
        *,
        max_in_flight_per_point: int | None = None,
        machine: str | None = None,
    ) -> None:
        if not isinstance(configuration, RestartPoolConfiguration):
            raise ConfigurationError(
                f"RestartPool: configuration={configuration!r} has to be a RestartPoolConfiguration"
            )
        if max_in_flight_per_point is not None and not is_count(max_in_flight_per_point):
            raise ConfigurationError(
                f"RestartPool: max_in_flight_per_point={shown(max_in_flight_per_point)} has to be "
                "None or an int of at least 1"
            )
        if machine is not None and not is_label(machine):
            raise ConfigurationError(
                f"RestartPool: machine={machine!r} has to be None or a text that is not empty"
            )
        self._configuration = configuration
        self._limit = max_in_flight_per_point
        self._machine = machine
        self._markers = Markers(
            configuration.key, configuration.minimum_values, configuration.maximum_values
        )
        self._identity = secrets.randbits(64)
        self._lock = threading.Lock()
        self._numbers = DrawNumbers(checked_seed(configuration.random_seed))
        self._contents = Contents(configuration, max_in_flight_per_point)
        self._episodes: dict[int, _Episode] = {}
        self._stack: StackFormat | None = None
        self._stack_is_filed = False  # so that a live stack of another format may replace it
        self._next_serial = 0
        self._next_name = 0
        self._loads = 0
        self._restarts = 0
        self._abandoned = 0
        self._dropped = 0
        self._unfit = 0
        self._offers = 0
        self._offers_of_restarts = 0
        self._refused = dict.fromkeys(self._markers.refusals, 0)
        self._begin_files()

    @property
    def configuration(self) -> RestartPoolConfiguration:
        """What the pool was made with."""
        return self._configuration

    def offer(
        self,
        snapshot: Any,
        frame_stack: Any,
        values: Any,
        *,
        steps_used: int = 0,
        restart: Restart | None = None,
    ) -> bool:
        """Offer a point, which is put in as the newest of its bucket.

        Parameters
        ----------
        snapshot : bytes-like
            The machine's state, of any length.
        frame_stack : array_like of numbers
            The observation at that moment, with all stacked frames; of one shape and dtype in all
            calls.
        values : mapping of str to int
            The marker's values. All are kept; those of the key's labels and of the bounds' have to
            be there.
        steps_used : int, optional
            Steps of its budget that the episode had used, for whoever plays on from the point.
        restart : Restart, optional
            What the offering episode started from, if it did; only counted, for ``stats``.

        Returns
        -------
        bool
            Whether it was put in. Not so where a value is out of bounds, nor where a `load` was
            done meanwhile, whose points take the place of this one too.

        Raises
        ------
        MarkerLabelError, MarkerTypeError, MarkerOverflowError
            The values do not have a label, or are not ints of 64 bits.
        DTypeError, ShapeError
            A snapshot that is no bytes; a frame stack that is missing, holds no numbers, or has
            another shape or dtype than the pool's.
        ConfigurationError
            ``steps_used`` is no count, or ``restart`` is none of this pool's.

        Warns
        -----
        CheckpointWarning
            The stack has another format than those that came from a file, which are dropped.

        Notes
        -----
        Everything is copied. Costs the compression, outside the lock.
        """
        self._require_process()
        view, stack = checked_snapshot(snapshot), checked_stack(frame_stack)
        checked = self._markers.checked(values)
        if not (is_int(steps_used) and 0 <= steps_used < 2**63):
            raise ConfigurationError(
                f"steps_used={shown(steps_used)} has to be an int from 0 to 2**63 - 1"
            )
        if restart is not None:
            self._require_own(restart)
        refusal = self._markers.refusal(checked)
        record, loads, is_in = None, 0, False
        if refusal is None:
            with self._lock:
                self._require_format(stack)
                loads = self._loads
                name, self._next_name = self._next_name, self._next_name + 1
            record = encode_point(name, view, stack, checked, int(steps_used))
        with self._lock:
            self._require_format(stack)
            unfit = None if record is None else self._take_format(stack)
            self._offers += 1
            self._offers_of_restarts += restart is not None
            if record is None:
                assert refusal is not None
                self._refused[refusal] += 1
            elif loads == self._loads:  # or what was loaded meanwhile has taken its place
                self._put(self._markers.key(checked), checked, int(steps_used), record)
                is_in = True
        if unfit is not None:
            warnings.warn(unfit, CheckpointWarning, stacklevel=2)
        return is_in

    def draw(self, step: int) -> Restart | None:
        """Where the next episode starts.

        Parameters
        ----------
        step : int
            For the probability's schedule.

        Returns
        -------
        Restart or None
            None: start normally. So says the probability, or no point can be drawn.

        Raises
        ------
        ConfigurationError
            The step is no finite number of at least 0, or a caller's schedule left [0, 1].

        Notes
        -----
        One numbered draw, of three numbers, whether or not a restart comes out. Costs the
        decompression, outside the lock, and a look at each bucket under ``failure_rate`` or
        ``max_in_flight_per_point``.
        """
        self._require_process()
        probability = self._configuration.probability(step)
        with self._lock:
            whether, which, where = self._numbers.take()
            bucket = self._contents.choose(which) if whether < probability else None
            if bucket is None:
                return None
            point = bucket.choose(where)
            number, self._restarts = self._restarts, self._restarts + 1
            self._episodes[number] = _Episode(bucket.key, point.serial)
            bucket.restarts += 1
            self._contents.count_in_flight(point, 1)
        ticket = Ticket(self._identity, number)
        try:
            decoded = decode_point(point.record)
            return Restart(
                snapshot=bytes(decoded.snapshot),
                frame_stack=decoded.stack.copy(),
                values=dict(point.values),
                key=point.key,
                serial=point.serial,
                steps_used=point.steps_used,
                ticket=ticket,
            )
        except BaseException:
            with self._lock:
                self._close(number, "draw")[1].abandoned += 1
                self._abandoned += 1
            raise

    def reached(self, restart: Restart, values: Any) -> bool:
        """A marker was confirmed while that episode plays.

        The episode has advanced when a marker's values are within the bounds and its key is deeper
        than the one of the bucket that the episode started from: larger by the first value that
        differs. Whether the pool has such a bucket does not matter.

        Parameters
        ----------
        restart : Restart
        values : mapping of str to int

        Returns
        -------
        bool
            Whether the episode has advanced, by this marker or an earlier one.

        Raises
        ------
        OrderError
            The episode has been finished or abandoned.
        ConfigurationError
            ``restart`` is none of this pool's.
        MarkerLabelError, MarkerTypeError, MarkerOverflowError
            As for `offer`.
        """
        number = self._require_own(restart)
        checked = self._markers.checked(values)
        counts = self._markers.refusal(checked) is None
        with self._lock:
            episode = self._require_open(number, "reached")
            if counts and self._markers.key(checked) > episode.key:
                episode.advanced = True
            return episode.advanced

    def finish(
        self, restart: Restart, *, timed_out: bool = False, steps: int | None = None
    ) -> None:
        """The episode has ended, however it did. Each restart is finished or abandoned once.

        Its bucket's window gets one entry, whether or not the point or the bucket is still there.
        A time-out is counted for the point, which leaves the pool at the configured number. Where
        the point has left already, the report is late, and touches no other point.

        Parameters
        ----------
        restart : Restart
        timed_out : bool, optional
            Whether it ran out of actions.
        steps : int, optional
            How long it was, for the bucket's median.

        Raises
        ------
        OrderError
            The episode has been finished or abandoned.
        ConfigurationError
            ``restart`` is none of this pool's, or an argument is of another kind.
        """
        number = self._require_own(restart)
        if not isinstance(timed_out, bool | np.bool_):
            raise ConfigurationError(f"finish: timed_out={timed_out!r} has to be True or False")
        if steps is not None and not (is_int(steps) and 0 <= steps < 2**63):
            raise ConfigurationError(
                f"finish: steps={shown(steps)} has to be an int from 0 to 2**63 - 1"
            )
        with self._lock:
            episode, bucket, point = self._close(number, "finish")
            bucket.enter(episode.advanced, None if steps is None else int(steps))
            bucket.timeouts += bool(timed_out)
            if point is None:
                bucket.late_reports += 1
            elif timed_out:
                point.timeouts += 1
                if point.timeouts >= self._configuration.max_timeouts_per_point:
                    self._contents.take_out(point)
                    bucket.dropped += 1
                    self._dropped += 1

    def abandon(self, restart: Restart) -> None:
        """The episode's worker died, or the run stops: nothing is learnt from it.

        Parameters
        ----------
        restart : Restart

        Raises
        ------
        OrderError
            The episode has been finished or abandoned.
        ConfigurationError
            ``restart`` is none of this pool's.
        """
        number = self._require_own(restart)
        with self._lock:
            _, bucket, _ = self._close(number, "abandon")
            bucket.abandoned += 1
            self._abandoned += 1

    def stats(self) -> dict[str, Any]:
        """Counts since the pool was made, as plain numbers and dicts; enough to see a dead end.

        ``points``, ``bytes`` (of them, compressed); ``draws``, ``restarts`` (draws that gave one),
        ``in_flight`` (restarts that are neither finished nor abandoned), ``abandoned``; ``offers``
        (refused ones too), ``offers_of_restarts`` (of episodes that began at a point, as far as
        ``offer`` was told), ``offers_refused`` (by the bound that was broken, and so are points
        that a load refused), ``dropped_points`` (for their time-outs) and ``unfit_points`` (for
        their stack's format).

        ``buckets`` has for each key, in order, also where the points are gone: ``points``,
        ``bytes``, ``weight`` (relative, in the choice of a bucket), ``restarts``, ``in_flight``,
        ``finished``, ``advance_rate`` (over the window; None while it is empty), ``timeouts``,
        ``late_reports`` (about points that were gone), ``abandoned``, ``median_steps`` (of the
        window's episodes whose length ``finish`` was told, or None), ``dropped_points`` and
        ``overwritten_points``. These start anew when points are loaded.

        Notes
        -----
        A dead end shows as a bucket whose ``timeouts`` follow its ``finished``, and whose
        ``dropped_points`` rise; a wrapper that ends every restart at its first step as a
        ``median_steps`` of 1. Looks at each bucket.
        """
        self._require_process()
        with self._lock:
            in_flight = Counter(episode.key for episode in self._episodes.values())
            buckets = {
                key: {
                    **bucket.stats(),
                    "weight": self._contents.weight(bucket) if bucket.points else 0.0,
                    "in_flight": in_flight[key],
                }
                for key, bucket in sorted(self._contents.buckets.items())
            }
            return {
                "points": len(self._contents.live),
                "bytes": self._contents.nbytes,
                "draws": self._numbers.drawn,
                "restarts": self._restarts,
                "in_flight": len(self._episodes),
                "abandoned": self._abandoned,
                "offers": self._offers,
                "offers_of_restarts": self._offers_of_restarts,
                "offers_refused": dict(self._refused),
                "dropped_points": self._dropped,
                "unfit_points": self._unfit,
                "buckets": buckets,
            }

    def check(self) -> None:
        """Raise `InvariantError` where an invariant is broken.

        For tests: it reads every point, and holds the lock meanwhile.
        """
        self._require_process()
        with self._lock:
            broken = next(self._broken(), None)
        if broken is not None:
            raise InvariantError(f"RestartPool: {broken}")

    def __len__(self) -> int:
        """Points held."""
        return len(self._contents.live)

    def buckets(self) -> dict[Key, int]:
        """How many points each bucket holds that holds any, by key in order."""
        self._require_process()
        with self._lock:
            return {bucket.key: len(bucket.points) for bucket in self._contents.filled()}

    def __repr__(self) -> str:
        contents = self._contents  # without the lock, which in a forked copy may be held for ever
        points, buckets = len(contents.live), len(contents.filled())
        key = ", ".join(map(repr, self._configuration.key))
        return f"<RestartPool: {points} points in {buckets} buckets by {key}>"

    def __reduce__(self) -> NoReturn:
        raise CopyError(
            "a RestartPool cannot be copied, pickled or sent to another process: two pools would "
            "draw one sequence; make another, or save its points and load them"
        )

    def _require_own(self, restart: Any) -> int:
        """The number of a restart that this pool has drawn."""
        self._require_process()
        if not isinstance(restart, Restart):
            raise ConfigurationError(
                f"{type(restart).__name__} is no Restart; give what draw returned"
            )
        if restart._ticket.pool != self._identity:
            raise ConfigurationError(
                f"the restart at {restart.key} was drawn from another pool; report it there"
            )
        return restart._ticket.number

    # What follows is called with the lock held.

    def _require_open(self, number: int, call: str) -> _Episode:
        if number not in self._episodes:
            raise OrderError(
                f"{call}: restart {number} has been finished or abandoned; each is so once"
            )
        return self._episodes[number]

    def _close(self, number: int, call: str) -> tuple[_Episode, Bucket, Point | None]:
        """End an episode; its bucket, and its point where the pool still has it."""
        episode = self._require_open(number, call)
        del self._episodes[number]
        bucket = self._contents.bucket(episode.key)
        point = self._contents.live.get(episode.serial)
        if point is not None:
            self._contents.count_in_flight(point, -1)
        return episode, bucket, point

    def _require_format(self, stack: NDArray[Any]) -> None:
        """Refuse a stack of another format than those that were offered before."""
        if self._stack is None or self._stack_is_filed:
            return
        if stack.shape != self._stack.shape:
            raise ShapeError(
                f"frame_stack has shape {stack.shape}, and this pool's have {self._stack.shape}; "
                "points of another machine need another pool"
            )
        if stack.dtype != self._stack.dtype:
            raise DTypeError(
                f"frame_stack has dtype {stack.dtype}, and this pool's have {self._stack.dtype}"
            )

    def _take_format(self, stack: NDArray[Any]) -> str | None:
        """Let a live stack settle the format; what to say where filed points have another."""
        live = StackFormat.of(stack)
        filed, self._stack_is_filed = self._stack if self._stack_is_filed else None, False
        self._stack = live
        if filed is None or filed == live:
            return None
        unfit = len(self._contents.live)
        for point in list(self._contents.live.values()):
            self._contents.take_out(point)
        self._unfit += unfit
        return (
            f"{unfit} restart points that came from a file were dropped: their frame stacks are "
            f"{filed}, and the one that was offered now is {live}"
        )

    def _broken(self) -> Iterator[str]:
        """What is wrong, if anything is."""
        open_draws = Counter(episode.serial for episode in self._episodes.values())
        yield from self._contents.broken(self._markers, open_draws, self._next_serial)
        if not len(self._episodes) <= self._restarts <= self._numbers.drawn:
            yield (
                f"{len(self._episodes)} episodes of {self._restarts} restarts of "
                f"{self._numbers.drawn} draws"
            )
