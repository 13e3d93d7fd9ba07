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
def test_a_batch_too_large_for_one_record_of_numpys_is_refused_as_such(size: int) -> None:
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
