"""Waiting for the ZooKeeper session of a killed broker to end."""

from __future__ import annotations

from broker.dev.polling import wait_until
from tests.support.cluster import CLOCK, Broker
from tests.support.zookeeper import zookeeper_client

TIMEOUT_MS = 60_000


def await_session_end(broker: Broker) -> None:
    """A killed broker's registration lives as long as its session, and a new process would end at once."""
    path = f"/brokers/ids/{broker.broker_id}"
    with zookeeper_client(broker.settings["zookeeper.connect"]) as client:
        assert wait_until(lambda: client.exists(path) is None, CLOCK, TIMEOUT_MS)
