"""Listeners with names of their own, and TLS on them: the same keys, and the same clients let in and kept out."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from network.client.cluster_client import ClusterClient
from network.client.connection import Connection, ConnectionFailed, SocketWrapper
from network.protocol.errors import ProtocolError
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.find_coordinator import FindCoordinatorRequest
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from network.protocol.messages.metadata import MetadataRequest
from network.tls.client import tls_wrapper
from network.tls.settings import read_settings
from tests.reference import kafka
from tests.support.certificates import PASSWORD, Authority, Identity, keytool, of_listener
from tests.support.cluster import CLOCK, HOST, Cluster

NAMES = ("PLAINTEXT", "OPEN", "ASKED", "MUTUAL")
EXTRA = "EXTRA"
"""A listener that the broker's file secures and does not name."""
PROTOCOLS = "PLAINTEXT:PLAINTEXT,OPEN:SSL,ASKED:SSL,MUTUAL:SSL"
WAIT_MS = 30_000
OTHER_SUITE = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


@dataclass
class Keys:
    """Who is who."""

    authority: Authority
    broker: Identity
    client: Identity
    directory: Path

    def client_values(self, identity: Identity | None = None, **others: str) -> dict[str, str]:
        values = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.authority.pem}
        if identity is not None:
            values |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": identity.key_pem(),
                "ssl.keystore.certificate.chain": identity.chain_pem,
            }
        return {**values, **others}

    def wrap(self, identity: Identity | None = None, **others: str) -> SocketWrapper:
        context = read_settings(self.client_values(identity, **others).get).client_context()
        return tls_wrapper(lambda: context)


@dataclass
class Secured:
    cluster: Cluster
    keys: Keys
    ports: dict[str, int]

    def connect(self, listener: str, wrap: SocketWrapper | None = None) -> Connection:
        return Connection(HOST, self.ports[listener], "tls", CLOCK, wrap=wrap)

    def librdkafka(self, listener: str, identity: Identity | None = None) -> dict[str, Any]:
        options: dict[str, Any] = {
            "bootstrap.servers": f"{HOST}:{self.ports[listener]}",
            "security.protocol": "ssl",
            "ssl.ca.pem": self.keys.authority.pem,
        }
        if identity is not None:
            options |= {"ssl.key.pem": identity.key_pem(), "ssl.certificate.pem": identity.chain_pem}
        return options


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    authority = Authority()
    return Keys(authority, authority.issue("broker"), authority.issue("client"), tmp_path_factory.mktemp("keys"))


def one_line(pem: str) -> str:
    return pem.replace("\n", "\\n")


def listener_settings(keys: Keys) -> dict[str, str]:
    """PKCS12 with a PKCS12 trust store, PEM in the configuration itself, and JKS."""
    folder = keys.directory
    pkcs12 = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(keys.broker.pkcs12_file(folder / "broker.p12")),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
    }
    return {
        **of_listener("open", pkcs12),
        **of_listener(EXTRA, pkcs12),
        **of_listener(
            "asked",
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": one_line(keys.broker.key_pem()),
                "ssl.keystore.certificate.chain": one_line(keys.broker.chain_pem),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": one_line(keys.authority.pem),
                "ssl.client.auth": "requested",
            },
        ),
        **of_listener(
            "mutual",
            {
                "ssl.keystore.location": str(keys.broker.jks_file(folder / "broker.jks")),
                "ssl.keystore.password": PASSWORD,
                "ssl.key.password": PASSWORD,
                "ssl.truststore.location": str(keys.authority.trust_file(folder / "trust.jks", "JKS")),
                "ssl.truststore.password": PASSWORD,
                "ssl.client.auth": "required",
                "ssl.enabled.protocols": "TLSv1.2",
                "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            },
        ),
    }


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def secured(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory, keys: Keys
) -> Iterator[Secured]:
    kind: Literal["odradek", "kafka"] = request.param
    ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
    settings = {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": PROTOCOLS,
        "password.encoder.secret": "what is kept in ZooKeeper",
        **listener_settings(keys),
    }
    name = f"tls-{kind}"
    cluster = Cluster([kind], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}", settings)
    broker = cluster.brokers[0]
    broker.port, broker.address = ports["PLAINTEXT"], f"{HOST}:{ports['PLAINTEXT']}"
    try:
        cluster.start()
        yield Secured(cluster, keys, ports)
    finally:
        cluster.stop()


