"""The batches of a producer before its last one, found again in the log.

A snapshot has the last batch of a producer alone. After a start or a truncation a repeat of the one before it would be
answered OUT_OF_ORDER_SEQUENCE_NUMBER, as Apache Kafka 3.9 does, upon which the Java client takes its next epoch and
appends what is there already a second time. So the log is asked, once for a producer, and only when a batch comes that
neither follows nor is known: a start reads nothing for it.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from log.errors import CorruptRecordError
from log.producer_entry import NUM_BATCHES_TO_RETAIN, BatchMetadata, ProducerStateEntry
from log.records.batch import HEADER_SIZE, RecordBatch, increment_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from log.files.segment import LogSegment
    from log.files.segments import LogSegments

logger = logging.getLogger(__name__)

MAX_INDEX_ENTRIES = 64
"""How far to look back, in entries of the offset index, each segment counting as one more."""
MAX_BATCHES = 4_000
"""How many headers to look at: some 30 ms under the log's lock. A follower's index has one entry for all that a fetch
brought, so its entries alone are no bound."""


def recall_earlier_batches(entry: ProducerStateEntry, segments: LogSegments) -> None:
    """Put the batches that stand before those of `entry` in their place, up to five in all.

    Only what leads up to them without a gap: a producer that was forgotten and began anew in the same epoch has older
    batches with the same numbers. Fewer than five if the rest is gone, further back than the bounds, or unreadable: a
    repeat of those is out of order, as it is with Apache Kafka.
    """
    entry.is_cut = False  # once, whatever comes of it
    try:
        for batch in _batches_before(entry.batches[0].first_offset, segments):
            if len(entry.batches) == NUM_BATCHES_TO_RETAIN:
                return
            if batch.producer_id != entry.producer_id or batch.is_control:
                continue
            is_previous = increment_sequence(batch.last_sequence, 1) == entry.first_sequence
            if batch.producer_epoch != entry.producer_epoch or not is_previous:
                return
            entry.batches.appendleft(
                BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
            )
    except (CorruptRecordError, OSError) as error:
        logger.warning("earlier batches of producer %d can't be read: %s", entry.producer_id, error)


def _batches_before(end: int, segments: LogSegments) -> Iterator[RecordBatch]:
    """Headers of the batches that begin below offset `end`, the newest first. Raises CorruptRecordError and OSError.

    They can be read forwards only, so it goes back by one entry of the index, then by four, and so on.
    """
    entries, batches, steps = MAX_INDEX_ENTRIES, MAX_BATCHES, 1
    segment = segments.lower(end)
    while segment is not None and entries > 0:
        start, passed = segment.offset_index.back_from(end, min(steps, entries))
        piece = _headers(segment, start.position, end, batches)
        if piece is None:
            return
        yield from reversed(piece)
        batches -= len(piece)
        entries -= passed
        steps *= 4
        if start.position == 0:
            entries -= 1
            segment = segments.lower(segment.base_offset)
        elif piece:
            end = piece[0].base_offset
        else:
            return  # nothing but batches of old formats, which have no producers


def _headers(segment: LogSegment, start: int, end: int, most: int) -> list[RecordBatch] | None:
    """Those from position `start` on that begin below offset `end`; None if these are more than `most`."""
    file = segment.records.open()
    found: list[RecordBatch] = []
    for place in segment.records.walk(start):
        if place.offset >= end:
            break
        if len(found) == most:
            return None
        header = os.pread(file.fd, HEADER_SIZE, place.position)
        if place.size >= HEADER_SIZE and (batch := RecordBatch(header)).magic >= 2:
            found.append(batch)
    return found
