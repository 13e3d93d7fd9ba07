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
    bounds,
    checkpoint_formats,
    checkpoints,
    contenders,
    device,
    peers,
    restart_pool,
)
from benchmarks.checkpoint_formats import other_formats
from benchmarks.contenders import blocks_of, cases_of, check_priorities
from benchmarks.interleave import Following, interleaved, ratio, shortened, time_block
from benchmarks.libraries import CONTENDERS
from benchmarks.libraries.ours import Cpreplay, CpreplayRing
from benchmarks.machine import NOT_INSTALLED, describe_machine
from benchmarks.workloads import PIXELS, PRIORITIZED, UNIFORM, check_rows
from tests.conftest import Backend

ROOT = Path(__file__).resolve().parents[1]
SMALL = [
    *("--quick", "--rounds", "2", "--rows", "5000", "--pixel-rows", "64"),
    *("--growth", "2000", "7000"),
]
SMALL_CHECKPOINTS = [
    *("--quick", "--rounds", "1", "--rows", "500", "--frame-rows", "40"),
    *("--gigabytes", "0.01", "--seconds", "0.01"),
]
DRAWS = ("sample", "step")
needs_a_compiler = pytest.mark.skipif(bounds.loops() is None, reason="there is no C compiler")


def test_the_quick_benchmark_times_every_installed_library_in_every_case(tmp_path):
    path, page = tmp_path / "peers.json", tmp_path / "peers.md"
    files = ["--json", path, "--markdown", page]
    run = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "peers.py", *SMALL, *files],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(path.read_text())

    assert report["settings"] == {
        "rounds": 2,
        "rows": [5000],
        "pixel_rows": 64,
        "growth": [2000, 7000],
        "quick": True,
    }
    assert {"cpu", "cores", "caches", "python"} <= report["machine"].keys()
    assert report["numpy"] == np.__version__
    assert list(report["contenders"]) == [
        *("cpreplay", "cpprb", "rlox", "stable-baselines3", "torchrl", "flashbax", "tianshou"),
    ]
    installed = {one.name: one.workloads for one in CONTENDERS if one.version != NOT_INSTALLED}
    for name in report["contenders"].keys() - installed.keys():
        assert f"{name} is not installed and is left out" in run.stdout
    assert [(one["workload"], one["rows"], one["case"]) for one in report["results"]] == [
        *(("uniform", 5000, case) for case in cases_of(UNIFORM, 5000)),
        *(("prioritized", 5000, case) for case in cases_of(PRIORITIZED, 5000)),
        *(("pixels", 64, case) for case in cases_of(PIXELS, 64)),
        ("uniform", 2000, "sample(256)"),
        ("prioritized", 2000, "step(256)"),
        ("uniform", 7000, "sample(256)"),
        ("prioritized", 7000, "step(256)"),
    ]
    for result in report["results"]:
        case, timed = result["case"], result["microseconds"].keys()
        assert {name for name, names in installed.items() if result["workload"] in names} == (
            timed - {"cpreplay out=", "touch", "memcpy", "empty call"}
        )
        draws = case.startswith(DRAWS)
        assert ("cpreplay out=" in timed) == draws
        assert ("empty call" in timed) == (case == "add" or case.startswith("add_batch"))
        if bounds.loops() is not None:
            limited = draws or case.startswith("add_batch")
            assert ("touch" in timed or "memcpy" in timed) == limited
        for timing in result["microseconds"].values():
            assert 0 < timing["lower_quartile"] <= timing["median"] <= timing["upper_quartile"]
        assert ("best_peer" in result) == (len(installed) > 1)
        assert case in run.stdout
        assert f"`{case}`" in page.read_text()
    assert "are not for comparison" in " ".join(run.stdout.split())


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda one: one.name)
def test_every_installed_library_holds_and_draws_what_went_in(contender):
    if contender.version == NOT_INSTALLED:
        pytest.skip(f"{contender.name} is not installed")
    for workload, rows in ((UNIFORM, 600), (PRIORITIZED, 20_000), (PIXELS, 20)):
        if workload.name in contender.workloads:
            ring = contender.full_ring(workload, rows)
            for case in cases_of(workload, rows):
                for block in blocks_of(ring, case).values():
                    assert time_block(block) > 0


