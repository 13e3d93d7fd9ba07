"""The checkpoint container: records, checked before they are decoded, that unpack to one tar.

It knows names and bytes, and no class of ours. ``docs/checkpoint-format.md`` has the layout byte
by byte. Ordinary tools read it too::

    zstd -dc checkpoint | tar -xf -

A damaged record costs that record. A file that was cut gives every record before the cut.
"""

import io
import json
import math
import os
import re
import stat
import struct
import sys
import threading
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NoReturn, Self, TypeAlias

import attrs
import numpy as np
import zstandard
from numpy.typing import NDArray

from cpreplay.atomic_file import replaced_file
from cpreplay.errors import CheckpointError, CheckpointVersionError, ConfigurationError, OrderError
from cpreplay.integers import is_count

FORMAT = "cpreplay-checkpoint"
VERSION = 1
MAGIC = b"CPRPCKP1"

RECORD_LIMIT = 1 << 30
"""Bytes of a record before compression that a reader takes where it is not told otherwise."""

Buffer: TypeAlias = bytes | bytearray | memoryview

# Every zstd reader steps over frames with the magic numbers 0x184D2A50 to 0x184D2A5F.
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_HEADER, _RECORD, _INDEX, _TRAILER = _SKIPPABLE[:4]

_U32 = struct.Struct("<I")
_FRAME = struct.Struct("<II")  # magic number, payload bytes
_FIELDS = struct.Struct("<IQQI")  # record number, compressed bytes, raw bytes, CRC of the frame
_ENDING = struct.Struct("<QI")  # where the index starts, number of records
_RECORD_BYTES = _FRAME.size + _FIELDS.size + _U32.size
_TRAILER_BYTES = _FRAME.size + _ENDING.size + _U32.size
_HEADER_LIMIT = 1 << 20
_PIECE = 1 << 20

_BLOCK = 512
_TAR_END = bytes(2 * _BLOCK)
_LARGEST_MEMBER = 0o77777777777  # eleven octal digits
_NAME_LIMIT = 100
_BAD_IN_NAMES = re.compile(r"[\x00-\x1f\x7f\\:]")
_NUMBER = re.compile(rb" *([0-7]+)[ \0]*")

_ARRAY_HEADER_LIMIT = 4096
_PLAIN_KINDS = frozenset("?biufcSUVMm")

# No zstd block of fewer than four bytes, and none that gives more than 128 KiB.
_MOST_PER_BLOCK, _LEAST_BLOCK = 1 << 17, 4


# Members


def member(name: str, *parts: Buffer) -> list[Buffer]:
    """Make the buffers of one member of a record.

    Parameters
    ----------
    name : str
        A relative path of at most 100 bytes as UTF-8, parts separated by ``/``; none of them is
        ``.`` or ``..``, and it has no backslash, colon or control character.
    *parts : bytes, bytearray or memoryview
        The content, one after the other. They are not copied.

    Returns
    -------
    list of bytes, bytearray or memoryview
        A tar header, the parts, and zeros up to 512 bytes. Equal content gives equal bytes.

    Raises
    ------
    ConfigurationError
        Another name, or more than 8 GiB.
    """
    wrong = _fault_of_name(name)
    if wrong:
        raise ConfigurationError(f"{name!r} cannot name a member of a checkpoint: {wrong}")
    size = sum(memoryview(part).nbytes for part in parts)
    if size > _LARGEST_MEMBER:
        raise ConfigurationError(
            f"{name} has {size:,} bytes, and a member holds up to {_LARGEST_MEMBER:,}; split it"
        )
    return [_tar_header(name.encode(), size), *parts, bytes(-size % _BLOCK)]


