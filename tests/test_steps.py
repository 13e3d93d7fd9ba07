"""Sample blocks: the order of their calls, and when a step gives a minibatch."""

import inspect
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import (
    ReplaySampleStep,
    StorePerSampleCpuStep,
    StorePerSampleGpuStep,
    StoreUniformSampleCpuStep,
    StoreUniformSampleGpuStep,
)
from cpreplay.errors import (
    ColumnNameError,
    ConfigurationError,
    OrderError,
    SampleRangeError,
    ShapeError,
)
from tests.conftest import Backend
from tests.golden.reference import PhiloxWords
from tests.models import PrioritizedModel
from tests.refusals import fingerprint, refused


def make_block(backend: Backend, batch: int = 4, cap: int = 20, **options: Any) -> ReplaySampleStep:
    return ReplaySampleStep(backend.buffer(3, 2, cap, seed=1, **options), batch)


def add_rows(block: Any, rows: int, **given: Any) -> None:
    values: dict[str, Any] = {
        "obs": np.zeros((rows, 3)),
        "action": np.zeros((rows, 2)),
        "reward": np.arange(rows, dtype=np.float32),
        "next_obs": np.zeros((rows, 3)),
        "terminated": np.zeros(rows, bool),
    }
    block.add_batch(**(values | given))


def make_per_block(
    backend: Backend, batch: int = 4, cap: int = 20, **options: Any
) -> ReplaySampleStep:
    return make_block(backend, batch, cap, prioritized=True, **options)


ONE = ([0, 0, 0], [0, 0], 1.0, [0, 0, 0], False)


# Order


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("add", lambda block: block.add(*ONE)),
        ("add_batch", lambda block: add_rows(block, 2)),
        ("step", lambda block: block.step(0)),
        ("pin_demo_prefix", lambda block: block.pin_demo_prefix(1)),
    ],
)
def test_before_setup_nothing_can_be_added_or_drawn(name: str, call: Any, backend: Backend) -> None:
    block = make_block(backend)
    with refused(backend, block.buffer, OrderError, f"{name} before setup", "setup(learning_star"):
        call(block)


def test_ere_is_configured_before_setup_and_not_after(backend: Backend) -> None:
    block = make_block(backend)
    block.configure_ere(eta=0.5, c_min=2, k_max=7)
    control = block.buffer._ops.control()
    assert [control[name] for name in ("ere_enabled", "eta", "c_min", "k_max")] == [1, 0.5, 2, 7]
    block.setup(0)
    with refused(backend, block.buffer, OrderError, "configure_ere after setup", "configure"):
        block.configure_ere(enable=False)


def test_setup_is_called_once(backend: Backend) -> None:
    block = make_block(backend)
    block.setup(7)
    with refused(backend, block.buffer, OrderError, "setup was called already", "7"):
        block.setup(0)
    add_rows(block, 10)
    assert block.step(6) is None
    assert block.step(7) is not None


@pytest.mark.parametrize("value", [-1, True, 2.0, None, "3"])
def test_learning_starts_is_a_step_index(value: Any, backend: Backend) -> None:
    block = make_block(backend)
    with refused(backend, block.buffer, ConfigurationError, f"learning_starts={value!r}", ">= 0"):
        block.setup(value)
    block.setup(np.int64(0))  # the refused call has not set it up
    add_rows(block, 10)
    assert block.step(0) is not None


@pytest.mark.parametrize("batch", [0, -1, 2.0, True, None])
def test_a_block_has_a_batch_size(batch: Any, backend: Backend) -> None:
    with pytest.raises(SampleRangeError, match="batch_size="):
        make_block(backend, batch=batch)


def test_a_block_that_could_never_give_a_batch_is_refused(backend: Backend) -> None:
    assert make_block(backend, batch=20, cap=20).buffer.capacity == 20
    with pytest.raises(ConfigurationError) as caught:
        make_block(backend, batch=21, cap=20)
    assert "21" in str(caught.value)
    assert "20" in str(caught.value)


