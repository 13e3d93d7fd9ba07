"""Sources of random words: their states go through JSON, and a stream goes on where it was."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cpreplay import CheckpointError, ConfigurationError
from cpreplay.philox import ROWS
from cpreplay.words import (
    GeneratorWords,
    PhiloxWords,
    generator_named,
    numbered_seed,
    numbered_state,
    word_source,
)
from tests.golden import reference

KINDS: dict[str, Callable[[int], np.random.BitGenerator]] = {
    "PCG64": np.random.PCG64,
    "PCG64DXSM": np.random.PCG64DXSM,
    "SFC64": np.random.SFC64,
    "Philox": np.random.Philox,
    "MT19937": np.random.MT19937,
}


def generator(name: str, seed: int = 1) -> np.random.Generator:
    """One that has drawn an odd number of 32-bit numbers, and some others."""
    rng = np.random.Generator(KINDS[name](seed))
    rng.integers(0, 2**32, 7, np.uint32)
    rng.random(6)  # Philox makes four words at a time: its buffer is not at its beginning
    return rng


def through_json(state: dict[str, Any]) -> Any:
    return json.loads(json.dumps(state, allow_nan=False))


def mixed_draws(rng: np.random.Generator, words: GeneratorWords) -> list[int]:
    """What a caller and the buffer draw in turns."""
    drawn: list[int] = []
    for lanes in (1, 4, 7):
        drawn += rng.integers(0, 2**32, lanes, np.uint32).tolist()
        drawn += words.draw(0, lanes, ROWS).tolist()
    return drawn


@pytest.mark.parametrize("name", KINDS)
def test_words_go_on_where_they_were_saved(name: str) -> None:
    first, second = generator(name), generator(name, seed=2)
    words, others = GeneratorWords(first), GeneratorWords(second)
    words.draw(0, 5, ROWS)
    state = through_json(words.state())
    assert state["name"] == name
    others.restore(state, None)()
    assert others.state() == words.state()
    assert mixed_draws(second, others) == mixed_draws(first, words)


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_taken_up_before_the_last_call(name: str) -> None:
    rng = generator(name)
    words = GeneratorWords(rng)
    other = GeneratorWords(generator(name, seed=9)).state()
    before = words.state()
    take = words.restore(other, None)
    assert words.state() == before
    take()
    assert words.state() == other
    words.restore(before, 5)()
    assert words.state() == GeneratorWords(np.random.Generator(KINDS[name](5))).state()


@pytest.mark.parametrize("there", [*KINDS, "philox"])
@pytest.mark.parametrize("here", [*KINDS, "philox"])
def test_a_state_of_another_generator_needs_a_seed(there: str, here: str) -> None:
    def source(name: str) -> Any:
        return word_source(1, "philox" if name == "philox" else generator(name))

    words, state = source(here), source(there).state()
    before = words.state()
    if there == here:
        words.restore(state, None)()
        return
    with pytest.raises(CheckpointError, match=f"from .*{there}.*seed="):
        words.restore(state, None)
    assert words.state() == before
    words.restore(state, 7)()
    fresh = (
        PhiloxWords(7) if here == "philox" else GeneratorWords(np.random.Generator(KINDS[here](7)))
    )
    assert words.state() == fresh.state()


def changed(state: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A copy of a state with one value replaced."""
    copy: Any = through_json(state)
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    if value is KeyError:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return dict(copy)


