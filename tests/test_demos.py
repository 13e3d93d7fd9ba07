"""Demonstrations: recorded step by step, written, read, and refused where a file is not right."""

import math
import os
import signal
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpreplay
from cpreplay import (
    ColumnValueError,
    ConfigurationError,
    DemoFileError,
    DemoFilter,
    DemoSet,
    DTypeError,
    MemoryLimitError,
    OrderError,
    ShapeError,
    atomic_file,
    read_demo_file,
    write_demo_file,
)
from cpreplay.atomic_file import replaced_file
from cpreplay.demos import file
from tests.demo_files import FOLDER, make

# A file's bytes, worked out by hand: one step of one episode, terminal, without success.
ONE_ROW = bytes.fromhex(
    "4d524c44454d4f31"  # MRLDEMO1
    "01000000 01000000 01000000"  # version, obs_dim, act_dim
    "0100000000000000 01000000"  # rows, episodes
    "0000003f 00000040 00004040 0000403f 0000803f 00000000"  # 0.5, 2, 3, 0.75, done 1, flags
    "0000000000000000 0100000000000000 00000000"  # start, length, success
)


def two_episodes() -> DemoSet:
    """The set whose file is ``good_two_episodes``, recorded step by step."""
    demos = DemoSet(2, 1)
    demos.begin_episode()
    demos.add([0, 1], [0.5], 1, [1, 2], False, intervened=True)
    demos.add([1, 2], [-0.5], 0.25, [2, 3], False)
    demos.add([2, 3], [1.5], -2, [3, 4], True, intervened=True)
    demos.end_episode(success=True)
    demos.begin_episode()
    demos.add([10, 11], [0.125], 8, [11, 12], False)
    demos.add([11, 12], [0.25], 16, [12, -0.0], False)
    demos.end_episode(success=False)
    return demos


def open_set() -> DemoSet:
    """One whole episode, and one open that has a step."""
    demos = DemoSet(2, 1)
    demos.begin_episode()
    demos.add([1, 2], [3], 4, [5, 6], True)
    demos.end_episode(True)
    demos.begin_episode()
    demos.add([7, 8], [9], 10, [11, 12], False)
    return demos


def written(demos: DemoSet, folder: Path) -> bytes:
    path = folder / "written.demo"
    write_demo_file(path, demos)
    return path.read_bytes()


def read(content: bytes, folder: Path) -> DemoSet:
    path = folder / "read.demo"
    path.write_bytes(content)
    return read_demo_file(path)


# Recording


def test_a_set_has_the_steps_that_were_added() -> None:
    demos = two_episodes()
    assert (demos.obs_dim, demos.act_dim, len(demos)) == (2, 1, 5)
    rows = demos.rows
    assert rows.dtype.names == ("obs", "action", "reward", "next_obs", "done", "flags")
    assert rows["obs"].tolist() == [[0, 1], [1, 2], [2, 3], [10, 11], [11, 12]]
    assert rows["action"].tolist() == [[0.5], [-0.5], [1.5], [0.125], [0.25]]
    assert rows["reward"].tolist() == [1, 0.25, -2, 8, 16]
    assert rows["next_obs"].tolist() == [[1, 2], [2, 3], [3, 4], [11, 12], [12, 0]]
    assert rows["done"].tolist() == [0, 0, 1, 0, 0]
    assert rows["flags"].tolist() == [3, 2, 3, 0, 0]
    assert demos.episodes.tolist() == [(0, 3, 1), (3, 2, 0)]


def test_a_summary_counts_whole_episodes_alone() -> None:
    demos = two_episodes()
    demos.begin_episode()
    demos.add([0, 0], [0], 1000, [0, 0], False, True)
    summary = demos.summary()
    assert (summary.episodes, summary.successes) == (2, 1)
    assert (summary.rows, summary.intervened_rows) == (5, 2)
    assert summary.mean_reward == (1 + 0.25 - 2 + 8 + 16) / 5
    demos.discard_episode()
    assert demos.summary() == summary


def test_a_mean_reward_is_summed_in_float64() -> None:
    demos = DemoSet(1, 1)
    demos.begin_episode()
    for reward in (2.0**24, 1.0, 1.0, 1.0):  # whose float32 sum loses the ones
        demos.add([0], [0], reward, [0], False)
    demos.end_episode(False)
    assert demos.summary().mean_reward == (2**24 + 3) / 4


