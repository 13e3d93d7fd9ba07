"""`python -m cpreplay inspect`: what it says of whole, damaged, foreign and hostile files."""

import json
import os
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

import cpreplay
from cpreplay import RestartPool, RestartPoolConfiguration, StoreReplay
from cpreplay.__main__ import main
from cpreplay.block_aliases import NStepUniformSampleCpuStep
from cpreplay.checkpoint.container import RecordReader, RecordWriter
from cpreplay.checkpoint.encoding import Encoder
from cpreplay.checkpoint.members import json_member, member, npy_member
from cpreplay.contact_sheet import contact_sheet, frames, png
from cpreplay.errors import ConfigurationError, ShapeError
from cpreplay.inspection import draw_frames, inspect_file
from cpreplay.inspection_text import as_text
from tests.checkpoint_files import FOLDER

REPOSITORY = Path(cpreplay.__file__).parents[1]


def fill(buffer: Any, rows: int) -> None:
    for row in range(rows):
        buffer.add([row, 0.5], 1, float(row), [row + 1, 0.5], False)


def replay_file(path: Path, rows: int = 30, **options: Any) -> Path:
    buffer = StoreReplay(2, (), 40, action_dtype="int64", seed=9, **options)
    fill(buffer, rows)
    buffer.save(path)
    return path


def points_file(
    path: Path, keys: list[tuple[int, int]], *, label: str = "x / 128", machine: str | None = None
) -> Path:
    """One point for each key, in that order; its frames are of the shade of its number."""
    pool = RestartPool(
        RestartPoolConfiguration(key=["level", label], max_per_key=8, random_seed=0),
        machine=machine,
    )
    for number, (level, place) in enumerate(keys):
        stack = np.full((2, 50, 60), number, np.uint8)
        pool.offer(b"state", stack, {"level": level, label: place, "lives": 3})
    pool.save(path)
    return path


