"""Brokers that went and came back while nobody was the controller.

A controller takes the leaderships of a broker that it misses, and takes it out of the ISRs: its power may have gone,
and with it records that were not synced. If the broker was the controller itself, the next one may find it registered
again and nothing changed, and it would lead on with a log that is too short. The transaction ids of ZooKeeper tell: a
member of an ISR that registered after the state was written last has been away since.

Apache Kafka's controller sees this only if its picture of the cluster is older than the return (KIP-380).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from controller.context import ControllerContext
from controller.zk.client import ZkClient
from controller.zk.ops import Code
from controller.zk.payloads import PartitionState
from log.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


def make_up_for(context: ControllerContext, zk: ZkClient, written: Mapping[TopicPartition, int]) -> None:
    """Write, and put into the context, what the return of a broker should have changed. For a new controller, before it
    tells anybody of the partitions.

    `written` has the zxid of the last write of each state. Raises `ControllerMovedError`.
    """
    epochs = {broker: info.epoch for broker, info in context.brokers.items()}
    while written:
        changes: dict[TopicPartition, PartitionState] = {}
        for partition, zxid in written.items():
            state = context.leadership[partition]
            changed = without_returned(state, context.replicas(partition), zxid, epochs)
            if changed is not None:
                changes[partition] = replace(changed, controller_epoch=context.epoch)
        written = _write(context, zk, changes)


def _write(
    context: ControllerContext, zk: ZkClient, changes: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, int]:
    """Those that are not as they were read, read again; it may be that only the answer to our own write was lost."""
    if not changes:
        return {}
    logger.warning("%d partitions have members that were away unnoticed; the others go on without them", len(changes))
    other: list[TopicPartition] = []
    for partition, result in zk.set_partition_states(changes, context.epoch_zk_version).items():
        if isinstance(result, PartitionState):
            context.set_leadership(partition, result)
        elif result is Code.BAD_VERSION:
            other.append(partition)
        else:
            logger.error("Could not write the state of partition %s: %s", partition, result.name)
    found = zk.partition_states_written(other)
    for partition, (state, _) in found.items():
        context.set_leadership(partition, state)
    return {partition: zxid for partition, (_, zxid) in found.items()}


def without_returned(
    state: PartitionState, replicas: tuple[int, ...], zxid: int, epochs: Mapping[int, int]
) -> PartitionState | None:
    """The leadership of those in the ISR who have been there since it was written; None if that changes nothing.

    It changes nothing either where nobody has been there since: then all are as good. `epochs` are of live brokers.
    """
    if not any(epochs.get(broker, -1) > zxid for broker in state.isr):
        return None
    stayed = tuple(broker for broker in state.isr if epochs.get(broker, zxid + 1) <= zxid)
    leader = state.leader if state.leader in stayed else next((each for each in replicas if each in stayed), None)
    if leader is None:
        return None
    return replace(state, leader=leader, isr=stayed, leader_epoch=state.leader_epoch + 1)
