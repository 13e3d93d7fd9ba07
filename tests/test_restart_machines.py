"""Restart points of real machines: an NES here, an Atari where ale-py is installed (``-m slow``).

A snapshot is bytes to the pool. Whether they bring a machine back is the machine's own matter, and
these tests show that they do, by way of the pool, its files and the wrapper.
"""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import attrs
import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation

from cpreplay import CheckpointError, CheckpointWarning, RestartPool, RestartPoolConfiguration
from cpreplay.checkpoint.encoding import EncodedRecord, Encoder
from cpreplay.gym import RestartWrapper
from tests.girder_machine import (
    EXAMPLES,
    RIGHT,
    SAFE_RIGHT,
    SAFE_RIGHT_UP,
    STAY,
    Machine,
    digest,
    game,
    played,
    stacked,
)

ROOT = EXAMPLES.parent
KEY = ["level", "x / 32"]


def pool_of(**options: Any) -> RestartPool:
    values = {"key": KEY, "probability": 1.0, "random_seed": 0} | options
    return RestartPool(RestartPoolConfiguration(**values))


def restarts(machine: Machine, pool: RestartPool, limit: int = 50, **options: Any) -> Any:
    return RestartWrapper(stacked(machine, limit), pool, machine.save, machine.load, **options)


def in_another_process(program: str, *arguments: str) -> Any:
    """What a program prints, as JSON."""
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def actions_of(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).choice([RIGHT, SAFE_RIGHT, STAY, 4], count).tolist()


# The game


def test_the_builder_writes_the_cartridge_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "built.nes"
    program = EXAMPLES / "girder" / "build_girder.py"
    subprocess.run([sys.executable, str(program), str(path)], check=True, timeout=60)
    assert path.read_bytes() == game.ROM.read_bytes()


def test_the_game_is_played_as_its_page_says() -> None:
    machine = Machine()
    machine.reset(seed=1)
    assert machine.values() == {"level": 0, "x": 0, "lives": 3, "stuck": 0, "x / 32": 0}
    # Four frames a step: two to the right in each, one to the left.
    machine.step(SAFE_RIGHT)
    assert machine.values()["x"] == 8
    machine.step(game.PADS.index(game.LEFT))
    assert machine.values()["x"] in (4, 0)  # a hazard may have hit
    machine.put(0, 232)
    _, reward, *_, info = machine.step(SAFE_RIGHT)
    assert (machine.depth, reward) == (240, pytest.approx(8 / 240))
    assert info["markers"] == {"level": 1, "x": 0, "lives": 3, "stuck": 0, "x / 32": 0}
    # At level 127 a hazard hits in every frame without A (the random byte is at most 255).
    machine.put(127, 100)
    _, _, terminated, _, _ = machine.step(STAY)
    assert (machine.values()["lives"], terminated) == (3, False)
    _, _, terminated, _, _ = machine.step(RIGHT)
    assert (machine.values()["lives"], terminated) == (0, True)


def test_up_at_level_two_is_a_dead_end_between_96_and_112() -> None:
    machine = Machine()
    for level, x, stuck in ((2, 96, 1), (2, 104, 1), (2, 112, 0), (2, 80, 0), (1, 96, 0)):
        machine.reset(seed=1)
        machine.put(level, x)
        machine.step(SAFE_RIGHT_UP)
        assert machine.values()["stuck"] == stuck, (level, x)
    machine.reset(seed=1)
    machine.put(2, 96)
    machine.step(SAFE_RIGHT_UP)
    for action in range(len(game.PADS)):
        assert machine.step(action)[1:3] == (0.0, False)
    assert machine.values()["x"] == 96


# Snapshots


RESTORE = """
import json, sys
from pathlib import Path
from tests.girder_machine import Machine, played

snapshot, other, actions = Path(sys.argv[1]).read_bytes(), *map(json.loads, sys.argv[2:])
machine = Machine()
machine.reset(seed=99)
played(machine, other)
machine.load(snapshot)
print(json.dumps(played(machine, actions)))
"""


