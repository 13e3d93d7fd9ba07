"""Files that are damaged, cut, or made to deceive: nothing wrong is given, nothing large allocated.

Changed bits and cuts start from a file of the library; what lies is put together by the witness,
which makes every checksum right, so that only the check under test stands in the way.
"""

import gzip
import io
import itertools
import json
import random
import struct
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zstandard

from cpreplay.checkpoint.container import RecordReader, written_records
from cpreplay.checkpoint.members import member, members_of, npy_member, read_npy
from cpreplay.errors import CheckpointError
from tests.checkpoint_files import witness
from tests.checkpoint_files.witness import crc, record, record_header, skippable

HEADER = {"kind": "test", "written": "2026-12-01T00:00:00+00:00", "library": "cpreplay 0"}
ABOUT = witness.about_bytes({"format": "cpreplay-checkpoint", "version": 1} | HEADER)
START = [witness.header_frame(ABOUT), record(0, witness.member("header.json", ABOUT))]
UNKNOWN = skippable(0x184D2A5E, b"of a later version")


def small(number: int) -> bytes:
    """The bytes of a record that is easily told from others."""
    return witness.member(f"points/{number}", b"%d" % number * 300)


def end(number: int) -> bytes:
    return record(number, witness.TAR_END)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, witness.Found]:
    """The bytes of a file of the library, and what the witness finds in it."""
    path = tmp_path_factory.mktemp("good") / "a"
    values = np.random.default_rng(0)
    with written_records(path, HEADER) as writer:
        for number in range(5):
            name = f"points/{number}"
            stack = np.repeat(values.integers(0, 256, (4, 12, 1), np.uint8), 12, axis=2)
            writer.write(
                [*member(f"{name}.snapshot", values.bytes(200)), *npy_member(f"{name}.npy", stack)]
            )
    data = path.read_bytes()
    return data, witness.read(data)


def read(path: Path, data: bytes) -> tuple[RecordReader, dict[int, bytes]]:
    """The reader after a pass over a file of these bytes, and the records that it gave."""
    path.write_bytes(data)
    with RecordReader(path) as reader:
        records = dict(reader)
        assert reader.damaged == sorted(set(reader.damaged))
        assert not records.keys() & set(reader.damaged)
        # Damage that a CRC shows; what it cannot show is a frame that is not what its header says.
        assert set(reader.verify()) <= set(reader.damaged)
    return reader, records


def written(found: witness.Found) -> dict[int, bytes]:
    """The records that a reader gives of a whole file: neither the header's copy nor the end."""
    return {number: found.records[number] for number in range(1, len(found.records) - 1)}


def without(records: dict[int, bytes], *numbers: int) -> dict[int, bytes]:
    return {number: records[number] for number in records.keys() - set(numbers)}


# Bits


def flips(found: witness.Found, length: int) -> list[tuple[int, int]]:
    """Every bit of headers, index and trailer, and 400 of the frames, as (byte, bit)."""
    frames = {at for start, stop in found.spans for at in range(start + 36, stop)}
    every = [(at, bit) for at in range(length) if at not in frames for bit in range(8)]
    chance = random.Random(0)
    return every + [(at, chance.randrange(8)) for at in chance.choices(sorted(frames), k=400)]


def test_one_changed_bit_costs_one_record_at_most(
    tmp_path: Path, good: tuple[bytes, witness.Found]
) -> None:
    data, found = good
    changes = flips(found, len(data))
    for at, bit in changes:
        changed = bytearray(data)
        changed[at] ^= 1 << bit
        hit = [n for n, (start, stop) in enumerate(found.spans) if start <= at < stop]
        reader, records = read(tmp_path / "a", changed)
        where = f"byte {at}, bit {bit}"
        assert reader.damaged == hit, where
        assert records == without(written(found), *hit), where
        assert reader.complete and reader.header == found.header, where
    assert len(changes) > 8 * (len(found.spans) * 36 + 20 + 24) + 400


