"""An embedded ZooKeeper: one node that speaks the client protocol of ZooKeeper 3.9.

For development, tests and the edge; a cluster that must survive the loss of a machine runs ZooKeeper itself. The heart
is a state machine without I/O, threads or time (`machine.py`); `server.py` puts it on a socket, `store.py` on disk.
"""
