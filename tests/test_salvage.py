"""What is whole in a damaged checkpoint, compared with a computation on lists."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import CheckpointError
from cpreplay.checkpoint import replay_file
from tests.checkpoint_files import witness
from tests.conftest import Backend
from tests.models import RingModel
from tests.strategies import numbered_rows, stored_numbers
from tests.training import Form, NStepTraining

CAPACITY = 50
CHUNK = 6  # rows in a record

# (demonstrations, rows added in all)
RINGS = {
    "part full": (0, 33),
    "exactly full": (0, 50),
    "wrapped": (0, 50 + 31),
    "wrapped onto row 0": (0, 100),
    "demonstrations alone": (10, 10),
    "demonstrations, part full": (10, 33),
    "demonstrations, wrapped": (10, 50 + 27),
    "demonstrations, wrapped in a chunk of both": (14, 50 + 40),
}

# With and without priorities, which exclude demonstrations.
ALL_RINGS = [
    *((ring, False) for ring in RINGS),
    *((ring, True) for ring, (demos, _) in RINGS.items() if not demos),
]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a few rows, where they have some megabytes."""
    for module in ("host_snapshot", "device_snapshot"):
        monkeypatch.setattr(f"cpreplay.{module}.chunk_rows", lambda layout, size: CHUNK)


def filled(
    backend: Backend, demos: int, total: int, prioritized: bool = False
) -> tuple[Any, RingModel]:
    """A buffer of numbered rows, and the same in a list."""
    buffer = backend.buffer(3, 2, CAPACITY, prioritized, seed=5)
    model = RingModel(CAPACITY)
    if prioritized:
        buffer.configure_per(0.5, 0.75, 0.25)
    buffer.add_batch(**numbered_rows(0, demos or total))
    model.add_batch(range(demos or total))
    if demos:
        buffer.pin_demo_prefix(demos, batch_size=4)
        model.pin_demo_prefix(demos)
        for first in range(demos, total):
            buffer.add_batch(**numbered_rows(first, 1))
            model.add(first)
    return buffer, model


def slots_of(record: bytes) -> list[int]:
    """The rows of the ring that a record has, by the names and lengths of its members."""
    names = re.findall(rb"rows/(\d{12})/reward\.npy", record)
    if not names:
        return []
    at = record.index(b"'shape': (", record.index(b"/reward.npy"))
    count = int(record[at + 10 : record.index(b",", at)])
    return list(range(int(names[0]), int(names[0]) + count))


def damage(path: Path, numbers: Iterable[int]) -> witness.Found:
    """Flip a byte in some records of a file; what the file was before."""
    data = bytearray(path.read_bytes())
    found = witness.read(bytes(data))
    for number in numbers:
        data[found.spans[number][1] - 5] ^= 0x40
    path.write_bytes(data)
    return found


def expected_rows(model: RingModel, lost: set[int], by_age: bool = True) -> list[int]:
    """The rows of a list whose slots are not lost: demonstrations, then from the oldest on."""
    if not by_age:
        return [row for slot, row in enumerate(model.slots) if row is not None and slot not in lost]
    slots = [*range(model.demo_count)]
    slot = model.head if model.slots[model.head] is not None else model.demo_count
    for _ in range(CAPACITY - model.demo_count):
        slots.append(slot)
        slot = slot + 1 if slot + 1 < CAPACITY else model.demo_count
    return [model.slots[s] for s in slots if s not in lost and model.slots[s] is not None]


def assert_salvaged(
    backend: Backend, path: Path, expected: list[int], held: int, *, prioritized: bool = False
) -> None:
    kind = cpreplay.StoreReplayGpu if backend.is_device else cpreplay.StoreReplay
    buffer, report = kind.salvage(path, seed=1)
    assert (report.rows, report.lost_rows) == (len(expected), held - len(expected))
    assert stored_numbers(buffer, backend.numpy)[: len(expected)] == expected
    assert len(buffer) == len(expected) == buffer.stats()["total"]
    assert (buffer.demo_count, buffer.seed, buffer.stats()["draws"]) == (0, 1, 0)
    buffer.check()
    model = RingModel(CAPACITY)
    model.add_batch([*expected, *range(500, 552)])
    buffer.add_batch(**numbered_rows(500, 52))
    assert stored_numbers(buffer, backend.numpy) == model.rows()
    assert set(backend.numpy(buffer.sample(9).obs)[:, 0].tolist()) <= set(model.rows())
    if prioritized:
        buffer.update_priorities(buffer.sample(9), np.ones(9, np.float32))
    buffer.check()


