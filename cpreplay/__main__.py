"""The command line: what works on this machine, and what a checkpoint file holds."""

import argparse
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from cpreplay import StoreReplay, StoreReplayGpu, __version__, kernels, native
from cpreplay.cuda_device import device_memory, import_cupy
from cpreplay.errors import DeviceUnavailableError, ReplayError
from cpreplay.inspection import draw_frames, inspect_file
from cpreplay.inspection_text import as_text
from cpreplay.memory import format_bytes, host_memory

Facts = dict[str, dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    return command(options)


def _print(text: str) -> None:
    """Print what any terminal can show; not to a reader that has gone, as ``head`` does."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except BrokenPipeError:
        # Python flushes once more as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cpreplay", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    info = commands.add_parser(
        "info", help="versions, back ends that work here, memory, where kernels come from"
    )
    info.add_argument("--json", action="store_true", help="print one JSON object")
    info.set_defaults(command=_info)
    inspect = commands.add_parser(
        "inspect",
        help="what a checkpoint file holds, and what is wrong with it",
        epilog="Exit status: 0 the file is whole, 1 it is damaged or no checkpoint, "
        "2 a file cannot be read or written.",
    )
    inspect.add_argument("file", type=Path, metavar="FILE", help="a checkpoint")
    inspect.add_argument("--json", action="store_true", help="print one JSON object")
    inspect.add_argument(
        "--frames",
        type=Path,
        metavar="PNG",
        help="draw the restart points' frame stacks, by bucket",
    )
    inspect.set_defaults(command=_inspect)
    return parser


def _info(options: argparse.Namespace) -> int:
    facts = gather_facts()
    _print(json.dumps(facts, indent=2) if options.json else _as_text(facts))
    return 0


def _inspect(options: argparse.Namespace) -> int:
    try:
        inspection = inspect_file(options.file)
    except OSError as error:
        return _failed("inspect", error)
    report = inspection.report
    _print(json.dumps(report, indent=2) if options.json else as_text(report))
    if options.frames is not None:
        try:
            drawn, buckets = draw_frames(inspection, options.frames)
        except (ReplayError, OSError) as error:
            return _failed("inspect --frames", error)
        if not options.json:
            _print(f"  {'frames':14} {drawn:,} of {buckets:,} buckets in {options.frames}")
    return 0 if report["whole"] else 1


def _failed(call: str, error: Exception) -> int:
    print(f"python -m cpreplay {call}: {error}", file=sys.stderr)
    return 2


def gather_facts() -> Facts:
    """What ``info`` prints: titles, and under each its names and values.

    Values are plain, so that they can be written as JSON; None stands for what is unknown or not
    there. Each back end is tried with a small buffer, which on a card compiles the kernels.
    """
    works = {cls.__name__: _refusal(cls) for cls in (StoreReplay, StoreReplayGpu)}
    card, card_memory = _card()
    return {
        "versions": {
            "cpreplay": __version__,
            "Python": platform.python_version(),
            "NumPy": np.__version__,
            "zstandard": version("zstandard"),
            "CuPy": _cupy_version(),
        },
        "back ends": {
            name: {"works": reason is None, "reason": reason} for name, reason in works.items()
        },
        "host": {"host loops": native.described()},
        "memory": {
            "machine": host_memory(()),
            "usable here": host_memory(),
            "card": card,
            "card memory": card_memory,
        },
        "kernels": {
            "folder": str(kernels.FOLDER),
            "sources": sorted(path.name for path in kernels.FOLDER.glob("*.cu*")),
        },
    }


def _refusal(cls: type[StoreReplay] | type[StoreReplayGpu]) -> str | None:
    """Why a buffer cannot be used here, or None where a small one stores and draws."""
    try:
        buffer = cls(1, 1, 2)
        buffer.add([0.0], [0.0], 1.0, [0.0], False)
        buffer.sample(2)
        buffer.check()
    except DeviceUnavailableError as error:
        return str(error)
    except Exception as error:  # whatever else is wrong with an installation is to be shown
        return f"{type(error).__name__}: {error}"
    return None


def _cupy_version() -> str | None:
    """The version of CuPy, after a device buffer was tried; None where it is not installed."""
    module = sys.modules.get("cupy")
    if module is not None:
        return str(module.__version__)
    if importlib.util.find_spec("cupy") is None:
        return None
    return "installed, and cannot be imported"


def _card() -> tuple[str | None, int | None]:
    """Name and memory of the current card."""
    try:
        cupy = import_cupy()
    except DeviceUnavailableError:
        return None, None
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    return properties["name"].decode(), device_memory(cupy)


def _as_text(facts: Facts) -> str:
    lines = []
    for title, entries in facts.items():
        lines.append(title)
        lines += [f"  {name:14} {_value_as_text(name, value)}" for name, value in entries.items()]
    return "\n".join(lines)


def _value_as_text(name: str, value: Any) -> str:
    match value:
        case None:
            return "not installed" if name == "CuPy" else "none"
        case {"works": True}:
            return "works"
        case {"reason": reason}:
            return f"does not work here: {reason}"
        case int():
            return format_bytes(value)
        case list():
            return ", ".join(value) or "missing"
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
