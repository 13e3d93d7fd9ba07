from typing import Any

class Ring:
    def __new__(
        cls,
        control: Any,
        columns: Any,
        storage: list[Any],
        inputs: tuple[Any, ...],
        tree: Any,
        settled: Any,
        lock: Any,
        snapshots: list[Any],
        capsule: Any,
        keep: Any,
    ) -> Ring: ...
    def add(self, values: Any, /) -> bool: ...
    def add_batch(self, values: Any, /) -> bool: ...
    def store(self, columns: list[Any], rows: int, /) -> None: ...
    def sample(self, block: Any, offsets: Any, lanes: int, words: Any, /) -> None: ...
    def sample_range(
        self, block: Any, offsets: Any, lanes: int, low: int, high: int, words: Any, /
    ) -> None: ...
    def update(self, rows: Any, tokens: Any, errors: Any, /) -> bool: ...

class Steps:
    def __new__(
        cls,
        n: int,
        n_envs: int,
        gamma: float,
        starts: Any,
        counts: Any,
        kept: list[Any],
        rewards: Any,
        keep: Any,
    ) -> Steps: ...
    def count(self, terminated: Any, truncated: Any, mask: Any, /) -> int: ...
    def append(self, step: tuple[Any, ...], out: tuple[Any, ...], /) -> None: ...