def test_one_changed_bit_in_a_file_without_its_index_costs_no_earlier_record(
    tmp_path: Path, good: tuple[bytes, witness.Found]
) -> None:
    data, found = good
    last = len(found.spans) - 1
    for at, bit in flips(found, found.index_at)[::3]:
        changed = bytearray(data[: found.index_at])
        changed[at] ^= 1 << bit
        where = f"byte {at}, bit {bit}"
        (hit,) = [n for n, (_, stop) in enumerate(found.spans) if at < stop][:1]
        start = found.spans[hit][0]
        if at < start:  # the header, whose copy is found by the index alone
            with pytest.raises(CheckpointError):
                read(tmp_path / "a", changed)
        elif at < start + 36:  # the record's own header, which says where the next one is
            reader, records = read(tmp_path / "a", changed)
            assert records == {n: d for n, d in written(found).items() if n < hit}, where
            becomes_trailer = (at, bit) == (start, 1)
            assert reader.damaged == ([] if becomes_trailer else [hit]), where
            assert not reader.complete, where
        else:
            reader, records = read(tmp_path / "a", changed)
            assert records == without(written(found), hit), where
            assert reader.damaged == [hit] and reader.complete is (hit != last), where


def test_many_changes_at_once_give_nothing_that_was_not_written(
    tmp_path: Path, good: tuple[bytes, witness.Found]
) -> None:
    data, found = good
    chance = random.Random(1)
    refused = 0
    for _ in range(500):
        changed = bytearray(data)
        for _ in range(chance.choice([2, 3, 10, 100])):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            _, records = read(tmp_path / "a", changed)
        except CheckpointError:
            refused += 1
            continue
        assert records.items() <= written(found).items()
    assert refused < 400


# Cuts and the like


def test_a_cut_file_gives_every_record_before_the_cut(
    tmp_path: Path, good: tuple[bytes, witness.Found]
) -> None:
    data, found = good
    begin = found.spans[0][0]
    edges = {edge + step for span in found.spans for edge in span for step in (-1, 0, 1)}
    places = np.linspace(begin, len(data) - 1, 200).astype(int).tolist()
    lengths = sorted(edges | set(places) | set(range(found.index_at, len(data))))
    for length in lengths:
        if length < begin:
            continue
        reader, records = read(tmp_path / "a", data[:length])
        whole = [number for number, (_, stop) in enumerate(found.spans) if stop <= length]
        assert records == {n: d for n, d in written(found).items() if n in whole}, length
        assert reader.complete is (length >= found.index_at), length
        assert reader.damaged in ([], [len(whole)]), length
    assert len(lengths) > 200


def test_a_file_cut_inside_its_header_is_refused(
    tmp_path: Path, good: tuple[bytes, witness.Found]
) -> None:
    data, found = good
    for length in range(found.spans[0][0]):
        with pytest.raises(CheckpointError, match="no checkpoint"):
            read(tmp_path / "a", data[:length])


def test_bytes_behind_the_end_change_nothing(
    tmp_path: Path, good: tuple[bytes, witness.Found]
) -> None:
    data, found = good
    for more in (
        b"\0",
        b"\n",
        bytes(5000),
        data,
        UNKNOWN,
        data[-24:],
        random.Random(2).randbytes(99),
    ):
        reader, records = read(tmp_path / "a", data + more)
        assert records == written(found) and reader.complete and reader.damaged == []


def test_a_lost_stretch_costs_the_records_in_it(
    tmp_path: Path, good: tuple[bytes, witness.Found]
) -> None:
    data, found = good
    for first, last in itertools.combinations(range(1, 6), 2):
        start, stop = found.spans[first][0], found.spans[last][0]
        reader, records = read(tmp_path / "a", data[:start] + data[stop:])
        lost = list(range(first, last))
        assert records == without(written(found), *lost)
        assert reader.damaged == lost and reader.complete


def test_zeros_in_place_of_a_stretch_cost_the_records_in_it(
    tmp_path: Path, good: tuple[bytes, witness.Found]
) -> None:
    data, found = good
    start, stop = found.spans[2][0] + 5, found.spans[4][0] - 5
    reader, records = read(tmp_path / "a", data[:start] + bytes(stop - start) + data[stop:])
    assert records == without(written(found), 2, 3) and reader.damaged == [2, 3]


def test_a_file_that_becomes_shorter_while_it_is_read_gives_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a"
    large = [np.random.default_rng(number).bytes(400_000) for number in range(3)]
    with written_records(path, HEADER) as writer:
        for number, content in enumerate(large):
            writer.write(member(str(number), content))
    spans = witness.read(path.read_bytes()).spans
    with RecordReader(path) as reader:
        with open(path, "r+b") as file:
            file.truncate(spans[2][1] - 1)
        assert list(dict(reader)) == [1] and reader.damaged == [2, 3, 4]
        assert reader.verify() == [2, 3, 4]


