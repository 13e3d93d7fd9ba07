"""A run that was saved and taken up goes on as the one that never stopped, byte for byte."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import CheckpointError, ConfigurationError, OrderError
from tests.conftest import Backend
from tests.strategies import numbered_rows
from tests.test_capture import capture, on_device, replay
from tests.training import (
    EXTRA,
    LANES,
    SAVED_AFTER,
    Form,
    NStepTraining,
    Training,
    assert_same_steps,
)

# What is compared after a resume: the emulated device takes some milliseconds for a minibatch.
ON_THE_HOST, ON_A_DEVICE = 1000, 25

FILLED = {"part full": 45, "exactly full": 64, "wrapped": 150}

FORMS = {
    **{
        f"{policy}, {filled}": Form(policy=policy, rows=rows)
        for policy in ("uniform", "ere", "prioritized", "demos")
        for filled, rows in FILLED.items()
    },
    "ranges": Form(ranges=True),
    "ranges of a prioritized buffer, wrapped": Form(policy="prioritized", rows=150, ranges=True),
    "ere with ranges, wrapped": Form(policy="ere", rows=150, ranges=True),
    "codes": Form(rows=150, of_pixels=True, options={"obs_store_dtype": "uint8"}),
    "frames": Form(rows=150, obs_shape=(4, 10, 10), options={"obs_dtype": "uint8"}),
    "prioritized frames": Form(
        policy="prioritized", rows=64, obs_shape=(4, 10, 10), options={"obs_dtype": "uint8"}
    ),
    "extra columns": Form(rows=150, options={"extra_columns": EXTRA, "action_dtype": "int32"}),
    "one row of capacity": Form(rows=150, capacity=1),
}

HOST = Backend("host")


def minibatches(backend: Backend) -> int:
    return ON_A_DEVICE if backend.is_device else ON_THE_HOST


def used(backend: Backend, form: Form, **options: Any) -> Training:
    """A buffer of that form which has been through something else."""
    run = Training(backend, form, **options)
    buffer = run.buffer
    run.add(77, 90 if form.rows < 64 else 20)
    if form.policy == "prioritized":
        buffer.set_beta(0.9)
        batch = buffer.sample(33)
        buffer.update_priorities(batch, np.linspace(-100, 100, 33, dtype=np.float32))
        run.add(78, 3)
    elif form.policy != "ere":
        buffer.configure_ere(True, 0.5, 2, 9)
    elif len(buffer) < form.capacity:
        buffer.pin_demo_prefix(len(buffer), batch_size=1)
    for _ in range(3):
        buffer.sample(1)
    return run


def taken_up(
    backend: Backend, run: Training, path: Path, new: Callable[[], dict[str, Any]] = dict
) -> dict[str, Training]:
    """What a run was saved as, taken up in every way that there is."""
    run.buffer.save(path)
    form = run.form
    resumed, restored = used(backend, form, **new()), used(backend, form, **new())
    resumed.buffer.resume(path)
    restored.buffer.restore(run.buffer.state())
    loaded = Training(backend, form, **new())
    loaded.buffer = type(run.buffer).load(path, **new())
    for other in (resumed, restored, loaded):
        other.buffer.check()
    return {"resumed": resumed, "restored": restored, "loaded": loaded}


# The matrix


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_next_minibatches_are_those_of_the_run_that_never_stopped(
    backend: Backend, form: Form, tmp_path: Path
) -> None:
    """With the generator that each back end has by default."""
    default = {} if backend.is_device else {"rng": None}
    run = Training.begun(backend, form, seed=11, **default)
    if form.policy == "ere":
        assert run.buffer._ops.control()["k"] > 0  # saved inside a window
    others = taken_up(backend, run, tmp_path / "saved", lambda: default)
    assert {other.buffer.seed for other in others.values()} == {11}
    others["never saved"] = Training.begun(backend, form, seed=11, **default)
    assert_same_steps(run, others, SAVED_AFTER, minibatches(backend))
    if form.policy == "prioritized" and form.rows == 150:
        assert run.buffer.stats()["stale_updates"] > minibatches(backend) // 50


@pytest.mark.parametrize("policy", ["uniform", "ere", "prioritized", "demos"])
def test_numbered_draws_of_the_host_go_on_where_they_were(policy: str, tmp_path: Path) -> None:
    run = Training.begun(HOST, Form(policy=policy, rows=150), rng="philox", seed=11)
    others = taken_up(HOST, run, tmp_path / "saved", lambda: {"rng": "philox"})
    assert_same_steps(run, others, SAVED_AFTER, 300)


GENERATORS: dict[str, Callable[[int], np.random.BitGenerator]] = {
    "PCG64": np.random.PCG64,
    "PCG64DXSM": np.random.PCG64DXSM,
    "SFC64": np.random.SFC64,
    "Philox": np.random.Philox,
    "MT19937": np.random.MT19937,
}


@pytest.mark.parametrize("policy", ["uniform", "prioritized"])
@pytest.mark.parametrize("name", GENERATORS)
def test_a_callers_generator_goes_on_where_it_was(name: str, policy: str, tmp_path: Path) -> None:
    def new(seed: int = 3) -> dict[str, Any]:
        return {"rng": np.random.Generator(GENERATORS[name](seed))}

    form = Form(policy=policy, rows=150)
    rng = new(1)["rng"]
    # An odd number: every generator but MT19937 keeps half a word, which that one has no need of.
    rng.integers(0, 2**32, 3, np.uint32)
    run = Training.begun(HOST, form, rng=rng)
    others = taken_up(HOST, run, tmp_path / "saved", new)
    assert_same_steps(run, others, SAVED_AFTER, ON_THE_HOST)
    expected = rng.integers(0, 2**32, 3, np.uint32)  # the caller's own draws too
    for other in others.values():
        mine = np.random.Generator(other.buffer._ops._words._bits).integers(0, 2**32, 3, np.uint32)
        np.testing.assert_array_equal(mine, expected)


def test_loading_gives_a_buffer_the_generator_that_was_saved(tmp_path: Path) -> None:
    for name, make in GENERATORS.items():
        run = Training.begun(HOST, Form(), rng=np.random.Generator(make(1)))
        run.buffer.save(tmp_path / name)
        other = Training(HOST, Form())
        other.buffer = cpreplay.StoreReplay.load(tmp_path / name)
        assert_same_steps(run, {name: other}, SAVED_AFTER, 20)


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize(
    ("policy", "capacity"),
    [("uniform", 400), ("uniform", 40), ("ere", 40), ("prioritized", 40), ("demos", 60)],
)
def test_pending_steps_are_part_of_what_a_block_saves(
    backend: Backend, policy: str, n_envs: int, capacity: int, tmp_path: Path
) -> None:
    form = Form(policy=policy, capacity=capacity)
    default: dict[str, Any] = {} if backend.is_device else {"rng": None}
    seen = set()
    for steps in (26, 27) if backend.is_device else (25, 26, 27, 28):  # a window holds three steps
        run = NStepTraining.begun_until(steps, backend, form, n_envs=n_envs, seed=2, **default)
        seen.update(run.pending().tolist())
        path = tmp_path / str(steps)
        run.block.save(path)
        fresh = NStepTraining(backend, form, n_envs=n_envs, **default)
        fresh.block.resume(path)  # before setup
        fresh.set_up()
        other = form if policy == "prioritized" else Form(capacity=capacity)
        used = NStepTraining.begun_until(13, backend, other, n_envs=n_envs, **default)
        used.block.resume(path)
        used.form = form
        np.testing.assert_array_equal(fresh.pending(), run.pending())
        count = minibatches(backend) if steps == 27 else 6
        assert_same_steps(run, {"fresh": fresh, "used": used}, steps, count)
        np.testing.assert_array_equal(used.pending(), run.pending())
    assert seen & {1, 2}  # saved between the steps of windows
    assert backend.is_device or {1, 2} <= seen


def test_a_ring_of_n_step_transitions_may_be_exactly_full(backend: Backend, tmp_path: Path) -> None:
    """A capacity that is what a run stored by the time it was saved."""
    held = NStepTraining.begun_until(25, HOST, Form(capacity=400), n_envs=2).block.count()
    form = Form(capacity=held)
    run = NStepTraining.begun_until(25, backend, form, n_envs=2, seed=2)
    assert run.buffer.stats()["total"] == held == run.buffer.capacity
    run.block.save(tmp_path / "saved")
    other = NStepTraining(backend, form, n_envs=2)
    other.set_up()
    other.block.resume(tmp_path / "saved")
    assert_same_steps(run, {"resumed": other}, 25, ON_A_DEVICE)


def test_plain_blocks_save_and_resume(backend: Backend, tmp_path: Path) -> None:
    def block() -> cpreplay.ReplaySampleStep:
        block = cpreplay.ReplaySampleStep(backend.buffer(3, 2, 20, seed=4), 4)
        block.setup(learning_starts=0, fixed=True)
        return block

    first, second = block(), block()
    first.add_batch(**numbered_rows(0, 27))
    second.add_batch(**numbered_rows(90, 3))
    for step in range(5):
        first.step(step)
    first.save(tmp_path / "now")
    assert first.save_in_background(tmp_path / "soon").result() == tmp_path / "soon"
    second.resume(tmp_path / "soon")
    for step in range(20):
        for each in (first, second):
            each.add_batch(**numbered_rows(step, 2))
        mine, other = first.step(step), second.step(step)
        for name in ("indices", "obs"):
            np.testing.assert_array_equal(backend.numpy(mine[name]), backend.numpy(other[name]))


# From one back end to the other


@pytest.mark.parametrize("policy", ["uniform", "ere", "prioritized", "demos"])
def test_host_and_device_go_on_with_each_others_files(
    device: Backend, policy: str, tmp_path: Path
) -> None:
    form = Form(policy=policy, rows=150)
    path = tmp_path / "saved"
    for first, second in ((HOST, device), (device, HOST)):
        run = Training.begun(first, form, seed=21)
        others = {"same": Training(first, form), "other": used(second, form)}
        run.buffer.save(path)
        for other in others.values():
            other.buffer.resume(path)
        others["loaded"] = Training(second, form)
        others["loaded"].buffer = type(others["other"].buffer).load(path)
        assert others["loaded"].buffer.seed == 21
        assert_same_steps(run, others, SAVED_AFTER, ON_A_DEVICE)


def test_host_and_device_blocks_go_on_with_each_others_files(
    device: Backend, tmp_path: Path
) -> None:
    form = Form(policy="prioritized", capacity=40)
    path = tmp_path / "saved"
    for first, second in ((HOST, device), (device, HOST)):
        run = NStepTraining.begun_until(26, first, form, n_envs=3, seed=21)
        run.block.save(path)
        other = NStepTraining.begun_until(5, second, form, n_envs=3)
        other.block.resume(path)
        assert_same_steps(run, {"other": other}, 26, ON_A_DEVICE)


def test_a_pcg64_file_goes_to_a_device_with_a_seed_alone(device: Backend, tmp_path: Path) -> None:
    path = tmp_path / "saved"
    form = Form(rows=150)
    run = Training.begun(HOST, form, rng=None, seed=5)
    run.buffer.save(path)
    target = used(device, form, seed=1)
    before = target.buffer.state()
    with pytest.raises(CheckpointError, match=r"PCG64.*seed="):
        target.buffer.resume(path)
    assert_same_state(target.buffer.state(), before)
    with pytest.raises(CheckpointError, match=r"PCG64.*seed="):
        cpreplay.StoreReplayGpu.load(path)
    target.buffer.resume(path, seed=8)
    loaded = Training(device, form)
    loaded.buffer = cpreplay.StoreReplayGpu.load(path, seed=8)
    numbered = Training(HOST, form)
    numbered.buffer = cpreplay.StoreReplay.load(path, seed=8, rng="philox")
    assert target.buffer.seed == loaded.buffer.seed == numbered.buffer.seed == 8
    np.testing.assert_array_equal(
        device.numpy(target.buffer.column("obs")), run.buffer.column("obs")
    )
    assert_same_steps(target, {"loaded": loaded, "host": numbered}, SAVED_AFTER, 50)


def test_a_seed_begins_another_stream(backend: Backend, tmp_path: Path) -> None:
    path = tmp_path / "saved"
    run = Training.begun(backend, Form(), seed=5)
    run.buffer.save(path)
    others = [used(backend, Form()) for _ in range(3)]
    for other, seed in zip(others, (5, 6, 6), strict=True):
        other.buffer.resume(path, seed=seed)
        assert other.buffer.seed == seed
    drawn = [run.step(SAVED_AFTER), *(other.step(SAVED_AFTER) for other in others)]
    assert drawn[0] == drawn[1] and drawn[2] == drawn[3] != drawn[0]
    with pytest.raises(ConfigurationError, match="seed=-1"):
        run.buffer.resume(path, seed=-1)


# Draw tokens


def test_a_batch_drawn_before_a_resume_has_lost_its_claim(backend: Backend, tmp_path: Path) -> None:
    path = tmp_path / "saved"
    buffer = Training.begun(backend, Form(policy="prioritized"), seed=5).buffer
    buffer.save(path)
    errors = np.ones(LANES, np.float32)
    for _ in range(2):  # also between two resumes
        drawn, made = buffer.sample(LANES), buffer.make_batch(LANES)
        made.indices[...] = drawn.indices  # of a batch never filled they are of any value
        buffer.resume(path)  # the very rows that were drawn
        before = buffer.state()
        for batch in (drawn, made):
            if backend.is_device:
                counted = buffer.stats()["stale_updates"]
                buffer.update_priorities(batch, errors)
                assert buffer.stats()["stale_updates"] == counted + LANES
                np.testing.assert_array_equal(buffer.state()["leaves"], before["leaves"])
            else:
                with pytest.raises(ConfigurationError, match="not drawn from this buffer"):
                    buffer.update_priorities(batch, errors)
                assert_same_state(buffer.state(), before)
        buffer.sample(LANES, out=drawn)
        buffer.update_priorities(drawn, errors)
        assert (buffer.state()["leaves"] != before["leaves"]).any()


def test_a_block_wants_a_step_before_the_next_update(backend: Backend, tmp_path: Path) -> None:
    path = tmp_path / "saved"
    errors = np.ones(LANES, np.float32)
    plain = cpreplay.ReplaySampleStep(backend.buffer(3, 2, 20, True), LANES)
    plain.setup(learning_starts=0)
    plain.add_batch(**numbered_rows(0, 12))
    n_step = NStepTraining.begun_until(9, backend, Form(policy="prioritized"), n_envs=2)
    for block in (plain, n_step.block):
        block.save(path)
        assert block.step(0) is not None
        block.update_priorities(errors)
        block.step(1)
        block.resume(path)
        with pytest.raises(OrderError, match="call step first"):
            block.update_priorities(errors)
        block.step(2)
        block.update_priorities(errors)


# Graphs


@pytest.mark.parametrize("policy", ["uniform", "ere", "prioritized", "demos"])
def test_graphs_and_batches_stay_good(device: Backend, policy: str, tmp_path: Path) -> None:
    path = tmp_path / "saved"
    form = Form(policy=policy, rows=150)
    run = Training.begun(device, form, seed=5)
    run.buffer.save(path)
    other = used(device, form)
    buffer = other.buffer
    rows = on_device(device, run.transitions(1, 3))
    batch = buffer.make_batch(LANES)
    errors = device.array(np.linspace(-2, 2, LANES, dtype=np.float32))

    def work() -> None:
        buffer.add_batch(**rows)
        buffer.sample(LANES, out=batch)
        if policy == "prioritized":
            buffer.update_priorities(batch, errors)

    graph, stream = capture(device, work)
    buffer.resume(path)
    for step in range(ON_A_DEVICE):
        for name, column in run.transitions(step, 3).items():
            rows[name][...] = device.array(column)
        run.buffer.add_batch(**rows)
        expected = run.buffer.sample(LANES)
        if policy == "prioritized":
            run.buffer.update_priorities(expected, errors)
        device.cupy.cuda.Device().synchronize()
        replay(graph, stream)
        assert other.bytes_of(batch) == run.bytes_of(expected), step
    assert buffer.stats() == run.buffer.stats()
    buffer.check()


def test_rows_that_a_graph_adds_after_a_resume_are_counted(device: Backend, tmp_path: Path) -> None:
    buffer = device.buffer(3, 2, 50, seed=9)
    buffer.add_batch(**numbered_rows(0, 3))
    buffer.save(tmp_path / "saved")
    rows = on_device(device, numbered_rows(3, 4))
    graph, stream = capture(device, lambda: buffer.add_batch(**rows))
    buffer.resume(tmp_path / "saved")
    for replays in range(1, 4):
        replay(graph, stream)
        assert len(buffer) == 3 + 4 * replays
    buffer.sample_range(4, 0, 15)
    buffer.check()


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_capture_refuses_to_save_and_to_resume(
    device: Backend, prioritized: bool, tmp_path: Path
) -> None:
    path = tmp_path / "saved"
    buffer = device.buffer(3, 2, 50, prioritized, seed=9)
    buffer.add_batch(**numbered_rows(0, 3))
    buffer.save(path)
    state = buffer.state()
    calls = [
        lambda: buffer.save(tmp_path / "other"),
        lambda: buffer.save_in_background(tmp_path / "other"),
        lambda: buffer.resume(path),
        lambda: buffer.restore(state),
        lambda: cpreplay.StoreReplayGpu.load(path),
    ]
    for call in calls:
        device.cupy.cuda.Device().synchronize()
        stream = device.cupy.cuda.Stream(non_blocking=True)
        caught: BaseException | None = None
        with stream:
            stream.begin_capture()
            try:
                call()
            except Exception as error:
                caught = error
            stream.end_capture()
        assert isinstance(caught, cpreplay.CaptureError), repr(caught)
        assert_same_state(buffer.state(), state)
    buffer.check()
    assert not (tmp_path / "other").exists()


# A file that does not fit, or is damaged


def assert_same_state(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Two `state()` are equal to the last bit."""
    assert first["about"] == second["about"]
    assert first["state"] == second["state"]
    for name in first["rows"]:
        assert first["rows"][name].tobytes() == second["rows"][name].tobytes(), name
    assert (first["leaves"] is None) == (second["leaves"] is None)
    if first["leaves"] is not None:
        assert first["leaves"].tobytes() == second["leaves"].tobytes()


