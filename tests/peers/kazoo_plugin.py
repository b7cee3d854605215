"""A pytest plugin for kazoo's own suite: its cluster is one server, of the kind that ODRADEK_PEER_SERVER names."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path

from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper, ZooKeeperServer
from tests.support.zookeeper_servers import ZooKeeperKind, zookeeper_server
from timer.clock import SystemClock

for missing in ("OpenSSL", "jks"):
    # Its harness makes certificates with them; neither server here serves TLS.
    sys.modules.setdefault(missing, types.ModuleType(missing))


class Server:
    """What kazoo's tests know of a server."""

    def __init__(self, kind: ZooKeeperKind) -> None:
        self._kind = kind
        self._port = free_ports(1)[0]
        self._process: EmbeddedZooKeeper | ZooKeeperServer | None = None
        self.working_path = tempfile.mkdtemp(prefix="odradek-peer-")
        self.address = self.secure_address = f"127.0.0.1:{self._port}"

    @property
    def running(self) -> bool:
        return self._process is not None

    def run(self) -> None:
        if self._process is None:
            self._process = zookeeper_server(self._kind, Path(self.working_path) / "server", self._port)
            self._process.wait_until_ready(SystemClock())

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def destroy(self) -> None:
        self.stop()
        shutil.rmtree(self.working_path, ignore_errors=True)
        os.mkdir(self.working_path)

    def get_logs(self) -> list[str]:
        return []


class Servers:
    """What they know of a cluster."""

    def __init__(self, kind: ZooKeeperKind) -> None:
        self._servers = [Server(kind)]

    def __iter__(self) -> Iterator[Server]:
        return iter(self._servers)

    def __getitem__(self, number: int) -> Server:
        return self._servers[number]

    def start(self) -> None:
        for server in self:
            server.run()

    def terminate(self) -> None:
        for server in self:
            server.destroy()

    def get_logs(self) -> list[str]:
        return []

    def end(self) -> None:
        for server in self:
            server.stop()
            shutil.rmtree(server.working_path, ignore_errors=True)


def pytest_configure() -> None:
    from kazoo.testing import harness

    kind = os.environ["ODRADEK_PEER_SERVER"]
    servers = Servers("java" if kind == "java" else "embedded")
    atexit.register(servers.end)
    harness.get_global_cluster = lambda: servers
