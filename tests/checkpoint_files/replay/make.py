"""Make these files, or check them: `python -m tests.checkpoint_files.replay.make [--check]`.

The checkpoints are what the library saved when version 1 of the format was new. What has to come
after them, ``expected.json``, is of a witness that imports nothing of the library: see `stories`.

A file that exists is never written again. Never delete one to make a test pass: runs that were
saved like it are somebody's.
"""

import argparse
import json
import sys
from typing import Any

from cpreplay import NStepSampleStep, ReplaySampleStep, StoreReplay
from tests.checkpoint_files.replay import FOLDER
from tests.checkpoint_files.replay.stories import (
    ALPHA,
    BATCH,
    BETA,
    CAPACITY,
    EPSILON,
    GAMMA,
    N_ENVS,
    NAMES,
    SEED,
    N,
    Operation,
    before,
    expected,
    steps,
    transition,
)


class Player:
    """A buffer of the library, or an n-step block over one, in a story.

    Parameters
    ----------
    target
        A buffer, or an n-step block after `setup`.
    """

    def __init__(self, target: Any) -> None:
        self.target = target
        self._last: Any = None

    def play(self, operation: Operation) -> Any:
        """Do it; what a draw gives."""
        match operation:
            case {"do": "add", "first": first, "count": count}:
                rows = [transition(number) for number in range(first, first + count)]
                self.target.add_batch(**{name: [row[name] for row in rows] for name in rows[0]})
            case {"do": "step", "number": number}:
                rows = steps(number)
                self.target.add_batch(**{name: [row[name] for row in rows] for name in rows[0]})
            case {"do": "update", "errors": errors}:
                self.target.update_priorities(self._last, errors)
            case {"do": "beta", "beta": beta}:
                self.target.set_beta(beta)
            case {"do": "sample"}:
                self._last = self._sample()
                return self._last
        return None

    def _sample(self) -> Any:
        if isinstance(self.target, NStepSampleStep):
            return self.target.step(0)
        return self.target.sample(BATCH)


def block_over(buffer: Any) -> NStepSampleStep:
    block = NStepSampleStep(ReplaySampleStep(buffer, BATCH), N, GAMMA, n_envs=N_ENVS)
    block.setup(learning_starts=0)
    return block


def new(name: str) -> Any:
    """The target of a story before its beginning."""
    if name == "prioritized":
        buffer = StoreReplay(2, 1, CAPACITY, True, seed=SEED, rng="philox")
        buffer.configure_per(ALPHA, BETA, EPSILON)
        return buffer
    if name == "uniform":
        return StoreReplay(2, 1, CAPACITY, seed=SEED)
    return block_over(StoreReplay(2, 1, CAPACITY, extra_columns={"discount": ()}, seed=SEED))


def as_text(minibatches: dict[str, list[Any]]) -> str:
    """JSON with a minibatch a line."""
    parts = [
        f'"{name}": [\n' + ",\n".join(json.dumps(batch) for batch in batches) + "\n]"
        for name, batches in minibatches.items()
    ]
    return "{" + ",\n".join(parts) + "}\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.checkpoint_files.replay.make")
    parser.add_argument("--check", action="store_true", help="write nothing, compare only")
    check = parser.parse_args().check
    text = as_text({name: expected(name) for name in NAMES})
    place = FOLDER / "expected.json"
    if not check and not place.exists():
        place.write_text(text)
    for name in NAMES:
        path = FOLDER / f"{name}_v1.tar.zst"
        if check or path.exists():
            continue
        player = Player(new(name))
        for operation in before(name):
            player.play(operation)
        player.target.save(path)
        print(f"{path.name} written")
    missing = [name for name in NAMES if not (FOLDER / f"{name}_v1.tar.zst").exists()]
    if missing or not place.exists() or place.read_text() != text:
        print(f"missing: {missing}, or expected.json is another", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
