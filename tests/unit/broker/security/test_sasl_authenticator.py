"""SASL on a connection, frame by frame: what is taken in which state, answers, sessions, authenticating again."""

from __future__ import annotations

import contextlib
import io
import logging
from typing import Any

import pytest

from broker.security.sasl.authenticator import MechanismSettings, SaslAuthenticator, SaslSettings, State
from network.protocol.api import API, ApiKey
from network.protocol.errors import ErrorCode, ProtocolError
from network.protocol.header import RequestHeader, decode_response, encode_request
from network.protocol.message import Message, Request
from network.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from network.protocol.messages.metadata import MetadataRequest
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from network.sasl.oauthbearer import OAuthBearerServer, OAuthToken
from network.sasl.plain import JaasPasswords, PlainServer
from network.sasl.scram import ScramClient, ScramServer
from network.sasl.scram_credential import SHA_256, SHA_512, ScramCredential, credential_of, salted_password
from network.server.authenticator import AuthenticationStep, SessionExpired
from network.server.connection_info import ConnectionInfo
from timer.clock import ManualClock

USERS = {"user_alice": "secret", "user_bob": "other"}
SCRAM = credential_of(SHA_256, b"salt", salted_password(SHA_256, "secret", b"salt", 4096), 4096)
LIMIT = 400
OFFERED = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


def answer_versions(info: ConnectionInfo, header: RequestHeader, request: Any) -> tuple[bool, Message]:
    return request is not None, ApiVersionsResponse(error_code=0 if request is not None else 35)


def broken_handler(user: str) -> ScramCredential:
    raise SystemExit(f"the password of {user} is sesame")


class Connection:
    """A connection that is being authenticated, without a socket."""

    def __init__(self, **max_reauth_ms: int) -> None:
        self.clock = ManualClock()
        self.info = ConnectionInfo("1", "SASL", "SASL_PLAINTEXT")
        makers: dict[str, Any] = {
            "PLAIN": lambda: PlainServer(JaasPasswords(USERS)),
            "SCRAM-SHA-256": lambda: ScramServer(SHA_256, {"alice": SCRAM}.get, None, lambda: "s"),
            "SCRAM-SHA-512": lambda: ScramServer(SHA_512, broken_handler, None, lambda: "s"),
            "OAUTHBEARER": lambda: OAuthBearerServer(lambda text: OAuthToken(text, self.clock.wall_ms() + 60_000)),
        }
        settings = SaslSettings(
            {name: MechanismSettings(make, max_reauth_ms.get(name, 0)) for name, make in makers.items()},
            answer_versions,
            self.clock,
            LIMIT,
            123,
        )
        self.authenticator = SaslAuthenticator(settings, self.info)

    def send(self, request: Request, version: int) -> tuple[Any, AuthenticationStep]:
        """The answer, None without one."""
        header = RequestHeader(ApiKey(request.API_KEY), version, 7, "client")
        step = self.authenticator.receive(memoryview(encode_request(header, request))[4:])
        frame = b"".join(bytes(part) for part in step.answer)
        return (decode_response(header, frame[4:]) if frame else None), step

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        return self.send(SaslHandshakeRequest(mechanism=mechanism), version)[0]

    def round(self, data: bytes, version: int = 2) -> Any:
        return self.send(SaslAuthenticateRequest(auth_bytes=data), version)[0]

    def log_in(self, user: str = "alice", password: str = "secret") -> Any:
        assert self.handshake("PLAIN").error_code == 0
        return self.round(f"\0{user}\0{password}".encode())

    def ask(self, key: ApiKey) -> bool:
        return self.authenticator.admits(RequestHeader(key, 0, 1), self.clock.monotonic_ns())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login(version: int) -> None:
    connection = Connection()
    assert connection.send(ApiVersionsRequest(), 3)[0].error_code == 0
    handshake = connection.handshake("PLAIN")
    assert (handshake.error_code, handshake.mechanisms) == (0, OFFERED)
    answer = connection.round(b"\0alice\0secret", version)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
    assert (connection.authenticator.complete, connection.authenticator.principal) == (True, "User:alice")
    assert connection.ask(ApiKey.METADATA)
    assert connection.ask(ApiKey.SASL_HANDSHAKE), "without a session's end there is no second authentication"


