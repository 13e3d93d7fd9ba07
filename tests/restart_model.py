"""A restart pool in lists and loops, written from the specification and from no code of the pool.

One flat list of points in the order in which they came; everything else is found by looking
through it. Random numbers are those of the golden files' reference.
"""

from collections.abc import Sequence
from typing import Any

from tests.golden.reference import lane_word, real

Key = tuple[int, ...]

PURPOSE = 2  # of the words with which restarts are drawn, beside rows and reals


def restart_numbers(seed: int, draw: int) -> list[float]:
    """The three numbers of one draw: for the probability, the bucket and the point."""
    return [real(lane_word(seed, draw, lane, PURPOSE)) for lane in range(3)]


class RestartModel:
    """A pool's behaviour. Points, restarts and files are plain dicts."""

    def __init__(
        self,
        *,
        key: Sequence[str],
        seed: int,
        probability: float = 1.0,
        max_per_key: int = 8,
        max_timeouts_per_point: int = 3,
        advance_window: int = 100,
        minimum_values: dict[str, int] | None = None,
        maximum_values: dict[str, int] | None = None,
        selection: str = "uniform",
        selection_floor: float = 0.1,
        points_per_key: int = 0,
        max_in_flight: int | None = None,
    ) -> None:
        self.labels, self.seed, self.probability = list(key), seed, probability
        self.max_per_key, self.max_timeouts = max_per_key, max_timeouts_per_point
        self.window, self.points_per_key = advance_window, points_per_key
        self.minimum, self.maximum = minimum_values or {}, maximum_values or {}
        self.selection, self.floor = selection, selection_floor
        self.max_in_flight = max_in_flight
        self.points: list[dict[str, Any]] = []
        self.restarts: list[dict[str, Any]] = []
        self.entries: list[tuple[Key, bool]] = []  # of every finished episode since the last load
        self.reports: list[tuple[Key, str]] = []  # "timeout", "late", "dropped", "overwritten"
        self.lengths: list[tuple[Key, int]] = []
        self.refused: list[str] = []
        self.draws = 0
        self.serials = 0

    def key_of(self, values: dict[str, int]) -> Key:
        return tuple(values[label] for label in self.labels)

    def broken_bound(self, values: dict[str, int]) -> str | None:
        for label in self.minimum:
            if values[label] < self.minimum[label]:
                return f"{label} < {self.minimum[label]}"
        for label in self.maximum:
            if values[label] > self.maximum[label]:
                return f"{label} > {self.maximum[label]}"
        return None

    def offer(self, content: Any, values: dict[str, int]) -> bool:
        broken = self.broken_bound(values)
        if broken is not None:
            self.refused.append(broken)
            return False
        key = self.key_of(values)
        same = [point for point in self.points if point["key"] == key]
        if len(same) >= self.max_per_key:
            self.points.remove(same[0])
            self.reports.append((key, "overwritten"))
        self.points.append(
            {"serial": self.serials, "key": key, "values": dict(values), "content": content,
             "timeouts": 0}
        )  # fmt: skip
        self.serials += 1
        return True

    def keys(self) -> list[Key]:
        return sorted({point["key"] for point in self.points})

    def advance_rate(self, key: Key) -> float | None:
        window = [advanced for of, advanced in self.entries if of == key][-self.window :]
        return sum(window) / len(window) if window else None

    def weight(self, key: Key) -> float:
        if self.selection == "uniform":
            return 1.0
        rate = self.advance_rate(key)
        return 1.0 if rate is None else max(1.0 - rate, self.floor)

    def may_be_drawn(self, point: dict[str, Any]) -> bool:
        if self.max_in_flight is None:
            return True
        unreported = [
            restart
            for restart in self.restarts
            if restart["open"] and restart["serial"] == point["serial"]
        ]
        return len(unreported) < self.max_in_flight

    def draw(self) -> dict[str, Any] | None:
        whether, which, where = restart_numbers(self.seed, self.draws)
        self.draws += 1
        if not whether < self.probability:
            return None
        choice = [point for point in self.points if self.may_be_drawn(point)]
        keys = [key for key in self.keys() if any(point["key"] == key for point in choice)]
        if not keys:
            return None
        total = 0.0
        for key in keys:
            total += self.weight(key)
        running, chosen = 0.0, keys[-1]
        for key in keys:
            running += self.weight(key)
            if running > which * total:
                chosen = key
                break
        points = [point for point in choice if point["key"] == chosen]
        point = points[int(where * len(points))]
        restart = {**point, "open": True, "advanced": False}
        self.restarts.append(restart)
        return restart

    def reached(self, restart: dict[str, Any], values: dict[str, int]) -> None:
        if self.broken_bound(values) is None and self.key_of(values) > restart["key"]:
            restart["advanced"] = True

    def finish(self, restart: dict[str, Any], timed_out: bool, steps: int | None = None) -> None:
        restart["open"] = False
        key = restart["key"]
        self.entries.append((key, restart["advanced"]))
        if steps is not None:
            self.lengths.append((key, steps))
        if timed_out:
            self.reports.append((key, "timeout"))
        for point in self.points:
            if point["serial"] == restart["serial"]:
                if timed_out:
                    point["timeouts"] += 1
                    if point["timeouts"] == self.max_timeouts:
                        self.points.remove(point)
                        self.reports.append((key, "dropped"))
                return
        self.reports.append((key, "late"))

    def abandon(self, restart: dict[str, Any]) -> None:
        restart["open"] = False

    def file(self, newest: int = 0) -> dict[str, Any]:
        """What a save writes: by bucket in order, the oldest first; of each the newest, or all."""
        points = []
        for key in self.keys():
            same = [point for point in self.points if point["key"] == key]
            points.extend(same[-newest:] if newest else same)
        return {"draws": self.draws, "points": [dict(point) for point in points]}

    def load(self, file: dict[str, Any]) -> int:
        """Offer a file's points again in place of those held; only what is left gets serials."""
        self.points, self.entries, self.reports, self.lengths = [], [], [], []
        for point in file["points"]:
            broken = self.broken_bound(point["values"])
            if broken is not None:
                self.refused.append(broken)
                continue
            same = [other for other in self.points if other["key"] == point["key"]]
            if len(same) >= self.max_per_key:
                self.points.remove(same[0])
            self.points.append({**point, "timeouts": 0})
        for point in self.points:
            point["serial"] = self.serials
            self.serials += 1
        self.draws = max(self.draws, file["draws"])
        return len(self.points)
