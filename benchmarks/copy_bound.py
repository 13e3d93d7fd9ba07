"""The fastest plain copy of scattered rows: what a sampler of large rows can reach at best."""

import ctypes
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.interleave import Call

Pixels = NDArray[np.uint8]

_C_LOOP = """
#include <string.h>
void copy_rows(char *target, const char *source, const long long *rows, long long lanes,
               long long row_bytes)
{
    for (long long lane = 0; lane < lanes; lane++)
        memcpy(target + lane * row_bytes, source + rows[lane] * row_bytes, row_bytes);
}
"""


# Makes a call that copies one minibatch of rows. The minibatches, int64[count, lanes], go around.
# For each column there are a C-contiguous minibatch to fill and the rows to copy from. Addresses
# and lists are made beforehand, so that a call does nothing but copy.
MakeCopy = Callable[[Sequence[Pixels], Sequence[Pixels], NDArray[np.int64]], Call]


def copy_loops() -> dict[str, MakeCopy]:
    """The loops by name; the one in C only where there is a compiler."""
    loops: dict[str, MakeCopy] = {"np.copyto": _numpy_loop, "memmove": _memmove_loop}
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is not None:
        loops["memcpy in C"] = partial(_compiled_loop, _compile(compiler))
    return loops


def _numpy_loop(
    targets: Sequence[Pixels], sources: Sequence[Pixels], minibatches: NDArray[np.int64]
) -> Call:
    columns = [(list(target), source) for target, source in zip(targets, sources, strict=True)]
    next_rows = itertools.cycle(minibatches.tolist()).__next__

    def copy() -> None:
        rows = next_rows()
        for lanes, source in columns:
            for lane, row in zip(lanes, rows, strict=True):
                np.copyto(lane, source[row])

    return copy


def _memmove_loop(
    targets: Sequence[Pixels], sources: Sequence[Pixels], minibatches: NDArray[np.int64]
) -> Call:
    row_bytes = sources[0].strides[0]
    columns = [  # with the arrays themselves, which keep their addresses good
        (
            (target, source),
            [target.ctypes.data + lane * row_bytes for lane in range(len(target))],
            source.ctypes.data,
        )
        for target, source in zip(targets, sources, strict=True)
    ]
    next_rows = itertools.cycle(minibatches.tolist()).__next__

    def copy() -> None:
        rows = next_rows()
        for _, lanes, origin in columns:
            for lane, row in zip(lanes, rows, strict=True):
                ctypes.memmove(lane, origin + row * row_bytes, row_bytes)

    return copy


def _compiled_loop(
    copy_rows: Callable[[int, int, int, int, int], None],
    targets: Sequence[Pixels],
    sources: Sequence[Pixels],
    minibatches: NDArray[np.int64],
) -> Call:
    lanes, row_bytes = minibatches.shape[1], sources[0].strides[0]
    columns = [
        ((target, source), target.ctypes.data, source.ctypes.data)
        for target, source in zip(targets, sources, strict=True)
    ]
    next_rows = itertools.cycle([(rows, rows.ctypes.data) for rows in minibatches]).__next__

    def copy() -> None:
        _, rows = next_rows()
        for _, target, source in columns:
            copy_rows(target, source, rows, lanes, row_bytes)

    return copy


def _compile(compiler: str) -> Callable[[int, int, int, int, int], None]:
    with tempfile.TemporaryDirectory() as folder:
        code, library = Path(folder, "copy_rows.c"), Path(folder, "copy_rows.so")
        code.write_text(_C_LOOP)
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", code, "-o", library], check=True)
        copy_rows = ctypes.CDLL(str(library)).copy_rows  # stays loaded without its file
    copy_rows.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_longlong] * 2
    copy_rows.restype = None
    return copy_rows
