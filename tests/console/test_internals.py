"""The workings of a broker in its console, under load, and what a broker that is down looks like."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Browser, expect

from tests.console.content import HARM
from tests.console.running import console_of
from tests.console.visit import Visit
from tests.support.cluster import Cluster


@pytest.fixture
def load(cluster: Cluster) -> Iterator[None]:
    """Somebody writes and reads all the time, whose client id means harm. His reads of a topic in which nothing comes
    take longer than any follower's, so they are among the slowest requests of every sample."""
    stop = threading.Event()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    if "quiet" not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic("quiet", 3, 3)])["quiet"].result(60)
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap, "client.id": HARM, "group.id": "quiet", "fetch.wait.max.ms": 900
    }  # fmt: skip

    def write() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": HARM})
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("quiet", number) for number in range(3)])
        while not stop.wait(0.01):
            producer.produce("orders", value=b"x" * 100)
            producer.poll(0)
            consumer.poll(0)
        consumer.close()
        producer.flush(30)

    thread = threading.Thread(target=write)
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.mark.usefixtures("load")
class TestUnderLoad:
    def test_requests_by_the_six_parts_of_their_time(self, visit: Visit) -> None:
        page = visit.open("/internals/requests")
        produce = page.locator(".api", has_text=re.compile("^Produce")).first
        expect(produce).to_be_visible()
        parts = produce.get_by_role("img").get_attribute("aria-label") or ""
        for part in ("Request queue", "Local", "Remote", "Throttle", "Response queue", "Send"):
            assert re.search(rf"{part} [\d.]+ (ms|s)", parts), parts
        expect(page.locator(".apis").last).to_contain_text(HARM)
        assert page.locator("#app img[src], #app script").count() == 0
        expect(page.locator(".step", has_text="Handlers")).to_contain_text(re.compile(r"\d+ % busy"))

    def test_wheels_turn_and_hold_what_waits(self, visit: Visit) -> None:
        page = visit.open("/internals/waiting")
        fetch = page.locator(".card", has=page.get_by_role("heading", name="Fetch", exact=True))
        expect(fetch.locator(".bucket").first).to_be_visible()
        before = fetch.locator(".hand").first.get_attribute("d")
        expect(fetch.locator(".hand").first).not_to_have_attribute("d", before or "")
        expect(fetch).to_contain_text(re.compile(r"[1-9]\d* waiting"))

    def test_replication_as_arrows(self, visit: Visit) -> None:
        picture = visit.open("/internals/replication").locator(".arrows svg")
        text = re.compile(r"from broker 1: \d+ partitions?, .*to broker 2: \d+ partitions?, (no lag|\d+ behind)")
        expect(picture).to_have_attribute("aria-label", text)
        expect(picture.locator(".arrow")).to_have_count(4)


def test_the_controllers_events_and_transitions_as_they_happen(browser: Browser, cluster: Cluster) -> None:
    with cluster.client() as client:
        controller = client.metadata([]).controller_id
    with Visit.of(browser, console_of(cluster, controller)) as visit:
        page = visit.open("/internals/controller")
        expect(page.locator(".stat", has_text="Controller")).to_contain_text("this broker")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("seen", 1, 3)])["seen"].result(60)
        events, transitions = page.locator(".trail").first, page.locator(".trail").last
        expect(events).to_contain_text("TopicChange")
        expect(transitions.locator(".trail-row", has_text=re.compile("seen-0.*new → online")).first).to_be_visible()
        admin.delete_topics(["seen"])["seen"].result(60)
        expect(transitions).to_contain_text("deletion successful")


def test_nobody_is_sampled_for_when_the_page_is_left(visit: Visit) -> None:
    page = visit.open("/internals/requests")
    page.wait_for_selector("body[data-sample]", state="attached")
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/api/internals")):
        page.evaluate("() => { location.hash = '#/topics'; }")


def test_a_broker_that_is_down_and_comes_back(visit: Visit, cluster: Cluster) -> None:
    page = visit.open()
    away = cluster.brokers[2]
    away.kill()
    try:
        expect(page.get_by_text(re.compile("Broker 2 is away"))).to_be_visible(timeout=60_000)
        row = page.locator(".tbody .row", has_text="Broker 2")
        expect(row).to_contain_text("away")
        page.get_by_role("link", name="Topics").click()
        page.get_by_label("Which topics").select_option("trouble")
        expect(page.locator(".tbody .row", has_text="orders")).to_contain_text("6 behind")
        for view in ("/topics/orders", "/groups", "/records?topic=orders", "/transactions"):
            visit.open(view)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator(".replica.away")).to_have_count(0)
        visit.open("/topics/orders")
        expect(page.locator(".replica.away")).to_have_count(6)
    finally:
        away.start()
        cluster.wait_ready()
    visit.open()
    expect(page.locator(".tbody .row", has_text="Broker 2")).to_contain_text("in sync", timeout=60_000)
