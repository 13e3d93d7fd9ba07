"""The checkpoint container: members, records, what is written and what is read back."""

import contextlib
import hashlib
import io
import itertools
import json
import os
import shutil
import subprocess
import tarfile
import threading
import tracemalloc
import zlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
import zstandard
from hypothesis import given

import cpreplay
from cpreplay.checkpoint.container import RecordReader, RecordWriter, written_records
from cpreplay.checkpoint.damage import damaged_records
from cpreplay.checkpoint.encoding import EncodedRecord, Encoder, decode, decode_start
from cpreplay.checkpoint.members import (
    Buffer,
    first_member,
    json_member,
    member,
    members_of,
    npy_member,
    read_json,
    read_npy,
)
from cpreplay.errors import (
    CheckpointError,
    CheckpointVersionError,
    ConfigurationError,
    OrderError,
    ReplayError,
)
from tests.checkpoint_files import FOLDER, witness

HEADER = {
    "kind": "test",
    "written": "2026-12-01T00:00:00+00:00",
    "library": "none",
    "place": "位",
    "key": ["a", "b"],
}

# Of the files as they were committed. A change here is a change of the format.
GOLDEN = {
    "other_format.tar.zst": "5ee36507d325e17ced833c50e2d1ff32",
    "v1_arrays.tar.zst": "1d28d8dc15817699cd91f35fa43687d3",
    "v1_cut_in_record_2.tar.zst": "36bd7d522610a03d7867dfc099c2b9b6",
    "v1_header_damaged.tar.zst": "ef78d4684d2646166066b59f34007bca",
    "v1_index_lost.tar.zst": "631eae2b8e91aeb6b62910ae3543c132",
    "v1_no_records.tar.zst": "30d12fe1d8f77b8ca25e537996c95120",
    "v1_record_1_damaged.tar.zst": "055302c158d83d3666ee22776f9deae7",
    "v1_two_records.tar.zst": "22259f2eed6b3126f33ea2ec28ab1ac9",
    "v1_with_what_is_unknown.tar.zst": "1765d0446d02ccb0dd805977e6cb9aa1",
    "v2.tar.zst": "d99cd4272b1464cb1884376f2ba85934",
}
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())


def joined(parts: list[Buffer]) -> bytes:
    return b"".join(bytes(part) for part in parts)


def content_of(parts: list[Buffer]) -> memoryview:
    """The content of the one member that the buffers make, by way of a record."""
    (content,) = members_of(joined(parts)).values()
    return content


def points(count: int = 7) -> list[dict[str, bytes]]:
    random = np.random.default_rng(0)
    return [
        {
            f"points/{number:06d}.snapshot": random.bytes(100 + 37 * number),
            f"points/{number:06d}.json": b'{"level": %d}' % number,
        }
        for number in range(count)
    ]


def write(path: Path, records: list[dict[str, bytes]], header: dict[str, Any] = HEADER) -> None:
    with written_records(path, header) as writer:
        for record in records:
            writer.write([part for name in record for part in member(name, record[name])])


def read(path: Path) -> tuple[RecordReader, list[int], dict[str, bytes]]:
    """The reader, the numbers of its records, and all members."""
    numbers, found = [], {}
    with RecordReader(path) as reader:
        for number, record in reader:
            numbers.append(number)
            for name, content in members_of(record).items():
                assert name not in found
                found[name] = bytes(content)
    return reader, numbers, found


def merged(records: list[dict[str, bytes]]) -> dict[str, bytes]:
    return {name: content for record in records for name, content in record.items()}


# What is written and read


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write(tmp_path / "a", points())
    reader, numbers, found = read(tmp_path / "a")
    assert reader.header == {"format": "cpreplay-checkpoint", "version": 1} | HEADER
    assert (reader.version, reader.complete, reader.damaged) == (1, True, [])
    assert numbers == [1, 2, 3, 4, 5, 6, 7]
    assert list(found.items()) == list(merged(points()).items())
    assert os.listdir(tmp_path) == ["a"]


def test_a_witness_reads_what_is_written_to_the_last_byte(tmp_path: Path) -> None:
    write(tmp_path / "a", points())
    found = witness.read((tmp_path / "a").read_bytes())
    assert found.header == {"format": "cpreplay-checkpoint", "version": 1} | HEADER
    assert {name: found.members[name] for name in merged(points())} == merged(points())
    assert len(found.members) == 1 + len(merged(points()))
    assert len(found.records) == 9  # the header's copy, seven points, the end of the tar


def test_what_a_witness_writes_is_read(tmp_path: Path) -> None:
    header = {"format": "cpreplay-checkpoint", "version": 1, "kind": "test", "more": [1, None]}
    records = [
        b"".join(witness.member(name, record[name]) for name in record) for record in points()
    ]
    (tmp_path / "a").write_bytes(witness.checkpoint(header, records))
    reader, numbers, found = read(tmp_path / "a")
    assert reader.header == header and reader.complete and reader.damaged == []
    assert numbers == [1, 2, 3, 4, 5, 6, 7] and found == merged(points())


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_a_golden_file_is_the_one_that_was_committed(name: str) -> None:
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()[:32] == GOLDEN[name]


