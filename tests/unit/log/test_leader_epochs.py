"""When leader epochs, and the name of a new directory, get to the disk: before anything that rests on them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from log import local_log, partition_log
from log.errors import StorageError
from log.files import checkpoint
from log.leader_epoch import LeaderEpochCache, leader_epoch_checkpoint
from log.partition_log import PartitionLog
from log.truncation import truncate_fully_and_start_at, truncate_to
from tests.unit.log.harness import Harness, append


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def opened(harness: Harness) -> PartitionLog:
    """A log whose background work is done when the test says so; that of a manual scheduler is done at once."""
    log = harness.open()
    log.leader_epoch_cache.defer = lambda: None
    return log


def stored(harness: Harness) -> list[tuple[int, int]]:
    """What the file says."""
    return [tuple(entry) for entry in LeaderEpochCache(leader_epoch_checkpoint(harness.partition_dir)).entries]  # type: ignore[misc]


def test_a_new_epoch_is_written_soon(harness: Harness) -> None:
    log = harness.open()
    log.maybe_assign_epoch_start_offset(4, 0)
    assert log.latest_epoch == 4
    assert stored(harness) == [(4, 0)]


def test_epochs_are_written_before_what_rests_on_them(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery reads batches from the recovery point on only, so what is below has to be in the file."""
    log = opened(harness)
    append(log, b"a", epoch=4)
    order: list[str] = []
    replace, flush = checkpoint.replace_file, local_log.LocalLog.mark_flushed

    def noted_replace(path: str, data: bytes, *, sync: bool, sync_name: bool | None) -> None:
        assert sync
        assert sync_name is None
        order.append("epochs")
        replace(path, data)

    def noted_flush(local: local_log.LocalLog, offset: int) -> None:
        order.append("flushed")
        flush(local, offset)

    monkeypatch.setattr(checkpoint, "replace_file", noted_replace)
    monkeypatch.setattr(local_log.LocalLog, "mark_flushed", noted_flush)
    log.flush()
    assert order == ["epochs", "flushed"]
    assert stored(harness) == [(4, 0)]


def test_a_crash_before_that_loses_no_epoch_of_a_batch(harness: Harness) -> None:
    log = opened(harness)
    append(log, b"a", epoch=4)
    append(log, b"b", b"c", epoch=6)
    log.close_handles()
    assert stored(harness) == []
    again = harness.open(clean=False)
    assert [tuple(entry) for entry in again.leader_epoch_cache.entries] == [(4, 0), (6, 1)]


