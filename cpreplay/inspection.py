"""What a checkpoint file holds, and what is wrong with it, for ``python -m cpreplay inspect``.

Whatever bytes a file has, there is a report of it, of JSON values alone.
"""

import math
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from cpreplay.atomic_file import replaced_file
from cpreplay.checkpoint.container import RecordReader
from cpreplay.checkpoint.damage import damaged_records, few
from cpreplay.checkpoint.encoding import EncodedRecord, decode, decode_start
from cpreplay.checkpoint.members import (
    ARRAY_START,
    BLOCK,
    array_shape,
    first_member,
    members_of,
    read_json,
    read_npy,
)
from cpreplay.checkpoint.replay_file import KIND as REPLAY
from cpreplay.contact_sheet import Picture, contact_sheet, frames, png
from cpreplay.errors import CheckpointError, ConfigurationError, ReplayError
from cpreplay.integers import is_int
from cpreplay.restart.files import KIND as POINTS
from cpreplay.restart.files import AboutPoints, filed_point
from cpreplay.restart.marker import Key, Markers
from cpreplay.restart.point import NoPointError, decode_point
from cpreplay.schema import MAX_AXES

Report = dict[str, Any]

# Of a contact sheet, so that it is of a few thousand pixels whatever the pool's size.
_SHEET_POINTS, _SHEET_BUCKETS = 6, 48


@attrs.frozen(kw_only=True)
class Inspection:
    """What was seen in a file.

    Attributes
    ----------
    report : dict
        Of JSON values: ``file``, ``bytes``, ``whole``, ``problem`` (a sentence, None where the file
        is whole); where its header can be read, ``kind``, ``version``, ``written``, ``library``,
        ``records`` (that are whole), ``unpacked`` (bytes in them), ``damaged`` (numbers of the
        others), ``complete`` (False where the file's end is missing); and ``points`` or ``replay``,
        with what is in it.
    newest : dict
        Of restart points: for each bucket's key the numbers of the records of its newest points,
        newest first; at most six.
    """

    report: Report
    newest: dict[Key, tuple[int, ...]] = attrs.field(factory=dict)


def inspect_file(path: str | os.PathLike[str]) -> Inspection:
    """Look into a checkpoint file.

    Parameters
    ----------
    path : path-like
        Any file.

    Returns
    -------
    Inspection

    Raises
    ------
    OSError
        The file cannot be opened or read. What it holds never raises.

    Notes
    -----
    Compares every checksum, a record at a time. Restart points are decoded; of a buffer's rows only
    the start of each record, which says which they are. So a whole file of a buffer is one whose
    checksums are right and in which no part is missing; whether it fits a buffer, `resume` finds.
    """
    report: Report = {"file": os.fsdecode(path), "bytes": os.stat(path).st_size, "whole": False}
    newest: dict[Key, tuple[int, ...]] = {}
    try:
        with RecordReader(path) as reader:
            report |= {
                **{name: reader.header[name] for name in ("kind", "version")},
                **{name: _text(reader.header.get(name)) for name in ("written", "library")},
                "records": 0,
                "unpacked": 0,
            }
            lost: list[str] = []
            if reader.header["kind"] == REPLAY:
                report["replay"], lost = _look_at_replay(reader, report)
            elif reader.header["kind"] == POINTS:
                report["points"], lost, newest = _look_at_points(reader, report)
            else:
                deque(_counted(reader, report), maxlen=0)
            report |= {"damaged": sorted(reader.damaged), "complete": reader.complete}
            report["problem"] = _problem(report, lost)
    except CheckpointError as error:
        report["problem"] = str(error)
    report["whole"] = report["problem"] is None
    return Inspection(report=report, newest=newest)


