"""The emulator: mistakes in kernels are reported, their correct twins are not."""

import os
import pathlib
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from tests.cuda_emulator import emu
from tests.cuda_emulator import fakecupy as cp
from tests.cuda_emulator.fakecupy._simulation import sim

KERNELS = pathlib.Path(__file__).parent / "kernels_for_tests"
SEEDS = range(4)
i32, i64, u64, f32 = np.int32, np.int64, np.uint64, np.float32


@pytest.fixture(autouse=True)
def fresh_device(monkeypatch):
    monkeypatch.setattr(emu, "config", emu.Config(mode="check", limit=1 << 22))
    sim.reset(seed=1)
    yield
    sim.reset(seed=1)


def kernel(name, file="planted_bugs.cu", **settings):
    """A kernel of `kernels_for_tests`, called with (grid, block, args) to its end."""
    raw = cp.RawKernel((KERNELS / file).read_text(), name)

    def run(grid, block, args, shared_mem=0):
        for field, value in settings.items():
            setattr(emu.config, field, value)
        raw((grid,), (block,), args, shared_mem=shared_mem)
        cp.cuda.Device().synchronize()

    return run


def ints(n=128):
    return cp.arange(n, dtype=i32)


def out(n=128):
    return cp.zeros(n, i32)


def floats(n=256):
    return cp.ones(n, f32)


# name, launch, what the report says, how many of the seeds see it (all, unless said)
PLANTED = [
    ("lost_update", lambda: (1, 64, (out(1),)), "race: .* of int32"),
    ("missing_syncthreads", lambda: (1, 64, (ints(), out())), "race: .* of shared memory|uninit"),
    ("missing_syncwarp", lambda: (1, 64, (ints(), out())), "race: .* of shared memory|uninit"),
    ("shuffle_as_barrier", lambda: (1, 64, (ints(), out())), "race: .* of shared memory"),
    ("divergent_barrier", lambda: (1, 64, (out(),)), "barrier divergence"),
    ("barrier_in_a_branch", lambda: (1, 64, (out(),)), "barrier divergence"),
    ("divergent_shuffle", lambda: (1, 64, (out(),)), "warp divergence"),
    ("exit_before_shuffle", lambda: (1, 64, (out(), i32(64))), "does not take part"),
    ("lane_not_in_mask", lambda: (1, 64, (out(),)), "the caller is not in the mask 7fffffff"),
    ("spin", lambda: (2, 64, (out(1),)), "step limit|race"),
    ("endless_loop", lambda: (1, 64, (out(),)), "step limit"),
    ("endless_arithmetic", lambda: (1, 64, (out(), np.uint32(4))), "step limit"),
    ("misaligned_float4", lambda: (1, 64, (floats(), floats().data)), "type_mismatch|misaligned"),
    ("uninitialised_shared", lambda: (1, 64, (out(),)), "uninitialised read of shared memory"),
    ("other_blocks_output", lambda: (2, 64, (out(), out())), "race: .* of int32"),
    ("one_past_the_end", lambda: (1, 64, (out(64), i32(64))), "out of bounds: 4-byte write"),
    ("past_shared", lambda: (1, 64, (out(),), 256), "out of bounds: 4-byte write .* shared"),
    ("signed_overflow", lambda: (1, 64, (out(),)), "undefined behaviour .add_overflow"),
    ("float_cast", lambda: (1, 64, (floats(), cp.zeros(64, np.uint8))), "float_cast_overflow"),
]
PLANTED_IDS = [case[0] for case in PLANTED]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "launch", "report"), PLANTED, ids=PLANTED_IDS)
def test_a_planted_bug_is_reported_under_every_seed(name, launch, report, seed):
    with pytest.raises(emu.EmuError, match=report):
        kernel(name, seed=seed)(*launch())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "launch", "report"), PLANTED, ids=PLANTED_IDS)
def test_the_correct_twin_of_a_planted_bug_is_not_reported(name, launch, report, seed):
    kernel(f"{name}_fixed", seed=seed)(*launch())