def test_the_raw_form_after_handshake_version_0() -> None:
    connection = Connection()
    assert connection.handshake("SCRAM-SHA-256", 0).error_code == 0
    client = ScramClient(SHA_256, "alice", "secret", lambda: "c")
    message = client.evaluate(b"")
    while message is not None:
        step = connection.authenticator.receive(memoryview(message))
        answer = io.BytesIO(b"".join(step.answer))
        size = int.from_bytes(answer.read(4), "big")
        message = client.evaluate(answer.read())
        assert answer.tell() == size + 4
    assert client.complete
    assert connection.authenticator.principal == "User:alice"
    failing = Connection()
    failing.handshake("PLAIN", 0)
    step = failing.authenticator.receive(memoryview(b"\0alice\0wrong"))
    assert (step.answer, step.failed, step.delay_ms) == ([], True, 123)


def test_whatever_a_handler_of_ones_own_raises_is_a_failed_login(caplog: pytest.LogCaptureFixture) -> None:
    """SystemExit would else end the thread that serves all connections."""
    caplog.set_level(logging.INFO)
    connection = Connection()
    connection.handshake("SCRAM-SHA-512")
    answer, step = connection.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=c"), 2)
    assert ErrorCode.of(answer.error_code) is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (step.failed, step.delay_ms, connection.authenticator.complete) == (True, 123, False)
    assert "the check of SCRAM-SHA-512 failed: SystemExit" in caplog.text
    assert "sesame" not in caplog.text + answer.error_message


def test_failures_are_answered_in_kafkas_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    connection = Connection()
    connection.handshake("PLAIN")
    answer, step = connection.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0sesame"), 2)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert (step.failed, step.delay_ms) == (True, 123)
    scram = Connection()
    scram.handshake("SCRAM-SHA-256")
    answer, step = scram.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=nobody,r=c"), 2)
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )
    assert step.failed
    unknown = Connection()
    answer, step = unknown.send(SaslHandshakeRequest(mechanism="GSSAPI\nfaked line"), 1)
    assert ErrorCode.of(answer.error_code) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == OFFERED
    assert step.failed
    assert "sesame" not in caplog.text
    assert not any("\n" in record.getMessage() for record in caplog.records)
    assert "Failed authentication with 127.0.0.1" in caplog.text
    long = Connection()
    long.authenticator.max_frame_bytes = 100_000
    long.send(SaslHandshakeRequest(mechanism="\n" * 30_000), 1)
    assert max(len(record.getMessage()) for record in caplog.records) < 1_500


REQUESTS: dict[ApiKey, Request] = {
    ApiKey.API_VERSIONS: ApiVersionsRequest(),
    ApiKey.SASL_HANDSHAKE: SaslHandshakeRequest(mechanism="PLAIN"),
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"),
    ApiKey.METADATA: MetadataRequest(),
}


def led_to(state: State) -> Connection:
    connection = Connection(PLAIN=1000)
    if state is State.HANDSHAKE:
        connection.send(ApiVersionsRequest(), 3)
    elif state is State.AUTHENTICATE:
        connection.handshake("PLAIN")
    elif state is State.OTHER_MECHANISM:
        connection.log_in()
        assert not connection.ask(ApiKey.SASL_HANDSHAKE)
        connection.handshake("SCRAM-SHA-256")
    assert connection.authenticator.state is state
    return connection