def npy_member(name: str, array: NDArray[Any]) -> list[Buffer]:
    """Make the buffers of a member that holds an array, as ``numpy.save`` would write it.

    Parameters
    ----------
    name : str
        As for `member`.
    array : ndarray
        Of any dtype but Python objects and strings of variable length. Where it is contiguous, in
        C's order or in Fortran's, the buffers are views of it, so it must not change until they
        are written.

    Raises
    ------
    ConfigurationError
        The dtype, or the name, cannot be stored.
    """
    if not _is_plain(array.dtype):
        raise ConfigurationError(
            f"{name}: an array of dtype {array.dtype} cannot be stored without pickle"
        )
    if not array.flags.f_contiguous:
        array = np.asarray(array, order="C")
    head = io.BytesIO()
    try:
        about = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(head, about)
    except ValueError as error:
        raise ConfigurationError(f"{name}: dtype {array.dtype} cannot be stored: {error}") from None
    if head.tell() > _ARRAY_HEADER_LIMIT:
        raise ConfigurationError(
            f"{name}: the description of dtype {array.dtype} takes {head.tell()} bytes, and a "
            f"reader takes up to {_ARRAY_HEADER_LIMIT}"
        )
    rows = array if array.flags.c_contiguous else array.T
    return member(name, head.getvalue(), rows.reshape(-1).view(np.uint8).data)


def json_member(name: str, value: Any) -> list[Buffer]:
    """Make the buffers of a member that holds a value as JSON.

    Raises
    ------
    ConfigurationError
        JSON cannot express the value (NaN and infinities included), or the name is bad.
    """
    return member(name, _json_bytes(value, name))


def members_of(record: bytes) -> dict[str, memoryview]:
    """Find the members of a record.

    Parameters
    ----------
    record : bytes
        As a `RecordReader` yields it.

    Returns
    -------
    dict
        Name to content, in the record's order; read-only views, which keep the record in memory.
        What is no regular file, such as a folder, is left out.

    Raises
    ------
    CheckpointError
        The record is no run of whole tar members, a name is no plain relative one, or there twice.

    Notes
    -----
    Not by way of `tarfile`, which obeys headers that a checkpoint has no use for: sparse files of
    terabytes in a few bytes, names from elsewhere. Here nothing is allocated but the dict.
    """
    members: dict[str, memoryview] = {}
    if record == _TAR_END:
        return members
    if len(record) % _BLOCK:
        _refuse(f"a record has {len(record):,} bytes, and members take a multiple of {_BLOCK}")
    view = memoryview(record).toreadonly()
    at = 0
    while at < len(view):
        name, is_file, size = _read_tar_header(record[at : at + _BLOCK], at)
        at += _BLOCK
        if size > len(view) - at:
            _refuse(f"a member says {size:,} bytes where its record has {len(view) - at:,}")
        if is_file:
            wrong = _fault_of_name(name)
            if wrong:
                _refuse(f"a member is called {name!r}: {wrong}")
            if name in members:
                _refuse(f"a record has two members {name!r}")
            members[name] = view[at : at + size]
        at += size + -size % _BLOCK
    return members


def read_npy(content: Buffer, name: str) -> NDArray[Any]:
    """Read the array of a member.

    Parameters
    ----------
    content : bytes, bytearray or memoryview
        A member's content.
    name : str
        Of the member, for messages.

    Returns
    -------
    ndarray
        A read-only view of ``content``; nothing is copied.

    Raises
    ------
    CheckpointError
        It is no ``.npy`` content, of a dtype that only pickle could read, or not as long as its
        shape says.
    """
    view = memoryview(content).toreadonly()
    head = io.BytesIO(view[: _ARRAY_HEADER_LIMIT + 16])
    try:
        version = np.lib.format.read_magic(head)
        if version not in _ARRAY_READERS:
            _refuse(f"{name}: .npy of version {version[0]}.{version[1]}, and 1.0 or 2.0 is read")
        shape, fortran_order, dtype = _ARRAY_READERS[version](
            head, max_header_size=_ARRAY_HEADER_LIMIT
        )
    except CheckpointError:
        raise
    except Exception as error:  # whatever the parser meets in bytes of any kind
        raise CheckpointError(f"{name}: this is no .npy content: {error}") from None
    if not _is_plain(dtype) or dtype.itemsize == 0:
        _refuse(f"{name}: an array of dtype {dtype} is not read from a checkpoint")
    if not all(type(length) is int and length >= 0 for length in shape):
        _refuse(f"{name}: {shape} is no shape")
    stated, there = math.prod(shape) * dtype.itemsize, len(view) - head.tell()
    if stated != there:
        _refuse(f"{name}: shape {shape} of {dtype} takes {stated:,} bytes, and it has {there:,}")
    try:
        return np.ndarray(shape, dtype, view, head.tell(), order="F" if fortran_order else "C")
    except (ValueError, OverflowError) as error:  # too many axes, or (0, 10**30)
        raise CheckpointError(f"{name}: {shape} is no shape: {error}") from None


