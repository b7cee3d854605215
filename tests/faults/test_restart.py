"""What a client sees of a broker that is starting; ten seconds."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from broker.dev.polling import wait_until
from network.protocol.messages.metadata import MetadataRequest
from tests.support import wire
from tests.support.cluster import CLOCK, Cluster


def test_no_answer_is_without_a_broker(make_cluster: Callable[..., Cluster]) -> None:
    """From its first answer on the broker names itself: a client that takes the list for all there is goes on."""
    cluster = make_cluster(["odradek"])
    broker = cluster.brokers[0]
    seen: list[tuple[list[int], int]] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            with contextlib.suppress(OSError):
                answer = wire.call(broker, MetadataRequest(topics=[]), 9)
                seen.append(([each.node_id for each in answer.brokers], answer.controller_id))

    for _ in range(3):
        broker.stop()
        seen.clear()
        done.clear()
        asking = threading.Thread(target=ask)
        asking.start()
        try:
            broker.start()
            cluster.wait_ready()
            assert wait_until(lambda: bool(seen) and seen[-1][1] == broker.broker_id, CLOCK, 60_000)
        finally:
            done.set()
            asking.join()
        assert all(brokers == [broker.broker_id] for brokers, _ in seen), seen[:3]
