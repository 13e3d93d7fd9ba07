"""The columns of a transition, and where they lie in memory.

A column is what the caller sees: a name, a shape and a dtype, and the dtype it is stored as. A
place is where it lies: (array, offset, row stride). `lay_out` alone decides that; everything else
takes places as they are.
"""

import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import DTypeLike

from cpreplay.errors import ConfigurationError
from cpreplay.integers import is_count

TRANSITION = ("obs", "action", "reward", "next_obs", "terminated")

# Wider columns get an array of their own. Below this, one record for all small columns costs a draw
# 3-4 cache lines a row instead of 7-8.
PACKED_LIMIT = 256
ROW_ALIGNMENT = 16
# A row that begins on a line of the cache lies in fewer of them: draws of rows of 165 bytes took an
# eighth less time with a stride of 192 than of 176. Done where it adds at most an eighth.
_LINE = 64

# NumPy has arrays of up to 32 axes everywhere, and a batch adds one.
MAX_AXES = 31

# What one row of a column may take: byte offsets inside a row fit in 32 bits on the device.
ROW_LIMIT = 2**30

# More would not fit into the kernels' parameter structs.
MAX_COLUMNS = 32

# A name is part of a file's name in checkpoints, where a tar header has 100 bytes for it.
_LONGEST_NAME = 64

# Names that the calls and Batch use for something else.
_RESERVED = frozenset((*TRANSITION, "indices", "weights", "extra", "map", "mask", "out", "self"))


@attrs.frozen(kw_only=True)
class Column:
    """One column of a transition."""

    #: Name, as in ``batch[name]``.
    name: str
    #: Shape of one row.
    shape: tuple[int, ...]
    #: Dtype as given to ``add`` and returned by ``sample``.
    dtype: np.dtype[Any]
    #: Dtype in memory.
    stored: np.dtype[Any]

    @property
    def quantized(self) -> bool:
        """Whether float32 values in [0, 1] are stored as uint8 codes."""
        return self.stored != self.dtype

    @property
    def elements(self) -> int:
        """Elements of one row."""
        return math.prod(self.shape)

    @property
    def stored_nbytes(self) -> int:
        """Bytes of one stored row."""
        return self.elements * self.stored.itemsize


@attrs.frozen(kw_only=True)
class Place:
    """Where a column lies: row ``r`` begins at byte ``offset + r * stride`` of array ``array``."""

    array: int
    offset: int
    stride: int


@attrs.frozen(kw_only=True)
class Layout:
    """Columns with their places, and the row strides of the arrays that hold them."""

    columns: tuple[Column, ...]
    places: tuple[Place, ...]
    strides: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def quantizes(self) -> bool:
        """Whether any column is stored as codes."""
        return any(column.quantized for column in self.columns)

    @property
    def row_nbytes(self) -> int:
        """Bytes that one transition takes, padding included."""
        return sum(self.strides)


def unstored_column(name: str, dtype: DTypeLike, shape: tuple[int, ...] = ()) -> Column:
    """A column of arrays that calls take or give and no buffer stores."""
    return Column(name=name, shape=shape, dtype=np.dtype(dtype), stored=np.dtype(dtype))


def transition_columns(
    obs_shape: Any,
    action_shape: Any,
    *,
    obs_dtype: DTypeLike,
    action_dtype: DTypeLike,
    obs_store_dtype: DTypeLike | None,
    extra_columns: Mapping[str, Any] | None,
) -> tuple[Column, ...]:
    """The columns of a transition, the five standard ones first, then the caller's.

    Raises
    ------
    ConfigurationError
        A shape, dtype or name that cannot be stored; the message names it.
    """
    obs = _column("obs", obs_shape, obs_dtype, obs_store_dtype)
    columns = [
        obs,
        _column("action", action_shape, action_dtype),
        _column("reward", (), "float32"),
        attrs.evolve(obs, name="next_obs"),
        _column("terminated", (), "bool"),
    ]
    if not isinstance(extra_columns, Mapping | None):
        raise ConfigurationError(
            f"extra_columns={extra_columns!r} has to map names to shapes or dtypes"
        )
    for name, form in (extra_columns or {}).items():
        if not _is_name(name):
            raise ConfigurationError(
                f"extra_columns: {name!r} cannot name a column: it has to be an identifier of at "
                f"most {_LONGEST_NAME} bytes, and none of {', '.join(sorted(_RESERVED))}"
            )
        columns.append(_column(name, *_extra_form(form)))
    if len(columns) > MAX_COLUMNS:
        raise ConfigurationError(
            f"extra_columns: {len(columns)} columns in all, and at most {MAX_COLUMNS} are possible"
        )
    return tuple(columns)


