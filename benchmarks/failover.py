"""Failover and topic creation on three brokers, Odradek and Apache Kafka in alternation.

Measured: creating a topic of many partitions until every broker knows it; from the kill of a leader to the first
acknowledged record on its partition (the session timeout is within it, and shown); a controlled restart of a broker,
from SIGTERM to serving again.
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
from tests.support.cluster import CLOCK, Cluster, running_cluster

SESSION_MS = 4000
METRICS = ("create", "failover", "stop", "restart")


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
        leader = cluster.brokers[2]
        leader.kill()
        began = time.monotonic()
        produce(cluster, "small")
        failover = time.monotonic() - began
        cluster.wait_forgotten(leader)
        leader.start()
        cluster.wait_ready()
        began = time.monotonic()
        leader.stop()
        stop = time.monotonic() - began
        leader.start()
        cluster.wait_ready()
        restart = time.monotonic() - began
    return {"create": create, "failover": failover, "stop": stop, "restart": restart}


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
        "failover": f"leader killed to first acknowledged record, s (session {SESSION_MS / 1000:g} s)",
        "stop": "controlled shutdown, s",
        "restart": "controlled shutdown and start until all know it, s",
    }
    print("| | Odradek | Kafka | ratio |\n|---|---|---|---|")
    for metric, text in names.items():
        ours, theirs = medians["odradek"][metric], medians["kafka"][metric]
        print(f"| {text} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} |")


if __name__ == "__main__":
    main()
