"""What goes wrong with a cluster of a program."""

from __future__ import annotations


class ClusterError(Exception):
    """A cluster could not be started, or did not do what it was asked; the message says why."""
