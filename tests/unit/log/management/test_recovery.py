"""What a crash may leave, and what becomes of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from log.config import LogConfig
from log.errors import CorruptCheckpointError, LogError, StorageError
from log.files.file_records import FileRecords
from log.files.split import split_overflowed_segment
from log.offset_lookup import fetch_offset_by_timestamp
from log.records.batch import HEADER_SIZE
from log.records.record import Record
from log.tools.verify import Severity, Verifier
from tests.support.batches import build_batch
from tests.unit.log.harness import Harness, append, batch, contents, index_entries, segment_bases


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def fill(harness: Harness, count: int = 40) -> list[tuple[int, bytes | None]]:
    log = harness.open()
    for i in range(count):
        append(log, b"value %d" % i, timestamp=1000 + i)
    harness.stop(log)
    return [(i, b"value %d" % i) for i in range(count)]


def files_of(harness: Harness) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in harness.partition_dir.iterdir()}


def last_log(harness: Harness) -> Path:
    return max(harness.partition_dir.glob("*.log"))


def test_torn_write_at_every_byte_of_the_last_batch(harness: Harness, tmp_path: Path) -> None:
    expected = fill(harness, 20)
    saved = tmp_path / "saved"
    shutil.copytree(harness.partition_dir, saved)
    size = last_log(harness).stat().st_size
    length = len(batch(b"value 19"))
    for cut in range(1, length + 1):
        shutil.rmtree(harness.partition_dir)
        shutil.copytree(saved, harness.partition_dir)
        path = last_log(harness)
        os.truncate(path, size - cut)
        log = harness.open(clean=False)
        assert log.log_end_offset == 19
        assert path.stat().st_size == size - length
        assert contents(log) == expected[:-1]
        assert append(log, b"again").first_offset == 19
        harness.stop(log)


@pytest.mark.parametrize("where", range(HEADER_SIZE + 10))
def test_a_flipped_byte_in_the_last_batch(harness: Harness, where: int) -> None:
    """Everything the checksum covers, and what makes the size or magic wrong, ends the log there."""
    fill(harness, 20)
    path = last_log(harness)
    length = len(batch(b"value 19"))
    data = bytearray(path.read_bytes())
    data[-length + where] ^= 0xFF
    path.write_bytes(data)
    log = harness.open(clean=False)
    if 12 <= where < 16:
        # Nothing protects the leader epoch.
        assert log.log_end_offset == 20
    elif where < 8:
        # Nor the base offset: a lower one breaks the order, a higher one leaves a gap or does not fit.
        assert log.log_end_offset != 20
    else:
        assert log.log_end_offset == 19
    assert append(log, b"next").first_offset == log.log_end_offset - 1


@pytest.mark.parametrize(
    "tail", [b"\0", b"\0" * 5000, b"\xff" * 12, b"\0" * 11 + b"\x20" + b"\0" * 40, os.urandom(500)]
)
def test_rubbish_behind_the_last_batch_is_cut(harness: Harness, tail: bytes) -> None:
    expected = fill(harness)
    path = last_log(harness)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(tail)
    log = harness.open(clean=False)
    assert path.stat().st_size == size
    assert contents(log) == expected


def test_recovery_stops_at_a_hole_and_drops_later_segments(harness: Harness) -> None:
    expected = fill(harness)
    paths = sorted(harness.partition_dir.glob("*.log"))
    data = bytearray(paths[1].read_bytes())
    data[-5] ^= 1
    paths[1].write_bytes(data)
    log = harness.open(clean=False)
    third = int(paths[2].stem)
    assert log.log_end_offset == third - 1
    assert contents(log) == expected[: third - 1]
    assert segment_bases(log) == [0, int(paths[1].stem)]
    harness.tick(60_000)
    assert sorted(harness.partition_dir.glob("*.log")) == paths[:2]


def test_only_segments_from_the_recovery_point_on_are_read(harness: Harness) -> None:
    fill(harness)
    paths = sorted(harness.partition_dir.glob("*.log"))
    data = bytearray(paths[0].read_bytes())
    data[-5] ^= 1
    paths[0].write_bytes(data)
    assert harness.open(clean=False, recovery_point=int(paths[1].stem)).log_end_offset == 40


@pytest.mark.parametrize("damage", ["missing", "empty", "zero tail", "odd", "ahead", "oversized"])
@pytest.mark.parametrize("kind", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_damaged_index(harness: Harness, kind: str, damage: str, clean: bool, which: int) -> None:
    expected = fill(harness)
    path = sorted(harness.partition_dir.glob("*" + kind))[which]
    good = path.read_bytes()
    entry = 8 if kind == ".index" else 12
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "zero tail":
            path.write_bytes(good + bytes(entry * 10))
        case "odd":
            path.write_bytes(good + b"\1")
        case "ahead":
            path.write_bytes(good + (b"\0\0\1\0\0\1\0\0" if kind == ".index" else b"\0\0\1" + bytes(6) + b"\1\0\0"))
        case "oversized":
            path.write_bytes(good + bytes(harness.config.segment_index_bytes * 2))
    log = harness.open(clean=clean)
    assert contents(log) == expected
    for offset in range(40):
        info = log.read(offset, 1, min_one_message=True)
        assert info.records.read()[:8] == offset.to_bytes(8, "big")
        info.records.release()
        found = fetch_offset_by_timestamp(log, 1000 + offset)
        assert found is not None
        assert (found.timestamp, found.offset) == (1000 + offset, offset)
    append(log, b"more")
    harness.stop(log)
    assert path.stat().st_size <= harness.config.segment_index_bytes


def test_rebuilt_indexes_find_the_same(harness: Harness) -> None:
    """Recovery places entries by its own rule; the closing time entry and the end are the same."""
    fill(harness)
    before = {s.base_offset: index_entries(s) for s in harness.open().segments}
    for path in harness.partition_dir.glob("*index"):
        path.unlink()
    log = harness.open(clean=False)
    for segment in log.segments:
        offsets, times = index_entries(segment)
        assert times[-1] == before[segment.base_offset][1][-1]
        assert offsets or segment is log.active_segment
        for offset, position in offsets:
            assert position == segment.position_of(offset)
            assert 0 < position < segment.size


def test_leftovers(harness: Harness) -> None:
    expected = fill(harness)
    before = files_of(harness)
    directory = harness.partition_dir
    (directory / f"{3:020d}.log.deleted").write_bytes(b"x")
    (directory / f"{3:020d}.log.cleaned").write_bytes(b"x")
    (directory / f"{5:020d}.log.swap").write_bytes(b"x")
    (directory / f"{5:020d}.index.swap").write_bytes(b"x")
    (directory / f"{100:020d}.index").write_bytes(b"")
    (directory / f"{100:020d}.timeindex").write_bytes(b"")
    log = harness.open()
    assert contents(log) == expected
    harness.stop(log)
    assert files_of(harness) == before


def compacted_first_two(harness: Harness) -> tuple[bytes, int]:
    """What a cleaner makes of the first two segments, and where the third begins."""
    third = int(sorted(harness.partition_dir.glob("*.log"))[2].stem)
    return bytes(build_batch([Record(0, 1, b"k", b"kept"), Record(third - 1, 1, b"k2", b"kept")], base_offset=0)), third


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("old_left", [False, True])
def test_a_complete_swap_replaces_the_old_segments(harness: Harness, renamed: bool, old_left: bool) -> None:
    expected = fill(harness)
    directory = harness.partition_dir
    data, third = compacted_first_two(harness)
    old = sorted(directory.glob("*.log"))[:2]
    if not old_left:
        for path in old:
            os.replace(path, f"{path}.deleted")
    (directory / f"{0:020d}.log.swap").write_bytes(data)
    (directory / f"{0:020d}.index.swap").write_bytes(b"")
    (directory / f"{0:020d}.timeindex.swap").write_bytes(b"")
    if renamed:
        (directory / f"{0:020d}.index").write_bytes(b"")
        (directory / f"{0:020d}.index.swap").unlink()
    log = harness.open()
    assert segment_bases(log)[:2] == [0, third]
    assert contents(log) == [(0, b"kept"), (third - 1, b"kept"), *expected[third:]]
    assert not list(directory.glob("*.swap")) + list(directory.glob("*.deleted"))


def test_a_corrupt_epoch_checkpoint_is_a_clear_error(harness: Harness) -> None:
    fill(harness)
    (harness.partition_dir / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n")
    with pytest.raises(CorruptCheckpointError, match="leader-epoch-checkpoint"):
        harness.open()


def test_a_corrupt_snapshot_is_replaced(harness: Harness) -> None:
    fill(harness)
    for path in harness.partition_dir.glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1] + b"\1")
    log = harness.open()
    assert log.log_end_offset == 40


def test_split_of_a_segment_that_spans_too_many_offsets(harness: Harness) -> None:
    """Offsets that do not fit 31 bits: the segment is split at load, batch by batch."""
    offsets = [0, 10, 2**31 + 5, 2**31 + 6, 2**32 + 9]
    harness.partition_dir.mkdir()
    data = [build_batch([Record(o, 1000, b"k", b"%d" % o)], base_offset=o) for o in offsets]
    (harness.partition_dir / f"{0:020d}.log").write_bytes(b"".join(data))
    log = harness.open(clean=False)
    assert contents(log) == [(o, b"%d" % o) for o in offsets]
    assert segment_bases(log) == [0, 2**31 + 5, 2**32 + 9]
    assert append(log, b"next").first_offset == 2**32 + 10


def test_split_survives_a_crash_at_each_step(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = [0, 10, 2**31 + 5, 2**31 + 6, 2**32 + 9]
    data = [build_batch([Record(o, 1000, b"k", b"%d" % o)], base_offset=o) for o in offsets]

    class Crash(Exception):
        pass

    for step in range(3):
        shutil.rmtree(harness.partition_dir, ignore_errors=True)
        harness.partition_dir.mkdir()
        (harness.partition_dir / f"{0:020d}.log").write_bytes(b"".join(data))
        done = 0
        replace = os.replace

        def crashing(source: str, target: str, step: int = step, replace: Callable[[str, str], None] = replace) -> None:
            nonlocal done
            if done == step:
                raise Crash
            done += 1
            replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr("log.files.split.os.replace", crashing)
            with pytest.raises(Crash):
                split_overflowed_segment(str(harness.partition_dir), 0)
        log = harness.open(clean=False)
        assert contents(log) == [(o, b"%d" % o) for o in offsets]
        log.close_handles()


def test_progress_is_told(tmp_path: Path) -> None:
    from log.management.loader import LoadOptions, open_log

    harness = Harness(tmp_path, LogConfig(segment_bytes=1000, index_interval_bytes=200, segment_index_bytes=1200))
    fill(harness)
    told: list[tuple[int, int]] = []
    options = LoadOptions(clean=False, on_progress=lambda left, done: told.append((left, done)))
    log = open_log(str(harness.partition_dir), harness.config, harness.env, options)
    assert [left for left, _ in told] == [*range(log.number_of_segments, -1, -1)]
    assert told[-1][1] == log.size


def test_walk_of_large_and_small_batches(tmp_path: Path) -> None:
    sizes = [0, 1, 9000, 30, 100_000, 5, 8200, 8100]
    data = [build_batch([Record(i, 1, b"k", b"x" * size)], base_offset=i) for i, size in enumerate(sizes)]
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(data))
    records = FileRecords(str(path))
    assert [(b.offset, b.size) for b in records.walk()] == [(i, len(d)) for i, d in enumerate(data)]
    for read_bytes in (64, 9000, 1 << 20):
        assert [bytes(d) for _, d in records.batches(read_bytes=read_bytes)] == data
    for target in range(len(sizes)):
        found = records.find(target)
        assert found is not None
        assert found.offset == target
    assert records.find(len(sizes)) is None
    assert len(list(records.walk(end=sum(map(len, data)) - 1))) == len(sizes) - 1


def test_directories_are_left_alone_whatever_their_names(harness: Harness) -> None:
    """As by Kafka, which looks at files alone."""
    expected = fill(harness)
    directory = harness.partition_dir
    names = {
        f"{offset:020d}{suffix}" for offset, suffix in enumerate(("", ".log", ".index", ".snapshot", ".log.swap"), 7)
    }
    names |= {"x.cleaned", "x.deleted", "x.swap", f"{99:020d}.snapshot"}
    for name in names:
        (directory / name).mkdir()
    for clean in (True, False):
        log = harness.open(clean=clean)
        assert contents(log) == expected
        harness.stop(log)
    assert {path.name for path in directory.iterdir() if path.is_dir()} == names
    found = list(Verifier().verify(directory))
    assert {(finding.severity, Path(finding.path).name) for finding in found} == {
        (Severity.WARNING, name) for name in names
    }


@pytest.mark.parametrize("name", [f"{0:020d}.index", f"{0:020d}.timeindex", "leader-epoch-checkpoint"])
def test_a_directory_in_the_place_of_a_file_is_an_error(harness: Harness, name: str) -> None:
    fill(harness)
    place = harness.partition_dir / name
    place.unlink()
    place.mkdir()
    with pytest.raises((IsADirectoryError, StorageError)):
        harness.open()
    found = list(Verifier().verify(harness.partition_dir))
    assert (Severity.ERROR, f"{place}", "is a directory in the place of a file; a start fails") in {
        (finding.severity, finding.path, finding.message) for finding in found
    }
    assert not any("missing" in finding.message for finding in found)


@pytest.mark.parametrize("name", ["x.log.swap", "\u00b2.cleaned", f"{'9' * 20}.log.swap"])
def test_a_leftover_that_is_none_is_named(harness: Harness, name: str) -> None:
    """As Kafka, which finds no number in it either; a start must not take it for an unforeseen failure."""
    fill(harness)
    (harness.partition_dir / name).touch()
    with pytest.raises(LogError, match="does not begin with an offset"):
        harness.open()


@pytest.mark.parametrize("name", ["\u00b2.snapshot", f"{'9' * 20}.log", f"{'9' * 20}.snapshot", "\u0661" * 20 + ".log"])
def test_names_that_no_offset_makes_are_passed_over(harness: Harness, name: str) -> None:
    written = fill(harness)
    (harness.partition_dir / name).touch()
    log = harness.open()
    assert contents(log) == written
    harness.stop(log)
    assert (harness.partition_dir / name).exists()
    assert not [each for each in Verifier().verify(harness.partition_dir) if each.severity is Severity.ERROR]
