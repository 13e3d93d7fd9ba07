"""The script of all checks, as far as it can be tried without running them."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "run"


@pytest.mark.parametrize("arguments", [["--help"], ["Full"], [""], ["full", "quick"]])
def test_what_it_does_not_know_is_refused_before_anything_is_removed(
    arguments: list[str], tmp_path: Path
) -> None:
    script = tmp_path / ".ci" / "run"
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    for name in ("build", ".venv-test"):
        (tmp_path / name).mkdir()
    result = subprocess.run(
        ["bash", script, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("usage: .ci/run [quick|full]")
    assert (tmp_path / "build").is_dir() and (tmp_path / ".venv-test").is_dir()