def strict(text: str) -> Any:
    """A JSON value, as any parser would read it: Python's alone takes NaN and Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


# Whole files


def test_a_replay_file_is_told_with_its_rows_columns_and_draws(tmp_path: Path) -> None:
    path = replay_file(tmp_path / "replay", rows=55)
    report = inspect_file(path).report
    assert report["whole"] and report["problem"] is None
    assert (report["kind"], report["version"], report["complete"]) == ("replay", 1, True)
    assert report["written"].startswith("20") and report["damaged"] == []
    assert report["library"] == f"cpreplay {cpreplay.__version__}"
    assert report["bytes"] == path.stat().st_size
    replay = report["replay"]
    assert (replay["rows"], replay["capacity"], replay["added"]) == (40, 40, 55)
    assert (replay["policy"], replay["pending"]) == ({"name": "uniform"}, None)
    assert (replay["generator"], replay["seed"]) == ("PCG64", 9)
    # 40 rows of 2 float32, an int64, a float32, 2 float32 and a bool.
    sizes = {column["name"]: column["unpacked"] for column in replay["columns"]}
    assert sizes == {"obs": 320, "action": 320, "reward": 160, "next_obs": 320, "terminated": 40}
    assert report["unpacked"] % 512 == 0 and report["unpacked"] > sum(sizes.values())


def test_the_policy_in_force_is_told(tmp_path: Path) -> None:
    path = tmp_path / "replay"

    def policy(buffer: StoreReplay) -> dict[str, Any]:
        buffer.save(path)
        told: dict[str, Any] = inspect_file(path).report["replay"]["policy"]
        return told

    prioritized = StoreReplay(2, (), 40, True)
    prioritized.configure_per(alpha=0.5, beta=0.25)
    fill(prioritized, 3)
    assert policy(prioritized) == {
        "name": "prioritized",
        "alpha": 0.5,
        "beta": 0.25,
        "max_priority": 1.0,
    }
    ere = StoreReplay(2, (), 40)
    ere.configure_ere(eta=0.75, c_min=3, k_max=7)
    assert policy(ere) == {"name": "ERE", "eta": 0.75, "c_min": 3, "k_max": 7}
    pinned = StoreReplay(2, (), 40)
    fill(pinned, 10)
    pinned.pin_demo_prefix(10, batch_size=4)
    assert policy(pinned) == {"name": "half from demonstrations", "demo_count": 10}


def test_the_pending_steps_of_a_block_are_told(tmp_path: Path) -> None:
    block = NStepUniformSampleCpuStep(obs=2, act=(), batch=4, cap=40, n=3, gamma=0.5, n_envs=2)
    block.setup(learning_starts=0)
    zeros, over = np.zeros((2, 2)), np.zeros(2, bool)
    block.add_batch(zeros, [0, 1], [1.0, 2.0], zeros, over, truncated=over)
    block.save(tmp_path / "replay")
    report = inspect_file(tmp_path / "replay").report
    assert report["replay"]["pending"] == {"n": 3, "gamma": 0.5, "n_envs": 2}
    assert report["replay"]["rows"] == 0
    assert "  n-step         n 3, gamma 0.5, n_envs 2\n" in as_text(report)


def test_a_file_of_points_is_told_by_bucket(tmp_path: Path) -> None:
    keys = [(2, -1), (0, 5), (2, -1), (2, 10), (2, -1)]
    path = points_file(tmp_path / "points", keys, machine="cynes 0.1.2, girder")
    inspection = inspect_file(path)
    report, points = inspection.report, inspection.report["points"]
    assert report["whole"] and report["records"] == 5
    assert (points["points"], points["saved_points"], points["draws"]) == (5, 5, 0)
    assert (points["key"], points["machine"]) == (["level", "x / 128"], "cynes 0.1.2, girder")
    assert points["stack"] == {"shape": [2, 50, 60], "dtype": "uint8"}
    # A pool writes bucket after bucket, the oldest point of each first.
    assert inspection.newest == {(0, 5): (1,), (2, -1): (4, 3, 2), (2, 10): (5,)}
    told = [(tuple(bucket["key"]), bucket["points"]) for bucket in points["buckets"]]
    assert told == [((0, 5), 1), ((2, -1), 3), ((2, 10), 1)]
    assert sum(bucket["unpacked"] for bucket in points["buckets"]) == report["unpacked"]
    # Three tar headers, a snapshot, 128 + 6,000 bytes of stack, and a JSON object.
    assert points["buckets"][0]["unpacked"] == 3 * 512 + 512 + 6_144 + 512
    file_bytes = sum(bucket["file_bytes"] for bucket in points["buckets"])
    assert report["bytes"] - 2_048 < file_bytes < report["bytes"]


def test_an_empty_pool_and_an_empty_buffer_are_whole_files(tmp_path: Path) -> None:
    report = inspect_file(points_file(tmp_path / "points", [])).report
    assert report["whole"]
    assert (report["points"]["points"], report["points"]["stack"]) == (0, None)
    report = inspect_file(replay_file(tmp_path / "replay", rows=0)).report
    assert report["whole"] and report["replay"]["rows"] == 0


def test_a_kind_that_is_not_known_is_still_checked(tmp_path: Path) -> None:
    path = tmp_path / "other"
    write(path, {"kind": "weights"}, [member("a", b"1" * 600)])
    report = inspect_file(path).report
    assert (report["whole"], report["kind"], report["records"]) == (True, "weights", 1)
    assert report["unpacked"] == 3 * 512
    flip(path, member("a", b"1" * 600))
    assert inspect_file(path).report["problem"] == "record 1 is damaged"


def test_the_text_has_a_line_for_each_fact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = points_file(tmp_path / "points", [(1, 0)] * 2 + [(3, -2)])
    assert main(["inspect", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(path)
    assert lines[1] == "  kind           restart-points, version 1"
    assert lines[2].endswith(f", by cpreplay {cpreplay.__version__}")
    assert "  points         3 in 2 buckets" in lines
    assert "  key            level, x / 128" in lines
    assert lines[-3].startswith("    (1, 0)       2 points, 17,408 bytes (17.0 KiB), in the file ")
    assert lines[-1] == "  whole          yes, every checksum is right"

    path = replay_file(tmp_path / "replay", prioritized=True)
    assert main(["inspect", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  rows           30 of 40" in lines
    assert "  draws          prioritized, alpha 0.6, beta 0.4, max_priority 1" in lines
    assert "  generator      PCG64, seed 9" in lines
    assert "    obs          float32 (2), 240 bytes" in lines

    path = replay_file(tmp_path / "codes", obs_store_dtype="uint8", rows=0)
    assert "    obs          float32 (2) stored as uint8, 0 bytes" in as_text(
        inspect_file(path).report
    )


def test_the_text_says_what_a_pool_did_not_say(tmp_path: Path) -> None:
    for keys, machine, said in (
        ([], None, ["  stack          none", "  machine        not said"]),
        ([(1, 0)], "NES", ["  stack          uint8 (2, 50, 60)", "  machine        NES"]),
    ):
        report = inspect_file(points_file(tmp_path / "points", keys, machine=machine)).report
        assert set(said) <= set(as_text(report).split("\n"))


def test_texts_are_cut_but_for_the_problem_and_sizes_are_compared() -> None:
    about = {"kind": "other", "version": 1, "written": "w" * 200, "library": "l" * 201}
    size = {"bytes": 1000, "records": 3, "unpacked": 2500}
    problem = "p" * 300 + "\x1b"
    lines = as_text({"file": "f", **about, **size, "whole": False, "problem": problem}).split("\n")
    assert lines[2] == f"  written        {'w' * 200}, by {'l' * 200}..."
    assert (
        lines[3] == "  size           1,000 bytes; unpacked 2,500 bytes (2.4 KiB), 2.5 times that"
    )
    assert lines[4] == f"  problem        {'p' * 300}\\x1b"


def test_json_is_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (
        replay_file(tmp_path / "replay"),
        points_file(tmp_path / "points", [(1, 0)]),
        FOLDER / "v2.tar.zst",
    ):
        report = inspect_file(path).report
        assert main(["inspect", str(path), "--json"]) == (0 if report["whole"] else 1)
        assert strict(capsys.readouterr().out) == report


def test_rows_of_a_whole_file_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [npy_member(f"rows/{first:012}/reward.npy", np.zeros(10)) for first in range(0, 50, 10)]
    path = craft(tmp_path / "replay", rows)
    decoded: list[int] = []
    decode = cpreplay.inspection.decode
    monkeypatch.setattr(
        cpreplay.inspection, "decode", lambda record: decoded.append(1) or decode(record)
    )
    assert inspect_file(path).report["whole"]
    assert len(decoded) == 1  # the state
    flip(path, rows[4])
    assert not inspect_file(path).report["whole"]
    assert len(decoded) == 2


# Damage


ABOUT: dict[str, Any] = {
    "kind": "replay",
    "capacity": 60,
    "rows": 50,
    "prioritized": False,
    "pending": False,
    "columns": [{"name": "reward", "shape": [], "dtype": "float64", "stored": "float64"}],
}
STATE: dict[str, Any] = {"control": {"total": 50}, "generator": {"name": "PCG64"}, "seed": 1}


def craft(
    path: Path,
    records: list[Any],
    about: Mapping[str, Any] = ABOUT,
    state: Any = STATE,
) -> Path:
    return write(path, about, [json_member("state.json", state), *records])


def write(path: Path, about: Mapping[str, Any], records: list[Any]) -> Path:
    """A file of records, not synced to the disk as a saved one is."""
    with path.open("wb") as file:
        writer = RecordWriter(file, about)
        for record in records:
            writer.write(record)
        writer.finish()
    return path


def flip(path: Path, record: Any) -> None:
    """Change one bit in the middle of a record's frame."""
    frame = Encoder().encode(record).frame
    data = bytearray(path.read_bytes())
    assert data.count(frame) == 1
    data[data.index(frame) + len(frame) // 2] ^= 1
    path.write_bytes(data)


def frames_in(data: bytes | bytearray) -> list[int]:
    """Where zstd frames begin."""
    return [at for at in range(len(data)) if data[at : at + 4] == b"\x28\xb5\x2f\xfd"]


def test_damaged_rows_are_told_with_their_records_and_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        npy_member(f"rows/{first:012}/reward.npy", np.arange(first, first + 10.0))
        for first in range(0, 50, 10)
    ]
    for damaged, said in (
        ([1], "record 3 is damaged; 10 of 50 rows are lost: [10, 20)"),
        ([0, 1, 4], "records 2 to 3, 6 are damaged; 30 of 50 rows are lost: [0, 20), [40, 50)"),
    ):
        path = craft(tmp_path / "replay", rows)
        for number in damaged:
            flip(path, rows[number])
        assert inspect_file(path).report["problem"] == said
        assert main(["inspect", str(path)]) == 1
        out = capsys.readouterr().out
        assert f"  problem        {said}\n" in out
        assert out.endswith("salvage takes the rows that are whole\n")


