"""Waiting for the ZooKeeper session of a killed broker to end."""

from __future__ import annotations

from kazoo.client import KazooClient

from broker.dev.waiting import wait_until
from tests.support.cluster import CLOCK, Broker

TIMEOUT_MS = 40_000


def await_session_end(broker: Broker) -> None:
    """A killed broker's registration lives as long as its session, and a new process would end at once."""
    zk = KazooClient(broker.settings["zookeeper.connect"])
    zk.start(30)
    try:
        path = f"/brokers/ids/{broker.broker_id}"
        assert wait_until(lambda: zk.exists(path) is None, CLOCK, TIMEOUT_MS)
    finally:
        zk.stop()
        zk.close()