def test_a_set_without_an_episode_is_empty_and_has_no_mean() -> None:
    demos = DemoSet(3, 2)
    assert len(demos) == len(demos.rows) == len(demos.episodes) == 0
    summary = demos.summary()
    assert (summary.episodes, summary.successes, summary.rows) == (0, 0, 0)
    assert summary.intervened_rows == 0
    assert math.isnan(summary.mean_reward)


def test_a_discarded_episode_leaves_no_trace() -> None:
    demos = open_set()
    before = demos.rows.tobytes()
    demos.discard_episode()
    assert demos.rows.tobytes() == before
    demos.begin_episode()
    demos.add([0, 0], [0], 5, [0, 0], False)
    demos.end_episode(False)
    assert demos.rows["reward"].tolist() == [4, 5]
    assert demos.episodes.tolist() == [(0, 1, 1), (1, 1, 0)]


def test_an_episode_whose_last_step_was_terminal_can_be_discarded() -> None:
    demos = DemoSet(1, 1)
    demos.begin_episode()
    demos.add([0], [0], 0, [0], True)
    demos.discard_episode()
    assert len(demos) == 0


@pytest.mark.parametrize(
    ("prepare", "call", "part"),
    [
        (lambda d: None, lambda d: d.add([0, 0], [0], 0, [0, 0], False), "begin_episode first"),
        (lambda d: None, lambda d: d.end_episode(True), "no episode is open"),
        (lambda d: None, lambda d: d.discard_episode(), "no episode is open"),
        (lambda d: d.begin_episode(), lambda d: d.begin_episode(), "is open"),
        (lambda d: d.begin_episode(), lambda d: d.end_episode(True), "no step yet"),
    ],
    ids=["add", "end", "discard", "begin-twice", "end-without-a-step"],
)
def test_calls_out_of_order_are_refused_and_change_nothing(
    prepare: Callable[[DemoSet], None], call: Callable[[DemoSet], None], part: str
) -> None:
    demos = two_episodes()
    prepare(demos)
    with pytest.raises(OrderError, match=part):
        call(demos)
    assert demos.rows.tobytes() == two_episodes().rows.tobytes()
    assert demos.summary() == two_episodes().summary()


def test_a_step_after_a_terminal_one_is_refused_and_the_episode_can_still_end() -> None:
    demos = DemoSet(1, 1)
    demos.begin_episode()
    demos.add([0], [0], 1, [1], True)
    with pytest.raises(OrderError, match="end_episode"):
        demos.add([1], [0], 1, [2], False)
    demos.end_episode(True)
    assert demos.episodes.tolist() == [(0, 1, 1)]
    with pytest.raises(OrderError, match="begin_episode"):
        demos.add([1], [0], 1, [2], False)


STEP: dict[str, Any] = {
    "obs": [1.0, 2.0],
    "action": [3.0],
    "reward": 4.0,
    "next_obs": [5.0, 6.0],
    "terminated": False,
    "intervened": False,
}


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("obs", [1.0], ShapeError),
        ("obs", [1.0, 2.0, 3.0], ShapeError),
        ("obs", [[1.0, 2.0]], ShapeError),
        ("obs", 1.0, ShapeError),
        ("action", [1.0, 2.0], ShapeError),
        ("action", 3.0, ShapeError),
        ("reward", [4.0], ShapeError),
        ("next_obs", [5.0], ShapeError),
        ("next_obs", [[5.0], [6.0, 7.0]], ShapeError),
        ("terminated", [False], ShapeError),
        ("intervened", [False], ShapeError),
        ("obs", ["a", "b"], DTypeError),
        ("obs", [1j, 2.0], DTypeError),
        ("action", [None], DTypeError),
        ("reward", "4", DTypeError),
        ("terminated", 0.0, DTypeError),
        ("terminated", "no", DTypeError),
        ("intervened", None, DTypeError),
        ("terminated", 2, ColumnValueError),
        ("obs", [math.nan, 2.0], ColumnValueError),
        ("obs", [1.0, math.inf], ColumnValueError),
        ("action", [-math.inf], ColumnValueError),
        ("reward", math.nan, ColumnValueError),
        ("reward", np.float32(np.inf), ColumnValueError),
        ("next_obs", [5.0, math.nan], ColumnValueError),
        ("reward", 1e39, ColumnValueError),  # beyond float32
        ("obs", [2**24 + 1, 0], ColumnValueError),  # no float32
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_nothing_is_added(
    name: str, value: Any, error: type[Exception]
) -> None:
    demos = open_set()
    with pytest.raises(error, match=name):
        demos.add(**{**STEP, name: value})
    demos.add(**STEP)
    demos.end_episode(False)
    assert demos.rows["reward"].tolist() == [4, 10, 4]
    assert demos.episodes.tolist() == [(0, 1, 1), (1, 2, 0)]


