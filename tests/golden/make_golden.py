"""Make the golden files, or check them: `python -m tests.golden.make_golden [--check]`.

A witness independent of the library: it imports none of it, and its arithmetic is plain Python
integers and floats (`reference.py`), so a fault in a back end cannot also be in the files.

A golden file that exists is never written again. To pin more, add a file here; to pin something
else (a deliberate change of a sequence, which breaks every saved run), delete the file by hand
and say so in the changelog. Never do it to make a test pass.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden import FOLDER, reference

Operation = dict[str, Any]
Case = dict[str, Any]

ABOUT = [
    "Made once by tests/golden/make_golden.py: pure Python integers, nothing imported from the",
    "library. Never regenerated to make a test pass.",
]

PER_ABOUT = [
    "Made once by tests/golden/make_golden.py: plain Python integers and floats, nothing imported",
    "from the library. Never regenerated to make a test pass. Every number is exact: JSON's digits",
    "give the very float64, and a weight is a float64 that is a float32 as well.",
    "A scenario's inexact_powers are the alphas and betas it uses other than 0, 1/2 and 1: another",
    "library may give such a power another last bit in float64. No float32 here depends on that:",
    "every leaf and weight was at least 1e-6 of a float32 step from where its rounding changes.",
]

SEEDS = [0, 1, 2, 2**32 - 1, 2**32, 2**63, 2**64 - 1]

# Seeds whose lanes carry out of the low key word, out of both words, and whose key is 0.
CARRY_SEEDS = [
    reference.seed_with_key(0x01234567FFFFFFFC),
    reference.seed_with_key(2**64 - 4),
    reference.seed_with_key(0),
]

RNGS = ("philox", "pcg64")


# Operations


def add(n: int) -> Operation:
    return {"do": "add", "n": n}


def sample(batch: int) -> Operation:
    return {"do": "sample", "batch": batch}


def sample_range(batch: int, lo: int, hi: int) -> Operation:
    return {"do": "sample_range", "batch": batch, "lo": lo, "hi": hi}


def configure_ere(enable: bool, eta: float, c_min: int, k_max: int) -> Operation:
    return {"do": "configure_ere", "enable": enable, "eta": eta, "c_min": c_min, "k_max": k_max}


def pin_demo_prefix(n: int, batch_size: int) -> Operation:
    return {"do": "pin_demo_prefix", "n": n, "batch_size": batch_size}


def configure_per(alpha: float, beta: float, epsilon: float = 0.0) -> Operation:
    return {"do": "configure_per", "alpha": alpha, "beta": beta, "epsilon": epsilon}


def set_beta(beta: float) -> Operation:
    return {"do": "set_beta", "beta": beta}


def update_batch(td_errors: Iterable[float]) -> Operation:
    """Update the rows of the last draw, by its batch."""
    return {"do": "update_batch", "td_errors": [float(td) for td in td_errors]}


def update_indices(errors: Iterable[tuple[int, float]]) -> Operation:
    """Update bare rows, each given with its TD error."""
    rows, td_errors = zip(*errors, strict=True)
    return {
        "do": "update_indices",
        "indices": list(rows),
        "td_errors": [float(td) for td in td_errors],
    }


@dataclass(frozen=True)
class Scenario:
    """What happens to one new buffer; `draws` is the number of its first draw."""

    name: str
    seed: int
    capacity: int
    operations: list[Operation]
    draws: int = 0


# The policies, one function each: from one word for each lane to one row for each lane


def uniform_rows(words: list[int], lo: int, hi: int) -> list[int]:
    return [lo + reference.umulhi64(word, hi - lo) for word in words]


def demo_split_rows(words: list[int], demo_count: int, size: int) -> list[int]:
    if size == demo_count:
        return uniform_rows(words, 0, demo_count)
    half = len(words) // 2
    return uniform_rows(words[:half], 0, demo_count) + uniform_rows(words[half:], demo_count, size)


@dataclass
class Ere:
    """The newest-rows window of Wang & Ross (2019) and its two numbers that change."""

    eta: float
    c_min: int
    k_max: int
    k: int = 0
    eta_power: float = 1.0

    def rows(self, words: list[int], size: int, head: int, capacity: int) -> list[int]:
        window = min(size, max(self.c_min, math.floor(size * self.eta_power)))
        rows = [(head - 1 - reference.umulhi64(word, window)) % capacity for word in words]
        self.k += 1
        self.eta_power *= self.eta
        if self.k == self.k_max:
            self.k = 0
            self.eta_power = 1.0
        return rows


def expect(scenario: Scenario, rng: str) -> list[Operation]:
    """The operations of a scenario, with what must hold after each add and come of each draw."""
    source = reference.word_source(rng, scenario.seed, scenario.draws)
    capacity = scenario.capacity
    total = size = head = demo_count = 0
    ere: Ere | None = None
    done: list[Operation] = []
    for operation in scenario.operations:
        expected: dict[str, Any] = {}
        match operation:
            case {"do": "add", "n": n}:
                total += n
                size = min(total, capacity)
                head = demo_count + (total - demo_count) % (capacity - demo_count)
                expected = {"size": size, "head": head}
            case {"do": "configure_ere", "enable": enable, **window}:
                ere = Ere(**window) if enable else None
            case {"do": "pin_demo_prefix", "n": n, "batch_size": batch}:
                assert n == total and batch <= capacity - n
                demo_count = n
            case {"do": "sample_range", "batch": batch, "lo": lo, "hi": hi}:
                assert 0 <= lo < hi <= size
                expected["rows"] = uniform_rows(source.next(batch), lo, hi)
            case {"do": "sample", "batch": batch} if ere is not None:
                expected["rows"] = ere.rows(source.next(batch), size, head, capacity)
            case {"do": "sample", "batch": batch} if demo_count > 0:
                assert batch <= capacity - demo_count
                expected["rows"] = demo_split_rows(source.next(batch), demo_count, size)
            case {"do": "sample", "batch": batch}:
                assert size > 0
                expected["rows"] = uniform_rows(source.next(batch), 0, size)
            case _:
                raise ValueError(f"not an operation: {operation}")
        done.append({**operation, **expected})
    return done


# Prioritized replay


def sure_float32(x: float) -> float:
    """The float32 nearest to `x`, which an error of `x` in its last bits cannot change."""
    _, exponent = math.frexp(x)
    steps = math.ldexp(x, 24 - exponent)  # x, counted in steps of float32: from 2^23 to 2^24
    assert abs(steps % 1 - 0.5) >= 1e-6, f"{x!r} is too near a change of its rounding"
    return reference.to_float32(x)


@dataclass
class Per:
    """What prioritized replay remembers beside the rows."""

    capacity: int
    alpha: float = 0.6
    beta: float = 0.4
    epsilon: float = 1e-6
    max_priority: float = 1.0
    stale_updates: int = 0

    def __post_init__(self) -> None:
        self.tree = reference.SumTree([0.0] * self.capacity)
        self.powers: set[float] = set()  # that were used

    def leaf(self, priority: float) -> float:
        self.powers.add(self.alpha)
        mass = reference.mass(priority, self.alpha)
        # Where the smallest mass comes in, it is by far, so that last bits do not matter there.
        assert mass > 2.0**-120 or priority == 0
        return sure_float32(mass)

    def enter(self, rows: Iterable[int]) -> None:
        leaf = self.leaf(self.max_priority)
        for row in rows:
            self.tree.set(row, leaf)

    def sample(self, reals: list[float], size: int) -> tuple[list[int], list[float]]:
        rows = self.tree.draw(reals)
        assert all(row < size for row in rows)
        leaves = [self.tree.levels[0][row] for row in rows]
        quotients = reference.weight_quotients(leaves, size, self.tree.total, self.beta)
        self.powers.add(self.beta)
        assert min(quotients) > 2.0**-120  # far above what becomes 0
        return rows, [sure_float32(quotient) for quotient in quotients]

    def update(self, rows: list[int], td_errors: list[float], stale: list[bool]) -> None:
        self.stale_updates += sum(stale)
        winners: dict[int, float] = {}
        for row, td_error, skip in zip(rows, td_errors, stale, strict=True):
            if not skip:
                winners[row] = reference.priority(td_error, self.epsilon)
        for row, priority in winners.items():
            leaf = self.leaf(priority)
            self.tree.set(row, leaf)
            self.max_priority = max(self.max_priority, priority)

    def after_an_update(self) -> dict[str, Any]:
        return {
            "max_priority": self.max_priority,
            "stale_updates": self.stale_updates,
            "priority_total": self.tree.total,
        }


def expect_prioritized(scenario: Scenario, rng: str) -> tuple[list[Operation], list[float]]:
    """The operations with what must hold after each, and the powers not exact everywhere."""
    source = reference.word_source(rng, scenario.seed, scenario.draws)
    capacity = scenario.capacity
    per = Per(capacity)
    total = size = 0
    drawn: list[int] = []
    total_when_drawn = 0
    done: list[Operation] = []
    for operation in scenario.operations:
        expected: dict[str, Any] = {}
        match operation:
            case {"do": "add", "n": n}:
                per.enter({number % capacity for number in range(total, total + n)})
                total += n
                size = min(total, capacity)
                expected = {"size": size, "head": total % capacity}
                expected["priority_total"] = per.tree.total
            case {"do": "sample", "batch": batch}:
                drawn, weights = per.sample(source.next_reals(batch), size)
                total_when_drawn = total
                expected = {"rows": drawn, "weights": weights}
            case {"do": "sample_range", "batch": batch, "lo": lo, "hi": hi}:
                assert 0 <= lo < hi <= size
                drawn = uniform_rows(source.next(batch), lo, hi)
                total_when_drawn = total
                expected = {"rows": drawn, "weights": [1.0] * batch}
            case {"do": "update_batch", "td_errors": td_errors}:
                written = total - total_when_drawn
                stale = [
                    written >= capacity or (row - total_when_drawn) % capacity < written
                    for row in drawn
                ]
                per.update(drawn, td_errors, stale)
                expected = per.after_an_update()
            case {"do": "update_indices", "indices": indices, "td_errors": td_errors}:
                assert all(0 <= row < size for row in indices)
                per.update(indices, td_errors, [False] * len(indices))
                expected = per.after_an_update()
            case {"do": "set_beta", "beta": beta}:
                per.beta = beta
            case {"do": "configure_per", "alpha": alpha, "beta": beta, "epsilon": epsilon}:
                assert size == 0 or alpha == per.alpha
                per.alpha, per.beta, per.epsilon = alpha, beta, epsilon
            case _:
                raise ValueError(f"not an operation of prioritized replay: {operation}")
        done.append({**operation, **expected})
    return done, sorted(per.powers - {0.0, 0.5, 1.0})


# The scenarios of each policy


def seeds_for(rng: str) -> list[int]:
    return SEEDS + CARRY_SEEDS if rng == "philox" else SEEDS


def uniform(rng: str) -> Iterable[Scenario]:
    fill_and_wrap = [
        *(add(5), sample(7), sample(1)),  # part-full
        *(add(3), sample(7)),  # exactly full
        *(add(1), sample(32), sample(1)),  # wrapped
    ]
    for seed in seeds_for(rng):
        yield Scenario(f"fill-and-wrap-{seed}", seed, 8, fill_and_wrap)

    one_row = [add(1), sample(1), sample(7), sample(32)]
    yield Scenario("one-row-of-many", 7, 16, one_row)
    yield Scenario("capacity-one", 7, 1, [*one_row, add(3), sample(7)])

    batches = [add(300), sample(1), sample(7), sample(32), sample(256)]
    yield Scenario("part-full-all-batches", 3, 1000, batches)
    yield Scenario("several-wraps-all-batches", 4, 97, batches)
    yield Scenario("batch-larger-than-size", 5, 64, [add(3), sample(7), sample(32), sample(256)])

    grow = [op for n in (1, 1, 2, 3, 5, 8, 13, 21, 34) for op in (add(n), sample(7))]
    yield Scenario("a-draw-after-every-add", 6, 50, grow)
    yield Scenario("many-draws", 8, 2048, [add(1500)] + [sample(7)] * 40)
    yield Scenario("one-add-of-many-rings", 9, 10, [add(34), sample(32)])

    if rng == "philox":
        story = [add(100), sample(7), sample(7), sample(32), sample(1)]
        for draws in (1, 2**32 - 2, 2**32, 2**33 + 5, 2**48 - 1, 2**62):
            yield Scenario(f"from-draw-{draws}", 10, 128, story, draws)


def range_(rng: str) -> Iterable[Scenario]:
    between = [
        *(add(12), sample(7)),
        *(sample_range(7, 3, 9), sample(7)),  # a range draw takes a draw number as well
        *(sample_range(32, 11, 12), sample_range(1, 0, 12)),
        *(add(30), sample_range(7, 0, 20), sample(7)),
    ]
    for seed in seeds_for(rng):
        yield Scenario(f"between-draws-{seed}", seed, 20, between)

    split = [add(400), sample_range(256, 0, 320), sample_range(32, 320, 400), sample(32)]
    yield Scenario("train-and-holdout", 11, 500, split)
    yield Scenario("only-the-last-row", 12, 6, [add(6), sample_range(7, 5, 6), sample(1)])
    yield Scenario("a-whole-part-full-ring", 13, 40, [add(25), sample_range(32, 0, 25), sample(7)])
    yield Scenario("after-wraps", 14, 16, [add(71), sample_range(32, 2, 15), sample(7)])

    if rng == "philox":
        story = [add(50), sample_range(7, 10, 30), sample(7), sample_range(7, 10, 30)]
        yield Scenario("across-draw-2^32", 15, 64, story, 2**32 - 1)


def ere(rng: str) -> Iterable[Scenario]:
    def on(eta: float = 0.9, c_min: int = 1, k_max: int = 1000) -> Operation:
        return configure_ere(True, eta, c_min, k_max)

    off = configure_ere(False, 0.9, 1, 1000)

    story = [on(), add(10), sample(7), sample(7), add(10), sample(7), add(10), sample(32)]
    for seed in seeds_for(rng):
        yield Scenario(f"fill-and-wrap-{seed}", seed, 20, story)

    shrink = [add(200), on(0.996), *[sample(7)] * 30]
    yield Scenario("shrinks-with-every-draw", 21, 256, shrink)
    yield Scenario(
        "back-to-the-start-at-k-max", 22, 64, [add(64), on(0.5, 1, 4), *[sample(7)] * 13]
    )
    yield Scenario(
        "k-max-one-is-always-everything", 23, 64, [add(40), on(0.5, 1, 1), *[sample(7)] * 4]
    )
    yield Scenario("never-below-c-min", 24, 64, [add(64), on(0.1, 10), *[sample(32)] * 5])
    yield Scenario("c-min-larger-than-size", 25, 64, [on(0.5, 50), add(6), *[sample(7)] * 4])
    yield Scenario("down-to-the-newest-row", 26, 64, [add(70), on(0.01), *[sample(7)] * 4])
    yield Scenario("eta-one-is-everything", 27, 30, [add(35), on(1.0), *[sample(7)] * 4])
    yield Scenario("one-row", 28, 30, [add(1), on(), *[sample(7)] * 3])
    yield Scenario("capacity-one", 29, 1, [on(), add(5), *[sample(7)] * 3])
    yield Scenario(
        "newest-rows-lie-across-the-end", 30, 32, [add(34), on(0.3), sample(7), *[sample(32)] * 2]
    )
    yield Scenario(
        "configuring-starts-anew",
        31,
        50,
        [add(60), on(0.5), *[sample(7)] * 3, on(0.5), *[sample(7)] * 2],
    )
    yield Scenario(
        "off-is-uniform-and-on-again-starts-anew",
        32,
        50,
        [add(60), sample(7), on(0.5), *[sample(7)] * 3, off, sample(7), on(0.5), *[sample(7)] * 2],
    )
    # 125 * (0.6 * 0.6 * 0.6) is 27 in float64; 125 * 0.6**3 lies just below, a window of 26.
    yield Scenario("eta-power-is-a-product", 35, 200, [add(125), on(0.6), *[sample(32)] * 5])
    # 300 * 0.7 is 210 in float64, and just below it with eta in float32.
    yield Scenario("a-large-batch", 33, 300, [add(450), on(0.7), *[sample(256)] * 3])
    if rng == "philox":
        story = [add(100), on(0.8), *[sample(7)] * 4]
        yield Scenario("across-draw-2^32", 34, 64, story, 2**32 - 2)


def demo(rng: str) -> Iterable[Scenario]:
    story = [
        *(add(6), sample(7), pin_demo_prefix(6, 10)),
        *(sample(7), sample(1)),  # no online row yet: every lane draws a demonstration
        *(add(1), sample(7), sample(1)),  # one online row
        *(add(9), sample(10)),  # part-full
        *(add(4), sample(7)),  # exactly full
        *(add(50), sample(10)),  # several wraps of the online rows
    ]
    for seed in seeds_for(rng):
        yield Scenario(f"pin-fill-and-wrap-{seed}", seed, 20, story)

    large = [add(100), pin_demo_prefix(100, 256), sample(256), add(150), sample(256), sample(32)]
    yield Scenario("large-batches", 41, 400, large)
    yield Scenario(
        "one-demonstration",
        42,
        40,
        [add(1), pin_demo_prefix(1, 32), sample(7), add(20), sample(32), add(60), sample(7)],
    )
    yield Scenario(
        "one-online-row",
        43,
        10,
        [add(9), pin_demo_prefix(9, 1), sample(1), add(1), sample(1), add(5), sample(1), sample(1)],
    )
    yield Scenario(
        "a-range-across-the-prefix",
        44,
        30,
        [add(8), pin_demo_prefix(8, 16), add(12), sample_range(16, 4, 15), sample(8), sample(7)],
    )
    if rng == "philox":
        story = [add(10), pin_demo_prefix(10, 32), add(30), sample(8), sample(7), sample(32)]
        yield Scenario("across-draw-2^32", 45, 64, story, 2**32 - 1)


def td_errors(n: int, step: int = 37) -> list[float]:
    """TD errors of both signs between -6.25 and 6.25, the same ones at every call."""
    return [(index * step % 101 - 50) / 8 for index in range(n)]


def per(rng: str) -> Iterable[Scenario]:
    story = [
        *(configure_per(0.5, 1.0, 0.01), add(12), sample(7), update_batch(td_errors(7))),
        *(sample(9), update_batch(td_errors(9, 53)), sample(7)),
        *(add(9), sample(7), update_batch(td_errors(7, 11)), sample(16)),  # wrapped
    ]
    for seed in seeds_for(rng):
        yield Scenario(f"fill-update-and-wrap-{seed}", seed, 17, story)

    defaults = [add(10), sample(6), update_batch(td_errors(6)), sample(6), add(8), sample(12)]
    yield Scenario("never-configured", 51, 16, defaults)

    # Capacities, from less than a node to several levels

    yield Scenario(
        "capacity-one",
        52,
        1,
        [
            *(configure_per(1.0, 1.0), add(1), sample(1), sample(5)),
            *(update_batch([4.0, 8.0, 0.5, -3.0, 2.5]), sample(3)),
            *(add(3), update_batch([9.0, 9.0, 9.0]), sample(2)),
            *(update_indices([(0, 6.0), (0, 0.25)]), sample(1), add(1), sample(1)),
        ],
    )
    yield Scenario(
        "capacity-three",
        53,
        3,
        [
            *(configure_per(1.0, 0.5), add(3), sample(3)),
            *(update_indices([(1, -4.0)]), sample(6), add(1), sample(6)),
            *(update_batch(td_errors(6)), sample(7), add(2), sample(6)),
        ],
    )
    node = [
        *(configure_per(0.5, 1.0, 0.25), add(16), sample(16)),
        *(update_indices((row, row / 4) for row in range(16)), sample(32)),
        *(add(1), sample(16), update_batch(td_errors(16)), sample(16)),
    ]
    yield Scenario("one-node-filled-exactly", 54, 16, node)
    yield Scenario("one-row-more-than-a-node", 55, 17, [*node, add(3), sample(17)])
    yield Scenario(
        "three-levels",
        56,
        300,
        [
            *(configure_per(0.6, 0.4, 1e-6), add(200), sample(7), sample(32)),
            *(update_batch(td_errors(32)), sample(100), update_batch(td_errors(100, 29))),
            *(sample(64), add(250), sample(32), update_batch(td_errors(32, 71)), sample(64)),
        ],
    )
    spread = [(row * 997 % 3000, td) for row, td in enumerate(td_errors(150))]
    yield Scenario(
        "four-levels",
        57,
        5000,
        [
            *(configure_per(0.6, 1.0, 1e-3), add(3000), sample(32), update_indices(spread)),
            *(sample(64), update_batch(td_errors(64, 17)), sample(32)),
            *(add(2500), sample(64), add(5000), sample(32)),
        ],
    )
    yield Scenario(
        "equal-leaves-filled-exactly", 58, 4096, [add(4096), sample(7), sample(64), sample(1)]
    )

    # Powers

    for name, alpha, beta in [
        ("alpha-0-is-uniform", 0.0, 1.0),
        ("alpha-half-beta-none", 0.5, 0.0),
        ("alpha-half-beta-half", 0.5, 0.5),
        ("alpha-one-beta-whole", 1.0, 1.0),
        ("alpha-one-beta-some", 1.0, 0.4),
        ("alpha-some-beta-whole", 0.6, 1.0),
        ("alpha-some-beta-none", 0.6, 0.0),
    ]:
        operations = [
            *(configure_per(alpha, beta, 0.125), add(20), sample(8), update_batch(td_errors(8))),
            *(sample(8), update_batch(td_errors(8, 59)), add(7), sample(24)),
        ]
        yield Scenario(name, 60, 40, operations)
    yield Scenario(
        "beta-grows",
        61,
        20,
        [
            *(configure_per(0.5, 0.0), add(20), sample(10), update_batch(td_errors(10, 3))),
            *(op for beta in (0.0, 0.25, 0.5, 0.75, 1.0) for op in (set_beta(beta), sample(10))),
        ],
    )
    yield Scenario(
        "epsilon-and-beta-configured-once-rows-are-stored",
        62,
        10,
        [
            *(configure_per(1.0, 0.0, 0.0), add(6), update_indices([(1, 2.0)]), sample(6)),
            *(configure_per(1.0, 1.0, 0.5), sample(6)),  # stored leaves keep their epsilon
            *(update_indices([(1, 2.0), (2, 0.0)]), add(2), sample(8)),
        ],
    )
    yield Scenario(
        "epsilon-none-and-errors-of-zero",
        63,
        16,
        [
            *(configure_per(1.0, 1.0, 0.0), add(10)),
            *(update_indices((row, 0.0) for row in range(0, 10, 2)), sample(20)),
            *(update_indices((row, -0.0) for row in range(10)), sample(20)),  # equal once more
        ],
    )
    decades = [float(f"1e{power}") for power in range(-12, 7)]
    for name, alpha, beta in [("", 1.0, 1.0), ("-flattened", 0.5, 0.5), ("-softened", 0.6, 0.4)]:
        operations = [
            *(configure_per(alpha, beta), add(19), update_indices(enumerate(decades)), sample(32)),
            *(update_batch(decades[:16] * 2), sample(32)),
            *(update_indices((row, 1e-12 * (row + 1)) for row in range(18)), sample(16)),
            *(update_indices([(18, 1e-12)]), sample(32)),  # nothing of the large one remains
            *(add(1), sample(8)),
        ]
        yield Scenario(f"eighteen-decades{name}", 64, 19, operations)

    # Which lanes count, and what new rows get

    yield Scenario(
        "new-rows-enter-at-the-largest-priority-so-far",
        71,
        12,
        [
            *(configure_per(1.0, 1.0), add(2), update_indices([(0, 0.5)]), add(1), sample(6)),
            *(update_indices([(1, 2.5)]), add(2), update_indices([(1, -0.1)]), add(2), sample(12)),
            *(update_indices([(0, -5.0), (2, 3.0)]), add(3), add(2), sample(12), add(4)),
            *(sample(24), update_indices([(11, 5.5)]), add(30), sample(12)),
        ],
    )
    yield Scenario(
        "alpha-is-applied-once-to-new-rows",
        72,
        8,
        [
            *(configure_per(0.5, 0.5), add(3), update_indices([(1, 16.0)])),
            *(add(1), sample(8), add(6), sample(8)),
        ],
    )
    yield Scenario(
        "the-last-of-two-lanes-of-one-row-wins",
        73,
        9,
        [
            *(configure_per(0.5, 1.0), add(9)),
            update_indices([(4, 9.0), (2, 1.5), (4, 3.0), (4, 0.25), (2, 6.25), (7, 2.0)]),
            *(sample(18), update_batch(td_errors(18, 43)), sample(18)),
        ],
    )
    yield Scenario(
        "a-lane-that-lost-its-row-does-not-raise-the-maximum",
        74,
        9,
        [
            *(configure_per(1.0, 1.0), add(4), update_indices([(1, 50.0), (3, 2.0), (1, 4.0)])),
            *(add(2), sample(12)),
        ],
    )
    yield Scenario(  # equal leaves: the lanes of row 0 are the first two
        "a-stale-lane-does-not-raise-the-maximum",
        78,
        4,
        [
            *(configure_per(1.0, 1.0), add(4), sample(8), add(1)),
            *(update_batch([50.0, 60.0, 2.0, 2.5, 3.0, 3.5, 4.0, 1.5]), sample(8)),
            *(add(1), sample(8)),
        ],
    )
    yield Scenario(
        "stale-lanes-are-skipped",
        75,
        6,
        [
            *(configure_per(0.5, 1.0, 0.01), add(6), sample(12), add(2)),
            *(update_batch([4.0 + lane / 2 for lane in range(12)]), sample(12)),
            *(add(3), update_batch([100.0 - lane for lane in range(12)]), add(1), sample(12)),
            *(sample_range(6, 0, 6), add(5), update_batch(td_errors(6)), sample(6)),
        ],
    )
    yield Scenario(
        "every-lane-is-stale-after-a-whole-ring",
        76,
        6,
        [
            *(configure_per(1.0, 1.0), add(4), sample(4), add(6), update_batch([9.0] * 4)),
            *(add(1), sample(6), add(7), update_batch([8.0] * 6), sample(6)),
            *(add(600), update_batch([7.0] * 6), add(1), sample(6)),
        ],
    )
    yield Scenario(
        "nothing-is-stale-while-the-ring-fills",
        77,
        20,
        [
            *(configure_per(0.5, 0.5), add(5), sample(10), add(15)),  # filled exactly
            *(update_batch(td_errors(10, 41)), sample(20), add(5), sample(20)),
        ],
    )

    # Draws

    yield Scenario(
        "batch-larger-than-size",
        81,
        64,
        [
            *(configure_per(0.5, 1.0), add(3), sample(40)),
            *(update_batch(td_errors(40)), sample(40), sample(1)),
        ],
    )
    yield Scenario("one-row-of-many", 82, 100, [add(1), sample(1), sample(20)])
    yield Scenario(
        "between-draws-from-a-range",
        83,
        40,
        [
            *(configure_per(1.0, 0.5), add(30), sample_range(8, 10, 20)),
            *(update_batch(td_errors(8, 19)), sample(8), sample_range(4, 0, 30)),
            *(sample_range(4, 29, 30), sample(8), update_batch(td_errors(8, 23)), add(15)),
            *(sample(8), sample_range(8, 0, 40), sample(1)),
        ],
    )
    many = [op for _ in range(12) for op in (sample(8), update_batch(td_errors(8, 47)), add(3))]
    yield Scenario(
        "many-draws-and-updates", 84, 50, [configure_per(0.5, 0.5, 0.01), add(30), *many]
    )
    if rng == "philox":
        story = [
            *(configure_per(0.5, 1.0), add(30), sample(7), update_batch(td_errors(7))),
            *(sample(7), sample_range(7, 4, 21), sample(7)),
        ]
        for draws in (1, 2**32 - 2, 2**32, 2**33 + 5, 2**62):
            yield Scenario(f"from-draw-{draws}", 85, 64, story, draws)


# Bare numbers


def philox_kat() -> list[Case]:
    """The published answers, typed in and not computed (Random123, kat_vectors)."""
    published = [  # counter, key, answer
        "00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd",
        "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1",
    ]
    lines = [line.split() for line in published]
    return [{"counter": w[:4], "key": w[4:6], "expect": w[6:]} for w in lines]


def pcg64_words() -> list[Case]:
    """Where NumPy's PCG64 starts for a seed, and the first words it gives."""
    cases = []
    for seed in [*SEEDS, 12345]:
        generator = reference.Pcg64(seed)
        start = {"state": f"{generator.state:032x}", "increment": f"{generator.increment:032x}"}
        words = [f"{generator.next():016x}" for _ in range(8)]
        cases.append({"seed": seed, **start, "words": words})
    return cases


