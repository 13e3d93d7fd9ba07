"""What the host knows of the number of rows ever written, so that checks need not ask a device."""

from collections.abc import Callable

from cpreplay.control import ring_size


class KnownTotal:
    """Rows ever written: exactly, or once only the device counts them, a lower bound.

    Rows are only ever added, so what was once known stays a lower bound; but see `restore`.

    Parameters
    ----------
    capacity : int
        Rows that the ring can hold.
    read : callable
        Gives the total from the control block; on a device that waits.
    reading_waits : bool
        False for a host buffer, whose control block is read every time: nothing is counted here.
    """

    def __init__(self, capacity: int, read: Callable[[], int], *, reading_waits: bool) -> None:
        self._capacity = capacity
        self._read = read
        self._reading_waits = reading_waits
        self.at_least = 0
        self.is_exact = reading_waits
        self._was_exact = reading_waits

    def expect(self) -> None:
        """Note that an add is about to be queued. If it is broken off, the count is not exact."""
        self._was_exact = self.is_exact
        self.is_exact = False

    def count(self, rows: int | None) -> None:
        """Note the add that was expected; None where only the device knows of how many rows."""
        if self._reading_waits and rows is not None:
            self.at_least += rows
            self.is_exact = self._was_exact

    def restore(self, total: int) -> None:
        """Note that the buffer now is one to which ``total`` rows were ever written.

        Where only the device counts, it goes on: graphs that add may be replayed again.
        """
        self.at_least = total if self._reading_waits else 0

    def exact(self) -> int:
        """The total, from the device where the host has lost count.

        A host buffer's is not kept: it is read without the lock, and a `restore` in another thread
        may have come in between.
        """
        if self.is_exact:
            return self.at_least
        total = self._read()
        if self._reading_waits:
            self.at_least = total
        return total

    def size(self) -> int:
        """Rows held. Waits where `exact` does."""
        return ring_size(self.exact(), self._capacity)

    def size_up_to(self, rows: int) -> int:
        """Rows held: exactly, or a lower bound that settles whether there are ``rows``."""
        if self._reading_waits:
            known = ring_size(self.at_least, self._capacity)
            if known >= min(rows, self._capacity):
                return known
        return self.size()
