"""What a saved state says, and whether it fits a buffer; the rows are elsewhere."""

import bisect
import contextlib
import math
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cpreplay.control import CONTROL, MAX_CAPACITY, ring_head, ring_size
from cpreplay.errors import CheckpointError, ConfigurationError
from cpreplay.integers import is_count, is_int, is_number
from cpreplay.philox import is_seed
from cpreplay.policies import Policy
from cpreplay.priorities import OVERFLOW, SMALLEST, leaves_of
from cpreplay.schedule import shown
from cpreplay.schema import TRANSITION, Column, transition_columns
from cpreplay.words import NUMBERED

# The control block's fields that belong to the object, not to its state.
_OF_THE_OBJECT = ("capacity", "key", "run")

SAVED_FIELDS = tuple(name for name in CONTROL.names or () if name not in _OF_THE_OBJECT)


def about_buffer(columns: Sequence[Column], capacity: int, prioritized: bool) -> dict[str, Any]:
    """What a buffer has to be to take up another's state, as values of JSON."""
    return {
        "capacity": capacity,
        "prioritized": prioritized,
        "columns": [
            {
                "name": column.name,
                "shape": list(column.shape),
                "dtype": column.dtype.name,
                "stored": column.stored.name,
            }
            for column in columns
        ],
    }


