"""Attacks by what is said, not by how much: logins out of their order, replayed, downgraded, by bad tokens; names that
are paths, patterns or lines of a log. Nobody is let in, nothing is made elsewhere, a bystander is served meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from broker.dev.polling import wait_until
from network.client.connection import Connection, ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.header import RequestHeader, encode_request
from network.protocol.message import Request
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from network.sasl.clients import client_mechanism
from tests.contract.test_acls import create, creation
from tests.contract.test_quotas import alter as alter_quota
from tests.contract.test_sasl_signed_tokens import BAD, GOOD, HANDLER, jwks
from tests.faults.test_attacks import TOPIC, Attack
from tests.support import wire
from tests.support.cluster import CLOCK, HOST
from tests.support.guarded import ADMIN, OPEN, SECURE, Guarded, bearer, running_guarded, scram, seen_topics
from tests.support.rules_in_force import SCRAM, set_users

TIMES = 20
USER, PASSWORD = "erin", "erin's"


@pytest.fixture(scope="module")
def guarded(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """On OPEN tokens must be signed."""
    directory = tmp_path_factory.mktemp("logins")
    more = {
        f"listener.name.{OPEN.lower()}.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "sasl.oauthbearer.jwks.endpoint.url": jwks(directory).as_uri(),
        "sasl.oauthbearer.expected.audience": "mail,kafka",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "connection.failed.authentication.delay.ms": "20",
    }
    with running_guarded(["odradek"], directory, f"{zookeeper}/logins", **more) as made:
        wire.create_topic(made.cluster, TOPIC)
        yield made


@pytest.fixture
def attack(guarded: Guarded, record_property: Callable[[str, object], None], request: pytest.FixtureRequest) -> Attack:
    return Attack(guarded, record_property, request.node.name.removeprefix("test_"))


def said_to(attack: Attack, *requests: tuple[Request, int], listener: str = OPEN) -> list[bytes]:
    """All of them are sent at once; the answers until the broker closes the connection, which it has to."""
    said = b""
    with attack.connect(listener) as sock:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for number, (request, version) in enumerate(requests):
                sock.sendall(encode_request(RequestHeader(request.API_KEY, version, number, "attack"), request))
        with contextlib.suppress(ConnectionResetError):
            while data := sock.recv(65536):
                said += data
    answers = []
    while said:
        size = int.from_bytes(said[:4], "big")
        answers.append(said[4 : 4 + size])
        said = said[4 + size :]
    return answers


HANDSHAKE = SaslHandshakeRequest(mechanism="PLAIN"), 1
GUESS = SaslAuthenticateRequest(auth_bytes=b"\0admin\0a guess"), 1
EMPTY = SaslAuthenticateRequest(auth_bytes=b""), 1
METADATA = MetadataRequest(topics=[]), 8
VERSIONS = wire.ASK_VERSIONS, 3
WRITE = wire.produce_request(TOPIC, wire.batch([b"by nobody"])), 7
# Requests that are sent together, and how many of them are answered.
ORDERS: dict[str, tuple[list[tuple[Request, int]], int]] = {
    "no SASL at all": ([METADATA], 0),
    "no SASL after the versions": ([VERSIONS, METADATA], 1),
    "records without SASL": ([VERSIONS, WRITE], 1),
    "no handshake": ([GUESS], 0),
    "versions twice": ([VERSIONS, VERSIONS], 1),
    "handshake, then no SASL": ([HANDSHAKE, METADATA], 2),
    "handshake twice": ([HANDSHAKE, HANDSHAKE], 2),
    "records behind a guess": ([HANDSHAKE, GUESS, WRITE], 2),
    "a guess behind a guess": ([HANDSHAKE, GUESS, GUESS], 2),
    "nothing said": ([HANDSHAKE, EMPTY, METADATA], 2),
    "another mechanism": ([(SaslHandshakeRequest(mechanism="ANONYMOUS"), 1), METADATA], 1),
    "a mechanism with a line": ([(SaslHandshakeRequest(mechanism="PLAIN\n[x] INFO forged"), 1), METADATA], 1),
}


def test_messages_out_of_their_order_and_downgrades(attack: Attack, guarded: Guarded) -> None:
    with attack.measured():
        for name, (requests, answered) in ORDERS.items():
            for _ in range(TIMES):
                answers = said_to(attack, *requests)
                assert len(answers) <= answered, name
        # A listener of TLS and SASL is none without TLS either.
        for _ in range(TIMES):
            answers = said_to(attack, *ORDERS["a guess behind a guess"][0], listener=SECURE)
            assert sum(map(len, answers)) < 8, "no more than an alert of TLS"
    records = wire.records_of(wire.fetch(guarded.broker, TOPIC, 0))
    assert all(record.value != b"by nobody" for record in records)
    assert "\n[x] INFO forged" not in guarded.broker.log_file.read_text()


def test_replayed_scram(attack: Attack, guarded: Guarded) -> None:
    """What was said in one login is said in others, that of another broker's nonce among them."""
    set_users(guarded.cluster, made={USER: PASSWORD})
    options = scram(USER, PASSWORD)

    def entered() -> bool:
        try:
            guarded.log_in(SCRAM, options).close()
            return True
        except ConnectionFailed:
            return False

    assert wait_until(entered, CLOCK, 10_000)
    first, last = recorded(guarded)
    with attack.measured():
        for _ in range(TIMES):
            with Connection(HOST, guarded.ports[0][OPEN], "replay", CLOCK) as connection:
                connection.call(SaslHandshakeRequest(mechanism=SCRAM), 1)
                assert connection.call(SaslAuthenticateRequest(auth_bytes=first), 2).error_code == 0
                answer = connection.call(SaslAuthenticateRequest(auth_bytes=last), 2)
                assert ErrorCode.of(answer.error_code) is ErrorCode.SASL_AUTHENTICATION_FAILED
            with Connection(HOST, guarded.ports[0][OPEN], "replay", CLOCK) as connection:
                connection.call(SaslHandshakeRequest(mechanism=SCRAM), 1)
                answer = connection.call(SaslAuthenticateRequest(auth_bytes=last), 2)
                assert ErrorCode.of(answer.error_code) is ErrorCode.SASL_AUTHENTICATION_FAILED