def read_json(content: Buffer, name: str) -> Any:
    """Read the JSON value of a member.

    Raises
    ------
    CheckpointError
        It is no JSON in UTF-8, has NaN or an infinity, or an object has a name twice.
    """
    try:
        return json.loads(
            bytes(content).decode(), object_pairs_hook=_object_of, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name}: this is no JSON: {error}") from None


# Records


@attrs.frozen
class EncodedRecord:
    """A record that is compressed already, to be kept in memory or written.

    Attributes
    ----------
    frame : bytes
        One zstd frame, with its content size and a checksum.
    size : int
        Bytes before compression.
    crc : int
        CRC-32 of ``frame``, taken when it was made.
    """

    frame: bytes
    size: int
    crc: int


class Encoder:
    """Compresses records.

    Parameters
    ----------
    level : int, default: 1
        Of zstd, 1 to 22.

    Raises
    ------
    ConfigurationError
        Another level.

    Notes
    -----
    One per thread: a zstd compressor that two threads use at once ends the process.
    """

    def __init__(self, level: int = 1) -> None:
        if not is_count(level) or level > zstandard.MAX_COMPRESSION_LEVEL:
            raise ConfigurationError(
                f"level is {level!r}, and zstd has 1 to {zstandard.MAX_COMPRESSION_LEVEL}"
            )
        self._compressor = zstandard.ZstdCompressor(
            level=int(level), write_checksum=True, write_content_size=True
        )

    def encode(self, parts: Iterable[Buffer]) -> EncodedRecord:
        """Compress whole members to one record, without joining them first.

        Parameters
        ----------
        parts : iterable of bytes, bytearray or memoryview
            What `member`, `npy_member` and `json_member` give, one after the other.

        Raises
        ------
        ConfigurationError
            These are no whole members: nothing, or no multiple of 512 bytes.
        """
        parts = list(parts)
        size = sum(memoryview(part).nbytes for part in parts)
        if not size or size % _BLOCK:
            raise ConfigurationError(
                f"a record of {size:,} bytes was to be encoded, and whole members take a multiple "
                f"of {_BLOCK}; make them with member, npy_member and json_member"
            )
        stream = self._compressor.compressobj(size=size)
        frame = b"".join([*(stream.compress(part) for part in parts), stream.flush()])
        return EncodedRecord(frame, size, zlib.crc32(frame))


def decode(record: EncodedRecord, *, limit: int = RECORD_LIMIT) -> bytes:
    """Decompress a record after checking it.

    Parameters
    ----------
    record : EncodedRecord
    limit : int, default: 2**30
        Bytes after decompression that are too many.

    Raises
    ------
    CheckpointError
        The frame is not what its CRC was taken of, is no single zstd frame, or does not state
        ``record.size`` bytes; or that is more than the limit, or than the frame could give.

    Notes
    -----
    May be called by any thread at any time. Nothing is allocated before all sizes agree.
    """
    frame = record.frame
    if zlib.crc32(frame) != record.crc:
        _refuse("a record is damaged: its CRC differs")
    possible = len(frame) // _LEAST_BLOCK * _MOST_PER_BLOCK
    if not 0 < record.size <= min(limit, possible):
        _refuse(
            f"a record says {record.size:,} bytes; its frame of {len(frame):,} bytes could give "
            f"{possible:,}, and {limit:,} are allowed"
        )
    try:
        stated = zstandard.frame_content_size(frame)
        if stated != record.size:
            _refuse(f"a record says {record.size:,} bytes, and its frame {stated:,}")
        return _decompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CheckpointError(f"a record is no zstd frame: {error}") from None


