from __future__ import annotations

import gc
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from log.cleaner.cleaner_threads import CleanerConfig
from log.cleaner.manager import ABORTED
from log.config import LogConfig
from log.leader_epoch import LeaderEpochCache
from log.local_log import LocalLog
from log.management.manager import LogManagerSettings
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from tests.support.sockets import wait_until
from tests.unit.log.harness import SMALL, append, contents
from tests.unit.log.management.manager_harness import A0, B0, Broker, crash, new


def test_scheduled_tasks(tmp_path: Path) -> None:
    settings = LogManagerSettings(flush_check_ms=1000)
    broker = Broker(tmp_path, settings=settings)
    broker.topic_configs["a"] = {"flush.ms": "5000", "retention.ms": "100000", "segment.bytes": "300"}
    manager = broker.start()
    log = new(manager, A0)
    assert log.config.flush_ms == 5000
    for i in range(6):
        append(log, b"%d" % i * 50, timestamp=broker.clock.wall_ms())
    log.update_high_watermark(6)
    append(log, b"tail", timestamp=broker.clock.wall_ms())
    broker.tick(30_000)
    assert log.recovery_point == 7
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\na 0 7\n"
    assert log.log_start_offset == 0
    broker.tick(300_000)
    assert log.log_start_offset == 6
    broker.tick(60_000)
    assert len(list((tmp_path / "a-0").glob("*.log"))) == 1


