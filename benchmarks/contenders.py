"""What a library that is timed has to offer: a full ring, and calls on it."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.interleave import Block, Call, Following, shortened
from benchmarks.machine import package_version
from benchmarks.workloads import (
    ADD_BATCHES,
    CHUNK,
    ONLINE_BATCH,
    PIXEL_BATCHES,
    SAMPLE_BATCHES,
    Transitions,
    Workload,
    calls_per_block,
    check_rows,
)

ALPHA, BETA, EPSILON = 0.6, 0.4, 1e-6
INTO_FIXED = "out="  # what a case's entry of draws into fixed arrays is called

_WARM_UP_STEPS = 400
_CHECKED_LANES = 200
_POOL = 61  # minibatches of TD errors that go around, at most
_POOLED = 2**18  # and so many errors in all of them
# TD errors of the check, by row modulo 8: as far apart as those of training. With much larger ones
# among a million rows the draws of a sum tree in float32, such as cpprb's, are visibly off.
_GRADES: NDArray[np.float64] = 0.03 * np.exp2(np.arange(8))
_DRAWS = 200


class Library:
    """One of the libraries, as a report names it: by its distribution."""

    name: str
    how: str  # how it is used, and what differs from the others
    is_peer = True

    @property
    def version(self) -> str:
        """Of the installed package."""
        if self.is_peer:
            return package_version(self.name)
        import cpreplay  # a plain checkout has no metadata to read it from

        return cpreplay.__version__


@dataclass(frozen=True)
class Drawn:
    """A minibatch as a check sees it: columns in the order of `Transitions`."""

    columns: list[NDArray[Any]]
    rows: NDArray[np.int64] | None = None
    weights: NDArray[Any] | None = None


class Ring(ABC):
    """A ring of one library.

    What ``draw``, ``adds``, ``batch_add`` and ``updating`` give is what is timed, so it does no
    more than it has to, and takes values that the library needs not convert. Magnitudes, the
    powers' exponents and the importance weights are everyone's own work; who does not take a TD
    error's magnitude itself, or add epsilon, gets that done before the timing.
    """

    has_out = False
    strays = 0.0  # the share of lanes by priority that may be of no row, with a weight of 0

    def __init__(self, workload: Workload, rows: int) -> None:
        self.workload = workload
        self.rows = rows

    def fill(self, chunks: Iterator[Transitions]) -> None:
        """Fill the ring from its first row to its last."""
        for chunk in chunks:
            self.batch_add(chunk)()

    @abstractmethod
    def __len__(self) -> int:
        """Rows that it holds."""

    @abstractmethod
    def draw(self, batch_size: int, *, into_fixed: bool = False) -> Call:
        """A call that draws a minibatch; by priority with rows and weights."""

    @abstractmethod
    def drawn(self, batch: Any) -> Drawn:
        """What a draw returned, as NumPy arrays."""

    @abstractmethod
    def adds(self, values: Transitions) -> list[Call]:
        """Calls that each add one transition."""

    @abstractmethod
    def batch_add(self, values: Transitions) -> Call:
        """A call that adds them all."""

    def updating(self, td_errors: Callable[[], Any]) -> Callable[[Any], Any]:
        """A call that updates what a draw returned with the next TD errors, of `taken`."""
        raise NotImplementedError

    def update_rows(self, rows: NDArray[np.int64], td_errors: NDArray[np.float64]) -> None:
        """Set the priorities of rows: outside the timing."""
        raise NotImplementedError

    def taken(self, td_errors: NDArray[np.float64]) -> Any:
        """TD errors as the library takes them fastest."""
        raise NotImplementedError


class Contender(Library):
    """A library and the rings that it has."""

    workloads: ClassVar[frozenset[str]] = frozenset({"uniform", "prioritized", "pixels"})
    ring: ClassVar[type[Ring]]

    def full_ring(self, workload: Workload, rows: int, *, checked: bool = True) -> Ring:
        """A full ring, checked: it holds the rows that went in, and draws as priorities say.

        Without ``checked`` only its length is, which is much faster: for the growth, once smaller
        rings have passed.
        """
        ring = self.ring(workload, rows)
        ring.fill(workload.chunks(rows))
        if len(ring) != rows:
            raise RuntimeError(f"{self.name} holds {len(ring):,} rows, not {rows:,}: bad adapter")
        if checked:
            drawn = ring.drawn(ring.draw(min(_CHECKED_LANES, rows))())
            check_rows(self.name, workload, rows, drawn.columns, drawn.rows)
        if workload.prioritized:
            if checked:
                check_priorities(self.name, ring)
            _warm_up(ring)
        return ring


def check_priorities(name: str, ring: Ring) -> None:
    """Raise unless draws are as frequent as their priorities say, and weighted so.

    All priorities are set.
    """
    graded = np.arange(ring.rows)
    for start in range(0, ring.rows, CHUNK):
        part = graded[start : start + CHUNK]
        ring.update_rows(part, _GRADES[part % len(_GRADES)])
    draw = ring.draw(_CHECKED_LANES)
    counts = np.zeros(len(_GRADES))
    strays = 0
    priorities = (_GRADES + EPSILON) ** ALPHA
    for _ in range(_DRAWS):
        drawn = ring.drawn(draw())
        assert drawn.rows is not None and drawn.weights is not None
        is_row = drawn.weights > 0
        strays += len(is_row) - np.count_nonzero(is_row)
        grades, weights = drawn.rows[is_row] % len(_GRADES), drawn.weights[is_row]
        counts += np.bincount(grades, minlength=len(_GRADES))
        expected = priorities[grades] ** -BETA
        # some divide by the batch's largest, some by the ring's
        if not np.allclose(weights / weights.max(), expected / expected.max(), rtol=1e-3):
            raise RuntimeError(f"{name} gave weights of other priorities: bad adapter")
    if strays > ring.strays * _DRAWS * _CHECKED_LANES:
        raise RuntimeError(f"{name} gave weights of 0: bad adapter")
    held = np.bincount(graded % len(_GRADES), minlength=len(_GRADES)) * priorities
    wanted = held / held.sum() * counts.sum()
    chi_square = float(((counts - wanted) ** 2 / wanted).sum())
    if chi_square > 60:  # by chance once in a hundred million runs, with 7 degrees of freedom
        raise RuntimeError(f"{name} does not draw by priority: bad adapter")


def _warm_up(ring: Ring) -> None:
    """Priorities such as training leaves: of |N(0, 1)| for each row, and of many real steps."""
    rng = np.random.default_rng(0)
    for start in range(0, ring.rows, CHUNK):
        part = np.arange(start, min(start + CHUNK, ring.rows))
        ring.update_rows(part, rng.standard_normal(len(part)))
    step = _step(ring, ONLINE_BATCH)
    for _ in range(_WARM_UP_STEPS):
        step()


def cases_of(workload: Workload, rows: int, *, growth: bool = False) -> list[str]:
    """The calls that are timed, by name; with ``growth`` those that tell how it grows with rows.

    Batches larger than the ring are left out: some libraries refuse them.
    """
    if growth:
        return [f"step({ONLINE_BATCH})" if workload.prioritized else f"sample({ONLINE_BATCH})"]
    calls = ("sample", "update", "step") if workload.prioritized else ("sample",)
    sizes = PIXEL_BATCHES if workload.pixels else SAMPLE_BATCHES
    cases = [f"{call}({size})" for size in sizes if size <= rows for call in calls] + ["add"]
    if not workload.pixels:
        cases += [f"add_batch({size})" for size in ADD_BATCHES if size <= rows]
    return cases + [f"add + step({ONLINE_BATCH})"] * workload.prioritized


def blocks_of(ring: Ring, case: str) -> dict[str, Block]:
    """The blocks of one case: under ``""``, and of draws into fixed arrays under `INTO_FIXED`."""
    return {way: shortened(block) for way, block in _blocks_of(ring, case).items()}


def _blocks_of(ring: Ring, case: str) -> dict[str, Block]:
    call, _, size = case.removesuffix(")").partition("(")
    ways = {"": False, INTO_FIXED: True} if ring.has_out else {"": False}
    if call == "add":
        return {"": ring.adds(_made(ring, _calls(ring, 1), 0))}
    if call == "add_batch":
        rows = int(size)
        values = [_made(ring, rows, number) for number in range(_calls(ring, rows))]
        return {"": [ring.batch_add(one) for one in values]}
    lanes = int(size)
    calls = _calls(ring, lanes)
    if call == "sample":
        return {way: [ring.draw(lanes, into_fixed=fixed)] * calls for way, fixed in ways.items()}
    if call == "update":
        return {"": Following(ring.draw(lanes), _updating(ring, lanes), calls)}
    if call == "step":
        return {way: [_step(ring, lanes, into_fixed=fixed)] * calls for way, fixed in ways.items()}
    step = _step(ring, lanes)
    adds = ring.adds(_made(ring, calls, 0))
    return {"": [partial(_one_after_the_other, add, step) for add in adds]}


def _calls(ring: Ring, lanes: int) -> int:
    """Calls in a block; a draw of rows by priority takes longer."""
    return calls_per_block(
        (4 if ring.workload.prioritized else 1) * lanes * ring.workload.row_bytes
    )


def _made(ring: Ring, count: int, seed: int) -> Transitions:
    return ring.workload.make(count, seed)


def _updating(ring: Ring, batch_size: int) -> Callable[[Any], Any]:
    pool = max(2, min(_POOL, _POOLED // batch_size))
    errors = np.random.default_rng(batch_size).standard_normal((pool, batch_size))
    return ring.updating(itertools.cycle([ring.taken(one) for one in errors]).__next__)


def _step(ring: Ring, batch_size: int, *, into_fixed: bool = False) -> Call:
    draw = ring.draw(batch_size, into_fixed=into_fixed)
    return partial(_passed_on, draw, _updating(ring, batch_size))


def _passed_on(draw: Call, update: Callable[[Any], Any]) -> None:
    update(draw())


def _one_after_the_other(first: Call, second: Call) -> None:
    first()
    second()


def one_after_another(calls: list[Call]) -> None:
    """What adds a batch to a library that has no call for it."""
    for call in calls:
        call()
