"""Fetch from the closest replica (KIP-392): the leader may send a consumer to a follower in the consumer's rack.

Active only with `replica.selector.class`, and only on the leader. A choice other than the leader is answered with the
replica's id and no records.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.config.keys import ConfigError
from broker.replication.partition import Partition
from broker.replication.results import ClientMetadata, FetchPartitionData, LogReadResult

if TYPE_CHECKING:
    from broker.cluster.metadata_cache import MetadataCache
    from timer.clock import Clock

logger = logging.getLogger(__name__)

RACK_AWARE_CLASS = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicaView(NamedTuple):
    """One in-sync replica that has the offset asked for."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    lag_time_ms: int


class Choice(Protocol):
    def __call__(self, client_rack: str, leader: ReplicaView, replicas: Sequence[ReplicaView]) -> ReplicaView: ...


def rack_aware(client_rack: str, leader: ReplicaView, replicas: Sequence[ReplicaView]) -> ReplicaView:
    """A replica in the client's rack: the leader if it is there, else the one with the most records, then the least
    lag, then the highest id; the leader when there is none."""
    local = [replica for replica in replicas if client_rack and replica.rack == client_rack]
    if not local or leader in local:
        return leader
    return max(local, key=lambda replica: (replica.log_end_offset, -replica.lag_time_ms, replica.broker_id))


class ReplicaSelector:
    """Puts the question to a `Choice` and shapes the answer."""

    def __init__(self, choose: Choice, metadata_cache: MetadataCache, broker_id: int, clock: Clock) -> None:
        self._choose = choose
        self._broker_id = broker_id
        self._clock = clock
        self._metadata_cache = metadata_cache

    def preferred_replica(
        self, partition: Partition, client: ClientMetadata, data: FetchPartitionData
    ) -> LogReadResult | None:
        """The answer that names another replica, or `None` to read here."""
        with partition.lock:
            log = partition.leader_log()
            if log is None:
                return None
            partition.local_log(data.current_leader_epoch, require_leader=True)
            now = self._clock.wall_ms()
            leader = ReplicaView(self._broker_id, self._rack(self._broker_id, client), log.log_end_offset, 0)
            views = [leader]
            for broker_id in partition.isr_state.isr:
                replica = partition.remote_replicas.get(broker_id)
                if (
                    replica is not None
                    and replica.log_end_offset >= data.fetch_offset
                    and replica.log_start_offset <= data.fetch_offset
                ):
                    lag = now - replica.caught_up_ms
                    views.append(ReplicaView(broker_id, self._rack(broker_id, client), replica.log_end_offset, lag))
            chosen = self._choose(client.rack, leader, views)
            has_listener = self._metadata_cache.broker_node(chosen.broker_id, client.listener_name) is not None
            if chosen.broker_id == leader.broker_id or not has_listener:
                return None
            return LogReadResult(
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
                log_start_offset=log.log_start_offset,
                leader_log_end_offset=log.log_end_offset,
                preferred_read_replica=chosen.broker_id,
            )

    def _rack(self, broker_id: int, client: ClientMetadata) -> str | None:
        node = self._metadata_cache.broker_node(broker_id, client.listener_name)
        return None if node is None else node.rack


def make_selector(
    class_name: str | None, metadata_cache: MetadataCache, broker_id: int, clock: Clock
) -> ReplicaSelector | None:
    """The selector that `replica.selector.class` names. Raises `ConfigError` for one that does not exist here."""
    if class_name is None or class_name in ("", "org.apache.kafka.common.replica.LeaderSelector"):
        return None
    if class_name != RACK_AWARE_CLASS:
        raise ConfigError(f"replica.selector.class {class_name} is not available; there is {RACK_AWARE_CLASS}")
    return ReplicaSelector(rack_aware, metadata_cache, broker_id, clock)
