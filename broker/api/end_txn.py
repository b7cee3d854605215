"""EndTxn (key 26, versions 0-4): commit or abort the producer's transaction.

Answered once the decision is replicated; the markers follow, and until they are written the id's next transaction
sees CONCURRENT_TRANSACTIONS.

Versions: 1 a throttled client waits by itself (KIP-219); 2 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH;
3 flexible; 4 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from broker.requests.authorization import Operation, ResourceType
from broker.requests.registry import Call, api
from broker.transactions.coordinator import ExpectedProducer
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


@api(ApiKey.END_TXN, versions=(0, 4))
def handle(call: Call[EndTxnRequest]) -> EndTxnResponse | None:
    """Decide the transaction."""
    request = call.request
    if not call.broker.authorizer.authorize(
        call.connection, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
    ):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def respond(error: ErrorCode) -> None:
        if call.version < 2 and error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        call.respond(EndTxnResponse(error_code=error))

    producer = ExpectedProducer(request.producer_id, request.producer_epoch)
    call.broker.txn_coordinator.end_transaction(request.transactional_id, producer, request.committed, respond)
    return None
