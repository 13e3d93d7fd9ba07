"""Which version of cpreplay this is."""

__version__ = "0.1.0"
