"""A second writer and reader of the container, from the words of ``docs/checkpoint-format.md``.

It imports nothing of the library. The writer takes frames one at a time, so that a test can write
what the library's own never would; the reader is for well-made files, and asserts every field.
"""

import io
import json
import struct
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

MAGIC = b"CPRPCKP1"
HEADER, RECORD, INDEX, TRAILER = 0x184D2A50, 0x184D2A51, 0x184D2A52, 0x184D2A53
RECORD_BYTES, TRAILER_BYTES = 36, 24
TAR_END = bytes(1024)


def crc(data: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(data))


def skippable(magic: int, payload: bytes) -> bytes:
    return struct.pack("<II", magic, len(payload)) + payload


def member(name: str, content: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    """One tar member, as Python's own module writes it."""
    about = tarfile.TarInfo(name)
    about.size = len(content)
    about.type = kind
    header = about.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    return header + content + bytes(-len(content) % 512)


def npy(descr: str, shape: Sequence[int], data: bytes) -> bytes:
    """The content of a ``.npy`` member of format 1.0, in C's order."""
    lengths = "".join(f"{length}, " for length in shape)
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({lengths}), }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii") + data


def frame_of(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor(level=1, write_checksum=True, write_content_size=True)
    return compressor.compress(data)


def header_frame(about: bytes, magic: bytes = MAGIC) -> bytes:
    return skippable(HEADER, magic + crc(about) + about)


def record_header(number: int, compressed: int, raw: int, frame_crc: bytes) -> bytes:
    fields = struct.pack("<IQQ", number, compressed, raw) + frame_crc
    return skippable(RECORD, fields + crc(fields))


def record(number: int, data: bytes, frame: bytes | None = None, raw: int | None = None) -> bytes:
    """A record; with another frame or size than its data has, if these are given."""
    frame = frame_of(data) if frame is None else frame
    size = len(data) if raw is None else raw
    return record_header(number, len(frame), size, crc(frame)) + frame


def index(starts: Sequence[int], count: int | None = None) -> bytes:
    count = len(starts) if count is None else count
    payload = struct.pack(f"<I{len(starts)}Q", count, *starts)
    return skippable(INDEX, payload + crc(payload))


def trailer(index_at: int, count: int) -> bytes:
    payload = struct.pack("<QI", index_at, count)
    return skippable(TRAILER, payload + crc(payload))


def about_bytes(header: dict[str, Any]) -> bytes:
    return json.dumps(header, ensure_ascii=False).encode("utf-8")


def whole(parts: Sequence[bytes], number_of_records: int | None = None) -> bytes:
    """Parts of a file, of which those that begin as a record go into an index behind them."""
    data, starts = b"", []
    for part in parts:
        if part.startswith(struct.pack("<I", RECORD)):
            starts.append(len(data))
        data += part
    count = len(starts) if number_of_records is None else number_of_records
    return data + index(starts) + trailer(len(data), count)


def checkpoint(header: dict[str, Any], records: Sequence[bytes]) -> bytes:
    """A file as the format wants it; a record is the bytes of its members."""
    about = about_bytes(header)
    contents = [member("header.json", about), *records, TAR_END]
    return whole([header_frame(about), *(record(n, data) for n, data in enumerate(contents))])


@dataclass
class Found:
    """What is in a file, and where it lies."""

    header: dict[str, Any]
    records: list[bytes]
    spans: list[tuple[int, int]]  # of each record, its header included
    index_at: int
    members: dict[str, bytes]


def read(data: bytes) -> Found:
    """Read a well-made file to its last byte."""
    magic, length = struct.unpack_from("<II", data)
    assert magic == HEADER and data[8:16] == MAGIC
    about = data[20 : 8 + length]
    assert data[16:20] == crc(about)
    at, records, spans = 8 + length, [], []
    while struct.unpack_from("<I", data, at)[0] == RECORD:
        length, number, compressed, raw = struct.unpack_from("<IIQQ", data, at + 4)
        assert length == 28 and number == len(records)
        assert data[at + 32 : at + 36] == crc(data[at + 8 : at + 32])
        start, end = at + 36, at + 36 + compressed
        frame = data[start:end]
        assert data[at + 28 : at + 32] == crc(frame)
        parameters = zstandard.get_frame_parameters(frame)
        assert parameters.content_size == raw and parameters.has_checksum
        content = zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)
        assert len(content) == raw and raw % 512 == 0
        records.append(content)
        spans.append((at, end))
        at = end
    assert data[at:] == index([start for start, _ in spans]) + trailer(at, len(spans))
    archive = b"".join(records)
    assert archive.endswith(TAR_END)
    members = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
        for info in tar:
            extracted = tar.extractfile(info)
            if extracted is not None:
                assert info.name not in members
                members[info.name] = extracted.read()
    assert members["header.json"] == about
    return Found(json.loads(about), records, spans, at, members)
