"""The records of consumer groups are the same on both: each reads what the other wrote (KIP-848).

Odradek's loader reads the partition of `__consumer_offsets` that either broker wrote, and Kafka's own decoder reads
Odradek's. About half a minute.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.groups import loader
from broker.groups.consumer.group import ConsumerGroup
from log.batch import iter_batches
from network.client import Connection
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.reference import kafka
from tests.reference.kraft import VERSION
from tests.support.classic_member import ClassicMember
from tests.support.cluster import CLOCK, HOST, Cluster
from tests.support.consumer_member import RawMember, describe, new_group, settle, wait_until
from tests.support.consumer_protocol import KINDS, running_consumer_cluster


@pytest.fixture(scope="module", params=KINDS)
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    name = f"consumer-records-{request.param}"
    settings = {"offsets.topic.num.partitions": "1", "group.consumer.session.timeout.ms": "45000"}
    directory = tmp_path_factory.mktemp(name)
    with running_consumer_cluster(request.param, directory, f"{zookeeper}/{name}", settings) as cluster:
        with cluster.client() as client:
            client.coordinator("any")
            topics = [CreatableTopic(name=name, num_partitions=4, replication_factor=1) for name in ("one", "two")]
            client.call_controller(CreateTopicsRequest(topics=topics, timeout_ms=15_000))
        yield cluster


@pytest.fixture
def group(cluster: Cluster) -> Iterator[tuple[Any, Path]]:
    """A group with a member of each kind, as the broker describes it, and the log that it is in."""
    name = new_group()
    with Connection(HOST, cluster.brokers[0].port, "contract", CLOCK) as connection:
        probe = RawMember(connection, new_group(), ["one", "two"])
        wait_until(lambda: not probe.full(0).error_code, "a loaded coordinator")
        wait_until(lambda: probe.beat() and len(probe.owned) == 8, "the topics")
        probe.leave()
        members = [
            RawMember(connection, name, ["one"]),
            RawMember(connection, name, ["one"], instance_id="static"),
            RawMember(connection, name, regex="o.e"),
        ]
        for member in members:
            member.join()
        everything = {each for each in probe.owned if each[0] in {topic for topic, _ in members[0].owned}}
        settle(members, everything)
        classic = ClassicMember(connection, name)
        assert classic.join().error_code == 0
        # One that revokes, and one that waits.
        late = RawMember(connection, name, ["one"], assignor="range")
        late.join()
        for member in members:
            member.send(member.epoch, topic_partitions=None)
        described = describe(connection, name)
        (log,) = cluster.brokers[0].data.glob("__consumer_offsets-0/*.log")
        yield described, log


def test_the_loader_reads_what_the_broker_wrote(group: tuple[Any, Path]) -> None:
    described, log = group
    groups = loader.load(iter_batches(bytearray(log.read_bytes())), CLOCK).groups
    loaded = groups[described.group_id]
    assert isinstance(loaded, ConsumerGroup)
    assert loaded.state.value == described.group_state
    assert (loaded.epoch, loaded.target_epoch) == (described.group_epoch, described.assignment_epoch)
    assert loaded.preferred_assignor("uniform") == described.assignor_name
    assert loaded.members.keys() == {member.member_id for member in described.members}
    for member in described.members:
        known, current = loaded.members[member.member_id], loaded.current(member.member_id)
        assert (known.instance_id, known.regex) == (member.instance_id, member.subscribed_topic_regex or "")
        assert (known.client_id, known.client_host) == (member.client_id, member.client_host)
        assert sorted(known.topics) == sorted(member.subscribed_topic_names)
        assert current.epoch == member.member_epoch
        assert (known.classic is None) == (member.member_type == 1)
        for partitions, assignment in (
            (current.assigned, member.assignment),
            (loaded.target(member.member_id), member.target_assignment),
        ):
            shown = {(topic.topic_id, number) for topic in assignment.topic_partitions for number in topic.partitions}
            assert set(partitions) == shown


def test_kafkas_decoder_reads_what_the_broker_wrote(group: tuple[Any, Path]) -> None:
    described, log = group
    command = kafka.java_command(
        kafka.require(VERSION), "kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(log), tool=True
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    # The last value of each key.
    found: dict[tuple[str, str], Any] = {}
    for key, payload in re.findall(r" key: (\{.*\}) payload: (.*)$", done.stdout, re.MULTILINE):
        content = json.loads(key)
        if content["data"].get("groupId") == described.group_id:
            value = None if payload.startswith("<DELETE>") else json.loads(payload)["data"]
            found[content["type"], json.dumps(content["data"])] = value
    by_type: dict[str, list[tuple[dict[str, Any], Any]]] = {}
    for (type_, data), value in found.items():
        by_type.setdefault(str(type_), []).append((json.loads(data), value))
    ids = {member.member_id for member in described.members}
    assert by_type["3"][0][1]["epoch"] == described.group_epoch
    assert by_type["6"][0][1]["assignmentEpoch"] == described.assignment_epoch
    for type_ in ("5", "7", "8"):
        assert {key["memberId"] for key, _ in by_type[type_]} == ids, type_
    assert {key["memberId"]: value["memberEpoch"] for key, value in by_type["8"]} == {
        member.member_id: member.member_epoch for member in described.members
    }
    assert by_type["16"][0][1]["topics"] == ["one"]
