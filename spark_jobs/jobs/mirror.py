"""Topics copied to another cluster, record by record: keys, values, headers, timestamps and partitions as they are, and
groups with their offsets translated.

The target's topics are made and grown as the source's. Copies are written at least once: a batch that a crash cut off
is written again. The progress and the table of offsets lie in one directory, so the job goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from network.client.cluster_client import ClusterClient
from network.client.connection import ConnectionFailed
from network.protocol.errors import ApiError
from spark_jobs.cluster import ClusterMetadata
from spark_jobs.connection import BOOTSTRAP, connection_options, open_cluster
from spark_jobs.jobs.session import (
    Files,
    Launch,
    kafka_options,
    pairs,
    say,
    security_options,
    spark_options,
    topic_options,
)
from spark_jobs.jobs.sizing import open_for_topics
from spark_jobs.mirror.groups import bring_group, groups_of
from spark_jobs.mirror.topics import BROKERS_DEFAULT, bring_topics
from spark_jobs.mirror.translation import Stretch, extended, from_json, to_json
from spark_jobs.options import EARLIEST, LATEST, Partition, ReadOptions

CHECKPOINT = "checkpoint"
TABLES = "offsets"
# How often a mirror that goes on for ever looks after groups and configs while nothing is to copy.
SYNC_SECONDS = 10
# Two tasks of one partition would mix its order.
_SPLITTING = ("minpartitions", "maxrecordsperpartition")


class Table:
    """The translation of all partitions, kept in a file that is written anew with each batch."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.batch = -1
        self.stretches: dict[Partition, list[Stretch]] = {}
        names = [name for name, _ in files.list(TABLES, ".json")]
        if names:
            found = json.loads(files.read(names[-1]))
            self.batch = found["batch"]
            for topic, partitions in found["table"].items():
                for partition, rows in partitions.items():
                    self.stretches[topic, int(partition)] = from_json(rows)

    def add(self, batch: int, copied: Mapping[Partition, Stretch]) -> None:
        """What a batch has copied; on disk when this returns."""
        merged = dict(self.stretches)
        for place, stretch in copied.items():
            merged[place] = extended(merged.get(place, ()), stretch)
        table: dict[str, dict[str, Any]] = {}
        for (topic, partition), stretches in sorted(merged.items()):
            table.setdefault(topic, {})[str(partition)] = to_json(stretches)
        before = [name for name, _ in self._files.list(TABLES)]
        self._files.write(f"{TABLES}/{batch:012d}.json", json.dumps({"batch": batch, "table": table}))
        for name in before:
            self._files.delete(name)
        self.batch, self.stretches = batch, merged


