"""The emulator: mistakes in kernels are reported, their correct twins are not."""

import concurrent.futures
import ctypes
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


# name, launch, what the report says
PLANTED = [
    ("lost_update", lambda: (1, 64, (out(1),)), "race: .* of int32"),
    ("write_after_all_read", lambda: (1, 64, (out(1), out())), "race: .* of int32"),
    ("plain_read_beside_atomics", lambda: (1, 64, (out(1), out())), "race: .* of int32"),
    ("syncwarp_without_the_reader", lambda: (1, 64, (out(1), out())), "race: .* of int32"),
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
    ("misaligned_atomic", lambda: (1, 64, (out(),)), "misaligned 4-byte write of int32"),
    ("uninitialised_shared", lambda: (1, 64, (out(),)), "read of shared .* at byte 252, "),
    ("other_blocks_output", lambda: (2, 64, (out(), out())), "race: .* of int32"),
    ("one_past_the_end", lambda: (1, 64, (out(64), i32(64))), "out of bounds: 4-byte write"),
    ("past_shared", lambda: (1, 64, (out(),), 256), "out of bounds: 4-byte write .* shared"),
    ("past_dynamic_shared", lambda: (1, 64, (out(),), 101), "1-byte write at byte 101 of 101 "),
    (
        "into_the_next_shared_array",
        lambda: (1, 64, (out(),)),
        "4-byte write at byte 256 of 256 bytes of shared memory",
    ),
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


# ---- how much memory a kernel touches

COUNTED = """
struct where_t { const double* from; long long n; };

extern "C" __global__ void reads(where_t where, double* to) {
    for (long long i = threadIdx.x; i < where.n; i += blockDim.x) to[i] = where.from[i] + 1.0;
}

extern "C" __global__ void atomics(unsigned long long* counter, int* swaps, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        atomicMax(counter, (unsigned long long)i);
        atomicCAS(swaps + i, 0, i);
    }
}

extern "C" __global__ void shared(const int* from, int* to) {
    __shared__ int word;
    if (threadIdx.x == 0) word = from[0];
    __syncthreads();
    for (int i = 0; i < 8; ++i) atomicAdd(&word, i);
    __syncthreads();
    if (threadIdx.x == 0) to[0] = word;
}
"""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [1, 7, 64])
def test_accesses_of_global_memory_are_counted(threads, seed):
    emu.config.seed = seed
    n, doubles = 50, cp.ones(50, np.float64)
    where = np.array([(doubles.data.ptr, n)], [("from", "<u8"), ("n", "<i8")])
    launches = {
        "reads": (where, cp.empty(n, np.float64)),
        "atomics": (cp.zeros(1, u64), cp.zeros(n, i32), i32(n)),
        "shared": (cp.ones(1, i32), out(1)),
    }
    with sim.recording() as record:
        for name, arguments in launches.items():
            cp.RawKernel(COUNTED, name)((1,), (threads,), arguments)
        cp.cuda.Device().synchronize()
    assert record.ran == [("reads", 2 * n), ("atomics", 2 * n), ("shared", 2)]


# ---- memory: bounds, races and initialisation, byte by byte


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_that_write_different_bytes_of_one_word_do_not_race(seed):
    x = cp.empty(1001, np.uint8)
    kernel("write_bytes", "memory.cu", seed=seed)(2, 64, (x, i32(1001)))
    assert (x.get() == np.arange(1001).astype(np.uint8)).all()


