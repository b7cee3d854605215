"""What this broker knows of the cluster: live brokers, topics, partition states.

Only UpdateMetadata changes it. Every change makes a new immutable `MetadataSnapshot` that replaces the old one at once;
whoever reads takes one snapshot and uses it for a whole request.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from log.topic_partition import TopicPartition
from network.protocol.messages.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from network.protocol.uuids import ZERO_UUID
from timer.sharing import shared

logger = logging.getLogger(__name__)

NO_LEADER = -1
LEADER_DURING_DELETE = -2


class Node(NamedTuple):
    """Where one listener of a broker is reached."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class LiveBroker:
    id: int
    endpoints: Mapping[str, tuple[str, int]]
    """Listener name to (host, port)."""
    rack: str | None

    def node(self, listener: str) -> Node | None:
        address = self.endpoints.get(listener)
        return None if address is None else Node(self.id, address[0], address[1], self.rack)


class PartitionMetadata(NamedTuple):
    """What is told to clients of one partition. One object stands for all partitions of which the same is true."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


Partitions = dict[int, PartitionMetadata]


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """One consistent view. Nothing in it is ever changed."""

    brokers: Mapping[int, LiveBroker] = field(default_factory=dict)
    """The live brokers by id, for every purpose: this one alone until the controller has told of them."""
    topics: Mapping[str, Partitions] = field(default_factory=dict)
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    topic_names: Mapping[bytes, str] = field(default_factory=dict)
    controller_id: int = -1
    layout_version: int = 0
    """Grows when topics, their ids or their partition counts change."""

    def topic_id(self, topic: str) -> bytes:
        return self.topic_ids.get(topic, ZERO_UUID)

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        partitions = self.topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def nodes(self, listener: str) -> list[Node]:
        """Every live broker that has this listener, by id."""
        found = [self.brokers[broker].node(listener) for broker in sorted(self.brokers)]
        return [node for node in found if node is not None]


class MetadataCache:
    """Holds the current snapshot. Reading `snapshot` is lock-free, one attribute; updates are serialised by a lock."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.snapshot = MetadataSnapshot()
        self.is_told = False
        """Whether the controller has told of the live brokers since the start."""
        self._lock = threading.Lock()

    def begin_with(self, own: LiveBroker) -> None:
        """This broker is live, and it knows of no other until the controller tells of them.

        Kafka's brokers name no broker at all in this moment after their start. librdkafka (2.16) then drops every
        address that it has and never connects again. So this broker is there from the beginning, and there is one
        view of the live brokers: what is shown to clients is also what topics are placed on. That nobody places
        topics on this broker alone because the others are not known yet is the work of `start_gate`.
        """
        with self._lock:
            if not self.snapshot.brokers:
                self.snapshot = replace(self.snapshot, brokers={own.id: own})

    def contains(self, topic: str, partition: int) -> bool:
        partitions = self.snapshot.topics.get(topic)
        return partitions is not None and partition in partitions

    def contains_topic(self, topic: str) -> bool:
        return topic in self.snapshot.topics

    def topic_id(self, topic: str) -> bytes:
        return self.snapshot.topic_ids.get(topic, ZERO_UUID)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.snapshot.topic_names.get(topic_id)

    def partition_state(self, topic: str, partition: int) -> PartitionMetadata | None:
        return self.snapshot.partition(topic, partition)

    def partition_count(self, topic: str) -> int | None:
        partitions = self.snapshot.topics.get(topic)
        return None if partitions is None else len(partitions)

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker is registered, as far as this broker knows."""
        return broker_id in self.snapshot.brokers

    @property
    def controller_id(self) -> int | None:
        """The controller, if it is among the live brokers."""
        snapshot = self.snapshot
        return snapshot.controller_id if snapshot.controller_id in snapshot.brokers else None

    def broker_node(self, broker_id: int, listener: str) -> Node | None:
        broker = self.snapshot.brokers.get(broker_id)
        return None if broker is None else broker.node(listener)

    def topic_partitions(self) -> Iterable[TopicPartition]:
        for topic, partitions in self.snapshot.topics.items():
            for partition in partitions:
                yield TopicPartition(topic, partition)

    def update(self, request: UpdateMetadataRequest, version: int) -> list[TopicPartition]:
        """Apply an UpdateMetadata request; returns the partitions it deleted.

        Live brokers are replaced entirely; partition states are merged, and leader -2 removes one.
        """
        with self._lock:
            old = self.snapshot
            brokers = {broker.id: broker for broker in map(_live_broker, request.live_brokers)}
            self._warn_about_listeners(brokers)
            ids, names = _merge_topic_ids(old, request)
            topics: Mapping[str, Partitions] = old.topics
            deleted: list[TopicPartition] = []
            states = list(_states(request, version))
            if states:
                topics = _merge_states(old.topics, states, deleted)
                gone = {tp.topic for tp in deleted if tp.topic not in topics}
                if gone:
                    ids = {name: topic_id for name, topic_id in ids.items() if name not in gone}
                    names = {topic_id: name for topic_id, name in names.items() if name not in gone}
            changed = ids is not old.topic_ids or _counts_differ(
                old.topics, topics, {state.topic_name for state in states}
            )
            layout_version = old.layout_version + changed
            self.snapshot = MetadataSnapshot(brokers, topics, ids, names, request.controller_id, layout_version)
            self.is_told = True
            return deleted

    def _warn_about_listeners(self, brokers: Mapping[int, LiveBroker]) -> None:
        own = brokers.get(self.broker_id)
        if own is None:
            return
        expected = set(own.endpoints)
        for broker in brokers.values():
            if set(broker.endpoints) != expected:
                logger.error(
                    "Listeners are not identical across brokers: %s", {b.id: b.endpoints for b in brokers.values()}
                )
                return


def _live_broker(broker: object) -> LiveBroker:
    endpoints = getattr(broker, "endpoints", None)
    if endpoints:
        addresses = {endpoint.listener: (endpoint.host, endpoint.port) for endpoint in endpoints}
        # Versions without listener names carry the security protocol only, and the listener is named after it.
        if "" in addresses or None in addresses:
            addresses = {_PROTOCOL_NAMES[e.security_protocol]: (e.host, e.port) for e in endpoints}
    else:
        addresses = {"PLAINTEXT": (broker.v0_host, broker.v0_port)}  # type: ignore[attr-defined]
    return LiveBroker(broker.id, addresses, broker.rack or None)  # type: ignore[attr-defined]


_PROTOCOL_NAMES = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


def _states(request: UpdateMetadataRequest, version: int) -> Iterable[UpdateMetadataPartitionState]:
    if version >= 5:
        for topic in request.topic_states:
            for state in topic.partition_states:
                state.topic_name = topic.topic_name
                yield state
    else:
        yield from request.ungrouped_partition_states


def _counts_differ(old: Mapping[str, Partitions], new: Mapping[str, Partitions], names: Iterable[str]) -> bool:
    return any(len(old.get(name, ())) != len(new.get(name, ())) for name in names)


def _merge_topic_ids(
    old: MetadataSnapshot, request: UpdateMetadataRequest
) -> tuple[Mapping[str, bytes], Mapping[bytes, str]]:
    changed = {topic.topic_name: topic.topic_id for topic in request.topic_states}
    if all(old.topic_ids.get(name, ZERO_UUID) == topic_id for name, topic_id in changed.items()):
        return old.topic_ids, old.topic_names
    ids = {name: topic_id for name, topic_id in old.topic_ids.items() if name not in changed}
    ids.update((name, topic_id) for name, topic_id in changed.items() if topic_id != ZERO_UUID)
    return ids, {topic_id: name for name, topic_id in ids.items()}


def _merge_states(
    old: Mapping[str, Partitions], states: list[UpdateMetadataPartitionState], deleted: list[TopicPartition]
) -> Mapping[str, Partitions]:
    topics = dict(old)
    copied: set[str] = set()
    for state in states:
        topic, partition = state.topic_name, state.partition_index
        partitions = topics.get(topic)
        if state.leader == LEADER_DURING_DELETE:
            if partitions is None or partition not in partitions:
                continue
            deleted.append(TopicPartition(topic, partition))
        if topic not in copied:
            copied.add(topic)
            partitions = topics[topic] = dict(partitions or {})
        assert partitions is not None
        if state.leader == LEADER_DURING_DELETE:
            del partitions[partition]
            if not partitions:
                del topics[topic]
                copied.discard(topic)
        else:
            partitions[partition] = shared(
                PartitionMetadata(
                    state.leader,
                    state.leader_epoch,
                    tuple(state.isr),
                    tuple(state.replicas),
                    tuple(state.offline_replicas),
                )
            )
    return topics
