"""Failover and topic creation on three brokers, Odradek and Apache Kafka in alternation.

Measured: creating a topic of many partitions until every broker knows it; a controller failover (its znode removed, so
that no session timeout is within it) until the new controller has made a topic that every broker knows; from the kill
of a leader to the first acknowledged record on its partition, and the part of that after ZooKeeper ended the session,
in which all partitions of the killed broker get other leaders; a controlled restart of a broker, from SIGTERM to
serving.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Literal

from broker.dev.processes import free_ports
from broker.dev.zookeeper import ZooKeeperServer
from tests.support.cluster import CLOCK, Broker, Cluster, running_cluster
from tests.support.zookeeper import zookeeper_client

SESSION_MS = 4000
METRICS = ("create", "controller", "failover", "after_session", "stop", "restart")


def produce(cluster: Cluster, topic: str, timeout_s: float = 60) -> None:
    """One record with acks=all to partition 0, acknowledged."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "log_level": 0,
            "retry.backoff.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "message.timeout.ms": int(timeout_s * 1000),
        }
    )
    failures: list[object] = []
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: failures.append(error) if error else None)
    if producer.flush(timeout_s) or failures:
        raise RuntimeError(f"{topic}: not acknowledged: {failures}")


def known_everywhere(cluster: Cluster, topic: str, partitions: int) -> bool:
    """Whether every broker tells a leader for each partition."""
    from confluent_kafka.admin import AdminClient

    for broker in cluster.running:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        found = admin.list_topics(timeout=30).topics.get(topic)
        if found is None or sum(entry.leader >= 0 for entry in found.partitions.values()) != partitions:
            return False
    return True


def controller_failover(cluster: Cluster) -> float:
    """Seconds from the removal of `/controller` until a topic made after it is known everywhere."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    with zookeeper_client(cluster.zookeeper) as zk:
        began = time.monotonic()
        zk.delete("/controller")
        while True:
            # A new client each time: librdkafka goes on asking the controller that it knows.
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            try:
                admin.create_topics([NewTopic("after", 1, 3)], request_timeout=30)["after"].result(30)
                break
            except KafkaException as error:
                if time.monotonic() - began > 120:
                    raise RuntimeError(f"no controller makes a topic: {error}") from error
                time.sleep(0.01)
        while not known_everywhere(cluster, "after", 1):
            time.sleep(0.01)
        return time.monotonic() - began


def leader_failover(cluster: Cluster, leader: Broker, topic: str) -> tuple[float, float]:
    """Seconds from the kill of the leader, and from the end of its session, to the first acknowledged record."""
    ended: list[float] = []
    with zookeeper_client(cluster.zookeeper) as zk:
        zk.exists(f"/brokers/ids/{leader.broker_id}", watch=lambda _: ended.append(time.monotonic()))
        leader.kill()
        began = time.monotonic()
        produce(cluster, topic)
        done = time.monotonic()
    return done - began, done - ended[0]


def measure(kind: Literal["odradek", "kafka"], directory: Path, zookeeper: str, partitions: int) -> dict[str, float]:
    """Seconds of each metric on a fresh cluster."""
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = {"zookeeper.session.timeout.ms": str(SESSION_MS), "auto.leader.rebalance.enable": "false"}
    with running_cluster([kind] * 3, directory, zookeeper, settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        config = {"min.insync.replicas": "2"}
        admin.create_topics([NewTopic("small", 1, replica_assignment=[[2, 1, 0]], config=config)])["small"].result(60)
        produce(cluster, "small")
        began = time.monotonic()
        admin.create_topics([NewTopic("many", partitions, 3)], operation_timeout=120)["many"].result(180)
        while not known_everywhere(cluster, "many", partitions):
            time.sleep(0.05)
        create = time.monotonic() - began
        controller = controller_failover(cluster)
        leader = cluster.brokers[2]
        failover, after_session = leader_failover(cluster, leader, "small")
        cluster.wait_forgotten(leader)
        leader.start()
        cluster.wait_ready()
        began = time.monotonic()
        leader.stop()
        stop = time.monotonic() - began
        leader.start()
        cluster.wait_ready()
        restart = time.monotonic() - began
    return {
        "create": create,
        "controller": controller,
        "failover": failover,
        "after_session": after_session,
        "stop": stop,
        "restart": restart,
    }


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, 100 partitions")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--partitions", type=int, help="partitions of the large topic (1000)")
    parser.add_argument("--rounds", type=int, help="times each kind is measured (3)")
    options = parser.parse_args()
    partitions = options.partitions or (100 if options.quick else 1000)
    rounds = options.rounds or (1 if options.quick else 3)
    found: dict[str, list[dict[str, float]]] = {"odradek": [], "kafka": []}
    with tempfile.TemporaryDirectory(prefix="odradek-failover-") as name:
        server = ZooKeeperServer(Path(name) / "zookeeper", free_ports(1)[0])
        try:
            server.wait_until_ready(CLOCK)
            for number in range(rounds):
                for kind in ("odradek", "kafka"):
                    where = f"{kind}-{number}"
                    result = measure(kind, Path(name) / where, f"{server.connect}/{where}", partitions)  # type: ignore[arg-type]
                    found[kind].append(result)
        finally:
            server.stop()
    medians = {k: {m: statistics.median(run[m] for run in runs) for m in METRICS} for k, runs in found.items()}
    if options.json:
        print(json.dumps({"partitions": partitions, "rounds": rounds, "session_s": SESSION_MS / 1000, **medians}))
        return
    names = {
        "create": f"create {partitions} partitions, known everywhere, s",
        "controller": f"controller failover with {partitions} partitions, until it has made a topic, s",
        "failover": f"leader killed to first acknowledged record, s (session {SESSION_MS / 1000:g} s)",
        "after_session": "of that, after the session ended, s",
        "stop": "controlled shutdown, s",
        "restart": "controlled shutdown and start until all know it, s",
    }
    print("| | Odradek | Kafka | ratio |\n|---|---|---|---|")
    for metric, text in names.items():
        ours, theirs = medians["odradek"][metric], medians["kafka"][metric]
        print(f"| {text} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main()
