"""What is in topics: records, bytes, keys, skew, sizes, times, compression and late data, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from spark_jobs.jobs.html import bars, heading, page, paragraph, table
from spark_jobs.jobs.session import Launch, kafka_options, spark_options, topic_options
from spark_jobs.jobs.sizing import open_for_topics, sizes_on_disk

TIME_BUCKETS = 40
# Beside key and value a record takes about this on disk before compression: lengths, deltas, its share of the header.
RECORD_OVERHEAD = 12


def measure(spark: Any, source_options: dict[str, str], on_disk: dict[tuple[str, int], int]) -> dict[str, Any]:
    """All numbers of the report. ``on_disk`` is bytes by partition, for the compression ratio."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    columns = "key,value,topic,partition,offset,timestamp"
    frame = spark.read.format("odradek").options(**{**source_options, "columns": columns}).load()
    size = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
    before = Window.partitionBy("topic", "partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    behind = f.max("millis").over(before) - f.col("millis")
    rows = (
        frame.withColumn("size", size)
        .withColumn("millis", f.unix_millis("timestamp"))
        .withColumn("behind", behind)
        .select("topic", "partition", "offset", "key", "size", "millis", "behind", f.isnull("value").alias("tombstone"))
        .persist()
    )
    try:
        partitions = [row.asDict() for row in _by_partition(rows).collect()]
        keys = {row["topic"]: row.asDict() for row in _keys(rows).collect()}
        sizes = rows.groupBy("topic", f.floor(f.log2(f.greatest("size", f.lit(1)))).alias("power")).count().collect()
        edges = rows.agg(f.min("millis").alias("first"), f.max("millis").alias("last")).first()
        width = max(1, ((edges["last"] or 0) - (edges["first"] or 0)) // TIME_BUCKETS + 1)
        bucket = f.floor((f.col("millis") - f.lit(edges["first"] or 0)) / width)
        times = rows.groupBy("topic", bucket.alias("bucket")).count().collect()
    finally:
        rows.unpersist()
    for row in partitions:
        stored = on_disk.get((row["topic"], row["partition"]))
        plain = row["bytes"] + row["records"] * RECORD_OVERHEAD
        row["on_disk"] = stored
        row["compression"] = round(plain / stored, 2) if stored else None
    topics = sorted({row["topic"] for row in partitions})
    return {
        "partitions": sorted(partitions, key=lambda row: (row["topic"], row["partition"])),
        "topics": [_topic(name, [r for r in partitions if r["topic"] == name], keys[name]) for name in topics],
        "sizes": {t: {int(r["power"]): r["count"] for r in sizes if r["topic"] == t} for t in topics},
        "times": {t: {int(r["bucket"]): r["count"] for r in times if r["topic"] == t} for t in topics},
        "first_ms": edges["first"],
        "bucket_ms": width,
    }


def _by_partition(rows: Any) -> Any:
    from pyspark.sql import functions as f

    late = f.col("behind") > 0
    return rows.groupBy("topic", "partition").agg(
        f.count("*").alias("records"),
        f.sum("size").alias("bytes"),
        f.min("offset").alias("first_offset"),
        f.max("offset").alias("last_offset"),
        f.sum(f.isnull("key").cast("long")).alias("without_key"),
        f.sum(f.col("tombstone").cast("long")).alias("tombstones"),
        f.approx_count_distinct("key").alias("keys"),
        f.coalesce(f.sum(late.cast("long")), f.lit(0)).alias("late"),
        f.coalesce(f.max(f.when(late, f.col("behind"))), f.lit(0)).alias("latest_by_ms"),
    )


def _keys(rows: Any) -> Any:
    from pyspark.sql import functions as f

    by_key = rows.groupBy("topic", "key").agg(f.count("*").alias("n"))
    named = f.when(f.isnotnull("key"), f.col("n"))
    return by_key.groupBy("topic").agg(f.count("key").alias("keys"), f.max(named).alias("hottest_key_records"))


def _topic(name: str, partitions: list[dict[str, Any]], keys: dict[str, Any]) -> dict[str, Any]:
    records = sum(row["records"] for row in partitions)
    total = sum(row["bytes"] for row in partitions)
    largest = max(row["bytes"] for row in partitions)
    return {
        "topic": name,
        "records": records,
        "bytes": total,
        "bytes_a_record": total / records if records else 0.0,
        "keys": keys["keys"],
        "hottest_key_records": keys["hottest_key_records"] or 0,
        "skew": largest * len(partitions) / total if total else 1.0,
        "missing_offsets": sum(r["last_offset"] - r["first_offset"] + 1 - r["records"] for r in partitions),
        "late": sum(row["late"] for row in partitions),
    }


def report(numbers: dict[str, Any]) -> str:
    """The numbers as an HTML page."""
    parts = [
        paragraph(
            "Skew is the largest partition over the mean. Late is a record older than one before it in its partition. "
            "Missing offsets went by compaction or were never records, as transaction markers."
        ),
        table(numbers["topics"]),
    ]
    for topic in numbers["topics"]:
        name = topic["topic"]
        rows = [row for row in numbers["partitions"] if row["topic"] == name]
        labels = [f"partition {row['partition']}" for row in rows]
        sizes, times = numbers["sizes"][name], numbers["times"][name]
        powers = list(range(min(sizes), max(sizes) + 1))
        parts += [
            heading(name),
            table([{k: v for k, v in row.items() if k != "topic"} for row in rows]),
            heading("Records", 3),
            bars(labels, [row["records"] for row in rows]),
            heading("Bytes of keys and values", 3),
            bars(labels, [row["bytes"] for row in rows]),
            heading("Size of a record, in bytes", 3),
            bars([f"{2**p} to {2 ** (p + 1) - 1}" for p in powers], [sizes.get(p, 0) for p in powers]),
            heading("Records over time (UTC)", 3),
            bars([_instant(numbers, b) for b in sorted(times)], [times[b] for b in sorted(times)]),
        ]
    return page("Topic report", parts)


def _instant(numbers: dict[str, Any], bucket: int) -> str:
    import datetime

    seconds = (numbers["first_ms"] + bucket * numbers["bucket_ms"]) / 1000
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


@click.command("topic-report")
@topic_options
@click.option("--html", "html_path", default="topic-report.html", show_default=True, type=click.Path(dir_okay=False))
@kafka_options
@spark_options
def main(chosen: dict[str, str], html_path: str, kafka: dict[str, str], launch: Launch) -> None:
    """Read the topics once and describe them. --json prints all numbers."""
    source = {**chosen, **kafka}
    on_disk = sizes_on_disk(kafka)
    spark = open_for_topics(launch, "topic-report", source, on_disk)
    numbers = measure(spark, source, on_disk)
    Path(html_path).write_text(report(numbers))
    launch.show(numbers if launch.as_json else {"topics": numbers["topics"], "page": html_path})


if __name__ == "__main__":
    main()
