"""SASL of one broker: what its listeners' mechanisms are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.api.api_versions import answer
from broker.config.keys import ConfigError
from broker.config.listener_values import ListenerValues
from broker.security.sasl.jwks import KeySet
from broker.security.sasl.listeners import SaslListeners
from broker.security.sasl.signed_tokens import SignedTokens, TokenRules
from network.protocol.errors import ApiError
from network.protocol.messages.api_versions import ApiVersionsResponse
from network.sasl.scram import FindToken

if TYPE_CHECKING:
    from broker.requests.context import BrokerContext
    from broker.security.scram_credentials import ScramCredentials
    from network.protocol.header import RequestHeader
    from network.protocol.message import Message
    from network.server.connection_info import ConnectionInfo
    from timer.scheduler import Scheduler

_URL = "sasl.oauthbearer.jwks.endpoint.url"


def make_sasl(context: BrokerContext, scheduler: Scheduler, credentials: ScramCredentials) -> SaslListeners:
    """The listeners' authenticators of a broker. Its delegation tokens must be there already."""
    config = context.config

    def answer_versions(info: ConnectionInfo, header: RequestHeader, request: Any) -> tuple[bool, Message]:
        try:
            made = answer(context, info, header.api_version, request)
        except ApiError as error:
            made = ApiVersionsResponse(error_code=int(error.code))
        return made.error_code == 0, made

    def signed_tokens(listener: str, values: ListenerValues, keep_fresh: bool) -> SignedTokens:
        url = values[_URL]
        if not url:
            raise ConfigError(f"{_URL}: the listener {listener} has none, so no signed token could be checked")
        rules = TokenRules(
            values["sasl.oauthbearer.expected.audience"],
            values["sasl.oauthbearer.expected.issuer"],
            values["sasl.oauthbearer.clock.skew.seconds"],
            values["sasl.oauthbearer.sub.claim.name"],
            values["sasl.oauthbearer.scope.claim.name"],
        )
        keys = KeySet(url, context.clock, values["sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"])
        tokens = SignedTokens(keys, rules, context.clock)
        keys.load()
        if keep_fresh:
            keys.start(scheduler, values["sasl.oauthbearer.jwks.endpoint.refresh.ms"])
        return tokens

    def find_token(mechanism: str) -> FindToken:
        tokens = context.tokens
        return lambda token_id: None if tokens is None else tokens.login(mechanism, token_id)

    return SaslListeners(config, context.clock, credentials, find_token, answer_versions, signed_tokens)