def test_a_damaged_state_and_damaged_priorities_are_told(tmp_path: Path) -> None:
    state = json_member("state.json", STATE)
    leaves = npy_member("leaves/000000000000.npy", np.linspace(1, 2, 50, dtype=np.float32))
    rows = npy_member("rows/000000000000/reward.npy", np.arange(50.0))
    about = {**ABOUT, "prioritized": True}
    path = craft(tmp_path / "replay", [leaves, rows], about)
    assert inspect_file(path).report["whole"]
    flip(path, state)
    report = inspect_file(path).report
    assert report["problem"] == "record 1 is damaged; its state is lost"
    assert report["replay"]["policy"] is report["replay"]["seed"] is None
    path = craft(tmp_path / "replay", [leaves, rows], about)
    flip(path, leaves)
    assert inspect_file(path).report["problem"] == "record 2 is damaged; priorities are lost"


def test_a_cut_file_says_that_its_end_is_missing_and_what_is_lost_with_it(tmp_path: Path) -> None:
    rows = [
        npy_member(f"rows/{first:012}/reward.npy", np.arange(first, first + 25.0))
        for first in (0, 25)
    ]
    path = craft(tmp_path / "replay", rows)
    data = path.read_bytes()
    at = data.index(Encoder().encode(rows[1]).frame)
    lost = "its end is missing; 25 of 50 rows are lost: [25, 50)"
    path.write_bytes(data[:at])
    assert inspect_file(path).report["problem"] == f"record 3 is damaged; {lost}"
    path.write_bytes(data[: at - 36])  # before the record's own header: nobody knows of it
    assert inspect_file(path).report["problem"] == lost


