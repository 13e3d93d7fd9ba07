"""What a record of a checkpoint holds: tar members, with arrays and values in open formats.

A record is a run of whole members in the oldest form that every tar reads. Reading it takes
nothing on trust: sizes are compared with the bytes that are there before anything is made of them.
"""

import io
import json
import math
import re
import struct
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cpreplay.errors import CheckpointError, ConfigurationError

Buffer: TypeAlias = bytes | bytearray | memoryview

BLOCK = 512
TAR_END = bytes(2 * BLOCK)

# Lists of small numbers take some 30 times their text in memory, and a good compressor makes
# gigabytes of them out of kilobytes.
JSON_LIMIT = 1 << 20

_LARGEST = 0o77777777777  # eleven octal digits
_NAME_LIMIT = 100
_BAD_IN_NAMES = re.compile(r"[\x00-\x1f\x7f\\:]")

# Name, mode, owner, group, size, time, checksum, type, linked name, "ustar", "00", names of owner
# and group, two device numbers, what comes before the name.
_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s6s2s32s32s8s8s155s12x")
_NO_CHECKSUM = b" " * 8
_OCTAL = re.compile(rb" *([0-7]+)[ \0]*")

_ARRAY_HEADER_LIMIT = 4096
_ARRAY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

# The header that NumPy writes for a dtype without fields or units. It is read here: NumPy parses
# it with `ast`, which in Python 3.11 fails now and then where two threads are in it at once
# (https://github.com/python/cpython/issues/106905).
_LENGTH = rb"(?:0|[1-9][0-9]*)"
_USUAL_ARRAY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([|<>][biufcSUV][0-9]{1,4})', "
    rb"'fortran_order': (True|False), 'shape': "
    rb"\(((?:" + _LENGTH + rb",|" + _LENGTH + rb"(?:, " + _LENGTH + rb")+)?)\), \} *\n",
    re.DOTALL,
)
_PLAIN_KINDS = frozenset("?biufcSUVMm")


def member(name: str, *parts: Buffer) -> list[Buffer]:
    """Make the buffers of one member.

    Parameters
    ----------
    name : str
        A relative path of at most 100 bytes as UTF-8, with ``/`` between its parts. None of them is
        ``.`` or ``..``, and it has no backslash, colon or control character.
    *parts : bytes, bytearray or memoryview
        The content, one after the other. They are not copied.

    Returns
    -------
    list of bytes, bytearray or memoryview
        A header, the parts, and zeros up to a multiple of 512 bytes. Equal content gives equal
        bytes: owner and time are zero.

    Raises
    ------
    ConfigurationError
        Another name, or more than 8 GiB.
    """
    wrong = _fault_of_name(name)
    if wrong:
        raise ConfigurationError(f"{name!r} cannot name a member of a checkpoint: {wrong}")
    size = sum(memoryview(part).nbytes for part in parts)
    if size > _LARGEST:
        raise ConfigurationError(
            f"{name} has {size:,} bytes, and a member holds up to {_LARGEST:,}; split it"
        )
    return [_header(name.encode(), size), *parts, bytes(-size % BLOCK)]


def npy_member(name: str, array: NDArray[Any]) -> list[Buffer]:
    """Make the buffers of a member that holds an array, as ``numpy.save`` would write it.

    Parameters
    ----------
    name : str
        As for `member`.
    array : ndarray
        Of any dtype but Python objects and strings of variable length. Where it is contiguous, in
        the order of C or of Fortran, the buffers are views of it, so it has to stay as it is until
        they are written.

    Raises
    ------
    ConfigurationError
        The dtype, or the name, cannot be stored.
    """
    if not _is_plain(array.dtype):
        raise ConfigurationError(
            f"{name}: an array of dtype {array.dtype} cannot be stored without pickle"
        )
    if array.dtype.metadata and array.dtype.names is None:  # which NumPy would warn of
        array = array.view(np.dtype(array.dtype.str))
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
            f"{name}: the description of dtype {array.dtype} takes {head.tell()} bytes, and up to "
            f"{_ARRAY_HEADER_LIMIT} are read"
        )
    in_memory = array if array.flags.c_contiguous else array.T
    return member(name, head.getvalue(), in_memory.reshape(-1).view(np.uint8).data)


