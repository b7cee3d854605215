"""AddOffsetsToTxn (key 25, versions 0-4): a consumer group's offsets become part of the transaction.

The partition of `__consumer_offsets` that holds the group is added; TxnOffsetCommit then writes to it.

Versions: 1 a throttled client waits by itself (KIP-219); 2 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH;
3 flexible; 4 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from broker.coordinator.internal_topic_names import OFFSETS_TOPIC
from broker.requests.authorization import Operation, ResourceType
from broker.requests.registry import Call, api
from broker.transactions.coordinator import ExpectedProducer
from log.topic_partition import TopicPartition
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


@api(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4))
def handle(call: Call[AddOffsetsToTxnRequest]) -> AddOffsetsToTxnResponse | None:
    """Add the group's partition; answers once the change is replicated."""
    request, broker = call.request, call.broker
    allowed = broker.authorizer.authorize
    if not allowed(call.connection, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not allowed(call.connection, Operation.READ, ResourceType.GROUP, request.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    partition = TopicPartition(OFFSETS_TOPIC, broker.group_coordinator.partition_for(request.group_id))

    def respond(error: ErrorCode) -> None:
        if call.version < 2 and error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        call.respond(AddOffsetsToTxnResponse(error_code=error))

    producer = ExpectedProducer(request.producer_id, request.producer_epoch)
    broker.txn_coordinator.add_partitions(request.transactional_id, producer, frozenset({partition}), respond)
    return None
