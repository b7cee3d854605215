"""Benchmarks: each runs as ``python -m benchmarks.NAME`` with ``--quick`` and ``--json``."""
