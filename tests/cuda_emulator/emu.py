"""Compiles CUDA sources with g++ into emulated modules, and launches their kernels.

Environment: CPREPLAY_EMU_CACHE is the folder of compiled modules, CPREPLAY_EMU_CXX the compiler,
CPREPLAY_EMU_MODE "check" (the default) or "fast".
"""

import ctypes
import dataclasses
import functools
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Any

CORE = pathlib.Path(__file__).parent / "core"
SHIM = CORE / "cuda_emu.h"
CXX = os.environ.get("CPREPLAY_EMU_CXX", "g++")
CACHE = pathlib.Path(
    os.environ.get("CPREPLAY_EMU_CACHE") or pathlib.Path.home() / ".cache" / "cpreplay-emulator"
)
KEEP_SECONDS = 30 * 24 * 3600
KEEP_BYTES = 256 << 20

# -ffp-contract=off: no fused multiply-add; NVRTC is told the same with -fmad=false
COMMON = ("-std=c++17", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-builtin", "-w")
# -Bsymbolic: a kernel may have the name of a function of libc, as `advance` has
LINK = ("-shared", "-Wl,-Bsymbolic")
# The sanitizers' runtimes are not linked: emu_core.cpp has the hooks.  (-fsanitize=float-divide-
# by-zero is not asked for: IEEE defines the quotient.)
MODES = {
    "fast": ("-O2",),
    "check": (
        "-O1",
        "-gdwarf-4",
        "-fsanitize=thread,undefined,float-cast-overflow",
        "-fno-sanitize=vptr",
        "-fsanitize-coverage=trace-pc",
        "-fno-tree-vectorize",
        "--param=tsan-instrument-func-entry-exit=0",
        "--param=tsan-distinguish-volatile=0",
    ),
}


class EmuError(AssertionError):
    """What the emulator found: a mistake in a kernel, or in how it was used.

    An AssertionError, so that code under test that handles the RuntimeErrors of CUDA lets it pass.

    Attributes
    ----------
    address : int
        Of an access outside of all arrays, else 0.
    """

    def __init__(self, message: str, address: int = 0) -> None:
        super().__init__(message)
        self.address = address


class CompileError(Exception):
    """The compiler's messages."""


@dataclasses.dataclass
class Config:
    """How kernels are compiled and run."""

    mode: str = os.environ.get("CPREPLAY_EMU_MODE", "check")
    seed: int = 1  # of the order of blocks and threads; 0 is plain order
    resident: int = 2  # blocks that run interleaved
    preempt_gap: int = 20  # a thread yields after 1 to this many accesses (mode "check"); 0: never
    flush_denormals: bool = True  # as CuPy's -ftz=true does
    limit: int = 1 << 30  # branches and switches after which a launch counts as endless


config = Config()


# ---- the cache of compiled libraries


@functools.cache
def _compiler_version() -> str:
    run = subprocess.run([CXX, "--version"], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()[0]


def _key(*parts: object) -> str:
    """Names everything that goes into a build."""
    return hashlib.sha256(repr((_compiler_version(), CXX, LINK, *parts)).encode()).hexdigest()[:24]


def _run(command: Sequence[Any]) -> None:
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if run.returncode:
        raise CompileError(run.stderr)


def _library(key: str, source: str, compile_flags: Sequence[str]) -> pathlib.Path:
    """The path of the shared library of a key, built now unless it is in the cache.

    It is built in a folder of its own and then moved into place, so that several processes may
    build the same one.
    """
    path = CACHE / f"{key}.so"
    try:  # not exists() first: another process may prune in between
        os.utime(path)  # pruning goes by the time of the last use
    except FileNotFoundError:
        _build(path, source, compile_flags)
    return path


def _build(path: pathlib.Path, source: str, compile_flags: Sequence[str]) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"build-{path.stem}-", dir=CACHE) as folder:
        folder = pathlib.Path(folder)
        (folder / "source.cpp").write_text(source)
        # two steps: with the -fsanitize flags the link would pull in the runtimes
        _run([CXX, *compile_flags, "-c", folder / "source.cpp", "-o", folder / "object.o"])
        _run([CXX, *LINK, folder / "object.o", "-o", folder / "library.so"])
        os.replace(folder / "library.so", path)


_OUR_LIBRARY = re.compile(r"[0-9a-f]{24}\.so")
_OUR_BUILD = re.compile(r"build-[0-9a-f]{24}-\w+")


def prune(now: float | None = None) -> None:
    """Remove libraries that were not used for a month, and the oldest beyond the size limit.

    Whatever does not have the name of one of our libraries or builds is left alone.
    """
    now = time.time() if now is None else now
    found = []
    for entry in CACHE.iterdir() if CACHE.is_dir() else ():
        try:
            status = entry.lstat()
        except FileNotFoundError:  # another process prunes too
            continue
        if stat.S_ISDIR(status.st_mode):  # a build that was killed leaves its folder
            if _OUR_BUILD.fullmatch(entry.name) and now - status.st_mtime > 24 * 3600:
                shutil.rmtree(entry, ignore_errors=True)
        elif _OUR_LIBRARY.fullmatch(entry.name):
            found.append((status.st_mtime, status.st_size, entry))
    total = 0
    for mtime, size, entry in sorted(found, reverse=True):
        total += size
        if now - mtime > KEEP_SECONDS or total > KEEP_BYTES:
            entry.unlink(missing_ok=True)


@functools.cache
def core() -> ctypes.PyDLL:
    """The scheduler's library, loaded so that the kernels' libraries find its functions."""
    prune()
    flags = ("-O2", "-g", "-std=c++17", "-fPIC", f"-I{CORE}")
    text = (CORE / "emu_core.cpp").read_text()
    headers = [header.read_text() for header in sorted(CORE.glob("*.h"))]
    path = _library(_key(text, headers, flags), text, flags)
    # PyDLL: Python's lock is held, so that one thread at a time uses the core, which has no lock
    library = ctypes.PyDLL(str(path), ctypes.RTLD_GLOBAL)
    address, size = ctypes.c_size_t, ctypes.c_size_t
    shape = ctypes.POINTER(ctypes.c_ssize_t)
    library.emu_launch.restype = ctypes.c_char_p
    library.emu_accesses.restype = ctypes.c_uint64
    library.emu_error_pc.restype = library.emu_error_address.restype = address
    library.emu_register.argtypes = [address, size, ctypes.c_char_p]
    library.emu_unregister.argtypes = [address]
    library.emu_zero.argtypes = [address, size]
    library.emu_is_live.argtypes = [address, size]
    library.emu_written.argtypes = [address, size, ctypes.c_int, shape, shape]
    library.emu_register_library.argtypes = [ctypes.c_char_p]
    return library


# ---- reading a source

# A kernel's definition: group 1 is its template header, if any; group 2 its name.
_KERNEL = re.compile(
    r"(template\s*<[^;{}()]*>\s*)?"
    r'(?:extern\s+"C"\s+)?'
    r"__global__\s+void\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?"
    r"(\w+)\s*\("
)
# A shared variable: "extern" or nothing, its type, its name, its dimensions.
_SHARED = re.compile(
    r"\b(extern\s+)?__shared__\s+"
    r"((?:__align__\(\d+\)\s*)?[\w:<> ]*?[\w>])\s+"
    r"(\w+)\s*"
    r"((?:\[[^\]]*\]\s*)*);"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def rewrite_shared(code: str) -> str:
    """Turn each __shared__ variable into per-block storage.  The line count stays."""

    def storage(match: re.Match[str]) -> str:
        is_dynamic, ctype, name, dimensions = match.groups()
        if is_dynamic:
            return f"EMU_DYNAMIC_SHARED({ctype}, {name});"
        return f"EMU_SHARED({ctype}, {name}, {dimensions});"

    return _SHARED.sub(storage, code)


class _Parameter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_char_p),
        ("size", ctypes.c_uint),
        ("is_pointer", ctypes.c_uint),
        ("points_to_const", ctypes.c_uint),
    )


