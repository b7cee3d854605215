"""Apache Kafka 4.1.0, one broker in KRaft mode: the reference for the consumer group protocol (KIP-848).

ZooKeeper mode never got that protocol, so 3.9.1 can't tell how it behaves.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from broker.dev.processes import ManagedProcess, free_ports
from network.protocol.uuids import new_uuid, to_text
from tests.reference import kafka
from tests.support.cluster import HOST, ROOT, Broker, Cluster, python_environment
from timer.chance import SystemChance

VERSION = "4.1.0"

_LOG4J = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


class KraftBroker(Broker):
    """Broker and controller in one process."""

    def __init__(self, port: int, controller_port: int, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__("kafka", 1, port, directory, "", settings)
        del self.settings["broker.id"], self.settings["zookeeper.connect"]
        self.settings.update(
            {
                "node.id": "1",
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{HOST}:{controller_port}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            }
        )

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        log4j = self.directory / "log4j2.properties"
        log4j.write_text(_LOG4J)
        command = kafka.java_command(kafka.require(VERSION), "kafka.Kafka", str(properties), heap="768m")
        command.insert(1, f"-Dlog4j2.configurationFile={log4j}")
        if not self.data.exists():
            self._format(properties)
        self.process = ManagedProcess(
            "Kafka 4 broker", command, self.log_file, environment=python_environment(), directory=ROOT
        )

    def _format(self, properties: Path) -> None:
        arguments = ["format", "-t", to_text(new_uuid(SystemChance())), "-c", str(properties)]
        command = kafka.java_command(kafka.require(VERSION), "kafka.tools.StorageTool", *arguments, tool=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


class KraftCluster(Cluster):
    """One broker."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__([], directory, "")
        port, controller_port = free_ports(2)
        self.brokers = [KraftBroker(port, controller_port, directory / "broker-1", settings)]


@contextlib.contextmanager
def running_kraft(directory: Path, settings: Mapping[str, str]) -> Iterator[Cluster]:
    """A started broker, stopped at the end whatever happens."""
    cluster = KraftCluster(directory, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
