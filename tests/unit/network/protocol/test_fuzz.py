"""Bad bytes: truncated, flipped, random and hostile frames end in ProtocolError, quickly and in little memory."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from network.protocol.api import API
from network.protocol.errors import ProtocolError
from network.protocol.fields import Field
from network.protocol.header import RequestHeader, decode_request_header, decode_response
from network.protocol.message import Message, Struct
from network.protocol.messages.fetch import FetchRequest, FetchResponse
from network.protocol.messages.metadata import MetadataRequest, MetadataResponse
from network.protocol.messages.produce import ProduceRequest
from network.protocol.primitives import encode_unsigned_varint
from tests.support.paths import GOLDEN

MESSAGES: list[type[Message]] = [cls for spec in API.values() for cls in (spec.request, spec.response)]


def full(cls: type[Struct], version: int) -> Any:
    """An instance in which every list has two elements and every optional thing is there."""
    message = cls()
    for field in cls.FIELDS:
        if version in field.versions:
            setattr(message, field.name, _value(field, version))
    return message


def _value(field: Field, version: int) -> Any:
    if field.kind == "array":
        assert field.element is not None
        return [_value(field.element, version) for _ in range(2)]
    if field.kind == "struct":
        assert field.struct is not None
        return full(field.struct, version)  # type: ignore[arg-type]
    if field.kind == "string":
        return field.name or "text"
    if field.kind == "uuid":
        return bytes(range(16))
    if field.kind in ("bytes", "records"):
        return b"some bytes"
    return 1


def decode(cls: type[Message], data: bytes, version: int) -> bool:
    """Whether `data` decodes; any other error than ProtocolError fails the test."""
    try:
        message = cls.decode(data, version)
    except ProtocolError:
        return False
    message.encode(version)
    return True


def every_version() -> Iterator[tuple[type[Message], int]]:
    for cls in MESSAGES:
        for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
            yield cls, version


def test_full_messages_survive() -> None:
    for cls, version in every_version():
        message = full(cls, version)
        assert cls.decode(message.encode(version), version) == message


def test_no_prefix_of_a_message_decodes_to_the_same() -> None:
    for cls, version in every_version():
        data = full(cls, version).encode(version)
        for end in range(len(data)):
            assert not decode(cls, data[:end], version) or cls.decode(data[:end], version).encode(version) == data[:end]


def test_flipped_bytes() -> None:
    generator = random.Random(3)
    for cls, version in every_version():
        if version not in (cls.MIN_VERSION, cls.FLEXIBLE_VERSION, cls.MAX_VERSION):
            continue
        data = full(cls, version).encode(version)
        for position in range(len(data)):
            for value in (0, 0xFF, generator.randrange(256)):
                decode(cls, data[:position] + bytes([value]) + data[position + 1 :], version)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(which=st.sampled_from(list(every_version())), data=st.binary(max_size=200))
def test_garbage(which: tuple[type[Message], int], data: bytes) -> None:
    decode(*which[:1], data, which[1])


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=60), key=st.integers(-2, 90), version=st.integers(-2, 20))
def test_garbage_frames(data: bytes, key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + data
    try:
        header, start = decode_request_header(frame)
    except ProtocolError:
        return
    assert 0 <= start <= len(frame)
    spec = API.get(header.api_key)
    if spec is not None and spec.serves(header.api_version):
        decode(spec.request, frame[start:], header.api_version)
        with suppress(ProtocolError):
            decode_response(RequestHeader(header.api_key, header.api_version, 0), bytes(4) + data)


def test_damaged_captures() -> None:
    """Real frames with one byte changed, cut short or prolonged."""
    generator = random.Random(4)
    for path in sorted((GOLDEN / "wire").glob("*.txt")):
        key = int(path.name[:2])
        for line in path.read_text().splitlines():
            if line.startswith("#"):
                continue
            number, _, direction, text = line.split(" ")
            version, frame = int(number), bytearray.fromhex(text)[4:]
            for _ in range(20):
                damaged = bytearray(frame)
                damaged[generator.randrange(len(damaged))] = generator.randrange(256)
                if generator.random() < 0.3:
                    del damaged[generator.randrange(len(damaged)) :]
                with suppress(ProtocolError):
                    if direction == ">":
                        header, start = decode_request_header(damaged)
                        if header.api_key == key and header.api_version == version:
                            API[key].request.decode(damaged, version, start)
                    else:
                        decode_response(RequestHeader(key, version, 1), damaged)


# hostile lengths

HUGE = [0x7FFFFFFF, 0x7FFFFFFE, 0x10000000, 1_000_000, 100_000]


def hostile_frames(cls: type[Message], version: int) -> Iterator[bytes]:
    """Frames of a few bytes that announce very much, at every position of a valid message."""
    data = full(cls, version).encode(version)
    for position in range(len(data)):
        for length in HUGE:
            if version >= cls.FLEXIBLE_VERSION:
                yield data[:position] + encode_unsigned_varint(length) + data[position + 1 :]
            else:
                yield data[:position] + length.to_bytes(4, "big") + data[position + 4 :]
    yield data[: len(data) // 2] + b"\xff" * 40


@pytest.mark.parametrize(
    ("cls", "version"),
    [
        (ProduceRequest, 3),
        (ProduceRequest, 11),
        (FetchRequest, 11),
        (FetchRequest, 17),
        (FetchResponse, 11),
        (FetchResponse, 17),
        (MetadataRequest, 8),
        (MetadataRequest, 12),
        (MetadataResponse, 8),
        (MetadataResponse, 12),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value),
)
def test_announced_lengths_allocate_nothing(cls: type[Message], version: int) -> None:
    frames = list(hostile_frames(cls, version))
    decode(cls, frames[0], version)
    with traced_memory():
        for frame in frames:
            # The trace counts other threads too (of clients that earlier tests used): those don't do it every time.
            assert any(allocated(cls, frame, version) < 30_000 for _ in range(5)), frame.hex()


@contextmanager
def traced_memory() -> Iterator[None]:
    """Without the garbage collector, which would run what earlier tests have left to finalize."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
        gc.enable()


