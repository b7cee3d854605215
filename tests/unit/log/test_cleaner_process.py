"""Cleaning by a real process: what it makes, and what becomes of the log when it dies."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from log.appends import append_as_leader
from log.cleaner.cleanable import cleanable_offsets, log_to_clean
from log.cleaner.cleaner_threads import CleanerConfig, LogCleaner, Throttler
from log.cleaner.plan import CleaningPlan, plan_cleaning
from log.cleaner.process import MIN_BYTES, CleaningProcess, CleaningProcessDiedError
from log.config import LogConfig
from log.errors import LogCleaningAbortedError
from log.partition_log import PartitionLog
from log.records.compression import Codec
from log.records.record import ControlType, EndTxnMarker, Record, build_end_txn_marker, iter_records
from log.records.validation import AppendOrigin
from tests.support.batches import build_batch, iter_batches
from tests.unit.log.harness import TP, Harness
from timer.clock import ManualClock

CONFIG = LogConfig(
    segment_bytes=256 << 10,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=1000,
    min_cleanable_dirty_ratio=0.0,
)
KEYS = 40
IN_PROCESS = CleanerConfig(threads=1, dedupe_buffer_size=1 << 20, own_process=True)


def _filled(directory: Path, config: LogConfig = CONFIG, rounds: int = 120) -> tuple[Harness, PartitionLog]:
    """A log of somewhat more than `MIN_BYTES` in several segments: codecs, tombstones, an aborted and a committed
    transaction."""
    directory.mkdir(parents=True, exist_ok=True)
    harness = Harness(directory, config)
    log = harness.open()
    for number in range(rounds):
        records = [
            Record(i, 1_000, b"key-%d" % (key % KEYS), None if key % 17 == 0 else b"%d-" % number + bytes([key]) * 700)
            for i, key in enumerate(range(number, number + 20))
        ]
        transactional = number % 3 == 0
        options: dict[str, Any] = {"codec": Codec.LZ4 if number % 20 == 1 else Codec.NONE}
        if transactional:
            options |= {"producer_id": 7, "producer_epoch": 0, "base_sequence": 20 * number // 3, "transactional": True}
        data = build_batch(records, **options)
        append_as_leader(log, data, 0, AppendOrigin.COORDINATOR)
        if transactional:
            kind = ControlType.ABORT if number % 2 else ControlType.COMMIT
            marker = build_end_txn_marker(7, 0, EndTxnMarker(kind, 0), 1_000)
            append_as_leader(log, marker, 0, AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
    log.roll()
    log.flush(force_active=True)
    return harness, log


def _files(log: PartitionLog) -> dict[str, bytes]:
    for segment in log.segments[:-1]:
        segment.flush()
    endings = (".log", ".index", ".timeindex", ".txnindex")
    active = f"{log.active_segment.base_offset:020d}"
    return {
        path.name: path.read_bytes()
        for path in sorted(Path(log.directory).iterdir())
        if path.suffix in endings and path.stem != active
    }


def _records(files: Iterable[bytes]) -> list[Record]:
    batches = (batch for data in files for batch in iter_batches(data))
    return [record for batch in batches if not batch.is_control for record in iter_records(batch)]


def _cleaner(harness: Harness, log: PartitionLog, config: CleanerConfig = IN_PROCESS) -> LogCleaner:
    return LogCleaner(lambda: [log], lambda: [str(harness.directory)], harness.clock, config)


def _plan(harness: Harness, log: PartitionLog) -> CleaningPlan:
    now = harness.clock.wall_ms()
    target = log_to_clean(log, cleanable_offsets(log, None, now), now)
    return plan_cleaning(target, now, map_memory=1 << 20, load_factor=0.9, io_buffer_size=65536)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, bytes]:
    """What the thread itself makes of the log."""
    harness, log = _filled(tmp_path / "here")
    before = sum(segment.size for segment in log.segments)
    assert before > MIN_BYTES
    assert _cleaner(harness, log, replace(IN_PROCESS, own_process=False)).step() == 0
    assert sum(segment.size for segment in log.segments) < before / 4
    files = _files(log)
    log.close_handles()
    return files


@pytest.fixture
def there(tmp_path: Path) -> Iterator[tuple[Harness, PartitionLog, LogCleaner]]:
    harness, log = _filled(tmp_path / "there")
    cleaner = _cleaner(harness, log)
    yield harness, log, cleaner
    cleaner.shutdown()
    log.close_handles()


def _at_progress(cleaner: LogCleaner, number: int, action: Callable[[int], None]) -> list[int]:
    """Has `action` done with the process's id the `number`th time it asks whether to go on; returns its ids."""
    asked: list[int] = []

    class Asked(Throttler):
        def __call__(self, size: int) -> None:
            process = cleaner._processes.get(0)
            if process is not None and process.pid is not None:
                asked.append(process.pid)
                if len(asked) == number:
                    action(process.pid)

    cleaner._throttler = Asked(float("inf"), ManualClock())
    return asked


def test_the_process_makes_what_the_thread_makes(
    there: tuple[Harness, PartitionLog, LogCleaner], expected: dict[str, bytes]
) -> None:
    harness, log, cleaner = there
    asked = _at_progress(cleaner, 0, lambda pid: None)
    assert cleaner.step() == 0
    assert len(asked) > 4
    assert len(set(asked)) == 1
    assert _files(log) == expected
    assert all(segment.records.size == os.path.getsize(segment.path) for segment in log.segments)
    stats = cleaner._last_stats[0]
    assert stats.bytes_read > MIN_BYTES
    assert 0 < stats.bytes_written == sum(segment.size for segment in log.segments)
    # It is there for the next log, and gone when there is none.
    assert _is_there(asked[0])
    assert cleaner.step() == cleaner.config.backoff_ms
    assert not _is_there(asked[0])
    harness.stop(log)
    again = harness.open()
    assert again.log_end_offset == log.log_end_offset
    again.close_handles()


