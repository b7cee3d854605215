"""Damage that knows what a file is: numbers that are limits, entries that contradict each other, checksums that fit."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path

from log.files.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from log.files.meta_properties import META_PROPERTIES
from log.files.names import CLEAN_SHUTDOWN_FILE
from log.files.partition_metadata import PARTITION_METADATA
from log.leader_epoch import LEADER_EPOCH_CHECKPOINT
from log.records.checksum import crc32c

TEXTS = (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    LEADER_EPOCH_CHECKPOINT,
    CLEAN_SHUTDOWN_FILE,
)
_NUMBERS = (b"-1", b"0", b"1", b"2", b"999999", b"2147483648", b"9223372036854775807", b"9" * 30, b"9" * 5_000, b"1_0")
_WORDS = (b"", b"x", b"\xb2", b"+3", b"0x1", b"1.5", b"nan", b"\xff\xfe", b"\0", "\u0661".encode())
_LIMITS = (-(2**63), -1, 0, 1, 2**31, 2**62, 2**63 - 1)
_INTS = (-(2**31), -1, 0, 1, 2**31 - 1)
_SNAPSHOT_HEAD, _SNAPSHOT_ENTRY = 10, struct.Struct(">qhiqiqiq")
_TXN_ENTRY = struct.Struct(">hqqqq")


def damage(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, the end cut, or something added."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(5):
            case 0 if found:
                found[min(at, len(found) - 1)] = rng.randrange(256)
            case 1:
                del found[at:]
            case 2:
                found[at : at + 8] = rng.choice((b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, rng.randbytes(8)))
            case 3:
                found += rng.choice((b"\0" * 40, rng.randbytes(20), found[:100]))
            case _:
                del found[at : at + rng.randrange(1, 30)]
    return bytes(found)


def damage_as(name: str, data: bytes, rng: random.Random) -> bytes:
    """By what a file of this name holds; one time in four as any bytes are."""
    if rng.random() < 0.25:
        return damage(data, rng)
    suffix = Path(name).suffix
    if name in TEXTS:
        return _text(data, rng)
    if suffix == ".snapshot":
        return _snapshot(data, rng)
    if suffix == ".txnindex":
        return _entries(data, _TXN_ENTRY, rng)
    if suffix in (".index", ".timeindex"):
        return _entries(data, struct.Struct(">ii" if suffix == ".index" else ">qi"), rng)
    return damage(data, rng)


def _text(data: bytes, rng: random.Random) -> bytes:
    """A number or a word replaced; a line doubled, dropped or moved, with a count that still fits or not."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            lines.insert(at, rng.choice(lines))
        case 1:
            del lines[at]
        case 2:
            rng.shuffle(lines)
        case _:
            words = re.split(rb"(\s+|[:=])", lines[at])
            words[rng.randrange(len(words))] = rng.choice(rng.choice((_NUMBERS, _NUMBERS, _WORDS)))
            lines[at] = b"".join(words)
    if rng.random() < 0.5 and len(lines) > 2 and lines[1].strip().isdigit():
        lines[1] = b"%d" % sum(1 for line in lines[2:] if line)
    return b"\n".join(lines)


def _snapshot(data: bytes, rng: random.Random) -> bytes:
    """Producers with other epochs, sequences and offsets, under a checksum and a count that fit."""
    body = _entries(data[_SNAPSHOT_HEAD:], _SNAPSHOT_ENTRY, rng)
    if not body or rng.random() < 0.1:
        body += _SNAPSHOT_ENTRY.pack(*(rng.choice((0, 1, -1)) for _ in range(8)))
    counted = struct.pack(">i", len(body) // _SNAPSHOT_ENTRY.size) + body
    return struct.pack(">hI", rng.choice((1, 1, 1, 1, 0, 2)), crc32c(counted)) + counted


def _entries(data: bytes, entry: struct.Struct, rng: random.Random) -> bytes:
    """Entries of a fixed size: fields at their limits, entries doubled, dropped, moved or torn."""
    whole = [data[at : at + entry.size] for at in range(0, len(data) - entry.size + 1, entry.size)]
    if not whole:
        return rng.choice((b"", bytes(entry.size), b"\xff" * entry.size, b"\0" * (entry.size - 1)))
    at = rng.randrange(min(len(whole), 40))
    match rng.randrange(6):
        case 0:
            whole.insert(at, whole[-1 - at])
        case 1:
            del whole[at]
        case 2:
            whole[at] = whole[at][: rng.randrange(entry.size)]
        case _:
            fields = list(entry.unpack(whole[at]))
            place = rng.randrange(len(fields))
            kind = entry.format[place + 1]
            fields[place] = rng.choice({"q": _LIMITS, "i": _INTS, "h": (-1, 0, 1, 32767)}[kind])
            whole[at] = entry.pack(*fields)
    return b"".join(whole)
