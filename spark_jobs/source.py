"""The ``odradek`` format: Spark's Kafka source and sink as a Python data source, Arrow all the way.

``register(spark)`` makes it known; Spark also finds it by itself through the top-level module ``pyspark_odradek``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
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

from spark_jobs.guard import check_packages
from spark_jobs.options import OptionError, Partition, ReadOptions
from spark_jobs.planning import Range, split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from network.cluster_metadata import BrokerAddress
    from spark_jobs.cluster import ClusterMetadata
    from spark_jobs.pushdown import Bounds

log = logging.getLogger(__name__)

FORMAT = "odradek"

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


class OdradekDataSource(DataSource):
    """``spark.read.format("odradek")`` and friends."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        check_packages()
        # The columns do not depend on whether it is a stream; limits are checked by the reader.
        options = {k: v for k, v in self.options.items() if not k.lower().startswith(("starting", "ending"))}
        return spark_schema(ReadOptions.parse(options, streaming=False).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return OdradekReader(dict(self.options))

    def streamReader(self, schema: StructType) -> Any:
        from spark_jobs.stream import OdradekStreamReader

        return OdradekStreamReader(dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from spark_jobs.sink import OdradekWriter

        return OdradekWriter(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from spark_jobs.sink import OdradekStreamWriter

        return OdradekStreamWriter(dict(self.options), schema)


class OdradekReader(DataSourceReader):
    """Batch reads: resolve both ends on the driver, read ranges in tasks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        check_packages()
        self._options = ReadOptions.parse(options, streaming=False)
        self._bounds: Bounds | None = None

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Filters on partition, offset and timestamp narrow the ranges; Spark still applies all of them."""
        from spark_jobs.pushdown import Bounds

        self._bounds = Bounds.of(filters)
        yield from filters

    def partitions(self) -> Sequence[InputPartition]:
        from spark_jobs.cluster import ClusterMetadata

        with ClusterMetadata(self._options) as metadata:
            ranges = plan_batch(metadata, self._options)
            if self._bounds is not None:
                ranges = self._bounds.narrow(ranges, metadata)
            return tasks(metadata, self._options, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark makes one of its own where there is nothing to read
            return iter(())
        return read_range(self._options, partition)


def tasks(metadata: ClusterMetadata, options: ReadOptions, ranges: list[Range]) -> list[InputPartition]:
    """Tasks of these ranges, split as the options say."""
    parts = split(ranges, options.min_partitions, options.max_records_per_partition)
    return [RangePartition(part, metadata.leader(part.topic, part.partition)) for part in parts]


def plan_batch(metadata: Any, options: ReadOptions) -> list[Range]:
    """Ranges of a batch query over all its partitions."""
    from spark_jobs.resolve import resolve

    partitions: list[Partition] = metadata.partitions(options)
    starts = resolve(metadata, partitions, options.starting, ending=False, strategy=options.timestamp_strategy)
    ends = resolve(metadata, partitions, options.ending, ending=True)
    ranges = []
    for topic, partition in partitions:
        start, end = starts[topic, partition], ends[topic, partition]
        ranges.append(Range(topic, partition, start, max(start, end)))
    return ranges


def read_range(options: ReadOptions, task: RangePartition) -> Iterator[pa.RecordBatch]:
    """Runs on executors: fetch and decode one range."""
    check_packages()
    from spark_jobs.cluster import ClusterMetadata, data_loss_reporter
    from spark_jobs.decode.decoder import Decoder, next_offset_after
    from spark_jobs.fetcher import PartitionFetcher
    from spark_jobs.worker import task as worker_task
    from timer.clock import SystemClock

    range_ = task.range
    on_data_loss = data_loss_reporter(options, log.warning)
    decoder = Decoder(range_.topic, range_.partition, range_.start, range_.end, options.columns)
    with worker_task(), ClusterMetadata(options) as cluster:
        clock = SystemClock()
        fetcher = PartitionFetcher(cluster, options, range_, next_offset_after, clock, on_data_loss, task.leader)
        for answer in fetcher:
            decoder.next_offset = max(decoder.next_offset, answer.offset)
            decoder.aborted.begin(answer.aborted)
            yield from decoder.decode(answer.records, read_committed=options.read_committed)


def register(spark: SparkSession) -> None:
    """Make the formats known to a session, with filter pushdown on (Spark has it off by default)."""
    check_packages()
    from spark_jobs.segments import SegmentsDataSource

    spark.dataSource.register(OdradekDataSource)
    spark.dataSource.register(SegmentsDataSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


__all__ = ["FORMAT", "OdradekDataSource", "OptionError", "register"]
