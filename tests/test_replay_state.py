"""What a state holds is needed, and all that is needed; what no buffer gave is refused."""

import copy
import io
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import cpreplay
from cpreplay import CheckpointError, EmptyBufferError, MemoryLimitError, SampleRangeError
from cpreplay.checkpoint.container import RecordReader, written_records
from cpreplay.checkpoint.members import (
    json_member,
    member,
    members_of,
    npy_member,
    read_json,
    read_npy,
)
from cpreplay.replay_state import SAVED_FIELDS
from tests.checkpoint_files import witness
from tests.conftest import Backend
from tests.strategies import numbered_rows
from tests.test_resume import assert_same_state
from tests.training import DEMOS, LANES, SAVED_AFTER, Form, NStepTraining, Training

HOST = Backend("host")
State = dict[str, Any]


# Every item that is saved, left out in turn


POLICIES = {
    "uniform": Form(policy="uniform", rows=150),
    "ere": Form(policy="ere", rows=150),
    "prioritized": Form(policy="prioritized", rows=150),
    "demos": Form(policy="demos", rows=150),
}


def control(name: str, value: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        fields = state["state"]["control"]
        fields[name] = value(fields[name]) if callable(value) else value

    return change


def rows_lost(name: str) -> Callable[[State], None]:
    def change(state: State) -> None:
        state["rows"][name] = np.zeros_like(state["rows"][name])

    return change


def oldest_row_lost(state: State) -> None:
    state["rows"]["obs"][3] = 0


def leaves_lost(state: State) -> None:
    state["leaves"] = np.ones_like(state["leaves"])


def one_leaf_changed(state: State) -> None:
    state["leaves"][5] *= np.float32(3)


def draws_of_another_seed(state: State) -> None:
    state["state"]["seed"] = state["state"]["generator"]["seed"] = 12


def one_demo_less(state: State) -> None:
    state["state"]["control"]["demo_count"] = DEMOS - 1
    state["state"]["largest_batch"] += 1  # the room beside the prefix


# Of each policy, what is done to the state; the next minibatches are then others.
CHANGES_THE_STREAM: dict[str, dict[str, Callable[[State], None]]] = {
    "uniform": {
        "total": control("total", lambda total: total - 1),  # the head, in a ring that is full
        "draws": control("draws", 0),
        "seed": draws_of_another_seed,
        **{name: rows_lost(name) for name in ("obs", "action", "reward", "next_obs", "terminated")},
        "one row": oldest_row_lost,
        "ere_enabled": lambda state: state["state"]["control"].update(
            ere_enabled=1, c_min=2, k_max=9
        ),
    },
    "ere": {
        "total": control("total", lambda total: total - 1),
        "draws": control("draws", lambda draws: draws + 1),
        "ere_enabled": control("ere_enabled", 0),
        "c_min": control("c_min", 64),
        "k_max": control("k_max", 1000),
        "k": control("k", 0),
        "eta": control("eta", 1.0),
        "eta_power": control("eta_power", 1.0),
    },
    "prioritized": {
        "total": control("total", lambda total: total - 1),
        "draws": control("draws", 0),
        "leaves": leaves_lost,
        "one leaf": one_leaf_changed,
        "alpha": control("alpha", 0.6),
        "beta": control("beta", 0.5),
        "epsilon": control("epsilon", 1e-6),
        "max_priority": control("max_priority", 1.0),
    },
    "demos": {
        "total": control("total", lambda total: total - 1),
        "demo_count": one_demo_less,
        "one row": oldest_row_lost,
    },
}

# What decides no draw, and where its loss shows instead.
COUNTED_ALONE = ("invalid_rows", "invalid_priorities", "stale_updates")
SEEN_ELSEWHERE = {
    **dict.fromkeys(COUNTED_ALONE, "stats() reports them, and nothing reads them"),
    "largest_batch": "a larger batch is refused: see the test of its own",
    "seed of a NumPy generator": "buffer.seed alone: the generator's state is what draws",
    "draws of a NumPy generator": "stats() alone: its words do not depend on their number",
}


def test_every_field_of_the_control_block_is_accounted_for() -> None:
    """A field that is added has to be put in one of the tables."""
    seen = {name for changes in CHANGES_THE_STREAM.values() for name in changes}
    assert set(SAVED_FIELDS) - seen == set(COUNTED_ALONE)
    assert set(SAVED_FIELDS) <= seen | SEEN_ELSEWHERE.keys()


@pytest.mark.parametrize(
    ("policy", "item"),
    [(policy, item) for policy, changes in CHANGES_THE_STREAM.items() for item in changes],
)
def test_without_one_item_the_minibatches_are_others(
    backend: Backend, policy: str, item: str
) -> None:
    form = POLICIES[policy]
    run = Training.begun(backend, form, seed=11)
    state = run.buffer.state()
    whole, lacking = (Training(backend, form) for _ in range(2))
    whole.buffer.restore(state)
    lost = copy.deepcopy(state)
    CHANGES_THE_STREAM[policy][item](lost)
    lacking.buffer.restore(lost)
    lacking.buffer.check()
    count = 40 if backend.is_device else 100
    expected = [run.step(step) for step in range(SAVED_AFTER, SAVED_AFTER + count)]
    assert [whole.step(step) for step in range(SAVED_AFTER, SAVED_AFTER + count)] == expected
    seen = [lacking.step(step) for step in range(SAVED_AFTER, SAVED_AFTER + count)]
    assert seen != expected


@pytest.mark.parametrize("name", COUNTED_ALONE)
def test_counters_are_taken_up_as_they_were(backend: Backend, name: str) -> None:
    run = Training.begun(backend, POLICIES["prioritized"], seed=11)
    state = run.buffer.state()
    state["state"]["control"][name] = 7
    other = Training(backend, POLICIES["prioritized"])
    other.buffer.restore(state)
    assert other.buffer.stats()[name] == 7
    steps = range(SAVED_AFTER, SAVED_AFTER + 20)
    assert [other.step(step) for step in steps] == [run.step(step) for step in steps]


def test_the_limit_on_batches_is_taken_up(backend: Backend) -> None:
    run = Training.begun(backend, POLICIES["demos"], seed=11)
    state = run.buffer.state()
    room = run.buffer.capacity - DEMOS
    other = Training(backend, POLICIES["demos"])
    other.buffer.restore(state)
    with pytest.raises(SampleRangeError, match=f"room for {room} online rows"):
        other.buffer.sample(room + 1)
    state["state"]["largest_batch"] = None
    other.buffer.restore(state)
    other.buffer.sample(room + 1)


def test_a_numpy_generator_draws_whatever_the_seed_and_the_number_say() -> None:
    run = Training.begun(HOST, Form(), rng=None, seed=5)
    state = run.buffer.state()
    state["state"]["seed"] = 6
    state["state"]["control"]["draws"] = 0
    other = Training(HOST, Form(), rng=None)
    other.buffer.restore(state)
    assert other.buffer.seed == 6 and other.buffer.stats()["draws"] == 0
    steps = range(SAVED_AFTER, SAVED_AFTER + 200)
    assert [other.step(step) for step in steps] == [run.step(step) for step in steps]


def test_sums_are_made_again_as_they_were(backend: Backend) -> None:
    """They are not saved: a node is the sum of its children, in order, whoever makes it."""
    form = Form(policy="prioritized", rows=3000, capacity=2000)
    run = Training.begun(backend, form, seed=11)
    other = Training(backend, form)
    other.buffer.restore(run.buffer.state())
    mine, theirs = (each.buffer._ops.priorities.levels() for each in (run, other))
    assert len(mine) == 4
    for level, same in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(backend.numpy(level), backend.numpy(same))


@pytest.mark.parametrize("item", ["pending", "obs", "action", "reward", "goal"])
def test_without_one_part_of_the_pending_steps_the_rows_are_others(
    backend: Backend, item: str
) -> None:
    form = Form(capacity=200)
    run = NStepTraining.begun_until(27, backend, form, n_envs=3, seed=2)
    assert run.pending().any()
    whole, lacking = (NStepTraining(backend, form, n_envs=3) for _ in range(2))
    for other in (whole, lacking):
        other.set_up()
        other.buffer.restore(run.buffer.state())
        other.block.nstep.restore(run.block.nstep.state())
    lost = run.block.nstep.state()
    lost[item] = np.zeros_like(lost[item])
    lacking.block.nstep.restore(lost)
    steps = range(27, 67)
    expected = [run.step(step) for step in steps]
    assert [whole.step(step) for step in steps] == expected
    assert [lacking.step(step) for step in steps] != expected


# Random small states


@st.composite
def buffers(draw: st.DrawFn) -> cpreplay.StoreReplay:
    """A host buffer of a few rows after a few calls."""
    policy = draw(st.sampled_from(["uniform", "ere", "prioritized", "demos"]))
    rng = draw(st.sampled_from([None, "philox", "MT19937", "SFC64"]))
    source = (
        rng
        if rng in (None, "philox")
        else np.random.Generator(getattr(np.random, rng)(draw(st.integers(0, 9))))
    )
    capacity = draw(st.integers(2, 9))
    buffer = cpreplay.StoreReplay(
        draw(st.sampled_from([(), (3,)])),
        2,
        capacity,
        policy == "prioritized",
        obs_dtype=draw(st.sampled_from(["float32", "uint8"])),
        extra_columns={"flag": bool} if draw(st.booleans()) else None,
        rng=source,
    )
    if policy == "prioritized" and draw(st.booleans()):
        buffer.configure_per(0.5, 0.25, 0.125)
    add(buffer, draw(st.integers(0, 12 if policy != "demos" else capacity - 1)))
    if policy == "ere":
        buffer.configure_ere(True, 0.75, draw(st.integers(1, 3)), draw(st.integers(1, 5)))
    if policy == "demos" and len(buffer):
        buffer.pin_demo_prefix(len(buffer), batch_size=draw(st.sampled_from([None, 1])))
    for _ in range(draw(st.integers(0, 5))):
        add(buffer, draw(st.integers(0, 3)))
        if len(buffer):
            batch = buffer.sample(draw(st.integers(1, capacity - buffer.demo_count)))
            if policy == "prioritized":
                errors = st.floats(-1e3, 1e3)
                buffer.update_priorities(batch, [draw(errors) for _ in range(len(batch))])
    return buffer


def add(buffer: cpreplay.StoreReplay, count: int, first: int = 0) -> None:
    rows = numbered_rows(first, count, buffer.columns[0].shape, obs_dtype=buffer.columns[0].dtype)
    if "flag" in [column.name for column in buffer.columns]:
        rows["flag"] = rows["terminated"]
    buffer.add_batch(**rows)


def another(buffer: cpreplay.StoreReplay, rows: int) -> cpreplay.StoreReplay:
    """A buffer of the same form, which has been used."""
    rng = buffer._ops._words.state()["name"]
    source = {"philox": "philox", "PCG64": None}.get(
        rng, np.random.Generator(getattr(np.random, rng, np.random.PCG64)(99))
    )
    other = cpreplay.StoreReplay(
        buffer.columns[0].shape,
        2,
        buffer.capacity,
        buffer.prioritized,
        obs_dtype=buffer.columns[0].dtype,
        extra_columns={"flag": bool} if len(buffer.columns) > 5 else None,
        rng=source,
    )
    add(other, rows, first=50)
    if rows:
        other.sample(3)
    return other


def drawn_names(buffer: cpreplay.StoreReplay) -> list[str]:
    names = ["indices", *(column.name for column in buffer.columns)]
    return [*names, "weights"] if buffer.prioritized else names


def drawn(buffer: cpreplay.StoreReplay) -> list[bytes]:
    """The next minibatches, with adds and updates in between."""
    seen = []
    for step in range(6):
        add(buffer, 1 + step % 2, first=200)
        batch = buffer.sample(1)
        seen.append(b"".join(batch[name].tobytes() for name in drawn_names(buffer)))
        if buffer.prioritized:
            buffer.update_priorities(batch, [3.0 - step])
    return seen


@given(buffer=buffers(), rows=st.integers(0, 12))
@settings(max_examples=60)
def test_restore_of_a_state_is_the_identity(buffer: cpreplay.StoreReplay, rows: int) -> None:
    other = another(buffer, rows)
    state = buffer.state()
    other.restore(state)
    other.check()
    assert_same_state(other.state(), state)
    assert other.stats() | {"nbytes": 0} == buffer.stats() | {"nbytes": 0}  # scratch is in it
    buffer.restore(state)
    assert_same_state(buffer.state(), state)
    assert drawn(other) == drawn(buffer)


ODD_VALUES = [
    None, True, False, 0, -1, 1, 2, 1.0, 0.5, -0.5, math.inf, math.nan, 2**31, 2**62, 2**63 - 1,
    2**63, 2**64, 10**400, "", "x", "philox", [], [1], {}, {"a": 1}, b"x", object(),
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a state could be changed: every name in it, and every tenth of what a list holds."""
    if path:
        yield path
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for number in range(0, len(value), 1 + len(value) // 10):
            yield from places(value[number], (*path, number))


def arrays_like(values: np.ndarray) -> list[Any]:
    """Arrays that are a little, or wholly, unlike one of a state."""
    flat = values.copy().reshape(-1)
    odd = [
        values[:-1], values[1:], values[:0], values[None], values.astype("f8"), values.tolist(),
        values.astype(values.dtype.newbyteorder()), np.asarray(3), np.zeros(3, object),
        np.asfortranarray(values), values[::-1], np.repeat(values, 2, 0),
    ]  # fmt: skip
    if values.dtype == bool and len(flat):
        flat.view(np.uint8)[0] = 2
        odd.append(flat.reshape(values.shape))
    if values.dtype.kind == "f" and len(flat):
        for bad in (math.nan, math.inf, 0.0, -1.0, 1e-45):
            changed = flat.copy()
            changed[-1] = bad
            odd.append(changed.reshape(values.shape))
    return odd


@given(buffer=buffers(), rows=st.integers(0, 12), data=st.data())
@settings(max_examples=200)
def test_a_mutated_state_is_refused_or_gives_a_sound_buffer(
    buffer: cpreplay.StoreReplay, rows: int, data: st.DataObject
) -> None:
    other = another(buffer, rows)
    before = other.state()
    state = buffer.state()
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(state))))
        inner: Any = state
        for name in path[:-1]:
            inner = inner[name]
        if isinstance(inner[path[-1]], np.ndarray):
            choices = [*arrays_like(inner[path[-1]]), *ODD_VALUES]
        else:
            choices = ODD_VALUES
        choice = data.draw(st.integers(-2, len(choices) - 1))
        if choice == -2 and isinstance(inner, dict):
            del inner[path[-1]]
        elif choice == -1 and isinstance(inner, dict):
            inner[data.draw(st.sampled_from(["more", "total", 3]))] = 1
        else:
            inner[path[-1]] = choices[choice]
    try:
        other.restore(state)
    except CheckpointError:
        other.check()
        if len(other) or not rows:
            assert_same_state(other.state(), before)  # refused before anything was changed
    other.check()
    if not len(other):
        with pytest.raises(EmptyBufferError):
            other.sample(1)
        add(other, 3)
    other.sample(1)
    drawn(other)
    other.check()


# Files whose checksums are right, and whose contents are nonsense


Records = list[dict[str, bytes]]


def rewritten(
    source: Path,
    target: Path,
    change: Callable[[Records], Any] = lambda records: None,
    **header: Any,
) -> Path:
    """A file with other contents, written as the format wants it."""
    with RecordReader(source) as reader:
        about = {**reader.header, **header}
        records = [
            {name: bytes(content) for name, content in members_of(record).items()}
            for _, record in reader
        ]
    records = change(records) or records
    with written_records(target, about) as writer:
        for members in records:
            if members:
                writer.write(
                    [part for name, content in members.items() for part in member(name, content)]
                )
    return target


def state_changed(*path: str, value: Any) -> Callable[[Records], None]:
    def change(records: Records) -> None:
        state = read_json(records[0]["state.json"], "state.json")
        inner = state
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        records[0]["state.json"] = bytes(json_member("x", state)[1])

    return change


def npy(values: np.ndarray) -> bytes:
    return b"".join(bytes(part) for part in npy_member("x", values)[1:-1])


def column_changed(
    name: str, change: Callable[[np.ndarray], np.ndarray]
) -> Callable[[Records], None]:
    def changed(records: Records) -> None:
        for members in records:
            for path, content in members.items():
                if path == name or path.endswith(f"/{name}.npy"):
                    members[path] = npy(change(read_npy(content, path).copy()))

    return changed


def bool_of_two(values: np.ndarray) -> np.ndarray:
    values.view(np.uint8)[1] = 2
    return values


def with_leaf(value: float) -> Callable[[Records], None]:
    def change(values: np.ndarray) -> np.ndarray:
        values[4] = value
        return values

    return column_changed("leaves/000000000000.npy", change)


def rows_renamed(first: int) -> Callable[[Records], None]:
    def change(records: Records) -> None:
        members = records[-1]
        for name in list(members):
            moved = name.replace("rows/000000000000/", f"rows/{first:012}/")
            members[moved] = members.pop(name)

    return change


def without(*names: str) -> Callable[[Records], None]:
    def change(records: Records) -> None:
        for members in records:
            for name in list(members):
                if name in names or name.rpartition("/")[2] in names:
                    del members[name]

    return change


def split_apart(records: Records) -> Records:
    """The columns of one chunk in a record each."""
    *others, rows = records
    return [*others, *({name: content} for name, content in rows.items())]


def two_places(records: Records) -> None:
    rows = records[-1]
    rows.update({name.replace("000000000000", "000000000001"): rows[name] for name in list(rows)})


def with_ere(records: Records) -> None:
    for name, value in (("ere_enabled", 1), ("c_min", 1), ("k_max", 5)):
        state_changed("control", name, value=value)(records)


def one_row_more(records: Records) -> None:
    state_changed("control", "total", value=14)(records)
    column_changed("leaves/000000000000.npy", lambda leaves: np.append(leaves, leaves[:1]))(records)


# What is found before the buffer is touched; and what only shows when rows come, which leaves it
# empty.
NOTHING_CHANGED: dict[str, Callable[[Records], Any]] = {
    "another number of rows than the header says": one_row_more,
    "no state": without("state.json"),
    "a state behind the rows": lambda records: [*records[1:], records[0]],
    "two states": lambda records: [records[0], *records],
    "a state that is a list": lambda records: records[0].update({"state.json": b"[]"}),
    "a state that is no JSON": lambda records: records[0].update({"state.json": b"{"}),
    "an empty state": lambda records: records[0].update({"state.json": b"{}"}),
    "no control block": state_changed("control", value=None),
    "a field more": state_changed("control", "capacity", value=20),
    "total of a fraction": state_changed("control", "total", value=13.0),
    "total below 0": state_changed("control", "total", value=-1),
    "total of 2**64": state_changed("control", "total", value=2**64),
    "total that is true": state_changed("control", "total", value=True),
    "demo_count beyond the rows": state_changed("control", "demo_count", value=14),
    "demo_count below 0": state_changed("control", "demo_count", value=-1),
    "prioritized and demonstrations": state_changed("control", "demo_count", value=3),
    "prioritized and ERE": with_ere,
    "ere_enabled of 2": state_changed("control", "ere_enabled", value=2),
    "k at k_max": state_changed("control", "k", value=1),
    "eta of 0": state_changed("control", "eta", value=0.0),
    "eta above 1": state_changed("control", "eta", value=1.5),
    "eta_power below 0": state_changed("control", "eta_power", value=-0.5),
    "alpha above 1": state_changed("control", "alpha", value=1.01),
    "alpha of a text": state_changed("control", "alpha", value="0.6"),
    "beta below 0": state_changed("control", "beta", value=-0.1),
    "epsilon below 0": state_changed("control", "epsilon", value=-1e-9),
    "max_priority below 1": state_changed("control", "max_priority", value=0.5),
    "max_priority of 10**400": state_changed("control", "max_priority", value=10**400),
    "draws of 2**64": state_changed("control", "draws", value=2**64),
    "stale_updates below 0": state_changed("control", "stale_updates", value=-5),
    "seed of 2**64": state_changed("seed", value=2**64),
    "seed of none": state_changed("seed", value=None),
    "seed of another stream": state_changed("seed", value=1),
    "a generator without a name": state_changed("generator", value={}),
    "a generator that is a text": state_changed("generator", value="philox"),
    "a generator of another program": state_changed("generator", "name", value="xoshiro"),
    "a generator without a seed": state_changed("generator", "seed", value=None),
    "largest_batch without a prefix": state_changed("largest_batch", value=3),
    "no leaves": without("000000000000.npy"),
    "leaves missing": state_changed("control", "total", value=14),
    "leaves of 0": with_leaf(0.0),
    "leaves of NaN": with_leaf(math.nan),
    "leaves of infinity": with_leaf(math.inf),
    "leaves below 0": with_leaf(-1.0),
    "subnormal leaves": with_leaf(1e-40),
    "a leaf less": column_changed("leaves/000000000000.npy", lambda leaves: leaves[:-1]),
    "leaves of float64": column_changed(
        "leaves/000000000000.npy", lambda leaves: leaves.astype("f8")
    ),
    "leaves of two axes": column_changed("leaves/000000000000.npy", lambda leaves: leaves[:, None]),
    "leaves twice": lambda records: [*records[:2], *records[1:]],
}
LEFT_EMPTY: dict[str, Callable[[Records], Any]] = {
    "no rows": lambda records: records[:-1],
    "rows beyond those held": rows_renamed(1),
    "rows beyond the ring": rows_renamed(10**11),
    "rows twice": lambda records: [*records, records[-1]],
    "rows of two places in a record": two_places,
    "a chunk in several records": split_apart,
    "a column less": without("reward.npy"),
    "a column more": lambda records: records[-1].update(
        {"rows/000000000000/more.npy": npy(np.zeros(13))}
    ),
    "a column that is a scalar": column_changed("reward", lambda values: values[0]),
    "a column of another length": column_changed("action", lambda values: values[:-1]),
    "a column of another shape": column_changed("obs", lambda values: values[:, :2]),
    "a column of another dtype": column_changed("obs", lambda values: values.astype("f8")),
    "a column of another byte order": column_changed("obs", lambda values: values.astype(">f4")),
    "a boolean of 2": column_changed("terminated", bool_of_two),
    "a column that is no array": lambda records: records[-1].update(
        {"rows/000000000000/obs.npy": b"\x93NUMPY"}
    ),
}


def prioritized_buffer(backend: Backend, **options: Any) -> Any:
    buffer = backend.buffer(3, 2, 20, True, **options)
    buffer.add_batch(**numbered_rows(0, 13))
    buffer.update_priorities(buffer.sample(5), np.arange(5, dtype=np.float32))
    return buffer


@pytest.mark.parametrize("name", [*NOTHING_CHANGED, *LEFT_EMPTY])
def test_a_crafted_file_is_refused(backend: Backend, name: str, tmp_path: Path) -> None:
    prioritized_buffer(backend, seed=0).save(tmp_path / "good")
    change = {**NOTHING_CHANGED, **LEFT_EMPTY}[name]
    path = rewritten(tmp_path / "good", tmp_path / "crafted", change)
    buffer = prioritized_buffer(backend, seed=4)
    before = buffer.state()
    with pytest.raises(CheckpointError) as refused:
        buffer.resume(path)
    notes = getattr(refused.value, "__notes__", [])
    buffer.check()
    if name in NOTHING_CHANGED:
        assert_same_state(buffer.state(), before)
        assert notes == []
    else:
        assert len(buffer) == 0
        assert len(notes) == 1 and "it is empty now" in notes[0]
    with pytest.raises(CheckpointError) as refused:
        type(buffer).load(path)
    assert not hasattr(refused.value, "__notes__")  # there was no buffer that could be lost
    buffer.add_batch(**numbered_rows(0, 30))  # whatever was left, it can be used
    buffer.update_priorities(buffer.sample(5), np.arange(5, dtype=np.float32))
    buffer.check()
    buffer.resume(tmp_path / "good")
    buffer.check()
    assert len(buffer) == 13


def test_what_is_unknown_in_a_file_is_stepped_over(backend: Backend, tmp_path: Path) -> None:
    saved = prioritized_buffer(backend, seed=0)
    saved.save(tmp_path / "good")

    def more(records: Records) -> Records:
        records[0]["notes.txt"] = b"of a later version"
        records[-1]["more/obs.npy"] = b"?"
        return [{"first.bin": b"1"}, *records, {"last.bin": b"2"}]

    path = rewritten(tmp_path / "good", tmp_path / "crafted", more, later={"a": [1]})
    buffer = prioritized_buffer(backend, seed=4)
    buffer.resume(path)
    assert_same_state(buffer.state(), saved.state())


def test_rows_in_fortran_order_are_the_same_rows(backend: Backend, tmp_path: Path) -> None:
    """NumPy writes an array so where it lies so in memory."""
    saved = prioritized_buffer(backend, seed=0)
    saved.save(tmp_path / "good")
    fortran = column_changed("obs", np.asfortranarray)
    path = rewritten(tmp_path / "good", tmp_path / "crafted", fortran)
    with RecordReader(path) as reader:
        written = [bytes(record) for _, record in reader]
    assert b"'fortran_order': True" in b"".join(written)
    buffer = prioritized_buffer(backend, seed=4)
    buffer.resume(path)
    assert_same_state(buffer.state(), saved.state())
    other = prioritized_buffer(backend, seed=4)
    state = saved.state()
    state["rows"]["obs"] = np.asfortranarray(state["rows"]["obs"])
    other.restore(state)
    assert_same_state(other.state(), saved.state())


HEADERS: dict[str, dict[str, Any]] = {
    "capacity of 10**30": {"capacity": 10**30},
    "capacity of 0": {"capacity": 0},
    "capacity of true": {"capacity": True},
    "capacity of a text": {"capacity": "20"},
    "capacity of none": {"capacity": None},
    "prioritized of none": {"prioritized": None},
    "prioritized of 1": {"prioritized": 1},
    "not prioritized": {"prioritized": False},
    "no columns": {"columns": []},
    "columns of none": {"columns": None},
    "columns of texts": {"columns": ["obs"]},
}


def with_column(number: int, **changes: Any) -> list[dict[str, Any]]:
    buffer = cpreplay.StoreReplay(3, 2, 20, True)
    columns = copy.deepcopy(buffer.state()["about"]["columns"])
    columns[number].update(changes)
    return list(columns)


def of_exabytes() -> list[dict[str, Any]]:
    columns = with_column(0, shape=[2**28])
    columns[3]["shape"] = [2**28]
    return columns


HEADERS |= {
    "exabytes": {"capacity": 2**31, "columns": of_exabytes()},
    "a column twice": {"columns": [*with_column(0), *with_column(0)[:1]]},
    "a column of a petabyte": {"columns": with_column(0, shape=[2**48])},
    "a column of no size": {"columns": with_column(1, shape=[0])},
    "a column of 40 axes": {"columns": with_column(1, shape=[1] * 40)},
    "a shape of a text": {"columns": with_column(1, shape="2")},
    "a dtype of objects": {"columns": with_column(1, dtype="O", stored="O")},
    "a dtype of a mapping": {"columns": with_column(1, dtype={"names": []})},
    "a dtype of a list": {"columns": with_column(1, dtype=[["a", "f4"]])},
    "a dtype of none": {"columns": with_column(1, dtype=None)},
    "a dtype of numbers": {"columns": with_column(1, dtype=7)},
    "a name of another": {"columns": with_column(1, name="obs")},
    "a name of none": {"columns": with_column(1, name=None)},
    "a name that is reserved": {"columns": [*with_column(0), with_column(0)[0] | {"name": "map"}]},
    "rewards that are stored otherwise": {"columns": with_column(2, stored="uint8")},
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_crafted_header_is_refused_before_anything_is_allocated(
    backend: Backend, name: str, tmp_path: Path
) -> None:
    prioritized_buffer(backend, seed=0).save(tmp_path / "good")
    path = rewritten(tmp_path / "good", tmp_path / "crafted", **HEADERS[name])
    buffer = prioritized_buffer(backend, seed=4)
    before = buffer.state()
    with pytest.raises(CheckpointError):
        buffer.resume(path)
    assert_same_state(buffer.state(), before)
    for call in (type(buffer).load, type(buffer).salvage):
        if name == "not prioritized":
            continue  # such a buffer could have been saved: leaves are then of no use
        with pytest.raises(MemoryLimitError if name == "exabytes" else CheckpointError):
            call(path)


def test_a_load_speaks_of_the_file_and_not_of_a_buffer_that_it_would_fit(
    backend: Backend, tmp_path: Path
) -> None:
    buffer = prioritized_buffer(backend, seed=0)
    buffer.save(tmp_path / "good")
    for name, said in {
        "rewards that are stored otherwise": "column reward is float32[] stored as uint8, where",
        "a name of another": "columns are there twice: obs, obs",
    }.items():
        path = rewritten(tmp_path / "good", tmp_path / "crafted", **HEADERS[name])
        with pytest.raises(CheckpointError) as refused:
            type(buffer).load(path)
        assert said in str(refused.value)
        assert "Nothing was changed" not in str(refused.value)
    turned = {"columns": [*with_column(0)[1:], *with_column(0)[:1]]}
    path = rewritten(tmp_path / "good", tmp_path / "turned", **turned)
    with pytest.raises(CheckpointError, match=r"obs, action, reward, next_obs, terminated$"):
        type(buffer).load(path)


def test_the_largest_bounds_of_ere_come_back(backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 8)
    buffer.configure_ere(c_min=2**63 - 1, k_max=2**63 - 1)
    other = backend.buffer(1, 1, 8)
    other.restore(buffer.state())
    control = other.state()["state"]["control"]
    assert (control["c_min"], control["k_max"]) == (2**63 - 1, 2**63 - 1)


# What each field may be, as docs/checkpoint-format.md has it, and a value outside of that.
REFUSED_FIELDS: dict[str, tuple[Any, str, str]] = {
    "eta": (2.0, "eta is in (0, 1]", "2.0"),
    "eta_power": (-0.5, "eta_power is in [0, 1]", "-0.5"),
    "beta": (1.5, "beta is in [0, 1]", "1.5"),
    "epsilon": (-1.0, "epsilon is a finite number >= 0", "-1.0"),
    "max_priority": (0.5, "max_priority is a finite number >= 1", "0.5"),
    "max_priority ": (
        1e300,
        "max_priority ** alpha, the leaf of a new row, is a finite float32",
        "1e+300",
    ),
    "draws": (-3, "draws is an int from 0 to 2**62 - 1", "-3"),
    "ere_enabled": (2, "ere_enabled is 0 or 1", "2"),
    "k": (10**5000, "k is an int from 0 to 2**62 - 1", "a int too long to be printed"),
}


@pytest.mark.parametrize("name", REFUSED_FIELDS)
def test_a_field_that_is_refused_is_said_with_its_bounds_and_its_value(name: str) -> None:
    buffer = prioritized_buffer(HOST, seed=0)
    state = buffer.state()
    value, bounds, shown = REFUSED_FIELDS[name]
    state["state"]["control"][name.rstrip()] = value
    with pytest.raises(CheckpointError) as refused:
        buffer.restore(state)
    assert f"of such a buffer, in which {bounds}" in str(refused.value)
    assert str(refused.value).endswith(f"; it has {shown}")


def test_another_kind_and_a_later_version_are_refused(backend: Backend, tmp_path: Path) -> None:
    buffer = prioritized_buffer(backend, seed=4)
    buffer.save(tmp_path / "good")
    before = buffer.state()
    with written_records(tmp_path / "points", {"kind": "restart-points"}) as writer:
        writer.write(json_member("state.json", {}))
    good = witness.read((tmp_path / "good").read_bytes())
    later = witness.checkpoint({**good.header, "version": 2}, good.records[1:-1])
    (tmp_path / "later").write_bytes(later)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "foreign").write_bytes(b"PK\x03\x04" + bytes(5000))
    for name, part in {
        "points": "'restart-points', and 'replay' is wanted",
        "later": "version 2",
        "empty": "no checkpoint",
        "foreign": "no checkpoint",
    }.items():
        for call in (buffer.resume, type(buffer).load, type(buffer).salvage):
            with pytest.raises(CheckpointError, match=part):
                call(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        buffer.resume(tmp_path / "none")
    assert_same_state(buffer.state(), before)


def test_pending_steps_that_are_nonsense_are_refused(backend: Backend, tmp_path: Path) -> None:
    form = Form(capacity=40)
    saved = NStepTraining.begun_until(20, backend, form, n_envs=2, seed=1)
    saved.block.save(tmp_path / "good")
    other = NStepTraining.begun_until(9, backend, form, n_envs=2, seed=3)
    before, pending = other.buffer.state(), other.block.nstep.state()
    part = "pending/{}/000000000000.npy".format
    crafted: dict[str, Callable[[Records], Any]] = {
        "no settings": without("pending.json"),
        "no column": lambda records: [r for r in records if part("reward") not in r],
        "a count of n": column_changed(part("pending"), lambda counts: counts + 3),
        "a count below 0": column_changed(part("pending"), lambda counts: counts - 3),
        "counts of int32": column_changed(part("pending"), lambda counts: counts.astype("i4")),
        "steps of float64": column_changed(part("obs"), lambda steps: steps.astype("f8")),
        "steps of an environment less": column_changed(part("obs"), lambda steps: steps[:1]),
    }
    for name, change in crafted.items():
        path = rewritten(tmp_path / "good", tmp_path / "crafted", change)
        with pytest.raises(CheckpointError):
            other.block.resume(path)
        assert_same_state(other.buffer.state(), before), name
        for column, values in other.block.nstep.state().items():
            np.testing.assert_array_equal(values, pending[column], name)
    other.block.resume(tmp_path / "good")
    other.buffer.check()


def test_pending_booleans_are_0_or_1(backend: Backend, tmp_path: Path) -> None:
    buffer = backend.buffer(2, (), 20, extra_columns={"discount": (), "flag": bool})
    block = cpreplay.NStepSampleStep(cpreplay.ReplaySampleStep(buffer, 1), 3, 0.9)
    block.setup(learning_starts=0)
    block.add([1, 2], 0.0, 1.0, [2, 3], False, False, flag=True)
    block.add([2, 3], 0.0, 1.0, [3, 4], False, False, flag=True)
    block.save(tmp_path / "good")
    flags = "pending/flag/000000000000.npy"

    def change(values: np.ndarray) -> np.ndarray:
        values.view(np.uint8)[0, 0] = 2
        return values

    path = rewritten(tmp_path / "good", tmp_path / "crafted", column_changed(flags, change))
    with pytest.raises(CheckpointError):
        block.resume(path)


# Damage, byte by byte


def outcome(buffer: Any, path: Path, before: State, saved: State) -> str:
    """A file that is not whole is refused and changes nothing, or it was whole after all."""
    try:
        buffer.resume(path)
    except CheckpointError as error:
        assert_same_state(buffer.state(), before)
        return str(error)
    assert_same_state(buffer.state(), saved)
    buffer.restore(before)
    return ""


def around(found: witness.Found, length: int) -> list[int]:
    """Every fifth byte of a file, and every byte where records begin and end."""
    edges = {edge + by for span in found.spans for edge in span for by in range(-40, 40)}
    return sorted({*range(0, length, 5), *edges} & set(range(length)))


def test_a_flipped_byte_anywhere_is_refused_or_makes_no_difference(tmp_path: Path) -> None:
    saved = prioritized_buffer(HOST, seed=0)
    saved.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    found = witness.read(data)
    buffer = prioritized_buffer(HOST, seed=4)
    before, after = buffer.state(), saved.state()
    path = tmp_path / "damaged"
    for at in around(found, len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        message = outcome(buffer, path, before, after)
        for number, (start, end) in enumerate(found.spans):
            if start <= at < end:
                assert f"record {number} is damaged" in message, at


def test_a_file_that_was_cut_anywhere_is_refused_unless_only_its_index_is_lost(
    tmp_path: Path,
) -> None:
    saved = prioritized_buffer(HOST, seed=0)
    saved.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    found = witness.read(data)
    buffer = prioritized_buffer(HOST, seed=4)
    before, after = buffer.state(), saved.state()
    path = tmp_path / "cut"
    for length in around(found, len(data)):
        path.write_bytes(data[:length])
        message = outcome(buffer, path, before, after)
        assert (message != "") == (length < found.index_at), (length, message)


def test_damage_to_any_record_is_refused_on_a_device_too(device: Backend, tmp_path: Path) -> None:
    saved = prioritized_buffer(device, seed=0)
    saved.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    buffer = prioritized_buffer(device, seed=4)
    before = buffer.state()
    for number, (_, end) in enumerate(witness.read(data).spans):
        damaged = data[: end - 1] + bytes([data[end - 1] ^ 1]) + data[end:]
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(CheckpointError, match=f"record {number} is damaged"):
            buffer.resume(tmp_path / "damaged")
        assert_same_state(buffer.state(), before)


def test_a_state_can_be_kept_in_a_file_of_numpys_own(backend: Backend) -> None:
    """It is plain arrays and numbers."""
    run = Training.begun(backend, POLICIES["prioritized"], seed=11)
    state = run.buffer.state()
    file = io.BytesIO()
    np.savez(file, leaves=state["leaves"], **state["rows"])
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        rows = {name: arrays[name] for name in arrays.files}
    again = {**state, "leaves": rows.pop("leaves"), "rows": rows}
    other = Training(backend, POLICIES["prioritized"])
    other.buffer.restore(again)
    assert other.buffer.sample(LANES).indices.tolist() == run.buffer.sample(LANES).indices.tolist()


def test_a_state_of_a_buffer_of_another_form_is_not_restored(backend: Backend) -> None:
    saved = backend.buffer(1, 1, 20, seed=0)
    saved.add([1.0], [1.0], 0.0, [1.0], False)
    state = saved.state()
    for other, told in (
        (backend.buffer(1, 1, 30, seed=0), "capacity is 20 there and 30 here"),
        (backend.buffer(1, 1, 20, True, seed=0), "prioritized is False there and True here"),
    ):
        with pytest.raises(CheckpointError, match=told):
            other.restore(state)
        assert len(other) == 0


def test_a_state_with_more_rows_than_it_counts_says_both_numbers(backend: Backend) -> None:
    buffer = backend.buffer(1, 1, 20, seed=0)
    buffer.add([1.0], [1.0], 0.0, [1.0], False)
    state = buffer.state()
    state["rows"] = {name: np.repeat(values, 2, axis=0) for name, values in state["rows"].items()}
    with pytest.raises(CheckpointError, match="says that 1 rows are held, and its columns have 2"):
        buffer.restore(state)
    assert len(buffer) == 1


@pytest.mark.parametrize(("name", "value"), [("capacity", 20.0), ("prioritized", 0)])
def test_a_form_of_other_types_is_not_that_of_a_buffer(
    backend: Backend, name: str, value: Any
) -> None:
    """Equal as numbers, but no file of ours says so."""
    buffer = backend.buffer(1, 1, 20, seed=0)
    buffer.add([1.0], [1.0], 0.0, [1.0], False)
    state = buffer.state()
    state["about"][name] = value
    with pytest.raises(CheckpointError, match=f"{name} is {value} there"):
        buffer.restore(state)
    assert len(buffer) == 1
