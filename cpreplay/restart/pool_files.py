"""The files of a restart pool: its points saved, and taken in the place of those held."""

import os
import threading
import warnings
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

from cpreplay.checkpoint.background import BackgroundSaves
from cpreplay.checkpoint.encoding import EncodedRecord
from cpreplay.errors import CheckpointError, CheckpointWarning, CopyError
from cpreplay.restart.configuration import RestartPoolConfiguration
from cpreplay.restart.contents import Contents
from cpreplay.restart.draws import DrawNumbers
from cpreplay.restart.files import (
    FILE_NAME,
    AboutPoints,
    FiledPoints,
    read_points,
    write_points,
)
from cpreplay.restart.marker import Key, Markers
from cpreplay.restart.point import Point, StackFormat


class PoolFiles:
    """What a restart pool offers to be saved and loaded; `RestartPool` has the rest."""

    _configuration: RestartPoolConfiguration
    _limit: int | None
    _machine: str | None
    _markers: Markers
    _lock: threading.Lock
    _numbers: DrawNumbers
    _contents: Contents
    _stack: StackFormat | None
    _stack_is_filed: bool  # so that a live stack of another format may replace it
    _next_serial: int
    _next_name: int
    _loads: int
    _refused: dict[str, int]

    def _begin_files(self) -> None:
        """Part of the construction."""
        self._saves = BackgroundSaves()
        self._saving = threading.Lock()
        self._process = os.getpid()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write every point to a file, which is replaced as a whole.

        Points only: windows and counts start anew where they are loaded. The number of the next
        draw is written too.

        Parameters
        ----------
        path : path-like
            A link is followed.

        Raises
        ------
        OSError
            As from writing. What was at ``path`` is still there then.

        Notes
        -----
        Waits for saves in the background first. The file has what the pool holds then, however long
        it takes: points never change, so a copy of the list is enough. Costs writing the compressed
        bytes; the lock is held for the copy.
        """
        self._write(path, 0)

    def save_in_background(self, path: str | os.PathLike[str]) -> Future[Path]:
        """As `save`, in a thread: of what the pool holds now.

        One save runs at a time. One that is asked for meanwhile waits, and cancels one that waits
        already, whatever their paths. A program that ends waits for it.

        Parameters
        ----------
        path : path-like

        Returns
        -------
        concurrent.futures.Future
            Of the path, once the file is whole and on disk. ``result()`` raises what went wrong.
        """
        return self._submit(os.fspath(path), 0)

    def load(self, path: str | os.PathLike[str]) -> int:
        """Put the points of a file in the place of those held, as if offered again, oldest first.

        The bounds and the size of buckets are this pool's, so the newest win where they are
        smaller. Serials are new, windows and counts are empty, and what episodes that were drawn
        before report is late. The number of the next draw becomes the file's where that is larger.

        Parameters
        ----------
        path : path-like

        Returns
        -------
        int
            Points that the pool now holds from the file.

        Raises
        ------
        OSError
            As from reading; FileNotFoundError where nothing is there.

        Warns
        -----
        CheckpointWarning
            The file is no checkpoint of restart points, or has other key labels, another machine,
            a later version, another format of frame stacks than was offered, or no whole point:
            nothing changes then. Or some points are damaged: the others are taken.

        Notes
        -----
        Points are only derived state, which refills in minutes of play, so a damaged file never
        raises. What is offered while the file is read is replaced too. Costs decompressing each
        point once; no lock is held meanwhile.
        """
        taken, remark = self._load(path)
        if remark is not None:
            warnings.warn(remark, CheckpointWarning, stacklevel=2)
        return taken

    @overload
    def save_in_checkpoint(
        self, folder: str | os.PathLike[str], *, background: Literal[False] = False
    ) -> Path | None: ...

    @overload
    def save_in_checkpoint(
        self, folder: str | os.PathLike[str], *, background: Literal[True]
    ) -> Future[Path | None]: ...

    def save_in_checkpoint(
        self, folder: str | os.PathLike[str], *, background: bool = False
    ) -> Path | Future[Path | None] | None:
        """Write ``restart_points.tar.zst`` into a run's checkpoint, if the configuration says so.

        The newest ``checkpoint_points_per_key`` points of each bucket, or all.

        Parameters
        ----------
        folder : path-like
            Has to be there.
        background : bool, optional
            Write what the pool holds now in a thread, as `save_in_background` does.

        Returns
        -------
        Path or None, or a future of that
            Of the file; None where ``save_in_checkpoints`` is off. In the background a
            ``concurrent.futures.Future``, which is done at once where it is off.

        Raises
        ------
        OSError
            As from writing; in the background it is in the future.
        """
        path = Path(folder) / FILE_NAME
        newest = self._configuration.checkpoint_points_per_key
        if not self._configuration.save_in_checkpoints:
            return _done(None) if background else None
        return self._submit(path, newest) if background else self._write(path, newest)

    def restore_from_checkpoint(self, folder: str | os.PathLike[str]) -> int:
        """As `load`, of the file that `save_in_checkpoint` wrote, if the configuration says so.

        Parameters
        ----------
        folder : path-like

        Returns
        -------
        int
            Points taken; 0 where ``save_in_checkpoints`` is off or no file is there.

        Warns
        -----
        CheckpointWarning
            As for `load`, and where the file cannot be read. Nothing about it raises.
        """
        if not self._configuration.save_in_checkpoints:
            return 0
        path = Path(folder) / FILE_NAME
        try:
            taken, remark = self._load(path)
        except (FileNotFoundError, NotADirectoryError):  # a checkpoint from before there were any
            return 0
        except OSError as error:
            taken, remark = 0, f"{path}: no restart points were taken: {error}"
        if remark is not None:
            warnings.warn(remark, CheckpointWarning, stacklevel=2)
        return taken

    def _write(self, path: str | os.PathLike[str], newest: int) -> Path:
        """Wait for saves in the background, then copy what there is, and write it."""
        self._require_process()  # before the wait: in a forked copy nobody would end it
        self._saves.drain()  # or one of another moment would take this one's place
        return write_points(path, *self._copy(newest))

    def _submit(self, path: str | os.PathLike[str], newest: int) -> Future[Any]:
        """Copy what there is to write now, and write it in the background."""
        self._require_process()
        with self._saving:  # or an older copy might take the place of a newer one that waits
            write = partial(write_points, path, *self._copy(newest))
            return self._saves.submit(lambda: write)

    def _load(self, path: str | os.PathLike[str]) -> tuple[int, str | None]:
        """How many points were taken from a file, and what there is to say about it."""

        def require_fit(about: AboutPoints) -> None:
            with self._lock:
                self._require_fit(about)

        self._require_process()
        path = os.fspath(path)
        try:
            filed = read_points(path, self._markers, self._configuration.max_per_key, require_fit)
            with self._lock:
                self._require_fit(filed.about)  # the format of stacks may be settled meanwhile
                self._replace(filed)
        except CheckpointError as error:
            reason = str(error).removeprefix(f"{path}: ")
            return 0, f"{path}: no restart points were taken: {reason}"
        return len(filed.points), None if filed.damage is None else f"{path}: {filed.damage}"

    def _copy(self, newest: int) -> tuple[AboutPoints, list[EncodedRecord]]:
        """What there is to write now: the newest points of each bucket, or with 0 all."""
        with self._lock:
            parts = [bucket.points[-newest:] for bucket in self._contents.filled()]  # [-0:] is all
            about = AboutPoints(
                key=self._configuration.key,
                machine=self._machine,
                stack=self._stack,
                draws=self._numbers.drawn,
                next_name=self._next_name,
                points=sum(map(len, parts)),
                buckets=len(parts),
            )
        return about, [point.record for part in parts for point in part]

    def _require_process(self) -> None:
        """Refuse what a fork has copied, before its lock, which may have been held at the fork."""
        if os.getpid() != self._process:
            raise CopyError(
                "this RestartPool was copied by a fork: what is offered here would not reach the "
                "pool it is a copy of, and both would draw one sequence; keep the pool in one "
                "process, or make one in each"
            )

    # What follows is called with the lock held.

    def _require_fit(self, about: AboutPoints) -> None:
        """Refuse a file whose points are not of this pool's kind."""
        if about.key != self._configuration.key:
            raise CheckpointError(
                f"its key labels are {list(about.key)!a}, and this pool's are "
                f"{list(self._configuration.key)!a}"
            )
        if self._machine is not None and about.machine != self._machine:
            raise CheckpointError(
                f"its snapshots are of the machine {about.machine!a}, and this pool's of "
                f"{self._machine!a}"
            )
        if self._stack_is_filed or None in (self._stack, about.stack):
            return
        if about.stack != self._stack:
            raise CheckpointError(
                f"its frame stacks are {about.stack}, and the ones offered here {self._stack}"
            )

    def _replace(self, filed: FiledPoints) -> None:
        """Put a file's points in the place of those held."""
        self._loads += 1
        self._contents = Contents(self._configuration, self._limit)
        self._next_name = filed.next_name  # of what was held before, nothing is left
        self._numbers.drawn = max(self._numbers.drawn, filed.about.draws)
        for refusal, count in filed.refused.items():
            self._refused[refusal] += count
        if self._stack is None or self._stack_is_filed:
            self._stack, self._stack_is_filed = filed.about.stack, filed.about.stack is not None
        for point in filed.points:
            self._put(point.key, point.values, point.steps_used, point.record)

    def _put(
        self, key: Key, values: dict[str, int], steps_used: int, record: EncodedRecord
    ) -> None:
        """Put in a point under the next serial."""
        self._contents.put(Point(self._next_serial, key, values, steps_used, record))
        self._next_serial += 1


def _done(result: Any) -> Future[Any]:
    """A future that is done."""
    future: Future[Any] = Future()
    future.set_result(result)
    return future
