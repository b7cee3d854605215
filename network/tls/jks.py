"""Java key stores of the type JKS.

Its format has been frozen since 1998 and is small, so it is read here: the one library for it (pyjks) has had no
release for years and brings three others for formats that nobody has. It needs nothing but SHA-1, which is all the
protection that JKS has; PKCS12 and PEM are better places for a key.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from network.tls.certificates import CertificateError, elements

MAGIC: Final = b"\xfe\xed\xfe\xed"
_KEY: Final = 1
_CERTIFICATE: Final = 2
_DIGEST: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"


class JksError(ValueError):
    """A store that cannot be read; the text says why."""


class JksStore:
    """The entries of a store: its first private key with the chain, and the trusted certificates."""

    def __init__(self, data: bytes, password: str | None) -> None:
        """Without `password` the store's integrity is not checked, as in Java. Raises `JksError`."""
        self._data = data
        self._at = 0
        self._key: bytes | None = None
        self.chain: list[bytes] = []
        self.trusted: list[bytes] = []
        if data[:4] != MAGIC or len(data) < 12 + _DIGEST:
            raise JksError("no JKS key store")
        if password is not None:
            expected = hashlib.sha1(_bytes(password) + _WHITENER + data[:-_DIGEST]).digest()
            if not hmac.compare_digest(expected, data[-_DIGEST:]):
                raise JksError("Keystore was tampered with, or password was incorrect")
        self._at = 4
        version = self._number(4)
        for _ in range(self._number(4)):
            self._entry(version)

    def private_key(self, password: str | None) -> bytes | None:
        """In PKCS 8; None without one. Raises `JksError` for the wrong password."""
        return None if self._key is None else _uncover(self._key, password)

    def _entry(self, version: int) -> None:
        kind = self._number(4)
        self._take(self._number(2))  # alias
        self._take(8)  # when it was made
        if kind == _CERTIFICATE:
            self.trusted.append(self._certificate(version))
        elif kind == _KEY:
            protected = self._take(self._number(4))
            chain = [self._certificate(version) for _ in range(self._number(4))]
            if self._key is None:
                self._key, self.chain = protected, chain
        else:
            raise JksError(f"an entry of an unknown kind, {kind}")

    def _certificate(self, version: int) -> bytes:
        if version > 1:
            self._take(self._number(2))  # type
        return self._take(self._number(4))

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise JksError("the key store is cut short")
        self._at += size
        return taken


def _bytes(password: str) -> bytes:
    return password.encode("utf-16-be")


def _uncover(protected: bytes, password: str | None) -> bytes:
    """The key under Sun's own protection: a stream of SHA-1 digests, and a digest at the end to know it by."""
    if password is None:
        raise JksError("a key in a JKS key store needs its password")
    try:
        (outer,) = elements(protected)
        covered = list(elements(outer.content))[1].content
    except (CertificateError, IndexError, ValueError):
        raise JksError("a key entry is damaged") from None
    secret = _bytes(password)
    digest, covered, check = covered[:_DIGEST], covered[_DIGEST:-_DIGEST], covered[-_DIGEST:]
    key = bytearray()
    for at in range(0, len(covered), _DIGEST):
        digest = hashlib.sha1(secret + digest).digest()
        key += bytes(left ^ right for left, right in zip(covered[at : at + _DIGEST], digest, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise JksError("Cannot recover key: the password of the key is wrong")
    return bytes(key)