class Mirror:
    """One run: writes batches, and keeps topics and groups of the target up."""

    def __init__(
        self,
        spark: Any,
        state: str,
        source: dict[str, str],
        target: dict[str, str],
        *,
        prefix: str = "",
        groups: str | None = None,
        replication_factor: int = BROKERS_DEFAULT,
    ) -> None:
        self._spark = spark
        self._files = Files(spark, state.rstrip("/"))
        self._state = state.rstrip("/")
        self._source, self._target = source, target
        self._prefix, self._groups = prefix, groups
        self._replication_factor = replication_factor
        self._known: set[Partition] = set()
        self.table = Table(self._files)
        self.totals = {"batches": 0, "records": 0, "group_offsets": 0}

    def start(self, every: str | None) -> Any:
        """The running query; without ``every`` it ends when all that is there has been copied."""
        with open_cluster(self._source) as source, open_cluster(self._target) as target:
            if not self._prefix and source.metadata([]).cluster_id == target.metadata([]).cluster_id:
                raise click.ClickException("source and target are one cluster: give copies other names with --prefix")
        options = {**self._source, "includeHeaders": "true"}
        options.setdefault("startingOffsets", "earliest")
        stream = self._spark.readStream.format("odradek").options(**options).load()
        writer = stream.writeStream.foreachBatch(self.write).option("checkpointLocation", f"{self._state}/{CHECKPOINT}")
        return (writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)).start()

    def write(self, frame: Any, batch: int) -> None:
        """Copy a micro-batch, unless it has been copied as a whole before."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        if batch <= self.table.batch:
            return
        starts, ends = self._ranges(batch)
        self.bring_topics(set(ends))
        before = self._target_ends(ends)
        counted = Observation()
        columns = [
            "key",
            "value",
            "headers",
            "timestamp",
            "partition",
            f.concat(f.lit(self._prefix), "topic").alias("topic"),
        ]
        chosen = frame.select(*columns).observe(counted, f.count(f.lit(1)).alias("records"))
        chosen.write.format("odradek").mode("append").options(**{**self._target, "includeTimestamp": "true"}).save()
        after = self._target_ends(ends)
        records = int(counted.get["records"])
        # Where more came to be than was written, a task was repeated or somebody else wrote: no place is sure then.
        alone = sum(after[place] - before[place] for place in ends) == records
        copied = {}
        for place, end in ends.items():
            start = starts.get(place, 0)
            if end > start:
                even = alone and end - start == after[place] - before[place]
                copied[place] = Stretch(start, end, before[place], after[place], even)
        self.table.add(batch, copied)
        self.totals["batches"] += 1
        self.totals["records"] += records
        say(f"batch {batch}: {records} records")
        self.bring_groups()

    def bring_topics(self, partitions: set[Partition]) -> None:
        """Make or grow the topics of these partitions, and set configs, unless all of them were seen to before."""
        if partitions <= self._known:
            return
        names = {topic: self._prefix + topic for topic, _ in partitions}
        with open_cluster(self._source) as source, open_cluster(self._target) as target:
            for line in bring_topics(source, target, names, self._replication_factor):
                say(line)
        self._known |= partitions

    def bring_groups(self) -> None:
        """Commit the groups' offsets in the target. What fails is said, and tried again with the next batch."""
        if self._groups is None:
            return
        try:
            with open_cluster(self._source) as source, open_cluster(self._target) as target:
                for group in groups_of(source, self._groups):
                    self._bring_group(source, target, group)
        except (ApiError, ConnectionFailed) as error:
            say(f"groups are not brought over: {error}")

    def _bring_group(self, source: ClusterClient, target: ClusterClient, group: str) -> None:
        done = bring_group(source, target, group, self.table.stretches, lambda topic: self._prefix + topic)
        if done:
            self.totals["group_offsets"] += len(done)
            say(f"group {group}: " + ", ".join(f"{t}-{p} at {offset}" for (t, p), offset in sorted(done.items())))

    def forget(self) -> None:
        """See to topics and their configs again with the next batch."""
        self._known = set()

    def _ranges(self, batch: int) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """Where a batch begins and ends, from the query's own log."""
        ends = self._logged(batch)
        starts = self._logged(batch - 1) if batch else {}
        new = [place for place in ends if place not in starts]
        if new:
            with ClusterMetadata(self._options(self._source, {topic for topic, _ in new})) as cluster:
                starts |= cluster.offsets(dict.fromkeys(new, EARLIEST))
        return starts, ends

    def _logged(self, batch: int) -> dict[Partition, int]:
        found = json.loads(self._files.read(f"{CHECKPOINT}/offsets/{batch}").splitlines()[-1])
        return {(topic, int(p)): offset for topic, partitions in found.items() for p, offset in partitions.items()}

    def _target_ends(self, places: Mapping[Partition, int]) -> dict[Partition, int]:
        wanted = {(self._prefix + topic, partition): (topic, partition) for topic, partition in places}
        if not wanted:
            return {}
        with ClusterMetadata(self._options(self._target, {topic for topic, _ in wanted})) as cluster:
            ends = cluster.offsets(dict.fromkeys(wanted, LATEST))
        return {wanted[place]: end for place, end in ends.items()}

    @staticmethod
    def _options(of: Mapping[str, str], topics: set[str]) -> ReadOptions:
        return ReadOptions.parse({**connection_options(of), "subscribe": ",".join(sorted(topics))}, streaming=False)


def run(mirror: Mirror, every: str | None) -> dict[str, int]:
    """Copy what is there, or with ``every`` (a Spark interval) go on for ever. Returns what was done."""
    query = mirror.start(every)
    if every is None:
        query.awaitTermination()
    else:
        while not query.awaitTermination(SYNC_SECONDS):
            mirror.forget()
            mirror.bring_groups()
    mirror.bring_groups()
    return mirror.totals


@click.command("mirror")
@topic_options
@click.option("--to", "to", required=True, metavar="HOST:PORT", help="Brokers of the cluster to copy to.")
@click.option("--to-option", "to_options", multiple=True, metavar="KEY=VALUE", help="Option of the sink; repeatable.")
@click.option(
    "--to-command-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Properties file that says how to log in there, as --command-config.",
)
@click.option("--state", required=True, help="Directory of the progress and of the table of offsets.")
@click.option("--prefix", default="", help="Names of copies begin with this, such as 'east.'.")
@click.option("--groups", help="Regular expression of the groups whose offsets are brought over too.")
@click.option("--replication-factor", default=BROKERS_DEFAULT, help="Of topics that are made; the brokers' default.")
@click.option("--every", metavar="INTERVAL", help="Go on for ever, a batch each interval, such as '10 seconds'.")
@kafka_options
@spark_options
def main(
    chosen: dict[str, str],
    to: str,
    to_options: tuple[str, ...],
    to_command_config: Path | None,
    state: str,
    prefix: str,
    groups: str | None,
    replication_factor: int,
    every: str | None,
    kafka: dict[str, str],
    launch: Launch,
) -> None:
    """Copy topics and groups to another cluster. Run it again to go on."""
    source = {**chosen, **kafka}
    for name in source:
        if name.lower() in _SPLITTING:
            raise click.UsageError(f"--option {name} would mix the order within partitions")
    target = {BOOTSTRAP: to, **security_options(to_command_config), **pairs(to_options, "--to-option")}
    spark = open_for_topics(launch, "mirror", source, endless=every is not None)
    mirror = Mirror(spark, state, source, target, prefix=prefix, groups=groups, replication_factor=replication_factor)
    launch.show(run(mirror, every))


if __name__ == "__main__":
    main()
