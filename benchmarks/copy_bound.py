"""The fastest plain copy of scattered rows: what a sampler of large rows can reach at best."""

import ctypes
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
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


def row_copies(
    targets: Sequence[Pixels], sources: Sequence[Pixels], minibatches: NDArray[np.int64]
) -> dict[str, Call]:
    """Loops that copy one minibatch of rows a call, by name.

    Parameters
    ----------
    targets, sources
        For each column the C-contiguous minibatch to fill and the rows to copy from.
    minibatches : int64[count, lanes]
        The rows of each call, which go around. Addresses and lists are made beforehand, so that a
        call does nothing but copy.

    Returns
    -------
    dict
        The loop in C is there only where a compiler is.
    """
    copies: dict[str, Call] = {
        "np.copyto": _numpy_loop(targets, sources, minibatches),
        "memmove": _memmove_loop(targets, sources, minibatches),
    }
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is not None:
        copies["memcpy in C"] = _compiled_loop(compiler, targets, sources, minibatches)
    return copies


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
    columns = [
        ([target.ctypes.data + lane * row_bytes for lane in range(len(target))], source.ctypes.data)
        for target, source in zip(targets, sources, strict=True)
    ]
    next_rows = itertools.cycle(minibatches.tolist()).__next__

    def copy() -> None:
        rows = next_rows()
        for lanes, origin in columns:
            for lane, row in zip(lanes, rows, strict=True):
                ctypes.memmove(lane, origin + row * row_bytes, row_bytes)

    return copy


def _compiled_loop(
    compiler: str,
    targets: Sequence[Pixels],
    sources: Sequence[Pixels],
    minibatches: NDArray[np.int64],
) -> Call:
    with tempfile.TemporaryDirectory() as folder:
        code, library = Path(folder, "copy_rows.c"), Path(folder, "copy_rows.so")
        code.write_text(_C_LOOP)
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", code, "-o", library], check=True)
        copy_rows = ctypes.CDLL(str(library)).copy_rows  # stays loaded without its file
    copy_rows.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_longlong] * 2
    copy_rows.restype = None
    row_bytes = sources[0].strides[0]
    columns = [
        (target.ctypes.data, source.ctypes.data)
        for target, source in zip(targets, sources, strict=True)
    ]
    lanes = minibatches.shape[1]
    first = minibatches.ctypes.data
    next_rows = itertools.cycle(range(first, first + minibatches.nbytes, lanes * 8)).__next__

    def copy() -> None:
        rows = next_rows()
        for target, source in columns:
            copy_rows(target, source, rows, lanes, row_bytes)

    return copy
