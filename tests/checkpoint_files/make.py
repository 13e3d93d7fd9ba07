"""Make the checkpoint files, or check them: `python -m tests.checkpoint_files.make [--check]`.

A witness independent of the library: see `witness`. Beside the files it writes ``expected.json``:
for each file the members that a reader has to find, as hexadecimal digits, the records that are
damaged, and whether the file is complete; or what its refusal says.

A file that exists is never written again. Never delete one to make a test pass. A later version of
zstd may compress the same bytes otherwise, so a check compares what is in the files.
"""

import argparse
import json
import struct
import sys
from typing import Any

from tests.checkpoint_files import FOLDER
from tests.checkpoint_files.witness import (
    TAR_END,
    about_bytes,
    checkpoint,
    header_frame,
    index,
    member,
    npy,
    record,
    skippable,
    trailer,
    whole,
)

HEADER = {
    "format": "cpreplay-checkpoint",
    "version": 1,
    "kind": "golden",
    "written": "2026-12-01T00:00:00+00:00",
    "library": "cpreplay 0.1.0",
    "place": "位",
}
UNKNOWN = skippable(0x184D2A5F, b"something of a later version")
DIRECTORY = b"5"
EXTENDED = b"x"


def snapshot(number: int) -> bytes:
    """Bytes of any value, of a length that differs from one to the next."""
    return bytes((7 * number + 13 * at) % 251 for at in range(300 + 111 * number))


def members(number: int) -> dict[str, bytes]:
    name = f"points/{number:06d}"
    stack = bytes(16 * number + at // 4 for at in range(48))
    return {
        f"{name}.snapshot": snapshot(number),
        f"{name}.stack.npy": npy("|u1", (3, 4, 4), stack),
        f"{name}.json": json.dumps({"level": number // 2, "x / 32": number % 2}).encode(),
    }


def record_of(contents: dict[str, bytes]) -> bytes:
    return b"".join(member(name, content) for name, content in contents.items())


def files() -> dict[str, tuple[bytes, dict[str, Any]]]:
    """Each file's name, its bytes, and what is to be found in it."""
    points = [members(number) for number in range(4)]
    two = [record_of(points[0] | points[1]), record_of(points[2] | points[3])]
    plain = checkpoint(HEADER, two)
    everything = points[0] | points[1] | points[2] | points[3]
    numbers = struct.pack("<6d", 0.0, -1.5, 2.0**-1074, 1e300, float("inf"), 0.1)
    arrays = {
        "rows/obs.npy": npy("<f8", (2, 3), numbers),
        "rows/action.npy": npy("<i8", (3,), struct.pack("<3q", -(2**63), 0, 2**63 - 1)),
        "rows/terminated.npy": npy("|b1", (3,), b"\0\1\0"),
        "rows/none.npy": npy("<f4", (0, 5), b""),
        "rows/one.npy": npy(">u2", (), b"\x12\x34"),
    }

    about = about_bytes(HEADER)
    start = [header_frame(about), record(0, member("header.json", about))]
    later = [
        *start,
        UNKNOWN,
        record(1, member("folder", b"", DIRECTORY) + record_of(points[0])),
        UNKNOWN + UNKNOWN,
        record(2, member("later", b"19 path=elsewhere\n", EXTENDED) + record_of(points[1])),
        record(3, TAR_END),
        UNKNOWN,
    ]

    first, second = plain.index(record(1, two[0])), plain.index(record(2, two[1]))
    flipped = bytearray(plain)
    flipped[first + 60] ^= 0x10
    changed_header = bytearray(plain)
    changed_header[40] ^= 0x01

    return {
        "v1_two_records.tar.zst": (plain, found(everything)),
        "v1_arrays.tar.zst": (checkpoint(HEADER, [record_of(arrays)]), found(arrays)),
        "v1_no_records.tar.zst": (checkpoint(HEADER, []), found({})),
        "v1_with_what_is_unknown.tar.zst": (whole(later), found(points[0] | points[1])),
        "v1_record_1_damaged.tar.zst": (bytes(flipped), found(points[2] | points[3], [1])),
        "v1_header_damaged.tar.zst": (bytes(changed_header), found(everything)),
        "v1_cut_in_record_2.tar.zst": (
            plain[: second + 100],
            found(points[0] | points[1], [2], complete=False),
        ),
        "v1_index_lost.tar.zst": (
            plain[: plain.rindex(index_of(plain))] + bytes(200),
            found(everything),
        ),
        "v2.tar.zst": (
            checkpoint(HEADER | {"version": 2}, two),
            {"refused": "version 2"},
        ),
        "other_format.tar.zst": (
            checkpoint(HEADER | {"format": "other"}, two),
            {"refused": "no checkpoint of cpreplay"},
        ),
    }


def index_of(data: bytes) -> bytes:
    """The index and trailer at the end of a file."""
    at, count = struct.unpack_from("<QI", data, len(data) - 16)
    starts = struct.unpack_from(f"<{count}Q", data, at + 12)
    return index(starts) + trailer(at, count)


def found(
    contents: dict[str, bytes], damaged: list[int] | None = None, *, complete: bool = True
) -> dict[str, Any]:
    return {
        "members": {name: content.hex() for name, content in contents.items()},
        "damaged": damaged or [],
        "complete": complete,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args().check
    made = files()
    expected = {name: what for name, (_, what) in made.items()}
    differ = 0
    for name, (data, _) in made.items():
        path = FOLDER / name
        if not path.exists() and not check:
            path.write_bytes(data)
        differ += not path.exists() or path.read_bytes() != data
    path = FOLDER / "expected.json"
    if not path.exists() and not check:
        path.write_text(json.dumps(expected, indent=1) + "\n")
    differ += not path.exists() or json.loads(path.read_text()) != expected
    print(f"{len(made)} files, {differ} differ")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
