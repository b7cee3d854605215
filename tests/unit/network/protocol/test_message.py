"""What message classes promise: constructor, equality, defaults, versions, null, ignorable and tagged fields."""

from __future__ import annotations

import copy
import pickle

import pytest

from network.protocol.errors import ProtocolError
from network.protocol.fields import NEVER
from network.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from network.protocol.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from network.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from network.protocol.messages.create_topics import CreateTopicsRequest
from network.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from network.protocol.messages.heartbeat import HeartbeatRequest
from network.protocol.messages.join_group import JoinGroupRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from network.protocol.messages.offset_delete import OffsetDeleteRequest
from network.protocol.messages.produce import ProduceResponse
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest


def test_every_field_has_its_default() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.session_epoch) == (-1, 0x7FFFFFFF, -1)
    assert (request.cluster_id, request.topics, request.rack_id) == (None, [], "")
    assert request.replica_state == ReplicaState(replica_id=-1, replica_epoch=-1)
    assert PartitionData().records is None
    assert FetchTopic().topic_id == bytes(16)
    assert CreateTopicsRequest().timeout_ms == 60000
    assert MetadataRequest().allow_auto_topic_creation is True


def test_lists_and_structs_are_not_shared() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchTopic())
    first.replica_state.replica_id = 5
    assert second.topics == []
    assert second.replica_state.replica_id == -1
    assert FetchRequest.decode(FetchRequest().encode(17), 17).replica_state.replica_id == -1


def test_unknown_attributes_are_refused() -> None:
    with pytest.raises(TypeError):
        FetchRequest(no_such_field=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchRequest().no_such_field = 1  # type: ignore[attr-defined]


def test_equality_and_repr() -> None:
    assert FetchPartition(partition=1) == FetchPartition(partition=1)
    assert FetchPartition(partition=1) != FetchPartition(partition=2)
    assert FetchPartition() != FetchTopic()
    assert "partition=1" in repr(FetchPartition(partition=1))
    assert "<3 bytes>" in repr(PartitionData(records=memoryview(b"abc")))
    assert "unknown_tags" in repr(FetchPartition(unknown_tags={9: b"x"}))
    with pytest.raises(TypeError):
        hash(FetchPartition())


def test_copies_are_equal() -> None:
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])])
    assert copy.deepcopy(request) == request
    assert pickle.loads(pickle.dumps(request)) == request


def test_class_attributes() -> None:
    assert (FetchRequest.API_KEY, FetchRequest.MIN_VERSION, FetchRequest.MAX_VERSION) == (1, 0, 17)
    assert FetchRequest.FLEXIBLE_VERSION == 12
    assert OffsetDeleteRequest.FLEXIBLE_VERSION == NEVER


@pytest.mark.parametrize("version", [-1, 18, 99])
def test_versions_that_do_not_exist_are_refused(version: int) -> None:
    with pytest.raises(ProtocolError, match="has no version"):
        FetchRequest().encode(version)
    with pytest.raises(ProtocolError, match="has no version"):
        FetchRequest.decode(b"", version)


def test_bytes_after_the_message_are_refused() -> None:
    data = HeartbeatRequest(group_id="g").encode(4)
    with pytest.raises(ProtocolError, match="ends at byte"):
        HeartbeatRequest.decode(data + b"\0", 4)
    message, end = HeartbeatRequest.decode_from(b"##" + data + b"more", 2, 4)
    assert message.group_id == "g"
    assert end == 2 + len(data)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_decoded(kind: type) -> None:
    data = HeartbeatRequest(group_id="group", member_id="m").encode(4)
    assert HeartbeatRequest.decode(kind(data), 4).group_id == "group"


# null


def test_null_is_an_error_where_the_version_does_not_allow_it() -> None:
    MetadataRequest(topics=None).encode(1)
    with pytest.raises(ProtocolError, match="topics may not be null"):
        MetadataRequest(topics=None).encode(0)
    with pytest.raises(ProtocolError, match="name may not be null"):
        MetadataRequest(topics=[MetadataRequestTopic(name=None)]).encode(9)
    with pytest.raises(ProtocolError, match=r"topics is null"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)
    assert MetadataRequest.decode(b"\xff\xff\xff\xff", 1).topics is None
    assert MetadataRequest.decode(b"\0\0\0\0", 1).topics == []
    with pytest.raises(ProtocolError, match="group_id is null"):
        HeartbeatRequest.decode(b"\0", 4)
    with pytest.raises(ProtocolError, match="group_id is null"):
        HeartbeatRequest.decode(b"\xff\xff", 3)


