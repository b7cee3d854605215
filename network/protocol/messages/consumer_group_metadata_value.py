"""ConsumerGroupMetadataValue: the epoch of a consumer group (KIP-848)."""

from __future__ import annotations

from network.protocol.fields import int32, int64
from network.protocol.message import StoredPayload


class ConsumerGroupMetadataValue(StoredPayload, versions=(0, 0), flexible=0):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0)
