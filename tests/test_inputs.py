"""What a caller may hand in: which arrays and numbers are taken, and which are refused."""

import array
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cpreplay
from cpreplay.errors import ColumnValueError, DTypeError, ShapeError
from cpreplay.inputs import host_array, integer_limits
from cpreplay.schema import Column
from tests.conftest import Backend
from tests.models import can_be_quantized, dequantize, quantize
from tests.refusals import fingerprint, refused
from tests.strategies import numbered_rows, stored_numbers


class Shared:
    """An array that offers DLPack and nothing else, as if it were another framework's."""

    def __init__(self, values: Any, device: int = 1) -> None:
        self._values = np.asarray(values)
        self._device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0


class OnDevice:
    """An array that says it lies in a card's memory."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (3,), "typestr": "<f4", "data": (1, False), "version": 3}


def column(shape: tuple[int, ...] = (), dtype: Any = "float32", stored: Any = None) -> Column:
    dtype = np.dtype(dtype)
    return Column(
        name="goal", shape=shape, dtype=dtype, stored=np.dtype(stored) if stored else dtype
    )


def store(buffer: Any, **given: Any) -> None:
    """One add, of zeros where nothing else is given."""
    values = {
        "obs": np.zeros(3, np.float32),
        "action": np.zeros(2, np.float32),
        "reward": 0.0,
        "next_obs": np.zeros(3, np.float32),
        "terminated": False,
    }
    buffer.add(**(values | given))


def store_batch(buffer: Any, rows: int, **given: Any) -> None:
    """One add_batch, of zeros where nothing else is given."""
    values = {
        "obs": np.zeros((rows, 3), np.float32),
        "action": np.zeros((rows, 2), np.float32),
        "reward": np.zeros(rows, np.float32),
        "next_obs": np.zeros((rows, 3), np.float32),
        "terminated": np.zeros(rows, bool),
    }
    buffer.add_batch(**(values | given))


# What is taken

READ_ONLY = np.array([1, 2, 3], np.float32)
READ_ONLY.flags.writeable = False

OBSERVATIONS = {
    "array": np.array([1, 2, 3], np.float32),
    "float64": np.array([1, 2, 3], np.float64),
    "float16": np.array([1, 2, 3], np.float16),
    "swapped byte order": np.array([1, 2, 3], np.dtype("f4").newbyteorder()),
    "integers": np.array([1, 2, 3], np.int64),
    "uint8": np.array([1, 2, 3], np.uint8),
    "every second": np.array([1, 0, 2, 0, 3, 0], np.float32)[::2],
    "backwards": np.array([3, 2, 1], np.float32)[::-1],
    "a column of a matrix": np.arange(1, 10, dtype=np.float32).reshape(3, 3, order="F").T[0],
    "read-only": READ_ONLY,
    "list": [1.0, 2, 3],
    "tuple": (1, 2.0, 3),
    "list of numpy numbers": [np.float32(1), np.int64(2), np.float64(3)],
    "list of arrays without axes": [np.array(1.0), np.array(2.0), np.array(3.0)],
    "range": range(1, 4),
    "array.array": array.array("f", [1, 2, 3]),
    "array.array of doubles": array.array("d", [1, 2, 3]),
    "memoryview": memoryview(np.array([1, 2, 3], np.float32)),
    "strided memoryview": memoryview(np.array([1, 0, 2, 0, 3], np.float32))[::2],
    "bytearray": bytearray([1, 2, 3]),
    "bytes": bytes([1, 2, 3]),
    "DLPack": Shared(np.array([1, 2, 3], np.float32)),
    "DLPack of float64": Shared(np.array([1, 2, 3], np.float64)),
    "DLPack, strided": Shared(np.array([1, 0, 2, 0, 3], np.float32)[::2]),
    "DLPack, pinned": Shared(np.array([1, 2, 3], np.float32), device=3),
}  # fmt: skip


@pytest.mark.parametrize("form", OBSERVATIONS)
def test_one_observation_may_be_given_in_many_forms(form: str, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    store(buffer, obs=OBSERVATIONS[form])
    stored = backend.numpy(buffer.column("obs"))[0]
    np.testing.assert_array_equal(stored, np.array([1, 2, 3], np.float32))
    assert len(buffer) == 1


BATCH = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
BATCHES = {
    "array": BATCH,
    "Fortran order": np.asfortranarray(BATCH),
    "transposed": np.ascontiguousarray(BATCH.T).T,
    "every second row": np.repeat(BATCH, 2, axis=0)[::2],
    "rows backwards": BATCH[::-1].copy()[::-1],
    "float64": BATCH.astype(np.float64),
    "list of lists": BATCH.tolist(),
    "tuple of arrays": tuple(BATCH),
    "list of memoryviews": [memoryview(row) for row in BATCH],
    "memoryview": memoryview(BATCH),
}


@pytest.mark.parametrize("form", BATCHES)
def test_a_batch_may_be_given_in_many_forms(form: str, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    store_batch(buffer, 2, obs=BATCHES[form], next_obs=BATCHES[form])
    for name in ("obs", "next_obs"):
        np.testing.assert_array_equal(backend.numpy(buffer.column(name))[:2], BATCH)


def test_a_batch_may_offer_dlpack_and_nothing_else(backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    store_batch(buffer, 2, obs=Shared(BATCH), next_obs=Shared(BATCH))
    np.testing.assert_array_equal(backend.numpy(buffer.column("obs"))[:2], BATCH)


def test_a_broadcast_batch_is_stored_row_by_row(backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    store_batch(buffer, 3, obs=np.broadcast_to(BATCH[0], (3, 3)))
    np.testing.assert_array_equal(backend.numpy(buffer.column("obs"))[:3], BATCH[[0, 0, 0]])


@pytest.mark.parametrize(
    "reward",
    [2.5, np.float32(2.5), np.float64(2.5), np.float16(2.5), np.array(2.5), np.array(2.5, "f4"),
     Shared(np.array(2.5))],
)  # fmt: skip
def test_one_number_may_be_given_in_many_forms(reward: Any, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    store(buffer, reward=reward)
    assert backend.numpy(buffer.column("reward"))[0] == 2.5


@pytest.mark.parametrize(
    "flag", [True, np.True_, 1, np.int64(1), np.uint8(1), np.array(True), np.array(1)]
)
def test_a_flag_may_be_a_bool_or_zero_or_one(flag: Any, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    store(buffer, terminated=flag)
    column = backend.numpy(buffer.column("terminated"))
    assert column.dtype == bool
    assert column[0]


@pytest.mark.parametrize("mask", [[True, False, True], [1, 0, 1], np.array([1, 0, 1], np.uint8)])
def test_a_mask_may_be_booleans_or_zeros_and_ones(mask: Any, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    store_batch(buffer, 3, reward=[1.0, 2.0, 3.0], mask=mask)
    assert backend.numpy(buffer.column("reward")).tolist() == [1, 3, 0, 0]
    assert (len(buffer), buffer.head) == (2, 2)
    buffer.check()


def test_a_device_array_may_be_given_to_a_device_buffer(device: Backend) -> None:
    buffer = device.buffer(3, 2, 8)
    store_batch(buffer, 2, obs=device.array(BATCH))
    store_batch(buffer, 2, obs=device.array(BATCH[:, ::-1].copy())[:, ::-1])  # a strided one
    store_batch(buffer, 2, obs=device.array(BATCH, np.float64))  # cast there
    store(buffer, obs=device.array(BATCH[0]))
    stored = device.numpy(buffer.column("obs"))
    np.testing.assert_array_equal(stored[:7], np.concatenate([BATCH, BATCH, BATCH, BATCH[:1]]))


# What the host refuses because of where it lies


@pytest.mark.parametrize("value", [OnDevice(), Shared([1, 2, 3], device=2)])
def test_a_host_buffer_refuses_device_arrays(value: Any) -> None:
    backend = Backend("host")
    buffer = backend.buffer(3, 2, 4)
    parts = ("obs", "device's memory", "cupy.asnumpy", "StoreReplayGpu")
    with refused(backend, buffer, DTypeError, *parts):
        store(buffer, obs=value)
    with refused(backend, buffer, DTypeError, "reward", "device's memory"):
        store_batch(buffer, 3, reward=value)
    with refused(backend, buffer, DTypeError, "mask", "device's memory"):
        store_batch(buffer, 3, mask=value)


def test_an_array_that_numpy_cannot_take_is_refused_with_its_reason() -> None:
    class Broken(Shared):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("requires grad")

    backend = Backend("host")
    buffer = backend.buffer(3, 2, 4)
    with refused(backend, buffer, DTypeError, "obs", "requires grad"):
        store(buffer, obs=Broken([1, 2, 3]))


def test_a_sequence_of_arrays_that_numpy_cannot_read_is_refused() -> None:
    class Implicit:
        def __array__(self, *arguments: Any, **options: Any) -> Any:
            raise TypeError("implicit conversion is not allowed")

    backend = Backend("host")
    buffer = backend.buffer(3, 2, 4)
    with refused(backend, buffer, DTypeError, "obs", "implicit conversion is not allowed"):
        store_batch(buffer, 2, obs=[Implicit(), Implicit()])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_masked_array_is_refused_since_its_mask_would_be_lost(
    dtype: str, backend: Backend
) -> None:
    buffer = backend.buffer(3, 2, 4)
    masked = np.ma.masked_array([1, 2, 3], mask=[False, True, False], dtype=dtype)
    with refused(backend, buffer, DTypeError, "obs", "mask", "fill it"):
        store(buffer, obs=masked)
    with refused(backend, buffer, DTypeError, "obs", "mask", "fill it"):
        store_batch(buffer, 1, obs=masked[None])


def test_other_kinds_of_ndarray_are_taken_as_the_arrays_they_are(backend: Backend) -> None:
    buffer = backend.buffer((1, 3), 2, 4)
    store(buffer, obs=np.asarray([[1, 2, 3]]).view(np.recarray), next_obs=np.zeros((1, 3)))
    assert backend.numpy(buffer.column("obs"))[0].tolist() == [[1, 2, 3]]


# Dtypes


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(3, np.complex64), [1j, 2, 3], np.array([1, 2, None], object), ["a", "b", "c"],
        "abc", np.zeros(3, "S1"), np.zeros(3, "datetime64[s]"), None, {"a": 1}, {1, 2, 3},
        np.zeros(3, [("a", "f4")]),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_number_is_refused(value: Any, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    store(buffer)
    with refused(backend, buffer, DTypeError, "obs: ", "a column of float32"):
        store(buffer, obs=value)


@pytest.mark.parametrize(
    "value", [1.0, 1.5, np.float32(1), np.array(1.0), math.nan, 1j, "1", None, [1.5]]
)
def test_a_float_does_not_go_into_an_integer_column(value: Any, backend: Backend) -> None:
    buffer = backend.buffer(3, (), 4, action_dtype="int64")
    with refused(backend, buffer, DTypeError, "action", "a column of int64", "cast it"):
        store(buffer, action=value)


@pytest.mark.parametrize("value", [1.0, np.float32(0), np.array(0.0)])
def test_a_float_is_no_flag(value: Any, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    with refused(backend, buffer, DTypeError, "terminated", "bool is wanted"):
        store(buffer, terminated=value)
    with refused(backend, buffer, DTypeError, "mask", "bool is wanted"):
        store_batch(buffer, 1, mask=[float(value)])


def test_a_device_array_of_another_kind_is_refused(device: Backend) -> None:
    buffer = device.buffer(3, (), 4, action_dtype="int32")
    for name, values, dtype in (
        ("obs", np.zeros((2, 3)), "int64"),
        ("action", np.zeros(2), "float32"),
        ("action", np.zeros(2), "int64"),
        ("terminated", np.zeros(2), "float32"),
    ):
        with refused(device, buffer, DTypeError, name, dtype):
            store_batch(
                buffer,
                2,
                **({"action": np.zeros(2, np.int32)} | {name: device.array(values, dtype)}),
            )


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32",
                                   "int64", "uint64", "float16", "float32", "float64"])  # fmt: skip
@pytest.mark.parametrize("form", [int, np.array, lambda number: [[number]]])
def test_integers_go_in_to_the_limits_of_exactness_and_not_past_them(dtype: str, form: Any) -> None:
    low, high = integer_limits(np.dtype(dtype))
    if dtype[0] in "iu":
        assert (low, high) == (np.iinfo(dtype).min, np.iinfo(dtype).max)
    else:
        significand = {"bool": 0, "float16": 11, "float32": 24, "float64": 53}[dtype]
        assert (low, high) == (-(2**significand) if significand else 0, 2**significand)
    backend = Backend("host")
    shape = (1, 1) if isinstance(form(0), list) else ()
    buffer = backend.buffer(3, shape, 4, action_dtype=dtype)
    for number in (low, high):
        store(buffer, action=form(number))
        stored = buffer.column("action")[buffer.head - 1].item()
        assert stored == number
    for number in (low - 1, high + 1):
        if not -(2**63) <= number < 2**64:
            continue  # NumPy has no integer for these
        with refused(backend, buffer, ColumnValueError, "action", str(number), str(low), str(high)):
            store(buffer, action=form(number))


def test_the_limits_of_integers_hold_on_every_back_end(backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4, extra_columns={"step": (), "kind": "int8"})
    store_batch(buffer, 2, step=np.array([2**24, -(2**24)]), kind=np.array([-128, 127]))
    assert backend.numpy(buffer.column("step"))[:2].tolist() == [2.0**24, -(2.0**24)]
    assert backend.numpy(buffer.column("kind"))[:2].tolist() == [-128, 127]
    with refused(backend, buffer, ColumnValueError, "step", "16777217", "16777216"):
        store_batch(buffer, 2, step=np.array([0, 2**24 + 1]), kind=np.array([0, 0]))
    with refused(backend, buffer, ColumnValueError, "kind", "128", "127"):
        store_batch(buffer, 2, step=np.zeros(2), kind=np.array([0, 128]))
    with refused(backend, buffer, ColumnValueError, "step", "-16777217"):
        store(buffer, step=-(2**24) - 1, kind=0)


@given(st.integers(-(2**63), 2**64 - 1))
@example(2**24 + 1)
@example(2**53 + 1)
@settings(max_examples=60, deadline=None)
def test_an_integer_that_goes_in_comes_back_the_same(number: int) -> None:
    for dtype in ("int8", "uint16", "int64", "uint64", "float16", "float32", "float64"):
        low, high = integer_limits(np.dtype(dtype))
        if low <= number <= high:
            assert host_array(number, column(dtype=dtype), None).item() == number
        else:
            with pytest.raises(ColumnValueError):
                host_array(number, column(dtype=dtype), None)


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30])
def test_an_integer_of_more_than_64_bits_is_refused_as_such(number: int, backend: Backend) -> None:
    buffer = backend.buffer(3, (), 4, action_dtype="int64")
    for wide in ({"action": number}, {"reward": number}, {"obs": [0, number, 1]}):
        with refused(backend, buffer, ColumnValueError, str(number), "unchanged"):
            store(buffer, **({"action": 0} | wide))


# Floats


@pytest.mark.parametrize(
    "reward",
    [1e39, -1e39, np.float64(1e39), np.array(1e39), [1e39], np.finfo(np.float64).max, 3.5e38],
)
def test_a_finite_number_never_becomes_infinite(reward: Any, backend: Backend) -> None:
    shape = (1,) if isinstance(reward, list) else ()
    buffer = backend.buffer(3, 2, 4, extra_columns={"bonus": shape})
    with refused(backend, buffer, ColumnValueError, "bonus", "infinite", "float32"):
        store(buffer, bonus=reward)
    with refused(backend, buffer, ColumnValueError, "bonus", "infinite", "float32"):
        store_batch(buffer, 2, bonus=np.broadcast_to(np.asarray(reward), (2, *shape)))


def test_one_overflow_among_many_numbers_is_found(backend: Backend) -> None:
    buffer = backend.buffer(100, 2, 4)
    obs = np.ones((2, 100))
    for place in ((0, 0), (1, 99), (1, 50)):
        wrong = obs.copy()
        wrong[place] = -1e300
        with refused(backend, buffer, ColumnValueError, "obs", "infinite"):
            buffer.add_batch(wrong, np.zeros((2, 2)), np.zeros(2), obs, np.zeros(2, bool))


def test_a_half_precision_column_refuses_what_it_cannot_hold(backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4, extra_columns={"short": "float16"})
    store(buffer, short=65504.0)
    assert backend.numpy(buffer.column("short"))[0] == 65504
    for value in (65520.0, np.float32(1e5), np.array(1e5), -1e300):
        with refused(backend, buffer, ColumnValueError, "short", "infinite", "float16"):
            store(buffer, short=value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("form", [float, np.float32, np.float64, np.array])
def test_infinity_and_nan_are_stored_as_they_are(value: float, form: Any, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    store(buffer, reward=form(value), obs=np.full(3, value))
    np.testing.assert_array_equal(backend.numpy(buffer.column("reward"))[0], np.float32(value))
    np.testing.assert_array_equal(
        backend.numpy(buffer.column("obs"))[0], np.full(3, value, np.float32)
    )


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(float(np.finfo(np.float32).max))
@example(np.nextafter(np.float64(np.finfo(np.float32).max), np.inf))
@example(5e-324)
@example(-0.0)
@settings(max_examples=150, deadline=None)
def test_a_float64_is_rounded_to_the_nearest_float32_or_refused(value: float) -> None:
    # Past the largest float32 by less than half its spacing, a value still rounds to it.
    fits = abs(Fraction(value)) < Fraction(2) ** 128 - Fraction(2) ** 103
    host = cpreplay.StoreReplay(3, 2, 4)
    for form in (float, np.float64, np.array):
        if not fits:
            with pytest.raises(ColumnValueError):
                store(host, reward=form(value))
            continue
        store(host, reward=form(value))
        with np.errstate(over="ignore"):
            expected = np.array(value).astype(np.float32)
        assert host.column("reward")[host.head - 1].tobytes() == expected.tobytes()


TINY = [
    1e-50, 1e-40, np.float64(1e-50), np.float64(-1e-40), np.float32(1e-45), np.array(1e-50),
    np.array(1e-40, np.float32),
]  # fmt: skip


@pytest.mark.parametrize("tiny", TINY, ids=lambda tiny: f"{type(tiny).__name__}-{tiny}")
def test_the_callers_numpy_error_state_changes_nothing(tiny: Any, backend: Backend) -> None:
    plain, strict = (backend.buffer(3, 2, 1, obs_store_dtype="uint8", seed=0) for _ in range(2))
    for buffer, state in ((plain, "ignore"), (strict, "raise")):
        store(buffer, reward=1.0)
        with np.errstate(all=state):
            store(buffer, obs=np.full(3, abs(tiny)), action=np.full(2, tiny), reward=tiny)
            store_batch(buffer, 1, obs=np.full((1, 3), abs(tiny)), reward=np.full(1, tiny))
            buffer.sample(5)
    assert fingerprint(backend, plain) == fingerprint(backend, strict)


# Shapes


@pytest.mark.parametrize(
    "value",
    [[1, 2], [1, 2, 3, 4], 5.0, np.zeros((3, 1)), np.zeros((1, 3)), np.zeros(0), [[1, 2, 3]],
     Shared([1.0, 2.0]), np.zeros(1, np.float32), np.zeros((), np.float32), np.float32(0),
     np.zeros((1, 3), np.float32)],
)  # fmt: skip
def test_another_shape_is_refused_and_never_broadcast(value: Any, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    got = f"shape {np.shape(getattr(value, '_values', value))}"
    with refused(backend, buffer, ShapeError, "next_obs", got, "(3,) is wanted"):
        store(buffer, next_obs=value)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(2, 3), (3,), (3, 3, 1), (3, 4), ()])
def test_a_batch_of_another_shape_is_refused(
    shape: tuple[int, ...], dtype: str, backend: Backend
) -> None:
    buffer = backend.buffer(3, 2, 4)
    value = np.zeros(shape, dtype)
    parts = ("next_obs", f"shape {value.shape}", "(3, 3) is wanted")
    with refused(backend, buffer, ShapeError, *parts):
        store_batch(buffer, 3, next_obs=value)
    if backend.is_device:
        with refused(backend, buffer, ShapeError, *parts):
            store_batch(buffer, 3, next_obs=backend.array(value, np.float32))


@pytest.mark.parametrize("name", ["action", "reward", "next_obs", "terminated", "mask"])
def test_columns_of_unequal_lengths_are_refused(name: str, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    shape = {"action": (4, 2), "next_obs": (4, 3)}.get(name, (4,))
    with refused(backend, buffer, ShapeError, name, "shape (4", "is wanted"):
        store_batch(buffer, 3, **{name: np.zeros(shape, bool)})


@pytest.mark.parametrize("number", [3.0, np.float32(3), np.array(3, np.float32)])
def test_a_single_number_is_no_batch(number: Any, backend: Backend) -> None:
    buffer = backend.buffer((), 2, 4)
    with refused(backend, buffer, ShapeError, "obs", "shape ()", "(N,) is wanted"):
        store_batch(buffer, 1, obs=number, next_obs=[3.0])


@pytest.mark.parametrize(
    ("shape", "hint"),
    [((1, 3), "add_batch"), ((3, 1), "reshape it first"), ((1, 1, 3), "reshape it first"),
     ((4,), ""), ((), ""), ((2, 2), "")],
)  # fmt: skip
def test_a_wrong_shape_comes_with_what_can_be_done_about_it(
    shape: tuple[int, ...], hint: str, backend: Backend
) -> None:
    buffer = backend.buffer(3, 2, 4)
    with pytest.raises(ShapeError) as caught:
        store(buffer, obs=np.zeros(shape))
    assert str(caught.value).endswith(hint or "is wanted")


def test_an_object_array_of_bools_holds_no_integers(backend: Backend) -> None:
    buffer = backend.buffer((), 2, 4)
    with refused(backend, buffer, DTypeError, "action", "object"):
        buffer.add(0, np.array([True, False], object), 0, 0, False)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float64"])
def test_empty_lists_are_an_empty_batch_of_any_dtype(dtype: str, backend: Backend) -> None:
    buffer = backend.buffer((), (), 4, action_dtype=dtype)
    buffer.add_batch([], [], [], [], [])
    buffer.add_batch([], np.zeros(0, np.uint8), [], [], [])
    assert len(buffer) == 0


@pytest.mark.parametrize("dtype", ["complex64", "U1", "datetime64[s]"])
def test_an_empty_array_of_no_numbers_is_refused(dtype: str, backend: Backend) -> None:
    buffer = backend.buffer((), (), 4)
    with refused(backend, buffer, DTypeError, "action"):
        buffer.add_batch([], np.zeros(0, dtype), [], [], [])


@pytest.mark.parametrize("value", [[1, [2, 3], 4], [[1, 2, 3], [1, 2]], [np.zeros(2), np.zeros(3)]])
def test_a_ragged_sequence_is_refused(value: Any, backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4)
    with refused(backend, buffer, ShapeError, "obs"):
        store(buffer, obs=value)
    with refused(backend, buffer, ShapeError, "next_obs"):
        store_batch(buffer, 2, next_obs=value)


# Observations as uint8 codes

QUANTIZED = column((), "float32", "uint8")


@given(st.floats(0, 1) | st.floats(-1e-3, 1 + 1e-3) | st.floats())
@example(1 + 1e-9)  # 1 as a float32
@example(float(np.nextafter(np.float32(1), np.float32(2))))
@example(-0.0)
@example(-1e-46)  # -0.0 as a float32
@example(-1e-45)
@example(math.nan)
@example(1e-45)
@example(1e-310)
@example(0.5 / 255)
@example(1.5 / 255)
@settings(max_examples=300, deadline=None)
def test_codes_are_the_models(value: float) -> None:
    if can_be_quantized(value):
        code = host_array(np.float64(value), QUANTIZED, None)
        assert (code.dtype, code.item()) == (np.uint8, quantize(value))
    else:
        with pytest.raises(ColumnValueError):
            host_array(np.float64(value), QUANTIZED, None)


@given(st.integers(0, 255), st.integers(-2, 2))
@settings(max_examples=200, deadline=None)
def test_codes_next_to_a_half_round_as_the_model(code: int, ulps: int) -> None:
    value = np.float32((code + 0.5) / 255)
    for _ in range(abs(ulps)):
        value = np.nextafter(value, np.float32(math.copysign(np.inf, ulps)))
    if can_be_quantized(float(value)):
        assert host_array(value, QUANTIZED, None).item() == quantize(float(value))


def test_every_code_comes_back_bit_for_bit(backend: Backend) -> None:
    exact = np.array([dequantize(code) for code in range(256)], np.float32)
    assert len(set(exact.tolist())) == 256
    buffer = backend.buffer(256, 2, 1, obs_store_dtype="uint8")
    buffer.add(exact, np.zeros(2), 0, exact[::-1], False)
    assert backend.numpy(buffer.column("obs"))[0].tolist() == list(range(256))
    batch = buffer.sample(2)
    assert backend.numpy(batch.obs)[1].tobytes() == exact.tobytes()
    assert backend.numpy(batch.next_obs)[0].tobytes() == exact[::-1].tobytes()


@pytest.mark.parametrize("value", [1.001, -0.001, math.nan, math.inf, -math.inf, 255, 2])
def test_the_host_refuses_observations_outside_zero_to_one(value: float) -> None:
    backend = Backend("host")
    buffer = backend.buffer(3, 2, 4, obs_store_dtype="uint8")
    store(buffer)
    parts = ("next_obs", "values in [0, 1]", "divide frames by 255", "obs_dtype='uint8'")
    with refused(backend, buffer, ColumnValueError, *parts):
        store(buffer, next_obs=np.array([0, value, 1]))
    with refused(backend, buffer, ColumnValueError, *parts):
        store_batch(buffer, 2, next_obs=np.array([[0, 0, 0], [0, 1, value]]))


def test_raw_frames_given_as_numbers_from_zero_to_one_go_in(backend: Backend) -> None:
    buffer = backend.buffer(3, 2, 4, obs_store_dtype="uint8")
    store(buffer, obs=np.array([0, 1, 1], np.uint8), next_obs=[False, True, False])
    assert backend.numpy(buffer.column("obs"))[0].tolist() == [0, 255, 255]
    assert backend.numpy(buffer.column("next_obs"))[0].tolist() == [0, 255, 0]


# What is left to the caller


@pytest.mark.parametrize("name", ["obs", "action", "reward", "next_obs", "terminated"])
def test_a_refused_value_in_any_column_leaves_all_columns_alone(
    name: str, backend: Backend
) -> None:
    buffer = backend.buffer(3, 2, 4)
    store_batch(buffer, 3, reward=[1, 2, 3])
    with refused(backend, buffer, DTypeError, name):
        store(buffer, **{"obs": np.ones(3), "reward": 9.0, name: "wrong"})
    with refused(backend, buffer, DTypeError, name):
        store_batch(buffer, 2, **{"obs": np.ones((2, 3)), "reward": [8, 9], name: ["x", "y"]})


def test_an_object_array_of_small_integers_is_what_its_integers_are(backend: Backend) -> None:
    buffer = backend.buffer((2,), (), 4, action_dtype="int8")
    buffer.add(np.array([1, 2], object), np.array(3, object), 0, [0, 0], False)
    assert backend.numpy(buffer.column("action"))[0] == 3
    with refused(backend, buffer, cpreplay.ColumnValueError, "action", "-128 to 127"):
        buffer.add([1, 2], np.array(300, object), 0, [0, 0], False)
    with refused(backend, buffer, cpreplay.ColumnValueError, "action", str(2**70)):
        buffer.add([1, 2], 2**70, 0, [0, 0], False)


@pytest.mark.parametrize("out", [[], "batch", {"obs": 1}, np.zeros(4)])
def test_an_out_that_is_no_batch_is_refused(out: Any, backend: Backend) -> None:
    buffer = backend.buffer((2,), (), 4)
    buffer.add([1, 2], 3, 0, [0, 0], False)
    with refused(backend, buffer, cpreplay.ShapeError, "make_batch", type(out).__name__):
        buffer.sample(4, out=out)


def test_batches_of_many_sizes_do_not_pile_up() -> None:
    buffer = cpreplay.StoreReplay((2,), (), 4)
    buffer.add([1, 2], 3, 0, [0, 0], False)
    for size in range(1, 200):
        assert len(buffer.sample(size)) == size
    assert len(buffer._ops._blocks) <= 64


def test_the_least_integer_is_stored(backend: Backend) -> None:
    buffer = backend.buffer(1, (), 4, action_dtype="int64")
    with np.errstate(all="raise"):
        buffer.add([0.0], np.int64(-(2**63)), 0, [0.0], False)
    assert backend.numpy(buffer.column("action"))[0] == -(2**63)


def test_integers_that_numpy_would_make_floats_of_stay_integers(backend: Backend) -> None:
    # NumPy has no integer type for 2**63 and -1 together, and makes both float64.
    buffer = backend.buffer(2, 2, 4, action_dtype="uint64")
    buffer.add([0, 1], [2**63, 1], 0, [0, 1], False)
    assert backend.numpy(buffer.column("action"))[0].tolist() == [2**63, 1]
    with refused(backend, buffer, cpreplay.ColumnValueError, "obs", str(2**63), "unchanged"):
        buffer.add([2**63, -1], [0, 1], 0, [0, 1], False)
    buffer.add([1e20, -1.0], [0, 1], 0, [0, 1], False)  # floats are floats
    assert backend.numpy(buffer.column("obs"))[1].tolist() == [np.float32(1e20), -1.0]


def test_any_byte_but_zero_is_true(backend: Backend) -> None:
    # A bool array that views other memory may hold bytes other than 0 and 1.
    buffer = backend.buffer((), (), 8, extra_columns={"flags": (300, "bool")})
    codes = np.array([0, 1, 2, 255, 128], np.uint8)
    wide = np.repeat(codes[:, None], 300, axis=1)
    zeros = np.zeros(5, np.float32)
    flags, terminated = backend.array(wide).view(bool), backend.array(codes).view(bool)
    buffer.add_batch(zeros, zeros, zeros, zeros, terminated, flags=flags)
    buffer.add(0, 0, 0, 0, terminated[3], flags=flags[3])
    buffer.check()
    batch = buffer.sample(64)
    expected = np.array([False, True, True, True, True, True])[backend.numpy(batch.indices)]
    assert backend.numpy(batch.terminated).tobytes() == expected.tobytes()
    assert (backend.numpy(batch["flags"]) == expected[:, None]).all()


def test_the_callers_code_does_not_run_under_the_lock(backend: Backend) -> None:
    class Lazy:
        """A value that looks at the buffer when it is made into an array."""

        def __array__(self, *args: Any, **options: Any) -> np.ndarray:
            assert not buffer._lock.locked()
            return np.full(1, len(buffer), np.float32)

    buffer = backend.buffer(1, 1, 4)
    buffer.add(Lazy(), [0], 0, Lazy(), False)
    buffer.add(Lazy(), [0], 0, Lazy(), False)
    assert backend.numpy(buffer.column("obs"))[:2].tolist() == [[0], [1]]


@pytest.mark.parametrize("skipped", [1, 2, 3])
def test_a_device_array_may_begin_at_any_address(skipped: int, device: Backend) -> None:
    # 4 float32 of an observation are 16 bytes, but these arrays begin 4, 8 and 12 bytes late
    # (bytes of flags: 1, 2 and 3 late), so they have to be read in narrower words.
    buffer = device.buffer((4,), (2,), 8)

    def shifted(column: np.ndarray) -> Any:
        padded = np.concatenate([np.zeros(skipped, column.dtype), column.ravel()])
        return device.array(padded)[skipped:].reshape(column.shape)

    rows = numbered_rows(0, 5, (4,))
    buffer.add_batch(**{name: shifted(column) for name, column in rows.items()})
    assert stored_numbers(buffer, device.numpy) == [0, 1, 2, 3, 4, None, None, None]


def test_numpys_integers_meet_the_limits_of_a_float_column(backend: Backend) -> None:
    buffer = backend.buffer((), (), 4)
    buffer.add(0, 0, np.int64(2**24), 0, False)
    with refused(backend, buffer, cpreplay.ColumnValueError, "reward"):
        buffer.add(0, 0, np.int64(2**24 + 1), 0, False)


def test_a_wrong_shape_is_told_what_to_do(backend: Backend) -> None:
    buffer = backend.buffer(3, 1, 4)
    row = {"obs": [0, 0, 0], "action": [0], "reward": 0, "next_obs": [0, 0, 0], "terminated": False}
    batch = {name: [value] * 5 for name, value in row.items()}
    hints = [
        (buffer.add_batch, {**batch, "obs": [0, 0, 0]}, "(3,), and (N, 3)", "call add"),
        (buffer.add, {**row, "obs": [[0, 0, 0]] * 8}, "(8, 3), and (3,)", "call add_batch"),
        (buffer.add_batch, {**batch, "action": [0] * 5}, "(5,), and (5, 1)", "reshape it"),
        (buffer.add_batch, {**batch, "reward": [[0]] * 5}, "(5, 1), and (5,)", "reshape it"),
    ]
    for call, values, shapes, advice in hints:
        with refused(backend, buffer, cpreplay.ShapeError, shapes, advice):
            call(**values)


def test_a_device_tensor_that_needs_a_gradient_is_refused_in_our_words() -> None:
    class NeedsGradient:
        """Refuses the older protocol as PyTorch does, and says by DLPack where it lies."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on a tensor that needs a gradient"
            )

    buffer = cpreplay.StoreReplay(3, 1, 4)
    with pytest.raises(cpreplay.DTypeError, match=r"obs: .*in a device's memory"):
        buffer.add(NeedsGradient(), [0], 0, [0, 0, 0], False)