def allocated(cls: type[Message], frame: bytes, version: int) -> int:
    """The most bytes that were allocated at once while it was decoded."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    decode(cls, frame, version)
    return tracemalloc.get_traced_memory()[1] - before


def test_an_array_of_the_smallest_elements_is_bounded_by_the_frame() -> None:
    """Objects are larger than their bytes, but their number cannot exceed what the frame can hold."""
    frame = b"\xff\xff\xff\x7f" + bytes(1000)  # 268 million topics in 1,000 bytes
    with pytest.raises(ProtocolError, match="has a length of"):
        MetadataRequest.decode(frame, 12)
    with pytest.raises(ProtocolError, match="has a length of"):
        MetadataRequest.decode(b"\x7f\xff\xff\xff" + bytes(1000), 4)


def test_negative_lengths_are_refused() -> None:
    for length in (-2, -100, -(1 << 31)):
        with pytest.raises(ProtocolError, match=f"length {length}"):
            MetadataRequest.decode(length.to_bytes(4, "big", signed=True) + bytes(10), 4)


def test_many_empty_tags_are_bounded_by_the_frame() -> None:
    plain = MetadataRequest(topics=[]).encode(12)[:-1]
    with pytest.raises(ProtocolError):
        MetadataRequest.decode(plain + b"\xff\xff\xff\xff\x0f" + bytes(100), 12)


def test_a_varint_that_never_ends() -> None:
    for data in (b"\xff" * 100, b"\x80" * 100, b"\xff\xff\xff\xff\x7f"):
        with pytest.raises(ProtocolError):
            MetadataRequest.decode(data, 12)
