"""Both servers: ZooKeeper itself, and the embedded one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from broker.dev.polling import wait_until
from broker.dev.processes import ManagedProcess, free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper, ZooKeeperServer, is_serving
from tests.support.cluster import CLOCK, HOST, ROOT

# Nodes with a time to live are off by default in ZooKeeper.
JAVA_OPTIONS = "-Dzookeeper.extendedTypesEnabled=true"


def java_zookeeper(directory: Path, *options: str) -> ZooKeeperServer:
    """A server with properties of its JVM: ``-Dname=value``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", " ".join((JAVA_OPTIONS, *options)))
        return ZooKeeperServer(directory, free_ports(1)[0])


@pytest.fixture(scope="session")
def java_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = java_zookeeper(tmp_path_factory.mktemp("java"))
    try:
        server.wait_until_ready(CLOCK)
        yield server.connect
    finally:
        server.stop()


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With a store, as far as clients can tell no different from one without."""
    directory = tmp_path_factory.mktemp("embedded")
    server = EmbeddedZooKeeper(directory / "data", free_ports(1)[0], directory / "log")
    try:
        server.wait_until_ready(CLOCK)
        yield server.connect
    finally:
        server.stop()


class OwnServer:
    """An embedded server with options that `odradek zookeeper` does not have."""

    def __init__(self, log_file: Path, *options: str) -> None:
        self.port = free_ports(1)[0]
        self.connect = f"{HOST}:{self.port}"
        self._options = options
        self._log_file = log_file
        self.process = self.start()

    def start(self) -> ManagedProcess:
        """It serves when this returns; also after it was killed."""
        command = [sys.executable, "-m", "controller.zk.embedded", "--port", str(self.port), *self._options]
        self.process = ManagedProcess("zookeeper", command, self._log_file, directory=ROOT)
        assert wait_until(lambda: is_serving(HOST, self.port), CLOCK, 30_000), self.process.log_tail()
        return self.process


class StartServer(Protocol):
    def __call__(self, *options: str) -> OwnServer: ...


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartServer]:
    """Start embedded servers, stopped at the end of the test."""
    started: list[OwnServer] = []

    def start(*options: str) -> OwnServer:
        started.append(OwnServer(tmp_path / "zookeeper.log", *options))
        return started[-1]

    yield start
    for server in started:
        server.process.stop()