@pytest.mark.parametrize("piece", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
def test_bytes_may_be_written_at_any_width_whatever_the_arrays_dtype(piece, dtype):
    # rows of 24 bytes are no multiple of 16: neighbours share 16-byte words, not bytes
    stride = 48 if piece == 16 else 24
    x = cp.empty(40 * stride // np.dtype(dtype).itemsize, dtype)
    kernel("write_rows", "memory.cu")(1, 64, (x.data, i32(40), i32(stride), i32(piece)))
    rows = x.get().view(np.uint8).reshape(40, stride)
    assert (rows[:, 0] == np.arange(40)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_word_that_overlaps_another_threads_byte_races_with_it(seed):
    x = cp.zeros(64, np.uint8)
    with pytest.raises(emu.EmuError, match=r"race: write of uint8\[64\] at byte [1-3]"):
        kernel("write_bytes_then_word", "memory.cu", seed=seed)(1, 64, (x,))
    kernel("write_bytes_then_word_fixed", "memory.cu", seed=seed)(1, 64, (x,))
    with pytest.raises(emu.EmuError, match=r"race: write of .* at byte 7"):
        kernel("overlapping_widths", "memory.cu", seed=seed)(1, 64, (x,))


def test_reading_memory_that_nobody_wrote_is_reported_with_its_byte():
    run = kernel("copy", "memory.cu")
    x = cp.empty(8, i32)
    x[:5] = i32(1)
    run(1, 4, (x, out(8), i32(5)))
    report = r"uninitialised read of int32\[8\]: 4 bytes at byte (20|24|28), which nobody wrote"
    with pytest.raises(emu.EmuError, match=report):
        run(1, 4, (x, out(8), i32(8)))


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.set(np.ones(64, i32)),
        lambda x: x.fill(3),
        lambda x: x.__setitem__(slice(None), cp.ones(64, i32)),
        lambda x: kernel("store", "memory.cu")(1, 64, (x, i32(1))),
        lambda x: [x[i::2].fill(i) for i in range(2)],
        lambda x: x.reshape(8, 8)[:, 3:].fill(1) or x.reshape(8, 8)[:, :3].fill(1),
    ],
    ids=["set", "fill", "copy", "kernel", "strided fill", "columns"],
)
def test_every_way_to_write_an_array_counts_as_writing(write):
    x = cp.empty(64, i32)
    write(x)
    kernel("copy", "memory.cu")(1, 64, (x, out(64), i32(64)))


def test_a_partly_written_word_is_not_written():
    x = cp.zeros(2, i32).view(np.uint8)
    y = cp.empty(2, i32).view(np.uint8)
    y[:7] = x[:7]
    with pytest.raises(emu.EmuError, match=r"uninitialised .* 4 bytes at byte 4"):
        kernel("copy", "memory.cu")(1, 1, (y.view(i32), out(2), i32(2)))


def test_memory_is_uninitialised_again_when_it_is_reused():
    x = cp.zeros(64, i32)
    where = x.data.ptr
    del x
    x = cp.empty(64, i32)
    assert x.data.ptr == where
    with pytest.raises(emu.EmuError, match="uninitialised"):
        kernel("copy", "memory.cu")(1, 64, (x, out(64), i32(64)))
    assert (x.get() == -1).all()  # and poisoned


def resident_bytes():
    text = pathlib.Path("/proc/self/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("make", [cp.empty, cp.zeros])
def test_an_array_of_gigabytes_takes_only_the_pages_that_are_used(make):
    width, rows = 1 << 16, 30_000  # 7.9 GB of float32
    before = resident_bytes()
    x = make((rows, width), f32)
    assert x.nbytes > 7 << 30
    where = cp.asarray(np.array([3, 17_000, 29_999], i64))
    first = cp.zeros(3, f32)
    if make is cp.empty:
        kernel("write_rows_at", "memory.cu")(1, 32, (x, where, i32(3), i64(width)))
    kernel("touch_rows", "memory.cu")(1, 32, (x, where, i32(3), i64(width), first))
    assert (first.get() == (7 if make is cp.empty else 0)).all()
    assert x[29_999, 0].get() == 7
    if make is cp.zeros:
        assert x[29_998, 5].get() == 0
    else:
        with pytest.raises(emu.EmuError, match="uninitialised"):
            args = (x, cp.asarray(np.array([2, 17_000, 5], i64)), i32(3), i64(width), first)
            kernel("touch_rows", "memory.cu")(1, 32, args)
    assert resident_bytes() - before < 64 << 20


def test_an_address_computed_in_32_bits_is_caught_on_a_large_array():
    width, rows = 1 << 16, 70_000
    x = cp.zeros((rows, width), f32)
    where = cp.asarray(np.array([65_536 + 5, 5], i64))
    with pytest.raises(emu.EmuError, match="race"):  # both rows become row 5
        kernel("row_address_in_32_bits", "memory.cu")(1, 32, (x, where, i32(2), i32(width)))


# ---- structs by value, module variables, copies

TABLE = np.dtype([("source", "u8"), ("target", "u8"), ("n", "i4"), ("scale", "i2")], align=True)


def table(source, target, n, scale=3):
    return np.array([(source.data.ptr, target.data.ptr, n, scale)], TABLE)


def test_a_struct_is_passed_by_value():
    x, y = floats(10), cp.empty(10, f32)
    run = kernel("copy_by_table", "memory.cu")
    run(1, 32, (table(x, y, 10), i32(2)))
    assert (y.get() == 6).all()


def test_a_struct_with_a_table_is_passed_by_value():
    x, y = floats(10), cp.empty(10, f32)
    tables = np.zeros(1, np.dtype([("columns", TABLE, 16)]))
    tables[0]["columns"][9] = table(x, y, 10)[0]
    kernel("copy_by_tables", "memory.cu")(1, 32, (tables, i32(9)))
    assert (y.get() == 1).all()


def test_a_struct_of_another_size_is_refused():
    x = floats(10)
    wrong = np.zeros(1, np.dtype([("source", "u8"), ("target", "u8")]))
    run = kernel("copy_by_table", "memory.cu")
    with pytest.raises(TypeError, match=r"a struct of 24 bytes, got .* of 16"):
        run(1, 32, (wrong, i32(2)))
    with pytest.raises(TypeError, match="one element"):
        run(1, 32, (np.concatenate([table(x, x, 1)] * 2), i32(2)))
    with pytest.raises(TypeError, match="Unsupported type"):  # as CuPy says of np.void
        run(1, 32, (table(x, x, 1)[0], i32(2)))


def test_pointers_inside_a_struct_are_checked():
    x, y = floats(10), cp.empty(10, f32)
    run = kernel("copy_by_table", "memory.cu")
    with pytest.raises(emu.EmuError, match="out of bounds: 4-byte read 0 bytes past"):
        run(1, 32, (table(x, y, 11), i32(2)))
    freed = table(x, floats(10), 10)
    with pytest.raises(emu.EmuError, match="out of bounds"):
        run(1, 32, (freed, i32(2)))


def test_variables_of_a_module_are_memory_like_any_other():
    x = cp.zeros(65, i32)
    run = kernel("use_variables", "memory.cu")
    run(1, 64, (x,))
    primes, squares = np.array([2, 3, 5, 7]), np.array([0, 1, 4, 9, 16])
    t = np.arange(64)
    assert (x.get()[:64] == primes[t % 4] + squares[t % 5]).all()
    with pytest.raises(emu.EmuError, match="write of constant the module's variables"):
        kernel("write_constant", "memory.cu")(1, 5, (x,))
    with pytest.raises(emu.EmuError, match=r"race: .* of the module's variables"):
        kernel("racing_variable", "memory.cu")(1, 64, (x,))


@pytest.mark.parametrize("name", ["copy_struct", "copy_by_memcpy"])
def test_copies_of_structs_are_checked(name):
    x, y = cp.arange(30, dtype=u64), cp.empty(30, u64)
    run = kernel(name, "memory.cu")
    run(1, 32, (x.data, y.data, i32(10)))
    assert (y.get() == np.arange(30)).all()
    with pytest.raises(emu.EmuError, match="out of bounds"):
        run(1, 32, (x.data, y.data, i32(11)))
    with pytest.raises(emu.EmuError, match="uninitialised"):
        run(1, 32, (cp.empty(30, u64).data, y.data, i32(10)))


# ---- values: the host computes what IEEE says, and CUDA's atomics exist for CUDA's types

HALVES = [0.5, 1.5, 2.5, -0.5, -2.5, 0.0, 127.5, 254.49998]
EXTREMES = [3e9, -3e9, 1e30, np.nan, np.inf, -np.inf]


def values(dtype, n=500):
    rng = np.random.default_rng(5)
    x = np.concatenate([HALVES, EXTREMES, rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)])
    return x.astype(dtype)


def test_integer_intrinsics():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 1 << 64, (2, 300), u64, endpoint=False)
    a[0] = b[0] = 2**64 - 1
    high, high32, bits = cp.empty(300, u64), cp.empty(300, np.uint32), cp.empty(300, i32)
    args = (cp.asarray(a), cp.asarray(b), high, high32, bits, i32(300))
    kernel("integers", "intrinsics.cu")(1, 64, args)
    wide = [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
    assert high.get().tolist() == wide
    low = [(int(x) % 2**32) * (int(y) % 2**32) >> 32 for x, y in zip(a, b, strict=True)]
    assert high32.get().tolist() == low

    def expected(x, y):
        ffs = (x & -x & 0xFFFFFFFF).bit_length()
        return x.bit_count() + 100 * (32 - (y % 2**32).bit_length()) + 10000 * ffs

    assert bits.get().tolist() == [expected(int(x), int(y)) for x, y in zip(a, b, strict=True)]


def test_conversions_of_floats_round_half_to_even_and_saturate():
    x = values(f32)
    n = x.size
    rn, urn, nearest, rz = (cp.empty(n, t) for t in (i32, np.uint32, f32, i32))
    args = (cp.asarray(x), rn, urn, nearest, rz, i32(n))
    kernel("float_to_integer", "intrinsics.cu")(1, 64, args)
    exact = np.nan_to_num(np.rint(x.astype("f8")), nan=0)
    assert (rn.get() == np.clip(exact, -(2**31), 2**31 - 1)).all()
    assert (urn.get() == np.clip(exact, 0, 2**32 - 1)).all()
    np.testing.assert_array_equal(nearest.get(), np.rint(x))
    truncated = np.nan_to_num(np.trunc(x.astype("f8")), nan=0)
    assert (rz.get() == np.clip(truncated, -(2**31), 2**31 - 1)).all()


def test_conversions_of_doubles_to_integers_give_nan_the_top_bit():
    x = values("f8")
    n = x.size
    types = (i32, np.uint32, i64, u64)
    made = [cp.empty(n, t) for t in types]
    kernel("double_to_integer", "intrinsics.cu")(1, 64, (cp.asarray(x), *made, i32(n)))
    for dtype, got in zip(types, made, strict=True):
        limits = np.iinfo(dtype)
        top_bit = limits.min or limits.max // 2 + 1
        expected = [
            top_bit if v != v else int(max(min(v, limits.max), limits.min))
            for v in np.rint(x).tolist()
        ]
        assert got.get().tolist() == expected


@pytest.mark.parametrize("mode", ["check", "fast"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_arithmetic_is_ieee_and_never_contracted(dtype, mode):
    emu.config.mode = mode
    a, b = values(dtype), values(dtype)[::-1].copy()
    n = a.size
    names = ["sum", "difference", "product", "quotient", "both"]
    if dtype == "f4":
        names.remove("difference")
    made = {name: cp.empty(n, dtype) for name in names}
    name = "float_arithmetic" if dtype == "f4" else "double_arithmetic"
    kernel(name, "intrinsics.cu")(1, 64, (cp.asarray(a), cp.asarray(b), *made.values(), i32(n)))
    with np.errstate(all="ignore"):
        expected = {"sum": a + b, "difference": a - b, "product": a * b, "quotient": a / b}
        expected["both"] = a * b + a
    for name, got in made.items():
        np.testing.assert_array_equal(got.get(), expected[name], err_msg=name)


def test_conversions_of_doubles():
    x = values("f8")
    words = np.random.default_rng(2).integers(0, 1 << 64, x.size, u64, endpoint=False)
    narrowed, widened = cp.empty(x.size, f32), cp.empty(x.size, "f8")
    kinds, absolute, power = cp.empty(x.size, i32), cp.empty(x.size, "f8"), cp.empty(x.size, "f8")
    made = (narrowed, widened, kinds, absolute, power)
    args = (cp.asarray(x), cp.asarray(words), *made, i32(x.size))
    kernel("conversions", "intrinsics.cu")(1, 64, args)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(narrowed.get(), x.astype(f32))
    np.testing.assert_array_equal(widened.get(), words.astype("f8"))
    np.testing.assert_array_equal(kinds.get(), np.isnan(x) + 2 * np.isfinite(x))
    np.testing.assert_array_equal(absolute.get(), np.abs(x))
    np.testing.assert_allclose(power.get(), np.sqrt(np.abs(x)), rtol=1e-15)


def test_subnormal_floats_are_flushed_as_ftz_does():
    x = np.array([1e-40, 1e-38, 1e-37], f32)
    doubled = cp.empty(3, f32)
    kernel("subnormals", "intrinsics.cu")(1, 32, (cp.asarray(x), doubled, i32(3)))
    assert doubled.get().tolist() == [0, 0, f32(2) * x[2]]


@pytest.mark.parametrize("seed", SEEDS)
def test_atomics_of_all_blocks_add_up(seed):
    i, u, w, order = cp.zeros(4, i32), cp.zeros(5, np.uint32), cp.zeros(4, u64), cp.empty(128, u64)
    kernel("atomics", "intrinsics.cu", seed=seed)(2, 64, (i, u, w, order))
    i, u, w, order = i.get(), u.get(), w.get(), order.get()
    assert i[:3].tolist() == [128 * 127 // 2, 127, 5]
    assert u[:3].tolist() == [128, 127 * 7, 6]
    assert w.tolist() == [128 << 33, 127 << 40, 7, 256]
    assert 1 <= i[3] <= 128 and 1 <= u[3] <= 128
    assert sorted(order.tolist()) == list(range(128))


def test_vector_types_have_cudas_layout():
    c4, l2 = cp.asarray(np.arange(128).astype(np.uint8)), cp.arange(64, dtype=u64)
    sizes = {"c2": 2, "s4": 8, "u2": 8, "u4": 16, "i2": 16}
    made = {name: cp.empty(32 * size, np.uint8) for name, size in sizes.items()}
    kernel("vectors", "intrinsics.cu")(1, 32, (c4.data, l2.data, *made.values()))
    c = np.arange(128).reshape(32, 4)
    got = {name: x.get() for name, x in made.items()}
    assert (got["c2"].reshape(32, 2) == c[:, [3, 0]]).all()
    assert (got["s4"].view("u2").reshape(32, 4) == (c[:, :1] + c[:, 1:2])).all()
    assert (got["u2"].view("u4").reshape(32, 2) == c[:, :2]).all()
    assert (got["u4"].view("u4").reshape(32, 4) == c).all()
    assert (got["i2"].view("i8").reshape(32, 2) == np.arange(64).reshape(32, 2)[:, ::-1]).all()


@pytest.mark.parametrize(
    ("call", "exists"),
    [
        ("atomicAdd((unsigned long long*)p, 1ull)", True),
        ("atomicAdd((unsigned long*)p, 1ul)", False),
        ("atomicAdd((long long*)p, 1ll)", False),
        ("atomicAdd((short*)p, (short)1)", False),
        ("atomicMax((float*)p, 1.f)", False),
        ("atomicCAS((float*)p, 1.f, 2.f)", False),
        ("atomicExch((double*)p, 1.)", False),
        ("atomicAdd((unsigned char*)p, (unsigned char)1)", False),
    ],
)
def test_an_atomic_exists_only_for_the_types_that_cuda_has(call, exists):
    code = f'extern "C" __global__ void k(void* p) {{ {call}; }}'
    if exists:
        emu.Module(code)
    else:
        with pytest.raises(emu.CompileError, match=r"no matching function|invalid conversion"):
            emu.Module(code)


def test_a_kernel_finds_no_header_that_nvrtc_lacks():
    with pytest.raises(emu.CompileError, match="uint64_t"):
        emu.Module('extern "C" __global__ void k(uint64_t* p) { *p = 1; }')


def test_a_kernel_takes_at_most_4096_bytes_of_arguments():
    code = 'struct Table { char rows[%d]; }; extern "C" __global__ void k(Table t, long long* p) {}'
    emu.Module(code % 4081)  # and 7 bytes to align the pointer
    with pytest.raises(emu.CompileError, match="at most 4096 bytes of arguments"):
        emu.Module(code % 4089)


def test_static_and_dynamic_shared_memory_are_limited_together():
    code = """
        extern "C" __global__ void k(int* p) {
            __shared__ char fixed[40 << 10];
            extern __shared__ char given[];
            if (threadIdx.x == 0) fixed[0] = given[0] = 1;
        }"""
    run, x = cp.RawKernel(code, "k"), out(1)
    run((1,), (32,), (x,), shared_mem=8 << 10)
    cp.cuda.Device().synchronize()
    run((1,), (32,), (x,), shared_mem=(8 << 10) + 1)
    with pytest.raises(emu.EmuError, match="shared memory: 40960 bytes static and 8193 dynamic"):
        cp.cuda.Device().synchronize()
    run.max_dynamic_shared_size_bytes = 100 << 10
    run((1,), (32,), (x,), shared_mem=100 << 10)
    cp.cuda.Device().synchronize()
    with pytest.raises(RuntimeError, match="dynamic shared memory over the limit"):
        run((1,), (32,), (x,), shared_mem=(100 << 10) + 1)


# ---- building, and the two modes


def test_mode_fast_gives_the_same_values_and_finds_out_of_bounds_writes_by_their_traces():
    emu.config.mode = "fast"
    x = cp.empty(100, np.uint8)
    kernel("write_bytes", "memory.cu")(2, 64, (x, i32(100)))
    assert (x.get() == np.arange(100)).all()
    with pytest.raises(emu.EmuError, match="something was written just after uint8"):
        kernel("write_bytes", "memory.cu")(2, 64, (x, i32(600)))


def test_launches_of_several_threads_follow_one_another():
    code = """
        extern "C" __global__ void k(int* p) {
            for (int i = 0; i < 200; ++i) {
                atomicAdd(p, 1);
                __syncthreads();
            }
        }"""
    module = emu.Module(code, mode="fast")

    def launch(_):
        count = ctypes.c_int()
        module.launch("k", (2,), (64,), [ctypes.pointer(count)])
        return count.value

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(launch, range(8))) == [200 * 128] * 8


def test_an_error_says_which_line_of_which_file_it_is_at():
    code = 'extern "C" __global__ void k(int* p) {\n#line 70 "rows.cu"\n  p[threadIdx.x] = 1;\n}\n'
    with pytest.raises(emu.EmuError, match=r"thread \(5,0,0\) warp 0 lane 5\] at rows.cu:70"):
        cp.RawKernel(code, "k")((1,), (6,), (cp.empty(5, i32),))
        cp.cuda.Device().synchronize()
    with pytest.raises(emu.CompileError, match=r"rows.cu:71:.*error"):
        emu.Module('#line 71 "rows.cu"\nextern "C" __global__ void k() { nonsense; }')


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(emu, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def test_a_source_is_compiled_once_and_again_when_it_changes(empty_cache):
    code = 'extern "C" __global__ void k(int* p) {{ *p = {}; }}'
    first = emu.Module(code.format(1)).path
    assert emu.Module(code.format(1)).path == first
    assert emu.Module(code.format(2)).path != first
    assert emu.Module(code.format(1), defines=["X"]).path != first
    assert len(list(empty_cache.iterdir())) == 3  # no leftovers of the builds


def test_several_processes_may_fill_the_cache_together(empty_cache):
    script = textwrap.dedent("""
        from tests.cuda_emulator import emu, fakecupy as cp
        x = cp.empty(1, "i4")
        cp.RawKernel('extern "C" __global__ void k(int* p) { *p = 7; }', "k")((1,), (1,), (x,))
        assert x.get() == 7
    """)
    environment = {**os.environ, "CPREPLAY_EMU_CACHE": str(empty_cache)}
    root = pathlib.Path(__file__).parent.parent
    command = [sys.executable, "-c", script]
    running = [subprocess.Popen(command, cwd=root, env=environment) for _ in range(2)]
    try:
        assert [p.wait(timeout=120) for p in running] == [0, 0]
    finally:  # none outlives this test
        for process in running:
            process.kill()
            process.wait()
    assert sorted(p.suffix for p in empty_cache.iterdir()) == [".so", ".so"]


def test_the_cache_forgets_what_was_not_used_for_a_month(empty_cache, monkeypatch):
    empty_cache.mkdir()
    now = time.time()
    for letter, days, size in [("a", 3, 10), ("b", 2, 90), ("c", 1, 10), ("d", 31, 10)]:
        path = empty_cache / f"{letter * 24}.so"
        path.write_bytes(b"x" * size)
        os.utime(path, (now - days * 86400,) * 2)
    emu.prune(now)
    assert sorted(p.stem[0] for p in empty_cache.iterdir()) == ["a", "b", "c"]
    monkeypatch.setattr(emu, "KEEP_BYTES", 100)
    emu.prune(now)
    assert sorted(p.stem[0] for p in empty_cache.iterdir()) == ["b", "c"]


def test_pruning_leaves_alone_what_the_emulator_did_not_make(empty_cache, monkeypatch):
    empty_cache.mkdir()
    strangers = ["thesis.txt", "libm.so", "build", "build-mine", "photos"]
    left_by_a_killed_build = empty_cache / f"build-{'a' * 24}-x_1"
    for path in [*(empty_cache / name for name in strangers), left_by_a_killed_build]:
        if path.suffix:
            path.write_bytes(b"x" * 100)
        else:
            path.mkdir()
        os.utime(path, (0, 0))
    (empty_cache / f"{'b' * 24}.so").symlink_to(empty_cache / "libm.so")
    monkeypatch.setattr(emu, "KEEP_BYTES", 10)
    emu.prune()
    kept = {p.name for p in empty_cache.iterdir()}
    assert set(strangers) <= kept
    assert left_by_a_killed_build.name not in kept


def test_a_library_that_is_pruned_just_before_it_is_used_is_built_again(empty_cache, monkeypatch):
    code = 'extern "C" __global__ void k(int* p) { *p = 1; }'
    path = pathlib.Path(emu.Module(code).path)
    utime = os.utime

    def pruned_first(path, *times):
        pathlib.Path(path).unlink()
        utime(path, *times)

    monkeypatch.setattr(os, "utime", pruned_first)
    assert emu.Module(code).path == str(path)
    assert path.exists()
