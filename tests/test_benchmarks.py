"""The benchmark runs and reports whole; what it measures is nobody's promise here."""

import gc
import json
import os
import random
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import cpreplay
from benchmarks import (
    checkpoint_formats,
    checkpoints,
    contenders,
    prioritized,
    restart_pool,
    uniform,
)
from benchmarks.checkpoint_formats import other_formats
from benchmarks.copy_bound import copy_loops
from benchmarks.interleave import Following, interleaved, ratio, time_block
from benchmarks.machine import NOT_INSTALLED, describe_machine
from benchmarks.prioritized_contenders import PrioritizedCpreplay, check_draws

ROOT = Path(__file__).resolve().parents[1]
SMALL = ["--quick", "--rounds", "2", "--rows", "5000", "--pixel-rows", "64"]
SMALL_PRIORITIZED = ["--quick", "--rounds", "2", "--rows", "5000"]
SMALL_CHECKPOINTS = [
    *("--quick", "--rounds", "1", "--rows", "500", "--frame-rows", "40"),
    *("--gigabytes", "0.01", "--seconds", "0.01"),
]


def test_the_quick_benchmark_times_every_installed_contender_in_every_case(tmp_path):
    path = tmp_path / "uniform.json"
    run = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "uniform.py", *SMALL, "--json", path],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(path.read_text())

    assert report["settings"] == {"rounds": 2, "rows": 5000, "pixel_rows": 64, "quick": True}
    assert {"cpu", "cores", "caches", "python"} <= report["machine"].keys()
    assert report["numpy"] == np.__version__
    assert list(report["contenders"]) == ["cpreplay", "cpprb", "rlox"]
    installed = {
        name for name, one in report["contenders"].items() if one["version"] != NOT_INSTALLED
    }
    assert "cpreplay" in installed
    assert [(one["workload"], one["case"]) for one in report["results"]] == [
        (workload, case) for workload, cases in uniform.CASES.items() for case in cases
    ]
    for result in report["results"]:
        expected = installed - ({"rlox"} if result["workload"] == "pixels" else set())
        assert expected <= result["microseconds"].keys()
        for timing in result["microseconds"].values():
            assert 0 < timing["lower_quartile"] <= timing["median"] <= timing["upper_quartile"]
        assert ("best_peer" in result) == bool(expected - {"cpreplay"})
        assert result["case"] in run.stdout
    bounded = report["results"][-1]
    assert {"np.copyto", "memmove"} <= bounded["microseconds"].keys()
    assert bounded["ratio_to_best_bound"] > 0
    assert "not compared" in run.stdout
    assert "are not for comparison" in " ".join(run.stdout.split())


