"""Request and response headers, and whole frames.

A frame is an int32 size and as many bytes: header, then message. The client id has an int16 length in every header
version, also where everything else is compact; header version 0 has none. Functions that take a `frame` expect it
without the size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from network.protocol.api import API
from network.protocol.errors import ProtocolError
from network.protocol.fields import Buffer
from network.protocol.message import Message, Response, gather
from network.protocol.primitives import decode_unknown_tags, encode_tags, records_size

if TYPE_CHECKING:
    from network.protocol.message import Part

_START: Final = struct.Struct(">hhih").unpack_from  # key, version, correlation id, length of client id
_SHORT_START: Final = struct.Struct(">hhi").unpack_from
_CORRELATION: Final = struct.Struct(">i").unpack_from


@dataclass(slots=True)
class RequestHeader:
    """The header of a request; a null client id is an empty one."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str = ""
    unknown_tags: dict[int, bytes] | None = None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Header and where the body starts.

    For a key without an API, and for a version that the API lacks, the layout is not known: only key, version and
    correlation id are filled in, and the body is said to start at the end. Raises ProtocolError for a malformed one.
    """
    try:
        key, version, correlation_id, length = _START(frame)
    except struct.error:
        return _decode_short_header(frame)
    spec = API.get(key)
    if spec is None or not spec.min_version <= version <= spec.max_version:
        return RequestHeader(key, version, correlation_id), len(frame)
    flexible = version >= spec.flexible_version
    if not flexible and spec.request_header_version(version) == 0:
        return RequestHeader(key, version, correlation_id), 8
    position = 10
    client_id = ""
    if length > 0:
        position += length
        if position > len(frame):
            raise ProtocolError(
                f"the client id has a length of {length}, of which only {len(frame) - 10} bytes are there"
            )
        client_id = str(frame[10:position], "utf-8", "replace")
    elif length < -1:
        raise ProtocolError(f"the client id has the length {length}")
    header = RequestHeader(key, version, correlation_id, client_id)
    if flexible:
        try:
            count = frame[position]
            position += 1
            if count:
                header.unknown_tags, position = decode_unknown_tags(frame, position, count, len(frame))
        except IndexError:
            raise ProtocolError("the request header ends too early") from None
    return header, position


def _decode_short_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """A frame of 8 or 9 bytes: enough for header version 0, or to say which API is meant."""
    if len(frame) < 8:
        raise ProtocolError(f"a frame of {len(frame)} bytes has no request header")
    key, version, correlation_id = _SHORT_START(frame)
    spec = API.get(key)
    if spec is not None and spec.serves(version) and spec.request_header_version(version) > 0:
        raise ProtocolError("the request header ends too early")
    return RequestHeader(key, version, correlation_id), 8 if spec is not None and spec.serves(version) else len(frame)


def encode_request_header(header: RequestHeader) -> bytes:
    """Without the frame's size."""
    spec = API[header.api_key]
    version = spec.request_header_version(header.api_version)
    try:
        start = struct.pack(">hhi", header.api_key, header.api_version, header.correlation_id)
        if version == 0:
            return start
        client_id = header.client_id.encode()
        start += struct.pack(">h", len(client_id)) + client_id
    except struct.error as error:
        raise ProtocolError(f"{header} cannot be encoded: {error}") from error
    if version == 1:
        return start
    return start + encode_tags([], header.unknown_tags)


def encode_request(header: RequestHeader, message: Message) -> bytes:
    """A whole frame, size included. Raises ProtocolError for a value without an encoding."""
    start = encode_request_header(header)
    body = message.encode(header.api_version)
    return (len(start) + len(body)).to_bytes(4, "big") + start + body


def encode_request_parts(header: RequestHeader, message: Message) -> list[Part]:
    """Like `encode_request`, as a gather list that holds record buffers without a copy."""
    return _framed(encode_request_header(header), message, header.api_version)


def encode_response_parts(header: RequestHeader, message: Message) -> list[Part]:
    """The whole frame of the answer to `header`, size included, as a gather list."""
    return _framed(encode_response_header(header), message, header.api_version)


def encode_response(header: RequestHeader, message: Message) -> bytes:
    """The whole frame of the answer to `header` as bytes; file ranges are read."""
    start = encode_response_header(header)
    body = message.encode(header.api_version)
    return (len(start) + len(body)).to_bytes(4, "big") + start + body


def encode_response_header(header: RequestHeader) -> bytes:
    """Without the frame's size."""
    start = header.correlation_id.to_bytes(4, "big", signed=True)
    if API[header.api_key].response_header_version(header.api_version) == 1:
        start += b"\0"
    return start


def _framed(start: bytes, message: Message, version: int) -> list[Part]:
    parts: list[Any] = [b"", start]
    marks: list[int] = []
    message.encode_into(parts, marks, version)
    if marks:
        parts[0] = sum(map(records_size, parts)).to_bytes(4, "big")
        return gather(parts, marks)
    body = b"".join(parts)
    return [len(body).to_bytes(4, "big") + body]


def decode_response(header: RequestHeader, frame: Buffer) -> Response:
    """The answer to the request of `header`; raises ProtocolError for another correlation id or bad bytes."""
    spec = API[header.api_key]
    version = header.api_version
    try:
        (correlation_id,) = _CORRELATION(frame)
        position = 4
        if spec.response_header_version(version) == 1:
            count = frame[4]
            position = 5
            if count:
                _, position = decode_unknown_tags(frame, position, count, len(frame))
    except (struct.error, IndexError):
        raise ProtocolError("the response header ends too early") from None
    if correlation_id != header.correlation_id:
        raise ProtocolError(f"the answer to {header.correlation_id} was expected, {correlation_id} came")
    return spec.response.decode(frame, version, position)
