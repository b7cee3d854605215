"""The public keys that signed tokens are checked with: a JWKS from a file or from a server, fetched again from time to
time (KIP-768: `sasl.oauthbearer.jwks.endpoint.*`).

Logins never wait for it. One that names an unknown key fails, and has the keys fetched at once, at most as often as
the retry back-off allows; the issuer may have changed its keys.
"""

from __future__ import annotations

import http.client
import logging
import urllib.request
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from broker.config.keys import ConfigError
from network.json_text import parse_json
from network.oauth.keys import is_readable, shown

if TYPE_CHECKING:
    from timer.clock import Clock
    from timer.scheduler import ScheduledTask, Scheduler

logger = logging.getLogger(__name__)

MAX_BYTES = 1 << 20
ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512", "ES256K"),
    "OKP": ("EdDSA",),
    "oct": ("HS256", "HS384", "HS512"),
}
"""By the kind of a key. A public key must never serve as the secret of an HMAC."""
MIN_RSA_BITS = 2048
MIN_SECRET_BYTES = 32
"""Shorter keys of a JWKS are not used, as in Kafka: signatures by them can be forged."""
_TIMEOUT_S = 10.0
_SCHEMES = ("file://", "http://", "https://")


class VerificationKey(NamedTuple):
    """A key, and the algorithms that a signature by it may have."""

    key: Any
    algorithms: tuple[str, ...]

    def __repr__(self) -> str:
        return f"VerificationKey({self.algorithms})"


def fetch(url: str) -> bytes:
    """What stands at a `file:`, `http:` or `https:` URL. Raises OSError."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            data: bytes = answer.read(MAX_BYTES + 1)
    except http.client.HTTPException as error:
        # Its text may hold the address, or what somebody else answered.
        raise OSError(f"the answer is no HTTP: {type(error).__name__}") from None
    if len(data) > MAX_BYTES:
        raise OSError(f"{shown(url)} has more than {MAX_BYTES} bytes")
    return data


class KeySet:
    """Keys by their ids. Read by the processors, replaced as a whole by the scheduler."""

    def __init__(self, url: str, clock: Clock, retry_ms: int, load: Callable[[str], bytes] = fetch) -> None:
        if not url.startswith(_SCHEMES):
            raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {shown(url)} is no file: or http: URL")
        if url.startswith("http://"):
            logger.warning("%s is not encrypted: whoever is on the way can make tokens of anybody", shown(url))
        if not is_readable(url):
            raise ConfigError("sasl.oauthbearer.jwks.endpoint.url: this is an address that cannot be read")
        if "@" in urlsplit(url).netloc:
            raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {shown(url)} is asked without the user in it")
        self._url = url
        self._shown = shown(url)
        self._clock = clock
        self._retry_ms = retry_ms
        self._load = load
        self._keys: Mapping[str | None, VerificationKey] = {}
        self._tried_ms: int | None = None
        self._ask: Callable[[], None] | None = None
        self._refreshing: ScheduledTask | None = None
        self._asking = False
        """Whether keys that were asked for are still on their way. One may take its time, and anybody can ask: without
        this the fetches of an issuer that does not answer would take all threads of the scheduler."""

    def load(self) -> None:
        """Fetch the keys for the first time. Raises `ConfigError` if they cannot be had."""
        try:
            self.refresh()
        except (OSError, ValueError) as error:
            raise ConfigError(f"sasl.oauthbearer.jwks.endpoint.url: {self._shown} cannot be read: {error}") from None

    def start(self, scheduler: Scheduler, refresh_ms: int) -> None:
        """Fetch the keys from time to time, and when an unknown one is asked for."""
        self._refreshing = scheduler.schedule("jwks-refresh", self._refresh_quietly, refresh_ms, refresh_ms)

        def ask() -> None:
            scheduler.schedule_once("jwks-refresh-now", self._refresh_asked)

        self._ask = ask

    def stop(self) -> None:
        """Nobody needs the keys any more."""
        if self._refreshing is not None:
            self._refreshing.cancel()

    def find(self, key_id: str | None) -> VerificationKey | None:
        """The key with this id. Without an id, the only key."""
        keys = self._keys
        if key_id is None and len(keys) == 1:
            return next(iter(keys.values()))
        found = keys.get(key_id)
        if found is None and self._ask is not None and not self._asking:
            now = self._clock.monotonic_ms()
            if self._tried_ms is None or now - self._tried_ms >= self._retry_ms:
                self._tried_ms = now
                self._asking = True
                self._ask()
        return found

    def refresh(self) -> None:
        """Raises OSError and ValueError, and keeps the old keys."""
        import jwt

        self._tried_ms = self._clock.monotonic_ms()
        try:
            entries = parse_json(self._load(self._url))["keys"]
            found = {each.key_id: each.key for each in jwt.PyJWKSet(entries).keys}
            self._keys = {
                each.get("kid"): VerificationKey(found[each.get("kid")], _algorithms(each))
                for each in entries
                if each.get("kid") in found and each.get("use", "sig") == "sig" and self._is_long(each, found)
            }
        except (jwt.exceptions.PyJWTError, TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"it is no JWKS: {error}") from None

    def _is_long(self, entry: Mapping[str, Any], found: Mapping[str | None, Any]) -> bool:
        key = found[entry.get("kid")]
        if isinstance(key, bytes):
            fits = len(key) >= MIN_SECRET_BYTES
        else:
            fits = entry.get("kty") != "RSA" or key.key_size >= MIN_RSA_BITS
        if not fits:
            logger.warning("the key %r of %s is too short to be used", entry.get("kid"), self._shown)
        return fits

    def _refresh_asked(self) -> None:
        try:
            self._refresh_quietly()
        finally:
            self._asking = False

    def _refresh_quietly(self) -> None:
        try:
            self.refresh()
        except (OSError, ValueError) as error:
            logger.warning("the keys of tokens at %s could not be fetched: %s", self._shown, error)


def _algorithms(entry: Mapping[str, Any]) -> tuple[str, ...]:
    fitting = ALGORITHMS.get(entry.get("kty", ""), ())
    return tuple(name for name in fitting if entry.get("alg", name) == name)
