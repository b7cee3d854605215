"""What the storage engine costs. `python -m benchmarks.log [--quick] [--json] [--docs] [--dir DIR]`

- append MB/s of 1 MB batches beside plain `write` of the same bytes to a file in the same directory
- cost of an append of one record, by size of the log and number of segments
- cost of a read: by offset at the tail, at random places, and by number of segments
- recovery MB/s after a stop without the marker
- compaction: records/s of one cleaning
- the longest time in one go that a cleaning of 1 MB batches holds the interpreter lock
- open time with 1,000 partitions, after a clean stop and without one

`--dir` is where the files go (default: a temporary directory); its file system decides the absolute figures, so the
comparison with plain `write` is made there too. Costs and rates are by the processor time of the thread
with its system calls, so that other work on the machine does not count; opening and stopping are by the clock.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.charts import replace_section
from log.appends import append_as_leader
from log.cleaner.cleaner_threads import CleanerConfig
from log.config import LogConfig
from log.fetch_data import FetchIsolation
from log.management.manager import LogManager, LogManagerSettings
from log.partition_log import PartitionLog
from log.records.compression import Codec
from log.records.record import Record
from log.topic_partition import TopicPartition
from tests.support.batches import build_batch
from timer.chance import SystemChance
from timer.clock import ManualClock, SystemClock
from timer.scheduler import ManualScheduler

TP = TopicPartition("bench", 0)
DOCS = Path(__file__).resolve().parent.parent / "docs"
NOW = 1_700_000_000_000


class Store:
    """A log manager over one directory, whose background work runs only when asked."""

    def __init__(self, directory: Path, config: LogConfig | None = None) -> None:
        self.clock = SystemClock()
        self.scheduler = ManualScheduler(ManualClock())
        self.manager = LogManager(
            [str(directory)],
            default_config=config if config is not None else LogConfig(),
            topic_configs=lambda topic: {},
            broker_id=0,
            cluster_id="bench",
            clock=self.clock,
            scheduler=self.scheduler,
            chance=SystemChance(),
            settings=LogManagerSettings(cleaner_enabled=False),
        )
        self.manager.startup()

    def log(self, tp: TopicPartition = TP) -> PartitionLog:
        return self.manager.get_or_create_log(tp, is_new=True)


def one_record(size: int = 100) -> bytearray:
    return build_batch([Record(0, NOW, b"key", b"v" * size)])


def megabyte_batch() -> bytearray:
    """About 1 MB in records of 1 KB, as a client sends it."""
    value = os.urandom(1024)
    return build_batch([Record(i, NOW, b"key-%d" % i, value) for i in range(980)])


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cpu(work: Callable[[], Any]) -> float:
    """Seconds of processor time of this thread, system calls included: other work on the machine does not count."""
    start = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - start) / 1e9


# ---- appends


def append_throughput(base: Path, megabytes: int, runs: int) -> dict[str, float]:
    """MB/s of appends as leader and of plain `write`, in turn, in the same directory."""
    batch = megabyte_batch()
    rounds = max(1, megabytes * 1_000_000 // len(batch))
    ours: list[float] = []
    plain: list[float] = []
    for run in range(runs):
        directory = base / f"append-{run}"
        log = Store(directory).log()
        # A part of a request, as it comes from the network.
        view = memoryview(bytearray(80) + batch)[80:]

        def appends(log: PartitionLog = log, view: memoryview = view) -> None:
            for _ in range(rounds):
                # A client's batch has base offset 0; the append writes the offset into the buffer.
                view[:8] = b"\0\0\0\0\0\0\0\0"
                append_as_leader(log, view, 0)

        fd = os.open(base / "plain", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

        def writes(fd: int = fd) -> None:
            for _ in range(rounds):
                os.write(fd, batch)

        total = rounds * len(batch) / 1e6
        for first in (run % 2, 1 - run % 2):
            if first:
                ours.append(total / cpu(appends))
            else:
                plain.append(total / cpu(writes))
        os.close(fd)
        log.close_handles()
        shutil.rmtree(directory)
    os.unlink(base / "plain")
    ratios = [a / b for a, b in zip(ours, plain, strict=True)]
    return {
        "append_mb_s": statistics.median(ours),
        "plain_write_mb_s": statistics.median(plain),
        "ratio": statistics.median(ratios),
    }


def append_costs(base: Path, count: int, segments: int) -> dict[str, float]:
    """µs per append of a one-record batch: at the start, in the middle of a large segment, and behind many segments."""
    found: dict[str, float] = {}
    log = Store(base / "small").log()
    found["fresh_log_us"] = _append_us(log, count)
    big = megabyte_batch()
    for _ in range(100):
        append_as_leader(log, bytes(big), 0)
    found["after_100_mb_us"] = _append_us(log, count)
    producer = _append_us(log, count, producer=True)
    found["idempotent_producer_us"] = producer
    log.close_handles()
    log = Store(base / "many", LogConfig(segment_index_bytes=4096)).log()
    for _ in range(segments):
        append_as_leader(log, bytes(one_record()), 0)
        log.roll()
    log.update_config(LogConfig())
    log.roll()
    found[f"behind_{segments}_segments_us"] = _append_us(log, count)
    log.close_handles()
    return found


def _append_us(log: PartitionLog, count: int, *, producer: bool = False) -> float:
    runs: list[float] = []
    sequence = 0
    for _ in range(5):
        batches = []
        for _ in range(count // 5):
            if producer:
                made = build_batch(
                    [Record(0, NOW, b"key", b"v" * 100)], producer_id=1, producer_epoch=0, base_sequence=sequence
                )
                sequence += 1
                batches.append(memoryview(made))
            else:
                batches.append(memoryview(one_record()))
        start = time.thread_time_ns()
        for batch in batches:
            append_as_leader(log, batch, 0)
        runs.append((time.thread_time_ns() - start) / len(batches) / 1000)
    return statistics.median(runs)


# ---- reads


def read_costs(base: Path, segment_counts: list[int], count: int) -> dict[str, dict[str, float]]:
    """µs per read, by number of segments: a random offset, and the tail with data of one append."""
    found: dict[str, dict[str, float]] = {}
    for segments in segment_counts:
        per_segment = 20_000 // min(segments, 20)
        config = LogConfig(segment_index_bytes=1 << 16, segment_bytes=1 << 30)
        log = Store(base / f"read-{segments}", config).log()
        record = one_record()
        for segment in range(segments):
            if segment:
                log.roll()
            for _ in range(per_segment if segments <= 20 else 200):
                append_as_leader(log, bytes(record), 0)
        log.update_high_watermark(log.log_end_offset)
        end = log.log_end_offset
        step = 7919
        offsets = [(i * step) % end for i in range(count)]
        for offset in offsets:
            log.read(offset, 4096, FetchIsolation.HIGH_WATERMARK, True).records.release()

        def randomly(log: PartitionLog = log, offsets: list[int] = offsets) -> None:
            for offset in offsets:
                log.read(offset, 4096, FetchIsolation.HIGH_WATERMARK, True).records.release()

        def tail(log: PartitionLog = log, offset: int = end - 1) -> None:
            for _ in range(count):
                log.read(offset, 1 << 20, FetchIsolation.HIGH_WATERMARK, True).records.release()

        found[str(segments)] = {
            "random_us": min(cpu(randomly) for _ in range(3)) / count * 1e6,
            "tail_us": min(cpu(tail) for _ in range(3)) / count * 1e6,
        }
        log.close_handles()
        shutil.rmtree(base / f"read-{segments}")
    return found


# ---- recovery and opening


def recovery_throughput(base: Path, megabytes: int) -> dict[str, float]:
    """MB/s of a start without the marker: every batch is checked and the indexes are rebuilt."""
    directory = base / "recover"
    store = Store(directory)
    log = store.log()
    batch = megabyte_batch()
    for _ in range(megabytes):
        append_as_leader(log, bytes(batch), 0)
    small = TopicPartition("small", 0)
    other = store.log(small)
    for _ in range(megabytes * 500):
        append_as_leader(other, bytes(one_record()), 0)
    sizes = {TP: log.size, small: other.size}
    store.manager.shutdown()
    found: dict[str, float] = {}
    for name, tp in (("1_mb_batches_mb_s", TP), ("one_record_batches_mb_s", small)):
        (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (directory / "recovery-point-offset-checkpoint").write_text("")
        hidden = directory.parent / "hidden"
        shutil.move(str(directory / str(small if tp == TP else TP)), hidden)
        again: list[Store] = []
        elapsed = cpu(lambda again=again: again.append(Store(directory)))  # type: ignore[misc]
        found[name] = sizes[tp] / 1e6 / elapsed
        again[0].manager.shutdown()
        shutil.move(hidden, directory / str(small if tp == TP else TP))
    shutil.rmtree(directory)
    return found


def open_times(base: Path, partitions: int) -> dict[str, float]:
    """Seconds to open many partitions with some data, after a clean stop and after none."""
    directory = base / "open"
    config = LogConfig(segment_index_bytes=1 << 20)
    store = Store(directory, config)
    for partition in range(partitions):
        log = store.log(TopicPartition("many", partition))
        for _ in range(3):
            append_as_leader(log, one_record(), 0)
    store.manager.shutdown()
    stores: list[Store] = []
    found = {"partitions": float(partitions)}
    found["clean_s"] = timed(lambda: stores.append(Store(directory, config)))
    found["stop_s"] = timed(stores[0].manager.shutdown)
    (directory / ".kafka_cleanshutdown").unlink()
    found["unclean_s"] = timed(lambda: stores.append(Store(directory, config)))
    for log in stores[1].manager.all_logs():
        log.close_handles()
    shutil.rmtree(directory)
    return found


# ---- compaction


def compaction(base: Path, records: int) -> dict[str, float]:
    """Records per second through one cleaning: batches of 100 records, keys repeat ten times."""
    directory = base / "clean"
    clock = SystemClock()
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=4 << 20, min_cleanable_dirty_ratio=0.0)
    manager = LogManager(
        [str(directory)],
        default_config=config,
        topic_configs=lambda topic: {},
        broker_id=0,
        cluster_id="bench",
        clock=clock,
        scheduler=ManualScheduler(ManualClock()),
        chance=SystemChance(),
        cleaner_config=CleanerConfig(threads=0),
    )
    manager.startup()
    log = manager.get_or_create_log(TP, is_new=True)
    keys = max(1, records // 10)
    for start in range(0, records, 100):
        batch = [Record(i, NOW, b"key-%d" % ((start + i) % keys), b"v" * 100) for i in range(100)]
        append_as_leader(log, build_batch(batch), 0)
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    before = log.size
    cleaner = manager.cleaner
    assert cleaner is not None
    elapsed = cpu(lambda: cleaner.step())
    found = {"records_s": records / elapsed, "mb_before": before / 1e6, "mb_after": log.size / 1e6}
    log.close_handles()
    shutil.rmtree(directory)
    return found


class LongestCall:
    """The C function that took most processor time in one go. No other thread gets the interpreter lock while it runs
    (unless it lets go of it, as calls of the file system do), so it bounds how long the cleaner holds up the rest."""

    _LETS_GO = re.compile("pread|pwrite|fsync|read|write|open|close|replace|rename|unlink|f?truncate|f?stat|utime|mmap")

    def __init__(self) -> None:
        self.name, self.ns = "", 0
        self._since = 0

    def __call__(self, frame: Any, event: str, function: Any) -> None:
        if event == "c_call":
            self._since = time.thread_time_ns()
        elif event == "c_return":
            took = time.thread_time_ns() - self._since
            name = getattr(function, "__qualname__", str(function))
            if took > self.ns and not self._LETS_GO.fullmatch(name):
                self.name, self.ns = name, took


def cleaner_lock_holds(base: Path, megabytes: int) -> dict[str, float]:
    """Milliseconds of the longest C call of a cleaning of 1 MB batches, by codec."""
    found: dict[str, float] = {}
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP):
        directory = base / f"hold-{codec.name}"
        config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=16 << 20, min_cleanable_dirty_ratio=0.0)
        manager = LogManager(
            [str(directory)],
            default_config=config,
            topic_configs=lambda topic: {},
            broker_id=0,
            cluster_id="bench",
            clock=SystemClock(),
            scheduler=ManualScheduler(ManualClock()),
            chance=SystemChance(),
            cleaner_config=CleanerConfig(threads=0),
        )
        manager.startup()
        log = manager.get_or_create_log(TP, is_new=True)
        value = os.urandom(512) * 2
        for number in range(megabytes):
            batch = [Record(i, NOW, b"key-%d" % (number // 2 * 490 + i), value) for i in range(980)]
            append_as_leader(log, build_batch(batch, codec=codec), 0)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        assert manager.cleaner is not None
        longest = LongestCall()
        sys.setprofile(longest)
        try:
            manager.cleaner.step()
        finally:
            sys.setprofile(None)
        assert manager.cleaner.manager.positions([str(directory)])
        found[f"{codec.name.lower()}: {longest.name}, ms"] = longest.ns / 1e6
        log.close_handles()
        shutil.rmtree(directory)
    return found


def run(directory: Path, *, quick: bool) -> dict[str, Any]:
    """All measurements; a mapping of section to figures."""
    logging.disable(logging.INFO)
    return {
        "append_1_mb": append_throughput(directory, 100 if quick else 400, 3 if quick else 7),
        "append_one_record": append_costs(directory, 10_000 if quick else 50_000, 1000),
        "read": read_costs(directory, [1, 10, 100, 1000], 5_000 if quick else 20_000),
        "recovery": recovery_throughput(directory, 50 if quick else 300),
        "compaction": compaction(directory, 50_000 if quick else 300_000),
        "cleaner_lock_holds": cleaner_lock_holds(directory, 8 if quick else 32),
        "open": open_times(directory, 1000),
    }


def show(results: dict[str, Any]) -> None:
    for section, figures in results.items():
        print(f"\n{section}")
        for name, value in figures.items():
            if isinstance(value, dict):
                text = ", ".join(f"{key} {number:,.1f}" for key, number in value.items())
                print(f"  {name:>24}: {text}")
            else:
                print(f"  {name:>24}: {value:,.2f}")


def document(results: dict[str, Any]) -> str:
    """The section of docs/performance.md."""
    append, one, read = results["append_1_mb"], results["append_one_record"], results["read"]
    recovery, opening = results["recovery"], results["open"]
    text = """
