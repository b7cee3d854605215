"""What a file of a data directory holds, item by item: for `odradek log dump`.

`dump_file` yields `Item`s; `format_item` writes one as Kafka's dump tool does, and `Item.fields` is its JSON form.
"""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from log.errors import CorruptIndexError, InvalidRecordError, LogError
from log.files.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from log.files.meta_properties import META_PROPERTIES, read_meta_properties
from log.files.partition_metadata import PARTITION_METADATA, PartitionMetadataFile
from log.files.producer_snapshot import read_snapshot
from log.files.txn_index import TransactionIndex
from log.leader_epoch import LEADER_EPOCH_CHECKPOINT, leader_epoch_checkpoint
from log.records.batch import CREATE_TIME, LOG_APPEND_TIME, RecordBatch
from log.records.batch_reader import read_batches
from log.records.compression import STORED_DECOMPRESSION_LIMIT, Codec
from log.records.old_formats import LegacyBatch
from log.records.record import ControlType, Record, control_type_of, iter_records, parse_end_txn_marker

RecordDecoder = Callable[[Record], tuple[str | None, str | None]]
"""Turns a record into the texts of its key and its payload."""

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TIMESTAMP_NAMES = {CREATE_TIME: "CreateTime", LOG_APPEND_TIME: "LogAppendTime"}
_OFFSET_CHECKPOINTS = {
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_CHECKPOINT,
}


@dataclass(slots=True)
class Item:
    """One thing in a file. `kind` is batch, record, offset_entry, time_entry, aborted_txn, producer, offset, epoch,
    property, note (something to tell) or problem (something wrong); `fields` are its values by name."""

    kind: str
    fields: dict[str, Any]


@dataclass(slots=True)
class DumpOptions:
    """What to show. `print_data` and `decoder` need `deep`. `max_bytes` limits what is read of a `.log` file."""

    deep: bool = False
    print_data: bool = False
    skip_record_metadata: bool = False
    index_sanity_check: bool = False
    verify_index_only: bool = False
    max_bytes: int | None = None
    decoder: RecordDecoder | None = None
    decompression_limit: int = field(default=STORED_DECOMPRESSION_LIMIT)


def dump_file(path: str | os.PathLike[str], options: DumpOptions) -> Iterator[Item]:
    """The items of one file, by what its name says it is.

    Suffixes of the cleaner and of deletion (`.cleaned`, `.swap`, `.deleted`) are looked through. Raises ValueError for
    a name that belongs to no file of a data directory, OSError, and LogError when the file does not parse.
    """
    path = Path(path)
    name = path.name
    for suffix in (".deleted", ".swap", ".cleaned"):
        name = name.removesuffix(suffix)
    kind = name.rpartition(".")[2]
    if kind in _READERS_BY_SUFFIX and not name.split(".")[0].isdigit():
        raise ValueError(f"{path}: the name of a segment file begins with its base offset")
    if kind in _READERS_BY_SUFFIX:
        yield from _READERS_BY_SUFFIX[kind](path, options)
    elif name in _OFFSET_CHECKPOINTS:
        for (topic, partition), offset in OffsetCheckpoint(path).read().items():
            yield Item("offset", {"topic": topic, "partition": partition, "offset": offset})
    elif name in _READERS_BY_NAME:
        yield from _READERS_BY_NAME[name](path)
    else:
        raise ValueError("no file of a data directory that this tool knows")


def _base_offset(path: Path) -> int:
    return int(path.name.split(".")[0])


def _beside(path: Path, suffix: str) -> Path:
    """The file of the same segment (and the same state) with another suffix."""
    stem, _, rest = path.name.partition(".")
    _, dot, state = rest.partition(".")
    return path.with_name(stem + suffix + dot + state)


# .log


def _dump_log(path: Path, options: DumpOptions) -> Iterator[Item]:
    yield Item("note", {"text": f"Log starting offset: {_base_offset(path)}"})
    gaps: list[tuple[int, int]] = []
    last_offset: int | None = None
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        valid = 0
        try:
            for position, batch in read_batches(file.fileno()):
                if options.max_bytes is not None and position >= options.max_bytes:
                    return
                yield Item("batch", _batch_fields(batch, position))
                valid = position + batch.size_in_bytes
                if not options.deep:
                    continue
                for record in _record_items(batch, options):
                    offset = record.fields.get("offset")
                    if offset is not None:
                        if last_offset is not None and offset != last_offset + 1:
                            gaps.append((last_offset, offset))
                        last_offset = offset
                    yield record
        except LogError as error:
            yield Item("problem", {"text": f"{path}: {error}"})
        if valid < size:
            yield Item("problem", {"text": f"Found {size - valid} invalid bytes at the end of {path.name}"})
    if gaps:
        yield Item("note", {"text": f"Non-consecutive offsets in {path}", "gaps": gaps})


