"""Topics and groups copied to another cluster, and gone on with where they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from spark_jobs.jobs import mirror as mirror_job
from spark_jobs.jobs.mirror import Mirror
from tests.spark.topics import add_partitions, fill, in_order, make_topic, reader
from tests.support.cluster import Cluster, running_cluster

COLUMNS = ["key", "value", "headers", "partition", "timestamp", "offset"]


GROUPS_AT_ONCE = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}


@pytest.fixture(scope="module")
def here(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(["odradek"], tmp_path_factory.mktemp("here"), f"{zookeeper}/here", GROUPS_AT_ONCE) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def there(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(
        ["odradek"], tmp_path_factory.mktemp("there"), f"{zookeeper}/there", GROUPS_AT_ONCE
    ) as cluster:
        yield cluster


def commit(cluster: Cluster, group: str, topic: str, offsets: dict[int, int]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    partitions = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    for future in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)]).values():
        future.result(30)


def committed(cluster: Cluster, group: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(each.topic, each.partition): each.offset for each in future.result(30).topic_partitions}


def topic_config(cluster: Cluster, topic: str, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    value: str = future.result(30)[name].value
    return value


def cut(cluster: Cluster, topic: str, offset: int) -> None:
    """Delete what is before an offset, so that copies do not have the offsets of what they are copies of."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, p, offset) for p in range(3)]).values():
        future.result(30)


def records(spark: Any, cluster: Cluster, topic: str) -> list[tuple[Any, ...]]:
    rows = in_order(reader(spark, cluster, topic, includeHeaders="true").select(COLUMNS).collect())
    return [tuple(row)[:-1] for row in rows]


def test_topics_and_groups_are_copied_and_gone_on_with(
    spark: Any, here: Cluster, there: Cluster, tmp_path: Path
) -> None:
    topic, group = make_topic(here, 3, 1, **{"max.message.bytes": "2000000", "min.insync.replicas": "1"}), "movers"
    fill(here, topic, 300)
    cut(here, topic, 30)
    commit(here, group, topic, {0: 40, 1: 100})
    commit(here, "others", topic, {0: 50})
    arguments = ["--topics", topic, "-b", here.bootstrap, "--to", there.bootstrap, "--state", str(tmp_path)]
    arguments += ["--groups", "mov.*", "--json"]

    def run() -> Any:
        done = CliRunner().invoke(mirror_job.main, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stderr

    assert "made with 3 partitions" in run()
    assert records(spark, there, topic) == records(spark, here, topic)
    assert len(records(spark, there, topic)) == 210
    assert topic_config(there, topic, "max.message.bytes") == "2000000"
    assert committed(there, group) == {(topic, 0): 10, (topic, 1): 70}
    # The source grows, the group reads on; in the target it is ahead in one partition.
    add_partitions(here, topic, 4)
    fill(here, topic, 100, 4, first=300)
    commit(here, group, topic, {0: 110, 1: 110, 3: 5})
    commit(there, group, topic, {1: 95})
    assert "grew from 3 to 4 partitions" in run()
    assert records(spark, there, topic) == records(spark, here, topic)
    assert committed(there, group) == {(topic, 0): 80, (topic, 1): 95, (topic, 3): 5}
    # Nothing new: nothing is written.
    run()
    assert len(records(spark, there, topic)) == 310
    assert committed(there, "others") == {}


def test_a_batch_that_was_cut_off_is_written_again(
    spark: Any, here: Cluster, there: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was written, before that was noted down. The group goes on in the newest copy; names have a prefix."""
    topic, group = make_topic(here), "crashed"
    fill(here, topic, 30)
    commit(here, group, topic, {0: 4})
    source = {"kafka.bootstrap.servers": here.bootstrap, "subscribe": topic}
    target = {"kafka.bootstrap.servers": there.bootstrap}

    def made() -> Mirror:
        return Mirror(spark, str(tmp_path), source, target, prefix="east.", groups=group)

    def crash(*_: Any) -> None:
        raise OSError("out of reach")

    with monkeypatch.context() as patch:
        patch.setattr(mirror_job.Table, "add", crash)
        with pytest.raises(Exception, match="out of reach"):
            mirror_job.run(made(), None)
    assert committed(there, group) == {}
    assert mirror_job.run(made(), None)["records"] == 30
    assert len(records(spark, there, f"east.{topic}")) == 60
    assert committed(there, group) == {(f"east.{topic}", 0): 14}


def test_a_cluster_is_not_copied_into_itself(spark: Any, here: Cluster, tmp_path: Path) -> None:
    arguments = ["--topics", "any", "-b", here.bootstrap, "--to", here.bootstrap, "--state", str(tmp_path)]
    done = CliRunner().invoke(mirror_job.main, arguments)
    assert (done.exit_code, "use --prefix" in done.output or "with --prefix" in done.output) == (1, True)
