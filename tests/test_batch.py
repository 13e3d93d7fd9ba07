"""What `sample` returns: names, arrays, and how a batch changes framework."""

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import host_columns
from tests.conftest import Backend
from tests.refusals import refused

NAMES = ("obs", "action", "reward", "next_obs", "terminated", "skill", "log_prob", "indices")


def filled(backend: Backend, obs_shape: Any = 5, **options: Any) -> Any:
    """A buffer of 20 rows that differ in every column."""
    buffer = backend.buffer(
        obs_shape, 3, 20, seed=3, extra_columns={"skill": (2, "int16"), "log_prob": ()}, **options
    )
    shape = buffer.columns[0].shape
    numbers = np.arange(20, dtype=np.float32) / 20
    spread = numbers.reshape(20, *(1 for _ in shape))
    obs = np.broadcast_to(spread, (20, *shape))
    buffer.add_batch(
        obs, np.stack([numbers] * 3, 1), numbers, obs, numbers > 0.5,
        skill=np.arange(40).reshape(20, 2), log_prob=-numbers,
    )  # fmt: skip
    return buffer


def pickled(batch: Any) -> Any:
    """As through a queue between processes."""
    return pickle.loads(pickle.dumps(batch))


def test_columns_are_attributes_and_items(backend: Backend) -> None:
    batch = filled(backend).sample(4)
    for name in ("obs", "action", "reward", "next_obs", "terminated", "indices"):
        assert batch[name] is getattr(batch, name)
    assert list(batch.extra) == ["skill", "log_prob"]
    for name in batch.extra:
        assert batch[name] is batch.extra[name]
    assert batch["weights"] is batch.weights is None
    assert len(batch) == 4


@pytest.mark.parametrize("name", ["observation", "_plan", "extra", "map", "__len__", "", 0])
def test_an_unknown_name_is_refused_with_the_names_there_are(name: Any, backend: Backend) -> None:
    batch = filled(backend).sample(4)
    with pytest.raises(KeyError) as caught:
        batch[name]
    assert caught.value.args == (f"{name!r}: this batch has {', '.join(NAMES)}",)


def test_a_batch_shows_its_size_and_names(backend: Backend) -> None:
    buffer = filled(backend)
    assert repr(buffer.sample(4)) == f"Batch of 4: {', '.join(NAMES)}"
    plain = backend.buffer(2, 1, 4).make_batch(7)
    assert repr(plain) == "Batch of 7: obs, action, reward, next_obs, terminated, indices"


def test_map_applies_a_function_to_every_array_once(backend: Backend) -> None:
    batch = filled(backend).sample(4)
    seen: list[Any] = []

    def wrap(array: Any) -> tuple[str, Any]:
        seen.append(array)
        return ("wrapped", array)

    mapped = batch.map(wrap)
    assert isinstance(mapped, cpreplay.Batch)
    assert sorted(map(id, seen)) == sorted(id(batch[name]) for name in NAMES)
    for name in NAMES:
        assert mapped[name][0] == "wrapped"
        assert mapped[name][1] is batch[name]
    assert mapped.weights is None
    assert list(mapped.extra) == list(batch.extra)


def test_map_leaves_the_first_batch_as_it_was(backend: Backend) -> None:
    batch = filled(backend).sample(4)
    before = {name: (id(batch[name]), backend.numpy(batch[name]).tobytes()) for name in NAMES}
    mapped = batch.map(backend.numpy)
    assert len(mapped) == 4
    for name in NAMES:
        assert type(mapped[name]) is np.ndarray
        assert (id(batch[name]), backend.numpy(batch[name]).tobytes()) == before[name]