@pytest.mark.parametrize("when", [1, 3, "swap", "done"])
def test_a_killed_process_loses_nothing(
    there: tuple[Harness, PartitionLog, LogCleaner],
    expected: dict[str, bytes],
    when: int | str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In the first pass, in the second, while a swap is under way, and after one: the thread takes over."""
    _, log, cleaner = there

    def kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    if isinstance(when, int):
        _at_progress(cleaner, when, kill)
    else:

        def on_step(step: str) -> None:
            process = cleaner._processes.get(0)
            if step == when and process is not None and process.pid is not None:
                kill(process.pid)

        cleaner._on_step = on_step
    with caplog.at_level(logging.WARNING):
        assert cleaner.step() == 0
    assert "ended with status -9; this thread cleans the log instead" in caplog.text
    assert not list(Path(log.directory).glob("*.cleaned"))
    assert _records(Path(segment.path).read_bytes() for segment in log.segments) == _records(
        data for name, data in expected.items() if name.endswith(".log")
    )
    # The next log gets a process again.
    assert cleaner._processes[0].pid is None


def test_a_cancelled_cleaning_leaves_the_log_and_the_process(
    there: tuple[Harness, PartitionLog, LogCleaner], expected: dict[str, bytes]
) -> None:
    _, log, cleaner = there
    before = _files(log)

    def cancel(pid: int) -> None:
        # What `abort_and_pause` of another thread does before it waits.
        cleaner.manager._states[TP] = "aborted"

    asked = _at_progress(cleaner, 5, cancel)
    assert not cleaner._clean_one(0)
    assert _files(log) == before
    assert not list(Path(log.directory).glob("*.cleaned"))
    cleaner.manager.resume(TP)
    assert cleaner._clean_one(0)
    assert len(set(asked)) == 1
    assert _files(log) == expected


def test_what_fails_as_it_tidies_up_holds_nobody_up(tmp_path: Path) -> None:
    harness, log = _filled(tmp_path)
    process = CleaningProcess()

    def progress(size: int) -> None:
        for path in Path(log.directory).glob("*.log.cleaned"):
            path.unlink()
            path.mkdir()
            raise LogCleaningAbortedError("stop")

    with pytest.raises(LogCleaningAbortedError, match="stop"):
        process.run(_plan(harness, log), progress, lambda base, bases: None)
    assert process.pid is not None
    process.close()
    log.close_handles()


def test_an_interpreter_that_prints_something_is_not_understood(
    there: tuple[Harness, PartitionLog, LogCleaner],
    expected: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, log, cleaner = there
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho cnowhere\necho nothing\nexec cat > /dev/null\n")  # a pickle of what a module has
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    assert cleaner.step() == 0
    assert _files(log) == expected


def test_a_damaged_batch_is_found_there_too(there: tuple[Harness, PartitionLog, LogCleaner]) -> None:
    _, log, cleaner = there
    path = Path(log.segments[0].path)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert cleaner.step() == cleaner.config.backoff_ms
    assert cleaner.manager.is_uncleanable(log)
    assert not list(Path(log.directory).glob("*.cleaned"))
    assert not cleaner._processes


def test_the_thread_does_it_where_there_can_be_no_process(
    there: tuple[Harness, PartitionLog, LogCleaner], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, log, cleaner = there
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert cleaner.step() == 0
    assert _files(log) == expected


def test_a_small_log_needs_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness, log = _filled(tmp_path, rounds=30)
    started: list[object] = []
    monkeypatch.setattr(CleaningProcess, "run", lambda *_: started.append(1))
    assert _cleaner(harness, log).step() == 0
    assert not started
    log.close_handles()


def test_it_makes_sure_of_the_broker_before_it_touches_files_by_their_names(tmp_path: Path) -> None:
    """A sync may take so long that another broker has taken over."""
    harness, log = _filled(tmp_path)
    process = CleaningProcess()
    process._send((_plan(harness, log), 1 << 40))
    assert process._receive()[1] > MIN_BYTES  # all of the first pass, which writes nothing
    assert not list(Path(log.directory).glob("*.cleaned"))
    process._send(True)
    process._receive()
    (made,) = Path(log.directory).glob("*.log.cleaned")
    assert made.stat().st_size > 0
    assert made.stat().st_mtime_ns // 1_000_000 != log.segments[0].modified_ms
    process.close()
    log.close_handles()


def test_it_ends_with_the_broker_and_touches_nothing(tmp_path: Path) -> None:
    harness, log = _filled(tmp_path)
    process = CleaningProcess()
    process._send((_plan(harness, log), 1))
    running = process._process
    assert isinstance(running, subprocess.Popen)
    assert running.stdin is not None
    assert running.stdout is not None
    process._receive()
    # It has asked whether to go on. SIGTERM for all of a service's processes is the broker's, not its.
    running.send_signal(signal.SIGTERM)
    process._send(True)
    process._receive()
    running.stdin.close()
    running.stdout.close()
    assert running.wait(60) == -signal.SIGKILL  # by itself
    with pytest.raises(CleaningProcessDiedError):
        process._receive()
    log.close_handles()
