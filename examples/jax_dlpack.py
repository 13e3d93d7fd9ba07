"""Train a JAX network on minibatches of a host buffer, without copying the floats of them.

    pip install cpreplay jax
    python examples/jax_dlpack.py

`jnp.from_dlpack` turns an array of a minibatch into a JAX array over the same memory, where JAX
can hold its dtype; the addresses printed first show it. The training is one round of fitted Q
iteration: the network that gives the targets stands still, so this is a regression and its loss has
to fall.

`show_traps` runs the mistakes that are easy to make with shared memory, so that you can see each.
"""

from __future__ import annotations

from typing import Any

import cpreplay

try:
    import jax
    import jax.numpy as jnp
except ModuleNotFoundError:
    raise SystemExit("jax_dlpack.py needs JAX, which is not installed: pip install jax") from None

import numpy as np

ROWS, BATCH, STEPS, GAMMA, LEARNING_RATE = 20_000, 256, 300, 0.9, 0.1
COLUMNS = ("obs", "action", "reward", "next_obs", "terminated", "indices")


def fill(buffer: cpreplay.StoreReplay, rng: np.random.Generator) -> None:
    """Store random steps of a point that is pushed left (0) or right (1) and may not pass 1."""
    obs = rng.uniform(-1.0, 1.0, (ROWS, 2)).astype(np.float32)  # position and velocity
    action = rng.integers(2, size=ROWS)
    velocity = obs[:, 1] + 0.1 * (2 * action - 1)
    next_obs = np.stack([obs[:, 0] + 0.1 * velocity, velocity], axis=1)
    terminated = np.abs(next_obs[:, 0]) > 1.0
    reward = 1.0 - np.abs(next_obs[:, 0])
    buffer.add_batch(obs, action, reward, next_obs, terminated)


def print_addresses(buffer: cpreplay.StoreReplay) -> None:
    """Show which arrays of the minibatch JAX takes as they lie, and which it converts."""
    arrays = buffer.sample(BATCH)
    shared = arrays.map(jnp.from_dlpack)
    for name in COLUMNS:
        numpy_at, jax_at = arrays[name].ctypes.data, shared[name].unsafe_buffer_pointer()
        how = "shared" if jax_at == numpy_at else "copied"
        print(f"{name:10} {shared[name].dtype!s:8} numpy {numpy_at:#x} jax {jax_at:#x} {how}")


def make_weights(rng: np.random.Generator) -> list[tuple[jax.Array, jax.Array]]:
    return [
        (jnp.asarray(rng.normal(0, (2 / n) ** 0.5, (n, m)), jnp.float32), jnp.zeros(m))
        for n, m in ((2, 64), (64, 64), (64, 2))
    ]


def network(weights: list[tuple[jax.Array, jax.Array]], obs: jax.Array) -> jax.Array:
    for kernel, bias in weights[:-1]:
        obs = jax.nn.relu(obs @ kernel + bias)
    kernel, bias = weights[-1]
    return obs @ kernel + bias


@jax.jit
def update(weights: Any, still: Any, batch: dict[str, jax.Array]) -> tuple[Any, jax.Array]:
    """One step of gradient descent; the new weights and the loss."""
    value = network(still, batch["next_obs"]).max(axis=1)
    target = batch["reward"] + GAMMA * ~batch["terminated"] * value

    def loss_of(weights: Any) -> jax.Array:
        q = network(weights, batch["obs"])
        chosen = jnp.take_along_axis(q, batch["action"][:, None], axis=1)[:, 0]
        return jnp.mean((chosen - target) ** 2)

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return jax.tree.map(lambda w, g: w - LEARNING_RATE * g, weights, gradient), loss


