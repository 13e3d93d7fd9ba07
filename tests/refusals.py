"""What every refusal has in common: it says why, and it changes nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import cpreplay
from tests.conftest import Backend


def fingerprint(backend: Backend, buffer: Any) -> dict[str, Any]:
    """Its rows byte for byte, its control block, its policy, and what the host knows of it."""
    rows = {
        column.name: backend.numpy(buffer.column(column.name)).tobytes()
        for column in buffer.columns
    }
    priorities = buffer._ops.priorities
    return {
        **rows,
        "tree": [
            backend.numpy(level).tobytes() for level in (priorities.levels() if priorities else ())
        ],
        "control": buffer._ops.control(),
        "generator": repr(buffer._ops.generator()),
        "stats": buffer.stats(),
        "size": len(buffer),
        "head": buffer.head,
        "policy": repr(buffer._policy),
    }


@contextmanager
def refused(
    backend: Backend, buffer: Any, error: type[cpreplay.ReplayError], *parts: str
) -> Iterator[None]:
    """The call inside raises ``error`` with all ``parts`` in its text, and changes nothing."""
    before = fingerprint(backend, buffer)
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
    assert fingerprint(backend, buffer) == before
    buffer.check()
