"""n-step returns in front of a sample block."""

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from cpreplay.batch import Batch
from cpreplay.checkpoint.replay_file import Moment
from cpreplay.control import ALPHA, BETA, EPSILON
from cpreplay.errors import (
    CheckpointError,
    ColumnNameError,
    ConfigurationError,
    ReplayError,
    ShapeError,
)
from cpreplay.nstep import GPUNStepBuffer, NStepBuffer
from cpreplay.nstep_transitions import NStepTransitions
from cpreplay.replay import StoreReplay, StoreReplayGpu
from cpreplay.schema import TRANSITION
from cpreplay.snapshots import Snapshot
from cpreplay.steps import ReplaySampleStep


class NStepSampleStep:
    """A sample block that stores n-step transitions, and gives them with a ``discount`` column.

    It is called like the block behind it; `add` and `add_batch` need ``truncated``, since an
    episode's pending windows are completed where it ends either way. The target of a minibatch is
    ``reward + discount * value(next_obs)``: ``discount`` is 0 where the MDP ended.

    Parameters
    ----------
    block : ReplaySampleStep
        Over a buffer with a column ``discount``, float32 and one number.
    n : int
        Steps in a whole window; 1 stores transitions as they are.
    gamma : float
        Discount of one step, in [0, 1].
    n_envs : int
        Environments that step together: the rows of every `add_batch`.

    Raises
    ------
    ConfigurationError
        The buffer has no such column, or a value cannot be honoured.

    Examples
    --------
    >>> from cpreplay import StoreReplay
    >>> buffer = StoreReplay(1, (), 100, extra_columns={"discount": ()}, seed=0)
    >>> block = NStepSampleStep(ReplaySampleStep(buffer, batch=2), n=3, gamma=0.9)
    >>> block.setup(learning_starts=0)
    >>> for step in range(3):
    ...     block.add([step], 0.0, 1.0, [step + 1], terminated=False, truncated=step == 2)
    >>> block.count()
    3
    >>> print(block.buffer.column("reward")[:3])
    [2.71 1.9  1.  ]
    """

    def __init__(self, block: ReplaySampleStep, n: int, gamma: float, *, n_envs: int = 1) -> None:
        if not isinstance(block, ReplaySampleStep):
            raise ConfigurationError(
                f"block is a {type(block).__name__}, and a ReplaySampleStep is wanted"
            )
        self._block = block
        self._lock = threading.RLock()  # one step and its windows at a time
        self._steps = nstep_buffer_for(block.buffer, n, gamma, n_envs)

    @property
    def block(self) -> ReplaySampleStep:
        """The block behind it."""
        return self._block

    @property
    def batch_size(self) -> int:
        """Transitions in a minibatch."""
        return self._block.batch_size

    @property
    def nstep(self) -> NStepBuffer | GPUNStepBuffer:
        """The pending steps in front of it."""
        return self._steps

    @property
    def buffer(self) -> StoreReplay | StoreReplayGpu:
        """The buffer behind the block."""
        return self._block.buffer

    def configure_per(
        self, alpha: float = ALPHA, beta: float = BETA, epsilon: float = EPSILON
    ) -> None:
        """Set what priorities mean; see `ReplaySampleStep.configure_per`. Before `setup`."""
        self._block.configure_per(alpha, beta, epsilon)

    def configure_ere(
        self, enable: bool = True, eta: float = 0.996, c_min: int = 1, k_max: int = 1000
    ) -> None:
        """Emphasise recent experience; see `ReplaySampleStep.configure_ere`. Before `setup`."""
        self._block.configure_ere(enable, eta, c_min, k_max)

    def setup(self, learning_starts: int, *, fixed: bool = False) -> None:
        """Make the block ready for `add` and `step`; see `ReplaySampleStep.setup`."""
        self._block.setup(learning_starts, fixed=fixed)

    def add(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any = None,
        **extra: Any,
    ) -> None:
        """Take one step of the one environment, and store the windows that it completes.

        For the values see `NStepBuffer.append`.

        Raises
        ------
        OrderError
            Before `setup`.
        ShapeError
            There are several environments: call `add_batch`.
        ColumnNameError
            ``truncated`` is left out.
        """
        if self._steps.n_envs != 1:
            raise ShapeError(
                f"add: there are {self._steps.n_envs} environments; give a row for each to "
                "add_batch"
            )
        self._require("add", truncated)
        with self._lock:
            windows = self._steps.append(
                obs, action, reward, next_obs, terminated, truncated, **extra
            )
            store_windows(self._block, windows)

    def add_batch(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any = None,
        *,
        mask: Any = None,
        **extra: Any,
    ) -> None:
        """Take one step of each environment, and store the windows that they complete.

        ``mask`` says which environments took a step. For the values see `NStepBuffer.append`, and
        `add` for what is raised.
        """
        self._require("add_batch", truncated)
        with self._lock:
            windows = self._steps.append(
                obs, action, reward, next_obs, terminated, truncated, mask=mask, **extra
            )
            store_windows(self._block, windows)

    def reset(self, mask: Any = None) -> None:
        """Forget pending steps; see `NStepBuffer.reset`."""
        with self._lock:
            self._steps.reset(mask)

    def pin_demo_prefix(self, n: int) -> None:
        """Pin the demonstrations added so far; see `ReplaySampleStep.pin_demo_prefix`."""
        self._block.pin_demo_prefix(n)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the weights; see `ReplaySampleStep.set_beta`. At any time."""
        self._block.set_beta(beta)

    def step(self, step_index: int) -> Batch | None:
        """The minibatch of a step; see `ReplaySampleStep.step`.

        ``batch["discount"]`` is the factor on the value of ``next_obs``.
        """
        return self._block.step(step_index)

    def update_priorities(self, td_errors: Any) -> None:
        """Give the last step's rows new priorities; see `ReplaySampleStep.update_priorities`."""
        self._block.update_priorities(td_errors)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer and the pending steps into a file; see `ReplaySampleStep.save`.

        On resuming, environments begin anew: give their first step after `reset`, or bring them
        where they were.
        """
        self.buffer._saves.drain()
        self.buffer._write(path, *self._begin_save(apart=False))

    def save_in_background(self, path: str | os.PathLike[str]) -> "Future[Path]":
        """Write both while the block goes on; see `StoreReplay.save_in_background`."""
        return self.buffer._submit(path, functools.partial(self._begin_save, apart=True))

    def resume(self, path: str | os.PathLike[str], *, seed: int | None = None) -> None:
        """Go on as the block that was saved; see `ReplaySampleStep.resume`.

        Raises
        ------
        CheckpointError
            As of `StoreReplay.resume`; also where the file has no pending steps, or those of
            another n, gamma or number of environments. Nothing was changed then.
        """
        with self._lock:
            self.buffer._resume(path, seed, self._check_pending)
            self._block._last = None

    def count(self) -> int:
        """Rows stored; pending steps are not among them."""
        return self._block.count()

    def demo_count(self) -> int:
        """Rows pinned as demonstrations."""
        return self._block.demo_count()

    @property
    def _settings(self) -> dict[str, Any]:
        steps = self._steps
        return {"n": steps.n, "gamma": steps.gamma, "n_envs": steps.n_envs}

    def _begin_save(self, *, apart: bool) -> tuple[Moment, Snapshot]:
        with self._lock:  # pending steps and rows of one moment
            pending = {"settings": self._settings, "steps": self._steps.state()}
            return self.buffer._begin_save(pending, apart=apart)

    def _check_pending(self, moment: Moment) -> Callable[[], None]:
        """What takes up the pending steps that were saved, or `CheckpointError`."""
        if moment.pending is None:
            raise CheckpointError(
                "this file has no pending steps: it is not of an n-step block; resume it through "
                "the block or the buffer behind"
            )
        if moment.pending["settings"] != self._settings:
            raise CheckpointError(
                f"this file is of a block with {moment.pending['settings']}, and this one has "
                f"{self._settings}; make it with the same, or take its rows alone with "
                "block.buffer.resume(path, drop_pending=True)"
            )
        try:
            return self._steps._ops.check_state(moment.pending["steps"])
        except ReplayError as error:
            raise CheckpointError(f"the pending steps do not fit: {error}") from None

    def _require(self, call: str, truncated: Any) -> None:
        self._block._require_setup(call)
        if truncated is None:
            raise ColumnNameError(
                f"{call}: truncated is missing; give whether the clock ended the episode, since "
                "n-step windows end there"
            )


def nstep_buffer_for(
    buffer: StoreReplay | StoreReplayGpu, n: int, gamma: float, n_envs: int
) -> NStepBuffer | GPUNStepBuffer:
    """An n-step buffer whose transitions go into a replay buffer, of the same kind."""
    columns = {column.name: column for column in buffer.columns}
    discount = columns.get("discount")
    if discount is None or (discount.shape, discount.dtype.name) != ((), "float32"):
        raise ConfigurationError(
            "n-step transitions have a discount, and this buffer has no float32 column of that "
            'name; make it with extra_columns={"discount": ()}'
        )
    truncated = columns.get("truncated")
    if truncated is not None and (truncated.shape, truncated.dtype.name) != ((), "bool"):
        raise ConfigurationError(
            "n-step transitions have a truncated flag, and this buffer's column of that name is no "
            'single bool; make it with extra_columns={"truncated": bool}'
        )
    extra = {
        column.name: (column.shape, column.dtype)
        for column in buffer.columns[len(TRANSITION) :]
        if column.name not in ("discount", "truncated")
    }
    kind = GPUNStepBuffer if isinstance(buffer, StoreReplayGpu) else NStepBuffer
    return kind(
        n,
        columns["obs"].shape,
        columns["action"].shape,
        gamma,
        n_envs=n_envs,
        obs_dtype=columns["obs"].dtype,
        obs_store_dtype=columns["obs"].stored,
        action_dtype=columns["action"].dtype,
        extra_columns=extra,
    )


def store_windows(block: ReplaySampleStep, windows: NStepTransitions) -> None:
    """Add what an n-step buffer gave to the block behind it."""
    w = windows
    on_device = isinstance(block.buffer, StoreReplayGpu)
    if len(w) or on_device:
        block.add_batch(
            w.obs, w.action, w.reward, w.next_obs, w.terminated, w.truncated,
            mask=w.valid if on_device else None, discount=w.discount, **w.extra,
        )  # fmt: skip
