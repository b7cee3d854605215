"""The sink that is effectively once, task by task as Spark would run them: what is repeated is read once."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from network.client.cluster_client import ClusterClient
from spark_jobs import effectively_once as once
from spark_jobs.effectively_once import Place, Prepared, ReplayError
from spark_jobs.sink import Written, write_once
from spark_jobs.transaction import Transaction, TransactionFencedError
from spark_jobs.write_options import WriteOptions
from tests.support import wire
from tests.support.cluster import CLOCK, Cluster
from tests.support.until_end import until_end

PARTITIONS = 2


class Query:
    """A query whose tasks are run here one by one."""

    def __init__(self, cluster: Cluster, client: ClusterClient) -> None:
        self.cluster = cluster
        self.client = client
        self.topic = f"once-{uuid.uuid4().hex[:8]}"
        wire.create_topic(cluster, self.topic, partitions=PARTITIONS)
        given = {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "topic": self.topic,
            "odradek.delivery": "effectively-once",
        }
        self.options = WriteOptions.parse(given)

    def place(self, task: int, batch: int = 0) -> Place:
        return Place(f"odradek-{self.topic}", batch, task)

    def task(self, task: int, *values: str, batch: int = 0) -> Prepared:
        """One attempt of a task with these rows."""
        rows = [pa.RecordBatch.from_pydict({"value": list(values)})] if values else []
        written = write_once(self.options, self.client, CLOCK, self.place(task, batch), iter(rows))
        assert isinstance(written, Written)
        assert written.prepared is not None
        return written.prepared

    def commit(self, *tasks: Prepared) -> None:
        once.commit(self.client, CLOCK, self.options, tasks)

    def commit_only(self, task: Prepared) -> None:
        """As a driver that is killed after this task's transaction."""
        assert task.topic is not None
        transaction = Transaction(self.client, CLOCK, task.place.transactional_id, 30_000)
        transaction.resume(task.producer_id, task.producer_epoch)
        transaction.end(committed=True)

    def seen(self, isolation: str = "read_committed") -> list[str]:
        """What a reader finds once no transaction is open any more, by librdkafka."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": "reads",
                "enable.partition.eof": True,
                "isolation.level": isolation,
            }
        )
        consumer.assign([TopicPartition(self.topic, p, 0) for p in range(PARTITIONS)])
        try:
            return sorted((m.value() or b"").decode() for m in until_end(consumer, PARTITIONS))
        finally:
            consumer.close()


@pytest.fixture
def query(cluster: Cluster) -> Iterator[Query]:
    with cluster.client() as client:
        yield Query(cluster, client)


def test_records_are_seen_when_the_driver_commits(query: Query) -> None:
    tasks = [query.task(0, "a", "b"), query.task(1, "c")]
    assert query.seen() == []
    assert query.seen("read_uncommitted") == ["a", "b", "c"]
    query.commit(*tasks)
    wait_seen(query, "abc")
    group = f"odradek-{query.topic}"
    assert once.last_marker(query.client, CLOCK, query.options, group) == once.Marker(0, query.topic, tasks=2)
    query.commit(query.task(0, "d", batch=1), query.task(1, batch=1))
    wait_seen(query, "abcd")


def test_a_first_batch_that_was_committed_this_moment_is_seen_by_the_next_attempt(query: Query) -> None:
    """Coordinators of groups hear of a commit after those of transactions; the next attempt asks at once."""
    for task in range(20):
        query.commit_only(query.task(task, f"{task}"))
        assert query.task(task, f"{task}").topic is None


def wait_seen(query: Query, values: str) -> None:
    """Markers are written a moment after the coordinator has decided; the next transaction waits for them."""
    for task in (0, 1):
        once.begin(query.client, CLOCK, query.options, query.place(task, batch=1000))
    assert query.seen() == sorted(values)


def test_a_batch_that_is_repeated_is_written_once(query: Query) -> None:
    first = [query.task(0, "a", "b"), query.task(1, "c")]
    query.commit(*first)
    again = [query.task(0, "b", "a"), query.task(1, "c")]
    assert [task.topic for task in again] == [None, None]
    query.commit(*again)
    wait_seen(query, "abc")


def test_a_driver_that_was_killed_between_two_tasks(query: Query) -> None:
    first = [query.task(0, "a"), query.task(1, "b")]
    query.commit_only(first[1])
    again = [query.task(0, "a"), query.task(1, "b")]
    assert [task.topic for task in again] == [query.topic, None]
    query.commit(*again)
    wait_seen(query, "ab")
    assert Counter(query.seen("read_uncommitted")) == {"a": 2, "b": 1}


def test_a_later_attempt_ends_what_an_earlier_left(query: Query) -> None:
    left = query.task(0, "a")
    taken = query.task(0, "a")
    with pytest.raises(TransactionFencedError, match="another attempt has taken over"):
        query.commit(left)
    query.commit(taken)
    wait_seen(query, "a")


def test_an_attempt_that_goes_on_after_the_next_has_begun_writes_nothing(query: Query) -> None:
    taken: list[Prepared] = []

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": ["a"] * 65})
        taken.append(query.task(0, *["a"] * 65))

    with pytest.raises(Exception, match=r"FENCED|INVALID_PRODUCER_EPOCH"):
        write_once(query.options, query.client, CLOCK, query.place(0), rows())
    query.commit(*taken)
    wait_seen(query, "a" * 65)


def test_rows_that_are_not_those_of_before_are_refused(query: Query) -> None:
    query.commit(query.task(0, "a", "b"), query.task(1, "c"))
    with pytest.raises(ReplayError, match="committed with 2 records and is repeated with 3"):
        query.task(0, "a", "b", "c")
    with pytest.raises(ReplayError, match="repeated with other rows"):
        query.task(0, "a", "c")
    query.options = replace(query.options, compare_rows=False)
    assert query.task(0, "a", "c").topic is None
    wait_seen(query, "abc")


def test_fewer_tasks_than_before_are_refused_where_one_of_those_was_committed(query: Query) -> None:
    first = [query.task(0, "a"), query.task(1, "b"), query.task(2, "c")]
    once.write_down(query.client, f"odradek-{query.topic}", once.Marker(0, query.topic, tasks=3))
    query.commit_only(first[2])
    again = [query.task(0, "a", "c"), query.task(1, "b")]
    with pytest.raises(ReplayError, match="repeated in 2 tasks, and task 2 of 3 was committed before"):
        query.commit(*again)
    wait_seen(query, "c")
    query.commit(query.task(0, "a"), query.task(1, "b"), query.task(2, "c"))
    wait_seen(query, "abc")


def test_fewer_or_more_tasks_are_taken_where_nothing_was_committed(query: Query) -> None:
    query.task(0, "a")
    query.task(1, "b")
    left = query.task(2, "c")
    once.write_down(query.client, f"odradek-{query.topic}", once.Marker(0, query.topic, tasks=3))
    query.commit(query.task(0, "a", "c"), query.task(1, "b"))
    with pytest.raises(TransactionFencedError):
        query.commit_only(left)
    query.commit(*(query.task(task, value, batch=1) for task, value in enumerate("def")))
    once.begin(query.client, CLOCK, query.options, query.place(2, batch=1000))
    wait_seen(query, "abcdef")


def test_an_earlier_batch_than_the_last_is_refused(query: Query) -> None:
    query.commit(query.task(0, "a", batch=3))
    with pytest.raises(ReplayError, match="says that batch 3 is written, and this is batch 2"):
        query.task(0, "b", batch=2)


def test_what_a_batch_that_failed_has_prepared_is_aborted_at_once(query: Query) -> None:
    tasks = [query.task(0, "a"), query.task(1)]
    assert tasks[1].topic is None
    once.abort(query.client, CLOCK, query.options, tasks)
    wait_seen(query, "")
    assert query.seen("read_uncommitted") == ["a"]


def test_a_batch_that_is_split_for_the_topic_stays_in_the_transaction(cluster: Cluster, query: Query) -> None:
    query.topic += "-small"
    wire.create_topic(cluster, query.topic, partitions=PARTITIONS, configs={"max.message.bytes": "2000"})
    query.options = replace(query.options, topic=query.topic)
    values = [f"{n:04} " + "x" * 95 for n in range(100)]
    query.commit(query.task(0, *values))
    once.begin(query.client, CLOCK, query.options, query.place(0, batch=1000))
    assert query.seen() == values
