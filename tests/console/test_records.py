"""The record browser: what is shown, from where, of what form, and that contents are never run."""

from __future__ import annotations

import re
from pathlib import Path

from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, expect

from tests.console.content import HARM, OPEN_TRANSACTION, RECORDS, SECRET
from tests.console.test_views import rows
from tests.console.visit import PHONE, Visit
from tests.support.cluster import Cluster

SCHEMA = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "who", "type": "string"}]}"""


def shown(page: Page) -> list[list[str]]:
    """The records in the list."""
    page.wait_for_selector("body[data-records]", state="attached")
    return rows(page, "Records")


class TestBrowser:
    def test_the_newest_first(self, visit: Visit) -> None:
        page = visit.open("/records?topic=clicks&partition=0")
        found = shown(page)
        offsets = [int(row[2]) for row in found if row[1] == "0"]
        assert offsets == sorted(offsets, reverse=True)
        assert offsets[0] == (RECORDS + 2) // 3 - 1

    def test_from_the_first_and_on_and_back(self, visit: Visit) -> None:
        page = visit.open("/records?topic=clicks&partition=1&start=first")
        assert [row[2] for row in shown(page)][:3] == ["0", "1", "2"]
        page.get_by_role("button", name="Newer").click()
        page.wait_for_selector("body[data-records='33 newer']", state="attached")
        assert shown(page)[0][2] == "100"
        expect(page.get_by_role("button", name="Newer")).to_be_disabled()
        page.get_by_role("button", name="Older").click()
        page.wait_for_selector("body[data-records='100 older']", state="attached")
        assert shown(page)[0][2] == "0"

    def test_from_an_offset_and_from_a_time(self, visit: Visit) -> None:
        page = visit.open("/records?topic=clicks&partition=2&start=offset&value=130")
        assert [row[2] for row in shown(page)] == ["130", "131", "132"]
        page = visit.open("/topics")
        page = visit.open("/records?topic=clicks&start=time&value=2000-01-01T00:00:00")
        assert {row[2] for row in shown(page)} >= {"0", "1"}

    def test_filters_search_the_topic(self, visit: Visit) -> None:
        page = visit.open("/records?topic=orders&start=first")
        page.get_by_text("Filters and formats").click()
        page.get_by_label("Value contains").fill('"id": 377,')
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_text(re.compile("1 record found in 400 looked at, to the end"))).to_be_visible()
        assert '"id": 377,' in shown(page)[0][4]
        page.get_by_label("Value contains").fill("")
        page.get_by_label("Header").fill("trace=00000005")
        page.get_by_role("button", name="Show").click()
        # Not by the count alone: what was found before is counted until the answer is there.
        expect(page.locator(".tbody .row").first).to_contain_text('"id": 5,')
        expect(page.get_by_text(re.compile("1 record found"))).to_be_visible()
        page.get_by_label("Header").fill("")
        page.get_by_label("Key contains").fill("orders-96")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_text(re.compile("4 records found"))).to_be_visible()

    def test_a_link_opens_the_same_record(self, visit: Visit, browser: Browser) -> None:
        page = visit.open("/records?topic=orders&partition=3&start=offset&value=10")
        page.locator(".tbody .row").first.click()
        detail = page.get_by_role("complementary", name="Record")
        expect(detail.get_by_role("heading", name="Offset 10")).to_be_visible()
        with Visit.of(browser, visit.console, PHONE) as other:
            other.page.goto(page.url)
            same = other.page.get_by_role("complementary", name="Record")
            expect(same.get_by_role("heading", name="Offset 10")).to_be_visible()
            assert same.locator("pre").all_inner_texts() == detail.locator("pre").all_inner_texts()
            same.get_by_role("button", name="Close").click()
            expect(same).to_be_hidden()

    def test_new_records_come_by_themselves(self, visit: Visit, cluster: Cluster) -> None:
        page = visit.open("/records?topic=inventory.changes")
        expect(page.get_by_text("This topic has no records")).to_be_visible()
        page.get_by_role("button", name="Live").click()
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(3):
            producer.produce("inventory.changes", value=f"change {number}")
        assert producer.flush(60) == 0
        expect(page.locator(".tbody .row")).to_have_count(3)
        assert [row[4] for row in shown(page)] == ["change 2", "change 1", "change 0"]

    def test_only_committed_ones_where_that_is_wanted(self, visit: Visit) -> None:
        page = visit.open("/records?topic=payments&start=first")
        assert len(shown(page)) == 3
        page.get_by_text("Filters and formats").click()
        page.get_by_label("Committed only").check()
        page.wait_for_selector("body[data-records='2 anew']", state="attached")
        assert "payment 1" not in {row[4] for row in shown(page)}, f"{OPEN_TRANSACTION} is open"


class TestForms:
    def test_message_pack_and_avro_with_a_schema_file(self, visit: Visit, cluster: Cluster, tmp_path: Path) -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce("clicks", key=b"\x82\xa1a\x01\xa1b\xc3", value=b"\0\0\0\0\x07\x54\x0aalice", partition=0)
        assert producer.flush(60) == 0
        page = visit.open("/records?topic=clicks&partition=0")
        page.get_by_text("Filters and formats").click()
        page.get_by_label("Keys are").select_option("msgpack")
        page.get_by_label("Values are").select_option("avro")
        schema = tmp_path / "order.avsc"
        schema.write_text(SCHEMA)
        page.get_by_label("Avro schema file").set_input_files(schema)
        expect(page.locator(".tbody .row").first).to_contain_text('{"id": 42, "who": "alice"}')
        assert shown(page)[0][3] == '{"a": 1, "b": true}'

    def test_bytes_as_hex(self, visit: Visit) -> None:
        page = visit.open("/records?topic=hostile&start=offset&value=3")
        page.locator(".tbody .row").first.click()
        content = page.get_by_role("complementary", name="Record").locator("pre").last
        expect(content).to_contain_text("000040  40 41 42 43")


class TestHarm:
    """Whoever may write records, name groups or clients, runs nothing in the browser of who looks at them."""

    def test_contents_are_text(self, visit: Visit) -> None:
        page = visit.open("/records?topic=hostile&start=first")
        found = shown(page)
        assert (found[0][3], found[0][4]) == (HARM, HARM)
        assert found[2][4] == SECRET
        for number in range(5):
            page.locator(f'.tbody .row[data-index="{number}"]').click()
            detail = page.get_by_role("complementary", name="Record")
            expect(detail.get_by_role("heading", name=f"Offset {number}")).to_be_visible()
        assert page.locator("#app img, #app script, #app iframe").count() == 0
        assert "run" not in page.title()

    def test_names_of_groups_and_transactions_are_text(self, visit: Visit) -> None:
        for view, label in (("/groups", "Groups"), ("/transactions", "Transactions")):
            page = visit.open(view)
            assert HARM in {row[0] for row in rows(page, label)}
            page.get_by_role("link", name=HARM).click()
            expect(page.get_by_role("heading", level=1)).to_have_text(HARM)
            assert page.locator("#app img, #app script").count() == 0

    def test_an_address_that_somebody_sends_is_text(self, visit: Visit) -> None:
        page = visit.open("/topics?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
        expect(page.get_by_role("searchbox")).to_have_value("<img src=x onerror=alert(1)>")
        page.goto(f"{visit.console}#/topics/%3Cscript%3Edocument.title='run'%3C%2Fscript%3E")
        expect(page.get_by_text("There is no such topic.")).to_be_visible()
        assert page.locator("#app img, #app script").count() == 0

    def test_the_policy_stops_what_a_fault_of_ours_would_let_in(self, visit: Visit) -> None:
        page = visit.open()
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                try { script.textContent = "document.title = 'run'"; document.body.append(script); } catch {}
                try { document.querySelector("main").innerHTML = "<img src=x onerror=document.title='run'>"; } catch {}
                try { document.querySelector("main").setAttribute("onclick", "document.title = 'run'"); } catch {}
                document.querySelector("main").click();
            }"""
        )
        assert "run" not in page.title()
        assert page.locator("main img").count() == 0
        assert any("Content Security Policy" in fault or "TrustedScript" in fault for fault in visit.faults)
        visit.faults.clear()
