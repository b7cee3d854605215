"""Brokers with everything on: SASL_SSL, certificates as principals, an authorizer, tokens, and short quota windows.

Each has four listeners: PLAINTEXT, on which everybody is a super user, for what a test itself has to do; SECURE with
SASL_SSL; MUTUAL with TLS and certificates of clients; OPEN with SASL_PLAINTEXT.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.dev.processes import free_ports
from network.client.connection import Connection
from network.client.security import client_security
from network.protocol.messages.metadata import MetadataRequest
from tests.support import wire
from tests.support.certificates import Authority, Identity, server_settings
from tests.support.cluster import CLOCK, HOST, Broker, Cluster, Kind
from tests.support.sasl import MECHANISMS, MODULES, jaas

SECURE, MUTUAL, OPEN = "SECURE", "MUTUAL", "OPEN"
_NAMES = ("PLAINTEXT", SECURE, MUTUAL, OPEN)
_PROTOCOLS = f"PLAINTEXT:PLAINTEXT,{SECURE}:SASL_SSL,{MUTUAL}:SSL,{OPEN}:SASL_PLAINTEXT"
MAPPING_RULES = "RULE:^CN=(SVC-[^,]+),.*$/$1/L,DEFAULT"
ADMIN = {"username": "admin", "password": "admin-secret"}
"""A super user, of PLAIN."""
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "sasl.enabled.mechanisms": MECHANISMS,
    "delegation.token.secret.key": "a secret of all brokers",
    "listener.security.protocol.map": _PROTOCOLS,
    # Short windows, so that rates settle soon.
    "quota.window.num": "3",
}


@dataclass
class Guarded:
    """The cluster, and its clients' ways in."""

    cluster: Cluster
    authority: Authority
    ports: dict[int, dict[str, int]]
    """By broker id and listener."""

    @property
    def broker(self) -> Broker:
        return self.cluster.brokers[0]

    def address(self, listener: str = SECURE, number: int = 0) -> str:
        return f"{HOST}:{self.ports[number][listener]}"

    def properties(self, mechanism: str, options: Mapping[str, str]) -> dict[str, str]:
        """Of a client of SECURE."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas(mechanism, **options),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.pem,
        }

    def client_file(self, path: Path, mechanism: str, options: Mapping[str, str]) -> Path:
        """The same as `--command-config` takes it."""
        values = self.properties(mechanism, options)
        lines = {name: value.replace("\\", "\\\\").replace("\n", "\\n") for name, value in values.items()}
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return path

    def log_in(
        self, mechanism: str, options: Mapping[str, str], *, number: int = 0, client_id: str = "guarded"
    ) -> Connection:
        """To SECURE. Raises ConnectionFailed when the broker does not let us in."""
        wrap = client_security(self.properties(mechanism, options), CLOCK)
        port = self.ports[number][SECURE]
        return Connection(HOST, port, client_id, CLOCK, wrap=wrap, socket_timeout_ms=wire.TIMEOUT_MS)

    def by_certificate(self, identity: Identity, client_id: str = "guarded") -> Connection:
        """To MUTUAL."""
        values = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.pem,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": identity.key_pem(),
            "ssl.keystore.certificate.chain": identity.chain_pem,
        }
        return Connection(HOST, self.ports[0][MUTUAL], client_id, CLOCK, wrap=client_security(values, CLOCK))


def seen_topics(connection: Connection) -> set[str]:
    """Those that the client may describe."""
    topics = connection.call(MetadataRequest(topics=None), 9).topics
    return {topic.name for topic in topics if not topic.is_internal}


def scram(user: str, password: str) -> dict[str, str]:
    return {"username": user, "password": password}


def bearer(subject: str) -> dict[str, str]:
    """An unsecured token of this subject."""
    return {"unsecuredLoginStringClaim_sub": subject}


def by_token(token_id: str, mac: str) -> dict[str, str]:
    return {"username": token_id, "password": mac, "tokenauth": "true"}


def _listener_settings() -> dict[str, str]:
    found: dict[str, str] = {}
    for listener in (SECURE, OPEN):
        prefix = f"listener.name.{listener.lower()}"
        for mechanism in MODULES:
            options = {"unsecuredLoginStringClaim_sub": "admin"} if mechanism == "OAUTHBEARER" else ADMIN
            users = {"user_admin": ADMIN["password"]} if mechanism == "PLAIN" else {}
            found[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = jaas(mechanism, **options, **users)
    return found


@contextlib.contextmanager
def running_guarded(kinds: list[Kind], directory: Path, zookeeper: str, **more: str) -> Iterator[Guarded]:
    """Started, and stopped at the end."""
    authority = Authority()
    directory.mkdir(parents=True, exist_ok=True)
    tls = server_settings(authority.issue(), authority, directory / "keys")
    settings = {
        **SETTINGS,
        **_listener_settings(),
        **tls,
        f"listener.name.{MUTUAL.lower()}.ssl.client.auth": "required",
        f"listener.name.{MUTUAL.lower()}.ssl.principal.mapping.rules": MAPPING_RULES,
        **more,
    }
    cluster = Cluster(kinds, directory, zookeeper, settings)
    ports: dict[int, dict[str, int]] = {}
    free = free_ports(len(kinds) * len(_NAMES))
    for broker in cluster.brokers:
        own = {name: free.pop() for name in _NAMES}
        ports[broker.broker_id] = own
        broker.port, broker.address = own["PLAINTEXT"], f"{HOST}:{own['PLAINTEXT']}"
        broker.settings["listeners"] = ",".join(f"{name}://{HOST}:{port}" for name, port in own.items())
    try:
        cluster.start()
        yield Guarded(cluster, authority, ports)
    finally:
        cluster.stop()
