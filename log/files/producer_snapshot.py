"""`.snapshot` files: the producer state just before the offset that names them.

Version (2), CRC-32C of everything behind it (4), entry count (4), then 46 bytes an entry, of which only the newest
batch is kept.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from log.errors import CorruptSnapshotError
from log.files.handles import file_names, write_fully
from log.files.names import offset_in
from log.producer_entry import BatchMetadata, ProducerStateEntry
from log.records.checksum import crc32c

SNAPSHOT_SUFFIX = ".snapshot"
VERSION = 1

_HEAD = struct.Struct(">hIi")
_CRC_END = 6
_ENTRY = struct.Struct(">qhiqiqiq")


def snapshot_name(offset: int) -> str:
    """The file name of the snapshot at `offset`."""
    return f"{offset:020d}{SNAPSHOT_SUFFIX}"


def snapshot_offset(name: str) -> int | None:
    """The offset in a file name, or None when it is not the name of a snapshot."""
    stem = name.removesuffix(SNAPSHOT_SUFFIX)
    return offset_in(stem) if stem != name else None


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """The content of a snapshot file."""
    body = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        )
        for entry in entries
    ]
    data = struct.pack(">i", len(body)) + b"".join(body)
    return struct.pack(">hI", VERSION, crc32c(data)) + data


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """The entries. Raises CorruptSnapshotError on another version, a wrong checksum or a wrong length."""
    if len(data) < _HEAD.size:
        raise CorruptSnapshotError(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(f"producer snapshot version {version} is not supported, only {VERSION}")
    if crc32c(data[_CRC_END:]) != crc:
        raise CorruptSnapshotError("the producer snapshot's checksum is wrong")
    if count < 0 or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"a producer snapshot of {count} entries does not have {len(data)} bytes")
    entries = []
    for fields in _ENTRY.iter_unpack(data[_HEAD.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first = fields
        entry = ProducerStateEntry(
            producer_id, epoch, coordinator_epoch, timestamp, txn_first if txn_first >= 0 else None
        )
        if offset >= 0:
            entry.batches.append(BatchMetadata(sequence, offset, delta, timestamp))
            entry.is_cut = True
        entries.append(entry)
    return entries


def write_snapshot(path: str | os.PathLike[str], entries: Iterable[ProducerStateEntry], *, sync: bool) -> None:
    """Writes a snapshot file. Raises OSError.

    The file is written in place, as Kafka does: one that a crash has cut off fails its checksum and is ignored.
    """
    data = encode_snapshot(entries)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_fully(fd, data)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def read_snapshot(path: str | os.PathLike[str]) -> list[ProducerStateEntry]:
    """The entries of a file. Raises CorruptSnapshotError and OSError."""
    return decode_snapshot(Path(path).read_bytes())


def list_snapshots(directory: str | os.PathLike[str]) -> list[int]:
    """The offsets of the snapshots in a partition directory, ascending."""
    found = map(snapshot_offset, file_names(directory))
    return sorted(offset for offset in found if offset is not None)
