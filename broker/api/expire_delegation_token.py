"""ExpireDelegationToken (key 40, versions 0-2): end a token now or later.

By its owner or one of its renewers. A negative period ends it at once.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible.
"""

from __future__ import annotations

from broker.requests.registry import Call, api
from broker.security.tokens.callers import caller_of, require_proof, require_tokens
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


def _error_form(
    call: Call[ExpireDelegationTokenRequest], code: ErrorCode, message: str | None
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)


@api(ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(0, 2), error_form=_error_form)
def handle(call: Call[ExpireDelegationTokenRequest]) -> ExpireDelegationTokenResponse:
    require_proof(call)
    request, tokens = call.request, require_tokens(call)
    expires_ms = tokens.expire(caller_of(call), bytes(request.hmac), request.expiry_time_period_ms)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
