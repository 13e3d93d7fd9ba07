"""n-step sample blocks: what they store, what they draw, and what they refuse."""

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import (
    ConfigurationError,
    NStepSampleStep,
    ReplaySampleStep,
    block_aliases,
    errors,
    nstep_steps,
)
from tests.conftest import Backend
from tests.models import RingModel
from tests.nstep_model import Recording, Step, Window
from tests.refusals import refused

STORED = ("obs", "action", "reward", "next_obs", "terminated", "discount", "truncated", "prob")
GAMMA = 0.9


def make_block(
    backend: Backend,
    n: int = 3,
    *,
    n_envs: int = 1,
    batch: int = 4,
    cap: int = 20,
    prioritized: bool = False,
    **options: Any,
) -> NStepSampleStep:
    return NStepSampleStep(
        make_plain(backend, batch=batch, cap=cap, prioritized=prioritized, **options),
        n,
        GAMMA,
        n_envs=n_envs,
    )


def make_plain(
    backend: Backend, *, batch: int = 4, cap: int = 20, prioritized: bool = False, **options: Any
) -> ReplaySampleStep:
    options = {
        "extra_columns": {"discount": (), "truncated": "bool", "prob": ()},
        "action_dtype": "int64",
        "seed": 1,
    } | options
    return ReplaySampleStep(backend.buffer((2,), (), cap, prioritized, **options), batch)


def make_step(
    number: int, *, reward: float | None = None, terminated: bool = False, truncated: bool = False
) -> Step:
    return Step(
        obs=[number, -number],
        action=number,
        reward=float(np.float32(number / 4 if reward is None else reward)),
        next_obs=[number + 0.5, -number],
        terminated=terminated,
        truncated=truncated,
        extra={"prob": number + 0.25},
    )


def columns_of(steps: Sequence[Step]) -> dict[str, Any]:
    return {
        "obs": np.array([step.obs for step in steps], np.float32),
        "action": np.array([step.action for step in steps], np.int64),
        "reward": np.array([step.reward for step in steps], np.float32),
        "next_obs": np.array([step.next_obs for step in steps], np.float32),
        "terminated": np.array([step.terminated for step in steps], bool),
        "truncated": np.array([step.truncated for step in steps], bool),
        "prob": np.array([step.extra["prob"] for step in steps], np.float32),
    }


def add(block: Any, step: Step) -> None:
    block.add(
        step.obs, step.action, step.reward, step.next_obs, step.terminated, step.truncated,
        prob=step.extra["prob"],
    )  # fmt: skip


def stored_row(window: Window, gamma: float = GAMMA) -> dict[str, Any]:
    """What a window has to look like in a buffer."""
    return {
        "obs": window.first.obs,
        "action": window.first.action,
        "reward": window.returned(gamma),
        "next_obs": window.last.next_obs,
        "terminated": window.last.terminated,
        "discount": window.discount(gamma),
        "truncated": window.last.truncated,
        "prob": window.first.extra["prob"],
    }


def add_windows(block: ReplaySampleStep, windows: Sequence[Window]) -> None:
    """Put windows into a plain block, one by one."""
    for window in windows:
        block.add(**stored_row(window))


def random_steps(
    generator: np.random.Generator, n_envs: int, first: int, *, ends: float = 0.2
) -> tuple[list[Step], list[bool]]:
    steps = [
        make_step(
            first + env,
            reward=generator.normal(),
            terminated=bool(generator.random() < ends / 2),
            truncated=bool(generator.random() < ends / 2),
        )
        for env in range(n_envs)
    ]
    return steps, (generator.random(n_envs) < 0.8).tolist()


# What is stored


