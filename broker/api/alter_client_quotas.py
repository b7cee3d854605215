"""AlterClientQuotas (key 49, versions 0-1): set and remove quotas.

Each entity has an answer of its own. Quotas are in force on every broker as soon as it has heard of the change.

Versions: 1 flexible.
"""

from __future__ import annotations

import logging

from broker.quotas.alteration import alter
from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode, error_of
from network.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryDataRequest,
    EntryDataResponse,
)

logger = logging.getLogger(__name__)


def _error_form(
    call: Call[AlterClientQuotasRequest], code: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResponse(error_code=code, error_message=message, entity=entry.entity)
            for entry in call.request.entries
        ]
    )


@api(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), error_form=_error_form)
def handle(call: Call[AlterClientQuotasRequest]) -> AlterClientQuotasResponse:
    require_cluster(call, Operation.ALTER_CONFIGS)
    request = call.request
    return AlterClientQuotasResponse(entries=[_alter(call, entry, request.validate_only) for entry in request.entries])


def _alter(call: Call[AlterClientQuotasRequest], entry: EntryDataRequest, validate_only: bool) -> EntryDataResponse:
    broker = call.broker
    answer = EntryDataResponse(error_message=None, entity=entry.entity)
    try:
        alter(broker.zk, broker.zk_admin, entry.entity, entry.ops, validate_only=validate_only)
    except Exception as error:
        code, answer.error_message = error_of(error)
        answer.error_code = code
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            logger.error("altering quotas of %s failed", entry.entity, exc_info=error)
    return answer
