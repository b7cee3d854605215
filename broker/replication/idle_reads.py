"""The read that brings nothing: a follower in the ISR that has everything asks for more.

With thousands of partitions nearly every read of a fetch is one of these, every `replica.fetch.wait.max.ms` again. So
they are recognised by comparisons, and what `read_records` and `update_follower` would do is done here: the time is
noted, and nothing else changes. Anything that is not so plain is left to them.
"""

from __future__ import annotations

from broker.replication.partition import Partition
from broker.replication.results import FetchParams, FetchPartitionData, LogReadResult


def idle_read(
    partition: Partition, params: FetchParams, data: FetchPartitionData, fetch_time_ms: int, is_progress: bool
) -> LogReadResult | None:
    """What the read answers, or None if it may bring records, an error, or a change of the follower's standing."""
    with partition.lock:
        log = partition.log
        if (
            log is None
            or log.offline
            or partition.leader_id != partition.environment.broker_id
            or data.current_leader_epoch != partition.leader_epoch
            or data.topic_id != partition.topic_id
        ):
            return None
        end = log.local.end
        if data.fetch_offset != end.message_offset:
            return None
        # In the newest epoch and at the end of the log nothing can diverge.
        if data.last_fetched_epoch >= 0 and data.last_fetched_epoch != log.latest_epoch:
            return None
        replica = partition.remote_replicas.get(params.replica_id)
        if replica is None:
            return None
        if is_progress:
            if (
                replica.log_end_offset != data.fetch_offset
                or replica.log_start_offset != data.log_start_offset
                or params.replica_id not in partition.isr_state.isr
            ):
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