def assert_ring_holds(backend: Backend, buffer: Any, ring: RingModel) -> None:
    assert (len(buffer), buffer.head) == (ring.size, ring.head)
    stored = {name: backend.numpy(buffer.column(name)) for name in STORED}
    for slot, window in enumerate(ring.rows()):
        if window is None:
            continue
        for name, value in stored_row(window).items():
            right = np.asarray(value, stored[name].dtype)
            assert stored[name][slot].tobytes() == right.tobytes(), (slot, name)


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize(
    ("n", "n_envs", "cap"), [(1, 1, 5), (3, 1, 8), (3, 4, 50), (4, 3, 7), (5, 5, 4), (2, 6, 11)]
)
def test_the_ring_holds_the_windows_that_single_adds_would_leave(
    n: int, n_envs: int, cap: int, prioritized: bool, backend: Backend
) -> None:
    block = make_block(backend, n, n_envs=n_envs, cap=cap, prioritized=prioritized)
    block.setup(0)
    recording, ring = Recording(n, GAMMA, n_envs), RingModel(cap)
    generator = np.random.default_rng(n * n_envs)
    most = 0
    for number in range(18):
        steps, mask = random_steps(generator, n_envs, number * n_envs)
        if number % 6 == 5:  # every episode ends at once: as many windows as there can be
            steps = [make_step(number * n_envs + env, truncated=True) for env in range(n_envs)]
            mask = [True] * n_envs
        if number == 8:
            which = np.arange(n_envs) % 2 == 0
            block.reset(which)
            recording.reset(np.flatnonzero(which).tolist())
        recording.append({env: step for env, step in enumerate(steps) if mask[env]})
        block.add_batch(**columns_of(steps), mask=mask)
        windows = recording.windows_of(number)
        most = max(most, len(windows))
        for window in windows:
            ring.add(window)
        assert_ring_holds(backend, block.buffer, ring)
        assert block.count() == ring.size
        assert backend.numpy(block.nstep.pending).tolist() == recording.pending()
    block.buffer.check()
    assert ring.total > cap or cap == 50
    if (n_envs, cap) in ((3, 7), (5, 4)):
        assert most > cap


def test_single_adds_store_what_batches_of_one_do(backend: Backend) -> None:
    single, batches = (make_block(backend) for _ in range(2))
    ring, recording = RingModel(20), Recording(3, GAMMA, 1)
    for block in (single, batches):
        block.setup(0)
    for number in range(14):
        step = make_step(number, terminated=number == 4, truncated=number == 9)
        recording.append([step])
        add(single, step)
        batches.add_batch(**columns_of([step]))
        for window in recording.windows_of(number):
            ring.add(window)
        for block in (single, batches):
            assert_ring_holds(backend, block.buffer, ring)
    assert single.count() == 12


def test_pinned_windows_stay(backend: Backend) -> None:
    block = make_block(backend, n=3, n_envs=2, cap=12, batch=4)
    block.setup(0)
    recording, ring = Recording(3, GAMMA, 2), RingModel(12)
    for number in range(14):
        if number == 3:
            assert block.count() == 6
            block.pin_demo_prefix(6)
            ring.pin_demo_prefix(6)
        steps = [make_step(2 * number + env, truncated=number in (2, 9)) for env in range(2)]
        recording.append(steps)
        block.add_batch(**columns_of(steps))
        for window in recording.windows_of(number):
            ring.add(window)
        assert_ring_holds(backend, block.buffer, ring)
    assert block.demo_count() == 6
    batch = block.step(0)
    drawn = backend.numpy(batch.indices)
    assert (drawn[:2] < 6).all()
    assert (drawn[2:] >= 6).all()


def test_pending_steps_are_not_counted(backend: Backend) -> None:
    block = make_block(backend, n=3)
    block.setup(0)
    counts = []
    for number in range(4):
        add(block, make_step(number, terminated=number == 3))
        counts.append(block.count())
    assert counts == [0, 0, 1, 4]
    with refused(backend, block.buffer, errors.ConfigurationError, "3"):
        block.pin_demo_prefix(3)


def test_a_buffer_without_a_truncated_column_needs_the_flag_as_well(backend: Backend) -> None:
    block = make_block(backend, extra_columns={"discount": ()})
    block.setup(0)
    for number in range(2):
        block.add([0, 0], 0, 1.0, [0, 0], False, number == 1)
    assert block.count() == 2
    column = backend.numpy(block.buffer.column("discount"))[:2]
    assert column.tolist() == [np.float32(0.9 * 0.9), np.float32(0.9)]


