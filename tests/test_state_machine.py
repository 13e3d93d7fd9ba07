"""Any sequence of calls leaves what a list and a loop would leave, on every back end."""

import math
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import cpreplay
from tests.conftest import Backend
from tests.golden.reference import PhiloxWords
from tests.models import RingModel, UniformModel, rows_in_window
from tests.strategies import COLUMNS, numbered_rows, row, stored_numbers


def effort(backend: Backend, examples: int, steps: int = 25) -> settings:
    """Fewer examples where kernels are emulated."""
    emulated = backend.name.startswith("emulated")
    return settings(
        max_examples=max(5, examples // 3) if emulated else examples,
        stateful_step_count=steps,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


batches = st.lists(
    st.tuples(st.integers(0, 23), st.sampled_from(["none", "host", "own"]), st.randoms()),
    min_size=1,
    max_size=6,
)


def test_batches_of_any_size_and_mask_equal_single_adds(backend: Backend) -> None:
    @effort(backend, 150)
    @given(capacity=st.integers(1, 17), batches=batches)
    def equal(capacity: int, batches: list[tuple[int, str, Any]]) -> None:
        # Wide observations get an array of their own; the rest is packed in records.
        shapes = ((80,), (2,))
        batched, single = (backend.buffer(*shapes, capacity) for _ in range(2))
        model = RingModel(capacity)
        first = 0
        for count, kind, random in batches:
            rows = numbered_rows(first, count, *shapes)
            kept = np.array([kind == "none" or random.random() < 0.5 for _ in range(count)], bool)
            mask = {"none": None, "host": kept, "own": backend.array(kept, bool)}[kind]
            batched.add_batch(**rows, mask=mask)
            model.add_batch(range(first, first + count), kept)
            for number in np.flatnonzero(kept):
                single.add(**row(rows, number))
            first += count
        assert stored_numbers(batched, backend.numpy) == model.rows()
        assert stored_numbers(single, backend.numpy) == model.rows()
        assert (len(batched), batched.head) == (model.size, model.head)
        for buffer in (batched, single):
            buffer.check()

    equal()


class Ring(RuleBasedStateMachine):
    """A buffer beside its model, which predicts every draw of every policy."""

    backend: Backend

    @initialize(capacity=st.integers(1, 12), seed=st.integers(0, 2**64 - 1))
    def make(self, capacity: int, seed: int) -> None:
        self.buffer = self.backend.buffer((3,), (2,), capacity, seed=seed)
        self.model = UniformModel(capacity, PhiloxWords(seed))
        self.ring = self.model.ring
        self.added = 0
        self.ere_floor: int | None = None
        self.out: dict[int, cpreplay.Batch] = {}

    def take(self, count: int) -> dict[str, np.ndarray]:
        self.added += count
        return numbered_rows(self.added - count, count)

    @rule()
    def add(self) -> None:
        self.ring.add(self.added)
        self.buffer.add(**row(self.take(1), 0))

    @rule(count=st.integers(0, 30), mask_seed=st.none() | st.integers(0, 99), own=st.booleans())
    def add_batch(self, count: int, mask_seed: int | None, own: bool) -> None:
        kept = np.ones(count, bool)
        mask = None
        if mask_seed is not None:
            kept = np.random.default_rng(mask_seed).random(count) < 0.5
            mask = self.backend.array(kept) if own else kept
        self.ring.add_batch(range(self.added, self.added + count), kept)
        self.buffer.add_batch(**self.take(count), mask=mask)

    @rule(column=st.sampled_from(COLUMNS))
    def add_something_bad(self, column: str) -> None:
        rows = {**numbered_rows(0, 3), column: np.zeros((3, 7), np.float32)}
        try:
            self.buffer.add_batch(**rows)
        except cpreplay.ReplayError as error:
            assert column in str(error)
        else:
            raise AssertionError("a bad batch was taken")

    @precondition(lambda self: self.ring.size > 0)
    @rule(batch_size=st.integers(1, 40), fixed=st.booleans())
    def sample(self, batch_size: int, fixed: bool) -> None:
        limit = self.ring.capacity - self.ring.demo_count
        if self.ring.demo_count and batch_size > limit:
            batch_size = limit
        out = None
        if fixed:
            out = self.out.setdefault(batch_size, self.buffer.make_batch(batch_size))
        batch = self.buffer.sample(batch_size, out=out)
        rows = self.backend.numpy(batch.indices).tolist()
        assert rows == self.predicted(batch_size)
        self.compare(batch, rows)

    def predicted(self, lanes: int) -> list[int]:
        """The rows of the next draw, by the policy in force."""
        ring = self.ring
        if ring.demo_count:
            words, online = self.model.words.next(lanes), ring.size > ring.demo_count
            half = lanes // 2 if online else lanes
            demos = rows_in_window(words[:half], 0, ring.demo_count)
            return demos + rows_in_window(words[half:], ring.demo_count, ring.size)
        if self.ere_floor is not None:
            window = min(ring.size, max(self.ere_floor, math.floor(ring.size * 0.5**self.ere_k)))
            self.ere_k = (self.ere_k + 1) % 4
            ages = rows_in_window(self.model.words.next(lanes), 0, window)
            return [(ring.head - 1 - age) % ring.capacity for age in ages]
        return self.model.sample(lanes)

    @precondition(lambda self: self.ring.size > 0)
    @rule(batch_size=st.integers(1, 20), ends=st.tuples(st.floats(0, 1), st.floats(0, 1)))
    def sample_range(self, batch_size: int, ends: tuple[float, float]) -> None:
        low, high = sorted(int(end * self.ring.size) for end in ends)
        low, high = min(low, self.ring.size - 1), max(high, low + 1)
        batch = self.buffer.sample_range(batch_size, low, high)
        rows = self.backend.numpy(batch.indices).tolist()
        assert rows == self.model.sample_range(batch_size, low, high)
        self.compare(batch, rows)

    @precondition(lambda self: self.backend.is_device and self.ring.size > 0)
    @rule(count=st.integers(1, 6), lanes=st.integers(1, 6), replays=st.integers(1, 3))
    def replay_a_graph(self, count: int, lanes: int, replays: int) -> None:
        cupy = self.backend.cupy
        if self.ring.demo_count:
            lanes = min(lanes, self.ring.capacity - self.ring.demo_count)
        numbers = range(self.added, self.added + count)
        rows = {name: self.backend.array(column) for name, column in self.take(count).items()}
        out = self.buffer.make_batch(lanes)
        assert len(self.buffer) == self.ring.size  # so that the host knows of a row
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            self.buffer.add_batch(**rows)
            self.buffer.sample(lanes, out=out)
            graph = stream.end_capture()
            for _ in range(replays):
                graph.launch(stream)
                stream.synchronize()
                self.ring.add_batch(numbers)
                drawn = self.backend.numpy(out.indices).tolist()
                assert drawn == self.predicted(lanes)
                self.compare(out, drawn)
            stream.synchronize()

    def compare(self, batch: cpreplay.Batch, rows: list[int]) -> None:
        numbers = np.array(self.model.minibatch(rows))
        assert (self.backend.numpy(batch.obs) == numbers[:, None]).all()
        assert (self.backend.numpy(batch.action) == numbers[:, None] + 10).all()
        assert (self.backend.numpy(batch.reward) == numbers + 20).all()
        assert (self.backend.numpy(batch.next_obs) == numbers[:, None] + 1).all()
        assert (self.backend.numpy(batch.terminated) == (numbers % 3 == 0)).all()

    @precondition(lambda self: self.ring.demo_count == 0)
    @rule(enable=st.booleans(), c_min=st.integers(1, 5))
    def configure_ere(self, enable: bool, c_min: int) -> None:
        self.buffer.configure_ere(enable, eta=0.5, c_min=c_min, k_max=4)
        self.ere_floor = c_min if enable else None
        self.ere_k = 0

    @precondition(lambda self: 0 < self.ring.total < self.ring.capacity)
    @rule()
    def pin_demo_prefix(self) -> None:
        room = self.ring.capacity - self.ring.total
        if self.ring.demo_count or self.ere_floor is not None:
            try:
                self.buffer.pin_demo_prefix(self.ring.total, batch_size=room)
            except cpreplay.OrderError:
                return
            raise AssertionError("a second prefix, or one beside ERE, was pinned")
        self.buffer.pin_demo_prefix(self.ring.total, batch_size=room)
        self.ring.pin_demo_prefix(self.ring.total)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "buffer"):
            return
        assert stored_numbers(self.buffer, self.backend.numpy) == self.ring.rows()
        assert (len(self.buffer), self.buffer.head) == (self.ring.size, self.ring.head)
        assert self.buffer.demo_count == self.ring.demo_count
        assert self.buffer.stats()["draws"] == self.model.draws
        self.buffer.check()


def test_any_sequence_of_calls_equals_the_model(backend: Backend) -> None:
    machine = type("Ring", (Ring,), {"backend": backend})
    run_state_machine_as_test(machine, settings=effort(backend, 80))
