"""CreateDelegationToken (key 38, versions 0-3): a token that logs in as its owner.

Refused as long as the broker keeps no tokens.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible; 3 an owner other than the caller, and who asked
for it (KIP-373).
"""

from __future__ import annotations

from broker.requests.registry import Call, api
from broker.security.delegation_tokens import Principal, caller_of, refusal
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


def _error_form(
    call: Call[CreateDelegationTokenRequest], code: ErrorCode, message: str | None
) -> CreateDelegationTokenResponse:
    request, caller = call.request, caller_of(call)
    owner = caller
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    if call.version >= 3:
        response.token_requester_principal_type, response.token_requester_principal_name = caller
    return response


@api(ApiKey.CREATE_DELEGATION_TOKEN, versions=(0, 3), error_form=_error_form)
def handle(call: Call[CreateDelegationTokenRequest]) -> CreateDelegationTokenResponse:
    return _error_form(call, refusal(call), None)
