"""One run: a cluster, its workloads, faults for so long, and the judgement."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from broker.dev.processes import free_ports
from tests.campaign import clocks, isolation, java_client
from tests.campaign.checker import check
from tests.campaign.clocks import WallClocks
from tests.campaign.disks import SmallDisks
from tests.campaign.faults import Faults, Tools
from tests.campaign.network import HUB, Network
from tests.campaign.workloads import BANKS, PARTITIONS, QUEUES, Workloads
from tests.campaign.zookeeper import ZooKeeper
from tests.support.cluster import HOST, Cluster, Kind
from tests.support.replication import create_topic

SETTINGS = {
    "zookeeper.session.timeout.ms": "4000",
    # At a start; ZooKeeper may be away meanwhile.
    "zookeeper.connection.timeout.ms": "30000",
    "replica.lag.time.max.ms": "4000",
    "group.initial.rebalance.delay.ms": "200",
    # Of internal topics too.
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "unclean.leader.election.enable": "false",
    # A disk of 128 MB has room for the indexes of all.
    "log.index.size.max.bytes": "100000",
}


@dataclass
class Result:
    """`problems` is empty if all is well."""

    seed: int
    kinds: list[Kind]
    acknowledged: Counter[str]
    once: set[str]
    given_up: Counter[str]
    transfers: int
    commits: int
    faults: Counter[str]
    orders: Counter[str]
    problems: list[str]

    def __str__(self) -> str:
        brokers = f"{len(self.kinds)} brokers, {self.kinds.count('kafka')} of them Apache Kafka's"
        return (
            f"seed {self.seed}: {brokers}; {self.acknowledged.total()} records acknowledged {dict(self.acknowledged)}, "
            f"held to once {sorted(self.once)}, given up {dict(self.given_up)}; "
            f"{self.transfers} transfers, {self.commits} commits; "
            f"{self.faults.total()} faults {dict(self.faults)}; {self.orders.total()} orders {dict(self.orders)}; "
            f"{len(self.problems)} problems"
        )


def kinds_of(seed: int) -> list[Kind]:
    """Three or five brokers; every third seed has Apache Kafka's among them."""
    rng = random.Random(seed)
    kinds: list[Kind] = ["odradek"] * rng.choice((3, 3, 5))
    if seed % 3 == 0:
        kinds[rng.randrange(len(kinds))] = "kafka"
    return kinds


def left_out() -> list[str]:
    """What is not tried here, and why."""
    reasons = [
        ("cut and slow links, full disks", isolation.missing()),
        ("clock jumps", clocks.missing()),
        ("the Java client", java_client.missing()),
    ]
    return [f"without {what}: {why}" for what, why in reasons if why]


def run(directory: Path, seed: int, seconds: float, kinds: list[Kind] | None = None) -> Result:
    """Faults for so many seconds; then all heals, and the history is read."""
    kinds = kinds or kinds_of(seed)
    isolated = not isolation.missing()
    network = Network(len(kinds)) if isolated else None
    disks = SmallDisks(directory, len(kinds)) if isolated else None
    zookeeper = ZooKeeper(directory, free_ports(1)[0], HUB if isolated else HOST)
    try:
        cluster = Cluster(
            kinds,
            directory / "cluster",
            f"{zookeeper.server.connect}/campaign",
            SETTINGS,
            hosts=[network.host(number) for number in range(len(kinds))] if network else (),
        )
        for broker in cluster.brokers:
            if network:
                broker.prefix = network.prefix(broker.broker_id)
            if disks:
                broker.settings["log.dirs"] += f",{disks.paths[broker.broker_id] / 'data'}"
        jumping = None if clocks.missing() else WallClocks(directory, cluster.brokers)
        try:
            return _under_faults(cluster, zookeeper, Tools(network, jumping, disks), seed, seconds, directory)
        finally:
            cluster.stop()
    finally:
        zookeeper.server.stop()
        if disks:
            disks.close()
        if network:
            network.close()


def _under_faults(
    cluster: Cluster, zookeeper: ZooKeeper, tools: Tools, seed: int, seconds: float, directory: Path
) -> Result:
    cluster.start()
    rng = random.Random(seed)
    for topic, partitions in (*((queue, PARTITIONS) for queue in QUEUES), *((bank, 2) for bank in BANKS)):
        create_topic(cluster, topic, [rng.sample(range(len(cluster.brokers)), 3) for _ in range(partitions)])
    workloads = Workloads(cluster, seed)
    faults = Faults(cluster, zookeeper, tools, seed)
    try:
        for load in workloads.loads:
            load.wait_progress(20)
        faults.strike(seconds, workloads.look)
        history, final = workloads.finish()
    finally:
        workloads.close()
        faults.close()
    if problems := check(history, final):
        noted = [*history.commits, *history.starts, *history.anew, *history.acknowledged, *history.transfers.items()]
        (directory / "history.txt").write_text("\n".join(map(str, noted)))
    return Result(
        seed,
        [broker.kind for broker in cluster.brokers],
        Counter(one.writer for one in history.acknowledged),
        history.once,
        workloads.given_up,
        list(history.transfers.values()).count("committed"),
        len(history.commits),
        faults.happened,
        faults.orders.given,
        problems,
    )
