"""The requests that the active controller answers. Each becomes an event and is answered exactly once.

Callbacks are called on the event thread or, if the request is dropped because the session expired, on the session's
thread. A broker that is not the controller answers NOT_CONTROLLER; a request dropped from the queue is answered so
too, since the sender has to look for the new controller (Kafka leaves some of those without an answer).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from controller.broker_changes import BrokerChanges
from controller.context import ControllerContext
from controller.core import ControllerCore
from controller.election_requests import ElectionResult, ElectionType, LeaderElections
from controller.event_manager import ControllerState
from controller.features import Features, FeatureUpdate
from controller.isr_changes import IsrChanges
from controller.reassignment import PartitionError, Reassignment
from controller.zk.access import ControllerMovedError
from controller.zk.payloads import ReplicaAssignment
from controller.zk.session import SessionExpiredError
from log.topic_partition import TopicPartition
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from network.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from network.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from network.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from network.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from network.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


class ControllerRequests:
    """The request half of `Controller`, which sets the attributes."""

    context: ControllerContext
    _core: ControllerCore
    _brokers: BrokerChanges
    _isr: IsrChanges
    _elections: LeaderElections
    _reassignment: Reassignment
    _features: Features

    @property
    def is_active(self) -> bool:
        raise NotImplementedError

    def alter_partition(
        self, request: AlterPartitionRequest, version: int, callback: Callable[[AlterPartitionResponse], None]
    ) -> None:
        """A leader wants to change the ISRs of some of its partitions."""

        def run() -> None:
            try:
                response = self._isr.alter_partition(request, version)
            except (ControllerMovedError, SessionExpiredError):
                callback(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER))
                raise
            except Exception:
                logger.exception("AlterPartition of broker %d failed", request.broker_id)
                callback(AlterPartitionResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
                return
            callback(response)
            if response.error_code == ErrorCode.NONE:
                self._isr.after_alter_partition(response, version)

        def drop() -> None:
            callback(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER))

        self._core.enqueue("AlterPartitionReceived", ControllerState.ISR_CHANGE, run, drop)

    def controlled_shutdown(
        self, request: ControlledShutdownRequest, callback: Callable[[ControlledShutdownResponse], None]
    ) -> None:
        """Move leaders away from a broker that wants to stop; the answer names the partitions that it still leads."""

        def refuse(code: ErrorCode) -> None:
            callback(ControlledShutdownResponse(error_code=code))

        def answer(remaining: Iterable[TopicPartition]) -> None:
            callback(
                ControlledShutdownResponse(
                    remaining_partitions=[
                        RemainingPartition(topic_name=item.topic, partition_index=item.partition) for item in remaining
                    ]
                )
            )

        def work() -> Iterable[TopicPartition]:
            return self._brokers.controlled_shutdown(request.broker_id, request.broker_epoch)

        self._core.enqueue(
            f"ControlledShutdown({request.broker_id})",
            ControllerState.CONTROLLED_SHUTDOWN,
            lambda: _serve(work, answer, refuse, ErrorCode.STALE_CONTROLLER_EPOCH),
            lambda: refuse(ErrorCode.STALE_CONTROLLER_EPOCH),
        )

    def elect_leaders(
        self,
        partitions: Sequence[TopicPartition],
        election: ElectionType,
        callback: Callable[[dict[TopicPartition, ElectionResult]], None],
    ) -> None:
        """Elect leaders; the caller may wait until its metadata shows the leaders in the results."""

        def refuse(code: ErrorCode) -> None:
            callback({partition: ElectionResult(code) for partition in partitions})

        self._request(
            "ReplicaLeaderElection",
            ControllerState.MANUAL_LEADER_BALANCE,
            lambda: self._elections.from_api(partitions, election),
            callback,
            refuse,
        )

    def alter_partition_reassignments(
        self,
        request: AlterPartitionReassignmentsRequest,
        callback: Callable[[AlterPartitionReassignmentsResponse], None],
    ) -> None:
        """Start, replace or (null target) cancel moves; answered when they are accepted, not when they are done."""
        targets: dict[TopicPartition, Sequence[int] | None] = {
            TopicPartition(topic.name, item.partition_index): item.replicas
            for topic in request.topics
            for item in topic.partitions
        }

        def answer(results: dict[TopicPartition, PartitionError]) -> None:
            topics: dict[str, ReassignableTopicResponse] = {}
            for partition, result in results.items():
                topic = topics.setdefault(partition.topic, ReassignableTopicResponse(name=partition.topic))
                topic.partitions.append(
                    ReassignablePartitionResponse(
                        partition_index=partition.partition,
                        error_code=result.code,
                        error_message=result.message or (None if result.ok else result.code.message),
                    )
                )
            callback(AlterPartitionReassignmentsResponse(error_message="", responses=list(topics.values())))

        self._request(
            "ApiPartitionReassignment",
            ControllerState.ALTER_PARTITION_REASSIGNMENT,
            lambda: self._reassignment.from_api(targets),
            answer,
            lambda code: callback(AlterPartitionReassignmentsResponse(error_code=code, error_message=code.message)),
        )

    def list_partition_reassignments(
        self,
        request: ListPartitionReassignmentsRequest,
        callback: Callable[[ListPartitionReassignmentsResponse], None],
    ) -> None:
        """The running moves, of all partitions or of those asked for."""
        wanted: set[TopicPartition] | None = None
        if request.topics is not None:
            wanted = {
                TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes
            }

        def answer(running: dict[TopicPartition, ReplicaAssignment]) -> None:
            topics: dict[str, OngoingTopicReassignment] = {}
            for partition, assignment in running.items():
                topic = topics.setdefault(partition.topic, OngoingTopicReassignment(name=partition.topic))
                topic.partitions.append(
                    OngoingPartitionReassignment(
                        partition_index=partition.partition,
                        replicas=list(assignment.replicas),
                        adding_replicas=list(assignment.adding),
                        removing_replicas=list(assignment.removing),
                    )
                )
            callback(ListPartitionReassignmentsResponse(error_message="", topics=list(topics.values())))

        self._request(
            "ListPartitionReassignments",
            ControllerState.LIST_PARTITION_REASSIGNMENT,
            lambda: self._reassignment.running(wanted),
            answer,
            lambda code: callback(ListPartitionReassignmentsResponse(error_code=code, error_message=code.message)),
        )

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, callback: Callable[[AllocateProducerIdsResponse], None]
    ) -> None:
        """A block of producer ids for a registered broker."""

        def allocate() -> AllocateProducerIdsResponse:
            registered = self.context.brokers.get(request.broker_id)
            if registered is None:
                return AllocateProducerIdsResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
            if registered.epoch != request.broker_epoch:
                return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
            block = self._core.zk.allocate_producer_id_block(request.broker_id)
            return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)

        self._request(
            "AllocateProducerIds",
            ControllerState.IDLE,
            allocate,
            callback,
            lambda code: callback(AllocateProducerIdsResponse(error_code=code)),
        )

    def update_features(
        self, request: UpdateFeaturesRequest, version: int, callback: Callable[[UpdateFeaturesResponse], None]
    ) -> None:
        """Change finalized features. Brokers in ZooKeeper mode support none, so upgrades are refused."""
        updates = [FeatureUpdate.of(item, version) for item in request.feature_updates]

        def answer(results: dict[str, PartitionError]) -> None:
            callback(
                UpdateFeaturesResponse(
                    error_message=None,
                    results=[
                        UpdatableFeatureResult(feature=name, error_code=result.code, error_message=result.message)
                        for name, result in results.items()
                    ],
                )
            )

        self._request(
            "UpdateFeatures",
            ControllerState.UPDATE_FEATURES,
            lambda: self._features.update(updates, request.validate_only),
            answer,
            lambda code: callback(UpdateFeaturesResponse(error_code=code, error_message=code.message)),
        )

    def enable_default_unclean_leader_election(self) -> None:
        """The cluster default of `unclean.leader.election.enable` was turned on (the config holds it already)."""
        self._put_if_active(
            "UncleanLeaderElectionEnable",
            ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE,
            lambda: self._core.partitions.trigger_online(),
        )

    def enable_topic_unclean_leader_election(self, topic: str) -> None:
        """A topic's own `unclean.leader.election.enable` was turned on."""
        self._put_if_active(
            f"TopicUncleanLeaderElectionEnable({topic})",
            ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE,
            lambda: self._core.partitions.trigger_online(topic),
        )

    # -- events --------------------------------------------------------------------------------------------------------

    def _put_if_active(self, name: str, state: ControllerState, process: Callable[[], object]) -> None:
        def run() -> None:
            if self.is_active:
                process()

        self._core.enqueue(name, state, run)

    def _request(
        self,
        name: str,
        state: ControllerState,
        work: Callable[[], ResultT],
        answer: Callable[[ResultT], None],
        refuse: Callable[[ErrorCode], None],
    ) -> None:
        """Enqueue a request: answered with what `work` returns, or refused (NOT_CONTROLLER if this one is not)."""

        def run() -> None:
            if self.is_active:
                _serve(work, answer, refuse, ErrorCode.NOT_CONTROLLER)
            else:
                refuse(ErrorCode.NOT_CONTROLLER)

        self._core.enqueue(name, state, run, lambda: refuse(ErrorCode.NOT_CONTROLLER))


def _serve(
    work: Callable[[], ResultT],
    answer: Callable[[ResultT], None],
    refuse: Callable[[ErrorCode], None],
    when_moved: ErrorCode,
) -> None:
    """Answer exactly once, with what `work` returns or raises; `when_moved` is for a controller that has lost its term.

    What the event thread has to know of is raised again.
    """
    try:
        result = work()
    except (ControllerMovedError, SessionExpiredError):
        refuse(when_moved)
        raise
    except ApiError as error:
        refuse(error.code)
        return
    except Exception:
        refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        raise
    answer(result)
