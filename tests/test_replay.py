"""Rings of transitions, on every back end: what goes in, what is left, what comes out."""

from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import cuda_device, device_ops
from cpreplay.control import CONTROL
from tests.conftest import Backend
from tests.cuda_emulator.fakecupy._simulation import sim
from tests.models import RingModel, dequantize, quantize, quantize_clamped
from tests.strategies import COLUMNS, numbered_rows, row, stored_numbers

# One transition


def test_a_transition_comes_back_as_it_was_stored(backend: Backend) -> None:
    buffer = backend.buffer((2, 3), 4, 10, extra_columns={"log_prob": (), "skill": (2, "int16")})
    obs = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer.add(obs, [1, 2, 3, 4], -1.5, obs + 10, True, log_prob=0.25, skill=[-7, 9])
    batch = buffer.sample(3)
    expected = {
        "obs": obs,
        "action": np.array([1, 2, 3, 4], np.float32),
        "reward": np.float32(-1.5),
        "next_obs": obs + 10,
        "terminated": np.True_,
        "log_prob": np.float32(0.25),
        "skill": np.array([-7, 9], np.int16),
        "indices": np.int64(0),
    }
    for name, value in expected.items():
        column = backend.numpy(batch[name])
        assert column.dtype == value.dtype, name
        np.testing.assert_array_equal(column, np.stack([value] * 3), name)
    assert batch.weights is None


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "uint16", "int32", "int64", "float16", "float32", "float64"]
)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 1, 2), (300,)])
def test_every_dtype_and_shape_comes_back_unchanged(
    dtype: str, shape: tuple[int, ...], backend: Backend
) -> None:
    generator = np.random.default_rng(1)
    raw = generator.integers(0, 256, (6, *shape, 8), np.uint8)
    values = (raw[..., 0] > 127) if dtype == "bool" else raw.view(dtype)[..., 0]
    buffer = backend.buffer(shape, shape, 6, obs_dtype=dtype, action_dtype=dtype)
    zeros = np.zeros(6, bool)
    buffer.add_batch(values, values[::-1], zeros.astype(np.float32), values, zeros)
    batch = buffer.sample(40)
    rows = backend.numpy(batch.indices)
    for name, stored in (("obs", values), ("action", values[::-1]), ("next_obs", values)):
        column = backend.numpy(batch[name])
        assert column.dtype == np.dtype(dtype)
        assert column.tobytes() == stored[rows].tobytes(), name  # NaN payloads too


def test_a_discrete_action_is_one_integer(backend: Backend) -> None:
    buffer = backend.buffer(2, (), 5, action_dtype="int64")
    buffer.add([0, 1], 3, 1, [1, 2], False)
    buffer.add([0, 1], np.int64(3), 1, [1, 2], False)
    buffer.add([0, 1], np.uint8(3), np.float64(1), [1, 2], np.bool_(False))
    batch = buffer.sample(8)
    assert batch.action.shape == (8,)
    assert backend.numpy(batch.action).tolist() == [3] * 8
    assert backend.numpy(batch.action).dtype == np.int64


def test_next_obs_of_the_newest_row_is_its_own(backend: Backend) -> None:
    # Five rows in a ring of four: the newest lies just before the oldest.
    buffer = backend.buffer((), (), 4)
    for step in range(5):
        buffer.add(step, 0, 0, step + 100, False)
    batch = buffer.sample_range(8, 0, 1)
    assert backend.numpy(batch.obs).tolist() == [4] * 8
    assert backend.numpy(batch.next_obs).tolist() == [104] * 8


def test_a_truncated_step_keeps_its_final_observation_and_is_not_terminated(
    backend: Backend,
) -> None:
    # Observations 0, 1, 2, then out of time at 3; the next episode starts at 10.
    buffer = backend.buffer((), (), 8)
    for obs, next_obs in ((0, 1), (1, 2), (2, 3), (10, 11)):
        buffer.add(obs, 0, 0, next_obs, False)
    third = buffer.sample_range(1, 2, 3)
    assert backend.numpy(third.next_obs).tolist() == [3]
    assert backend.numpy(third.terminated).tolist() == [False]


# The ring


