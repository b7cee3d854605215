"""The ``odradek`` format: Spark's Kafka source and sink as a Python data source, Arrow all the way.

Spark finds it by itself through the top-level module ``pyspark_odradek``, as it finds ``odradek-segments``;
``register(spark)`` makes both known where Spark does not look, such as in the zip of ``--py-files``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from spark_jobs.option_table import OptionError
from spark_jobs.options import ReadOptions
from spark_jobs.tasks import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "odradek"
# Spark's setting; false by default.
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class OdradekDataSource(DataSource):
    """``spark.read.format("odradek")`` and friends. Each side is imported where it is used: Spark starts a Python
    process for each step of planning, which pays for what it imports."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        # The columns do not depend on whether it is a stream; limits are checked by the reader.
        options = {k: v for k, v in self.options.items() if not k.lower().startswith(("starting", "ending"))}
        return spark_schema(ReadOptions.parse(options, streaming=False).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_jobs.batch import OdradekReader

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


def register(spark: SparkSession, *, pushdown: bool = False) -> None:
    """Make the formats known to a session, and let writes without a save mode append.

    ``pushdown`` also turns Spark's filter pushdown on. Spark 4.2 then plans a frame that is used more than once, such
    as ``f.where(a).union(f.where(b))``, with the filters of its last use: give each use a ``load()`` of its own.
    """
    from spark_jobs.save_mode import append_by_default
    from spark_jobs.segments import SegmentsDataSource

    append_by_default(FORMAT)
    spark.dataSource.register(OdradekDataSource)
    spark.dataSource.register(SegmentsDataSource)
    if pushdown:
        spark.conf.set(PUSHDOWN, "true")


__all__ = ["FORMAT", "OdradekDataSource", "OptionError", "register"]
