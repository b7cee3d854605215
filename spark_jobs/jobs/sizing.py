"""How a job's session is made: by the size of its input, not for every size alike.

A task of a shuffle costs some tenths of a second however little it has to do, so Spark's 200 of them for a megabyte are
a minute of nothing on two cores; and too few for a terabyte do not fit into memory. Half of the CPU of a job of some
seconds is the JVM's, compiling and collecting what will not run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from network.protocol.errors import ApiError
from spark_jobs.connection import open_cluster
from spark_jobs.jobs.reassignment_plan import replica_sizes
from spark_jobs.jobs.session import Launch, say
from spark_jobs.options import Partition, ReadOptions

SETTING = "spark.sql.shuffle.partitions"
# Bytes that one task of a shuffle is meant to have.
TASK_BYTES = 64 * 1024 * 1024
MAX_PARTITIONS = 10_000
# Input up to which a job is over before an optimizing compiler has paid for itself.
SHORT_BYTES = 512 * 1024 * 1024


def shuffle_partitions(total_bytes: int, cores: int) -> int:
    """At least one a core, as long as tasks are not larger than TASK_BYTES."""
    return max(1, min(MAX_PARTITIONS, max(cores, -(-total_bytes // TASK_BYTES))))


def fit_shuffle(spark: Any, total_bytes: int) -> None:
    """Set the session's shuffle partitions for that much input, unless the user has set them."""
    if not spark.sparkContext.getConf().contains(SETTING):
        spark.conf.set(SETTING, str(shuffle_partitions(total_bytes, spark.sparkContext.defaultParallelism)))


def topic_bytes(source_options: Mapping[str, str], on_disk: Mapping[Partition, int]) -> int:
    """Bytes of the topics that these options subscribe to, by the brokers' sizes; 0 where those are not known."""
    subscription = ReadOptions.parse(source_options, streaming=True).subscription
    return sum(size for (topic, _), size in on_disk.items() if subscription.matches(topic))


def sizes_on_disk(source_options: Mapping[str, str]) -> dict[Partition, int]:
    """Bytes on disk by partition, of the largest replica, in the cluster that these options lead into; empty where the
    brokers do not tell."""
    found: dict[Partition, int] = {}
    try:
        with open_cluster(source_options) as client:
            for sizes in replica_sizes(client).values():
                for partition, size in sizes.items():
                    found[partition] = max(size, found.get(partition, 0))
    except (ApiError, OSError) as error:
        say(f"the brokers do not tell sizes on disk: {error}")
    return found


def local_bytes(*paths: str) -> int | None:
    """Bytes of the files at or below these paths; None where one is not on this machine's file system."""
    total = 0
    for path in paths:
        place = Path(path.removeprefix("file://"))
        if not place.exists():
            return None
        total += sum(each.stat().st_size for each in (place, *place.rglob("*")) if each.is_file())
    return total


def open_fitted(launch: Launch, name: str, total_bytes: int | None, *, endless: bool = False) -> Any:
    """The session of a job with that much input. None is unknown: one task a core. ``endless`` jobs go on for ever."""
    spark = launch.open(name, short=not endless and total_bytes is not None and total_bytes <= SHORT_BYTES)
    fit_shuffle(spark, total_bytes or 0)
    return spark


def open_for_topics(
    launch: Launch,
    name: str,
    source_options: Mapping[str, str],
    on_disk: Mapping[Partition, int] | None = None,
    *,
    endless: bool = False,
) -> Any:
    """The session of a job that reads these topics. ``on_disk``: what `sizes_on_disk` has said already."""
    if on_disk is None:
        on_disk = sizes_on_disk(source_options)
    return open_fitted(launch, name, topic_bytes(source_options, on_disk) if on_disk else None, endless=endless)
