"""The rows of a buffer at one moment, as a save reads them."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from cpreplay.schema import Layout

#: Rows that follow each other: the first one's number, and the columns as they are stored. The
#: arrays are overwritten by the next chunk.
Chunk = tuple[int, dict[str, NDArray[Any]]]

# Large enough that compression gains from neighbours, small enough that a copy of it is no pause.
_CHUNK_BYTES = 4 * 1024 * 1024


def chunk_rows(layout: Layout, size: int) -> int:
    """Rows of a chunk; at least one."""
    return max(1, min(size, _CHUNK_BYTES // layout.row_nbytes))


class Snapshot(Protocol):
    """Rows [0, size) as they were when it was made.

    It is made, and asked to set rows aside, under the buffer's lock; the rest is done without.
    """

    def chunks(self) -> Iterator[Chunk]:
        """Every row once, in chunks of any order. For one thread, which may be another.

        Asking for it may reserve memory, so it is to be asked for before other work is done.
        """

    def set_aside(self, pieces: Sequence[tuple[int, int]]) -> bool:
        """Keep what rows (first, count) of each piece are, since they are to be overwritten.

        False where there is no room for it now: wait for the buffer's condition, and try again.
        """

    def close(self) -> None:
        """Give everything up, also before all was read."""
