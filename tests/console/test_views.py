"""What each view shows of a real cluster, in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.content import HARM, OPEN_TRANSACTION, TOPICS
from tests.console.running import console_of
from tests.console.visit import PHONE, Visit
from tests.support.cluster import Cluster

VIEWS = (
    "/", "/brokers/0", "/topics", "/topics/orders", "/partitions", "/groups", "/groups/billing", "/transactions",
    f"/transactions/{OPEN_TRANSACTION}",
)  # fmt: skip


def rows(page: Page, label: str) -> list[list[str]]:
    """The texts of a table's rows, in the order in which they stand."""
    table = page.get_by_role("table", name=label, exact=True)
    table.locator(".tbody .row").first.wait_for()
    found = table.locator(".tbody .row").evaluate_all(
        "rows => rows.sort((a, b) => a.dataset.index - b.dataset.index)"
        ".map(row => [...row.children].map(cell => cell.textContent))"
    )
    return [list(map(str, row)) for row in found]


def stat(page: Page, label: str) -> str:
    """A number at the head of a view."""
    return page.locator(".stat", has=page.locator("dt", has_text=re.compile(f"^{label}$"))).locator("dd").inner_text()


class TestOverview:
    @pytest.mark.parametrize("broker", [0, 1, 2])
    def test_every_broker_serves_the_whole_cluster(self, browser: Browser, cluster: Cluster, broker: int) -> None:
        with Visit.of(browser, console_of(cluster, broker)) as visit:
            page = visit.open()
            assert [row[0] for row in rows(page, "Brokers")] == ["Broker 0", "Broker 1", "Broker 2"]
            assert [row[1] for row in rows(page, "Brokers")] == [each.address for each in cluster.brokers]
            assert stat(page, "Brokers") == "3"
            assert stat(page, "Topics") == str(len(TOPICS) + 3)  # and a hostile one, and two internal ones
            expect(page.get_by_text(f"Served by broker {broker}")).to_be_visible()

    def test_other_brokers_consoles_are_a_click_away(self, visit: Visit, cluster: Cluster) -> None:
        page = visit.open()
        assert page.get_by_role("link", name="broker 2", exact=True).get_attribute("href") == console_of(cluster, 2)


class TestTopics:
    def test_lists_them_all(self, visit: Visit) -> None:
        found = {row[0]: row[2] for row in rows(visit.open("/topics"), "Topics")}
        expected = {**TOPICS, "hostile": 1, "__consumer_offsets": 3, "__transaction_state": 3}
        assert found == {name: str(count) for name, count in expected.items()}

    def test_a_filter_and_an_order_stand_in_the_address(self, visit: Visit, browser: Browser) -> None:
        page = visit.open("/topics")
        page.get_by_role("searchbox").fill("r")
        page.get_by_role("button", name="Partitions").click()
        expect(page.locator(".tfoot")).to_have_text(re.compile("4 of 7"))
        seen = [row[0] for row in rows(page, "Topics")]
        assert seen[0] == "orders"
        with Visit.of(browser, visit.console) as other:
            other.page.goto(page.url)
            expect(other.page.locator(".tfoot")).to_have_text(re.compile("4 of 7"))
            assert [row[0] for row in rows(other.page, "Topics")] == seen
            expect(other.page.get_by_role("searchbox")).to_have_value("r")

    def test_a_filter_that_nothing_fits_says_so(self, visit: Visit) -> None:
        page = visit.open("/topics?q=nothing-has-this-name")
        expect(page.get_by_text("Nothing fits")).to_be_visible()
        expect(page.locator(".tfoot")).to_have_text("0 of 7 topics")
        page.get_by_role("searchbox").fill("orders")
        expect(page.get_by_text("Nothing fits")).to_be_hidden()
        assert [row[0] for row in rows(page, "Topics")] == ["orders"]

    def test_one_topic_with_leaders_copies_and_offsets(self, visit: Visit) -> None:
        page = visit.open("/topics/orders")
        found = rows(page, "Partitions")
        assert [row[0] for row in found] == ["0", "1", "2", "3", "4", "5"]
        assert sum(int(row[5]) for row in found) == 400
        assert all(row[1].endswith("in sync") for row in found)
        assert {row[2] for row in found} == {"0", "1", "2"}
        assert stat(page, "Offsets held") == "400"

    def test_a_topic_that_is_not_there(self, visit: Visit) -> None:
        page = visit.page
        page.goto(f"{visit.console}#/topics/nothing")
        expect(page.get_by_text("There is no such topic.")).to_be_visible()
        page.get_by_role("link", name="All topics").click()
        expect(page.get_by_role("table", name="Topics")).to_be_visible()

    def test_all_partitions(self, visit: Visit) -> None:
        page = visit.open("/partitions")
        page.get_by_role("searchbox").fill("orders")
        expect(page.locator(".tfoot")).to_have_text("6 of 20 partitions")


class TestGroups:
    def test_lists_them_with_their_lag(self, visit: Visit) -> None:
        page = visit.open("/groups")
        expect(page.locator(".tbody .row", has_text="billing").locator(".td").last).not_to_have_text("\u2013")
        found = {row[0]: row for row in rows(page, "Groups")}
        assert set(found) == {"billing", HARM}
        assert found["billing"][1].endswith("Empty")
        assert found["billing"][2] == "classic"

    def test_one_group(self, visit: Visit) -> None:
        page = visit.open("/groups/billing")
        found = rows(page, "Offsets")
        assert {row[0] for row in found} == {"orders"}
        committed = sum(int(row[2]) for row in found)
        assert sum(int(row[4]) for row in found) == sum(int(row[3]) for row in found) - committed
        expect(page.get_by_text("Nobody is in this group")).to_be_visible()


def test_transactions(visit: Visit) -> None:
    found = {row[0]: row[1][1:] for row in rows(visit.open("/transactions"), "Transactions")}
    assert found == {"payments-writer-1": "Committed", OPEN_TRANSACTION: "Ongoing", HARM: "Committed"}
    page = visit.open(f"/transactions/{OPEN_TRANSACTION}")
    assert rows(page, "Partitions in the transaction") == [["payments", "1"]]


class TestEverywhere:
    @pytest.mark.parametrize("path", VIEWS)
    def test_fits_a_phone(self, browser: Browser, cluster: Cluster, path: str) -> None:
        """Nothing stands out of the page, so nobody has to move it aside."""
        with Visit.of(browser, console_of(cluster), PHONE, "dark") as visit:
            page = visit.open(path)
            wide = page.evaluate(
                "() => [document.documentElement, document.querySelector('main')].map(part => part.scrollWidth)"
            )
            assert max(wide) <= PHONE[0]
            assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"

    def test_keys_lead_everywhere(self, visit: Visit) -> None:
        page = visit.open()
        page.keyboard.press("g")
        page.keyboard.press("t")
        page.wait_for_selector('body[data-shown="/topics"]', state="attached")
        page.keyboard.press("/")
        page.keyboard.type("order")
        expect(page.locator(".tfoot")).to_have_text(re.compile("1 of"))
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector('body[data-shown="/topics/orders"]', state="attached")
        page.keyboard.press("u")
        page.wait_for_selector('body[data-shown="/topics"]', state="attached")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)

    def test_nothing_is_loaded_from_elsewhere(self, visit: Visit) -> None:
        asked: list[str] = []
        visit.page.on("request", lambda request: asked.append(request.url))
        for path in VIEWS:
            visit.open(path)
        assert asked
        assert [url for url in asked if not url.startswith(visit.console)] == []
