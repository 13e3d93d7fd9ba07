"""The structs that kernels take by value, filled from arrays' addresses."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.schema import MAX_COLUMNS, Column, Layout

#: Lanes of a priority update by one block.
MAX_FEW = 1024

#: Levels of sums over 2**31 leaves.
MAX_SUMS = 8

COLUMN = np.dtype(
    [("base", "<u8"), ("stride", "<i8"), ("elements", "<i8"), ("bytes", "<i8"), ("codec", "<i8")]
)
COLUMNS = np.dtype([("count", "<i8"), ("at", COLUMN, MAX_COLUMNS)])
BATCH = np.dtype([("at", "<u8", MAX_COLUMNS)])
WEIGHTS = np.dtype([("raw", "<u8"), ("largest", "<u8"), ("tiles", "<i8"), ("weights", "<u8")])
DRAW = np.dtype(
    [("indices", "<u8"), ("tokens", "<u8"), ("raw", "<u8"), ("largest", "<u8"), ("tile", "<i8")]
)
UPDATE = np.dtype(
    [
        ("lanes", "<i8"),
        ("rows", "<u8"),
        ("tokens", "<u8"),
        ("errors", "<u8"),
        ("error_bytes", "<i8"),
    ]
)
TREE = np.dtype(
    [
        ("levels", "<i8"),
        ("leaves", "<u8"),
        ("sums", "<u8", MAX_SUMS),
        ("nodes", "<i8", MAX_SUMS),
        ("tickets", "<u8", MAX_SUMS),
        ("updates", "<u8"),
        ("winners", "<u8"),
    ]
)

#: Of ``codec_t``.
AS_IT_IS, QUANTIZED, BOOLEAN = range(3)

#: Rows of a batch that one block can store: ``MAX_TILE``.
MAX_TILE = 32
KEPT = np.dtype(
    [("pending", "<u8"), ("step", "<u8"), ("out", "<u8"), ("bytes", "<i8"), ("boolean", "<i8")]
)
NSTEP = np.dtype(
    [
        ("n", "<i8"),
        ("n_envs", "<i8"),
        ("gamma", "<f8"),
        ("starts", "<u8"),
        ("counts", "<u8"),
        ("kept_columns", "<i8"),
        ("kept", KEPT, MAX_COLUMNS),
        ("next_obs", KEPT),
        *(
            (name, "<u8")
            for name in (
                "rewards", "reward", "discount", "terminated", "truncated", "mask",
                "terminated_out", "truncated_out", "valid",
            )
        ),
    ]
)  # fmt: skip


def struct(dtype: np.dtype[Any], **fields: Any) -> NDArray[Any]:
    """One struct of numbers, of addresses (of an array; 0 for None), and of lists of either."""
    record = np.zeros(1, dtype)
    for name, value in fields.items():
        if isinstance(value, list):
            record[name][0, : len(value)] = [_number(item) for item in value]
        else:
            record[name] = _number(value)
    return record


def _number(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_number, value))
    if value is None:
        return 0
    return value.data.ptr if hasattr(value, "data") and hasattr(value.data, "ptr") else value


def columns_table(layout: Layout, addresses: Sequence[int]) -> NDArray[Any]:
    """``columns_t``: where each column lies, from the addresses of the layout's arrays."""
    table = np.zeros(1, COLUMNS)
    table["count"] = len(layout.columns)
    for number, (column, place) in enumerate(zip(layout.columns, layout.places, strict=True)):
        table["at"][0, number] = (
            addresses[place.array] + place.offset,
            place.stride,
            column.elements,
            column.elements * column.dtype.itemsize,
            _codec(column),
        )
    return table


def batch_addresses(addresses: Sequence[int]) -> NDArray[Any]:
    """``batch_t``: where the columns of a batch lie."""
    batch = np.zeros(1, BATCH)
    batch["at"][0, : len(addresses)] = addresses
    return batch


def _codec(column: Column) -> int:
    if column.quantized:
        return QUANTIZED
    return BOOLEAN if column.dtype.kind == "b" else AS_IT_IS
