"""Numbered draws of a restart pool: three reals each, whatever becomes of them."""

import numpy as np

from cpreplay.philox import RESTARTS, philox4x32, reals_of, splitmix64

_LANES = 3
_AHEAD = 64  # draws whose numbers are computed together, for the price of one


class DrawNumbers:
    """Three reals in [0, 1) for each draw: for the probability, the bucket and the point.

    They are a pure function of (seed, draw number), and each draw takes its three, so the
    sequence does not depend on what a pool held.

    Parameters
    ----------
    seed : int
        In [0, 2**64).
    """

    def __init__(self, seed: int) -> None:
        lanes = np.tile(np.arange(_LANES, dtype=np.uint64), _AHEAD)
        keys = lanes + np.uint64(splitmix64(seed))  # modulo 2**64, as `philox_words` has them
        self._keys = (keys & np.uint64(0xFFFFFFFF), keys >> np.uint64(32))
        self.drawn = 0
        self._block: list[tuple[float, float, float]] = []
        self._first = 0

    def take(self) -> tuple[float, float, float]:
        """The numbers of the next draw."""
        place = self.drawn - self._first
        if not 0 <= place < len(self._block):
            self._block, self._first, place = self._numbers(self.drawn), self.drawn, 0
        self.drawn += 1
        return self._block[place]

    def _numbers(self, first: int) -> list[tuple[float, float, float]]:
        draws = np.repeat(np.arange(_AHEAD, dtype=np.uint64) + np.uint64(first), _LANES)
        none = np.zeros_like(draws)
        low, high, _, _ = philox4x32(
            (draws & np.uint64(0xFFFFFFFF), draws >> np.uint64(32), none, none + RESTARTS),
            self._keys,
        )
        reals = reals_of(high << np.uint64(32) | low).reshape(_AHEAD, _LANES)
        return [(a, b, c) for a, b, c in reals.tolist()]
