"""A promise of security that lies in ZooKeeper is not broken in silence either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.zookeeper import zookeeper_client


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("listener.name.plaintext.ssl.keystore.password", "x", "password.encoder.secret is not set"),
        ("listener.security.protocol.map", "PLAINTEXT:SASL_PLAINTEXT", "has GSSAPI, which this broker does not serve"),
    ],
)
def test_a_broker_with_dynamic_security_does_not_start(
    zookeeper: str, tmp_path: Path, name: str, value: str, text: str
) -> None:
    connect = f"{zookeeper}/{tmp_path.name}"
    with zookeeper_client(connect) as client:
        client.create("/config/brokers/0", json.dumps({"version": 1, "config": {name: value}}).encode(), makepath=True)
    (broker,) = Cluster(["odradek"], tmp_path, connect).brokers
    broker.fail_to_start()
    lines = [line for line in broker.log_tail().splitlines() if "could not be started" in line]
    assert len(lines) == 1
    assert text in lines[0]
    assert "Traceback" not in broker.log_tail()
