from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from log.config import LogConfig
from log.management.retention import delete_old_segments
from log.partition_log import PartitionLog
from tests.unit.log.harness import Harness, append, batch, contents, segment_bases

# Three one-record batches of 100 bytes or so fill a segment.
SIZE = len(batch(b"x" * 30))
CONFIG = LogConfig(segment_bytes=3 * SIZE, segment_index_bytes=1200, retention_ms=-1)


def filled(tmp_path: Path, count: int, **changes: object) -> tuple[Harness, PartitionLog]:
    harness = Harness(tmp_path, replace(CONFIG, **changes))  # type: ignore[arg-type]
    log = harness.open()
    now = harness.clock.wall_ms()
    for _ in range(count):
        append(log, b"x" * 30, timestamp=now)
    log.update_high_watermark(count)
    return harness, log


def test_nothing_goes_without_a_limit(tmp_path: Path) -> None:
    _, log = filled(tmp_path, 20)
    assert delete_old_segments(log) == 0
    assert log.number_of_segments == 7


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        (0, 0),
        (SIZE, 1),
        (SIZE + 1, 2),
        (4 * SIZE, 2),
        (4 * SIZE + 1, 3),
        (7 * SIZE, 3),
        (7 * SIZE + 1, 4),
        (11 * SIZE, 4),
    ],
)
def test_size(tmp_path: Path, limit: int, kept: int) -> None:
    """Ten batches in segments of 3, 3, 3 and 1: a segment goes if what is left is not below the limit."""
    _, log = filled(tmp_path, 10, retention_bytes=limit)
    deleted = delete_old_segments(log)
    assert log.number_of_segments == max(kept, 1)
    assert deleted == 4 - kept
    if kept == 0:
        # A log always has a segment, and it keeps the end offset.
        assert segment_bases(log) == [10]
    assert log.log_start_offset == segment_bases(log)[0]
    assert log.log_end_offset == 10


def test_time(tmp_path: Path) -> None:
    harness, log = filled(tmp_path, 10, retention_ms=1000)
    harness.tick(1000)
    assert delete_old_segments(log) == 0
    harness.tick(1)
    for _ in range(2):
        append(log, b"x" * 30, timestamp=harness.clock.wall_ms())
    log.update_high_watermark(12)
    assert delete_old_segments(log) == 3
    assert segment_bases(log) == [9]
    assert [o for o, _ in contents(log)] == [9, 10, 11]
    harness.tick(1001)
    assert delete_old_segments(log) == 1
    assert (segment_bases(log), log.log_start_offset) == ([12], 12)
    # An empty active segment never qualifies.
    harness.tick(100_000)
    assert delete_old_segments(log) == 0
    assert append(log, b"next").first_offset == 12


def test_time_stops_at_the_first_that_is_young_enough(tmp_path: Path) -> None:
    harness, log = filled(tmp_path, 3, retention_ms=1000)
    for age in (-500, 5000, 5000):
        for _ in range(3):
            append(log, b"x" * 30, timestamp=harness.clock.wall_ms() - age)
    log.update_high_watermark(12)
    harness.tick(1001)
    assert delete_old_segments(log) == 1
    assert log.log_start_offset == 3


def test_time_without_timestamps_goes_by_the_file(tmp_path: Path) -> None:
    harness = Harness(tmp_path, replace(CONFIG, retention_ms=1000))
    log = harness.open()
    for _ in range(6):
        append(log, b"x" * 30, timestamp=-1)
    log.update_high_watermark(6)
    now = harness.clock.wall_ms() / 1000
    for segment, age in zip(log.segments, (5, 0), strict=True):
        os.utime(segment.path, (now - age, now - age))
    assert delete_old_segments(log) == 1
    assert log.log_start_offset == 3


def test_nothing_above_the_high_watermark_goes(tmp_path: Path) -> None:
    harness, log = filled(tmp_path, 0, retention_bytes=0)
    for _ in range(10):
        append(log, b"x" * 30, timestamp=harness.clock.wall_ms())
    log.update_high_watermark(5)
    assert delete_old_segments(log) == 1
    assert log.log_start_offset == 3


def test_log_start_offset_whatever_the_policy(tmp_path: Path) -> None:
    harness, log = filled(tmp_path, 10, cleanup_policy=frozenset({"compact"}), retention_bytes=0, retention_ms=0)
    assert delete_old_segments(log) == 0
    log.maybe_increment_log_start_offset(6, "test")
    assert delete_old_segments(log) == 2
    assert segment_bases(log) == [6, 9]
    assert log.log_start_offset == 6
    harness.tick(60_000)
    assert not list(harness.partition_dir.glob("*.deleted"))


def test_snapshots_go_with_their_segments(tmp_path: Path) -> None:
    harness, log = filled(tmp_path, 10, retention_bytes=0)
    harness.tick()
    assert len(list(harness.partition_dir.glob("*.snapshot"))) == 3
    delete_old_segments(log)
    assert len(list(harness.partition_dir.glob("*.snapshot.deleted"))) == 3
    harness.tick(60_000)
    left = sorted(p.name for p in harness.partition_dir.iterdir())
    assert left == [f"{10:020d}{e}" for e in (".index", ".log", ".snapshot", ".timeindex")] + [
        "leader-epoch-checkpoint"
    ]
