from __future__ import annotations

import contextlib
import gzip
import random
import struct
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.errors import DecompressionError, RecordTooLargeError, UnknownCompressionError
from log.records import compression
from log.records.compression import Codec, codec_for, codec_named, compress, decompress, decompress_into
from log.records.xxhash32 import xxh32

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@given(st.binary(max_size=2000), st.integers(1, 100), st.sampled_from(CODECS))
@settings(max_examples=100, deadline=None)
def test_round_trip(data: bytes, times: int, codec: Codec) -> None:
    assert decompress(codec, compress(codec, data * times)) == data * times


@given(st.binary(max_size=500), st.sampled_from(CODECS))
@settings(max_examples=300, deadline=None)
def test_garbage_raises_only_our_errors(data: bytes, codec: Codec) -> None:
    with contextlib.suppress(DecompressionError, RecordTooLargeError):
        decompress(codec, data, 1_000_000)


@pytest.mark.parametrize("codec", CODECS)
def test_cut_streams_are_refused(codec: Codec) -> None:
    data = bytes(range(256)) * 500
    packed = compress(codec, data)
    step = max(1, len(packed) // 200)
    for cut in range(1, len(packed), step):
        with contextlib.suppress(DecompressionError):
            assert decompress(codec, packed[:cut]) != data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 32767, 32768, 32769, 65535, 65536, 65537, 300_000])
def test_block_borders(codec: Codec, size: int) -> None:
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    packed = compress(codec, data)
    assert decompress(codec, packed, size) == data
    if size:
        with pytest.raises(RecordTooLargeError):
            decompress(codec, packed, size - 1)


def test_written_frames_begin_as_kafka_writes_them() -> None:
    assert compress(Codec.SNAPPY, b"abc")[:16] == bytes.fromhex("82534e41505059000000000100000001")
    assert compress(Codec.LZ4, b"abc")[:7] == bytes.fromhex("04224d18604082")
    assert compress(Codec.LZ4, b"abc")[-4:] == bytes(4)
    assert compress(Codec.GZIP, b"abc")[:2] == b"\x1f\x8b"
    assert compress(Codec.ZSTD, b"abc")[:4] == b"\x28\xb5\x2f\xfd"


def test_other_readers_read_what_is_written() -> None:
    data = b"some text " * 20_000
    assert gzip.decompress(compress(Codec.GZIP, data)) == data
    assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, data))) == data
    assert bytes(cramjam.zstd.decompress(compress(Codec.ZSTD, data))) == data


def test_several_members_frames_and_streams() -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.ZSTD):
        assert decompress(codec, compress(codec, b"one ") + compress(codec, b"two")) == b"one two"


def test_bare_snappy_block() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"abc" * 100))
    assert decompress(Codec.SNAPPY, raw) == b"abc" * 100


def test_lying_snappy_length() -> None:
    with pytest.raises((DecompressionError, RecordTooLargeError)):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\x3f" + b"a")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_level_shows_in_the_size(codec: int) -> None:
    """Over several blocks of lz4, one of which cannot be compressed."""
    words = [b"alpha", b"beta", b"gamma", b"delta", b"epsilon", b"zeta", b"eta", b"theta"]
    chance = random.Random(1)
    data = b" ".join(chance.choice(words) for _ in range(30_000)) + chance.randbytes(70_000)
    usual, *others = (compress(codec, data, level) for level in (None, 1, 5, 9))
    for each in (usual, *others):
        assert decompress(codec, each) == data
    if codec == Codec.LZ4:
        assert len(others[1]) < len(others[0]) < len(usual) == len(others[2])  # its default is the fast compressor
    else:
        assert len(others[2]) < len(others[0])


def test_lz4_header_rules() -> None:
    good = bytearray(compress(Codec.LZ4, b"abc" * 100))

    def with_header(flags: int, descriptor: int) -> bytes:
        frame = bytearray(good)
        frame[4], frame[5] = flags, descriptor
        frame[6] = (xxh32(bytes(frame[4:6])) >> 8) & 0xFF
        return bytes(frame)

    assert decompress(Codec.LZ4, with_header(0x60, 0x70)) == b"abc" * 100
    for flags, descriptor in ((0x40, 0x40), (0xA0, 0x40), (0x61, 0x40), (0x60, 0x30), (0x60, 0xC0)):
        with pytest.raises(DecompressionError):
            decompress(Codec.LZ4, with_header(flags, descriptor))
    good[6] ^= 1
    with pytest.raises(DecompressionError):
        decompress(Codec.LZ4, good)
    assert decompress(Codec.LZ4, good, check_lz4_header=False) == b"abc" * 100


