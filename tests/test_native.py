"""Compiled loops on the host: that plain calls go by them, and odd ones fare as without them."""

import gc
import mmap
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
from tests.golden import reference

pytestmark = pytest.mark.usefixtures("compiled_loops")

not_sanitized = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="a sanitizer's allocator keeps what is freed, and ends a process that is out of memory",
)


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


@pytest.mark.parametrize("rng", ["philox", "pcg64"])
def test_minibatches_of_several_chunks_have_the_rows_that_their_words_say(rng: str) -> None:
    buffer = StoreReplay(
        1, 1, 1000, prioritized=True, seed=5, rng="philox" if rng == "philox" else None
    )
    buffer.configure_per(1.0, 0.4, 0.0)
    column = np.arange(1000, dtype=np.float32)
    rows = column[:, None].copy()
    buffer.add_batch(rows, rows, column, rows, column % 3 == 0)
    words = reference.word_source(rng, 5)
    tree = reference.SumTree([1.0] * 1000)
    for batch_size in (1, 127, 128, 129, 300, 1000):
        batch = buffer.sample(batch_size)
        drawn = tree.draw(words.next_reals(batch_size))
        assert batch.indices.tolist() == drawn
        assert batch.obs[:, 0].tolist() == batch.reward.tolist() == drawn
        assert batch.terminated.tolist() == [row % 3 == 0 for row in drawn]
        assert batch.weights.tolist() == [1.0] * batch_size


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
    "np.True_": (np.True_, None),
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
            obs = np.ones(2, np.float32)  # so that it is up to the reward who does the call
            buffer.add(obs, obs[:1], reward, obs, False)
        except (ValueError, TypeError) as error:
            results.append((type(error), str(error), len(buffer)))
        else:
            results.append((None, buffer.column("reward").tobytes(), len(buffer)))
    assert results[0] == results[1]
    assert (says is None) == (results[0][0] is None)
    if says is not None:
        assert says in results[0][1]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_integers_are_stored_up_to_their_dtypes_limits_and_refused_beyond(
    kind: str, bits: int
) -> None:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind == "int" else (0, 2**bits - 1)
    buffer = StoreReplay(1, (), 100, action_dtype=f"{kind}{bits}")
    obs = np.zeros(1, np.float32)
    values = [low, high, low + 1, high - 1, high // 3]
    for value in values:
        buffer.add(obs, value, 0.0, obs, False)
        if value < 2**63:
            buffer.add(obs, np.int64(value), 0.0, obs, False)
    stored = buffer.column("action")[: len(buffer)].tolist()
    assert stored == [value for value in values for _ in range(1 + (value < 2**63))]
    refused: list[Any] = [low - 1, high + 1, 2**64 + 5, -(2**70), 2.5]
    if bits < 64:
        refused += [np.int64(low - 1), np.int64(high + 1)]
    for value in refused:
        with pytest.raises((ValueError, TypeError), match="action"):
            buffer.add(obs, value, 0.0, obs, False)
    assert len(buffer) == len(stored)


@pytest.mark.parametrize(
    "value", [True, False, np.True_, np.False_, np.array(True), np.array(2, "b").view(bool)]
)
def test_a_boolean_is_stored_as_0_or_1(value: Any) -> None:
    buffer = StoreReplay(1, 1, 4)
    obs = np.zeros(1, np.float32)
    buffer.add(obs, obs, 0.0, obs, value)
    assert buffer.column("terminated").view(np.uint8)[0] == int(bool(value))


@pytest.mark.parametrize("rows", [None, 1, 3])
def test_an_add_waits_for_who_holds_the_lock(rows: int | None) -> None:
    buffer = StoreReplay(1, 1, 4)
    obs = np.zeros((rows or 1, 1), np.float32)
    added = threading.Event()

    def act() -> None:
        if rows is None:
            buffer.add(obs[0], obs[0], 0.0, obs[0], False)
        else:
            buffer.add_batch(obs, obs, obs[:, 0], obs, np.zeros(rows, bool))
        added.set()

    with buffer._lock:
        thread = threading.Thread(target=act)
        thread.start()
        assert not added.wait(0.05)
        assert len(buffer) == 0
    thread.join()
    assert len(buffer) == (rows or 1)


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


def test_nothing_is_held_of_a_buffer_that_is_gone() -> None:
    types = [native.compiled().Ring, native.compiled().Block, native.compiled().Steps]
    gc.disable()
    try:
        counts = [sys.getrefcount(kind) for kind in types]
        buffer = StoreReplay(1, 1, 4)
        buffer.make_batch(2)
        NStepBuffer(2, (3,), (), 0.9)
        lock, snapshots, nothing = buffer._lock, buffer._snapshots, [0]
        del buffer
        assert sys.getrefcount(lock) == sys.getrefcount(snapshots) == sys.getrefcount(nothing)
        assert [sys.getrefcount(kind) for kind in types] == counts
    finally:
        gc.enable()


@pytest.mark.parametrize("nbytes", [64, 704, 100_032])
def test_a_minibatch_lies_within_its_memory_on_a_cache_line(nbytes: int) -> None:
    members = ((0, np.dtype("u1"), (64,)), (nbytes - 8, np.dtype("i8"), (1,)))
    block = native.compiled().Block(nbytes, members)
    kept: list[Any] = []
    for size in range(40):  # memory that begins elsewhere
        arrays = block.new()
        kept += [arrays, np.empty(size)]
        first, last = (array.ctypes.data for array in arrays)
        memory = arrays[0].base
        assert memory is arrays[1].base
        assert first % 64 == 0
        assert last == first + nbytes - 8
        assert memory.ctypes.data <= first
        assert last + 8 <= memory.ctypes.data + memory.nbytes


def test_a_minibatch_keeps_its_memory_and_dtypes_as_long_as_it_is_there() -> None:
    dtype = np.dtype([("a", "f4")])  # of nobody else
    others = sys.getrefcount(dtype)
    block = native.compiled().Block(64, ((0, dtype, (2,)), None))
    assert sys.getrefcount(dtype) == others + 1
    array, nothing = block.new()
    assert nothing is None
    assert sys.getrefcount(dtype) == others + 2
    memory = weakref.ref(array.base)
    del array
    assert memory() is None
    assert sys.getrefcount(dtype) == others + 1
    del block
    assert sys.getrefcount(dtype) == others


@pytest.mark.parametrize("value", [-1e-7, 1.0000001, float("nan"), float("inf")])
@pytest.mark.parametrize("place", [(0, 0), (0, 2), (2, 0), (2, 2)])
@pytest.mark.parametrize("name", ["obs", "next_obs"])
def test_a_value_without_a_code_is_refused_wherever_it_is(
    name: str, place: tuple[int, int], value: float
) -> None:
    buffer = StoreReplay(3, (), 4, obs_store_dtype="uint8")
    columns = {"obs": np.ones((3, 3), np.float32), "next_obs": np.zeros((3, 3), np.float32)}
    columns[name][place] = value
    zeros = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=f"^{name}"):
        buffer.add_batch(columns["obs"], zeros, zeros, columns["next_obs"], zeros > 0)
    assert len(buffer) == 0


