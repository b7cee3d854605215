"""Records counted by event-time window and key, written to an output topic as they come.

With ``append`` a window is written once, when the watermark has passed it; with ``update`` whenever its count changes.
Key of an output record is the counted key, its value JSON: window_start, window_end (ISO 8601, UTC), key, count.
"""

from __future__ import annotations

from typing import Any

import click

from spark_jobs.connection import connection_options
from spark_jobs.jobs.session import Launch, kafka_options, say, spark_options
from spark_jobs.jobs.sizing import open_for_topics


def counts(
    spark: Any, source_options: dict[str, str], *, window: str, slide: str | None, watermark: str, by: str
) -> Any:
    """The streaming frame of counts, ready for the sink. ``by`` is an SQL expression over the source's columns."""
    from pyspark.sql import functions as f

    stream = spark.readStream.format("odradek").options(**source_options).load()
    grouped = (
        stream.selectExpr("timestamp", f"cast({by} as string) as counted")
        .withWatermark("timestamp", watermark)
        .groupBy(f.window("timestamp", window, slide), "counted")
        .count()
    )
    iso = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
    value = f.to_json(
        f.struct(
            f.date_format("window.start", iso).alias("window_start"),
            f.date_format("window.end", iso).alias("window_end"),
            f.col("counted").alias("key"),
            f.col("count"),
        ),
        {"ignoreNullFields": "false"},
    )
    return grouped.select(f.col("counted").alias("key"), value.alias("value"))


def start(frame: Any, sink_options: dict[str, str], *, mode: str, checkpoint: str, every: str | None) -> Any:
    """The running query; without ``every`` it ends when all that is there has been counted."""

    def write(batch: Any, _: int) -> None:
        batch.write.format("odradek").mode("append").options(**sink_options).save()

    # Spark lets no Python sink take part in update mode, so each batch is written by itself, at least once as well.
    writer = frame.writeStream.foreachBatch(write).outputMode(mode).option("checkpointLocation", checkpoint)
    return (writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)).start()


@click.command("windowed-counts")
@click.argument("topic")
@click.argument("output")
@click.option("--checkpoint", required=True, help="Where the query keeps its progress and state.")
@click.option("--window", default="1 minute", show_default=True, help="Length of a window.")
@click.option("--slide", help="Start a window this often; windows follow each other without it.")
@click.option("--watermark", default="5 minutes", show_default=True, help="How late a record may come.")
@click.option("--by", default="key", show_default=True, help="SQL expression over the columns to count by.")
@click.option("--mode", type=click.Choice(["update", "append"]), default="update", show_default=True)
@click.option("--every", default="10 seconds", show_default=True, help="Interval of batches.")
@click.option("--once", is_flag=True, help="Count what is there and end.")
@kafka_options
@spark_options
def main(
    topic: str,
    output: str,
    checkpoint: str,
    window: str,
    slide: str | None,
    watermark: str,
    by: str,
    mode: str,
    every: str,
    once: bool,
    kafka: dict[str, str],
    launch: Launch,
) -> None:
    """Count the records of TOPIC by window and key into OUTPUT."""
    source = {"startingOffsets": "earliest", "subscribe": topic, **kafka}
    spark = open_for_topics(launch, "windowed-counts", source, endless=not once)
    frame = counts(spark, source, window=window, slide=slide, watermark=watermark, by=by)
    target = {**connection_options(kafka), "topic": output}
    query = start(frame, target, mode=mode, checkpoint=checkpoint, every=None if once else every)
    say(f"counting {topic} into {output}; progress is in {checkpoint}")
    query.awaitTermination()
    launch.show({"rows_read": sum(progress.numInputRows for progress in query.recentProgress)})


if __name__ == "__main__":
    main()
