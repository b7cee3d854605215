"""The last offset of each key, in a fixed amount of memory."""

from __future__ import annotations

import mmap
from hashlib import md5

_HASH_SIZE = 16
SLOT_SIZE = 24
"""MD5 of the key (16 bytes) and the offset (8)."""
_EMPTY = bytes(_HASH_SIZE)


class OffsetMap:
    """An open-addressing hash table in one buffer of `memory` bytes. Keys with the same MD5 are taken to be equal.

    A slot is free when its hash is all zeros, which no key of this world has. Raises MemoryError.
    """

    def __init__(self, memory: int) -> None:
        self.slots = memory // SLOT_SIZE
        if self.slots < 1:
            raise ValueError(f"{memory} bytes are too few for an offset map")
        # Pages that no key is in take no memory: a bytearray would write zeros to all, and of a shared mapping those
        # would be there too that are only looked at.
        try:
            self._table = mmap.mmap(-1, self.slots * SLOT_SIZE, flags=mmap.MAP_PRIVATE)
        except OSError as error:
            # No fault of a disk, for which it would be taken.
            raise MemoryError(
                f"there are no {memory} bytes for the cleaner's table of keys: log.cleaner.dedupe.buffer.size says how "
                f"many its threads have together ({error})"
            ) from error
        self.size = 0
        self.latest_offset = -1
        """The offset up to which keys have been entered."""

    def put(self, key: bytes, offset: int) -> None:
        """Notes that `key` occurs at `offset`, which is above all offsets before. Raises ValueError when full."""
        if self.size >= self.slots:
            raise ValueError("the offset map is full")
        digest = md5(key, usedforsecurity=False).digest()
        at, known = self._find(digest)
        table = self._table
        if not known:
            self.size += 1
            table[at : at + _HASH_SIZE] = digest
        table[at + _HASH_SIZE : at + SLOT_SIZE] = offset.to_bytes(8, "big")
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """The last offset of `key`, or -1."""
        at, known = self._find(md5(key, usedforsecurity=False).digest())
        return int.from_bytes(self._table[at + _HASH_SIZE : at + SLOT_SIZE], "big") if known else -1

    def _find(self, digest: bytes) -> tuple[int, bool]:
        """(position of the slot, whether the key is there); without the key, the free slot where it would go."""
        table, slots = self._table, self.slots
        for attempt in range(slots + _HASH_SIZE):
            # Twelve more hash functions come free: the digest read at another place. After them, step by step.
            start = min(attempt, 12)
            value = int.from_bytes(digest[start : start + 4], "big", signed=True)
            value = 0 if value == -(2**31) else abs(value)
            at = (value + max(0, attempt - 12)) % slots * SLOT_SIZE
            found = table[at : at + _HASH_SIZE]
            if found == digest:
                return at, True
            if found == _EMPTY:
                return at, False
        # Reachable only for a key that is absent from a full map.
        return 0, False