def test_codes_of_pixels_come_back_as_they_went_in(backend: Backend) -> None:
    buffer = backend.buffer((4,), (), 10, False, "uint8", extra_columns={"discount": ()})
    block = NStepSampleStep(ReplaySampleStep(buffer, 2), 2, 0.5)
    block.setup(0)
    frames = np.arange(24, dtype=np.float32).reshape(6, 4) / np.float32(255)
    for number in range(5):
        block.add(frames[number], 0, 1.0, frames[number + 1], False, number == 4)
    drawn = buffer.sample_range(40, 0, 5)
    rows = backend.numpy(drawn.indices)
    np.testing.assert_array_equal(backend.numpy(drawn.obs), frames[rows])
    np.testing.assert_array_equal(backend.numpy(drawn.next_obs), frames[np.minimum(rows + 2, 5)])


# What is drawn

POLICIES = ["uniform", "ere", "prioritized", "pinned"]


@pytest.mark.parametrize("policy", POLICIES)
def test_minibatches_are_those_of_a_block_that_was_given_the_windows(
    policy: str, backend: Backend
) -> None:
    prioritized = policy == "prioritized"
    block = make_block(backend, n=3, n_envs=3, cap=30, batch=8, prioritized=prioritized)
    plain = make_plain(backend, cap=30, batch=8, prioritized=prioritized)
    for each in (block, plain):
        if policy == "ere":
            each.configure_ere(eta=0.6, c_min=2, k_max=4)
        if prioritized:
            each.configure_per(alpha=1.0, beta=0.5, epsilon=0.0)
        each.setup(2)
    recording, generator = Recording(3, GAMMA, 3), np.random.default_rng(4)
    seen = 0
    for number in range(25):
        steps, mask = random_steps(generator, 3, 3 * number)
        recording.append({env: step for env, step in enumerate(steps) if mask[env]})
        block.add_batch(**columns_of(steps), mask=mask)
        add_windows(plain, recording.windows_of(number))
        if policy == "pinned" and number == 5:
            rows = plain.count()
            for each in (block, plain):
                each.pin_demo_prefix(rows)
        if prioritized and number == 12:
            for each in (block, plain):
                each.set_beta(1.0)
        got, right = block.step(number), plain.step(number)
        assert (got is None) == (right is None)
        if got is None or right is None:
            continue
        seen += 1
        names = [*STORED, "indices", *(["weights"] if prioritized else [])]
        for name in names:
            one, other = backend.numpy(got[name]), backend.numpy(right[name])
            assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes()), name
        if prioritized:
            errors_now = generator.integers(1, 9, 8).astype(np.float64)
            for each in (block, plain):
                each.update_priorities(backend.array(errors_now))
    assert seen > 15
    assert block.buffer.stats() == plain.buffer.stats()
    assert block.demo_count() == plain.demo_count()


def test_a_minibatch_has_the_discounts_of_its_rows(backend: Backend) -> None:
    block = make_block(backend, n=3, batch=14)
    block.setup(0)
    ends = {0: "truncated", 3: "terminated", 9: "truncated"}
    for number in range(16):
        add(block, make_step(number, **({ends[number]: True} if number in ends else {})))
    g = 0.9
    # By hand: an episode of one step, one of three that terminates, one of six, and 10 to 15.
    right = [g, 0, 0, 0, *[g * g * g] * 4, g * g, g, *[g * g * g] * 4]
    assert block.count() == 14
    batch = block.step(0)
    rows = backend.numpy(batch.indices)
    assert batch["discount"].dtype == np.float32
    assert backend.numpy(batch["discount"]).tolist() == [np.float32(right[row]) for row in rows]
    assert set(batch.extra) == {"discount", "truncated", "prob"}


