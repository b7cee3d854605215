"""Which log is cleaned when: states of partitions, positions of past cleanings, the choice of the next log."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from log.cleaner.cleanable import LogToClean, cleanable_offsets, is_candidate, log_to_clean
from log.errors import LogCleaningAbortedError, LogError, StorageError
from log.files.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from log.partition_log import PartitionLog
from log.topic_partition import TopicPartition
from timer.clock import Clock
from timer.news import News, of_error

logger = logging.getLogger(__name__)

# States of a partition. One that is not listed is free. A number counts pauses.
IN_PROGRESS = "in progress"
ABORTED = "aborted"
State = str | int


@dataclass(slots=True)
class SelectionFacts:
    """What the last choice saw, for metrics."""

    last_run_ms: int = 0
    max_dirty_ratio: float = 0.0
    max_compaction_delay_ms: int = 0


class CleanerManager:
    """Keeps cleaner threads off each other and off logs that are being cut, moved or deleted. Safe from any thread.

    `logs` gives all current logs. `on_io_error(log_dir, message)` is told of checkpoint files that fail.
    """

    def __init__(
        self,
        logs: Callable[[], Iterable[PartitionLog]],
        clock: Clock,
        on_io_error: Callable[[str, str], None] = lambda directory, message: None,
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._failures = News(clock)
        self._on_io_error = on_io_error
        self._changed = threading.Condition()
        self._states: dict[TopicPartition, State] = {}
        self._uncleanable: dict[str, set[TopicPartition]] = {}
        self._checkpoints: dict[str, OffsetCheckpoint] = {}
        self.facts = SelectionFacts(last_run_ms=clock.wall_ms())

    # ---- positions

    def checkpoint_of(self, log_dir: str) -> OffsetCheckpoint:
        """The cleaner's checkpoint file of a log directory; created empty when first used."""
        with self._changed:
            found = self._checkpoints.get(log_dir)
            if found is None:
                found = OffsetCheckpoint(os.path.join(log_dir, CLEANER_CHECKPOINT), log_dir)
                found.create_if_absent()
                self._checkpoints[log_dir] = found
            return found

    def positions(self, log_dirs: Iterable[str]) -> dict[TopicPartition, int]:
        """Up to where logs are clean, over all directories; one that fails is reported and left out."""
        result: dict[TopicPartition, int] = {}
        for log_dir in log_dirs:
            try:
                result |= self.checkpoint_of(log_dir).read()
            except StorageError as error:
                self._on_io_error(log_dir, str(error))
        return result

    def update_position(self, log_dir: str, tp: TopicPartition, offset: int | None) -> None:
        """Stores a position, or removes it (None). Positions of partitions that are gone are dropped."""
        with self._changed:
            try:
                checkpoint = self.checkpoint_of(log_dir)
                known = {log.topic_partition for log in self._logs()}
                positions = {other: o for other, o in checkpoint.read().items() if other in known and other != tp}
                if offset is not None:
                    positions[tp] = offset
                checkpoint.write(positions)
            except StorageError as error:
                self._on_io_error(log_dir, str(error))

    def maybe_truncate_position(self, log_dir: str, tp: TopicPartition, offset: int) -> None:
        """A truncation to a segment that begins at `offset`: nothing above it is clean any more."""
        with self._changed:
            try:
                position = self.checkpoint_of(log_dir).read().get(tp)
            except StorageError as error:
                self._on_io_error(log_dir, str(error))
                return
            if position is not None and position > offset:
                self.update_position(log_dir, tp, offset)

    def move_position(self, tp: TopicPartition, source: str, target: str) -> None:
        """A log has moved between directories."""
        with self._changed:
            position = self.positions([source]).get(tp)
            self.update_position(source, tp, None)
            if position is not None:
                self.update_position(target, tp, position)
            if tp in self._uncleanable.get(source, ()):
                self._uncleanable[source].discard(tp)
                self._uncleanable.setdefault(target, set()).add(tp)

    def forget_directory(self, log_dir: str) -> None:
        """A log directory has gone offline."""
        with self._changed:
            self._checkpoints.pop(log_dir, None)
            self._uncleanable.pop(log_dir, None)

    # ---- states

    def state_of(self, tp: TopicPartition) -> State | None:
        """The state of a partition, None when it is free."""
        with self._changed:
            return self._states.get(tp)

    def check_not_aborted(self, tp: TopicPartition) -> None:
        """Raises LogCleaningAbortedError when the cleaning in progress must stop."""
        if self._states.get(tp) == ABORTED:  # lock-free: one look, before every batch
            raise LogCleaningAbortedError(f"the cleaning of {tp} is cancelled")

    def abort_and_pause(self, tp: TopicPartition, timeout_ms: float | None = None) -> None:
        """Stops a cleaning in progress and keeps new ones from beginning until `resume`. Calls nest.

        Returns when no thread touches the log. Raises LogError when that takes longer than `timeout_ms`.
        """
        with self._changed:
            state = self._states.get(tp)
            if state is None:
                self._states[tp] = 1
                return
            if isinstance(state, int):
                self._states[tp] = state + 1
                return
            self._states[tp] = ABORTED
            deadline = None if timeout_ms is None else self._clock.monotonic_ms() + timeout_ms
            while not isinstance(self._states.get(tp), int):
                left = None if deadline is None else deadline - self._clock.monotonic_ms()
                if left is not None and left <= 0:
                    raise LogError(f"the cleaning of {tp} did not stop within {timeout_ms} ms")
                self._clock.wait(self._changed, left)

    def pause_if_idle(self, tp: TopicPartition) -> bool:
        """Keeps cleaning from beginning until `resume`; False, and nothing is paused, where it is in progress."""
        with self._changed:
            state = self._states.get(tp, 0)
            if not isinstance(state, int):
                return False
            self._states[tp] = state + 1
            return True

    def resume(self, tp: TopicPartition) -> None:
        """Undoes one `abort_and_pause` or `pause_if_idle`. Raises LogError when the partition is not paused."""
        with self._changed:
            state = self._states.get(tp)
            if not isinstance(state, int):
                raise LogError(f"cleaning of {tp} is not paused but {state or 'free'}")
            if state == 1:
                del self._states[tp]
            else:
                self._states[tp] = state - 1
            self._changed.notify_all()

    def abort(self, tp: TopicPartition) -> None:
        """Stops a cleaning in progress; the next may begin at once."""
        self.abort_and_pause(tp)
        self.resume(tp)

    @contextmanager
    def stopped_for_truncation(self, log: PartitionLog, offset: int) -> Iterator[None]:
        """Keeps cleaning off a log that is cut to `offset` inside the context, if segments which may be cleaned go.

        Afterwards the stored position is not above the active segment.
        """
        if offset >= log.active_segment.base_offset:
            yield
            return
        tp = log.topic_partition
        self.abort_and_pause(tp)
        try:
            yield
            self.maybe_truncate_position(log.parent_dir, tp, log.active_segment.base_offset)
        finally:
            self.resume(tp)

    def mark_uncleanable(self, log: PartitionLog) -> None:
        """An unexpected failure: the log is left alone until the next start."""
        with self._changed:
            self._uncleanable.setdefault(log.parent_dir, set()).add(log.topic_partition)

    def forget(self, log: PartitionLog) -> None:
        """A log is gone for good: another one of its name may be cleaned, and what is counted are logs that exist."""
        with self._changed:
            self._uncleanable.get(log.parent_dir, set()).discard(log.topic_partition)

    def is_uncleanable(self, log: PartitionLog) -> bool:
        """Whether cleaning this log has failed."""
        return log.topic_partition in self._uncleanable.get(log.parent_dir, ())

    def uncleanable_count(self, log_dir: str) -> int:
        """How many logs of a directory cannot be cleaned."""
        return len(self._uncleanable.get(log_dir, ()))

    def uncleanable_bytes(self, log_dir: str) -> int:
        """The bytes of their dirty parts."""
        tps = self._uncleanable.get(log_dir)
        if not tps:
            return 0
        now, positions = self._clock.wall_ms(), self.positions([log_dir])
        total = 0
        for log in self._logs():
            if log.topic_partition in tps and log.parent_dir == log_dir:
                offsets = cleanable_offsets(log, positions.get(log.topic_partition), now)
                total += log_to_clean(log, offsets, now).cleanable_bytes
        return total

    # ---- the choice

    def grab_filthiest(self) -> LogToClean | None:
        """The log with the highest dirty ratio among those due for cleaning, now in progress; None if none is due."""
        now = self._clock.wall_ms()
        with self._changed:
            self.facts = SelectionFacts(last_run_ms=now)
            logs = [log for log in self._logs() if log.config.compact and not log.is_future and not log.offline]
            positions = self.positions(sorted({log.parent_dir for log in logs}))
            best: LogToClean | None = None
            for log in logs:
                tp = log.topic_partition
                if tp in self._states or self.is_uncleanable(log):
                    continue
                try:
                    offsets = cleanable_offsets(log, positions.get(tp), now)
                    if offsets.reset_checkpoint:
                        self.update_position(log.parent_dir, tp, offsets.first_dirty_offset)
                    target = log_to_clean(log, offsets, now)
                except OSError as error:
                    # A segment that retention has just taken away, or a failing disk that an append will notice.
                    if self._failures.is_new(tp, of_error(error)):
                        logger.warning("%s: cannot be looked at for cleaning: %s", tp, error)
                    continue
                self.facts.max_dirty_ratio = max(self.facts.max_dirty_ratio, target.dirty_ratio)
                self.facts.max_compaction_delay_ms = max(self.facts.max_compaction_delay_ms, target.compaction_delay_ms)
                if is_candidate(target) and (best is None or target.dirty_ratio > best.dirty_ratio):
                    best = target
            if best is not None:
                self._states[best.topic_partition] = IN_PROGRESS
            return best

    def done_cleaning(self, log: PartitionLog, end_offset: int | None) -> None:
        """The cleaning has ended; `end_offset` is stored as the position unless it was cancelled or failed (None)."""
        tp = log.topic_partition
        with self._changed:
            if end_offset is not None and self._states.get(tp) == IN_PROGRESS:
                self.update_position(log.parent_dir, tp, end_offset)
            self._leave(tp)

    def grab_deletable(self) -> list[PartitionLog]:
        """Logs whose old segments a cleaner thread must look after, now in progress."""
        with self._changed:
            found = [
                log
                for log in self._logs()
                if log.config.compact and log.topic_partition not in self._states and not log.offline
            ]
            for log in found:
                self._states[log.topic_partition] = IN_PROGRESS
            return found

    def done_deleting(self, logs: Iterable[PartitionLog]) -> None:
        """Undoes `grab_deletable`."""
        with self._changed:
            for log in logs:
                self._leave(log.topic_partition)

    def _leave(self, tp: TopicPartition) -> None:
        state = self._states.pop(tp, None)
        if state == ABORTED:
            # Whoever cancelled the work waits for this.
            self._states[tp] = 1
        self._changed.notify_all()