# Beside the generator's name, where a state of it is made wrong, and how.
NONSENSE: dict[str, list[tuple[tuple[Any, ...], Any]]] = {
    "PCG64": [
        (("state",), None),
        (("state",), []),
        (("state", "state"), KeyError),
        (("state", "state"), 1.5),
        (("state", "state", "state"), -1),
        (("state", "state", "state"), 2**128),
        (("state", "state", "state"), "1"),
        (("state", "state", "state"), True),
        (("state", "state", "inc"), 2**128 + 1),
        (("state", "state", "inc"), 2),  # an even increment is none of PCG's
        (("state", "state", "more"), 1),
        (("state", "bit_generator"), "SFC64"),
        (("state", "bit_generator"), None),
        (("state", "has_uint32"), 2),
        (("state", "has_uint32"), None),
        (("state", "uinteger"), 2**32),
        (("state", "uinteger"), -1),
    ],
    "PCG64DXSM": [
        (("state", "state", "state"), 2**128),
        (("state", "state", "inc"), 2),
        (("state", "has_uint32"), 2),
    ],
    "SFC64": [
        (("state", "state", "state"), [1, 2, 3]),
        (("state", "state", "state"), [1, 2, 3, 2**64]),
        (("state", "state", "state"), [1, 2, 3, -1]),
        (("state", "state", "state"), [1, 2, 3, None]),
        (("state", "state", "state"), [1, 2, 3, 1.5]),
        (("state", "state", "state"), [[1, 2, 3, 4]]),
        (("state", "state", "state"), "abcd"),
        (("state", "has_uint32"), 2),
    ],
    "Philox": [
        (("state", "state", "counter"), [1, 2, 3]),
        (("state", "state", "key"), [1, 2, 3]),
        (("state", "buffer"), [1, 2, 3, 2**64]),
        (("state", "buffer"), None),
        (("state", "buffer_pos"), -1),
        (("state", "buffer_pos"), 5),
        (("state", "buffer_pos"), None),
        (("state", "buffer_pos"), 2**40),
    ],
    "MT19937": [
        (("state", "state", "key"), [0] * 623),
        (("state", "state", "key"), [2**32] * 624),
        (("state", "state", "pos"), -1),
        (("state", "state", "pos"), 625),  # NumPy takes it, and reads beyond the key
        (("state", "state", "pos"), 2**31),
        (("state", "state", "pos"), "0"),
    ],
}


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [(name, path, value) for name, cases in NONSENSE.items() for path, value in cases],
)
def test_a_state_of_no_generator_is_refused_and_changes_nothing(
    name: str, path: tuple[Any, ...], value: Any
) -> None:
    words = GeneratorWords(generator(name))
    before = words.state()
    with pytest.raises(CheckpointError):
        words.restore(changed(before, path, value), None)
    assert words.state() == before


# Of each generator, what decides the words that it gives next.
PARTS = {
    "PCG64": [("state", "state"), ("state", "inc"), ("has_uint32",), ("uinteger",)],
    "PCG64DXSM": [("state", "state"), ("state", "inc"), ("has_uint32",), ("uinteger",)],
    "SFC64": [("state", "state", 0), ("state", "state", 3), ("has_uint32",), ("uinteger",)],
    "Philox": [
        ("state", "counter", 0),
        ("state", "key", 1),
        ("buffer", 3),
        ("buffer_pos",),
        ("has_uint32",),
        ("uinteger",),
    ],
    "MT19937": [("state", "key", 300), ("state", "pos")],
}


@pytest.mark.parametrize(
    ("name", "part"), [(name, part) for name, parts in PARTS.items() for part in parts]
)
def test_every_part_of_a_generators_state_decides_what_is_drawn(
    name: str, part: tuple[Any, ...]
) -> None:
    """Also the half word that is left over, which the caller's own 32-bit draws take."""
    rng = generator(name)
    words = GeneratorWords(rng)
    words.draw(0, 1, ROWS)  # MT19937 twists its key at once, PCG64 keeps what was left over
    state = words.state()
    inner: Any = state["state"]
    for step in part:
        inner = inner[step]
    # By two, since the increment of PCG64 has to stay odd.
    other = 1 - inner if part == ("has_uint32",) else inner - 2 if inner >= 2 else inner + 2
    other_rng = generator(name, seed=3)
    others = GeneratorWords(other_rng)
    others.restore(changed(state, ("state", *part), other), None)()

    def drawn(rng: np.random.Generator, words: GeneratorWords) -> list[int]:
        return [*mixed_draws(rng, words), *words.draw(0, 400, ROWS).tolist()]

    assert drawn(other_rng, others) != drawn(rng, words)


