"""Kafka's own dump tool reads what our code writes, and prints what ours prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from log.appends import append_as_leader
from log.cleaner.cleanable import cleanable_offsets, log_to_clean
from log.cleaner.cleaning_pass import Cleaner
from log.config import LogConfig
from log.partition_log import PartitionLog
from log.records.compression import Codec
from log.records.old_formats import encode_message, encode_wrapper
from log.records.record import ControlType, EndTxnMarker, Record, build_end_txn_marker
from log.records.validation import AppendOrigin
from log.tools.dump import DumpOptions, dump_file, format_item
from tests.reference.kafka import run_tool
from tests.support.batches import build_batch
from tests.unit.log.harness import Harness

NOW = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=300, segment_index_bytes=4096)


def _records(count: int, start: int = 0) -> list[Record]:
    return [
        Record(i, NOW + 10 * (start + i), b"k%d" % (i % 3), b"value %d " % i * 5 if i % 4 else None, (("h", b"1"),))
        for i in range(count)
    ]


def _append(log: PartitionLog, data: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
    append_as_leader(log, data, 2, origin)
    log.update_high_watermark(log.log_end_offset)


def _marker(log: PartitionLog, kind: ControlType) -> None:
    _append(log, build_end_txn_marker(7, 1, EndTxnMarker(kind, 3), NOW), AppendOrigin.COORDINATOR)


def _write(log: PartitionLog) -> None:
    """Every codec, an idempotent producer, a committed, an aborted and an open transaction, several segments."""
    log.producers.config.transaction_verification_enable = False
    log.producers.config.producer_id_expiration_ms = 2**60
    sequence = 0
    for round_number, codec in enumerate([*Codec] * 4):
        _append(log, build_batch(_records(6, round_number * 6), codec=codec))
        options: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "base_sequence": round_number * 3}
        _append(log, build_batch(_records(3), codec=codec, **options))
        if round_number % 4 < 2:
            options = {"producer_id": 7, "producer_epoch": 1, "base_sequence": sequence, "transactional": True}
            _append(log, build_batch(_records(2), **options))
            sequence += 2
            _marker(log, ControlType.COMMIT if round_number % 4 else ControlType.ABORT)
    options = {"producer_id": 8, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    _append(log, build_batch(_records(2), **options))


def _kafka(files: list[Path], *flags: str) -> dict[str, str]:
    """The tool's output by file name."""
    done = run_tool("kafka.tools.DumpLogSegments", *flags, "--files", ",".join(map(str, files)))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    blocks = re.split(r"(?m)^Dumping ", done.stdout)[1:]
    return {Path(block.partition("\n")[0]).name: block.partition("\n")[2] for block in blocks}


def _ours(path: Path, options: DumpOptions) -> str:
    return "\n".join(format_item(item) for item in dump_file(path, options))


def _same(ours: str, theirs: str) -> None:
    def lines(text: str) -> list[str]:
        found = [line.rstrip() for line in text.splitlines() if line.strip() and "followed by" not in line]
        # The tool's own log lines come on the same stream.
        return [line for line in found if "Non-consecutive" not in line and not re.match(r"\[\d{4}-", line)]

    assert lines(ours) == lines(theirs)


def _compare(directory: Path) -> None:
    logs = sorted(directory.glob("*.log"))
    assert len(logs) > 1
    for name, text in _kafka(logs, "--print-data-log").items():
        _same(_ours(directory / name, DumpOptions(deep=True, print_data=True)), text)
    others = sorted([*directory.glob("*.snapshot"), *directory.glob("*.txnindex"), *directory.glob("*index")])
    assert {path.suffix for path in others} == {".snapshot", ".txnindex", ".index", ".timeindex"}
    for name, text in _kafka(sorted(set(others))).items():
        assert "Mismatch" not in text, text
        assert "mismatch" not in text
        assert "not found" not in text
        _same(_ours(directory / name, DumpOptions()), text)
    indexes = [path for path in others if path.suffix in (".index", ".timeindex")]
    for text in _kafka(indexes, "--index-sanity-check").values():
        assert "passed sanity check" in text or "is empty" in text


def test_a_log_of_ours(tmp_path: Path) -> None:
    harness = Harness(tmp_path, CONFIG)
    log = harness.open()
    _write(log)
    harness.stop(log)
    _compare(harness.partition_dir)


def test_a_log_that_our_cleaner_has_cleaned(tmp_path: Path) -> None:
    harness = Harness(tmp_path, CONFIG)
    log = harness.open()
    _write(log)
    now = harness.clock.wall_ms()
    cleaner = Cleaner(1 << 20, 0.9, 65536, lambda tp: None, lambda size: None)
    end, stats = cleaner.clean(log_to_clean(log, cleanable_offsets(log, None, now), now), now)
    assert end > 0
    assert stats.messages_written < stats.messages_read
    harness.stop(log)
    _compare(harness.partition_dir)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_that_we_write(tmp_path: Path, magic: int) -> None:
    data = bytearray()
    for number, codec in enumerate([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]):
        records = [r._replace(offset=number * 4 + r.offset, headers=()) for r in _records(4)]
        if codec is Codec.NONE:
            for r in records:
                data += encode_message(magic, r.offset, r.timestamp, r.key, r.value)
        else:
            data += encode_wrapper(magic, records, codec)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    text = _kafka([path], "--print-data-log")[path.name]
    assert text.count("isvalid: true") == 7
    _same(_ours(path, DumpOptions(deep=True, print_data=True)), text)
