"""Files of restart points: what comes back, what does not fit, and what damage costs."""

import io
import itertools
import json
import shutil
import subprocess
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import cpreplay.restart.files
import cpreplay.restart.pool
import cpreplay.restart.pool_files
from cpreplay.checkpoint.container import RecordReader, RecordWriter, written_records
from cpreplay.checkpoint.members import json_member, member, members_of, npy_member
from cpreplay.errors import CheckpointWarning, ShapeError
from cpreplay.restart import Restart, RestartPool, RestartPoolConfiguration
from tests.restart_model import restart_numbers
from tests.test_restart_pool import number_of, numbers_held, offer, stack_of

NAME = "restart_points.tar.zst"


def make_pool(
    key: tuple[str, ...] = ("level",), *, machine: str | None = None, **values: Any
) -> RestartPool:
    values = {"probability": 1.0, "random_seed": 7, "save_in_checkpoints": True, **values}
    return RestartPool(RestartPoolConfiguration(key=list(key), **values), machine=machine)


def filled_pool(buckets: int = 3, points: int = 4, **options: Any) -> RestartPool:
    """A pool whose point 10 * level + n is the n-th of its bucket."""
    pool = make_pool(**options)
    for number in range(points):
        for level in reversed(range(buckets)):
            offer(pool, 10 * level + number, level)
    return pool


