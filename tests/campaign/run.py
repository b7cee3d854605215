"""One run: a cluster, its workloads, faults for so long, and the judgement."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from broker.dev.processes import free_ports
from tests.campaign.checker import check
from tests.campaign.faults import Faults, ZooKeeper
from tests.campaign.workloads import BANK, ONCE, PARTITIONS, PLAIN, Workloads
from tests.support.cluster import CLOCK, Kind, running_cluster
from tests.support.replication import create_topic

SETTINGS = {
    "zookeeper.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "4000",
    "group.initial.rebalance.delay.ms": "200",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "unclean.leader.election.enable": "false",
}


@dataclass
class Result:
    """`problems` is empty if all is well."""

    seed: int
    kinds: list[Kind]
    acknowledged: int
    transfers: int
    faults: dict[str, int]
    problems: list[str]

    def __str__(self) -> str:
        brokers = f"{len(self.kinds)} brokers, {self.kinds.count('kafka')} of them Apache Kafka's"
        return (
            f"seed {self.seed}: {brokers}; {self.acknowledged} records acknowledged, {self.transfers} transfers; "
            f"{sum(self.faults.values())} faults {self.faults}; {len(self.problems)} problems"
        )


def kinds_of(seed: int) -> list[Kind]:
    """Three or five brokers; every third seed has Apache Kafka's among them."""
    rng = random.Random(seed)
    kinds: list[Kind] = ["odradek"] * rng.choice((3, 3, 5))
    if seed % 3 == 0:
        kinds[rng.randrange(len(kinds))] = "kafka"
    return kinds


def run(directory: Path, seed: int, seconds: float, kinds: list[Kind] | None = None) -> Result:
    """Faults for so many seconds; then all heals, and the history is read."""
    kinds = kinds or kinds_of(seed)
    zookeeper = ZooKeeper(directory, free_ports(1)[0])
    try:
        with running_cluster(kinds, directory / "cluster", f"{zookeeper.server.connect}/campaign", SETTINGS) as cluster:
            rng = random.Random(seed)
            for topic, partitions in ((ONCE, PARTITIONS), (PLAIN, PARTITIONS), (BANK, 2)):
                create_topic(cluster, topic, [rng.sample(range(len(kinds)), 3) for _ in range(partitions)])
            workloads = Workloads(cluster, seed)
            for load in workloads.loads:
                load.wait_progress(20)
            faults = Faults(cluster, zookeeper, seed)
            until = CLOCK.monotonic_ms() + seconds * 1000
            while CLOCK.monotonic_ms() < until:
                faults.strike()
            faults.heal()
            history, final = workloads.finish()
        problems = check(history, final)
        transfers = list(history.transfers.values()).count("committed")
        return Result(seed, kinds, len(history.acknowledged), transfers, dict(faults.happened), problems)
    finally:
        zookeeper.server.stop()
