"""SASL as it is on the wire: the same answers of both kinds of broker, in every state and to every kind of misuse."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from broker.dev.polling import wait_until
from network.client.connection import Connection, ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.message import Request
from network.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from network.protocol.messages.metadata import MetadataRequest
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from network.sasl.clients import client_mechanism
from network.sasl.scram_credential import BY_CODE, MECHANISMS, salted_password
from tests.support import wire
from tests.support.cluster import CLOCK, HOST, Broker, Cluster
from tests.support.sasl import LISTENER, USERS, logged_in, running_sasl_cluster, sasl_address, sasl_port

OFFERED = ["OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
SALT = b"0123456789abcdef"
SESSION_MS = 3_000
"""Of SCRAM-SHA-512."""


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    name = f"sasl-{request.param}"
    more = {f"listener.name.{LISTENER.lower()}.scram-sha-512.connections.max.reauth.ms": str(SESSION_MS)}
    with running_sasl_cluster([request.param], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}", **more) as cluster:
        yield cluster


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    return cluster.brokers[0]


def upsertion(user: str, password: str, mechanism: str = "SCRAM-SHA-256", iterations: int = 4096) -> Any:
    scram = MECHANISMS[mechanism]
    return ScramCredentialUpsertion(
        name=user,
        mechanism=scram.code,
        iterations=iterations,
        salt=SALT,
        salted_password=salted_password(scram, password, SALT, iterations),
    )


def deletion(user: str, mechanism: str = "SCRAM-SHA-256") -> Any:
    return ScramCredentialDeletion(name=user, mechanism=MECHANISMS[mechanism].code)


def alter(broker: Broker, *changes: Any) -> dict[str, tuple[ErrorCode, str]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    results = wire.call(broker, request, 0).results
    return {each.user: (ErrorCode.of(each.error_code), each.error_message) for each in results}


def described(broker: Broker, user: str) -> dict[str, int] | ErrorCode:
    asked = DescribeUserScramCredentialsRequest(users=[UserName(name=user)])
    (result,) = wire.call(broker, asked, 0).results
    if result.error_code:
        return ErrorCode.of(result.error_code)
    return {BY_CODE[info.mechanism].name: info.iterations for info in result.credential_infos}


def lets_in(broker: Broker, mechanism: str, user: str, password: str) -> bool:
    try:
        with logged_in(broker, mechanism, {"username": user, "password": password}) as connection:
            return bool(connection.call(MetadataRequest(topics=[]), 9).brokers)
    except ConnectionFailed as error:
        if "Authentication failed" not in str(error):
            raise
        return False


class Raw:
    """A connection to the SASL listener before anything is authenticated."""

    def __init__(self, broker: Broker) -> None:
        self.connection = Connection(HOST, sasl_port(broker), "raw", CLOCK)

    def call(self, request: Request, version: int) -> Any:
        """The answer; None if the broker closes the connection instead."""
        try:
            return self.connection.call(request, version)
        except ConnectionFailed:
            return None

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> tuple[ErrorCode, list[str]]:
        answer = self.call(SaslHandshakeRequest(mechanism=mechanism), version)
        return ErrorCode.of(answer.error_code), sorted(answer.mechanisms)

    def round(self, data: bytes, version: int = 2) -> tuple[ErrorCode, str | None, bytes]:
        answer = self.call(SaslAuthenticateRequest(auth_bytes=data), version)
        return ErrorCode.of(answer.error_code), answer.error_message, bytes(answer.auth_bytes)

    def is_closed(self) -> bool:
        return self.call(wire.ASK_VERSIONS, 3) is None


@pytest.fixture
def raw(broker: Broker) -> Iterator[Raw]:
    made = Raw(broker)
    yield made
    made.connection.close()


GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
DONE = (ErrorCode.NONE, "", b"")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login_by_hand(raw: Raw, version: int) -> None:
    assert raw.call(wire.ASK_VERSIONS, 3).error_code == 0
    assert raw.handshake() == (ErrorCode.NONE, OFFERED)
    code, message, said = raw.round(b"\0alice\0alice-secret", version)
    assert (code, message or "", said) == DONE
    assert raw.call(MetadataRequest(topics=[]), 9).brokers
    assert raw.handshake() == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert raw.round(b"x")[:2] == (
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )
    assert not raw.is_closed()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0alice-secret", "Authentication failed: Invalid username or password"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"garbage", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_that_fails(raw: Raw, data: bytes, text: str) -> None:
    raw.handshake()
    assert raw.round(data)[:2] == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert raw.is_closed()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"n,,n=nobody,r=nonce",
        b"n,,n=alice",
        b"y,,n=alice,r=nonce",
        b"c=biws,r=nonce,p=AAAA",
        "n,,n=älice,r=nonce".encode(),
        b"n,,n=a=b,r=nonce",
        b"n,,n=nobody,r=nonce,tokenauth=true",
    ],
)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scram_that_fails(raw: Raw, mechanism: str, data: bytes) -> None:
    raw.handshake(mechanism)
    assert raw.round(data)[:2] == (ErrorCode.SASL_AUTHENTICATION_FAILED, GENERIC + mechanism)
    assert raw.is_closed()


def test_a_mechanism_that_is_not_offered(raw: Raw) -> None:
    assert raw.handshake("GSSAPI") == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, OFFERED)
    assert raw.is_closed()


def test_the_raw_form(broker: Broker) -> None:
    for password, taken in ((b"alice-secret", True), (b"wrong", False)):
        raw = Raw(broker)
        assert raw.handshake(version=0) == (ErrorCode.NONE, OFFERED)
        sock: socket.socket = raw.connection._socket  # the mechanism's bytes have no request around them
        message = b"\0alice\0" + password
        sock.sendall(len(message).to_bytes(4, "big") + message)
        if taken:
            assert sock.recv(100) == bytes(4)
            assert raw.call(MetadataRequest(topics=[]), 9).brokers
        else:
            assert sock.recv(100) == b""
        raw.connection.close()


def test_requests_out_of_their_order(broker: Broker) -> None:
    metadata, authenticate = MetadataRequest(topics=[]), SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")
    for before in ([], [wire.ASK_VERSIONS]):
        for request in (metadata, authenticate):
            raw = Raw(broker)
            for each in before:
                assert raw.call(each, 3).error_code == 0
            assert raw.call(request, 1) is None
    twice = Raw(broker)
    assert twice.call(wire.ASK_VERSIONS, 3).error_code == 0
    assert twice.call(wire.ASK_VERSIONS, 3) is None
    late = Raw(broker)
    late.handshake()
    answer = late.call(wire.ASK_VERSIONS, 3)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert late.is_closed()
    again = Raw(broker)
    again.handshake()
    assert again.handshake()[0] is ErrorCode.ILLEGAL_SASL_STATE
    assert again.is_closed()
    during = Raw(broker)
    during.handshake()
    during.call(metadata, 9)
    assert during.is_closed()


@pytest.mark.parametrize("size", [524_289, 2_147_483_647, -1])
def test_oversized_frames_before_authentication(raw: Raw, size: int) -> None:
    raw.connection._socket.sendall(size.to_bytes(4, "big", signed=True) + b"x" * 100)
    assert raw.is_closed()


@pytest.mark.parametrize("frame", [b"\x60\x82\x01\x02", b"GET / HTTP/1.1\r\n\r\n", bytes(30), b"\x16\x03\x01\x02\x00"])
def test_garbage_before_authentication(raw: Raw, frame: bytes) -> None:
    raw.connection._socket.sendall(len(frame).to_bytes(4, "big") + frame)
    assert raw.is_closed()


def token(claims: dict[str, Any], algorithm: str = "none", signature: str = "") -> bytes:
    parts = (json.dumps(each).encode() for each in ({"alg": algorithm}, claims))
    text = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "." + signature
    return f"n,,\x01auth=Bearer {text}\x01\x01".encode()


def test_tokens(broker: Broker) -> None:
    now = CLOCK.wall_ms() // 1000
    good = {"sub": "carol", "iat": now, "exp": now + 100}
    raw = Raw(broker)
    raw.handshake("OAUTHBEARER")
    answer = raw.call(SaslAuthenticateRequest(auth_bytes=token(good)), 2)
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
    assert 90_000 < answer.session_lifetime_ms <= 100_000
    for bad in (
        token({**good, "exp": now - 1, "iat": now - 10}),
        token({**good, "iat": now + 50}),
        token({"sub": "carol"}),
        token({"exp": now + 100}),
        token(good, "HS256", "c2ln"),
        token(good, "none", "c2ln"),
    ):
        raw = Raw(broker)
        raw.handshake("OAUTHBEARER")
        assert raw.round(bad) == (ErrorCode.NONE, "", b'{"status":"invalid_token"}')
        code, text, _ = raw.round(b"\x01")
        assert (code, text) == (ErrorCode.SASL_AUTHENTICATION_FAILED, '{"status":"invalid_token"}')
        assert raw.is_closed()
    for garbage in (b"", b"n,,\x01\x01"):
        raw = Raw(broker)
        raw.handshake("OAUTHBEARER")
        assert raw.round(garbage)[:2] == (ErrorCode.SASL_AUTHENTICATION_FAILED, GENERIC + "OAUTHBEARER")


@pytest.mark.parametrize("user", USERS)
def test_users_of_plain(broker: Broker, user: str) -> None:
    assert lets_in(broker, "PLAIN", user, USERS[user])
    assert not lets_in(broker, "PLAIN", user, USERS[user] + "x")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["dave", "d,a=v e'\"", "~*%+/"])
def test_a_user_is_made_changed_and_deleted(broker: Broker, mechanism: str, user: str) -> None:
    other = next(name for name in MECHANISMS if name != mechanism)
    assert alter(broker, upsertion(user, "first", mechanism, 8192)) == {user: (ErrorCode.NONE, "")}
    assert described(broker, user) == {mechanism: 8192}
    assert wait_until(lambda: lets_in(broker, mechanism, user, "first"), CLOCK, 5_000)
    assert not lets_in(broker, other, user, "first")
    assert alter(broker, upsertion(user, "second ü", mechanism)) == {user: (ErrorCode.NONE, "")}
    assert wait_until(lambda: lets_in(broker, mechanism, user, "second ü"), CLOCK, 5_000)
    assert not lets_in(broker, mechanism, user, "first")
    assert alter(broker, deletion(user, mechanism)) == {user: (ErrorCode.NONE, "")}
    assert described(broker, user) is ErrorCode.RESOURCE_NOT_FOUND
    assert wait_until(lambda: not lets_in(broker, mechanism, user, "second ü"), CLOCK, 5_000)


def test_a_user_whom_a_scram_message_cannot_name(broker: Broker) -> None:
    """Letters beyond ASCII: the user is made, shown and deleted, and nobody logs in by that name. PLAIN takes it."""
    user = "jürgen"
    assert alter(broker, upsertion(user, "x"), upsertion("behind", "x")) == {
        user: (ErrorCode.NONE, ""), "behind": (ErrorCode.NONE, "")
    }  # fmt: skip
    assert described(broker, user) == {"SCRAM-SHA-256": 4096}
    assert wait_until(lambda: lets_in(broker, "SCRAM-SHA-256", "behind", "x"), CLOCK, 5_000)
    assert not lets_in(broker, "SCRAM-SHA-256", user, "x")
    assert set(alter(broker, deletion(user), deletion("behind")).values()) == {(ErrorCode.NONE, "")}


def test_passwords_are_taken_as_they_are(broker: Broker) -> None:
    """No SASLprep: what RFC 4013 makes one password of are several. Another client agrees with ours."""
    first, others = "pä\u00a0ﬁ\u00ad", ("pä ﬁ\u00ad", "pä\u00a0fi\u00ad", "pä\u00a0ﬁ", "pa\u0308\u00a0ﬁ\u00ad")
    assert alter(broker, upsertion("prepared", first)) == {"prepared": (ErrorCode.NONE, "")}
    assert wait_until(lambda: lets_in(broker, "SCRAM-SHA-256", "prepared", first), CLOCK, 5_000)
    for other in others:
        assert not lets_in(broker, "SCRAM-SHA-256", "prepared", other)
    client = AdminClient(
        {
            "bootstrap.servers": sasl_address(broker),
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "prepared",
            "sasl.password": first,
        }
    )
    assert client.list_topics(timeout=20).brokers
    alter(broker, deletion("prepared"))


def test_changes_that_are_refused(broker: Broker) -> None:
    unknown = ScramCredentialUpsertion(name="u", mechanism=9, iterations=4096, salt=SALT, salted_password=SALT)
    unknown_deletion = ScramCredentialDeletion(name="d", mechanism=0)
    assert alter(
        broker,
        upsertion("", "x"),
        unknown,
        unknown_deletion,
        upsertion("few", "x", iterations=4095),
        upsertion("many", "x", iterations=16385),
        upsertion("twice", "x"),
        upsertion("twice", "y"),
        deletion("both"),
        upsertion("both", "y"),
        deletion("missing"),
        upsertion("half", "x"),
        deletion("half", "SCRAM-SHA-512"),
        upsertion("good", "x"),
    ) == {
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "u": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "d": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "twice": (
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        "both": (
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        "missing": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
        "half": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
        "good": (ErrorCode.NONE, ""),
    }
    assert described(broker, "half") is ErrorCode.RESOURCE_NOT_FOUND
    assert alter(broker, deletion("good")) == {"good": (ErrorCode.NONE, "")}


def test_a_replayed_exchange_is_refused(broker: Broker) -> None:
    alter(broker, upsertion("replay", "secret"))
    assert wait_until(lambda: lets_in(broker, "SCRAM-SHA-256", "replay", "secret"), CLOCK, 5_000)
    client = client_mechanism("SCRAM-SHA-256", {"username": "replay", "password": "secret"}, CLOCK)(HOST)
    raw = Raw(broker)
    raw.handshake("SCRAM-SHA-256")
    said: list[bytes] = []
    message = client.evaluate(b"")
    while message is not None:
        said.append(message)
        code, _, challenge = raw.round(message)
        assert code is ErrorCode.NONE
        message = client.evaluate(challenge)
    again = Raw(broker)
    again.handshake("SCRAM-SHA-256")
    assert again.round(said[0])[0] is ErrorCode.NONE
    assert again.round(said[1])[:2] == (ErrorCode.SASL_AUTHENTICATION_FAILED, GENERIC + "SCRAM-SHA-256")
    assert again.is_closed()


def exchange(raw: Raw, user: str, secret: str) -> Any:
    """Log in, or log in again, by SCRAM-SHA-512; the last answer."""
    assert raw.handshake("SCRAM-SHA-512")[0] is ErrorCode.NONE
    client = client_mechanism("SCRAM-SHA-512", {"username": user, "password": secret}, CLOCK)(HOST)
    message = client.evaluate(b"")
    while True:
        answer = raw.call(SaslAuthenticateRequest(auth_bytes=message or b""), 2)
        message = client.evaluate(bytes(answer.auth_bytes)) if answer.error_code == 0 else None
        if message is None:
            return answer


@pytest.fixture
def session(raw: Raw, broker: Broker) -> Raw:
    """A connection whose session ends."""
    for user in ("mallory", "trent"):
        alter(broker, upsertion(user, "secret", "SCRAM-SHA-512"))
        assert wait_until(lambda name=user: lets_in(broker, "SCRAM-SHA-512", name, "secret"), CLOCK, 5_000)  # type: ignore[misc]
    answer = exchange(raw, "mallory", "secret")
    assert (answer.error_code, answer.session_lifetime_ms) == (0, SESSION_MS)
    return raw


def test_a_session_goes_on_by_authenticating_again(session: Raw) -> None:
    assert exchange(session, "mallory", "secret").session_lifetime_ms == SESSION_MS
    assert session.handshake("SCRAM-SHA-512") == (ErrorCode.ILLEGAL_SASL_STATE, []), "again within a second"
    assert not session.is_closed()
    pause = threading.Event()
    pause.wait(1.1)
    assert exchange(session, "mallory", "secret").session_lifetime_ms == SESSION_MS
    began = CLOCK.monotonic_ms()
    assert wait_until(session.is_closed, CLOCK, 3 * SESSION_MS)
    assert CLOCK.monotonic_ms() - began > SESSION_MS // 2


def test_nobody_becomes_somebody_else(session: Raw) -> None:
    answer = exchange(session, "trent", "secret")
    assert ErrorCode.of(answer.error_code) is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == ("Cannot change principals during re-authentication from User.mallory: User.trent")
    assert session.is_closed()


def test_a_wrong_password_ends_the_session(session: Raw) -> None:
    answer = exchange(session, "mallory", "wrong")
    assert (
        answer.error_message == GENERIC.replace("during authentication", "during re-authentication") + "SCRAM-SHA-512"
    )
    assert session.is_closed()


def test_nobody_goes_on_by_another_mechanism(session: Raw) -> None:
    assert session.handshake("PLAIN")[0] is ErrorCode.NONE
    assert session.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2) is None


def test_a_password_tried_many_times_troubles_nobody_else(broker: Broker) -> None:
    with logged_in(broker, "PLAIN", {"username": "alice", "password": "alice-secret"}) as bystander:
        guesses = [Raw(broker) for _ in range(100)]
        for guess in guesses:
            assert guess.handshake()[0] is ErrorCode.NONE
        for guess in guesses:
            guess.connection.send_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess"), 2)
        for _ in range(20):
            assert bystander.call(MetadataRequest(topics=[]), 9).brokers
        for guess in guesses:
            answer: Any = guess.connection.receive_response()
            assert ErrorCode.of(answer.error_code) is ErrorCode.SASL_AUTHENTICATION_FAILED
            assert guess.is_closed()
        assert bystander.call(MetadataRequest(topics=[]), 9).brokers


def test_no_secret_is_shown(broker: Broker) -> None:
    """The last test of this file: everything above has been tried on this broker."""
    resource = DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=None)
    answer = wire.call(broker, DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
    assert answer.results[0].configs
    assert "-secret" not in repr(answer)
    assert "a secret of all brokers" not in repr(answer)
    log = broker.log_file.read_text(errors="replace")
    if broker.kind == "odradek":
        assert "Failed authentication with 127.0.0.1" in log
    for secret in ("alice-secret", "admin-secret", "a secret of all brokers", "stored_key"):
        assert secret not in log