def test_every_window_enters_with_the_priority_of_new_rows(backend: Backend) -> None:
    block = make_block(backend, n=3, n_envs=2, cap=9, batch=2, prioritized=True)
    block.configure_per(alpha=1.0, epsilon=0.0)
    block.setup(0)

    def leaves() -> list[float]:
        return backend.numpy(block.buffer._ops.priorities.levels()[0])[:9].tolist()

    def both(number: int, *, end: bool) -> None:
        block.add_batch(**columns_of([make_step(number, truncated=end)] * 2))

    both(0, end=False)
    block.buffer.stats()  # settles what the host puts off
    assert leaves() == [0.0] * 9
    both(1, end=True)  # an episode of two steps: two rows and two leaves for each environment
    block.buffer.stats()
    assert leaves() == [1.0] * 4 + [0.0] * 5
    batch = block.step(0)
    block.update_priorities(backend.array([5.0, 5.0]))
    rows = set(backend.numpy(batch.indices).tolist())
    assert leaves() == [5.0 if row in rows else float(row < 4) for row in range(9)]
    for number in range(2, 5):
        both(number, end=False)
    block.buffer.stats()
    assert leaves()[4:] == [5.0] * 2 + [0.0] * 3
    both(5, end=True)  # six windows more, which wrap
    block.buffer.stats()
    assert leaves()[4:] == [5.0] * 5
    assert leaves()[:3] == [5.0] * 3
    block.buffer.check()


def test_steps_into_fixed_arrays_give_the_same_arrays(backend: Backend) -> None:
    block = make_block(backend)
    block.setup(0, fixed=True)
    for number in range(12):
        add(block, make_step(number))
    first = block.step(0)
    assert block.step(1) is first


def test_learning_starts_and_a_whole_minibatch_are_waited_for(backend: Backend) -> None:
    block = make_block(backend, n=3, batch=4)
    block.setup(5)
    given = []
    for number in range(8):
        add(block, make_step(number))
        given.append(block.step(number) is not None)
    # The fourth window is complete with the sixth step.
    assert given == [False] * 5 + [True] * 3


def test_host_and_device_blocks_draw_the_same(device: Backend) -> None:
    blocks = [make_block(backend, n=4, n_envs=2) for backend in (Backend("host"), device)]
    generator = np.random.default_rng(2)
    for block in blocks:
        block.setup(0)
    for number in range(20):
        steps, mask = random_steps(generator, 2, 2 * number)
        for block in blocks:
            block.add_batch(**columns_of(steps), mask=mask)
        host, other = (block.step(number) for block in blocks)
        if host is None:
            assert other is None
            continue
        for name in (*STORED, "indices"):
            assert host[name].tobytes() == device.numpy(other[name]).tobytes()


# Refusals and order


@contextmanager
def pending_kept(
    backend: Backend, block: NStepSampleStep, error: type[errors.ReplayError], *parts: str
) -> Iterator[None]:
    """Refused, with the rows and the pending steps as they were."""
    before = {name: value.tobytes() for name, value in block.nstep.state().items()}
    with refused(backend, block.buffer, error, *parts):
        yield
    assert {name: value.tobytes() for name, value in block.nstep.state().items()} == before


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("add", lambda block: add(block, make_step(0))),
        ("add_batch", lambda block: block.add_batch(**columns_of([make_step(0)]))),
        ("step", lambda block: block.step(0)),
        ("pin_demo_prefix", lambda block: block.pin_demo_prefix(1)),
    ],
)
def test_before_setup_nothing_is_taken(
    name: str, call: Callable[[Any], Any], backend: Backend
) -> None:
    block = make_block(backend)
    with pending_kept(backend, block, errors.OrderError, f"{name} before setup"):
        call(block)


def test_after_setup_nothing_is_configured(backend: Backend) -> None:
    block, per = make_block(backend), make_block(backend, prioritized=True)
    for each in (block, per):
        each.setup(0)
        with pending_kept(backend, each, errors.OrderError, "setup was called already"):
            each.setup(0)
    with pending_kept(backend, block, errors.OrderError, "configure_ere after setup"):
        block.configure_ere()
    with pending_kept(backend, per, errors.OrderError, "configure_per after setup"):
        per.configure_per()
    per.set_beta(0.7)
    assert per.buffer.stats()["beta"] == 0.7


