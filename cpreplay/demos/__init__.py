"""Demonstrations: recorded, filed, filtered, and loaded into a replay buffer."""

from cpreplay.demos.file import read_demo_file, write_demo_file
from cpreplay.demos.filter import DemoFilter
from cpreplay.demos.load import DemoLoadReport, load_demos_into_replay
from cpreplay.demos.record import DemoSet, DemoSummary

__all__ = [
    "DemoFilter",
    "DemoLoadReport",
    "DemoSet",
    "DemoSummary",
    "load_demos_into_replay",
    "read_demo_file",
    "write_demo_file",
]
