"""Compiles CUDA sources with the real NVRTC, through ctypes: no GPU, no driver and no CuPy needed.

NVRTC comes from the wheel nvidia-cuda-nvrtc-cu12 (CUDA 12) or nvidia-cuda-nvrtc (CUDA 13).
"""

import ctypes
import dataclasses
import importlib.util
import pathlib
import re
from collections.abc import Sequence
from typing import Any

_PLACES = (
    "cuda_nvrtc/lib/libnvrtc.so.*",
    "cu13/lib/libnvrtc.so.*",
    "cu12/lib/libnvrtc.so.*",
)


class CompileError(Exception):
    """NVRTC's log: file(line): error: ..."""


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a kernel needs on one architecture."""

    registers: int
    stack_bytes: int  # local memory, such as an array that is indexed by a variable
    spill_bytes: int  # registers that did not fit: stores and loads


def find() -> pathlib.Path | None:
    """The path of the NVRTC library of this environment, or None."""
    nvidia = importlib.util.find_spec("nvidia")
    for root in nvidia.submodule_search_locations if nvidia else ():
        for place in _PLACES:
            found = sorted(pathlib.Path(root).glob(place))
            if found:
                return found[-1]
    return None


class Nvrtc:
    """The loaded library."""

    def __init__(self, path: pathlib.Path) -> None:
        # CUDA 13's library does not find this one by itself
        for builtins in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(path))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)

    def _call(self, function: str, *args: Any) -> None:
        result = getattr(self._library, function)(*args)
        if result:
            raise CompileError(self._library.nvrtcGetErrorString(result).decode())

    def architectures(self) -> list[int]:
        """Numbers such as 90, for sm_90."""
        n = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(n))
        numbers = (ctypes.c_int * n.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return list(numbers)

    def compile(
        self, source: str, architecture: int, options: Sequence[str] = ()
    ) -> dict[str, Usage]:
        """The `Usage` of each `extern "C"` kernel of a source, by its name."""
        program = ctypes.c_void_p()
        self._call(
            "nvrtcCreateProgram",
            ctypes.byref(program),
            source.encode(),
            b"kernel.cu",
            0,
            None,
            None,
        )
        texts = [*options, f"-arch=sm_{architecture}", "--ptxas-options=-v"]
        array = (ctypes.c_char_p * len(texts))(*(t.encode() for t in texts))
        try:
            result = self._library.nvrtcCompileProgram(program, len(texts), array)
            log = self._log(program)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))
        if result:
            raise CompileError(log)
        return usage(log)

    def _log(self, program: ctypes.c_void_p) -> str:
        size = ctypes.c_size_t()
        self._call("nvrtcGetProgramLogSize", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call("nvrtcGetProgramLog", program, text)
        return text.value.decode()


def usage(log: str) -> dict[str, Usage]:
    """Reads what the assembler says, with -v, about each kernel."""
    found = {}
    for part in log.split("Compiling entry function")[1:]:
        name = re.match(r"\s*'(\w+)'", part)[1]
        stack = int(re.search(r"(\d+) bytes stack frame", part)[1])
        spills = [int(n) for n in re.findall(r"(\d+) bytes spill", part)[:2]]
        registers = int(re.search(r"Used (\d+) registers", part)[1])
        found[name] = Usage(registers, stack, sum(spills))
    return found