def test_per_is_configured_before_setup_and_not_after(backend: Backend) -> None:
    block = make_per_block(backend)
    block.configure_per(alpha=0.5, beta=0.25, epsilon=0.125)
    block.setup(0)
    with refused(backend, block.buffer, OrderError, "configure_per after setup", "configure"):
        block.configure_per(alpha=0.5, beta=1.0)
    stats = block.buffer.stats()
    assert [stats[name] for name in ("alpha", "beta", "epsilon")] == [0.5, 0.25, 0.125]


def test_the_defaults_of_per_are_the_buffers(backend: Backend) -> None:
    block = make_per_block(backend)
    block.configure_per(0.25, 0.5, 0.75)
    block.configure_per()
    stats = block.buffer.stats()
    assert [stats[name] for name in ("alpha", "beta", "epsilon")] == [0.6, 0.4, 1e-6]


def test_beta_is_set_at_any_time(backend: Backend) -> None:
    block = make_per_block(backend)
    block.set_beta(0.125)
    assert block.buffer.stats()["beta"] == 0.125
    block.setup(0)
    block.set_beta(0.25)
    add_rows(block, 20)
    block.step(0)
    block.set_beta(0.5)
    assert block.buffer.stats()["beta"] == 0.5
    with refused(backend, block.buffer, ConfigurationError, "set_beta", "beta=1.5"):
        block.set_beta(1.5)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("configure_per", lambda block: block.configure_per()),
        ("set_beta", lambda block: block.set_beta(0.5)),
    ],
)
def test_a_uniform_block_has_no_priorities_to_configure(
    name: str, call: Any, backend: Backend
) -> None:
    block = make_block(backend)
    with refused(backend, block.buffer, OrderError, name, "prioritized=True"):
        call(block)


def test_a_prioritized_block_takes_no_ere_and_no_demonstrations(backend: Backend) -> None:
    block = make_per_block(backend)
    with refused(backend, block.buffer, OrderError, "configure_ere", "prioritized"):
        block.configure_ere()
    block.setup(0)
    add_rows(block, 5)
    with refused(backend, block.buffer, OrderError, "pin_demo_prefix", "prioritized"):
        block.pin_demo_prefix(5)


# When a step gives a minibatch


def test_a_step_gives_none_before_learning_starts(backend: Backend) -> None:
    block = make_block(backend)
    block.setup(learning_starts=5)
    add_rows(block, 20)
    before = fingerprint(backend, block.buffer)
    assert [block.step(index) for index in range(5)] == [None] * 5
    assert fingerprint(backend, block.buffer) == before  # and draws nothing
    assert len(block.step(5)) == 4
    assert len(block.step(np.int64(1000))) == 4
    assert block.step(4) is None  # the index counts, not what was seen before


def test_a_step_gives_none_until_one_batch_is_stored(backend: Backend) -> None:
    block = make_block(backend)
    block.setup(0)
    seen = [block.step(0)]
    for _ in range(5):
        block.add(*ONE)
        seen.append(block.step(0))
    assert [batch is not None for batch in seen] == [False, False, False, False, True, True]
    assert block.buffer.stats()["draws"] == 2


def test_demonstrations_stand_in_for_the_first_batch(backend: Backend) -> None:
    block = make_block(backend)
    block.setup(learning_starts=3)
    add_rows(block, 2)
    assert block.step(3) is None
    block.pin_demo_prefix(2)
    assert (block.demo_count(), block.count()) == (2, 2)
    assert block.step(2) is None
    batch = block.step(3)
    assert set(backend.numpy(batch.indices).tolist()) <= {0, 1}


def test_a_block_gives_its_batch_size_to_the_pin(backend: Backend) -> None:
    block = make_block(backend, batch=8)
    block.setup(0)
    add_rows(block, 13)
    with refused(backend, block.buffer, ConfigurationError, "7 of 20", "one minibatch of 8"):
        block.pin_demo_prefix(13)
    assert block.demo_count() == 0


def test_steps_draw_what_the_buffer_would(backend: Backend) -> None:
    block, buffer = make_block(backend), backend.buffer(3, 2, 20, seed=1)
    block.setup(0)
    for rows in (5, 3, 30):
        add_rows(block, rows)
        add_rows(buffer, rows)
        for _ in range(3):
            step, sample = block.step(0), buffer.sample(4)
            for name in ("indices", "reward"):
                assert backend.numpy(step[name]).tolist() == backend.numpy(sample[name]).tolist()


