"""The structs that the kernels of ``cuda_src/rows.cu`` take by value, filled from a layout."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpreplay.schema import MAX_COLUMNS, Column, Layout

COLUMN = np.dtype(
    [("base", "<u8"), ("stride", "<i8"), ("elements", "<i8"), ("bytes", "<i8"), ("codec", "<i8")]
)
COLUMNS = np.dtype([("count", "<i8"), ("at", COLUMN, MAX_COLUMNS)])
BATCH = np.dtype([("at", "<u8", MAX_COLUMNS)])

#: Of ``codec_t``.
AS_IT_IS, QUANTIZED, BOOLEAN = range(3)

#: Rows of a batch that one block can store: ``MAX_TILE``.
MAX_TILE = 32


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
