"""A restart pool on an NES game: deeper episodes, and what a dead end does to a run.

Part 1: an agent learns girder (girder/README.md) from normal starts alone, and with a pool whose
buckets are drawn uniformly or by failure rate. Part 2: the pool holds a point that no episode can
end from; once it is never dropped, once at its third time-out.

    pip install "cpreplay[nes]"
    python examples/restart_pool_nes.py --plot docs

The runs play in processes of their own, as many at a time as there are cores; a run is single-
threaded, so a seed gives the same result anywhere. An emulated step takes about 20 ms.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
    from tqdm import tqdm
except ModuleNotFoundError as error:
    raise SystemExit(
        f"restart_pool_nes.py needs {error.name}, which is not installed: "
        "pip install 'cpreplay[nes]'"
    ) from None

from girder_machine import LEVEL_WIDTH, PADS, Girder, stacked

from cpreplay import RestartPool, RestartPoolConfiguration
from cpreplay.gym import RestartWrapper

STEPS = 2_400  # of all environments of a run together
QUICK_STEPS = 40
KEY = ["level", "x / 32"]
SECTIONS = 8  # of a level

# Part 1.
SELECTIONS = ("normal starts", "uniform", "failure_rate")
ENVS, TIME_LIMIT, RESTART_LIMIT = 4, 120, 40
PROBABILITY = 0.75
LEARNING_RATE, DISCOUNT, EPSILON = 0.5, 0.95, 0.1

# Part 2.
NEVER = 2**62  # time-outs
PATIENCE = {"never dropped": NEVER, "dropped at its third time-out": 3}
DEAD_ENVS = 8
STUMBLING = (1, 4, 4, 4, 0)  # right, left three times, nothing: hardly anyone gets on
NOTHING, SAFE_RIGHT, LEFT, SAFE_RIGHT_UP = 0, 2, 4, 5

# Two of Okabe and Ito's colours, which stay apart for all kinds of colour vision.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"


@dataclass
class Episode:
    """One that has ended."""

    step: int  # of the run, at its end
    depth: float  # the deepest it got, in levels
    restarted: bool


@dataclass
class Learning:
    """What a run of part 1 leaves."""

    selection: str
    episodes: list[Episode] = field(default_factory=list)
    buckets: dict[tuple[int, ...], dict[str, Any]] = field(default_factory=dict)

    def deepest(self, *, normal_starts: bool) -> float:
        return max(
            (e.depth for e in self.episodes if not (normal_starts and e.restarted)), default=0
        )

    def mean_of_late_normal_starts(self) -> float:
        """Over the last third of the run."""
        late = self.episodes[-1].step * 2 / 3 if self.episodes else 0
        depths = [e.depth for e in self.episodes if not e.restarted and e.step > late]
        return float(np.mean(depths)) if depths else float("nan")


@dataclass
class DeadEnd:
    """What a run of part 2 leaves: after each step of all environments, two counts."""

    patience: str
    stuck: list[int] = field(default_factory=list)
    completed: list[int] = field(default_factory=list)
    dropped: int = 0


class Table:
    """Q-learning over the sections of the girder."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._q: dict[tuple[int, int], Any] = defaultdict(lambda: np.zeros(len(PADS)))

    def act(self, section: tuple[int, int]) -> int:
        q = self._q[section]
        if self._rng.random() < EPSILON:
            return int(self._rng.integers(len(q)))
        return int(self._rng.choice(np.flatnonzero(q == q.max())))

    def learn(
        self, before: tuple[int, int], action: int, reward: float, after: tuple[int, int] | None
    ) -> None:
        ahead = 0.0 if after is None else DISCOUNT * self._q[after].max()
        self._q[before][action] += LEARNING_RATE * (reward + ahead - self._q[before][action])


def section(machine: Girder) -> tuple[int, int]:
    level, x = divmod(machine.depth, LEVEL_WIDTH)
    return level, x // 32


def learn(selection: str, seed: int, steps: int) -> Learning:
    """Several environments in turn, one table, and one pool."""
    pool = RestartPool(
        RestartPoolConfiguration(
            key=KEY,
            probability=0.0 if selection == "normal starts" else PROBABILITY,
            selection="failure_rate" if selection == "failure_rate" else "uniform",
            random_seed=seed,
        )
    )
    machines = [Girder(lives=1) for _ in range(ENVS)]
    envs = [
        RestartWrapper(
            stacked(machine, TIME_LIMIT),
            pool,
            machine.save,
            machine.load,
            reseed=machine.reseed,
            max_restart_steps=RESTART_LIMIT,
        )
        for machine in machines
    ]
    table, result = Table(seed), Learning(selection)
    infos = [env.reset(seed=1_000 * seed + number)[1] for number, env in enumerate(envs)]
    restarted = ["restart" in info for info in infos]
    deepest = [machine.depth for machine in machines]
    for step, number in zip(range(steps), itertools.cycle(range(ENVS))):
        env, machine = envs[number], machines[number]
        before = section(machine)
        action = table.act(before)
        _, reward, terminated, truncated, _ = env.step(action)
        if terminated:
            table.learn(before, action, -1.0, None)
        else:
            table.learn(before, action, reward, section(machine))
        deepest[number] = max(deepest[number], machine.depth)
        if terminated or truncated:
            depth = deepest[number] / LEVEL_WIDTH
            result.episodes.append(Episode(step, depth, restarted[number]))
            _, info = env.reset()
            restarted[number], deepest[number] = "restart" in info, machine.depth
        progress()
    for env in envs:
        env.close()
    result.buckets = {
        key: {name: bucket[name] for name in ("points", "restarts", "advance_rate")}
        for key, bucket in pool.stats()["buckets"].items()
    }
    return result