def test_priorities_follow_a_minibatch_of_a_prioritized_buffer(backend: Backend) -> None:
    block, per = make_block(backend), make_block(backend, prioritized=True)
    for each in (block, per):
        each.setup(0)
        with pending_kept(backend, each, errors.OrderError, "call step first"):
            each.update_priorities([1.0] * 4)
        for number in range(12):
            add(each, make_step(number))
        each.step(0)
    with pending_kept(backend, block, errors.OrderError):
        block.update_priorities([1.0] * 4)
    with pending_kept(backend, block, errors.OrderError):
        block.set_beta(0.5)
    per.update_priorities([1.0] * 4)


def test_truncated_has_to_be_given(backend: Backend) -> None:
    block = make_block(backend, n_envs=1)
    block.setup(0)
    add(block, make_step(0))
    with pending_kept(backend, block, errors.ColumnNameError, "add: truncated is missing"):
        block.add([0, 0], 0, 0.0, [0, 0], True, prob=0.0)
    given = columns_of([make_step(1)])
    del given["truncated"]
    with pending_kept(backend, block, errors.ColumnNameError, "add_batch: truncated is missing"):
        block.add_batch(**given)


def test_several_environments_are_given_to_add_batch(backend: Backend) -> None:
    block = make_block(backend, n_envs=2)
    block.setup(0)
    with pending_kept(backend, block, errors.ShapeError, "2 environments", "add_batch"):
        add(block, make_step(0))
    with pending_kept(backend, block, errors.ShapeError, "3 rows", "2 environments"):
        block.add_batch(**columns_of([make_step(0)] * 3))


@pytest.mark.parametrize(
    ("changed", "error", "part"),
    [
        ({"reward": [0.0]}, errors.ShapeError, "reward"),
        ({"obs": np.zeros((2, 3), np.float32)}, errors.ShapeError, "obs"),
        ({"action": [0.5, 0.5]}, errors.DTypeError, "action"),
        ({"prob": ...}, errors.ColumnNameError, "prob"),
        ({"other": [0.0, 0.0]}, errors.ColumnNameError, "other"),
        ({"discount": [0.0, 0.0]}, errors.ColumnNameError, "discount"),
        ({"mask": [True]}, errors.ShapeError, "mask"),
    ],
)
def test_a_refused_step_changes_nothing(
    changed: dict[str, Any], error: type[errors.ReplayError], part: str, backend: Backend
) -> None:
    block = make_block(backend, n_envs=2)
    block.setup(0)
    block.add_batch(**columns_of([make_step(0)] * 2))
    given = columns_of([make_step(1, terminated=True)] * 2) | changed
    given = {name: value for name, value in given.items() if value is not ...}
    with pending_kept(backend, block, error, part):
        block.add_batch(**given)


@pytest.mark.parametrize("name", ["obs", "next_obs"])
def test_a_host_step_that_its_buffer_cannot_hold_is_refused_at_once(name: str) -> None:
    host = Backend("host")
    buffer = host.buffer((2,), (), 10, False, "uint8", extra_columns={"discount": ()})
    block = NStepSampleStep(ReplaySampleStep(buffer, 2), 3, 0.9)
    block.setup(0)
    good = {
        "obs": [0, 1], "action": 0, "reward": 1.0, "next_obs": [1, 0], "terminated": False,
        "truncated": False,
    }  # fmt: skip
    block.add(**good)
    with pending_kept(host, block, errors.ColumnValueError, name):
        block.add(**(good | {name: [0, 1.5]}))
    for end in (False, True):
        block.add(**(good | {"truncated": end}))
    assert block.count() == 3


