"""Training runs in small: what happens in a step is a function of the step's number alone.

So two runs that are in the same state do the same for ever after, and a run that lost something
does not: after a step, what was drawn is compared byte for byte.
"""

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cpreplay
from tests.conftest import Backend

LANES = 8

# Steps after which no TD errors are owed: a save there is of everything.
AT_REST = 5

#: Of every kind that a column may have, beside those of a transition.
EXTRA = {
    "log_prob": (),
    "half": ((2,), "float16"),
    "double": ((3, 2), "float64"),
    "goal": ((2,), "int64"),
    "truncated": ((), "bool"),
    "wide": ((70,), "uint32"),  # an array of its own: more than 256 bytes
}


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a run trains from, and how."""

    policy: str = "uniform"  # or ere, prioritized, demos
    capacity: int = 64
    rows: int = 45  # held before the first step, and added in the first `SAVED_AFTER` steps
    obs_shape: tuple[int, ...] = (3,)
    options: dict[str, Any] = field(default_factory=dict)  # of the buffer
    of_pixels: bool = False
    ranges: bool = False  # draw from fixed ranges in between


# Steps before the save. ERE is inside its window then, beta has just changed.
SAVED_AFTER = 30
K_MAX = 47
DEMOS = 10


def added(step: int) -> int:
    """Rows that a step adds: 0, 1 or 2, and now and then a batch that wraps."""
    return 9 if step % 40 == 39 else step % 3


ADDED_BEFORE = sum(added(step) for step in range(SAVED_AFTER))


@functools.lru_cache(8)  # runs that are compared ask for the same ones, one after the other
def _transitions(
    columns: tuple[Any, ...], of_pixels: bool, seed: int, count: int
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    values = {}
    for column in columns:
        shape = (count, *column.shape)
        if column.dtype.kind == "f":
            values[column.name] = rng.random(shape).astype(column.dtype)
        elif column.dtype.kind == "b":
            values[column.name] = rng.random(shape) < 0.3
        else:
            values[column.name] = rng.integers(0, 200, shape, column.dtype)
    if of_pixels:  # what uint8 codes give back exactly
        for name in ("obs", "next_obs"):
            codes = rng.integers(0, 256, values[name].shape).astype(np.float32)
            values[name] = codes / np.float32(255)
    return values


class Training:
    """A buffer, and one training step after the other."""

    def __init__(self, backend: Backend, form: Form, **options: Any) -> None:
        self.backend = backend
        self.form = form
        self.buffer = backend.buffer(
            form.obs_shape,
            (2,),
            form.capacity,
            form.policy == "prioritized",
            **form.options,
            **options,
        )
        self._late: Any = None

    @classmethod
    def begun(cls, backend: Backend, form: Form, **options: Any) -> "Training":
        """A run after its first steps, at which it is saved."""
        run = cls(backend, form, **options)
        run.begin()
        for step in range(SAVED_AFTER):
            run.step(step)
        assert len(run.buffer) == min(form.rows, form.capacity)
        return run

    def begin(self) -> None:
        buffer, form = self.buffer, self.form
        if form.policy == "ere":
            buffer.configure_ere(True, 0.97, 5, K_MAX)
        if form.policy == "prioritized":
            buffer.configure_per(0.7, 0.5, 1e-3)
        count = form.rows - ADDED_BEFORE
        if form.policy == "demos":
            self.add(10**6, DEMOS)
            buffer.pin_demo_prefix(DEMOS, batch_size=LANES)
            count -= DEMOS
        self.add(10**6 + 1, count)

    def add(self, seed: int, count: int) -> None:
        if count:
            self.buffer.add_batch(**self.transitions(seed, count))

    def transitions(self, seed: int, count: int) -> dict[str, np.ndarray]:
        """Rows that nothing else has: every bit of every column may differ."""
        return dict(_transitions(self.buffer.columns, self.form.of_pixels, seed, count))

    def step(self, step: int) -> bytes:
        """Add, learn from what the step before drew, and draw."""
        buffer = self.buffer
        self.add(step, added(step))
        prioritized = self.form.policy == "prioritized"
        if self._late is not None:
            buffer.update_priorities(self._late, self.td_errors(self._late, step))
            self._late = None
        if prioritized and step % 10 == AT_REST:
            buffer.set_beta(min(1.0, 0.5 + step / 2000))
        if self.form.ranges and step % 4 == 1:
            low = step % 7
            batch = buffer.sample_range(LANES, low, low + 12)
        else:
            batch = buffer.sample(LANES)
        if prioritized:
            if step % AT_REST == AT_REST - 1:
                buffer.update_priorities(batch, self.td_errors(batch, step))
            else:
                self._late = batch
        return self.bytes_of(batch)

    def td_errors(self, batch: cpreplay.Batch, step: int) -> np.ndarray:
        """Of either sign; the largest of all grows with the steps."""
        rows = self.backend.numpy(batch.indices)
        rewards = self.backend.numpy(batch.reward)
        mixed = (rows * 37 + step * 11) % 101 - 50
        return (mixed * (1 + step / 500) * rewards).astype(np.float32)

    def bytes_of(self, batch: cpreplay.Batch) -> bytes:
        """Everything of a batch that decides what is learnt from it."""
        names = ["indices", *(column.name for column in self.buffer.columns)]
        if self.form.policy == "prioritized":
            names.append("weights")
        return b"".join(self.backend.numpy(batch[name]).tobytes() for name in names)


class NStepTraining(Training):
    """The same through an n-step block, with some environments whose episodes end now and then."""

    n, gamma = 3, 0.97

    def __init__(self, backend: Backend, form: Form, *, n_envs: int = 1, **options: Any) -> None:
        options["extra_columns"] = {"discount": (), "truncated": bool, "goal": ((2,), "int64")}
        super().__init__(backend, form, **options)
        step = cpreplay.ReplaySampleStep(self.buffer, LANES)
        self.block = cpreplay.NStepSampleStep(step, self.n, self.gamma, n_envs=n_envs)
        self.n_envs = n_envs

    @classmethod
    def begun_until(
        cls, steps: int, backend: Backend, form: Form, **options: Any
    ) -> "NStepTraining":
        run = cls(backend, form, **options)
        run.begin()
        for step in range(steps):
            run.step(step)
        return run

    def begin(self) -> None:
        form = self.form
        if form.policy == "ere":
            self.block.configure_ere(True, 0.97, 5, K_MAX)
        if form.policy == "prioritized":
            self.block.configure_per(0.7, 0.5, 1e-3)
        self.set_up()
        if form.policy == "demos":
            for step in range(12):
                self.add_step(10**6 + step)
            self.block.pin_demo_prefix(self.block.count())
        else:
            for step in range(6):
                self.add_step(10**6 + step)

    def set_up(self) -> None:
        self.block.setup(learning_starts=0)

    def add_step(self, step: int) -> None:
        columns = self.transitions(step, self.n_envs)
        del columns["discount"]
        env = np.arange(self.n_envs)
        columns["terminated"] = (step * 7 + env * 5) % 11 == 0
        columns["truncated"] = (step * 5 + env * 3) % 13 == 0
        mask = (step + env) % 8 > 0 if step % 4 == 0 else None
        self.block.add_batch(**columns, mask=mask)

    def step(self, step: int) -> bytes:
        self.add_step(step)
        batch = self.block.step(step)
        if batch is None:
            return b""
        if self.form.policy == "prioritized":
            if step % 10 == AT_REST:
                self.block.set_beta(min(1.0, 0.5 + step / 2000))
            self.block.update_priorities(self.td_errors(batch, step))
        return self.bytes_of(batch)

    def pending(self) -> np.ndarray:
        return self.backend.numpy(self.block.nstep.pending)


def assert_same_steps(run: Training, others: dict[str, Training], first: int, count: int) -> None:
    """The next minibatches of all runs are the same bytes, and they end in the same state."""
    for step in range(first, first + count):
        expected = run.step(step)
        for name, other in others.items():
            assert other.step(step) == expected, f"{name}: minibatch {step - first} differs"
    expected_stats = run.buffer.stats()
    for name, other in others.items():
        of_the_back_end = {"nbytes": other.buffer.nbytes}
        assert other.buffer.stats() == expected_stats | of_the_back_end, name
        other.buffer.check()