def meet_dead_end(patience: str, seed: int, steps: int) -> DeadEnd:
    """One walker gets stuck at level 2; then all start from what it left in the pool."""
    limit = max(4, steps // DEAD_ENVS // 3)
    pool = RestartPool(
        RestartPoolConfiguration(
            key=KEY,
            minimum_values={"level": 2, "x / 32": 2},  # from shortly before the dead end on
            probability=1.0,
            selection="failure_rate",
            max_timeouts_per_point=PATIENCE[patience],
            random_seed=seed,
        )
    )
    walk_into_the_dead_end(pool, seed)
    machines = [Girder(lives=1) for _ in range(DEAD_ENVS)]
    envs = [
        RestartWrapper(
            stacked(machine, limit), pool, machine.save, machine.load, reseed=machine.reseed
        )
        for machine in machines
    ]
    for number, env in enumerate(envs):
        env.reset(seed=1_000 * seed + number)
    rng, result, completed = np.random.default_rng(seed), DeadEnd(patience), 0
    for _ in range(steps // DEAD_ENVS):
        for env in envs:
            *_, terminated, truncated, _ = env.step(int(rng.choice(STUMBLING)))
            completed += terminated
            if terminated or truncated:
                env.reset()
            progress()
        result.stuck.append(sum(machine.values()["stuck"] for machine in machines))
        result.completed.append(completed)
    for env in envs:
        env.close()
    result.dropped = pool.stats()["dropped_points"]
    return result


def walk_into_the_dead_end(pool: RestartPool, seed: int) -> None:
    """Offer what an episode finds on its way to the dead end, the last point in it."""
    machine = Girder()
    env = RestartWrapper(stacked(machine, 200), pool, machine.save, machine.load)
    while not machine.values()["stuck"]:
        env.reset(seed=seed, options={"restart": False})
        env.step(SAFE_RIGHT)
        env.step(LEFT)  # to meet x = 96 within a step, with up held
        over = False
        while not (over or machine.values()["stuck"]):
            *_, terminated, truncated, _ = env.step(
                SAFE_RIGHT_UP if section(machine)[0] == 2 else SAFE_RIGHT
            )
            over = terminated or truncated
        seed += 1
    env.close()


# Steps taken by all runs, for the progress bar; set in each process.
_taken: Any = None


def count_in(taken: Any) -> None:
    global _taken
    _taken = taken


def progress() -> None:
    if _taken is not None:
        with _taken.get_lock():
            _taken.value += 1


def play_all(seed: int, steps: int, quiet: bool) -> tuple[list[Learning], list[DeadEnd]]:
    """Every run, in processes of their own."""
    context = multiprocessing.get_context("spawn")
    taken = context.Value("q", 0)
    total = steps * len(SELECTIONS) + steps // DEAD_ENVS * DEAD_ENVS * len(PATIENCE)
    workers = min(os.cpu_count() or 1, len(SELECTIONS) + len(PATIENCE))
    with (
        ProcessPoolExecutor(
            workers, mp_context=context, initializer=count_in, initargs=(taken,)
        ) as executor,
        tqdm(total=total, unit="step", disable=quiet) as bar,
    ):
        learnt = [executor.submit(learn, selection, seed, steps) for selection in SELECTIONS]
        dead = [executor.submit(meet_dead_end, patience, seed, steps) for patience in PATIENCE]
        waiting = {*learnt, *dead}
        while waiting:
            _, waiting = wait(waiting, timeout=0.2)
            bar.update(taken.value - bar.n)
        return [run.result() for run in learnt], [run.result() for run in dead]


# Pictures


def plot_depth(runs: list[Learning], path: Path, title: str) -> None:
    """Each episode's depth over the steps of the run, a panel for each way to begin."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    panels = figure.subplots(1, len(runs), sharex=True, sharey=True)
    for panel, run in zip(panels, runs, strict=True):
        for restarted, colour, label in (
            (False, BLUE, "from the normal start"),
            (True, ORANGE, "from a restart point"),
        ):
            chosen = [e for e in run.episodes if e.restarted == restarted]
            if chosen:
                steps, depths = [e.step for e in chosen], [e.depth for e in chosen]
                panel.plot(steps, depths, "o", color=colour, markersize=4, alpha=0.6, label=label)
                panel.step(
                    steps, np.maximum.accumulate(depths), where="post", color=colour, linewidth=1.5
                )
        name = run.selection if run.selection == "normal starts" else f'"{run.selection}"'
        panel.set_title(name, fontsize="medium")
        panel.set_xlabel("environment steps")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("deepest point of an episode (levels)")
    panels[-1].plot([], [], color=GREY, label="the deepest so far")
    panels[-1].legend(loc="upper left", fontsize="small")
    figure.savefig(path, dpi=100)


def plot_buckets(runs: list[Learning], path: Path, title: str) -> None:
    """The pools' buckets as tables: a row for each level, a column for each section."""
    runs = [run for run in runs if run.selection != "normal starts"]
    levels = 1 + max((key[0] for run in runs for key in run.buckets), default=0)
    figure = Figure(figsize=(12, 1.6 + 0.42 * levels), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    most = max((b["restarts"] for run in runs for b in run.buckets.values()), default=1)
    panels = figure.subplots(1, len(runs), sharey=True)
    for panel, run in zip(panels, runs, strict=True):
        drawn = np.full((levels, SECTIONS), np.nan)
        for (level, part), bucket in run.buckets.items():
            drawn[level, part] = bucket["restarts"]
            points, rate = bucket["points"], bucket["advance_rate"]
            panel.text(
                part,
                level,
                f"{points}" if rate is None else f"{points} · {rate:.0%}",
                ha="center",
                va="center",
                fontsize="small",
                color="white" if bucket["restarts"] > 0.6 * most else "black",
            )
        image = panel.imshow(drawn, origin="lower", aspect="auto", cmap="Blues", vmin=0, vmax=most)
        panel.set_title(f'"{run.selection}": points · advance rate, if any', fontsize="medium")
        panel.set(xlabel="section of the level (x / 32)", xticks=range(SECTIONS))
    panels[0].set(ylabel="level", yticks=range(levels))
    figure.colorbar(image, ax=panels, label="restarts drawn", ticks=MaxNLocator(integer=True))
    figure.savefig(path, dpi=100)


def plot_dead_end(runs: list[DeadEnd], path: Path, title: str) -> None:
    """How many environments are stuck, and how many episodes have been completed."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    top, bottom = figure.subplots(2, 1, sharex=True)
    for run, colour, style in zip(runs, (ORANGE, BLUE), ("-", "--"), strict=True):
        steps = DEAD_ENVS * np.arange(1, len(run.stuck) + 1)
        top.plot(steps, run.stuck, style, color=colour, label=run.patience)
        bottom.plot(steps, run.completed, style, color=colour)
    top.set(ylabel=f"environments in it, of {DEAD_ENVS}", ylim=(-0.3, DEAD_ENVS + 0.3))
    top.legend(title="a point in the dead end is", loc="center right", fontsize="small")
    bottom.set(xlabel="environment steps", ylabel="episodes completed")
    for panel in (top, bottom):
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=100)


def plot(learnt: list[Learning], dead: list[DeadEnd], folder: Path, seed: int, steps: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    about = f"girder, seed {seed}, {steps:,} steps a run"
    plot_depth(learnt, folder / "restart_pool_depth.png", f"{about}, {ENVS} environments")
    plot_buckets(learnt, folder / "restart_pool_buckets.png", f"The pools at the end: {about}")
    plot_dead_end(
        dead,
        folder / "restart_pool_dead_end.png",
        f"One restart point in a dead end: {about}, {DEAD_ENVS} environments",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="A restart pool on an NES game.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="of each run (%(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps a run")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="write three PNGs there")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    args = parser.parse_args()
    steps = QUICK_STEPS if args.quick else args.steps

    learnt, dead = play_all(args.seed, steps, args.quiet)
    for run in learnt:
        count = sum(e.restarted for e in run.episodes)
        print(
            f"{run.selection}: {len(run.episodes)} episodes, {count} of them restarted; deepest "
            f"from a normal start {run.deepest(normal_starts=True):.2f} levels, of all "
            f"{run.deepest(normal_starts=False):.2f}; mean of the late normal starts "
            f"{run.mean_of_late_normal_starts():.2f}; {len(run.buckets)} buckets"
        )
    for dead_run in dead:
        print(
            f"a dead end that is {dead_run.patience}: {dead_run.completed[-1]} episodes completed; "
            f"{np.mean(dead_run.stuck):.1f} of {DEAD_ENVS} environments in it on average, "
            f"{dead_run.stuck[-1]} at the end; {dead_run.dropped} points dropped"
        )
    if args.plot:
        plot(learnt, dead, args.plot, args.seed, steps)


if __name__ == "__main__":
    main()