def refuse_misfit(saved: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise `CheckpointError` with every difference between two `about_buffer`."""
    differences = [
        f"{name} is {saved.get(name)!r} there and {own[name]!r} here"
        for name in ("capacity", "prioritized")
        if saved.get(name) != own[name] or type(saved.get(name)) is not type(own[name])
    ]
    theirs = _by_name(saved.get("columns"))
    mine = _by_name(own["columns"])
    differences += [f"column {name} is there alone" for name in theirs if name not in mine]
    differences += [f"column {name} is here alone" for name in mine if name not in theirs]
    for name in mine:
        if name in theirs and theirs[name] != mine[name]:
            differences.append(
                f"column {name} is {_form(theirs[name])} there, {_form(mine[name])} here"
            )
    if not differences and list(theirs) != list(mine):
        differences.append(f"columns are in the order {', '.join(theirs)} there")
    if differences:
        raise CheckpointError(
            f"this state does not fit the buffer: {'; '.join(differences)}. Nothing was changed; "
            "make a buffer of that form, or use load, which does"
        )


def columns_said(about: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns that an `about_buffer` describes; nonsense is refused."""
    forms = _by_name(about.get("columns"))
    try:
        obs, action = forms["obs"], forms["action"]
        columns = transition_columns(
            tuple(obs["shape"]),
            tuple(action["shape"]),
            obs_dtype=obs["dtype"],
            action_dtype=action["dtype"],
            obs_store_dtype=obs["stored"],
            extra_columns={
                name: (tuple(form["shape"]), form["dtype"])
                for name, form in forms.items()
                if name not in TRANSITION
            },
        )
        capacity = about["capacity"]
        if not (is_count(capacity) and capacity <= MAX_CAPACITY):
            raise TypeError(f"a capacity of {capacity!r}")
        if not isinstance(about["prioritized"], bool):
            raise TypeError("prioritized is neither true nor false")
    except (KeyError, TypeError, ConfigurationError) as error:
        raise CheckpointError(f"the file does not describe a buffer: {error}") from None
    possible = _by_name(about_buffer(columns, capacity, about["prioritized"])["columns"])
    if list(forms) != list(possible):
        raise CheckpointError(
            f"the file does not describe a buffer: its columns are {', '.join(forms)}, where a "
            f"buffer has {', '.join(possible)}"
        )
    for name, form in forms.items():
        if form != possible[name]:
            raise CheckpointError(
                f"the file does not describe a buffer: its column {name} is {_form(form)}, where a "
                f"buffer has {_form(possible[name])}"
            )
    return columns


@attrs.frozen(kw_only=True)
class CheckedState:
    """The parts of a state, as a buffer takes them up."""

    control: dict[str, int | float]
    generator: dict[str, Any]
    seed: int | None
    policy: Policy
    size: int
    leaves: NDArray[np.float32] | None


def small_state(
    control: Mapping[str, int | float],
    generator: Mapping[str, Any],
    seed: int | None,
    policy: Policy,
) -> dict[str, Any]:
    """What a state has beside rows, leaves and pending steps, as values of JSON."""
    return {
        "control": {name: control[name] for name in SAVED_FIELDS},
        "generator": dict(generator),
        "seed": seed,
        "largest_batch": policy.largest_batch,
    }


def checked_state(
    state: Mapping[str, Any], leaves: Any, capacity: int, prioritized: bool
) -> CheckedState:
    """The parts of a state, or `CheckpointError` where no buffer could have given it."""
    control, generator = state.get("control"), state.get("generator")
    _expect(isinstance(control, Mapping), "control is a mapping", control)
    _expect(
        isinstance(generator, Mapping) and isinstance(generator.get("name"), str),
        "generator is a mapping with a name",
        generator,
    )
    assert isinstance(control, Mapping) and isinstance(generator, Mapping)
    names = ", ".join(SAVED_FIELDS)
    _expect(set(control) == set(SAVED_FIELDS), f"control has {names}", sorted(map(str, control)))
    fields = {name: _field(name, control[name]) for name in SAVED_FIELDS}
    total, demo_count = int(fields["total"]), int(fields["demo_count"])
    _expect(
        demo_count <= total and demo_count < capacity,
        f"demo_count is at most the {total} rows added, and below the capacity of {capacity}",
        demo_count,
    )
    _expect(fields["ere_enabled"] in (0, 1), "ere_enabled is 0 or 1", fields["ere_enabled"])
    _expect(0.0 < fields["eta"] <= 1.0, "eta is in (0, 1]", fields["eta"])
    _expect(0.0 <= fields["eta_power"] <= 1.0, "eta_power is in [0, 1]", fields["eta_power"])
    _expect(
        fields["k"] < max(1, fields["k_max"]),
        f"k is 0, or below the k_max of {fields['k_max']}",
        fields["k"],
    )
    _expect(
        not fields["ere_enabled"] or (fields["c_min"] and fields["k_max"]),
        "c_min and k_max are at least 1 while ERE is on",
        {name: fields[name] for name in ("c_min", "k_max")},
    )
    _check_exponents(fields)
    _expect(
        1.0 <= fields["max_priority"] < math.inf,
        "max_priority is a finite number >= 1",
        fields["max_priority"],
    )
    entering = leaves_of(np.array([fields["max_priority"]]), float(fields["alpha"]))[0]
    _expect(
        bool(entering < OVERFLOW),
        "max_priority ** alpha, the leaf of a new row, is a finite float32",
        fields["max_priority"],
    )
    ere = bool(fields["ere_enabled"])
    _expect(
        prioritized + ere + bool(demo_count) <= 1,
        "priorities, ERE and demonstrations exclude each other",
        {"prioritized": prioritized, "ere_enabled": ere, "demo_count": demo_count},
    )
    largest = state.get("largest_batch")
    room = capacity - demo_count if demo_count else None
    _expect(
        largest in (None, room) and not isinstance(largest, bool),
        f"largest_batch is None or {room}" if demo_count else "largest_batch is None",
        largest,
    )
    seed = state.get("seed")
    _expect(seed is None or is_seed(seed), "seed is None or in [0, 2**64)", seed)
    numbered = generator["name"] == NUMBERED
    _expect(
        not numbered or generator.get("seed") == seed,
        f"the generator's seed is {seed}, as the state's",
        generator.get("seed"),
    )
    size = ring_size(total, capacity)
    return CheckedState(
        control=fields,
        generator=dict(generator),
        seed=seed,
        policy=Policy(
            prioritized=prioritized,
            alpha=float(fields["alpha"]),
            ere=ere,
            demo_count=demo_count,
            largest_batch=largest,
        ),
        size=size,
        leaves=_checked_leaves(leaves, size) if prioritized else None,
    )


def _checked_leaves(leaves: Any, size: int) -> NDArray[np.float32]:
    try:
        array = np.asarray(leaves)
    except ValueError:
        array = np.empty(0)
    _expect(
        array.dtype == np.float32 and array.shape == (size,),
        f"leaves are float32 of shape ({size},)",
        f"{array.dtype} of shape {array.shape}",
    )
    # False for NaN. In parts: a mask of all would be a quarter of the leaves once more.
    for first in range(0, size, 1 << 20):
        part = array[first : first + (1 << 20)]
        wrong = part[~((part >= SMALLEST) & (part < np.inf))]
        _expect(not wrong.size, f"every leaf is finite and >= {SMALLEST}", wrong[:1].tolist())
    return array


def _field(name: str, value: Any) -> int | float:
    if CONTROL[name].kind == "f":
        _expect(
            is_number(value) and abs(value) <= sys.float_info.max,
            f"{name} is a finite number",
            value,
        )
        return float(value)
    # Of what counts half of what fits, so that going on overflows nothing.
    bits = 63 if name in ("c_min", "k_max") else 62
    _expect(
        is_int(value) and 0 <= value < 2**bits, f"{name} is an int from 0 to 2**{bits} - 1", value
    )
    return int(value)


def _by_name(columns: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(columns, list) or not all(
        isinstance(column, dict)
        and isinstance(column.get("name"), str)
        and isinstance(column.get("shape"), list)
        for column in columns
    ):
        raise CheckpointError("the file does not describe columns")
    names = [column["name"] for column in columns]
    if len(set(names)) != len(names):
        raise CheckpointError(f"columns are there twice: {', '.join(names)}")
    return dict(zip(names, columns, strict=True))


def _form(column: Mapping[str, Any]) -> str:
    dtype, stored = column.get("dtype"), column.get("stored")
    stored_as = "" if stored == dtype else f" stored as {stored}"
    return f"{dtype}{column['shape']}{stored_as}"


def _expect(holds: Any, fact: str, found: Any) -> None:
    if not holds:
        raise CheckpointError(
            f"this is no state of such a buffer, in which {fact}; it has {shown(found)}"
        )


def exponents_of(control: Any) -> dict[str, float]:
    """alpha, beta and epsilon of a saved control block, or `CheckpointError`."""
    _expect(isinstance(control, Mapping), "control is a mapping", control)
    fields = {name: float(_field(name, control.get(name))) for name in ("alpha", "beta", "epsilon")}
    _check_exponents(fields)
    return fields


def _check_exponents(fields: Mapping[str, float]) -> None:
    for name in ("alpha", "beta"):
        _expect(0.0 <= fields[name] <= 1.0, f"{name} is in [0, 1]", fields[name])
    epsilon = fields["epsilon"]
    _expect(0.0 <= epsilon < math.inf, "epsilon is a finite number >= 0", epsilon)


class Spans:
    """Which rows of a ring have come, in spans that must not overlap."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self.rows = 0

    def add(self, first: int, rows: int, size: int) -> None:
        """Take in rows [first, first + rows), or `CheckpointError`."""
        end = first + rows
        at = bisect.bisect_right(self._firsts, first)
        free = (at == 0 or self._ends[at - 1] <= first) and (
            at == len(self._firsts) or end <= self._firsts[at]
        )
        if not rows or end > size or not free:
            why = "there twice" if rows and end <= size else f"not among the {size} held"
            raise CheckpointError(f"rows [{first}, {end}) are {why}")
        self._firsts.insert(at, first)
        self._ends.insert(at, end)
        self.rows += rows

    def has(self, first: int, rows: int) -> bool:
        """Whether exactly this span was taken in."""
        at = bisect.bisect_left(self._firsts, first)
        return self._firsts[at : at + 1] == [first] and self._ends[at] == first + rows

    def by_age(self, control: Any, capacity: int) -> dict[int, list[tuple[int, int, int]]]:
        """For each span, (row, rows, place) of its runs: places from 0, demonstrations first, then
        from the oldest on. In the order of rows where the control block is lost.
        """
        total = demo_count = 0
        with contextlib.suppress(CheckpointError):
            _expect(isinstance(control, Mapping), "control is a mapping", control)
            total = int(_field("total", control.get("total")))
            demo_count = min(int(_field("demo_count", control.get("demo_count"))), capacity - 1)
        head = ring_head(total, demo_count, capacity) if total >= capacity else demo_count
        runs = []
        for first, end in zip(self._firsts, self._ends, strict=True):
            inner = {cut for cut in (demo_count, head) if first < cut < end}
            for low, high in pairwise(sorted({first, end, *inner})):
                part = 0 if low < demo_count else 1 if low >= head else 2
                runs.append((part, low, high - low, first))
        placed: dict[int, list[tuple[int, int, int]]] = {}
        place = 0
        for _, low, rows, first in sorted(runs):
            placed.setdefault(first, []).append((low, rows, place))
            place += rows
        return placed