@pytest.mark.parametrize(("ring", "prioritized"), ALL_RINGS)
def test_rows_of_whole_records_are_kept_from_the_oldest_on(
    backend: Backend, ring: str, prioritized: bool, tmp_path: Path
) -> None:
    demos, total = RINGS[ring]
    path = tmp_path / "saved"
    buffer, model = filled(backend, demos, total, prioritized)
    buffer.save(path)
    good = path.read_bytes()
    records = witness.read(good).records
    chunks = {number: set(slots_of(record)) for number, record in enumerate(records)}
    with_rows = [number for number, slots in chunks.items() if slots]
    assert sorted(slot for slots in chunks.values() for slot in slots) == list(range(model.size))
    cases = [
        [],
        with_rows[:1],
        with_rows[-1:],
        with_rows[1:2],
        with_rows[::2],
        with_rows[1::2],
        with_rows,
    ]
    for numbers in cases:
        path.write_bytes(good)
        damage(path, numbers)
        lost = set().union(*(chunks[number] for number in numbers))
        expected = expected_rows(model, lost)
        assert_salvaged(backend, path, expected, model.size, prioritized=prioritized)
        if numbers:
            with pytest.raises(CheckpointError, match=rf"records? {numbers[0]}\b.*salvage"):
                type(buffer).load(path)


@pytest.mark.parametrize("ring", ["wrapped", "demonstrations, wrapped"])
def test_of_a_file_that_was_cut_the_records_before_are_kept(
    backend: Backend, ring: str, tmp_path: Path
) -> None:
    path = tmp_path / "saved"
    buffer, model = filled(backend, *RINGS[ring])
    buffer.save(path)
    good = path.read_bytes()
    found = witness.read(good)
    chunks = [set(slots_of(record)) for record in found.records]
    for number, (start, end) in enumerate(found.spans):
        if number == 0:
            continue
        for length in (start, end - 1):
            path.write_bytes(good[:length])
            lost = set().union(*chunks[number:])
            by_age = number > 1  # record 1 says where the head is
            expected = expected_rows(model, lost, by_age)
            assert_salvaged(backend, path, expected, model.size)
            with pytest.raises(CheckpointError, match=r"its end is missing.*salvage"):
                type(buffer).load(path)


@pytest.mark.parametrize(
    ("ring", "prioritized"),
    [("wrapped", False), ("wrapped", True), ("demonstrations, wrapped", False)],
)
def test_without_the_state_rows_come_in_the_order_of_the_ring(
    backend: Backend, ring: str, prioritized: bool, tmp_path: Path
) -> None:
    demos, total = RINGS[ring]
    path = tmp_path / "saved"
    buffer, model = filled(backend, demos, total, prioritized)
    buffer.save(path)
    found = damage(path, [1, 4])
    assert b"state.json" in found.records[1]
    lost = set(slots_of(found.records[4]))
    expected = expected_rows(model, lost, by_age=False)
    assert_salvaged(backend, path, expected, model.size, prioritized=prioritized)


def test_salvaged_rows_have_one_priority_and_the_exponents_that_were_saved(
    backend: Backend, tmp_path: Path
) -> None:
    path = tmp_path / "saved"
    buffer, _ = filled(backend, 0, 70, True)
    buffer.update_priorities(buffer.sample(30), np.arange(30, dtype=np.float32))
    buffer.save(path)
    damage(path, [5])
    salvaged, report = type(buffer).salvage(path)
    stats = salvaged.stats()
    assert (stats["alpha"], stats["beta"], stats["epsilon"]) == (0.5, 0.75, 0.25)
    assert stats["max_priority"] == 1.0
    assert stats["priority_total"] == report.rows
    salvaged.configure_per(0.5, 0.9, 0.1)  # alpha is that of the leaves


