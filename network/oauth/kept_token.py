"""A token that all connections of a process share, got anew ahead of its end.

Nothing runs of its own: whoever makes a connection, or authenticates again, asks for the token, and if its time has
come, gets a new one first. Meanwhile the others go on with the old one, as long as it holds.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from network.oauth.access_token import AccessToken, NoTokenNow, TokenError

if TYPE_CHECKING:
    from timer.clock import Clock

logger = logging.getLogger(__name__)

Fetch = Callable[[], AccessToken]
"""Raises `TokenError` and `NoTokenNow`."""
_STEPS = 1024
# After a failure the old token serves for so long before another is asked for, as in Kafka.
RETRY_MS = 10_000


class RefreshRules(NamedTuple):
    """`sasl.login.refresh.*`: parts of a token's life, and seconds."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300


_RANGES = (("window.factor", 0.5, 1.0), ("window.jitter", 0.0, 0.25), ("min.period.seconds", 0, 900),
           ("buffer.seconds", 0, 3600))  # fmt: skip


def read_rules(value: Callable[[str], Any]) -> RefreshRules:
    """`value` gives the value of a key, typed or as text, or None. Raises ValueError for one out of its range."""
    found: list[Any] = []
    for (name, low, high), default in zip(_RANGES, RefreshRules(), strict=True):
        key = f"sasl.login.refresh.{name}"
        given = value(key)
        try:
            number = default if given is None else type(default)(given)
        except ValueError:
            raise ValueError(f"{key}: {given} is no number") from None
        if not low <= number <= high:
            raise ValueError(f"{key}: {given} is not between {low} and {high}")
        found.append(number)
    return RefreshRules(*found)


def refresh_ms(token: AccessToken, now_ms: int, rules: RefreshRules) -> int:
    """When to ask for the next token, as Kafka has it: after a part of the life, yet some time before the end and not
    at once after the last, unless there is no room for both."""
    left = token.expires_ms - now_ms
    if left <= 0:
        return now_ms + RETRY_MS
    # Not all clients at once: by what is in the token.
    part = rules.window_factor + rules.window_jitter * (zlib.crc32(token.text.encode()) % _STEPS) / _STEPS
    if 1000 * (rules.min_period_s + rules.buffer_s) > left:
        return now_ms + int(left * part)
    started = now_ms if token.issued_ms is None else token.issued_ms
    at = started + int((token.expires_ms - started) * part)
    at = min(at, token.expires_ms - 1000 * rules.buffer_s)
    return max(at, now_ms + 1000 * rules.min_period_s)


class KeptToken:
    """Thread-safe."""

    def __init__(self, fetch: Fetch, rules: RefreshRules, clock: Clock) -> None:
        self._fetch = fetch
        self._rules = rules
        self._clock = clock
        self._lock = threading.Lock()
        self._token: AccessToken | None = None
        self._refresh_ms = 0
        self._failures = 0
        self._failure: TokenError | NoTokenNow | None = None
        """Of the last try."""

    def current(self) -> AccessToken:
        """A token that holds. Raises `TokenError` and `NoTokenNow`."""
        failures = self._failures
        while True:
            now_ms = self._clock.wall_ms()
            token = self._token
            holds = token is not None and now_ms < token.expires_ms
            if token is not None and holds and now_ms < self._refresh_ms:
                return token
            if not self._lock.acquire(blocking=not holds):
                assert token is not None
                return token  # somebody else gets the next one
            try:
                if self._token is not token:
                    continue
                return self._renew(token if holds else None, now_ms, failures)
            finally:
                self._lock.release()

    def _renew(self, old: AccessToken | None, now_ms: int, failures: int) -> AccessToken:
        failure = self._failure
        if old is None and failure is not None and self._failures != failures:  # it went wrong while this one waited
            raise type(failure)(*failure.args) from None
        try:
            found = self._fetch()
            if found.expires_ms <= self._clock.wall_ms():
                raise NoTokenNow("the token that was given has expired already")
        except (TokenError, NoTokenNow) as error:
            self._failures += 1
            self._failure = error
            if old is None:
                raise
            logger.warning("no new OAUTHBEARER token, the old one is good for %d s: %s",
                           (old.expires_ms - now_ms) // 1000, error)  # fmt: skip
            self._refresh_ms = now_ms + RETRY_MS
            return old
        self._failure = None
        self._refresh_ms = refresh_ms(found, self._clock.wall_ms(), self._rules)
        self._token = found
        return found