@pytest.mark.parametrize(
    "extra",
    [
        {}, {"discount": "float64"}, {"discount": "int32"}, {"discount": (1,)}, {"discount": 1},
        {"gamma": ()},
    ],
)  # fmt: skip
def test_a_buffer_needs_a_discount_of_one_float32(extra: dict[str, Any], backend: Backend) -> None:
    with pytest.raises(errors.ConfigurationError, match="discount"):
        make_block(backend, extra_columns=extra)


@pytest.mark.parametrize("value", [0, 1.5, None])
def test_a_block_refuses_what_its_n_step_buffer_does(value: Any, backend: Backend) -> None:
    with pytest.raises(errors.ConfigurationError, match="n="):
        NStepSampleStep(make_plain(backend), value, 0.9)
    with pytest.raises(errors.ConfigurationError, match="n_envs="):
        NStepSampleStep(make_plain(backend), 2, 0.9, n_envs=value)
    with pytest.raises(errors.ConfigurationError, match="gamma="):
        NStepSampleStep(make_plain(backend), 2, -1.0 if value == 0 else value)
    with pytest.raises(errors.ConfigurationError, match="valid"):
        make_block(backend, extra_columns={"discount": (), "valid": "bool"})


def test_a_block_stands_in_front_of_a_plain_block_alone(backend: Backend) -> None:
    plain = make_plain(backend)
    block = NStepSampleStep(plain, 2, 0.9)
    assert block.block is plain
    assert block.buffer is plain.buffer
    for other in (plain.buffer, block, None):
        with pytest.raises(errors.ConfigurationError, match=type(other).__name__):
            NStepSampleStep(other, 2, 0.9)


def test_a_reset_reaches_the_pending_steps_and_no_row(backend: Backend) -> None:
    block = make_block(backend, n=3, n_envs=2)
    block.setup(0)
    for number in range(4):
        block.add_batch(**columns_of([make_step(number)] * 2))
    assert block.count() == 4
    block.reset([True, False])
    assert backend.numpy(block.nstep.pending).tolist() == [0, 2]
    block.reset()
    assert backend.numpy(block.nstep.pending).tolist() == [0, 0]
    assert block.count() == 4


# Aliases


def test_the_older_names_are_the_very_same_objects() -> None:
    for name in (
        "UniformSampleCpuStep", "PerSampleCpuStep", "UniformSampleGpuStep", "PerSampleGpuStep",
    ):  # fmt: skip
        assert getattr(block_aliases, name) is getattr(cpreplay, f"Store{name}")
        assert name in block_aliases.__all__


ALIASES = [f"NStep{policy}Sample" for policy in ("Uniform", "Per")]


@pytest.mark.parametrize("alias", ALIASES)
def test_an_n_step_alias_makes_the_block_that_it_names(alias: str, backend: Backend) -> None:
    name = f"{alias}{'Gpu' if backend.is_device else 'Cpu'}Step"
    assert name in block_aliases.__all__
    block = getattr(block_aliases, name)(
        (2,), 1, 4, 20, 3, 0.5, n_envs=2, seed=7, obs_store_dtype="uint8",
        extra_columns={"prob": (), "truncated": bool},
    )  # fmt: skip
    assert type(block) is NStepSampleStep
    kinds = (cpreplay.StoreReplayGpu, cpreplay.GPUNStepBuffer)
    if not backend.is_device:
        kinds = (cpreplay.StoreReplay, cpreplay.NStepBuffer)
    assert (type(block.buffer), type(block.nstep)) == kinds
    assert block.buffer.prioritized is ("Per" in alias)
    assert (block.nstep.n, block.nstep.gamma, block.nstep.n_envs) == (3, 0.5, 2)
    assert (block.block.batch_size, block.buffer.capacity, block.buffer.seed) == (4, 20, 7)
    columns = {column.name: column for column in block.buffer.columns}
    assert columns["obs"].quantized
    assert set(columns) - {"obs", "action", "reward", "next_obs", "terminated"} == {
        "discount", "prob", "truncated",
    }  # fmt: skip
    assert (columns["discount"].shape, columns["discount"].dtype) == ((), np.dtype("float32"))
    block.setup(0)
    for number in range(4):
        block.add_batch(
            np.zeros((2, 2)), np.zeros((2, 1)), [1, 1], np.ones((2, 2)), [False] * 2,
            [number == 3] * 2, prob=[0, 1],
        )  # fmt: skip
    assert block.count() == 8
    assert len(block.step(0)) == 4
    assert set(backend.numpy(block.buffer.column("discount"))[:8].tolist()) == {0.125, 0.25, 0.5}


