"""Archived records back to topics: keys, values, headers and timestamps as they were, in the order of their offsets.

At least once, as all writes: a task that is repeated repeats its records. So what was written is read back and compared
by number and checksum, unless that is switched off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from spark_jobs.cluster import ClusterMetadata
from spark_jobs.connection import connection_options
from spark_jobs.jobs.archive import format_option, open_archive, with_settings
from spark_jobs.jobs.session import Launch, kafka_options, say, spark_options
from spark_jobs.jobs.sizing import fit_shuffle, local_bytes, open_fitted
from spark_jobs.options import LATEST, Partition, ReadOptions

# Where the number and the checksum of a group of records stand: by target topic, and partition where it is kept.
Place = tuple[str, int]
ANY_PARTITION = -1


def run(
    spark: Any,
    path: str,
    sink_options: dict[str, str],
    *,
    topics: list[str] | None = None,
    target: str | None = None,
    where: str | None = None,
    keep_partitions: bool = True,
    verify: bool = True,
) -> dict[str, Any]:
    """Write archived records that match to their topics, or all to ``target``.

    Returns the number of records, and with ``verify`` a row for each place where what was written is not what was
    archived.
    """
    frame = open_archive(spark, path).read()
    if topics is not None:
        frame = frame.where(frame.topic.isin(topics))
    if where is not None:
        frame = frame.where(where)
    wanted = _sums(_placed(frame, target, keep_partitions))
    server = connection_options(sink_options)
    names = sorted({topic for topic, _ in wanted})
    before = _ends(server, names) if verify else {}
    columns = ["key", "value", "headers", "timestamp", "topic", "partition"]
    ordered = frame.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    chosen = ordered.select(*(columns if keep_partitions else columns[:-1]))
    options = {"includeTimestamp": "true", **sink_options}
    if target is not None:
        options["topic"] = target
    chosen.write.format("odradek").mode("append").options(**options).save()
    result: dict[str, Any] = {"records": sum(count for count, _ in wanted.values())}
    if verify and names:
        written = _written(spark, server, before, _ends(server, names))
        result["mismatches"] = differences(wanted, _sums(_placed(written, None, keep_partitions)))
    return result


def differences(
    wanted: Mapping[Place, tuple[int, int]], found: Mapping[Place, tuple[int, int]]
) -> list[dict[str, Any]]:
    """Where numbers or checksums are not equal; (number, checksum) by place."""
    rows = []
    for place in sorted(wanted.keys() | found.keys()):
        archived, restored = wanted.get(place, (0, 0)), found.get(place, (0, 0))
        if archived != restored:
            what = "number" if archived[0] != restored[0] else "checksum"
            topic, partition = place
            at = {"topic": topic} | ({} if partition == ANY_PARTITION else {"partition": partition})
            rows.append({**at, "differs": what, "archived": archived[0], "written": restored[0]})
    return rows


def _placed(frame: Any, target: str | None, keep_partitions: bool) -> Any:
    """The frame with the columns ``to_topic`` and ``to_partition`` by which it is summed up."""
    from pyspark.sql import functions as f

    topic = f.col("topic") if target is None else f.lit(target)
    partition = f.col("partition") if keep_partitions else f.lit(ANY_PARTITION)
    return frame.withColumn("to_topic", topic).withColumn("to_partition", partition)


def _sums(frame: Any) -> dict[Place, tuple[int, int]]:
    """Number and checksum of the records of each place, whatever their order."""
    from pyspark.sql import functions as f

    # Spark's hash passes over nulls, so what is null is hashed too.
    def parts(of: Any) -> list[Any]:
        return [f.isnull(of), of]

    headers = f.transform("headers", lambda each: f.struct(*parts(each["key"]), *parts(each["value"])))
    hashed = f.xxhash64(*parts(f.col("key")), *parts(f.col("value")), headers, f.unix_millis("timestamp"))
    rows = frame.groupBy("to_topic", "to_partition").agg(
        f.count("*").alias("records"), f.sum(hashed.cast("decimal(20,0)")).alias("checksum")
    )
    return {(row["to_topic"], row["to_partition"]): (row["records"], int(row["checksum"])) for row in rows.collect()}


def _ends(server: Mapping[str, str], topics: list[str]) -> dict[Partition, int]:
    """Where the partitions of these topics end; those that are not there yet are left out."""
    if not topics:
        return {}
    options = ReadOptions.parse({**server, "subscribe": ",".join(topics)}, streaming=False)
    with ClusterMetadata(options) as cluster:
        found = cluster.partitions(options, tolerate_missing=True)
        return cluster.offsets(dict.fromkeys(found, LATEST))


def _written(
    spark: Any, server: Mapping[str, str], before: Mapping[Partition, int], after: Mapping[Partition, int]
) -> Any:
    """The records between two ends; a partition that was not there before is read from its beginning."""
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), end in after.items():
        starts.setdefault(topic, {})[str(partition)] = before.get((topic, partition), 0)
        ends.setdefault(topic, {})[str(partition)] = end
    options = {"startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends), "includeHeaders": "true"}
    return spark.read.format("odradek").options(**server, **options, subscribe=",".join(starts)).load()


@click.command("restore")
@click.argument("path")
@format_option
@click.option("--topics", help="Only these, separated by commas.")
@click.option("--to", "target", help="Write everything to this topic instead of the archived names.")
@click.option("--where", help="Only records that this SQL condition holds for, such as \"date >= '2026-01-01'\".")
@click.option("--keep-partitions/--by-key", default=True, help="Partition numbers as archived, or by key anew.")
@click.option("--verify/--no-verify", default=True, help="Read what was written and compare number and checksum.")
@kafka_options
@spark_options
def main(
    path: str,
    kind: str | None,
    topics: str | None,
    target: str | None,
    where: str | None,
    keep_partitions: bool,
    verify: bool,
    kafka: dict[str, str],
    launch: Launch,
) -> None:
    """Write the archive at PATH back to topics. Exit code 1 when what was written is not what was archived."""
    total = local_bytes(path)
    spark = open_fitted(with_settings(launch, path, kind), "restore", total)
    if total is None:
        fit_shuffle(spark, sum(size for _, size in open_archive(spark, path, kind).files.list("", ".parquet")))
    result = run(
        spark,
        path,
        kafka,
        topics=None if topics is None else [name.strip() for name in topics.split(",")],
        target=target,
        where=where,
        keep_partitions=keep_partitions,
        verify=verify,
    )
    launch.show(result)
    if result.get("mismatches"):
        say("what was written is not what was archived: a task was repeated, or somebody else wrote at the same time")
        sys.exit(1)


if __name__ == "__main__":
    main()
