"""What a user installs: wheel, sdist, editable install and plain checkout, each complete by itself.

Everything is built from a copy, by setuptools' own build hooks and pip, without the network.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import attrs
import numpy as np
import pytest

import cpreplay
from cpreplay import kernels

REPOSITORY = Path(cpreplay.__file__).resolve().parents[1]
PROJECT = ("cpreplay", "cuda_src", "host_src", "setup.cfg", "setup.py", "pyproject.toml", "LICENSE",
           "README.md", "CHANGELOG.md", "MANIFEST.in")  # fmt: skip
COMPILED = "cpreplay/_native.abi3.so"


def python_files(package: Path) -> set[str]:
    """The modules of a package and of the packages in it, as paths."""
    return {path.relative_to(package).as_posix() for path in package.rglob("*.py")}


PYTHON_FILES = python_files(REPOSITORY / "cpreplay")
CUDA_FILES = {path.name for path in (REPOSITORY / "cuda_src").iterdir() if path.is_file()}


def run(*command: object, cwd: Path, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, *map(str, command)], cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def copy_project(target: Path) -> Path:
    """The files of the project as in a fresh checkout."""
    target.mkdir()
    for name in PROJECT:
        path = REPOSITORY / name
        if path.is_dir():
            built = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(path, target / name, ignore=built)
        else:
            shutil.copy(path, target)
    return target


def build(hook: str, project: Path, folder: Path, **environment: str) -> Path:
    """A distribution made by a hook of the build system (PEP 517)."""
    folder.mkdir()
    program = f"import sys; from setuptools import build_meta as b; b.{hook}(sys.argv[1])"
    run("-c", program, folder, cwd=project, **environment)
    (built,) = folder.iterdir()
    return built


def pip_install(*arguments: object, target: Path) -> Path:
    run("-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--quiet",
        "--disable-pip-version-check", "--target", target, *arguments,
        cwd=target.parent)  # fmt: skip
    return target


@pytest.fixture(scope="module")
def tools() -> None:
    """Fails rather than skips: what users install has to be tested."""
    try:
        installed = metadata.version("setuptools")
    except metadata.PackageNotFoundError:
        installed = "0.0"
    numbers = tuple(int(part) for part in installed.split(".")[:2])
    assert numbers >= (70, 1), f"setuptools {installed}: run pip install 'setuptools >= 70.1'"


@pytest.fixture(scope="module")
def wheel(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    return build("build_wheel", copy_project(folder / "project"), folder / "dist")


@pytest.fixture(scope="module")
def sdist(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that an sdist unpacks to."""
    folder = tmp_path_factory.mktemp("sdist")
    archive = build("build_sdist", copy_project(folder / "project"), folder / "dist")
    with tarfile.open(archive) as tar:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4 on
        tar.extractall(folder / "unpacked", **safely)
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked


FORMS = ("checkout", "wheel", "sdist", "editable")


@pytest.fixture(params=FORMS)
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A folder for Python's path, and the folder under which everything has to be found."""
    if request.param == "checkout":
        project = copy_project(tmp_path / "checkout")
        return project, project
    if request.param == "sdist":
        project = request.getfixturevalue("sdist")
        return project, project
    target = tmp_path / "site"
    if request.param == "wheel":
        pip_install(request.getfixturevalue("wheel"), target=target)
        return target, target
    request.getfixturevalue("tools")
    project = copy_project(tmp_path / "project")
    pip_install("--editable", project, target=target)
    return target, project


def run_installed(program: str, folder: Path, cwd: Path) -> str:
    """Run a program that finds cpreplay in a folder alone, and its dependencies where ours are.

    Without ``site``, so that no path file of this environment, such as that of an editable
    install, leads back to the repository.
    """
    dependencies = {str(Path(module.__file__).parents[1]) for module in (attrs, np)}
    start = (
        f"import site, sys; site.addsitedir({str(folder)!r}); sys.path += {sorted(dependencies)}\n"
    )
    return run("-S", "-E", "-c", start + program, cwd=cwd)


