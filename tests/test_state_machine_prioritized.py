"""Any sequence of calls leaves what a list, a loop and a plain tree of sums would leave.

As `test_state_machine`, for prioritized buffers. The model foretells every draw, weight and leaf
bit for bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest
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

import cpreplay
from cpreplay import device_priorities
from tests.conftest import Backend
from tests.golden.reference import PhiloxWords, SumTree
from tests.models import PrioritizedModel, Token
from tests.strategies import numbered_rows, row, stored_numbers

ALPHAS = (0.0, 0.5, 0.6, 1.0)
BETAS = (0.0, 0.4, 0.5, 1.0)
EPSILONS = (0.0, 1e-6, 0.01, 3.0, 1e36)

# One node, several, a level more; and rings that a few adds fill.
capacities = st.sampled_from([1, 2, 3, 7, 15, 16, 17, 33, 60, 256, 257])
counts = st.integers(0, 20) | st.sampled_from([32, 64, 300])

# What a leaf can be made of under any alpha, and what cannot be or only under some.
good_errors = st.lists(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, 1e-30, 1e30]) | st.floats(-1e6, 1e6),
    min_size=1,
    max_size=6,
)
bad_errors = st.sampled_from(
    [float("nan"), float("inf"), -float("inf"), 1.7e308, -1e300, 1e39, 3.41e38, 1e64]
)


@dataclass
class Errors:
    """TD errors for any number of lanes, in one of the forms that they may be given in."""

    good: list[float]
    bad: dict[int, float]
    form: str

    def of(self, lanes: int, backend: Backend) -> tuple[list[float], Any]:
        """What the model is given, and what the buffer."""
        values = list(islice(cycle(self.good), lanes))
        for lane, value in self.bad.items():
            if lane < lanes:
                values[lane] = value
        if self.form == "list":
            return values, values
        dtype = "float32" if self.form.endswith("float32") else "float64"
        with np.errstate(over="ignore"):
            array = np.array(values).astype(dtype)
        given = backend.array(array) if self.form.startswith("own") else array
        return array.tolist(), given


def errors_of(*forms: str) -> st.SearchStrategy[Errors]:
    # Half of them hold nothing bad, or the host would refuse nearly every update.
    bad = st.just({}) | st.dictionaries(st.integers(0, 12), bad_errors, max_size=2)
    return st.builds(Errors, good_errors, bad, st.sampled_from(forms))


any_errors = errors_of("list", "float32", "float64", "own float32", "own float64")


@dataclass
class Drawn:
    """A batch that is kept, the rows that it is of, and the model's idea of its tokens."""

    batch: cpreplay.Batch
    rows: list[int]
    token: Token


# What a caller does with a batch before it comes back, and the same for a list.
FORMS: dict[str, Callable[[Backend, Any], Any]] = {
    "as it is": lambda backend, array: array,
    "on the host": lambda backend, array: backend.numpy(array),
    "the first three": lambda backend, array: array[:3],
    "every other": lambda backend, array: array[::2],
    "backwards": lambda backend, array: array[::-1],
}
OF_A_LIST: dict[str, Callable[[list[Any]], list[Any]]] = {
    "the first three": lambda lanes: lanes[:3],
    "every other": lambda lanes: lanes[::2],
    "backwards": lambda lanes: lanes[::-1],
}


