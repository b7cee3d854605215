"""Who joins the ISR and who leaves it: what a leader notes of its followers, proposes, and makes of the answers.

`machine.TABLE` decides; here is what its effects do beyond the state. State is changed under the partition's lock;
proposals are submitted and purgatories checked after it is released.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.replication.isr.machine import IsrEffect, IsrEvent, event_of
from broker.replication.isr.remote_replica import RemoteReplica
from broker.replication.isr.state import IsrState, LeaderAndIsr, LeaderRecoveryState, PendingExpandIsr
from broker.replication.partition import Partition
from log.offset_metadata import LogOffsetMetadata
from log.partition_log import PartitionLog
from network.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


def update_follower(
    partition: Partition,
    replica: RemoteReplica,
    fetch_offset: LogOffsetMetadata,
    log_start_offset: int,
    fetch_time_ms: int,
    leader_end_offset: int,
    broker_epoch: int,
    read_from: PartitionLog | None = None,
) -> None:
    """Note a follower's fetch and draw every conclusion from it: low watermark, ISR expansion, high watermark.

    `read_from` is the log that `fetch_offset` has its place in.
    """
    delayed = partition.environment.delayed
    with partition.lock:
        if partition.remote_replicas.get(replica.broker_id) is not replica:
            return  # the role changed since the read
        if read_from is not partition.log:
            fetch_offset = LogOffsetMetadata(fetch_offset.message_offset)
        watches_low_watermark = delayed.num_delete_records > 0
        old_low = partition.low_watermark() if watches_low_watermark else -1
        old_end = replica.log_end_offset
        replica.update_fetch_state(fetch_offset, log_start_offset, fetch_time_ms, leader_end_offset, broker_epoch)
        moved = watches_low_watermark and partition.low_watermark() > old_low
        expand = None
        if replica.broker_id not in partition.isr_state.isr and _may_join(partition, replica):
            isr = (*partition.isr_state.isr, replica.broker_id)
            expand = propose(partition, IsrEvent.CAUGHT_UP, isr, joins=(replica.broker_id, broker_epoch))
        if old_end != replica.log_end_offset and partition.maybe_advance_high_watermark():
            moved = True
    if expand is not None:
        _submit(partition, expand)
    if moved:
        delayed.check_all(partition.topic_partition)


def _may_join(partition: Partition, replica: RemoteReplica) -> bool:
    """It is alive, and has all that is committed and all from before this leader epoch."""
    log = partition.leader_log()
    if log is None or partition.leader_epoch_start_offset is None:
        return False
    if replica.log_end_offset < max(log.high_watermark, partition.leader_epoch_start_offset):
        return False
    return partition.environment.is_alive(replica.broker_id)


def maybe_shrink_isr(partition: Partition) -> None:
    """Propose to drop the members that have not been caught up for `replica.lag.time.max.ms`."""
    with partition.lock:
        log = partition.leader_log()
        if log is None:
            return
        isr = partition.isr_state.isr
        out_of_sync = _out_of_sync(partition, log)
        if not out_of_sync:
            return
        pending = propose(partition, IsrEvent.LAGGED, tuple(member for member in isr if member not in out_of_sync))
        if pending is None:
            return
        logger.info(
            "%s: shrinking ISR %s by %s; leader end %d, high watermark %d, followers %s",
            partition.topic_partition, list(isr), sorted(out_of_sync), log.log_end_offset, log.high_watermark,
            {id_: replica.log_end_offset for id_, replica in partition.remote_replicas.items()},
        )  # fmt: skip
    _submit(partition, pending)


def _out_of_sync(partition: Partition, log: PartitionLog) -> set[int]:
    environment = partition.environment
    now = environment.clock.wall_ms()
    end = log.log_end_offset
    out = set()
    for member in partition.isr_state.isr:
        if member == environment.broker_id:
            continue
        replica = partition.remote_replicas.get(member)
        if replica is None or not replica.is_caught_up(end, now, environment.lag_time_max_ms):
            out.add(member)
    return out


def propose(
    partition: Partition, event: IsrEvent, isr: tuple[int, ...], joins: tuple[int, int] | None = None
) -> IsrState | None:
    """Under the partition's lock: what is to be submitted now; None if another change is in flight.

    Only a leader proposes, and it takes in nobody that has no replica here. What the controller has told is not
    asserted: a member without replica may come from it, and be dropped.
    """
    local, name = partition.environment.broker_id, partition.topic_partition
    assert partition.is_leader, f"{name}: {isr} proposed by a broker that does not lead"
    new = set(isr).difference(partition.isr_state.isr)
    assert new <= set(partition.assignment), f"{name}: {isr} has members with no replica here"
    assert local in isr, f"{name}: {isr} leaves the leader out"
    proposal = LeaderAndIsr(
        local, partition.leader_epoch, isr, LeaderRecoveryState.RECOVERED, partition.partition_epoch, joins
    )
    return None if partition.take(event, proposal) is IsrEffect.NOTHING else partition.isr_state


def _submit(partition: Partition, pending: IsrState) -> None:
    proposal = pending.proposal
    assert proposal is not None
    partition.environment.alter_partition.submit(
        partition.topic_partition,
        partition.topic_id,
        proposal,
        partition.controller_epoch,
        lambda answer: _on_answer(partition, pending, answer),
    )


def _on_answer(partition: Partition, pending: IsrState, answer: LeaderAndIsr | ErrorCode) -> None:
    with partition.lock:
        if partition.isr_state is pending:
            event = event_of(answer, partition.leader_epoch, partition.partition_epoch)
        else:
            event = IsrEvent.LATE
        effect = partition.take(event, answer if isinstance(answer, LeaderAndIsr) else None)
        EFFECTS[effect](partition, pending, answer)
    if effect is IsrEffect.ASK_AGAIN:
        _submit(partition, pending)
    elif effect is not IsrEffect.NOTHING:
        # A member that was dropped or refused is waited for no longer, and the others may have everything already.
        partition.recheck_high_watermark()


# -- what an answer leads to beyond the state, under the partition's lock ----------------------------------------------


def _ignore(partition: Partition, _: IsrState, answer: LeaderAndIsr | ErrorCode) -> None:
    logger.debug("%s: ignoring a late AlterPartition answer %s", partition.topic_partition, answer)


def _commit(partition: Partition, pending: IsrState, answer: LeaderAndIsr | ErrorCode) -> None:
    assert isinstance(answer, LeaderAndIsr)
    partition.partition_epoch = answer.partition_epoch
    meters = partition.environment.isr_meters
    (meters.expands if isinstance(pending, PendingExpandIsr) else meters.shrinks).mark()
    logger.info(
        "%s: ISR is %s, partition epoch %d", partition.topic_partition, list(answer.isr), answer.partition_epoch
    )


def _failed(level: int, then: str) -> Callable[[Partition, IsrState, LeaderAndIsr | ErrorCode], None]:
    def note(partition: Partition, pending: IsrState, answer: LeaderAndIsr | ErrorCode) -> None:
        partition.environment.isr_meters.failed.mark()
        what = answer.name if isinstance(answer, ErrorCode) else answer
        logger.log(level, "%s: %r got %s; %s", partition.topic_partition, pending, what, then)

    return note


EFFECTS = {
    IsrEffect.NOTHING: _ignore,
    IsrEffect.COMMIT: _commit,
    IsrEffect.REVERT: _failed(logging.INFO, "the ISR stays as it was"),
    IsrEffect.KEEP: _failed(logging.WARNING, "waiting for the controller"),
    IsrEffect.ASK_AGAIN: _failed(logging.WARNING, "trying again"),
}