def test_every_golden_file_is_tested() -> None:
    assert GOLDEN.keys() == EXPECTED.keys() == {path.name for path in FOLDER.glob("*.zst")}


@pytest.mark.parametrize("name", [name for name in GOLDEN if "members" in EXPECTED[name]])
def test_a_golden_file_reads_as_when_it_was_made(name: str) -> None:
    reader, _, found = read(FOLDER / name)
    expected = EXPECTED[name]
    assert {name: content.hex() for name, content in found.items()} == expected["members"]
    assert reader.damaged == expected["damaged"]
    assert reader.complete is expected["complete"]
    assert (reader.version, reader.header["kind"]) == (1, "golden")
    assert (reader.header["place"], reader.header["library"]) == ("位", "cpreplay 0.1.0")


@pytest.mark.parametrize("name", [name for name in GOLDEN if "refused" in EXPECTED[name]])
def test_a_golden_file_is_refused_as_when_it_was_made(name: str) -> None:
    with pytest.raises(CheckpointError, match=EXPECTED[name]["refused"]):
        RecordReader(FOLDER / name)


def test_golden_arrays_have_the_values_they_were_made_of() -> None:
    with RecordReader(FOLDER / "v1_arrays.tar.zst") as reader:
        ((_, record),) = reader
    arrays = {name: read_npy(content, name) for name, content in members_of(record).items()}
    obs = arrays["rows/obs.npy"]
    assert obs.dtype == np.dtype("<f8")
    assert obs.tolist() == [[0.0, -1.5, 2.0**-1074], [1e300, float("inf"), 0.1]]
    assert arrays["rows/action.npy"].tolist() == [-(2**63), 0, 2**63 - 1]
    assert arrays["rows/terminated.npy"].tolist() == [False, True, False]
    assert arrays["rows/none.npy"].shape == (0, 5)
    assert arrays["rows/one.npy"].shape == () and int(arrays["rows/one.npy"]) == 0x1234


def test_a_version_that_is_newer_has_an_error_of_its_own() -> None:
    with pytest.raises(CheckpointVersionError, match=r"version 2.*up to 1"):
        RecordReader(FOLDER / "v2.tar.zst")


def test_a_file_without_records_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a", [])
    reader, numbers, _ = read(tmp_path / "a")
    assert reader.complete and numbers == [] == reader.damaged


def test_python_unpacks_a_checkpoint_without_the_library(tmp_path: Path) -> None:
    write(tmp_path / "a", points())
    with open(tmp_path / "a", "rb") as file:
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            assert archive.getnames() == ["header.json", *merged(points())]


def test_zstd_and_tar_unpack_a_checkpoint(tmp_path: Path) -> None:
    for tool in ("zstd", "tar", "bash"):
        if shutil.which(tool) is None:
            pytest.skip(f"the tool {tool} is not installed")
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    with written_records(tmp_path / "a", HEADER) as writer:
        writer.write([*member("points/位.snapshot", b"any bytes"), *npy_member("rows.npy", array)])
        writer.write(json_member("points/0.json", {"level": 1}))
    subprocess.run(["zstd", "-tq", tmp_path / "a"], check=True)
    out = tmp_path / "out"
    out.mkdir()
    pipe = 'set -o pipefail; zstd -dc "$1" | tar -xf - -C "$2"'
    done = subprocess.run(["bash", "-c", pipe, "-", tmp_path / "a", out], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert json.loads((out / "header.json").read_bytes())["place"] == "位"
    assert (out / "points/位.snapshot").read_bytes() == b"any bytes"
    assert json.loads((out / "points/0.json").read_bytes()) == {"level": 1}
    np.testing.assert_array_equal(np.load(out / "rows.npy"), array)


# Members


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 70_000])
@pytest.mark.parametrize(
    "name", ["a", "rows/obs.npy", "é位/𝄞", "n" * 100, "位" * 33, "..a/b..", "a b"]
)
def test_a_member_is_as_pythons_tarfile_writes_it(name: str, size: int) -> None:
    content = np.random.default_rng(size).bytes(size)
    assert joined(member(name, content)) == witness.member(name, content)


def test_parts_of_a_member_follow_each_other_and_are_not_copied() -> None:
    parts: list[Buffer] = [b"one", bytearray(b"two"), memoryview(b"three")]
    buffers = member("name", *parts)
    assert joined(buffers) == witness.member("name", b"onetwothree")
    assert all(any(buffer is part for buffer in buffers) for part in parts)


