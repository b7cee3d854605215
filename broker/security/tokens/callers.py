"""What the four APIs of delegation tokens have in common: who asks, and whether the connection may ask at all.

KIP-48. A token may be asked for only on a connection that has authenticated its client by other means than a token.
"""

from __future__ import annotations

from typing import Any

from broker.requests.registry import Call
from broker.security.tokens.manager import TokenManager
from broker.security.tokens.token import Principal
from network.protocol.errors import ApiError, ErrorCode
from network.server.connection_info import ANONYMOUS


def caller_of(call: Call[Any]) -> Principal:
    """Who sent the request."""
    return Principal.parse(call.connection.principal)


def require_proof(call: Call[Any]) -> None:
    """Raises DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the caller has proved who it is, and not by a token.

    PLAINTEXT proves nobody's identity, and neither does TLS without a client certificate.
    """
    connection = call.connection
    anonymous = connection.principal == ANONYMOUS
    protocol = connection.security_protocol
    if connection.token_authenticated or protocol == "PLAINTEXT" or (protocol == "SSL" and anonymous):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def require_tokens(call: Call[Any]) -> TokenManager:
    """The broker's tokens. Raises DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`."""
    tokens = call.broker.tokens
    if tokens is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return tokens
