"""Replicas in chosen log directories: ``log_dirs`` of a reassignment that are not ``any`` (KIP-113)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from broker.cli.client import describe
from broker.cli.errors import CommandError
from broker.cli.reassignment_files import ANY_DIRECTORY, Reassignment, by_topic
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ErrorCode
from network.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from network.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


class Replica(NamedTuple):
    """A partition on a broker."""

    tp: TopicPartition
    broker: int

    def __str__(self) -> str:
        return f"{self.tp} on broker {self.broker}"


Directories = dict[Replica, str]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a replica is, and where it is being moved to; None where it is not."""

    current: str | None = None
    future: str | None = None


def wanted_directories(wanted: Reassignment) -> Directories:
    """The directories that a reassignment chooses."""
    return {
        Replica(tp, broker): directory
        for tp, each in wanted.items()
        for broker, directory in zip(each.replicas, each.directories, strict=True)
        if directory != ANY_DIRECTORY
    }


def places(client: ClusterClient, replicas: Iterable[Replica]) -> dict[Replica, Place]:
    """Where these replicas are. One whose broker does not run is nowhere."""
    found = dict.fromkeys(replicas, Place())
    for broker in sorted({replica.broker for replica in found} & client.brokers().keys()):
        topics = by_topic(replica.tp for replica in found if replica.broker == broker)
        asked = [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics.items()]
        for result in client.call_broker(broker, DescribeLogDirsRequest(topics=asked)).results:
            for topic in result.topics:
                for each in topic.partitions:
                    replica = Replica(TopicPartition(topic.name, each.partition_index), broker)
                    known = found.get(replica, Place())
                    if each.is_future_key:
                        found[replica] = Place(known.current, result.log_dir)
                    else:
                        found[replica] = Place(result.log_dir, known.future)
    return found


def move(client: ClusterClient, wanted: Directories, present: Collection[Replica]) -> None:
    """Start moves of replicas that are ``present``; the others are made in their directory when they come. Raises
    CommandError with what was refused."""
    failed = []
    for replica, code in _alter(client, wanted).items():
        awaited = code is ErrorCode.REPLICA_NOT_AVAILABLE and replica not in present
        if code is not ErrorCode.NONE and not awaited:
            failed.append(f"{wanted[replica]} for {replica}: {describe(code, None)}")
    if failed:
        raise CommandError("refused: " + "; ".join(failed))


def cancel(client: ClusterClient, wanted: Directories) -> list[Replica]:
    """Stop those moves that go on; their replicas. They stay in the directory that they are in."""
    moving = {replica: place for replica, place in places(client, wanted).items() if place.future is not None}
    back = {replica: place.current for replica, place in moving.items() if place.current is not None}
    move(client, back, back.keys())
    return sorted(back)


def status(directory: str, place: Place) -> str:
    """How far a replica is on its way to a directory."""
    if place.current == directory:
        return "is completed"
    if place.future is not None:
        return "is still in progress" if place.future == directory else f"goes on, but to {place.future}"
    return "is not active: there is no replica" if place.current is None else f"is not active: it is in {place.current}"


def _alter(client: ClusterClient, wanted: Mapping[Replica, str]) -> dict[Replica, ErrorCode]:
    results = {}
    for broker in sorted({replica.broker for replica in wanted}):
        directories: dict[str, list[TopicPartition]] = {}
        for replica, directory in wanted.items():
            if replica.broker == broker:
                directories.setdefault(directory, []).append(replica.tp)
        dirs = [
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=numbers) for name, numbers in by_topic(tps).items()
                ],
            )
            for path, tps in sorted(directories.items())
        ]
        for result in client.call_broker(broker, AlterReplicaLogDirsRequest(dirs=dirs)).results:
            for each in result.partitions:
                replica = Replica(TopicPartition(result.topic_name, each.partition_index), broker)
                results[replica] = ErrorCode.of(each.error_code)
    return results
