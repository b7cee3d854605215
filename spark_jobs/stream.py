"""Streaming reads: where a micro-batch begins and ends.

Spark asks a Python source for its initial offset again within a run and after a restart and does not store it, so a
start that is not a constant would move and lose records. Therefore the initial offset of such a start (``latest``, a
timestamp) is empty, and the first batch ends at the resolved start: it reads nothing, and from then on the start is in
the checkpoint. A start at ``earliest`` or at given offsets can only move over records that are gone, and needs no such
batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from spark_jobs.cluster import ClusterMetadata, data_loss_reporter
from spark_jobs.options import LATEST, ByOffset, Edge, Partition, ReadOptions
from spark_jobs.planning import GROUP_REPORT, OffsetJson, Range, from_json, rate_limit, to_json
from spark_jobs.resolve import TopicMetadata, earliest, latest, resolve
from spark_jobs.tasks import read_range, tasks
from timer.clock import Clock, SystemClock

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.group_offsets import GroupCommits

logger = logging.getLogger(__name__)

# How long data that seems lost is looked for before that is reported, and how often.
SUSPICION_MS = 3_000
SUSPICION_STEP_MS = 100


class StreamPlanner:
    """The decisions of a stream, without Spark: testable with a made-up cluster and clock."""

    def __init__(self, options: ReadOptions, metadata: TopicMetadata, clock: Clock) -> None:
        self._options = options
        self._metadata = metadata
        self._clock = clock
        self._report = data_loss_reporter(options, logger.warning)
        self._target: dict[Partition, int] | None = None
        self._pause = threading.Condition()
        self._last_batch_ms: int | None = None
        self.last_known: dict[Partition, int] = {}

    def prepare_available_now(self) -> None:
        """Fix the end of the query at what is there now (Trigger.AvailableNow)."""
        self._target = self._latest()

    def latest_offset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Where the next batch ends; the start itself when there is nothing to do yet."""
        if not start:
            return to_json(self._initial())
        begin = from_json(start)
        end = self._end_after(begin)
        if isinstance(limit, ReadAllAvailable):
            return to_json(end)
        if self._must_wait(begin, end):
            return start
        self._last_batch_ms = self._clock.monotonic_ms()
        maximum = self._options.max_offsets_per_trigger
        if maximum is None:
            return to_json(end)
        new = [partition for partition in end if partition not in begin]
        return to_json(rate_limit(maximum, begin, end, earliest(self._metadata, new) if new else {}))

    def initial_offset(self) -> OffsetJson:
        """Where the query starts, if asking again can't lose a record; else nothing."""
        starting = self._options.starting
        constant = starting is Edge.EARLIEST or (
            isinstance(starting, ByOffset) and LATEST not in starting.offsets.values()
        )
        return to_json(self._initial()) if constant else {}

    def _initial(self) -> dict[Partition, int]:
        partitions = self._metadata.partitions(self._options)
        options = self._options
        return resolve(
            self._metadata,
            partitions,
            options.starting,
            ending=False,
            strategy=options.timestamp_strategy,
            group_reset=options.group_reset,
        )

    def _latest(self) -> dict[Partition, int]:
        self.last_known = latest(self._metadata, self._metadata.partitions(self._options, tolerate_missing=True))
        return self.last_known

    def _end_after(self, begin: Mapping[Partition, int]) -> dict[Partition, int]:
        """The end of what is there. An end before the start, or a partition that is gone, is asked for again, as a new
        leader may lag for a moment and a broker that has just started knows no topic; if it stays, records are gone:
        report it, and read on from the new end as Spark's connector does."""
        end = dict(self._target if self._target is not None else self._latest())
        deadline = self._clock.monotonic_ms() + SUSPICION_MS
        attempts = 0
        while _went_back(begin, end) or not end.keys() >= begin.keys():
            if attempts >= self._options.fetch_retries and self._clock.monotonic_ms() >= deadline:
                break
            attempts += 1
            with self._pause:
                self._clock.wait(self._pause, max(self._options.fetch_retry_interval_ms, SUSPICION_STEP_MS))
            end = dict(self._latest())
        for topic, partition in sorted(set(begin) - set(end)):
            self._report(f"{topic}-{partition} is gone")
        for (topic, partition), offset in sorted(_went_back(begin, end).items()):
            self._report(f"{topic}-{partition} ended at {offset} and now ends at {end[topic, partition]}")
        return end

    def _must_wait(self, begin: Mapping[Partition, int], end: Mapping[Partition, int]) -> bool:
        minimum = self._options.min_offsets_per_trigger
        if minimum is None or self._target is not None:
            return False
        available = sum(max(0, offset - begin.get(partition, 0)) for partition, offset in end.items())
        if available >= minimum or self._last_batch_ms is None:
            return False  # the first batch of a run waits for nothing, as in Spark's connector
        return self._clock.monotonic_ms() - self._last_batch_ms < self._options.max_trigger_delay_ms

    def ranges(self, start: OffsetJson, end: OffsetJson) -> list[Range]:
        """What a batch reads. New partitions begin at their earliest offset, whatever startingOffsets said."""
        if not start:
            return []
        begin, until = from_json(start), from_json(end)
        new = [partition for partition in until if partition not in begin]
        begins = earliest(self._metadata, new) if new else {}
        for topic, partition in new:
            if begins[topic, partition] > 0:
                self._report(
                    f"{topic}-{partition} appeared while the query ran and its first offset is already "
                    f"{begins[topic, partition]}"
                )
        ranges = []
        for (topic, partition), last in sorted(until.items()):
            first = begin.get((topic, partition), begins.get((topic, partition), last))
            if last > first:
                ranges.append(Range(topic, partition, first, last))
        return ranges


def _went_back(begin: Mapping[Partition, int], end: Mapping[Partition, int]) -> dict[Partition, int]:
    """Starts that lie behind the end of their partition."""
    return {partition: offset for partition, offset in begin.items() if end.get(partition, offset) < offset}


class OdradekStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's view of a :class:`StreamPlanner`; connections are made on first use, on the driver only."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = ReadOptions.parse(options, streaming=True)
        self._metadata: ClusterMetadata | None = None
        self._planner: StreamPlanner | None = None
        self._commits: GroupCommits | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Executors get the options only.
        return {"_options": self._options, "_metadata": None, "_planner": None, "_commits": None}

    @property
    def planner(self) -> StreamPlanner:
        """The planner of this query."""
        if self._planner is None:
            self._metadata = ClusterMetadata(self._options)
            self._planner = StreamPlanner(self._options, self._metadata, SystemClock())
            self._commits = self._metadata.group_commits()
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return self.planner.initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.prepare_available_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        # Spark asks for the next end when it has committed the batch that ended here; it calls `commit` for that one
        # only when there is a next batch.
        planner = self.planner
        self.commit(start)
        return planner.latest_offset(start, limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        known = self.planner.last_known
        if not known:
            return None
        report = to_json(known)
        if self._commits is not None:
            report[GROUP_REPORT] = {"commits": self._commits.commits, "failures": self._commits.failures}
        return report

    def commit(self, end: dict[str, Any]) -> None:
        if self._commits is not None:
            self._commits.commit(from_json(end))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = self.planner.ranges(start, end)
        assert self._metadata is not None
        return tasks(self._metadata, self._options, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._options, partition)

    def stop(self) -> None:
        if self._metadata is not None:
            self._metadata.close()
