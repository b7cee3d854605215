"""The controller among real broker processes: killed, paused past its session, deleted by hand; topics by znodes."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient

from broker.dev.polling import wait_until
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError
from tests.support.cluster import CLOCK, Broker, Cluster
from tests.support.controllers import controller
from tests.support.zookeeper import zookeeper_client

pytestmark = pytest.mark.both_zookeepers

# Long enough that only who is killed or paused loses its session: epochs are counted.
SETTINGS = {"zookeeper.session.timeout.ms": "6000", "auto.leader.rebalance.enable": "false"}


def eventually(condition: Callable[[], bool], what: str, timeout_ms: int = 90_000) -> None:
    def holds() -> bool:
        with contextlib.suppress(OSError, ApiError):
            return condition()
        return False

    assert wait_until(holds, CLOCK, timeout_ms), f"{what} did not happen"


def leaders(broker: Broker, topic: str) -> dict[int, int]:
    """Leaders of a topic's partitions as one broker tells them; empty if it does not know the topic."""
    with ClusterClient(broker.address, "test", CLOCK, request_timeout_ms=5_000) as client:
        metadata = client.metadata([topic])
    found: Any = metadata.topics.get(topic)
    return {} if found is None else {number: item.leader for number, item in found.partitions.items()}


def everywhere(cluster: Cluster, topic: str, expected: dict[int, int]) -> None:
    for broker in cluster.running:
        eventually(
            lambda broker=broker: leaders(broker, topic) == expected,  # type: ignore[misc]
            f"{topic} {expected} on {broker.broker_id}",
        )


def write_topic(client: KazooClient, topic: str, assignment: dict[str, list[int]]) -> None:
    content = {"version": 2, "partitions": assignment, "adding_replicas": {}, "removing_replicas": {}}
    client.create(f"/brokers/topics/{topic}", json.dumps(content).encode())


def states(client: KazooClient) -> dict[str, tuple[bytes, int]]:
    """Content and version of every partition state."""
    found: dict[str, tuple[bytes, int]] = {}
    for topic in client.get_children("/brokers/topics"):
        for number in client.get_children(f"/brokers/topics/{topic}/partitions"):
            path = f"/brokers/topics/{topic}/partitions/{number}/state"
            data, stat = client.get(path)
            found[path] = (data, stat.version)
    return found


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    return make_cluster(["odradek"] * 3, settings=SETTINGS)


def test_topics_by_znodes_through_changes_of_controller(cluster: Cluster) -> None:
    with zookeeper_client(cluster.zookeeper) as client:
        first = controller(client)
        assert first is not None
        write_topic(client, "hand", {"0": [0], "1": [1], "2": [2]})
        everywhere(cluster, "hand", {0: 0, 1: 1, 2: 2})
        # It got an id, and the assignment was kept.
        content = json.loads(client.get("/brokers/topics/hand")[0])
        assert len(content["topic_id"]) == 22

        content["partitions"]["3"] = [1]
        client.set("/brokers/topics/hand", json.dumps(content).encode())
        everywhere(cluster, "hand", {0: 0, 1: 1, 2: 2, 3: 1})

        # /controller deleted by hand: exactly one controller again, one epoch later, and it works.
        client.delete("/controller")
        eventually(lambda: controller(client) is not None, "election")
        second = controller(client)
        assert second is not None
        assert second[1] == first[1] + 1
        write_topic(client, "second", {"0": [2], "1": [0]})
        everywhere(cluster, "second", {0: 2, 1: 0})

        # Killed: its partition loses the leader, another broker takes over, topics can still be deleted.
        killed = cluster.brokers[second[0]]
        killed.kill()
        eventually(lambda: (controller(client) or second)[0] != second[0], "takeover")
        third = controller(client)
        assert third is not None
        assert third[1] == second[1] + 1
        led = {number: broker for number, broker in enumerate((0, 1, 2, 1)) if broker != killed.broker_id}
        for broker in cluster.running:
            eventually(
                lambda broker=broker: {n: b for n, b in leaders(broker, "hand").items() if b != -1} == led,  # type: ignore[misc]
                "leaders without the killed broker",
            )
        killed.start()
        everywhere(cluster, "hand", {0: 0, 1: 1, 2: 2, 3: 1})
        client.create("/admin/delete_topics/hand")
        eventually(lambda: client.exists("/brokers/topics/hand") is None, "deletion")
        eventually(lambda: client.get_children("/admin/delete_topics") == [], "end of the deletion")
        everywhere(cluster, "hand", {})
        assert client.exists("/config/topics/hand") is None


def test_a_paused_controller_comes_back_silent(cluster: Cluster) -> None:
    with zookeeper_client(cluster.zookeeper) as client:
        first = controller(client)
        assert first is not None
        paused = cluster.brokers[first[0]]
        others = [broker for broker in cluster.brokers if broker is not paused]
        write_topic(client, "t", {str(number): [number % 3] for number in range(6)})
        everywhere(cluster, "t", {number: number % 3 for number in range(6)})
        old_registration = client.exists(f"/brokers/ids/{paused.broker_id}").czxid
        paused.pause()
        eventually(lambda: (controller(client) or first)[0] != first[0], "takeover")
        second = controller(client)
        assert second is not None
        assert second[1] == first[1] + 1
        eventually(lambda: sum(leader == -1 for leader in leaders(others[0], "t").values()) == 2, "offline partitions")
        # Work for whoever believes to be controller when it wakes up.
        write_topic(client, "meanwhile", {"0": [others[0].broker_id]})
        everywhere_of(others, "meanwhile", {0: others[0].broker_id})
        paused.resume()
        eventually(
            lambda: (
                (stat := client.exists(f"/brokers/ids/{paused.broker_id}")) is not None
                and stat.czxid > old_registration
            ),
            "new registration",
        )
        everywhere(cluster, "t", {number: number % 3 for number in range(6)})
        everywhere(cluster, "meanwhile", {0: others[0].broker_id})
        time.sleep(1)
        assert controller(client) == second
        # Every state was written by a controller of its time; none by the old one after the takeover.
        for path, (data, version) in states(client).items():
            state = json.loads(data)
            assert state["controller_epoch"] in (first[1], second[1]), path
            if version > 0:
                assert state["controller_epoch"] == second[1], path
        # It can be elected again: it was only outvoted.
        for broker in others:
            broker.stop()
        eventually(lambda: (controller(client) or second)[0] == paused.broker_id, "election of the last broker")


def everywhere_of(brokers: list[Broker], topic: str, expected: dict[int, int]) -> None:
    for broker in brokers:
        eventually(lambda broker=broker: leaders(broker, topic) == expected, f"{topic} on {broker.broker_id}")  # type: ignore[misc]
