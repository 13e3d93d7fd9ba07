"""n-step transitions from whole recorded episodes, in plain Python: the independent reference.

Nothing here is incremental. A recording keeps every step of every environment; once it is over, it
is cut into episodes, and each step of each episode is the first of one window: itself and the
steps after it, n in all, fewer where the episode ends sooner. A window is known when its last step
is, so that is the append it belongs to; within an append the order is environment, then age.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Step:
    """One step of one environment; ``extra`` has everything that is not named here."""

    obs: Any
    action: Any
    reward: float
    next_obs: Any
    terminated: bool
    truncated: bool
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Window:
    """The steps that one n-step transition is made of, and where it appears."""

    appended: int  # number of the append that completes it
    env: int
    steps: tuple[Step, ...]

    @property
    def first(self) -> Step:
        return self.steps[0]

    @property
    def last(self) -> Step:
        return self.steps[-1]

    def returned(self, gamma: float) -> np.float32:
        """r0 + gamma r1 + gamma^2 r2 ..., forward in float64, rounded once."""
        total, discount = 0.0, 1.0
        for step in self.steps:
            total = total + discount * float(step.reward)
            discount = discount * gamma
        return _rounded(total)

    def discount(self, gamma: float) -> np.float32:
        """gamma to the steps really in the window; nothing follows a terminal step."""
        if self.last.terminated:
            return np.float32(0.0)
        discount = 1.0
        for _ in self.steps:
            discount = discount * gamma
        return _rounded(discount)


@dataclass
class Recording:
    """Every step that some environments took, and the resets between them."""

    n: int
    gamma: float
    n_envs: int
    appends: int = 0
    _tracks: list[list[tuple[int, Step | None]]] = field(init=False)

    def __post_init__(self) -> None:
        self._tracks = [[] for _ in range(self.n_envs)]

    def append(self, steps: Mapping[int, Step] | Sequence[Step]) -> None:
        """One append: the step of each environment that took one."""
        taken = steps if isinstance(steps, Mapping) else dict(enumerate(steps))
        for env, step in taken.items():
            self._tracks[env].append((self.appends, step))
        self.appends += 1

    def reset(self, envs: Sequence[int] | None = None) -> None:
        """The running episodes of these environments break off, without an end."""
        for env in range(self.n_envs) if envs is None else envs:
            self._tracks[env].append((self.appends, None))

    def windows(self) -> list[Window]:
        """All that are complete by now, in order."""
        found = [
            window
            for env, track in enumerate(self._tracks)
            for episode, ended in _episodes(track)
            for window in self._of_episode(env, episode, ended)
        ]
        # A sort keeps the order of equals, and an episode's windows are found oldest first.
        return sorted(found, key=lambda window: (window.appended, window.env))

    def windows_of(self, append: int) -> list[Window]:
        return [window for window in self.windows() if window.appended == append]

    def pending(self) -> list[int]:
        """How many steps of each environment are the first of a window that is not complete."""
        counts = []
        for track in self._tracks:
            episodes = _episodes(track)
            running = bool(track) and track[-1][1] is not None and not episodes[-1][1]
            counts.append(min(len(episodes[-1][0]), self.n - 1) if running else 0)
        return counts

    def _of_episode(self, env: int, episode: list[tuple[int, Step]], ended: bool) -> list[Window]:
        windows = []
        for first in range(len(episode)):
            members = episode[first : first + self.n]
            if len(members) == self.n or ended:
                steps = tuple(step for _, step in members)
                windows.append(Window(members[-1][0], env, steps))
        return windows


def _episodes(
    track: list[tuple[int, Step | None]],
) -> list[tuple[list[tuple[int, Step]], bool]]:
    """The episodes of one environment, and whether each came to an end of its own."""
    episodes: list[tuple[list[tuple[int, Step]], bool]] = []
    current: list[tuple[int, Step]] = []
    for when, step in track:
        if step is None:
            episodes.append((current, False))
            current = []
            continue
        current.append((when, step))
        if step.terminated or step.truncated:
            episodes.append((current, True))
            current = []
    if current:
        episodes.append((current, False))
    return [(episode, ended) for episode, ended in episodes if episode]


def _rounded(value: float) -> np.float32:
    with np.errstate(all="ignore"):
        return np.float32(value)
