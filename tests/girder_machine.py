"""The game of examples/girder as the tests play it."""

import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cynes", reason="the NES machine of these tests is cynes: pip install cynes")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def example(name: str) -> Any:
    """A file of examples/ as a module; once, so that its classes are the same for all."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


game = example("girder_machine")
stacked = game.stacked

LEVEL, X = 0x10, 0x11
RIGHT, SAFE_RIGHT, STAY, SAFE_RIGHT_UP = 1, 2, 3, 5  # actions


class Machine(game.Girder):
    """A girder that can be put anywhere, and counts what it is loaded with."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[bytes] = []

    def put(self, level: int, x: int) -> None:
        """Put the player somewhere, as a snapshot taken there would."""
        self._nes[LEVEL], self._nes[X] = level, x
        self._section = (level, x // 32)

    def load(self, snapshot: bytes) -> None:
        self.loaded = [*getattr(self, "loaded", []), snapshot]
        super().load(snapshot)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def played(machine: Any, actions: Iterable[int]) -> list[tuple[str, str]]:
    """Digests of each step's frame and of the memory after it."""
    steps = []
    for action in actions:
        frame, *_ = machine.step(action)
        steps.append((digest(frame.tobytes()), digest(machine.memory())))
    return steps
