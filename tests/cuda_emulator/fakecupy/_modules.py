"""Which modules the fake stands for."""

import sys
import types

from ._memory import empty_pinned


def modules() -> dict[str, types.ModuleType]:
    """Module name -> module, for `monkeypatch.setitem(sys.modules, name, module)`."""
    package = __name__.rpartition(".")[0]
    found = {"cupy": sys.modules[package]}
    for name in ("cuda", "cuda.compiler", "cuda.memory", "cuda.nvrtc", "cuda.runtime"):
        found[f"cupy.{name}"] = sys.modules[f"{package}.{name}"]
    cupyx = types.ModuleType("cupyx")
    cupyx.empty_pinned = empty_pinned
    found["cupyx"] = cupyx
    return found
