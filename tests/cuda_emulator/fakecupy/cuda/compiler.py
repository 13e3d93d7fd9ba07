"""`cupy.cuda.compiler`."""

from ...emu import CompileError as CompileException

__all__ = [
    "CompileException",
]
