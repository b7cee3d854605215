"""Keys of the records of groups in `__consumer_offsets`; the version in front tells what the value is."""

from __future__ import annotations

import struct

from network.protocol.errors import ProtocolError

_INT16 = struct.Struct(">h")

CLASSIC_GROUP = 2
EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
CONSUMER_VERSIONS = frozenset({EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX})
_WITH_SECOND = frozenset({MEMBER, TARGET, CURRENT, REGEX})


def classic_group(group_id: str) -> bytes:
    """Of a group of the classic protocol."""
    return _key(CLASSIC_GROUP, group_id)


def epoch(group_id: str) -> bytes:
    """Of the group's epoch."""
    return _key(EPOCH, group_id)


def topics(group_id: str) -> bytes:
    """Of the metadata of the subscribed topics."""
    return _key(TOPICS, group_id)


def member(group_id: str, member_id: str) -> bytes:
    """Of a member and its subscription."""
    return _key(MEMBER, group_id, member_id)


def target_epoch(group_id: str) -> bytes:
    """Of the epoch of the target assignment."""
    return _key(TARGET_EPOCH, group_id)


def target(group_id: str, member_id: str) -> bytes:
    """Of what a member should have."""
    return _key(TARGET, group_id, member_id)


def current(group_id: str, member_id: str) -> bytes:
    """Of what a member has."""
    return _key(CURRENT, group_id, member_id)


def regex(group_id: str, expression: str) -> bytes:
    """Of the topics that a regular expression matches."""
    return _key(REGEX, group_id, expression)


def decode(key: bytes) -> tuple[int, str, str]:
    """Version, group, and member id or expression ("" where the key has neither) of a consumer group's key.

    Raises ProtocolError.
    """
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


def _key(version: int, *strings: str) -> bytes:
    parts = [_INT16.pack(version)]
    for text in strings:
        encoded = text.encode("utf-8")
        if len(encoded) > 0x7FFF:
            raise ValueError(f"a string of {len(encoded)} bytes does not fit a key")
        parts += (_INT16.pack(len(encoded)), encoded)
    return b"".join(parts)


def _read(key: bytes, start: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(key, start)
    end = start + 2 + length
    if length < 0 or end > len(key):
        raise ProtocolError("a consumer group's key has a wrong length")
    return str(key[start + 2 : end], "utf-8"), end
