"""The control block's two definitions, in Python and in CUDA, are one.

``control.cuh`` is compiled by g++ with the few words of CUDA that it uses defined away, and called
beside Python's functions.
"""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cpreplay import StoreReplay
from cpreplay.control import CONTROL, ere_window, new_control, ring_head, ring_size
from cpreplay.kernels import source

WORDS_OF_CUDA = """
#include <cstddef>
#define __device__
#define __forceinline__ inline
static struct { unsigned x, y, z; } threadIdx, blockIdx, blockDim, gridDim;
"""

CALLS = """
extern "C" {
long long call_ring_head(const control_t* c) { return ring_row(c, 0); }
long long call_ring_row(const control_t* c, long long ahead) { return ring_row(c, ahead); }
long long call_ring_size(const control_t* c) { return ring_size(c); }
long long call_ere_window(const control_t* c) { return ere_window(c); }
void call_end_draw(control_t* c, int by_policy) { end_draw(c, by_policy); }
unsigned long long control_size() { return sizeof(control_t); }
unsigned long long control_alignment() { return alignof(control_t); }
"""


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    """control.cuh as a shared library."""
    compiler = shutil.which("g++")
    assert compiler, "these tests compile the CUDA sources with g++: install it"
    offsets = "".join(
        f"unsigned long long offset_of_{name}() {{ return offsetof(control_t, {name}); }}\n"
        for name in CONTROL.names or ()
    )
    library = tmp_path_factory.mktemp("control") / "control.so"
    subprocess.run(
        # no fused multiply-add, as NVRTC is told
        [compiler, "-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-x", "c++", "-",
         "-o", library],
        input=WORDS_OF_CUDA + source("control.cuh") + CALLS + offsets + "}\n",
        text=True,
        check=True,
    )  # fmt: skip
    loaded = ctypes.CDLL(str(library))
    for name in ("ring_head", "ring_row", "ring_size", "ere_window"):
        getattr(loaded, f"call_{name}").restype = ctypes.c_longlong
    loaded.call_ring_row.argtypes = [ctypes.c_void_p, ctypes.c_longlong]
    yield loaded


def block(**fields: Any) -> np.ndarray:
    """A control block with some fields set."""
    control = new_control(fields.pop("capacity", 8), fields.pop("key", 0))
    for name, value in fields.items():
        control[name] = value
    return control


