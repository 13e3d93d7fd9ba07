"""`RestartPoolConfiguration`: how a restart pool is to behave, checked once, when it is made."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from cpreplay.errors import ConfigurationError
from cpreplay.integers import is_count, is_int, is_number
from cpreplay.philox import checked_seed
from cpreplay.restart.marker import fits_64_bits, is_label
from cpreplay.schedule import Schedule, shown, validate_probability

_Attribute: TypeAlias = "attrs.Attribute[Any]"


def _int(value: Any) -> Any:
    """NumPy integers as int; anything else is left for the validator to refuse."""
    return int(value) if is_int(value) else value


def _tuple(value: Any) -> Any:
    """A list as a tuple, so that no one can change it later."""
    return tuple(value) if isinstance(value, list) else value


class Bounds(Mapping[str, int]):
    """Bounds by label, which nobody can change.

    Not ``types.MappingProxyType``, which can be neither hashed, copied nor sent.
    """

    __slots__ = ("_bounds",)

    def __init__(self, bounds: Mapping[str, int]) -> None:
        self._bounds = dict(bounds)

    def __getitem__(self, label: str) -> int:
        return self._bounds[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._bounds)

    def __len__(self) -> int:
        return len(self._bounds)

    def __hash__(self) -> int:
        return hash(frozenset(self._bounds.items()))

    def __repr__(self) -> str:
        return repr(self._bounds)


def _bounds(value: Any) -> Any:
    """A mapping as one of its own."""
    if not isinstance(value, Mapping):
        return value
    return Bounds({label: _int(bound) for label, bound in value.items()})


def _floor(value: Any) -> Any:
    return float(value) if is_number(value) and abs(value) <= 1 else value


def _refuse(instance: Any, attribute: _Attribute, value: Any, wanted: str) -> None:
    name = type(instance).__name__
    raise ConfigurationError(f"{name}: {attribute.name}={shown(value)} {wanted}")


def _check_count(instance: Any, attribute: _Attribute, value: Any) -> None:
    if not (is_count(value) and value < 2**63):
        _refuse(instance, attribute, value, "has to be an int from 1 to 2**63 - 1")


def _check_count_or_zero(instance: Any, attribute: _Attribute, value: Any) -> None:
    if not (is_int(value) and 0 <= value < 2**63):
        _refuse(instance, attribute, value, "has to be an int from 0 to 2**63 - 1; 0 saves all")


def _check_flag(instance: Any, attribute: _Attribute, value: Any) -> None:
    if not isinstance(value, bool):
        _refuse(instance, attribute, value, "has to be True or False")


def _check_key(instance: Any, attribute: _Attribute, value: Any) -> None:
    if not isinstance(value, tuple):
        _refuse(instance, attribute, value, "has to be a list of labels, such as ['level']")
    if not value:
        _refuse(instance, attribute, value, "has to name one label at least")
    for label in value:
        _check_label(instance, attribute, value, label)
    if len(set(value)) < len(value):
        _refuse(instance, attribute, value, "names a label twice; name each once")


def _check_label(instance: Any, attribute: _Attribute, value: Any, label: Any) -> None:
    if not is_label(label):
        _refuse(instance, attribute, value, f"has the label {label!r}; a label is a text in UTF-8")


def _check_bounds(instance: Any, attribute: _Attribute, value: Any) -> None:
    if not isinstance(value, Bounds):
        _refuse(instance, attribute, value, "has to be a mapping from label to int")
    for label, bound in value.items():
        _check_label(instance, attribute, value, label)
        if not (is_int(bound) and fits_64_bits(bound)):
            _refuse(
                instance,
                attribute,
                value,
                f"bounds {label!r} by {shown(bound)}; give an int of 64 bits",
            )


def _check_maximum(instance: Any, attribute: _Attribute, value: Any) -> None:
    _check_bounds(instance, attribute, value)
    for label, lowest in instance.minimum_values.items():
        if label in value and lowest > value[label]:
            _refuse(
                instance,
                attribute,
                value,
                f"is below minimum_values={instance.minimum_values!r} for {label!r}, so nothing "
                "could enter",
            )


def _check_selection(instance: Any, attribute: _Attribute, value: Any) -> None:
    if not (isinstance(value, str) and value in ("uniform", "failure_rate")):
        _refuse(instance, attribute, value, "has to be 'uniform' or 'failure_rate'")


def _check_floor(instance: Any, attribute: _Attribute, value: Any) -> None:
    if not (is_number(value) and 0.0 < value <= 1.0):
        _refuse(
            instance,
            attribute,
            value,
            "has to be a number above 0 and up to 1; at 0, a solved bucket would never be drawn",
        )


def _check_seed(instance: Any, attribute: _Attribute, value: Any) -> None:
    if value is None:
        return
    try:
        checked_seed(value)
    except ConfigurationError:
        _refuse(instance, attribute, value, "has to be None or an int in [0, 2**64)")


def _probability(value: Any) -> Schedule:
    try:
        return validate_probability(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"RestartPoolConfiguration: {error}") from None


@attrs.frozen(kw_only=True)
class RestartPoolConfiguration:
    """How a `RestartPool` behaves. Every field but ``key`` has a default.

    Raises
    ------
    ConfigurationError
        A value is of another kind, or out of its range; the message has the class, the field and
        the value. Nothing is rounded or clipped.
    TypeError
        ``key`` is left out, or there is no field of that name.

    Notes
    -----
    Nothing in it can be changed, the bounds included. It hashes, and equals another of the same
    values; it can be copied and pickled.
    """

    key: tuple[str, ...] = attrs.field(converter=_tuple, validator=_check_key)
    """Labels of the marker values that make a point's bucket key, in this order.

    A label is a name, as the markers have it, and no expression: ``"x / 128"`` is the value that
    the marker calls so, and the marker divides, rounding down. Order matters, since a key is deeper
    than another by its first value that differs.
    """

    advance_window: int = attrs.field(default=100, converter=_int, validator=_check_count)
    """Restart episodes per bucket over which its advance rate is measured, the latest; at least 1.
    """

    checkpoint_points_per_key: int = attrs.field(
        default=0, converter=_int, validator=_check_count_or_zero
    )
    """How many of each bucket's newest points go into a checkpoint; 0 for all."""

    max_per_key: int = attrs.field(default=8, converter=_int, validator=_check_count)
    """Points kept per bucket, at least 1. A bucket is a ring: the newest win."""

    max_timeouts_per_point: int = attrs.field(default=3, converter=_int, validator=_check_count)
    """Time-outs after which a point leaves the pool, at least 1.

    They are counted over the point's whole life. Episodes that end, lost or won, never count.
    """

    minimum_values: Mapping[str, int] = attrs.field(
        factory=dict, converter=_bounds, validator=_check_bounds
    )
    """Lower bounds on marker values, inclusive, applied to offers and to what is restored."""

    maximum_values: Mapping[str, int] = attrs.field(
        factory=dict, converter=_bounds, validator=_check_maximum
    )
    """Upper bounds on marker values; see ``minimum_values``."""

    probability: Schedule = attrs.field(default=Schedule.starting(0.0), converter=_probability)
    """Probability, in [0, 1], that an episode starts from a point. A number or a schedule.

    Where the pool is empty an episode starts normally, so early on this is an upper bound.
    """

    random_seed: int | None = attrs.field(default=None, converter=_int, validator=_check_seed)
    """Seed of the draws, in [0, 2**64); None takes one from the system."""

    save_in_checkpoints: bool = attrs.field(default=False, validator=_check_flag)
    """Whether `RestartPool.save_in_checkpoint` and ``restore_from_checkpoint`` do anything."""

    selection: Literal["uniform", "failure_rate"] = attrs.field(
        default="uniform", validator=_check_selection
    )
    """How a bucket is chosen: each alike, or by ``max(1 - advance_rate, selection_floor)``.

    A bucket without finished episodes counts as failing. Within a bucket every point is as likely.
    """

    selection_floor: float = attrs.field(default=0.1, converter=_floor, validator=_check_floor)
    """Smallest weight of a bucket under ``"failure_rate"``, above 0 and up to 1.

    A solved bucket has to be drawn now and then, or its advance rate would never change again.
    """
