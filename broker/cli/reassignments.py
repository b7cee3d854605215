"""Reassignments of a running cluster: what goes on, starting and stopping it, and watching it to its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker.cli.client import describe
from broker.cli.errors import CommandError
from broker.cli.reassignment_files import by_topic, names
from broker.cli.replica_sizes import Sizes, sizes_on
from broker.dev.polling import wait_until
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.client.cluster_metadata import ClusterMetadata
from network.client.connection import ConnectionFailed
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from network.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from timer.clock import Clock

TIMEOUT_MS = 30_000
_POLL_MS = 500
_SETTLE_MS = 10_000

Replicas = dict[TopicPartition, list[int]]


@dataclass(frozen=True, slots=True)
class Ongoing:
    """A reassignment that goes on: all replicas, old and new, and which of them come and go."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]

    @property
    def target(self) -> list[int]:
        """What is left at the end."""
        return [broker for broker in self.replicas if broker not in self.removing]


def ongoing(client: ClusterClient, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, Ongoing]:
    """Reassignments that go on, of all partitions or of these. Raises ApiError."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
            for name, numbers in by_topic(partitions).items()
        ]
    request = ListPartitionReassignmentsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    response = client.call_controller(request)
    if response.error_code:
        raise ApiError(ErrorCode.of(response.error_code), response.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Ongoing(
            each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in response.topics
        for each in topic.partitions
    }


def replicas_of(metadata: ClusterMetadata) -> Replicas:
    """Replicas of every partition in the metadata."""
    return {
        TopicPartition(name, number): partition.replicas
        for name, topic in metadata.topics.items()
        for number, partition in topic.partitions.items()
    }


def current_replicas(client: ClusterClient, partitions: Collection[TopicPartition]) -> Replicas:
    """Replicas of these partitions. Raises CommandError naming those that do not exist."""
    found = replicas_of(client.metadata(sorted({tp.topic for tp in partitions})))
    unknown = [tp for tp in partitions if tp not in found]
    if unknown:
        raise CommandError(f"there is no partition {names(unknown)}")
    return {tp: found[tp] for tp in partitions}


def settled_replicas(client: ClusterClient, ended: Mapping[TopicPartition, Sequence[int]], clock: Clock) -> Replicas:
    """Replicas of partitions whose reassignment has ended. Brokers hear of the end a moment after the controller says
    so, so one that does not show what is expected is asked again for a few seconds."""
    found: Replicas = {}

    def settled() -> bool:
        metadata = replicas_of(client.metadata(sorted({tp.topic for tp in ended})))
        found.clear()
        found.update({tp: metadata[tp] for tp in ended if tp in metadata})
        return all(list(ended[tp]) == replicas for tp, replicas in found.items())

    wait_until(settled, clock, _SETTLE_MS, _POLL_MS)
    return found


def submit(client: ClusterClient, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Start reassignments, or cancel those whose target is None. Raises CommandError with what was refused; the
    others go on nevertheless."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[_partition(number, targets[TopicPartition(name, number)]) for number in numbers],
            )
            for name, numbers in by_topic(targets).items()
        ],
    )
    response = client.call_controller(request, TIMEOUT_MS + 10_000)
    if response.error_code:
        raise CommandError(describe(response.error_code, response.error_message))
    failed = [
        f"{topic.name}-{each.partition_index}: {describe(each.error_code, each.error_message)}"
        for topic in response.responses
        for each in topic.partitions
        if each.error_code
    ]
    if failed:
        raise CommandError("refused: " + "; ".join(failed))


def _partition(number: int, target: Sequence[int] | None) -> ReassignablePartition:
    return ReassignablePartition(partition_index=number, replicas=None if target is None else list(target))


class Watch:
    """How far reassignments are: new replicas copy ``sizes`` bytes each, and a byte more counts for being done."""

    def __init__(self, added: Mapping[TopicPartition, Collection[int]], sizes: Sizes) -> None:
        self._added = {tp: set(brokers) for tp, brokers in added.items()}
        self._sizes = sizes
        self._waiting = set(added)

    @property
    def total(self) -> int:
        """Bytes that all new replicas have at the end, and one for each partition."""
        return sum(self._weight(tp) for tp in self._added)

    @property
    def waiting(self) -> int:
        """Partitions that are not done."""
        return len(self._waiting)

    def _weight(self, tp: TopicPartition) -> int:
        return self._sizes.get(tp, 0) * len(self._added[tp]) + 1

    def look(self, client: ClusterClient) -> int:
        """Ask the cluster; the part of ``total`` that is done. Raises ApiError and ConnectionFailed."""
        self._waiting = self._waiting & ongoing(client, self._waiting).keys() if self._waiting else set()
        copied = 0
        for broker_id in sorted({broker for tp in self._waiting for broker in self._added[tp]}):
            asked = [tp for tp in self._waiting if broker_id in self._added[tp]]
            for tp, size in sizes_on(client, broker_id, asked).items():
                copied += min(size, self._sizes.get(tp, 0))
        return copied + sum(self._weight(tp) for tp in self._added.keys() - self._waiting)


def wait_until_done(
    client: ClusterClient, watch: Watch, clock: Clock, show: Callable[[int], None], *, stalled_ms: int
) -> None:
    """Look until every reassignment has ended, calling ``show`` with what is done. A broker or controller that is away
    for a while is waited for. Raises CommandError when nothing moved for ``stalled_ms``."""
    done, since = -1, clock.monotonic_ms()

    def ended() -> bool:
        nonlocal done, since
        try:
            now = watch.look(client)
        except (ApiError, ConnectionFailed):
            now = done
        if now != done:
            done, since = now, clock.monotonic_ms()
            show(done)
        if clock.monotonic_ms() - since > stalled_ms:
            raise CommandError(
                f"{watch.waiting} partitions still move, but nothing was copied for {stalled_ms // 1000} s; the "
                "reassignment goes on. Is a broker down?"
            )
        return watch.waiting == 0

    wait_until(ended, clock, 2**62, _POLL_MS)
