"""Transitions from gymnasium's vector environments.

Vector environments reset finished ones by themselves, in one of three ways, and what they return
after an episode's end is not the transition that a replay buffer has to store.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from cpreplay.errors import ConfigurationError, DTypeError, OrderError, ShapeError

__all__ = ["RecordedStep", "TransitionRecorder"]


@attrs.frozen(kw_only=True, eq=False)
class RecordedStep:
    """One step of N environments, as transitions.

    ``buffer.add_batch(*step.transition, mask=step.mask)`` stores them, and so does
    ``block.add_batch(*step.transition, step.truncated, mask=step.mask)``.
    """

    #: Observation that the action was chosen from, (N, ...).
    obs: NDArray[Any]
    #: The action, (N, ...).
    action: NDArray[Any]
    #: float, (N,).
    reward: NDArray[Any]
    #: The step's own outcome, (N, ...): the final observation where an episode ended.
    next_obs: NDArray[Any]
    #: bool (N,): whether the MDP ended.
    terminated: NDArray[np.bool_]
    #: bool (N,): whether the clock ended the episode.
    truncated: NDArray[np.bool_]
    #: bool (N,): False where the environment was reset instead of taking a step.
    mask: NDArray[np.bool_]

    @property
    def transition(self) -> tuple[NDArray[Any], ...]:
        """The five positional arguments of ``add_batch``."""
        return self.obs, self.action, self.reward, self.next_obs, self.terminated


class TransitionRecorder:
    """Turns what ``envs.step`` returned into transitions, in each of the autoreset modes.

    - ``NEXT_STEP``: the step after an episode's end resets that environment and ignores its action;
      it is masked out.
    - ``SAME_STEP``: the step that ends an episode returns the next episode's first observation; the
      final one is taken from ``info["final_obs"]``.
    - ``DISABLED``: you reset finished environments, with ``options={"reset_mask": ...}``, and tell
      `reset`; a step without that is refused.

    Parameters
    ----------
    envs : gymnasium.vector.VectorEnv
        With array observations (no dicts or tuples), and an ``autoreset_mode``, of their own or in
        ``metadata``.

    Raises
    ------
    ConfigurationError
        The environments' mode is not known, or their observations are no arrays.

    Examples
    --------
    >>> import gymnasium
    >>> from cpreplay import StoreReplay
    >>> envs = gymnasium.make_vec("CartPole-v1", num_envs=2)
    >>> buffer = StoreReplay(4, (), 1000, action_dtype="int64", seed=0)
    >>> recorder = TransitionRecorder(envs)
    >>> obs, info = envs.reset(seed=0)
    >>> recorder.reset(obs)
    >>> for _ in range(5):  # no pole falls so soon
    ...     action = envs.action_space.sample()
    ...     step = recorder.record(action, *envs.step(action))
    ...     buffer.add_batch(*step.transition, mask=step.mask)
    >>> len(buffer)
    10
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        # An attribute of its own, which is right also where metadata is shared by a whole class.
        mode = getattr(envs.unwrapped, "autoreset_mode", envs.metadata.get("autoreset_mode"))
        if not isinstance(mode, AutoresetMode):
            raise ConfigurationError(
                f"these environments have autoreset_mode={mode!r}; it has to be one of "
                f"gymnasium.vector.AutoresetMode ({', '.join(m.name for m in AutoresetMode)})"
            )
        if envs.single_observation_space.shape is None:
            raise ConfigurationError(
                f"observations are {envs.single_observation_space}, which are no single array; "
                "flatten them, as with gymnasium.wrappers.vector.FlattenObservation"
            )
        self._mode = mode
        self._n = envs.num_envs
        self._shape = (self._n, *envs.single_observation_space.shape)
        self._obs: NDArray[Any] | None = None
        self._finished = np.zeros(self._n, bool)  # episodes that have ended and not begun anew

    def reset(self, obs: Any, mask: Any = None) -> None:
        """Take the first observations of episodes, which ``envs.reset`` returned.

        Parameters
        ----------
        obs : array, shape (N, ...)
        mask : array_like of bool, shape (N,), optional
            The environments that were reset, where not all were.
        """
        obs = self._checked_obs("reset", obs)
        begun = np.ones(self._n, bool) if mask is None else np.asarray(mask)
        if begun.shape != (self._n,) or begun.dtype != np.dtype(bool):
            raise ShapeError(f"reset: mask has to be bool of shape ({self._n},)")
        if self._obs is None:
            if not begun.all():
                raise OrderError("reset: all environments have to be reset before the first step")
            self._obs = obs.copy()
        else:
            if obs.dtype != self._obs.dtype:
                raise DTypeError(
                    f"reset: obs is {obs.dtype}, and {self._obs.dtype} at the first reset; give "
                    "what envs.reset returned"
                )
            self._obs[begun] = obs[begun]
        self._finished[begun] = False

    def record(
        self,
        action: Any,
        obs: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        info: Mapping[str, Any],
    ) -> RecordedStep:
        """The transitions of one step.

        Parameters
        ----------
        action : array_like, shape (N, ...)
            What was given to ``envs.step``.
        obs, reward, terminated, truncated, info
            What it returned.

        Returns
        -------
        RecordedStep
            Copies, which the environments do not write to.

        Raises
        ------
        OrderError
            Before `reset`; or an episode has ended, the mode is ``DISABLED``, and its environment
            was not reset.
        ShapeError, DTypeError
            An array is not as ``envs.step`` returns it. Nothing was taken then.
        ConfigurationError
            The mode is ``SAME_STEP``, and ``info`` has no final observation for an episode's end.
        """
        if self._obs is None:
            raise OrderError(
                "record before reset: give reset the observations that envs.reset returned"
            )
        if self._mode is AutoresetMode.DISABLED and self._finished.any():
            waiting = np.flatnonzero(self._finished).tolist()
            raise OrderError(
                f"record: episodes of environments {waiting} have ended; reset them with "
                'envs.reset(options={"reset_mask": mask}), and call reset(obs, mask)'
            )
        after = self._checked_obs("record", obs)
        action, reward = np.array(action), np.array(reward)
        terminated, truncated = np.array(terminated), np.array(truncated)
        if action.shape[:1] != (self._n,):
            raise ShapeError(
                f"record: action has shape {action.shape}, and one for each of {self._n} "
                "environments is wanted"
            )
        self._check_numbers("reward", reward, "biuf")
        self._check_numbers("terminated", terminated, "b")
        self._check_numbers("truncated", truncated, "b")
        ended = terminated | truncated
        next_obs = after.copy()
        if self._mode is AutoresetMode.SAME_STEP:
            self._put_final(next_obs, ended, info)
        step = RecordedStep(
            obs=self._obs,
            action=action,
            reward=reward,
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
            mask=~self._finished,
        )
        self._obs = after.copy()
        if self._mode is not AutoresetMode.SAME_STEP:
            self._finished = ended.copy()
        return step

    def _checked_obs(self, call: str, obs: Any) -> NDArray[Any]:
        if isinstance(obs, tuple):
            raise ShapeError(
                f"{call}: obs is a tuple, and one array is wanted; give the observations alone, "
                "as in obs, info = envs.reset()"
            )
        array = np.asarray(obs)
        if array.shape != self._shape:
            raise ShapeError(f"{call}: obs has shape {array.shape}, and {self._shape} is wanted")
        return array

    def _check_numbers(self, name: str, array: NDArray[Any], kinds: str) -> None:
        if array.shape != (self._n,):
            raise ShapeError(
                f"record: {name} has shape {array.shape}, and ({self._n},) is wanted: what "
                "envs.step returned"
            )
        if array.dtype.kind not in kinds:
            wanted = "bool" if kinds == "b" else "numbers"
            raise DTypeError(f"record: {name} is {array.dtype}, and {wanted} is wanted")

    def _put_final(
        self, next_obs: NDArray[Any], ended: NDArray[np.bool_], info: Mapping[str, Any]
    ) -> None:
        final = info.get("final_obs") if isinstance(info, Mapping) else None
        for env in np.flatnonzero(ended):
            if final is None or len(final) != self._n or final[env] is None:
                raise ConfigurationError(
                    f"record: the episode of environment {env} has ended, and info has no "
                    "final_obs for it; give the info that envs.step returned, before a wrapper "
                    "makes a list of it"
                )
            if np.shape(final[env]) != self._shape[1:]:
                raise ShapeError(
                    f"record: final_obs of environment {env} has shape {np.shape(final[env])}, "
                    f"and {self._shape[1:]} is wanted"
                )
            next_obs[env] = final[env]
