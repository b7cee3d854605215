"""Floor 4: the daemon: configuration, request handlers, replication, coordinators, command line."""

__version__ = "0.1.0"
