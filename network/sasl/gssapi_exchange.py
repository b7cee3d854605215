"""GSSAPI (RFC 4752, Kerberos): a security context is made, then both sides say which security layer they want: none.

What a context is, and whose tickets and keys it is made with, is handed in (`kerberos`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import ClassVar, Protocol

from network.sasl.mechanism import SaslError

NAME = "GSSAPI"

_NO_LAYER = 1
_MAX_BUFFER = 0x10000
# What Java's server says. The number has no meaning where there is no layer.
_OFFER = bytes([_NO_LAYER]) + _MAX_BUFFER.to_bytes(3, "big")
_CHOICE = bytes([_NO_LAYER, 0, 0, 0])
_CHOICE_BYTES = 4
_MAX_STEPS = 8


class SecurityContext(Protocol):
    """One side of a context. All methods raise `SaslError`."""

    @property
    def established(self) -> bool: ...

    @property
    def peer(self) -> str:
        """The principal at the other end; of an acceptor that is established."""
        ...

    def step(self, token: bytes) -> bytes:
        """The peer's token (empty at the initiator's first step) to ours, which is empty if there is none to send."""
        ...

    def wrap(self, data: bytes) -> bytes:
        """With a checksum, without encryption."""
        ...

    def unwrap(self, token: bytes) -> bytes: ...


class Stage(Enum):
    """What is expected of the peer."""

    CONTEXT = "a token of the security context"
    READY = "an empty message, now that the context is there"
    CHOICE = "the security layer that the client wants"
    DONE = "nothing"


Authorize = Callable[[str, str], str]
"""From the authenticated principal and the authorization id that it asks for (itself if it asks for none) to the name
of who it is from now on. Raises `SaslError`."""


class GssapiServer:
    """The server's side."""

    def __init__(self, context: SecurityContext, authorize: Authorize) -> None:
        self.complete = False
        self.authorization_id = ""
        self.expires_ms: int | None = None
        self.token_authenticated = False
        self._context = context
        self._authorize = authorize
        self._stage = Stage.CONTEXT
        self._steps = 0

    def evaluate(self, response: bytes) -> bytes | None:
        return self._TABLE[self._stage](self, response)

    def _step(self, token: bytes) -> bytes:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise SaslError("the security context does not come to an end")
        answer = self._context.step(token)
        if self._context.established:
            self._stage = Stage.READY
            return answer or self._offer(b"")
        return answer

    def _offer(self, nothing: bytes) -> bytes:
        if nothing:
            raise SaslError("Handshake expecting no response data from server")
        self._stage = Stage.CHOICE
        return self._context.wrap(_OFFER)

    def _choice(self, token: bytes) -> None:
        choice = self._context.unwrap(token)
        self._stage = Stage.DONE
        if len(choice) < _CHOICE_BYTES or not choice[0] & _NO_LAYER:
            raise SaslError("Client selected unsupported protection")
        peer = self._context.peer
        asked = choice[_CHOICE_BYTES:].decode("utf-8", "replace")
        self.authorization_id = self._authorize(peer, asked or peer)
        self.complete = True

    def _over(self, token: bytes) -> bytes:
        raise SaslError("the authentication is over already")

    _TABLE: ClassVar[dict[Stage, Callable[[GssapiServer, bytes], bytes | None]]] = {
        Stage.CONTEXT: _step,
        Stage.READY: _offer,
        Stage.CHOICE: _choice,
        Stage.DONE: _over,
    }
    """What takes the client's message. `_step` leads to READY once the context is established, and straight on to
    CHOICE if there is no token left to send; after an error nobody calls it again."""


class GssapiClient:
    """The client's side: it wants no layer, and to be nobody but its principal."""

    name = NAME

    def __init__(self, context: SecurityContext) -> None:
        self.complete = False
        self._context = context
        self._stage = Stage.CONTEXT

    def evaluate(self, challenge: bytes) -> bytes | None:
        return self._TABLE[self._stage](self, challenge)

    def _step(self, challenge: bytes) -> bytes:
        token = self._context.step(challenge)
        if self._context.established:
            self._stage = Stage.CHOICE
        return token

    def _choose(self, challenge: bytes) -> bytes:
        offer = self._context.unwrap(challenge)
        if len(offer) < _CHOICE_BYTES or not offer[0] & _NO_LAYER:
            raise SaslError("the broker insists on a security layer")
        self._stage = Stage.READY
        return self._context.wrap(_CHOICE)

    def _end(self, challenge: bytes) -> None:
        if challenge:
            raise SaslError("the broker goes on after the end")
        self._stage = Stage.DONE
        self.complete = True

    def _over(self, challenge: bytes) -> bytes:
        raise SaslError("the authentication is over already")

    _TABLE: ClassVar[dict[Stage, Callable[[GssapiClient, bytes], bytes | None]]] = {
        Stage.CONTEXT: _step,
        Stage.CHOICE: _choose,
        Stage.READY: _end,
        Stage.DONE: _over,
    }
