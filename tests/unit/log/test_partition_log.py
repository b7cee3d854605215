from __future__ import annotations

import errno
import gc
import os
import shutil
from pathlib import Path

import pytest

from log.append_info import LogAppendInfo
from log.appends import append_as_follower, append_as_leader
from log.config import LogConfig
from log.errors import (
    InconsistentTopicIdError,
    LogError,
    OffsetOutOfRangeError,
    OffsetsOutOfOrderError,
    RecordBatchTooLargeError,
    StorageError,
    UnexpectedAppendOffsetError,
)
from log.fetch_data import FetchIsolation
from log.files.segment import LogSegment
from log.offset_metadata import LogOffsetMetadata
from log.partition_log import PartitionLog
from log.producer_entry import VerificationGuard
from log.records.record import ControlType, EndTxnMarker, build_end_txn_marker
from log.records.validation import AppendOrigin
from log.truncation import truncate_fully_and_start_at, truncate_to
from tests.unit.log.harness import Harness, append, batch, contents, segment_bases


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


@pytest.fixture
def log(harness: Harness) -> PartitionLog:
    return harness.open()


def values(count: int, start: int = 0) -> list[bytes]:
    return [b"value %d" % i for i in range(start, start + count)]


def test_offsets_are_given_and_read_back(log: PartitionLog) -> None:
    info = append(log, b"a", b"b", epoch=3)
    assert (info.first_offset, info.last_offset, info.message_count) == (0, 1, 2)
    assert append(log, b"c", epoch=3).first_offset == 2
    assert log.log_end_offset == 3
    assert contents(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert log.latest_epoch == 3
    assert log.end_offset_for_epoch(3) == (3, 3)


def test_a_read_is_a_range_of_the_file(log: PartitionLog) -> None:
    append(log, b"a")
    append(log, b"b")
    info = log.read(0, 10_000)
    assert os.pread(info.records.fd, info.records.size, info.records.position) == info.records.read()
    assert info.fetch_offset_metadata == LogOffsetMetadata(0, 0, 0)
    info.records.release()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_read_without_a_descriptor_is_no_failure_of_the_disk(
    harness: Harness, log: PartitionLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    append(log, b"a")

    def fails(*_: object, **__: object) -> None:
        raise OSError(code, "no descriptor")

    with monkeypatch.context() as patched:
        patched.setattr(type(log.local), "read", fails)
        for read in (lambda: contents(log), lambda: log.reading(fails)):
            with pytest.raises(StorageError, match="no descriptor"):
                read()
        assert harness.failures == []
        assert len(caplog.records) == 1
        code = errno.EIO
        with pytest.raises(StorageError):
            contents(log)
        assert len(harness.failures) == 1
    assert contents(log) == [(0, b"a")]


def test_segments_roll_and_reads_do_not_cross_them(harness: Harness, log: PartitionLog) -> None:
    for value in values(40):
        append(log, value)
    bases = segment_bases(log)
    assert len(bases) > 3
    assert contents(log) == list(enumerate(values(40)))
    first = log.read(0, 1 << 20)
    assert first.records.size == log.segments[0].size
    for base in bases[:-1]:
        assert log.segments[0].offset_index.length == log.segments[0].offset_index.used_bytes
        assert (harness.partition_dir / f"{base:020d}.timeindex").stat().st_size >= 12


def test_the_size_is_that_of_all_files(harness: Harness, log: PartitionLog) -> None:
    """After each append, and each change of which segments there are."""

    def files() -> int:
        return sum(path.stat().st_size for path in harness.partition_dir.glob("*.log"))

    for value in values(40):
        append(log, value)
        assert log.size == files()
    truncate_to(log, segment_bases(log)[2] + 1)
    assert log.size == files() > 0
    append(log, b"after")
    assert log.size == files()
    truncate_fully_and_start_at(log, 7)
    assert log.size == 0


def test_segments_that_are_gone_are_not_held_by_their_sizes(harness: Harness, log: PartitionLog) -> None:
    for value in values(40):
        append(log, value)
    assert log.size > 0
    truncate_fully_and_start_at(log, 7)
    assert log.size == 0
    harness.tick(log.config.file_delete_delay_ms)
    gc.collect()
    there = [each for each in gc.get_objects() if isinstance(each, LogSegment) and each.path.startswith(log.directory)]
    assert there == log.segments


def test_limits_of_a_read(log: PartitionLog) -> None:
    for value in values(5):
        append(log, value)
    size = log.read(0, 1 << 20).records.size // 5
    assert log.read(0, size + 3).records.size == size + 3
    assert log.read(0, 10).records.size == 10
    assert log.read(0, 10).first_entry_incomplete
    assert log.read(0, 10, min_one_message=True).records.size == size
    assert log.read(3, 1 << 20).records.size == 2 * size
    assert log.read(5, 1 << 20).records.size == 0
    for offset in (-1, 6):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, 10)


def test_isolation_levels(log: PartitionLog) -> None:
    for value in values(40):
        append(log, value)
    assert log.read(0, 1 << 20, FetchIsolation.HIGH_WATERMARK).records.size == 0
    log.update_high_watermark(7)
    assert [o for o, _ in contents(log, isolation=FetchIsolation.HIGH_WATERMARK)] == list(range(7))
    assert log.read(7, 100, FetchIsolation.HIGH_WATERMARK).records.size == 0
    assert log.read(20, 100, FetchIsolation.HIGH_WATERMARK).records.size == 0
    assert log.update_high_watermark(1000) == 40
    assert [o for o, _ in contents(log, isolation=FetchIsolation.HIGH_WATERMARK)] == list(range(40))
    assert log.high_watermark_metadata == log.log_end_offset_metadata


def test_maybe_increment_high_watermark(log: PartitionLog) -> None:
    for value in values(3):
        append(log, value)
    old = log.maybe_increment_high_watermark(LogOffsetMetadata(2, 0, 100))
    assert old is not None
    assert old.message_offset == 0
    assert log.maybe_increment_high_watermark(LogOffsetMetadata(1, 0, 50)) is None
    assert log.high_watermark == 2
    with pytest.raises(LogError):
        log.maybe_increment_high_watermark(LogOffsetMetadata(4, 0, 500))


def test_a_writable_buffer_is_changed_in_place_and_bytes_are_not(log: PartitionLog) -> None:
    data = batch(b"x")
    append_as_leader(log, memoryview(data), 5)
    frozen = bytes(batch(b"y"))
    append_as_leader(log, frozen, 5)
    assert data[12:16] == b"\0\0\0\5"
    assert frozen[:8] == bytes(8)
    assert frozen[12:16] == b"\xff\xff\xff\xff"
    assert contents(log) == [(0, b"x"), (1, b"y")]


def test_too_large_for_a_segment(log: PartitionLog) -> None:
    with pytest.raises(RecordBatchTooLargeError):
        append(log, b"x" * 1000)
    assert log.log_end_offset == 0


# ---- follower


def leader_bytes(harness: Harness, tmp_path: Path, count: int, epoch: int = 0) -> bytes:
    leader = Harness(tmp_path / "leader", harness.config).open()
    for value in values(count):
        append(leader, value, epoch=epoch)
    data = b"".join(s.records.range(0, s.size).read() for s in leader.segments)
    leader.close()
    return data


def test_follower_copies_bytes(harness: Harness, log: PartitionLog, tmp_path: Path) -> None:
    data = leader_bytes(harness, tmp_path, 5, epoch=4)
    info = append_as_follower(log, data + b"\0\0\0")
    assert (info.first_offset, info.last_offset, info.valid_bytes) == (0, 4, len(data))
    assert log.read(0, 1 << 20).records.read() == data
    assert log.latest_epoch == 4
    with pytest.raises(UnexpectedAppendOffsetError) as error:
        append_as_follower(log, data)
    assert (error.value.first_offset, error.value.last_offset) == (0, 4)
    assert append_as_follower(log, b"").message_count == 0


def test_follower_refuses_offsets_out_of_order(harness: Harness, log: PartitionLog, tmp_path: Path) -> None:
    data = leader_bytes(harness, tmp_path, 2)
    half = len(data) // 2
    with pytest.raises(OffsetsOutOfOrderError):
        append_as_follower(log, data[half:] + data[:half])
    assert log.log_end_offset == 0


# ---- truncation


@pytest.mark.parametrize("target", [0, 1, 7, 20, 39])
def test_truncate_and_go_on(harness: Harness, log: PartitionLog, target: int) -> None:
    for value in values(40):
        append(log, value, epoch=1)
    log.update_high_watermark(40)
    assert truncate_to(log, target)
    assert log.log_end_offset == target
    assert log.high_watermark == target
    assert contents(log) == list(enumerate(values(target)))
    for value in values(40 - target, target):
        append(log, value, epoch=2)
    assert contents(log) == list(enumerate(values(40)))
    assert log.end_offset_for_epoch(1) == ((1, target) if target else (1, 0))
    harness.stop(log)
    assert contents(harness.open()) == list(enumerate(values(40)))


def test_truncate_at_or_beyond_the_end_does_nothing(log: PartitionLog) -> None:
    append(log, b"a")
    assert not truncate_to(log, 1)
    assert not truncate_to(log, 5)
    with pytest.raises(ValueError, match="negative"):
        truncate_to(log, -1)
    assert log.log_end_offset == 1


def test_truncate_into_a_batch_drops_all_of_it(log: PartitionLog) -> None:
    append(log, b"a")
    append(log, b"b", b"c", b"d")
    truncate_to(log, 2)
    assert log.log_end_offset == 2
    assert contents(log) == [(0, b"a")]


def test_truncate_fully(harness: Harness, log: PartitionLog) -> None:
    for value in values(40):
        append(log, value)
    truncate_fully_and_start_at(log, 100)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (100, 100, 100)
    assert segment_bases(log) == [100]
    assert append(log, b"x").first_offset == 100
    truncate_fully_and_start_at(log, 200, 150)
    assert (log.log_start_offset, log.log_end_offset) == (150, 200)
    harness.tick(60_000)
    assert sorted(p.name for p in harness.partition_dir.glob("*.log")) == [f"{200:020d}.log"]
    assert not list(harness.partition_dir.glob("*.deleted"))


def test_truncated_segments_wait_for_their_deletion(harness: Harness, log: PartitionLog) -> None:
    for value in values(40):
        append(log, value)
    held = log.read(segment_bases(log)[-1], 1 << 20)
    data = held.records.read()
    truncate_to(log, 0)
    assert list(harness.partition_dir.glob("*.log.deleted"))
    harness.tick(60_000)
    assert not list(harness.partition_dir.glob("*.deleted"))
    assert held.records.read() == data
    held.records.release()


# ---- log start offset


def test_log_start_offset(log: PartitionLog) -> None:
    for value in values(10):
        append(log, value)
    with pytest.raises(OffsetOutOfRangeError):
        log.maybe_increment_log_start_offset(1, "test")
    log.update_high_watermark(8)
    assert log.maybe_increment_log_start_offset(5, "test")
    assert not log.maybe_increment_log_start_offset(5, "test")
    assert not log.maybe_increment_log_start_offset(3, "test")
    assert log.log_start_offset == 5
    with pytest.raises(OffsetOutOfRangeError):
        log.read(4, 100)
    assert contents(log)[0] == (5, b"value 5")


# ---- clean stop and start


def test_clean_stop_and_start(harness: Harness, log: PartitionLog) -> None:
    for value in values(40):
        append(log, value, epoch=2)
    harness.stop(log)
    for name in os.listdir(harness.partition_dir):
        size = (harness.partition_dir / name).stat().st_size
        if name.endswith(".index"):
            assert size % 8 == 0
            assert size < 200
        if name.endswith(".timeindex"):
            assert size % 12 == 0
            assert 12 <= size < 200
    again = harness.open()
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 40, 40)
    assert again.latest_epoch == 2
    assert contents(again) == list(enumerate(values(40)))
    assert append(again, b"next", epoch=2).first_offset == 40


