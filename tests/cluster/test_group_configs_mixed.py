"""Configs of groups and of client metrics in a cluster with brokers of Apache Kafka 3.9.1, which know neither."""

from __future__ import annotations

import json
from pathlib import Path

from broker.dev.polling import wait_until
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.support.cluster import CLOCK, Cluster, running_cluster
from tests.support.configs import BROKER, GROUP, alter_config
from tests.support.consumer_protocol import SETTINGS
from tests.support.zookeeper import zookeeper_client

CLIENT_METRICS = 16
HEARTBEAT = "consumer.heartbeat.interval.ms"
PATIENCE_MS = 60_000


def value(cluster: Cluster, broker: int, kind: int, resource: str, name: str) -> str | None:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=resource, configuration_keys=[name])]
    )
    with cluster.client() as client:
        (result,) = client.call_broker(broker, request).results
    return result.configs[0].value if result.configs else None


def test_kafka_goes_on_as_if_nothing_were_there(zookeeper: str, tmp_path: Path) -> None:
    """Kafka's broker runs through changes of such configs and starts with them there; it never meets one."""
    chroot = f"{zookeeper}/group-configs"
    own = {broker: {**SETTINGS, "odradek.client.telemetry.enable": "true"} for broker in (1, 2)}
    with running_cluster(["kafka", "odradek", "odradek"], tmp_path, chroot, broker_settings=own) as cluster:
        kafka = cluster.brokers[0]
        alter_config(cluster.brokers[1], GROUP, "g", **{HEARTBEAT: "500"})
        alter_config(cluster.brokers[1], CLIENT_METRICS, "s", metrics="org.a")
        for broker in (1, 2):
            assert value(cluster, broker, CLIENT_METRICS, "s", "metrics") == "org.a"
            assert value(cluster, broker, GROUP, "g", HEARTBEAT) == "500"
        kafka.stop()
        kafka.start()
        cluster.wait_ready()
        alter_config(cluster.brokers[1], GROUP, "g", **{HEARTBEAT: "600"})
        alter_config(cluster.brokers[1], CLIENT_METRICS, "s", metrics="org.b")
        # What follows the group's change is seen.
        alter_config(cluster.brokers[1], BROKER, "", log_retention_ms="54321")
        assert wait_until(lambda: value(cluster, 0, BROKER, "0", "log.retention.ms") == "54321", CLOCK, PATIENCE_MS), (
            "Kafka applies the configs of brokers"
        )
        with zookeeper_client(chroot) as client:
            stored, _ = client.get("/config/groups/g")
            assert json.loads(stored) == {"version": 1, "config": {HEARTBEAT: "600"}}
            for name in client.get_children("/config/changes"):
                content, _ = client.get(f"/config/changes/{name}")
                assert b"groups/" not in content
                assert b"client-metrics/" not in content
        errors = [line for line in kafka.log_file.read_text().splitlines() if " ERROR " in line]
        assert not [line for line in errors if "group" in line or "config" in line or "metrics" in line], errors
