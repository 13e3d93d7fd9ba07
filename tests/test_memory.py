"""How much memory there is, and the refusal of buffers that exceed it."""

import gc
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpreplay
import cpreplay.cuda_device
import cpreplay.replay
from cpreplay import memory
from cpreplay.control import CONTROL
from cpreplay.memory import format_bytes, host_memory
from tests.conftest import Backend
from tests.strategies import numbered_rows

PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def limit_file(folder: Path, text: str) -> Path:
    path = folder / "memory.max"
    path.write_text(text)
    return path


def test_without_a_control_group_it_is_the_machines_memory(tmp_path: Path) -> None:
    assert host_memory(()) == PHYSICAL
    assert host_memory([tmp_path / "missing"]) == PHYSICAL
    assert host_memory([tmp_path]) == PHYSICAL  # a folder, which cannot be read


@pytest.mark.parametrize("text", ["max", "max\n", ""])
def test_a_control_group_may_have_no_limit(text: str, tmp_path: Path) -> None:
    assert host_memory([limit_file(tmp_path, text)]) == PHYSICAL


def test_the_limit_of_the_control_group_counts_where_it_is_smaller(tmp_path: Path) -> None:
    assert host_memory([limit_file(tmp_path, "1048576\n")]) == 2**20
    assert host_memory([limit_file(tmp_path, str(2**63 - 4096))]) == PHYSICAL  # "none", version 1


def test_the_smallest_of_several_limits_counts(tmp_path: Path) -> None:
    files = []
    for name, text in (("a", "max"), ("b", "4096"), ("c", "8192")):
        (tmp_path / name).mkdir()
        files.append(limit_file(tmp_path / name, text))
    assert host_memory(files) == 4096
    assert host_memory(reversed(files)) == 4096


def test_an_unknown_amount_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("cpreplay.memory._physical_memory", lambda: None)
    assert host_memory([tmp_path / "missing"]) is None
    assert host_memory([limit_file(tmp_path, "4096")]) == 4096


@pytest.mark.parametrize("answer", [ValueError, OSError, -1])
def test_a_system_need_not_say_how_much_it_has(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sysconf(name: str) -> int:
        if name == "SC_PAGE_SIZE":
            return 4096
        if isinstance(answer, int):
            return answer
        raise answer(name)

    monkeypatch.setattr(os, "sysconf", sysconf)
    assert host_memory(()) is None


def test_our_own_control_groups_are_asked_where_no_other_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = [limit_file(tmp_path, "4096")]
    monkeypatch.setattr(memory, "_own_cgroup_limits", lambda: own)
    assert host_memory() == 4096
    assert host_memory(()) == PHYSICAL


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1024, "1,024 bytes (1.0 KiB)"),
        (16384, "16,384 bytes (16.0 KiB)"),
        (3 * 2**19, "1,572,864 bytes (1.5 MiB)"),
        (25 * 2**30, "26,843,545,600 bytes (25.0 GiB)"),
        (2**50, "1,125,899,906,842,624 bytes (1024.0 TiB)"),
    ],
)
def test_a_byte_count_is_exact_and_readable(count: int, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(0, 2**70))
def test_the_exact_count_can_always_be_read_back(count: int) -> None:
    assert int(format_bytes(count).split(" bytes")[0].replace(",", "")) == count


# The refusal


def forbid_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    def allocate(rows: int, stride: int) -> None:
        raise AssertionError(f"{rows} rows of {stride} bytes were allocated")

    monkeypatch.setattr("cpreplay.host_ops.aligned_zeros", allocate)


def test_a_buffer_ten_times_the_memory_is_refused_before_anything_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forbid_allocation(monkeypatch)
    available = host_memory()
    assert available is not None
    capacity = 10 * available // (2 * 84 * 84 * 4 + 16) + 1
    with pytest.raises(cpreplay.MemoryLimitError) as caught:
        cpreplay.StoreReplay((84, 84), 1, capacity)
    message = str(caught.value)
    assert format_bytes(available) in message
    assert f"capacity={capacity:,}" in message
    needed = int(message.split("needs ")[1].split(" bytes")[0].replace(",", ""))
    assert needed == capacity * (2 * 84 * 84 * 4 + 16)
    assert "check_memory=False" in message
    assert "lower the capacity" in message


def test_the_limit_itself_is_enough_and_one_byte_less_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = sum(cpreplay.StoreReplay(3, 2, 1)._layout.strides)
    monkeypatch.setattr(cpreplay.replay, "host_memory", lambda: 1000 * row)
    assert cpreplay.StoreReplay(3, 2, 1000).capacity == 1000
    monkeypatch.setattr(cpreplay.replay, "host_memory", lambda: 1000 * row - 1)
    with pytest.raises(MemoryError):  # as a caller would catch it who does not know cpreplay
        cpreplay.StoreReplay(3, 2, 1000)


def test_the_refusal_can_be_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpreplay.replay, "host_memory", lambda: 10)
    buffer = cpreplay.StoreReplay(3, 2, 1000, check_memory=False)
    buffer.add(np.zeros(3), np.zeros(2), 0, np.zeros(3), False)
    assert len(buffer.sample(4)) == 4


