"""A producer's last five batches are known after a start, when one of them comes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from log import appends, earlier_batches
from log.append_info import LogAppendInfo
from log.appends import append_as_follower, append_as_leader
from log.earlier_batches import MAX_INDEX_ENTRIES
from log.errors import OutOfOrderSequenceError
from log.partition_log import PartitionLog
from log.records.batch import MAX_INT32
from log.records.record import ControlType, EndTxnMarker, build_end_txn_marker
from log.records.validation import AppendOrigin
from log.truncation import truncate_to
from tests.unit.log.harness import Harness, append, batch, segment_bases


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def produce(log: PartitionLog, sequence: int, *found: bytes, epoch: int = 0, producer: int = 7) -> LogAppendInfo:
    data = batch(*(found or (b"v",)), producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    return append_as_leader(log, data, 0)


def restarted(harness: Harness, log: PartitionLog) -> PartitionLog:
    harness.stop(log)
    return harness.open()


def known(log: PartitionLog, sequences: range, epoch: int = 0) -> list[int | None]:
    """Per sequence, newest first, the offset that its batch of one record has, or None where it is out of order."""

    def offset(sequence: int) -> int | None:
        try:
            info = produce(log, sequence, epoch=epoch)
        except OutOfOrderSequenceError:
            return None
        assert info.duplicate
        return info.first_offset

    return [offset(sequence) for sequence in reversed(sequences)]


def test_the_last_five_and_no_more(harness: Harness) -> None:
    log = harness.open()
    append(log, b"other")
    for sequence in range(8):
        produce(log, sequence)
        produce(log, sequence, producer=8)
    log = restarted(harness, log)
    assert known(log, range(8)) == [15, 13, 11, 9, 7, None, None, None]
    assert produce(log, 8).first_offset == 17
    assert known(log, range(4, 9)) == [17, 15, 13, 11, 9]


def test_what_was_appended_since_counts(harness: Harness) -> None:
    log = harness.open()
    for sequence in range(6):
        produce(log, sequence)
    log = restarted(harness, log)
    produce(log, 6)
    produce(log, 7)
    assert known(log, range(2, 8)) == [7, 6, 5, 4, 3, None]


def test_five_that_were_appended_since_stay(harness: Harness) -> None:
    log = harness.open()
    for sequence in range(3):
        produce(log, sequence)
    log = restarted(harness, log)
    for sequence in range(3, 8):
        produce(log, sequence)
    assert known(log, range(8)) == [7, 6, 5, 4, 3, None, None, None]
    assert produce(log, 8).first_offset == 8


def test_in_earlier_segments(harness: Harness) -> None:
    log = harness.open()
    for sequence in range(4):
        produce(log, sequence)
        log.roll()
        append(log, b"other")
        log.roll()
    log = restarted(harness, log)
    assert len(segment_bases(log)) == 9
    assert known(log, range(4)) == [6, 4, 2, 0]


def test_of_this_epoch_alone(harness: Harness) -> None:
    log = harness.open()
    for sequence in range(3):
        produce(log, sequence)
    produce(log, 0, epoch=1)
    marker = build_end_txn_marker(7, 1, EndTxnMarker(ControlType.COMMIT, 0), harness.clock.wall_ms())
    append_as_leader(log, marker, 0, AppendOrigin.COORDINATOR)
    produce(log, 1, epoch=1)
    log = restarted(harness, log)
    assert known(log, range(2), epoch=1) == [5, 3]
    assert produce(log, 0, epoch=2).first_offset == 6
    assert known(log, range(1), epoch=2) == [6]


def test_after_a_truncation(harness: Harness) -> None:
    log = harness.open()
    for sequence in range(6):
        produce(log, sequence)
    log.roll()
    produce(log, 6)
    truncate_to(log, 6)
    assert known(log, range(6)) == [5, 4, 3, 2, 1, None]
    assert produce(log, 6).first_offset == 6


def test_the_look_back_has_a_bound(harness: Harness) -> None:
    """A batch of more than the interval has an index entry."""
    for others, expected in ((MAX_INDEX_ENTRIES - 5, 0), (MAX_INDEX_ENTRIES + 5, None)):
        there = Harness(harness.directory / str(others))
        there.config = type(there.config)(segment_bytes=1 << 20, index_interval_bytes=200)
        log = there.open()
        produce(log, 0)
        for _ in range(others):
            append(log, b"v" * 300)
        produce(log, 1)
        log = restarted(there, log)
        assert known(log, range(2)) == [others + 1, expected]


def test_what_a_follower_was_brought_at_once(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it has one entry in the index."""
    leader = Harness(harness.directory / "leader").open()
    for sequence in range(8):
        produce(leader, sequence)
    log = harness.open()
    append_as_follower(log, Path(leader.active_segment.path).read_bytes())
    log = restarted(harness, log)
    assert known(log, range(8)) == [7, 6, 5, 4, 3, None, None, None]
    monkeypatch.setattr(earlier_batches, "MAX_BATCHES", 6)
    log = restarted(harness, log)
    assert known(log, range(6, 8)) == [7, None]


def test_a_producer_that_began_anew_does_not_find_what_was_before(harness: Harness) -> None:
    """It was forgotten, and took the same numbers again."""
    log = harness.open()
    for sequence in range(4):
        produce(log, sequence)
    log.producers.remove_expired(harness.clock.wall_ms() + (1 << 40))
    produce(log, 0)
    log = restarted(harness, log)
    assert known(log, range(2, 4)) == [None, None]
    assert known(log, range(1)) == [4]


def test_sequences_that_begin_again_after_the_largest(harness: Harness) -> None:
    log = harness.open()
    for sequence in (MAX_INT32 - 1, MAX_INT32, 0, 1):
        produce(log, sequence)
    log = restarted(harness, log)
    assert known(log, range(MAX_INT32 - 1, MAX_INT32 + 1)) == [1, 0]
    assert known(log, range(2)) == [3, 2]


def test_a_repeat_of_the_last_batch_asks_nothing(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    log = harness.open()
    produce(log, 0)
    log = restarted(harness, log)
    monkeypatch.setattr(appends, "recall_earlier_batches", None)
    assert produce(log, 0).duplicate
    assert not produce(log, 1).duplicate


def test_the_log_is_asked_once(harness: Harness) -> None:
    log = harness.open()
    for sequence in range(3):
        produce(log, sequence)
    log = restarted(harness, log)
    entry = log.producers.last_entry(7)
    assert entry is not None
    produce(log, 3)
    assert (entry.is_cut, len(entry.batches)) == (True, 2)
    with pytest.raises(OutOfOrderSequenceError):
        produce(log, 9)
    assert (entry.is_cut, len(entry.batches)) == (False, 4)


def test_a_damaged_batch_is_no_failure_of_the_append(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    log = harness.open()
    produce(log, 0)
    log.roll()
    produce(log, 1)
    produce(log, 2)
    log = restarted(harness, log)
    with open(log.segments[0].path, "r+b") as file:
        file.seek(8)
        file.write(bytes(4))  # a size that no batch has
    assert known(log, range(3)) == [2, 1, None]
    assert "earlier batches of producer 7" in caplog.text
    assert produce(log, 3).first_offset == 3