def recorded(guarded: Guarded) -> tuple[bytes, bytes]:
    """Both messages of a login that was good."""
    client = client_mechanism(SCRAM, scram(USER, PASSWORD), CLOCK)(HOST)
    first = client.evaluate(b"")
    with Connection(HOST, guarded.ports[0][OPEN], "recorded", CLOCK) as connection:
        connection.call(SaslHandshakeRequest(mechanism=SCRAM), 1)
        challenge = connection.call(SaslAuthenticateRequest(auth_bytes=first or b""), 2)
        last = client.evaluate(bytes(challenge.auth_bytes))
        assert connection.call(SaslAuthenticateRequest(auth_bytes=last or b""), 2).error_code == 0
    assert first
    assert last
    return first, last


def test_tokens_that_are_none(attack: Attack, guarded: Guarded) -> None:
    """Expired, unsigned, of `alg: none`, for somebody else ...: tests/contract says that Kafka refuses each too."""

    def code_of(token: str) -> ErrorCode:
        with Connection(HOST, guarded.ports[0][OPEN], "token", CLOCK) as connection:
            connection.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
            first = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
            answer = connection.call(SaslAuthenticateRequest(auth_bytes=first), 2)
            if answer.auth_bytes:
                answer = connection.call(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
            return ErrorCode.of(answer.error_code)

    more = {"huge": "e30." * 100_000, "deep": "e" * 300_000 + ".", "nothing": ".", "a line": "a\n[x] INFO forged.b.c"}
    with attack.measured():
        for _ in range(5):
            for name, token in {**BAD, **more}.items():
                assert code_of(token) is ErrorCode.SASL_AUTHENTICATION_FAILED, name
    assert code_of(next(iter(GOOD.values()))) is ErrorCode.NONE
    assert "\n[x] INFO forged" not in guarded.broker.log_file.read_text()


# -- names -----------------------------------------------------------------------------------------------------------

PATHS = [
    "..", ".", "../up", "a/b", "/etc/passwd", "a\\b", "C:\\x", "%2e%2e%2fup", "a\0b", "a\nb", "a*", "*", "a b", "ü",
    "x" * 250, "", "con:", "../../../../tmp/odradek-was-here",
]  # fmt: skip


def test_names_that_are_paths_patterns_or_lines(attack: Attack, guarded: Guarded) -> None:
    """Of topics, groups, users, client ids, and of what ACLs and quotas are for; by a super user, who may try all."""
    broker, cluster = guarded.broker, guarded.cluster
    before = {path.name for path in broker.data.iterdir()}
    with attack.measured(), guarded.log_in("PLAIN", ADMIN) as connection:
        for name in PATHS:
            topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
            (made,) = connection.call(CreateTopicsRequest(topics=topics, timeout_ms=5_000), 7).topics
            assert ErrorCode.of(made.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION, name
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
            (found,) = connection.call(asked, 9).topics
            assert ErrorCode.of(found.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION, name
            answer = connection.call(wire.produce_request(name, wire.batch([b"x"])), wire.PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code != 0, name
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=name)
            commit = OffsetCommitRequest(
                group_id=name or "g", topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
            )
            with cluster.client() as client:
                client.call_coordinator(name or "g", 0, commit)
            alter_quota(broker, [("user", name or "u"), ("client-id", name or "c")], producer_byte_rate=1e9)
            create(cluster, creation(f"n{name}", f"User:{name}"))
            with guarded.log_in("OAUTHBEARER", bearer(name or "s"), client_id=name) as stranger:
                assert TOPIC not in seen_topics(stranger), name
        assert seen_topics(connection) >= {TOPIC}
    after = {path.name for path in broker.data.iterdir()}
    assert {name.rpartition("-")[0] for name in after - before} <= {"__consumer_offsets"}, after - before
    written = broker.log_file.read_text()
    assert "\nb" not in written, "no name begins a line of the log"
