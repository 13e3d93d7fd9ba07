"""The kernels compile with NVRTC for every supported architecture, and fit into the registers.

Skipped where no NVRTC wheel is installed, unless CPREPLAY_REQUIRE_NVRTC=1.  With ``pytest -s`` the
last test prints what each kernel needs.
"""

import os

import pytest

from cpreplay import kernels
from tests.cuda_emulator import nvrtc

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
ONLY_CUDA_12 = (70,)
MOST_REGISTERS = 64  # at 256 threads a block, four blocks on a multiprocessor
OPTIONS = (*kernels.OPTIONS, "-ftz=true")  # CuPy adds the last one


@pytest.fixture(scope="module")
def compiler():
    path = nvrtc.find()
    if path is None:
        if os.environ.get("CPREPLAY_REQUIRE_NVRTC") == "1":
            pytest.fail("CPREPLAY_REQUIRE_NVRTC=1, but no NVRTC wheel is installed")
        pytest.skip("no NVRTC wheel is installed")
    return nvrtc.Nvrtc(path)


@pytest.fixture(scope="module")
def needs(compiler):
    """(kernel, architecture) -> what it needs; filled by the tests, printed at the end."""
    table = {}
    yield table
    columns = sorted({architecture for _, architecture in table})
    print(f"\nregisters (+ bytes of stack), NVRTC {compiler.version[0]}.{compiler.version[1]}")
    print(" " * 24 + "".join(f"{f'sm_{a}':>10}" for a in columns))
    for kernel in sorted({kernel for kernel, _ in table}):
        cells = [table[kernel, a] for a in columns if (kernel, a) in table]
        texts = [f"{u.registers}" + f" + {u.stack_bytes}" * (u.stack_bytes > 0) for u in cells]
        print(f"{kernel:24}" + "".join(f"{text:>10}" for text in texts))


def check(compiler, source, names, architecture):
    """Compile, and raise AssertionError unless the kernels are there and fit."""
    found = compiler.compile(source, architecture, OPTIONS)
    assert sorted(found) == sorted(names)
    for kernel, usage in found.items():
        assert usage.spill_bytes == 0, f"{kernel} spills {usage.spill_bytes} bytes"
        assert usage.registers <= MOST_REGISTERS, f"{kernel} takes {usage.registers} registers"
    return found


def test_the_list_of_kernels_names_every_source():
    assert sorted(kernels.KERNELS) == sorted(path.name for path in kernels.FOLDER.glob("*.cu"))


@pytest.mark.parametrize("architecture", ONLY_CUDA_12 + ARCHITECTURES)
@pytest.mark.parametrize("name", kernels.KERNELS)
def test_a_source_compiles_without_spills(name, architecture, compiler, needs):
    if architecture in ONLY_CUDA_12 and compiler.version[0] > 12:
        assert architecture not in compiler.architectures()
        pytest.skip(f"CUDA {compiler.version[0]} has no sm_{architecture}")
    found = check(compiler, kernels.source(name), kernels.KERNELS[name], architecture)
    needs.update(((kernel, architecture), usage) for kernel, usage in found.items())


# ---- the check itself fails when it should

SMALL = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] *= 2.f; }'
# a hundred sums in flight at once: too many for 64 registers, and spilled where 32 are the limit
GREEDY = """
extern "C" __global__ void __launch_bounds__(256) k(float* x) {
    float sums[100];
#pragma unroll
    for (int i = 0; i < 100; ++i) sums[i] = x[i * 256 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 100; ++i) x[(99 - i) * 256 + threadIdx.x] = sums[i] * sums[i * 7 % 100];
}
"""


def test_a_correct_source_passes(compiler):
    check(compiler, SMALL, ["k"], 90)


def test_a_syntax_error_is_reported_with_its_place(compiler):
    broken = '#line 12 "rows.cu"\n' + SMALL.replace("2.f;", "2.f")
    with pytest.raises(nvrtc.CompileError, match=r'rows\.cu\(12\): error: expected a ";"'):
        check(compiler, broken, ["k"], 90)


def test_a_missing_kernel_is_an_error(compiler):
    with pytest.raises(AssertionError):
        check(compiler, SMALL, ["k", "another"], 90)


def test_a_spill_is_an_error(compiler):
    with pytest.raises(AssertionError, match=r"k spills \d+ bytes"):
        check(compiler, GREEDY.replace("(256)", "(1024, 2)"), ["k"], 90)


def test_too_many_registers_are_an_error(compiler):
    with pytest.raises(AssertionError, match=r"k takes \d+ registers"):
        check(compiler, GREEDY, ["k"], 90)


def test_a_type_that_only_system_headers_have_is_an_error(compiler):
    with pytest.raises(nvrtc.CompileError, match="uint64_t"):
        check(compiler, SMALL.replace("float*", "uint64_t*"), ["k"], 90)
