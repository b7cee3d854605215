"""Reads one MessagePack value, as its specification describes it (msgpack.org).

Ninety lines instead of a package: every broker would have to install it for one choice in a viewer, as an extra it
would be missing where somebody first looks, and no page of 200 records notices that it is faster.
"""

from __future__ import annotations

import struct
from typing import Any

MAX_DEPTH = 64
_TIMESTAMP = -1
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = {0: ">B", 1: ">H", 2: ">I"}


class MessagePackError(ValueError):
    """The bytes are no MessagePack value."""


def unpack(data: bytes) -> Any:
    """The value; maps become dicts with texts as keys. Raises `MessagePackError`, also for bytes left over."""
    reader = _Reader(data)
    try:
        value = reader.value(0)
    except (struct.error, IndexError):
        raise MessagePackError("MessagePack: the data ends inside a value") from None
    if reader.position != len(data):
        raise MessagePackError(f"MessagePack: {len(data) - reader.position} bytes are left over")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise MessagePackError("MessagePack: nested too deeply")
        kind = self._data[self.position]
        self.position += 1
        if kind < 0x80:
            return kind
        if kind >= 0xE0:
            return kind - 0x100
        if kind < 0x90:
            return self._map(kind & 0x0F, depth)
        if kind < 0xA0:
            return self._list(kind & 0x0F, depth)
        if kind < 0xC0:
            return self._text(kind & 0x1F)
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        return self._other(kind, depth)

    def _other(self, kind: int, depth: int) -> Any:
        if kind in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[kind]
        if 0xC4 <= kind <= 0xC6:
            return self._bytes(self._number(_LENGTHS[kind - 0xC4]))
        if 0xC7 <= kind <= 0xC9:
            return self._extension(self._number(_LENGTHS[kind - 0xC7]))
        if 0xD4 <= kind <= 0xD8:
            return self._extension(1 << (kind - 0xD4))
        if 0xD9 <= kind <= 0xDB:
            return self._text(self._number(_LENGTHS[kind - 0xD9]))
        if kind in (0xDC, 0xDD):
            return self._list(self._number(_LENGTHS[kind - 0xDB]), depth)
        if kind in (0xDE, 0xDF):
            return self._map(self._number(_LENGTHS[kind - 0xDD]), depth)
        raise MessagePackError(f"MessagePack: there is no type {kind:#x}")

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._data, self.position)
        self.position += struct.calcsize(form)
        return value

    def _bytes(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self._data):
            raise MessagePackError("MessagePack: the data ends inside a value")
        found = self._data[self.position : end]
        self.position = end
        return found

    def _text(self, size: int) -> str:
        return self._bytes(size).decode("utf-8", "replace")

    def _list(self, size: int, depth: int) -> list[Any]:
        # Each item takes a byte at least, so a size that cannot be ends with the data.
        return [self.value(depth + 1) for _ in range(size)]

    def _map(self, size: int, depth: int) -> dict[str, Any]:
        found = {}
        for _ in range(size):
            key = self.value(depth + 1)
            found[key if isinstance(key, str) else str(key)] = self.value(depth + 1)
        return found

    def _extension(self, size: int) -> Any:
        kind = self._number(">b")
        data = self._bytes(size)
        if kind == _TIMESTAMP and size == 4:
            return {"timestamp": struct.unpack(">I", data)[0]}
        return {"extension": kind, "bytes": data.hex()}
