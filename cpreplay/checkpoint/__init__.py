"""Checkpoint files: the container, and saves in the background."""
