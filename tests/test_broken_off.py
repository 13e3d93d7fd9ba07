"""A call that is broken off, as by a KeyboardInterrupt, leaves a buffer that goes on rightly."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from cpreplay import cuda_device, host_tree
from cpreplay.host_tree import HostSumTree
from tests.conftest import Backend, require_native
from tests.strategies import numbered_rows, stored_numbers


class BrokenOff(BaseException):
    """Like KeyboardInterrupt, which pytest would take for its own."""


def prioritized(backend: Backend, rows: int) -> Any:
    buffer = backend.buffer((3,), (2,), rows, prioritized=True, seed=0)
    buffer.configure_per(alpha=1.0, epsilon=0.0)
    buffer.add_batch(**numbered_rows(0, rows))
    return buffer


def leaves_of(backend: Backend, buffer: Any) -> list[float]:
    return backend.numpy(buffer._ops.priorities.levels()[0])[: buffer.capacity].tolist()


def broken_off_at_line(call: Callable[[], Any], function: str, line: int) -> bool:
    """Whether ``call`` came to the n-th traced line of a function, where it was broken off."""
    seen = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename != host_tree.__file__ or frame.f_code.co_name != function:
            return None if event == "call" and frame.f_code.co_name != function else trace
        if event == "line":
            seen += 1
            if seen == line:
                raise BrokenOff
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except BrokenOff:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_host_update_that_is_broken_off_anywhere_leaves_a_tree_that_holds() -> None:
    backend = Backend("host")
    errors = np.full(300, 0.25)
    errors[5] = 0.0
    line = 0
    while True:
        line += 1
        buffer = prioritized(backend, 300)
        buffer.update_priorities([5], [1e6])  # a mass that wrong sums would go on counting
        broken = broken_off_at_line(
            lambda buffer=buffer: buffer.update_priorities(np.arange(300), errors), "update", line
        )
        if not broken:
            break
        buffer.check()
        assert (backend.numpy(buffer.sample(64).indices) == 5).all() == (
            leaves_of(backend, buffer)[5] == 1e6
        )
        buffer.update_priorities(np.arange(300), errors)
        buffer.check()
        assert leaves_of(backend, buffer)[:5] == [0.25] * 5
    assert line > 8  # it was broken off at every line of three levels


@pytest.mark.parametrize("launch", range(5))
@pytest.mark.parametrize("after", ["update", "sample", "add"])
def test_a_device_update_that_is_broken_off_between_launches_spoils_no_later_one(
    device: Backend, launch: int, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = 1100  # more than one block updates: five launches over three levels of sums
    buffer = prioritized(device, lanes)
    plain = cuda_device.Kernels.launch
    launched = []

    def broken(own: Any, name: str, *args: Any, **options: Any) -> None:
        if len(launched) == launch:
            raise BrokenOff
        launched.append(name)
        plain(own, name, *args, **options)

    rows = np.arange(lanes)[::-1].copy()  # so that early rows were claimed by late lanes
    monkeypatch.setattr(cuda_device.Kernels, "launch", broken)
    with pytest.raises(BrokenOff):
        buffer.update_priorities(rows, np.full(lanes, 7.0))
    monkeypatch.setattr(cuda_device.Kernels, "launch", plain)
    if after == "sample":
        buffer.sample(8)
    elif after == "add":
        buffer.add_batch(**numbered_rows(lanes, 2))
    buffer.update_priorities(np.arange(1000), np.full(1000, 3.0))
    buffer.check()
    assert leaves_of(device, buffer)[:1000] == [3.0] * 1000


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("launch", [1, 2])
def test_a_device_add_that_is_broken_off_is_counted_by_the_device(
    device: Backend, launch: int, prioritized: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = cuda_device.Kernels.launch
    launched = []

    def broken(own: Any, name: str, *args: Any, **options: Any) -> None:
        plain(own, name, *args, **options)
        launched.append(name)
        if len(launched) == launch:
            raise BrokenOff

    monkeypatch.setattr(cuda_device.Kernels, "launch", broken)
    buffer = device.buffer((3,), (2,), 9, prioritized=prioritized, seed=0)
    with pytest.raises(BrokenOff):
        buffer.add_batch(**numbered_rows(0, 5))
    assert len(buffer) == (5 if launch == 2 else 0)
    buffer.add_batch(**numbered_rows(5, 3))
    held = [0, 1, 2, 3, 4, 5, 6, 7] if launch == 2 else [5, 6, 7]
    assert stored_numbers(buffer, device.numpy)[: len(held)] == held
    if launch == 2:
        buffer.check()
        buffer.sample_range(4, 0, 8)


def test_a_change_that_ended_is_not_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = HostSumTree(300)
    mended: list[Any] = []
    monkeypatch.setattr(tree, "set", mended.append)
    tree.mend()
    tree.fill(0, 40, np.float32(2))
    tree.mend()
    tree.update(np.arange(3), np.ones(3, np.float32))
    tree.mend()
    assert not mended


def test_a_single_add_after_one_with_a_device_mask_leaves_the_count_to_the_device(
    device: Backend,
) -> None:
    buffer = device.buffer((), (), 10, seed=0)
    mask = device.array([True, False, True, True])
    buffer.add_batch(**numbered_rows(0, 4, (), ()), mask=mask)
    buffer.add(9.0, 9.0, 9.0, 9.0, False)
    assert len(buffer) == 4
    buffer.check()


@pytest.mark.parametrize("name", ["host", "native"])
def test_a_draw_after_an_update_that_was_broken_off_is_by_the_leaves(name: str) -> None:
    if name == "native":
        require_native()
    backend = Backend(name)
    errors = [0.25] * 300  # a list, which compiled code leaves to NumPy's
    errors[5] = 0.0
    line = 0
    while True:
        line += 1
        buffer = prioritized(backend, 300)
        buffer.update_priorities([5], [1e6])
        broken = broken_off_at_line(
            lambda buffer=buffer: buffer.update_priorities(list(range(300)), errors), "update", line
        )
        if not broken:
            break
        drawn = set(buffer.sample(64).indices.tolist())
        # Sums that count the mass of before lead all lanes to the sixteen leaves around it.
        assert (len(drawn) > 16) == (leaves_of(backend, buffer)[5] != 1e6)
    assert line > 8