def _batch_fields(batch: RecordBatch | LegacyBatch, position: int) -> dict[str, Any]:
    tail = {
        "position": position,
        "timestampType": _TIMESTAMP_NAMES.get(batch.timestamp_type, "NoTimestampType"),
        "timestamp": batch.max_timestamp,
        "size": batch.size_in_bytes,
        "magic": batch.magic,
        "compresscodec": _codec_name(batch.codec),
        "crc": batch.crc,
        "isvalid": batch.is_valid(),
    }
    if isinstance(batch, LegacyBatch):
        return {"offset": batch.last_offset, **tail}
    return {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
        **tail,
    }


def _codec_name(number: int) -> str:
    return Codec(number).config_name if number <= Codec.ZSTD else f"unknown({number})"


def _record_items(batch: RecordBatch | LegacyBatch, options: DumpOptions) -> Iterator[Item]:
    if isinstance(batch, LegacyBatch):
        records: Iterator[tuple[Record, LegacyBatch | None]] = (
            (Record(offset, timestamp, *entry.key_and_value()), entry)
            for offset, timestamp, entry in batch.inner_entries(options.decompression_limit)
        )
    else:
        records = ((record, None) for record in iter_records(batch, options.decompression_limit))
    kind = _TIMESTAMP_NAMES.get(batch.timestamp_type, "NoTimestampType")
    for record, entry in records:
        fields: dict[str, Any] = {"offset": record.offset}
        if not options.skip_record_metadata:
            fields |= {
                "timestampType": kind,
                "timestamp": record.timestamp,
                "keySize": -1 if record.key is None else len(record.key),
                "valueSize": -1 if record.value is None else len(record.value),
            }
            if entry is not None:
                fields |= {"isValid": entry.is_valid(), "crc": entry.crc}
            else:
                fields |= {"sequence": record.sequence, "headerKeys": [name for name, _ in record.headers]}
                if options.print_data:
                    fields["headers"] = [{"key": name, **_content("value", value)} for name, value in record.headers]
        if batch.is_control:
            fields |= _control_fields(record)
        elif options.print_data:
            fields |= _data_fields(record, options)
        yield Item("record", fields)


def _control_fields(record: Record) -> dict[str, Any]:
    try:
        marker = parse_end_txn_marker(record)
        if marker is not None:
            return {"endTxnMarker": marker.control_type.name, "coordinatorEpoch": marker.coordinator_epoch}
        number = control_type_of(record.key)
    except InvalidRecordError as error:
        return {"controlError": str(error)}
    return {"controlType": ControlType(number).name}


def _data_fields(record: Record, options: DumpOptions) -> dict[str, Any]:
    if options.decoder is not None:
        key, payload = options.decoder(record)
        return ({} if key is None else {"key": key}) | ({} if payload is None else {"payload": payload})
    return _content("key", record.key) | _content("payload", record.value)


def _content(name: str, data: bytes | None) -> dict[str, Any]:
    """Text where it is text, else base64 under `<name>Base64` beside the text with replacement characters."""
    if data is None:
        return {}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name: data.decode("utf-8", "replace"), f"{name}Base64": base64.b64encode(data).decode()}


# Indexes


