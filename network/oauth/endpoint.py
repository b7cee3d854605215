"""A token from an identity provider's token endpoint, by client credentials (RFC 6749, section 4.4; KIP-768).

Tried again where that may help, with a wait that doubles, until `sasl.login.retry.backoff.max.ms` have passed since the
first try, as in Kafka. Of what the endpoint answers nothing is told but the status and the error codes of the RFC.
"""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from network.json_text import parse_json
from network.oauth.access_token import NoTokenNow, TokenError
from network.oauth.http import Answer, Timeouts, post
from network.oauth.keys import shown

if TYPE_CHECKING:
    from timer.clock import Clock

# Statuses at which another try may help, beside those of 500 and above.
_PASSING = frozenset({408, 425, 429})
_FINAL = frozenset({501, 505})
_GOOD = frozenset({200, 201})
_ERRORS = frozenset({"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client",
                     "unsupported_grant_type", "invalid_scope"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Who asks for what. `urlencoded`: as RFC 6749 wants it in the header (KIP-1025)."""

    client_id: str
    secret: str = field(repr=False)
    scope: str | None = None
    urlencoded: bool = False

    @property
    def authorization(self) -> str:
        pair = (self.client_id, self.secret)
        text = ":".join(map(quote_plus, pair) if self.urlencoded else pair)
        return f"Basic {base64.b64encode(text.encode()).decode('ascii')}"

    @property
    def body(self) -> bytes:
        scope = f"&scope={quote_plus(self.scope)}" if self.scope else ""
        return f"grant_type=client_credentials{scope}".encode()


class TokenEndpoint:
    """Times are milliseconds."""

    def __init__(
        self,
        url: str,
        credentials: ClientCredentials,
        context: Callable[[], ssl.SSLContext] | None,
        timeouts: Timeouts,
        backoff_ms: tuple[int, int],
        clock: Clock,
    ) -> None:
        """`context` is asked for each connection, and there for `https:`; `backoff_ms` is the first wait, and how long
        all tries together may take before the last begins."""
        self._url = url
        self._name = f"the token endpoint {shown(url)}"
        self._credentials = credentials
        self._context = context
        self._timeouts = timeouts
        self._backoff_ms = backoff_ms
        self._clock = clock

    def fetch(self) -> str:
        """The token's text. Raises `NoTokenNow`, and `TokenError` where another try is of no use."""
        first, longest = self._backoff_ms
        deadline = self._clock.monotonic_ms() + longest
        wait = first
        while True:
            try:
                return self._ask()
            except NoTokenNow:
                left = deadline - self._clock.monotonic_ms()
                if left <= 0:
                    raise
            self._pause(min(wait, left))
            wait *= 2

    def _ask(self) -> str:
        headers = {
            "Accept": "application/json",
            "Authorization": self._credentials.authorization,
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        try:
            tls = None if self._context is None else self._context()
            answer = post(self._url, headers, self._credentials.body, tls, self._timeouts, self._clock)
        except ssl.SSLCertVerificationError as error:
            raise TokenError(f"{self._name} is not trusted: {error.verify_message}") from None
        except (OSError, ValueError) as error:
            raise NoTokenNow(f"{self._name} does not answer: {error}") from None
        if answer.status not in _GOOD:
            why = f"{self._name} answers {answer.status}{_reason(answer)}"
            final = answer.status in _FINAL or (answer.status < 500 and answer.status not in _PASSING)
            raise TokenError(why) if final else NoTokenNow(why)
        found = _object(answer).get("access_token")
        if not isinstance(found, str) or not found.strip():
            raise TokenError(f"{self._name} gives no access_token")
        return found.strip()

    def _pause(self, duration_ms: float) -> None:
        condition = threading.Condition()
        with condition:
            self._clock.wait(condition, duration_ms)


def _object(answer: Answer) -> dict[str, object]:
    try:
        found = parse_json(answer.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _reason(answer: Answer) -> str:
    code = _object(answer).get("error")
    return f" ({code})" if isinstance(code, str) and code in _ERRORS else ""
