"""Client telemetry (KIP-714), which a broker has with `odradek.client.telemetry.enable`.

Answers and texts are those that a running Kafka 3.9.1 in KRaft mode gave to the same requests; in ZooKeeper mode, where
it offers none of the APIs, `test_discovery.py` compares both kinds.
"""

from __future__ import annotations

import gzip
import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from network.client.connection import Connection
from network.protocol.errors import ErrorCode as E
from network.protocol.messages import alter_configs
from network.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from network.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from network.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from network.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from network.protocol.messages.list_client_metrics_resources import ListClientMetricsResourcesRequest
from network.protocol.messages.push_telemetry import PushTelemetryRequest
from tests.contract.test_command_line import odradek
from tests.reference import kafka
from tests.support import wire
from tests.support.cluster import CLOCK, HOST, Broker, Cluster, running_cluster
from tests.support.secured import connect_from

confluent_kafka = pytest.importorskip("confluent_kafka")

KEYS = (71, 72, 74)
CLIENT_METRICS = 16
SET, DELETE, APPEND = 0, 1, 2
WAIT_MS = 60_000
STRANGER = "127.0.1.9"
RECORDS = 300
# One gauge `org.x` of 3: resource_metrics, scope_metrics, metrics, of them name and gauge with as_int.
ONE_POINT = bytes.fromhex("0a18 1216 1214 0a056f72672e78 2a0b 0a09 31 0300000000000000".replace(" ", ""))


class World(NamedTuple):
    cluster: Cluster
    broker: Broker
    port: int


@pytest.fixture(scope="module")
def world(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    (port,) = free_ports(1)
    settings = {
        "odradek.client.telemetry.enable": "true",
        "odradek.http.port": str(port),
        "telemetry.max.bytes": "100000",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    directory = tmp_path_factory.mktemp("telemetry")
    with running_cluster(["odradek"], directory, f"{zookeeper}/telemetry", settings) as cluster:
        yield World(cluster, cluster.brokers[0], port)


def alter(world: World, name: str, *changes: tuple[str, int, str | None], dry: bool = False) -> tuple[E, str | None]:
    configs = [AlterableConfig(name=key, config_operation=kind, value=value) for key, kind, value in changes]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry)
    (result,) = wire.call(world.broker, request, 1).responses
    return E.of(result.error_code), result.error_message


def replace(world: World, name: str, **configs: str) -> tuple[E, str | None]:
    """AlterConfigs, with `_` for `.`."""
    resource = alter_configs.AlterConfigsResource(
        resource_type=CLIENT_METRICS,
        resource_name=name,
        configs=[alter_configs.AlterableConfig(name=key.replace("_", "."), value=v) for key, v in configs.items()],
    )
    (result,) = wire.call(world.broker, alter_configs.AlterConfigsRequest(resources=[resource]), 2).responses
    return E.of(result.error_code), result.error_message


def described(world: World, name: str) -> dict[str, tuple[str | None, int, int, bool]]:
    resource = DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None)
    (result,) = wire.call(world.broker, DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results
    assert result.error_code == 0, result.error_message
    assert not any(each.synonyms for each in result.configs)
    return {each.name: (each.value, each.config_source, each.config_type, each.read_only) for each in result.configs}


def listed(world: World) -> list[str]:
    answer = wire.call(world.broker, ListClientMetricsResourcesRequest(), 0)
    assert answer.error_code == 0
    return [each.name for each in answer.client_metrics_resources]


def wait_listed(world: World, *names: str) -> None:
    assert wait_until(lambda: listed(world) == sorted(names), CLOCK, WAIT_MS), listed(world)


@pytest.fixture(autouse=True)
def nothing_subscribed(world: World) -> Iterator[None]:
    yield
    for name in listed(world):
        assert replace(world, name) == (E.NONE, None)
    wait_listed(world)


def pushed(world: World, client_id: str) -> dict[str, float]:
    """The series of one client, those of a topic or node left out."""
    with urllib.request.urlopen(f"http://{HOST}:{world.port}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.labels.get("client_id") == client_id and len(sample.labels) == 6
    }


def test_the_apis_are_offered(world: World) -> None:
    offered = {each.api_key: each.max_version for each in wire.call(world.broker, wire.ASK_VERSIONS, 3).api_keys}
    assert [offered.get(key) for key in KEYS] == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (("interval.ms", SET, "99"), E.INVALID_REQUEST,
         "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)"),
        (("interval.ms", SET, "3600001"), E.INVALID_REQUEST,
         "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)"),
        (("match", SET, ""), E.INVALID_CONFIG, "Illegal client matching pattern: "),
        (("match", SET, "client_id"), E.INVALID_CONFIG, "Illegal client matching pattern: client_id"),
        (("match", SET, "bad=x"), E.INVALID_CONFIG, "Illegal client matching pattern: bad=x"),
        (("match", SET, "client_id=("), E.INVALID_CONFIG, "Illegal client matching pattern: client_id=("),
        (("nokey", SET, "1"), E.INVALID_REQUEST, "Unknown client metrics configuration: nokey"),
        (("metrics", APPEND, "a"), E.INVALID_CONFIG, "Can't APPEND to key metrics because its type is not LIST."),
        (("nokey", DELETE, None), E.NONE, None),
    ],
)  # fmt: skip
def test_configs_are_checked(world: World, change: tuple[str, int, str | None], code: E, text: str | None) -> None:
    assert alter(world, "s", change) == (code, text)
    assert alter(world, "", change)[0] in (E.INVALID_REQUEST, E.INVALID_CONFIG)