def _dump_offset_index(path: Path, options: DumpOptions) -> Iterator[Item]:
    base, data = _base_offset(path), path.read_bytes()
    entries = [(base + delta, position) for delta, position in _OFFSET_ENTRY.iter_unpack(data[: len(data) // 8 * 8])]
    if not entries:
        yield Item("note", {"text": f"{path} is empty."})
        return
    if options.index_sanity_check:
        yield from _sanity(path, len(data), 8, entries[-1][0] < base, entries[-1][0])
        return
    log = _beside(path, ".log")
    with log.open("rb") as file:
        for number, (offset, position) in enumerate(entries):
            # After a crash the preallocated rest is zeros.
            if offset == base and number > 0:
                return
            found = next(read_batches(file.fileno(), position, read_size=4096), None)
            last = None if found is None else found[1].last_offset
            if not options.verify_index_only:
                yield Item("offset_entry", {"offset": offset, "position": position})
            if last != offset:
                text = f"Mismatch in {path}: index offset {offset}, log offset {last}"
                yield Item("problem", {"text": text})


def _dump_time_index(path: Path, options: DumpOptions) -> Iterator[Item]:
    base, data = _base_offset(path), path.read_bytes()
    entries = [(timestamp, base + delta) for timestamp, delta in _TIME_ENTRY.iter_unpack(data[: len(data) // 12 * 12])]
    if options.index_sanity_check:
        if entries and entries[-1][0] < entries[0][0]:
            raise CorruptIndexError(f"{path}: the last timestamp {entries[-1][0]} is below the first, {entries[0][0]}")
        last = entries[-1][1] if entries else base
        yield from _sanity(path, len(data), 12, last < base, last)
        return
    index = _beside(path, ".index")
    offset_data = index.read_bytes() if index.is_file() else b""
    offsets = [(base + d, p) for d, p in _OFFSET_ENTRY.iter_unpack(offset_data[: len(offset_data) // 8 * 8])]
    previous = -1
    with _beside(path, ".log").open("rb") as file:
        for number, (timestamp, offset) in enumerate(entries):
            if offset == base and number > 0:
                return
            if not options.verify_index_only:
                yield Item("time_entry", {"timestamp": timestamp, "offset": offset})
            start = max((position for known, position in offsets if known <= offset), default=0)
            yield from _check_time_entry(path, file.fileno(), start, timestamp, offset, previous, options)
            previous = timestamp


def _check_time_entry(
    path: Path, fd: int, start: int, timestamp: int, offset: int, previous: int, options: DumpOptions
) -> Iterator[Item]:
    batches = (batch for _, batch in read_batches(fd, start))
    batch = next((batch for batch in batches if batch.last_offset >= offset), None)
    if batch is None or batch.last_offset != offset:
        found = None if batch is None else batch.last_offset
        yield Item("problem", {"text": f"{path}: indexed offset {offset} is not in the log, found {found}"})
        return
    largest = max((record.timestamp for record in iter_records(batch, options.decompression_limit)), default=-1)
    if largest != timestamp:
        text = f"Timestamp mismatch in {path}: index timestamp {timestamp}, log timestamp {largest}"
        yield Item("problem", {"text": text})
    if previous >= timestamp:
        yield Item("problem", {"text": f"Out of order timestamp in {path}: {timestamp} follows {previous}"})


def _sanity(path: Path, size: int, entry_size: int, below: bool, last_offset: int) -> Iterator[Item]:
    if below:
        raise CorruptIndexError(f"{path}: the last offset {last_offset} is below the base offset {_base_offset(path)}")
    if size % entry_size:
        raise CorruptIndexError(f"{path}: its size {size} is no multiple of {entry_size}")
    yield Item("note", {"text": f"{path} passed sanity check."})


def _dump_txn_index(path: Path, options: DumpOptions) -> Iterator[Item]:
    index = TransactionIndex(path, _base_offset(path))
    try:
        for txn in index.entries():
            yield Item(
                "aborted_txn",
                {
                    "version": 0,
                    "producerId": txn.producer_id,
                    "firstOffset": txn.first_offset,
                    "lastOffset": txn.last_offset,
                    "lastStableOffset": txn.last_stable_offset,
                },
            )
    finally:
        index.close()


def _dump_snapshot(path: Path, options: DumpOptions) -> Iterator[Item]:
    for entry in read_snapshot(path):
        fields: dict[str, Any] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.current_txn_first_offset,
            "lastTimestamp": entry.last_timestamp,
        }
        if entry.batches:
            batch = entry.batches[0]
            fields |= {
                "firstSequence": batch.first_sequence,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
        yield Item("producer", fields)


# Small files


def _dump_epochs(path: Path) -> Iterator[Item]:
    for entry in leader_epoch_checkpoint(path.parent).read():
        yield Item("epoch", {"epoch": entry.epoch, "startOffset": entry.start_offset})


def _dump_meta_properties(path: Path) -> Iterator[Item]:
    found = read_meta_properties(path.parent)
    if found is not None:
        yield Item("property", {"cluster.id": found.cluster_id, "broker.id": found.broker_id})


def _dump_partition_metadata(path: Path) -> Iterator[Item]:
    topic_id = PartitionMetadataFile(path.parent).read()
    if topic_id is not None:
        yield Item("property", {"topic_id": base64.urlsafe_b64encode(topic_id).decode().rstrip("=")})


_READERS_BY_SUFFIX: dict[str, Callable[[Path, DumpOptions], Iterator[Item]]] = {
    "log": _dump_log,
    "index": _dump_offset_index,
    "timeindex": _dump_time_index,
    "txnindex": _dump_txn_index,
    "snapshot": _dump_snapshot,
}
_READERS_BY_NAME: dict[str, Callable[[Path], Iterator[Item]]] = {
    LEADER_EPOCH_CHECKPOINT: _dump_epochs,
    META_PROPERTIES: _dump_meta_properties,
    PARTITION_METADATA: _dump_partition_metadata,
}


# Text


def format_item(item: Item) -> str:
    """The line (or lines) that Kafka's dump tool prints for the item; problems are worded in our own way."""
    fields = item.fields
    if item.kind in ("note", "problem"):
        gaps = fields.get("gaps", ())
        return "\n".join([fields["text"], *(f"  {before} is followed by {after}" for before, after in gaps)])
    if item.kind == "record":
        return _format_record(fields)
    return " ".join(_format_fields(fields))


def _format_fields(fields: dict[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        if name == "timestampType":
            continue
        if name == "timestamp" and "timestampType" in fields:
            name = fields["timestampType"]
        if name in ("deleteHorizonMs", "currentTxnFirstOffset"):
            value = "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
        yield f"{name}: {_text(value)}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _format_record(fields: dict[str, Any]) -> str:
    metadata = dict(fields)
    rest = [(name, metadata.pop(name)) for name in ("key", "payload") if name in metadata]
    for name in ("keyBase64", "payloadBase64", "headers"):
        metadata.pop(name, None)
    if "headerKeys" in metadata:
        metadata["headerKeys"] = f"[{','.join(metadata['headerKeys'])}]"
    if "isValid" in metadata:
        metadata["crc"] = f"{metadata['crc']}}}"
    if len(metadata) == 1 and rest:
        # Without metadata only the content is shown.
        metadata.pop("offset")
    return " ".join(["|", *_format_fields(metadata), *(f"{name}: {value}" for name, value in rest)])
