"""ConsumerGroupRegularExpressionValue: the topics that a pattern resolved to (KIP-848)."""

from __future__ import annotations

from network.protocol.fields import array, int64, string
from network.protocol.message import StoredPayload


class ConsumerGroupRegularExpressionValue(StoredPayload, versions=(0, 0), flexible=0):
    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
