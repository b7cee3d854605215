"""The mechanisms of each SASL listener, from its configuration.

`sasl.server.callback.handler.class` of a mechanism of a listener names a Python class as `package.module:Class`. It is
made without arguments, then `configure(configs, mechanism, options)` is called if there is such a method: the broker's
properties, the mechanism and the options of its login module. What else it must have:

    PLAIN         authenticate(username, password) -> bool    # True lets in, everything else does not
    SCRAM-*       credential(mechanism, username) -> network.sasl.scram_credential.ScramCredential | None
    GSSAPI        authorize(principal, authorization_id) -> str | None   # who it is, without rules; None: not let in
    OAUTHBEARER   validate(token) -> network.sasl.oauthbearer.OAuthToken, raises InvalidTokenError
                  validate_extensions(token, extensions) -> {name of one that is not valid: why}   # optional

It is called on the threads that serve connections, so it should answer at once. What it raises lets nobody in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from broker.config.keys import ConfigError
from broker.config.listener_values import Levels, ListenerValues
from broker.security.kerberos_rules import RULES, PrincipalRules, own_authorization
from broker.security.sasl.authenticator import AnswerVersions, MechanismSettings, SaslAuthenticator, SaslSettings
from broker.security.sasl.jaas_sources import JaasSources, own_text
from broker.security.sasl.signed_tokens import SignedTokens
from network.plugins import load_class
from network.sasl import gssapi_exchange, oauthbearer, plain
from network.sasl.clients import SERVED
from network.sasl.gssapi_exchange import GssapiServer
from network.sasl.jaas import JaasError
from network.sasl.kerberos import SERVICE_NAME, KerberosLogin, default_realm, service_name
from network.sasl.mechanism import ServerMechanism
from network.sasl.nonces import new_nonce
from network.sasl.oauthbearer import OAuthBearerServer, OAuthToken, any_extensions
from network.sasl.plain import JaasPasswords, PlainServer
from network.sasl.scram import FindToken, ScramServer
from network.sasl.scram_credential import MECHANISMS
from network.sasl.unsecured_token import UnsecuredValidator

if TYPE_CHECKING:
    from broker.security.scram_credentials import ScramCredentials
    from network.server.authenticator import Authenticator, AuthenticatorFactory
    from network.server.connection_info import ConnectionInfo
    from network.server.transport import Transport
    from timer.clock import Clock

logger = logging.getLogger(__name__)

HANDLER = "sasl.server.callback.handler.class"
_UNSECURED_HANDLER = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
_SIGNED_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
_NEEDS = {plain.NAME: "authenticate", gssapi_exchange.NAME: "authorize", oauthbearer.NAME: "validate"}
"""The method that a handler of a mechanism must have; those of SCRAM have `credential`."""

Make = Callable[[], ServerMechanism]
MakeSignedTokens = Callable[[str, ListenerValues, bool], SignedTokens]
"""From a listener's name and values; the last says whether keys are fetched again from time to time. Raises
`ConfigError`, also when there are no keys."""


class SaslListeners:
    """Makes the authenticators of listeners."""

    def __init__(
        self,
        config: Levels,
        clock: Clock,
        credentials: ScramCredentials,
        find_token: Callable[[str], FindToken],
        answer_versions: AnswerVersions,
        signed_tokens: MakeSignedTokens,
    ) -> None:
        """`find_token` is asked for what finds tokens of a mechanism, `signed_tokens` for what validates those of a
        listener."""
        self._config = config
        self._clock = clock
        self._credentials = credentials
        self._find_token = find_token
        self._answer_versions = answer_versions
        self._signed_tokens = signed_tokens
        self._jaas = JaasSources(config)
        self._is_trial = False
        self._signed: dict[str, SignedTokens] = {}
        """Those that are kept fresh, by their listeners."""

    def check(self, listener: str, proposed: Levels) -> None:
        """Whether a listener could be served with these values. Raises `ConfigError`. Nothing of it stays: handlers of
        the user's own are loaded and not made."""
        trial = SaslListeners(
            proposed, self._clock, self._credentials, self._find_token, self._answer_versions, self._signed_tokens
        )
        trial._jaas = self._jaas.over(proposed)
        trial._is_trial = True
        trial.settings(listener)

    def forget(self, listener: str) -> None:
        """The listener is served no more."""
        signed = self._signed.pop(listener, None)
        if signed is not None:
            signed.stop()

    def factory(self, listener: str) -> AuthenticatorFactory:
        """Raises `ConfigError` for what is missing or not served."""
        settings = self.settings(listener)

        def make(info: ConnectionInfo, transport: Transport) -> Authenticator:
            return SaslAuthenticator(settings, info)

        return make

    def settings(self, listener: str) -> SaslSettings:
        values = ListenerValues(self._config, listener)
        names = values["sasl.enabled.mechanisms"]
        if not names:
            raise ConfigError(f"sasl.enabled.mechanisms: the listener {listener} has no SASL mechanism")
        for name in names:
            if name not in SERVED:
                raise ConfigError(
                    f"sasl.enabled.mechanisms: the listener {listener} has {name}, which this broker does not serve; "
                    f"it has {', '.join(SERVED)}"
                )
        return SaslSettings(
            {
                name: MechanismSettings(
                    self._make(listener, name), values.of_mechanism(name, "connections.max.reauth.ms")
                )
                for name in names
            },
            self._answer_versions,
            self._clock,
            values["sasl.server.max.receive.size"],
            values["connection.failed.authentication.delay.ms"],
        )

    def _make(self, listener: str, mechanism: str) -> Make:
        options = self._jaas.options(listener, mechanism)
        handler = own_text(self._config, listener, mechanism, HANDLER)
        if mechanism == oauthbearer.NAME:
            return self._oauthbearer(listener, options, handler)
        own = None if handler is None else self._own_handler(listener, mechanism, handler, options)
        if mechanism == gssapi_exchange.NAME:
            return self._gssapi(listener, options, own)
        if mechanism == plain.NAME:
            check = JaasPasswords(options) if own is None else own.authenticate
            # An answer that only counts as true, such as an awaitable, is a mistake, and lets nobody in.
            return lambda: PlainServer(lambda user, password: check(user, password) is True)
        return self._scram(mechanism, own)

    def _gssapi(self, listener: str, options: Mapping[str, str], own: Any) -> Make:
        values = ListenerValues(self._config, listener)
        try:
            service_name(options, values.of_mechanism(gssapi_exchange.NAME, SERVICE_NAME))
            acceptor = KerberosLogin(options).acceptor()
            rules = PrincipalRules(default_realm(), values.of_mechanism(gssapi_exchange.NAME, RULES))
        except JaasError as error:
            raise ConfigError(f"{gssapi_exchange.NAME} of the listener {listener}: {error}") from None
        authorize = rules.authorize if own is None else own_authorization(own)
        return lambda: GssapiServer(acceptor(), authorize)

    def _scram(self, mechanism: str, own: Any) -> Make:
        scram = MECHANISMS[mechanism]
        find_token = self._find_token(mechanism)
        find = self._credentials.find if own is None else own.credential
        return lambda: ScramServer(scram, lambda user: find(mechanism, user), find_token, new_nonce)

    def _oauthbearer(self, listener: str, options: Mapping[str, str], handler: str | None) -> Make:
        if handler in _SIGNED_HANDLERS:
            signed = self._signed_tokens(listener, ListenerValues(self._config, listener), not self._is_trial)
            if not self._is_trial:
                self._signed[listener] = signed
            return lambda: OAuthBearerServer(signed.validate)
        if handler is None or handler == _UNSECURED_HANDLER:
            try:
                unsecured = UnsecuredValidator(options)
            except ValueError as error:
                raise ConfigError(f"{oauthbearer.NAME} of the listener {listener}: {error}") from None

            if not self._is_trial:
                logger.warning(
                    "listener %s takes unsecured tokens of %s: whoever reaches it is whom they say they are",
                    listener,
                    oauthbearer.NAME,
                )

            def validate(token: str) -> OAuthToken:
                return unsecured.validate(token, self._clock.wall_ms())

            return lambda: OAuthBearerServer(validate)
        own = self._own_handler(listener, oauthbearer.NAME, handler, options)
        extensions = getattr(own, "validate_extensions", any_extensions)
        return lambda: OAuthBearerServer(own.validate, extensions)

    def _own_handler(self, listener: str, mechanism: str, text: str, options: Mapping[str, str]) -> Any:
        name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{HANDLER}"
        try:
            own = load_class(name, text)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        if not callable(getattr(own, _NEEDS.get(mechanism, "credential"), None)):
            raise ConfigError(f"{name}: {text} has no method {_NEEDS.get(mechanism, 'credential')}")
        if self._is_trial:
            return own
        try:
            made = own()
            configure = getattr(made, "configure", None)
            if configure is not None:
                configure(dict(self._config.originals), mechanism, dict(options))
        except Exception as error:
            raise ConfigError(f"{name}: {text} cannot be used: {type(error).__name__}: {error}") from error
        return made
