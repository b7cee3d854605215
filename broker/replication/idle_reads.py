"""The read that brings nothing: a follower in the ISR that has everything asks for more.

Until such a partition rests (`broker/fetching/standby.py`) nearly every read of a fetch is one of these. So they are
recognised by comparisons, and what `read_records` and `update_follower` would do is done here: the time is noted, and
nothing else changes. Anything that is not so plain is left to them.
"""

from __future__ import annotations

from typing import Protocol

from broker.replication.isr.remote_replica import RemoteReplica
from broker.replication.partition import Partition
from broker.replication.results import FetchParams, FetchPartitionData, LogReadResult
from log.partition_log import PartitionLog


class Told(Protocol):
    """What a follower last asked of a partition, and what it was told."""

    wanted: FetchPartitionData
    high_watermark: int
    log_start_offset: int


def idle_read(
    partition: Partition, params: FetchParams, data: FetchPartitionData, fetch_time_ms: int, is_progress: bool
) -> LogReadResult | None:
    """What the read answers, or None if it may bring records, an error, or a change of the follower's standing."""
    with partition.lock:
        log = _log_without_news(partition, data)
        replica = partition.remote_replicas.get(params.replica_id)
        if log is None or replica is None:
            return None
        end = log.local.end
        if is_progress:
            if not _is_as_noted(partition, replica, data):
                return None  # a watermark may move, or the follower may join
            replica.update_fetch_state(
                end, data.log_start_offset, fetch_time_ms, end.message_offset, params.replica_epoch
            )
        result = LogReadResult()
        result.fetch_offset_metadata = end
        result.high_watermark = log.high_watermark
        result.last_stable_offset = log.last_stable_offset
        result.log_start_offset = log.log_start_offset
        result.leader_log_end_offset = end.message_offset
        return result


def may_rest(partition: Partition, replica: RemoteReplica, told: Told) -> bool:
    """Under the partition's lock: whether reads would find nothing, and the follower knows the rest."""
    log = _log_without_news(partition, told.wanted)
    return (
        log is not None
        and _is_as_noted(partition, replica, told.wanted)
        and log.high_watermark == told.high_watermark
        and log.log_start_offset == told.log_start_offset
    )


def _log_without_news(partition: Partition, data: FetchPartitionData) -> PartitionLog | None:
    """The log, if this broker leads it in the epoch of the fetch and it ends where the fetch begins."""
    log = partition.log
    if (
        log is None
        or log.offline
        or partition.leader_id != partition.environment.broker_id
        or data.current_leader_epoch != partition.leader_epoch
        or data.topic_id != partition.topic_id
        or data.fetch_offset != log.local.end.message_offset
    ):
        return None
    # In the newest epoch and at the end of the log nothing can diverge; in an older one if nothing was written since.
    epoch = data.last_fetched_epoch
    if epoch >= 0 and epoch != log.latest_epoch and log.end_offset_for_epoch(epoch) != (epoch, data.fetch_offset):
        return None
    return log


def _is_as_noted(partition: Partition, replica: RemoteReplica, data: FetchPartitionData) -> bool:
    return (
        replica.log_end_offset == data.fetch_offset
        and replica.log_start_offset == data.log_start_offset
        and replica.broker_id in partition.isr_state.isr
    )
