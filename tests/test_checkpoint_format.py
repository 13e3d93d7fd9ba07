"""The page on the checkpoint file lists what is written: every field and every member."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpreplay import RestartPool, RestartPoolConfiguration, StoreReplay
from cpreplay.block_aliases import NStepUniformSampleCpuStep
from cpreplay.control import CONTROL
from cpreplay.replay_state import SAVED_FIELDS
from cpreplay.restart.files import AboutPoints
from cpreplay.restart.point import StackFormat
from tests.checkpoint_files import witness

PAGE = Path(__file__).resolve().parents[1] / "docs" / "checkpoint-format.md"


def listed(heading: str) -> list[str]:
    """What the first column of the table under a heading names, in its order."""
    (section,) = re.findall(
        rf"^### {re.escape(heading)}\n(.*?)(?=^##|\Z)", PAGE.read_text("utf-8"), re.DOTALL | re.M
    )
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def common() -> list[str]:
    """The fields that every header has, as the page lists them."""
    (table,) = re.findall(
        r"^\| `format` \|.*?(?=^\| others \|)", PAGE.read_text("utf-8"), re.DOTALL | re.M
    )
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def found(path: Path) -> witness.Found:
    return witness.read(path.read_bytes())


def forms_of(members: dict[str, Any]) -> list[str]:
    """Names of members as the page writes them, each once, in the file's order."""
    forms = []
    for name in members:
        assert all(len(digits) >= 12 for digits in re.findall(r"[0-9]+", name))
        form = re.sub(r"^(rows/)[0-9]+/\w+", r"\1<first>/<column>", name)
        form = re.sub(r"^(pending/)\w+/[0-9]+", r"\1<column>/<first>", form)
        form = re.sub(r"^(leaves/)[0-9]+", r"\1<first>", form)
        form = re.sub(r"^(points/)[0-9]+", r"\1<number>", form)
        forms.append(form)
    return list(dict.fromkeys(forms))[1:]  # without header.json


@pytest.fixture
def prioritized(tmp_path: Path) -> witness.Found:
    buffer = StoreReplay(2, (), 40, True, extra_columns={"weight": ((), "float64")}, seed=3)
    zeros = np.zeros(9)
    buffer.add_batch(np.zeros((9, 2)), zeros, zeros, np.zeros((9, 2)), zeros == 1, weight=zeros)
    buffer.save(tmp_path / "replay")
    return found(tmp_path / "replay")


@pytest.fixture
def n_step(tmp_path: Path) -> witness.Found:
    block = NStepUniformSampleCpuStep(obs=2, act=(), batch=4, cap=40, n=3, gamma=0.5, n_envs=2)
    block.setup(learning_starts=0)
    over = np.zeros(2, bool)
    for _ in range(5):
        block.add_batch(
            np.zeros((2, 2)), [0, 1], [1.0, 2.0], np.zeros((2, 2)), over, truncated=over
        )
    block.save(tmp_path / "replay")
    return found(tmp_path / "replay")


def test_the_header_of_a_buffer_has_the_fields_that_are_listed(
    prioritized: witness.Found, n_step: witness.Found
) -> None:
    for file in (prioritized, n_step):
        assert sorted(file.header) == sorted([*common(), *listed("Header of `replay`")])
        for column in file.header["columns"]:
            assert list(column) == listed("A column of `replay`")


def test_the_members_of_a_buffer_are_those_that_are_listed_in_that_order(
    prioritized: witness.Found, n_step: witness.Found
) -> None:
    members = listed("Members of `replay`")
    pending = [name for name in members if name.startswith("pending")]
    assert forms_of(prioritized.members) == [name for name in members if name not in pending]
    assert forms_of(n_step.members) == [name for name in members if not name.startswith("leaves")]


def test_the_state_and_the_control_block_have_the_fields_that_are_listed(
    prioritized: witness.Found, n_step: witness.Found
) -> None:
    for file in (prioritized, n_step):
        state = json.loads(file.members["state.json"])
        assert list(state) == listed("`state.json`")
        assert list(state["control"]) == listed("`control`")
    assert list(SAVED_FIELDS) == listed("`control`")
    kinds = dict(re.findall(r"^\| `(\w+)` \| (int|float|1 where)", PAGE.read_text("utf-8"), re.M))
    for name in SAVED_FIELDS:
        assert (kinds[name] == "float") == (CONTROL[name].kind == "f"), name
    assert list(json.loads(n_step.members["pending.json"])) == listed("`pending.json`")


def test_a_file_of_points_has_the_fields_and_members_that_are_listed(tmp_path: Path) -> None:
    pool = RestartPool(RestartPoolConfiguration(key=["level"]), machine="a machine")
    pool.offer(b"state", np.zeros((2, 3), np.uint8), {"level": 1})
    pool.save(tmp_path / "points")
    file = found(tmp_path / "points")
    header = listed("Header of `restart-points`")
    assert sorted(file.header) == sorted([*common(), *header])
    about = AboutPoints(
        key=("level",), machine=None, stack=StackFormat((2,), np.dtype("u1")), draws=0,
        next_name=0, points=0, buckets=0,
    )  # fmt: skip
    assert list(about.header()) == ["kind", *header]
    assert forms_of(file.members) == listed("Members of `restart-points`")
    (point,) = (json.loads(file.members[name]) for name in file.members if "00.json" in name)
    assert list(point) == listed("`points/<number>.json`")
