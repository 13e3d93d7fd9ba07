"""Golden files: the rows that every policy draws, pinned once for every back end.

`load("uniform_philox")` gives a list of scenarios. A scenario is a dict with

- `name`, `seed`, `capacity`, `rng` ("philox" or "pcg64") and `draws` (the number of its first
  draw; other than 0 only with Philox);
- `operations`: what to do with a new buffer, in order. Each has `do`, and its arguments:
  `add` (`n` rows), `sample` (`batch`), `sample_range` (`batch`, `lo`, `hi`),
  `configure_ere` (`enable`, `eta`, `c_min`, `k_max`), `pin_demo_prefix` (`n`, `batch_size`).
  An add also has the `size` and `head` that must hold after it, and the two that draw have
  `rows`, the indices that must come back.

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
