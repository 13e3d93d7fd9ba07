"""Several environments, n-step transitions: DQN on CartPole-v1 from N poles at once.

`cpreplay.gym.TransitionRecorder` turns what vector environments return into transitions, whichever
way they reset themselves; an n-step block aggregates those of each environment by itself, and
stores them. Network and optimizer are those of dqn_cartpole.py.

    pip install "cpreplay[demo]"
    python examples/vector_environments.py --mode next_step
    python examples/vector_environments.py --mode same_step --envs 16 --n 5
    python examples/vector_environments.py --mode disabled

Printed is what became of every step: which are stored, as windows of how many steps, and which are
still pending, first steps of windows that are not complete. The last line has the mean returns of
the first and the last episodes.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

try:
    import gymnasium
    from tqdm import tqdm

    from cpreplay.gym import TransitionRecorder
except ModuleNotFoundError as error:
    raise SystemExit(
        f"vector_environments.py needs {error.name}, which is not installed: "
        "pip install 'cpreplay[demo]'"
    ) from None

from dqn_cartpole import (
    ACTIONS,
    BATCH,
    ENVIRONMENT,
    LEARNING_RATE,
    OBS_WIDTH,
    REWARD_SCALE,
    TARGET_RATE,
    Adam,
    TwinNetwork,
)
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from cpreplay import NStepSampleStep
from cpreplay.block_aliases import NStepUniformSampleCpuStep

STEPS = 16_000  # of all environments together
TIME_LIMIT = 200  # steps of an episode, so that some are truncated
LEARNING_STARTS = 500
GAMMA = 0.99
EPSILON_START, EPSILON_END, EXPLORATION = 1.0, 0.05, 0.5  # falls during this part of the run
UPDATES = 2  # for each step of all environments


@dataclass(frozen=True)
class Result:
    """What a run leaves."""

    memory: NStepSampleStep
    recorded: int  # steps that an environment took
    resets: int  # calls in which an environment was reset instead
    returns: list[float]  # of each finished episode


def train(
    mode: AutoresetMode, *, n: int, n_envs: int, steps: int, seed: int, quiet: bool = True
) -> Result:
    """Play `steps` steps in `n_envs` environments together, and learn from them."""
    network_seed, exploration_seed, memory_seed = (
        np.random.SeedSequence(seed).generate_state(3).tolist()
    )
    online = TwinNetwork(np.random.default_rng(network_seed))
    target = TwinNetwork(np.random.default_rng(network_seed))
    optimizer = Adam(online.weights)
    exploration = np.random.default_rng(exploration_seed)

    # Room for the whole run, and the column `truncated`, are for the counts below.
    memory = NStepUniformSampleCpuStep(
        OBS_WIDTH,
        (),
        batch=BATCH,
        cap=max(steps + n_envs, BATCH),
        n=n,
        gamma=GAMMA,
        n_envs=n_envs,
        action_dtype="int64",
        extra_columns={"truncated": ((), "bool")},
        seed=memory_seed,
    )
    memory.setup(learning_starts=LEARNING_STARTS)

    envs = SyncVectorEnv(
        [lambda: gymnasium.make(ENVIRONMENT, max_episode_steps=TIME_LIMIT)] * n_envs,
        autoreset_mode=mode,
    )
    recorder = TransitionRecorder(envs)
    obs, _ = envs.reset(seed=seed)
    recorder.reset(obs)

    recorded = resets = 0
    returns: list[float] = []
    running = np.zeros(n_envs)
    for number in (bar := tqdm(range(0, steps, n_envs), disable=quiet, unit=" steps of all")):
        progress = number / steps
        epsilon = EPSILON_START + (EPSILON_END - EPSILON_START) * min(progress / EXPLORATION, 1.0)
        action = online(obs).sum(axis=0).argmax(axis=1)
        random = exploration.random(n_envs) < epsilon
        action = np.where(random, exploration.integers(ACTIONS, size=n_envs), action)

        obs, reward, terminated, truncated, info = envs.step(action)
        step = recorder.record(action, obs, reward, terminated, truncated, info)
        memory.add_batch(*step.transition, step.truncated, mask=step.mask)

        recorded += int(step.mask.sum())
        resets += int((~step.mask).sum())
        running += np.where(step.mask, step.reward, 0.0)
        ended = (step.terminated | step.truncated) & step.mask
        returns += running[ended].tolist()
        running[ended] = 0.0
        bar.set_postfix_str(f"mean return {np.mean(returns[-20:] or [0.0]):.0f}", refresh=False)
        if mode is AutoresetMode.DISABLED and ended.any():  # nobody else resets them
            obs, _ = envs.reset(options={"reset_mask": ended})
            recorder.reset(obs, ended)

        for _ in range(UPDATES):
            batch = memory.step(number)
            if batch is None:
                break
            value = target(batch.next_obs).min(axis=0).max(axis=1)
            goal = REWARD_SCALE * batch.reward + batch["discount"] * value  # no `~terminated`
            gradient, _ = online.gradient(batch.obs, batch.action, goal)
            optimizer.step(gradient, LEARNING_RATE * (1.0 - progress))
            target.weights += np.float32(TARGET_RATE) * (online.weights - target.weights)
    envs.close()
    return Result(memory, recorded, resets, returns)


def lengths(memory: NStepSampleStep) -> NDArray[np.int64]:
    """How many rows are windows of 1, 2, ... n steps: a reward here is 1 a step."""
    reward = memory.buffer.column("reward")[: memory.count()]
    of = np.cumsum(GAMMA ** np.arange(memory.nstep.n))
    return np.bincount(np.abs(reward[:, None] - of).argmin(axis=1), minlength=len(of))


def main() -> None:
    modes = {mode.name.lower(): mode for mode in AutoresetMode}
    parser = argparse.ArgumentParser(description="n-step DQN from several environments at once.")
    parser.add_argument("--mode", choices=sorted(modes), default="next_step")
    parser.add_argument("--envs", type=int, default=8, help="environments (%(default)s)")
    parser.add_argument("--n", type=int, default=3, help="steps in a window (%(default)s)")
    parser.add_argument("--steps", type=int, default=STEPS, help="of all together (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    args = parser.parse_args()

    result = train(
        modes[args.mode],
        n=args.n,
        n_envs=args.envs,
        steps=args.steps,
        seed=args.seed,
        quiet=args.quiet,
    )
    memory = result.memory
    columns = {
        name: memory.buffer.column(name)[: memory.count()] for name in ("terminated", "truncated")
    }
    print(f"{args.envs} environments, autoreset mode {args.mode}, n = {args.n}")
    print(f"steps recorded: {result.recorded}; resets masked out: {result.resets}")
    print(
        f"rows stored: {memory.count()}, {columns['terminated'].sum()} of them ending in a "
        f"termination and {columns['truncated'].sum()} in a truncation; "
        f"steps pending: {memory.nstep.pending.sum()}"
    )
    counts = ", ".join(f"{count} of {m}" for m, count in enumerate(lengths(memory), 1))
    print(f"windows by steps: {counts}")
    if len(result.returns) >= 20:
        first, last = np.mean(result.returns[:20]), np.mean(result.returns[-20:])
        print(f"mean return of the first 20 episodes: {first:.1f}; of the last 20: {last:.1f}")


if __name__ == "__main__":
    main()