# What an update of priorities may be given


def prioritized(backend: Backend) -> Any:
    """A buffer of 8 rows that holds 6."""
    buffer = backend.buffer(3, 2, 8, True, seed=1)
    store_batch(buffer, 6)
    return buffer


def masses(backend: Backend, buffer: Any) -> list[float]:
    leaves: list[float] = backend.numpy(buffer._ops.priorities.levels()[0])[:8].tolist()
    return leaves


ROWS, ERRORS = np.array([4, 0, 2]), np.array([0.5, -2.0, 3.0])
# (|td| + 1e-6) ** 0.6, rounded to float32, by NumPy's own hand.
LEAVES = np.array([(2 + 1e-6) ** 0.6, 1, (3 + 1e-6) ** 0.6, 1, (0.5 + 1e-6) ** 0.6, 1, 0, 0], "f4")


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def integers(change: Any) -> Any:
    """A form for the rows, which leaves the errors as they are."""
    return lambda values: change(values) if values.dtype.kind == "i" else values


FORMS: dict[str, Any] = {
    "array": lambda values: values,
    "list": lambda values: values.tolist(),
    "tuple": lambda values: tuple(values.tolist()),
    "list of numpy numbers": list,
    "objects": integers(lambda values: np.array(values.tolist(), object)),
    "array.array": lambda values: array.array("q" if values.dtype.kind == "i" else "d", values),
    "memoryview": memoryview,
    "swapped byte order": lambda values: values.astype(values.dtype.newbyteorder()),
    "every other": lambda values: np.repeat(values, 2)[::2],
    "backwards": lambda values: values[::-1].copy()[::-1],
    "a column of a matrix": lambda values: np.stack([values, values], 1)[:, 0],
    "read-only": read_only,
    "not aligned": lambda values: np.frombuffer(b"?" + values.tobytes(), values.dtype, offset=1),
    "DLPack": Shared,
    "DLPack, strided": lambda values: Shared(np.repeat(values, 2)[::2]),
    "DLPack, pinned": lambda values: Shared(values, device=3),
    "int32 and float32": lambda values: values.astype(f"{values.dtype.kind}4"),
    "int16 and float16": lambda values: values.astype(f"{values.dtype.kind}2"),
    "DLPack of int32 and float32": lambda values: Shared(values.astype(f"{values.dtype.kind}4")),
    "uint8": integers(lambda values: values.astype(np.uint8)),
    "uint64": integers(lambda values: values.astype(np.uint64)),
    "longdouble": lambda values: values.astype("g") if values.dtype.kind == "f" else values,
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_rows_and_errors_of_an_update_may_be_given_in_many_forms(
    form: str, backend: Backend
) -> None:
    for rows, errors in (
        (FORMS[form](ROWS), ERRORS),
        (ROWS, FORMS[form](ERRORS)),
        (FORMS[form](ROWS), FORMS[form](ERRORS)),
    ):
        buffer = prioritized(backend)
        buffer.update_priorities(rows, errors)
        assert masses(backend, buffer) == LEAVES.tolist()
        buffer.check()


@pytest.mark.parametrize("errors", [[1, -2, 3], np.array([1, -2, 3]), np.array([1, -2, 3], "i1")])
def test_errors_may_be_integers(errors: Any, backend: Backend) -> None:
    buffer = prioritized(backend)
    buffer.update_priorities([0, 1, 2], errors)
    expected = (np.array([1.0, 2.0, 3.0]) + 1e-6) ** 0.6
    assert masses(backend, buffer)[:3] == expected.astype(np.float32).tolist()


OWN_FORMS: dict[str, Any] = {
    "as it is": lambda backend, values: backend.array(values),
    "narrow": lambda backend, values: backend.array(values, f"{values.dtype.kind}4"),
    "narrower": lambda backend, values: backend.array(values, f"{values.dtype.kind}2"),
    "strided": lambda backend, values: backend.array(np.repeat(values, 2))[::2],
    "backwards": lambda backend, values: backend.array(values[::-1].copy())[::-1],
    "late": lambda backend, values: backend.array(np.concatenate([values[:1], values]))[1:],
    "DLPack": lambda backend, values: DeviceShared(backend.array(values)),
}


class DeviceShared:
    """A device array that offers DLPack and nothing else."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._array.__dlpack_device__()
        return device


@pytest.mark.parametrize("form", OWN_FORMS)
def test_rows_and_errors_of_an_update_may_lie_on_the_device(form: str, device: Backend) -> None:
    for rows, errors in (
        (OWN_FORMS[form](device, ROWS), ERRORS),
        (ROWS, OWN_FORMS[form](device, ERRORS)),
        (OWN_FORMS[form](device, ROWS), OWN_FORMS[form](device, ERRORS)),
    ):
        buffer = prioritized(device)
        buffer.update_priorities(rows, errors)
        assert masses(device, buffer) == LEAVES.tolist()


def test_a_float32_error_is_that_number_in_float64(backend: Backend) -> None:
    buffer = prioritized(backend)
    buffer.update_priorities([0], np.array([7.1], np.float32))
    assert buffer.stats()["max_priority"] == float(np.float32(7.1)) + 1e-6
    buffer.update_priorities([1], [7.2])  # which a list of floats is already
    assert buffer.stats()["max_priority"] == 7.2 + 1e-6


def test_a_batch_of_other_frameworks_tensors_comes_back(backend: Backend) -> None:
    buffer, twin = prioritized(backend), prioritized(backend)
    batch = buffer.sample(5)
    wrapped = DeviceShared if backend.is_device else Shared
    errors = np.linspace(0, 4, 5)
    for part in (buffer, twin):
        store_batch(part, 4)  # over rows 0 and 1
    buffer.update_priorities(batch.map(wrapped), wrapped(backend.array(errors)))
    rows = backend.numpy(batch.indices)
    twin.update_priorities(rows[rows > 1], errors[rows > 1])
    assert masses(backend, buffer) == masses(backend, twin)
    assert buffer.stats()["stale_updates"] == np.count_nonzero(rows < 2)


def test_an_update_of_no_lanes_changes_nothing(backend: Backend) -> None:
    buffer = prioritized(backend)
    before = fingerprint(backend, buffer)
    for rows in ([], (), np.zeros(0, np.int64), backend.array([], np.int64)):
        buffer.update_priorities(rows, [])
        buffer.update_priorities(rows, np.zeros(0, np.float32))
    buffer.update_priorities(buffer.make_batch(3).map(lambda array: array[:0]), [])
    assert fingerprint(backend, buffer) == before
    empty = backend.buffer(3, 2, 8, True)
    empty.update_priorities([], [])
    assert empty.stats()["priority_total"] == 0


def test_what_was_given_for_an_update_is_neither_kept_nor_changed(backend: Backend) -> None:
    for own in (False, True):
        buffer = prioritized(backend)
        rows, errors = ROWS.copy(), ERRORS.copy()
        if own:
            rows, errors = backend.array(rows), backend.array(errors)
        buffer.update_priorities(rows, errors)
        assert backend.numpy(rows).tolist() == ROWS.tolist()
        assert backend.numpy(errors).tolist() == ERRORS.tolist()
        rows[...], errors[...] = 1, 100.0
        assert masses(backend, buffer) == LEAVES.tolist()
        buffer.update_priorities([4, 0, 2], [0.5, -2.0, 3.0])
        assert masses(backend, buffer) == LEAVES.tolist()


@pytest.mark.parametrize(
    ("rows", "errors", "parts"),
    [
        ([0, 1, 2], [1.0, 2.0], ("td_errors", "(2,), and (3,) is wanted")),
        ([0, 1], np.ones(3), ("td_errors", "(3,), and (2,) is wanted")),
        ([0, 1, 2], np.ones((3, 1)), ("td_errors", "(3, 1), and (3,) is wanted", "reshape it")),
        ([0, 1, 2], np.ones((1, 3)), ("td_errors", "(1, 3), and (3,) is wanted", "reshape it")),
        ([0], 1.0, ("td_errors", "(), and (1,) is wanted")),
        (0, [1.0], ("indices", "(), and (N,) is wanted")),
        (np.int64(0), 1.0, ("indices", "(), and (N,) is wanted")),
        ([[0, 1]], [[1.0, 2.0]], ("indices", "(1, 2), and (N,) is wanted")),
        ([[0], [1]], [1.0, 2.0], ("indices", "(2, 1), and (N,) is wanted")),
        ([[0], [1, 2]], [1.0, 2.0], ("indices",)),
        ([0, 1], [[1.0], [1.0, 2.0]], ("td_errors",)),
        ([], [1.0], ("td_errors", "(1,), and (0,) is wanted")),
    ],
    ids=str,
)
def test_an_update_has_one_error_for_each_row(
    rows: Any, errors: Any, parts: tuple[str, ...], backend: Backend
) -> None:
    buffer = prioritized(backend)
    with refused(backend, buffer, ShapeError, *parts):
        buffer.update_priorities(rows, errors)


def test_device_arrays_of_an_update_have_one_error_for_each_row(device: Backend) -> None:
    buffer = prioritized(device)
    column = device.array(np.ones((3, 1)))
    with refused(device, buffer, ShapeError, "td_errors", "(3, 1), and (3,) is wanted"):
        buffer.update_priorities(ROWS, column)
    with refused(device, buffer, ShapeError, "indices", "(3, 1), and (N,) is wanted"):
        buffer.update_priorities(column.astype(np.int64), ERRORS)


@pytest.mark.parametrize(
    "rows",
    [[0.0, 1.0, 2.0], np.array([0, 1, 2], np.float32), ["a", "b", "c"], "abc", None, 1j,
     np.array([0, None, 2], object), {"a": 1}, np.zeros(3, "datetime64[s]"), math.nan],
    ids=str,
)  # fmt: skip
def test_rows_of_an_update_are_integers(rows: Any, backend: Backend) -> None:
    buffer = prioritized(backend)
    with refused(backend, buffer, DTypeError, "indices", "int64 is wanted"):
        buffer.update_priorities(rows, ERRORS)


@pytest.mark.parametrize(
    "mask", [np.array([True, False, True]), [True, False, True], (np.True_, np.True_, np.False_),
             Shared(np.array([True, False, True]))],
    ids=["array", "list", "tuple", "DLPack"],
)  # fmt: skip
def test_a_mask_is_not_taken_for_the_rows_zero_and_one(mask: Any, backend: Backend) -> None:
    buffer = prioritized(backend)
    with refused(backend, buffer, DTypeError, "indices", "bool"):
        buffer.update_priorities(mask, ERRORS)


def test_a_device_mask_is_not_taken_for_the_rows_zero_and_one(device: Backend) -> None:
    buffer = prioritized(device)
    with refused(device, buffer, DTypeError, "indices", "bool"):
        buffer.update_priorities(device.array([True, False, True]), ERRORS)


@pytest.mark.parametrize(
    "errors",
    [["a", "b", "c"], "abc", [1j, 2, 3], [1.0, None, 2.0], None, {1.0}, np.zeros(3, "c8")],
    ids=str,
)  # fmt: skip
def test_errors_are_numbers(errors: Any, backend: Backend) -> None:
    buffer = prioritized(backend)
    with refused(backend, buffer, DTypeError, "td_errors", "float64 is wanted"):
        buffer.update_priorities(ROWS, errors)


def test_masked_arrays_are_refused_in_an_update_too(backend: Backend) -> None:
    buffer = prioritized(backend)
    hidden = [False, True, False]
    with refused(backend, buffer, DTypeError, "td_errors", "mask", "fill it"):
        buffer.update_priorities(ROWS, np.ma.masked_array(ERRORS, hidden))
    with refused(backend, buffer, DTypeError, "indices", "mask", "fill it"):
        buffer.update_priorities(np.ma.masked_array(ROWS, hidden), ERRORS)


@pytest.mark.parametrize("row", [2**63, 2**64 - 1, 2**70, -(2**63) - 1])
def test_a_row_beyond_int64_is_refused_as_such(row: int, backend: Backend) -> None:
    buffer = prioritized(backend)
    with refused(backend, buffer, ColumnValueError, "indices", str(row)):
        buffer.update_priorities([0, row], [1.0, 1.0])


def test_a_device_array_of_uint64_is_no_array_of_rows(device: Backend) -> None:
    buffer = prioritized(device)  # it might hold numbers that int64 does not
    with refused(device, buffer, DTypeError, "indices", "uint64"):
        buffer.update_priorities(device.array(ROWS, np.uint64), ERRORS)


def test_an_integer_error_that_float64_would_round_is_refused(backend: Backend) -> None:
    buffer = prioritized(backend)
    with refused(backend, buffer, ColumnValueError, "td_errors", str(2**53 + 1), "unchanged"):
        buffer.update_priorities([0], [2**53 + 1])


@pytest.mark.parametrize("value", [OnDevice(), Shared([1, 2, 3], device=2)])
def test_a_host_buffer_refuses_device_arrays_in_an_update(value: Any) -> None:
    backend = Backend("host")
    buffer = prioritized(backend)
    parts = ("device's memory", "cupy.asnumpy", "StoreReplayGpu")
    with refused(backend, buffer, DTypeError, "td_errors", *parts):
        buffer.update_priorities(ROWS, value)
    with refused(backend, buffer, DTypeError, "indices", *parts):
        buffer.update_priorities(value, ERRORS)
    batch = buffer.sample(3).map(lambda array: value)
    with refused(backend, buffer, DTypeError, *parts):
        buffer.update_priorities(batch, ERRORS)


def test_errors_that_still_need_a_gradient_are_refused_with_the_reason(backend: Backend) -> None:
    class NeedsGradient(Shared):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    buffer = prioritized(backend)
    with refused(backend, buffer, DTypeError, "td_errors", "use tensor.detach()"):
        buffer.update_priorities(ROWS, NeedsGradient(ERRORS))


def test_an_updates_own_code_does_not_run_under_the_lock(backend: Backend) -> None:
    class Lazy:
        """A value that looks at the buffer when it is made into an array."""

        def __init__(self, values: Any) -> None:
            self.values = values

        def __array__(self, *args: Any, **options: Any) -> np.ndarray:
            assert not buffer._lock.locked()
            assert len(buffer) == 6
            return np.array(self.values)

    buffer = prioritized(backend)
    buffer.update_priorities(Lazy(ROWS), Lazy(ERRORS))
    assert masses(backend, buffer) == LEAVES.tolist()