# Records in the wrong places


def test_records_in_each_others_places_are_left_out(tmp_path: Path) -> None:
    parts = [*START, record(2, small(2)), record(1, small(1)), record(3, small(3)), end(4)]
    reader, records = read(tmp_path / "a", witness.whole(parts))
    assert records == {3: small(3)} and reader.damaged == [1, 2]


def test_records_in_each_others_places_are_left_out_without_an_index(tmp_path: Path) -> None:
    parts = [*START, record(2, small(2)), record(1, small(1)), record(3, small(3)), end(4)]
    reader, records = read(tmp_path / "a", b"".join(parts))
    assert records == {2: small(2), 3: small(3)} and reader.damaged == [1]


def test_a_record_that_is_there_twice_is_given_once(tmp_path: Path) -> None:
    parts = [*START, record(1, small(1)), record(1, small(9)), record(2, small(2)), end(3)]
    _, records = read(tmp_path / "a", b"".join(parts))
    assert records == {1: small(1), 2: small(2)}
    reader, records = read(tmp_path / "a", witness.whole(parts))
    assert records == {1: small(1)} and reader.damaged == [2, 3, 4]


def test_a_record_that_is_not_there_is_damaged(tmp_path: Path) -> None:
    parts = [*START, record(1, small(1)), record(3, small(3)), end(4)]
    for data in (b"".join(parts), b"".join(parts) + witness.index([1, 2, 3, 4, 5])):
        reader, records = read(tmp_path / "a", data)
        assert records == {1: small(1), 3: small(3)}
        assert reader.damaged == [2] and reader.complete


def test_records_that_only_the_trailer_knows_of_are_damaged(tmp_path: Path) -> None:
    data = b"".join([*START, record(1, small(1))])
    lost = data + bytes(300)  # records 2 to 4, and the index
    reader, records = read(tmp_path / "a", lost + witness.trailer(len(lost), 5))
    assert records == {1: small(1)} and reader.damaged == [2, 3, 4] and reader.complete


def test_records_that_only_an_index_knows_of_are_damaged(tmp_path: Path) -> None:
    data = b"".join([*START, record(1, small(1))])
    index = witness.index([len(START[0]), len(START[0]) + 36, len(data) - 99, len(data) - 36])
    reader, records = read(tmp_path / "a", data + index)
    assert records == {1: small(1)} and reader.damaged == [2, 3] and reader.complete


def test_an_index_of_fewer_records_than_are_there_ends_nothing(tmp_path: Path) -> None:
    data = b"".join([*START, record(1, small(1)), record(2, small(2))])
    index = witness.index([len(START[0]), len(START[0]) + 36])
    reader, records = read(tmp_path / "a", data + index)
    assert records == {1: small(1), 2: small(2)} and not reader.complete


def test_what_follows_bytes_that_are_no_frame_is_not_looked_for(tmp_path: Path) -> None:
    data = b"".join([*START, record(1, small(1)), bytes(48), record(3, small(3)), end(4)])
    reader, records = read(tmp_path / "a", data)
    assert records == {1: small(1)} and reader.damaged == [2] and not reader.complete


def test_a_trailer_of_another_number_than_is_there_ends_nothing(tmp_path: Path) -> None:
    cut = b"".join([*START, record(1, small(1)), record(2, small(2))])
    reader, records = read(tmp_path / "a", cut + witness.trailer(len(cut), 2))
    assert records == {1: small(1), 2: small(2)} and not reader.complete
    whole = cut + end(3)
    reader, records = read(tmp_path / "a", whole + witness.trailer(len(whole), 6))
    assert records == {1: small(1), 2: small(2)} and reader.complete and reader.damaged == []


def test_what_follows_a_trailer_is_of_another_file(tmp_path: Path) -> None:
    data = b"".join([*START, record(1, small(1))])
    more = witness.trailer(len(data), 2) + record(2, small(2)) + end(3)
    _, records = read(tmp_path / "a", data + more)
    assert records == {1: small(1)}


