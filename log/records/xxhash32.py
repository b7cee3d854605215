"""xxHash, 32 bit, seed 0: the checksum inside lz4 frames.

Frames that carry block checksums are rare (no Kafka client asks for them), so plain Python is enough.
"""

from __future__ import annotations

import struct

_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF


def _rotate(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _MASK


def xxh32(data: bytes | bytearray | memoryview) -> int:
    """The hash of `data`."""
    size = len(data)
    position = 0
    if size >= 16:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        stripes = size // 16
        for words in struct.iter_unpack("<4I", memoryview(data)[: stripes * 16]):
            lanes = [
                _rotate((lane + word * _P2) & _MASK, 13) * _P1 & _MASK for lane, word in zip(lanes, words, strict=True)
            ]
        a, b, c, d = lanes
        value = (_rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)) & _MASK
        position = stripes * 16
    else:
        value = _P5
    value = (value + size) & _MASK
    while position + 4 <= size:
        (word,) = struct.unpack_from("<I", data, position)
        value = _rotate((value + word * _P3) & _MASK, 17) * _P4 & _MASK
        position += 4
    while position < size:
        value = _rotate((value + data[position] * _P5) & _MASK, 11) * _P1 & _MASK
        position += 1
    value ^= value >> 15
    value = value * _P2 & _MASK
    value ^= value >> 13
    value = value * _P3 & _MASK
    return value ^ (value >> 16)