def test_a_batch_that_wraps_overwrites_the_oldest_rows(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    buffer.add_batch(**numbered_rows(0, 3))
    buffer.add_batch(**numbered_rows(3, 3))
    assert len(buffer) == 5
    assert stored_numbers(buffer, backend.numpy) == [5, 1, 2, 3, 4]
    assert buffer.head == 1


def test_a_batch_larger_than_the_ring_leaves_what_single_adds_would(backend: Backend) -> None:
    batched, single = backend.buffer((3,), (2,), 5), backend.buffer((3,), (2,), 5)
    rows = numbered_rows(0, 12)
    batched.add_batch(**rows)
    for number in range(12):
        single.add(**row(rows, number))
    assert stored_numbers(batched, backend.numpy) == [10, 11, 7, 8, 9]
    assert stored_numbers(single, backend.numpy) == [10, 11, 7, 8, 9]
    assert batched.head == single.head == 2


@pytest.mark.parametrize("mask_in_host_memory", [True, False])
def test_a_mask_stores_its_rows_alone_in_order(mask_in_host_memory: bool, backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    kept = np.array([0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0], bool)  # seven rows into a ring of five
    mask = kept if mask_in_host_memory else backend.array(kept)
    buffer.add_batch(**numbered_rows(0, 12), mask=mask)
    assert len(buffer) == 5
    assert stored_numbers(buffer, backend.numpy) == [9, 10, 5, 6, 7]
    buffer.add_batch(**numbered_rows(12, 3), mask=backend.array([False] * 3))
    assert stored_numbers(buffer, backend.numpy) == [9, 10, 5, 6, 7]
    buffer.check()


def test_many_masked_environments_keep_their_order(backend: Backend) -> None:
    # More rows than one block stores, and more than one mask read per thread.
    kept = np.random.default_rng(3).random(700) < 0.4
    buffer = backend.buffer((3,), (2,), 1000)
    model = RingModel(1000)
    buffer.add_batch(**numbered_rows(0, 700), mask=backend.array(kept))
    model.add_batch(list(range(700)), kept)
    assert stored_numbers(buffer, backend.numpy) == model.rows()


def test_an_empty_batch_changes_nothing(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    buffer.add_batch(**numbered_rows(0, 0))
    buffer.add_batch(**numbered_rows(0, 0), mask=np.zeros(0, bool))
    assert len(buffer) == 0
    buffer.check()


def test_a_part_full_ring_is_drawn_in_its_filled_part_alone(backend: Backend) -> None:
    buffer = backend.buffer((), (), 300)
    ones = np.ones(200, np.float32)
    buffer.add_batch(ones, ones, ones, ones, ones > 0)
    batch = buffer.sample(4000)
    assert len(buffer) == 200
    rows = backend.numpy(batch.indices)
    assert rows.min() == 0
    assert rows.max() == 199
    assert backend.numpy(batch.obs).min() == 1  # never a row that was not written


def test_a_capacity_of_one_holds_the_newest_row(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 1)
    buffer.add_batch(**numbered_rows(0, 4))
    assert stored_numbers(buffer, backend.numpy) == [3]
    assert backend.numpy(buffer.sample(5).reward).tolist() == [23] * 5


# Inputs


def test_the_callers_arrays_are_neither_kept_nor_changed(backend: Backend) -> None:
    buffer = backend.buffer(2, 1, 4)
    given = [backend.array([0, 0], np.float32), backend.array([0], np.float32)]
    batch = [backend.array([[1, 1]], np.float32), backend.array([[1]], np.float32)]
    buffer.add(given[0], given[1], 0.0, given[0], False)
    buffer.add_batch(batch[0], batch[1], [0.0], batch[0], [False])
    buffer.synchronize()
    for array in (*given, *batch):
        array[...] = 9
    assert backend.numpy(buffer.column("obs"))[:2].tolist() == [[0, 0], [1, 1]]
    assert backend.numpy(buffer.column("action"))[:2].tolist() == [[0], [1]]
    assert [backend.numpy(array).ravel().tolist() for array in batch] == [[9, 9], [9]]


def test_inputs_that_are_not_contiguous_are_stored_right(backend: Backend) -> None:
    buffer = backend.buffer((2, 3), 2, 8)
    obs = backend.array(np.arange(4 * 2 * 6).reshape(4, 2, 6), np.float32)[:, :, ::2]
    actions = backend.array(np.arange(16).reshape(4, 4), np.float32)[:, ::2]
    buffer.add_batch(obs, actions, [0.0] * 4, obs, [False] * 4)
    expected = backend.numpy(obs)
    np.testing.assert_array_equal(backend.numpy(buffer.column("obs"))[:4], expected)
    np.testing.assert_array_equal(
        backend.numpy(buffer.column("action"))[:4], [[0, 2], [4, 6], [8, 10], [12, 14]]
    )


def test_a_refused_batch_changes_nothing(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    buffer.add_batch(**numbered_rows(0, 3))
    good = numbered_rows(3, 3)
    bad = {
        "obs": [np.zeros((3, 4)), np.zeros(3), np.zeros((2, 3)), np.zeros((3, 3), complex), "abc"],
        "action": [np.zeros((4, 2)), np.zeros((3, 2), "S3")],
        "reward": [np.zeros((3, 1)), np.zeros(2), [1.0, 2.0, "x"], [1e300, 0.0, 0.0]],
        "next_obs": [np.zeros((3, 3, 1)), [[1, 2, 3], [1, 2], [1, 2, 3]]],
        "terminated": [np.zeros(3), [0, 1, 2], [None] * 3],
        "mask": [np.zeros(2, bool), np.zeros(3), [0, 1, 2]],
    }
    for name, values in bad.items():
        for value in values:
            with pytest.raises(cpreplay.ReplayError):
                buffer.add_batch(**{**good, name: value})
    for value in (np.zeros(4), np.zeros((1, 3)), 1.0):
        with pytest.raises(cpreplay.ShapeError, match=r"obs: .*\(3,\) is wanted"):
            buffer.add(**{**row(good, 0), "obs": value})
    assert stored_numbers(buffer, backend.numpy) == [0, 1, 2, None, None]
    buffer.check()


def test_columns_must_be_given_in_full_and_no_others(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5, extra_columns={"log_prob": ()})
    good = row(numbered_rows(0, 1), 0)
    with pytest.raises(cpreplay.ColumnNameError, match="'log_prob' is missing: give log_prob="):
        buffer.add(**good)
    with pytest.raises(cpreplay.ColumnNameError, match="'log_prob' is missing"):
        buffer.add(**good, log_probs=0.0)
    with pytest.raises(cpreplay.ColumnNameError, match="'skill' is no column of this buffer"):
        buffer.add(**good, log_prob=0.0, skill=1)
    with pytest.raises(cpreplay.ColumnNameError, match="has obs, action, reward"):
        buffer.column("rewards")
    assert len(buffer) == 0


# uint8 storage


def test_every_uint8_code_comes_back_exactly(backend: Backend) -> None:
    codes = np.arange(256, dtype=np.uint8)
    frames = (codes.astype(np.float32) / np.float32(255)).reshape(256, 1)
    buffer = backend.buffer(1, (), 256, obs_store_dtype="uint8")
    zeros = np.zeros(256, np.float32)
    buffer.add_batch(frames, zeros, zeros, frames[::-1], zeros > 0)
    np.testing.assert_array_equal(backend.numpy(buffer.column("obs"))[:, 0], codes)
    batch = buffer.sample(2000)
    rows = backend.numpy(batch.indices)
    exact = np.array([dequantize(int(code)) for code in codes], np.float32)
    assert backend.numpy(batch.obs)[:, 0].tobytes() == exact[rows].tobytes()
    assert backend.numpy(batch.next_obs)[:, 0].tobytes() == exact[255 - rows].tobytes()


def test_values_between_codes_round_to_the_nearest_even(backend: Backend) -> None:
    generator = np.random.default_rng(5)
    halves = (np.arange(255, dtype=np.float64) + 0.5) / 255  # as close to a tie as float32 gets
    values = np.concatenate([halves, generator.random(300), [0.0, 1.0, 1e-40, np.nextafter(1, 0)]])
    values = values.astype(np.float32)
    buffer = backend.buffer((), (), len(values), obs_store_dtype="uint8")
    zeros = np.zeros(len(values), np.float32)
    buffer.add_batch(values, zeros, zeros, values, zeros > 0)
    expected = [quantize(float(value)) for value in values]
    assert backend.numpy(buffer.column("obs")).tolist() == expected


OUTSIDE = np.array([-0.1, 1.1, np.nan, np.inf, -np.inf, 255.0], np.float32)


def test_the_host_refuses_what_is_not_in_zero_to_one() -> None:
    buffer = cpreplay.StoreReplay((), (), 8, obs_store_dtype="uint8")
    zeros = np.zeros(2, np.float32)
    for value in OUTSIDE:
        with pytest.raises(cpreplay.ColumnValueError, match=r"obs: .*\[0, 1\].*obs_dtype='uint8'"):
            buffer.add(value, 0, 0, 0.5, False)
        with pytest.raises(cpreplay.ColumnValueError, match="next_obs"):
            buffer.add_batch(zeros, zeros, zeros, np.array([0.5, value], np.float32), zeros > 0)
    assert len(buffer) == 0
    buffer.check()


@pytest.mark.parametrize("width", [1, 700])  # packed in the record, and an array of its own
def test_the_device_clamps_and_counts_each_such_row_once(width: int, device: Backend) -> None:
    buffer = device.buffer(width, (), 8, obs_store_dtype="uint8")
    obs = np.repeat(np.concatenate([OUTSIDE, [0.5, 1.0]])[:, None], width, axis=1)
    obs = obs.astype(np.float32)
    zeros = np.zeros(8, np.float32)
    buffer.add_batch(obs, zeros, zeros, obs[::-1], zeros > 0)
    expected = [[quantize_clamped(float(x)) for x in column] for column in obs]
    assert device.numpy(buffer.column("obs")).tolist() == expected
    assert buffer.stats()["invalid_rows"] == 8  # all: the next_obs of the two good ones are bad
    buffer.add(np.full(width, 2.0, np.float32), 0, 0, np.full(width, 0.5, np.float32), False)
    assert buffer.stats()["invalid_rows"] == 9
    buffer.add(np.full(width, 0.5, np.float32), 0, 0, np.full(width, 0.5, np.float32), False)
    assert buffer.stats()["invalid_rows"] == 9


def test_uint8_frames_are_stored_and_returned_as_they_are(backend: Backend) -> None:
    frames = np.random.default_rng(2).integers(0, 256, (3, 4, 12, 12), np.uint8)
    buffer = backend.buffer((4, 12, 12), (), 3, obs_dtype="uint8", action_dtype="int64")
    buffer.add_batch(frames, [0, 1, 2], [0.0] * 3, frames[::-1], [False] * 3)
    batch = buffer.sample(7)
    rows = backend.numpy(batch.indices)
    np.testing.assert_array_equal(backend.numpy(batch.obs), frames[rows])
    np.testing.assert_array_equal(backend.numpy(batch.next_obs), frames[::-1][rows])


# Draws


def test_host_and_device_draw_the_same_rows_bit_for_bit(device: Backend) -> None:
    on_device = device.buffer(7, 3, 50, seed=11)
    on_host = cpreplay.StoreReplay(7, 3, 50, seed=11, rng="philox")
    for first in range(0, 120, 30):
        rows = numbered_rows(first, 30, (7,), (3,))
        for buffer in (on_device, on_host):
            buffer.add_batch(**rows)
        for batch_size in (1, 33, 256):
            a, b = on_device.sample(batch_size), on_host.sample(batch_size)
            for name in (*COLUMNS, "indices"):
                assert device.numpy(a[name]).tobytes() == b[name].tobytes(), name
        a, b = on_device.sample_range(40, 3, 20), on_host.sample_range(40, 3, 20)
        assert device.numpy(a.indices).tobytes() == b.indices.tobytes()


@pytest.mark.parametrize("batch_size", [1, 5, 256])
def test_out_is_filled_in_place_and_returned(batch_size: int, backend: Backend) -> None:
    kept, fresh = (backend.buffer((3,), (2,), 20, seed=4) for _ in range(2))
    for buffer in (kept, fresh):
        buffer.add_batch(**numbered_rows(0, 15))
    out = kept.make_batch(batch_size)
    addresses = [backend.address(out[name]) for name in COLUMNS]
    for _ in range(3):
        assert kept.sample(batch_size, out=out) is out
        expected = fresh.sample(batch_size)
        for name in (*COLUMNS, "indices"):
            np.testing.assert_array_equal(backend.numpy(out[name]), backend.numpy(expected[name]))
    assert [backend.address(out[name]) for name in COLUMNS] == addresses


def test_out_of_another_buffer_with_the_same_columns_is_filled(backend: Backend) -> None:
    buffer, other = (backend.buffer((3,), (2,), capacity) for capacity in (20, 30))
    buffer.add_batch(**numbered_rows(0, 15))
    out = other.make_batch(6)
    assert buffer.sample(6, out=out) is out
    assert (backend.numpy(out.reward) == backend.numpy(out.obs)[:, 0] + 20).all()


def test_an_out_that_does_not_fit_is_refused_and_draws_nothing(backend: Backend) -> None:
    buffer, witness = (backend.buffer((3,), (2,), 20, seed=4) for _ in range(2))
    for ring in (buffer, witness):
        ring.add_batch(**numbered_rows(0, 15))
    told = r"out holds 4 transitions, and 5 .* from make_batch"
    with pytest.raises(cpreplay.ShapeError, match=told):
        buffer.sample(5, out=buffer.make_batch(4))
    other = backend.buffer((4,), (2,), 20)
    with pytest.raises(cpreplay.ShapeError, match="other columns"):
        buffer.sample(5, out=other.make_batch(5))
    with pytest.raises(cpreplay.ShapeError, match="make_batch"):
        buffer.sample(5, out=buffer.make_batch(5).map(lambda array: array))
    np.testing.assert_array_equal(
        backend.numpy(buffer.sample(64).indices), backend.numpy(witness.sample(64).indices)
    )


def test_a_refused_draw_takes_no_words_from_the_hosts_generator() -> None:
    refusing, witness = (cpreplay.StoreReplay((3,), (2,), 20, seed=4) for _ in range(2))
    with pytest.raises(cpreplay.EmptyBufferError):
        refusing.sample(5)
    for ring in (refusing, witness):
        ring.add_batch(**numbered_rows(0, 15))
    strange = refusing.make_batch(5)
    strange.reward = strange.reward.copy()
    refused = [
        lambda: refusing.sample(0),
        lambda: refusing.sample(5, out=strange),
        lambda: refusing.sample(5, out=refusing.make_batch(4)),
        lambda: refusing.sample(2**31 - 1),
        lambda: refusing.sample_range(5, 0, 16),
        lambda: refusing.sample_range(5, 0, 3, out=strange),
    ]
    for call in refused:
        with pytest.raises(cpreplay.ReplayError):
            call()
    np.testing.assert_array_equal(refusing.sample(64).indices, witness.sample(64).indices)


def test_a_batch_may_exceed_the_rows_held(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 20)
    buffer.add_batch(**numbered_rows(0, 2))
    batch = buffer.sample(500)
    assert set(backend.numpy(batch.indices)) == {0, 1}
    assert len(batch) == 500


def test_uniform_draws_are_uniform(backend: Backend) -> None:
    # 30,000 lanes over 60 rows: chi-square with 59 degrees of freedom. Its 99.9999 % point is
    # 126, so a right generator fails once in a million seeds; the seed is fixed.
    buffer = backend.buffer((), (), 60, seed=2024)
    zeros = np.zeros(60, np.float32)
    buffer.add_batch(zeros, zeros, zeros, zeros, zeros > 0)
    rows = np.concatenate([backend.numpy(buffer.sample(3000).indices) for _ in range(10)])
    counts = np.bincount(rows, minlength=60)
    assert ((counts - 500.0) ** 2 / 500.0).sum() < 126


def test_lanes_of_one_draw_are_independent_of_the_next(backend: Backend) -> None:
    buffer = backend.buffer((), (), 1000, seed=1)
    zeros = np.zeros(1000, np.float32)
    buffer.add_batch(zeros, zeros, zeros, zeros, zeros > 0)
    draws = [backend.numpy(buffer.sample(200).indices) for _ in range(4)]
    for a in range(4):
        for b in range(a):
            # Two independent draws agree in about 0.2 of 200 lanes; in more than 5, once in 10**8.
            assert (draws[a] == draws[b]).sum() <= 5


# Construction


def test_one_seed_gives_one_sequence_and_another_gives_another(backend: Backend) -> None:
    def draws(seed: int) -> list[int]:
        buffer = backend.buffer((3,), (2,), 100, seed=seed)
        buffer.add_batch(**numbered_rows(0, 100))
        return [int(index) for _ in range(3) for index in backend.numpy(buffer.sample(20).indices)]

    assert draws(7) == draws(7)
    assert len({tuple(draws(seed)) for seed in (0, 1, 2, 3, 2**64 - 1)}) == 5


def test_a_seed_from_the_system_is_known_and_repeats_the_run(backend: Backend) -> None:
    first = backend.buffer((3,), (2,), 100)
    second = backend.buffer((3,), (2,), 100, seed=first.seed)
    assert first.seed != backend.buffer((3,), (2,), 100).seed
    for buffer in (first, second):
        buffer.add_batch(**numbered_rows(0, 100))
    np.testing.assert_array_equal(
        backend.numpy(first.sample(50).indices), backend.numpy(second.sample(50).indices)
    )


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, "1", True])
def test_a_seed_is_a_64_bit_int(seed: object, backend: Backend) -> None:
    with pytest.raises(cpreplay.ConfigurationError, match="seed"):
        backend.buffer((3,), (2,), 100, seed=seed)


@pytest.mark.parametrize("capacity", [0, -5, 2**31 + 1, 10.0, True, None])
def test_a_capacity_is_an_int_in_range(capacity: object, backend: Backend) -> None:
    with pytest.raises(cpreplay.ConfigurationError, match="capacity"):
        backend.buffer((3,), (2,), capacity)


@pytest.mark.parametrize(
    "bit_generator", [np.random.PCG64DXSM, np.random.SFC64, np.random.Philox, np.random.MT19937]
)
def test_the_callers_generator_supplies_64_bit_words(bit_generator: type) -> None:
    buffer = cpreplay.StoreReplay((), (), 2**20, rng=np.random.Generator(bit_generator(5)))
    numbers = np.arange(2**20, dtype=np.float32)
    buffer.add_batch(numbers, numbers, numbers, numbers, numbers < 0)
    rows = buffer.sample(4096).indices
    # Words of 32 bits would all give row 0; the mean of 4,096 has a deviation of 0.0045.
    assert abs(rows.mean() / 2**20 - 0.5) < 0.03
    assert rows.max() >= 2**20 * 0.99
    assert len(set(rows.tolist())) > 4000
    assert buffer.seed is None


def test_numpys_global_state_is_never_used() -> None:
    before = np.random.get_state()[1].tobytes()
    buffer = cpreplay.StoreReplay((3,), (2,), 100)
    buffer.add_batch(**numbered_rows(0, 100))
    buffer.sample(50)
    assert np.random.get_state()[1].tobytes() == before


@pytest.mark.parametrize(
    "options",
    [
        {"rng": np.random.RandomState(0)},
        {"rng": "pcg64"},
        {"rng": 5},
        {"rng": np.random.PCG64(0)},
        {"rng": np.random.default_rng(0), "seed": 1},
    ],
)
def test_a_generator_that_cannot_be_used_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(cpreplay.ConfigurationError, match="rng"):
        cpreplay.StoreReplay((3,), (2,), 100, **options)


def test_the_device_takes_no_generator(device: Backend) -> None:
    with pytest.raises(TypeError, match="rng"):
        device.buffer((3,), (2,), 100, rng=np.random.default_rng(0))


# Looking


def test_a_column_is_a_view_that_shows_later_adds(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 4)
    view = buffer.column("obs")
    assert view.shape == (4, 3)
    buffer.add_batch(**numbered_rows(5, 1))
    assert backend.numpy(view)[0].tolist() == [5, 5, 5]


def test_a_column_of_the_host_cannot_be_written() -> None:
    buffer = cpreplay.StoreReplay((3,), (2,), 4)
    with pytest.raises(ValueError, match="read-only"):
        buffer.column("obs")[0] = 1


def test_stats_count(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    buffer.add_batch(**numbered_rows(0, 7))
    buffer.sample(2)
    buffer.sample_range(2, 0, 3)
    assert buffer.stats() == {
        "size": 5,
        "capacity": 5,
        "total": 7,
        "head": 2,
        "demo_count": 0,
        "draws": 2,
        "nbytes": buffer.nbytes,
        "ere": False,
        "invalid_rows": 0,
    }


def test_check_finds_memory_that_someone_wrote_over(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    buffer.add_batch(**numbered_rows(0, 3))
    buffer.check()

    def overwrite(row: int, code: int) -> None:
        """Set a byte of the terminated column behind the buffer's back."""
        place = buffer._layout.places[4]
        storage = buffer._ops._arrays[place.array]
        at = place.offset + row * place.stride
        if backend.is_device:
            storage.ravel()[at : at + 1] = backend.array([code], np.uint8)
        else:
            storage.view(np.uint8)[at] = code

    overwrite(1, 7)
    with pytest.raises(cpreplay.InvariantError, match="terminated: booleans are 0 or 1"):
        buffer.check()
    overwrite(1, 1)
    buffer.check()
    overwrite(4, 1)
    with pytest.raises(cpreplay.InvariantError, match="terminated: rows never written are 0"):
        buffer.check()


def test_a_buffer_shows_its_shape(backend: Backend) -> None:
    buffer = backend.buffer((3,), (), 5000, action_dtype="int64")
    assert "0 of 5,000 rows of obs float32[3], action int64[]" in repr(buffer)
    assert [column.name for column in buffer.columns] == list(COLUMNS)
    assert buffer.capacity == 5000
    assert buffer.nbytes >= 5000 * (3 * 4 + 8 + 4 + 3 * 4 + 1)


def test_an_add_that_fails_is_not_counted(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise MemoryError

    buffer = backend.buffer((3,), (2,), 5)
    rows = numbered_rows(0, 3)
    buffer.add_batch(**rows)
    with monkeypatch.context() as patch:
        for name in ("store_row", "store"):
            patch.setattr(buffer._ops, name, fail)
        for name in ("add_plain", "add_batch_plain"):  # which store all or nothing
            patch.setattr(buffer._ops, name, lambda values: False)
        with pytest.raises(MemoryError):
            buffer.add(**row(rows, 0))
        with pytest.raises(MemoryError):
            buffer.add_batch(**rows)
    assert len(buffer) == 3
    buffer.check()


def test_a_row_that_is_stored_counts_although_the_call_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(rows: int | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("CPREPLAY_HOST", "numpy")  # where every add comes by what is patched here
    buffer = cpreplay.StoreReplay((3,), (2,), 5)
    rows = numbered_rows(0, 3)
    monkeypatch.setattr(buffer._known, "count", interrupt)
    with pytest.raises(KeyboardInterrupt):
        buffer.add_batch(**rows)
    assert len(buffer) == buffer.stats()["size"] == buffer.head == 3
    buffer.check()


def test_a_buffer_shows_how_many_rows_it_holds(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    for rows, held in ((3, 3), (4, 5)):
        buffer.add_batch(**numbered_rows(0, rows))
        assert f": {held} of 5 rows of obs" in repr(buffer)


def test_a_buffer_shows_what_the_host_knows_without_waiting(emulated_device: Backend) -> None:
    buffer = emulated_device.buffer((3,), (2,), 5)
    mask = emulated_device.array([True, False])
    for rows, held in ((3, 3), (4, 5)):
        buffer.add_batch(**numbered_rows(0, rows))
        buffer.add_batch(**numbered_rows(0, 2), mask=mask)
        with sim.recording() as record:
            assert f": at least {held} of 5 rows of obs" in repr(buffer)
        assert record.d2h_copies == record.synchronisations == 0


def test_a_grid_smaller_than_its_work_does_all_of_it(
    device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Grids have an upper limit; what is beyond it, each block does after its first share.
    monkeypatch.setattr(cuda_device, "MAX_BLOCKS", 2)
    monkeypatch.setattr(device_ops, "MAX_BLOCKS", 2)
    launch = cuda_device.Kernels.launch
    grids = []

    def recorded(own: Any, name: str, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
        grids.append(grid[0])
        launch(own, name, grid, *args, **options)

    monkeypatch.setattr(cuda_device.Kernels, "launch", recorded)
    buffer, whole = (device.buffer((3,), (2,), 500, seed=4) for _ in range(2))
    rows = numbered_rows(0, 700)
    kept = np.arange(700) % 5 > 0
    buffer.add_batch(**rows)
    buffer.add_batch(**rows, mask=device.array(kept))
    drawn = [buffer.sample(900), buffer.sample_range(900, 3, 400)]
    expected = [*rows["obs"][:, 0], *rows["obs"][kept, 0]]
    assert set(grids) == {1, 2}
    monkeypatch.undo()
    whole.add_batch(**rows)
    whole.add_batch(**rows, mask=device.array(kept))
    slots = expected[-500:]
    first = len(expected) % 500
    assert stored_numbers(buffer, device.numpy) == slots[500 - first :] + slots[: 500 - first]
    for batch, twin in zip(
        drawn, [whole.sample(900), whole.sample_range(900, 3, 400)], strict=True
    ):
        for name in (*COLUMNS, "indices"):
            np.testing.assert_array_equal(device.numpy(batch[name]), device.numpy(twin[name]))


def test_invalid_rows_are_counted_anew_when_their_slots_are_written_again(device: Backend) -> None:
    buffer = device.buffer(2, (), 3, obs_store_dtype="uint8")
    bad = np.full(2, 2.0, np.float32)
    for count in range(1, 8):  # twice around the ring
        buffer.add(bad, 0, 0, bad, False)
        assert buffer.stats()["invalid_rows"] == count
    batch = np.full((2, 2), 2.0, np.float32)
    for count in (9, 11, 13):
        buffer.add_batch(batch, [0, 0], [0, 0], batch, [False, False])
        assert buffer.stats()["invalid_rows"] == count


def test_every_invalid_row_of_a_large_batch_is_counted(device: Backend) -> None:
    buffer = device.buffer(2, (), 150, obs_store_dtype="uint8")
    bad, zeros = np.full((100, 2), 2.0, np.float32), np.zeros(100, np.float32)
    for count in (100, 200, 300):  # more rows than a block stores, also where the ring wraps
        buffer.add_batch(bad, zeros, zeros, bad, zeros > 0)
        assert buffer.stats()["invalid_rows"] == count


@pytest.mark.parametrize(
    ("field", "value", "invariant"),
    [
        ("total", 2, "what the host counted|rows never written are 0"),
        ("capacity", 6, "capacity is what was asked for"),
        ("demo_count", 1, "demo_count is as pinned"),
        ("ere_enabled", 1, "ERE is as configured"),
        ("k", 1, "k is below k_max"),
        ("k", -1, "k is below k_max"),
    ],
)
def test_check_finds_a_control_block_that_someone_wrote_over(
    field: str, value: int, invariant: str, backend: Backend
) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    buffer.add_batch(**numbered_rows(0, 3))
    buffer.check()
    overwrite(buffer, backend, field, value)
    with pytest.raises(cpreplay.InvariantError, match=invariant):
        buffer.check()


def test_check_finds_more_rows_than_the_host_counted(device: Backend) -> None:
    # A host buffer is asked and never counted, so there is nothing to compare.
    buffer = device.buffer((3,), (2,), 5)
    buffer.add_batch(**numbered_rows(0, 3))
    overwrite(buffer, device, "total", 4)
    with pytest.raises(cpreplay.InvariantError, match="total is what the host counted"):
        buffer.check()


def test_check_finds_fewer_rows_than_the_host_counted(device: Backend) -> None:
    buffer = device.buffer((3,), (2,), 5)
    rows = {name: device.array(column) for name, column in numbered_rows(0, 3).items()}
    buffer.add_batch(**rows)
    buffer.add_batch(**rows, mask=device.array([True, False, False]))
    buffer.check()
    overwrite(buffer, device, "total", 2)
    with pytest.raises(cpreplay.InvariantError, match="at least what the host counted"):
        buffer.check()


@pytest.mark.parametrize("count", [4, -1])
def test_check_finds_demonstrations_that_are_not_held(count: int, backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    buffer.add_batch(**numbered_rows(0, 3))
    buffer._policy.demo_count = count  # host and device agree
    overwrite(buffer, backend, "demo_count", count)
    with pytest.raises(cpreplay.InvariantError, match="demonstrations are rows that are held"):
        buffer.check()


def overwrite(buffer: Any, backend: Backend, field: str, value: int) -> None:
    """Write into the control block, behind the buffer's back."""
    control = buffer._ops._control
    fields = control.get().view(CONTROL) if backend.is_device else control
    fields[field] = value
    if backend.is_device:
        control.set(fields.view(np.uint8))


@pytest.mark.parametrize("width", [1, 700])  # packed in the record, and an array of its own
def test_quantised_rows_go_where_others_do(width: int, backend: Backend) -> None:
    # Batches that wrap, exceed the ring and are masked, as rows of codes k / 255.
    buffer, model = backend.buffer(width, (), 5, obs_store_dtype="uint8"), RingModel(5)
    first = 1
    for count, mask in ((3, None), (4, None), (12, None), (9, "half"), (16, "half"), (2, "none")):
        codes = np.arange(first, first + count)
        kept = codes % 2 == 0 if mask == "half" else np.full(count, mask is None)
        obs = (codes[:, None] / 255 + np.zeros(width)).astype(np.float32)
        zeros = np.zeros(count, np.float32)
        given = None if mask is None else backend.array(kept)
        buffer.add_batch(obs, zeros, codes, obs[::-1], zeros > 0, mask=given)
        model.add_batch(list(zip(codes.tolist(), codes[::-1].tolist(), strict=True)), kept)
        first += count
        held = model.rows()[: model.size]
        obs, next_obs = (backend.numpy(buffer.column(name)) for name in ("obs", "next_obs"))
        assert obs[: model.size].tolist() == [[now] * width for now, _ in held]
        assert next_obs[: model.size].tolist() == [[then] * width for _, then in held]
    assert buffer.stats()["invalid_rows"] == 0
    buffer.check()


@pytest.mark.parametrize(
    ("row", "invariant"), [(4400, "booleans are 0 or 1"), (4600, "rows never written are 0")]
)
def test_check_looks_at_every_row(row: int, invariant: str, backend: Backend) -> None:
    buffer = backend.buffer((), (), 9000)  # more rows than are checked at a time
    numbers = np.zeros(4500, np.float32)
    buffer.add_batch(numbers, numbers, numbers, numbers, numbers > 0)
    buffer.check()
    place = buffer._layout.places[4]
    at = place.offset + row * place.stride
    if backend.is_device:
        storage = buffer._ops._arrays[place.array].ravel()
        storage[at : at + 1] = backend.array([7], np.uint8)
    else:
        buffer._ops._arrays[place.array].view(np.uint8)[at] = 7
    with pytest.raises(cpreplay.InvariantError, match=f"terminated: {invariant}"):
        buffer.check()


def test_extra_columns_go_by_name_and_not_by_place(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5, extra_columns={"first": (), "second": "int64"})
    buffer.add(np.zeros(3), np.zeros(2), 0, np.zeros(3), False, second=2, first=0.5)
    rows = numbered_rows(0, 2)
    buffer.add_batch(**rows, second=np.array([3, 4]), first=np.array([1.5, 2.5], np.float32))
    assert backend.numpy(buffer.column("first"))[:3].tolist() == [0.5, 1.5, 2.5]
    assert backend.numpy(buffer.column("second"))[:3].tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("value", "counted"),
    [
        (0.0, 0), (-0.0, 0), (1e-30, 0), (0.5, 0), (1.0, 0),
        (-1e-30, 1), (np.nextafter(np.float32(1), np.float32(2)), 1),
        (np.nan, 1), (np.inf, 1), (-np.inf, 1),
    ],
)  # fmt: skip
def test_the_device_counts_exactly_what_is_outside_zero_to_one(
    value: float, counted: int, device: Backend
) -> None:
    buffer = device.buffer(3, (), 4, obs_store_dtype="uint8")
    obs = np.array([0.5, value, 0.5], np.float32)
    buffer.add(obs, 0, 0, np.full(3, 0.5, np.float32), False)
    assert buffer.stats()["invalid_rows"] == counted


def test_a_wide_row_that_is_no_multiple_of_16_bytes_comes_back(backend: Backend) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (4, 300), np.uint8)
    buffer = backend.buffer(300, (), 4, obs_dtype="uint8")
    zeros = np.zeros(4, np.float32)
    buffer.add_batch(frames, zeros, zeros, frames[::-1], zeros > 0)
    batch = buffer.sample(9)
    rows = backend.numpy(batch.indices)
    np.testing.assert_array_equal(backend.numpy(batch.obs), frames[rows])
    np.testing.assert_array_equal(backend.numpy(batch.next_obs), frames[::-1][rows])