def test_an_index_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    parts = [*START, record(1, small(1)), record(2, small(2)), end(3)]
    data = b"".join(parts)
    starts = list(itertools.accumulate((len(part) for part in parts[:-1]), initial=0))[1:]
    size = len(data)
    wrong = [
        [],
        [starts[0]] * 4,
        starts[::-1],
        [0, *starts[1:]],
        [*starts[:3], size],
        [*starts[:3], size - 35],
        [*starts[:3], 2**63],
        [*starts[:3], 2**64 - 1],
        [starts[0], starts[0] + 35, *starts[2:]],
    ]
    for index in wrong:
        file = data + witness.index(index) + witness.trailer(size, len(index))
        reader, records = read(tmp_path / "a", file)
        assert records == {1: small(1), 2: small(2)}, index
        assert reader.damaged == [] and reader.complete, index


def test_an_index_that_disagrees_about_its_length_is_not_followed(tmp_path: Path) -> None:
    parts = [*START, record(1, small(1)), record(2, small(2)), end(3)]
    data = b"".join(parts)
    starts = list(itertools.accumulate((len(part) for part in parts[:-1]), initial=0))[1:]
    size = len(data)
    short = struct.pack("<I2Q", 2, *starts[:2])
    for ending in (
        witness.index(starts[:2]) + witness.trailer(size, 4),
        witness.index(starts[:2], 4) + witness.trailer(size, 2),
        *(
            skippable(witness.INDEX, payload + crc(payload)) + witness.trailer(size, 2)
            for payload in (short + b"\0", short + bytes(7), short[:-1], short[:4], short[:2], b"")
        ),
    ):
        reader, records = read(tmp_path / "a", data + ending)
        assert records == {1: small(1), 2: small(2)}
        assert reader.damaged == [] and reader.complete


def test_an_index_between_records_gives_only_what_is_a_record(tmp_path: Path) -> None:
    parts = [*START, record(1, small(1)), record(2, small(2)), end(3)]
    data = b"".join(parts)
    starts = list(itertools.accumulate((len(part) for part in parts[:-1]), initial=0))[1:]
    starts[2] += 1
    file = data + witness.index(starts) + witness.trailer(len(data), 4)
    reader, records = read(tmp_path / "a", file)
    assert records == {1: small(1)} and reader.damaged == [2]


def test_records_that_overlap_are_damaged_and_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each record says that its frame reaches to the end of the file, and has the right CRC for it.
    count, tail = 200, b""
    for number in reversed(range(1, count)):
        tail = record_header(number, len(tail), 1 << 29, crc(tail)) + tail
    data = b"".join(START) + tail
    starts = [len(START[0]), *(len(b"".join(START)) + 36 * number for number in range(count - 1))]
    data += witness.index(starts) + witness.trailer(len(data), count)
    read_bytes = 0
    real = zlib.crc32

    def counting(piece: bytes, value: int = 0) -> int:
        nonlocal read_bytes
        read_bytes += len(piece)
        return real(piece, value)

    monkeypatch.setattr(zlib, "crc32", counting)
    reader, records = read(tmp_path / "a", data)
    assert records == {} and reader.damaged == list(range(1, count))
    assert read_bytes < 6 * len(data)


# Frames


def raw_frame(size: int, blocks: bytes, *, window: int | None = None) -> bytes:
    """A zstd frame that states ``size`` bytes, whatever its blocks hold."""
    if window is None:  # a single segment
        return struct.pack("<IBQ", 0xFD2FB528, 0b1110_0000, size) + blocks
    return struct.pack("<IBBQ", 0xFD2FB528, 0b1100_0000, window, size) + blocks


def repeated(byte: int, count: int, *, last: bool) -> bytes:
    """A block of one byte many times over, in four bytes."""
    return (last | 1 << 1 | count << 3).to_bytes(3, "little") + bytes([byte])


TWO_GIB = raw_frame(
    1 << 31, b"".join(repeated(0, 1 << 17, last=n == (1 << 14) - 1) for n in range(1 << 14))
)


def test_a_frame_made_by_hand_is_one_for_zstd() -> None:
    frame = raw_frame(1024, repeated(7, 1024, last=True))
    assert zstandard.ZstdDecompressor().decompress(frame) == b"\7" * 1024
    assert zstandard.frame_content_size(TWO_GIB) == 1 << 31 and len(TWO_GIB) < 70_000


