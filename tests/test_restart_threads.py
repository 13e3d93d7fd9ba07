"""A restart pool that 64 environments share: its outcome is that of one order of the calls.

The order is taken where it is decided: the pool's lock is replaced by one that notes, while it is
held, which call has taken it. The calls are then repeated in that order by a single thread, on
a new pool and on lists and loops, and everything that the threads were told has to come again.
"""

import io
import json
import random
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import zstandard

import cpreplay.restart.pool as pool_module
from cpreplay.errors import OrderError
from cpreplay.restart import Restart, RestartPool, RestartPoolConfiguration
from tests.restart_model import RestartModel

THREADS = 64
CALLS = 24  # of each thread
SEED = 20


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    """Threads change places after microseconds, so that a missing lock shows in a short test."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@attrs.define(eq=False)
class Call:
    """One call of a thread, what it gave, and when it held the pool's lock."""

    name: str
    draw: "Call | None" = None  # whose restart it is about
    about: dict[str, Any] = attrs.field(factory=dict)
    result: Any = None
    held: list[int] = attrs.field(factory=list)  # places in the order of all holders


class NotingLock:
    """A lock that notes the current call of each thread that takes it, in that order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.current = threading.local()
        self.order: list[Call] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        call: Call = self.current.call
        call.held.append(len(self.order))
        self.order.append(call)

    def __exit__(self, *_: Any) -> None:
        self._lock.release()
        time.sleep(0)  # others go first, so that what a call does after its hold would show


def stack_of(number: int) -> np.ndarray:
    return np.full((2, 3), number, np.int32)


def snapshot_of(number: int) -> bytes:
    """Bytes of a length of its own, also of none."""
    return b"%d" % number * (number % 7)


def given(restart: Restart | None) -> Any:
    """A draw's result as plain values."""
    if restart is None:
        return None
    return (
        restart.serial,
        restart.key,
        restart.values,
        restart.steps_used,
        restart.snapshot,
        restart.frame_stack.tolist(),
    )


def without_bytes(stats: dict[str, Any]) -> dict[str, Any]:
    """Statistics but for sizes: a point's name is compressed with it, and follows another order."""
    buckets = {
        key: {name: count for name, count in bucket.items() if name != "bytes"}
        for key, bucket in stats["buckets"].items()
    }
    return {**stats, "buckets": buckets, "bytes": None}


def perform(pool: RestartPool, call: Call, restart: Restart | None) -> Any:
    """Do a call; what it gives, or the error that says it came too late."""
    try:
        match call.name:
            case "offer":
                number = call.about["number"]
                return pool.offer(
                    snapshot_of(number),
                    stack_of(number),
                    call.about["values"],
                    steps_used=number,
                    restart=restart,
                )
            case "draw":
                return pool.draw(call.about["step"])
            case "reached":
                return pool.reached(restart, call.about["values"])
            case "finish":
                return pool.finish(restart, **call.about)
            case "abandon":
                return pool.abandon(restart)
            case "save" | "save_in_background" | "load":
                return getattr(pool, call.name)(call.about["path"])
            case _:
                return getattr(pool, call.name)()
    except OrderError as error:
        return str(error)


