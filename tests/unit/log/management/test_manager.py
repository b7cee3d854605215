from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from log.appends import append_as_follower, append_as_leader
from log.cleaner.cleaner_threads import CleanerConfig
from log.cleaner.manager import ABORTED
from log.config import LogConfig
from log.errors import (
    InconsistentMetadataError,
    InconsistentTopicIdError,
    LogDirNotFoundError,
    LogError,
    StorageError,
)
from log.management.log_dir import LogDirLockedError
from log.management.manager import LogManager, LogManagerSettings
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from tests.support.sockets import wait_until
from tests.unit.log.harness import SMALL, append, contents
from timer.chance import SystemChance
from timer.clock import ManualClock
from timer.metrics import NullMetrics
from timer.scheduler import ManualScheduler

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Broker:
    """What a broker has of the log package, over directories that outlive it."""

    def __init__(self, *dirs: str | os.PathLike[str], config: LogConfig = SMALL, **options: object) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.topic_configs: dict[str, dict[str, str]] = {}
        self.failed: list[str] = []
        self.manager = LogManager(
            [os.fspath(d) for d in dirs],
            default_config=config,
            topic_configs=lambda topic: self.topic_configs.get(topic, {}),
            broker_id=1,
            cluster_id="cluster",
            clock=self.clock,
            scheduler=self.scheduler,
            chance=SystemChance(),
            **{"on_dir_failure": self.failed.append, **options},  # type: ignore[arg-type]
        )

    def start(self) -> LogManager:
        self.manager.startup()
        return self.manager

    def tick(self, ms: int) -> None:
        self.clock.advance(ms)
        self.scheduler.tick()


def new(manager: LogManager, tp: TopicPartition) -> PartitionLog:
    return manager.get_or_create_log(tp, is_new=True)


def test_create_append_stop_start(tmp_path: Path) -> None:
    manager = Broker(tmp_path).start()
    assert manager.get_log(A0) is None
    log: PartitionLog | None = new(manager, A0)
    assert manager.get_or_create_log(A0) is log
    for i in range(30):
        append(log, b"%d" % i)
    log.update_high_watermark(30)
    manager.high_watermark_checkpoints[str(tmp_path)].write({A0: log.high_watermark})
    manager.shutdown()
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert not (tmp_path / ".lock").exists()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\na 0 30\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"

    manager = Broker(tmp_path).start()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    log = manager.get_log(A0)
    assert log is not None
    assert contents(log) == [(i, b"%d" % i) for i in range(30)]
    assert manager.high_watermark_checkpoints[str(tmp_path)].read() == {A0: 30}
    manager.shutdown()


def test_start_after_a_crash_recovers(tmp_path: Path) -> None:
    manager = Broker(tmp_path).start()
    for i in range(30):
        append(new(manager, A0), b"%d" % i)
    path = max((tmp_path / "a-0").glob("*.log"))
    os.truncate(path, path.stat().st_size - 1)
    crash(manager)
    log = Broker(tmp_path).start().get_log(A0)
    assert log is not None
    assert contents(log) == [(i, b"%d" % i) for i in range(29)]


def crash(manager: LogManager) -> None:
    """The process is gone: its files are closed and its locks dropped."""
    for log in manager.all_logs():
        log.close_handles()
    for log_dir in manager._live.values():
        log_dir.unlock(remove=False)


def test_fresh_directory_has_empty_checkpoints(tmp_path: Path) -> None:
    Broker(tmp_path / "new").start()
    found = {p.name: p.stat().st_size for p in (tmp_path / "new").iterdir()}
    assert found.pop("meta.properties") > 0
    assert found == {
        ".lock": 0,
        "cleaner-offset-checkpoint": 0,
        "log-start-offset-checkpoint": 0,
        "recovery-point-offset-checkpoint": 0,
        "replication-offset-checkpoint": 0,
    }


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    # A POSIX record lock is the process's, so another process must try.
    import subprocess
    import sys

    Broker(tmp_path).start()
    code = (
        "import sys; from log.management.log_dir import LogDir, LogDirLockedError\n"
        "try: LogDir(sys.argv[1]).lock()\n"
        "except LogDirLockedError as e: print(e); sys.exit(7)"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=30)
    assert result.returncode == 7, result.stderr
    assert "another broker" in result.stdout
    assert issubclass(LogDirLockedError, LogError)


