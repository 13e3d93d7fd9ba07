"""Replay checkpoints of version 1 are read for ever, and what comes after them does not change."""

import hashlib
import json
from typing import Any

import numpy as np
import pytest

import cpreplay
from tests.checkpoint_files.replay import FOLDER
from tests.checkpoint_files.replay.make import Player, as_text, block_over, new
from tests.checkpoint_files.replay.stories import NAMES, after, before, expected
from tests.conftest import Backend

# The first half of their SHA-256: whoever changes a file here breaks runs that were saved like it.
FILES = {
    "uniform_v1.tar.zst": "dee7f65551b122b922638ee976c09f8b",
    "prioritized_v1.tar.zst": "35fdd8a04a679fff32246d64c8e35c09",
    "n_step_v1.tar.zst": "5b8def31eea2edd31e77d81f38dca00e",
}
EXPECTED: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / "expected.json").read_text())


def assert_story_goes_on(backend: Backend, name: str, target: Any) -> None:
    """The minibatches after a resume are those that the witness says, number by number."""
    player = Player(target)
    batches = [player.play(operation) for operation in after(name)]
    drawn = iter([batch for batch in batches if batch is not None])
    # A device batch is read at once, since the block gives fresh arrays each step.
    for number, wanted in enumerate(EXPECTED[name]):
        batch = next(drawn)
        for column, values in wanted.items():
            found = backend.numpy(batch[column])
            same = np.array(values, found.dtype)
            np.testing.assert_array_equal(found, same, f"minibatch {number}: {column}", strict=True)
    assert next(drawn, None) is None


def test_the_files_are_those_that_were_made() -> None:
    assert {path.name for path in FOLDER.glob("*.zst")} == FILES.keys()
    for name, digest in FILES.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()[:32] == digest


def test_what_has_to_come_is_what_the_witness_says() -> None:
    text = as_text({name: expected(name) for name in NAMES})
    assert (FOLDER / "expected.json").read_text() == text


@pytest.mark.parametrize("name", NAMES)
def test_the_story_of_a_file_ends_as_the_witness_says_without_a_file(name: str) -> None:
    """So that a fault in the witness is not taken for one in a file."""
    player = Player(new(name))
    for operation in before(name):
        player.play(operation)
    assert_story_goes_on(Backend("host"), name, player.target)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_version_1_goes_on_with_the_same_minibatches(name: str) -> None:
    path = FOLDER / f"{name}_v1.tar.zst"
    if name == "n_step":
        target = new(name)
        target.resume(path)
    else:
        target = cpreplay.StoreReplay.load(path)
    assert_story_goes_on(Backend("host"), name, target)
    used = new(name)
    for operation in after(name):  # of another part of the story
        if operation["do"] in ("add", "step"):
            Player(used).play(operation)
    used.resume(path)
    assert_story_goes_on(Backend("host"), name, used)


def test_a_device_goes_on_with_a_numbered_file_of_version_1(device: Backend) -> None:
    loaded = cpreplay.StoreReplayGpu.load(FOLDER / "prioritized_v1.tar.zst")
    assert_story_goes_on(device, "prioritized", loaded)


def test_a_device_has_the_rows_of_every_file_of_version_1(device: Backend) -> None:
    for name in NAMES:
        path = FOLDER / f"{name}_v1.tar.zst"
        host = cpreplay.StoreReplay.load(path, drop_pending=True)
        loaded = cpreplay.StoreReplayGpu.load(path, drop_pending=True, seed=1)
        for column in host.columns:
            np.testing.assert_array_equal(
                device.numpy(loaded.column(column.name)), host.column(column.name)
            )
        loaded.check()


def test_a_device_block_takes_up_the_pending_steps_of_version_1(device: Backend) -> None:
    path = FOLDER / "n_step_v1.tar.zst"
    host = new("n_step")
    host.resume(path, seed=3)
    buffer = cpreplay.StoreReplayGpu(2, 1, host.buffer.capacity, extra_columns={"discount": ()})
    block = block_over(buffer)
    block.resume(path, seed=3)
    np.testing.assert_array_equal(device.numpy(block.nstep.pending), host.nstep.pending)
