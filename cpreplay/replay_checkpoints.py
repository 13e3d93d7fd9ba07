"""Saving a buffer, and taking up what was saved: one base for host and device buffers.

What a buffer is at one moment lies in three places: rows, which a `Snapshot` reads while adds go
on; leaves; and some numbers. All are copied or marked under one hold of the buffer's lock.
"""

import functools
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.checkpoint.background import BackgroundSaves
from cpreplay.checkpoint.replay_file import Columns, Moment, ReplayFile, write_replay
from cpreplay.control import new_control, ring_size
from cpreplay.errors import CheckpointError, OrderError
from cpreplay.known_total import KnownTotal
from cpreplay.ops import Ops
from cpreplay.philox import checked_seed, splitmix64
from cpreplay.policies import Policy
from cpreplay.replay_state import (
    SAVED_FIELDS,
    CheckedState,
    Spans,
    about_buffer,
    checked_state,
    refuse_misfit,
    small_state,
)
from cpreplay.schema import Layout
from cpreplay.snapshots import Snapshot

# Leaves that are set at a time.
_PART = 1 << 20


class Checkpoints:
    """What a buffer offers to be saved and taken up again."""

    _capacity: int
    _layout: Layout
    _seed: int | None
    _policy: Policy
    _lock: threading.Lock
    _ops: Ops
    _known: KnownTotal

    def _begin_checkpoints(self) -> None:
        """Part of the construction."""
        # Over the buffer's lock: who waits for a snapshot lets others go on.
        self._changed = threading.Condition(self._lock)
        self._snapshots: list[Snapshot] = []
        self._saves = BackgroundSaves()

    @property
    def seed(self) -> int | None:
        """The seed, also where it came from the system."""
        return self._seed

    # Saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that decides what is drawn from here on into one file.

        A buffer that takes it up with `resume` or `load` gives the same minibatches, byte for byte,
        as this one does after this moment: rows, priorities, the policy in force with its
        counters, and the state of the generator. Batches that were drawn before are not part
        of it: give their TD errors back first.

        Parameters
        ----------
        path : path-like
            Written beside it and put in its place when it is whole and on disk, so that whenever
            the program is stopped, the old file or the new one is there.

        Raises
        ------
        OSError
            The file cannot be written. What was at ``path`` is still there.
        ConfigurationError
            One row takes more than 1 GiB.
        CaptureError
            Device only: the stream is capturing.

        Notes
        -----
        The format is open: ``zstd -dc FILE | tar -xf -`` gives .npy and .json files. Memory beside
        the buffer is a copy of the leaves and some 40 MiB, or ten rows where one takes more than
        4 MiB. Waits for saves in the background of this buffer, which are of before. On the host
        other threads may go on adding and sampling, as in `save_in_background`. On the device this
        waits, adds of other threads wait until it is done, and no graph that adds may be replayed
        meanwhile.
        """
        self._saves.drain()  # or an older one would take this one's place
        self._write(path, *self._begin_save(None, apart=False))

    def save_in_background(self, path: str | os.PathLike[str]) -> "Future[Path]":
        """Write what the buffer is now, in a thread of its own, while it goes on being used.

        Parameters
        ----------
        path : path-like
            As in `save`.

        Returns
        -------
        concurrent.futures.Future
            Of the path, once the file is whole and on disk. ``result()`` raises what went wrong.

        Raises
        ------
        MemoryLimitError
            Device only: the copy on the card does not fit.
        CaptureError
            Device only: the stream is capturing.

        Notes
        -----
        One save runs at a time. A second one waits, and is of the moment at which its turn comes; a
        third takes the place of the second, whose future is then cancelled.

        On the host, rows are marked now and read later, oldest first: an add that would overwrite
        a chunk of 4 MiB that was not read yet copies it first, and waits where eight such copies
        are unread. On the device, this waits, and copies the rows held on the card first: as much
        memory again as they take, until they are written. A save that waited does so in its own
        thread, on the stream that was current at the call.
        """
        return self._submit(path, functools.partial(self._begin_save, None, apart=True))

    def state(self) -> dict[str, Any]:
        """What `save` writes, as plain arrays and numbers. Waits for the device.

        Returns
        -------
        dict
            ``about`` (capacity, columns, whether it is prioritized), ``state`` (the control block,
            the generator and the seed), ``leaves`` (float32, (rows held,); None without
            priorities), and ``rows``, which maps each column to an array of the rows held, in its
            storage dtype. Copies.
        """
        moment, snapshot = self._begin_save(None, apart=False)
        try:
            size = _rows_held(moment, self._capacity)
            rows = {
                column.name: np.empty((size, *column.shape), column.stored)
                for column in self._layout.columns
            }
            for first, columns in snapshot.chunks():
                for name, values in columns.items():
                    rows[name][first : first + len(values)] = values
        finally:
            self._end_save(snapshot)
        return {"about": moment.about, "state": moment.state, "leaves": moment.leaves, "rows": rows}

    # Taking up

    def restore(self, state: Mapping[str, Any], *, seed: int | None = None) -> None:
        """Become what `state` was given of, here or in another buffer of the same form.

        Parameters
        ----------
        state : mapping
            What `state` gave.
        seed : int, optional
            As in `resume`.

        Raises
        ------
        CheckpointError
            It does not fit this buffer, or is no such state. Nothing was changed then, unless it
            was found out by the rows: the buffer is empty then, as a note of the error says.
        ConfigurationError
            ``seed`` is no int in [0, 2**64).
        OrderError
            A save is being written.
        """
        try:
            moment = Moment(
                about=dict(state["about"]), state=dict(state["state"]), leaves=state["leaves"]
            )
            columns = {
                str(name): np.asarray(values, order="C") for name, values in state["rows"].items()
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CheckpointError(f"this is not what state() gave: {error!r}") from None
        refuse_misfit(moment.about, self._about())
        rows = self._check_columns(columns)
        checked = checked_state(
            moment.state, moment.leaves, self._capacity, self._policy.prioritized
        )
        if rows != checked.size:
            raise CheckpointError(
                f"this state says that {checked.size} rows are held, and its columns have {rows} "
                "rows; give it as state() gave it"
            )
        self._take_up(checked, [(0, columns)] if rows else [], seed)

    def resume(
        self,
        path: str | os.PathLike[str],
        *,
        seed: int | None = None,
        drop_pending: bool = False,
    ) -> None:
        """Become the buffer that was saved, in the memory that exists.

        Graphs that were captured, and batches that were made, stay good.

        Parameters
        ----------
        path : path-like
            What `save` wrote, here or on the other back end.
        seed : int, optional
            Begin another stream of draws, instead of going on with the saved one. Needed where the
            two draw differently: a device, or a host buffer with ``rng="philox"``, cannot go on
            with PCG64.
        drop_pending : bool
            Take the rows of an n-step block without its pending steps.

        Raises
        ------
        CheckpointError
            The file is damaged, of a later version, or does not fit: capacity, columns, dtypes,
            priorities, generator. The message says which, and nothing was changed, unless it was
            found out by the rows: the buffer is empty then, as a note of the error says.
        OSError
            The file cannot be read. Where that happens at its rows, the buffer is empty likewise.
        ConfigurationError
            ``seed`` is no int in [0, 2**64).
        OrderError
            A save of this buffer is being written.
        CaptureError
            Device only: the stream is capturing.

        Notes
        -----
        Checksums of the whole file are compared before anything is changed, so it is read twice.
        Waits for the device. Draw tokens of batches that were drawn before are void afterwards.
        """

        def without_pending(moment: Moment) -> Callable[[], None]:
            refuse_pending(path, moment, drop_pending)
            return lambda: None

        self._resume(path, seed, without_pending)

    # Parts of the above

    def _make_room(self, rows: int) -> None:
        """Let snapshots keep what so many adds will overwrite. May wait, and let others go on."""
        while not all([snapshot.set_aside(self._ops.pieces(rows)) for snapshot in self._snapshots]):
            self._changed.wait()

    def _begin_save(
        self, pending: dict[str, Any] | None, *, apart: bool
    ) -> tuple[Moment, Snapshot]:
        with self._lock:
            control = self._ops.control()
            size = ring_size(int(control["total"]), self._capacity)
            priorities = self._ops.priorities
            snapshot = self._ops.snapshot(size, self._changed, apart=apart)
            moment = Moment(
                about=self._about(),
                state=small_state(control, self._ops.generator(), self.seed, self._policy),
                leaves=priorities.leaves(size) if priorities else None,
                pending=pending,
            )
            self._snapshots.append(snapshot)
        return moment, snapshot

    def _submit(
        self, path: str | os.PathLike[str], begin_save: Callable[[], tuple[Moment, Snapshot]]
    ) -> "Future[Path]":
        """Begin a save when its turn comes, and write it in the background."""

        begun: list[Snapshot] = []

        def begin() -> Callable[[], Path]:
            moment, snapshot = begin_save()
            begun.append(snapshot)
            return functools.partial(self._write, path, moment, snapshot)

        try:
            return self._saves.submit(self._ops.here(begin))
        except BaseException:  # an interrupt, after which nobody may be writing
            for snapshot in begun:
                self._end_save(snapshot)
            raise

    def _end_save(self, snapshot: Snapshot) -> None:
        with self._lock:
            if snapshot in self._snapshots:
                self._snapshots.remove(snapshot)
        snapshot.close()

    def _write(self, path: str | os.PathLike[str], moment: Moment, snapshot: Snapshot) -> Path:
        try:
            rows = _rows_held(moment, self._capacity)
            write_replay(path, {"rows": rows}, moment, snapshot.chunks())
        finally:
            self._end_save(snapshot)
        return Path(path)

    def _resume(
        self,
        path: str | os.PathLike[str],
        seed: int | None,
        check_pending: Callable[[Moment], Callable[[], None]],
    ) -> None:
        """`resume`, where ``check_pending`` gives what takes up the pending steps, or raises."""
        with ReplayFile(path) as file:
            refuse_misfit(file.header, self._about())
            file.verify()
            moment = file.moment()
            take_pending = check_pending(moment)
            checked = self._checked(file.header, moment)
            self._take_up(checked, file.chunks(), seed)
            take_pending()

    def _checked(self, header: Mapping[str, Any], moment: Moment) -> CheckedState:
        """The state in a file, whose header says the same of it."""
        checked = checked_state(
            moment.state, moment.leaves, self._capacity, self._policy.prioritized
        )
        says = {"rows": header.get("rows"), "pending": header.get("pending")}
        has = {"rows": checked.size, "pending": moment.pending is not None}
        if says != has:
            raise CheckpointError(f"the file's header says {says}, and its state {has}")
        return checked

    def _about(self) -> dict[str, Any]:
        return about_buffer(self._layout.columns, self._capacity, self._policy.prioritized)

    def _take_up(
        self, checked: CheckedState, chunks: Iterable[tuple[int, Columns]], seed: int | None
    ) -> None:
        """Become what a state and its rows say."""
        seed = None if seed is None else checked_seed(seed)
        with self._lock:
            if self._snapshots:
                raise OrderError("a save of this buffer is being written; wait for its future")
            before = ring_size(self._ops.total(), self._capacity)
            take_generator = self._ops.check_generator(checked.generator, seed)
            touched = max(before, checked.size)
            try:
                self._forget(touched)
                self._put_chunks(chunks, checked.size)
                self._ops.clear_rows(checked.size, before)
                take_generator()
                self._become(checked, seed)
            except BaseException as error:
                # What was here is overwritten, and what was to come is not whole.
                self._ops.clear_rows(0, touched)
                self._forget(touched)
                if before:
                    error.add_note("What the buffer held before is overwritten: it is empty now.")
                raise

    def _become(self, checked: CheckedState, seed: int | None) -> None:
        """Take up everything but the rows and the generator."""
        self._seed = checked.seed if seed is None else seed
        control = dict(checked.control)
        if self._seed is not None:
            control["key"] = splitmix64(self._seed)
        if checked.leaves is not None:
            self._set_leaves(checked.leaves)
        self._set_control(control)
        self._policy = attrs.evolve(checked.policy)
        self._known.restore(int(control["total"]))
        self._ops.synchronize()  # a graph may be replayed at once, on another stream

    def _forget(self, rows: int) -> None:
        """Hold nothing, as when the buffer was made; ``rows`` leaves may not be 0."""
        new = new_control(self._capacity, 0)[0]
        if self._ops.priorities is not None:
            self._set_leaves(np.broadcast_to(np.float32(0.0), rows))
        self._set_control({name: new[name].item() for name in SAVED_FIELDS})
        self._policy = Policy(prioritized=self._policy.prioritized)
        self._known.restore(0)

    def _set_leaves(self, leaves: NDArray[np.float32]) -> None:
        """Set the leaves of the first rows, a part at a time."""
        assert self._ops.priorities is not None
        for first in range(0, len(leaves), _PART):
            self._ops.priorities.set_leaves(first, leaves[first : first + _PART])

    def _set_control(self, fields: dict[str, int | float]) -> None:
        """Set the control block, with a run number that makes tokens drawn before void."""
        if self._ops.priorities is None:
            self._ops.set_control(fields)
            return
        run = secrets.randbits(64)
        self._ops.set_control({**fields, "run": run})
        self._ops.priorities.take_up(run)

    def _put_chunks(self, chunks: Iterable[tuple[int, Columns]], size: int) -> None:
        """Put rows [0, size) in their places; each has to come exactly once."""
        spans = Spans()
        for first, columns in chunks:
            spans.add(first, self._check_columns(columns), size)
            self._ops.put_rows(first, columns)
        if spans.rows != size:
            raise CheckpointError(f"{size - spans.rows} of {size} rows are missing")

    def _check_columns(self, columns: Columns) -> int:
        """How many rows some columns have; refused where they are not those of this buffer."""
        expected = {column.name: column for column in self._layout.columns}
        if columns.keys() != expected.keys():
            raise CheckpointError(
                f"rows have the columns {', '.join(columns)}, and {', '.join(expected)} are wanted"
            )
        rows = len(columns["reward"]) if columns["reward"].ndim else 0
        for name, values in columns.items():
            column = expected[name]
            if values.shape != (rows, *column.shape) or values.dtype != column.stored:
                raise CheckpointError(
                    f"column {name} is {values.dtype} of shape {values.shape}, and {column.stored} "
                    f"of shape {(rows, *column.shape)} is wanted"
                )
            if column.stored.kind == "b" and (values.view(np.uint8) > 1).any():
                raise CheckpointError(f"column {name} has booleans that are neither 0 nor 1")
        return rows


B = TypeVar("B", bound=Checkpoints)


def loaded(
    path: str | os.PathLike[str],
    make: Callable[[dict[str, Any], str], B],
    *,
    seed: int | None,
    drop_pending: bool,
) -> B:
    """A new buffer, made to fit a file's header and generator, that takes it up."""
    with ReplayFile(path) as file:
        moment = file.moment()
        refuse_pending(path, moment, drop_pending)
        generator = moment.state.get("generator")
        name = generator.get("name") if isinstance(generator, Mapping) else None
        buffer = make(file.header, str(name))
        checked = buffer._checked(file.header, moment)
        buffer._take_up(checked, file.chunks(), seed)
    return buffer


def refuse_pending(path: str | os.PathLike[str], moment: Moment, drop: bool) -> None:
    """Raise where a file has pending steps, which a buffer alone cannot take up."""
    if moment.pending is not None and not drop:
        raise CheckpointError(
            f"{os.fspath(path)} holds pending steps of an n-step block; resume it through that "
            "block, or give drop_pending=True to lose them"
        )


def _rows_held(moment: Moment, capacity: int) -> int:
    return ring_size(int(moment.state["control"]["total"]), capacity)