def test_rows_that_are_missing_under_right_checksums_are_told(tmp_path: Path) -> None:
    rows = [
        npy_member(f"rows/{first:012}/reward.npy", np.arange(first, first + 25.0))
        for first in (0, 25)
    ]
    problem = inspect_file(craft(tmp_path / "replay", [])).report["problem"]
    assert problem == "50 of 50 rows are lost: [0, 50)"
    problem = inspect_file(craft(tmp_path / "replay", rows[:1])).report["problem"]
    assert problem == "25 of 50 rows are lost: [25, 50)"
    assert inspect_file(craft(tmp_path / "replay", rows[::-1])).report["whole"]


def test_what_a_later_version_keeps_beside_points_is_stepped_over(tmp_path: Path) -> None:
    whole = points_file(tmp_path / "points", [(0, 0)])
    with RecordReader(whole) as reader:
        about, records = reader.header, [record for _, record in reader]
    routes = [member("routes/000000000000.json", b"{}"), [records[0]]]
    report = look(write(tmp_path / "more", about, routes))
    assert report["whole"] and report["points"]["points"] == 1


def test_rows_that_are_there_twice_are_lost_once_at_most(tmp_path: Path) -> None:
    rows = [
        npy_member(f"rows/{first:012}/reward.npy", np.arange(first, first + float(count)))
        for first, count in ((0, 30), (10, 5), (35, 5))
    ]
    path = craft(tmp_path / "replay", rows)
    flip(path, json_member("state.json", STATE))
    problem = inspect_file(path).report["problem"]
    assert "15 of 50 rows are lost: [30, 35), [40, 50)" in problem


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": 61},
        {"rows": -1},
        {"rows": None},
        {"capacity": True},
        {"capacity": 60.0},
        {"prioritized": 0},
        {"columns": []},
        {"columns": None},
        {"columns": [*ABOUT["columns"], 1]},
        {"columns": [{**ABOUT["columns"][0], "stored": "object"}]},
        {"columns": [{**ABOUT["columns"][0], "name": 1}]},
        {"columns": [{**ABOUT["columns"][0], "shape": [2, -1]}]},
        {"columns": [{**ABOUT["columns"][0], "shape": [10**400]}]},
        {"columns": [{**ABOUT["columns"][0], "shape": 2}]},
        {"columns": [{**ABOUT["columns"][0], "shape": [1] * 32}]},
        {"columns": [{**ABOUT["columns"][0], "shape": [3] * 300_000}]},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_header_that_describes_no_buffer_is_told(changed: dict[str, Any], tmp_path: Path) -> None:
    report = look(craft(tmp_path / "replay", [], {**ABOUT, **changed}))
    assert report["problem"] == "its header does not describe a replay buffer"
    assert "replay" not in report and report["kind"] == "replay"


def test_a_number_beyond_all_is_not_told(tmp_path: Path) -> None:
    state = member("state.json", b'{"control": {"total": 1e999, "ere_enabled": 1, "eta": -1e999}}')
    path = write(tmp_path / "replay", ABOUT, [state])
    assert look(path)["replay"]["added"] is None


