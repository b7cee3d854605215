"""The high watermark checkpoint: a directory whose file fails is reported, the others are written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.replication.log_dirs.high_watermarks import HighWatermarkCheckpoints
from log.files.checkpoint import OffsetCheckpoint
from log.topic_partition import TopicPartition


@pytest.fixture
def manager(tmp_path: Path) -> Any:
    """Two directories; `bad` is none any more."""
    for name in ("bad", "good"):
        (tmp_path / name).mkdir()
    checkpoints = {str(tmp_path / name): OffsetCheckpoint(tmp_path / name / "c", name) for name in ("bad", "good")}
    (tmp_path / "bad").rmdir()
    (tmp_path / "bad").write_text("")
    failures: list[str] = []
    return SimpleNamespace(
        high_watermark_checkpoints=checkpoints,
        failures=failures,
        report_failure=lambda directory, message: failures.append(directory),
        get_log=lambda tp: None,
    )


def test_a_file_that_cannot_be_written_fails_its_directory(tmp_path: Path, manager: Any) -> None:
    partitions: list[Any] = [
        SimpleNamespace(
            topic_partition=TopicPartition(name, 0),
            log=SimpleNamespace(parent_dir=str(tmp_path / name), high_watermark=7),
            future_log=None,
        )
        for name in ("bad", "good")
    ]
    HighWatermarkCheckpoints(manager).write(partitions)
    assert manager.failures == [str(tmp_path / "bad")]
    assert OffsetCheckpoint(tmp_path / "good" / "c").read() == {TopicPartition("good", 0): 7}


def test_a_file_that_cannot_be_read_fails_its_directory(tmp_path: Path, manager: Any) -> None:
    (tmp_path / "good" / "c").write_text("no checkpoint")
    for name in ("bad", "good"):
        log: Any = SimpleNamespace(parent_dir=str(tmp_path / name))
        assert HighWatermarkCheckpoints(manager).initial(log, TopicPartition("t", 0)) == 0
    assert manager.failures == [str(tmp_path / "bad"), str(tmp_path / "good")]