PLAIN: dict[str, Any] = {"obs_shape": 3, "action_shape": 2, "capacity": 20}

# Beside what was saved, what it is taken up in, and what the refusal says.
MISFITS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "capacity": ({}, {"capacity": 21}, ("capacity is 20 there and 21 here",)),
    "shape": ({}, {"obs_shape": (3, 1)}, ("column obs", "[3] there", "[3, 1] here", "next_obs")),
    "scalar": ({"action_shape": 1}, {"action_shape": ()}, ("column action", "[1]", "[]")),
    "dtype": ({}, {"obs_dtype": "float64"}, ("column obs", "float32[3]", "float64[3]")),
    "action dtype": ({}, {"action_dtype": "int32"}, ("column action", "float32", "int32")),
    "stored as": ({}, {"obs_store_dtype": "uint8"}, ("column obs", "stored as uint8 here")),
    "codes to floats": ({"obs_store_dtype": "uint8"}, {}, ("column obs", "stored as uint8 there")),
    "frames": ({"obs_store_dtype": "uint8"}, {"obs_dtype": "uint8"}, ("column obs", "float32[3]")),
    "more": ({}, {"extra_columns": {"extra_1": ()}}, ("column extra_1 is here alone",)),
    "fewer": ({"extra_columns": {"extra_1": ()}}, {}, ("column extra_1 is there alone",)),
    "names": (
        {"extra_columns": {"extra_1": ()}},
        {"extra_columns": {"extra_2": ()}},
        ("column extra_1 is there alone", "column extra_2 is here alone"),
    ),
    "order": (
        {"extra_columns": {"extra_1": (), "extra_2": ()}},
        {"extra_columns": {"extra_2": (), "extra_1": ()}},
        ("order", "extra_1, extra_2"),
    ),
    "priorities": ({}, {"prioritized": True}, ("prioritized is False there and True here",)),
    "none": ({"prioritized": True}, {}, ("prioritized is True there and False here",)),
    "several": ({}, {"prioritized": True, "capacity": 7}, ("capacity is", "prioritized is")),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_file_that_does_not_fit_says_which_and_changes_nothing(
    backend: Backend, name: str, tmp_path: Path
) -> None:
    there, here, parts = MISFITS[name]
    saved = backend.buffer(**{**PLAIN, **there})
    saved.save(tmp_path / "saved")
    buffer = backend.buffer(**{**PLAIN, **here}, seed=3)
    rows = numbered_rows(0, 9, action_shape=buffer.columns[1].shape)
    for column in buffer.columns:
        values = rows.get(column.name, np.zeros((9, *column.shape)))
        rows[column.name] = np.zeros((9, *column.shape), column.dtype)
        rows[column.name][...] = values.reshape(9, *column.shape) / 100
    buffer.add_batch(**rows)
    buffer.sample(4)
    before = buffer.state()
    for call in (
        lambda: buffer.resume(tmp_path / "saved"),
        lambda: buffer.restore(saved.state()),
    ):
        with pytest.raises(CheckpointError) as caught:
            call()
        for part in (*parts, "Nothing was changed"):
            assert part in str(caught.value)
        assert_same_state(buffer.state(), before)
    buffer.check()


