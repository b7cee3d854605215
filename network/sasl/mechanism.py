"""What the mechanisms have in common: one side of an exchange as a state machine that takes bytes and gives bytes.

No mechanism reads a socket, asks the time or logs. No text of an error holds a password, a token or a key.
"""

from __future__ import annotations

import hmac
from typing import Protocol


class SaslAuthenticationError(Exception):
    """The authentication failed; its text is meant for the peer."""


class SaslError(Exception):
    """The authentication failed; its text is for our own log. The peer is told no more than that it failed, because
    the reason could tell which users there are."""


class ServerMechanism(Protocol):
    """The server's side of one exchange."""

    complete: bool
    authorization_id: str
    """Who has been authenticated; meaningful once complete."""
    expires_ms: int | None
    """Until when the credential is valid, in milliseconds of the wall clock; None for one that does not expire."""
    token_authenticated: bool
    """Whether a delegation token was the credential."""

    def evaluate(self, response: bytes) -> bytes | None:
        """Take the client's message and return what it is answered, None for no message at all. Raises
        `SaslAuthenticationError` and `SaslError`; neither side may go on then."""
        ...


class ClientMechanism(Protocol):
    """The client's side of one exchange. The first message is the client's in every mechanism here. It may wait for
    others: a realm's servers, an identity provider."""

    name: str
    complete: bool

    def evaluate(self, challenge: bytes) -> bytes | None:
        """The next message, for a challenge that is empty at first; None when there is nothing more to say. Raises
        `SaslAuthenticationError` and `SaslError`."""
        ...


def same_secret(one: bytes, other: bytes) -> bool:
    """Compares in a time that does not tell how much of the two is equal."""
    return hmac.compare_digest(one, other)
