"""Apache Kafka's own consumer and group tool (Java) on an Odradek broker, beside `odradek groups`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.clients.group_harness import Members, group_name, produce, wait_for
from tests.clients.offsets import committed_offsets, wait_committed
from tests.clients.test_groups import described
from tests.reference import kafka
from tests.support.cluster import Cluster

GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@pytest.fixture
def groups_tool(cluster: Cluster) -> Callable[..., list[list[str]]]:
    """Run kafka-consumer-groups; the words of its lines."""

    def run(*arguments: str) -> list[list[str]]:
        command = kafka.java_command(kafka.require(), GROUP_TOOL, "--bootstrap-server", cluster.bootstrap, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return [line.split() for line in done.stdout.splitlines() if line.strip()]

    return run


def test_the_group_tool_sees_and_changes_groups(
    cluster: Cluster, members: Members, create_topic: Callable[..., str], groups_tool: Callable[..., list[list[str]]]
) -> None:
    topic, group = create_topic(2), group_name()
    member = members.add("confluent", group, topic)
    members.wait_values(produce(cluster, topic, 20, 2))
    wait_committed(cluster, group, topic, 2, 10)
    assert [group] in groups_tool("--list")
    rows = [line for line in groups_tool("--describe", "--group", group) if line[0] == group]
    assert sorted(row[:6] for row in rows) == [[group, topic, str(n), "10", "10", "0"] for n in (0, 1)]
    # The tool ends its tables without a line break, so a line of its log may follow.
    assert all(row[7] == "/127.0.0.1" and row[8].startswith("rdkafka") for row in rows)
    (row,) = [line for line in groups_tool("--describe", "--group", group, "--state") if line[0] == group]
    assert row[1:5] == [cluster.brokers[0].address, "(0)", "range", "Stable"]
    assert row[5].startswith("1")
    member.leave()
    groups_tool("--reset-offsets", "--group", group, "--topic", topic, "--shift-by", "-3", "--execute")
    assert committed_offsets(cluster, group) == {(topic, 0): 7, (topic, 1): 7}
    groups_tool("--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert committed_offsets(cluster, group) == {(topic, 1): 7}
    groups_tool("--delete", "--group", group)
    assert described(cluster, group).group_state == "Dead"


def test_the_java_consumer_shares_a_group_with_the_others(
    cluster: Cluster, members: Members, create_topic: Callable[..., str]
) -> None:
    topic, group = create_topic(6), group_name()
    command = kafka.java_command(
        kafka.require(),
        CONSOLE_CONSUMER,
        "--bootstrap-server",
        cluster.bootstrap,
        "--topic",
        topic,
        "--group",
        group,
        "--from-beginning",
        "--consumer-property",
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor",
    )
    java = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        wait_for(lambda: len(described(cluster, group).members) == 1, "the Java consumer has joined")
        others = [members.add(library, group, topic) for library in ("confluent", "kafka-python")]
        wait_for(lambda: [len(each.owned) for each in others] == [2, 2], lambda: f"two partitions each: {others}")
        values = produce(cluster, topic, 60, 6)
        wait_for(lambda: sum(members.counts(values).values()) == 40, lambda: f"40 of 60 values: {others}")
        assert java.stdout is not None
        # Its share; that the others have theirs does not say that it has printed it.
        read = {java.stdout.readline().strip() for _ in range(20)}
        java.terminate()
        read |= set(java.stdout.read().split())
        java.wait(60)
        assert len(read & set(values)) == 20
        assert not read & set(members.counts(values))
        wait_for(lambda: sum(len(each.owned) for each in others) == 6, lambda: f"all partitions: {others}")
    finally:
        if java.poll() is None:
            java.kill()
            java.wait(20)
