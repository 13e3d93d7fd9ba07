"""Changed files for the reader of checkpoints: `python -m tests.fuzz_checkpoints --seconds 600`.

A change is made at one of six depths, and every checksum above it is put right, so that the layers
in front do not catch what the one under test should: bytes of the file; fields of its frames; bytes
of a zstd frame; bytes of a record's members; headers of members, arrays and JSON; what a buffer or
a pool wrote, member by member and value by value.

What has to hold: opening raises `CheckpointError` or nothing, and a pass raises nothing. Members,
arrays and values raise `CheckpointError`, or are what Python's tarfile, NumPy and json read. A
record is one that was written, where no checksum was put right over it. `inspect_file` reports on
anything. `StoreReplay.load` and `salvage` refuse with `CheckpointError` (or `MemoryLimitError`, for
a capacity that could never be held) or give a buffer in which everything holds; `RestartPool.load`
warns, or gives such a pool. What is loaded is called whole by `inspect_file`. And nothing takes
long or much memory. An input that breaks this is kept; the last line says how many there were.
"""

import argparse
import collections
import contextlib
import io
import json
import random
import resource
import signal
import struct
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from cpreplay import RestartPool, RestartPoolConfiguration, StoreReplay
from cpreplay.checkpoint.container import RecordReader
from cpreplay.checkpoint.encoding import decode
from cpreplay.checkpoint.members import members_of, read_json, read_npy
from cpreplay.errors import CheckpointError, CheckpointWarning, MemoryLimitError
from cpreplay.inspection import inspect_file
from cpreplay.inspection_text import as_text
from tests.checkpoint_files import FOLDER, witness

LIMIT = 1 << 20
INTERESTING = [0, 1, 7, 8, 20, 28, 36, 127, 128, 255, 256, 511, 512, 513, 1023, 1024, 4096, 65535]
INTERESTING += [2**n + step for n in (16, 20, 24, 31, 32, 40, 62, 63) for step in (-1, 0)]
NPY_WORDS = [
    b"'descr'", b"'shape'", b"'fortran_order'", b"True", b"False", b"None", b"(", b")", b"[", b"]",
    b"{", b"}", b",", b"'|O'", b"'<f8'", b"'>U3'", b"'|V0'", b"'T'", b"'<M8[ns]'", b"-1", b"1e9",
    b"0", b"99999999999999999999", b"1L", b"\\x", b"('a', '<i4', (2,))", b"[('a', '|O')]",
    b"*", b"'",
]  # fmt: skip
JSON_WORDS = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"NaN", b"Infinity", b"-", b"1e999", b"null", b"true",
    b'"version"', b'"format"', b'"cpreplay-checkpoint"', b"\\ud800", b"\xff", b"0" * 40,
]  # fmt: skip


