"""Finds the CUDA sources, inlines their headers, and makes CuPy kernels of them."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

_HERE = Path(__file__).resolve().parent

#: Where the sources lie: inside the package where it was installed from a wheel, beside it in a
#: checkout, an unpacked sdist and an editable install.
FOLDER = next(
    folder for folder in (_HERE / "cuda_src", _HERE.parent / "cuda_src") if folder.is_dir()
)

# -fmad=false: one rounding per operation, as on the host. CuPy adds -ftz=true by itself.
OPTIONS = ("-std=c++17", "-fmad=false")

#: Which kernels each source defines.
KERNELS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "draws.cu": (
            "draw_rows",
            "draw_range",
            "configure_ere",
            "configure_per",
            "set_beta",
            "pin_demos",
        ),
        "nstep.cu": ("append_steps", "forget_steps"),
        "rows.cu": ("store_rows", "move_cursor", "gather_rows"),
        "sumtree.cu": (
            "draw_by_priority",
            "enter_rows",
            "update_few",
            "claim_rows",
            "write_leaves",
            "sum_ancestors",
            "end_update",
            "sum_level",
        ),
    }
)

_INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')


def source(name: str) -> str:
    """The text of a source with its headers in place, each once, and ``#line`` marks.

    CuPy's kernel cache is keyed by this text but not by the headers it would include, so an edited
    header could meet a stale kernel; and no include path is needed.
    """
    return _inlined(name, set())


def load(cupy: Any) -> Mapping[str, Any]:
    """Every kernel by name. CuPy compiles each source once, and caches the result on disk."""
    return {
        kernel: cupy.RawKernel(source(name), kernel, options=OPTIONS)
        for name, kernels in KERNELS.items()
        for kernel in kernels
    }


def _inlined(name: str, seen: set[str]) -> str:
    parts = [f'#line 1 "{name}"\n']
    for number, line in enumerate(_text(name).splitlines(keepends=True), 1):
        include = _INCLUDE.match(line)
        if include is None:
            parts.append("\n" if line.startswith("#pragma once") else line)
            continue
        if include[1] not in seen:
            seen.add(include[1])
            parts.append(_inlined(include[1], seen))
        parts.append(f'#line {number + 1} "{name}"\n')
    return "".join(parts)


@functools.cache
def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
