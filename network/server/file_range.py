"""What the network layer needs to know of a range of bytes in a file.

A fetch response carries the log's bytes as ranges that go from the page cache to the socket without entering the
process. The log package satisfies this protocol without importing it.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class FileRange(Protocol):
    """`size` bytes of an open file, starting at `position`.

    A range holds a reference that keeps its file open. Whoever sends it calls `release` exactly once: after the last
    byte, or when the bytes can no longer be sent.
    """

    @property
    def fd(self) -> int: ...

    @property
    def position(self) -> int: ...

    @property
    def size(self) -> int: ...

    def read(self) -> bytes:
        """All bytes of the range; for transports that must see them (TLS)."""
        ...

    def release(self) -> None: ...


def is_file_range(part: object) -> bool:
    """Whether a part of a gather list is a file range (and not a buffer)."""
    return not isinstance(part, (bytes, bytearray, memoryview))


def release_parts(parts: list[Any]) -> None:
    """Release every file range of a gather list that will not be sent."""
    for part in parts:
        if is_file_range(part):
            part.release()


def release_message(message: object) -> None:
    """Release every file range that a response message holds; for a response that could not even be encoded."""
    seen: list[object] = [message]
    while seen:
        value = seen.pop()
        if isinstance(value, (list, tuple)):
            seen.extend(value)
        elif isinstance(value, (int, str, bytes, bytearray, memoryview, float, type(None), dict)):
            continue
        elif isinstance(value, FileRange):
            value.release()
        else:
            for name in getattr(type(value), "__slots__", ()):
                seen.append(getattr(value, name, None))
