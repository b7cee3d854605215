"""What `topic-report` wants to know of a partition, summed up where its records are fetched: no record goes to the JVM.

A task reads a whole partition, so that it sees which records are late. It gives a row with the numbers, and how often
each key came: in parts, whenever it knows as many as it may keep, which Spark adds up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from spark_jobs.batch import OdradekReader
from spark_jobs.tasks import RangePartition

FORMAT = "odradek-summary"
COLUMNS = "key,value,offset,timestamp"
# Distinct keys and their bytes that a task keeps before it hands them on.
MAX_KEYS = 100_000
MAX_KEY_BYTES = 32 * 1024 * 1024
# Bars of a task's histogram of time. They double their width when records need more.
MAX_TIMES = 4096

NUMBERS = ("records", "bytes", "first_offset", "last_offset", "without_key", "tombstones", "late", "latest_by_ms")
SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("numbers", StringType()),  # JSON, of a row that is not a key's
        StructField("key", BinaryType()),
        StructField("n", LongType()),
    ]
)
_ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("numbers", pa.string()),
        ("key", pa.binary()),
        ("n", pa.int64()),
    ]
)


@dataclass(slots=True)
class Times:
    """How many records are in each 2**power ms; the bars are counted from 1970."""

    power: int = 0
    counts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, told: dict[str, Any]) -> Times:
        """As `told` has said it, after its way through JSON."""
        return cls(told["power"], {int(bar): count for bar, count in told["counts"].items()})

    def told(self) -> dict[str, Any]:
        """For JSON."""
        return {"power": self.power, "counts": self.counts}

    def add(self, millis: np.ndarray[Any, Any]) -> None:
        """Count instants, in ms."""
        self._widen(int(millis.min()), int(millis.max()))
        bars, counts = np.unique(millis >> self.power, return_counts=True)
        for bar, count in zip(bars.tolist(), counts.tolist(), strict=True):
            self.counts[bar] = self.counts.get(bar, 0) + count

    def merge(self, other: Times) -> None:
        """Take in another histogram. The wider bars are kept."""
        self._coarsen(other.power)
        for bar, count in other.counts.items():
            wide = bar >> (self.power - other.power)
            self.counts[wide] = self.counts.get(wide, 0) + count
        if self.counts:
            self._widen(min(self.counts) << self.power, max(self.counts) << self.power)

    def _widen(self, low: int, high: int) -> None:
        """Wider bars, until MAX_TIMES of them reach from the lowest to the highest instant."""
        if self.counts:
            low, high = min(low, min(self.counts) << self.power), max(high, max(self.counts) << self.power)
        power = self.power
        while (high >> power) - (low >> power) >= MAX_TIMES:
            power += 1
        self._coarsen(power)

    def _coarsen(self, power: int) -> None:
        if power <= self.power:
            return
        finer, self.counts = self.counts, {}
        for bar, count in finer.items():
            wide = bar >> (power - self.power)
            self.counts[wide] = self.counts.get(wide, 0) + count
        self.power = power


def bars_of(times: Mapping[str, Times], wanted: int) -> tuple[int | None, int, dict[str, dict[int, int]]]:
    """About so many bars over all histograms: the instant at which the first begins (None without records) and the
    width of all, both in ms, and of each histogram the counts by the number of the bar."""
    together = Times()
    for each in times.values():
        together.merge(each)
    if not together.counts:
        return None, 1, {name: {} for name in times}
    first, last = min(together.counts), max(together.counts)
    joined = (last - first) // wanted + 1
    found: dict[str, dict[int, int]] = {}
    for name, each in times.items():
        bars: dict[int, int] = {}
        for bar, count in sorted(each.counts.items()):
            number = ((bar >> (together.power - each.power)) - first) // joined
            bars[number] = bars.get(number, 0) + count
        found[name] = bars
    return first << together.power, joined << together.power, found


class Summary:
    """The numbers of one partition, as its records come in order."""

    def __init__(self) -> None:
        self.records = self.bytes = self.without_key = self.tombstones = self.late = self.latest_by_ms = 0
        self.first_offset = self.last_offset = -1
        self.sizes: dict[int, int] = {}
        self.times = Times()
        self._newest_ms: int | None = None
        self._keys: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the records of a batch with COLUMNS."""
        if not batch.num_rows:
            return
        key, value = batch.column("key"), batch.column("value")
        offsets = batch.column("offset").to_numpy()
        size = _lengths(key) + _lengths(value)
        self.first_offset = int(offsets[0]) if self.first_offset < 0 else self.first_offset
        self.last_offset = int(offsets[-1])
        self.records += batch.num_rows
        self.bytes += int(size.sum())
        self.without_key += key.null_count
        self.tombstones += value.null_count
        # The exponent of a number is one more than that of the power of two at or below it.
        powers = np.bincount(np.frexp(np.maximum(size, 1).astype(np.float64))[1] - 1)
        for power in np.flatnonzero(powers).tolist():
            self.sizes[power] = self.sizes.get(power, 0) + int(powers[power])
        self._add_times(batch.column("timestamp").cast(pa.int64()).to_numpy() // 1000)
        counted = pc.value_counts(key.drop_null())
        if len(counted):
            self._keys.append(pa.table({"key": counted.field("values"), "n": counted.field("counts")}))

    def _add_times(self, millis: np.ndarray[Any, Any]) -> None:
        self.times.add(millis)
        newest = np.maximum.accumulate(millis)
        if self._newest_ms is not None:
            newest = np.maximum(newest, self._newest_ms)
        self._newest_ms = int(newest[-1])
        behind = newest - millis  # of the newest at or before it; nothing for the newest itself
        self.late += int(np.count_nonzero(behind))
        self.latest_by_ms = max(self.latest_by_ms, int(behind.max()))

    def keys(self, *, at_end: bool = False) -> pa.Table | None:
        """Keys and how often they came since the last ones, if there are too many to keep or it is the end."""
        if not self._keys or not (at_end or self._too_many()):
            return None
        joined = pa.concat_tables(self._keys).group_by("key").aggregate([("n", "sum")])
        joined = joined.rename_columns({"n_sum": "n"})
        self._keys = [joined]
        if not at_end and not self._too_many():
            return None
        self._keys = []
        return joined

    def _too_many(self) -> bool:
        rows, size = (sum(getattr(each, what) for each in self._keys) for what in ("num_rows", "nbytes"))
        return bool(rows > MAX_KEYS or size > MAX_KEY_BYTES)

    def numbers(self) -> str:
        """All but the keys, as JSON."""
        numbers = {name: getattr(self, name) for name in NUMBERS}
        return json.dumps({**numbers, "sizes": self.sizes, "times": self.times.told()})


def _lengths(column: pa.Array) -> np.ndarray[Any, Any]:
    return np.asarray(pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False), dtype=np.int64)


