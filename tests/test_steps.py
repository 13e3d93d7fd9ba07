"""Sample blocks: the order of their calls, and when a step gives a minibatch."""

import inspect
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import ReplaySampleStep, StoreUniformSampleCpuStep, StoreUniformSampleGpuStep
from cpreplay.errors import ColumnNameError, ConfigurationError, OrderError, SampleRangeError
from tests.conftest import Backend
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
    with pytest.raises(ConfigurationError, match="prioritized=True"):
        StoreUniformSampleCpuStep(3, 2, 4, 20, prioritized=True)
    with pytest.raises(TypeError, match="no_such_option"):
        StoreUniformSampleCpuStep(3, 2, 4, 20, no_such_option=1)


def test_the_aliases_are_called_alike() -> None:
    assert inspect.signature(StoreUniformSampleCpuStep) == inspect.signature(
        StoreUniformSampleGpuStep
    )


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