@pytest.mark.parametrize("alias", ALIASES)
def test_an_n_step_alias_needs_no_options(alias: str, backend: Backend) -> None:
    make = getattr(block_aliases, f"{alias}{'Gpu' if backend.is_device else 'Cpu'}Step")
    block = make(obs=3, act=(), batch=2, cap=10, n=2, gamma=0.9)
    block.setup(0)
    for number in range(3):
        block.add([0, 0, 0], 0, 1.0, [0, 0, 0], False, number == 2)
    assert block.count() == 3
    assert block.step(0)["discount"].shape == (2,)


@pytest.mark.parametrize("alias", ALIASES)
def test_an_n_step_alias_passes_a_refusal_on(alias: str) -> None:
    make = getattr(block_aliases, f"{alias}CpuStep")
    with pytest.raises(errors.ConfigurationError, match="capacity=0"):
        make(3, 2, 4, 0, 3, 0.9)
    with pytest.raises(errors.ConfigurationError, match="gamma=2"):
        make(3, 2, 4, 20, 3, 2)
    with pytest.raises(errors.ConfigurationError, match="discount"):
        make(3, 2, 4, 20, 3, 0.9, extra_columns={"discount": "float64"})
    with pytest.raises(TypeError, match="no_such_option"):
        make(3, 2, 4, 20, 3, 0.9, no_such_option=1)


def test_the_n_step_aliases_are_called_alike() -> None:
    signatures = [
        inspect.signature(getattr(block_aliases, f"{alias}{place}Step"))
        for alias in ALIASES
        for place in ("Cpu", "Gpu")
    ]
    assert all(signature == signatures[0] for signature in signatures)
    assert list(signatures[0].parameters) == [
        "obs", "act", "batch", "cap", "n", "gamma", "n_envs", "options",
    ]  # fmt: skip
    assert signatures[0].parameters["n_envs"].kind is inspect.Parameter.KEYWORD_ONLY


def test_an_alias_leaves_the_callers_options_alone() -> None:
    columns = {"prob": ()}
    block_aliases.NStepUniformSampleCpuStep(3, 2, 4, 20, 3, 0.9, extra_columns=columns)
    assert columns == {"prob": ()}


def test_threads_with_an_environment_each_lose_no_window() -> None:
    steps, environments = 300, 4
    block = make_block(Backend("host"), 3, n_envs=environments, cap=10_000)
    block.setup(0)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def act(environment: int) -> None:
        mask = np.arange(environments) == environment
        obs, zeros = np.full((environments, 2), float(environment)), np.zeros(environments)
        flags, whole = np.zeros(environments, bool), np.zeros(environments, int)
        for step in range(steps):
            last = np.full(environments, step == steps - 1)
            block.add_batch(obs, whole, zeros, obs, flags, last, mask=mask, prob=zeros)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(environments)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert block.count() == steps * environments
    whose = block.buffer.column("obs")[: block.count(), 0]
    assert np.bincount(whose.astype(int)).tolist() == [steps] * environments


def test_columns_that_are_no_mapping_are_refused_by_the_buffer() -> None:
    with pytest.raises(errors.ConfigurationError, match="extra_columns"):
        block_aliases.NStepUniformSampleCpuStep(2, (), 4, 20, 3, 0.9, extra_columns=["discount"])


@pytest.mark.parametrize("truncated", [(), ((2,), bool), "uint8", ((1,), bool)])
def test_a_truncated_column_has_to_be_one_bool(truncated: Any, backend: Backend) -> None:
    extra = {"discount": (), "truncated": truncated}
    buffer = backend.buffer(1, (), 20, extra_columns=extra)
    with pytest.raises(ConfigurationError, match="truncated"):
        NStepSampleStep(ReplaySampleStep(buffer, 2), 3, 0.9)