class SummaryReader(DataSourceReader):
    """The plan of a batch read, whose tasks give sums in place of rows."""

    def __init__(self, options: dict[str, str]) -> None:
        self._reader = OdradekReader({**options, "columns": COLUMNS})

    def partitions(self) -> Any:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):
            return
        place = partition.range.topic, partition.range.partition
        summary = Summary()
        for batch in self._reader.read(partition):
            summary.add(batch)
            if (keys := summary.keys()) is not None:
                yield from _rows(place, keys)
        if summary.records:
            if (keys := summary.keys(at_end=True)) is not None:
                yield from _rows(place, keys)
            yield pa.RecordBatch.from_pylist(
                [{"topic": place[0], "partition": place[1], "numbers": summary.numbers()}], _ARROW
            )


def _rows(place: tuple[str, int], keys: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in keys.combine_chunks().to_batches(MAX_KEYS):
        count = batch.num_rows
        columns = [
            pa.repeat(pa.scalar(place[0], pa.string()), count),
            pa.repeat(pa.scalar(place[1], pa.int32()), count),
            pa.nulls(count, pa.string()),
            batch.column("key"),
            batch.column("n"),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_ARROW)


class SummarySource(DataSource):
    """``spark.read.format("odradek-summary")``, with the options of ``odradek``. Only for the job."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return SummaryReader(dict(self.options))