def test_a_mapped_batch_cannot_be_out(backend: Backend) -> None:
    buffer = filled(backend)
    mapped = buffer.sample(4).map(lambda array: array)
    draws = buffer.stats()["draws"]
    for draw in (
        lambda: buffer.sample(4, mapped),
        lambda: buffer.sample(4, out=mapped),
        lambda: buffer.sample_range(4, 0, 9, out=mapped),
    ):
        with pytest.raises(cpreplay.ShapeError, match="other arrays than it was made with"):
            draw()
    assert buffer.stats()["draws"] == draws


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_a_copied_batch_is_never_filled_behind_its_arrays(
    duplicate: Callable[[Any], Any], backend: Backend
) -> None:
    if duplicate is not copy.copy and backend.name.startswith("emulated"):
        pytest.skip("arrays of the emulated device cannot be copied so; those of a card can")
    buffer = filled(backend)
    first = buffer.sample(16)
    second = duplicate(first)
    kept = {name: backend.numpy(first[name]).tolist() for name in NAMES}
    assert {name: backend.numpy(second[name]).tolist() for name in NAMES} == kept
    draws = buffer.stats()["draws"]
    try:
        buffer.sample(16, out=second)
    except cpreplay.ShapeError:
        assert buffer.stats()["draws"] == draws
        assert {name: backend.numpy(second[name]).tolist() for name in NAMES} == kept
    else:
        assert backend.numpy(second.indices).tolist() != kept["indices"]
        rows = backend.numpy(second.indices)
        assert (
            backend.numpy(second.obs).tolist() == backend.numpy(buffer.column("obs"))[rows].tolist()
        )


@pytest.mark.parametrize("name", ["obs", "terminated", "indices"])
def test_a_batch_whose_array_was_replaced_is_no_out(name: str, backend: Backend) -> None:
    buffer = filled(backend)
    batch = buffer.make_batch(16)
    assert buffer.sample(16, out=batch) is batch
    setattr(batch, name, batch[name].copy())
    draws = buffer.stats()["draws"]
    with pytest.raises(cpreplay.ShapeError, match="make_batch"):
        buffer.sample(16, out=batch)
    assert buffer.stats()["draws"] == draws


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_that_lost_a_column_is_no_out(name: str, backend: Backend) -> None:
    buffer = filled(backend)
    batch = buffer.make_batch(16)
    if name in batch.extra:
        del batch.extra[name]
    else:
        delattr(batch, name)
    with pytest.raises(cpreplay.ShapeError, match="make_batch"):
        buffer.sample(16, out=batch)
    assert buffer.stats()["draws"] == 0


@pytest.mark.parametrize("name", ["reward", "indices"])
def test_a_batch_that_gained_a_column_is_no_out(name: str, backend: Backend) -> None:
    buffer = filled(backend)
    batch = buffer.make_batch(16)
    batch.extra["more"] = batch[name]
    with pytest.raises(cpreplay.ShapeError, match="make_batch"):
        buffer.sample(16, out=batch)
    assert buffer.stats()["draws"] == 0


def test_weights_are_mapped_and_copied_like_any_array(backend: Backend) -> None:
    batch = filled(backend).sample(4)
    batch.weights = batch.reward.copy()
    mapped = batch.map(lambda array: ("mapped", array))
    assert mapped.weights[0] == "mapped"
    assert mapped.weights[1] is batch.weights
    copied = copy.copy(batch)
    assert copied.weights is batch.weights


def test_a_batch_of_one_back_end_is_no_out_for_the_other(device: Backend) -> None:
    host = Backend("host")
    with pytest.raises(cpreplay.ShapeError, match="make_batch"):
        filled(host).sample(4, out=filled(device).make_batch(4))
    with pytest.raises(cpreplay.ShapeError, match="make_batch"):
        filled(device).sample(4, out=filled(host).make_batch(4))


SIZES = (1, 2, 3, 5, 7, 16, 17, 63, 64, 65, 100, 255, 256, 1000)


