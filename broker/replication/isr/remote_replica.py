"""What a leader remembers of one follower."""

from __future__ import annotations

from typing import Protocol

from log.offset_metadata import UNKNOWN_OFFSET, LogOffsetMetadata
from log.topic_partition import TopicPartition

UNKNOWN_OFFSET_METADATA = LogOffsetMetadata(UNKNOWN_OFFSET)


class Rest(Protocol):
    """That a follower's fetches leave a partition out, as there is nothing to tell it: `broker/fetching/standby.py`."""

    @property
    def fetched_ms(self) -> int:
        """When the follower last fetched."""
        ...

    def end(self, topic_partition: TopicPartition) -> None:
        """From the follower's next fetch on, and in the one that waits, the partition is looked at again."""
        ...


class RemoteReplica:
    """Progress of one follower, as its fetches show it. Guarded by the partition's lock.

    Times are milliseconds of the wall clock.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_end_offset_metadata",
        "log_start_offset",
        "rest",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_end_offset_metadata: LogOffsetMetadata = UNKNOWN_OFFSET_METADATA
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset = 0
        self.last_fetch_ms = 0
        self.last_caught_up_ms = 0
        self.broker_epoch = -1
        self.rest: Rest | None = None

    @property
    def caught_up_ms(self) -> int:
        """When it last had everything."""
        return self.last_caught_up_ms if self.rest is None else max(self.last_caught_up_ms, self.rest.fetched_ms)

    def end_rest(self, topic_partition: TopicPartition) -> None:
        """Something happens to the partition: what its fetches would have noted until now is noted."""
        rest = self.rest
        if rest is not None:
            self.rest = None
            self.last_fetch_ms = max(self.last_fetch_ms, rest.fetched_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, rest.fetched_ms)
            rest.end(topic_partition)

    def update_fetch_state(
        self,
        fetch_offset: LogOffsetMetadata,
        log_start_offset: int,
        fetch_time_ms: int,
        leader_end_offset: int,
        broker_epoch: int,
    ) -> None:
        """Note a fetch. `leader_end_offset` is the leader's log end before the read.

        Reaching the leader's end now, or reaching at last what was the end at the previous fetch, counts as having been
        caught up at that moment: a follower that is always one step behind stays in sync.
        """
        offset = fetch_offset.message_offset
        if offset < self.log_end_offset:
            self.rest = None  # it has not everything any more
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, fetch_time_ms)
        elif offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset_metadata = fetch_offset
        self.log_end_offset = offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_ms = fetch_time_ms
        self.broker_epoch = broker_epoch

    def reset(self, now_ms: int, epoch_start_offset: int, *, is_new_leader: bool, in_isr: bool) -> None:
        """Start over for a new leader epoch that begins at `epoch_start_offset`."""
        self.last_caught_up_ms = now_ms if in_isr else 0
        if is_new_leader:
            self.log_end_offset_metadata = UNKNOWN_OFFSET_METADATA
            self.log_end_offset = UNKNOWN_OFFSET
            self.log_start_offset = UNKNOWN_OFFSET
            self.last_fetch_leader_end_offset = -1
            self.last_fetch_ms = 0
            self.broker_epoch = -1
        else:
            self.last_fetch_leader_end_offset = epoch_start_offset
            self.last_fetch_ms = now_ms if in_isr else 0

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= max_lag_ms
