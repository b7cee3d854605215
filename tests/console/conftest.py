"""A cluster and a browser for the tests of a file: some change what others would count."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.console.running import console_of, running_browser, running_console
from tests.console.visit import Visit
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A cluster of the file's own."""
    name = request.module.__name__.rpartition(".")[2]
    with running_console(tmp_path_factory.mktemp(name), f"{zookeeper}/console-{name}") as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium.

    Not for the whole session: playwright has an event loop of its own running in this thread for as long, in which no
    other test can start one.
    """
    with running_browser() as made:
        yield made


@pytest.fixture
def visit(browser: Browser, cluster: Cluster) -> Iterator[Visit]:
    """A visit of broker 0's console; a fault of a script, or of the policy, fails the test."""
    with Visit.of(browser, console_of(cluster)) as made:
        yield made


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit.page
