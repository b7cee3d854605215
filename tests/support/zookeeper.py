"""A ZooKeeper client of the test's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kazoo.client import KazooClient


@contextlib.contextmanager
def zookeeper_client(connect: str) -> Iterator[KazooClient]:
    """Connected within 30 s, closed at the end."""
    client = KazooClient(hosts=connect)
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()