BAD_FRAMES = {
    "two frames": (witness.frame_of(small(1)[:1024]) * 2, 2048),
    "two frames of which one is stated": (witness.frame_of(small(1)) * 2, len(small(1))),
    "a frame and a skippable one": (witness.frame_of(small(1)) + UNKNOWN, len(small(1))),
    "a skippable frame": (UNKNOWN, 512),
    "a skippable frame that says nothing": (UNKNOWN, 0),
    "a frame of nothing": (witness.frame_of(b""), 0),
    "a truncated frame": (witness.frame_of(small(1))[:-1], len(small(1))),
    "a frame without its last block": (witness.frame_of(small(1))[:20], len(small(1))),
    "no zstd frame": (b"any bytes", 512),
    "nothing": (b"", 512),
    "nothing that says so": (b"", 0),
    "a frame of another size": (witness.frame_of(small(1)), 512),
    "a frame that states more": (raw_frame(1 << 40, repeated(0, 512, last=True)), 512),
    "a frame that gives less": (raw_frame(1024, repeated(0, 512, last=True)), 1024),
    "a frame that gives more": (raw_frame(512, repeated(0, 1024, last=True)), 512),
    "terabytes in thirty bytes": (raw_frame(1 << 40, repeated(0, 512, last=True)), 1 << 40),
    "half a gigabyte in thirty bytes": (raw_frame(1 << 29, repeated(0, 512, last=True)), 1 << 29),
    "exabytes": (raw_frame(2**64 - 1, repeated(0, 512, last=True)), 2**64 - 1),
    "two gigabytes that are really there": (TWO_GIB, 1 << 31),
    "a window of two gigabytes": (raw_frame(512, repeated(0, 99, last=False), window=0xA8), 512),
    "a frame that needs a dictionary": (
        struct.pack("<IBBH", 0xFD2FB528, 0b0110_0001, 5, 512 - 256) + repeated(0, 512, last=True),
        512,
    ),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
@pytest.mark.parametrize("with_index", [True, False])
def test_a_frame_that_is_not_what_its_record_says_costs_that_record(
    tmp_path: Path, name: str, with_index: bool
) -> None:
    frame, raw = BAD_FRAMES[name]
    parts = [*START, record(1, b"", frame, raw), record(2, small(2)), end(3)]
    data = witness.whole(parts) if with_index else b"".join(parts)
    tracemalloc.start()
    try:
        reader, records = read(tmp_path / "a", data)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert records == {2: small(2)} and reader.damaged == [1] and reader.complete


def padded(blocks: int, raw: bytes) -> bytes:
    """A good frame of 512 bytes in more bytes than that: with so many blocks of nothing."""
    first = (len(raw) << 3).to_bytes(3, "little") + raw
    return raw_frame(512, bytes(3) * blocks + first + repeated(7, 512 - len(raw), last=True))


def test_a_frame_may_be_somewhat_larger_than_what_it_holds(tmp_path: Path) -> None:
    frame = padded(506, b"\7" * 2)
    assert len(frame) == 512 + 512 // 128 + 1024
    parts = [
        *START,
        record(1, b"", frame, 512),
        record(2, b"", padded(506, b"\7" * 3), 512),
        end(3),
    ]
    reader, records = read(tmp_path / "a", witness.whole(parts))
    assert records == {1: b"\7" * 512} and reader.damaged == [2]


def test_a_frame_that_is_much_larger_than_what_it_holds_is_not_read(tmp_path: Path) -> None:
    parts = [*START, record(1, b"", padded(2_000_000, b"\7"), 512), record(2, small(2)), end(3)]
    (tmp_path / "a").write_bytes(witness.whole(parts))
    tracemalloc.start()
    try:
        with RecordReader(tmp_path / "a") as reader:
            assert [number for number, _ in reader] == [2] and reader.damaged == [1]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# Lengths and counts that no file has: a few hundred bytes that claim up to 2**64

LAST = [record(1, small(1)), end(2)]
PLAIN = b"".join([*START, *LAST])


def lying() -> Iterator[tuple[str, bytes]]:
    about = ABOUT
    huge = struct.pack("<II", witness.HEADER, 2**32 - 1) + witness.MAGIC + crc(about) + about
    yield "a header of 4 GiB", huge + PLAIN
    yield "a header of 2 MiB", witness.header_frame(about + b" " * (1 << 21)) + b"".join(LAST)
    for compressed in (2**31, 2**40, 2**63, 2**64 - 1):
        header = record_header(1, compressed, 512, crc(b""))
        yield f"a frame of {compressed} bytes", b"".join([*START, header, *LAST])
        yield (
            f"a frame of {compressed} bytes, indexed",
            witness.whole([*START, header, record(2, small(2)), end(3)]),
        )
    for number in (2**31, 2**32 - 1):
        header = record_header(number, 0, 512, crc(b""))
        yield f"record {number}", b"".join([*START, header, *LAST])
    size = len(PLAIN)
    starts = struct.pack("<I", witness.INDEX)
    for count in (2**32 - 1, 10**6):
        yield f"a trailer of {count} records", PLAIN + witness.trailer(size, count)
        yield (
            f"an index of {count} records",
            PLAIN + witness.index([1, 2, 3], count) + witness.trailer(size, count),
        )
    lost = b"".join([*START, LAST[0]]) + bytes(50)  # which its own records do not lead through
    yield "a trailer of 2**32 - 1 lost records", lost + witness.trailer(len(lost), 2**32 - 1)
    yield "a trailer of 2**30 lost records far away", lost + witness.trailer(2**40, 2**30)
    yield "an index of 4 GiB", PLAIN + starts + b"\xff" * 4 + witness.trailer(size, 2**29 - 1)
    for at in (size + 1, 2**40, 2**63, 2**64 - 1):
        yield f"an index at {at}", PLAIN + witness.trailer(at, 3)
    unknown = struct.pack("<II", 0x184D2A5F, 2**32 - 1)
    yield "an unknown frame of 4 GiB", b"".join([*START, unknown, *LAST])


LYING = dict(lying())


@pytest.mark.parametrize("name", LYING)
def test_a_length_that_lies_allocates_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").write_bytes(LYING[name])
    tracemalloc.start()
    try:
        records = []
        try:
            with RecordReader(tmp_path / "a") as reader:
                records = list(reader)
                assert len(reader.damaged) < 10 and len(reader.verify()) < 10
        except CheckpointError:
            assert "header" in name
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert all(data in (small(1), small(2)) for _, data in records)


def test_a_count_that_the_file_could_hold_costs_no_more_than_the_file(tmp_path: Path) -> None:
    size = 1 << 22
    data = PLAIN[: len(START[0])] + bytes(size)
    (tmp_path / "a").write_bytes(data + witness.trailer(len(data), len(data) // 36))
    tracemalloc.start()
    try:
        with RecordReader(tmp_path / "a") as reader:
            assert list(reader) == [] and len(reader.damaged) == len(data) // 36
        assert tracemalloc.get_traced_memory()[1] < 3 * size
    finally:
        tracemalloc.stop()


READ_ALL = """
import resource, sys
from pathlib import Path
from cpreplay.checkpoint.container import RecordReader
from cpreplay.errors import CheckpointError

RecordReader(sys.argv[1] + "/good").close()
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20),) * 2)
files = sorted(Path(sys.argv[1]).iterdir())
for path in files:
    try:
        with RecordReader(path) as reader:
            list(reader)
            reader.verify()
    except CheckpointError:
        pass
print(len(files))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and a limit on memory")
def test_nothing_that_lies_needs_more_than_48_mebibytes(tmp_path: Path) -> None:
    files = dict(LYING)
    for name, (frame, raw) in BAD_FRAMES.items():
        parts = [*START, record(1, b"", frame, raw), record(2, small(2)), end(3)]
        files[name] = witness.whole(parts)
        files[f"{name}, no index"] = b"".join(parts)
    (tmp_path / "good").write_bytes(witness.whole([*START, *LAST]))
    for number, data in enumerate(files.values()):
        (tmp_path / str(number)).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, tmp_path], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "") and int(done.stdout) == len(files) + 1


# Members


def tar_header(name: str = "a", size: int = 0, **other: bytes) -> bytes:
    """A member's header with some bytes put elsewhere, and the right checksum."""
    header = bytearray(witness.member(name, b"")[:512])
    header[124:136] = b"%011o\0" % size
    for place, value in other.items():
        at = int(place.removeprefix("at_"))
        header[at : at + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def test_a_header_made_by_hand_is_one_for_tar() -> None:
    assert tar_header("a", 3) + b"abc" + bytes(509) == witness.member("a", b"abc")


A = witness.member("a", b"content")
BAD_MEMBERS = {
    "not whole blocks": A[:-1],
    "a header alone": A[:512],
    "part of a header": A[:100],
    "the end of a tar, and more": bytes(1024) + A,
    "a member, and the end of a tar": A + bytes(1024),
    "one block of zeros": bytes(512),
    "more zeros than end a tar": bytes(2048),
    "the same name twice": A + witness.member("a", b"other"),
    "one byte too many": tar_header("a", 513) + bytes(512),
    "8 GiB": tar_header("a", 0o77777777777) + bytes(512),
    "a size that is no number": tar_header(at_124=b"0000000000x\0") + bytes(512),
    "a size with a sign": tar_header(at_124=b"-0000000001\0") + bytes(512),
    "a size in base 256": tar_header(at_124=b"\x80" + bytes(3) + b"\1" + bytes(7)) + bytes(512),
    "a size of nothing": tar_header(at_124=bytes(12)),
    "a size of eights": tar_header(at_124=b"00000000008\0") + bytes(512),
    "a wrong checksum": A[:148] + b"000000\0 " + A[156:],
    "no checksum": A[:148] + bytes(8) + A[156:],
    "another magic": tar_header(at_257=b"ustar  \0"),
    "no magic": tar_header(at_257=bytes(8)),
    "a name that leads out": tar_header("a", at_0=b"../x"),
    "a name from the root": tar_header("a", at_0=b"/x"),
    "a prefix that leads out": tar_header("a", at_345=b".."),
    "no name": tar_header("a", at_0=b"\0"),
    "a name that is no UTF-8": tar_header("a", at_0=b"\xff\xfe"),
    "a part of a name": tar_header("a", at_0=b"\xe4\xbd"),
    "random bytes": random.Random(3).randbytes(2048),
}


@pytest.mark.parametrize("name", BAD_MEMBERS)
def test_a_record_that_is_no_run_of_members_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError):
        members_of(BAD_MEMBERS[name])


def test_a_changed_bit_of_a_members_header_is_seen_or_changes_nothing() -> None:
    record, seen = witness.member("a", b"content"), 0
    for at, bit in itertools.product(range(512), range(8)):
        changed = bytearray(record)
        changed[at] ^= 1 << bit
        try:
            assert members_of(bytes(changed)) == {"a": b"content"}
        except CheckpointError:
            seen += 1
    assert seen > 8 * 512 - 16  # blanks in place of the zeros that end a number


def test_a_sparse_file_of_terabytes_is_stepped_over(tmp_path: Path) -> None:
    about = tarfile.TarInfo("sparse")
    about.type, about.size = tarfile.GNUTYPE_SPARSE, 512
    sparse = bytearray(about.tobuf(tarfile.USTAR_FORMAT))
    sparse[483:495] = b"77777777777\0"  # its size when it is unpacked
    sparse[148:156] = b" " * 8
    sparse[148:156] = b"%06o\0 " % sum(sparse)
    pax = b"30 GNU.sparse.size=99999999999999\n"
    content = bytes(sparse) + bytes(512) + witness.member("pax", pax, b"x") + A
    tracemalloc.start()
    try:
        assert {name: bytes(data) for name, data in members_of(content).items()} == {
            "a": b"content"
        }
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_an_array_of_terabytes_in_a_good_record_is_refused(tmp_path: Path) -> None:
    content = witness.npy("<f8", (1 << 40,), bytes(64))
    parts = [*START, record(1, witness.member("a.npy", content)), end(2)]
    _, records = read(tmp_path / "a", witness.whole(parts))
    with pytest.raises(CheckpointError, match=r"8,796,093,022,208 bytes, and it has 64"):
        read_npy(members_of(records[1])["a.npy"], "a.npy")


# Headers, and files of others


def headed(about: bytes, *, copy: bytes | None = None) -> bytes:
    inner = witness.member("header.json", about if copy is None else copy)
    return witness.whole([witness.header_frame(about), record(0, inner), *LAST])


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        (b"", "no JSON"),
        (b"[]", "no checkpoint"),
        (b"null", "no checkpoint"),
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"{}", "no checkpoint"),
        (b'{"format": "another", "version": 1, "kind": "a"}', "no checkpoint"),
        (b'{"format": "cpreplay-checkpoint", "kind": "a"}', "version is None"),
        (b'{"format": "cpreplay-checkpoint", "version": 0, "kind": "a"}', "version is 0"),
        (b'{"format": "cpreplay-checkpoint", "version": -1, "kind": "a"}', "version is -1"),
        (b'{"format": "cpreplay-checkpoint", "version": true, "kind": "a"}', "version is True"),
        (b'{"format": "cpreplay-checkpoint", "version": 1.0, "kind": "a"}', "version is 1.0"),
        (b'{"format": "cpreplay-checkpoint", "version": "1", "kind": "a"}', "version is '1'"),
        (b'{"format": "cpreplay-checkpoint", "version": 2}', "version 2"),
        (b'{"format": "cpreplay-checkpoint", "version": 999999999999}', "version 999999999999"),
        (b'{"format": "cpreplay-checkpoint", "version": 1}', "kind"),
        (b'{"format": "cpreplay-checkpoint", "version": 1, "kind": 3}', "kind"),
        (b'{"format": "cpreplay-checkpoint", "version": 1, "version": 1, "kind": ""}', "twice"),
    ],
)
def test_a_header_that_says_something_else_is_refused(
    tmp_path: Path, about: bytes, reason: str
) -> None:
    (tmp_path / "a").write_bytes(headed(about))
    with pytest.raises(CheckpointError, match=reason):
        RecordReader(tmp_path / "a")


