from __future__ import annotations

import pytest

from broker.api.produce import first_batch_fault
from log.records.compression import Codec
from log.records.record import Record
from network.protocol.errors import ErrorCode
from tests.support.batches import build_batch

BATCH = bytes(build_batch([Record(0, 1_700_000_000_000, b"k", b"v")]))
ZSTD = bytes(build_batch([Record(0, 1_700_000_000_000, b"k", b"v" * 100)], codec=Codec.ZSTD))
OLD = bytes(16) + b"\x01" + bytes(60)


@pytest.mark.parametrize(
    ("records", "version", "code"),
    [
        (BATCH, 3, None),
        (BATCH, 11, None),
        (ZSTD, 7, None),
        (ZSTD, 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (BATCH + BATCH, 3, ErrorCode.INVALID_RECORD),
        (BATCH[:50], 3, ErrorCode.INVALID_RECORD),
        (b"", 3, ErrorCode.INVALID_RECORD),
        (OLD, 3, ErrorCode.INVALID_RECORD),
        (OLD[:30], 9, ErrorCode.INVALID_RECORD),
    ],
)
def test_what_is_refused_before_the_log_is_asked(records: bytes, version: int, code: ErrorCode | None) -> None:
    attributes = records[22] if len(records) >= 61 and records[16] == 2 else None
    fault = first_batch_fault(records, len(records), attributes, version)
    assert (None if fault is None else fault.error) is code
