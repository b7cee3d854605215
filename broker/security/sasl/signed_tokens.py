"""Signed tokens of OAUTHBEARER: what Kafka's `OAuthBearerValidatorCallbackHandler` asks of them (KIP-768).

The signature by a key of the JWKS and an algorithm that fits the kind of the key, never `none`; `exp`, `iat` and
`sub`; the issuer where one is configured; an audience where one is configured, and none where not: a token that is
meant for somebody is not meant for us. The library is PyJWT, an extra: `odradek[oauth]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.config.keys import ConfigError
from network.sasl.oauthbearer import InvalidTokenError, OAuthToken

if TYPE_CHECKING:
    from broker.security.sasl.jwks import KeySet
    from timer.clock import Clock


@dataclass(frozen=True, slots=True)
class TokenRules:
    """`sasl.oauthbearer.*` of a listener. No issuer: any. No audience: tokens without one."""

    audience: Sequence[str] | None = None
    issuer: str | None = None
    clock_skew_seconds: int = 30
    sub_claim: str = "sub"
    scope_claim: str = "scope"


class SignedTokens:
    """Validates tokens against the keys that are known now."""

    def __init__(self, keys: KeySet, rules: TokenRules, clock: Clock) -> None:
        try:
            import jwt
        except ImportError:
            raise ConfigError("signed tokens of OAUTHBEARER need the extra odradek[oauth]") from None
        self._jwt = jwt
        self._keys = keys
        self._rules = rules
        self._clock = clock

    def stop(self) -> None:
        """No token will be shown any more."""
        self._keys.stop()

    def validate(self, token: str) -> OAuthToken:
        """Raises `InvalidTokenError`, whose text holds nothing of the token."""
        jwt, rules = self._jwt, self._rules
        try:
            key = self._keys.find(jwt.get_unverified_header(token).get("kid"))
            if key is None:
                raise InvalidTokenError("the token is signed by a key that the JWKS does not have")
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=key.algorithms,
                audience=rules.audience or None,
                issuer=rules.issuer,
                # Times are checked below, by our clock.
                options={
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_sub": False,
                    "require": ["exp", "iat"],
                },
            )
        except (jwt.exceptions.PyJWTError, ValueError, TypeError) as error:
            raise InvalidTokenError(f"the token is not valid: {type(error).__name__}") from None
        return self._checked(claims)

    def _checked(self, claims: dict[str, Any]) -> OAuthToken:
        rules, now = self._rules, self._clock.wall_ms() / 1000
        expires, issued, not_before = (_time(claims.get(name)) for name in ("exp", "iat", "nbf"))
        if expires is None or now - rules.clock_skew_seconds >= expires:
            raise InvalidTokenError("the token has expired")
        if issued is None or issued - rules.clock_skew_seconds > now:
            raise InvalidTokenError("the token was issued in the future")
        if not_before is not None and not_before - rules.clock_skew_seconds > now:
            raise InvalidTokenError("the token does not hold yet")
        principal = claims.get(rules.sub_claim)
        if not isinstance(principal, str) or not principal.strip():
            raise InvalidTokenError(f"the token has no claim {rules.sub_claim}")
        scope = claims.get(rules.scope_claim, [])
        if isinstance(scope, str):
            scope = scope.split()
        if not isinstance(scope, list) or not all(isinstance(each, str) for each in scope):
            raise InvalidTokenError(f"the claim {rules.scope_claim} is no list of texts")
        return OAuthToken(principal.strip(), int(expires * 1000), frozenset(scope), claims)


def _time(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e12:
        return None
    return float(value)
