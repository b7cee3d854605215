"""OffsetCommitKey: key of a committed offset in `__consumer_offsets`."""

from __future__ import annotations

from network.protocol.fields import int32, string
from network.protocol.message import StoredPayload


class OffsetCommitKey(StoredPayload, versions=(0, 1)):
    group: str = string("0-1")
    topic: str = string("0-1")
    partition: int = int32("0-1")
