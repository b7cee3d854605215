"""The records of consumer groups are the same on both: each reads what the other wrote (KIP-848).

Odradek's loader reads the partition of `__consumer_offsets` that either broker wrote, and Kafka's own decoder reads
Odradek's.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.coordinator.internal_topic_names import partition_for
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.records import loader
from network.client.connection import Connection
from tests.reference import kafka
from tests.reference.kraft import VERSION
from tests.support.batches import iter_batches
from tests.support.classic_member import ClassicMember
from tests.support.cluster import CLOCK, HOST, Cluster
from tests.support.consumer_member import RawMember, describe, new_group, settle, wait_until
from tests.support.consumer_protocol import SETTINGS


@pytest.fixture
def group(consumer_cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Any, Path]]:
    """A group with a member of each kind, as the broker describes it, and the log that it is in, as it was then."""
    name = new_group()
    broker = consumer_cluster.brokers[0]
    with Connection(HOST, broker.port, "contract", CLOCK) as connection:
        members = [
            RawMember(connection, name, ["one"]),
            RawMember(connection, name, ["one"], instance_id="static"),
            RawMember(connection, name, regex="o.e"),
        ]
        for member in members:
            member.join()
        wait_until(lambda: members[0].beat() and bool(members[0].owned), "partitions")
        topic_id = next(iter(members[0].owned))[0]
        settle(members, {(topic_id, number) for number in range(4)})
        classic = ClassicMember(connection, name)
        assert classic.join().error_code == 0
        # One that revokes, and one that waits.
        late = RawMember(connection, name, ["one"], assignor="range")
        late.join()
        for member in members:
            member.send(member.epoch, topic_partitions=None)
        described = describe(connection, name)
        partition = partition_for(name, int(SETTINGS["offsets.topic.num.partitions"]))
        (log,) = broker.data.glob(f"__consumer_offsets-{partition}/*.log")
        # The sessions of these members end while a slow reader starts.
        yield described, Path(shutil.copy(log, tmp_path))


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