def test_batches_are_no_larger_than_the_ring():
    assert cases_of(UNIFORM, 300) == ["sample(32)", "sample(256)", "add", "add_batch(64)"]
    assert cases_of(PIXELS, 40) == ["sample(32)", "add"]
    assert cases_of(PRIORITIZED, 10**6)[-7:] == [
        *("sample(32768)", "update(32768)", "step(32768)"),
        *("add", "add_batch(64)", "add_batch(4096)", "add + step(256)"),
    ]


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
    ring = Cpreplay().full_ring(PRIORITIZED, 300)
    for case, ways, names in (
        ("sample(32)", ["", "out="], ["sample"]),
        ("step(32)", ["", "out="], ["sample", "update_priorities"]),
        ("add", [""], ["add"]),
        ("add_batch(64)", [""], ["add_batch"]),
        ("add + step(256)", [""], ["add", "sample", "update_priorities"]),
    ):
        blocks = blocks_of(ring, case)
        assert list(blocks) == ways
        for block in blocks.values():
            log.clear()
            block[0]()
            assert [name for name, _ in log] == names
    assert log[2][1] is log[1][1]
    (updates,) = blocks_of(ring, "update(32)").values()
    log.clear()
    time_block(updates)
    assert [name for name, _ in log] == ["sample", "update_priorities"] * (len(log) // 2)
    assert all(drawn[1] is updated[1] for drawn, updated in zip(log[::2], log[1::2], strict=True))


def test_draws_into_fixed_arrays_are_into_the_same_ones_again():
    ring = Cpreplay().full_ring(UNIFORM, 300)
    blocks = blocks_of(ring, "sample(32)")
    assert blocks["out="][0]() is blocks["out="][1]()
    assert blocks[""][0]() is not blocks[""][1]()


def test_draws_that_do_not_follow_the_priorities_or_are_of_other_rows_are_refused():
    rows = 20_000

    class Uniform(CpreplayRing):
        def draw(self, batch_size, *, into_fixed=False):
            return lambda: self.buffer.sample_range(batch_size, 0, rows)

        def drawn(self, batch):
            drawn = super().drawn(batch)
            weights = (0.03 * 2.0 ** (drawn.rows % 8) + 1e-6) ** (0.6 * -0.4)
            return contenders.Drawn(drawn.columns, drawn.rows, weights)

    class Unweighted(CpreplayRing):
        def drawn(self, batch):
            drawn = super().drawn(batch)
            return contenders.Drawn(drawn.columns, drawn.rows, np.ones_like(drawn.weights))

    class Weightless(CpreplayRing):
        def drawn(self, batch):
            drawn = super().drawn(batch)
            drawn.weights[:5] = 0
            return drawn

    class Shifted(CpreplayRing):
        def drawn(self, batch):
            drawn = super().drawn(batch)
            return contenders.Drawn(drawn.columns, (drawn.rows + 8) % rows, drawn.weights)

    class Outside(CpreplayRing):
        def drawn(self, batch):
            drawn = super().drawn(batch)
            return contenders.Drawn(drawn.columns, drawn.rows + 2 * rows, drawn.weights)

    for ring, complaint in (
        (CpreplayRing, None),
        (Uniform, "does not draw by priority"),
        (Unweighted, "gave weights of other priorities"),
        (Weightless, "gave weights of 0"),
        (Shifted, "gave a row that was never added"),
        (Outside, "gave a row that was never added"),
    ):

        class Adapter(Cpreplay):
            pass

        Adapter.ring = ring
        refused = pytest.raises(RuntimeError, match=f"cpreplay {complaint}")
        with refused if complaint else nullcontext():
            Adapter().full_ring(PRIORITIZED, rows)


def test_a_ring_that_allows_strays_may_have_that_share_of_them_and_no_more():
    class Straying(CpreplayRing):
        strays = 0.01
        lost = 2  # of 200 lanes

        def drawn(self, batch):
            drawn = super().drawn(batch)
            drawn.weights[: self.lost] = 0
            return drawn

    ring = Straying(PRIORITIZED, 2000)
    ring.fill(PRIORITIZED.chunks(2000))
    check_priorities("cpreplay", ring)
    ring.lost = 3
    with pytest.raises(RuntimeError, match="cpreplay gave weights of 0"):
        check_priorities("cpreplay", ring)


def test_a_following_block_times_only_what_follows_and_hands_it_what_came_before():
    given = []

    def slow():
        time.sleep(0.01)
        return len(given)

    taken = time_block(Following(slow, given.append, 5))
    assert given == [0, 1, 2, 3, 4, 5]  # the first is the one that is not timed
    assert 0 < taken < 5000


def test_blocks_of_slow_calls_are_cut_to_a_few_milliseconds():
    def slow(*_):
        time.sleep(0.002)

    assert len(shortened([slow] * 50)) == 1
    assert shortened(Following(int, slow, 50)).times == 1
    assert len(shortened([int] * 50)) == 50


def test_a_missing_peer_has_a_column_that_says_so(monkeypatch, capsys):
    monkeypatch.setattr(contenders, "package_version", lambda name: NOT_INSTALLED)
    peers.main([*SMALL, "--growth", "--only", "prioritized 5000 add_batch"])
    lines = capsys.readouterr().out.splitlines()
    (add,) = (line for line in lines if line.startswith("add_batch(64) "))
    # Stable-Baselines3 has no priorities
    assert add.count(NOT_INSTALLED) == 5
    assert any(line.startswith("rlox not installed: ") for line in lines)


def test_a_ring_that_is_not_full_or_holds_other_rows_is_refused(monkeypatch):
    adapter = Cpreplay()
    adapter.full_ring(UNIFORM, 300)
    adapter.full_ring(PIXELS, 20)
    add_batch = cpreplay.StoreReplay.add_batch

    def exchanged(self, obs, action, reward, next_obs, terminated):
        return add_batch(self, next_obs, action, reward, obs, terminated)

    monkeypatch.setattr(cpreplay.StoreReplay, "add_batch", exchanged)
    for workload in (UNIFORM, PIXELS):
        with pytest.raises(RuntimeError, match="cpreplay gave a row that was never added"):
            adapter.full_ring(workload, 20)
    monkeypatch.setattr(
        cpreplay.StoreReplay,
        "add_batch",
        lambda self, *columns: add_batch(self, *(column[:5] for column in columns)),
    )
    with pytest.raises(RuntimeError, match="cpreplay holds 5 rows, not 20"):
        adapter.full_ring(UNIFORM, 20)


def test_drawn_rows_are_looked_for_where_their_numbers_say_or_anywhere():
    obs, action, reward, next_obs, terminated = UNIFORM.make(20, 0)
    lanes = np.array([3, 19])
    drawn = [column[lanes] for column in (obs, action, reward[:, None], next_obs, terminated)]
    check_rows("x", UNIFORM, 20, drawn, None)
    check_rows("x", UNIFORM, 20, drawn, lanes)
    for rows in ([3, 18], [3, 20], [-17, 19]):
        with pytest.raises(RuntimeError, match="x gave a row that was never added"):
            check_rows("x", UNIFORM, 20, drawn, np.array(rows))
    drawn[4] = ~drawn[4]
    with pytest.raises(RuntimeError, match="x gave a row that was never added"):
        check_rows("x", UNIFORM, 20, drawn, None)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell")
def test_the_cores_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 6})
    assert describe_machine()["cores"] == 3


