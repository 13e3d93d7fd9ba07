"""The public surface: names, signatures, and every method and attribute at work on each back end.

A public method or attribute that appears without an exercise here fails the tests, and so does one
that disappears.
"""

import copy
import inspect
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import Batch, ReplaySampleStep, StoreReplay, StoreReplayGpu
from cpreplay import block_aliases as aliases
from tests.conftest import Backend
from tests.refusals import refused

# Names and signatures

CLASSES = {
    "Batch": "",  # made by the library alone
    "Column": "",
    "DemoFilter": "(successful_only=False, intervened_only=False)",
    "DemoLoadReport": "(*, rows, file_rows, mean_reward)",
    "DemoSet": "(obs_dim, act_dim)",
    "DemoSummary": "(*, episodes, successes, rows, intervened_rows, mean_reward)",
    "GPUNStepBuffer": (
        "(n, obs_shape, action_shape, gamma=0.99, *, n_envs=1, obs_dtype='float32', "
        "obs_store_dtype=None, action_dtype='float32', extra_columns=None, device=None)"
    ),
    "NStepBuffer": (
        "(n, obs_shape, action_shape, gamma=0.99, *, n_envs=1, obs_dtype='float32', "
        "obs_store_dtype=None, action_dtype='float32', extra_columns=None)"
    ),
    "NStepSampleStep": "(block, n, gamma, *, n_envs=1)",
    "NStepTransitions": "",  # made by the library alone
    "ReplaySampleStep": "(buffer, batch)",
    "Restart": "",  # made by the pool alone
    "RestartPool": "(configuration, *, max_in_flight_per_point=None, machine=None)",
    "RestartPoolConfiguration": "",  # its values are in test_restart_configuration
    "SalvageReport": "",
    "Schedule": "(start, pieces=())",
    "StoreReplay": (
        "(obs_shape, action_shape, capacity, prioritized=False, obs_store_dtype=None, *, "
        "obs_dtype='float32', action_dtype='float32', extra_columns=None, seed=None, rng=None, "
        "check_memory=True)"
    ),
    "StoreReplayGpu": (
        "(obs_shape, action_shape, capacity, prioritized=False, obs_store_dtype=None, *, "
        "obs_dtype='float32', action_dtype='float32', extra_columns=None, seed=None, "
        "check_memory=True, device=None)"
    ),
}
FUNCTIONS = {
    "StorePerSampleCpuStep": "(obs, act, batch, cap, **options)",
    "StorePerSampleGpuStep": "(obs, act, batch, cap, obs_store_dtype=None, **options)",
    "StoreUniformSampleCpuStep": "(obs, act, batch, cap, **options)",
    "StoreUniformSampleGpuStep": "(obs, act, batch, cap, **options)",
    "load_demos_into_replay": "(block_or_buffer, paths, filter=None, *, batch_size=None)",
    "read_demo_file": "(path)",
    "validate_probability": "(value)",
    "write_demo_file": "(path, demos)",
}
NSTEP_ALIAS = "(obs, act, batch, cap, n, gamma, *, n_envs=1, **options)"
BLOCK_ALIASES = {
    "NStepPerSampleCpuStep": NSTEP_ALIAS,
    "NStepPerSampleGpuStep": NSTEP_ALIAS,
    "NStepUniformSampleCpuStep": NSTEP_ALIAS,
    "NStepUniformSampleGpuStep": NSTEP_ALIAS,
    "PerSampleCpuStep": FUNCTIONS["StorePerSampleCpuStep"],
    "PerSampleGpuStep": FUNCTIONS["StorePerSampleGpuStep"],
    "UniformSampleCpuStep": FUNCTIONS["StoreUniformSampleCpuStep"],
    "UniformSampleGpuStep": FUNCTIONS["StoreUniformSampleGpuStep"],
}
ERRORS: dict[str, tuple[type[Exception], ...]] = {
    "ReplayError": (Exception,),
    "CaptureError": (RuntimeError,),
    "CheckpointError": (ValueError,),
    "CheckpointVersionError": (ValueError,),
    "ColumnNameError": (TypeError,),
    "ColumnValueError": (ValueError,),
    "ConfigurationError": (ValueError,),
    "CopyError": (TypeError,),
    "DemoFileError": (ValueError,),
    "DTypeError": (TypeError,),
    "DeviceUnavailableError": (ImportError, RuntimeError),
    "EmptyBufferError": (RuntimeError,),
    "InvariantError": (RuntimeError,),
    "MarkerLabelError": (KeyError,),
    "MarkerOverflowError": (OverflowError,),
    "MarkerTypeError": (TypeError,),
    "MemoryLimitError": (MemoryError,),
    "OrderError": (RuntimeError,),
    "SampleRangeError": (ValueError,),
    "ShapeError": (ValueError,),
}

WARNINGS = {"CheckpointWarning"}