def test_a_snapshot_goes_on_in_another_process_with_equal_frames_and_memory(tmp_path: Path) -> None:
    machine = Machine()
    machine.reset(seed=4)
    machine.put(3, 40)  # where hazards are common
    played(machine, actions_of(5, seed=1))
    path = tmp_path / "machine.snapshot"
    path.write_bytes(machine.save())
    actions = actions_of(30, seed=2)
    other = actions_of(7, seed=3)  # what that process has played before
    expected = [list(step) for step in played(machine, actions)]
    assert len({memory for _, memory in expected}) == len(actions)  # it did go on
    assert in_another_process(RESTORE, str(path), *map(json.dumps, (other, actions))) == expected


DRAW = """
import json, sys
from cpreplay import RestartPool, RestartPoolConfiguration
from cpreplay.gym import RestartWrapper
from tests.girder_machine import Machine, digest, stacked

path, key, actions = sys.argv[1], *map(json.loads, sys.argv[2:])
pool = RestartPool(RestartPoolConfiguration(key=key, probability=1.0, random_seed=3))
taken = pool.load(path)
machine = Machine()
env = RestartWrapper(stacked(machine, 50), pool, machine.save, machine.load)
obs, info = env.reset(seed=8)
told = [taken, info["restart"]["values"], digest(obs.tobytes())]
for action in actions:
    obs, *_ = env.step(action)
    told.append([digest(obs.tobytes()), digest(machine.memory())])
print(json.dumps(told))
"""


def test_a_point_goes_on_in_another_process_by_way_of_a_file_of_the_pool(tmp_path: Path) -> None:
    machine = Machine()
    pool = pool_of()
    env = restarts(machine, pool)
    env.reset(seed=4)
    machine.put(3, 90)
    obs, *_, info = env.step(SAFE_RIGHT)
    assert info["markers"]["x"] == 98
    pool.save(tmp_path / "points")
    actions = [RIGHT, STAY, 4, RIGHT, RIGHT, SAFE_RIGHT, RIGHT, STAY]
    expected: list[Any] = [1, info["markers"], digest(obs.tobytes())]
    for action in actions:
        obs, *_ = env.step(action)
        expected.append([digest(obs.tobytes()), digest(machine.memory())])
    path = str(tmp_path / "points")
    assert in_another_process(DRAW, path, *map(json.dumps, (KEY, actions))) == expected


def test_the_first_observation_is_the_stored_stack_and_the_next_ones_follow_it() -> None:
    machine, pool = Machine(), pool_of(max_per_key=1)
    env = restarts(machine, pool)
    env.reset(seed=2)
    machine.put(1, 26)
    for _ in range(5):
        env.step(STAY)
    stored, *_, info = env.step(SAFE_RIGHT)
    assert info["markers"]["x / 32"] == 1 and len(pool) == 1
    actions = [RIGHT, STAY, RIGHT, SAFE_RIGHT]
    expected = [env.step(action)[0] for action in actions]
    other = Machine()  # with another screen, and other frames in its stack
    env = restarts(other, pool)
    obs, _ = env.reset(seed=7)
    assert obs.dtype == np.uint8 and obs.shape == (4, game.SIZE, game.SIZE)
    np.testing.assert_array_equal(obs, stored)
    normal, _ = env.reset(options={"restart": False})
    assert not (normal == stored).all()
    obs, _ = env.reset()
    np.testing.assert_array_equal(obs, stored)
    for action, frames in zip(actions, expected, strict=True):
        np.testing.assert_array_equal(env.step(action)[0], frames)


def test_a_dead_end_is_dropped_at_its_third_time_out() -> None:
    machine, pool = Machine(), pool_of(max_timeouts_per_point=3)
    env = restarts(machine, pool, limit=4)
    env.reset(seed=0)
    machine.put(2, 90)  # at 96 after three frames, and up is held
    *_, info = env.step(SAFE_RIGHT_UP)
    assert info["markers"] == {"level": 2, "x": 96, "lives": 3, "stuck": 1, "x / 32": 3}
    for episode in range(3):
        assert len(pool) == 1
        _, info = env.reset()
        assert info["restart"]["values"]["stuck"] == 1
        ends = [env.step(action)[2:4] for action in (SAFE_RIGHT, 4, SAFE_RIGHT_UP, 0)]
        assert ends == [(False, False)] * 3 + [(False, True)], episode
    assert pool.buckets() == {}
    assert pool.stats()["dropped_points"] == 1
    assert "restart" not in env.reset()[1]  # and the environment plays on from the beginning
    assert env.step(SAFE_RIGHT)[1] > 0


