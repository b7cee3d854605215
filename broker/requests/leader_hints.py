"""The leader that this broker knows of, for answers that say that it is another one (KIP-951).

Produce and fetch answers have structs of their own for it, which are handed in as `make`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from broker.requests.registry import Call
from log.topic_partition import TopicPartition

S = TypeVar("S")


def current_leader(call: Call[Any], tp: TopicPartition, make: Callable[..., S]) -> S:
    """The `LeaderIdAndEpoch` of a partition: as its replica here knows, else as the metadata does, else -1 and -1."""
    partition = call.broker.replica_manager.partitions.get(tp)
    if partition is not None and partition.leader_id is not None:
        return make(leader_id=partition.leader_id, leader_epoch=partition.leader_epoch)
    state = call.broker.metadata_cache.partition_state(tp.topic, tp.partition)
    return make() if state is None else make(leader_id=state.leader, leader_epoch=state.leader_epoch)


def endpoints(call: Call[Any], leaders: Iterable[int], make: Callable[..., S]) -> list[S]:
    """A `NodeEndpoint` for each of the leaders that lives, on the listener that is asked on."""
    cache, listener = call.broker.metadata_cache, call.connection.listener_name
    nodes = (cache.broker_node(leader, listener) for leader in sorted(leaders))
    return [make(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in nodes if node is not None]
