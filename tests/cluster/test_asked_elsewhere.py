"""What a broker answers where another one should have been asked: Apache Kafka and Odradek side by side. 10 s."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

from network.protocol.errors import ErrorCode
from network.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.clients.group_member import tell_refusals
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import Broker, Cluster
from tests.support.coordinators import GROUP, coordinator_of, wait_internal_topic
from tests.support.replication import create_topic

TOPIC = "t"
END, COMMITTED = 10, 7


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Each broker leads a partition, of which the other one has a replica."""
    kafka.require()
    cluster = make_cluster(["kafka", "odradek"], settings={"auto.leader.rebalance.enable": "false"})
    create_topic(cluster, TOPIC, [[0, 1], [1, 0]])
    wait_internal_topic(cluster, GROUP)
    return cluster


def test_asked_elsewhere(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    for leader in cluster.brokers:
        done = wire.produce(leader, TOPIC, wire.batch([b"value"] * END), partition=leader.broker_id)
        assert done.error_code == 0
    for asked in cluster.brokers:
        other = cluster.brokers[1 - asked.broker_id]
        group = group_of(cluster, other)
        commit(other, group, other.broker_id)
        check_offset_fetch(asked, group)
        check_fetch(asked, other.broker_id)
        check_aiokafka(cluster, group, other.broker_id, asked, capsys)


def group_of(cluster: Cluster, coordinator: Broker) -> str:
    names = (f"group-{number}" for number in itertools.count())
    return next(name for name in names if coordinator_of(cluster, name, GROUP) is coordinator)


def commit(coordinator: Broker, group: str, partition: int) -> None:
    place = OffsetCommitRequestPartition(partition_index=partition, committed_offset=COMMITTED, committed_metadata="")
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[place])
    answer = wire.call(coordinator, OffsetCommitRequest(group_id=group, topics=[topic]), 8)
    assert answer.topics[0].partitions[0].error_code == 0


def check_offset_fetch(broker: Broker, group: str) -> None:
    """Not its group: from version 2 on one error for all, and never an offset of -1. Version 1 says nothing at all."""
    for version in range(1, 10):
        if version >= 8:
            named = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1])
            groups = [OffsetFetchRequestGroup(group_id=group, topics=[named])]
            (answer,) = wire.call(broker, OffsetFetchRequest(groups=groups), version).groups
        else:
            topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])]
            answer = wire.call(broker, OffsetFetchRequest(group_id=group, topics=topics), version)
        error = ErrorCode.NONE if version == 1 else ErrorCode.NOT_COORDINATOR
        assert (version, answer.topics, ErrorCode.of(answer.error_code)) == (version, [], error)


def check_fetch(follower: Broker, partition: int) -> None:
    """From version 11 on a follower answers (KIP-392), as well as it can tell: what is behind its end is out of range.

    A client that sends the epoch of a leader that the follower has not heard of yet is told so.
    """

    def error(version: int, offset: int, epoch: int) -> ErrorCode:
        place = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1_000, current_leader_epoch=epoch
        )
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=TOPIC, partitions=[place])])
        ((found,),) = (topic.partitions for topic in wire.call(follower, request, version).responses)
        return ErrorCode.of(found.error_code)

    assert error(10, END, -1) is error(10, END + 1, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for version in (11, 12):
        assert error(version, END, -1) is ErrorCode.NONE
        assert error(version, END + 1, -1) is error(version, END + 1, 0) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert error(version, END + 1, 1) is ErrorCode.UNKNOWN_LEADER_EPOCH


def check_aiokafka(
    cluster: Cluster, group: str, partition: int, asked: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its coordinator moves on before it has asked for offsets: it begins at 0, and our ear at it hears why."""
    capsys.readouterr()
    assert asyncio.run(first_offset(cluster.bootstrap, group, partition, asked.broker_id)) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {event["error"] for event in told} == {ErrorCode.NOT_COORDINATOR}
    assert [TOPIC, partition] in [place for event in told for place in event["refused"]]


async def first_offset(bootstrap: str, group: str, partition: int, coordinator: int) -> int:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    tell_refusals(consumer)

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            """Nothing."""

        def on_partitions_assigned(self, assigned: Any) -> None:
            consumer._coordinator.coordinator_id = coordinator

    consumer.subscribe([TOPIC], listener=Listener())
    await consumer.start()
    try:
        while True:
            record = await asyncio.wait_for(consumer.getone(), 60)
            if record.partition == partition:
                return int(record.offset)
    finally:
        await consumer.stop()
