from __future__ import annotations

import os
from pathlib import Path

import pytest

from log.appends import append_as_follower, append_as_leader
from log.errors import (
    InconsistentMetadataError,
    InconsistentTopicIdError,
    LogDirNotFoundError,
    LogError,
    StorageError,
)
from log.management.log_dir import LogDirLockedError
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from tests.unit.log.harness import append, contents
from tests.unit.log.management.manager_harness import A0, B0, Broker, crash, new


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
