from __future__ import annotations

import os
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.errors import CorruptIndexError, LogError, OffsetsOutOfOrderError
from log.files.file_range import LogFileRange, OpenFile, OpenFileBound
from log.files.handles import NamedFile
from log.files.offset_index import OffsetIndex, OffsetPosition
from log.files.time_index import TimeIndex, TimestampOffset
from tests.support.open_files import open_files
from tests.unit.log.golden import SMALL


def test_new_index_is_preallocated_and_trimmed(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.index"
    index = OffsetIndex(str(path), 100, 1003)
    assert path.stat().st_size == 1000
    assert index.max_entries == 125
    index.append(105, 17)
    index.append(110, 400)
    assert path.read_bytes()[:24] == b"\0\0\0\x05\0\0\0\x11" + b"\0\0\0\x0a\0\0\x01\x90" + bytes(8)
    index.close()
    assert path.stat().st_size == 16
    again = OffsetIndex(str(path), 100, 1003)
    assert again.entries == 2
    assert again.last_entry() == (110, 400)
    again.grow_to_maximum()
    assert path.stat().st_size == 1000
    assert again.entries == 2


def test_offset_lookup_edges(tmp_path: Path) -> None:
    index = OffsetIndex(str(tmp_path / "i"), 100, 800)
    assert index.lookup(100) == (100, 0)
    index.append(103, 10)
    index.append(107, 20)
    for target, expected in [(99, (100, 0)), (102, (100, 0)), (103, (103, 10)), (106, (103, 10)), (10**9, (107, 20))]:
        assert index.lookup(target) == expected
    with pytest.raises(OffsetsOutOfOrderError):
        index.append(107, 30)
    with pytest.raises(LogError):
        index.append(100 + 2**31, 30)


def test_full_index_refuses_and_one_time_slot_is_kept(tmp_path: Path) -> None:
    index = OffsetIndex(str(tmp_path / "i"), 0, 16)
    index.append(1, 1)
    assert not index.is_full
    index.append(2, 2)
    assert index.is_full
    with pytest.raises(LogError, match="full"):
        index.append(3, 3)
    times = TimeIndex(str(tmp_path / "t"), 0, 24)
    times.maybe_append(1, 1)
    assert times.is_full
    with pytest.raises(LogError, match="full"):
        times.maybe_append(2, 2)
    times.maybe_append(2, 2, skip_full_check=True)
    assert times.last_entry() == (2, 2)
    times.maybe_append(2, 2, skip_full_check=True)  # nothing to add, so no room is needed


def test_time_index_order(tmp_path: Path) -> None:
    times = TimeIndex(str(tmp_path / "t"), 10, 1200)
    times.maybe_append(-1, 10)
    assert times.entries == 0
    times.maybe_append(1000, 15)
    times.maybe_append(1000, 20)
    assert times.entries == 1
    with pytest.raises(LogError):
        times.maybe_append(999, 20)
    with pytest.raises(OffsetsOutOfOrderError):
        times.maybe_append(1001, 14)
    assert times.lookup(999) == (-1, 10)
    assert times.lookup(1000) == (1000, 15)
    assert times.lookup(5000) == (1000, 15)


entries_strategy = st.lists(st.integers(1, 50), min_size=0, max_size=2500).map(
    lambda steps: [sum(steps[: i + 1]) for i in range(len(steps))] if len(steps) < 200 else _running(steps)
)


def _running(steps: list[int]) -> list[int]:
    total, found = 0, []
    for step in steps:
        total += step
        found.append(total)
    return found


@given(entries_strategy, st.lists(st.integers(-5, 100_000), max_size=20), st.integers(0, 60_000))
def test_lookups_and_truncation_agree_with_a_list(
    tmp_path_factory: pytest.TempPathFactory, offsets: list[int], targets: list[int], cut: int
) -> None:
    directory = tmp_path_factory.mktemp("index")
    index = OffsetIndex(str(directory / "i"), 0, 8 * 3000)
    times = TimeIndex(str(directory / "t"), 0, 12 * 3000)
    for offset in offsets:
        index.append(offset, offset * 10)
        times.maybe_append(offset * 1000, offset)

    def check() -> None:
        for target in targets:
            at = bisect_right(offsets, target) - 1
            assert index.lookup(target) == ((offsets[at], offsets[at] * 10) if at >= 0 else (0, 0))
            assert times.lookup(target * 1000) == ((offsets[at] * 1000, offsets[at]) if at >= 0 else (-1, 0))
            above = next((o for o in offsets if o * 10 >= target + 7), None)
            found = index.upper_bound(OffsetPosition(0, target), 7)
            assert (None if found is None else found.offset) == above

    check()
    index.truncate_to(cut)
    times.truncate_to(cut)
    offsets = [o for o in offsets if o < cut]
    assert index.entries == times.entries == len(offsets)
    check()
    index.close()
    assert (directory / "i").stat().st_size == 8 * len(offsets)
    index = OffsetIndex(str(directory / "i"), 0, 8 * 3000)
    check()


def test_bytes_behind_a_truncation_are_zeros(tmp_path: Path) -> None:
    path = tmp_path / "i"
    index = OffsetIndex(str(path), 0, 80)
    for i in range(1, 6):
        index.append(i, i)
    assert index.lookup(3) == (3, 3)
    index.truncate_to(3)
    assert path.read_bytes()[16:] == bytes(64)
    assert index.lookup(9) == (2, 2)
    index.append(3, 33)
    assert index.lookup(9) == (3, 33)


@pytest.mark.parametrize(
    "content",
    [b"\0\0\0\x05\0\0\0\x11\0", bytes(16), b"\0\0\0\x05\0\0\xff\xff", b"\x80\0\0\x05\0\0\0\x11"],
    ids=["odd length", "zero tail", "beyond the log", "negative"],
)
def test_corrupt_offset_index_is_noticed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "i").write_bytes(content)
    with pytest.raises(CorruptIndexError):
        OffsetIndex(str(tmp_path / "i"), 0, 800).check(1000)


