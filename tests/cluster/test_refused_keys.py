"""A promise of security that lies in ZooKeeper is not broken in silence either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.support.cluster import Cluster, Kind, running_cluster
from tests.support.zookeeper import zookeeper_client


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("listener.security.protocol.map", "PLAINTEXT:SASL_PLAINTEXT", "(for GSSAPI of the listener PLAINTEXT)")],
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


@pytest.mark.parametrize("kind", ["odradek", "kafka"])
def test_a_password_that_cannot_be_decoded_is_ignored(zookeeper: str, tmp_path: Path, kind: Kind) -> None:
    """At the start and while a broker runs; what stands beside it is in force."""
    name = "listener.name.plaintext.ssl.keystore.password"
    connect = f"{zookeeper}/{tmp_path.name}"
    config = {"version": 1, "config": {name: "not-encoded", "log.cleaner.threads": "2"}}
    with zookeeper_client(connect) as client:
        client.create("/config/brokers/0", json.dumps(config).encode(), makepath=True)
    with running_cluster([kind], tmp_path / "brokers", connect, {"password.encoder.secret": "s"}) as cluster:
        (broker,) = cluster.brokers
        told = [line for line in broker.log_file.read_text().splitlines() if name in line and "ERROR" in line]
        assert told
        assert "not-encoded" not in broker.log_file.read_text()
        with cluster.client() as client:
            resource = DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=None)
            (result,) = client.call_broker(0, DescribeConfigsRequest(resources=[resource])).results
        values = {each.name: each.value for each in result.configs}
        assert values["log.cleaner.threads"] == "2"