def test_a_number_is_stored_as_a_code() -> None:
    buffer = StoreReplay((), (), 4, obs_store_dtype="uint8")
    for _ in range(5):  # around the ring
        buffer.add(0.6, 1.0, 2.0, 1.0, True)
    for name, stored in (("obs", 153), ("next_obs", 255), ("action", 1), ("reward", 2)):
        assert buffer.column(name).tolist() == [stored] * 4
    with pytest.raises(ValueError, match=r"^obs"):
        buffer.add(1.1, 1.0, 2.0, 1.0, True)


def test_a_row_of_floats_is_stored_as_codes_and_nothing_beside_it() -> None:
    buffer = StoreReplay(3, (), 4, obs_store_dtype="uint8")
    obs = np.array([0.0, 0.6, 1.0], np.float32)
    for number in range(6):  # around the ring
        buffer.add(obs, float(number), number, obs[::-1].copy(), True)
    assert buffer.column("obs").tolist() == [[0, 153, 255]] * 4
    assert buffer.column("next_obs").tolist() == [[255, 153, 0]] * 4
    assert buffer.column("action").tolist() == [4, 5, 2, 3]
    assert buffer.column("reward").tolist() == [4, 5, 2, 3]
    assert buffer.column("terminated").tolist() == [True] * 4


