"""Java's hash of a string, by which Kafka spreads groups over partitions and partitions over fetchers."""

from __future__ import annotations


def string_hash(text: str) -> int:
    """`String.hashCode`, over the units of UTF-16, as an unsigned number of 32 bits."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def absolute(value: int) -> int:
    """`Utils.abs` of a signed number that is given as an unsigned one of 32 bits: the least of all becomes 0."""
    if value == 0x80000000:
        return 0
    return value if value < 0x80000000 else 0x100000000 - value
