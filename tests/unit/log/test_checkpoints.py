from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.config import LogConfig
from log.errors import CorruptCheckpointError, StorageError
from log.files.checkpoint import OffsetCheckpoint, replace_file
from log.leader_epoch import EpochEntry, LeaderEpochCache, leader_epoch_checkpoint
from log.topic_partition import TopicPartition
from tests.unit.log.golden import SMALL


def test_golden_checkpoints() -> None:
    data = SMALL / "1_clean" / "data"
    assert OffsetCheckpoint(data / "log-start-offset-checkpoint").read() == {TopicPartition("trimmed", 0): 13}
    assert OffsetCheckpoint(data / "cleaner-offset-checkpoint").read() == {}
    recovery = OffsetCheckpoint(data / "recovery-point-offset-checkpoint").read()
    assert len(recovery) == 12
    assert recovery[TopicPartition("golden", 0)] == 89
    cache = LeaderEpochCache(leader_epoch_checkpoint(data / "golden-0"))
    assert cache.entries == [EpochEntry(0, 0)]


def test_written_text(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(tmp_path / "c")
    assert checkpoint.read() == {}
    checkpoint.create_if_absent()
    assert checkpoint.read() == {}
    checkpoint.write({})
    assert (tmp_path / "c").read_text() == "0\n0\n"
    checkpoint.write({TopicPartition("a", 0): 5, TopicPartition("b.c", 11): 2**63 - 1})
    assert (tmp_path / "c").read_text() == "0\n2\na 0 5\nb.c 11 9223372036854775807\n"
    assert checkpoint.read() == {TopicPartition("a", 0): 5, TopicPartition("b.c", 11): 2**63 - 1}
    assert os.listdir(tmp_path) == ["c"]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("1\n0\n", "line 1"),
        ("x\n0\n", "line 1"),
        ("0\nx\n", "line 2"),
        ("0\n2\na 0 5\n", "line 2"),
        ("0\n1\na 0\n", "line 3"),
        ("0\n1\na 0 5 6\n", "line 3"),
        ("0\n1\na b 5\n", "line 3"),
        ("0\n1\na 0 9223372036854775808\n", "line 3"),
        ("0\n1\na 2147483648 0\n", "line 3"),
        ("0\n1\na 0 1_0\n", "line 3"),
        (f"0\n1\na 0 {'9' * 5_000}\n", "line 3"),
        ("0\n1\na 0 5\n\n", "line 4"),
    ],
)
def test_corrupt_checkpoints_name_file_and_line(tmp_path: Path, text: str, where: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(CorruptCheckpointError) as caught:
        OffsetCheckpoint(tmp_path / "c").read()
    assert where in str(caught.value)
    assert str(tmp_path / "c") in str(caught.value)
    assert caught.value.error_name == "KAFKA_STORAGE_ERROR"


@pytest.mark.parametrize("line", ["-1 0", "0 -1", "2147483648 0", "0 9223372036854775808", "0", "0 0 0"])
def test_no_leader_epoch_is_named(tmp_path: Path, line: str) -> None:
    """As Kafka, which refuses negative ones too."""
    (tmp_path / "leader-epoch-checkpoint").write_text(f"0\n1\n{line}\n")
    with pytest.raises(CorruptCheckpointError, match="line 3"):
        LeaderEpochCache(leader_epoch_checkpoint(tmp_path))


def test_any_white_space_separates(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("0\n1\na\t 0   5\n")
    assert OffsetCheckpoint(tmp_path / "c").read() == {TopicPartition("a", 0): 5}


def test_a_failed_write_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "c"
    replace_file(path, b"old")
    (tmp_path / "c.tmp").mkdir()
    checkpoint = OffsetCheckpoint(path, log_directory="d")
    with pytest.raises(StorageError) as caught:
        checkpoint.write({})
    assert caught.value.directory == "d"
    assert path.read_bytes() == b"old"


def _cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache(None)
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


def test_assign_rules() -> None:
    cache = _cache((1, 0), (2, 10), (4, 20))
    assert not cache.assign(4, 30)
    assert cache.assign(4, 15)
    assert cache.entries == [(1, 0), (2, 10), (4, 15)]
    assert cache.assign(5, 10)
    assert cache.entries == [(1, 0), (5, 10)]
    assert cache.assign(3, 12)
    assert cache.entries == [(1, 0), (3, 12)]
    for bad in ((-1, 5), (5, -1)):
        with pytest.raises(ValueError):
            cache.assign(*bad)


def test_end_offsets() -> None:
    cache = _cache((2, 10), (4, 20), (6, 30))
    assert cache.end_offset_for(-1, 99) == (-1, -1)
    assert cache.end_offset_for(6, 99) == (6, 99)
    assert cache.end_offset_for(7, 99) == (-1, -1)
    assert cache.end_offset_for(1, 99) == (1, 10)
    assert cache.end_offset_for(3, 99) == (2, 20)
    assert cache.end_offset_for(5, 99) == (4, 30)
    assert _cache().end_offset_for(0, 99) == (-1, -1)
    assert cache.previous_epoch(6) == 4
    assert cache.previous_epoch(2) is None


def test_truncation() -> None:
    cache = _cache((2, 10), (4, 20), (6, 30))
    cache.truncate_from_end(30)
    assert cache.entries == [(2, 10), (4, 20)]
    cache.truncate_from_start(15)
    assert cache.entries == [(2, 15), (4, 20)]
    cache.truncate_from_start(25)
    assert cache.entries == [(4, 25)]
    cache.truncate_from_start(5)
    assert cache.entries == [(4, 25)]
    cache.truncate_from_end(-1)
    assert cache.entries == [(4, 25)]
    cache.clear()
    assert cache.is_empty


def test_the_epoch_file_follows(tmp_path: Path) -> None:
    cache = LeaderEpochCache(leader_epoch_checkpoint(tmp_path))
    cache.assign(0, 0)
    cache.assign(3, 120)
    path = tmp_path / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n2\n0 0\n3 120\n"
    asked: list[None] = []
    cache = LeaderEpochCache(leader_epoch_checkpoint(tmp_path))
    cache.defer = lambda: asked.append(None)
    cache.truncate_from_end(120)
    cache.assign(4, 130)
    assert len(asked) == 2
    assert path.read_text() == "0\n2\n0 0\n3 120\n"
    cache.flush()
    assert path.read_text() == "0\n2\n0 0\n4 130\n"
    assert not cache.is_dirty
    path.write_text("0\n3\n0 0\n5 100\n4 90\n")
    assert LeaderEpochCache(leader_epoch_checkpoint(tmp_path)).entries == [(0, 0), (4, 90)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=12))
def test_entries_always_increase(operations: list[tuple[int, int]]) -> None:
    cache = _cache(*operations)
    entries = cache.entries
    assert entries == sorted(entries)
    assert len({entry.epoch for entry in entries}) == len({entry.start_offset for entry in entries}) == len(entries)


def test_config_from_mapping() -> None:
    config = LogConfig.from_mapping(
        {
            "cleanup.policy": "compact, delete",
            "segment.bytes": "100",
            "min.cleanable.dirty.ratio": "0.1",
            "preallocate": "true",
            "leader.replication.throttled.replicas": "*",
        }
    )
    assert config.compact
    assert config.delete
    assert (config.segment_bytes, config.min_cleanable_dirty_ratio, config.preallocate) == (100, 0.1, True)
    assert LogConfig.from_mapping({}, config) == config
    for key, value in (
        ("segment.bytes", "x"),
        ("cleanup.policy", "keep"),
        ("cleanup.policy", "delete,"),
        ("compression.type", "brotli"),
        ("preallocate", "yes"),
    ):
        with pytest.raises(ValueError, match=key):
            LogConfig.from_mapping({key: value})


def test_config_derived_values() -> None:
    config = LogConfig.from_mapping({"message.timestamp.difference.max.ms": "7", "max.compaction.lag.ms": "5"})
    assert (config.timestamp_before_max_ms, config.timestamp_after_max_ms) == (7, 7)
    assert config.max_segment_ms == 604_800_000
    assert LogConfig.from_mapping({"cleanup.policy": "compact"}, config).max_segment_ms == 5
    later = LogConfig.from_mapping({"message.timestamp.after.max.ms": "9"}, config)
    assert (later.timestamp_before_max_ms, later.timestamp_after_max_ms) == (7, 9)