def test_a_ring_keeps_the_rows_it_works_on() -> None:
    buffer = StoreReplay(1, 1, 4)
    records, add = weakref.ref(buffer._ops._arrays[0]), buffer._ops.add_plain
    del buffer
    assert records() is not None
    row = np.ones(1, np.float32)
    assert add((row, row, 1.0, row, True))
    del add
    assert records() is None


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_rows_of_every_width_are_stored_and_gathered_whole(rows: int) -> None:
    rng = np.random.default_rng(rows)
    for width in range(1, 150):
        buffer = StoreReplay(width, (), rows, obs_dtype="int8", action_dtype="int8", seed=0)
        obs = rng.integers(-128, 128, (2, rows, width), np.int8)
        numbers = np.arange(rows, dtype=np.float32)
        buffer.add_batch(obs[0], obs[0, :, 0].copy(), numbers, obs[1], np.zeros(rows, bool))
        batch = buffer.sample(11)
        assert np.array_equal(batch.obs, obs[0, batch.indices])
        assert np.array_equal(batch.action, obs[0, batch.indices, 0])
        assert np.array_equal(batch.reward, batch.indices)
        assert np.array_equal(batch.next_obs, obs[1, batch.indices])
        buffer.add(obs[1, 0], 1, 7.0, obs[0, 0], True)
        assert np.array_equal(buffer.column("obs"), [*obs[1, :1], *obs[0, 1:]])
        assert np.array_equal(buffer.column("next_obs"), [*obs[0, :1], *obs[1, 1:]])


def test_pending_steps_are_free_as_soon_as_their_buffer_is() -> None:
    gc.disable()
    try:
        steps = NStepBuffer(2, (3,), (), 0.9)
        steps.append(np.ones(3, np.float32), 0.0, 1.0, np.ones(3, np.float32), False, False)
        pending = weakref.ref(steps._ops._pending["reward"])
        assert pending() is not None
        del steps
        assert pending() is None
    finally:
        gc.enable()


def same(array: Any) -> Any:
    return array


def apart(array: Any) -> Any:
    return np.repeat(array, 2, axis=0)[::2]


def swapped(array: Any) -> Any:
    return array.astype(array.dtype.newbyteorder())


def column_wise(array: Any) -> Any:
    return np.asfortranarray(array)


def of(dtype: str) -> Callable[[Any], Any]:
    return lambda array: array.astype(dtype)


ODD_UPDATES = {
    "plain": (same, same, same),
    "rows of int32": (of("int32"), same, same),
    "rows of float64": (of("float64"), same, same),
    "rows apart": (apart, same, same),
    "rows of another byte order": (swapped, same, same),
    "a list of rows": (list, same, same),
    "errors of int64": (same, of("int64"), same),
    "errors of float16": (same, of("float16"), same),
    "errors apart": (same, apart, same),
    "errors of another byte order": (same, swapped, same),
    "tokens of int64": (same, same, of("int64")),
    "tokens apart": (same, same, apart),
    "tokens of another byte order": (same, same, swapped),
    "tokens column by column": (same, same, column_wise),
}