class Fuzzer:
    """One stream of changed files."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        random_bytes = random.Random(0)
        self.header = {"format": "cpreplay-checkpoint", "version": 1, "kind": "fuzz"}
        array = np.arange(60, dtype="<i2").reshape(3, 4, 5)
        saved = io.BytesIO()
        np.save(saved, array)
        fields = io.BytesIO()
        np.save(fields, np.zeros(3, [("a", "<f4"), ("b", "u1", (2,))]))
        self.contents = {
            "points/0.snapshot": random_bytes.randbytes(300),
            "points/0.npy": saved.getvalue(),
            "points/1.npy": fields.getvalue(),
            "points/0.json": b'{"level": 3, "x": [1.5, null, true, "\xc3\xa9"]}',
        }
        self.records = [
            b"".join(witness.member(name, content) for name, content in self.contents.items()),
            witness.member("points/2.snapshot", random_bytes.randbytes(1500)),
            witness.member("folder", b"", tarfile.DIRTYPE) + witness.member("a/b", b"abc" * 400),
        ]
        self.plain = witness.checkpoint(self.header, self.records)
        self.golden = [path.read_bytes() for path in sorted(FOLDER.glob("*.zst"))]
        saved_ones = [*sorted(FOLDER.glob("replay/*.zst")), FOLDER / "points" / "v1.tar.zst"]
        self.golden += [path.read_bytes() for path in saved_ones]
        self.saved = [self.parts_of(path.read_bytes()) for path in saved_ones]
        self.depths: list[Callable[[], tuple[bytes, bool]]] = [
            self.file_bytes,
            self.frame_fields,
            self.frame_bytes,
            self.member_bytes,
            self.member_fields,
            self.states,
        ]

    @staticmethod
    def parts_of(data: bytes) -> tuple[dict[str, Any], list[list[tuple[str, bytes]]]]:
        """The header of a whole file, and its records as names and contents."""
        found = witness.read(data)
        records = [
            [(name, bytes(content)) for name, content in members_of(record).items()]
            for record in found.records[1:-1]
        ]
        return found.header, records

    # Changes

    def number(self) -> int:
        kind = self.chance.randrange(3)
        if kind == 0:
            return self.chance.choice(INTERESTING)
        if kind == 1:
            return self.chance.randrange(3000)
        return self.chance.getrandbits(self.chance.choice([8, 16, 32, 63]))

    def changed(self, data: bytes, words: list[bytes] | None = None) -> bytes:
        """Bytes with one to five changes."""
        out = bytearray(data)
        for _ in range(self.chance.choice([1, 1, 1, 2, 3, 5])):
            at = self.chance.randrange(len(out) + 1)
            span = min(self.chance.choice([1, 2, 4, 8, 36, 100, 512]), len(out) - at)
            kind = self.chance.randrange(9)
            if kind == 0 and out:
                out[at % len(out)] ^= 1 << self.chance.randrange(8)
            elif kind == 1 and out:
                out[at % len(out)] = self.chance.choice([0, 1, 0x20, 0x30, 0x37, 0x7F, 0x80, 0xFF])
            elif kind == 2:
                del out[at : at + span]
            elif kind == 3:
                out[at:at] = self.chance.randbytes(span)
            elif kind == 4:
                out[at:at] = out[at : at + span]
            elif kind == 5:
                other = self.chance.randrange(len(out) + 1)
                out[at : at + span] = out[other : other + span]
            elif kind == 6:
                value = struct.pack("<Q", self.number() % 2**64)
                size = self.chance.choice([1, 2, 4, 8])
                out[at : at + size] = value[:size]
            elif kind == 7 and words:
                word = self.chance.choice(words)
                out[at : at + self.chance.choice([0, len(word), span])] = word
            elif kind == 8 and self.chance.randrange(4) == 0:
                del out[at:]
        return bytes(out)

    def file_bytes(self) -> tuple[bytes, bool]:
        source = self.plain if self.chance.randrange(3) else self.chance.choice(self.golden)
        return self.changed(source), source is self.plain

    def frame_fields(self) -> tuple[bytes, bool]:
        """Records in another order or number, and fields that lie, under right checksums."""
        about = witness.about_bytes(self.header)
        if self.chance.randrange(4) == 0:
            about = self.changed(about, JSON_WORDS)
        contents = [witness.member("header.json", about), *self.records, witness.TAR_END]
        parts = []
        for number, data in enumerate(contents):
            frame = witness.frame_of(data)
            fields = [number, len(frame), len(data), zlib.crc32(frame)]
            if self.chance.randrange(6) == 0:
                fields[self.chance.randrange(3)] = self.number()
            fields = [value % 2**bits for value, bits in zip(fields, (32, 64, 64, 32), strict=True)]
            crc = struct.pack("<I", fields[3])
            parts.append(witness.record_header(fields[0], fields[1], fields[2], crc) + frame)
        for _ in range(self.chance.choice([0, 0, 1, 1, 2])):
            one, other = (self.chance.randrange(len(parts)) for _ in range(2))
            kind = self.chance.randrange(4)
            if kind == 0:
                parts[one], parts[other] = parts[other], parts[one]
            elif kind == 1:
                parts.insert(one, parts[other])
            elif kind == 2 and len(parts) > 1:
                del parts[one]
            else:
                magic = 0x184D2A50 + self.chance.randrange(16)
                parts.insert(one, witness.skippable(magic, self.chance.randbytes(one * 9)))
        data, starts = witness.header_frame(about), []
        for part in parts:
            starts.append(len(data))
            data += part
        at, count = len(data), len(starts)
        if self.chance.randrange(2):
            for _ in range(self.chance.randrange(3)):
                starts[self.chance.randrange(count)] = self.number() % 2**64
            at = self.number() % 2**64 if self.chance.randrange(5) == 0 else at
            count = self.number() % 2**32 if self.chance.randrange(5) == 0 else count
        if self.chance.randrange(5):
            data += witness.index(starts, count if self.chance.randrange(2) else len(starts))
        if self.chance.randrange(5):
            data += witness.trailer(at, count)
        # The copy of a changed header is a record that was not among those written.
        return data, True

    def checkpoint(self, frames: list[tuple[bytes, int]]) -> bytes:
        """A file of these frames, each with the size that its record states."""
        about = witness.about_bytes(self.header)
        parts = [
            witness.header_frame(about),
            witness.record(0, witness.member("header.json", about)),
        ]
        parts += [witness.record(n, b"", *frame) for n, frame in enumerate(frames, 1)]
        parts.append(witness.record(len(parts) - 1, witness.TAR_END))
        return witness.whole(parts) if self.chance.randrange(2) else b"".join(parts)

    def frame_bytes(self) -> tuple[bytes, bool]:
        frames = []
        for data in self.records:
            frame = witness.frame_of(data)
            if self.chance.randrange(3):
                frame = self.changed(frame)
            size = len(data) if self.chance.randrange(4) else self.number() % 2**64
            if self.chance.randrange(8) == 0:  # what the frame itself says
                try:
                    size = zstandard.frame_content_size(frame) % 2**64
                except zstandard.ZstdError:
                    size = 512
            frames.append((frame, size))
        return self.checkpoint(frames), False

    def recorded(self, records: list[bytes]) -> bytes:
        return self.checkpoint([(witness.frame_of(data), len(data)) for data in records])

    def member_bytes(self) -> tuple[bytes, bool]:
        records = [self.changed(data) for data in self.records]
        if self.chance.randrange(2):
            records = [data + bytes(-len(data) % 512) for data in records]
        return self.recorded(records), False

    def member_fields(self) -> tuple[bytes, bool]:
        """Members with right checksums around headers, arrays and values that were changed."""
        record = b""
        for name, content in self.contents.items():
            if name.endswith(".npy"):
                length = 10 + int.from_bytes(content[8:10], "little")
                text = self.changed(content[10:length], NPY_WORDS)[:60_000]
                rest = (
                    content[length:] if self.chance.randrange(3) else self.changed(content[length:])
                )
                content = content[:8] + len(text).to_bytes(2, "little") + text + rest
            elif name.endswith(".json"):
                content = self.changed(content, JSON_WORDS)
            part = bytearray(witness.member(name, content))
            if self.chance.randrange(4) == 0:
                at = self.chance.choice([0, 2, 99, 100, 124, 125, 134, 148, 156, 257, 263, 345])
                value = self.chance.choice(
                    [
                        b"../",
                        b"/",
                        b"\0",
                        b"5",
                        b"x",
                        b"S",
                        b"777",
                        b" ",
                        b"-",
                        b"\x80",
                        b"\xff",
                        b"a/b",
                    ]
                )
                part[at : at + len(value)] = value
                if self.chance.randrange(8):
                    part[148:156] = b" " * 8
                    part[148:156] = b"%06o\0 " % sum(part[:512])
            record += bytes(part)
        return self.recorded([record, *self.records[1:]]), False

    def states(self) -> tuple[bytes, bool]:
        """What a buffer or a pool wrote, with other values, arrays and members in it."""
        header, saved = self.chance.choice(self.saved)
        records = [list(record) for record in saved]
        for _ in range(self.chance.choice([1, 1, 1, 2, 3])):
            record = self.chance.choice(records)
            at = self.chance.randrange(len(record))
            name, content = record[at]
            kind = self.chance.randrange(8)
            if kind == 0:
                header = self.changed_value(header)
            elif kind == 1:
                records.insert(self.chance.randrange(len(records)), list(record))
            elif kind == 2 and len(records) > 1:
                records.remove(record)
            elif kind == 3 and len(record) > 1:
                del record[at]
            elif kind == 4:
                other = self.chance.choice(self.chance.choice(records))
                record[at] = (name, other[1])
            elif kind == 5:
                record[at] = (self.changed_name(name), content)
            else:
                record[at] = (name, self.changed_content(name, content))
        contents = [
            b"".join(witness.member(name, content) for name, content in record)
            for record in records
        ]
        if self.chance.randrange(4):
            contents = [data for data in contents if data]
        return witness.checkpoint(header, contents), False

    def changed_value(self, value: Any) -> Any:
        """A value of JSON with another one somewhere in it."""
        if isinstance(value, dict) and value and self.chance.randrange(12):
            name = self.chance.choice(sorted(value))
            if self.chance.randrange(10) == 0:
                return {other: value[other] for other in value if other != name}
            return {**value, name: self.changed_value(value[name])}
        if isinstance(value, list) and value and self.chance.randrange(6):
            at = self.chance.randrange(len(value))
            kind = self.chance.randrange(6)
            inner = (
                [self.changed_value(value[at])]
                if kind
                else [value[at]] * self.chance.choice([0, 2, 30, 31, 32, 33, 64, 65, 100_000])
            )
            return [*value[:at], *inner, *value[at + 1 :]]
        if isinstance(value, int) and self.chance.randrange(2):
            return value + self.chance.choice([-1, 1, 7, 100])
        return self.chance.choice(
            [
                None, True, False, 0, 1, -1, 0.5, 1.0, 1e308, -0.0, "", "x", "|O", "<f8", "float64",
                "bool", "PCG64", [], {}, [1], {"x": 1}, self.number(), -self.number(), 10**30,
            ]
        )  # fmt: skip

    def changed_name(self, name: str) -> str:
        parts = name.split("/")
        at = self.chance.randrange(len(parts))
        number = self.number() if self.chance.randrange(3) else self.chance.randrange(10)
        parts[at] = self.chance.choice(
            [f"{number:012}", f"{number:012}.npy", "rows", "leaves", "pending", "points", "obs.npy"]
        )
        return "/".join(parts)[:100]

    def changed_content(self, name: str, content: bytes) -> bytes:
        try:
            if name.endswith(".json"):
                return json.dumps(self.changed_value(json.loads(content))).encode()
            if name.endswith(".npy"):
                return self.changed_array(content)
        except ValueError:  # it has been changed before
            pass
        return self.changed(content)

    def changed_array(self, content: bytes) -> bytes:
        length = 10 + int.from_bytes(content[8:10], "little")
        if self.chance.randrange(2):
            return content[:length] + self.changed(content[length:])
        array = np.load(io.BytesIO(content))
        kind = self.chance.randrange(5)
        if kind == 0:
            with np.errstate(all="ignore"):
                array = array.astype(self.chance.choice(["<f4", ">f4", "<f8", "<i8", "|u1", "|b1"]))
        elif kind == 1:
            array = array[: self.chance.randrange(len(array) + 1)] if array.ndim else array[None]
        elif kind == 2:
            array = np.concatenate([array, array]) if array.ndim else array
        elif kind == 3 and array.ndim:
            array = np.asfortranarray(array[..., None])
        elif array.size and array.dtype.kind == "f":
            array.flat[self.chance.randrange(array.size)] = self.chance.choice(
                [0.0, -0.0, -1.0, np.nan, np.inf, -np.inf, 1e-45, 3e38]
            )
        out = io.BytesIO()
        np.save(out, array)
        return out.getvalue()

    # What has to hold

    def check(self, path: Path, records_are_known: bool) -> str:
        """Read a file in every way; says how it ended."""
        try:
            reader = RecordReader(path, limit=LIMIT)
        except CheckpointError:
            return "refused"
        with reader:
            records = dict(reader)
            damaged = reader.damaged
            assert not records.keys() & set(damaged)
            encoded = dict(reader.encoded())
            assert records.keys() <= encoded.keys()
            for number, record in encoded.items():
                try:
                    assert decode(record, limit=LIMIT) == records.get(number)
                except CheckpointError:
                    assert number not in records
            assert set(reader.verify()) <= set(damaged)
        for data in records.values():
            assert len(data) <= LIMIT
            if records_are_known:
                assert data in self.records or data.startswith(b"header.json\0")
            self.check_record(data)
        self.check_owners(path)
        return "damaged" if damaged or not reader.complete else "whole"

    def check_owners(self, path: Path) -> None:
        """Buffers and pools take a file, or refuse it as they say they do."""
        report = inspect_file(path).report
        as_text(report)
        json.dumps(report, allow_nan=False)
        kind = report.get("kind")
        if kind == "replay":
            with contextlib.suppress(CheckpointError, MemoryLimitError):
                buffer = StoreReplay.load(path, drop_pending=True)
                with RecordReader(path) as reader:
                    said = reader.header.get("rows")  # which only the two others go by
                assert report["whole"] or said != len(buffer), report["problem"]
                buffer.check()
                if len(buffer):
                    buffer.sample(2)
            with contextlib.suppress(CheckpointError, MemoryLimitError):
                buffer, salvaged = StoreReplay.salvage(path)
                buffer.check()
                assert salvaged.rows == len(buffer) and salvaged.lost_rows >= 0
        if kind != "replay" or self.chance.randrange(8) == 0:
            pool = RestartPool(
                RestartPoolConfiguration(
                    key=["level", "x / 32"], minimum_values={"lives": 0}, probability=1.0
                ),
                machine="girder, cynes 0.1.2",
            )
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                taken = pool.load(path)
            assert all(warning.category is CheckpointWarning for warning in caught)
            assert taken == len(pool) and (report["whole"] or caught or not taken)
            pool.check()
            pool.draw(0)

    def check_record(self, data: bytes) -> None:
        try:
            members = members_of(data)
        except CheckpointError:
            return
        for name, content in members.items():
            bytes_of = bytes(content)
            if name.endswith(".npy"):
                self.agree(read_npy, lambda at: np.load(io.BytesIO(at)), bytes_of, same_array)
            if name.endswith(".json"):
                self.agree(read_json, json.loads, bytes_of, same_value)
        self.check_with_tarfile(data, members)

    def check_with_tarfile(self, data: bytes, members: dict[str, memoryview]) -> None:
        """What tarfile finds, up to a header that it does not like, is what is found here."""
        ours = {name: bytes(content) for name, content in members.items()}
        try:
            with tarfile.open(fileobj=io.BytesIO(data + witness.TAR_END), mode="r:") as archive:
                for info in archive:
                    if info.pax_headers or info.type in b"xgLKS":
                        return  # which tarfile obeys, and which are stepped over here
                    if info.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
                        content = archive.extractfile(info)
                        assert content is not None and content.read() == ours[info.name]
        except tarfile.ReadError:  # fields that do not matter here, such as a mode
            return

    def agree(
        self,
        ours: Callable[[bytes, str], Any],
        theirs: Callable[[bytes], Any],
        content: bytes,
        same: Callable[[Any, Any], bool],
    ) -> None:
        try:
            value = ours(content, "x")
        except CheckpointError:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert same(value, theirs(content)), "another reader gives something else"


def same_array(one: Any, other: Any) -> bool:
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and not one.flags.writeable
        and one.tobytes() == other.tobytes()
    )


def same_value(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


def on_alarm(*_: Any) -> None:
    raise TimeoutError("an input takes longer than five seconds of the processor")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--depth", help="a single one, by the name of its method")
    parser.add_argument("--faults", type=Path, default=Path(tempfile.gettempdir()) / "faults")
    options = parser.parse_args()
    warnings.simplefilter("error")
    fuzzer = Fuzzer(options.seed)
    if options.depth:
        fuzzer.depths = [getattr(fuzzer, options.depth)]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20), resource.RLIM_INFINITY))
    signal.signal(signal.SIGVTALRM, on_alarm)
    ends: collections.Counter[str] = collections.Counter()
    faults = 0
    stop = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        while time.monotonic() < stop:
            make = fuzzer.chance.choice(fuzzer.depths)
            data, records_are_known = make()
            path.write_bytes(data)
            signal.setitimer(signal.ITIMER_VIRTUAL, 5)
            try:
                ends[f"{make.__name__}: {fuzzer.check(path, records_are_known)}"] += 1
            except Exception:
                faults += 1
                options.faults.mkdir(exist_ok=True, parents=True)
                kept = options.faults / f"{make.__name__}-{zlib.crc32(data):08x}"
                kept.write_bytes(data)
                if faults <= 20:
                    print(kept, traceback.format_exc(limit=-4), sep="\n", flush=True)
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    for end, count in sorted(ends.items()):
        print(f"{end:30} {count:9,}")
    print(f"{ends.total() + faults:,} inputs, {faults} faults, seed {options.seed}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
