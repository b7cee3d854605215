"""The ephemeralOwner of a znode says what kind it is: 0, a session, a container, or a time to live."""

from __future__ import annotations

CONTAINER = -(1 << 63)
_TTL_MASK = 0xFF << 56
MAX_TTL_MS = (1 << 40) - 1


def ttl_owner(ttl_ms: int) -> int:
    """As a signed 64-bit number, like all owners."""
    return (_TTL_MASK | ttl_ms) - (1 << 64)


def is_ttl(owner: int) -> bool:
    return owner < 0 and owner & _TTL_MASK == _TTL_MASK


def ttl_of(owner: int) -> int:
    return owner & MAX_TTL_MS


def is_session(owner: int) -> bool:
    """Whether the node goes with a session."""
    return owner != 0 and owner != CONTAINER and not is_ttl(owner)
