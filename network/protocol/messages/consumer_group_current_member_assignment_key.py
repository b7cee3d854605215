"""ConsumerGroupCurrentMemberAssignmentKey: key of what a member holds (KIP-848); the version is the record type."""

from __future__ import annotations

from network.protocol.fields import string
from network.protocol.message import StoredPayload


class ConsumerGroupCurrentMemberAssignmentKey(StoredPayload, versions=(8, 8)):
    group_id: str = string("8")
    member_id: str = string("8")
