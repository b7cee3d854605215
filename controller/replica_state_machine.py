"""Moving replicas between their states, many at a time: executes `states.REPLICA_TABLE`, broker by broker.

An invalid transition is logged and skipped; valid ones of the same call go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from controller.config import ControllerConfig
from controller.context import ControllerContext
from controller.request_batch import RequestBatch
from controller.states import REPLICA_TABLE, PartitionReplica, ReplicaEffect, ReplicaStatus, previous_states
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
        # An effect yields each replica that comes through, and that is when the replica's state is set.
        self._effects: dict[ReplicaEffect, Callable[[int, Sequence[PartitionReplica]], Iterator[PartitionReplica]]] = {
            ReplicaEffect.NOTHING: lambda broker, replicas: iter(replicas),
            ReplicaEffect.INTRODUCE: self._introduce,
            ReplicaEffect.ENSURE_ASSIGNED: self._ensure_assigned,
            ReplicaEffect.ANNOUNCE: self._announce,
            ReplicaEffect.STOP: self._stop,
            ReplicaEffect.DELETE: self._delete,
            ReplicaEffect.FORGET: self._forget,
        }

    def startup(self) -> None:
        """Derive the states from who is live; tell the online replicas, and take the others out of their ISRs."""
        context = self._context
        online: list[PartitionReplica] = []
        offline: list[PartitionReplica] = []
        for partition in context.all_partitions():
            for broker in context.replicas(partition):
                replica = PartitionReplica(partition, broker)
                if context.is_replica_online(broker, partition):
                    context.set_replica_state(replica, ReplicaStatus.ONLINE)
                    online.append(replica)
                else:
                    context.set_replica_state(replica, ReplicaStatus.DELETION_INELIGIBLE)
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
        found: dict[ReplicaEffect, list[PartitionReplica]] = {}
        for replica in replicas:
            current = context.replica_state(replica)
            effect = REPLICA_TABLE[current].get(target)
            if effect is None:
                logger.error(
                    "Replica %d of %s cannot go from %s to %s, only from %s",
                    broker, replica.partition, current.name, target.name, previous_states(REPLICA_TABLE, target),
                )  # fmt: skip
            else:
                found.setdefault(effect, []).append(replica)
        for effect in ReplicaEffect:
            if effect in found:
                for replica in self._effects[effect](broker, found[effect]):
                    context.set_replica_state(replica, target)

    # -- effects -------------------------------------------------------------------------------------------------------

    def _introduce(self, broker: int, replicas: Sequence[PartitionReplica]) -> Iterator[PartitionReplica]:
        context = self._context
        for replica in replicas:
            state = context.leadership.get(replica.partition)
            if state is not None and state.leader == broker:
                logger.error("Replica %d of %s cannot be new: it leads the partition", broker, replica.partition)
                continue
            self._tell(replica, is_new=True)
            yield replica

    def _ensure_assigned(self, broker: int, replicas: Sequence[PartitionReplica]) -> Iterator[PartitionReplica]:
        context = self._context
        for replica in replicas:
            assignment = context.assignment(replica.partition)
            if broker not in assignment.replicas:
                logger.error("Adding replica %d missing in the assignment of %s", broker, replica.partition)
                context.set_assignment(replica.partition, replace(assignment, replicas=(*assignment.replicas, broker)))
            yield replica

    def _announce(self, broker: int, replicas: Sequence[PartitionReplica]) -> Iterator[PartitionReplica]:
        for replica in replicas:
            self._tell(replica, is_new=False)
            yield replica

    def _tell(self, replica: PartitionReplica, *, is_new: bool) -> None:
        """LeaderAndIsr to the replica, if there is leadership to tell of."""
        partition = replica.partition
        state = self._context.leadership.get(partition)
        if state is not None:
            assignment = self._context.assignment(partition)
            self._batch.add_leader_and_isr([replica.replica], partition, state, assignment, is_new=is_new)

    def _stop(self, broker: int, replicas: Sequence[PartitionReplica]) -> Iterator[PartitionReplica]:
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
        yield from replicas

    def _delete(self, broker: int, replicas: Sequence[PartitionReplica]) -> Iterator[PartitionReplica]:
        for replica in replicas:
            self._batch.add_stop_replica([broker], replica.partition, delete=True)
            yield replica

    def _forget(self, broker: int, replicas: Sequence[PartitionReplica]) -> Iterator[PartitionReplica]:
        context = self._context
        for replica in replicas:
            assignment = context.assignment(replica.partition)
            if broker in assignment.replicas:
                left = tuple(item for item in assignment.replicas if item != broker)
                context.set_assignment(replica.partition, replace(assignment, replicas=left))
            yield replica

    # -- leaving the ISR -----------------------------------------------------------------------------------------------

    def _remove_from_isr(
        self, broker: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionState]:
        """Take a replica out of ISRs; the current leadership of all partitions for which that worked or was so."""
        done: dict[TopicPartition, PartitionState] = {}
        remaining = list(partitions)
        # Where the replica is in the ISR, a write with the expected version shows whether that is still so.
        known = self._context.leadership if self._config.uses_alter_partition else {}
        surely = {item: known[item] for item in remaining if item in known and broker in known[item].isr}
        while remaining:
            found = {**surely, **self._zk.partition_states([item for item in remaining if item not in surely])}
            remaining = self._remove_once(broker, remaining, found, done)
            surely = {}
        for partition, state in done.items():
            self._context.set_leadership(partition, state)
        return done

    def _remove_once(
        self,
        broker: int,
        partitions: Sequence[TopicPartition],
        found: Mapping[TopicPartition, PartitionState],
        done: dict[TopicPartition, PartitionState],
    ) -> list[TopicPartition]:
        context = self._context
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
