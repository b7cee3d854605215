"""ACLs made, listed and removed: by requests, by `odradek acls`, by Kafka's tool; on both kinds of broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.dev.polling import wait_until
from network.protocol.errors import ErrorCode
from network.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from network.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from network.protocol.messages.describe_acls import DescribeAclsRequest
from network.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.contract.test_command_line import odradek
from tests.reference import kafka
from tests.support import wire
from tests.support.acl_matrix import gist
from tests.support.cluster import CLOCK, Cluster
from tests.support.secured import World, connect_from
from tests.support.zookeeper import zookeeper_client

READ, WRITE, DESCRIBE, ALL = 3, 4, 8, 2
TOPIC, GROUP, CLUSTER = 2, 3, 4
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
DENY, ALLOW = 2, 3


def creation(
    name: str,
    principal: str = "User:alice",
    *,
    kind: int = TOPIC,
    pattern: int = LITERAL,
    host: str = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def create(cluster: Cluster, *creations: AclCreation) -> list[tuple[str, str | None]]:
    answer = wire.call(cluster.brokers[0], CreateAclsRequest(creations=list(creations)), 3)
    return [(ErrorCode.of(result.error_code).name, result.error_message) for result in answer.results]


GOOD = [
    creation("x-plain"),
    creation("x-plain"),  # once more
    creation("x-plain", "User:alice", operation=ALL, permission=DENY, host="10.0.0.1"),
    creation("x-pre", "User:bob", pattern=PREFIXED, operation=WRITE),
    creation("x-", "User:*", pattern=PREFIXED, operation=DESCRIBE),
    creation("*", "User:CN=a\"b',c=ü:d", operation=WRITE),
    creation("x g *", "Group:x", kind=GROUP),
    creation("x-plain", "User:x", kind=GROUP, operation=11),
]
BAD = [
    creation("", "User:x"),
    creation("a/b", "User:x"),
    creation("cluster", "User:x", kind=CLUSTER),
    creation("x-bad", "nobody"),
    creation("x-bad", ""),
    # Codes that no version knows: each is refused by itself.
    creation("x-bad", "User:x", kind=9),
    creation("x-bad", "User:x", kind=-2),
    creation("x-bad", "User:x", pattern=9),
    creation("x-bad", "User:x", operation=35),
    creation("x-bad", "User:x", permission=-2),
]
# They are for what is deleted as well: those that match "*" leave the permissions of the tests' own address alone.
FILTERS: list[dict[str, Any]] = [
    {"name": "x-plain"},
    {"name": "x-plain", "pattern": ANY},
    {"name": "x-plain-longer", "pattern": MATCH, "host": "*"},
    {"name": "x-pre-1", "pattern": MATCH, "operation": WRITE},
    {"name": None, "pattern": PREFIXED},
    {"name": None, "pattern": ANY, "principal": "User:alice"},
    {"name": None, "pattern": ANY, "kind": ANY, "permission": DENY, "host": "10.0.0.1"},
    {"name": "x g *", "kind": GROUP, "pattern": MATCH, "host": "*"},
    {"name": "*", "pattern": LITERAL, "principal": "User:CN=a\"b',c=ü:d"},
    {"name": "x-plain", "pattern": -2},
    {"name": "x-plain", "kind": 9},
    {"name": "x-plain", "operation": 35},
]


def filter_of(make: Any, wanted: dict[str, Any]) -> Any:
    return make(
        resource_type_filter=wanted.get("kind", TOPIC),
        resource_name_filter=wanted["name"],
        pattern_type_filter=wanted.get("pattern", LITERAL),
        principal_filter=wanted.get("principal"),
        host_filter=wanted.get("host"),
        operation=wanted.get("operation", 1),
        permission_type=wanted.get("permission", 1),
    )


def rows(resources: Any) -> list[Any]:
    return sorted(
        (
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for each in resources
        for acl in each.acls
    )


def run(cluster: Cluster) -> Any:
    """Everything once, on one kind; what came of it."""
    (broker,) = cluster.brokers
    seen: list[Any] = [create(cluster, *GOOD), create(cluster, *BAD)]
    for wanted in FILTERS:
        seen.append(rows(wire.call(broker, filter_of(DescribeAclsRequest, wanted), 3).resources))
    seen.append(znodes(cluster))
    request = DeleteAclsRequest(filters=[filter_of(DeleteAclsFilter, wanted) for wanted in FILTERS])
    for _ in range(2):
        results = wire.call(broker, request, 3).filter_results
        seen.append([gist(result) for result in results])
    # What is left: the prefix for everybody is removed with its kind, and so is everything else of this test.
    seen.append(znodes(cluster))
    return seen


def znodes(cluster: Cluster) -> dict[str, Any]:
    """The ACLs of this test as ZooKeeper has them, and what was told."""
    chroot = "/" + cluster.zookeeper.partition("/")[2]
    found: dict[str, Any] = {}
    with zookeeper_client(cluster.zookeeper.partition("/")[0]) as client:
        for root in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
            for kind in client.get_children(f"{chroot}{root}"):
                for name in client.get_children(f"{chroot}{root}/{kind}"):
                    if name.startswith("x"):
                        data = json.loads(client.get(f"{chroot}{root}/{kind}/{name}")[0])
                        acls = sorted(json.dumps(acl, sort_keys=True) for acl in data.pop("acls"))
                        found[f"{root}/{kind}/{name}"] = (data, acls)
        for changes in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
            told = [client.get(f"{chroot}{changes}/{name}")[0] for name in client.get_children(f"{chroot}{changes}")]
            found[changes] = sorted({data for data in told if b"x" in data.rpartition(b":")[2] or b'"x' in data})
    return found


def test_requests_and_znodes_are_those_of_kafka(secured: World) -> None:
    results = {kind: run(cluster) for kind, cluster in secured.clusters.items()}
    ours, theirs = results["odradek"], results["kafka"]
    for number, (mine, reference) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == reference, number


def test_any_topic_is_enough_for_an_idempotent_producer(secured: World) -> None:
    """A deny of the same prefix, of the same name, and of everything."""
    host = "127.0.9.1"

    def on(name: str, pattern: int, permission: int) -> AclCreation:
        return creation(name, "User:ANONYMOUS", pattern=pattern, host=host, operation=WRITE, permission=permission)

    steps = [
        [on("i-", PREFIXED, ALLOW)],
        [on("i-", LITERAL, DENY)],
        [on("i", PREFIXED, DENY)],
        [on("j", LITERAL, ALLOW)],
        [on("*", LITERAL, DENY)],
    ]

    def codes(cluster: Cluster) -> list[int]:
        with connect_from(host, cluster.brokers[0]) as connection:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            found = [connection.call(request, 4).error_code]
            for step in steps:
                create(cluster, *step)
                found.append(connection.call(request, 4).error_code)
        wanted = filter_of(DeleteAclsFilter, {"name": None, "kind": ANY, "pattern": ANY, "host": host})
        wire.call(cluster.brokers[0], DeleteAclsRequest(filters=[wanted]), 3)
        return found

    results = {kind: codes(cluster) for kind, cluster in secured.clusters.items()}
    assert results["odradek"] == results["kafka"]
    assert set(results["odradek"]) == {0, int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)}


@pytest.mark.parametrize("kind", ["odradek", "kafka"])
def test_odradek_acls(secured: World, kind: Any) -> None:
    cluster = secured.clusters[kind]
    added = odradek(
        cluster, "acls", "add", "--principal", "User:carol", "--operation", "read", "--operation", "describe",
        "--topic", "cli-", "--pattern", "prefixed", "--group", "cli-g",
    )  # fmt: skip
    assert added == "Added 4 ACLs.\n"
    assert odradek(cluster, "acls", "list", "--topic", "cli-topic", "--pattern", "match").splitlines()[-2:] == [
        "topic cli- (prefixed): allow User:carol describe from *",
        "topic cli- (prefixed): allow User:carol read from *",
    ]
    listed = json.loads(odradek(cluster, "acls", "list", "--principal", "User:carol", "--group", "cli-g", "--json"))
    assert [(each["name"], each["pattern"], each["operation"]) for each in listed] == [
        ("cli-g", "prefixed", "describe"), ("cli-g", "prefixed", "read"),
    ]  # fmt: skip
    removed = odradek(cluster, "acls", "remove", "--principal", "User:carol", "--operation", "read", "--force")
    assert removed.splitlines()[-1] == "Removed 2 ACLs."
    assert odradek(cluster, "acls", "list", "--principal", "User:carol").splitlines() == [
        "group cli-g (prefixed): allow User:carol describe from *",
        "topic cli- (prefixed): allow User:carol describe from *",
    ]
    assert "odradek: " in odradek(cluster, "acls", "add", "--principal", "User:x", "--operation", "all", code=2)
    nobody = ("--principal", "carol", "--operation", "all", "--topic", "cli-topic")
    assert "'carol' is not TYPE:NAME" in odradek(cluster, "acls", "add", *nobody, code=2)


def test_kafkas_tool(secured: World) -> None:
    """`kafka-acls` against both: the same text, but for the order of its lines."""

    def tool(cluster: Cluster, *arguments: str) -> list[str]:
        done = kafka.run_tool("kafka.admin.AclCommand", "--bootstrap-server", cluster.bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(line.strip() for line in done.stdout.splitlines() if line.strip())

    what = ("--allow-principal", "User:dave", "--consumer", "--topic", "t", "--group", "g1")

    def everything(cluster: Cluster) -> list[list[str]]:
        return [
            tool(cluster, "--add", *what),
            tool(cluster, "--list", "--principal", "User:dave"),
            tool(cluster, "--remove", *what, "--force"),
        ]

    assert everything(secured.clusters["odradek"]) == everything(secured.clusters["kafka"])


def test_a_denial_is_logged_as_kafka_does(secured: World) -> None:
    cluster = secured.clusters["odradek"]
    with connect_from("127.0.9.2", cluster.brokers[0]) as connection:
        connection.call(filter_of(DescribeAclsRequest, {"name": None}), 3)
    line = (
        "Principal = User:ANONYMOUS is Denied Operation = Describe from host = 127.0.9.2 on resource = "
        "Cluster:LITERAL:kafka-cluster for request = DescribeAcls with resourceRefCount = 1"
    )
    log = cluster.brokers[0].log_file
    assert wait_until(lambda: line in log.read_text(), CLOCK, 10_000)