def test_lost_points_are_counted_and_the_others_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = points_file(tmp_path / "points", [(0, 0), (1, 0), (1, 1)])
    data = bytearray(path.read_bytes())
    data[frames_in(data)[2] + 60] ^= 4  # in the second point: the first frame is the header's
    path.write_bytes(data)
    assert main(["inspect", str(path)]) == 1
    out = capsys.readouterr().out
    assert "  points         2 in 2 buckets\n" in out
    assert "  problem        record 2 is damaged; 1 of 3 restart points are lost\n" in out
    assert "    (1, 0) " not in out
    assert out.endswith("RestartPool.load takes the points that are whole\n")


def test_records_that_no_pool_wrote_are_told_from_damaged_ones(tmp_path: Path) -> None:
    about = {
        "kind": "restart-points", "key": ["a"], "machine": None, "stack_shape": [2],
        "stack_dtype": "|u1", "draws": 0, "next_name": 9, "points": 11, "buckets": 1,
    }  # fmt: skip

    def point(number: int, values: Any, shape: int = 2) -> Any:
        name = f"points/{number:012}"
        return [
            *member(f"{name}.snapshot", b""),
            *npy_member(f"{name}.stack.npy", np.zeros(shape, np.uint8)),
            *json_member(f"{name}.json", values),
        ]

    records = [
        point(0, {"values": {"a": 1}, "steps_used": 0}),
        point(0, {"values": {"a": 1}, "steps_used": 0}),  # there twice
        point(1, {"values": {"b": 1}, "steps_used": 0}),
        point(2, {"values": {"a": True}, "steps_used": 0}),
        point(3, {"values": {"a": 2**63}, "steps_used": 0}),
        point(4, {"values": {"a": 1, "b": 0.5}, "steps_used": 0}),
        point(5, {"values": {"a": 1}, "steps_used": None}),
        point(6, {"values": 1, "steps_used": 0}),
        point(7, []),
        point(8, {"values": {"a": 1}, "steps_used": 0}, shape=3),
        json_member("points/000000000009.json", {"values": {"a": 1}, "steps_used": 0}),
    ]
    path = write(tmp_path / "points", about, records)
    report = inspect_file(path).report
    assert report["damaged"] == []
    assert [bucket["points"] for bucket in report["points"]["buckets"]] == [1]
    assert report["problem"] == "10 whole records are no restart points"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "this is no checkpoint of cpreplay"),
        (b"PK\x03\x04 and so on", "this is no checkpoint of cpreplay"),
        (b"\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00", "this is no checkpoint of cpreplay"),
        ((FOLDER / "v2.tar.zst").read_bytes(), "has version 2, and versions up to 1"),
        ((FOLDER / "other_format.tar.zst").read_bytes(), "this is no checkpoint of cpreplay"),
    ],
    ids=["empty", "zip", "zstd", "a later version", "another format"],
)
def test_a_foreign_file_is_refused_in_a_sentence(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert main(["inspect", str(path)]) == 1
    out, err = capsys.readouterr()
    assert said in out and err == ""
    assert main(["inspect", str(path), "--json"]) == 1
    report = strict(capsys.readouterr().out)
    assert said in report.pop("problem")
    assert report == {"file": str(path), "bytes": len(content), "whole": False}


def test_a_file_that_cannot_be_read_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(tmp_path / "nothing")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "No such file" in err
    assert main(["inspect", str(tmp_path)]) == 1
    assert "no regular file" in capsys.readouterr().out


# Bytes of any kind


def look(path: Path) -> dict[str, Any]:
    """Inspect, in all ways that print."""
    report = inspect_file(path).report
    assert all(line.isprintable() for line in as_text(report).split("\n"))
    json.dumps(report, allow_nan=False)
    assert report["whole"] == (report["problem"] is None)
    return report


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("whole")
    return [
        replay_file(folder / "replay", prioritized=True).read_bytes(),
        points_file(folder / "points", [(0, 1), (0, 1), (2, 3)]).read_bytes(),
    ]


def test_what_is_called_whole_after_a_flip_or_a_cut_is_what_was_there(
    whole_files: list[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    random = np.random.default_rng(0)
    for data in whole_files:
        path.write_bytes(data)
        before = look(path)
        assert before["whole"]
        calls = 0
        for at in range(0, len(data), 5):
            changed = bytearray(data)
            changed[at] ^= 1 << int(random.integers(8))
            path.write_bytes(changed)
            report = look(path)
            # There are two copies of the header, and records are found without the index.
            assert not report["whole"] or report == before
            calls += report["whole"]
        assert 0 < calls < len(data) / 10
        for size in range(0, len(data), 9):
            path.write_bytes(data[:size])
            report = look(path)
            assert not report["whole"] or report == {**before, "bytes": size}


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_bytes_of_any_kind_are_reported(
    data: st.DataObject, whole_files: list[bytes], tmp_path: Path
) -> None:
    content = bytearray(data.draw(st.sampled_from([b"", *whole_files])))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=40))
    (tmp_path / "file").write_bytes(content)
    look(tmp_path / "file")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([2**63, 10**400, -1, 1e308])
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def fields_of(known: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the fields with values of any kind, and some left out."""
    return st.fixed_dictionaries({}, optional={name: json_values for name in known}).map(
        lambda changed: {**known, **changed}
    )


columns = st.lists(fields_of(ABOUT["columns"][0]) | json_values, max_size=3)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    about=st.tuples(fields_of({**ABOUT, "written": "", "library": ""}), columns | json_values).map(
        lambda pair: {**pair[0], "columns": pair[1], "kind": "replay"}
    )
    | fields_of(ABOUT).map(lambda about: {**about, "kind": "replay"}),
    state=fields_of(
        {
            **STATE,
            "control": {"total": 1, "ere_enabled": 1, "demo_count": 1, "eta": 1.0, "alpha": 0.5},
        }
    )
    | json_values,
    rows=st.integers(0, 10**13),
)
@example(about={**ABOUT, "rows": 10**400, "capacity": 10**400}, state=STATE, rows=0)
def test_right_checksums_around_nonsense_of_a_buffer_are_reported(
    about: dict[str, Any], state: Any, rows: int, tmp_path: Path
) -> None:
    name = f"rows/{rows:012}/reward.npy"
    look(craft(tmp_path / "file", [npy_member(name, np.zeros((), np.int8))], about, state))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    about=fields_of(
        {
            "key": ["a"],
            "machine": "m",
            "stack_shape": [2],
            "stack_dtype": "|u1",
            "draws": 0,
            "next_name": 1,
            "points": 1,
            "buckets": 1,
        }
    ),
    point=fields_of({"values": {"a": 1}, "steps_used": 0}) | json_values,
)
def test_right_checksums_around_nonsense_of_a_pool_are_reported(
    about: dict[str, Any], point: Any, tmp_path: Path
) -> None:
    name = "points/000000000000"
    record = [
        *member(f"{name}.snapshot", b""),
        *npy_member(f"{name}.stack.npy", np.zeros(2, np.uint8)),
        *json_member(f"{name}.json", point),
    ]
    look(write(tmp_path / "file", {**about, "kind": "restart-points"}, [record]))


def test_a_header_that_claims_everything_allocates_nothing(tmp_path: Path) -> None:
    column = {"name": "reward", "shape": [2**20], "dtype": "float64", "stored": "float64"}
    about = {**ABOUT, "rows": 2**30, "capacity": 2**30, "columns": [column] * 20}
    path = craft(
        tmp_path / "file", [npy_member("rows/999999999999/reward.npy", np.zeros(1))], about
    )
    flip(path, json_member("state.json", STATE))
    tracemalloc.start()
    try:
        report = inspect_file(path).report
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "1,073,741,824 of 1,073,741,824 rows are lost: [0, 1073741824)" in report["problem"]
    assert peak < 2**22


# Terminals and pipes


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **options.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "cpreplay", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=REPOSITORY,
        **options,
    )


def test_a_text_of_the_file_moves_no_cursor_and_any_terminal_shows_it(tmp_path: Path) -> None:
    path = points_file(tmp_path / "points", [(0, 0)], label="位\x1b[2J", machine="a\nb\u202e")
    ran = command("inspect", str(path), stdout=subprocess.PIPE, env={"PYTHONIOENCODING": "ascii"})
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "  key            level, \\u4f4d\\x1b[2J\n" in ran.stdout
    assert "  machine        a\\nb\\u202e\n" in ran.stdout


@pytest.mark.parametrize("call", ["inspect", "info"])
def test_a_pipe_that_was_closed_is_no_error(call: str, tmp_path: Path) -> None:
    path = points_file(tmp_path / "points", [(0, 0)])
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = command(call, *[str(path)] * (call == "inspect"), stdout=writing)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, "")


# Frames


def picture_of(data: bytes) -> np.ndarray:
    """The pixels of a PNG of 8 bits RGB without filters, by its specification."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack_from(">I", data, at + 8 + size)[0]
        chunks[kind] = body
        at += 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *how = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert how == [8, 2, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_a_picture_is_read_back_from_its_png_by_others(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image", reason="reads PNG files independently")
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 3)).astype(np.uint8)
    (tmp_path / "a.png").write_bytes(png(pixels))
    np.testing.assert_array_equal(picture_of(png(pixels)), pixels)
    read = image.imread(tmp_path / "a.png")
    np.testing.assert_array_equal(np.rint(read[..., :3] * 255), pixels)


@pytest.mark.parametrize(
    ("shape", "count", "size"),
    [
        ((84, 84), 1, (84, 84)),
        ((4, 84, 84), 4, (84, 84)),
        ((84, 84, 4), 4, (84, 84)),
        ((60, 70, 3), 1, (60, 70)),
        ((2, 60, 70, 3), 2, (60, 70)),
        ((2, 3, 60, 70), 2, (60, 70)),
        ((12, 60, 70), 8, (60, 70)),  # the last eight
        ((1, 210, 160), 1, (70, 54)),  # every third pixel
        ((2, 10, 5), 2, (40, 20)),  # four times as large
        ((1, 1), 1, (48, 48)),
    ],
)
def test_the_frames_of_a_stack_are_found_by_its_shape(
    shape: tuple[int, ...], count: int, size: tuple[int, int]
) -> None:
    pictures = frames(np.zeros(shape, np.uint8))
    assert [picture.shape for picture in pictures] == [(*size, 3)] * count


def test_frames_show_the_stack_pixel_by_pixel() -> None:
    stack = np.random.default_rng(0).integers(0, 256, (60, 50, 4)).astype(np.uint8)
    for frame, picture in enumerate(frames(stack)):
        for channel in range(3):
            np.testing.assert_array_equal(picture[..., channel], stack[..., frame])
    many = np.arange(12, dtype=np.uint8)[:, None, None] * np.ones((60, 50), np.uint8)
    assert [picture[0, 0, 0] for picture in frames(many)] == [4, 5, 6, 7, 8, 9, 10, 11]
    colour = np.random.default_rng(0).integers(0, 256, (2, 3, 60, 50)).astype(np.uint8)
    for frame, picture in enumerate(frames(colour)):
        np.testing.assert_array_equal(picture, colour[frame].transpose(1, 2, 0))


@pytest.mark.parametrize(
    ("values", "shades"),
    [
        (np.array([[False, True]]), [0, 255]),
        (np.array([[True, True]]), [255, 255]),
        (np.array([[0.0, 2.0, 4.0]]), [0, 128, 255]),
        (np.array([[0.0, 0.5]], np.float32), [0, 128]),
        (np.array([[-1.0, 1.0]]), [0, 255]),
        (np.array([[-1.0, 0.0, 3.0]]), [0, 64, 255]),
        (np.array([[np.nan, 1.0, np.inf]]), [0, 255, 0]),
        (np.array([[-1.7e308, 0.0, 1.7e308]]), [0, 128, 255]),
        (np.array([[100, 600, 1100]], np.int16), [0, 128, 255]),
        (np.array([[7, 7]], np.int64), [0, 0]),
    ],
)
def test_numbers_of_any_kind_are_shown_from_black_to_white(
    values: np.ndarray, shades: list[int]
) -> None:
    (picture,) = frames(values)
    width = picture.shape[1] // len(shades)
    assert picture[0, ::width, 0].tolist() == shades


@pytest.mark.parametrize("shape", [(4,), (0, 3, 3), (2, 2, 2, 2), (1, 2, 3, 4, 5), ()])
def test_what_is_no_picture_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="no stack of frames"):
        frames(np.zeros(shape))


def test_the_sheet_has_a_row_for_each_bucket_and_the_newest_point_on_the_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [(1, 0)] * 8 + [(0, 3)] * 2  # shades 0 to 7, then 8 and 9
    path, target = points_file(tmp_path / "points", keys), tmp_path / "sheet.png"
    assert main(["inspect", str(path), "--frames", str(target)]) == 0
    assert capsys.readouterr().out.endswith(f"  frames         2 of 2 buckets in {target}\n")
    sheet = picture_of(target.read_bytes())
    # A margin of 10, a label of 10, 10 between, frames of 50 by 60: 2 apart in a stack of two,
    # stacks 10 apart.
    assert sheet.shape == (10 + 2 * (10 + 10 + 50) + 10 + 10, 10 + 6 * 122 + 5 * 10 + 10, 3)
    for top, shades in ((30, [9, 8]), (110, [7, 6, 5, 4, 3, 2])):
        for place, shade in enumerate(shades):
            left = 10 + 132 * place
            for start in (left, left + 62):
                assert (sheet[top : top + 50, start : start + 60] == shade).all()
    assert (sheet[30:80, 10 + 2 * 132 :] == sheet[0, 0]).all()  # nothing but paper
    # The labels: "0,3" over the first row, of dots of 2 by 2, 4 dots a character.
    dots = sheet[10:20:2, 10 : 10 + 3 * 8 : 2, 0] > 100
    assert ["".join(".#"[int(dot)] for dot in line) for line in dots] == [
        "###.....###.",
        "#.#.......#.",
        "#.#.....###.",
        "#.#..#....#.",
        "###.#...###.",
    ]


def test_a_sheet_beside_json_leaves_the_json_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, target = points_file(tmp_path / "points", [(1, 0)]), tmp_path / "sheet.png"
    assert main(["inspect", str(path), "--json", "--frames", str(target)]) == 0
    assert strict(capsys.readouterr().out) == inspect_file(path).report
    assert target.exists()


def test_every_character_of_a_key_is_drawn() -> None:
    characters = "0123456789-,"
    sheet = contact_sheet([(characters, [frames(np.zeros((48, 48), np.uint8))])])
    dots = sheet[10:20:2, 10 : 10 + 8 * len(characters) : 2, 0] > 100
    assert ["".join(".#"[int(dot)] for dot in line) for line in dots] == [
        "###..#..###.###.#.#.###.###.###.###.###.........",
        "#.#.##....#...#.#.#.#...#.....#.#.#.#.#.........",
        "#.#..#..###.###.###.###.###...#.###.###.###.....",
        "#.#..#..#.....#...#...#.#.#...#.#.#...#......#..",
        "###.###.###.###...#.###.###...#.###.###.....#...",
    ]


def test_of_many_buckets_some_are_drawn_spread_evenly(tmp_path: Path) -> None:
    path = points_file(tmp_path / "points", [(level, 0) for level in range(95)])
    target = tmp_path / "sheet.png"
    assert draw_frames(inspect_file(path), target) == (48, 95)
    sheet = picture_of(target.read_bytes())
    shades = sheet[30 : 30 + 48 * 80 : 80, 10, 0]
    assert shades.tolist() == list(range(0, 95, 2))


def test_the_whole_points_of_a_damaged_file_are_drawn(tmp_path: Path) -> None:
    path = points_file(tmp_path / "points", [(0, 0), (1, 0)])
    data = path.read_bytes()
    path.write_bytes(data[: frames_in(data)[2] + 60])
    assert main(["inspect", str(path), "--frames", str(tmp_path / "sheet.png")]) == 1
    assert picture_of((tmp_path / "sheet.png").read_bytes()).shape[0] == 90


def test_what_has_no_frames_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "sheet.png"
    path = replay_file(tmp_path / "replay")
    assert main(["inspect", str(path), "--frames", str(target)]) == 2
    assert "has no restart points, and nothing else is drawn" in capsys.readouterr().err
    with pytest.raises(ConfigurationError):
        draw_frames(inspect_file(path), target)
    pool = RestartPool(RestartPoolConfiguration(key=["a"]))
    pool.offer(b"", np.zeros(4), {"a": 1})
    pool.save(tmp_path / "points")
    assert main(["inspect", str(tmp_path / "points"), "--frames", str(target)]) == 2
    assert "an array of shape (4,) is no stack of frames" in capsys.readouterr().err
    assert not target.exists()
    whole = points_file(tmp_path / "points", [(0, 0)])
    assert main(["inspect", str(whole), "--frames", str(tmp_path / "no folder" / "a.png")]) == 2
    assert "the folder to save into is not there" in capsys.readouterr().err


def test_an_empty_sheet_of_one_bucket_is_its_label_and_stack() -> None:
    sheet = contact_sheet([("1" * 100, [frames(np.zeros((48, 48), np.uint8))])])
    assert sheet.shape == (10 + 10 + 10 + 48 + 10, 10 + 60 * 8 + 10, 3)
