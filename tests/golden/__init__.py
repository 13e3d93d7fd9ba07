"""Golden files: what every policy draws, pinned once for every back end.

`load("uniform_philox")` gives a list of scenarios. A scenario is a dict with

- `name`, `seed`, `capacity`, `rng` ("philox" or "pcg64") and `draws` (the number of its first
  draw; other than 0 only with Philox);
- `operations`: what to do with a new buffer, in order. Each has `do`, and its arguments:
  `add` (`n` rows), `sample` (`batch`), `sample_range` (`batch`, `lo`, `hi`),
  `configure_ere` (`enable`, `eta`, `c_min`, `k_max`), `pin_demo_prefix` (`n`, `batch_size`).
  An add also has the `size` and `head` that must hold after it, and the two that draw have
  `rows`, the indices that must come back.

The scenarios of prioritized replay, `per_philox` and `per_pcg64`, are for a prioritized buffer
with its defaults (alpha 0.6, beta 0.4, epsilon 1e-6). They have the operations above but for the
last two, and four more:

- `configure_per` (`alpha`, `beta`, `epsilon`) and `set_beta` (`beta`);
- `update_batch` (`td_errors`): update the rows of the last draw, of either kind, by its batch;
- `update_indices` (`indices`, `td_errors`): update bare rows.

What must hold afterwards: of an add also the `priority_total`; of a draw also the `weights`; of
an update `max_priority`, `stale_updates` (counted from the start) and `priority_total`. All are
to be compared bit for bit. No operation is one that a back end would refuse, and no TD error is
invalid. Beside `rng` and `draws` a scenario has `inexact_powers`: the alphas and betas that it
uses other than 0, 1/2 and 1.

The other files hold bare numbers: `philox_kat` (hexadecimal words), `pcg64_words`, and
`rows_philox` (draws over windows far larger than a test would allocate).

The files were made by `make_golden.py`, and are never regenerated to make a test pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent


def load(name: str) -> list[dict[str, Any]]:
    """The scenarios (or bare cases) of the golden file `name`, without its `.json`."""
    cases: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())["cases"]
    return cases


def names() -> list[str]:
    """Every golden file, without the `.json`, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))
