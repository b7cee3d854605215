from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.errors import InvalidRecordError
from log.records import record_walk
from log.records.batch import RecordBatch
from log.records.record import BatchBuilder, Record, iter_records
from log.records.record_walk import WalkResult, _walk, walk_records
from log.records.uneven_walk import walk_uneven
from log.records.varint import decode_varint


def _batch(records: list[tuple[Any, ...]]) -> RecordBatch:
    builder = BatchBuilder()
    for timestamp, key, value, headers, gap in records:
        builder.append(timestamp, key, value, headers, offset=builder.last_offset + 1 + gap)
    return RecordBatch(builder.build())


def _expected(batch: RecordBatch) -> WalkResult:
    found: list[Record] = list(iter_records(batch))
    deltas = [record.timestamp - batch.base_timestamp for record in found]
    return WalkResult(
        max(deltas),
        min(deltas),
        [record.offset for record in found] == list(range(len(found))),
        any(record.key is None for record in found),
    )


# Runs of equal records, with changes between and sometimes within them.
pieces = st.lists(
    st.tuples(
        st.integers(1, 150),  # records
        st.integers(0, 3000),  # size of the value
        st.sampled_from([None, 0, 5, 70]),  # size of the key
        st.sampled_from([0, 1, 40, 9000, 3_000_000]),  # step of the timestamp
        st.integers(0, 2),  # headers
        st.sampled_from([0, 0, 0, 1]),  # gap before the first record
    ),
    min_size=1,
    max_size=5,
)


@given(pieces, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_walk_agrees_with_the_iterator(found: Any, rng: random.Random) -> None:
    timestamp, records = 1_000_000_000, []
    for count, size, key, step, headers, gap in found:
        for index in range(count):
            timestamp += step if rng.random() < 0.95 else -step
            records.append(
                (
                    max(0, timestamp),
                    None if key is None else b"k" * key,
                    b"v" * size,
                    [("name", b"x" * 8)] * headers,
                    gap if index == 0 else 0,
                )
            )
    batch = _batch(records)
    assert walk_records(bytes(batch.payload), batch.record_count) == _expected(batch)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 60),  # records
            st.sampled_from([(0, 10), (50, 80), (0, 300), (8000, 8400)]),  # sizes of values
            st.sampled_from([(0, 0), (0, 63), (60, 70)]),  # sizes of keys
            st.sampled_from([0, 1, 70, 20_000]),  # step of the timestamp
        ),
        min_size=1,
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=50, deadline=None)
def test_walk_of_varied_records(found: Any, rng: random.Random) -> None:
    timestamp, records = 1_000_000_000, []
    for count, sizes, keys, step in found:
        for _ in range(count):
            timestamp += rng.randint(0, step)
            key = None if rng.random() < 0.02 else b"k" * rng.randint(*keys)
            value = None if rng.random() < 0.02 else b"v" * rng.randint(*sizes)
            records.append((timestamp, key, value, [("h", b"x")] if rng.random() < 0.02 else [], 0))
    batch = _batch(records)
    assert walk_records(bytes(batch.payload), batch.record_count) == _expected(batch)


