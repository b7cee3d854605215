"""A cluster leaves the same znodes on the embedded ZooKeeper as on a real one: paths, contents, ACLs, versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType
from kazoo.client import KazooClient

from tests.cluster.test_controller import eventually
from tests.support.cluster import Cluster, Kind, running_cluster
from tests.support.replication import ask_controller, delete_topic
from tests.support.zookeeper import zookeeper_client
from tests.support.zookeeper_servers import ZooKeepers, zookeeper_kinds

# Of each cluster, each start or each topic its own.
OWN = {"timestamp", "topic_id", "id", "port", "endpoints"}
SETTINGS = {"auto.leader.rebalance.enable": "false", "transaction.state.log.num.partitions": "2"}
Znodes = dict[str, Any]


def content(data: bytes | None) -> Any:
    """What a znode says, apart from what every cluster has of its own."""
    try:
        found = json.loads(data or b"")
    except ValueError:
        return data
    return {key: "own" if key in OWN else value for key, value in found.items()} if isinstance(found, dict) else found


def znodes(client: KazooClient, path: str = "/") -> Znodes:
    """Everything below a chroot."""
    data, stat = client.get(path)
    children = sorted(client.get_children(path))
    acls = [(acl.perms, acl.id.scheme, acl.id.id) for acl in client.get_acls(path)[0]]
    numbers = (stat.version, stat.cversion, stat.aversion, stat.numChildren, stat.ephemeralOwner != 0)
    found: Znodes = {path: (content(data), acls, numbers)}
    for child in children:
        found |= znodes(client, f"{path.rstrip('/')}/{child}")
    return found


def configure(cluster: Cluster, kind: ResourceType, name: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    ask_controller(cluster, lambda admin: admin.incremental_alter_configs([resource]))


def work(cluster: Cluster) -> None:
    """Topics made, widened, configured and deleted; a producer with an id, a transaction."""
    new = [NewTopic("kept", 2, 1, config={"retention.ms": "86400000"}), NewTopic("doomed", 1, 1)]
    ask_controller(cluster, lambda admin: admin.create_topics(new, operation_timeout=30))
    cluster.wait_topic("kept", 2)
    cluster.wait_topic("doomed", 1)
    ask_controller(cluster, lambda admin: admin.create_partitions([NewPartitions("kept", 3)], operation_timeout=30))
    cluster.wait_topic("kept", 3)
    configure(cluster, ResourceType.TOPIC, "kept", "max.message.bytes", "200000")
    configure(cluster, ResourceType.BROKER, "0", "log.cleaner.threads", "2")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "writer"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("kept", b"value")
    producer.commit_transaction(60)
    delete_topic(cluster, "doomed")


def settled(client: KazooClient) -> None:
    """What happens after an answer has happened."""
    eventually(lambda: client.exists("/brokers/topics/doomed") is None, "deletion")
    eventually(lambda: client.get_children("/admin/delete_topics") == [], "end of the deletion")
    eventually(lambda: client.exists("/brokers/topics/__transaction_state/partitions/1/state") is not None, "states")


@pytest.mark.skipif(len(zookeeper_kinds(both=True)) < 2, reason="compares both servers")
@pytest.mark.parametrize("kind", ["odradek", "kafka"])
def test_a_cluster_leaves_the_same_znodes(kind: Kind, zookeepers: ZooKeepers, tmp_path: Path) -> None:
    found: dict[str, list[Znodes]] = {}
    for server in zookeeper_kinds(both=True):
        connect = f"{zookeepers.address(server)}/znodes-{kind}"
        with zookeeper_client(connect) as client:
            with running_cluster([kind], tmp_path / server, connect, SETTINGS) as cluster:
                fresh = znodes(client)
                work(cluster)
                settled(client)
                used = znodes(client)
            found[server] = [fresh, used, znodes(client)]
    for real, ours in zip(found["java"], found["embedded"], strict=True):
        assert ours.keys() == real.keys()
        for path, node in real.items():
            assert ours[path] == node, path
    fresh, used, stopped = found["java"]
    assert len(fresh) > 15
    assert len(used) > len(fresh) + 10
    assert "/brokers/ids/0" in used
    assert "/brokers/ids/0" not in stopped