@pytest.mark.parametrize("width", [0, -1, True, 1.0, "2", None, 2**27 + 1, 2**31, 2**64])
def test_a_width_that_is_no_number_of_numbers_is_refused(width: Any) -> None:
    with pytest.raises(ConfigurationError, match="obs_dim"):
        DemoSet(width, 1)
    with pytest.raises(ConfigurationError, match="act_dim"):
        DemoSet(1, width)


def test_widths_may_be_numpys_integers() -> None:
    demos = DemoSet(np.int64(3), np.uint8(2))
    assert (type(demos.obs_dim), type(demos.act_dim)) == (int, int)


@pytest.mark.parametrize("success", ["no", None, math.nan, 2, [True]])
def test_a_success_that_is_no_bool_is_refused(success: Any) -> None:
    demos = open_set()
    with pytest.raises(cpreplay.ReplayError, match="success"):
        demos.end_episode(success)
    demos.end_episode(False)  # it is open as before
    assert demos.episodes.tolist() == [(0, 1, 1), (1, 1, 0)]


@pytest.mark.parametrize("success", [True, np.True_, 1])
def test_a_success_may_be_any_kind_of_bool(success: Any) -> None:
    demos = open_set()
    demos.end_episode(success)
    assert demos.episodes["success"].tolist() == [1, 1]
    assert demos.rows["flags"].tolist() == [2, 2]


def test_a_set_copies_what_it_is_given_and_gives_copies() -> None:
    demos = DemoSet(2, 1)
    demos.begin_episode()
    obs, action, next_obs = (np.full(count, 1, np.float32) for count in (2, 1, 2))
    reward, terminated = np.array(1, np.float32), np.array(False)
    demos.add(obs, action, reward, next_obs, terminated)
    for array in (obs, action, next_obs, reward, terminated):
        array[...] = 9
    demos.end_episode(False)
    demos.rows["obs"] = 7
    demos.rows["flags"] = 7
    demos.episodes["length"] = 7
    rows = demos.rows
    assert rows["obs"].tolist() == rows["next_obs"].tolist() == [[1, 1]]
    assert (rows["action"].item(), rows["reward"].item(), rows["done"].item()) == (1, 1, 0)
    assert rows["flags"].item() == 0
    assert demos.episodes.tolist() == [(0, 1, 0)]


def test_a_set_that_was_read_can_be_gone_on_with(tmp_path: Path) -> None:
    demos = read(make.GOOD, tmp_path)
    demos.begin_episode()
    demos.add([20, 21], [1], 32, [21, 22], True, True)
    demos.end_episode(True)
    more = make.Row((20.0, 21.0), (1.0,), 32.0, (21.0, 22.0), 1.0, make.SUCCESS | make.HUMAN)
    expected = make.demo_bytes(2, 1, [*make.ROWS, more], [*make.EPISODES, make.Episode(5, 1, 1)])
    assert written(demos, tmp_path) == expected


# Filters


@pytest.mark.parametrize(
    ("successful_only", "intervened_only", "kept"),
    [
        (False, False, [1, 1, 1, 1, 1]),
        (True, False, [1, 1, 1, 0, 0]),
        (False, True, [1, 0, 1, 0, 0]),
        (True, True, [1, 0, 1, 0, 0]),
    ],
)
def test_a_filter_keeps_rows_by_their_flags(
    successful_only: bool, intervened_only: bool, kept: list[int]
) -> None:
    mask = DemoFilter(successful_only, intervened_only)(two_episodes())
    assert mask.dtype == np.dtype(bool)
    assert mask.tolist() == list(map(bool, kept))


