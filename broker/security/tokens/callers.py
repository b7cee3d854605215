"""What the four APIs of delegation tokens have in common: who asks, and whether the connection may ask at all.

KIP-48. A token may be asked for only on a connection that has authenticated its client by other means than a token.
"""

from __future__ import annotations

from typing import Any

from broker.requests.registry import Call
from broker.security.tokens.token import Principal
from network.protocol.errors import ErrorCode
from network.server.connection_info import ANONYMOUS


def caller_of(call: Call[Any]) -> Principal:
    """Who sent the request."""
    return Principal.parse(call.connection.principal)


def refusal(call: Call[Any]) -> ErrorCode | None:
    """Why the request is refused before anything else is looked at, None if it is not.

    PLAINTEXT proves nobody's identity, and neither does TLS without a client certificate.
    """
    connection = call.connection
    anonymous = connection.principal == ANONYMOUS
    protocol = connection.security_protocol
    if connection.token_authenticated or protocol == "PLAINTEXT" or (protocol == "SSL" and anonymous):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return None


def refusal_without_tokens(call: Call[Any]) -> ErrorCode | None:
    """The same, and the refusal of a broker without `delegation.token.secret.key`."""
    found = refusal(call)
    if found is None and call.broker.tokens is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return found
