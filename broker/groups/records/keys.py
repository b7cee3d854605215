"""Keys of the records of `__consumer_offsets`; the version in front tells what the value is.

| version | key of |
|---|---|
| 0, 1 | a committed offset: group, topic, partition (1 is written) |
| 2 | a group of the classic protocol |
| 3 to 8, 16 | a part of a group of the consumer protocol (KIP-848) |
"""

from __future__ import annotations

import struct

from log.topic_partition import TopicPartition
from network.protocol.errors import ProtocolError

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

OFFSET_VERSIONS = frozenset({0, 1})
OFFSET, CLASSIC_GROUP = 1, 2
EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
CONSUMER_VERSIONS = frozenset({EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX})
_WITH_SECOND = frozenset({MEMBER, TARGET, CURRENT, REGEX})


# --- writing ---


def offset(group_id: str, partition: TopicPartition) -> bytes:
    """The key of a committed offset."""
    return _key(OFFSET, group_id, partition.topic) + _INT32.pack(partition.partition)


def classic_group(group_id: str) -> bytes:
    """The key of a group of the classic protocol."""
    return _key(CLASSIC_GROUP, group_id)


def epoch(group_id: str) -> bytes:
    """The key of a consumer group's epoch."""
    return _key(EPOCH, group_id)


def topics(group_id: str) -> bytes:
    """The key of the metadata of the topics that a consumer group subscribes to."""
    return _key(TOPICS, group_id)


def member(group_id: str, member_id: str) -> bytes:
    """The key of a consumer group's member and its subscription."""
    return _key(MEMBER, group_id, member_id)


def target_epoch(group_id: str) -> bytes:
    """The key of the epoch at which a consumer group's target assignment was made."""
    return _key(TARGET_EPOCH, group_id)


def target(group_id: str, member_id: str) -> bytes:
    """The key of what a member of a consumer group should have."""
    return _key(TARGET, group_id, member_id)


def current(group_id: str, member_id: str) -> bytes:
    """The key of what a member of a consumer group has."""
    return _key(CURRENT, group_id, member_id)


def regex(group_id: str, expression: str) -> bytes:
    """The key of the topics that a consumer group's regular expression matches."""
    return _key(REGEX, group_id, expression)


def _key(version: int, *strings: str) -> bytes:
    parts = [_INT16.pack(version)]
    for text in strings:
        encoded = text.encode("utf-8")
        if len(encoded) > 0x7FFF:
            raise ValueError(f"a string of {len(encoded)} bytes does not fit a key")
        parts += (_INT16.pack(len(encoded)), encoded)
    return b"".join(parts)


# --- reading: all raise ProtocolError for bytes that break the format ---


def version_of(key: bytes) -> int:
    """The version in front of a key."""
    if len(key) < 2:
        raise ProtocolError("a key is too short for its version")
    return int(_INT16.unpack_from(key)[0])


def decode_classic_group(key: bytes) -> str:
    """The group of a key of version 2."""
    try:
        group_id, end = _read(key, 2)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"a group key cannot be read: {error}") from None
    if end != len(key):
        raise ProtocolError("a group key has a wrong length")
    return group_id


def decode_consumer(key: bytes) -> tuple[int, str, str]:
    """Version, group, and member id or expression ("" where the key has neither) of a consumer group's key."""
    try:
        (version,) = _INT16.unpack_from(key)
        group_id, end = _read(key, 2)
        second = ""
        if version in _WITH_SECOND:
            second, end = _read(key, end)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"a consumer group's key cannot be read: {error}") from None
    if end != len(key):
        raise ProtocolError("a consumer group's key has a wrong length")
    return version, group_id, second


def split_offset(key: bytes) -> tuple[bytes, bytes]:
    """The encoded group and the encoded topic and partition of an offset key (versions 0 and 1 are alike)."""
    if len(key) < 4:
        raise ProtocolError("an offset key is too short")
    end = 4 + int.from_bytes(key[2:4], "big")
    return key[4:end], key[end:]


def decode_partition(encoded: bytes) -> TopicPartition:
    """The second half of an offset key."""
    try:
        end = 2 + _INT16.unpack_from(encoded)[0]
        (partition,) = _INT32.unpack_from(encoded, end)
        if end < 2 or end + 4 != len(encoded):
            raise ProtocolError("an offset key has a wrong length")
        return TopicPartition(str(encoded[2:end], "utf-8"), partition)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"an offset key cannot be read: {error}") from None


def decode_offset(key: bytes) -> tuple[str, TopicPartition]:
    """The group and the partition of an offset key."""
    group, partition = split_offset(key)
    try:
        return str(group, "utf-8"), decode_partition(partition)
    except UnicodeDecodeError as error:
        raise ProtocolError(f"an offset key cannot be read: {error}") from None


def _read(key: bytes, start: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(key, start)
    end = start + 2 + length
    if length < 0 or end > len(key):
        raise ProtocolError("a key has a wrong length")
    return str(key[start + 2 : end], "utf-8"), end
