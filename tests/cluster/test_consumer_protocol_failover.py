"""The coordinator of a consumer group (KIP-848) moves between three brokers; about half a minute."""

from __future__ import annotations

from collections.abc import Callable

from network.client.connection import Connection
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.cluster import CLOCK, HOST, Broker, Cluster
from tests.support.consumer_member import RawMember, describe, settle, wait_until
from tests.support.consumer_protocol import SETTINGS
from tests.support.coordinators import GROUP, coordinator_of, wait_internal_topic


def test_members_go_on_with_the_next_coordinator(make_cluster: Callable[..., Cluster]) -> None:
    settings = {
        **SETTINGS,
        "offsets.topic.replication.factor": "3",
        "group.consumer.session.timeout.ms": "45000",
        "zookeeper.session.timeout.ms": "4000",
    }
    cluster = make_cluster(["odradek"] * 3, settings=settings)
    group = "moves"
    with cluster.client() as client:
        topics = [CreatableTopic(name="t", num_partitions=6, replication_factor=3)]
        (created,) = client.call_controller(CreateTopicsRequest(topics=topics, timeout_ms=15_000)).topics
        assert created.error_code == 0

    def connected(broker: Broker) -> Connection:
        return Connection(HOST, broker.port, "test", CLOCK)

    wait_internal_topic(cluster, GROUP)
    first = coordinator_of(cluster, group, GROUP)
    connection = connected(first)
    members = [RawMember(connection, group, ["t"]) for _ in range(3)]

    def joined(member: RawMember) -> bool:
        return member.full(0).error_code == 0

    for member in members:
        wait_until(lambda member=member: joined(member), "a loaded coordinator")  # type: ignore[misc]
    wait_until(lambda: members[0].beat() and bool(members[0].owned), "the topic")
    everything = {(topic_id, number) for topic_id, _ in members[0].owned for number in range(6)}
    settle(members, everything)
    before = {member.member_id: (member.epoch, set(member.owned)) for member in members}
    epoch = describe(connection, group).group_epoch
    connection.close()

    first.kill()
    connection = connected(coordinator_of(cluster, group, GROUP))
    for member in members:
        member.connection = connection

    def answered() -> bool:
        return all(not member.send(member.epoch).error_code for member in members)

    wait_until(answered, "a loaded coordinator")
    assert describe(connection, group).group_epoch == epoch, "nothing has changed"
    for member in members:
        assert not member.full(member.epoch).error_code
        assert (member.epoch, member.owned) == before[member.member_id]
    gone = members.pop()
    assert gone.leave().error_code == 0
    settle(members, everything)
    connection.close()