class RecordWriter:
    """Writes a checkpoint's header, its records in order, and its end.

    Parameters
    ----------
    file : binary file
        Open for writing, at its beginning. It is not sought in and not closed.
    header : mapping
        JSON values for readers, among them ``kind``. ``format`` and ``version`` are set here, and
        may be given only with their right values; ``written``, the time in UTC, unless given.
    level : int, default: 1
        zstd level of the records that `write` makes.

    Raises
    ------
    ConfigurationError
        The header has no kind, other values for the format's own names, is no JSON, or takes more
        than 1 MiB.

    Notes
    -----
    Belongs to one thread. `written_records` puts the file in place as a whole.
    """

    def __init__(self, file: BinaryIO, header: Mapping[str, Any], *, level: int = 1) -> None:
        about = _header_bytes(header)
        self._encoder = Encoder(level)
        self._file = file
        self._starts = array("Q")
        self._at = 0
        self._finished = False
        self._put_frame(_HEADER, MAGIC + _U32.pack(zlib.crc32(about)) + about)
        self.write(member("header.json", about))

    def write(self, parts: Iterable[Buffer]) -> None:
        """Compress whole members and append them as one record; as `Encoder.encode`."""
        self.write_encoded(self._encoder.encode(parts))

    def write_encoded(self, record: EncodedRecord) -> None:
        """Append a record that an `Encoder` has made; only writes.

        Raises
        ------
        OrderError
            `finish` came before.
        """
        if self._finished:
            raise OrderError("a record was to be written after finish; write all records before")
        fields = _FIELDS.pack(len(self._starts), len(record.frame), record.size, record.crc)
        self._starts.append(self._at)
        self._put_frame(_RECORD, _with_crc(fields))
        self._put(record.frame)

    def finish(self) -> int:
        """Write the end of the file; later calls do nothing.

        Returns
        -------
        int
            Bytes of the file.
        """
        if not self._finished:
            self.write([_TAR_END])
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


@contextmanager
def written_records(
    path: str | os.PathLike[str], header: Mapping[str, Any], *, level: int = 1
) -> Iterator[RecordWriter]:
    """A `RecordWriter` whose file takes the place of ``path`` when the block ends well.

    Whenever the program is stopped, the old file or the new one is at ``path``; so it is where an
    exception ends the block. Parameters and errors as for `RecordWriter`.
    """
    with replaced_file(path) as file:
        writer = RecordWriter(file, header, level=level)
        yield writer
        writer.finish()


