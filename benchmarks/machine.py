"""What a timing depends on besides the code."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

NOT_INSTALLED = "not installed"


def describe_machine() -> dict[str, Any]:
    """Processor, cores, caches, memory and load, as far as the system tells."""
    return {
        "cpu": _cpu_model(),
        "cores": _cores(),
        "caches": _caches(),
        "memory_bytes": _memory(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def package_version(package: str) -> str:
    """The installed version, or ``NOT_INSTALLED``."""
    try:
        return version(package)
    except PackageNotFoundError:
        return NOT_INSTALLED


def resident(field: str = "VmRSS") -> int:
    """Resident bytes of this process, now or by another field; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    return 0


def _cores() -> int | None:
    """Those that this process may use, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _caches() -> list[str]:
    """The first core's caches, such as ``L2 Unified 1024K``."""
    folders = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    return [
        "L{} {} {}".format(*((folder / name).read_text().strip() for name in _CACHE_FILES))
        for folder in folders
        if all((folder / name).exists() for name in _CACHE_FILES)
    ]


_CACHE_FILES = ("level", "type", "size")


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):
        return None  # not a POSIX system
