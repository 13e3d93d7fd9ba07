"""Saves beside each other, what they take of memory, and states that are refused."""

import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import CheckpointError, StoreReplay, StoreReplayGpu
from cpreplay.checkpoint import background
from tests.conftest import Backend
from tests.refusals import refused

MIB = 1024 * 1024


def filled(backend: Backend, rows: int = 6, capacity: int = 8) -> Any:
    buffer = backend.buffer(2, (), capacity, seed=1)
    add(buffer, range(rows))
    return buffer


def add(buffer: Any, numbers: range) -> None:
    for number in numbers:
        buffer.add([number, number], number, number, [number, number], False)


def rewards_in(path: Path) -> list[float]:
    buffer = StoreReplay.load(path, seed=0)
    return np.array(buffer.column("reward"))[: len(buffer)].tolist()


def test_a_save_is_newer_than_the_one_in_the_background_before_it(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, go_on = filled(backend), threading.Event()
    settle = background._settle

    def late(*arguments: Any) -> None:
        assert go_on.wait(60)
        settle(*arguments)

    monkeypatch.setattr(background, "_settle", late)
    older = buffer.save_in_background(tmp_path / "replay.tar.zst")
    add(buffer, range(6, 8))
    timer = threading.Timer(0.05, go_on.set)  # while the save below waits
    timer.start()
    buffer.save(tmp_path / "replay.tar.zst")
    assert older.done()
    timer.join()
    assert rewards_in(tmp_path / "replay.tar.zst") == list(range(8))


@pytest.mark.parametrize("cut", ["fewer rows", "no rows"])
def test_a_state_without_all_of_its_rows_changes_nothing(cut: str, backend: Backend) -> None:
    buffer, state = filled(backend, 4), filled(backend).state()
    kept = 5 if cut == "fewer rows" else 0
    state["rows"] = {name: values[:kept] for name, values in state["rows"].items()}
    with refused(backend, buffer, CheckpointError, "6 rows are held", f"have {kept} rows"):
        buffer.restore(state)


def test_a_save_that_was_given_up_writes_nothing(tmp_path: Path) -> None:
    buffer = StoreReplay(1, 1, 4)
    add_one = (np.ones((4, 1)), np.ones((4, 1)), np.ones(4), np.ones((4, 1)), np.zeros(4, bool))
    buffer.add_batch(*add_one)
    moment, snapshot = buffer._begin_save(None, apart=True)
    buffer._end_save(snapshot)
    with pytest.raises(CheckpointError, match="given up"):
        buffer._write(tmp_path / "replay.tar.zst", moment, snapshot)
    assert list(tmp_path.iterdir()) == []
    buffer.add_batch(*add_one)  # nobody waits for that save


def test_a_save_takes_less_than_64_mib_beside_a_buffer_of_any_size(tmp_path: Path) -> None:
    buffer = StoreReplay(1024, 1, 12_000, obs_dtype="float64")  # 188 MiB of rows
    rows = np.zeros((1000, 1024))
    for number in range(12):
        rows[:] = number
        buffer.add_batch(rows, rows[:, :1], rows[:, 0], rows, rows[:, 0] < 0)
    assert buffer.nbytes > 180 * MIB
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        buffer.save(tmp_path / "replay.tar.zst")
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert 4 * MIB < peak < 64 * MIB


def test_a_card_that_is_not_current_can_be_loaded_to(
    emulated_device: Backend, tmp_path: Path
) -> None:
    filled(emulated_device).save(tmp_path / "replay.tar.zst")
    with pytest.raises(cpreplay.ConfigurationError, match="device=7"):
        StoreReplayGpu.load(tmp_path / "replay.tar.zst", device=7)
    count = emulated_device.cupy.cuda.runtime.getDeviceCount()
    last = StoreReplayGpu.load(tmp_path / "replay.tar.zst", device=count - 1)
    with emulated_device.cupy.cuda.Device(count - 1):
        assert len(last) == 6
        last.check()
    assert emulated_device.cupy.cuda.runtime.getDevice() == 0
