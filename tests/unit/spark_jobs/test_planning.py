"""Which offsets a batch reads and how they are split over tasks."""

from __future__ import annotations

import random

import pytest

from spark_jobs.option_table import OptionError
from spark_jobs.options import Edge
from spark_jobs.planning import Range, from_json, rate_limit, split, to_json
from spark_jobs.resolve import check_data_loss, resolve
from tests.unit.spark_jobs.made_up import MadeUpCluster, read_options

A, B, C = ("t", 0), ("t", 1), ("t", 2)


def test_json_is_sorted_and_comes_back() -> None:
    offsets = {("b", 10): 1, ("b", 9): 2, ("a", 0): 3}
    assert list(to_json(offsets).items()) == [("a", {"0": 3}), ("b", {"9": 2, "10": 1})]
    assert from_json(to_json(offsets)) == offsets


def test_rate_limit_is_in_proportion() -> None:
    assert rate_limit(40, {A: 0, B: 0}, {A: 300, B: 100}, {}) == {A: 30, B: 10}


def test_rate_limit_gives_each_partition_one_at_least() -> None:
    assert rate_limit(10, {A: 0, B: 5}, {A: 10_000, B: 6}, {}) == {A: 9, B: 6}


def test_rate_limit_of_a_new_partition_counts_from_its_first_offset() -> None:
    assert rate_limit(10, {A: 100}, {A: 100, B: 1000}, {B: 900}) == {A: 100, B: 910}


def test_rate_limit_never_passes_the_end_nor_goes_back() -> None:
    for seed in range(200):
        draw = random.Random(seed)
        start = {("t", p): draw.randrange(100) for p in range(draw.randrange(1, 6))}
        end = {p: begin + draw.randrange(50) for p, begin in start.items()}
        limit = draw.randrange(1, 200)
        found = rate_limit(limit, start, end, {})
        assert all(start[p] <= found[p] <= end[p] for p in start)
        taken = sum(found[p] - start[p] for p in start)
        assert taken <= limit + len(start)
        if sum(end[p] - start[p] for p in start):
            assert taken > 0


@pytest.mark.parametrize("minimum", [None, 1, 2, 7, 50])
@pytest.mark.parametrize("maximum", [None, 1, 10, 1000])
def test_split_covers_every_offset_once(minimum: int | None, maximum: int | None) -> None:
    ranges = [Range("t", 0, 0, 100), Range("t", 1, 50, 53), Range("t", 2, 9, 9), Range("u", 0, 1000, 1020)]
    parts = split(ranges, minimum, maximum)
    covered = sorted((p.topic, p.partition, offset) for p in parts for offset in range(p.start, p.end))
    assert covered == [(r.topic, r.partition, offset) for r in ranges for offset in range(r.start, r.end)]
    if maximum is not None:
        assert max(p.size for p in parts) <= maximum
    if minimum is not None:
        assert len(parts) >= min(minimum, len(covered))


def test_split_without_limits_keeps_ranges_whole() -> None:
    assert split([Range("t", 0, 0, 10**9)], None, None) == [Range("t", 0, 0, 10**9)]


def test_edges_and_marks_are_asked_for() -> None:
    cluster = MadeUpCluster({A: 3, B: 0}, {A: 30, B: 20})
    assert resolve(cluster, [A, B], Edge.EARLIEST, ending=False) == {A: 3, B: 0}
    limit = read_options(startingOffsets='{"t":{"0":-2,"1":7}}').starting
    assert resolve(cluster, [A, B], limit, ending=False) == {A: 3, B: 7}


def test_offsets_must_name_exactly_the_partitions() -> None:
    cluster = MadeUpCluster({}, {A: 1, B: 1})
    limit = read_options(startingOffsets='{"t":{"0":0,"5":0}}').starting
    with pytest.raises(OptionError, match=r"missing t-1, unknown t-5"):
        resolve(cluster, [A, B], limit, ending=False)


def test_timestamps_and_their_strategy() -> None:
    cluster = MadeUpCluster({}, {A: 10, B: 20}, {A: [(1000, 4)], B: [(500, 1)]})
    limit = read_options(startingTimestamp="900").starting
    with pytest.raises(OptionError, match="startingOffsetsByTimestampStrategy"):
        resolve(cluster, [A, B], limit, ending=False)
    assert resolve(cluster, [A, B], limit, ending=False, strategy="latest") == {A: 4, B: 20}
    assert resolve(cluster, [A, B], read_options(endingTimestamp="900").ending, ending=True) == {A: 4, B: 20}


def test_data_loss_is_reported_and_starts_move() -> None:
    reports: list[str] = []
    found = check_data_loss(MadeUpCluster({A: 5}, {A: 10, B: 10}), {A: 2, B: 1, C: 9}, reports.append)
    assert found == {A: 5, B: 1}
    assert len(reports) == 2
    assert "offsets 2 to 4" in reports[0]
