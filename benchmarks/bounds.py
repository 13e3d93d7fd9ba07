"""What a call can reach at best: loops in C that do nothing but what memory has to do anyway.

``touch`` reads a word of each cache line that a draw has to read: of the drawn rows, and by
priority of their leaves' and sums' nodes, all of which lie in other places. Rows are known
beforehand, so all lines are asked for at once: no draw waits less. ``memcpy`` copies the drawn
rows. Both are of rows that were drawn before, other ones in each call, and need a C compiler.

For batches that are added, ``memcpy`` writes as many bytes as they have behind each other into
memory as large as the ring.

``empty call`` is a method in Python that takes an add's values and does nothing.
"""

import ctypes
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.interleave import Block, Call
from benchmarks.workloads import Transitions, Workload, calls_per_block, split

TOUCH, COPY, EMPTY = "touch", "memcpy", "empty call"
BOUNDS = (TOUCH, COPY, EMPTY)

_FAN_OUT_SHIFT = 4  # of the sum tree: a node has 16 children
_DRAWN_ROWS = 2**19  # rows that are drawn beforehand and go around
_MOST_MINIBATCHES = 2000
_LINE = 64

_C_LOOPS = """
#include <string.h>

typedef struct { const char *base; long long stride, bytes, shift; } span_t;

long long touch_rows(const span_t *spans, long long count, const long long *rows, long long lanes)
{
    long long sum = 0;
    for (long long s = 0; s < count; s++) {
        const span_t span = spans[s];
        for (long long lane = 0; lane < lanes; lane++) {
            const char *first = span.base + (rows[lane] >> span.shift) * span.stride;
            const char *line = (const char *)((unsigned long long)first & ~63ull);
            for (; line < first + span.bytes; line += 64) sum += *(const volatile int *)line;
        }
    }
    return sum;
}

void copy_rows(char *target, const char *source, const long long *rows, long long lanes,
               long long row_bytes)
{
    for (long long lane = 0; lane < lanes; lane++)
        memcpy(target + lane * row_bytes, source + rows[lane] * row_bytes, row_bytes);
}
"""


class Span(ctypes.Structure):
    """Memory of which a row has a part: ``bytes`` at ``base + (row >> shift) * stride``."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("stride", ctypes.c_longlong),
        ("bytes", ctypes.c_longlong),
        ("shift", ctypes.c_longlong),
    )


class Loops(NamedTuple):
    """The compiled loops."""

    touch_rows: Callable[..., int]
    copy_rows: Callable[..., None]


@cache
def loops() -> Loops | None:
    """The loops, where there is a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        code, path = Path(folder, "bounds.c"), Path(folder, "bounds.so")
        code.write_text(_C_LOOPS)
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", code, "-o", path], check=True)
        library = ctypes.CDLL(str(path))  # stays loaded without its file
    pointer, number = ctypes.c_void_p, ctypes.c_longlong
    library.touch_rows.argtypes = [pointer, number, pointer, number]
    library.touch_rows.restype = number
    library.copy_rows.argtypes = [pointer, pointer, pointer, number, number]
    library.copy_rows.restype = None
    return Loops(library.touch_rows, library.copy_rows)