def test_both_flags_of_a_filter_have_to_hold() -> None:
    demos = DemoSet(1, 1)
    for success in (False, True):
        demos.begin_episode()
        for intervened in (False, True):
            demos.add([0], [0], 0, [0], False, intervened)
        demos.end_episode(success)
    assert DemoFilter(True, True)(demos).tolist() == [False, False, False, True]
    assert DemoFilter(intervened_only=True)(demos).tolist() == [False, True, False, True]
    assert DemoFilter(successful_only=True)(demos).tolist() == [False, False, True, True]


def test_a_filter_of_no_rows_gives_none() -> None:
    assert DemoFilter()(DemoSet(1, 1)).shape == (0,)


# Files


def test_the_files_are_as_they_were_made() -> None:
    """Which a version control that changes line ends would break."""
    found = {path.stem: path.read_bytes() for path in FOLDER.glob("*.demo")}
    assert found == make.FILES
    assert found["good_one_row"] == ONE_ROW


def test_what_was_recorded_is_written_byte_for_byte(tmp_path: Path) -> None:
    golden = (FOLDER / "good_two_episodes.demo").read_bytes()
    assert written(two_episodes(), tmp_path) == golden
    demos = DemoSet(1, 1)
    demos.begin_episode()
    demos.add([0.5], [2], 3, [0.75], True)
    demos.end_episode(False)
    assert written(demos, tmp_path) == (FOLDER / "good_one_row.demo").read_bytes() == ONE_ROW
    assert written(DemoSet(3, 2), tmp_path) == (FOLDER / "good_no_rows.demo").read_bytes()


@pytest.mark.parametrize("name", [name for name in make.FILES if name.startswith("good")])
def test_a_file_that_was_read_is_written_byte_for_byte(name: str, tmp_path: Path) -> None:
    path = FOLDER / f"{name}.demo"
    assert written(read_demo_file(path), tmp_path) == path.read_bytes()


def test_a_file_is_read_as_what_was_recorded() -> None:
    demos = read_demo_file(FOLDER / "good_two_episodes.demo")
    assert (demos.obs_dim, demos.act_dim, len(demos)) == (2, 1, 5)
    assert demos.rows.tobytes() == two_episodes().rows.tobytes()
    assert demos.episodes.tolist() == [(0, 3, 1), (3, 2, 0)]
    assert demos.summary() == two_episodes().summary()


@pytest.mark.parametrize("kind", [str, Path, os.fsencode], ids=["str", "Path", "bytes"])
def test_a_path_may_be_given_in_any_form(kind: Callable[[Path], Any], tmp_path: Path) -> None:
    if kind is os.fsencode:
        assert len(read_demo_file(kind(FOLDER / "good_two_episodes.demo"))) == 5
        return
    write_demo_file(kind(tmp_path / "a.demo"), two_episodes())
    assert len(read_demo_file(kind(tmp_path / "a.demo"))) == 5


def test_an_open_episode_is_not_written(tmp_path: Path) -> None:
    demos = open_set()
    row = make.Row((1.0, 2.0), (3.0,), 4.0, (5.0, 6.0), 1.0, make.SUCCESS)
    assert written(demos, tmp_path) == make.demo_bytes(2, 1, [row], [make.Episode(0, 1, 1)])
    demos.end_episode(False)  # it is open as before
    assert len(demos) == 2


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def recordings(draw: Any) -> tuple[int, int, list[tuple[list[make.Row], bool]]]:
    """Widths, and episodes with their success."""
    obs_dim, act_dim = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    episodes = []
    for length in draw(st.lists(st.integers(1, 4), max_size=3)):
        success = draw(st.booleans())
        rows = []
        for number in range(length):
            numbers = [
                draw(st.lists(finite, min_size=count, max_size=count))
                for count in (obs_dim, act_dim, obs_dim)
            ]
            done = float(number == length - 1 and draw(st.booleans()))
            flags = make.SUCCESS * success | make.HUMAN * draw(st.booleans())
            rows.append(make.Row(numbers[0], numbers[1], draw(finite), numbers[2], done, flags))
        episodes.append((rows, success))
    return obs_dim, act_dim, episodes


