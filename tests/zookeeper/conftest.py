"""Both servers: ZooKeeper itself, and the embedded one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper, ZooKeeperServer
from tests.support.cluster import CLOCK

# Nodes with a time to live are off by default in ZooKeeper.
JAVA_OPTIONS = "-Dzookeeper.extendedTypesEnabled=true"


@pytest.fixture(scope="session")
def java_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    before = os.environ.get("JDK_JAVA_OPTIONS")
    os.environ["JDK_JAVA_OPTIONS"] = JAVA_OPTIONS
    try:
        server = ZooKeeperServer(tmp_path_factory.mktemp("java"), free_ports(1)[0])
    finally:
        if before is None:
            del os.environ["JDK_JAVA_OPTIONS"]
        else:
            os.environ["JDK_JAVA_OPTIONS"] = before
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
