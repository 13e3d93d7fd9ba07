"""`DemoSet`: demonstrations as whole episodes, recorded step by step."""

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.errors import ColumnValueError, ConfigurationError, OrderError
from cpreplay.inputs import host_array
from cpreplay.integers import is_count
from cpreplay.schema import unstored_column

#: Numbers in an observation or an action: NumPy's records hold 2**31 bytes.
MAX_DIM = 2**27

#: Bits of a row's flags.
INTERVENED, SUCCEEDED = 1, 2


def row_dtype(obs_dim: int, act_dim: int) -> np.dtype[Any]:
    """One step: as it lies in a ``.demo`` file, and here."""
    return np.dtype(
        [
            ("obs", "<f4", (obs_dim,)),
            ("action", "<f4", (act_dim,)),
            ("reward", "<f4"),
            ("next_obs", "<f4", (obs_dim,)),
            ("done", "<f4"),  # terminated only
            ("flags", "<u4"),
        ]
    )


_SUCCESS = unstored_column("success", "bool")

#: One episode: its first row, its rows, and whether it succeeded.
EPISODE = np.dtype([("start", "<u8"), ("length", "<u8"), ("success", "<u4")])


@attrs.frozen(kw_only=True)
class DemoSummary:
    """What a set of demonstrations holds."""

    #: Whole episodes.
    episodes: int
    #: Those that succeeded.
    successes: int
    #: Steps of whole episodes.
    rows: int
    #: Steps in which a human intervened.
    intervened_rows: int
    #: Mean reward of a step; NaN where there is none.
    mean_reward: float