def test_log_start_offset_from_the_checkpoint(harness: Harness, log: PartitionLog) -> None:
    for value in values(40):
        append(log, value)
    harness.stop(log)
    assert harness.open(log_start_offset=25).log_start_offset == 25
    empty = harness.open(log_start_offset=70)
    assert (empty.log_start_offset, empty.log_end_offset) == (70, 70)
    assert segment_bases(empty) == [70]


def test_topic_id(harness: Harness, log: PartitionLog) -> None:
    log.assign_topic_id(b"0123456789abcdef")
    log.assign_topic_id(b"0123456789abcdef")
    with pytest.raises(InconsistentTopicIdError):
        log.assign_topic_id(b"x" * 16)
    append(log, b"a")
    assert (harness.partition_dir / "partition.metadata").read_text() == "version: 0\ntopic_id: MDEyMzQ1Njc4OWFiY2RlZg"
    harness.stop(log)
    assert harness.open().topic_id == b"0123456789abcdef"


# ---- producers


def produce(
    log: PartitionLog,
    sequence: int,
    *found: bytes,
    epoch: int = 0,
    pid: int = 7,
    transactional: bool = False,
    guard: VerificationGuard | None = None,
) -> LogAppendInfo:
    data = batch(*found, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)
    return append_as_leader(log, data, 0, verification_guard=guard)


