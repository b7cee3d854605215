from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from log.errors import LogError
from log.tools.verify import Severity, Verifier, log_bytes, partition_directories
from tests.unit.log.golden import SMALL as GOLDEN
from tests.unit.log.golden import roots
from tests.unit.log.harness import Harness, append


def _errors(path: Path) -> list[str]:
    return [f"{f.path}: {f.message}" for f in Verifier().verify(path) if f.severity is Severity.ERROR]


def test_golden_directories_are_sound() -> None:
    verified = 0
    for root in roots():
        for data in sorted(root.glob("*/data")):
            verifier = Verifier()
            findings = list(verifier.verify(data))
            assert [f for f in findings if f.severity is Severity.ERROR] == [], data
            torn = [f for f in findings if "a start cuts off" in f.message]
            assert len(torn) == ("4_unclean" in str(data))
            assert verifier.totals.bytes == log_bytes(data)
            verified += verifier.totals.partitions
    assert verified >= 5


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    target = tmp_path / "golden-0"
    shutil.copytree(GOLDEN / "1_clean" / "data" / "golden-0", target)
    (tmp_path / ".kafka_cleanshutdown").write_text("{}")
    return target


def test_progress_and_totals(directory: Path) -> None:
    seen: list[Any] = []
    verifier = Verifier(progress=seen.append)
    list(verifier.verify(directory))
    assert sum(seen) == log_bytes(directory) == verifier.totals.bytes
    assert verifier.totals.segments == 3
    assert partition_directories(directory.parent) == [directory]


@pytest.mark.parametrize(
    ("name", "position", "expected"),
    [
        ("00000000000000000000.log", 300, "wrong checksum"),
        ("00000000000000000000.log", 11, "wrong checksum"),
        ("00000000000000000079.log", 7, "follow"),
        ("00000000000000000079.index", 7, "no batch begins"),
        ("00000000000000000079.index", 10, "begins at|does not follow|no batch begins"),
        ("00000000000000000079.timeindex", 3, "follows|has timestamp"),
        ("00000000000000000000.txnindex", 25, "ABORT marker"),
        ("leader-epoch-checkpoint", 0, "checkpoint"),
        ("partition.metadata", 0, "version"),
    ],
)
def test_damage_is_found(directory: Path, name: str, position: int, expected: str) -> None:
    assert _errors(directory) == []
    path = directory / name
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)
    errors = _errors(directory)
    assert errors
    assert any(re.search(expected, error) and name in error for error in errors), errors


def test_torn_and_missing_files(directory: Path) -> None:
    last = max(directory.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-5])
    assert any("bytes behind the last whole batch" in error for error in _errors(directory))
    (directory.parent / ".kafka_cleanshutdown").unlink()
    assert _errors(directory) == []
    for suffix in (".index", ".timeindex"):
        last.with_suffix(suffix).unlink()
    snapshot = max(directory.glob("*.snapshot"))
    snapshot.write_bytes(b"x")
    warnings = [f.path for f in Verifier().verify(directory) if f.severity is Severity.WARNING]
    assert len(warnings) >= 4


def test_our_own_log_is_sound(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    log = harness.open()
    for i in range(100):
        append(log, b"%d" % i, b"x" * (i % 50))
    assert _errors(harness.partition_dir) == []
    harness.stop(log)
    assert _errors(harness.partition_dir) == []


def test_a_directory_called_like_a_segment_is_none(directory: Path) -> None:
    size = log_bytes(directory)
    for place in (directory, directory.parent):
        (place / f"{999:020d}.log").mkdir()
        (place / "x.log").mkdir()
    assert partition_directories(directory.parent) == [directory]
    assert log_bytes(directory.parent) == size
    assert _errors(directory.parent) == []


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises((OSError, LogError)):
        list(Verifier().verify(tmp_path / "absent"))
