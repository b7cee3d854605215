"""How much a Produce holds, told without decoding it.

A decoded request has an object for each topic and partition. Who only wants to know whether there are very many walks
over the lengths instead, and stops at the bound.
"""

from __future__ import annotations

import struct

from network.protocol.errors import ProtocolError
from network.protocol.messages.produce import ProduceRequest
from network.protocol.primitives import decode_unsigned_varint, tag_header

_FIRST_WITH_TRANSACTIONAL_ID = 3
_ACKS_AND_TIMEOUT = 2 + 4
_INDEX = 4
MAX_TAGS = 100
"""In one place. None is defined; a request with more is not looked into further."""


def has_more_than(count: int, body: memoryview, version: int) -> bool:
    """Whether the topics, partitions and tagged fields of a Produce request are more than `count` together.

    `body` is what follows the header, in the layout of `version`. Little more than `count` of them are looked at.
    Raises ProtocolError or IndexError when a length leads beyond the end, or tagged fields are more than `MAX_TAGS`.
    """
    outline = _Outline(body, flexible=version >= ProduceRequest.FLEXIBLE_VERSION)
    if version >= _FIRST_WITH_TRANSACTIONAL_ID:
        outline.pass_string()
    outline.pass_bytes(_ACKS_AND_TIMEOUT)
    topics = outline.count()
    left = count - topics
    for _ in range(topics):
        if left < 0:
            return True
        outline.pass_string()
        partitions = outline.count()
        left -= partitions
        if left < 0:
            return True
        for _ in range(partitions):
            outline.pass_bytes(_INDEX)
            outline.pass_records()
            left -= outline.pass_tags()
            if left < 0:
                return True
        left -= outline.pass_tags()
    return left < 0


class _Outline:
    """A position in a message of which only the lengths are read."""

    __slots__ = ("at", "body", "flexible")

    def __init__(self, body: memoryview, flexible: bool) -> None:
        self.body = body
        self.flexible = flexible
        self.at = 0

    def pass_bytes(self, size: int) -> None:
        self.at += max(size, 0)  # a length of -1 is null
        if self.at > len(self.body):
            raise ProtocolError("it ends too early")

    def count(self) -> int:
        """An array's, or the length of compact bytes; 0 for null."""
        return self._compact() if self.flexible else self._number(">i", 4)

    def pass_string(self) -> None:
        self.pass_bytes(self._compact() if self.flexible else self._number(">h", 2))

    def pass_records(self) -> None:
        self.pass_bytes(self.count())

    def pass_tags(self) -> int:
        """How many there are; Kafka's clients send none."""
        if not self.flexible:
            return 0
        tags, self.at = decode_unsigned_varint(self.body, self.at)
        if tags > MAX_TAGS:
            raise ProtocolError(f"{tags} tagged fields in one place")
        for _ in range(tags):
            _, _, self.at = tag_header(self.body, self.at, len(self.body))
        return tags

    def _compact(self) -> int:
        length, self.at = decode_unsigned_varint(self.body, self.at)
        return max(length - 1, 0)

    def _number(self, layout: str, size: int) -> int:
        at = self.at
        self.pass_bytes(size)
        number: int = struct.unpack_from(layout, self.body, at)[0]
        return max(number, 0)