@settings(max_examples=60)
@given(recordings())
def test_any_episodes_are_written_as_the_format_says_and_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    recording: tuple[int, int, list[tuple[list[make.Row], bool]]],
) -> None:
    obs_dim, act_dim, episodes = recording
    folder = tmp_path_factory.getbasetemp()
    demos = DemoSet(obs_dim, act_dim)
    table = []
    for rows, success in episodes:
        table.append(make.Episode(len(demos), len(rows), int(success)))
        demos.begin_episode()
        for row in rows:
            intervened = bool(row.flags & make.HUMAN)
            demos.add(row.obs, row.action, row.reward, row.next_obs, row.done == 1, intervened)
        demos.end_episode(success)
    expected = make.demo_bytes(
        obs_dim, act_dim, [row for rows, _ in episodes for row in rows], table
    )
    assert written(demos, folder) == expected
    again = read(expected, folder)
    assert again.rows.tobytes() == demos.rows.tobytes()
    assert again.episodes.tobytes() == demos.episodes.tobytes()
    assert written(again, folder) == expected


# Atomic writes


@pytest.mark.parametrize("error", [OSError("no space"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    call: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.demo"
    write_demo_file(path, open_set())
    old = path.read_bytes()

    def fail(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(type(error)):
            write_demo_file(path, two_episodes())
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
    write_demo_file(path, two_episodes())
    assert path.read_bytes() == make.GOOD
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="needs the permissions of Unix")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_any_new_file_has(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_demo_file(tmp_path / "a.demo", two_episodes())
    finally:
        os.umask(before)
    assert (tmp_path / "a.demo").stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.skipif(os.name != "posix", reason="needs the permissions of Unix")
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a.demo"
    for mode in (0o640, 0o604, 0o444):
        write_demo_file(path, open_set())
        path.chmod(mode)
        write_demo_file(path, two_episodes())
        assert path.stat().st_mode & 0o7777 == mode
    assert path.read_bytes() == make.GOOD


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "a.demo").symlink_to(Path("there") / "b.demo")
    for demos in (open_set(), two_episodes()):  # a target that is not there, and one that is
        write_demo_file(tmp_path / "a.demo", demos)
    assert (tmp_path / "a.demo").is_symlink()
    assert (tmp_path / "there" / "b.demo").read_bytes() == make.GOOD
    assert len(list(tmp_path.iterdir())) == 2
    assert len(list((tmp_path / "there").iterdir())) == 1


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "a.demo"
    folder.mkdir()
    with pytest.raises(ConfigurationError, match="no regular file"):
        write_demo_file(folder, two_episodes())
    assert list(tmp_path.iterdir()) == [folder]
    assert not list(folder.iterdir())


def test_a_path_may_be_of_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_demo_file("a.demo", two_episodes())
    assert (tmp_path / "a.demo").read_bytes() == make.GOOD
    assert len(read_demo_file("a.demo")) == 5
    assert len(list(tmp_path.iterdir())) == 1


def test_a_first_write_that_fails_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_demo_file(tmp_path / "a.demo", two_episodes())
    assert not list(tmp_path.iterdir())


def test_a_file_is_on_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        events.append(("fsync", os.fstat(descriptor).st_size))
        fsync(descriptor)

    def noted_replace(source: Any, target: Any) -> None:
        events.append(("replace", Path(source).stat().st_size))
        assert Path(source).parent == Path(target).parent  # of one file system
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write_demo_file(tmp_path / "a.demo", two_episodes())
    size = len(make.GOOD)
    assert events[:2] == [("fsync", size), ("replace", size)]
    if os.name == "posix":
        assert [name for name, _ in events] == ["fsync", "replace", "fsync"]  # then the folder


@pytest.mark.skipif(os.name != "posix", reason="needs a signal that cannot be caught")
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_program_killed_while_it_writes_leaves_the_old_file(call: str, tmp_path: Path) -> None:
    path = tmp_path / "a.demo"
    path.write_bytes(make.GOOD)
    program = (
        "import os, signal, sys, cpreplay\n"
        "def kill(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"os.{call} = kill\n"
        "cpreplay.write_demo_file(sys.argv[1], cpreplay.DemoSet(1, 1))\n"
    )
    run = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert path.read_bytes() == make.GOOD


def test_a_write_to_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_demo_file(tmp_path / "none" / "a.demo", two_episodes())
    assert not list(tmp_path.iterdir())


# Files that are refused

REASONS = {
    "empty": "no .demo file",
    "text": "no .demo file",
    "magic": "no .demo file",
    "magic_case": "no .demo file",
    "big_endian": "version",
    "version_0": "version 0, and version 1 is read",
    "version_2": "version 2, and version 1 is read",
    "header_cut": "inside its header, after 31 bytes",
    "last_byte_missing": "cut or extended",
    "one_byte_more": "cut or extended",
    "one_row_claimed_more": "6 rows of 32 bytes",
    "obs_dim_0": "obs_dim is 0",
    "act_dim_0": "act_dim 0",
    "obs_dim_huge": "obs_dim is 4294967295",
    "act_dim_huge": "act_dim 4294967295",
    "rows_2_60": "1,152,921,504,606,846,976 rows",
    "rows_largest": "18,446,744,073,709,551,615 rows",
    "rows_times_32_overflow": "576,460,752,303,423,488 rows",
    "done_half": "done of row 1",
    "done_minus_1": "done of row 1",
    "done_nan": "done of row 2",
    "flags_bit_2": "flags of row 3",
    "flags_bit_31": "flags of row 3",
    "obs_nan": "obs of row 0 is not finite",
    "obs_inf": "obs of row 1 is not finite",
    "action_nan": "action of row 2 is not finite",
    "action_inf": "action of row 4 is not finite",
    "reward_nan": "reward of row 3 is not finite",
    "reward_inf": "reward of row 0 is not finite",
    "next_obs_nan": "next_obs of row 4 is not finite",
    "next_obs_inf": "next_obs of row 4 is not finite",
    "table_out_of_range": "episode 1",
    "table_overlaps": "episode 1",
    "table_has_a_gap": "episode 1",
    "table_begins_late": "episode 0",
    "table_ends_early": "rows [4, 5) belong to no episode",
    "table_out_of_order": "episode 0",
    "table_has_an_empty_episode": "episode 1",
    "table_is_empty": "rows [0, 5) belong to no episode",
    "table_wraps_around": "episode 1",
    "table_length_wraps": "episode 1",
    "episode_without_rows": "episode 0",
    "success_7": "success 7",
}


def test_every_bad_file_has_a_reason() -> None:
    bad = {name.removeprefix("bad_") for name in make.FILES if name.startswith("bad_")}
    assert bad == set(REASONS)


@pytest.mark.parametrize("name", REASONS)
def test_a_bad_file_is_refused_with_its_name_and_reason_and_costs_no_memory(name: str) -> None:
    path = FOLDER / f"bad_{name}.demo"
    with pytest.raises(DemoFileError):  # so that what is loaded once is not counted
        read_demo_file(path)
    tracemalloc.start()
    try:
        with pytest.raises(DemoFileError) as caught:
            read_demo_file(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert REASONS[name] in str(caught.value)
    assert path.name in str(caught.value)
    assert peak < 100_000
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", ["good_one_row", "good_two_episodes"])
def test_a_file_cut_anywhere_is_refused(name: str, tmp_path: Path) -> None:
    content = make.FILES[name]
    for length in range(len(content)):
        with pytest.raises(DemoFileError):
            read(content[:length], tmp_path)
    read(content, tmp_path)


def test_a_length_is_checked_before_anything_is_allocated(tmp_path: Path) -> None:
    """A million rows are claimed and there is one too few: none of them is read."""
    path = tmp_path / "a.demo"
    path.write_bytes(make.header(2, 1, 1_000_000, 1))
    os.truncate(path, 32 + 32 * 999_999 + 20)  # a hole, which takes no room on disk
    tracemalloc.start()
    try:
        with pytest.raises(DemoFileError, match="1,000,000 rows"):
            read_demo_file(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_a_file_that_becomes_shorter_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.demo"
    read_header = file._read_header
    for length in (len(make.GOOD) - 1, 100, 32):
        path.write_bytes(make.GOOD)

        def cut(*arguments: Any, length: int = length) -> Any:
            header = read_header(*arguments)
            os.truncate(path, length)
            return header

        with monkeypatch.context() as patch:
            patch.setattr(file, "_read_header", cut)
            with pytest.raises(DemoFileError, match="shorter"):
                read_demo_file(path)


def test_what_is_missing_or_no_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_demo_file(tmp_path / "none.demo")
    with pytest.raises(OSError):
        read_demo_file(tmp_path)


def fields(content: bytes) -> list[bytes]:
    """Where a file of one row and one episode has which field: width 1 and 1."""
    names = [b"head"] * 32
    for name in (b"obs", b"action", b"reward", b"next_obs", b"done", b"flags"):
        names += [name] * 4
    names += [b"start"] * 8 + [b"length"] * 8 + [b"success"] * 4
    assert len(names) == len(content)
    return names


def test_any_flipped_bit_is_refused_or_changes_a_number_or_a_flag_alone(tmp_path: Path) -> None:
    names = fields(ONE_ROW)
    accepted: dict[bytes, int] = {}
    for place in range(len(ONE_ROW)):
        for bit in range(8):
            content = bytearray(ONE_ROW)
            content[place] ^= 1 << bit
            try:
                demos = read(bytes(content), tmp_path)
            except DemoFileError:
                continue
            name = names[place]
            accepted[name] = accepted.get(name, 0) + 1
            again = written(demos, tmp_path)
            assert again == bytes(content), (place, bit)
    # Sign, significand, and those bits of the exponent that do not make 255 of it; of flags the two
    # that have a meaning; success 1.
    assert accepted == {
        b"obs": 32,  # 0.5
        b"action": 31 + 1,  # 2.0: exponent 128, which no single bit makes 255
        b"reward": 32,
        b"next_obs": 32,
        b"flags": 2,
        b"success": 1,
    }


def test_a_minus_zero_is_not_done(tmp_path: Path) -> None:
    demos = read(make.changed(1, done=-0.0), tmp_path)
    assert demos.rows["done"].tolist() == [0, 0, 1, 0, 0]


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, len(make.GOOD) - 1), st.integers(1, 255)), min_size=1))
def test_no_damage_gives_anything_but_an_error_or_a_whole_set(
    tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, int]]
) -> None:
    content = bytearray(make.GOOD)
    for place, flip in damage:
        content[place] ^= flip
    folder = tmp_path_factory.getbasetemp()
    try:
        demos = read(bytes(content), folder)
    except DemoFileError:
        return
    rows, table = demos.rows, demos.episodes
    assert len(rows) == len(demos) == 5
    assert all(np.isfinite(rows[name]).all() for name in ("obs", "action", "reward", "next_obs"))
    assert set(rows["done"].tolist()) <= {0.0, 1.0}
    assert (rows["flags"] < 4).all()
    assert table["start"].tolist() == [0, 3]
    assert table["length"].tolist() == [3, 2]
    assert (table["success"] < 2).all()


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_bytes_after_the_magic_are_refused_or_a_whole_set(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    try:
        demos = read(make.MAGIC + content, tmp_path_factory.getbasetemp())
    except cpreplay.DemoFileError:
        return
    assert len(demos) == int(demos.episodes["length"].sum())


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.demo"
    os.mkfifo(pipe)
    with pytest.raises(ConfigurationError, match="no regular file"):
        write_demo_file(pipe, two_episodes())
    assert [*tmp_path.iterdir()] == [pipe]


def test_a_long_name_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250 + ".demo")
    write_demo_file(path, two_episodes())
    assert len(read_demo_file(path)) == len(two_episodes())


