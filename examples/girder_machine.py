"""The NES game girder as a gymnasium environment; girder/README.md says how it is played.

    pip install "cpreplay[nes]"

The machine is emulated by cynes, at about 4 ms a frame.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import FrameStackObservation, TimeLimit
from numpy.typing import NDArray

try:
    import cynes
except ModuleNotFoundError:
    raise SystemExit(
        "girder_machine.py needs cynes, which is not installed: pip install 'cpreplay[nes]'"
    ) from None

ROM = Path(__file__).with_name("girder") / "girder.nes"
RIGHT, LEFT, UP, A = 0x01, 0x02, 0x08, 0x80
#: The pads that the actions stand for.
PADS = (0x00, RIGHT, RIGHT | A, A, LEFT, RIGHT | A | UP)
FRAMES = 4  # a step
LEVEL_WIDTH = 240
SIZE = 84

# Bytes of the machine's memory.
_LEVEL, _X, _LIVES, _RANDOM, _OVER, _STUCK = 0x10, 0x11, 0x12, 0x14, 0x15, 0x16
_BOOT_FRAMES = 8

_ROWS, _COLUMNS = (np.arange(SIZE) * side // SIZE for side in (240, 256))


class Girder(gymnasium.Env[NDArray[np.uint8], int]):
    """One machine. An observation is one frame, uint8 (84, 84).

    The reward of a step is how far it went along the girder, in levels; a lost life gives it back.
    Where the step came into another 32nd of the girder, ``info["markers"]`` has the captured values
    ``level``, ``x``, ``lives``, ``stuck`` and ``x / 32``. An episode terminates with the last life.

    Parameters
    ----------
    lives : int, optional
        How many an episode from the beginning has.
    """

    observation_space = gymnasium.spaces.Box(0, 255, (SIZE, SIZE), np.uint8)
    action_space = gymnasium.spaces.Discrete(len(PADS))

    def __init__(self, lives: int = 3) -> None:
        self._nes = cynes.NES(str(ROM))
        self._nes.step(frames=_BOOT_FRAMES)
        self._nes[_LIVES] = lives
        self._booted = self.save()
        self._section = (0, 0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin at the left end of level 0, with another random state each time."""
        super().reset(seed=seed)
        self.load(self._booted)
        self.reseed(int(self.np_random.integers(2**31)))
        return self._run(0x00), {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Hold a pad for four frames."""
        before = self.depth
        frame = self._run(PADS[action])
        section = (self._nes[_LEVEL], self._nes[_X] // 32)
        info = {"markers": self.values()} if section != self._section else {}
        self._section = section
        return frame, (self.depth - before) / LEVEL_WIDTH, bool(self._nes[_OVER]), False, info

    @property
    def depth(self) -> int:
        """How far along the girder the player is, over all levels."""
        return LEVEL_WIDTH * self._nes[_LEVEL] + self._nes[_X]

    def values(self) -> dict[str, int]:
        """What a marker captures."""
        x = self._nes[_X]
        return {
            "level": self._nes[_LEVEL],
            "x": x,
            "lives": self._nes[_LIVES],
            "stuck": self._nes[_STUCK],
            "x / 32": x // 32,
        }

    def memory(self) -> bytes:
        """The machine's 2 KB of memory."""
        return bytes(self._nes[address] for address in range(0x800))

    def save(self) -> bytes:
        """A snapshot of the machine, its random state in it."""
        return self._nes.save().tobytes()

    def load(self, snapshot: bytes) -> None:
        """Put the machine where a snapshot was taken; cynes checks none of its bytes."""
        self._nes.load(np.frombuffer(snapshot, np.uint8).copy())
        self._section = (self._nes[_LEVEL], self._nes[_X] // 32)

    def reseed(self, seed: int) -> None:
        """Another random state, which is one byte and never zero."""
        self._nes[_RANDOM] = 1 + seed % 255

    def _run(self, pad: int) -> NDArray[np.uint8]:
        self._nes.controller = pad
        picture = self._nes.step(frames=FRAMES)
        return (picture[_ROWS[:, None], _COLUMNS].sum(axis=2) // 3).astype(np.uint8)


def stacked(machine: Girder, max_steps: int) -> gymnasium.Env[NDArray[np.uint8], int]:
    """A machine that observes its newest four frames, uint8 (4, 84, 84), with a time limit."""
    return FrameStackObservation(TimeLimit(machine, max_steps), 4)
