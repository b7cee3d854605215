"""A local cluster: brokers as real processes on one ZooKeeper, with settings that suit a laptop."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from broker.cli.errors import CommandError
from broker.dev.processes import ManagedProcess, is_listening
from broker.dev.waiting import wait_until
from network.cluster_client import ClusterClient
from network.protocol.errors import ApiError
from timer.clock import Clock

READY_TIMEOUT_MS = 60_000
# Where there are as many brokers.
REPLICATION_FACTOR = 3
HOST = "127.0.0.1"


class DevBroker:
    """One broker process and its files below ``directory``."""

    def __init__(self, broker_id: int, port: int, directory: Path, zookeeper: str, settings: Mapping[str, str]) -> None:
        self.broker_id = broker_id
        self.port = port
        self.address = f"{HOST}:{port}"
        directory.mkdir(parents=True, exist_ok=True)
        self._config = directory / "server.properties"
        self._log_file = directory / "broker.log"
        properties = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str((directory / "data").absolute()),
            "zookeeper.connect": zookeeper,
            **settings,
        }
        self._config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self.process: ManagedProcess | None = None

    def start(self) -> None:
        """Start the process; it serves when the cluster says so."""
        command = [sys.executable, "-m", "broker", "server", "--config", str(self._config)]
        self.process = ManagedProcess(f"broker {self.broker_id}", command, self._log_file)

    def failure(self) -> str | None:
        """What to tell when the process has ended by itself."""
        if self.process is None or self.process.is_running:
            return None
        return (
            f"broker {self.broker_id} ended with exit code {self.process.poll()}; the end of its log:\n"
            f"{self.process.log_tail()}"
        )


def small_cluster_settings(brokers: int) -> dict[str, str]:
    """Replication of the internal topics as far as the brokers go; groups start without delay."""
    factor = min(brokers, REPLICATION_FACTOR)
    return {
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": str(min(2, factor)),
        "default.replication.factor": str(factor),
        "min.insync.replicas": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


class DevCluster:
    """Brokers 0 to N-1 on consecutive ports, or on the given ones."""

    def __init__(
        self,
        ports: list[int],
        directory: Path,
        zookeeper: str,
        clock: Clock,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._clock = clock
        merged = {**small_cluster_settings(len(ports)), **(settings or {})}
        self.brokers = [
            DevBroker(number, port, directory / f"broker-{number}", zookeeper, merged)
            for number, port in enumerate(ports)
        ]
        for broker in self.brokers:
            if is_listening(HOST, broker.port):
                raise CommandError(f"port {broker.port} is taken; choose others with --port")

    @property
    def bootstrap(self) -> str:
        """All addresses, as clients take them."""
        return ",".join(broker.address for broker in self.brokers)

    def start(self) -> None:
        """Start all brokers and wait until every one knows all others and a controller.

        Raises CommandError with the end of a broker's log when one ends, or when the time is over.
        """
        for broker in self.brokers:
            broker.start()
        if not wait_until(self._serves, self._clock, READY_TIMEOUT_MS):
            raise CommandError(f"the cluster did not come up within {READY_TIMEOUT_MS // 1000} s: {self.bootstrap}")

    def _serves(self) -> bool:
        self.check()
        expected = {broker.broker_id for broker in self.brokers}
        for broker in self.brokers:
            if not is_listening(HOST, broker.port):
                return False
            try:
                with ClusterClient(broker.address, "odradek-dev", self._clock, request_timeout_ms=2_000) as client:
                    seen = client.metadata([])
            except (OSError, ApiError):
                return False
            if set(seen.brokers) != expected or seen.controller_id not in expected:
                return False
        return True

    def check(self) -> None:
        """Raise CommandError when a broker has ended by itself."""
        for broker in self.brokers:
            failure = broker.failure()
            if failure is not None:
                raise CommandError(failure)

    def stop(self) -> None:
        """Controlled shutdown of all: each hands its leaderships over, the last has nobody to give them to."""
        running = [b.process for b in self.brokers if b.process is not None]
        for process in running:
            process.terminate()
        for process in running:
            process.stop()
