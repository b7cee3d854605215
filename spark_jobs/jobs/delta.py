"""An archive as a table of Delta Lake: each micro-batch is one transaction of the table, which remembers the batch's
number, so a batch that is repeated is not written again.

Delta Lake is no part of odradek: its jars have to be there (``spark.jars.packages``).
"""

from __future__ import annotations

import json
from typing import Any

import click

from spark_jobs.jobs.session import Files, class_is_there

LOG = "_delta_log"
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What a session needs beside the jar."""
_CLASS = SETTINGS["spark.sql.extensions"]
CURE = (
    "Delta Lake is not there: give --conf spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0, or that of your "
    "Spark; with spark-submit also " + " ".join(f"--conf {key}={value}" for key, value in SETTINGS.items())
)


def require_delta(spark: Any) -> None:
    """Raise click.ClickException, naming the package, where the session has no Delta Lake."""
    conf = spark.sparkContext.getConf()
    if not class_is_there(spark, _CLASS) or any(value not in conf.get(key, "") for key, value in SETTINGS.items()):
        raise click.ClickException(CURE)


class DeltaArchive:
    """The table at a path, with the methods of `Archive`."""

    def __init__(self, spark: Any, path: str, state: str, partitions: tuple[str, ...]) -> None:
        require_delta(spark)
        self._spark = spark
        self._path = path.rstrip("/")
        self._state = state
        self._partitions = partitions
        self.files = Files(spark, self._path)

    @property
    def checkpoint(self) -> str:
        """Where the streaming query keeps its progress: beside the data, where Delta Lake does not look."""
        return f"{self._path}/{self._state}"

    def recover(self) -> int:
        """Nothing: a transaction is there or not."""
        return 0

    def write_batch(self, frame: Any, batch_id: int) -> int:
        """Add a micro-batch, unless it is there already. Returns the number of files."""
        # Numbers begin anew with another checkpoint, so they count for the query that this one is of.
        query = json.loads(self.files.read(f"{self._state}/metadata"))["id"]
        before = self._version()
        stamped = frame.selectExpr(
            "*", "date_format(timestamp, 'yyyy-MM-dd') as date", "date_format(timestamp, 'HH') as hour"
        )
        writer = stamped.repartition(*self._partitions).write.format("delta").mode("append")
        options = {"txnAppId": f"odradek-{query}", "txnVersion": str(batch_id)}
        writer.options(**options).partitionBy(*self._partitions).save(self._path)
        after = self._version()
        return 0 if after == before else int(self._last_metrics().get("numFiles", 0))

    def compact(self) -> int:
        """Join small files. Returns how many files went."""
        if not self.files.exists(LOG):
            return 0
        row = self._spark.sql(f"OPTIMIZE delta.`{self._path}`").select("metrics.*").first()
        return int(row["numFilesRemoved"] - row["numFilesAdded"])

    def read(self) -> Any:
        """All archived records."""
        return self._spark.read.format("delta").load(self._path)

    def _version(self) -> int:
        if not self.files.exists(LOG):
            return -1
        return int(self._history().select("version").first()[0])

    def _last_metrics(self) -> dict[str, str]:
        return dict(self._history().select("operationMetrics").first()[0])

    def _history(self) -> Any:
        return self._spark.sql(f"DESCRIBE HISTORY delta.`{self._path}` LIMIT 1")
