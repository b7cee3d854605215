"""One atomic change of a consumer group: applied at once, written as one batch, taken back if the log refuses it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.groups.consumer.changes import Change, SetEpoch
from broker.groups.consumer.group import ConsumerGroup, Done, PendingWrite
from broker.groups.records import keys
from broker.groups.records.writer import GroupWriter
from network.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class Update:
    """Collects changes of one group, under its lock. Changes take effect as they are made.

    `on_undone` runs after they were taken back.
    """

    def __init__(self, group: ConsumerGroup, on_undone: Callable[[], None] = lambda: None) -> None:
        self.group = group
        self._on_undone = on_undone
        self._changes: list[Change] = []
        self._inverse: list[Change] = []

    def __bool__(self) -> bool:
        return bool(self._changes)

    def make(self, change: Change) -> None:
        self._inverse.append(change.apply(self.group))
        self._changes.append(change)

    def undo(self) -> None:
        """Take every change back, the last first."""
        while self._inverse:
            self._inverse.pop().apply(self.group)
        self._changes.clear()
        self.group.seen_layout = None
        self._on_undone()

    def write(self, writer: GroupWriter, done: Done) -> None:
        """Write what was changed; `done` hears NONE or what the client is told, when that is decided.

        Without changes `done` waits for the write before, so that nobody sees what may still be taken back. A batch
        that the log refuses is undone before the lock is given up; one whose acknowledgement fails is in the log, so
        its changes stand. But another leader may never have had it: nobody is told of them until a later batch, of the
        group's epoch if there is nothing else, is acknowledged, and with it all before (as Kafka's coordinator waits
        for the high watermark).
        """
        group = self.group
        if not self._changes and group.pending is not None:
            group.pending.waiters.append(done)
            return
        if not self._changes and not group.is_unsettled:
            done(ErrorCode.NONE)
            return
        if not self._changes:
            self.make(SetEpoch(group.epoch))
        entries = [change.record(group.group_id) for change in self._changes]
        if group.classic_record_stands:
            entries.insert(0, (keys.classic_group(group.group_id), None))
        pending = group.pending = PendingWrite(done)
        is_appending = True

        def written(error: ErrorCode) -> None:
            with group.lock:
                if is_appending and error is not ErrorCode.NONE:
                    self.undo()
                if error is ErrorCode.NONE:
                    group.classic_record_stands = group.is_unsettled = False
                else:
                    group.is_unsettled |= not is_appending
                    logger.warning("%d records of group %s: %s", len(entries), group.group_id, error.name)
                if group.pending is pending:
                    group.pending = None
                for waiter in pending.waiters:
                    waiter(error)

        writer.write_records(group.group_id, entries, written)
        is_appending = False
