"""Which ZooKeeper tests run on: the embedded one, and for some files a real one too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper, ZooKeeperServer
from timer.clock import SystemClock

ZooKeeperKind = Literal["embedded", "java"]
KINDS: tuple[ZooKeeperKind, ...] = ("embedded", "java")


def zookeeper_kinds(*, both: bool = False) -> list[ZooKeeperKind]:
    """What a test runs on: the one that ODRADEK_TEST_ZOOKEEPER names, else the embedded one or ``both``."""
    named = os.environ.get("ODRADEK_TEST_ZOOKEEPER")
    if named:
        chosen = [kind for kind in KINDS if kind == named]
        assert chosen, "ODRADEK_TEST_ZOOKEEPER is java or embedded"
        return chosen
    return list(KINDS if both else KINDS[:1])


def zookeeper_server(kind: ZooKeeperKind, directory: Path, port: int) -> EmbeddedZooKeeper | ZooKeeperServer:
    """A server that keeps its data in ``directory`` and has been started, ready or not."""
    if kind == "java":
        return ZooKeeperServer(directory, port)
    return EmbeddedZooKeeper(directory / "data", port, directory.with_suffix(".log"))


class ZooKeepers:
    """One server of each kind, started when it is first asked for."""

    def __init__(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._factory = tmp_path_factory
        self._running: dict[ZooKeeperKind, EmbeddedZooKeeper | ZooKeeperServer] = {}

    def address(self, kind: ZooKeeperKind) -> str:
        """``host:port`` of the one of this kind."""
        if kind not in self._running:
            server = zookeeper_server(kind, self._factory.mktemp(f"zookeeper-{kind}"), free_ports(1)[0])
            self._running[kind] = server
            server.wait_until_ready(SystemClock())
        return self._running[kind].connect

    def stop(self) -> None:
        for server in self._running.values():
            server.stop()