@pytest.mark.parametrize("options", [{}, {"obs_store_dtype": "uint8"}, {"obs_dtype": "uint8"}])
@pytest.mark.parametrize("obs_shape", [5, (3, 50)])
def test_arrays_are_aligned_contiguous_and_writable(
    obs_shape: Any, options: dict[str, Any], backend: Backend
) -> None:
    if "obs_dtype" in options:
        buffer = backend.buffer(obs_shape, 3, 20, **options)
        rows = np.zeros((20, *buffer.columns[0].shape), np.uint8)
        buffer.add_batch(rows, np.zeros((20, 3)), np.zeros(20), rows, np.zeros(20, bool))
    else:
        buffer = filled(backend, obs_shape, **options)
    dtypes = {column.name: column.dtype for column in buffer.columns} | {"indices": np.int64}
    shapes = {column.name: column.shape for column in buffer.columns} | {"indices": ()}
    for size in SIZES:
        for batch in (
            buffer.sample(size),
            buffer.make_batch(size),
            buffer.sample_range(size, 0, 9),
        ):
            assert len(batch) == size
            for name, shape in shapes.items():
                array = batch[name]
                assert backend.address(array) % 64 == 0, (size, name)
                assert array.flags.c_contiguous, (size, name)
                assert array.shape == (size, *shape), (size, name)
                assert array.dtype == dtypes[name], (size, name)
                if not backend.is_device:  # CuPy's arrays are always writable
                    assert array.flags.writeable, (size, name)
                array[...] = 1  # and writing does not fail


def test_arrays_of_one_batch_do_not_overlap(backend: Backend) -> None:
    buffer = filled(backend, (3, 50))
    for size in SIZES:
        batch = buffer.sample(size)
        spans = sorted(
            (backend.address(batch[name]), backend.address(batch[name]) + batch[name].nbytes)
            for name in NAMES
        )
        for (_, end), (begin, _) in itertools.pairwise(spans):
            assert end <= begin


def test_fresh_batches_share_no_memory_and_stay_as_they_are(backend: Backend) -> None:
    buffer = filled(backend)
    first = buffer.sample(16)
    kept = {name: backend.numpy(first[name]) for name in NAMES}
    others = [buffer.sample(16) for _ in range(5)]
    for name in NAMES:
        np.testing.assert_array_equal(backend.numpy(first[name]), kept[name])
        addresses = {backend.address(batch[name]) for batch in (first, *others)}
        assert len(addresses) == 6
    assert any(
        (backend.numpy(batch.indices) != kept["indices"]).any() for batch in others
    )  # they were drawn anew


def test_writing_into_a_batch_does_not_write_into_the_buffer(backend: Backend) -> None:
    buffer = filled(backend)
    before = {name: backend.numpy(buffer.column(name)).tobytes() for name in NAMES[:-1]}
    batch = buffer.sample(16)
    for name in NAMES[:-1]:
        batch[name][...] = 1
    assert {name: backend.numpy(buffer.column(name)).tobytes() for name in NAMES[:-1]} == before


def test_every_lane_is_the_row_that_its_index_names(backend: Backend) -> None:
    for options in ({}, {"obs_store_dtype": "uint8"}):
        buffer = filled(backend, (3, 50), **options)
        batch = buffer.sample(50)
        rows = backend.numpy(batch.indices)
        assert len(set(rows.tolist())) > 10
        for column in buffer.columns:
            stored = backend.numpy(buffer.column(column.name))[rows]
            expected = stored.astype(np.float32) / np.float32(255) if column.quantized else stored
            np.testing.assert_array_equal(backend.numpy(batch[column.name]), expected)