def test_lz4_block_checksums_and_content_size() -> None:
    block = b"hello, world"
    header = bytes((0x60 | 0x10 | 0x08 | 0x04, 0x40)) + struct.pack("<Q", len(block))
    frame = b"\x04\x22\x4d\x18" + header + bytes(((xxh32(header) >> 8) & 0xFF,))
    body = struct.pack("<I", len(block) | 0x80000000) + block
    end = struct.pack("<I", 0) + b"1234"
    assert decompress(Codec.LZ4, frame + body + struct.pack("<I", xxh32(block)) + end) == block
    with pytest.raises(DecompressionError):
        decompress(Codec.LZ4, frame + body + struct.pack("<I", xxh32(block) ^ 1) + end)


def test_xxh32_vectors() -> None:
    assert xxh32(b"") == 0x02CC5D05
    assert xxh32(b"abc") == 0x32D153FF
    assert xxh32(b"Nobody inspects the spammish repetition") == 0xE2293B2F


def test_unknown_codecs() -> None:
    for number in (5, 6, 7):
        with pytest.raises(UnknownCompressionError):
            codec_for(number)
        with pytest.raises(UnknownCompressionError):
            decompress(number, b"")
    assert codec_named("uncompressed") is Codec.NONE
    with pytest.raises(UnknownCompressionError):
        codec_named("brotli")


class _Room:
    """Memory that grows, with something in it already."""

    def __init__(self, start: bytes) -> None:
        self.data = bytearray(start)

    def space(self, at: int, size: int) -> memoryview:
        self.data = self.data[:at] + bytearray(max(0, at + size - len(self.data[:at])))
        return memoryview(self.data)[at:]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [0, 10, 100_000, 3_000_000])
def test_a_payload_is_expanded_behind_what_is_there(codec: Codec, size: int) -> None:
    plain = bytes(range(256)) * (size // 512) + bytes(size // 2)
    room = _Room(b"before")
    assert decompress_into(codec, compress(codec, plain), room, 6) == 6 + len(plain)
    assert bytes(room.data[: 6 + len(plain)]) == b"before" + plain


@pytest.mark.parametrize("codec", CODECS)
def test_expansion_into_a_room_has_a_limit_and_refuses_what_is_cut(codec: Codec) -> None:
    plain = bytes(range(256)) * 1000
    packed = compress(codec, plain)
    with pytest.raises(RecordTooLargeError):
        decompress_into(codec, packed, _Room(b""), 0, len(plain) - 1)
    with pytest.raises(DecompressionError):
        decompress_into(codec, packed[: len(packed) // 2], _Room(b""), 0)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_what_was_expanded_before_is_in_no_later_result(codec: Codec) -> None:
    long, short = b"a" * 300_000, b"b" * 1_000
    for plain in (long, short, long, b"", short):
        assert decompress(codec, compress(codec, plain), limit=1 << 20) == plain


def test_rooms_are_kept_but_few_and_none_that_grew(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = compression._kept
    monkeypatch.setattr(compression, "_kept", deque(maxlen=kept.maxlen))
    packed = compress(Codec.ZSTD, b"a" * 10_000)
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: decompress(Codec.ZSTD, packed), range(200))) == {b"a" * 10_000}
    assert 1 <= len(compression._kept) <= 4
    large = b"c" * (compression._KEPT_BYTES + 1)
    assert decompress(Codec.LZ4, compress(Codec.LZ4, large)) == large
    assert all(len(room.data) == compression._KEPT_BYTES for room in compression._kept)


def test_a_failure_gives_the_room_back() -> None:
    compression._kept.clear()
    with pytest.raises(DecompressionError):
        decompress(Codec.ZSTD, b"\x28\xb5\x2f\xfd" + bytes(20))
    assert len(compression._kept) == 1
