"""The fake CuPy: streams, graphs and memory behave as CUDA's, and its names are CuPy's."""

import gc
import os
import pathlib
import sys

import numpy as np
import pytest

import cpreplay
from tests.cuda_emulator import emu
from tests.cuda_emulator import fakecupy as cp
from tests.cuda_emulator.fakecupy import _memory
from tests.cuda_emulator.fakecupy._memory import empty_pinned
from tests.cuda_emulator.fakecupy._modules import modules
from tests.cuda_emulator.fakecupy._simulation import sim

CODE = (pathlib.Path(__file__).parent / "kernels_for_tests" / "memory.cu").read_text()
CUDAError = cp.cuda.runtime.CUDARuntimeError
ADD_ONE, COPY, STORE, DRAW, ADVANCE = (
    cp.RawKernel(CODE, name) for name in ("add_one", "copy", "store", "draw", "advance")
)
i32, u64, f32 = np.int32, np.uint64, np.float32


@pytest.fixture(autouse=True, params=[0, 1, 2])
def seed(request, monkeypatch):
    gc.collect()
    monkeypatch.setattr(emu, "config", emu.Config(mode="check", seed=request.param))
    sim.reset(seed=request.param)
    yield request.param
    sim.reset()


def new_stream():
    return cp.cuda.Stream(non_blocking=True)


def synchronize():
    cp.cuda.Device().synchronize()


def add_one(x):
    ADD_ONE((1,), (64,), (x, i32(x.size)))


# ---- arrays


def test_an_array_comes_back_as_it_was_sent():
    host = np.arange(24, dtype=f32).reshape(2, 3, 4)
    x = cp.asarray(host)
    assert (x.shape, x.dtype, x.size, x.ndim, x.nbytes) == (host.shape, host.dtype, 24, 3, 96)
    assert (x.strides, x.itemsize, len(x)) == (host.strides, 4, 2)
    np.testing.assert_array_equal(x.get(), host)
    np.testing.assert_array_equal(cp.asnumpy(x), host)
    np.testing.assert_array_equal(cp.asnumpy(host), host)
    assert cp.asarray([1, 2]).dtype == np.int64
    assert cp.asarray(2.5).get() == 2.5


def test_new_arrays_have_the_values_that_were_asked_for():
    assert cp.zeros(3).get().tolist() == [0, 0, 0]
    assert cp.ones((1, 2), i32).get().tolist() == [[1, 1]]
    assert cp.full(2, 7, np.uint8).get().tolist() == [7, 7]
    assert cp.full(2, 1.5).dtype == np.float64
    assert cp.arange(2, 8, 3).get().tolist() == [2, 5]
    assert cp.empty(2, f32).flags.c_contiguous
    assert np.isnan(cp.empty(2, f32).get()).all()  # poisoned


def test_basic_indexing_gives_views():
    host = np.arange(12, dtype=i32).reshape(3, 4)
    x = cp.asarray(host)
    for key in [-1, (1, 2), (-1, -1), slice(1, None), (slice(None), 1), (..., 0), (None, 1)]:
        part = x[key]
        np.testing.assert_array_equal(part.get(), host[key])
        assert part.shape == host[key].shape
        if part.size and part.ndim:
            assert part.data.ptr - x.data.ptr == host[key].ctypes.data - host.ctypes.data
    x[-1, 1] = 50
    x[0] = cp.asarray(np.array([9, 8, 7, 6], i32))
    x[1, 2:] = i32(3)
    assert x.get().tolist() == [[9, 8, 7, 6], [4, 5, 3, 3], [8, 50, 10, 11]]
    with pytest.raises(NotImplementedError):
        x[np.array([1])]
    with pytest.raises(NotImplementedError):
        x[cp.asarray([1])]


def test_a_part_of_a_byte_array_is_viewed_as_another_type():
    raw = cp.zeros(96, np.uint8)
    part = raw[16:80].view(f32).reshape(4, 4)
    part.fill(2)
    assert part.data.ptr == raw.data.ptr + 16
    assert part.device == raw.device == cp.cuda.Device(0)
    expected = np.zeros(96, np.uint8)
    expected[16:80].view(f32)[:] = 2
    np.testing.assert_array_equal(raw.get(), expected)
    assert part.base is raw
    pointer = cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(raw.data.ptr + 16, 64, raw), 4)
    strided = cp.ndarray((3, 2), f32, pointer, strides=(16, 4))
    assert strided.get().tolist() == [[2, 2]] * 3
    assert strided.data.ptr == raw.data.ptr + 20


