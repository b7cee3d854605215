"""The internal topics by name, and the partition of one that keeps a group or a transactional id."""

from __future__ import annotations

from functools import lru_cache

from broker.java_hash import absolute, string_hash

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC})
"""Topics that clients can't write to, and that Metadata marks as internal."""

_SHORT = 128
"""Characters of a key whose hash is kept: what clients name may be 32 KB long, and a cache is bounded in bytes, too."""


def partition_for(key: str, partitions: int) -> int:
    """The partition that keeps a group id or a transactional id: Java's string hash, made positive."""
    return (_cached_place(key) if len(key) <= _SHORT else _place(key)) % partitions


def _place(key: str) -> int:
    return absolute(string_hash(key))


_cached_place = lru_cache(maxsize=4096)(_place)
"""Every commit, heartbeat and transaction asks for it several times."""
