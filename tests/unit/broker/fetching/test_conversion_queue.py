"""The queue before the process for conversions: its bound, its process's death, and its end."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.fetching.conversion_queue import BACKOFF_MS, IDLE_MS, SMALL_BYTES, ConversionQueue, run_at_once
from log.errors import DecompressionError
from log.files.file_range import LogFileRange, OpenFile
from log.records.compression import Codec
from log.records.conversion_process import ConversionProcess
from log.records.down_conversion import Convert, convert_here
from log.records.record import Record
from tests.support.batches import build_batch
from tests.support.sockets import wait_until
from timer.clock import ManualClock, SystemClock
from timer.worker import Worker, Workers

RECORDS = [Record(i, 1_700_000_000_000, b"k", bytes([i]) * 100) for i in range(100)]
LARGE = bytes(build_batch(RECORDS))
SMALL = bytes(build_batch(RECORDS[:3]))
PACKED = bytes(build_batch(RECORDS, codec=Codec.LZ4))
assert len(PACKED) < SMALL_BYTES < len(LARGE)


def _range(tmp_path: Path, data: bytes) -> LogFileRange:
    path = tmp_path / "log"
    path.write_bytes(data)
    return LogFileRange(OpenFile(os.open(path, os.O_RDONLY)), 0, len(data))


def _nobody(error: Exception) -> None:
    raise AssertionError("unexpected") from error


class Stepped:
    """A queue whose worker the test is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Worker, "start", lambda worker: None)
        self.clock = ManualClock()
        self.queue = ConversionQueue(self.clock)

    def converted(self, source: LogFileRange) -> bytes:
        found: list[bytes] = []

        def job(convert: Convert) -> None:
            made = convert(source, 1, 0)
            assert made is not None
            found.append(made.records if isinstance(made.records, bytes) else made.records.read())

        self.queue.run(job, _nobody)
        assert self.queue.step() == 0
        return found[0]


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stepped]:
    stepped = Stepped(monkeypatch)
    yield stepped
    stepped.queue.shutdown()


def _expected(tmp_path: Path, data: bytes) -> bytes:
    made = convert_here(_range(tmp_path, data), 1, 0)
    assert made is not None
    assert isinstance(made.records, bytes)
    return made.records


def test_the_process_ends_when_it_has_been_idle(stepped: Stepped, tmp_path: Path) -> None:
    queue = stepped.queue
    assert queue.step() is None
    assert stepped.converted(_range(tmp_path, LARGE)) == _expected(tmp_path, LARGE)
    assert queue.pid is not None
    assert queue.step() == IDLE_MS
    stepped.clock.advance(IDLE_MS - 1)
    assert queue.step() == 1
    stepped.clock.advance(1)
    assert queue.step() is None
    assert queue.pid is None


def test_little_is_not_worth_the_way(stepped: Stepped, tmp_path: Path) -> None:
    assert stepped.converted(_range(tmp_path, SMALL)) == _expected(tmp_path, SMALL)
    assert stepped.queue.pid is None
    assert stepped.converted(_range(tmp_path, PACKED)) == _expected(tmp_path, PACKED)  # nobody knows what is in it
    assert stepped.queue.pid is not None


