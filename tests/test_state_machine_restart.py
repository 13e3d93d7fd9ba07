"""Any sequence of calls of a restart pool leaves what lists and loops would leave."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cpreplay.restart import Restart, RestartPool, RestartPoolConfiguration
from tests.restart_model import RestartModel

LABELS = ("level", "x", "lives")
KEY = ("level", "x")

marker_values = st.fixed_dictionaries(
    {"level": st.integers(-1, 2), "x": st.integers(0, 2), "lives": st.integers(0, 3)}
)


class Pools(RuleBasedStateMachine):
    """A pool beside a list of points."""

    @initialize(
        seed=st.integers(0, 3),
        probability=st.sampled_from([1.0, 1.0, 0.5, 0.0]),
        max_per_key=st.integers(1, 3),
        timeouts=st.integers(1, 3),
        window=st.integers(1, 4),
        selection=st.sampled_from(["uniform", "failure_rate"]),
        floor=st.sampled_from([0.1, 0.5, 1.0]),
        newest=st.integers(0, 2),
        limit=st.none() | st.integers(1, 2),
        lowest=st.dictionaries(st.sampled_from(LABELS), st.integers(-1, 1), max_size=2),
        highest=st.dictionaries(st.sampled_from(LABELS), st.integers(1, 3), max_size=2),
    )
    def make(
        self,
        seed: int,
        probability: float,
        max_per_key: int,
        timeouts: int,
        window: int,
        selection: Any,
        floor: float,
        newest: int,
        limit: int | None,
        lowest: dict[str, int],
        highest: dict[str, int],
    ) -> None:
        self.pool = RestartPool(
            RestartPoolConfiguration(
                key=list(KEY),
                advance_window=window,
                checkpoint_points_per_key=newest,
                max_per_key=max_per_key,
                max_timeouts_per_point=timeouts,
                maximum_values=highest,
                minimum_values=lowest,
                probability=probability,
                random_seed=seed,
                save_in_checkpoints=True,
                selection=selection,
                selection_floor=floor,
            ),
            max_in_flight_per_point=limit,
        )
        self.model = RestartModel(
            key=KEY,
            seed=seed,
            probability=probability,
            max_per_key=max_per_key,
            max_timeouts_per_point=timeouts,
            advance_window=window,
            minimum_values=lowest,
            maximum_values=highest,
            selection=selection,
            selection_floor=floor,
            points_per_key=newest,
            max_in_flight=limit,
        )
        self.restarts: list[tuple[Restart, dict[str, Any]]] = []
        self.number = 0
        self.folder = tempfile.TemporaryDirectory()
        self.files: dict[Path, dict[str, Any]] = {}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule(values=marker_values)
    def offer(self, values: dict[str, int]) -> None:
        self.number += 1
        stack = np.full((2, 3), self.number, np.int32)
        snapshot = b"%d" % self.number * (self.number % 7)
        taken = self.pool.offer(snapshot, stack, values, steps_used=self.number)
        assert taken == self.model.offer(self.number, values)

    @rule(step=st.integers(0, 10**6))
    def draw(self, step: int) -> None:
        restart, expected = self.pool.draw(step), self.model.draw()
        assert (restart is None) == (expected is None)
        if restart is None or expected is None:
            return
        number = expected["content"]
        assert (restart.serial, restart.key) == (expected["serial"], expected["key"])
        assert restart.values == expected["values"]
        assert restart.snapshot == b"%d" % number * (number % 7)
        assert restart.steps_used == number
        assert restart.frame_stack.tolist() == [[number] * 3] * 2
        self.restarts.append((restart, expected))

    def any_open(self, data: st.DataObject) -> tuple[Restart, dict[str, Any]]:
        return data.draw(st.sampled_from([pair for pair in self.restarts if pair[1]["open"]]))

    has_open = precondition(lambda self: any(model["open"] for _, model in self.restarts))

    @has_open
    @rule(data=st.data(), values=marker_values)
    def reach(self, data: st.DataObject, values: dict[str, int]) -> None:
        restart, expected = self.any_open(data)
        self.model.reached(expected, values)
        assert self.pool.reached(restart, values) == expected["advanced"]

    @has_open
    @rule(
        data=st.data(),
        timed_out=st.booleans(),
        steps=st.none() | st.integers(0, 9),
    )
    def finish(self, data: st.DataObject, timed_out: bool, steps: int | None) -> None:
        restart, expected = self.any_open(data)
        self.pool.finish(restart, timed_out=timed_out, steps=steps)
        self.model.finish(expected, timed_out, steps)

    @has_open
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        restart, expected = self.any_open(data)
        self.pool.abandon(restart)
        self.model.abandon(expected)

    @rule(background=st.booleans())
    def save(self, background: bool) -> None:
        path = Path(self.folder.name) / f"{len(self.files)}"
        if background:
            self.pool.save_in_background(path).result()
        else:
            self.pool.save(path)
        self.files[path] = self.model.file()

    @rule()
    def save_in_checkpoint(self) -> None:
        path = self.pool.save_in_checkpoint(self.folder.name)
        assert path is not None
        self.files[path] = self.model.file(self.model.points_per_key)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def load(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.files)))
        assert self.pool.load(path) == self.model.load(self.files[path])

    @rule()
    def restore_from_checkpoint(self) -> None:
        expected = 0
        for path, file in self.files.items():
            if path.name.startswith("restart_points"):
                expected = self.model.load(file)
        assert self.pool.restore_from_checkpoint(self.folder.name) == expected

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        if not hasattr(self, "pool"):
            return
        self.pool.check()
        model, stats = self.model, self.pool.stats()
        assert len(self.pool) == stats["points"] == len(model.points)
        assert list(self.pool.buckets()) == model.keys()
        assert stats["draws"] == model.draws
        assert stats["restarts"] == len(model.restarts)
        assert stats["in_flight"] == sum(restart["open"] for restart in model.restarts)
        for reason, count in stats["offers_refused"].items():
            assert count == model.refused.count(reason)
        for key, bucket in stats["buckets"].items():
            assert bucket["points"] == sum(point["key"] == key for point in model.points)
            assert bucket["advance_rate"] == model.advance_rate(key)
            assert bucket["finished"] == sum(of == key for of, _ in model.entries)
            for name, event in (
                ("timeouts", "timeout"),
                ("late_reports", "late"),
                ("dropped_points", "dropped"),
                ("overwritten_points", "overwritten"),
            ):
                assert bucket[name] == model.reports.count((key, event)), name
            lengths = sorted([steps for of, steps in model.lengths if of == key][-model.window :])
            middle = len(lengths) // 2
            if not lengths:
                assert bucket["median_steps"] is None
            elif len(lengths) % 2:
                assert bucket["median_steps"] == lengths[middle]
            else:
                assert bucket["median_steps"] == (lengths[middle - 1] + lengths[middle]) / 2


def test_any_sequence_of_calls_equals_a_list_of_points() -> None:
    run_state_machine_as_test(
        Pools,
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
