"""DescribeClientQuotas (key 48, versions 0-1): the quotas of users, client ids and IPs, as ZooKeeper has them.

An entity is shown when each component of the filter matches; `strict` leaves out entities that have more.

Versions: 1 flexible.
"""

from __future__ import annotations

from broker.requests.authorization import Operation
from broker.requests.cluster_action import require_cluster
from broker.requests.registry import Call, api
from broker.security.client_quotas import CLIENT_ID, IP, USER, Match, read_quotas
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_EXACT, _DEFAULT, _ANY = 0, 1, 2


def _error_form(
    call: Call[DescribeClientQuotasRequest], code: ErrorCode, message: str | None
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


@api(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), error_form=_error_form)
def handle(call: Call[DescribeClientQuotasRequest]) -> DescribeClientQuotasResponse:
    require_cluster(call, Operation.DESCRIBE_CONFIGS)
    wanted = _filter(call.request.components)
    found = read_quotas(call.broker.zk, wanted, strict=call.request.strict)
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in found
        ],
    )


def _filter(components: list[ComponentData]) -> dict[str, Match]:
    """What each entity type has to match. Raises `ApiError` for a filter that means nothing."""
    wanted: dict[str, Match] = {}
    for component in components:
        kind = component.entity_type
        if kind == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if kind not in (USER, CLIENT_ID, IP):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
        if kind in wanted:
            what = "client id" if kind == CLIENT_ID else kind
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate {what} filter component entity type")
        if component.match_type == _EXACT and component.match is not None:
            wanted[kind] = Match(component.match)
        elif component.match_type in (_DEFAULT, _ANY):
            wanted[kind] = Match(None, anything=component.match_type == _ANY)
        else:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if IP in wanted and len(wanted) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or "
            "clientId filter component.",
        )
    return wanted