# Arrays


def addresses(backend: Backend, batch: Any) -> list[int]:
    names = ("obs", "action", "reward", "next_obs", "terminated", "indices")
    return [backend.address(batch[name]) for name in names]


def test_each_step_gives_fresh_arrays(backend: Backend) -> None:
    block = make_block(backend)
    block.setup(0)
    add_rows(block, 20)
    first, second = block.step(0), block.step(1)
    assert set(addresses(backend, first)).isdisjoint(addresses(backend, second))


def test_fixed_steps_fill_the_same_arrays_anew(backend: Backend) -> None:
    block = make_block(backend, batch=16)
    block.setup(0, fixed=True)
    add_rows(block, 20)
    first = block.step(0)
    rows, where = backend.numpy(first.indices), addresses(backend, first)
    second = block.step(1)
    assert second is first
    assert addresses(backend, second) == where
    assert (backend.numpy(second.indices) != rows).any()
    assert backend.numpy(second.reward).tolist() == backend.numpy(second.indices).tolist()


def test_fixed_and_fresh_steps_draw_the_same_rows(backend: Backend) -> None:
    drawn = []
    for fixed in (False, True):
        block = make_block(backend)
        block.setup(0, fixed=fixed)
        add_rows(block, 20)
        drawn.append([backend.numpy(block.step(0).indices).tolist() for _ in range(5)])
    assert drawn[0] == drawn[1]


# Priorities

NO_BATCH = ("update_priorities", "the last step gave no minibatch")


@pytest.mark.parametrize("fixed", [False, True])
def test_there_is_nothing_to_update_before_the_first_step(fixed: bool, backend: Backend) -> None:
    block = make_per_block(backend)
    with refused(backend, block.buffer, OrderError, *NO_BATCH):
        block.update_priorities(np.ones(4))
    block.setup(learning_starts=3, fixed=fixed)
    with refused(backend, block.buffer, OrderError, *NO_BATCH):
        block.update_priorities(np.ones(4))
    add_rows(block, 20)
    assert block.step(2) is None
    with refused(backend, block.buffer, OrderError, *NO_BATCH):
        block.update_priorities(np.ones(4))


@pytest.mark.parametrize("fixed", [False, True])
def test_there_is_nothing_to_update_after_a_step_without_a_minibatch(
    fixed: bool, backend: Backend
) -> None:
    block = make_per_block(backend)
    block.setup(learning_starts=3, fixed=fixed)
    add_rows(block, 20)
    assert block.step(3) is not None
    assert block.step(2) is None
    with refused(backend, block.buffer, OrderError, *NO_BATCH):
        block.update_priorities(np.ones(4))
    assert block.step(3) is not None
    block.update_priorities(np.ones(4))


def test_a_uniform_block_has_no_priorities_to_update(backend: Backend) -> None:
    block = make_block(backend)
    block.setup(0)
    add_rows(block, 20)
    with refused(backend, block.buffer, OrderError, "update_priorities"):
        block.update_priorities(np.ones(4))
    block.step(0)
    with refused(backend, block.buffer, OrderError, "update_priorities", "prioritized=True"):
        block.update_priorities(np.ones(4))


def leaves(backend: Backend, block: ReplaySampleStep) -> list[float]:
    """The mass of every row."""
    levels = block.buffer._ops.priorities.levels()
    masses: list[float] = backend.numpy(levels[0])[: block.buffer.capacity].tolist()
    return masses


