"""Where a client's OAUTHBEARER token comes from, by the keys of Kafka's clients: `sasl.login.callback.handler.class`.

Kafka's `OAuthBearerLoginCallbackHandler` takes it from `sasl.oauthbearer.token.endpoint.url`: by client credentials
(`clientId`, `clientSecret`, `scope` among the options of the login module) from a server, or from a `file:`, which is
read again whenever a new token is due. Options `extension_NAME` are sent beside the token, options `ssl.*` are those of
the connection to the server.

`package.module:Class` names a Python class. It is made without arguments, then `configure(mechanism, options)` is
called if there is such a method, with the options of the login module. When a token is due it is asked `token()`, which
gives the text of a JSON web token, or a `network.oauth.access_token.AccessToken`. What it raises fails the login.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from network.oauth.access_token import MAX_BYTES, AccessToken, NoTokenNow, TokenError, read_token
from network.oauth.endpoint import ClientCredentials, TokenEndpoint
from network.oauth.http import Timeouts
from network.oauth.kept_token import Fetch, KeptToken, read_rules
from network.oauth.keys import HANDLER, HEADER_URLENCODE, SUBJECT_CLAIM, URL, is_readable, shown
from network.plugins import load_class
from network.sasl.jaas import JaasError
from network.sasl.oauthbearer import check_extensions
from network.small_file import read_small
from network.tls.client import CurrentContext

if TYPE_CHECKING:
    from timer.clock import Clock

logger = logging.getLogger(__name__)

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
ENDPOINT_HANDLERS = (
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
)
UNSECURED_HANDLER = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_EXTENSION = "extension_"
_TIMEOUT_MS = 10_000  # where Kafka has none

Values = Callable[[str], Any]


def kept_token(values: Values, options: Mapping[str, str], clock: Clock) -> KeptToken | None:
    """The token that these keys and options of a login module lead to; None for unsecured ones, which are made anew
    each time. No token is asked for yet. Raises `JaasError`, without secrets."""
    handler = values(HANDLER)
    if handler in (None, "", UNSECURED_HANDLER):
        if values(URL):
            raise JaasError(f"{URL} has no effect without {HANDLER}={ENDPOINT_HANDLERS[0]}")
        return None
    try:
        of_kafka = handler in ENDPOINT_HANDLERS
        fetch = _endpoint(values, options, clock) if of_kafka else _own(handler, values, options)
        return KeptToken(fetch, read_rules(values), clock)
    except JaasError:
        raise
    except ValueError as error:
        raise JaasError(str(error)) from None


def _endpoint(values: Values, options: Mapping[str, str], clock: Clock) -> Fetch:
    url = values(URL)
    if not url:
        raise JaasError(f"{URL} is not set, so there is no token to log in with")
    extensions = {name.removeprefix(_EXTENSION): text for name, text in options.items() if name.startswith(_EXTENSION)}
    check_extensions(extensions)
    subject = values(SUBJECT_CLAIM) or "sub"
    if not is_readable(url):
        raise JaasError(f"{URL}: this is an address that cannot be read")
    parts = urlsplit(url)
    if parts.password or parts.username:
        raise JaasError(f"{URL} must not hold a user or a password: they are clientId and clientSecret")
    if parts.scheme == "file":
        get = _file(unquote(parts.path))
    elif parts.scheme in ("http", "https") and parts.hostname:
        get = _server(url, values, options, clock)
    else:
        raise JaasError(f"{URL}: this is no http:, https: or file: URL: {shown(url)}")
    return lambda: read_token(get(), subject, extensions)


def _server(url: str, values: Values, options: Mapping[str, str], clock: Clock) -> Callable[[], str]:
    missing = [name for name in ("clientId", "clientSecret") if not options.get(name)]
    if missing:
        raise JaasError(f"the login module has no option {' and no option '.join(missing)}, which {URL} needs")
    urlencoded = str(values(HEADER_URLENCODE) or "false").strip().lower() == "true"
    credentials = ClientCredentials(options["clientId"], options["clientSecret"], options.get("scope"), urlencoded)
    context: Callable[[], ssl.SSLContext] | None = None
    if url.startswith("https:"):
        context = CurrentContext(options.get, shown(url))
        context()  # a mistake is told now
    else:
        logger.warning("%s is not encrypted: whoever is on the way reads clientSecret and tokens", shown(url))
    timeouts = Timeouts(
        _number(values, "sasl.login.connect.timeout.ms", _TIMEOUT_MS),
        _number(values, "sasl.login.read.timeout.ms", _TIMEOUT_MS),
    )
    backoff = (
        _number(values, "sasl.login.retry.backoff.ms", 100),
        _number(values, "sasl.login.retry.backoff.max.ms", 10_000),
    )
    return TokenEndpoint(url, credentials, context, timeouts, backoff, clock).fetch


def _file(location: str) -> Callable[[], str]:
    def read() -> str:
        try:
            return read_small(location, MAX_BYTES).decode("ascii").strip()
        except OSError as error:
            raise NoTokenNow(f"{URL}: {location} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise TokenError(f"{URL}: {location} holds no token") from None

    return read


def _own(handler: str, values: Values, options: Mapping[str, str]) -> Fetch:
    made = load_class(HANDLER, handler)()
    configure = getattr(made, "configure", None)
    if configure is not None:
        configure("OAUTHBEARER", dict(options))
    subject = values(SUBJECT_CLAIM) or "sub"

    def fetch() -> AccessToken:
        try:
            found = made.token()
        except Exception as error:  # its text may hold a secret
            raise NoTokenNow(f"{handler} gives no token: {type(error).__name__}") from None
        if isinstance(found, str):
            return read_token(found, subject)
        if not isinstance(found, AccessToken):
            raise TokenError(f"{handler} gives no token, but a {type(found).__name__}")
        return found

    return fetch


def _number(values: Values, key: str, default: int) -> int:
    given = values(key)
    try:
        number = default if given is None else int(given)
    except ValueError:
        number = -1
    if number < 0:
        raise ValueError(f"{key}: {given} is no time in milliseconds")
    return number
