"""The audit: every injected fault is found, with file, position and offset."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from log.records.compression import Codec
from log.records.record import Record
from spark_jobs.jobs.segment_audit import audit_partition, report
from tests.support.batches import build_batch


def replica(place: Path, values: list[bytes], *, high_watermark: int = 1000, epoch: int = 0) -> Path:
    """A partition directory with a batch of two records for each value."""
    directory = place / "t-0"
    directory.mkdir(parents=True)
    data = bytearray()
    for number, value in enumerate(values):
        records = [Record(2 * number + i, 1_700_000_000_000, b"k", value) for i in range(2)]
        data += build_batch(records, codec=Codec.NONE, partition_leader_epoch=epoch)
    (directory / f"{0:020d}.log").write_bytes(data)
    (directory / f"{0:020d}.index").write_bytes(b"")
    (directory / f"{0:020d}.timeindex").write_bytes(b"")
    (place / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {high_watermark}\n")
    return directory


def errors(*directories: Path) -> list[dict[str, Any]]:
    rows = list(audit_partition("t-0", [str(directory) for directory in directories]))
    assert rows[-1]["severity"] == "totals"
    return [row for row in rows if row["severity"] == "error"]


VALUES = [b"a" * 50, b"b" * 50, b"c" * 50]


def test_equal_replicas_have_no_errors(tmp_path: Path) -> None:
    replicas = [replica(tmp_path / name, VALUES) for name in "abc"]
    rows = list(audit_partition("t-0", [str(each) for each in replicas]))
    assert [row for row in rows if row["severity"] == "error"] == []
    assert (rows[-1]["replicas"], rows[-1]["batches"], rows[-1]["records"]) == (3, 9, 18)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    first, second = replica(tmp_path / "a", VALUES), replica(tmp_path / "b", VALUES)
    log = second / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    position = len(data) // 3
    data[position + 100] ^= 4
    log.write_bytes(data)
    found = errors(first, second)
    wrong = next(row for row in found if "checksum" in row["message"])
    assert (wrong["path"], wrong["position"], wrong["offset"]) == (str(log), position, 2)


def test_a_different_record_with_a_right_checksum_is_found(tmp_path: Path) -> None:
    first = replica(tmp_path / "a", VALUES)
    second = replica(tmp_path / "b", [VALUES[0], b"x" * 50, VALUES[2]])
    found = errors(first, second)
    assert [row["offset"] for row in found] == [2, 3]
    assert all("differs from the one" in row["message"] for row in found)
    assert found[0]["path"] == str(second / f"{0:020d}.log")
    assert found[0]["position"] == (first / f"{0:020d}.log").stat().st_size // 3


def test_a_missing_batch_is_found(tmp_path: Path) -> None:
    first, second = replica(tmp_path / "a", VALUES), replica(tmp_path / "b", VALUES)
    log = second / f"{0:020d}.log"
    data = log.read_bytes()
    third = len(data) // 3
    log.write_bytes(data[:third] + data[2 * third :])
    found = [row for row in errors(first, second) if "only this replica" in row["message"]]
    assert [row["offset"] for row in found] == [2, 3]
    (tmp_path / "a" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 6\n")
    assert [row for row in errors(first, second) if "only this replica" in row["message"]] == []


def test_what_lies_above_the_high_watermark_may_differ(tmp_path: Path) -> None:
    first = replica(tmp_path / "a", VALUES, high_watermark=4)
    second = replica(tmp_path / "b", [VALUES[0], VALUES[1], b"x" * 50], high_watermark=2)
    third = replica(tmp_path / "c", VALUES[:2], high_watermark=2)
    assert errors(first, second, third) == []


def test_a_different_leader_epoch_is_found(tmp_path: Path) -> None:
    first, second = replica(tmp_path / "a", VALUES), replica(tmp_path / "b", VALUES, epoch=3)
    assert [row["offset"] for row in errors(first, second)] == [0, 2, 4]


def test_the_page_names_what_was_found(tmp_path: Path) -> None:
    first = replica(tmp_path / "a", VALUES)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "t-0" / f"{0:020d}.log").write_bytes(b"\xff" * 100)
    rows = list(audit_partition("t-0", [str(first), str(tmp_path / "b" / "t-0")]))
    text = report(rows)
    assert str(tmp_path / "b") in text
    assert " 0 errors" not in text
