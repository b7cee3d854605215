"""Clusters of real broker processes for tests: Odradek's, Apache Kafka's, or both on one ZooKeeper."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from broker.dev.cluster import small_cluster_settings
from broker.dev.polling import wait_until
from broker.dev.processes import ManagedProcess, free_ports, is_listening
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError
from tests.reference import kafka
from tests.support.suspend import suspend
from tests.support.zookeeper import zookeeper_client
from timer.clock import SystemClock

Kind = Literal["odradek", "kafka"]

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
START_TIMEOUT_MS = 120_000
# A broker that is killed because it stops slowly keeps its session, and a new process could not register.
STOP_TIMEOUT_S = 90.0
CLOCK = SystemClock()
# All brokers stop at once at the end of a test: the last ones have nobody to hand their leaderships to.
SETTINGS = {"controlled.shutdown.retry.backoff.ms": "500"}


def python_environment() -> dict[str, str]:
    """So that child Pythons import this checkout, installed or not."""
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{ROOT}{os.pathsep}{path}" if path else str(ROOT)}


def small_kafka(properties: Path) -> list[str]:
    """Apache Kafka's broker, quick at its start and small."""
    return kafka.java_command(kafka.require(), "kafka.Kafka", str(properties))


class Broker:
    """One broker process with its directory; its kind may change between starts, the data stays."""

    def __init__(
        self,
        kind: Kind,
        broker_id: int,
        port: int,
        directory: Path,
        zookeeper: str,
        settings: Mapping[str, str],
        host: str = HOST,
    ) -> None:
        self.kind = kind
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.address = f"{host}:{port}"
        self.directory = directory
        self.data = directory / "data"
        self.log_file = directory / "broker.log"
        self.settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.data),
            "zookeeper.connect": zookeeper,
            **settings,
        }
        self.environment: dict[str, str] = {}
        self.prefix: list[str] = []
        """A command that becomes the broker's: one that enters a network of its own, for example."""
        self.kafka_command: Callable[[Path], list[str]] = small_kafka
        """What starts Apache Kafka's broker with such properties."""
        self.process: ManagedProcess | None = None
        self.is_paused = False

    @property
    def log_dirs(self) -> list[Path]:
        """Its log directories; `data` alone unless the settings name others."""
        return [Path(name) for name in self.settings["log.dirs"].split(",")]

    def replica(self, topic: str, partition: int) -> Path:
        """The directory of one replica, in whichever log directory it is."""
        found = [folder for parent in self.log_dirs if (folder := parent / f"{topic}-{partition}").is_dir()]
        assert len(found) == 1, f"broker {self.broker_id} has {topic}-{partition} {len(found)} times"
        return found[0]

    def start(self) -> None:
        """Start the process without waiting for it.

        Odradek's broker waits for the end of its old session by itself; Kafka's would fail.
        """
        assert self.process is None or not self.process.is_running
        if self.kind == "kafka" and self.process is not None:
            self.wait_forgotten()
        self.is_paused = False
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        if self.kind == "kafka":
            command = self.kafka_command(properties)
        else:
            command = [sys.executable, "-m", "broker", "server", "--config", str(properties)]
        name = f"{self.kind} broker {self.broker_id}"
        environment = {**python_environment(), **self.environment}
        self.process = ManagedProcess(
            name, [*self.prefix, *command], self.log_file, environment=environment, directory=ROOT
        )

    def wait_forgotten(self) -> None:
        """Until ZooKeeper has ended the session of its last process."""
        path = f"/brokers/ids/{self.broker_id}"
        with zookeeper_client(self.settings["zookeeper.connect"]) as client:
            assert wait_until(lambda: client.exists(path) is None, CLOCK, START_TIMEOUT_MS), f"{path} stays"

    def wait_listening(self) -> None:
        """Until it accepts connections."""

        def listening() -> bool:
            assert self.process is not None
            if not self.process.is_running:
                raise AssertionError(f"{self.process.name} ended at start:\n{self.process.log_tail(60)}")
            return is_listening(self.host, self.port)

        if not wait_until(listening, CLOCK, START_TIMEOUT_MS):
            raise AssertionError(f"broker {self.broker_id} does not listen:\n{self.log_tail()}")

    def fail_to_start(self) -> None:
        """Start the process and wait until it has ended by itself."""
        self.start()
        process = self.process
        assert process is not None
        try:
            assert wait_until(lambda: not process.is_running, CLOCK, START_TIMEOUT_MS)
        finally:
            process.kill()

    def stop(self) -> int:
        """Controlled shutdown; returns the exit code."""
        assert self.process is not None
        return self.process.stop(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.kill()

    def pause(self) -> None:
        """It stands still when this returns."""
        assert self.process is not None
        suspend(self.process.pid)
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        self.process.signal(signal.SIGCONT)
        self.is_paused = False

    def log_tail(self, lines: int = 60) -> str:
        """The end of its log."""
        return self.process.log_tail(lines) if self.process is not None else ""


class Cluster:
    """Brokers on one ZooKeeper (a chroot of their own)."""

    def __init__(
        self,
        kinds: Sequence[Kind],
        directory: Path,
        zookeeper: str,
        settings: Mapping[str, str] | None = None,
        broker_settings: Mapping[int, Mapping[str, str]] | None = None,
        hosts: Sequence[str] = (),
    ) -> None:
        """`hosts`: an address of each broker's own; all are on this machine's without."""
        self.zookeeper = zookeeper
        merged = {**small_cluster_settings(len(kinds)), **SETTINGS, **(settings or {})}
        self.brokers = [
            Broker(
                kind,
                number,
                port,
                directory / f"broker-{number}",
                zookeeper,
                {**merged, **(broker_settings or {}).get(number, {})},
                hosts[number] if hosts else HOST,
            )
            for number, (kind, port) in enumerate(zip(kinds, free_ports(len(kinds)), strict=True))
        ]

    @property
    def bootstrap(self) -> str:
        """All addresses, as clients take them."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def running(self) -> list[Broker]:
        """Brokers whose process runs and is not paused."""
        return [b for b in self.brokers if b.process is not None and b.process.is_running and not b.is_paused]

    def start(self) -> None:
        """Start all and wait until all serve."""
        for broker in self.brokers:
            broker.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until every running broker knows exactly the running ones and a controller among them."""
        expected = {broker.broker_id for broker in self.running}

        def ready() -> bool:
            for broker in self.running:
                if not is_listening(broker.host, broker.port):
                    return False
                with contextlib.suppress(OSError, ApiError):
                    with ClusterClient(broker.address, "test", CLOCK, request_timeout_ms=2_000) as client:
                        seen = client.metadata([])
                    if set(seen.brokers) == expected and seen.controller_id in expected:
                        continue
                return False
            return True

        for broker in self.running:
            broker.wait_listening()
        if not wait_until(ready, CLOCK, START_TIMEOUT_MS):
            tails = "\n".join(f"--- broker {b.broker_id} ({b.kind})\n{b.log_tail()}" for b in self.brokers)
            raise AssertionError(f"the cluster is not ready:\n{tails}")

    def wait_topic(self, topic: str, partitions: int) -> None:
        """Until every running broker knows the topic, with a leader of each partition.

        Who creates a topic hears of it before all brokers do, so the next request may meet one that does not know it.
        """

        def known() -> bool:
            for broker in self.running:
                try:
                    with ClusterClient(broker.address, "test", CLOCK, request_timeout_ms=5_000) as client:
                        found = client.metadata([topic]).topics.get(topic)
                except (OSError, ApiError):
                    return False
                if found is None or found.error or len(found.partitions) != partitions:
                    return False
                if any(each.leader < 0 or each.error for each in found.partitions.values()):
                    return False
            return True

        assert wait_until(known, CLOCK, START_TIMEOUT_MS), f"not every broker knows {topic}"

    def stop(self) -> None:
        """End all processes, in order where they let themselves be."""
        for broker in self.brokers:
            if broker.process is not None and broker.process.is_running:
                broker.resume()
                broker.process.terminate()
        for broker in self.brokers:
            if broker.process is not None:
                broker.process.stop(STOP_TIMEOUT_S)

    @contextlib.contextmanager
    def client(self) -> Iterator[ClusterClient]:
        """Odradek's own cluster client, for what the test itself has to know or do."""
        with ClusterClient(self.bootstrap, "test", CLOCK, topic_patience_ms=30_000) as client:
            yield client


@contextlib.contextmanager
def running_cluster(
    kinds: Sequence[Kind],
    directory: Path,
    zookeeper: str,
    settings: Mapping[str, str] | None = None,
    broker_settings: Mapping[int, Mapping[str, str]] | None = None,
) -> Iterator[Cluster]:
    """A started cluster, stopped at the end whatever happens."""
    cluster = Cluster(kinds, directory, zookeeper, settings, broker_settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