def test_wide_items_of_a_memoryview_count_in_bytes() -> None:
    numbers = np.arange(5, dtype=np.int64)
    assert joined(member("name", numbers.data)) == witness.member("name", numbers.tobytes())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "0 bytes"),
        ("n" * 101, "101 bytes"),
        ("位" * 34, "102 bytes"),
        ("/etc/passwd", "no plain relative path"),
        ("../x", "no plain relative path"),
        ("a/../../x", "no plain relative path"),
        ("..", "no plain relative path"),
        (".", "no plain relative path"),
        ("./a", "no plain relative path"),
        ("a/./b", "no plain relative path"),
        ("a//b", "no plain relative path"),
        ("a/", "no plain relative path"),
        ("C:x", "colon"),
        ("a\\b", "backslash"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("a\x7fb", "control"),
        ("\ud800", "no Unicode text"),
    ],
)
def test_a_name_that_could_lead_elsewhere_is_neither_written_nor_read(
    name: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        member(name, b"")
    about = tarfile.TarInfo(name)
    with contextlib.suppress(ValueError, UnicodeEncodeError):
        header = about.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
        if b"\0" not in name.rstrip("\0").encode("utf-8", "surrogatepass"):
            with pytest.raises(CheckpointError, match=reason):
                members_of(header)


def test_a_longer_name_whose_first_part_is_elsewhere_in_the_header_is_refused() -> None:
    record = witness.member("folder/" * 20 + "file", b"content")
    with pytest.raises(CheckpointError, match=r"folder/folder/.*144 bytes"):
        members_of(record)


def test_a_record_begins_with_a_member_as_far_as_it_is_there() -> None:
    record = joined([*member("a", b"x" * 700), *member("b", b"y")])
    for there, content in ((1536, b"x" * 700), (600, b"x" * 88), (512, b"")):
        name, start = first_member(record[:there])
        assert (name, bytes(start)) == ("a", content)
    for nothing in (b"", record[:200], record[1:1000]):
        with pytest.raises(CheckpointError):
            first_member(nothing)


def test_members_are_read_only_views_of_their_record() -> None:
    record = joined(member("a", b"content"))
    content = members_of(record)["a"]
    assert content.readonly and content.obj is record
    assert np.shares_memory(np.frombuffer(content, np.uint8), np.frombuffer(record, np.uint8))


def test_what_is_no_regular_file_is_stepped_over_with_its_content() -> None:
    kinds = [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.GNUTYPE_SPARSE, tarfile.XHDTYPE, b"?", b"7"]
    record = b"".join(
        [
            *(witness.member(f"no file {n}", bytes(700), kind) for n, kind in enumerate(kinds)),
            witness.member("a", b"content"),
            *(witness.member(f"nor this {n}", b"", kind) for n, kind in enumerate(kinds)),
            witness.member("old", b"1988", tarfile.AREGTYPE),
        ]
    )
    found = members_of(record)
    assert {name: bytes(content) for name, content in found.items()} == {
        "a": b"content",
        "old": b"1988",
    }


def test_the_end_of_a_tar_and_nothing_have_no_members() -> None:
    assert members_of(witness.TAR_END) == {} == members_of(b"")


# Arrays

PLAIN = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="?"),
    npst.unsigned_integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?"),
    npst.complex_number_dtypes(endianness="?"),
    npst.byte_string_dtypes(endianness="?"),
    npst.unicode_string_dtypes(endianness="?"),
    npst.datetime64_dtypes(endianness="?"),
    npst.timedelta64_dtypes(endianness="?"),
)
SHAPES = npst.array_shapes(max_dims=2, max_side=3)
FIELDS = st.lists(st.tuples(PLAIN, st.just(()) | SHAPES), min_size=1, max_size=4)
RECORDS = st.builds(
    lambda fields, align: np.dtype(
        [(name, *field) for name, field in zip("abcd", fields, strict=False)], align=align
    ),
    FIELDS,
    st.booleans(),
)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Any plain array, in any memory order, also with steps."""
    shape = draw(npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    dtype = draw(PLAIN | RECORDS)
    size = int(np.prod(shape)) * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    array = np.ndarray(shape, dtype, data, order=draw(st.sampled_from("CF")))
    return array[..., ::-1] if array.ndim and draw(st.booleans()) else array


@given(arrays())
def test_any_plain_array_survives_and_numpy_reads_it_too(array: np.ndarray) -> None:
    content = content_of(npy_member("a.npy", array))
    for read in (read_npy(content, "a.npy"), np.load(io.BytesIO(content), allow_pickle=False)):
        assert (read.dtype, read.shape) == (array.dtype, array.shape)
        assert read.tobytes() == array.tobytes()


@given(arrays())
def test_what_numpy_saves_is_read(array: np.ndarray) -> None:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    read = read_npy(file.getvalue(), "a.npy")
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    assert read.tobytes() == array.tobytes()


def test_an_array_in_the_order_of_fortran_keeps_its_places() -> None:
    array = np.asfortranarray([[0, 1, 2], [3, 4, 5]], np.int16)
    read = read_npy(content_of(npy_member("a.npy", array)), "a.npy")
    assert read.tolist() == [[0, 1, 2], [3, 4, 5]] and read.flags.f_contiguous


@pytest.mark.parametrize(
    "array", [np.zeros(()), np.zeros((2, 3), ">i2"), np.zeros((0, 1), bool), np.zeros((1,) * 31)]
)
def test_an_ordinary_array_is_read_without_pythons_parser(
    array: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which in Python 3.11 fails where two threads are in it at once."""
    content = content_of(npy_member("a.npy", array))
    with monkeypatch.context() as patched:  # pytest needs it for what it tells
        patched.setattr("ast.literal_eval", None)
        patched.setattr("ast.parse", None)
        read = read_npy(content, "a.npy")
    assert (read.dtype, read.shape) == (array.dtype, array.shape)