def test_background_work_syncs_nothing_and_a_flush_still_does(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(harness)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    log.maybe_assign_epoch_start_offset(4, 0)
    log.store_leader_epochs()
    assert stored(harness) == [(4, 0)]
    assert not synced
    assert not log.leader_epoch_cache.is_dirty
    log.flush_leader_epochs()
    assert len(synced) == 2  # file and name
    log.flush_leader_epochs()
    assert len(synced) == 2


def test_a_clean_stop_writes_them(harness: Harness) -> None:
    log = opened(harness)
    append(log, b"a", epoch=4)
    log.maybe_assign_epoch_start_offset(5, 1)
    harness.stop(log)
    assert stored(harness) == [(4, 0), (5, 1)]


def test_a_log_that_is_deleted_meanwhile_writes_nothing(harness: Harness) -> None:
    log = opened(harness)
    log.maybe_assign_epoch_start_offset(4, 0)
    log.metadata_dirty, log.topic_id = True, b"1" * 16
    log.delete()
    log.store_leader_epochs()
    log.flush_leader_epochs()
    log.maybe_flush_metadata_file()
    assert harness.failures == []
    assert not harness.partition_dir.exists()


def test_a_disk_that_fails_is_reported(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(harness)
    log.maybe_assign_epoch_start_offset(4, 0)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "replace_file", full)
    for write in (log.store_leader_epochs, log.flush_leader_epochs):
        with pytest.raises(StorageError, match="No space left"):
            write()
    assert len(harness.failures) == 2
    assert log.leader_epoch_cache.is_dirty


def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are synced from now on."""
    synced: list[str] = []
    really = os.fsync

    def noted(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        really(fd)

    monkeypatch.setattr(os, "fsync", noted)
    return synced


def test_epochs_of_flushed_records_are_not_replaced_by_what_may_be_lost(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is renamed over another before its content is on the disk may be empty after a crash of the machine,
    and recovery does not read what was flushed."""
    log = opened(harness)
    append(log, b"a", b"b", epoch=4)
    log.flush()
    synced = syncs(monkeypatch)
    log.maybe_assign_epoch_start_offset(5, 2)
    log.store_leader_epochs()
    assert synced == ["leader-epoch-checkpoint.tmp"]
    harness.stop(log)
    synced.clear()
    again = harness.open(recovery_point=2)  # no record is of epoch 5
    assert [tuple(entry) for entry in again.leader_epoch_cache.entries] == [(4, 0)]
    assert synced == ["leader-epoch-checkpoint.tmp"]


def test_a_log_that_nobody_has_used_is_stopped_and_started_without_a_sync(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of new partitions do not keep a broker from stopping."""
    log = harness.open()
    log.maybe_assign_epoch_start_offset(4, 0)
    synced = syncs(monkeypatch)
    harness.stop(log)
    again = harness.open()
    assert synced == []
    assert again.log_end_offset == 0
    harness.stop(again)
    assert synced == []


@pytest.mark.parametrize("is_recovered", [False, True])
def test_the_name_of_a_snapshot_is_synced_by_a_clean_stop(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, is_recovered: bool
) -> None:
    """A clean start that finds no snapshot takes it that there were no producers: their batches could be doubled."""
    log = harness.open()
    append(log, b"a", producer_id=1, producer_epoch=0, base_sequence=0)
    log.flush()
    if is_recovered:
        log.close_handles()
        log = harness.open(clean=False)  # writes the snapshot, and does not sync it
    synced = syncs(monkeypatch)
    harness.stop(log)
    name = "00000000000000000001.snapshot"
    assert harness.partition_dir.name in synced[synced.index(name) :]
    synced.clear()
    harness.stop(harness.open())
    assert not {name, harness.partition_dir.name} & set(synced), "once is enough"


@pytest.mark.parametrize(
    ("used", "empty", "end"),
    [(True, truncate_to, 0), (True, truncate_fully_and_start_at, 0), (False, truncate_fully_and_start_at, 7)],
)
def test_a_log_that_was_emptied_is_not_one_of_these(
    harness: Harness,
    monkeypatch: pytest.MonkeyPatch,
    used: bool,
    empty: Callable[[PartitionLog, int], object],
    end: int,
) -> None:
    """The name of its segment tells its offset, and what was cut may have been on the disk."""
    log = harness.open()
    if used:
        append(log, b"a", epoch=4)
    empty(log, end)
    synced = syncs(monkeypatch)
    harness.stop(log)
    assert f"{end:020}.log" in synced
    assert harness.open().log_end_offset == end


def test_the_name_of_a_new_directory_is_synced_once_and_first(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of partitions that are made at once do not wait for the log directory, one after the other."""
    synced: list[str] = []
    really = checkpoint.fsync_directory

    def noted(path: str | os.PathLike[str]) -> None:
        synced.append(os.fspath(path))
        really(path)

    for module in (checkpoint, local_log, partition_log):
        monkeypatch.setattr(module, "fsync_directory", noted)
    log = harness.open()
    assert synced == []
    append(log, b"a")
    log.flush()
    parent, own = str(harness.directory), str(harness.partition_dir)
    assert synced.count(parent) == 1
    assert synced.index(parent) < len(synced) - 1 - synced[::-1].index(own)
    append(log, b"b")
    log.flush()
    assert synced.count(parent) == 1
    log.close()
    synced.clear()
    append(harness.open(), b"c")
    assert parent not in synced


def test_the_name_of_a_directory_that_a_killed_process_left_is_synced_by_the_next(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = harness.open()
    append(log, b"a")
    log.close_handles()
    again = harness.open(clean=False)
    synced = syncs(monkeypatch)
    again.flush()
    assert harness.directory.name in synced
    again.close_handles()
    synced.clear()
    known = harness.open(clean=False, recovery_point=1)
    append(known, b"b")
    known.flush()
    assert harness.directory.name not in synced
