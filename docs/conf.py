"""Sphinx: `python -m sphinx -W --keep-going -b html docs docs/_build/html`. It needs no network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cpreplay

project = "cpreplay"
author = "The cpreplay developers"
project_copyright = "The cpreplay developers"
version = release = cpreplay.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

# Single backticks in docstrings are references, and one that leads nowhere is an error.
default_role = "py:obj"
nitpicky = True

autodoc_typehints = "none"  # the docstrings say more than the annotations do
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # autodoc lists them already

html_theme = "furo"
html_title = f"cpreplay {release}"
