from __future__ import annotations

from typing import Any

import pytest

from log.config import LogConfig
from log.errors import (
    CorruptRecordError,
    DecompressionError,
    InvalidRecordError,
    InvalidTimestampError,
    LogError,
    RecordTooLargeError,
    UnknownCompressionError,
)
from log.records import validation
from log.records.batch import DELETE_HORIZON_MASK, LOG_APPEND_TIME, Buffer, RecordBatch, write_header
from log.records.compression import Codec
from log.records.old_formats import encode_message, encode_wrapper
from log.records.record import BatchBuilder, ControlType, EndTxnMarker, Record, build_end_txn_marker, iter_records
from log.records.validation import (
    AppendOrigin,
    ValidatedRecords,
    check_for_follower,
    validate_for_leader,
)
from tests.support.batches import build_batch

NOW = 1_700_000_000_000
RECORDS = [Record(0, NOW - 5, b"a", b"1", (("h", b"x"),)), Record(1, NOW, b"b", None), Record(2, NOW - 1, b"c", b"3")]


def _validate(records: Buffer, origin: AppendOrigin = AppendOrigin.CLIENT, **settings: object) -> ValidatedRecords:
    config = LogConfig.from_mapping({key.replace("_", "."): str(value) for key, value in settings.items()})
    return validate_for_leader(records, origin=origin, config=config, next_offset=100, leader_epoch=7, now_ms=NOW + 50)


