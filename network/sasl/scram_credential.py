"""What a server keeps of a SCRAM password, and the arithmetic of RFC 5802 over it (RFC 7677 for SHA-256; KIP-84)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Bound of what AlterUserScramCredentials takes."""

_PARTS = frozenset({"salt", "stored_key", "server_key", "iterations"})


class ScramMechanism(NamedTuple):
    """One of the two: its name, its code on the wire and its hash."""

    name: str
    code: int
    hash: str

    @property
    def size(self) -> int:
        """Bytes of a hash."""
        return hashlib.new(self.hash).digest_size


SHA_256 = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SHA_512 = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
MECHANISMS = {each.name: each for each in (SHA_256, SHA_512)}
BY_CODE = {each.code: each for each in (SHA_256, SHA_512)}


class ScramCredential:
    """Salt, keys and iterations of one user for one mechanism. Its text shows none of the secrets."""

    __slots__ = ("iterations", "salt", "server_key", "stored_key")

    def __init__(self, salt: bytes, stored_key: bytes, server_key: bytes, iterations: int) -> None:
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    def to_text(self) -> str:
        """As it is kept in ZooKeeper."""
        return (
            f"salt={_b64(self.salt)},stored_key={_b64(self.stored_key)},"
            f"server_key={_b64(self.server_key)},iterations={self.iterations}"
        )

    @classmethod
    def from_text(cls, text: str) -> ScramCredential:
        """Raises ValueError, without the text, for one that has not exactly the four parts."""
        parts = dict(item.strip().split("=", 1) for item in text.split(",") if "=" in item)
        if parts.keys() != _PARTS or len(text.split(",")) != len(_PARTS):
            raise ValueError("a SCRAM credential lacks a part, or has one too many")
        try:
            return cls(
                base64.b64decode(parts["salt"], validate=True),
                base64.b64decode(parts["stored_key"], validate=True),
                base64.b64decode(parts["server_key"], validate=True),
                int(parts["iterations"]),
            )
        except (binascii.Error, ValueError):
            raise ValueError("a part of a SCRAM credential cannot be read") from None


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The slow step. The password is taken as it is, as Kafka does: no SASLprep."""
    return hashlib.pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
    """What to keep of a salted password."""
    return ScramCredential(
        salt, stored_key(mechanism, client_key(mechanism, salted)), server_key(mechanism, salted), iterations
    )


def client_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return keyed(mechanism, salted, b"Client Key")


def server_key(mechanism: ScramMechanism, salted: bytes) -> bytes:
    return keyed(mechanism, salted, b"Server Key")


def stored_key(mechanism: ScramMechanism, key: bytes) -> bytes:
    return hashlib.new(mechanism.hash, key).digest()


def keyed(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    """The HMAC of a message."""
    return hmac.digest(key, message, mechanism.hash)


def xor(one: bytes, other: bytes) -> bytes:
    """Of two texts of equal length."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