@pytest.mark.parametrize("state", [State.INITIAL, State.HANDSHAKE, State.AUTHENTICATE, State.OTHER_MECHANISM])
@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
def test_every_request_in_every_state(state: State, key: ApiKey) -> None:
    connection = led_to(state)
    taken = key in SaslAuthenticator.TABLE[state]
    try:
        answer, step = connection.send(REQUESTS[key], 1)
    except ProtocolError:
        assert key is ApiKey.API_VERSIONS
        assert state in (State.HANDSHAKE, State.OTHER_MECHANISM) or not taken
        return
    assert step.failed is not taken
    assert connection.authenticator.complete is (taken and key is ApiKey.SASL_AUTHENTICATE)
    if state is State.AUTHENTICATE and not taken and key is not ApiKey.METADATA:
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    elif not taken:
        assert answer is None


def test_versions_may_be_asked_again_after_an_error() -> None:
    connection = Connection()
    frame = RequestHeader(ApiKey.API_VERSIONS, 99, 5)
    step = connection.authenticator.receive(memoryview(b"\x00\x12\x00\x63\x00\x00\x00\x05\xff\xff"))
    answer = b"".join(step.answer)
    assert decode_response(RequestHeader(frame.api_key, 0, 5), answer[4:]).error_code == 35  # type: ignore[attr-defined]
    assert connection.send(ApiVersionsRequest(), 3)[0].error_code == 0
    with pytest.raises(ProtocolError):
        connection.send(ApiVersionsRequest(), 3)


@pytest.mark.parametrize("frame", [b"", b"\x60\x82", bytes(10), b"\x7f\xff" + bytes(20), bytes(LIMIT + 1)])
def test_garbage_before_authentication_ends_the_connection(frame: bytes) -> None:
    connection = Connection()
    with contextlib.suppress(ProtocolError):
        assert connection.authenticator.receive(memoryview(frame)).failed
    assert not connection.authenticator.complete


def test_a_version_of_a_sasl_request_that_does_not_exist() -> None:
    with pytest.raises(ProtocolError):
        Connection().authenticator.receive(memoryview(b"\x00\x11\x00\x09\x00\x00\x00\x05\xff\xff"))
    assert API[17].max_version < 9


class TestSessions:
    def test_the_lifetime_is_the_shorter_of_the_two(self) -> None:
        connection = Connection(PLAIN=5000, OAUTHBEARER=90_000)
        assert connection.log_in().session_lifetime_ms == 5000
        token = Connection(OAUTHBEARER=90_000)
        token.handshake("OAUTHBEARER")
        assert token.round(b"n,,\x01auth=Bearer carol\x01\x01").session_lifetime_ms == 60_000
        token = Connection(OAUTHBEARER=9_000)
        token.handshake("OAUTHBEARER")
        assert token.round(b"n,,\x01auth=Bearer carol\x01\x01").session_lifetime_ms == 9_000

    def test_an_expired_session_serves_nothing_but_a_handshake(self) -> None:
        connection = Connection(PLAIN=5000)
        connection.log_in()
        connection.clock.advance(5000)
        assert connection.ask(ApiKey.METADATA)
        connection.clock.advance(1)
        with pytest.raises(SessionExpired):
            connection.ask(ApiKey.METADATA)
        assert not connection.ask(ApiKey.SASL_HANDSHAKE)
        assert connection.log_in().session_lifetime_ms == 5000
        assert connection.ask(ApiKey.METADATA)

    def test_again_within_a_second_is_left_to_the_handler(self) -> None:
        connection = Connection(PLAIN=5000)
        connection.log_in()
        assert not connection.ask(ApiKey.SASL_HANDSHAKE)
        connection.log_in()
        connection.clock.advance(999)
        assert connection.ask(ApiKey.SASL_HANDSHAKE)
        connection.clock.advance(1)
        assert not connection.ask(ApiKey.SASL_HANDSHAKE)

    def test_another_principal_or_a_wrong_password_ends_it(self) -> None:
        for user, password, text in (
            ("bob", "other", "Cannot change principals during re-authentication from User.alice: User.bob"),
            ("alice", "wrong", "Authentication failed: Invalid username or password"),
        ):
            connection = Connection(PLAIN=5000)
            connection.log_in()
            connection.ask(ApiKey.SASL_HANDSHAKE)
            answer = connection.log_in(user, password)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message == text
            assert not connection.authenticator.complete
