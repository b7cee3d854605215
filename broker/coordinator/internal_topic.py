"""Reading a partition of an internal topic from its log, as a coordinator that loads it does."""

from __future__ import annotations

from collections.abc import Iterator

from log.batch import RecordBatch
from log.old_formats import LegacyBatch, iter_entries
from log.partition_log import PartitionLog


def read_batches(log: PartitionLog, chunk_bytes: int) -> Iterator[RecordBatch | LegacyBatch]:
    """All batches between log start and log end offset, read ``chunk_bytes`` at a time.

    Raises EOFError when the log gives nothing before its end: the load is not complete then.
    """
    position, end = log.log_start_offset, log.log_end_offset
    while position < end:
        found = log.read(position, chunk_bytes, min_one_message=True)
        try:
            data = found.records.read()
        finally:
            found.records.release()
        following = position
        for batch in iter_entries(data):
            yield batch
            following = batch.last_offset + 1
        if following <= position:
            raise EOFError(f"{log.topic_partition} ends at {position}, before its log end offset {end}")
        position = following
