"""What each index policy refuses, and which of them go together."""

from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay.errors import ConfigurationError, EmptyBufferError, OrderError, SampleRangeError
from tests.conftest import Backend
from tests.refusals import refused
from tests.strategies import numbered_rows


def with_rows(backend: Backend, rows: int, capacity: int = 20, **options: Any) -> Any:
    buffer = backend.buffer((), (), capacity, seed=5, **options)
    add_rows(buffer, rows)
    return buffer


def add_rows(buffer: Any, rows: int) -> None:
    zeros = np.zeros(rows, np.float32)
    buffer.add_batch(zeros, zeros, zeros, zeros, zeros.astype(bool))


def drawn(backend: Backend, buffer: Any, batch_size: int = 400) -> list[int]:
    rows: list[int] = backend.numpy(buffer.sample(batch_size).indices).tolist()
    return rows


# Draws


def test_an_empty_buffer_gives_nothing(backend: Backend) -> None:
    buffer = with_rows(backend, 0)
    with refused(backend, buffer, EmptyBufferError, "cannot sample 4", "holds none", "add some"):
        buffer.sample(4)
    with refused(backend, buffer, EmptyBufferError, "holds none"):
        buffer.sample(4, buffer.make_batch(4))
    with refused(backend, buffer, SampleRangeError, "rows [0, 1)", "holds 0 of 20", "add rows"):
        buffer.sample_range(4, 0, 1)
    buffer.configure_ere()
    with refused(backend, buffer, EmptyBufferError, "holds none"):
        buffer.sample(4)


