"""The five changes, where they are allowed and where they are not, and who may ask for them."""

from __future__ import annotations

import http.client
import json
import re

import pytest
from playwright.sync_api import Browser, expect

from tests.console.running import console_of
from tests.console.test_views import rows, stat
from tests.console.visit import Visit
from tests.support.cluster import HOST, Cluster

CHANGES = ("create-topic", "delete-topic", "alter-config", "delete-records", "reset-offsets")


def asked(
    cluster: Cluster, broker: int, question: str, headers: dict[str, str], body: object = None
) -> tuple[int, str]:
    """Status and error of a request that no page of ours makes."""
    port = int(cluster.brokers[broker].settings["odradek.http.port"])
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    method = "GET" if body is None else "POST"
    connection.request(method, f"/console/api/{question}", None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    return answer.status, found.get("error") or found.get("token", "")


def test_a_topic_from_its_making_to_its_end(visit: Visit, cluster: Cluster) -> None:
    page = visit.open("/topics")
    page.get_by_role("button", name="Create topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("made-here")
    dialog.get_by_label("Partitions").fill("2")
    dialog.get_by_label("Configuration").fill("retention.ms=3600000")
    dialog.get_by_role("button", name="Create").click()
    page.wait_for_selector('body[data-shown="/topics/made-here"]', state="attached")
    assert len(rows(page, "Partitions")) == 2
    visit.page.get_by_role("link", name="Configuration").click()
    row = page.locator(".tbody .row", has_text="retention.ms").first
    expect(row).to_contain_text("3600000")
    row.get_by_role("button", name="Change").click()
    dialog.get_by_label("Value").fill("7200000")
    dialog.get_by_role("button", name="Change").click()
    expect(row).to_contain_text("7200000")
    page.get_by_role("button", name="Delete topic").click()
    dialog.get_by_label("to confirm").fill("made-her")
    dialog.get_by_role("button", name="Delete topic").click()
    expect(dialog.get_by_text("the name has to be given once more")).to_be_visible()
    dialog.get_by_label("to confirm").fill("made-here")
    dialog.get_by_role("button", name="Delete topic").click()
    page.wait_for_selector('body[data-shown="/topics"]', state="attached")
    expect(page.locator(".tbody .row", has_text="made-here")).to_have_count(0, timeout=30_000)


def test_offsets_are_shown_before_they_are_set(visit: Visit) -> None:
    page = visit.open("/groups/billing")
    before = stat(page, "Lag")
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Go on").click()
    expect(dialog.get_by_text("Nothing is set yet.")).to_be_visible()
    expect(dialog.locator(".facts dd").first).to_have_text(re.compile("→ 0$"))
    assert stat(page, "Lag") == before
    dialog.get_by_role("button", name="Go on").click()
    expect(dialog).to_have_count(0)
    found = rows(page, "Offsets")
    assert {row[2] for row in found} == {"0"}


def test_records_are_deleted_up_to_an_offset(visit: Visit) -> None:
    page = visit.open("/topics/clicks")
    page.get_by_role("button", name="Delete records").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Partition").select_option("1")
    dialog.get_by_label("Before offset").fill("30")
    dialog.get_by_label("to confirm").fill("clicks")
    dialog.get_by_role("button", name="Delete records").click()
    expect(page.locator(".tbody .row").nth(1)).to_contain_text("30")
    assert rows(page, "Partitions")[1][4] == "30"


def test_where_they_are_not_allowed_there_is_no_way_to_them(browser: Browser, cluster: Cluster) -> None:
    with Visit.of(browser, console_of(cluster, 1)) as visit:
        page = visit.open("/topics")
        expect(page.get_by_role("button", name="Create topic")).to_have_count(0)
        visit.open("/topics/orders")
        expect(page.get_by_role("button", name=re.compile("Delete|Change"))).to_have_count(0)
    _, token = asked(cluster, 1, "session", {})
    for change in CHANGES:
        assert asked(cluster, 1, change, {"x-odradek-token": token}, {}) == (404, "path")


@pytest.mark.parametrize("change", CHANGES)
def test_only_our_own_page_may_ask_for_them(cluster: Cluster, change: str) -> None:
    _, token = asked(cluster, 0, "session", {})
    body = {"name": "orders", "confirm": "orders", "topic": "orders", "partition": 0, "group": "billing"}
    for headers in (
        {},
        {"x-odradek-token": "guess"},
        {"x-odradek-token": token, "origin": "http://evil.example"},
        {"x-odradek-token": token, "sec-fetch-site": "cross-site"},
    ):
        assert asked(cluster, 0, change, headers, body) == (403, "token")
    headers = {"x-odradek-token": token, "host": "evil.example"}
    assert asked(cluster, 0, change, headers, body) == (421, "host")


def test_a_body_that_is_too_large_is_refused(cluster: Cluster) -> None:
    port = int(cluster.brokers[0].settings["odradek.http.port"])
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request("POST", "/console/api/records", b"x" * 300_000)
    assert connection.getresponse().status == 413
    connection.close()