@functools.lru_cache(maxsize=256)
def module(
    code: str, instances: tuple[str, ...] = (), defines: tuple[str, ...] = (), mode: str = "check"
) -> "Module":
    """The `Module` of these, made once."""
    return Module(code, instances, defines, mode)


class Module:
    """One compiled source.

    Parameters
    ----------
    code : str
        The text, with its headers inlined.
    instances : sequence of str
        Instances of template kernels, such as "fill<float>".
    defines : sequence of str
        Macros, as "NAME" or "NAME=value".
    """

    def __init__(
        self,
        code: str,
        instances: Sequence[str] = (),
        defines: Sequence[str] = (),
        mode: str | None = None,
    ) -> None:
        core()
        self.mode = mode or config.mode
        plain = [name for template, name in _KERNEL.findall(_COMMENT.sub("", code)) if not template]
        # name as the caller gives it -> identifier of its exported entry point
        self.entry_points = {name: f"instance_{i}" for i, name in enumerate(instances)}
        self.entry_points.update((name, name) for name in plain)
        exports = "".join(f"EMU_EXPORT({v}, {k})\n" for k, v in self.entry_points.items())
        text = f'#line 1 "kernel.cu"\n{rewrite_shared(code)}\n#line 1 "<exports>"\n{exports}'
        flags = (*COMMON, *MODES[self.mode], *(f"-D{d}" for d in defines), "-include", str(SHIM))
        shim = [header.read_text() for header in (SHIM, CORE / "kinds.h")]
        self.path = str(_library(_key(text, flags, shim), text, flags))
        self._library = ctypes.CDLL(self.path)
        core().emu_register_library(self.path.encode())
        self._signatures = {}

    def signature(self, name: str) -> list[tuple[str, int]]:
        """The kernel's parameters as (code, bytes) pairs, such as ("c*f4", 8) and ("i4", 4)."""
        if name not in self._signatures:
            describe = getattr(self._library, f"emu_parameters_{self.entry_points[name]}")
            describe.restype = ctypes.POINTER(_Parameter)
            n = ctypes.c_uint()
            found = describe(ctypes.byref(n))
            self._signatures[name] = [
                ("c" * p.points_to_const + "*" * p.is_pointer + p.code.decode(), p.size)
                for p in found[: n.value]
            ]
        return self._signatures[name]

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Any],
        shared_mem: int = 0,
        shared_limit: int = 48 * 1024,
        **overrides: Any,
    ) -> int:
        """Run a kernel to its end, or raise EmuError.

        Parameters
        ----------
        arguments : sequence of ctypes objects
            One for each parameter.
        shared_limit : int
            Bytes that static and dynamic shared memory may have together.
        overrides
            Fields of `Config`, for this launch only.

        Returns
        -------
        int
            Accesses of global memory; 0 in mode "fast".
        """
        settings = dataclasses.replace(config, **overrides)
        checking = self.mode == "check"
        pointers = [ctypes.cast(ctypes.pointer(a), ctypes.c_void_p) for a in arguments]
        dim3 = ctypes.c_uint * 3
        error = core().emu_launch(
            getattr(self._library, f"emu_kernel_{self.entry_points[name]}"),
            (ctypes.c_void_p * max(1, len(pointers)))(*pointers),
            dim3(*(*grid, 1, 1)[:3]),
            dim3(*(*block, 1, 1)[:3]),
            ctypes.c_size_t(shared_mem),
            ctypes.c_size_t(shared_limit),
            ctypes.c_uint64(settings.seed),
            ctypes.c_uint(settings.resident),
            ctypes.c_uint(settings.preempt_gap if checking else 0),
            ctypes.c_int(checking),
            ctypes.c_int(settings.flush_denormals),
            ctypes.c_uint64(settings.limit),
        )
        if error is not None:
            where = self._where(core().emu_error_pc())
            raise EmuError(f"{name}: {error.decode()}{where}", core().emu_error_address())
        return core().emu_accesses()

    def _where(self, pc: int) -> str:
        """The text " at file:line" for a program counter inside this module, or nothing."""
        if not pc:
            return ""
        maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
        starts = [int(line.split("-")[0], 16) for line in maps if line.endswith(self.path)]
        ends = [int(re.split("[- ]", line)[1], 16) for line in maps if line.endswith(self.path)]
        if not starts or not min(starts) <= pc < max(ends):
            return ""
        command = ["addr2line", "-e", self.path, hex(pc - 1 - min(starts))]
        run = subprocess.run(command, capture_output=True, text=True)
        return " at " + os.path.basename(run.stdout.strip()).split(" (")[0]
