"""OAUTHBEARER (RFC 7628; KIP-255, KIP-342): a bearer token in the client's first message.

A server that does not take the token says why in JSON, the client answers with one byte, and then it has failed.
What a token must be is not said here: see `unsecured_token` and the broker's check of signed ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from network.sasl.mechanism import SaslAuthenticationError, SaslError

NAME = "OAUTHBEARER"

_CONTROL_A = "\x01"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_KEY, _VALUE = r"[A-Za-z]+", r"[\x21-\x7e \t\r\n]+"
_INITIAL = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_KEYS, _VALUES = re.compile(_KEY), re.compile(_VALUE)


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A token that was found valid; never the token's own text. Times are milliseconds of the wall clock."""

    principal: str
    expires_ms: int
    scope: frozenset[str] = frozenset()
    claims: Mapping[str, object] = field(default_factory=dict, repr=False)


class InvalidTokenError(Exception):
    """A token is not taken. `status` goes to the client; the text is for our log and holds nothing of the token."""

    def __init__(self, reason: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


ValidateToken = Callable[[str], OAuthToken]
"""Raises `InvalidTokenError`."""
ValidateExtensions = Callable[[OAuthToken, Mapping[str, str]], Mapping[str, str]]
"""From the extensions that are not valid to the reason."""


def any_extensions(token: OAuthToken, extensions: Mapping[str, str]) -> Mapping[str, str]:
    """Whatever a client adds is well."""
    return {}


class OAuthBearerServer:
    """The server's side."""

    def __init__(self, validate: ValidateToken, check_extensions: ValidateExtensions = any_extensions) -> None:
        self.complete = False
        self.authorization_id = ""
        self.expires_ms: int | None = None
        self.token_authenticated = False
        self.refusal: str | None = None
        """Why the token was not taken, for our log."""
        self._validate = validate
        self._check_extensions = check_extensions
        self._answer: str | None = None

    def evaluate(self, response: bytes) -> bytes:
        if self._answer is not None:
            if response == _CONTROL_A.encode():
                raise SaslAuthenticationError(self._answer)
            # Kafka takes another token then: as many as a client likes, without the delay of a failure.
            raise SaslError("a token that was not taken is followed by another")
        authorization_id, token_text, extensions = parse_initial(response)
        try:
            token = self._validate(token_text)
        except InvalidTokenError as error:
            self.refusal = str(error)
            self._answer = _json_answer(error)
            return self._answer.encode()
        except Exception as error:
            # Whatever a user's own handler says may hold the token.
            raise SaslError(f"the token could not be validated: {type(error).__name__}") from None
        if authorization_id not in ("", token.principal):
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({token.principal})"
            )
        invalid = self._check_extensions(token, extensions)
        if invalid:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in invalid.items())
            raise SaslAuthenticationError(
                f"Authentication failed: {len(invalid)} extensions are invalid! They are: {reasons}"
            )
        self.authorization_id = token.principal
        self.expires_ms = token.expires_ms
        self.complete = True
        return b""


class OAuthBearerClient:
    """The client's side."""

    name = NAME

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self.complete = False
        pairs = "".join(f"{name}={value}{_CONTROL_A}" for name, value in check_extensions(extensions or {}).items())
        self._first: bytes | None = f"n,,{_CONTROL_A}auth=Bearer {token}{_CONTROL_A}{pairs}{_CONTROL_A}".encode()
        self._failure: str | None = None

    def evaluate(self, challenge: bytes) -> bytes | None:
        first, self._first = self._first, None
        if first is not None:
            return first
        if self._failure is not None:
            raise SaslAuthenticationError(self._failure)
        if challenge:
            self._failure = challenge.decode("utf-8", "replace")
            return _CONTROL_A.encode()
        self.complete = True
        return None


def check_extensions(extensions: Mapping[str, str]) -> Mapping[str, str]:
    """Raises ValueError, without values, for a name or a value that has no place in a message."""
    for name, value in extensions.items():
        if name == "auth" or _KEYS.fullmatch(name) is None:
            raise ValueError(f"Extension name {name} is invalid")
        if _VALUES.fullmatch(value) is None:
            raise ValueError(f"Extension value for extension {name} is invalid")
    return extensions


def parse_initial(message: bytes) -> tuple[str, str, dict[str, str]]:
    """Authorization id, token and extensions of a first message. Raises `SaslError`."""
    found = _INITIAL.fullmatch(message.decode("utf-8", "replace"))
    if found is None:
        raise SaslError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(_CONTROL_A) if pair)
    auth = pairs.pop("auth", None)
    if auth is None:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    scheme = _AUTH.fullmatch(auth)
    if scheme is None:
        raise SaslError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if scheme["scheme"].lower() != "bearer":
        raise SaslError("Invalid scheme in OAUTHBEARER client first message")
    return found["authzid"] or "", scheme["token"], pairs


def _json_answer(error: InvalidTokenError) -> str:
    answer = {"status": error.status}
    if error.scope is not None:
        answer["scope"] = error.scope
    return json.dumps(answer).replace('": "', '":"')