class DemoSet:
    """Demonstrations of one task.

    Call `begin_episode`, `add` for each step, then `end_episode`, or `discard_episode` for one that
    is not to be kept. Steps are copied as they are added.

    Parameters
    ----------
    obs_dim, act_dim : int
        Numbers in an observation and in an action.

    Examples
    --------
    >>> demos = DemoSet(obs_dim=2, act_dim=1)
    >>> demos.begin_episode()
    >>> demos.add([0, 0], [1], 0.5, [0, 1], terminated=True)
    >>> demos.end_episode(success=True)
    >>> demos.summary()
    DemoSummary(episodes=1, successes=1, rows=1, intervened_rows=0, mean_reward=0.5)
    """

    def __init__(self, obs_dim: int, act_dim: int) -> None:
        for name, value in (("obs_dim", obs_dim), ("act_dim", act_dim)):
            if not (is_count(value) and value <= MAX_DIM):
                raise ConfigurationError(f"{name}={value!r} has to be an int from 1 to {MAX_DIM}")
        self._obs_dim, self._act_dim = int(obs_dim), int(act_dim)
        self._dtype = row_dtype(self._obs_dim, self._act_dim)
        obs = unstored_column("obs", "float32", (self._obs_dim,))
        self._columns = (
            obs,
            unstored_column("action", "float32", (self._act_dim,)),
            unstored_column("reward", "float32"),
            attrs.evolve(obs, name="next_obs"),
            unstored_column("terminated", "bool"),
            unstored_column("intervened", "bool"),
        )
        self._finished: list[NDArray[Any]] = []  # the rows of each episode
        self._successes: list[bool] = []
        self._open: list[NDArray[Any]] | None = None

    @classmethod
    def _of_arrays(
        cls, obs_dim: int, act_dim: int, rows: NDArray[Any], episodes: NDArray[Any]
    ) -> "DemoSet":
        """A set over checked rows and episodes, as `read_demo_file` has them."""
        demos = cls(obs_dim, act_dim)
        for start, length, success in episodes.tolist():
            demos._finished.append(rows[start : start + length])
            demos._successes.append(bool(success))
        return demos

    @property
    def obs_dim(self) -> int:
        """Numbers in an observation."""
        return self._obs_dim

    @property
    def act_dim(self) -> int:
        """Numbers in an action."""
        return self._act_dim

    @property
    def rows(self) -> NDArray[Any]:
        """Every step of the whole episodes, in order: a copy, as records.

        Fields ``obs``, ``action``, ``reward``, ``next_obs``, ``done`` (1.0 where terminated), and
        ``flags`` (bit 0: a human intervened; bit 1: the episode succeeded).
        """
        parts = [np.zeros(0, self._dtype), *self._finished]
        return np.concatenate(parts)

    @property
    def episodes(self) -> NDArray[Any]:
        """``start``, ``length`` and ``success`` of each whole episode, as records."""
        lengths = np.array([len(rows) for rows in self._finished], np.uint64)
        table = np.zeros(len(lengths), EPISODE)
        table["length"] = lengths
        table["start"] = np.cumsum(lengths, dtype=np.uint64) - lengths
        table["success"] = self._successes
        return table

    def __len__(self) -> int:
        """Steps of whole episodes."""
        return sum(map(len, self._finished))

    def begin_episode(self) -> None:
        """Begin an episode. `OrderError` where one is open."""
        if self._open is not None:
            raise OrderError(
                "begin_episode: an episode is open; end it with end_episode, or discard it"
            )
        self._open = []

    def add(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        intervened: Any = False,
    ) -> None:
        """Add a step to the open episode.

        Parameters
        ----------
        obs, next_obs : array_like, shape (obs_dim,)
        action : array_like, shape (act_dim,)
        reward : float
        terminated : bool
            Whether the MDP ended with this step; not that time ran out.
        intervened : bool
            Whether a human chose this action.

        Raises
        ------
        OrderError
            No episode is open, or its last step was terminal.
        ShapeError, DTypeError, ColumnValueError
            A value does not fit, or is not finite. Nothing was added then.
        """
        if self._open is None:
            raise OrderError("add: no episode is open; call begin_episode first")
        if self._open and self._open[-1]["done"][0]:
            raise OrderError("add: the last step ended the MDP; call end_episode, and begin anew")
        values = (obs, action, reward, next_obs, terminated, intervened)
        arrays = [
            host_array(value, column, None)
            for value, column in zip(values, self._columns, strict=True)
        ]
        for array, column in zip(arrays, self._columns, strict=True):
            if not np.isfinite(array).all():
                raise ColumnValueError(f"{column.name}: {array} is not finite; nothing was added")
        row = np.zeros(1, self._dtype)
        for name, array in zip(
            ("obs", "action", "reward", "next_obs", "done"), arrays, strict=False
        ):
            row[name] = array
        row["flags"] = INTERVENED * bool(arrays[-1])
        self._open.append(row)

    def end_episode(self, success: bool) -> None:
        """Keep the open episode.

        Parameters
        ----------
        success : bool
            Whether it reached its goal, which `DemoFilter` can ask for.

        Raises
        ------
        ShapeError, DTypeError, ColumnValueError
            ``success`` is no bool.
        OrderError
            No episode is open, or it has no step.
        """
        succeeded = bool(host_array(success, _SUCCESS, None))
        if not self._open:
            raise OrderError("end_episode: no episode is open, or it has no step yet")
        rows = np.concatenate(self._open)
        if succeeded:
            rows["flags"] |= SUCCEEDED
        self._finished.append(rows)
        self._successes.append(succeeded)
        self._open = None

    def discard_episode(self) -> None:
        """Drop the open episode. `OrderError` where there is none."""
        if self._open is None:
            raise OrderError("discard_episode: no episode is open")
        self._open = None

    def summary(self) -> DemoSummary:
        """Counts, and the mean reward, of whole episodes."""
        rows = self.rows
        return DemoSummary(
            episodes=len(self._finished),
            successes=sum(self._successes),
            rows=len(rows),
            intervened_rows=int(np.count_nonzero(rows["flags"] & INTERVENED)),
            mean_reward=float(rows["reward"].mean(dtype=np.float64)) if len(rows) else float("nan"),
        )
