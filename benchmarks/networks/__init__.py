"""Whole networks, one process an engine, in turn: ``python -m benchmarks.networks.run --help``."""
