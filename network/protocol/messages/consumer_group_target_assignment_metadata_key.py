"""ConsumerGroupTargetAssignmentMetadataKey: key of the target assignment (KIP-848); the version is the record type."""

from __future__ import annotations

from network.protocol.fields import string
from network.protocol.message import StoredPayload


class ConsumerGroupTargetAssignmentMetadataKey(StoredPayload, versions=(6, 6)):
    group_id: str = string("6")