@pytest.mark.parametrize("fixed", [False, True])
def test_an_update_is_for_the_rows_of_the_last_step(fixed: bool, backend: Backend) -> None:
    block = make_per_block(backend, batch=6)
    block.configure_per(alpha=1.0, beta=0.5, epsilon=0.0)
    block.setup(0, fixed=fixed)
    model = PrioritizedModel(20, PhiloxWords(1), device=backend.is_device)
    model.configure_per(1.0, 0.5, 0.0)
    random = np.random.default_rng(4)
    for round_ in range(12):
        add_rows(block, 7)
        model.add_batch(range(7))
        batch = block.step(round_)
        rows, weights = model.sample(6)
        assert backend.numpy(batch.indices).tolist() == rows
        assert backend.numpy(batch.weights).tolist() == weights
        token = model.token(rows)
        if round_ % 3 == 2:  # while the learner works, the ring goes on
            add_rows(block, 5)
            model.add_batch(range(5))
        errors = random.normal(size=6)
        block.update_priorities(errors)
        model.update(token, rows, errors.tolist())
        assert leaves(backend, block) == model.leaves
    stats = block.buffer.stats()
    assert stats["stale_updates"] == model.stale_updates > 0
    assert stats["max_priority"] == model.max_priority > 1
    block.buffer.check()


def test_a_second_update_of_one_step_counts_alone(backend: Backend) -> None:
    once, twice = make_per_block(backend), make_per_block(backend)
    for block in (once, twice):
        block.setup(0)
        add_rows(block, 20)
        block.step(0)
    twice.update_priorities([0.5, 0.25, 0.125, 0.0])
    for block in (once, twice):
        block.update_priorities([0.0, 0.5, 0.25, 0.75])
    assert leaves(backend, once) == leaves(backend, twice)


def test_a_block_passes_on_what_the_buffer_refuses_of_an_update(backend: Backend) -> None:
    block = make_per_block(backend)
    block.setup(0)
    add_rows(block, 20)
    block.step(0)
    with refused(backend, block.buffer, ShapeError, "td_errors", "(3,), and (4,) is wanted"):
        block.update_priorities(np.ones(3))
    block.update_priorities(np.ones(4))  # the batch is still there


# Truncated


def test_truncated_is_stored_where_there_is_a_column_of_that_name(backend: Backend) -> None:
    block = make_block(backend, extra_columns={"truncated": bool})
    block.setup(0)
    block.add(*ONE, True)
    block.add(*ONE, truncated=False)
    add_rows(block, 2, truncated=[True, False])
    stored = backend.numpy(block.buffer.column("truncated"))[:4]
    assert stored.tolist() == [True, False, True, False]
    assert not backend.numpy(block.buffer.column("terminated")).any()
    assert block.step(0)["truncated"].dtype == bool


def test_truncated_has_to_be_given_where_it_is_stored(backend: Backend) -> None:
    block = make_block(backend, extra_columns={"truncated": bool})
    block.setup(0)
    with refused(backend, block.buffer, ColumnNameError, "truncated", "give its value"):
        block.add(*ONE)
    with refused(backend, block.buffer, ColumnNameError, "truncated", "give its value"):
        add_rows(block, 2)


def test_truncated_is_taken_and_has_no_use_in_a_buffer_without_the_column(
    backend: Backend,
) -> None:
    with_it, without = make_block(backend), make_block(backend)
    for block in (with_it, without):
        block.setup(0)
    with_it.add(*ONE, True)
    without.add(*ONE)
    add_rows(with_it, 2, truncated=[True, False])
    add_rows(without, 2)
    assert fingerprint(backend, with_it.buffer) == fingerprint(backend, without.buffer)


def test_other_extra_columns_go_through(backend: Backend) -> None:
    block = make_block(backend, extra_columns={"log_prob": (), "truncated": bool})
    block.setup(0)
    block.add(*ONE, True, log_prob=-0.5)
    add_rows(block, 3, truncated=[False, True, True], log_prob=[1, 2, 3], mask=[True, False, True])
    assert backend.numpy(block.buffer.column("log_prob"))[:4].tolist() == [-0.5, 1, 3, 0]
    assert backend.numpy(block.buffer.column("truncated"))[:4].tolist() == [1, 0, 1, 0]
    with refused(backend, block.buffer, ColumnNameError, "log_prob", "value"):
        block.add(*ONE, True, log_prob=0, value=1)


# Counts and aliases


