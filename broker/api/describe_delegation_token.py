"""DescribeDelegationToken (key 41, versions 0-3): the tokens that the caller may see.

Refused as long as the broker keeps no tokens.

Versions: 1 a throttled client waits by itself (KIP-219); 2 flexible; 3 who asked for each token (KIP-373).
"""

from __future__ import annotations

from broker.requests.registry import Call, api
from broker.security.delegation_tokens import refusal
from network.protocol.api import ApiKey
from network.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


@api(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(0, 3))
def handle(call: Call[DescribeDelegationTokenRequest]) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=refusal(call))
