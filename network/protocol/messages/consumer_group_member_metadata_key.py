"""ConsumerGroupMemberMetadataKey: key of a member (KIP-848); the version is the record type."""

from __future__ import annotations

from network.protocol.fields import string
from network.protocol.message import StoredPayload


class ConsumerGroupMemberMetadataKey(StoredPayload, versions=(5, 5)):
    group_id: str = string("5")
    member_id: str = string("5")
