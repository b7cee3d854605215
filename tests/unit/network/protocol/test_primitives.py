"""Varints, string lengths, tags, uuids, error codes."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode

from network.protocol.errors import ApiError, ErrorCode, ProtocolError
from network.protocol.primitives import (
    decode_numbers,
    decode_unsigned_varint,
    encode_numbers,
    encode_tags,
    encode_unsigned_varint,
)
from network.protocol.uuids import ONE_UUID, ZERO_UUID, from_text, new_uuid, to_text
from timer.chance import SeededChance, SystemChance


@given(st.integers(0, (1 << 32) - 1))
def test_unsigned_varints(value: int) -> None:
    data = encode_unsigned_varint(value)
    assert decode_unsigned_varint(b"#" + data + b"#", 1) == (value, 1 + len(data))
    assert len(data) == max(1, -(-value.bit_length() // 7))


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16383, "ff7f"), (16384, "808001"), (2**32 - 1, "ffffffff0f")],
)
def test_known_varints(value: int, data: str) -> None:
    assert encode_unsigned_varint(value).hex() == data


@pytest.mark.parametrize("data", ["", "80", "ffff", "ffffffff10", "ffffffffff0f", "808080808000"])
def test_bad_varints(data: str) -> None:
    with pytest.raises(ProtocolError):
        decode_unsigned_varint(bytes.fromhex(data), 0)


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_varints_out_of_range(value: int) -> None:
    with pytest.raises(ProtocolError):
        encode_unsigned_varint(value)


@pytest.mark.parametrize("count", [0, 1, 32, 33, 1000])
def test_numbers(count: int) -> None:
    values = list(range(count))
    data = encode_numbers(values, "i")
    assert len(data) == 4 * count
    assert decode_numbers(data, 0, count, "i") == values


def test_tags_are_sorted() -> None:
    assert encode_tags([], None) == b"\0"
    assert encode_tags([(1, b"b")], {2: b"c", 0: b"a"}).hex() == "03" + "000161" + "010162" + "020163"


@given(st.binary(min_size=16, max_size=16))
def test_uuid_text(value: bytes) -> None:
    assert from_text(to_text(value)) == value


def test_uuids() -> None:
    assert to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert to_text(ONE_UUID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    made = {new_uuid(SystemChance()) for _ in range(500)}
    assert len(made) == 500
    assert new_uuid(SeededChance(3)) == new_uuid(SeededChance(3)) != new_uuid(SeededChance(4))
    assert not any(to_text(value).startswith("-") for value in made)
    assert all(uuid.UUID(bytes=value).version == 4 for value in made)


@pytest.mark.parametrize("text", ["", "A", "A" * 21, "A" * 23, "A" * 21 + "=", "ä" * 22, "A" * 21 + "B", "+" * 22])
def test_bad_uuid_texts(text: str) -> None:
    with pytest.raises(ValueError, match="not a uuid"):
        from_text(text)


def test_error_codes_are_those_of_another_implementation() -> None:
    for other in KioErrorCode:
        if other in ErrorCode:
            ours = ErrorCode.of(int(other))
            assert ours.name.lower() == other.name
            assert ours.retriable == other.retriable, ours
    # 128 came with version 1 of ConsumerGroupHeartbeat.
    assert {int(code) for code in ErrorCode} == set(range(-1, 129))


def test_error_codes() -> None:
    assert ErrorCode.of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.of(30000) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode["NOT_CONTROLLER"] == 41
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.invalid_metadata
    assert not ErrorCode.NONE.retriable
    assert all(code.message for code in ErrorCode)


def test_api_errors() -> None:
    error = ApiError(ErrorCode.INVALID_REQUEST, "two topics have one name")
    assert (error.code, error.message, str(error)) == (42, "two topics have one name", "two topics have one name")
    assert ApiError(ErrorCode.NOT_CONTROLLER).message is None
    assert str(ApiError(ErrorCode.NOT_CONTROLLER)) == ErrorCode.NOT_CONTROLLER.message