@pytest.mark.parametrize("enable", [True, False])
def test_ere_is_turned_on_and_off_behind_a_block(enable: bool, backend: Backend) -> None:
    buffer = backend.buffer(1, (), 20, extra_columns={"discount": ()})
    block = NStepSampleStep(ReplaySampleStep(buffer, 2), 3, 0.9)
    block.configure_ere()
    block.configure_ere(enable)
    assert buffer.stats()["ere"] is enable


def test_columns_of_any_kind_go_through_a_block(backend: Backend) -> None:
    buffer = backend.buffer(
        (2,), (), 20, obs_dtype="float64", action_dtype="int64",
        extra_columns={"before": ((3,), "int16"), "discount": (), "after": "float64"},
    )  # fmt: skip
    block = NStepSampleStep(ReplaySampleStep(buffer, 2), 3, 0.5)
    block.setup(0)
    third = 1 / 3  # which float32 does not have
    block.add(
        [third, 2.0], 2**40, 1.0, [3.0, third], terminated=True, truncated=False,
        before=np.array([1, -2, 300], np.int16), after=np.float64(third),
    )  # fmt: skip
    rows = {
        name: backend.numpy(buffer.column(name))[0].tolist()
        for name in ("obs", "action", "next_obs", "before", "discount", "after")
    }
    assert rows == {
        "obs": [third, 2.0], "action": 2**40, "next_obs": [3.0, third],
        "before": [1, -2, 300], "discount": 0.0, "after": third,
    }  # fmt: skip


def test_a_block_has_the_batch_size_of_the_one_behind_it(backend: Backend) -> None:
    buffer = backend.buffer(1, (), 20, extra_columns={"discount": ()})
    assert NStepSampleStep(ReplaySampleStep(buffer, 7), 3, 0.9).batch_size == 7


def test_one_step_and_its_windows_are_taken_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = Backend("host").buffer((), (), 20, extra_columns={"discount": ()})
    block = NStepSampleStep(ReplaySampleStep(buffer, 2), 3, 0.9)
    block.setup(0)
    begun, go_on = threading.Event(), threading.Event()
    plain = nstep_steps.store_windows

    def slow(*args: Any) -> None:
        begun.set()
        assert go_on.wait(10)
        plain(*args)

    def step() -> None:
        block.add(0.0, 0.0, 1.0, 1.0, False, False)

    monkeypatch.setattr(nstep_steps, "store_windows", slow)
    threads = [threading.Thread(target=step) for _ in range(2)]
    threads[0].start()
    assert begun.wait(10)
    threads[1].start()
    threads[1].join(0.1)
    assert block.nstep.pending.tolist() == [1]  # the second step waits for the first one's windows
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert block.nstep.pending.tolist() == [2]


def test_an_alias_without_columns_of_its_own_makes_the_discount(backend: Backend) -> None:
    kind = "Gpu" if backend.is_device else "Cpu"
    for policy in ("Uniform", "Per"):
        make = getattr(block_aliases, f"NStep{policy}Sample{kind}Step")
        block = make(1, (), 2, 20, 3, 0.5, extra_columns=None)
        assert block.nstep.n == 3
        assert [column.name for column in block.buffer.columns][5:] == ["discount"]


def test_a_device_mask_without_an_axis_is_captured(device: Backend) -> None:
    block = make_block(device, 2)
    block.setup(0)
    zero, mask = device.array(0.0, np.float32), device.array(True)
    obs, action, flag = (
        device.array([0.0, 0.0], np.float32), device.array(0, np.int64), device.array(False),
    )  # fmt: skip
    device.cupy.cuda.Device().synchronize()
    with device.cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        block.nstep.append(obs, action, zero, obs, flag, flag, mask=mask, prob=zero)
        graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
    assert device.numpy(block.nstep.pending).tolist() == [1]