def test_an_unknown_amount_of_memory_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpreplay.replay, "host_memory", lambda: None)
    assert cpreplay.StoreReplay(3, 2, 1000).capacity == 1000


def test_a_card_refuses_what_exceeds_its_own_memory(device: Backend) -> None:
    card = device.cupy.cuda.Device().mem_info[1]
    before = device.cupy.get_default_memory_pool().used_bytes()
    with pytest.raises(cpreplay.MemoryLimitError) as caught:
        device.buffer((84, 84), 1, 10 * card // 56_464)
    message = str(caught.value)
    assert format_bytes(card) in message
    assert "the card has" in message
    assert device.cupy.get_default_memory_pool().used_bytes() == before


def test_a_card_must_hold_a_buffer_in_all_of_its_memory_and_not_in_what_is_free(
    device: Backend,
) -> None:
    held = device.cupy.zeros(10_000_000, np.uint8)
    free, total = device.cupy.cuda.Device().mem_info
    assert cpreplay.cuda_device.device_memory(device.cupy) == total >= free + held.nbytes


def test_nbytes_is_at_least_the_rows(backend: Backend) -> None:
    for options in ({}, {"obs_store_dtype": "uint8"}):
        buffer = backend.buffer((20, 20), 2, 100, **options)
        stored = sum(column.stored_nbytes for column in buffer.columns)
        assert 100 * stored <= buffer.nbytes <= 100 * (stored + 100) + 2**21
        assert buffer.stats()["nbytes"] == buffer.nbytes


def test_a_buffer_is_freed_when_its_last_reference_goes(backend: Backend) -> None:
    # Not at some later garbage collection, which a full card would not set off.
    buffer = backend.buffer((20, 20), 2, 100)
    buffer.add_batch(**numbered_rows(0, 3, (20, 20)))
    batch = buffer.sample(4)
    alive = [weakref.ref(buffer), weakref.ref(buffer._ops)]
    gc.collect()
    gc.disable()
    try:
        del buffer
        assert [reference() for reference in alive] == [None, None]
    finally:
        gc.enable()
    assert backend.numpy(batch.reward).min() >= 20  # what was drawn outlives it


def test_the_control_groups_around_us_limit_us_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    membership = tmp_path / "cgroup"
    membership.write_text("4:cpu,memory:/job/step\n3:cpuset:/other\n0::/user/a:b.scope\n")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    files = {
        "user/a:b.scope/memory.max": 2_000_000,
        "user/memory.max": 3_000_000,
        "memory/job/step/memory.limit_in_bytes": 5_000_000,
        "other/memory.max": 1,
        "memory/other/memory.limit_in_bytes": 2,
    }
    for name, limit in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{limit}\n")
    assert memory.host_memory(memory._own_cgroup_limits(membership)) == 2_000_000
    (tmp_path / "user/a:b.scope/memory.max").write_text("max\n")
    assert memory.host_memory(memory._own_cgroup_limits(membership)) == 3_000_000
    (tmp_path / "user/memory.max").write_text("max\n")
    assert memory.host_memory(memory._own_cgroup_limits(membership)) == 5_000_000
    assert memory._own_cgroup_limits(tmp_path / "none")[0] == tmp_path / "memory.max"


def test_the_largest_capacity_is_refused_for_its_memory_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpreplay.replay, "host_memory", lambda: 2**30)
    with pytest.raises(cpreplay.MemoryLimitError):
        cpreplay.StoreReplay((), (), 2**31)
    with pytest.raises(cpreplay.ConfigurationError, match="2,147,483,648") as refusal:
        cpreplay.StoreReplay((), (), 2**31 + 1)
    assert not isinstance(refusal.value, cpreplay.MemoryLimitError)


def test_the_count_of_clamped_rows_is_part_of_what_a_card_must_hold(
    device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = device.buffer(8, (), 100, obs_store_dtype="uint8")._layout
    needed = 100 * (layout.row_nbytes + 8)
    monkeypatch.setattr(cpreplay.replay, "device_memory", lambda cupy: needed)
    device.buffer(8, (), 100, obs_store_dtype="uint8")
    monkeypatch.setattr(cpreplay.replay, "device_memory", lambda cupy: needed - 1)
    with pytest.raises(cpreplay.MemoryLimitError):
        device.buffer(8, (), 100, obs_store_dtype="uint8")


def test_nbytes_of_a_card_counts_rows_control_block_and_scratch(device: Backend) -> None:
    for options, scratch in (({}, 8), ({"obs_store_dtype": "uint8"}, 8 * 50)):
        buffer = device.buffer((3,), (2,), 50, **options)
        assert buffer.nbytes == 50 * buffer._layout.row_nbytes + CONTROL.itemsize + scratch


@pytest.mark.parametrize("capacity", [1, 7, 5000])
def test_storage_begins_on_64_bytes(capacity: int) -> None:
    buffer = cpreplay.StoreReplay(300, 3, capacity)
    assert all(array.ctypes.data % 64 == 0 for array in buffer._ops._arrays)