@pytest.mark.parametrize("content", [bytes(13), b"\0" * 7 + b"\5" + bytes(4) + bytes(12)], ids=["odd", "zero tail"])
def test_corrupt_time_index_is_noticed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(CorruptIndexError):
        TimeIndex(str(tmp_path / "t"), 0, 1200).check()


def test_golden_indexes_are_sound() -> None:
    seen = 0
    for log in sorted(SMALL.glob("1_clean/data/*/*.log")):
        base = int(log.stem)
        offsets = OffsetIndex(str(log.with_suffix(".index")), base, 8192)
        offsets.check(log.stat().st_size)
        times = TimeIndex(str(log.with_suffix(".timeindex")), base, 8192)
        times.check()
        seen += offsets.entries + times.entries
    assert seen > 10


def test_sealed_indexes_open_within_the_bound(tmp_path: Path) -> None:
    bound = OpenFileBound(3)
    before = open_files(tmp_path)
    indexes = []
    for i in range(20):
        index = OffsetIndex(str(tmp_path / f"{i}"), 0, 80, bound=bound)
        index.append(5, 50)
        index.seal()
        indexes.append(index)
    for _ in range(3):
        for index in indexes:
            assert index.lookup(7) == (5, 50)
            assert index.lookup(3) == (0, 0)
            assert index.entry(0) == (5, 50)
    assert len(bound) == 3
    assert len(open_files(tmp_path) - before) == 3
    for index in indexes:
        index.close_handles()
    assert len(bound) == 0
    assert open_files(tmp_path) <= before


def test_a_new_index_is_open_from_its_first_entry_on(tmp_path: Path) -> None:
    before = open_files(tmp_path)
    index = OffsetIndex(str(tmp_path / "i"), 0, 80)
    assert open_files(tmp_path) <= before
    index.append(5, 50)
    assert [target for _, target in open_files(tmp_path) - before] == [str(tmp_path / "i")]
    index.close()


@pytest.mark.parametrize("path", ["/a/b/0.log", "/0.log", "0.log", "a/0.log", "./0.log", "/a//0.log", "../a b/ü.log"])
def test_the_path_of_a_file_is_the_one_that_was_given(path: str) -> None:
    file = NamedFile()
    file.path = path
    assert file.path == path
    other = NamedFile()
    other.path = path + ".deleted"
    other.path = "".join(path)
    assert (other._directory is file._directory, other._name is file._name) == (True, True)


def test_a_file_closes_after_its_last_range(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    file = OpenFile(os.open(path, os.O_RDONLY))
    fd = file.fd
    first, second = LogFileRange(file, 0, 4), LogFileRange(file, 4, 6)
    part = second.slice(3)
    del file
    path.unlink()
    assert (first.read(), second.read(), part.read()) == (b"0123", b"456789", b"456")
    first.release()
    first.release()
    second.release()
    assert second.fd == -1
    with pytest.raises(ValueError, match="released"):
        second.read()
    os.fstat(fd)
    part.release()
    with pytest.raises(OSError):
        os.fstat(fd)


def test_a_range_of_a_cut_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    found = LogFileRange(OpenFile(os.open(path, os.O_RDWR)), 2, 8)
    os.truncate(path, 6)
    with pytest.raises(EOFError):
        found.read()


def test_time_index_entry_type(tmp_path: Path) -> None:
    times = TimeIndex(str(tmp_path / "t"), 7, 1200)
    times.maybe_append(5, 9)
    assert times.last_entry() == TimestampOffset(5, 9)
    assert times.entry(0) == TimestampOffset(5, 9)
    with pytest.raises(IndexError):
        times.entry(1)
