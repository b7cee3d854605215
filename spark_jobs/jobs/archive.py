"""Topics to Parquet or Delta Lake, partitioned by topic, date and hour (UTC of the record's timestamp), exactly once.

A micro-batch is written to a staging folder, then a manifest that lists its files is put down in one rename, then the
files move to their places. The manifest is the commit: a batch that has one is never written again, and moves that a
crash left undone are done at the next start. The checkpoint lies in the archive, so both go together.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from spark_jobs.jobs.delta import LOG, SETTINGS, DeltaArchive
from spark_jobs.jobs.session import F, Files, Launch, kafka_options, say, spark_options, topic_options
from spark_jobs.jobs.sizing import open_for_topics

STATE = "_odradek"
STAGING = f"{STATE}/staging"
MANIFESTS = f"{STATE}/manifests"
DONE = f"{STATE}/done"
CHECKPOINT = f"{STATE}/checkpoint"
PARTITIONS = ("topic", "date", "hour")
PARQUET, DELTA = "parquet", "delta"
SMALL_BYTES = 32 * 1024 * 1024


class Archive:
    """The files of one archive. Every change is a manifest, applied completely or not at all."""

    def __init__(self, spark: Any, path: str) -> None:
        self._spark = spark
        self._path = path.rstrip("/")
        self.files = Files(spark, self._path)

    @property
    def checkpoint(self) -> str:
        """Where the streaming query keeps its progress."""
        return f"{self._path}/{CHECKPOINT}"

    def recover(self) -> int:
        """Finish what a crash left undone; returns how many manifests were."""
        pending = self.files.list(MANIFESTS, ".json")
        for name, _ in pending:
            self._apply(name)
        self.files.delete(STAGING)
        return len(pending)

    def write_batch(self, frame: Any, batch_id: int) -> int:
        """Add a micro-batch, unless it is there already. Returns the number of files."""
        name = f"batch-{batch_id:012d}"
        if self._is_committed(name):
            return 0
        stamped = frame.selectExpr(
            "*", "date_format(timestamp, 'yyyy-MM-dd') as date", "date_format(timestamp, 'HH') as hour"
        )
        return self._commit(name, stamped.repartition(*PARTITIONS), [])

    def compact(self, small_bytes: int = SMALL_BYTES) -> int:
        """Join the small files of every folder that has several. Returns how many files went."""
        folders: dict[str, list[str]] = {}
        for name, size in self.files.list("", ".parquet"):
            folder = name.rpartition("/")[0]
            if size < small_bytes and not name.startswith(STATE):
                folders.setdefault(folder, []).append(name)
        gone = 0
        for _, names in sorted(folders.items()):
            if len(names) > 1:
                paths = [f"{self._path}/{name}" for name in names]
                frame = self._spark.read.option("basePath", self._path).parquet(*paths)
                one = frame.coalesce(1).sortWithinPartitions("partition", "offset")
                self._commit(f"compact-{names[0].rpartition('/')[2].removesuffix('.parquet')}", one, names)
                gone += len(names) - 1
        return gone

    def read(self) -> Any:
        """All archived records. Names of topics stay text, whatever they look like."""
        self._spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        return self._spark.read.parquet(self._path)

    def _is_committed(self, name: str) -> bool:
        return self.files.exists(f"{MANIFESTS}/{name}.json") or self.files.exists(f"{DONE}/{name}.json")

    def _commit(self, name: str, frame: Any, replaces: list[str]) -> int:
        staged = f"{STAGING}/{name}"
        frame.write.mode("overwrite").partitionBy(*PARTITIONS).parquet(f"{self._path}/{staged}")
        moves = []
        for number, (source, _) in enumerate(self.files.list(staged, ".parquet")):
            folder = source[len(staged) :].lstrip("/").rpartition("/")[0]
            moves.append([source, f"{folder}/{name}-{number:05d}.parquet"])
        manifest = f"{MANIFESTS}/{name}.json"
        self.files.write(manifest, json.dumps({"move": moves, "delete": replaces}))
        self._apply(manifest)
        self.files.delete(staged)
        return len(moves)

    def _apply(self, manifest: str) -> None:
        """May be repeated: a file that is not there has been moved or deleted already."""
        changes = json.loads(self.files.read(manifest))
        for source, target in changes["move"]:
            if self.files.exists(source):
                self.files.move(source, target)
        for name in changes["delete"]:
            self.files.delete(name)
        self.files.move(manifest, f"{DONE}/{manifest.rpartition('/')[2]}")


def open_archive(spark: Any, path: str, kind: str | None = None) -> Archive | DeltaArchive:
    """The archive at a path: of the kind that is there, else of ``kind``, else Parquet.

    Raises click.ClickException where another kind is there, or Delta Lake is not installed.
    """
    files = Files(spark, path.rstrip("/"))
    there = DELTA if files.exists(LOG) else PARQUET if files.exists(DONE) else None
    if there is not None and kind not in (None, there):
        raise click.ClickException(f"{path} is an archive of {there}, not {kind}")
    if (there or kind) == DELTA:
        return DeltaArchive(spark, path, CHECKPOINT, PARTITIONS)
    return Archive(spark, path)


def with_settings(launch: Launch, path: str, kind: str | None) -> Launch:
    """With what Delta Lake needs of a session; where the archive is on another machine, only if ``kind`` says so."""
    if kind == DELTA or Path(path.removeprefix("file://"), LOG).is_dir():
        return launch._replace(confs=(*(f"{key}={value}" for key, value in SETTINGS.items()), *launch.confs))
    return launch


def format_option(function: F) -> F:
    """``--format``, given as `kind`."""
    help_text = "Of the archive; what is there is told by itself.  [default: parquet]"
    return click.option("--format", "kind", type=click.Choice([PARQUET, DELTA]), help=help_text)(function)


def run(
    spark: Any,
    path: str,
    source_options: dict[str, str],
    every: str | None,
    compact: bool,
    kind: str | None = None,
) -> dict[str, Any]:
    """Archive what is there, or with ``every`` (a Spark interval) go on for ever. Returns what was done."""
    archive = open_archive(spark, path, kind)
    recovered = archive.recover()
    if recovered:
        say(f"finished {recovered} changes that were interrupted")
    totals = {"batches": 0, "files": 0}

    def write(frame: Any, batch_id: int) -> None:
        files = archive.write_batch(frame, batch_id)
        totals["batches"] += 1
        totals["files"] += files
        say(f"batch {batch_id}: {files} files")

    options = {"startingOffsets": "earliest", "includeHeaders": "true", **source_options}
    stream = spark.readStream.format("odradek").options(**options).load()
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", archive.checkpoint)
    trigger = writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)
    trigger.start().awaitTermination()
    compacted = archive.compact() if compact else 0
    return {**totals, "files_compacted": compacted}


def summary(spark: Any, path: str) -> list[dict[str, Any]]:
    """Records and offsets by partition in an archive; ``missing`` counts offsets that are not there."""
    from pyspark.sql import functions as f

    frame = open_archive(spark, path).read()
    rows = (
        frame.groupBy("topic", "partition")
        .agg(f.count("*").alias("records"), f.min("offset").alias("first"), f.max("offset").alias("last"))
        .orderBy("topic", "partition")
        .collect()
    )
    return [{**row.asDict(), "missing": row["last"] - row["first"] + 1 - row["records"]} for row in rows]


@click.command("archive")
@click.argument("path")
@topic_options
@format_option
@click.option("--every", metavar="INTERVAL", help="Go on for ever, a batch each interval, such as '1 minute'.")
@click.option("--compact/--no-compact", default=True, help="Join small files at the end.")
@kafka_options
@spark_options
def main(
    path: str,
    chosen: dict[str, str],
    kind: str | None,
    every: str | None,
    compact: bool,
    kafka: dict[str, str],
    launch: Launch,
) -> None:
    """Archive topics to Parquet or Delta Lake below PATH. Run it again to go on."""
    source = {**chosen, **kafka}
    spark = open_for_topics(with_settings(launch, path, kind), "archive", source, endless=every is not None)
    result = run(spark, path, source, every, compact, kind)
    launch.show({**result, "partitions": summary(spark, path)})


if __name__ == "__main__":
    main()
