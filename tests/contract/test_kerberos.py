"""SASL GSSAPI against a realm of the test's own: the same answers of both kinds of broker, and real clients."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from broker.cli.main import odradek
from broker.config.kafka_config import KafkaConfig
from broker.dev.polling import wait_until
from broker.dev.processes import free_ports, is_listening
from broker.security.sasl.peer_logins import PeerLogins
from network.client.connection import Connection, ConnectionFailed
from network.protocol.api import ApiKey
from network.protocol.errors import ErrorCode
from network.protocol.header import RequestHeader, decode_response, encode_request
from network.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from network.protocol.messages.metadata import MetadataRequest
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from network.sasl.gssapi_exchange import GssapiClient
from network.sasl.kerberos import Initiator, KerberosLogin
from network.sasl.mechanism import ClientMechanism
from tests.reference import kafka
from tests.support.cluster import CLOCK, HOST, Broker, Cluster
from tests.support.configs import set_broker_config
from tests.support.kdc import REALM, Kdc, running_kdc
from tests.support.sasl import LISTENER, jaas, running_sasl_cluster, sasl_port

SERVICE = "kafka"
NAME = "localhost"
"""Of the host. Java's clients ask for the name of an address before they ask for a ticket."""
SESSION_MS = 3_000
RULES = r"RULE:[2:$1-$2@$0](.*-admin@.*)s/-admin.*//,RULE:[1:$1],RULE:[2:$1](kafka)"
REFUSED = (
    "SASL_AUTHENTICATION_FAILED",
    "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI",
    b"",
)
CLOSED = ("CLOSED", None, b"")


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def users(kdc: Kdc) -> dict[str, Path]:
    """Key tables by principal."""
    return {name: kdc.keytab(name) for name in ("alice", "bob/admin", "carol/nobody")}


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def cluster(
    request: pytest.FixtureRequest, kdc: Kdc, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    name = f"kerberos-{request.param}"
    keytab = kdc.keytab(f"{SERVICE}/{NAME}", f"other/{NAME}")
    prefix = f"listener.name.{LISTENER.lower()}"
    more = {
        "sasl.enabled.mechanisms": "GSSAPI,PLAIN",
        f"{prefix}.gssapi.sasl.jaas.config": krb5(f"{SERVICE}/{NAME}", keytab),
        f"{prefix}.gssapi.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.added.gssapi.sasl.jaas.config": krb5(f"{SERVICE}/{NAME}", keytab),
        "listener.name.added.plain.sasl.jaas.config": jaas("PLAIN"),
        "sasl.kerberos.service.name": SERVICE,
        "sasl.kerberos.principal.to.local.rules": RULES,
    }
    with running_sasl_cluster(
        [request.param],
        tmp_path_factory.mktemp(name),
        f"{zookeeper}/{name}",
        java_options=kdc.java_option,
        advertised=NAME,
        **more,
    ) as cluster:
        yield cluster


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    return cluster.brokers[0]


def address(broker: Broker) -> str:
    return f"{NAME}:{sasl_port(broker)}"


def options(principal: str, keytab: Path) -> dict[str, str]:
    return {"useKeyTab": "true", "storeKey": "true", "keyTab": str(keytab), "principal": f"{principal}@{REALM}"}


def krb5(principal: str, keytab: Path) -> str:
    return jaas("GSSAPI", **options(principal, keytab))


def initiator(users: Mapping[str, Path], principal: str = "alice", service: str = SERVICE) -> Initiator:
    return KerberosLogin(options(principal, users[principal])).initiator(service, NAME)


class Raw:
    """A connection to the SASL listener before anything is authenticated."""

    def __init__(self, broker: Broker, port: int | None = None) -> None:
        self.connection = Connection(HOST, port or sasl_port(broker), "raw", CLOCK)
        self.lifetime_ms = 0

    def handshake(self, version: int = 1) -> Raw:
        answer = self.connection.call(SaslHandshakeRequest(mechanism="GSSAPI"), version)
        assert (ErrorCode.of(answer.error_code), sorted(answer.mechanisms)) == (ErrorCode.NONE, ["GSSAPI", "PLAIN"])
        return self

    def round(self, data: bytes) -> tuple[str, str | None, bytes]:
        """What is answered, or CLOSED."""
        try:
            answer = self.connection.call(SaslAuthenticateRequest(auth_bytes=data), 2)
        except ConnectionFailed:
            return "CLOSED", None, b""
        self.lifetime_ms = answer.session_lifetime_ms
        return ErrorCode.of(answer.error_code).name, answer.error_message, bytes(answer.auth_bytes)

    def log_in(self, mechanism: ClientMechanism) -> Raw:
        message, answer = mechanism.evaluate(b""), None
        while message is not None:
            code, text, answer = self.round(message)
            assert (code, text) == ("NONE", "")
            message = mechanism.evaluate(answer)
        return self

    def who(self) -> str:
        token = self.connection.call(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
        assert token.error_code == 0
        return f"{token.principal_type}:{token.principal_name}"


def established(broker: Broker, context: Initiator, raw: Raw | None = None) -> tuple[Raw, bytes]:
    """Up to the broker's offer of security layers."""
    raw = (raw or Raw(broker)).handshake()
    code, text, token = raw.round(context.step(b""))
    assert (code, text) == ("NONE", "")
    assert context.step(token) == b""
    code, text, offer = raw.round(b"")
    assert (code, text) == ("NONE", "")
    return raw, offer


@pytest.mark.parametrize(("principal", "name"), [("alice", "alice"), ("bob/admin", "bob")])
def test_the_rules_say_who_a_principal_is(broker: Broker, users: dict[str, Path], principal: str, name: str) -> None:
    raw = Raw(broker).handshake().log_in(GssapiClient(initiator(users, principal)))
    assert raw.who() == f"User:{name}"


def test_rules_that_are_changed_are_those_of_listeners_that_are_added(broker: Broker, users: dict[str, Path]) -> None:
    (port,) = free_ports(1)
    own = {name: broker.settings[name] for name in ("listeners", "advertised.listeners")}
    protocols = ("PLAINTEXT:PLAINTEXT", f"{LISTENER}:SASL_PLAINTEXT")

    def listen(*more: str) -> None:
        names = {name.replace(".", "_"): ",".join((text, *more)) for name, text in own.items()}
        added = ["ADDED:SASL_PLAINTEXT"] if more else []
        set_broker_config(broker, **names, listener_security_protocol_map=",".join((*protocols, *added)))

    rules = "sasl_kerberos_principal_to_local_rules"
    set_broker_config(broker, **{rules: "RULE:[1:new-$1]"})
    listen(f"ADDED://{HOST}:{port}")
    try:
        assert wait_until(lambda: is_listening(HOST, port), CLOCK, 30_000)
        for where, name in ((port, "new-alice"), (sasl_port(broker), "alice")):
            assert Raw(broker, where).handshake().log_in(GssapiClient(initiator(users))).who() == f"User:{name}"
    finally:
        listen()
        set_broker_config(broker, **{rules: RULES})


def test_our_brokers_ask_for_tickets_of_the_service_that_holds(broker: Broker, users: dict[str, Path]) -> None:
    """`sasl.kerberos.service.name`, changed at run time, of a broker that logs in to others."""
    config = KafkaConfig(
        {
            "zookeeper.connect": "127.0.0.1:1",
            "listeners": f"OUT://{HOST}:1",
            "listener.security.protocol.map": "OUT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "OUT",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "listener.name.out.gssapi.sasl.jaas.config": krb5("alice", users["alice"]),
            "sasl.kerberos.service.name": SERVICE,
        }
    )
    logins = PeerLogins(config, CLOCK)
    wrap = logins.wrapper("OUT")
    Connection(HOST, sasl_port(broker), "peer", CLOCK, wrap=wrap).close()
    config.use_dynamic({"sasl.kerberos.service.name": "nosuch"}, {})
    logins.reload()
    with pytest.raises(ConnectionFailed, match=f"Server nosuch/{NAME}@{REALM} not found"):
        Connection(HOST, sasl_port(broker), "peer", CLOCK, wrap=wrap)


def test_a_login_takes_no_ticket_of_one_that_is_gone(users: dict[str, Path]) -> None:
    """Objects that are made and dropped in turn stand at the same place in memory."""
    for principal in ("alice", "bob/admin") * 5:
        assert initiator(users, principal).step(b"")


def test_a_principal_without_a_rule_is_served_nothing(broker: Broker, users: dict[str, Path]) -> None:
    """Kafka says that it is authenticated, and closes the connection at its first request."""
    context = initiator(users, "carol/nobody")
    raw, _ = established(broker, context)
    answer = raw.round(context.wrap(b"\1\0\0\0"))
    assert answer == (("NONE", "", b"") if broker.kind == "kafka" else REFUSED)
    with pytest.raises(ConnectionFailed):
        raw.who()


def test_no_layer_is_offered_and_nobody_is_who_they_ask_to_be(broker: Broker, users: dict[str, Path]) -> None:
    context = initiator(users)
    raw, offer = established(broker, context)
    assert context.unwrap(offer) == b"\1\1\0\0"
    assert raw.round(context.wrap(b"\1\0\0\0admin")) == ("NONE", "", b"")
    assert raw.who() == "User:alice"


@pytest.mark.parametrize("choice", [b"\2\0\0\0", b"\4\0\0\0", b"\0\0\0\0", b"\1", b""])
def test_another_layer_is_refused(broker: Broker, users: dict[str, Path], choice: bytes) -> None:
    context = initiator(users)
    raw, _ = established(broker, context)
    # Java stumbles over less than four bytes.
    expected = CLOSED if broker.kind == "kafka" and len(choice) < 4 else REFUSED
    assert raw.round(context.wrap(choice)) == expected


def test_what_is_no_token_is_refused(broker: Broker, users: dict[str, Path]) -> None:
    whole = initiator(users).step(b"")
    for token in (b"", b"x", whole[:100], whole[:-1] + bytes([whole[-1] ^ 1])):
        assert Raw(broker).handshake().round(token) == REFUSED
    context = initiator(users)
    raw = Raw(broker).handshake()
    raw.round(context.step(b""))
    assert raw.round(b"where none is due") == REFUSED
    raw, _ = established(broker, initiator(users))
    assert raw.round(b"not wrapped") == REFUSED


def test_a_token_that_comes_twice_and_one_for_another_service(broker: Broker, users: dict[str, Path]) -> None:
    token = initiator(users).step(b"")
    assert Raw(broker).handshake().round(token)[0] == "NONE"
    assert Raw(broker).handshake().round(token) == REFUSED
    assert Raw(broker).handshake().round(initiator(users, service="other").step(b"")) == REFUSED


@pytest.mark.parametrize("handshake", [True, False], ids=["after a handshake", "without one"])
def test_the_forms_without_requests(broker: Broker, users: dict[str, Path], handshake: bool) -> None:
    """SaslHandshake version 0, and none at all as before it (0.9). The last token is not answered."""
    with socket.create_connection((HOST, sasl_port(broker)), 30) as sock:
        if handshake:
            header = RequestHeader(ApiKey.SASL_HANDSHAKE, 0, 1, "raw")
            sock.sendall(encode_request(header, SaslHandshakeRequest(mechanism="GSSAPI")))
            shaken: Any = decode_response(header, memoryview(receive(sock)))
            assert shaken.error_code == 0
        client, answer = GssapiClient(initiator(users)), b""
        for number in range(3):
            message = client.evaluate(answer)
            assert message is not None
            sock.sendall(len(message).to_bytes(4, "big") + message)
            answer = receive(sock) if number < 2 else b""
        header = RequestHeader(ApiKey.METADATA, 9, 7, "raw")
        sock.sendall(encode_request(header, MetadataRequest(topics=[])))
        served: Any = decode_response(header, memoryview(receive(sock)))
        assert served.brokers


def receive(sock: socket.socket) -> bytes:
    with sock.makefile("rb", buffering=0) as file:
        size = int.from_bytes(exactly(file, 4), "big")
        return exactly(file, size)


def exactly(file: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += file.read(size - len(data)) or pytest.fail("closed")
    return data


def test_a_session_is_renewed_by_its_own_principal_alone(broker: Broker, users: dict[str, Path]) -> None:
    mine, other = Raw(broker), Raw(broker)
    for raw in (mine, other):
        raw.handshake().log_in(GssapiClient(initiator(users)))
        assert raw.lifetime_ms == SESSION_MS
    mine.handshake().log_in(GssapiClient(initiator(users)))
    assert mine.who() == "User:alice"
    context = initiator(users, "bob/admin")
    raw, _ = established(broker, context, other)
    code, text, _ = raw.round(context.wrap(b"\1\0\0\0"))
    assert code == "SASL_AUTHENTICATION_FAILED"
    assert text == "Cannot change principals during re-authentication from User.alice: User.bob"


def test_a_clock_that_is_wrong(broker: Broker, kdc: Kdc, users: dict[str, Path]) -> None:
    cache = kdc.ticket("alice", users["alice"])
    login = KerberosLogin({"useTicketCache": "true", "ticketCache": str(cache)})
    # The broker's ticket is in the cache from now on: the realm's server would not give one by such a clock.
    assert Raw(broker).handshake().round(login.initiator(SERVICE, NAME).step(b""))[0] == "NONE"
    shift_clock(cache, 3_600)
    assert Raw(broker).handshake().round(login.initiator(SERVICE, NAME).step(b"")) == REFUSED


def shift_clock(cache: Path, seconds: int) -> None:
    """As MIT's library notes it in a ticket cache (version 4, a field of the head) when the realm's server has another
    time: its clock is so much ahead."""
    data = cache.read_bytes()
    field = b"\0\1\0\x08" + seconds.to_bytes(4, "big") + bytes(4)
    length = int.from_bytes(data[2:4], "big")
    assert data[:2] == b"\5\4"
    cache.write_bytes(data[:2] + len(field).to_bytes(2, "big") + field + data[4 + length :])


# -- clients ---------------------------------------------------------------------------------------------------------


def client_file(directory: Path, text: str, **more: str) -> Path:
    file = directory / "client.properties"
    values = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "sasl.jaas.config": text,
        **more,
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return file


def our_command(broker: Broker, file: Path) -> tuple[int, str]:
    done = CliRunner().invoke(odradek, ["topics", "list", "-b", address(broker), "--command-config", str(file)])
    return done.exit_code, done.output + str(done.exception or "")


def test_our_own_commands(broker: Broker, kdc: Kdc, users: dict[str, Path], tmp_path: Path) -> None:
    """With a key table, with a ticket cache, and what they say when there is no way in."""
    assert our_command(broker, client_file(tmp_path, krb5("alice", users["alice"])))[0] == 0
    cache = kdc.ticket("alice", users["alice"])
    by_cache = jaas("GSSAPI", useTicketCache="true", ticketCache=str(cache))
    assert our_command(broker, client_file(tmp_path, by_cache))[0] == 0
    wrong = client_file(tmp_path, by_cache, **{"sasl.kerberos.service.name": "nosuch"})
    code, said = our_command(broker, wrong)
    assert code == 1
    assert f"Server nosuch/{NAME}@{REALM} not found in Kerberos database" in said
    kdc.ticket("alice", users["alice"], "-l", "1s")
    assert wait_until(lambda: "expired" in our_command(broker, client_file(tmp_path, by_cache))[1], CLOCK, 30_000)
    for text, reason in (
        (krb5("alice", tmp_path / "none"), f"Key table file '{tmp_path}/none' not found"),
        (krb5("eve", users["alice"]), f"No key table entry found for eve@{REALM}"),
        (jaas("GSSAPI", useKeyTab="true"), "useKeyTab=true needs keyTab and principal"),
        (jaas("GSSAPI", useTicketCache="false"), "GSSAPI needs useKeyTab=true or useTicketCache=true"),
    ):
        assert reason in our_command(broker, client_file(tmp_path, text))[1]
    code, said = our_command(broker, client_file(tmp_path, jaas("GSSAPI", useTicketCache="true", ticketCache="/no")))
    assert code == 1
    assert "authentication failed: " in said


def test_the_java_client(
    broker: Broker, kdc: Kdc, users: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", kdc.java_option)
    done = kafka.run_tool(
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        address(broker),
        "--command-config",
        str(client_file(tmp_path, krb5("alice", users["alice"]))),
        "--list",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_kcat(broker: Broker, kdc: Kdc, users: dict[str, Path]) -> None:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "sasl.kerberos.kinit.cmd": "true",
    }
    done = subprocess.run(
        ["kcat", "-b", address(broker), "-L", *(f"-X{name}={value}" for name, value in settings.items())],
        env={**kdc.environment, "KRB5CCNAME": str(kdc.ticket("alice", users["alice"]))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert f"at {address(broker)}" in done.stdout


def test_kafka_python(broker: Broker, kdc: Kdc, users: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka import KafkaAdminClient

    monkeypatch.setenv("KRB5CCNAME", str(kdc.ticket("alice", users["alice"])))
    admin = KafkaAdminClient(
        bootstrap_servers=address(broker),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name=SERVICE,
    )
    assert admin.list_topics() is not None
    admin.close()
