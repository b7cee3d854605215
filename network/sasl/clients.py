"""The client's side of a mechanism from the options of a login module, as Kafka's clients read them.

`sasl.client.callback.handler.class` names a Python class as `package.module:Class`, for PLAIN and SCRAM. It is made
without arguments, then `configure(mechanism, options)` is called if there is such a method, with the options of the
login module. For each login it is asked `credentials()`, which gives user and password; what it raises fails the login.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from network.oauth.keys import HANDLER as LOGIN_HANDLER
from network.plugins import load_class
from network.sasl import gssapi_exchange, kerberos, oauthbearer, plain
from network.sasl.gssapi_exchange import GssapiClient
from network.sasl.jaas import JaasError
from network.sasl.kerberos import SERVICE_NAME, KerberosLogin, service_name
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

LOGIN_MODULES = {
    plain.NAME: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(MECHANISMS, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    oauthbearer.NAME: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    gssapi_exchange.NAME: kerberos.MODULE,
}
"""By mechanism: the login module whose options are read."""
SERVED = tuple(LOGIN_MODULES)
"""Mechanisms that both sides have here."""

CLIENT_HANDLER = "sasl.client.callback.handler.class"

Values = Callable[[str], Any]
"""The value of a key of clients, None for one that is not set."""


def client_mechanism(
    mechanism: str, options: Mapping[str, str], clock: Clock, values: Values = lambda key: None
) -> MakeMechanism:
    """What makes a new exchange for each connection. Raises `JaasError`, without values of options."""
    if mechanism not in SERVED:
        raise JaasError(f"the SASL mechanism {mechanism} is not served, only {', '.join(SERVED)}")
    handler = values(CLIENT_HANDLER)
    if handler and mechanism in (oauthbearer.NAME, gssapi_exchange.NAME):
        raise JaasError(f"{CLIENT_HANDLER}: {mechanism} asks none")
    if mechanism == oauthbearer.NAME:
        return _bearer(options, clock, values)
    if values(LOGIN_HANDLER):
        raise JaasError(f"{LOGIN_HANDLER}: {mechanism} asks none; for PLAIN and SCRAM there is {CLIENT_HANDLER}")
    if mechanism == gssapi_exchange.NAME:
        return _kerberos(options, values)
    find = _from_options(mechanism, options) if not handler else _from_handler(handler, mechanism, options)
    if mechanism == plain.NAME:
        return lambda host: PlainClient(*find())
    token_auth = options.get(TOKEN_AUTH, "").lower() == "true"
    scram = MECHANISMS[mechanism]
    return lambda host: ScramClient(scram, *find(), new_nonce, token_auth=token_auth)


def _from_options(mechanism: str, options: Mapping[str, str]) -> Callable[[], tuple[str, str]]:
    username, password = options.get("username"), options.get("password")
    if not username or password is None:
        raise JaasError(f"{mechanism} needs username and password among the options of its login module")
    found = username, password
    return lambda: found


def _from_handler(name: str, mechanism: str, options: Mapping[str, str]) -> Callable[[], tuple[str, str]]:
    try:
        made = load_class(CLIENT_HANDLER, name)()
        configure = getattr(made, "configure", None)
        if configure is not None:
            configure(mechanism, dict(options))
    except ValueError as error:
        raise JaasError(str(error)) from None

    def find() -> tuple[str, str]:
        try:
            username, password = made.credentials()
        except Exception as error:  # its text may hold a secret
            raise SaslError(f"{name} gives no user: {type(error).__name__}") from None
        if not isinstance(username, str) or not isinstance(password, str):
            raise SaslError(f"{name} gives no user and password")
        return username, password

    return find


def _kerberos(options: Mapping[str, str], values: Values) -> MakeMechanism:
    service = service_name(options, values(SERVICE_NAME))
    login = KerberosLogin(options)
    return lambda host: GssapiClient(login.initiator(service, _name_of(host)))


def _name_of(host: str) -> str:
    """The name of an address, as Java's clients ask for it: who connects to an address wants the ticket of its name."""
    try:
        ipaddress.ip_address(host)
        return socket.getnameinfo((host, 0), socket.NI_NAMEREQD)[0]
    except (ValueError, OSError):
        return host


def _bearer(options: Mapping[str, str], clock: Clock, values: Values) -> MakeMechanism:
    # Who logs in by another mechanism does without HTTP and all that.
    from network.oauth.access_token import TokenError
    from network.oauth.login import kept_token

    kept = kept_token(values, options, clock)
    if kept is None:
        return _unsecured(options, clock)

    def make(host: str) -> OAuthBearerClient:
        try:
            token = kept.current()
        except TokenError as error:
            raise SaslError(str(error)) from None
        return OAuthBearerClient(token.text, token.extensions)

    return make


def _unsecured(options: Mapping[str, str], clock: Clock) -> MakeMechanism:
    """A token of one's own making, new for each connection: there is none to refresh."""

    def make(host: str) -> OAuthBearerClient:
        return OAuthBearerClient(*make_unsecured(options, clock.wall_ms()))

    try:
        _, extensions = make_unsecured(options, clock.wall_ms())
        check_extensions(extensions)
    except ValueError as error:
        raise JaasError(f"{oauthbearer.NAME}: {error}") from None
    return make
