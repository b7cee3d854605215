from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.errors import CorruptRecordError
from log.records.batch import LOG_APPEND_TIME, MAX_INT32, RecordBatch, decrement_sequence, increment_sequence
from log.records.compression import Codec
from log.records.record import (
    BatchBuilder,
    ControlType,
    EndTxnMarker,
    Record,
    build_end_txn_marker,
    iter_records,
    parse_end_txn_marker,
)
from tests.support.batches import build_batch, iter_batches
from tests.unit.log.golden import log_dumps

MARKER = bytes.fromhex(
    "00000000000000000000004200000000022f9f220c0030000000000000018bcfe568000000018bcfe56800"
    "00000000000000010000ffffffff000000012000000008000000010c00000000000000"
)
DATA = bytes.fromhex(
    "00000000000000000000003e0000000002675a95fd0000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff0000000118000000026b02760202680231"
)


def test_known_marker_bytes() -> None:
    marker = EndTxnMarker(ControlType.COMMIT, 0)
    built = build_end_txn_marker(1, 0, marker, 1_700_000_000_000, base_offset=0, partition_leader_epoch=0)
    assert bytes(built) == MARKER
    batch = RecordBatch(MARKER)
    assert batch.is_control
    assert batch.is_transactional
    (record,) = iter_records(batch)
    assert parse_end_txn_marker(record) == marker


def test_known_data_bytes() -> None:
    built = build_batch([Record(0, 1_700_000_000_000, b"k", b"v", (("h", b"1"),))], partition_leader_epoch=0)
    assert bytes(built) == DATA


def test_golden_batches_and_records_match_the_dump_tool() -> None:
    batches = records = 0
    for path, text in log_dumps():
        data = path.read_bytes()
        lines = [line for line in text.splitlines() if line.startswith("baseOffset: ")]
        if not lines:
            continue  # an old format
        for line, batch in zip(lines, iter_batches(data), strict=True):
            expected = dict(re.findall(r"(\w+): (\S+)", line))
            assert batch.is_valid() == (expected["isvalid"] == "true")
            assert (batch.base_offset, batch.last_offset) == (int(expected["baseOffset"]), int(expected["lastOffset"]))
            assert batch.record_count == int(expected["count"])
            assert (batch.base_sequence, batch.last_sequence) == (
                int(expected["baseSequence"]),
                int(expected["lastSequence"]),
            )
            assert (batch.producer_id, batch.producer_epoch) == (
                int(expected["producerId"]),
                int(expected["producerEpoch"]),
            )
            assert batch.partition_leader_epoch == int(expected["partitionLeaderEpoch"])
            assert batch.is_transactional == (expected["isTransactional"] == "true")
            assert batch.is_control == (expected["isControl"] == "true")
            assert (batch.position, batch.size_in_bytes) == (int(expected["position"]), int(expected["size"]))
            assert Codec(batch.codec).config_name == expected["compresscodec"]
            assert batch.crc == int(expected["crc"])
            kind = "LogAppendTime" if batch.timestamp_type == LOG_APPEND_TIME else "CreateTime"
            assert batch.max_timestamp == int(expected[kind])
            horizon = re.search(r"deleteHorizonMs: OptionalLong\[(\d+)\]", line)
            assert batch.delete_horizon_ms == (int(horizon[1]) if horizon else None)
            batches += 1
            records += sum(1 for _ in iter_records(batch))
        assert records >= batches
    assert batches > 50  # 89 of them are in the repository


def test_setters_keep_the_checksum_right() -> None:
    batch = RecordBatch(build_batch([Record(5, 1000, b"k", b"v"), Record(6, 2000)]))
    crc = batch.crc
    batch.set_last_offset(100)
    batch.set_partition_leader_epoch(7)
    assert (batch.base_offset, batch.last_offset, batch.crc) == (99, 100, crc)
    assert batch.is_valid()
    batch.set_max_timestamp(LOG_APPEND_TIME, 5000)
    assert batch.crc != crc
    assert batch.is_valid()
    again = RecordBatch(batch.buffer)
    assert (again.base_offset, again.partition_leader_epoch, again.max_timestamp) == (99, 7, 5000)
    assert [record.timestamp for record in iter_records(again)] == [5000, 5000]


def test_setters_refuse_read_only_bytes() -> None:
    with pytest.raises(TypeError):
        RecordBatch(DATA).set_base_offset(1)


def test_an_incomplete_last_batch_ends_the_iteration() -> None:
    data = DATA + MARKER
    for cut in range(len(DATA), len(data)):
        assert [batch.size_in_bytes for batch in iter_batches(data[:cut])] == [len(DATA)]
    assert len(list(iter_batches(data))) == 2


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_an_impossible_size_is_corrupt(size: int) -> None:
    data = bytearray(DATA)
    data[8:12] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptRecordError):
        list(iter_batches(data))


def test_a_batch_smaller_than_its_header_is_corrupt() -> None:
    data = bytearray(DATA)
    data[8:12] = (48).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError):
        list(iter_batches(data))


def test_every_flipped_bit_behind_the_magic_is_found() -> None:
    for position in range(17, len(DATA)):
        data = bytearray(DATA)
        data[position] ^= 0x10
        assert not RecordBatch(data).is_valid()


@given(st.integers(0, MAX_INT32), st.integers(0, MAX_INT32))
def test_sequences_wrap(sequence: int, by: int) -> None:
    later = increment_sequence(sequence, by)
    assert 0 <= later <= MAX_INT32
    assert later == (sequence + by) % (MAX_INT32 + 1)
    assert decrement_sequence(later, by) == sequence


def test_sequence_after_the_largest_is_zero() -> None:
    assert increment_sequence(MAX_INT32, 1) == 0
    assert decrement_sequence(0, 1) == MAX_INT32


def test_builder_refuses_offsets_that_do_not_increase() -> None:
    builder = BatchBuilder(base_offset=10)
    builder.append(0, None, None)
    for offset in (9, 10):
        with pytest.raises(ValueError):
            builder.append(0, None, None, offset=offset)
    with pytest.raises(ValueError):
        builder.append(0, None, None, offset=10 + MAX_INT32 + 1)
