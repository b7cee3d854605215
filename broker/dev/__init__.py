"""Local clusters for development and tests: real processes of the broker and of ZooKeeper."""