def end_txn(log: PartitionLog, kind: ControlType, pid: int = 7, epoch: int = 0) -> LogAppendInfo:
    marker = build_end_txn_marker(pid, epoch, EndTxnMarker(kind, 0), log.env.clock.wall_ms())
    return append_as_leader(log, marker, 0, AppendOrigin.COORDINATOR)


def test_duplicates_are_answered_with_the_first_offsets(harness: Harness, log: PartitionLog) -> None:
    append(log, b"other")
    assert produce(log, 0, b"a", b"b").first_offset == 1
    assert produce(log, 2, b"c").first_offset == 3
    again = produce(log, 0, b"a", b"b")
    assert (again.duplicate, again.first_offset, again.last_offset) == (True, 1, 2)
    assert log.log_end_offset == 4
    harness.stop(log)
    reopened = harness.open()
    assert produce(reopened, 2, b"c").duplicate


def test_transactions_bound_the_last_stable_offset(harness: Harness, log: PartitionLog) -> None:
    def verified() -> VerificationGuard | None:
        return log.maybe_start_transaction_verification(7, 0, 0)

    append(log, b"plain")
    produce(log, 0, b"t0", transactional=True, guard=verified())
    assert verified() is None
    append(log, b"plain")
    log.update_high_watermark(3)
    assert (log.last_stable_offset, log.last_stable_offset_lag) == (1, 2)
    end_txn(log, ControlType.ABORT)
    assert log.last_stable_offset == 1
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4
    info = log.read(0, 1 << 20, FetchIsolation.TXN_COMMITTED)
    assert info.aborted_transactions is not None
    assert [
        (t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset) for t in info.aborted_transactions
    ] == [(7, 1, 3, 4)]
    assert log.read(4, 100, FetchIsolation.TXN_COMMITTED).aborted_transactions == []
    assert log.read(0, 100, FetchIsolation.HIGH_WATERMARK).aborted_transactions is None
    # The same from the disk alone, with and without the snapshot.
    shutil.copytree(harness.partition_dir, harness.directory / "saved")
    for clean in (True, False):
        other = Harness(harness.directory / f"copy-{clean}")
        other.directory.mkdir()
        shutil.copytree(harness.directory / "saved", other.partition_dir)
        copy = other.open(clean=False)
        copy.update_high_watermark(4)
        assert copy.read(0, 1 << 20, FetchIsolation.TXN_COMMITTED).aborted_transactions == info.aborted_transactions
        assert [p.producer_id for p in copy.active_producers()] == [7]