@pytest.mark.parametrize("more", [-64, -1, 1, 4, 64])
def test_an_ordinary_array_whose_header_says_another_length_is_refused(more: int) -> None:
    content = bytearray(content_of(npy_member("a.npy", np.zeros(40))))
    assert read_npy(bytes(content), "a.npy").shape == (40,)
    content[8] += more  # where NumPy writes how long its header is
    with pytest.raises(CheckpointError, match=r"^a\.npy: "):
        read_npy(bytes(content), "a.npy")


def test_notes_on_a_dtype_are_left_out_without_a_word() -> None:
    array = np.arange(3, dtype=np.dtype("<i4", metadata={"unit": "m"}))
    read = read_npy(content_of(npy_member("a.npy", array)), "a.npy")
    assert read.tolist() == [0, 1, 2] and read.dtype == np.dtype("<i4")


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_contiguous_array_is_not_copied(order: Any) -> None:
    array = np.zeros((300, 400), np.float32, order=order)
    buffers = npy_member("a.npy", array)
    assert any(np.shares_memory(np.frombuffer(part, np.uint8), array) for part in buffers if part)


def test_an_array_is_read_as_a_view_that_cannot_be_written() -> None:
    content = bytearray(content_of(npy_member("a.npy", np.arange(6))))
    array = read_npy(content, "a.npy")
    assert np.shares_memory(array, np.frombuffer(content, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


@pytest.mark.parametrize(
    "dtype", ["O", [("a", "O")], np.dtype([("a", [("b", "O", (2,))])]), np.dtypes.StringDType()]
)
def test_an_array_that_only_pickle_could_store_is_refused(dtype: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"a\.npy.*without pickle"):
        npy_member("a.npy", np.empty(2, dtype))


def test_field_names_that_npy_1_0_cannot_express_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"a\.npy"):
        npy_member("a.npy", np.zeros(1, [("位", "u1")]))


def test_a_dtype_whose_description_a_reader_would_refuse_is_refused() -> None:
    many = [(f"a_rather_long_field_name_{number}", "<f8") for number in range(120)]
    with pytest.raises(ConfigurationError, match=r"takes \d+ bytes.*4096"):
        npy_member("a.npy", np.zeros(1, many))
    few = np.zeros(1, many[:90])
    assert read_npy(content_of(npy_member("a.npy", few)), "a.npy").dtype == few.dtype


NPY = np.lib.format.magic(1, 0)


def npy_header(text: str, version: bytes = NPY, data: bytes = b"") -> bytes:
    return version + len(text).to_bytes(2, "little") + text.encode("latin1") + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        NPY,
        NPY + b"\xff\xff{}",
        b"PK\x03\x04" + bytes(100),
        b"\x80\x04\x95" + bytes(100),  # pickle
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", data=bytes(7)),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", data=bytes(9)),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", data=bytes(8)),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -1), }", data=bytes(8)),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }", data=bytes(4)),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,), }", data=bytes(8)),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", data=bytes(8)),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (10**12,), }"),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1%s), }" % ("0" * 30)),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (%s0,), }" % ("1, " * 64)),
        npy_header("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,), }", data=bytes(4)),
        npy_header("{'descr': '<f4', 'shape': (1,), }", data=bytes(4)),
        npy_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", data=bytes(8)),
        npy_header(
            "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}", data=bytes(8)
        ),
        npy_header("{'descr': '|T16', 'fortran_order': False, 'shape': (1,)}", data=bytes(16)),
        npy_header("{'descr': 'T', 'fortran_order': False, 'shape': (1,)}", data=bytes(16)),
        npy_header("{'descr': '<U0', 'fortran_order': False, 'shape': (1%s,)}" % ("0" * 17)),
        npy_header("{'descr': '|V0', 'fortran_order': False, 'shape': (3,)}"),
        npy_header("{'descr': [], 'fortran_order': False, 'shape': (3,)}"),
        npy_header("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}", data=bytes(4)),
        npy_header("{'descr': ('<f4', (2, -3)), 'fortran_order': False, 'shape': (1,)}"),
        npy_header("{'descr': ('<f4', (99999999, 99999999)), 'fortran_order': False, 'shape': ()}"),
        npy_header("{'descr': [('a',)], 'fortran_order': False, 'shape': ()}"),
        npy_header("{'descr': [1, 2], 'fortran_order': False, 'shape': ()}"),
        npy_header("{'descr': None, 'fortran_order': False, 'shape': (1,)}", data=bytes(8)),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1L,)}", data=bytes(4)),
        npy_header("{1: 2}"),
        npy_header("{" * 300),
        npy_header("(" * 3000),
        npy_header("-" * 3000 + "1"),
        npy_header("open('/etc/passwd')"),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"\x93NUMPY\2\0"),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"\x93NUMPY\3\0"),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}" + " " * 5000),
    ],
)
def test_an_array_that_is_not_what_it_says_is_refused_and_costs_nothing(content: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=r"^a\.npy: "):
            read_npy(content, "a.npy")
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