def rows_philox() -> list[Case]:
    """Draws without a buffer, over windows up to the largest capacity."""
    windows = [(0, 2**31), (2**31 - 1, 2**31), (123, 2**31 - 7), (10**6, 10**9), (0, 3), (0, 1)]
    return [
        {
            "seed": seed,
            "draw_number": draw_number,
            "batch": 7,
            "lo": lo,
            "hi": hi,
            "rows": reference.draw_rows(seed, draw_number, 7, lo, hi),
        }
        for seed in SEEDS + CARRY_SEEDS
        for draw_number in (0, 2**32 - 1, 2**32, 2**63 - 1)
        for lo, hi in windows
    ]


def to_case(scenario: Scenario, rng: str) -> Case:
    case: Case = {"name": scenario.name, "seed": scenario.seed, "capacity": scenario.capacity}
    return {**case, "rng": rng, "draws": scenario.draws, "operations": expect(scenario, rng)}


def to_prioritized_case(scenario: Scenario, rng: str) -> Case:
    case: Case = {"name": scenario.name, "seed": scenario.seed, "capacity": scenario.capacity}
    operations, powers = expect_prioritized(scenario, rng)
    powers_and_operations = {"inexact_powers": powers, "operations": operations}
    return {**case, "rng": rng, "draws": scenario.draws, **powers_and_operations}


