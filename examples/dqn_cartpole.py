"""DQN on CartPole-v1, in plain NumPy, with minibatches from a cpreplay sample block.

DQN (Mnih et al. 2015) with clipped double Q-learning (Fujimoto et al. 2018): two networks learn
side by side, and the target takes the smaller of their values. Network and optimizer are written
out below: nothing is imported to learn with but the replay memory. A run takes well under a minute.

    pip install "cpreplay[demo]"
    python examples/dqn_cartpole.py --seed 0 --plot learning_curve.png
    python examples/dqn_cartpole.py --seed 0 --buffer prioritized

With `--buffer prioritized` transitions are drawn by their TD errors (Schaul et al. 2016): the loss
of each is multiplied by its importance weight, and its new error is given back to the memory.

With `--checkpoint FOLDER` a run may be killed at any moment. The same command with `--resume` goes
on from its last checkpoint, and ends with the weights, byte for byte, that it would have had:

    python examples/dqn_cartpole.py --seed 0 --checkpoint run0 --resume

The last line printed is the mean return of greedy episodes with the final weights; CartPole-v1
stops an episode after 500 steps, so 500 is the best there is. The same seed gives the same
minibatches and the same weights, byte for byte (on one machine: NumPy's BLAS may round differently
on another).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cpreplay

try:
    import gymnasium
    from matplotlib.figure import Figure
    from tqdm import tqdm
except ModuleNotFoundError as error:
    raise SystemExit(
        f"dqn_cartpole.py needs {error.name}, which is not installed: pip install 'cpreplay[demo]'"
    ) from None

ENVIRONMENT = "CartPole-v1"
OBS_WIDTH, ACTIONS = 4, 2
# Position, velocity, angle and angular velocity of an ordinary moment. The network sees multiples
# of these; without them the angle (at most 0.2) is drowned by the other three.
OBS_SCALE = np.array([1.2, 1.0, 0.1, 1.0], np.float32)
REWARD_SCALE = 0.05  # keeps action values, and with them errors, near 1
# Products of 64 x 64 matrices stay on one thread of NumPy's OpenBLAS. Twice the batch would spread
# them over threads, which on a busy machine takes many times as long.
HIDDEN = 64
BATCH = 64
STEPS = 40_000
CAPACITY = 50_000  # the whole run: early falls stay in the data when the policy no longer falls
LEARNING_STARTS = 1_000
UPDATE_EVERY = 2
GAMMA = 0.99
LEARNING_RATE = 1e-3  # falls linearly to zero, so that the final weights have settled
TARGET_RATE = 0.02  # how far each update moves the target networks towards the online ones
EPSILON_START, EPSILON_END, EXPLORATION = 1.0, 0.05, 0.3  # falls during this part of the run
EVALUATION_SEED = 1_000_000
CHECKPOINT_EVERY = 5_000

# Of prioritized draws alone. alpha: 0 draws uniformly, 1 in proportion to the error. beta: how much
# of the bias of such draws the weights take back; it grows to 1, all of it, at the end of the run.
ALPHA, BETA_START = 0.4, 0.4

# What `--buffer` offers.
BUFFERS = {
    "prioritized": cpreplay.StorePerSampleCpuStep,
    "uniform": cpreplay.StoreUniformSampleCpuStep,
}

Floats = NDArray[np.float32]


class TwinNetwork:
    """Observations (B, 4) to two opinions on the action values (2, B, 2).

    Two networks of two layers of rectified units, which differ in their first weights alone and
    are computed together: a layer is a stack of two matrices. All weights lie in one flat vector
    of which the layers are views, so the optimizer and the target are a line of arithmetic each.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        shapes = [(OBS_WIDTH, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, ACTIONS)]
        self.weights: Floats = np.zeros(sum(2 * (n + 1) * m for n, m in shapes), np.float32)
        self.layers: list[tuple[Floats, Floats]] = []
        start = 0
        for n, m in shapes:
            layer = self.weights[start : start + 2 * (n + 1) * m].reshape(2, n + 1, m)
            kernel, bias = layer[:, :n], layer[:, n:]
            kernel[:] = rng.normal(0.0, np.sqrt(2.0 / n), kernel.shape)
            self.layers.append((kernel, bias))
            start += layer.size

    def __call__(self, obs: Floats) -> Floats:
        return self._forward(obs)[-1]

    def greedy(self, obs: Floats) -> int:
        """The best action for one observation (4,), by the sum of both opinions."""
        return int(self(obs[None]).sum(axis=0).argmax())

    def gradient(
        self,
        obs: Floats,
        action: NDArray[np.int64],
        target: Floats,
        importance: Floats | float = 1.0,
    ) -> tuple[Floats, Floats]:
        """Of the mean Huber loss of Q(obs, action) to `target`, and the TD errors (2, B) in it.

        The gradient is flat like `weights`. `importance` (B,) multiplies the lanes' losses.
        """
        x, h1, h2, q = self._forward(obs)
        lanes = np.arange(len(obs))
        error = q[:, lanes, action] - target
        d3 = np.zeros_like(q)
        d3[:, lanes, action] = importance * np.clip(error, -1.0, 1.0) / len(obs)
        d2 = (d3 @ self.layers[2][0].swapaxes(1, 2)) * (h2 > 0.0)
        d1 = (d2 @ self.layers[1][0].swapaxes(1, 2)) * (h1 > 0.0)
        parts = []
        for h, d in ((x, d1), (h1, d2), (h2, d3)):
            layer = np.concatenate([h.swapaxes(1, 2) @ d, d.sum(axis=1, keepdims=True)], axis=1)
            parts.append(layer.ravel())
        return np.concatenate(parts), error

    def _forward(self, obs: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        (w1, b1), (w2, b2), (w3, b3) = self.layers
        x = (obs / OBS_SCALE)[None]
        h1 = np.maximum(x @ w1 + b1, 0.0)
        h2 = np.maximum(h1 @ w2 + b2, 0.0)
        return x, h1, h2, h2 @ w3 + b3


class Adam:
    """Kingma and Ba 2015, changing one flat vector in place."""

    def __init__(self, weights: Floats) -> None:
        self.weights = weights
        self.mean = np.zeros_like(weights)
        self.square = np.zeros_like(weights)
        self.count = 0

    def step(self, gradient: Floats, rate: float) -> None:
        self.count += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.001 * (gradient * gradient - self.square)
        rate *= float(np.sqrt(1.0 - 0.999**self.count) / (1.0 - 0.9**self.count))
        self.weights -= rate * self.mean / (np.sqrt(self.square) + 1e-8)


@dataclass
class Run:
    """All that changes from one step to the next, and so all that a checkpoint holds."""

    network: TwinNetwork
    target: TwinNetwork
    optimizer: Adam
    exploration: np.random.Generator
    memory: cpreplay.ReplaySampleStep
    env: gymnasium.Env[Any, Any]
    obs: Floats
    step: int = 0
    episode_return: float = 0.0
    returns: list[float] = field(default_factory=list)  # of each finished episode
    ended_at: list[int] = field(default_factory=list)  # and after how many steps it was finished

    def vectors(self) -> dict[str, Floats]:
        """What is learned. Others hold views of these, so they are filled, never replaced."""
        return {
            "weights": self.network.weights,
            "target": self.target.weights,
            "mean": self.optimizer.mean,
            "square": self.optimizer.square,
        }


def new_run(seed: int, buffer: str) -> Run:
    """A run before its first step."""
    seeds = np.random.SeedSequence(seed).generate_state(4).tolist()
    env_seed, network_seed, exploration_seed, memory_seed = seeds
    network = TwinNetwork(np.random.default_rng(network_seed))
    memory = BUFFERS[buffer](OBS_WIDTH, (), BATCH, CAPACITY, action_dtype="int64", seed=memory_seed)
    if memory.buffer.prioritized:
        memory.configure_per(alpha=ALPHA, beta=BETA_START)
    memory.setup(learning_starts=LEARNING_STARTS)
    env = gymnasium.make(ENVIRONMENT)
    return Run(
        network=network,
        target=TwinNetwork(np.random.default_rng(network_seed)),
        optimizer=Adam(network.weights),
        exploration=np.random.default_rng(exploration_seed),
        memory=memory,
        env=env,
        obs=env.reset(seed=env_seed)[0],
    )


def save_checkpoint(run: Run, folder: Path, settings: dict[str, Any]) -> None:
    """Write a run into a folder, so that whenever the program is killed, a whole one is there.

    The memory's file comes first, and has the step in its name. The agent's file says which step it
    is of, and takes the place of the one before in one go: until then, that one is the checkpoint,
    and the memory that belongs to it is still there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    replay = folder / f"replay-{run.step}.tar.zst"
    run.memory.save(replay)

    state = {
        "settings": settings,
        "step": run.step,
        "episode_return": run.episode_return,
        "returns": run.returns,
        "ended_at": run.ended_at,
        "updates": run.optimizer.count,
        "exploration": run.exploration.bit_generator.state,
        # CartPole is four numbers, a clock and a generator. An environment that cannot be saved
        # has to be reset here, with a seed, and with the same one on resuming.
        "env_state": list(run.env.unwrapped.state),
        "env_elapsed": run.env.get_wrapper_attr("_elapsed_steps"),
        "env_rng": run.env.unwrapped.np_random.bit_generator.state,
    }
    new = folder / "agent.npz.new"
    with new.open("wb") as file:
        np.savez(file, state=json.dumps(state), obs=run.obs, **run.vectors())
        file.flush()
        os.fsync(file.fileno())  # on disk before it has the name
    os.replace(new, folder / "agent.npz")
    for old in folder.glob("replay-*.tar.zst"):
        if old != replay:
            old.unlink()


def load_checkpoint(run: Run, folder: Path, settings: dict[str, Any]) -> None:
    """Make a new run the one that `save_checkpoint` wrote."""
    with np.load(folder / "agent.npz") as file:
        state = json.loads(file["state"].item())
        if state["settings"] != settings:
            raise SystemExit(f"{folder} holds a run with {state['settings']}, not {settings}")
        run.memory.resume(folder / f"replay-{state['step']}.tar.zst")
        for name, vector in run.vectors().items():
            vector[:] = file[name]
        run.obs = file["obs"]
    run.step = state["step"]
    run.episode_return = state["episode_return"]
    run.returns = state["returns"]
    run.ended_at = state["ended_at"]
    run.optimizer.count = state["updates"]
    run.exploration.bit_generator.state = state["exploration"]
    run.env.unwrapped.state = np.array(state["env_state"])
    run.env.set_wrapper_attr("_elapsed_steps", state["env_elapsed"])
    run.env.unwrapped.np_random.bit_generator.state = state["env_rng"]


def train(
    seed: int,
    steps: int = STEPS,
    buffer: str = "uniform",
    *,
    on_batch: Callable[[cpreplay.Batch], None] | None = None,
    quiet: bool = True,
    checkpoint: Path | None = None,
    checkpoint_every: int = CHECKPOINT_EVERY,
) -> Run:
    """Play `steps` environment steps and learn from them.

    `on_batch` is called with each minibatch before it is learned from. With `checkpoint`, a folder,
    the run goes on from the checkpoint there, if there is one, and saves itself there.
    """
    run = new_run(seed, buffer)
    settings = {"seed": seed, "steps": steps, "buffer": buffer}
    if checkpoint is not None and (checkpoint / "agent.npz").exists():
        load_checkpoint(run, checkpoint, settings)
    online, target, memory = run.network, run.target, run.memory
    prioritized = memory.buffer.prioritized

    first = run.step
    bar = tqdm(range(first, steps), initial=first, total=steps, disable=quiet, unit=" steps")
    for step in bar:
        if checkpoint is not None and step > first and step % checkpoint_every == 0:
            run.step = step
            save_checkpoint(run, checkpoint, settings)

        progress = step / steps
        epsilon = EPSILON_START + (EPSILON_END - EPSILON_START) * min(progress / EXPLORATION, 1.0)
        if run.exploration.random() < epsilon:
            action = int(run.exploration.integers(ACTIONS))
        else:
            action = online.greedy(run.obs)

        next_obs, reward, terminated, truncated, _ = run.env.step(action)
        # `terminated`, never `terminated or truncated`: a pole that still stands when the clock
        # runs out has a future, and the target below must count it. The transition ends in the
        # episode's own last observation; the first one of the next episode is in the next row.
        memory.add(run.obs, action, reward, next_obs, terminated, truncated=truncated)
        run.obs = next_obs
        run.episode_return += float(reward)
        if terminated or truncated:
            run.returns.append(run.episode_return)
            run.ended_at.append(step + 1)
            bar.set_postfix_str(f"mean return {np.mean(run.returns[-20:]):.0f}", refresh=False)
            run.episode_return = 0.0
            run.obs, _ = run.env.reset()

        if step % UPDATE_EVERY:
            continue
        if prioritized:
            memory.set_beta(BETA_START + (1.0 - BETA_START) * progress)
        batch = memory.step(step)
        if batch is None:  # too early to learn
            continue
        if on_batch is not None:
            on_batch(batch)
        # The largest of noisy values is too large, and bootstrapping feeds the error back until
        # values exceed all that can be earned. The smaller of two opinions prevents it.
        value = target(batch.next_obs).min(axis=0).max(axis=1)
        goal = REWARD_SCALE * batch.reward + np.float32(GAMMA) * ~batch.terminated * value
        importance = batch.weights if prioritized else 1.0
        gradient, error = online.gradient(batch.obs, batch.action, goal, importance)
        if prioritized:
            memory.update_priorities(np.abs(error).mean(axis=0))
        run.optimizer.step(gradient, LEARNING_RATE * (1.0 - progress))
        target.weights += np.float32(TARGET_RATE) * (online.weights - target.weights)
    run.step = steps
    run.env.close()
    return run


def evaluate(network: TwinNetwork, episodes: int) -> list[float]:
    """Returns of greedy episodes; which ones they are does not depend on the network."""
    env = gymnasium.make(ENVIRONMENT)
    returns = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=EVALUATION_SEED + episode)
        episode_return, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(network.greedy(obs))
            episode_return += float(reward)
            over = terminated or truncated
        returns.append(episode_return)
    env.close()
    return returns


def plot(run: Run, path: Path, title: str) -> None:
    """Write the learning curve, one point an episode and their running mean, as an image."""
    returns = run.returns
    means = [np.mean(returns[max(0, end - 20) : end]) for end in range(1, len(returns) + 1)]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(run.ended_at, returns, ".", alpha=0.3, label="episode")
    axes.plot(run.ended_at, means, label="mean of the last 20 episodes")
    axes.set(xlabel="environment steps", ylabel="return while exploring", title=title)
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description="DQN on CartPole-v1 with a cpreplay memory.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="environment steps (%(default)s)")
    parser.add_argument("--buffer", choices=sorted(BUFFERS), default="uniform")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="write the learning curve here")
    parser.add_argument("--eval-episodes", type=int, default=100, help="(%(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="save the run here")
    parser.add_argument(
        "--checkpoint-every",
        type=int,
        default=CHECKPOINT_EVERY,
        metavar="STEPS",
        help="(%(default)s)",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint, if there is one yet"
    )
    parser.add_argument("--save-weights", type=Path, metavar="PATH", help="the final ones, as .npy")
    args = parser.parse_args()
    if args.checkpoint_every < 1:
        parser.error("--checkpoint-every has to be at least 1")
    if args.resume and args.checkpoint is None:
        parser.error("--resume needs --checkpoint")
    if args.checkpoint is not None and (args.checkpoint / "agent.npz").exists() and not args.resume:
        parser.error(f"{args.checkpoint} holds a run: --resume it, or give another folder")

    started = time.perf_counter()
    run = train(
        args.seed,
        args.steps,
        args.buffer,
        quiet=args.quiet,
        checkpoint=args.checkpoint,
        checkpoint_every=args.checkpoint_every,
    )
    seconds = time.perf_counter() - started
    if args.save_weights is not None:
        np.save(args.save_weights, run.network.weights)
    if args.plot is not None:
        plot(run, args.plot, f"DQN on {ENVIRONMENT}, {args.buffer} replay, seed {args.seed}")
    mean = np.mean(evaluate(run.network, args.eval_episodes))
    print(
        f"seed {args.seed}: {args.steps} environment steps in {seconds:.1f} s; "
        f"mean return of {args.eval_episodes} greedy episodes with the final weights: {mean:.1f}"
    )


if __name__ == "__main__":
    main()
