"""SASL listeners of a running broker: which can be added, with which logins, and what stays as it was."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports, is_listening
from network.client.connection import Connection
from network.protocol.errors import ErrorCode
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from network.protocol.messages.metadata import MetadataRequest
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.cluster import CLOCK, HOST, Broker, Cluster
from tests.support.sasl import jaas

WAIT_MS = 30_000
BROKER_RESOURCE, SET, DELETE = 4, 0, 1
MARKER = "log.cleaner.backoff.ms"
PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "STANDING": "SASL_PLAINTEXT", "ADDED": "SASL_PLAINTEXT", "TAKEN": "PLAINTEXT"}
ALICE = jaas("PLAIN", username="a", password="b", user_alice="alice-secret")
BOB = jaas("PLAIN", username="a", password="b", user_bob="bob-secret")
SCRAM_LOGIN = "listener.name.added.scram-sha-256.sasl.jaas.config"
LIMIT = "connections.max.reauth.ms"
LOGIN = "listener.name.{}.plain.sasl.jaas.config"


class Dynamic:
    """A broker with a plain listener and one of SASL, whose configs are changed by the plain one."""

    def __init__(self, broker: Broker, ports: Mapping[str, int]) -> None:
        self.broker = broker
        self.ports = ports
        self._markers = 20_000

    def listeners(self, *more: str) -> dict[str, str]:
        named = ",".join(f"{name}://{HOST}:{self.ports[name]}" for name in ("PLAINTEXT", "STANDING", *more))
        protocols = ",".join(f"{name}:{PROTOCOLS[name]}" for name in ("PLAINTEXT", "STANDING", *more))
        return {"listeners": named, "advertised.listeners": named, "listener.security.protocol.map": protocols}

    def connect(self, listener: str = "PLAINTEXT") -> Connection:
        return Connection(HOST, self.ports[listener], "dynamic", CLOCK)

    def alter(self, values: Mapping[str, str | None], *, validate_only: bool = False, resource: str = "0") -> ErrorCode:
        """The answer; an error comes with words that hold no secret."""
        configs = [
            AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
            for name, value in values.items()
        ]
        asked = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name=resource, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=validate_only)
        with self.connect() as connection:
            (answer,) = connection.call(request, 1).responses
        assert bool(answer.error_code) == bool(answer.error_message)
        assert "-secret" not in (answer.error_message or "")
        return ErrorCode.of(answer.error_code)

    def marker(self) -> str | None:
        asked = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="0", configuration_keys=[MARKER])
        with self.connect() as connection:
            (result,) = connection.call(DescribeConfigsRequest(resources=[asked]), 4).results
        return str(result.configs[0].value)

    def settle(self) -> None:
        """Until what was changed before is in force, or has failed: changes are applied one after the other."""
        self._markers += 1
        wanted = str(self._markers)
        assert self.alter({MARKER: wanted}) is ErrorCode.NONE
        assert wait_until(lambda: self.marker() == wanted, CLOCK, WAIT_MS)

    def is_served(self, listener: str) -> bool:
        return is_listening(HOST, self.ports[listener])

    def told(self) -> list[int]:
        """The ports that clients of the plain listener are sent to."""
        with self.connect() as connection:
            return [each.port for each in connection.call(MetadataRequest(topics=[]), 5).brokers]

    def offered(self, listener: str) -> list[str]:
        with self.connect(listener) as connection:
            return sorted(connection.call(SaslHandshakeRequest(mechanism="NONE"), 1).mechanisms)

    def log_in(self, listener: str, user: str) -> Any:
        with self.connect(listener) as connection:
            connection.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            said = f"\0{user}\0{user}-secret".encode()
            return connection.call(SaslAuthenticateRequest(auth_bytes=said), 2)

    def lets_in(self, listener: str, user: str) -> bool:
        return not self.log_in(listener, user).error_code

    def reset(self) -> None:
        assert self.alter(dict.fromkeys(self.listeners())) is ErrorCode.NONE
        self.settle()
        names = ["sasl.enabled.mechanisms", "sasl.jaas.config", SCRAM_LOGIN]
        for listener in ("added", "standing"):
            names += [LOGIN.format(listener), f"listener.name.{listener}.sasl.enabled.mechanisms"]
            names += [f"listener.name.{listener}.{LIMIT}", f"listener.name.{listener}.plain.{LIMIT}"]
        assert self.alter(dict.fromkeys(names)) is ErrorCode.NONE
        self.settle()
        assert wait_until(lambda: not self.is_served("ADDED"), CLOCK, WAIT_MS)


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def running(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dynamic]:
    name = f"sasl-dynamic-{request.param}"
    (broker,) = (cluster := Cluster([request.param], tmp_path_factory.mktemp(name), f"{zookeeper}/{name}")).brokers
    ports = dict(zip(PROTOCOLS, (broker.port, *free_ports(len(PROTOCOLS) - 1)), strict=True))
    dynamic = Dynamic(broker, ports)
    broker.settings |= {
        **dynamic.listeners(),
        "password.encoder.secret": "of this broker",
        "sasl.enabled.mechanisms": "PLAIN",
        LOGIN.format("standing"): ALICE,
    }
    try:
        cluster.start()
        yield dynamic
    finally:
        cluster.stop()


@pytest.fixture
def broker(running: Dynamic) -> Iterator[Dynamic]:
    yield running
    running.reset()
    assert running.lets_in("STANDING", "alice")


def refused(broker: Dynamic) -> ErrorCode:
    """Kafka takes listeners that it cannot serve, and says so in its log alone; a broker of it that is started with
    them ends. Here they are refused."""
    return ErrorCode.NONE if broker.broker.kind == "kafka" else ErrorCode.INVALID_REQUEST


def test_a_listener_with_a_login_is_added(broker: Dynamic) -> None:
    """With mechanisms and limits of its own; what it was made with stays until it is made anew."""
    key = "listener.name.added.sasl.enabled.mechanisms"
    own = {
        LOGIN.format("added"): ALICE,
        key: "PLAIN,SCRAM-SHA-256",
        f"listener.name.added.plain.{LIMIT}": "12345",
        SCRAM_LOGIN: jaas("SCRAM-SHA-256"),
    }
    assert broker.alter({**broker.listeners("ADDED"), **own}, validate_only=True) is ErrorCode.NONE
    broker.settle()
    assert not broker.is_served("ADDED")
    assert broker.alter(own) is ErrorCode.NONE
    assert broker.alter(broker.listeners("ADDED")) is ErrorCode.NONE
    broker.settle()
    assert broker.offered("ADDED") == ["PLAIN", "SCRAM-SHA-256"]
    assert broker.log_in("ADDED", "alice").session_lifetime_ms == 12_345
    assert broker.alter({LOGIN.format("added"): BOB, key: "PLAIN"}) is ErrorCode.NONE
    broker.settle()
    assert broker.offered("ADDED") == ["PLAIN", "SCRAM-SHA-256"]
    assert broker.lets_in("ADDED", "alice")
    assert not broker.lets_in("ADDED", "bob")
    assert broker.alter(broker.listeners()) is ErrorCode.NONE
    broker.settle()
    assert not broker.is_served("ADDED")
    assert broker.alter(broker.listeners("ADDED")) is ErrorCode.NONE
    broker.settle()
    assert broker.offered("ADDED") == ["PLAIN"]
    assert broker.lets_in("ADDED", "bob")
    assert not broker.lets_in("ADDED", "alice")


def test_a_standing_listener_stays_as_it_is(broker: Dynamic) -> None:
    assert broker.alter({LOGIN.format("standing"): BOB}) is ErrorCode.NONE
    assert broker.alter({"listener.name.standing.sasl.enabled.mechanisms": "SCRAM-SHA-256"}) is ErrorCode.NONE
    broker.settle()
    assert broker.offered("STANDING") == ["PLAIN"]
    assert broker.lets_in("STANDING", "alice")
    assert not broker.lets_in("STANDING", "bob")


def test_a_standing_listener_is_not_changed_with_others(broker: Dynamic) -> None:
    """What it was made with is not changed together with the list of listeners; its address never is."""
    both = {**broker.listeners("ADDED"), LOGIN.format("added"): ALICE, LOGIN.format("standing"): BOB}
    assert broker.alter(both) is ErrorCode.INVALID_REQUEST
    moved = {
        name: text.replace(f":{broker.ports['STANDING']}", f":{broker.ports['ADDED']}")
        for name, text in broker.listeners().items()
    }
    assert broker.alter(moved) is refused(broker)
    broker.settle()
    assert not broker.is_served("ADDED")
    assert broker.lets_in("STANDING", "alice")


def test_what_is_each_broker_s_own_and_what_is_of_the_file(broker: Dynamic) -> None:
    for key in ("sasl.enabled.mechanisms", "sasl.jaas.config", LOGIN.format("added")):
        assert broker.alter({key: ALICE}, resource="") is ErrorCode.INVALID_REQUEST
    for key in ("sasl.server.callback.handler.class", "sasl.server.max.receive.size", LIMIT, "sasl.login.class"):
        assert broker.alter({key: "1000"}) is ErrorCode.INVALID_REQUEST


def test_mechanisms_of_all_listeners_are_those_of_new_ones(broker: Dynamic) -> None:
    assert broker.alter({"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}) is ErrorCode.NONE
    oauth = {"listener.name.added.oauthbearer.sasl.jaas.config": jaas("OAUTHBEARER")}
    assert broker.alter({**broker.listeners("ADDED"), LOGIN.format("added"): ALICE, **oauth}) is ErrorCode.NONE
    broker.settle()
    assert broker.offered("ADDED") == ["OAUTHBEARER", "PLAIN"]
    assert broker.offered("STANDING") == ["PLAIN"]


WITHOUT_LOGIN: dict[str, dict[str, str]] = {
    "none": {},
    "of no mechanism": {"sasl.jaas.config": ALICE},
    "no login module": {LOGIN.format("added"): "alice-secret"},
    "with another mechanism": {
        LOGIN.format("added"): ALICE, "listener.name.added.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"
    },
}  # fmt: skip


def test_a_listener_that_nobody_could_log_in_to_is_not_served(broker: Dynamic) -> None:
    """Those that are there go on, nobody is sent to it, and the next that can be served is."""
    for case, login in WITHOUT_LOGIN.items():
        asked = {**broker.listeners("ADDED"), **login}
        assert broker.alter(asked) is refused(broker), case
        broker.settle()
        assert not broker.is_served("ADDED"), case
        assert broker.told() == [broker.ports["PLAINTEXT"]]
        assert broker.lets_in("STANDING", "alice")
        assert broker.alter(dict.fromkeys(asked)) is ErrorCode.NONE
        broker.settle()
    assert broker.alter({**broker.listeners("ADDED"), LOGIN.format("added"): ALICE}) is ErrorCode.NONE
    broker.settle()
    assert broker.lets_in("ADDED", "alice")


def test_a_port_that_somebody_has(broker: Dynamic) -> None:
    with socket.create_server((HOST, broker.ports["TAKEN"])):
        assert broker.alter(broker.listeners("TAKEN")) is refused(broker)
        broker.settle()
        assert broker.told() == [broker.ports["PLAINTEXT"]]
        assert broker.lets_in("STANDING", "alice")
    broker.alter(broker.listeners())
    broker.settle()


def test_a_login_is_shown_to_nobody(broker: Dynamic) -> None:
    """Kafka's log shows it."""
    assert broker.alter({LOGIN.format("added"): ALICE}) is ErrorCode.NONE
    broker.settle()
    asked = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="0", configuration_keys=None)
    with broker.connect() as connection:
        (result,) = connection.call(DescribeConfigsRequest(resources=[asked], include_synonyms=True), 4).results
    assert LOGIN.format("added") in {each.name for each in result.configs}
    assert "-secret" not in repr(result)
    if broker.broker.kind == "odradek":
        assert "-secret" not in broker.broker.log_file.read_text()


def test_what_was_set_holds_from_the_next_start(running: Dynamic) -> None:
    """The last test of a broker: its standing listener has another login afterwards."""
    assert running.alter({**running.listeners("ADDED"), LOGIN.format("added"): ALICE}) is ErrorCode.NONE
    running.settle()
    # Kafka takes no other listeners after this.
    assert running.alter({LOGIN.format("standing"): BOB}) is ErrorCode.NONE
    running.settle()
    running.broker.stop()
    running.broker.start()
    running.broker.wait_listening()
    for listener, user, other in (("STANDING", "bob", "alice"), ("ADDED", "alice", "bob")):
        assert wait_until(lambda name=listener: running.is_served(name), CLOCK, WAIT_MS)  # type: ignore[misc]
        assert running.lets_in(listener, user)
        assert not running.lets_in(listener, other)
