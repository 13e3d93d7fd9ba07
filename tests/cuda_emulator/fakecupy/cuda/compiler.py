"""`cupy.cuda.compiler`."""

from ...emu import CompileError as CompileException
