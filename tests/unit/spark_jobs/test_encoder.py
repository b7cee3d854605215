"""Rows to record batches, against the record iterator of the log package."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from log.records.batch import RecordBatch
from log.records.compression import Codec
from log.records.record import iter_records
from spark_jobs.encode.encoder import Columns, Headers, RowError, Slices, encode_batches
from spark_jobs.encode.records import hash_keys
from tests.support.batches import iter_batches

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
Row = tuple[bytes | None, bytes | None, list[dict[str, object]] | None, int]


def made_up_rows(count: int, seed: int) -> list[Row]:
    draw = random.Random(seed)
    return [
        (  # type: ignore[misc]
            draw.choice([None, b"", draw.randbytes(draw.randrange(20))]),
            draw.choice([None, b"", draw.randbytes(draw.randrange(300))]),
            draw.choice([None, [], [{"key": "h", "value": None}, {"key": "ü", "value": b"x"}]]),
            1_700_000_000_000 + draw.randrange(-(10**6), 10**6),
        )
        for _ in range(count)
    ]


def columns_of(rows: list[Row], offset: int = 0, binary: pa.DataType | None = None) -> Columns:
    """Columns of rows; ``offset`` makes them slices of longer arrays."""
    padded = [(b"skipped", b"skipped", [{"key": "s", "value": b"s"}], 0)] * offset + rows
    keys, values, headers, times = zip(*padded, strict=True)
    return Columns(
        Slices.of(pa.array(keys, binary or pa.binary())[offset:]),
        Slices.of(pa.array(values, binary or pa.binary())[offset:]),
        Headers.of(pa.array(headers, HEADERS)[offset:], len(rows)),
        np.array(times[offset:], np.int64),
    )


def records_of(data: bytes | bytearray | memoryview) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for batch in iter_batches(bytes(data)):
        assert isinstance(batch, RecordBatch)
        batch.ensure_valid()
        found += [(r.key, r.value, list(r.headers), r.timestamp) for r in iter_records(batch)]
    return found


def expected_of(rows: list[Row]) -> list[tuple[object, ...]]:
    return [(k, v, [(h["key"], h["value"]) for h in headers or []], time) for k, v, headers, time in rows]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(("count", "offset"), [(1, 0), (10, 3), (3000, 0)])
def test_records_come_back(codec: Codec, count: int, offset: int) -> None:
    rows = made_up_rows(count, count)
    batches = list(encode_batches(columns_of(rows, offset), np.arange(count), 16_384, codec))
    sequence = 0
    data = bytearray()
    for batch in batches:
        batch.stamp(7, 1, sequence)
        (parsed,) = iter_batches(batch.data)
        assert isinstance(parsed, RecordBatch)
        assert (parsed.producer_id, parsed.producer_epoch, parsed.base_sequence) == (7, 1, sequence)
        assert parsed.last_offset == batch.count - 1
        assert parsed.max_timestamp == max(r.timestamp for r in iter_records(parsed))
        sequence += batch.count
        data += batch.data
        assert codec is not Codec.NONE or len(batch.data) <= 16_384
    assert records_of(data) == expected_of(rows)
    assert len(batches) >= sum(len(v or b"") for _, v, _, _ in rows) // 16_384


def test_chosen_rows_in_their_order() -> None:
    rows = made_up_rows(50, 5)
    chosen = [40, 3, 17]
    (batch,) = encode_batches(columns_of(rows), np.array(chosen), 1 << 20, Codec.NONE)
    batch.stamp(-1, -1, -1)
    assert records_of(batch.data) == expected_of([rows[i] for i in chosen])


def test_a_record_larger_than_the_limit_has_its_own_batch() -> None:
    rows: list[Row] = [(None, b"x" * size, None, 0) for size in (10, 5000, 10)]
    batches = list(encode_batches(columns_of(rows), np.arange(3), 1000, Codec.NONE))
    assert [batch.count for batch in batches] == [1, 1, 1]


def test_strings_and_large_types() -> None:
    rows: list[Row] = [(b"a", b"b", None, 0), (None, "ü".encode(), None, 1)]
    for type_ in (pa.large_binary(), pa.string(), pa.large_string()):
        texts = [(None if k is None else k.decode(), v.decode()) for k, v, _, _ in rows if v is not None]
        values = texts if pa.types.is_string(type_) or pa.types.is_large_string(type_) else [r[:2] for r in rows]
        keys, contents = zip(*values, strict=True)
        columns = Columns(
            Slices.of(pa.array(keys, type_)),
            Slices.of(pa.array(contents, type_)),
            Headers.of(None, 2),
            np.array([0, 1], np.int64),
        )
        (batch,) = encode_batches(columns, np.arange(2), 1000, Codec.NONE)
        batch.stamp(-1, -1, -1)
        assert records_of(batch.data) == expected_of(rows)


def test_a_header_without_key_is_refused() -> None:
    with pytest.raises(RowError, match="null key"):
        Headers.of(pa.array([[{"key": None, "value": b""}]], HEADERS), 1)


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"", 275646681)],
)
def test_keys_are_hashed_as_kafkas_clients_do(key: bytes, hashed: int) -> None:
    slices = Slices.of(pa.array([b"in front", key, None], pa.binary()))
    hashes = np.empty(3, np.int64)
    hash_keys(slices.data, slices.edges, hashes)
    assert hashes[1] == hashed & 0x7FFFFFFF
    assert hashes[2] == -1


def test_without_llvmlite_the_same_bytes_come_out() -> None:
    code = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "import numpy as np\n"
        "from tests.unit.spark_jobs.test_encoder import columns_of, made_up_rows\n"
        "from spark_jobs import compiled\n"
        "from spark_jobs.encode.encoder import encode_batches\n"
        "from spark_jobs.encode.records import hash_keys\n"
        "assert not compiled.COMPILED\n"
        "columns = columns_of(made_up_rows(200, 1), 2)\n"
        "hashes = np.empty(200, np.int64)\n"
        "hash_keys(columns.keys.data, columns.keys.edges, hashes)\n"
        "print(hashes.tolist())\n"
        "for batch in encode_batches(columns, np.arange(200), 4000, 0):\n"
        "    batch.stamp(1, 2, 3)\n"
        "    print(bytes(batch.data).hex())\n"
    )
    root = Path(__file__).resolve().parents[3]
    plain = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert plain.returncode == 0, plain.stderr
    columns = columns_of(made_up_rows(200, 1), 2)
    hashes = np.empty(200, np.int64)
    hash_keys(columns.keys.data, columns.keys.edges, hashes)
    lines = [str(hashes.tolist())]
    for batch in encode_batches(columns, np.arange(200), 4000, Codec.NONE):
        batch.stamp(1, 2, 3)
        lines.append(bytes(batch.data).hex())
    assert plain.stdout.splitlines() == lines


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_split_batch_keeps_records_and_sequences(codec: Codec) -> None:
    rows = made_up_rows(21, 5)
    (batch,) = encode_batches(columns_of(rows), np.arange(len(rows)), 1 << 20, codec)
    batch.stamp(7, 3, 2**31 - 5)
    parts = batch.split()
    assert records_of(b"".join(bytes(part.data) for part in parts)) == expected_of(rows)
    headers = [RecordBatch(part.data) for part in parts]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [(7, 3, 2**31 - 5), (7, 3, 5)]
    assert [part.count for part in parts] == [10, 11]
    batch.stamp(-1, -1, -1)
    assert [RecordBatch(part.data).base_sequence for part in batch.split()] == [-1, -1]
