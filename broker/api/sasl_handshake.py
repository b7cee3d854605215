"""SaslHandshake (key 17, versions 0-1): a client says by which mechanism it will authenticate.

On a SASL listener the transport layer takes this request before any handler sees it. What comes here is a handshake on
a connection that has nothing to authenticate, or has done so already: ILLEGAL_SASL_STATE, and the connection stays.

Versions: 1 the mechanism's messages follow in SaslAuthenticate, before as bare bytes (KIP-152).
"""

from __future__ import annotations

from broker.requests.registry import Call, api
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@api(ApiKey.SASL_HANDSHAKE, versions=(0, 1))
def handle(call: Call[SaslHandshakeRequest]) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
