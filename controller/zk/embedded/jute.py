"""Jute, ZooKeeper's wire encoding: big-endian integers, buffers and strings behind a length (-1: null), vectors."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


class JuteError(Exception):
    """Bytes that are not what they should be."""


class Reader:
    """Reads one record after the other from a frame. Raises JuteError when the frame ends too early."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at
        self._end = len(data)

    def remaining(self) -> int:
        return self._end - self._at

    def int32(self) -> int:
        at = self._at
        if at + 4 > self._end:
            raise JuteError("a frame ends within an int")
        self._at = at + 4
        value: int = _INT.unpack_from(self._data, at)[0]
        return value

    def int64(self) -> int:
        at = self._at
        if at + 8 > self._end:
            raise JuteError("a frame ends within a long")
        self._at = at + 8
        value: int = _LONG.unpack_from(self._data, at)[0]
        return value

    def boolean(self) -> bool:
        at = self._at
        if at >= self._end:
            raise JuteError("a frame ends before a boolean")
        self._at = at + 1
        return self._data[at] != 0

    def buffer(self) -> bytes | None:
        length = self.int32()
        if length == -1:
            return None
        at = self._at
        if length < 0 or at + length > self._end:
            raise JuteError(f"a buffer of {length} bytes")
        self._at = at + length
        return self._data[at : at + length]

    def text(self) -> str:
        """A string. Null, which hardly any request has a use for, is an error here."""
        found = self.buffer()
        if found is None:
            raise JuteError("a null string")
        return found.decode("utf-8", "replace")

    def text_or_empty(self) -> str:
        """A string, empty for null."""
        return (self.buffer() or b"").decode("utf-8", "replace")

    def texts(self) -> list[str]:
        return self.vector(self.text)

    def vector(self, item: Callable[[], T]) -> list[T]:
        count = self.int32()
        if count == -1:
            return []
        if count < 0 or count > self.remaining():
            raise JuteError(f"a vector of {count} items")
        return [item() for _ in range(count)]


def int_bytes(value: int) -> bytes:
    return _INT.pack(value)


def long_bytes(value: int) -> bytes:
    return _LONG.pack(value)


def boolean_bytes(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def buffer_bytes(value: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else _INT.pack(len(value)) + value


def text_bytes(value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogatepass")
    return _INT.pack(len(encoded)) + encoded


def vector_bytes(items: Iterable[bytes]) -> bytes:
    """Of items that are encoded."""
    found = list(items)
    return _INT.pack(len(found)) + b"".join(found)
