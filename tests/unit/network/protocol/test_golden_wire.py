"""Every frame captured from Apache Kafka 3.9.1 decodes, and encodes back to the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from network.protocol.api import API
from network.protocol.header import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_request_parts,
    encode_response,
    encode_response_parts,
)
from tests.support.paths import GOLDEN, SHARED_GOLDEN, shared_golden


class Frame(NamedTuple):
    key: int
    version: int
    correlation_id: int
    is_request: bool
    data: bytes


def read_frames(path: Path) -> list[Frame]:
    key = int(path.name[:2])
    frames = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            version, correlation_id, direction, text, *_ = line.split(" ")
            frames.append(Frame(key, int(version), int(correlation_id), direction == ">", bytes.fromhex(text)))
    return frames


WIRE = SHARED_GOLDEN / "wire" if SHARED_GOLDEN.is_dir() else GOLDEN / "wire"
FILES = sorted(WIRE.glob("[0-9][0-9]_*.txt"))


def check_request(frame: Frame) -> None:
    header, start = decode_request_header(memoryview(frame.data)[4:])
    assert (header.api_key, header.api_version) == (frame.key, frame.version)
    assert header.correlation_id == frame.correlation_id
    message = API[frame.key].request.decode(memoryview(frame.data)[4:], frame.version, start)
    expected = frame.data
    if API[frame.key].request_header_version(frame.version) > 0 and expected[12:14] == b"\xff\xff":
        expected = expected[:12] + b"\0\0" + expected[14:]  # a null client id is an empty one
    assert encode_request(header, message) == expected
    assert b"".join(bytes(part) for part in encode_request_parts(header, message)) == expected  # type: ignore[arg-type]


def check_response(frame: Frame) -> None:
    header = RequestHeader(frame.key, frame.version, frame.correlation_id)
    message = decode_response(header, memoryview(frame.data)[4:])
    assert encode_response(header, message) == frame.data
    assert b"".join(bytes(part) for part in encode_response_parts(header, message)) == frame.data  # type: ignore[arg-type]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_frames_decode_and_encode_to_the_same_bytes(path: Path) -> None:
    frames = read_frames(path)
    assert frames
    for frame in frames:
        if frame.is_request:
            check_request(frame)
        else:
            check_response(frame)


def test_there_are_captures() -> None:
    assert FILES


def test_whole_conversations() -> None:
    """Every frame of whole connections, SASL exchanges included."""
    paths = sorted((shared_golden() / "wire" / "conversations").glob("*.txt"))
    assert len(paths) > 20
    for path in paths:
        for line in path.read_text().splitlines():
            if line.startswith("#"):
                continue
            key, version, correlation_id, direction, text = line.split(" ")[:5]
            frame = Frame(int(key), int(version), int(correlation_id), direction == ">", bytes.fromhex(text))
            if frame.is_request:
                check_request(frame)
            else:
                check_response(frame)
