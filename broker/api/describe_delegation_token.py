"""DescribeDelegationToken (key 41, versions 0-3): the tokens that the caller may see.

The caller's own, and those that an ACL lets it see. A null list of owners is everybody's, an empty one nobody's.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible; 3 who asked for each token (KIP-373).
"""

from __future__ import annotations

from typing import Any

from broker.requests.authorization import Operation, ResourceType
from broker.requests.registry import Call, api
from broker.security.tokens.callers import caller_of, require_proof, require_tokens
from broker.security.tokens.manager import shown_to
from broker.security.tokens.token import Principal, Token
from network.protocol.api import ApiKey
from network.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


@api(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(0, 3))
def handle(call: Call[DescribeDelegationTokenRequest]) -> DescribeDelegationTokenResponse:
    require_proof(call)
    tokens = require_tokens(call)
    wanted = call.request.owners
    if wanted is not None and not wanted:
        return DescribeDelegationTokenResponse()
    owners = None if wanted is None else [Principal(each.principal_type, each.principal_name) for each in wanted]

    def may(operation: Operation, resource: ResourceType, name: str) -> bool:
        return call.broker.authorizer.authorize(call.connection, operation, resource, name)

    admits = shown_to(
        caller_of(call),
        owners,
        lambda token_id: may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id),
        lambda owner: may(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(owner)),
    )
    return DescribeDelegationTokenResponse(
        tokens=[_described(call.version, token, mac) for token, mac in tokens.tokens(admits)]
    )


def _described(version: int, token: Token, mac: bytes) -> DescribedDelegationToken:
    requester: dict[str, Any] = {}
    if version >= 3:
        requester = {
            "token_requester_principal_type": token.requester.type,
            "token_requester_principal_name": token.requester.name,
        }
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=mac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ],
        **requester,
    )