def lay_out(columns: tuple[Column, ...]) -> Layout:
    """Give each column its place.

    Columns of at most 256 bytes lie side by side in one record, in order of falling alignment, so
    that none needs padding before it; a wider column gets an array. Strides are multiples of 16,
    and of a whole cache line where that adds little.
    """
    places: dict[str, Place] = {}
    strides: list[int] = []
    packed = sorted(
        (column for column in columns if column.stored_nbytes <= PACKED_LIMIT),
        key=lambda column: -column.stored.itemsize,
    )
    if packed:
        stride = _stride(sum(column.stored_nbytes for column in packed))
        offset = 0
        for column in packed:
            places[column.name] = Place(array=0, offset=offset, stride=stride)
            offset += column.stored_nbytes
        strides.append(stride)
    for column in columns:
        if column.name not in places:
            stride = _stride(column.stored_nbytes)
            places[column.name] = Place(array=len(strides), offset=0, stride=stride)
            strides.append(stride)
    return Layout(
        columns=columns,
        places=tuple(places[column.name] for column in columns),
        strides=tuple(strides),
    )


def _column(
    name: str, shape: Any, dtype: DTypeLike, store_dtype: DTypeLike | None = None
) -> Column:
    seen = _dtype(f"{name}_dtype", dtype)
    stored = seen if store_dtype is None else _dtype(f"{name}_store_dtype", store_dtype)
    if stored != seen and (seen, stored) != (np.dtype("float32"), np.dtype("uint8")):
        raise ConfigurationError(
            f"{name}_store_dtype={stored.name!r}: {seen.name} cannot be stored as that; leave it "
            "out to store the values as they are, or quantise float32 in [0, 1] to 'uint8'"
        )
    column = Column(name=name, shape=_shape(name, shape), dtype=seen, stored=stored)
    if column.stored_nbytes > ROW_LIMIT:
        raise ConfigurationError(
            f"{name}_shape={column.shape}: one row takes {column.stored_nbytes:,} bytes, and at "
            f"most {ROW_LIMIT:,} are possible"
        )
    return column


def _is_name(name: Any) -> bool:
    return (
        isinstance(name, str)
        and name.isidentifier()
        and name not in _RESERVED
        and len(name.encode()) <= _LONGEST_NAME
    )


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int | np.integer) else shape
    if (
        isinstance(sizes, tuple | list)
        and len(sizes) <= MAX_AXES
        and all(is_count(size) for size in sizes)
    ):
        return tuple(int(size) for size in sizes)
    raise ConfigurationError(
        f"{name}_shape={shape!r}: a shape is an int, or a tuple of at most {MAX_AXES} ints, of at "
        "least 1; () is one number"
    )


def _dtype(argument: str, dtype: DTypeLike) -> np.dtype[Any]:
    try:
        if dtype is None:
            raise TypeError("name one, such as 'float32'")
        result = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise ConfigurationError(f"{argument}={dtype!r} is no dtype: {error}") from None
    if result.kind not in "biuf" or result.itemsize > 8 or not result.isnative:
        raise ConfigurationError(
            f"{argument}={dtype!r}: a column holds booleans, integers or floats of at most 8 "
            "bytes in this machine's byte order"
        )
    return result


def _extra_form(form: Any) -> tuple[Any, DTypeLike]:
    """What an entry of ``extra_columns`` means: a shape, a dtype, or (shape, dtype)."""
    if isinstance(form, int | np.integer):
        return form, "float32"
    if isinstance(form, tuple | list):
        if len(form) == 2 and not isinstance(form[1], int | np.integer):
            return form[0], form[1]
        return form, "float32"
    return (), form


def _stride(nbytes: int) -> int:
    """Bytes from one row of ``nbytes`` to the next."""
    stride, lines = _round_up(nbytes, ROW_ALIGNMENT), _round_up(nbytes, _LINE)
    return lines if 8 * lines <= 9 * stride else stride


def _round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
