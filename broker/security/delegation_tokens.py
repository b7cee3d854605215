"""What the four APIs of delegation tokens have in common: when they are allowed, and whose token it is.

KIP-48. A token may be asked for only on a connection that has authenticated its client by other means than a token.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from broker.requests.registry import Call
from network.protocol.errors import ErrorCode
from network.server.connection_info import ANONYMOUS


class Principal(NamedTuple):
    type: str
    name: str


def caller_of(call: Call[Any]) -> Principal:
    """Who sent the request."""
    kind, _, name = call.connection.principal.partition(":")
    return Principal(kind, name)


def refusal(call: Call[Any]) -> ErrorCode:
    """Why the request is refused before anything else is looked at.

    PLAINTEXT proves nobody's identity, and neither does TLS without a client certificate. This broker keeps no tokens
    yet, so on any other connection it answers as one without `delegation.token.secret.key`.
    """
    connection = call.connection
    anonymous = connection.principal == ANONYMOUS
    if connection.security_protocol == "PLAINTEXT" or (connection.security_protocol == "SSL" and anonymous):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
