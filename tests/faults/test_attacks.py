"""Attacks from the network on one broker: nobody is let in, a bystander is served meanwhile, and memory stays bounded.

What was seen is printed (`pytest -s`) and kept as properties of the tests. The bounds are generous: they tell an effect
from none, not a slow machine from a fast one.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from network.client.connection import ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.header import RequestHeader, encode_request
from network.protocol.messages.create_acls import CreateAclsRequest
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.describe_acls import DescribeAclsRequest
from network.protocol.messages.init_producer_id import InitProducerIdRequest
from network.protocol.messages.list_groups import ListGroupsRequest
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.contract.test_acls import create, creation, filter_of
from tests.support import wire
from tests.support.bystander import Seen, resident_mb, watching
from tests.support.cluster import CLOCK, HOST
from tests.support.guarded import ADMIN, MUTUAL, OPEN, SECURE, Guarded, bearer, running_guarded, seen_topics

GUESSES, GUESSING_MS, WAVE = 10_000, 20_000, 250
LONGEST_MS = 10_000
"""For a bystander, whatever happens and however busy the machine is."""
MOST_MB = 150
TOPIC = "bystanders"
HALF = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)
"""The beginning of a ClientHello."""


@pytest.fixture(scope="module")
def guarded(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    # Who attacks does not wait until the system sends a SYN once more, as with Kafka's backlog of 50.
    more = {"socket.listen.backlog.size": "1000"}
    with running_guarded(["odradek"], tmp_path_factory.mktemp("attacks"), f"{zookeeper}/attacks", **more) as made:
        wire.create_topic(made.cluster, TOPIC)
        yield made


@dataclass
class Attack:
    """What is measured around one."""

    guarded: Guarded
    record: Callable[[str, object], None]
    name: str

    @contextlib.contextmanager
    def measured(self) -> Iterator[Seen]:
        broker = self.guarded.broker
        before, began = resident_mb(broker), CLOCK.monotonic_ms()
        properties = self.guarded.properties("PLAIN", ADMIN)
        with watching(self.guarded.ports[0][SECURE], properties, TOPIC) as seen:
            yield seen
            during = resident_mb(broker)
        text = f"{before:.0f} MB, then {during:.0f} MB in {(CLOCK.monotonic_ms() - began) / 1000:.1f} s; {seen}"
        self.note(text)
        assert during - before < MOST_MB
        assert seen.longest < LONGEST_MS
        assert broker.process is not None
        assert broker.process.is_running

    def note(self, text: str) -> None:
        self.record(self.name, text)
        print(f"\n{self.name}: {text}")

    def connect(self, listener: str) -> socket.socket:
        return socket.create_connection((HOST, self.guarded.ports[0][listener]), 30)


@pytest.fixture
def attack(guarded: Guarded, record_property: Callable[[str, object], None], request: pytest.FixtureRequest) -> Attack:
    return Attack(guarded, record_property, request.node.name.removeprefix("test_"))


def is_over(sock: socket.socket) -> bool:
    """Whether the broker closes it, whatever it says before."""
    with contextlib.suppress(OSError):
        while sock.recv(65536):
            pass
    return True


def test_nobody_attacks(attack: Attack) -> None:
    """What the bystander sees without one, to compare with."""
    with attack.measured():
        wire.pause(5)


# -- passwords -------------------------------------------------------------------------------------------------------


def guess(number: int) -> bytes:
    """Two requests at once: nobody who guesses waits for the answer to the first."""
    handshake = encode_request(RequestHeader(17, 1, 0, "guess"), SaslHandshakeRequest(mechanism="PLAIN"))
    data = b"\0admin\0guess-%d" % number
    return handshake + encode_request(RequestHeader(36, 2, 1, "guess"), SaslAuthenticateRequest(auth_bytes=data))


def answers(sockets: list[socket.socket]) -> list[bytes]:
    """All that comes by each until it is closed, from all at the same time."""
    said = dict.fromkeys(sockets, b"")
    with selectors.DefaultSelector() as selector:
        for sock in sockets:
            selector.register(sock, selectors.EVENT_READ)
        left = len(sockets)
        while left:
            ready = selector.select(30)
            assert ready, f"{left} guesses are neither answered nor refused"
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                with contextlib.suppress(ConnectionResetError):
                    data = key.fileobj.recv(4096)
                    if data:
                        said[key.fileobj] += data
                        continue
                selector.unregister(key.fileobj)
                left -= 1
    return list(said.values())


def test_a_password_tried_ten_thousand_times(attack: Attack) -> None:
    tried, until = 0, CLOCK.monotonic_ms() + GUESSING_MS
    with attack.measured():
        while tried < GUESSES and CLOCK.monotonic_ms() < until:
            with contextlib.ExitStack() as opened:
                sockets = [opened.enter_context(attack.connect(OPEN)) for _ in range(WAVE)]
                for sock in sockets:
                    sock.sendall(guess(tried))
                    tried += 1
                for said in answers(sockets):
                    # The handshake's answer, then: error 58, SASL_AUTHENTICATION_FAILED.
                    size = int.from_bytes(said[:4], "big")
                    assert said[4 + size + 9 : 4 + size + 11] == b"\0\x3a", said
    attack.note(f"{tried} guesses")
    assert tried >= WAVE


# -- TLS -------------------------------------------------------------------------------------------------------------


def client_hello(attack: Attack) -> bytes:
    """A whole one, by OpenSSL."""
    context = ssl.create_default_context(cadata=attack.guarded.authority.pem)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


def test_a_thousand_handshakes_that_stop_half_way(attack: Attack) -> None:
    """One half after a piece of the first message, the other after the broker has answered a whole one."""
    hello = client_hello(attack)
    with attack.measured(), contextlib.ExitStack() as opened:
        for number in range(1000):
            sock = opened.enter_context(attack.connect(SECURE if number % 4 < 2 else MUTUAL))
            sock.sendall(HALF if number % 2 else hello)
        wire.pause(1)


def test_garbage_instead_of_tls_and_within_it(attack: Attack) -> None:
    context = ssl.create_default_context(cadata=attack.guarded.authority.pem)
    with attack.measured():
        for number in range(300):
            with attack.connect(SECURE) as sock:
                sock.sendall(os.urandom(1 + number * 7))
                sock.shutdown(socket.SHUT_WR)
                assert is_over(sock)
        for number in range(100):
            with attack.connect(SECURE) as sock:
                tls = context.wrap_socket(sock, server_hostname="localhost", do_handshake_on_connect=True)
                raw = socket.socket(fileno=tls.detach())
                with raw:  # past OpenSSL
                    raw.sendall(b"\x17\x03\x03" + (300).to_bytes(2, "big") + os.urandom(300 + number))
                    assert is_over(raw)


def test_a_renegotiation_is_refused(attack: Attack) -> None:
    command = ["openssl", "s_client", "-connect", attack.guarded.address(), "-tls1_2"]
    with attack.measured():
        done = subprocess.run(command, input=b"R\n" * 20, capture_output=True, timeout=60, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert "RENEGOTIATING" in said
    assert "no renegotiation" in said or "no_renegotiation" in said, said[-2000:]


# -- frames ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2**31 - 1, 524_289, -(2**31)])
def test_frames_that_are_too_large_before_authentication(attack: Attack, size: int) -> None:
    context = ssl.create_default_context(cadata=attack.guarded.authority.pem)
    data = size.to_bytes(4, "big", signed=True) + b"x" * 60
    with attack.measured():
        for _ in range(300):
            with attack.connect(OPEN) as sock:
                sock.sendall(data)
                assert is_over(sock)
        for _ in range(50):
            with attack.connect(SECURE) as sock, context.wrap_socket(sock, server_hostname="localhost") as tls:
                tls.sendall(data)
                assert is_over(tls)


def test_the_largest_frames_that_may_be_and_never_come(attack: Attack) -> None:
    """A thousand of 512 KB: they cost what has come of them."""
    with attack.measured() as _, contextlib.ExitStack() as opened:
        for _ in range(1000):
            opened.enter_context(attack.connect(OPEN)).sendall((524_288).to_bytes(4, "big") + b"x" * 60)
        wire.pause(1)


# -- ACLs ------------------------------------------------------------------------------------------------------------

PATTERNS, USERS_EACH, AT_ONCE = 2_500, 4, 250


def test_ten_thousand_acls_on_a_live_broker(attack: Attack) -> None:
    """A change is in force as soon afterwards as it is without them."""
    guarded = attack.guarded
    creations = [
        creation(f"many-{number}", f"User:u{number % 50}-{user}")
        for number in range(PATTERNS)
        for user in range(USERS_EACH)
    ]
    with attack.measured(), wire.connected(guarded.broker) as connection:
        for at in range(0, len(creations), AT_ONCE * USERS_EACH):
            request = CreateAclsRequest(creations=creations[at : at + AT_ONCE * USERS_EACH])
            results = connection.call(request, 3, 120_000).results
            assert {result.error_code for result in results} == {0}
        described = connection.call(filter_of(DescribeAclsRequest, {"name": None}), 3, 60_000)
        assert sum(len(resource.acls) for resource in described.resources) == len(creations)
    with guarded.log_in("OAUTHBEARER", bearer("grace")) as client:
        assert seen_topics(client) == set()
        began = CLOCK.monotonic_ms()
        assert create(guarded.cluster, creation(TOPIC, "User:grace", operation=8))[0][0] == "NONE"
        while not seen_topics(client):
            assert CLOCK.monotonic_ms() - began < LONGEST_MS
        attack.note(f"one more is in force after {CLOCK.monotonic_ms() - began:.0f} ms")


# -- an authorizer of one's own --------------------------------------------------------------------------------------


def test_an_authorizer_that_raises_lets_nobody_in_and_ends_no_thread(
    zookeeper: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    more = {"authorizer.class.name": "tests.support.raising_authorizer:Raises", "num.io.threads": "3"}
    with running_guarded(["odradek"], tmp_path, f"{zookeeper}/raising", **more) as guarded:
        wire.create_topic(guarded.cluster, TOPIC)
        topics = [CreatableTopic(name="new", num_partitions=1, replication_factor=1)]
        with guarded.log_in("PLAIN", ADMIN) as connection:  # super users are AclAuthorizer's alone
            for _ in range(20):
                assert seen_topics(connection) == set()
                answer = connection.call(wire.produce_request(TOPIC, wire.batch([b"x"])), wire.PRODUCE_VERSION)
                code = answer.responses[0].partition_responses[0].error_code
                assert ErrorCode.of(code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                fetched = connection.call(wire.fetch_request(TOPIC, 0), wire.FETCH_VERSION)
                code = fetched.responses[0].partitions[0].error_code
                assert ErrorCode.of(code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                (made,) = connection.call(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7).topics
                assert ErrorCode.of(made.error_code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                told = connection.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
                assert ErrorCode.of(told.error_code) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                assert connection.call(ListGroupsRequest(), 4).groups == []
        assert wire.produce(guarded.broker, TOPIC, wire.batch([b"x"])).base_offset == 0, "nothing was written before"
        size = guarded.broker.log_file.stat().st_size
        print(f"\nthe log of a broker whose authorizer raised at 120 requests: {size // 1024} KB")
        record_property("log", size)
        with pytest.raises(ConnectionFailed):
            guarded.log_in("PLAIN", {**ADMIN, "password": "wrong"})
