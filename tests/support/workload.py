"""Records of mixed sizes whose content follows from their number, so that every byte can be checked without keeping it.

Nine in ten have up to 300 bytes (some are empty, some null), most others some KB, one in a thousand up to 900 KB.
The number of a record in its partition is in a header, so the content proves place and order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

LARGEST = 900 * 1024
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = (0, 1, -1)

# Random text, so that codecs have something to do, long enough for any record at any start.
_SOURCE = "".join(random.Random(9).choices("abcdefghij \n", k=2 * LARGEST)).encode()
_EVERY_BYTE = bytes(range(256))


Headers = list[tuple[str, bytes | None]]


def item(partition: int, number: int) -> tuple[bytes | None, bytes | None, Headers]:
    """Key, value and headers of record ``number`` of a partition."""
    mixed = (number * 2654435761 + partition * 40503 + 12345) & 0xFFFFFFFF
    kind = mixed % 1000
    size = mixed % (LARGEST if kind == 0 else 9000 if kind < 100 else 300)
    start = mixed % LARGEST
    value = None if kind == 999 else _SOURCE[start : start + size]
    key = None if kind % 3 == 0 and value is not None else _SOURCE[start : start + kind % 40]
    headers: Headers = [("n", b"%d" % number)]
    if kind % 10 == 0:
        headers += [("empty", b""), ("bytes", _EVERY_BYTE), ("n", b"again")]
    return key, value, headers


class Checker:
    """Takes what came back; complains at the first record that is not the next one of its partition."""

    def __init__(self, counts: dict[int, int]) -> None:
        self._counts = counts
        self._next = dict.fromkeys(counts, 0)
        self.left = sum(counts.values())

    def take(
        self,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]],
    ) -> None:
        """Compare one record."""
        number = self._next[partition]
        wanted_key, wanted_value, wanted_headers = item(partition, number)
        assert offset == number, f"partition {partition}: offset {offset} where {number} was expected"
        assert value == wanted_value, f"partition {partition}, record {number}: another value"
        assert key == wanted_key, f"partition {partition}, record {number}: another key"
        assert list(headers) == wanted_headers, f"partition {partition}, record {number}: other headers"
        self._next[partition] = number + 1
        self.left -= 1

    def done(self) -> None:
        """Nothing is missing and nothing too much."""
        assert self._next == self._counts
