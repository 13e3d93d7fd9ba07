"""The command line, as a user starts it."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

import cpreplay
from cpreplay import kernels
from cpreplay.__main__ import gather_facts, main
from cpreplay.memory import format_bytes, host_memory
from tests.conftest import Backend

REPOSITORY = Path(cpreplay.__file__).parents[1]


def command(*arguments: str, cupy: bool = False) -> subprocess.CompletedProcess[str]:
    """``python -m cpreplay`` in a process of its own, by default one that has no CuPy."""
    hide = "import sys; sys.modules['cupy'] = None; "
    start = f"sys.argv[1:] = {list(arguments)!r}; import runpy; "
    run = "runpy.run_module('cpreplay', run_name='__main__', alter_sys=True)"
    program = ["-m", "cpreplay", *arguments] if cupy else ["-c", hide + start + run]
    return subprocess.run(
        [sys.executable, "-W", "error", *program],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def test_info_without_a_gpu_says_what_works_and_ends_well() -> None:
    result = command("info")
    assert (result.returncode, result.stderr) == (0, "")
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    versions = {
        "cpreplay": cpreplay.__version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "zstandard": zstandard.__version__,
        "CuPy": "not installed",
    }
    for name, version in versions.items():
        assert lines[name].split(maxsplit=1)[1] == version
    assert lines["StoreReplay"].split(maxsplit=1)[1] == "works"
    assert "does not work here: a device buffer needs CuPy" in lines["StoreReplayGpu"]
    assert "pip install" in lines["StoreReplayGpu"]
    memory = host_memory(())
    assert memory is not None
    assert lines["machine"].endswith(format_bytes(memory))
    assert lines["folder"].endswith(str(kernels.FOLDER))
    for path in kernels.FOLDER.glob("*.cu*"):
        assert path.name in lines["sources"]


def test_info_as_json_is_the_same_facts() -> None:
    result = command("info", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    facts = json.loads(result.stdout)
    assert list(facts) == ["versions", "back ends", "host", "memory", "kernels"]
    assert facts["versions"]["cpreplay"] == cpreplay.__version__
    assert facts["versions"]["CuPy"] is None
    assert facts["back ends"]["StoreReplay"] == {"works": True, "reason": None}
    assert not facts["back ends"]["StoreReplayGpu"]["works"]
    assert facts["memory"]["usable here"] == host_memory()
    assert facts["memory"]["card"] is facts["memory"]["card memory"] is None


def test_the_module_can_be_started_as_it_is() -> None:
    result = command("info", "--json", cupy=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["back ends"]["StoreReplay"]["works"]


def test_info_with_a_card_shows_it(device: Backend, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    lines = {line.split()[0]: line for line in text.splitlines()}
    assert lines["CuPy"].endswith(device.cupy.__version__)
    assert lines["StoreReplayGpu"].split(maxsplit=1)[1] == "works"
    assert main(["info", "--json"]) == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    properties = device.cupy.cuda.runtime.getDeviceProperties(0)
    assert memory["card"] == properties["name"].decode()
    assert memory["card memory"] == device.cupy.cuda.Device().mem_info[1]
    assert memory["card"] in text
    assert format_bytes(memory["card memory"]) in text


def test_a_device_that_fails_is_shown_with_its_error(
    device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("Failed to find CUDA headers")

    monkeypatch.setattr(device.cupy, "RawKernel", fail)
    refusal = gather_facts()["back ends"]["StoreReplayGpu"]
    assert not refusal["works"]
    assert "Failed to find CUDA headers" in refusal["reason"]


def test_a_broken_cupy_is_told_from_a_missing_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cupy.py").write_text("raise OSError('libcudart.so.12: cannot open')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    facts = gather_facts()
    assert facts["versions"]["CuPy"] == "installed, and cannot be imported"
    assert "libcudart.so.12" in facts["back ends"]["StoreReplayGpu"]["reason"]


def test_missing_sources_are_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(kernels, "FOLDER", tmp_path / "cuda_src")
    assert main(["info"]) == 0
    sources = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("  sources")
    ]
    assert sources == ["  sources        missing"]


@pytest.mark.parametrize("arguments", [(), ("no-such-command",), ("info", "--no-such-option")])
def test_a_wrong_command_is_refused_with_the_usage(arguments: tuple[str, ...]) -> None:
    result = command(*arguments)
    assert result.returncode == 2
    assert "usage: python -m cpreplay" in result.stderr
    assert result.stdout == ""


def test_help_names_the_command() -> None:
    result = command("--help")
    assert result.returncode == 0
    assert "info" in result.stdout
