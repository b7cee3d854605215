"""ConsumerGroupPartitionMetadataKey: key of the topics that a group sees (KIP-848); the version is the record type."""

from __future__ import annotations

from network.protocol.fields import string
from network.protocol.message import StoredPayload


class ConsumerGroupPartitionMetadataKey(StoredPayload, versions=(4, 4)):
    group_id: str = string("4")
