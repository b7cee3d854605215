"""Record batches of every format and codec, whole, lying about themselves, and damaged with a checksum that fits."""

from __future__ import annotations

import random
import struct
import zlib

from log.records.batch import HEADER_SIZE
from log.records.checksum import crc32c
from log.records.compression import Codec, compress
from log.records.old_formats import encode_message, encode_wrapper
from log.records.record import Record
from tests.support.batches import build_batch

_COUNT_AT, _LAST_DELTA_AT, _CRC_AT, _ATTRIBUTES_AT = 57, 23, 17, 21
_INT32_LIMITS = (-(2**31), -1, 0, 1, 2**31 - 1, 1_000_000)
BOMB_SIZE = 160 * 1024 * 1024
"""More than one batch of a client may expand to."""
_bombs: dict[int, bytes] = {}


def any_records(rng: random.Random) -> bytes:
    """What may stand in a records field."""
    drawn = rng.random()
    if drawn < 0.03:
        return rng.randbytes(rng.randrange(100))
    found = b"".join(_entry(rng) for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3))))
    if drawn < 0.1 and found:
        return found[: rng.randrange(len(found))]
    return found + (b"\0" * rng.randrange(20) if drawn > 0.97 else b"")


def _records(rng: random.Random) -> list[Record]:
    count = rng.choice((1, 1, 2, 5, 30))
    start = rng.choice((0, 0, 0, 7, 2**40))
    return [
        Record(
            start + number,
            rng.choice((-1, 0, 1_700_000_000_000, 2**62)),
            rng.choice((None, b"", b"key", b"k%d" % rng.randrange(9))),
            rng.choice((None, b"", b"value" * rng.randrange(50))),
            rng.choice(((), (("h", b"v"),), (("", None), ("a", b"")))),
        )
        for number in range(count)
    ]


def _entry(rng: random.Random) -> bytes:
    codec = rng.choice(tuple(Codec))
    magic = rng.choice((0, 1, 2, 2, 2, 2))
    found = _records(rng)
    if magic < 2:
        return _old_entry(magic, codec, found, rng)
    batch = build_batch(
        found,
        codec=codec,
        producer_id=rng.choice((-1, -1, 0, 1, 2, 2**62)),
        producer_epoch=rng.choice((-1, 0, 0, 1, 32767)),
        base_sequence=rng.choice((-1, 0, 0, 1, 2**31 - 1)),
        transactional=rng.random() < 0.1,
        control=rng.random() < 0.05,
    )
    if rng.random() < 0.5:
        _lie(batch, codec, rng)
        if rng.random() < 0.95:
            struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return bytes(batch)


def _old_entry(magic: int, codec: int, found: list[Record], rng: random.Random) -> bytes:
    """Magic 0 and 1 know nothing of zstd; a wrapper that claims it is one of the cases."""
    found = [record._replace(offset=record.offset % 1000) for record in found]
    if codec == Codec.NONE:
        first = found[0]
        made = bytearray(encode_message(magic, first.offset, first.timestamp, first.key, first.value))
    elif rng.random() < 0.2:
        payload = rng.choice((b"", rng.randbytes(40), compress(codec, rng.randbytes(100))))
        made = bytearray(encode_message(magic, 0, 0, None, payload, codec=codec))
    else:
        made = bytearray(encode_wrapper(magic, found, codec))
    if rng.random() < 0.4:
        made[rng.randrange(16, len(made))] = rng.randrange(256)
        if rng.random() < 0.9:
            struct.pack_into(">I", made, 12, zlib.crc32(memoryview(made)[16:]))
    return bytes(made)


def _lie(batch: bytearray, codec: int, rng: random.Random) -> None:
    """Change what the batch says of itself, or its records, in place (its size may change)."""
    match rng.randrange(8):
        case 0:
            struct.pack_into(">i", batch, _COUNT_AT, rng.choice(_INT32_LIMITS))
        case 1:
            struct.pack_into(">i", batch, _LAST_DELTA_AT, rng.choice(_INT32_LIMITS))
        case 2:
            struct.pack_into(">h", batch, _ATTRIBUTES_AT, rng.getrandbits(16) - 2**15)
        case 3:
            struct.pack_into(">i", batch, 8, rng.choice((*_INT32_LIMITS, len(batch) - 13, len(batch) - 11)))
        case 4:
            struct.pack_into(">q", batch, rng.choice((0, 27, 35, 43)), rng.choice((-(2**63), -1, 0, 2**63 - 1)))
        case 5 if len(batch) > HEADER_SIZE:
            batch[rng.randrange(HEADER_SIZE, len(batch))] = rng.randrange(256)
        case 6:
            # Records that are damaged within a payload that decompresses.
            inner = bytearray(rng.randbytes(rng.randrange(1, 60)))
            inner[0] = rng.choice((0, 2, 20, 255, inner[0]))
            batch[HEADER_SIZE:] = compress(codec, bytes(inner))
            struct.pack_into(">i", batch, 8, len(batch) - 12)
        case _:
            batch[rng.randrange(len(batch))] ^= 1 << rng.randrange(8)


def bomb(codec: int) -> bytes:
    """One batch of a few hundred KB at most that would expand to BOMB_SIZE bytes."""
    if codec not in _bombs:
        batch = build_batch([Record(0, 0, None, b"x")], codec=codec)
        batch[HEADER_SIZE:] = compress(codec, bytes(BOMB_SIZE))
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
        _bombs[codec] = bytes(batch)
    return _bombs[codec]
