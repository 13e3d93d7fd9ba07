"""Checkpoints of replay buffers that stay for ever, and the minibatches that come after them."""

from pathlib import Path

FOLDER = Path(__file__).parent
