"""Device memory: guarded, poisoned, reused last-in-first-out, and sparse where it is large."""

import ctypes
import mmap
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import emu
from ._errors import OutOfMemoryError
from ._simulation import Queue, sim

PAGE = mmap.PAGESIZE
GUARD = PAGE  # bytes before and after each block, which nobody may change
GUARD_BYTE = 0xFD
POISON = 0xFF  # NaN in float arrays, -1 in signed ones
ROUND = 512  # CuPy's pool rounds sizes up to this
SPARSE = 64 << 20  # blocks from this size on are not poisoned, so that only used pages exist
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)


def round_up(n: int, step: Any) -> int:
    return -(-n // step) * step


class _Pages:
    """Anonymous memory that the kernel backs page by page, between two guards."""

    def __init__(self, nbytes: int) -> None:
        self.map = mmap.mmap(-1, round_up(nbytes, PAGE) + 2 * GUARD, flags=_FLAGS)
        self.bytes = np.frombuffer(self.map, np.uint8)
        self.base = self.bytes.ctypes.data + GUARD
        self.nbytes = nbytes
        # the last guard starts right after the bytes, which need not fill their last page
        self.guards = (self.bytes[:GUARD], self.bytes[GUARD + nbytes :][:GUARD])
        for guard in self.guards:
            guard.fill(GUARD_BYTE)

    def guard_rest(self, used: int) -> None:
        """Guard the bytes from `used` on too, which are there because sizes are rounded up."""
        self.guards = (self.guards[0], self.bytes[GUARD + used : 2 * GUARD + self.nbytes])
        self.guards[1].fill(GUARD_BYTE)

    def check_guards(self, name: str) -> None:
        for guard, side in zip(self.guards, ("before", "after"), strict=True):
            if (guard != GUARD_BYTE).any():
                guard.fill(GUARD_BYTE)
                raise emu.EmuError(f"out of bounds: something was written just {side} {name}")


class Block:
    """One allocation.  `register` and `release` take effect in the order of its stream's work."""

    def __init__(self, nbytes: int, stream: Any, name: str) -> None:
        self.queue = stream._queue
        self.nbytes = nbytes
        self.name = name
        self.device_id = sim.device_stack[-1]
        size = max(ROUND, round_up(nbytes, ROUND))
        free = sim.pool[self.queue.ptr, size]
        if free:
            self.pages = free.pop()
            sim.pool_bytes -= size
        else:
            if sim.live_bytes + sim.pool_bytes + size > sim.device_bytes:
                sim.pool.clear()  # as CuPy does before it gives up
                sim.pool_bytes = 0
                if sim.live_bytes + size > sim.device_bytes:
                    raise OutOfMemoryError(size, sim.live_bytes)
            self.pages = _Pages(size)
        self.ptr = self.pages.base
        sim.live_bytes += size
        sim.blocks[self.ptr] = weakref.ref(self)
        sim.note("allocations")
        sim.note("allocated_bytes", nbytes)
        pages, label = self.pages, name.encode()

        def register() -> None:
            if size < SPARSE:
                ctypes.memset(pages.base, POISON, size)
            else:
                emu.core().emu_zero(pages.base, size)
            pages.guard_rest(nbytes)
            emu.core().emu_register(pages.base, max(nbytes, 1), label)

        self.queue.put_outside_capture(register, "malloc")
        weakref.finalize(self, _release, pages, size, self.queue, name, sim.epoch).atexit = False

    @property
    def size(self) -> int:
        return self.nbytes

    def check_guards(self) -> None:
        self.pages.check_guards(self.name)


def _release(pages: _Pages, size: int, queue: Queue, name: str, epoch: int) -> None:
    """Give a block back to its stream's arena; later work of other streams must not use it."""
    if epoch != sim.epoch:
        return

    def unregister() -> None:
        emu.core().emu_unregister(pages.base)
        pages.check_guards(name)

    sim.live_bytes -= size
    sim.pool_bytes += size
    sim.blocks.pop(pages.base, None)
    queue.put_outside_capture(unregister, "free")
    sim.pool[queue.ptr, size].append(pages)


def check_all_guards() -> None:
    for reference in list(sim.blocks.values()):
        block = reference()
        if block is not None:
            block.check_guards()


def find_block(ptr: int, nbytes: int) -> Block:
    """The live block that holds these bytes, or ValueError."""
    for reference in list(sim.blocks.values()):
        block = reference()
        if block is not None and block.ptr <= ptr and ptr + nbytes <= block.ptr + block.nbytes:
            return block
    raise ValueError(f"fake: {nbytes} bytes at {ptr:#x} are not in the fake device's memory")


def describe_address(address: int) -> str:
    """What an address is that lies in no array which is allocated now, for a message."""
    for reference in list(sim.blocks.values()):
        block = reference()
        if block is not None and block.ptr <= address < block.ptr + block.pages.nbytes:
            return (
                f"The address is byte {address - block.ptr} of {block.name}, which is not yet "
                "allocated here: nobody waited for the stream that allocates it."
            )
    for free in sim.pool.values():
        for pages in free:
            if pages.base <= address < pages.base + pages.nbytes:
                return "The address is in memory that was freed."
    return "The address is in no memory of the fake device."


class UnownedMemory:
    """Somebody else's memory; it must lie inside the fake device's."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        self.ptr = ptr
        self.size = size
        self.device_id = max(device_id, 0)
        self.owner = owner
        self.block = find_block(ptr, size)


class MemoryPointer:
    """A place in a block of device memory."""

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem = mem
        self.ptr = mem.ptr + offset if mem is not None else 0

    @property
    def device_id(self) -> int:
        return self.mem.device_id

    def __add__(self, offset: int) -> "MemoryPointer":
        pointer = MemoryPointer(self.mem, 0)
        pointer.ptr = self.ptr + offset
        return pointer


class MemoryPool:
    """The counters of the default memory pool."""

    def used_bytes(self) -> int:
        return sim.live_bytes

    def free_bytes(self) -> int:
        return sim.pool_bytes

    def total_bytes(self) -> int:
        return sim.live_bytes + sim.pool_bytes

    def n_free_blocks(self) -> int:
        return sum(len(free) for free in sim.pool.values())

    def free_all_blocks(self, stream: Any = None) -> None:
        if stream is not None:
            raise NotImplementedError("fake: all streams' blocks only")
        sim.pool.clear()
        sim.pool_bytes = 0


def get_default_memory_pool() -> MemoryPool:
    return MemoryPool()


class _PinnedArray(np.ndarray):
    """Host memory that a queued copy reads when it runs, not when it is queued."""


def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray:
    return np.empty(shape, dtype, order).view(_PinnedArray)


def is_pinned(array: Any) -> bool:
    while array is not None:
        if isinstance(array, _PinnedArray):
            return True
        array = getattr(array, "base", None)
    return False


def host_view(
    ptr: int, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None
) -> np.ndarray:
    """A NumPy array over device memory.  The caller keeps the memory alive."""
    dtype = np.dtype(dtype)
    if 0 in shape:
        return np.empty(shape, dtype)
    if strides is None:
        span = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    else:
        span = sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True)) + dtype.itemsize
    if any(s < 0 for s in strides or ()):
        raise NotImplementedError("fake: negative strides over a raw pointer")
    memory = (ctypes.c_char * span).from_address(ptr)
    return np.ndarray(shape, dtype, memory, strides=strides)


def raw_memory(owner: Any) -> Any:
    """What keeps the bytes mapped, though not allocated, for an array with this owner."""
    block = getattr(owner, "block", owner)
    return getattr(block, "pages", None)


def check_live(array: Any, what: str) -> None:
    """Raise EmuError unless the bytes are allocated at this point of the stream's work."""
    if array.size:
        first, end = np.lib.array_utils.byte_bounds(array)
        if not emu.core().emu_is_live(first, end - first):
            raise emu.EmuError(
                f"{what}: {array.dtype}{list(array.shape)} is not allocated at this point of the "
                "stream's work: it was freed, or nobody waited for the stream that allocates it"
            )


def mark_written(array: Any) -> None:
    """Tell the emulator that the host, or a copy, wrote these bytes of device memory."""
    if array.size:
        n = array.ndim
        emu.core().emu_written(
            array.ctypes.data,
            array.itemsize,
            n,
            (ctypes.c_ssize_t * max(n, 1))(*array.shape),
            (ctypes.c_ssize_t * max(n, 1))(*array.strides),
        )
