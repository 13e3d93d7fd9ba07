"""The ``.demo`` file: a header, the rows, the table of episodes.

All little-endian: magic ``MRLDEMO1``; u32 version (1), u32 obs_dim, u32 act_dim, u64 rows, u32
episodes; then the rows and the episodes as `record.row_dtype` and `record.EPISODE` have them. The
length of a file follows from its header, and is checked before anything is allocated.
"""

import os
import struct
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cpreplay.atomic_file import replaced_file
from cpreplay.demos.record import EPISODE, INTERVENED, MAX_DIM, SUCCEEDED, DemoSet, row_dtype
from cpreplay.errors import ConfigurationError, DemoFileError, MemoryLimitError
from cpreplay.memory import format_bytes, host_memory

MAGIC = b"MRLDEMO1"
VERSION = 1
HEADER = struct.Struct("<8sIIIQI")


def write_demo_file(path: str | os.PathLike[str], demos: DemoSet) -> None:
    """Write the whole episodes of a set; an open one is left out.

    The file at ``path`` is replaced at once when the new one is whole and on disk: whenever the
    program is stopped, it is the old one or the new one. A link is followed.

    Parameters
    ----------
    path : path-like
    demos : DemoSet

    Raises
    ------
    ConfigurationError
        ``demos`` is no `DemoSet`, or ``path`` is there and no regular file.
    OSError
        As from ``open``.
    """
    if not isinstance(demos, DemoSet):
        raise ConfigurationError(f"demos is a {type(demos).__name__}, and a DemoSet is wanted")
    rows, episodes = demos.rows, demos.episodes
    header = HEADER.pack(MAGIC, VERSION, demos.obs_dim, demos.act_dim, len(rows), len(episodes))
    with replaced_file(path) as file:
        file.write(header + rows.tobytes() + episodes.tobytes())


def read_demo_file(path: str | os.PathLike[str]) -> DemoSet:
    """Read a ``.demo`` file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    DemoSet

    Raises
    ------
    DemoFileError
        It is no such file, of another version, not as long as its header says, or holds values or
        episodes that mean nothing; the message says what and where. A wrong length costs no memory.
    MemoryLimitError
        It is as long as it says, and longer than this machine's memory.
    FileNotFoundError, PermissionError
        As from ``open``.
    """
    with open(path, "rb") as file:
        obs_dim, act_dim, count, episode_count = _read_header(path, file)
        dtype = row_dtype(obs_dim, act_dim)
        rows = np.fromfile(file, dtype, count)
        episodes = np.fromfile(file, EPISODE, episode_count)
    if len(rows) != count or len(episodes) != episode_count:
        raise DemoFileError(f"{path}: it became shorter while it was read; read it again")
    _check_rows(path, rows)
    _check_episodes(path, episodes, count)
    return DemoSet._of_arrays(obs_dim, act_dim, rows, episodes)


def _read_header(path: Any, file: BinaryIO) -> tuple[int, int, int, int]:
    head = file.read(HEADER.size)
    if not head.startswith(MAGIC):
        raise DemoFileError(f"{path}: this is no .demo file, which begins with {MAGIC!r}")
    if len(head) < HEADER.size:
        raise DemoFileError(f"{path}: it ends inside its header, after {len(head)} bytes")
    _, version, obs_dim, act_dim, rows, episodes = HEADER.unpack(head)
    if version != VERSION:
        raise DemoFileError(
            f"{path}: this file has version {version}, and version {VERSION} is read here"
        )
    if not (1 <= obs_dim <= MAX_DIM and 1 <= act_dim <= MAX_DIM):
        raise DemoFileError(
            f"{path}: obs_dim is {obs_dim} and act_dim {act_dim}, and both have to be from 1 to "
            f"{MAX_DIM}"
        )
    row = row_dtype(obs_dim, act_dim).itemsize
    expected = HEADER.size + rows * row + episodes * EPISODE.itemsize
    length = os.fstat(file.fileno()).st_size
    if length != expected:
        raise DemoFileError(
            f"{path}: its header says {rows:,} rows of {row} bytes and {episodes:,} episodes, "
            f"{expected:,} bytes in all, and it has {length:,}; it was cut or extended"
        )
    memory = host_memory()
    if memory is not None and length > memory:
        raise MemoryLimitError(
            f"{path}: it has {format_bytes(length)}, and this machine or control group has "
            f"{format_bytes(memory)} of memory; split it"
        )
    return obs_dim, act_dim, rows, episodes


def _check_rows(path: Any, rows: NDArray[Any]) -> None:
    for name in ("obs", "action", "reward", "next_obs"):
        finite = np.isfinite(rows[name])
        axes = tuple(range(1, finite.ndim))
        _refuse_first(path, name, ~finite.all(axis=axes), "is not finite")
    _refuse_first(path, "done", ~np.isin(rows["done"], (0.0, 1.0)), "is neither 0 nor 1")
    unknown = rows["flags"] & ~np.uint32(INTERVENED | SUCCEEDED)
    _refuse_first(path, "flags", unknown != 0, "has bits without a meaning")


def _refuse_first(path: Any, name: str, bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        raise DemoFileError(
            f"{path}: {name} of row {int(bad.argmax())} {what}; mend what wrote it, or leave its "
            "episode out"
        )


def _check_episodes(path: Any, episodes: NDArray[Any], rows: int) -> None:
    """Episodes have rows, and follow each other from the first row to the last."""
    end = 0
    for number, (start, length, success) in enumerate(episodes.tolist()):
        if start != end or not 1 <= length <= rows - start or success > 1:
            raise DemoFileError(
                f"{path}: episode {number} is rows [{start}, {start + length}) with success "
                f"{success}; it has to begin at row {end}, hold at least one of the {rows} rows "
                "and end among them, with success 0 or 1"
            )
        end = start + length
    if end != rows:
        raise DemoFileError(f"{path}: rows [{end}, {rows}) belong to no episode")
