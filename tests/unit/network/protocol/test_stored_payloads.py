"""Keys and values of the internal topics, as Kafka wrote them and as a property."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log.records.record import iter_records
from network.protocol.errors import ProtocolError
from network.protocol.message import StoredPayload, payload_version
from network.protocol.messages import consumer_group_metadata_key, consumer_group_regular_expression_key
from network.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from network.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from network.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from network.protocol.messages.group_metadata_key import GroupMetadataKey
from network.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from network.protocol.messages.offset_commit_key import OffsetCommitKey
from network.protocol.messages.offset_commit_value import OffsetCommitValue
from network.protocol.messages.transaction_log_key import TransactionLogKey
from network.protocol.messages.transaction_log_value import TransactionLogValue
from tests.support.batches import iter_batches
from tests.support.messages import structs
from tests.support.paths import shared_golden
from tests.unit.network.protocol.test_api import CLASSES

STORED = [cls for cls in CLASSES if issubclass(cls, StoredPayload)]


def again(cls: type[StoredPayload], data: bytes) -> StoredPayload:
    """Decode, check that it encodes to the same bytes."""
    payload = cls.decode_versioned(data)
    assert payload.encode_versioned(payload_version(data)) == data
    return payload


def test_the_topics_that_kafka_wrote() -> None:
    seen: Counter[str] = Counter()
    for path in sorted(shared_golden().glob("log/*/data/__*/*.log")):
        for batch in iter_batches(path.read_bytes()):
            if batch.is_control:
                continue
            for record in iter_records(batch):
                assert record.key is not None
                if "transaction_state" in path.parent.name:
                    key: StoredPayload = again(TransactionLogKey, record.key)
                    value_class: type[StoredPayload] = TransactionLogValue
                elif payload_version(record.key) <= 1:
                    key, value_class = again(OffsetCommitKey, record.key), OffsetCommitValue
                else:
                    key, value_class = again(GroupMetadataKey, record.key), GroupMetadataValue
                seen[type(key).__name__] += 1
                if record.value is not None:
                    value = again(value_class, record.value)
                    seen[type(value).__name__] += 1
                    for member in getattr(value, "members", []):
                        assert isinstance(member, MemberMetadata)
                        again(ConsumerProtocolSubscription, member.subscription)
                        if member.assignment:
                            again(ConsumerProtocolAssignment, member.assignment)
    assert set(seen) == {
        "OffsetCommitKey",
        "OffsetCommitValue",
        "GroupMetadataKey",
        "GroupMetadataValue",
        "TransactionLogKey",
        "TransactionLogValue",
    }


@pytest.mark.parametrize("cls", STORED, ids=lambda cls: cls.__name__)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_payloads_survive(cls: type[StoredPayload], data: st.DataObject) -> None:
    version = data.draw(st.integers(cls.MIN_VERSION, cls.MAX_VERSION))
    payload = data.draw(structs(cls, version))
    encoded = payload.encode_versioned(version)
    assert payload_version(encoded) == version
    decoded = cls.decode_versioned(encoded)
    assert decoded == payload
    assert decoded.encode_versioned(version) == encoded


def test_a_known_offset_commit() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert key.encode_versioned(1).hex() == "0001" + "000167" + "000174" + "00000003"
    value = OffsetCommitValue(offset=5, leader_epoch=-1, metadata="", commit_timestamp=9)
    assert value.encode_versioned(3).hex() == "0003" + "0000000000000005" + "ffffffff" + "0000" + "0000000000000009"
    assert key.encode_versioned() == key.encode_versioned(1)


def test_key_types_are_told_apart_by_version() -> None:
    assert consumer_group_metadata_key.ConsumerGroupMetadataKey(group_id="g").encode_versioned()[:2] == b"\0\3"
    pattern = consumer_group_regular_expression_key.ConsumerGroupRegularExpressionKey(group_id="g")
    assert payload_version(pattern.encode_versioned()) == 16
    with pytest.raises(ProtocolError, match="has no version 3"):
        GroupMetadataKey.decode_versioned(b"\0\3\0\1g")


@pytest.mark.parametrize("data", [b"", b"\0"])
def test_payloads_without_a_version(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="has no version"):
        OffsetCommitValue.decode_versioned(data)


def test_members_that_kafka_wrote() -> None:
    """Kafka writes the tagged struct even where it is null, with a marker of 0; of a classic member it is 1."""
    head = b"\x00\x00\x00\x00\tcontract\x0b/127.0.0.1\x02\x04one\x01\x00\x00u0\x00"
    member = ConsumerGroupMemberMetadataValue.decode_versioned(head + b"\x01\x00\x01\x00")
    assert (member.client_id, member.subscribed_topic_names) == ("contract", ["one"])
    assert (member.rebalance_timeout_ms, member.classic_member_metadata) == (30_000, None)
    assert member.encode_versioned(0) == head + b"\x00"
    classic = b"\x01\x00\x00\x17\x70\x02\x06range\x03ab\x00\x00"
    data = head + b"\x01\x00" + bytes([len(classic)]) + classic
    member = ConsumerGroupMemberMetadataValue.decode_versioned(data)
    assert member.classic_member_metadata is not None
    assert member.classic_member_metadata.session_timeout_ms == 6_000
    assert member.classic_member_metadata.supported_protocols[0].name == "range"
    assert member.encode_versioned(0) == data
