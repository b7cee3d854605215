"""InitProducerId (key 22, versions 0-5): a producer id for an idempotent or a transactional producer.

Without a transactional id the producer gets a fresh id with epoch 0 from this broker's block of ids. With one, the
transaction coordinator answers.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible; 3 the producer names its id and epoch, to have the
epoch raised (KIP-360); 4 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH; 5 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from broker.requests.authorization import CLUSTER_NAME, Operation, ResourceType
from broker.requests.registry import Call, api
from broker.transactions.coordinator import ExpectedProducer, InitResult
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@api(ApiKey.INIT_PRODUCER_ID, versions=(0, 5))
def handle(call: Call[InitProducerIdRequest]) -> None:
    request, broker = call.request, call.broker
    authorizer, connection = broker.authorizer, call.connection
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        if not authorizer.authorize(
            connection, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
        ):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not (
        authorizer.authorize(connection, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, explicit=False)
        or authorizer.authorize_any(connection, Operation.WRITE, ResourceType.TOPIC)
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    expected = None
    if request.producer_id != -1:
        expected = ExpectedProducer(request.producer_id, request.producer_epoch)

    def respond(result: InitResult) -> None:
        error = result.error
        if call.version < 4 and error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        call.respond(
            InitProducerIdResponse(
                error_code=error, producer_id=result.producer_id, producer_epoch=result.producer_epoch
            )
        )

    broker.txn_coordinator.init_producer_id(request.transactional_id, request.transaction_timeout_ms, expected, respond)
