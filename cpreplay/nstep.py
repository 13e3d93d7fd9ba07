"""`NStepBuffer` and `GPUNStepBuffer`: steps in, aggregated transitions out. They never sample.

They stand in front of a replay buffer. Both are one private base over different ops, like the
buffers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import DTypeLike

from cpreplay.cuda_device import device_memory, device_number, import_cupy
from cpreplay.device_nstep import DeviceNStep
from cpreplay.errors import ConfigurationError, MemoryLimitError
from cpreplay.host_nstep import HostNStep
from cpreplay.inputs import extra_values
from cpreplay.integers import is_count, is_number
from cpreplay.memory import format_bytes, host_memory
from cpreplay.native import uses_compiled
from cpreplay.native_nstep import NativeNStep
from cpreplay.nstep_state import first_step_columns
from cpreplay.nstep_transitions import NStepTransitions
from cpreplay.ops import NStepOps
from cpreplay.schema import TRANSITION, Column, transition_columns

# What the aggregation itself makes, or takes beside the columns.
_OWN_NAMES = ("discount", "truncated", "valid", "pending")

# Of a window, beside its columns: the discount, whether it was truncated, and whether it is one.
_WINDOW_NBYTES = 4 + 1 + 1


class _NStep:
    """What host and device have in common."""

    def __init__(
        self,
        n: int,
        obs_shape: Any,
        action_shape: Any,
        gamma: float,
        *,
        n_envs: int,
        obs_dtype: DTypeLike,
        obs_store_dtype: DTypeLike | None,
        action_dtype: DTypeLike,
        extra_columns: Mapping[str, Any] | None,
        memory: int | None,
        keeps_windows: bool,
    ) -> None:
        for name, value in (("n", n), ("n_envs", n_envs)):
            if not (is_count(value) and value < 2**31):
                raise ConfigurationError(f"{name}={value!r} has to be an int from 1 to 2**31 - 1")
        if not (is_number(gamma) and 0.0 <= gamma <= 1.0):
            raise ConfigurationError(f"gamma={gamma!r} has to be a number in [0, 1]")
        self._n, self._n_envs, self._gamma = int(n), int(n_envs), float(gamma)
        rows = self._n * self._n_envs
        self._columns = transition_columns(
            obs_shape,
            action_shape,
            obs_dtype=obs_dtype,
            action_dtype=action_dtype,
            obs_store_dtype=obs_store_dtype,
            extra_columns=extra_columns,
        )
        row = _nbytes(first_step_columns(self._columns))
        if keeps_windows:
            row += _nbytes(self._columns) + _WINDOW_NBYTES
        needed, what = rows * row, "steps and windows" if keeps_windows else "steps"
        if memory is not None and needed > memory:
            raise MemoryLimitError(
                f"n={self._n} and n_envs={self._n_envs} need at least {format_bytes(needed)} for "
                f"pending {what}, and there are {format_bytes(memory)}; use less of either"
            )
        self._extra_names = [column.name for column in self._columns[len(TRANSITION) :]]
        own = [name for name in self._extra_names if name in _OWN_NAMES]
        if own:
            raise ConfigurationError(
                f"extra_columns: {own[0]!r} is one of {', '.join(_OWN_NAMES)}, which an n-step "
                "buffer makes or takes by itself; leave it out"
            )

    _ops: NStepOps

    def append(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        *,
        mask: Any = None,
        **extra: Any,
    ) -> NStepTransitions:
        """Take one step of each environment, and give the transitions that it completes.

        A transition is complete when its window holds n steps, or when its episode ends: then every
        pending window is, each with as many steps as it has. So each step is the first of exactly
        one transition, and nothing crosses an episode.

        Parameters
        ----------
        obs, next_obs : array_like, shape (n_envs, obs_shape...)
            ``next_obs`` is the step's own outcome, also where the environment was reset right after
            it: pass the final observation then. With one environment the first axis may be left
            out, here and below.
        action : array_like, shape (n_envs, action_shape...)
        reward : array_like of float, shape (n_envs,)
        terminated, truncated : array_like of bool, shape (n_envs,)
            Whether the MDP ended with this step, and whether the clock ended the episode.
        mask : array_like of bool, shape (n_envs,), optional
            Environments that took a step. What is given for the others is ignored.
        **extra : array_like, shape (n_envs, ...)
            One value for each extra column.

        Returns
        -------
        NStepTransitions
            By environment, then from the oldest window to the newest. On the host fresh arrays of
            the complete transitions alone; on the device the same ``n * n_envs`` rows every time,
            of which ``valid`` says which are complete.

        Raises
        ------
        ShapeError, DTypeError, ColumnValueError, ColumnNameError
            A value does not go into its column. Nothing was taken then.
        CaptureError
            Device only: host values, or values that need a cast, while the stream is capturing.

        Notes
        -----
        The return ``r_0 + gamma * r_1 + ...`` and ``gamma**m`` are summed forward in float64 and
        rounded once, the same on host and device bit for bit, also where they are subnormal. On the
        device this is one launch; it waits for nothing, and can be captured.

        Source: Sutton & Barto 2018, equation 12.1; Hessel et al. 2018 (Rainbow), arXiv:1710.02298.
        """
        values = (
            obs,
            action,
            reward,
            next_obs,
            terminated,
            *extra_values(self._extra_names, extra),
        )
        single = self._n_envs == 1 and (
            isinstance(reward, int | float) or getattr(reward, "ndim", None) == 0
        )
        step, stepped = self._ops.ingest(values, truncated, self._mask(mask), single)
        return self._ops.append(step, stepped)

    def reset(self, mask: Any = None) -> None:
        """Forget pending steps, which are then in no transition: of an episode that was broken off.

        Parameters
        ----------
        mask : array_like of bool, shape (n_envs,), optional
            The environments; all where it is left out.
        """
        self._ops.reset(self._mask(mask))

    def _mask(self, mask: Any) -> Any:
        """A mask with its axis, which may be left out with one environment."""
        if self._n_envs != 1:
            return mask
        if isinstance(mask, bool):
            return [mask]
        return mask.reshape(1) if getattr(mask, "shape", None) == () else mask

    @property
    def n(self) -> int:
        """Steps in a whole window."""
        return self._n

    @property
    def n_envs(self) -> int:
        """Environments that step together."""
        return self._n_envs

    @property
    def gamma(self) -> float:
        """Discount of one step."""
        return self._gamma

    @property
    def pending(self) -> Any:
        """Steps of each environment that are the first of no transition yet; int64 (n_envs,).

        A copy on the host; on the device the array itself, which later steps change.
        """
        return self._ops.counts()

    def state(self) -> dict[str, Any]:
        """The pending steps, as host arrays: what `restore` needs. Waits for the device.

        ``pending`` int64 (n_envs,), and each column of a first step (n_envs, n, ...), oldest first.
        """
        return self._ops.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put back what `state` gave, here or in another buffer of the same columns, n and n_envs.

        Parameters
        ----------
        state : mapping
            What `state` gave.

        Raises
        ------
        ConfigurationError
            It is not that of such a buffer. Nothing was changed then.
        """
        self._ops.check_state(state)()