def test_new_logs_go_to_the_emptiest_directory(tmp_path: Path) -> None:
    manager = Broker(tmp_path / "x", tmp_path / "y").start()
    for partition in range(6):
        new(manager, TopicPartition("t", partition))
    parents = [log.parent_dir for log in manager.all_logs()]
    assert parents.count(str(tmp_path / "x")) == parents.count(str(tmp_path / "y")) == 3


def test_foreign_directory_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(LogError, match=r"lost\+found"):
        Broker(tmp_path).start()


def test_a_partition_in_two_directories_stops_the_start(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name / "a-0").mkdir(parents=True)
    with pytest.raises(LogError, match="is in both"):
        Broker(tmp_path / "x", tmp_path / "y").start()


def test_meta_properties_of_another_broker(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=2\ncluster.id=cluster\n")
    with pytest.raises(InconsistentMetadataError):
        Broker(tmp_path).start()


def test_topic_ids_must_agree(tmp_path: Path) -> None:
    manager = Broker(tmp_path).start()
    manager.get_or_create_log(A0, is_new=True, topic_id=b"1" * 16)
    assert manager.get_or_create_log(A0, topic_id=b"1" * 16).topic_id == b"1" * 16
    with pytest.raises(InconsistentTopicIdError):
        manager.get_or_create_log(A0, topic_id=b"2" * 16)


def test_delete_waits_for_its_delay(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    manager = broker.start()
    broker.tick(30_000)
    log = new(manager, A0)
    append(log, b"x")
    held = log.read(0, 100)
    data = held.records.read()
    manager.async_delete(A0)
    assert manager.get_log(A0) is None
    assert [p.name[:4] for p in tmp_path.glob("*-delete")] == ["a-0."]
    with pytest.raises(StorageError):
        append_as_leader(log, b"", 0)
    again = new(manager, A0)
    assert again.log_end_offset == 0
    broker.tick(59_000)
    broker.tick(500)
    assert list(tmp_path.glob("*-delete"))
    for _ in range(4):
        broker.tick(30_000)
    assert not list(tmp_path.glob("*-delete"))
    assert held.records.read() == data
    assert manager.async_delete(B0) is None


def test_a_directory_to_be_deleted_is_found_again_at_start(tmp_path: Path) -> None:
    manager = Broker(tmp_path).start()
    append(new(manager, A0), b"x")
    manager.async_delete(A0)
    manager.shutdown()
    assert list(tmp_path.glob("*-delete"))
    broker = Broker(tmp_path)
    assert broker.start().get_log(A0) is None
    for _ in range(5):
        broker.tick(30_000)
    assert not list(tmp_path.glob("*-delete"))


def test_stray_is_kept(tmp_path: Path) -> None:
    manager = Broker(tmp_path).start()
    append(new(manager, A0), b"x")
    manager.async_delete(A0, is_stray=True)
    manager.shutdown()
    broker = Broker(tmp_path)
    assert broker.start().all_logs() == []
    for _ in range(5):
        broker.tick(30_000)
    assert len(list(tmp_path.glob("*-stray"))) == 1


def test_move_between_directories(tmp_path: Path) -> None:
    x, y = tmp_path / "x", tmp_path / "y"
    broker = Broker(x, y)
    manager = broker.start()
    manager.moves.prefer(A0, str(x))
    log = new(manager, A0)
    assert log.parent_dir == str(x)
    for i in range(30):
        append(log, b"%d" % i, epoch=4)
    log.update_high_watermark(30)
    with pytest.raises(LogDirNotFoundError):
        manager.get_or_create_log(A0, is_future=True)
    with pytest.raises(LogDirNotFoundError):
        manager.moves.prefer(A0, str(tmp_path / "z"))
    manager.moves.prefer(A0, str(y))
    future = manager.get_or_create_log(A0, is_new=True, is_future=True)
    assert future.is_future
    assert future.directory.endswith("-future")
    while future.log_end_offset < log.log_end_offset:
        info = log.read(future.log_end_offset, 1 << 20)
        append_as_follower(future, info.records.read())
        info.records.release()
    manager.moves.replace_current(A0)
    moved = manager.get_log(A0)
    assert moved is future
    assert (moved.directory, moved.is_future, moved.high_watermark) == (str(y / "a-0"), False, 30)
    assert manager.get_log(A0, is_future=True) is None
    append(moved, b"more", epoch=5)
    assert (y / "a-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n4 0\n5 30\n"
    assert len(list(x.glob("a-0.*-delete"))) == 1
    manager.shutdown()
    again = Broker(x, y).start().get_log(A0)
    assert again is not None
    assert again.parent_dir == str(y)
    assert contents(again)[-1] == (30, b"more")


# ---- failing directories


def test_a_failing_directory_goes_offline_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = tmp_path / "x", tmp_path / "y"
    broker = Broker(x, y)
    manager = broker.start()
    logs = {log.parent_dir: log for log in (new(manager, A0), new(manager, A1))}
    bad, good = logs[str(x)], logs[str(y)]
    append(bad, b"before")

    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("log.files.file_records.pwrite_fully", fail)
        with pytest.raises(StorageError):
            append(bad, b"lost")
    assert broker.failed == [str(x)]
    assert manager.live_log_dirs == [str(y)]
    assert manager.offline_log_dirs == [str(x)]
    assert manager.handle_log_dir_failure(str(x)) == [bad.topic_partition]
    assert manager.get_log(bad.topic_partition) is None
    for use in (lambda: append(bad, b"more"), lambda: bad.read(0, 10)):
        with pytest.raises(StorageError):
            use()
    append(good, b"goes on")
    # It may exist on the offline directory, so it is only created if it is new.
    with pytest.raises(StorageError):
        manager.get_or_create_log(B0)
    assert new(manager, B0).parent_dir == str(y)
    manager.shutdown()
    assert not (x / ".kafka_cleanshutdown").exists()
    assert (y / ".kafka_cleanshutdown").exists()
    recovered = Broker(x, y).start().get_log(bad.topic_partition)
    assert recovered is not None
    assert contents(recovered) == [(0, b"before")]


def test_without_a_handler_the_manager_takes_the_directory_offline_itself(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "x", tmp_path / "y", on_dir_failure=None)
    manager = broker.start()
    log = new(manager, A0)
    manager.env.on_io_error(log.parent_dir, "test", OSError("broken"))  # type: ignore[misc]
    broker.tick(1)
    assert manager.get_log(A0) is None


def test_corrupt_checkpoint_takes_its_directory_offline(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
    (tmp_path / "x" / "recovery-point-offset-checkpoint").write_text("0\n5\n")
    broker = Broker(tmp_path / "x", tmp_path / "y")
    manager = broker.start()
    assert manager.live_log_dirs == [str(tmp_path / "y")]
    assert broker.failed == [str(tmp_path / "x")]


def test_no_directory_left(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a file")
    with pytest.raises(StorageError, match="none of the log directories"):
        Broker(tmp_path / "x").start()


def test_a_failed_checkpoint_write_takes_the_directory_offline(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "x", tmp_path / "y")
    manager = broker.start()
    log = new(manager, A0)
    os.rename(log.parent_dir, str(tmp_path / "gone"))
    manager.maintenance.checkpoint_recovery_points()
    assert broker.failed == [log.parent_dir]


# ---- background work


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


class Times:
    def __init__(self) -> None:
        self.values: list[float] = []

    def update(self, value: float, n: int = 1) -> None:
        self.values.append(value)


class Gauges(NullMetrics):
    def __init__(self) -> None:
        self.found: dict[tuple[str, ...], Callable[[], float]] = {}
        self.times: dict[tuple[str, str, str], Times] = {}

    def histogram(self, group: str, type_: str, name: str, **tags: str) -> Times:
        return self.times.setdefault((group, type_, name), Times())

    def gauge(self, group: str, type_: str, name: str, fn: Callable[[], float], **tags: str) -> None:
        self.found[(type_, name, *(f"{k}={v}" for k, v in sorted(tags.items())))] = fn

    def family(
        self, group: str, type_: str, tags: Sequence[str], names: Sequence[str], read: Callable[[Any], Sequence[float]]
    ) -> GaugesOfMany:
        return GaugesOfMany(self.found, type_, tags, names, read)


class GaugesOfMany:
    def __init__(
        self,
        found: dict[tuple[str, ...], Callable[[], float]],
        type_: str,
        tags: Sequence[str],
        names: Sequence[str],
        read: Callable[[Any], Sequence[float]],
    ) -> None:
        self._found = found
        self._type = type_
        self._tags = tags
        self._names = names
        self._read = read

    def _key(self, name: str, values: tuple[str, ...]) -> tuple[str, ...]:
        return self._type, name, *(f"{k}={v}" for k, v in sorted(zip(self._tags, values, strict=True)))

    def add(self, owner: Any, *values: str) -> None:
        for place, name in enumerate(self._names):
            self._found[self._key(name, values)] = lambda place=place: self._read(owner)[place]  # type: ignore[misc]

    def remove(self, *values: str) -> None:
        for name in self._names:
            self._found.pop(self._key(name, values), None)


def test_metrics(tmp_path: Path) -> None:
    gauges = Gauges()
    manager = Broker(tmp_path / "x", tmp_path / "y", metrics=gauges).start()
    log = new(manager, A0)
    for i in range(30):
        append(log, b"%d" % i)

    def value(*key: str) -> float:
        return gauges.found[key]()

    tags = ("partition=0", "topic=a")
    assert value("Log", "LogEndOffset", *tags) == 30
    assert value("Log", "LogStartOffset", *tags) == 0
    assert value("Log", "NumLogSegments", *tags) == log.number_of_segments > 1
    assert value("Log", "Size", *tags) == log.size
    flushes = gauges.times[("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")].values
    before = len(flushes)
    log.flush()
    log.flush()  # nothing to do
    assert len(flushes) == before + 1 == log.number_of_segments
    assert all(took >= 0 for took in flushes)
    assert value("LogManager", "OfflineLogDirectoryCount") == 0
    manager.handle_log_dir_failure(log.parent_dir)
    assert value("LogManager", "OfflineLogDirectoryCount") == 1
    assert value("LogManager", "LogDirectoryOffline", f"logDirectory={log.parent_dir}") == 1
    assert not any(key[0] == "Log" for key in gauges.found)


def test_progress_of_a_long_recovery(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Lines with a percentage, and gauges of what is left."""
    manager = Broker(tmp_path).start()
    for partition in range(4):
        log = new(manager, TopicPartition("t", partition))
        for i in range(30):
            append(log, b"%d" % i)
    crash(manager)
    gauges = Gauges()
    broker = Broker(tmp_path, metrics=gauges)
    left: list[float] = []
    ticks = broker.clock.monotonic_ms

    def slow() -> int:
        # Every look at the clock takes two seconds.
        broker.clock.advance(2000)
        left.append(gauges.found[("LogManager", "remainingLogsToRecover", f"dir={tmp_path}")]())
        return ticks()

    broker.clock.monotonic_ms = slow  # type: ignore[method-assign]
    with caplog.at_level("INFO", logger="log.management.log_dir_loading"):
        broker.start()
    percentages = [int(m) for line in caplog.messages for m in re.findall(r"recovered (\d+)%", line)]
    assert len(percentages) > 2
    assert percentages == sorted(percentages)
    assert 0 < percentages[0] < 100
    assert left[0] == 4
    assert gauges.found[("LogManager", "remainingLogsToRecover", f"dir={tmp_path}")]() == 0
    assert gauges.found[("LogManager", "remainingSegmentsToRecover", f"dir={tmp_path}", "threadNum=0")]() == 0
