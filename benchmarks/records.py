"""What checking a produced batch costs, and compaction. `python -m benchmarks.records [--quick] [--json] [--docs]`

Validation: the leader's whole check of one batch (header, checksum, every record, offsets written in place), beside its
checksum alone and beside building every record, in the same run. Compaction: records a second through both passes of
the cleaner, reading and writing files included. Medians; times are CPU time of the thread. `--docs` writes the tables
into docs/performance.md.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.charts import replace_section
from log.appends import append_as_leader
from log.cleaner.cleanable import cleanable_offsets, log_to_clean
from log.cleaner.cleaning_pass import Cleaner
from log.config import LogConfig
from log.local_log import LogEnvironment
from log.management.loader import LoadOptions, open_log
from log.records.batch import RecordBatch
from log.records.compression import Codec
from log.records.record import Record, iter_records
from log.records.validation import AppendOrigin, validate_for_leader
from tests.support.batches import build_batch
from timer.chance import SeededChance
from timer.clock import SystemClock
from timer.scheduler import ManualScheduler

NOW = 1_700_000_000_000
DOCS = Path(__file__).resolve().parent.parent / "docs"

TEXT = """\
`python -m benchmarks.records --docs` wrote this. A produced batch is checked as Kafka checks it: the header, its
CRC-32C, and every record (its structure, its key on a compacted topic, its timestamp against the topic's limits and the
batch's own maximum, its offset delta when the batch is compressed); then base offset and leader epoch are written in
place. Plain Python needs one to two microseconds a record for that. Records of equal shape, which is what most
producers send, are checked in runs instead: the columns of their length bytes are compared by strided slices, so a run
costs some 0.1 microseconds a record and accepts exactly the same bytes. Where sizes differ, only the step from a record
to the next is made one by one; all other bytes are gathered and compared by columns. The last column compares with
building all records, which the broker never does on this path.

Compaction walks every record twice in Python. Every key occurs ten times in the log that is compacted.

"""


def _fixed(count: int, size: int) -> list[Record]:
    return [Record(i, NOW + i // 20, b"key-%08d" % i, b"v" * size) for i in range(count)]


def _varied(count: int, size: int) -> list[Record]:
    rng = random.Random(1)
    return [Record(i, NOW + i // 20, b"key-%d" % i, b"v" * rng.randint(size // 2, size * 3 // 2)) for i in range(count)]


BATCHES: list[tuple[str, list[Record], Codec]] = [
    ("1 record of 100 B", _fixed(1, 100), Codec.NONE),
    ("100 records of 100 B", _fixed(100, 100), Codec.NONE),
    ("1,000 records of 1 KB", _fixed(1000, 1000), Codec.NONE),
    ("1,000 records of 0.5 to 1.5 KB", _varied(1000, 1000), Codec.NONE),
    ("9,000 records of 100 B", _fixed(9000, 100), Codec.NONE),
    ("9,000 records of 50 to 150 B", _varied(9000, 100), Codec.NONE),
    ("1,000 records of 1 KB, lz4", _fixed(1000, 1000), Codec.LZ4),
    ("1,000 records of 1 KB, zstd", _fixed(1000, 1000), Codec.ZSTD),
]


def _median(work: Callable[[], Any], seconds: float, prepare: Callable[[], Any] = lambda: None) -> float:
    """Median CPU seconds of one call."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        prepare()
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return statistics.median(times)


def validation(seconds: float) -> list[dict[str, Any]]:
    """One row a kind of batch."""
    config = LogConfig(max_message_bytes=1 << 21)
    rows = []
    for name, records, codec in BATCHES:
        original = bytes(build_batch(records, codec=codec))
        buffer = bytearray(original)
        batch = RecordBatch(original)

        def restore(buffer: bytearray = buffer, original: bytes = original) -> None:
            buffer[:] = original

        def validate(buffer: bytearray = buffer) -> None:
            validate_for_leader(
                buffer, origin=AppendOrigin.CLIENT, config=config, next_offset=5, leader_epoch=1, now_ms=NOW
            )

        whole = _median(validate, seconds, restore)
        checksum = _median(batch.compute_crc, seconds / 4)
        building = _median(lambda batch=batch: sum(1 for _ in iter_records(batch)), seconds)  # type: ignore[misc]
        rows.append(
            {
                "batch": name,
                "bytes": len(original),
                "validate_us": whole * 1e6,
                "per_record_ns": whole / len(records) * 1e9,
                "megabytes_per_s": len(original) / whole / 1e6,
                "checksum_us": checksum * 1e6,
                "building_over_validate": building / whole,
            }
        )
    return rows


def compaction(records: int, batch_size: int) -> dict[str, Any]:
    """Records a second of one cleaning of a log in which every key occurs ten times."""
    clock = SystemClock()
    config = LogConfig.from_mapping({"cleanup.policy": "compact", "segment.bytes": str(16 << 20)})
    rng = random.Random(2)
    keys = [b"key-%08d" % rng.randrange(records // 10) for _ in range(records)]
    with tempfile.TemporaryDirectory() as directory:
        environment = LogEnvironment(clock, ManualScheduler(clock), chance=SeededChance(0))  # type: ignore[arg-type]
        log = open_log(f"{directory}/topic-0", config, environment, LoadOptions())
        for start in range(0, records, batch_size):
            part = keys[start : start + batch_size]
            data = build_batch([Record(i, NOW + start + i, key, b"v" * 100) for i, key in enumerate(part)])
            append_as_leader(log, data, 0, AppendOrigin.CLIENT)
        log.update_high_watermark(log.log_end_offset)
        log.roll()
        cleaner = Cleaner(64 << 20, 0.9, 262_144, lambda tp: None, lambda size: None)
        now = clock.wall_ms()
        target = log_to_clean(log, cleanable_offsets(log, None, now), now)
        start_time = time.thread_time()
        _, stats = cleaner.clean(target, now)
        elapsed = time.thread_time() - start_time
        log.close_handles()
    return {
        "records": records,
        "records_per_batch": batch_size,
        "kept": stats.messages_written,
        "seconds": elapsed,
        "records_per_s": records / elapsed,
        "megabytes_per_s": stats.bytes_read / elapsed / 1e6,
    }


def _tables(result: dict[str, Any]) -> str:
    lines = [
        "| batch | bytes | validate µs | per record ns | MB/s | checksum alone µs | building records / validate |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['batch']} | {row['bytes']:,} | {row['validate_us']:,.0f} | {row['per_record_ns']:,.0f} | "
        f"{row['megabytes_per_s']:,.0f} | {row['checksum_us']:,.1f} | {row['building_over_validate']:.1f} |"
        for row in result["validation"]
    ]
    lines += [
        "",
        "| compaction: records in a batch | records | kept | records/s | MB/s read |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['records_per_batch']:,} | {row['records']:,} | {row['kept']:,} | {row['records_per_s']:,.0f} | "
        f"{row['megabytes_per_s']:,.1f} |"
        for row in result["compaction"]
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args()
    size = 50_000 if options.quick else 300_000
    result = {
        "validation": validation(0.1 if options.quick else 0.6),
        "compaction": [compaction(size, batch_size) for batch_size in (1, 10, 100)],
    }
    print(json.dumps(result) if options.json else _tables(result))
    if options.docs:
        replace_section(DOCS / "performance.md", "Checking produced batches, and compaction", TEXT + _tables(result))


if __name__ == "__main__":
    main()
