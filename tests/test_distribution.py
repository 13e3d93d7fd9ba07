"""Prioritized draws follow the priorities: in frequency, slice by slice, and in what weights undo.

Draws are stratified, so their counts vary less than those of independent draws. Chi-square bounds
hold all the same, on the high side. A batch's counts are a sum over lanes of one draw each, whose
covariance is ``diag(q) - q q^T`` for the lane's own probabilities q. The mean of the q is p, so by
convexity the sum of ``q q^T`` is at least ``B p p^T``, and the counts' covariance at most the
multinomial ``B (diag(p) - p p^T)``, in every direction. Batches are independent, so the statistic
tends to a weighted sum of squared normals, none with a weight above one, of as many as chi-square
has degrees of freedom: it exceeds a bound no more often than chi-square does. A small statistic is
no failure; that draws are spread as evenly as they should be is tested exactly, lane by lane.

Seeds are fixed. Each test of a statistic would fail for at most one seed in a million.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.conftest import GPU, SCHEDULES, Backend, emulated, real_gpu
from tests.cuda_emulator import emu

ROWS, CAPACITY = 500, 520
FALSE_ALARMS = 1e-6
STANDARD_ERRORS = 5.0  # which a normal variable is beyond in 6e-7 of all cases
SMALLEST = 2.0**-126

HEAVY = 137  # the row that one shape gives nearly everything


def one_heavy_row(share: float) -> np.ndarray:
    priorities = np.full(ROWS, (1.0 - share) / (ROWS - 1))
    priorities[HEAVY] = share
    return priorities


_SHUFFLED = np.random.default_rng(0).permutation(ROWS)
SHAPES = {
    "equal": np.ones(ROWS),
    "geometric over 12 decades": np.geomspace(1.0, 1e-12, ROWS)[_SHUFFLED],
    "one row with 99.9 %": one_heavy_row(0.999),
    "one row with 99.9999 %": one_heavy_row(0.999999),
    "the smallest leaf in every other row": np.where(np.arange(ROWS) % 2, 0.7, 0.0),
    "the smallest leaf everywhere": np.zeros(ROWS),
}


class Source:
    """Where random words come from, and how many lanes a test may ask of it."""

    def __init__(self, name: str, backend: Backend, rounds: int) -> None:
        self.name = name
        self.backend = backend
        self.rounds = rounds
        self._batches: dict[int, Any] = {}

    def buffer(self, rewards: np.ndarray, priorities: np.ndarray, **settings: float) -> Any:
        """A buffer with room to spare, whose priorities are the TD errors."""
        options = {"rng": None} if self.name == "pcg64" else {}
        capacity = len(rewards) + CAPACITY - ROWS
        buffer = self.backend.buffer((), (), capacity, True, seed=2026, **options)
        buffer.configure_per(**{"alpha": 1.0, "epsilon": 0.0, **settings})
        zeros = np.zeros(len(rewards), np.float32)
        buffer.add_batch(zeros, zeros, rewards, zeros, zeros > 0)
        buffer.update_priorities(np.arange(len(rewards)), priorities)
        return buffer

    def draw(self, buffer: Any, lanes: int) -> np.ndarray:
        if lanes not in self._batches:
            self._batches[lanes] = buffer.make_batch(lanes)
        return self.backend.numpy(buffer.sample(lanes, out=self._batches[lanes]).indices)


@pytest.fixture(params=["pcg64", "philox", "emulated", GPU])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    if request.param == "gpu":
        yield Source("gpu", real_gpu(), 1000)
    elif request.param == "emulated":
        monkeypatch.setattr(emu.config, "mode", "fast")  # which other tests have checked
        device = emulated(monkeypatch, int(SCHEDULES[0]))
        yield Source("emulated", device, 200)
        device.cupy.cuda.Device().synchronize()
    else:
        yield Source(request.param, Backend("host"), 500)


def probabilities(priorities: np.ndarray) -> np.ndarray:
    """P(i) of leaves as they are stored: in float32, and none below the smallest."""
    leaves = np.maximum(priorities, SMALLEST).astype(np.float32).astype(float)
    return leaves / math.fsum(leaves)


def chance_of_more(statistic: float, degrees: int) -> float:
    """How likely chi-square is to be larger: exactly for an even number of degrees of freedom.

    Then it is the chance of fewer than ``degrees / 2`` events of a Poisson variable with mean
    ``statistic / 2``. An odd number is taken for the even one above, which is larger more often.
    """
    if statistic <= 0.0:
        return 1.0
    mean = statistic / 2
    events = range((degrees + 1) // 2)
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in events)


def pooled(counts: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells of rows, the rarest together, so that at least 20 draws are expected in each."""
    cells, waiting = [], [0.0, 0.0]
    for row in np.argsort(expected, kind="stable"):
        waiting = [waiting[0] + counts[row], waiting[1] + expected[row]]
        if waiting[1] >= 20.0:
            cells.append(waiting)
            waiting = [0.0, 0.0]
    cells[-1] = [cells[-1][0] + waiting[0], cells[-1][1] + waiting[1]]
    observed, mean = np.array(cells).T
    return observed, mean


