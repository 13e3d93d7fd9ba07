"""Machines that cannot run the device buffer: each is told what is missing, and the host works."""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import DeviceUnavailableError, StoreReplay, StoreReplayGpu
from tests.conftest import Backend, emulated


class BrokenCuPy:
    """A finder for which importing CuPy fails as with a broken installation."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "cupy":
            raise OSError("libcudart.so.12: cannot open shared object file")


def no_cupy(monkeypatch: pytest.MonkeyPatch, cupy: Any) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)


def broken_cupy(monkeypatch: pytest.MonkeyPatch, cupy: Any) -> None:
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.setattr(sys, "meta_path", [BrokenCuPy(), *sys.meta_path])


def no_driver(monkeypatch: pytest.MonkeyPatch, cupy: Any) -> None:
    monkeypatch.setattr(cupy.cuda, "is_available", lambda: False)
    monkeypatch.setattr(cupy.cuda.runtime, "driverGetVersion", lambda: 0)


def no_card(monkeypatch: pytest.MonkeyPatch, cupy: Any) -> None:
    monkeypatch.setattr(cupy.cuda, "is_available", lambda: False)
    monkeypatch.setattr(cupy.cuda.runtime, "driverGetVersion", lambda: 12090)


def no_nvrtc(monkeypatch: pytest.MonkeyPatch, cupy: Any) -> None:
    def missing() -> None:
        raise RuntimeError("Failed to find libnvrtc.so.12")

    monkeypatch.setattr(cupy.cuda.nvrtc, "getVersion", missing)


def no_headers(monkeypatch: pytest.MonkeyPatch, cupy: Any) -> None:
    def missing(kernel: Any) -> None:
        raise RuntimeError("Failed to find CUDA headers")

    monkeypatch.setattr(cupy.RawKernel, "compile", missing)


EXTRAS = "'cpreplay[cuda12]' or 'cpreplay[cuda13]'"
MACHINES: dict[Callable[[pytest.MonkeyPatch, Any], None], tuple[str, ...]] = {
    no_cupy: ("needs CuPy", "ModuleNotFoundError", f"pip install {EXTRAS}"),
    broken_cupy: ("needs CuPy", "OSError: libcudart.so.12", f"pip install {EXTRAS}"),
    no_driver: ("NVIDIA driver", "none is installed", "install it", "use a host buffer"),
    no_card: ("CUDA card", "finds none", "nvidia-smi", "CUDA_VISIBLE_DEVICES", "use a host buffer"),
    no_nvrtc: ("NVRTC", "Failed to find libnvrtc.so.12", f"pip install {EXTRAS}"),
    no_headers: ("compile its kernels", "Failed to find CUDA headers", f"pip install {EXTRAS}"),
}


@pytest.fixture(params=MACHINES, ids=lambda prepare: prepare.__name__)
def machine(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, complete: Backend
) -> tuple[str, ...]:
    """A machine without something, and what the refusal has to say."""
    request.param(monkeypatch, complete.cupy)
    return MACHINES[request.param]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A machine with everything that a device buffer needs."""
    return emulated(monkeypatch, 0)


def test_the_refusal_names_what_is_missing_and_what_to_do(machine: tuple[str, ...]) -> None:
    with pytest.raises(DeviceUnavailableError) as caught:
        StoreReplayGpu(3, 2, 8)
    message = str(caught.value)
    assert message.startswith("a device buffer ")
    for part in machine:
        assert part in message
    assert "\n" not in message  # one sentence


def test_an_n_step_buffer_is_not_told_of_another_class(machine: tuple[str, ...]) -> None:
    with pytest.raises(DeviceUnavailableError) as caught:
        cpreplay.GPUNStepBuffer(3, 2, 1)
    assert machine[0] in str(caught.value)
    assert "StoreReplay" not in str(caught.value)


def test_a_block_refuses_likewise(machine: tuple[str, ...]) -> None:
    with pytest.raises(DeviceUnavailableError) as caught:
        cpreplay.StoreUniformSampleGpuStep(3, 2, 4, 8)
    assert machine[0] in str(caught.value)


@pytest.mark.parametrize("known", [ImportError, RuntimeError, cpreplay.ReplayError])
def test_a_caller_may_catch_what_it_already_knows(machine: tuple[str, ...], known: type) -> None:
    with pytest.raises(known):
        StoreReplayGpu(3, 2, 8)


def test_the_host_buffer_works_all_the_same(machine: tuple[str, ...]) -> None:
    with pytest.raises(DeviceUnavailableError):
        StoreReplayGpu(3, 2, 8)
    for rng in (None, "philox"):
        buffer = StoreReplay(3, 2, 8, seed=0, rng=rng)
        buffer.add(np.ones(3), np.zeros(2), 1.0, np.ones(3), False)
        assert buffer.sample(4).obs.tolist() == [[1, 1, 1]] * 4
        buffer.check()


def test_values_are_checked_before_the_device_is_looked_for(machine: tuple[str, ...]) -> None:
    with pytest.raises(cpreplay.ConfigurationError, match="capacity=0"):
        StoreReplayGpu(3, 2, 0)
    with pytest.raises(cpreplay.ConfigurationError, match="seed=-1"):
        StoreReplayGpu(3, 2, 8, seed=-1)


def test_a_machine_with_everything_is_not_refused(complete: Backend) -> None:
    buffer = StoreReplayGpu(3, 2, 8)
    buffer.add(np.ones(3), np.zeros(2), 1.0, np.ones(3), False)
    assert complete.numpy(buffer.sample(4).obs).tolist() == [[1, 1, 1]] * 4


@pytest.mark.parametrize("number", [1, 2, -1, True, 0.0, "0"])
def test_a_card_that_is_not_there_is_refused(number: Any, complete: Backend) -> None:
    assert complete.cupy.cuda.runtime.getDeviceCount() == 1
    with pytest.raises(cpreplay.ConfigurationError) as caught:
        StoreReplayGpu(3, 2, 8, device=number)
    assert f"device={number!r}" in str(caught.value)
    assert "has 1" in str(caught.value)
    assert StoreReplayGpu(3, 2, 8, device=0).capacity == 8


def test_the_refusal_keeps_its_cause(monkeypatch: pytest.MonkeyPatch, complete: Backend) -> None:
    broken_cupy(monkeypatch, complete.cupy)
    with pytest.raises(DeviceUnavailableError) as caught:
        StoreReplayGpu(3, 2, 8)
    assert isinstance(caught.value.__cause__, OSError)


def test_what_is_installed_here_works_or_says_why_not() -> None:
    """On the real CuPy, or without one: whichever this environment has."""
    if importlib.util.find_spec("cupy") is None:
        with pytest.raises(DeviceUnavailableError, match="No module named 'cupy'"):
            StoreReplayGpu(3, 2, 8)
        return
    import cupy

    try:
        buffer = StoreReplayGpu(3, 2, 8)
    except DeviceUnavailableError as error:
        message = str(error)
        missing = [words[0] for words in MACHINES.values() if words[0] in message]
        assert missing
        if cupy.cuda.runtime.driverGetVersion() == 0:
            assert "NVIDIA driver" in message
    else:
        buffer.add(np.ones(3), np.zeros(2), 1.0, np.ones(3), False)
        assert cupy.asnumpy(buffer.sample(4).obs).tolist() == [[1, 1, 1]] * 4
