"""The witness itself: Philox, splitmix64 and PCG64 in plain integers, and the golden files.

What the golden files say is worth as much as the program that made them, so that is held against
published answers and against code by other people (randomgen, NumPy).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import golden
from tests.golden import make_golden, reference

REPOSITORY = Path(__file__).resolve().parent.parent

words32 = st.integers(0, 2**32 - 1)
words64 = st.integers(0, 2**64 - 1)


# splitmix64


@pytest.mark.parametrize(
    ("seed", "outputs"),
    [
        (
            0,
            [
                0xE220A8397B1DCDAF,
                0x6E789E6AA1B965F4,
                0x06C45D188009454F,
                0xF88BB8A8724C81EC,
                0x1B39896A51A8749B,
            ],
        ),
        (
            1234567,
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423,
                4593380528125082431,
                16408922859458223821,
            ],
        ),
    ],
)
def test_splitmix64_gives_the_published_sequences(seed: int, outputs: list[int]) -> None:
    states = [(seed + step * 0x9E3779B97F4A7C15) % 2**64 for step in range(len(outputs))]
    assert [reference.splitmix64(state) for state in states] == outputs


@settings(deadline=None)
@given(words64)
def test_the_seed_with_a_key_has_that_key(key: int) -> None:
    assert reference.splitmix64(reference.seed_with_key(key)) == key


# Philox4x32-10


def test_philox_gives_the_published_answers() -> None:
    answers = golden.load("philox_kat")
    assert len(answers) == 3
    for case in answers:
        counter, key, expected = (
            [int(word, 16) for word in case[part]] for part in ("counter", "key", "expect")
        )
        assert reference.philox(counter, key) == expected


def test_philox_agrees_with_randomgen() -> None:
    if os.environ.get("CPREPLAY_REQUIRE_RANDOMGEN") != "1":
        pytest.importorskip("randomgen", reason="randomgen, the second Philox, is not installed")
    from randomgen import Philox

    chooser = np.random.default_rng(20)
    # Words with all bits clear and all bits set beside random ones: every carry happens.
    for _ in range(400):
        words = [
            int(w) for w in chooser.choice([0, 1, 2**32 - 1, *chooser.integers(2**32, size=3)], 6)
        ]
        counter, key = words[:4], words[4:]
        # randomgen takes the words as one little-endian integer, and counts before it answers.
        count = sum(word << 32 * place for place, word in enumerate(counter))
        their_key = key[0] | key[1] << 32
        theirs = Philox(counter=(count - 1) % 2**128, key=their_key, number=4, width=32)
        assert reference.philox(counter, key) == theirs.random_raw(4).tolist()


# Keys, counters and rows


def test_a_key_carries_into_its_high_word_and_wraps_at_64_bits() -> None:
    seed = reference.seed_with_key(0x01234567FFFFFFFE)
    assert [reference.lane_key(seed, lane) for lane in range(4)] == [
        (0xFFFFFFFE, 0x01234567),
        (0xFFFFFFFF, 0x01234567),
        (0x00000000, 0x01234568),
        (0x00000001, 0x01234568),
    ]
    last = reference.seed_with_key(2**64 - 1)
    assert reference.lane_key(last, 1) == (0, 0)


def test_a_word_is_made_of_the_first_two_words_of_its_block_low_word_first() -> None:
    seed = reference.seed_with_key(0)
    assert reference.lane_word(seed, draw_number=0, lane=0) == 0xE169C58D_6627E8D5


def test_a_draw_number_past_32_bits_counts_in_the_second_counter_word() -> None:
    seed = 77
    out = reference.philox([5, 3, 0, 0], reference.lane_key(seed, 2))
    assert reference.lane_word(seed, 3 * 2**32 + 5, 2) == out[1] << 32 | out[0]


def test_neighbouring_seeds_do_not_share_lanes() -> None:
    """With the key `seed + lane`, lane i of seed s would be lane i + 1 of seed s - 1."""
    seeds = [*range(20), *range(2**32 - 10, 2**32 + 10), *range(2**64 - 20, 2**64)]
    words = [reference.lane_word(seed, 0, lane) for seed in seeds for lane in range(32)]
    assert len(set(words)) == len(words)


@settings(deadline=None)
@given(words64, words64, st.integers(0, 255))
def test_two_draws_of_one_lane_differ(seed: int, draw_number: int, lane: int) -> None:
    word = reference.lane_word(seed, draw_number, lane)
    assert word != reference.lane_word(seed, (draw_number + 1) % 2**64, lane)


@settings(deadline=None)
@given(words64, st.integers(1, 2**31))
def test_a_row_lies_in_its_span_and_keeps_the_order_of_the_words(word: int, span: int) -> None:
    row = reference.umulhi64(word, span)
    assert 0 <= row < span
    assert row * 2**64 <= word * span < (row + 1) * 2**64


def test_a_draw_covers_its_whole_window() -> None:
    rows = [row for draw in range(20) for row in reference.draw_rows(5, draw, 32, 3, 11)]
    counts = [rows.count(row) for row in range(3, 11)]
    assert sum(counts) == len(rows) == 640
    assert all(50 <= count <= 110 for count in counts)  # 80 expected, 8.4 the standard deviation


# PCG64


@pytest.mark.parametrize("seed", [*make_golden.SEEDS, *range(3, 40)])
def test_pcg64_steps_as_numpy_does(seed: int) -> None:
    ours = reference.Pcg64(seed)
    theirs = np.random.PCG64(seed)
    assert [ours.next() for _ in range(200)] == theirs.random_raw(200).tolist()


def test_numpy_starts_pcg64_where_it_always_did() -> None:
    for case in golden.load("pcg64_words"):
        state = np.random.PCG64(case["seed"]).state["state"]
        assert f"{state['state']:032x}" == case["state"], case["seed"]
        assert f"{state['inc']:032x}" == case["increment"], case["seed"]
        generator = reference.Pcg64(case["seed"])
        assert [f"{generator.next():016x}" for _ in case["words"]] == case["words"]


def test_a_word_source_of_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="mt19937"):
        reference.word_source("mt19937", 0)


# The golden files


def test_the_golden_files_equal_a_recomputation() -> None:
    assert make_golden.differences(golden.FOLDER) == []


def test_the_check_ends_well_and_needs_nothing_of_the_library() -> None:
    program = (
        "import sys; sys.argv.append('--check'); from tests.golden import make_golden; "
        "code = make_golden.main(); assert not any(m.startswith('cpreplay') for m in sys.modules); "
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_a_changed_a_missing_and_a_foreign_golden_file_are_named(tmp_path: Path) -> None:
    for name in golden.names():
        shutil.copy(golden.FOLDER / f"{name}.json", tmp_path)
    assert make_golden.differences(tmp_path) == []
    changed = tmp_path / "uniform_philox.json"
    changed.write_text(changed.read_text().replace('"rows": [0,', '"rows": [1,', 1))
    (tmp_path / "ere_pcg64.json").unlink()
    (tmp_path / "foreign.json").write_text("{}")
    assert make_golden.differences(tmp_path) == [
        "ere_pcg64.json is missing",
        "foreign.json is not made by this program",
        "uniform_philox.json differs from what this program computes",
    ]


def test_a_golden_file_that_exists_is_never_written_again(tmp_path: Path) -> None:
    (tmp_path / "demo_philox.json").write_text("kept")
    written = make_golden.write_missing(tmp_path)
    assert (tmp_path / "demo_philox.json").read_text() == "kept"
    assert sorted([*written, "demo_philox.json"]) == [f"{name}.json" for name in golden.names()]
    assert make_golden.differences(tmp_path) == [
        "demo_philox.json differs from what this program computes"
    ]


def scenario_files() -> list[str]:
    return [name for name in golden.names() if "operations" in golden.load(name)[0]]


def test_every_policy_is_pinned_for_both_generators() -> None:
    policies = ("demo", "ere", "per", "range", "uniform")
    assert scenario_files() == [f"{p}_{rng}" for p in policies for rng in ("pcg64", "philox")]


@pytest.mark.parametrize("name", scenario_files())
def test_every_golden_row_was_stored_and_every_draw_has_its_batch(name: str) -> None:
    for scenario in golden.load(name):
        total = 0
        for operation in scenario["operations"]:
            total += operation["n"] if operation["do"] == "add" else 0
            if "rows" not in operation:
                continue
            size = min(total, scenario["capacity"])
            lo, hi = operation.get("lo", 0), operation.get("hi", size)
            assert len(operation["rows"]) == operation["batch"]
            assert all(lo <= row < hi <= size for row in operation["rows"]), scenario["name"]


@pytest.mark.parametrize("name", scenario_files())
def test_scenarios_that_differ_in_their_seed_alone_draw_different_rows(name: str) -> None:
    stories: dict[str, list[list[Any]]] = {}
    for scenario in golden.load(name):
        story, _, last = scenario["name"].rpartition("-")
        if last == str(scenario["seed"]):
            draws = [operation.get("rows") for operation in scenario["operations"]]
            stories.setdefault(story, []).append(draws)
    assert stories
    for draws in stories.values():
        assert len(draws) >= len(make_golden.SEEDS)
        assert all(a != b for i, a in enumerate(draws) for b in draws[:i])


@pytest.mark.parametrize("rng", make_golden.RNGS)
def test_half_of_every_golden_demo_batch_is_demonstrations(rng: str) -> None:
    for scenario in golden.load(f"demo_{rng}"):
        total = pinned = 0
        for operation in scenario["operations"]:
            match operation:
                case {"do": "add", "n": n}:
                    total += n
                case {"do": "pin_demo_prefix", "n": n}:
                    pinned = n
                case {"do": "sample", "batch": batch, "rows": rows} if pinned:
                    demos = sum(row < pinned for row in rows)
                    assert demos == (batch if total == pinned else batch // 2), scenario["name"]


@pytest.mark.parametrize("rng", make_golden.RNGS)
def test_the_golden_ere_draws_are_newest_rows_and_the_window_shrinks(rng: str) -> None:
    """In the two scenarios whose windows are easily worked out by hand."""
    scenarios = {scenario["name"]: scenario for scenario in golden.load(f"ere_{rng}")}
    halved = scenarios["back-to-the-start-at-k-max"]  # 64 rows, full: the newest is row 63
    draws = [op["rows"] for op in halved["operations"] if op["do"] == "sample"]
    windows = [64, 32, 16, 8] * 4
    for rows, window in zip(draws, windows, strict=False):
        assert all(63 - row < window for row in rows)
    assert any(63 - row >= 8 for row in draws[4])  # the fifth draw sees everything again

    newest = scenarios["down-to-the-newest-row"]  # 70 rows in 64: the newest is row 5
    draws = [op["rows"] for op in newest["operations"] if op["do"] == "sample"]
    assert draws[1:] == [[5] * 7] * 3
