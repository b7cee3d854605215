"""A token that a client logs in with: what it says is read, not checked, for that is the broker's business."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from network.json_text import parse_json

MAX_BYTES = 64 << 10
_PARTS = 3


class TokenError(ValueError):
    """There is no token, and asking again is of no use. The text holds no secret."""


class NoTokenNow(OSError):
    """There is no token at the moment. The text holds no secret."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """Times are milliseconds of the wall clock. Its text shows nothing of the token."""

    text: str = field(repr=False)
    expires_ms: int
    issued_ms: int | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What is sent beside it (KIP-342)."""


def read_token(text: str, subject_claim: str = "sub", extensions: Mapping[str, str] | None = None) -> AccessToken:
    """Of a JSON web token, as Kafka's clients want one. Raises `TokenError`."""
    if len(text) > MAX_BYTES:
        raise TokenError(f"the token has more than {MAX_BYTES} characters")
    parts = text.split(".")
    if len(parts) != _PARTS or not text.isascii() or not all(parts[:2]):
        raise TokenError("the token is no JSON web token of three parts")
    try:
        claims = parse_json(base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True))
    except ValueError:
        claims = None
    if not isinstance(claims, dict):
        raise TokenError("the claims of the token are no JSON object")
    expires = _milliseconds(claims, "exp")
    if expires is None:
        raise TokenError("the token has no exp claim")
    if not isinstance(claims.get(subject_claim), str) or not claims[subject_claim].strip():
        raise TokenError(f"the token has no {subject_claim} claim")
    return AccessToken(text, expires, _milliseconds(claims, "iat"), extensions or {})


def _milliseconds(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e11:
        raise TokenError(f"the claim {name} of the token is no time")
    return int(1000 * value)
