"""Plants a mutant in a copy of the project, and sees what the tests say."""

import enum
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy

from tests.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 180  # seconds for one mutant

_BROKEN = re.compile(
    r"\b(CompileError|CompileException|CalledProcessError|SyntaxError|NameError)\b"
)
_COPIED = ("cpreplay", "cuda_src", "host_src", "tests", "setup.cfg", "pyproject.toml",
           "LICENSE", "README.md", "CHANGELOG.md")  # fmt: skip

_LOOPS = "cpreplay/_native.abi3.so"
# setup.py's flags, but for the optimisation: to compile takes half the time.
_COMPILE = (
    os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing",
    "-fvisibility=hidden", "-shared", "-fPIC", "-Ihost_src", "-Icuda_src",
    f"-I{numpy.get_include()}", f"-I{sysconfig.get_path('include')}", "host_src/module.cpp",
    "-o", _LOOPS,
)  # fmt: skip


class Outcome(enum.Enum):
    """How a mutant fared."""

    ASSERTION = "caught by a failing test, or by a crash of compiled loops"
    FINDING = "caught by a finding of the emulator"
    BROKEN = "not a mutant: it does not compile"
    STALE = "not a mutant: its text is not in the file, or more than once"
    SURVIVED = "survived"
    TIMEOUT = "timed out"

    @property
    def caught(self) -> bool:
        return self in (Outcome.ASSERTION, Outcome.FINDING)


class Workshop:
    """A copy of the project in a temporary folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder / "project"
        self._folder.mkdir()
        unwanted = shutil.ignore_patterns("__pycache__", ".*")
        for name in _COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self._folder / name, ignore=unwanted)
            else:
                shutil.copy(source, self._folder / name)
        self._environment = {
            **os.environ,
            "CPREPLAY_EMU_SEEDS": str(seed),
            "CPREPLAY_REQUIRE_NATIVE": "1",  # or mutants of compiled loops survive by skips
            "CPREPLAY_EMU_CACHE": str(folder / "emulator"),
            "COLUMNS": "300",  # so that pytest does not shorten its summary
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        complaint = self._compile()
        if complaint:
            raise RuntimeError(complaint)

    def try_mutant(self, file: str, mutant: Mutant, tests: Sequence[str]) -> tuple[Outcome, str]:
        """Run tests with a mutant in its place; its fate, and which test failed."""
        path, loops = self._folder / file, self._folder / _LOOPS
        sound, sound_loops = path.read_text(encoding="utf-8"), loops.read_bytes()
        try:
            mutated = mutant.applied(sound)
        except LookupError as error:
            return Outcome.STALE, str(error)
        _write(path, mutated)
        try:
            complaint = self._compile() if file.startswith("host_src/") else ""
            return (Outcome.BROKEN, complaint) if complaint else self.run(tests)
        finally:
            _write(path, sound)
            loops.write_bytes(sound_loops)

    def _compile(self) -> str:
        """Compile the loops of host buffers; what the compiler says where it cannot."""
        done = subprocess.run(
            _COMPILE, cwd=self._folder, capture_output=True, text=True, check=False
        )
        return done.stderr if done.returncode else ""

    def run(self, tests: Sequence[str]) -> tuple[Outcome, str]:
        """Run test files in order up to the first failure."""
        shutil.rmtree(self._folder / ".hypothesis", ignore_errors=True)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=short"]
        command += ["-p", "no:cacheprovider", "-p", "tests.mutants.plugin"]
        command += [test if test.startswith("-") else f"tests/test_{test}.py" for test in tests]
        with subprocess.Popen(
            command, cwd=self._folder, env=self._environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=LIMIT)
            except BaseException as error:  # nothing that was started may outlive this
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                if isinstance(error, subprocess.TimeoutExpired):
                    return Outcome.TIMEOUT, f"{LIMIT} s"
                raise
        return _verdict(process.returncode, output)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    # Bytecode goes by size and time in seconds, which two mutants may share.
    for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        stale.unlink()


@contextmanager
def workshop(seed: int) -> Iterator[Workshop]:
    """A workshop whose folder is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="cpreplay-mutants-") as folder:
        yield Workshop(Path(folder), seed)


def _verdict(code: int, output: str) -> tuple[Outcome, str]:
    if code == 0:
        return Outcome.SURVIVED, ""
    if code < 0:
        return Outcome.ASSERTION, f"a crash: {signal.Signals(-code).name}"
    failed = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    detail = failed[0].split(" ", 1)[1] if failed else output.strip()[-2000:]
    if code != 1 or _BROKEN.search(detail):  # 2: a file cannot be collected
        return Outcome.BROKEN, detail
    return (Outcome.FINDING if "EmuError" in detail else Outcome.ASSERTION), detail
