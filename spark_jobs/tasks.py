"""What a query's tasks are and what they do: a range of one partition, fetched and decoded into Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_jobs.options import ReadOptions
from spark_jobs.planning import Range, split

if TYPE_CHECKING:
    import pyarrow as pa

    from network.client.cluster_metadata import BrokerAddress
    from spark_jobs.cluster import ClusterMetadata
    from spark_jobs.row_filter import RowFilter

logger = logging.getLogger(__name__)

_TYPES = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())]), containsNull=True
    ),
}


def spark_schema(columns: Sequence[str]) -> StructType:
    """Spark's types of the named columns; all nullable."""
    return StructType([StructField(name, _TYPES[name]) for name in columns])


class RangePartition(InputPartition):
    """One task: a range of one partition and who led it when the query was planned, so that a task needs no metadata
    unless the leader has moved."""

    def __init__(self, range_: Range, leader: BrokerAddress | None) -> None:
        super().__init__(None)
        self.range = range_
        self.leader = leader


def tasks(metadata: ClusterMetadata, options: ReadOptions, ranges: list[Range]) -> list[InputPartition]:
    """Tasks of these ranges, split as the options say."""
    parts = split(ranges, options.min_partitions, options.max_records_per_partition)
    return [RangePartition(part, metadata.leader(part.topic, part.partition)) for part in parts]


def read_range(
    options: ReadOptions, task: InputPartition, row_filter: RowFilter | None = None
) -> Iterator[pa.RecordBatch]:
    """Runs on executors: fetch and decode one range, and give the rows that the filter lets pass."""
    if not isinstance(task, RangePartition):  # Spark makes one of its own where there is nothing to read
        return
    # Imported by the tasks that need them: each new Python worker pays for what is imported at its start.
    from spark_jobs.cluster import ClusterMetadata, data_loss_reporter
    from spark_jobs.decode.decoder import Decoder, next_offset_after
    from spark_jobs.fetcher import PartitionFetcher
    from spark_jobs.worker import task as worker_task
    from timer.clock import SystemClock

    range_ = task.range
    on_data_loss = data_loss_reporter(options, logger.warning)
    decoder = Decoder(range_.topic, range_.partition, range_.start, range_.end, options.columns)
    with worker_task(), ClusterMetadata(options) as cluster:
        clock = SystemClock()
        fetcher = PartitionFetcher(cluster, options, range_, next_offset_after, clock, on_data_loss, task.leader)
        for answer in fetcher:
            decoder.next_offset = max(decoder.next_offset, answer.offset)
            decoder.aborted.begin(answer.aborted)
            batches = decoder.decode(answer.records, read_committed=options.read_committed)
            yield from batches if row_filter is None else row_filter.apply(batches)