def draw_frames(inspection: Inspection, target: str | os.PathLike[str]) -> tuple[int, int]:
    """Draw the frame stacks of a file's restart points into a PNG file.

    A row for each bucket, in the order of their keys, with the key over it; in a row the newest
    points, the newest on the left. Where there are more than 48 buckets, 48 spread evenly.

    Parameters
    ----------
    inspection : Inspection
        Of the file.
    target : path-like
        Replaced as a whole.

    Returns
    -------
    tuple of int
        Rows that were drawn, and buckets that the file has.

    Raises
    ------
    ConfigurationError
        No restart point is in the file.
    ShapeError
        What was observed is no picture: see `cpreplay.contact_sheet.frames`.
    OSError
        A file cannot be read, or written.
    """
    file, keys = inspection.report["file"], sorted(inspection.newest)
    if not keys:
        raise ConfigurationError(f"{file} has no restart points, and nothing else is drawn")
    places = np.linspace(0, len(keys) - 1, min(len(keys), _SHEET_BUCKETS)).round().astype(int)
    drawn = [keys[place] for place in places]
    wanted = {number: key for key in drawn for number in inspection.newest[key]}
    stacks: dict[Key, list[list[Picture]]] = {key: [] for key in drawn}
    with RecordReader(file) as reader:
        for number, record in reader.encoded():
            if number in wanted:
                stacks[wanted[number]].insert(0, frames(decode_point(record).stack))
    sheet = contact_sheet([(",".join(map(str, key)), stacks[key]) for key in drawn])
    with replaced_file(target) as image:
        image.write(png(sheet))
    return len(drawn), len(keys)


def _counted(reader: RecordReader, report: Report) -> Iterator[tuple[int, EncodedRecord]]:
    """The records, with what is true of them all entered into the report."""
    for number, record in reader.encoded():
        report["records"] += 1
        report["unpacked"] += record.size
        yield number, record


# Restart points


@attrs.define
class _Bucket:
    points: int = 0
    file_bytes: int = 0
    unpacked: int = 0
    newest: deque[int] = attrs.field(factory=lambda: deque(maxlen=_SHEET_POINTS))


def _look_at_points(
    reader: RecordReader, report: Report
) -> tuple[Report, list[str], dict[Key, tuple[int, ...]]]:
    """What there is, what is lost, and where the newest are."""
    about = AboutPoints.from_header(reader.header)
    markers = Markers(about.key, {}, {})
    buckets: dict[Key, _Bucket] = {}
    numbers: set[int] = set()
    unreadable = 0
    for number, record in _counted(reader, report):
        try:
            point = filed_point(record, about, markers)
            if point.number in numbers:
                raise CheckpointError("there twice")
        except NoPointError:  # something that a later version keeps here
            continue
        except ReplayError:
            unreadable += 1
            continue
        numbers.add(point.number)
        bucket = buckets.setdefault(point.key, _Bucket())
        bucket.points += 1
        bucket.file_bytes += len(record.frame)
        bucket.unpacked += record.size
        bucket.newest.appendleft(number)
    stack = about.stack
    found = {
        "points": len(numbers),
        "saved_points": about.points,
        "key": list(about.key),
        "machine": about.machine,
        "stack": stack and {"shape": list(stack.shape), "dtype": stack.dtype.name},
        "draws": about.draws,
        "buckets": [
            {
                "key": list(key),
                "points": bucket.points,
                "file_bytes": bucket.file_bytes,
                "unpacked": bucket.unpacked,
            }
            for key, bucket in sorted(buckets.items())
        ],
    }
    missing = max(0, about.points - len(numbers) - unreadable)
    lost = [f"{missing:,} of {about.points:,} restart points are lost"] * (missing > 0)
    lost += [f"{unreadable:,} whole records are no restart points"] * (unreadable > 0)
    return found, lost, {key: tuple(bucket.newest) for key, bucket in buckets.items()}


# Rows


def _look_at_replay(reader: RecordReader, report: Report) -> tuple[Report, list[str]]:
    """What there is, and what is lost."""
    form = _form(reader.header)
    parts = _Parts()
    for _, record in _counted(reader, report):
        parts.add(record)
    control, generator = _mapping(parts.state.get("control")), parts.state.get("generator")
    held, prioritized = form["rows"], form["prioritized"]
    lost = _lost_rows(parts.spans, held)
    lost += ["its state is lost"] * (not control)
    lost += ["priorities are lost"] * (prioritized and parts.leaves < held)
    found = {
        **form,
        "added": _number(control.get("total")),
        "policy": _policy(prioritized, control),
        "generator": _text(_mapping(generator).get("name")),
        "seed": _number(parts.state.get("seed")),
        "pending": _numbers(parts.pending, "n", "gamma", "n_envs") if form["pending"] else None,
    }
    return found, lost


