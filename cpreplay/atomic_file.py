"""Files that are replaced as a whole: whenever a program is stopped, the old one or the new one."""

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cpreplay.errors import ConfigurationError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` when it is whole and on disk.

    It lies in the same folder until then, and goes where an exception ends the block. It has the
    old file's permissions, or those of any new file; a link is followed.

    Parameters
    ----------
    path : path-like

    Yields
    ------
    binary file
        Empty, open for writing.

    Raises
    ------
    ConfigurationError
        ``path`` is there and no regular file, or a link that leads to itself.
    FileNotFoundError, NotADirectoryError
        The folder that is to hold it is not there, or is none.
    OSError
        As from ``open``, ``write`` and ``os.replace``.

    Notes
    -----
    A writer that was killed leaves its new file behind, and the next one of the same path removes
    it. Live ones are told apart by the lock (``flock``) that each holds on its own file, so they
    may be in other threads, processes or containers, and the last to end wins. Files are left
    where there is no such lock: on Windows and on some network file systems.
    """
    target = _resolved(path)
    if target.exists() and not target.is_file():
        raise ConfigurationError(f"{target} is there and is no regular file; give another path")
    _require_folder(target.parent)
    prefix = f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]}-"
    _remove_abandoned(target.parent, prefix)
    temporary, file = _new_file(target.parent, prefix)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # an open file keeps its name there
            if target.exists():
                os.chmod(temporary, target.stat().st_mode & 0o7777)
            # It is still locked, so nobody takes it for abandoned.
            os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _resolved(path: str | os.PathLike[str]) -> Path:
    """Where a path leads by its links."""
    try:
        target = Path(path).resolve()
    except RuntimeError:  # a loop, up to Python 3.12; later ones return it
        target = Path(path)
    if target.is_symlink():
        raise ConfigurationError(f"{path} is a link that leads to itself; give another path")
    return target


def _require_folder(folder: Path) -> None:
    """Name what is missing, or the system would name a hidden file that nobody asked for."""
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "the folder to save into is not there", str(folder))
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "the place to save into is no folder", str(folder))


def _new_file(folder: Path, prefix: str) -> tuple[Path, BinaryIO]:
    """A file of a new name, locked for as long as it is open."""
    while True:
        temporary = folder / f"{prefix}{secrets.token_hex(8)}.part"
        file = open(temporary, "xb")  # noqa: SIM115 (the caller closes it)
        # Between the two calls another writer may have taken it for abandoned.
        if _lock(file.fileno()) is not False and temporary.exists():
            return temporary, file
        file.close()


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove the files of that prefix whose writers are gone."""
    if fcntl is None:
        return
    for path in folder.glob(f"{prefix}*.part"):
        with suppress(OSError):  # it is gone by now, or another user's
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _lock(descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Lock a file until it is closed: whether that went, None where files have no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sync_folder(folder: Path) -> None:
    """Make a rename last, where a folder can be opened."""
    if os.name != "posix":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