class RecordReader:
    """Reads a checkpoint record by record, each checked before it is decoded.

    Iterating yields ``(number, record)`` of every whole record in order, for `members_of`. Numbers
    begin at 1 (record 0 repeats the header), and damaged ones are left out.

    Parameters
    ----------
    path : path-like
    limit : int, default: 2**30
        A record that says it is larger than this, in bytes after decompression, counts as damaged.

    Attributes
    ----------
    header : dict
        What the writer was given, with format, version and time.
    version : int
        Of the format.
    complete : bool
        It is known how many records there are. Not so for a file that was cut before its end.
    damaged : list of int
        Numbers of the records that the last pass left out. Of a file that is not complete, more
        may be missing at the end.

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
        if not stat.S_ISREG(os.stat(path).st_mode):
            _refuse(f"{path}: this is no regular file")
        self._file = open(path, "rb")  # noqa: SIM115 (closed by __exit__)
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            about, first = self._header_frame()
            self._find_records(about is not None, first)
            self.header = self._header_of(about)
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
            record = self._decoded(number)
            if record is None:
                self.damaged.append(number)
            elif number and record != _TAR_END:
                yield number, record
            del record  # or it would stay in memory beside the next one

    def verify(self) -> list[int]:
        """Compare the CRC of every record with its bytes, without decoding it.

        Returns
        -------
        list of int
            Numbers of the damaged records.

        Notes
        -----
        Reads the file once; 1 MiB of memory.
        """
        return [number for number in range(len(self._starts)) if not self._is_whole(number)]

    def _header_frame(self) -> tuple[bytes | None, int]:
        """The header's JSON, None if it is damaged, and where its frame ends."""
        payload = self._payload(0, _HEADER, _HEADER_LIMIT)
        start = len(MAGIC) + _U32.size
        about = payload[start:]
        whole = payload[:start] == MAGIC + _U32.pack(zlib.crc32(about))
        return about if whole else None, _FRAME.size + len(payload)

    def _header_of(self, about: bytes | None) -> dict[str, Any]:
        if about is None:  # its copy, which the index has led to
            record = self._decoded(0)
            copy = None if record is None else members_of(record).get("header.json")
            about = None if copy is None else bytes(copy)
        if about is None:
            self._refuse_foreign()
        header = read_json(about, f"{self.path}: its header")
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            self._refuse_foreign()
        version = header.get("version")
        if not isinstance(version, int) or not is_count(version):
            _refuse(f"{self.path}: its version is {version!r}, which is no number")
        if version > VERSION:
            raise CheckpointVersionError(
                f"{self.path}: this checkpoint has version {version}, and versions up to {VERSION} "
                "are read here; a later cpreplay reads it"
            )
        if not isinstance(header.get("kind"), str):
            _refuse(f"{self.path}: its header does not say what kind of checkpoint it is")
        return header

    def _refuse_foreign(self) -> NoReturn:
        _refuse(
            f"{self.path}: this is no checkpoint of cpreplay, or its header is damaged so that "
            "nothing in it can be found"
        )

    # Where records start. 0 stands for a record that is known to be there and cannot be found.

    def _find_records(self, has_header: bool, first: int) -> None:
        """Set `_starts`, `_bounds` and `complete` from the index, or by walking."""
        end = self._size
        ending = self._read_trailer()
        starts = None if ending is None else self._read_index(*ending)
        if ending is not None and starts is not None:
            end = ending[0]
            self.complete = True
        elif has_header:
            starts, self.complete = self._walk(first)
            if ending is not None and ending[1] >= len(starts):
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
        if index_at > at or count > index_at // _RECORD_BYTES:
            return None
        return index_at, count

    def _read_index(self, at: int, count: int | None = None) -> "array[int] | None":
        """The starts that the index at ``at`` has; None if they are damaged or make no sense."""
        body = _checked(self._payload(at, _INDEX, self._size))
        if body is None or len(body) < _U32.size or (len(body) - _U32.size) % 8:
            return None
        starts = array("Q", body[_U32.size :])
        if sys.byteorder == "big":
            starts.byteswap()
        if len(starts) != _U32.unpack(body[: _U32.size])[0] or count not in (None, len(starts)):
            return None
        in_order = all(after - before >= _RECORD_BYTES for before, after in pairwise(starts))
        if not starts or not in_order or starts[0] == 0 or starts[-1] > at - _RECORD_BYTES:
            return None
        return starts

    def _walk(self, at: int) -> "tuple[array[int], bool]":
        """Find the records by their own headers, and whether that leads to the file's end."""
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
            number, compressed, size, _ = fields
            if number >= len(starts):  # or it repeats one, or is out of its order
                starts.extend([0] * (number - len(starts)))
                starts.append(at)
                if size == len(_TAR_END) and self._frame(fields) == _TAR_END:
                    return starts, True
            at += _RECORD_BYTES + compressed
        return starts, False

    # Single records

    def _payload(self, at: int, magic: int, most: int) -> bytes:
        """The payload of the skippable frame at ``at``; empty if no such frame is there."""
        self._file.seek(at)
        start = self._file.read(_FRAME.size)
        if len(start) < _FRAME.size:
            return b""
        found, length = _FRAME.unpack(start)
        if found != magic or length > min(most, self._size - at):
            return b""
        return self._file.read(length)

    def _fields(self, at: int) -> tuple[int, int, int, int] | None:
        """Number, compressed and raw bytes and CRC from a record's header; None if damaged."""
        fields = _checked(self._payload(at, _RECORD, _RECORD_BYTES))
        if fields is None or len(fields) != _FIELDS.size:
            return None
        return _FIELDS.unpack(fields)

    def _possible_fields(self, number: int) -> tuple[int, int, int, int] | None:
        """A record's fields if it may be whole; the file is then at its frame."""
        at = self._starts[number]
        fields = self._fields(at) if at else None
        if fields is None:
            return None
        found, compressed = fields[:2]
        ends_in_time = compressed <= self._bounds[number] - at - _RECORD_BYTES
        return fields if found == number and ends_in_time else None

    def _decoded(self, number: int) -> bytes | None:
        """A record's bytes, None if they are damaged."""
        fields = self._possible_fields(number)
        return None if fields is None else self._frame(fields)

    def _frame(self, fields: tuple[int, int, int, int]) -> bytes | None:
        """What the frame that comes next in the file decodes to, None if it is damaged."""
        _, compressed, size, crc = fields
        # No compressor makes more of a record than this, and no more is read for one.
        if size > self._limit or compressed > size + size // 128 + 1024:
            return None
        try:
            return decode(EncodedRecord(self._file.read(compressed), size, crc), limit=self._limit)
        except CheckpointError:
            return None

    def _is_whole(self, number: int) -> bool:
        fields = self._possible_fields(number)
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


