"""How much memory this machine, or the control group we run in, has."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from cpreplay.errors import MemoryLimitError

_CGROUPS = Path("/sys/fs/cgroup")


def host_memory(cgroup_limits: Iterable[Path] | None = None) -> int | None:
    """Bytes of memory that a process here can hope for, or None where the system does not say.

    The smaller of the machine's physical memory and the limits of the control groups that we are
    in, or those in the files given. Costs a few small file reads.
    """
    files = _own_cgroup_limits() if cgroup_limits is None else cgroup_limits
    limits = [_physical_memory(), *map(_cgroup_limit, files)]
    return min((limit for limit in limits if limit is not None), default=None)


def _own_cgroup_limits(membership: Path = Path("/proc/self/cgroup")) -> list[Path]:
    """The files that may limit us: of our own control group, and of those around it."""
    files = [_CGROUPS / "memory.max", _CGROUPS / "memory" / "memory.limit_in_bytes"]
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # no Linux
        return files
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":  # version 2
            root, name = _CGROUPS, "memory.max"
        elif "memory" in controllers.split(","):  # version 1
            root, name = _CGROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        inner = Path(group.lstrip("/"))
        files += [root / folder / name for folder in (inner, *inner.parents)]
    return files


def _physical_memory() -> int | None:
    if sys.platform == "win32":  # pragma: no cover - needs Windows
        import ctypes

        class MemoryStatus(ctypes.Structure):
            _fields_ = [
                ("length", ctypes.c_ulong),
                ("load", ctypes.c_ulong),
                ("total_physical", ctypes.c_ulonglong),
                ("rest", ctypes.c_ulonglong * 6),
            ]

        status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
        ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
        return int(status.total_physical)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):  # a system that does not say
        return None
    return memory if memory > 0 else None


def _cgroup_limit(path: Path) -> int | None:
    """The limit that a control group's file states; "max" and a missing file mean none."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def refuse_too_large(
    row_nbytes: int, capacity: int, tree_nbytes: int, memory: int | None, where: str
) -> None:
    """Raise `MemoryLimitError` for what can never fit, before anything is allocated."""
    needed = row_nbytes * capacity + tree_nbytes
    if memory is not None and needed > memory:
        tree = f" and a sum tree of {format_bytes(tree_nbytes)}" if tree_nbytes else ""
        raise MemoryLimitError(
            f"capacity={capacity:,} needs {format_bytes(needed)} for rows of {row_nbytes:,} bytes"
            f"{tree}, and {where} has {format_bytes(memory)}; lower the capacity, store smaller "
            "dtypes, or override with check_memory=False"
        )


def format_bytes(count: int) -> str:
    """A byte count for a message, exact and readable: ``"16,384 bytes (16.0 KiB)"``."""
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    readable = "" if unit == "bytes" else f" ({size:.1f} {unit})"
    return f"{count:,} bytes{readable}"
