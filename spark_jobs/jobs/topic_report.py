"""What is in topics: records, bytes, keys, skew, sizes, times, compression and late data, as one HTML page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from spark_jobs.jobs import summary
from spark_jobs.jobs.html import bars, heading, page, paragraph, table
from spark_jobs.jobs.session import Launch, kafka_options, spark_options, topic_options
from spark_jobs.jobs.sizing import open_for_topics, sizes_on_disk
from spark_jobs.jobs.summary import SummarySource, Times, bars_of

TIME_BUCKETS = 40
# Beside key and value a record takes about this on disk before compression: lengths, deltas, its share of the header.
RECORD_OVERHEAD = 12


def measure(spark: Any, source_options: dict[str, str], on_disk: dict[tuple[str, int], int]) -> dict[str, Any]:
    """All numbers of the report, in one pass. ``on_disk`` is bytes by partition, for the compression ratio."""
    spark.dataSource.register(SummarySource)
    frame = spark.read.format(summary.FORMAT).options(**source_options).load()
    partitions, sizes, times, keys = [], dict[str, dict[int, int]](), dict[str, Times](), dict[str, dict[str, int]]()
    for row in _by_partition(frame).collect():
        name, numbers = row["topic"], json.loads(row["numbers"])
        stored = on_disk.get((name, row["partition"]))
        plain = numbers["bytes"] + numbers["records"] * RECORD_OVERHEAD
        told = {each: numbers[each] for each in summary.NUMBERS}
        ratio = round(plain / stored, 2) if stored else None
        place = {"topic": name, "partition": row["partition"]}
        partitions.append({**place, **told, "keys": row["keys"], "on_disk": stored, "compression": ratio})
        sized = sizes.setdefault(name, {})
        for power, count in numbers["sizes"].items():
            sized[int(power)] = sized.get(int(power), 0) + count
        times.setdefault(name, Times()).merge(Times.of(numbers["times"]))
        known = keys.setdefault(name, {"keys": 0, "hottest_key_records": 0})
        known["keys"] += row["keys_first_here"]
        known["hottest_key_records"] = max(known["hottest_key_records"], row["hottest_key_records"] or 0)
    first, width, bars = bars_of(times, TIME_BUCKETS)
    return {
        "partitions": sorted(partitions, key=lambda row: (row["topic"], row["partition"])),
        "topics": [_topic(name, [r for r in partitions if r["topic"] == name], keys[name]) for name in sorted(keys)],
        "sizes": sizes,
        "times": bars,
        "first_ms": first,
        "bucket_ms": width,
    }


def _by_partition(rows: Any) -> Any:
    """A row for each partition: its numbers, its keys, and of them those that are counted for the topic here, as the
    records of a key may be in several partitions."""
    from pyspark.sql import functions as f

    by_key = rows.groupBy("topic", "key", "numbers").agg(
        f.sum("n").alias("n"), f.collect_set("partition").alias("partitions")
    )
    places = by_key.select("topic", "key", "numbers", "n", f.posexplode("partitions").alias("place", "partition"))
    return places.groupBy("topic", "partition").agg(
        f.count("key").alias("keys"),
        f.count(f.when(f.col("place") == 0, f.col("key"))).alias("keys_first_here"),
        f.max("n").alias("hottest_key_records"),
        f.max("numbers").alias("numbers"),
    )


def _topic(name: str, partitions: list[dict[str, Any]], keys: dict[str, Any]) -> dict[str, Any]:
    records = sum(row["records"] for row in partitions)
    total = sum(row["bytes"] for row in partitions)
    largest = max(row["bytes"] for row in partitions)
    return {
        "topic": name,
        "records": records,
        "bytes": total,
        "bytes_a_record": total / records if records else 0.0,
        **keys,
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
    if split := [name for name in kafka if name.lower() in ("minpartitions", "maxrecordsperpartition")]:
        raise click.UsageError(f"--option {split[0]}: a task reads a whole partition, to see which records are late")
    on_disk = sizes_on_disk(kafka)
    spark = open_for_topics(launch, "topic-report", source, on_disk)
    numbers = measure(spark, source, on_disk)
    Path(html_path).write_text(report(numbers))
    launch.show(numbers if launch.as_json else {"topics": numbers["topics"], "page": html_path})


if __name__ == "__main__":
    main()