BUFFER_METHODS = {
    "add": "(obs, action, reward, next_obs, terminated, **extra)",
    "add_batch": "(obs, action, reward, next_obs, terminated, *, mask=None, **extra)",
    "check": "()",
    "column": "(name)",
    "configure_ere": "(enable=True, eta=0.996, c_min=1, k_max=1000)",
    "configure_per": "(alpha=0.6, beta=0.4, epsilon=1e-06)",
    "holds": "(rows)",
    "make_batch": "(batch_size)",
    "pin_demo_prefix": "(n, *, batch_size=None)",
    "restore": "(state, *, seed=None)",
    "resume": "(path, *, seed=None, drop_pending=False)",
    "sample": "(batch_size, out=None)",
    "sample_range": "(batch_size, lo, hi, out=None)",
    "save": "(path)",
    "save_in_background": "(path)",
    "set_beta": "(beta)",
    "state": "()",
    "stats": "()",
    "synchronize": "()",
    "update_priorities": "(batch, td_errors)",
}
HOST_METHODS = {
    **BUFFER_METHODS,
    "load": "(path, *, seed=None, rng=None, check_memory=True, drop_pending=False)",
    "salvage": "(path, *, seed=None, rng=None, check_memory=True)",
}
DEVICE_METHODS = {
    **BUFFER_METHODS,
    "load": "(path, *, seed=None, check_memory=True, device=None, drop_pending=False)",
    "salvage": "(path, *, seed=None, check_memory=True, device=None)",
}
BUFFER_ATTRIBUTES = {
    "capacity", "columns", "demo_count", "head", "nbytes", "prioritized", "seed",
}  # fmt: skip

BLOCK_METHODS = {
    "add": "(obs, action, reward, next_obs, terminated, truncated=None, **extra)",
    "add_batch": (
        "(obs, action, reward, next_obs, terminated, truncated=None, *, mask=None, **extra)"
    ),
    "configure_ere": "(enable=True, eta=0.996, c_min=1, k_max=1000)",
    "configure_per": "(alpha=0.6, beta=0.4, epsilon=1e-06)",
    "count": "()",
    "demo_count": "()",
    "pin_demo_prefix": "(n)",
    "resume": "(path, *, seed=None, drop_pending=False)",
    "save": "(path)",
    "save_in_background": "(path)",
    "set_beta": "(beta)",
    "setup": "(learning_starts, *, fixed=False)",
    "step": "(step_index)",
    "update_priorities": "(td_errors)",
}
BLOCK_ATTRIBUTES = {"batch_size", "buffer"}

NSTEP_BLOCK_METHODS = {
    **BLOCK_METHODS,
    "reset": "(mask=None)",
    "resume": "(path, *, seed=None)",
}
NSTEP_BLOCK_ATTRIBUTES = {"batch_size", "block", "buffer", "nstep"}

NSTEP_METHODS = {
    "append": "(obs, action, reward, next_obs, terminated, truncated, *, mask=None, **extra)",
    "reset": "(mask=None)",
    "restore": "(state)",
    "state": "()",
}
NSTEP_ATTRIBUTES = {"gamma", "n", "n_envs", "pending"}

TRANSITIONS_ATTRIBUTES = {
    "action", "discount", "extra", "next_obs", "obs", "reward", "terminated", "truncated", "valid",
}  # fmt: skip

DEMO_SET_METHODS = {
    "add": "(obs, action, reward, next_obs, terminated, intervened=False)",
    "begin_episode": "()",
    "discard_episode": "()",
    "end_episode": "(success)",
    "summary": "()",
}
DEMO_SET_ATTRIBUTES = {"act_dim", "episodes", "obs_dim", "rows"}

POOL_METHODS = {
    "abandon": "(restart)",
    "buckets": "()",
    "check": "()",
    "draw": "(step)",
    "finish": "(restart, *, timed_out=False, steps=None)",
    "load": "(path)",
    "offer": "(snapshot, frame_stack, values, *, steps_used=0, restart=None)",
    "reached": "(restart, values)",
    "restore_from_checkpoint": "(folder)",
    "save": "(path)",
    "save_in_background": "(path)",
    "save_in_checkpoint": "(folder, *, background=False)",
    "stats": "()",
}
POOL_ATTRIBUTES = {"configuration"}

SCHEDULE_METHODS = {
    "exponential": "(to, steps)",
    "hold": "(steps)",
    "linear": "(to, steps)",
    "starting": "(value)",
}

BATCH_METHODS = {"map": "(function)"}
BATCH_ATTRIBUTES = {
    "action", "extra", "indices", "next_obs", "obs", "reward", "terminated", "weights",
}  # fmt: skip

COLUMN_ATTRIBUTES = {
    "dtype", "elements", "name", "quantized", "shape", "stored", "stored_nbytes",
}  # fmt: skip


def signature(function: Any) -> str:
    """How a function is called, without self and annotations."""
    parameters = inspect.signature(function).parameters.values()
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in parameters
        if parameter.name != "self"
    ]
    return str(inspect.Signature(bare))


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def methods(cls: type) -> dict[str, str]:
    return {
        name: signature(getattr(cls, name)) for name in public(cls) if callable(getattr(cls, name))
    }


def test_everything_public_is_importable_from_the_package() -> None:
    expected = {*CLASSES, *FUNCTIONS, *ERRORS, *WARNINGS, "__version__"}
    assert set(cpreplay.__all__) == expected
    assert all(hasattr(cpreplay, name) for name in expected)
    assert cpreplay.__all__ == sorted(cpreplay.__all__)
    modules = {name for name, value in vars(cpreplay).items() if inspect.ismodule(value)}
    assert public(cpreplay) - modules == expected - {"__version__"}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name, text in CLASSES.items() if text])