# JSON

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**300), 2**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
)


@given(VALUES)
def test_a_json_value_survives(value: Any) -> None:
    content = content_of(json_member("a.json", value))
    assert read_json(content, "a.json") == value
    assert json.loads(bytes(content).decode("utf-8")) == value


@pytest.mark.parametrize(
    "value",
    [float("nan"), [float("inf")], {"a": -float("inf")}, b"bytes", {1, 2}, object(), "\ud800"],
)
def test_a_value_that_json_does_not_have_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^a\.json: "):
        json_member("a.json", value)


def test_json_of_a_mebibyte_is_written_and_read_and_no_more() -> None:
    text = "x" * ((1 << 20) - 2)
    assert read_json(content_of(json_member("a.json", text)), "a.json") == text
    with pytest.raises(ConfigurationError, match=r"a\.json takes 1,048,577 bytes.*1,048,576"):
        json_member("a.json", text + "x")
    with pytest.raises(CheckpointError, match=r"a\.json: JSON of 1,048,577 bytes"):
        read_json(b"[" + b"0," * (1 << 19), "a.json")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"nonsense",
        b"NaN",
        b"[1, Infinity]",
        b"[-Infinity]",
        b"1e999",
        b"[-1e309]",
        b'"\xff"',
        b"\xef\xbb\xbf1",
        b'{"a": 1, "a": 2}',
        b'[{"a": {"b": 1, "b": 1}}]',
        b"[" * 100_000,
        b"1" * 10_000,
        b"1 2",
        "[1]".encode("utf-16"),
    ],
)
def test_what_is_no_json_is_refused(content: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"^a\.json: "):
        read_json(content, "a.json")


# Records


def test_an_encoded_record_is_one_frame_with_its_size_and_a_checksum() -> None:
    parts = [*member("a", b"content"), *member("b", bytes(100_000))]
    record = Encoder().encode(parts)
    assert isinstance(record, EncodedRecord) and type(record.frame) is bytes
    assert record.size == len(joined(parts)) and record.crc == zlib.crc32(record.frame)
    about = zstandard.get_frame_parameters(record.frame)
    assert about.content_size == record.size and about.has_checksum
    assert zstandard.ZstdDecompressor().decompress(record.frame) == joined(parts) == decode(record)


def test_parts_may_come_from_an_iterator_and_be_of_any_kind() -> None:
    parts = [b"a" * 100, bytearray(b"b" * 400), memoryview(b"c" * 12), b""]
    assert decode(Encoder().encode(iter(parts))) == joined(parts)


@pytest.mark.parametrize("parts", [[], [b""], [b"a"], [bytes(513)], [bytes(512), b"a"]])
def test_what_is_no_run_of_whole_members_is_not_encoded(parts: list[bytes]) -> None:
    with pytest.raises(ConfigurationError, match="512"):
        Encoder().encode(parts)


def test_an_encoder_works_after_a_part_that_it_could_not_compress() -> None:
    encoder = Encoder()
    good = joined(member("a", b"content"))
    holes = np.zeros((32, 32), np.uint8)[:, ::2]
    with pytest.raises((ValueError, BufferError, zstandard.ZstdError)):
        encoder.encode([good, holes.data])
    assert encoder.encode([good]) == Encoder().encode([good])


@pytest.mark.parametrize("level", [1, 3, 22])
def test_a_level_changes_the_bytes_and_not_what_they_hold(level: int) -> None:
    parts = member("a", np.arange(5000, dtype=np.uint16).tobytes() * 3)
    assert decode(Encoder(level).encode(parts)) == joined(parts)


@pytest.mark.parametrize("level", [0, -1, 23, 1.0, True, "1", None])
def test_another_level_is_refused(level: Any) -> None:
    with pytest.raises(ConfigurationError, match="1 to 22"):
        Encoder(level)


def test_a_higher_level_gives_fewer_bytes() -> None:
    parts = member("a", b"".join(b"%d" % (n * n) for n in range(50_000)))
    assert len(Encoder(19).encode(parts).frame) < len(Encoder(1).encode(parts).frame)


FRAME = Encoder().encode(member("a", b"content"))


