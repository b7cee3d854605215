"""A topic is deleted while one of its replicas is dead: all is gone when that returns, and not before; a minute."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException

from tests.cluster.test_controller import eventually, everywhere
from tests.reference import kafka
from tests.support.cluster import Cluster
from tests.support.controllers import controller, elect_controller
from tests.support.replication import IdempotentLoad, check_replicas, create_topic, delete_topic, read_back
from tests.support.zookeeper import zookeeper_client

TOPIC = "doomed"
ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
SETTINGS = {
    "zookeeper.session.timeout.ms": "4000",
    "auto.leader.rebalance.enable": "false",
    # The first producer would make the topic again.
    "auto.create.topics.enable": "false",
}


@pytest.mark.parametrize(
    "kinds", [["odradek"] * 3, ["odradek", "kafka", "odradek"]], ids=["dead-odradek", "dead-kafka"]
)
def test_deletion_waits_for_a_dead_replica(kinds: list[str], make_cluster: Callable[..., Cluster]) -> None:
    if "kafka" in kinds:
        kafka.require()
    cluster = make_cluster(kinds, settings=SETTINGS)
    with zookeeper_client(cluster.zookeeper) as client:
        # Broker 1 is not the controller, so that the same one controls before and after its death.
        now = elect_controller(cluster, client, [0, 2])
        create_topic(cluster, TOPIC, ASSIGNMENT)
        load = IdempotentLoad(cluster.bootstrap, TOPIC, len(ASSIGNMENT))
        load.wait_progress()
        load.finish()
        dead = cluster.brokers[1]
        dead.kill()
        dead.wait_forgotten()
        delete_topic(cluster, TOPIC)
        everywhere(cluster, TOPIC, {})
        for broker in cluster.running:
            eventually(lambda broker=broker: not list(broker.data.glob(f"{TOPIC}-?")), "deletion of files", 60_000)  # type: ignore[misc]
        assert len(list(dead.data.glob(f"{TOPIC}-?"))) == len(ASSIGNMENT)

        # It stays pending, through a change of controller too; the name is taken.
        cluster.brokers[now[0]].stop()
        eventually(lambda: (controller(client) or now)[0] != now[0], "takeover")
        cluster.brokers[now[0]].start()
        cluster.wait_ready()
        assert client.exists(f"/brokers/topics/{TOPIC}") is not None
        assert client.get_children("/admin/delete_topics") == [TOPIC]
        with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
            create_topic(cluster, TOPIC, ASSIGNMENT)

        dead.start()
        cluster.wait_ready()
        eventually(lambda: client.exists(f"/brokers/topics/{TOPIC}") is None, "end of the deletion", 60_000)
        eventually(lambda: client.get_children("/admin/delete_topics") == [], "end of the deletion")
        eventually(lambda: not list(dead.data.glob(f"{TOPIC}-?")), "deletion of its files", 60_000)

    create_topic(cluster, TOPIC, ASSIGNMENT)
    load = IdempotentLoad(cluster.bootstrap, TOPIC, len(ASSIGNMENT))
    load.wait_progress()
    load.finish()
    read = read_back(cluster, TOPIC, len(ASSIGNMENT))
    load.check(read)
    cluster.stop()
    check_replicas(cluster, {TOPIC: [len(values) for values in read.values()]})
