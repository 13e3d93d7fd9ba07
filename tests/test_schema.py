"""Columns: which forms are taken, which are refused, and where each lies in memory."""

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpreplay.errors import ConfigurationError
from cpreplay.schema import (
    MAX_COLUMNS,
    PACKED_LIMIT,
    ROW_LIMIT,
    TRANSITION,
    Column,
    Layout,
    lay_out,
    transition_columns,
)


def columns_of(
    obs_shape: Any = 3, action_shape: Any = 2, **options: Any
) -> dict[str, tuple[tuple[int, ...], str, str]]:
    """Shape, dtype and storage dtype of each column, by name."""
    return {
        column.name: (column.shape, column.dtype.name, column.stored.name)
        for column in make_columns(obs_shape, action_shape, **options)
    }


def make_columns(obs_shape: Any = 3, action_shape: Any = 2, **options: Any) -> tuple[Column, ...]:
    defaults: dict[str, Any] = {
        "obs_dtype": "float32",
        "action_dtype": "float32",
        "obs_store_dtype": None,
        "extra_columns": None,
    }
    return transition_columns(obs_shape, action_shape, **(defaults | options))


# What a column may be


def test_a_transition_has_five_columns_and_then_the_callers() -> None:
    assert columns_of(17, 6, extra_columns={"log_prob": (), "discount": ()}) == {
        "obs": ((17,), "float32", "float32"),
        "action": ((6,), "float32", "float32"),
        "reward": ((), "float32", "float32"),
        "next_obs": ((17,), "float32", "float32"),
        "terminated": ((), "bool", "bool"),
        "log_prob": ((), "float32", "float32"),
        "discount": ((), "float32", "float32"),
    }


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (4, (4,)),
        (np.int64(4), (4,)),
        ((), ()),
        ([2, 3], (2, 3)),
        ((np.int32(2), 3), (2, 3)),
        ((4, 84, 84), (4, 84, 84)),
        ((1, 1), (1, 1)),
    ],
)
def test_a_shape_is_an_int_or_a_tuple(shape: Any, expected: tuple[int, ...]) -> None:
    columns = columns_of(shape, shape)
    assert [columns[name][0] for name in ("obs", "action", "next_obs")] == [expected] * 3
    kinds = {type(size) for size in columns["obs"][0]}
    assert kinds <= {int}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (3, ((3,), "float32")),
        (np.int64(3), ((3,), "float32")),
        ((), ((), "float32")),
        ((2, 3), ((2, 3), "float32")),
        ([2, 3], ((2, 3), "float32")),
        ((2, 3, 4), ((2, 3, 4), "float32")),
        ("int32", ((), "int32")),
        (bool, ((), "bool")),
        (np.float64, ((), "float64")),
        (np.dtype("uint8"), ((), "uint8")),
        ((2, "int16"), ((2,), "int16")),
        (((), "int64"), ((), "int64")),
        (((2, 3), bool), ((2, 3), "bool")),
        ([[2, 3], np.dtype("float16")], ((2, 3), "float16")),
    ],
)
def test_an_extra_column_is_a_shape_a_dtype_or_both(form: Any, expected: Any) -> None:
    shape, dtype, stored = columns_of(extra_columns={"extra_one": form})["extra_one"]
    assert (shape, dtype) == expected
    assert stored == dtype


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64", float, np.int32])
def test_booleans_integers_and_floats_are_stored_as_they_are(dtype: Any) -> None:
    columns = columns_of(obs_dtype=dtype, action_dtype=dtype)
    name = np.dtype(dtype).name
    assert {columns[column][1:] for column in ("obs", "action", "next_obs")} == {(name, name)}


def test_a_storage_dtype_is_for_both_observations_and_nothing_else() -> None:
    columns = columns_of(obs_store_dtype="uint8", extra_columns={"goal": 3})
    assert [name for name, (_, _, stored) in columns.items() if stored == "uint8"] == [
        "obs",
        "next_obs",
    ]


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
def test_a_storage_dtype_equal_to_the_dtype_quantises_nothing(dtype: str) -> None:
    obs = make_columns(obs_dtype=dtype, obs_store_dtype=dtype)[0]
    assert not obs.quantized


def test_sizes_of_a_column_are_of_its_stored_form() -> None:
    obs = make_columns((4, 84, 84), obs_store_dtype="uint8")[0]
    assert (obs.quantized, obs.elements, obs.stored_nbytes) == (True, 28224, 28224)
    action = make_columns(3, (2, 5), action_dtype="float64")[1]
    assert (action.quantized, action.elements, action.stored_nbytes) == (False, 10, 80)


# What a column may not be

SWAPPED = ">" if sys.byteorder == "little" else "<"


@pytest.mark.parametrize(
    "dtype",
    [
        "complex64", "complex128", object, "O", "U4", str, "S3", bytes, "datetime64[ns]", "V8",
        np.longdouble, f"{SWAPPED}f4", f"{SWAPPED}i8", [("a", "f4")], "no such dtype",
    ],
)  # fmt: skip
@pytest.mark.parametrize("argument", ["obs_dtype", "action_dtype", "extra_columns"])
def test_a_dtype_that_cannot_be_stored_is_refused(argument: str, dtype: Any) -> None:
    value = {"skill": ((), dtype)} if argument == "extra_columns" else dtype
    with pytest.raises(ConfigurationError) as caught:
        make_columns(**{argument: value})
    asked = "skill_dtype" if argument == "extra_columns" else argument
    assert f"{asked}={dtype!r}" in str(caught.value)