@attrs.define
class _Parts:
    """What was found in the records of a buffer."""

    state: Mapping[str, Any] = attrs.field(factory=dict)
    pending: Mapping[str, Any] = attrs.field(factory=dict)
    leaves: int = 0
    spans: list[tuple[int, int]] = attrs.field(factory=list)

    def add(self, record: EncodedRecord) -> None:
        try:
            rows = _rows_of(record)
            if rows is not None:
                self.spans.append(rows)
                return
            members = members_of(decode(record))
            for name, content in members.items():
                if name == "state.json":
                    self.state = _mapping(read_json(content, name))
                elif name == "pending.json":
                    self.pending = _mapping(read_json(content, name))
                elif name.startswith("leaves/"):
                    self.leaves += read_npy(content, name).size
        except CheckpointError:
            pass  # its checksum is right, and no buffer wrote it: as good as lost


def _form(header: Mapping[str, Any]) -> Report:
    """What the header says of a buffer."""
    capacity, rows = _number(header.get("capacity")), _number(header.get("rows"))
    prioritized, said = header.get("prioritized"), header.get("columns")
    columns = [_column(_mapping(column), rows) for column in said] if isinstance(said, list) else []
    if not (
        isinstance(capacity, int)
        and isinstance(rows, int)
        and rows <= capacity
        and isinstance(prioritized, bool)
        and columns
        and None not in columns
    ):
        raise CheckpointError("its header does not describe a replay buffer")
    return {
        "rows": rows,
        "capacity": capacity,
        "prioritized": prioritized,
        "pending": header.get("pending") is True,
        "columns": columns,
    }


def _column(said: Mapping[str, Any], rows: int | float | None) -> Report | None:
    """One column, and the bytes of so many rows in it; None where this describes none."""
    name, dtype, stored = (_text(said.get(part)) for part in ("name", "dtype", "stored"))
    shape, size = said.get("shape"), _ITEM_BYTES.get(stored or "")
    if name is None or dtype is None or size is None or not isinstance(shape, list):
        return None
    if len(shape) > MAX_AXES or not all(is_int(length) and length >= 0 for length in shape):
        return None
    nbytes = size * math.prod(shape) * (rows or 0)
    if nbytes >= 2**62:
        return None
    return {"name": name, "shape": shape, "dtype": dtype, "stored": stored, "unpacked": nbytes}


def _policy(prioritized: bool, control: Mapping[str, Any]) -> Report | None:
    """How rows are drawn; None where that is lost."""
    if not control:
        return None
    if prioritized:
        return {"name": "prioritized", **_numbers(control, "alpha", "beta", "max_priority")}
    if control.get("ere_enabled"):
        return {"name": "ERE", **_numbers(control, "eta", "c_min", "k_max")}
    if control.get("demo_count"):
        return {"name": "half from demonstrations", **_numbers(control, "demo_count")}
    return {"name": "uniform"}


def _rows_of(record: EncodedRecord) -> tuple[int, int] | None:
    """The rows [first, end) that its first array says are in a record; None where it holds none."""
    name, content = first_member(decode_start(record, BLOCK + ARRAY_START))
    match name.split("/"):
        case ["rows", first, _] if first.isascii() and first.isdigit() and len(first) <= 12:
            shape = array_shape(content, name)
            return int(first), int(first) + (shape[0] if shape else 0)
    return None


def _lost_rows(spans: Iterable[tuple[int, int]], held: int) -> list[str]:
    """A sentence on what of [0, held) is in no span; none where all of it is."""
    gaps, at = [], 0
    for first, end in [*sorted(spans), (held, held)]:
        if at < min(first, held):
            gaps.append((at, min(first, held)))
        at = max(at, end)
    if not gaps:
        return []
    count = sum(end - first for first, end in gaps)
    where = few([f"[{first}, {end})" for first, end in gaps])
    return [f"{count:,} of {held:,} rows are lost: {where}"]


# Values that a file says


_ITEM_BYTES = {
    "bool": 1,
    **{f"{sign}int{8 * size}": size for sign in ("", "u") for size in (1, 2, 4, 8)},
    **{f"float{8 * size}": size for size in (2, 4, 8)},
}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> int | float | None:
    """A number that a line of text can show; a float is finite, where `read_json` gave it."""
    if isinstance(value, float):
        return value
    return value if is_int(value) and 0 <= value < 2**64 else None


def _numbers(values: Mapping[str, Any], *names: str) -> dict[str, int | float | None]:
    return {name: _number(values.get(name)) for name in names}


# Sentences


def _problem(report: Report, lost: list[str]) -> str | None:
    """What is wrong, as one sentence; None where nothing is."""
    damaged = report["damaged"]
    facts = [damaged_records(damaged)] if damaged else []
    if not report["complete"]:
        facts.append("its end is missing")
    return "; ".join([*facts, *lost]) or None