def test_a_folder_that_cannot_be_listed_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.open

    def refused(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if Path(path) == tmp_path and flags == os.O_RDONLY:
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refused)
    write_demo_file(tmp_path / "a.demo", two_episodes())
    assert len(read_demo_file(tmp_path / "a.demo")) == len(two_episodes())


def test_something_else_than_a_set_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="list"):
        write_demo_file(tmp_path / "a.demo", [1])
    assert not [*tmp_path.iterdir()]


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.demo"
    write_demo_file(path, two_episodes())
    monkeypatch.setattr("cpreplay.demos.file.host_memory", lambda: 64)
    with pytest.raises(cpreplay.MemoryLimitError, match=r"a\.demo.*64 bytes"):
        read_demo_file(path)


def test_widths_may_be_as_large_as_a_record_allows() -> None:
    demos = DemoSet(2**27, 2**27)
    assert (demos.obs_dim, demos.act_dim) == (2**27, 2**27)


def test_a_filter_cannot_be_changed() -> None:
    keep = DemoFilter()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        keep.successful_only = True  # type: ignore[misc]
    assert {keep: 1}[DemoFilter()] == 1


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.demo"
    with replaced_file(path) as first, replaced_file(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"  # which ended last
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_of_opening_comes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(atomic_file, "open", refuse, raising=False)
    with pytest.raises(PermissionError, match="not here"):
        write_demo_file(tmp_path / "a.demo", two_episodes())


@pytest.mark.skipif(os.name != "posix", reason="needs descriptors of folders")
def test_the_folder_of_a_new_file_is_put_on_disk_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_descriptor() -> int:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    synced = []
    fsync, free = os.fsync, next_descriptor()

    def noted_fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    write_demo_file(tmp_path / "a.demo", two_episodes())
    assert synced == [(tmp_path / "a.demo").stat().st_ino, tmp_path.stat().st_ino]
    assert next_descriptor() == free


@pytest.mark.skipif(os.name != "posix", reason="needs the permissions of Unix")
def test_a_file_that_is_replaced_keeps_its_group_bit(tmp_path: Path) -> None:
    path = tmp_path / "a.demo"
    write_demo_file(path, two_episodes())
    path.chmod(0o2640)
    write_demo_file(path, two_episodes())
    assert path.stat().st_mode & 0o7777 == 0o2640


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("intervened", 0.0, DTypeError),
        ("intervened", 2, ColumnValueError),
        ("obs", [1e39, 0.0], ColumnValueError),  # beyond float32
        ("action", [1e39], ColumnValueError),
        ("action", [2**24 + 1], ColumnValueError),  # no float32
        ("next_obs", [0.0, -1e39], ColumnValueError),
    ],
)
def test_a_value_that_float32_or_a_flag_does_not_hold_is_refused(
    name: str, value: Any, error: type[Exception]
) -> None:
    demos = open_set()
    with pytest.raises(error, match=name):
        demos.add(**{**STEP, name: value})
    demos.add(**STEP)
    demos.end_episode(False)
    assert demos.rows["reward"].tolist() == [4, 10, 4]