@pytest.mark.parametrize(
    "record",
    [
        EncodedRecord(FRAME.frame, FRAME.size, FRAME.crc ^ 1),
        EncodedRecord(FRAME.frame[:-1], FRAME.size, FRAME.crc),
        EncodedRecord(FRAME.frame[:-1], FRAME.size, zlib.crc32(FRAME.frame[:-1])),
        EncodedRecord(FRAME.frame * 2, FRAME.size, zlib.crc32(FRAME.frame * 2)),
        EncodedRecord(FRAME.frame * 2, FRAME.size * 2, zlib.crc32(FRAME.frame * 2)),
        EncodedRecord(FRAME.frame + b"\0", FRAME.size, zlib.crc32(FRAME.frame + b"\0")),
        EncodedRecord(FRAME.frame, FRAME.size + 512, FRAME.crc),
        EncodedRecord(FRAME.frame, FRAME.size - 512, FRAME.crc),
        EncodedRecord(FRAME.frame, 0, FRAME.crc),
        EncodedRecord(FRAME.frame, -512, FRAME.crc),
        EncodedRecord(b"", 512, 0),
        EncodedRecord(b"", 0, 0),
        EncodedRecord(b"no zstd frame", 512, zlib.crc32(b"no zstd frame")),
    ],
)
def test_a_record_that_is_not_as_it_was_encoded_is_refused(record: EncodedRecord) -> None:
    with pytest.raises(CheckpointError):
        decode(record)


def test_a_frame_that_does_not_state_its_size_is_refused() -> None:
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    frame = stream.compress(bytes(512)) + stream.flush()
    with pytest.raises(CheckpointError, match="says 512 bytes"):
        decode(EncodedRecord(frame, 512, zlib.crc32(frame)))


def test_a_record_above_the_limit_is_refused_and_one_at_it_is_not() -> None:
    record = Encoder().encode(member("a", bytes(512)))
    assert len(decode(record, limit=1024)) == 1024
    with pytest.raises(CheckpointError, match="1,023"):
        decode(record, limit=1023)


def test_the_start_of_a_record_is_decoded_without_the_rest() -> None:
    parts = member("a", np.random.default_rng(0).bytes(1_000_000))
    record = Encoder().encode(parts)
    for count in (0, 1, 512, 5000, 10**7):
        assert decode_start(record, count) == joined(parts)[:count]
    broken = bytearray(record.frame)
    del broken[500_000:]
    cut = EncodedRecord(bytes(broken), record.size, record.crc)
    assert decode_start(cut, 5000) == joined(parts)[:5000]
    with pytest.raises(CheckpointError, match="damaged"):
        decode_start(EncodedRecord(b"no frame", 512, 0), 5000)


def test_threads_encode_and_decode_at_once() -> None:
    random = np.random.default_rng(0)
    contents = [random.integers(0, 4, 20_000).astype(np.uint8).tobytes() for _ in range(8)]
    shared = [Encoder().encode(member("a", content)) for content in contents]
    faults: list[object] = []
    start = threading.Barrier(8)

    def work(own: int) -> None:
        encoder = Encoder()
        start.wait()
        for turn in range(60):
            number = (own + turn) % 8
            if bytes(members_of(decode(shared[number]))["a"]) != contents[number]:
                faults.append(("decode", own, turn))
            if encoder.encode(member("a", contents[number])) != shared[number]:
                faults.append(("encode", own, turn))

    threads = [threading.Thread(target=work, args=(own,)) for own in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


# The writer


def test_records_encoded_before_give_the_same_file(tmp_path: Path) -> None:
    encoder = Encoder()
    encoded = [
        encoder.encode([part for name in record for part in member(name, record[name])])
        for record in points()
    ]
    with written_records(tmp_path / "early", HEADER) as writer:
        for record in encoded:
            writer.write_encoded(record)
    write(tmp_path / "now", points())
    assert (tmp_path / "early").read_bytes() == (tmp_path / "now").read_bytes()


def test_the_end_gives_the_length_of_the_file_and_is_written_once() -> None:
    file = io.BytesIO()
    writer = RecordWriter(file, HEADER)
    writer.write(member("a", b"content"))
    assert writer.finish() == len(file.getvalue()) == writer.finish()
    assert list(witness.read(file.getvalue()).members) == ["header.json", "a"]


def test_a_record_after_the_end_is_refused() -> None:
    file = io.BytesIO()
    writer = RecordWriter(file, HEADER)
    size = writer.finish()
    with pytest.raises(OrderError, match="finish"):
        writer.write(member("a", b"content"))
    with pytest.raises(OrderError, match="finish"):
        writer.write_encoded(FRAME)
    assert len(file.getvalue()) == size


def test_a_block_may_finish_by_itself(tmp_path: Path) -> None:
    with written_records(tmp_path / "a", HEADER) as writer:
        size = writer.finish()
    assert (tmp_path / "a").stat().st_size == size and read(tmp_path / "a")[0].complete


def test_a_refused_record_leaves_the_writer_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [io.BytesIO(), io.BytesIO()]
    large = member("large", bytes(3000))
    for file in files:
        writer = RecordWriter(file, HEADER)
        if file is files[0]:
            with pytest.raises(ConfigurationError):
                writer.write([b"no member"])
            with monkeypatch.context() as patched:
                patched.setattr("cpreplay.checkpoint.container.RECORD_LIMIT", 3000)
                with pytest.raises(ConfigurationError):
                    writer.write(large)
                with pytest.raises(ConfigurationError):
                    writer.write_encoded(Encoder().encode(large))
        writer.write(member("a", b"content"))
        writer.finish()
    assert files[0].getvalue() == files[1].getvalue()


def test_a_record_that_no_reader_would_take_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpreplay.checkpoint.container.RECORD_LIMIT", 2048)
    at_limit, above = member("rows/0/a.npy", bytes(1536)), member("rows/1/a.npy", bytes(1537))
    with written_records(tmp_path / "a", HEADER) as writer:
        writer.write(at_limit)
        writer.write_encoded(Encoder().encode(at_limit))
    kept = (tmp_path / "a").read_bytes()
    with (
        pytest.raises(ConfigurationError, match=r"rows/1/a\.npy takes 2,560 bytes.* 2,048"),
        written_records(tmp_path / "a", HEADER) as writer,
    ):
        writer.write(above)
    with (
        pytest.raises(ConfigurationError, match="number 1 takes 2,560 bytes"),
        written_records(tmp_path / "a", HEADER) as writer,
    ):
        writer.write_encoded(Encoder().encode(above))
    assert (tmp_path / "a").read_bytes() == kept


def test_the_header_says_what_the_file_is_and_when_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "a", [], {"kind": "replay"})
    header = read(tmp_path / "a")[0].header
    assert list(header) == ["format", "version", "written", "library", "kind"]
    assert (header["format"], header["version"]) == ("cpreplay-checkpoint", 1)
    assert header["library"] == f"cpreplay {cpreplay.__version__}"
    written = datetime.fromisoformat(header["written"])
    assert written.utcoffset() == timedelta(0)
    assert abs((datetime.now(written.tzinfo) - written).total_seconds()) < 600


