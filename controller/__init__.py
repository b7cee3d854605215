"""Floor 3: ZooKeeper access, election, the event thread, state machines, broker channels."""
