"""`python -m tests.console.pictures [NAME...]`: takes the pictures of docs/console.md anew, of a cluster under load.

A minute and a half. `tests/console/test_pictures.py` sees to it that the page's pictures are those of this list.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, Page

from broker.dev.processes import free_ports
from tests.console.running import console_of, running_browser, running_console
from tests.console.visit import LAPTOP, PHONE, Visit
from tests.support.cluster import CLOCK, Cluster
from tests.support.paths import ROOT
from tests.support.zookeeper_servers import zookeeper_server

IMAGES = ROOT / "docs" / "images"
LOW = (1280, 580)
SETTLED_MS = 2_500
CURVE_MS = 20_000
"""For a curve of requests that looks like one."""
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
    page.wait_for_timeout(SETTLED_MS if "/requests" not in path else CURVE_MS)


def take(browser: Browser, cluster: Cluster, name: str, path: str, size: tuple[int, int], scheme: Scheme) -> None:
    """One picture, of the broker that has most to say about it."""
    with cluster.client() as client:
        controller = client.metadata([]).controller_id
    broker = controller if "controller" in path else 0
    with Visit.of(browser, console_of(cluster, broker), size, scheme) as visit:
        page = visit.open(path)
        if "controller" in path:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            admin.create_topics([NewTopic("returns", 2, 3)])["returns"].result(60)
        settle(page, path)
        page.screenshot(path=IMAGES / f"{name}.png")


def main() -> None:
    known = [name for name, *_ in PICTURES]
    parser = argparse.ArgumentParser(prog="python -m tests.console.pictures", description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(known)}")
    wanted = parser.parse_args().names or known
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        server = zookeeper_server("embedded", Path(folder) / "zookeeper", free_ports(1)[0])
        try:
            server.wait_until_ready(CLOCK)
            with (
                running_console(Path(folder) / "cluster", server.connect) as cluster,
                running_browser() as browser,
                writing(cluster),
            ):
                for each in PICTURES:
                    if each[0] in wanted:
                        take(browser, cluster, *each)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
