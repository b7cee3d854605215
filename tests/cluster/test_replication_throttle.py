"""How fast a throttled replica is copied: what the limit says, on either side, and as fast as among Apache Kafka.

About half a minute, most of it waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.dev.polling import wait_until
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import CLOCK, Broker, Cluster, Kind
from tests.support.configs import TOPIC, alter_config, set_broker_config
from tests.support.replication import create_topic

RATE = 200_000
"""Bytes a second."""
RECORD, ANSWER = 10_000, 50_000
BATCH = len(wire.batch([b"x" * RECORD]))
COPIED = RATE * (ANSWER // BATCH * BATCH) / ANSWER
"""Of that is kept: an answer ends within a batch, which counts each time that it comes."""
FROM_S, TO_S = 4, 14
"""What a newcomer may have at once, and what a window of eleven seconds forgets, are seen in full before and after."""
BATCHES = RATE * (TO_S + 2) // BATCH
SETTINGS = {
    # Small answers that come often enough: a rate is not kept more exactly than that.
    "replica.fetch.max.bytes": str(ANSWER),
    "replica.fetch.wait.max.ms": "50",
    "auto.leader.rebalance.enable": "false",
}
SIDES = {"leader": 0, "follower": 1}
"""The broker that holds back."""


def copy_to(cluster: Cluster, topic: str, broker: int) -> None:
    """Add a replica."""
    partition = ReassignablePartition(partition_index=0, replicas=[0, broker])
    topics = [ReassignableTopic(name=topic, partitions=[partition])]
    with cluster.client() as client:
        (answer,) = client.call_controller(AlterPartitionReassignmentsRequest(topics=topics)).responses
    assert answer.partitions[0].error_code == 0, answer


def copied(broker: Broker, topic: str) -> int:
    """Bytes of the replica so far."""
    return sum(file.stat().st_size for file in broker.data.glob(f"{topic}-0/*.log"))


def rate_of(follower: Broker, topic: str) -> float:
    """Between two moments of the copy that the limit sets FROM_S and TO_S seconds after its beginning."""
    times = []
    for seconds in (FROM_S, TO_S):
        size = int(COPIED * seconds)
        assert wait_until(lambda size=size: copied(follower, topic) >= size, CLOCK, 120_000, 20)  # type: ignore[misc]
        times.append((CLOCK.monotonic_ms(), copied(follower, topic)))
    (began, before), (ended, after) = times
    return (after - before) * 1000 / (ended - began)


def measure(cluster: Cluster) -> dict[str, float]:
    """Both limits at the same time, each with a topic of its own."""
    for side, number in SIDES.items():
        create_topic(cluster, side, [[0]], min_isr=1)
        for _ in range(BATCHES):
            wire.produce(cluster.brokers[0], side, wire.batch([b"x" * RECORD]), acks=1)
        set_broker_config(cluster.brokers[number], **{f"{side}_replication_throttled_rate": str(RATE)})
        alter_config(cluster.brokers[0], TOPIC, side, **{f"{side}_replication_throttled_replicas": "*"})
        # Changes come in their order: who has the later one has that of the topic.
        set_broker_config(
            cluster.brokers[number], log_retention_ms="100000000", **{f"{side}_replication_throttled_rate": str(RATE)}
        )
    with ThreadPoolExecutor(len(SIDES)) as pool:
        futures = {}
        for side in SIDES:
            copy_to(cluster, side, 1)
            futures[side] = pool.submit(rate_of, cluster.brokers[1], side)
        return {side: future.result() for side, future in futures.items()}


def test_a_throttled_copy_has_the_rate_of_the_limit_and_of_kafka(
    make_cluster: Callable[..., Cluster], record_property: Callable[[str, object], None]
) -> None:
    kafka.require()
    kinds: tuple[Kind, ...] = ("odradek", "kafka")
    clusters = {kind: make_cluster([kind] * 2, settings=SETTINGS) for kind in kinds}
    with ThreadPoolExecutor(len(kinds)) as pool:
        futures = {kind: pool.submit(measure, cluster) for kind, cluster in clusters.items()}
        rates = {kind: future.result() for kind, future in futures.items()}
    for side in SIDES:
        text = ", ".join(f"{kind} {rates[kind][side]:,.0f} B/s" for kind in kinds)
        record_property(side, text)
        print(f"\n{side}, limit {COPIED:,.0f}: {text}")
        assert rates["odradek"][side] == pytest.approx(COPIED, rel=0.1), rates
        assert rates["odradek"][side] == pytest.approx(rates["kafka"][side], rel=0.1), rates
