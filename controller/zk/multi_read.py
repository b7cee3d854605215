"""Many reads in one request: ZooKeeper's multiRead operation (3.6 and newer), which kazoo does not know.

It leaves no watches. A server that is older answers UNIMPLEMENTED.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kazoo.protocol.serialization import MultiHeader, read_buffer, write_string
from kazoo.protocol.states import ZnodeStat

_GET_DATA = 4
_ERROR = -1
_STAT = struct.Struct("!qqqqiiiqiiq")
_INT = struct.Struct("!i")


@dataclass(frozen=True, slots=True)
class MultiRead:
    """The wire form, as kazoo's connection wants a request: `type`, `serialize`, `deserialize`."""

    paths: tuple[str, ...]

    @property
    def type(self) -> int:
        return 22

    def serialize(self) -> bytes:
        parts = bytearray()
        for path in self.paths:
            parts += MultiHeader(_GET_DATA, False, -1).serialize()
            parts += write_string(path)
            parts.append(0)
        return bytes(parts + MultiHeader(-1, True, -1).serialize())

    def deserialize(self, data: Any, offset: int) -> list[tuple[bytes | None, ZnodeStat] | int]:
        """For each path its data and stat, or the error code."""
        results: list[tuple[bytes | None, ZnodeStat] | int] = []
        header, offset = MultiHeader.deserialize(data, offset)
        while not header.done:
            if header.type == _GET_DATA:
                content, offset = read_buffer(data, offset)
                results.append((content, ZnodeStat._make(_STAT.unpack_from(data, offset))))
                offset += _STAT.size
            elif header.type == _ERROR:
                results.append(int(_INT.unpack_from(data, offset)[0]))
                offset += _INT.size
            else:
                raise ValueError(f"unexpected operation {header.type} in a multiRead answer")
            header, offset = MultiHeader.deserialize(data, offset)
        return results