@contextmanager
def warned(*parts: str) -> Iterator[None]:
    """One `CheckpointWarning` with all parts in its text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert [warning.category for warning in caught] == [CheckpointWarning]
    for part in parts:
        assert part in str(caught[0].message), f"{part!r} is not in: {caught[0].message}"
    assert caught[0].filename == __file__  # it points at the call


def contents(pool: RestartPool) -> dict[tuple[int, ...], list[int]]:
    return {key: numbers_held(pool, *key) for key in pool.buckets()}


def numbers_in(path: Path) -> list[int]:
    """The points of a file, in its order, read without the pool."""
    found = []
    with RecordReader(path) as reader:
        for _, record in reader:
            snapshot, stack, about = members_of(record).values()
            number = int(bytes(snapshot).removeprefix(b"state "))
            assert np.load(io.BytesIO(bytes(stack))).tolist() == stack_of(number).tolist()
            assert json.loads(bytes(about))["values"]["level"] == number // 10
            found.append(number)
    return found


# There and back


def test_every_point_comes_back_in_its_order(tmp_path: Path) -> None:
    pool, other = filled_pool(), make_pool()
    pool.save(tmp_path / "points")
    assert other.load(tmp_path / "points") == 12
    assert contents(other) == contents(pool)
    other.check()


def test_values_steps_used_and_bytes_come_back(tmp_path: Path) -> None:
    pool, other = make_pool(), make_pool()
    stack = np.arange(12, dtype=np.float32).reshape(3, 4)
    pool.offer(bytes(range(256)), stack, {"level": -1, "sc\u00f6re": 2**63 - 1}, steps_used=55)
    pool.save(tmp_path / "points")
    other.load(tmp_path / "points")
    restart = other.draw(0)
    assert restart is not None
    assert restart.snapshot == bytes(range(256))
    assert restart.frame_stack.tobytes() == stack.tobytes()
    assert (restart.frame_stack.dtype, restart.frame_stack.shape) == (np.float32, (3, 4))
    assert restart.values == {"level": -1, "sc\u00f6re": 2**63 - 1}
    assert (restart.key, restart.steps_used) == ((-1,), 55)


stacks = arrays(
    st.sampled_from(["u1", "<f4", ">i2", "?", "<f2", "<u8"]),
    array_shapes(min_dims=1, max_dims=5, min_side=1, max_side=4),
)
markers = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    st.integers(-(2**63), 2**63 - 1),
    min_size=1,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(snapshot=st.binary(), stack=stacks, values=markers, steps_used=st.integers(0, 2**63 - 1))
def test_any_point_comes_back_byte_for_byte(
    snapshot: bytes, stack: np.ndarray, values: dict[str, int], steps_used: int, tmp_path: Path
) -> None:
    pool, other = make_pool(tuple(values)), make_pool(tuple(values))
    assert pool.offer(snapshot, stack, values, steps_used=steps_used)
    pool.save(tmp_path / "points")
    assert other.load(tmp_path / "points") == 1
    for restart in (pool.draw(0), other.draw(0)):
        assert restart is not None
        assert restart.snapshot == snapshot
        assert restart.frame_stack.tobytes() == stack.tobytes()
        assert (restart.frame_stack.dtype, restart.frame_stack.shape) == (stack.dtype, stack.shape)
        assert (restart.values, restart.key) == (values, tuple(values.values()))
        assert restart.steps_used == steps_used


def test_a_file_has_its_buckets_in_order_and_the_oldest_points_first(tmp_path: Path) -> None:
    filled_pool().save(tmp_path / "points")
    assert numbers_in(tmp_path / "points") == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]


def test_the_header_says_what_the_points_are(tmp_path: Path) -> None:
    pool = filled_pool(machine="nes 1, girder")
    pool.draw(0)
    pool.save(tmp_path / "points")
    with RecordReader(tmp_path / "points") as reader:
        header = reader.header
    expected = {
        "format": "cpreplay-checkpoint", "version": 1, "kind": "restart-points", "key": ["level"],
        "machine": "nes 1, girder", "stack_shape": [2, 3], "stack_dtype": "|u1", "draws": 1,
        "points": 12, "buckets": 3,
    }  # fmt: skip
    assert {name: header[name] for name in expected} == expected
    assert header["library"].startswith("cpreplay ")


@pytest.mark.skipif(
    not (shutil.which("zstd") and shutil.which("tar")), reason="needs the tools zstd and tar"
)
def test_ordinary_tools_unpack_a_file(tmp_path: Path) -> None:
    filled_pool(buckets=1, points=2).save(tmp_path / "saved")
    subprocess.run("zstd -dc < saved | tar -xf -", shell=True, cwd=tmp_path, check=True)
    suffixes = (".json", ".snapshot", ".stack.npy")
    names = [f"{number:012d}{suffix}" for number in (0, 1) for suffix in suffixes]
    assert sorted(path.name for path in (tmp_path / "points").iterdir()) == names
    for number in (0, 1):
        stem = tmp_path / "points" / f"{number:012d}"
        assert stem.with_suffix(".snapshot").read_bytes() == b"state %d" % number
        assert np.load(f"{stem}.stack.npy").tolist() == stack_of(number).tolist()
        about = {"values": {"level": 0}, "steps_used": 0}
        assert json.loads(stem.with_suffix(".json").read_text()) == about


def test_a_file_of_version_1_is_read_for_ever() -> None:
    """Written by release 0.1.0; what is in it is told here, and must not be written anew."""
    pool = make_pool(("level", "x / 32"), machine="girder, cynes 0.1.2")
    assert pool.load(Path(__file__).parent / "checkpoint_files" / "points" / "v1.tar.zst") == 6
    assert pool.buckets() == {(1, -3): 3, (2, -3): 3}
    assert pool.stats()["draws"] == 5
    for draw in range(5, 60):
        restart = pool.draw(0)
        assert restart is not None
        _, which, where = restart_numbers(7, draw)
        number = int(which * 2) + 2 * int(where * 3)  # even ones at level 1, odd ones at level 2
        assert restart.snapshot == b"state %d" % number + bytes(range(256))
        stack = [[[100 * number + 12 * i + 4 * j + k for k in range(4)] for j in range(3)]
                 for i in range(2)]  # fmt: skip
        assert restart.frame_stack.tolist() == stack
        assert restart.frame_stack.dtype == np.dtype("<u2")
        assert restart.values == {"level": number % 2 + 1, "x / 32": -3, "lives": number}
        assert restart.steps_used == 10 * number


def test_an_empty_pool_is_saved_and_loaded(tmp_path: Path) -> None:
    make_pool().save(tmp_path / "points")
    pool = filled_pool()
    assert pool.load(tmp_path / "points") == 0
    assert len(pool) == 0
    assert offer(pool, 1, 1)


def test_points_that_were_loaded_are_saved_again_beside_new_ones(tmp_path: Path) -> None:
    first, second = filled_pool(), filled_pool(buckets=1, points=2)
    first.save(tmp_path / "points")
    for pool in (second, make_pool()):
        pool.load(tmp_path / "points")
        for number in range(4, 9):
            offer(pool, number, 0)
            pool.save(tmp_path / "again")
            first_bucket = [point for point in numbers_in(tmp_path / "again") if point < 10]
            assert first_bucket == list(range(number + 1))[-8:]
            names = names_in(tmp_path / "again")
            assert len(set(names)) == len(names)


def names_in(path: Path) -> list[str]:
    with RecordReader(path) as reader:
        return [name for _, record in reader for name in members_of(record)]


# What starts anew, and what goes on


def test_windows_and_timeouts_start_anew(tmp_path: Path) -> None:
    pool = make_pool(max_timeouts_per_point=2, selection="failure_rate")
    offer(pool, 1, 0)
    restart = pool.draw(0)
    assert restart is not None
    pool.reached(restart, {"level": 1})
    pool.finish(restart, timed_out=True)
    pool.save(tmp_path / "points")
    for target in (pool, make_pool(max_timeouts_per_point=2, selection="failure_rate")):
        target.load(tmp_path / "points")
        bucket = target.stats()["buckets"][(0,)]
        assert (bucket["advance_rate"], bucket["weight"], bucket["timeouts"]) == (None, 1.0, 0)
        restart = target.draw(0)
        assert restart is not None
        target.finish(restart, timed_out=True)
        assert len(target) == 1  # its first time-out, not its second


def test_the_draws_go_on_where_they_were(tmp_path: Path) -> None:
    def draws(pool: RestartPool, count: int) -> list[int | None]:
        restarts = [pool.draw(0) for _ in range(count)]
        return [restart and number_of(restart) for restart in restarts]

    pool = filled_pool(probability=0.6)
    draws(pool, 37)
    pool.save(tmp_path / "points")
    resumed = make_pool(probability=0.6)
    resumed.load(tmp_path / "points")
    assert draws(resumed, 200) == draws(pool, 200)


@pytest.mark.parametrize("own", [0, 3, 9])
def test_the_number_of_the_next_draw_never_goes_back(own: int, tmp_path: Path) -> None:
    pool, other = filled_pool(), make_pool()
    for _ in range(5):
        pool.draw(0)
    for _ in range(own):
        other.draw(0)
    pool.save(tmp_path / "points")
    other.load(tmp_path / "points")
    assert other.stats()["draws"] == max(own, 5)


def test_a_restart_drawn_before_a_restore_reports_late(tmp_path: Path) -> None:
    pool = filled_pool(buckets=2, max_timeouts_per_point=1)
    pool.save(tmp_path / "points")
    offer(pool, 90, 9)
    restarts: dict[tuple[int, ...], Restart] = {}
    while len(restarts) < 3:
        restart = pool.draw(0)
        assert restart is not None
        if restart.key in restarts:
            pool.abandon(restart)
        restarts.setdefault(restart.key, restart)
    pool.load(tmp_path / "points")
    for restart in restarts.values():
        pool.reached(restart, {"level": 10})
        pool.finish(restart, timed_out=True)
        pool.check()
    assert contents(pool) == {(0,): [0, 1, 2, 3], (1,): [10, 11, 12, 13]}
    for key in restarts:  # also that of the bucket which is gone
        bucket = pool.stats()["buckets"][key]
        assert (bucket["late_reports"], bucket["advance_rate"]) == (1, 1.0)


def test_serials_are_new_after_a_load(tmp_path: Path) -> None:
    pool = filled_pool()
    pool.save(tmp_path / "points")
    seen: set[int] = set()
    for _ in range(3):
        serials = set(pool._contents.live)
        assert not serials & seen
        seen |= serials
        pool.load(tmp_path / "points")


def test_an_offer_that_a_load_overtakes_is_replaced_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, filed = make_pool(), filled_pool()
    filed.save(tmp_path / "points")
    encode = cpreplay.restart.pool.encode_point

    def encode_while_loading(*arguments: Any) -> Any:
        pool.load(tmp_path / "points")
        return encode(*arguments)

    monkeypatch.setattr(cpreplay.restart.pool, "encode_point", encode_while_loading)
    assert pool.offer(b"state 9", stack_of(9), {"level": 0}) is False  # it is not in the pool
    assert contents(pool) == contents(filed)
    pool.check()
    pool.save(tmp_path / "again")
    assert len(set(names_in(tmp_path / "again"))) == 36


# A run's checkpoints


def test_nothing_is_saved_or_restored_unless_the_configuration_says_so(tmp_path: Path) -> None:
    off = filled_pool(save_in_checkpoints=False)
    assert off.save_in_checkpoint(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    assert filled_pool().save_in_checkpoint(tmp_path) == tmp_path / NAME
    assert off.restore_from_checkpoint(tmp_path) == 0
    assert len(off) == 12
    off.save(tmp_path / "own")  # which is nobody's hook
    assert make_pool().load(tmp_path / "own") == 12


@pytest.mark.parametrize(
    ("newest", "saved"), [(2, [5, 6]), (1, [6]), (9, list(range(7))), (0, list(range(7)))]
)
def test_the_newest_points_of_each_bucket_are_saved_in_order(
    newest: int, saved: list[int], tmp_path: Path
) -> None:
    pool = filled_pool(buckets=2, points=7, checkpoint_points_per_key=newest)
    path = pool.save_in_checkpoint(str(tmp_path))
    assert path is not None
    assert numbers_in(path) == [*saved, *(10 + number for number in saved)]
    pool.save(tmp_path / "all")
    assert len(numbers_in(tmp_path / "all")) == 14


def test_a_checkpoint_may_be_written_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = filled_pool(buckets=2, points=7, checkpoint_points_per_key=2)
    go_on = threading.Event()
    write = cpreplay.restart.pool_files.write_points

    def write_later(*arguments: Any) -> Path:
        assert go_on.wait(60)
        return write(*arguments)

    monkeypatch.setattr(cpreplay.restart.pool_files, "write_points", write_later)
    future = pool.save_in_checkpoint(str(tmp_path), background=True)
    offer(pool, 7, 0)
    assert not future.done()
    go_on.set()
    assert future.result(timeout=60) == tmp_path / NAME
    assert numbers_in(tmp_path / NAME) == [5, 6, 15, 16]  # of the moment of the call


def test_a_checkpoint_in_the_background_is_done_where_there_is_nothing_to_do(
    tmp_path: Path,
) -> None:
    future = filled_pool(save_in_checkpoints=False).save_in_checkpoint(tmp_path, background=True)
    assert future.done() and future.result() is None
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_in_the_background_tells_what_went_wrong(tmp_path: Path) -> None:
    future = filled_pool().save_in_checkpoint(tmp_path / "nowhere", background=True)
    with pytest.raises(FileNotFoundError, match=r"folder to save into is not there.*nowhere'"):
        future.result(timeout=60)


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    pool, resumed = filled_pool(), make_pool()
    pool.save_in_checkpoint(tmp_path)
    assert resumed.restore_from_checkpoint(str(tmp_path)) == 12
    assert contents(resumed) == contents(pool)


@pytest.mark.parametrize("folder", [".", "not/there", "file"])
def test_a_checkpoint_without_points_is_no_reason_to_warn(folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    pool = filled_pool()
    assert pool.restore_from_checkpoint(tmp_path / folder) == 0
    assert len(pool) == 12


def test_a_file_that_is_not_there_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_pool().load(tmp_path / "points")


def test_a_file_that_cannot_be_read_does_not_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled_pool().save_in_checkpoint(tmp_path)

    def fail(*arguments: Any) -> Any:
        raise PermissionError(13, "no right to it")

    monkeypatch.setattr(cpreplay.restart.pool_files, "read_points", fail)
    pool = filled_pool(buckets=1)
    with warned(NAME, "no right to it"):
        assert pool.restore_from_checkpoint(tmp_path) == 0
    assert len(pool) == 4
    with pytest.raises(PermissionError):
        pool.load(tmp_path / NAME)


def test_a_folder_in_the_place_of_the_file_does_not_stop_a_run(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with warned(NAME):
        assert make_pool().restore_from_checkpoint(tmp_path) == 0


# What does not fit


@pytest.mark.parametrize(
    ("filed", "live"),
    [
        (("level", "x"), ("x", "level")),
        (("level",), ("level", "x")),
        (("level", "x"), ("level",)),
        (("level",), ("Level",)),
        (("level",), ("level ",)),
        (("x / 128",), ("x/128",)),
        (("\u00e9",), ("e\u0301",)),
    ],
)
def test_other_key_labels_are_skipped_with_a_warning_that_shows_both_lists(
    filed: tuple[str, ...], live: tuple[str, ...], tmp_path: Path
) -> None:
    pool, other = make_pool(filed), make_pool(live)
    offer(pool, 1, *range(len(filed)))
    offer(other, 2, *range(len(live)))
    pool.save_in_checkpoint(tmp_path)
    before = other.stats()
    for load, place in ((other.restore_from_checkpoint, tmp_path), (other.load, tmp_path / NAME)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert load(place) == 0
        (warning,) = caught
        assert warning.category is CheckpointWarning
        for labels in (filed, live):
            assert ascii(list(labels)) in str(warning.message)
    assert other.stats() == before


@pytest.mark.parametrize(
    ("filed", "live", "taken"),
    [
        ("a", "a", 12), (None, None, 12), ("a", None, 12),
        ("a", "b", 0), (None, "b", 0), ("a", "a ", 0),
    ],
)  # fmt: skip
def test_the_points_of_another_machine_are_skipped(
    filed: str | None, live: str | None, taken: int, tmp_path: Path
) -> None:
    filled_pool(machine=filed).save_in_checkpoint(tmp_path)
    pool = make_pool(machine=live)
    if taken:
        assert pool.restore_from_checkpoint(tmp_path) == taken
    else:
        with warned(ascii(filed), ascii(live), "machine"):
            assert pool.restore_from_checkpoint(tmp_path) == 0
        assert len(pool) == 0


def test_bounds_are_applied_to_what_is_restored(tmp_path: Path) -> None:
    filled_pool(buckets=5, points=2).save_in_checkpoint(tmp_path)
    pool = make_pool(minimum_values={"level": 1}, maximum_values={"level": 3})
    assert pool.restore_from_checkpoint(tmp_path) == 6
    assert pool.buckets() == {(1,): 2, (2,): 2, (3,): 2}
    assert pool.stats()["offers_refused"] == {"level < 1": 2, "level > 3": 2}
    pool.check()


def test_a_bound_on_a_label_that_filed_points_lack_is_said_to_be_the_reason(
    tmp_path: Path,
) -> None:
    filled_pool(buckets=1, points=3).save_in_checkpoint(tmp_path)
    pool = make_pool(minimum_values={"lives": 1})
    reason = "values have no 'lives', which the pool's key or bounds name; there is 'level'"
    with warned("3 cannot be taken; 0 are left", f"the first that cannot be taken: {reason}"):
        assert pool.restore_from_checkpoint(tmp_path) == 0


def test_in_a_smaller_ring_the_newest_win(tmp_path: Path) -> None:
    filled_pool(buckets=2, points=7).save_in_checkpoint(tmp_path)
    pool = make_pool(max_per_key=3)
    assert pool.restore_from_checkpoint(tmp_path) == 6
    assert contents(pool) == {(0,): [4, 5, 6], (1,): [14, 15, 16]}
    offer(pool, 7, 0)
    assert numbers_held(pool, 0) == [5, 6, 7]


OTHER_STACKS = [np.zeros((3, 2), np.uint8), np.zeros((2, 3), np.int8), np.zeros(6, np.uint8)]


@pytest.mark.parametrize("stack", OTHER_STACKS)
def test_points_of_another_stack_are_dropped_at_the_first_offer(
    stack: np.ndarray, tmp_path: Path
) -> None:
    filled_pool().save_in_checkpoint(tmp_path)
    pool = make_pool()
    pool.restore_from_checkpoint(tmp_path)
    before = pool.draw(0)
    with warned("12", "(2, 3)", str(stack.dtype), str(stack.shape)):
        assert pool.offer(b"new", stack, {"level": 0})
    assert pool.buckets() == {(0,): 1}
    assert pool.stats()["unfit_points"] == 12
    after = pool.draw(0)
    assert after is not None
    assert after.snapshot == b"new"
    assert before is not None
    pool.finish(before, timed_out=True)  # late
    pool.check()
    assert pool.offer(b"newer", stack, {"level": 0})  # without another warning
    with pytest.raises((ShapeError, TypeError)):
        offer(pool, 1, 0)


def test_an_offer_out_of_bounds_drops_no_points_of_another_stack(tmp_path: Path) -> None:
    filled_pool().save_in_checkpoint(tmp_path)
    pool = make_pool(maximum_values={"level": 5})
    pool.restore_from_checkpoint(tmp_path)
    assert pool.offer(b"", np.zeros((3, 2)), {"level": 6}) is False
    assert len(pool) == 12


def test_points_of_the_same_stack_stay_at_the_first_offer(tmp_path: Path) -> None:
    filled_pool().save_in_checkpoint(tmp_path)
    pool = make_pool()
    pool.restore_from_checkpoint(tmp_path)
    offer(pool, 99, 9)
    assert len(pool) == 13


@pytest.mark.parametrize("stack", OTHER_STACKS)
def test_points_of_another_stack_than_was_offered_are_not_taken(
    stack: np.ndarray, tmp_path: Path
) -> None:
    filled_pool().save_in_checkpoint(tmp_path)
    pool = make_pool()
    pool.offer(b"live", stack, {"level": 0})
    with warned("(2, 3)", str(stack.shape)):
        assert pool.restore_from_checkpoint(tmp_path) == 0
    assert len(pool) == 1


def test_a_stack_that_is_offered_while_a_file_is_read_settles_whether_the_file_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled_pool().save_in_checkpoint(tmp_path)
    pool = make_pool()
    read = cpreplay.restart.pool_files.read_points

    def read_while_offering(*arguments: Any) -> Any:
        filed = read(*arguments)
        pool.offer(b"live", np.zeros((3, 2)), {"level": 0})
        return filed

    monkeypatch.setattr(cpreplay.restart.pool_files, "read_points", read_while_offering)
    with warned("(2, 3)", "(3, 2)"):
        assert pool.restore_from_checkpoint(tmp_path) == 0
    assert pool.buckets() == {(0,): 1}
    pool.check()


def test_a_checkpoint_of_another_kind_is_skipped(tmp_path: Path) -> None:
    with written_records(tmp_path / NAME, {"kind": "replay"}) as writer:
        writer.write(member("rows", b"123"))
    with warned("'replay'", "restart-points"):
        assert filled_pool().restore_from_checkpoint(tmp_path) == 0


@pytest.mark.parametrize(
    "content", [b"", b"hello", bytes(5000), b"\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00"]
)
def test_a_file_of_another_program_is_skipped(content: bytes, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(content)
    pool = filled_pool()
    with warned(NAME, "no restart points were taken"):
        assert pool.restore_from_checkpoint(tmp_path) == 0
    assert len(pool) == 12


def test_a_later_version_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("cpreplay.checkpoint.container.VERSION", 2)
        filled_pool().save_in_checkpoint(tmp_path)
    pool = make_pool()
    with warned("version 2"):
        assert pool.restore_from_checkpoint(tmp_path) == 0


HEADER = {
    "kind": "restart-points", "key": ["level"], "machine": None, "stack_shape": [2, 3],
    "stack_dtype": "|u1", "draws": 0, "next_name": 5, "points": 1, "buckets": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": None}, {"key": []}, {"key": "level"}, {"key": [3]}, {"key": [""]},
        {"key": {"level": 1}}, {"machine": 3}, {"machine": ""}, {"machine": ["a"]},
        {"draws": -1}, {"draws": 2**64}, {"draws": 1.0}, {"draws": True}, {"draws": None},
        {"next_name": "5"}, {"points": 10**40}, {"buckets": []}, {"stack_shape": None},
        {"stack_dtype": None}, {"stack_shape": [2, -3]}, {"stack_shape": [2, 0]},
        {"stack_shape": []}, {"stack_shape": [2.0, 3]}, {"stack_shape": "23"},
        {"stack_shape": [1] * 65},
        {"stack_dtype": "|O"}, {"stack_dtype": "O8"}, {"stack_dtype": "<U4"},
        {"stack_dtype": "|u3"}, {"stack_dtype": "(99999999,)f8"}, {"stack_dtype": 3},
    ],
)  # fmt: skip
def test_a_header_that_no_pool_wrote_is_skipped(wrong: dict[str, Any], tmp_path: Path) -> None:
    with written_records(tmp_path / NAME, {**HEADER, **wrong}):
        pass
    pool = filled_pool()
    before = pool.stats()
    name = next(iter(wrong))
    said = "stack format" if name.startswith("stack") else name
    with warned(f"its header has no usable {said}: "):
        assert pool.restore_from_checkpoint(tmp_path) == 0
    assert pool.stats() == before


def record_of(number: int, **changed: Any) -> list[Any]:
    """The members of a point's record, some of them changed or left out."""
    name = changed.pop("name", f"points/{number:012d}")
    parts = {
        "snapshot": member(f"{name}.snapshot", b"state %d" % number),
        "stack": npy_member(f"{name}.stack.npy", changed.pop("array", stack_of(number))),
        "json": json_member(
            f"{name}.json",
            changed.pop("about", {"values": {"level": number // 10}, "steps_used": 0}),
        ),
    }
    parts |= changed
    return [buffer for part in parts.values() for buffer in part]


@pytest.mark.parametrize(
    "changed",
    [
        {"snapshot": []},
        {"stack": []},
        {"json": []},
        {"stack": member("points/000000000011.stack.npy", b"\x93NUMPY nonsense")},
        {"stack": npy_member("points/000000000012.stack.npy", stack_of(11))},
        {"json": member("points/000000000011.json", b"{")},
        {"json": member("points/000000000011.json", b'{"values": NaN}')},
        {"extra": member("points/000000000012.snapshot", b"two")},
        {"name": "points/11"},
        {"name": "points/9" + "0" * 30},
        {"array": np.zeros((2, 3), np.int8)},
        {"array": np.zeros((3, 2), np.uint8)},
        {"array": np.zeros((2, 3), "V1")},
        {"about": None},
        {"about": []},
        {"about": {"values": {"level": 1}}},
        {"about": {"values": {"level": 1}, "steps_used": -1}},
        {"about": {"values": {"level": 1}, "steps_used": True}},
        {"about": {"values": {"level": 1}, "steps_used": 2**64}},
        {"about": {"values": None, "steps_used": 0}},
        {"about": {"values": [["level", 1]], "steps_used": 0}},
        {"about": {"values": {"x": 1}, "steps_used": 0}},
        {"about": {"values": {"level": 1.0}, "steps_used": 0}},
        {"about": {"values": {"level": True}, "steps_used": 0}},
        {"about": {"values": {"level": 2**63}, "steps_used": 0}},
        {"about": {"values": {"level": "1"}, "steps_used": 0}},
    ],
)
def test_a_whole_record_that_is_no_point_is_left_out_and_counted(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    with written_records(tmp_path / NAME, {**HEADER, "points": 3}) as writer:
        writer.write(record_of(10))
        writer.write(record_of(11, **changed))
        writer.write(record_of(12))
    pool = make_pool()
    with warned("1 cannot be taken; 2 are left"):
        assert pool.restore_from_checkpoint(tmp_path) == 2
    assert contents(pool) == {(1,): [10, 12]}
    pool.check()


def test_a_point_that_is_there_twice_is_taken_once(tmp_path: Path) -> None:
    with written_records(tmp_path / NAME, {**HEADER, "points": 2}) as writer:
        writer.write(record_of(10))
        writer.write(record_of(10))
    pool = make_pool()
    with warned("1 cannot be taken"):
        assert pool.restore_from_checkpoint(tmp_path) == 1


def test_members_of_later_versions_are_stepped_over(tmp_path: Path) -> None:
    with written_records(tmp_path / NAME, {**HEADER, "later": 1}) as writer:
        thumbnail = member("points/000000000010.thumbnail", b"png")
        writer.write(record_of(10, extra=[*thumbnail, *member("later/about.json", b"{}")]))
        writer.write(member("routes/000000000010.json", b"{}"))
    assert make_pool().restore_from_checkpoint(tmp_path) == 1


def test_names_go_on_behind_those_of_the_whole_run(tmp_path: Path) -> None:
    with written_records(tmp_path / NAME, {**HEADER, "next_name": 500}) as writer:
        writer.write(record_of(10))  # points 11 to 499 have gone from the pool
    pool = make_pool()
    pool.restore_from_checkpoint(tmp_path)
    offer(pool, 11, 1)
    pool.save(tmp_path / "again")
    assert [name[7:19] for name in names_in(tmp_path / "again")][::3] == [
        f"{10:012d}",
        f"{500:012d}",
    ]


@pytest.mark.parametrize("number", [10**15, 10**18 - 1])
def test_a_number_that_no_run_has_come_to_is_not_taken_for_a_name(
    number: int, tmp_path: Path
) -> None:
    with written_records(tmp_path / NAME, {**HEADER, "points": 2}) as writer:
        writer.write(record_of(10))
        writer.write(record_of(11, name=f"points/{number}"))
    pool = make_pool()
    with warned("1 cannot be taken"):
        assert pool.restore_from_checkpoint(tmp_path) == 1
    with written_records(tmp_path / NAME, {**HEADER, "next_name": number}) as writer:
        writer.write(record_of(10))
    with warned("next_name"):
        assert pool.restore_from_checkpoint(tmp_path) == 0


@pytest.mark.parametrize("counts", [{"next_name": 10**15 - 1}, {"draws": 10**15 - 1}])
def test_a_pool_goes_on_from_the_largest_numbers_that_are_taken(
    counts: dict[str, int], tmp_path: Path
) -> None:
    with written_records(tmp_path / NAME, {**HEADER, **counts}) as writer:
        writer.write(record_of(10))
    pool = make_pool()
    assert pool.restore_from_checkpoint(tmp_path) == 1
    for number in range(11, 19):
        offer(pool, number, 1)
        restart = pool.draw(0)
        assert number_of(restart) >= 10
    pool.check()


def test_a_file_without_a_whole_point_changes_nothing(tmp_path: Path) -> None:
    with written_records(tmp_path / NAME, {**HEADER, "points": 2}) as writer:
        writer.write(record_of(10, array=np.zeros(6, np.uint8)))
        writer.write(record_of(11, stack=[]))
    pool = filled_pool()
    before = pool.stats()
    with warned("no restart points were taken", "2 cannot be taken"):
        assert pool.restore_from_checkpoint(tmp_path) == 0
    assert pool.stats() == before


def test_a_name_that_a_file_should_not_have_yet_is_not_given_again(tmp_path: Path) -> None:
    with written_records(tmp_path / NAME, HEADER) as writer:  # its next name is said to be 5
        writer.write(record_of(10))
    pool = make_pool()
    pool.restore_from_checkpoint(tmp_path)
    for number in range(11, 18):
        offer(pool, number, 1)
    pool.save(tmp_path / "again")
    assert len(set(names_in(tmp_path / "again"))) == 24


# Damage


def load_damaged(path: Path, original: dict[tuple[int, ...], list[int]], held: int) -> int:
    """Load a file; what is taken has to be whole points, and what is lost to be told."""
    pool = make_pool()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        taken = pool.load(path)
    assert taken == len(pool)
    pool.check()
    for key, numbers in contents(pool).items():
        assert [number for number in original[key] if number in numbers] == numbers
    for _ in range(4):
        restart = pool.draw(0)
        assert (restart is None) == (taken == 0)
        if restart is not None:
            assert number_of(restart) // 10 == restart.key[0]
    assert all(warning.category is CheckpointWarning for warning in caught)
    assert len(caught) <= 1
    if taken < held:
        (warning,) = caught
        message = str(warning.message)
        lost = f"of {held} restart points {held - taken} are damaged or missing"
        assert lost in message or (taken == 0 and "no restart points were taken" in message)
    return taken


def test_a_flipped_bit_costs_at_most_one_point(tmp_path: Path) -> None:
    pool = filled_pool(buckets=2, points=3)
    pool.save(tmp_path / "points")
    whole = (tmp_path / "points").read_bytes()
    original = contents(pool)
    places = np.random.default_rng(5).integers(0, 8 * len(whole), 400).tolist()
    lost = 0
    for place in places:
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        (tmp_path / "damaged").write_bytes(damaged)
        taken = load_damaged(tmp_path / "damaged", original, 6)
        assert taken >= 5
        lost += taken < 6
    assert lost > 100  # most bytes are points


def test_a_cut_costs_the_points_behind_it(tmp_path: Path) -> None:
    pool = filled_pool(buckets=2, points=3)
    pool.save(tmp_path / "points")
    whole = (tmp_path / "points").read_bytes()
    original = contents(pool)
    taken = []
    for length in range(0, len(whole), 7):
        (tmp_path / "damaged").write_bytes(whole[:length])
        taken.append(load_damaged(tmp_path / "damaged", original, 6))
    assert taken == sorted(taken)
    assert set(taken) == set(range(7))


def test_bytes_that_are_overwritten_or_inserted_never_make_a_point(tmp_path: Path) -> None:
    pool = filled_pool(buckets=2, points=3)
    pool.save(tmp_path / "points")
    whole = (tmp_path / "points").read_bytes()
    random = np.random.default_rng(6)
    for _ in range(150):
        start, length = random.integers(0, len(whole)), random.integers(1, 400)
        behind = start if random.random() < 0.3 else start + length
        (tmp_path / "damaged").write_bytes(whole[:start] + random.bytes(length) + whole[behind:])
        load_damaged(tmp_path / "damaged", contents(pool), 6)


# While it is written


def test_the_file_has_one_moment_however_play_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = filled_pool(max_per_key=4)
    moment = [number for numbers in contents(pool).values() for number in numbers]
    write = RecordWriter.write_encoded
    number = 4

    def write_while_playing(self: RecordWriter, *arguments: Any) -> None:
        nonlocal number
        assert not pool._lock.locked()
        offer(pool, number, 0)
        offer(pool, 10 + number, 1)
        restart = pool.draw(0)
        assert restart is not None
        pool.finish(restart, timed_out=True)
        number += 1
        write(self, *arguments)

    monkeypatch.setattr(RecordWriter, "write_encoded", write_while_playing)
    pool.save(tmp_path / "points")
    assert number > 12
    assert numbers_in(tmp_path / "points") == moment
    pool.check()


def test_the_lock_is_free_while_a_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled_pool().save(tmp_path / "points")
    pool = make_pool()
    decode = cpreplay.restart.files.decode_point

    def decode_unlocked(record: Any) -> Any:
        assert not pool._lock.locked()
        return decode(record)

    monkeypatch.setattr(cpreplay.restart.files, "decode_point", decode_unlocked)
    assert pool.load(tmp_path / "points") == 12


def test_a_save_that_fails_leaves_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = filled_pool()
    path = pool.save_in_checkpoint(tmp_path)
    assert path is not None
    before = path.read_bytes()
    calls = 0

    def fail(self: RecordWriter, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise OSError(28, "the disk is full")

    monkeypatch.setattr(RecordWriter, "write_encoded", fail)
    for save in (lambda: pool.save_in_checkpoint(tmp_path), lambda: pool.save(path)):
        calls = 0
        with pytest.raises(OSError, match="the disk is full"):
            save()
        assert path.read_bytes() == before
    calls = 0
    with pytest.raises(OSError, match="the disk is full"):
        pool.save_in_background(path).result(timeout=60)
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


def test_saves_in_the_background_have_the_moment_of_their_call_and_the_newest_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = filled_pool(buckets=1, points=1)
    started, go_on = threading.Event(), threading.Event()
    write = cpreplay.restart.pool_files.write_points

    def write_slowly(*arguments: Any) -> Path:
        started.set()
        assert go_on.wait(60)
        return write(*arguments)

    monkeypatch.setattr(cpreplay.restart.pool_files, "write_points", write_slowly)
    futures = []
    for number, name in enumerate(("first", "second", "third"), 1):
        futures.append(pool.save_in_background(tmp_path / name))
        assert started.wait(60)
        offer(pool, number, 0)
    assert futures[1].cancelled()  # what it would have written is older than the third
    go_on.set()
    assert futures[0].result(timeout=60) == tmp_path / "first"
    assert futures[2].result(timeout=60) == tmp_path / "third"
    assert numbers_in(tmp_path / "first") == [0]
    assert numbers_in(tmp_path / "third") == [0, 1, 2]
    assert not (tmp_path / "second").exists()


def test_an_older_copy_never_takes_the_place_of_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = filled_pool(buckets=1, points=1)
    copied, saving = pool._copy, pool._saving
    other: list[threading.Thread] = []
    arrived = threading.Event()

    class Noted:
        """The pool's lock of saves, which tells when the other thread comes to it."""

        def __enter__(self) -> None:
            if threading.current_thread() in other:
                arrived.set()
            saving.acquire()

        def __exit__(self, *_: Any) -> None:
            saving.release()

    monkeypatch.setattr(pool, "_saving", Noted())

    def copy_while_another_saves(newest: int) -> Any:
        copy = copied(newest)
        monkeypatch.setattr(pool, "_copy", copied)
        offer(pool, 1, 0)
        other.append(threading.Thread(target=pool.save_in_background, args=(tmp_path / "points",)))
        other[0].start()
        assert arrived.wait(20) and saving.locked()  # it waits for this save to be handed over
        return copy

    monkeypatch.setattr(pool, "_copy", copy_while_another_saves)
    blocked = threading.Event()
    write = cpreplay.restart.pool_files.write_points

    def write_later(*arguments: Any) -> None:
        assert blocked.wait(60)
        write(*arguments)

    monkeypatch.setattr(cpreplay.restart.pool_files, "write_points", write_later)
    first = pool.save_in_background(tmp_path / "points")
    other[0].join(60)
    last = pool.save_in_background(tmp_path / "last")
    blocked.set()
    first.result(timeout=60)
    last.result(timeout=60)
    assert numbers_in(tmp_path / "last") == [0, 1]
    assert numbers_in(tmp_path / "points") == [0]


def test_a_save_follows_play_that_does_not_stop(tmp_path: Path) -> None:
    pool = make_pool(max_per_key=16)
    for number in range(10):
        offer(pool, number, 0)
    stop = threading.Event()
    failures: list[BaseException] = []

    def play() -> None:
        numbers = itertools.cycle(range(10))
        try:
            while not stop.is_set():
                offer(pool, next(numbers), 0)
                restart = pool.draw(0)
                assert restart is not None
                number_of(restart)
                pool.finish(restart)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=play) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for save in range(20):
            path = tmp_path / f"{save}"
            pool.save_in_background(path).result(timeout=60)
            assert 10 <= len(numbers_in(path)) <= 16
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    pool.check()


def test_a_save_is_newer_than_the_one_in_the_background_before_it(tmp_path: Path) -> None:
    pool = RestartPool(RestartPoolConfiguration(key=["level"]))
    stack = np.zeros((1, 2), np.uint8)
    for number in range(200):  # something to write
        pool.offer(bytes(100_000), stack, {"level": number % 50})
    older = pool.save_in_background(tmp_path / "points.tar.zst")
    pool.offer(b"newest", stack, {"level": 99})
    pool.save(tmp_path / "points.tar.zst")
    assert older.done()
    again = RestartPool(RestartPoolConfiguration(key=["level"]))
    again.load(tmp_path / "points.tar.zst")
    assert again.buckets()[(99,)] == 1


def test_a_save_never_takes_the_place_of_a_later_one_that_it_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = filled_pool(buckets=1, points=1)
    write, drain = cpreplay.restart.pool_files.write_points, pool._saves.drain
    waits, go_on = threading.Event(), threading.Event()

    def write_later(*arguments: Any) -> Path:
        assert go_on.wait(60)
        return write(*arguments)

    def drain_noted() -> None:
        waits.set()
        drain()

    monkeypatch.setattr(cpreplay.restart.pool_files, "write_points", write_later)
    monkeypatch.setattr(pool._saves, "drain", drain_noted)
    first = pool.save_in_background(tmp_path / "first")
    saver = threading.Thread(target=pool.save, args=(tmp_path / "points",))
    saver.start()
    assert waits.wait(60)
    offer(pool, 1, 0)
    later = pool.save_in_background(tmp_path / "points")
    go_on.set()
    first.result(timeout=60)
    later.result(timeout=60)
    saver.join(60)
    assert not saver.is_alive()
    assert numbers_in(tmp_path / "points") == [0, 1]