def _edited(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and a checksum that fits them."""
    header = RecordBatch(batch)
    values = {
        "base_offset": header.base_offset,
        "partition_leader_epoch": header.partition_leader_epoch,
        "attributes": header.attributes,
        "last_offset_delta": header.last_offset_delta,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "record_count": header.record_count,
    }
    write_header(batch, 0, size=len(batch), **(values | fields))
    return batch


@pytest.mark.parametrize("codec", Codec)
def test_offsets_and_epoch_are_written_in_place(codec: Codec) -> None:
    buffer = build_batch(RECORDS, codec=codec)
    result = _validate(buffer)
    assert not result.rebuilt
    assert result.records.obj is buffer
    assert (result.first_offset, result.last_offset, result.record_count) == (100, 102, 3)
    batch = RecordBatch(buffer)
    assert batch.is_valid()
    assert (batch.partition_leader_epoch, batch.max_timestamp) == (7, NOW)
    assert [r.offset for r in iter_records(batch)] == [100, 101, 102]
    assert (result.source_codec, result.log_append_time) == (codec, -1)


@pytest.mark.parametrize("target", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("source", [Codec.NONE, Codec.LZ4, Codec.GZIP])
def test_recompression_of_whole_batches_gives_what_building_all_records_gives(
    source: Codec, target: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "uncompressed" if target is Codec.NONE else target.config_name
    many = [
        Record(i, NOW - 7 * (i % 5), b"%d" % i if i % 3 else None, b"v" * (i % 90), (("h", b"x"),)) for i in range(300)
    ]
    sent = bytes(build_batch(many, codec=source, producer_id=5, producer_epoch=1, base_sequence=9))
    looks: list[bool] = []
    first_delta = validation._begins_with_base_timestamp

    def look(plain: bytes) -> bool:
        looks.append(first_delta(plain))
        return looks[-1]

    monkeypatch.setattr(validation, "_begins_with_base_timestamp", look)
    at_once = _validate(sent, compression_type=name)
    assert looks == [True] * (source is not target)
    monkeypatch.setattr(validation, "_begins_with_base_timestamp", lambda plain: False)
    one_by_one = _validate(sent, compression_type=name)
    assert bytes(at_once.records) == bytes(one_by_one.records)
    assert at_once.conversion == one_by_one.conversion


def test_recompression_of_a_batch_that_does_not_begin_with_its_base_timestamp() -> None:
    builder = BatchBuilder(codec=Codec.LZ4, delete_horizon_ms=NOW - 100)
    for record in RECORDS:
        builder.append(record.timestamp, record.key, record.value)
    # A horizon makes a base timestamp of its own; a client's batch may have one too.
    sent = builder.build()
    sent = _edited(sent, attributes=RecordBatch(sent).attributes & ~DELETE_HORIZON_MASK)
    batch = _validate(sent, compression_type="zstd").batch
    assert batch.base_timestamp == RECORDS[0].timestamp
    assert [r.timestamp for r in iter_records(batch)] == [r.timestamp for r in RECORDS]


def test_read_only_bytes_are_copied() -> None:
    data = bytes(build_batch(RECORDS))
    result = _validate(data)
    assert RecordBatch(data).base_offset == 0
    assert RecordBatch(result.records).base_offset == 100


def test_bytes_behind_the_last_complete_batch_are_dropped() -> None:
    batch = build_batch(RECORDS)
    assert len(_validate(batch + batch[:40]).records) == len(batch)


def test_a_wrong_max_timestamp_is_corrected() -> None:
    result = _validate(_edited(build_batch(RECORDS), max_timestamp=5))
    assert result.max_timestamp == NOW
    assert result.batch.is_valid()


def test_append_time_overwrites() -> None:
    result = _validate(build_batch(RECORDS), message_timestamp_type="LogAppendTime")
    assert (result.max_timestamp, result.log_append_time) == (NOW + 50, NOW + 50)
    assert result.batch.timestamp_type == LOG_APPEND_TIME
    assert result.batch.is_valid()
    assert {r.timestamp for r in iter_records(result.batch)} == {NOW + 50}


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_recompression(source: Codec, target: Codec) -> None:
    name = "uncompressed" if target is Codec.NONE else target.config_name
    sent = build_batch(RECORDS, codec=source, producer_id=5, producer_epoch=1, base_sequence=9, transactional=True)
    result = _validate(sent, compression_type=name)
    assert result.rebuilt == (source is not target)
    batch = result.batch
    assert batch.is_valid()
    assert batch.codec == target
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional) == (5, 1, 9, True)
    assert (batch.base_offset, batch.partition_leader_epoch) == (100, 7)
    assert [r._replace(offset=r.offset - 100, sequence=-1) for r in iter_records(batch)] == RECORDS


def test_gaps_inside_a_compressed_batch_are_closed() -> None:
    sent = build_batch([RECORDS[0], RECORDS[1], RECORDS[2]._replace(offset=5)], codec=Codec.GZIP)
    sent = _edited(sent, last_offset_delta=2)
    result = _validate(sent)
    assert result.rebuilt
    assert [r.offset for r in iter_records(result.batch)] == [100, 101, 102]


def test_a_forced_codec_leaves_markers_alone() -> None:
    marker = build_end_txn_marker(1, 0, EndTxnMarker(ControlType.COMMIT, 0), NOW)
    result = _validate(marker, origin=AppendOrigin.COORDINATOR, compression_type="zstd", cleanup_policy="compact")
    assert not result.rebuilt
    assert result.batch.codec == 0


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"base_offset": 1}, InvalidRecordError),
        ({"attributes": 5}, UnknownCompressionError),
        ({"attributes": 7}, UnknownCompressionError),
        ({"last_offset_delta": -1}, InvalidRecordError),
        ({"last_offset_delta": 3}, InvalidRecordError),
        ({"record_count": 0, "last_offset_delta": -1}, InvalidRecordError),
        ({"record_count": 2, "last_offset_delta": 1}, InvalidRecordError),
        ({"record_count": 4, "last_offset_delta": 3}, InvalidRecordError),
        ({"attributes": 0x20}, InvalidRecordError),
        ({"producer_id": 1, "producer_epoch": 0, "base_sequence": -1}, InvalidRecordError),
        ({"attributes": 2}, DecompressionError),
        ({"attributes": 0x08}, None),
        ({"attributes": 0x40}, None),
    ],
)
def test_header_rules(fields: dict[str, int], error: type[LogError] | None) -> None:
    batch = _edited(build_batch(RECORDS), **fields)
    if error is None:
        _validate(batch)
        return
    before = bytes(batch)
    with pytest.raises(error):
        _validate(batch)
    assert batch == before


def test_structure_of_records_is_checked() -> None:
    batch = build_batch(RECORDS)
    batch[61] ^= 2
    with pytest.raises(InvalidRecordError):
        _validate(_edited(batch))


def test_checksum_and_size() -> None:
    batch = build_batch(RECORDS)
    batch[70] ^= 1
    with pytest.raises(CorruptRecordError):
        _validate(batch)
    small = bytearray(build_batch(RECORDS))
    small[8:12] = (40).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError):
        _validate(small)
    unknown = build_batch(RECORDS)
    unknown[16] = 3
    with pytest.raises(CorruptRecordError):
        _validate(unknown)


def test_the_size_limit_comes_before_the_checksum() -> None:
    batch = build_batch(RECORDS)
    batch[70] ^= 1
    with pytest.raises(RecordTooLargeError):
        _validate(batch, max_message_bytes=len(batch) - 1)
    with pytest.raises(CorruptRecordError):
        _validate(batch, max_message_bytes=len(batch))


def test_a_rebuilt_batch_must_fit_too() -> None:
    batch = build_batch([Record(0, NOW, b"k", b"v" * 10_000)], codec=Codec.GZIP)
    with pytest.raises(RecordTooLargeError):
        _validate(batch, max_message_bytes=1000, compression_type="uncompressed")


def test_number_of_batches() -> None:
    batch = build_batch(RECORDS)
    with pytest.raises(InvalidRecordError):
        _validate(batch + batch)
    for data in (b"", batch[:-1], batch[:10]):
        with pytest.raises(InvalidRecordError):
            _validate(bytes(data))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_compacted_topics_need_keys(codec: Codec) -> None:
    sent = build_batch(
        [Record(0, NOW, None, b"1"), Record(1, NOW, b"k", b"2"), Record(2, NOW, None, b"3")], codec=codec
    )
    _validate(bytearray(sent))
    with pytest.raises(InvalidRecordError) as caught:
        _validate(sent, cleanup_policy="compact,delete")
    assert [error.batch_index for error in caught.value.record_errors] == [0, 2]
    assert caught.value.error_name == "INVALID_RECORD"


def test_timestamp_bounds() -> None:
    sent = build_batch([Record(i, NOW + delta, b"k", b"v") for i, delta in enumerate((-1000, 0, 1000))])
    _validate(bytearray(sent), message_timestamp_before_max_ms=1050, message_timestamp_after_max_ms=950)
    with pytest.raises(InvalidTimestampError) as caught:
        _validate(bytearray(sent), message_timestamp_before_max_ms=1049)
    assert [error.batch_index for error in caught.value.record_errors] == [0]
    with pytest.raises(InvalidTimestampError) as caught:
        _validate(bytearray(sent), message_timestamp_after_max_ms=949)
    assert [error.batch_index for error in caught.value.record_errors] == [2]
    assert caught.value.error_name == "INVALID_TIMESTAMP"
    with pytest.raises(InvalidTimestampError) as caught:
        _validate(bytearray(sent), message_timestamp_difference_max_ms=500)
    assert [error.batch_index for error in caught.value.record_errors] == [0, 2]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_timestamp_beyond_64_bits_is_refused_in_words(codec: Codec) -> None:
    sent = build_batch([Record(0, NOW, b"k", b"v"), Record(1, NOW + 5, b"k", b"v")], codec=codec)
    beyond = _edited(sent, base_timestamp=2**63 - 1, max_timestamp=2**63 - 1)
    for target in ("producer", "gzip"):
        with pytest.raises(InvalidTimestampError, match="64 bits"):
            _validate(bytearray(beyond), compression_type=target)
    kept = _validate(bytearray(beyond), compression_type="gzip", message_timestamp_type="LogAppendTime")
    assert kept.max_timestamp == NOW + 50


def test_no_timestamp() -> None:
    sent = build_batch([Record(0, -1, b"k", b"v")])
    assert _validate(bytearray(sent), message_timestamp_before_max_ms=1).max_timestamp == -1
    with pytest.raises(InvalidTimestampError):
        _validate(_edited(bytearray(sent), attributes=8))


def test_producers_may_not_set_append_time_where_the_broker_does() -> None:
    with pytest.raises(InvalidTimestampError):
        _validate(_edited(build_batch(RECORDS), attributes=8), message_timestamp_type="LogAppendTime")


def test_append_time_of_a_client_becomes_create_time() -> None:
    result = _validate(_edited(build_batch(RECORDS), attributes=8, max_timestamp=NOW + 9))
    assert result.max_timestamp == NOW + 9
    assert result.batch.timestamp_type == 0
    assert result.batch.is_valid()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_formats_become_one_batch(magic: int, codec: Codec) -> None:
    records = [Record(i, NOW + i if magic else -1, b"k%d" % i, b"v" * i) for i in range(4)]
    if codec is Codec.NONE:
        data = b"".join(encode_message(magic, 0, r.timestamp, r.key, r.value) for r in records)
    else:
        data = encode_wrapper(magic, records, codec)
    result = _validate(data)
    assert result.rebuilt
    assert result.batch.magic == 2
    assert result.batch.codec == codec
    assert [r._replace(offset=r.offset - 100) for r in iter_records(result.batch)] == records


def test_old_formats_are_checked() -> None:
    message = bytearray(encode_message(1, 0, NOW, b"k", b"v"))
    message[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        _validate(message)
    inner = encode_message(0, 0, -1, b"k", b"v")
    from log.records.compression import compress

    with pytest.raises(InvalidRecordError) as caught:
        _validate(encode_message(1, 0, NOW, None, compress(Codec.GZIP, inner), codec=Codec.GZIP))
    assert [error.batch_index for error in caught.value.record_errors] == [0]
    wrapper = encode_wrapper(1, RECORDS, Codec.GZIP)
    with pytest.raises(InvalidRecordError):
        _validate(wrapper + wrapper)
    with pytest.raises(InvalidRecordError):
        _validate(encode_message(0, 0, -1, b"k", b"v") + encode_message(1, 0, NOW, b"k", b"v"))
    with pytest.raises(InvalidRecordError):
        _validate(encode_message(1, 0, NOW, None, b"v"), cleanup_policy="compact")


def test_follower_data() -> None:
    first = build_batch([Record(10, NOW + 5, b"a", b"1"), Record(12, NOW, b"b", b"2")])
    second = build_batch([Record(13, NOW + 5, b"c", b"3")], codec=Codec.LZ4)
    found = check_for_follower(bytes(first + second + first[:30]))
    assert [batch.base_offset for batch in found.batches] == [10, 13]
    assert (found.first_offset, found.last_offset, found.valid_bytes) == (10, 13, len(first) + len(second))
    assert (found.max_timestamp, found.shallow_offset_of_max_timestamp) == (NOW + 5, 12)
    assert found.offsets_increase
    assert not check_for_follower(bytes(second + first)).offsets_increase
    second[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        check_for_follower(bytes(first + second))
    assert check_for_follower(b"").first_offset == -1


def test_builder_levels_are_the_topics() -> None:
    builder = BatchBuilder(codec=Codec.ZSTD, level=22)
    builder.append(NOW, b"k", b"v" * 100)
    assert RecordBatch(builder.build()).is_valid()
    for level in (1, 17):
        result = _validate(build_batch(RECORDS), compression_type="lz4", compression_lz4_level=level)
        assert len(list(iter_records(result.batch))) == 3


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"base_offset": 3},
        {"codec": Codec.LZ4},
        {"transactional": True, "producer_id": 9, "producer_epoch": 1, "base_sequence": 4},
        {"producer_id": 9, "producer_epoch": 1, "base_sequence": -1},
        {"control": True},
        {"log_append_time": 77},
    ],
    ids=str,
)
@pytest.mark.parametrize("timestamps", [[5], [5, 9, 7], [-1], [0, -1]], ids=str)
@pytest.mark.parametrize("damage", [None, 10, 22, 30, -1])
def test_the_short_way_decides_as_the_long_way(
    change: dict[str, Any], timestamps: list[int], damage: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = change.get("base_offset", 0)
    records = [Record(first + at, when, b"k", b"v" * 20, ()) for at, when in enumerate(timestamps)]
    data = build_batch(records, **change)
    if damage is not None:
        data[damage] ^= 0x41

    def outcome() -> tuple[object, ...]:
        copy = bytearray(data)
        try:
            done = validate_for_leader(
                copy, origin=AppendOrigin.CLIENT, config=LogConfig(), next_offset=100, leader_epoch=3, now_ms=1
            )
        except LogError as error:
            return type(error), str(error), bytes(copy)
        return bytes(done.records), done.source_codec, done.log_append_time, done.rebuilt, done.first_offset

    short = outcome()
    monkeypatch.setattr("log.records.validation._plain_batch", lambda records, max_bytes: None)
    assert short == outcome()
