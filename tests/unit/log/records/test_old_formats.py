from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.errors import CorruptRecordError, DecompressionError, InvalidRecordError, UnsupportedCompressionTypeError
from log.records.batch import RecordBatch
from log.records.compression import Codec, decompress
from log.records.old_formats import LegacyBatch, encode_message, encode_wrapper, iter_entries
from log.records.record import ControlType, EndTxnMarker, Record, build_end_txn_marker, iter_records
from tests.support.batches import build_batch, down_convert
from tests.unit.log.golden import SMALL

NOW = 1_700_000_000_000
RECORDS = [Record(10 + i, NOW + i, b"k%d" % i, b"v" * i) for i in range(4)]


@pytest.mark.parametrize(("directory", "magic"), [("oldfmt-0", 1), ("v0fmt-0", 0)])
def test_golden_entries(directory: str, magic: int) -> None:
    codecs = set()
    offsets = []
    for path in sorted((SMALL / "6_old_formats" / "data" / directory).glob("*.log")):
        for entry in iter_entries(path.read_bytes()):
            assert isinstance(entry, LegacyBatch)
            assert entry.magic == magic
            assert entry.is_valid()
            codecs.add(entry.codec)
            records = list(entry.iter_records(check_inner=True))
            offsets += [record.offset for record in records]
            assert (entry.base_offset, entry.last_offset) == (records[0].offset, records[-1].offset)
    assert codecs >= {0, 1, 2, 3}
    assert offsets == list(range(len(offsets)))


def test_a_golden_wrapper_is_written_again() -> None:
    """Not the same compressed bytes, but the same inner messages."""
    for directory, magic in (("oldfmt-0", 1), ("v0fmt-0", 0)):
        data = next((SMALL / "6_old_formats" / "data" / directory).glob("*.log")).read_bytes()
        for entry in iter_entries(data):
            if not entry.is_compressed:
                continue
            assert isinstance(entry, LegacyBatch)
            records = list(entry.iter_records())
            ours = LegacyBatch(encode_wrapper(magic, records, entry.codec))
            assert list(ours.iter_records(check_inner=True)) == records
            assert ours.max_timestamp == entry.max_timestamp
            plain = [decompress(b.codec, b.key_and_value()[1], check_lz4_header=magic > 0) for b in (ours, entry)]  # type: ignore[arg-type]
            assert plain[0] == plain[1]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_down_conversion(magic: int, codec: Codec) -> None:
    data = down_convert([RecordBatch(build_batch(RECORDS, codec=codec))], magic)
    entries = list(iter_entries(data))
    assert len(entries) == (4 if codec is Codec.NONE else 1)
    assert all(entry.is_valid() and entry.magic == magic for entry in entries)
    found = [record for entry in entries for record in iter_records(entry)]
    assert found == [r if magic else r._replace(timestamp=-1) for r in RECORDS]


def test_what_down_conversion_leaves_out() -> None:
    marker = RecordBatch(build_end_txn_marker(1, 0, EndTxnMarker(ControlType.COMMIT, 0), NOW, base_offset=14))
    plain = RecordBatch(build_batch(RECORDS))
    data = down_convert([plain, marker], 1, first_offset=12)
    assert [entry.last_offset for entry in iter_entries(data)] == [12, 13]
    packed = RecordBatch(build_batch(RECORDS, codec=Codec.LZ4))
    (wrapper,) = iter_entries(down_convert([packed], 1, first_offset=12))
    assert [record.offset for record in iter_records(wrapper)] == [10, 11, 12, 13]
    with pytest.raises(UnsupportedCompressionTypeError):
        down_convert([RecordBatch(build_batch(RECORDS, codec=Codec.ZSTD))], 1)
    old = LegacyBatch(encode_message(0, 5, -1, b"k", b"v"))
    assert down_convert([old], 1) == bytes(old.view)
    newer = LegacyBatch(encode_message(1, 5, NOW, b"k", b"v"))
    assert [e.magic for e in iter_entries(down_convert([newer], 0))] == [0]


def test_append_time_is_kept() -> None:
    batch = RecordBatch(build_batch(RECORDS, log_append_time=NOW + 99))
    (first, *_) = iter_entries(down_convert([batch], 1))
    assert (first.timestamp_type, first.max_timestamp) == (1, NOW + 99)
    wrapper = LegacyBatch(encode_wrapper(1, RECORDS, Codec.GZIP, timestamp_type=1))
    assert {record.timestamp for record in wrapper.iter_records()} == {NOW + 3}


def test_a_wrapper_at_offset_zero_has_absolute_offsets() -> None:
    wrapper = bytearray(encode_wrapper(1, [r._replace(offset=r.offset - 10) for r in RECORDS], Codec.GZIP))
    wrapper[:8] = bytes(8)
    assert [record.offset for record in LegacyBatch(wrapper).iter_records()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"garbage",
    ],
)
def test_bad_wrappers(value: bytes | None) -> None:
    entry = LegacyBatch(encode_message(1, 5, NOW, None, value, codec=Codec.GZIP))
    with pytest.raises((InvalidRecordError, DecompressionError)):
        list(entry.iter_records())


def test_no_inner_message_and_nested_wrappers() -> None:
    from log.records.compression import compress

    empty = LegacyBatch(encode_message(1, 5, NOW, None, compress(Codec.GZIP, b""), codec=Codec.GZIP))
    nested = encode_wrapper(1, RECORDS, Codec.GZIP)
    outer = LegacyBatch(encode_message(1, 5, NOW, None, compress(Codec.GZIP, nested), codec=Codec.GZIP))
    zstd = LegacyBatch(encode_message(1, 5, NOW, None, b"x", codec=Codec.ZSTD))
    for entry in (empty, outer, zstd):
        with pytest.raises(InvalidRecordError):
            list(entry.iter_records())


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damage_raises_only_our_errors(data: st.DataObject) -> None:
    magic = data.draw(st.integers(0, 1))
    codec = data.draw(st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]))
    entry = encode_message(magic, 0, NOW, b"k", b"v") if codec is Codec.NONE else encode_wrapper(magic, RECORDS, codec)
    damaged = bytearray(entry)
    position = data.draw(st.integers(8, len(damaged) - 1))
    damaged[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        for found in iter_entries(damaged, strict_magic=True):
            assert not found.is_valid()
            list(iter_records(found))
    except (CorruptRecordError, InvalidRecordError, DecompressionError):
        pass