def test_a_transaction_that_is_cut_off_bounds_nothing_any_more(harness: Harness, log: PartitionLog) -> None:
    append(log, b"plain")
    guard = log.maybe_start_transaction_verification(7, 0, 0)
    produce(log, 0, b"t0", transactional=True, guard=guard)
    log.update_high_watermark(2)
    assert log.last_stable_offset == 1
    truncate_to(log, 1)
    for _ in range(2):
        append(log, b"plain")
        log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 3


def test_open_transaction_survives_a_restart(harness: Harness, log: PartitionLog) -> None:
    guard = log.maybe_start_transaction_verification(7, 0, 0)
    produce(log, 0, b"t0", transactional=True, guard=guard)
    append(log, b"plain")
    harness.stop(log)
    again = harness.open()
    again.update_high_watermark(2)
    assert again.last_stable_offset == 0
    end_txn(again, ControlType.COMMIT)
    again.update_high_watermark(3)
    assert again.last_stable_offset == 3


# ---- rolling


def test_roll_by_record_time(tmp_path: Path) -> None:
    harness = Harness(tmp_path, LogConfig(segment_ms=1000, segment_index_bytes=1200))
    log = harness.open()
    append(log, b"a", timestamp=5_000)
    append(log, b"b", timestamp=6_000)
    assert segment_bases(log) == [0]
    append(log, b"c", timestamp=6_001)
    assert segment_bases(log) == [0, 2]
    harness.stop(log)
    log = harness.open()
    append(log, b"d", timestamp=7_001)
    append(log, b"e", timestamp=7_002)
    assert segment_bases(log) == [0, 2, 4]