def test_a_file_without_damage_gives_every_row(backend: Backend, tmp_path: Path) -> None:
    for ring, (demos, total) in RINGS.items():
        path = tmp_path / ring
        buffer, model = filled(backend, demos, total)
        buffer.save(path)
        assert_salvaged(backend, path, expected_rows(model, set()), model.size)
    empty = backend.buffer(3, 2, CAPACITY)
    empty.save(tmp_path / "empty")
    assert_salvaged(backend, tmp_path / "empty", [], 0)


def test_leaves_in_several_records_may_be_damaged(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are, of more than four million rows."""
    path = tmp_path / "saved"
    buffer, model = filled(backend, 0, 81, True)
    monkeypatch.setattr(replay_file, "_PART_BYTES", 4 * 8)
    buffer.save(path)
    records = witness.read(path.read_bytes()).records
    leaves = [number for number, record in enumerate(records) if record.startswith(b"leaves/")]
    assert len(leaves) == 7
    loaded = type(buffer).load(path)
    np.testing.assert_array_equal(loaded.state()["leaves"], buffer.state()["leaves"])
    damage(path, leaves[1:2])
    assert_salvaged(backend, path, expected_rows(model, set()), 50, prioritized=True)


def test_rows_of_an_n_step_block_are_salvaged_without_its_pending_steps(
    backend: Backend, tmp_path: Path
) -> None:
    run = NStepTraining.begun_until(20, backend, Form(capacity=400), n_envs=2, seed=1)
    path = tmp_path / "saved"
    run.block.save(path)
    records = witness.read(path.read_bytes()).records
    whole, _ = type(run.buffer).salvage(path)
    assert whole.stats()["total"] == len(run.buffer)
    pending = [number for number, record in enumerate(records) if record.startswith(b"pending")]
    rows = [number for number, record in enumerate(records) if slots_of(record)]
    damage(path, [*pending, rows[2]])
    salvaged, report = type(run.buffer).salvage(path)
    assert report.lost_rows == CHUNK
    lost = slots_of(records[rows[2]])
    for name in ("obs", "discount", "goal"):
        held = backend.numpy(run.buffer.column(name))[: len(run.buffer)]
        kept = backend.numpy(salvaged.column(name))[: len(salvaged)]
        np.testing.assert_array_equal(kept, np.delete(held, lost, 0))
    salvaged.check()


def test_codes_are_salvaged_as_codes(backend: Backend, tmp_path: Path) -> None:
    buffer = backend.buffer(3, 2, CAPACITY, obs_store_dtype="uint8")
    codes = np.arange(90).reshape(30, 3)
    buffer.add_batch(codes / 255, np.zeros((30, 2)), np.arange(30), codes / 255, [False] * 30)
    buffer.save(tmp_path / "saved")
    damage(tmp_path / "saved", [3])
    salvaged, report = type(buffer).salvage(tmp_path / "saved")
    assert report == cpreplay.SalvageReport(rows=24, lost_rows=6)
    kept = backend.numpy(salvaged.column("obs"))[:24]
    np.testing.assert_array_equal(kept, np.delete(codes, slice(6, 12), 0))


@pytest.mark.parametrize("rows", [None, "30", -1, True, 1.5, CAPACITY + 1, 10**30])
def test_a_file_that_does_not_say_how_many_rows_it_held_is_refused(
    backend: Backend, rows: Any, tmp_path: Path
) -> None:
    buffer, _ = filled(backend, 0, 33)
    buffer.save(tmp_path / "saved")
    found = witness.read((tmp_path / "saved").read_bytes())
    crafted = witness.checkpoint({**found.header, "rows": rows}, found.records[1:-1])
    (tmp_path / "crafted").write_bytes(crafted)
    with pytest.raises(CheckpointError, match="rows"):
        type(buffer).salvage(tmp_path / "crafted")


def test_without_its_header_nothing_is_salvaged(backend: Backend, tmp_path: Path) -> None:
    buffer, _ = filled(backend, 0, 33)
    path = tmp_path / "saved"
    buffer.save(path)
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    type(buffer).salvage(path)  # record 0 repeats it
    start = data.index(b"\x51\x2a\x4d\x18")  # the first record
    data[start + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="header"):
        type(buffer).salvage(path)