def bounds_of(buffer: Any, workload: Workload, case: str) -> dict[str, Block]:
    """The limits of a case, of a full `cpreplay.StoreReplay`."""
    call, _, size = case.removesuffix(")").partition("(")
    if call == "add":
        ones = split(workload.make(calls_per_block(workload.row_bytes), 0))
        return {EMPTY: empty_calls(ones)}
    if call == "add_batch":
        rows = int(size)
        nbytes = rows * workload.row_bytes
        count = calls_per_block(nbytes)
        empty = empty_calls([workload.make(rows, number) for number in range(count)])
        if loops() is None:
            return {EMPTY: empty}
        target = np.ones(max(buffer.capacity // rows, 1) * nbytes, np.uint8)
        return {EMPTY: empty, COPY: [append_call(target, np.ones(nbytes, np.uint8))] * count}
    if loops() is None or call not in ("sample", "step"):
        return {}
    lanes = int(size)
    minibatches = drawn_rows(buffer, lanes)
    calls = calls_per_block(lanes * workload.row_bytes)
    if workload.pixels:
        sources = [buffer.column(name) for name in ("obs", "next_obs")]
        return {COPY: [copy_call(sources, minibatches)] * calls}
    return {TOUCH: [touch_call(spans_of(buffer), minibatches)] * calls}


def empty_calls(values: Sequence[Transitions | tuple[Any, ...]]) -> list[Call]:
    """Calls that take the same values as an add, and do nothing."""
    nothing = _Nothing()
    return [partial(nothing.add, *one) for one in values]


class _Nothing:
    def add(
        self, obs: Any, action: Any, reward: Any, next_obs: Any, terminated: Any, **extra: Any
    ) -> None:
        pass


def append_call(target: NDArray[np.uint8], source: NDArray[np.uint8]) -> Call:
    """A call that copies the source behind where it was copied last, and begins again at the end.

    The target's bytes have to be a multiple of the source's.
    """
    compiled = loops()
    assert compiled is not None
    first_row = np.zeros(1, np.int64)
    nbytes, base, rows = len(source), source.ctypes.data, first_row.ctypes.data
    addresses = range(target.ctypes.data, target.ctypes.data + len(target), nbytes)
    next_address = itertools.cycle(addresses).__next__
    kept = (target, source, first_row)  # whose addresses these are

    def append() -> tuple[Any, ...]:
        compiled.copy_rows(next_address(), base, rows, 1, nbytes)
        return kept

    return append


def drawn_rows(buffer: Any, lanes: int) -> NDArray[np.int64]:
    """Rows of so many draws, an array of (draws, lanes)."""
    drawn = np.empty((max(2, min(_MOST_MINIBATCHES, _DRAWN_ROWS // lanes)), lanes), np.int64)
    batch = buffer.make_batch(lanes)
    for rows in drawn:
        rows[...] = buffer.sample(lanes, out=batch).indices
    return drawn


def spans_of(buffer: Any) -> list[Span]:
    """Where a draw has to read: records of rows, and levels of the sum tree below its root."""
    spans: list[Span] = []
    columns = [buffer.column(column.name) for column in buffer.columns]
    places = sorted((view.ctypes.data, view.strides[0], view[0].nbytes) for view in columns)
    for address, stride, nbytes in places:
        last = spans[-1] if spans else None
        if last is not None and last.stride == stride and address - last.base < stride:
            last.bytes = address - last.base + nbytes  # of the same records
        else:
            spans.append(Span(address, stride, nbytes, 0))
    priorities = buffer._ops.priorities
    for level, nodes in enumerate(priorities.levels()[:-1] if priorities is not None else ()):
        node_bytes = nodes.itemsize << _FAN_OUT_SHIFT  # the children of one node, read together
        spans.append(Span(nodes.ctypes.data, node_bytes, node_bytes, (level + 1) * _FAN_OUT_SHIFT))
    return spans


def touch_call(spans: Sequence[Span], minibatches: NDArray[np.int64]) -> Call:
    """A call that touches the rows of the next minibatch."""
    compiled = loops()
    assert compiled is not None
    table = (Span * len(spans))(*spans)
    lanes = minibatches.shape[1]
    next_rows = itertools.cycle([(rows, rows.ctypes.data) for rows in minibatches]).__next__

    def touch() -> int:
        _, rows = next_rows()
        return compiled.touch_rows(table, len(table), rows, lanes)

    return touch


def copy_call(
    sources: Sequence[NDArray[Any]],
    minibatches: NDArray[np.int64],
    targets: Sequence[NDArray[Any]] | None = None,
) -> Call:
    """A call that copies the rows of the next minibatch, of C-contiguous columns."""
    compiled = loops()
    assert compiled is not None
    lanes, row_bytes = minibatches.shape[1], sources[0].strides[0]
    if targets is None:
        targets = [np.ones((lanes, *source.shape[1:]), source.dtype) for source in sources]
    columns = [
        ((target, source), target.ctypes.data, source.ctypes.data)
        for target, source in zip(targets, sources, strict=True)
    ]
    next_rows = itertools.cycle([(rows, rows.ctypes.data) for rows in minibatches]).__next__

    def copy() -> None:
        _, rows = next_rows()
        for _, target, source in columns:
            compiled.copy_rows(target, source, rows, lanes, row_bytes)

    return copy
