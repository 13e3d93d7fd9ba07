"""Sample blocks: a buffer with a batch size, as agents take one.

An agent is written against a block, so which buffer and policy it trains from is decided where the
block is made.
"""

import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from cpreplay.batch import Batch
from cpreplay.control import ALPHA, BETA, EPSILON
from cpreplay.errors import ColumnNameError, ConfigurationError, OrderError
from cpreplay.integers import is_int
from cpreplay.policies import check_batch_size
from cpreplay.replay import StoreReplay, StoreReplayGpu


class ReplaySampleStep:
    """A buffer that gives one minibatch a step, once there is enough to learn from.

    The order of calls is: configure, `setup`, add, `step`. Out of order they raise `OrderError`.

    Parameters
    ----------
    buffer : StoreReplay or StoreReplayGpu
        From here on to be used through this block alone.
    batch : int
        Transitions in a minibatch.

    Examples
    --------
    >>> block = StoreUniformSampleCpuStep(obs=3, act=1, batch=2, cap=100, seed=0)
    >>> block.setup(learning_starts=2)
    >>> for step in range(3):
    ...     block.add([step, 0.0, 0.0], [0.5], 1.0, [step + 1, 0.0, 0.0], terminated=False)
    ...     minibatch = block.step(step)
    ...     print(step, minibatch)
    0 None
    1 None
    2 Batch of 2: obs, action, reward, next_obs, terminated, indices
    """

    def __init__(self, buffer: StoreReplay | StoreReplayGpu, batch: int) -> None:
        self._buffer = buffer
        self._batch_size = check_batch_size(batch)
        if self._batch_size > buffer.capacity:
            raise ConfigurationError(
                f"batch={batch}: a buffer of {buffer.capacity} rows never holds one minibatch; use "
                "a larger capacity or a smaller batch"
            )
        self._stores_truncated = any(column.name == "truncated" for column in buffer.columns)
        self._learning_starts: int | None = None
        self._fixed: Batch | None = None
        self._last: Batch | None = None

    @property
    def buffer(self) -> StoreReplay | StoreReplayGpu:
        """The buffer behind the block."""
        return self._buffer

    @property
    def batch_size(self) -> int:
        """Transitions in a minibatch."""
        return self._batch_size

    def configure_ere(
        self, enable: bool = True, eta: float = 0.996, c_min: int = 1, k_max: int = 1000
    ) -> None:
        """Emphasise recent experience; see `StoreReplay.configure_ere`. Before `setup`."""
        if self._learning_starts is not None:
            raise OrderError("configure_ere after setup: configure the block first, then set it up")
        self._buffer.configure_ere(enable, eta, c_min, k_max)

    def configure_per(
        self, alpha: float = ALPHA, beta: float = BETA, epsilon: float = EPSILON
    ) -> None:
        """Set what priorities mean; see `StoreReplay.configure_per`. Before `setup`."""
        if self._learning_starts is not None:
            raise OrderError("configure_per after setup: configure the block first, then set it up")
        self._buffer.configure_per(alpha, beta, epsilon)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of the weights; see `StoreReplay.set_beta`. At any time."""
        self._buffer.set_beta(beta)

    def setup(self, learning_starts: int, *, fixed: bool = False) -> None:
        """Make the block ready for `add` and `step`.

        Parameters
        ----------
        learning_starts : int
            The first step index at which `step` gives a minibatch.
        fixed : bool
            Give the same arrays in every step, filled anew, as captured graphs need. A framework
            that shares their memory must have finished with them by then (JAX dispatches
            asynchronously).

        Raises
        ------
        ConfigurationError
            ``learning_starts`` is not an int of at least 0.
        OrderError
            It was called already.
        """
        if self._learning_starts is not None:
            raise OrderError(f"setup was called already, with {self._learning_starts}")
        if not is_int(learning_starts) or learning_starts < 0:
            raise ConfigurationError(f"learning_starts={learning_starts!r} has to be an int >= 0")
        self._fixed = self._buffer.make_batch(self._batch_size) if fixed else None
        self._learning_starts = int(learning_starts)

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
        """Store one transition; see `StoreReplay.add`.

        ``truncated``, whether the clock ended the episode, is stored where the buffer has a column
        of that name, and has no other use here: a truncated step is stored like any other.
        """
        self._require_setup("add")
        extra = self._with_truncated(truncated, extra)
        self._buffer.add(obs, action, reward, next_obs, terminated, **extra)

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
        """Store N transitions; see `StoreReplay.add_batch`, and `add` for ``truncated``."""
        self._require_setup("add_batch")
        extra = self._with_truncated(truncated, extra)
        self._buffer.add_batch(obs, action, reward, next_obs, terminated, mask=mask, **extra)

    def pin_demo_prefix(self, n: int) -> None:
        """Pin the demonstrations added so far; see `StoreReplay.pin_demo_prefix`."""
        self._require_setup("pin_demo_prefix")
        self._buffer.pin_demo_prefix(n, batch_size=self._batch_size)

    def step(self, step_index: int) -> Batch | None:
        """The minibatch of a step.

        Parameters
        ----------
        step_index : int
            The number of the step, as the caller counts.

        Returns
        -------
        Batch or None
            None before ``learning_starts``, and while fewer rows than one minibatch are stored and
            no demonstrations are pinned.

        Raises
        ------
        OrderError
            Before `setup`.
        EmptyBufferError, SampleRangeError
            As in `StoreReplay.sample`.
        ConfigurationError
            ``step_index`` is no int.
        """
        learning_starts = self._require_setup("step")
        if not is_int(step_index):
            raise ConfigurationError(f"step_index={step_index!r} has to be an int")
        self._last = None
        if step_index < learning_starts:
            return None
        if not self._buffer.demo_count and not self._buffer.holds(self._batch_size):
            return None
        self._last = self._buffer.sample(self._batch_size, self._fixed)
        return self._last

    def update_priorities(self, td_errors: Any) -> None:
        """Give the rows of the last step's minibatch the priority of their new TD errors.

        Parameters
        ----------
        td_errors : array_like of float, shape (batch,)
            See `StoreReplay.update_priorities`, also for errors.

        Raises
        ------
        OrderError
            The last step gave no minibatch, or the buffer is not prioritized.
        """
        if self._last is None:
            raise OrderError(
                "update_priorities: the last step gave no minibatch; call step first, and look "
                "whether it returned one"
            )
        self._buffer.update_priorities(self._last, td_errors)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the buffer into a file; see `StoreReplay.save`.

        ``learning_starts`` and what the caller counts are not in it.
        """
        self._buffer.save(path)

    def save_in_background(self, path: str | os.PathLike[str]) -> "Future[Path]":
        """Write the buffer while it goes on; see `StoreReplay.save_in_background`."""
        return self._buffer.save_in_background(path)

    def resume(
        self,
        path: str | os.PathLike[str],
        *,
        seed: int | None = None,
        drop_pending: bool = False,
    ) -> None:
        """Go on as the block that was saved; see `StoreReplay.resume`, also for errors.

        Before or after `setup`. The next call is then `step`: the batch before has no TD errors to
        give any more.
        """
        self._buffer.resume(path, seed=seed, drop_pending=drop_pending)
        self._last = None

    def count(self) -> int:
        """Rows stored; see ``len`` of the buffer for when this waits."""
        return len(self._buffer)

    def demo_count(self) -> int:
        """Rows pinned as demonstrations. A call, as `count` is, where a buffer has a property."""
        return self._buffer.demo_count

    def _require_setup(self, call: str) -> int:
        if self._learning_starts is None:
            raise OrderError(f"{call} before setup: call setup(learning_starts=...) first")
        return self._learning_starts

    def _with_truncated(self, truncated: Any, extra: dict[str, Any]) -> dict[str, Any]:
        if not self._stores_truncated:
            return extra
        if truncated is None:
            raise ColumnNameError("truncated: the buffer has a column of that name; give its value")
        return {**extra, "truncated": truncated}


