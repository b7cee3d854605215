"""Topic ids and directory ids: 16 raw bytes in memory, url-safe base64 without padding as text (KIP-516)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from timer.chance import Chance, random_uuid

ZERO_UUID: Final = bytes(16)
"""No id."""

ONE_UUID: Final = bytes(15) + b"\x01"
"""Reserved for the metadata topic."""


def new_uuid(chance: Chance) -> bytes:
    """A random version 4 uuid that is not reserved and whose text does not begin with a dash."""
    while True:
        value = random_uuid(chance).bytes
        if value not in (ZERO_UUID, ONE_UUID) and not to_text(value).startswith("-"):
            return value


def to_text(value: bytes) -> str:
    """The 22 characters that Kafka prints. Raises ValueError unless `value` has 16 bytes."""
    if len(value) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(value)}")
    return urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def from_text(text: str) -> bytes:
    """The reverse of `to_text`; raises ValueError for anything that is not such a text."""
    if len(text) != 22:
        raise ValueError(f"not a uuid: {text!r}")
    try:
        value = urlsafe_b64decode(text + "==")
    except ValueError:
        raise ValueError(f"not a uuid: {text!r}") from None
    if len(value) != 16 or to_text(value) != text:
        raise ValueError(f"not a uuid: {text!r}")
    return value
