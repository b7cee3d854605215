"""A local cluster: brokers as real processes on one ZooKeeper, with settings that suit a laptop."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.errors import CommandError
from broker.dev.polling import wait_until
from broker.dev.private_files import write_private
from broker.dev.processes import ODRADEK, ManagedProcess, is_listening
from network.client.cluster_client import ClusterClient
from network.protocol.errors import ApiError
from timer.clock import Clock

if TYPE_CHECKING:
    from broker.dev.security import DevSecurity

READY_TIMEOUT_MS = 60_000
# Where there are as many brokers.
REPLICATION_FACTOR = 3
HOST = "127.0.0.1"
_STOPPED = {"T", "Z"}


class DevBroker:
    """One broker process and its files below ``directory``."""

    def __init__(
        self,
        broker_id: int,
        port: int,
        directory: Path,
        zookeeper: str,
        settings: Mapping[str, str],
        log_level: str = "INFO",
        security: DevSecurity | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.port = port
        self.address = f"{HOST}:{port}"
        directory.mkdir(parents=True, exist_ok=True)
        self._config = directory / "server.properties"
        self._log_level = log_level
        self.log_file = directory / "broker.log"
        properties = {
            "broker.id": str(broker_id),
            "listeners": f"{security.protocol if security else 'PLAINTEXT'}://{self.address}",
            "log.dirs": str((directory / "data").absolute()),
            "zookeeper.connect": zookeeper,
            **(security.broker_settings(broker_id) if security else {}),
            **settings,
        }
        # It may hold passwords.
        write_private(self._config, "".join(f"{key}={value}\n" for key, value in properties.items()).encode())
        self.process: ManagedProcess | None = None
        self.is_paused = False

    @property
    def is_running(self) -> bool:
        """Whether its process has not ended."""
        return self.process is not None and self.process.is_running

    @property
    def is_active(self) -> bool:
        """Whether it runs and is not paused."""
        return self.is_running and not self.is_paused

    def start(self) -> None:
        """Start the process, which ends with this one; it serves when the cluster says so."""
        self.is_paused = False
        command = [*ODRADEK, "server", "--config", str(self._config), "--log-level", self._log_level]
        self.process = ManagedProcess(f"broker {self.broker_id}", command, self.log_file, tied=True)

    def pause(self) -> None:
        """SIGSTOP; on Linux every thread stands still when this returns."""
        if self.process is None or not self.process.is_running:
            raise CommandError(f"broker {self.broker_id} does not run")
        self.process.signal(signal.SIGSTOP)
        self.is_paused = True

    def stands_still(self) -> bool:
        """Whether every thread has stopped, as far as the system tells."""
        tasks = Path(f"/proc/{self.process.pid if self.process else 0}/task")
        if not tasks.is_dir():
            return True
        for task in os.listdir(tasks):
            try:
                stat = (tasks / task / "stat").read_text()
            except OSError:
                continue
            if stat.rpartition(") ")[2][0] not in _STOPPED:
                return False
        return True

    def resume(self) -> None:
        """SIGCONT."""
        if self.process is not None:
            self.process.signal(signal.SIGCONT)
        self.is_paused = False

    def kill(self) -> None:
        """SIGKILL; it has ended when this returns."""
        if self.process is not None:
            self.process.kill()
        self.is_paused = False

    def stop(self) -> None:
        """Controlled shutdown; it has ended when this returns."""
        if self.process is not None:
            self.process.stop()
        self.is_paused = False

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


# A cluster on one machine loses no broker to the network: what ends is noticed soon. Where all stop at once, the last
# have nobody to hand their leaderships to, and do not ask for long.
_ONE_MACHINE = {"zookeeper.session.timeout.ms": "6000", "controlled.shutdown.retry.backoff.ms": "200"}


class DevCluster:
    """Brokers 0 to N-1 on the given ports."""

    def __init__(
        self,
        ports: list[int],
        directory: Path,
        zookeeper: str,
        clock: Clock,
        settings: Mapping[str, str] | None = None,
        *,
        log_level: str = "INFO",
        security: DevSecurity | None = None,
        console_ports: Sequence[int] = (),
    ) -> None:
        """`console_ports`: where each broker serves HTTP, or none."""
        self._clock = clock
        self._wrap = security.wrapper(security.brokers_user, clock) if security else None
        merged = {**small_cluster_settings(len(ports)), **_ONE_MACHINE}
        self.consoles = [f"http://{HOST}:{port}/console/" for port in console_ports]
        if console_ports:
            merged["odradek.console.peers"] = ",".join(f"{number}={url}" for number, url in enumerate(self.consoles))
        merged |= settings or {}
        own = [{"odradek.http.port": str(port)} for port in console_ports] or [{}] * len(ports)
        self.brokers = [
            DevBroker(
                number, port, directory / f"broker-{number}", zookeeper, own[number] | merged, log_level, security
            )
            for number, port in enumerate(ports)
        ]
        for broker in self.brokers:
            if is_listening(HOST, broker.port):
                raise CommandError(f"port {broker.port} is taken; choose others with --port")

    @property
    def bootstrap(self) -> str:
        """All addresses, as clients take them."""
        return ",".join(broker.address for broker in self.brokers)

    def client(self, brokers: Sequence[DevBroker], request_timeout_ms: int) -> ClusterClient:
        """One that may do everything, and starts from these brokers."""
        addresses = [broker.address for broker in brokers]
        return ClusterClient(
            addresses, "odradek-dev", self._clock, request_timeout_ms=request_timeout_ms, wrap=self._wrap
        )

    def broker(self, broker_id: int) -> DevBroker:
        """Raises CommandError for an id that no broker has."""
        if not 0 <= broker_id < len(self.brokers):
            raise CommandError(f"there is no broker {broker_id}: the cluster has 0 to {len(self.brokers) - 1}")
        return self.brokers[broker_id]

    def start(self) -> None:
        """Start all brokers and wait until every one knows all others and a controller.

        Raises CommandError with the end of a broker's log when one ends, or when the time is over.
        """
        self.launch()

        def ready() -> bool:
            self.check()
            return self.serves()

        if not wait_until(ready, self._clock, READY_TIMEOUT_MS):
            raise CommandError(f"the cluster did not come up within {READY_TIMEOUT_MS // 1000} s: {self.bootstrap}")

    def launch(self) -> None:
        """Start all processes."""
        for broker in self.brokers:
            broker.start()

    def serves(self) -> bool:
        """Whether every broker that runs knows exactly the running ones, and one of them as the controller."""
        active = [broker for broker in self.brokers if broker.is_active]
        expected = {broker.broker_id for broker in active}
        for broker in active:
            if not is_listening(HOST, broker.port):
                return False
            try:
                with self.client([broker], 2_000) as client:
                    seen = client.metadata([])
            except (OSError, ApiError):
                return False
            if set(seen.brokers) != expected or seen.controller_id not in expected:
                return False
        return bool(active)

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
            process.signal(signal.SIGCONT)
            process.terminate()
        for process in running:
            process.stop()
