"""Restarts for one environment: a restart pool's protocol, inside ``reset`` and ``step``."""

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import FrameStackObservation
from numpy.typing import ArrayLike, NDArray

from cpreplay.errors import ConfigurationError, DTypeError, ShapeError
from cpreplay.integers import is_count
from cpreplay.restart.point import Restart
from cpreplay.restart.pool import RestartPool

__all__ = ["RestartWrapper"]


class _StepCount:
    """Environment steps, counted over every wrapper of one pool."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps = 0

    def __call__(self) -> int:
        return self._steps

    def add(self) -> None:
        with self._lock:
            self._steps += 1


_counts: "weakref.WeakKeyDictionary[RestartPool, _StepCount]" = weakref.WeakKeyDictionary()
_counts_lock = threading.Lock()


def _count_of(pool: RestartPool) -> _StepCount:
    with _counts_lock:
        return _counts.setdefault(pool, _StepCount())


def _markers_of(info: Mapping[str, Any]) -> Mapping[str, int] | None:
    values: Mapping[str, int] | None = info.get("markers")
    return values


class RestartWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose episodes may begin at a restart point.

    ``step`` offers a point to the pool at each marker, and tells the pool how a restarted episode
    went on and ended. ``reset`` draws: with the pool's probability it loads the machine with a
    point's snapshot and gives the point's frame stack, exactly as it was stored, as the first
    observation.

    An episode that is truncated and not terminated has timed out. That is all that counts against a
    point; terminations never do. A ``reset`` before the end, or ``close``, abandons the restart.

    Parameters
    ----------
    env : gymnasium.Env
        With every wrapper inside that shapes observations or ends episodes, ``TimeLimit`` above
        all: what ends an episode from the outside is seen here as a ``reset`` before the end, and
        no dead end is ever found.
    pool : RestartPool
        May be shared by any number of wrappers, in any threads of one process.
    save : callable, () -> bytes
        The machine's snapshot; an array of uint8 will do.
    load : callable, (bytes) -> None
        Puts the machine where a snapshot was taken. It is called after the environment's own
        ``reset``, with bytes whose checksum the pool has compared. Set here what else remembers the
        episode, such as ``AtariPreprocessing.lives``.
    markers : callable, (info) -> mapping of label to int or None
        The captured values where a step has confirmed a marker, None at any other; called with each
        step's ``info``. Each marker saves the machine, so let it be one now and then. By default,
        ``info.get("markers")``.
    restack : callable, (frame stack) -> None, optional
        Puts the frames of a stack back where the environment keeps its own. A
        ``FrameStackObservation`` inside is seen to without it.
    reseed : callable, (int) -> None, optional
        Called after ``load`` with a fresh seed below 2**31, for machines whose snapshots hold their
        random state: without it, equal actions from one point give the same episode each time. The
        seeds follow from the one that ``reset`` was given.
    to_stack : callable, (observation) -> array, optional
        The frame stack in an observation, and
    from_stack : callable, (array) -> observation, optional
        the first observation from a frame stack: both or neither. By default the observation is the
        stack.
    max_restart_steps : int, optional
        Steps after which a restarted episode is truncated. None leaves it to a ``TimeLimit``
        inside, which counts from the restart as well.
    step : callable, () -> int, optional
        The step that the pool's probability is asked for. By default the steps taken by all
        wrappers of this pool in this process, from 0, also where the pool was loaded from a file.

    Raises
    ------
    ConfigurationError
        A parameter is not as above; or observations are no single array and there is no
        ``to_stack``; or they are made from the frames of a ``FrameStackObservation`` in a way that
        only ``restack`` can undo.

    See Also
    --------
    cpreplay.RestartPool, cpreplay.gym.TransitionRecorder

    Notes
    -----
    ``info["restart"]`` of ``reset``, and of the step that ends an episode, is a dict with the
    restart's ``serial``, ``key``, ``values`` and ``steps_used``; normal starts have none. The rest
    of ``reset``'s info is left out at a restart, as it describes the normal start.

    ``reset(options={"restart": False})`` starts normally, for evaluation; other options go to the
    environment.

    In a vector environment each sub-environment has a wrapper of its own, and every autoreset mode
    is right, with a `TransitionRecorder` too. An ``AsyncVectorEnv`` runs each in a process of its
    own, and a pool belongs to one: there every sub-environment fills and draws from its own pool,
    so make it in the function that makes the environment.

    Close environments, rather than leave it to the garbage collector: a finalizer must not call a
    pool.

    A marker in the step that ends an episode counts as reached, and offers no point.

    Costs a call of ``markers`` per step, ``save`` and `cpreplay.RestartPool.offer` at each marker,
    and `cpreplay.RestartPool.draw` with ``load`` at each restart.

    Examples
    --------
    A machine whose whole state is one number:

    >>> import gymnasium, numpy as np
    >>> from cpreplay import RestartPool, RestartPoolConfiguration
    >>> from cpreplay.gym import RestartWrapper
    >>> class Corridor(gymnasium.Env):
    ...     observation_space = gymnasium.spaces.Box(0, 99, (1,), np.int64)
    ...     action_space = gymnasium.spaces.Discrete(2)
    ...     def reset(self, *, seed=None, options=None):
    ...         super().reset(seed=seed)
    ...         self.x = 0
    ...         return np.array([self.x]), {}
    ...     def step(self, action):
    ...         self.x += int(action)
    ...         info = {"markers": {"room": self.x // 10}} if self.x % 10 == 0 else {}
    ...         return np.array([self.x]), 0.0, self.x == 50, False, info
    ...     def save(self):
    ...         return bytes([self.x])
    ...     def load(self, snapshot):
    ...         self.x = snapshot[0]
    >>> machine = Corridor()
    >>> pool = RestartPool(RestartPoolConfiguration(key=["room"], probability=1.0, random_seed=0))
    >>> env = RestartWrapper(machine, pool, machine.save, machine.load)
    >>> obs, info = env.reset()
    >>> obs.tolist(), "restart" in info
    ([0], False)
    >>> for _ in range(10):
    ...     _ = env.step(1)
    >>> obs, info = env.reset()
    >>> obs.tolist(), info["restart"]["key"]
    ([10], (1,))
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        pool: RestartPool,
        save: Callable[[], bytes],
        load: Callable[[bytes], object],
        *,
        markers: Callable[[dict[str, Any]], Mapping[str, int] | None] = _markers_of,
        restack: Callable[[NDArray[Any]], object] | None = None,
        reseed: Callable[[int], object] | None = None,
        to_stack: Callable[[Any], ArrayLike] | None = None,
        from_stack: Callable[[NDArray[Any]], Any] | None = None,
        max_restart_steps: int | None = None,
        step: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(env)
        required: dict[str, Any] = {"save": save, "load": load, "markers": markers}
        optional: dict[str, Any] = {"restack": restack, "reseed": reseed, "to_stack": to_stack}
        optional |= {"from_stack": from_stack, "step": step}
        given = {name: value for name, value in optional.items() if value is not None}
        for name, value in (required | given).items():
            if not callable(value):
                raise ConfigurationError(
                    f"RestartWrapper: {name} is a {type(value).__name__}; it has to be callable"
                )
        if (to_stack is None) != (from_stack is None):
            raise ConfigurationError(
                "RestartWrapper: to_stack and from_stack belong together; give both or neither"
            )
        if to_stack is None and env.observation_space.shape is None:
            raise ConfigurationError(
                f"RestartWrapper: observations are {env.observation_space}, which are no single "
                "array; say with to_stack and from_stack what their frame stack is"
            )
        if max_restart_steps is not None and not is_count(max_restart_steps):
            raise ConfigurationError(
                f"RestartWrapper: max_restart_steps is {max_restart_steps!r}; it has to be an int "
                "of at least 1, or None"
            )
        self._pool, self._save, self._load = pool, save, load
        self._markers, self._reseed = markers, reseed
        self._to_stack, self._from_stack = to_stack, from_stack
        self._restack = restack or _restack_of(env, plain=to_stack is None)
        self._max_restart_steps = max_restart_steps
        self._count = _count_of(pool)
        self._step = self._count if step is None else step
        # Of its own: a machine's generator may come back with each snapshot, and repeat itself.
        self._rng = np.random.default_rng()
        self._restart: Restart | None = None
        self._playing = False
        self._taken = 0  # steps in this episode, here
        self._used = 0  # steps from the normal start to the restart

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, at a restart where the pool draws one.

        Parameters
        ----------
        seed : int, optional
            For the environment, and for the seeds that ``reseed`` gets.
        options : dict, optional
            ``"restart": False`` starts normally. All others go to the environment.

        Returns
        -------
        observation, info
            At a restart the stored frame stack, and ``{"restart": {...}}``.

        Raises
        ------
        ConfigurationError
            ``options["restart"]`` is no bool.
        ShapeError, DTypeError
            The pool's stack does not go into the observation space: its points are of another
            environment. The machine was not loaded.
        """
        draws, options = _take_option(options)
        self._abandon()
        obs, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        self._taken = self._used = 0
        self._restart = self._pool.draw(self._step()) if draws else None
        if self._restart is not None:
            try:
                obs, info = self._begin_at(self._restart)
            except BaseException:
                self._abandon()
                raise
        self._playing = True
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, and tell the pool what came of it.

        Parameters
        ----------
        action
            For the environment.

        Returns
        -------
        observation, reward, terminated, truncated, info
            The environment's own; ``truncated`` also after ``max_restart_steps``, and with
            ``info["restart"]`` where a restarted episode ends.

        Raises
        ------
        MarkerLabelError, MarkerTypeError, MarkerOverflowError
            From the pool, as `cpreplay.RestartPool.offer` says.
        """
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._count.add()
        if not self._playing:  # before a reset, or after an end: no episode of ours
            return obs, reward, terminated, truncated, info
        self._taken += 1
        restart, limit = self._restart, self._max_restart_steps
        if restart is not None and limit is not None and self._taken >= limit:
            truncated = True
        over = bool(terminated or truncated)
        values = self._markers(info)
        if values is not None:
            if restart is not None:
                self._pool.reached(restart, values)
            if not over:
                self._pool.offer(
                    self._save(),
                    self._stack_in(obs),
                    values,
                    steps_used=self._used + self._taken,
                    restart=restart,
                )
        if over:
            self._playing, self._restart = False, None
            if restart is not None:
                self._pool.finish(restart, timed_out=not terminated, steps=self._taken)
                info = {**info, "restart": _described(restart)}
        return obs, reward, terminated, truncated, info

    def close(self) -> None:
        """Abandon a restart whose episode is not over, and close the environment."""
        self._abandon()
        super().close()

    def _begin_at(self, restart: Restart) -> tuple[Any, dict[str, Any]]:
        # Copied, since the caller may write to an observation and the frames are kept inside.
        stack = np.array(restart.frame_stack)
        if self._from_stack is None:
            self._check_stack(stack, restart)
            obs: Any = stack
        else:
            obs = self._from_stack(stack)
        self._load(restart.snapshot)
        if self._reseed is not None:
            self._reseed(int(self._rng.integers(2**31)))
        if self._restack is not None:
            self._restack(np.array(restart.frame_stack))
        self._used = restart.steps_used
        return obs, {"restart": _described(restart)}

    def _check_stack(self, stack: NDArray[Any], restart: Restart) -> None:
        space = self.observation_space
        hint = (
            f"its point {restart.serial} is of another environment; keep a pool for each, and "
            "name the machine of its files with RestartPool(machine=...)"
        )
        if stack.shape != space.shape:
            raise ShapeError(
                f"reset: the pool gave a frame stack of shape {stack.shape}, and observations "
                f"have {space.shape}: {hint}"
            )
        if stack.dtype != space.dtype:
            raise DTypeError(
                f"reset: the pool gave a frame stack of {stack.dtype}, and observations are "
                f"{space.dtype}: {hint}"
            )

    def _stack_in(self, obs: Any) -> NDArray[Any]:
        return np.asarray(obs if self._to_stack is None else self._to_stack(obs))

    def _abandon(self) -> None:
        self._playing = False
        restart, self._restart = self._restart, None
        if restart is not None:
            self._pool.abandon(restart)


def _described(restart: Restart) -> dict[str, Any]:
    return {
        "serial": restart.serial,
        "key": restart.key,
        "values": dict(restart.values),
        "steps_used": restart.steps_used,
    }


def _take_option(options: dict[str, Any] | None) -> tuple[bool, dict[str, Any] | None]:
    """Whether to draw, and the environment's options."""
    if options is None or "restart" not in options:
        return True, options
    draws = options["restart"]
    if not isinstance(draws, bool):
        raise ConfigurationError(
            f'reset: options["restart"] is {draws!r}; give False to start normally'
        )
    rest = {name: value for name, value in options.items() if name != "restart"}
    return draws, rest or None


def _restack_of(
    env: gymnasium.Env[Any, Any], *, plain: bool
) -> Callable[[NDArray[Any]], object] | None:
    """What puts frames back into the `FrameStackObservation` inside, if there is one.

    Raises
    ------
    ConfigurationError
        What is observed is not what lies in its queue.
    """
    found: FrameStackObservation[Any, Any, Any] | None = None
    changed_by = None if plain else "to_stack"
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, FrameStackObservation):
            if changed_by is not None:
                raise ConfigurationError(
                    f"RestartWrapper: {changed_by} changes what FrameStackObservation observes, so "
                    "its frames cannot be put back from there; put the RestartWrapper right around "
                    "FrameStackObservation, or give restack"
                )
            found, changed_by = env, "another FrameStackObservation"
        elif isinstance(env, gymnasium.ObservationWrapper):
            changed_by = env.class_name()
        env = env.env
    return None if found is None else found.obs_queue.extend
