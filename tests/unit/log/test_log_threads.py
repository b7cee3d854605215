"""Readers without a lock beside a writer that rolls, truncates, retains and renames."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from log.config import LogConfig
from log.errors import OffsetOutOfRangeError
from log.fetch_data import FetchIsolation
from log.files.file_range import OpenFileBound
from log.management.retention import delete_old_segments
from log.offset_lookup import fetch_offset_by_timestamp
from log.records.record import iter_records
from log.records.validation import check_for_follower
from log.truncation import truncate_to
from tests.unit.log.harness import Harness, append

SECONDS = 1.5
LIMIT_S = 60  # if readers do not come to read meanwhile
READERS = 3


def test_readers_beside_a_writer(tmp_path: Path) -> None:
    config = LogConfig(
        segment_bytes=3000,
        index_interval_bytes=200,
        segment_index_bytes=2400,
        retention_bytes=15_000,
        file_delete_delay_ms=0,
    )
    harness = Harness(tmp_path, config)
    harness.env.bound = OpenFileBound(5)
    log = harness.open()
    begun = time.monotonic()
    faults: list[str] = []
    reads = [0] * READERS

    def goes_on() -> bool:
        passed = time.monotonic() - begun
        return not faults and (passed < SECONDS or (min(reads) <= 10 and passed < LIMIT_S))

    def value(offset: int) -> bytes:
        return b"%d" % offset * 10

    def read(number: int) -> None:
        rng = random.Random(number)
        while goes_on():
            try:
                start, end = log.log_start_offset, log.log_end_offset
                offset = rng.randint(start, max(start, end - 1))
                isolation = rng.choice([FetchIsolation.LOG_END, FetchIsolation.HIGH_WATERMARK])
                info = log.read(offset, rng.choice([1, 300, 5000]), isolation, True)
                try:
                    data = info.records.read()
                finally:
                    info.records.release()
                for batch in check_for_follower(data).batches:
                    for record in iter_records(batch):
                        assert record.value == value(record.offset), record
                fetch_offset_by_timestamp(log, 1000 + offset)
                reads[number] += 1
            except (OffsetOutOfRangeError, EOFError):
                # Truncated or deleted in between; a range of a file that is cut ends early.
                continue
            except Exception as error:
                faults.append(f"reader {number}: {error!r}")

    threads = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    rng = random.Random(99)
    try:
        while goes_on():
            for _ in range(30):
                end = log.log_end_offset
                append(log, value(end), timestamp=1000 + end)
            log.update_high_watermark(log.log_end_offset - rng.randint(0, 5))
            choice = rng.random()
            if choice < 0.2:
                truncate_to(log, max(log.log_end_offset - rng.randint(1, 40), log.log_start_offset))
            elif choice < 0.4:
                delete_old_segments(log)
            elif choice < 0.5:
                log.rename_dir("topic-0" if log.is_future else "topic-0.0123456789abcdef0123456789abcdef-future")
            elif choice < 0.6:
                log.flush()
            # A reader waits for the lock of the interpreter, not for the log's.
            time.sleep(0.0005)
    finally:
        for thread in threads:
            thread.join(20)
    assert not faults, faults
    assert not harness.failures
    assert all(count > 10 for count in reads), reads