def test_numbered_words_are_a_function_of_the_seed() -> None:
    words = PhiloxWords(3)
    state = through_json(words.state())
    assert state == {"name": "philox", "seed": 3} == numbered_state(3)
    other = PhiloxWords(4)
    other.restore(state, None)()
    expected = [reference.lane_word(3, 2**33 + 1, lane) for lane in range(5)]
    assert other.draw(2**33 + 1, 5, ROWS).tolist() == expected
    other.restore(state, 2**64 - 1)()
    assert other.draw(0, 1, ROWS).tolist() == [reference.lane_word(2**64 - 1, 0, 0)]


@pytest.mark.parametrize("seed", [None, -1, 2**64, 1.0, "1", True, KeyError])
def test_a_numbered_state_without_a_seed_is_refused(seed: Any) -> None:
    """None too, for which a new seed would be drawn from the system."""
    state = changed(numbered_state(3), ("seed",), seed)
    words = PhiloxWords(4)
    for call in (lambda: words.restore(state, None), lambda: numbered_seed(state, None)):
        with pytest.raises(CheckpointError):
            call()
    assert words.state() == numbered_state(4)
    assert numbered_seed(state, 9) == 9


def test_a_loaded_buffer_gets_a_generator_of_the_name_that_was_saved() -> None:
    assert generator_named("philox") == "philox"
    assert generator_named("PCG64") is None  # the default
    for name, kind in KINDS.items():
        if name != "PCG64":
            assert type(generator_named(name).bit_generator) is kind
    for name in ("Philox4x64", "pcg64", "", "Generator", "RandomState", "None"):
        with pytest.raises(CheckpointError, match="rng="):
            generator_named(name)


def test_only_generators_of_numpy_and_philox_are_sources() -> None:
    for wrong in ("pcg64", "", 3, np.random, np.random.RandomState(0), np.random.PCG64(0)):
        with pytest.raises(ConfigurationError, match="rng="):
            word_source(0, wrong)
    words = word_source(5, None)
    assert words.draw(0, 3, ROWS).tolist() == reference.Pcg64Words(5).next(3)


@pytest.mark.parametrize("seed", [None, 0, 5])
@pytest.mark.parametrize("name", [*KINDS, "philox"])
def test_with_a_seed_too_nothing_is_taken_up_before_the_last_call(
    name: str, seed: int | None
) -> None:
    """0 is a seed as any other."""

    def source(seed: int) -> Any:
        return word_source(
            seed, "philox" if name == "philox" else np.random.Generator(KINDS[name](seed))
        )

    words, other = source(1), source(9)
    before = words.state()
    take = words.restore(other.state(), seed)
    assert words.state() == before
    take()
    assert words.state() == (other if seed is None else source(seed)).state()


@pytest.mark.parametrize("name", KINDS)
def test_a_state_without_the_generators_own_is_refused(name: str) -> None:
    words = GeneratorWords(generator(name))
    with pytest.raises(CheckpointError, match=name):
        words.restore(changed(words.state(), ("state",), KeyError), None)


@pytest.mark.parametrize(
    ("name", "words_of_a_block", "place"),
    [("MT19937", 624, ("state", "pos")), ("Philox", 4, ("buffer_pos",))],
)
def test_a_generator_that_has_used_up_its_block_has_a_state(
    name: str, words_of_a_block: int, place: tuple[str, ...]
) -> None:
    """Its position is then the largest that there is."""
    words = GeneratorWords(np.random.Generator(KINDS[name](1)))
    state = changed(words.state(), ("state", *place), words_of_a_block)
    words.restore(state, None)()
    assert words.state() == state
    others = GeneratorWords(generator(name, seed=2))
    others.restore(state, None)()
    assert others.draw(0, 9, ROWS).tolist() == words.draw(0, 9, ROWS).tolist()
