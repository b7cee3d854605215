"""The batches of a producer before its last one, found again in the log.

A snapshot has the last batch of a producer alone. After a start or a truncation a repeat of the one before it would be
answered OUT_OF_ORDER_SEQUENCE_NUMBER, as Apache Kafka 3.9 does, upon which the Java client takes its next epoch and
appends what is there already a second time. So the log is asked, once for a producer, and only when a batch comes that
does not follow: a start reads nothing for it.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from log.errors import CorruptRecordError
from log.producer_entry import NUM_BATCHES_TO_RETAIN, BatchMetadata, ProducerStateEntry
from log.records.batch import HEADER_SIZE, RecordBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from log.files.segment import LogSegment
    from log.files.segments import LogSegments

logger = logging.getLogger(__name__)

MAX_INDEX_ENTRIES = 64
"""How far to look back: over so many entries of the offset index, which are as many batches of `index.interval.bytes`
(4 KiB) and more, or 256 KiB of smaller ones."""


def recall_earlier_batches(entry: ProducerStateEntry, segments: LogSegments) -> None:
    """Put the batches of `entry`'s epoch that stand before those it has in their place, up to five in all.

    Fewer if they are gone, or further back than `MAX_INDEX_ENTRIES`. Raises OSError.
    """
    entry.is_cut = False
    end = entry.batches[0].first_offset
    steps = MAX_INDEX_ENTRIES
    segment = segments.lower(end)
    while segment is not None and steps > 0 and (wanted := NUM_BATCHES_TO_RETAIN - len(entry.batches)):
        start, passed = segment.offset_index.back_from(end, steps)
        try:
            found = list(_batches_of(entry, segment, start.position, end))
        except CorruptRecordError as error:
            logger.warning("%s: earlier batches of producer %d can't be read: %s", segment, entry.producer_id, error)
            return
        entry.batches.extendleft(reversed(found[-wanted:]))
        steps -= passed + 1
        segment = segments.lower(segment.base_offset)


def _batches_of(entry: ProducerStateEntry, segment: LogSegment, start: int, end: int) -> Iterator[BatchMetadata]:
    """The data batches of a producer's epoch from position `start` on that begin below offset `end`."""
    file = segment.records.open()
    for place in segment.records.walk(start):
        if place.offset >= end:
            return
        header = os.pread(file.fd, min(place.size, HEADER_SIZE), place.position)
        if len(header) < HEADER_SIZE:
            continue
        batch = RecordBatch(header)
        is_wanted = batch.magic >= 2 and batch.producer_id == entry.producer_id and not batch.is_control
        if is_wanted and batch.producer_epoch == entry.producer_epoch:
            yield BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
