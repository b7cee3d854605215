"""The ``odradek-segments`` format: records read directly from partition directories, no broker involved.

``spark.read.format("odradek-segments").load("/data/kafka")``: one or more directories, separated by commas. The columns
are those of the ``odradek`` format. For audit, recovery and history; batch reads only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_jobs.option_table import OptionError
from spark_jobs.options import Subscription, flag, positive, read_columns, subscription
from spark_jobs.pushdown import FilteredReader
from spark_jobs.row_filter import RowFilter
from spark_jobs.tasks import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.segment_files import Piece

FORMAT = "odradek-segments"
PIECE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SegmentOptions:
    """Validated options of a read from directories."""

    paths: tuple[str, ...]
    selection: Subscription | None
    columns: tuple[str, ...]
    read_committed: bool
    verify: bool
    piece_bytes: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SegmentOptions:
        """``path`` (from ``load``), and optionally subscribe, subscribePattern or assign, includeHeaders, columns,
        kafka.isolation.level, verifyChecksums (true), pieceBytes (64 MiB). Raises OptionError."""
        given = {name.lower(): value for name, value in options.items()}
        paths = tuple(part.strip() for part in given.get("path", "").split(",") if part.strip())
        if not paths:
            raise OptionError("a path is missing: load('/path/of/a/log/directory')")
        isolation = given.get("kafka.isolation.level", "read_uncommitted")
        if isolation not in ("read_committed", "read_uncommitted"):
            raise OptionError(f"kafka.isolation.level is {isolation!r}; give 'read_committed' or 'read_uncommitted'")
        selected = any(name in given for name in ("subscribe", "subscribepattern", "assign"))
        return cls(
            paths=paths,
            selection=subscription(given) if selected else None,
            columns=read_columns(given, flag(given, "includeHeaders", False)),
            read_committed=isolation == "read_committed",
            verify=flag(given, "verifyChecksums", True),
            piece_bytes=positive(given, "pieceBytes") or PIECE_BYTES,
        )

    def wants(self, topic: str, partition: int) -> bool:
        """Whether a partition is selected; without a selection all are."""
        if self.selection is None:
            return True
        wanted = self.selection.assignment.get(topic)
        return self.selection.matches(topic) and (wanted is None or partition in wanted)


class PiecePartition(InputPartition):
    """One task: a piece of a segment."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(None)
        self.piece = piece


class SegmentsDataSource(DataSource):
    """``spark.read.format("odradek-segments")``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(SegmentOptions.parse(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return SegmentsReader(dict(self.options))


class SegmentsReader(FilteredReader):
    """Lists and cuts segments on the driver, reads pieces in tasks. Filters leave out segments."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = SegmentOptions.parse(options)

    def partitions(self) -> Sequence[InputPartition]:
        from spark_jobs.segment_files import one_each, partition_directories, plan_partition

        options = self._options
        found = one_each(partition_directories(options.paths))
        return [
            PiecePartition(piece)
            for tp, directory in sorted(found.items())
            if options.wants(tp.topic, tp.partition)
            for piece in plan_partition(
                directory, self._bounds, options.piece_bytes, read_committed=options.read_committed
            )
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, PiecePartition):  # Spark makes one of its own where there is nothing to read
            return iter(())
        from spark_jobs.segment_files import read_piece

        options = self._options
        batches = read_piece(
            partition.piece, options.columns, read_committed=options.read_committed, verify=options.verify
        )
        filters = self._bounds.filters
        return RowFilter(filters).apply(batches) if filters else batches
