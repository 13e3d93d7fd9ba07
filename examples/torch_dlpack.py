"""Train a PyTorch network on minibatches of a host buffer, without copying one byte of them.

    pip install cpreplay torch
    python examples/torch_dlpack.py

`batch.map(torch.from_dlpack)` turns every array of a minibatch into a tensor over the same memory;
the addresses printed first show it. The training is one round of fitted Q iteration: the network
that gives the targets stands still, so this is a regression and its loss has to fall.

`show_traps` runs the mistakes that are easy to make with shared memory, so that you can see each.
"""

from __future__ import annotations

import cpreplay

try:
    import torch
except ModuleNotFoundError:
    raise SystemExit(
        "torch_dlpack.py needs PyTorch, which is not installed: pip install torch"
    ) from None

import numpy as np

ROWS, BATCH, STEPS, GAMMA = 20_000, 256, 300, 0.9


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
    """Show that a tensor of the minibatch lies where NumPy's array lies."""
    arrays = buffer.sample(BATCH)
    tensors = arrays.map(torch.from_dlpack)
    for name in ("obs", "action", "reward", "next_obs", "terminated", "indices"):
        array, tensor = arrays[name], tensors[name]
        numpy_at, torch_at = array.ctypes.data, tensor.data_ptr()
        how = "shared" if torch_at == numpy_at else "copied"
        print(f"{name:10} {tensor.dtype!s:13} numpy {numpy_at:#x} torch {torch_at:#x} {how}")


def make_network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))


def train(buffer: cpreplay.StoreReplay, steps: int = STEPS) -> list[float]:
    """Fit Q(obs, action) to targets of a network that stands still; the loss of every step."""
    network, still = make_network(), make_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        batch = buffer.sample(BATCH).map(torch.from_dlpack)
        with torch.no_grad():
            value = still(batch.next_obs).amax(dim=1)
            # `terminated` is torch.bool: `1 - terminated` raises, `~terminated` is what is meant.
            target = batch.reward + GAMMA * ~batch.terminated * value
        # An index has to be int64 here, which is what indices and integer actions are.
        chosen = network(batch.obs).gather(1, batch.action[:, None])[:, 0]
        loss = torch.nn.functional.mse_loss(chosen, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def show_traps(buffer: cpreplay.StoreReplay) -> None:
    """Make the usual mistakes on purpose, and print what comes of them."""
    batch = buffer.sample(BATCH).map(torch.from_dlpack)
    try:
        _ = 1 - batch.terminated
    except RuntimeError as error:
        print(f"1 - terminated raises: {str(error).splitlines()[0]}")
    same = torch.equal((~batch.terminated).float(), 1 - batch.terminated.float())
    print(f"~terminated and 1 - terminated.float() agree: {same}")

    # A fixed batch is filled anew by the next sample, and so is every tensor over it. Whoever keeps
    # one (a list of minibatches, a logged loss input) has to `.clone()` it.
    fixed = buffer.make_batch(BATCH)
    kept = buffer.sample(BATCH, out=fixed).map(torch.from_dlpack).reward
    cloned = kept.clone()
    buffer.sample(BATCH, out=fixed)
    changed = not torch.equal(kept, cloned)
    print(f"a tensor over a fixed batch changed with the next sample: {changed}")

    # Autograd keeps inputs for `backward`. NumPy fills them without PyTorch noticing (an in-place
    # operation of PyTorch's own would raise), so a sample between loss and `backward` gives a
    # gradient of the wrong minibatch, silently: call `backward` first.
    weight = torch.zeros(2, requires_grad=True)
    obs = buffer.sample(BATCH, out=fixed).map(torch.from_dlpack).obs
    right = obs.mean(dim=0)
    loss = (obs @ weight).mean()
    buffer.sample(BATCH, out=fixed)
    loss.backward()
    wrong = not torch.allclose(weight.grad, right)
    print(f"the gradient is wrong after a sample before backward: {wrong}")

    # `buffer.column` is a read-only view of the ring. PyTorch has no read-only tensors and drops
    # the flag: writing to this one would change what the buffer holds.
    view = buffer.column("obs")
    shared = torch.from_dlpack(view).data_ptr() == view.ctypes.data
    print(f"a column is read-only: {not view.flags.writeable}; PyTorch shares it: {shared}")


def main() -> None:
    torch.manual_seed(0)
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