def pointer(control: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(control.ctypes.data)


# Layout


def test_the_struct_has_the_fields_of_the_record_in_order() -> None:
    body = re.search(r"struct control_t \{(.*?)\n\};", source("control.cuh"), re.DOTALL)
    assert body is not None
    fields = re.findall(r"^\s*(\w+) (\w+);", body[1], re.MULTILINE)
    types = {"i64": "<i8", "u64": "<u8", "double": "<f8"}
    assert [(name, types[kind]) for kind, name in fields] == [
        (name, CONTROL.fields[name][0].str) for name in CONTROL.names or ()
    ]


def test_the_compiled_struct_has_the_offsets_of_the_record(cuda: ctypes.CDLL) -> None:
    assert cuda.control_size() == CONTROL.itemsize
    assert cuda.control_alignment() == 8
    offsets = {name: cuda[f"offset_of_{name}"]() for name in CONTROL.names or ()}
    assert offsets == {name: CONTROL.fields[name][1] for name in CONTROL.names or ()}


def test_a_new_block_is_that_of_an_empty_buffer_with_uniform_draws() -> None:
    control = new_control(1000, 2**64 - 1)
    assert (control.shape, control.dtype) == ((1,), CONTROL)
    set_fields = {
        "capacity": 1000, "key": 2**64 - 1, "eta": 1.0, "eta_power": 1.0,
        "alpha": 0.6, "beta": 0.4, "epsilon": 1e-6, "max_priority": 1.0,
    }  # fmt: skip
    for name in CONTROL.names or ():
        assert control[name][0].item() == set_fields.get(name, 0), name


# Functions

rings = st.integers(1, 2**31).flatmap(
    lambda capacity: st.tuples(
        st.just(capacity),
        st.integers(0, capacity - 1),  # demo_count
        st.one_of(st.integers(0, 3 * capacity), st.integers(0, 2**62)),  # rows beyond them
    )
)


@given(rings, st.integers(0, 2**32))
@example((1, 0, 0), 0)
@example((2**31, 2**31 - 1, 2**62), 2**32)
@settings(max_examples=200, deadline=None)
def test_head_and_size_are_the_same_in_both_languages(
    cuda: ctypes.CDLL, ring: tuple[int, int, int], ahead: int
) -> None:
    capacity, demo_count, rest = ring
    total = demo_count + rest
    control = block(capacity=capacity, demo_count=demo_count, total=total)
    head = ring_head(total, demo_count, capacity)
    assert cuda.call_ring_head(pointer(control)) == head
    assert cuda.call_ring_row(pointer(control), ahead) == ring_head(
        total + ahead, demo_count, capacity
    )
    assert cuda.call_ring_size(pointer(control)) == ring_size(total, capacity)
    assert demo_count <= head < capacity


def test_small_rings_agree_at_every_step(cuda: ctypes.CDLL) -> None:
    for capacity in range(1, 7):
        for demo_count in range(capacity):
            for total in range(demo_count, 3 * capacity + 1):
                control = block(capacity=capacity, demo_count=demo_count, total=total)
                assert cuda.call_ring_size(pointer(control)) == ring_size(total, capacity)
                assert cuda.call_ring_head(pointer(control)) == ring_head(
                    total, demo_count, capacity
                )


@pytest.mark.parametrize("demo_count", [0, 1, 4])
def test_the_head_walks_round_the_rows_behind_the_prefix(demo_count: int) -> None:
    heads = [ring_head(total, demo_count, 5) for total in range(demo_count, demo_count + 20)]
    behind = list(range(demo_count, 5))
    assert heads == (behind * 20)[:20]
    assert [ring_size(total, 5) for total in range(8)] == [0, 1, 2, 3, 4, 5, 5, 5]


@given(
    st.integers(1, 2**31),
    st.integers(1, 2**31),
    st.integers(1, 2**31),
    st.floats(0, 1),
)
@example(1, 1, 1, 0.0)
@example(2**31, 2**31, 1, 1.0)
@example(1000, 1000, 1, 0.999)
@settings(max_examples=200, deadline=None)
def test_the_ere_window_is_the_same_in_both_languages(
    cuda: ctypes.CDLL, total: int, capacity: int, c_min: int, eta_power: float
) -> None:
    control = block(capacity=capacity, total=total, c_min=c_min, eta_power=eta_power)
    size = ring_size(total, capacity)
    window = ere_window(size, c_min, eta_power)
    assert cuda.call_ere_window(pointer(control)) == window
    assert min(size, c_min) <= window <= size


@pytest.mark.parametrize(
    ("total", "capacity", "c_min", "eta_power", "window"),
    [
        (1000, 1000, 1, 1.0, 1000),  # whole before the first draw
        (1000, 1000, 1, 0.5, 500),
        (1000, 1000, 1, 0.9996, 999),  # 999.6, rounded down
        (1000, 1000, 600, 0.5, 600),  # the floor
        (1000, 1000, 2000, 0.5, 1000),  # a floor beyond what is held
        (1000, 1000, 1, 0.0, 1),
        (10, 4, 1, 0.75, 3),  # of what is held, not of what was ever added
        (3, 8, 1, 1.0, 3),
        (2**31, 2**31, 1, 0.5, 2**30),
        (2**31, 2**31, 1, 2.0**-31, 1),
    ],
)
def test_the_ere_window_is_the_one_worked_out_by_hand(
    cuda: ctypes.CDLL, total: int, capacity: int, c_min: int, eta_power: float, window: int
) -> None:
    control = block(capacity=capacity, total=total, c_min=c_min, eta_power=eta_power)
    assert ere_window(ring_size(total, capacity), c_min, eta_power) == window
    assert cuda.call_ere_window(pointer(control)) == window


@given(st.floats(1e-3, 1.0), st.integers(1, 7), st.lists(st.booleans(), max_size=20))
@settings(max_examples=60, deadline=None)
def test_the_end_of_a_draw_is_the_same_in_both_languages(
    cuda: ctypes.CDLL, eta: float, k_max: int, by_policy: list[bool]
) -> None:
    buffer = StoreReplay(1, 1, 50, seed=0)
    buffer.add_batch(*(np.zeros((50, 1)) for _ in range(2)), np.zeros(50), np.zeros((50, 1)),
                     np.zeros(50, bool))  # fmt: skip
    buffer.configure_ere(eta=eta, k_max=k_max)
    control = buffer._ops._control.copy()
    for policy in by_policy:
        if policy:
            buffer.sample(3)
        else:
            buffer.sample_range(3, 0, 50)
        cuda.call_end_draw(pointer(control), policy)
        assert control.tobytes() == buffer._ops._control.tobytes()


def test_the_window_shrinks_with_each_draw_and_is_whole_again_after_k_max(
    cuda: ctypes.CDLL,
) -> None:
    control = block(ere_enabled=1, eta=0.5, k_max=3, total=8, c_min=1)
    windows = []
    for _ in range(7):
        windows.append(cuda.call_ere_window(pointer(control)))
        cuda.call_end_draw(pointer(control), 1)
    assert windows == [8, 4, 2, 8, 4, 2, 8]
    assert control["draws"][0] == 7


def test_without_ere_a_draw_is_counted_and_no_more(cuda: ctypes.CDLL) -> None:
    control = block(eta=0.5, k_max=3)
    before = control.copy()
    cuda.call_end_draw(pointer(control), 1)
    before["draws"] += 1
    assert control.tobytes() == before.tobytes()
