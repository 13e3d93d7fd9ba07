"""Which rows of a demonstration set are used."""

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.demos.record import INTERVENED, DemoSet


@attrs.frozen
class DemoFilter:
    """Keeps rows by what was filed of them.

    Any function of a `DemoSet` that returns bool[rows] serves too.
    """

    #: Only rows of episodes that succeeded, as the table of episodes says.
    successful_only: bool = False
    #: Only rows in which a human intervened.
    intervened_only: bool = False

    def __call__(self, demos: DemoSet) -> NDArray[np.bool_]:
        """Which rows are kept, bool[rows]."""
        kept = np.ones(len(demos), bool)
        if self.successful_only:
            episodes = demos.episodes
            kept &= np.repeat(episodes["success"] != 0, episodes["length"].astype(np.int64))
        if self.intervened_only:
            kept &= demos.rows["flags"] & INTERVENED != 0
        return kept
