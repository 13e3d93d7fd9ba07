"""Compiled loops on the host: that plain calls go by them, and odd ones fare as without them."""

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cpreplay import ConfigurationError, NStepBuffer, ShapeError, StoreReplay, native
from cpreplay.host_ops import HostOps
from cpreplay.native_ops import NativeOps

pytestmark = pytest.mark.usefixtures("compiled_loops")


def refuse_the_long_way(buffer: StoreReplay, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on only compiled code may store, draw or update."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("this call should have been compiled code's")

    for name in ("ingest", "ingest_row", "store", "store_row"):
        monkeypatch.setattr(buffer._ops, name, refuse)
    monkeypatch.setattr(HostOps, "sample", refuse)
    monkeypatch.setattr(HostOps, "sample_range", refuse)
    if buffer._ops.priorities is not None:
        monkeypatch.setattr(buffer._ops.priorities, "ingest", refuse)
        monkeypatch.setattr(buffer._ops.priorities, "draw", refuse)


PLAIN = {
    "float": 0.5,
    "np.float64": np.float64(0.5),
    "np.float32": np.float32(0.5),
    "int": 7,
    "np.int64": np.int64(7),
    "0-d array": np.array(0.5, np.float32),
}


@pytest.mark.parametrize("reward", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("terminated", [True, np.bool_(True)], ids=["bool", "np.bool_"])
def test_a_plain_transition_is_stored_by_compiled_code(
    reward: Any, terminated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = StoreReplay(3, (), 4, action_dtype="int64")
    refuse_the_long_way(buffer, monkeypatch)
    obs = np.array([1, 2, 3], np.float32)
    for _ in range(5):  # around the ring
        buffer.add(obs, 2, reward, obs + 1, terminated)
    assert len(buffer) == 4
    assert buffer.head == 1
    batch = buffer.sample(3)
    assert batch.obs.tolist() == [[1, 2, 3]] * 3
    assert batch.next_obs.tolist() == [[2, 3, 4]] * 3
    assert batch.reward.tolist() == [float(reward)] * 3
    assert batch.action.tolist() == [2] * 3
    assert batch.terminated.tolist() == [True] * 3


def test_plain_batches_draws_and_updates_are_compiled_codes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffer = StoreReplay(3, 1, 50, prioritized=True, seed=0)
    refuse_the_long_way(buffer, monkeypatch)
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    done = np.zeros(20, bool)
    for _ in range(3):
        buffer.add_batch(rows, rows[:, :1].copy(), rows[:, 0].copy(), rows, done)
    batch = buffer.sample(16)
    buffer.update_priorities(batch, batch.reward)
    buffer.update_priorities(batch, batch.reward.astype(np.float64))
    buffer.sample_range(4, 2, 9)
    assert buffer.stats()["max_priority"] == max(1.0, float(batch.reward.max()) + 1e-6)


# What compiled code must leave to NumPy's, which casts it, or refuses it in words.
ODD_REWARDS = {
    "NaN": (float("nan"), None),
    "infinity": (float("inf"), None),
    "too large": (1e39, "reward"),
    "an int that float32 has not": (2**24 + 1, "reward"),
    "a text": ("1", "reward"),
    "None": (None, "reward"),
    "a list": ([0.5], "reward"),
    "True": (True, None),
}


@pytest.mark.parametrize(("reward", "says"), ODD_REWARDS.values(), ids=ODD_REWARDS)
def test_odd_values_fare_as_without_compiled_code(
    reward: Any, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for choice in ("native", "numpy"):
        monkeypatch.setenv("CPREPLAY_HOST", choice)
        buffer = StoreReplay(2, 1, 4)
        try:
            buffer.add([1.0, 2.0], [0.0], reward, np.ones(2, np.float64), False)
        except (ValueError, TypeError) as error:
            results.append((type(error), str(error), len(buffer)))
        else:
            results.append((None, buffer.column("reward").tobytes(), len(buffer)))
    assert results[0] == results[1]
    assert (says is None) == (results[0][0] is None)
    if says is not None:
        assert says in results[0][1]


def test_an_add_waits_for_who_holds_the_lock() -> None:
    buffer = StoreReplay(1, 1, 4)
    obs = np.zeros(1, np.float32)
    added = threading.Event()

    def act() -> None:
        buffer.add(obs, obs, 0.0, obs, False)
        added.set()

    with buffer._lock:
        thread = threading.Thread(target=act)
        thread.start()
        assert not added.wait(0.05)
        assert len(buffer) == 0
    thread.join()
    assert len(buffer) == 1


def test_an_add_during_a_save_puts_its_chunk_aside(tmp_path: Any) -> None:
    buffer = StoreReplay(1, 1, 4)
    rows = np.ones((4, 1), np.float32)
    buffer.add_batch(rows, rows, rows[:, 0], rows, np.zeros(4, bool))
    _, snapshot = buffer._begin_save(None, apart=True)
    chunks = snapshot.chunks()  # makes the spares
    buffer.add(rows[0] * 9, rows[0], 9.0, rows[0], False)
    ((first, columns),) = [(first, dict(columns)) for first, columns in chunks]
    assert first == 0
    assert columns["reward"].tolist() == [1, 1, 1, 1]
    buffer._end_save(snapshot)
    assert buffer.column("reward").tolist() == [9, 1, 1, 1]


@pytest.mark.parametrize(
    ("choice", "kind"), [("native", NativeOps), ("numpy", HostOps), ("", NativeOps)]
)
def test_the_environment_decides(choice: str, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPREPLAY_HOST", choice)
    assert type(StoreReplay(1, 1, 2)._ops) is kind


def test_what_the_environment_cannot_ask_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPREPLAY_HOST", "fortran")
    with pytest.raises(ConfigurationError, match="'fortran' has to be numpy or native"):
        StoreReplay(1, 1, 2)
    monkeypatch.setattr(native, "MISSING", "no module named _native")
    monkeypatch.setenv("CPREPLAY_HOST", "native")
    with pytest.raises(
        ConfigurationError, match=r"no module named _native; install .* C\+\+ compiler"
    ):
        StoreReplay(1, 1, 2)
    monkeypatch.setenv("CPREPLAY_HOST", "")
    assert type(StoreReplay(1, 1, 2)._ops) is HostOps
    assert "NumPy" in native.described()


def test_what_host_buffers_work_by_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = "compiled, with AVX2" if native.compiled().has_wide() else "compiled"
    for choice, text in {
        "native": compiled, "": compiled, "numpy": "NumPy, as CPREPLAY_HOST says"
    }.items():  # fmt: skip
        monkeypatch.setenv("CPREPLAY_HOST", choice)
        assert native.described() == text
    monkeypatch.setenv("CPREPLAY_HOST", "")
    monkeypatch.setattr(native, "MISSING", "no module named _native")
    assert "no module named _native" in native.described()


def test_a_single_step_may_be_strided() -> None:
    steps = NStepBuffer(1, (3,), (), 0.9)
    both = np.arange(12, dtype=np.float32)
    out = steps.append(both[::4], 0.0, 1.0, both[1::4], False, False)
    assert (out.obs.tolist(), out.next_obs.tolist()) == ([[0, 4, 8]], [[1, 5, 9]])


def test_rows_are_free_as_soon_as_the_buffer_is() -> None:
    # Without waiting for a cyclic collection, which may come gigabytes later.
    gc.disable()
    try:
        buffer = StoreReplay(3, 1, 50, prioritized=True)
        rows = np.ones((9, 3), np.float32)
        buffer.add_batch(rows, rows[:, :1], rows[:, 0], rows, np.zeros(9, bool))
        buffer.update_priorities(buffer.sample(4), np.ones(4))
        records = weakref.ref(buffer._ops._arrays[0])
        assert records() is not None
        del buffer
        assert records() is None
    finally:
        gc.enable()


def test_steps_from_several_threads_come_out_whole() -> None:
    n_envs, n, steps, threads = 64, 8, 300, 4
    buffer = NStepBuffer(n, (2,), (), 0.9, n_envs=n_envs)
    obs = np.zeros((n_envs, 2), np.float32)
    ones, going = np.ones(n_envs, np.float32), np.zeros(n_envs, bool)
    windows = []

    def act(number: int) -> None:
        rng = np.random.default_rng(number)
        for _ in range(steps):
            ended = rng.random(n_envs) < 0.2  # closes as many windows as there are pending
            out = buffer.append(obs, ones, ones, obs, ended, going)
            windows.append(len(out.reward))
            assert set(out.terminated.tolist()) <= {True, False}

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        actors = [threading.Thread(target=act, args=(number,)) for number in range(threads)]
        for actor in actors:
            actor.start()
        for actor in actors:
            actor.join()
    finally:
        sys.setswitchinterval(interval)
    pending = int(buffer.pending.sum())
    assert sum(windows) + pending == threads * steps * n_envs  # each step begins one window


def test_a_step_is_not_written_into_windows_that_were_counted_before_another() -> None:
    buffer = NStepBuffer(3, (1,), (), 0.5, n_envs=2)
    obs, number, flag = np.zeros((2, 1), np.float32), np.ones(2, np.float32), np.zeros(2, bool)
    ops = buffer._ops
    columns = {"obs": obs, "action": number, "reward": number, "next_obs": obs,
               "terminated": ~flag, "truncated": flag}  # fmt: skip
    buffer.append(obs, number, number, obs, flag, flag)
    flags = (columns["terminated"], columns["truncated"], None)
    assert ops._steps.count(flags) == 4  # the pending step and this one, of both
    before = buffer.state()
    buffer.reset()
    step = tuple(columns[name] for name in ("obs", "action", "reward", "next_obs"))
    four = np.zeros(4, np.float32)
    rows, flags4 = np.zeros((4, 1), np.float32), np.ones((3, 4), bool)
    out = (rows, four, None, rows.copy(), four.copy(), four.copy(), *flags4)
    assert not ops._steps.append(flags, step, out)
    assert buffer.pending.tolist() == [0, 0]
    buffer.restore(before)
    assert ops._steps.append(flags, step, out)
    assert out[4].tolist() == [1.5, 1.0, 1.5, 1.0]


def read_only(array: Any) -> None:
    array.flags.writeable = False


def less_memory(array: Any) -> None:
    array.__setstate__((1, (1,), array.dtype, False, bytes(array.itemsize)))


def another_dtype(array: Any) -> None:
    array.dtype = np.uint8


def another_shape(array: Any) -> None:
    array.shape = (len(array) // 2, 2, *array.shape[1:])


@pytest.mark.parametrize(
    ("name", "change"),
    [(name, change) for name in ("obs", "reward", "indices", "weights", "_tokens")
     for change in (read_only, less_memory, another_shape)] + [("indices", another_dtype)],
)  # fmt: skip
@pytest.mark.parametrize("choice", ["native", "numpy"])
def test_out_whose_arrays_were_changed_is_refused_and_not_written_beyond(
    name: str, change: Callable[[Any], None], choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPREPLAY_HOST", choice)
    generator = np.random.default_rng(0)
    buffer = StoreReplay(1, 1, 8, prioritized=True, rng=generator)
    column = np.ones((8, 1), np.float32)
    buffer.add_batch(column, column, column[:, 0], column, np.zeros(8, bool))
    out = buffer.make_batch(16)
    change(getattr(out, name))
    lanes = len(out)  # 128 where indices are bytes now
    before = buffer.stats()["draws"], repr(generator.bit_generator.state)
    with pytest.raises(ShapeError, match="get it from make_batch"):
        buffer.sample(lanes, out=out)
    with pytest.raises(ShapeError, match="get it from make_batch"):
        buffer.sample_range(lanes, 0, 8, out=out)
    assert (buffer.stats()["draws"], repr(generator.bit_generator.state)) == before


class OneWord(np.random.Generator):
    """Gives one word whatever is asked for, which NumPy takes for all."""

    def integers(self, *_: Any, **__: Any) -> Any:
        return np.array([2**63], np.uint64)


def test_too_few_words_of_a_generator_are_not_read_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    column = np.arange(8, dtype=np.float32).reshape(8, 1)
    for choice in ("native", "numpy"):
        monkeypatch.setenv("CPREPLAY_HOST", choice)
        buffer = StoreReplay(1, 1, 8, rng=OneWord(np.random.MT19937(0)))
        buffer.add_batch(column, column, column[:, 0], column, np.zeros(8, bool))
        assert buffer.sample(5000).indices.tolist() == [4] * 5000  # the middle


def test_rows_of_the_buffers_own_column_are_moved_in_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    # Which is not advised, but has to come out the same.
    stored = []
    for choice in ("native", "numpy"):
        monkeypatch.setenv("CPREPLAY_HOST", choice)
        buffer = StoreReplay(128, (), 200)  # 512 bytes, an array of its own
        rows = np.arange(200 * 128, dtype=np.float32).reshape(200, 128)
        flags = np.zeros(200, bool)
        buffer.add_batch(rows[:110], rows[:110, 0], rows[:110, 0], rows[:110], flags[:110])
        own = buffer.column("obs")[5:105]
        buffer.add_batch(own, rows[:100, 0], rows[:100, 0], own, flags[:100])
        buffer.add_batch(
            buffer.column("obs")[10:110], rows[:100, 0], rows[:100, 0], own, flags[:100]
        )
        stored.append(buffer.column("obs").tobytes())
    assert stored[0] == stored[1]


_END_WITH_A_DRAW = """
import threading
import numpy as np
from cpreplay import StoreReplay

buffer = StoreReplay(100, 1, 1000)
rows = np.zeros((1000, 100), np.float32)
buffer.add_batch(rows, rows[:, :1], rows[:, 0], rows, np.zeros(1000, bool))
begun = threading.Event()

def draw():
    while True:
        buffer.sample(20_000)
        begun.set()

threading.Thread(target=draw, daemon=True).start()
begun.wait()
"""


def test_the_interpreter_ends_while_a_daemon_draws() -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", _END_WITH_A_DRAW], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


_SHORT_OF_MEMORY = """
import resource
import numpy as np
from cpreplay import StoreReplay

buffer = StoreReplay(1, 1, 10, prioritized=True)
row = np.zeros((10, 1), np.float32)
buffer.add_batch(row, row, row[:, 0], row, np.zeros(10, bool))
rows, errors = np.zeros(4_000_000, np.int64), np.ones(4_000_000)
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + 2**24, held + 2**24))
try:
    buffer.update_priorities(rows, errors)
except MemoryError:
    print("refused")
buffer.update_priorities(rows[:100], errors[:100])
print(buffer.stats()["max_priority"])
"""


@pytest.mark.skipif(
    sys.platform != "linux" or "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="needs /proc, and RLIMIT_AS, under which the address sanitizer has no room",
)
def test_no_memory_for_an_update_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SHORT_OF_MEMORY], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["refused", "1.000001"], done.stderr
