"""Checkpoint files that stay for ever, the program that made them, and what is in them."""

from pathlib import Path

FOLDER = Path(__file__).parent
