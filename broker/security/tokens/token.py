"""One delegation token, as it is known and as its znode holds it. The HMAC is never stored: who has the secret key can
work it out again."""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from controller.zk import paths
from network.json_text import parse_json

VERSION = 3
_READ_VERSIONS = (1, 2, 3)


class Principal(NamedTuple):
    """`Type:name`."""

    type: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Raises ValueError for a text without a type."""
        kind, colon, name = text.partition(":")
        if not colon:
            raise ValueError("a principal has the form Type:name")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True)
class Token:
    """All of a token but its HMAC. Times are milliseconds of the wall clock."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def has_expired(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expires_ms < now_ms

    def belongs_to(self, principal: Principal) -> bool:
        """Whether the principal is its owner or may renew it."""
        return principal == self.owner or principal in self.renewers

    def until(self, expires_ms: int) -> Token:
        """The same token with another end, which is never after its last one."""
        return replace(self, expires_ms=min(self.max_ms, expires_ms))


def hmac_of(token_id: str, secret: bytes) -> bytes:
    """What proves that one has the token."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def password_of(mac: bytes) -> str:
    """The password that a token logs in with."""
    return base64.b64encode(mac).decode("ascii")


def encode(token: Token) -> bytes:
    """The content of the znode."""
    value = {
        "issueTimestamp": token.issued_ms,
        "renewers": [paths.sanitize(str(each)) for each in token.renewers],
        "tokenRequester": paths.sanitize(str(token.requester)),
        "tokenId": token.token_id,
        "owner": paths.sanitize(str(token.owner)),
        "expiryTimestamp": token.expires_ms,
        "maxTimestamp": token.max_ms,
        "version": VERSION,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def decode(data: bytes) -> Token:
    """Raises ValueError for a content that cannot be read."""
    try:
        value: dict[str, Any] = parse_json(data)
        if value["version"] not in _READ_VERSIONS:
            raise ValueError(f"unknown version {value['version']!r}")
        owner = Principal.parse(paths.desanitize(value["owner"]))
        requester = value.get("tokenRequester")
        return Token(
            str(value["tokenId"]),
            owner,
            owner if requester is None else Principal.parse(paths.desanitize(requester)),
            tuple(Principal.parse(paths.desanitize(each)) for each in value["renewers"]),
            int(value["issueTimestamp"]),
            int(value["maxTimestamp"]),
            int(value["expiryTimestamp"]),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"a delegation token lacks a part: {error}") from None
