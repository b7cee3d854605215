"""Replication with real processes: acknowledged records survive the loss of leaders, and replicas end up identical."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.reference import kafka
from tests.support.cluster import Cluster
from tests.support.paused import paused, wait_isr
from tests.support.replication import (
    IdempotentLoad,
    check_replicas,
    create_topic,
    leader_of,
    read_back,
    wait_in_sync,
)

TOPIC = "replicated"
ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
SETTINGS = {"zookeeper.session.timeout.ms": "3000", "replica.lag.time.max.ms": "3000"}


def start(cluster: Cluster) -> IdempotentLoad:
    create_topic(cluster, TOPIC, ASSIGNMENT)
    load = IdempotentLoad(cluster.bootstrap, TOPIC, len(ASSIGNMENT))
    load.wait_progress()
    return load


def finish(cluster: Cluster, load: IdempotentLoad) -> None:
    """Everything acknowledged is there once and in order, and all replicas are byte-identical."""
    load.wait_progress()
    load.finish()
    wait_in_sync(cluster, TOPIC)
    read = read_back(cluster, TOPIC, len(ASSIGNMENT))
    load.check(read)
    cluster.stop()
    check_replicas(cluster, {TOPIC: [len(values) for values in read.values()]})


@pytest.mark.parametrize("kinds", [["kafka", "odradek", "odradek"], ["odradek", "kafka", "kafka"]], ids=str)
def test_replicas_on_kafka_and_odradek(kinds: list[str], make_cluster: Callable[..., Cluster]) -> None:
    """Each kind leads and follows the other, each is restarted under load, one is killed."""
    kafka.require()
    cluster = make_cluster(kinds, settings=SETTINGS)
    load = start(cluster)
    for broker in cluster.brokers:
        load.wait_progress()
        broker.stop()
        broker.start()
        cluster.wait_ready()
        wait_in_sync(cluster, TOPIC)
    leader = cluster.brokers[leader_of(cluster, TOPIC)]
    leader.kill()
    leader.start()
    cluster.wait_ready()
    wait_in_sync(cluster, TOPIC)
    finish(cluster, load)


def test_old_protocol_version_changes_the_isr_through_zookeeper(make_cluster: Callable[..., Cluster]) -> None:
    """With `inter.broker.protocol.version` 2.6 leaders write the state znode themselves."""
    settings = {
        "zookeeper.session.timeout.ms": "12000",
        "replica.lag.time.max.ms": "2000",
        "inter.broker.protocol.version": "2.6",
        "controlled.shutdown.enable": "false",
    }
    cluster = make_cluster(["odradek"] * 3, settings=settings)
    load = start(cluster)
    leader = cluster.brokers[leader_of(cluster, TOPIC)]
    follower = cluster.brokers[(leader.broker_id + 1) % 3]
    # Longer than the lag limit, shorter than its session.
    with paused(follower):
        wait_isr(leader, TOPIC, {0, 1, 2} - {follower.broker_id})
    wait_in_sync(cluster, TOPIC)
    follower.kill()
    follower.start()
    cluster.wait_ready()
    wait_in_sync(cluster, TOPIC)
    finish(cluster, load)
