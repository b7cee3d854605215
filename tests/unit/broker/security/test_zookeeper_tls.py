"""What `zookeeper.ssl.*`, or the system properties that they stand for, make of the connection to ZooKeeper."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.security.zookeeper_tls import ZooKeeperTls, zookeeper_tls
from tests.support.certificates import PASSWORD, Authority

BASE = {"zookeeper.connect": "127.0.0.1:1", "broker.id": "1"}
ENABLED = {"zookeeper.ssl.client.enable": "true"}
NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"


def made(settings: dict[str, str], options: str = "") -> ZooKeeperTls | None:
    return zookeeper_tls(KafkaConfig({**BASE, **settings}), {"KAFKA_OPTS": options})


def context(settings: dict[str, str], options: str = "") -> ssl.SSLContext:
    tls = made(settings, options)
    assert tls is not None
    return tls()


def test_versions_and_names() -> None:
    default = context(ENABLED)
    assert (default.minimum_version, default.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    assert default.check_hostname
    assert default.verify_mode is ssl.CERT_REQUIRED
    newest = context({**ENABLED, "zookeeper.ssl.protocol": "TLSv1.3"})
    assert newest.minimum_version is ssl.TLSVersion.TLSv1_3
    both = context({**ENABLED, "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3"})
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    unnamed = context({**ENABLED, "zookeeper.ssl.endpoint.identification.algorithm": ""})
    assert not unnamed.check_hostname
    assert unnamed.verify_mode is ssl.CERT_REQUIRED


def test_system_properties_stand_behind_the_keys() -> None:
    options = "-Dzookeeper.client.secure=true -Dzookeeper.ssl.enabledProtocols=TLSv1.3"
    assert context({}, options).minimum_version is ssl.TLSVersion.TLSv1_3
    assert not context({}, f"{options} -Dzookeeper.ssl.hostnameVerification=false").check_hostname
    own = {"zookeeper.ssl.enabled.protocols": "TLSv1.2"}
    assert context(own, options).maximum_version is ssl.TLSVersion.TLSv1_2
    assert made({"zookeeper.ssl.client.enable": "false"}, options) is None


def test_without_tls_its_keys_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert made({}) is None
    assert not caplog.records
    assert made({"zookeeper.ssl.keystore.location": "/k.p12"}) is None
    assert caplog.messages == ["zookeeper.ssl.keystore.location has no effect without zookeeper.ssl.client.enable"]


def test_a_certificate_is_shown_with_the_three_keys_of_kafka(tmp_path: Path) -> None:
    location = Authority().issue().pkcs12_file(tmp_path / "own.p12")
    keys = {
        **ENABLED,
        "zookeeper.clientCnxnSocket": NETTY,
        "zookeeper.ssl.keystore.location": str(location),
        "zookeeper.ssl.keystore.password": PASSWORD,
    }
    tls = made(keys)
    assert tls is not None
    assert tls.authenticates
    for missing in ("zookeeper.clientCnxnSocket", "zookeeper.ssl.keystore.location"):
        tls = made({name: value for name, value in keys.items() if name != missing})
        assert tls is not None
        assert not tls.authenticates


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"}, f"needs .*{NETTY}"),
        ({"zookeeper.clientCnxnSocket": "own.Socket"}, "zookeeper.clientCnxnSocket is set, but cannot be honoured"),
        (
            {"zookeeper.ssl.keystore.location": "/none.p12"},
            "^zookeeper.ssl.keystore.location: /none.p12 cannot be read",
        ),
        ({"zookeeper.ssl.truststore.location": "/none"}, "^zookeeper.ssl.truststore.type is not set"),
        ({"zookeeper.ssl.truststore.location": "/none", "zookeeper.ssl.truststore.type": "BCFKS"}, "must be one of"),
        ({"zookeeper.ssl.protocol": "SSLv3"}, "^zookeeper.ssl.enabled.protocols: SSLv3"),
        ({"zookeeper.ssl.cipher.suites": "NONE"}, "^zookeeper.ssl.cipher.suites"),
        ({"zookeeper.ssl.endpoint.identification.algorithm": "LDAPS"}, "^zookeeper.ssl.endpoint.identification"),
        ({"zookeeper.ssl.crl.enable": "true"}, "revoked"),
    ],
)
def test_what_ends_the_start(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made({**ENABLED, **settings})


def test_a_password_is_in_no_text(tmp_path: Path) -> None:
    location = Authority().issue().pkcs12_file(tmp_path / "own.p12")
    with pytest.raises(ConfigError, match=r"zookeeper\.ssl\.keystore\.location") as caught:
        made(
            {**ENABLED, "zookeeper.ssl.keystore.location": str(location), "zookeeper.ssl.keystore.password": "guessed"}
        )
    assert "guessed" not in str(caught.value)


def test_new_stores_are_read_for_the_next_connection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = Authority("First").pem_file(tmp_path / "ca.pem")
    tls = made({**ENABLED, "zookeeper.ssl.truststore.location": str(file)})
    assert tls is not None
    first = tls()
    assert tls() is first
    Authority("Second authority").pem_file(file)
    second = tls()
    assert second is not first
    file.write_text("no certificate")
    with caplog.at_level(logging.ERROR):
        assert tls() is second
    assert "the old ones stay" in caplog.text