class NStepBuffer(_NStep):
    """n-step returns of one or more environments, in host memory.

    Parameters
    ----------
    n : int
        Steps in a whole window; 1 passes transitions through.
    obs_shape, action_shape : int or tuple of int
        As of `StoreReplay`.
    gamma : float
        Discount of one step, in [0, 1].
    n_envs : int
        Environments that step together.
    obs_dtype, action_dtype, extra_columns
        As of `StoreReplay`. Extra columns are those of a window's first step.
    obs_store_dtype : dtype, optional
        Of the buffer behind: what that would refuse of an observation is refused here, where the
        step comes in. Observations are given on as they came. (On a card a buffer refuses none: it
        clamps them, and counts their rows.)

    Raises
    ------
    ConfigurationError
        A value that cannot be honoured.

    Examples
    --------
    >>> steps = NStepBuffer(3, obs_shape=(), action_shape=(), gamma=0.9)
    >>> for number, reward in enumerate([1.0, 2.0]):
    ...     out = steps.append(number, 0, reward, number + 1, number == 1, truncated=False)
    ...     print(len(out), out.reward, out.discount)
    0 [] []
    2 [2.8 2. ] [0. 0.]
    """

    def __init__(
        self,
        n: int,
        obs_shape: Any,
        action_shape: Any,
        gamma: float = 0.99,
        *,
        n_envs: int = 1,
        obs_dtype: DTypeLike = "float32",
        obs_store_dtype: DTypeLike | None = None,
        action_dtype: DTypeLike = "float32",
        extra_columns: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            n,
            obs_shape,
            action_shape,
            gamma,
            n_envs=n_envs,
            obs_dtype=obs_dtype,
            obs_store_dtype=obs_store_dtype,
            action_dtype=action_dtype,
            extra_columns=extra_columns,
            memory=host_memory(),
            keeps_windows=False,
        )
        self._ops = (NativeNStep if uses_compiled() else HostNStep)(
            self._columns, self._n, self._n_envs, self._gamma
        )


class GPUNStepBuffer(_NStep):
    """n-step returns of one or more environments, in the memory of a CUDA card.

    Parameters and calls are those of `NStepBuffer`, save for:

    Parameters
    ----------
    device : int, optional
        The card; the current one by default. It has to be the current device at every call.

    Raises
    ------
    ConfigurationError
        A value that cannot be honoured.
    DeviceUnavailableError
        CuPy, the wheels it compiles with, a driver or a card is missing; the message says which.

    Notes
    -----
    How many transitions a step completes only the device knows: give what `append` returns to
    ``add_batch`` with ``mask=transitions.valid``, which stores them in order without a wait.
    """

    def __init__(
        self,
        n: int,
        obs_shape: Any,
        action_shape: Any,
        gamma: float = 0.99,
        *,
        n_envs: int = 1,
        obs_dtype: DTypeLike = "float32",
        obs_store_dtype: DTypeLike | None = None,
        action_dtype: DTypeLike = "float32",
        extra_columns: Mapping[str, Any] | None = None,
        device: int | None = None,
    ) -> None:
        cupy = import_cupy()
        number = device_number(cupy, device)
        with cupy.cuda.Device(number):
            memory = device_memory(cupy)
        super().__init__(
            n,
            obs_shape,
            action_shape,
            gamma,
            n_envs=n_envs,
            obs_dtype=obs_dtype,
            obs_store_dtype=obs_store_dtype,
            action_dtype=action_dtype,
            extra_columns=extra_columns,
            memory=memory,
            keeps_windows=True,  # whatever a step completes, its arrays stay for graphs
        )
        with cupy.cuda.Device(number):
            self._ops = DeviceNStep(cupy, self._columns, self._n, self._n_envs, self._gamma)


def _nbytes(columns: Iterable[Column]) -> int:
    """Bytes of one row, as its columns were given."""
    return sum(column.elements * column.dtype.itemsize for column in columns)