def test_losing_never_drops_a_point() -> None:
    machine, pool = Machine(), pool_of(max_timeouts_per_point=1)
    env = restarts(machine, pool)
    env.reset(seed=0)
    machine.put(127, 90)  # where every frame without A costs a life
    env.step(SAFE_RIGHT)
    for _ in range(5):
        assert env.reset()[1]["restart"]["values"]["level"] == 127
        assert env.step(RIGHT)[2:4] == (True, False)
    stats = pool.stats()
    assert (len(pool), stats["dropped_points"]) == (1, 0)
    assert stats["buckets"][(127, 3)]["finished"] == 5


def test_a_random_state_inside_the_snapshot_repeats_episodes_and_a_reseed_parts_them() -> None:
    def outcomes(reseed: bool) -> set[tuple[int, ...]]:
        bounds = {"x": 98}  # one point, and none of the starts after a hit
        machine, pool = Machine(), pool_of(minimum_values=bounds, maximum_values=bounds)
        env = restarts(machine, pool, reseed=machine.reseed if reseed else None)
        env.reset(seed=0)
        machine.put(30, 90)  # a hazard hits in a quarter of the frames
        env.step(SAFE_RIGHT)
        found = set()
        for _ in range(6):
            _, info = env.reset()
            assert info["restart"]["values"]["x"] == 98
            steps = (env.step(action) for action in (RIGHT, SAFE_RIGHT, RIGHT))
            found.add(tuple(digest(obs.tobytes()) for obs, *_ in steps))
        return found

    assert len(outcomes(reseed=False)) == 1
    assert len(outcomes(reseed=True)) > 1


def test_a_damaged_file_never_brings_a_snapshot_to_the_machine_that_was_not_taken(
    tmp_path: Path,
) -> None:
    machine, pool = Machine(), pool_of()
    env = restarts(machine, pool)
    env.reset(seed=0)
    taken: dict[bytes, int] = {}
    for level in range(6):
        machine.put(level, 26)
        env.step(SAFE_RIGHT)
        taken[machine.save()] = level
    assert len(pool) == 6
    pool.save(tmp_path / "points")
    raw = (tmp_path / "points").read_bytes()
    rng = np.random.default_rng(5)
    lost = 0
    for at in rng.integers(0, len(raw) * 8, 40):
        damaged = bytearray(raw)
        damaged[at // 8] ^= 1 << at % 8
        (tmp_path / "damaged").write_bytes(damaged)
        other = pool_of(random_seed=int(at))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CheckpointWarning)
            other.load(tmp_path / "damaged")
        lost += 6 - len(other)
        machine.loaded = []
        env = restarts(machine, other)
        for _ in range(3):
            env.reset()
        # Beside the environment's own resets, only what was taken.
        assert {*machine.loaded} <= {*taken, machine._booted}
    assert lost > 0


