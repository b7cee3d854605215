"""Gather lists: records are passed on, not copied, and file ranges stay file ranges."""

from __future__ import annotations

from typing import Any

import pytest

from network.protocol.header import (
    RequestHeader,
    decode_response,
    encode_request_parts,
    encode_response,
    encode_response_parts,
)
from network.protocol.message import COPY_BELOW
from network.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from network.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from network.protocol.primitives import as_buffer


class Range:
    """A file range over bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.fd = -1
        self.position = 0
        self.size = len(data)
        self.released = 0

    def read(self) -> bytes:
        return self.data

    def release(self) -> None:
        self.released += 1


def response(*records: Any) -> FetchResponse:
    partitions = [PartitionData(partition_index=index, records=each) for index, each in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=bytes(16), partitions=partitions)])


def flat(parts: list[Any]) -> bytes:
    return b"".join(part.read() if isinstance(part, Range) else bytes(part) for part in parts)


@pytest.mark.parametrize("version", range(18))
def test_file_ranges_stay_what_they_are(version: int) -> None:
    ranges = [Range(b"a" * 10), Range(b"b" * 100_000), Range(b"")]
    message = response(*ranges)
    message.responses[0].topic_id = bytes(16)
    header = RequestHeader(1, version, 77)
    parts = encode_response_parts(header, message)
    assert [part for part in parts if isinstance(part, Range)] == ranges
    frame = flat(parts)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert encode_response(header, message) == frame
    decoded: Any = decode_response(header, frame[4:])
    assert [bytes(each.records) for each in decoded.responses[0].partitions] == [each.data for each in ranges]
    assert all(each.released == 0 for each in ranges)


def test_large_buffers_are_not_copied() -> None:
    data = bytearray(b"x" * (COPY_BELOW + 1))
    parts = encode_response_parts(RequestHeader(1, 17, 1), response(data))
    view = next(part for part in parts if len(part) == len(data))  # type: ignore[arg-type]
    data[0] = ord("y")
    assert bytes(view)[:2] == b"yx"  # type: ignore[arg-type]
    assert len(parts) == 3


def test_small_buffers_are_joined() -> None:
    parts = encode_response_parts(RequestHeader(1, 17, 1), response(b"small", memoryview(b"also small"), None))
    assert len(parts) == 1


def test_sequences_of_buffers_and_ranges() -> None:
    pieces = [Range(b"one"), b"two", Range(b"three")]
    message = response(pieces, [], (b"four",))
    parts = message.encode_parts(17)
    assert [part for part in parts if isinstance(part, Range)] == [pieces[0], pieces[2]]
    assert flat(parts) == message.encode(17)
    decoded = FetchResponse.decode(flat(parts), 17)
    assert [bytes(as_buffer(each.records)) for each in decoded.responses[0].partitions] == [
        b"onetwothree",
        b"",
        b"four",
    ]


@pytest.mark.parametrize("size", [0, 1, 100, 10_000, 100_000])
@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_decoded_records_are_views_of_the_frame(size: int, version: int) -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=b"r" * size)])]
    )
    frame = bytearray(request.encode(version))
    records = ProduceRequest.decode(memoryview(frame), version).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.nbytes == size
    if size:
        frame[frame.index(b"r" * min(size, 50))] = ord("R")
        assert bytes(records[:1]) == b"R"
    parts = encode_request_parts(RequestHeader(0, version, 1, "client"), request)
    assert (len(parts) > 1) == (size > COPY_BELOW)


def test_as_buffer() -> None:
    assert bytes(as_buffer(None)) == b""
    assert bytes(as_buffer(Range(b"range"))) == b"range"
    view = memoryview(b"view")
    assert as_buffer(view) is view
    assert bytes(as_buffer([b"a", Range(b"b"), view])) == b"abview"
