"""Keys and values of `__consumer_offsets`, byte for byte; and what Kafka wrote."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.versions import MetadataVersion
from broker.groups.classic.group import ClassicGroup
from broker.groups.config import ValueVersions
from broker.groups.offsets.committer import Committer, TransactionalProducer
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from broker.groups.records import keys, loader, values
from log.batch_reader import read_batches
from log.record import iter_records
from log.topic_partition import TopicPartition
from network.protocol.errors import ProtocolError
from network.protocol.messages.offset_commit_value import OffsetCommitValue
from tests.support.groups import PARTITIONS, Coordinator, partition
from tests.support.paths import shared_golden
from timer.clock import ManualClock


def test_bytes_of_keys_and_values() -> None:
    assert keys.offset("g", TopicPartition("t", 0)).hex() == "000100016700017400000000"
    assert keys.classic_group("g").hex() == "0002000167"
    value = OffsetAndMetadata(5, -1, "", 1_700_000_000_000)
    assert values.offset_value(value).hex() == "00030000000000000005ffffffff00000000018bcfe56800"


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_an_offset_is_read(version: int) -> None:
    stored = OffsetCommitValue(
        offset=5, leader_epoch=3 if version >= 3 else -1, metadata="ü", commit_timestamp=7, expire_timestamp=-1
    )
    if version == 1:
        stored.expire_timestamp = 9
    decoded = values.decode_offset_value(stored.encode_versioned(version))
    assert decoded == OffsetAndMetadata(5, 3 if version >= 3 else -1, "ü", 7, 9 if version == 1 else None)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_written_versions_are_those_of_the_messages(version: int) -> None:
    value = OffsetAndMetadata(2**40, 4 if version == 3 else -1, "meta ü", 123, 456 if version == 1 else None)
    message = OffsetCommitValue(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=123,
        expire_timestamp=456 if version == 1 else -1,
    )
    assert values.offset_value(value, version) == message.encode_versioned(version)


def test_an_expiry_needs_version_1() -> None:
    assert values.offset_value(OffsetAndMetadata(1, 2, "", 3, 4))[:2] == b"\x00\x01"


@pytest.mark.parametrize(
    ("protocol", "offset", "group"),
    [("3.9", 3, 3), ("2.3", 3, 3), ("2.2", 3, 2), ("2.1-IV0", 2, 2), ("2.0", 1, 1), ("0.10.0", 1, 0)],
)
def test_older_inter_broker_protocols_write_what_old_brokers_read(protocol: str, offset: int, group: int) -> None:
    assert ValueVersions.for_protocol(MetadataVersion(protocol).at_least) == ValueVersions(offset, group)


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x09" + bytes(30), b"\x00\x03\x00", b"\xff\xff" + bytes(30)])
def test_broken_values_are_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        values.decode_offset_value(value)


@pytest.mark.parametrize("key", [b"", b"\x00\x01\x00\x05g", b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00\x00"])
def test_broken_keys_are_refused(key: bytes) -> None:
    with pytest.raises(ProtocolError):
        keys.decode_offset(key)


# --- what Kafka wrote ---

FOLDERS = ["1_clean", "2_clean_after_compaction", "4_unclean_torn_tail", "5_clean_after_recovery"]


def golden(folder: str) -> Iterator[tuple[Path, Path]]:
    root = shared_golden() / "log" / folder
    for directory in sorted((root / "data").glob("__consumer_offsets-*")):
        for log in sorted(directory.glob("*.log")):
            yield log, root / "dump" / f"{directory.name}.txt"


def batches_of(log: Path, copy: Path) -> list[loader.Batch]:
    target = copy / log.name
    shutil.copy(log, target)
    with target.open("rb") as file:
        return [batch for _, batch in read_batches(file.fileno(), 0, os.fstat(file.fileno()).st_size)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_kafka_wrote_is_written_again_alike(folder: str, tmp_path: Path) -> None:
    """Every record of Kafka's own topic: decoded and encoded again, the bytes are the same."""
    seen = 0
    for log, _ in golden(folder):
        for batch in batches_of(log, tmp_path):
            if getattr(batch, "is_control", False):
                continue
            for record in iter_records(batch):
                assert record.key is not None
                seen += 1
                if keys.version_of(record.key) == 2:
                    group_id = keys.decode_classic_group(record.key)
                    assert keys.classic_group(group_id) == record.key
                    if record.value is not None:
                        group = values.decode_group_value(group_id, record.value, ManualClock())
                        assignment = {member.member_id: member.assignment for member in group}
                        assert values.group_value(group, assignment) == record.value
                else:
                    assert keys.offset(*keys.decode_offset(record.key)) == record.key
                    if record.value is not None:
                        assert values.offset_value(values.decode_offset_value(record.value)) == record.value
    assert seen > 10


def expected_state(dump: str) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """Generations of groups and committed offsets at the end of a dump, by a reading of its text."""
    groups: dict[str, int] = {}
    offsets: dict[tuple[str, str], int] = {}
    open_: dict[str, list[tuple[tuple[str, str], int]]] = {}
    producer, transactional, control = "", False, False
    for line in dump.splitlines():
        head = re.match(r"baseOffset: .* producerId: (\S+) .*isTransactional: (\w+) isControl: (\w+)", line)
        if head:
            producer, transactional, control = head[1], head[2] == "true", head[3] == "true"
        elif control and (marker := re.search(r"endTxnMarker: (\w+)", line)):
            if marker[1] == "COMMIT":
                offsets.update(open_.get(producer, []))
            open_.pop(producer, None)
        elif found := re.search(r"key: (\{.*?\}) payload: (.*)$", line):
            key = json.loads(found[1] + "}" if found[1].count("{") > found[1].count("}") else found[1])
            data = key["data"]
            payload = None if found[2] == "<DELETE>" else json.loads(found[2])["data"]
            if key["type"] == "2":
                groups.pop(data["group"], None)
                if payload is not None:
                    groups[data["group"]] = payload["generation"]
                continue
            name = (data["group"], f"{data['topic']}-{data['partition']}")
            if payload is None:
                offsets.pop(name, None)
            elif transactional:
                open_.setdefault(producer, []).append((name, payload["offset"]))
            else:
                offsets[name] = payload["offset"]
    return groups, offsets


