"""The back ends that tests run on: NumPy, the emulated device, and a real card with ``-m gpu``.

A test that takes ``backend`` runs on all of them, one that takes ``device`` on the devices only.
The emulated device appears once for each schedule: 0 runs threads and blocks in plain order, any
other number in a random one. CPREPLAY_EMU_SEEDS="0 1 2 3" asks for more of them.
"""

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import hypothesis
import numpy as np
import pytest

import cpreplay
from cpreplay import native
from tests.cuda_emulator import emu, fakecupy
from tests.cuda_emulator.fakecupy._modules import modules
from tests.cuda_emulator.fakecupy._simulation import sim

SCHEDULES = os.environ.get("CPREPLAY_EMU_SEEDS", "0 1").split()
EMULATED = [f"emulated-{seed}" for seed in SCHEDULES]
HOSTS = {"host": "numpy", "native": "native"}  # and what CPREPLAY_HOST is for each
GPU = pytest.param("gpu", marks=pytest.mark.gpu)


hypothesis.settings.register_profile("cpreplay", deadline=None, derandomize=True)
hypothesis.settings.load_profile("cpreplay")


def pytest_collection_finish() -> None:
    """Leave what is there by now out of garbage collections, of which device tests need many."""
    gc.collect()
    gc.freeze()


class Backend:
    """One kind of buffer, and how its arrays come and go."""

    def __init__(self, name: str, cupy: Any = None) -> None:
        self.name = name
        self.cupy = cupy

    @property
    def is_device(self) -> bool:
        return self.cupy is not None

    def buffer(self, *args: Any, **options: Any) -> Any:
        """A buffer that draws the Philox sequence on every back end, unless told otherwise."""
        if self.is_device:
            return cpreplay.StoreReplayGpu(*args, **options)
        if "rng" not in options:
            options["rng"] = "philox"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CPREPLAY_HOST", HOSTS[self.name])
            return cpreplay.StoreReplay(*args, **options)

    def array(self, values: Any, dtype: Any = None) -> Any:
        """An array in the back end's own memory."""
        array = np.asarray(values, dtype)
        return self.cupy.asarray(array) if self.is_device else array

    def numpy(self, array: Any) -> np.ndarray:
        """A host copy of one of the back end's arrays."""
        return self.cupy.asnumpy(array) if self.is_device else np.array(array)

    def address(self, array: Any) -> int:
        return array.data.ptr if self.is_device else array.ctypes.data


def emulated(monkeypatch: pytest.MonkeyPatch, seed: int) -> Backend:
    """The fake CuPy in CuPy's place, over kernels compiled by g++."""
    gc.collect()  # buffers of the test before, whose memory the fake still holds
    sim.reset(seed=seed)
    emu.config.seed = seed
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return Backend(f"emulated-{seed}", fakecupy)


def real_gpu() -> Backend:
    try:
        import cupy
    except Exception as error:
        reason = f"CuPy cannot be imported: {error}"
    else:
        if cupy.cuda.is_available():
            return Backend("gpu", cupy)
        reason = "CuPy finds no CUDA device"
    if os.environ.get("CPREPLAY_REQUIRE_GPU") == "1":
        pytest.fail(f"CPREPLAY_REQUIRE_GPU=1, but {reason}")
    pytest.skip(reason)


def require_native() -> None:
    """Skip a test where the compiled loops are not built; fail it where they have to be."""
    if native.MISSING is None:
        return
    if os.environ.get("CPREPLAY_REQUIRE_NATIVE") == "1":
        pytest.fail(f"CPREPLAY_REQUIRE_NATIVE=1, but {native.MISSING}")
    pytest.skip(f"the compiled loops are not built: {native.MISSING}")


def _backend(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    if name in HOSTS:
        monkeypatch.setenv("CPREPLAY_HOST", HOSTS[name])
        if name == "native":
            require_native()
        yield Backend(name)
        return
    backend = real_gpu() if name == "gpu" else emulated(monkeypatch, int(name.split("-")[1]))
    yield backend
    backend.cupy.cuda.Device().synchronize()  # a finding in work still queued fails this test


@pytest.fixture
def compiled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host buffers work by compiled loops."""
    require_native()
    monkeypatch.setenv("CPREPLAY_HOST", "native")


@pytest.fixture(params=[*HOSTS, *EMULATED, GPU])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    yield from _backend(request.param, monkeypatch)


@pytest.fixture(params=[*EMULATED, GPU])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    yield from _backend(request.param, monkeypatch)


@pytest.fixture(params=EMULATED)
def emulated_device(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Backend]:
    """For tests that count what is asked of a device, which only the emulated one records."""
    yield from _backend(request.param, monkeypatch)
