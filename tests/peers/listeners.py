"""Brokers with listeners of every protocol, for suites that try TLS and logins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker.dev.processes import free_ports
from tests.support.certificates import Authority, Identity, server_settings
from tests.support.cluster import HOST, Cluster
from tests.support.sasl import jaas

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAMS)
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:admin;User:ANONYMOUS",
}


def add_listeners(
    cluster: Cluster, users: Mapping[str, str], ports: Mapping[int, Mapping[str, int]] | None = None, host: str = HOST
) -> tuple[Authority, Identity]:
    """Add PROTOCOLS beside PLAINTEXT, with users of PLAIN; who signs certificates, and one for a client.

    `ports` are by broker id and protocol, PLAINTEXT among them; free ones otherwise.
    """
    authority = Authority()
    folder = cluster.brokers[0].directory.parent / "keys"
    shared = server_settings(authority.issue(), authority, folder)
    plain = {f"user_{user}": password for user, password in users.items()}
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        for mechanism in MECHANISMS:
            options = {"username": "admin", "password": "admin", **(plain if mechanism == "PLAIN" else {})}
            key = f"listener.name.{protocol.lower()}.{mechanism.lower()}.sasl.jaas.config"
            shared[key] = jaas(mechanism, **options)
    for broker in cluster.brokers:
        own = dict(ports[broker.broker_id]) if ports else {}
        if own:
            broker.port = own["PLAINTEXT"]
            broker.address = f"{HOST}:{broker.port}"
        else:
            own = {"PLAINTEXT": broker.port, **dict(zip(PROTOCOLS, free_ports(len(PROTOCOLS)), strict=True))}
        broker.settings |= {
            **shared,
            "listeners": ",".join(f"{protocol}://{HOST}:{port}" for protocol, port in own.items()),
            "advertised.listeners": ",".join(f"{protocol}://{host}:{port}" for protocol, port in own.items()),
        }
    return authority, authority.issue("client")


def port_of(cluster: Cluster, protocol: str) -> int:
    """Of the first broker's listener."""
    listeners = dict(each.split("://") for each in cluster.brokers[0].settings["listeners"].split(","))
    return int(listeners[protocol].rpartition(":")[2])


def write_client_keys(folder: Path, authority: Authority, client: Identity) -> None:
    """``ca.crt``, ``client.crt`` and ``client.key``, all PEM."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ca.crt").write_text(authority.pem)
    (folder / "client.crt").write_text(client.chain_pem)
    (folder / "client.key").write_text(client.key_pem())
