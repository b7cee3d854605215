"""The client's side of an authentication over a blocking socket, before its first request (KIP-43, KIP-152), and again
before the session ends that the broker has given it (KIP-368).

ApiVersions is not asked: SaslHandshake version 1 and SaslAuthenticate version 1 are served by every broker since 1.0.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from network.client.connection import AuthenticationFailed, Secured
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode, ProtocolError
from network.protocol.header import RequestHeader, decode_response, encode_request
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from network.sasl.mechanism import ClientMechanism, SaslAuthenticationError, SaslError

if TYPE_CHECKING:
    from network.client.connection import SocketWrapper
    from network.protocol.message import Request
    from timer.clock import Clock

MAX_ROUNDS = 10
MAX_RESPONSE_BYTES = 512 << 10
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 1

_EARLIEST_PERCENT, _PERCENTS = 85, 11
# A broker takes no second authentication within a second.
_EARLIEST_MS = 1_000

MakeMechanism = Callable[[str], ClientMechanism]
"""A new exchange with this host, with the credentials that hold now. Raises as the exchange does."""


def login_wrapper(make: MakeMechanism, client_id: str, clock: Clock) -> SocketWrapper:
    """Logs in on connected sockets, and again where sessions end."""

    def wrap(sock: socket.socket, host: str) -> Secured:
        session = SaslSession(lambda: make(host), client_id, clock)
        session.renew(sock)
        return Secured(sock, session)

    return wrap


class SaslSession:
    """Due after 85 to 95 % of the time that the broker keeps the session; of many connections not all at once, for that
    depends on the port."""

    def __init__(self, make: Callable[[], ClientMechanism], client_id: str, clock: Clock) -> None:
        self._make = make
        self._client_id = client_id
        self._clock = clock
        self._due_ms: int | None = None

    def is_due(self) -> bool:
        return self._due_ms is not None and self._clock.monotonic_ms() >= self._due_ms

    def renew(self, sock: socket.socket) -> None:
        """Raises as `log_in` does."""
        lifetime_ms = log_in(sock, self._make, self._client_id)
        self._due_ms = None
        if lifetime_ms > 0:
            percent = _EARLIEST_PERCENT + sock.getsockname()[1] % _PERCENTS
            self._due_ms = self._clock.monotonic_ms() + max(lifetime_ms * percent // 100, _EARLIEST_MS)


def log_in(sock: socket.socket, make: Callable[[], ClientMechanism], client_id: str = "") -> int:
    """Authenticate on a connected socket, within its own time-out.

    Returns for how many milliseconds the broker keeps the session, 0 without a limit. Raises `AuthenticationFailed`,
    and another `OSError` when the connection is lost.
    """
    name = ""
    try:
        mechanism = make()
        name = f" by {mechanism.name}"
        return _exchange(_Calls(sock, client_id), mechanism)
    except (SaslError, SaslAuthenticationError, ProtocolError) as error:
        raise AuthenticationFailed(f"authentication{name} failed: {error}") from None


def _exchange(calls: _Calls, mechanism: ClientMechanism) -> int:
    handshake = calls.call(SaslHandshakeRequest(mechanism=mechanism.name), _HANDSHAKE_VERSION)
    code = ErrorCode.of(handshake.error_code)
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise SaslAuthenticationError(
            f"the broker does not offer this mechanism, but {', '.join(handshake.mechanisms) or 'none'}"
        )
    if code is not ErrorCode.NONE:
        raise SaslAuthenticationError(f"the broker answers the handshake with {code.name}")
    challenge, lifetime_ms = b"", 0
    for _ in range(MAX_ROUNDS):
        message = mechanism.evaluate(challenge)
        if message is None:
            return lifetime_ms
        answer = calls.call(SaslAuthenticateRequest(auth_bytes=message), _AUTHENTICATE_VERSION)
        if answer.error_code:
            raise SaslAuthenticationError(answer.error_message or ErrorCode.of(answer.error_code).name)
        challenge, lifetime_ms = bytes(answer.auth_bytes), answer.session_lifetime_ms
    raise SaslError("the exchange does not come to an end")


class _Calls:
    """One request after the other, each answered before the next."""

    def __init__(self, sock: socket.socket, client_id: str) -> None:
        self._socket = sock
        self._client_id = client_id
        self._next = 0

    def call(self, message: Request, version: int) -> Any:
        header = RequestHeader(ApiKey(message.API_KEY), version, self._next, self._client_id)
        self._next += 1
        self._socket.sendall(encode_request(header, message))
        size = int.from_bytes(self._receive(4), "big", signed=True)
        if not 4 <= size <= MAX_RESPONSE_BYTES:
            raise ProtocolError(f"the broker announced an answer of {size} bytes")
        return decode_response(header, self._receive(size))

    def _receive(self, size: int) -> memoryview:
        buffer = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            count = self._socket.recv_into(buffer[filled:])
            if count == 0:
                raise ConnectionResetError("closed by the broker during authentication")
            filled += count
        return buffer
