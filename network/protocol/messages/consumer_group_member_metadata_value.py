"""ConsumerGroupMemberMetadataValue: a member and its subscription (KIP-848)."""

from __future__ import annotations

from network.protocol.fields import array, blob, int32, string, struct
from network.protocol.message import StoredPayload, Struct


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = blob()


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(StoredPayload, versions=(0, 0), flexible=0):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", default=None, tag=0
    )
