"""Moving partitions to other brokers, phase by phase.

The whole state of a move is in the topic's znode, so any controller can go on with it. From origin O to target T:

* U: the union T + O with `adding` and `removing` is written to the topic's znode, then to memory. Replicas that a
  replaced or cancelled move no longer needs are stopped and deleted.
* A (while T is not in the ISR): the leader epoch is raised, LeaderAndIsr goes to O and, as new, to the adding ones.
* B (once T is in the ISR): adding replicas are online; the assignment in memory is T; a new leader is elected if the
  current one is not in T or is dead, else the leader epoch is raised; removing replicas leave the ISR and are deleted;
  last, the topic's znode gets T.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.core import ControllerCore
from controller.event_manager import ControllerState
from controller.states import PartitionReplica, PartitionStatus, ReplicaStatus
from controller.topic_deletion import TopicDeletion
from controller.zk import paths
from controller.zk.access import ControllerMovedError
from controller.zk.ops import Code
from controller.zk.payloads import NO_LEADER, PartitionState, PayloadError, ReplicaAssignment, TopicZnode
from controller.zk.session import DataHandler
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

# The target of one partition; None cancels.
Targets = Mapping[TopicPartition, "Sequence[int] | None"]


@dataclass(frozen=True, slots=True)
class PartitionError:
    """The outcome for one partition of a request."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @property
    def ok(self) -> bool:
        return self.code is ErrorCode.NONE


OK = PartitionError()