def test_a_snapshot_that_was_damaged_in_memory_is_an_error_and_not_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encode = Encoder.encode

    def damaged(self: Encoder, *arguments: Any) -> EncodedRecord:
        record = encode(self, *arguments)
        frame = bytearray(record.frame)
        frame[len(frame) // 2] ^= 4
        return attrs.evolve(record, frame=bytes(frame))

    machine, pool = Machine(), pool_of()
    env = restarts(machine, pool)
    env.reset(seed=0)
    machine.put(1, 26)
    monkeypatch.setattr(Encoder, "encode", damaged)
    env.step(SAFE_RIGHT)
    machine.loaded = []
    with pytest.raises(CheckpointError):
        env.reset()
    assert machine.loaded == [machine._booted]
    assert pool.stats()["in_flight"] == 0


# Atari


class Atari:
    """An Atari game whose snapshots hold its random state, or not."""

    def __init__(self, *, include_rng: bool, frames: int = 4, seed: int | None = None) -> None:
        ale_py = pytest.importorskip(
            "ale_py", "0.12", reason="Atari needs ale-py >= 0.12: pip install 'cpreplay[atari]'"
        )
        gymnasium.register_envs(ale_py)
        self._state, self._include_rng = ale_py.ALEState, include_rng
        env = gymnasium.make(
            "ALE/Breakout-v5", obs_type="grayscale", frameskip=4, repeat_action_probability=0.25
        )
        self.env = FrameStackObservation(env, frames)
        self._game: Any = env.unwrapped

    def save(self) -> bytes:
        snapshot: bytes = self._game.clone_state(include_rng=self._include_rng).serialize()
        return snapshot

    def load(self, snapshot: bytes) -> None:
        self._game.restore_state(self._state(snapshot))

    def memory(self) -> bytes:
        return bytes(self._game.ale.getRAM())

    def screen(self) -> np.ndarray:
        return np.asarray(self._game.ale.getScreenGrayscale())


ATARI = """
import json, sys
from cpreplay import RestartPool, RestartPoolConfiguration
from cpreplay.gym import RestartWrapper
from tests.girder_machine import digest
from tests.test_restart_machines import Atari

path, actions = sys.argv[1], json.loads(sys.argv[2])
pool = RestartPool(RestartPoolConfiguration(key=["step"], probability=1.0, random_seed=3))
pool.load(path)
atari = Atari(include_rng=True)
env = RestartWrapper(atari.env, pool, atari.save, atari.load)
env.reset(seed=8, options={"restart": False})
for _ in range(20):
    env.step(2)
obs, _ = env.reset()
told = [digest(obs.tobytes())]
for action in actions:
    obs, reward, *_, info = env.step(action)
    told.append([digest(obs.tobytes()), digest(atari.memory()), reward, int(info["lives"])])
print(json.dumps(told))
"""


@pytest.mark.slow
def test_an_atari_point_goes_on_in_another_process_sticky_actions_and_all(tmp_path: Path) -> None:
    atari = Atari(include_rng=True)
    pool = pool_of(key=["step"])
    steps = iter(range(1_000))
    env = RestartWrapper(
        atari.env,
        pool,
        atari.save,
        atari.load,
        markers=lambda info: {"step": 30} if next(steps) == 30 else None,
    )
    obs, _ = env.reset(seed=1)
    rng = np.random.default_rng(2)
    for _ in range(31):
        obs, *_ = env.step(int(rng.integers(4)))
    assert len(pool) == 1
    pool.save(tmp_path / "points")
    actions = rng.integers(0, 4, 300).tolist()
    expected: list[Any] = [digest(obs.tobytes())]
    for action in actions:
        obs, reward, *_, info = env.step(action)
        expected.append([digest(obs.tobytes()), digest(atari.memory()), reward, info["lives"]])
    assert len({memory for _, memory, *_ in expected[1:]}) > 100
    assert in_another_process(ATARI, str(tmp_path / "points"), json.dumps(actions)) == expected


@pytest.mark.slow
def test_ataris_screen_after_a_restore_is_stale_and_the_stored_stack_is_not() -> None:
    atari = Atari(include_rng=True)
    pool = pool_of(key=["step"])
    env = RestartWrapper(atari.env, pool, atari.save, atari.load, markers=lambda info: {"step": 1})
    env.reset(seed=1)
    for action in (1, 2, 2, 2, 2, 2):
        stored, *_ = env.step(action)
    screen = atari.screen().copy()
    np.testing.assert_array_equal(stored[-1], screen)
    env.reset(options={"restart": False})
    while (obs := env.reset()[0]).tobytes() != stored.tobytes():  # of eight points
        assert len(pool) == 6
    assert not (atari.screen() == obs[-1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("inside", [True, False])
def test_an_atari_episode_is_repeated_where_its_random_state_is_in_the_snapshot(
    inside: bool,
) -> None:
    atari = Atari(include_rng=inside)
    pool = pool_of(key=["step"])
    steps = iter(range(10_000))
    env = RestartWrapper(
        atari.env,
        pool,
        atari.save,
        atari.load,
        markers=lambda info: {"step": 5} if next(steps) == 5 else None,
    )
    env.reset(seed=1)
    for _ in range(6):
        env.step(1)
    actions = np.random.default_rng(0).integers(0, 4, 40).tolist()
    episodes = set()
    for _ in range(5):
        assert "restart" in env.reset()[1]
        episodes.add(tuple(digest(env.step(action)[0].tobytes()) for action in actions))
    assert (len(episodes) == 1) == inside
