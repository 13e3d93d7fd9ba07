"""The state of a replay buffer as records of a checkpoint file, and back.

It knows plain arrays and numbers, and no class of buffers. ``docs/checkpoint-format.md`` lists the
members.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import TracebackType
from typing import Any, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.checkpoint.container import RecordReader, written_records
from cpreplay.checkpoint.damage import damaged_records
from cpreplay.checkpoint.members import json_member, members_of, npy_member, read_json, read_npy
from cpreplay.errors import CheckpointError

KIND = "replay"

# Arrays other than rows go into records of about this size.
_PART_BYTES = 16 * 1024 * 1024

Columns = dict[str, NDArray[Any]]


@attrs.frozen(kw_only=True)
class Moment:
    """A buffer at one moment, save for its rows."""

    #: What a buffer has to be to take this up: capacity, columns, prioritized. Values of JSON.
    about: dict[str, Any]
    #: The control block, the generator, and what else is one number. Values of JSON.
    state: dict[str, Any]
    #: Leaves of the sum tree, float32 (rows held,); None without priorities.
    leaves: NDArray[np.float32] | None = None
    #: Of an n-step block: its settings, and its pending steps (environments, n, ...).
    pending: dict[str, Any] | None = None


def write_replay(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    moment: Moment,
    chunks: Iterable[tuple[int, Columns]],
) -> None:
    """Write a moment, and rows from anywhere that gives (first row, columns)."""
    pending = moment.pending
    about = {"kind": KIND, **moment.about, "pending": pending is not None, **header}
    with written_records(path, about) as writer:
        writer.write(json_member("state.json", moment.state))
        if moment.leaves is not None:
            for first, part in _parts(moment.leaves):
                writer.write(npy_member(f"leaves/{first:012}.npy", part))
        if pending is not None:
            writer.write(json_member("pending.json", pending["settings"]))
            for name, array in pending["steps"].items():
                for first, part in _parts(array):
                    writer.write(npy_member(f"pending/{name}/{first:012}.npy", part))
        for first, columns in chunks:
            members = [
                npy_member(f"rows/{first:012}/{name}.npy", array) for name, array in columns.items()
            ]
            writer.write(list(chain.from_iterable(members)))


class ReplayFile:
    """A checkpoint of a replay buffer, to be read from its beginning to its end.

    Call `moment` first, then `chunks`.

    Parameters
    ----------
    path
        The file.
    salvage : bool
        Step over damaged records instead of raising.

    Raises
    ------
    CheckpointError
        It is no such file, or damaged; the message names the records.
    """

    def __init__(self, path: str | os.PathLike[str], *, salvage: bool = False) -> None:
        self._path = os.fspath(path)
        self._salvage = salvage
        self._reader = RecordReader(path)
        try:
            self.header: dict[str, Any] = self._reader.header
            kind = self.header.get("kind")
            if kind != KIND:
                raise CheckpointError(
                    f"{self._path} is a checkpoint of kind {kind!r}, and {KIND!r} is wanted"
                )
        except BaseException:
            self._reader.close()
            raise
        self._members = self._records()
        self._held: dict[str, memoryview] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.close()

    def verify(self) -> None:
        """Raise where any record is damaged. Reads the whole file, and decodes nothing."""
        self._refuse_damage(self._reader.verify())

    def moment(self) -> Moment:
        """Everything but the rows. The header's claims are those of `Moment.about`."""
        state: dict[str, Any] | None = None
        leaves: list[NDArray[Any]] = []
        settings: Any = None
        steps: dict[str, list[NDArray[Any]]] = {}
        for members in self._members:
            if any(name.startswith("rows/") for name in members):
                self._held = members
                break
            for name, content in members.items():
                match name.split("/"):
                    case ["state.json"]:
                        if state is not None:
                            raise CheckpointError(f"{self._path} has state.json twice")
                        state = self._json(content, name)
                    case ["leaves", _] if not self._salvage:
                        leaves.append(self._next_part(leaves, name, content))
                    case ["pending.json"]:
                        if settings is not None:
                            raise CheckpointError(f"{self._path} has pending.json twice")
                        settings = self._json(content, name)
                    case ["pending", column, _] if not self._salvage:
                        parts = steps.setdefault(column, [])
                        parts.append(self._next_part(parts, name, content))
        if state is None and not self._salvage:
            raise CheckpointError(f"{self._path} has no state.json before its rows")
        return Moment(
            about=self.header,
            state=state or {},
            leaves=_joined(leaves) if self.header.get("prioritized") is True else None,
            pending=None
            if settings is None
            else {
                "settings": settings,
                "steps": {name: _joined(parts) for name, parts in steps.items()},
            },
        )

    def chunks(self) -> Iterator[tuple[int, Columns]]:
        """Rows as (first row, columns), in the file's order. Columns are read-only views."""
        held = [] if self._held is None else [self._held]
        for members in chain(held, self._members):
            try:
                chunk = self._chunk(members)
            except CheckpointError:
                if not self._salvage:
                    raise
                continue
            if chunk is not None:
                yield chunk

    def _chunk(self, members: Mapping[str, memoryview]) -> tuple[int, Columns] | None:
        """The rows in one record; None where it holds none."""
        columns: Columns = {}
        places = set()
        for name, content in members.items():
            match name.split("/"):
                case ["rows", row, column] if row.isascii() and row.isdigit() and len(row) <= 12:
                    places.add(int(row))
                    columns[column.removesuffix(".npy")] = _rows_of(content, name)
        if len(places) > 1:
            raise CheckpointError(f"{self._path}: one record has rows of several places")
        return (places.pop(), columns) if places else None

    def _records(self) -> Iterator[dict[str, memoryview]]:
        for _, record in self._reader:
            try:
                members = members_of(record)
            except CheckpointError:
                if not self._salvage:
                    raise
                continue
            yield members
        if not self._salvage:
            self._refuse_damage(self._reader.damaged)

    def _refuse_damage(self, damaged: list[int]) -> None:
        if damaged or not self._reader.complete:
            cut = "" if self._reader.complete else "; its end is missing"
            numbers = damaged_records(damaged) if damaged else ""
            raise CheckpointError(
                f"{self._path} is damaged: {numbers or 'it was cut'}{cut}. Use an older file, or "
                "take what is whole with salvage"
            )

    def _json(self, content: memoryview, name: str) -> dict[str, Any]:
        value = read_json(content, name)
        if not isinstance(value, dict):
            raise CheckpointError(f"{self._path}: {name} holds a {type(value).__name__}")
        return value

    def _next_part(self, parts: list[NDArray[Any]], name: str, content: memoryview) -> NDArray[Any]:
        """A part of an array that begins where the last one ended."""
        array = _rows_of(content, name)
        at = sum(len(part) for part in parts)
        if array.ndim == 0 or name.rpartition("/")[2] != f"{at:012}.npy":
            raise CheckpointError(f"{self._path}: {name} does not follow the {at} items before it")
        if parts and (parts[0].shape[1:], parts[0].dtype) != (array.shape[1:], array.dtype):
            raise CheckpointError(f"{self._path}: {name} is of another form than the part before")
        return array


def _rows_of(content: memoryview, name: str) -> NDArray[Any]:
    """An array row by row; only one that another program stored column by column is copied."""
    return np.asarray(read_npy(content, name), order="C")


def _parts(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """An array along its first axis, in parts; one part where it is empty."""
    step = max(1, _PART_BYTES // max(1, array.itemsize * math.prod(array.shape[1:])))
    for first in range(0, max(1, len(array)), step):
        yield first, array[first : first + step]


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if not parts:
        return np.empty(0, np.float32)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
