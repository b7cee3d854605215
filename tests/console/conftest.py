"""A cluster and a browser for the tests of a file: some change what others would count."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from broker.dev.processes import free_ports
from tests.console.content import fill
from tests.console.visit import Visit
from tests.support.cluster import HOST, Cluster, running_cluster

BROKERS = 3


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers with a console each; that of broker 0 may change things."""
    ports = free_ports(BROKERS)
    peers = ",".join(f"{number}=http://{HOST}:{port}/console/" for number, port in enumerate(ports))
    own = {number: {"odradek.http.port": str(port)} for number, port in enumerate(ports)}
    own[0]["odradek.console.write"] = "true"
    settings = {
        "odradek.console.peers": peers,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "zookeeper.session.timeout.ms": "6000",
    }
    name = request.module.__name__.rpartition(".")[2]
    directory = tmp_path_factory.mktemp(name)
    with running_cluster(["odradek"] * BROKERS, directory, f"{zookeeper}/console-{name}", settings, own) as made:
        fill(made)
        yield made


def console_of(cluster: Cluster, broker: int = 0) -> str:
    """Where a broker's console is."""
    return f"http://{HOST}:{cluster.brokers[broker].settings['odradek.http.port']}/console/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window.

    Not for the whole session: playwright has an event loop of its own running in this thread for as long, in which no
    other test can start one.
    """
    found = shutil.which("chromium")
    assert found is not None, "apt-get install chromium"
    with sync_playwright() as playwright:
        # A root user, as in CI's container, has no sandbox.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, cluster: Cluster) -> Iterator[Visit]:
    """A visit of broker 0's console; a fault of a script, or of the policy, fails the test."""
    with Visit.of(browser, console_of(cluster)) as made:
        yield made


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit.page
