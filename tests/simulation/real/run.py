"""One run: a cluster of whole brokers, clients, faults for a while, then rest and the last judgement."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.simulation.real.absences import Absences
from tests.simulation.real.administrators import TOPICS, Admin, Operator
from tests.simulation.real.brokers import Cluster, SimBroker, state_of_group
from tests.simulation.real.client import PARTITIONS, Client
from tests.simulation.real.consumer_history import ConsumerHistory
from tests.simulation.real.consumer_members import NAME as CONSUMERS
from tests.simulation.real.consumer_members import ConsumerMember
from tests.simulation.real.faults import Faults
from tests.simulation.real.group_history import GroupHistory
from tests.simulation.real.history import Broken, History
from tests.simulation.real.members import Member, Offsets
from tests.simulation.real.producers import Producer, Transactions
from tests.simulation.real.readers import LastReader, Reader
from tests.simulation.real.tables import TABLE, LastTableReader, TableHistory, TableReader, TableWriter, compare_tables
from tests.simulation.real.znodes import Znodes

REST_MS = 60_000
TRIAL_MS = 15_000
VARIED = {
    "replica.lag.time.max.ms": ("1500", "1500", "1500", "12000"),
    "replica.fetch.max.bytes": ("1048576", "1048576", "200"),
    "offsets.commit.timeout.ms": ("5000", "1000"),
}
"""What brokers are told, by the seed: followers that are given up late, and that need many requests to catch up;
coordinators that give up what they wrote before their members are gone."""


@dataclass(frozen=True)
class Plan:
    """What is not left to the seed. `faults` are the numbers of the faults that happen, None for all; `steps` are how
    many each client does, without a limit for those that are not named."""

    brokers: int = 3
    duration_ms: int = 14_000
    faults: frozenset[int] | None = None
    steps: tuple[tuple[str, int], ...] = ()
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
    steps: dict[str, int]
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
        self.groups = GroupHistory(self.history, cluster.runtime)
        where = state_of_group(CONSUMERS)
        self.consumers = ConsumerHistory(self.history, cluster.runtime, lambda: self.znodes.tenures.get(where, []))
        self.tables = TableHistory(self.history)
        self.clients: list[Client] = []
        self.readers: list[Reader] = []

    def go(self) -> None:
        cluster, rng = self.cluster, Random(f"{self.cluster.seed} run")
        self.znodes = Znodes(cluster.zookeeper, self.history, self.groups.now)
        cluster.runtime.watchers.append(self.znodes.check)
        cluster.runtime.watchers.append(Absences(cluster, self.znodes, self.history).check)
        cluster.config = {name: rng.choice(values) for name, values in VARIED.items()} | self.plan.config
        self.faults = Faults(cluster, self.znodes, self.plan.faults)
        cluster.start()
        admin = Admin(cluster, "admin", self.history)
        admin.start()
        assert cluster.runtime.run(lambda: admin.done, 30_000), "no topics"
        self._start_clients()
        cluster.lossy_zookeeper = rng.choice((0.01, 0.01, 0.1))
        cluster.net.break_probability = rng.choice((0.0, 0.002, 0.01, 0.02))
        cluster.net.slowest_ms = rng.choice((2.0, 10.0, 60.0))
        end = cluster.runtime.now_ms() + self.plan.duration_ms
        while cluster.runtime.now_ms() < end:
            self.faults.next()
        self._rest()

    def _start_clients(self) -> None:
        cluster, history, several = self.cluster, self.history, len(self.cluster.brokers) >= 3
        for number in (1, 2):
            self.clients.append(Producer(cluster, f"p{number}", history))
        self.clients.append(TableWriter(cluster, "k1", self.tables))
        for partition in range(PARTITIONS):
            self.clients.append(TableReader(cluster, f"r-table-{partition}", self.tables, partition))
        if several:
            self.clients.append(Transactions(cluster, "t1", history))
            self.clients.append(Operator(cluster, "o1", history))
            for number in (1, 2, 3):
                self.clients.append(Member(cluster, f"m{number}", self.groups))
                self.clients.append(ConsumerMember(cluster, f"c{number}", self.consumers))
        for partition in range(PARTITIONS):
            for topic, isolation in (("queue", 0), ("bank", 1)):
                self.readers.append(Reader(cluster, f"r-{topic}-{partition}", history, topic, partition, isolation))
        if several:
            self.readers[0].group = "g"
        limits = dict(self.plan.steps)
        for client in (*self.clients, *self.readers):
            client.limit = limits.get(client.name)
            client.start()

    def steps(self) -> dict[str, int]:
        """How many each client has begun."""
        return {client.name: client.steps for client in (*self.clients, *self.readers)}

    # -- rest ----------------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        cluster = self.cluster
        cluster.note("no more faults")
        cluster.net.break_probability = 0.0
        cluster.net.slowest_ms = 2.0
        cluster.net.watch_delay_ms.clear()
        cluster.disk.failing.clear()
        cluster.heal()
        for broker in cluster.brokers.values():
            if broker.up and broker.process.paused:
                cluster.runtime.resume(broker.process)
        self._await("brokers", lambda: all(map(self._is_back, cluster.brokers.values())))
        self.faults.last()
        cluster.lossy_zookeeper = 0.0
        consumers = [each for each in self.clients if isinstance(each, ConsumerMember)]
        self._end([each for each in self.clients if each not in consumers])
        self._await(
            "consumers",
            lambda: self.consumers.is_owned() or all(each.is_over() for each in consumers),
            lambda: f"nobody has {self.consumers.unowned()}",
        )
        self._end(self.clients)
        self._await_replicas()
        spare = all(len(self.znodes.replicas("queue", partition)) >= 3 for partition in range(PARTITIONS))
        if spare and Random(f"{cluster.seed} trial").random() < 0.5:
            self._try_without_one()
        self._await("readers", lambda: all(map(self._is_at_end, self.readers)), lambda: self._behind(self.readers))
        again = [
            LastReader(cluster, f"{each.name}-again", self.history, each.topic, each.partition, each.isolation)
            for each in self.readers
        ]
        tables = [LastTableReader(cluster, f"table-{each}-again", self.tables, each) for each in range(PARTITIONS)]
        offsets = [
            Offsets(cluster, "offsets-again", self.groups),
            Offsets(cluster, "consumers-again", self.consumers, CONSUMERS),
        ]
        for last in (*again, *tables, *offsets) if len(cluster.brokers) >= 3 else (*again, *tables):
            last.start()
        self._await("readers", lambda: all(map(self._is_at_end, again)), lambda: self._behind(again))
        self._await("readers of tables", lambda: all(each.done for each in tables))
        self._await("offsets", lambda: all(each.done for each in offsets) or len(cluster.brokers) < 3)
        self.history.check_end(PARTITIONS)
        self.znodes.check_end()
        self._compare_replicas()

    def _end(self, clients: Sequence[Client]) -> None:
        for client in clients:
            client.stopping = True
        self._await("clients", lambda: all(client.done for client in clients))

    def _await_replicas(self) -> None:
        self._await("replicas", lambda: self.znodes.unrest() is None and self._is_quiet(), self.znodes.unrest)

    def _try_without_one(self) -> None:
        """What is at rest bears the loss of a broker, soon."""
        cluster = self.cluster
        broker = Random(f"{cluster.seed} without").choice(list(cluster.brokers.values()))
        cluster.note(f"everything is quiet, and {broker.host} is killed")
        broker.kill()
        writer = Producer(cluster, "p3", self.history)
        writer.limit = 6
        writer.start()
        if not cluster.runtime.run(lambda: writer.done, TRIAL_MS):
            raise Broken(f"without {broker.host} nothing is acknowledged within {TRIAL_MS} ms")
        self._await("brokers", lambda: all(map(self._is_back, cluster.brokers.values())))
        self._await_replicas()

    def _is_back(self, broker: SimBroker) -> bool:
        if broker.crippled:
            broker.kill()
        if not broker.up:
            broker.start()
        return broker.serving

    def _is_at_end(self, reader: Reader) -> bool:
        where = self._logs(reader.topic, reader.partition)
        return bool(where) and reader.offset >= max(log.log_end_offset for log in where)

    def _behind(self, readers: Sequence[Reader]) -> str:
        found = []
        for each in readers:
            ends = [log.log_end_offset for log in self._logs(each.topic, each.partition)]
            if not self._is_at_end(each):
                found.append(f"{each.name} is at {each.offset} of {ends}")
        return ", ".join(found)

    def _logs(self, topic: str, partition: int) -> list[Any]:
        """Those of its replicas. Who was away when a partition left it keeps its log, as with Apache Kafka."""
        return [
            log
            for number in self.znodes.replicas(topic, partition)
            if (broker := self.cluster.brokers[number]).serving and broker.server is not None
            for log in broker.server.log_manager.all_logs()
            if (log.topic_partition.topic, log.topic_partition.partition) == (topic, partition)
        ]

    def _is_quiet(self) -> bool:
        """No log longer than another, and as many as there are replicas."""
        for topic in TOPICS:
            for partition in range(PARTITIONS):
                logs = self._logs(topic, partition)
                if len(logs) != len(self.znodes.replicas(topic, partition)):
                    return False
                if len({log.log_end_offset for log in logs}) != 1:
                    return False
        return True

    def _await(self, what: str, condition: Callable[[], bool], why: Callable[[], str | None] = lambda: None) -> None:
        if not self.cluster.runtime.run(condition, REST_MS):
            raise Broken(f"a minute after the last fault: no rest among the {what}: {why() or ''}")

    def _compare_replicas(self) -> None:
        for topic in TOPICS:
            for partition in range(PARTITIONS):
                found = set()
                if topic == TABLE:
                    compare_tables(self._logs(topic, partition), f"{topic}-{partition}")
                    continue
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
        seed, cluster.trace, problem, one.faults.happened, one.steps(), one.history.acked, committed,
        cluster.runtime.switches, cluster.net.frames,
    )  # fmt: skip
