"""Demonstrations from files into a buffer: what is stored and pinned, and what is refused."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpreplay import (
    CaptureError,
    ColumnValueError,
    ConfigurationError,
    DemoFileError,
    DemoFilter,
    DemoSet,
    NStepSampleStep,
    OrderError,
    ReplayError,
    ReplaySampleStep,
    ShapeError,
    load_demos_into_replay,
    write_demo_file,
)
from tests.conftest import Backend
from tests.demo_files import make
from tests.refusals import refused
from tests.strategies import numbered_rows, row, stored_numbers


def write(path: Path, episodes: Sequence[Sequence[make.Row]], success: Sequence[int] = ()) -> Path:
    """A file of some episodes."""
    rows = [row for episode in episodes for row in episode]
    table, start = [], 0
    for number, episode in enumerate(episodes):
        table.append(make.Episode(start, len(episode), success[number] if success else 0))
        start += len(episode)
    path.write_bytes(make.demo_bytes(len(rows[0].obs), len(rows[0].action), rows, table))
    return path


def numbered(first: int, count: int) -> list[make.Row]:
    """The rows that `stored_numbers` reads: a number, in each column in a way of its own."""
    rows = numbered_rows(first, count)
    return [
        make.Row(
            rows["obs"][i].tolist(),
            rows["action"][i].tolist(),
            float(rows["reward"][i]),
            rows["next_obs"][i].tolist(),
            float(rows["terminated"][i]),
        )
        for i in range(count)
    ]


def numbered_file(path: Path, first: int = 1, count: int = 6) -> Path:
    """Numbers that begin after a multiple of 3, in episodes of three that end in a terminal one."""
    rows = numbered(first, count)
    return write(path, [rows[i : i + 3] for i in range(0, count, 3)])


def step(number: float, reward: float, done: float = 0.0, flags: int = 0) -> make.Row:
    """A step from one number to the next, in an environment of one number."""
    return make.Row((number,), (10 * number,), reward, (number + 1,), done, flags)


# Six steps with a terminal end, a success, in which a human took over twice; two cut by the clock.
RISING = [
    step(0, 1, flags=2),
    step(1, 2, flags=3),
    step(2, 4, flags=2),
    step(3, 8, flags=2),
    step(4, 16, flags=2),
    step(5, 32, done=1.0, flags=3),
]
CUT = [step(20, 3, flags=1), step(21, 5)]


@pytest.fixture
def rising(tmp_path: Path) -> Path:
    return write(tmp_path / "rising.demo", [RISING, CUT], [1, 0])


def block_over(buffer: Any, batch: int, *, ready: bool = True) -> ReplaySampleStep:
    block = ReplaySampleStep(buffer, batch)
    if ready:
        block.setup(0)
    return block


def nstep_over(
    backend: Backend, n: int, gamma: float, *args: Any, n_envs: int = 1, **options: Any
) -> NStepSampleStep:
    """An n-step block that is set up, over a buffer with room for 20 rows."""
    columns = {"discount": (), **options.pop("extra_columns", {})}
    buffer = backend.buffer(*(args or (1, 1, 20)), extra_columns=columns, **options)
    return NStepSampleStep(block_over(buffer, 4), n, gamma, n_envs=n_envs)


def stored(backend: Backend, buffer: Any) -> dict[str, list[Any]]:
    """The rows held, column by column; a column of one number as a flat list."""
    columns = {}
    for column in buffer.columns:
        rows = backend.numpy(buffer.column(column.name))[: len(buffer)]
        columns[column.name] = (rows[:, 0] if column.shape == (1,) else rows).tolist()
    return columns


# What is stored


def test_rows_are_stored_and_pinned_and_reported(rising: Path, backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 20)
    report = load_demos_into_replay(buffer, rising, batch_size=4)
    assert (report.rows, report.file_rows) == (8, 8)
    assert report.mean_reward == (1 + 2 + 4 + 8 + 16 + 32 + 3 + 5) / 8
    assert len(buffer) == buffer.demo_count == 8
    assert stored(backend, buffer) == {
        "obs": [0, 1, 2, 3, 4, 5, 20, 21],
        "action": [0, 10, 20, 30, 40, 50, 200, 210],
        "reward": [1, 2, 4, 8, 16, 32, 3, 5],
        "next_obs": [1, 2, 3, 4, 5, 6, 21, 22],
        "terminated": [False] * 5 + [True] + [False] * 2,
    }
    buffer.check()


def test_a_block_stores_them_in_its_buffer_and_knows_the_batch(
    rising: Path, backend: Backend
) -> None:
    block = block_over(backend.buffer(1, 1, 20, extra_columns={"truncated": bool}), 12)
    assert load_demos_into_replay(block, rising).rows == 8
    assert block.count() == block.demo_count() == 8
    # The clock ended what the MDP did not.
    truncated = backend.numpy(block.buffer.column("truncated"))[:8].tolist()
    assert truncated == [False] * 7 + [True]
    batch = block.step(0)  # with a prefix smaller than the batch, and no online row
    assert batch is not None
    assert len(batch) == 12
    assert set(backend.numpy(batch.indices).tolist()) <= set(range(8))


def test_files_are_loaded_in_order(tmp_path: Path, backend: Backend) -> None:
    paths = [numbered_file(tmp_path / f"{i}.demo", first, 3) for i, first in enumerate((7, 1, 4))]
    buffer = backend.buffer(3, 2, 20)
    report = load_demos_into_replay(buffer, paths, batch_size=1)
    assert (report.rows, report.file_rows) == (9, 9)
    assert stored_numbers(buffer, backend.numpy)[:9] == [7, 8, 9, 1, 2, 3, 4, 5, 6]
    assert report.mean_reward == sum(range(21, 30)) / 9


def test_one_path_may_be_text_and_several_a_tuple(tmp_path: Path) -> None:
    backend = Backend("host")
    path = str(numbered_file(tmp_path / "a.demo"))
    for paths in (path, Path(path), [path], (path,)):
        assert load_demos_into_replay(backend.buffer(3, 2, 20), paths).rows == 6


@pytest.mark.parametrize(
    ("keep", "numbers"),
    [
        (None, [0, 1, 2, 3, 4, 5, 20, 21]),
        (DemoFilter(), [0, 1, 2, 3, 4, 5, 20, 21]),
        (DemoFilter(successful_only=True), [0, 1, 2, 3, 4, 5]),
        (DemoFilter(intervened_only=True), [1, 5, 20]),
        (DemoFilter(True, True), [1, 5]),
        (lambda demos: demos.rows["reward"] > 4, [3, 4, 5, 21]),
        (lambda demos: [True] + [False] * 7, [0]),
    ],
    ids=["none", "all", "successful", "intervened", "both", "own", "list"],
)
def test_a_filter_says_which_rows_are_kept(
    keep: Callable[[DemoSet], Any] | None, numbers: list[int], rising: Path, backend: Backend
) -> None:
    buffer = backend.buffer(1, 1, 20)
    report = load_demos_into_replay(buffer, [rising], keep, batch_size=4)
    rewards = {0: 1, 1: 2, 2: 4, 3: 8, 4: 16, 5: 32, 20: 3, 21: 5}
    assert stored(backend, buffer)["obs"] == numbers
    assert stored(backend, buffer)["reward"] == [rewards[number] for number in numbers]
    assert (report.rows, report.file_rows) == (len(numbers), 8)
    assert report.mean_reward == sum(rewards[number] for number in numbers) / len(numbers)
    assert buffer.demo_count == len(numbers)


def test_a_file_of_which_nothing_is_kept_may_stand_beside_others(
    tmp_path: Path, backend: Backend
) -> None:
    paths = [
        numbered_file(tmp_path / "a.demo", 1, 3),
        write(tmp_path / "b.demo", [numbered(4, 3)], [1]),
    ]
    buffer = backend.buffer(3, 2, 20)
    wins = lambda demos: np.full(len(demos), bool(demos.summary().successes))  # noqa: E731
    report = load_demos_into_replay(buffer, paths, wins, batch_size=1)
    assert (report.rows, report.file_rows) == (3, 6)
    assert stored_numbers(buffer, backend.numpy)[:3] == [4, 5, 6]


def test_whole_numbers_become_discrete_actions(tmp_path: Path, backend: Backend) -> None:
    episode = [make.Row((0.5,), (float(action),), 0.0, (0.5,)) for action in (3, 0, -7, 16777216)]
    path = write(tmp_path / "a.demo", [episode])
    buffer = backend.buffer(1, (), 20, action_dtype="int64")
    load_demos_into_replay(buffer, path, batch_size=4)
    actions = backend.numpy(buffer.column("action"))
    assert actions.dtype == np.int64
    assert actions[:4].tolist() == [3, 0, -7, 16777216]


def test_observations_take_the_buffers_shape(tmp_path: Path, backend: Backend) -> None:
    numbers = [float(number) for number in range(6)]
    path = write(tmp_path / "a.demo", [[make.Row(numbers, (1.0, 2.0), 0.0, numbers[::-1])]])
    buffer = backend.buffer((2, 3), (2, 1), 20)
    load_demos_into_replay(buffer, path, batch_size=4)
    assert backend.numpy(buffer.column("obs"))[0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert backend.numpy(buffer.column("next_obs"))[0].tolist() == [[5, 4, 3], [2, 1, 0]]
    assert backend.numpy(buffer.column("action"))[0].tolist() == [[1], [2]]


def test_observations_stored_as_uint8_are_the_nearest_codes(
    tmp_path: Path, backend: Backend
) -> None:
    path = write(tmp_path / "a.demo", [[make.Row((0.0, 1.0, 0.25), (1.0,), 0.0, (0.75, 0.5, 1.0))]])
    buffer = backend.buffer(3, 1, 20, obs_store_dtype="uint8")
    load_demos_into_replay(buffer, path, batch_size=4)
    assert backend.numpy(buffer.column("obs"))[0].tolist() == [0, 255, 64]  # 63.75
    assert backend.numpy(buffer.column("next_obs"))[0].tolist() == [191, 128, 255]  # 191.25, 127.5
    batch = buffer.sample(2)
    assert backend.numpy(batch.obs)[0].tolist() == [0, 1, np.float32(64) / np.float32(255)]


def test_observations_that_are_uint8_are_stored_as_they_are(
    tmp_path: Path, backend: Backend
) -> None:
    path = write(tmp_path / "a.demo", [[make.Row((0.0, 255.0), (1.0,), 0.0, (7.0, 8.0))]])
    buffer = backend.buffer(2, 1, 20, obs_dtype="uint8")
    load_demos_into_replay(buffer, path, batch_size=4)
    assert backend.numpy(buffer.column("obs"))[0].tolist() == [0, 255]
    assert backend.numpy(buffer.column("next_obs"))[0].tolist() == [7, 8]


# n-step: gamma 0.5, so that every return is exact


def test_n_step_windows_end_where_an_episode_ends(rising: Path, backend: Backend) -> None:
    block = nstep_over(backend, 3, 0.5, extra_columns={"truncated": bool})
    report = load_demos_into_replay(block, rising)
    assert (report.rows, report.file_rows) == (8, 8)
    assert report.mean_reward == 71 / 8  # of the rewards as filed, not of returns
    assert block.count() == block.demo_count() == 8
    assert stored(backend, block.buffer) == {
        "obs": [0, 1, 2, 3, 4, 5, 20, 21],
        "action": [0, 10, 20, 30, 40, 50, 200, 210],
        # 1 + 2/2 + 4/4, 2 + 4/2 + 8/4, 4 + 8/2 + 16/4, 8 + 16/2 + 32/4, 16 + 32/2, 32; 3 + 5/2, 5
        "reward": [3, 6, 12, 24, 32, 32, 5.5, 5],
        "next_obs": [3, 4, 5, 6, 6, 6, 22, 22],
        "terminated": [False] * 3 + [True] * 3 + [False] * 2,
        "discount": [0.125, 0.125, 0.125, 0, 0, 0, 0.25, 0.5],
        "truncated": [False] * 6 + [True] * 2,
    }
    block.buffer.check()


def test_n_step_windows_end_where_a_filter_leaves_a_gap(rising: Path, backend: Backend) -> None:
    block = nstep_over(backend, 3, 0.5, extra_columns={"truncated": bool})
    keep = np.array([1, 1, 0, 1, 1, 1, 1, 1], bool)
    report = load_demos_into_replay(block, rising, lambda _: keep)
    assert (report.rows, report.file_rows) == (7, 8)
    assert report.mean_reward == 67 / 7
    assert stored(backend, block.buffer) == {
        "obs": [0, 1, 3, 4, 5, 20, 21],
        "action": [0, 10, 30, 40, 50, 200, 210],
        "reward": [2, 2, 24, 32, 32, 5.5, 5],  # 1 + 2/2, then 2 alone
        "next_obs": [2, 2, 6, 6, 6, 22, 22],
        "terminated": [False] * 2 + [True] * 3 + [False] * 2,
        "discount": [0.25, 0.5, 0, 0, 0, 0.25, 0.5],
        "truncated": [True] * 2 + [False] * 3 + [True] * 2,
    }


def test_a_window_does_not_go_on_where_an_episodes_end_was_filtered_out(
    rising: Path, backend: Backend
) -> None:
    block = nstep_over(backend, 3, 0.5)
    keep = np.array([0, 0, 0, 0, 1, 0, 1, 0], bool)  # one step of each episode, neither its last
    load_demos_into_replay(block, rising, lambda _: keep)
    assert stored(backend, block.buffer) == {
        "obs": [4, 20],
        "action": [40, 200],
        "reward": [16, 3],
        "next_obs": [5, 21],
        "terminated": [False, False],
        "discount": [0.5, 0.5],
    }


def test_a_window_does_not_go_on_from_an_episode_cut_by_the_clock_to_the_next(
    tmp_path: Path, backend: Backend
) -> None:
    path = write(tmp_path / "a.demo", [CUT, [step(30, 16)], RISING[4:]])
    block = nstep_over(backend, 3, 0.25, extra_columns={"truncated": bool})
    load_demos_into_replay(block, path)
    held = stored(backend, block.buffer)
    assert held["obs"] == [20, 21, 30, 4, 5]
    assert held["reward"] == [4.25, 5, 16, 24, 32]  # 3 + 5/4, 5; 16; 16 + 32/4, 32
    assert held["next_obs"] == [22, 22, 31, 6, 6]
    assert held["discount"] == [0.0625, 0.25, 0.25, 0, 0]
    assert held["truncated"] == [True, True, True, False, False]


def test_a_window_does_not_go_on_from_one_file_to_the_next(
    tmp_path: Path, backend: Backend
) -> None:
    paths = [write(tmp_path / f"{i}.demo", [[step(10 * i, 4)]]) for i in range(3)]
    block = nstep_over(backend, 2, 0.5)
    load_demos_into_replay(block, paths)
    assert stored(backend, block.buffer)["reward"] == [4, 4, 4]
    assert stored(backend, block.buffer)["next_obs"] == [1, 11, 21]
    assert stored(backend, block.buffer)["discount"] == [0.5, 0.5, 0.5]


def test_n_step_demonstrations_do_not_mix_with_the_steps_that_follow(
    rising: Path, backend: Backend
) -> None:
    block = nstep_over(backend, 2, 0.5, n_envs=2)
    block.add_batch([[50], [60]], [[0], [0]], [2, 4], [[51], [61]], [0, 0], [0, 0])
    load_demos_into_replay(block, rising)  # while two steps are pending
    assert backend.numpy(block.nstep.pending).tolist() == [1, 1]
    block.add_batch([[51], [61]], [[0], [0]], [8, 8], [[52], [62]], [0, 1], [0, 0])
    held = stored(backend, block.buffer)
    assert held["obs"] == [0, 1, 2, 3, 4, 5, 20, 21, 50, 60, 61]
    assert held["reward"][8:] == [6, 8, 8]
    assert held["discount"][8:] == [0.25, 0, 0]
    assert block.demo_count() == 8


def test_n_step_blocks_of_discrete_actions_and_uint8_observations_take_demonstrations(
    tmp_path: Path, backend: Backend
) -> None:
    episode = [
        make.Row((0.0, 1.0), (3.0,), 1.0, (1.0, 0.0)),
        make.Row((1.0, 0.0), (2.0,), 2.0, (0.5, 0.0), 1.0),
    ]
    path = write(tmp_path / "a.demo", [episode])
    block = nstep_over(backend, 2, 0.5, 2, (), 20, action_dtype="int64", obs_store_dtype="uint8")
    load_demos_into_replay(block, path)
    assert stored(backend, block.buffer) == {
        "obs": [[0, 255], [255, 0]],
        "action": [3, 2],
        "reward": [2, 2],
        "next_obs": [[128, 0], [128, 0]],
        "terminated": [True, True],
        "discount": [0, 0],
    }


def test_a_window_of_one_step_is_the_step_with_its_discount(rising: Path, backend: Backend) -> None:
    block = nstep_over(backend, 1, 0.5)
    load_demos_into_replay(block, rising)
    held = stored(backend, block.buffer)
    assert held["reward"] == [1, 2, 4, 8, 16, 32, 3, 5]
    assert held["discount"] == [0.5] * 5 + [0] + [0.5] * 2


# What is refused leaves the buffer as it was


@contextmanager
def load_refused(
    backend: Backend, target: Any, error: type[ReplayError], *parts: str
) -> Iterator[None]:
    """As `refused`, of a buffer or of the one behind a block: nothing is stored or pinned."""
    buffer = getattr(target, "buffer", target)
    with refused(backend, buffer, error, *parts):
        yield
    assert buffer.demo_count == 0
    if isinstance(target, NStepSampleStep):
        assert not backend.numpy(target.nstep.pending).any()


def test_other_widths_are_refused(rising: Path, backend: Backend) -> None:
    for shapes, part in (
        ((2, 1), "obs: the demonstrations have 1 numbers"),
        ((1, 2), "action: the demonstrations have 1 numbers"),
        (((1, 2), 1), "(1, 2)"),
    ):
        buffer = backend.buffer(*shapes, 20)
        with load_refused(backend, buffer, ShapeError, part):
            load_demos_into_replay(buffer, rising, batch_size=4)


def test_files_of_different_widths_are_refused(
    rising: Path, tmp_path: Path, backend: Backend
) -> None:
    other = numbered_file(tmp_path / "other.demo")
    buffer = backend.buffer(1, 1, 20)
    for paths in ([rising, other], [other, rising]):
        with load_refused(backend, buffer, ShapeError, "3 numbers"):
            load_demos_into_replay(buffer, paths, batch_size=4)


def test_a_damaged_file_among_good_ones_is_refused(
    rising: Path, tmp_path: Path, backend: Backend
) -> None:
    bad = tmp_path / "bad.demo"
    bad.write_bytes(rising.read_bytes()[:-1])
    buffer = backend.buffer(1, 1, 20)
    with load_refused(backend, buffer, DemoFileError, "bad.demo", "cut"):
        load_demos_into_replay(buffer, [rising, bad], batch_size=4)
    with pytest.raises(FileNotFoundError):
        load_demos_into_replay(buffer, [rising, tmp_path / "none.demo"], batch_size=4)
    assert len(buffer) == 0


def test_nothing_kept_is_refused(rising: Path, tmp_path: Path, backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 20)
    with load_refused(backend, buffer, DemoFileError, "of 8 rows in 1 files none", "filter"):
        load_demos_into_replay(buffer, rising, lambda d: np.zeros(len(d), bool), batch_size=4)
    with load_refused(backend, buffer, DemoFileError, "0 files"):
        load_demos_into_replay(buffer, [], batch_size=4)


@pytest.mark.parametrize(
    "keep",
    [
        lambda d: np.ones(len(d)),
        lambda d: np.ones(len(d), np.int64),
        lambda d: np.ones(len(d) - 1, bool),
        lambda d: np.ones((len(d), 1), bool),
        lambda d: np.flatnonzero(d.rows["reward"]),
        lambda d: True,
        lambda d: None,
    ],
    ids=["float", "int", "short", "deep", "indices", "one", "none"],
)
def test_a_filter_that_gives_no_mask_is_refused(keep: Any, rising: Path) -> None:
    backend = Backend("host")
    buffer = backend.buffer(1, 1, 20)
    with load_refused(backend, buffer, ConfigurationError, "filter", "(8,)"):
        load_demos_into_replay(buffer, rising, keep)


def test_a_filters_own_error_comes_through_and_nothing_is_stored(
    rising: Path, backend: Backend
) -> None:
    def keep(demos: DemoSet) -> Any:
        raise KeyError("mine")

    buffer = backend.buffer(1, 1, 20)
    with pytest.raises(KeyError, match="mine"):
        load_demos_into_replay(buffer, rising, keep, batch_size=4)
    assert len(buffer) == buffer.demo_count == 0


def test_a_buffer_that_holds_rows_is_refused(rising: Path, backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 20)
    buffer.add([0], [0], 0, [0], False)
    with load_refused(backend, buffer, OrderError, "holds 1 rows", "before"):
        load_demos_into_replay(buffer, rising, batch_size=4)


def test_demonstrations_are_loaded_once(rising: Path, backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 20)
    load_demos_into_replay(buffer, rising, batch_size=4)
    with refused(backend, buffer, OrderError, "holds 8 rows"):
        load_demos_into_replay(buffer, rising, batch_size=4)
    assert buffer.demo_count == 8


def test_a_block_that_is_not_set_up_is_refused(rising: Path, backend: Backend) -> None:
    block = block_over(backend.buffer(1, 1, 20), 4, ready=False)
    with load_refused(backend, block, OrderError, "before setup"):
        load_demos_into_replay(block, rising)
    buffer = backend.buffer(1, 1, 20, extra_columns={"discount": ()})
    nstep = NStepSampleStep(block_over(buffer, 4, ready=False), 3, 0.5)
    with load_refused(backend, nstep, OrderError, "before setup"):
        load_demos_into_replay(nstep, rising)
    block.setup(0)
    assert load_demos_into_replay(block, rising).rows == 8


def test_a_prioritized_buffer_is_refused(rising: Path, backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 20, True)
    with load_refused(backend, buffer, OrderError, "prioritized"):
        load_demos_into_replay(buffer, rising, batch_size=4)
    nstep = nstep_over(backend, 3, 0.5, 1, 1, 20, True)
    with load_refused(backend, nstep, OrderError, "prioritized"):
        load_demos_into_replay(nstep, rising)


def test_a_buffer_with_ere_on_is_refused(rising: Path, backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 20)
    buffer.configure_ere()
    with load_refused(backend, buffer, OrderError, "ERE"):
        load_demos_into_replay(buffer, rising, batch_size=4)
    buffer.configure_ere(False)
    assert load_demos_into_replay(buffer, rising, batch_size=4).rows == 8


def test_too_little_room_for_a_minibatch_is_refused(rising: Path, backend: Backend) -> None:
    # 8 rows of 11: 3 are left.
    with load_refused(backend, buffer := backend.buffer(1, 1, 11), ConfigurationError, "3 of 11"):
        load_demos_into_replay(buffer, rising, batch_size=4)
    block = block_over(backend.buffer(1, 1, 11), 4)
    with load_refused(backend, block, ConfigurationError, "3 of 11"):
        load_demos_into_replay(block, rising)
    nstep = nstep_over(backend, 3, 0.5, 1, 1, 11)
    with load_refused(backend, nstep, ConfigurationError, "3 of 11"):
        load_demos_into_replay(nstep, rising)
    assert load_demos_into_replay(buffer, rising, batch_size=3).rows == 8
    assert load_demos_into_replay(block, rising, DemoFilter(True)).rows == 6


@pytest.mark.parametrize("capacity", [1, 7, 8])
def test_rows_that_leave_no_online_row_are_refused(
    capacity: int, rising: Path, backend: Backend
) -> None:
    buffer = backend.buffer(1, 1, capacity)
    with load_refused(backend, buffer, ConfigurationError, f"{capacity} rows"):
        load_demos_into_replay(buffer, rising, batch_size=1)


def test_extra_columns_are_refused(rising: Path, backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 20, extra_columns={"log_prob": (), "truncated": bool})
    with load_refused(backend, buffer, ConfigurationError, "log_prob"):
        load_demos_into_replay(buffer, rising, batch_size=4)
    nstep = nstep_over(backend, 3, 0.5, extra_columns={"log_prob": ()})
    with load_refused(backend, nstep, ConfigurationError, "log_prob"):
        load_demos_into_replay(nstep, rising)
    # A discount, where nothing says of how many steps.
    buffer = backend.buffer(1, 1, 20, extra_columns={"discount": ()})
    with load_refused(backend, buffer, ConfigurationError, "discount"):
        load_demos_into_replay(buffer, rising, batch_size=4)


def test_a_bare_device_buffer_needs_the_batch_size(rising: Path, device: Backend) -> None:
    buffer = device.buffer(1, 1, 20)
    with load_refused(device, buffer, ConfigurationError, "batch_size"):
        load_demos_into_replay(buffer, rising)
    assert load_demos_into_replay(buffer, rising, batch_size=4).rows == 8


def test_a_bare_host_buffer_does_not(rising: Path) -> None:
    buffer = Backend("host").buffer(1, 1, 9)
    assert load_demos_into_replay(buffer, rising).rows == 8
    assert len(buffer.sample(100)) == 100


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, True, "4"])
def test_a_batch_size_that_is_none_is_refused(
    batch_size: Any, rising: Path, backend: Backend
) -> None:
    buffer = backend.buffer(1, 1, 20)
    with load_refused(backend, buffer, ConfigurationError, "batch_size"):
        load_demos_into_replay(buffer, rising, batch_size=batch_size)


def test_a_block_takes_no_batch_size(rising: Path, backend: Backend) -> None:
    for block in (block_over(backend.buffer(1, 1, 20), 4), nstep_over(backend, 3, 0.5)):
        with load_refused(backend, block, ConfigurationError, "a block has its own"):
            load_demos_into_replay(block, rising, batch_size=4)


@pytest.mark.parametrize("target", [None, "buffer", 3])
def test_what_is_neither_block_nor_buffer_is_refused(target: Any, rising: Path) -> None:
    with pytest.raises(ConfigurationError, match=type(target).__name__):
        load_demos_into_replay(target, rising)


def test_values_that_a_column_cannot_hold_are_refused(tmp_path: Path, backend: Backend) -> None:
    half = write(tmp_path / "half.demo", [[make.Row((0.5,), (0.5,), 0.0, (0.5,))]])
    large = write(tmp_path / "large.demo", [[make.Row((256.0,), (300.0,), 0.0, (0.0,))]])
    for path, options, error in (
        (half, {"action_dtype": "int64"}, ColumnValueError),
        (half, {"obs_dtype": "uint8"}, ColumnValueError),
        (large, {"action_dtype": "int8"}, ColumnValueError),
        (large, {"obs_dtype": "uint8"}, ColumnValueError),
    ):
        buffer = backend.buffer(1, 1, 20, **options)
        with load_refused(backend, buffer, error):
            load_demos_into_replay(buffer, path, batch_size=4)
        nstep = nstep_over(backend, 2, 0.5, 1, 1, 20, **options)
        with load_refused(backend, nstep, error):
            load_demos_into_replay(nstep, path)


def test_loading_while_a_stream_captures_is_refused(rising: Path, device: Backend) -> None:
    for target in (device.buffer(1, 1, 20), nstep_over(device, 3, 0.5)):
        batch_size = None if isinstance(target, NStepSampleStep) else 4
        buffer = getattr(target, "buffer", target)
        before = buffer.stats()
        device.cupy.cuda.Device().synchronize()
        stream = device.cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            with pytest.raises(CaptureError):
                load_demos_into_replay(target, rising, batch_size=batch_size)
            stream.end_capture()
        assert buffer.stats() == before
        assert len(buffer) == buffer.demo_count == 0
        assert load_demos_into_replay(target, rising, batch_size=batch_size).rows == 8


def test_observations_outside_a_quantized_column_are_refused(
    tmp_path: Path, backend: Backend
) -> None:
    # also on a device, which clamps what an agent adds: a prefix stays for good
    path = write(tmp_path / "a.demo", [[step(0, 1), step(1, 1), step(2, 1)]])
    buffer = backend.buffer(1, 1, 20, obs_store_dtype="uint8")
    with load_refused(backend, buffer, ColumnValueError, "[0, 1]"):
        load_demos_into_replay(buffer, path, batch_size=4)


def test_numbers_beyond_a_columns_integers_are_refused(tmp_path: Path, backend: Backend) -> None:
    path = write(tmp_path / "a.demo", [[make.Row((0.5,), (1e20,), 0.0, (0.5,))]])
    buffer = backend.buffer(1, (), 20, action_dtype="int64")
    with load_refused(backend, buffer, ColumnValueError, "action", "e+20"):
        load_demos_into_replay(buffer, path, batch_size=4)


def test_a_window_ends_at_a_terminal_step_inside_a_filed_episode(
    tmp_path: Path, backend: Backend
) -> None:
    first, second = make.Row((0.0,), (0.0,), 1.0, (1.0,)), make.Row((1.0,), (0.0,), 2.0, (2.0,))
    path = write(tmp_path / "a.demo", [[replace(first, done=1.0), second]])
    block = nstep_over(backend, 3, 0.5)
    load_demos_into_replay(block, path)
    held = stored(backend, block.buffer)
    assert (held["reward"], held["discount"]) == ([1, 2], [0, 0.5])


def test_recorded_sets_may_be_loaded_like_files(tmp_path: Path, backend: Backend) -> None:
    demos = DemoSet(1, 1)
    demos.begin_episode()
    demos.add([0.5], [2.0], 3.0, [1.0], terminated=True)
    demos.end_episode(success=True)
    file = tmp_path / "a.demo"
    write_demo_file(file, demos)
    buffer = backend.buffer(1, 1, 20)
    report = load_demos_into_replay(buffer, (item for item in (demos, file)), batch_size=4)
    assert (report.rows, report.mean_reward) == (2, 3.0)
    assert backend.numpy(buffer.column("action"))[:2].ravel().tolist() == [2, 2]


# The prefix that was loaded


@pytest.mark.parametrize("batch_size", [1, 5, 7, 8])
def test_a_loaded_prefix_survives_three_wraps_and_fills_half_of_each_batch(
    batch_size: int, tmp_path: Path, backend: Backend
) -> None:
    block = block_over(backend.buffer(3, 2, 14, seed=4), batch_size)
    load_demos_into_replay(block, numbered_file(tmp_path / "a.demo"))  # rows 1 to 6
    prefix = {name: held[:6] for name, held in stored(backend, block.buffer).items()}
    added = 7
    while added < 7 + 3 * 8 + 3:
        for number in range(added, added + 3):
            block.add(**row(numbered_rows(number, 1), 0))
        added += 3
        batch = block.step(added)
        assert batch is not None
        numbers = backend.numpy(batch.reward) - 20
        demos, online = numbers[: batch_size // 2], numbers[batch_size // 2 :]
        assert len(numbers) == batch_size
        assert ((demos >= 1) & (demos <= 6)).all()
        assert ((online >= 7) & (online >= added - 8) & (online < added)).all()
        held = stored(backend, block.buffer)
        assert {name: rows[:6] for name, rows in held.items()} == prefix
        assert stored_numbers(block.buffer, backend.numpy)[:6] == [1, 2, 3, 4, 5, 6]
    block.buffer.check()


def test_a_prefix_smaller_than_the_batch_gives_full_batches(
    tmp_path: Path, backend: Backend
) -> None:
    block = block_over(backend.buffer(3, 2, 30, seed=4), 11)
    load_demos_into_replay(block, numbered_file(tmp_path / "a.demo", 1, 3))
    batch = block.step(0)
    assert batch is not None
    numbers = backend.numpy(batch.reward) - 20
    assert len(numbers) == 11
    assert set(numbers.tolist()) <= {1, 2, 3}
    block.add(**row(numbered_rows(50, 1), 0))
    batch = block.step(1)
    assert batch is not None
    numbers = backend.numpy(batch.reward) - 20
    assert set(numbers[:5].tolist()) <= {1, 2, 3}
    assert numbers[5:].tolist() == [50] * 6


def test_a_loaded_n_step_prefix_survives_three_wraps(rising: Path, backend: Backend) -> None:
    block = nstep_over(backend, 2, 0.5, 1, 1, 12, seed=4)
    load_demos_into_replay(block, rising)  # 8 rows, which leaves 4
    prefix = stored(backend, block.buffer)
    for number in range(100, 116):
        block.add([number], [0], 1, [number + 1], False, False)
        batch = block.step(0)
        assert batch is not None
        obs = backend.numpy(batch.obs).ravel()
        assert set(obs[:2].tolist()) <= {0, 1, 2, 3, 4, 5, 20, 21}
        first = max(100, number - 4)  # of the step before this, four are held
        assert ((obs[2:] >= first) & (obs[2:] < number)).all() or number == 100
    held = stored(backend, block.buffer)
    assert {name: rows[:8] for name, rows in held.items()} == prefix
    assert sorted(held["obs"][8:]) == [111, 112, 113, 114]
    block.buffer.check()


def test_a_larger_batch_than_was_said_is_refused_later(rising: Path, backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 12)
    load_demos_into_replay(buffer, rising, batch_size=3)
    assert len(buffer.sample(4)) == 4
    with refused(backend, buffer, ReplayError, "room for 4"):
        buffer.sample(5)


def set_of(actions: list[float]) -> DemoSet:
    """One episode with a step for each action."""
    demos = DemoSet(1, 1)
    demos.begin_episode()
    for number, action in enumerate(actions):
        demos.add([number / 8], [action], number, [(number + 1) / 8], False)
    demos.end_episode(success=True)
    return demos


def test_a_set_is_loaded_like_its_file(backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 20)
    assert load_demos_into_replay(buffer, set_of([1, 2, 3]), batch_size=4).rows == 3
    assert backend.numpy(buffer.column("action"))[:3].tolist() == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("dtype", "actions", "bad"),
    [
        ("uint8", [0.0, -1.0], "-1.0"),
        ("uint8", [7.0, 256.0], "256.0"),
        ("uint64", [0.0, -1.0], "-1.0"),
        ("int8", [3.0, -129.0], "-129.0"),
        ("int8", [0.0, 128.0], "128.0"),
        ("int64", [1.0, 0.5], "0.5"),
    ],
)
def test_the_number_that_a_column_of_integers_does_not_hold_is_named(
    dtype: str, actions: list[float], bad: str, backend: Backend
) -> None:
    buffer = backend.buffer(1, 1, 20, action_dtype=dtype)
    with load_refused(backend, buffer, ColumnValueError, f"action: {bad} was filed"):
        load_demos_into_replay(buffer, set_of(actions), batch_size=4)


@pytest.mark.parametrize(
    ("dtype", "actions"),
    [
        ("uint8", [0, 255]),
        ("int8", [-128, 127]),
        ("int64", [-(2**63), 2**62]),
        ("uint64", [0, 2**63]),
    ],
)
def test_the_ends_of_a_column_of_integers_are_loaded(
    dtype: str, actions: list[int], backend: Backend
) -> None:
    buffer = backend.buffer(1, 1, 20, action_dtype=dtype)
    load_demos_into_replay(buffer, set_of([float(action) for action in actions]), batch_size=4)
    assert backend.numpy(buffer.column("action"))[:2, 0].tolist() == actions


def test_a_block_that_is_not_set_up_is_named(rising: Path, backend: Backend) -> None:
    block = block_over(backend.buffer(1, 1, 20), 4, ready=False)
    with load_refused(backend, block, OrderError, "load_demos_into_replay before setup"):
        load_demos_into_replay(block, rising)
