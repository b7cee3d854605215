"""DescribeTransactions (key 65, version 0): state of the named ids that this broker coordinates."""

from __future__ import annotations

from broker.requests.authorization import Operation, ResourceType
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@api(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0))
def handle(call: Call[DescribeTransactionsRequest]) -> DescribeTransactionsResponse:
    """One entry an id, with its own error."""
    return DescribeTransactionsResponse(
        transaction_states=[_describe(call, transactional_id) for transactional_id in call.request.transactional_ids]
    )


def _describe(call: Call[DescribeTransactionsRequest], transactional_id: str) -> TransactionState:
    allowed = call.broker.authorizer.authorize
    if not allowed(call.connection, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    try:
        metadata = call.broker.txn_coordinator.admin.describe(transactional_id)
    except ApiError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    with metadata.lock:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(metadata.partitions):
            if allowed(call.connection, Operation.DESCRIBE, ResourceType.TOPIC, topic):
                topics.setdefault(topic, []).append(partition)
        return TransactionState(
            transactional_id=transactional_id,
            transaction_state=metadata.state.wire_name,
            transaction_timeout_ms=metadata.timeout_ms,
            transaction_start_time_ms=metadata.start_timestamp,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            topics=[TopicData(topic=name, partitions=partitions) for name, partitions in topics.items()],
        )
