"""Three Apache Kafka brokers become Odradek, one by one over the same directories, and Kafka again; 3 minutes.

All the time idempotent and plain producers write with acks=all, and a consumer reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.reference import kafka
from tests.support.cluster import Broker, Cluster, Kind
from tests.support.replication import (
    IdempotentLoad,
    PlainLoad,
    Reader,
    check_replicas,
    create_topic,
    read_back,
    wait_in_sync,
)

ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
PARTITIONS = len(ASSIGNMENT)
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "3",
}
# A controller that stops interrupts the threads that send its requests, and each that was sending says so.
ALWAYS = {
    "[RequestSendThread controllerId=#] Controller # fails to send a request to broker #.#.#.#:# (id: # rack: null) "
    "(kafka.controller.RequestSendThread)"
}
_ERROR = re.compile(r"^\[[^]]*\] ERROR (.*)$", re.MULTILINE)
_VARIABLE = re.compile(r"\d+|\b(?:once|plain|__consumer_offsets)\b")


class Lives:
    """Which part of a broker's log was written in which phase, and by which kind of process."""

    def __init__(self) -> None:
        self._parts: list[tuple[Broker, Kind, str, int]] = []

    def begin(self, broker: Broker, phase: str) -> None:
        """What this broker writes from now on, as the kind that it is now."""
        self._parts.append((broker, broker.kind, phase, broker.log_file.stat().st_size))

    def errors(self, kind: Kind, *phases: str) -> set[str]:
        """Error lines of a kind of broker, without their numbers and topics."""
        found: set[str] = set()
        for index, (broker, its_kind, phase, start) in enumerate(self._parts):
            end = next((later[3] for later in self._parts[index + 1 :] if later[0] is broker), None)
            if its_kind == kind and phase in phases:
                text = broker.log_file.read_bytes()[start:end].decode()
                found |= {_VARIABLE.sub("#", line) for line in _ERROR.findall(text)}
        return found


@pytest.mark.timeout(600)
def test_kafka_is_replaced_broker_by_broker_and_back(make_cluster: Callable[..., Cluster]) -> None:
    kafka.require()
    cluster = make_cluster(["kafka"] * 3, settings=SETTINGS)
    lives = Lives()
    for topic in ("once", "plain"):
        create_topic(cluster, topic, ASSIGNMENT)
    loads = [
        IdempotentLoad(cluster.bootstrap, "once", PARTITIONS),
        PlainLoad(cluster.bootstrap, "plain", PARTITIONS),
    ]
    reader = Reader(cluster.bootstrap, "once", PARTITIONS)
    with cluster.client() as client:
        first_controller = client.metadata([]).controller_id
    phases: list[tuple[str, Kind, list[Broker]]] = [
        ("among Kafka", "kafka", [cluster.brokers[first_controller]]),
        ("to Odradek", "odradek", cluster.brokers),
        ("back", "kafka", cluster.brokers),
    ]
    for phase, kind, replaced in phases:
        for broker in cluster.brokers:
            lives.begin(broker, phase)
        for broker in replaced:
            for load in loads:
                load.wait_progress(timeout_ms=90_000)
            broker.stop()
            broker.kind = kind
            lives.begin(broker, phase)
            broker.start()
            cluster.wait_ready()
            for load in loads:
                wait_in_sync(cluster, load.topic, 90_000)
    ends = {}
    for load in loads:
        load.wait_progress(timeout_ms=90_000)
        load.finish()
        wait_in_sync(cluster, load.topic)
        read = read_back(cluster, load.topic, PARTITIONS)
        load.check(read)
        ends[load.topic] = [len(values) for values in read.values()]
        if load.topic == "once":
            reader.finish(read)
    for broker in cluster.brokers:
        lives.begin(broker, "all stop at once")
    cluster.stop()
    check_replicas(cluster, ends)
    mixed = lives.errors("kafka", "to Odradek", "back")
    assert mixed <= ALWAYS | lives.errors("kafka", "among Kafka"), mixed
    assert not lives.errors("odradek", "to Odradek", "back")
