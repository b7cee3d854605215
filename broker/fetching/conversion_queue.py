"""Where answers for old consumers wait until their records are converted, so that no thread of the data path does.

A worker takes one answer after the other and has a process convert its records, range by range; then it gives the
answer. Until its turn an answer is a few ranges of log files, without a byte in memory. While a process can't be had,
the worker converts by itself. At the bound a job is refused, and its client gets an answer without those records, for
which it asks again: whoever has the answer may be a producer's thread or a listener's, and conversion takes seconds.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from log.records.conversion_process import ConversionProcess, ConversionProcessDiedError
from log.records.down_conversion import Convert, Converted, Source, convert_here
from log.records.old_formats import iter_entries
from timer.clock import Clock
from timer.worker import Worker, Workers

logger = logging.getLogger(__name__)

MAX_WAITING = 100
"""Answers. A client waits for one before it asks for the next, so this is about how many old consumers there may be."""
SMALL_BYTES = 4096
"""So much without compression is converted by the worker: a few records take less than the way to the process."""
IDLE_MS = 180_000
BACKOFF_MS, MAX_BACKOFF_MS = 1_000, 60_000
STOP_MS = 5_000

Job = Callable[[Convert], None]
"""Gives an answer, once its records are converted by the function that it is given."""
Failed = Callable[[Exception], None]
"""Called with what the job has raised."""
RunConversion = Callable[[Job, Failed], bool]
"""Has a job done, now or later, by this thread or another; False if there is no room for it: it won't be done."""


def run_at_once(job: Job, failed: Failed) -> bool:
    """For a broker without a process for conversions: done here."""
    try:
        job(convert_here)
    except Exception as error:
        logger.exception("an answer for an old consumer failed")
        failed(error)
    return True


class ConversionQueue:
    """`run` is called by any thread. Thread and process begin with the first job; the process ends when there has been
    none for some minutes."""

    def __init__(self, clock: Clock, workers: Workers | None = None, limit: int = MAX_WAITING) -> None:
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._jobs: deque[tuple[Job, Failed]] = deque()
        self._stopped = False
        self._process = ConversionProcess()  # the worker's; others ask for its pid and interrupt it
        # Of the worker's thread from here on.
        self._used_ms = 0.0
        self._backoff_ms = 0.0
        self._not_before_ms = 0.0
        # Of all threads again.
        self._worker = Worker("down-conversion", self.step, clock, interrupt=self._process.interrupt, workers=workers)

    @property
    def pid(self) -> int | None:
        """Of the process, if it runs."""
        return self._process.pid

    def run(self, job: Job, failed: Failed) -> bool:
        """Have `job` done by the worker; False at the bound and after `shutdown`: it is not taken."""
        with self._lock:
            if self._stopped or len(self._jobs) >= self._limit:
                return False
            self._jobs.append((job, failed))
            if not self._worker.is_started:
                self._worker.start()
        self._worker.wake()
        return True

    def shutdown(self) -> None:
        """End thread and process. What still waits is dropped: by now nobody is connected."""
        with self._lock:
            self._stopped = True
            self._jobs.clear()
        self._worker.stop(STOP_MS)
        self._process.close()

    # ---- the worker

    def step(self) -> float | None:
        """One job. Returns 0 if there was one, else when the idle process is due to end."""
        try:
            job, failed = self._jobs.popleft()
        except IndexError:
            return self._idle()
        try:
            job(self._convert)
        except Exception as error:
            if not self._worker.is_stopping:
                logger.exception("an answer for an old consumer failed")
            failed(error)
        self._used_ms = self._clock.monotonic_ms()
        return 0

    def _idle(self) -> float | None:
        if self._process.pid is None:
            return None
        left = self._used_ms + IDLE_MS - self._clock.monotonic_ms()
        if left > 0:
            return left
        self._process.close()
        return None

    def _convert(self, source: Source, magic: int, first_offset: int) -> Converted | None:
        if source.size <= SMALL_BYTES and not any(entry.is_compressed for entry in iter_entries(source.read())):
            return convert_here(source, magic, first_offset)
        if self._clock.monotonic_ms() >= self._not_before_ms:
            try:
                converted = self._process.convert(source, magic, first_offset)
            except ConversionProcessDiedError as error:
                if self._worker.is_stopping:
                    raise
                self._died(error)
            else:
                self._backoff_ms = 0.0
                return converted
        return convert_here(source, magic, first_offset)

    def _died(self, error: ConversionProcessDiedError) -> None:
        if not self._backoff_ms:
            logger.warning("%s; the broker converts by itself until another one works", error)
        self._backoff_ms = min(2 * self._backoff_ms or BACKOFF_MS, MAX_BACKOFF_MS)
        self._not_before_ms = self._clock.monotonic_ms() + self._backoff_ms
