"""examples/dqn_cartpole.py is killed, resumed, and ends as if nothing had happened."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.test_examples import EXAMPLES, require, run

EXAMPLE = str(EXAMPLES / "dqn_cartpole.py")
SEED, STEPS, EVERY = 5, 1_800, 500  # it learns from step 1,000 on

# Runs the example, and kills itself as a function is called for the n-th time.
KILLED = """
import os, pkgutil, runpy, signal, sys
owner, name, count, *sys.argv = sys.argv[1:]
owner, left = pkgutil.resolve_name(owner), int(count)
function = getattr(owner, name)
def counted(*arguments, **options):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*arguments, **options)
setattr(owner, name, counted)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def dqn() -> ModuleType:
    """The example as a module."""
    require("gymnasium", "matplotlib", "tqdm")
    spec = importlib.util.spec_from_file_location("dqn_cartpole_resumed", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def unbroken(dqn: ModuleType) -> Callable[[str], Any]:
    """The run of a buffer that nobody stopped."""
    runs = {buffer: dqn.train(SEED, STEPS, buffer) for buffer in ("uniform", "prioritized")}
    return runs.__getitem__


def arguments(folder: Path, buffer: str, *more: str) -> list[str]:
    settings = {"--seed": SEED, "--steps": STEPS, "--checkpoint-every": EVERY, "--eval-episodes": 1}
    given = [text for name, value in settings.items() for text in (name, str(value))]
    return [EXAMPLE, "--quiet", "--buffer", buffer, "--checkpoint", str(folder), *given, *more]


def kill_at(owner: str, name: str, count: int, folder: Path, buffer: str) -> None:
    ran = run("-c", KILLED, owner, name, str(count), *arguments(folder, buffer))
    assert (ran.returncode, ran.stdout) == (-9, ""), ran.stderr


def step_of(folder: Path) -> int:
    with np.load(folder / "agent.npz") as file:
        step: int = json.loads(file["state"].item())["step"]
    return step


@pytest.mark.parametrize("buffer", ["uniform", "prioritized"])
def test_a_run_that_was_killed_and_resumed_ends_with_the_same_weights_byte_for_byte(
    buffer: str, unbroken: Callable[[str], Any], tmp_path: Path
) -> None:
    folder, weights = tmp_path / "run", tmp_path / "weights.npy"
    kill_at("cpreplay:ReplaySampleStep", "add", 1_444, folder, buffer)
    assert step_of(folder) == 1_000
    more = ("--resume", "--save-weights", str(weights))
    ran = run(*arguments(folder, buffer, *more))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert np.load(weights).tobytes() == unbroken(buffer).network.weights.tobytes()
    assert step_of(folder) == 1_500


# Each save replaces two files, the memory's and then the agent's, and unlinks the old memory last.
@pytest.mark.parametrize(
    ("owner", "name", "count", "step"),
    [
        ("os", "replace", 1, None),
        ("os", "replace", 5, 1_000),
        ("os", "replace", 6, 1_000),
        ("pathlib:Path", "unlink", 2, 1_500),
    ],
    ids=[
        "before the first memory is in place",
        "before a later memory is in place",
        "between the memory and the agent",
        "before the old memory is removed",
    ],
)
def test_a_run_that_was_killed_while_it_saved_ends_with_the_same_weights_and_one_checkpoint(
    owner: str,
    name: str,
    count: int,
    step: int | None,
    dqn: ModuleType,
    unbroken: Callable[[str], Any],
    tmp_path: Path,
) -> None:
    kill_at(owner, name, count, tmp_path, "prioritized")
    assert (tmp_path / "agent.npz").exists() == (step is not None)
    if step is not None:
        assert step_of(tmp_path) == step
    resumed = dqn.train(
        SEED, STEPS, "prioritized", checkpoint=tmp_path, checkpoint_every=EVERY // 2
    )
    expected = unbroken("prioritized")
    assert resumed.network.weights.tobytes() == expected.network.weights.tobytes()
    assert (resumed.returns, resumed.ended_at) == (expected.returns, expected.ended_at)
    visible = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("."))
    assert visible == ["agent.npz", "replay-1750.tar.zst"]


