"""Any sequence of calls of an n-step block leaves windows of whole episodes, on every back end."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cpreplay import NStepSampleStep
from tests.conftest import Backend
from tests.models import RingModel
from tests.nstep_model import Recording
from tests.test_nstep_steps import (
    GAMMA,
    assert_ring_holds,
    columns_of,
    make_block,
    make_step,
    stored_row,
)
from tests.test_state_machine import effort

BATCH = 4


class Windows(RuleBasedStateMachine):
    """A block beside a recording of every step, and a ring of the windows cut from it."""

    backend: Backend

    @initialize(
        n=st.integers(1, 5),
        n_envs=st.integers(1, 3),
        capacity=st.integers(BATCH + 1, 12),
        policy=st.sampled_from(["uniform", "ere", "prioritized"]),
    )
    def make(self, n: int, n_envs: int, capacity: int, policy: str) -> None:
        self.block: NStepSampleStep = make_block(
            self.backend,
            n,
            n_envs=n_envs,
            batch=BATCH,
            cap=capacity,
            prioritized=policy == "prioritized",
        )
        if policy == "ere":
            self.block.configure_ere(eta=0.7, c_min=2, k_max=4)
        self.block.setup(0)
        self.policy, self.n_envs = policy, n_envs
        self.recording = Recording(n, GAMMA, n_envs)
        self.ring = RingModel(capacity)
        self.number = 0

    @rule(
        ends=st.lists(st.sampled_from(["goes on"] * 4 + ["ends", "times out", "both"]), min_size=3),
        mask=st.lists(st.booleans(), min_size=3, max_size=3) | st.none(),
        own=st.booleans(),
    )
    def step_environments(self, ends: list[str], mask: list[bool] | None, own: bool) -> None:
        steps = [
            make_step(
                self.number + env,
                terminated=ends[env] in ("ends", "both"),
                truncated=ends[env] in ("times out", "both"),
            )
            for env in range(self.n_envs)
        ]
        self.number += self.n_envs
        stepped = [True] * self.n_envs if mask is None else mask[: self.n_envs]
        given = None if mask is None else np.array(stepped)
        if own and given is not None:
            given = self.backend.array(given)
        self.block.add_batch(**columns_of(steps), mask=given)
        self.recording.append({env: steps[env] for env in range(self.n_envs) if stepped[env]})
        for window in self.recording.windows_of(self.recording.appends - 1):
            self.ring.add(window)

    @rule(mask=st.lists(st.booleans(), min_size=3, max_size=3) | st.none())
    def reset(self, mask: list[bool] | None) -> None:
        self.block.reset(None if mask is None else mask[: self.n_envs])
        self.recording.reset([env for env in range(self.n_envs) if mask is None or mask[env]])

    @rule()
    def put_pending_steps_back(self) -> None:
        state = self.block.nstep.state()
        self.block.reset()
        self.block.nstep.restore(state)

    @precondition(lambda self: self.ring.size >= BATCH or self.ring.demo_count)
    @rule(errors=st.lists(st.floats(0, 8, width=32), min_size=BATCH, max_size=BATCH))
    def sample(self, errors: list[float]) -> None:
        batch = self.block.step(0)
        assert batch is not None
        rows = self.ring.rows()
        for lane, index in enumerate(self.backend.numpy(batch.indices).tolist()):
            for name, value in stored_row(rows[index]).items():
                given = self.backend.numpy(batch[name])[lane]
                assert given.tobytes() == np.asarray(value, given.dtype).tobytes(), name
        if self.policy == "prioritized":
            self.block.update_priorities(self.backend.array(errors, np.float32))

    @precondition(
        lambda self: (
            self.policy == "uniform"
            and not self.ring.demo_count
            and 0 < self.ring.total <= self.ring.capacity - BATCH
        )
    )
    @rule()
    def pin_what_is_there(self) -> None:
        self.block.pin_demo_prefix(self.ring.total)
        self.ring.pin_demo_prefix(self.ring.total, BATCH)

    @invariant()
    def holds_the_windows_and_the_pending_steps(self) -> None:
        if not hasattr(self, "block"):
            return
        assert_ring_holds(self.backend, self.block.buffer, self.ring)
        pending: Any = self.backend.numpy(self.block.nstep.pending)
        assert pending.tolist() == self.recording.pending()
        self.block.buffer.check()


def test_any_sequence_of_steps_and_draws_equals_whole_episodes(backend: Backend) -> None:
    machine = type("Windows", (Windows,), {"backend": backend})
    run_state_machine_as_test(machine, settings=effort(backend, 60))