def test_classes_are_made_with_these_arguments(name: str) -> None:
    assert signature(getattr(cpreplay, name)) == CLASSES[name]


@pytest.mark.parametrize("name", BLOCK_ALIASES)
def test_the_aliases_are_called_with_these_arguments(name: str) -> None:
    assert set(aliases.__all__) == set(BLOCK_ALIASES)
    assert signature(getattr(aliases, name)) == BLOCK_ALIASES[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_called_with_these_arguments(name: str) -> None:
    assert signature(getattr(cpreplay, name)) == FUNCTIONS[name]


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_also_what_a_caller_would_catch_already(name: str) -> None:
    error = getattr(cpreplay, name)
    assert issubclass(error, cpreplay.ReplayError)
    for builtin in ERRORS[name]:
        assert issubclass(error, builtin)
    defined = {
        name
        for name, value in vars(cpreplay.errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert defined == {*ERRORS, *WARNINGS}


def test_a_warning_is_one_that_users_see() -> None:
    assert issubclass(cpreplay.CheckpointWarning, UserWarning)


@pytest.mark.parametrize(
    ("cls", "expected", "attributes"),
    [
        (StoreReplay, HOST_METHODS, BUFFER_ATTRIBUTES),
        (StoreReplayGpu, DEVICE_METHODS, BUFFER_ATTRIBUTES),
        (ReplaySampleStep, BLOCK_METHODS, BLOCK_ATTRIBUTES),
        (Batch, BATCH_METHODS, BATCH_ATTRIBUTES),
        (cpreplay.Column, {}, COLUMN_ATTRIBUTES),
        (cpreplay.NStepBuffer, NSTEP_METHODS, NSTEP_ATTRIBUTES),
        (cpreplay.GPUNStepBuffer, NSTEP_METHODS, NSTEP_ATTRIBUTES),
        (cpreplay.NStepSampleStep, NSTEP_BLOCK_METHODS, NSTEP_BLOCK_ATTRIBUTES),
        (cpreplay.NStepTransitions, {}, TRANSITIONS_ATTRIBUTES),
        (cpreplay.DemoSet, DEMO_SET_METHODS, DEMO_SET_ATTRIBUTES),
        (cpreplay.RestartPool, POOL_METHODS, POOL_ATTRIBUTES),
        (cpreplay.Schedule, SCHEDULE_METHODS, {"knots", "last", "pieces", "start"}),
        (
            cpreplay.Restart,
            {},
            {"frame_stack", "key", "serial", "snapshot", "steps_used", "values"},
        ),
        (cpreplay.SalvageReport, {}, {"lost_rows", "rows"}),
        (cpreplay.DemoFilter, {}, {"intervened_only", "successful_only"}),
        (cpreplay.DemoLoadReport, {}, {"file_rows", "mean_reward", "rows"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_methods_and_attributes_are_these(
    cls: type, expected: dict[str, str], attributes: set[str]
) -> None:
    assert methods(cls) == expected
    assert public(cls) - expected.keys() == attributes


@pytest.mark.parametrize(
    "cls",
    [
        StoreReplay,
        StoreReplayGpu,
        ReplaySampleStep,
        Batch,
        cpreplay.NStepBuffer,
        cpreplay.GPUNStepBuffer,
        cpreplay.NStepSampleStep,
        cpreplay.DemoSet,
        cpreplay.RestartPool,
        cpreplay.Restart,
        cpreplay.Schedule,
    ],
)
def test_everything_public_is_documented(cls: type) -> None:
    assert inspect.getdoc(cls)
    for name in public(cls):
        member = getattr(cls, name)
        if callable(member) or isinstance(member, property):
            assert inspect.getdoc(member), f"{cls.__name__}.{name}"


# Each at work


def filled(backend: Backend, prioritized: bool = False) -> Any:
    """A buffer of 8 rows that holds rows 0 to 5."""
    buffer = backend.buffer(3, (), 8, prioritized, seed=11, action_dtype="int64")
    rows = np.arange(6)
    spread = np.stack([rows] * 3, 1)
    buffer.add_batch(spread, rows, rows, spread + 1, rows > 3)
    return buffer


def exercise_add(backend: Backend) -> None:
    buffer = filled(backend)
    buffer.add([7, 8, 9], 4, 0.5, [9, 8, 7], True)
    last = {column.name: backend.numpy(buffer.column(column.name))[6] for column in buffer.columns}
    assert last["obs"].tolist() == [7, 8, 9]
    assert last["next_obs"].tolist() == [9, 8, 7]
    assert (last["action"], last["reward"], last["terminated"]) == (4, 0.5, True)


def exercise_add_batch(backend: Backend) -> None:
    buffer = filled(backend)
    obs, three = np.zeros((3, 3)), np.arange(3)
    buffer.add_batch(obs, three, three, obs, three > 1, mask=[True, False, True])
    assert backend.numpy(buffer.column("reward"))[5:].tolist() == [5, 0, 2]


def exercise_check(backend: Backend) -> None:
    buffer = filled(backend)
    buffer.check()
    buffer._policy.demo_count = 1  # which the control block does not know of
    with pytest.raises(cpreplay.InvariantError, match="demo_count is as pinned"):
        buffer.check()


def exercise_column(backend: Backend) -> None:
    column = filled(backend).column("reward")
    assert backend.numpy(column).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]


def exercise_configure_ere(backend: Backend) -> None:
    buffer = filled(backend)
    buffer.configure_ere(True, 0.5, 2, 10)
    buffer.sample(1)
    buffer.sample(1)
    assert set(backend.numpy(buffer.sample(100).indices).tolist()) == {4, 5}  # c_min holds


def exercise_configure_per(backend: Backend) -> None:
    buffer = backend.buffer(3, (), 8, True)
    buffer.configure_per(1.0, 0.5, 0.25)
    stats = buffer.stats()
    assert (stats["alpha"], stats["beta"], stats["epsilon"]) == (1.0, 0.5, 0.25)
    obs = np.zeros((3, 3))
    buffer.add_batch(obs, [0, 1, 2], [0, 1, 2], obs, [0, 0, 0])
    buffer.update_priorities([0, 1, 2], [0.25, -1.75, 1.0])
    assert buffer.stats()["priority_total"] == 0.5 + 2.0 + 1.25
    buffer.configure_per(1.0, 0.5, 0.0)  # what the stored leaves are made of may not change
    with refused(backend, buffer, cpreplay.OrderError, "alpha=0.5", "before the first add"):
        buffer.configure_per(0.5)


def exercise_holds(backend: Backend) -> None:
    buffer = filled(backend)
    assert [buffer.holds(rows) for rows in (0, 5, 6, 7)] == [True, True, True, False]
    mask = backend.array([True, False])  # a device's own: only the device knows the count
    buffer.add_batch(np.zeros((2, 3)), [1, 2], [1, 2], np.zeros((2, 3)), [0, 0], mask=mask)
    assert [buffer.holds(rows) for rows in (6, 7, 8)] == [True, True, False]


def exercise_make_batch(backend: Backend) -> None:
    buffer = filled(backend)
    batch = buffer.make_batch(5)
    assert (len(batch), batch.obs.shape, batch.action.dtype) == (5, (5, 3), np.int64)
    assert buffer.stats()["draws"] == 0


def exercise_pin_demo_prefix(backend: Backend) -> None:
    buffer = filled(backend)
    buffer.pin_demo_prefix(6, batch_size=2)
    for _ in range(5):
        buffer.add([0, 0, 0], 9, 9, [0, 0, 0], False)
    assert backend.numpy(buffer.column("action")).tolist() == [0, 1, 2, 3, 4, 5, 9, 9]
    assert buffer.head == 7


def exercise_sample(backend: Backend) -> None:
    buffer, out = filled(backend), filled(backend).make_batch(40)
    first = buffer.sample(40)
    rows = backend.numpy(first.indices)
    assert set(rows.tolist()) == set(range(6))
    assert backend.numpy(first.action).tolist() == rows.tolist()
    assert buffer.sample(40, out) is out
    assert (backend.numpy(out.indices) != rows).any()


def exercise_sample_range(backend: Backend) -> None:
    buffer = filled(backend)
    out = buffer.make_batch(40)
    assert set(backend.numpy(buffer.sample_range(40, 2, 5).indices).tolist()) == {2, 3, 4}
    assert buffer.sample_range(40, lo=0, hi=1, out=out) is out
    assert set(backend.numpy(out.reward).tolist()) == {0}


def exercise_set_beta(backend: Backend) -> None:
    buffer = filled(backend, prioritized=True)
    buffer.update_priorities([0, 1, 2, 3, 4, 5], [3.0, 0, 0, 0, 0, 1.0])
    buffer.set_beta(0.0)
    assert set(backend.numpy(buffer.sample(40).weights).tolist()) == {1.0}
    buffer.set_beta(1.0)
    batch = buffer.sample(40)
    rows, weights = backend.numpy(batch.indices), backend.numpy(batch.weights)
    assert weights.max() == 1.0
    ratio = weights[rows == 0][0] / weights[rows == 5][0]  # those of |td| = 3 and 1
    assert ratio == pytest.approx(3**-0.6, rel=1e-5)


def exercise_stats(backend: Backend) -> None:
    buffer = filled(backend)
    buffer.sample(3)
    prioritized = filled(backend, prioritized=True)
    prioritized.sample(3)
    stats = buffer.stats()
    assert prioritized.stats() == stats | {
        "nbytes": prioritized.nbytes,
        "alpha": 0.6,
        "beta": 0.4,
        "epsilon": 1e-6,
        "priority_total": 6.0,
        "max_priority": 1.0,
        "invalid_priorities": 0,
        "stale_updates": 0,
        "effective_sample_size": 6.0,
    }
    assert stats == {
        "size": 6,
        "capacity": 8,
        "total": 6,
        "head": 6,
        "demo_count": 0,
        "draws": 1,
        "nbytes": buffer.nbytes,
        "ere": False,
        "invalid_rows": 0,
    }


def exercise_synchronize(backend: Backend) -> None:
    buffer = filled(backend)
    out = buffer.make_batch(40)
    buffer.sample(40, out)
    assert buffer.synchronize() is None
    if backend.is_device:  # nothing is left to be done on this stream
        assert backend.cupy.cuda.get_current_stream().done


def exercise_update_priorities(backend: Backend) -> None:
    buffer = filled(backend, prioritized=True)
    batch = buffer.sample(40)
    buffer.update_priorities(batch, (backend.numpy(batch.indices) == 2) * 1.0)
    rows = backend.numpy(buffer.sample(1000).indices)
    assert (rows == 2).mean() > 0.99
    buffer.update_priorities([2, 4], [0.0, -7.0])
    rows = backend.numpy(buffer.sample(1000).indices)
    assert (rows == 4).mean() > 0.99
    assert buffer.stats()["max_priority"] == 7.000001
    plain = filled(backend)
    with refused(backend, plain, cpreplay.OrderError, "update_priorities", "prioritized=True"):
        plain.update_priorities([2], [1.0])


def exercise_capacity(backend: Backend) -> None:
    assert filled(backend).capacity == 8


def exercise_columns(backend: Backend) -> None:
    columns = backend.buffer(3, (), 8, extra_columns={"log_prob": ()}).columns
    names = [column.name for column in columns]
    assert names == ["obs", "action", "reward", "next_obs", "terminated", "log_prob"]


def exercise_demo_count(backend: Backend) -> None:
    buffer = filled(backend)
    assert buffer.demo_count == 0
    buffer.pin_demo_prefix(6, batch_size=1)
    assert buffer.demo_count == 6


def exercise_head(backend: Backend) -> None:
    buffer = filled(backend)
    assert buffer.head == 6
    buffer.add_batch(np.zeros((3, 3)), [1, 2, 3], [1, 2, 3], np.zeros((3, 3)), [0, 0, 0])
    assert buffer.head == 1


def exercise_nbytes(backend: Backend) -> None:
    buffer = filled(backend)
    rows = 8 * sum(column.stored_nbytes for column in buffer.columns)
    assert rows < buffer.nbytes < rows + 2**20  # a host buffer has scratch
    tree = 16 * 4 + 16 * 8  # leaves and root, each in a whole node
    assert filled(backend, prioritized=True).nbytes >= buffer.nbytes + tree


def exercise_prioritized(backend: Backend) -> None:
    assert filled(backend).prioritized is False
    buffer = filled(backend, prioritized=True)
    assert buffer.prioritized is True
    assert buffer.sample(4).weights is not None
    with pytest.raises(AttributeError):
        buffer.prioritized = False


def exercise_seed(backend: Backend) -> None:
    assert filled(backend).seed == 11
    drawn = backend.buffer(3, 2, 8).seed
    assert 0 <= drawn < 2**64


@contextmanager
def saved(save: Callable[[Path], Any]) -> Iterator[Path]:
    """The path of a file that was saved, as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replay.tar.zst"
        save(path)
        yield path


def assert_goes_on_alike(backend: Backend, one: Any, other: Any) -> None:
    """Both hold six rows, and draw the same minibatches."""
    other.check()
    for _ in range(3):
        rows = [backend.numpy(buffer.sample(20).indices).tolist() for buffer in (one, other)]
        assert rows[0] == rows[1]
        assert set(rows[0]) == set(range(6))
    assert backend.numpy(other.column("reward")).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]


def used(backend: Backend) -> Any:
    """A buffer like `filled`, with other rows and another seed."""
    buffer = backend.buffer(3, (), 8, seed=12, action_dtype="int64")
    buffer.add_batch(np.ones((20, 3)), *[np.ones(20, int)] * 2, np.ones((20, 3)), np.ones(20, bool))
    return buffer


def exercise_save(backend: Backend) -> None:
    buffer, other = filled(backend), used(backend)
    with saved(buffer.save) as path:
        other.resume(path)
    assert_goes_on_alike(backend, buffer, other)


def exercise_save_in_background(backend: Backend) -> None:
    buffer, other = filled(backend), used(backend)
    with saved(lambda path: buffer.save_in_background(path).result(60)) as path:
        assert buffer.save_in_background(path).result(60) == path
        other.resume(path)
    assert_goes_on_alike(backend, buffer, other)


def exercise_resume(backend: Backend) -> None:
    buffer = filled(backend)
    larger = backend.buffer(3, (), 9, seed=12, action_dtype="int64")
    misfit = (cpreplay.CheckpointError, "capacity is 9 there", "8 here")
    with saved(larger.save) as path, refused(backend, buffer, *misfit):
        buffer.resume(path)


def exercise_load(backend: Backend) -> None:
    buffer = filled(backend)
    with saved(buffer.save) as path:
        other = type(buffer).load(path)
        another = type(buffer).load(path, seed=5)
    assert (other.seed, another.seed) == (11, 5)
    assert_goes_on_alike(backend, buffer, other)


def exercise_salvage(backend: Backend) -> None:
    buffer = filled(backend)
    with saved(buffer.save) as path:
        draws = {} if backend.is_device else {"rng": "philox"}
        other, report = type(buffer).salvage(path, seed=11, **draws)
    assert report == cpreplay.SalvageReport(rows=6, lost_rows=0)
    assert_goes_on_alike(backend, buffer, other)


def exercise_state(backend: Backend) -> None:
    state = filled(backend).state()
    assert state["rows"]["reward"].tolist() == [0, 1, 2, 3, 4, 5]
    assert state["about"]["capacity"] == 8
    assert state["state"]["control"]["total"] == 6
    assert state["leaves"] is None
    assert filled(backend, prioritized=True).state()["leaves"].tolist() == [1.0] * 6


def exercise_restore(backend: Backend) -> None:
    buffer, other = filled(backend), used(backend)
    other.restore(buffer.state())
    assert_goes_on_alike(backend, buffer, other)


BUFFER_EXERCISES: dict[str, Callable[[Backend], None]] = {
    name.removeprefix("exercise_"): function
    for name, function in list(globals().items())
    if name.startswith("exercise_")
}


def block_of(
    backend: Backend, *, ready: bool = True, prioritized: bool = False
) -> ReplaySampleStep:
    columns = {"truncated": bool}
    buffer = backend.buffer(3, (), 8, prioritized, seed=11, extra_columns=columns)
    block = ReplaySampleStep(buffer, 4)
    if ready:
        block.setup(2)
        rows, obs = np.arange(5), np.zeros((5, 3))
        block.add_batch(obs, rows, rows, obs, rows > 3, rows > 2)
    return block


def block_add(backend: Backend) -> None:
    block = block_of(backend)
    block.add([1, 2, 3], 4, 0.5, [9, 8, 7], False, True)
    assert backend.numpy(block.buffer.column("truncated"))[5]
    assert backend.numpy(block.buffer.column("reward"))[5] == 0.5


def block_add_batch(backend: Backend) -> None:
    block = block_of(backend)
    obs = np.zeros((2, 3))
    block.add_batch(obs, [7, 8], [7, 8], obs, [0, 0], [1, 1], mask=[False, True])
    assert backend.numpy(block.buffer.column("reward")).tolist() == [0, 1, 2, 3, 4, 8, 0, 0]


def block_configure_ere(backend: Backend) -> None:
    block = block_of(backend, ready=False)
    block.configure_ere(True, 0.5, 1, 10)
    assert block.buffer.stats()["ere"]


def block_configure_per(backend: Backend) -> None:
    block = block_of(backend, ready=False, prioritized=True)
    block.configure_per(0.5, 1.0, 0.25)
    stats = block.buffer.stats()
    assert (stats["alpha"], stats["beta"], stats["epsilon"]) == (0.5, 1.0, 0.25)


def block_count(backend: Backend) -> None:
    assert block_of(backend).count() == 5


def block_demo_count(backend: Backend) -> None:
    assert block_of(backend).demo_count() == 0


def block_pin_demo_prefix(backend: Backend) -> None:
    block = ReplaySampleStep(backend.buffer((), (), 8), 2)
    block.setup(0)
    block.add_batch(*[np.zeros(5)] * 4, np.zeros(5, bool))
    block.pin_demo_prefix(5)
    assert (block.demo_count(), block.buffer.demo_count) == (5, 5)


def block_set_beta(backend: Backend) -> None:
    block = block_of(backend, prioritized=True)
    block.set_beta(0.75)
    assert block.buffer.stats()["beta"] == 0.75


def block_setup(backend: Backend) -> None:
    block = block_of(backend, ready=False)
    block.setup(3, fixed=True)
    with pytest.raises(cpreplay.OrderError):
        block.setup(3)


def block_step(backend: Backend) -> None:
    block = block_of(backend)
    assert block.step(1) is None
    batch = block.step(2)
    assert batch is not None
    assert set(backend.numpy(batch.indices).tolist()) <= set(range(5))
    assert backend.numpy(batch.reward).tolist() == backend.numpy(batch.indices).tolist()


def block_update_priorities(backend: Backend) -> None:
    block = block_of(backend, prioritized=True)
    with refused(backend, block.buffer, cpreplay.OrderError, "update_priorities", "no minibatch"):
        block.update_priorities(np.ones(4))
    batch = block.step(2)
    block.update_priorities(backend.numpy(batch.indices) + 1.0)
    assert block.buffer.stats()["max_priority"] == 1.0 + max(backend.numpy(batch.indices)) + 1e-6


def block_batch_size(backend: Backend) -> None:
    assert block_of(backend).batch_size == 4


def block_buffer(backend: Backend) -> None:
    buffer = backend.buffer(3, (), 8)
    assert ReplaySampleStep(buffer, 4).buffer is buffer


def block_save(backend: Backend) -> None:
    block, other = block_of(backend), block_of(backend, ready=False)
    other.setup(0)
    with saved(block.save) as path:
        other.resume(path)
    for step in (2, 3):
        rows = [backend.numpy(b.step(step).indices).tolist() for b in (block, other)]
        assert rows[0] == rows[1]


def block_save_in_background(backend: Backend) -> None:
    block, other = block_of(backend), block_of(backend, ready=False)
    with saved(lambda path: block.save_in_background(path).result(60)) as path:
        other.resume(path)
    assert other.count() == 5


def block_resume(backend: Backend) -> None:
    block = block_of(backend, prioritized=True)
    assert block.step(2) is not None
    with saved(block.save) as path:
        block.resume(path, seed=3)
    assert block.buffer.seed == 3
    with refused(backend, block.buffer, cpreplay.OrderError, "no minibatch"):
        block.update_priorities(np.ones(4))  # of a batch that is of the time before


BLOCK_EXERCISES: dict[str, Callable[[Backend], None]] = {
    name.removeprefix("block_"): function
    for name, function in list(globals().items())
    if name.startswith("block_") and name != "block_of"
}


def steps_of(backend: Backend, n: int = 2, n_envs: int = 2) -> Any:
    """An n-step buffer of two environments, of which the first has a pending step."""
    kind = cpreplay.GPUNStepBuffer if backend.is_device else cpreplay.NStepBuffer
    steps = kind(n, 1, (), 0.5, n_envs=n_envs)
    step = ([[1], [2]], [3, 4], [5, 6], [[7], [8]], [False] * 2, [False] * 2)
    steps.append(*step, mask=[True, False])
    return steps


def nstep_append(backend: Backend) -> None:
    out = steps_of(backend).append(
        [[7], [2]], [0, 4], [8, 6], [[9], [8]], [False, True], [False] * 2
    )
    valid = backend.numpy(out.valid)
    assert len(out) == len(valid) == (4 if backend.is_device else 2)
    given = {
        name: backend.numpy(getattr(out, name))[valid].ravel().tolist()
        for name in sorted(TRANSITIONS_ATTRIBUTES - {"extra", "valid"})
    }
    assert given == {
        "action": [3, 4],
        "discount": [0.25, 0],
        "next_obs": [9, 8],
        "obs": [1, 2],
        "reward": [9, 6],
        "terminated": [False, True],
        "truncated": [False, False],
    }
    assert out.extra == {}


def nstep_gamma(backend: Backend) -> None:
    assert steps_of(backend).gamma == 0.5


def nstep_n(backend: Backend) -> None:
    assert steps_of(backend, n=7).n == 7


def nstep_n_envs(backend: Backend) -> None:
    assert steps_of(backend).n_envs == 2


def nstep_pending(backend: Backend) -> None:
    assert backend.numpy(steps_of(backend).pending).tolist() == [1, 0]


def nstep_reset(backend: Backend) -> None:
    steps = steps_of(backend)
    steps.reset([False, True])
    assert backend.numpy(steps.pending).tolist() == [1, 0]
    steps.reset()
    assert backend.numpy(steps.pending).tolist() == [0, 0]


def nstep_state(backend: Backend) -> None:
    state = steps_of(backend).state()
    assert sorted(state) == ["action", "obs", "pending", "reward"]
    assert (state["pending"].tolist(), state["obs"][0, 0].tolist()) == ([1, 0], [1])


def nstep_restore(backend: Backend) -> None:
    steps, empty = steps_of(backend), steps_of(backend)
    empty.reset()
    empty.restore(steps.state())
    assert backend.numpy(empty.pending).tolist() == [1, 0]


NSTEP_EXERCISES: dict[str, Callable[[Backend], None]] = {
    name.removeprefix("nstep_"): function
    for name, function in list(globals().items())
    if name.startswith("nstep_")
}


def windows_of(
    backend: Backend, *, ready: bool = True, prioritized: bool = False
) -> cpreplay.NStepSampleStep:
    """An n-step block of one environment that has stored one transition, and has one pending."""
    buffer = backend.buffer(1, (), 8, prioritized, seed=1, extra_columns={"discount": ()})
    block = cpreplay.NStepSampleStep(ReplaySampleStep(buffer, 1), 2, 0.5)
    if ready:
        block.setup(2)
        for number in range(2):
            block.add([number], 0, 1, [number + 1], False, False)
    return block


def windows_add(backend: Backend) -> None:
    block = windows_of(backend)
    block.add([2], 0, 1, [3], False, True)
    assert backend.numpy(block.buffer.column("reward"))[:4].tolist() == [1.5, 1.5, 1, 0]
    assert backend.numpy(block.buffer.column("discount"))[:4].tolist() == [0.25, 0.25, 0.5, 0]


def windows_add_batch(backend: Backend) -> None:
    block = windows_of(backend)
    block.add_batch([[2]], [0], [1], [[3]], [True], [False], mask=[False])
    assert block.count() == 1
    block.add_batch([[2]], [0], [1], [[3]], [True], [False], mask=[True])
    assert backend.numpy(block.buffer.column("discount"))[:4].tolist() == [0.25, 0, 0, 0]
    assert block.count() == 3


def windows_batch_size(backend: Backend) -> None:
    block = windows_of(backend)
    assert block.batch_size == block.block.batch_size > 0


def windows_block(backend: Backend) -> None:
    block = windows_of(backend)
    assert isinstance(block.block, ReplaySampleStep)
    assert block.block.buffer is block.buffer


def windows_buffer(backend: Backend) -> None:
    assert len(windows_of(backend).buffer) == 1


def windows_nstep(backend: Backend) -> None:
    assert backend.numpy(windows_of(backend).nstep.pending).tolist() == [1]


def windows_configure_ere(backend: Backend) -> None:
    block = windows_of(backend, ready=False)
    block.configure_ere(True, 0.5, 1, 10)
    assert block.buffer.stats()["ere"]


def windows_configure_per(backend: Backend) -> None:
    block = windows_of(backend, ready=False, prioritized=True)
    block.configure_per(0.5, 1.0, 0.25)
    assert block.buffer.stats()["epsilon"] == 0.25


def windows_count(backend: Backend) -> None:
    assert windows_of(backend).count() == 1


def windows_demo_count(backend: Backend) -> None:
    assert windows_of(backend).demo_count() == 0


def windows_pin_demo_prefix(backend: Backend) -> None:
    block = windows_of(backend)
    block.pin_demo_prefix(1)
    assert block.demo_count() == 1


def windows_reset(backend: Backend) -> None:
    block = windows_of(backend)
    block.reset()
    assert backend.numpy(block.nstep.pending).tolist() == [0]


def windows_set_beta(backend: Backend) -> None:
    block = windows_of(backend, prioritized=True)
    block.set_beta(0.75)
    assert block.buffer.stats()["beta"] == 0.75


def windows_setup(backend: Backend) -> None:
    block = windows_of(backend)
    with pytest.raises(cpreplay.OrderError):
        block.setup(3)


def windows_step(backend: Backend) -> None:
    block = windows_of(backend)
    assert block.step(1) is None
    batch = block.step(2)
    assert batch is not None
    assert backend.numpy(batch["discount"]).tolist() == [0.25]
    assert backend.numpy(batch.reward).tolist() == [1.5]


def windows_update_priorities(backend: Backend) -> None:
    block = windows_of(backend, prioritized=True)
    assert block.step(2) is not None
    block.update_priorities([3.0])
    assert block.buffer.stats()["max_priority"] == 3.0 + 1e-6


def windows_save(backend: Backend) -> None:
    block, other = windows_of(backend), windows_of(backend, ready=False)
    other.setup(0)
    with saved(block.save) as path:
        other.resume(path)
    for one in (block, other):
        one.add([2], 0, 1, [3], False, True)
        assert backend.numpy(one.buffer.column("reward"))[:4].tolist() == [1.5, 1.5, 1, 0]


def windows_save_in_background(backend: Backend) -> None:
    block, other = windows_of(backend), windows_of(backend, ready=False)
    with saved(lambda path: block.save_in_background(path).result(60)) as path:
        other.resume(path)
    assert backend.numpy(other.nstep.pending).tolist() == [1]


def windows_resume(backend: Backend) -> None:
    block = windows_of(backend)
    misfit = (cpreplay.CheckpointError, "no pending steps")
    with saved(block.buffer.save) as path, refused(backend, block.buffer, *misfit):
        block.resume(path)
    assert backend.numpy(block.nstep.pending).tolist() == [1]


NSTEP_BLOCK_EXERCISES: dict[str, Callable[[Backend], None]] = {
    name.removeprefix("windows_"): function
    for name, function in list(globals().items())
    if name.startswith("windows_") and name != "windows_of"
}


@pytest.mark.parametrize("name", sorted(public(StoreReplay) | public(StoreReplayGpu)))
def test_every_public_name_of_a_buffer_is_exercised(name: str, backend: Backend) -> None:
    assert name in BUFFER_EXERCISES, f"{name} is public and has no exercise"
    BUFFER_EXERCISES[name](backend)


@pytest.mark.parametrize("name", sorted(public(ReplaySampleStep)))
def test_every_public_name_of_a_block_is_exercised(name: str, backend: Backend) -> None:
    assert name in BLOCK_EXERCISES, f"{name} is public and has no exercise"
    BLOCK_EXERCISES[name](backend)


@pytest.mark.parametrize("name", sorted(public(cpreplay.NStepBuffer)))
def test_every_public_name_of_an_n_step_buffer_is_exercised(name: str, backend: Backend) -> None:
    assert name in NSTEP_EXERCISES, f"{name} is public and has no exercise"
    NSTEP_EXERCISES[name](backend)


@pytest.mark.parametrize("name", sorted(public(cpreplay.NStepSampleStep)))
def test_every_public_name_of_an_n_step_block_is_exercised(name: str, backend: Backend) -> None:
    assert name in NSTEP_BLOCK_EXERCISES, f"{name} is public and has no exercise"
    NSTEP_BLOCK_EXERCISES[name](backend)


def test_no_exercise_is_left_over() -> None:
    assert public(cpreplay.NStepBuffer) == set(NSTEP_EXERCISES)
    assert public(cpreplay.GPUNStepBuffer) == set(NSTEP_EXERCISES)
    assert public(cpreplay.NStepSampleStep) == set(NSTEP_BLOCK_EXERCISES)
    assert public(StoreReplay) == public(StoreReplayGpu) == set(BUFFER_EXERCISES)
    assert public(ReplaySampleStep) == set(BLOCK_EXERCISES)


def test_a_buffer_has_a_length_and_shows_itself(backend: Backend) -> None:
    buffer = filled(backend)
    assert len(buffer) == 6
    assert type(buffer).__name__ in repr(buffer)
    assert "6 of 8 rows" in repr(buffer)
    assert len(backend.buffer(3, 2, 8)) == 0


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_buffer_cannot_be_copied(duplicate: Callable[[Any], Any], backend: Backend) -> None:
    buffer = filled(backend)
    with refused(backend, buffer, cpreplay.CopyError, type(buffer).__name__, "make another"):
        duplicate(buffer)


def test_the_two_buffers_are_called_alike() -> None:
    host, device = (inspect.signature(cls).parameters for cls in (StoreReplay, StoreReplayGpu))
    shared = [name for name in host if name in device]
    assert [*device][:-1] == shared == [name for name in host if name != "rng"]
    for name in shared:
        assert (host[name].kind, host[name].default) == (device[name].kind, device[name].default)
