"""Lists of any length: as many rows in the page as fit the window, wherever it has been scrolled to.

The answers are made up here, as a cluster of 10,000 partitions takes longer to make than all of these tests;
`python -m benchmarks.console` measures a real one.
"""

from __future__ import annotations

import json

from playwright.sync_api import Page, Route, expect

from tests.console.visit import Visit

TOPICS, PARTITIONS = 1_000, 10
NAMES = [f"topic-{number:04}" for number in range(TOPICS)]


def answer(page: Page, name: str, value: object) -> None:
    def fulfil(route: Route) -> None:
        route.fulfill(json=value)

    page.route(f"**/api/{name}", fulfil)


def test_a_thousand_topics_of_ten_partitions_scroll(visit: Visit) -> None:
    page = visit.page
    answer(page, "topics", {"topics": [[name, False, PARTITIONS, 3, 0, 0] for name in NAMES]})
    rows = [[number, part, part % 3, 0, [0, 1, 2], [0, 1, 2]] for number in range(TOPICS) for part in range(PARTITIONS)]
    answer(page, "partitions", {"names": NAMES, "partitions": rows})
    for view, total, last in (
        ("/topics", "1,000 topics", "topic-0999"),
        ("/partitions", "10,000 partitions", "topic-0999"),
    ):
        visit.open(view)
        expect(page.locator(".tfoot")).to_have_text(total)
        most = page.evaluate(
            """async () => {
                const body = document.querySelector(".tbody");
                let most = 0;
                for (let step = 0; step <= 50; step += 1) {
                    body.scrollTop = step / 50 * body.scrollHeight;
                    await new Promise(requestAnimationFrame);
                    await new Promise(requestAnimationFrame);
                    most = Math.max(most, document.querySelectorAll(".tbody .row").length);
                }
                return [most, Math.ceil(body.clientHeight / 38)];
            }"""
        )
        assert most[0] <= most[1] + 14, json.dumps(most)
        expect(page.locator(".tbody .row", has_text=last).last).to_be_visible()
    page.locator(".tbody").focus()
    page.keyboard.press("Home")
    expect(page.locator(".tbody .row.here")).to_contain_text("topic-0000")
    page.keyboard.press("End")
    expect(page.locator(".tbody .row.here")).to_contain_text("topic-0999")
    page.get_by_role("button", name="Partition", exact=True).click()
    expect(page.locator(".tbody .row").first).to_be_visible()
