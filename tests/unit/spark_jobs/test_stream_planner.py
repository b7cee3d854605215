"""Where micro-batches begin and end."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from spark_jobs.cluster import DataLossError
from spark_jobs.option_table import OptionError
from spark_jobs.options import Partition, ReadOptions
from spark_jobs.planning import Range, from_json, to_json
from spark_jobs.stream import StreamPlanner
from tests.unit.spark_jobs.made_up import MadeUpCluster, PassingClock, read_options
from timer.clock import ManualClock

A, B = ("t", 0), ("t", 1)
ALL = ReadAllAvailable()


def planner(cluster: MadeUpCluster, clock: ManualClock | None = None, **options: str) -> StreamPlanner:
    return StreamPlanner(read_options(streaming=True, **options), cluster, clock or PassingClock())


def test_the_first_batch_is_empty_and_ends_at_the_start() -> None:
    cluster = MadeUpCluster({A: 3}, {A: 10})
    stream = planner(cluster)
    first = stream.latest_offset({}, ALL)
    assert first == {"t": {"0": 10}}
    assert stream.ranges({}, first) == []
    cluster.ends[A] = 25
    assert stream.latest_offset(first, ALL) == {"t": {"0": 25}}
    assert stream.ranges(first, {"t": {"0": 25}}) == [Range("t", 0, 10, 25)]


@pytest.mark.parametrize(
    ("starting", "initial"),
    [
        ({}, {}),
        ({"startingOffsets": "latest"}, {}),
        ({"startingOffsets": '{"t":{"0":-1}}'}, {}),
        ({"startingTimestamp": "5"}, {}),
        ({"startingOffsets": "group", "odradek.group.id": "g"}, {}),
        ({"startingOffsets": "earliest"}, {"t": {"0": 3}}),
        ({"startingOffsets": '{"t":{"0":-2}}'}, {"t": {"0": 3}}),
        ({"startingOffsets": '{"t":{"0":7}}'}, {"t": {"0": 7}}),
    ],
)
def test_only_a_start_that_can_not_lose_records_is_asked_for_again(
    starting: dict[str, Any], initial: dict[str, dict[str, int]]
) -> None:
    assert planner(MadeUpCluster({A: 3}, {A: 10}), **starting).initial_offset() == initial


def test_nothing_new_is_no_batch() -> None:
    stream = planner(MadeUpCluster({}, {A: 10}))
    start = to_json({A: 10})
    assert stream.latest_offset(start, ALL) == start


def test_a_limit_is_kept_until_all_is_read() -> None:
    stream = planner(MadeUpCluster({}, {A: 300, B: 100}), maxOffsetsPerTrigger="40")
    position = to_json({A: 0, B: 0})
    batches = 0
    while (following := stream.latest_offset(position, ReadMaxRows(40))) != position:
        before, after = from_json(position), from_json(following)
        assert sum(after.values()) - sum(before.values()) <= 41
        position = following
        batches += 1
    assert position == to_json({A: 300, B: 100})
    assert 10 <= batches <= 12


def test_too_little_waits_until_the_delay_is_over_but_not_for_the_first_batch() -> None:
    clock = PassingClock()
    cluster = MadeUpCluster({}, {A: 10})
    stream = planner(cluster, clock, minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    start = to_json({A: 10})
    assert stream.latest_offset(to_json({A: 8}), ReadMinRows(10)) == start
    cluster.ends[A] = 15
    assert stream.latest_offset(start, ReadMinRows(10)) == start
    clock.advance(60_000)
    assert stream.latest_offset(start, ReadMinRows(10)) == to_json({A: 15})
    assert stream.latest_offset(start, ReadMinRows(10)) == start
    cluster.ends[A] = 20
    assert stream.latest_offset(start, ReadMinRows(10)) == to_json({A: 20})


def test_available_now_ends_where_it_began_to_look_and_never_waits() -> None:
    cluster = MadeUpCluster({}, {A: 15})
    stream = planner(cluster, minOffsetsPerTrigger="10")
    stream.prepare_available_now()
    cluster.ends[A] = 99
    assert stream.latest_offset(to_json({A: 10}), ReadMinRows(10)) == to_json({A: 15})


def test_a_new_partition_is_read_from_its_first_offset() -> None:
    cluster = MadeUpCluster({}, {A: 5})
    stream = planner(cluster, startingOffsets="latest")
    start = stream.latest_offset({}, ALL)
    cluster.ends[B] = 7
    end = stream.latest_offset(start, ALL)
    assert stream.ranges(start, end) == [Range("t", 1, 0, 7)]


def test_a_new_partition_whose_first_records_are_gone_is_data_loss() -> None:
    cluster = MadeUpCluster({B: 3}, {A: 5, B: 7})
    with pytest.raises(DataLossError, match="t-1"):
        planner(cluster).ranges(to_json({A: 5}), to_json({A: 5, B: 7}))
    tolerant = planner(cluster, failOnDataLoss="false")
    assert tolerant.ranges(to_json({A: 5}), to_json({A: 5, B: 7})) == [Range("t", 1, 3, 7)]


def test_a_partition_that_went_is_data_loss() -> None:
    start = to_json({A: 5, B: 5})
    with pytest.raises(DataLossError, match="t-1 is gone"):
        planner(MadeUpCluster({}, {A: 9})).latest_offset(start, ALL)
    tolerant = planner(MadeUpCluster({}, {A: 9}), failOnDataLoss="false")
    assert tolerant.latest_offset(start, ALL) == to_json({A: 9})


def test_an_end_that_went_back_is_asked_for_again_and_then_data_loss() -> None:
    cluster = MadeUpCluster({}, {A: 3})
    with pytest.raises(DataLossError, match="ended at 5 and now ends at 3"):
        planner(cluster).latest_offset(to_json({A: 5}), ALL)
    assert cluster.asked > 4
    tolerant = planner(cluster, failOnDataLoss="false")
    end = tolerant.latest_offset(to_json({A: 5}), ALL)
    assert end == to_json({A: 3})
    assert tolerant.ranges(to_json({A: 5}), end) == []


def test_a_topic_that_a_broker_does_not_know_for_a_moment_is_not_gone() -> None:
    class Starting(MadeUpCluster):
        def partitions(self, options: ReadOptions, *, tolerate_missing: bool = False) -> list[Partition]:
            self.looked = getattr(self, "looked", 0) + 1
            return [] if self.looked < 10 else super().partitions(options, tolerate_missing=tolerate_missing)

    assert planner(Starting({}, {A: 9})).latest_offset(to_json({A: 5}), ALL) == to_json({A: 9})
    with pytest.raises(DataLossError, match="t-0 is gone"):
        planner(MadeUpCluster()).latest_offset(to_json({A: 5}), ALL)


def test_the_last_known_ends_are_kept_for_the_lag() -> None:
    stream = planner(MadeUpCluster({}, {A: 30}), maxOffsetsPerTrigger="10")
    stream.latest_offset(to_json({A: 0}), ReadMaxRows(10))
    assert stream.last_known == {A: 30}


def test_a_start_at_a_group_is_where_it_stands_and_what_has_no_offset_begins_as_told() -> None:
    cluster = MadeUpCluster({A: 3, B: 3}, {A: 10, B: 10}, group={A: 7})
    given: dict[str, Any] = {"startingOffsets": "group", "odradek.group.id": "g"}
    assert planner(cluster, **given).latest_offset({}, ALL) == to_json({A: 7, B: 3})
    latest = planner(cluster, **{**given, "odradek.group.reset": "latest"})
    assert latest.latest_offset({}, ALL) == to_json({A: 7, B: 10})
    with pytest.raises(OptionError, match=r"no offset of t-1; set odradek\.group\.reset"):
        planner(cluster, **{**given, "odradek.group.reset": "none"}).latest_offset({}, ALL)


def test_a_recreated_topic_behind_the_group_is_data_loss() -> None:
    cluster = MadeUpCluster({}, {A: 4}, group={A: 9})
    given: dict[str, Any] = {"startingOffsets": "group", "odradek.group.id": "g"}
    start = planner(cluster, **given).latest_offset({}, ALL)
    assert start == to_json({A: 9})
    with pytest.raises(DataLossError, match="ended at 9 and now ends at 4"):
        planner(cluster, **given).latest_offset(start, ALL)