def test_a_nullable_struct_has_a_marker() -> None:
    message = ConsumerGroupHeartbeatResponse()
    assert message.assignment is None
    empty = message.encode(0)
    assert ConsumerGroupHeartbeatResponse.decode(empty, 0) == message
    message.assignment = Assignment()
    assert len(message.encode(0)) == len(empty) + 2
    assert ConsumerGroupHeartbeatResponse.decode(message.encode(0), 0).assignment == Assignment()


# fields that a version lacks


def test_ignorable_fields_are_dropped() -> None:
    request = ApiVersionsRequest(client_software_name="client")
    assert request.encode(0) == b""
    assert ProduceResponse(throttle_time_ms=5).encode(0) == ProduceResponse().encode(0)
    assert JoinGroupRequest(reason="because").encode(0) == JoinGroupRequest().encode(0)


def test_other_fields_are_refused_unless_they_have_their_default() -> None:
    with pytest.raises(ProtocolError, match="HeartbeatRequest v2 has no group_instance_id"):
        HeartbeatRequest(group_instance_id="static").encode(2)
    with pytest.raises(ProtocolError, match=r"has no replica_state"):
        FetchRequest(replica_state=ReplicaState(replica_id=1)).encode(14)
    FetchRequest(replica_state=ReplicaState()).encode(14)
    with pytest.raises(ProtocolError, match=r"has no topics\.partitions\.last_fetched_epoch"):
        FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(last_fetched_epoch=3)])]).encode(11)
    with pytest.raises(ProtocolError, match="has no validate_only"):
        CreateTopicsRequest(validate_only=True).encode(0)
    with pytest.raises(ProtocolError, match="has no allow_auto_topic_creation"):
        MetadataRequest(allow_auto_topic_creation=False).encode(3)


def test_null_is_not_the_default_of_a_field_whose_default_is_empty() -> None:
    CreateDelegationTokenRequest(owner_principal_name="").encode(2)
    with pytest.raises(ProtocolError, match="owner_principal_name"):
        CreateDelegationTokenRequest(owner_principal_name=None).encode(2)


def test_absent_fields_are_decoded_as_their_default() -> None:
    decoded = FetchRequest.decode(FetchRequest(max_wait_ms=7).encode(0), 0)
    assert decoded == FetchRequest(max_wait_ms=7)


# values


@pytest.mark.parametrize(
    "request_",
    [
        FetchRequest(max_wait_ms=1 << 31),
        FetchRequest(max_wait_ms=None),  # type: ignore[arg-type]
        FetchRequest(max_wait_ms="5"),  # type: ignore[arg-type]
        FetchRequest(rack_id="\ud800"),
        FetchRequest(rack_id="x" * 32768),
        FetchRequest(rack_id=b"bytes"),  # type: ignore[arg-type]
        FetchRequest(topics=5),  # type: ignore[arg-type]
        FetchRequest(topics=[FetchTopic(topic_id=b"short")]),
        FetchRequest(topics=[None]),  # type: ignore[list-item]
    ],
)
def test_values_without_an_encoding_are_refused(request_: FetchRequest) -> None:
    for version in (11, 17):
        if version == 11 and request_.topics:
            continue
        with pytest.raises(ProtocolError):
            request_.encode(version)


def test_the_wrong_value_is_named() -> None:
    topics = [FetchTopic(partitions=[FetchPartition(), FetchPartition(fetch_offset=1 << 63)])]
    with pytest.raises(ProtocolError, match=r"topics\.partitions\.fetch_offset is 92233\d+, which is no int64"):
        FetchRequest(topics=topics).encode(17)
    with pytest.raises(ProtocolError, match=r"topics is 5, not a list"):
        FetchRequest(topics=5).encode(17)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match=r"longer than 32767 bytes"):
        FetchRequest(rack_id="x" * 40000).encode(11)
    with pytest.raises(ProtocolError, match=r"topics is 'topic', not a FetchTopic"):
        FetchRequest(topics=["topic"]).encode(17)  # type: ignore[list-item]


