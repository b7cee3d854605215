"""Values of `__consumer_offsets`, byte for byte; what Kafka wrote; and what is refused, of transactions too."""

from pathlib import Path

import pytest

from broker.groups.offsets.group_offsets import OffsetAndMetadata
from broker.groups.records import keys, values
from broker.transactions.records import decode as decode_transaction
from log.records.record import iter_records
from log.topic_partition import TopicPartition
from network.protocol.errors import ProtocolError
from network.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from network.protocol.messages.offset_commit_value import OffsetCommitValue
from network.protocol.messages.transaction_log_key import TransactionLogKey
from network.protocol.messages.transaction_log_value import TransactionLogValue
from tests.support.golden_offsets import FOLDERS, batches_of, golden
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


NO_TEXT = b"\x00\x03" + bytes(13) + b"\x01\xff" + bytes(8)


@pytest.mark.parametrize(
    "value", [b"", b"\x00", b"\x00\x09" + bytes(30), b"\x00\x03\x00", b"\xff\xff" + bytes(30), NO_TEXT]
)
def test_broken_values_are_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        values.decode_offset_value(value)


def test_an_instance_that_is_twice_in_a_stored_group_is_refused() -> None:
    twice = [MemberMetadata(member_id=name, group_instance_id="i") for name in ("a", "b")]
    stored = GroupMetadataValue(protocol_type="consumer", generation=1, members=twice)
    with pytest.raises(ProtocolError, match="'i' is twice"):
        values.decode_group_value("g", stored.encode_versioned(3), ManualClock())


@pytest.mark.parametrize("status", [-1, 99])
def test_a_transaction_in_a_state_that_there_is_not_is_refused(status: int) -> None:
    key = TransactionLogKey(transactional_id="t").encode_versioned(0)
    with pytest.raises(ProtocolError, match="the transaction of 't'"):
        decode_transaction(key, TransactionLogValue(transaction_status=status).encode_versioned(0))


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
