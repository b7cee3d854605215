"""ConsumerGroupTargetAssignmentMemberKey: key of a member's target (KIP-848); the version is the record type."""

from __future__ import annotations

from network.protocol.fields import string
from network.protocol.message import StoredPayload


class ConsumerGroupTargetAssignmentMemberKey(StoredPayload, versions=(7, 7)):
    group_id: str = string("7")
    member_id: str = string("7")
