"""The order of a log's offsets is asserted: a fault that breaks it ends there, and not in what is built on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from log.appends import append_as_leader
from log.offset_metadata import LogOffsetMetadata
from log.partition_log import PartitionLog
from tests.unit.log.harness import Harness, batch


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = Harness(tmp_path).open()
    for _ in range(5):
        append_as_leader(log, batch(b"x"), 0)
    return log


def test_a_high_watermark_below_the_log_start_is_noticed(log: PartitionLog) -> None:
    log.maybe_increment_high_watermark(LogOffsetMetadata(3))
    log.log_start_offset = 2
    with pytest.raises(AssertionError, match="out of order"):
        log._set_high_watermark(LogOffsetMetadata(1))


def test_a_high_watermark_beyond_the_log_end_is_noticed(log: PartitionLog) -> None:
    with pytest.raises(AssertionError, match="out of order"):
        log._set_high_watermark(LogOffsetMetadata(log.log_end_offset + 1))


def test_an_append_to_a_log_whose_offsets_are_out_of_order_is_noticed(log: PartitionLog) -> None:
    log._high_watermark = LogOffsetMetadata(log.log_end_offset + 1)
    with pytest.raises(AssertionError, match="out of order"):
        log.after_append(log.log_end_offset - 1, None, [])


def test_a_transaction_that_is_open_below_the_log_start_is_noticed(log: PartitionLog) -> None:
    log.maybe_increment_high_watermark(LogOffsetMetadata(3))
    log.log_start_offset = 2
    log._first_unstable = LogOffsetMetadata(1)
    with pytest.raises(AssertionError, match="a transaction is open"):
        log.after_append(log.log_end_offset - 1, None, [])