def test_the_steps_of_an_open_episode_are_not_counted() -> None:
    demos = open_set()
    assert (len(demos), len(demos.rows), len(demos.episodes)) == (1, 1, 1)


def test_no_step_follows_a_terminal_one_that_was_not_the_first() -> None:
    demos = open_set()
    demos.add(**STEP)
    demos.add(**{**STEP, "terminated": True})
    with pytest.raises(OrderError, match="last step ended the MDP"):
        demos.add(**STEP)
    demos.end_episode(True)
    assert demos.rows["done"].tolist()[-3:] == [0, 0, 1]


def test_an_episode_without_a_step_can_be_discarded() -> None:
    demos = DemoSet(1, 1)
    demos.begin_episode()
    demos.discard_episode()
    demos.begin_episode()


@pytest.mark.parametrize("done", [2.0, -1.0, 0.5, 1e-40])
def test_done_is_zero_or_one(done: float, tmp_path: Path) -> None:
    one, other = struct.pack("<f", 1.0), struct.pack("<f", done)
    assert ONE_ROW.count(one) == 1
    with pytest.raises(DemoFileError, match="done of row 0 is neither 0 nor 1"):
        read(ONE_ROW.replace(one, other), tmp_path)


def test_a_file_as_large_as_the_memory_is_read_and_a_larger_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.demo"
    path.write_bytes(make.GOOD)
    for memory in (len(make.GOOD), None):
        monkeypatch.setattr(file, "host_memory", lambda memory=memory: memory)
        assert len(read_demo_file(path)) == 5
    monkeypatch.setattr(file, "host_memory", lambda: len(make.GOOD) - 1)
    with pytest.raises(MemoryLimitError, match=r"a\.demo"):
        read_demo_file(path)