def test_counts_are_the_buffers(backend: Backend) -> None:
    block = make_block(backend)
    assert (block.count(), block.demo_count()) == (0, 0)  # also before setup
    block.setup(0)
    for rows in (3, 0, 16, 8):
        add_rows(block, rows)
        assert block.count() == len(block.buffer)
    assert block.count() == 20


def test_the_host_alias_makes_a_block_over_a_host_buffer() -> None:
    block = StoreUniformSampleCpuStep(3, 2, 4, 20, seed=9, obs_store_dtype="uint8")
    assert type(block) is ReplaySampleStep
    assert type(block.buffer) is cpreplay.StoreReplay
    assert (block.buffer.capacity, block.buffer.seed) == (20, 9)
    assert block.buffer.columns[0].quantized
    assert [column.shape for column in block.buffer.columns[:2]] == [(3,), (2,)]
    block.setup(0)
    add_rows(block, 20)
    assert len(block.step(0)) == 4
    by_name = StoreUniformSampleCpuStep(obs=3, act=2, batch=4, cap=20, seed=9)
    assert by_name.buffer.capacity == 20


def test_the_device_alias_makes_a_block_over_a_device_buffer(device: Backend) -> None:
    block = StoreUniformSampleGpuStep(3, 2, 4, 20, seed=9, obs_store_dtype="uint8")
    assert type(block) is ReplaySampleStep
    assert type(block.buffer) is cpreplay.StoreReplayGpu
    assert (block.buffer.capacity, block.buffer.seed) == (20, 9)
    assert block.buffer.columns[0].quantized
    block.setup(0)
    add_rows(block, 20)
    assert isinstance(block.step(0).obs, device.cupy.ndarray)


def test_an_alias_passes_a_refusal_on() -> None:
    with pytest.raises(ConfigurationError, match="capacity=0"):
        StoreUniformSampleCpuStep(3, 2, 4, 0)
    with pytest.raises(ConfigurationError, match="capacity=0"):
        StorePerSampleCpuStep(3, 2, 4, 0)
    with pytest.raises(ConfigurationError, match="batch=21"):
        StorePerSampleCpuStep(3, 2, 21, 20)
    for alias in (StoreUniformSampleCpuStep, StorePerSampleCpuStep):
        with pytest.raises(TypeError, match="no_such_option"):
            alias(3, 2, 4, 20, no_such_option=1)
    with pytest.raises(TypeError, match="prioritized"):  # what the alias is for is not open
        StorePerSampleCpuStep(3, 2, 4, 20, prioritized=False)


def test_the_aliases_are_called_alike() -> None:
    assert inspect.signature(StoreUniformSampleCpuStep) == inspect.signature(
        StoreUniformSampleGpuStep
    )
    assert inspect.signature(StorePerSampleCpuStep) == inspect.signature(StoreUniformSampleCpuStep)
    host, gpu = (
        dict(inspect.signature(alias).parameters)
        for alias in (StorePerSampleCpuStep, StorePerSampleGpuStep)
    )
    assert list(gpu) == ["obs", "act", "batch", "cap", "obs_store_dtype", "options"]
    assert gpu.pop("obs_store_dtype").default is None
    assert gpu == host


def test_the_prioritized_host_alias_makes_a_block_over_a_prioritized_host_buffer() -> None:
    block = StorePerSampleCpuStep(3, 2, 4, 20, seed=9, obs_store_dtype="uint8")
    assert type(block) is ReplaySampleStep
    assert type(block.buffer) is cpreplay.StoreReplay
    assert block.buffer.prioritized is True
    assert (block.buffer.capacity, block.buffer.seed) == (20, 9)
    assert block.buffer.columns[0].quantized
    assert [column.shape for column in block.buffer.columns[:2]] == [(3,), (2,)]
    assert StoreUniformSampleCpuStep(3, 2, 4, 20).buffer.prioritized is False
    by_name = StorePerSampleCpuStep(obs=3, act=2, batch=4, cap=20, seed=9)
    by_name.setup(0)
    add_rows(by_name, 20)
    assert by_name.step(0).weights.tolist() == [1, 1, 1, 1]