def compute() -> dict[str, str]:
    """File name -> text, for every golden file."""
    policies = {"uniform": uniform, "range": range_, "ere": ere, "demo": demo}
    cases = {
        f"{name}_{rng}": [to_case(scenario, rng) for scenario in policy(rng)]
        for name, policy in policies.items()
        for rng in RNGS
    }
    cases["philox_kat"] = philox_kat()
    cases["pcg64_words"] = pcg64_words()
    cases["rows_philox"] = rows_philox()
    for rng in RNGS:
        cases[f"per_{rng}"] = [to_prioritized_case(scenario, rng) for scenario in per(rng)]
    return {
        f"{name}.json": to_text(cases[name], PER_ABOUT if name.startswith("per_") else ABOUT)
        for name in sorted(cases)
    }


def to_text(cases: list[Case], about: list[str]) -> str:
    """JSON with one operation, or one bare case, on each line: small, and it diffs well."""
    blocks = []
    for case in cases:
        if "operations" not in case:
            blocks.append(json.dumps(case))
            continue
        head = json.dumps({key: value for key, value in case.items() if key != "operations"})
        lines = ",\n  ".join(json.dumps(operation) for operation in case["operations"])
        blocks.append(f'{head[:-1]}, "operations": [\n  {lines}\n]}}')
    heading = json.dumps(about, indent=1)
    return f'{{"about": {heading},\n"cases": [\n' + ",\n".join(blocks) + "\n]}\n"


# Files


def differences(folder: Path) -> list[str]:
    """What is wrong with the files in `folder`, one sentence each; empty when all is well."""
    computed = compute()
    found = {path.name for path in folder.glob("*.json")}
    faults = [f"{name} is missing" for name in computed if name not in found]
    faults += [f"{name} is not made by this program" for name in sorted(found - computed.keys())]
    for name in sorted(found & computed.keys()):
        if (folder / name).read_text() != computed[name]:
            faults.append(f"{name} differs from what this program computes")
    return faults


def write_missing(folder: Path) -> list[str]:
    """Write the files that `folder` lacks and name them; what exists is left alone."""
    written = []
    for name, text in compute().items():
        if not (folder / name).exists():
            (folder / name).write_text(text)
            written.append(name)
    return written


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.make_golden")
    parser.add_argument("--check", action="store_true", help="write nothing, compare only")
    if not parser.parse_args().check:
        for name in write_missing(FOLDER):
            print(f"{name} written")
    faults = differences(FOLDER)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
