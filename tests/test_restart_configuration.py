"""Every value of a restart pool's configuration: its default, its bounds, and what is refused."""

import copy
import math
import pickle
from typing import Any

import attrs
import numpy as np
import pytest

from cpreplay.errors import ConfigurationError
from cpreplay.restart import RestartPoolConfiguration
from cpreplay.schedule import Schedule

DEFAULTS = {
    "advance_window": 100,
    "checkpoint_points_per_key": 0,
    "max_per_key": 8,
    "max_timeouts_per_point": 3,
    "maximum_values": {},
    "minimum_values": {},
    "probability": Schedule.starting(0.0),
    "random_seed": None,
    "save_in_checkpoints": False,
    "selection": "uniform",
    "selection_floor": 0.1,
}

BEYOND = 10**30
HUGE = pytest.param(10**5000, id="10**5000")  # which Python does not print
NO_COUNTS = [0, -1, True, np.bool_(True), 1.5, 2.0, "2", None, math.nan, 2**63, BEYOND,
             HUGE]  # fmt: skip


def shown(value: Any) -> str:
    """A value as a message shows it; Python does not print ints of more than 4,300 digits."""
    return "too long to be printed" if type(value) is int and value == 10**5000 else repr(value)


def refused(field: str, value: Any, *parts: str) -> None:
    """The value is refused, with a message that names class, field and value."""
    with pytest.raises(ConfigurationError) as caught:
        RestartPoolConfiguration(**{"key": ["level"], field: value})
    message = str(caught.value)
    for part in ("RestartPoolConfiguration", field, *parts):
        assert part in message, f"{part!r} is not in: {message}"


def test_every_value_but_the_key_has_the_default_of_the_specification() -> None:
    values = attrs.asdict(RestartPoolConfiguration(key=["level"]), recurse=False)
    assert values == {"key": ("level",), **DEFAULTS}


def test_the_key_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="key"):
        RestartPoolConfiguration()  # type: ignore[call-arg]


def test_values_are_given_by_name_alone() -> None:
    with pytest.raises(TypeError):
        RestartPoolConfiguration(["level"])  # type: ignore[misc]


@pytest.mark.parametrize("name", ["maximum_per_key", "Key", "seed"])
def test_a_misspelt_value_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        RestartPoolConfiguration(key=["level"], **{name: 8})


def test_a_configuration_does_not_change() -> None:
    labels, bounds = ["level"], {"level": 3}
    configuration = RestartPoolConfiguration(key=labels, minimum_values=bounds)
    labels.append("x")
    bounds["level"] = 9
    assert configuration == RestartPoolConfiguration(key=["level"], minimum_values={"level": 3})
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        configuration.max_per_key = 3  # type: ignore[misc]


def test_a_configuration_can_be_copied_and_sent() -> None:
    configuration = RestartPoolConfiguration(
        key=["level"], minimum_values={"level": 1}, probability=Schedule.starting(0.1).hold(3)
    )
    assert copy.deepcopy(configuration) == configuration
    assert pickle.loads(pickle.dumps(configuration)) == configuration
    assert attrs.evolve(configuration, max_per_key=3).max_per_key == 3


@pytest.mark.parametrize("field", ["minimum_values", "maximum_values"])
def test_the_bounds_of_a_configuration_do_not_change(field: str) -> None:
    bounds: Any = getattr(RestartPoolConfiguration(key=["a"], **{field: {"a": 1}}), field)
    with pytest.raises(TypeError):
        bounds["a"] = 2
    with pytest.raises(TypeError):
        del bounds["a"]
    with pytest.raises(AttributeError):
        bounds.update({"a": 2})
    assert bounds == {"a": 1} and dict(bounds) == {"a": 1}
    assert repr(bounds) == "{'a': 1}"


def test_equal_configurations_have_equal_hashes() -> None:
    def configuration(**values: Any) -> RestartPoolConfiguration:
        return RestartPoolConfiguration(key=["a"], minimum_values={"a": 1, "b": -1}, **values)

    turned = RestartPoolConfiguration(key=["a"], minimum_values={"b": np.int8(-1), "a": 1})
    assert configuration() == turned and hash(configuration()) == hash(turned)
    assert hash(copy.deepcopy(turned)) == hash(pickle.loads(pickle.dumps(turned))) == hash(turned)
    others = {configuration(), turned, configuration(maximum_values={"a": 1, "b": -1})}
    assert len(others) == 2


# key


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ([], "one label at least"),
        ((), "one label at least"),
        (["a", "a"], "twice"),
        ([""], "''"),
        ("level", "list of labels"),
        (["a", "\ud800"], "UTF-8"),
        (["a", 3], "3"),
        ([None], "None"),
        ([b"a"], "b'a'"),
        ({"a"}, "list of labels"),
        (None, "list of labels"),
        (3, "list of labels"),
    ],
)
def test_a_key_that_is_no_list_of_distinct_labels_is_refused(key: Any, part: str) -> None:
    refused("key", key, part)


def test_the_order_of_labels_is_kept() -> None:
    assert RestartPoolConfiguration(key=["b", "a"]).key == ("b", "a")
    assert RestartPoolConfiguration(key=("b", "a")).key == ("b", "a")


