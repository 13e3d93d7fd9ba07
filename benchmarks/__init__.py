"""Timings of cpreplay beside other libraries: ``python -m benchmarks.peers``."""