class Environments:
    """64 threads, each with calls of its own choice, which depend on its number alone."""

    def __init__(self, pool: RestartPool, folder: Path) -> None:
        self.pool = pool
        self.folder = folder
        self.lock = NotingLock()
        pool._lock = self.lock  # type: ignore[assignment]
        self.drawn: list[Call] = []  # that gave a restart, of all threads
        self.calls: list[Call] = []
        self.saved: list[Call] = []  # whole files
        self.failures: list[BaseException] = []

    def run(self) -> None:
        start = threading.Barrier(THREADS)
        threads = [
            threading.Thread(target=self._guarded, args=(number, start))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _guarded(self, number: int, start: threading.Barrier) -> None:
        try:
            start.wait()
            self._behave(number, random.Random(f"{SEED} {number}"))
        except BaseException as error:
            self.failures.append(error)

    def do(self, call: Call) -> Any:
        self.lock.current.call = call
        restart = None if call.draw is None else call.draw.result
        call.result = perform(self.pool, call, restart)
        self.calls.append(call)
        return call.result

    def _behave(self, thread: int, chance: random.Random) -> None:
        own: list[Call] = []  # draws whose restarts it has yet to end
        for number in range(thread * CALLS, (thread + 1) * CALLS):
            what = chance.choices(
                ["offer", "draw", "reached", "end", "shared", "look", "save"],
                [34, 22, 6, 14, 20, 4, 2],
            )[0]
            if what == "offer":
                episode = chance.choice(own) if own and chance.random() < 0.5 else None
                self.do(Call("offer", episode, {"number": number, "values": _values(chance)}))
            elif what == "draw":
                draw = Call("draw", about={"step": number})
                if self.do(draw) is not None:
                    own.append(draw)
                    self.drawn.append(draw)
            elif what == "reached" and own:
                self.do(Call("reached", chance.choice(own), {"values": _values(chance)}))
            elif what == "end" and own:
                self.do(_end(own.pop(chance.randrange(len(own))), chance))
            elif what == "shared" and self.drawn:
                draw = chance.choice(self.drawn[-4:])  # others report about it at the same time
                if chance.random() < 0.6:
                    self.do(Call("reached", draw, {"values": _values(chance)}))
                else:
                    self.do(_end(draw, chance))
            elif what == "look":
                self.do(Call(chance.choice(["stats", "buckets", "check"])))
            elif what == "save":
                self._save(number, chance.choice(["save", "save_in_background"]))
            if thread % 16 == 0 and number % CALLS == CALLS * 2 // 3 and self.saved:
                self.do(Call("load", about=dict(chance.choice(self.saved).about)))

    def _save(self, number: int, how: str) -> None:
        save = Call(how, about={"path": self.folder / f"{number}"})
        self.do(save)
        if how == "save":
            self.saved.append(save)


def _values(chance: random.Random) -> dict[str, int]:
    return {
        "level": chance.randrange(-1, 3),
        "x": chance.randrange(3),
        "lives": chance.randrange(4),
    }


def _end(draw: Call, chance: random.Random) -> Call:
    if chance.random() < 0.2:
        return Call("abandon", draw)
    steps = chance.choice([None, 1, 7, 30])
    return Call("finish", draw, {"timed_out": chance.random() < 0.5, "steps": steps})


def decided(order: list[Call]) -> list[Call]:
    """Each call once, where it took effect: that is its last hold of the lock."""
    return [call for place, call in enumerate(order) if call.held[-1] == place]


def points_of(path: Path) -> list[Any]:
    """The points of a file, read by zstandard, tarfile and NumPy alone."""
    with (
        open(path, "rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as stream,
    ):
        members = {}
        with tarfile.open(fileobj=io.BytesIO(stream.read())) as archive:
            for member in archive:
                content = archive.extractfile(member)
                assert content is not None
                assert member.name not in members
                members[member.name] = content.read()
    points = []
    for name in members:
        if name.endswith(".snapshot"):
            stem = name.removesuffix(".snapshot")
            about = json.loads(members[f"{stem}.json"])
            stack = np.load(io.BytesIO(members[f"{stem}.stack.npy"]), allow_pickle=False)
            points.append((about["values"], about["steps_used"], members[name], stack.tolist()))
    return points


def expected_point(point: dict[str, Any]) -> Any:
    number = point["content"]
    return (point["values"], number, snapshot_of(number), stack_of(number).tolist())


class ReplayOnLists:
    """The calls in their order, on the model; every result is compared."""

    def __init__(self, model: RestartModel) -> None:
        self.model = model
        self.restarts: dict[Call, dict[str, Any]] = {}
        self.files: dict[Path, dict[str, Any]] = {}
        self.loads: list[int] = []  # places in the order

    def __call__(self, order: list[Call]) -> None:
        for call in decided(order):
            # An offer that is taken holds the lock before and after it encodes, a load before and
            # after it reads.
            works = call.name == "load" or (call.name == "offer" and self._is_within_bounds(call))
            assert len(call.held) == 1 + works
            restart = None if call.draw is None else self.restarts[call.draw]
            getattr(self, f"_{call.name}", self._look)(call, restart)

    def _is_within_bounds(self, offer: Call) -> bool:
        return self.model.broken_bound(offer.about["values"]) is None

    def _offer(self, call: Call, _: Any) -> None:
        if any(call.held[0] < load < call.held[-1] for load in self.loads):
            assert call.result is False  # what was loaded while it was encoded took its place too
        else:
            assert self.model.offer(call.about["number"], call.about["values"]) == call.result

    def _draw(self, call: Call, _: Any) -> None:
        restart = self.model.draw()
        if restart is None:
            assert call.result is None
            return
        self.restarts[call] = restart
        values, steps_used, snapshot, stack = expected_point(restart)
        assert given(call.result) == (
            restart["serial"], restart["key"], values, steps_used, snapshot, stack,
        )  # fmt: skip

    def _reached(self, call: Call, restart: dict[str, Any]) -> None:
        if not restart["open"]:
            assert "has been finished or abandoned" in call.result
            return
        self.model.reached(restart, call.about["values"])
        assert call.result == restart["advanced"]

    def _finish(self, call: Call, restart: dict[str, Any]) -> None:
        if not restart["open"]:
            assert "has been finished or abandoned" in call.result
            return
        self.model.finish(restart, **call.about)
        assert call.result is None

    def _abandon(self, call: Call, restart: dict[str, Any]) -> None:
        if not restart["open"]:
            assert "has been finished or abandoned" in call.result
            return
        self.model.abandon(restart)
        assert call.result is None

    def _save(self, call: Call, _: Any) -> None:
        file = self.files[call.about["path"]] = self.model.file()
        assert points_of(call.about["path"]) == list(map(expected_point, file["points"]))

    def _save_in_background(self, call: Call, restart: Any) -> None:
        try:
            call.result.result()
        except CancelledError:  # a newer one took its place
            assert not call.about["path"].exists()
        else:
            self._save(call, restart)

    def _load(self, call: Call, _: Any) -> None:
        self.loads.append(call.held[-1])
        assert self.model.load(self.files[call.about["path"]]) == call.result

    def _look(self, call: Call, _: Any) -> None:
        points = Counter(point["key"] for point in self.model.points)
        if call.name == "buckets":
            assert list(call.result.items()) == sorted(points.items())
        elif call.name == "stats":
            self.holds(call.result)

    def holds(self, stats: dict[str, Any]) -> None:
        """The model counts the same."""
        model = self.model
        assert stats["points"] == len(model.points)
        assert stats["draws"] == model.draws
        assert stats["restarts"] == len(model.restarts)
        assert stats["in_flight"] == sum(restart["open"] for restart in model.restarts)
        assert {
            refusal: count for refusal, count in stats["offers_refused"].items() if count
        } == Counter(model.refused)
        for key, bucket in stats["buckets"].items():
            assert bucket["points"] == sum(point["key"] == key for point in model.points)
            assert bucket["advance_rate"] == model.advance_rate(key)
            assert bucket["weight"] == (model.weight(key) if bucket["points"] else 0.0)
            assert bucket["finished"] == sum(of == key for of, _ in model.entries)
            for name, event in (
                ("timeouts", "timeout"),
                ("late_reports", "late"),
                ("dropped_points", "dropped"),
                ("overwritten_points", "overwritten"),
            ):
                assert bucket[name] == model.reports.count((key, event)), name


class ReplayOnPool:
    """The calls in their order, by one thread on a new pool; every result is compared."""

    def __init__(self, pool: RestartPool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pool = pool
        self.restarts: dict[Call, Restart] = {}
        self.meanwhile: Callable[[], None] | None = None
        encode = pool_module.encode_point

        def encode_meanwhile(*args: Any) -> Any:
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                meanwhile()
            return encode(*args)

        monkeypatch.setattr(pool_module, "encode_point", encode_meanwhile)

    def __call__(self, order: list[Call]) -> None:
        calls = decided(order)
        loads = [call for call in calls if call.name == "load"]
        replaced: dict[Call, list[Call]] = {load: [] for load in loads}
        for call in calls:
            overtaken_by = [load for load in loads if call.held[0] < load.held[-1] < call.held[-1]]
            if call.name == "offer" and overtaken_by:
                replaced[overtaken_by[0]].append(call)
        elsewhere = {call for offers in replaced.values() for call in offers}
        for call in calls:
            if call.name == "load":
                self._while_encoding(replaced[call], call)
            elif call not in elsewhere:
                self._repeat(call)

    def _while_encoding(self, offers: list[Call], load: Call) -> None:
        """A load between the two holds of some offers: inside of what they do between these."""
        if not offers:
            self._repeat(load)
            return
        self.meanwhile = lambda: self._while_encoding(offers[1:], load)
        self._repeat(offers[0])

    def _repeat(self, call: Call) -> None:
        restart = None if call.draw is None else self.restarts[call.draw]
        if call.name in ("save", "save_in_background"):
            return  # files are the model's to judge
        result = perform(self.pool, call, restart)
        if call.name == "draw":
            if result is not None:
                self.restarts[call] = result
            assert given(result) == given(call.result)
        elif call.name == "stats":
            # Offers that a load replaced are counted after it, in an order that is lost here.
            result["offers"] = call.result["offers"]
            result["offers_of_restarts"] = call.result["offers_of_restarts"]
            assert without_bytes(result) == without_bytes(call.result)
        else:
            assert result == call.result


CONFIGURATIONS: dict[str, tuple[dict[str, Any], int | None]] = {
    "small rings": ({"max_per_key": 1, "max_timeouts_per_point": 2, "random_seed": 1}, None),
    "bounds": (
        {
            "max_per_key": 3,
            "max_timeouts_per_point": 1,
            "minimum_values": {"level": 0},
            "maximum_values": {"x": 1, "lives": 2},
            "random_seed": 2,
        },
        None,
    ),
    "one episode from a point": ({"max_per_key": 2, "random_seed": 2**64 - 1}, 1),
    "failing buckets": (
        {
            "max_per_key": 2,
            "max_timeouts_per_point": 2,
            "advance_window": 3,
            "selection": "failure_rate",
            "selection_floor": 0.25,
            "probability": 0.7,
            "minimum_values": {"lives": 1},
            "random_seed": 3,
        },
        2,
    ),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_64_threads_do_at_once_is_what_one_does_in_their_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, limit = CONFIGURATIONS[name]
    configuration = RestartPoolConfiguration(
        **{"key": ["level", "x"], "probability": 1.0, **options}
    )
    environments = Environments(RestartPool(configuration, max_in_flight_per_point=limit), tmp_path)
    environments.run()
    order = list(environments.lock.order)
    assert {id(call) for call in order} == {id(call) for call in environments.calls}

    seed, options = options["random_seed"], dict(options)
    del options["random_seed"]
    lists = ReplayOnLists(
        RestartModel(key=["level", "x"], seed=seed, max_in_flight=limit, **options)
    )
    lists(order)

    alone = RestartPool(configuration, max_in_flight_per_point=limit)
    ReplayOnPool(alone, monkeypatch)(order)

    shared = environments.pool
    shared._lock = nullcontext()  # type: ignore[assignment]
    shared.check()
    alone.check()
    lists.holds(shared.stats())
    assert without_bytes(shared.stats()) == without_bytes(alone.stats())
    assert shared.stats()["offers"] == sum(call.name == "offer" for call in environments.calls)
    assert shared.buckets() == alone.buckets()
    for pool in (shared, alone):
        pool.save(tmp_path / "end")
        assert points_of(tmp_path / "end") == [
            expected_point(point) for point in lists.model.file()["points"]
        ]
