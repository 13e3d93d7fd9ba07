"""The libraries that are timed, a module each, used in the fastest way that their docs offer."""

from benchmarks.contenders import Contender
from benchmarks.libraries.cpprb import Cpprb
from benchmarks.libraries.flashbax import Flashbax
from benchmarks.libraries.ours import Cpreplay
from benchmarks.libraries.rlox import Rlox
from benchmarks.libraries.stable_baselines3 import StableBaselines3
from benchmarks.libraries.tianshou import Tianshou
from benchmarks.libraries.torchrl import Torchrl

CONTENDERS: tuple[Contender, ...] = (
    Cpreplay(),
    Cpprb(),
    Rlox(),
    StableBaselines3(),
    Torchrl(),
    Flashbax(),
    Tianshou(),
)
