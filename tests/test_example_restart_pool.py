"""The example of the restart pool, in forms that take seconds."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from tests.girder_machine import EXAMPLES, example
from tests.test_examples import require, run


@pytest.fixture
def nes() -> Any:
    require("cynes", "gymnasium", "matplotlib", "tqdm")
    return example("restart_pool_nes")


def test_the_quick_form_prints_a_line_for_each_run_and_draws_three_pictures(
    nes: Any, tmp_path: Path
) -> None:
    program = str(EXAMPLES / "restart_pool_nes.py")
    ran = run(program, "--quick", "--seed", "1", "--plot", str(tmp_path / "pictures"))
    assert ran.returncode == 0, ran.stderr
    number = r"(\d+\.\d+|nan)"
    for line, selection in zip(ran.stdout.splitlines(), nes.SELECTIONS, strict=False):
        assert re.fullmatch(
            rf"{selection}: \d+ episodes, \d+ of them restarted; deepest from a normal start "
            rf"{number} levels, of all {number}; mean of the late normal starts {number}; "
            r"\d+ buckets",
            line,
        )
    for line, patience in zip(ran.stdout.splitlines()[3:], nes.PATIENCE, strict=True):
        assert re.fullmatch(
            rf"a dead end that is {patience}: \d+ episodes completed; {number} of 8 environments "
            r"in it on average, \d at the end; \d+ points dropped",
            line,
        )
    total = 5 * nes.QUICK_STEPS
    assert f"{total}/{total}" in ran.stderr  # the progress bar
    pictures = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert pictures == [f"restart_pool_{name}.png" for name in ("buckets", "dead_end", "depth")]
    for name in pictures:
        assert (tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG")


def test_one_seed_gives_one_run_and_another_seed_another(
    nes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nes, "TIME_LIMIT", 7)
    monkeypatch.setattr(nes, "RESTART_LIMIT", 4)
    one, two, other = (nes.learn("uniform", seed, 72) for seed in (3, 3, 4))
    assert one == two != other
    assert any(episode.restarted for episode in one.episodes)


def test_normal_starts_are_never_restarted_and_end_where_the_clock_says(
    nes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nes, "TIME_LIMIT", 5)
    result = nes.learn("normal starts", 0, 48)
    assert [episode.restarted for episode in result.episodes] == [False] * len(result.episodes)
    # Each of the four environments is cut after five steps of its own, if it is not lost before.
    ends = [[e.step for e in result.episodes if e.step % 4 == number] for number in range(4)]
    waits = [b - a for own in ends for a, b in itertools.pairwise([own[0] % 4 - 4, *own])]
    assert max(waits) == 5 * 4
    # A step is four frames, of two places each.
    assert all(0 <= episode.depth <= 5 * 8 / 240 for episode in result.episodes)
    assert sum(bucket["restarts"] for bucket in result.buckets.values()) == 0


def test_a_dead_end_holds_environments_until_it_is_dropped(
    nes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nes, "DEAD_ENVS", 3)
    never, third = (nes.meet_dead_end(patience, 0, 90) for patience in nes.PATIENCE)
    assert never.dropped == 0 < third.dropped
    assert len(never.stuck) == len(third.stuck) == 30
    # Until the first budget has expired nothing differs: a third of 30 steps.
    assert never.stuck[:9] == third.stuck[:9]
    assert max(third.stuck) > 0
