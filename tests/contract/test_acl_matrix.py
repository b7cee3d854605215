"""Every API by a caller who may do nothing, one thing, or everything: Odradek answers as Apache Kafka does.

All callers are ANONYMOUS; they differ by the address that they call from, and the ACLs name addresses. So all ACLs are
made once, and a permission is chosen by where a request is sent from.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from broker.requests.authorization import CLUSTER_NAME, SUPPORTED_OPERATIONS
from network.client.connection import Connection, ConnectionFailed
from network.protocol.api import API, ApiKey
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from network.protocol.messages.init_producer_id import InitProducerIdRequest
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support import wire
from tests.support.acl_matrix import ASKS, CLOSED, GROUP, RESOURCES, TOPICS, TXN, Ask, callers, gist, versions_of
from tests.support.cluster import CLOCK, HOST, Broker, Cluster, Kind, running_cluster
from tests.support.zookeeper import zookeeper_client

AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:admin"}
ADDRESSES = {name: f"127.0.1.{number}" for number, (name, _) in enumerate(callers(), start=1)}
ALLOW, LITERAL = 3, 3


def connect_from(address: str, broker: Broker) -> Connection:
    """A connection that the broker sees come from this loopback address."""

    def again(plain: socket.socket, host: str) -> socket.socket:
        plain.close()
        made = socket.create_connection((host, broker.port), 30, source_address=(address, 0))
        made.setblocking(False)
        return made

    return Connection(HOST, broker.port, "matrix", CLOCK, wrap=again)


def allow_the_broker(zookeeper: str) -> None:
    """Before a broker runs: whoever comes from its own address may do everything."""
    entry = {"principal": "User:ANONYMOUS", "permissionType": "Allow", "operation": "All", "host": HOST}
    data = json.dumps({"version": 1, "acls": [entry]}).encode()
    names = {"Cluster": CLUSTER_NAME, "Topic": "*", "Group": "*", "TransactionalId": "*"}
    with zookeeper_client(zookeeper.partition("/")[0]) as client:
        for kind, name in names.items():
            client.create(f"/{zookeeper.partition('/')[2]}/kafka-acl/{kind}/{name}", data, makepath=True)


def prepare(cluster: Cluster) -> None:
    """Topics, a group with offsets, a transactional id, and the ACLs of all callers."""
    (broker,) = cluster.brokers
    for topic in TOPICS:
        wire.create_topic(cluster, topic)
    with cluster.client() as client:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in TOPICS]
        for group in (GROUP, "other"):
            client.call_coordinator(group, 0, OffsetCommitRequest(group_id=group, topics=topics))
        for transactional_id in (TXN, "other"):
            client.call_coordinator(
                transactional_id,
                1,
                InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000),
            )
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=RESOURCES[kind],
            resource_pattern_type=LITERAL,
            principal="User:ANONYMOUS",
            host=ADDRESSES[name],
            operation=operation,
            permission_type=ALLOW,
        )
        for name, permissions in callers()
        for kind, operation in permissions
    ]
    results = wire.call(broker, CreateAclsRequest(creations=creations), 3).results
    assert [result.error_code for result in results] == [0] * len(creations)


class World:
    """A broker of each kind, and a connection to it from each address."""

    def __init__(self, clusters: dict[Kind, Cluster]) -> None:
        self.brokers = {kind: cluster.brokers[0] for kind, cluster in clusters.items()}
        self.connections: dict[tuple[Kind, str], Connection] = {}
        self.highest = {
            kind: {
                row.api_key: row.max_version
                for row in wire.call(
                    broker, ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3
                ).api_keys
            }
            for kind, broker in self.brokers.items()
        }

    def answer(self, kind: Kind, caller: str, ask: Ask, version: int) -> Any:
        connection = self.connections.get((kind, caller))
        if connection is None or connection.closed:
            connection = connect_from(ADDRESSES[caller], self.brokers[kind])
            self.connections[kind, caller] = connection
        try:
            return gist(connection.call(ask.make(version), version))
        except ConnectionFailed:
            return CLOSED

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()


@pytest.fixture(scope="module")
def world(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    kinds: list[Kind] = ["kafka", "odradek"]
    with ExitStack() as stack:
        clusters: dict[Kind, Cluster] = {}
        for kind in kinds:
            chroot = f"{zookeeper}/acl-matrix-{kind}"
            allow_the_broker(chroot)
            directory = tmp_path_factory.mktemp(f"acl-matrix-{kind}")
            clusters[kind] = stack.enter_context(running_cluster([kind], directory, chroot, AUTHORIZER))
            prepare(clusters[kind])
        made = World(clusters)
        yield made
        made.close()


def test_every_api_is_asked() -> None:
    assert {int(ask.api) for ask in ASKS} | {int(ApiKey.ENVELOPE)} == API.keys()
    assert set(RESOURCES) <= SUPPORTED_OPERATIONS.keys()


@pytest.mark.parametrize("ask", ASKS, ids=[f"{number}-{API[ask.api].name}" for number, ask in enumerate(ASKS)])
def test_the_answers_are_those_of_kafka(world: World, ask: Ask) -> None:
    highest = min(highest[ask.api] for highest in world.highest.values())
    different = {}
    for version in versions_of(ask, highest):
        for caller, _ in callers():
            ours, theirs = (world.answer(kind, caller, ask, version) for kind in ("odradek", "kafka"))
            if ours != theirs:
                different[version, caller] = (ours, theirs)
    assert not different


@pytest.mark.parametrize("key", [ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_ACLS, ApiKey.FETCH])
def test_permissions_make_a_difference(world: World, key: ApiKey) -> None:
    """So that equal answers are not only equally refused."""
    for kind in world.brokers:
        for ask in [ask for ask in ASKS if ask.api == key][:1]:
            version = versions_of(ask, world.highest[kind][key])[-1]
            assert world.answer(kind, "nothing", ask, version) != world.answer(kind, "everything", ask, version)