def train(buffer: cpreplay.StoreReplay, steps: int = STEPS) -> list[float]:
    """Fit Q(obs, action) to targets of a network that stands still; the loss of every step."""
    rng = np.random.default_rng(0)
    weights, still = make_weights(rng), make_weights(rng)
    fixed = buffer.make_batch(BATCH)
    losses = []
    for _ in range(steps):
        batch = buffer.sample(BATCH, out=fixed).map(jnp.from_dlpack)
        # A jitted function takes arrays in a dict, as it does not know the class Batch.
        weights, loss = update(weights, still, {name: batch[name] for name in COLUMNS})
        # `update` returns before it has run. The next sample overwrites the very arrays it reads,
        # so it must have finished. (With fresh arrays, `buffer.sample(BATCH)`, no wait is needed.)
        jax.block_until_ready(weights)
        losses.append(float(loss))
    return losses


def wrong_sums(buffer: cpreplay.StoreReplay, *, wait: bool, tries: int = 20) -> int:
    """How many of `tries` sums of a fixed batch are wrong when the next sample comes at once."""

    @jax.jit
    def slow_sum(reward: jax.Array, matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
        matrix = jax.lax.fori_loop(0, 30, lambda _, m: jnp.tanh(m @ m), matrix)
        reward, matrix = jax.lax.optimization_barrier((reward, matrix))  # sum after the loop
        return reward.sum(), matrix

    matrix = jnp.zeros((300, 300))
    fixed = buffer.make_batch(BATCH)
    wrong = 0
    for _ in range(tries):
        buffer.sample(BATCH, out=fixed)
        right = float(fixed.reward.sum())
        result = slow_sum(jnp.from_dlpack(fixed.reward), matrix)
        if wait:
            jax.block_until_ready(result)
        buffer.sample(BATCH, out=fixed)
        wrong += abs(float(result[0]) - right) > 1e-3
    return wrong


def show_traps(buffer: cpreplay.StoreReplay) -> None:
    """Make the usual mistakes on purpose, and print what comes of them."""
    # JAX has no 64-bit types unless asked, so int64 is converted on the way in: `indices` and
    # integer actions become int32 copies. Declare action_dtype="int32" to have those shared too.
    # `jax.config.update("jax_enable_x64", True)`, before the first array, shares int64 as it is.
    batch = buffer.sample(BATCH)
    print(f"indices: {batch.indices.dtype} in NumPy, {jnp.from_dlpack(batch.indices).dtype} in JAX")
    narrow = cpreplay.StoreReplay(2, (), ROWS, action_dtype="int32", seed=0)
    fill(narrow, np.random.default_rng(0))
    action = narrow.sample(BATCH).action
    same = jnp.from_dlpack(action).unsafe_buffer_pointer() == action.ctypes.data
    print(f"int32 actions are shared: {same}")

    # JAX believes that its arrays never change. One over a fixed batch does, with the next sample.
    # `jnp.array` makes one that does not, once it has run: the copy is dispatched like all else.
    fixed = buffer.make_batch(BATCH)
    kept = buffer.sample(BATCH, out=fixed).map(jnp.from_dlpack).reward
    copied = jnp.array(kept).block_until_ready()
    buffer.sample(BATCH, out=fixed)
    changed = not bool((kept == copied).all())
    print(f"a JAX array over a fixed batch changed with the next sample: {changed}")

    # Dispatch is asynchronous: a call returns while its inputs are still being read.
    early, waited = wrong_sums(buffer, wait=False), wrong_sums(buffer, wait=True)
    print(f"wrong sums, of 20: {early} without waiting, {waited} after block_until_ready")

    # `buffer.column` is a read-only view of the ring, and JAX takes no read-only memory.
    try:
        jnp.from_dlpack(buffer.column("obs"))
    except BufferError as error:
        print(f"jnp.from_dlpack(column) raises: {error}")


def main() -> None:
    buffer = cpreplay.StoreReplay(2, (), ROWS, action_dtype="int64", seed=0)
    fill(buffer, np.random.default_rng(0))
    print_addresses(buffer)
    show_traps(buffer)
    losses = train(buffer)
    for step in range(0, STEPS, 50):
        print(f"step {step:3}: loss {losses[step]:.4f}")
    first, last = np.mean(losses[:20]), np.mean(losses[-20:])
    print(f"mean loss: first 20 steps {first:.4f}, last 20 steps {last:.4f}")


if __name__ == "__main__":
    main()