def chi_square_chance(rows: np.ndarray, chances: np.ndarray) -> tuple[float, int]:
    """How likely it is to be as far off by chance, and the number of cells."""
    counts = np.bincount(rows, minlength=len(chances))
    assert len(counts) == len(chances)  # no row that was never written
    observed, expected = pooled(counts, len(rows) * chances)
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    return chance_of_more(statistic, len(expected) - 1), len(expected)


@pytest.mark.parametrize(
    ("quantile", "degrees", "chance"),
    [(3.841459, 1, 0.05), (27.631021, 2, 1e-6), (18.307038, 10, 0.05), (149.449253, 100, 0.001)],
)
def test_the_chance_of_a_larger_statistic_is_that_of_tables(
    quantile: float, degrees: int, chance: float
) -> None:
    if degrees % 2:
        assert chance < chance_of_more(quantile, degrees) < 4 * chance
    else:
        assert chance_of_more(quantile, degrees) == pytest.approx(chance, rel=1e-5)


# In rounds of three batches: 64,000 lanes on the host, 25,600 on the emulated device.
BATCHES = (1, 7, 120)


# With 99.9999 % in one row the others would need 20 million lanes to be told from nothing.
@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "one row with 99.9999 %"])
def test_rows_are_drawn_as_often_as_their_priorities_say(shape: str, source: Source) -> None:
    buffer = source.buffer(np.zeros(ROWS, np.float32), SHAPES[shape])
    rows = np.concatenate(
        [source.draw(buffer, lanes) for _ in range(source.rounds) for lanes in BATCHES]
    )
    chance, cells = chi_square_chance(rows, probabilities(SHAPES[shape]))
    assert cells >= 2
    assert chance >= FALSE_ALARMS


def test_draws_follow_priorities_that_change(source: Source) -> None:
    first, second = SHAPES["geometric over 12 decades"], np.geomspace(1.0, 30.0, ROWS)
    buffer = source.buffer(np.zeros(ROWS, np.float32), first)
    source.draw(buffer, 64)
    buffer.update_priorities(np.arange(ROWS), second)
    rows = np.concatenate([source.draw(buffer, 128) for _ in range(source.rounds)])
    chance, cells = chi_square_chance(rows, probabilities(second))
    assert cells > 200
    assert chance >= FALSE_ALARMS
    assert chi_square_chance(rows, probabilities(first))[0] < FALSE_ALARMS


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lanes", [1, 7, 64, 1000, 4096])
def test_each_lane_draws_in_its_own_slice(lanes: int, shape: str, source: Source) -> None:
    buffer = source.buffer(np.zeros(ROWS, np.float32), SHAPES[shape])
    chances = probabilities(SHAPES[shape])
    ends = np.concatenate([[0.0], np.cumsum(chances)])
    rounding = 1e-12
    lane = np.arange(lanes)
    for _ in range(3):
        rows = source.draw(buffer, lanes)
        assert (ends[rows] <= (lane + 1) / lanes + rounding).all()
        assert (ends[rows + 1] >= lane / lanes - rounding).all()
        # Of the slices, the first floor(B * end) lie wholly in front of a row's end, and at most
        # one has it inside. So the lanes in front are B * end, give or take one; and the lanes in
        # one row, between two ends, B * P give or take less than two.
        counts = np.bincount(rows, minlength=ROWS)
        in_front = np.cumsum(counts) - lanes * ends[1:]
        assert (np.abs(in_front) <= 1.0 + 1e-6).all()
        assert (np.abs(counts - lanes * chances) <= 2.0 + 1e-6).all()


