"""Keys and values of `__consumer_offsets`.

Written: offset keys of version 1 with values of version 3 (1 with an expire timestamp), group keys of version 2 with
values of version 3; older inter-broker protocol versions write what their brokers can read. Read: every version that
brokers have written. Keys of version 3 and above belong to the newer group protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from broker.groups.base import GroupBase
from broker.groups.group import Group
from broker.groups.member import Member
from broker.groups.offsets import OffsetAndMetadata
from broker.groups.record_keys import classic_group
from broker.groups.states import GroupState
from log.topic_partition import TopicPartition
from network.protocol.errors import ProtocolError
from network.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from network.protocol.messages.offset_commit_value import OffsetCommitValue
from timer.clock import Clock

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_OFFSET_HEAD = struct.Struct(">hqih")
_OFFSET_HEAD_V1 = struct.Struct(">hqh")
_INT64 = struct.Struct(">q")
_INT64_PAIR = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class ValueVersions:
    """The versions that the inter-broker protocol allows to be written."""

    offset: int = 3
    group: int = 3

    @classmethod
    def for_protocol(cls, at_least: Callable[[str], bool]) -> ValueVersions:
        """`at_least` tells whether the inter-broker protocol is at least a named version."""
        offset = 3 if at_least("2.1-IV1") else 2 if at_least("2.1-IV0") else 1
        group = 3 if at_least("2.3-IV0") else 2 if at_least("2.1-IV0") else 1 if at_least("0.10.1-IV0") else 0
        return cls(offset, group)


def _string(value: str) -> bytes:
    encoded = value.encode("utf-8")
    if len(encoded) > 0x7FFF:
        raise ValueError(f"a string of {len(encoded)} bytes does not fit a record of the offsets topic")
    return _INT16.pack(len(encoded)) + encoded


def offset_key(group_id: str, partition: TopicPartition) -> bytes:
    """Key of a committed offset, version 1."""
    return b"\x00\x01" + _string(group_id) + _string(partition.topic) + _INT32.pack(partition.partition)


def offset_value(value: OffsetAndMetadata, version: int = 3) -> bytes:
    """Value of a committed offset; an expire timestamp makes it version 1."""
    if value.expire_timestamp is not None:
        version = 1
    metadata = value.metadata.encode("utf-8", "surrogatepass")
    if version == 3:
        head = _OFFSET_HEAD.pack(3, value.offset, value.leader_epoch, len(metadata))
        return head + metadata + _INT64.pack(value.commit_timestamp)
    head = _OFFSET_HEAD_V1.pack(version, value.offset, len(metadata))
    if version == 2:
        return head + metadata + _INT64.pack(value.commit_timestamp)
    expire = -1 if value.expire_timestamp is None else value.expire_timestamp
    return head + metadata + _INT64_PAIR.pack(value.commit_timestamp, expire)


def group_value(group: Group, assignment: dict[str, bytes], version: int = 3) -> bytes:
    """Value of a group: members with their metadata for the elected protocol and the given assignments."""
    protocol = group.protocol_name
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=b"" if protocol is None else member.metadata(protocol),
            assignment=assignment.get(member.member_id, b""),
        )
        for member in group
    ]
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=protocol,
        leader=group.leader_id,
        current_state_timestamp=-1 if group.current_state_timestamp is None else group.current_state_timestamp,
        members=members,
    ).encode_versioned(version)


class UnknownKeyVersionError(ProtocolError):
    """A key of a version that this coordinator does not know: to be skipped."""


def split_offset_key(key: bytes) -> tuple[bytes, bytes]:
    """The encoded group and the encoded topic and partition of an offset key. Raises ProtocolError."""
    if len(key) < 4:
        raise ProtocolError("an offset key is too short")
    end = 4 + int.from_bytes(key[2:4], "big")
    return key[4:end], key[end:]


def decode_partition(encoded: bytes) -> TopicPartition:
    """The second half of an offset key. Raises ProtocolError."""
    try:
        end = 2 + _INT16.unpack_from(encoded)[0]
        (partition,) = _INT32.unpack_from(encoded, end)
        if end < 2 or end + 4 != len(encoded):
            raise ProtocolError("an offset key has a wrong length")
        return TopicPartition(str(encoded[2:end], "utf-8"), partition)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"an offset key cannot be read: {error}") from None


def decode_offset_key(key: bytes) -> tuple[str, TopicPartition]:
    """Group and partition of an offset key (versions 0 and 1 are alike). Raises ProtocolError."""
    group, partition = split_offset_key(key)
    try:
        return str(group, "utf-8"), decode_partition(partition)
    except UnicodeDecodeError as error:
        raise ProtocolError(f"an offset key cannot be read: {error}") from None


group_key = classic_group


def decode_group_key(key: bytes) -> str:
    """Group of a group key. Raises ProtocolError."""
    try:
        (length,) = _INT16.unpack_from(key, 2)
        if length < 0 or 4 + length != len(key):
            raise ProtocolError("a group key has a wrong length")
        return str(key[4:], "utf-8")
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"a group key cannot be read: {error}") from None


def key_version(key: bytes) -> int:
    """The version in front of a key. Raises ProtocolError."""
    if len(key) < 2:
        raise ProtocolError("a key is too short for its version")
    return int(_INT16.unpack_from(key)[0])


def decode_offset_value(value: bytes) -> OffsetAndMetadata:
    """Any of the versions 0 to 4. Raises ProtocolError for others."""
    if value[:2] == b"\x00\x03" and len(value) >= 24:
        _, offset, epoch, length = _OFFSET_HEAD.unpack_from(value)
        end = 16 + length
        if length >= 0 and end + 8 == len(value):
            return OffsetAndMetadata(offset, epoch, str(value[16:end], "utf-8"), _INT64.unpack_from(value, end)[0])
    decoded = OffsetCommitValue.decode_versioned(value)
    expire = decoded.expire_timestamp
    return OffsetAndMetadata(
        decoded.offset,
        decoded.leader_epoch,
        decoded.metadata,
        decoded.commit_timestamp,
        None if expire == -1 else expire,
    )


def decode_group_value(group_id: str, value: bytes, clock: Clock, successor_of: GroupBase | None = None) -> Group:
    """The group of a record: Stable with members, Empty without. Raises ProtocolError.

    `successor_of` hands its lock and its offsets on.
    """
    decoded = GroupMetadataValue.decode_versioned(value)
    group = Group(group_id, clock, GroupState.STABLE if decoded.members else GroupState.EMPTY, successor_of)
    group.generation_id = decoded.generation
    group.protocol_type = decoded.protocol_type or None
    group.protocol_name = decoded.protocol
    for stored in decoded.members:
        rebalance = stored.rebalance_timeout if stored.rebalance_timeout != -1 else stored.session_timeout
        protocols = () if decoded.protocol is None else ((decoded.protocol, bytes(stored.subscription)),)
        group.add(
            Member(
                stored.member_id,
                stored.group_instance_id,
                stored.client_id,
                stored.client_host,
                rebalance,
                stored.session_timeout,
                decoded.protocol_type,
                protocols,
                bytes(stored.assignment),
            )
        )
    group.leader_id = decoded.leader
    group.current_state_timestamp = None if decoded.current_state_timestamp == -1 else decoded.current_state_timestamp
    group.subscribed_topics = group.compute_subscribed_topics()
    return group
