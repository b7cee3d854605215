"""ListTransactions (key 66, versions 0-1): the ids that this broker coordinates.

Versions: 1 a filter by duration (KIP-994).
"""

from __future__ import annotations

from broker.requests.authorization import Operation, ResourceType
from broker.requests.registry import Call, api
from broker.transactions.state import WIRE_NAMES
from network.protocol.api import ApiKey
from network.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_BY_NAME = {name: state for state, name in WIRE_NAMES.items()}


@api(ApiKey.LIST_TRANSACTIONS, versions=(0, 1))
def handle(call: Call[ListTransactionsRequest]) -> ListTransactionsResponse:
    """Ids that pass all filters; unknown state names are handed back and match nothing."""
    request = call.request
    known = [name for name in request.state_filters if name in _BY_NAME]
    states = frozenset(_BY_NAME[name] for name in known) if request.state_filters else None
    found = call.broker.txn_coordinator.admin.list_transactions(
        states, frozenset(request.producer_id_filters), request.duration_filter
    )
    allowed = call.broker.authorizer.authorize
    return ListTransactionsResponse(
        unknown_state_filters=list(dict.fromkeys(name for name in request.state_filters if name not in _BY_NAME)),
        transaction_states=[
            TransactionState(
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                transaction_state=metadata.state.wire_name,
            )
            for metadata in found
            if allowed(
                call.connection,
                Operation.DESCRIBE,
                ResourceType.TRANSACTIONAL_ID,
                metadata.transactional_id,
                explicit=False,
            )
        ],
    )
