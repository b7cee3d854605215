"""A broker whose key store and its password are changed while it runs, by either kind, and whose process is of the
other kind the next time: what one has encoded in ZooKeeper the other decodes."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from network.protocol.errors import ErrorCode
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.certificates import Authority, Identity, of_listener, server_settings
from tests.support.cluster import CLOCK, HOST, Cluster, Kind
from tests.support.zookeeper import zookeeper_client

PASSWORD_KEYS = ("ssl.keystore.password", "ssl.key.password")


def store(identity: Identity, path: Path, password: str) -> dict[str, str]:
    protection = BestAvailableEncryption(password.encode())
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(b"own", identity.key, identity.certificate, [identity.issuer], protection)
    )
    return of_listener("tls", {"ssl.keystore.location": str(path), **dict.fromkeys(PASSWORD_KEYS, password)})


def alter(cluster: Cluster, settings: dict[str, str], name: str = "0") -> tuple[int, str]:
    configs = [AlterableConfig(name=key, config_operation=0, value=value) for key, value in settings.items()]
    resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=configs)
    with cluster.client() as client:
        (result,) = client.call_broker(0, IncrementalAlterConfigsRequest(resources=[resource])).responses
    return result.error_code, result.error_message or ""


def shows(port: int, identity: Identity) -> bool:
    """Whether the broker shows this certificate to who asks now."""
    shown = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((HOST, port)))
    return ssl.DER_cert_to_PEM_cert(shown) in identity.chain_pem


def stored(cluster: Cluster) -> dict[str, str]:
    with zookeeper_client(cluster.zookeeper) as client:
        config: dict[str, str] = json.loads(client.get("/config/brokers/0")[0])["config"]
    return config


def test_passwords_are_handed_on(zookeeper: str, tmp_path: Path) -> None:
    authority = Authority()
    identities = [authority.issue("broker-0") for _ in range(4)]
    plain, port = free_ports(2)
    settings = {
        "listeners": f"PLAINTEXT://{HOST}:{plain},TLS://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL",
        "password.encoder.secret": "first secret",
        **of_listener("tls", server_settings(identities[0], authority, tmp_path / "keys")),
    }
    cluster = Cluster(["kafka"], tmp_path, f"{zookeeper}/dynamic-passwords", settings)
    (broker,) = cluster.brokers
    broker.port, broker.address = plain, f"{HOST}:{plain}"

    def change(number: int) -> None:
        password = f"pass, word={number}"
        assert alter(cluster, store(identities[number], tmp_path / f"{number}.p12", password)) == (0, "")
        assert wait_until(lambda: shows(port, identities[number]), CLOCK, 30_000)
        assert password not in str(stored(cluster))
        assert password not in broker.log_file.read_text()

    def start_as(kind: Kind) -> None:
        broker.stop()
        broker.kind = kind
        cluster.start()

    try:
        cluster.start()
        change(1)
        broker.settings |= {"password.encoder.secret": "second", "password.encoder.old.secret": "first secret"}
        before = stored(cluster)
        start_as("odradek")
        assert shows(port, identities[1])
        secret = f"listener.name.tls.{PASSWORD_KEYS[0]}"
        assert wait_until(lambda: stored(cluster)[secret] != before[secret], CLOCK, 30_000)
        del broker.settings["password.encoder.old.secret"]
        change(2)
        wrong = {secret: "wrong", f"listener.name.tls.{PASSWORD_KEYS[1]}": "wrong"}
        code, text = alter(cluster, wrong)
        assert code == ErrorCode.INVALID_REQUEST
        assert "wrong" not in text
        assert alter(cluster, wrong, "")[0] == ErrorCode.INVALID_REQUEST
        start_as("kafka")
        assert shows(port, identities[2])
        change(3)
    finally:
        cluster.stop()
