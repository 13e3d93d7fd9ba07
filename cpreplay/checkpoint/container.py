"""The checkpoint file: records that are checked before they are decoded, and unpack to one tar.

It knows names and bytes, and no class of ours. ``docs/checkpoint-format.md`` has the layout byte
by byte. Ordinary tools read it too::

    zstd -dc checkpoint | tar -xf -

A damaged record costs that record. A file that was cut gives every record before the cut.
"""

import os
import stat
import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NoReturn, Self

import numpy as np

from cpreplay.atomic_file import replaced_file
from cpreplay.checkpoint.encoding import (
    RECORD_LIMIT,
    EncodedRecord,
    Encoder,
    decompressed,
    fault_of,
)
from cpreplay.checkpoint.members import (
    JSON_LIMIT,
    TAR_END,
    Buffer,
    json_bytes,
    member,
    members_of,
    read_json,
)
from cpreplay.errors import CheckpointError, CheckpointVersionError, ConfigurationError, OrderError
from cpreplay.integers import is_count
from cpreplay.version import __version__

FORMAT = "cpreplay-checkpoint"
VERSION = 1
MAGIC = b"CPRPCKP1"

# Every zstd reader steps over frames with the magic numbers 0x184D2A50 to 0x184D2A5F.
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_HEADER, _RECORD, _INDEX, _TRAILER = _SKIPPABLE[:4]

_U32 = struct.Struct("<I")
_FRAME = struct.Struct("<II")  # magic number, payload bytes
_FIELDS = struct.Struct("<IQQI")  # record number, compressed bytes, raw bytes, CRC of the frame
_ENDING = struct.Struct("<QI")  # where the index starts, number of records
_RECORD_BYTES = _FRAME.size + _FIELDS.size + _U32.size
_TRAILER_BYTES = _FRAME.size + _ENDING.size + _U32.size
_ABOUT_AT = len(MAGIC) + _U32.size  # in the header's payload
_PIECE = 1 << 20


class RecordWriter:
    """Writes a checkpoint's header, its records in order, and its end.

    Parameters
    ----------
    file : binary file
        Open for writing, at its beginning. It is not sought in and not closed.
    header : mapping
        JSON values for readers, among them ``kind``. ``format`` and ``version`` are set here, and
        may be given only with their right values; so are ``written``, the time in UTC, and
        ``library``, unless they are given.

    Raises
    ------
    ConfigurationError
        The header has no kind, other values for the format's own names, is no JSON, or takes more
        than 1 MiB.

    Notes
    -----
    Belongs to one thread. `written_records` puts the file in place as a whole.
    """

    def __init__(self, file: BinaryIO, header: Mapping[str, Any]) -> None:
        about = _header_bytes(header)
        self._encoder = Encoder()
        self._file = file
        self._starts = array("Q")
        self._at = 0
        self._finished = False
        self._put_frame(_HEADER, MAGIC + _U32.pack(zlib.crc32(about)) + about)
        self.write(member("header.json", about))

    def write(self, parts: Iterable[Buffer]) -> None:
        """Compress whole members, as `Encoder.encode`, and append them as one record.

        Raises
        ------
        ConfigurationError
            These are no whole members, or more than 1 GiB, which no reader would take.
        OrderError
            `finish` came before.
        """
        parts = list(parts)
        size = sum(memoryview(part).nbytes for part in parts)
        if size > RECORD_LIMIT:  # before they are compressed
            name = memoryview(parts[0]).tobytes()[:100].partition(b"\0")[0]
            _refuse_size(size, f"that begins with {name.decode(errors='replace')}")
        self.write_encoded(self._encoder.encode(parts))

    def write_encoded(self, record: EncodedRecord) -> None:
        """Append a record that an `Encoder` has made; only writes.

        Raises
        ------
        ConfigurationError
            It is of more than 1 GiB.
        OrderError
            `finish` came before.
        """
        if self._finished:
            raise OrderError("a record was to be written after finish; write all records before")
        if record.size > RECORD_LIMIT:
            _refuse_size(record.size, f"with the number {len(self._starts)}")
        fields = _FIELDS.pack(len(self._starts), len(record.frame), record.size, record.crc)
        self._starts.append(self._at)
        self._put_frame(_RECORD, _with_crc(fields))
        self._put(record.frame)

    def finish(self) -> int:
        """Write the end of the file; further calls do nothing.

        Returns
        -------
        int
            Bytes of the file.
        """
        if not self._finished:
            self.write([TAR_END])
            self._finished = True
            index_at, count = self._at, len(self._starts)
            starts = np.array(self._starts, "<u8").tobytes()
            self._put_frame(_INDEX, _with_crc(_U32.pack(count) + starts))
            self._put_frame(_TRAILER, _with_crc(_ENDING.pack(index_at, count)))
        return self._at

    def _put_frame(self, magic: int, payload: bytes) -> None:
        self._put(_FRAME.pack(magic, len(payload)) + payload)

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._at += len(data)