def test_the_prioritized_device_alias_takes_the_store_dtype_fifth(device: Backend) -> None:
    block = StorePerSampleGpuStep(3, 2, 4, 20, "uint8", seed=9)
    assert type(block) is ReplaySampleStep
    assert type(block.buffer) is cpreplay.StoreReplayGpu
    assert block.buffer.prioritized is True
    assert (block.buffer.capacity, block.buffer.seed) == (20, 9)
    assert block.buffer.columns[0].quantized
    for verbatim in (
        StorePerSampleGpuStep(3, 2, 4, 20),
        StorePerSampleGpuStep(obs=3, act=2, batch=4, cap=20, obs_store_dtype=None),
    ):
        assert not verbatim.buffer.columns[0].quantized
    named = StorePerSampleGpuStep(3, 2, 4, 20, obs_store_dtype="uint8")
    assert named.buffer.columns[0].quantized
    block.setup(0)
    add_rows(block, 20)
    batch = block.step(0)
    assert isinstance(batch.weights, device.cupy.ndarray)
    block.update_priorities(device.array(np.arange(4, dtype=np.float32)))
    assert block.buffer.stats()["max_priority"] == 3.000001


# Capture


def test_a_fixed_step_can_be_captured_and_follows_the_buffer(device: Backend) -> None:
    block = make_block(device, batch=64, cap=100)
    block.setup(0, fixed=True)
    add_rows(block, 100)
    first = block.step(0)
    stream = device.cupy.cuda.Stream(non_blocking=True)
    block.buffer.synchronize()
    with stream:
        stream.begin_capture()
        batch = block.step(1)
        graph = stream.end_capture()
        assert batch is first
        drawn = []
        for _ in range(3):
            graph.launch()
            stream.synchronize()
            drawn.append(device.numpy(batch.indices).tolist())
    assert len({tuple(rows) for rows in drawn}) == 3
    twin = make_block(device, batch=64, cap=100)
    twin.setup(0)
    add_rows(twin, 100)
    twin.step(0)
    assert drawn == [device.numpy(twin.step(0).indices).tolist() for _ in range(3)]


def test_a_captured_step_and_update_follow_the_buffer(device: Backend) -> None:
    captured, direct = (make_per_block(device, batch=16, cap=50) for _ in range(2))
    errors = np.linspace(-3, 5, 16, dtype=np.float32)
    for block in (captured, direct):
        block.setup(0, fixed=block is captured)
        add_rows(block, 20)
    own_errors = device.array(errors)
    captured.buffer.synchronize()
    stream = device.cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        batch = captured.step(0)
        captured.update_priorities(own_errors)
        graph = stream.end_capture()
    for beta in (0.4, 0.7, 1.0, 0.0):
        for block in (captured, direct):
            block.set_beta(beta)
            add_rows(block, 13)
        device.cupy.cuda.Device().synchronize()
        graph.launch(stream)
        stream.synchronize()
        expected = direct.step(0)
        direct.update_priorities(errors)
        for name in ("indices", "weights", "reward"):
            assert device.numpy(batch[name]).tolist() == device.numpy(expected[name]).tolist()
        assert leaves(device, captured) == leaves(device, direct)


def test_a_setup_that_failed_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    block = cpreplay.StoreUniformSampleCpuStep(3, 2, 4, 8)

    def no_memory(batch_size: int) -> cpreplay.Batch:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(block.buffer, "make_batch", no_memory)
        with pytest.raises(MemoryError):
            block.setup(0, fixed=True)
    block.setup(0, fixed=True)
    for _ in range(4):
        block.add([0, 0, 0], [0, 0], 0, [0, 0, 0], False)
    assert block.step(0) is block.step(1)


def test_a_block_draws_as_its_name_says(backend: Backend) -> None:
    kind = "Gpu" if backend.is_device else "Cpu"
    uniform = getattr(cpreplay, f"StoreUniformSample{kind}Step")
    per = getattr(cpreplay, f"StorePerSample{kind}Step")
    assert not uniform(2, 1, 4, 8).buffer.prioritized
    assert per(2, 1, 4, 8).buffer.prioritized
    for make in (uniform, per):
        with pytest.raises(TypeError, match="prioritized"):
            make(2, 1, 4, 8, prioritized=True)
