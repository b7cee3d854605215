"""Groups with `group.protocol=consumer` (KIP-848), on Odradek and on Apache Kafka 4.1.0; about four minutes."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator

import pytest

from network.client.connection import Connection
from network.protocol.messages.list_groups import ListGroupsRequest
from tests.clients.group_harness import MemberProcess, Members, group_name, names, produce, wait_for
from tests.clients.offsets import committed_offsets, wait_committed
from tests.reference import kafka
from tests.reference.kraft import VERSION
from tests.support.cluster import CLOCK, HOST, ROOT, Cluster, python_environment
from tests.support.consumer_member import describe
from tests.support.consumer_protocol import KINDS, running_consumer_cluster


@pytest.fixture(scope="module", params=KINDS)
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    name = f"consumer-protocol-{request.param}"
    directory, settings = (
        tmp_path_factory.mktemp(name),
        {
            "group.consumer.migration.policy": "bidirectional",
            # Longer than a restart of the broker takes on a busy machine.
            "group.consumer.session.timeout.ms": "20000",
        },
    )
    with running_consumer_cluster(request.param, directory, f"{zookeeper}/{directory.name}", settings) as cluster:
        yield cluster


@pytest.fixture
def add(members: Members) -> Callable[..., MemberProcess]:
    """Start a member: ``add(group, topic, instance_id=...)``."""
    return lambda group, *topics, **options: members.add("confluent", group, *topics, protocol="consumer", **options)


CreateTopic = Callable[..., str]
Add = Callable[..., MemberProcess]


def test_one_then_two_then_five_members_read_everything(
    cluster: Cluster, members: Members, create_topic: CreateTopic, add: Add
) -> None:
    topic, group = create_topic(6), group_name()
    first = [add(group, topic)]
    members.wait_balanced(first, names(topic, 6))
    members.wait_values(produce(cluster, topic, 60, 6))
    two = [*first, add(group, topic)]
    members.wait_balanced(two, names(topic, 6))
    members.wait_values(produce(cluster, topic, 60, 6))
    five = two + [add(group, topic) for _ in range(3)]
    members.wait_balanced(five, names(topic, 6))
    values = produce(cluster, topic, 60, 6)
    members.wait_values(values)
    assert set(members.counts(values).values()) == {1}
    for member in five[2:]:
        member.process.terminate()
    members.wait_balanced(two, names(topic, 6))


def test_a_crashed_member_is_replaced(cluster: Cluster, members: Members, create_topic: CreateTopic, add: Add) -> None:
    topic, group = create_topic(4), group_name()
    first, second = add(group, topic), add(group, topic)
    members.wait_balanced([first, second], names(topic, 4))
    second.kill()
    members.wait_balanced([first], names(topic, 4))
    members.wait_values(produce(cluster, topic, 40, 4))


def test_a_static_member_restarts_without_a_rebalance(
    cluster: Cluster, members: Members, create_topic: CreateTopic, add: Add
) -> None:
    topic, group = create_topic(4), group_name()
    stays = add(group, topic, instance_id="a")
    goes = add(group, topic, instance_id="b")
    members.wait_balanced([stays, goes], names(topic, 4))
    before, owned = stays.assignments, set(goes.owned)
    goes.leave()
    back = add(group, topic, instance_id="b")
    wait_for(lambda: back.owned == owned, lambda: f"{back} gets {owned}")
    members.wait_values(produce(cluster, topic, 40, 4))
    assert stays.assignments == before


def test_a_member_that_stops_polling_loses_its_partitions(
    cluster: Cluster, members: Members, create_topic: CreateTopic, add: Add
) -> None:
    topic, group = create_topic(2), group_name()
    first = add(group, topic, max_poll_interval_ms=8_000)
    stalling = add(group, topic, stall_after=1, max_poll_interval_ms=8_000)
    members.wait_balanced([first, stalling], names(topic, 2))
    produce(cluster, topic, 4, 2)
    wait_for(lambda: len(first.owned) == 2, lambda: f"{first} takes over")
    values = produce(cluster, topic, 20, 2)
    wait_for(lambda: {record[3] for record in first.records} >= set(values), lambda: f"{first} reads on")


def test_a_pattern_finds_topics_that_come_later(members: Members, create_topic: CreateTopic, add: Add) -> None:
    prefix = f"topic-{uuid.uuid4().hex[:8]}"
    one = create_topic(2, f"{prefix}-1")
    member = add(group_name(), pattern=f"^{prefix}-.*")
    members.wait_balanced([member], names(one, 2))
    two = create_topic(2, f"{prefix}-2")
    members.wait_balanced([member], names(one, 2) | names(two, 2))


def test_offsets_and_members_survive_a_restart_of_the_coordinator(
    cluster: Cluster, members: Members, create_topic: CreateTopic, add: Add
) -> None:
    topic, group = create_topic(4), group_name()
    first, second = add(group, topic), add(group, topic)
    members.wait_balanced([first, second], names(topic, 4))
    old = produce(cluster, topic, 40, 4)
    members.wait_values(old)
    wait_committed(cluster, group, topic, 4, 10)
    owned = set(first.owned)
    members.restart(cluster)
    new = produce(cluster, topic, 40, 4)
    members.wait_values(new)
    members.wait_balanced([first, second], names(topic, 4))
    assert first.owned == owned, "the group went on as it was"
    wait_committed(cluster, group, topic, 4, 20)
    first.leave()
    second.leave()
    third = add(group, topic)
    last = produce(cluster, topic, 40, 4)
    members.wait_values(last)
    assert not {record[3] for record in third.records} & set(old + new)


def test_the_command_line_shows_the_group(
    cluster: Cluster, members: Members, create_topic: CreateTopic, add: Add
) -> None:
    def odradek(*arguments: str) -> list[list[str]]:
        command = [sys.executable, "-m", "broker", "groups", *arguments, "-b", cluster.bootstrap]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=python_environment(), timeout=60, check=True
        )
        return [line.split() for line in done.stdout.splitlines()]

    topic, group = create_topic(2), group_name()
    member = add(group, topic, assignor="range")
    members.wait_values(produce(cluster, topic, 20, 2))
    wait_committed(cluster, group, topic, 2, 10)
    assert [group, "consumer", "Stable"] in odradek("list", "--state")
    lines = odradek("describe", group)
    assert [line[:6] for line in lines[1:]] == [[group, topic, str(n), "10", "10", "0"] for n in (0, 1)]
    assert lines[1][7:] == ["/127.0.0.1", "rdkafka"]
    (_, row) = odradek("describe", group, "--members", "--verbose")
    assert row[-2:] == ["2", f"{topic}(0,1)"]
    (_, row) = odradek("describe", group, "--state")
    assert row[-3:] == ["range", "Stable", "1"]
    member.leave()
    odradek("reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    assert committed_offsets(cluster, group) == {(topic, 0): 0, (topic, 1): 0}
    odradek("delete", group)
    assert [group] not in odradek("list")


def test_members_are_replaced_one_by_one_by_such_of_the_other_protocol(
    cluster: Cluster, members: Members, create_topic: CreateTopic, add: Add
) -> None:
    """A rolling upgrade, and the way back: each record is read, and offsets go on."""
    topic, group = create_topic(4), group_name()
    old = [members.add("confluent", group, topic) for _ in range(2)]
    members.wait_balanced(old, names(topic, 4))
    values = produce(cluster, topic, 40, 4)
    members.wait_values(values)
    wait_committed(cluster, group, topic, 4, 10)
    mixed = [old[0], add(group, topic)]
    wait_for(lambda: type_of(cluster, group) == "consumer", "the upgrade")
    old[1].leave()
    members.wait_balanced(mixed, names(topic, 4))
    more = produce(cluster, topic, 40, 4)
    members.wait_values(more)
    wait_committed(cluster, group, topic, 4, 20)
    new = [mixed[1], add(group, topic)]
    old[0].leave()
    members.wait_balanced(new, names(topic, 4))
    back = [new[0], members.add("confluent", group, topic)]
    new[1].leave()
    members.wait_balanced(back, names(topic, 4))
    back[0].leave()
    members.wait_balanced(back[1:], names(topic, 4))
    assert type_of(cluster, group) == "classic"
    last = produce(cluster, topic, 40, 4)
    members.wait_values(last)
    assert not {record[3] for record in back[1].records} & set(values + more), "offsets went over"


def type_of(cluster: Cluster, group: str) -> str:
    with cluster.client() as client:
        (broker,) = client.brokers()
        listed = client.call_broker(broker, ListGroupsRequest()).groups
    found: str = next(each.group_type for each in listed if each.group_id == group)
    return found


def test_the_java_consumer_shares_a_group(
    cluster: Cluster, members: Members, create_topic: CreateTopic, add: Add
) -> None:
    """Apache Kafka's own client, 4.1.0, and its group tool."""
    topic, group = create_topic(4), group_name()
    libs = kafka.require(VERSION)
    consumer = ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--group", group]
    consumer += ["--consumer-property", "group.protocol=consumer", "--from-beginning"]
    command = kafka.java_command(libs, *consumer, "--bootstrap-server", cluster.bootstrap, tool=True)
    java = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        other = add(group, topic)
        wait_for(lambda: member_count(cluster, group) == 2 and len(other.owned) == 2, lambda: f"two each: {other}")
        values = produce(cluster, topic, 40, 4)
        wait_for(lambda: len(other.records) == 20, lambda: f"half of the records: {other}")
        assert java.stdout is not None
        read = {java.stdout.readline().strip() for _ in range(20)}
        assert read | {record[3] for record in other.records} == set(values)
        tool = ["org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--members"]
        tool += ["--describe", "--group", group]
        command = kafka.java_command(libs, *tool, "--bootstrap-server", cluster.bootstrap, tool=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith(group)]
        assert [row[4] for row in rows] == ["2", "2"]
    finally:
        java.terminate()
        java.wait(60)
    members.wait_balanced([other], names(topic, 4))


def member_count(cluster: Cluster, group: str) -> int:
    with Connection(HOST, cluster.brokers[0].port, "test", CLOCK) as connection:
        return len(describe(connection, group).members)
