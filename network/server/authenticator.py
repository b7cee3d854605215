"""The seam for SASL (`broker/security/sasl/authenticator.py`): who reads the frames of a connection before requests do.

A listener without SASL has no authenticator, and its requests carry the transport's principal or ANONYMOUS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from network.protocol.header import RequestHeader
    from network.server.connection_info import ConnectionInfo
    from network.server.transport import Transport


@dataclass(frozen=True, slots=True)
class AuthenticationStep:
    """What to do after one frame: bytes to send (gather list with size prefix), and whether it ends here.

    `failed` closes the connection after the answer is sent; `delay_ms` holds answer and close back
    (`connection.failed.authentication.delay.ms`).
    """

    answer: list[Any] = field(default_factory=list)
    failed: bool = False
    delay_ms: int = 0


class Authenticator(Protocol):
    """Server side of one connection's authentication."""

    complete: bool
    """While False every frame of the connection goes to `receive`."""
    principal: str
    """`Type:name`; meaningful once complete."""
    reauthenticating: bool
    """Whether the client was authenticated before; meaningful while not complete, and for the round that completes."""
    max_frame_bytes: int
    """What a frame may announce while not complete (`sasl.server.max.receive.size`); more closes the connection."""

    def receive(self, frame: memoryview) -> AuthenticationStep:
        """Take one frame (without its size). Raises `ProtocolError` to close the connection without an answer."""
        ...

    def admits(self, header: RequestHeader, now_ns: int) -> bool:
        """Whether a request may be served once complete. False for a re-authentication's handshake (the frame then
        goes to `receive`); raises `SessionExpired` when the session's lifetime has passed."""
        ...


class SessionExpired(Exception):
    """The SASL session ended; the connection is closed and counted in ExpiredConnectionsKilledCount."""


AuthenticatorFactory = Callable[["ConnectionInfo", "Transport"], Authenticator]
