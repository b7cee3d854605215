"""What the data path benchmark runs against, each started and stopped as real processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from broker.dev.java import find_java
from broker.dev.processes import ManagedProcess, free_ports
from broker.dev.zookeeper import ZooKeeperServer
from network.client.connection import Connection, ConnectionFailed
from network.protocol.errors import ProtocolError
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.delete_topics import DeleteTopicsRequest
from network.protocol.messages.metadata import MetadataRequest
from timer.clock import SystemClock

ROOT = Path(__file__).resolve().parents[1]
HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
CLOCK = SystemClock()
TICKS = os.sysconf("SC_CLK_TCK")

BROKER_SETTINGS = {
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": "1073741824",
    "log.segment.delete.delay.ms": "100",
}


class Target(Protocol):
    """A server that the benchmark measures."""

    name: str
    start_s: float
    """From starting the process to its first answer to Metadata."""

    @property
    def address(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """A topic without replicas, on one broker."""
        ...

    def delete_topic(self, name: str) -> None: ...

    def stop(self) -> None: ...


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def children(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *children(int(child))]
    return found


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no resident memory")


class SinkTarget:
    """The bare socket sink."""

    name = "sink"
    start_s = 0.0

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._port = 0

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sink"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        self.start_s = time.monotonic() - began

    def create_topic(self, name: str, partitions: int = 1) -> None:
        pass

    def delete_topic(self, name: str) -> None:
        pass

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)


class BrokerTarget:
    """A broker process on a ZooKeeper of its own chroot."""

    name = ""

    def __init__(
        self, directory: Path, zookeeper: str, settings: Mapping[str, str] | None = None, port: int | None = None
    ) -> None:
        """`port` is that of the plain listener where `settings` names the listeners."""
        self._directory = directory / self.name
        self._directory.mkdir(parents=True)
        self._port = free_ports(1)[0] if port is None else port
        self._process: ManagedProcess | None = None
        self.start_s = 0.0
        self._settings = {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{HOST}:{self._port}",
            "log.dirs": str(self._directory / "data"),
            "zookeeper.connect": f"{zookeeper}/{self.name}",
            **BROKER_SETTINGS,
            **(settings or {}),
        }

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def directory(self) -> Path:
        """What is its own; `data` in it is its log directory."""
        return self._directory

    def command(self, properties: Path) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def prepare(self, environment: dict[str, str]) -> None:
        """What an installation would have done before the first start."""

    def start(self) -> None:
        properties = self._directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        environment = self.environment()
        self.prepare(environment)
        began = time.monotonic()
        self._process = ManagedProcess(
            self.name,
            self.command(properties),
            self._directory / "broker.log",
            environment=environment,
            directory=self._directory,
        )
        while not self._serves():
            if not self._process.is_running or time.monotonic() - began > START_TIMEOUT_S:
                raise RuntimeError(f"{self.name} does not serve:\n{self._process.log_tail(40)}")
            time.sleep(0.01)
        self.start_s = time.monotonic() - began

    def _serves(self) -> bool:
        try:
            with self._connect(1000) as connection:
                answer = connection.call(MetadataRequest(topics=[]), 9)
        except (ConnectionFailed, ProtocolError):
            return False
        return len(answer.brokers) == 1 and answer.controller_id == 1

    def _connect(self, timeout_ms: int = 30_000) -> Connection:
        return Connection(HOST, self._port, "benchmark", CLOCK, timeout_ms, timeout_ms)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)], timeout_ms=20_000
        )
        with self._connect() as connection:
            result = connection.call(request, 5).topics[0]
        if result.error_code:
            raise RuntimeError(f"{self.name} does not create a topic: {result}")

    def delete_topic(self, name: str) -> None:
        with self._connect() as connection:
            connection.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000), 5)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


class OdradekTarget(BrokerTarget):
    """This checkout, with its bytecode compiled as an installation has it."""

    name = "odradek"
    python = sys.executable
    """The interpreter that it runs on."""

    def environment(self) -> dict[str, str]:
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "PYTHONPYCACHEPREFIX": str(self._directory / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }

    def prepare(self, environment: dict[str, str]) -> None:
        program = "import broker.server, broker.cli.main, broker.requests.handlers as h; h.import_handlers()"
        subprocess.run(
            [self.python, "-c", program], cwd=ROOT, env={**os.environ, **environment}, check=True, timeout=120
        )

    def command(self, properties: Path) -> list[str]:
        return [self.python, "-m", "broker", "server", "--config", str(properties)]


class KafkaTarget(BrokerTarget):
    """Apache Kafka with the heap and collector of its own start script."""

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        libraries: Path,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> None:
        super().__init__(directory, zookeeper, settings, port)
        self._libraries = libraries

    def command(self, properties: Path) -> list[str]:
        return kafka_command(self._libraries, properties)


def kafka_command(libraries: Path, properties: Path) -> list[str]:
    """Its broker with the heap and collector of its own start script; warnings alone are logged."""
    log4j = properties.with_name("log4j.properties")
    log4j.write_text(
        "log4j.rootLogger=WARN, out\n"
        "log4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
    )
    return [
        find_java(),
        "-Xmx1G",
        "-Xms1G",
        "-server",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-Djava.awt.headless=true",
        f"-Dlog4j.configuration=file:{log4j}",
        "-cp",
        f"{libraries}/*",
        "kafka.Kafka",
        str(properties),
    ]


def start_zookeeper(directory: Path) -> ZooKeeperServer:
    """A real ZooKeeper that all brokers share."""
    server = ZooKeeperServer(directory / "zookeeper", free_ports(1)[0])
    server.wait_until_ready(CLOCK)
    return server
