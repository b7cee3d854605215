from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.errors import DecompressionError, InvalidRecordError, RecordTooLargeError
from log.records.batch import RecordBatch
from log.records.compression import Codec, compress
from log.records.record import BatchBuilder, Record, iter_keys, iter_records
from log.records.varint import decode_varint, decode_varlong, encode_varint, encode_varlong
from tests.support.batches import build_batch

blobs = st.none() | st.binary(max_size=200)
records = st.lists(
    st.builds(
        Record,
        offset=st.integers(0, 500),
        timestamp=st.integers(-1, 2**50),
        key=blobs,
        value=blobs,
        sequence=st.just(-1),
        headers=st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
    unique_by=lambda record: record.offset,
).map(lambda found: sorted(found, key=lambda record: record.offset))


@given(records, st.sampled_from(Codec))
@settings(max_examples=150, deadline=None)
def test_what_is_built_is_read(given_records: list[Record], codec: Codec) -> None:
    batch = RecordBatch(build_batch(given_records, codec=codec))
    assert batch.is_valid()
    assert list(iter_records(batch)) == given_records
    assert list(iter_keys(batch)) == [(r.offset, r.key, r.value is not None) for r in given_records]
    assert batch.max_timestamp == max(record.timestamp for record in given_records)


@given(records, st.sampled_from(Codec), st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_payloads_raise_only_our_errors(given_records: list[Record], codec: Codec, data: st.DataObject) -> None:
    built = build_batch(given_records, codec=codec)
    position = data.draw(st.integers(61, len(built) - 1))
    built[position] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(InvalidRecordError, DecompressionError, RecordTooLargeError):
        list(iter_records(RecordBatch(built)))
    with contextlib.suppress(InvalidRecordError, DecompressionError, RecordTooLargeError):
        list(iter_keys(RecordBatch(built)))


@given(st.integers(-(2**31), 2**31 - 1))
def test_varints(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varint(encoded, 0) == (value, len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs(value: int) -> None:
    encoded = encode_varlong(value)
    assert decode_varlong(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-2, "03"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (300, "d804"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_known_varints(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


def test_varints_that_are_too_long_or_cut_off() -> None:
    for data in (b"\xff\xff\xff\xff\xff\x01", b"\x80", b""):
        with pytest.raises(InvalidRecordError):
            decode_varint(data, 0)
    for data in (b"\xff" * 10 + b"\x01", b"\x80", b""):
        with pytest.raises(InvalidRecordError):
            decode_varlong(data, 0)


def _batch_of(payload: bytes, count: int, codec: int = 0) -> RecordBatch:
    builder = BatchBuilder(codec=codec)
    builder.append(0, None, None)
    built = builder.build()[:61] + payload
    built[8:12] = (len(built) - 12).to_bytes(4, "big")
    built[57:61] = count.to_bytes(4, "big", signed=True)
    return RecordBatch(built)


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        ("", 1),  # no record
        ("0c000000010100", -1),  # negative count
        ("0c00000001010000", 1),  # a byte left over
        ("0e00000001010000", 1),  # length longer than the fields
        ("0a0000000101", 1),  # length shorter than the fields
        ("0c000000010101", 1),  # negative header count
        ("0c000000010150", 1),  # more headers than bytes
        ("10000000010102010000", 1),  # header without key
        ("7e000000010100", 1),  # length beyond the data
    ],
)
def test_broken_records(payload: str, count: int) -> None:
    with pytest.raises(InvalidRecordError):
        list(iter_records(_batch_of(bytes.fromhex(payload), count)))


def test_negative_lengths_other_than_minus_one_are_null() -> None:
    (record,) = iter_records(_batch_of(bytes.fromhex("0c000000050300"), 1))
    assert (record.key, record.value) == (None, None)


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_a_small_batch_cannot_expand_without_bound(codec: Codec) -> None:
    bomb = compress(codec, bytes(20_000_000))
    assert len(bomb) < 1_000_000
    with pytest.raises(RecordTooLargeError):
        list(iter_records(_batch_of(bomb, 1, codec), limit=1_000_000))
