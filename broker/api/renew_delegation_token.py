"""RenewDelegationToken (key 39, versions 0-2): let a token live on.

Refused as long as the broker keeps no tokens.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible.
"""

from __future__ import annotations

from broker.requests.registry import Call, api
from broker.security.delegation_tokens import refusal
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def _error_form(
    call: Call[RenewDelegationTokenRequest], code: ErrorCode, message: str | None
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)


@api(ApiKey.RENEW_DELEGATION_TOKEN, versions=(0, 2), error_form=_error_form)
def handle(call: Call[RenewDelegationTokenRequest]) -> RenewDelegationTokenResponse:
    return _error_form(call, refusal(call), None)
