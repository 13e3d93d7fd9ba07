"""The restart pool: episodes that start part-way through."""

from cpreplay.restart.configuration import RestartPoolConfiguration
from cpreplay.restart.point import Restart
from cpreplay.restart.pool import RestartPool

__all__ = ["Restart", "RestartPool", "RestartPoolConfiguration"]
