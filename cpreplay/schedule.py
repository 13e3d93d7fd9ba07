"""`Schedule`: a number that changes with the step, and what counts as a probability."""

import math
from collections.abc import Callable
from typing import Any, Literal

import attrs

from cpreplay.errors import ConfigurationError
from cpreplay.integers import is_int, is_number

# How far outside [0, 1] a probability may be that a caller's own arithmetic has rounded.
ROUNDING = 1e-9


@attrs.frozen
class Piece:
    """From the value before to ``to``, which is reached after ``steps``, in one of three ways."""

    shape: Literal["hold", "linear", "exponential"]
    to: float
    steps: int

    def __attrs_post_init__(self) -> None:
        if self.shape not in ("hold", "linear", "exponential"):
            raise ConfigurationError(f"Schedule: there is no piece of shape {self.shape!r}")
        if not (is_int(self.steps) and 0 <= self.steps < 2**63):
            raise ConfigurationError(
                f"Schedule.{self.shape}: steps={shown(self.steps)} has to be an int from 0 to "
                "2**63 - 1"
            )
        object.__setattr__(self, "to", _value(self.shape, self.to))
        object.__setattr__(self, "steps", int(self.steps))

    def between(self, start: float, share: float) -> float:
        """The value at a share in (0, 1) of the way from ``start``."""
        if self.shape == "linear":
            value = start * (1.0 - share) + self.to * share
        elif self.shape == "exponential":
            size = math.exp(math.log(abs(start)) * (1.0 - share) + math.log(abs(self.to)) * share)
            value = math.copysign(size, self.to)
        else:
            value = start
        # Each piece is monotone; rounding must not take it past its own ends.
        return min(max(value, min(start, self.to)), max(start, self.to))


@attrs.frozen(repr=False)
class Schedule:
    """A number that depends on the step: a start value, then pieces, then the last value for ever.

    Made with `starting` and the methods below, each of which gives a new schedule:
    ``Schedule.starting(0.0).hold(50_000).linear(0.5, 200_000)``. Schedules are immutable, and equal
    when they are made of the same pieces.

    Parameters
    ----------
    start : float
        The value at step 0.
    pieces : tuple, optional
        What `hold`, `linear` and `exponential` append.

    Raises
    ------
    ConfigurationError
        A value is not a finite number, a number of steps is not an int of at least 0, or a schedule
        cannot get to a value exponentially.
    """

    start: float
    pieces: tuple[Piece, ...] = ()

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "start", _value("starting", self.start))
        if not (isinstance(self.pieces, tuple) and all(isinstance(p, Piece) for p in self.pieces)):
            raise ConfigurationError(
                f"Schedule: pieces={self.pieces!r} are no pieces; append them with hold, linear "
                "and exponential, from Schedule.starting"
            )
        for piece, (_, start) in zip(self.pieces, self.knots, strict=False):
            if piece.shape == "exponential" and not _same_sign(start, piece.to):
                raise ConfigurationError(
                    f"Schedule.exponential: no factor leads from {start!r} to {piece.to!r}; both "
                    "have to be above 0, or both below; use linear, or a small number in place of 0"
                )

    @classmethod
    def starting(cls, value: float) -> "Schedule":
        """A schedule that is one value, until pieces are appended.

        Parameters
        ----------
        value : float
            Finite.

        Returns
        -------
        Schedule
        """
        return cls(value)

    def hold(self, steps: int) -> "Schedule":
        """Stay at the last value.

        Parameters
        ----------
        steps : int
            At least 0, as in the other pieces.

        Returns
        -------
        Schedule
            A new one; this one stays as it is.
        """
        return self._then("hold", self.last, steps)

    def linear(self, to: float, steps: int) -> "Schedule":
        """Go to a value in equal steps.

        Parameters
        ----------
        to : float
            Finite. It is reached after ``steps``, and is then the last value.
        steps : int
            With 0 the schedule jumps.

        Returns
        -------
        Schedule
        """
        return self._then("linear", to, steps)

    def exponential(self, to: float, steps: int) -> "Schedule":
        """Go to a value by one factor a step.

        Parameters
        ----------
        to : float
            Of the last value's sign; neither may be 0, which no factor leads to or from.
        steps : int
            With 0 the schedule jumps.

        Returns
        -------
        Schedule
        """
        return self._then("exponential", to, steps)

    def _then(self, shape: Any, to: Any, steps: Any) -> "Schedule":
        return Schedule(self.start, (*self.pieces, Piece(shape, to, steps)))

    @property
    def last(self) -> float:
        """The value at the end of the last piece, and ever after."""
        return self.pieces[-1].to if self.pieces else self.start

    @property
    def knots(self) -> tuple[tuple[int, float], ...]:
        """(step, value) where pieces begin and end; every other value lies between two of them."""
        knots = [(0, self.start)]
        for piece in self.pieces:
            knots.append((knots[-1][0] + piece.steps, piece.to))
        return tuple(knots)

    def __call__(self, step: float) -> float:
        """The value at a step.

        Parameters
        ----------
        step : int or float
            Finite, and not below 0. Where two pieces meet, the value is that of the knot, exactly;
            where several do, as at a jump, of the last.

        Notes
        -----
        Costs a look at each piece.
        """
        step = _checked_step(step)
        start, before = self.start, 0
        for piece in self.pieces:
            if step < before + piece.steps:
                inside = step - before
                return piece.between(start, inside / piece.steps) if inside > 0 else start
            start, before = piece.to, before + piece.steps
        return start

    def __repr__(self) -> str:
        pieces = (
            f".hold({piece.steps})"
            if piece.shape == "hold"
            else f".{piece.shape}({piece.to!r}, {piece.steps})"
            for piece in self.pieces
        )
        return f"Schedule.starting({self.start!r}){''.join(pieces)}"


