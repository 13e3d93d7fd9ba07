"""DQN on CartPole-v1, in plain NumPy, with the minibatches drawn by a cpreplay sample block.

Double DQN (van Hasselt et al. 2016) with a two-layer network and Adam written out below, so that
nothing but the replay memory is imported to learn with. One run takes well under a minute:

    pip install "cpreplay[demo]"
    python examples/dqn_cartpole.py --seed 0 --plot learning_curve.png

The last line is the mean return of greedy episodes played with the final weights; CartPole-v1 ends an
episode after 500 steps, so 500 is the best there is. The same seed gives the same minibatches and
the same weights, byte for byte.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import cpreplay

FloatArray = NDArray[np.float32]

ENVIRONMENT = "CartPole-v1"
OBS_WIDTH, ACTIONS = 4, 2
HIDDEN = 128
CAPACITY = 50_000
BATCH = 128
LEARNING_STARTS = 1_000
UPDATE_EVERY = 2
GAMMA = 0.99
LEARNING_RATE = 1e-3
TARGET_RATE = 0.01  # the target network moves this part of the way after every update
EPSILON_START, EPSILON_END, EXPLORING = 1.0, 0.05, 0.2
GRADIENT_NORM = 10.0
EVALUATION_SEED = 1_000_000  # training resets with its own seed: no episode is seen twice

# The kinds of memory that `--buffer` knows: a swap of one for another is a one-word edit.
BUFFERS = {"uniform": cpreplay.StoreUniformSampleCpuStep}


class QNetwork:
    """Observations [B, 4] -> action values [B, 2], through two layers of ReLUs.

    All weights lie in one flat vector and the layers are views into it, so that Adam and the target
    network each are one line of arithmetic over `weights`.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        shapes = [(OBS_WIDTH, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, ACTIONS)]
        self.weights: FloatArray = np.zeros(sum((n + 1) * m for n, m in shapes), np.float32)
        self.layers = []
        start = 0
        for n, m in shapes:
            kernel = self.weights[start : start + n * m].reshape(n, m)
            bias = self.weights[start + n * m : start + (n + 1) * m]
            kernel[:] = rng.normal(0.0, np.sqrt(2.0 / n), (n, m))
            self.layers.append((kernel, bias))
            start += (n + 1) * m

    def __call__(self, obs: FloatArray) -> FloatArray:
        (w1, b1), (w2, b2), (w3, b3) = self.layers
        h1 = np.maximum(obs @ w1 + b1, 0.0)
        h2 = np.maximum(h1 @ w2 + b2, 0.0)
        return h2 @ w3 + b3

    def gradient(
        self, obs: FloatArray, action: NDArray[np.int64], target: FloatArray
    ) -> FloatArray:
        """Gradient of the mean Huber loss of Q(obs, action) against `target`, laid out as `weights`."""
        (w1, b1), (w2, b2), (w3, b3) = self.layers
        h1 = np.maximum(obs @ w1 + b1, 0.0)
        h2 = np.maximum(h1 @ w2 + b2, 0.0)
        q = h2 @ w3 + b3
        rows = np.arange(len(obs))
        d3 = np.zeros_like(q)
        d3[rows, action] = np.clip(q[rows, action] - target, -1.0, 1.0) / len(obs)
        d2 = (d3 @ w3.T) * (h2 > 0.0)
        d1 = (d2 @ w2.T) * (h1 > 0.0)
        parts = (obs.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ d3, d3.sum(0))
        return np.concatenate([part.ravel() for part in parts])


class Adam:
    """Kingma and Ba 2015, on one flat vector that it changes in place."""

    def __init__(self, weights: FloatArray) -> None:
        self.weights = weights
        self.mean = np.zeros_like(weights)
        self.square = np.zeros_like(weights)
        self.count = 0

    def step(self, gradient: FloatArray, rate: float) -> None:
        self.count += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.001 * (gradient * gradient - self.square)
        rate *= float(np.sqrt(1.0 - 0.999**self.count) / (1.0 - 0.9**self.count))
        self.weights -= rate * self.mean / (np.sqrt(self.square) + 1e-8)


@dataclass(frozen=True)
class Result:
    network: QNetwork
    returns: list[float]
    ends: list[int]


def train(seed, steps, buffer="uniform", on_batch=None, quiet=True, **hp) -> Result:
    g = globals()
    P = lambda k: hp.get(k, g[k])
    env_seed, net_seed, act_seed, mem_seed = (int(s) for s in np.random.SeedSequence(seed).generate_state(4))
    online = QNetwork(np.random.default_rng(net_seed))
    target = QNetwork(np.random.default_rng(net_seed))
    optimizer = Adam(online.weights)
    noise = np.random.default_rng(act_seed)
    memory = BUFFERS[buffer](OBS_WIDTH, (), P("BATCH"), P("CAPACITY"), action_dtype="int64", seed=mem_seed)
    memory.setup(P("LEARNING_STARTS"))
    env = gymnasium.make(ENVIRONMENT)
    obs, _ = env.reset(seed=env_seed)
    returns, ends, episode_return = [], [], 0.0
    gamma = P("GAMMA")
    for step in tqdm(range(steps), disable=quiet):
        progress = step / steps
        epsilon = max(P("EPSILON_END"), 1 + (P("EPSILON_END") - 1) * progress / P("EXPLORING"))
        if noise.random() < epsilon:
            action = int(noise.integers(ACTIONS))
        else:
            action = int(online(obs).argmax())
        next_obs, reward, terminated, truncated, _ = env.step(action)
        memory.add(obs, action, reward, next_obs, terminated, truncated=truncated)
        obs = next_obs
        episode_return += float(reward)
        if terminated or truncated:
            returns.append(episode_return); ends.append(step + 1)
            episode_return = 0.0
            obs, _ = env.reset()
        if (step + 1) % P("UPDATE_EVERY"):
            continue
        batch = memory.step(step)
        if batch is None:
            continue
        best = online(batch.next_obs).argmax(1)
        nq = target(batch.next_obs)[np.arange(len(best)), best]
        y = hp.get("RS", 1.0) * batch.reward + np.float32(gamma) * nq * ~batch.terminated
        grad = online.gradient(batch.obs, batch.action, y)
        norm = float(np.sqrt(grad @ grad))
        if norm > P("GRADIENT_NORM"):
            grad *= P("GRADIENT_NORM") / norm
        optimizer.step(grad, P("LEARNING_RATE") * (1 - progress))
        target.weights += np.float32(P("TARGET_RATE")) * (online.weights - target.weights)
    return Result(target if hp.get("POLYAK", True) else online, returns, ends), online


def evaluate(network, episodes):
    env = gymnasium.make(ENVIRONMENT)
    total = []
    for e in range(episodes):
        obs, _ = env.reset(seed=EVALUATION_SEED + e)
        over, ret = False, 0.0
        while not over:
            obs, reward, terminated, truncated, _ = env.step(int(network(obs).argmax()))
            ret += float(reward)
            over = terminated or truncated
        total.append(ret)
    return total