def test_the_package_finds_its_own_cuda_sources(
    installed: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, root = installed
    empty = tmp_path / "empty"
    empty.mkdir()
    program = (
        "import cpreplay, cpreplay.kernels as k\n"
        "print(cpreplay.__file__, k.FOLDER, cpreplay.__version__, sep='\\n')\n"
        "for name in k.KERNELS: print(k.source(name).splitlines()[0])\n"
    )
    where, sources, version, *marks = run_installed(program, folder, empty).splitlines()
    assert Path(where).resolve().is_relative_to(root.resolve())
    inside = root / "cpreplay" / "cuda_src"  # of a wheel
    expected = inside if inside.exists() else root / "cuda_src"
    assert Path(sources).resolve() == expected.resolve()
    assert version == cpreplay.__version__
    assert marks == [f'#line 1 "{name}"' for name in kernels.KERNELS]


def test_the_package_stores_and_draws(installed: tuple[Path, Path], tmp_path: Path) -> None:
    program = (
        "import cpreplay\n"
        "b = cpreplay.StoreReplay(3, 2, 8, seed=1, rng='philox')\n"
        "b.add([1, 2, 3], [4, 5], 6, [7, 8, 9], True)\n"
        "print(b.sample(2).obs.tolist())\n"
        "demos = cpreplay.DemoSet(1, 1)\n"
        "demos.begin_episode()\n"
        "demos.add([1], [2], 3, [4], True)\n"
        "demos.end_episode(True)\n"
        "cpreplay.write_demo_file('one.demo', demos)\n"
        "print(len(cpreplay.read_demo_file('one.demo')))\n"
    )
    printed = run_installed(program, installed[0], tmp_path)
    assert printed == "[[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]\n1\n"


def test_the_wheel_has_every_file_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = f"cpreplay-{cpreplay.__version__}.dist-info"
    code = {name for name in names if not name.startswith(info)}
    assert code == (
        {f"cpreplay/{name}" for name in PYTHON_FILES | {"py.typed", "_native.pyi"}}
        | {COMPILED}
        | {f"cpreplay/cuda_src/{name}" for name in CUDA_FILES}
    )
    assert {name for name in names if Path(name).name == "LICENSE"}
    assert any(name.endswith(".cu") for name in code)
    assert any(name.endswith(".cuh") for name in code)


NEEDS_NO_LOOPS = {"CPREPLAY_REQUIRE_NATIVE": ""}


@pytest.fixture(scope="module")
def wheel_without_compiler(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without")
    project = copy_project(folder / "project")
    return build("build_wheel", project, folder / "dist", CC="false", CXX="false", **NEEDS_NO_LOOPS)


def test_without_a_compiler_the_installation_goes_on_and_numpy_does_the_work(
    wheel_without_compiler: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel_without_compiler) as archive:
        assert COMPILED not in archive.namelist()
    target = pip_install(wheel_without_compiler, target=tmp_path / "site")
    program = "from cpreplay.__main__ import main; main(['info'])"
    loops = [
        line
        for line in run_installed(program, target, tmp_path).splitlines()
        if line.split()[:2] == ["host", "loops"]
    ]
    assert len(loops) == 1
    assert "NumPy" in loops[0]
    assert "compiler" in loops[0]


def test_a_wheel_to_give_away_is_not_built_without_its_loops(tools: None, tmp_path: Path) -> None:
    project = copy_project(tmp_path / "project")
    required = {"CC": "false", "CXX": "false", "CPREPLAY_REQUIRE_NATIVE": "1"}
    with pytest.raises(AssertionError, match=r"'false'.* non-zero exit status"):
        build("build_wheel", project, tmp_path / "dist", **required)


@pytest.mark.parametrize(("choice", "kind"), [("", "NativeOps"), ("numpy", "HostOps")])
def test_the_wheel_works_by_compiled_loops_unless_told_otherwise(
    choice: str, kind: str, wheel: Path, tmp_path: Path
) -> None:
    target = pip_install(wheel, target=tmp_path / "site")
    program = (
        f"import os; os.environ['CPREPLAY_HOST'] = {choice!r}\n"
        "import cpreplay\n"
        "print(type(cpreplay.StoreReplay(1, 1, 2)._ops).__name__)\n"
    )
    assert run_installed(program, target, tmp_path) == f"{kind}\n"


def test_the_wheel_is_for_later_pythons_too_and_says_what_it_needs(wheel: Path) -> None:
    assert wheel.name.startswith(f"cpreplay-{cpreplay.__version__}-cp311-abi3-")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        fields = Parser().parsestr(archive.read(name).decode())
    assert fields["Name"] == "cpreplay"
    assert fields["Version"] == cpreplay.__version__
    assert fields["Requires-Python"] == ">=3.11"
    needs = [need for need in fields.get_all("Requires-Dist", []) if "extra ==" not in need]
    assert {need.split(">")[0].strip() for need in needs} == {"numpy", "attrs", "zstandard"}
    assert {"cuda12", "cuda13", "demo", "test", "docs", "bench"} <= set(
        fields.get_all("Provides-Extra", [])
    )


def test_the_sdist_has_what_a_build_needs(sdist: Path) -> None:
    assert sdist.name == f"cpreplay-{cpreplay.__version__}"
    for name in ("pyproject.toml", "LICENSE"):
        assert (sdist / name).read_bytes() == (REPOSITORY / name).read_bytes()
    assert (sdist / "setup.cfg").exists()
    assert python_files(sdist / "cpreplay") == PYTHON_FILES
    assert {path.name for path in (sdist / "cuda_src").iterdir()} == CUDA_FILES
    assert (sdist / "cpreplay" / "py.typed").exists()


def test_a_wheel_made_from_the_sdist_is_the_same(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(sdist, project)
    second = build("build_wheel", project, tmp_path / "dist")
    contents = []
    for path in (wheel, second):
        with zipfile.ZipFile(path) as archive:
            # A compiled file has its folder in it, and the list of files has its checksum.
            names = [name for name in archive.namelist() if not name.endswith(("/RECORD", ".so"))]
            assert COMPILED in archive.namelist()
            contents.append({name: archive.read(name) for name in names})
    assert contents[0] == contents[1]