@pytest.fixture(scope="module")
def half_way(dqn: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with episodes of 7 steps, stopped soon after step 1,200."""

    class Stopped(Exception):
        pass

    def stop(batch: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Stopped

    left = 105
    folder = tmp_path_factory.mktemp("half way")
    with pytest.MonkeyPatch.context() as patch:
        short_episodes(dqn, patch)
        with pytest.raises(Stopped):
            dqn.train(SEED, 1_400, "prioritized", on_batch=stop, checkpoint=folder,
                      checkpoint_every=600)  # fmt: skip
    return folder


def short_episodes(dqn: ModuleType, patch: pytest.MonkeyPatch) -> None:
    """So short that the clock ends each, and one is three steps old at step 1,200."""
    make = dqn.gymnasium.make
    patch.setattr(dqn.gymnasium, "make", lambda name: make(name, max_episode_steps=7))


def resumed_weights(dqn: ModuleType, folder: Path) -> bytes:
    weights: bytes = dqn.train(
        SEED, 1_400, "prioritized", checkpoint=folder
    ).network.weights.tobytes()
    return weights


# Everything that decides the weights, as it would be if it had not been saved. The step and the
# memory cannot be left out: they name each other.
LEFT_OUT: dict[str, Callable[[Any], Any]] = {
    "weights": np.zeros_like,
    "target": np.zeros_like,
    "mean": np.zeros_like,
    "square": np.zeros_like,
    "obs": np.zeros_like,
    "updates": lambda _: 0,
    "exploration": lambda _: np.random.default_rng(1).bit_generator.state,
    "env_state": lambda _: [0.0] * 4,
    "env_elapsed": lambda _: 0,
    "env_rng": lambda _: np.random.default_rng(1).bit_generator.state,
}


@pytest.mark.parametrize("name", ["nothing", *LEFT_OUT])
def test_whatever_a_checkpoint_leaves_out_changes_the_weights(
    name: str,
    dqn: ModuleType,
    half_way: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short_episodes(dqn, monkeypatch)
    assert step_of(half_way) == 1_200
    folder = tmp_path / "run"
    shutil.copytree(half_way, folder)
    if name != "nothing":
        with np.load(folder / "agent.npz") as file:
            entries = dict(file)
        state = json.loads(entries["state"].item())
        place = state if name in state else entries
        place[name] = LEFT_OUT[name](place[name])
        np.savez(folder / "agent.npz", **{**entries, "state": json.dumps(state)})
    unbroken = dqn.train(SEED, 1_400, "prioritized").network.weights.tobytes()
    assert (resumed_weights(dqn, folder) == unbroken) == (name == "nothing")


def test_a_checkpoint_of_other_settings_is_refused(dqn: ModuleType, half_way: Path) -> None:
    before = sorted(half_way.iterdir())
    with pytest.raises(SystemExit, match=r"holds a run with .*'steps': 1400.*, not .*1401"):
        dqn.train(SEED, 1_401, "prioritized", checkpoint=half_way)
    assert sorted(half_way.iterdir()) == before


def test_the_command_line_refuses_what_would_lose_a_run_or_cannot_be_meant(
    dqn: ModuleType,
    half_way: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for given, reason in (
        (["--checkpoint", str(half_way)], "holds a run: --resume it, or give another folder"),
        (["--resume"], "--resume needs --checkpoint"),
        (["--checkpoint-every", "0"], "--checkpoint-every has to be at least 1"),
    ):
        monkeypatch.setattr(sys, "argv", [EXAMPLE, *given])
        with pytest.raises(SystemExit, match="2"):
            dqn.main()
        assert capsys.readouterr().err.endswith(f"{reason}\n")
