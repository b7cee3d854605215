from __future__ import annotations

import os
from pathlib import Path

import pytest

from log.errors import (
    StorageError,
)
from tests.unit.log.harness import append, contents
from tests.unit.log.management.manager_harness import A0, A1, B0, Broker, new


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
