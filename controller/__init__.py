"""Floor 2: ZooKeeper access, election, the event thread, state machines, broker channels."""
