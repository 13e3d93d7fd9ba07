"""Marker values: what they may be, the key they make, and which are out of bounds."""

from collections.abc import Mapping, Sequence
from typing import Any

from cpreplay.errors import MarkerLabelError, MarkerOverflowError, MarkerTypeError
from cpreplay.integers import is_int
from cpreplay.schedule import shown

#: The bucket key of a marker: the values of the key's labels, in their order.
Key = tuple[int, ...]


def fits_64_bits(value: int) -> bool:
    """Whether an int is one of 64 bits with a sign."""
    return -(2**63) <= value < 2**63


def is_label(value: Any) -> bool:
    """Whether a value is a text that is not empty, and that a file can hold."""
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half a pair of surrogates
        return False
    return True


class Markers:
    """What a pool's configuration says about marker values.

    Parameters
    ----------
    labels : sequence of str
        Of the bucket key.
    minimum_values, maximum_values : mapping
        Bounds, inclusive.
    """

    def __init__(
        self,
        labels: Sequence[str],
        minimum_values: Mapping[str, int],
        maximum_values: Mapping[str, int],
    ) -> None:
        self._labels = tuple(labels)
        self._minimum, self._maximum = dict(minimum_values), dict(maximum_values)
        self._named = dict.fromkeys([*self._labels, *self._minimum, *self._maximum])

    @property
    def refusals(self) -> list[str]:
        """Every reason that `refusal` can give."""
        return [
            *(f"{label} < {bound}" for label, bound in self._minimum.items()),
            *(f"{label} > {bound}" for label, bound in self._maximum.items()),
        ]

    def checked(self, values: Any) -> dict[str, int]:
        """A copy of the values, as ints.

        Raises
        ------
        MarkerLabelError
            The key or a bound names a label that is not there.
        MarkerTypeError
            It is no mapping, a label is no text, or a value is no int (True is none).
        MarkerOverflowError
            A value does not fit 64 bits.
        """
        if not isinstance(values, Mapping):
            raise MarkerTypeError(
                f"values={shown(values)} has to be a mapping from label to int, like {{'level': 1}}"
            )
        checked: dict[str, int] = {}
        for label, value in values.items():
            if not is_label(label):
                raise MarkerTypeError(f"values: the label {label!r} has to be a text in UTF-8")
            if not is_int(value):
                raise MarkerTypeError(
                    f"values[{label!r}]={value!r} of type {type(value).__name__} has to be an int"
                )
            if not fits_64_bits(value):
                raise MarkerOverflowError(
                    f"values[{label!r}]={shown(value)} does not fit 64 bits with a sign"
                )
            checked[label] = int(value)
        for label in self._named:
            if label not in checked:
                raise MarkerLabelError(
                    f"values have no {label!a}, which the pool's key or bounds name; there is "
                    f"{', '.join(map(ascii, sorted(checked))) or 'nothing'}"
                )
        return checked

    def key(self, values: Mapping[str, int]) -> Key:
        """The bucket key of checked values."""
        return tuple(values[label] for label in self._labels)

    def refusal(self, values: Mapping[str, int]) -> str | None:
        """The first bound that checked values break, as ``"level < 1"``; None where they pass."""
        for label, bound in self._minimum.items():
            if values[label] < bound:
                return f"{label} < {bound}"
        for label, bound in self._maximum.items():
            if values[label] > bound:
                return f"{label} > {bound}"
        return None
