"""Partition directories that wait to be removed."""

from __future__ import annotations

import logging
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING

from log.errors import StorageError
from log.local_log import LogEnvironment

if TYPE_CHECKING:
    from log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class DeletionQueue:
    """Logs whose directories are renamed `-delete`, in the order in which they were, each removed after `delay_ms`.

    `run` is a background task that schedules itself again.
    """

    def __init__(self, env: LogEnvironment, delay_ms: int) -> None:
        self._env = env
        self.delay_ms = delay_ms
        self._lock = Lock()
        self._queue: deque[tuple[PartitionLog, int]] = deque()
        self._stopped = False

    def add(self, log: PartitionLog) -> None:
        with self._lock:
            self._queue.append((log, self._env.clock.wall_ms()))

    def remove_dir(self, log_dir: str) -> list[PartitionLog]:
        """Forget the logs of a directory that has failed; returns them."""
        with self._lock:
            gone = [log for log, _ in self._queue if log.parent_dir == log_dir]
            self._queue = deque(item for item in self._queue if item[0].parent_dir != log_dir)
            return gone

    def logs(self) -> list[PartitionLog]:
        with self._lock:
            return [log for log, _ in self._queue]

    def stop(self) -> None:
        self._stopped = True

    def run(self) -> None:
        """Remove what is due, and come again when the next is."""
        while True:
            with self._lock:
                if not self._queue or self._wait_ms() > 0:
                    wait = self._wait_ms() if self._queue else self.delay_ms
                    break
                log, _ = self._queue.popleft()
            try:
                log.delete()
                logger.info("%s: deleted the log in %s", log.topic_partition, log.directory)
            except StorageError:
                logger.exception("%s: could not delete %s", log.topic_partition, log.directory)
        if not self._stopped:
            self._env.scheduler.schedule_once("kafka-delete-logs", self.run, max(1, wait))

    def _wait_ms(self) -> int:
        return self._queue[0][1] + self.delay_ms - self._env.clock.wall_ms()
