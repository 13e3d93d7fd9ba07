"""The fastest plain copy of scattered rows: what a sampler of large rows can reach at best."""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
# Copies source[row] to target[lane] for the rows of one minibatch, lane by lane.
RowCopy = Callable[[Pixels, Pixels, NDArray[np.int64]], object]

_C_LOOP = """
#include <string.h>
void copy_rows(char *target, const char *source, const long long *rows, long long lanes,
               long long row_bytes)
{
    for (long long lane = 0; lane < lanes; lane++)
        memcpy(target + lane * row_bytes, source + rows[lane] * row_bytes, row_bytes);
}
"""


def row_copies() -> dict[str, RowCopy]:
    """The plain loops to choose from, by name; the compiled one only where there is a compiler."""
    copies: dict[str, RowCopy] = {"np.copyto per row": _numpy_loop, "ctypes.memmove": _memmove_loop}
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is not None:
        copies["memcpy in C"] = _compiled_loop(compiler)
    return copies


def _numpy_loop(target: Pixels, source: Pixels, rows: NDArray[np.int64]) -> None:
    for lane, row in enumerate(rows.tolist()):
        np.copyto(target[lane], source[row])


def _memmove_loop(target: Pixels, source: Pixels, rows: NDArray[np.int64]) -> None:
    to, origin, row_bytes = target.ctypes.data, source.ctypes.data, source.strides[0]
    for lane, row in enumerate(rows.tolist()):
        ctypes.memmove(to + lane * row_bytes, origin + row * row_bytes, row_bytes)


def _compiled_loop(compiler: str) -> RowCopy:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "copy_rows.c"), Path(folder, "copy_rows.so")
        source.write_text(_C_LOOP)
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", source, "-o", library], check=True)
        copy_rows = ctypes.CDLL(str(library)).copy_rows  # stays loaded without its file
    copy_rows.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_longlong] * 2
    copy_rows.restype = None
    return partial(_call_compiled, copy_rows)


def _call_compiled(
    copy_rows: Callable[..., None], target: Pixels, source: Pixels, rows: NDArray[np.int64]
) -> None:
    copy_rows(
        target.ctypes.data, source.ctypes.data, rows.ctypes.data, len(rows), source.strides[0]
    )
