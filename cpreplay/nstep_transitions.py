"""What an n-step buffer gives: aggregated transitions, as arrays."""

from typing import Any

import attrs


@attrs.frozen(kw_only=True, eq=False)
class NStepTransitions:
    """Transitions over up to n steps, each an index along the first axis of every array.

    ``buffer.add_batch(t.obs, t.action, t.reward, t.next_obs, t.terminated, discount=t.discount,
    mask=t.valid, **t.extra)`` stores them, in order, on host and device alike.
    """

    #: Observation before the first step; the n-step buffer's ``obs_dtype``.
    obs: Any
    #: Action of the first step.
    action: Any
    #: float32: the rewards of the window's m steps, discounted to its first.
    reward: Any
    #: Observation after the last step.
    next_obs: Any
    #: bool: whether the MDP ended with the last step.
    terminated: Any
    #: bool: whether the clock ended the episode with the last step.
    truncated: Any
    #: float32: the factor on the value of ``next_obs``, gamma**m; 0 where terminated.
    discount: Any
    #: The extra columns, of the first step.
    extra: dict[str, Any]
    #: bool: which rows are complete. All of them on the host.
    valid: Any

    def __len__(self) -> int:
        """Rows: the complete ones on the host; ``n * n_envs`` on the device."""
        return len(self.reward)
