"""A broker of each kind with an authorizer, and connections to it from addresses that have different permissions."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from broker.requests.authorization import CLUSTER_NAME
from network.client.connection import Connection, ConnectionFailed
from network.protocol.messages.api_versions import ApiVersionsRequest
from network.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from network.protocol.messages.init_producer_id import InitProducerIdRequest
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support import wire
from tests.support.acl_matrix import CLOSED, GROUP, RESOURCES, TOPICS, TXN, Ask, callers, gist
from tests.support.cluster import CLOCK, HOST, Broker, Cluster, Kind, running_cluster
from tests.support.zookeeper import zookeeper_client

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    # Short windows, so that rates settle soon.
    "quota.window.num": "3",
    "controller.quota.window.num": "2",
}
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
        self.clusters = clusters
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


@contextmanager
def running_world(zookeeper: str, directory: Path) -> Iterator[World]:
    """Both brokers, prepared."""
    kinds: list[Kind] = ["kafka", "odradek"]
    with ExitStack() as stack:
        clusters: dict[Kind, Cluster] = {}
        for kind in kinds:
            chroot = f"{zookeeper}/{directory.name}-{kind}"
            allow_the_broker(chroot)
            clusters[kind] = stack.enter_context(running_cluster([kind], directory / kind, chroot, SETTINGS))
            prepare(clusters[kind])
        made = World(clusters)
        yield made
        made.close()