def test_generators_that_differ_are_named_and_nothing_changes(tmp_path: Path) -> None:
    def buffer(rng: Any) -> cpreplay.StoreReplay:
        buffer = cpreplay.StoreReplay(3, 2, 20, rng=rng)
        buffer.add_batch(**numbered_rows(0, 9))
        buffer.sample(5)
        return buffer

    makers = {
        **{
            name: lambda make=make: np.random.Generator(make(0))
            for name, make in GENERATORS.items()
        },
        "philox": lambda: "philox",
    }
    for there, make_there in makers.items():
        path = tmp_path / f"from {there}"
        buffer(make_there()).save(path)
        for here, make_here in makers.items():
            mine = buffer(make_here())
            if there == here:
                mine.resume(path)
                continue
            before = mine.state()
            with pytest.raises(CheckpointError, match=f"{there}.*seed="):
                mine.resume(path)
            assert_same_state(mine.state(), before)
            mine.resume(path, seed=1)  # another stream
            mine.check()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"n": 4}, "'n': 3"),
        ({"gamma": 0.5}, "'gamma': 0.97"),
        ({"n_envs": 3}, "'n_envs': 2"),
        ({}, "pending steps"),
    ],
)
def test_blocks_refuse_pending_steps_of_another_form(
    backend: Backend, change: dict[str, Any], part: str, tmp_path: Path
) -> None:
    form = Form(capacity=40)
    saved = NStepTraining.begun_until(20, backend, form, n_envs=2)
    (saved.block if change else saved.buffer).save(tmp_path / "saved")
    other = NStepTraining(backend, form, n_envs=2)
    block = cpreplay.NStepSampleStep(
        cpreplay.ReplaySampleStep(other.buffer, LANES),
        **{"n": 3, "gamma": 0.97, "n_envs": 2} | change,
    )
    block.setup(learning_starts=0)
    other.block, other.n_envs = block, block.nstep.n_envs
    for step in range(5):
        other.add_step(step)
    before, pending = other.buffer.state(), block.nstep.state()
    with pytest.raises(CheckpointError, match=part):
        block.resume(tmp_path / "saved")
    assert_same_state(other.buffer.state(), before)
    for name, values in block.nstep.state().items():
        np.testing.assert_array_equal(values, pending[name])


