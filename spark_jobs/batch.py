"""Batch reads: resolve both ends on the driver, read ranges in tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from spark_jobs.cluster import ClusterMetadata, data_loss_reporter
from spark_jobs.option_table import OptionError
from spark_jobs.options import ByOffset, ReadOptions
from spark_jobs.planning import Range
from spark_jobs.pushdown import FilteredReader
from spark_jobs.resolve import TopicMetadata, latest, resolve
from spark_jobs.row_filter import RowFilter
from spark_jobs.tasks import read_range, tasks

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)


class OdradekReader(FilteredReader):
    """Filters on topic, partition, offset and timestamp narrow the ranges and are applied to the rows."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = ReadOptions.parse(options, streaming=False)

    def partitions(self) -> Sequence[InputPartition]:
        with ClusterMetadata(self._options) as metadata:
            ranges = self._bounds.narrow(plan_batch(metadata, self._options), metadata)
            return tasks(metadata, self._options, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        filters = self._bounds.filters
        return read_range(self._options, partition, RowFilter(filters) if filters else None)


def plan_batch(metadata: TopicMetadata, options: ReadOptions) -> list[Range]:
    """Ranges of a batch query over all its partitions.

    Raises OptionError for a start beyond the end, and DataLossError for an end that is not there yet, unless
    failOnDataLoss is false: then the query ends where the partition does.
    """
    partitions = metadata.partitions(options)
    starts = resolve(
        metadata,
        partitions,
        options.starting,
        ending=False,
        strategy=options.timestamp_strategy,
        group_reset=options.group_reset,
    )
    ends = resolve(metadata, partitions, options.ending, ending=True)
    for (topic, partition), start in starts.items():
        if start > (end := ends[topic, partition]):
            raise OptionError(
                f"the start {start} of {topic}-{partition} lies beyond its end {end}: compare the starting and ending "
                "options with each other and with what is in the topic"
            )
    if isinstance(options.ending, ByOffset):
        report = data_loss_reporter(options, logger.warning)
        for place, there in latest(metadata, partitions).items():
            if ends[place] > there:
                report(f"{place[0]}-{place[1]} ends at {there}, before the end {ends[place]} that is asked for")
                ends[place] = there
    return [
        Range(topic, partition, starts[topic, partition], ends[topic, partition]) for topic, partition in partitions
    ]
