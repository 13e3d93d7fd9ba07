"""Files that are replaced as a whole: whenever a program is stopped, the old one or the new one."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cpreplay.errors import ConfigurationError


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` when it is whole and on disk.

    It lies in the same folder until then, and goes where an exception ends the block. It has the
    old file's permissions, or those of any new file; a link is followed.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise ConfigurationError(f"{target} is there and is no regular file; give another path")
    temporary = target.parent / f".{secrets.token_hex(8)}.part"
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o7777)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


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
