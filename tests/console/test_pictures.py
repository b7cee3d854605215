"""The pictures of docs/console.md: ODRADEK_WRITE_DOCS=1 takes them anew, of the cluster of these tests under load.

Otherwise it is seen to that the page's pictures are there, are pictures, and are small.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, Page

from tests.console.conftest import console_of
from tests.console.visit import LAPTOP, PHONE, Visit
from tests.support.cluster import Cluster
from tests.support.paths import ROOT

IMAGES = ROOT / "docs" / "images"
WRITES = os.environ.get("ODRADEK_WRITE_DOCS") == "1"
MAX_BYTES = 120_000
LOW = (1280, 580)
SETTLED_MS = 2_500
Scheme = Literal["light", "dark"]
RECORD = "/records?topic=orders&partition=1&start=offset&value=20&record=1-24"
PICTURES: list[tuple[str, str, tuple[int, int], Scheme]] = [
    ("console-overview", "/", LAPTOP, "light"),
    ("console-overview-dark", "/", LAPTOP, "dark"),
    ("console-topic", "/topics/orders", LAPTOP, "light"),
    ("console-group", "/groups/billing", LAPTOP, "light"),
    ("console-records", RECORD, LAPTOP, "light"),
    ("console-records-dark", RECORD, LAPTOP, "dark"),
    ("console-requests", "/internals/requests", LAPTOP, "light"),
    ("console-waiting-dark", "/internals/waiting", LOW, "dark"),
    ("console-controller", "/internals/controller", LAPTOP, "light"),
    ("console-replication", "/internals/replication", LAPTOP, "light"),
    ("console-phone", "/topics", PHONE, "light"),
    ("console-phone-dark", "/internals/requests", PHONE, "dark"),
]


@contextlib.contextmanager
def writing(cluster: Cluster) -> Iterator[None]:
    """A shop writes all the time."""
    stop = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "shop-frontend"})
        while not stop.wait(0.01):
            producer.produce("orders", value=b"x" * 100)
            producer.poll(0)
        producer.flush(30)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def settle(page: Page, path: str) -> None:
    """Until what comes a little later is there too: sizes, samples."""
    if "/internals" in path:
        page.wait_for_selector("body[data-sample]", state="attached")
    page.wait_for_timeout(SETTLED_MS)


@pytest.mark.skipif(not WRITES, reason="ODRADEK_WRITE_DOCS=1 writes them")
@pytest.mark.parametrize(("name", "path", "size", "scheme"), PICTURES, ids=[name for name, *_ in PICTURES])
def test_takes_a_picture(
    browser: Browser, cluster: Cluster, name: str, path: str, size: tuple[int, int], scheme: Scheme
) -> None:
    with cluster.client() as client:
        controller = client.metadata([]).controller_id
    broker = controller if "controller" in path else 0
    with (
        writing(cluster),
        Visit.of(browser, console_of(cluster, broker), size, scheme) as visit,
    ):
        page = visit.open(path)
        if "controller" in path:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            admin.create_topics([NewTopic("returns", 2, 3)])["returns"].result(60)
        settle(page, path)
        IMAGES.mkdir(exist_ok=True)
        page.screenshot(path=IMAGES / f"{name}.png")


def test_the_pages_pictures_are_there_and_small() -> None:
    named = set(re.findall(r"images/(console-[\w-]+\.png)", (ROOT / "docs" / "console.md").read_text()))
    assert named == {f"{name}.png" for name, *_ in PICTURES}
    for name in sorted(named):
        content = Path(IMAGES / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < MAX_BYTES, name
