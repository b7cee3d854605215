"""Whole brokers in one thread: `BrokerServer` as it is, on simulated threads, network, disk and ZooKeeper."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import greenlet

from broker.config.kafka_config import KafkaConfig
from broker.coordinator.internal_topic_names import OFFSETS_TOPIC, partition_for
from broker.server import BrokerServer
from controller.zk import paths
from controller.zk.payloads import decode_partition_state
from log.topic_partition import TopicPartition
from tests.simulation.real.disk import Disk
from tests.simulation.real.network import Net, SimServer
from tests.simulation.real.runtime import Process, Runtime, runtime
from tests.simulation.real.sessions import ZOOKEEPER, SimSession
from tests.simulation.real.substitutes import SERVER, installed
from tests.simulation.zookeeper import ZooKeeperModel
from timer.chance import SeededChance
from timer.clock import SystemClock

PORT = 9092
LOG_DIRS = ("a", "b")
SESSION_MS = 3_000

CONFIG = {
    "zookeeper.connect": "simulation",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "num.io.threads": "3",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.backoff.ms": "250",
    # Simulated threads and disks end where a real process begins.
    "odradek.log.cleaner.process": "false",
    "odradek.log.message.downconversion.process": "false",
    "log.cleaner.dedupe.buffer.size": "1048577",
    "log.cleaner.io.buffer.size": "4096",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "offsets.topic.segment.bytes": "3000",
    "transaction.state.log.segment.bytes": "3000",
    "log.index.size.max.bytes": "4096",
    "log.segment.bytes": "6000",
    "log.segment.delete.delay.ms": "500",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
    "request.timeout.ms": "3000",
    "leader.imbalance.check.interval.seconds": "7",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.retry.backoff.ms": "500",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
}


class SimBroker:
    """A broker's machine: its directory stays, its process comes and goes."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.id = number
        self.host = f"broker-{number}"
        self.directory = str(cluster.directory / self.host)
        self.log_dirs = [f"{self.directory}/{name}" for name in LOG_DIRS]
        self.process = Process(self.host)
        self.process.alive = False
        self.stopping = False
        self.stopped = False
        """Whether its process has ended in order, so that all it wrote has to be safe."""
        self.server: BrokerServer | None = None
        self.session: SimSession | None = None
        self.failed: Exception | None = None

    @property
    def up(self) -> bool:
        return self.process.alive

    @property
    def serving(self) -> bool:
        return self.up and not self.stopping and self.server is not None and self.server.state == 3

    @property
    def crippled(self) -> bool:
        """Whether it has given up a log directory, to which it comes back by a restart only."""
        return self.serving and self.server is not None and bool(self.server.log_manager.offline_log_dirs)

    def start(self) -> None:
        """Begin the process; `serving` tells when it is there."""
        cluster = self.cluster
        self.process = process = Process(self.host)
        cluster.processes.append(process)
        self.failed = self.session = self.server = None
        self.stopping = self.stopped = False
        config = {
            **CONFIG,
            **cluster.config,
            "broker.id": str(self.id),
            "listeners": f"PLAINTEXT://{self.host}:{PORT}",
            "log.dirs": ",".join(self.log_dirs),
        }

        def run() -> None:
            process.broker = self  # type: ignore[attr-defined]
            self.server = BrokerServer(KafkaConfig(config), SystemClock(), chance=cluster.chance)
            try:
                self.server.startup()
            except Exception as error:
                self.failed = error
                cluster.note(f"{self.host} could not start: {error}")
                self.kill()

        cluster.runtime.spawn(process, run, "main")

    def kill(self) -> None:
        """SIGKILL: what was written stays."""
        self.cluster.runtime.kill(self.process)
        self.cluster.net.process_died(self.process)
        server = self.server
        manager = None if server is None else getattr(server, "log_manager", None)
        if manager is not None:
            for log in manager.all_logs():
                with contextlib.suppress(Exception):
                    log.close_handles()
            for log_dir in manager._live.values():
                log_dir.unlock(remove=False)

    def stop(self) -> None:
        """SIGTERM: the process ends when it has stopped in order."""
        server = self.server
        assert server is not None
        self.stopping = True

        def run() -> None:
            server.shutdown()
            self.cluster.note(f"{self.host} has stopped")
            self.stopped = not server.log_manager.offline_log_dirs
            self.kill()

        self.cluster.runtime.spawn(self.process, run, "stop")

    def lose_power(self) -> None:
        self.kill()
        self.cluster.disk.lose(self.directory)