def test_the_header_may_have_the_formats_own_values(tmp_path: Path) -> None:
    write(tmp_path / "a", [], HEADER | {"format": "cpreplay-checkpoint", "version": 1})
    assert read(tmp_path / "a")[0].version == 1


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({}, "kind is None"),
        ({"kind": 1}, "kind is 1"),
        ({"kind": "a", "format": "mine"}, "format 'mine'"),
        ({"kind": "a", "version": 2}, "version 2"),
        ({"kind": "a", "version": "1"}, "version '1'"),
        ({"kind": "a", "x": float("nan")}, "JSON"),
        ({"kind": "a", "x": b"bytes"}, "JSON"),
        ({"kind": "a", "x": "y" * (1 << 20)}, "1,048,576"),
    ],
)
def test_a_header_that_no_reader_would_take_is_refused(
    tmp_path: Path, header: dict[str, Any], reason: str
) -> None:
    write(tmp_path / "a", points())
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(ConfigurationError, match=reason), written_records(tmp_path / "a", header):
        pytest.fail("the block is not entered")
    assert (tmp_path / "a").read_bytes() == before and os.listdir(tmp_path) == ["a"]


def test_the_largest_header_is_read(tmp_path: Path) -> None:
    limit = 1 << 20
    empty = len(json.dumps({"format": "cpreplay-checkpoint", "version": 1} | HEADER | {"x": ""}))
    empty += len("位".encode()) - len(json.dumps("位")) + 2
    header = HEADER | {"x": "y" * (limit - empty)}
    write(tmp_path / "a", [], header)
    assert read(tmp_path / "a")[0].header["x"] == header["x"]
    # Without the index, so that its copy cannot stand in for it.
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-20])
    assert read(tmp_path / "a")[0].header["x"] == header["x"]
    with pytest.raises(ConfigurationError):
        write(tmp_path / "a", [], HEADER | {"x": "y" * (limit - empty + 1)})


def test_an_exception_in_the_block_keeps_the_old_file(tmp_path: Path) -> None:
    write(tmp_path / "a", points())
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(RuntimeError), written_records(tmp_path / "a", HEADER) as writer:
        writer.write(member("a", b"new"))
        raise RuntimeError
    assert (tmp_path / "a").read_bytes() == before and os.listdir(tmp_path) == ["a"]


def test_a_saved_array_costs_the_writer_no_second_copy(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 2, 8_000_000).astype(np.uint8)
    tracemalloc.start()
    try:
        with written_records(tmp_path / "a", HEADER) as writer:
            writer.write(npy_member("a.npy", array))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


# The reader


def test_every_pass_gives_the_same(tmp_path: Path) -> None:
    write(tmp_path / "a", points())
    with RecordReader(tmp_path / "a") as reader:
        first = list(reader)
        assert list(reader) == first and len(first) == 7
        for one, other in zip(reader, itertools.islice(first, None), strict=True):
            assert one == other


def test_two_passes_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    write(tmp_path / "a", points())
    with RecordReader(tmp_path / "a") as reader:
        assert all(one == other for one, other in zip(reader, reader, strict=True))


