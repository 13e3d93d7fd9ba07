"""What demonstrations are worth: the same agent with and without them, in plain NumPy.

The task is CartPole-v1 with another reward: the pole has to stand, and the cart has to stand at a
mark that is a metre away. A step earns 1 at the mark and less with the distance, so an agent that
has learned to balance anywhere, and is content with it, earns half.

RLPD (Ball et al. 2023) learns from scratch with half of every minibatch from demonstrations. Here a
hand-written controller records them into a .demo file. They are loaded into an n-step block, which
pins them in its ring and halves each minibatch. All else is the same with and without: networks and
optimizer are those of dqn_cartpole.py, and a seed gives both agents the same first weights. Three
seeds, six runs, take under a minute.

    pip install "cpreplay[demo]"
    python examples/rlpd_cartpole.py --seeds 3 --plot demonstrations.png

Every so many environment steps some greedy episodes are played. Printed is after how many
environment steps these first had a fixed mean return. The steps of the controller are not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import gymnasium
    from matplotlib.figure import Figure
    from tqdm import tqdm
except ModuleNotFoundError as error:
    raise SystemExit(
        f"rlpd_cartpole.py needs {error.name}, which is not installed: pip install 'cpreplay[demo]'"
    ) from None

from dqn_cartpole import (
    ACTIONS,
    BATCH,
    ENVIRONMENT,
    OBS_WIDTH,
    REWARD_SCALE,
    TARGET_RATE,
    Adam,
    Floats,
    TwinNetwork,
)

import cpreplay
from cpreplay.block_aliases import NStepUniformSampleCpuStep

MARK = 1.0  # where the cart should stand; episodes begin near 0
STEPS = 12_000
CAPACITY = 20_000  # demonstrations and the whole run
LEARNING_STARTS = 200
N, GAMMA = 3, 0.99
LEARNING_RATE = 1e-3
EPSILON_START, EPSILON_END, EXPLORATION = 1.0, 0.05, 2_000  # falls during so many steps
EVALUATE_EVERY, EVALUATION_EPISODES, EVALUATION_SEED = 500, 10, 1_000_000
LONGEST = 500  # steps of an episode, after which CartPole-v1 truncates it
GOAL = 400.0  # mean return of an evaluation

DEMO_EPISODES, DEMO_SEED = 5, 2_000_000
DEMO_NOISE = 0.2  # share of random actions, so that there is something to recover from

WITHOUT, WITH = "without demonstrations", "with demonstrations"
# Two of Okabe and Ito's colours, which stay apart for all kinds of colour vision.
COLOURS = {WITHOUT: "#0072B2", WITH: "#D55E00"}

Reals = NDArray[np.float64]


def reward_of(next_obs: Floats, terminated: Any) -> Reals:
    """What steps earn that end in observations (..., 4)."""
    distance = np.abs(next_obs[..., 0] - MARK)
    return np.where(terminated, 0.0, np.maximum(0.0, 1.0 - distance / 2.0))


def balance(obs: Floats) -> int:
    """A hand-written controller: push to the side that the pole is about to fall to.

    The cart's place and speed count a little, so that it leans, and walks, towards the mark.
    """
    position, velocity, angle, spin = obs
    return int(angle + 0.3 * spin + 0.1 * (position - MARK) + 0.15 * velocity > 0.0)


def record_demonstrations(path: Path) -> cpreplay.DemoSet:
    """Play the controller, and write what it did to a .demo file."""
    demos = cpreplay.DemoSet(obs_dim=OBS_WIDTH, act_dim=1)
    rng = np.random.default_rng(DEMO_SEED)
    env = gymnasium.make(ENVIRONMENT)
    for episode in range(DEMO_EPISODES):
        obs, _ = env.reset(seed=DEMO_SEED + episode)
        demos.begin_episode()
        terminated = truncated = False
        while not (terminated or truncated):
            action = int(rng.integers(ACTIONS)) if rng.random() < DEMO_NOISE else balance(obs)
            next_obs, _, terminated, truncated, _ = env.step(action)
            reward = reward_of(next_obs, terminated)
            demos.add(obs, [action], reward, next_obs, terminated)
            obs = next_obs
        demos.end_episode(success=not terminated)  # the pole stood until the clock ran out
    env.close()
    cpreplay.write_demo_file(path, demos)
    return demos


@dataclass(frozen=True)
class Curve:
    """Mean returns of greedy episodes, and after how many environment steps they were played."""

    steps: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)

    def reached(self, goal: float) -> int | None:
        """Environment steps until the mean return was first at least `goal`; None if never."""
        for steps, mean in zip(self.steps, self.returns, strict=True):
            if mean >= goal:
                return steps
        return None


def train(seed: int, steps: int, demo_file: Path | None, bar: tqdm[Any] | None = None) -> Curve:
    """Learn for `steps` environment steps; with a file, half of each minibatch is from it."""
    env_seed, network_seed, exploration_seed, memory_seed = (
        np.random.SeedSequence(seed).generate_state(4).tolist()
    )
    online = TwinNetwork(np.random.default_rng(network_seed))
    target = TwinNetwork(np.random.default_rng(network_seed))
    optimizer = Adam(online.weights)
    exploration = np.random.default_rng(exploration_seed)

    memory = NStepUniformSampleCpuStep(
        OBS_WIDTH, (), BATCH, CAPACITY, N, GAMMA, action_dtype="int64", seed=memory_seed
    )
    memory.setup(learning_starts=LEARNING_STARTS)
    if demo_file is not None:
        cpreplay.load_demos_into_replay(memory, demo_file)

    curve = Curve()
    env = gymnasium.make(ENVIRONMENT)
    obs, _ = env.reset(seed=env_seed)
    for step in range(steps):
        epsilon = EPSILON_START + (EPSILON_END - EPSILON_START) * min(step / EXPLORATION, 1.0)
        if exploration.random() < epsilon:
            action = int(exploration.integers(ACTIONS))
        else:
            action = online.greedy(obs)
        next_obs, _, terminated, truncated, _ = env.step(action)
        reward = reward_of(next_obs, terminated)
        memory.add(obs, action, reward, next_obs, terminated, truncated)
        obs = env.reset()[0] if terminated or truncated else next_obs

        batch = memory.step(step)
        if batch is not None:
            value = target(batch.next_obs).min(axis=0).max(axis=1)
            goal = REWARD_SCALE * batch.reward + batch["discount"] * value
            gradient, _ = online.gradient(batch.obs, batch.action, goal)
            optimizer.step(gradient, LEARNING_RATE)
            target.weights += np.float32(TARGET_RATE) * (online.weights - target.weights)
        if (step + 1) % EVALUATE_EVERY == 0:
            curve.steps.append(step + 1)
            curve.returns.append(float(evaluate(online).mean()))
        if bar is not None:
            bar.update()
    env.close()
    return curve


def evaluate(network: TwinNetwork) -> Reals:
    """Returns of greedy episodes, which begin alike for every network."""
    envs = gymnasium.make_vec(
        ENVIRONMENT, EVALUATION_EPISODES, vectorization_mode="vector_entry_point"
    )
    obs, _ = envs.reset(seed=EVALUATION_SEED)
    returns, over = np.zeros(EVALUATION_EPISODES), np.zeros(EVALUATION_EPISODES, bool)
    while not over.all():
        obs, _, terminated, truncated, _ = envs.step(network(obs).sum(axis=0).argmax(axis=1))
        returns += np.where(over, 0.0, reward_of(obs, terminated))
        over |= terminated | truncated
    envs.close()
    return returns


def plot(curves: dict[str, list[Curve]], path: Path, title: str) -> None:
    """Write both learning curves as an image: the mean over seeds, and from worst to best."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, of_seeds in curves.items():
        returns, colour = np.array([curve.returns for curve in of_seeds]), COLOURS[name]
        steps = of_seeds[0].steps
        axes.fill_between(
            steps, returns.min(axis=0), returns.max(axis=0), color=colour, alpha=0.2, linewidth=0
        )
        axes.plot(steps, returns.mean(axis=0), color=colour, label=name)
    axes.axhline(GOAL, color="black", linestyle=":", linewidth=1, label=f"a return of {GOAL:g}")
    axes.set(xlabel="environment steps", ylabel="mean return of greedy episodes", title=title)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=100)


