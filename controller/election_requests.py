"""Elections that somebody asks for: ElectLeaders, `/admin/preferred_replica_election`, and the automatic rebalancer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from controller.core import ControllerCore
from controller.event_manager import ControllerState
from controller.partition_state_machine import StateChangeFailed
from controller.states import PartitionStatus
from controller.zk import paths
from controller.zk.access import ControllerMovedError
from controller.zk.payloads import NO_LEADER, PartitionState, PayloadError
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class ElectionType(Enum):
    """The election types of ElectLeaders, by their numbers on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectionTrigger(Enum):
    """Who asked for an election."""

    ADMIN = "admin"
    ZNODE = "znode"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The outcome for one partition: its new leader, or why there is none."""

    code: ErrorCode
    message: str | None = None
    leader: int = NO_LEADER


_FAILED = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class LeaderElections:
    """Runs on the event thread."""

    def __init__(self, core: ControllerCore) -> None:
        self._core = core

    def from_api(
        self, partitions: Sequence[TopicPartition], election: ElectionType
    ) -> dict[TopicPartition, ElectionResult]:
        self._core.zk.exists(paths.PREFERRED_ELECTION)
        return self._run(partitions, election, ElectionTrigger.ADMIN)

    def from_znode(self) -> None:
        """Run what `/admin/preferred_replica_election` asks for, remove it and look again."""
        if not self._core.zk.exists(paths.PREFERRED_ELECTION):
            return
        try:
            partitions = self._core.zk.preferred_election()
        except PayloadError as error:
            logger.warning("Ignoring an invalid %s: %s", paths.PREFERRED_ELECTION, error)
            partitions = []
        try:
            self._run(partitions, ElectionType.PREFERRED, ElectionTrigger.ZNODE)
        finally:
            self.finish_znode()

    def pending_at_failover(self) -> None:
        """Elections of the znode that the previous controller did not get to; the znode is removed in any case."""
        context = self._core.context
        try:
            asked = self._core.zk.preferred_election()
        except PayloadError as error:
            logger.warning("Ignoring an invalid %s: %s", paths.PREFERRED_ELECTION, error)
            asked = []
        pending = [
            item
            for item in asked
            if context.replicas(item)
            and not context.is_led_by_preferred(item)
            and not context.is_queued_for_deletion(item.topic)
        ]
        try:
            self._elect(pending, ElectionType.PREFERRED, ElectionTrigger.ZNODE)
        finally:
            self.finish_znode()

    def finish_znode(self) -> None:
        self._core.zk.delete_preferred_election(self._core.fence)
        # Our own deletion may have used up the watch: look again, which arms it.
        self._core.enqueue(
            "ReplicaLeaderElection(znode)", ControllerState.MANUAL_LEADER_BALANCE, self._from_znode_if_active
        )

    def _from_znode_if_active(self) -> None:
        if self._core.context.epoch > 0:
            self.from_znode()

    def rebalance(self) -> None:
        """Give partitions back to their preferred leaders, for brokers where too many are led elsewhere."""
        context, config = self._core.context, self._core.config
        preferred: dict[int, list[TopicPartition]] = {}
        for partition in context.all_partitions():
            replicas = context.replicas(partition)
            if replicas and not context.is_queued_for_deletion(partition.topic):
                preferred.setdefault(replicas[0], []).append(partition)
        limit = config.leader_imbalance_per_broker_percentage / 100
        for broker in sorted(preferred):
            partitions = preferred[broker]
            elsewhere = [
                item
                for item in partitions
                if (state := context.leadership.get(item)) is not None and state.leader != broker
            ]
            if len(elsewhere) / len(partitions) <= limit:
                continue
            candidates = [
                item
                for item in elsewhere
                if context.is_replica_online(broker, item) and broker in context.leadership[item].isr
            ]
            if candidates:
                logger.info("Moving the leadership of %d partitions back to broker %d", len(candidates), broker)
            self._elect(candidates, ElectionType.PREFERRED, ElectionTrigger.AUTO)

    def _run(
        self, partitions: Sequence[TopicPartition], election: ElectionType, trigger: ElectionTrigger
    ) -> dict[TopicPartition, ElectionResult]:
        context = self._core.context
        results: dict[TopicPartition, ElectionResult] = {}
        electable: list[TopicPartition] = []
        for partition in partitions:
            if not context.has_partition(partition):
                results[partition] = ElectionResult(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
                )
            elif context.is_queued_for_deletion(partition.topic):
                results[partition] = ElectionResult(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
            elif self._has_valid_leader(partition, election):
                results[partition] = ElectionResult(
                    ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.message
                )
            else:
                electable.append(partition)
        results.update(self._elect(electable, election, trigger))
        return results

    def _has_valid_leader(self, partition: TopicPartition, election: ElectionType) -> bool:
        context = self._core.context
        if election is ElectionType.PREFERRED:
            return context.is_led_by_preferred(partition)
        state = context.leadership.get(partition)
        return state is not None and state.leader != NO_LEADER and context.is_live(state.leader)

    def _elect(
        self, partitions: Sequence[TopicPartition], election: ElectionType, trigger: ElectionTrigger
    ) -> dict[TopicPartition, ElectionResult]:
        machine = self._core.partitions
        if election is ElectionType.PREFERRED:
            rule = machine.preferred_rule()
        else:
            rule = machine.offline_rule(force_unclean=trigger is ElectionTrigger.ADMIN)
        results: dict[TopicPartition, ElectionResult] = {}
        for partition, outcome in machine.change(partitions, PartitionStatus.ONLINE, rule).items():
            if isinstance(outcome, PartitionState):
                results[partition] = ElectionResult(ErrorCode.NONE, leader=outcome.leader)
            elif isinstance(outcome, StateChangeFailed):
                results[partition] = ElectionResult(_FAILED[election], str(outcome))
            elif isinstance(outcome, ControllerMovedError):
                raise outcome
            else:
                results[partition] = ElectionResult(ErrorCode.UNKNOWN_SERVER_ERROR, str(outcome))
        return results