def test_the_quick_prioritized_benchmark_times_every_installed_contender_in_every_case(tmp_path):
    path = tmp_path / "prioritized.json"
    run = subprocess.run(
        [
            sys.executable,
            ROOT / "benchmarks" / "prioritized.py",
            *SMALL_PRIORITIZED,
            "--json",
            path,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(path.read_text())

    assert report["settings"] == {"rounds": 2, "rows": 5000, "quick": True}
    assert list(report["contenders"]) == ["cpreplay", "cpprb", "rlox", "torchrl"]
    installed = {
        name for name, one in report["contenders"].items() if one["version"] != NOT_INSTALLED
    }
    assert "cpreplay" in installed
    for name in report["contenders"].keys() - installed:
        assert f"{name} is not installed and is left out" in run.stdout
    assert [one["case"] for one in report["results"]] == prioritized.CASES
    for result in report["results"]:
        assert installed == result["microseconds"].keys()
        for timing in result["microseconds"].values():
            assert 0 < timing["lower_quartile"] <= timing["median"] <= timing["upper_quartile"]
        assert ("best_peer" in result) == bool(installed - {"cpreplay"})
        assert result["case"] in run.stdout
    assert "are not for comparison" in " ".join(run.stdout.split())


def test_a_prioritized_step_updates_the_rows_that_it_has_just_drawn(monkeypatch):
    log = []

    def watch(name):
        real = getattr(cpreplay.StoreReplay, name)

        def logged(self, *arguments, **options):
            result = real(self, *arguments, **options)
            log.append((name, arguments[0] if name == "update_priorities" else result))
            return result

        monkeypatch.setattr(cpreplay.StoreReplay, name, logged)

    for name in ("add", "add_batch", "sample", "update_priorities"):
        watch(name)
    blocks = PrioritizedCpreplay().blocks(300)
    assert sorted(blocks) == sorted(prioritized.CASES)
    for case, names in {
        "sample(64)": ["sample"],
        "step(64, out=)": ["sample", "update_priorities"],
        "add": ["add"],
        "add_batch(64)": ["add_batch"],
        "add + step(256)": ["add", "sample", "update_priorities"],
    }.items():
        log.clear()
        blocks[case][0]()
        assert [name for name, _ in log] == names
    assert log[2][1] is log[1][1]
    log.clear()
    time_block(blocks["update(64)"])
    assert [name for name, _ in log] == ["sample", "update_priorities"] * (len(log) // 2)
    assert all(drawn[1] is updated[1] for drawn, updated in zip(log[::2], log[1::2], strict=True))


def test_draws_that_do_not_follow_the_priorities_or_are_of_other_rows_are_refused(monkeypatch):
    rows = 20_000

    class Uniform(PrioritizedCpreplay):
        def draw(self, batch_size, *, into_fixed=False):
            return lambda: self._buffer.sample_range(batch_size, 0, rows)

        def drawn(self, batch):
            columns, indices, _ = super().drawn(batch)
            return columns, indices, (0.03 * 2.0 ** (indices % 8) + 1e-6) ** (0.6 * -0.4)

    class Unweighted(PrioritizedCpreplay):
        def drawn(self, batch):
            columns, indices, weights = super().drawn(batch)
            return columns, indices, np.ones_like(weights)

    class Shifted(PrioritizedCpreplay):
        def drawn(self, batch):
            columns, indices, weights = super().drawn(batch)
            return columns, (indices + 8) % rows, weights

    class Outside(PrioritizedCpreplay):
        def drawn(self, batch):
            columns, indices, weights = super().drawn(batch)
            return columns, indices + 2 * rows, weights

    for adapter, complaint in (
        (PrioritizedCpreplay, None),
        (Uniform, "does not draw by priority"),
        (Unweighted, "gave weights of other priorities"),
        (Shifted, "gave a row that was never added"),
        (Outside, "gave rows outside the ring"),
    ):
        contender = adapter()
        contender.fill(rows)
        refused = pytest.raises(RuntimeError, match=f"cpreplay {complaint}")
        with refused if complaint else nullcontext():
            check_draws(contender, rows)


def test_a_following_block_times_only_what_follows_and_hands_it_what_came_before():
    given = []

    def slow():
        time.sleep(0.01)
        return len(given)

    taken = time_block(Following(slow, given.append, 5))
    assert given == [0, 1, 2, 3, 4, 5]  # the first is the one that is not timed
    assert 0 < taken < 5000


def test_a_missing_peer_has_a_column_that_says_so(monkeypatch, capsys):
    monkeypatch.setattr(contenders, "package_version", lambda name: NOT_INSTALLED)
    uniform.main([*SMALL, "--only", "transitions add"])
    lines = capsys.readouterr().out.splitlines()
    (add,) = (line for line in lines if line.startswith("add "))
    assert add.count(NOT_INSTALLED) == 2
    assert any(line.startswith("rlox not installed: ") for line in lines)


def test_a_ring_that_is_not_full_or_holds_other_rows_is_refused(monkeypatch):
    adapter = contenders.Cpreplay()
    adapter.transition_blocks(300)
    adapter.pixel_blocks(20)
    add_batch = cpreplay.StoreReplay.add_batch

    def exchanged(self, obs, action, reward, next_obs, terminated):
        return add_batch(self, next_obs, action, reward, obs, terminated)

    monkeypatch.setattr(cpreplay.StoreReplay, "add_batch", exchanged)
    for fill in (adapter.transition_blocks, adapter.pixel_blocks):
        with pytest.raises(RuntimeError, match="cpreplay gave a row that was never added"):
            fill(20)
    monkeypatch.setattr(
        cpreplay.StoreReplay,
        "add_batch",
        lambda self, *columns: add_batch(self, *(column[:5] for column in columns)),
    )
    with pytest.raises(RuntimeError, match="cpreplay holds 5 rows, not 20"):
        adapter.transition_blocks(20)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell")
def test_the_cores_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 6})
    assert describe_machine()["cores"] == 3


def test_a_case_that_does_not_exist_is_refused():
    with pytest.raises(SystemExit, match="no case is like nonsense"):
        uniform.main([*SMALL, "--only", "nonsense"])
    with pytest.raises(SystemExit, match="no case is like nonsense"):
        prioritized.main([*SMALL_PRIORITIZED, "--only", "nonsense"])


def test_a_chart_is_drawn_where_matplotlib_is(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "chart.png"
    uniform.main([*SMALL, "--only", "transitions add", "--plot", str(path)])
    assert path.read_bytes().startswith(b"\x89PNG")


def test_every_plain_copy_copies_the_rows_that_were_drawn_and_goes_around():
    rng = np.random.default_rng(0)
    sources = list(rng.integers(0, 256, (2, 50, 6, 7), np.uint8))
    drawn = rng.integers(0, 50, (3, 4))
    for name, make_copy in copy_loops().items():
        targets = [np.zeros((4, 6, 7), np.uint8) for _ in sources]
        copy = make_copy(targets, sources, drawn)
        for rows in (*drawn, drawn[0]):
            copy()
            for target, source in zip(targets, sources, strict=True):
                np.testing.assert_array_equal(target, source[rows], err_msg=name)


def test_a_round_times_each_block_once_with_the_collector_off_and_leaves_it_on():
    seen = {"a": [], "b": []}
    cases = {
        "case": {
            name: [lambda log=log: log.append(gc.isenabled())] * 3 for name, log in seen.items()
        }
    }
    timed = list(interleaved(cases, 5, random.Random(0)))
    assert sorted(name for _, name, _ in timed) == ["a"] * 5 + ["b"] * 5
    assert len({tuple(name for _, name, _ in timed[i : i + 2]) for i in range(0, 10, 2)}) == 2
    assert gc.isenabled()
    # the first of the four calls a round is the one that is not timed
    assert seen == {"a": [True, False, False, False] * 5, "b": [True, False, False, False] * 5}


def test_a_ratio_compares_times_of_the_same_round():
    assert ratio(np.array([1.0, 30.0, 20.0]), np.array([2.0, 20.0, 200.0])) == 0.5


def test_the_checkpoint_benchmark_reports_files_stalls_and_memory(tmp_path, capsys):
    path = tmp_path / "checkpoints.json"
    checkpoints.main([*SMALL_CHECKPOINTS, "--folder", str(tmp_path), "--json", str(path)])
    printed = capsys.readouterr().out
    report = json.loads(path.read_text())
    assert list(report["files"]) == ["frames", "transitions", "prioritized"]
    # two frames of 84 x 84, an action of 8 bytes, a reward of 4 and a flag; 41 float32 and a flag
    for workload, raw in {
        "frames": 40 * (2 * 84 * 84 + 13),
        "transitions": 500 * 165,
        "prioritized": 500 * 169,
    }.items():
        result = report["files"][workload]
        assert result["raw_bytes"] == raw
        installed = {one.name for one in other_formats() if one.is_installed}
        assert result["seconds"].keys() == installed | {"cpreplay"}
        assert result["seconds"]["cpreplay"].keys() == {"write", "load", "resume"}
        assert result["bytes"]["plain copy"] == raw
        for taken in result["seconds"].values():
            assert all(len(rounds) == 1 and rounds[0] > 0 for rounds in taken.values())
    for one in report["stalls"]:
        assert one["saves"] >= 1
        assert len(one["microseconds"]) == 4
        for taken in one["microseconds"].values():
            assert 0 < taken["median"] <= taken["p99"] <= taken["max"]
    assert {(one["workload"], one["trainer"]) for one in report["stalls"]} == {
        (workload, trainer)
        for workload in ("frames", "prioritized")
        for trainer in ("flat out", "2 ms between")
    }
    if sys.platform == "linux":
        frames, transitions = report["memory"]
        assert frames["rows"] == 10_000_000 // (2 * 84 * 84 + 13)
        assert transitions["leaves_bytes"] == 4 * transitions["rows"]
        assert all(one["peak_bytes"] >= one["before_bytes"] > 0 for one in report["memory"])
    assert [item.name for item in tmp_path.iterdir()] == ["checkpoints.json"]
    for name in report["formats"]:
        assert f"\n{name}" in printed
    assert "nothing else" in printed


def test_a_format_that_gives_other_rows_back_or_is_missing_is_told(monkeypatch, tmp_path):
    def read(self, path, like):
        return {name: array[::-1] for name, array in like.items()}

    monkeypatch.setattr(checkpoint_formats.Npz, "read", read)
    monkeypatch.setattr(checkpoints, "OTHERS", [checkpoint_formats.Npz()])
    buffer = checkpoints.filled_buffer("transitions", 50)
    with pytest.raises(RuntimeError, match="npz stored gave other rows back"):
        checkpoints.time_files(buffer, tmp_path, 1, random.Random(0))
    monkeypatch.setattr(checkpoints, "OTHERS", [checkpoint_formats.Raw()])
    result = checkpoints.time_files(buffer, tmp_path, 1, random.Random(0))
    monkeypatch.setattr(
        checkpoints, "OTHERS", [checkpoint_formats.Raw(), checkpoint_formats.Hdf5()]
    )
    *_, line = checkpoints.files_table("transitions", result).splitlines()
    assert line.startswith("HDF5 ") and line.count(NOT_INSTALLED) == 7


def test_frames_of_the_benchmark_follow_each_other_and_change():
    rows = list(checkpoints.frame_rows(700, 1))
    assert [len(columns[0]) for columns in rows] == [500, 200]
    obs, next_obs = (np.concatenate([columns[place] for columns in rows]) for place in (0, 3))
    assert obs.shape == (700, 84, 84)
    np.testing.assert_array_equal(obs[1:], next_obs[:-1])
    assert len({frame.tobytes() for frame in obs}) == 700


def test_the_restart_pool_benchmark_reports_offers_draws_and_files(tmp_path, capsys):
    path = tmp_path / "pool.json"
    restart_pool.main(["--quick", "--points", "6", "--folder", str(tmp_path), "--json", str(path)])
    results = json.loads(path.read_text())["results"]
    assert results["points"] == 6
    assert results["raw_bytes"] == 6 * (272_000 + 4 * 84 * 84)
    assert 0 < results["compressed_bytes"] < results["file_bytes"] < results["raw_bytes"]
    assert {"offer without a save", "draw without a save"} <= results["microseconds"].keys()
    for taken in results["microseconds"].values():
        assert 0 < taken["median"] <= taken["p99"] <= taken["max"]
    assert {what: len(rounds) for what, rounds in results["seconds"].items()} == {
        "save": 1,
        "load": 1,
    }
    assert "6 points in one bucket" in capsys.readouterr().out
    assert [item.name for item in tmp_path.iterdir()] == ["pool.json"]