def test_a_case_or_a_library_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit, match="no case is like nonsense"):
        peers.main([*SMALL, "--only", "nonsense"])
    with pytest.raises(SystemExit):
        peers.main([*SMALL, "--peers", "nonsense"])
    assert "invalid choice" in capsys.readouterr().err


def test_only_the_libraries_that_are_asked_for_stand_beside_ours(capsys, tmp_path):
    path = tmp_path / "own.json"
    only = ["--only", "uniform 5000 add", "--peers"]
    peers.main([*SMALL, "--growth", "--json", str(path), *only])
    assert list(json.loads(path.read_text())["contenders"]) == ["cpreplay"]
    assert "rlox" not in capsys.readouterr().out


def test_a_chart_is_drawn_where_matplotlib_is(tmp_path):
    pytest.importorskip("matplotlib", reason="it draws the chart")
    path = tmp_path / "chart.png"
    only = ["--only", "uniform 5000 sample", "--only", "step(256)"]
    peers.main([*SMALL, *only, "--plot", str(path), "--peers"])
    assert path.read_bytes().startswith(b"\x89PNG")


@needs_a_compiler
def test_the_plain_copy_copies_the_rows_that_were_drawn_and_goes_around():
    rng = np.random.default_rng(0)
    sources = list(rng.integers(0, 256, (2, 50, 6, 7), np.uint8))
    drawn = rng.integers(0, 50, (3, 4))
    targets = [np.zeros((4, 6, 7), np.uint8) for _ in sources]
    copy = bounds.copy_call(sources, drawn, targets)
    for rows in (*drawn, drawn[0]):
        copy()
        for target, source in zip(targets, sources, strict=True):
            np.testing.assert_array_equal(target, source[rows])