def state_of_group(group: str) -> str:
    """The znode that tells who leads the partition that keeps the group."""
    kept = partition_for(group, int(CONFIG["offsets.topic.num.partitions"]))
    return paths.partition_state(TopicPartition(OFFSETS_TOPIC, kept))


class Cluster:
    """Brokers, their ZooKeeper and the network, by one seed. A context: what it replaces is put back at the end."""

    def __init__(self, seed: int, directory: Path, brokers: int = 3, config: dict[str, str] | None = None) -> None:
        self.seed = seed
        self.directory = directory
        self.config = config or {}
        self.runtime = Runtime(seed)
        self.rng = self.runtime.rng
        self.chance = SeededChance(seed)
        self.net = Net(self.runtime)
        self.disk = Disk(self.rng, directory)
        self.processes: list[Process] = []
        self.trace: list[str] = []
        self.lossy_zookeeper = 0.0
        """How many of ZooKeeper's answers are lost."""
        self.brokers = {number: SimBroker(self, number) for number in range(1, brokers + 1)}
        self._installed = installed(self.runtime, self.net, self.disk)

    def __enter__(self) -> Cluster:
        patch = self._installed.__enter__()
        for broker in self.brokers.values():
            os.mkdir(broker.directory)
        self.zookeeper = ZooKeeperModel(SystemClock())
        patch(SERVER, "KazooSession", self._session)
        patch(SERVER, "SocketServer", self._socket_server)
        patch(SERVER, "_halt", self._halt)
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            for broker in self.brokers.values():
                if broker.up:
                    broker.kill()
            self.runtime.close(self.processes)
        finally:
            self._installed.__exit__(None, None, None)

    def coordinates(self, group: str, broker: int) -> bool:
        """Whether ZooKeeper has it lead the partition that keeps the group.

        One that was paused answers from its memory until it hears that it does not, and so do Apache Kafka's.
        """
        node = self.zookeeper.nodes.get(state_of_group(group))
        state = None if node is None else decode_partition_state(node.data, 0)
        return state is not None and state.leader == broker

    def note(self, line: str) -> None:
        self.trace.append(f"{(self.runtime.now_ns - 1_000_000_000) / 1e6:10.2f}  {line}")

    def spawn(self, process: Process, run: Callable[[], object], name: str) -> None:
        if process not in self.processes:
            self.processes.append(process)
        self.runtime.spawn(process, run, name)

    def start(self, limit_ms: float = 30_000) -> None:
        for broker in self.brokers.values():
            broker.start()
        assert self.runtime.run(lambda: all(each.serving for each in self.brokers.values()), limit_ms), [
            (each.id, each.failed) for each in self.brokers.values()
        ]

    # -- what brokers are given ------------------------------------------------------------------------------------

    def _session(self, connect: str, *, session_timeout_ms: int, **_: Any) -> SimSession:
        process = _current()
        session = SimSession(self.net, process, self.zookeeper, session_timeout_ms, lambda: self.lossy_zookeeper)
        process.broker.session = session  # type: ignore[attr-defined]
        return session

    def _socket_server(self, config: Any, handler: Any, clock: Any, metrics: Any, **_: Any) -> SimServer:
        return SimServer(self.net, _current(), config, handler, clock)

    def _halt(self) -> None:
        broker: SimBroker = _current().broker  # type: ignore[attr-defined]
        self.note(f"{broker.host} halts")
        broker.kill()
        raise greenlet.GreenletExit

    # -- faults ----------------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        self.net.cut.add((source, target))

    def heal(self) -> None:
        self.net.cut.clear()


def _current() -> Process:
    task = runtime().current
    assert task is not None
    return task.process


__all__ = ["ZOOKEEPER", "Cluster", "SimBroker"]
