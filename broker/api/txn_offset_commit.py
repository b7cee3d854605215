"""TxnOffsetCommit (key 28, versions 0-4): offsets that take effect when the producer's transaction commits.

Versions: 1 a throttled client waits by itself (KIP-219); 2 leader epochs, and COORDINATOR_LOAD_IN_PROGRESS; 3 flexible,
the member and its generation, so that zombies are refused (KIP-447); 4 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from broker.groups.offsets.commits import Offsets, Results
from broker.groups.offsets.committer import Committer, TransactionalProducer
from broker.groups.offsets.group_offsets import OffsetAndMetadata
from broker.requests.authorization import Operation, ResourceType
from broker.requests.group_checks import by_topic, may, partitions_of, require_group, sort_out
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def _error_form(call: Call[TxnOffsetCommitRequest], code: ErrorCode, message: str | None) -> TxnOffsetCommitResponse:
    everything = {name: code for name, _ in partitions_of(call.request.topics)}
    return _response(call, everything)


@api(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 4), error_form=_error_form)
def handle(call: Call[TxnOffsetCommitRequest]) -> None:
    request = call.request
    if not may(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    require_group(call, Operation.READ, request.group_id)
    now = call.broker.clock.wall_ms()
    accepted, refused = sort_out(call, request.topics)
    offsets: Offsets = {
        name: OffsetAndMetadata(
            partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata or "", now
        )
        for name, partition in accepted.items()
    }

    def respond(results: Results) -> None:
        call.respond(_response(call, {**refused, **results}))

    if not offsets:
        respond({})
        return
    committer = Committer(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    producer = TransactionalProducer(request.producer_id, request.producer_epoch, request.transactional_id)
    call.broker.group_coordinator.offsets.commit_in_transaction(committer, producer, offsets, respond)


def _response(call: Call[TxnOffsetCommitRequest], results: Results) -> TxnOffsetCommitResponse:
    """Each topic and each partition once, whatever the request repeats."""

    def told(error: ErrorCode) -> ErrorCode:
        if call.version < 2 and error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if call.version < 4 and error is ErrorCode.TRANSACTION_ABORTABLE:
            return ErrorCode.INVALID_TXN_STATE
        return error

    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=index, error_code=told(error))
                    for index, error in partitions
                ],
            )
            for topic, partitions in by_topic(results)
        ]
    )
