"""Priorities as a run leaves them, and how often each transition is then drawn, in one picture.

Trains the agent of dqn_cartpole.py on prioritized minibatches, then goes on drawing without
learning. The picture is that of docs/prioritized.md.

    pip install "cpreplay[demo]"
    python examples/plot_priorities.py priorities.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError:
    raise SystemExit(
        "plot_priorities.py needs matplotlib, which is not installed: pip install 'cpreplay[demo]'"
    ) from None

from dqn_cartpole import ALPHA, BATCH, STEPS, train

import cpreplay

LANES_PER_ROW = 50  # of the one large draw that the priorities are read from
# Two of Okabe and Ito's colours, which stay apart for all kinds of colour vision.
BLUE, ORANGE = "#0072B2", "#D55E00"

Reals = NDArray[np.float64]


def probabilities(buffer: cpreplay.StoreReplay | cpreplay.StoreReplayGpu) -> Reals:
    """P(i) of every row, from what anyone can see of a buffer: the weights of a draw.

    At beta = 1 a weight is proportional to 1 / P(i). Draws are stratified, so a large enough one
    has every row but those whose priority is a small part of the mean: these are 0 here.
    """
    buffer.set_beta(1.0)
    batch = buffer.sample(LANES_PER_ROW * len(buffer))
    found = np.zeros(len(buffer))
    found[batch.indices] = 1.0 / batch.weights
    return found / found.sum()


def frequencies(buffer: cpreplay.StoreReplay | cpreplay.StoreReplayGpu, draws: int) -> Reals:
    """Each row's share of the lanes of many minibatches."""
    batch = buffer.make_batch(BATCH)
    counts = np.zeros(len(buffer), int)
    for _ in range(draws):
        buffer.sample(BATCH, out=batch)
        counts += np.bincount(batch.indices, minlength=len(counts))
    return counts / counts.sum()


def plot(
    priorities: Reals, entering: float, p: Reals, drawn: Reals, path: Path, title: str
) -> None:
    """Two panels: how priorities are spread, and the draws that came of them."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    left, right = figure.subplots(1, 2)

    seen = priorities[priorities > 0.0]
    edges = np.geomspace(seen.min(), max(seen.max(), entering) * 1.01, 60)
    left.hist(seen, edges, color=BLUE)
    left.axvline(entering, color=ORANGE, linestyle="--", label="where new rows enter")
    left.set(xscale="log", yscale="log", ylabel="rows (60 bins)")
    left.set_ylim(0.7, left.get_ylim()[1] * 5)  # room for the legend
    left.set_xlabel(r"priority $p_i = |\delta_i| + \epsilon$")
    left.legend(loc="upper left")

    uniform = 1.0 / len(p)
    right.plot(p, drawn, ".", color=BLUE, markersize=2.5, alpha=0.1, label="a row")
    ends = np.array([p[p > 0.0].min(), p.max()])
    right.plot(ends, ends, color="black", linewidth=1, label="frequency = $P(i)$")
    right.axhline(uniform, color=ORANGE, linestyle="--", label="uniform draws")
    right.set(xscale="log", yscale="log", ylabel="share of all lanes drawn")
    right.set_xlabel(rf"$P(i) = p_i^{{{ALPHA}}}\,/\,\Sigma_k\,p_k^{{{ALPHA}}}$")
    for handle in right.legend(loc="upper left").legend_handles:
        handle.set_alpha(1.0)
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description="A picture of priorities after a run of DQN.")
    parser.add_argument("path", type=Path, help="the PNG to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="environment steps (%(default)s)")
    parser.add_argument("--draws", type=int, default=50_000, help="minibatches (%(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    args = parser.parse_args()

    buffer = train(args.seed, args.steps, "prioritized", quiet=args.quiet).memory.buffer
    stats = buffer.stats()
    p = probabilities(buffer)
    drawn = frequencies(buffer, args.draws)
    priorities = (p * stats["priority_total"]) ** (1.0 / ALPHA)
    title = (
        f"DQN on CartPole-v1, seed {args.seed}, after {args.steps:,} steps; "
        f"then {args.draws:,} minibatches of {BATCH}"
    )
    plot(priorities, stats["max_priority"], p, drawn, args.path, title)
    print(
        f"{len(buffer):,} rows, {np.count_nonzero(p):,} of them seen; effective sample size "
        f"{stats['effective_sample_size']:,.0f}; max_priority {stats['max_priority']:.3g}"
    )


if __name__ == "__main__":
    main()
