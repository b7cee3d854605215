"""RenewDelegationToken (key 39, versions 0-2): let a token live on.

By its owner or one of its renewers, never beyond its last day. A negative period is the configured one.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible.
"""

from __future__ import annotations

from broker.requests.registry import Call, api
from broker.security.tokens.callers import caller_of, require_proof, require_tokens
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def _error_form(
    call: Call[RenewDelegationTokenRequest], code: ErrorCode, message: str | None
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)


@api(ApiKey.RENEW_DELEGATION_TOKEN, versions=(0, 2), error_form=_error_form)
def handle(call: Call[RenewDelegationTokenRequest]) -> RenewDelegationTokenResponse:
    require_proof(call)
    request, tokens = call.request, require_tokens(call)
    expires_ms = tokens.renew(caller_of(call), bytes(request.hmac), request.renew_period_ms)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