def test_copies_are_copies():
    host = np.arange(12, dtype=i32).reshape(3, 4)
    x = cp.asarray(host)
    column = x[:, 1]
    assert not column.flags.c_contiguous
    for made in (cp.ascontiguousarray(column), column.copy(), column.astype(i32)):
        assert made.flags.c_contiguous
        assert made.flags.owndata
        x.fill(0)
        assert made.get().tolist() == [1, 5, 9]
        x.set(host)
    assert cp.ascontiguousarray(x) is x
    assert x.astype(i32, copy=False) is x
    assert x.astype(f32).dtype == f32
    assert x.T.reshape(12).get().tolist() == host.T.reshape(12).tolist()
    assert x.T.copy().flags.c_contiguous
    turned = x.T.astype(f32)  # CuPy's casts keep the order of the axes
    assert not turned.flags.c_contiguous
    assert turned.get().tolist() == host.T.tolist()
    assert x.T.astype(f32, order="C").flags.c_contiguous
    assert x.ravel().data.ptr == x.data.ptr
    assert x.T.ravel().data.ptr != x.data.ptr


def test_what_the_fake_would_ignore_it_refuses():
    x = cp.zeros((2, 3), f32)
    calls = [
        lambda: cp.from_dlpack(x, copy=True),
        lambda: cp.from_dlpack(x, device=0),
        lambda: x.__dlpack__(copy=True),
        lambda: x.__dlpack__(dl_device=(1, 0)),
        lambda: cp.asarray(x, order="F"),
        lambda: cp.asarray(np.zeros((2, 3)), order="F"),
        lambda: cp.asarray(x, copy=False),
        lambda: cp.array(x, order="F"),
        lambda: cp.array(x, subok=True),
        lambda: cp.empty((2, 3), order="F"),
        lambda: x.get(order="F"),
        lambda: cp.asnumpy(x, order="F"),
        lambda: x.copy(order="F"),
        lambda: x.astype("f8", order="F"),
        lambda: x.astype("f8", casting="no"),
        lambda: x.astype("f8", subok=True),
        lambda: new_stream().begin_capture(mode=1),
        lambda: cp.cuda.Stream(priority=1),
        lambda: cp.cuda.Event(interprocess=True),
        lambda: cp.cuda.get_current_stream(1),
        lambda: cp.RawKernel(CODE, "store", translate_cucomplex=True),
        lambda: cp.RawModule(code=CODE, translate_cucomplex=True),
        lambda: cp.RawKernel(CODE, "store").compile(log_stream=sys.stderr),
        lambda: cp.get_default_memory_pool().free_all_blocks(cp.cuda.Stream.null),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(NotImplementedError, match="fake: "):
            call()
            pytest.fail(f"call {number} was not refused")
    for function in (cp.asarray, cp.zeros, x.astype, x.get, cp.from_dlpack, STORE):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            function(x, unknown=1)
    assert cp.asarray(x.T, order="C").flags.c_contiguous
    assert cp.asarray(x.T).data.ptr == x.data.ptr
    assert x.T.astype(f32, "C", copy=False).flags.c_contiguous


def test_set_wants_the_same_dtype_and_shape():
    x = cp.zeros(4, f32)
    with pytest.raises(TypeError, match="float64 array cannot be set to float32 array"):
        x.set(np.zeros(4))
    with pytest.raises(ValueError, match="Shape mismatch"):
        x.set(np.zeros(5, f32))
    with pytest.raises(TypeError, match=r"Only numpy\.ndarray"):
        x.set([1, 2, 3, 4])
    with pytest.raises(RuntimeError, match="non-contiguous"):
        x[::2].set(np.zeros(2, f32))
    with pytest.raises(TypeError, match="Unsupported type"):
        x[...] = np.zeros(4, f32)
    with pytest.raises(TypeError, match="Unsupported dtype"):
        cp.empty(1, [("a", "i4")])


def test_only_a_scalar_fills():
    x = cp.zeros(2, f32)
    for value in (np.zeros(2, f32), [1, 2], cp.zeros(1, f32)):
        with pytest.raises(ValueError, match=r"non-scalar"):
            x.fill(value)
    x.fill(np.array(3, f32))
    assert x.get().tolist() == [3, 3]


def test_get_fills_an_array_that_fits():
    x, out = cp.ones(4, f32), np.empty(4, f32)
    assert x.get(out=out) is out
    assert out.tolist() == [1, 1, 1, 1]
    with pytest.raises(ValueError, match="Shape mismatch"):
        x.get(out=np.empty(5, f32))
    with pytest.raises(TypeError):
        x.get(out=np.empty(4))


def test_nothing_is_copied_to_the_host_unasked():
    x = cp.zeros(3)
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(x)
    with pytest.raises(NotImplementedError):
        x == x  # noqa: B015
    with pytest.raises(TypeError):
        hash(x)


def test_a_name_that_the_fake_lacks_is_an_attribute_error():
    for thing, name in [(cp, "concatenate"), (cp, "np"), (cp.cuda, "sim"), (cp.zeros(1), "sum")]:
        with pytest.raises(AttributeError):
            getattr(thing, name)


# ---- exchange with other libraries


class Foreign:
    """Another library's array over the same device memory."""

    def __init__(self, array):
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def test_a_foreign_device_array_is_taken_without_a_copy():
    x = cp.arange(12, dtype=f32).reshape(3, 4)
    for source in (x, x[:, 1:3]):
        y = cp.asarray(Foreign(source))
        assert y.data.ptr == source.data.ptr
        assert (y.shape, y.strides, y.dtype) == (source.shape, source.strides, source.dtype)
        z = cp.from_dlpack(source)
        assert z.data.ptr == source.data.ptr
        assert (z.shape, z.strides, z.dtype) == (source.shape, source.strides, source.dtype)
        np.testing.assert_array_equal(z.get(), source.get())
    assert x.__dlpack_device__() == (2, 0)


def test_a_foreign_arrays_stream_is_waited_for():
    with new_stream():
        x = cp.zeros(4, f32)
        described = Foreign(x)
        with sim.recording() as record:
            cp.asarray(described)
    assert record.synchronisations == 1
    described.__cuda_array_interface__ = {**described.__cuda_array_interface__, "stream": None}
    with sim.recording() as record:
        cp.asarray(described)
    assert record.synchronisations == 0


def test_a_dlpack_consumer_waits_for_the_producer_without_the_host():
    def attempt():
        producer, consumer = new_stream(), new_stream()
        with producer:
            x = cp.zeros(64, i32)
            add_one(x)
            with sim.recording() as record:
                x.__dlpack__(stream=consumer.ptr)
            assert record.synchronisations == 0
        with consumer:
            y = cp.empty(64, i32)
            COPY((1,), (64,), (x, y, i32(64)))
            return (y.get() != 1).any()

    assert over_several_tries(attempt) == 0


def test_dlpack_takes_the_streams_that_cuda_has():
    x = cp.zeros(4)
    for stream in (0, -2, 1.0, "1"):
        with pytest.raises(ValueError, match=r"a stream for DLPack is -1, 1, 2 or larger"):
            x.__dlpack__(stream=stream)
    other = new_stream()
    for stream, waits in [(None, True), (1, True), (-1, False)]:
        synchronize()
        with other:
            x.__dlpack__(stream=stream)
        assert cp.cuda.Stream.null.done != waits


def test_dlpack_obeys_the_rules_of_captures():
    x = cp.zeros(64, i32)
    synchronize()
    a, b = new_stream(), new_stream()
    with a:
        a.begin_capture()
        x.__dlpack__(stream=a.ptr)
        assert not b.is_capturing()
        x.__dlpack__(stream=b.ptr)
        assert b.is_capturing()  # as by an event
        a.wait_event(b.record())
        a.end_capture()
        a.begin_capture()
        with pytest.raises(CUDAError, match="cudaErrorStreamCaptureImplicit"):
            x.__dlpack__(stream=1)
        with pytest.raises(CUDAError, match="Invalidated"):
            a.end_capture()
    a.begin_capture()
    with b, pytest.raises(CUDAError, match="cudaErrorStreamCaptureIsolation"):
        x.__dlpack__(stream=a.ptr)
    with pytest.raises(CUDAError, match="Invalidated"):
        a.end_capture()


def test_a_finding_is_not_taken_for_an_array_that_cupy_refuses(monkeypatch):
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    buffer = cpreplay.StoreReplayGpu((3,), (2,), 8)
    columns = [((4, 3), f32), ((4, 2), f32), ((4,), f32), ((4, 3), f32), ((4,), np.bool_)]
    obs, *others = (cp.zeros(shape, dtype) for shape, dtype in columns)
    synchronize()
    with new_stream() as theirs:
        x = cp.zeros(4, i32)
        STORE((1,), (5,), (x, i32(0)))  # one past the end
        foreign = Foreign(obs)
        del obs
        assert foreign.__cuda_array_interface__["stream"] == theirs.ptr
        with pytest.raises(emu.EmuError, match="out of bounds: 4-byte write"):
            buffer.add_batch(foreign, *others)


def test_a_capsule_keeps_its_memory_alive():
    x = cp.ones(1000, f32)
    where = x.data.ptr
    y = cp.from_dlpack(x)
    del x
    gc.collect()
    assert cp.empty(1000, f32).data.ptr != where
    assert y.get().sum() == 1000
    del y
    gc.collect()
    assert cp.empty(1000, f32).data.ptr == where


def test_host_arrays_and_strangers_are_refused():
    with pytest.raises(TypeError, match="CPU arrays cannot be directly imported"):
        cp.from_dlpack(np.zeros(3))
    stranger = Foreign(cp.zeros(4))
    stranger.__cuda_array_interface__ = {**stranger.__cuda_array_interface__, "data": (4096, False)}
    with pytest.raises(ValueError, match="not in the fake device's memory"):
        cp.asarray(stranger)
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(cp.zeros(3))  # NumPy reads host memory only


# ---- kernels' arguments, which CuPy does not check


def test_scalars_have_the_width_that_the_kernel_takes():
    run = cp.RawKernel(CODE, "take_many_types")
    out = cp.zeros(1, "f8")
    good = [i32(1), np.uint32(2), np.int64(3), f32(4), 5.0, True, np.uint8(6), out]
    run((1,), (1,), good)
    assert out.get()[0] == 22
    for place, wrong in [(0, 1), (0, np.uint32(1)), (3, 4.0), (2, i32(3)), (6, 6), (7, out.get())]:
        args = list(good)
        args[place] = wrong
        with pytest.raises(TypeError, match=f"take_many_types argument {place}"):
            run((1,), (1,), args)
    for wrong in (None, "1", [1], (1,), 1j, b"1"):
        for place in (0, 4):
            args = list(good)
            args[place] = wrong
            with pytest.raises(TypeError, match=f"Unsupported type .* argument {place}"):
                run((1,), (1,), args)
    with pytest.raises(TypeError, match="takes 8 arguments, got 7"):
        run((1,), (1,), good[:-1])


def test_arrays_have_the_type_that_the_kernel_takes_and_are_contiguous():
    with pytest.raises(TypeError, match="array of float32"):
        STORE((1,), (1,), (cp.zeros(1, f32), i32(0)))
    with pytest.raises(TypeError, match="not C-contiguous"):
        STORE((1,), (1,), (cp.zeros(4, i32)[::2], i32(0)))
    with pytest.raises(TypeError, match="a pointer is wanted"):
        STORE((1,), (1,), (np.zeros(1, i32), i32(0)))
    x = cp.zeros(2, i32)
    STORE((1,), (1,), (x[1:], i32(5)))
    STORE((1,), (1,), (x.data, i32(6)))
    STORE((1,), (1,), (x.data.ptr + 4, i32(7)))
    assert x.get().tolist() == [6, 7]


def test_a_grid_of_zero_runs_one_block():
    x = cp.zeros(1, i32)
    ADD_ONE((0,), (1,), (x, i32(1)))
    assert x.get() == 1


def test_modules_and_kernels_are_made_as_cupys_are():
    x = cp.zeros(1, i32)
    module = cp.RawModule(code=CODE, options=("-std=c++17",))
    module.get_function("add_one")((1,), (1,), (x, i32(1)))
    cp.RawKernel(CODE, "add_one", ("-std=c++17",))((1,), (1,), (x, i32(1)), stream=None)
    assert x.get() == 2
    with pytest.raises(RuntimeError, match="CUDA_ERROR_NOT_FOUND"):
        module.get_function("nothing")
    with pytest.raises(TypeError, match="expected tuple"):
        cp.RawKernel(CODE, "add_one", ["-std=c++17"])
    with pytest.raises(cp.cuda.compiler.CompileException, match="error"):
        cp.RawKernel('extern "C" __global__ void k() { nonsense; }', "k").compile()
    with pytest.raises(NotImplementedError, match="no include path"):
        cp.RawKernel(CODE, "add_one", ("-I.",)).compile()
    with pytest.raises(RuntimeError, match="INVALID_VALUE"):
        STORE((1,), (1025,), (x, i32(0)))
    with pytest.raises(RuntimeError, match="INVALID_VALUE"):
        STORE((1,), (1, 1, 65), (x, i32(0)))
    STORE((1,), (1, 1, 64), (x, i32(0)))


# ---- streams


def over_several_tries(attempt, n=12):
    """How many of n tries go wrong."""
    wrong = 0
    for _ in range(n):
        try:
            wrong += bool(attempt())
        except emu.EmuError:
            wrong += 1
            sim.reset(seed=int(sim.rng.integers(1 << 30)))
    return wrong


@pytest.mark.parametrize("wait", [False, True])
def test_a_missing_wait_for_another_stream_shows(wait):
    def attempt():
        a, b = new_stream(), new_stream()
        with a:
            x = cp.zeros(64, i32)
            add_one(x)
            event = a.record()
        if wait:
            b.wait_event(event)
        with b:
            y = cp.empty(64, i32)
            COPY((1,), (64,), (x, y, i32(64)))
            return (y.get() != 1).any()

    wrong = over_several_tries(attempt)
    assert wrong == 0 if wait else wrong > 0


def test_blocking_streams_and_the_null_stream_wait_for_each_other():
    def attempt():
        with cp.cuda.Stream():
            x = cp.zeros(64, i32)
            add_one(x)
        add_one(x)
        return (x.get() != 2).any()

    assert over_several_tries(attempt) == 0


def test_memory_that_one_stream_frees_while_another_uses_it_is_reported():
    def attempt():
        a, b = new_stream(), new_stream()
        with a:
            x = cp.zeros(64, i32)
            a.synchronize()
        with b:
            add_one(x)
        del x
        synchronize()

    assert over_several_tries(attempt) > 0


def test_pageable_memory_is_read_when_the_copy_is_queued_and_pinned_memory_when_it_runs():
    seen = []
    for make in (np.empty, empty_pinned):
        host = make(4, f32)
        host[:] = 1
        x = cp.empty(4, f32)
        x.set(host)
        host[:] = 2
        seen.append(float(x.get()[0]))
    assert seen == [1, 2]


def test_the_current_stream_is_the_innermost():
    a, b = new_stream(), new_stream()
    assert cp.cuda.get_current_stream() == cp.cuda.Stream.null
    with a:
        assert cp.cuda.get_current_stream() is a
        with b:
            assert cp.cuda.get_current_stream() is b
        assert cp.cuda.get_current_stream() is a
    assert cp.cuda.get_current_stream().ptr == 0


def test_a_foreign_stream_is_the_same_queue():
    class Theirs:
        def __init__(self, ptr):
            self.ptr = ptr

        def __cuda_stream__(self):
            return (0, self.ptr)

    a = new_stream()
    with cp.cuda.Stream.from_external(Theirs(a.ptr)) as b:
        assert b.ptr == a.ptr
        x = cp.zeros(3, i32)
    assert not a.done
    a.synchronize()
    assert b.done
    assert x.get(stream=b).tolist() == [0, 0, 0]
    assert cp.cuda.Stream.from_external(Theirs(0)).ptr == 0
    with pytest.raises(TypeError, match="__cuda_stream__"):
        cp.cuda.Stream.from_external(object())


def test_work_can_be_made_to_run_at_once():
    x = cp.zeros(4, i32)
    add_one(x)
    assert not cp.cuda.Stream.null.done
    sim.reset(deferred=False)
    x = cp.zeros(4, i32)
    add_one(x)
    assert cp.cuda.Stream.null.done
    assert (x._np == 1).all()


def test_events_are_done_when_the_work_before_them_is():
    a = new_stream()
    with a:
        x = cp.zeros(4, i32)
        event = a.record()
        assert not event.done
        event.synchronize()
        assert event.done
    assert (x._np == 0).all()


# ---- graphs


def captured(stream, work):
    with stream:
        stream.begin_capture()
        work()
        return stream.end_capture()


def test_a_graph_replays_what_was_captured_on_the_memory_of_then():
    s = new_stream()
    x = cp.zeros(64, i32)
    synchronize()
    graph = captured(s, lambda: add_one(x))
    assert x.get(stream=s)[0] == 0
    for _ in range(3):
        graph.launch(s)
    assert x.get(stream=s).tolist() == [3] * 64


@pytest.mark.parametrize("counter_on_the_host", [False, True])
def test_a_host_scalar_is_baked_into_a_graph_and_device_memory_is_not(counter_on_the_host):
    s = new_stream()
    counter, out = cp.zeros(1, u64), cp.empty(64, u64)
    count = 0
    synchronize()

    def work():
        if counter_on_the_host:
            counter.fill(count + 1)
        else:
            ADVANCE((1,), (1,), (counter,))
        DRAW((1,), (64,), (counter, out))

    graph = captured(s, work)
    seen = []
    for _ in range(3):
        count += 1
        graph.launch(s)
        seen.append(out.get(stream=s))
    same = (seen[0] == seen[1]).all() and (seen[1] == seen[2]).all()
    assert same == counter_on_the_host


def test_memory_freed_before_a_graph_runs_is_reported():
    s = new_stream()
    x = cp.zeros(64, i32)
    synchronize()

    def kernel_on_its_own_memory():
        y = cp.empty(64, i32)
        COPY((1,), (64,), (x, y, i32(64)))

    def fill_of_its_own_memory():
        cp.empty(64, i32).fill(0)

    for work in (kernel_on_its_own_memory, fill_of_its_own_memory):
        graph = captured(s, work)
        gc.collect()
        graph.launch(s)
        with pytest.raises(emu.EmuError, match=r"out of bounds|not allocated"):
            s.synchronize()


def test_a_refused_copy_leaves_the_capture_valid():
    s = new_stream()
    x = cp.zeros(4, i32)
    synchronize()
    with s:
        s.begin_capture()
        add_one(x)
        for refused in (x.get, lambda: int(x[0]), lambda: bool(x[0]), lambda: cp.asnumpy(x)):
            with pytest.raises(RuntimeError, match="capturing, so D2H transfers are disallowed"):
                refused()
        for refused in (lambda: x.set(np.zeros(4, i32)), lambda: cp.asarray([1])):
            with pytest.raises(RuntimeError, match="capturing, so H2D transfers are disallowed"):
                refused()
        graph = s.end_capture()
    graph.launch(s)
    assert x.get(stream=s).tolist() == [1] * 4


def test_waiting_for_a_capturing_stream_is_an_error_and_spoils_the_capture():
    for wait in ("synchronize", "device"):
        s = new_stream()
        s.begin_capture()
        with pytest.raises(CUDAError, match="cudaErrorStreamCaptureUnsupported"):
            s.synchronize() if wait == "synchronize" else synchronize()
        with pytest.raises(CUDAError, match="cudaErrorStreamCaptureInvalidated"), s:
            cp.zeros(1)
        with pytest.raises(CUDAError, match="cudaErrorStreamCaptureInvalidated"):
            s.end_capture()
        assert not s.is_capturing()


def test_asking_a_capturing_stream_whether_it_is_done_spoils_the_capture_silently():
    s = new_stream()
    s.begin_capture()
    assert not s.done
    with pytest.raises(CUDAError, match="cudaErrorStreamCaptureInvalidated"):
        s.end_capture()


def test_the_default_stream_cannot_capture():
    with pytest.raises(RuntimeError, match=r"cannot capture on the default \(legacy\) stream"):
        cp.cuda.Stream.null.begin_capture()
    with pytest.raises(CUDAError, match="cudaErrorIllegalState"):
        new_stream().end_capture()


def test_the_null_stream_may_not_be_used_while_a_blocking_stream_captures():
    s = cp.cuda.Stream()
    s.begin_capture()
    with pytest.raises(CUDAError, match="cudaErrorStreamCaptureImplicit"):
        cp.zeros(1).fill(0)
    with pytest.raises(CUDAError, match="cudaErrorStreamCaptureImplicit"):
        cp.cuda.Stream.null.is_capturing()
    with pytest.raises(CUDAError, match="Invalidated"):
        s.end_capture()


def test_another_stream_joins_a_capture_through_events():
    a, b = new_stream(), new_stream()
    x, y = cp.zeros(64, i32), cp.zeros(64, i32)
    total = cp.empty(64, i32)
    synchronize()
    with a:
        a.begin_capture()
        add_one(x)
        b.wait_event(a.record())
        assert b.is_capturing()
        with b:
            COPY((1,), (64,), (x, y, i32(64)))
            add_one(y)
        add_one(x)
        a.wait_event(b.record())
        COPY((1,), (64,), (y, total, i32(64)))
        graph = a.end_capture()
    assert not b.is_capturing()
    for n in range(1, 4):
        graph.launch(a)
        assert x.get(stream=a)[0] == 2 * n
        assert total.get(stream=a)[0] in (2 * n, 2 * n + 1)  # whether b ran before a's second


def test_a_stream_that_joined_must_be_joined_back():
    a, b = new_stream(), new_stream()
    x = cp.zeros(64, i32)
    synchronize()
    with a:
        a.begin_capture()
        b.wait_event(a.record())
        with b:
            add_one(x)
        with pytest.raises(CUDAError, match="cudaErrorStreamCaptureUnjoined"):
            a.end_capture()
        a.begin_capture()
        b.wait_event(a.record())
        with pytest.raises(CUDAError, match="cudaErrorStreamCaptureUnmatched"):
            b.end_capture()


def test_events_do_not_cross_the_border_of_a_capture():
    a, b = new_stream(), new_stream()
    outside = b.record()
    a.begin_capture()
    with pytest.raises(CUDAError, match="cudaErrorStreamCaptureIsolation"):
        a.wait_event(outside)
    with pytest.raises(CUDAError, match="Invalidated"):
        a.end_capture()
    a.begin_capture()
    inside = a.record()
    b.begin_capture()
    with pytest.raises(CUDAError, match="cudaErrorStreamCaptureMerge"):
        b.wait_event(inside)
    a, b = new_stream(), new_stream()
    a.begin_capture()
    inside = a.record()
    a.end_capture()
    for use in (inside.synchronize, lambda: inside.done, lambda: b.wait_event(inside)):
        with pytest.raises(CUDAError, match="cudaErrorCapturedEvent"):
            use()


# ---- memory


def test_blocks_are_reused_last_in_first_out_by_their_own_stream():
    x, y = cp.zeros(100, f32), cp.zeros(100, f32)
    first, second = x.data.ptr, y.data.ptr
    used = cp.get_default_memory_pool().used_bytes()
    del x
    del y
    assert cp.get_default_memory_pool().used_bytes() == used - 1024
    with new_stream():
        assert cp.empty(100, f32).data.ptr not in (first, second)
    assert cp.empty(100, f32).data.ptr == second
    cp.get_default_memory_pool().free_all_blocks()
    assert cp.get_default_memory_pool().total_bytes() == 0


def test_a_write_beside_a_block_is_found_without_the_kernels_hooks():
    emu.config.mode = "fast"
    store = cp.RawKernel(CODE, "store")
    x = cp.zeros(64, i32)
    for place in (x.data.ptr - 4, x.data.ptr + 256, x.data.ptr + 508, x.data.ptr + 512):
        store((1,), (1,), (place, i32(0)))
        with pytest.raises(emu.EmuError, match=r"something was written just .* int32\[64\]"):
            synchronize()
    store((1,), (1,), (x.data.ptr + 512, i32(0)))
    del x
    with pytest.raises(emu.EmuError, match="something was written just after"):
        synchronize()


def test_a_device_has_only_so_much_memory():
    sim.device_bytes = 10_000
    free, total = cp.cuda.Device(0).mem_info
    assert (free, total) == (10_000, 10_000)
    x = cp.zeros(4096, np.uint8)
    assert cp.cuda.Device(0).mem_info == (10_000 - 4096, 10_000)
    with pytest.raises(cp.cuda.memory.OutOfMemoryError, match="Out of memory allocating 6,144"):
        cp.zeros(6000, np.uint8)
    del x
    cp.zeros(6000, np.uint8)  # the pool gives its free blocks back first


def test_a_large_block_is_sparse_and_zero_again_when_it_is_reused():
    n = _memory.SPARSE
    x = cp.empty(n, np.uint8)
    x[5:9].fill(3)
    synchronize()
    where = x.data.ptr
    del x
    x = cp.empty(n, np.uint8)
    assert x.data.ptr == where
    assert x[5:9].get().tolist() == [0, 0, 0, 0]
    x.fill(1)
    x[100 : n - 100].fill(0)
    host = x.get()
    assert host[:100].all() and host[-100:].all() and not host[100:-100].any()


# ---- what a test can ask about


def test_a_record_shows_launches_copies_waits_and_allocations():
    x = cp.zeros(64, i32)
    synchronize()
    with sim.recording() as record:
        add_one(x)
        STORE((1,), (2,), (x, i32(0)))
    assert record.launch_names == ["add_one", "store"]
    assert (record.synchronisations, record.d2h_copies, record.allocations) == (0, 0, 0)
    assert record.ran == []
    with sim.recording() as record:
        y = cp.asarray(x.get())
        cp.cuda.get_current_stream().synchronize()
    assert (record.synchronisations, record.d2h_copies, record.h2d_copies) == (2, 1, 1)
    assert (record.allocations, record.allocated_bytes) == (1, y.nbytes)
    assert record.ran == [("add_one", 128), ("store", 2)]
    assert record.launch_names == []


# ---- the availability checks of a library


def test_a_machine_without_driver_or_card_can_be_played(monkeypatch):
    assert cp.cuda.is_available()
    assert cp.cuda.runtime.driverGetVersion() >= 12000
    assert cp.cuda.runtime.runtimeGetVersion() == 12090
    assert cp.cuda.nvrtc.getVersion() == (12, 9)
    monkeypatch.setattr(cp.cuda, "is_available", lambda: False)
    assert not cp.cuda.is_available()

    def no_driver():
        raise cp.cuda.runtime.CUDARuntimeError(35)

    monkeypatch.setattr(cp.cuda.runtime, "getDeviceCount", no_driver)
    with pytest.raises(RuntimeError, match="cudaErrorInsufficientDriver: CUDA driver version"):
        cp.cuda.runtime.getDeviceCount()


def test_devices_are_current_by_thread_and_checked():
    sim.device_count = 2
    assert cp.cuda.Device().id == cp.cuda.runtime.getDevice() == 0
    with cp.cuda.Device(1) as device:
        assert cp.zeros(1).device == device
        assert cp.cuda.Device().id == 1
        ours = cp.cuda.Stream()
        with ours, cp.cuda.Stream.null:
            y = cp.zeros(1, i32)
    for use in (ours.use, ours.__enter__):
        with pytest.raises(RuntimeError, match="not created on device 0"):
            use()
    for argument in (y, y.data):
        with pytest.raises(TypeError, match="argument 0: memory of device 1, launched on device 0"):
            STORE((1,), (1,), (argument, i32(0)))
    with pytest.raises(TypeError, match="unhashable"):
        hash(device)
    cp.cuda.Device(1).use()
    assert cp.cuda.runtime.getDevice() == 1
    STORE((1,), (1,), (y, i32(0)))
    for use in (cp.cuda.Device(2).use, cp.cuda.Device(2).__enter__):
        with pytest.raises(CUDAError, match="cudaErrorInvalidDevice"):
            use()


def test_the_fake_can_stand_for_cupy_in_every_form_of_import(monkeypatch):
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    import cupy
    import cupy.cuda.runtime
    import cupyx
    from cupy.cuda import nvrtc
    from cupy.cuda.memory import OutOfMemoryError

    assert cupy is cp
    assert cupy.cuda.runtime is cp.cuda.runtime
    assert nvrtc.getVersion()[0] == 12
    assert issubclass(OutOfMemoryError, MemoryError)
    assert cupyx.empty_pinned(3).shape == (3,)
    assert cupy.get_array_module(cp.zeros(1)) is cp
    assert cupy.get_array_module(np.zeros(1)) is np


# ---- against the real CuPy, which can be imported without a card


def public_names(module_or_class):
    return [n for n in vars(module_or_class) if not n.startswith("_")]


def test_every_name_of_the_fake_is_a_name_of_the_real_cupy():
    try:
        import cupy
        import cupyx
    except ImportError:
        if os.environ.get("CPREPLAY_REQUIRE_CUPY") == "1":
            raise
        pytest.skip("CuPy is not installed")
    for module in (cp, cp.cuda, cp.cuda.runtime, cp.cuda.nvrtc, cp.cuda.memory, cp.cuda.compiler):
        real = cupy
        for part in module.__name__.split("fakecupy")[1].split(".")[1:]:
            real = getattr(real, part)
        for name in module.__all__ if hasattr(module, "__all__") else public_names(module):
            assert hasattr(real, name), f"{real.__name__} has no {name}"
    assert cupyx.empty_pinned
    pairs = [
        (cupy.ndarray, cp.ndarray, {"base"}),
        (cupy.RawModule, cp.RawModule, set()),
        (cupy.RawKernel, cp.RawKernel, set()),
        (cupy.cuda.Stream, cp.cuda.Stream, {"ptr"}),
        (cupy.cuda.Event, cp.cuda.Event, set()),
        (cupy.cuda.Graph, cp.cuda.Graph, set()),
        (cupy.cuda.Device, cp.cuda.Device, set()),
        (cupy.cuda.MemoryPool, cp.cuda.MemoryPool, set()),
        (cupy.cuda.MemoryPointer, cp.cuda.MemoryPointer, set()),
    ]
    for real, fake, only_in_instances in pairs:
        for name in public_names(fake):
            assert hasattr(real, name) or name in only_in_instances, f"{real} has no {name}"
