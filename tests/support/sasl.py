"""Brokers with a SASL listener beside the plain one, and clients that log in."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from broker.dev.processes import free_ports
from network.client.connection import Connection, SocketWrapper
from network.sasl.clients import client_mechanism
from network.sasl.login import log_in
from tests.support.cluster import CLOCK, HOST, Broker, Cluster, Kind

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
MODULES = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    "OAUTHBEARER": OAUTH_MODULE,
}
MECHANISMS = ",".join(MODULES)
LISTENER = "SASL_PLAINTEXT"

USERS = {"alice": "alice-secret", "bob": "bob-secret", "o'b,r": 'p"a,ss', "jürgen": "päß"}
"""Users of PLAIN."""


def jaas(mechanism: str, **options: str) -> str:
    """A login module with its options, as it stands in `sasl.jaas.config`."""
    module = KERBEROS_MODULE if mechanism == "GSSAPI" else MODULES[mechanism]
    return f"{module} required {quoted(options)};"


def quoted(options: Mapping[str, str]) -> str:
    signs = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    escaped = {name: value.translate(signs) for name, value in options.items()}
    return " ".join(f'"{name}"="{value}"' for name, value in escaped.items())


def sasl_settings(broker_port: int, sasl_port: int, advertised: str = HOST, **more: str) -> dict[str, str]:
    """A broker with both listeners, whose users of PLAIN are `USERS`. Clients of SASL are sent to `advertised`."""
    prefix = f"listener.name.{LISTENER.lower()}"
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:{broker_port},{LISTENER}://{HOST}:{sasl_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{broker_port},{LISTENER}://{advertised}:{sasl_port}",
        "sasl.enabled.mechanisms": MECHANISMS,
        "delegation.token.secret.key": "a secret of all brokers",
        f"{prefix}.plain.sasl.jaas.config": jaas(
            "PLAIN",
            username="admin",
            password="admin-secret",
            user_admin="admin-secret",
            **{f"user_{name}": password for name, password in USERS.items()},
        ),
        f"{prefix}.scram-sha-256.sasl.jaas.config": jaas("SCRAM-SHA-256", username="admin", password="admin-secret"),
        f"{prefix}.scram-sha-512.sasl.jaas.config": jaas("SCRAM-SHA-512", username="admin", password="admin-secret"),
        f"{prefix}.oauthbearer.sasl.jaas.config": jaas("OAUTHBEARER", unsecuredLoginStringClaim_sub="admin"),
        **more,
    }
    return {name: _in_a_file(value) for name, value in settings.items()}


def _in_a_file(value: str) -> str:
    """What a properties file takes away has to be there twice, and Java's hold ASCII alone."""
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in value.replace("\\", "\\\\"))


def sasl_port(broker: Broker) -> int:
    return int(broker.settings["listeners"].rpartition(":")[2])


def sasl_address(broker: Broker) -> str:
    return f"{HOST}:{sasl_port(broker)}"


@contextlib.contextmanager
def running_sasl_cluster(
    kinds: list[Kind],
    directory: Path,
    zookeeper: str,
    *,
    java_options: str = "",
    advertised: str = HOST,
    **more: str,
) -> Iterator[Cluster]:
    """A cluster whose brokers have a SASL listener beside the plain one. `java_options` are for Kafka's."""
    cluster = Cluster(kinds, directory, zookeeper)
    for broker, port in zip(cluster.brokers, free_ports(len(kinds)), strict=True):
        broker.settings.update(sasl_settings(broker.port, port, advertised, **more))
        if java_options:
            broker.environment["JAVA_TOOL_OPTIONS"] = java_options
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def logged_in(broker: Broker, mechanism: str, options: Mapping[str, str], client_id: str = "sasl") -> Connection:
    """Raises ConnectionFailed when the broker does not let us in."""
    make = client_mechanism(mechanism, options, CLOCK)

    def wrap(sock: socket.socket, host: str) -> socket.socket:
        log_in(sock, lambda: make(host), client_id)
        return sock

    return Connection(HOST, sasl_port(broker), client_id, CLOCK, wrap=wrap)


def begun_login(wrap: SocketWrapper) -> bytes:
    """What a login sends first; it ends there, for the answer is none."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"\0\0\0\1")
        with pytest.raises(OSError, match="authentication"):
            wrap(ours, "host")
        return theirs.recv(1000)