def StoreUniformSampleCpuStep(
    obs: Any, act: Any, batch: int, cap: int, **options: Any
) -> ReplaySampleStep:
    """A sample block over a `StoreReplay`, with uniform or ERE draws.

    Parameters
    ----------
    obs, act : int or tuple of int
        Shapes of an observation and an action.
    batch, cap : int
        Batch size and capacity.
    **options
        Keyword arguments of `StoreReplay`.
    """
    return ReplaySampleStep(StoreReplay(obs, act, cap, False, **options), batch)


def StoreUniformSampleGpuStep(
    obs: Any, act: Any, batch: int, cap: int, **options: Any
) -> ReplaySampleStep:
    """A sample block over a `StoreReplayGpu`, with uniform or ERE draws.

    Parameters are those of `StoreUniformSampleCpuStep`.
    """
    return ReplaySampleStep(StoreReplayGpu(obs, act, cap, False, **options), batch)


def StorePerSampleCpuStep(
    obs: Any, act: Any, batch: int, cap: int, **options: Any
) -> ReplaySampleStep:
    """A sample block over a prioritized `StoreReplay`.

    Parameters are those of `StoreUniformSampleCpuStep`. Give the TD errors of each minibatch to
    `ReplaySampleStep.update_priorities`.
    """
    return ReplaySampleStep(StoreReplay(obs, act, cap, True, **options), batch)


def StorePerSampleGpuStep(
    obs: Any, act: Any, batch: int, cap: int, obs_store_dtype: Any = None, **options: Any
) -> ReplaySampleStep:
    """A sample block over a prioritized `StoreReplayGpu`.

    Parameters are those of `StorePerSampleCpuStep`, and ``obs_store_dtype`` of `StoreReplay`.
    """
    return ReplaySampleStep(StoreReplayGpu(obs, act, cap, True, obs_store_dtype, **options), batch)