def test_a_buffer_refuses_pending_steps_until_told_to_drop_them(
    backend: Backend, tmp_path: Path
) -> None:
    path = tmp_path / "saved"
    form = Form(capacity=40)
    saved = NStepTraining.begun_until(20, backend, form, n_envs=2, seed=1)
    saved.block.save(path)
    other = NStepTraining(backend, form, n_envs=2, seed=3)
    before = other.buffer.state()
    for call in (other.buffer.resume, type(other.buffer).load):
        with pytest.raises(CheckpointError, match=r"pending steps.*drop_pending=True"):
            call(path)
    assert_same_state(other.buffer.state(), before)
    other.buffer.resume(path, drop_pending=True)
    loaded = type(other.buffer).load(path, drop_pending=True)
    for buffer in (other.buffer, loaded):
        assert_same_state(buffer.state(), saved.buffer.state())
        buffer.check()


def test_a_save_that_is_being_written_keeps_a_resume_out(tmp_path: Path) -> None:
    buffer = cpreplay.StoreReplay(3, 2, 20, seed=1)
    buffer.add_batch(**numbered_rows(0, 9))
    buffer.save(tmp_path / "saved")
    moment, snapshot = buffer._begin_save(None, apart=True)
    state = {**buffer.state()}
    with pytest.raises(OrderError, match="being written"):
        buffer.resume(tmp_path / "saved")
    assert_same_state(buffer.state(), state)
    buffer._write(tmp_path / "other", moment, snapshot)
    buffer.resume(tmp_path / "other")
    assert_same_state(buffer.state(), state)
