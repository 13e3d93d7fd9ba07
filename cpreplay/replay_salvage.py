"""What is left of a damaged checkpoint: its whole rows, in a new buffer."""

import contextlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

import attrs
import numpy as np

from cpreplay.checkpoint.replay_file import ReplayFile
from cpreplay.errors import CheckpointError
from cpreplay.integers import is_int
from cpreplay.replay_checkpoints import Checkpoints
from cpreplay.replay_state import Spans, exponents_of


@attrs.frozen(kw_only=True)
class SalvageReport:
    """What was left of a damaged checkpoint."""

    #: Rows that were whole, and are in the buffer now.
    rows: int
    #: Rows that were held when it was saved, and are lost.
    lost_rows: int


B = TypeVar("B", bound=Checkpoints)


def salvaged(
    path: str | os.PathLike[str], make: Callable[[dict[str, Any]], B]
) -> tuple[B, SalvageReport]:
    """A new buffer, made to fit a file's header, with the rows of the file that are whole."""
    with ReplayFile(path, salvage=True) as file:
        buffer = make(file.header)
    return buffer, _salvage(buffer, path)


def _salvage(buffer: Checkpoints, path: str | os.PathLike[str]) -> SalvageReport:
    """Take the rows of a file that are whole into a buffer, which is empty.

    The file is read twice, since where a row goes depends on which others are left.
    """
    with ReplayFile(path, salvage=True) as file:
        held: Any = file.header.get("rows")
        if not (is_int(held) and 0 <= held <= buffer._capacity):
            raise CheckpointError(f"the file says that it holds {held!r} rows")
        control = file.moment().state.get("control")
        spans = Spans()
        for first, columns in file.chunks():
            with contextlib.suppress(CheckpointError):  # whole, and not of this form: lost too
                spans.add(first, buffer._check_columns(columns), held)
    targets = spans.by_age(control, buffer._capacity)
    with ReplayFile(path, salvage=True) as file, buffer._lock:
        file.moment()
        for first, columns in file.chunks():
            with contextlib.suppress(CheckpointError):
                rows = buffer._check_columns(columns)
                if spans.has(first, rows):  # and not another record that claims their place
                    for row, count, target in targets.pop(first, ()):
                        part = slice(row - first, row - first + count)
                        buffer._ops.put_rows(target, {n: v[part] for n, v in columns.items()})
        _hold(buffer, spans.rows, control)
    return SalvageReport(rows=spans.rows, lost_rows=int(held) - spans.rows)


def _hold(buffer: Checkpoints, rows: int, control: Any) -> None:
    """Hold rows that were put in as if they had just been added."""
    fields: dict[str, int | float] = {"total": rows}
    if buffer._ops.priorities is not None:
        with contextlib.suppress(CheckpointError):  # a state that is lost: the defaults
            fields |= exponents_of(control)
        buffer._set_leaves(np.broadcast_to(np.float32(1.0), rows))  # max_priority ** alpha
        buffer._policy.alpha = float(fields.get("alpha", buffer._policy.alpha))
    buffer._set_control(fields)
    buffer._known.restore(rows)
    buffer._ops.synchronize()
