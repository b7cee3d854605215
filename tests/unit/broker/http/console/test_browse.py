"""The order in which the record browser shows what it has read from several partitions."""

from __future__ import annotations

from typing import Any

from broker.http.console.records.browse import in_order


def row(partition: int, offset: int, time: int) -> dict[str, Any]:
    return {"partition": partition, "offset": offset, "time": time}


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(each["partition"], each["offset"]) for each in rows]


def test_partitions_are_merged_by_time() -> None:
    rows = [row(0, 7, 10), row(0, 8, 30), row(1, 3, 20), row(1, 4, 30)]
    assert places(in_order(rows)) == [(0, 7), (1, 3), (0, 8), (1, 4)]


def test_a_partition_keeps_the_order_of_its_offsets() -> None:
    """Offset 1 has a time before that of offset 0: it stands behind it, and before what is later than both."""
    rows = [row(0, 0, 50), row(0, 1, 10), row(0, 2, 60), row(1, 0, 40), row(1, 1, 55)]
    assert places(in_order(rows)) == [(1, 0), (0, 0), (0, 1), (1, 1), (0, 2)]
