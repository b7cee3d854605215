"""The client's side of a mechanism from the options of a login module, as Kafka's clients read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from network.sasl import oauthbearer, plain
from network.sasl.jaas import JaasError
from network.sasl.login import MakeMechanism
from network.sasl.mechanism import SaslError
from network.sasl.nonces import new_nonce
from network.sasl.oauthbearer import OAuthBearerClient, check_extensions
from network.sasl.plain import PlainClient
from network.sasl.scram import TOKEN_AUTH, ScramClient
from network.sasl.scram_credential import MECHANISMS
from network.sasl.unsecured_token import make_unsecured

if TYPE_CHECKING:
    from timer.clock import Clock

SERVED = (plain.NAME, *MECHANISMS, oauthbearer.NAME)
"""Mechanisms that both sides have here."""


Values = Callable[[str], Any]
"""The value of a key of clients, None for one that is not set."""


def client_mechanism(
    mechanism: str, options: Mapping[str, str], clock: Clock, values: Values = lambda key: None
) -> MakeMechanism:
    """What makes a new exchange for each connection. Raises `JaasError`, without values of options."""
    if mechanism == oauthbearer.NAME:
        return _bearer(options, clock, values)
    if mechanism not in SERVED:
        raise JaasError(f"the SASL mechanism {mechanism} is not served, only {', '.join(SERVED)}")
    username, password = options.get("username"), options.get("password")
    if not username or password is None:
        raise JaasError(f"{mechanism} needs username and password among the options of its login module")
    if mechanism == plain.NAME:
        return lambda: PlainClient(username, password)
    token_auth = options.get(TOKEN_AUTH, "").lower() == "true"
    scram = MECHANISMS[mechanism]
    return lambda: ScramClient(scram, username, password, new_nonce, token_auth=token_auth)


def _bearer(options: Mapping[str, str], clock: Clock, values: Values) -> MakeMechanism:
    # Who logs in by another mechanism does without HTTP and all that.
    from network.oauth.access_token import TokenError
    from network.oauth.login import kept_token

    kept = kept_token(values, options, clock)
    if kept is None:
        return _unsecured(options, clock)

    def make() -> OAuthBearerClient:
        try:
            token = kept.current()
        except TokenError as error:
            raise SaslError(str(error)) from None
        return OAuthBearerClient(token.text, token.extensions)

    return make


def _unsecured(options: Mapping[str, str], clock: Clock) -> MakeMechanism:
    """A token of one's own making, new for each connection: there is none to refresh."""

    def make() -> OAuthBearerClient:
        return OAuthBearerClient(*make_unsecured(options, clock.wall_ms()))

    try:
        _, extensions = make_unsecured(options, clock.wall_ms())
        check_extensions(extensions)
    except ValueError as error:
        raise JaasError(f"{oauthbearer.NAME}: {error}") from None
    return make
