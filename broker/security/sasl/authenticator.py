"""The server's side of SASL on one connection: what may come, in which order, and how failures are answered.

KIP-43 (handshake), KIP-152 (errors that a client can read), KIP-255, KIP-368 (re-authentication). What each state
takes stands in `SaslAuthenticator.TABLE`; a request that it does not name ends the connection. A failure is
answered after `connection.failed.authentication.delay.ms`, and the connection is closed then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from network.protocol.api import API, ApiKey
from network.protocol.errors import ErrorCode, ProtocolError
from network.protocol.header import RequestHeader, decode_request_header, encode_response_parts
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from network.sasl import gssapi_exchange
from network.sasl.mechanism import SaslAuthenticationError, SaslError, ServerMechanism
from network.server.authenticator import AuthenticationStep, SessionExpired

if TYPE_CHECKING:
    from network.protocol.message import Message
    from network.server.connection_info import ConnectionInfo
    from timer.clock import Clock

logger = logging.getLogger(__name__)

_MIN_REAUTHENTICATION_NS = 1_000_000_000
_NS_PER_MS = 1_000_000
_SHOWN = 300


class State(Enum):
    """Where an authentication stands."""

    INITIAL = "waits for ApiVersions or SaslHandshake"
    HANDSHAKE = "waits for SaslHandshake"
    AUTHENTICATE = "waits for SaslAuthenticate"
    RAW = "waits for the mechanism's own bytes, without a request around them"
    OTHER_MECHANISM = "another mechanism was asked for to authenticate again"
    COMPLETE = "authenticated"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MechanismSettings:
    """One mechanism of a listener. `max_reauth_ms` of 0: a session has no end of its own."""

    make: Callable[[], ServerMechanism]
    max_reauth_ms: int = 0


Serve = Callable[["SaslAuthenticator", RequestHeader, Any], "list[Any]"]
AnswerVersions = Callable[["ConnectionInfo", RequestHeader, Any], "tuple[bool, Message]"]
"""Whether ApiVersions succeeds, and its answer; None stands for a request of a version that is not known."""


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """What holds for a listener."""

    mechanisms: Mapping[str, MechanismSettings]
    answer_versions: AnswerVersions
    clock: Clock
    max_frame_bytes: int = 524_288
    failure_delay_ms: int = 100


class _Failure(Exception):
    """The authentication has failed. `answer` is for the client, nothing if None; the text is for the log."""

    def __init__(self, reason: str, answer: list[Any] | None = None) -> None:
        super().__init__(reason)
        self.answer = answer


class SaslAuthenticator:
    """Implements `network.server.authenticator.Authenticator`; used from the connection's processor alone."""

    def __init__(self, settings: SaslSettings, info: ConnectionInfo) -> None:
        self.complete = False
        self.principal = ""
        self.max_frame_bytes = settings.max_frame_bytes
        self.reauthenticating = False
        self._settings = settings
        self._info = info
        self._state = State.INITIAL
        self._mechanism_name = ""
        self._mechanism: ServerMechanism | None = None
        self._expires_ns: int | None = None
        self._reauthentication_began_ns: int | None = None

    @property
    def state(self) -> State:
        return self._state

    # -- the seam ------------------------------------------------------------------------------------------------

    def receive(self, frame: memoryview) -> AuthenticationStep:
        try:
            if len(frame) > self.max_frame_bytes:
                raise _Failure(f"a frame of {len(frame)} bytes is too long")
            if self._state is State.RAW:
                return AuthenticationStep(self._raw_round(bytes(frame)))
            return AuthenticationStep(self._request(frame))
        except _Failure as failure:
            self._state = State.FAILED
            logger.info(
                "Failed %s with %s (%s) (%s)", self._what, self._info.client_host, self._info.id, _printable(failure)
            )
            return AuthenticationStep(failure.answer or [], failed=True, delay_ms=self._settings.failure_delay_ms)

    def admits(self, header: RequestHeader, now_ns: int) -> bool:
        if self._expires_ns is None:
            return True
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            began = self._reauthentication_began_ns
            if began is None or now_ns - began >= _MIN_REAUTHENTICATION_NS:
                self._reauthentication_began_ns = now_ns
                self.reauthenticating = True
                self.complete = False
                self._state = State.HANDSHAKE
                return False
        if now_ns > self._expires_ns:
            raise SessionExpired
        return True

    # -- requests ------------------------------------------------------------------------------------------------

    def _request(self, frame: memoryview) -> list[Any]:
        header, offset = decode_request_header(frame)
        spec = API.get(header.api_key)
        if spec is None:
            return self._first_token(frame)
        serve = self.TABLE[self._state].get(spec.key)
        if serve is None:
            raise self._unexpected(header)
        if not spec.serves(header.api_version):
            if spec.key is not ApiKey.API_VERSIONS:
                raise ProtocolError(f"{spec.name} version {header.api_version} is not served")
            return serve(self, header, None)
        message, _ = spec.request.decode_from(frame, offset, header.api_version)
        return serve(self, header, message)

    def _first_token(self, frame: memoryview) -> list[Any]:
        """What is no request can only be GSSAPI of a client that is older than SaslHandshake (0.9)."""
        wanted = self._settings.mechanisms.get(gssapi_exchange.NAME)
        if wanted is None or self._state is not State.INITIAL:
            raise _Failure("a packet is no Kafka request")
        self._mechanism_name, self._mechanism = gssapi_exchange.NAME, wanted.make()
        self._state = State.RAW
        return self._raw_round(bytes(frame))

    def _unexpected(self, header: RequestHeader) -> Exception:
        """A request at the wrong time. During the rounds the client is told, where the API has a word for it."""
        spec = API[header.api_key]
        if self._state is State.OTHER_MECHANISM:
            return _Failure("another mechanism was asked for than the session was made with")
        reason = f"unexpected request {spec.name} while the authentication {self._state.value}"
        if self._state is State.AUTHENTICATE:
            response = spec.response()
            if hasattr(response, "error_code") and spec.serves(header.api_version):
                response.error_code = int(ErrorCode.ILLEGAL_SASL_STATE)
                return _Failure(reason, encode_response_parts(header, response))
        elif spec.key is ApiKey.API_VERSIONS:
            return ProtocolError(reason)
        return _Failure(reason)

    def _versions(self, header: RequestHeader, message: Any) -> list[Any]:
        known, answer = self._settings.answer_versions(self._info, header, message)
        if known:
            self._state = State.HANDSHAKE
        if message is None:
            header = RequestHeader(header.api_key, 0, header.correlation_id)
        return encode_response_parts(header, answer)

    def _handshake(self, header: RequestHeader, message: SaslHandshakeRequest) -> list[Any]:
        offered = self._settings.mechanisms
        wanted = offered.get(message.mechanism)
        code = ErrorCode.NONE if wanted is not None else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer = encode_response_parts(header, SaslHandshakeResponse(error_code=code, mechanisms=list(offered)))
        if wanted is None:
            raise _Failure(f"Unsupported SASL mechanism {message.mechanism}", answer)
        if self.reauthenticating and message.mechanism != self._mechanism_name:
            self._state = State.OTHER_MECHANISM
            return answer
        self._mechanism_name, self._mechanism = message.mechanism, wanted.make()
        self._state = State.AUTHENTICATE if header.api_version >= 1 else State.RAW
        return answer

    def _authenticate(self, header: RequestHeader, message: SaslAuthenticateRequest) -> list[Any]:
        def failed(reason: str, text: str) -> _Failure:
            answer = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)
            return _Failure(reason, encode_response_parts(header, answer))

        try:
            said, lifetime_ms = self._round(bytes(message.auth_bytes))
        except SaslAuthenticationError as error:
            raise failed(str(error), str(error)) from None
        except SaslError as error:
            # Not the reason itself: it could say which users there are.
            raise failed(
                str(error),
                f"Authentication failed during {self._what} due to invalid credentials with SASL mechanism "
                f"{self._mechanism_name}",
            ) from None
        answer = SaslAuthenticateResponse(auth_bytes=said or b"", session_lifetime_ms=lifetime_ms, error_message="")
        return encode_response_parts(header, answer)

    def _raw_round(self, data: bytes) -> list[Any]:
        try:
            said, _ = self._round(data)
        except (SaslAuthenticationError, SaslError) as error:
            raise _Failure(str(error)) from None
        return [] if said is None else [len(said).to_bytes(4, "big") + said]

    # -- the mechanism -------------------------------------------------------------------------------------------

    def _round(self, data: bytes) -> tuple[bytes | None, int]:
        """What to answer, and, with the last answer, the lifetime of the session in milliseconds (0 without end)."""
        mechanism = self._mechanism
        assert mechanism is not None
        try:
            said = mechanism.evaluate(data)
        except (SaslError, SaslAuthenticationError):
            raise
        except BaseException as error:
            # A handler of the user's own: its text may hold a secret, and SystemExit would end the network thread.
            raise SaslError(f"the check of {self._mechanism_name} failed: {type(error).__name__}") from None
        if not mechanism.complete:
            return said, 0
        principal = f"User:{mechanism.authorization_id}"
        if self.reauthenticating and principal != self.principal:
            raise SaslAuthenticationError(
                "Cannot change principals during re-authentication from "
                f"{self.principal.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
            )
        self._mechanism = None
        self._info.token_authenticated = mechanism.token_authenticated
        self.principal = principal
        self.complete = True
        self._state = State.COMPLETE
        return said, self._begin_session(mechanism.expires_ms)

    def _begin_session(self, credential_expires_ms: int | None) -> int:
        clock = self._settings.clock
        limits = []
        if credential_expires_ms is not None:
            limits.append(credential_expires_ms - clock.wall_ms())
        max_reauth_ms = self._settings.mechanisms[self._mechanism_name].max_reauth_ms
        if max_reauth_ms > 0:
            limits.append(max_reauth_ms)
        if not limits:
            self._expires_ns = None
            return 0
        lifetime_ms = max(0, min(limits))
        self._expires_ns = clock.monotonic_ns() + lifetime_ms * _NS_PER_MS
        return lifetime_ms

    @property
    def _what(self) -> str:
        return "re-authentication" if self.reauthenticating else "authentication"

    TABLE: ClassVar[dict[State, dict[ApiKey, Serve]]] = {
        State.INITIAL: {ApiKey.API_VERSIONS: _versions, ApiKey.SASL_HANDSHAKE: _handshake},
        State.HANDSHAKE: {ApiKey.SASL_HANDSHAKE: _handshake},
        State.AUTHENTICATE: {ApiKey.SASL_AUTHENTICATE: _authenticate},
        State.RAW: {},
        State.OTHER_MECHANISM: {},
        State.COMPLETE: {},
        State.FAILED: {},
    }
    """By state: the requests that are taken, and what serves each. A successful ApiVersions leads to HANDSHAKE, a
    handshake to AUTHENTICATE (or RAW, for version 0), the mechanism's last round to COMPLETE, a failure to FAILED."""


def _printable(failure: _Failure) -> str:
    """One short line: what a client sent may stand in it, and a client may send much."""
    text = str(failure)[:_SHOWN]
    return text if text.isprintable() else ascii(text)
