"""Batches that other people's code has built: client libraries, and the clients in the captures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioReader
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from kafka.record.default_records import DefaultRecordBatch as PythonReader
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from broker.api.produce import first_batch_fault
from log.config import LogConfig
from log.errors import LogError
from log.records.batch import RecordBatch
from log.records.compression import Codec
from log.records.old_formats import iter_entries
from log.records.record import Record, iter_records
from log.records.validation import AppendOrigin, ValidatedRecords, validate_for_leader
from network.protocol.header import decode_request_header
from network.protocol.messages.fetch import FetchResponse
from network.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.support.batches import build_batch, down_convert, iter_batches
from tests.support.paths import shared_golden

NOW = 1_700_000_000_000
CONTENT = [
    (NOW, b"key", b"value", [("h", b"1"), ("h", None), ("", b"")]),
    (NOW + 3, None, b"x" * 5000, []),
    (NOW + 1, b"", b"", []),
    (NOW + 100_000, b"tombstone", None, []),
]


def _validate(data: bytes, **settings: str) -> ValidatedRecords:
    return validate_for_leader(
        data,
        origin=AppendOrigin.CLIENT,
        config=LogConfig.from_mapping({name.replace("_", "."): value for name, value in settings.items()}),
        next_offset=1000,
        leader_epoch=3,
        now_ms=NOW,
    )


def _expected(offset: int) -> list[Record]:
    return [
        Record(offset + i, timestamp, key, value, tuple(headers), 7 + i)
        for i, (timestamp, key, value, headers) in enumerate(CONTENT)
    ]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("builder_class", [PythonBuilder, AioBuilder])
def test_their_batches_are_read(builder_class: type[Any], codec: Codec) -> None:
    options = {
        "magic": 2,
        "compression_type": int(codec),
        "is_transactional": 1,
        "producer_id": 99,
        "producer_epoch": 2,
        "base_sequence": 7,
        "batch_size": 1 << 20,
    }
    builder = builder_class(**options)
    for offset, (timestamp, key, value, headers) in enumerate(CONTENT):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    data = bytes(builder.build())
    assert first_batch_fault(data, len(data), data[22], 9) is None
    for target in ("producer", "uncompressed", "zstd"):
        result = _validate(data, compression_type=target)
        batch = result.batch
        assert batch.is_valid()
        assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (99, 2, True)
        assert list(iter_records(batch)) == _expected(1000)
        assert result.max_timestamp == NOW + 100_000


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("reader_class", [PythonReader, AioReader])
def test_they_read_ours(reader_class: type[Any], codec: Codec) -> None:
    data = bytes(build_batch([r._replace(sequence=-1) for r in _expected(50)], codec=codec))
    reader = reader_class(data)
    assert reader.validate_crc()
    found = [(r.offset, r.timestamp, r.key, r.value, [tuple(h) for h in r.headers]) for r in reader]
    assert found == [(50 + i, *content) for i, content in enumerate(CONTENT)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_formats_of_kafka_python(magic: int, codec: Codec) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=int(codec), batch_size=1 << 20)
    for offset, (timestamp, key, value, _) in enumerate(CONTENT):
        builder.append(offset, timestamp, key, value)
    data = bytes(builder.build())
    result = _validate(data)
    found = [(r.timestamp, r.key, r.value) for r in iter_records(result.batch)]
    assert found == [(timestamp if magic else -1, key, value) for timestamp, key, value, _ in CONTENT]
    # And back again, for readers of that time.
    old = down_convert([result.batch], magic)
    records = MemoryRecords(old)
    read = []
    while records.has_next():
        read += [(r.offset, r.timestamp, r.key, r.value) for r in records.next_batch()]
    assert read == [
        (1000 + i, timestamp if magic else None, key, value) for i, (timestamp, key, value, _) in enumerate(CONTENT)
    ]


def _frames(name: str) -> Iterator[tuple[int, bytes, bytes]]:
    """(version, request, response) frames without their length."""
    request = b""
    for line in (shared_golden() / "wire" / name).read_text().splitlines():
        if line.startswith("#"):
            continue
        version, _, direction, frame, *_ = line.split(" ")
        if direction == ">":
            request = bytes.fromhex(frame)[4:]
        else:
            yield int(version), request, bytes.fromhex(frame)[4:]


# What the validation of a batch can answer; other codes come from other checks.
JUDGED = {0: "NONE", 2: "CORRUPT_MESSAGE", 10: "MESSAGE_TOO_LARGE", 32: "INVALID_TIMESTAMP", 87: "INVALID_RECORD"}


def test_captured_produce_requests_are_judged_as_kafka_judged_them() -> None:
    seen: dict[str, int] = {}
    for version, request, response in _frames("00_Produce.txt"):
        _, offset = decode_request_header(request)
        asked = ProduceRequest.decode(request, version, offset)
        answered = ProduceResponse.decode(response, version, 5 if version >= 9 else 4)
        for topic, topic_answer in zip(asked.topic_data, answered.responses, strict=True):
            for part, answer in zip(topic.partition_data, topic_answer.partition_responses, strict=True):
                if answer.error_code not in JUDGED:
                    continue
                assert part.records is not None
                try:
                    records = bytes(part.records)
                    fault = None
                    if version >= 3:
                        attributes = records[22] if len(records) >= 61 and records[16] == 2 else None
                        fault = first_batch_fault(records, len(records), attributes, version)
                    if fault is None:
                        _validate(records)
                    verdict = "NONE" if fault is None else fault.error.name
                except LogError as error:
                    verdict = error.error_name
                assert verdict == JUDGED[answer.error_code]
                seen[verdict] = seen.get(verdict, 0) + 1
    assert seen["NONE"] > 10
    assert seen["CORRUPT_MESSAGE"] > 5
    assert seen["INVALID_RECORD"] > 5


def test_captured_fetches_are_read_and_down_converted_alike() -> None:
    stored: dict[tuple[str, int], dict[int, RecordBatch]] = {}
    old: list[tuple[int, tuple[str, int], bytes]] = []
    records = 0
    for version, _, response in _frames("01_Fetch.txt"):
        answer = FetchResponse.decode(response, version, 5 if version >= 12 else 4)
        for topic in answer.responses:
            for part in topic.partitions:
                if not part.records:
                    continue
                data = bytes(part.records)  # type: ignore[arg-type]
                for batch in iter_entries(data, strict_magic=True):
                    assert batch.is_valid()
                    records += sum(1 for _ in iter_records(batch))
                key = (topic.topic, part.partition_index)
                if version <= 3:
                    old.append((0 if version < 2 else 1, key, data))
                elif topic.topic:
                    stored.setdefault(key, {}).update({batch.base_offset: batch for batch in iter_batches(data)})
    assert records > 50
    compared = 0
    for magic, key, data in old:
        theirs = {entry.last_offset: bytes(entry.view) for entry in iter_entries(data)}
        ours = down_convert([batch for _, batch in sorted(stored.get(key, {}).items())], magic)
        for entry in iter_entries(ours):
            if entry.last_offset in theirs:
                assert bytes(entry.view) == theirs[entry.last_offset]
                compared += 1
    assert compared > 20
