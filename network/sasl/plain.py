"""PLAIN (RFC 4616): user and password in one message, in clear text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from network.sasl.mechanism import SaslAuthenticationError, same_secret

NAME = "PLAIN"
_USER_OPTION = "user_"
_PARTS = 3

CheckPassword = Callable[[str, str], bool]
"""Whether the user's password is this one; what it raises counts as no."""


class PlainServer:
    """`authorization id NUL user NUL password`; the authorization id is empty or the user."""

    def __init__(self, check: CheckPassword) -> None:
        self.complete = False
        self.authorization_id = ""
        self.expires_ms: int | None = None
        self.token_authenticated = False
        self._check = check

    def evaluate(self, response: bytes) -> bytes:
        parts = response.decode("utf-8", "replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        try:
            known = self._check(user, password)
        except Exception:
            # Whatever a user's own handler says may hold the password.
            raise SaslAuthenticationError("Authentication failed: credentials for user could not be verified") from None
        if not known:
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.authorization_id = user
        self.complete = True
        return b""


class PlainClient:
    """One message, and an empty answer to it."""

    name = NAME

    def __init__(self, username: str, password: str) -> None:
        self.complete = False
        self._first: bytes | None = b"\0" + username.encode() + b"\0" + password.encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        first, self._first = self._first, None
        if first is None:
            self.complete = True
        return first


class JaasPasswords:
    """Users and passwords from `user_NAME="PASSWORD"` options of a login module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._passwords = {
            name.removeprefix(_USER_OPTION): value.encode()
            for name, value in options.items()
            if name.startswith(_USER_OPTION)
        }

    def __call__(self, user: str, password: str) -> bool:
        expected = self._passwords.get(user)
        # An unknown user costs a comparison, too.
        given = password.encode()
        return same_secret(given, given[:-1] + b"\0" if expected is None else expected) and expected is not None