def json_member(name: str, value: Any) -> list[Buffer]:
    """Make the buffers of a member that holds a value as JSON.

    Raises
    ------
    ConfigurationError
        JSON cannot express the value (NaN and infinities included) or takes more than 1 MiB for it,
        or the name is bad.
    """
    return member(name, json_bytes(value, name))


def json_bytes(value: Any, name: str) -> bytes:
    """Write a value as JSON in UTF-8; as `json_member`."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{name}: JSON cannot hold it: {error}") from None
    if len(text) > JSON_LIMIT:
        raise ConfigurationError(
            f"{name} takes {len(text):,} bytes as JSON, and up to {JSON_LIMIT:,} are read; "
            "numbers that are so many belong in an array"
        )
    return text


def members_of(record: bytes) -> dict[str, memoryview]:
    """Find the members of a record.

    Parameters
    ----------
    record : bytes
        As a reader of checkpoints yields it.

    Returns
    -------
    dict
        Name to content, in the record's order. These are read-only views, which keep the record in
        memory. What is no regular file, such as a folder, is left out.

    Raises
    ------
    CheckpointError
        The record is no run of whole members, or a name is no plain relative one, or there twice.

    Notes
    -----
    Not by way of `tarfile`, which obeys headers that a checkpoint has no use for: sparse files of
    terabytes in a few bytes, names from elsewhere. Here nothing is allocated but the dict.
    """
    members: dict[str, memoryview] = {}
    if record == TAR_END:
        return members
    if len(record) % BLOCK:
        _refuse(f"a record has {len(record):,} bytes, and members take a multiple of {BLOCK}")
    view = memoryview(record).toreadonly()
    at = 0
    while at < len(view):
        name, is_file, size = _parsed_header(record[at : at + BLOCK], at)
        at += BLOCK
        if size > len(view) - at:
            _refuse(f"{name!r} says {size:,} bytes where its record has {len(view) - at:,}")
        if is_file:
            wrong = _fault_of_name(name)
            if wrong:
                _refuse(f"a record has a member {name!r}: {wrong}")
            if name in members:
                _refuse(f"a record has two members {name!r}")
            members[name] = view[at : at + size]
        at += size + -size % BLOCK
    return members


def first_member(start: bytes) -> tuple[str, memoryview]:
    """Find the member that a record begins with.

    Parameters
    ----------
    start : bytes
        As much of a record as there is.

    Returns
    -------
    name : str
    content : memoryview
        As much of it as there is.

    Raises
    ------
    CheckpointError
        No member begins there.
    """
    name, _, size = _parsed_header(start[:BLOCK].ljust(BLOCK, b"\0"), 0)
    return name, memoryview(start)[BLOCK : BLOCK + size]


#: What `array_shape` has to be given, where there is so much.
ARRAY_START = _ARRAY_HEADER_LIMIT + 16


def array_shape(start: Buffer, name: str) -> tuple[int, ...]:
    """Read the shape of a member's array from the start of its content.

    Raises
    ------
    CheckpointError
        As `read_npy`, but for what it would find in the rest.
    """
    return _array_header(memoryview(start), name)[0]


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
        It is no ``.npy`` content, or of a dtype that only pickle could read, or not as long as its
        shape says.
    """
    view = memoryview(content).toreadonly()
    shape, in_fortran_order, dtype, at = _array_header(view, name)
    stated, there = math.prod(shape) * dtype.itemsize, len(view) - at
    if stated != there:
        _refuse(f"{name}: shape {shape} of {dtype} takes {stated:,} bytes, and it has {there:,}")
    try:
        return np.ndarray(shape, dtype, view, at, order="F" if in_fortran_order else "C")
    except (ValueError, OverflowError) as error:  # too many axes, or (0, 10**30)
        raise CheckpointError(f"{name}: {shape} is no shape: {error}") from None


