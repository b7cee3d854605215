"""What clients make of a broker without security: Kafka's shell tools, librdkafka and kafka-python."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.reference import kafka
from tests.support.cluster import Cluster
from tests.support.zookeeper import zookeeper_client

confluent_admin = pytest.importorskip("confluent_kafka.admin")
kafka_python = pytest.importorskip("kafka")

CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "kafka.admin.AclCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
WAIT_S = 30
CREDENTIAL = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=4096"


@pytest.fixture(scope="module")
def entities(cluster: Cluster) -> Cluster:
    """The cluster, with quotas and a SCRAM credential in ZooKeeper."""
    stored = {
        "users/carol": {"request_percentage": "150.0"},
        "users/scram": {"SCRAM-SHA-256": CREDENTIAL},
        "users/carol/clients/<default>": {"controller_mutation_rate": "10.0"},
        "clients/app": {"consumer_byte_rate": "2097152"},
        "ips/127.0.0.9": {"connection_creation_rate": "100"},
    }
    with zookeeper_client(cluster.zookeeper) as client:
        for path, config in stored.items():
            client.ensure_path(f"/config/{path}")
            client.set(f"/config/{path}", json.dumps({"version": 1, "config": config}).encode())
    return cluster


def run(cluster: Cluster, main_class: str, *arguments: str) -> tuple[int, str]:
    done = kafka.run_tool(main_class, "--bootstrap-server", cluster.bootstrap, *arguments)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["users"],
            [
                "Quota configs for user-principal 'carol' are request_percentage=150.0",
                "SCRAM credential configs for user-principal 'scram' are SCRAM-SHA-256=iterations=4096",
            ],
        ),
        (["clients"], ["Quota configs for client-id 'app' are consumer_byte_rate=2097152.0"]),
        (["ips"], ["Quota configs for ip '127.0.0.9' are connection_creation_rate=100.0"]),
        (
            ["users", "--entity-name", "carol", "--entity-type", "clients", "--entity-default"],
            ["Quota configs for user-principal 'carol', the default client-id are controller_mutation_rate=10.0"],
        ),
    ],
)
def test_kafka_configs_describes_users_clients_and_ips(
    entities: Cluster, arguments: list[str], lines: list[str]
) -> None:
    code, shown = run(entities, CONFIGS, "--describe", "--entity-type", *arguments)
    assert (code, sorted(shown.splitlines())) == (0, sorted(lines))


def test_kafka_acls_says_that_there_is_no_authorizer(cluster: Cluster) -> None:
    code, shown = run(cluster, ACLS, "--list")
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in shown
    assert code == 1
    code, shown = run(cluster, ACLS, "--add", "--allow-principal", "User:x", "--operation", "Read", "--topic", "t")
    assert "SecurityDisabledException: No Authorizer is configured." in shown
    assert code == 1


def test_kafka_delegation_tokens_are_refused_on_plaintext(cluster: Cluster) -> None:
    shown = kafka.run_tool(
        TOKENS, "--bootstrap-server", cluster.bootstrap, "--describe", "--command-config", "/dev/null"
    )
    assert "Delegation Token requests are not allowed" in shown.stdout + shown.stderr
    assert shown.returncode == 1


def test_librdkafka(entities: Cluster) -> None:
    from confluent_kafka.admin import (
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    admin = confluent_admin.AdminClient({"bootstrap.servers": entities.bootstrap})
    anything: Any = None  # which its stub does not allow
    wanted = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        anything,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    # librdkafka leaves the error of the whole request to itself.
    assert admin.describe_acls(wanted, request_timeout=WAIT_S).result(WAIT_S) == []
    found: dict[str, Any] = admin.describe_user_scram_credentials(request_timeout=WAIT_S).result(WAIT_S)
    assert {user: [info.iterations for info in each.scram_credential_infos] for user, each in found.items()} == {
        "scram": [4096]
    }


def test_kafka_python(entities: Cluster) -> None:
    from kafka.admin import (
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePatternFilter,
        ResourceType,
    )

    admin = kafka_python.KafkaAdminClient(bootstrap_servers=entities.bootstrap)
    try:
        everything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        wanted = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, everything)
        with pytest.raises(kafka_python.errors.SecurityDisabledError, match="No Authorizer is configured"):
            admin.describe_acls(wanted)
        assert list(admin.describe_user_scram_credentials(["scram"])) == ["scram"]
    finally:
        admin.close()
