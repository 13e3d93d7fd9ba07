"""Arrays of other libraries, other cards and other streams; and kernels under any launch shape."""

import contextlib
import ctypes
import gc
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cpreplay
from cpreplay import cuda_device, kernel_structs, kernels
from cpreplay.schema import MAX_COLUMNS
from tests.conftest import Backend
from tests.cuda_emulator.fakecupy._simulation import sim
from tests.strategies import COLUMNS, numbered_rows, stored_numbers


def on_device(device: Backend, rows: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: device.array(column) for name, column in rows.items()}


# Arrays of other libraries


class ByDlpack:
    """A device array of another library, which offers DLPack alone."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class ByInterface:
    """One that offers the older protocol, and says which stream it was made on, or not."""

    def __init__(self, array: Any, stream: int | None = None) -> None:
        self._array = array
        self._stream = stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._array.__cuda_array_interface__, "stream": self._stream}


@pytest.mark.parametrize("wrapped", [ByDlpack, ByInterface])
def test_a_foreign_device_array_is_stored_without_a_copy(wrapped: Any, device: Backend) -> None:
    buffer = device.buffer((3,), (2,), 8)
    rows = on_device(device, numbered_rows(0, 5))
    given = {name: wrapped(array) for name, array in rows.items()}
    if device.name != "gpu":
        with sim.recording() as record:
            buffer.add_batch(**given, mask=wrapped(device.array([True] * 4 + [False])))
        assert record.d2h_copies == record.synchronisations == 0
        assert record.h2d_copies == 1  # the test's own mask
    else:
        buffer.add_batch(**given, mask=wrapped(device.array([True] * 4 + [False])))
    assert stored_numbers(buffer, device.numpy) == [0, 1, 2, 3, *[None] * 4]
    one = {name: wrapped(array[4]) for name, array in rows.items()}
    buffer.add(**one)
    assert stored_numbers(buffer, device.numpy) == [0, 1, 2, 3, 4, *[None] * 3]


def test_waiting_for_a_foreign_stream_is_refused_while_capturing(emulated_device: Backend) -> None:
    cupy = emulated_device.cupy
    buffer = emulated_device.buffer((3,), (2,), 8)
    rows = on_device(emulated_device, numbered_rows(0, 5))
    rows["reward"] = ByInterface(rows["reward"], stream=1)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(cpreplay.CaptureError, match="reward: waiting"):
            buffer.add_batch(**rows)
        stream.end_capture()
    buffer.add_batch(**rows)
    assert len(buffer) == 5


def test_an_array_that_cupy_cannot_take_is_refused(device: Backend) -> None:
    class Grown(ByDlpack):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("a tensor that needs a gradient")

    buffer = device.buffer((3,), (2,), 8)
    rows = on_device(device, numbered_rows(0, 5))
    with pytest.raises(cpreplay.DTypeError, match=r"obs: .*needs a gradient"):
        buffer.add_batch(**{**rows, "obs": Grown(rows["obs"])})
    assert len(buffer) == 0


@pytest.mark.parametrize(
    ("given", "stored", "fits"),
    [
        ("float64", "float32", True), ("float32", "float64", True), ("int8", "int64", True),
        ("bool", "float32", True), ("int16", "float32", True), ("uint8", "int16", True),
        ("int32", "float32", False), ("int64", "float64", False), ("int64", "int32", False),
        ("uint8", "int8", False), ("float32", "int64", False), ("float32", "bool", False),
        ("complex64", "float32", False), ("complex64", "int64", False), ("uint8", "uint16", True),
        ("bool", "uint8", True), ("int8", "uint8", False), ("uint8", "bool", False),
    ],
)  # fmt: skip
def test_a_device_array_is_cast_only_where_no_value_can_change(
    given: str, stored: str, fits: bool, device: Backend
) -> None:
    buffer = device.buffer((), (), 8, action_dtype=stored)
    rows = on_device(device, numbered_rows(0, 3, (), ()))
    rows["action"] = device.array(np.array([1, 0, 1]).astype(given))
    if fits:
        buffer.add_batch(**rows)
        assert device.numpy(buffer.column("action")).tolist() == [1, 0, 1, 0, 0, 0, 0, 0]
    else:
        with pytest.raises(cpreplay.DTypeError, match=f"action: {given} (does not|was given)"):
            buffer.add_batch(**rows)
        assert len(buffer) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_transposed_device_array_is_stored_in_the_right_order(
    dtype: str, device: Backend
) -> None:
    # CuPy's casts keep the order of the axes in memory, which is not the order of rows here.
    buffer = device.buffer((3,), (2,), 8)
    obs = np.arange(15, dtype=np.float32).reshape(5, 3)
    rows = {**on_device(device, numbered_rows(0, 5)), "obs": device.array(obs.T, dtype).T}
    buffer.add_batch(**rows)
    assert device.numpy(buffer.column("obs"))[:5].tolist() == obs.tolist()


def shifted(device: Backend, values: np.ndarray, skipped: int) -> Any:
    """A device array that begins so many bytes late."""
    padded = np.concatenate([np.zeros(skipped, np.uint8), values.view(np.uint8).ravel()])
    return device.array(padded)[skipped:].view(values.dtype).reshape(values.shape)


@pytest.mark.parametrize("skipped", [1, 2, 4, 8])
def test_a_device_array_may_begin_at_any_byte(skipped: int, device: Backend) -> None:
    # Quantising reads whole floats, so one at an odd address has to be moved first.
    buffer = device.buffer(4, (), 8, obs_store_dtype="uint8", action_dtype="int64")
    codes = np.arange(20).reshape(5, 4)
    obs = shifted(device, (codes / 255).astype(np.float32), skipped)
    action = shifted(device, codes[:, 0].copy(), skipped)
    zeros = np.zeros(5, np.float32)
    buffer.add_batch(obs, action, zeros, obs, zeros > 0)
    assert device.numpy(buffer.column("obs"))[:5].tolist() == codes.tolist()
    assert device.numpy(buffer.column("action"))[:5].tolist() == codes[:, 0].tolist()


@pytest.mark.parametrize("skipped", [1, 2, 4, 8])
def test_what_is_aligned_to_its_own_items_is_read_in_place(skipped: int, device: Backend) -> None:
    buffer = device.buffer((), (), 8)
    rows = on_device(device, numbered_rows(0, 5, (), ()))
    rows["obs"] = shifted(device, device.numpy(rows["obs"]), skipped)
    device.cupy.cuda.Device().synchronize()
    with device.cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        if skipped % 4 == 0:
            buffer.add_batch(**rows)
        else:
            with pytest.raises(cpreplay.CaptureError, match="obs: copying"):
                buffer.add_batch(**rows)
        stream.end_capture()


# The arrays of a batch


def test_a_batch_is_filled_only_while_its_arrays_are_its_own(backend: Backend) -> None:
    buffer = backend.buffer((3,), (2,), 8, extra_columns={"log_prob": ()})
    buffer.add_batch(**numbered_rows(0, 5), log_prob=np.zeros(5))
    for name in (*COLUMNS, "indices"):
        out = buffer.make_batch(4)
        # As in `batch.reward = clip(batch.reward)`: the memory that it had may be another's by now.
        setattr(out, name, out[name].copy())
        with pytest.raises(cpreplay.ShapeError, match="make_batch"):
            buffer.sample(4, out=out)
    out = buffer.make_batch(4)
    out.extra["log_prob"] = out.extra["log_prob"].copy()
    with pytest.raises(cpreplay.ShapeError, match="make_batch"):
        buffer.sample(4, out=out)
    assert buffer.stats()["draws"] == 0


# Other cards


def test_a_buffer_works_on_its_own_card_alone(emulated_device: Backend) -> None:
    cupy = emulated_device.cupy
    sim.device_count = 2
    rows = numbered_rows(0, 3)
    with cupy.cuda.Device(1):
        elsewhere = on_device(emulated_device, rows)
        other = emulated_device.buffer((3,), (2,), 8)
        out = other.make_batch(2)
    second = cpreplay.StoreReplayGpu((3,), (2,), 8, device=1)
    here = emulated_device.buffer((3,), (2,), 8)
    here.add_batch(**rows)
    with pytest.raises(
        cpreplay.DTypeError, match=r"obs: .* on device 1, and this buffer on device 0"
    ):
        here.add_batch(**elsewhere)
    with pytest.raises(cpreplay.ShapeError, match="make_batch"):
        here.sample(2, out=out)
    calls = [
        lambda: second.add_batch(**rows), lambda: second.stats(), lambda: second.make_batch(2),
        lambda: second.check(), lambda: second.configure_ere(), lambda: second.synchronize(),
        lambda: second.add(**{name: column[0] for name, column in rows.items()}),
    ]  # fmt: skip
    with sim.recording() as record:
        for call in calls:
            with pytest.raises(
                cpreplay.ConfigurationError, match="lies on device 1, and device 0 is"
            ):
                call()
    assert record.h2d_copies == record.allocations == 0  # refused before anything is done
    with cupy.cuda.Device(1):
        for call in calls:
            call()
        assert len(second) == 4
    for number in (2, -1, True, "0"):
        with pytest.raises(cpreplay.ConfigurationError, match="this machine has 2 cards"):
            cpreplay.StoreReplayGpu((3,), (2,), 8, device=number)


# Streams


def test_an_input_may_be_let_go_right_after_the_add(device: Backend) -> None:
    # Its memory is reused only by later work of the same stream.
    buffer = device.buffer((3,), (2,), 200)
    for first in range(0, 200, 10):
        rows = on_device(device, numbered_rows(first, 10))
        buffer.add_batch(**rows)
        del rows
        gc.collect()
        device.array(np.full((10, 3), -1), np.float32)
    assert stored_numbers(buffer, device.numpy) == list(range(200))


def test_a_buffer_may_move_to_another_stream_after_an_event(device: Backend) -> None:
    cupy = device.cupy
    buffer = device.buffer((3,), (2,), 40)
    stream = cupy.cuda.Stream(non_blocking=True)
    for first in range(0, 30, 10):
        buffer.add_batch(**numbered_rows(first, 10))
        stream.wait_event(cupy.cuda.get_current_stream().record())
        with stream:
            batch = buffer.sample(64)
            numbers = device.numpy(batch.reward) - 20
            stream.synchronize()
        assert set(numbers) <= set(range(first + 10))


def test_the_default_stream_beside_a_capturing_one_is_refused_in_words(
    emulated_device: Backend,
) -> None:
    # CUDA lets nobody use the default stream while a blocking one captures.
    cupy = emulated_device.cupy
    buffer = emulated_device.buffer((3,), (2,), 8, prioritized=True)
    buffer.add_batch(**numbered_rows(0, 2))
    rows, out = on_device(emulated_device, numbered_rows(0, 3)), buffer.make_batch(4)
    errors = emulated_device.array([1.0] * 4)
    buffer.synchronize()
    stream = cupy.cuda.Stream()
    with stream:
        stream.begin_capture()
    for call in (
        lambda: buffer.add_batch(**numbered_rows(0, 3)),
        lambda: buffer.add_batch(**rows),
        lambda: buffer.sample(4, out=out),
        lambda: buffer.sample_range(4, 0, 2, out=out),
        lambda: buffer.update_priorities(out, errors),
    ):
        with pytest.raises(cpreplay.CaptureError, match="non_blocking=True"):
            call()
    with stream, contextlib.suppress(cupy.cuda.runtime.CUDARuntimeError):
        stream.end_capture()  # the emulated device takes the capture for spoilt
    buffer.add_batch(**numbered_rows(2, 3))
    assert len(buffer) == 5
    assert buffer.stats()["draws"] == 0


def test_an_error_of_earlier_work_is_not_taken_for_a_capture(
    emulated_device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fault in any kernel, also of the caller's own, comes out of the next call to CUDA.
    buffer = emulated_device.buffer((3,), (2,), 8)
    cuda_error = emulated_device.cupy.cuda.runtime.CUDARuntimeError
    stream = type(emulated_device.cupy.cuda.get_current_stream())

    def fail(_: Any) -> bool:
        raise cuda_error(700)  # cudaErrorIllegalAddress

    monkeypatch.setattr(stream, "is_capturing", fail)
    with pytest.raises(cuda_error, match="700") as raised:
        buffer.add_batch(**numbered_rows(0, 3))
    assert not isinstance(raised.value, cpreplay.CaptureError)
    monkeypatch.undo()
    assert len(buffer) == 0


def test_a_buffer_is_not_made_while_capturing(device: Backend) -> None:
    with device.cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(cpreplay.CaptureError, match="making a buffer"):
            device.buffer((3,), (2,), 8)
        stream.end_capture()


# Kernels


@pytest.mark.parametrize("threads", [1, 7, 256])
@pytest.mark.parametrize("blocks", [(1,), (3,), (2, 3)])
def test_any_launch_shape_gives_the_same_answer(
    blocks: tuple[int, ...], threads: int, device: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> list[bytes]:
        buffer = device.buffer((70,), (2,), 45, False, "uint8", seed=8)
        codes = np.random.default_rng(0).random((50, 70)).astype(np.float32)
        rows = {**numbered_rows(0, 50, (70,)), "obs": codes, "next_obs": 1.5 * codes}
        mask = np.arange(50) % 7 != 0
        buffer.add_batch(**rows, mask=device.array(mask))
        buffer.add_batch(**rows)
        batch, part = buffer.sample(33), buffer.sample_range(9, 3, 20)
        arrays = [b[name] for b in (batch, part) for name in (*COLUMNS, "indices")]
        numbers = [str(sorted(buffer.stats().items())).encode()]
        return [device.numpy(array).tobytes() for array in arrays] + numbers

    usual = run()
    launch = cuda_device.Kernels.launch

    def launch_otherwise(own: Any, name: str, grid: Any, *args: Any, **options: Any) -> None:
        one_block = name == "move_cursor"
        grid = (1,) if one_block else blocks if name == "store_rows" else blocks[:1]
        launch(own, name, grid, *args, threads=threads)

    monkeypatch.setattr(cuda_device.Kernels, "launch", launch_otherwise)
    assert run() == usual


def test_the_structs_of_the_kernels_are_those_that_python_fills(tmp_path: Path) -> None:
    texts = "".join(kernels.source(name) for name in ("rows.cu", "sumtree.cu"))
    wanted = r"^#define (?:MAX_|FAN_OUT )[^\n]*|^struct \w+ \{.*?^\};"
    structs = "\n".join(dict.fromkeys(re.findall(wanted, texts, re.M | re.S)))
    types = {"u8": "unsigned char", "i32": "int", "u32": "unsigned", "i64": "long long"}
    typedefs = "".join(f"typedef {cpp} {name};\n" for name, cpp in types.items())
    fields = {
        "column_t": kernel_structs.COLUMN,
        "columns_t": kernel_structs.COLUMNS,
        "batch_t": kernel_structs.BATCH,
        "weights_t": kernel_structs.WEIGHTS,
        "draw_t": kernel_structs.DRAW,
        "update_t": kernel_structs.UPDATE,
        "tree_t": kernel_structs.TREE,
    }
    offsets = [
        f"offsetof({struct}, {field})" for struct, dtype in fields.items() for field in dtype.names
    ]
    numbers = [*offsets, *(f"sizeof({struct})" for struct in fields), "MAX_COLUMNS", "MAX_TILE"]
    numbers += ["MAX_SUMS", "MAX_FEW"]
    program = tmp_path / "offsets.cpp"
    program.write_text(
        f"#include <cstddef>\n{typedefs}typedef unsigned long long u64;\n{structs}\n"
        f'extern "C" long long numbers[] = {{{", ".join(f"(long long){n}" for n in numbers)}}};\n'
    )
    library = tmp_path / "offsets.so"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, program], check=True)
    found = list((ctypes.c_longlong * len(numbers)).in_dll(ctypes.CDLL(library), "numbers"))
    expected = [dtype.fields[field][1] for dtype in fields.values() for field in dtype.names]
    expected += [dtype.itemsize for dtype in fields.values()]
    limits = [kernel_structs.MAX_TILE, kernel_structs.MAX_SUMS, kernel_structs.MAX_FEW]
    assert found == [*expected, MAX_COLUMNS, *limits]
    assert sum(dtype.itemsize for dtype in fields.values()) < 4096  # what a launch can carry
    assert re.search(r"columns_t columns, batch_t batch", texts)


def test_uploaded_columns_are_aligned_whatever_lies_before_them(device: Backend) -> None:
    # Three bytes of action come before the floats of next_obs, which are quantised one by one.
    buffer = device.buffer(4, 3, 8, action_dtype="uint8", obs_store_dtype="uint8")
    obs = np.linspace(0, 1, 4, dtype=np.float32)
    for number in range(3):
        buffer.add(obs, [number] * 3, 0, obs[::-1], False)
    assert device.numpy(buffer.column("next_obs"))[:3].tolist() == [[255, 170, 85, 0]] * 3


def test_a_strided_array_that_begins_between_items_is_refused(device: Backend) -> None:
    buffer = device.buffer((3,), (2,), 8)
    rows = on_device(device, numbered_rows(0, 5))
    wide = np.zeros((5, 6), np.float32)
    with pytest.raises(cpreplay.DTypeError, match=r"obs: .*between two of its items"):
        buffer.add_batch(**{**rows, "obs": shifted(device, wide, 2)[:, ::2]})
    assert len(buffer) == 0


def test_an_array_that_begins_between_items_may_need_a_cast(device: Backend) -> None:
    buffer = device.buffer((3,), (2,), 8)
    rows = on_device(device, numbered_rows(0, 5))
    rows["obs"] = shifted(device, numbered_rows(0, 5)["obs"].astype(np.float64), 3)
    buffer.add_batch(**rows)
    assert stored_numbers(buffer, device.numpy) == [0, 1, 2, 3, 4, None, None, None]