@pytest.mark.parametrize("folder", FOLDERS)
def test_kafkas_topic_loads_with_the_state_that_its_dump_shows(folder: str, tmp_path: Path) -> None:
    compared = 0
    for log, dump in golden(folder):
        loaded = loader.load(batches_of(log, tmp_path), ManualClock())
        groups, offsets = expected_state(dump.read_text())
        assert {name: group.generation_id for name, group in loaded.groups.items() if group.generation_id} == groups
        found = {
            (name, str(where)): commit.value.offset
            for name, group in loaded.groups.items()
            for where, commit in group.offsets.committed.items()
        }
        assert found == offsets
        compared += len(offsets) + len(groups)
    assert compared >= 5


def test_members_of_kafkas_groups(tmp_path: Path) -> None:
    groups = {}
    for log, _ in golden("1_clean"):
        groups.update(loader.load(batches_of(log, tmp_path), ManualClock()).groups)
    assert {name for name in groups if name.startswith("group-")} >= {"group-simple", "group-static"}
    for group in groups.values():
        for member in group:
            assert member.client_host == "/127.0.0.1"
            assert group.subscribed_topics


# --- loading what this coordinator wrote ---


def test_the_next_coordinator_finds_everything() -> None:
    first = Coordinator()
    leader, follower = first.stable(2, group_instance_id=None)
    first.stable(group_id="static", group_instance_id="i")
    first.commit({"t-0": 1, "t-1": 2})
    member = Committer("g", leader.member_id, None, leader.generation_id)
    first.commit({"t-0": 3, "t-1": 4}, member, metadata="m", leader_epoch=2)
    second = Coordinator(first.log, first.clock)
    assert second.state() == "Stable"
    assert second.committed() == {"t-0": 3, "t-1": 4}
    assert second.heartbeat(follower).name == "NONE"
    assert second.sync(follower).value.assignment == b"a1"
    before, after = first.owned.find_as("g", ClassicGroup), second.owned.find_as("g", ClassicGroup)
    assert before is not None
    assert after is not None
    for name in ("generation_id", "protocol_type", "protocol_name", "leader_id", "subscribed_topics"):
        assert getattr(before, name) == getattr(after, name)
    assert after.offsets.committed[partition("t-0")].value.leader_epoch == 2
    assert second.owned.find_as("static", ClassicGroup).static_members.keys() == {"i"}  # type: ignore[union-attr]
    # Sessions run from the load.
    second.advance(10_100)
    assert second.state() == "Empty"


def test_open_transactions_survive_a_move() -> None:
    first = Coordinator()
    first.commit({"t-0": 1})
    for producer_id, commit in [(1, True), (2, False), (3, None)]:
        first.commit({f"t-{producer_id}": 5}, producer=TransactionalProducer(producer_id, 0, "x"))
        if commit is not None:
            first.log.marker(first.owned.partition_of("g"), producer_id, commit=commit)
    second = Coordinator(first.log, first.clock)
    assert second.committed() == {"t-0": 1, "t-1": 5}
    second.core.on_transaction_completed(3, [0, 1, 2], True)
    second.scheduler.tick()
    assert second.committed() == {"t-0": 1, "t-1": 5, "t-3": 5}


def test_a_plain_commit_after_an_open_one_wins_on_load_too() -> None:
    first = Coordinator()
    first.commit({"t-0": 5}, producer=TransactionalProducer(1, 0, "x"))
    first.commit({"t-0": 9})
    first.log.marker(first.owned.partition_of("g"), 1, commit=True)
    assert Coordinator(first.log, first.clock).committed() == {"t-0": 9}


def test_a_broken_log_leaves_the_partition_owned_and_empty(caplog: pytest.LogCaptureFixture) -> None:
    class BrokenLog(type(Coordinator().log)):  # type: ignore[misc]
        def read(self, partition: int, buffer_bytes: int) -> list[loader.Batch]:
            raise OSError("the disk is gone")

    coordinator = Coordinator(BrokenLog(PARTITIONS))
    assert "could not be loaded" in caplog.text
    assert coordinator.admin.list_groups()[1] == []
    coordinator.commit({"t-0": 1})
    assert coordinator.committed() == {"t-0": 1}


def test_loads_and_unloads_with_older_epochs_are_ignored() -> None:
    coordinator = Coordinator()
    coordinator.commit({"t-0": 1})
    coordinator.elect(5)
    assert coordinator.committed() == {"t-0": 1}
    # It led all the time: what an older epoch ended is over.
    coordinator.resign(4)
    assert coordinator.committed() == {"t-0": 1}
    coordinator.resign(7)
    coordinator.elect(6)
    assert coordinator.admin.describe_group("g").error.name == "NOT_COORDINATOR"
    coordinator.elect(8)
    coordinator.resign(7)
    assert coordinator.committed() == {"t-0": 1}
    coordinator.resign(None)
    assert coordinator.admin.describe_group("g").error.name == "NOT_COORDINATOR"


def test_a_group_larger_than_allowed_is_rebalanced_after_the_load() -> None:
    first = Coordinator()
    first.stable(3)
    assert Coordinator(first.log, first.clock, max_size=2).state() == "PreparingRebalance"
