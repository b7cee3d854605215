"""A coordinator's data directory changes hands between Odradek and Apache Kafka, in both directions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from network.client.connection import Connection
from network.protocol.errors import ErrorCode as E
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.delete_groups import DeleteGroupsRequest
from network.protocol.messages.describe_groups import DescribeGroupsRequest
from network.protocol.messages.heartbeat import HeartbeatRequest
from network.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.offset_fetch import OffsetFetchRequest
from network.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.cluster import CLOCK, HOST, Cluster
from tests.support.groups import subscription


def call(cluster: Cluster, message: Any, version: int) -> Any:
    with Connection(HOST, cluster.brokers[0].port, "handover", CLOCK) as connection:
        return connection.call(message, version, 20_000)


def join(cluster: Cluster, group: str, instance_id: str | None = None, member_id: str = "") -> Any:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=120_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    )
    answer = call(cluster, request, 9)
    if answer.error_code == E.MEMBER_ID_REQUIRED:
        return join(cluster, group, instance_id, answer.member_id)
    assert answer.error_code == 0, E.of(answer.error_code)
    return answer


def sync(cluster: Cluster, group: str, member: Any, data: bytes, instance_id: str | None = None) -> bytes:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member.member_id, assignment=data)],
    )
    answer = call(cluster, request, 5)
    assert answer.error_code == 0, E.of(answer.error_code)
    return bytes(answer.assignment)


def heartbeat(cluster: Cluster, group: str, member: Any, instance_id: str | None = None) -> E:
    request = HeartbeatRequest(
        group_id=group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=instance_id,
    )
    return E.of(call(cluster, request, 4).error_code)


def commit(cluster: Cluster, group: str, offset: int, member: Any = None, metadata: str = "") -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata, committed_leader_epoch=0
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1 if member is None else member.generation_id,
        member_id="" if member is None else member.member_id,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    answer = call(cluster, request, 9)
    assert answer.topics[0].partitions[0].error_code == 0, E.of(answer.topics[0].partitions[0].error_code)


def committed(cluster: Cluster, group: str) -> list[tuple[int, int, str]]:
    answer = call(cluster, OffsetFetchRequest(group_id=group, topics=None), 7)
    assert answer.error_code == 0
    return [
        (each.committed_offset, each.committed_leader_epoch, each.metadata)
        for topic in answer.topics
        for each in topic.partitions
    ]


def wait_loaded(cluster: Cluster, *groups: str) -> None:
    end = time.monotonic() + 90
    with cluster.client() as client:
        client.coordinator(groups[0])
    while True:
        found = call(cluster, DescribeGroupsRequest(groups=list(groups)), 5).groups
        if not any(each.error_code for each in found):
            return
        assert time.monotonic() < end, {E.of(each.error_code) for each in found}
        time.sleep(0.1)


def change_hands(cluster: Cluster, kind: Any, *groups: str) -> None:
    (broker,) = cluster.brokers
    broker.stop()
    broker.kind = kind
    broker.start()
    cluster.wait_ready()
    wait_loaded(cluster, *groups)


@pytest.mark.parametrize("first", ["odradek", "kafka"])
def test_groups_and_offsets_change_hands(first: Any, make_cluster: Callable[..., Cluster]) -> None:
    other = "kafka" if first == "odradek" else "odradek"
    cluster = make_cluster([first], settings={"offsets.topic.num.partitions": "3"})
    with cluster.client() as client:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client.call_controller(CreateTopicsRequest(topics=[topic], timeout_ms=15_000))
    groups = ["dynamic", "static", "simple", "gone", "joining"]
    wait_loaded(cluster, *groups)
    dynamic = join(cluster, "dynamic")
    assert sync(cluster, "dynamic", dynamic, b"d") == b"d"
    static = join(cluster, "static", "i")
    assert sync(cluster, "static", static, b"s", "i") == b"s"
    commit(cluster, "dynamic", 1, dynamic, "müll")
    commit(cluster, "simple", 2)
    commit(cluster, "gone", 3)
    call(cluster, DeleteGroupsRequest(groups_names=["gone"]), 2)
    joining = join(cluster, "joining")

    for turn, kind in enumerate([other, first, other]):
        change_hands(cluster, kind, *groups)
        described = {g.group_id: g for g in call(cluster, DescribeGroupsRequest(groups=groups), 5).groups}
        assert {name: each.group_state for name, each in described.items()} == {
            "dynamic": "Stable",
            "static": "Stable",
            "simple": "Empty",
            "gone": "Dead",
            # Between join and sync nothing is stored yet: the member starts again.
            "joining": "Dead",
        }
        assert heartbeat(cluster, "joining", joining) is E.UNKNOWN_MEMBER_ID
        assert heartbeat(cluster, "dynamic", dynamic) is E.NONE
        assert heartbeat(cluster, "static", static, "i") is E.NONE
        assert sync(cluster, "dynamic", dynamic, b"") == b"d"
        (member,) = described["static"].members
        assert (member.member_id, member.group_instance_id, bytes(member.member_assignment)) == (
            static.member_id,
            "i",
            b"s",
        )
        assert (member.client_id, member.client_host) == ("handover", "/127.0.0.1")
        assert committed(cluster, "dynamic") == [(1 + turn, 0, "müll")]
        assert committed(cluster, "simple") == [(2, 0, "")]
        assert committed(cluster, "gone") == []
        commit(cluster, "dynamic", 2 + turn, dynamic, "müll")
        # A static member is replaced by whoever coordinates, and the next one knows the new id.
        static = join(cluster, "static", "i")
        assert sync(cluster, "static", static, b"", "i") == b"s"
