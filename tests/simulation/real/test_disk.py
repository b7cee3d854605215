"""The simulated disk by itself: what was synced is there after the loss of power, and all else may be or not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from log.files.checkpoint import fsync_directory, replace_file
from tests.simulation.real.disk import Disk

SEEDS = range(60)


def outcomes(where: Path, act: Callable[[Path], None]) -> set[tuple[tuple[str, bytes], ...]]:
    """What is found after the loss of power, by many seeds."""
    found = set()
    for seed in SEEDS:
        root = where / str(seed)
        root.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(Random(seed), root)
            disk.install(patch.setattr)
            directory = root / "machine"
            os.mkdir(directory)
            act(directory)
            disk.lose(str(directory))
        found.add(tuple((path.name, path.read_bytes()) for path in sorted(directory.iterdir())))
    return found


def write(path: Path, data: bytes, *, sync: bool) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    os.pwrite(fd, data, 0)
    if sync:
        os.fsync(fd)
    os.close(fd)


def test_content_and_name_are_synced_each_by_itself(tmp_path: Path) -> None:
    def act(directory: Path) -> None:
        write(directory / "a", b"old", sync=True)
        fsync_directory(directory)
        write(directory / "a", b"new", sync=False)
        write(directory / "b", b"b", sync=True)

    a = [("a", b"old"), ("a", b"new")]
    assert outcomes(tmp_path, act) == {(each, *more) for each in a for more in ((), (("b", b"b"),))}


def test_what_takes_the_place_of_a_file_is_there_whole_only_if_it_was_synced_before(tmp_path: Path) -> None:
    def careless(directory: Path) -> None:
        replace_file(directory / "a", b"old")
        replace_file(directory / "a", b"new", sync=False)

    found = outcomes(tmp_path, careless)
    assert {dict(each)["a"] for each in found} == {b"old", b"new", b""}
    (tmp_path / "synced").mkdir()
    found = outcomes(tmp_path / "synced", lambda directory: replace_file(directory / "a", b"new"))
    assert found == {(("a", b"new"),)}


def test_sectors_of_what_was_written_go_by_themselves(tmp_path: Path) -> None:
    data = bytes(range(1, 201)) * 10

    def act(directory: Path) -> None:
        write(directory / "a", b"", sync=True)
        fsync_directory(directory)
        write(directory / "a", data, sync=False)

    found = {dict(each)["a"] for each in outcomes(tmp_path, act)}
    assert {b"", data} < found
    torn = found - {b"", data}
    assert torn
    assert all(len(each) == len(data) and each[:512] == data[:512] for each in torn)


def test_files_are_cut_and_directories_renamed_and_removed(tmp_path: Path) -> None:
    def act(directory: Path) -> None:
        write(directory / "a", b"0123456789", sync=True)
        os.mkdir(directory / "gone")
        write(directory / "gone" / "x", b"x", sync=True)
        fsync_directory(directory)
        os.truncate(directory / "a", 4)
        os.unlink(directory / "gone" / "x")
        os.rmdir(directory / "gone")
        fsync_directory(directory)

    assert outcomes(tmp_path, act) == {(("a", b"0123456789"),), (("a", b"0123"),)}
