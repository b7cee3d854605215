"""One run: a cluster of whole brokers, clients, faults for a while, then rest and the last judgement."""

from __future__ import annotations

import logging
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.zk.payloads import decode_partition_state
from tests.simulation.real.brokers import ZOOKEEPER, Cluster, SimBroker
from tests.simulation.real.clients import PARTITIONS, Admin, Client, Producer, Reader, Transactions
from tests.simulation.real.history import Broken, History

FAULTS = ("kill", "power", "pause", "cut", "cut zookeeper", "expire", "reset")
REST_MS = 60_000


@dataclass(frozen=True)
class Plan:
    """What is not left to the seed. `faults` are the numbers of the faults that happen, None for all."""

    brokers: int = 3
    duration_ms: int = 12_000
    faults: frozenset[int] | None = None
    config: dict[str, str] = field(default_factory=dict)


ONE_BROKER = Plan(
    1,
    6_000,
    config={"log.flush.interval.messages": "1", "min.insync.replicas": "1", "default.replication.factor": "1"},
)
"""Alone it keeps what it acknowledged only if it syncs every record."""


@dataclass
class Outcome:
    seed: int
    trace: list[str]
    problem: str | None
    faults: list[int]
    acked: int
    committed: int
    switches: int
    frames: int


class Run:
    """Makes what the seed says happen."""

    def __init__(self, cluster: Cluster, plan: Plan) -> None:
        self.cluster = cluster
        self.plan = plan
        self.history = History(cluster.note)
        self.faults: list[int] = []
        self.clients: list[Client] = []
        self.readers: list[Reader] = []
        self._number = 0
        self._fragile: SimBroker | None = None

    def go(self) -> None:
        cluster, rng = self.cluster, self.cluster.rng
        cluster.start()
        admin = Admin(cluster, "admin")
        admin.start()
        assert cluster.runtime.run(lambda: admin.done, 30_000), "no topics"
        self._start_clients()
        cluster.lossy_zookeeper = True
        cluster.net.break_probability = rng.choice((0.0, 0.0, 0.002, 0.01))
        cluster.net.slowest_ms = rng.choice((2.0, 10.0, 60.0))
        end = cluster.runtime.now_ms() + self.plan.duration_ms
        while cluster.runtime.now_ms() < end:
            cluster.runtime.run_for(rng.randint(50, 1_500))
            self._fault()
        self._rest()

    def _start_clients(self) -> None:
        cluster, history = self.cluster, self.history
        for number in (1, 2):
            self.clients.append(Producer(cluster, f"p{number}", history))
        if len(cluster.brokers) >= 3:
            self.clients.append(Transactions(cluster, "t1", history))
        for partition in range(PARTITIONS):
            for topic, isolation in (("queue", 0), ("bank", 1)):
                self.readers.append(Reader(cluster, f"r-{topic}-{partition}", history, topic, partition, isolation))
        if len(cluster.brokers) >= 3:
            self.readers[0].group = "g"
        for client in (*self.clients, *self.readers):
            client.start()

    # -- faults --------------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        """One that the seed chooses, or the end of an earlier one. Drawn alike whether or not it then happens."""
        cluster, rng = self.cluster, self.cluster.rng
        kind = rng.choice(FAULTS)
        broker = rng.choice(list(cluster.brokers.values()))
        other = rng.choice(list(cluster.brokers.values()))
        repair = rng.random() < 0.5
        self._number += 1
        if repair:
            self._repair()
        elif self._is_planned() and self._happens(kind, broker, other):
            self.faults.append(self._number)

    def _is_planned(self) -> bool:
        return self.plan.faults is None or self._number in self.plan.faults

    def _happens(self, kind: str, broker: SimBroker, other: SimBroker) -> bool:
        cluster = self.cluster
        if kind == "reset":
            cluster.net.break_something()
            cluster.note("a connection breaks")
            return True
        if not broker.serving or broker.process.paused or self._is_fragile():
            return False
        healthy = [each for each in cluster.brokers.values() if each.serving and not each.process.paused]
        if kind == "power":
            return self._power(broker)
        if kind == "cut":
            if other is broker:
                return False
            cluster.note(f"{broker.host} no longer reaches {other.host}")
            cluster.cut(broker.host, other.host)
            return True
        if len(healthy) < len(cluster.brokers) and len(healthy) < 2:
            return False
        cluster.note(f"{kind} {broker.host}")
        if kind == "kill":
            broker.kill()
        elif kind == "pause":
            cluster.runtime.pause(broker.process)
        elif kind == "cut zookeeper":
            cluster.cut(broker.host, ZOOKEEPER)
        elif broker.session is not None:
            cluster.zookeeper.expire(broker.session.session_id)
        return True

    def _power(self, broker: SimBroker) -> bool:
        """What was acknowledged is safe on others only if they are in sync: else losing it is allowed, and no fault."""
        for path, node in self.cluster.zookeeper.nodes.items():
            if not path.endswith("/state"):
                continue
            state = decode_partition_state(node.data, 0)
            if state is None or broker.id not in state.isr:
                continue
            safe = [
                each
                for each in state.isr
                if each != broker.id
                and self.cluster.brokers[each].serving
                and not self.cluster.brokers[each].process.paused
            ]
            if len(safe) < len(self.cluster.brokers) - 1:
                return False
        if len(self.cluster.brokers) > 1 and self.cluster.net.cut:
            return False
        broker.lose_power()
        self.cluster.note(f"{broker.host} loses its power, and {self.cluster.disk.lost_bytes} bytes so far")
        if broker.session is not None and len(self.cluster.brokers) > 1:
            self.cluster.zookeeper.expire(broker.session.session_id)
            self._fragile = broker
        return True

    def _is_fragile(self) -> bool:
        """Whether somebody who has lost what was not synced is still in an ISR, or others are not back in theirs."""
        if self._fragile is None:
            return False
        for path, node in self.cluster.zookeeper.nodes.items():
            if path.endswith("/state"):
                state = decode_partition_state(node.data, 0)
                if state is not None and (len(state.isr) < len(self.cluster.brokers)):
                    return True
        if not self._fragile.serving:
            return True
        self._fragile = None
        return False

    def _repair(self) -> None:
        cluster = self.cluster
        for broker in cluster.brokers.values():
            if not broker.up:
                cluster.note(f"{broker.host} starts")
                broker.start()
                return
            if broker.process.paused:
                cluster.note(f"{broker.host} goes on")
                cluster.runtime.resume(broker.process)
                return
        if cluster.net.cut:
            cluster.note("the network is whole")
            cluster.heal()

    # -- rest ----------------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        cluster = self.cluster
        cluster.note("no more faults")
        cluster.net.break_probability = 0.0
        cluster.net.slowest_ms = 2.0
        cluster.lossy_zookeeper = False
        cluster.heal()
        for broker in cluster.brokers.values():
            if broker.up and broker.process.paused:
                cluster.runtime.resume(broker.process)
        self._await("brokers", lambda: all(map(self._is_back, cluster.brokers.values())))
        for client in self.clients:
            client.stopping = True
        self._await("clients", lambda: all(client.done for client in self.clients))
        self._await("replicas", self._is_quiet)
        self._await("readers", lambda: all(map(self._is_at_end, self.readers)))
        self.history.check_end(PARTITIONS)
        self._compare_replicas()

    def _is_back(self, broker: SimBroker) -> bool:
        if not broker.up:
            broker.start()
        return broker.serving

    def _is_at_end(self, reader: Reader) -> bool:
        where = self._logs(reader.topic, reader.partition)
        return bool(where) and reader.offset >= max(log.log_end_offset for log in where)

    def _logs(self, topic: str, partition: int) -> list[Any]:
        return [
            log
            for broker in self.cluster.brokers.values()
            if broker.serving and broker.server is not None
            for log in broker.server.log_manager.all_logs()
            if (log.topic_partition.topic, log.topic_partition.partition) == (topic, partition)
        ]

    def _is_quiet(self) -> bool:
        """Everybody in sync, and no log longer than another."""
        for path, node in self.cluster.zookeeper.nodes.items():
            if path.endswith("/state"):
                state = decode_partition_state(node.data, 0)
                if state is None or state.leader < 0 or len(state.isr) != min(3, len(self.cluster.brokers)):
                    return False
        for topic in ("queue", "bank"):
            for partition in range(PARTITIONS):
                if len({log.log_end_offset for log in self._logs(topic, partition)}) != 1:
                    return False
        return True

    def _await(self, what: str, condition: Any) -> None:
        if not self.cluster.runtime.run(condition, REST_MS):
            raise Broken(f"a minute after the last fault: no rest among the {what}")

    def _compare_replicas(self) -> None:
        for topic in ("queue", "bank"):
            for partition in range(PARTITIONS):
                found = set()
                for log in self._logs(topic, partition):
                    path = Path(log.directory)
                    found.add(b"".join(each.read_bytes() for each in sorted(path.glob("*.log"))))
                if len(found) > 1:
                    raise Broken(f"the replicas of {topic}-{partition} differ")


def run(seed: int, plan: Plan | None = None) -> Outcome:
    """Run one seed in a directory of its own, which is gone afterwards. Lines of the log are not written."""
    plan = plan or Plan()
    directory = Path(tempfile.mkdtemp(prefix="sim-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    cluster = Cluster(seed, directory, plan.brokers, plan.config)
    one = Run(cluster, plan)
    problem = None
    try:
        with cluster:
            try:
                one.go()
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                cluster.note(problem)
    finally:
        logging.disable(disabled)
        shutil.rmtree(directory, ignore_errors=True)
    committed = sum(state == "committed" for state in one.history.transactions.values())
    return Outcome(
        seed, cluster.trace, problem, one.faults, one.history.acked, committed, cluster.runtime.switches,
        cluster.net.frames,
    )  # fmt: skip