def _refuse_size(size: int, which: str) -> NoReturn:
    raise ConfigurationError(
        f"the record {which} takes {size:,} bytes, and one of more than {RECORD_LIMIT:,} could "
        "not be read again; save smaller parts"
    )


@contextmanager
def written_records(
    path: str | os.PathLike[str], header: Mapping[str, Any]
) -> Iterator[RecordWriter]:
    """A `RecordWriter` whose file takes the place of ``path`` when the block ends well.

    Whenever the program is stopped, the old file or the new one is at ``path``; where an exception
    ends the block, it is the old one. Parameters and errors as for `RecordWriter`.
    """
    with replaced_file(path) as file:
        writer = RecordWriter(file, header)
        yield writer
        writer.finish()


def _header_bytes(header: Mapping[str, Any]) -> bytes:
    own = {"format": FORMAT, "version": VERSION}
    for name, value in own.items():
        if header.get(name, value) != value:
            raise ConfigurationError(
                f"the header says {name} {header[name]!r}, and {value!r} is what is written"
            )
    if not isinstance(header.get("kind"), str):
        raise ConfigurationError(
            f"kind is {header.get('kind')!r}, and a header says what kind of checkpoint it is"
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    usual = {"written": now, "library": f"cpreplay {__version__}"}
    return json_bytes({**own, **usual, **header, **own}, "the header")


class RecordReader:
    """Reads a checkpoint record by record, each checked before it is decoded.

    Iterating gives ``(number, record)`` of every whole record in order, a record as `members_of`
    takes it. They are those that the writer was given, numbered from 1: record 0, which repeats the
    header, and the last, which ends the tar, are not among them. Damaged ones are left out.

    Parameters
    ----------
    path : path-like
    limit : int, default: 2**30
        A record that says it is larger than this, in bytes after decompression, counts as damaged.

    Attributes
    ----------
    header : dict
        What the writer was given, with format, version, time and library.
    version : int
        Of the format.
    complete : bool
        It is known how many records there are. Not so for a file that was cut before its end.
    damaged : list of int
        Numbers of the records that the last pass left out, 0 and the last among them. Where the
        file is not complete, any number more may be missing at its end.

    Raises
    ------
    CheckpointError
        It is no checkpoint, or both copies of its header are lost. Damage never raises later.
    CheckpointVersionError
        It has a later version than this library reads.
    OSError
        As from ``open`` and ``read``.

    Notes
    -----
    Every byte that says where something is, or how long, lies under a CRC that is compared before
    it is used. One record is in memory at a time, and 16 bytes for each record of the file.
    A reader belongs to one thread; use it in a ``with`` block, which closes its file.
    """

    def __init__(self, path: str | os.PathLike[str], *, limit: int = RECORD_LIMIT) -> None:
        if not is_count(limit):
            raise ConfigurationError(f"limit is {limit!r}, and a number of bytes is wanted")
        self.path = Path(path)
        self.damaged: list[int] = []
        self._limit = limit
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe could wait for ever
            raise CheckpointError(f"{path}: this is no regular file")
        self._file = open(path, "rb")  # noqa: SIM115 (closed by close)
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            about = self._header_frame()
            self._find_records(about)
            self.header = self._header_of(self._header_copy() if about is None else about)
        except BaseException:
            self._file.close()
            raise
        self.version: int = self.header["version"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        self.damaged = []
        for number in range(len(self._starts)):
            record = self._decoded(self._encoded(number))
            if record is None:
                self.damaged.append(number)
            elif number and record != TAR_END:
                yield number, record
            del record  # or it would stay in memory beside the next one

    def encoded(self) -> Iterator[tuple[int, EncodedRecord]]:
        """Iterate as usual, but over records as they are in the file.

        Their checksums and sizes are right, but that does not make them zstd frames: `decode` may
        still refuse one.
        """
        self.damaged = []
        for number in range(len(self._starts)):
            record = self._encoded(number)
            if record is None:
                self.damaged.append(number)
            elif number and not self._ends_tar(record):
                yield number, record
            del record

    def verify(self) -> list[int]:
        """Compare the CRC of every record with its bytes, without decoding it.

        Returns
        -------
        list of int
            Numbers of the damaged records.

        Notes
        -----
        Reads the file once, 1 MiB at a time.
        """
        return [number for number in range(len(self._starts)) if not self._is_whole(number)]

    # The header

    def _header_frame(self) -> bytes | None:
        """The header's JSON from the beginning of the file, None if it is damaged."""
        payload = self._payload(0, _HEADER, _ABOUT_AT + JSON_LIMIT)
        about = payload[_ABOUT_AT:]
        return about if payload[:_ABOUT_AT] == MAGIC + _U32.pack(zlib.crc32(about)) else None

    def _header_copy(self) -> bytes:
        """The header's JSON from record 0."""
        record = self._decoded(self._encoded(0))
        copy = None if record is None else members_of(record).get("header.json")
        return self._refuse_foreign() if copy is None else bytes(copy)

    def _header_of(self, about: bytes) -> dict[str, Any]:
        header = read_json(about, f"{self.path}: its header")
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            self._refuse_foreign()
        version = header.get("version")
        if not isinstance(version, int) or not is_count(version):
            raise CheckpointError(f"{self.path}: its version is {version!r}, which is no number")
        if version > VERSION:
            raise CheckpointVersionError(
                f"{self.path}: this checkpoint has version {version}, and versions up to {VERSION} "
                "are read here; a later cpreplay reads it"
            )
        if not isinstance(header.get("kind"), str):
            raise CheckpointError(f"{self.path}: its header does not say what kind it is")
        return header

    def _refuse_foreign(self) -> NoReturn:
        raise CheckpointError(
            f"{self.path}: this is no checkpoint of cpreplay, or its header is damaged so that "
            "nothing in it can be found"
        )

    # Where records start: by number, 0 for one that is known to be there and cannot be found.

    def _find_records(self, about: bytes | None) -> None:
        """Set `_starts`, `_bounds` and `complete` from the index, or else by walking."""
        end = self._size
        ending = self._read_trailer()
        starts = None if ending is None else self._read_index(ending[0])
        if ending is not None and starts is not None and len(starts) == ending[1]:
            end, self.complete = ending[0], True
        elif about is not None:
            starts, self.complete = self._walk(_FRAME.size + _ABOUT_AT + len(about))
            if ending is not None and not self.complete and ending[1] >= len(starts):
                starts.extend([0] * (ending[1] - len(starts)))
                self.complete = True
        else:
            self._refuse_foreign()
        self._starts = starts
        self._bounds = array("Q", bytes(8 * len(starts)))
        for number in reversed(range(len(starts))):
            self._bounds[number] = end
            end = starts[number] or end

    def _read_trailer(self) -> tuple[int, int] | None:
        """Where the index starts and how many records there are, None if that is not known."""
        at = self._size - _TRAILER_BYTES
        body = _checked(self._payload(at, _TRAILER, _TRAILER_BYTES)) if at > 0 else None
        if body is None or len(body) != _ENDING.size:
            return None
        index_at, count = _ENDING.unpack(body)
        # Each record takes bytes before the index: no count costs more memory than the file's size.
        return (index_at, count) if count <= min(index_at, at) // _RECORD_BYTES else None

    def _read_index(self, at: int) -> "array[int] | None":
        """The starts in the index at ``at``; None if they are damaged or make no sense."""
        body = _checked(self._payload(at, _INDEX, self._size)) if at < self._size else None
        if body is None or len(body) < _U32.size or (len(body) - _U32.size) % 8:
            return None
        starts = array("Q", body[_U32.size :])
        if sys.byteorder == "big":
            starts.byteswap()
        if not starts or body[: _U32.size] != _U32.pack(len(starts)):
            return None
        apart = all(after - before >= _RECORD_BYTES for before, after in pairwise([*starts, at]))
        return starts if apart and starts[0] else None

    def _walk(self, at: int) -> "tuple[array[int], bool]":
        """Find the records by their own headers, and say whether all are found."""
        starts = array("Q")
        while at < self._size:
            self._file.seek(at)
            frame = self._file.read(_FRAME.size)
            if len(frame) < _FRAME.size:
                break
            magic, length = _FRAME.unpack(frame)
            if magic == _INDEX:
                index = self._read_index(at)
                if index is None or len(index) < len(starts):
                    break
                starts.extend([0] * (len(index) - len(starts)))
                return starts, True
            if magic == _TRAILER:
                break
            if magic in _SKIPPABLE and magic != _RECORD:
                at += _FRAME.size + length
                continue
            fields = self._fields(at)
            if fields is None or fields[0] > at // _RECORD_BYTES:
                starts.append(0)  # something is here, and where it ends is not known
                break
            number = fields[0]
            if number >= len(starts):  # or it repeats one, or is out of its order
                starts.extend([0] * (number - len(starts)))
                starts.append(at)
                if fields[2] == len(TAR_END) and self._ends_tar(self._frame(fields)):
                    return starts, True
            at += _RECORD_BYTES + fields[1]
        return starts, False

    # Single frames

    def _payload(self, at: int, magic: int, most: int) -> bytes:
        """The payload of the skippable frame at ``at``; empty if no such frame is there."""
        self._file.seek(at)
        start = self._file.read(_FRAME.size)
        if len(start) < _FRAME.size:
            return b""
        found, length = _FRAME.unpack(start)
        return self._file.read(length) if found == magic and length <= most else b""

    def _fields(self, at: int) -> tuple[int, int, int, int] | None:
        """Number, compressed and raw bytes and CRC of the record at ``at``; None if damaged."""
        fields = _checked(self._payload(at, _RECORD, _RECORD_BYTES))
        if fields is None or len(fields) != _FIELDS.size:
            return None
        return _FIELDS.unpack(fields)

    def _fields_of(self, number: int) -> tuple[int, int, int, int] | None:
        """The fields of a record that is in its place; the file is then at its frame."""
        at = self._starts[number]
        fields = self._fields(at) if at else None
        if fields is None:
            return None
        # It ends before the next one, or a small file could be read over and over.
        ends_in_time = fields[1] <= self._bounds[number] - at - _RECORD_BYTES
        return fields if fields[0] == number and ends_in_time else None

    def _frame(self, fields: tuple[int, int, int, int]) -> EncodedRecord | None:
        """The record whose frame comes next in the file; None if it is damaged."""
        _, compressed, size, crc = fields
        # No compressor makes more of a record than this, and no more is read for one.
        if size > self._limit or compressed > size + size // 128 + 1024:
            return None
        record = EncodedRecord(self._file.read(compressed), size, crc)
        return None if fault_of(record, self._limit) else record

    def _encoded(self, number: int) -> EncodedRecord | None:
        fields = self._fields_of(number)
        return None if fields is None else self._frame(fields)

    def _decoded(self, record: EncodedRecord | None) -> bytes | None:
        try:
            return None if record is None else decompressed(record.frame)
        except CheckpointError:
            return None

    def _ends_tar(self, record: EncodedRecord | None) -> bool:
        is_short = record is not None and record.size == len(TAR_END)
        return is_short and self._decoded(record) == TAR_END

    def _is_whole(self, number: int) -> bool:
        """Whether a record is in its place and has its CRC."""
        fields = self._fields_of(number)
        if fields is None:
            return False
        _, left, _, wanted = fields
        crc = 0
        while left:
            piece = self._file.read(min(left, _PIECE))
            if not piece:
                return False
            crc = zlib.crc32(piece, crc)
            left -= len(piece)
        return crc == wanted


def _with_crc(payload: bytes) -> bytes:
    return payload + _U32.pack(zlib.crc32(payload))


def _checked(payload: bytes) -> bytes | None:
    """What `_with_crc` was given, or None if it is not that any more."""
    body, crc = payload[: -_U32.size], payload[-_U32.size :]
    return body if crc == _U32.pack(zlib.crc32(body)) else None