@attrs.frozen(repr=False)
class _CheckedFunction(Schedule):
    """A caller's function as a schedule of probabilities, held to [0, 1] at each use."""

    function: Callable[[Any], Any] = attrs.field(kw_only=True)

    def __call__(self, step: float) -> float:
        step = _checked_step(step)
        value = self.function(step)
        if not (is_number(value) and -ROUNDING <= value <= 1.0 + ROUNDING):
            raise ConfigurationError(
                f"probability: the schedule {self.function!r} gave {shown(value)} at step {step}; "
                "it has to stay within [0, 1]"
            )
        return float(value)

    def _then(self, shape: Any, to: Any, steps: Any) -> Schedule:
        raise ConfigurationError(
            f"Schedule.{shape}: this schedule is the function {self.function!r}, which has no end "
            "to append to; make it of pieces, from Schedule.starting"
        )

    def __repr__(self) -> str:
        return repr(self.function)


def validate_probability(value: Any) -> Schedule:
    """A probability as a schedule, from a number or a schedule within [0, 1].

    Parameters
    ----------
    value : float, Schedule or callable
        A `Schedule` is judged by its knots, between which it cannot leave [0, 1]. Any other
        callable of a step is judged at each use.

    Returns
    -------
    Schedule
        ``value`` itself where it is one.

    Raises
    ------
    ConfigurationError
        It is no number (True is none), not within [0, 1], or NaN. A callable raises it when it is
        called, with the step and the value. Up to 1e-9 outside passes there, as rounding.
    """
    if isinstance(value, Schedule):
        for step, knot in value.knots:
            if not 0.0 <= knot <= 1.0:
                raise ConfigurationError(
                    f"probability={value!r} is {knot!r} at step {step}; it has to stay within "
                    "[0, 1]"
                )
        return value
    if is_number(value) and 0.0 <= value <= 1.0:
        return Schedule.starting(value)
    if callable(value) and not isinstance(value, type):
        return _CheckedFunction(0.0, function=value)
    raise ConfigurationError(
        f"probability={shown(value)} has to be a number in [0, 1], or a Schedule that stays there"
    )


def shown(value: Any) -> str:
    """A value for a message, also an int that is too long to be printed."""
    try:
        return repr(value)
    except ValueError:
        return f"a {type(value).__name__} too long to be printed"


def _value(where: str, value: Any) -> float:
    number = _finite(value)
    if number is None:
        raise ConfigurationError(f"Schedule.{where}: {shown(value)} has to be a finite number")
    return float(number)


def _checked_step(step: Any) -> int | float:
    """A step as an int or a float of Python, so that no narrow type rounds what is made of it."""
    number = _finite(step)
    if number is None or number < 0:
        raise ConfigurationError(f"step={shown(step)} has to be a finite number of at least 0")
    return number


def _finite(value: Any) -> int | float | None:
    """A number as Python's own; None where it is no finite one that a float can be."""
    if not is_number(value):
        return None
    try:
        finite = math.isfinite(float(value))
    except OverflowError:
        return None
    if not finite:
        return None
    return int(value) if is_int(value) else float(value)


def _same_sign(start: float, to: float) -> bool:
    return (start > 0.0 and to > 0.0) or (start < 0.0 and to < 0.0)