def _array_header(view: memoryview, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether in Fortran's order, dtype, and where the items begin."""
    head = io.BytesIO(view[:ARRAY_START])
    usual = _USUAL_ARRAY_HEADER.match(head.getbuffer())
    try:
        if usual and int.from_bytes(usual[1], "little") == usual.end() - 10 <= _ARRAY_HEADER_LIMIT:
            shape = tuple(int(length) for length in usual[4].split(b",") if length)
            in_fortran_order, dtype = usual[3] == b"True", np.dtype(usual[2].decode())
            head.seek(usual.end())
        else:
            read_header = _ARRAY_HEADERS[np.lib.format.read_magic(head)]
            shape, in_fortran_order, dtype = read_header(head, max_header_size=_ARRAY_HEADER_LIMIT)
    except Exception as error:  # whatever a parser meets in bytes of any kind
        raise CheckpointError(
            f"{name}: this is no .npy content of version 1 or 2: {error}"
        ) from None
    if not _is_plain(dtype) or dtype.itemsize == 0:
        _refuse(f"{name}: an array of dtype {dtype} is not read from a checkpoint")
    if not all(type(length) is int and length >= 0 for length in shape):
        _refuse(f"{name}: {shape} is no shape")
    return shape, in_fortran_order, dtype, head.tell()


def read_json(content: Buffer, name: str) -> Any:
    """Read the JSON value of a member.

    Raises
    ------
    CheckpointError
        It is no JSON in UTF-8, a number is NaN or infinite, an object has a name twice, or it is
        longer than 1 MiB.
    """
    size = memoryview(content).nbytes
    if size > JSON_LIMIT:
        _refuse(f"{name}: JSON of {size:,} bytes, and up to {JSON_LIMIT:,} are read")
    try:
        return json.loads(
            bytes(content).decode(),
            object_pairs_hook=_object_of,
            parse_constant=_no_number,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name}: this is no JSON: {error}") from None


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no finite number")


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether an array's bytes are all there is to it, also inside of records."""
    if dtype.subdtype is not None:
        return _is_plain(dtype.subdtype[0])
    if dtype.names is not None:
        return all(_is_plain(dtype[name]) for name in dtype.names)
    return dtype.kind in _PLAIN_KINDS


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
    if not {"", ".", ".."}.isdisjoint(name.split("/")):
        return "it is no plain relative path"
    return ""


def _header(name: bytes, size: int) -> bytes:
    """The header of a regular file, as POSIX.1-1988 has it."""
    before = (name, b"0000644\0", b"0000000\0", b"0000000\0", b"%011o\0" % size, b"00000000000\0")
    after = (b"0", b"", b"ustar\0", b"00", b"", b"", b"", b"", b"")
    checksum = sum(_HEADER.pack(*before, _NO_CHECKSUM, *after))
    return _HEADER.pack(*before, b"%06o\0 " % checksum, *after)


def _parsed_header(header: bytes, at: int) -> tuple[str, bool, int]:
    """Name, whether it is a regular file, and bytes of the member whose header is at ``at``."""
    fields = _HEADER.unpack(header)
    name, size, checksum, kind = fields[0], fields[4], fields[6], fields[7]
    magic, prefix = fields[9:11], fields[15]
    if magic != (b"ustar\0", b"00"):
        _refuse(f"byte {at} of a record begins no member")
    if _number(checksum, at) != sum(header) - sum(checksum) + sum(_NO_CHECKSUM):
        _refuse(f"the member at byte {at} of a record has a wrong checksum")
    path = name.partition(b"\0")[0]
    if prefix[:1] != b"\0":
        path = prefix.partition(b"\0")[0] + b"/" + path
    try:
        return path.decode(), kind in (b"0", b"\0"), _number(size, at)
    except UnicodeDecodeError:
        _refuse(f"the member at byte {at} of a record has a name that is no UTF-8")


def _number(field: bytes, at: int) -> int:
    match = _OCTAL.fullmatch(field)
    if match is None:
        _refuse(f"the member at byte {at} of a record has {field!r} for a number in its header")
    return int(match[1], 8)


def _refuse(message: str) -> NoReturn:
    raise CheckpointError(message)