def test_bytes_fields_take_any_buffer_and_nothing_else() -> None:
    message = SaslAuthenticateRequest(auth_bytes=b"secret")
    for buffer in (bytearray(b"secret"), memoryview(b"secret")):
        assert SaslAuthenticateRequest(auth_bytes=buffer).encode(2) == message.encode(2)  # type: ignore[arg-type]
    for value in ("secret", 6, None):
        with pytest.raises(ProtocolError, match="auth_bytes"):
            SaslAuthenticateRequest(auth_bytes=value).encode(2)  # type: ignore[arg-type]


def test_the_longest_string() -> None:
    for version in (3, 4):
        text = "x" * 32767
        assert HeartbeatRequest.decode(HeartbeatRequest(group_id=text).encode(version), version).group_id == text
    too_long = b"\x81\x80\x02" + b"x" * 32768
    with pytest.raises(ProtocolError, match="too long"):
        HeartbeatRequest.decode(too_long, 4)


def test_text_that_is_not_utf_8_is_refused() -> None:
    data = bytearray(HeartbeatRequest(group_id="group").encode(4))
    data[2] = 0xFF
    with pytest.raises(ProtocolError, match="malformed"):
        HeartbeatRequest.decode(data, 4)


# tagged fields


def test_tagged_fields_are_written_only_when_they_are_set() -> None:
    plain = FetchRequest().encode(17)
    assert FetchRequest(cluster_id="c").encode(17) == plain[:-1] + b"\x01\x00\x02\x02c"
    both = FetchRequest(cluster_id="c", replica_state=ReplicaState(replica_id=2, replica_epoch=3))
    decoded = FetchRequest.decode(both.encode(17), 17)
    assert decoded == both
    assert decoded.replica_state.replica_epoch == 3


def test_looking_at_a_tagged_struct_does_not_set_it() -> None:
    partition = PartitionData()
    assert partition.current_leader == LeaderIdAndEpoch()
    request = FetchRequest()
    before = request.encode(17)
    assert request.replica_state.replica_id == -1
    assert request.encode(17) == before


def test_unknown_tags_are_kept_in_order() -> None:
    plain = HeartbeatRequest(group_id="g").encode(4)
    data = plain[:-1] + b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00"
    message = HeartbeatRequest.decode(data, 4)
    assert message.unknown_tags == {5: b"abc", 128: b""}
    assert message.encode(4) == data
    message.unknown_tags = {128: b"", 5: b"abc"}
    assert message.encode(4) == data


def test_unknown_tags_beside_known_ones() -> None:
    message = FetchRequest(cluster_id="c", unknown_tags={7: b"seven"})
    data = message.encode(17)
    assert FetchRequest.decode(data, 17) == message
    # version 12 knows the cluster id but not the replica state
    newer = FetchRequest(replica_state=ReplicaState(replica_id=4)).encode(17)
    older = FetchRequest.decode(FetchRequest(unknown_tags={1: b"x"}, replica_id=4).encode(12), 12)
    assert older.unknown_tags == {1: b"x"}
    assert b"\x01\x01" in newer


def test_a_tag_may_not_be_known_and_unknown() -> None:
    with pytest.raises(ProtocolError, match="both known and unknown"):
        FetchRequest(cluster_id="c", unknown_tags={0: b"x"}).encode(17)


def test_a_tagged_field_must_fill_its_size() -> None:
    plain = FetchRequest().encode(17)
    with pytest.raises(ProtocolError, match="disagrees with its size"):
        FetchRequest.decode(plain[:-1] + b"\x01\x00\x03\x02c\x00", 17)
    with pytest.raises(ProtocolError):
        FetchRequest.decode(plain[:-1] + b"\x01\x00\x7f\x02c", 17)


def test_tagged_fields_of_responses() -> None:
    response = ApiVersionsResponse(finalized_features_epoch=5, zk_migration_ready=True)
    decoded = ApiVersionsResponse.decode(response.encode(3), 3)
    assert (decoded.finalized_features_epoch, decoded.zk_migration_ready) == (5, True)
    assert response.encode(2) == ApiVersionsResponse().encode(2)