@pytest.mark.parametrize(
    "shape",
    [0, -1, (0,), (3, 0), (3, -2), True, False, (True,), (2, False), 2.0, (2.5,), "3", None,
     {3}, np.array([2, 3]), (2, (3,)), np.float32(2)],
)  # fmt: skip
@pytest.mark.parametrize("name", ["obs", "action", "skill"])
def test_a_shape_that_is_none_is_refused(name: str, shape: Any) -> None:
    extra = {"skill": (shape, "float32")} if name == "skill" else None
    shapes = [shape if name == column else 3 for column in ("obs", "action")]
    with pytest.raises(ConfigurationError) as caught:
        make_columns(*shapes, extra_columns=extra)
    message = str(caught.value)
    assert f"{name}_shape={shape!r}" in message
    assert "at least 1" in message


@pytest.mark.parametrize(
    "name",
    [*TRANSITION, "indices", "weights", "extra", "map", "mask", "out", "self",
     "", "two words", "1st", "a-b", "a.b", 3, None, ("a",)],
)  # fmt: skip
def test_a_name_that_the_calls_use_or_python_cannot_write_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_columns(extra_columns={name: ()})
    message = str(caught.value)
    assert repr(name) in message
    assert "identifier" in message
    assert "mask" in message  # the list of names that are taken


def test_thirty_two_columns_are_possible_and_no_more() -> None:
    room = MAX_COLUMNS - len(TRANSITION)
    names = [f"extra_{number}" for number in range(room + 1)]
    assert len(make_columns(extra_columns=dict.fromkeys(names[:room], ()))) == MAX_COLUMNS == 32
    with pytest.raises(ConfigurationError, match="33 columns in all, and at most 32"):
        make_columns(extra_columns=dict.fromkeys(names, ()))


@pytest.mark.parametrize("name", ["obs", "action", "skill"])
def test_a_row_of_one_gibibyte_is_possible_and_no_more(name: str) -> None:
    def columns(elements: int) -> tuple[Column, ...]:
        shapes = [elements if name == column else 3 for column in ("obs", "action")]
        extra = {"skill": elements} if name == "skill" else None
        return make_columns(*shapes, extra_columns=extra)

    assert ROW_LIMIT == 2**30
    assert max(column.stored_nbytes for column in columns(2**28)) == ROW_LIMIT
    with pytest.raises(ConfigurationError) as caught:
        columns(2**28 + 1)
    message = str(caught.value)
    assert f"{name}_shape=(268435457,)" in message
    assert "1,073,741,828" in message
    assert "1,073,741,824" in message


def test_a_row_is_measured_as_it_is_stored() -> None:
    assert make_columns(2**30, obs_store_dtype="uint8")[0].stored_nbytes == ROW_LIMIT
    with pytest.raises(ConfigurationError):
        make_columns(2**30 + 1, obs_store_dtype="uint8")
    with pytest.raises(ConfigurationError):  # no overflow of the product
        make_columns((2**62, 2**62))


def test_a_shape_has_at_most_31_axes() -> None:
    assert make_columns((1,) * 31)[0].shape == (1,) * 31
    with pytest.raises(ConfigurationError, match="at most 31 ints"):
        make_columns((1,) * 32)


@pytest.mark.parametrize("argument", ["obs_dtype", "action_dtype"])
def test_none_is_no_dtype_although_numpy_reads_it_as_float64(argument: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{argument}=None"):
        make_columns(**{argument: None})
    with pytest.raises(ConfigurationError, match="None"):
        make_columns(extra_columns={"skill": None})


def test_extra_columns_are_a_mapping() -> None:
    for value in (["skill"], "skill", {"skill"}, 3):
        with pytest.raises(ConfigurationError, match="extra_columns"):
            make_columns(extra_columns=value)


@pytest.mark.parametrize(
    ("seen", "stored"),
    [
        ("float64", "uint8"), ("float64", "float32"), ("float32", "float64"), ("float32", "int8"),
        ("float32", "float16"), ("int32", "uint8"), ("bool", "uint8"), ("uint8", "float32"),
    ],
)  # fmt: skip
def test_a_storage_dtype_that_would_change_values_is_refused(seen: str, stored: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_columns(obs_dtype=seen, obs_store_dtype=stored)
    message = str(caught.value)
    assert f"obs_store_dtype='{stored}'" in message
    assert f"{seen} cannot be stored" in message
    assert "leave it out" in message


def test_a_storage_dtype_that_is_no_dtype_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="obs_store_dtype='complex64'"):
        make_columns(obs_store_dtype="complex64")
    with pytest.raises(ConfigurationError, match="obs_store_dtype='nonsense' is no dtype"):
        make_columns(obs_store_dtype="nonsense")


# Where columns lie

dtypes = st.sampled_from(["bool", "int8", "uint16", "int32", "int64", "float16", "float32"])
shapes = st.one_of(
    st.just(()),
    st.integers(1, 300).map(lambda size: (size,)),
    st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple),
)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    extra = draw(st.lists(st.tuples(shapes, dtypes), max_size=8))
    quantize = draw(st.booleans())
    return lay_out(
        make_columns(
            draw(shapes),
            draw(shapes),
            obs_dtype="float32" if quantize else draw(dtypes),
            obs_store_dtype="uint8" if quantize else None,
            action_dtype=draw(dtypes),
            extra_columns={f"extra_{number}": form for number, form in enumerate(extra)},
        )
    )


