"""Unsecured JSON web tokens (RFC 7515, appendix A.5), which anybody can make: Kafka's default for OAUTHBEARER.

For development alone. Options of the login module have the names of Kafka's default handlers.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from network.json_text import parse_json
from network.sasl.oauthbearer import InvalidTokenError, OAuthToken

_VALIDATOR = "unsecuredValidator"
_LOGIN = "unsecuredLogin"
_PARTS = 3


class UnsecuredValidator:
    """Takes every token that is well formed, in time and has the required scope."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises ValueError for an option without sense."""
        self._principal_claim = options.get(f"{_VALIDATOR}PrincipalClaimName", "").strip() or "sub"
        self._scope_claim = options.get(f"{_VALIDATOR}ScopeClaimName", "").strip() or "scope"
        self._required = tuple(options.get(f"{_VALIDATOR}RequiredScope", "").split())
        self._skew_ms = int(options.get(f"{_VALIDATOR}AllowableClockSkewMs", "").strip() or "0")
        if self._skew_ms < 0:
            raise ValueError(f"Allowable clock skew millis must not be negative: {self._skew_ms}")

    def validate(self, token: str, now_ms: int) -> OAuthToken:
        """Raises `InvalidTokenError`."""
        claims = parse_unsecured(token)
        principal = claims.get(self._principal_claim)
        if not isinstance(principal, str) or not principal.strip():
            raise InvalidTokenError(f"No principal name in JWT claim: {self._principal_claim}")
        scope = _scope(claims.get(self._scope_claim))
        expires = _seconds(claims, "exp")
        if expires is None:
            raise InvalidTokenError("No expiration time in JWT")
        issued = _seconds(claims, "iat")
        if issued is not None and 1000 * issued > now_ms + self._skew_ms:
            raise InvalidTokenError("the token was issued in the future")
        if now_ms - self._skew_ms >= 1000 * expires:
            raise InvalidTokenError("the token has expired")
        if issued is not None and expires <= issued:
            raise InvalidTokenError("the token expires before it was issued")
        for wanted in self._required:
            if wanted not in scope:
                raise InvalidTokenError(
                    f"the token lacks the required scope {wanted}", "insufficient_scope", " ".join(self._required)
                )
        return OAuthToken(principal, int(1000 * expires), scope, claims)


def parse_unsecured(token: str) -> dict[str, Any]:
    """The claims. Raises `InvalidTokenError` for a token that is signed or has another form."""
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise InvalidTokenError("an unsecured token has three parts")
    header, claims = (_object(part) for part in parts[:2])
    algorithm = header.get("alg")
    if algorithm != "none":
        raise InvalidTokenError("Unsecured JWS must have 'none' for an algorithm")
    if parts[2]:
        raise InvalidTokenError("Unsecured JWS must not contain a digital signature")
    return claims


def make_unsecured(options: Mapping[str, str], now_ms: int) -> tuple[str, dict[str, str]]:
    """A token and extensions from the options of a login module. Raises ValueError, without values."""
    principal_claim = options.get(f"{_LOGIN}PrincipalClaimName", "").strip() or "sub"
    lifetime = int(options.get(f"{_LOGIN}LifetimeSeconds", "").strip() or "3600")
    claims: dict[str, object] = {}
    extensions: dict[str, str] = {}
    for name, value in options.items():
        for prefix in ("StringClaim_", "NumberClaim_", "ListClaim_", "Extension_"):
            key = name.removeprefix(_LOGIN + prefix)
            if key == name or not key:
                continue
            if prefix == "Extension_":
                extensions[key] = value
            elif key in ("iat", "exp"):
                raise ValueError(f"Cannot explicitly set the '{key}' claim")
            elif prefix == "NumberClaim_":
                claims[key] = float(value)
            elif prefix == "ListClaim_":
                claims[key] = value[1:].split(value[0]) if value else []
            else:
                claims[key] = value
    if not claims:
        raise ValueError("the login module has no unsecuredLogin claim, so there is no token to log in with")
    if principal_claim not in claims:
        raise ValueError(f"the login module sets no claim {principal_claim}, which names the principal")
    claims["iat"], claims["exp"] = now_ms / 1000, now_ms / 1000 + lifetime
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}.", extensions


def _object(part: str) -> dict[str, Any]:
    try:
        value = parse_json(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except ValueError:
        raise InvalidTokenError("a part of the token is no JSON in base64") from None
    if not isinstance(value, dict):
        raise InvalidTokenError("a part of the token is no JSON object")
    return value


def _encoded(value: Mapping[str, object]) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode("ascii").rstrip("=")


def _seconds(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e12:
        raise InvalidTokenError(f"the claim {name} is no time")
    return float(value)


def _scope(value: object) -> frozenset[str]:
    if value is None:
        return frozenset()
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return frozenset(item.strip() for item in value)
    raise InvalidTokenError("the scope is neither a text nor a list of texts")
