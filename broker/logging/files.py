"""Log files as Kafka's log4j.properties separates them, written by a thread of their own.

| file                   | what                                                 |
|------------------------|------------------------------------------------------|
| `server.log`           | everything that has no file of its own               |
| `controller.log`       | the controller                                       |
| `state-change.log`     | partitions and replicas that change their state      |
| `log-cleaner.log`      | compaction                                           |
| `kafka-request.log`    | finished requests (`kafka.request.logger` at DEBUG)  |
| `kafka-authorizer.log` | what was denied, at DEBUG also what was allowed      |

A line is put into a queue and written by one thread, because writing to a disk may block and lines come from event
loops too. The queue holds 10,000 lines; what finds it full is dropped, and the next line written says how many were. A
file that cannot be written to is complained of once on standard error, until it works again.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from queue import Full, Queue
from typing import Any, Final

from broker.config.loggers import KAFKA_LOGGERS
from broker.logging.request_log import REQUEST_LOGGER

QUEUED_LINES: Final = 10_000
_FLUSH_S: Final = 5.0

SERVER_FILE: Final = "server.log"
STREAMS: Final[dict[str, Sequence[str]]] = {
    "controller.log": KAFKA_LOGGERS["kafka.controller"],
    "state-change.log": KAFKA_LOGGERS["state.change.logger"],
    "log-cleaner.log": KAFKA_LOGGERS["kafka.log.LogCleaner"],
    "kafka-request.log": (REQUEST_LOGGER,),
    "kafka-authorizer.log": KAFKA_LOGGERS["kafka.authorizer.logger"],
}
"""Loggers by the file that is theirs; their lines stand in no other."""

_PLAIN = logging.Formatter()


@dataclass(frozen=True, slots=True)
class FileSettings:
    """`odradek.log.*`."""

    directory: Path
    max_bytes: int
    backups: int


class LogFiles:
    """The files of one broker. `start` hooks them into the loggers, `stop` writes what waits and takes them out."""

    def __init__(self, settings: FileSettings, formatter: logging.Formatter) -> None:
        """Raises OSError where the directory or a file cannot be made."""
        settings.directory.mkdir(parents=True, exist_ok=True)
        self._queue: Queue[Any] = Queue(QUEUED_LINES)
        self._lock = threading.Lock()
        self._lost = 0
        self._files: dict[str, _File] = {}
        for name in (SERVER_FILE, *STREAMS):
            file = self._files[name] = _File(
                settings.directory / name, maxBytes=settings.max_bytes, backupCount=settings.backups, encoding="utf-8"
            )
            file.setFormatter(formatter)
        self._listener = _Listener(self._queue, self._files, self._take_lost)
        self._hooked: list[tuple[logging.Logger, _Queued]] = []

    def start(self) -> None:
        self._listener.start()
        self._hook(logging.getLogger(), SERVER_FILE)
        for file, names in STREAMS.items():
            for name in names:
                logger = logging.getLogger(name)
                logger.propagate = False
                self._hook(logger, file)

    def stop(self) -> None:
        for logger, handler in self._hooked:
            logger.removeHandler(handler)
            logger.propagate = True
        self._hooked.clear()
        self._listener.stop()
        for file in self._files.values():
            with contextlib.suppress(OSError):  # a full disk has been complained of
                file.close()

    def put(self, record: logging.LogRecord) -> None:
        """Queue a line; drop it if there is no room."""
        try:
            self._queue.put_nowait(record)
        except Full:
            with self._lock:
                self._lost += 1

    def flush(self) -> None:
        """Wait until what was queued is written, for a few seconds at most."""
        queue = self._queue
        with queue.all_tasks_done:
            queue.all_tasks_done.wait_for(lambda: not queue.unfinished_tasks, _FLUSH_S)

    def _hook(self, logger: logging.Logger, file: str) -> None:
        handler = _Queued(self, file)
        logger.addHandler(handler)
        self._hooked.append((logger, handler))

    def _take_lost(self) -> int:
        with self._lock:
            lost, self._lost = self._lost, 0
        return lost


class _Queued(QueueHandler):
    """Gives lines to the thread that writes; what a line says is worked out here, for what it names may change."""

    def __init__(self, files: LogFiles, file: str) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # `enqueue` has a queue of its own
        self._into = files
        self._file = file

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        copied = copy.copy(record)
        copied.msg, copied.args = record.getMessage(), None
        if record.exc_info:
            copied.exc_text = record.exc_text or _PLAIN.formatException(record.exc_info)
            copied.exc_info = None
        copied.file = self._file
        return copied

    def enqueue(self, record: logging.LogRecord) -> None:
        self._into.put(record)

    def flush(self) -> None:
        self._into.flush()


class _Listener(QueueListener):
    def __init__(self, queue: Queue[Any], files: dict[str, _File], take_lost: Callable[[], int]) -> None:
        super().__init__(queue)
        self._lines = queue
        self._files = files
        self._take_lost = take_lost

    def enqueue_sentinel(self) -> None:
        self._lines.put(None)  # the queue is bounded, so this may have to wait for room

    def handle(self, record: logging.LogRecord) -> None:
        file = self._files[getattr(record, "file", SERVER_FILE)]
        lost = self._take_lost()
        if lost:
            text = f"{lost} lines were dropped, because more came than could be written"
            self._files[SERVER_FILE].handle(_record(text))
        file.handle(record)


class _File(RotatingFileHandler):
    """Rotates by size, keeps so many old files, and says once that it cannot be written to, until it works again."""

    _error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        before, self._error = self._error, None
        super().emit(record)
        if self._error is not None and before is None:
            text = f"odradek: cannot write to {self.baseFilename}: {self._error}; its lines are lost until it can"
            print(text, file=sys.stderr)

    def handleError(self, record: logging.LogRecord) -> None:
        self._error = sys.exc_info()[1]


def _record(text: str) -> logging.LogRecord:
    return logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None)