@needs_a_compiler
def test_plain_appends_lie_behind_each_other_and_begin_again_at_the_end():
    target = np.zeros(30, np.uint8)
    source = np.arange(1, 11, dtype=np.uint8)
    append = bounds.append_call(target, source)
    for filled in (10, 20, 30, 30):
        append()
        assert target[:filled].tolist() == (list(range(1, 11)) * 3)[:filled]
        assert not target[filled:].any()
    target[...] = 0
    source += 1
    append()  # the fifth, in the second place
    assert np.flatnonzero(target).tolist() == list(range(10, 20))
    assert target[10] == 2


@needs_a_compiler
def test_the_bare_loop_reads_a_word_of_each_line_of_the_drawn_rows_and_goes_around():
    memory = np.zeros(64 * 40 // 4 + 16, np.int32)
    start = -memory.ctypes.data // 4 % 16  # the first word of a line
    words = memory[start : start + 640]
    words[...] = np.random.default_rng(0).integers(0, 2**20, 640)
    # records of 160 bytes: from a multiple of 32 on, so they lie in three lines
    rows = np.array([[0, 5, 9], [1, 1, 14]])
    spans = [bounds.Span(words.ctypes.data, 160, 160, 0), bounds.Span(words.ctypes.data, 64, 64, 2)]
    touch = bounds.touch_call(spans, rows)
    for drawn in (*rows, rows[0]):
        lines = [
            line for row in drawn for line in range(160 * row // 64, (160 * row + 159) // 64 + 1)
        ]
        lines += [row >> 2 for row in drawn]
        assert touch() == sum(int(words[16 * line]) for line in lines)


def test_the_bare_loop_is_over_whole_records_and_the_nodes_above_them():
    buffer = cpreplay.StoreReplay(17, 6, 5000, prioritized=True, seed=0)
    buffer.add_batch(*UNIFORM.make(5000, 0))
    records, *levels = bounds.spans_of(buffer)
    # 17 + 6 + 1 + 17 float32 and a flag, in records that lie whole behind each other
    assert records.bytes == 165
    assert records.stride == buffer.column("obs").strides[0] >= 165
    assert records.shift == 0
    # 5,000 leaves have 313 sums, those 20, those 2, and those the root
    assert [(one.stride, one.bytes, one.shift) for one in levels] == [
        *((64, 64, 4), (128, 128, 8), (128, 128, 12), (128, 128, 16)),
    ]


def test_rows_for_the_limits_are_those_of_draws():
    buffer = cpreplay.StoreReplay(17, 6, 500, seed=3)
    buffer.add_batch(*UNIFORM.make(500, 0))
    twin = cpreplay.StoreReplay(17, 6, 500, seed=3)
    twin.add_batch(*UNIFORM.make(500, 0))
    drawn = bounds.drawn_rows(buffer, 2**18)
    assert drawn.shape == (2, 2**18)
    for rows in drawn:
        np.testing.assert_array_equal(rows, twin.sample(2**18).indices)


def test_the_benchmark_of_a_card_runs_on_the_emulated_one(
    emulated_device: Backend, capsys, tmp_path
):
    path = tmp_path / "device.json"
    sizes = ["--rows", "100", "--pixel-rows", "8", "--batches", "4", "33"]
    counts = ["--rounds", "2", "--times", "2", "--copy-bytes", "4096"]
    device.main([*sizes, *counts, "--json", str(path)])
    report = json.loads(path.read_text())
    assert [(one["workload"], one["case"], one["bytes"]) for one in report["results"]] == [
        # a row of 165 bytes is read and written; an error is float64, a leaf float32
        ("uniform", "sample(4, out=)", 2 * 4 * 165),
        ("uniform", "sample(33, out=)", 2 * 33 * 165),
        ("uniform", "add_batch(64)", 2 * 64 * 165),
        ("prioritized", "sample(4, out=)", 2 * 4 * 165),
        ("prioritized", "update(4)", 4 * 12),
        ("prioritized", "step(4, out=)", 2 * 4 * 165 + 4 * 12),
        ("prioritized", "sample(33, out=)", 2 * 33 * 165),
        ("prioritized", "update(33)", 33 * 12),
        ("prioritized", "step(33, out=)", 2 * 33 * 165 + 33 * 12),
        ("prioritized", "add_batch(64)", 2 * 64 * 165),
        ("pixels", "sample(4, out=)", 2 * 4 * (2 * 84 * 84 * 4 + 13)),
    ]
    bandwidth = report["copy_bytes_per_second"]
    for one in report["results"]:
        assert one["copy_microseconds"] == pytest.approx(1e6 * one["bytes"] / bandwidth)
        assert {"launched", "graph"} <= one["microseconds"].keys()
        for timing in one["microseconds"].values():
            assert 0 < timing["lower_quartile"] <= timing["median"] <= timing["upper_quartile"]
    assert "add_batch(64)" in capsys.readouterr().out


def test_the_benchmark_of_a_card_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(SystemExit, match="needs CuPy"):
        device.main(["--quick"])


def test_torch_draws_by_priority_what_the_same_ring_holds():
    torch = pytest.importorskip("torch", reason="the device benchmark's other side")
    torch.manual_seed(0)
    ring = device.TorchRing(torch, PRIORITIZED, 800, "cpu")
    made = PRIORITIZED.make(800, 0)
    ring.powers[:400] = 0
    ring.powers[600:] = 3
    counts = np.zeros(800)
    for _ in range(50):
        *columns, rows, weights = ring.by_priority(64)()
        counts += np.bincount(rows.numpy(), minlength=800)
        for column, values in zip(columns, made, strict=True):
            np.testing.assert_array_equal(column.numpy(), values[rows.numpy()])
        expected = np.where(rows.numpy() < 600, 1.0, 3.0**-0.4)
        np.testing.assert_allclose(weights.numpy(), expected / expected.max(), rtol=1e-6)
    assert counts[:400].sum() == 0
    assert counts[600:].sum() / counts.sum() == pytest.approx(0.75, abs=0.02)
    before = ring.powers.clone()
    ring.step(16)()
    assert 0 < int((ring.powers != before).sum()) <= 16
    *_, rows = ring.uniform(1000)()
    assert 0 <= int(rows.min()) < 30 and 770 < int(rows.max()) < 800
    assert [one.name for one in ring.cases(PRIORITIZED, (32, 1024))] == [
        *("sample(32, out=)", "step(32, out=)"),
    ]


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
    # how many times the other's time is ours
    assert ratio(np.array([2.0, 20.0, 200.0]), np.array([1.0, 30.0, 20.0])) == 0.5


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
