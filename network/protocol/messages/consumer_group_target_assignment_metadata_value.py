"""ConsumerGroupTargetAssignmentMetadataValue: the epoch of the target assignment (KIP-848)."""

from __future__ import annotations

from network.protocol.fields import int32
from network.protocol.message import StoredPayload


class ConsumerGroupTargetAssignmentMetadataValue(StoredPayload, versions=(0, 0), flexible=0):
    assignment_epoch: int = int32()
