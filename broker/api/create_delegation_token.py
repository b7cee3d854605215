"""CreateDelegationToken (key 38, versions 0-3): a token that logs in as its owner.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible; 3 an owner other than the caller, and who asked
for it (KIP-373).
"""

from __future__ import annotations

from broker.requests.authorization import Operation, ResourceType
from broker.requests.registry import Call, api
from broker.security.tokens.callers import caller_of, require_proof, require_tokens
from broker.security.tokens.token import Principal
from network.protocol.api import ApiKey
from network.protocol.errors import ApiError, ErrorCode
from network.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

_USER = "User"


def _answer(call: Call[CreateDelegationTokenRequest]) -> CreateDelegationTokenResponse:
    """With whose token it is, and no token."""
    owner = _owner(call)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    if call.version >= 3:
        response.token_requester_principal_type, response.token_requester_principal_name = caller_of(call)
    return response


def _error_form(
    call: Call[CreateDelegationTokenRequest], code: ErrorCode, message: str | None
) -> CreateDelegationTokenResponse:
    response = _answer(call)
    response.error_code = int(code)
    return response


def _owner(call: Call[CreateDelegationTokenRequest]) -> Principal:
    request = call.request
    if request.owner_principal_name:
        return Principal(request.owner_principal_type or "", request.owner_principal_name)
    return caller_of(call)


@api(ApiKey.CREATE_DELEGATION_TOKEN, versions=(0, 3), error_form=_error_form)
def handle(call: Call[CreateDelegationTokenRequest]) -> CreateDelegationTokenResponse:
    broker, request = call.broker, call.request
    owner, caller = _owner(call), caller_of(call)
    renewers = tuple(Principal(each.principal_type, each.principal_name) for each in request.renewers)
    require_proof(call)
    if owner != caller and not broker.authorizer.authorize(
        call.connection, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if any(renewer.type != _USER for renewer in renewers):
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    token, mac = require_tokens(call).create(owner, caller, renewers, request.max_lifetime_ms)
    response = _answer(call)
    response.issue_timestamp_ms = token.issued_ms
    response.expiry_timestamp_ms = token.expires_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id, response.hmac = token.token_id, mac
    return response
