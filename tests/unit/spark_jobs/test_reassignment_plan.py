"""The page of a reassignment plan."""

from __future__ import annotations

from network.client.cluster_balance import Broker, Placement, make_plan
from spark_jobs.jobs.reassignment_plan import report


def test_the_page_shows_before_and_after() -> None:
    placements = [Placement("<t>", n, [n % 3], 100) for n in range(12)]
    text = report(make_plan([Broker(n) for n in range(4)], placements))
    assert "3 partitions change, 300 bytes travel" in text
    assert "&lt;t&gt;-" in text
    assert "<t>" not in text
