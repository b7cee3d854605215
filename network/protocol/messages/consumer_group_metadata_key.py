"""ConsumerGroupMetadataKey: key of a consumer group (KIP-848); the version is the record type."""

from __future__ import annotations

from network.protocol.fields import string
from network.protocol.message import StoredPayload


class ConsumerGroupMetadataKey(StoredPayload, versions=(3, 3)):
    group_id: str = string("3")