def is_served(connection: Connection) -> bool:
    return not connection.call(ApiVersionsRequest(), 0).error_code


def is_refused(secured: Secured, listener: str, wrap: SocketWrapper | None = None) -> bool:
    try:
        with secured.connect(listener, wrap) as connection:
            return not is_served(connection)
    except (ConnectionFailed, ProtocolError):  # an alert of TLS is no answer either
        return True


@pytest.mark.parametrize("listener", NAMES)
def test_each_client_is_told_the_address_of_its_listener(secured: Secured, listener: str) -> None:
    wrap = None if listener == "PLAINTEXT" else secured.keys.wrap(secured.keys.client)
    with secured.connect(listener, wrap) as connection:
        metadata = connection.call(MetadataRequest(topics=[]), 5)
        assert [(each.host, each.port) for each in metadata.brokers] == [("localhost", secured.ports[listener])]

        def coordinator() -> Any:
            return connection.call(FindCoordinatorRequest(key="group", key_type=0), 2)

        assert wait_until(lambda: not coordinator().error_code, CLOCK, WAIT_MS)
        assert (coordinator().host, coordinator().port) == ("localhost", secured.ports[listener])


def test_who_needs_a_certificate(secured: Secured) -> None:
    keys = secured.keys
    nobody, known = keys.wrap(), keys.wrap(keys.client)
    stranger = keys.wrap(Authority("Other").issue("mallory"))
    expired = keys.wrap(keys.authority.issue("late", days=-1))
    for wrap in (nobody, known):
        for listener in ("OPEN", "ASKED"):
            with secured.connect(listener, wrap) as connection:
                assert is_served(connection)
    with secured.connect("MUTUAL", known) as connection:
        assert is_served(connection)
    assert is_refused(secured, "MUTUAL", nobody)
    for wrap in (stranger, expired):
        assert is_refused(secured, "MUTUAL", wrap)
        assert is_refused(secured, "ASKED", wrap)
        with secured.connect("OPEN", wrap) as connection:
            assert is_served(connection)


def test_versions_and_suites_are_those_of_the_listener(secured: Secured) -> None:
    keys = secured.keys
    assert is_refused(secured, "MUTUAL", keys.wrap(keys.client, **{"ssl.enabled.protocols": "TLSv1.3"}))
    other = {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": OTHER_SUITE}
    assert is_refused(secured, "MUTUAL", keys.wrap(keys.client, **other))
    for version in ("TLSv1.2", "TLSv1.3"):
        with secured.connect("OPEN", keys.wrap(None, **{"ssl.enabled.protocols": version})) as connection:
            assert is_served(connection)


def test_a_client_finds_out_whom_it_speaks_to(secured: Secured) -> None:
    """Another authority, and another host than the certificate is for."""
    keys = secured.keys
    with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):
        secured.connect("OPEN", keys.wrap(None, **{"ssl.truststore.certificates": Authority("Other").pem}))
    context = read_settings(keys.client_values().get).client_context()
    with (
        pytest.raises(ssl.SSLCertVerificationError, match="mismatch"),
        socket.create_connection((HOST, secured.ports["OPEN"])) as sock,
    ):
        context.wrap_socket(sock, server_hostname="example.org")


def test_plain_text_on_a_tls_port_and_the_other_way_round(secured: Secured) -> None:
    assert is_refused(secured, "OPEN")
    assert is_refused(secured, "PLAINTEXT", secured.keys.wrap())
    with secured.connect("PLAINTEXT") as connection:
        assert is_served(connection)


