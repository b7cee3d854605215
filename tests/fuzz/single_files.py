"""One file and its reader at a time: every kind that a broker or the embedded ZooKeeper reads from its disk.

A log directory (`files.py`) reads the same kinds together; here each gets its share, however small it is.
"""

from __future__ import annotations

import contextlib
import random
import struct
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from broker.groups.records import keys, loader
from broker.transactions import records as transactions
from controller.zk.embedded import acls, owners, snapshots, transaction_codec
from controller.zk.embedded.frames import StoreError, frame, read_frames
from controller.zk.embedded.machine import Limits, Machine
from controller.zk.embedded.records import Acl
from controller.zk.embedded.sessions import Sessions
from controller.zk.embedded.transactions import (
    Change,
    CheckTxn,
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetAclTxn,
    SetDataTxn,
    Transaction,
)
from log.errors import LogError
from log.files.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from log.files.meta_properties import META_PROPERTIES, read_meta_properties
from log.files.offset_index import OffsetIndex
from log.files.partition_metadata import PARTITION_METADATA, PartitionMetadataFile
from log.files.producer_snapshot import read_snapshot
from log.files.time_index import TimeIndex
from log.files.txn_index import TransactionIndex
from log.leader_epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCache, leader_epoch_checkpoint
from log.producer_state import ProducerStateManager
from log.records.batch import RecordBatch
from log.records.record import Record
from log.topic_partition import TopicPartition
from network.protocol.errors import ProtocolError
from network.protocol.message import StoredPayload
from network.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from network.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from network.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from network.protocol.messages.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue
from network.protocol.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from network.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from network.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from network.protocol.messages.group_metadata_value import GroupMetadataValue
from network.protocol.messages.offset_commit_value import OffsetCommitValue
from network.protocol.messages.transaction_log_key import TransactionLogKey
from network.protocol.messages.transaction_log_value import TransactionLogValue
from tests.fuzz.file_damage import damage, damage_as
from tests.fuzz.values import message
from tests.support.batches import build_batch
from tests.support.paths import GOLDEN
from timer.clock import ManualClock

_PARTITION = TopicPartition("golden", 0)
_REFUSED: tuple[type[Exception], ...] = (LogError, OSError)
_CLOCK = ManualClock(start_wall_ms=1_800_000_000_000)


def fuzz_file(directory: Path, rng: random.Random) -> None:
    """One damaged file, read as a start reads it. Raises what the reader should not have raised."""
    _KINDS[rng.choice(tuple(_KINDS))](directory, rng)


def _damaged(pattern: str, name: str | None, read: Callable[[Path], Any]) -> Callable[[Path, random.Random], None]:
    """Of one of the golden files; `name`: what it is called, unless as it was."""

    def fuzz(directory: Path, rng: random.Random) -> None:
        sample = rng.choice(_golden(pattern))
        path = directory / (name or sample.name)
        path.write_bytes(damage_as(sample.name, sample.read_bytes(), rng))
        try:
            read(path)
        except _REFUSED:
            pass
        finally:
            path.unlink(missing_ok=True)

    return fuzz


@cache
def _golden(pattern: str) -> list[Path]:
    found = sorted((GOLDEN / "log").glob(f"*/data/**/{pattern}"))
    assert found, pattern
    return found


def _producers(path: Path) -> None:
    read_snapshot(path)
    state = ProducerStateManager(_PARTITION, path.parent, _CLOCK)
    state.truncate_and_reload(0, 10**9, _CLOCK.wall_ms())
    state.remove_expired(_CLOCK.wall_ms())
    state.take_snapshot(sync=False)
    for offset in (10**9, 0):
        state.delete_snapshot(offset)


def _epochs(path: Path) -> None:
    cache_ = LeaderEpochCache(leader_epoch_checkpoint(path.parent))
    cache_.defer = lambda: None  # nothing is written back
    for epoch in (-1, 0, 5, 2**31 - 1):
        cache_.end_offset_for(epoch, 100)
    cache_.truncate_from_end(50)
    cache_.truncate_from_start(5)


