"""Request and response headers of every version, and frames that have none."""

from __future__ import annotations

import pytest

from network.protocol.api import API, ApiKey
from network.protocol.errors import ProtocolError
from network.protocol.header import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_request_header,
    encode_response,
)
from network.protocol.messages.api_versions import ApiVersionsResponse
from network.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from network.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@pytest.mark.parametrize("key", sorted(API))
def test_headers_of_every_version(key: int) -> None:
    for version in range(API[key].min_version, API[key].max_version + 1):
        header = RequestHeader(key, version, 1234, "klient-ü")
        encoded = encode_request_header(header)
        decoded, position = decode_request_header(encoded + b"body")
        if key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
            header.client_id = ""
            assert len(encoded) == 8
        assert decoded == header
        assert position == len(encoded)


def test_versions_of_headers() -> None:
    fetch, versions = API[ApiKey.FETCH], API[ApiKey.API_VERSIONS]
    assert [fetch.request_header_version(v) for v in (0, 11, 12)] == [1, 1, 2]
    assert [fetch.response_header_version(v) for v in (0, 11, 12)] == [0, 0, 1]
    assert [versions.request_header_version(v) for v in (2, 3, 4)] == [1, 2, 2]
    assert [versions.response_header_version(v) for v in (2, 3, 4)] == [0, 0, 0]
    shutdown = API[ApiKey.CONTROLLED_SHUTDOWN]
    assert [shutdown.request_header_version(v) for v in range(4)] == [0, 1, 1, 2]


def test_the_client_id_is_never_compact() -> None:
    assert encode_request_header(RequestHeader(1, 17, 5, "id")) == bytes.fromhex("0001 0011 00000005 0002") + b"id\0"


def test_a_null_client_id_is_empty() -> None:
    header, position = decode_request_header(bytes.fromhex("0001 000b 00000005 ffff"))
    assert header == RequestHeader(1, 11, 5, "")
    assert position == 10


def test_unknown_tags_of_a_header_are_kept() -> None:
    header = RequestHeader(1, 17, 5, "id", {3: b"three"})
    assert decode_request_header(encode_request_header(header))[0] == header


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "00",
        "0001 0011 000000",
        "0001 0011 00000005",
        "0001 0011 00000005 00",
        "0001 0011 00000005 0005 61",  # client id longer than the frame
        "0001 0011 00000005 7fff",
        "0001 0011 00000005 fffe",  # length -2
        "0001 0011 00000005 0000",  # no tagged-field section
        "0001 0011 00000005 0000 01",
        "0001 0011 00000005 0000 0100 05",
        "0001 0011 00000005 0000 ffffffffff",
    ],
)
def test_bad_headers(frame: str) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(bytes.fromhex(frame))


@pytest.mark.parametrize("frame", ["7fff 0000 00000009", "7fff 0000 00000009 0001 61", "0012 0063 00000009 0001 61"])
def test_unknown_keys_and_versions_still_have_a_correlation_id(frame: str) -> None:
    data = bytes.fromhex(frame)
    header, position = decode_request_header(data)
    assert header.correlation_id == 9
    assert position == len(data)


def test_controlled_shutdown_version_0_has_no_client_id() -> None:
    frame = encode_request(RequestHeader(7, 0, 3, "ignored"), ControlledShutdownRequest(broker_id=2))
    assert frame == bytes.fromhex("0000000c 0007 0000 00000003 00000002")
    header, position = decode_request_header(frame[4:])
    assert position == 8
    assert ControlledShutdownRequest.decode(frame[4:], 0, position).broker_id == 2
    assert header.client_id == ""


def test_the_api_versions_response_has_header_version_0() -> None:
    frame = encode_response(RequestHeader(18, 4, 6), ApiVersionsResponse(error_code=35))
    assert frame[4:10] == bytes.fromhex("00000006 0023")
    decoded = decode_response(RequestHeader(18, 4, 6), frame[4:])
    assert decoded == ApiVersionsResponse(error_code=35)


def test_a_response_is_matched_with_its_request() -> None:
    frame = encode_response(RequestHeader(12, 4, 6), HeartbeatResponse(error_code=27))
    assert decode_response(RequestHeader(12, 4, 6), frame[4:]) == HeartbeatResponse(error_code=27)
    with pytest.raises(ProtocolError, match="answer to 7"):
        decode_response(RequestHeader(12, 4, 7), frame[4:])
    for end in range(4, len(frame)):
        with pytest.raises(ProtocolError):
            decode_response(RequestHeader(12, 4, 6), frame[4:end])


def test_tags_in_a_response_header_are_skipped() -> None:
    body = HeartbeatResponse(error_code=27).encode(4)
    frame = bytes.fromhex("00000006 01 05 02 aabb") + body
    assert decode_response(RequestHeader(12, 4, 6), frame) == HeartbeatResponse(error_code=27)


def test_size_prefix() -> None:
    frame = encode_request(RequestHeader(12, 4, 6, "c"), HeartbeatRequest(group_id="g"))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


def test_a_header_that_has_no_encoding() -> None:
    with pytest.raises(ProtocolError):
        encode_request_header(RequestHeader(12, 4, 1 << 31, "c"))
    with pytest.raises(ProtocolError):
        encode_request_header(RequestHeader(12, 4, 1, "c" * 40000))