def test_the_copy_of_a_header_that_is_lost_is_checked_as_well(tmp_path: Path) -> None:
    for copy, reason in ((b"[]", "no checkpoint"), (b"{", "no JSON"), (b'{"format": 1}', "no ch")):
        data = bytearray(headed(ABOUT, copy=copy))
        data[30] ^= 1
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(CheckpointError, match=reason):
            RecordReader(tmp_path / "a")
    for inner in (small(0), bytes(512), witness.TAR_END):
        data = bytearray(witness.whole([START[0], record(0, inner), *LAST]))
        data[30] ^= 1
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(CheckpointError):
            RecordReader(tmp_path / "a")


def foreign() -> Iterator[tuple[str, bytes]]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("header.json", ABOUT)
    arrays = io.BytesIO()
    np.savez(arrays, a=np.arange(5))
    tar = witness.member("header.json", ABOUT) + witness.TAR_END
    yield "an empty file", b""
    yield "zeros", bytes(5000)
    yield "text", b"format: cpreplay-checkpoint\n" * 50
    yield "JSON", json.dumps({"format": "cpreplay-checkpoint", "version": 1}).encode()
    yield "a zip", archive.getvalue()
    yield "an npz", arrays.getvalue()
    yield "a gzip", gzip.compress(tar)
    yield "a tar", tar
    yield "a tar in zstd", witness.frame_of(tar)
    yield "a start of zstd", b"\x28\xb5\x2f\xfd"
    yield (
        "pzstd, whose frames follow skippable ones",
        (skippable(0x184D2A50, struct.pack("<I", 20)) + witness.frame_of(tar)),
    )
    yield "a skippable frame of another program", skippable(0x184D2A50, b"OTHERONE" + bytes(99))
    yield "another first version", witness.header_frame(ABOUT, b"CPRPREC1") + PLAIN
    yield "random bytes", random.Random(4).randbytes(9999)


FOREIGN = dict(foreign())


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_program_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").write_bytes(FOREIGN[name])
    with pytest.raises(CheckpointError, match=r"/a: this is no checkpoint of cpreplay"):
        RecordReader(tmp_path / "a")


@pytest.mark.parametrize("with_index", [True, False])
def test_frames_of_later_versions_are_stepped_over(tmp_path: Path, with_index: bool) -> None:
    parts = [
        *START,
        *(skippable(magic, b"later") for magic in range(0x184D2A54, 0x184D2A60)),
        record(1, small(1)),
        UNKNOWN,
        skippable(witness.HEADER, b""),
        record(2, small(2)),
        UNKNOWN,
        end(3),
        UNKNOWN,
    ]
    data = witness.whole(parts) if with_index else b"".join(parts)
    reader, records = read(tmp_path / "a", data)
    assert records == {1: small(1), 2: small(2)} and reader.complete and reader.damaged == []
