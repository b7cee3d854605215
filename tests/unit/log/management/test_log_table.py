"""The count of logs by directory, which says where a new log goes, is that of the logs that are there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from log.management.log_table import LogTable
from log.topic_partition import TopicPartition


def held(topic: str, log_dir: str, *, is_future: bool = False) -> Any:
    return SimpleNamespace(
        topic_partition=TopicPartition(topic, 0),
        parent_dir=log_dir,
        directory=f"{log_dir}/{topic}",
        is_future=is_future,
    )


def test_counts_follow_every_change() -> None:
    table = LogTable()

    def check(one: int, two: int) -> None:
        assert [table.count_in(name) for name in ("one", "two")] == [one, two]
        assert [len(table.in_dir(name)) for name in ("one", "two")] == [one, two]

    check(0, 0)
    for topic in ("a", "b"):
        table.add(held(topic, "one"))
    table.add(held("a", "two", is_future=True))
    check(2, 1)
    table.replace_current(TopicPartition("a", 0))
    check(1, 1)
    # A future log without a current one: that one's directory has failed.
    table.add(held("c", "two", is_future=True))
    table.replace_current(TopicPartition("c", 0))
    check(1, 2)
    assert table.pop(TopicPartition("c", 0), False) is not None
    assert table.pop(TopicPartition("c", 0), False) is None
    check(1, 1)
    table.take_dir("one")
    check(0, 1)
    table.take_dir("nowhere")
    check(0, 1)