def test_roll_by_wall_time_without_timestamps(tmp_path: Path) -> None:
    harness = Harness(tmp_path, LogConfig(segment_ms=1000, segment_index_bytes=1200))
    log = harness.open()
    append(log, b"a", timestamp=-1)
    harness.tick(1000)
    append(log, b"b", timestamp=-1)
    harness.tick(1)
    append(log, b"c", timestamp=-1)
    assert segment_bases(log) == [0, 2]


def test_roll_when_an_index_is_full(tmp_path: Path) -> None:
    harness = Harness(tmp_path, LogConfig(segment_index_bytes=24, index_interval_bytes=1))
    log = harness.open()
    for i in range(6):
        append(log, b"x", timestamp=1000 + i)
    assert len(segment_bases(log)) > 1
    assert contents(log) == [(i, b"x") for i in range(6)]


def test_roll_flushes_the_old_segment_in_the_background(harness: Harness, log: PartitionLog) -> None:
    for value in values(40):
        append(log, value)
    harness.tick()
    assert log.recovery_point == segment_bases(log)[-1]
    assert (harness.partition_dir / f"{segment_bases(log)[-1]:020d}.snapshot").exists()


def test_flush_by_messages(tmp_path: Path) -> None:
    log = Harness(tmp_path, LogConfig(flush_messages=3, segment_index_bytes=1200)).open()
    append(log, b"a", b"b")
    assert log.recovery_point == 0
    append(log, b"c")
    assert log.recovery_point == 3


def test_preallocated_segment(tmp_path: Path) -> None:
    harness = Harness(tmp_path, LogConfig(segment_bytes=1000, preallocate=True, segment_index_bytes=1200))
    log = harness.open()
    for value in values(3):
        append(log, value)
    path = harness.partition_dir / f"{0:020d}.log"
    assert path.stat().st_size == 1000
    assert contents(log) == list(enumerate(values(3)))
    for value in values(20, 3):
        append(log, value)
    assert path.stat().st_size == log.segments[0].size
    harness.stop(log)
    assert contents(harness.open()) == list(enumerate(values(23)))


def test_only_what_was_written_is_synced(harness: Harness, log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop of an idle log costs no fsync; a written one is durable before the stop ends."""
    append(log, b"a")
    synced: list[str] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    monkeypatch.setattr("os.fsync", watched)
    harness.stop(log)
    assert f"{0:020d}.log" in synced
    assert f"{0:020d}.timeindex" in synced
    assert f"{1:020d}.snapshot" in synced
    assert harness.partition_dir.name in synced
    synced.clear()
    log = harness.open()
    harness.stop(log)
    assert synced == []
    log = harness.open()
    append(log, b"b")
    synced.clear()
    log.flush()
    assert synced == [f"{0:020d}.log"]
    log.flush()
    assert synced == [f"{0:020d}.log"]
