"""The examples: that they run as told, learn, and say what is missing where something is.

What an example needs beyond the core may be absent. Then its tests skip, or fail where
CPREPLAY_REQUIRE_INTEROP=1 says that it has to be there.
"""

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from cpreplay import Batch, ReplaySampleStep

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
FIRST = 3


def require(*modules: str) -> None:
    """Skip where a module is missing, or fail where it has to be there."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing and os.environ.get("CPREPLAY_REQUIRE_INTEROP") == "1":
        pytest.fail(f"not installed, but required here: {', '.join(missing)}")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python on `arguments` with this checkout in front."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


@pytest.fixture(scope="module")
def dqn() -> ModuleType:
    """examples/dqn_cartpole.py as a module."""
    require("gymnasium", "matplotlib", "tqdm")
    spec = importlib.util.spec_from_file_location("dqn_cartpole", EXAMPLES / "dqn_cartpole.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


class Stream:
    """The minibatches of a run: their number, a hash of every byte, and the first few whole."""

    def __init__(self, dqn: ModuleType, seed: int, steps: int, buffer: str = "uniform") -> None:
        self.sha256 = hashlib.sha256()
        self.first: list[dict[str, np.ndarray]] = []
        self.count = 0
        self.result = dqn.train(seed, steps, buffer, on_batch=self._see)

    def _see(self, batch: Batch) -> None:
        names = ("obs", "action", "reward", "next_obs", "terminated", "indices")
        arrays = {name: batch[name] for name in (*names, *("weights",)[batch.weights is None :])}
        for array in arrays.values():
            self.sha256.update(array.tobytes())
        if self.count < FIRST:
            self.first.append(arrays)
        self.count += 1


def test_a_short_run_of_dqn_learns_to_balance_the_pole(dqn: ModuleType) -> None:
    # Of seeds 0 to 9, 6,000 steps gave mean returns between 184 and 500, and no learning 9 to 30;
    # 120 is far from both. (Full runs reach 500, but take too long for a test.)
    seeds = range(3)
    trained = [dqn.evaluate(dqn.train(seed, 6_000).network, 20) for seed in seeds]
    untrained = [dqn.evaluate(dqn.train(seed, dqn.LEARNING_STARTS).network, 20) for seed in seeds]
    assert np.mean(untrained) < 40
    assert np.mean(trained) > 120


def test_a_short_run_with_prioritized_minibatches_learns_as_well(dqn: ModuleType) -> None:
    # Of seeds 0 to 9, 6,000 steps gave mean returns between 132 and 500.
    trained = [dqn.evaluate(dqn.train(seed, 6_000, "prioritized").network, 20) for seed in range(2)]
    assert np.mean(trained) > 120


@pytest.mark.parametrize("buffer", ["uniform", "prioritized"])
def test_one_seed_gives_the_same_minibatches_and_weights_byte_for_byte(
    dqn: ModuleType, buffer: str
) -> None:
    one, two = (Stream(dqn, seed=7, steps=2_000, buffer=buffer) for _ in range(2))
    assert one.count == two.count == (2_000 - dqn.LEARNING_STARTS) // dqn.UPDATE_EVERY
    for left, right in zip(one.first, two.first, strict=True):
        for name in left:
            np.testing.assert_array_equal(left[name], right[name], err_msg=name)
    assert one.sha256.digest() == two.sha256.digest()
    assert one.result.network.weights.tobytes() == two.result.network.weights.tobytes()
    assert one.result.returns == two.result.returns


def test_another_seed_gives_other_minibatches_weights_and_episodes(dqn: ModuleType) -> None:
    one, two = Stream(dqn, seed=7, steps=1_200), Stream(dqn, seed=8, steps=1_200)
    assert not np.array_equal(one.first[0]["indices"], two.first[0]["indices"])
    assert one.sha256.digest() != two.sha256.digest()
    assert not np.array_equal(one.result.network.weights, two.result.network.weights)
    assert one.result.returns != two.result.returns


def test_every_prioritized_minibatch_is_weighted_and_gives_its_errors_back_as_beta_grows_to_one(
    dqn: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, object]] = []
    gradient = dqn.TwinNetwork.gradient

    def seen_gradient(self: object, *arguments: np.ndarray) -> object:
        result = gradient(self, *arguments)
        calls.append(("gradient", (arguments[-1].copy(), result[1])))
        return result

    monkeypatch.setattr(dqn.TwinNetwork, "gradient", seen_gradient)
    for name in ("set_beta", "update_priorities"):
        method = getattr(ReplaySampleStep, name)

        def seen(self: object, value: object, name: str = name, method: object = method) -> None:
            calls.append((name, value))
            method(self, value)

        monkeypatch.setattr(ReplaySampleStep, name, seen)

    weights: list[np.ndarray] = []
    result = dqn.train(
        5, 2_000, "prioritized", on_batch=lambda batch: weights.append(batch.weights.copy())
    )
    learning = calls[dqn.LEARNING_STARTS // dqn.UPDATE_EVERY :]  # of the rest only beta was set
    assert [name for name, _ in learning[:3]] == ["set_beta", "gradient", "update_priorities"]
    assert len(learning) == 3 * len(weights) == 3 * 500
    for given, (_, used), (_, errors) in zip(weights, learning[1::3], learning[2::3], strict=True):
        importance, error = used
        np.testing.assert_array_equal(importance, given)
        np.testing.assert_allclose(errors, (abs(error[0]) + abs(error[1])) / 2, rtol=1e-6)
    betas = [value for name, value in calls if name == "set_beta"]
    np.testing.assert_allclose(betas, np.linspace(0.4, 1.0, 1_000, endpoint=False), atol=1e-9)
    stats = result.memory.buffer.stats()
    assert stats["beta"] == pytest.approx(1.0, abs=0.001)
    assert stats["stale_updates"] == stats["invalid_priorities"] == 0
    assert all(batch.max() == 1.0 for batch in weights)
    assert min(batch.min() for batch in weights) < 0.5


def test_importance_multiplies_the_gradient_of_each_lane(dqn: ModuleType) -> None:
    rng = np.random.default_rng(1)
    network = dqn.TwinNetwork(rng)
    obs = rng.normal(size=(4, 4)).astype(np.float32)
    action = rng.integers(2, size=4)
    target = rng.normal(size=4).astype(np.float32)
    importance = np.array([1.0, 0.5, 0.25, 0.0], np.float32)
    gradient, error = network.gradient(obs, action, target, importance)
    lanes = [slice(lane, lane + 1) for lane in range(4)]
    alone = [network.gradient(obs[lane], action[lane], target[lane])[0] for lane in lanes]
    np.testing.assert_allclose(gradient, importance @ alone / 4, atol=1e-5)
    q = network(obs)[:, np.arange(4), action]
    np.testing.assert_allclose(error, q - target, rtol=1e-6)
    plain, ones = (network.gradient(obs, action, target, *given)[0]
                   for given in ((), (np.ones(4, np.float32),)))  # fmt: skip
    assert plain.tobytes() == ones.tobytes()


def test_learning_changes_the_weights_and_leaves_the_first_ones_to_the_seed(
    dqn: ModuleType,
) -> None:
    before = dqn.train(0, dqn.LEARNING_STARTS).network.weights
    assert np.array_equal(before, dqn.train(0, 10).network.weights)
    after = dqn.train(0, dqn.LEARNING_STARTS + 10).network.weights
    assert not np.array_equal(before, after)


def test_what_is_stored_is_cartpole_and_ends_only_where_the_pole_falls(
    dqn: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With random actions and a clock of 15 steps, most episodes are cut while the pole stands.
    monkeypatch.setattr(dqn, "EPSILON_END", dqn.EPSILON_START)
    make = dqn.gymnasium.make
    monkeypatch.setattr(dqn.gymnasium, "make", lambda name: make(name, max_episode_steps=15))
    seen: list[Batch] = []
    result = dqn.train(0, 1_500, on_batch=seen.append)
    assert result.returns.count(15) > len(result.returns) / 2

    obs, next_obs = (
        np.concatenate([batch[name] for batch in seen]) for name in ("obs", "next_obs")
    )
    terminated = np.concatenate([batch.terminated for batch in seen])
    fallen = (np.abs(next_obs[:, 0]) > 2.4) | (np.abs(next_obs[:, 2]) > 12 * 2 * np.pi / 360)
    assert fallen.any()
    np.testing.assert_array_equal(terminated, fallen)
    # One Euler step of 0.02 s apart, so no row leads from one episode into the next.
    np.testing.assert_allclose(
        next_obs[:, [0, 2]], obs[:, [0, 2]] + 0.02 * obs[:, [1, 3]], atol=1e-6
    )


def test_the_gradient_of_the_network_is_that_of_finite_differences(dqn: ModuleType) -> None:
    rng = np.random.default_rng(0)
    network = dqn.TwinNetwork(rng)
    obs = rng.normal(size=(16, 4)).astype(np.float32)
    action = rng.integers(2, size=16)
    lanes = np.arange(16)
    # Half of the errors are inside Huber's quadratic part and half are beyond it.
    target = network(obs)[0, lanes, action] + np.where(lanes % 2, 0.4, 3.0)
    gradient, _ = network.gradient(obs, action, target)

    def loss() -> float:
        error = np.abs(network(obs)[:, lanes, action].astype(float) - target)
        return float(np.where(error < 1, error**2 / 2, error - 0.5).mean(axis=1).sum())

    direction = rng.normal(size=gradient.size)
    start = network.weights.copy()
    step = 1e-4
    network.weights[:] = start + step * direction
    up = loss()
    network.weights[:] = start - step * direction
    slope = (up - loss()) / (2 * step)
    assert slope == pytest.approx(float(gradient @ direction), rel=0.01)


def test_the_first_two_steps_of_adam_on_one_gradient_are_each_as_long_as_the_rate(
    dqn: ModuleType,
) -> None:
    weights = np.zeros(3, np.float32)
    optimizer = dqn.Adam(weights)
    gradient = np.array([5.0, -0.02, 0.0], np.float32)
    for count in (1, 2):
        optimizer.step(gradient, 0.01)
        np.testing.assert_allclose(weights, [-0.01 * count, 0.01 * count, 0.0], rtol=1e-4)


def test_the_command_line_writes_a_picture_and_ends_with_the_mean_return(
    dqn: ModuleType, tmp_path: Path
) -> None:
    picture = tmp_path / "curve.png"
    ran = run(
        str(EXAMPLES / "dqn_cartpole.py"),
        *("--seed", "3", "--steps", "1500", "--eval-episodes", "2", "--plot", str(picture)),
        *("--buffer", "uniform"),
    )
    assert ran.returncode == 0, ran.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = re.fullmatch(
        r"seed 3: 1500 environment steps in [\d.]+ s; "
        r"mean return of 2 greedy episodes with the final weights: ([\d.]+)",
        ran.stdout.splitlines()[-1],
    )
    assert found
    expected = np.mean(dqn.evaluate(dqn.train(3, 1_500).network, 2))
    assert float(found[1]) == pytest.approx(expected, abs=0.05)
    assert "1500/1500" in ran.stderr  # the progress bar


def test_the_command_line_offers_prioritized_minibatches(dqn: ModuleType) -> None:
    arguments = ("--seed", "3", "--steps", "1200", "--eval-episodes", "2", "--quiet")
    ran = run(str(EXAMPLES / "dqn_cartpole.py"), *arguments, "--buffer", "prioritized")
    assert (ran.returncode, ran.stderr) == (0, "")
    expected = np.mean(dqn.evaluate(dqn.train(3, 1_200, "prioritized").network, 2))
    assert ran.stdout.endswith(f"with the final weights: {expected:.1f}\n")


def test_the_picture_of_priorities_is_made_from_a_run(dqn: ModuleType, tmp_path: Path) -> None:
    picture = tmp_path / "priorities.png"
    arguments = (str(picture), "--steps", "1500", "--draws", "1000", "--quiet")
    ran = run(str(EXAMPLES / "plot_priorities.py"), *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    stats = dqn.train(0, 1_500, "prioritized").memory.buffer.stats()
    found = re.fullmatch(
        r"1,500 rows, (\S+) of them seen; effective sample size (\S+); max_priority (\S+)\n",
        ran.stdout,
    )
    assert found
    seen, effective = (int(number.replace(",", "")) for number in found.groups()[:2])
    assert 1_400 < seen <= 1_500
    assert effective == pytest.approx(stats["effective_sample_size"], abs=1)
    assert float(found[3]) == pytest.approx(stats["max_priority"], rel=0.01)


def test_quiet_shows_no_progress_bar(dqn: ModuleType) -> None:
    arguments = ("--steps", "50", "--eval-episodes", "1", "--quiet")
    ran = run(str(EXAMPLES / "dqn_cartpole.py"), *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")


def addresses(output: str, framework: str) -> dict[str, tuple[str, str]]:
    """Column to (address in NumPy, address in the framework), from what an example printed."""
    pattern = rf"^(\w+) .*numpy (0x[0-9a-f]+) {framework} (0x[0-9a-f]+) "
    return {found[1]: (found[2], found[3]) for found in re.finditer(pattern, output, re.MULTILINE)}


def losses(output: str) -> tuple[float, float]:
    """The mean loss of the first and the last steps, from what an example printed."""
    found = re.search(r"mean loss: first 20 steps ([\d.]+), last 20 steps ([\d.]+)", output)
    assert found, output
    return float(found[1]), float(found[2])


def test_torch_shares_every_array_of_a_minibatch_and_learns_from_them() -> None:
    require("torch")
    ran = run(str(EXAMPLES / "torch_dlpack.py"))
    assert ran.returncode == 0, ran.stderr
    pairs = addresses(ran.stdout, "torch")
    assert pairs.keys() == {"obs", "action", "reward", "next_obs", "terminated", "indices"}
    assert all(numpy == torch for numpy, torch in pairs.values())
    first, last = losses(ran.stdout)
    assert last < first / 5
    assert "1 - terminated raises: Subtraction" in ran.stdout
    for trap in (
        "~terminated and 1 - terminated.float() agree: True",
        "a tensor over a fixed batch changed with the next sample: True",
        "the gradient is wrong after a sample before backward: True",
        "a column is read-only: True; PyTorch shares it: True",
    ):
        assert trap in ran.stdout.splitlines()


def test_jax_shares_all_but_the_64_bit_integers_of_a_minibatch_and_learns_from_them() -> None:
    require("jax")
    ran = run(str(EXAMPLES / "jax_dlpack.py"))
    assert ran.returncode == 0, ran.stderr
    pairs = addresses(ran.stdout, "jax")
    shared = {name for name, (numpy, jax) in pairs.items() if numpy == jax}
    assert shared == {"obs", "reward", "next_obs", "terminated"}
    assert pairs.keys() - shared == {"action", "indices"}
    first, last = losses(ran.stdout)
    assert last < first / 5
    for trap in (
        "indices: int64 in NumPy, int32 in JAX",
        "int32 actions are shared: True",
        "a JAX array over a fixed batch changed with the next sample: True",
    ):
        assert trap in ran.stdout.splitlines()
    # How many are wrong without waiting depends on the machine's load; with waiting none may be.
    assert re.search(r"^wrong sums, of 20: \d+ without waiting, 0 after", ran.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("example", "missing", "message"),
    [
        ("torch_dlpack.py", "torch", "needs PyTorch, which is not installed: pip install torch"),
        ("jax_dlpack.py", "jax", "needs JAX, which is not installed: pip install jax"),
        ("dqn_cartpole.py", "gymnasium",
         "needs gymnasium, which is not installed: pip install 'cpreplay[demo]'"),
        ("plot_priorities.py", "matplotlib",
         "needs matplotlib, which is not installed: pip install 'cpreplay[demo]'"),
    ],
)  # fmt: skip
def test_an_example_without_its_framework_says_so_in_one_sentence(
    example: str, missing: str, message: str
) -> None:
    program = (
        "import runpy, sys\n"
        "sys.modules[sys.argv[2]] = None  # as if it were not installed\n"
        "runpy.run_path(sys.argv[1], run_name='__main__')\n"
    )
    ran = run("-c", program, str(EXAMPLES / example), missing)
    assert ran.returncode == 1
    assert (ran.stdout, ran.stderr) == ("", f"{example} {message}\n")
