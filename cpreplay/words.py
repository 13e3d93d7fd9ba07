"""Where the random words of a host buffer come from, and how their stream is taken up again."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cpreplay.errors import CheckpointError, ConfigurationError
from cpreplay.philox import is_seed, philox_words, splitmix64

# The generators whose raw words are 64 random bits. A raw word of MT19937, say, has only 32.
_RAW_64_BIT = (np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64, np.random.Philox)

# Those that `generator_named` can make: all that come with NumPy.
_NUMPYS = {kind.__name__: kind for kind in (*_RAW_64_BIT, np.random.MT19937)}

#: The name of numbered draws in a state. NumPy's generator of that kind is "Philox".
NUMBERED = "philox"

Draw = Callable[[int, int, int], NDArray[np.uint64]]  # (draw number, lanes, purpose) -> words


class Words(Protocol):
    """A source of random words."""

    #: (draw number, lanes, purpose) -> one word a lane.
    draw: Draw

    def state(self) -> dict[str, Any]:
        """What `restore` needs, as values of JSON; ``name`` says which kind of source it is."""

    def restore(self, state: Mapping[str, Any], seed: int | None) -> Callable[[], None]:
        """Check what `state` gave, or raise; what is returned then takes the stream up there.

        An explicit ``seed`` begins another stream instead, whatever the state is.
        """


class PhiloxWords:
    """Numbered draws: a word is a function of the seed, the draw's number and the lane."""

    def __init__(self, seed: int) -> None:
        self._take(seed)

    def _take(self, seed: int) -> None:
        self._seed = seed
        self.draw: Draw = functools.partial(philox_words, splitmix64(seed))

    def state(self) -> dict[str, Any]:
        return numbered_state(self._seed)

    def restore(self, state: Mapping[str, Any], seed: int | None) -> Callable[[], None]:
        new = numbered_seed(state, seed)
        return lambda: self._take(new)


def numbered_state(seed: int) -> dict[str, Any]:
    """The state of numbered draws; which number comes next is in the control block."""
    return {"name": NUMBERED, "seed": seed}


def numbered_seed(state: Mapping[str, Any], seed: int | None) -> int:
    """The seed with which numbered draws go on; refused where the state is of another generator."""
    if seed is not None:
        return seed
    if state["name"] != NUMBERED:
        raise CheckpointError(
            f"this state draws from NumPy's {state['name']}, and the buffer draws Philox words by "
            'number; take it up in a host buffer without rng="philox", or give seed=... to begin '
            "another stream"
        )
    saved: Any = state.get("seed")
    if not is_seed(saved):
        raise CheckpointError(f"this is no state of numbered draws: its seed is {saved!r}")
    return int(saved)


class GeneratorWords:
    """The words of a NumPy generator, drawn one after the other."""

    def __init__(self, rng: np.random.Generator, *, own: bool = False) -> None:
        self._bits = rng.bit_generator
        #: Where compiled code takes the words itself: from a generator that nobody else draws from.
        self.capsule: Any = None
        if type(self._bits) in _RAW_64_BIT:
            raw = self._bits.random_raw
            if own:
                self.capsule = self._bits.capsule
            self.draw: Draw = lambda draw, lanes, purpose: raw(lanes)
        else:
            self.draw = lambda draw, lanes, purpose: rng.integers(0, 2**64, lanes, np.uint64)

    def state(self) -> dict[str, Any]:
        return {"name": type(self._bits).__name__, "state": _plain(self._bits.state)}

    def restore(self, state: Mapping[str, Any], seed: int | None) -> Callable[[], None]:
        kind = type(self._bits)
        if seed is not None:
            fresh = kind(seed).state
            return lambda: setattr(self._bits, "state", fresh)
        if state["name"] != kind.__name__:
            other = 'make it with rng="philox"' if state["name"] == NUMBERED else "give it that"
            raise CheckpointError(
                f"this state draws from {state['name']}, and the buffer from {kind.__name__}; "
                f"{other}, or give seed=... to begin another stream"
            )
        before = self._bits.state
        try:
            # Tried out here: the generators do not check a state before they take it.
            after = _like(before, state["state"])
            _refuse_out_of_bounds(after)
            self._bits.state = after
        except (KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
            raise CheckpointError(f"this is no state of {kind.__name__}: {error}") from None
        finally:
            self._bits.state = before
        return lambda: setattr(self._bits, "state", after)


def word_source(seed: int, rng: Any) -> Words:
    """Where the random words of a host buffer come from; see ``rng`` of `StoreReplay`."""
    if isinstance(rng, str):
        if rng != NUMBERED:
            raise ConfigurationError(f"rng={rng!r}: the only generator with a name is 'philox'")
        return PhiloxWords(seed)
    if rng is None:
        return GeneratorWords(np.random.Generator(np.random.PCG64(seed)), own=True)
    if not isinstance(rng, np.random.Generator):
        raise ConfigurationError(
            f"rng={rng!r}: a numpy.random.Generator is wanted, or 'philox'; make one with "
            "numpy.random.default_rng(seed)"
        )
    return GeneratorWords(rng)


def generator_named(name: str, *, needed: bool = True) -> Any:
    """What a buffer's ``rng`` has to be so that it can take up a state of that name.

    None for the default; also of a name that is not known, where its state is not needed.
    """
    if name == NUMBERED:
        return NUMBERED
    if name == "PCG64" or (name not in _NUMPYS and not needed):
        return None
    if name not in _NUMPYS:
        raise CheckpointError(
            f"this state draws from {name}, which is none of NumPy's generators; give one as "
            "rng=numpy.random.Generator(...), whose own state then does not matter"
        )
    return np.random.Generator(_NUMPYS[name](0))


def _plain(state: Any) -> Any:
    """A generator's state as values of JSON."""
    if isinstance(state, Mapping):
        return {name: _plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray | np.generic) else state


def _like(model: Any, value: Any) -> Any:
    """A plain state in the form that a generator of this kind gave, or ValueError."""
    if isinstance(model, Mapping):
        if not isinstance(value, Mapping) or set(value) != set(model):
            raise ValueError(f"it has to have {', '.join(sorted(model))}")
        return {name: _like(model[name], value[name]) for name in model}
    if isinstance(model, np.ndarray):
        array = np.array(value, model.dtype)
        if array.shape != model.shape or array.tolist() != value:  # a fraction would be cut off
            raise ValueError(f"{model.dtype} of shape {model.shape} is wanted")
        return array
    if type(value) is not type(model) and not (value is None or model is None):
        raise ValueError(f"{value!r} has to be of type {type(model).__name__}")
    return value


# What NumPy's setters do not check, and a draw then reads beyond its arrays by.
_BOUNDS = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1}


def _refuse_out_of_bounds(state: Mapping[str, Any]) -> None:
    for name, value in state.items():
        if isinstance(value, Mapping):
            _refuse_out_of_bounds(value)
        elif name in _BOUNDS and not 0 <= value <= _BOUNDS[name]:
            raise ValueError(f"{name}={value} is not in [0, {_BOUNDS[name]}]")
        elif name == "inc" and not value % 2:
            raise ValueError(f"inc={value} is even")