`python -m benchmarks.log --docs` writes this (here: with `--quick`, on a busy machine). Costs and rates are by the
processor time of the thread with its system calls; opening and stopping are by the clock.

An append as leader is the validation above, producer state, one `pwrite` and, every 4 KB, two index entries, and
no fsync. A read is a position: a remembered one at the tail, elsewhere a binary
search in the index and a walk over the batch headers of at most 4 KB or so. Neither depends on the size of the log or
the number of segments. A start after a crash checks the CRC of every batch from the recovery point on and rebuilds the
indexes. What separates an append of 1 MB batches from a plain `write` of hot memory is the CRC (about 50 µs a MB) and
the look at every record (50 to 80 µs a MB when neighbouring records have the same shape, which is checked by columns;
0.3 to 0.6 µs a record when every record has another size, and then this is what an append costs). The longest hold of
the interpreter lock is the longest call of a C function that keeps it, by processor time.

| | |
|---|---|
"""
    rows = {
        "append, 1 MB batches of 1 KB records, MB/s": append["append_mb_s"],
        "plain `write` of the same bytes, MB/s": append["plain_write_mb_s"],
        "ratio (aim 0.8)": append["ratio"],
        "append of one record, fresh log, µs": one["fresh_log_us"],
        "append of one record, after 100 MB, µs": one["after_100_mb_us"],
        "append of one record behind 1,000 segments, µs": one["behind_1000_segments_us"],
        "append of one record of an idempotent producer, µs": one["idempotent_producer_us"],
        **{f"read at a random offset, {n} segments, µs": figures["random_us"] for n, figures in read.items()},
        **{f"read at the tail, {n} segments, µs": figures["tail_us"] for n, figures in read.items()},
        "recovery, 1 MB batches, MB/s": recovery["1_mb_batches_mb_s"],
        "recovery, one-record batches of 176 B, MB/s": recovery["one_record_batches_mb_s"],
        "compaction, batches of 100 records, records/s": results["compaction"]["records_s"],
        **{
            f"compaction, longest hold of the interpreter lock, 1 MB batches, {name}": held
            for name, held in results["cleaner_lock_holds"].items()
        },
        f"open {opening['partitions']:,.0f} partitions after a clean stop, s": opening["clean_s"],
        f"open {opening['partitions']:,.0f} partitions after a crash, s": opening["unclean_s"],
        f"clean stop of {opening['partitions']:,.0f} partitions, s": opening["stop_s"],
    }
    return text + "\n".join(f"| {name} | {_number(value)} |" for name, value in rows.items())


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}" if value < 10 else f"{value:,.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less than a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/performance.md")
    parser.add_argument("--dir", type=Path, help="where the files go")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bench-log-", dir=options.dir))
    try:
        results = run(directory, quick=options.quick)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.docs:
        replace_section(DOCS / "performance.md", "Storage engine", document(results))
    if options.json:
        print(json.dumps(results))
    else:
        show(results)


if __name__ == "__main__":
    main()