@pytest.mark.parametrize("listener", ["OPEN", "MUTUAL"])
def test_confluent_kafka(secured: Secured, listener: str) -> None:
    options = secured.librdkafka(listener, secured.keys.client if listener == "MUTUAL" else None)
    topic = f"confluent-{listener.lower()}"
    admin = AdminClient(options)
    (created,) = admin.create_topics([confluent_kafka.admin.NewTopic(topic, 2, 1)]).values()
    created.result(30)
    producer = confluent_kafka.Producer({**options, "linger.ms": 5})
    values = [bytes([number % 256]) * (number * 37 % 60_000) for number in range(600)]
    for number, value in enumerate(values):
        producer.produce(topic, value, str(number), partition=number % 2)
        producer.poll(0)
    assert producer.flush(60) == 0
    consumer = confluent_kafka.Consumer(
        {**options, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    found: dict[int, bytes] = {}
    try:
        while len(found) < len(values):
            messages = consumer.consume(100, 30)
            assert messages, f"only {len(found)} came"
            for message in messages:
                assert message.error() is None
                key, content = message.key(), message.value()
                assert key is not None
                assert content is not None
                found[int(key)] = content
    finally:
        consumer.close()
    assert [found[number] for number in range(len(values))] == values


def test_kafka_python(secured: Secured, tmp_path: Path) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    keys = secured.keys
    both = keys.client.pem_file(tmp_path / "client.pem")
    options = {
        "bootstrap_servers": f"localhost:{secured.ports['MUTUAL']}",
        "security_protocol": "SSL",
        "ssl_cafile": str(keys.authority.pem_file(tmp_path / "ca.pem")),
        "ssl_certfile": str(both),
        "ssl_keyfile": str(both),
    }
    with secured.cluster.client() as client:
        from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

        topics = [CreatableTopic(name="python", num_partitions=1, replication_factor=1)]
        client.call_controller(CreateTopicsRequest(topics=topics, timeout_ms=15_000))
    secured.cluster.wait_topic("python", 1)
    producer = KafkaProducer(**options)
    for number in range(50):
        producer.send("python", str(number).encode())
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer("python", auto_offset_reset="earliest", consumer_timeout_ms=30_000, **options)
    values = [int(message.value) for _, message in zip(range(50), consumer, strict=False)]
    consumer.close()
    assert values == list(range(50))


def test_the_shell_tools(secured: Secured, tmp_path: Path) -> None:
    keys, port = secured.keys, secured.ports["MUTUAL"]
    properties = tmp_path / "client.properties"
    lines = {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(keys.client.jks_file(tmp_path / "client.jks")),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.location": str(keys.authority.trust_file(tmp_path / "trust.p12", "PKCS12")),
        "ssl.truststore.password": PASSWORD,
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    arguments = ("--bootstrap-server", f"localhost:{port}", "--command-config", str(properties))
    tool = "org.apache.kafka.tools.TopicCommand"
    done = kafka.run_tool(tool, *arguments, "--create", "--topic", "from-shell", "--partitions", "3")
    assert done.returncode == 0, done.stderr
    with ClusterClient(secured.cluster.bootstrap, "test", CLOCK) as client:
        assert len(client.metadata(["from-shell"]).topics["from-shell"].partitions) == 3


def set_dynamic(secured: Secured, values: Mapping[str, str | None]) -> int:
    changes = [
        AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
        for name, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=changes)
    with secured.connect("PLAINTEXT") as connection:
        answer = connection.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    return int(answer.responses[0].error_code)


def serial_number(secured: Secured) -> int:
    """Of the certificate that new clients are shown."""
    context = read_settings(secured.keys.client_values().get).client_context()
    with (
        socket.create_connection((HOST, secured.ports["OPEN"]), 20) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        certificate = tls.getpeercert()
    assert certificate is not None
    return int(str(certificate["serialNumber"]), 16)


def shows(secured: Secured, serial: int) -> bool:
    return serial_number(secured) == serial


def test_a_certificate_is_replaced_while_clients_are_connected(secured: Secured) -> None:
    """By another file, by another content of that file, and not by what is no key store or is somebody else's."""
    keys, key = secured.keys, "listener.name.open.ssl.keystore.location"
    assert serial_number(secured) == keys.broker.certificate.serial_number
    with secured.connect("OPEN", keys.wrap()) as old:
        assert is_served(old)
        path = keys.directory / "next.p12"
        for _ in range(2):
            following = keys.authority.issue("broker")
            following.pkcs12_file(path)
            assert set_dynamic(secured, {key: str(path)}) == 0
            wanted = following.certificate.serial_number
            assert wait_until(partial(shows, secured, wanted), CLOCK, WAIT_MS)
            assert is_served(old)
        (keys.directory / "bad.p12").write_bytes(b"no key store")
        assert set_dynamic(secured, {key: str(keys.directory / "bad.p12")}) == 42
        other = keys.authority.issue("another-name").pkcs12_file(keys.directory / "other.p12")
        assert set_dynamic(secured, {key: str(other)}) == 42
        assert serial_number(secured) == wanted
        assert is_served(old)


def listeners(ports: dict[str, int]) -> dict[str, str]:
    return {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
    }


def test_a_listener_comes_and_goes_while_the_broker_runs(secured: Secured) -> None:
    wrap, ports = secured.keys.wrap(), secured.ports
    with_extra = Secured(secured.cluster, secured.keys, {**ports, EXTRA: free_ports(1)[0]})
    added = {**listeners(with_extra.ports), "listener.security.protocol.map": f"{PROTOCOLS},{EXTRA}:SSL"}
    with secured.connect("OPEN", wrap) as bystander:
        assert is_served(bystander)
        assert set_dynamic(secured, added) == 0

        def told(listener: str) -> list[tuple[str, int]]:
            with with_extra.connect(listener, wrap) as connection:
                metadata = connection.call(MetadataRequest(topics=[]), 5)
            return [(each.host, each.port) for each in metadata.brokers]

        assert wait_until(lambda: not is_refused(with_extra, EXTRA, wrap), CLOCK, WAIT_MS)
        assert wait_until(lambda: told(EXTRA) == [("localhost", with_extra.ports[EXTRA])], CLOCK, WAIT_MS)
        assert told("OPEN") == [("localhost", ports["OPEN"])]
        with with_extra.connect(EXTRA, wrap) as guest:
            assert is_served(guest)
            assert set_dynamic(secured, listeners(ports)) == 0
            assert wait_until(lambda: is_refused(with_extra, EXTRA, wrap), CLOCK, WAIT_MS)
            with pytest.raises(ConnectionFailed):
                is_served(guest)
        assert is_served(bystander)


def lets_in(secured: Secured, listener: str, wrap: SocketWrapper) -> bool:
    return not is_refused(secured, listener, wrap)


def test_who_is_trusted_is_changed_while_the_broker_runs(secured: Secured, tmp_path: Path) -> None:
    """By another store with another password, and by certificates in the configuration; and taken back."""
    keys, other = secured.keys, Authority("Other")
    known, stranger = keys.wrap(keys.client), keys.wrap(other.issue("mallory"))
    source, store = other.pem_file(tmp_path / "other.pem"), tmp_path / "other.p12"
    keytool("-importcert", "-alias", "ca", "-file", source, "-keystore", store, "-storetype", "PKCS12",
            "-storepass", "another", "-noprompt")  # fmt: skip
    stores = {"ssl.truststore.location": str(store), "ssl.truststore.password": "another"}
    changes = {"mutual": stores, "asked": {"ssl.truststore.certificates": other.pem}}
    assert set_dynamic(secured, of_listener("mutual", {**stores, "ssl.truststore.password": "wrong"})) == 42
    for listener, values in changes.items():
        name = listener.upper()
        assert lets_in(secured, name, known)
        assert set_dynamic(secured, of_listener(listener, values)) == 0
        # Each thread of Kafka's network has keys of its own, and is given the new ones by itself.
        assert wait_until(partial(lets_in, secured, name, stranger), CLOCK, WAIT_MS)
        assert wait_until(partial(is_refused, secured, name, known), CLOCK, WAIT_MS)
        assert set_dynamic(secured, dict.fromkeys(of_listener(listener, values))) == 0
        assert wait_until(partial(lets_in, secured, name, known), CLOCK, WAIT_MS)
        assert wait_until(partial(is_refused, secured, name, stranger), CLOCK, WAIT_MS)


def test_what_a_served_listener_asks_for_is_changed(secured: Secured) -> None:
    """Kafka answers 0 as well, and asks for the same as before until it starts again (docs/differences.md)."""
    keys, kind = secured.keys, secured.cluster.brokers[0].kind
    newer = keys.wrap(keys.client, **{"ssl.enabled.protocols": "TLSv1.3"})
    for key, value, wrap in (
        ("ssl.client.auth", "required", keys.wrap()),
        ("ssl.enabled.protocols", "TLSv1.2", newer),
    ):
        change = of_listener("asked", {key: value})
        assert lets_in(secured, "ASKED", wrap)
        assert set_dynamic(secured, change) == 0
        if kind == "odradek":
            assert wait_until(partial(is_refused, secured, "ASKED", wrap), CLOCK, WAIT_MS)
            assert lets_in(secured, "ASKED", keys.wrap(keys.client))
        assert set_dynamic(secured, dict.fromkeys(change)) == 0
        assert wait_until(partial(lets_in, secured, "ASKED", wrap), CLOCK, WAIT_MS)


def test_a_listener_is_secured_by_dynamic_configs_alone(secured: Secured, tmp_path: Path) -> None:
    """Everything that is said of it: its key, whom it trusts, and what it asks of clients."""
    keys = secured.keys
    identity = keys.authority.issue("broker")
    fresh = Secured(secured.cluster, keys, {**secured.ports, "FRESH": free_ports(1)[0]})
    own = of_listener(
        "fresh",
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": identity.key_pem(),
            "ssl.keystore.certificate.chain": identity.chain_pem,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(keys.authority.pem_file(tmp_path / "ca.pem")),
            "ssl.client.auth": "required",
            "ssl.enabled.protocols": "TLSv1.2",
            "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        },
    )
    added = {**listeners(fresh.ports), "listener.security.protocol.map": f"{PROTOCOLS},FRESH:SSL"}
    assert set_dynamic(secured, {**own, **added}) == 0
    try:
        known = partial(keys.wrap, keys.client)
        assert wait_until(lambda: lets_in(fresh, "FRESH", known()), CLOCK, WAIT_MS)
        for wrap in (
            keys.wrap(),
            keys.wrap(Authority("Other").issue("mallory")),
            known(**{"ssl.enabled.protocols": "TLSv1.3"}),
            known(**{"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": OTHER_SUITE}),
        ):
            assert is_refused(fresh, "FRESH", wrap)
    finally:
        assert set_dynamic(secured, listeners(secured.ports)) == 0


def test_listeners_that_cannot_be(secured: Secured) -> None:
    """The brokers' own may not go, no listener changes its protocol, each advertised one exists and has a protocol."""
    ports = secured.ports
    without = {name: port for name, port in ports.items() if name != "PLAINTEXT"}
    assert set_dynamic(secured, listeners(without)) == 42
    other = PROTOCOLS.replace("ASKED:SSL", "ASKED:PLAINTEXT")
    assert set_dynamic(secured, {**listeners(ports), "listener.security.protocol.map": other}) == 42
    assert set_dynamic(secured, listeners({**ports, "UNKNOWN": 1})) == 42
    advertised = listeners({**ports, EXTRA: 1})["advertised.listeners"]
    assert set_dynamic(secured, {**listeners(ports), "advertised.listeners": advertised}) == 42
    for listener in ("PLAINTEXT", "OPEN"):
        with secured.connect(listener, None if listener == "PLAINTEXT" else secured.keys.wrap()) as connection:
            assert is_served(connection)


@pytest.mark.parametrize(
    "garbage", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"], ids=["2 GB", "negative", "HTTP"]
)
def test_no_impossible_frame_within_tls(secured: Secured, garbage: bytes) -> None:
    context = read_settings(secured.keys.client_values().get).client_context()
    with (
        socket.create_connection((HOST, secured.ports["OPEN"]), 20) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        tls.sendall(garbage)
        with contextlib.suppress(OSError):
            assert tls.recv(1) == b""
    with secured.connect("OPEN", secured.keys.wrap()) as connection:
        assert is_served(connection)
