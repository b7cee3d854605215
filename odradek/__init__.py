"""Clusters of Odradek, a Kafka-compatible broker, for a Python program or a test suite.

    from odradek import Cluster

    with Cluster(brokers=3) as cluster:
        print(cluster.bootstrap_servers)

Everything runs in processes of its own; this package imports nothing but the standard library, so that it never meets
the modules of the program that uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.cluster import Cluster, ClusterError

__all__ = ["Cluster", "ClusterError"]


def __getattr__(name: str) -> object:
    """`Cluster` and `ClusterError`, imported when they are asked for: pytest imports this package at every start."""
    if name in __all__:
        from odradek import cluster

        return getattr(cluster, name)
    raise AttributeError(f"module 'odradek' has no attribute {name!r}")