def test_config_changes(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    manager = broker.start()
    log, other = new(manager, A0), new(manager, B0)
    manager.update_topic_config("a", {"retention.ms": "5"})
    assert (log.config.retention_ms, other.config.retention_ms) == (5, SMALL.retention_ms)
    manager.update_default_config(LogConfig(retention_bytes=77))
    assert (log.config.retention_ms, log.config.retention_bytes) == (5, 77)
    assert other.config.retention_bytes == 77


def test_a_topics_config_is_read_once_and_follows_notifications(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    manager = broker.start()
    broker.topic_configs["a"] = {"retention.ms": "5"}
    assert new(manager, A0).config.retention_ms == 5
    # What is stored changes before the notification comes; what the notification said holds for later logs too.
    broker.topic_configs["a"] = {"retention.ms": "6"}
    assert new(manager, TopicPartition("a", 1)).config.retention_ms == 5
    manager.update_topic_config("a", {"retention.ms": "6"})
    assert {log.config.retention_ms for log in manager.logs_by_topic("a")} == {6}
    assert new(manager, TopicPartition("a", 2)).config.retention_ms == 6
    # A topic that is deleted and made again tells nobody of its new config.
    broker.topic_configs["a"] = {"retention.ms": "7"}
    manager.async_delete(A0)
    assert new(manager, A0).config.retention_ms == 7


def test_a_change_for_a_topic_without_logs_is_not_kept(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    manager = broker.start()
    manager.update_topic_config("a", {"retention.ms": "5"})
    broker.topic_configs["a"] = {"retention.ms": "6"}
    assert new(manager, A0).config.retention_ms == 6


def test_truncate_to_writes_recovery_points(tmp_path: Path) -> None:
    manager = Broker(tmp_path).start()
    log = new(manager, A0)
    for i in range(5):
        append(log, b"%d" % i)
    log.flush()
    manager.truncate_to({A0: 3, B0: 1})
    assert log.log_end_offset == 3
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\na 0 3\n"


@pytest.mark.parametrize("threads", [1, 4])
def test_parallel_loading(tmp_path: Path, threads: int) -> None:
    manager = Broker(tmp_path).start()
    for partition in range(12):
        append(new(manager, TopicPartition("t", partition)), b"%d" % partition)
    crash(manager)
    manager = Broker(tmp_path, settings=LogManagerSettings(recovery_threads_per_dir=threads)).start()
    assert len(manager.all_logs()) == 12
    for partition in range(12):
        log = manager.get_log(TopicPartition("t", partition))
        assert log is not None
        assert contents(log) == [(0, b"%d" % partition)]


def test_the_cleaner_works_beside_truncation_and_deletion(tmp_path: Path) -> None:
    config = replace(SMALL, cleanup_policy=frozenset({"compact"}), segment_bytes=400, min_cleanable_dirty_ratio=0.0)
    broker = Broker(tmp_path / "d", config=config, cleaner_config=CleanerConfig(threads=0))
    broker.start()
    log = broker.manager.get_or_create_log(TopicPartition("t", 0), is_new=True)
    for i in range(20):
        append(log, b"%02d" % i + b"x" * 80)
    log.update_high_watermark(log.log_end_offset)
    cleaner = broker.manager.cleaner
    assert cleaner is not None
    cleaner.step()
    position = cleaner.manager.positions([log.parent_dir])[log.topic_partition]
    assert position == log.active_segment.base_offset
    broker.manager.truncate_to({log.topic_partition: 10})
    assert cleaner.manager.positions([log.parent_dir])[log.topic_partition] <= 10
    assert cleaner.manager.state_of(log.topic_partition) is None
    broker.manager.async_delete(log.topic_partition)
    assert cleaner.manager.positions([log.parent_dir]) == {}


def test_a_deleted_log_goes_without_the_garbage_collector(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "d", cleaner_config=CleanerConfig(threads=0))
    manager = broker.start()

    def parts() -> int:
        return sum(type(each) in (PartitionLog, LocalLog, LeaderEpochCache) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = parts()
        log = new(manager, A0)
        append(log, b"x")
        log.update_high_watermark(log.log_end_offset)
        assert parts() == before + 3
        manager.async_delete(A0)
        del log
        broker.clock.advance(10 * 60_000)
        broker.scheduler.tick()
        assert parts() == before
    finally:
        gc.enable()


def test_a_log_that_could_not_be_cleaned_is_forgotten_with_its_topic(tmp_path: Path) -> None:
    """A topic of the same name that is made later is another one, and the metric counts logs that exist."""
    broker = Broker(tmp_path / "d", cleaner_config=CleanerConfig(threads=0))
    manager = broker.start()
    log, cleaner = new(manager, A0), manager.cleaner
    assert cleaner is not None
    cleaner.manager.mark_uncleanable(log)
    assert cleaner.manager.uncleanable_count(log.parent_dir) == 1
    manager.async_delete(A0)
    assert cleaner.manager.uncleanable_count(log.parent_dir) == 0
    assert not cleaner.manager.is_uncleanable(new(manager, A0))


def test_retention_leaves_alone_what_is_still_being_compacted(tmp_path: Path) -> None:
    """A cleaning reads segments by their names; the policy may become `delete` meanwhile."""
    compact = replace(SMALL, cleanup_policy=frozenset({"compact"}), segment_bytes=400, min_cleanable_dirty_ratio=0.0)
    broker = Broker(tmp_path / "d", config=compact, cleaner_config=CleanerConfig(threads=0))
    manager = broker.start()
    log = new(manager, A0)
    for i in range(20):
        append(log, b"%02d" % i + b"x" * 80)
    log.update_high_watermark(log.log_end_offset)
    cleaner = manager.cleaner
    assert cleaner is not None
    before = len(log.segments)
    assert before > 2
    target = cleaner.manager.grab_filthiest()
    assert target is not None
    log.update_config(replace(compact, cleanup_policy=frozenset({"delete"}), retention_bytes=0))
    manager.maintenance.cleanup_logs()
    assert len(log.segments) == before
    cleaner.manager.done_cleaning(log, None)
    manager.maintenance.cleanup_logs()
    assert len(log.segments) < before
    assert cleaner.manager.state_of(A0) is None


@pytest.mark.parametrize("of_topic", [True, False])
def test_a_topic_that_is_not_compacted_any_more_ends_its_cleaning(tmp_path: Path, of_topic: bool) -> None:
    compact = replace(SMALL, cleanup_policy=frozenset({"compact"}), segment_bytes=400, min_cleanable_dirty_ratio=0.0)
    broker = Broker(tmp_path / "d", config=compact, cleaner_config=CleanerConfig(threads=0))
    manager = broker.start()
    log, cleaner = new(manager, A0), manager.cleaner
    for i in range(20):
        append(log, b"%02d" % i + b"x" * 80)
    log.update_high_watermark(log.log_end_offset)
    assert cleaner is not None
    states = cleaner.manager
    assert states.grab_filthiest() is not None
    change = threading.Thread(
        target=lambda: (
            manager.update_topic_config("a", {"cleanup.policy": "delete"})
            if of_topic
            else manager.update_default_config(LogConfig())
        )
    )
    change.start()
    wait_until(lambda: states.state_of(A0) == ABORTED, "the cleaning is to end")
    assert change.is_alive()
    cleaner.manager.done_cleaning(log, None)
    change.join(10)
    assert not change.is_alive()
    assert cleaner.manager.state_of(A0) is None
