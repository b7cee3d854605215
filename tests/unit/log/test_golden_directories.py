"""Data directories of Apache Kafka 3.9.1, opened and closed here, file by file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from log.config import LogConfig
from log.files.checkpoint import OffsetCheckpoint
from log.files.meta_properties import read_meta_properties
from log.files.producer_snapshot import read_snapshot
from log.management.manager import LogManager
from log.records.batch import RecordBatch
from log.records.old_formats import LegacyBatch
from log.records.record import iter_records
from log.records.validation import check_for_follower
from log.topic_partition import TopicPartition
from tests.support.paths import shared_golden
from timer.chance import SystemChance
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

CONFIG = LogConfig(segment_index_bytes=8192)
SMALL_SEGMENTS = {"segment.bytes": "6000", "index.interval.bytes": "400"}
TOPICS = dict.fromkeys(("golden", "compact"), SMALL_SEGMENTS)
CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")


def open_copy(folder: str, tmp_path: Path) -> tuple[Path, Path, LogManager]:
    """(golden data, copy, manager over the copy), at the time of the capture."""
    golden = shared_golden() / "log" / folder / "data"
    data = tmp_path / "data"
    shutil.copytree(golden, data)
    properties = read_meta_properties(data)
    assert properties is not None
    clock = ManualClock(start_wall_ms=latest_timestamp(golden))
    manager = LogManager(
        [str(data)],
        default_config=CONFIG,
        topic_configs=lambda topic: TOPICS.get(topic, {}),
        broker_id=-1 if properties.broker_id is None else properties.broker_id,
        cluster_id=properties.cluster_id,
        clock=clock,
        scheduler=ManualScheduler(clock),
        chance=SystemChance(),
    )
    manager.startup()
    return golden, data, manager


def latest_timestamp(data: Path) -> int:
    return max(
        (
            batch.max_timestamp
            for path in data.glob("*/*.log")
            for batch in check_for_follower_quietly(path.read_bytes())
        ),
        default=0,
    )


def check_for_follower_quietly(data: bytes) -> list[RecordBatch | LegacyBatch]:
    return check_for_follower(data).batches


def files(directory: Path) -> dict[str, object]:
    """Content by name. Snapshots as sets of entries: their order is free. What waits for deletion is left out."""
    found: dict[str, object] = {}
    for path in sorted(directory.iterdir()):
        if path.suffix == ".snapshot":
            found[path.name] = sorted(map(repr, read_snapshot(path)))
        elif path.suffix != ".deleted":
            found[path.name] = path.read_bytes().hex()
    return found


def kept(found: dict[str, object], start: int, end: int) -> dict[str, object]:
    """What a start and a stop leave of `found`.

    A start drops epochs that begin at the end (the next leader notes its own), snapshots not above the log start, and,
    except the newest, snapshots of earlier stops that belong to no segment.
    """
    found = {name: content for name, content in found.items() if name[-9:] != ".snapshot" or int(name[:20]) > start}
    bases = {name[:20] for name in found if name.endswith(".log")}
    strays = sorted(name for name in found if name.endswith(".snapshot") and name[:20] not in bases)
    for name in strays[:-1]:
        del found[name]
    if "leader-epoch-checkpoint" not in found:
        # Partitions of the old formats have none; here there is always one.
        found["leader-epoch-checkpoint"] = ""
        return found
    lines = bytes.fromhex(str(found["leader-epoch-checkpoint"])).decode().splitlines()[2:]
    lines = [line for line in lines if int(line.split()[1]) < end]
    text = "\n".join(["0", str(len(lines)), *lines]) + "\n"
    found["leader-epoch-checkpoint"] = text.encode().hex()
    return found


def offsets_of(manager: LogManager) -> dict[str, tuple[int, int]]:
    """(log start offset, log end offset) by directory name."""
    return {str(log.topic_partition): (log.log_start_offset, log.log_end_offset) for log in manager.all_logs()}


def partition_dirs(data: Path) -> list[str]:
    return sorted(path.name for path in data.iterdir() if path.is_dir())


CLEAN = [
    "1_clean",
    "2_clean_after_compaction",
    "3_clean_tombstones_gone",
    "5_clean_after_recovery",
    "6_old_formats",
    "7_replicas_broker0",
    "7_replicas_broker2",
]


@pytest.mark.parametrize("folder", CLEAN)
def test_a_clean_directory_is_left_as_it_was(folder: str, tmp_path: Path) -> None:
    golden, data, manager = open_copy(folder, tmp_path)
    expected = OffsetCheckpoint(golden / "recovery-point-offset-checkpoint").read()
    marks = OffsetCheckpoint(golden / "replication-offset-checkpoint").read()
    offsets = offsets_of(manager)
    for log in manager.all_logs():
        # A clean stop has flushed everything.
        assert log.log_end_offset == expected[log.topic_partition]
        assert log.update_high_watermark(marks[log.topic_partition]) == marks[log.topic_partition]
    manager.shutdown()
    assert partition_dirs(data) == partition_dirs(golden)
    for name in partition_dirs(golden):
        assert files(data / name) == kept(files(golden / name), *offsets.get(name, (0, 0))), name
    for name in CHECKPOINTS:
        assert OffsetCheckpoint(data / name).read() == OffsetCheckpoint(golden / name).read()
    if (golden / ".kafka_cleanshutdown").exists():
        assert (data / ".kafka_cleanshutdown").read_bytes() == (golden / ".kafka_cleanshutdown").read_bytes()
    assert (data / "meta.properties").read_bytes() == (golden / "meta.properties").read_bytes()


def test_recovery_of_a_torn_directory_gives_what_kafka_makes_of_it(tmp_path: Path) -> None:
    _, data, manager = open_copy("4_unclean_torn_tail", tmp_path)
    log = manager.get_log(TopicPartition("golden", 0))
    assert log is not None
    assert log.log_end_offset == 110
    offsets = offsets_of(manager)
    manager.shutdown()
    golden = shared_golden() / "log" / "5_clean_after_recovery" / "data"
    assert partition_dirs(data) == partition_dirs(golden)
    for name in partition_dirs(golden):
        assert files(data / name) == kept(files(golden / name), *offsets.get(name, (0, 0))), name
    for name in CHECKPOINTS:
        assert OffsetCheckpoint(data / name).read() == OffsetCheckpoint(golden / name).read()


@pytest.mark.parametrize("folder", ["1_clean", "5_clean_after_recovery", "6_old_formats", "7_replicas_broker0"])
def test_recovery_rebuilds_the_files_that_kafka_wrote(folder: str, tmp_path: Path) -> None:
    """Without indexes, marker and recovery points, everything is rebuilt from the logs."""
    golden = shared_golden() / "log" / folder / "data"
    saved = tmp_path / "data"
    shutil.copytree(golden, saved)
    (saved / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (saved / "recovery-point-offset-checkpoint").write_text("")
    properties = read_meta_properties(saved)
    assert properties is not None
    clock = ManualClock(start_wall_ms=latest_timestamp(golden))
    manager = LogManager(
        [str(saved)],
        default_config=CONFIG,
        topic_configs=lambda topic: TOPICS.get(topic, {}),
        broker_id=-1 if properties.broker_id is None else properties.broker_id,
        cluster_id=properties.cluster_id,
        clock=clock,
        scheduler=ManualScheduler(clock),
        chance=SystemChance(),
    )
    for path in saved.glob("*-[0-9]/*index"):
        path.write_bytes((b"\0" if path.suffix == ".txnindex" else b"\xff") * 100)
    manager.startup()
    offsets = offsets_of(manager)
    manager.shutdown()
    for name in partition_dirs(golden):
        ours, theirs = files(saved / name), kept(files(golden / name), *offsets.get(name, (0, 0)))
        for kind in (".log", ".txnindex", "-checkpoint", ".metadata"):
            assert _only(ours, kind) == _only(theirs, kind), (name, kind)
        last = max(n for n in ours if n.endswith(".timeindex"))
        for file in [n for n in ours if n.endswith((".timeindex", ".index"))]:
            # Recovery may place sparse entries elsewhere, but the closing entry is the segment's largest timestamp.
            if file.endswith(".timeindex") and file != last:
                assert str(ours[file])[-24:] == str(theirs[file])[-24:], (name, file)


def _only(found: dict[str, object], suffix: str) -> dict[str, object]:
    return {name: content for name, content in found.items() if name.endswith(suffix)}


@pytest.mark.parametrize("folder", CLEAN)
def test_every_record_is_served(folder: str, tmp_path: Path) -> None:
    """The records of a partition, read as a consumer does, are those of the files."""
    golden, _, manager = open_copy(folder, tmp_path)
    seen = 0
    for log in manager.all_logs():
        expected = [
            (record.offset, record.value)
            for path in sorted((golden / str(log.topic_partition)).glob("*.log"))
            for batch in check_for_follower(path.read_bytes()).batches
            for record in iter_records(batch)
            if record.offset >= log.log_start_offset
        ]
        found, offset = [], log.log_start_offset
        while offset < log.log_end_offset:
            info = log.read(offset, 1500, min_one_message=True)
            batches = check_for_follower(info.records.read()).batches
            info.records.release()
            if not batches:
                break
            found += [(r.offset, r.value) for b in batches for r in iter_records(b) if r.offset >= offset]
            offset = batches[-1].last_offset + 1
        assert found == expected, log
        seen += len(found)
    assert seen > 0
