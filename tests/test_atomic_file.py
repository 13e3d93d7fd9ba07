"""Files that are replaced as a whole: two writers at once, killed writers, and what they leave."""

import errno
import hashlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpreplay import RestartPool, RestartPoolConfiguration, StoreReplay, atomic_file
from cpreplay.atomic_file import replaced_file
from cpreplay.checkpoint.container import RecordReader
from cpreplay.checkpoint.members import members_of
from cpreplay.errors import ConfigurationError

fcntl = pytest.importorskip("fcntl", reason="locks of files are those of POSIX")

ROOT = Path(__file__).resolve().parents[1]
KILLS = int(os.environ.get("CPREPLAY_KILLS", "12"))


def save(path: Path, content: bytes = b"new") -> None:
    with replaced_file(path) as file:
        file.write(content)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def abandoned(folder: Path, name: str, token: str = "0123456789abcdef") -> Path:
    """What a killed writer of ``name`` leaves: named by its hash, and locked by nobody."""
    path = folder / f".{hashlib.sha256(name.encode()).hexdigest()[:12]}-{token}.part"
    path.write_bytes(b"half a fi")
    return path


@contextmanager
def program(code: str, *arguments: Any) -> Iterator[subprocess.Popen[str]]:
    """A Python process that can import the library, killed at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_a_folder_that_is_missing_is_the_one_that_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="folder to save into is not there") as caught:
        save(tmp_path / "no" / "folder" / "a")
    assert caught.value.filename == str(tmp_path / "no" / "folder")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="no folder") as other:
        save(tmp_path / "file" / "a")
    assert other.value.filename == str(tmp_path / "file")
    assert names(tmp_path) == ["file"]


# What a killed writer leaves


HALF = """
import sys
from cpreplay.atomic_file import replaced_file
with replaced_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("half", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_writer_left_goes_at_the_next_save(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save(path, b"old")
    with program(HALF, path) as writer:
        assert line_of(writer) == "half\n"
        assert len(names(tmp_path)) == 2
    assert len(names(tmp_path)) == 2 and path.read_bytes() == b"old"
    save(path)
    assert names(tmp_path) == ["a"] and path.read_bytes() == b"new"


def test_what_many_killed_writers_left_goes_at_once(tmp_path: Path) -> None:
    for token in ("0", "1", "any other token"):
        abandoned(tmp_path, "a", token)
    save(tmp_path / "a")
    assert names(tmp_path) == ["a"]


def test_the_file_of_a_live_process_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with program(HALF, path) as writer:
        assert line_of(writer) == "half\n"
        before = names(tmp_path)
        save(path)
        assert names(tmp_path) == [*before, "a"]


def test_the_file_of_a_live_writer_of_this_process_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with replaced_file(path) as file:
        file.write(b"slow")
        for _ in range(3):
            save(path, b"fast")
            assert path.read_bytes() == b"fast" and len(names(tmp_path)) == 2
    assert path.read_bytes() == b"slow" and names(tmp_path) == ["a"]


def test_files_of_others_stay(tmp_path: Path) -> None:
    other = abandoned(tmp_path, "b").name
    own = hashlib.sha256(b"a").hexdigest()[:12]
    for name in (f".{own}", f"{own}-0.part", f".{own}-0.partial", ".0.part", "a.part", ".a.part"):
        (tmp_path / name).touch()
    before = names(tmp_path)
    save(tmp_path / "a")
    assert names(tmp_path) == sorted([*before, "a"]) and other in before


def test_a_link_or_a_folder_of_such_a_name_is_left_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    link = abandoned(tmp_path, "a", "link")
    link.unlink()
    link.symlink_to(victim)
    folder = abandoned(tmp_path, "a", "folder")
    folder.unlink()
    folder.mkdir()
    save(tmp_path / "a")
    assert link.is_symlink() and folder.is_dir() and victim.read_bytes() == b"mine"


def test_a_pipe_of_such_a_name_is_not_waited_for(tmp_path: Path) -> None:
    pipe = abandoned(tmp_path, "a")
    pipe.unlink()
    os.mkfifo(pipe)
    save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_path_through_a_link_cleans_up_where_the_file_is(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to(real / "a")
    abandoned(real, "a")
    save(tmp_path / "link")
    assert names(real) == ["a"] and (real / "a").read_bytes() == b"new"


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ConfigurationError, match="leads to itself"):
        save(tmp_path / "a")
    assert names(tmp_path) == ["a", "b"]


def test_a_name_of_any_length_and_characters_has_room_for_its_new_file(tmp_path: Path) -> None:
    for name in ("n" * 255, "位" * 85, "a b\n*?[x]", os.fsdecode(b"\xff")):
        abandoned_before = abandoned(tmp_path, "unrelated")
        save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"new"
        (tmp_path / name).unlink()
        assert names(tmp_path) == [abandoned_before.name]


# Locks


def test_the_new_file_is_locked_until_it_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    replace = os.replace

    def locked(path: Path) -> bool:
        with open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def noted(source: Path, target: Path) -> None:
        seen.append(locked(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", noted)
    with replaced_file(tmp_path / "a"):
        (new,) = tmp_path.iterdir()
        seen.append(locked(new))
    assert seen == [True, True] and not locked(tmp_path / "a")


def test_a_file_that_is_taken_before_its_lock_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = atomic_file._lock
    taken = []

    def late(descriptor: int) -> bool | None:
        if len(taken) < 2:
            (path,) = tmp_path.iterdir()
            path.unlink()
            taken.append(path.name)
        return lock(descriptor)

    monkeypatch.setattr(atomic_file, "_lock", late)
    save(tmp_path / "a")
    assert len(set(taken)) == 2 and names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_file_that_another_writer_is_about_to_take_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = atomic_file._lock
    theirs = []

    def late(descriptor: int) -> bool | None:
        if not theirs:
            (path,) = tmp_path.iterdir()
            theirs.append(os.open(path, os.O_RDWR))
            assert lock(theirs[0])
        return lock(descriptor)

    monkeypatch.setattr(atomic_file, "_lock", late)
    with replaced_file(tmp_path / "a") as file:
        file.write(b"new")
        assert len(names(tmp_path)) == 2
    os.close(theirs[0])
    assert (tmp_path / "a").read_bytes() == b"new"
    save(tmp_path / "a")
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_where_files_have_no_locks_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(error, os.strerror(error))

    left = abandoned(tmp_path, "a")
    monkeypatch.setattr(fcntl, "flock", refuse)
    save(tmp_path / "a")
    assert names(tmp_path) == sorted([left.name, "a"])


def test_on_a_system_without_such_locks_the_file_is_closed_before_it_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = abandoned(tmp_path, "a")
    replace, closed = os.replace, []

    def noted(source: Path, target: Path) -> None:
        closed.append(file.closed)
        replace(source, target)

    monkeypatch.setattr(os, "replace", noted)
    monkeypatch.setattr(atomic_file, "fcntl", None)
    with replaced_file(tmp_path / "a") as file:
        file.write(b"new")
    assert closed == [True] and (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == sorted([left.name, "a"])


def test_a_file_that_cannot_be_removed_stops_no_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = abandoned(tmp_path, "a")
    unlink = Path.unlink

    def refuse(path: Path, **options: Any) -> None:
        if path == left:
            raise PermissionError(errno.EPERM, "not yours")
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", refuse)
    save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new" and left.exists()


def test_saves_leave_no_descriptor_open(tmp_path: Path) -> None:
    def free() -> int:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    before = free()
    for _ in range(3):
        abandoned(tmp_path, "a")
        save(tmp_path / "a")
        with pytest.raises(ConfigurationError):
            save(tmp_path)
        with pytest.raises(RuntimeError), replaced_file(tmp_path / "a"):
            raise RuntimeError
    assert free() == before


# Many writers at once

SAVES = """
import sys
from cpreplay.atomic_file import replaced_file
for number in range(int(sys.argv[3])):
    with replaced_file(sys.argv[1]) as file:
        for _ in range(20):
            file.write(f"{sys.argv[2]} {number}\\n".encode() * 300)
"""


def test_writers_in_threads_and_processes_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path, rounds = tmp_path / "a", 40
    faults: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            lines = path.read_bytes().splitlines()
            if len(lines) != 6000 or len(set(lines)) != 1:
                faults.append(f"{len(lines)} lines, {len(set(lines))} different")

    def write(own: int) -> None:
        try:
            for number in range(rounds):
                save(path, f"thread {own} {number}\n".encode() * 6000)
        except Exception as error:
            faults.append(repr(error))

    save(path, b"first\n" * 6000)
    threads = [threading.Thread(target=write, args=(own,)) for own in range(3)]
    reader = threading.Thread(target=look)
    with program(SAVES, path, "a", rounds) as one, program(SAVES, path, "b", rounds) as other:
        for thread in [reader, *threads]:
            thread.start()
        for thread in threads:
            thread.join()
        ends = [one.wait(60), other.wait(60)]
    stop.set()
    reader.join()
    assert (faults, ends) == ([], [0, 0])
    assert names(tmp_path) == ["a"]


# SIGKILL

# Saves for ever, in each of three ways. What is saved says which save it is of. With a number of
# pieces, the second save stops before it writes so many of them, says so, and waits.
ENDLESS = """
import itertools, random, sys
import numpy as np
from cpreplay import RestartPool, RestartPoolConfiguration, StoreReplay
from cpreplay.checkpoint.container import RecordWriter, written_records
from cpreplay.checkpoint.members import member

how, path, first, left = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
buffer = StoreReplay(4, (), 20_000, prioritized=True, seed=0)
pool = RestartPool(RestartPoolConfiguration(key=["bucket"], max_per_key=1, random_seed=0))

def save_records(number):
    filling = random.Random(number).randbytes(50_000)
    with written_records(path, {"kind": "test", "number": number}) as writer:
        for record in range(20):
            writer.write(member(f"{record}", b"%d" % number, b" ", filling))

def save_buffer(number):
    obs, rewards = np.full((20_000, 4), number), np.full(20_000, number)
    buffer.add_batch(obs, rewards % 2, rewards, obs, np.zeros(20_000, bool))
    buffer.save(path)

def save_pool(number):
    for bucket in range(20):
        stack = np.random.default_rng(number).integers(0, 256, (4, 84, 84), np.uint8)
        pool.offer(b"%d" % number, stack, {"bucket": bucket, "number": number})
    pool.save(path)

save = {"records": save_records, "buffer": save_buffer, "pool": save_pool}[how]
put = RecordWriter._put

def put_some(self, data):
    global left
    left -= 1
    if left == 0:
        self._file.flush()
        print("in the middle", flush=True)
        sys.stdin.read()
    put(self, data)

for number in itertools.count(first):
    save(number)
    if number == first:
        print("saved", flush=True)
        if left:
            RecordWriter._put = put_some
"""


def number_of_records(path: Path) -> int:
    """Which save a file is of, after looking at all of it."""
    with RecordReader(path) as reader:
        records = list(reader)
        assert reader.complete and reader.damaged == []
        number: int = reader.header["number"]
    assert [position for position, _ in records] == list(range(1, 21))
    filling = random.Random(number).randbytes(50_000)
    for position, record in records:
        (content,) = members_of(record).items()
        assert content == (f"{position - 1}", b"%d " % number + filling)
    return number


def number_of_buffer(path: Path) -> int:
    buffer = StoreReplay.load(path)
    buffer.check()
    number = int(buffer.column("reward")[0])
    assert len(buffer) == 20_000
    for name, value in (("reward", number), ("action", number % 2), ("next_obs", number)):
        assert (buffer.column(name) == value).all()
    return number


def number_of_pool(path: Path) -> int:
    configuration = RestartPoolConfiguration(key=["bucket"], probability=1.0, random_seed=0)
    pool = RestartPool(configuration)
    assert pool.load(path) == 20
    numbers = set()
    for _ in range(60):
        restart = pool.draw(0)
        assert restart is not None
        number = restart.values["number"]
        stack = np.random.default_rng(number).integers(0, 256, (4, 84, 84), np.uint8)
        np.testing.assert_array_equal(restart.frame_stack, stack)
        assert restart.snapshot == b"%d" % number
        numbers.add(number)
    (number,) = numbers
    return number


NUMBER_OF = {"records": number_of_records, "buffer": number_of_buffer, "pool": number_of_pool}
# Of one save: a header and the frames, headers and data of records, an index and a trailer.
PIECES = {"records": 1 + 2 * 22 + 2, "buffer": 1 + 2 * 5 + 2, "pool": 1 + 2 * 22 + 2}


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("how", NUMBER_OF)
def test_a_killed_save_leaves_the_old_checkpoint_or_the_new_one(how: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    chance = random.Random(0)
    first = 0
    for kill in range(KILLS if how == "records" else max(4, KILLS // 4)):
        pieces = chance.randint(1, PIECES[how]) if kill % 2 else 0
        with program(ENDLESS, how, path, first, pieces) as writer:
            assert line_of(writer) == "saved\n"
            if pieces:
                assert line_of(writer) == "in the middle\n"
            else:
                time.sleep(chance.uniform(0, 0.08))  # anywhere, also while it is put in place
            writer.kill()
            writer.wait()
        left = [name for name in names(tmp_path) if name != "a"]
        number = NUMBER_OF[how](path)
        if pieces:
            assert (len(left), number) == (1, first)
        assert len(left) <= 1 and number >= first  # what the writers before left is gone
        first = number + 1
    save(path)
    assert names(tmp_path) == ["a"]