def _offset_index(path: Path) -> None:
    index = OffsetIndex(str(path), 0, 8192)
    try:
        index.check(1 << 20)
        for offset in (0, 1, 100, 2**31, 2**62):
            index.upper_bound(index.lookup(offset), 1000)
        index.truncate_to(50)
    finally:
        index.close_handles()


def _time_index(path: Path) -> None:
    index = TimeIndex(str(path), 0, 8192)
    try:
        index.check()
        for timestamp in (-1, 0, 1_700_000_000_000, 2**63 - 1):
            index.lookup(timestamp)
        index.truncate_to(50)
    finally:
        index.close_handles()


def _aborted(path: Path) -> None:
    index = TransactionIndex(path, 0)
    try:
        index.check()
        for offset in (0, 20, 2**62):
            index.collect(offset, offset + 50)
        index.truncate_to(50)
    finally:
        index.close()


# -- what the broker keeps in its own topics


def _group_records(directory: Path, rng: random.Random) -> None:
    keyed = [_group_record(rng) for _ in range(rng.randrange(1, 6))]
    batch = RecordBatch(build_batch([Record(at, 0, *each, ()) for at, each in enumerate(keyed)]))
    with contextlib.suppress(ProtocolError, LogError):
        loader.load([batch], _CLOCK)


def _group_record(rng: random.Random) -> tuple[bytes | None, bytes | None]:
    group, other = (rng.choice(("g", "", "x" * 300)) for _ in range(2))
    version, value = rng.choice(_GROUP_VALUES)
    key = struct.pack(">h", version) + _short(group)
    if version in (0, 1):
        key += _short("topic") + struct.pack(">i", rng.choice((0, -1, 2**31 - 1)))
    elif version in (keys.MEMBER, keys.TARGET, keys.CURRENT, keys.REGEX):
        key += _short(other)
    data = _stored(value, rng)
    drawn = rng.random()
    if drawn < 0.1:
        return damage(key, rng), data
    return (None if drawn < 0.12 else key), (None if drawn > 0.9 else data)


def _transaction_records(directory: Path, rng: random.Random) -> None:
    key = _stored(TransactionLogKey, rng)
    value = None if rng.random() < 0.1 else _stored(TransactionLogValue, rng)
    with contextlib.suppress(ProtocolError, transactions.UnknownKeyVersionError):
        transactions.decode(key, value)


def _stored(cls: type[StoredPayload], rng: random.Random) -> bytes:
    version = rng.randint(cls.MIN_VERSION, cls.MAX_VERSION)
    while True:
        try:
            data = message(cls, version, rng).encode_versioned(version)
        except ProtocolError:
            continue  # a value that this version has no bytes for
        return data if rng.random() < 0.7 else damage(data, rng)


