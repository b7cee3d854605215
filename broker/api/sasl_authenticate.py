"""SaslAuthenticate (key 36, versions 0-2): one round of authentication.

As with SaslHandshake, the transport layer takes what belongs to an authentication; the rest is ILLEGAL_SASL_STATE.

Versions: 1 how long the session lasts (KIP-368); 2 flexible.
"""

from __future__ import annotations

from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


@api(ApiKey.SASL_AUTHENTICATE, versions=(0, 2))
def handle(call: Call[SaslAuthenticateRequest]) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
