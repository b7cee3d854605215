"""OffsetCommitValue: a committed offset in `__consumer_offsets`."""

from __future__ import annotations

from network.protocol.fields import int32, int64, string
from network.protocol.message import StoredPayload


class OffsetCommitValue(StoredPayload, versions=(0, 4), flexible=4):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