def test_the_worker_converts_until_another_process_works(
    stepped: Stepped, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue, expected = stepped.queue, _expected(tmp_path, LARGE)

    def kill() -> int:
        assert queue.pid is not None
        os.kill(queue.pid, signal.SIGKILL)
        return queue.pid

    assert stepped.converted(_range(tmp_path, LARGE)) == expected
    first = kill()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert stepped.converted(_range(tmp_path, LARGE)) == expected
            assert queue.pid is None
    assert [record.message.partition(" with")[0] for record in caplog.records] == [
        "the process for conversions has ended"
    ]
    stepped.clock.advance(BACKOFF_MS)
    assert stepped.converted(_range(tmp_path, LARGE)) == expected
    assert queue.pid not in (None, first)


def test_one_that_cannot_start_is_tried_ever_more_seldom(
    stepped: Stepped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[int] = []
    start = ConversionProcess._start

    def counted(process: ConversionProcess) -> object:
        tried.append(stepped.clock.monotonic_ms())
        return start(process)

    monkeypatch.setattr(ConversionProcess, "_start", counted)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    expected = _expected(tmp_path, LARGE)
    for _ in range(20):
        assert stepped.converted(_range(tmp_path, LARGE)) == expected
        stepped.clock.advance(BACKOFF_MS)
    assert tried == [0, 1000, 3000, 7000, 15000]
    assert len(caplog.records) == 1


def test_at_the_bound_a_job_is_refused(tmp_path: Path) -> None:
    queue = ConversionQueue(SystemClock(), limit=1)
    begun, go_on = threading.Event(), threading.Event()
    ran: list[str] = []

    def first(convert: Convert) -> None:
        begun.set()
        go_on.wait(60)
        ran.append(threading.current_thread().name)

    def then(convert: Convert) -> None:
        ran.append(threading.current_thread().name)

    try:
        assert queue.run(first, _nobody)
        assert begun.wait(60)
        assert queue.run(then, _nobody)  # waits
        assert not queue.run(then, _nobody)  # finds no place
        assert ran == []
        go_on.set()
        wait_until(lambda: len(ran) == 2, "the job that waited is done")
        assert ran == ["down-conversion", "down-conversion"]
    finally:
        go_on.set()
        queue.shutdown()
    assert not queue.run(then, _nobody)  # nobody is there any more
    assert len(ran) == 2


def test_without_a_queue_a_job_that_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Exception] = []
    error = MemoryError("no")

    def fails(convert: Convert) -> None:
        assert convert is convert_here
        raise error

    assert run_at_once(fails, told.append)
    assert told == [error]
    assert "an answer for an old consumer failed" in caplog.text


def test_what_the_process_may_not_do_the_worker_does(
    stepped: Stepped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """There are systems that have files in memory and refuse them."""
    monkeypatch.setattr("log.records.conversion_process._ERRORS", {})  # so any error is the process's own
    damaged = bytearray(build_batch(RECORDS, codec=Codec.GZIP))
    damaged[100] ^= 0xFF
    said: list[Exception] = []

    def job(convert: Convert) -> None:
        convert(_range(tmp_path, bytes(damaged)), 1, 0)

    stepped.queue.run(job, said.append)
    stepped.queue.step()
    assert [type(error) for error in said] == [DecompressionError]  # from here
    assert "the process for conversions has failed: DecompressionError" in caplog.text


def test_a_job_that_fails_is_told_and_the_next_is_done(
    stepped: Stepped, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Exception] = []
    error = ValueError("no")

    def fails(convert: Convert) -> None:
        raise error

    stepped.queue.run(fails, told.append)
    assert stepped.queue.step() == 0
    assert told == [error]
    assert "an answer for an old consumer failed" in caplog.text
    assert stepped.converted(_range(tmp_path, SMALL)) == _expected(tmp_path, SMALL)


def test_a_stop_ends_what_waits_for_the_process(tmp_path: Path) -> None:
    workers = Workers()
    queue = ConversionQueue(SystemClock(), workers)
    told: list[Exception] = []
    first = threading.Event()

    def job(convert: Convert) -> None:
        convert(_range(tmp_path, LARGE), 1, 0)
        first.set()

    queue.run(job, told.append)
    assert first.wait(60)
    pid = queue.pid
    assert pid is not None
    asked = threading.Event()

    def stuck(convert: Convert) -> None:
        asked.set()
        convert(_range(tmp_path, LARGE), 1, 0)

    os.kill(pid, signal.SIGSTOP)
    try:
        queue.run(stuck, told.append)
        assert asked.wait(60)
        (worker,) = workers
    finally:
        queue.shutdown()
    assert [type(error).__name__ for error in told] == ["ConversionProcessDiedError"]
    assert not worker.is_dead
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
