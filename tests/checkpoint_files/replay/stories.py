"""What happened to each buffer before it was saved, what happens after, and what must come of it.

The witness imports nothing of the library: draws are those of `tests.golden.reference`, rings,
priorities and windows those of the models in lists. Every number is a fraction of few bits, so
that float32 holds it exactly; exponents are 1/2 and 1, whose powers are the same everywhere.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.golden import reference
from tests.models import PrioritizedModel, UniformModel
from tests.nstep_model import Recording, Step, Window

Operation = dict[str, Any]
Row = dict[str, Any]

CAPACITY = 24
BATCH = 6
SEED = 7
ALPHA, BETA, EPSILON = 0.5, 0.5, 0.25
N, GAMMA, N_ENVS = 3, 0.5, 2

NAMES = ("uniform", "prioritized", "n_step")


def transition(number: int) -> Row:
    return {
        "obs": [float(number), number / -2],
        "action": [number / 4],
        "reward": number / 8,
        "next_obs": [number + 1.0, (number + 1) / -2],
        "terminated": number % 5 == 0,
    }


def steps(number: int) -> list[Row]:
    """One step of each environment of the n-step block; episodes end now and then."""
    return [
        {
            **transition(100 * env + number),
            "terminated": (number + 3 * env) % 7 == 6,
            "truncated": (number + 2 * env) % 9 == 5,
        }
        for env in range(N_ENVS)
    ]


def add(first: int, count: int) -> Operation:
    return {"do": "add", "first": first, "count": count}


def step(number: int) -> Operation:
    return {"do": "step", "number": number}


def update(number: int) -> Operation:
    """TD errors for the last draw, which no two lanes share."""
    return {"do": "update", "errors": [((5 * lane + number) % 11 - 5) / 2 for lane in range(BATCH)]}


SAMPLE: Operation = {"do": "sample"}


def before(name: str) -> list[Operation]:
    """Up to the save: the ring is wrapped, and two steps of each environment may be pending."""
    if name == "uniform":
        return [add(0, 40), *[SAMPLE] * 5]
    if name == "prioritized":
        rounds = [[add(40 + 2 * k, 2), SAMPLE, update(k)] for k in range(6)]
        return [add(0, 40), *(operation for each in rounds for operation in each)]
    return [operation for k in range(22) for operation in (step(k), *([SAMPLE] if k > 9 else []))]


def after(name: str) -> list[Operation]:
    """What comes after it was taken up."""
    if name == "uniform":
        return [operation for k in range(12) for operation in (add(40 + k, k % 2 + 1), SAMPLE)]
    if name == "prioritized":
        rounds = []
        for k in range(12):
            # An update that comes after the next rows: some of those that were drawn are gone.
            rounds += [SAMPLE, add(60 + 2 * k, 2), update(k + 6)]
            if k == 6:
                rounds.append({"do": "beta", "beta": 1.0})
        return rounds
    return [operation for k in range(22, 34) for operation in (step(k), SAMPLE)]


@dataclass
class Witness:
    """The buffer of a story, in lists."""

    name: str
    model: Any = None
    recording: Recording = field(default_factory=lambda: Recording(N, GAMMA, N_ENVS))
    _rows: list[int] = field(default_factory=list)
    _token: Any = None

    def __post_init__(self) -> None:
        if self.name == "prioritized":
            self.model = PrioritizedModel(CAPACITY, reference.PhiloxWords(SEED))
            self.model.configure_per(ALPHA, BETA, EPSILON)
        else:
            self.model = UniformModel(CAPACITY, reference.Pcg64Words(SEED))

    def play(self, operation: Operation) -> Row | None:
        """Do it; what a draw gives."""
        match operation:
            case {"do": "add", "first": first, "count": count}:
                rows = [transition(number) for number in range(first, first + count)]
                ring = self.model if self.name == "prioritized" else self.model.ring
                ring.add_batch(rows)
            case {"do": "step", "number": number}:
                append = self.recording.appends
                self.recording.append([Step(**one) for one in steps(number)])
                windows = self.recording.windows_of(append)
                self.model.ring.add_batch([_of_window(window) for window in windows])
            case {"do": "update", "errors": errors}:
                self.model.update(self._token, self._rows, errors)
            case {"do": "beta", "beta": beta}:
                self.model.set_beta(beta)
            case {"do": "sample"}:
                return self._sample()
        return None

    def _sample(self) -> Row:
        drawn = self.model.sample(BATCH)
        weights = None
        if self.name == "prioritized":
            drawn, weights = drawn
            self._token = self.model.token(drawn)
        self._rows = drawn
        found = self.model.minibatch(drawn)
        batch: Row = {"indices": drawn}
        if weights is not None:
            batch["weights"] = weights
        return batch | {column: [row[column] for row in found] for column in found[0]}


def _of_window(window: Window) -> Row:
    return {
        "obs": window.first.obs,
        "action": window.first.action,
        "reward": float(window.returned(GAMMA)),
        "next_obs": window.last.next_obs,
        "terminated": window.last.terminated,
        "discount": float(window.discount(GAMMA)),
    }


def expected(name: str) -> list[Row]:
    """The minibatches after the save, in order."""
    witness = Witness(name)
    for operation in before(name):
        witness.play(operation)
    if name == "n_step":
        assert any(witness.recording.pending())
    assert witness.model.ring.total > CAPACITY
    played = [witness.play(operation) for operation in after(name)]
    assert name != "prioritized" or witness.model.stale_updates > 0
    return [batch for batch in played if batch is not None]
