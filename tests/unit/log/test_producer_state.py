from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.errors import (
    CorruptIndexError,
    CorruptSnapshotError,
    InconsistentMetadataError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    LogError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from log.files.producer_snapshot import decode_snapshot, encode_snapshot, read_snapshot
from log.files.txn_index import AbortedTxn, TransactionIndex
from log.leader_epoch import LeaderEpochCache, leader_epoch_checkpoint
from log.producer_entry import BatchMetadata, ProducerStateEntry
from log.producer_state import CompletedTxn, ProducerStateConfig, ProducerStateManager
from log.records.batch import MAX_INT32, RecordBatch
from log.records.record import ControlType, EndTxnMarker, Record, build_end_txn_marker
from log.records.validation import AppendOrigin
from log.topic_partition import TopicPartition
from tests.support.batches import build_batch, iter_batches
from tests.unit.log.golden import roots
from timer.clock import ManualClock

CLIENT, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.REPLICATION
NOW = 1_700_000_000_000
TP = TopicPartition("t", 0)


class Producers(ProducerStateManager):
    """A manager with a short way to append a batch."""

    def __init__(self, directory: Path) -> None:
        super().__init__(TP, directory, ManualClock(), ProducerStateConfig())

    def write(self, batch: bytearray, origin: AppendOrigin = CLIENT) -> CompletedTxn | None:
        header = RecordBatch(batch)
        info = self.prepare_update(header.producer_id, origin)
        completed = info.append(header)
        self.update(info)
        if completed is not None:
            self.complete_txn(completed)
        self.map_end_offset = header.next_offset
        return completed

    def data(
        self,
        offset: int,
        sequence: int,
        epoch: int = 0,
        count: int = 1,
        pid: int = 1,
        transactional: bool = False,
        origin: AppendOrigin = CLIENT,
    ) -> CompletedTxn | None:
        return self.write(_data(offset, sequence, epoch, count, pid, transactional), origin)

    def marker(
        self,
        offset: int,
        kind: ControlType,
        epoch: int = 0,
        coordinator: int = 0,
        pid: int = 1,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
    ) -> CompletedTxn | None:
        marker = EndTxnMarker(kind, coordinator)
        return self.write(build_end_txn_marker(pid, epoch, marker, NOW + offset, base_offset=offset), origin)


def _data(
    offset: int, sequence: int, epoch: int = 0, count: int = 1, pid: int = 1, transactional: bool = False
) -> bytearray:
    return build_batch(
        [Record(offset + i, NOW + offset + i, b"k", b"v") for i in range(count)],
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


@pytest.fixture
def producers(tmp_path: Path) -> Producers:
    return Producers(tmp_path)


def test_sequences_must_follow(producers: Producers) -> None:
    producers.data(0, 7, count=3)  # unknown producer: any first sequence
    producers.data(3, 10)
    for sequence in (10, 9, 12, 0):
        with pytest.raises(OutOfOrderSequenceError):
            producers.data(4, sequence)
    producers.data(4, 11)


def test_sequences_wrap(producers: Producers) -> None:
    producers.data(0, MAX_INT32 - 1, count=2)
    producers.data(2, 0)


def test_a_new_epoch_begins_at_zero(producers: Producers) -> None:
    producers.data(0, 5)
    with pytest.raises(OutOfOrderSequenceError):
        producers.data(1, 6, epoch=1)
    producers.data(1, 0, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        producers.data(2, 6, epoch=0)
    producers.data(2, 99, epoch=0, origin=REPLICATION)


def test_after_a_marker_with_a_higher_epoch_the_first_sequence_is_zero(producers: Producers) -> None:
    producers.data(0, 5, transactional=True)
    producers.marker(1, ControlType.ABORT, epoch=1)
    entry = producers.last_entry(1)
    assert entry is not None
    assert entry.is_empty
    with pytest.raises(OutOfOrderSequenceError):
        producers.data(2, 6, epoch=1, transactional=True)
    producers.data(2, 0, epoch=1, transactional=True)


def test_duplicates_of_the_last_five_batches(producers: Producers) -> None:
    for i in range(7):
        producers.data(i * 2, i * 2, count=2)
    entry = producers.last_entry(1)
    assert entry is not None
    for i in range(7):
        found = entry.find_duplicate(RecordBatch(_data(0, i * 2, count=2)))
        assert (found is None) == (i < 2)
        if found:
            assert (found.first_offset, found.last_offset, found.timestamp) == (i * 2, i * 2 + 1, NOW + i * 2 + 1)
    assert entry.find_duplicate(RecordBatch(_data(0, 12, count=1))) is None
    assert entry.find_duplicate(RecordBatch(_data(0, 12, count=2, epoch=1))) is None


def test_transactions_and_the_unstable_offset(producers: Producers) -> None:
    assert producers.first_unstable_offset is None
    producers.data(0, 0, pid=1, transactional=True)
    producers.data(1, 0, pid=2, transactional=True)
    producers.data(2, 1, pid=1, transactional=True)
    assert producers.first_unstable_offset == 0
    with pytest.raises(InvalidTxnStateError):
        producers.data(3, 2, pid=1)
    completed = producers.marker(3, ControlType.COMMIT, pid=1)
    assert completed == CompletedTxn(1, 0, 3, False)
    assert producers.last_stable_offset(completed) == 1
    assert producers.first_unstable_offset == 0
    producers.on_high_watermark_updated(3)
    assert producers.first_unstable_offset == 0
    producers.on_high_watermark_updated(4)
    assert producers.first_unstable_offset == 1
    completed = producers.marker(4, ControlType.ABORT, pid=2)
    assert completed == CompletedTxn(2, 1, 4, True)
    assert producers.last_stable_offset(completed) == 5
    producers.on_high_watermark_updated(5)
    assert producers.first_unstable_offset is None
    assert producers.marker(5, ControlType.COMMIT, pid=1) is None
    with pytest.raises(LogError):
        producers.complete_txn(CompletedTxn(1, 0, 3, False))


def test_coordinator_epochs(producers: Producers) -> None:
    producers.data(0, 0, transactional=True)
    producers.marker(1, ControlType.COMMIT, coordinator=5)
    with pytest.raises(TransactionCoordinatorFencedError):
        producers.marker(2, ControlType.COMMIT, coordinator=4)
    producers.marker(2, ControlType.COMMIT, coordinator=4, origin=REPLICATION)
    producers.data(3, 0, epoch=3)
    with pytest.raises(InvalidProducerEpochError):
        producers.marker(4, ControlType.COMMIT, epoch=2, coordinator=9)


def test_expiry_spares_open_transactions(producers: Producers) -> None:
    producers.data(0, 0, pid=1)
    producers.data(1, 0, pid=2, transactional=True)
    assert producers.remove_expired(NOW + 86_400_000 - 1) == 0
    assert producers.remove_expired(NOW + 86_400_000) == 1
    assert producers.last_entry(1) is None
    assert producers.last_entry(2) is not None


def test_late_transactions(producers: Producers) -> None:
    assert not producers.has_late_transaction(NOW)
    producers.data(0, 0, transactional=True)
    assert not producers.has_late_transaction(NOW + 1_200_000)
    assert producers.has_late_transaction(NOW + 1_200_001)


def test_verification(producers: Producers) -> None:
    batch = RecordBatch(_data(0, 3, transactional=True))
    assert not producers.is_verified(batch, None)
    guard = producers.start_verification(1, 3, 0)
    assert producers.start_verification(1, 2, 0) is guard
    assert not producers.is_verified(batch, object())
    assert producers.is_verified(batch, guard)
    # The batch with sequence 2 waits for the same verification, so 3 cannot be the first.
    with pytest.raises(OutOfOrderSequenceError):
        producers.data(0, 3, transactional=True)
    producers.data(0, 2, transactional=True)
    assert producers.is_verified(batch, None)
    producers.marker(1, ControlType.COMMIT)
    assert not producers.is_verified(batch, guard)
    producers.config.transaction_verification_enable = False
    assert producers.is_verified(batch, None)


def test_snapshots_round_trip(producers: Producers, tmp_path: Path) -> None:
    assert producers.take_snapshot() is None
    producers.data(0, 0, count=3)
    producers.data(3, 0, pid=9, epoch=4, transactional=True)
    assert producers.take_snapshot() == 4
    assert producers.take_snapshot() is None
    producers.sync_snapshot(4)
    assert (tmp_path / "00000000000000000004.snapshot").exists()
    again = Producers(tmp_path)
    again.truncate_and_reload(0, 10, NOW)
    assert again.map_end_offset == 4
    assert again.entries() == producers.entries()
    assert again.first_unstable_offset == 3


def test_reload_takes_the_newest_usable_snapshot(producers: Producers, tmp_path: Path) -> None:
    for offset in (0, 1, 2, 3):
        producers.data(offset, offset)
        producers.take_snapshot()
    (tmp_path / "00000000000000000003.snapshot").write_bytes(b"\x00\x01torn")
    again = Producers(tmp_path)
    again.truncate_and_reload(1, 3, NOW)
    assert again.map_end_offset == 2
    entry = again.last_entry(1)
    assert entry is not None
    assert entry.last_sequence == 1
    assert sorted(p.name[18:20] for p in tmp_path.iterdir()) == ["02"]
    again.truncate_fully_and_start_at(50)
    assert (again.map_end_offset, again.is_empty, list(tmp_path.iterdir())) == (50, True, [])


def test_stray_snapshots(producers: Producers, tmp_path: Path) -> None:
    for offset in (3, 5, 8, 9):
        producers.map_end_offset = offset
        producers.take_snapshot()
    producers.remove_stray_snapshots([0, 5, 8])
    assert [producers.oldest_snapshot_offset, producers.latest_snapshot_offset] == [5, 9]
    producers.remove_stray_snapshots([0, 5, 10])
    assert [producers.oldest_snapshot_offset, producers.latest_snapshot_offset] == [5, 5]
    marked = producers.mark_snapshot_for_deletion(5)
    assert marked == str(tmp_path / "00000000000000000005.snapshot.deleted")
    assert producers.mark_snapshot_for_deletion(5) is None
    producers.delete_marked_snapshot(marked)
    assert list(tmp_path.iterdir()) == []


def test_known_snapshot_bytes() -> None:
    assert encode_snapshot([]).hex() == "000148674bc700000000"
    entry = ProducerStateEntry(1, 0, -1, 1_700_000_000_000)
    entry.batches.append(BatchMetadata(4, 104, 2, 1_700_000_000_000))
    expected = (
        "000186da9cb40000000100000000000000010000000000040000"
        "000000000068000000020000018bcfe56800ffffffffffffffffffffffff"
    )
    assert encode_snapshot([entry]).hex() == expected


@given(st.integers(0, 101), st.integers(0, 7))
def test_damaged_snapshots_are_refused(position: int, bit: int) -> None:
    entry = ProducerStateEntry(1, 0, -1, NOW)
    data = bytearray(encode_snapshot([entry, ProducerStateEntry(2)]))
    data[position % len(data)] ^= 1 << bit
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(data))
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(data[: position % len(data)]))


def _golden_partitions() -> Iterator[Any]:
    for root in roots():
        for directory in sorted(root.glob("*/data/*-[0-9]*")):
            if "4_unclean" in str(directory) or "6_old" in str(directory) or directory.name.endswith("-delete"):
                continue
            if any(log.stat().st_size for log in directory.glob("*.log")):
                yield pytest.param(
                    directory, id=f"{root.parent.parent.name}-{directory.parent.parent.name}-{directory.name}"
                )


@pytest.mark.parametrize("directory", list(_golden_partitions()))
def test_golden_snapshots_transaction_indexes_and_epochs(directory: Path, tmp_path: Path) -> None:
    """Replaying the batches gives the files that Kafka wrote, byte for byte."""
    cleaned = "compact-0" in str(directory) and "1_clean" not in str(directory)
    producers = Producers(tmp_path)
    epochs = LeaderEpochCache(leader_epoch_checkpoint(tmp_path))
    snapshots = {int(path.stem): path for path in directory.glob("*.snapshot")}
    compared = 0
    for log in sorted(directory.glob("*.log")):
        index = TransactionIndex(tmp_path / log.with_suffix(".txnindex").name, int(log.stem))
        for batch in iter_batches(log.read_bytes()):
            if batch.base_offset in snapshots and not cleaned:
                _compare(producers, snapshots[batch.base_offset])
                compared += 1
            if batch.partition_leader_epoch > (epochs.latest_epoch if epochs.latest_epoch is not None else -1):
                epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            if batch.has_producer_id:
                info = producers.prepare_update(batch.producer_id, REPLICATION)
                completed = info.append(batch)
                producers.update(info)
                if completed is not None:
                    if completed.is_aborted:
                        index.append_completed(completed, producers.last_stable_offset(completed))
                    producers.complete_txn(completed)
            end = batch.next_offset
        original = log.with_suffix(".txnindex")
        if not cleaned:
            written = tmp_path / original.name
            expected = original.read_bytes() if original.exists() else b""
            assert (written.read_bytes() if written.exists() else b"") == expected
    if end in snapshots:
        _compare(producers, snapshots[end])
        compared += 1
    if snapshots and not cleaned:
        assert compared
    stored = LeaderEpochCache(leader_epoch_checkpoint(directory)).entries
    if not cleaned and "7_replicas" not in str(directory) and "trimmed" not in str(directory):
        # An election without data, and a raised log start, leave entries that the batches do not tell.
        assert epochs.entries == stored


def _compare(producers: Producers, path: Path) -> None:
    stored = path.read_bytes()
    if producers.entries() != read_snapshot(path):
        # The same, but for batches that a snapshot does not keep.
        assert encode_snapshot(producers.entries()) == stored
    assert encode_snapshot(read_snapshot(path)) == stored


def test_transaction_index(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000010.txnindex"
    index = TransactionIndex(path, 10)
    assert index.entries() == []
    assert not path.exists()
    txns = [AbortedTxn(1, 10, 20, 15), AbortedTxn(2, 15, 25, 26), AbortedTxn(1, 30, 40, 41)]
    for txn in txns:
        index.append(txn)
    with pytest.raises(ValueError):
        index.append(AbortedTxn(3, 0, 40, 41))
    assert path.stat().st_size == 3 * 34
    assert index.collect(0, 100) == (txns, False)
    assert index.collect(21, 26) == ([txns[1]], True)
    assert index.collect(41, 50) == ([], False)
    index.flush()
    index.close()
    with path.open("ab") as file:
        file.write(b"\x00partial")
    again = TransactionIndex(path, 10)
    again.check()
    assert again.entries() == txns
    again.append(AbortedTxn(9, 50, 60, 61))
    assert [txn.producer_id for txn in again] == [1, 2, 1, 9]
    again.truncate_to(25)
    assert again.entries() == txns[:1]
    again.append(AbortedTxn(5, 21, 22, 23))
    with pytest.raises(CorruptIndexError):
        TransactionIndex(path, 21).check()
    again.rename(tmp_path / "x.txnindex.swap")
    assert len(again.entries()) == 2
    again.reset()
    assert again.entries() == []
    again.delete()
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"\x01" + bytes(33))
    with pytest.raises(InconsistentMetadataError):
        TransactionIndex(path, 0).check()
