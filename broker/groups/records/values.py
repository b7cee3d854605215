"""Values of `__consumer_offsets` for offsets and groups of the classic protocol.

Written: values of version 3 (offsets with an expire timestamp: 1); older inter-broker protocol versions write what
their brokers can read. Read: every version that brokers have written. Values of the consumer protocol are in
`consumer/changes.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from broker.groups.base import GroupBase
from broker.groups.classic.group import ClassicGroup
from broker.groups.classic.member import Member
from broker.groups.classic.states import Event
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from network.protocol.errors import ProtocolError
from network.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from network.protocol.messages.offset_commit_value import OffsetCommitValue
from timer.clock import Clock

_OFFSET_HEAD = struct.Struct(">hqih")
_OFFSET_HEAD_V1 = struct.Struct(">hqh")
_INT64 = struct.Struct(">q")
_INT64_PAIR = struct.Struct(">qq")


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


def group_value(group: ClassicGroup, assignment: Mapping[str, bytes], version: int = 3) -> bytes:
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


def decode_offset_value(value: bytes) -> OffsetAndMetadata:
    """Any of the versions 0 to 4. Raises ProtocolError for others, and for what is none."""
    if value[:2] == b"\x00\x03" and len(value) >= 24:
        _, offset, epoch, length = _OFFSET_HEAD.unpack_from(value)
        end = 16 + length
        if length >= 0 and end + 8 == len(value):
            try:
                metadata = str(value[16:end], "utf-8")
            except UnicodeDecodeError as error:
                raise ProtocolError(f"the metadata of an offset is no text: {error}") from None
            return OffsetAndMetadata(offset, epoch, metadata, _INT64.unpack_from(value, end)[0])
    decoded = OffsetCommitValue.decode_versioned(value)
    expire = decoded.expire_timestamp
    return OffsetAndMetadata(
        decoded.offset,
        decoded.leader_epoch,
        decoded.metadata,
        decoded.commit_timestamp,
        None if expire == -1 else expire,
    )


def decode_group_value(
    group_id: str, value: bytes, clock: Clock, successor_of: GroupBase | None = None
) -> ClassicGroup:
    """The group of a record: Stable with members, Empty without. Raises ProtocolError.

    `successor_of` hands its lock and its offsets on.
    """
    decoded = GroupMetadataValue.decode_versioned(value)
    group = ClassicGroup(group_id, clock, successor_of)
    if decoded.members:
        group.take(Event.RESTORED)
    group.generation_id = decoded.generation
    group.protocol_type = decoded.protocol_type or None
    group.protocol_name = decoded.protocol
    for stored in decoded.members:
        if stored.group_instance_id is not None and stored.group_instance_id in group.static_members:
            raise ProtocolError(f"instance {stored.group_instance_id!r} is twice in group {group_id!r}")
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