class PrioritizedRing(RuleBasedStateMachine):
    """A prioritized buffer beside its model."""

    backend: Backend

    @initialize(
        capacity=capacities,
        seed=st.integers(0, 2**64 - 1),
        look=st.booleans(),
        alpha=st.sampled_from(ALPHAS),
        rows=counts,
    )
    def make(self, capacity: int, seed: int, look: bool, alpha: float, rows: int) -> None:
        self.look = look  # at all of it after every call; looking brings a host's tree up to date
        self.buffer, self.model = self.pair(capacity, seed)
        self.ring = self.model.ring
        self.added = 0
        self.kept: list[Drawn] = []
        self.out: dict[int, cpreplay.Batch] = {}
        for part in (self.buffer, self.model):
            part.configure_per(alpha)
        self.add_batch(rows, None, False)

    def pair(self, capacity: int, seed: int) -> tuple[Any, PrioritizedModel]:
        words = PhiloxWords(seed)
        model = PrioritizedModel(capacity, words, device=self.backend.is_device)
        return self.backend.buffer((3,), (2,), capacity, True, seed=seed), model

    def take(self, count: int) -> dict[str, np.ndarray]:
        self.added += count
        return numbered_rows(self.added - count, count)

    def both(self, model: Callable[[], Any], buffer: Callable[[], Any]) -> bool:
        """Ask both, which have to agree whether that can be done at all."""
        try:
            model()
        except ValueError:
            with pytest.raises(cpreplay.ReplayError):
                buffer()
            return False
        buffer()
        return True

    # Settings

    @rule(beta=st.sampled_from(BETAS))
    def set_beta(self, beta: float) -> None:
        self.buffer.set_beta(beta)
        self.model.set_beta(beta)

    @rule(
        alpha=st.sampled_from(ALPHAS),
        beta=st.sampled_from(BETAS),
        epsilon=st.sampled_from(EPSILONS),
    )
    def configure(self, alpha: float, beta: float, epsilon: float) -> None:
        settings = {"alpha": alpha, "beta": beta, "epsilon": epsilon}
        if not self.both(
            lambda: self.model.configure_per(**settings),
            lambda: self.buffer.configure_per(**settings),
        ):  # rows are stored, so alpha has to stay what it is
            settings["alpha"] = self.model.alpha
            self.model.configure_per(**settings)
            self.buffer.configure_per(**settings)

    @rule(
        wrong=st.sampled_from(
            [{"alpha": 1.5}, {"alpha": float("nan")}, {"beta": -0.1}, {"epsilon": float("inf")}]
        )
    )
    def configure_something_bad(self, wrong: dict[str, float]) -> None:
        assert not self.both(
            lambda: self.model.configure_per(**wrong), lambda: self.buffer.configure_per(**wrong)
        )

    # Adding

    @rule()
    def add(self) -> None:
        self.model.add(self.added)
        self.buffer.add(**row(self.take(1), 0))

    @rule(count=counts, mask_seed=st.none() | st.integers(0, 99), own=st.booleans())
    def add_some(self, count: int, mask_seed: int | None, own: bool) -> None:
        self.add_batch(count, mask_seed, own)

    def add_batch(self, count: int, mask_seed: int | None, own: bool) -> None:
        kept = np.ones(count, bool)
        mask = None
        if mask_seed is not None:
            kept = np.random.default_rng(mask_seed).random(count) < 0.5
            mask = self.backend.array(kept) if own else kept
        self.model.add_batch(range(self.added, self.added + count), kept.tolist())
        self.buffer.add_batch(**self.take(count), mask=mask)

    # Drawing

    @rule(batch_size=st.integers(1, 40), fixed=st.booleans())
    def sample_some(self, batch_size: int, fixed: bool) -> None:
        self.sample(batch_size, fixed)

    def sample(self, batch_size: int, fixed: bool) -> None:
        self.draw(
            batch_size,
            fixed,
            lambda: self.model.sample(batch_size),
            lambda out: self.buffer.sample(batch_size, out=out),
        )

    @rule(
        batch_size=st.integers(1, 20),
        ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
        fixed=st.booleans(),
    )
    def sample_range(self, batch_size: int, ends: tuple[float, float], fixed: bool) -> None:
        low, high = sorted(int(end * self.ring.size) for end in ends)
        self.draw(
            batch_size,
            fixed,
            lambda: self.model.sample_range(batch_size, low, high),
            lambda out: self.buffer.sample_range(batch_size, low, high, out=out),
        )

    def draw(
        self,
        batch_size: int,
        fixed: bool,
        of_model: Callable[[], tuple[list[int], list[float]]],
        of_buffer: Callable[[cpreplay.Batch | None], cpreplay.Batch],
    ) -> None:
        out = None
        if fixed:
            out = self.out.setdefault(batch_size, self.buffer.make_batch(batch_size))
        try:
            rows, weights = of_model()
        except ValueError:  # nothing is held, or nothing in the range
            with pytest.raises(cpreplay.ReplayError):
                of_buffer(out)
            return
        batch = of_buffer(out)
        self.compare(batch, rows, weights)
        # A fixed batch that is drawn anew is no longer what it was.
        self.kept = [drawn for drawn in self.kept if drawn.batch is not batch][-5:]
        self.kept.append(Drawn(batch, rows, self.model.token(rows)))

    def compare(self, batch: cpreplay.Batch, rows: list[int], weights: list[float]) -> None:
        numpy = self.backend.numpy
        assert numpy(batch.indices).tolist() == rows
        assert numpy(batch.weights).tolist() == weights
        numbers = np.array(self.model.minibatch(rows))
        assert (numpy(batch.obs) == numbers[:, None]).all()
        assert (numpy(batch.reward) == numbers + 20).all()
        assert (numpy(batch.terminated) == (numbers % 3 == 0)).all()

    # Updating

    def update(self, token: Token | None, rows: list[int], batch: Any, errors: Errors) -> None:
        expected, given = errors.of(len(rows), self.backend)
        self.both(
            lambda: self.model.update(token, rows, expected),
            lambda: self.buffer.update_priorities(batch, given),
        )

    @precondition(lambda self: self.kept)
    @rule(errors=any_errors, form=st.sampled_from(sorted(FORMS)))
    def update_the_last_batch(self, errors: Errors, form: str) -> None:
        self.update_kept(self.kept[-1], errors, form)

    @precondition(lambda self: self.ring.size > 0)
    @rule(
        batch_size=st.integers(1, 20),
        added=st.integers(0, 5),
        errors=any_errors,
        form=st.sampled_from(sorted(FORMS)),
    )
    def learn_while_rows_come(self, batch_size: int, added: int, errors: Errors, form: str) -> None:
        self.sample(batch_size, False)
        self.add_batch(added, None, False)
        self.update_kept(self.kept[-1], errors, form)

    @precondition(lambda self: len(self.kept) > 1)
    @rule(errors=any_errors, form=st.sampled_from(sorted(FORMS)), age=st.integers(2, 6))
    def update_an_older_batch(self, errors: Errors, form: str, age: int) -> None:
        self.update_kept(self.kept[-min(age, len(self.kept))], errors, form)

    def update_kept(self, drawn: Drawn, errors: Errors, form: str) -> None:
        batch = drawn.batch
        if form != "as it is":
            batch = batch.map(lambda array: FORMS[form](self.backend, array))
        lanes = OF_A_LIST.get(form, lambda lanes: lanes)
        self.update(lanes(drawn.token), lanes(drawn.rows), batch, errors)

    @rule(
        places=st.lists(st.integers(0, 300), max_size=12),
        outside=st.sampled_from([None, None, None, -1, 0, 2**40]),  # beside [0, size)
        form=st.sampled_from(["list", "int32", "own"]),
        errors=any_errors,
    )
    def update_bare_rows(
        self, places: list[int], outside: int | None, form: str, errors: Errors
    ) -> None:
        size = self.ring.size
        rows = [place % size for place in places] if size else []
        if outside is not None:
            rows.append(outside if outside < 0 else size + outside)
        given: Any = rows
        if form == "own":
            given = self.backend.array(rows, np.int64)
        elif form == "int32" and outside != 2**40:
            given = np.array(rows, np.int32)
        self.update(None, rows, given, errors)

    @precondition(lambda self: self.ring.size > 0)
    @rule(rows=st.integers(1, 20), batch_size=st.integers(1, 8), errors=any_errors)
    def update_with_a_batch_of_another_buffer(
        self, rows: int, batch_size: int, errors: Errors
    ) -> None:
        rows = min(rows, self.ring.size)  # so that its rows are here as well
        buffer, model = self.pair(self.ring.capacity, seed=5)
        buffer.add_batch(**numbered_rows(0, rows))
        model.add_batch(range(rows))
        foreign, _ = model.sample(batch_size)
        self.update(model.token(foreign), foreign, buffer.sample(batch_size), errors)
        buffer.check()

    # All of it as one graph

    @precondition(lambda self: self.backend.is_device and self.ring.size > 0)
    @rule(
        count=st.integers(1, 9),
        mask_seed=st.none() | st.integers(0, 99),
        lanes=st.integers(1, 9),
        errors=errors_of("own float32", "own float64"),
        replays=st.integers(1, 3),
    )
    def replay_a_graph(
        self, count: int, mask_seed: int | None, lanes: int, errors: Errors, replays: int
    ) -> None:
        cupy = self.backend.cupy
        kept = np.ones(count, bool)
        if mask_seed is not None:
            kept = np.random.default_rng(mask_seed).random(count) < 0.5
        mask = None if mask_seed is None else self.backend.array(kept)
        numbers = range(self.added, self.added + count)
        rows = {name: self.backend.array(column) for name, column in self.take(count).items()}
        expected, td_errors = errors.of(lanes, self.backend)
        out = self.buffer.make_batch(lanes)
        assert len(self.buffer) == self.ring.size  # so that the host knows of a row
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            self.buffer.add_batch(**rows, mask=mask)
            self.buffer.sample(lanes, out=out)
            self.buffer.update_priorities(out, td_errors)
            graph = stream.end_capture()
            for _ in range(replays):
                graph.launch(stream)
                stream.synchronize()
                self.model.add_batch(numbers, kept.tolist())
                drawn, weights = self.model.sample(lanes)
                self.compare(out, drawn, weights)
                self.model.update(self.model.token(drawn), drawn, expected)
            stream.synchronize()
        self.kept.append(Drawn(out, drawn, self.model.token(drawn)))

    # Looking

    @invariant()
    def holds_the_rows_of_the_model(self) -> None:
        if not hasattr(self, "buffer"):
            return
        assert stored_numbers(self.buffer, self.backend.numpy) == self.ring.rows()
        assert (len(self.buffer), self.buffer.head) == (self.ring.size, self.ring.head)
        assert self.buffer._ops.control()["draws"] == self.model.draws
        if self.look:
            self.compare_priorities()

    def compare_priorities(self) -> None:
        levels = self.buffer._ops.priorities.levels()
        expected = SumTree(self.model.leaves).levels
        for level, masses in zip(levels, expected, strict=True):
            held = self.backend.numpy(level)
            assert held[: len(masses)].tolist() == masses
        stats, of_model = self.buffer.stats(), self.model.stats()
        # The one that is rounded more than once.
        effective = of_model.pop("effective_sample_size")
        assert stats["effective_sample_size"] == pytest.approx(effective, rel=1e-12)
        assert {name: stats[name] for name in of_model} == of_model
        self.buffer.check()

    def teardown(self) -> None:
        if hasattr(self, "buffer"):
            self.compare_priorities()


def run(backend: Backend, examples: int) -> None:
    machine = type("PrioritizedRing", (PrioritizedRing,), {"backend": backend})
    emulated = backend.name.startswith("emulated")
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max(5, examples // 3) if emulated else examples,
            stateful_step_count=30,
            suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
        ),
    )


def test_any_sequence_of_calls_equals_the_model(backend: Backend) -> None:
    run(backend, 75)


def test_any_sequence_of_calls_equals_the_model_where_updates_take_several_launches(
    device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_priorities, "MAX_FEW", 4)
    run(device, 24)