def _short(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


# -- the embedded ZooKeeper's store


def _zookeeper(directory: Path, rng: random.Random) -> None:
    """A log, or a snapshot with what came after it; frames are damaged under a checksum that fits, too."""
    for path in directory.iterdir():
        path.unlink()
    for name, frames in _states().items():
        magic = snapshots.SNAPSHOT_MAGIC if name.startswith("snapshot") else snapshots.LOG_MAGIC
        frames = [damage(each, rng) if rng.random() < 0.2 else each for each in frames]
        if rng.random() < 0.1:
            rng.shuffle(frames)
        if not (name.startswith("snapshot") and rng.random() < 0.3):
            data = magic + b"".join(map(frame, frames))
            (directory / name).write_bytes(damage(data, rng) if rng.random() < 0.2 else data)
    sessions = Sessions(1, b"secret")
    try:
        snapshots.recover(directory, sessions, Limits(), 0, snapshots.files(directory, "log"))
    except StoreError:
        pass
    finally:
        for path in directory.iterdir():
            path.unlink()


@cache
def _states() -> dict[str, list[bytes]]:
    """A snapshot in the middle, and the log from the beginning to the end."""
    acl = (Acl(1, "world", "anyone"),)
    changes: list[Change] = [
        CreateSessionTxn(30_000),
        CreateTxn("/a", b"x", acl, 0, False),
        CreateTxn("/a/b", None, acls.OPEN, 1, True),
        SetDataTxn("/a", b"y" * 300, 1),
        SetAclTxn("/a", acl, 1),
        MultiTxn((CreateTxn("/m", b"", acls.OPEN, 0, False), CheckTxn("/m"), DeleteTxn("/m"))),
        ErrorTxn(-101),
        CreateTxn("/c", b"", acls.OPEN, owners.CONTAINER, False),
        CloseSessionTxn(),
    ]
    machine = Machine(Sessions(1, b"secret"))
    found: dict[str, list[bytes]] = {}
    payloads = []
    with tempfile.TemporaryDirectory() as name:
        for zxid, change in enumerate(changes, 1):
            transaction = Transaction(zxid, 1, 1_700_000_000_000, change)
            payloads.append(transaction_codec.encode(transaction))
            machine.replay(transaction, 0)
            if zxid == len(changes) // 2:
                snapshots.write_snapshot(Path(name), machine)
                (path,) = Path(name).iterdir()
                found[path.name] = read_frames(path, snapshots.SNAPSHOT_MAGIC)[0]
    found[snapshots.file_name("log", 1)] = [b"".join(payloads[:3]), *payloads[3:]]
    return found


_GROUP_VALUES: tuple[tuple[int, type[StoredPayload]], ...] = (
    (0, OffsetCommitValue),
    (1, OffsetCommitValue),
    (2, GroupMetadataValue),
    (keys.EPOCH, ConsumerGroupMetadataValue),
    (keys.TOPICS, ConsumerGroupPartitionMetadataValue),
    (keys.MEMBER, ConsumerGroupMemberMetadataValue),
    (keys.TARGET_EPOCH, ConsumerGroupTargetAssignmentMetadataValue),
    (keys.TARGET, ConsumerGroupTargetAssignmentMemberValue),
    (keys.CURRENT, ConsumerGroupCurrentMemberAssignmentValue),
    (keys.REGEX, ConsumerGroupRegularExpressionValue),
    (9, OffsetCommitValue),
)
_KINDS: dict[str, Callable[[Path, random.Random], None]] = {
    RECOVERY_POINT_CHECKPOINT: _damaged(RECOVERY_POINT_CHECKPOINT, None, lambda path: OffsetCheckpoint(path).read()),
    HIGH_WATERMARK_CHECKPOINT: _damaged(HIGH_WATERMARK_CHECKPOINT, None, lambda path: OffsetCheckpoint(path).read()),
    LOG_START_OFFSET_CHECKPOINT: _damaged(
        LOG_START_OFFSET_CHECKPOINT, None, lambda path: OffsetCheckpoint(path).read()
    ),
    CLEANER_CHECKPOINT: _damaged(CLEANER_CHECKPOINT, None, lambda path: OffsetCheckpoint(path).read()),
    LEADER_EPOCH_CHECKPOINT: _damaged(LEADER_EPOCH_CHECKPOINT, None, _epochs),
    META_PROPERTIES: _damaged(META_PROPERTIES, None, lambda path: read_meta_properties(path.parent)),
    PARTITION_METADATA: _damaged(PARTITION_METADATA, None, lambda path: PartitionMetadataFile(path.parent).read()),
    ".snapshot": _damaged("*.snapshot", None, _producers),
    ".index": _damaged("*.index", None, _offset_index),
    ".timeindex": _damaged("*.timeindex", None, _time_index),
    ".txnindex": _damaged("*.txnindex", None, _aborted),
    "__consumer_offsets": _group_records,
    "__transaction_state": _transaction_records,
    "the embedded ZooKeeper's store": _zookeeper,
}
