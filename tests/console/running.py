"""What the tests of the console and its pictures run on: a cluster with something in it, and Debian's Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from broker.dev.processes import free_ports
from tests.console.content import fill
from tests.support.cluster import HOST, Cluster, running_cluster

BROKERS = 3


@contextmanager
def running_console(directory: Path, zookeeper: str) -> Iterator[Cluster]:
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
    with running_cluster(["odradek"] * BROKERS, directory, zookeeper, settings, own) as made:
        fill(made)
        yield made


def console_of(cluster: Cluster, broker: int = 0) -> str:
    """Where a broker's console is."""
    return f"http://{HOST}:{cluster.brokers[broker].settings['odradek.http.port']}/console/"


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Without a window."""
    found = shutil.which("chromium")
    assert found is not None, "apt-get install chromium"
    with sync_playwright() as playwright:
        # A root user, as in CI's container, has no sandbox.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
