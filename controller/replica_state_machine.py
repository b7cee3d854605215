"""Moving replicas between their states, many at a time.

The table of states is `states.REPLICA_TRANSITIONS`. Effects, in order, by target:

| target | effect |
|---|---|
| New | with leadership: LeaderAndIsr (is-new) to it, refused if it is the leader; without: memory only |
| Online | from New: added to the assignment if missing; else with leadership: LeaderAndIsr to it |
| Offline | StopReplica to it; with leadership: it leaves the ISR, LeaderAndIsr to the others; else UpdateMetadata |
| DeletionStarted | StopReplica with delete to it |
| DeletionSuccessful, DeletionIneligible | memory only |
| NonExistent | removed from the assignment in memory |
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from controller.config import ControllerConfig
from controller.context import ControllerContext
from controller.request_batch import RequestBatch
from controller.states import REPLICA_TRANSITIONS, PartitionReplica, ReplicaStatus
from controller.zk.access import ControllerMovedError
from controller.zk.client import ZkClient
from controller.zk.ops import Code
from controller.zk.payloads import NO_LEADER, PartitionState
from log.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class ReplicaStateMachine:
    """Executes the table for the event thread."""

    def __init__(self, config: ControllerConfig, context: ControllerContext, zk: ZkClient, batch: RequestBatch) -> None:
        self._config = config
        self._context = context
        self._zk = zk
        self._batch = batch

    def startup(self) -> None:
        """Derive the states from who is live; tell the online replicas, and take the others out of their ISRs."""
        context = self._context
        online: list[PartitionReplica] = []
        offline: list[PartitionReplica] = []
        for partition in context.all_partitions():
            for broker in context.replicas(partition):
                replica = PartitionReplica(partition, broker)
                if context.is_replica_online(broker, partition):
                    context.replica_states[replica] = ReplicaStatus.ONLINE
                    online.append(replica)
                else:
                    context.replica_states[replica] = ReplicaStatus.DELETION_INELIGIBLE
                    offline.append(replica)
        self.change(online, ReplicaStatus.ONLINE)
        self.change(offline, ReplicaStatus.OFFLINE)

    def change(self, replicas: Sequence[PartitionReplica], target: ReplicaStatus) -> None:
        """Move `replicas` to `target`. Raises only `ControllerMovedError`; other errors are logged."""
        if not replicas:
            return
        try:
            with self._batch:
                by_broker: dict[int, list[PartitionReplica]] = {}
                for replica in dict.fromkeys(replicas):
                    by_broker.setdefault(replica.replica, []).append(replica)
                for broker in sorted(by_broker):
                    self._change(broker, by_broker[broker], target)
        except ControllerMovedError:
            raise
        except Exception:
            logger.exception("Moving replicas to %s failed", target.name)

    def _change(self, broker: int, replicas: list[PartitionReplica], target: ReplicaStatus) -> None:
        context = self._context
        valid: list[PartitionReplica] = []
        for replica in replicas:
            current = context.replica_state(replica)
            if current in REPLICA_TRANSITIONS[target]:
                valid.append(replica)
            else:
                logger.error(
                    "Replica %d of %s cannot go from %s to %s", broker, replica.partition, current.name, target.name
                )
        match target:
            case ReplicaStatus.NEW:
                self._to_new(broker, valid)
            case ReplicaStatus.ONLINE:
                self._to_online(broker, valid)
            case ReplicaStatus.OFFLINE:
                self._to_offline(broker, valid)
            case ReplicaStatus.DELETION_STARTED:
                for replica in valid:
                    context.replica_states[replica] = target
                    self._batch.add_stop_replica([broker], replica.partition, delete=True)
            case ReplicaStatus.DELETION_SUCCESSFUL | ReplicaStatus.DELETION_INELIGIBLE:
                for replica in valid:
                    context.replica_states[replica] = target
            case ReplicaStatus.NON_EXISTENT:
                for replica in valid:
                    self._forget(replica)

    def _to_new(self, broker: int, replicas: Sequence[PartitionReplica]) -> None:
        context = self._context
        for replica in replicas:
            state = context.leadership.get(replica.partition)
            if state is not None and state.leader == broker:
                logger.error("Replica %d of %s cannot be new: it leads the partition", broker, replica.partition)
                continue
            if state is not None:
                self._batch.add_leader_and_isr(
                    [broker], replica.partition, state, context.assignment(replica.partition), is_new=True
                )
            context.replica_states[replica] = ReplicaStatus.NEW

    def _to_online(self, broker: int, replicas: Sequence[PartitionReplica]) -> None:
        context = self._context
        for replica in replicas:
            partition = replica.partition
            if context.replica_state(replica) is ReplicaStatus.NEW:
                assignment = context.assignment(partition)
                if broker not in assignment.replicas:
                    logger.error("Adding replica %d missing in the assignment of %s", broker, partition)
                    context.set_assignment(partition, replace(assignment, replicas=(*assignment.replicas, broker)))
            else:
                state = context.leadership.get(partition)
                if state is not None:
                    self._batch.add_leader_and_isr(
                        [broker], partition, state, context.assignment(partition), is_new=False
                    )
            context.replica_states[replica] = ReplicaStatus.ONLINE

    def _to_offline(self, broker: int, replicas: Sequence[PartitionReplica]) -> None:
        context = self._context
        for replica in replicas:
            self._batch.add_stop_replica([broker], replica.partition, delete=False)
        led = [item.partition for item in replicas if item.partition in context.leadership]
        for partition, state in self._remove_from_isr(broker, led).items():
            if not context.is_queued_for_deletion(partition.topic):
                others = [item for item in context.replicas(partition) if item != broker]
                self._batch.add_leader_and_isr(others, partition, state, context.assignment(partition), is_new=False)
        unled = [item.partition for item in replicas if item.partition not in context.leadership]
        if unled:
            self._batch.add_update_metadata(context.registered_ids, unled)
        for replica in replicas:
            context.replica_states[replica] = ReplicaStatus.OFFLINE

    def _forget(self, replica: PartitionReplica) -> None:
        context = self._context
        assignment = context.assignment(replica.partition)
        if replica.replica in assignment.replicas:
            left = tuple(item for item in assignment.replicas if item != replica.replica)
            context.set_assignment(replica.partition, replace(assignment, replicas=left))
        context.replica_states.pop(replica, None)

    # -- leaving the ISR -----------------------------------------------------------------------------------------------

    def _remove_from_isr(
        self, broker: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionState]:
        """Take a replica out of ISRs; the current leadership of all partitions for which that worked or was so."""
        done: dict[TopicPartition, PartitionState] = {}
        remaining = list(partitions)
        while remaining:
            remaining = self._remove_once(broker, remaining, done)
        for partition, state in done.items():
            self._context.set_leadership(partition, state)
        return done

    def _remove_once(
        self, broker: int, partitions: Sequence[TopicPartition], done: dict[TopicPartition, PartitionState]
    ) -> list[TopicPartition]:
        context = self._context
        found = self._zk.partition_states(partitions)
        writes: dict[TopicPartition, PartitionState] = {}
        for partition in partitions:
            state = found.get(partition)
            if state is None:
                if not context.is_queued_for_deletion(partition.topic):
                    logger.error("Could not take replica %d out of the ISR of %s: no state", broker, partition)
            elif state.controller_epoch > context.epoch:
                logger.error("The state of %s was written by a newer controller: %s", partition, state)
            elif broker not in state.isr:
                done[partition] = state
            else:
                # The last member stays: whoever comes back first must be one that has every committed record.
                isr = state.isr if len(state.isr) == 1 else tuple(item for item in state.isr if item != broker)
                writes[partition] = replace(
                    state,
                    leader=NO_LEADER if state.leader == broker else state.leader,
                    isr=isr,
                    leader_epoch=state.leader_epoch + 1,
                    controller_epoch=context.epoch,
                )
        retry: list[TopicPartition] = []
        for partition, written in self._zk.set_partition_states(writes, context.epoch_zk_version).items():
            if isinstance(written, PartitionState):
                done[partition] = written
            elif written is Code.BAD_VERSION:
                retry.append(partition)
            elif not context.is_queued_for_deletion(partition.topic):
                logger.error("Could not take replica %d out of the ISR of %s: %s", broker, partition, written.name)
        return retry
