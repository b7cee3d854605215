"""AlterClientQuotas (key 49, versions 0-1): set and remove quotas.

Refused, entity by entity: this broker enforces no quotas of clients yet, and whoever sets a limit relies on it. Storing
it would tell them that it holds. Nothing is written, also not by a request that only validates; quotas that brokers
of Apache Kafka have stored are left alone and described.

Versions: 1 flexible.
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryDataResponse,
)

NOT_ENFORCED = "This broker does not enforce client quotas yet, so none was changed."


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
    raise ApiError(ErrorCode.INVALID_REQUEST, NOT_ENFORCED)
