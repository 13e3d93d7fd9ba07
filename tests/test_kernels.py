"""Where the CUDA sources are found, and what is made of them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpreplay import kernels

SOURCES = sorted(path.name for path in kernels.FOLDER.glob("*.cu"))
HEADERS = sorted(path.name for path in kernels.FOLDER.glob("*.cuh"))


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the sources, in their place, that a test may damage."""
    folder = tmp_path / "cuda_src"
    shutil.copytree(kernels.FOLDER, folder)
    monkeypatch.setattr(kernels, "FOLDER", folder)
    kernels._text.cache_clear()
    yield folder
    kernels._text.cache_clear()


def test_the_sources_lie_beside_the_package() -> None:
    assert Path(kernels.__file__).resolve().parents[1] / "cuda_src" == kernels.FOLDER
    assert SOURCES
    assert HEADERS


def test_the_table_names_exactly_the_kernels_that_the_sources_define() -> None:
    head = r'extern "C" __global__ void (?:__launch_bounds__\(\w+\)\s+)?(\w+)\('
    defined = {
        name: tuple(re.findall(head, (kernels.FOLDER / name).read_text())) for name in SOURCES
    }
    assert {name: sorted(found) for name, found in defined.items()} == {
        name: sorted(listed) for name, listed in kernels.KERNELS.items()
    }
    every = [kernel for found in defined.values() for kernel in found]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("name", SOURCES + HEADERS)
def test_every_kernel_has_a_c_name_and_headers_have_none(name: str) -> None:
    text = (kernels.FOLDER / name).read_text()
    expected = 0 if name in HEADERS else len(kernels.KERNELS[name])
    assert text.count("__global__") == text.count('extern "C"') == expected
    if name in HEADERS:
        assert "#pragma once" in text


@pytest.mark.parametrize("name", SOURCES + HEADERS)
def test_only_our_own_headers_are_included(name: str) -> None:
    text = (kernels.FOLDER / name).read_text()
    includes = re.findall(r"^\s*#\s*include\s+(.*)$", text, re.MULTILINE)
    assert {include.strip('"') for include in includes} <= set(HEADERS)
    assert not any(include.startswith("<") for include in includes)


@pytest.mark.parametrize("name", SOURCES)
def test_the_text_has_each_header_once_and_includes_nothing(name: str) -> None:
    text = kernels.source(name)
    assert not re.search(r"^\s*#\s*include", text, re.MULTILINE)
    assert "#pragma once" not in text
    for header in HEADERS:
        first_comment = (kernels.FOLDER / header).read_text().splitlines()[0]
        used = f'"{header}"' in text  # in a #line mark
        assert text.count(first_comment) == used
        assert text.count(f'#line 1 "{header}"\n') == used
    assert text.startswith(f'#line 1 "{name}"\n')


@pytest.mark.parametrize("name", SOURCES)
def test_every_line_keeps_its_file_and_number(name: str) -> None:
    # Read the #line marks as a compiler does, and compare with the files.
    file, number, lines = "", 0, {}
    for line in kernels.source(name).splitlines():
        if mark := re.fullmatch(r'#line (\d+) "(.+)"', line):
            file, number = mark[2], int(mark[1])
            continue
        lines[file, number] = line
        number += 1
    assert name in {file for file, _ in lines}
    for (file, number), line in lines.items():
        original = (kernels.FOLDER / file).read_text().splitlines()[number - 1]
        assert line == ("" if original.startswith("#pragma once") else original)
    code = {(file, number) for (file, number), line in lines.items() if line}
    expected = {
        (file, number)
        for file in {file for file, _ in lines}
        for number, line in enumerate((kernels.FOLDER / file).read_text().splitlines(), 1)
        if line and not line.startswith(("#pragma once", "#include"))
    }
    assert code == expected


@pytest.mark.parametrize("name", ["rows.cu", "quantize.cuh", "common.cuh", "control.cuh"])
def test_an_error_is_reported_in_its_own_file_and_line(name: str, copied: Path) -> None:
    lines = (copied / name).read_text().splitlines()
    (copied / name).write_text("\n".join([*lines, "#error planted here", ""]))
    compiler = shutil.which("g++")
    assert compiler, "g++ is needed by the tests"
    report = subprocess.run(
        [compiler, "-x", "c++", "-E", "-o", "/dev/null", "-"],
        input=kernels.source("rows.cu"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.returncode != 0
    assert f"{name}:{len(lines) + 1}:" in report.stderr
    assert "planted here" in report.stderr


def test_an_edited_header_changes_the_text_that_the_kernel_cache_is_keyed_by(copied: Path) -> None:
    before = kernels.source("draws.cu")
    (copied / "philox.cuh").write_text((copied / "philox.cuh").read_text() + "// edited\n")
    kernels._text.cache_clear()
    after = kernels.source("draws.cu")
    assert "// edited" in after
    assert after.replace("// edited\n", "") == before


def test_a_source_that_is_missing_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no_such\.cu"):
        kernels.source("no_such.cu")


def test_every_kernel_is_made_of_its_source_with_the_same_options() -> None:
    made: dict[str, tuple[str, tuple[str, ...]]] = {}

    class Recorder:
        @staticmethod
        def RawKernel(code: str, name: str, options: tuple[str, ...]) -> str:
            made[name] = (code, options)
            return f"kernel {name}"

    loaded = kernels.load(Recorder)
    assert loaded == {name: f"kernel {name}" for name in made}
    for file, names in kernels.KERNELS.items():
        for name in names:
            assert made[name] == (kernels.source(file), kernels.OPTIONS)
    assert "-fmad=false" in kernels.OPTIONS  # one rounding per operation, as on the host


HEAVY = ("cupy", "torch", "jax", "gymnasium", "tensorflow", "matplotlib")


@pytest.mark.parametrize(
    "use",
    [
        "import cpreplay",
        "import cpreplay.kernels as k; k.source('rows.cu')",
        "import cpreplay; b = cpreplay.StoreReplay(3, 2, 10); "
        "b.add([0, 0, 0], [0, 0], 0, [0, 0, 0], False); b.sample(4)",
    ],
)
def test_neither_cupy_nor_a_framework_is_imported_by_itself(use: str) -> None:
    program = f"{use}\nimport sys\nprint(sorted(sys.modules.keys() & set({HEAVY!r})))"
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(kernels.__file__).parents[1],
    )
    assert result.stdout.strip() == "[]"
