"""The logs that a log manager holds, by partition: the current ones, copies for a move, and strays set aside."""

from __future__ import annotations

from collections import Counter
from threading import RLock

from log.errors import LogError
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition


class LogTable:
    """Changes happen under `lock`; a single look-up needs no lock.

    A future log is never in its current log's directory, so within one directory a partition is found once.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.current: dict[TopicPartition, PartitionLog] = {}
        self.future: dict[TopicPartition, PartitionLog] = {}
        self.strays: dict[TopicPartition, PartitionLog] = {}
        # Of current and future logs, by log directory: each new log asks for it.
        self._counts: Counter[str] = Counter()

    def get(self, tp: TopicPartition, is_future: bool = False) -> PartitionLog | None:
        return (self.future if is_future else self.current).get(tp)

    def add(self, log: PartitionLog) -> None:
        """Take a log in under the kind that its directory's name says. Raises `LogError` if it is there twice."""
        tp = log.topic_partition
        with self.lock:
            logs = self.future if log.is_future else self.current
            other = logs.get(tp)
            if other is not None:
                raise LogError(
                    f"partition {tp} is in both {log.directory} and {other.directory}; remove one of them by hand"
                )
            logs[tp] = log
            self._counts[log.parent_dir] += 1

    def pop(self, tp: TopicPartition, is_future: bool) -> PartitionLog | None:
        with self.lock:
            log = (self.future if is_future else self.current).pop(tp, None)
            if log is not None:
                self._counts[log.parent_dir] -= 1
            return log

    def replace_current(self, tp: TopicPartition) -> None:
        """The future log takes the place of the current one, if any. Raises `KeyError` without a future log."""
        with self.lock:
            future = self.future.pop(tp)
            source = self.current.get(tp)
            if source is not None:
                self._counts[source.parent_dir] -= 1
            self.current[tp] = future

    def count_in(self, log_dir: str) -> int:
        """How many current and future logs a log directory holds."""
        return self._counts[log_dir]

    def all(self) -> list[PartitionLog]:
        """Current and future logs."""
        with self.lock:
            return [*self.current.values(), *self.future.values()]

    def in_dir(self, log_dir: str) -> list[PartitionLog]:
        """Current and future logs of one log directory."""
        return [log for log in self.all() if log.parent_dir == log_dir]

    def take_dir(self, log_dir: str) -> list[PartitionLog]:
        """Forget everything in a directory that has failed; returns the current and future logs of it."""
        with self.lock:
            gone = self.in_dir(log_dir)
            for logs in (self.current, self.future, self.strays):
                for tp in [tp for tp, log in logs.items() if log.parent_dir == log_dir]:
                    del logs[tp]
            del self._counts[log_dir]
        return gone
