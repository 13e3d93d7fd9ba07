"""A restart point as the pool keeps it, encoded, and a restart as a draw gives it."""

import re
import threading
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.checkpoint.encoding import RECORD_LIMIT, EncodedRecord, Encoder, decode
from cpreplay.checkpoint.members import (
    json_member,
    member,
    members_of,
    npy_member,
    read_json,
    read_npy,
)
from cpreplay.errors import CheckpointError, ConfigurationError, DTypeError, ShapeError
from cpreplay.restart.marker import Key

_NAME = re.compile(r"points/([0-9]{12,18})")  # a reader of files takes less, see `files`
_SUFFIXES = (".snapshot", ".stack.npy", ".json")

_encoders = threading.local()  # an encoder must not be shared between threads


@attrs.define(eq=False)
class Point:
    """What the pool holds of a restart point."""

    serial: int
    key: Key
    values: Mapping[str, int]
    steps_used: int
    record: EncodedRecord
    timeouts: int = 0
    in_flight: int = 0  # draws that nothing has been reported about


@attrs.frozen
class Ticket:
    """Which draw of which pool a restart is."""

    pool: int
    number: int


@attrs.frozen(kw_only=True, eq=False)
class Restart:
    """Where an episode starts: what `RestartPool.draw` gives, and all of it the caller's own.

    Attributes
    ----------
    snapshot : bytes
        The machine's state, as it was offered.
    frame_stack : array
        The observation at that moment: a fresh copy, writable. It is the episode's first
        observation; what a machine shows before its next step may be from before the restore.
    values : dict
        Marker values, label to int.
    key : tuple of int
        Of the bucket that the episode starts from.
    serial : int
        The point's number, which no other point of this pool ever has.
    steps_used : int
        As it was offered.
    """

    snapshot: bytes = attrs.field(repr=lambda snapshot: f"<{len(snapshot)} bytes>")
    frame_stack: NDArray[Any] = attrs.field(repr=lambda stack: f"<{stack.dtype}{stack.shape}>")
    values: dict[str, int]
    key: Key
    serial: int
    steps_used: int
    _ticket: Ticket = attrs.field(repr=False)


@attrs.frozen
class StackFormat:
    """What the frame stacks of one pool have in common."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, stack: NDArray[Any]) -> "StackFormat":
        """The format of a stack."""
        return cls(stack.shape, stack.dtype)

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


def checked_snapshot(snapshot: Any) -> memoryview:
    """A snapshot as bytes, of any length; not copied."""
    try:
        view = memoryview(snapshot)
    except (TypeError, ValueError):  # no buffer, or one that has been released
        view = None
    if view is None or view.format.lstrip("@=<>!") not in ("B", "b", "c"):
        kind = type(snapshot).__name__ if view is None else f"buffer of format {view.format!r}"
        raise DTypeError(
            f"snapshot is a {kind}; give the machine's state as bytes, or as an array of uint8"
        )
    try:
        return view.cast("B")
    except (TypeError, ValueError):  # not contiguous, empty in several dimensions, or of "<B"
        return memoryview(view.tobytes())


def checked_stack(frame_stack: Any) -> NDArray[Any]:
    """A frame stack as an array of numbers, in any order; copied only where it is none."""
    if frame_stack is None:
        raise DTypeError(
            "frame_stack is None; a point needs the observation at its moment, with all stacked "
            "frames: without it a restart shows the policy a world in which nothing moves"
        )
    try:
        stack: NDArray[Any] = np.asarray(frame_stack)
    except ValueError as error:
        raise ShapeError(f"frame_stack is no array: {error}") from None
    if stack.dtype.kind not in "buif":
        raise DTypeError(
            f"frame_stack is a {type(frame_stack).__name__} of dtype {stack.dtype}; give an array "
            "of numbers"
        )
    if not stack.size or not stack.ndim:
        raise ShapeError(f"frame_stack has shape {stack.shape}, which holds no frame")
    return stack


def encode_point(
    number: int,
    snapshot: memoryview,
    stack: NDArray[Any],
    values: Mapping[str, int],
    steps_used: int,
) -> EncodedRecord:
    """One record of three members, as it is kept in memory and written to files.

    Thread-safe. ``number`` makes the members' names, which have to differ within a file.
    """
    name = f"points/{number:012d}"
    if not hasattr(_encoders, "encoder"):
        _encoders.encoder = Encoder()
    record: EncodedRecord = _encoders.encoder.encode(
        [
            *member(f"{name}.snapshot", snapshot),
            *npy_member(f"{name}.stack.npy", stack),
            *json_member(f"{name}.json", {"values": dict(values), "steps_used": steps_used}),
        ]
    )
    if record.size > RECORD_LIMIT:
        raise ConfigurationError(
            f"the point takes {record.size:,} bytes, and a record holds up to {RECORD_LIMIT:,}"
        )
    return record


class NoPointError(CheckpointError):
    """A record of something else."""


@attrs.frozen(eq=False)
class DecodedPoint:
    """What is in a record. Values are as they were filed, and not checked."""

    number: int
    snapshot: memoryview
    stack: NDArray[Any]
    about: Any


def decode_point(record: EncodedRecord | bytes) -> DecodedPoint:
    """What `encode_point` was given, from its record or from that decoded.

    Members of other names are stepped over.

    Raises
    ------
    NoPointError
        It has no member of a point: it may be of a later version.
    CheckpointError
        It is no point: bytes that fail their checksum, or not one member of each kind.
    """
    members = members_of(record if isinstance(record, bytes) else decode(record))
    found = {
        suffix: [name for name in members if name.startswith("points/") and name.endswith(suffix)]
        for suffix in _SUFFIXES
    }
    if not any(found.values()):
        raise NoPointError(f"a record with the members {sorted(members)} has nothing of a point")
    stems = {name.removesuffix(suffix) for suffix, names in found.items() for name in names}
    number = _NAME.fullmatch(stems.pop()) if len(stems) == 1 else None
    if number is None or any(len(names) != 1 for names in found.values()):
        raise CheckpointError(
            f"a record with the members {sorted(members)} is no restart point: it has to have "
            "one .snapshot, one .stack.npy and one .json, named alike"
        )
    (snapshot,), (stack,), (about,) = found.values()
    return DecodedPoint(
        int(number[1]),
        members[snapshot],
        read_npy(members[stack], stack),
        read_json(members[about], about),
    )
