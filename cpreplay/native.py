"""Whether host buffers work by compiled loops, and the module that has them."""

import os
from importlib.util import find_spec
from typing import Any

from cpreplay.errors import ConfigurationError

#: Why there are no compiled loops here; None where there are.
MISSING: str | None = None
try:
    from cpreplay import _native
except ImportError as error:
    if find_spec("cpreplay._native"):
        MISSING = f"the compiled loops are there and cannot be loaded: {error}"
    else:
        MISSING = "no compiled loops were built, as without a C++ compiler"

_CHOICES = ("numpy", "native")


def compiled() -> Any:
    """The compiled module; only where `uses_compiled` says so."""
    return _native


def uses_compiled() -> bool:
    """Whether buffers that are made now work by compiled loops: where they are built.

    ``CPREPLAY_HOST=numpy`` or ``native`` in the environment decides instead.

    Raises
    ------
    ConfigurationError
        The variable asks for what is not there, or for something else.
    """
    choice = os.environ.get("CPREPLAY_HOST", "")
    if choice not in ("", *_CHOICES):
        raise ConfigurationError(f"CPREPLAY_HOST={choice!r} has to be {' or '.join(_CHOICES)}")
    if choice == "native" and MISSING is not None:
        raise ConfigurationError(
            f"CPREPLAY_HOST=native: {MISSING}; install cpreplay where there is a C++ compiler, or "
            "leave the variable out"
        )
    return choice != "numpy" and MISSING is None


def described() -> str:
    """What host buffers that are made now work by, and why."""
    if uses_compiled():
        return "compiled, with AVX2" if _native.has_wide() else "compiled"
    if MISSING is None:
        return "NumPy, as CPREPLAY_HOST says"
    return f"NumPy: {MISSING}"