@pytest.mark.parametrize("size", [0, 10, 100])
def test_long_uniform_batches(size: int) -> None:
    batch = _batch([(1000 + i // 7, b"key", b"v" * size, (), 0) for i in range(20_000)])
    assert walk_records(bytes(batch.payload), 20_000) == WalkResult(19_999 // 7, 0, True, False)


@pytest.mark.parametrize("different", [1, 2, 8, 9, 60])
@pytest.mark.parametrize("sign", [1, -1, 0])
def test_runs_with_few_and_with_many_times(different: int, sign: int) -> None:
    records = [
        (1_000_000 + (index * 7 % different) * (sign or (-1) ** index), None, b"value", (), 0) for index in range(300)
    ]
    batch = _batch(records)
    assert walk_records(bytes(batch.payload), len(records)) == _expected(batch)


@pytest.mark.parametrize("size", [0, 63, 64, 8191, 8192, 70_000])
@pytest.mark.parametrize("headers", [(), (("name", bytes(100)), ("other", None))])
def test_runs_whose_lengths_take_one_two_or_three_bytes(size: int, headers: tuple[Any, ...]) -> None:
    batch = _batch([(1_000_000, bytes(size // 2), bytes(size), headers, 0) for _ in range(30)])
    assert walk_records(bytes(batch.payload), 30) == _expected(batch)


@pytest.mark.parametrize("key", [None, b"", b"key", b"k" * 70], ids=lambda key: f"key={key and len(key)}")
@pytest.mark.parametrize("size", [None, 0, 5, 52, 63, 64, 200, 8100, 8190, 8200, 17_000])
def test_the_short_way_of_a_lone_record_accepts_the_same_bytes(key: bytes | None, size: int | None) -> None:
    data = bytes(_batch([(1000, key, None if size is None else b"v" * size, (), 0)]).payload)
    variants = [data, data[:-1], data + b"\0", data[:1], b""]
    variants += [data[:at] + bytes([byte]) + data[at + 1 :] for at in (*range(8), len(data) - 1) for byte in range(256)]
    for variant in variants:
        try:
            expected = _walk(variant, 1, 0, len(variant))
        except (InvalidRecordError, IndexError):
            expected = None
        try:
            found = walk_records(variant, 1)
        except InvalidRecordError:
            found = None
        assert found == expected, variant[:20]
    assert walk_records(bytearray(data), 1) == walk_records(data, 1)


def _verdict(data: bytes, count: int) -> bool:
    try:
        walk_records(data, count)
    except InvalidRecordError:
        return False
    return True


def _plain_verdict(data: bytes, count: int) -> bool:
    builder = BatchBuilder()
    builder.append(0, None, None)
    built = builder.build()[:61] + data
    built[8:12] = (len(built) - 12).to_bytes(4, "big")
    built[57:61] = count.to_bytes(4, "big")
    try:
        list(iter_records(RecordBatch(built)))
    except InvalidRecordError:
        return False
    return True


@pytest.mark.parametrize("seed", [*range(4), 4, 6, 8, 100, 20_000])
def test_damage_anywhere_is_judged_like_by_the_iterator(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [20] * 90 if seed < 4 else [rng.randrange(0, 100) for _ in range(90)]
    records = [(1000 + (i * seed), b"key", b"v" * sizes[i], [("h", b"1")] * (seed % 2), 0) for i in range(90)]
    batch = _batch(records)
    data = bytes(batch.payload)
    judged = {True: 0, False: 0}
    for _ in range(200):
        position = rng.randrange(len(data))
        damaged = bytearray(data)
        damaged[position] ^= 1 << rng.randrange(8)
        verdict = _verdict(bytes(damaged), 90)
        assert verdict == _plain_verdict(bytes(damaged), 90), position
        judged[verdict] += 1
    assert judged[True]
    assert judged[False]


def test_cuts_and_wrong_counts() -> None:
    batch = _batch([(1000, b"key", b"v" * 20, (), 0) for _ in range(50)])
    data = bytes(batch.payload)
    for cut in range(len(data)):
        assert not _verdict(data[:cut], 50)
    for count in (0, 49, 51):
        assert not _verdict(data, count)
    assert not _verdict(data + b"\x00", 50)
    assert _verdict(b"", 0)


@pytest.mark.parametrize("around", [b"", b"\x02" * 40, b"\xff" * 40], ids=["alone", "numbers", "long numbers"])
@pytest.mark.parametrize("count", [1, 12])
def test_records_in_the_middle_of_a_request(around: bytes, count: int) -> None:
    """What stands before and behind the records is not looked at, whatever bytes of theirs are spoilt."""
    data = bytes(_batch([(1000, b"k", b"v" * 9, (), i) for i in range(count)]).payload)
    variants = [data, data[:-1], data + b"\0"]
    variants += [
        data[:at] + bytes([byte]) + data[at + 1 :] for at in range(0, len(data), 3) for byte in range(0, 256, 5)
    ]
    for variant in variants:
        request = bytearray(around + variant + around)
        start, end = len(around), len(around) + len(variant)
        try:
            expected = walk_records(variant, count)
        except InvalidRecordError:
            with pytest.raises(InvalidRecordError):
                walk_records(request, count, start, end)
        else:
            assert walk_records(request, count, start, end) == expected


def _outcome(data: bytes, count: int) -> WalkResult | None:
    try:
        return walk_records(data, count)
    except InvalidRecordError:
        return None


def _by_record(data: bytes, count: int, monkeypatch: pytest.MonkeyPatch) -> WalkResult | None:
    with monkeypatch.context() as patch:
        patch.setattr(record_walk, "walk_uneven", lambda *_: None)
        patch.setattr(record_walk, "_run", lambda *_: None)
        return _outcome(data, count)


def _uneven(
    rng: random.Random, count: int, sizes: tuple[int, int], keys: float, times: int, gaps: float
) -> RecordBatch:
    return _batch(
        [
            (
                10**12 + rng.randint(-times, times),
                bytes(rng.randrange(64)) if rng.random() < keys else None,
                bytes(rng.randint(*sizes)),
                (),
                int(rng.random() < gaps),
            )
            for _ in range(count)
        ]
    )


@pytest.mark.parametrize("count", [40, 4000])
@pytest.mark.parametrize("sizes", [(0, 130), (50, 80), (500, 1500), (8000, 8300)], ids=str)
@pytest.mark.parametrize("keys", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("times", "gaps"), [(0, 0.0), (50, 0.01), (10**5, 0.0), (10**9, 0.001), (10**11, 0.0)])
def test_records_of_differing_sizes(
    count: int, sizes: tuple[int, int], keys: float, times: int, gaps: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = min(count, 1_000_000 // sizes[1])
    batch = _uneven(random.Random(count), count, sizes, keys, times, gaps)
    data = bytes(batch.payload)
    found = _outcome(data, count)
    assert found is not None
    assert found == _by_record(data, count, monkeypatch)


@pytest.mark.parametrize("keys", [0.0, 0.5, 1.0])
def test_columns_find_the_same_faults(keys: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other values of every byte in front of some records that are looked at by columns, and of the byte before."""
    count = 90
    batch = _uneven(random.Random(1), count, (40, 90), keys, 100, 0.0)
    data = bytes(batch.payload)
    starts = [0]
    for _ in range(count):
        length, behind = decode_varint(data, starts[-1])
        starts.append(behind + length)
    looked_at = walk_uneven(data, starts[10], len(data), 10, 75)
    assert looked_at is not None
    assert looked_at.records == 75
    for record in (12, 30, 66, 89):
        for at in range(starts[record] - 1, starts[record] + 11):
            for byte in (*range(0, 256, 7), 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF):
                damaged = data[:at] + bytes([byte]) + data[at + 1 :]
                assert _outcome(damaged, count) == _by_record(damaged, count, monkeypatch), (record, at, byte)


def test_what_columns_cannot_do_is_left_to_the_plain_walk() -> None:
    rng = random.Random(2)
    with_headers = [(1000, None, bytes(rng.randrange(500)), [("h", b"x")] * (i % 20 == 7), 0) for i in range(100)]
    nulls = [(1000, b"k", None if i == 50 else bytes(i), (), 0) for i in range(100)]
    long_keys = [(1000, bytes(60 + i), bytes(i), (), 0) for i in range(100)]
    for records in (with_headers, nulls, long_keys):
        batch = _batch(records)
        assert walk_records(bytes(batch.payload), 100) == _expected(batch)


def test_offsets_of_five_bytes_do_not_lend_each_other_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fifth byte has three bits that do not count."""

    def record(offset: int, ignored: int = 0) -> bytes:
        low = bytes(2 * offset >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21))
        body = b"\0\0" + low + bytes([ignored << 4]) + b"\1\2a\0"
        return bytes([2 * len(body)]) + body

    data = b"".join([*map(record, range(20)), record(20, ignored=2), record(20), *map(record, range(22, 40))])
    found = walk_records(data, 40)
    assert found == _by_record(data, 40, monkeypatch)
    assert not found.offsets_in_sequence
