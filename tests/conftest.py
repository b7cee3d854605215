"""Fixtures that several suites share."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from broker.dev import processes
from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper, ZooKeeperServer
from tests.support.cluster import CLOCK, Cluster, running_cluster
from tests.support.paths import ROOT

_chroots = itertools.count()


# How long an example takes says more about the machine than about the code.
settings.register_profile("odradek", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("odradek")

# Long files first, so that workers side by side end together; the others as they are found.
_FIRST = ["docker", "cluster", "spark", "contract", "clients"]
_LAST = ["unit"]


def pytest_configure() -> None:
    """SIGTERM ends the run as Ctrl-C does, so that fixtures stop the processes that they started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        # Each worker has ports of its own: one of a broker that is down for a while is not free.
        number, workers = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        size = len(processes.PORTS) // workers
        processes.PORTS = processes.PORTS[number * size : (number + 1) * size]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Suites in the order of `_FIRST` and `_LAST`."""

    def place(item: pytest.Item) -> int:
        suite = item.path.relative_to(ROOT / "tests").parts[0]
        if suite in _LAST:
            return len(_FIRST) + 1
        return _FIRST.index(suite) if suite in _FIRST else len(_FIRST)

    items.sort(key=place)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of one ZooKeeper for the session: a real one, or with ODRADEK_TEST_ZOOKEEPER=embedded ours."""
    directory, port = tmp_path_factory.mktemp("zookeeper"), free_ports(1)[0]
    kind = os.environ.get("ODRADEK_TEST_ZOOKEEPER", "java")
    assert kind in ("java", "embedded"), "ODRADEK_TEST_ZOOKEEPER is java or embedded"
    server: ZooKeeperServer | EmbeddedZooKeeper
    if kind == "java":
        server = ZooKeeperServer(directory, port)
    else:
        server = EmbeddedZooKeeper(directory / "data", port, directory / "zookeeper.log")
    try:
        server.wait_until_ready(CLOCK)
        yield server.connect
    finally:
        server.stop()


@pytest.fixture
def chroot(zookeeper: str) -> str:
    """A ZooKeeper connect string with a chroot that nobody else uses."""
    return f"{zookeeper}/test-{next(_chroots)}"


@pytest.fixture
def make_cluster(zookeeper: str, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Start clusters: ``make_cluster(["odradek", "kafka"], settings={...})``; stopped at the end of the test."""
    open_clusters = []

    def make(kinds: list[Any], **options: Any) -> Cluster:
        number = next(_chroots)
        context = running_cluster(kinds, tmp_path / f"cluster-{number}", f"{zookeeper}/test-{number}", **options)
        cluster = context.__enter__()
        open_clusters.append(context)
        return cluster

    yield make
    for context in reversed(open_clusters):
        context.__exit__(None, None, None)
