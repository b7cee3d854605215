"""A member of a consumer group as a process of its own: `python -m tests.clients.group_member --library ...`.

Prints one JSON object a line: `{"assigned": [[topic, partition], ...]}` whenever the whole assignment has changed, and
`{"records": [[topic, partition, offset, value], ...]}`. Commits after each batch (`committed`). aiokafka's also
tells where it will begin anew (`refused`). SIGTERM leaves the group, SIGKILL does not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import threading
import time
from typing import Any

stopping = threading.Event()
OUT_OF_RANGE = 1
"""OFFSET_OUT_OF_RANGE."""


def tell(**event: Any) -> None:
    print(json.dumps({**event, "at": time.monotonic_ns()}), flush=True)


class Positions:
    """Behind the records that were told and are not committed; without partitions that were taken away meanwhile."""

    def __init__(self) -> None:
        self.next: dict[tuple[str, int], int] = {}

    def told(self, records: list[list[Any]]) -> None:
        for topic, partition, offset, _ in records:
            self.next[topic, partition] = offset + 1

    def forget(self, places: set[tuple[str, int]]) -> None:
        self.next = {place: at for place, at in self.next.items() if place not in places}

    def committed(self) -> None:
        tell(committed=[[topic, partition, offset] for (topic, partition), offset in self.next.items()])
        self.next.clear()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", choices=["confluent", "kafka-python", "aiokafka"], required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", action="append", default=[])
    parser.add_argument("--pattern")
    parser.add_argument("--strategy", default="range", choices=["range", "roundrobin", "cooperative-sticky"])
    parser.add_argument("--protocol", default="classic", choices=["classic", "consumer"])
    parser.add_argument("--assignor", help="Of the coordinator, for the consumer protocol.")
    parser.add_argument("--instance-id")
    parser.add_argument("--session-timeout-ms", type=int, default=15_000)
    parser.add_argument("--max-poll-interval-ms", type=int, default=300_000)
    parser.add_argument("--stall-after", type=int, help="Stop polling after so many records.")
    return parser.parse_args()


def run_confluent(options: argparse.Namespace) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    config = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "max.poll.interval.ms": options.max_poll_interval_ms,
        "topic.metadata.refresh.interval.ms": 1_000,
        "log_level": 2,
    }
    if options.protocol == "consumer":
        config["group.protocol"] = "consumer"
        if options.assignor:
            config["group.remote.assignor"] = options.assignor
    else:
        config["session.timeout.ms"] = options.session_timeout_ms
        config["heartbeat.interval.ms"] = 500
        config["partition.assignment.strategy"] = options.strategy
    if options.instance_id:
        config["group.instance.id"] = options.instance_id
    consumer = Consumer(config)
    owned: set[tuple[str, int]] = set()
    positions = Positions()
    incremental = options.protocol == "consumer" or options.strategy == "cooperative-sticky"

    def names(partitions: list[TopicPartition]) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in partitions}

    def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if incremental:
            consumer.incremental_assign(partitions)
        else:
            owned.clear()
            consumer.assign(partitions)
        owned.update(names(partitions))
        tell(assigned=sorted(owned), added=sorted(names(partitions)))

    def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        positions.forget(names(partitions))
        owned.difference_update(names(partitions))
        if incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        tell(revoked=sorted(names(partitions)))

    topics = options.topic or [options.pattern]
    consumer.subscribe(topics, on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    seen = 0
    while not stopping.is_set():
        if options.stall_after is not None and seen >= options.stall_after:
            time.sleep(0.1)  # not stopping.wait: the signal handler would wait for the lock inside
            continue
        messages = [message for message in consumer.consume(100, 0.2) if not message.error()]
        if messages:
            seen += len(messages)
            records = [[m.topic(), m.partition(), m.offset(), m.value().decode()] for m in messages]  # type: ignore[union-attr]
            tell(records=records)
            positions.told(records)
        if positions.next:
            places = [TopicPartition(topic, number, at) for (topic, number), at in positions.next.items()]
            try:
                refused = [
                    each.error for each in consumer.commit(offsets=places, asynchronous=False) or () if each.error
                ]
                if refused:
                    tell(error=repr(refused))
                else:
                    positions.committed()
            except KafkaException as error:
                tell(error=repr(error))  # the coordinator moves, or a rebalance has begun: try again later
    consumer.close()


def remember_joins(consumer: Any) -> None:
    """Let a KafkaConsumer go on with a join that it has begun.

    A leader that assigned before it knew the topic's partitions joins anew. If a poll ends between the answers to
    JoinGroup and SyncGroup then, kafka-python 3.0.12 forgets that it is about to join: it takes no notice of the
    second, sends no heartbeats and is put out of the group for good. So it was in 2 of 48 groups of three that began
    at once beside Apache Kafka 3.9.1, and in none of 101 with this.
    """
    coordinator = consumer._coordinator
    need_rejoin = coordinator.need_rejoin

    def remembered() -> bool:
        needed: bool = need_rejoin()
        if needed:
            coordinator.request_rejoin()  # holds until a join has ended
        return needed

    coordinator.need_rejoin = remembered


def run_kafka_python(options: argparse.Namespace) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata, TopicPartition

    strategies = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    extra = {"group_instance_id": options.instance_id} if options.instance_id else {}
    positions = Positions()
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=500,
        max_poll_interval_ms=options.max_poll_interval_ms,
        partition_assignment_strategy=[strategies[options.strategy]],
        metadata_max_age_ms=1_000,
        **extra,
    )

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            positions.next.clear()
            tell(revoked=sorted((each.topic, each.partition) for each in revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            positions.next.clear()
            owned = sorted((each.topic, each.partition) for each in assigned)
            tell(assigned=owned, added=owned)

    remember_joins(consumer)
    consumer.subscribe(topics=options.topic or (), pattern=options.pattern, listener=Listener())
    while not stopping.is_set():
        try:
            polled = consumer.poll(200)
        except KafkaError as error:
            tell(error=repr(error))  # a broker that it was about to ask is gone
            continue
        records = [[r.topic, r.partition, r.offset, r.value.decode()] for batch in polled.values() for r in batch]
        if records:
            tell(records=records)
            positions.told(records)
        if positions.next:
            wanted = {TopicPartition(*place): OffsetAndMetadata(at, "", -1) for place, at in positions.next.items()}
            try:
                consumer.commit(wanted)
                positions.committed()
            except KafkaError as error:
                tell(error=repr(error))
    consumer.close(autocommit=False)


def tell_refusals(consumer: Any) -> None:
    """Tell where an AIOKafkaConsumer, which says nothing of it, will begin anew.

    It takes an OffsetFetch that is refused as a whole for one that found no offsets, and resets a position that a Fetch
    finds out of range.
    """
    from aiokafka.protocol.commit import OffsetFetchRequest
    from aiokafka.protocol.fetch import FetchRequest

    client = consumer._client
    send = client.send

    async def watched(node_id: int, request: Any, **options: Any) -> Any:
        answer = await send(node_id, request, **options)
        if isinstance(request, OffsetFetchRequest) and answer.API_VERSION >= 2 and answer.error_code:
            places = [[topic, partition] for topic, partitions in request._partitions for partition in partitions]
            tell(refused=places, error=answer.error_code)
        elif isinstance(request, FetchRequest):
            places = [[topic, p] for topic, found in answer.topics for p, error, *_ in found if error == OUT_OF_RANGE]
            if places:
                tell(refused=places, error=OUT_OF_RANGE)
        return answer

    client.send = watched


async def run_aiokafka(options: argparse.Namespace) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import IllegalStateError, KafkaError

    strategies = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    extra = {"group_instance_id": options.instance_id} if options.instance_id else {}
    positions = Positions()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=500,
        max_poll_interval_ms=options.max_poll_interval_ms,
        partition_assignment_strategy=(strategies[options.strategy],),
        metadata_max_age_ms=1_000,
        **extra,
    )

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            positions.next.clear()
            tell(revoked=sorted((each.topic, each.partition) for each in revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            positions.next.clear()
            owned = sorted((each.topic, each.partition) for each in assigned)
            tell(assigned=owned, added=owned)

    tell_refusals(consumer)
    consumer.subscribe(topics=options.topic or (), pattern=options.pattern, listener=Listener())
    await consumer.start()
    try:
        while not stopping.is_set():
            polled = await consumer.getmany(timeout_ms=200)
            records = [[r.topic, r.partition, r.offset, r.value.decode()] for batch in polled.values() for r in batch]
            if records:
                tell(records=records)
                positions.told(records)
            if positions.next:
                try:
                    await consumer.commit({TopicPartition(*place): at for place, at in positions.next.items()})
                    positions.committed()
                except (KafkaError, IllegalStateError) as error:
                    tell(error=repr(error))
    finally:
        await consumer.stop()


def main() -> None:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    if options.library == "confluent":
        run_confluent(options)
    elif options.library == "kafka-python":
        run_kafka_python(options)
    else:
        asyncio.run(run_aiokafka(options))
    tell(closed=True)


if __name__ == "__main__":
    main()
