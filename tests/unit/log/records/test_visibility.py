"""What of a Fetch answer a reader of committed records sees."""

from __future__ import annotations

from log.records.record import ControlType, EndTxnMarker, Record, build_end_txn_marker
from log.records.visibility import with_visibility
from tests.support.batches import build_batch


def batch(offset: int, producer_id: int) -> bytes:
    """One record at `offset`, in a transaction."""
    record = Record(offset, 1_700_000_000_000, None, b"v")
    return bytes(build_batch([record], producer_id=producer_id, transactional=True))


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    return bytes(build_end_txn_marker(producer_id, 0, EndTxnMarker(kind, 0), 1_700_000_000_000, base_offset=offset))


def seen(data: bytes, *aborted: tuple[int, int]) -> list[tuple[int, bool]]:
    return [(each.base_offset, visible) for each, visible in with_visibility(data, aborted)]


def test_a_transaction_is_hidden_from_its_first_record_to_its_marker() -> None:
    data = batch(0, 7) + batch(1, 8) + marker(2, 7, ControlType.ABORT) + batch(3, 7) + marker(4, 8, ControlType.COMMIT)
    assert seen(data, (0, 7)) == [(0, False), (1, True), (2, False), (3, True), (4, False)]


def test_a_reader_of_uncommitted_records_sees_all_but_markers() -> None:
    assert seen(batch(0, 7) + marker(1, 7, ControlType.ABORT)) == [(0, True), (1, False)]


def test_one_that_began_before_what_was_read_is_hidden_too() -> None:
    """And each is hidden in its turn, in whatever order the answer names them."""
    data = batch(5, 7) + marker(6, 7, ControlType.ABORT) + batch(7, 7) + batch(8, 7)
    assert seen(data, (8, 7), (2, 7)) == [(5, False), (6, False), (7, True), (8, False)]
