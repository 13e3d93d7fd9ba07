"""A bucket: the points of one key, newest last, and what became of episodes that began there."""

import statistics
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from typing import Any

from cpreplay.restart.marker import Key
from cpreplay.restart.point import Point


class Bucket:
    """A ring of points, and counts that outlive them.

    ``points`` are in the order in which they came in, which is that of their serials. A bucket
    without points is not drawn; its window and counts wait for the next one.

    Parameters
    ----------
    key : tuple of int
    capacity : int
        Points at most.
    window : int
        Finished episodes, the latest, over which the advance rate and the median are taken.
    """

    def __init__(self, key: Key, capacity: int, window: int) -> None:
        self.key = key
        self.capacity = capacity
        self.points: list[Point] = []
        self.nbytes = 0  # of their records
        self.held_back: list[int] = []  # serials of points at their limit of draws in flight
        self.window: deque[bool] = deque(maxlen=window)
        self.lengths: deque[int] = deque(maxlen=window)
        self.advances = 0  # how many of the window advanced
        self.restarts = 0
        self.finished = 0
        self.timeouts = 0
        self.late_reports = 0
        self.abandoned = 0
        self.dropped = 0
        self.overwritten = 0

    def add(self, point: Point) -> Point | None:
        """Put in the newest point, and give the oldest where it has to make room."""
        oldest = None
        if len(self.points) == self.capacity:
            oldest = self.remove(self.points[0].serial)
            self.overwritten += 1
        self.points.append(point)
        self.nbytes += len(point.record.frame)
        return oldest

    def index(self, serial: int) -> int:
        """Where the point of a serial is."""
        return bisect_left(self.points, serial, key=lambda point: point.serial)

    def remove(self, serial: int) -> Point:
        """Take out the point of a serial."""
        self.hold_back(serial, False)
        point = self.points.pop(self.index(serial))
        self.nbytes -= len(point.record.frame)
        return point

    def hold_back(self, serial: int, held: bool) -> None:
        """Say whether a point is kept from being drawn."""
        place = bisect_left(self.held_back, serial)
        there = place < len(self.held_back) and self.held_back[place] == serial
        if held and not there:
            insort(self.held_back, serial)
        elif there and not held:
            self.held_back.pop(place)

    @property
    def eligible(self) -> int:
        """How many points may be drawn."""
        return len(self.points) - len(self.held_back)

    def choose(self, u: float) -> Point:
        """A point that may be drawn, each as likely, by a number in [0, 1)."""
        place = pick(u, self.eligible)
        for serial in self.held_back:
            if self.index(serial) > place:
                break
            place += 1
        return self.points[place]

    def enter(self, advanced: bool, steps: int | None) -> None:
        """An episode that began here has ended."""
        if len(self.window) == self.window.maxlen:
            self.advances -= self.window[0]
        self.window.append(advanced)
        self.advances += advanced
        self.finished += 1
        if steps is not None:
            self.lengths.append(steps)

    @property
    def advance_rate(self) -> float | None:
        """Share of the window's episodes that reached a deeper key; None while there is none."""
        return self.advances / len(self.window) if self.window else None

    def failure(self, floor: float) -> float:
        """``max(1 - advance_rate, floor)``; 1 while there is no rate."""
        return max(1.0 - (self.advance_rate or 0.0), floor)

    def stats(self) -> dict[str, Any]:
        """Counts, as plain numbers."""
        return {
            "points": len(self.points),
            "bytes": self.nbytes,
            "restarts": self.restarts,
            "finished": self.finished,
            "advance_rate": self.advance_rate,
            "timeouts": self.timeouts,
            "late_reports": self.late_reports,
            "abandoned": self.abandoned,
            "median_steps": statistics.median(self.lengths) if self.lengths else None,
            "dropped_points": self.dropped,
            "overwritten_points": self.overwritten,
        }


def pick(u: float, count: int) -> int:
    """One of ``count``, each as likely, by a number in [0, 1)."""
    return min(int(u * count), count - 1)


def pick_weighted(u: float, weights: Sequence[float]) -> int:
    """The first whose running sum is above ``u`` times the sum; the last if rounding leaves none.

    All weights are above 0, and summed in their order, so no rounding can choose beyond them.
    """
    target = u * _running_sum(weights)
    running = 0.0
    for place, weight in enumerate(weights):
        running += weight
        if running > target:
            return place
    return len(weights) - 1


def _running_sum(weights: Sequence[float]) -> float:
    """Added in order: `sum` compensates, and would differ from what `pick_weighted` adds up."""
    total = 0.0
    for weight in weights:
        total += weight
    return total
