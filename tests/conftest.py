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
from tests.reference.kafka import cache_folder
from tests.support.cluster import Cluster, running_cluster
from tests.support.paths import ROOT
from tests.support.zookeeper_servers import ZooKeepers, zookeeper_kinds

_chroots = itertools.count()


# How long an example takes says more about the machine than about the code.
settings.register_profile("odradek", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("odradek")

# Long files first, so that workers side by side end together; the others as they are found.
_FIRST = ["docker", "cluster", "spark", "contract", "clients"]
_LAST = ["unit"]


def pytest_configure(config: pytest.Config) -> None:
    """SIGTERM ends the run as Ctrl-C does, so that fixtures stop the processes that they started."""
    config.addinivalue_line(
        "markers", "both_zookeepers: runs on the embedded ZooKeeper and on a real one (default: the embedded one)"
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        # Each broker would compile all of its modules: half a second of a core at every start.
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(cache_folder() / "bytecode"))
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        # Each worker has ports of its own: one of a broker that is down for a while is not free.
        number, workers = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        size = len(processes.PORTS) // workers
        processes.PORTS = processes.PORTS[number * size : (number + 1) * size]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test marked `both_zookeepers` runs on each kind of server."""
    marked = metafunc.definition.get_closest_marker("both_zookeepers") is not None
    if marked and "zookeeper" in metafunc.fixturenames:
        metafunc.parametrize("zookeeper", zookeeper_kinds(both=True), indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Suites in the order of `_FIRST` and `_LAST`."""

    def place(item: pytest.Item) -> int:
        suite = item.path.relative_to(ROOT / "tests").parts[0]
        if suite in _LAST:
            return len(_FIRST) + 1
        return _FIRST.index(suite) if suite in _FIRST else len(_FIRST)

    items.sort(key=place)


@pytest.fixture(scope="session")
def zookeepers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeepers]:
    """The session's servers, each started when it is first asked for."""
    servers = ZooKeepers(tmp_path_factory)
    try:
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="session")
def zookeeper(request: pytest.FixtureRequest, zookeepers: ZooKeepers) -> str:
    """``host:port`` of a ZooKeeper: the embedded one, unless ODRADEK_TEST_ZOOKEEPER or `both_zookeepers` says java."""
    return zookeepers.address(getattr(request, "param", zookeeper_kinds()[0]))


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
