"""Floor 3: the daemon: configuration, request handlers, replication, coordinators, command line."""