def test_subscriptions_come_and_go(world: World) -> None:
    assert alter(world, "dry", ("metrics", SET, "*"), dry=True) == (E.NONE, None)
    for name in ("s", "..", "a name/x"):
        assert alter(world, name, ("metrics", SET, "org.a,org.b"), ("interval.ms", SET, "100")) == (E.NONE, None)
    wait_listed(world, "s", "..", "a name/x")
    for name in ("s", "..", "a name/x"):
        assert described(world, name) == {"interval.ms": ("100", 7, 0, False), "metrics": ("org.a,org.b", 7, 0, False)}
    assert alter(world, "s", ("metrics", DELETE, None), ("interval.ms", DELETE, None)) == (E.NONE, None)
    assert replace(world, "..") == (E.NONE, None)
    wait_listed(world, "a name/x")
    assert described(world, "s") == {}
    assert replace(world, "a name/x", interval_ms="200") == (E.NONE, None)
    assert described(world, "a name/x") == {"interval.ms": ("200", 7, 0, False)}


def test_commands(world: World) -> None:
    entity = ("--client-metrics", "mine")
    assert "+ interval.ms=500" in odradek(world.cluster, "configs", "set", "interval.ms=500", *entity, "--dry-run")
    assert "Changed" in odradek(world.cluster, "configs", "set", "interval.ms=500", "metrics=org.a", *entity)
    wait_listed(world, "mine")
    shown = odradek(world.cluster, "configs", "describe", "--entity-type", "client-metrics")
    assert shown.splitlines() == [
        "client-metrics mine:",
        "  interval.ms=500  (DYNAMIC_CLIENT_METRICS_CONFIG)",
        "  metrics=org.a  (DYNAMIC_CLIENT_METRICS_CONFIG)",
    ]
    assert "client_id=(" in odradek(world.cluster, "configs", "set", "match=client_id=(", *entity, code=1)
    theirs = ("org.apache.kafka.tools.ClientMetricsCommand", "--bootstrap-server", world.cluster.bootstrap)
    assert kafka.run_tool(*theirs, "--list").stdout.split() == ["mine"]
    odradek(world.cluster, "configs", "delete", "interval.ms", "metrics", *entity)
    wait_listed(world)


