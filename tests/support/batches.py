"""Record batches as tests and benchmarks make and read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from log.errors import CorruptRecordError
from log.records.batch import (
    HEADER_SIZE,
    MIN_SIZE_FOR_MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Buffer,
    RecordBatch,
    peek,
)
from log.records.compression import Codec
from log.records.old_formats import LegacyBatch, down_converted
from log.records.record import BatchBuilder, Record


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    codec: int = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    log_append_time: int | None = None,
) -> bytearray:
    """One batch of the given records, with the offsets they carry; `base_offset` None is the first one's.

    Raises ValueError as `BatchBuilder.append`, and when there is no record.
    """
    records = list(records)
    if not records:
        raise ValueError("a batch needs at least one record")
    builder = BatchBuilder(
        base_offset=records[0].offset if base_offset is None else base_offset,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        partition_leader_epoch=partition_leader_epoch,
        log_append_time=log_append_time,
    )
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers, record.offset)
    return builder.build()


def iter_batches(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[RecordBatch]:
    """The complete magic 2 batches of `buffer`, from `position`; an incomplete last one ends the iteration silently.

    Neither checksums nor records are looked at. Raises CorruptRecordError on an impossible size or a magic other than
    2. For data that may hold older formats use `log.records.old_formats.iter_entries`, which yields both kinds.
    """
    if end is None:
        end = len(buffer)
    while True:
        if end - position < MIN_SIZE_FOR_MAGIC:
            return
        head = peek(buffer, position)
        assert head is not None
        _, size, magic = head
        if magic != 2:
            raise CorruptRecordError(f"expected record batches of magic 2, found magic {magic}")
        if position + size > end:
            return
        if size < HEADER_SIZE:
            raise CorruptRecordError(f"a record batch of {size} bytes is smaller than its header")
        yield RecordBatch(buffer, position)
        position += size


def down_convert(batches: Iterable[RecordBatch | LegacyBatch], magic: int, first_offset: int = 0) -> bytes:
    """All that `down_converted` makes of them."""
    return b"".join(data for data, _ in down_converted(batches, magic, first_offset))