@pytest.mark.parametrize("odd", ODD_UPDATES.values(), ids=ODD_UPDATES)
def test_odd_updates_are_read_or_refused_and_never_misread(odd: Any) -> None:
    odd_rows, odd_errors, odd_tokens = odd
    buffer = StoreReplay(1, 1, 8, prioritized=True, seed=0)
    buffer.configure_per(1.0, 0.4, 0.0)
    rows = np.zeros((8, 1), np.float32)
    buffer.add_batch(rows, rows, rows[:, 0].copy(), rows, np.zeros(8, bool))
    before = buffer.sample(64)
    buffer.add_batch(rows[:3], rows[:3], rows[:3, 0].copy(), rows[:3], np.zeros(3, bool))
    batch = buffer.sample(64)
    assert batch.indices.tolist() == before.indices.tolist() == [i // 8 for i in range(64)]
    batch._tokens[:12] = before._tokens[:12]
    errors = batch.indices + 2.0
    batch._tokens = odd_tokens(batch._tokens)
    batch.indices = odd_rows(batch.indices)
    try:
        buffer.update_priorities(batch, odd_errors(errors))
    except (ValueError, TypeError):
        assert odd is not ODD_UPDATES["plain"]
        assert buffer._ops.priorities.leaves(8).tolist() == [1.0] * 8
        return
    assert buffer._ops.priorities.leaves(8).tolist() == [1, 3, 4, 5, 6, 7, 8, 9]
    assert buffer.stats()["stale_updates"] == 12


@pytest.mark.parametrize(
    ("rows", "tokens", "errors"),
    [
        ((2, 1), (2, 2), (2, 1)),
        ((2,), (2, 2), (3,)),
        ((2,), (2, 2), (1,)),
        ((2,), (2, 2), (2, 1)),
        ((2,), (1, 2), (2,)),
        ((2,), (3, 2), (2,)),
        ((2,), (2, 1), (2,)),
        ((2,), (2, 3), (2,)),
        ((2,), (2,), (2,)),
        ((2,), (2, 2, 1), (2,)),
    ],
)
def test_updates_of_other_shapes_are_refused(rows: Any, tokens: Any, errors: Any) -> None:
    buffer = StoreReplay(1, 1, 8, prioritized=True, seed=0)
    row = np.zeros(1, np.float32)
    buffer.add(row, row, 0.0, row, False)
    batch = buffer.sample(2)
    batch.indices = np.zeros(rows, np.int64)
    batch._tokens = np.resize(batch._tokens, tokens)
    with pytest.raises(ValueError, match="shape"):
        buffer.update_priorities(batch, np.ones(errors))
    assert buffer.stats()["max_priority"] == 1.0


@pytest.mark.parametrize("lanes", [2, 7, 100, 512, 700])
def test_the_largest_priority_is_of_the_last_lane_of_a_row(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    column = np.zeros((1000, 1), np.float32)
    for span in (1000, lanes, 2) * 10:
        buffer = StoreReplay(1, 1, 1000, prioritized=True)
        buffer.add_batch(column, column, column[:, 0].copy(), column, np.zeros(1000, bool))
        rows, errors = rng.integers(0, span, lanes), 2.0 + rng.random(lanes)
        errors[: lanes // 3] += 1.0  # those that are overwritten, mostly
        for _ in range(2):
            buffer.update_priorities(rows, errors)
        written = dict(zip(rows.tolist(), errors.tolist(), strict=True))
        assert buffer.stats()["max_priority"] == max(written.values()) + 1e-6


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@not_sanitized
def test_what_updates_work_in_is_free_as_soon_as_the_buffer_is() -> None:
    rows, errors = np.zeros(300_000, np.int64), np.ones(300_000)  # which work in 11 MB
    held = []
    for _ in range(12):
        buffer = StoreReplay(1, 1, 10, prioritized=True)
        buffer.add(rows[:1].astype(np.float32), np.zeros(1, np.float32), 0.0, np.zeros(1), False)
        buffer.update_priorities(rows[:1], errors[:1])
        buffer.update_priorities(rows, errors)
        del buffer
        with open("/proc/self/statm", encoding="ascii") as file:
            held.append(int(file.read().split()[1]) * mmap.PAGESIZE)
    assert held[-1] - held[1] < 50e6


def test_a_ring_refuses_what_is_no_minibatch_of_its_own() -> None:
    ring = StoreReplay(1, 1, 4)._ops._ring
    for arguments in ((), (None,), (None, None), ((), None), ((None,) * 7, None), (1, 2, 3)):
        with pytest.raises(TypeError, match="wanted"):
            ring.sample(*arguments)
        with pytest.raises(TypeError, match="wanted"):
            ring.sample_range(*arguments)
    for arguments in ((None, None, 0, 1), ((), None, 0, 1)):
        with pytest.raises(TypeError, match="wanted"):
            ring.sample_range(*arguments)
    row = np.zeros(1, np.float32)
    whole: tuple[Any, ...] = (row, row, 0.0, row, False)
    for values in (whole[:1], whole[:4], (*whole, 0.0), list(whole), None):
        assert ring.add(values) is False
    assert ring.add(whole) is True
    rows = row[:, None]
    whole = (rows, rows, row, rows, np.zeros(1, bool))
    for values in (whole[:1], whole[:4], (*whole, row), list(whole), None):
        assert ring.add_batch(values) is False
    assert ring.add_batch(whole) is True


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


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and RLIMIT_AS")
@not_sanitized
def test_no_memory_for_an_update_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SHORT_OF_MEMORY], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["refused", "1.000001"], done.stderr