def report(name: str, curves: list[Curve], steps: int) -> tuple[float, bool]:
    """Print when each seed reached the goal; the mean, and whether all of them did.

    A seed that did not counts as if it had at the end, so that the mean is a lower bound.
    """
    reached = [curve.reached(GOAL) for curve in curves]
    mean = float(np.mean([steps if at is None else at for at in reached]))
    whole = None not in reached
    each = ", ".join("never" if at is None else f"{at:,}" for at in reached)
    print(
        f"{name}: {'' if whole else 'at least '}{mean:,.0f} steps to a return of {GOAL:g} ({each})"
    )
    return mean, whole


def main() -> None:
    parser = argparse.ArgumentParser(description="Learning with and without demonstrations.")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 (%(default)s)")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each run (%(default)s)")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="write the learning curves here")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    args = parser.parse_args()
    if args.seeds < 1 or args.steps < EVALUATE_EVERY:
        parser.error(f"--seeds has to be at least 1, and --steps at least {EVALUATE_EVERY}")
    if args.steps > (most := CAPACITY - LONGEST * DEMO_EPISODES):
        parser.error(f"--steps has to be at most {most}, which the memory has room for")

    started = time.perf_counter()
    curves: dict[str, list[Curve]] = {WITHOUT: [], WITH: []}
    with (
        tempfile.TemporaryDirectory() as folder,
        tqdm(total=2 * args.seeds * args.steps, disable=args.quiet, unit=" steps") as bar,
    ):
        demo_file = Path(folder) / "balance.demo"
        summary = record_demonstrations(demo_file).summary()
        for seed in range(args.seeds):
            curves[WITHOUT].append(train(seed, args.steps, None, bar))
            curves[WITH].append(train(seed, args.steps, demo_file, bar))
    seconds = time.perf_counter() - started

    print(
        f"{summary.episodes} demonstrations of {summary.rows:,} steps, {summary.successes} of them "
        f"to the end, mean reward of a step {summary.mean_reward:.2f}"
    )
    print(f"seeds 0 to {args.seeds - 1}, {args.steps:,} environment steps each, {seconds:.0f} s")
    slow, all_slow = report(WITHOUT, curves[WITHOUT], args.steps)
    fast, all_fast = report(WITH, curves[WITH], args.steps)
    if all_fast:
        print(f"ratio: {'' if all_slow else 'at least '}{slow / fast:.1f}")
    else:
        print("ratio: none, since some seeds did not get there with demonstrations")
    if args.plot is not None:
        seeds = f"seeds 0 to {args.seeds - 1}"
        title = f"A pole to be balanced at a mark, {seeds}: mean, worst and best"
        plot(curves, args.plot, title)


if __name__ == "__main__":
    main()
