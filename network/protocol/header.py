"""Request and response headers, and whole frames.

A frame is an int32 size and as many bytes: header, then message. The client id has an int16 length in every header
version, also where everything else is compact; header version 0 has none. Functions that take a `frame` expect it
without the size.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from network.protocol.api import API, ApiKey
from network.protocol.errors import ProtocolError
from network.protocol.fields import NEVER, Buffer
from network.protocol.message import Message, Response, gather
from network.protocol.primitives import decode_unknown_tags, encode_tags, records_size

if TYPE_CHECKING:
    from network.protocol.message import Part

_START: Final = struct.Struct(">hhih").unpack_from  # key, version, correlation id, length of client id
_SHORT_START: Final = struct.Struct(">hhi").unpack_from
_CORRELATION: Final = struct.Struct(">i").unpack_from
_FRAME_0: Final = struct.Struct(">ii").pack  # size, correlation id
_FRAME_1: Final = struct.Struct(">iix").pack  # and an empty tagged-field section

_SHOWN_CLIENT_ID: Final = 255

_CONTROLLED_SHUTDOWN: Final = int(ApiKey.CONTROLLED_SHUTDOWN)
_VERSIONS: Final = {int(spec.key): (spec.min_version, spec.max_version, spec.flexible_version) for spec in API.values()}
_HEADER_1_FROM: Final = {int(spec.key): spec.flexible_version for spec in API.values()} | {ApiKey.API_VERSIONS: NEVER}


class RequestHeader:
    """The header of a request; a null client id is an empty one."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id", "unknown_tags")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str = "",
        unknown_tags: dict[int, bytes] | None = None,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.unknown_tags = unknown_tags

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RequestHeader):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        spec = API.get(self.api_key)
        return (
            f"{spec.name if spec else f'key {self.api_key}'} v{self.api_version} "
            f"(correlation id {self.correlation_id}, client id {self.client_id!r})"
        )


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Header and where the body starts.

    For a key without an API, and for a version that the API lacks, the layout is not known: key, version and
    correlation id are filled in, the client id if there is text where all known layouts have it, and the body is said
    to start at the end. Raises ProtocolError for a malformed one.
    """
    size = len(frame)
    if size < 10:
        return _decode_short_header(frame)
    key, version, correlation_id, length = _START(frame)
    versions = _VERSIONS.get(key)
    if versions is None or not versions[0] <= version <= versions[1]:
        return RequestHeader(key, version, correlation_id, _client_id_of_unknown(frame, length)), size
    position = 10
    client_id = ""
    if key == _CONTROLLED_SHUTDOWN and version == 0:
        return RequestHeader(key, version, correlation_id), 8
    if length > 0:
        position += length
        if position > size:
            raise ProtocolError(f"the client id has a length of {length}, of which only {size - 10} bytes are there")
        client_id = str(frame[10:position], "utf-8", "replace")
    elif length < -1:
        raise ProtocolError(f"the client id has the length {length}")
    if version < versions[2]:
        return RequestHeader(key, version, correlation_id, client_id), position
    if position >= size:
        raise ProtocolError("the request header ends too early")
    if frame[position] == 0:
        return RequestHeader(key, version, correlation_id, client_id), position + 1
    try:
        tags, position = decode_unknown_tags(frame, position + 1, frame[position], size)
    except IndexError:
        raise ProtocolError("the request header ends too early") from None
    return RequestHeader(key, version, correlation_id, client_id, tags), position


def _client_id_of_unknown(frame: Buffer, length: int) -> str:
    """For the log only: the client id of a header whose layout is not known, or nothing."""
    if not 0 < length <= min(len(frame) - 10, _SHOWN_CLIENT_ID):
        return ""
    text = str(frame[10 : 10 + length], "utf-8", "replace")
    return text if text.isprintable() else ""


def _decode_short_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """A frame of 8 or 9 bytes: enough for header version 0, or to say which API is meant."""
    if len(frame) < 8:
        raise ProtocolError(f"a frame of {len(frame)} bytes has no request header")
    key, version, correlation_id = _SHORT_START(frame)
    spec = API.get(key)
    if spec is None or not spec.serves(version):
        return RequestHeader(key, version, correlation_id), len(frame)
    if spec.request_header_version(version) > 0:
        raise ProtocolError("the request header ends too early")
    return RequestHeader(key, version, correlation_id), 8


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
    parts: list[Any] = [b"", encode_request_header(header)]
    marks: list[int] = []
    message.encode_into(parts, marks, header.api_version)
    parts[0] = sum(map(records_size, parts)).to_bytes(4, "big")
    return gather(parts, marks)


def encode_response_parts(header: RequestHeader, message: Message) -> list[Part]:
    """The whole frame of the answer to `header`, size included, as a gather list (see `Message.encode_parts`)."""
    version = header.api_version
    tagged = version >= _HEADER_1_FROM[header.api_key]
    frame = _FRAME_1 if tagged else _FRAME_0
    parts: list[Any] = []
    marks: list[int] = []
    message.encode_into(parts, marks, version)
    if marks:
        pieces = gather(parts, marks)
        start = frame(sum(map(records_size, pieces)) + 4 + tagged, header.correlation_id)
        if type(pieces[0]) is bytes:
            pieces[0] = start + pieces[0]
        else:
            pieces.insert(0, start)
        return pieces
    body = b"".join(parts)
    return [frame(len(body) + 4 + tagged, header.correlation_id) + body]


def encode_response(header: RequestHeader, message: Message) -> bytes:
    """The whole frame of the answer to `header` as bytes; file ranges are read."""
    body = message.encode(header.api_version)
    tagged = header.api_version >= _HEADER_1_FROM[header.api_key]
    return (_FRAME_1 if tagged else _FRAME_0)(len(body) + 4 + tagged, header.correlation_id) + body


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
