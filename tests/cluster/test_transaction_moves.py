"""The coordinator of transactional ids moves in every state of a transaction: all end as they were meant to. 2 minutes.

All ids lie in one partition of `__transaction_state`, so that one move moves them all. Topic `held` lives on broker 3
alone, which keeps no internal topic: while it is down, what was decided about its transactions stays in a Prepare
state.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Literal

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from broker.coordinator.internal_topic_names import partition_for
from tests.clients.offsets import committed_offsets
from tests.reference import kafka
from tests.support.cluster import Cluster
from tests.support.coordinators import GROUP, INTERNAL, TRANSACTION, Moves, Way, eventually
from tests.support.replication import QUIET, create_topic, wait_in_sync
from tests.support.transactions import read_committed, states, transactional_producer, values, wait_none_open

PARTITIONS = 3
INTERNAL_ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
HOLDER = 3
SETTINGS = {
    "zookeeper.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "4000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
Interruption = Literal["paused", "killed"]


# Partition 1 of the internal topics goes from Apache Kafka to Odradek when its coordinator stops, and back by election;
# partition 0 the other way round.
MIXED = ["odradek", "kafka", "odradek", "odradek"]
ODRADEK = ["odradek"] * 4


@pytest.fixture
def cluster(request: pytest.FixtureRequest, make_cluster: Callable[..., Cluster]) -> Cluster:
    if "kafka" in request.param:
        kafka.require()
    cluster = make_cluster(request.param, settings=SETTINGS)
    for topic in INTERNAL.values():
        create_topic(cluster, topic, INTERNAL_ASSIGNMENT, config={"cleanup.policy": "compact"})
    create_topic(cluster, "free", [[2, 0, 1], [2, 0, 1]])
    create_topic(cluster, "held", [[HOLDER]], min_isr=1)
    return cluster


def names_in(partition: int, *names: str) -> list[str]:
    """An id for each name that its hash puts into the partition."""
    return [
        next(each for n in itertools.count() if partition_for(each := f"{name}-{n}", PARTITIONS) == partition)
        for name in names
    ]


def send(producer: Producer, value: str, *topics: str) -> None:
    for topic in topics:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def transact(producer: Producer, value: str, *topics: str) -> None:
    producer.begin_transaction()
    send(producer, value, *topics)
    producer.commit_transaction(60)


@pytest.mark.parametrize(
    ("cluster", "way", "interruption"),
    [
        (ODRADEK, "killed", "paused"),
        (ODRADEK, "stopped", "killed"),
        (ODRADEK, "elected", "paused"),
        (MIXED, "stopped", "paused"),
        (MIXED, "elected", "killed"),
    ],
    ids=["killed", "stopped", "elected", "from Kafka to Odradek", "from Odradek to Kafka"],
    indirect=["cluster"],
)
def test_every_state_survives_the_move(way: Way, interruption: Interruption, cluster: Cluster) -> None:
    names = names_in(
        1, "empty", "ongoing", "abandoned", "zombie", "committed", "aborted", "committing", "aborting", "both"
    )
    empty, ongoing, abandoned, zombie, committed, aborted, committing, aborting, both = names
    moves = Moves(cluster, empty, TRANSACTION)
    holder = cluster.brokers[HOLDER]
    if way == "elected":
        moves.away("stopped")
        moves.restore()
    producers = {name: transactional_producer(cluster.bootstrap, name) for name in names if name != abandoned}
    producers[abandoned] = transactional_producer(cluster.bootstrap, abandoned, 15_000)

    for name in (ongoing, zombie, committing, aborting, both):
        producers[name].begin_transaction()
        send(producers[name], name, *(["free", "held"] if name == both else ["held"]))
    transact(producers[committed], committed, "held")
    producers[aborted].begin_transaction()
    send(producers[aborted], aborted, "held")
    producers[aborted].abort_transaction(60)
    eventually(lambda: states(cluster, [committed]) == {committed: "CompleteCommit"}, "the commit is not complete")
    eventually(lambda: states(cluster, [aborted]) == {aborted: "CompleteAbort"}, "the abort is not complete")

    # Last: the time of this one must not run out before its partition is out of reach.
    producers[abandoned].begin_transaction()
    send(producers[abandoned], abandoned, "held")
    holder.pause() if interruption == "paused" else holder.kill()
    holder.wait_forgotten()
    for name in (committing, both):
        producers[name].commit_transaction(60)
    producers[aborting].abort_transaction(60)
    moves.away(way)
    found = states(cluster, names)
    assert found.pop(abandoned) in ("Ongoing", "PrepareAbort")
    assert found == {
        empty: "Empty",
        ongoing: "Ongoing",
        zombie: "Ongoing",
        committed: "CompleteCommit",
        aborted: "CompleteAbort",
        committing: "PrepareCommit",
        aborting: "PrepareAbort",
        both: "PrepareCommit",
    }

    if interruption == "paused":
        holder.resume()
    else:
        holder.start()
    wait_in_sync(cluster, "held")
    ends = {committing: "CompleteCommit", aborting: "CompleteAbort", both: "CompleteCommit", abandoned: "CompleteAbort"}
    eventually(lambda: states(cluster, ends) == ends, lambda: str(states(cluster, names)))

    # Everyone goes on, in the transaction that was open or with a new one.
    send(producers[ongoing], f"{ongoing} more", "free")
    producers[ongoing].commit_transaction(60)
    for name in (empty, ongoing, committed, aborted, committing, aborting, both):
        transact(producers[name], f"{name} after", "free")
    # Except who was shut out: by its timeout, or by an heir.
    heir = transactional_producer(cluster.bootstrap, zombie)
    transact(heir, "heir", "free")
    for name in (abandoned, zombie):
        with pytest.raises(KafkaException) as raised:
            producers[name].commit_transaction(60)
        assert raised.value.args[0].fatal()

    for topic in ("free", "held"):
        wait_none_open(cluster, topic, [0])
    moves.restore()
    after = [f"{name} after" for name in (empty, ongoing, committed, aborted, committing, aborting, both)]
    free = values(read_committed(cluster.bootstrap, "free", [0])[0])
    assert sorted(free) == sorted([both, f"{ongoing} more", *after, "heir"])
    held = values(read_committed(cluster.bootstrap, "held", [0])[0])
    assert sorted(held) == sorted([ongoing, committed, committing, both])


@pytest.mark.parametrize(
    ("cluster", "way"),
    [(ODRADEK, "killed"), (ODRADEK, "stopped"), (MIXED, "stopped")],
    ids=["killed", "stopped", "to Kafka and back"],
    indirect=["cluster"],
)
def test_offsets_of_an_open_transaction_move_with_their_group(way: Way, cluster: Cluster) -> None:
    """The group's coordinator changes between the commit of the offsets and the end of the transaction."""
    # The two coordinators are different brokers.
    (group,) = names_in(0, "group")
    (committed, aborted) = names_in(1, "committed", "aborted")
    moves = Moves(cluster, group, GROUP)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "session.timeout.ms": 60000, **QUIET}
    )
    consumer.subscribe(["free"])
    try:
        while not consumer.assignment():
            consumer.poll(0.2)
        for round_, offset in ((way, 7), ("elected", 11)):
            # librdkafka may wait for ever for a group coordinator that it knew and that left the metadata meanwhile,
            # so each round has new ones.
            producers = [transactional_producer(cluster.bootstrap, name) for name in (committed, aborted)]
            for number, producer in enumerate(producers):
                producer.begin_transaction()
                offsets = [TopicPartition("free", number, offset + number)]
                producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
            moves.away(round_)
            producers[0].commit_transaction(60)
            producers[1].abort_transaction(60)
            eventually(
                lambda wanted={("free", 0): offset}: committed_offsets(cluster, group) == wanted,  # type: ignore[misc]
                lambda: str(committed_offsets(cluster, group)),
            )
            moves.restore()
    finally:
        consumer.close()
