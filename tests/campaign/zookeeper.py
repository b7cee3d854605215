"""The ZooKeeper server of a campaign."""

from __future__ import annotations

from pathlib import Path

from broker.dev.zookeeper import EmbeddedZooKeeper
from tests.support.cluster import CLOCK, HOST


class ZooKeeper:
    """It can be killed, and comes back with its data."""

    def __init__(self, directory: Path, port: int, host: str = HOST) -> None:
        self.port = port
        self._directory = directory
        self._host = host
        self.server = self._start()

    def _start(self) -> EmbeddedZooKeeper:
        log = self._directory / "zookeeper.log"
        server = EmbeddedZooKeeper(self._directory / "data", self.port, log, self._host)
        server.wait_until_ready(CLOCK)
        return server

    def kill(self) -> None:
        self.server.process.kill()

    def start(self) -> None:
        self.server = self._start()
