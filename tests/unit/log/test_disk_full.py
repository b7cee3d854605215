"""A full disk at append, roll, index growth, checkpoint and snapshot.

A small tmpfs is mounted where the tests run as root; elsewhere a limit on the size of files stands in for it where that
can show the same, and the rest is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from log.cleaner.cleaner_threads import CleanerConfig
from log.config import LogConfig
from log.errors import StorageError
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from tests.support.disks import fill, small_file_system
from tests.unit.log.harness import append, contents
from tests.unit.log.management.manager_harness import Broker, crash, new

A0 = TopicPartition("a", 0)
SMALL = LogConfig(segment_bytes=100_000, index_interval_bytes=100, segment_index_bytes=10_000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with small_file_system(tmp_path / "small", "1m") as path:
        yield path


def acknowledged_until_full(log: PartitionLog, start: int) -> int:
    """How many appends succeed before one does not."""
    for number in range(5000):
        try:
            append(log, b"%d " % (start + number) * 30)
        except StorageError:
            return number
    raise AssertionError("the disk has not become full")


@pytest.mark.parametrize("leave", [0, 4096, 8192, 12288, 20480, 65536])
def test_full_while_appending(small_disk: Path, tmp_path: Path, leave: int) -> None:
    """At some append, roll, index entry or snapshot the disk is full.

    That is an error, the log is not corrupt, and the other disk goes on.
    """
    broker = Broker(small_disk / "x", tmp_path / "y", config=SMALL)
    manager = broker.start()
    manager.moves.prefer(A0, str(small_disk / "x"))
    log = new(manager, A0)
    good = new(manager, TopicPartition("b", 0))
    assert good.parent_dir == str(tmp_path / "y")
    count = 50
    for i in range(count):
        append(log, b"%d " % i * 30)
    ballast = fill(small_disk, leave)
    count += acknowledged_until_full(log, count)
    assert broker.failed == [str(small_disk / "x")]
    manager.handle_log_dir_failure(str(small_disk / "x"))
    append(good, b"goes on")
    assert contents(good) == [(0, b"goes on")]
    crash(manager)

    ballast.unlink()
    broker = Broker(small_disk / "x", tmp_path / "y", config=SMALL)
    again = broker.start().get_log(A0)
    assert again is not None
    found = contents(again)
    assert found == [(i, b"%d " % i * 30) for i in range(len(found))]
    # Everything acknowledged is there; the append that failed may be, if only what came after its bytes failed.
    assert len(found) in (count, count + 1)
    append(again, b"next")
    crash(broker.manager)


def test_full_at_a_checkpoint(small_disk: Path, tmp_path: Path) -> None:
    broker = Broker(small_disk / "x", tmp_path / "y", config=SMALL)
    manager = broker.start()
    manager.moves.prefer(A0, str(small_disk / "x"))
    log = new(manager, A0)
    append(log, b"a")
    log.flush()
    manager.maintenance.checkpoint_recovery_points()
    append(log, b"b")
    log.flush()
    fill(small_disk)
    manager.maintenance.checkpoint_recovery_points()
    assert broker.failed == [str(small_disk / "x")]
    # The old content is whole.
    assert (small_disk / "x" / "recovery-point-offset-checkpoint").read_text() == "0\n1\na 0 1\n"
    crash(manager)


COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)


@pytest.mark.parametrize("leave", [0, 4096, 16384, 40960, 81920])
def test_full_while_compacting(small_disk: Path, tmp_path: Path, leave: int) -> None:
    """The directory goes offline, nothing is lost, and the cleaner goes on in the other one."""
    x, y = str(small_disk / "x"), str(tmp_path / "y")
    broker = Broker(x, y, config=COMPACTED, cleaner_config=CleanerConfig(threads=0))
    manager = broker.start()
    cleaner = manager.cleaner
    assert cleaner is not None
    b0 = TopicPartition("b", 0)
    manager.moves.prefer(A0, x)
    manager.moves.prefer(b0, y)
    # Keys that are seldom written again: there is nearly as much to write as to read.
    newest: dict[bytes, bytes] = {}
    logs = [new(manager, A0), new(manager, b0)]
    for number in range(300):
        key, value = b"%d" % (number % 250), b"%d " % number * 150
        newest[key] = value
        for log in logs:
            append(log, value, key=key)
    for log in logs:
        log.roll()
        log.update_high_watermark(log.log_end_offset)
    broker.tick(0)
    ballast = fill(small_disk, leave)
    for _ in range(3):
        cleaner.step()
        if broker.failed:
            manager.handle_log_dir_failure(x)
    assert broker.failed == [x]
    assert manager.get_log(A0) is None
    good = manager.get_log(b0)
    assert good is not None
    assert cleaner.manager.positions([y]) == {b0: 300}
    assert len(contents(good)) == len(newest)
    append(good, b"goes on")
    crash(manager)

    ballast.unlink()
    broker = Broker(x, y, config=COMPACTED, cleaner_config=CleanerConfig(threads=0))
    manager = broker.start()
    again = manager.get_log(A0)
    assert again is not None
    again.update_high_watermark(again.log_end_offset)
    assert again.log_end_offset == 300
    assert not list(Path(again.directory).glob("*.cleaned"))
    for _ in range(2):
        found = [value for _, value in contents(again)]
        assert set(found) >= set(newest.values())
        assert manager.cleaner is not None
        manager.cleaner.step()
    assert len(contents(again)) == len(newest)
    crash(manager)