def test_one_record_is_in_memory_at_a_time(tmp_path: Path) -> None:
    with written_records(tmp_path / "a", HEADER) as writer:
        for number in range(10):
            writer.write(member(str(number), bytes(4_000_000)))
    with RecordReader(tmp_path / "a") as reader:
        tracemalloc.start()
        try:
            for _, record in reader:
                assert len(record) > 4_000_000
                del record
            assert tracemalloc.get_traced_memory()[1] < 5_000_000
        finally:
            tracemalloc.stop()


def test_records_are_given_encoded_as_they_were_written(tmp_path: Path) -> None:
    encoder = Encoder()
    records = [encoder.encode(member(str(n), bytes(300 * n))) for n in range(4)]
    with written_records(tmp_path / "a", HEADER) as writer:
        for record in records:
            writer.write_encoded(record)
    data = bytearray((tmp_path / "a").read_bytes())
    data[witness.read(bytes(data)).spans[2][0] + 50] ^= 1
    (tmp_path / "a").write_bytes(data)
    with RecordReader(tmp_path / "a") as reader:
        for _ in range(2):
            encoded = dict(reader.encoded())
            assert encoded == {1: records[0], 3: records[2], 4: records[3]}
            assert reader.damaged == [2]
        assert {number: decode(record) for number, record in encoded.items()} == dict(reader)


def test_verify_finds_damage_without_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a", points())
    data = bytearray((tmp_path / "a").read_bytes())
    spans = witness.read(bytes(data)).spans
    data[spans[2][0] + 40] ^= 1
    data[spans[5][0] + 20] ^= 1
    monkeypatch.setattr("cpreplay.checkpoint.container.decompressed", None)
    with RecordReader(tmp_path / "a") as reader:
        assert reader.verify() == []
    (tmp_path / "a").write_bytes(data)
    with RecordReader(tmp_path / "a") as reader:
        assert reader.verify() == [2, 5] and reader.damaged == []


def test_verify_takes_little_memory(tmp_path: Path) -> None:
    with written_records(tmp_path / "a", HEADER) as writer:
        writer.write(member("a", np.random.default_rng(0).bytes(20_000_000)))
    with RecordReader(tmp_path / "a") as reader:
        tracemalloc.start()
        try:
            assert reader.verify() == []
            assert tracemalloc.get_traced_memory()[1] < 3_000_000
        finally:
            tracemalloc.stop()


def test_a_record_above_the_limit_counts_as_damaged(tmp_path: Path) -> None:
    with written_records(tmp_path / "a", HEADER) as writer:
        writer.write(member("small", bytes(512)))
        writer.write(member("large", bytes(10_000)))
        writer.write(member("small too", bytes(512)))
    with RecordReader(tmp_path / "a", limit=1024) as reader:
        assert [number for number, _ in reader] == [1, 3] and reader.damaged == [2]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None])
def test_another_limit_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="limit"):
        RecordReader(FOLDER / "v1_two_records.tar.zst", limit=limit)


def test_leaving_the_block_closes_the_file(tmp_path: Path) -> None:
    write(tmp_path / "a", points())
    with RecordReader(tmp_path / "a") as reader:
        pass
    with pytest.raises(ValueError, match="closed"):
        list(reader)


def test_a_refused_file_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def noted(*args: Any) -> Any:
        opened.append(open(*args))  # noqa: SIM115 (it is what is tested)
        return opened[-1]

    monkeypatch.setattr("cpreplay.checkpoint.container.open", noted, raising=False)
    (tmp_path / "a").write_bytes(b"foreign")
    with pytest.raises(CheckpointError):
        RecordReader(tmp_path / "a")
    assert [file.closed for file in opened] == [True]


def test_a_missing_file_and_a_folder_say_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RecordReader(tmp_path / "none")
    with pytest.raises(CheckpointError, match="no regular file"):
        RecordReader(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="no regular file"):
        RecordReader(tmp_path / "pipe")


def test_errors_are_those_of_the_library_and_of_python() -> None:
    for error in (CheckpointError, CheckpointVersionError):
        assert issubclass(error, ReplayError) and issubclass(error, ValueError)
    assert issubclass(CheckpointVersionError, CheckpointError)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([5], "record 5 is damaged"),
        ([5, 6], "records 5 to 6 are damaged"),
        ([7, 2], "records 2, 7 are damaged"),
        ([9, 1, 2, 3], "records 1 to 3, 9 are damaged"),
        (range(5000), "records 0 to 4999 are damaged"),
        (range(0, 20, 2), "records 0, 2, 4, 6, 8, 10, 12, 14, 16, 18 are damaged"),
        (range(0, 22, 2), "records 0, 2, 4, 6, 8, 10, 12, 14, 16, 18 and 1 more are damaged"),
        (range(0, 9000, 2), "records 0, 2, 4, 6, 8, 10, 12, 14, 16, 18 and 4,490 more are damaged"),
    ],
)
def test_damaged_records_are_said_in_a_short_sentence(numbers: Any, said: str) -> None:
    assert damaged_records(numbers) == said