def _refuse(message: str) -> NoReturn:
    raise CheckpointError(message)


# zstd's objects end the process when two threads use one at once.
_of_thread = threading.local()


def _decompressor() -> zstandard.ZstdDecompressor:
    """This thread's own."""
    if not hasattr(_of_thread, "decompressor"):
        _of_thread.decompressor = zstandard.ZstdDecompressor()
    decompressor: zstandard.ZstdDecompressor = _of_thread.decompressor
    return decompressor


def _with_crc(payload: bytes) -> bytes:
    return payload + _U32.pack(zlib.crc32(payload))


def _checked(payload: bytes) -> bytes | None:
    """What `_with_crc` was given, or None if it is not that any more."""
    body, crc = payload[: -_U32.size], payload[-_U32.size :]
    return body if crc == _U32.pack(zlib.crc32(body)) else None


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
    now = {"written": datetime.now(UTC).isoformat(timespec="seconds")}
    about = _json_bytes({**own, **now, **header, **own}, "the header")
    if len(about) > _HEADER_LIMIT - len(MAGIC) - _U32.size:
        raise ConfigurationError(
            f"the header takes {len(about):,} bytes, and up to {_HEADER_LIMIT:,} are read"
        )
    return about


def _json_bytes(value: Any, name: str) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{name}: JSON cannot hold it: {error}") from None


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _fault_of_name(name: str) -> str:
    """What is wrong with a member's name; empty if nothing is."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return "it is no Unicode text"
    if not 1 <= length <= _NAME_LIMIT:
        return f"it has {length} bytes, and 1 to {_NAME_LIMIT} are allowed"
    if _BAD_IN_NAMES.search(name):
        return "it has a backslash, a colon or a control character"
    if {"", ".", ".."} & set(name.split("/")):
        return "it is no plain relative path"
    return ""


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether an array's bytes are all there is to it, also inside of records."""
    if dtype.subdtype is not None:
        return _is_plain(dtype.subdtype[0])
    if dtype.names is not None:
        return all(_is_plain(dtype[name]) for name in dtype.names)
    return dtype.kind in _PLAIN_KINDS and not dtype.hasobject


_ARRAY_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


# tar, as POSIX.1-1988 has it ("ustar"). Name, mode, owner, group, size, time, checksum, type, ...
_USTAR = struct.Struct("100s8s8s8s12s12s8sc100s6s2s32s32s8s8s155s12x")


def _tar_header(name: bytes, size: int) -> bytes:
    def header(checksum: bytes) -> bytes:
        none = b"0000000\0"
        long = [b"%011o\0" % size, b"00000000000\0"]
        rest = [b"0", b"", b"ustar\0", b"00", b"", b"", b"", b"", b""]
        return _USTAR.pack(name, b"0000644\0", none, none, *long, checksum, *rest)

    return header(b"%06o\0 " % sum(header(b" " * 8)))


def _read_tar_header(header: bytes, at: int) -> tuple[str, bool, int]:
    """Name, whether it is a regular file, and bytes of the member whose header this is."""
    fields = _USTAR.unpack(header)
    name, size, checksum, kind = fields[0], fields[4], fields[6], fields[7]
    magic, prefix = fields[9:11], fields[15]
    if magic != (b"ustar\0", b"00"):
        _refuse(f"byte {at} of a record begins no member")
    if _octal(checksum, at) != sum(header) - sum(checksum) + sum(b" " * 8):
        _refuse(f"the member at byte {at} of a record has a wrong checksum")
    full = name.partition(b"\0")[0]
    if prefix[:1] != b"\0":
        full = prefix.partition(b"\0")[0] + b"/" + full
    try:
        text = full.decode()
    except UnicodeDecodeError:
        _refuse(f"the member at byte {at} of a record has a name that is no UTF-8")
    return text, kind in (b"0", b"\0"), _octal(size, at)


def _octal(field: bytes, at: int) -> int:
    match = _NUMBER.fullmatch(field)
    if match is None:
        _refuse(f"the member at byte {at} of a record has the number {field!r} in its header")
    return int(match[1], 8)
