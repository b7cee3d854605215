"""Archived Parquet back to topics: keys, values, headers and timestamps as they were, in the order of their offsets.

At least once, as all writes: a task that is repeated repeats its records.
"""

from __future__ import annotations

from typing import Any

import click

from spark_jobs.jobs.archive import Archive
from spark_jobs.jobs.session import Launch, kafka_options, show_result, spark_options
from spark_jobs.jobs.sizing import fit_shuffle


def run(
    spark: Any,
    path: str,
    sink_options: dict[str, str],
    *,
    topics: list[str] | None = None,
    target: str | None = None,
    where: str | None = None,
    keep_partitions: bool = True,
) -> dict[str, Any]:
    """Write archived records that match to their topics, or all to ``target``. Returns the number of records."""
    frame = Archive(spark, path).read()
    if topics is not None:
        frame = frame.where(frame.topic.isin(topics))
    if where is not None:
        frame = frame.where(where)
    columns = ["key", "value", "headers", "timestamp", "topic", "partition"]
    ordered = frame.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    chosen = ordered.select(*(columns if keep_partitions else columns[:-1]))
    options = {"includeTimestamp": "true", **sink_options}
    if target is not None:
        options["topic"] = target
    chosen.write.format("odradek").mode("append").options(**options).save()
    return {"records": frame.count()}


@click.command("restore")
@click.argument("path")
@click.option("--topics", help="Only these, separated by commas.")
@click.option("--to", "target", help="Write everything to this topic instead of the archived names.")
@click.option("--where", help="Only records that this SQL condition holds for, such as \"date >= '2026-01-01'\".")
@click.option("--keep-partitions/--by-key", default=True, help="Partition numbers as archived, or by key anew.")
@click.option("--json", "as_json", is_flag=True, help="The result as one JSON object.")
@kafka_options
@spark_options
def main(
    path: str,
    topics: str | None,
    target: str | None,
    where: str | None,
    keep_partitions: bool,
    as_json: bool,
    kafka: dict[str, str],
    launch: Launch,
) -> None:
    """Write the archive at PATH back to topics."""
    spark = launch.open("restore")
    fit_shuffle(spark, sum(size for _, size in Archive(spark, path).files.list("", ".parquet")))
    result = run(
        spark,
        path,
        kafka,
        topics=None if topics is None else [name.strip() for name in topics.split(",")],
        target=target,
        where=where,
        keep_partitions=keep_partitions,
    )
    show_result(result, as_json)


if __name__ == "__main__":
    main()
