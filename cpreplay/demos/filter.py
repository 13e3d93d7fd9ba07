"""Which rows of a demonstration set are used."""

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.demos.record import INTERVENED, SUCCEEDED, DemoSet


@attrs.frozen
class DemoFilter:
    """Keeps rows by their flags. Any function of a `DemoSet` that returns bool[rows] serves too."""

    #: Only rows of episodes that succeeded.
    successful_only: bool = False
    #: Only rows in which a human intervened.
    intervened_only: bool = False

    def __call__(self, demos: DemoSet) -> NDArray[np.bool_]:
        """Which rows are kept, bool[rows]."""
        flags = demos.rows["flags"]
        wanted = SUCCEEDED * self.successful_only | INTERVENED * self.intervened_only
        kept: NDArray[np.bool_] = flags & wanted == wanted
        return kept