class Reassignment:
    """Drives reassignments on the event thread."""

    def __init__(self, core: ControllerCore, deletion: TopicDeletion) -> None:
        self._core = core
        self._deletion = deletion
        # State znodes that are watched because leaders of this IBP write ISR changes themselves.
        self._watched: set[TopicPartition] = set()

    # -- requests ------------------------------------------------------------------------------------------------------

    def from_api(self, targets: Targets) -> dict[TopicPartition, PartitionError]:
        """AlterPartitionReassignments: the outcome of each partition. The newest request wins, also over the znode."""
        results: dict[TopicPartition, PartitionError] = {}
        accepted: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in targets.items():
            error = None if target is None else self._validate(partition, target)
            if error is not None:
                results[partition] = error
                continue
            assignment = self._next_assignment(partition, target)
            if assignment is None:
                results[partition] = PartitionError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            else:
                accepted[partition] = assignment
        self._remove_from_znode(lambda partition, _: partition in accepted)
        results.update(self._trigger(accepted))
        return results

    def from_znode(self) -> set[TopicPartition]:
        """Start what `/admin/reassign_partitions` asks for; returns the partitions that were started."""
        core = self._core
        if not core.zk.exists(paths.REASSIGN_PARTITIONS):
            return set()
        try:
            targets = core.zk.reassign_partitions()
        except PayloadError as error:
            logger.warning("Ignoring an invalid %s: %s", paths.REASSIGN_PARTITIONS, error)
            return set()
        accepted: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in targets.items():
            assignment = self._next_assignment(partition, target)
            assert assignment is not None
            accepted[partition] = assignment
        results = self._trigger(accepted)
        failed = {partition: error for partition, error in results.items() if not error.ok}
        if failed:
            logger.warning("Could not start the reassignment of %s", failed)
            self._remove_from_znode(lambda partition, _: partition in failed)
        return results.keys() - failed.keys()

    def resume(self, wanted: Callable[[TopicPartition, ReplicaAssignment], bool]) -> None:
        """Go on with those running moves that `wanted` selects."""
        context = self._core.context
        for partition in sorted(context.reassigning):
            assignment = context.assignment(partition)
            if wanted(partition, assignment):
                self._advance(partition, assignment)

    def maybe_complete(self, partition: TopicPartition) -> None:
        """The ISR of a moving partition changed: enter phase B if the whole target is in it."""
        assignment = self._core.context.assignment(partition)
        if self._is_complete(partition, assignment):
            self._advance(partition, assignment)

    def isr_changed(self, partition: TopicPartition) -> None:
        """The watched state znode of a moving partition changed (IBP before AlterPartition)."""
        context = self._core.context
        if partition in context.reassigning:
            self.maybe_complete(partition)

    def running(self, wanted: Collection[TopicPartition] | None) -> dict[TopicPartition, ReplicaAssignment]:
        """The assignments of the partitions being moved (of those asked for)."""
        context = self._core.context
        chosen = context.reassigning if wanted is None else context.reassigning & set(wanted)
        return {
            partition: assignment
            for partition in sorted(chosen)
            if (assignment := context.assignment(partition)).being_reassigned
        }

    def stop_watching(self) -> None:
        """Drop the watches of a controller that resigns."""
        for partition in self._watched:
            self._core.zk.session.unregister_data_handler(paths.partition_state(partition))
        self._watched.clear()

    # -- deciding ------------------------------------------------------------------------------------------------------

    def _validate(self, partition: TopicPartition, target: Sequence[int]) -> PartitionError | None:
        def refuse(message: str) -> PartitionError:
            return PartitionError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

        if not target:
            return refuse("Empty replica list specified in partition reassignment.")
        if any(broker < 0 for broker in target):
            return refuse("Invalid broker id in replica list.")
        if len(set(target)) != len(target):
            return refuse("Duplicate replica ids in partition reassignment replica list.")
        context = self._core.context
        adding = context.assignment(partition).reassign_to(target).adding
        live = context.live_ids
        if not live.issuperset(adding):
            return refuse(
                f"Replica assignment has brokers that are not alive. Replica list: {list(adding)}, "
                f"live broker list: {sorted(live)}"
            )
        return None

    def _next_assignment(self, partition: TopicPartition, target: Sequence[int] | None) -> ReplicaAssignment | None:
        current = self._core.context.assignment(partition)
        if target is not None:
            return current.reassign_to(target)
        return current.reassign_to(current.origin) if current.being_reassigned else None

    def _trigger(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> dict[TopicPartition, PartitionError]:
        context = self._core.context
        results: dict[TopicPartition, PartitionError] = {}
        for partition, assignment in wanted.items():
            if context.is_queued_for_deletion(partition.topic):
                results[partition] = PartitionError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic of the partition is being deleted."
                )
            elif not context.replicas(partition):
                results[partition] = PartitionError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
                )
            else:
                results[partition] = self._trigger_one(partition, assignment)
        return results

    def _trigger_one(self, partition: TopicPartition, assignment: ReplicaAssignment) -> PartitionError:
        if self._drops_the_isr(partition, assignment):
            return PartitionError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The assignment of {partition} cannot be changed so: every in-sync replica would be deleted at once, "
                "which would require an unclean leader election.",
            )
        try:
            self._advance(partition, assignment)
        except ControllerMovedError:
            raise
        except Exception as error:
            logger.exception("Could not reassign %s", partition)
            return PartitionError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        return OK

    def _drops_the_isr(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        """Whether a replaced or cancelled move would stop and delete all replicas that have every committed record.

        Kafka's ZooKeeper controller goes ahead and loses them; its KRaft controller refuses, and so do we.
        """
        unneeded = set(self._core.context.replicas(partition)) - set(assignment.replicas)
        if not unneeded:
            return False
        state = self._core.zk.partition_states([partition]).get(partition)
        return state is not None and set(state.isr) <= unneeded

    def _is_complete(self, partition: TopicPartition, assignment: ReplicaAssignment) -> bool:
        if not assignment.being_reassigned:
            return True
        state = self._core.zk.partition_states([partition]).get(partition)
        return state is not None and set(assignment.target) <= set(state.isr)

    # -- the phases ----------------------------------------------------------------------------------------------------

    def _advance(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self._deletion.mark_ineligible([partition.topic], "topic reassignment in progress")
        self._update_assignment(partition, assignment)
        if self._is_complete(partition, assignment):
            self._finish(partition, assignment)
        else:
            self._begin_copying(partition, assignment)

    def _update_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Phase U."""
        context = self._core.context
        current = context.assignment(partition)
        if current != assignment:
            logger.info("Reassigning %s from %s to %s", partition, current, assignment)
            self._write_assignment(partition, assignment)
            context.set_assignment(partition, assignment)
            unneeded = [item for item in current.replicas if item not in assignment.replicas]
            self._stop_replicas(partition, unneeded)
        if not self._core.config.uses_alter_partition:
            self._watch_isr(partition)
        context.reassigning.add(partition)

    def _begin_copying(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Phase A."""
        self._raise_leader_epoch(partition, assignment)
        adding = [PartitionReplica(partition, broker) for broker in assignment.adding]
        self._core.replicas.change(
            [item for item in adding if self._core.context.replica_state(item) is ReplicaStatus.NON_EXISTENT],
            ReplicaStatus.NEW,
        )

    def _finish(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Phase B."""
        core, context = self._core, self._core.context
        core.replicas.change(
            [PartitionReplica(partition, broker) for broker in assignment.adding], ReplicaStatus.ONLINE
        )
        completed = ReplicaAssignment(assignment.target)
        context.set_assignment(partition, completed)
        self._move_leader(partition, completed)
        self._stop_replicas(partition, assignment.removing)
        self._write_assignment(partition, completed)
        self._forget(partition, completed)
        core.send_update_metadata([partition])
        self._deletion.resume_for([partition.topic])
        logger.info("Reassignment of %s to %s is complete", partition, list(completed.replicas))

    def _move_leader(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        core, context = self._core, self._core.context
        state = context.leadership.get(partition)
        leader = NO_LEADER if state is None else state.leader
        if leader in assignment.replicas and context.is_replica_online(leader, partition):
            # So that the leader learns of the new assignment and takes no removed replica into the ISR again.
            self._raise_leader_epoch(partition, assignment)
        else:
            core.partitions.change([partition], PartitionStatus.ONLINE, core.partitions.reassignment_rule())

    def _raise_leader_epoch(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        state = self._write_raised_epoch(partition)
        if state is None:
            logger.error("Could not raise the leader epoch of %s for its reassignment", partition)
            return
        with self._core.batch as batch:
            batch.add_leader_and_isr(assignment.origin, partition, state, assignment, is_new=False)
            # New: a replica whose log might have been on a failed disk must not be made again silently.
            batch.add_leader_and_isr(assignment.adding, partition, state, assignment, is_new=True)

    def _write_raised_epoch(self, partition: TopicPartition) -> PartitionState | None:
        context = self._core.context
        while True:
            state = self._core.zk.partition_states([partition]).get(partition)
            if state is None:
                return None
            if state.controller_epoch > context.epoch:
                raise RuntimeError(f"the state of {partition} was written by a newer controller: {state}")
            raised = replace(state, leader_epoch=state.leader_epoch + 1, controller_epoch=context.epoch)
            written = self._core.zk.set_partition_states({partition: raised}, self._core.fence)[partition]
            if isinstance(written, PartitionState):
                context.set_leadership(partition, written)
                return written
            if written is not Code.BAD_VERSION:
                return None

    def _stop_replicas(self, partition: TopicPartition, brokers: Sequence[int]) -> None:
        """Out of the ISR, stopped and deleted, without waiting for the brokers."""
        replicas = [PartitionReplica(partition, broker) for broker in brokers]
        for status in (
            ReplicaStatus.OFFLINE,
            ReplicaStatus.DELETION_STARTED,
            ReplicaStatus.DELETION_SUCCESSFUL,
            ReplicaStatus.NON_EXISTENT,
        ):
            self._core.replicas.change(replicas, status)

    def _write_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        context = self._core.context
        whole = dict(context.assignments.get(partition.topic, {}))
        whole[partition.partition] = assignment
        znode = TopicZnode(context.topic_ids.get(partition.topic), whole)
        self._core.zk.set_topic(partition.topic, znode, self._core.fence)

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def _watch_isr(self, partition: TopicPartition) -> None:
        if partition in self._watched:
            return
        self._watched.add(partition)

        def changed() -> None:
            self._core.enqueue(
                f"PartitionReassignmentIsrChange({partition})",
                ControllerState.ALTER_PARTITION_REASSIGNMENT,
                lambda: self.isr_changed(partition),
            )

        self._core.zk.session.register_data_handler(DataHandler(paths.partition_state(partition), on_changed=changed))

    def _forget(self, partition: TopicPartition, completed: ReplicaAssignment) -> None:
        if partition in self._watched:
            self._watched.discard(partition)
            self._core.zk.session.unregister_data_handler(paths.partition_state(partition))
        self._core.context.reassigning.discard(partition)
        self._remove_from_znode(lambda item, replicas: item == partition and replicas == completed.replicas)

    def _remove_from_znode(self, unwanted: Callable[[TopicPartition, tuple[int, ...]], bool]) -> None:
        """Take entries out of `/admin/reassign_partitions`; with the last one the znode goes."""
        zk, fence = self._core.zk, self._core.fence
        if not zk.exists(paths.REASSIGN_PARTITIONS):
            return
        try:
            entries = zk.reassign_partitions()
        except PayloadError:
            return  # invalid content asks for nothing and stays until somebody removes it
        left = {item: replicas for item, replicas in entries.items() if not unwanted(item, replicas)}
        if len(left) == len(entries) and left:
            return
        if left:
            zk.set_reassign_partitions(left, fence)
            return
        zk.delete_reassign_partitions(fence)
        # Our own deletion may have used up the watch: look again, which arms it.
        self._core.enqueue(
            "ZkPartitionReassignment",
            ControllerState.ALTER_PARTITION_REASSIGNMENT,
            lambda: self._from_znode_if_active(),
        )

    def _from_znode_if_active(self) -> None:
        if self._core.context.epoch > 0:
            self.from_znode()
