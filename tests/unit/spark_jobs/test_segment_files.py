"""Records read directly from partition directories: those that the log package iterates, cut and skipped by indexes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from log.records.batch_reader import read_batches
from log.records.compression import Codec
from log.records.old_formats import LegacyBatch
from log.records.record import Record, iter_records
from log.topic_partition import TopicPartition
from spark_jobs.decode.decoder import CorruptBatchError
from spark_jobs.pushdown import Bounds
from spark_jobs.segment_files import (
    SegmentsError,
    one_each,
    partition_directories,
    plan_partition,
    read_piece,
    segments_of,
)
from tests.support.batches import build_batch

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "log"
COLUMNS = ("key", "value", "offset", "timestamp", "headers")


def read(directory: Path, bounds: Bounds | None = None, piece_bytes: int = 1 << 26) -> list[tuple[object, ...]]:
    pieces = plan_partition(directory, bounds or Bounds(), piece_bytes, read_committed=False)
    return [
        (row["offset"], row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"] or []])
        for piece in pieces
        for batch in read_piece(piece, COLUMNS, read_committed=False, verify=True)
        for row in batch.to_pylist()
    ]


def expected(directory: Path) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for segment in segments_of(directory):
        with open(segment.path, "rb") as file:
            for _, batch in read_batches(file.fileno()):
                if isinstance(batch, LegacyBatch):
                    found += [(r.offset, r.key, r.value, []) for r in batch.iter_records()]
                elif not batch.is_control:
                    found += [(r.offset, r.key, r.value, list(r.headers)) for r in iter_records(batch)]
    return found


GOLDEN_DIRECTORIES = sorted({path.parent for path in GOLDEN.glob("*/data/*/*.log")})


@pytest.mark.parametrize("directory", GOLDEN_DIRECTORIES, ids=lambda p: f"{p.parent.parent.name}/{p.name}")
def test_directories_that_kafka_wrote(directory: Path) -> None:
    assert read(directory) == expected(directory)


def write_segments(directory: Path, segments: int, batches: int) -> Path:
    """A partition directory with index files: an entry a batch, as Kafka's with ``index.interval.bytes=1``."""
    draw = random.Random(1)
    place = directory / "t-0"
    place.mkdir(parents=True)
    offset = 0
    for _ in range(segments):
        base = offset
        log, index = bytearray(), bytearray()
        for _ in range(batches):
            records = [Record(offset + i, 1000 * (offset + i + 1), None, draw.randbytes(500)) for i in range(10)]
            if offset > base:
                index += (offset + 9 - base).to_bytes(4, "big") + len(log).to_bytes(4, "big")
            log += build_batch(records, codec=Codec.NONE)
            offset += 10
        (place / f"{base:020d}.log").write_bytes(log)
        (place / f"{base:020d}.index").write_bytes(index)
        newest = (1000 * offset).to_bytes(8, "big") + (offset - 1 - base).to_bytes(4, "big")
        (place / f"{base:020d}.timeindex").write_bytes(newest)
    return place


@pytest.mark.parametrize("piece_bytes", [1, 20_000, 1 << 26])
def test_pieces_cover_every_record_once(tmp_path: Path, piece_bytes: int) -> None:
    place = write_segments(tmp_path, 3, 20)
    found = read(place, piece_bytes=piece_bytes)
    assert [row[0] for row in found] == list(range(600))
    assert found == expected(place)
    pieces = plan_partition(place, Bounds(), piece_bytes, read_committed=False)
    assert len(pieces) == {1: 60, 20_000: 15, 1 << 26: 3}[piece_bytes]


@pytest.mark.parametrize(("first", "last"), [(0, 0), (205, 395), (199, 200), (599, 10_000), (600, 700), (7, 8)])
def test_offsets_skip_by_the_index(tmp_path: Path, first: int, last: int) -> None:
    place = write_segments(tmp_path, 3, 20)
    bounds = Bounds(offset=[first, last])
    assert [row[0] for row in read(place, bounds)] == [o for o in range(first, last + 1) if o < 600]
    bytes_read = sum(p.end - p.start for p in plan_partition(place, bounds, 1 << 26, read_committed=False))
    wanted = max(0, min(last + 1, 600) - first)
    assert bytes_read <= (wanted + 40) * 530


def test_old_segments_are_skipped_by_time(tmp_path: Path) -> None:
    place = write_segments(tmp_path, 3, 20)
    bounds = Bounds(timestamp_ms=[200_001, 2**62])
    pieces = plan_partition(place, bounds, 1 << 26, read_committed=False)
    assert [p.segment.base_offset for p in pieces] == [200, 400]


def test_the_log_start_offset_is_kept(tmp_path: Path) -> None:
    place = write_segments(tmp_path, 2, 10)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 33\n")
    assert [row[0] for row in read(place)] == list(range(33, 200))


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\0\0\0\0"])
def test_the_end_of_a_log_that_is_written_is_no_damage(tmp_path: Path, tail: bytes) -> None:
    place = write_segments(tmp_path, 2, 10)
    whole = expected(place)
    last = place / f"{100:020d}.log"
    last.write_bytes(last.read_bytes() + tail)
    assert read(place) == whole
    last.write_bytes(last.read_bytes()[: -len(tail) - 100])
    assert read(place) == whole[:-10]


def test_damage_names_file_and_position(tmp_path: Path) -> None:
    place = write_segments(tmp_path, 2, 10)
    first = place / f"{0:020d}.log"
    good = first.read_bytes()
    start = len(good) // 10 * 5
    for position, message in ((start + 100, "has a wrong checksum"), (start, "is out of order")):
        data = bytearray(good)
        data[position] ^= 1
        first.write_bytes(data)
        with pytest.raises(CorruptBatchError, match=rf"00000\.log at position {start}: the batch .*{message}"):
            read(place)


def test_a_broken_index_does_no_harm(tmp_path: Path) -> None:
    place = write_segments(tmp_path, 1, 30)
    whole = expected(place)
    index = place / f"{0:020d}.index"
    good = index.read_bytes()
    for broken in (b"", good[:-3], good + b"\0" * 800, b"\xff" * 80):
        index.write_bytes(broken)
        assert read(place, piece_bytes=1000) == whole


def test_directories_are_found_and_the_longer_replica_is_taken(tmp_path: Path) -> None:
    first, second = write_segments(tmp_path / "a", 1, 10), write_segments(tmp_path / "b", 2, 10)
    (tmp_path / "a" / "t-1.abc-delete").mkdir()
    found = partition_directories([str(tmp_path / "a"), str(tmp_path / "b")])
    assert found == {TopicPartition("t", 0): [first, second]}
    assert one_each(found) == {TopicPartition("t", 0): second}
    assert list(partition_directories([str(first)])) == [TopicPartition("t", 0)]
    (first / f"{999:020d}.log").mkdir()
    assert one_each(found) == {TopicPartition("t", 0): second}
    (tmp_path / "c" / "t-0" / "x.log").mkdir(parents=True)
    for missing in (tmp_path, tmp_path / "nothing", tmp_path / "c"):
        with pytest.raises(SegmentsError):
            partition_directories([str(missing)])


def test_aborted_transactions_are_left_out() -> None:
    directory = next(d for d in GOLDEN_DIRECTORIES if list(d.glob("*.txnindex")))
    everything = {row[0] for row in read(directory)}
    pieces = plan_partition(directory, Bounds(), 1 << 26, read_committed=True)
    committed = {
        row["offset"]
        for piece in pieces
        for batch in read_piece(piece, ("offset",), read_committed=True, verify=True)
        for row in batch.to_pylist()
    }
    assert committed < everything