def test_a_push_is_shown_and_refused_as_kafka_refuses_it(world: World) -> None:
    """What is in time, and what of several faults is told: tests/unit/broker/telemetry/test_clients.py."""
    assert alter(world, "s", ("metrics", SET, "org.a"), ("match", SET, "client_id=raw.*")) == (E.NONE, None)
    wait_listed(world, "s")
    with Connection(HOST, world.broker.port, "other", CLOCK) as connection:
        answer = connection.call(GetTelemetrySubscriptionsRequest(), 0)
        assert (answer.requested_metrics, answer.push_interval_ms) == ([], 300_000)
    with Connection(HOST, world.broker.port, "raw-1", CLOCK) as connection:
        answer = connection.call(GetTelemetrySubscriptionsRequest(), 0)
        assert answer.error_code == E.NONE
        assert answer.client_instance_id != bytes(16)
        assert answer.accepted_compression_types == [4, 3, 1, 2]
        assert (answer.push_interval_ms, answer.telemetry_max_bytes) == (300_000, 100_000)
        assert (answer.delta_temporality, answer.requested_metrics) == (True, ["org.a"])
        again = connection.call(GetTelemetrySubscriptionsRequest(client_instance_id=answer.client_instance_id), 0)
        assert again.error_code == E.THROTTLING_QUOTA_EXCEEDED
        assert (again.client_instance_id, again.subscription_id, again.requested_metrics) == (bytes(16), 0, [])

        def push(data: bytes, codec: int = 0, *, terminating: bool = True, client: bytes | None = None) -> E:
            request = PushTelemetryRequest(
                client_instance_id=answer.client_instance_id if client is None else client,
                subscription_id=answer.subscription_id,
                terminating=terminating,
                compression_type=codec,
                metrics=data,
            )
            return E.of(connection.call(request, 0).error_code)

        assert push(gzip.compress(ONE_POINT), 1, terminating=False) is E.NONE
        assert pushed(world, "raw-1") == {"client_org_x": 3.0}
        assert push(b"") is E.NONE
        assert push(b"") is E.INVALID_REQUEST
        for reserved in (bytes(16), bytes(15) + b"\1"):
            assert push(b"", client=reserved) is E.INVALID_REQUEST
        assert push(b"", client=bytes(range(16))) is E.UNKNOWN_SUBSCRIPTION_ID


def test_librdkafka_and_the_java_client_push_unasked(world: World) -> None:
    topic = wire.create_topic(world.cluster)
    changes = (("metrics", SET, "*"), ("interval.ms", SET, "500"), ("match", SET, "client_id=(java|confluent)"))
    assert alter(world, "all", *changes) == (E.NONE, None)
    wait_listed(world, "all")
    producer = confluent_kafka.Producer({"bootstrap.servers": world.cluster.bootstrap, "client.id": "confluent"})
    name = "org_apache_kafka_producer_connection_creation_total"

    def has_pushed() -> bool:
        producer.produce(topic, b"x")
        producer.poll(0.1)
        return name in pushed(world, "confluent")

    assert wait_until(has_pushed, CLOCK, WAIT_MS)
    assert producer.flush(30) == 0
    done = kafka.run_tool(
        "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(RECORDS),
        "--record-size", "50", "--throughput", "150", "--producer-props",
        f"bootstrap.servers={world.cluster.bootstrap}", "client.id=java",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # Differences that are added up. The push with which the client ends does not come while another is pending.
    assert 0 < pushed(world, "java")["org_apache_kafka_producer_record_send_total"] <= RECORDS


def test_everybody_may_push_and_not_everybody_may_list(world: World) -> None:
    cluster, kafka_cluster, everything, describe_configs, literal, deny, allow = 4, "kafka-cluster", 2, 10, 3, 2, 3
    acls = [
        AclCreation(
            resource_type=cluster,
            resource_name=kafka_cluster,
            resource_pattern_type=literal,
            principal="User:ANONYMOUS",
            host=host,
            operation=operation,
            permission_type=permission,
        )
        for host, operation, permission in (("*", everything, allow), (STRANGER, describe_configs, deny))
    ]
    answer = wire.call(world.broker, CreateAclsRequest(creations=acls), 3)
    assert [result.error_code for result in answer.results] == [0, 0]
    resource = DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name="s", configuration_keys=None)
    with connect_from(STRANGER, world.broker) as connection:

        def may_not() -> bool:
            return bool(connection.call(ListClientMetricsResourcesRequest(), 0).error_code)

        assert wait_until(may_not, CLOCK, WAIT_MS)
        refused = connection.call(ListClientMetricsResourcesRequest(), 0)
        assert (refused.error_code, refused.client_metrics_resources) == (E.CLUSTER_AUTHORIZATION_FAILED, [])
        (described,) = connection.call(DescribeConfigsRequest(resources=[resource]), 4).results
        assert described.error_code == E.CLUSTER_AUTHORIZATION_FAILED
        assert connection.call(GetTelemetrySubscriptionsRequest(), 0).error_code == E.NONE