def test_labels_that_look_alike_are_different() -> None:
    composed, decomposed = "\u00e9", "e\u0301"
    key = RestartPoolConfiguration(key=[composed, decomposed, "x / 128", "x/128"]).key
    assert len(set(key)) == 4


# Counts


@pytest.mark.parametrize("value", NO_COUNTS)
@pytest.mark.parametrize("field", ["advance_window", "max_per_key", "max_timeouts_per_point"])
def test_what_is_no_count_of_at_least_one_is_refused(field: str, value: Any) -> None:
    refused(field, value, shown(value))


@pytest.mark.parametrize("value", [value for value in NO_COUNTS if value is True or value != 0])
def test_what_is_no_count_of_points_to_save_is_refused(value: Any) -> None:
    refused("checkpoint_points_per_key", value, shown(value))


@pytest.mark.parametrize("field", ["advance_window", "max_per_key", "max_timeouts_per_point"])
@pytest.mark.parametrize("value", [1, 2**63 - 1, np.uint8(7)])
def test_counts_of_at_least_one_are_taken_as_ints(field: str, value: Any) -> None:
    taken = getattr(RestartPoolConfiguration(key=["a"], **{field: value}), field)
    assert type(taken) is int
    assert taken == value


def test_no_points_per_key_stands_for_all() -> None:
    assert RestartPoolConfiguration(key=["a"], checkpoint_points_per_key=0) is not None


# Bounds


@pytest.mark.parametrize("field", ["minimum_values", "maximum_values"])
@pytest.mark.parametrize(
    "value",
    [
        {"a": 1.0}, {"a": "1"}, {"a": None}, {"a": True}, {"a": np.bool_(False)}, {"a": math.nan},
        {"a": BEYOND}, {"a": -BEYOND}, {"a": 10**5000},
        {"a": 2**63}, {"": 1}, {3: 1}, {"\udfff": 1}, [("a", 1)],
        None, 3, "a",
    ],
)  # fmt: skip
def test_bounds_that_are_no_ints_of_64_bits_by_label_are_refused(field: str, value: Any) -> None:
    refused(field, value)


def test_bounds_are_taken_as_ints() -> None:
    configuration = RestartPoolConfiguration(
        key=["a"],
        minimum_values={"a": np.int8(-3), "b": -(2**63)},
        maximum_values={"a": np.uint64(2**62), "c": 2**63 - 1},
    )
    assert configuration.minimum_values == {"a": -3, "b": -(2**63)}
    assert configuration.maximum_values == {"a": 2**62, "c": 2**63 - 1}
    assert {type(bound) for bound in configuration.minimum_values.values()} == {int}


def test_a_minimum_above_its_maximum_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"RestartPoolConfiguration.*below.*'x'"):
        RestartPoolConfiguration(
            key=["level"], minimum_values={"x": 4}, maximum_values={"level": 0, "x": 3}
        )


def test_a_minimum_that_equals_its_maximum_is_taken() -> None:
    RestartPoolConfiguration(key=["x"], minimum_values={"x": 4}, maximum_values={"x": 4})


# probability, seed, selection, saving


@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf, True, "0.5", None])
def test_what_is_no_probability_is_refused(value: Any) -> None:
    refused("probability", value, repr(value))


def test_a_schedule_that_leaves_zero_and_one_is_refused_at_construction() -> None:
    refused("probability", Schedule.starting(0.0).linear(1.01, 10), "1.01", "step 10")


def test_a_number_is_taken_for_a_schedule() -> None:
    assert RestartPoolConfiguration(key=["a"], probability=1).probability(5) == 1.0


@pytest.mark.parametrize("value", [-1, 2**64, 1.0, True, "3", math.nan])
def test_what_is_no_seed_is_refused(value: Any) -> None:
    refused("random_seed", value, repr(value))


@pytest.mark.parametrize("value", [0, 2**64 - 1, np.uint64(2**64 - 1), None])
def test_seeds_are_taken(value: Any) -> None:
    assert RestartPoolConfiguration(key=["a"], random_seed=value).random_seed == value


@pytest.mark.parametrize("value", ["Uniform", "failure-rate", "", None, 0, ["uniform"]])
def test_a_selection_that_does_not_exist_is_refused(value: Any) -> None:
    refused("selection", value, repr(value), "'uniform'", "'failure_rate'")


@pytest.mark.parametrize(
    "value", [0, 0.0, -1, 1.0001, math.nan, math.inf, True, "0.1", None, 10**400]
)
def test_what_is_no_floor_is_refused(value: Any) -> None:
    refused("selection_floor", value, repr(value))


@pytest.mark.parametrize("value", [1, 1.0, 5e-324, np.float32(0.5)])
def test_floors_up_to_one_are_taken(value: Any) -> None:
    floor = RestartPoolConfiguration(key=["a"], selection_floor=value).selection_floor
    assert type(floor) is float
    assert floor == value


@pytest.mark.parametrize("value", [1, 0, None, "yes", np.bool_(True)])
def test_what_is_no_flag_is_refused(value: Any) -> None:
    refused("save_in_checkpoints", value, repr(value))


@pytest.mark.parametrize("names", [["uniform"], ["uniform", "failure_rate"]])
def test_an_array_of_names_is_no_selection(names: list[str]) -> None:
    """Of one name it equals that name, and of two it is neither equal nor not."""
    refused("selection", np.array(names), "'uniform'")
