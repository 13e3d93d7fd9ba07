"""The older names of the sample blocks, and the four of n-step blocks."""

from collections.abc import Callable, Mapping
from typing import Any

from cpreplay.nstep_steps import NStepSampleStep
from cpreplay.steps import (
    ReplaySampleStep,
    StorePerSampleCpuStep,
    StorePerSampleGpuStep,
    StoreUniformSampleCpuStep,
    StoreUniformSampleGpuStep,
)

__all__ = [
    "NStepPerSampleCpuStep",
    "NStepPerSampleGpuStep",
    "NStepUniformSampleCpuStep",
    "NStepUniformSampleGpuStep",
    "PerSampleCpuStep",
    "PerSampleGpuStep",
    "UniformSampleCpuStep",
    "UniformSampleGpuStep",
]

UniformSampleCpuStep = StoreUniformSampleCpuStep
PerSampleCpuStep = StorePerSampleCpuStep
UniformSampleGpuStep = StoreUniformSampleGpuStep
PerSampleGpuStep = StorePerSampleGpuStep


def NStepUniformSampleCpuStep(
    obs: Any, act: Any, batch: int, cap: int, n: int, gamma: float, *, n_envs: int = 1,
    **options: Any,
) -> NStepSampleStep:  # fmt: skip
    """An n-step block over a `~cpreplay.StoreReplay` with uniform or ERE draws.

    Parameters
    ----------
    obs, act, batch, cap, **options
        As of `~cpreplay.StoreUniformSampleCpuStep`. The buffer gets a ``discount`` column.
    n, gamma, n_envs
        As of `~cpreplay.NStepSampleStep`.
    """
    return _nstep(StoreUniformSampleCpuStep, obs, act, batch, cap, n, gamma, n_envs, options)


def NStepPerSampleCpuStep(
    obs: Any, act: Any, batch: int, cap: int, n: int, gamma: float, *, n_envs: int = 1,
    **options: Any,
) -> NStepSampleStep:  # fmt: skip
    """An n-step block over a prioritized `~cpreplay.StoreReplay`.

    Parameters are those of `~cpreplay.block_aliases.NStepUniformSampleCpuStep`.
    """
    return _nstep(StorePerSampleCpuStep, obs, act, batch, cap, n, gamma, n_envs, options)


def NStepUniformSampleGpuStep(
    obs: Any, act: Any, batch: int, cap: int, n: int, gamma: float, *, n_envs: int = 1,
    **options: Any,
) -> NStepSampleStep:  # fmt: skip
    """An n-step block over a `~cpreplay.StoreReplayGpu`.

    Parameters are those of `~cpreplay.block_aliases.NStepUniformSampleCpuStep`.
    """
    return _nstep(StoreUniformSampleGpuStep, obs, act, batch, cap, n, gamma, n_envs, options)


def NStepPerSampleGpuStep(
    obs: Any, act: Any, batch: int, cap: int, n: int, gamma: float, *, n_envs: int = 1,
    **options: Any,
) -> NStepSampleStep:  # fmt: skip
    """An n-step block over a prioritized `~cpreplay.StoreReplayGpu`.

    Parameters are those of `~cpreplay.block_aliases.NStepUniformSampleCpuStep`.
    """
    return _nstep(StorePerSampleGpuStep, obs, act, batch, cap, n, gamma, n_envs, options)


def _nstep(
    make: Callable[..., ReplaySampleStep],
    obs: Any,
    act: Any,
    batch: int,
    cap: int,
    n: int,
    gamma: float,
    n_envs: int,
    options: dict[str, Any],
) -> NStepSampleStep:
    columns = options.get("extra_columns") or {}
    if isinstance(columns, Mapping):  # else the buffer says what is wrong with it
        columns = {"discount": (), **columns}
    block = make(obs, act, batch, cap, **{**options, "extra_columns": columns})
    return NStepSampleStep(block, n, gamma, n_envs=n_envs)
