"""Files of frames with a checksum each: what the log and the snapshots are made of.

A frame of the log is what one fsync made durable, so a frame that another follows was whole once: damage to it is
damage. Only the last may be torn.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

_FRAME = struct.Struct(">4sII")
_MARK = b"\xd2ZKf"


class StoreError(Exception):
    """A data directory that can't be used; the message says which file and why in one line."""


def frame(payload: bytes) -> bytes:
    """With its head."""
    return _FRAME.pack(_MARK, len(payload), zlib.crc32(payload)) + payload


def read_frames(path: Path, magic: bytes) -> tuple[list[bytes], int]:
    """The payloads of the longest good prefix, and where it ends. Raises StoreError unless only the end is torn."""
    data = path.read_bytes()
    if not data.startswith(magic):
        if len(data) < len(magic) and magic.startswith(data):
            return [], 0
        raise StoreError(f"{path} is not a file of this server, or its first bytes are damaged")
    payloads, at = [], len(magic)
    while at < len(data):
        payload = _frame_at(data, at)
        if payload is None:
            if any(True for _ in _later_frames(data, at + 1)):
                raise StoreError(f"{path} is damaged at byte {at}: what follows is whole, so nothing of it is taken")
            break
        payloads.append(payload)
        at += _FRAME.size + len(payload)
    return payloads, at


def _frame_at(data: bytes, at: int) -> bytes | None:
    if at + _FRAME.size > len(data):
        return None
    mark, length, checksum = _FRAME.unpack_from(data, at)
    start = at + _FRAME.size
    payload = data[start : start + length]
    if mark != _MARK or len(payload) != length or zlib.crc32(payload) != checksum:
        return None
    return payload


def _later_frames(data: bytes, start: int) -> Iterator[int]:
    at = data.find(_MARK, start)
    while at >= 0:
        if _frame_at(data, at) is not None:
            yield at
        at = data.find(_MARK, at + 1)


def write_durably(path: Path, data: bytes) -> None:
    """Whole or not at all. Raises OSError."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """So that names in it are durable too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