def test_rows_with_the_smallest_leaf_share_what_is_left(source: Source) -> None:
    # 10**36 times less likely than their neighbours, and each as likely as the other alone.
    buffer = source.buffer(
        np.zeros(ROWS, np.float32), SHAPES["the smallest leaf in every other row"]
    )
    drawn = source.draw(buffer, 5000)
    assert (drawn % 2 == 1).all()
    buffer.update_priorities(np.arange(ROWS), np.zeros(ROWS))
    drawn = source.draw(buffer, 5000)
    assert np.bincount(drawn, minlength=ROWS).tolist() == [10] * ROWS


@pytest.mark.parametrize("rng", ["pcg64", "philox"])
def test_the_rows_beside_one_with_nearly_all_mass_are_drawn_in_millions_of_lanes(rng: str) -> None:
    source = Source(rng, Backend("host"), 1)
    shape = SHAPES["one row with 99.9999 %"]
    buffer = source.buffer(np.zeros(ROWS, np.float32), shape)
    ends = np.cumsum(probabilities(shape))
    others = 0
    for _ in range(16):
        rows = source.draw(buffer, 2**17)
        in_front = np.searchsorted(rows, np.arange(1, ROWS + 1)) - 2**17 * ends
        assert (np.abs(in_front) <= 1.0 + 1e-6).all()
        others += np.count_nonzero(rows != HEAVY)
    # 2.1 on average: a Poisson variable is at least 14 in 1e-7 of all cases, and 0 in one of eight.
    assert 0 < others < 14


@pytest.mark.parametrize("beta", [1.0, 0.4])
def test_weights_take_the_bias_back(beta: float, source: Source) -> None:
    generator = np.random.default_rng(7)
    x = generator.uniform(0.0, 4.0, ROWS).astype(np.float32)
    # Large values are drawn more often, so that draws without weights are biased.
    priorities = (0.2 + x) * generator.uniform(0.5, 2.0, ROWS)
    chances = probabilities(priorities)
    ratios = (ROWS * chances) ** -beta
    buffer = source.buffer(x, priorities, beta=beta)
    means = []
    for _ in range(source.rounds):
        batch = buffer.sample(100)
        rows, weights, rewards = (
            source.backend.numpy(batch[name]) for name in ("indices", "weights", "reward")
        )
        # The largest weight of a batch is its rarest row's, and was divided out.
        unnormalised = weights.astype(float) * ratios[rows].max()
        np.testing.assert_allclose(unnormalised, ratios[rows], rtol=1e-6)
        means.append(float(np.dot(unnormalised, rewards)) / len(rows))
    expected = math.fsum(chances * ratios * x)
    uniform = float(x.mean(dtype=float))
    if beta == 1.0:
        assert expected == pytest.approx(uniform, rel=1e-12)
    # Batches are independent; their lanes are not. Weights are rounded to float32.
    tolerance = STANDARD_ERRORS * float(np.std(means, ddof=1)) / math.sqrt(len(means))
    assert abs(np.mean(means) - expected) <= tolerance + 1e-6 * abs(expected)
    # Unweighted draws would be seen to be off, and so would the other beta's.
    assert abs(math.fsum(chances * x) - uniform) > 2 * tolerance
    for other in (1.0, 0.4, 0.0):
        if other != beta:
            wrong = math.fsum(chances * (ROWS * chances) ** -other * x)
            assert abs(wrong - expected) > 2 * tolerance


def test_lanes_and_draws_are_independent(source: Source) -> None:
    # Equal leaves, fifty a slice: where in its slice a lane draws is uniform, and says nothing of
    # the next lane, nor of the same lane in the next draw.
    lanes, width = 64, 50
    rows = lanes * width
    buffer = source.buffer(np.zeros(rows, np.float32), np.ones(rows))
    draws = np.array([source.draw(buffer, lanes) for _ in range(source.rounds)])
    places = draws - width * np.arange(lanes)
    assert places.min() == 0
    assert places.max() == width - 1
    assert len({row.tobytes() for row in draws}) == len(draws)
    chance, cells = chi_square_chance(places.ravel(), np.full(width, 1 / width))
    assert cells == width
    assert chance >= FALSE_ALARMS
    centred = (places - (width - 1) / 2) / math.sqrt((width**2 - 1) / 12)
    for here, there in (
        (centred[1:], centred[:-1]),
        (centred[:, 1:], centred[:, :-1]),
        (centred[1:, 1:], centred[:-1, :-1]),
        (centred[2:], centred[:-2]),
        (centred[:, 32:], centred[:, :-32]),
    ):
        correlation = float(np.mean(here * there))
        assert abs(correlation) * math.sqrt(here.size) < STANDARD_ERRORS
