"""ElectLeaders (key 43, versions 0-2): elect preferred leaders, or leaders outside the ISR.

Controller only; another broker refuses each partition, not the request. Answered when this broker's metadata shows the
new leaders, or at the timeout. A null list means all partitions; then those that need no election are left out.

Versions: 1 the type of the election and a top-level error (KIP-460), where before there were preferred leaders only;
2 flexible.
"""

from __future__ import annotations

from broker.replication.waiting.delayed_elect_leader import DelayedElectLeader
from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from controller.election_requests import ElectionResult, ElectionType
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


def _error_form(call: Call[ElectLeadersRequest], code: ErrorCode, message: str | None) -> ElectLeadersResponse:
    results = {
        TopicPartition(topic.topic, index): ElectionResult(code, message or code.message)
        for topic in call.request.topic_partitions or ()
        for index in topic.partitions
    }
    return _response(results, code if call.version >= 1 else ErrorCode.NONE)


def _response(results: dict[TopicPartition, ElectionResult], code: ErrorCode) -> ElectLeadersResponse:
    topics: dict[str, list[PartitionResult]] = {}
    for tp, result in results.items():
        topics.setdefault(tp.topic, []).append(
            PartitionResult(partition_id=tp.partition, error_code=result.code, error_message=result.message)
        )
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=partitions) for name, partitions in topics.items()
        ],
    )


@api(ApiKey.ELECT_LEADERS, versions=(0, 2), error_form=_error_form)
def handle(call: Call[ElectLeadersRequest]) -> None:
    require_cluster(call, Operation.ALTER)
    request, broker = call.request, call.broker
    try:
        election = ElectionType(request.election_type if call.version >= 1 else 0)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}") from None
    asked = request.topic_partitions
    if asked is None:
        partitions = list(broker.metadata_cache.topic_partitions())
    else:
        partitions = [TopicPartition(topic.topic, index) for topic in asked for index in topic.partitions]

    def respond(results: dict[TopicPartition, ElectionResult]) -> None:
        if asked is None:
            results = {tp: result for tp, result in results.items() if result.code is not ErrorCode.ELECTION_NOT_NEEDED}
        call.respond(_response(results, ErrorCode.NONE))

    def on_elected(results: dict[TopicPartition, ElectionResult]) -> None:
        elected = {tp: result.leader for tp, result in results.items() if result.code is ErrorCode.NONE}
        if not elected:
            respond(results)
            return
        operation = DelayedElectLeader(request.timeout_ms, results, elected, broker.metadata_cache, respond)
        broker.replica_manager.delayed.elect_leader.try_complete_else_watch(operation, list(elected))

    if not call.broker.is_controller:
        refusal = ElectionResult(ErrorCode.NOT_CONTROLLER)
        respond(dict.fromkeys(partitions, refusal))
        return
    broker.controller.elect_leaders(partitions, election, on_elected)
