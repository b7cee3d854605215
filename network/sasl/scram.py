"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677; KIP-84): the password itself never travels.

Two rounds: the client names itself and gives a nonce, the server answers with salt, iterations and a nonce of its
own behind the client's; the client proves that it knows the password, the server proves that it knows the stored
keys. A delegation token is a SCRAM login with the extension `tokenauth=true` (KIP-48). Channel binding is not offered.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import NamedTuple

from network.sasl.mechanism import SaslAuthenticationError, SaslError, same_secret
from network.sasl.scram_credential import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    client_key,
    keyed,
    salted_password,
    server_key,
    stored_key,
    xor,
)

TOKEN_AUTH = "tokenauth"
MAX_CLIENT_ITERATIONS = 10_000_000
"""A server that asks for more wants to keep the client busy."""

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"[A-Za-z0-9/+]+={0,2}"
_RESERVED = rf"(?:m={_VALUE},)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>{_RESERVED}n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST = re.compile(
    rf"{_RESERVED}r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")

_NO_BINDING = b"n,,"


class TokenCredential(NamedTuple):
    """What is known of a delegation token: whose it is and until when it holds, in milliseconds of the wall clock."""

    credential: ScramCredential
    owner: str
    expires_ms: int


FindCredential = Callable[[str], ScramCredential | None]
FindToken = Callable[[str], TokenCredential | None]
Nonce = Callable[[], str]
"""Printable ASCII without a comma, new and unforeseeable at each call."""


class ScramServer:
    """The server's side. `find_token` of None means that there are no delegation tokens."""

    def __init__(
        self, mechanism: ScramMechanism, find: FindCredential, find_token: FindToken | None, nonce: Nonce
    ) -> None:
        self.complete = False
        self.authorization_id = ""
        self.expires_ms: int | None = None
        self.token_authenticated = False
        self._mechanism = mechanism
        self._find = find
        self._find_token = find_token
        self._nonce = nonce
        self._step: Callable[[bytes], bytes] = self._on_client_first
        self._header = b""
        self._exchange = ""
        self._whole_nonce = ""
        self._credential: ScramCredential | None = None

    def evaluate(self, response: bytes) -> bytes:
        step, self._step = self._step, _refuse
        return step(response)

    def _on_client_first(self, message: bytes) -> bytes:
        first = _match(_CLIENT_FIRST, message, "client first")
        name = unescape(first["name"])
        extensions = dict(item.split("=", 1) for item in first["extensions"].split(",") if item)
        if extensions.get(TOKEN_AUTH, "").lower() == "true":
            token = self._find_token(name) if self._find_token is not None else None
            if token is None:
                raise SaslError("there is no such delegation token")
            credential: ScramCredential | None = token.credential
            self.authorization_id, self.expires_ms, self.token_authenticated = token.owner, token.expires_ms, True
        else:
            credential = self._find(name)
            self.authorization_id = name
        if credential is None:
            raise SaslError("the user has no credential for this mechanism")
        if first["authzid"] is not None and unescape(first["authzid"]) != name:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if credential.iterations < MIN_ITERATIONS:
            raise SaslError(f"{credential.iterations} iterations are fewer than {MIN_ITERATIONS}")
        self._credential = credential
        self._header = first["header"].encode()
        self._whole_nonce = first["nonce"] + self._nonce()
        salt = base64.b64encode(credential.salt).decode("ascii")
        answer = f"r={self._whole_nonce},s={salt},i={credential.iterations}"
        self._exchange = f"{first['bare']},{answer}"
        self._step = self._on_client_final
        return answer.encode()

    def _on_client_final(self, message: bytes) -> bytes:
        final = _match(_CLIENT_FINAL, message, "client final")
        # Clients with librdkafka before 2.6.1 put their own nonce before the whole one once more. Kafka takes that too;
        # the proof is about what was said, whatever stands before.
        if not final["nonce"].endswith(self._whole_nonce):
            raise SaslError("the nonce of the final message is not the one of this exchange")
        # Kafka's clients repeat no authorization id here.
        if _decoded(final["channel"]) not in (self._header, _NO_BINDING):
            raise SaslError("the final message has another header than the first")
        credential, self._credential = self._credential, None
        assert credential is not None
        exchange = f"{self._exchange},{final['bare']}".encode()
        proof = _decoded(final["proof"])
        if len(proof) != self._mechanism.size:
            raise SaslError("the proof is not as long as the hash")
        key = xor(proof, keyed(self._mechanism, credential.stored_key, exchange))
        if not same_secret(stored_key(self._mechanism, key), credential.stored_key):
            raise SaslError("the proof is wrong")
        self.complete = True
        signature = keyed(self._mechanism, credential.server_key, exchange)
        return b"v=" + base64.b64encode(signature)


class ScramClient:
    """The client's side. With `token_auth` user and password are a delegation token's id and HMAC."""

    def __init__(
        self, mechanism: ScramMechanism, username: str, password: str, nonce: Nonce, *, token_auth: bool = False
    ) -> None:
        self.name = mechanism.name
        self.complete = False
        self._mechanism = mechanism
        self._password = password
        self._own_nonce = nonce()
        extension = f",{TOKEN_AUTH}=true" if token_auth else ""
        self._bare = f"n={escape(username)},r={self._own_nonce}{extension}"
        self._signature = b""
        self._step: Callable[[bytes], bytes | None] = self._first

    def evaluate(self, challenge: bytes) -> bytes | None:
        step, self._step = self._step, _refuse
        return step(challenge)

    def _first(self, challenge: bytes) -> bytes:
        self._step = self._on_server_first
        return _NO_BINDING + self._bare.encode()

    def _on_server_first(self, message: bytes) -> bytes:
        first = _match(_SERVER_FIRST, message, "server first")
        if not first["nonce"].startswith(self._own_nonce) or first["nonce"] == self._own_nonce:
            raise SaslError("the server's nonce does not begin with ours")
        iterations = int(first["iterations"])
        if not MIN_ITERATIONS <= iterations <= MAX_CLIENT_ITERATIONS:
            raise SaslError(f"the server asks for {iterations} iterations, fewer or more than is reasonable")
        salted = salted_password(self._mechanism, self._password, _decoded(first["salt"]), iterations)
        self._password = ""
        bare = f"c={base64.b64encode(_NO_BINDING).decode('ascii')},r={first['nonce']}"
        exchange = f"{self._bare},{message.decode('ascii')},{bare}".encode()
        key = client_key(self._mechanism, salted)
        proof = xor(key, keyed(self._mechanism, stored_key(self._mechanism, key), exchange))
        self._signature = keyed(self._mechanism, server_key(self._mechanism, salted), exchange)
        self._step = self._on_server_final
        return f"{bare},p={base64.b64encode(proof).decode('ascii')}".encode()

    def _on_server_final(self, message: bytes) -> None:
        final = _match(_SERVER_FINAL, message, "server final")
        if final["error"] is not None:
            raise SaslError(f"Sasl authentication using {self.name} failed with error: {final['error']}")
        if not same_secret(_decoded(final["signature"]), self._signature):
            raise SaslError("Invalid server signature in server final message")
        self.complete = True


def escape(name: str) -> str:
    """A user's name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _match(pattern: re.Pattern[str], message: bytes, what: str) -> re.Match[str]:
    """Raises `SaslError`, without the message, for one of another form."""
    try:
        found = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslError(f"the SCRAM {what} message is malformed")
    return found


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise SaslError("a part of a SCRAM message is no base64") from None


def _refuse(message: bytes) -> bytes:
    raise SaslError("a SCRAM message came that nobody waits for")
