"""The internal topics by name, and the partition of one that keeps a group or a transactional id."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC})
"""Topics that clients can't write to, and that Metadata marks as internal."""


def partition_for(key: str, partitions: int) -> int:
    """The partition that keeps a group id or a transactional id: Java's string hash, made positive."""
    value = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    if value >= 0x80000000:
        value = 0x100000000 - value
    return 0 if value == 0x80000000 else value % partitions
