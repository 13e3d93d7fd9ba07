"""Files of restart points: what the header says, and points that are checked one by one."""

import os
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cpreplay.checkpoint.container import RecordReader, written_records
from cpreplay.checkpoint.encoding import EncodedRecord
from cpreplay.errors import CheckpointError, ReplayError
from cpreplay.integers import is_int
from cpreplay.restart.marker import Key, Markers, is_label
from cpreplay.restart.point import NoPointError, StackFormat, decode_point

KIND = "restart-points"

#: What a pool's file is called in a folder of a run's checkpoint.
FILE_NAME = "restart_points.tar.zst"

# Numbers above what any run writes. They are far below what a pool can count to, so that it can
# go on from a file which has them.
_MOST = 10**15

_MOST_AXES = 64  # of an array of NumPy's

_DTYPE = re.compile(r"[|<>=][buif]\d{1,2}")


@attrs.frozen(kw_only=True)
class AboutPoints:
    """What the header of a file says of its points."""

    key: tuple[str, ...]
    machine: str | None
    stack: StackFormat | None  # None where there is no point yet
    draws: int
    next_name: int  # the names of later points in later files begin here
    points: int
    buckets: int

    def header(self) -> dict[str, Any]:
        """As JSON values."""
        stack = self.stack
        return {
            "kind": KIND,
            "key": list(self.key),
            "machine": self.machine,
            "stack_shape": None if stack is None else list(stack.shape),
            "stack_dtype": None if stack is None else stack.dtype.str,
            "draws": self.draws,
            "next_name": self.next_name,
            "points": self.points,
            "buckets": self.buckets,
        }

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> "AboutPoints":
        """Of a header that has been read.

        Raises
        ------
        CheckpointError
            It is of another kind of checkpoint, or says what no pool wrote.
        """
        if header.get("kind") != KIND:
            raise CheckpointError(
                f"it is a checkpoint of kind {header.get('kind')!a}, and {KIND!r} is wanted"
            )
        key: Any = header.get("key")
        machine: Any = header.get("machine")
        names = ("draws", "next_name", "points", "buckets")
        counts: dict[str, Any] = {name: header.get(name) for name in names}
        wrong = [
            name
            for name, right in (
                ("key", isinstance(key, list) and key and all(map(is_label, key))),
                ("machine", machine is None or is_label(machine)),
                *((name, is_int(count) and 0 <= count < _MOST) for name, count in counts.items()),
            )
            if not right
        ]
        if wrong:
            raise CheckpointError(f"its header has no usable {wrong[0]}: {header.get(wrong[0])!a}")
        return cls(key=tuple(key), machine=machine, stack=_stack_of(header), **counts)


def _stack_of(header: Mapping[str, Any]) -> StackFormat | None:
    shape: Any = header.get("stack_shape")
    dtype = header.get("stack_dtype")
    if shape is None and dtype is None:
        return None
    right = isinstance(shape, list) and 0 < len(shape) <= _MOST_AXES
    right = right and all(is_int(length) and length > 0 for length in shape)
    if right and isinstance(dtype, str) and _DTYPE.fullmatch(dtype):
        try:
            return StackFormat(tuple(shape), np.dtype(dtype))
        except TypeError:
            pass
    raise CheckpointError(f"its header has no usable stack format: {dtype!a} of shape {shape!a}")


@attrs.frozen(kw_only=True, eq=False)
class FiledPoint:
    """A point of a file, checked."""

    number: int
    key: Key
    values: dict[str, int]
    steps_used: int
    record: EncodedRecord


@attrs.frozen(kw_only=True, eq=False)
class FiledPoints:
    """What was taken from a file, and what there is to say about the rest."""

    about: AboutPoints
    points: list[FiledPoint]  # by bucket, oldest first in each
    next_name: int
    refused: Counter[str]  # points that were whole, by the bound that they break
    damage: str | None


def write_points(
    path: str | os.PathLike[str], about: AboutPoints, records: Sequence[EncodedRecord]
) -> Path:
    """Write points as they are kept. The file is replaced as a whole; its path comes back."""
    with written_records(path, about.header()) as writer:
        for record in records:
            writer.write_encoded(record)
    return Path(path)


def read_points(
    path: str | os.PathLike[str],
    markers: Markers,
    capacity: int,
    require_fit: Callable[[AboutPoints], None],
) -> FiledPoints:
    """Read the points of a file, as far as they are whole and within the bounds.

    Parameters
    ----------
    path : path-like
    markers : Markers
        What each point's values have to have, and their bounds.
    capacity : int
        Points kept of each bucket, the newest.
    require_fit : callable
        Is shown what the header says, and raises `CheckpointError` where that does not fit.

    Raises
    ------
    CheckpointError
        The file as a whole cannot be used: it is no checkpoint of restart points, of a later
        version, its header or every point is damaged, or it does not fit. Single damaged points
        do not raise.
    OSError
        As from reading.
    """
    with RecordReader(path) as reader:
        about = AboutPoints.from_header(reader.header)
        require_fit(about)
        rings: dict[Key, deque[FiledPoint]] = {}
        refused: Counter[str] = Counter()
        numbers: set[int] = set()
        unfit: list[str] = []  # what is wrong with whole records
        for _, record in reader.encoded():
            try:
                point = filed_point(record, about, markers)
            except NoPointError:  # something that a later version keeps here
                continue
            except ReplayError as error:
                unfit.append(str(error))
                continue
            if point.number in numbers:  # a file that was put together by hand
                unfit.append(f"point {point.number} is there twice")
                continue
            numbers.add(point.number)
            refusal = markers.refusal(point.values)
            if refusal is not None:
                refused[refusal] += 1
                continue
            rings.setdefault(point.key, deque(maxlen=capacity)).append(point)
        lost = max(about.points - len(numbers) - len(unfit), 0)
        damage = None
        if unfit or lost or reader.damaged or not reader.complete:
            damage = (
                f"of {about.points} restart points {lost} are damaged or missing and {len(unfit)} "
                f"cannot be taken; {len(numbers)} are left"
                + ("" if reader.complete else "; the file's end is missing")
                + (f"; the first that cannot be taken: {unfit[0]}" if unfit else "")
            )
            if not numbers and about.points:
                raise CheckpointError(damage)
    return FiledPoints(
        about=about,
        points=[point for ring in rings.values() for point in ring],
        next_name=max([about.next_name, *(number + 1 for number in numbers)]),
        refused=refused,
        damage=damage,
    )


def filed_point(record: EncodedRecord, about: AboutPoints, markers: Markers) -> FiledPoint:
    """The point of a whole record.

    Raises
    ------
    NoPointError
        It has nothing of a point: a later version may keep other things in such a file.
    ReplayError
        There is no point in it that a pool with these markers could have written.
    """
    decoded = decode_point(record)
    if StackFormat.of(decoded.stack) != about.stack:
        raise CheckpointError(f"point {decoded.number} has another stack than its header says")
    if decoded.number >= _MOST:
        raise CheckpointError(f"point {decoded.number} has a number that no run has come to")
    filed = decoded.about if isinstance(decoded.about, dict) else {}
    steps_used: Any = filed.get("steps_used")
    if not (is_int(steps_used) and 0 <= steps_used < 2**63):
        raise CheckpointError(f"point {decoded.number} has no usable steps_used")
    values = markers.checked(filed.get("values"))
    return FiledPoint(
        number=decoded.number,
        key=markers.key(values),
        values=values,
        steps_used=steps_used,
        record=record,
    )
