"""For the pytest of a mutant."""

from typing import Any

import pytest
from hypothesis import Phase, settings

# Hypothesis stops at its first failure instead of shrinking it.
settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate])
settings.load_profile("mutants")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kernels-only", action="store_true", help="run what runs a kernel")


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    if config.getoption("kernels_only"):
        items[:] = [
            item for item in items if "emulated" in item.name or "cuda" in item.fixturenames
        ]
    # What takes longer comes later.
    items.sort(key=lambda item: "emulated" in item.name or "threads" in item.nodeid)
