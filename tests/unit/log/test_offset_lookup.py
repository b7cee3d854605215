from __future__ import annotations

import os
from pathlib import Path

import pytest

from log.appends import append_as_leader
from log.config import LogConfig
from log.offset_lookup import fetch_offset_by_timestamp, legacy_offsets_before
from log.offset_metadata import TimestampAndOffset
from log.partition_log import PartitionLog
from log.records.record import Record
from tests.support.batches import build_batch
from tests.unit.log.harness import Harness, append


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def records(*timestamps: int, **options: object) -> bytearray:
    return build_batch([Record(i, t, b"k", b"v" * 20) for i, t in enumerate(timestamps)], **options)  # type: ignore[arg-type]


def test_special_timestamps(harness: Harness) -> None:
    log = harness.open()
    assert fetch_offset_by_timestamp(log, -1) == (-1, 0, None)
    assert fetch_offset_by_timestamp(log, -2) == (-1, 0, None)
    assert fetch_offset_by_timestamp(log, -3) is None
    assert fetch_offset_by_timestamp(log, 0) is None
    append_as_leader(log, records(50, 90, 70), 3)
    append_as_leader(log, records(90, 80), 4)
    assert fetch_offset_by_timestamp(log, -1) == (-1, 5, 4)
    assert fetch_offset_by_timestamp(log, -2) == (-1, 0, 3)
    assert fetch_offset_by_timestamp(log, -3) == (90, 1, 3)
    assert fetch_offset_by_timestamp(log, -4) == (-1, 0, 3)
    assert fetch_offset_by_timestamp(log, -5) == (-1, -1, None)
    with pytest.raises(ValueError, match="-6"):
        fetch_offset_by_timestamp(log, -6)
    log.update_high_watermark(5)
    log.maybe_increment_log_start_offset(4, "test")
    assert fetch_offset_by_timestamp(log, -2) == (-1, 4, 4)


@pytest.mark.parametrize("codec", range(5))
def test_by_time_finds_the_first_record_that_is_late_enough(harness: Harness, codec: int) -> None:
    """Out of order within batches, over segments, with and without what was in memory."""
    log = harness.open()
    times = [(i * 37) % 500 for i in range(200)]
    for i in range(0, 200, 5):
        append_as_leader(log, records(*times[i : i + 5], codec=codec), 0)
    assert log.number_of_segments > 3

    def check(found_in: PartitionLog) -> None:
        for target in range(0, 520, 13):
            wanted = next((i for i, t in enumerate(times) if t >= target), None)
            found = fetch_offset_by_timestamp(found_in, target)
            assert (None if found is None else found.offset) == wanted

    check(log)
    assert fetch_offset_by_timestamp(log, -3) == (max(times), times.index(max(times)), 0)
    harness.stop(log)
    again = harness.open()
    check(again)
    assert fetch_offset_by_timestamp(again, -3) == (max(times), times.index(max(times)), 0)


def test_by_time_skips_what_lies_below_the_log_start(harness: Harness) -> None:
    log = harness.open()
    for i in range(10):
        append(log, b"x", timestamp=1000 + i)
    log.update_high_watermark(10)
    log.maybe_increment_log_start_offset(6, "test")
    assert fetch_offset_by_timestamp(log, 1000) == TimestampAndOffset(1006, 6, 0)


def test_log_append_time_is_the_batch_time(tmp_path: Path) -> None:
    harness = Harness(tmp_path, LogConfig(message_timestamp_type="LogAppendTime", segment_index_bytes=1200))
    log = harness.open()
    first = harness.clock.wall_ms()
    append_as_leader(log, records(1, 2, 3), 0)
    harness.tick(10)
    append_as_leader(log, records(1, 2, 3), 0)
    assert fetch_offset_by_timestamp(log, 5) == (first, 0, 0)
    assert fetch_offset_by_timestamp(log, first + 1) == (first + 10, 3, 0)
    assert fetch_offset_by_timestamp(log, first + 11) is None


def test_version_0_lists_segments_by_modification_time(harness: Harness) -> None:
    log = harness.open()
    for i in range(30):
        append(log, b"x" * 20, timestamp=1000 + i)
    bases = [s.base_offset for s in log.segments]
    assert len(bases) == 3
    now = harness.clock.wall_ms() // 1000
    for segment, age in zip(log.segments, (300, 200, 100), strict=True):
        os.utime(segment.path, (now - age, now - age))
    assert legacy_offsets_before(log, -1, 10) == [30, *reversed(bases)]
    assert legacy_offsets_before(log, -1, 2) == [30, bases[-1]]
    assert legacy_offsets_before(log, -2, 10) == [0]
    assert legacy_offsets_before(log, (now - 150) * 1000, 10) == [bases[1], 0]
    assert legacy_offsets_before(log, (now - 1000) * 1000, 10) == []