@pytest.mark.parametrize(
    "size", [0, -1, 2**31, 2**70, True, False, 1.0, 2.5, "4", None, [4], np.float64(4)]
)
def test_a_batch_size_is_an_int_from_1_to_2_31_less_one(size: Any, backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    parts = (f"batch_size={size!r}", "an int >= 1")
    for call in (buffer.sample, buffer.make_batch, lambda size: buffer.sample_range(size, 0, 5)):
        with refused(backend, buffer, SampleRangeError, *parts):
            call(size)


@pytest.mark.parametrize("size", [np.int64(3), np.uint8(3), 3])
def test_numpys_ints_are_ints(size: Any, backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    assert len(buffer.sample(size)) == 3
    assert len(buffer.sample_range(size, np.int32(0), np.uint64(5))) == 3
    assert len(buffer.make_batch(size)) == 3


@pytest.mark.parametrize(
    ("lo", "hi"),
    [(0, 6), (5, 6), (4, 20), (0, 21), (-1, 3), (-3, -1), (3, 3), (4, 2), (0, 0), (0, 2**70)],
)
def test_a_range_outside_the_rows_held_is_refused(lo: int, hi: int, backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    parts = (f"rows [{lo}, {hi})", "holds 5 of 20", "ask inside [0, 5)")
    with refused(backend, buffer, SampleRangeError, *parts):
        buffer.sample_range(4, lo, hi)


@pytest.mark.parametrize(
    ("lo", "hi"), [(0.0, 3), (0, 3.0), (None, 3), (0, None), (False, True), ("0", 3), (0, [3])]
)
def test_the_ends_of_a_range_are_ints(lo: Any, hi: Any, backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    with refused(backend, buffer, SampleRangeError, f"[{lo!r}, {hi!r})", "have to be ints"):
        buffer.sample_range(4, lo, hi)


def test_a_range_is_possible_under_every_policy(backend: Backend) -> None:
    for prepare in (
        lambda buffer: None,
        lambda buffer: buffer.configure_ere(eta=0.5),
        lambda buffer: buffer.pin_demo_prefix(5, batch_size=4),
    ):
        buffer = with_rows(backend, 5)
        prepare(buffer)
        add_rows(buffer, 5)
        before = buffer._ops.control()
        rows = backend.numpy(buffer.sample_range(300, 3, 8).indices).tolist()
        assert set(rows) == {3, 4, 5, 6, 7}
        assert buffer._ops.control() == before | {"draws": before["draws"] + 1}


# ERE


@pytest.mark.parametrize("eta", [0, 0.0, -0.5, 1.0000001, 2, float("nan"), float("inf")])
def test_eta_is_in_zero_to_one(eta: float, backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    with refused(backend, buffer, ConfigurationError, f"eta={eta!r}", "(0, 1]"):
        buffer.configure_ere(eta=eta)


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None, 2**63, 2**70])
@pytest.mark.parametrize("name", ["c_min", "k_max"])
def test_the_counts_of_ere_are_ints_of_at_least_one(
    name: str, value: Any, backend: Backend
) -> None:
    buffer = with_rows(backend, 5)
    with refused(backend, buffer, ConfigurationError, f"{name}={value!r}"):
        buffer.configure_ere(**{name: value})


@pytest.mark.parametrize("eta", ["0.9", None, 1j, [0.9]])
def test_eta_is_a_number(eta: Any, backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    with refused(backend, buffer, ConfigurationError, f"eta={eta!r}"):
        buffer.configure_ere(eta=eta)


@pytest.mark.parametrize("enable", [0.99, "no", 2, None])
def test_enable_is_a_bool_so_that_eta_cannot_slip_into_its_place(
    enable: Any, backend: Backend
) -> None:
    buffer = with_rows(backend, 5)
    with refused(backend, buffer, ConfigurationError, f"enable={enable!r}"):
        buffer.configure_ere(enable)


@pytest.mark.parametrize("true", [True, np.True_])
def test_numpys_bools_are_bools(true: Any, backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    buffer.configure_ere(true)
    assert buffer.stats()["ere"] is True
    buffer.configure_ere(~np.bool_(true))
    assert buffer.stats()["ere"] is False


def test_naming_eta_alone_switches_ere_on(backend: Backend) -> None:
    buffer = with_rows(backend, 20)
    assert not buffer.stats()["ere"]
    buffer.configure_ere(eta=0.5)
    assert buffer.stats()["ere"]
    drawn(backend, buffer)  # the first window is whole
    assert set(drawn(backend, buffer)) == set(range(10, 20))
    buffer.configure_ere(enable=False)
    assert not buffer.stats()["ere"]
    assert set(drawn(backend, buffer)) == set(range(20))


@pytest.mark.parametrize("eta", [1, 1.0, np.float32(1)])
def test_an_eta_of_one_never_shrinks_the_window(eta: Any, backend: Backend) -> None:
    buffer = with_rows(backend, 20)
    buffer.configure_ere(eta=eta, k_max=2**63 - 1)
    for _ in range(3):
        assert set(drawn(backend, buffer)) == set(range(20))


def test_a_vanishing_window_needs_no_care_of_the_callers_error_state(backend: Backend) -> None:
    buffer = with_rows(backend, 20)
    with np.errstate(all="raise"):
        buffer.configure_ere(eta=1e-160, k_max=10)
        for _ in range(5):
            buffer.sample(3)
    control = buffer._ops.control()
    assert (control["k"], control["eta_power"], control["draws"]) == (5, 0.0, 5)


# Pinned demonstrations


@pytest.mark.parametrize("n", [0, -1, 4, 6, True, 5.0, "5", None, 2**70])
def test_the_prefix_is_exactly_what_was_added(n: Any, backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    parts = (f"n={n!r}", "5 rows were added", "exactly what was added")
    with refused(backend, buffer, ConfigurationError, *parts):
        buffer.pin_demo_prefix(n, batch_size=4)


def test_nothing_can_be_pinned_before_anything_was_added(backend: Backend) -> None:
    buffer = with_rows(backend, 0)
    with refused(backend, buffer, ConfigurationError, "n=0", "0 rows were added", "at least one"):
        buffer.pin_demo_prefix(0, batch_size=4)


def test_a_prefix_leaves_room_for_a_minibatch(backend: Backend) -> None:
    buffer = with_rows(backend, 17)
    parts = ("n=17", "3 of 20", "one minibatch of 4", "larger capacity")
    with refused(backend, buffer, ConfigurationError, *parts):
        buffer.pin_demo_prefix(17, batch_size=4)
    buffer.pin_demo_prefix(17, batch_size=3)
    assert buffer.demo_count == 17


@pytest.mark.parametrize("rows", [20, 21, 45])
def test_a_full_or_wrapped_ring_cannot_be_pinned(rows: int, backend: Backend) -> None:
    buffer = with_rows(backend, rows)
    with refused(backend, buffer, ConfigurationError, f"n={rows}", "none of the 20 rows"):
        buffer.pin_demo_prefix(rows, batch_size=1)
    with refused(backend, buffer, ConfigurationError, "n=19", f"{rows} rows were added"):
        buffer.pin_demo_prefix(19, batch_size=1)


@pytest.mark.parametrize("batch_size", [0, -3, True, 2.0, "4"])
def test_the_batch_size_of_a_pin_is_a_count(batch_size: Any, backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    with refused(backend, buffer, ConfigurationError, f"batch_size={batch_size!r}", "int >= 1"):
        buffer.pin_demo_prefix(5, batch_size=batch_size)


def test_a_second_pin_is_refused(backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    buffer.pin_demo_prefix(5, batch_size=4)
    add_rows(buffer, 2)
    for n in (5, 7):
        with refused(backend, buffer, OrderError, "5 rows are pinned already", "another buffer"):
            buffer.pin_demo_prefix(n, batch_size=4)


def test_a_batch_larger_than_the_online_rows_is_refused_later(backend: Backend) -> None:
    buffer = with_rows(backend, 15)
    buffer.pin_demo_prefix(15, batch_size=4)
    add_rows(buffer, 5)
    assert len(buffer.sample(5)) == 5  # there is room for five
    with refused(backend, buffer, SampleRangeError, "cannot sample 6", "5 online rows", "capacity"):
        buffer.sample(6)


def test_the_device_has_to_know_the_batch_size_of_a_pin(device: Backend) -> None:
    buffer = with_rows(device, 5)
    with refused(device, buffer, ConfigurationError, "batch_size is required on the device"):
        buffer.pin_demo_prefix(5)


def test_the_host_may_leave_the_batch_size_out_and_then_draws_any() -> None:
    backend = Backend("host")
    buffer = with_rows(backend, 19)
    buffer.pin_demo_prefix(19)
    add_rows(buffer, 1)
    assert len(buffer.sample(50)) == 50


# Together


def test_ere_is_refused_on_a_pinned_buffer(backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    buffer.pin_demo_prefix(5, batch_size=4)
    for options in ({}, {"enable": False}, {"eta": 0.5}):
        with refused(
            backend, buffer, OrderError, "5 demonstrations are pinned", "without a prefix"
        ):
            buffer.configure_ere(**options)


def test_a_prefix_is_refused_under_ere_until_ere_is_off(backend: Backend) -> None:
    buffer = with_rows(backend, 5)
    buffer.configure_ere()
    with refused(backend, buffer, OrderError, "ERE is on", "configure_ere(enable=False)"):
        buffer.pin_demo_prefix(5, batch_size=4)
    buffer.configure_ere(enable=False)
    buffer.pin_demo_prefix(5, batch_size=4)
    assert buffer.demo_count == 5


@pytest.mark.parametrize("rows", [0, 5, 27])
def test_ere_and_a_prefix_are_refused_on_a_prioritized_buffer(rows: int, backend: Backend) -> None:
    buffer = with_rows(backend, rows, prioritized=True)
    for options in ({}, {"enable": False}, {"eta": 0.5}, {"eta": "none"}):
        with refused(backend, buffer, OrderError, "configure_ere", "prioritized", "leave the call"):
            buffer.configure_ere(**options)
    for n in (rows, 3):
        with refused(backend, buffer, OrderError, "pin_demo_prefix", "is prioritized", "without"):
            buffer.pin_demo_prefix(n, batch_size=4)


PER_CALLS: dict[str, Any] = {
    "configure_per": lambda buffer: buffer.configure_per(),
    "set_beta": lambda buffer: buffer.set_beta(0.5),
    "update_priorities": lambda buffer: buffer.update_priorities([0, 1], [1.0, 1.0]),
}
PREPARED: dict[str, Any] = {
    "uniform": lambda buffer: None,
    "ERE": lambda buffer: buffer.configure_ere(),
    "pinned": lambda buffer: buffer.pin_demo_prefix(5, batch_size=4),
}


@pytest.mark.parametrize("policy", PREPARED)
@pytest.mark.parametrize("call", PER_CALLS)
def test_a_buffer_without_priorities_has_none_to_set(
    call: str, policy: str, backend: Backend
) -> None:
    buffer = with_rows(backend, 5)
    PREPARED[policy](buffer)
    with refused(backend, buffer, OrderError, call, "no priorities", "prioritized=True"):
        PER_CALLS[call](buffer)
    assert buffer.sample(4).weights is None
    with refused(backend, buffer, OrderError, "update_priorities", "prioritized=True"):
        buffer.update_priorities(buffer.make_batch(4), [1.0] * 4)


@pytest.mark.parametrize("prioritized", [1, 0, None, "yes", 0.6])
def test_prioritized_is_a_bool(prioritized: Any, backend: Backend) -> None:
    with pytest.raises(ConfigurationError, match=r"prioritized=.* True or False"):
        backend.buffer(3, 2, 8, prioritized)
    assert backend.buffer(3, 2, 8, np.True_).prioritized is True
    assert backend.buffer(3, 2, 8, np.False_).prioritized is False


def test_an_empty_prioritized_buffer_gives_nothing(backend: Backend) -> None:
    buffer = with_rows(backend, 0, prioritized=True)
    with refused(backend, buffer, EmptyBufferError, "cannot sample 4", "holds none", "add some"):
        buffer.sample(4)
    with refused(backend, buffer, EmptyBufferError, "holds none"):
        buffer.sample(4, buffer.make_batch(4))
    with refused(backend, buffer, SampleRangeError, "rows [0, 1)", "holds 0 of 20", "add rows"):
        buffer.sample_range(4, 0, 1)


def test_a_range_of_a_prioritized_buffer_is_uniform_with_weights_of_one(backend: Backend) -> None:
    buffer = with_rows(backend, 10, prioritized=True)
    buffer.update_priorities(np.arange(10), [0.0] * 9 + [1e6])
    twin = with_rows(backend, 10)
    before = buffer._ops.control()
    batch = buffer.sample_range(300, 3, 8)
    rows = backend.numpy(batch.indices).tolist()
    assert rows == backend.numpy(twin.sample_range(300, 3, 8).indices).tolist()
    assert set(rows) == {3, 4, 5, 6, 7}
    assert backend.numpy(batch.weights).tolist() == [1.0] * 300
    assert buffer._ops.control() == before | {"draws": before["draws"] + 1}


# Priorities


def of_per(buffer: Any) -> list[float]:
    stats = buffer.stats()
    return [stats[name] for name in ("alpha", "beta", "epsilon")]


@pytest.mark.parametrize(
    "value", [-0.001, 1.001, 2, -1, float("nan"), float("inf"), "0.5", None, True, 1j, [0.5]]
)
def test_alpha_and_beta_are_numbers_from_zero_to_one(value: Any, backend: Backend) -> None:
    buffer = with_rows(backend, 0, prioritized=True)
    for name in ("alpha", "beta"):
        parts = ("configure_per", f"{name}={value!r}", "[0, 1]")
        with refused(backend, buffer, ConfigurationError, *parts):
            buffer.configure_per(**{name: value})
    with refused(backend, buffer, ConfigurationError, "set_beta", f"beta={value!r}", "[0, 1]"):
        buffer.set_beta(value)


@pytest.mark.parametrize(
    "value", [-1e-9, -1, float("nan"), float("inf"), "0.5", None, False, 1j, [0.5]]
)
def test_epsilon_is_a_finite_number_from_zero_on(value: Any, backend: Backend) -> None:
    buffer = with_rows(backend, 0, prioritized=True)
    parts = ("configure_per", f"epsilon={value!r}", "finite number >= 0")
    with refused(backend, buffer, ConfigurationError, *parts):
        buffer.configure_per(epsilon=value)


@pytest.mark.parametrize(
    "values", [(0, 1, 0), (1, 0, 1e300), (np.float32(0.5), np.int64(1), np.float64(2.5))]
)
def test_the_ends_and_numpys_numbers_are_taken(
    values: tuple[Any, Any, Any], backend: Backend
) -> None:
    buffer = with_rows(backend, 0, prioritized=True)
    buffer.configure_per(*values)
    assert of_per(buffer) == [float(value) for value in values]
    buffer.set_beta(np.float32(0.75))
    assert of_per(buffer)[1] == 0.75
    buffer.check()


def test_what_is_not_named_goes_back_to_its_default(backend: Backend) -> None:
    buffer = with_rows(backend, 0, prioritized=True)
    assert of_per(buffer) == [0.6, 0.4, 1e-6]
    buffer.configure_per(0.5, 1.0, 0.25)
    buffer.configure_per(beta=0.75)
    assert of_per(buffer) == [0.6, 0.75, 1e-6]


def test_alpha_is_settled_with_the_first_row(backend: Backend) -> None:
    buffer = with_rows(backend, 0, prioritized=True)
    buffer.configure_per(alpha=0.5)
    add_rows(buffer, 1)
    with refused(backend, buffer, OrderError, "alpha=1.0", "stored with 0.5", "first add"):
        buffer.configure_per(alpha=1)
    with refused(backend, buffer, OrderError, "alpha=0.6", "stored with 0.5"):
        buffer.configure_per()  # the default is another alpha too
    buffer.configure_per(alpha=0.5, beta=1.0, epsilon=0.5)
    assert of_per(buffer) == [0.5, 1.0, 0.5]
    add_rows(buffer, 40)
    with refused(backend, buffer, OrderError, "alpha=0.25", "stored with 0.5"):
        buffer.configure_per(alpha=0.25)


def test_alpha_is_settled_by_rows_that_only_the_device_knows_of(device: Backend) -> None:
    buffer = with_rows(device, 0, prioritized=True)
    zeros = np.zeros(3, np.float32)
    for kept in (False, True):  # of the first add nothing is stored
        mask = device.array([kept] * 3)
        buffer.add_batch(zeros, zeros, zeros, zeros, zeros > 0, mask=mask)
        if not kept:
            buffer.configure_per(alpha=0.5)
    with refused(device, buffer, OrderError, "alpha=1.0", "stored with 0.5"):
        buffer.configure_per(alpha=1.0)


def test_a_refused_setting_leaves_the_others_as_they_were(backend: Backend) -> None:
    buffer = with_rows(backend, 5, prioritized=True)
    for wrong in ({"epsilon": -1.0}, {"beta": 2.0}, {"alpha": 2.0}):
        with refused(backend, buffer, ConfigurationError, next(iter(wrong))):
            buffer.configure_per(**({"alpha": 0.6, "beta": 0.125, "epsilon": 0.5} | wrong))
    assert of_per(buffer) == [0.6, 0.4, 1e-6]


def test_settings_are_refused_while_the_stream_captures(device: Backend) -> None:
    buffer = with_rows(device, 5, prioritized=True)
    before = buffer._ops.control()
    with device.cupy.cuda.Stream(non_blocking=True) as stream:
        device.cupy.cuda.Device().synchronize()
        stream.begin_capture()
        for name, call in (
            ("configure_per", lambda: buffer.configure_per(beta=1.0)),
            ("configure_per", lambda: buffer.configure_per(epsilon=1.0)),
            ("set_beta", lambda: buffer.set_beta(1.0)),
        ):
            with pytest.raises(cpreplay.CaptureError, match=name):
                call()
        stream.end_capture()
    assert buffer._ops.control() == before
    buffer.check()


# Counts


def test_a_range_ends_at_the_capacity_however_many_rows_were_added(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 5)
    buffer.add_batch(**numbered_rows(0, 12))
    assert backend.numpy(buffer.sample_range(9, 4, 5).indices).tolist() == [4] * 9
    with refused(backend, buffer, cpreplay.SampleRangeError, "rows [0, 6)", "holds 5 of 5"):
        buffer.sample_range(4, 0, 6)


def test_counts_of_narrow_numpy_types_are_counts(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 1000)
    buffer.add_batch(**numbered_rows(0, 5))
    buffer.pin_demo_prefix(np.uint8(5), batch_size=np.uint8(200))
    assert buffer.demo_count == 5
    assert len(buffer.sample(np.int16(300))) == 300