@given(layouts())
@settings(max_examples=150, deadline=None)
def test_no_byte_belongs_to_two_columns_and_none_lies_outside(layout: Layout) -> None:
    rows = 3
    painted = [np.zeros(rows * stride, int) for stride in layout.strides]
    for column, place in zip(layout.columns, layout.places, strict=True):
        for row in range(rows):
            begin = place.offset + row * place.stride
            end = begin + column.stored_nbytes
            assert begin >= 0 and end <= len(painted[place.array])
            assert begin // place.stride == (end - 1) // place.stride == row
            painted[place.array][begin:end] += 1
    assert all((paint <= 1).all() for paint in painted)
    used = sum(int(paint.sum()) for paint in painted)
    assert used == rows * sum(column.stored_nbytes for column in layout.columns)


@given(layouts())
@settings(max_examples=150, deadline=None)
def test_columns_are_aligned_and_only_small_ones_are_packed(layout: Layout) -> None:
    assert layout.names == tuple(column.name for column in layout.columns)
    assert len(layout.places) == len(layout.columns)
    assert layout.row_nbytes == sum(layout.strides)
    assert all(stride % 16 == 0 for stride in layout.strides)
    tenants: dict[int, list[Column]] = {}
    for column, place in zip(layout.columns, layout.places, strict=True):
        assert place.stride == layout.strides[place.array]
        assert place.offset % column.stored.itemsize == 0
        tenants.setdefault(place.array, []).append(column)
    assert sorted(tenants) == list(range(len(layout.strides)))  # no array without a column
    small = [column for column in layout.columns if column.stored_nbytes <= PACKED_LIMIT]
    wide = [column for column in layout.columns if column.stored_nbytes > PACKED_LIMIT]
    packed = [group for group in tenants.values() if group[0] in small]
    assert [sorted(map(id, group)) for group in packed] == [sorted(map(id, small))]
    assert sorted(id(group[0]) for group in tenants.values() if group not in packed) == sorted(
        map(id, wide)
    )
    for array, group in tenants.items():  # padding is at the end alone
        stride, used = layout.strides[array], sum(column.stored_nbytes for column in group)
        assert used <= stride < used + 64
        assert stride < used + 16 or (stride % 64 == 0 and stride <= (used + 15) * 9 / 8)


def test_256_bytes_are_packed_and_257_get_an_array_of_their_own() -> None:
    assert PACKED_LIMIT == 256
    layout = lay_out(make_columns(256, 257, obs_dtype="uint8", action_dtype="uint8"))
    arrays = {name: place.array for name, place in zip(layout.names, layout.places, strict=True)}
    assert arrays["obs"] == arrays["next_obs"] == arrays["reward"] == arrays["terminated"] == 0
    assert arrays["action"] == 1
    assert layout.strides == (576, 272)


@pytest.mark.parametrize(
    ("nbytes", "stride"),
    # 176 and 192 are 9 % apart, 272 and 320 are 18 %; 448 and 456 go into 512 and 464
    [(1, 16), (40, 48), (64, 64), (65, 80), (113, 128), (165, 192), (176, 192), (257, 272),
     (449, 512), (448, 448), (500, 512), (517, 576), (28224, 28224), (28225, 28288)],
)  # fmt: skip
def test_rows_begin_on_cache_lines_where_that_adds_at_most_an_eighth(
    nbytes: int, stride: int
) -> None:
    columns = [column for column in make_columns(nbytes, obs_dtype="uint8") if column.name == "obs"]
    assert lay_out(tuple(columns)).strides == (stride,)


def test_two_layouts_of_the_same_columns_are_equal() -> None:
    assert lay_out(make_columns()) == lay_out(make_columns())
    assert lay_out(make_columns()) != lay_out(make_columns(obs_store_dtype="uint8"))
    assert lay_out(make_columns()) != lay_out(make_columns(extra_columns={"discount": ()}))


def test_a_column_name_is_at_most_64_bytes_long() -> None:
    forms = {"obs_dtype": "float32", "action_dtype": "float32", "obs_store_dtype": None}
    longest = "é" * 32  # two bytes each
    columns = transition_columns(1, 1, **forms, extra_columns={longest: ()})
    assert columns[-1].name == longest
    with pytest.raises(ConfigurationError, match="at most 64 bytes"):
        transition_columns(1, 1, **forms, extra_columns={longest + "x": ()})