@pytest.mark.parametrize("options", [{}, {"obs_store_dtype": "uint8"}])
def test_rows_that_exceed_the_scratch_are_gathered_in_parts(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = filled(Backend("host"), **options)
    monkeypatch.setattr(host_columns, "_SCRATCH_BYTES", 1000)
    parted = filled(Backend("host"), **options)
    part = len(parted._ops._gathers[0].scratch)
    for size in (part, part + 1, 2 * part, 2 * part + 1, part, 4 * part - 1):
        expected, batch = whole.sample(size), parted.sample(size)
        for name in NAMES:
            np.testing.assert_array_equal(batch[name], expected[name])


@pytest.mark.parametrize("size", [9_511, 10_000, 19_021, 19_022, 2**31, 2**62])
def test_a_batch_of_more_than_two_gibibytes_is_refused_as_such(size: int) -> None:
    buffer = cpreplay.StoreReplay((4, 84, 84), (), 2, obs_store_dtype="uint8")
    frame = np.zeros((4, 84, 84), np.float32)
    buffer.add(frame, 0, 0, frame, False)
    for draw in (buffer.make_batch, buffer.sample, lambda size: buffer.sample_range(size, 0, 1)):
        with pytest.raises(
            cpreplay.SampleRangeError, match=r"draw it in parts|below 2\*\*31"
        ) as caught:
            draw(size)
        assert str(size) in str(caught.value)
    assert buffer.stats()["draws"] == 0


def test_a_batch_of_exactly_2_gib_is_refused_in_our_own_words() -> None:
    # 8 + 8 + 3 + 4 + 8 + 1 bytes a lane with its index.
    buffer = cpreplay.StoreReplay((), 3, 4, obs_dtype="float64", action_dtype="uint8")
    with pytest.raises(cpreplay.SampleRangeError, match="2,147,483,648 bytes"):
        buffer.make_batch(2**26)


def test_a_batch_does_not_unpack_but_knows_its_names(backend: Backend) -> None:
    batch = filled(backend).sample(4)
    assert "obs" in batch
    assert "done" not in batch
    with pytest.raises(TypeError, match="does not unpack; take its columns by name"):
        tuple(batch)


# Of a prioritized buffer

WEIGHTED = (*NAMES, "weights")


def prioritized(backend: Backend, **options: Any) -> Any:
    """As `filled`, with a mass of its own for every row."""
    buffer = filled(backend, prioritized=True, **options)
    buffer.update_priorities(np.arange(20), np.arange(20) / 4)
    return buffer


def masses(backend: Backend, buffer: Any) -> list[float]:
    leaves: list[float] = backend.numpy(buffer._ops.priorities.levels()[0])[:20].tolist()
    return leaves


def overwrite(buffer: Any, rows: int) -> None:
    zeros = np.zeros(rows, np.float32)
    obs, action = np.zeros((rows, 5), np.float32), np.zeros((rows, 3), np.float32)
    skill = np.zeros((rows, 2), np.int16)
    buffer.add_batch(obs, action, zeros, obs, zeros > 0, skill=skill, log_prob=zeros)


def test_a_prioritized_batch_has_weights_and_says_so(backend: Backend) -> None:
    batch = prioritized(backend).sample(4)
    assert batch["weights"] is batch.weights
    assert batch.weights.shape == (4,)
    assert batch.weights.dtype == np.float32
    assert "weights" in batch
    assert repr(batch) == f"Batch of 4: {', '.join(WEIGHTED)}"
    with pytest.raises(KeyError) as caught:
        batch["tokens"]
    assert caught.value.args == (f"'tokens': this batch has {', '.join(WEIGHTED)}",)
    assert "weights" not in filled(backend).sample(4)


def test_map_also_takes_the_weights_and_the_draw_tokens(backend: Backend) -> None:
    batch = prioritized(backend).sample(4)
    seen: list[Any] = []

    def wrap(array: Any) -> tuple[str, Any]:
        seen.append(array)
        return ("wrapped", array)

    mapped = batch.map(wrap)
    arrays = [*(batch[name] for name in WEIGHTED), batch._tokens]
    assert sorted(map(id, seen)) == sorted(map(id, arrays))
    assert mapped.weights[1] is batch.weights
    assert mapped._tokens[1] is batch._tokens
    # Every framework has int32, and keeps its words.
    assert (batch._tokens.dtype, batch._tokens.shape) == (np.int32, (4, 2))
    assert "tokens" not in repr(batch)


COMES_BACK: dict[str, Callable[[Backend, Any], Any]] = {
    "itself": lambda backend, batch: batch,
    "mapped": lambda backend, batch: batch.map(lambda array: array),
    "twice mapped": lambda backend, batch: batch.map(lambda x: x).map(lambda x: x),
    "on the host": lambda backend, batch: batch.map(backend.numpy),
    "copied arrays": lambda backend, batch: batch.map(lambda array: array.copy()),
    "copy": lambda backend, batch: copy.copy(batch),
    "deepcopy": lambda backend, batch: copy.deepcopy(batch),
    "pickle": lambda backend, batch: pickled(batch),
    "pickle of a host copy": lambda backend, batch: pickled(batch.map(backend.numpy)),
}


@pytest.mark.parametrize("way", COMES_BACK)
def test_a_batch_comes_back_by_any_way_and_still_knows_its_draw(way: str, backend: Backend) -> None:
    if way in ("deepcopy", "pickle") and backend.name.startswith("emulated"):
        pytest.skip("arrays of the emulated device cannot be copied so; those of a card can")
    buffer, twin = prioritized(backend), prioritized(backend)
    errors = np.linspace(0.5, 8, 16)
    for part in (buffer, twin):
        batch = part.sample(16)
        rows = backend.numpy(batch.indices)
        overwrite(part, 15)
        if part is buffer:
            batch = COMES_BACK[way](backend, batch)
        part.update_priorities(batch, errors)
    stale = int((rows < 15).sum())
    assert 0 < stale < 16
    for part in (buffer, twin):
        assert part.stats()["stale_updates"] == stale
    assert masses(backend, buffer) == masses(backend, twin)
    assert masses(backend, buffer)[:15] == masses(backend, buffer)[:1] * 15
    buffer.check()


@pytest.mark.parametrize(
    "part", [slice(0, 3), slice(None, None, 2), slice(None, None, -1), slice(5, 5)], ids=str
)
def test_some_lanes_of_a_batch_come_back(part: slice, backend: Backend) -> None:
    buffer, twin = prioritized(backend), prioritized(backend)
    batch = buffer.sample(16)
    rows = backend.numpy(twin.sample(16).indices)[part]
    some = batch.map(lambda array: array[part])
    assert len(some) == len(rows)
    errors = np.linspace(0.5, 8, len(rows))
    buffer.update_priorities(some, errors)
    twin.update_priorities(rows, errors)
    assert masses(backend, buffer) == masses(backend, twin)
    with refused(backend, buffer, cpreplay.ShapeError, "td_errors", f"({len(rows)},) is wanted"):
        buffer.update_priorities(some, np.ones(17))


def test_a_mapped_or_copied_prioritized_batch_cannot_be_out(backend: Backend) -> None:
    buffer = prioritized(backend)
    batch = buffer.sample(4)
    for other in (batch.map(lambda array: array), copy.copy(batch)):
        with refused(backend, buffer, cpreplay.ShapeError, "make_batch"):
            buffer.sample(4, out=other)
        with refused(backend, buffer, cpreplay.ShapeError, "make_batch"):
            buffer.sample_range(4, 0, 9, out=other)


@pytest.mark.parametrize("name", ["weights", "_tokens"])
def test_weights_and_tokens_that_were_replaced_make_no_out(name: str, backend: Backend) -> None:
    buffer = prioritized(backend)
    for spoil in (
        lambda batch: setattr(batch, name, getattr(batch, name).copy()),
        lambda batch: setattr(batch, name, None),
        lambda batch: delattr(batch, name),
    ):
        batch = buffer.make_batch(16)
        assert buffer.sample(16, out=batch) is batch
        spoil(batch)
        with refused(backend, buffer, cpreplay.ShapeError, "make_batch"):
            buffer.sample(16, out=batch)


def test_batches_with_and_without_weights_are_not_out_for_each_other(backend: Backend) -> None:
    plain, weighted = filled(backend), prioritized(backend)
    with refused(backend, plain, cpreplay.ShapeError, "make_batch"):
        plain.sample(4, out=weighted.make_batch(4))
    with refused(backend, weighted, cpreplay.ShapeError, "make_batch"):
        weighted.sample(4, out=plain.make_batch(4))
    with refused(backend, weighted, cpreplay.ShapeError, "make_batch"):
        weighted.sample_range(4, 0, 2, out=plain.make_batch(4))


def test_out_takes_the_weights_and_tokens_of_each_draw(backend: Backend) -> None:
    buffer, twin = prioritized(backend), prioritized(backend)
    out = twin.make_batch(16)  # another buffer's, with the same columns
    for _ in range(3):
        assert buffer.sample(16, out=out) is out
        fresh = twin.sample(16)
        for name in WEIGHTED:
            assert backend.numpy(out[name]).tolist() == backend.numpy(fresh[name]).tolist()
        for part, batch in ((buffer, out), (twin, fresh)):
            overwrite(part, 3)
            part.update_priorities(batch, np.linspace(1, 2, 16))  # it knows who filled it
        assert masses(backend, buffer) == masses(backend, twin)
        assert buffer.stats()["stale_updates"] == twin.stats()["stale_updates"]
    assert buffer.sample_range(16, 0, 5, out=out) is out
    assert backend.numpy(out.weights).tolist() == [1.0] * 16


def test_a_batch_without_tokens_is_no_batch_to_update_with(backend: Backend) -> None:
    buffer = prioritized(backend)
    batch = filled(backend).sample(4)
    parts = ("update_priorities", "buffer without priorities")
    for other in (batch, batch.map(lambda array: array), copy.copy(batch)):
        with refused(backend, buffer, cpreplay.ConfigurationError, *parts):
            buffer.update_priorities(other, np.ones(4))
    buffer.update_priorities(batch.indices, np.ones(4))  # bare, they are just rows


def test_a_batch_of_one_back_end_updates_the_other_at_most_as_a_foreign_one(
    device: Backend,
) -> None:
    host = Backend("host")
    on_host, on_device = prioritized(host), prioritized(device)
    batch = on_device.sample(4)
    with refused(host, on_host, cpreplay.DTypeError, "device's memory"):
        on_host.update_priorities(batch.map(_DeviceOnly), np.ones(4))
    with refused(host, on_host, cpreplay.ConfigurationError, "not drawn from this buffer"):
        on_host.update_priorities(batch.map(device.numpy), np.ones(4))
    before = masses(device, on_device)
    on_device.update_priorities(on_host.sample(4), np.ones(4))
    assert masses(device, on_device) == before
    assert on_device.stats()["stale_updates"] == 4


class _DeviceOnly:
    """An array that says where it lies and nothing else, as a device's does on a real machine."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @staticmethod
    def __dlpack_device__() -> tuple[int, int]:
        return 2, 0


def test_weights_and_tokens_are_aligned_contiguous_writable_and_apart(backend: Backend) -> None:
    buffer = prioritized(backend)
    for size in SIZES:
        for batch in (
            buffer.sample(size),
            buffer.make_batch(size),
            buffer.sample_range(size, 0, 9),
        ):
            arrays = [*(batch[name] for name in WEIGHTED), batch._tokens]
            for array in arrays:
                assert backend.address(array) % 64 == 0, size
                assert array.flags.c_contiguous, size
                assert len(array) == size
            spans = sorted((backend.address(x), backend.address(x) + x.nbytes) for x in arrays)
            for (_, end), (begin, _) in itertools.pairwise(spans):
                assert end <= begin
            for array in (batch.weights, batch._tokens):
                array[...] = 1
                if not backend.is_device:
                    assert array.flags.writeable


def test_fresh_batches_have_weights_and_tokens_of_their_own(backend: Backend) -> None:
    buffer = prioritized(backend)
    first = buffer.sample(16)
    kept = backend.numpy(first.weights), backend.numpy(first._tokens)
    overwrite(buffer, 1)
    others = [buffer.sample(16) for _ in range(5)]
    for name, before in zip(("weights", "_tokens"), kept, strict=True):
        np.testing.assert_array_equal(backend.numpy(getattr(first, name)), before)
        addresses = {backend.address(getattr(batch, name)) for batch in (first, *others)}
        assert len(addresses) == 6
    assert (backend.numpy(others[0]._tokens) != kept[1]).any()


def test_writing_into_weights_and_indices_does_not_change_the_buffer(backend: Backend) -> None:
    buffer = prioritized(backend)
    before = masses(backend, buffer)
    batch = buffer.sample(16)
    for array in (batch.weights, batch.indices, batch._tokens):
        array[...] = 1
    assert masses(backend, buffer) == before
    buffer.check()


def test_a_name_that_is_no_attribute_is_answered_with_the_columns(backend: Backend) -> None:
    buffer = backend.buffer((), (), 4, extra_columns={"discount": ()}, seed=0)
    buffer.add(0, 0, 0, 0, False, discount=0.5)
    batch = buffer.sample(2)
    for name in ("discount", "done"):
        with pytest.raises(AttributeError, match=rf"{name}.*terminated.*discount.*batch\["):
            getattr(batch, name)
    assert not hasattr(batch, "__array__")
    assert copy.copy(batch)["discount"].tolist() == [0.5, 0.5]
