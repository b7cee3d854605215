"""Decoding record sets to Arrow, against the record iterator of the log package."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.decode import walk
from spark_jobs.decode.decoder import CorruptBatchError, Decoder

ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")

# A data batch (key k, value v, header h=1) and a commit marker, as Kafka writes them.
DATA = bytes.fromhex(
    "00000000000000000000003e0000000002675a95fd0000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff0000000118000000026b02760202680231"
)
COMMIT = bytes.fromhex(
    "00000000000000000000004200000000022f9f220c0030000000000000018bcfe568000000018bcfe568000000000000000001"
    "0000ffffffff000000012000000008000000010c00000000000000"
)


def at(offset: int, batch: bytes) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


def rows(decoder: Decoder, data: bytes, **options: bool) -> list[dict[str, object]]:
    return [row for batch in decoder.decode(data, **options) for row in batch.to_pylist()]


def test_columns_are_those_of_spark() -> None:
    decoder = Decoder("t", 3, 0, 100, ALL)
    (batch,) = decoder.decode(at(7, DATA))
    assert batch.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert batch.schema.field("headers").type == pa.list_(
        pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    )
    (row,) = batch.to_pylist()
    assert row["timestamp"].timestamp() == 1_700_000_000
    del row["timestamp"]
    assert row == {
        "key": b"k",
        "value": b"v",
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}],
    }
    assert decoder.next_offset == 8


def test_control_batches_give_no_rows_but_move_the_position() -> None:
    decoder = Decoder("t", 0, 0, 100, ("offset",))
    assert rows(decoder, at(0, DATA) + at(1, COMMIT)) == [{"offset": 0}]
    assert decoder.next_offset == 2


def test_a_cut_batch_is_left_for_the_next_answer() -> None:
    decoder = Decoder("t", 0, 0, 100, ("offset",))
    assert rows(decoder, at(0, DATA) + at(1, DATA)[:-1]) == [{"offset": 0}]
    assert decoder.next_offset == 1


def test_the_range_is_kept() -> None:
    decoder = Decoder("t", 0, 2, 4, ("offset",))
    data = b"".join(at(offset, DATA) for offset in range(6))
    assert [row["offset"] for row in rows(decoder, data)] == [2, 3]


@pytest.mark.parametrize("position", range(8, len(DATA)))
def test_a_changed_byte_never_crashes_the_walk(position: int) -> None:
    for value in (0, 0x7F, 0x80, 0xFF):
        data = bytearray(at(0, DATA) * 2)
        data[position] = value
        decoder = Decoder("t", 0, 0, 2**62, ALL)
        with contextlib.suppress(CorruptBatchError):
            list(decoder.decode(bytes(data)))


def test_a_count_that_the_batch_can_not_hold_is_refused() -> None:
    data = bytearray(at(0, DATA))
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(CorruptBatchError, match="count"):
        list(Decoder("t", 0, 0, 10, ("offset",)).decode(bytes(data)))


def test_without_llvmlite_the_same_batches_come_out() -> None:
    root = Path(__file__).resolve().parents[3]
    code = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "from spark_jobs.decode import walk\n"
        "from spark_jobs.decode.decoder import Decoder\n"
        "assert not walk.COMPILED\n"
        f"data = bytes.fromhex('{(at(0, DATA) + at(1, COMMIT) + at(2, DATA)).hex()}')\n"
        f"print([r for b in Decoder('t', 0, 0, 9, {ALL!r}).decode(data) for r in b.to_pylist()])\n"
    )
    plain = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=root, capture_output=True, text=True, timeout=60, check=True
    )
    data = at(0, DATA) + at(1, COMMIT) + at(2, DATA)
    expected = [row for batch in Decoder("t", 0, 0, 9, ALL).decode(data) for row in batch.to_pylist()]
    assert plain.stdout.strip() == str(expected)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("per_batch", [1, 10, 10_000])
def test_batches_of_any_size_and_codec_equal_the_record_iterator(codec: str, per_batch: int) -> None:
    from log.records.compression import Codec
    from log.records.record import Record, iter_records
    from tests.support.batches import build_batch, iter_batches

    random.seed(per_batch)
    data = bytearray()
    offset = 0
    for _ in range(3 if per_batch > 1000 else 40):
        records = [
            Record(
                offset=offset + i,
                timestamp=1_700_000_000_000 + random.randrange(1000),
                key=random.choice([None, b"", random.randbytes(random.randrange(20))]),
                value=random.choice([None, b"", random.randbytes(random.randrange(200))]),
                headers=tuple((f"h{n}", random.choice([None, b"x"])) for n in range(random.randrange(3))),
            )
            for i in range(per_batch)
        ]
        data += build_batch(records, codec=Codec[codec.upper()])
        offset += per_batch
    expected = [
        (record.offset, record.timestamp, record.key, record.value, list(record.headers))
        for batch in iter_batches(bytes(data))
        for record in iter_records(batch)
    ]
    decoder = Decoder("t", 0, 0, offset, ALL)
    found = [
        (
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),  # type: ignore[attr-defined]
            row["key"],
            row["value"],
            [(h["key"], h["value"]) for h in row["headers"] or []],  # type: ignore[attr-defined]
        )
        for row in rows(decoder, bytes(data))
    ]
    assert found == expected
    assert decoder.next_offset == offset
    assert walk.COMPILED
