"""The keys of Kafka's clients that say where an OAUTHBEARER token comes from (KIP-768)."""

from __future__ import annotations

from urllib.parse import urlsplit

HANDLER = "sasl.login.callback.handler.class"
URL = "sasl.oauthbearer.token.endpoint.url"
HEADER_URLENCODE = "sasl.oauthbearer.header.urlencode"
SUBJECT_CLAIM = "sasl.oauthbearer.sub.claim.name"
REFRESH_KEYS = (
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
)
"""When a token is got anew."""
LOGIN_KEYS = (
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    *REFRESH_KEYS,
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
)
KEYS = (HANDLER, URL, *LOGIN_KEYS, HEADER_URLENCODE, SUBJECT_CLAIM)
"""All of them."""


def is_readable(url: str) -> bool:
    """Whether it can be taken apart: a port that is one, and brackets in pairs."""
    try:
        _ = urlsplit(url).port
    except ValueError:
        return False
    return True


def shown(url: str) -> str:
    """The address without a user, and without what stands behind the question mark: both may be secrets."""
    if not is_readable(url):
        return "an address that cannot be read"
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
